//! The changes still in flight: decided, perhaps written down, not yet applied.
//!
//! A request is checked against the tree and, before it, against this. What is applied is retired
//! from here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use jute::StatPersisted;

use super::path_map::PathMap;
use crate::engine::access::acl::AclList;
use crate::engine::database::Database;
use crate::engine::digest::ContentDigest;
use crate::engine::lineage::{Lineage, Prefix};
use crate::engine::owner::Owner;
use crate::engine::path;
use crate::engine::quota::Growth;
use crate::engine::session::SessionId;
use crate::engine::tree::znode::NodeId;
use crate::engine::zxid::Zxid;

/// A znode as it will be once everything in flight is applied.
#[derive(Debug, Clone)]
pub(in crate::engine) struct Pending {
    /// Of the last change of it in flight; zero for a view of the tree.
    pub(in crate::engine) zxid: Zxid,
    /// Whether it will be there.
    pub(in crate::engine) exists: bool,
    pub(in crate::engine) stat: StatPersisted,
    pub(in crate::engine) owner: Owner,
    pub(in crate::engine) num_children: i32,
    /// Who may do what; `None` where there is no list.
    pub(in crate::engine) acl: Option<AclList>,
    /// Bytes of data.
    pub(in crate::engine) data_len: usize,
    /// What path and data give to the digest.
    pub(in crate::engine) content: Content,
}

/// What a znode's path and data give to the digest.
#[derive(Debug, Clone)]
pub(in crate::engine) enum Content {
    /// Nobody wants it.
    Unwanted,
    /// That of the tree, which nobody needed so far: who only looks at a znode does not pay for its
    /// data.
    OfTree,
    Known(ContentDigest),
}

impl Content {
    /// As it is where it must be known.
    fn of(&self, database: &Database, path: &str) -> Self {
        match self {
            Self::OfTree => {
                let tree = &database.tree;
                let of_tree = tree.find(path).map(|node| tree.content(node, path));
                Self::Known(of_tree.unwrap_or_else(|| ContentDigest::new(path, None)))
            }
            known => known.clone(),
        }
    }
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
    fn digest(&self, content: &Content) -> i64 {
        match content {
            Content::Known(content) if self.exists => content.with(&self.stat),
            _ => 0,
        }
    }
}

/// Where a rollback goes back to.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct Mark {
    undo: usize,
    digest: i64,
}

/// Changes in flight, by path.
#[derive(Debug, Default)]
pub(in crate::engine) struct Overlay {
    pending: PathMap<Pending>,
    /// Paths in the order of their changes.
    order: VecDeque<(Zxid, Arc<str>)>,
    /// Ephemeral znodes among them that will be there.
    ephemerals: HashMap<SessionId, BTreeSet<Arc<str>>>,
    /// The digest of the tree once they are applied.
    digest: i64,
    /// What the transaction being prepared replaced.
    undo: Vec<(Arc<str>, Option<Pending>)>,
    /// What the transactions in flight add below paths with a quota. The parts of one transaction
    /// do not see each other's.
    growth: HashMap<Arc<str>, Growth>,
    /// The same by transaction, oldest first.
    grown: VecDeque<(Zxid, Arc<str>, Growth)>,
    /// The same of the transaction being prepared.
    growing: HashMap<String, Growth>,
    /// Sessions that end, and by which transaction: what they own in the tree will not be there.
    /// They can own very much, so nothing is kept of each znode.
    closing: HashMap<SessionId, Zxid>,
    /// The same in their order.
    closings: VecDeque<(Zxid, SessionId)>,
    /// What that leaves on parents for which there is nothing in `pending`.
    losses: HashMap<NodeId, Loss>,
    /// The same by transaction, oldest first, with the number of children.
    lost: VecDeque<(Zxid, NodeId, i32)>,
}

/// Children that a znode of the tree loses with the sessions that own them.
#[derive(Debug, Default)]
struct Loss {
    children: i32,
    /// By the last transaction of several.
    zxid: Zxid,
}

impl Overlay {
    /// The znode as it will be; `None` where it will not be there.
    pub(in crate::engine) fn view(&self, database: &Database, path: &str) -> Option<Pending> {
        let path = path::canonical(path);
        match self.pending.get(path) {
            Some(pending) => pending.exists.then(|| pending.clone()),
            None => self.in_tree(database, path),
        }
    }

