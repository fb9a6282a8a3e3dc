//! Replaying a log over a snapshot that was written while transactions went on, as ZooKeeper writes
//! its own (`DataTree.serialize`): what is in it already is passed over, and the tree ends as if
//! each were applied once.

use std::collections::BTreeMap;
use std::sync::Arc;

use jute::persist::{SnapshotNode, SnapshotSession};
use jute::protocol::{CreateRequest, DeleteRequest, MultiOp, Request};
use jute::txn::{
    CloseSessionTxn, CreateContainerTxn, CreateTxn, DeleteTxn, SetAclTxn, SetDataTxn, Txn,
    TxnHeader, TxnRecord,
};
use jute::{Acl, StatPersisted};
use proptest::prelude::*;

use super::answer::listing::{Listing, Progress};
use super::apply::Mode;
use super::apply_test::RULES;
use super::database::Database;
use super::decide::request::{Origin, Work};
use super::decide::sequencer::{Prepared, Sequencer};
use super::digest_test;
use super::model_test::{Pair, step};
use super::session::{SessionId, Sessions};
use super::time::{Monotonic, Now, WallClock};
use super::watch::ConnectionId;
use super::zxid::Zxid;

/// A znode as a snapshot has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    data: Option<Vec<u8>>,
    acl: Option<Vec<Acl<'static>>>,
    stat: StatPersisted,
}

/// The state between two transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Instant {
    zxid: Zxid,
    sessions: Sessions,
    nodes: BTreeMap<String, Shown>,
}

impl Instant {
    fn of(database: &Database) -> Self {
        let tree = database.tree();
        let mut ids = vec![super::NodeId::ROOT];
        tree.for_each_below(super::NodeId::ROOT, |id, _| ids.push(id));
        let shown = |id| {
            let acl = tree.acls().list(tree.acl(id)).map(|list| list.to_vec());
            let data = tree.data(id).map(<[u8]>::to_vec);
            (tree.path(id), Shown { data, acl, stat: tree.stat_persisted(id) })
        };
        let nodes = ids.into_iter().map(shown).collect();
        Self { zxid: database.last_zxid(), sessions: database.sessions().clone(), nodes }
    }

    fn children(&self, parent: &str) -> Vec<String> {
        let prefix = format!("{}/", parent.trim_end_matches('/'));
        let is_child = |path: &&String| {
            path.strip_prefix(&prefix).is_some_and(|name| !name.is_empty() && !name.contains('/'))
        };
        self.nodes.keys().filter(is_child).cloned().collect()
    }
}

/// The states before, between and after the transactions, each applied once.
fn instants(records: &[TxnRecord<'static>]) -> Vec<Instant> {
    let mut database = Database::new(1, RULES);
    let mut others = Database::new(1, RULES);
    let mut instants = vec![Instant::of(&database)];
    for record in records {
        apply(&mut database, record, Mode::Strict);
        // What fits is the same to whoever has it from others.
        apply(&mut others, record, Mode::Agreed);
        assert_eq!(others.take_misfit(), None);
        assert_eq!(Instant::of(&others), Instant::of(&database));
        instants.push(Instant::of(&database));
    }
    instants
}

fn apply(database: &mut Database, record: &TxnRecord<'static>, mode: Mode) {
    let TxnRecord { header, txn, digest } = record.clone();
    let applied = database.apply(&header, txn, digest, mode, &mut Vec::new());
    applied.unwrap_or_else(|error| panic!("{error}: {record:?}"));
}

/// A snapshot in the making: `DataTree.serializeNode` looks at one znode after the other, and at
/// its children when it is its turn.
struct Writer<'a> {
    instants: &'a [Instant],
    /// Which of them it is now.
    now: usize,
    /// How many transactions come in before each znode.
    pace: std::iter::Cycle<std::slice::Iter<'a, usize>>,
    nodes: Vec<(String, Shown)>,
}

impl Writer<'_> {
    fn write(&mut self, path: &str) {
        let more = self.pace.next().copied().unwrap_or_default();
        self.now = (self.now + more).min(self.instants.len() - 1);
        let instant = &self.instants[self.now];
        let Some(shown) = instant.nodes.get(path) else { return };
        self.nodes.push((path.to_owned(), shown.clone()));
        for child in instant.children(path) {
            self.write(&child);
        }
    }
}

/// Each ACL list of the znodes once.
fn lists<'a>(nodes: impl Iterator<Item = &'a Shown>) -> Vec<Vec<Acl<'static>>> {
    let mut lists: Vec<_> = nodes.filter_map(|shown| shown.acl.clone()).collect();
    lists.sort_unstable_by_key(|list| format!("{list:?}"));
    lists.dedup();
    lists
}

