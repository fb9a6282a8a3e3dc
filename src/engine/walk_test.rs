//! Snapshots taken while everything changes: the bytes must show one instant.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use jute::persist::{SnapshotNode, SnapshotSession};
use jute::{Acl, Record, StatPersisted};
use proptest::prelude::*;

use super::WalkStep;
use super::database::{Database, Rules};
use super::model::{Life, Node};
use super::model_test::{Pair, Step, step};
use super::owner::Owner;
use super::session::SessionId;
use super::zxid::Zxid;

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
            Some(WalkStep::Bytes(bytes)) => {
                self.bytes.extend(bytes);
                false
            }
            Some(WalkStep::Finished { zxid, digest }) => {
                assert_eq!((zxid, digest), (Zxid(self.zxid), self.digest));
                true
            }
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
            loaded.load_acl(id, &list).unwrap();
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
        loaded.finish_load(Zxid(self.zxid), self.digest);
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

const SCRIPTS: u32 = if cfg!(debug_assertions) { 100 } else { 1000 };

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
    database.finish_load(Zxid(7), None);
    assert_eq!(database.tree().count(), 3);
}
