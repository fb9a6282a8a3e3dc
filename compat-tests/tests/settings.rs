//! What settings of zoo.cfg change for clients: one table of expectations for Apache ZooKeeper and
//! for the server under test.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use compat_tests::request::{self, mode, op};
use compat_tests::{ConnectRequest, Kind, RawClient, Reply, Server};

const ALL: i32 = 31;
const OK: i32 = 0;
const UNIMPLEMENTED: i32 = -6;
const NO_AUTH: i32 = -102;
const INVALID_ACL: i32 = -114;
const AUTH_FAILED: i32 = -115;
const NO_WATCHER: i32 = -121;
const RECONFIG_DISABLED: i32 = -123;
const NOT_SHOWN_WHO: i32 = -124;

/// SHA-256 of `u:p`, printed by DigestAuthenticationProvider of 3.9.5.
const U_SHA256: &str = "u:/Y8xRBngpX5duYn15uUqIRaIaCviy5TEwSk419hCwuA=";
/// SHA-1 of the same.
const U_SHA1: &str = "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=";

/// What is claimed, and the check.
type Row = (&'static str, fn(&Server));

/// Servers with the same settings, and what is true of them.
struct Table {
    config: &'static [&'static str],
    rows: &'static [Row],
}

const TABLES: [Table; 6] = [
    Table {
        config: &[
            // SHA-256 of super:secret.
            "DigestAuthenticationProvider.superDigest=\
             super:WTA5ucCHTdJq645xIMibj8HviTPeB5mMuJ4/+v1dIEw=",
            "DigestAuthenticationProvider.digestAlg=SHA-256",
            "reconfigEnabled=true",
            "extendedTypesEnabled=false",
        ],
        rows: &[
            ("ids are made with the algorithm", algorithm),
            ("the super user is known by its digest, and shown without a name", super_is_shown),
            ("a wrong password makes nobody super", wrong_password),
            ("the super user sees and does everything", super_does_everything),
            ("events of closed znodes reach the super user only", super_is_told),
            ("super is no scheme of ACLs", super_is_no_scheme),
            ("ACL scheme auth becomes the digest id, not the super user", auth_of_super),
            ("a standalone server has no membership to change", no_membership),
            ("without extended types there are no times to live", no_times_to_live),
        ],
    },
    Table {
        config: &["extendedTypesEnabled=true"],
        rows: &[
            ("reconfig is disabled", reconfig_disabled),
            ("times to live are there", times_to_live),
            ("an event needs READ when it happens, and spends the watch", unreadable_events),
            ("a child event needs READ of the parent", unreadable_parent),
            ("persistent watches stay where nothing is told", unreadable_persistent),
            ("hashes are masked without ADMIN", masked),
            ("identities of a connection are not a session's", identities_stay),
            ("many identities, many auth packets", auth_storm),
        ],
    },
    Table {
        config: &["DigestAuthenticationProvider.enabled=false"],
        rows: &[
            ("digest is no scheme to show", digest_is_off),
            ("digest is no scheme of ACLs", digest_is_off_in_acls),
            ("ip goes on", ip_goes_on),
        ],
    },
    Table {
        config: &["skipACL=yes"],
        rows: &[
            ("nothing is closed", nothing_is_closed),
            ("lists are still judged", lists_are_judged),
            ("events of closed znodes arrive", closed_events_arrive),
        ],
    },
    Table {
        config: &["enforce.auth.enabled=true", "enforce.auth.schemes=digest"],
        rows: &[
            ("a session opens without an identity", opens),
            ("every request needs one", every_request),
            ("an operation that is none needs one, too", unknown_operation),
            ("whoever shows one is served", shown),
            ("an identity and a request in one piece", shown_in_one_piece),
            ("another scheme is not enough, and may be shown", another_scheme),
            ("sasl may be asked for", sasl_may_be_asked),
            ("a new connection has to show it again", again),
        ],
    },
    Table {
        config: &["enforce.auth.enabled=true", "enforce.auth.schemes=digest,ip"],
        rows: &[("the address is an identity", address_is_enough)],
    },
];

