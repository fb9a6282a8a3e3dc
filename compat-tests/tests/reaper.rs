//! Containers and znodes with a time to live: when they go, when they stay, and who is told; one
//! course of events for Apache ZooKeeper and for the server under test.

use std::thread;
use std::time::{Duration, Instant};

use compat_tests::request::{self, mode, op};
use compat_tests::{Kind, RawClient, Server};

const NODE_DELETED: i32 = 2;
const CHILDREN_CHANGED: i32 = 4;

/// Between two rounds of the reaper; what is due goes within a few of them.
const ROUND: Duration = Duration::from_millis(100);
const SOON: Duration = Duration::from_secs(5);

fn start(kind: Kind, more: &[&str]) -> Server {
    let config = ["extendedTypesEnabled=true", "znode.container.checkIntervalMs=100"];
    Server::start(kind, &[&config, more].concat())
}

fn call(client: &mut RawClient, op: i32, body: &[u8]) {
    let reply = client.call(op, body).expect("a reply");
    assert_eq!(reply.err, 0, "op {op}: {reply:?}");
}

fn create(client: &mut RawClient, path: &str, flags: i32) {
    let op = if flags == mode::CONTAINER { op::CREATE_CONTAINER } else { op::CREATE };
    call(client, op, &request::create(path, None, flags));
}

fn exists(client: &mut RawClient, path: &str, watch: bool) -> bool {
    let reply = client.call(op::EXISTS, &request::path_watch(path, watch)).expect("a reply");
    reply.err == 0
}

/// Waits until a znode is gone and gives the time that it took.
fn gone(client: &mut RawClient, path: &str) -> Duration {
    let started = Instant::now();
    while exists(client, path, false) {
        assert!(started.elapsed() < SOON, "{path} is still there");
        thread::sleep(Duration::from_millis(10));
    }
    started.elapsed()
}

fn containers(kind: Kind) {
    let server = start(kind, &[]);
    let mut client = server.connect(20_000);
    let mut watcher = server.connect(20_000);
    for path in ["/used", "/never", "/session", "/inner"] {
        create(&mut client, path, mode::CONTAINER);
    }
    create(&mut client, "/inner/c", mode::CONTAINER);
    create(&mut client, "/inner/c/x", mode::PERSISTENT);
    create(&mut client, "/used/x", mode::PERSISTENT);
    let mut owner = server.connect(20_000);
    create(&mut owner, "/session/e", mode::EPHEMERAL);
    assert!(exists(&mut watcher, "/used", true));
    thread::sleep(ROUND * 5);
    for path in ["/used", "/never", "/session", "/inner", "/inner/c"] {
        assert!(exists(&mut client, path, false), "{path} has no reason to go");
    }
    call(&mut watcher, op::GET_CHILDREN, &request::path_watch("/", true));

    call(&mut client, op::DELETE, &request::path_version("/used/x", -1));
    gone(&mut client, "/used");
    let deleted = watcher.read_reply().expect("a frame").expect("an event").event();
    let changed = watcher.read_reply().expect("a frame").expect("an event").event();
    let (deleted, changed) = (deleted.expect("an event"), changed.expect("an event"));
    assert_eq!((deleted.kind, deleted.path.as_str()), (NODE_DELETED, "/used"));
    assert_eq!((changed.kind, changed.path.as_str()), (CHILDREN_CHANGED, "/"));
    assert_eq!(deleted.zxid, changed.zxid);

    // The last child may leave with its session, and may be a container itself.
    owner.close().expect("closed");
    gone(&mut client, "/session");
    call(&mut client, op::DELETE, &request::path_version("/inner/c/x", -1));
    gone(&mut client, "/inner/c");
    gone(&mut client, "/inner");
    assert!(exists(&mut client, "/never", false));
}

fn never_used(kind: Kind) {
    let server = start(kind, &["znode.container.maxNeverUsedIntervalMs=600"]);
    let mut client = server.connect(20_000);
    for path in ["/never", "/renewed", "/used"] {
        create(&mut client, path, mode::CONTAINER);
    }
    create(&mut client, "/used/x", mode::PERSISTENT);
    create(&mut client, "/plain", mode::PERSISTENT);
    thread::sleep(Duration::from_millis(300));
    // Its age is that of its data.
    call(&mut client, op::SET_DATA, &request::set_data("/renewed", b"x", -1));
    gone(&mut client, "/never");
    assert!(exists(&mut client, "/renewed", false));
    gone(&mut client, "/renewed");
    assert!(exists(&mut client, "/used", false));
    assert!(exists(&mut client, "/plain", false));
}

fn times_to_live(kind: Kind) {
    let server = start(kind, &[]);
    let mut client = server.connect(20_000);
    let mut watcher = server.connect(20_000);
    let ttl = |client: &mut RawClient, path, ms| {
        call(client, op::CREATE_TTL, &request::create_ttl(path, ms));
    };
    ttl(&mut client, "/parent", 1000);
    create(&mut client, "/parent/x", mode::PERSISTENT);
    ttl(&mut client, "/renewed", 500);
    ttl(&mut client, "/left", 500);
    assert!(exists(&mut watcher, "/left", true));
    let (made, mut renewed) = (Instant::now(), Instant::now());
    for _ in 0..4 {
        thread::sleep(Duration::from_millis(200));
        renewed = Instant::now();
        call(&mut client, op::SET_DATA, &request::set_data("/renewed", b"x", -1));
        let gone = !exists(&mut client, "/left", false);
        assert!(!gone || made.elapsed() > Duration::from_millis(450), "/left went too early");
    }
    gone(&mut client, "/left");
    let event = watcher.read_reply().expect("a frame").expect("an event").event();
    let event = event.expect("an event");
    assert_eq!((event.kind, event.path.as_str()), (NODE_DELETED, "/left"));

    gone(&mut client, "/renewed");
    assert!(renewed.elapsed() > Duration::from_millis(500), "/renewed went too early");
    // Children keep it, and do not renew it.
    assert!(exists(&mut client, "/parent", false));
    call(&mut client, op::DELETE, &request::path_version("/parent/x", -1));
    assert!(gone(&mut client, "/parent") < Duration::from_secs(1));
}

#[test]
fn containers_of_apache_zookeeper() {
    containers(Kind::Reference);
}

#[test]
fn containers_of_subject() {
    containers(Kind::subject());
}

#[test]
fn never_used_of_apache_zookeeper() {
    never_used(Kind::Reference);
}

#[test]
fn never_used_of_subject() {
    never_used(Kind::subject());
}

#[test]
fn times_to_live_of_apache_zookeeper() {
    times_to_live(Kind::Reference);
}

#[test]
fn times_to_live_of_subject() {
    times_to_live(Kind::subject());
}
