//! Atomicity: nobody sees a part of a multi, and one that fails leaves nothing.

use std::thread;

use compat_tests::request::{self, mode, op};
use compat_tests::{RawClient, count};

use crate::subject::Subject;
use crate::{ask, ask_together, create, some_time};

const WRITERS: usize = 2;
const BROKEN: &str = "of a multi that failed";

/// Sets both znodes of the pair and moves the writer's own child, all in one.
fn whole(writer: usize, run: usize, number: usize) -> (i32, Vec<u8>) {
    let child = |number| format!("/pair/children/{writer}-{run}-{number}");
    let data = format!("{writer} {run} {number}");
    let parts = [
        (op::SET_DATA, request::set_data("/pair/left", data.as_bytes(), -1)),
        (op::DELETE, request::path_version(&child(number), -1)),
        (op::CREATE, request::create(&child(number + 1), None, mode::PERSISTENT)),
        (op::SET_DATA, request::set_data("/pair/right", data.as_bytes(), -1)),
    ];
    (op::MULTI, request::multi(&parts))
}

/// As much, and at the end a check that does not hold.
fn failing() -> (i32, Vec<u8>) {
    let broken = BROKEN.as_bytes();
    let parts = [
        (op::SET_DATA, request::set_data("/pair/left", broken, -1)),
        (op::CREATE, request::create("/pair/children/broken", None, mode::PERSISTENT)),
        (op::SET_DATA, request::set_data("/pair/right", broken, -1)),
        (op::CHECK, request::path_version("/pair/none", -1)),
    ];
    (op::MULTI, request::multi(&parts))
}

/// Writes until the server is gone; how many multis were acknowledged.
fn write(mut client: RawClient, writer: usize, run: usize) -> usize {
    for number in (0..).step_by(2) {
        let requests =
            [whole(writer, run, number), failing(), whole(writer, run, number + 1), failing()];
        let Some(replies) = ask_together(&mut client, &requests) else { return number };
        for (place, reply) in replies.iter().enumerate() {
            // The type in the first result's header; -1 is an error.
            let first = reply.body.get(..4).expect("a result");
            let failed = first == (-1_i32).to_be_bytes();
            assert_eq!((reply.err, failed), (0, place % 2 == 1), "{reply:?}");
        }
    }
    unreachable!("the numbers do not end");
}

/// Looks at the pair once; false when the server is gone. Counts in `held` how often the left one
/// did not change meanwhile, so that all was read at one instant.
fn look(client: &mut RawClient, writers: usize, held: &mut usize) -> bool {
    let read = |path| (op::GET_DATA, request::path_watch(path, false));
    let requests = [
        read("/pair/left"),
        read("/pair/right"),
        (op::GET_CHILDREN2, request::path_watch("/pair/children", false)),
        read("/pair/left"),
    ];
    let Some(replies) = ask_together(client, &requests) else { return false };
    let [left, right, children, later] = replies.as_slice() else { panic!("four replies") };
    for reply in [left, right, later] {
        assert_ne!(reply.data(), BROKEN);
    }
    // At any instant each writer has one child.
    assert_eq!(children.children().len(), writers, "{:?}", children.children());
    if left.stat() == later.stat() {
        *held += 1;
        assert_eq!(left.data(), right.data());
        assert_eq!(left.stat().mzxid, right.stat().mzxid, "one transaction set both");
        assert_eq!(left.stat().version, right.stat().version);
        assert_eq!(children.stat().pzxid, left.stat().mzxid, "and moved the child");
    }
    true
}

#[test]
fn a_multi_is_seen_whole_or_not_at_all() {
    multis_are_whole(Subject::one(&[]));
}

#[test]
fn a_multi_is_seen_whole_or_not_at_all_in_an_ensemble() {
    multis_are_whole(Subject::three(&[]));
}

fn multis_are_whole(mut server: Subject) {
    let mut client = server.connect();
    for path in ["/pair", "/pair/left", "/pair/right", "/pair/children"] {
        create(&mut client, path, "");
    }
    let (mut held, mut acknowledged) = (0, 0);
    let runs = server.crashes(count("ATOMICITY_CRASHES", 5));
    for run in 0..runs {
        let children =
            ask(&mut client, op::GET_CHILDREN, &request::path_watch("/pair/children", false));
        // In one multi: for a reader the pair and the children belong together.
        let mut parts: Vec<_> = children
            .children()
            .iter()
            .map(|name| (op::DELETE, request::path_version(&format!("/pair/children/{name}"), -1)))
            .collect();
        for writer in 0..WRITERS {
            let path = format!("/pair/children/{writer}-{run}-0");
            parts.push((op::CREATE, request::create(&path, None, mode::PERSISTENT)));
        }
        for path in ["/pair/left", "/pair/right"] {
            parts.push((op::SET_DATA, request::set_data(path, b"", -1)));
        }
        ask(&mut client, op::MULTI, &request::multi(&parts));

        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let own = server.connect();
                thread::spawn(move || write(own, writer, run))
            })
            .collect();
        let mut reader = server.connect();
        let reader = thread::spawn(move || {
            let mut held = 0;
            while look(&mut reader, WRITERS, &mut held) {}
            held
        });
        thread::sleep(some_time());
        server.kill();
        held += reader.join().expect("the reader runs until the end");
        for writer in writers {
            acknowledged += writer.join().expect("a writer runs until the end");
        }
        server.restart();
        client = server.connect();
        let mut still = 0;
        assert!(
            look(&mut client, WRITERS, &mut still),
            "what was in flight is whole, or not there"
        );
        assert_eq!(still, 1, "nobody writes now");
    }
    assert!(acknowledged > runs, "hardly anything was written");
    assert!(held > runs, "the reader hardly ever saw an instant");
    client.close().expect("the session closes");
}
