//! Everything that transactions made: the tree, the sessions, and beside them the watches, which
//! are volatile.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Bound;

use jute::persist::{SnapshotNode, SnapshotSession};
use jute::protocol::{GetDataResponse, Response};
use jute::{Acl, ErrorCode, perms};
use parking_lot::Mutex;

use super::access::acl::{AclList, Identities};
use super::owner::Owner;
use super::path;
use super::quota::{self, Growth, Quota, QuotaNode};
use super::quota_table::QuotaTable;
use super::session::{SessionId, Sessions};
use super::time::WallClock;
use super::tree::misfit::{Misfit, Misfits};
use super::tree::znode::NodeId;
use super::tree::{Impossible, Tree};
use super::watch::WatchTable;
use super::zxid::Zxid;
use crate::list::ServerList;

/// What every server of an ensemble must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Whether znodes can have a time to live.
    pub extended_types: bool,
    /// Whether transactions carry the digest of the tree.
    pub digest: bool,
    /// Whether ACLs are ignored.
    pub skip_acl: bool,
    /// Whether `digest` is a scheme that new ACLs can name.
    pub digest_scheme: bool,
    /// Whether clients may change the membership.
    pub reconfig: bool,
    /// How long a container may stay that never had a child, in milliseconds; `None` for ever.
    pub max_never_used_ms: Option<i64>,
    /// Whether quotas refuse what is beyond them.
    pub enforce_quota: bool,
    /// Bytes that a record of the log may have. ZooKeeper starts on no log with a longer one.
    pub record_max: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            extended_types: false,
            digest: true,
            skip_acl: false,
            digest_scheme: true,
            reconfig: false,
            max_never_used_ms: None,
            enforce_quota: false,
            record_max: 2 * 0xf_ffff,
        }
    }
}

/// A sum over the tree that is not the one that a file or a transaction says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mismatch {
    /// Where in the order of transactions.
    pub zxid: Zxid,
    /// What is said.
    pub said: i64,
    /// What the znodes make.
    pub found: i64,
}

/// The applied state of a server.
#[derive(Debug)]
pub struct Database {
    pub(super) tree: Tree,
    pub(super) sessions: Sessions,
    /// A shared hold of the database is enough to leave a watch.
    pub(super) watches: Mutex<WatchTable>,
    pub(super) quotas: QuotaTable,
    pub(super) last_zxid: Zxid,
    pub(super) rules: Rules,
    /// The digest at every 128th zxid, the last ones.
    pub(super) digests: VecDeque<(Zxid, i64)>,
    /// Transactions that said another sum than the tree has after them.
    pub(super) mismatches: u64,
    /// The first of those without another between them that nobody was told of.
    pub(super) mismatch: Option<Mismatch>,
    /// Whether the sum that was said last was another one.
    pub(super) mismatching: bool,
    /// Transactions that did not fit the tree.
    pub(super) misfits: Misfits,
    /// How many came before it in its place: numbers of znodes mean something else in each.
    pub(super) incarnation: u64,
}

impl Database {
    /// A fresh server's: the reserved znodes. `seed` makes hashes unpredictable.
    #[must_use]
    pub fn new(seed: u64, rules: Rules) -> Self {
        let mut database = Self::empty(seed, rules);
        database.add_reserved();
        database
    }

    /// The root alone, for a snapshot to fill.
    #[must_use]
    pub fn empty(seed: u64, rules: Rules) -> Self {
        let mut tree = Tree::new(seed, rules.extended_types);
        if rules.digest {
            tree.keep_digest();
        }
        Self {
            tree,
            sessions: Sessions::new(),
            watches: Mutex::new(WatchTable::new(seed)),
            quotas: QuotaTable::default(),
            last_zxid: Zxid::ZERO,
            rules,
            digests: VecDeque::new(),
            mismatches: 0,
            mismatch: None,
            mismatching: false,
            misfits: Misfits::default(),
            incarnation: 0,
        }
    }

