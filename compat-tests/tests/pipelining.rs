//! Order within a session while others write: set, get with a watch, set, in one TCP segment.

use compat_tests::load::{Load, Writes};
use compat_tests::request::{self, mode, op};
use compat_tests::{Kind, RawClient, Reply, Server, count};

const PATH: &str = "/pipelined";

/// What one round must bring, whatever else the server has to do.
fn round(client: &mut RawClient, number: usize) {
    let (first, second) = (format!("{number} first"), format!("{number} second"));
    let (set_first, mut segment) =
        client.next_request(op::SET_DATA, &request::set_data(PATH, first.as_bytes(), -1));
    let (get, bytes) = client.next_request(op::GET_DATA, &request::path_watch(PATH, true));
    segment.extend(bytes);
    let (set_second, bytes) =
        client.next_request(op::SET_DATA, &request::set_data(PATH, second.as_bytes(), -1));
    segment.extend(bytes);
    client.send_raw(&segment).expect("sent");
    let mut next = || -> Reply { client.read_reply().expect("a frame").expect("a reply") };
    let (one, two, three, four) = (next(), next(), next(), next());

    assert_eq!((one.xid, one.err), (set_first, 0), "round {number}");
    assert_eq!((two.xid, two.err), (get, 0), "round {number}");
    assert_eq!(two.data(), first, "round {number}: get sees the first set and not the second");
    assert_eq!(two.stat(), one.stat(), "round {number}");
    assert!(two.zxid >= one.zxid, "round {number}");
    let event = three.event().unwrap_or_else(|| panic!("round {number}: {three:?} is no event"));
    assert_eq!((event.kind, event.path.as_str()), (3, PATH), "round {number}");
    assert_eq!((four.xid, four.err), (set_second, 0), "round {number}");
    assert_eq!(event.zxid, four.stat().mzxid, "round {number}: the event is the second set's");
    assert!(two.zxid < four.zxid, "round {number}: get's reply comes from before the second set");
}

#[test]
fn a_read_between_two_writes_sees_the_first_and_watches_the_second() {
    let server = Server::start(Kind::subject(), &[]);
    let load = Load::start(server.address(), 3, 0, Writes::Sets);
    let mut client = server.connect(20_000);
    let body = request::create(PATH, None, mode::PERSISTENT);
    assert_eq!(client.call(op::CREATE, &body).expect("a reply").err, 0);
    for number in 0..count("PIPELINING_ROUNDS", 10_000) {
        round(&mut client, number);
    }
    client.close().expect("the session closes");
    let written = load.stop();
    assert_eq!(written.versions.len(), 3, "the server was under load");
}
