//! The tree of znodes: finding, changing and listing them.
//!
//! Owns the znodes, their index, the ACL lists, who owns which ephemeral znode, and the walk of a
//! snapshot in progress. Decides nothing: whether a change is allowed was settled before it comes
//! here.

mod change;
mod index;
mod load;
pub mod misfit;
mod trail;
pub(super) mod walk;
pub(super) mod znode;

#[cfg(test)]
mod walk_test;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use hashbrown::HashMap;
use jute::{Acl, Stat, StatPersisted};
use parking_lot::Mutex;

use self::index::Index;
use self::trail::Trail;
use self::walk::{LateWalk, Walk, WalkStep};
use self::znode::{Below, Birth, NodeId, Znode, Znodes};
use super::access::acl::{AclId, AclList, AclTable};
use super::digest::ContentDigest;
use super::owner::Owner;
use super::path;
use super::session::{SessionId, Sessions};
use super::zxid::Zxid;

/// Why a change cannot be made. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// The znode, or the parent of the one to make, is missing.
    #[error("znode {0} does not exist")]
    NoNode(String),
    /// The znode is there already.
    #[error("znode {0} exists already")]
    NodeExists(String),
    /// The znode has children.
    #[error("znode {0} has children")]
    NotEmpty(String),
    /// The change would leave another version than the transaction says.
    #[error("znode {path} would get version {ours}, but the transaction says {theirs}")]
    Version {
        /// The znode.
        path: String,
        /// What the tree would make of it.
        ours: i32,
        /// What is written down.
        theirs: i32,
    },
    /// The stored owner is an extended type that does not exist.
    #[error("znode {path} has the unknown owner {owner:#x}")]
    UnknownOwner {
        /// The znode.
        path: String,
        /// What is stored.
        owner: i64,
    },
    /// The ACL list of a snapshot's znode is missing.
    #[error("znode {path} has ACL {acl}, which the snapshot does not contain")]
    NoAcl {
        /// The znode.
        path: String,
        /// The number.
        acl: i64,
    },
    /// All 2^32 - 1 numbers are given out.
    #[error("the tree is full")]
    Full,
}

/// The tree.
#[derive(Debug)]
pub struct Tree {
    znodes: Znodes,
    index: Index,
    acls: AclTable,
    ephemerals: BTreeMap<SessionId, Owned>,
    ephemerals_count: usize,
    /// How often one came or went.
    ephemerals_changes: u64,
    /// Containers and znodes with a time to live: what the reaper looks at.
    reapable: BTreeSet<NodeId>,
    /// Bytes of all paths and data.
    data_size: u64,
    /// The sum over all znodes, where it is kept.
    digest: Option<i64>,
    /// What long data gives to it: the counters of a parent change more often than its data does.
    contents: HashMap<NodeId, ContentDigest>,
    /// Whether owners may be times to live.
    extended_types: bool,
    /// A shared hold of the tree is enough to advance it.
    walk: Mutex<Option<Walk>>,
    /// While a snapshot is loaded in bulk.
    bulk: Option<Bulk>,
}

/// The ephemeral znodes of a session.
#[derive(Debug, Default)]
struct Owned {
    nodes: BTreeSet<NodeId>,
    /// When one came or went last.
    changed: u64,
}

/// What stands in for the index while a snapshot is loaded in bulk.
#[derive(Debug)]
struct Bulk {
    trail: Trail,
    /// Znodes from here on were loaded in bulk.
    first: u32,
    /// Znodes from here on are not in the index.
    indexed: u32,
}

/// A znode to make.
#[derive(Debug)]
pub struct Creation<'a> {
    /// Full path.
    pub path: &'a str,
    /// The data.
    pub data: Option<&'a [u8]>,
    /// The list to store.
    pub acl: &'a [Acl<'a>],
    /// Who keeps it alive.
    pub owner: Owner,
    /// Of the transaction.
    pub zxid: Zxid,
    /// Milliseconds since 1970.
    pub time: i64,
}