fn run(kind: Kind, table: &Table) {
    let server = Server::start(kind, table.config);
    let mut failed = Vec::new();
    // ZooKeeper 3.9.5 closes a connection now and then before its last answer is sent.
    let tries = if kind == Kind::Reference { 3 } else { 1 };
    for (claim, check) in table.rows {
        let holds = (0..tries).any(|_| catch_unwind(AssertUnwindSafe(|| check(&server))).is_ok());
        if !holds {
            failed.push(*claim);
        }
    }
    assert!(failed.is_empty(), "{kind:?} {:?} fails:\n- {}", table.config, failed.join("\n- "));
}

#[test]
fn apache_zookeeper() {
    TABLES.iter().for_each(|table| run(Kind::Reference, table));
}

#[test]
fn subject() {
    TABLES.iter().for_each(|table| run(Kind::subject(), table));
}

fn client(server: &Server) -> RawClient {
    server.connect(20_000)
}

/// A client that has shown a user and a password.
fn user(server: &Server, token: &str) -> RawClient {
    let mut client = client(server);
    call(&mut client, op::AUTH, &request::auth("digest", token.as_bytes()), OK);
    client
}

fn call(client: &mut RawClient, op: i32, body: &[u8], err: i32) -> Reply {
    let reply = if op == op::AUTH {
        client.send_frame(&with_header(-4, op, body)).expect("sent");
        client.read_reply().expect("a frame").expect("a reply")
    } else {
        client.call(op, body).expect("a reply")
    };
    assert_eq!(reply.err, err, "op {op}: {reply:?}");
    reply
}

fn with_header(xid: i32, op: i32, body: &[u8]) -> Vec<u8> {
    [&xid.to_be_bytes(), &op.to_be_bytes(), body].concat()
}

/// The request is refused, and the connection closed.
fn closes(mut client: RawClient, op: i32, body: &[u8], err: i32) {
    let reply = call(&mut client, op, body, err);
    assert_eq!((reply.zxid, reply.body.len()), (0, 0), "{reply:?}");
    assert_eq!(client.read_frame().expect("the end of the stream"), None);
}

/// A path that no other try has used.
fn fresh(name: &str) -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("/{name}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn create_for(client: &mut RawClient, path: &str, entries: &[(i32, &str, &str)], err: i32) {
    call(client, op::CREATE, &request::create_for(path, entries), err);
}

fn who(client: &mut RawClient) -> Vec<String> {
    call(client, op::WHO_AM_I, &[], OK).identities()
}

/// The events so far: all that comes before the answer to a ping.
fn told(client: &mut RawClient) -> Vec<(i32, String)> {
    client.send_frame(&with_header(-2, op::PING, &[])).expect("sent");
    loop {
        let reply = client.read_reply().expect("a frame").expect("a reply");
        match reply.event() {
            Some(event) => client.events.push(event),
            None => break,
        }
    }
    client.events.drain(..).map(|event| (event.kind, event.path)).collect()
}

// superDigest, digestAlg, reconfigEnabled=true, extendedTypesEnabled=false.

fn algorithm(server: &Server) {
    let path = fresh("algorithm");
    let mut u = user(server, "u:p");
    create_for(&mut u, &path, &[(ALL, "auth", "")], OK);
    let acl = call(&mut u, op::GET_ACL, &request::path(&path), OK).acl();
    assert_eq!(acl, [format!("digest:{U_SHA256}:31")]);
    call(&mut client(server), op::GET_DATA, &request::path_watch(&path, false), NO_AUTH);
    call(&mut user(server, "u:q"), op::GET_DATA, &request::path_watch(&path, false), NO_AUTH);
    // An id that was made with another algorithm belongs to nobody.
    let other = fresh("algorithm");
    create_for(&mut u, &other, &[(ALL, "digest", U_SHA1)], OK);
    call(&mut u, op::GET_DATA, &request::path_watch(&other, false), NO_AUTH);
}

