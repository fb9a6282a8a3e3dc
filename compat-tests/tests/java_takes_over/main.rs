//! One directory, two implementations: Apache ZooKeeper goes on where the server under test has
//! stopped, and the other way round.

mod acl_numbers;
mod older_releases;
mod rounds;
mod way_back;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::load::{Load, Writes};
use compat_tests::request::{self, mode, op};
use compat_tests::tree::{self, Tree, assert_same};
use compat_tests::{ConnectRequest, Kind, RawClient, Server, Session};

const TIMEOUT: i32 = 6_000;

fn write(client: &mut RawClient, op: i32, body: &[u8]) {
    let reply = client.call(op, body).expect("a reply");
    assert_eq!(reply.err, 0, "op {op}");
}

/// A bit of everything; the session that owns `/own` is left open.
fn populate(server: &Server) -> Session {
    let mut client = server.connect(TIMEOUT);
    for (path, data) in [
        ("/plain", Some(b"x".as_slice())),
        ("/null", None),
        ("/empty", Some(b"".as_slice())),
        ("/snö-雪", Some("grüße".as_bytes())),
        ("/big", Some(vec![b'y'; 700_000].as_slice())),
        ("/a", Some(b"1".as_slice())),
        ("/a/b", Some(b"2".as_slice())),
        ("/a/b/c", Some(b"3".as_slice())),
        ("/gone", None),
    ] {
        write(&mut client, op::CREATE, &request::create(path, data, mode::PERSISTENT));
    }
    for version in 0..5 {
        let body = request::set_data("/plain", format!("v{version}").as_bytes(), version);
        write(&mut client, op::SET_DATA, &body);
        write(&mut client, op::CREATE, &request::create("/a/s-", None, mode::SEQUENTIAL));
    }
    write(&mut client, op::DELETE, &request::path_version("/a/s-0000000003", 0));
    write(&mut client, op::DELETE, &request::path_version("/gone", -1));
    let parts = [
        (op::CREATE, request::create("/multi", Some(b"1"), mode::PERSISTENT)),
        (op::CREATE2, request::create("/multi/s-", None, mode::SEQUENTIAL)),
        (op::SET_DATA, request::set_data("/a", b"in the multi", -1)),
        (op::CHECK, request::path_version("/a", 1)),
        (op::DELETE, request::path_version("/a/s-0000000001", -1)),
    ];
    write(&mut client, op::MULTI, &request::multi(&parts));
    // Refused ones take zxids in Apache ZooKeeper.
    assert_ne!(client.call(op::DELETE, &request::path_version("/a", 9)).expect("a reply").err, 0);
    let failing = [
        (op::CREATE, request::create("/multi/s-", None, mode::SEQUENTIAL)),
        (op::DELETE, request::path_version("/nothing", -1)),
    ];
    write(&mut client, op::MULTI, &request::multi(&failing));

    let closing = {
        let mut other = server.connect(TIMEOUT);
        write(&mut other, op::CREATE, &request::create("/closed", None, mode::EPHEMERAL));
        other
    };
    closing.close().expect("the session closes");
    write(&mut client, op::CREATE, &request::create("/own", Some(b"mine"), mode::EPHEMERAL));
    let sequential = request::create("/a/e-", None, mode::EPHEMERAL_SEQUENTIAL);
    write(&mut client, op::CREATE, &sequential);
    client.session.expect("a session")
}

/// The tree as the session of `/own` sees it: attaching leaves no trace in it.
fn look(server: &Server, session: &Session) -> Tree {
    let (mut client, again) = RawClient::open(server.address(), &ConnectRequest::again(session))
        .expect("a ConnectResponse");
    assert_eq!(again.id, session.id, "the session is known and its password right");
    tree::walk(&mut client).expect("the whole tree can be read")
}

/// The same through a session of its own, for servers that do not know the password.
fn look_from_outside(server: &Server) -> Tree {
    let mut client = server.connect(TIMEOUT);
    let tree = tree::walk(&mut client).expect("the whole tree can be read");
    client.close().expect("the session closes");
    tree
}