/// The number of the first list: there were many before.
const FIRST_LIST: i64 = 1 << 40;

/// Begins a snapshot after the `from`-th transaction, and loads it.
fn load(instants: &[Instant], from: usize, pace: &[usize]) -> Database {
    let pace = pace.iter().cycle();
    let mut writer = Writer { instants, now: from, pace, nodes: Vec::new() };
    writer.write("/");
    let mut database = Database::empty(2, RULES);
    for (&id, &timeout_ms) in &instants[from].sessions {
        database.load_session(SnapshotSession { id: id.0, timeout_ms });
    }
    // The lists come first. One that was made since has a number that nobody explains.
    let of_then = lists(instants[from].nodes.values());
    for (number, list) in (FIRST_LIST..).zip(&of_then) {
        database.load_acl(number, list);
    }
    database.expect_fuzzy();
    let all: Vec<_> =
        of_then.into_iter().chain(lists(writer.nodes.iter().map(|(_, shown)| shown))).collect();
    for (path, shown) in writer.nodes {
        let place = |list| all.iter().position(|one| *one == list).unwrap();
        let acl = shown.acl.map_or(-1, |list| FIRST_LIST + i64::try_from(place(list)).unwrap());
        let node = SnapshotNode { data: shown.data.map(Into::into), acl, stat: shown.stat };
        database.load_node(path.trim_end_matches('/'), &node).unwrap();
    }
    database.finish_load(instants[from].zxid);
    database
}

fn compare(records: &[TxnRecord<'static>], instants: &[Instant], from: usize, pace: &[usize]) {
    let mut database = load(instants, from, pace);
    for record in &records[from..] {
        apply(&mut database, record, Mode::Tolerant);
    }
    let (ours, expected) = (Instant::of(&database), instants.last().unwrap());
    for (path, expected) in &expected.nodes {
        assert_eq!(ours.nodes.get(path), Some(expected), "{path}, from {from}, {pace:?}");
    }
    assert_eq!(&ours, expected, "from {from}, {pace:?}");
    assert_eq!(database.tree().acls().still_awaited(), 0, "from {from}, {pace:?}");
    let owned = |session| database.tree().ephemerals(session).count();
    let sessions: usize = expected.sessions.keys().map(|&session| owned(session)).sum();
    assert_eq!(database.tree().ephemerals_count(), sessions);
}

#[test]
fn zookeepers_log_goes_over_any_snapshot_of_its_time() {
    let records = digest_test::log();
    let instants = instants(&records);
    for from in 0..records.len() {
        for pace in [&[0][..], &[1], &[3, 0], &[0, 0, 2], &[0, 0, 0, 0, 9], &[usize::MAX / 2]] {
            compare(&records, &instants, from, pace);
        }
    }
    let has = |kind: fn(&Txn<'_>) -> bool| records.iter().any(|record| kind(&record.txn));
    assert!(has(|txn| matches!(txn, Txn::Multi(_))) && has(|txn| matches!(txn, Txn::SetAcl(_))));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_logs_go_over_any_snapshot_of_their_time(
        steps in prop::collection::vec(step(), 50..150),
        from in any::<prop::sample::Index>(),
        pace in prop::collection::vec(prop_oneof![3 => 0..2_usize, 1 => 0..12_usize], 1..12),
    ) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.step(step);
        }
        pair.apply();
        let instants = instants(&pair.log);
        compare(&pair.log, &instants, from.index(pair.log.len()), &pace);
    }
}