    /// Whether the znode will be there.
    pub(in crate::engine) fn exists(&self, database: &Database, path: &str) -> bool {
        match self.pending.get(path::canonical(path)) {
            Some(pending) => pending.exists,
            None => {
                let tree = &database.tree;
                tree.find(path).is_some_and(|node| !self.ends_with(tree.owner(node)))
            }
        }
    }

    /// Whether what has this owner in the tree goes with its session.
    fn ends_with(&self, owner: Owner) -> bool {
        matches!(owner, Owner::Session(session) if self.closing.contains_key(&session))
    }

    fn in_tree(&self, database: &Database, path: &str) -> Option<Pending> {
        let tree = &database.tree;
        let node = tree.find(path)?;
        let owner = tree.owner(node);
        if self.ends_with(owner) {
            return None;
        }
        let data = tree.data(node);
        let mut stat = tree.stat_persisted(node);
        let mut num_children = tree.stat(node).num_children;
        if let Some(loss) = self.losses.get(&node) {
            stat.pzxid = stat.pzxid.max(loss.zxid.0);
            num_children -= loss.children;
        }
        Some(Pending {
            zxid: Zxid::ZERO,
            exists: true,
            stat,
            owner,
            num_children,
            acl: tree.acls().list(tree.acl(node)).cloned(),
            data_len: data.map_or(0, <[u8]>::len),
            content: if database.rules.digest { Content::OfTree } else { Content::Unwanted },
        })
    }

