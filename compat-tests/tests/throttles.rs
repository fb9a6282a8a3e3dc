//! The bounds that an operator sets against too much at once: who is turned away, each on both
//! servers.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::request::{self, mode, op};
use compat_tests::{ConnectRequest, Kind, RawClient, Server, four_letter_words};

const TIMEOUT: i32 = 10_000;
/// ThrottledOp.
const THROTTLED: i32 = -127;

fn both(config: &[&str], check: fn(&Server)) {
    for kind in [Kind::Reference, Kind::subject()] {
        check(&Server::start(kind, config));
    }
}

/// A figure of `mntr`.
fn figure(server: &Server, name: &str) -> String {
    let text = four_letter_words::ask(server.address(), "mntr").expect("mntr is answered");
    let lines: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("zk_")?.split_once('\t')).collect();
    (*lines.get(name).unwrap_or_else(|| panic!("no {name} in {text}"))).to_owned()
}

/// Waits for the end of a connection; a reset is one, too.
fn ended(client: &mut RawClient) {
    match client.read_frame() {
        Ok(None) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        other => panic!("an end is due, not {other:?}"),
    }
}

fn create(client: &mut RawClient, path: &str, len: usize) {
    let data = vec![b'x'; len];
    let reply = client.call(op::CREATE, &request::create(path, Some(&data), mode::PERSISTENT));
    assert_eq!(reply.expect("a reply").err, 0, "{path}");
}

#[test]
fn a_large_request_beyond_the_budget_ends_its_connection() {
    both(&["largeRequestThreshold=1000", "largeRequestMaxBytes=2000"], |server| {
        let mut client = server.connect(TIMEOUT);
        // Each gives back what it took, or the second would be beyond the budget.
        for number in 0..3 {
            create(&mut client, &format!("/n{number}"), 1500);
        }
        assert_eq!(figure(server, "large_requests_rejected"), "0", "{:?}", server.kind());
        let body = request::create("/large", Some(&[b'x'; 2000]), mode::PERSISTENT);
        client.send(op::CREATE, &body).expect("sent");
        ended(&mut client);
        // By its length alone: the rest is not waited for.
        let mut announced = server.connect(TIMEOUT);
        announced.send_raw(&2001_i32.to_be_bytes()).expect("sent");
        ended(&mut announced);
        assert_eq!(figure(server, "large_requests_rejected"), "2", "{:?}", server.kind());
        let mut other = server.connect(TIMEOUT);
        let reply = other.call(op::EXISTS, &request::path_watch("/large", false));
        assert_eq!(reply.expect("a reply").err, -101);
        create(&mut other, "/other", 1500);
    });
}

#[test]
fn sessions_cost_tokens_and_an_empty_bucket_turns_away_by_lot() {
    let config = [
        // Eight, of which none comes back.
        "connection_throttle_tokens=2",
        "connection_throttle_fill_count=0",
        "connection_throttle_weight_enabled=true",
        "connection_throttle_global_session_weight=4",
        "connection_throttle_freeze_time=0",
        "connection_throttle_drop_increase=1",
    ];
    both(&config, |server| {
        let open = |request: &ConnectRequest| {
            // The lot changes at most once a millisecond.
            thread::sleep(Duration::from_millis(5));
            RawClient::open(server.address(), request)
        };
        let new = ConnectRequest::new(TIMEOUT);
        let (_first, session) = open(&new).expect("four tokens of eight");
        let again = ConnectRequest::again(&session);
        let _second = open(&again).expect("two tokens of four");
        open(&new).expect_err("two tokens are left");
        assert_eq!(figure(server, "connection_drop_probability"), "0.0", "{:?}", server.kind());
        let mut third = open(&again).expect("the last two").0;
        open(&again).expect_err("none is left");
        assert_eq!(figure(server, "connection_drop_probability"), "1.0", "{:?}", server.kind());
        for (name, value) in [
            ("connection_rejected", "2"),
            ("connection_request_count", "3"),
            ("min_connection_token_deficit", "4"),
            ("max_connection_token_deficit", "8"),
            ("sum_connection_token_deficit", "18"),
        ] {
            assert_eq!(figure(server, name), value, "{:?}, {name}", server.kind());
        }
        let reply = third.call(op::EXISTS, &request::path_watch("/", false));
        assert_eq!(reply.expect("a reply").err, 0);
    });
}

#[test]
fn what_waits_for_its_turn_too_long_is_refused_and_not_done() {
    const CLIENTS: usize = 64;
    const REQUESTS: usize = 10;
    let config = [
        "throttled_op_wait_time=1",
        "request_throttle_max_requests=1",
        "request_throttle_stall_time=1",
    ];
    both(&config, |server| {
        let mut clients: Vec<RawClient> = (0..CLIENTS).map(|_| server.connect(TIMEOUT)).collect();
        // Alone it does not wait; on a machine that does other things, it may.
        let deadline = Instant::now() + Duration::from_secs(20);
        let body = request::create("/n", None, mode::PERSISTENT);
        while clients[0].call(op::CREATE, &body).expect("a reply").err == THROTTLED {
            assert!(Instant::now() < deadline, "{:?}: all is throttled", server.kind());
        }
        let before: usize = figure(server, "throttled_ops").parse().expect("a number");
        // One of all is in process, so that the others wait for its sync.
        for client in &mut clients {
            for _ in 0..REQUESTS {
                client.send(op::SET_DATA, &request::set_data("/n", b"x", -1)).expect("sent");
            }
        }
        let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
        for client in &mut clients {
            for _ in 0..REQUESTS {
                let reply = client.read_reply().expect("a reply").expect("no end");
                *counts.entry(reply.err).or_default() += 1;
            }
        }
        let count = |err| counts.get(&err).copied().unwrap_or_default();
        assert_eq!(count(0) + count(THROTTLED), CLIENTS * REQUESTS, "{counts:?}");
        assert!(count(THROTTLED) > 0, "{:?}: none waited", server.kind());
        let after: usize = figure(server, "throttled_ops").parse().expect("a number");
        assert_eq!(after - before, count(THROTTLED), "{:?}", server.kind());
        let get = request::path_watch("/n", false);
        let version = loop {
            let reply = clients[0].call(op::EXISTS, &get).expect("a reply");
            if reply.err == 0 {
                break reply.stat().version;
            }
            assert!(Instant::now() < deadline, "{:?}: {reply:?}", server.kind());
        };
        assert_eq!(usize::try_from(version).expect("a count"), count(0), "{:?}", server.kind());
    });
}