#[test]
fn the_counters_of_a_parent_move_forward_only() {
    let create = CreateTxn {
        path: "/a".into(),
        data: None,
        acl: None,
        ephemeral: false,
        parent_cversion: 1,
    };
    let (plain, create2) = (Txn::Create(create.clone()), Txn::Create2(create));
    let container =
        CreateContainerTxn { path: "/a".into(), data: None, acl: None, parent_cversion: 1 };
    let container = Txn::CreateContainer(container);
    let delete = Txn::Delete(DeleteTxn { path: "/a".into() });
    // Creates and pzxid of the root, whether the child is there, and what zxid 5 leaves of the two.
    let cases = [
        ((0, 0), false, &plain, (1, 5)),
        ((0, 0), false, &create2, (1, 5)),
        ((1, 20), false, &plain, (1, 20)),
        ((2, 20), false, &plain, (2, 20)),
        // Of a child that is there, only the plain create counts.
        ((0, 0), true, &plain, (1, 5)),
        ((0, 0), true, &create2, (0, 0)),
        ((0, 0), true, &container, (0, 0)),
        ((1, 20), true, &plain, (1, 20)),
        ((2, 20), true, &plain, (2, 20)),
        ((1, 3), false, &delete, (1, 5)),
        ((1, 20), false, &delete, (1, 20)),
        ((1, 3), true, &delete, (1, 5)),
        ((1, 20), true, &delete, (1, 20)),
    ];
    for ((cversion, pzxid), is_there, txn, expected) in cases {
        let mut database = Database::empty(1, RULES);
        let stat = StatPersisted { cversion, pzxid, ..StatPersisted::default() };
        let node = |stat| SnapshotNode { data: None, acl: -1, stat };
        database.load_node("", &node(stat)).unwrap();
        if is_there {
            database.load_node("/a", &node(StatPersisted::default())).unwrap();
        }
        database.finish_load(Zxid(2));
        let header = TxnHeader { client_id: 7, cxid: 1, zxid: 5, time: 0 };
        apply(&mut database, &TxnRecord { header, txn: txn.clone(), digest: None }, Mode::Tolerant);
        let root = database.tree().stat_persisted(super::NodeId::ROOT);
        assert_eq!((root.cversion, root.pzxid), expected, "{cversion} {pzxid} {is_there} {txn:?}");
    }
}

#[test]
fn what_is_missing_is_passed_over() {
    let set = SetDataTxn { path: "/a".into(), data: None, version: 3 };
    let acl = SetAclTxn { path: "/a".into(), acl: None, version: 3 };
    let create = CreateTxn {
        path: "/a/b".into(),
        data: None,
        acl: None,
        ephemeral: false,
        parent_cversion: 1,
    };
    for txn in [Txn::SetData(set), Txn::SetAcl(acl), Txn::Create(create)] {
        let mut database = Database::new(1, RULES);
        let before = Instant::of(&database);
        let header = TxnHeader { client_id: 7, cxid: 1, zxid: 5, time: 0 };
        apply(&mut database, &TxnRecord { header, txn, digest: None }, Mode::Tolerant);
        assert_eq!(Instant::of(&database), Instant { zxid: Zxid(5), ..before });
    }
}

#[test]
fn what_was_made_anew_with_children_is_as_it_was_made_last() {
    let create = |path: &'static str, data: &'static [u8], parent_cversion| {
        let (path, data) = (path.into(), Some(data.into()));
        let acl = Some(vec![Acl::anyone(31)]);
        Txn::Create(CreateTxn { path, data, acl, ephemeral: false, parent_cversion })
    };
    let set = SetDataTxn { path: "/a".into(), data: Some(b"of the first".into()), version: 1 };
    let txns = [
        create("/a", b"first", 1),
        Txn::SetData(set),
        Txn::Delete(DeleteTxn { path: "/a".into() }),
        create("/a", b"second", 2),
        create("/a/b", b"below", 1),
    ];
    let records = records(txns);
    let instants = instants(&records);
    for from in 0..records.len() {
        compare(&records, &instants, from, &[records.len()]);
    }
}