fn assert_digests_matched(server: &Server) {
    let log = server.log();
    assert!(log.contains("Snapshot loaded in"), "Apache ZooKeeper has loaded the directory");
    let complaints: Vec<&str> = log
        .lines()
        .filter(|line| {
            line.contains("Digests are not matching") || line.contains("digest mismatch")
        })
        .collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

fn assert_numbers_go_on(server: &Server) {
    let mut client = server.connect(TIMEOUT);
    let body = request::create("/a/s-", None, mode::SEQUENTIAL);
    let reply = client.call(op::CREATE, &body).expect("a reply");
    // b, five, and one ephemeral were created below /a.
    assert_eq!(reply.path(), "/a/s-0000000007");
    client.close().expect("the session closes");
}

fn assert_expires(server: &Server, path: &str) {
    let mut client = server.connect(TIMEOUT);
    let deadline = Instant::now() + Duration::from_secs(12);
    while client.call(op::EXISTS, &request::path_watch(path, false)).expect("a reply").err == 0 {
        assert!(Instant::now() < deadline, "{path} outlives its session");
        thread::sleep(Duration::from_millis(50));
    }
    client.close().expect("the session closes");
}

fn end(server: &mut Server, killed: bool) {
    if killed {
        server.kill();
    } else {
        let status = server.stop();
        // A JVM reports the signal.
        let expected = if Kind::subject() == Kind::Reference { Some(143) } else { Some(0) };
        assert_eq!(status.code(), expected, "the end after SIGTERM");
    }
}

fn takes_over(killed: bool) {
    let mut server = Server::start(Kind::subject(), &[]);
    let session = populate(&server);
    let before = look(&server, &session);
    end(&mut server, killed);
    server.hand_over_to(Kind::Reference);
    server.restart();
    let after = look_from_outside(&server);
    assert_same(&before, &after);
    let owner = after.get("/own").map(|(_, stat)| stat.ephemeral_owner);
    assert_eq!(owner, Some(session.id), "the ephemeral is there and owned");
    assert_digests_matched(&server);
    assert_numbers_go_on(&server);
    assert_expires(&server, "/own");
}

#[test]
fn after_a_clean_stop() {
    takes_over(false);
}

#[test]
fn after_kill_nine() {
    takes_over(true);
}

#[test]
fn after_kill_nine_under_load() {
    let mut server = Server::start(Kind::subject(), &["snapCount=1000"]);
    // Old ones may be purged meanwhile.
    let mut seen: BTreeSet<String> = snapshots(&server).into_iter().collect();
    let at_first = seen.len();
    let load = Load::start(server.address(), 4, 0, Writes::SetsAndCreates);
    let deadline = Instant::now() + Duration::from_secs(20);
    while seen.len() < at_first + 3 {
        assert!(Instant::now() < deadline, "too few under load: {seen:?}");
        thread::sleep(Duration::from_millis(20));
        seen.extend(snapshots(&server));
    }
    load.expect_end();
    server.kill();
    let written = load.stop();
    let newest = snapshots(&server).pop().expect("there are three");

    server.hand_over_to(Kind::Reference);
    server.restart();
    // ZooKeeper itself may be killed while it writes a snapshot under its name.
    if Kind::subject() == Kind::Ferrokeeper {
        let read = snapshots_read(&server);
        let is_newest = !read.is_empty() && read.iter().all(|name| *name == newest);
        assert!(is_newest, "Apache ZooKeeper has read {read:?}, and not just {newest}");
    }
    let mut client = server.connect(TIMEOUT);
    written.check(&mut client);
    client.close().expect("the session closes");
    assert_digests_matched(&server);
    // Both read the same out of the torn end.
    let java = look_from_outside(&server);
    server.stop();
    server.hand_over_to(Kind::subject());
    server.restart();
    assert_same(&java, &look_from_outside(&server));
}

#[test]
fn a_session_of_zookeeper_is_kept_in_a_directory_begun_elsewhere() {
    let mut server = Server::start(Kind::subject(), &[]);
    server.connect(TIMEOUT).close().expect("the session closes");
    server.stop();
    server.hand_over_to(Kind::Reference);
    server.restart();
    let session = populate(&server);
    server.stop();
    // Not only by the first start after ZooKeeper.
    server.hand_over_to(Kind::subject());
    for _ in 0..2 {
        server.restart();
        look(&server, &session);
        server.stop();
    }
}

/// ZOOKEEPER-4306: ZooKeeper starts on no log with a record above twice `jute.maxbuffer`.
#[test]
fn after_the_end_of_a_session_with_very_many_znodes() {
    let mut server = Server::start(Kind::subject(), &["snapCount=1000000"]);
    let mut client = server.connect(TIMEOUT);
    for first in (0..5000).step_by(500) {
        let part = |number| {
            let path = format!("/{number:0500}");
            (op::CREATE, request::create(&path, None, mode::EPHEMERAL))
        };
        let parts: Vec<_> = (first..first + 500).map(part).collect();
        write(&mut client, op::MULTI, &request::multi(&parts));
    }
    client.close().expect("the session closes");
    let mut client = server.connect(TIMEOUT);
    write(&mut client, op::CREATE, &request::create("/after", None, mode::PERSISTENT));
    client.close().expect("the session closes");
    server.kill();
    server.hand_over_to(Kind::Reference);
    server.restart();
    let paths = look_from_outside(&server);
    assert!(paths.contains_key("/after") && paths.len() < 10, "{} znodes", paths.len());
    assert_digests_matched(&server);
}

#[test]
fn there_and_back_with_the_session_kept() {
    let mut server = Server::start(Kind::Reference, &[]);
    let session = populate(&server);
    let first = look(&server, &session);
    server.stop();

    server.hand_over_to(Kind::subject());
    server.restart();
    assert_same(&first, &look(&server, &session));
    assert_numbers_go_on(&server);
    let second = look(&server, &session);
    server.kill();

    server.hand_over_to(Kind::Reference);
    server.restart();
    assert_same(&second, &look(&server, &session));
    assert_digests_matched(&server);
    assert_expires(&server, "/own");
}

/// The snapshots in the directory, oldest first.
fn snapshots(server: &Server) -> Vec<String> {
    let folder = server.data_dir().join("version-2");
    let mut found: Vec<(i64, String)> = std::fs::read_dir(folder)
        .expect("the data directory can be listed")
        .filter_map(|entry| {
            let name = entry.expect("an entry").file_name().into_string().expect("a plain name");
            let zxid = name.strip_prefix("snapshot.")?.split('.').next()?.to_owned();
            Some((i64::from_str_radix(&zxid, 16).expect("a zxid"), name))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name).collect()
}

/// The snapshots that Apache ZooKeeper says it reads, in their order.
fn snapshots_read(server: &Server) -> Vec<String> {
    let log = server.log();
    let paths = log.lines().filter_map(|line| line.split_once("Reading snapshot "));
    paths.map(|(_, path)| path.rsplit('/').next().unwrap_or_default().to_owned()).collect()
}

fn compressed_snapshots_go_there_and_back(method: &str) {
    let line = format!("snapshot.compression.method={method}");
    let mut server = Server::start(Kind::Reference, &[&line]);
    let session = populate(&server);
    // Apache ZooKeeper takes a snapshot at each start.
    server.stop();
    server.restart();
    let first = look(&server, &session);
    server.stop();
    let of_java = snapshots(&server);
    assert!(of_java.iter().all(|name| name.ends_with(&format!(".{method}"))), "{of_java:?}");

    server.hand_over_to(Kind::subject());
    server.restart();
    assert_same(&first, &look(&server, &session));
    assert_numbers_go_on(&server);
    let second = look(&server, &session);
    server.stop();
    let of_subject = snapshots(&server);
    let newest = of_subject.last().expect("a snapshot");
    assert!(!of_java.contains(newest), "{of_subject:?}: one more at the end");
    assert!(newest.ends_with(&format!(".{method}")), "{of_subject:?}");

    server.hand_over_to(Kind::Reference);
    server.restart();
    assert_same(&second, &look(&server, &session));
    assert_digests_matched(&server);
    let read = snapshots_read(&server);
    assert!(read.contains(newest), "Apache ZooKeeper has read {read:?}, not {newest}");
}

#[test]
fn gzip_snapshots_go_there_and_back() {
    compressed_snapshots_go_there_and_back("gz");
}

#[test]
fn snappy_snapshots_go_there_and_back() {
    compressed_snapshots_go_there_and_back("snappy");
}

/// ZooKeeper's writer makes two surrogates of a character beyond U+FFFF, and its own reader two
/// U+FFFD of those.
#[test]
fn characters_beyond_the_first_plane_are_kept() {
    let id = "\u{1f512}:x";
    let surrogates = b"\xed\xa0\xbd\xed\xb4\x92:x";
    // The first snapshot comes soon; what is after the last one is in the log only.
    let mut server = Server::start(Kind::Reference, &["snapCount=4"]);
    let mut client = server.connect(TIMEOUT);
    let entries = [(31, "digest", id), (1, "world", "anyone")];
    for path in ["/a", "/b", "/c", "/d", "/e", "/f", "/g"] {
        write(&mut client, op::CREATE, &request::create_for(path, &entries));
    }
    server.kill();
    let snapshots = std::fs::read_dir(server.data_dir().join("version-2")).expect("a folder");
    let names = snapshots.map(|entry| entry.expect("an entry").file_name());
    let in_middle = |name: &std::ffi::OsString| {
        name.to_string_lossy().starts_with("snapshot.") && name != "snapshot.0"
    };
    assert!(names.collect::<Vec<_>>().iter().any(in_middle), "it took a snapshot");
    server.hand_over_to(Kind::Ferrokeeper);
    server.restart();
    let mut client = server.connect(TIMEOUT);
    for path in ["/a", "/b", "/c", "/d", "/e", "/f", "/g"] {
        let acl = client.call(op::GET_ACL, &request::path(path)).expect("a reply").acl();
        assert_eq!(acl, [format!("digest:{id}:31"), "world:anyone:1".to_owned()], "{path}");
    }
    // Its end writes a snapshot; with ZooKeeper's as the newest, ZooKeeper would read that.
    server.stop();
    server.restart();
    let mut client = server.connect(TIMEOUT);
    // From our log and, in the second round, from our snapshot.
    write(&mut client, op::CREATE, &request::create_for("/h", &entries));
    server.kill();
    for _ in 0..2 {
        server.hand_over_to(Kind::Reference);
        server.restart();
        let mut client = server.connect(TIMEOUT);
        for path in ["/a", "/g", "/h"] {
            let acl = client.call(op::GET_ACL, &request::path(path)).expect("a reply").body;
            let shown = acl.windows(surrogates.len()).any(|bytes| bytes == surrogates);
            assert!(shown, "{path}: {acl:?}");
        }
        server.kill();
        // The snapshot that ZooKeeper took at its start has surrogates again.
        server.hand_over_to(Kind::Ferrokeeper);
        server.restart();
        server.stop();
    }
}

/// A snapshot of ZooKeeper's without the sessions that its ephemeral znodes belong to.
#[test]
fn ephemerals_of_sessions_that_are_gone_go_at_a_start() {
    let mut server = Server::start(Kind::Reference, &[]);
    let mut client = server.connect(TIMEOUT);
    write(&mut client, op::CREATE, &request::create("/lock", None, mode::PERSISTENT));
    for path in ["/lock/a", "/lock/b"] {
        write(&mut client, op::CREATE, &request::create(path, None, mode::EPHEMERAL));
    }
    let session = client.session.clone().expect("a session").id;
    server.stop();
    // A start writes the snapshot with all of it.
    server.restart();
    server.kill();
    forget_session(&server.data_dir().join("version-2"), session);
    let expected = {
        let copy = copy_of(&server, Kind::Reference);
        children(&copy)
    };
    assert_eq!(expected, Vec::<String>::new(), "ZooKeeper deletes them");
    server.hand_over_to(Kind::Ferrokeeper);
    for _ in 0..2 {
        server.restart();
        assert_eq!(children(&server), expected);
        server.kill();
    }
    server.hand_over_to(Kind::Reference);
    server.restart();
    assert_eq!(children(&server), expected);
}

fn children(server: &Server) -> Vec<String> {
    let mut client = server.connect(TIMEOUT);
    let reply = client.call(op::GET_CHILDREN2, &request::path_watch("/lock", false));
    reply.expect("a reply").children()
}

/// Another server on a copy of a stopped one's directory.
fn copy_of(server: &Server, kind: Kind) -> Server {
    let mut copy = Server::on_copy(kind, &[], &server.data_dir());
    copy.restart();
    copy
}

/// Takes the session out of the newest snapshot, and the logs away.
fn forget_session(folder: &std::path::Path, session: i64) {
    let mut snapshots = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if name.starts_with("log.") {
            std::fs::remove_file(&path).expect("removed");
        } else if let Some(zxid) = name.strip_prefix("snapshot.") {
            snapshots.push((u64::from_str_radix(zxid, 16).expect("a zxid"), path));
        }
    }
    let (_, newest) = snapshots.into_iter().max().expect("a snapshot");
    let mut bytes = std::fs::read(&newest).expect("read");
    let table = 20;
    let count = bytes[16..table].try_into().map(u32::from_be_bytes).expect("4 bytes");
    let sessions = (0..count as usize).map(|number| table + 12 * number);
    let is_it = |at: &usize| bytes[*at..at + 8] == session.to_be_bytes();
    let at = sessions.into_iter().find(is_it).expect("the session is in the snapshot");
    bytes.drain(at..at + 12);
    bytes[16..table].copy_from_slice(&(count - 1).to_be_bytes());
    // After the znodes three seals of 13 bytes, with 20 and 8 bytes between; what is after the
    // first may be missing.
    bytes.truncate(bytes.len() - 3 * 13 - 20 - 8);
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in &bytes {
        a = (a + u32::from(*byte)) % 65521;
        b = (b + a) % 65521;
    }
    bytes.extend(u64::from(b << 16 | a).to_be_bytes());
    bytes.extend(b"\0\0\0\x01/");
    std::fs::write(&newest, bytes).expect("written");
}
