//! The audit log: the same operations leave the same lines as on Apache ZooKeeper.

use std::collections::BTreeMap;

use compat_tests::request::{self, mode, op};
use compat_tests::{Kind, RawClient, Server};

const SUPER: &str = "super:zUZ0bpqYS7FucDXsnUgxOWTto1s=";
const SUPER_PASSWORD: &[u8] = b"super:root";
const BOB: &[u8] = b"bob:secret";

fn call(client: &mut RawClient, op: i32, body: &[u8]) -> i32 {
    client.call(op, body).expect("a reply").err
}

/// Whatever ends up in the log, good and bad.
fn work(server: &Server) {
    let world = [(31, "world", "anyone")];
    let bobs = [(31, "auth", ""), (1, "ip", "127.0.0.1")];
    let mut bob = server.connect(20_000);
    assert_eq!(call(&mut bob, op::AUTH, &request::auth("digest", BOB)), 0);
    let create = |at, mode| request::create(at, Some(b"1"), mode);
    for (op, body) in [
        (op::CREATE, create("/a", mode::PERSISTENT)),
        (op::CREATE, create("/a", mode::PERSISTENT)),
        (op::CREATE2, create("/a/s-", mode::SEQUENTIAL)),
        (op::CREATE, create("/e", mode::EPHEMERAL)),
        (op::CREATE, create("/a/es-", mode::EPHEMERAL_SEQUENTIAL)),
        (op::CREATE_CONTAINER, create("/c", mode::CONTAINER)),
        (op::CREATE, create("/no/such", mode::PERSISTENT)),
        (op::CREATE, create("/bad//path", mode::PERSISTENT)),
        (op::SET_DATA, request::set_data("/a", b"2", -1)),
        (op::SET_DATA, request::set_data("/a", b"2", 9)),
        (op::SET_DATA, request::set_data("/none", b"2", -1)),
        (op::GET_DATA, request::path_watch("/a", false)),
        (op::EXISTS, request::path_watch("/a", true)),
        (op::SYNC, request::path("/a")),
        (op::SET_ACL, request::set_acl("/a", &bobs)),
        (op::SET_ACL, request::set_acl("/none", &world)),
        (op::DELETE, request::path_version("/none", -1)),
        (op::DELETE, request::path_version("/a", -1)),
        (op::DELETE, request::path_version("/c", 0)),
        (
            op::MULTI,
            request::multi(&[
                (op::CREATE, create("/m", mode::PERSISTENT)),
                (op::SET_DATA, request::set_data("/m", b"2", -1)),
                (op::CHECK, request::path_version("/m", 1)),
                (op::CREATE2, create("/m/e", mode::EPHEMERAL)),
                (op::CREATE, create("/m/gone", mode::PERSISTENT)),
                (op::DELETE, request::path_version("/m/gone", -1)),
            ]),
        ),
        (
            op::MULTI,
            request::multi(&[
                (op::CREATE, create("/m/never", mode::PERSISTENT)),
                (op::DELETE, request::path_version("/m/none", -1)),
            ]),
        ),
        (op::MULTI, request::multi(&[(op::CHECK, request::path_version("/m", 1))])),
    ] {
        call(&mut bob, op, &body);
    }
    let mut eve = server.connect(20_000);
    for (op, body) in [
        (op::SET_DATA, request::set_data("/a", b"3", -1)),
        (op::RECONFIG, request::reconfig("server.1=127.0.0.1:1:2;3")),
        (op::AUTH, request::auth("digest", SUPER_PASSWORD)),
        (op::AUTH, request::auth("digest", b"eve:x")),
        (op::SET_DATA, request::set_data("/a", b"3", -1)),
    ] {
        call(&mut eve, op, &body);
    }
    eve.close().expect("the session closes");
    bob.close().expect("the session closes");
}

/// The lines without their time, sessions by their order. ZooKeeper's users, and the ephemerals of
/// a session that ends, are in the order of a hash map.
fn lines(server: &mut Server) -> Vec<String> {
    server.stop();
    let mut sessions = BTreeMap::new();
    let field = |field: &str| -> String {
        match field.split_once('=') {
            Some(("session", id)) => {
                let next = sessions.len();
                format!("session={}", sessions.entry(id.to_owned()).or_insert(next))
            }
            Some(("user", users)) => {
                let mut users: Vec<&str> = users.split(',').collect();
                users.sort_unstable();
                format!("user={}", users.join(","))
            }
            _ => field.to_owned(),
        }
    };
    let mut field = field;
    let log = server.log();
    let audited = log.lines().filter_map(|line| line.split_once("Slf4jAuditLogger: "));
    let mut lines: Vec<String> = audited
        .map(|(head, line)| {
            let level = if head.contains("ERROR") { "ERROR" } else { "INFO" };
            let fields: Vec<String> = line.split('\t').map(&mut field).collect();
            format!("{level} {}", fields.join(" "))
        })
        .collect();
    let ended = |line: &String| line.contains("ephemeralZNodeDeletionOnSessionCloseOrExpire");
    for run in lines.chunk_by_mut(|one, other| ended(one) && ended(other)) {
        run.sort();
    }
    lines
}

#[test]
fn the_same_operations_leave_the_same_lines() {
    let superuser = format!("DigestAuthenticationProvider.superDigest={SUPER}");
    let config = ["audit.enable=true", superuser.as_str()];
    let [expected, found] = [Kind::Reference, Kind::Ferrokeeper].map(|kind| {
        let mut server = Server::start(kind, &config);
        work(&server);
        let mut lines = lines(&mut server);
        // ZooKeeper's comes while its logger ends, or does not come any more.
        let is_last = lines.pop_if(|line| line.ends_with("operation=serverStop result=invoked"));
        assert!(is_last.is_some() || kind == Kind::Reference, "{lines:#?}");
        lines
    });
    assert_eq!(found, expected);
    // From the start to the stop, and each of 20 operations.
    assert!(expected.len() > 25, "{expected:#?}");
}