    /// Makes the reserved znodes (`DataTree`'s constructor). They carry zxid 0 and count as no
    /// creates of their parents.
    fn add_reserved(&mut self) {
        let open = [];
        let read_only = [Acl::anyone(perms::READ)];
        let reserved: [(&str, &[Acl<'_>]); 3] =
            [(path::ZOOKEEPER, &open), (path::QUOTA, &open), (path::CONFIG, &read_only)];
        for (path, acl) in reserved {
            let node = SnapshotNode {
                data: Some(b"".as_slice().into()),
                acl: -1,
                stat: jute::StatPersisted::default(),
            };
            let made = self.tree.load(path, &node);
            debug_assert!(made.is_ok(), "{path} has its parent: {made:?}");
            if let Some(node) = self.tree.find(path).filter(|_| !acl.is_empty()) {
                self.tree.set_acl(node, path, acl.to_vec(), -1);
            }
        }
    }

    /// The tree.
    #[must_use]
    pub const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Living sessions and their timeouts.
    #[must_use]
    pub const fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The watches.
    #[must_use]
    pub const fn watches(&self) -> &Mutex<WatchTable> {
        &self.watches
    }

    /// Takes what the last transaction left to drop, which takes its time: to be done after the
    /// hold.
    pub fn take_gone(&mut self) -> Vec<AclList> {
        self.tree.take_gone_lists()
    }

    /// The last transaction applied.
    #[must_use]
    pub const fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// The digest of the tree at some zxids of the past, oldest first (`DataTree.digestLog`).
    pub fn digests(&self) -> impl Iterator<Item = (Zxid, i64)> {
        self.digests.iter().copied()
    }

    /// How many sums were said that are not those of the tree, and transactions did not fit it, in
    /// the places of this one as well.
    #[must_use]
    pub const fn mismatches(&self) -> u64 {
        self.mismatches
    }

    /// The first of them, or the first after one that was right, since the last call.
    pub const fn take_mismatch(&mut self) -> Option<Mismatch> {
        self.mismatch.take()
    }

    /// One that did not fit, if there is any to be told of since the last call.
    pub const fn take_misfit(&mut self) -> Option<Misfit> {
        self.misfits.take_news()
    }

    /// Why the last transaction, or a part of it, was left undone.
    #[must_use]
    pub const fn undone(&self) -> Option<ErrorCode> {
        self.misfits.undone()
    }

    /// Ends a transaction: whoever is told that it does not fit need not be told that its sum does
    /// not.
    pub(super) fn end_misfits(&mut self, zxid: Zxid, said: Option<i64>) {
        let before = self.mismatches;
        let is_misfit = self.misfits.end(zxid);
        self.mismatching |= is_misfit;
        if let Some(said) = said {
            self.compare_digest(said);
        }
        if is_misfit && self.mismatches == before {
            self.mismatches += 1;
        }
    }

    /// Compares the sum with what is said of it. Nothing follows from it here: ZooKeeper's own are
    /// wrong at times.
    pub fn compare_digest(&mut self, said: i64) {
        let Some(found) = self.tree.digest() else { return };
        if said == found {
            self.mismatching = false;
            return;
        }
        self.mismatches += 1;
        if !std::mem::replace(&mut self.mismatching, true) {
            self.mismatch = Some(Mismatch { zxid: self.last_zxid, said, found });
        }
    }

    /// Keeps the digest of now, if it is one of those that are kept.
    pub(super) fn log_digest(&mut self) {
        const INTERVAL: i64 = 128;
        const KEPT: usize = 1024;
        if self.last_zxid.0 % INTERVAL == 0
            && let Some(digest) = self.tree.digest()
        {
            if self.digests.len() == KEPT {
                self.digests.pop_front();
            }
            self.digests.push_back((self.last_zxid, digest));
        }
    }

    /// Sessions with ephemeral znodes that are in no table, in the order of their ids. An owner
    /// that is a time to live where those are switched on is none: ZooKeeper deletes such znodes
    /// when it is started without them.
    pub(super) fn orphans(&self) -> Vec<SessionId> {
        let mut sessions = self.tree.sessions_with_ephemerals();
        sessions.retain(|session| {
            let is_time_to_live =
                matches!(Owner::from_stored(session.0, true), Some(Owner::Ttl(_)));
            !self.sessions.contains_key(session) && !is_time_to_live
        });
        sessions
    }

    /// What this server was told to keep to.
    #[must_use]
    pub const fn rules(&self) -> Rules {
        self.rules
    }

    /// Whether a connection may do one of the bits of `perm` to a znode.
    ///
    /// # Errors
    /// [`ErrorCode::NoAuth`] when it may not.
    pub fn check(&self, node: NodeId, perm: i32, identities: &Identities) -> Result<(), ErrorCode> {
        let id = self.tree.acl(node);
        if self.rules.skip_acl || self.tree.acls().permits_anyone(id, perm) {
            return Ok(());
        }
        match self.tree.acls().list(id) {
            Some(list) if !identities.may(list, perm) => Err(ErrorCode::NoAuth),
            _ => Ok(()),
        }
    }

    /// Is to take the place of `before`.
    pub const fn succeed(&mut self, before: &Self) {
        self.incarnation = before.incarnation + 1;
        self.mismatches += before.mismatches;
        self.misfits.go_on_from(&before.misfits);
    }

    /// Changes a znode as no transaction did.
    #[cfg(test)]
    pub fn spoil(&mut self, path: &str, pzxid: i64) {
        let Some(node) = self.tree.find(path) else { return };
        let creates = self.tree.stat_persisted(node).cversion;
        self.tree.set_counters(node, path, creates, Zxid(pzxid));
    }

    /// The tree, to be changed as no transaction did.
    #[cfg(test)]
    pub const fn tree_mut(&mut self) -> &mut Tree {
        &mut self.tree
    }

    /// Has the kept sum be another one than that of the znodes, as a defect would.
    #[cfg(test)]
    pub fn drift(&mut self) {
        self.tree.drift();
    }

    /// Begins a snapshot of this instant.
    pub fn begin_walk(&mut self) {
        self.tree.begin_walk(self.last_zxid, &self.sessions);
    }

    /// The snapshot to come was written while transactions went on, by ZooKeeper.
    pub const fn expect_fuzzy(&mut self) {
        self.tree.expect_fuzzy();
    }

    /// Adds a session of a snapshot.
    pub fn load_session(&mut self, session: SnapshotSession) {
        self.sessions.insert(SessionId(session.id), session.timeout_ms);
    }

    /// Adds an ACL list of a snapshot, by its number there.
    pub fn load_acl(&mut self, stored: i64, list: &[Acl<'_>]) {
        self.tree.load_acl(stored, list);
    }

    /// Adds a znode of a snapshot.
    ///
    /// # Errors
    /// [`Impossible`], with the reason.
    pub fn load_node(&mut self, path: &str, node: &SnapshotNode<'_>) -> Result<(), Impossible> {
        self.tree.load(path, node)
    }

    /// From here on znodes are loaded in bulk: quicker, but that one came twice is told at the end.
    pub fn begin_bulk_load(&mut self) {
        self.tree.begin_bulk();
    }

    /// Ends that, before [`finish_load`](Self::finish_load).
    ///
    /// # Errors
    /// [`Impossible`] when a znode came twice.
    pub fn end_bulk_load(&mut self) -> Result<(), Impossible> {
        self.tree.end_bulk()
    }

    /// Ends a snapshot that shows the tree at `zxid`.
    pub fn finish_load(&mut self, zxid: Zxid) {
        // Those of ZooKeeper 3.4 have no /zookeeper/config, and ZooKeeper adds none.
        if self.tree.find(path::ZOOKEEPER).is_none() {
            self.add_reserved();
        }
        self.tree.finish_load();
        self.find_quotas();
        self.last_zxid = zxid;
    }

    /// The same state is that of a later zxid.
    pub fn move_to(&mut self, zxid: Zxid) {
        debug_assert!(zxid >= self.last_zxid, "{zxid} is not behind {}", self.last_zxid);
        self.last_zxid = zxid;
    }

    /// Shows the members of an ensemble in `/zookeeper/config`, each server those of its own list,
    /// as ZooKeeper does (`ZKDatabase.initConfigInZKDatabase`). That is no transaction; no digest
    /// has what is below `/zookeeper`.
    pub fn show_members(&mut self, list: &str, since: WallClock) {
        if let Some(node) = self.tree.find(path::CONFIG) {
            self.tree.set_data(node, path::CONFIG, Some(list.as_bytes()), -1, Zxid::ZERO, since.0);
        }
    }

    /// The list of servers that the ensemble has agreed on: `/zookeeper/config`, if its version is
    /// that of the transaction that wrote it. `None` where each server shows its own.
    #[must_use]
    pub fn agreed_list(&self) -> Option<ServerList> {
        let node = self.tree.find(path::CONFIG)?;
        let mzxid = self.tree.stat_persisted(node).mzxid;
        let text = std::str::from_utf8(self.tree.data(node)?).ok()?;
        let list = ServerList::parse(text).ok()?;
        (list.version > 0 && list.version == mzxid).then_some(list)
    }

    /// The transaction that wrote `/zookeeper/config`, if one did.
    #[must_use]
    pub fn list_written(&self) -> Zxid {
        let node = self.tree.find(path::CONFIG);
        node.map_or(Zxid::ZERO, |node| Zxid(self.tree.stat_persisted(node).mzxid))
    }

    /// What is answered who had the list changed: what it is now (`GetDataResponse`).
    ///
    /// # Errors
    /// [`ErrorCode::NoNode`] if there is no znode for it.
    pub fn show_list(&self) -> Result<Response<'_>, ErrorCode> {
        let node = self.tree.find(path::CONFIG).ok_or(ErrorCode::NoNode)?;
        let data = self.tree.data(node).map(Cow::Borrowed);
        Ok(Response::GetData(GetDataResponse { data, stat: self.tree.stat(node) }))
    }

    /// Whether there is a znode for the list of servers: what ZooKeeper 3.4 left has none.
    #[must_use]
    pub fn has_place_for_list(&self) -> bool {
        self.tree.find(path::CONFIG).is_some()
    }

    /// Forgets a list that servers of before agreed on.
    pub fn forget_agreed_list(&mut self) {
        if self.agreed_list().is_some() {
            self.show_members("", WallClock(0));
        }
    }

    /// Finds the quotas of a loaded tree and counts what they are about anew.
    fn find_quotas(&mut self) {
        let Some(root) = self.tree.find(path::QUOTA) else { return };
        let mut nodes = Vec::new();
        self.tree.for_each_below(root, |node, _| nodes.push(node));
        let paths: Vec<_> = nodes.into_iter().map(|node| (node, self.tree.path(node))).collect();
        for (node, path) in &paths {
            self.read_quota(*node, path);
        }
        for (node, path) in &paths {
            if let Some(QuotaNode::Limits(limited)) = QuotaNode::parse(path)
                && let folder = self.tree.parent(*node)
                && let Some(stats) = self.tree.child(folder, quota::STATS)
            {
                self.count_quota(folder, limited, stats);
            }
        }
        self.write_statistics();
    }

    /// Reads limits or statistics, if a znode of this path has such, when it is new or they are
    /// others.
    pub(super) fn read_quota(&mut self, node: NodeId, path: &str) {
        let Some(its) = QuotaNode::parse(path) else { return };
        let (folder, data) = (self.tree.parent(node), self.tree.data(node));
        match its {
            QuotaNode::Limits(limited) => self.quotas.set_limits(folder, limited, data),
            QuotaNode::Stats(limited) => self.quotas.set_statistics(folder, limited, node, data),
        }
    }

    /// As [`Self::read_quota`], for a new znode: statistics are what the server counts, whatever
    /// their client says.
    pub(super) fn add_quota(&mut self, node: NodeId, path: &str) {
        match QuotaNode::parse(path) {
            Some(QuotaNode::Stats(limited)) => {
                self.count_quota(self.tree.parent(node), limited, node);
            }
            Some(QuotaNode::Limits(_)) => self.read_quota(node, path),
            None => {}
        }
    }

    /// Forgets limits or statistics, if the znode of this path had such, that are gone from below
    /// `folder`.
    pub(super) fn remove_quota(&mut self, folder: NodeId, path: &str) {
        match QuotaNode::parse(path) {
            Some(QuotaNode::Limits(_)) => self.quotas.remove_limits(folder),
            Some(QuotaNode::Stats(_)) => self.quotas.remove_statistics(folder),
            None => {}
        }
    }

    /// The deepest path with a quota that a znode belongs to, and the znode that its limits are a
    /// child of. The root can have none. As many steps as the path has names.
    pub(super) fn deepest_quota<'a>(&self, path: &'a str) -> Option<(NodeId, &'a str)> {
        if !self.quotas.has_limits() {
            return None;
        }
        let mut at = self.tree.find(path::QUOTA)?;
        let (mut len, mut deepest) = (0, None);
        for name in path::names(path.strip_prefix('/')?) {
            let Some(below) = self.tree.child(at, name) else { break };
            at = below;
            len += 1 + name.len();
            if self.quotas.is_limited(at) {
                deepest = Some((at, path.get(..len)?));
            }
        }
        deepest
    }

    /// Up to `most` sessions with their timeouts, from the one after `last` on.
    #[must_use]
    pub fn sessions_after(&self, last: Option<SessionId>, most: usize) -> Vec<(SessionId, i32)> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let some = self.sessions.range((from, Bound::Unbounded)).take(most);
        some.map(|(session, timeout_ms)| (*session, *timeout_ms)).collect()
    }

    /// The quotas as they stand, in the order of their folders, from after one on. No text is read
    /// for that.
    pub fn quotas(&self, last: Option<NodeId>) -> impl Iterator<Item = Quota<'_>> {
        self.quotas.iter(last)
    }

