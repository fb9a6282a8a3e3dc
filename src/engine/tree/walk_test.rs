//! Snapshots taken while everything changes: the bytes must show one instant.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jute::persist::{SnapshotNode, SnapshotSession};
use jute::txn::{CloseSessionTxn, DeleteTxn, SetAclTxn, SetDataTxn, Txn, TxnHeader};
use jute::{Acl, Record, StatPersisted};
use proptest::prelude::*;

use super::walk::LATE;
use super::znode::HOPS;
use crate::engine::WalkStep;
use crate::engine::apply::Mode;
use crate::engine::apply_test::{apply, make};
use crate::engine::database::{Database, Rules};
use crate::engine::model::{Life, Node};
use crate::engine::model_test::{Pair, Step, step};
use crate::engine::owner::Owner;
use crate::engine::session::SessionId;
use crate::engine::zxid::Zxid;

/// What a snapshot has to show.
#[derive(Debug)]
struct Instant {
    zxid: i64,
    digest: Option<i64>,
    nodes: BTreeMap<String, Node>,
    sessions: BTreeSet<i64>,
    bytes: Vec<u8>,
}

impl Instant {
    /// Begins a walk, and remembers what the model looks like.
    fn begin(pair: &mut Pair) -> Self {
        pair.apply();
        pair.database.begin_walk();
        Self {
            zxid: pair.model.zxid,
            digest: pair.database.tree.digest(),
            nodes: pair.model.nodes.clone(),
            sessions: pair.model.clients.iter().map(|client| client.session).collect(),
            bytes: Vec::new(),
        }
    }

    /// Goes on with the walk; whether it has ended.
    fn advance(&mut self, pair: &Pair, nodes: u32, enough: usize) -> bool {
        match pair.database.tree.advance_walk(nodes, enough) {
            None => false,
            Some(WalkStep::Bytes(bytes) | WalkStep::Znodes(bytes)) => {
                self.bytes.extend(bytes);
                false
            }
            Some(WalkStep::Finished { zxid, digest }) => {
                assert_eq!((zxid, digest), (Zxid(self.zxid), self.digest));
                true
            }
            Some(WalkStep::Lacking(znodes)) => panic!("{znodes} znodes are not there"),
        }
    }

    /// Reads the bytes as a server does that starts with them.
    fn compare(&self) {
        let rules = Rules { extended_types: true, ..Rules::default() };
        let mut loaded = Database::empty(9, rules);
        let mut rest = self.bytes.as_slice();
        let mut sessions = BTreeSet::new();
        for _ in 0..take::<i32>(&mut rest) {
            let session: SnapshotSession = take(&mut rest);
            assert!(sessions.insert(session.id));
            assert_eq!(session.timeout_ms, 10_000);
            loaded.load_session(session);
        }
        assert_eq!(sessions, self.sessions);
        let mut acls = BTreeMap::new();
        for _ in 0..take::<i32>(&mut rest) {
            let id: i64 = take(&mut rest);
            let list: Vec<Acl<'_>> = take(&mut rest);
            loaded.load_acl(id, &list);
            assert!(acls.insert(id, list).is_none());
        }
        let mut seen = BTreeSet::new();
        while !rest.is_empty() {
            let path: Cow<'_, str> = take(&mut rest);
            let node: SnapshotNode<'_> = take(&mut rest);
            let path = if path.is_empty() { "/" } else { &*path };
            if let Some((above, _)) = path.rsplit_once('/').filter(|_| path != "/") {
                let above = if above.is_empty() { "/" } else { above };
                assert!(seen.contains(above), "{path} stands before its parent");
            }
            assert!(seen.insert(path.to_owned()), "{path} stands there twice");
            let expected = self.nodes.get(path).unwrap_or_else(|| panic!("{path} is too much"));
            assert_eq!(node.data.as_deref(), expected.data.as_deref(), "{path}");
            assert_eq!(node.stat, persisted(expected), "{path}");
            let acl = acls.get(&node.acl).cloned().unwrap_or_default();
            assert_eq!(acl, expected.acl, "{path}");
            assert_eq!(node.acl == -1, expected.acl.is_empty(), "{path}");
            loaded.load_node(if path == "/" { "" } else { path }, &node).unwrap();
        }
        assert_eq!(seen, self.nodes.keys().cloned().collect());
        loaded.finish_load(Zxid(self.zxid));
        assert_eq!(Some(loaded.tree.compute_digest()), self.digest);
        assert_eq!(loaded.tree.count(), self.nodes.len());
        for &session in &self.sessions {
            let is_own = |node: &&Node| node.life == Life::Ephemeral(session);
            let own = self.nodes.values().filter(is_own).count();
            assert_eq!(loaded.tree.ephemerals(SessionId(session)).count(), own);
        }
    }
}

