//! Quotas: what a change below one costs, and what it leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use jute::protocol::{CreateRequest, DeleteRequest, MultiOp, Request, SetDataRequest};
use jute::txn::TxnRecord;
use jute::{Acl, ErrorCode};
use proptest::prelude::*;

use super::apply::Mode;
use super::database::{Database, Rules};
use super::decide::request::{Origin, Work};
use super::decide::sequencer::{Notice, Prepared, Sequencer};
use super::quota::PARSED;
use super::session::SessionId;
use super::time::{Monotonic, Now, WallClock};
use super::tree::WRITTEN;
use super::tree::znode::NodeId;
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
        self.try_data(path).unwrap_or_else(|| panic!("{path}"))
    }

    fn try_data(&self, path: &str) -> Option<String> {
        let node = self.database.tree.find(path)?;
        Some(String::from_utf8(self.database.tree.data(node)?.to_vec()).unwrap())
    }

    fn size(&self) -> (u64, u64) {
        let root = self.database.tree.below(NodeId::ROOT).bytes;
        (self.database.tree.data_size(), root)
    }

    /// The same, of each znode.
    fn counted_size(&self) -> (u64, u64) {
        let (tree, mut paths, mut data) = (&self.database.tree, 0, 0);
        tree.for_each_below(NodeId::ROOT, |node, len| {
            paths += tree.path(node).len();
            data += len;
        });
        ((paths + data) as u64, data as u64)
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
    let deepest = |server: &Server, path: &str| {
        server.database.deepest_quota(path).map(|its| its.1.to_owned())
    };
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
fn texts_of_a_quota_are_read_and_written_once() {
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

/// `ZooKeeperServer.checkQuota` tells of it and lets it be.
#[test]
fn what_goes_beyond_a_soft_limit_is_told_and_done() {
    let mut server = with_quota("count=2,bytes=10");
    let mut told = |op| {
        server.run(vec![op]).unwrap();
        server.sequencer.take_notices()
    };
    let exceeded = |path: &str| {
        vec![Notice::QuotaExceeded { limited: "/a".to_owned(), path: path.to_owned() }]
    };
    assert_eq!(told(create("/a/x", "1234567890")), []);
    assert_eq!(told(create("/a/y", "")), exceeded("/a/y"));
    assert_eq!(told(set("/a/x", "12345678901")), exceeded("/a/x"));
    assert_eq!(told(delete("/a/y")), []);
    assert_eq!(told(create("/b", "")), []);
    assert_eq!(server.data("/a/x"), "12345678901");
    assert_eq!(server.data(STATS), "count=2,bytes=11");
}

/// A text of 1 MB, of this many parts that ZooKeeper keeps.
fn long_text(parts: usize) -> String {
    let name = "n".repeat((1 << 20) / parts - 10);
    (0..parts).map(|number| format!("{name}{number:07}=7;")).collect()
}

#[test]
fn figures_read_no_text() {
    const QUOTAS: usize = 64;
    let mut server = Server::new(&[]);
    let text = long_text(1);
    for number in 0..QUOTAS {
        let folder = format!("/zookeeper/quota/{number}");
        let limits = format!("count={number},{text}byteHardLimit=9");
        let znodes = [("", ""), ("/zookeeper_limits", &limits), ("/zookeeper_stats", "")];
        for (name, data) in znodes {
            server.run(vec![create(&format!("{folder}{name}"), data)]).unwrap();
        }
        let stats = format!("{text}count=7,bytes={number}");
        server.run(vec![set(&format!("{folder}/zookeeper_stats"), &stats)]).unwrap();
    }
    let before = PARSED.get();
    let mut sum = [0; 4];
    for quota in server.database.quotas(None) {
        let (limits, used) = (quota.limits.unwrap(), quota.used.unwrap());
        let its = [limits.count_limit(), limits.bytes_limit(), used.count, used.bytes];
        sum.iter_mut().zip(its).for_each(|(sum, one)| *sum += one);
    }
    assert_eq!(sum, [2016, 9 * 64, 7 * 64, 2016]);
    assert_eq!(PARSED.get(), before);
}

#[test]
fn changes_below_a_long_text_do_not_copy_it() {
    let mut server = with_quota("countHardLimit=1000");
    let text = long_text(100);
    server.run(vec![set(STATS, &text)]).unwrap();
    server.run(vec![set("/a", "1")]).unwrap();
    let before = (PARSED.get(), WRITTEN.get());
    for bytes in [0, 5, 1234, 99, 100, 7] {
        server.run(vec![set("/a", &"1".repeat(bytes))]).unwrap();
        // A client's statistics begin with -1, and the first byte came after them.
        let (bytes, text) = (i64::try_from(bytes).unwrap() - 1, text.trim_end_matches(';'));
        assert!(server.data(STATS) == format!("count=-1,bytes={bytes}=;{text}"), "{bytes}");
    }
    assert_eq!(PARSED.get(), before.0);
    assert!(WRITTEN.get() - before.1 < 6 * 30, "{}", WRITTEN.get() - before.1);
}

#[test]
fn statistics_that_come_and_go_are_neither_parsed_nor_written() {
    let mut server = with_quota("");
    server.run(vec![delete(STATS)]).unwrap();
    let before = (PARSED.get(), WRITTEN.get(), server.size());
    let pairs = (0..100).flat_map(|_| [create(STATS, "x"), delete(STATS)]).collect();
    server.run(pairs).unwrap();
    assert_eq!((PARSED.get(), WRITTEN.get(), server.size()), before);
}

#[test]
fn statistics_count_others_as_they_will_be_written() {
    let mut server = with_quota("");
    let quota = "/zookeeper/quota/zookeeper";
    let of_stats = format!("{quota}/quota/a/zookeeper_stats");
    for path in [quota, &format!("{quota}/quota"), &format!("{quota}/quota/a"), &of_stats] {
        server.run(vec![create(path, "")]).unwrap();
    }
    let its = format!("{of_stats}/zookeeper_stats");
    server.run(vec![set("/a", "1234567890"), create(&its, "")]).unwrap();
    assert_eq!(server.data(STATS), "count=1,bytes=10");
    assert_eq!(server.data(&its), "count=1,bytes=16");
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
    let quotas = multi.database.quotas(None).map(|its| (its.path, its.used.is_some()));
    assert_eq!(quotas.collect::<Vec<_>>(), [("", true), ("/a", false)]);
}

#[test]
fn unreadable_statistics_refuse_only_where_a_limit_asks_for_them() {
    // `ZooKeeperServer.checkQuota`: limits are read first, statistics where a limit is set for what
    // grows.
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
            let (tree, zxid) = (&mut server.database.tree, Zxid(0));
            tree.set_data(node, STATS, Some(b"x"), -1, zxid, 0);
            server.database.read_quota(node, STATS);
        };
        unreadable(&mut server);
        assert_eq!(server.run(vec![create("/a/x", "")]), on_create, "{limits}");
        unreadable(&mut server);
        assert_eq!(server.run(vec![set("/a", "1")]), on_set, "{limits}");
    }
}

