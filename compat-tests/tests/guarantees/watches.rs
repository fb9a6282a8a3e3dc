//! Watches: an event before the data that it tells of, in the order of the changes, each once.

use std::thread;
use std::time::{Duration, Instant};

use compat_tests::load::{Load, Writes};
use compat_tests::request::{self, mode, op};
use compat_tests::{Event, RawClient, Stat, count};

use crate::subject::Subject;
use crate::{ask, ask_together, create, get};

const CREATED: i32 = 1;
const DELETED: i32 = 2;
const DATA_CHANGED: i32 = 3;
const CHILDREN_CHANGED: i32 = 4;
/// The load changes something by then, also on a machine whose disk hangs for seconds.
const NEWS: Duration = Duration::from_secs(60);
/// addWatch's mode for a znode and everything below.
const RECURSIVE: i32 = 1;

/// Watches `path` by a read, then reads without a watch until something is new: the event must
/// have come before. `newest` says of a reply's stat which zxid the event belongs to.
fn event_before_the_news(
    client: &mut RawClient,
    read: i32,
    path: &str,
    kind: i32,
    newest: fn(&Stat) -> i64,
) {
    assert_eq!(client.events, [], "no event without a watch");
    let watched = newest(&ask(client, read, &request::path_watch(path, true)).stat());
    let deadline = Instant::now() + NEWS;
    let now = loop {
        assert!(Instant::now() < deadline, "{path} changes no more: has the load ended?");
        let now = newest(&ask(client, read, &request::path_watch(path, false)).stat());
        if now != watched {
            break now;
        }
        assert!(client.events.len() < 2, "{:?}", client.events);
    };
    let events = std::mem::take(&mut client.events);
    let [event] = events.as_slice() else {
        panic!("{path} was new at {now:x}, watched at {watched:x}, and the events were {events:?}")
    };
    assert_eq!((event.kind, event.path.as_str()), (kind, path));
    assert!(watched < event.zxid && event.zxid <= now, "{event:?} between {watched:x} and {now:x}");
}

#[test]
fn an_event_comes_before_the_data_it_tells_of() {
    events_come_before_the_data(Subject::one(&[]));
}

#[test]
fn an_event_comes_before_the_data_it_tells_of_in_an_ensemble() {
    events_come_before_the_data(Subject::three(&[]));
}

fn events_come_before_the_data(server: Subject) {
    let load = Load::start(server.address(), 3, 0, Writes::SetsAndCreates);
    let mut client = server.connect();
    for _ in 0..count("WATCH_ROUNDS", 200) {
        event_before_the_news(&mut client, op::GET_DATA, "/load/0/0", DATA_CHANGED, |stat| {
            stat.mzxid
        });
        event_before_the_news(
            &mut client,
            op::GET_CHILDREN2,
            "/load/0/1",
            CHILDREN_CHANGED,
            |stat| stat.pzxid,
        );
    }
    client.close().expect("the session closes");
    load.stop();
}

/// Creates, sets and deletes below `parent`, many in flight; an event as it should come for each.
fn change(client: &mut RawClient, parent: &str, rounds: usize) -> Vec<Event> {
    let mut expected = Vec::new();
    for round in 0..rounds {
        let path = format!("{parent}/{round}");
        let requests = [
            (op::CREATE, request::create(&path, None, mode::PERSISTENT)),
            (op::SET_DATA, request::set_data(&path, b"x", 0)),
            // Refused, so no event.
            (op::SET_DATA, request::set_data(&path, b"y", 0)),
            (op::DELETE, request::path_version(&path, 1)),
        ];
        let replies = ask_together(client, &requests).expect("replies");
        let errors: Vec<i32> = replies.iter().map(|reply| reply.err).collect();
        assert_eq!(errors, [0, 0, -103, 0], "{path}");
        let kinds = [Some(CREATED), Some(DATA_CHANGED), None, Some(DELETED)];
        for (reply, kind) in replies.iter().zip(kinds) {
            let event =
                kind.map(|kind| Event { zxid: reply.zxid, kind, state: 3, path: path.clone() });
            expected.extend(event);
        }
    }
    expected
}

