//! The changes still in flight: decided, perhaps written down, not yet applied.
//!
//! A request is checked against the tree and, before it, against this. What is applied is retired from here.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use jute::StatPersisted;

use super::acl::AclList;
use super::database::Database;
use super::digest::ContentDigest;
use super::owner::Owner;
use super::path;
use super::quota::Growth;
use super::session::SessionId;
use super::zxid::Zxid;

/// A znode as it will be once everything in flight is applied.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    /// Of the last change of it in flight; zero for a view of the tree.
    pub(super) zxid: Zxid,
    /// Whether it will be there.
    pub(super) exists: bool,
    pub(super) stat: StatPersisted,
    pub(super) owner: Owner,
    pub(super) num_children: i32,
    /// Who may do what; `None` where there is no list.
    pub(super) acl: Option<AclList>,
    /// Bytes of data.
    pub(super) data_len: usize,
    /// What path and data give to the digest, where that is wanted.
    pub(super) content: Option<ContentDigest>,
}

impl Pending {
    /// The session that will own it.
    const fn session(&self) -> Option<SessionId> {
        match self.owner {
            Owner::Session(session) if self.exists => Some(session),
            _ => None,
        }
    }

    /// What the znode counts in the digest of the tree.
    fn digest(&self) -> i64 {
        match &self.content {
            Some(content) if self.exists => content.with(&self.stat),
            _ => 0,
        }
    }
}

/// Where a rollback goes back to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    undo: usize,
    digest: i64,
}

/// Changes in flight, by path.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    pending: HashMap<Arc<str>, Pending>,
    /// Paths in the order of their changes.
    order: VecDeque<(Zxid, Arc<str>)>,
    /// Ephemeral znodes among them that will be there.
    ephemerals: HashMap<SessionId, BTreeSet<Arc<str>>>,
    /// The digest of the tree once they are applied.
    digest: i64,
    /// What the transaction being prepared replaced.
    undo: Vec<(Arc<str>, Option<Pending>)>,
    /// What the transactions in flight add below paths with a quota, oldest first. The parts of one transaction do
    /// not see each other's.
    growth: VecDeque<(Zxid, Box<str>, Growth)>,
    /// The same of the transaction being prepared.
    growing: Vec<(Zxid, Box<str>, Growth)>,
}

impl Overlay {
    /// The znode as it will be; `None` where it will not be there.
    pub(super) fn view(&self, database: &Database, path: &str) -> Option<Pending> {
        let path = path::canonical(path);
        match self.pending.get(path) {
            Some(pending) => pending.exists.then(|| pending.clone()),
            None => Self::from_tree(database, path),
        }
    }

    /// Whether the znode will be there.
    pub(super) fn exists(&self, database: &Database, path: &str) -> bool {
        match self.pending.get(path::canonical(path)) {
            Some(pending) => pending.exists,
            None => database.tree.find(path).is_some(),
        }
    }

    fn from_tree(database: &Database, path: &str) -> Option<Pending> {
        let tree = &database.tree;
        let node = tree.find(path)?;
        let data = tree.data(node);
        Some(Pending {
            zxid: Zxid::ZERO,
            exists: true,
            stat: tree.stat_persisted(node),
            owner: tree.owner(node),
            num_children: tree.stat(node).num_children,
            acl: tree.acls().list(tree.acl(node)).cloned(),
            data_len: data.map_or(0, <[u8]>::len),
            content: database.rules.digest.then(|| ContentDigest::new(path, data)),
        })
    }

    /// Records a znode as it will be after the transaction `pending.zxid`. `before` is what [`Self::view`] gave.
    pub(super) fn put(&mut self, path: &str, before: Option<&Pending>, pending: Pending) {
        let path = path::canonical(path);
        let was = before.map_or(0, Pending::digest);
        self.digest = self.digest.wrapping_sub(was).wrapping_add(pending.digest());
        let zxid = pending.zxid;
        let owner = pending.session();
        let (path, replaced) = match self.pending.entry_ref(path) {
            EntryRef::Occupied(mut entry) => {
                let replaced = entry.insert(pending);
                (Arc::clone(entry.key()), Some(replaced))
            }
            EntryRef::Vacant(entry) => {
                let path = Arc::from(path);
                entry.insert_with_key(Arc::clone(&path), pending);
                (path, None)
            }
        };
        self.change_owner(&path, replaced.as_ref().and_then(Pending::session), owner);
        self.order.push_back((zxid, Arc::clone(&path)));
        self.undo.push((path, replaced));
    }