/// A change and what it makes of the text that it changes.
#[derive(Debug, Clone)]
enum Step {
    Write(u8, usize),
    Remove(u8),
    WriteStats(&'static str),
    RemoveStats,
    WriteLimits(&'static str),
    RemoveLimits,
    RecountOuter,
}

const OUTER: &str = "/zookeeper/quota/zookeeper/quota/a";

/// The texts by a plain count of what is there, each written at once (`DataTree.updateQuotaStat`).
#[derive(Debug, Default)]
struct Texts {
    data: BTreeMap<u8, usize>,
    limits: Option<&'static str>,
    stats: Option<String>,
    outer: String,
}

impl Texts {
    fn grown(text: &str, count: i64, bytes: i64) -> String {
        let mut numbers = BTreeMap::from([("count", -1), ("bytes", -1)]);
        for pair in text.split([',', ';']).filter(|pair| !pair.is_empty()) {
            let mut sides = pair.split('=');
            let (name, number) = (sides.next().unwrap(), sides.next().unwrap());
            numbers.insert(name, if number.is_empty() { -1 } else { number.parse().unwrap() });
        }
        let (count, bytes) = (numbers["count"] + count, numbers["bytes"] + bytes);
        numbers.retain(|name, _| !["count", "bytes"].contains(name));
        let others: Vec<_> =
            numbers.into_iter().map(|(name, number)| format!(";{name}={number}")).collect();
        let equals = if others.is_empty() { "" } else { "=" };
        format!("count={count},bytes={bytes}{equals}{}", others.concat())
    }

    fn grow(&mut self, count: i64, bytes: i64) {
        if self.limits.is_some() {
            self.stats = self.stats.take().map(|text| Self::grown(&text, count, bytes));
        }
    }

    fn grow_outer(&mut self, count: i64, bytes: i64) {
        self.outer = Self::grown(&self.outer, count, bytes);
    }

    /// The requests of a step, after which these are the texts.
    fn take(&mut self, step: &Step) -> Vec<MultiOp<'static>> {
        let len = |text: &str| i64::try_from(text.len()).unwrap();
        match *step {
            Step::Write(name, bytes) => {
                let (path, text) = (format!("/a/{name}"), "x".repeat(bytes));
                match self.data.insert(name, bytes) {
                    Some(before) => {
                        self.grow(0, bytes as i64 - before as i64);
                        vec![set(&path, &text)]
                    }
                    None => {
                        self.grow(1, bytes as i64);
                        vec![create(&path, &text)]
                    }
                }
            }
            Step::Remove(name) => {
                let Some(bytes) = self.data.remove(&name) else { return Vec::new() };
                self.grow(-1, -(bytes as i64));
                vec![delete(&format!("/a/{name}"))]
            }
            Step::WriteStats(text) => {
                if let Some(before) = self.stats.replace(text.to_owned()) {
                    self.grow_outer(0, len(text) - len(&before));
                    return vec![set(STATS, text)];
                }
                let bytes: usize = self.data.values().sum();
                self.stats = Some(format!("count={},bytes={bytes}", 1 + self.data.len()));
                self.grow_outer(1, len(text));
                vec![create(STATS, text)]
            }
            Step::RemoveStats => {
                let Some(before) = self.stats.take() else { return Vec::new() };
                self.grow_outer(-1, -len(&before));
                vec![delete(STATS)]
            }
            Step::WriteLimits(text) => match self.limits.replace(text) {
                Some(before) => {
                    self.grow_outer(0, len(text) - len(before));
                    vec![set(LIMITS, text)]
                }
                None => {
                    self.grow_outer(1, len(text));
                    vec![create(LIMITS, text)]
                }
            },
            Step::RemoveLimits => {
                let Some(before) = self.limits.take() else { return Vec::new() };
                self.grow_outer(-1, -len(before));
                vec![delete(LIMITS)]
            }
            Step::RecountOuter => {
                let texts = [self.limits, self.stats.as_deref()];
                let texts: Vec<_> = texts.into_iter().flatten().collect();
                let bytes: i64 = texts.iter().map(|text| len(text)).sum();
                self.outer = format!("count={},bytes={bytes}", 1 + texts.len());
                let stats = format!("{OUTER}/zookeeper_stats");
                vec![delete(&stats), create(&stats, "anything")]
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let sizes = prop::sample::select(vec![0, 1, 9, 10, 99, 100, 1000]);
    let stats = prop::sample::select(vec![
        "",
        "count=7",
        "count=0,bytes=0",
        "bytes=9,count=99;b=1;a==3;b==2,,",
        "c=-5;other=100;count=-1,d=3",
    ]);
    let limits = prop::sample::select(vec!["", "count=1", "bytes=5,x=1", "countHardLimit=9999"]);
    prop_oneof![
        8 => (0..4_u8, sizes).prop_map(|(name, bytes)| Step::Write(name, bytes)),
        4 => (0..4_u8).prop_map(Step::Remove),
        4 => stats.prop_map(Step::WriteStats),
        1 => Just(Step::RemoveStats),
        1 => limits.prop_map(Step::WriteLimits),
        1 => Just(Step::RemoveLimits),
        1 => Just(Step::RecountOuter),
    ]
}

proptest! {
    #[test]
    fn texts_are_those_that_are_written_at_once(
        groups in prop::collection::vec(prop::collection::vec(step(), 1..6), 1..12),
    ) {
        let mut server = Server::new(&[("/a", ""), ("/zookeeper/quota/a", "")]);
        for (path, data) in [
            ("/zookeeper/quota/zookeeper", ""),
            ("/zookeeper/quota/zookeeper/quota", ""),
            (OUTER, ""),
            (&format!("{OUTER}/zookeeper_limits"), ""),
            (&format!("{OUTER}/zookeeper_stats"), ""),
        ] {
            server.run(vec![create(path, data)]).unwrap();
        }
        let mut texts = Texts { outer: "count=1,bytes=0".to_owned(), ..Texts::default() };
        for group in groups {
            let ops: Vec<_> = group.iter().flat_map(|step| texts.take(step)).collect();
            if ops.is_empty() {
                continue;
            }
            server.run(ops).unwrap();
            prop_assert_eq!(server.try_data(STATS), texts.stats.clone());
            let found = server.try_data(&format!("{OUTER}/zookeeper_stats"));
            prop_assert_eq!(found, Some(texts.outer.clone()));
            prop_assert_eq!(server.size(), server.counted_size());
        }
    }
}