fn take<'a, T: Record<'a>>(rest: &mut &'a [u8]) -> T {
    let (value, behind) = jute::decode(rest).unwrap();
    *rest = behind;
    value
}

fn persisted(node: &Node) -> StatPersisted {
    StatPersisted {
        czxid: node.czxid,
        mzxid: node.mzxid,
        ctime: node.ctime,
        mtime: node.mtime,
        version: node.version,
        cversion: node.creates,
        aversion: node.aversion,
        ephemeral_owner: match node.life {
            Life::Persistent => Owner::None,
            Life::Ephemeral(session) => Owner::Session(SessionId(session)),
            Life::Container => Owner::Container,
            Life::Ttl(ms) => Owner::Ttl(ms),
        }
        .stored(),
        pzxid: node.pzxid,
    }
}

/// Between two changes: up to so many znodes, handed over from so many bytes on.
fn slice() -> impl Strategy<Value = (u32, usize)> {
    (prop_oneof![3 => 0..2_u32, 1 => 0..8_u32], prop_oneof![Just(1_usize), 1..2000_usize])
}

const SCRIPTS: u32 = 1000;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: SCRIPTS,
        max_shrink_iters: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_walk_shows_the_instant_of_its_beginning(
        before in prop::collection::vec(step(), 0..80),
        during in prop::collection::vec((step(), slice()), 50..150),
    ) {
        let mut pair = Pair::new();
        for step in &before {
            pair.step(step);
        }
        let mut walks = 0;
        let mut instant = Instant::begin(&mut pair);
        for (step, (nodes, enough)) in &during {
            pair.step(&Step { apply: usize::MAX, ..step.clone() });
            if instant.advance(&pair, *nodes, *enough) {
                instant.compare();
                walks += 1;
                instant = Instant::begin(&mut pair);
            }
        }
        while !instant.advance(&pair, 3, 100) {}
        instant.compare();
        prop_assert!(!pair.database.tree.is_walking());
        prop_assert!(walks < during.len());
    }
}

#[test]
fn a_walk_can_be_dropped_and_begun_anew() {
    let mut pair = Pair::new();
    let _dropped = Instant::begin(&mut pair);
    pair.database.tree.abandon_walk();
    assert!(!pair.database.tree.is_walking());
    assert!(pair.database.tree.advance_walk(10, 1).is_none());
    let mut first = Instant::begin(&mut pair);
    first.advance(&pair, 2, 1);
    // A second beginning takes the place of the first.
    let mut instant = Instant::begin(&mut pair);
    while !instant.advance(&pair, 1, 1) {}
    instant.compare();
}

/// They are written a few at a time, before all znodes.
#[test]
fn sessions_and_lists_are_those_of_the_beginning_however_late_they_are_written() {
    const LISTS: usize = 200;
    let list = |number: usize| {
        let id = format!("{number}:{}", "x".repeat(10_000));
        vec![Acl { perms: 31, scheme: Some("digest".into()), id: Some(id.into()) }]
    };
    let set_acl = |database: &mut Database, path: &str, acl: Vec<Acl<'static>>, version: i32| {
        let set = SetAclTxn { path: path.to_owned().into(), acl: Some(acl), version };
        apply(database, Txn::SetAcl(set)).expect("it fits");
    };
    let mut database = Database::new(1, Rules::default());
    let sessions = (1..=20_000).map(|id| SnapshotSession { id, timeout_ms: 10_000 });
    sessions.clone().for_each(|session| database.load_session(session));
    for number in 0..LISTS {
        make(&mut database, &format!("/{number}"), b"", Owner::None);
        set_acl(&mut database, &format!("/{number}"), list(number), 1);
    }
    let mut expected = Vec::new();
    20_000_i32.encode(&mut expected);
    sessions.for_each(|session| session.encode(&mut expected));
    // The reserved znodes have one of their own.
    let known: Vec<_> = database.tree().acls().iter().collect();
    i32::try_from(known.len()).expect("few").encode(&mut expected);
    for (id, list) in known {
        id.stored().encode(&mut expected);
        list.to_vec().encode(&mut expected);
    }
    database.begin_walk();
    let mut bytes = Vec::new();
    for turn in 0.. {
        // Each list goes, and its number is given to another one.
        let (number, version) = (turn % LISTS, turn / LISTS + 2);
        let version = i32::try_from(version).expect("few");
        set_acl(&mut database, &format!("/{number}"), list(LISTS + turn), version);
        let (client_id, zxid) = (turn as i64 + 1, database.last_zxid().0 + 1);
        let header = TxnHeader { client_id, cxid: 1, zxid, time: 1000 };
        let close = Txn::CloseSession(CloseSessionTxn { paths_to_delete: Vec::new() });
        database.apply(&header, close, None, Mode::Strict, &mut Vec::new()).expect("it fits");
        match database.tree().advance_walk(1, 1) {
            Some(WalkStep::Bytes(more) | WalkStep::Znodes(more)) => bytes.extend(more),
            Some(WalkStep::Finished { .. }) => break,
            Some(WalkStep::Lacking(znodes)) => panic!("{znodes} znodes are missing"),
            None => {}
        }
    }
    assert!(bytes.starts_with(&expected));
    let mut rest = &bytes[expected.len()..];
    let mut paths = BTreeSet::new();
    while !rest.is_empty() {
        let path: Cow<'_, str> = take(&mut rest);
        let node: SnapshotNode<'_> = take(&mut rest);
        assert!(paths.insert(path.to_string()), "{path} stands there twice");
        let has_list = path.strip_prefix('/').is_some_and(|name| name.parse::<usize>().is_ok());
        assert!(!has_list || node.stat.aversion == 1, "{path}");
    }
    assert!((0..LISTS).all(|number| paths.contains(&format!("/{number}"))));
}

