//! What ZooKeeper's programmer's guide promises, of one server and of an ensemble, seen by several
//! clients at a time, also across kill -9. `docs/guarantees.md` says which test holds which
//! promise.

mod atomicity;
mod order;
mod persistence;
mod subject;
mod watches;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use compat_tests::request::{self, mode, op};
use compat_tests::{RawClient, Reply};

const SESSION_MS: i32 = 20_000;

/// The reply of a request that must succeed.
fn ask(client: &mut RawClient, op: i32, body: &[u8]) -> Reply {
    let reply = client.call(op, body).expect("a reply");
    assert_eq!(reply.err, 0, "operation {op}");
    reply
}

fn create(client: &mut RawClient, path: &str, data: &str) {
    ask(client, op::CREATE, &request::create(path, Some(data.as_bytes()), mode::PERSISTENT));
}

fn get(client: &mut RawClient, path: &str, watch: bool) -> Reply {
    ask(client, op::GET_DATA, &request::path_watch(path, watch))
}

/// Sends requests in one segment and returns their replies; events on the way are kept.
fn ask_together(client: &mut RawClient, requests: &[(i32, Vec<u8>)]) -> Option<Vec<Reply>> {
    let mut segment = Vec::new();
    let mut xids = Vec::new();
    for (op, body) in requests {
        let (xid, frame) = client.next_request(*op, body);
        segment.extend(frame);
        xids.push(xid);
    }
    // A server that was killed is an end like any other.
    client.send_raw(&segment).ok()?;
    let mut replies = Vec::new();
    while replies.len() < xids.len() {
        let reply = client.read_reply().ok()??;
        if let Some(event) = reply.event() {
            client.events.push(event);
            continue;
        }
        assert_eq!(Some(&reply.xid), xids.get(replies.len()), "replies come in order");
        replies.push(reply);
    }
    Some(replies)
}

/// The number that is a znode's data.
fn number(reply: &Reply) -> i32 {
    String::from_utf8_lossy(&reply.data()).parse().expect("a number")
}

/// The moment of a crash, 20 to 420 ms ahead: not a wait for something, but what varies.
fn some_time() -> Duration {
    let random = RandomState::new().build_hasher().finish();
    Duration::from_millis(20 + random % 400)
}