    /// Counts how many znodes and bytes there are from a path on, for its statistics.
    fn count_quota(&mut self, folder: NodeId, limited: &str, stats: NodeId) {
        let used = self.tree.find(limited).map_or_else(Growth::default, |node| {
            let below = self.tree.below(node);
            let bytes = i64::try_from(below.bytes).unwrap_or(i64::MAX);
            Growth {
                count: i64::try_from(below.znodes).unwrap_or(i64::MAX).saturating_add(1),
                bytes: bytes.saturating_add_unsigned(self.data_len(node, limited) as u64),
            }
        });
        let len = self.tree.data(stats).map_or(0, <[u8]>::len);
        let longer = self.quotas.count(folder, limited, stats, used, len);
        self.announce_statistics(stats, longer);
    }

    /// Bytes of a znode's data, with those of statistics that are still to be written.
    pub(super) fn data_len(&self, node: NodeId, path: &str) -> usize {
        let announced = match QuotaNode::parse(path) {
            Some(QuotaNode::Stats(_)) => self.quotas.statistics_len(self.tree.parent(node)),
            _ => None,
        };
        announced.unwrap_or_else(|| self.tree.data(node).map_or(0, <[u8]>::len))
    }

    /// Adds what a change below a quota has changed to the quota's statistics.
    pub(super) fn grow_quota(&mut self, path: &str, growth: Growth) {
        let Some((folder, _)) = self.deepest_quota(path) else { return };
        if let Some((stats, longer)) = self.quotas.grow(folder, growth) {
            self.announce_statistics(stats, longer);
        }
    }

    fn announce_statistics(&mut self, stats: NodeId, longer: i64) {
        if longer != 0 {
            self.tree.announce_data(stats, longer);
        }
    }

    /// Writes the statistics that the transaction changed.
    pub(super) fn write_statistics(&mut self) {
        while let Some((stats, replaced, front)) = self.quotas.next_unwritten() {
            self.tree.set_announced_front(stats, replaced, &front);
        }
    }

    /// As [`Self::data_len`], where a client is about to change or delete the data: statistics that
    /// are still to be written never will be, and what was announced of them is taken back.
    pub(super) fn replaced_len(&mut self, node: NodeId, path: &str) -> usize {
        let announced = self.data_len(node, path);
        let len = self.tree.data(node).map_or(0, <[u8]>::len);
        self.announce_statistics(node, quota::longer(announced, len));
        announced
    }
}