/// While whoever takes the bytes does not: its disk is slow.
#[test]
fn a_walk_for_which_too_much_waits_is_over_and_takes_no_more() {
    const LEN: usize = 1 << 20;
    let mut database = Database::new(1, Rules::default());
    let path = |number: usize| format!("/{number}");
    let data = vec![7; LEN];
    (0..200).for_each(|number| make(&mut database, &path(number), &data, Owner::None));
    let change = |database: &mut Database, number: usize| {
        let set = SetDataTxn { path: path(number).into(), data: None, version: 1 };
        apply(database, Txn::SetData(set)).expect("it fits");
    };
    // Whose bytes are taken may change as much as it will.
    database.begin_walk();
    for number in 0..100 {
        change(&mut database, number);
        let step = database.tree.advance_walk(0, 1);
        assert!(matches!(step, Some(WalkStep::Bytes(_) | WalkStep::Znodes(_))));
        assert!(database.tree.end_late_walk().is_none(), "behind {number}");
    }
    database.begin_walk();
    for number in 100..200 {
        assert!(database.tree.is_walking());
        change(&mut database, number);
    }
    assert!(database.tree.advance_walk(10, 1).is_none());
    let late = database.tree.end_late_walk().expect("it is late");
    let waits = late.0.waiting();
    assert!((LATE..LATE + 2 * LEN).contains(&waits), "{waits} bytes");
    assert!(!database.tree.is_walking() && database.tree.end_late_walk().is_none());
    // The next one is another.
    database.begin_walk();
    let steps = std::iter::from_fn(|| database.tree.advance_walk(u32::MAX, 0));
    assert!(steps.into_iter().any(|step| matches!(step, WalkStep::Finished { .. })));
}

/// Those of ZooKeeper 3.4 have no `/zookeeper/config`; ZooKeeper 3.9.5 adds none (asked).
#[test]
fn a_loaded_tree_has_the_reserved_znodes_of_its_snapshot() {
    let mut database = Database::empty(1, Rules::default());
    for path in ["", "/zookeeper", "/zookeeper/quota"] {
        let node = SnapshotNode {
            data: Some(Cow::Borrowed(b"")),
            acl: -1,
            stat: StatPersisted::default(),
        };
        database.load_node(path, &node).expect("loads");
    }
    database.finish_load(Zxid(7));
    assert_eq!(database.tree().count(), 3);
}