fn records(txns: impl IntoIterator<Item = Txn<'static>>) -> Vec<TxnRecord<'static>> {
    let record = |(zxid, txn)| {
        let header = TxnHeader { client_id: 7, cxid: 1, zxid, time: 1000 * zxid };
        TxnRecord { header, txn, digest: None }
    };
    (1..).zip(txns).map(record).collect()
}

fn create(path: String, acl: Acl<'static>, parent_cversion: i32) -> Txn<'static> {
    let (path, data, acl) = (path.into(), Some(b"new"[..].into()), Some(vec![acl]));
    Txn::Create(CreateTxn { path, data, acl, ephemeral: false, parent_cversion })
}

/// ZOOKEEPER-3306, ZOOKEEPER-4689, ZOOKEEPER-4846: ZooKeeper writes the ACL lists before the
/// znodes, which can name one that was made since; such znodes could not be reached after a start,
/// or there was no start.
#[test]
fn an_acl_that_was_made_while_the_snapshot_was_written_comes_with_the_log() {
    let of = |id: &'static str| Acl { id: Some(id.into()), ..Acl::anyone(31) };
    let set = |id, version| {
        Txn::SetAcl(SetAclTxn { path: "/a".into(), acl: Some(vec![of(id)]), version })
    };
    let records = records([
        create("/a".into(), of("a"), 1),
        create("/b".into(), of("b"), 2),
        set("c", 1),
        Txn::Delete(DeleteTxn { path: "/b".into() }),
        create("/b".into(), of("d"), 3),
        create("/b/c".into(), of("e"), 1),
        set("a", 2),
        set("f", 3),
    ]);
    let instants = instants(&records);
    for from in 0..records.len() {
        for pace in [&[records.len()][..], &[1], &[0, 2], &[3, 0], &[0, 5], &[5, 1]] {
            compare(&records, &instants, from, pace);
        }
    }
    // Without its log nobody knows who may come in: nobody may.
    let database = load(&instants, 0, &[records.len()]);
    assert_eq!(database.tree().acls().still_awaited(), 3);
    for path in ["/a", "/b", "/b/c"] {
        let acl = database.tree().acl(database.tree().find(path).unwrap());
        assert!(!database.tree().acls().permits_anyone(acl, 31), "{path}");
        let list = database.tree().acls().list(acl).unwrap();
        assert_eq!(list.iter().fold(0, |sum, acl| sum | acl.perms), 0, "{path}");
    }
}

/// ZOOKEEPER-3127: the parts of a multi reach ZooKeeper's tree one by one, and a snapshot shows any
/// number of them.
#[test]
fn half_a_multi_in_the_snapshot_becomes_a_whole_one() {
    const NODES: i32 = 400;
    let path = |number| format!("/m/{number}");
    let creates = (0..NODES).map(|number| create(path(number), Acl::anyone(31), number + 1));
    let sets = (0..300).map(|number| {
        let (path, data) = (path(number).into(), Some(b"set"[..].into()));
        Txn::SetData(SetDataTxn { path, data, version: 1 })
    });
    let deletes = (100..NODES).map(|number| Txn::Delete(DeleteTxn { path: path(number).into() }));
    let parts: Vec<_> = creates.chain(sets).chain(deletes).collect();
    assert_eq!(parts.len(), 1000);
    let of = |parts: &[Txn<'static>]| {
        records([create("/m".into(), Acl::anyone(31), 1), Txn::Multi(parts.to_vec())])
    };
    let whole = of(&parts);
    let [_, before, after] = instants(&whole).try_into().expect("three instants");
    assert_eq!(after.nodes.len() - before.nodes.len(), 100);
    for done in [0, 1, 2, 399, 400, 401, 550, 699, 700, 850, 999, 1000] {
        let half = instants(&of(&parts[..done])).pop().expect("the last");
        // It begins before the multi, and sees what is done of it.
        let mut database = load(&[before.clone(), half], 0, &[1]);
        apply(&mut database, &whole[1], Mode::Tolerant);
        assert_eq!(Instant::of(&database), after, "{done} of 1000 parts");
    }
}

/// `/p`, with a child and two ephemeral znodes of session 7, of a snapshot whose log ends at zxid
/// 10, before the snapshot did: children of `/p` came and went up to zxid 20, and nobody knows of
/// it any more.
fn cut_short(creates: i32) -> Database {
    let mut database = Database::empty(1, RULES);
    for id in [7, 8] {
        database.load_session(SnapshotSession { id, timeout_ms: 4000 });
    }
    let stat = StatPersisted::default();
    let parent = StatPersisted { cversion: creates, pzxid: 20, ..stat };
    let own = StatPersisted { ephemeral_owner: 7, ..stat };
    for (path, stat) in [("", stat), ("/p", parent), ("/p/e", own), ("/p/f", own), ("/p/x", stat)] {
        database.load_node(path, &SnapshotNode { data: None, acl: -1, stat }).unwrap();
    }
    database.finish_load(Zxid(10));
    database
}

fn pzxid(database: &Database) -> i64 {
    let tree = database.tree();
    tree.find("/p").map_or(0, |node| tree.stat_persisted(node).pzxid)
}

fn make(path: &'static str) -> CreateRequest<'static> {
    CreateRequest { path: path.into(), data: None, acl: Some(vec![Acl::anyone(31)]), flags: 0 }
}

fn remove(path: &'static str) -> DeleteRequest<'static> {
    DeleteRequest { path: path.into(), version: -1 }
}

/// Requests, and the pzxid of `/p` after each.
type Requests = Vec<(Request<'static>, i64)>;

/// `DataTree.deleteNode` only raises the pzxid, and `createNode` sets it when it raises the
/// creates. A running server and a start that replays what it did agree, as does the digest that
/// was expected.
#[test]
fn what_goes_on_where_a_log_ends_inside_the_snapshot_is_what_a_start_makes_of_it() {
    let cases: [(&str, i32, Requests); 6] = [
        ("delete", 3, vec![(Request::Delete(remove("/p/x")), 20)]),
        ("create", 3, vec![(Request::Create(make("/p/y")), 11)]),
        (
            "one after the other",
            3,
            vec![
                (Request::Delete(remove("/p/x")), 20),
                (Request::Create(make("/p/x")), 12),
                (Request::Delete(remove("/p/x")), 13),
                (Request::CloseSession, 14),
            ],
        ),
        (
            "an end",
            3,
            vec![
                (Request::CloseSession, 20),
                (Request::Delete(remove("/p/x")), 20),
                (Request::Create(make("/p/x")), 13),
            ],
        ),
        (
            "a multi",
            3,
            vec![
                (Request::Multi(vec![MultiOp::Delete(remove("/p/x"))]), 20),
                (
                    Request::Multi(vec![
                        MultiOp::Create(make("/p/x")),
                        MultiOp::Delete(remove("/p/x")),
                    ]),
                    12,
                ),
            ],
        ),
        (
            "creates at their end",
            i32::MAX,
            vec![(Request::Create(make("/p/y")), 20), (Request::Delete(remove("/p/y")), 20)],
        ),
    ];
    for (name, creates, requests) in &cases {
        for is_in_flight in [false, true] {
            let case = format!("{name}, in flight: {is_in_flight}");
            let mut live = cut_short(*creates);
            let mut started = cut_short(*creates);
            let now = Now { monotonic: Monotonic(0), wall: WallClock(1000) };
            let mut sequencer = Sequencer::new(&live, 500, 1, now.monotonic);
            let mut records = Vec::new();
            for (request, expected) in requests {
                // The other one owns nothing.
                let session = if *request == Request::CloseSession { 7 } else { 8 };
                let origin = Origin {
                    connection: ConnectionId(1),
                    session: SessionId(session),
                    xid: 1,
                    identities: Arc::default(),
                    received: now.monotonic,
                };
                let work = Work::Request(request.clone());
                match sequencer.prepare(&live, &origin, work, now) {
                    Prepared::Txn(record) => records.push((record, *expected)),
                    other => panic!("{case}: {other:?}"),
                }
                if !is_in_flight {
                    apply(&mut live, &records[records.len() - 1].0, Mode::Strict);
                    sequencer.retire(live.last_zxid());
                    assert_eq!(pzxid(&live), *expected, "{case}");
                }
            }
            for (record, expected) in &records {
                if is_in_flight {
                    apply(&mut live, record, Mode::Strict);
                    assert_eq!(pzxid(&live), *expected, "{case}");
                }
                apply(&mut started, record, Mode::Tolerant);
                assert_eq!(pzxid(&started), *expected, "{case}, started");
            }
            assert!(records.iter().all(|(record, _)| record.digest.is_some()), "{case}");
            assert_eq!(live.take_mismatch(), None, "{case}");
            assert_eq!(started.take_mismatch(), None, "{case}");
            assert_eq!(Instant::of(&live), Instant::of(&started), "{case}");
            assert_eq!(live.tree().digest(), Some(live.tree().compute_digest()), "{case}");
        }
    }
}

/// Logs before ZooKeeper 3.6, and ends of sessions that own much, do not list what goes.
#[test]
fn what_an_end_does_not_list_raises_a_parents_numbers_only() {
    let header = TxnHeader { client_id: 7, cxid: 1, zxid: 11, time: 0 };
    let txn = Txn::CloseSession(CloseSessionTxn { paths_to_delete: Vec::new() });
    for mode in [Mode::Strict, Mode::Agreed, Mode::Tolerant] {
        let mut database = cut_short(3);
        apply(&mut database, &TxnRecord { header, txn: txn.clone(), digest: None }, mode);
        assert_eq!(database.tree().ephemerals_count(), 0, "{mode:?}");
        assert_eq!(pzxid(&database), 20, "{mode:?}");
    }
}

/// A delete that leaves the pzxid where it is changes the children all the same.
#[test]
fn a_long_listing_begins_again_where_a_pzxid_is_ahead() {
    let mut database = cut_short(3);
    let parent = database.tree().find("/p").unwrap();
    let listing = Listing::begin(&database, parent);
    let Progress::More(listing) = listing.advance(&database, parent, 1) else { panic!("done") };
    let header = TxnHeader { client_id: 7, cxid: 1, zxid: 11, time: 0 };
    let txn = Txn::Delete(DeleteTxn { path: "/p/x".into() });
    apply(&mut database, &TxnRecord { header, txn, digest: None }, Mode::Strict);
    let progress = listing.advance(&database, parent, 9);
    assert!(matches!(progress, Progress::Changed), "{progress:?}");
}