/// What a change did to the znode, for whoever tells watchers.
#[derive(Debug)]
pub struct Changed {
    /// Who may read the znode; `None` for anyone.
    pub node_acl: Option<AclList>,
    /// Who may read its parent; `None` for anyone.
    pub parent_acl: Option<AclList>,
}

impl Tree {
    /// The root alone. `seed` makes the index's hashes unpredictable.
    #[must_use]
    pub fn new(seed: u64, extended_types: bool) -> Self {
        let mut znodes = Znodes::default();
        znodes.insert(&Birth {
            parent: NodeId::ROOT,
            name: "",
            hash: 0,
            data: Some(b""),
            acl: AclId::OPEN,
            owner: Owner::None,
            stat: StatPersisted::default(),
        });
        Self {
            znodes,
            index: Index::new(seed),
            acls: AclTable::default(),
            ephemerals: BTreeMap::new(),
            ephemerals_count: 0,
            ephemerals_changes: 0,
            reapable: BTreeSet::new(),
            data_size: 0,
            digest: None,
            contents: HashMap::new(),
            extended_types,
            walk: Mutex::new(None),
            bulk: None,
        }
    }

    /// The znode of a path. An empty path is the root.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<NodeId> {
        if path.is_empty() || path == path::ROOT {
            return Some(NodeId::ROOT);
        }
        path::names(path.strip_prefix('/')?)
            .try_fold(NodeId::ROOT, |parent, name| self.index.find(&self.znodes, parent, name))
    }

    /// The child of a znode that has this name.
    pub(super) fn child(&self, id: NodeId, name: &str) -> Option<NodeId> {
        self.index.find(&self.znodes, id, name)
    }

    /// The parent of a path that need not exist, and the last name.
    fn find_parent<'a>(&self, path: &'a str) -> Option<(NodeId, &'a str)> {
        let (parent, name) = path.rsplit_once('/')?;
        Some((self.find(parent)?, name))
    }

    /// What clients see of a znode.
    #[must_use]
    pub fn stat(&self, id: NodeId) -> Stat {
        self.znodes.stat(id)
    }

    /// What is stored of a znode.
    #[must_use]
    pub fn stat_persisted(&self, id: NodeId) -> StatPersisted {
        self.znodes.stat_persisted(id)
    }

    /// The data; null and empty differ.
    #[must_use]
    pub fn data(&self, id: NodeId) -> Option<&[u8]> {
        self.znodes.get(id).and_then(Znode::data)
    }

    /// The children's names, youngest first.
    pub fn children(&self, id: NodeId) -> impl Iterator<Item = &str> {
        self.znodes.children(id).map(|(_, node)| node.name())
    }

    /// How many children a znode has.
    #[must_use]
    pub fn num_children(&self, id: NodeId) -> usize {
        usize::try_from(self.znodes.num_children(id)).unwrap_or(0)
    }

    /// The youngest child.
    #[must_use]
    pub fn first_child(&self, id: NodeId) -> Option<NodeId> {
        self.znodes.first_child(id)
    }

    /// The name of a child, and the next older one.
    #[must_use]
    pub fn sibling(&self, id: NodeId) -> Option<(&str, Option<NodeId>)> {
        let node = self.znodes.get(id)?;
        Some((node.name(), node.next()))
    }

    /// The number of a znode's ACL list.
    #[must_use]
    pub fn acl(&self, id: NodeId) -> AclId {
        self.znodes.get(id).map_or(AclId::OPEN, |node| node.acl)
    }

    /// The ACL lists.
    #[must_use]
    pub const fn acls(&self) -> &AclTable {
        &self.acls
    }

    /// Takes the long ACL lists that nobody uses any more.
    pub fn take_gone_lists(&mut self) -> Vec<AclList> {
        self.acls.take_gone()
    }

    /// Who keeps a znode alive.
    #[must_use]
    pub fn owner(&self, id: NodeId) -> Owner {
        self.znodes.owner(id)
    }

    /// Znodes, the root included.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.znodes.count()
    }

    /// Bytes of all paths and data.
    #[must_use]
    pub const fn data_size(&self) -> u64 {
        self.data_size
    }

    /// Ephemeral znodes.
    #[must_use]
    pub const fn ephemerals_count(&self) -> usize {
        self.ephemerals_count
    }

    /// The full path of a znode.
    #[must_use]
    pub fn path(&self, id: NodeId) -> String {
        let mut path = String::new();
        self.znodes.write_path(id, &mut path);
        if path.is_empty() {
            path.push('/');
        }
        path
    }

    /// The name of a znode; the root's is empty.
    pub(super) fn name(&self, id: NodeId) -> &str {
        self.znodes.get(id).map_or("", Znode::name)
    }

    /// Puts the full path of a znode into `path`, empty for the root.
    pub(super) fn write_path(&self, id: NodeId, path: &mut String) {
        self.znodes.write_path(id, path);
    }

    /// The znodes of a session, in the order of their numbers.
    pub fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = NodeId> {
        self.ephemerals_behind(session, None)
    }

    /// The same, from the one after `last` on.
    pub(super) fn ephemerals_behind(
        &self,
        session: SessionId,
        last: Option<NodeId>,
    ) -> impl Iterator<Item = NodeId> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let owned = self.ephemerals.get(&session);
        owned.into_iter().flat_map(move |its| its.nodes.range((from, Bound::Unbounded)).copied())
    }

    /// How many znodes a session has, and what is another number once they are others.
    pub(super) fn ephemerals_of(&self, session: SessionId) -> (usize, u64) {
        self.ephemerals.get(&session).map_or((0, 0), |its| (its.nodes.len(), its.changed))
    }

    /// How many sessions have ephemeral znodes.
    #[must_use]
    pub fn ephemeral_owners(&self) -> usize {
        self.ephemerals.len()
    }

    /// Looks at ephemeral znodes by the order of their sessions, after the last one seen, until
    /// `each` has had enough. Whether it had not.
    pub fn ephemerals_after(
        &self,
        last: Option<(SessionId, NodeId)>,
        mut each: impl FnMut(SessionId, NodeId) -> bool,
    ) -> bool {
        let from = last.map_or(Bound::Unbounded, |(session, _)| Bound::Included(session));
        self.ephemerals.range((from, Bound::Unbounded)).all(|(session, owned)| {
            let seen = last.filter(|(last, _)| last == session);
            let from = seen.map_or(Bound::Unbounded, |(_, node)| Bound::Excluded(node));
            owned.nodes.range((from, Bound::Unbounded)).all(|node| each(*session, *node))
        })
    }

    /// Sessions with ephemeral znodes, in the order of their ids.
    pub fn sessions_with_ephemerals(&self) -> Vec<SessionId> {
        self.ephemerals.keys().copied().collect()
    }

    /// Containers and znodes with a time to live after `after`, in the order of their numbers.
    pub fn reapable(&self, after: Option<NodeId>) -> impl Iterator<Item = NodeId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.reapable.range((from, Bound::Unbounded)).copied()
    }

    /// What is below a znode, at any depth. It is kept, not counted now.
    #[must_use]
    pub fn below(&self, id: NodeId) -> Below {
        self.znodes.below(id)
    }

    /// Visits every znode below a znode, at any depth: nothing that a client may ask for.
    pub fn for_each_below(&self, id: NodeId, mut visit: impl FnMut(NodeId, usize)) {
        let mut waiting = vec![id];
        while let Some(parent) = waiting.pop() {
            for (child, node) in self.znodes.children(parent) {
                #[cfg(test)]
                VISITED.set(VISITED.get() + 1);
                visit(child, node.data_len());
                if self.znodes.num_children(child) > 0 {
                    waiting.push(child);
                }
            }
        }
    }

    /// The sum over all znodes, where it is kept.
    #[must_use]
    pub const fn digest(&self) -> Option<i64> {
        self.digest
    }

    /// Keeps the sum from here on, where there is nothing but the root.
    pub(super) fn keep_digest(&mut self) {
        debug_assert_eq!(self.count(), 1, "znodes that are not counted");
        self.digest = Some(0);
        self.count_in(NodeId::ROOT, path::ROOT);
    }

    /// As [`super::database::Database::drift`].
    #[cfg(test)]
    pub(super) fn drift(&mut self) {
        self.digest = self.digest.map(|sum| sum.wrapping_add(1));
    }

    /// Memory that goes wrong: counters of a znode are others, and what is kept of the tree does
    /// not know it.
    #[cfg(test)]
    pub fn corrupt(&mut self, path: &str, change: impl FnOnce(&mut StatPersisted)) {
        let Some(id) = self.find(path) else { return };
        let mut stat = self.znodes.stat_persisted(id);
        change(&mut stat);
        if let Some(node) = self.znodes.get_mut(id) {
            node.version = stat.version;
        }
        self.znodes.set_counters(id, stat.cversion, stat.pzxid);
        self.znodes.set_aversion(id, stat.aversion);
    }

    /// The list that a watcher's READ is checked against; `None` where anyone may read.
    fn reader_acl(&self, id: AclId) -> Option<AclList> {
        if self.acls.permits_anyone(id, jute::perms::READ) {
            None
        } else {
            self.acls.list(id).cloned()
        }
    }

    /// Who may read a znode; `None` for anyone.
    #[must_use]
    pub fn readers(&self, id: NodeId) -> Option<AclList> {
        self.reader_acl(self.acl(id))
    }

    fn preserve(&mut self, id: NodeId) {
        if let Some(walk) = self.walk.get_mut() {
            walk.preserve(&self.znodes, id);
        }
    }

    /// The parent of a znode; the root is its own.
    #[must_use]
    pub fn parent(&self, id: NodeId) -> NodeId {
        self.znodes.get(id).map_or(NodeId::ROOT, |node| node.parent)
    }

    /// The parent of a path that need not exist.
    #[must_use]
    pub fn parent_of(&self, path: &str) -> Option<NodeId> {
        self.find_parent(path).map(|(parent, _)| parent)
    }

    /// Begins a snapshot of this instant. One that was under way is dropped.
    pub fn begin_walk(&mut self, zxid: Zxid, sessions: &Sessions) {
        let walk = Walk::new(zxid, self.digest, sessions, &self.acls, &self.znodes);
        *self.walk.get_mut() = Some(walk);
    }

    /// Writes up to `nodes` further znodes of the snapshot and hands over its bytes once there are
    /// `enough`, or at the end. `None` where there is nothing to hand over yet, or no walk, or one
    /// that is late. Needs a shared hold of the tree only.
    pub fn advance_walk(&self, nodes: u32, enough: usize) -> Option<WalkStep> {
        let mut slot = self.walk.lock();
        let walk = slot.as_mut().filter(|walk| !walk.is_late())?;
        walk.advance(&self.znodes, nodes, enough);
        if walk.pending() < enough && !walk.is_to_be_taken() {
            return None;
        }
        let step = walk.take();
        if !matches!(step, WalkStep::Bytes(_) | WalkStep::Znodes(_)) {
            *slot = None;
        }
        Some(step)
    }

    /// Whether a snapshot is under way.
    #[must_use]
    pub fn is_walking(&self) -> bool {
        self.walk.lock().is_some()
    }

    /// Ends the snapshot under way if it is late: more waits to be taken than there is memory for.
    /// Gives back what it had, to be dropped after the hold.
    pub fn end_late_walk(&self) -> Option<LateWalk> {
        self.walk.lock().take_if(|walk| walk.is_late()).map(LateWalk)
    }

    /// Drops the snapshot under way.
    pub fn abandon_walk(&self) {
        *self.walk.lock() = None;
    }
}

#[cfg(test)]
thread_local! {
    /// Znodes that were visited one by one.
    pub(super) static VISITED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
    /// Bytes of statistics that were written.
    pub(super) static WRITTEN: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A length as a difference of lengths.
fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

const fn bytes_of(path_len: usize, data: usize) -> u64 {
    path_len as u64 + data as u64
}
