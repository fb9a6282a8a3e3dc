//! Single system image and reliability across kill -9: what anyone has seen stays, and no
//! conditional update is lost or done twice.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use compat_tests::load::{Load, Writes};
use compat_tests::request::{self, op};
use compat_tests::{RawClient, Session, count};

use crate::subject::Subject;
use crate::{ask_together, create, get, number, some_time};

const WRITERS: usize = 4;

/// What one session has seen of other sessions' updates.
#[derive(Debug)]
struct Seen {
    session: Session,
    /// The greatest zxid of any frame.
    last: i64,
    /// Path to its greatest version.
    versions: BTreeMap<String, i32>,
    events: usize,
}

/// Reads and watches the writers' znodes until the server is gone.
fn observe(mut client: RawClient, run: usize) -> Seen {
    let session = client.session.clone().expect("it has a session");
    let mut seen = Seen { session, last: 0, versions: BTreeMap::new(), events: 0 };
    loop {
        for writer in 0..WRITERS {
            let path = format!("/load/{run}/{writer}");
            let read = (op::GET_DATA, request::path_watch(&path, true));
            let Some(replies) = ask_together(&mut client, &[read]) else { return seen };
            for reply in replies {
                assert_eq!(reply.err, 0, "{path}");
                let (zxid, version) = (reply.zxid, reply.stat().version);
                let known = seen.versions.entry(path.clone()).or_insert(0);
                assert!(version >= *known, "{path} went from {known} back to {version}");
                *known = version;
                assert!(zxid >= seen.last, "zxid {zxid:x} behind {:x}", seen.last);
                seen.last = zxid;
            }
            for event in client.events.drain(..) {
                seen.events += 1;
                seen.last = seen.last.max(event.zxid);
            }
        }
    }
}

/// The same session must find all of it on the server that was started again.
fn check(server: &Subject, seen: &Seen) {
    let mut client = server.again(&seen.session, seen.last);
    for (path, version) in &seen.versions {
        let reply = get(&mut client, path, false);
        let now = reply.stat().version;
        assert!(now >= *version, "{path}: version {version} was seen, it has {now}");
        assert_eq!(number(&reply), now, "{path}");
        assert!(reply.zxid >= seen.last);
    }
    client.close().expect("the session closes");
}

#[test]
fn what_anyone_has_seen_survives_kill_nine() {
    what_was_seen_stays(Subject::one(&["snapCount=1000"]));
}

#[test]
fn what_anyone_has_seen_survives_kill_nine_in_an_ensemble() {
    what_was_seen_stays(Subject::three(&["snapCount=1000"]));
}

fn what_was_seen_stays(mut server: Subject) {
    let rounds = server.crashes(count("SEEN_CRASHES", 8));
    let (mut read, mut events) = (0, 0);
    for run in 0..rounds {
        let load = Load::start(server.address(), WRITERS, run, Writes::Sets);
        let observers: Vec<_> = (0..3)
            .map(|_| {
                let client = server.connect();
                thread::spawn(move || observe(client, run))
            })
            .collect();
        thread::sleep(some_time());
        load.expect_end();
        server.kill();
        let written = load.stop();
        let seen: Vec<Seen> =
            observers.into_iter().map(|each| each.join().expect("it runs until the end")).collect();
        server.restart();
        for each in &seen {
            check(&server, each);
            read += each.versions.values().filter(|version| **version > 0).count();
            events += each.events;
        }
        let mut client = server.connect();
        written.check(&mut client);
        client.close().expect("the session closes");
    }
    assert!(read > rounds, "hardly an update was seen");
    assert!(events > rounds, "hardly an event was seen");
}

/// Adds one again and again, on the version it has read; which versions were acknowledged.
fn increment(mut client: RawClient) -> (BTreeSet<i32>, usize) {
    let mut done = BTreeSet::new();
    let mut refused = 0;
    loop {
        let read = (op::GET_DATA, request::path_watch("/counter", false));
        let Some(replies) = ask_together(&mut client, &[read]) else { return (done, refused) };
        let [reply] = replies.as_slice() else { panic!("one reply") };
        let (value, version) = (number(reply), reply.stat().version);
        assert_eq!(value, version, "each update has added one");
        let body = request::set_data("/counter", (value + 1).to_string().as_bytes(), version);
        let Some(replies) = ask_together(&mut client, &[(op::SET_DATA, body)]) else {
            return (done, refused);
        };
        let [reply] = replies.as_slice() else { panic!("one reply") };
        match reply.err {
            0 => assert!(done.insert(reply.stat().version), "twice the same version"),
            -103 => refused += 1,
            other => panic!("error {other}"),
        }
    }
}

#[test]
fn no_conditional_update_is_lost_or_done_twice() {
    conditional_updates_are_done_once(Subject::one(&[]));
}

#[test]
fn no_conditional_update_is_lost_or_done_twice_in_an_ensemble() {
    conditional_updates_are_done_once(Subject::three(&[]));
}

fn conditional_updates_are_done_once(mut server: Subject) {
    let mut client = server.connect();
    create(&mut client, "/counter", "0");
    let mut done = BTreeSet::new();
    let (mut in_flight, mut refused) = (0, 0);
    for _ in 0..server.crashes(count("COUNTER_CRASHES", 5)) {
        let clients: Vec<_> = (0..WRITERS)
            .map(|_| {
                let own = server.connect();
                thread::spawn(move || increment(own))
            })
            .collect();
        thread::sleep(some_time());
        server.kill();
        for each in clients {
            let (own, lost) = each.join().expect("it runs until the end");
            refused += lost;
            for version in own {
                assert!(done.insert(version), "two clients made version {version}");
            }
            in_flight += 1;
        }
        server.restart();
        client = server.connect();
        let reply = get(&mut client, "/counter", false);
        let value = number(&reply);
        assert_eq!(value, reply.stat().version);
        assert!(done.last().is_none_or(|last| *last <= value), "{value} after {:?}", done.last());
        // Each number is somebody's: acknowledged, or of one whose answer was lost.
        let nobodys = (1..=value).filter(|number| !done.contains(number)).count();
        assert!(nobodys <= in_flight, "{nobodys} of {value} were acknowledged to nobody");
    }
    assert!(done.len() > 20 && refused > 0, "{} done, {refused} refused", done.len());
    client.close().expect("the session closes");
}
