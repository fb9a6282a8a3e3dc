//! What clients see of a group, in the order in which they see it.
//!
//! The engine and the log are the real ones, the disk is simulated. Each line of what was seen is
//! one call to [`Clients`]; zxids count from the opening of the first session, which is 1.

use jute::protocol::{
    AddWatchMode, AddWatchRequest, CheckVersionRequest, CreateRequest, DeleteRequest, MultiOp,
    MultiResult, PathRequest, Request, Response, SetDataRequest, SyncRequest, WatchRequest,
};
use jute::txn::Txn;
use jute::{Acl, CreateMode, perms};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::*;
use crate::engine::database::Rules;
use crate::engine::decide::request::{Origin, Work};
use crate::engine::decide::tracker::Attached;
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, WallClock};
use crate::engine::watch::{ConnectionId, Event};
use crate::ensemble::{Answer, Rebuild, RequestKind, Share, Snapshots};
use crate::storage::sim::{Dice, Fault, SimDisk};
use crate::storage::{
    Compression, DataDirectory, DirectoryOptions, LogOptions, RecoveryOptions, logs_in, recover,
};

#[path = "standalone_test/another_state.rs"]
mod another_state;
#[path = "standalone_test/groups.rs"]
mod groups;
#[path = "standalone_test/serving_snapshot.rs"]
mod serving_snapshot;
#[path = "standalone_test/short_disk.rs"]
mod short_disk;

const ROOM: usize = 1000;
const TIMEOUT_MS: i32 = 4000;
const TICK_MS: u64 = 1000;
const FIRST_SESSION: i64 = 0x100;

/// What the connections were told.
#[derive(Default)]
struct Seen {
    lines: Mutex<Vec<String>>,
    gone: Mutex<Vec<ConnectionId>>,
    /// Bytes of the paths of events that were told at once, at most.
    at_once: Mutex<usize>,
    /// Where they come back with what they were told.
    replica: std::sync::OnceLock<Arc<Replica>>,
}

impl Seen {
    fn tell(&self, line: String) {
        self.lines.lock().push(line);
    }
}

impl Clients for Seen {
    fn now(&self) -> Monotonic {
        Monotonic::default()
    }

    fn is_open(&self, connection: ConnectionId) -> bool {
        !self.gone.lock().contains(&connection)
    }

    fn events(&self, events: &[Event]) {
        let mut at_once = self.at_once.lock();
        *at_once = at_once.max(events.iter().map(|event| event.path.len()).sum());
        for event in events {
            let is_behind = self.replica.get().is_some_and(|replica| replica.is_behind(event.zxid));
            assert!(!is_behind, "{} is refused to who has seen it", event.zxid);
            for receiver in &event.receivers {
                let code = event.event_type.code();
                self.tell(format!("{} event {code} {}", receiver.0, event.path));
            }
        }
    }

    fn applies(&self, _: &Txn<'_>) {}

    fn refused_by_quota(&self, _: &str) {}

    fn answer(
        &self,
        origin: &Origin,
        _: RequestKind<'_>,
        zxid: Zxid,
        _: Option<&str>,
        answer: Answer<'_>,
    ) {
        let outcome = match answer {
            Ok(Response::Empty) => "ok".to_owned(),
            Ok(Response::Create(created)) => created.path.into_owned(),
            Ok(Response::Stat(stat)) => format!("version {}", stat.version),
            Ok(Response::GetData(data)) => {
                String::from_utf8_lossy(&data.data.unwrap_or_default()).into_owned()
            }
            Ok(Response::Sync(_)) => "synced".to_owned(),
            Ok(Response::Error(_)) => "watching".to_owned(),
            Ok(Response::Multi(results)) => {
                let failed = |result: &MultiResult<'_>| match result {
                    MultiResult::Error(code) => code.to_string(),
                    _ => "done".to_owned(),
                };
                results.iter().map(failed).collect::<Vec<_>>().join(",")
            }
            Ok(other) => format!("{other:?}"),
            Err(error) => format!("{error:?}"),
        };
        self.tell(format!("{}#{} at {}: {outcome}", origin.connection.0, origin.xid, zxid.0));
    }