    /// Records a znode as it will be after the transaction `pending.zxid`. `before` is what
    /// [`Self::view`] gave.
    pub(in crate::engine) fn put(
        &mut self,
        database: &Database,
        path: &str,
        before: Option<&Pending>,
        mut pending: Pending,
    ) {
        let path = path::canonical(path);
        let mut was = 0;
        if let Some(before) = before {
            let content = before.content.of(database, path);
            if matches!(pending.content, Content::OfTree) {
                pending.content = content.clone();
            }
            was = before.digest(&content);
        }
        self.digest = self.digest.wrapping_sub(was).wrapping_add(pending.digest(&pending.content));
        let zxid = pending.zxid;
        let owner = pending.session();
        let (path, replaced) = self.pending.insert(path, pending);
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
    pub(in crate::engine) fn begin(&mut self) -> Mark {
        self.undo.clear();
        self.growing.clear();
        self.mark()
    }

    /// A point within the transaction to go back to.
    pub(in crate::engine) const fn mark(&self) -> Mark {
        Mark { undo: self.undo.len(), digest: self.digest }
    }

    /// Adds to what the transaction being prepared adds below a path with a quota.
    pub(in crate::engine) fn grow(&mut self, limited: &str, growth: Growth) {
        self.growing.entry_ref(limited).or_default().add(growth);
    }

    /// As [`Self::grow`], for a znode that goes with so many bytes of data.
    pub(in crate::engine) fn shrink(&mut self, database: &Database, path: &str, data_len: usize) {
        if database.rules.enforce_quota
            && let Some((_, limited)) = database.deepest_quota(path)
        {
            let bytes = i64::try_from(data_len).unwrap_or(i64::MAX);
            self.grow(limited, Growth { count: -1, bytes: -bytes });
        }
    }

    /// What the transactions in flight add below a path with a quota.
    pub(in crate::engine) fn growth(&self, limited: &str) -> Growth {
        self.growth.get(limited).copied().unwrap_or_default()
    }

    /// The transaction being prepared is decided.
    pub(in crate::engine) fn settle(&mut self, zxid: Zxid) {
        for (limited, growth) in self.growing.drain() {
            let limited: Arc<str> = limited.into();
            self.growth.entry(Arc::clone(&limited)).or_default().add(growth);
            self.grown.push_back((zxid, limited, growth));
        }
    }

    /// Undoes what was put since `mark`.
    pub(super) fn roll_back(&mut self, mark: Mark) {
        while self.undo.len() > mark.undo {
            if let Some((path, before)) = self.undo.pop() {
                let now = before.as_ref().and_then(Pending::session);
                let undone = match before {
                    Some(before) => self.pending.insert(&path, before).1,
                    None => self.pending.remove(&path),
                };
                self.change_owner(&path, undone.as_ref().and_then(Pending::session), now);
                self.order.pop_back();
            }
        }
        self.digest = mark.digest;
    }

    /// The paths among those that change in flight that a session will own.
    pub(in crate::engine) fn ephemerals(&self, session: SessionId) -> Vec<Arc<str>> {
        self.ephemerals.get(&session).into_iter().flatten().cloned().collect()
    }

    /// A session ends with the transaction `zxid`, and with it what it owns in the tree and no
    /// change in flight speaks of. `each` is told how long each path is, and can have it. This is
    /// never rolled back.
    pub(in crate::engine) fn close(
        &mut self,
        database: &Database,
        session: SessionId,
        zxid: Zxid,
        mut each: impl FnMut(usize, &dyn Fn() -> String),
    ) {
        let tree = &database.tree;
        let mut lineage = Lineage::new(self.pending.hasher(), database);
        let mut parents: BTreeMap<NodeId, i32> = BTreeMap::new();
        let mut shrunk: BTreeMap<NodeId, Growth> = BTreeMap::new();
        for node in tree.ephemerals(session) {
            let parent = tree.parent(node);
            let name = tree.name(node);
            let path = lineage.of(database, None, parent).child(database, node, name);
            if self.is_pending(database, node, name, &path) {
                continue;
            }
            each(path.len, &|| tree.path(node));
            if database.rules.enforce_quota
                && let Some(limited) = path.limited
            {
                let bytes = tree.data(node).map_or(0, <[u8]>::len);
                let bytes = -i64::try_from(bytes).unwrap_or(i64::MAX);
                shrunk.entry(limited).or_default().add(Growth { count: -1, bytes });
            }
            if database.rules.digest {
                let digest = tree.content_at(node, &path.digest).with(&tree.stat_persisted(node));
                self.digest = self.digest.wrapping_sub(digest);
            }
            *parents.entry(parent).or_default() += 1;
        }
        for (limited, growth) in shrunk {
            self.grow(&tree.path(limited), growth);
        }
        for (parent, children) in parents {
            let path = lineage.of(database, None, parent);
            self.lose(database, parent, &path, children, zxid);
        }
        self.closing.insert(session, zxid);
        self.closings.push_back((zxid, session));
    }

    /// Whether a change in flight speaks of a znode of the tree.
    fn is_pending(&self, database: &Database, node: NodeId, name: &str, path: &Prefix) -> bool {
        self.pending.may_have(path.key(name))
            && self.pending.contains_key(&database.tree.path(node))
    }

    /// Records what a znode of the tree loses with the transaction `zxid`.
    fn lose(&mut self, database: &Database, node: NodeId, at: &Prefix, children: i32, zxid: Zxid) {
        let tree = &database.tree;
        if self.is_pending(database, node, tree.name(node), at) {
            let path = tree.path(node);
            if let Some(before) = self.view(database, &path) {
                let mut after = before.clone();
                after.zxid = zxid;
                after.stat.pzxid = after.stat.pzxid.max(zxid.0);
                after.num_children -= children;
                self.put(database, &path, Some(&before), after);
            }
            return;
        }
        let loss = self.losses.entry(node).or_default();
        if database.rules.digest {
            let content = tree.content_at(node, &at.digest);
            let mut stat = tree.stat_persisted(node);
            if loss.children > 0 {
                stat.pzxid = stat.pzxid.max(loss.zxid.0);
            }
            self.digest = self.digest.wrapping_sub(content.with(&stat));
            stat.pzxid = stat.pzxid.max(zxid.0);
            self.digest = self.digest.wrapping_add(content.with(&stat));
        }
        loss.children += children;
        loss.zxid = zxid;
        self.lost.push_back((zxid, node, children));
    }

    /// The digest of the tree once everything in flight is applied.
    pub(in crate::engine) const fn digest(&self) -> i64 {
        self.digest
    }

    /// Starts from the tree as it is: nothing is in flight.
    pub(super) fn rebase(&mut self, tree_digest: i64) {
        debug_assert!(self.order.is_empty(), "{} changes in flight", self.order.len());
        debug_assert!(self.closing.is_empty(), "{} ends in flight", self.closing.len());
        self.digest = tree_digest;
    }

    /// What is kept of all that is in flight, and of what could be rolled back.
    #[cfg(test)]
    pub(in crate::engine) fn entries(&self) -> usize {
        let of_sessions = self.ephemerals.len() + self.closing.len() + self.closings.len();
        let of_losses = self.losses.len() + self.lost.len();
        self.pending.len() + self.order.len() + self.undo.len() + of_sessions + of_losses
    }

    /// Forgets what is applied: every change up to `applied`.
    pub(in crate::engine) fn retire(&mut self, applied: Zxid) {
        self.undo.clear();
        while let Some((_, limited, growth)) = self.grown.pop_front_if(|it| it.0 <= applied) {
            let sum = self.growth.entry(Arc::clone(&limited)).or_default();
            sum.subtract(growth);
            if *sum == Growth::default() {
                self.growth.remove(&limited);
            }
        }
        while let Some((_, session)) = self.closings.pop_front_if(|it| it.0 <= applied) {
            self.closing.remove(&session);
        }
        while let Some((_, node, children)) = self.lost.pop_front_if(|it| it.0 <= applied) {
            if let Entry::Occupied(mut entry) = self.losses.entry(node) {
                entry.get_mut().children -= children;
                if entry.get().children == 0 {
                    entry.remove();
                }
            }
        }
        while let Some((zxid, _)) = self.order.front()
            && *zxid <= applied
        {
            let Some((_, path)) = self.order.pop_front() else { break };
            if let Some(retired) = self.pending.remove_if(&path, |its| its.zxid <= applied) {
                self.change_owner(&path, retired.session(), None);
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
            content: Content::Known(ContentDigest::new("/x", None)),
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
            overlay.put(&database, "/x", before.as_ref(), pending(zxid, Owner::None, true));
            let owned = pending(zxid, Owner::Session(A), true);
            overlay.put(&database, &format!("/{zxid}"), None, owned);
        }
        overlay.retire(Zxid(5));
        assert!(!overlay.exists(&database, "/5"));
        assert_eq!(overlay.view(&database, "/x").unwrap().stat.mzxid, 7);
        overlay.retire(Zxid(6));
        assert_eq!(overlay.view(&database, "/x").unwrap().stat.mzxid, 7);
        assert_eq!(overlay.ephemerals(A), ["/7".into()]);
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
        overlay.put(&database, "/x", None, pending(5, Owner::Session(A), true));
        let digest = overlay.digest();
        assert_ne!(digest, 0);
        let mark = overlay.begin();
        let x = overlay.view(&database, "/x");
        overlay.put(&database, "/x", x.as_ref(), pending(6, Owner::None, false));
        overlay.put(&database, "/x", None, pending(6, Owner::Session(B), true));
        overlay.put(&database, "/y", None, pending(6, Owner::Session(B), true));
        assert_eq!(overlay.ephemerals(A), []);
        assert_eq!(overlay.ephemerals(B).len(), 2);
        overlay.roll_back(mark);
        assert_eq!(overlay.digest(), digest);
        assert!(!overlay.exists(&database, "/y"));
        assert_eq!(overlay.view(&database, "/x").unwrap().owner, Owner::Session(A));
        assert_eq!(overlay.ephemerals(A).len(), 1);
        assert_eq!(overlay.ephemerals(B).len(), 0);
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
            &database,
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
    fn growth_below_a_quota_is_a_sum_however_much_is_in_flight() {
        let growth = |count, bytes| Growth { count, bytes };
        let mut overlay = Overlay::default();
        for zxid in [5, 6, 7] {
            overlay.begin();
            for _ in 0..1000 {
                overlay.grow("/a", growth(1, zxid));
            }
            overlay.grow("/b", growth(1, 0));
            // What is being prepared does not count yet.
            assert_eq!(overlay.growth("/b"), growth(zxid - 5, 0));
            overlay.settle(Zxid(zxid));
        }
        assert_eq!(overlay.growth("/a"), growth(3000, 18_000));
        assert_eq!((overlay.growth.len(), overlay.grown.len()), (2, 6));
        // What is refused adds nothing.
        overlay.begin();
        overlay.grow("/a", growth(1, 1));
        overlay.begin();
        overlay.settle(Zxid(8));
        overlay.retire(Zxid(6));
        assert_eq!(overlay.growth("/a"), growth(1000, 7000));
        overlay.retire(Zxid(8));
        assert_eq!((overlay.growth.len(), overlay.grown.len()), (0, 0));
    }

    #[test]
    fn both_spellings_of_the_root_are_one() {
        let database = Database::new(1, Rules::default());
        let mut overlay = Overlay::default();
        let root = overlay.view(&database, "").unwrap();
        overlay.begin();
        let longer = Pending { zxid: Zxid(3), data_len: 4, ..root.clone() };
        overlay.put(&database, "", Some(&root), longer);
        assert_eq!(overlay.view(&database, "/").unwrap().data_len, 4);
        assert_eq!(overlay.view(&database, "").unwrap().data_len, 4);
    }
}