#[test]
fn events_come_in_the_order_of_the_changes_and_none_is_left_out() {
    events_are_in_order(Subject::one(&[]));
}

#[test]
fn events_come_in_the_order_of_the_changes_and_none_is_left_out_in_an_ensemble() {
    events_are_in_order(Subject::three(&[]));
}

fn events_are_in_order(server: Subject) {
    let mut watcher = server.connect();
    create(&mut watcher, "/watched", "");
    ask(&mut watcher, op::ADD_WATCH, &request::path_kind("/watched", RECURSIVE));
    let rounds = count("WATCH_ROUNDS", 200);
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let mut client = server.connect();
            thread::spawn(move || {
                let parent = format!("/watched/{writer}");
                create(&mut client, &parent, "");
                let created = get(&mut client, &parent, false).stat().czxid;
                let mut expected =
                    vec![Event { zxid: created, kind: CREATED, state: 3, path: parent.clone() }];
                expected.extend(change(&mut client, &parent, rounds));
                client.close().expect("the session closes");
                expected
            })
        })
        .collect();
    let mut expected: Vec<Event> = Vec::new();
    for writer in writers {
        expected.extend(writer.join().expect("a writer runs through"));
    }
    expected.sort_by_key(|event| event.zxid);

    // All of it was acknowledged: it stands before a later reply.
    server.read(&mut watcher, "/watched");
    assert_eq!(watcher.events.len(), expected.len());
    for (found, due) in watcher.events.iter().zip(&expected) {
        assert_eq!(found, due);
    }
    watcher.close().expect("the session closes");
}

#[test]
fn what_was_missed_is_told_when_the_watches_are_set_again() {
    missed_changes_are_told(&Subject::one(&[]));
}

#[test]
fn what_was_missed_is_told_when_the_watches_are_set_again_in_an_ensemble() {
    missed_changes_are_told(&Subject::three(&[]));
}

fn missed_changes_are_told(server: &Subject) {
    let mut writer = server.connect();
    for path in ["/data", "/gone", "/children", "/same"] {
        create(&mut writer, path, "");
    }
    let client = server.connect();
    let session = client.session.clone().expect("it has a session");
    let last = get(&mut writer, "/same", false).zxid;
    drop(client);
    ask(&mut writer, op::SET_DATA, &request::set_data("/data", b"x", -1));
    ask(&mut writer, op::DELETE, &request::path_version("/gone", -1));
    for path in ["/children/one", "/made"] {
        create(&mut writer, path, "");
    }
    // On the next server, which has to know of all that by then.
    let mut client = server.again(&session, last);
    server.read(&mut client, "/same");
    let watches =
        request::set_watches(last, &["/data", "/gone", "/same"], &["/made"], &["/children"]);
    ask(&mut client, op::SET_WATCHES, &watches);
    let mut told: Vec<(i32, &str)> =
        client.events.iter().map(|event| (event.kind, event.path.as_str())).collect();
    told.sort_unstable();
    let missed = [
        (CREATED, "/made"),
        (DELETED, "/gone"),
        (DATA_CHANGED, "/data"),
        (CHILDREN_CHANGED, "/children"),
    ];
    assert_eq!(told, missed);
    // The one whose znode is the same is set.
    client.events.clear();
    ask(&mut writer, op::SET_DATA, &request::set_data("/same", b"x", -1));
    server.read(&mut client, "/same");
    let told: Vec<(i32, &str)> =
        client.events.iter().map(|event| (event.kind, event.path.as_str())).collect();
    assert_eq!(told, [(DATA_CHANGED, "/same")]);
    client.close().expect("the session closes");
    writer.close().expect("the session closes");
}