    fn attached(&self, connection: ConnectionId, attached: &Attached) {
        self.tell(format!("{} has {}", connection.0, attached.session.0 - FIRST_SESSION));
    }

    fn no_session(&self, connection: ConnectionId) {
        self.tell(format!("{} no session", connection.0));
    }

    fn end(&self, _: ConnectionId) {}

    fn close(&self, connection: ConnectionId) {
        self.tell(format!("{} closed", connection.0));
    }

    fn flush(&self) {
        self.tell("flush".to_owned());
    }
}

/// A server without sockets and threads.
struct World {
    disk: SimDisk,
    directory: Arc<DataDirectory>,
    standalone: Standalone,
    seen: Arc<Seen>,
    room: Arc<Semaphore>,
    now: Now,
    xid: i32,
}

impl World {
    fn new() -> Self {
        Self::start(SimDisk::default())
    }

    fn start(disk: SimDisk) -> Self {
        Self::start_with(disk, Rules::default())
    }

    fn start_with(disk: SimDisk, rules: Rules) -> Self {
        let options = DirectoryOptions {
            data_dir: "/data".into(),
            data_log_dir: "/data".into(),
            create: true,
        };
        let directory =
            Arc::new(DataDirectory::open(Arc::new(disk.clone()), &options).expect("opens"));
        let mut rebuild = Rebuild::new(7, rules);
        let log = LogOptions { segment_len: 1 << 20, spares: 0, force_sync: true };
        let options = RecoveryOptions { trust_empty: true, log };
        let recovered = recover(&directory, options, &mut rebuild).expect("recovers");
        let database = rebuild.finish();
        let now = Now { monotonic: Monotonic(0), wall: WallClock(1_700_000_000_000) };
        let sequencer = Sequencer::new(&database, TICK_MS, FIRST_SESSION, now.monotonic);
        let seen = Arc::new(Seen::default());
        let clients: Arc<dyn Clients> = Arc::clone(&seen) as _;
        let replica = Arc::new(Replica::new(database));
        assert!(seen.replica.set(Arc::clone(&replica)).is_ok());
        let mut standalone = Standalone::new(replica, sequencer, recovered.log, clients);
        standalone.held.group_time = Duration::MAX;
        let room = Arc::new(Semaphore::new(ROOM));
        Self { disk, directory, standalone, seen, room, now, xid: 0 }
    }

    /// With a session for each of the connections 1 and 2: sessions 0 and 1.
    fn with_two() -> Self {
        let mut world = Self::new();
        let open = |connection| (connection, None, Work::Open { timeout_ms: TIMEOUT_MS });
        let seen = world.group(&[], vec![open(1), open(2)]);
        assert_eq!(seen, ["1 has 0", "2 has 1", "flush"]);
        world
    }

    fn try_group(
        &mut self,
        chores: &[Chore],
        asked: Vec<(u64, Option<i64>, Work)>,
    ) -> Result<GroupReport, OrderError> {
        let submissions = asked
            .into_iter()
            .map(|(connection, session, work)| {
                self.xid += 1;
                let origin = Origin {
                    connection: ConnectionId(connection),
                    session: session.map_or(SessionId::NONE, |n| SessionId(FIRST_SESSION + n)),
                    xid: self.xid,
                    identities: Arc::default(),
                    received: self.now.monotonic,
                };
                let room = Arc::clone(&self.room).try_acquire_many_owned(10).expect("room");
                Submission::new(origin, work, Some(Share::new(room, None)))
            })
            .collect();
        self.standalone.run_group(chores.to_vec(), submissions, self.now)
    }

    /// Runs a group and gives what was seen of it.
    fn group(&mut self, chores: &[Chore], asked: Vec<(u64, Option<i64>, Work)>) -> Vec<String> {
        self.xid = 0;
        self.try_group(chores, asked).expect("the group goes through");
        assert_eq!(self.room.available_permits(), ROOM, "room was kept");
        std::mem::take(&mut *self.seen.lines.lock())
    }

    fn digest(&self) -> Option<i64> {
        self.standalone.replica().shared().tree().digest()
    }
}