fn super_is_shown(server: &Server) {
    let mut client = user(server, "super:secret");
    assert_eq!(who(&mut client), ["digest:super", "ip:127.0.0.1", "super:"]);
    call(&mut client, op::AUTH, &request::auth("digest", b"super:secret"), OK);
    assert_eq!(who(&mut client), ["digest:super", "ip:127.0.0.1", "super:"]);
}

fn wrong_password(server: &Server) {
    let mut client = user(server, "super:wrong");
    assert_eq!(who(&mut client), ["digest:super", "ip:127.0.0.1"]);
    call(&mut client, op::SET_DATA, &request::set_data("/zookeeper/config", b"", -1), NO_AUTH);
}

fn super_does_everything(server: &Server) {
    let path = fresh("closed");
    let mut anyone = client(server);
    let mut boss = user(server, "super:secret");
    create_for(&mut anyone, &path, &[(0, "digest", U_SHA256)], OK);
    let read = request::path_watch(&path, false);
    call(&mut anyone, op::GET_DATA, &read, NO_AUTH);
    call(&mut boss, op::GET_DATA, &read, OK);
    call(&mut boss, op::EXISTS, &read, OK);
    call(&mut boss, op::GET_CHILDREN2, &read, OK);
    let acl = call(&mut boss, op::GET_ACL, &request::path(&path), OK).acl();
    assert_eq!(acl, [format!("digest:{U_SHA256}:0")]);
    let child = format!("{path}/x");
    create_for(&mut boss, &child, &[(ALL, "world", "anyone")], OK);
    call(&mut boss, op::SET_DATA, &request::set_data(&path, b"y", 0), OK);
    call(&mut anyone, op::DELETE, &request::path_version(&child, -1), NO_AUTH);
    let parts = [
        (op::CHECK, request::path_version(&path, 1)),
        (op::DELETE, request::path_version(&child, 0)),
        (op::SET_DATA, request::set_data(&path, b"z", 1)),
    ];
    call(&mut boss, op::MULTI, &request::multi(&parts), OK);
    call(&mut boss, op::SET_ACL, &request::set_acl(&path, &[(ALL, "world", "anyone")]), OK);
    assert_eq!(call(&mut anyone, op::GET_DATA, &read, OK).data(), "z");
    call(&mut boss, op::SET_DATA, &request::set_data("/zookeeper/config", b"", -1), OK);
}

fn super_is_told(server: &Server) {
    let path = fresh("told");
    let mut anyone = client(server);
    let mut boss = user(server, "super:secret");
    let watch = request::path_watch(&path, true);
    call(&mut anyone, op::EXISTS, &watch, -101);
    call(&mut boss, op::EXISTS, &watch, -101);
    create_for(&mut user(server, "u:p"), &path, &[(ALL, "auth", "")], OK);
    assert_eq!(told(&mut boss), [(1, path)]);
    assert_eq!(told(&mut anyone), []);
}

fn super_is_no_scheme(server: &Server) {
    let mut boss = user(server, "super:secret");
    for id in ["", "super"] {
        create_for(&mut boss, &fresh("super"), &[(ALL, "super", id)], INVALID_ACL);
    }
    closes(boss, op::AUTH, &request::auth("super", b""), AUTH_FAILED);
}

fn auth_of_super(server: &Server) {
    let path = fresh("auth");
    let mut boss = user(server, "super:secret");
    create_for(&mut boss, &path, &[(ALL, "auth", "")], OK);
    let acl = call(&mut boss, op::GET_ACL, &request::path(&path), OK).acl();
    assert_eq!(acl, ["digest:super:WTA5ucCHTdJq645xIMibj8HviTPeB5mMuJ4/+v1dIEw=:31"]);
}

fn no_membership(server: &Server) {
    let members = request::reconfig("server.1=127.0.0.1:1:2;3");
    for mut client in [client(server), user(server, "super:secret")] {
        call(&mut client, op::RECONFIG, &members, UNIMPLEMENTED);
        // Known to the protocol, and so the connection stays.
        call(&mut client, op::EXISTS, &request::path_watch("/", false), OK);
    }
}

