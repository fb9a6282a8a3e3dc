//! Answers that ZooKeeper's Java client does not take, or soon will not: they are counted, and told
//! once for each path.

use jute::CreateMode;
use jute::protocol::{MultiOp, ReadOp, Request, SetDataRequest, WatchRequest};

use crate::client::{Client, create, get, set, until};
use crate::process::Server;

const TIMEOUT_MS: i32 = 10_000;
/// `ZKClientConfig.CLIENT_MAX_PACKET_LENGTH_DEFAULT`: what is longer ends the connection.
const LIMIT: usize = 1_048_575;
/// The header of a reply, the length of the data and the stat.
const BESIDE_DATA: usize = 16 + 4 + 68;

fn counted(server: &Server) -> (i64, i64) {
    let figure = |name: &str| server.figure(&format!("response_above_{name}_count"));
    (figure("half_maxbuffer"), figure("maxbuffer"))
}

/// Waits until the line is there, and says how many are.
fn told(server: &Server, level: &str, path: &str) -> usize {
    let path = format!("path=\"{path}\" ");
    let is_it = |line: &&str| {
        line.contains(&format!(" {level} ")) && line.contains("FK0514") && line.contains(&path)
    };
    until(&path, || server.log().lines().any(|line| is_it(&line)));
    server.log().lines().filter(is_it).count()
}

fn put(client: &mut Client, path: &str, answer_len: usize) {
    let data = vec![1; answer_len - BESIDE_DATA];
    client.ok(&create(path, data, CreateMode::Persistent));
}

#[test]
fn answers_above_half_and_all_of_what_clients_take_are_counted() {
    let server = Server::start("");
    let mut client = server.connect(TIMEOUT_MS);
    let cases = [
        ("/a", LIMIT / 2, (0, 0)),
        ("/b", LIMIT / 2 + 1, (1, 0)),
        ("/c", LIMIT, (2, 0)),
        ("/d", LIMIT + 1, (3, 1)),
    ];
    for (path, len, expected) in cases {
        put(&mut client, path, len);
        let reply = client.ok(&get(path));
        assert_eq!(reply.body.len() + 16, len, "{path}");
        assert_eq!(counted(&server), expected, "{path}");
    }
    for path in ["/b", "/d", "/b", "/d"] {
        client.ok(&get(path));
    }
    assert_eq!(counted(&server), (7, 3));
    for (level, path) in [("INFO", "/b"), ("INFO", "/c"), ("WARN", "/d")] {
        until("its log says so once", || told(&server, level, path) == 1);
    }
    let log = server.log();
    assert!(!log.contains("path=\"/a\""), "{log}");
    let line = log.lines().find(|line| line.contains("path=\"/d\"")).expect("a line");
    let address = client.stream.local_addr().expect("an address");
    assert!(line.contains(&format!("address={address}")), "{line}");
    assert!(line.contains(&format!("bytes={}", LIMIT + 1)), "{line}");
}

#[test]
fn they_are_wherever_they_are_made() {
    const CHILDREN: usize = 5_000;
    const LONG: usize = 300;
    let server = Server::start("");
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/x", vec![], CreateMode::Persistent));
    put(&mut client, "/behind", LIMIT + 1);
    // After a write of its own connection: who orders answers.
    client.send(&[set("/x", vec![1]), get("/behind")]);
    client.receive_all(2).iter().for_each(|reply| assert_eq!(reply.header.err, 0));
    assert_eq!(counted(&server), (1, 1));
    assert_eq!(told(&server, "WARN", "/behind"), 1);

    put(&mut client, "/part", LIMIT / 2);
    client.ok(&Request::MultiRead(vec![
        ReadOp::GetData("/part".into()),
        ReadOp::GetData("/part".into()),
    ]));
    assert_eq!(counted(&server), (2, 2));
    assert_eq!(told(&server, "WARN", "/part"), 1);

    // A list that is made in pieces.
    client.ok(&create("/p", vec![], CreateMode::Persistent));
    for first in (0..CHILDREN).step_by(500) {
        let child = |number| format!("/p/{number:0LONG$}");
        let requests: Vec<Request<'_>> = (first..first + 500)
            .map(|number| create(&child(number), vec![], CreateMode::Persistent))
            .collect();
        client.send(&requests);
        client.receive_all(500).iter().for_each(|reply| assert_eq!(reply.header.err, 0));
    }
    client.ok(&Request::GetChildren(WatchRequest { path: "/p".into(), watch: false }));
    assert_eq!(counted(&server), (3, 3));
    assert_eq!(told(&server, "WARN", "/p"), 1);

    // A request of 300 KB has an answer of more than twice that.
    let part = || MultiOp::SetData(SetDataRequest { path: "/x".into(), data: None, version: -1 });
    client.ok(&Request::Multi((0..10_000).map(|_| part()).collect()));
    assert_eq!(counted(&server), (4, 3));
    assert_eq!(told(&server, "INFO", "-"), 1);
}
