//! A server whose memory comes to an end.

use std::borrow::Cow;

use jute::protocol::{DeleteRequest, Request, SetWatchesRequest};
use jute::{CreateMode, ErrorCode};

use crate::client::{create, exists, get, set, until, watch_for_ever};
use crate::process::Server;

const LIMIT: u64 = 160 << 20;
const VALUE: usize = 256 << 10;

fn path(number: usize) -> String {
    format!("/{number}")
}

fn delete(path: &str) -> Request<'_> {
    Request::Delete(DeleteRequest { path: path.into(), version: -1 })
}

#[test]
fn growth_is_refused_before_memory_ends_and_goes_on_when_there_is_some() {
    let server = Server::start(&format!("memoryLimitInKb={}\n", LIMIT >> 10));
    let mut client = server.connect(10_000);
    let timed_out = ErrorCode::OperationTimeout.code();
    let value = || vec![7; VALUE];
    let most = usize::try_from(LIMIT).expect("a size") / VALUE;
    let made = (0..most)
        .find(|number| {
            let request = create(&path(*number), value(), CreateMode::Persistent);
            let err = client.call(&request).header.err;
            assert!(err == 0 || err == timed_out, "{err}");
            err == timed_out
        })
        .expect("it says no before the limit");
    assert!(made > most / 4, "{made} of {most}");
    // Nobody who waits is harmed, and what makes the tree no larger goes on.
    client.ok(&get(&path(0)));
    client.ok(&set(&path(0), vec![8; VALUE]));
    assert_eq!(client.call(&set(&path(0), vec![8; VALUE + 1])).header.err, timed_out);
    until("its log says so", || server.log().contains("memory is nearly used up"));
    assert!(server.peak_memory() < LIMIT, "{}", server.peak_memory());

    for number in 0..made {
        client.ok(&delete(&path(number)));
    }
    let again = create("/again", value(), CreateMode::Persistent);
    until("there is enough memory again", || client.call(&again).header.err == 0);
}

/// A path that no znode has, nearly as long as a frame may be.
fn long(number: usize) -> String {
    format!("/{}{number}", "0".repeat(500_000))
}

#[test]
fn watches_are_refused_before_memory_ends_and_those_that_go_make_room() {
    let server = Server::start(&format!("memoryLimitInKb={}\n", LIMIT >> 10));
    let timed_out = ErrorCode::OperationTimeout.code();
    let no_node = ErrorCode::NoNode.code();
    let mut client = server.connect(10_000);
    // What is left by others' watches, too, counts: addWatch keeps its path twice.
    let mut other = server.connect(10_000);
    let left = (0..1000)
        .find(|number| {
            let path = long(*number);
            let exists = client.call(&exists(&path, true)).header.err;
            assert!(exists == no_node || exists == timed_out, "{exists}");
            let always = other.call(&watch_for_ever(&path)).header.err;
            assert!(always == 0 || always == timed_out, "{always}");
            let is_refused = exists == timed_out && always == timed_out;
            is_refused && server.log().contains("memory is nearly used up")
        })
        .expect("it says no before the limit");
    assert!(left > 10, "{left}");
    assert!(server.peak_memory() < LIMIT, "{}", server.peak_memory());
    assert!(server.figure("watched_bytes") > 500_000);
    // Reads go on, and so does the watch that the client has already.
    assert_eq!(client.call(&exists(&long(left), false)).header.err, no_node);
    assert_eq!(client.call(&exists(&long(0), true)).header.err, no_node);
    // A client looks at no error of setWatches: it would believe that it has them.
    let mut again = server.connect(10_000);
    again.send(&[Request::SetWatches(SetWatchesRequest {
        relative_zxid: 0,
        data_watches: vec![],
        exist_watches: vec![Cow::Owned(long(1000))],
        child_watches: vec![],
    })]);
    assert!(again.receive().is_none());

    drop((client, other));
    let mut client = server.connect(10_000);
    until("there is enough memory again", || {
        client.call(&exists(&long(0), true)).header.err == no_node
    });
}