fn no_times_to_live(server: &Server) {
    let mut client = client(server);
    call(&mut client, op::CREATE_TTL, &request::create_ttl(&fresh("ttl"), 1000), UNIMPLEMENTED);
    call(&mut client, op::CREATE_TTL, &request::create_ttl("bad", 0), UNIMPLEMENTED);
    let container = request::create(&fresh("container"), None, mode::CONTAINER);
    call(&mut client, op::CREATE_CONTAINER, &container, OK);
}

// Without settings of access.

fn reconfig_disabled(server: &Server) {
    let mut client = client(server);
    call(&mut client, op::RECONFIG, &request::reconfig("x"), RECONFIG_DISABLED);
    call(&mut client, op::EXISTS, &request::path_watch("/", false), OK);
}

fn times_to_live(server: &Server) {
    let path = fresh("ttl");
    let reply = call(&mut client(server), op::CREATE_TTL, &request::create_ttl(&path, 60_000), OK);
    assert_eq!((reply.path(), reply.stat().ephemeral_owner), (path, 0));
}

fn unreadable_events(server: &Server) {
    let path = fresh("watched");
    let (mut watcher, mut owner) = (client(server), user(server, "u:p"));
    create_for(&mut owner, &path, &[(ALL, "world", "anyone")], OK);
    call(&mut watcher, op::GET_DATA, &request::path_watch(&path, true), OK);
    call(&mut owner, op::SET_ACL, &request::set_acl(&path, &[(ALL, "auth", "")]), OK);
    call(&mut owner, op::SET_DATA, &request::set_data(&path, b"1", -1), OK);
    assert_eq!(told(&mut watcher), []);
    // The watch is spent.
    call(&mut watcher, op::REMOVE_WATCHES, &request::path_kind(&path, 3), NO_WATCHER);
    // The reader with the right is told.
    call(&mut owner, op::GET_DATA, &request::path_watch(&path, true), OK);
    call(&mut watcher, op::EXISTS, &request::path_watch(&path, true), NO_AUTH);
    call(&mut client(server), op::DELETE, &request::path_version(&path, -1), OK);
    assert_eq!(told(&mut owner), [(2, path)]);
    assert_eq!(told(&mut watcher), []);
}

fn unreadable_parent(server: &Server) {
    let path = fresh("parent");
    let (mut watcher, mut owner) = (client(server), user(server, "u:p"));
    create_for(&mut owner, &path, &[(ALL, "world", "anyone")], OK);
    call(&mut watcher, op::GET_CHILDREN, &request::path_watch(&path, true), OK);
    call(&mut owner, op::SET_ACL, &request::set_acl(&path, &[(30, "world", "anyone")]), OK);
    let child = format!("{path}/x");
    call(&mut watcher, op::EXISTS, &request::path_watch(&child, true), -101);
    create_for(&mut owner, &child, &[(ALL, "world", "anyone")], OK);
    // The child may be read, the parent may not.
    assert_eq!(told(&mut watcher), [(1, child)]);
}

fn unreadable_persistent(server: &Server) {
    let path = fresh("persistent");
    let (mut watcher, mut owner) = (client(server), user(server, "u:p"));
    call(&mut watcher, op::ADD_WATCH, &request::path_kind(&path, 1), OK);
    create_for(&mut owner, &path, &[(ALL, "auth", "")], OK);
    let child = format!("{path}/x");
    create_for(&mut owner, &child, &[(1, "world", "anyone")], OK);
    call(&mut owner, op::SET_DATA, &request::set_data(&path, b"1", -1), OK);
    assert_eq!(told(&mut watcher), [(1, child)]);
    call(&mut owner, op::SET_ACL, &request::set_acl(&path, &[(1, "world", "anyone")]), OK);
    call(&mut watcher, op::REMOVE_WATCHES, &request::path_kind(&path, 5), OK);
}

