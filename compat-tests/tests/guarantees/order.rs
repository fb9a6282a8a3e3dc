//! Sequential consistency and timeliness: the order of a session's updates, what a read shows,
//! zxids.

use std::collections::BTreeSet;
use std::thread;

use bytes::BufMut;
use compat_tests::load::{Load, Writes};
use compat_tests::request::{self, op};
use compat_tests::{RawClient, Reply, count};

use crate::subject::Subject;
use crate::{ask, ask_together, create, get, number};

const WRITERS: usize = 4;
const BATCHES: usize = 100;

fn set(path: &str, number: i32) -> (i32, Vec<u8>) {
    (op::SET_DATA, request::set_data(path, number.to_string().as_bytes(), -1))
}

/// Sets `left`, then `right`, to 1, 2, 3 ...; many in flight.
fn write_in_turn(client: &mut RawClient, left: &str, right: &str) {
    let mut last = 0;
    for batch in 0..BATCHES {
        let first = i32::try_from(batch * 8).expect("small");
        let requests: Vec<_> =
            (first + 1..=first + 8).flat_map(|n| [set(left, n), set(right, n)]).collect();
        for (place, reply) in
            ask_together(client, &requests).expect("replies").into_iter().enumerate()
        {
            assert_eq!(reply.err, 0);
            assert_eq!(reply.zxid, reply.stat().mzxid);
            assert!(reply.zxid > last, "a later update has a later zxid");
            last = reply.zxid;
            let updates = first + i32::try_from(place / 2).expect("small") + 1;
            assert_eq!(reply.stat().version, updates, "none was left out or overtaken");
        }
    }
}

#[test]
fn updates_take_effect_in_the_order_of_their_sending() {
    updates_are_in_order(Subject::one(&[]));
}

#[test]
fn updates_take_effect_in_the_order_of_their_sending_in_an_ensemble() {
    updates_are_in_order(Subject::three(&[]));
}

fn updates_are_in_order(server: Subject) {
    let mut client = server.connect();
    create(&mut client, "/order", "");
    let mut writers = Vec::new();
    let mut pairs = Vec::new();
    for writer in 0..WRITERS {
        let (left, right) = (format!("/order/{writer}-left"), format!("/order/{writer}-right"));
        create(&mut client, &left, "0");
        create(&mut client, &right, "0");
        pairs.push((left.clone(), right.clone()));
        let mut own = server.connect();
        writers.push(thread::spawn(move || {
            write_in_turn(&mut own, &left, &right);
            own.close().expect("the session closes");
        }));
    }
    let mut distinct = BTreeSet::new();
    while writers.iter().any(|each| !each.is_finished()) {
        for (left, right) in &pairs {
            let read = |path| (op::GET_DATA, request::path_watch(path, false));
            let replies = ask_together(&mut client, &[read(right), read(left)]).expect("replies");
            let [right, left] = [0, 1].map(|n| replies.get(n).map(number).expect("two replies"));
            assert!(left >= right, "the right is {right}, the left before it only {left}");
            distinct.insert(left);
        }
    }
    for writer in writers {
        writer.join().expect("a writer runs through");
    }
    assert!(distinct.len() > 10, "hardly a read in the middle of it: {distinct:?}");
    client.close().expect("the session closes");
}

#[test]
fn a_read_shows_what_anyone_had_acknowledged() {
    reads_show_what_was_acknowledged(Subject::one(&[]));
}

#[test]
fn a_read_shows_what_anyone_had_acknowledged_in_an_ensemble() {
    reads_show_what_was_acknowledged(Subject::three(&[]));
}

fn reads_show_what_was_acknowledged(server: Subject) {
    let load = Load::start(server.address(), 3, 0, Writes::Sets);
    let mut clients: Vec<RawClient> = (0..WRITERS).map(|_| server.connect()).collect();
    for (turn, n) in (0..clients.len()).cycle().zip(0..count("ORDER_ROUNDS", 1000)) {
        let writer = clients.get_mut(turn).expect("one of them");
        if n == 0 {
            create(writer, "/seen", "");
        }
        let body = request::set_data("/seen", n.to_string().as_bytes(), -1);
        let written = ask(writer, op::SET_DATA, &body).stat();
        for reader in &mut clients {
            let reply = server.read(reader, "/seen");
            assert_eq!(number(&reply).to_string(), n.to_string(), "in turn {turn}");
            assert_eq!(reply.stat(), written);
            assert!(reply.zxid >= written.mzxid, "a reply is as new as what it shows");
        }
    }
    for client in clients {
        client.close().expect("the session closes");
    }
    assert_eq!(load.stop().versions.len(), 3, "the server was under load");
}

/// All kinds of requests in one segment, and a ping among them.
fn mixed(client: &mut RawClient, own: &str, others: &str, number: usize) -> usize {
    let text = number.to_string();
    let mut requests = vec![
        (op::GET_DATA, request::path_watch(others, true)),
        (op::SET_DATA, request::set_data(own, text.as_bytes(), -1)),
        (op::GET_DATA, request::path_watch(own, false)),
        // Two that are refused.
        (op::SET_DATA, request::set_data(own, b"x", i32::MAX)),
        (op::CREATE, request::create(own, None, 0)),
        (op::EXISTS, request::path_watch("/none", false)),
        (op::GET_CHILDREN, request::path_watch("/", false)),
        (op::MULTI, request::multi(&[(op::SET_DATA, request::set_data(own, b"y", -1))])),
        (op::SYNC, request::path(own)),
    ];
    requests.rotate_left(number % 9);
    let mut segment = Vec::new();
    for (op, body) in &requests {
        segment.extend(client.next_request(*op, body).1);
    }
    segment.put_i32(8);
    segment.put_i32(-2);
    segment.put_i32(op::PING);
    client.send_raw(&segment).expect("sent");
    requests.len() + 1
}

#[test]
fn zxids_never_fall_in_a_session() {
    zxids_do_not_fall(Subject::one(&[]));
}

#[test]
fn zxids_never_fall_in_a_session_in_an_ensemble() {
    zxids_do_not_fall(Subject::three(&[]));
}

fn zxids_do_not_fall(mut server: Subject) {
    let mut client = server.connect();
    create(&mut client, "/own", "0");
    let mut last = 0;
    let mut events = 0;
    for run in 0..server.crashes(count("ORDER_CRASHES", 3)) {
        let load = Load::start(server.address(), 3, run, Writes::Sets);
        for number in 0..300 {
            let mut due = mixed(&mut client, "/own", &format!("/load/{run}/0"), number);
            while due > 0 {
                let reply: Reply = client.read_reply().expect("a frame").expect("a reply");
                assert!(reply.zxid >= last, "{reply:?} behind zxid {last:x}");
                last = reply.zxid;
                let is_event = reply.event().is_some();
                due -= usize::from(!is_event);
                events += usize::from(is_event);
            }
            // The same session on another connection, which must not be older.
            if number % 50 == 49 {
                client = again(&server, &client, last);
            }
        }
        load.expect_end();
        server.kill();
        load.stop();
        server.restart();
        client = again(&server, &client, last);
    }
    let reply = get(&mut client, "/own", false);
    assert!(reply.zxid >= last, "{reply:?} behind zxid {last:x}");
    assert!(events > 0, "no event was among them");
    client.close().expect("the session closes");
}

/// The session on a new connection.
fn again(server: &Subject, client: &RawClient, last: i64) -> RawClient {
    server.again(client.session.as_ref().expect("it has a session"), last)
}