    /// Keeps the list of ephemeral znodes true when an entry is exchanged.
    fn change_owner(&mut self, path: &Arc<str>, was: Option<SessionId>, now: Option<SessionId>) {
        if was == now {
            return;
        }
        if let Some(session) = was
            && let Some(paths) = self.ephemerals.get_mut(&session)
        {
            paths.remove(path);
            if paths.is_empty() {
                self.ephemerals.remove(&session);
            }
        }
        if let Some(session) = now {
            self.ephemerals.entry(session).or_default().insert(Arc::clone(path));
        }
    }

    /// Begins a transaction.
    pub(super) fn begin(&mut self) -> Mark {
        self.undo.clear();
        self.growing.clear();
        self.mark()
    }

    /// A point within the transaction to go back to.
    pub(super) const fn mark(&self) -> Mark {
        Mark { undo: self.undo.len(), digest: self.digest }
    }

    /// Adds to what the transaction being prepared adds below a path with a quota.
    pub(super) fn grow(&mut self, limited: &str, zxid: Zxid, growth: Growth) {
        self.growing.push((zxid, limited.into(), growth));
    }

    /// What the transactions in flight add below a path with a quota.
    pub(super) fn growth(&self, limited: &str) -> Growth {
        let mut sum = Growth::default();
        for (_, _, growth) in self.growth.iter().filter(|(_, path, _)| **path == *limited) {
            sum.count = sum.count.saturating_add(growth.count);
            sum.bytes = sum.bytes.saturating_add(growth.bytes);
        }
        sum
    }

    /// The transaction being prepared is decided.
    pub(super) fn settle(&mut self) {
        self.growth.extend(self.growing.drain(..));
    }

    /// Undoes what was put since `mark`.
    pub(super) fn roll_back(&mut self, mark: Mark) {
        while self.undo.len() > mark.undo {
            if let Some((path, before)) = self.undo.pop() {
                let now = before.as_ref().and_then(Pending::session);
                let undone = match before {
                    Some(before) => self.pending.insert(Arc::clone(&path), before),
                    None => self.pending.remove(&path),
                };
                self.change_owner(&path, undone.as_ref().and_then(Pending::session), now);
                self.order.pop_back();
            }
        }
        self.digest = mark.digest;
    }

    /// The paths that a session will own: what it owns in the tree, less what changes in flight, and what will come.
    pub(super) fn ephemerals(&self, database: &Database, session: SessionId) -> BTreeSet<String> {
        let tree = &database.tree;
        let mut paths: BTreeSet<String> = tree
            .ephemerals(session)
            .map(|node| tree.path(node))
            .filter(|path| !self.pending.contains_key(path.as_str()))
            .collect();
        // Among the changed ones, those that stay its own: one may have been deleted and made again by another.
        let coming = self.ephemerals.get(&session).into_iter().flatten();
        paths.extend(coming.map(|path| String::from(&**path)));
        paths
    }

    /// The digest of the tree once everything in flight is applied.
    pub(super) const fn digest(&self) -> i64 {
        self.digest
    }

    /// Starts from the tree as it is: nothing is in flight.
    pub(super) fn rebase(&mut self, tree_digest: i64) {
        debug_assert!(self.order.is_empty(), "{} changes in flight", self.order.len());
        self.digest = tree_digest;
    }

