//! What a start makes of what was written under other conditions.

use std::fs;

use bytes::BytesMut;
use jute::CreateMode;

use crate::client::{create, get, request_frame};
use crate::process::Server;

const TIMEOUT_MS: i32 = 10_000;

/// ZOOKEEPER-3496, ZOOKEEPER-2101: what was written under a large `jute.maxbuffer` could not be read at the next start
/// under a smaller one, and what `jute.maxbuffer` let in by a hair not at all.
#[test]
fn what_a_larger_limit_let_in_is_read_under_a_smaller_one() {
    const LARGE: usize = 3 << 20;
    let mut server = Server::prepare("jute.maxbuffer=4194304");
    server.run();
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/large", vec![7; LARGE], CreateMode::Persistent));
    // As large as the limit lets in: the transaction has more bytes than the request.
    let request = create("/limit", Vec::new(), CreateMode::Persistent);
    let mut frame = BytesMut::new();
    request_frame(&mut frame, 1, &request);
    let most = (4 << 20) - (frame.len() - 4);
    client.ok(&create("/limit", vec![8; most], CreateMode::Persistent));
    server.signal("KILL");
    server.wait();

    let config = fs::read_to_string(server.config()).expect("zoo.cfg");
    fs::write(server.config(), config.replace("jute.maxbuffer=4194304", "jute.maxbuffer=1000"))
        .expect("zoo.cfg");
    // From the log, and then from a snapshot.
    for _ in 0..2 {
        server.run();
        let mut client = server.connect(TIMEOUT_MS);
        for (path, len) in [("/large", LARGE), ("/limit", most)] {
            let body = client.ok(&get(path)).body;
            let found = u32::from_be_bytes(body[..4].try_into().expect("a length"));
            assert_eq!(found as usize, len, "{path}");
        }
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
    }
}
