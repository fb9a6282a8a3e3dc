//! The bounds that an operator sets against too much at once: who is turned away, each on both servers.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use compat_tests::request::{self, mode, op};
use compat_tests::{Kind, RawClient, Server, four_letter_words};

const TIMEOUT: i32 = 10_000;

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
