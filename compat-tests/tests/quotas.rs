//! Quotas across restarts: what transcripts of a running server cannot show.

use compat_tests::request::{self, mode, op};
use compat_tests::{Kind, RawClient, Server};

const QUOTA_EXCEEDED: i32 = -125;
const STATS: &str = "/zookeeper/quota/q/zookeeper_stats";

fn call(client: &mut RawClient, op: i32, body: &[u8]) -> i32 {
    client.call(op, body).expect("a reply").err
}

fn create(client: &mut RawClient, path: &str, data: &str) -> i32 {
    call(client, op::CREATE, &request::create(path, Some(data.as_bytes()), mode::PERSISTENT))
}

fn stats(client: &mut RawClient) -> String {
    let reply = client.call(op::GET_DATA, &request::path_watch(STATS, false)).expect("a reply");
    assert_eq!(reply.err, 0);
    String::from_utf8(reply.data().to_vec()).expect("a text")
}

fn restarts(kind: Kind) {
    let mut server = Server::start(kind, &["enforceQuota=true"]);
    let mut client = server.connect(20_000);
    assert_eq!(create(&mut client, "/q", "12345"), 0);
    assert_eq!(create(&mut client, "/zookeeper/quota/q", ""), 0);
    let limits = "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3";
    assert_eq!(create(&mut client, "/zookeeper/quota/q/zookeeper_limits", limits), 0);
    assert_eq!(create(&mut client, STATS, ""), 0);
    assert_eq!(create(&mut client, "/q/x", "123"), 0);

    server.kill();
    server.restart();
    let mut client = server.connect(20_000);
    assert_eq!(stats(&mut client), "count=2,bytes=8");
    assert_eq!(create(&mut client, "/q/y", "1"), 0);
    assert_eq!(create(&mut client, "/q/z", "1"), QUOTA_EXCEEDED);
    // A client's own figures hold until the server loads a snapshot that has them.
    assert_eq!(
        call(&mut client, op::SET_DATA, &request::set_data(STATS, b"count=0,bytes=0", -1)),
        0
    );
    assert_eq!(create(&mut client, "/q/z", "1"), 0);
    assert_eq!(stats(&mut client), "count=1,bytes=1");

    for _ in 0..2 {
        server.stop();
        server.restart();
    }
    let mut client = server.connect(20_000);
    assert_eq!(stats(&mut client), "count=4,bytes=10");
    assert_eq!(create(&mut client, "/q/full", ""), QUOTA_EXCEEDED);
    assert_eq!(call(&mut client, op::DELETE, &request::path_version("/q/z", -1)), 0);
    assert_eq!(create(&mut client, "/q/full", ""), QUOTA_EXCEEDED);
    assert_eq!(call(&mut client, op::DELETE, &request::path_version("/q/y", -1)), 0);
    assert_eq!(create(&mut client, "/q/y", ""), 0);
}

#[test]
fn apache_zookeeper() {
    restarts(Kind::Reference);
}

#[test]
fn subject() {
    restarts(Kind::subject());
}
