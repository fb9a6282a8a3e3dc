//! A hundred waiters for a lock, each watching the one before it: a release wakes the next one and
//! nobody else.

use compat_tests::request::{self, mode, op};
use compat_tests::{Event, Kind, RawClient, Server};

const WAITERS: usize = 100;

/// What has come unasked: an event of a change that was answered stands in front of any later
/// reply on its connection.
fn events(client: &mut RawClient) -> Vec<Event> {
    assert_eq!(client.call(op::EXISTS, &request::path_watch("/", false)).expect("a reply").err, 0);
    std::mem::take(&mut client.events)
}

fn one_release_is_one_event(kind: Kind) {
    let server = Server::start(kind, &[]);
    let mut queue: Vec<(RawClient, String)> = Vec::new();
    for number in 0..=WAITERS {
        let mut client = server.connect(20_000);
        if number == 0 {
            let lock = request::create("/lock", None, mode::PERSISTENT);
            assert_eq!(client.call(op::CREATE, &lock).expect("a reply").err, 0);
        }
        let body = request::create("/lock/n-", None, mode::EPHEMERAL_SEQUENTIAL);
        let path = client.call(op::CREATE, &body).expect("a reply").path();
        if let Some((_, before)) = queue.last() {
            let reply = client.call(op::EXISTS, &request::path_watch(before, true));
            assert_eq!(reply.expect("a reply").err, 0, "the one before is there");
        }
        queue.push((client, path));
    }

    // By delete and by the end of the session.
    for round in 0..6 {
        let (mut holder, path) = queue.remove(0);
        if round % 2 == 0 {
            let reply = holder.call(op::DELETE, &request::path_version(&path, -1));
            assert_eq!(reply.expect("a reply").err, 0);
            assert_eq!(events(&mut holder), [], "the holder watches nothing");
        } else {
            holder.close().expect("the session closes");
        }
        for (place, (waiter, own)) in queue.iter_mut().enumerate() {
            let events = events(waiter);
            let seen: Vec<(i32, &str)> =
                events.iter().map(|event| (event.kind, event.path.as_str())).collect();
            if place == 0 {
                assert_eq!(seen, [(2, path.as_str())], "the next one, {own}");
            } else {
                assert_eq!(seen, [], "number {place}, {own}");
            }
        }
    }
    // Nothing came late.
    for (waiter, own) in &mut queue {
        assert_eq!(events(waiter), [], "{own}");
    }
}

#[test]
fn apache_zookeeper() {
    one_release_is_one_event(Kind::Reference);
}

#[test]
fn subject() {
    one_release_is_one_event(Kind::subject());
}