    /// Forgets what is applied: every change up to `applied`.
    pub(super) fn retire(&mut self, applied: Zxid) {
        self.undo.clear();
        while self.growth.front().is_some_and(|(zxid, ..)| *zxid <= applied) {
            self.growth.pop_front();
        }
        while let Some((zxid, _)) = self.order.front()
            && *zxid <= applied
        {
            let Some((_, path)) = self.order.pop_front() else { break };
            if let EntryRef::Occupied(entry) = self.pending.entry_ref(&*path)
                && entry.get().zxid <= applied
            {
                let owner = entry.remove().session();
                self.change_owner(&path, owner, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::database::Rules;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn pending(zxid: i64, owner: Owner, exists: bool) -> Pending {
        let stat = StatPersisted { czxid: zxid, mzxid: zxid, ..StatPersisted::default() };
        Pending {
            zxid: Zxid(zxid),
            exists,
            stat,
            owner,
            num_children: 0,
            acl: None,
            data_len: 0,
            content: Some(ContentDigest::new("/x", None)),
        }
    }

    fn assert_empty(overlay: &Overlay) {
        assert!(overlay.pending.is_empty() && overlay.order.is_empty(), "{overlay:?}");
        assert!(overlay.ephemerals.is_empty(), "{overlay:?}");
    }

    #[test]
    fn what_is_applied_is_forgotten_and_the_rest_is_not() {
        let database = Database::new(1, Rules::default());
        let mut overlay = Overlay::default();
        for zxid in [5, 6, 7] {
            overlay.begin();
            let before = overlay.view(&database, "/x");
            overlay.put("/x", before.as_ref(), pending(zxid, Owner::None, true));
            overlay.put(&format!("/{zxid}"), None, pending(zxid, Owner::Session(A), true));
        }
        overlay.retire(Zxid(5));
        assert!(!overlay.exists(&database, "/5"));
        assert_eq!(overlay.view(&database, "/x").unwrap().stat.mzxid, 7);
        overlay.retire(Zxid(6));
        assert_eq!(overlay.view(&database, "/x").unwrap().stat.mzxid, 7);
        assert_eq!(overlay.ephemerals(&database, A), BTreeSet::from(["/7".to_owned()]));
        overlay.retire(Zxid(7));
        assert_empty(&overlay);
        // The tree knows nothing of them here.
        assert!(overlay.view(&database, "/x").is_none());
    }

    #[test]
    fn a_rollback_goes_back_to_its_mark() {
        let database = Database::new(1, Rules::default());
        let mut overlay = Overlay::default();
        overlay.begin();
        overlay.put("/x", None, pending(5, Owner::Session(A), true));
        let digest = overlay.digest();
        assert_ne!(digest, 0);
        let mark = overlay.begin();
        let x = overlay.view(&database, "/x");
        overlay.put("/x", x.as_ref(), pending(6, Owner::None, false));
        overlay.put("/x", None, pending(6, Owner::Session(B), true));
        overlay.put("/y", None, pending(6, Owner::Session(B), true));
        assert_eq!(overlay.ephemerals(&database, A), BTreeSet::new());
        assert_eq!(overlay.ephemerals(&database, B).len(), 2);
        overlay.roll_back(mark);
        assert_eq!(overlay.digest(), digest);
        assert!(!overlay.exists(&database, "/y"));
        assert_eq!(overlay.view(&database, "/x").unwrap().owner, Owner::Session(A));
        assert_eq!(overlay.ephemerals(&database, A).len(), 1);
        assert_eq!(overlay.ephemerals(&database, B).len(), 0);
        assert_eq!(overlay.order.len(), 1);
        overlay.retire(Zxid(5));
        assert_empty(&overlay);
    }

    #[test]
    fn a_deleted_znode_hides_the_trees_own() {
        let database = Database::new(1, Rules::default());
        let mut overlay = Overlay::default();
        let node = overlay.view(&database, path::QUOTA).unwrap();
        overlay.begin();
        overlay.put(
            path::QUOTA,
            Some(&node),
            Pending { exists: false, zxid: Zxid(1), ..node.clone() },
        );
        assert!(overlay.view(&database, path::QUOTA).is_none());
        assert!(!overlay.exists(&database, path::QUOTA));
        overlay.retire(Zxid(1));
        assert!(overlay.exists(&database, path::QUOTA));
    }

    #[test]
    fn both_spellings_of_the_root_are_one() {
        let database = Database::new(1, Rules::default());
        let mut overlay = Overlay::default();
        let root = overlay.view(&database, "").unwrap();
        overlay.begin();
        overlay.put("", Some(&root), Pending { zxid: Zxid(3), data_len: 4, ..root.clone() });
        assert_eq!(overlay.view(&database, "/").unwrap().data_len, 4);
        assert_eq!(overlay.view(&database, "").unwrap().data_len, 4);
    }
}