fn masked(server: &Server) {
    let path = fresh("masked");
    let mut owner = user(server, "u:p");
    let entries = [(ALL, "digest", U_SHA1), (1, "world", "anyone"), (2, "ip", "10.0.0.0/8")];
    create_for(&mut owner, &path, &entries, OK);
    let acl = |client: &mut RawClient| call(client, op::GET_ACL, &request::path(&path), OK).acl();
    let rest = ["world:anyone:1", "ip:10.0.0.0/8:2"];
    assert_eq!(acl(&mut owner), [&format!("digest:{U_SHA1}:31"), rest[0], rest[1]]);
    assert_eq!(acl(&mut client(server)), ["digest:u:x:31", rest[0], rest[1]]);
}

fn identities_stay(server: &Server) {
    let path = fresh("mine");
    let mut first = user(server, "u:p");
    create_for(&mut first, &path, &[(ALL, "auth", "")], OK);
    let session = first.session.clone().expect("a session");
    let (mut second, renewed) =
        RawClient::open(server.address(), &ConnectRequest::again(&session)).expect("reattached");
    assert_eq!(renewed.id, session.id);
    assert_eq!(who(&mut second), ["ip:127.0.0.1"]);
    call(&mut second, op::GET_DATA, &request::path_watch(&path, false), NO_AUTH);
}

fn auth_storm(server: &Server) {
    let mut client = client(server);
    // The same identity over and over is one, and costs nothing.
    let packet = request::auth("digest", b"u:p");
    for _ in 0..1000 {
        client.send_frame(&with_header(-4, op::AUTH, &packet)).expect("sent");
    }
    for _ in 0..1000 {
        assert_eq!(client.read_reply().expect("a frame").expect("a reply").err, OK);
    }
    for i in 0..50 {
        let token = format!("u{i}:p");
        call(&mut client, op::AUTH, &request::auth("digest", token.as_bytes()), OK);
    }
    assert_eq!(who(&mut client).len(), 52);
}

// DigestAuthenticationProvider.enabled=false.

fn digest_is_off(server: &Server) {
    closes(client(server), op::AUTH, &request::auth("digest", b"u:p"), AUTH_FAILED);
}

fn digest_is_off_in_acls(server: &Server) {
    let mut client = client(server);
    create_for(&mut client, &fresh("off"), &[(ALL, "digest", U_SHA1)], INVALID_ACL);
    create_for(&mut client, &fresh("off"), &[(ALL, "auth", "")], INVALID_ACL);
    let path = fresh("off");
    create_for(&mut client, &path, &[(ALL, "world", "anyone")], OK);
    let digest = request::set_acl(&path, &[(ALL, "digest", U_SHA1)]);
    call(&mut client, op::SET_ACL, &digest, INVALID_ACL);
}

fn ip_goes_on(server: &Server) {
    let mut client = client(server);
    let path = fresh("ip");
    create_for(&mut client, &path, &[(ALL, "ip", "127.0.0.0/8")], OK);
    call(&mut client, op::GET_DATA, &request::path_watch(&path, false), OK);
    call(&mut client, op::AUTH, &request::auth("ip", b""), OK);
    assert_eq!(who(&mut client), ["ip:127.0.0.1"]);
}

// skipACL=yes.

fn nothing_is_closed(server: &Server) {
    let path = fresh("skipped");
    let mut client = client(server);
    create_for(&mut client, &path, &[(0, "digest", U_SHA1)], OK);
    call(&mut client, op::GET_DATA, &request::path_watch(&path, false), OK);
    call(&mut client, op::SET_DATA, &request::set_data(&path, b"y", -1), OK);
    call(&mut client, op::SET_DATA, &request::set_data("/zookeeper/config", b"", -1), OK);
    // Whoever may do everything is shown the hash, too.
    let acl = call(&mut client, op::GET_ACL, &request::path(&path), OK).acl();
    assert_eq!(acl, [format!("digest:{U_SHA1}:0")]);
    assert_eq!(who(&mut client), ["ip:127.0.0.1"]);
}

fn lists_are_judged(server: &Server) {
    let mut client = client(server);
    for entries in [&[][..], &[(ALL, "auth", "")], &[(ALL, "world", "me")], &[(ALL, "x", "y")]] {
        let body = request::create_for(&fresh("judged"), entries);
        call(&mut client, op::CREATE, &body, INVALID_ACL);
    }
}

