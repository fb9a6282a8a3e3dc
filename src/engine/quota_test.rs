//! Quotas: what a change below one costs, and what it leaves.

use std::sync::Arc;

use jute::protocol::{CreateRequest, DeleteRequest, MultiOp, Request, SetDataRequest};
use jute::txn::TxnRecord;
use jute::{Acl, ErrorCode};

use super::apply::Mode;
use super::database::{Database, Rules};
use super::quota::PARSED;
use super::request::{Origin, Work};
use super::sequencer::{Prepared, Sequencer};
use super::session::SessionId;
use super::time::{Monotonic, Now, WallClock};
use super::tree::WRITTEN;
use super::watch::ConnectionId;
use super::zxid::Zxid;

struct Server {
    database: Database,
    sequencer: Sequencer,
    origin: Origin,
}

impl Server {
    /// One that enforces quotas, with these znodes.
    fn new(znodes: &[(&str, &str)]) -> Self {
        let rules = Rules { enforce_quota: true, ..Rules::default() };
        let mut database = Database::new(1, rules);
        let mut sequencer = Sequencer::new(&database, 500, 7, Monotonic(0));
        let identities = Arc::default();
        let (connection, session) = (ConnectionId(1), SessionId::NONE);
        let origin = Origin { connection, session, xid: 0, identities, received: Monotonic(0) };
        let now = Now { monotonic: Monotonic(0), wall: WallClock(0) };
        let open = Work::Open { timeout_ms: 1000 };
        let Prepared::Open(record, attached) = sequencer.prepare(&database, &origin, open, now)
        else {
            panic!("a session is opened")
        };
        let TxnRecord { header, txn, digest } = record;
        database.apply(&header, txn, digest, Mode::Strict, &mut Vec::new()).unwrap();
        sequencer.retire(Zxid(header.zxid));
        let origin = Origin { session: attached.session, ..origin };
        let mut server = Self { database, sequencer, origin };
        for (path, data) in znodes {
            assert_eq!(server.run(vec![create(path, data)]), Ok(()), "{path}");
        }
        server
    }

    /// Decides, and applies, a request by itself or a multi.
    fn run(&mut self, mut ops: Vec<MultiOp<'static>>) -> Result<(), ErrorCode> {
        let request = match (ops.len(), ops.pop()) {
            (1, Some(MultiOp::Create(create))) => Request::Create(create),
            (1, Some(MultiOp::SetData(set))) => Request::SetData(set),
            (1, Some(MultiOp::Delete(delete))) => Request::Delete(delete),
            (_, last) => Request::Multi(ops.into_iter().chain(last).collect()),
        };
        let now = Now { monotonic: Monotonic(0), wall: WallClock(0) };
        let Self { database, sequencer, origin } = self;
        let record = match sequencer.prepare(database, origin, Work::Request(request), now) {
            Prepared::Txn(record) => record,
            Prepared::Refused(error) => return Err(error),
            prepared => panic!("{prepared:?}"),
        };
        let TxnRecord { header, txn, digest } = record;
        database.apply(&header, txn, digest, Mode::Strict, &mut Vec::new()).unwrap();
        sequencer.retire(Zxid(header.zxid));
        Ok(())
    }

    fn data(&self, path: &str) -> String {
        let node = self.database.tree.find(path).unwrap_or_else(|| panic!("{path}"));
        String::from_utf8(self.database.tree.data(node).unwrap().to_vec()).unwrap()
    }

    fn size(&self) -> (u64, u64) {
        let root = self.database.tree.below(super::NodeId::ROOT).bytes;
        (self.database.tree.data_size(), root)
    }
}

fn create(path: &str, data: &str) -> MultiOp<'static> {
    let (path, data) = (path.to_owned().into(), Some(data.as_bytes().to_vec().into()));
    MultiOp::Create(CreateRequest { path, data, acl: Some(vec![Acl::anyone(31)]), flags: 0 })
}

fn set(path: &str, data: &str) -> MultiOp<'static> {
    let (path, data) = (path.to_owned().into(), Some(data.as_bytes().to_vec().into()));
    MultiOp::SetData(SetDataRequest { path, data, version: -1 })
}

fn delete(path: &str) -> MultiOp<'static> {
    MultiOp::Delete(DeleteRequest { path: path.to_owned().into(), version: -1 })
}

const LIMITS: &str = "/zookeeper/quota/a/zookeeper_limits";
const STATS: &str = "/zookeeper/quota/a/zookeeper_stats";
const STATS_OF_ALL: &str = "/zookeeper/quota/zookeeper_stats";

fn with_quota(limits: &str) -> Server {
    let folder = "/zookeeper/quota/a";
    Server::new(&[("/a", ""), (folder, ""), (LIMITS, limits), (STATS, "")])
}