/// A request of the connection's own session: connection 1 has session 0, and so on.
fn by(connection: u64, request: Request<'static>) -> (u64, Option<i64>, Work) {
    (connection, Some(connection.cast_signed() - 1), Work::Request(request))
}

fn create(path: &'static str, mode: CreateMode) -> Request<'static> {
    Request::Create(CreateRequest {
        path: path.into(),
        data: Some(b"new"[..].into()),
        acl: Some(vec![Acl::anyone(perms::ALL)]),
        flags: mode.flags(),
    })
}

fn set(path: &'static str, data: &'static str) -> Request<'static> {
    Request::SetData(SetDataRequest {
        path: path.into(),
        data: Some(data.as_bytes().into()),
        version: -1,
    })
}

fn get(path: &'static str, watch: bool) -> Request<'static> {
    Request::GetData(WatchRequest { path: path.into(), watch })
}

fn exists(path: &'static str, watch: bool) -> Request<'static> {
    Request::Exists(WatchRequest { path: path.into(), watch })
}

fn delete(path: &'static str) -> Request<'static> {
    Request::Delete(DeleteRequest { path: path.into(), version: -1 })
}

#[test]
fn a_read_between_two_writes_sees_the_first_and_hears_of_the_second() {
    let mut world = World::with_two();
    let seen = world.group(
        &[],
        vec![
            by(1, create("/a", CreateMode::Persistent)),
            by(1, get("/a", true)),
            by(2, set("/a", "second")),
            by(1, get("/a", true)),
            by(1, set("/a", "third")),
            by(1, Request::Ping),
        ],
    );
    assert_eq!(
        seen,
        [
            "1#1 at 3: /a",
            "1#2 at 3: new",
            "1 event 3 /a",
            "2#3 at 4: version 1",
            "1#4 at 4: second",
            "1 event 3 /a",
            "1#5 at 5: version 2",
            "1#6 at 5: ok",
            "flush",
        ]
    );
}

#[test]
fn a_refusal_waits_for_what_it_was_checked_against() {
    let mut world = World::with_two();
    let seen = world.group(
        &[],
        vec![
            by(1, delete("/a")),
            by(1, create("/a", CreateMode::Persistent)),
            by(2, create("/a", CreateMode::Persistent)),
            by(2, create("/a/b", CreateMode::Ephemeral)),
            by(1, delete("/a")),
            by(2, delete("/a/b")),
            by(1, delete("/a")),
            by(1, Request::Sync(SyncRequest { path: Some("/".into()) })),
        ],
    );
    assert_eq!(
        seen,
        [
            "1#1 at 2: NoNode",
            "1#2 at 3: /a",
            "2#3 at 3: NodeExists",
            "2#4 at 4: /a/b",
            "1#5 at 4: NotEmpty",
            "2#6 at 5: ok",
            "1#7 at 6: ok",
            "1#8 at 6: synced",
            "flush",
        ]
    );
}

#[test]
fn a_multi_is_whole_or_nothing() {
    let mut world = World::with_two();
    let add = |path| match create(path, CreateMode::Persistent) {
        Request::Create(body) => MultiOp::Create(body),
        _ => unreachable!("a create"),
    };
    let check = |path: &'static str, version| {
        MultiOp::Check(CheckVersionRequest { path: path.into(), version })
    };
    let watch = AddWatchRequest { path: "/".into(), mode: AddWatchMode::PersistentRecursive };
    let seen = world.group(
        &[],
        vec![
            by(2, Request::AddWatch(watch)),
            by(1, Request::Multi(vec![add("/m"), check("/none", 0), add("/m/x")])),
            by(1, exists("/m", false)),
            by(1, Request::Multi(vec![add("/m"), add("/m/x"), check("/m", 0)])),
            by(1, exists("/m/x", false)),
        ],
    );
    assert_eq!(
        seen,
        [
            "2#1 at 2: watching",
            "1#2 at 2: 0,-101,-2",
            "1#3 at 2: NoNode",
            "2 event 1 /m",
            "2 event 1 /m/x",
            "1#4 at 3: done,done,done",
            "1#5 at 3: version 0",
            "flush",
        ]
    );
}

#[test]
fn an_expired_session_goes_with_its_znodes_and_without_a_word() {
    let mut world = World::with_two();
    world.group(
        &[],
        vec![
            by(1, create("/held", CreateMode::Ephemeral)),
            by(2, exists("/held", true)),
            by(1, exists("/held", true)),
        ],
    );
    world.now.monotonic = Monotonic(20_000);
    let session = SessionId(FIRST_SESSION);
    let seen = world.group(
        &[Chore::Expire(session), Chore::Expire(session)],
        vec![
            by(1, create("/late", CreateMode::Ephemeral)),
            (3, Some(0), Work::Attach { timeout_ms: TIMEOUT_MS }),
            by(2, exists("/held", false)),
        ],
    );
    assert_eq!(
        seen,
        [
            "1 event 2 /held",
            "2 event 2 /held",
            "1 closed",
            "1#1 at 4: SessionExpired",
            "3 no session",
            "2#3 at 4: NoNode",
            "flush",
        ]
    );
    // Another turn: the session is not even closing any more.
    let seen = world.group(&[Chore::Expire(session)], vec![by(1, Request::Ping)]);
    assert_eq!(seen, ["1 closed", "flush"]);
}

/// A directory of ZooKeeper's can have them, and a disk can be full at a start.
#[test]
fn sessions_that_are_gone_wait_for_room() {
    use jute::txn::{CreateTxn, TxnHeader, TxnRecord};

    let mut world = World::with_two();
    for (number, path) in (1..).zip(["/of-nobody", "/of-nobody-else"]) {
        let (acl, data) = (Some(vec![Acl::anyone(perms::ALL)]), None);
        let txn = CreateTxn { path: path.into(), data, acl, ephemeral: true, parent_cversion: -1 };
        let header = TxnHeader { client_id: 70 + number, cxid: 1, zxid: 2 + number, time: 0 };
        let record = TxnRecord { header, txn: Txn::Create(txn), digest: None };
        world.standalone.log().append(&record).expect("it has room");
    }
    world.standalone.log().commit().expect("it has room");
    let disk = world.disk.clone();
    drop(world);
    disk.crash(&mut Dice(1));
    let mut world = World::start(disk.clone());
    let ephemerals = |world: &World| world.standalone.replica().shared().tree().ephemerals_count();
    for free in [0, (1 << 20) - 1] {
        disk.set_free(Some(free));
        world.now.monotonic = world.now.monotonic.plus(1000);
        let report = world.standalone.end_orphans(world.now).expect("it waits");
        assert_eq!((report.txns, ephemerals(&world)), (0, 2), "{free} free");
    }
    // Whoever asks for nothing that needs room is served.
    let seen = world.group(&[], vec![(1, Some(0), Work::Attach { timeout_ms: TIMEOUT_MS })]);
    assert_eq!(seen, ["1 has 0", "flush"]);
    assert_eq!(
        world.group(&[], vec![by(1, exists("/of-nobody", false))])[0],
        "1#1 at 4: version 0"
    );
    disk.set_free(Some(4 << 20));
    world.now.monotonic = world.now.monotonic.plus(1000);
    let report = world.standalone.end_orphans(world.now).expect("there is room");
    assert_eq!((report.txns, ephemerals(&world)), (2, 0));
}

#[test]
fn a_throttled_request_is_refused_at_its_turn_and_leaves_no_trace() {
    let mut world = World::with_two();
    let before = world.standalone.replica().applied();
    let throttled = || (1, Some(0), Work::Throttled);
    let seen = world.group(
        &[],
        vec![
            throttled(),
            by(1, create("/n", CreateMode::Persistent)),
            throttled(),
            by(1, exists("/n", false)),
        ],
    );
    assert_eq!(world.standalone.replica().applied(), Zxid(before.0 + 1));
    let refused = ["1#1 at 2: ThrottledOp", "1#3 at 3: ThrottledOp"];
    assert_eq!([seen[0].as_str(), seen[2].as_str()], refused, "{seen:?}");
    assert_eq!(seen.len(), 5, "{seen:?}");
}

#[test]
fn a_moved_session_writes_only_from_its_new_connection() {
    let mut world = World::with_two();
    let attach = Work::Attach { timeout_ms: TIMEOUT_MS };
    let seen = world.group(
        &[],
        vec![
            by(1, create("/before", CreateMode::Ephemeral)),
            (3, Some(0), attach),
            by(1, create("/behind", CreateMode::Ephemeral)),
            by(1, get("/before", true)),
            (3, Some(0), Work::Request(exists("/behind", false))),
            (3, Some(0), Work::Request(delete("/before"))),
        ],
    );
    assert_eq!(
        seen,
        [
            "1#1 at 3: /before",
            "1 closed",
            "3 has 0",
            "1 closed",
            "1 closed",
            "3#5 at 3: NoNode",
            "3#6 at 4: ok",
            "flush",
        ]
    );
}

#[test]
fn nothing_follows_the_closing_of_a_session() {
    let mut world = World::with_two();
    world.group(&[], vec![by(2, exists("/e", true))]);
    let seen = world.group(
        &[],
        vec![
            by(1, create("/e", CreateMode::Ephemeral)),
            by(2, exists("/e", true)),
            by(1, Request::CloseSession),
            by(1, create("/f", CreateMode::Persistent)),
            (3, Some(0), Work::Attach { timeout_ms: TIMEOUT_MS }),
        ],
    );
    assert_eq!(
        seen,
        [
            "2 event 1 /e",
            "1#1 at 3: /e",
            "2#2 at 3: version 0",
            "2 event 2 /e",
            "1#3 at 4: ok",
            "1#4 at 4: SessionExpired",
            "3 no session",
            "flush",
        ]
    );
}

#[test]
fn a_connection_that_is_gone_leaves_no_watch_but_its_writes_count() {
    let mut world = World::with_two();
    world.seen.gone.lock().push(ConnectionId(1));
    let seen = world.group(
        &[],
        vec![
            by(1, create("/a", CreateMode::Persistent)),
            by(1, exists("/a", true)),
            by(2, set("/a", "x")),
        ],
    );
    assert_eq!(seen, ["1#1 at 3: /a", "2#3 at 4: version 1", "flush"]);
    let database = world.standalone.replica().shared();
    assert_eq!(database.watches().lock().count(), 0);
}

#[test]
fn a_group_without_a_transaction_touches_no_disk() {
    let mut world = World::with_two();
    let before = world.disk.operations();
    let report = world.try_group(
        &[],
        vec![by(1, Request::Ping), by(2, delete("/none")), by(1, exists("/", true))],
    );
    assert_eq!(report.expect("goes through").sync, None);
    assert_eq!(world.disk.operations(), before);
}

/// At every write and every sync: nothing of the group is answered or applied; after a crash
/// everything answered is there, and of the group a prefix at most.
#[test]
fn a_group_that_cannot_be_written_is_not_answered() {
    for fault in [Fault::Eio, Fault::Enospc, Fault::PowerLoss] {
        for operations in 0.. {
            let mut world = World::with_two();
            world.group(&[], vec![by(1, create("/a", CreateMode::Persistent))]);
            let before = world.digest();
            // The next group begins a segment: more can fail.
            world.standalone.log().roll();
            world.disk.fail_after(operations, fault);
            let asked = vec![
                by(1, set("/a", "x")),
                by(1, get("/a", true)),
                by(2, delete("/none")),
                by(2, create("/b", CreateMode::Persistent)),
            ];
            if world.try_group(&[], asked).is_ok() {
                assert!(operations >= 3, "{fault:?}: create, write and sync can fail");
                break;
            }
            assert_eq!(*world.seen.lines.lock(), [""; 0], "{fault:?} {operations}");
            assert_eq!(world.digest(), before);
            assert_eq!(world.room.available_permits(), ROOM);
            let again = world.try_group(&[], vec![by(2, create("/c", CreateMode::Persistent))]);
            assert!(again.is_err(), "a log that failed was written again");

            let disk = world.disk.clone();
            drop(world);
            disk.crash(&mut Dice(operations));
            let world = World::start(disk);
            let database = world.standalone.replica().shared();
            let tree = database.tree();
            let [a, b, c] = ["/a", "/b", "/c"].map(|path| tree.find(path));
            let version = a.map(|a| tree.stat(a).version);
            match version {
                Some(0) => {
                    assert_eq!(b, None, "{fault:?} {operations}: the second without the first")
                }
                Some(1) => {}
                _ => panic!("{fault:?} {operations}: an answered write is gone"),
            }
            assert_eq!(c, None);
        }
    }
}

#[test]
fn a_snapshot_among_groups_shows_one_instant() {
    const PATHS: [&str; 6] = ["/a", "/b", "/c", "/d", "/e", "/f"];
    let mut world = World::with_two();
    let persistent = |path| by(1, create(path, CreateMode::Persistent));
    world.group(&[], PATHS.map(persistent).into());
    let replica = Arc::clone(world.standalone.replica());
    let directory = Arc::clone(&world.directory);
    let mut snapshots = Snapshots::new(directory, Compression::None, 5, None, 8);
    let now = world.now.monotonic;
    assert!(snapshots.is_due(now));
    snapshots.begin(&replica, world.standalone.log(), now);
    assert!(!snapshots.is_due(now), "one at a time");
    let mut turns = 0;
    while snapshots.is_writing() {
        let path = PATHS[turns % PATHS.len()];
        let work = match turns % 3 {
            0 => vec![by(1, set(path, "changed")), by(2, delete(path)), persistent(path)],
            1 => vec![by(2, set(path, "again"))],
            _ => vec![by(1, get(path, false))],
        };
        world.group(&[], work);
        snapshots.advance(&replica, now);
        turns += 1;
        assert!(turns < 1_000_000, "it does not end");
    }
    let digest = world.digest();
    assert!(digest.is_some());
    let zxid = replica.applied();
    let disk = world.disk.clone();
    drop((world, snapshots, replica));
    disk.crash(&mut Dice(1));
    // Strict replay checks the digest of every transaction on the way.
    let world = World::start(disk);
    assert_eq!((world.digest(), world.standalone.replica().applied()), (digest, zxid));
    assert_eq!(world.standalone.replica().shared().sessions().len(), 2);
}

/// ZOOKEEPER-4306: the end of a session with very many ephemeral znodes was a record that no start
/// could read.
#[test]
fn what_is_told_of_the_end_of_a_session_does_not_wait_for_all_of_it() {
    const ZNODES: usize = 100;
    let told = |len: usize| {
        let mut world = World::with_two();
        let parent = format!("/{}", "x".repeat(len));
        let create = |path: String, mode: CreateMode| CreateRequest {
            path: path.into(),
            data: None,
            acl: Some(vec![Acl::anyone(perms::ALL)]),
            flags: mode.flags(),
        };
        let made = create(parent.clone(), CreateMode::Persistent);
        world.group(&[], vec![by(1, Request::Create(made))]);
        for number in 0..ZNODES {
            let made = create(format!("{parent}/{number:03}"), CreateMode::Ephemeral);
            world.group(&[], vec![by(1, Request::Create(made))]);
        }
        let watch = AddWatchRequest { path: "/".into(), mode: AddWatchMode::PersistentRecursive };
        world.group(&[], vec![by(2, Request::AddWatch(watch))]);
        let mut seen = world.group(&[], vec![by(1, Request::CloseSession)]);
        // The answer, and then what is sent.
        let rest = seen.split_off(ZNODES);
        assert_eq!((rest.len(), rest[1].as_str()), (2, "flush"), "{rest:?}");
        assert!(rest[0].starts_with("1#1 at ") && rest[0].ends_with(": ok"), "{rest:?}");
        let deleted = format!("2 event 2 {parent}/");
        let number = |line: &String| line.strip_prefix(&deleted).map(str::to_owned);
        let numbers: Option<Vec<_>> = seen.iter().map(number).collect();
        let at_once = *world.seen.at_once.lock();
        (numbers.expect("only that they are deleted"), at_once)
    };
    let (short, _) = told(10);
    let (long, at_once) = told(100_000);
    assert_eq!(short, long);
    assert!(at_once < (1 << 20) + 100_100, "{at_once} bytes at once");
}

#[test]
fn the_end_of_a_session_with_very_many_znodes_is_a_record_that_zookeeper_reads() {
    const ZNODES: usize = 5000;
    let mut world = World::with_two();
    let path = |number: usize| format!("/{number:0500}");
    for first in (0..ZNODES).step_by(500) {
        let part = |number| {
            MultiOp::Create(CreateRequest {
                path: path(number).into(),
                data: None,
                acl: Some(vec![Acl::anyone(perms::ALL)]),
                flags: CreateMode::Ephemeral.flags(),
            })
        };
        let parts = (first..first + 500).map(part).collect();
        assert!(world.group(&[], vec![by(1, Request::Multi(parts))])[0].ends_with("done"));
    }
    let watch =
        |number| by(2, Request::Exists(WatchRequest { path: path(number).into(), watch: true }));
    world.group(&[], vec![watch(0), watch(ZNODES - 1)]);
    let seen = world.group(&[], vec![by(1, Request::CloseSession)]);
    let deleted = seen.iter().filter(|line| line.starts_with("2 event 2 ")).count();
    assert_eq!(deleted, 2, "{seen:?}");
    let directory = Arc::clone(&world.directory);
    let mut longest = 0;
    for log in logs_in(&world.disk, directory.logs()).expect("lists") {
        let bytes = world.disk.content(&log);
        let mut at = 16;
        while let Some(len) = bytes.get(at + 8..at + 12) {
            let len = u32::from_be_bytes(len.try_into().expect("4 bytes"));
            longest = longest.max(len);
            at += 13 + len as usize;
            if len == 0 {
                break;
            }
        }
    }
    assert!((500_000..2 * 1_048_575).contains(&longest), "{longest} bytes");
    drop(directory);
    let digest = world.digest();
    let disk = world.disk.clone();
    drop(world);
    disk.crash(&mut Dice(1));
    let world = World::start(disk);
    assert_eq!(world.digest(), digest);
    assert_eq!(world.standalone.replica().shared().tree().ephemerals_count(), 0);
}

#[test]
fn the_number_of_children_waits_for_its_turn() {
    let mut world = World::with_two();
    let children = PathRequest { path: "/p".into() };
    let seen = world.group(
        &[],
        vec![
            by(1, create("/p", CreateMode::Persistent)),
            by(2, create("/p/s", CreateMode::PersistentSequential)),
            by(2, create("/p/s", CreateMode::EphemeralSequential)),
            by(1, Request::GetAllChildrenNumber(children)),
            (1, Some(1), Work::Request(Request::Ping)),
        ],
    );
    assert_eq!(
        seen,
        [
            "1#1 at 3: /p",
            "2#2 at 4: /p/s0000000000",
            "2#3 at 5: /p/s0000000001",
            "1#4 at 5: AllChildrenNumber(2)",
            // Another's session.
            "1 closed",
            "flush",
        ]
    );
}

/// An orderer that panics halfway leaves the tree locked: what was not answered is not shown
/// either.
#[test]
fn a_panic_shows_nobody_half_a_group() {
    #[derive(Debug)]
    struct Panics;

    impl Clients for Panics {
        fn now(&self) -> Monotonic {
            Monotonic::default()
        }

        fn is_open(&self, _: ConnectionId) -> bool {
            true
        }
        fn events(&self, _: &[Event]) {}
        fn applies(&self, _: &Txn<'_>) {}

        fn refused_by_quota(&self, _: &str) {}
        fn answer(&self, _: &Origin, _: RequestKind<'_>, _: Zxid, _: Option<&str>, _: Answer<'_>) {
            std::panic::resume_unwind(Box::new("as if by a defect"));
        }
        fn attached(&self, _: ConnectionId, _: &Attached) {}
        fn no_session(&self, _: ConnectionId) {}
        fn end(&self, _: ConnectionId) {}

        fn close(&self, _: ConnectionId) {}
        fn flush(&self) {}
    }

    let mut world = World::with_two();
    let replica = Arc::clone(world.standalone.replica());
    assert!(replica.is_free());
    world.standalone.applier.clients = Arc::new(Panics);
    let orderer = std::thread::spawn(move || {
        let _ = world.try_group(&[], vec![by(1, create("/a", CreateMode::Persistent))]);
    });
    assert!(orderer.join().is_err());
    assert!(!replica.is_free());
}
