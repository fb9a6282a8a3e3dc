//! Quotas across restarts, and beside long and odd texts: what transcripts of a running server
//! cannot show.

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

/// Statistics that clients may write, which the server then counts on in.
fn odd_texts() -> Vec<Vec<u8>> {
    let plain = [
        "",
        ",;,",
        "count=9",
        "bytes=99,count=+5=;",
        "other=1;count=-1;b==7,count=9,,B=2,,",
        "=5;==6;a=1=2=3",
        "bytes=-9,count=-10",
        "e\u{301}=1;\u{e9}=2;\u{ff5e}=3;\u{1f600}=4;z=5",
    ];
    let mut texts: Vec<Vec<u8>> = plain.map(|text| text.as_bytes().to_vec()).to_vec();
    texts.push(b"\xff=1;\xe2\x82=2;\xed\xa0\x80=3;count=4".to_vec());
    let long = |parts: usize| {
        let name = "n".repeat(1_000_000 / parts - 9);
        (0..parts).rev().flat_map(|part| format!("{name}{part:05}=7;").into_bytes()).collect()
    };
    texts.extend([long(1), long(1000)]);
    texts
}

/// The statistics and the errors after each step of the same requests.
fn told(kind: Kind) -> Vec<String> {
    let mut server = Server::start(kind, &["enforceQuota=true", "jute.maxbuffer=4000000"]);
    let mut client = server.connect(20_000);
    let mut told = Vec::new();
    let node = |path: &str, data: &str| {
        (op::CREATE, request::create(path, Some(data.as_bytes()), mode::PERSISTENT))
    };
    let set = |path: &str, data: &[u8]| (op::SET_DATA, request::set_data(path, data, -1));
    let gone = |path: &str| (op::DELETE, request::path_version(path, -1));
    let limits = "/zookeeper/quota/q/zookeeper_limits";
    let mut steps = vec![
        vec![node("/q", "12345"), node("/zookeeper/quota/q", ""), node(limits, "count=-1")],
        vec![node(STATS, "anything")],
    ];
    for text in odd_texts() {
        steps.extend([
            vec![set(STATS, &text)],
            vec![set("/q", b"12345")],
            vec![node("/q/x", "123"), set("/q", b"1234567890"), node("/q/y", "")],
            vec![gone("/q/x"), set("/q", b""), gone("/q/y")],
            vec![set("/q", &[b'7'; 1000])],
            vec![set("/q", b"12345")],
            vec![set("/q", b"1"), set(STATS, &text), set("/q", b"12345")],
        ]);
    }
    steps.extend([
        vec![node("/q/m", "1"), gone(STATS), node("/q/n", "22"), node(STATS, "anything")],
        vec![gone(STATS), node(STATS, "count=1"), set(STATS, b"count=5;a=1"), gone("/q/m")],
        vec![gone(limits), node("/q/m", "1")],
        vec![set("/q/m", b"12")],
        vec![node(limits, "count=1;x=1"), set("/q/m", b"1234")],
        vec![set(limits, b"countHardLimit=3"), gone("/q/m")],
        vec![node("/q/m", "")],
        vec![(op::SET_ACL, request::set_acl(STATS, &[(1, "world", "anyone")]))],
        vec![set(STATS, b"count=0")],
        vec![gone("/q/n")],
    ]);
    for step in &steps {
        let errors: Vec<_> = match &step[..] {
            [(op, body)] => vec![client.call(*op, body).expect("a reply").err],
            parts => vec![client.call(op::MULTI, &request::multi(parts)).expect("a reply").err],
        };
        let reply = client.call(op::GET_DATA, &request::path_watch(STATS, false)).expect("a reply");
        let data = if reply.err == 0 { reply.data().to_vec() } else { Vec::new() };
        told.push(format!("{errors:?} {} {}", reply.err, String::from_utf8_lossy(&data)));
    }
    server.kill();
    server.restart();
    told.push(stats(&mut server.connect(20_000)));
    for _ in 0..2 {
        server.stop();
        server.restart();
    }
    told.push(stats(&mut server.connect(20_000)));
    told
}

#[test]
fn statistics_are_counted_in_any_text() {
    let (theirs, ours) = (told(Kind::Reference), told(Kind::subject()));
    assert_eq!(theirs.len(), ours.len());
    for (step, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
        assert!(theirs == ours, "step {step}: {theirs:.200}, here {ours:.200}");
    }
}