#[test]
fn the_deepest_quota_counts() {
    let mut server = Server::new(&[("/a", ""), ("/zookeeper/quota/a", "")]);
    let deepest =
        |server: &Server, path: &str| server.database.deepest_quota(path).map(str::to_owned);
    assert_eq!(deepest(&server, "/a/b"), None);
    for path in ["/zookeeper/quota/a/b", "/zookeeper/quota/a/b/c"] {
        server.run(vec![create(path, "")]).unwrap();
    }
    let of_c = "/zookeeper/quota/a/b/c/zookeeper_limits";
    server.run(vec![create(LIMITS, ""), create(of_c, "")]).unwrap();
    for (path, expected) in [
        ("/a", Some("/a")),
        ("/a/b", Some("/a")),
        ("/a/b/c", Some("/a/b/c")),
        ("/a/b/c/d", Some("/a/b/c")),
        ("/ab", None),
        ("/", None),
    ] {
        assert_eq!(deepest(&server, path).as_deref(), expected, "{path}");
    }
    server.run(vec![delete(LIMITS)]).unwrap();
    assert_eq!(deepest(&server, "/a/b"), None);
    assert_eq!(deepest(&server, "/a/b/c").as_deref(), Some("/a/b/c"));
}

#[test]
fn long_texts_of_a_quota_are_read_and_written_once() {
    const PARTS: usize = 200;
    let rest: String = (0..10_000).map(|number| format!(";n{number:05}=7")).collect();
    let mut server = with_quota(&format!("countHardLimit=1000{rest}"));
    server.run(vec![set(STATS, &format!("count=1,bytes=0={rest}"))]).unwrap();
    let before = (PARSED.get(), WRITTEN.get());
    let parts = (0..PARTS).map(|number| create(&format!("/a/{number}"), "123")).collect();
    server.run(parts).unwrap();
    assert_eq!(PARSED.get(), before.0);
    let text = format!("count={},bytes={}={rest}", 1 + PARTS, 3 * PARTS);
    assert_eq!(WRITTEN.get() - before.1, text.len());
    assert!(server.data(STATS) == text, "{:.40}", server.data(STATS));
    // The next one does neither begin anew.
    server.run(vec![delete("/a/7")]).unwrap();
    assert!(server.data(STATS) == format!("count={PARTS},bytes={}={rest}", 3 * (PARTS - 1)));
    assert_eq!(PARSED.get(), before.0);
    // The hard limit is the text's.
    let more = (0..1000).map(|number| create(&format!("/a/more-{number}"), "")).collect();
    assert_eq!(server.run(more), Ok(()), "parts of one multi do not see each other");
    assert_eq!(server.run(vec![create("/a/last", "")]), Err(ErrorCode::QuotaExceeded));
}

#[test]
fn a_multi_leaves_what_its_parts_leave_one_by_one() {
    // The statistics of all count those of `/a`, whose text becomes longer on the way.
    let ops = || {
        let mut ops: Vec<_> = (0..9).map(|number| create(&format!("/a/{number}"), "12")).collect();
        ops.extend([
            create(STATS_OF_ALL, "x"),
            create("/a/x", ""),
            delete(STATS_OF_ALL),
            create(STATS_OF_ALL, ""),
            set(STATS, "count=98,bytes=1;other=5"),
            create("/a/y", "1234567"),
            create("/a/z", "12345"),
            delete(STATS_OF_ALL),
            create(STATS_OF_ALL, ""),
        ]);
        ops
    };
    let mut one_by_one = with_quota("count=-1");
    ops().into_iter().for_each(|op| one_by_one.run(vec![op]).unwrap());
    let mut multi = with_quota("count=-1");
    multi.run(ops()).unwrap();
    for path in [STATS, STATS_OF_ALL] {
        assert_eq!(multi.data(path), one_by_one.data(path));
    }
    assert_eq!(multi.data(STATS), "count=100,bytes=13=;other=5");
    assert_eq!(multi.size(), one_by_one.size());
    // Statistics that go take what was not written along.
    let gone = || vec![create("/a/more", ""), delete(STATS), create("/a/most", "")];
    gone().into_iter().for_each(|op| one_by_one.run(vec![op]).unwrap());
    multi.run(gone()).unwrap();
    assert_eq!(multi.size(), one_by_one.size());
    assert_eq!(multi.database.quotas(None, 9).len(), 1);
    assert_eq!(multi.database.quotas(None, 9)[0].used, None);
}

#[test]
fn unreadable_statistics_refuse_only_where_a_limit_asks_for_them() {
    // `ZooKeeperServer.checkQuota`: limits are read first, statistics where a limit is set for what grows.
    let cases = [
        ("", Ok(()), Ok(())),
        ("count=-1,bytes=-1", Ok(()), Ok(())),
        ("count=5", Err(ErrorCode::MarshallingError), Ok(())),
        ("byteHardLimit=5", Ok(()), Err(ErrorCode::MarshallingError)),
        ("x", Err(ErrorCode::MarshallingError), Err(ErrorCode::MarshallingError)),
    ];
    for (limits, on_create, on_set) in cases {
        let mut server = with_quota(limits);
        // No client can make such statistics; those of a log that ZooKeeper wrote may be.
        let node = server.database.tree.find(STATS).unwrap();
        let unreadable = |server: &mut Server| {
            server.database.tree.set_data_silently(node, b"x");
            server.database.read_quota(STATS);
        };
        unreadable(&mut server);
        assert_eq!(server.run(vec![create("/a/x", "")]), on_create, "{limits}");
        unreadable(&mut server);
        assert_eq!(server.run(vec![set("/a", "1")]), on_set, "{limits}");
    }
}