/// However large the znodes are that a slice comes to, and however much of what changed waits
/// already.
#[test]
fn a_walk_shows_every_znode_of_a_large_tree() {
    const LEN: usize = 1 << 20;
    const ZNODES: usize = 100;
    for changed in [0, LATE / LEN - 1] {
        let mut database = Database::new(1, Rules::default());
        let before = database.tree.count();
        let path = |number: usize| format!("/{number}");
        let data = vec![7; LEN];
        (0..ZNODES).for_each(|number| make(&mut database, &path(number), &data, Owner::None));
        database.begin_walk();
        for number in ZNODES - changed..ZNODES {
            let set = SetDataTxn { path: path(number).into(), data: None, version: 1 };
            apply(&mut database, Txn::SetData(set)).expect("it fits");
        }
        let mut bytes = Vec::new();
        loop {
            assert!(database.tree.end_late_walk().is_none());
            match database.tree.advance_walk(256, LEN) {
                Some(WalkStep::Bytes(more) | WalkStep::Znodes(more)) => bytes.extend(more),
                Some(WalkStep::Finished { .. }) => break,
                Some(WalkStep::Lacking(znodes)) => panic!("{znodes} znodes are not there"),
                None => {}
            }
        }
        let mut rest = bytes.as_slice();
        assert_eq!(take::<i32>(&mut rest), 0, "sessions");
        for _ in 0..take::<i32>(&mut rest) {
            let _: (i64, Vec<Acl<'_>>) = (take(&mut rest), take(&mut rest));
        }
        let mut shown = 0;
        while !rest.is_empty() {
            let path: Cow<'_, str> = take(&mut rest);
            let node: SnapshotNode<'_> = take(&mut rest);
            let is_large = node.data.is_some_and(|data| data.len() == LEN);
            assert_eq!(is_large, path.len() > 1 && !path.starts_with("/zookeeper"), "{path}");
            shown += 1;
        }
        assert_eq!(shown, before + ZNODES);
    }
}

/// What waits for its ancestors counts as much as any: the path of each is written out in full.
#[test]
fn a_deep_chain_of_ancestors_makes_a_walk_late_like_anything_else() {
    const LEVELS: usize = 2000;
    let name = "x".repeat(49);
    let mut database = Database::empty(1, Rules { digest: false, ..Rules::default() });
    let node = SnapshotNode { data: None, acl: -1, stat: StatPersisted::default() };
    let mut path = String::new();
    database.begin_bulk_load();
    for _ in 0..LEVELS {
        path.push('/');
        path.push_str(&name);
        database.load_node(&path, &node).expect("loads");
    }
    database.end_bulk_load().expect("they differ");
    database.finish_load(Zxid(7));
    database.begin_walk();
    // What comes first: sessions and lists.
    while !matches!(database.tree.advance_walk(0, 1), Some(WalkStep::Bytes(_))) {}
    HOPS.set(0);
    let set = SetDataTxn { path: path.clone().into(), data: None, version: 1 };
    apply(&mut database, Txn::SetData(set)).expect("it fits");
    assert!(HOPS.get() <= 2 * LEVELS + 10, "{} steps", HOPS.get());
    let late = database.tree.end_late_walk().expect("all of them are more than may wait");
    let waits = late.0.waiting();
    assert!((LATE..=LATE + path.len() + 200).contains(&waits), "{waits} bytes");
}

/// The number of a znode that was deleted is given to another one: then a parent can come after
/// its child.
#[test]
fn a_chain_that_hangs_at_a_higher_number_is_written_a_few_at_a_time() {
    const LEVELS: usize = 100;
    let mut database = Database::new(1, Rules { digest: false, ..Rules::default() });
    make(&mut database, "/first", b"", Owner::None);
    let mut above = "/chain".to_owned();
    make(&mut database, &above, b"", Owner::None);
    for _ in 0..LEVELS {
        above = format!("{above}/{}", "x".repeat(100));
        make(&mut database, &above, b"", Owner::None);
    }
    let delete = DeleteTxn { path: "/first".into() };
    apply(&mut database, Txn::Delete(delete)).expect("it fits");
    make(&mut database, &format!("{above}/last"), b"", Owner::None);
    database.begin_walk();
    let (mut paths, mut largest) = (BTreeSet::new(), 0);
    // What comes first: sessions and lists.
    while !matches!(database.tree.advance_walk(0, 1), Some(WalkStep::Bytes(_))) {}
    loop {
        match database.tree.advance_walk(256, 20_000) {
            Some(WalkStep::Bytes(more) | WalkStep::Znodes(more)) => {
                largest = largest.max(more.len());
                let mut rest = more.as_slice();
                while !rest.is_empty() {
                    let path: Cow<'_, str> = take(&mut rest);
                    let _: SnapshotNode<'_> = take(&mut rest);
                    let above = path.rsplit_once('/').map_or("", |(above, _)| above);
                    assert!(path.is_empty() || paths.contains(above), "{path}");
                    assert!(paths.insert(path.into_owned()));
                }
            }
            Some(WalkStep::Finished { .. }) => break,
            Some(WalkStep::Lacking(znodes)) => panic!("{znodes} znodes are missing"),
            None => {}
        }
    }
    assert_eq!(paths.len(), database.tree().count());
    assert!(largest < 20_000 + above.len() + 200, "{largest} bytes at once");
}
