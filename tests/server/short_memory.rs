//! A server whose memory comes to an end.

use jute::protocol::{DeleteRequest, Request};
use jute::{CreateMode, ErrorCode};

use crate::client::{create, get, set, until};
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
    assert!(server.log().contains("memory is nearly used up"), "{}", server.log());
    assert!(server.peak_memory() < LIMIT, "{}", server.peak_memory());

    for number in 0..made {
        client.ok(&delete(&path(number)));
    }
    let again = create("/again", value(), CreateMode::Persistent);
    until("there is enough memory again", || client.call(&again).header.err == 0);
}