fn closed_events_arrive(server: &Server) {
    let path = fresh("closed");
    let (mut watcher, mut owner) = (client(server), user(server, "u:p"));
    call(&mut watcher, op::EXISTS, &request::path_watch(&path, true), -101);
    create_for(&mut owner, &path, &[(ALL, "auth", "")], OK);
    assert_eq!(told(&mut watcher), [(1, path)]);
}

// enforce.auth.

fn opens(server: &Server) {
    let mut client = client(server);
    assert!(!client.session.as_ref().expect("a session").refused());
    client.set_deadline(Duration::from_millis(100)).expect("set");
    assert!(client.read_frame().is_err(), "nothing is sent unasked");
}

fn every_request(server: &Server) {
    for (op, body) in [
        (op::EXISTS, request::path_watch("/", false)),
        (op::CREATE, request::create(&fresh("no"), None, mode::PERSISTENT)),
        (op::MULTI, request::multi(&[])),
        (op::SYNC, request::path("/")),
        (op::WHO_AM_I, Vec::new()),
        (op::CLOSE_SESSION, Vec::new()),
        // Nothing is decoded before.
        (op::CREATE, vec![1, 2]),
    ] {
        closes(client(server), op, &body, NOT_SHOWN_WHO);
    }
    let mut client = client(server);
    client.send_frame(&with_header(-2, op::PING, &[])).expect("sent");
    let reply = client.read_reply().expect("a frame").expect("a reply");
    assert_eq!((reply.xid, reply.zxid, reply.err), (-2, 0, NOT_SHOWN_WHO));
    assert_eq!(client.read_frame().expect("the end of the stream"), None);
}

fn unknown_operation(server: &Server) {
    closes(client(server), 999, &[], NOT_SHOWN_WHO);
}

fn shown(server: &Server) {
    let mut client = user(server, "any:one");
    create_for(&mut client, &fresh("shown"), &[(ALL, "auth", "")], OK);
    assert_eq!(told(&mut client), []);
    client.close().expect("closed");
}

fn shown_in_one_piece(server: &Server) {
    let mut client = client(server);
    let mut bytes = Vec::new();
    let exists = request::path_watch("/", false);
    let packets = [
        with_header(-4, op::AUTH, &request::auth("digest", b"u:p")),
        with_header(1, op::EXISTS, &exists),
        with_header(2, op::CREATE, &request::create(&fresh("piece"), None, mode::EPHEMERAL)),
    ];
    packets.iter().for_each(|packet| request::buffer(&mut bytes, packet));
    client.send_raw(&bytes).expect("sent");
    for xid in [-4, 1, 2] {
        let reply = client.read_reply().expect("a frame").expect("a reply");
        assert_eq!((reply.xid, reply.err), (xid, OK));
    }
}

fn another_scheme(server: &Server) {
    let mut client = client(server);
    call(&mut client, op::AUTH, &request::auth("ip", b""), OK);
    closes(client, op::EXISTS, &request::path_watch("/", false), NOT_SHOWN_WHO);
}

fn sasl_may_be_asked(server: &Server) {
    let mut client = client(server);
    let reply = call(&mut client, op::SASL, &[0, 0, 0, 0], OK);
    assert_eq!(reply.body.as_ref(), [0xff; 4]);
    closes(client, op::EXISTS, &request::path_watch("/", false), NOT_SHOWN_WHO);
}

fn again(server: &Server) {
    let mut first = user(server, "u:p");
    call(&mut first, op::EXISTS, &request::path_watch("/", false), OK);
    let session = first.session.clone().expect("a session");
    let again = ConnectRequest::again(&session);
    let (second, renewed) = RawClient::open(server.address(), &again).expect("reattached");
    assert_eq!(renewed.id, session.id);
    closes(second, op::EXISTS, &request::path_watch("/", false), NOT_SHOWN_WHO);
}

fn address_is_enough(server: &Server) {
    let mut client = client(server);
    call(&mut client, op::EXISTS, &request::path_watch("/", false), OK);
    assert_eq!(told(&mut client), []);
    client.close().expect("closed");
}
