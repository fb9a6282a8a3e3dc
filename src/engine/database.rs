//! Everything that transactions made: the tree, the sessions, and beside them the watches, which are volatile.

use std::collections::VecDeque;

use jute::persist::{SnapshotNode, SnapshotSession};
use jute::{Acl, ErrorCode, perms};
use parking_lot::Mutex;

use super::acl::{self, Identity};
use super::path;
use super::quota::{self, Growth, Quota, QuotaNode, QuotaTable, Track};
use super::session::{SessionId, Sessions};
use super::tree::{Impossible, Tree};
use super::watch::WatchTable;
use super::znode::NodeId;
use super::zxid::Zxid;

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
        }
    }
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
    /// How many came before it in its place: numbers of znodes mean something else in each.
    pub(super) incarnation: u64,
}

impl Database {
    /// A fresh server's: the reserved znodes. `seed` makes hashes unpredictable.
    #[must_use]
    pub fn new(seed: u64, rules: Rules) -> Self {
        let mut database = Self::empty(seed, rules);
        database.add_reserved();
        if rules.digest {
            let digest = database.tree.compute_digest();
            database.tree.set_digest(Some(digest));
        }
        database
    }

    /// The root alone, for a snapshot to fill.
    #[must_use]
    pub fn empty(seed: u64, rules: Rules) -> Self {
        Self {
            tree: Tree::new(seed, rules.extended_types),
            sessions: Sessions::new(),
            watches: Mutex::new(WatchTable::new(seed)),
            quotas: QuotaTable::default(),
            last_zxid: Zxid::ZERO,
            rules,
            digests: VecDeque::new(),
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
                self.tree.set_acl(node, acl, -1);
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

    /// The last transaction applied.
    #[must_use]
    pub const fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// The digest of the tree at some zxids of the past, oldest first (`DataTree.digestLog`).
    pub fn digests(&self) -> impl Iterator<Item = (Zxid, i64)> {
        self.digests.iter().copied()
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

    /// What this server was told to keep to.
    #[must_use]
    pub const fn rules(&self) -> Rules {
        self.rules
    }

    /// Whether a connection may do one of the bits of `perm` to a znode.
    ///
    /// # Errors
    /// [`ErrorCode::NoAuth`] when it may not.
    pub fn check(&self, node: NodeId, perm: i32, identities: &[Identity]) -> Result<(), ErrorCode> {
        let id = self.tree.acl(node);
        if self.rules.skip_acl || self.tree.acls().permits_anyone(id, perm) {
            return Ok(());
        }
        let list = self.tree.acls().list(id).map(|list| &**list).unwrap_or_default();
        if acl::permits(list, perm, identities) { Ok(()) } else { Err(ErrorCode::NoAuth) }
    }

    /// Is to take the place of `before`.
    pub const fn succeed(&mut self, before: &Self) {
        self.incarnation = before.incarnation + 1;
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

    /// Adds an ACL list of a snapshot.
    ///
    /// # Errors
    /// The list's number, when it is none that a snapshot can have.
    pub fn load_acl(&mut self, stored: i64, list: &[Acl<'_>]) -> Result<(), i64> {
        self.tree.load_acl(stored, list)
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

    /// Ends a snapshot that shows the tree at `zxid`. `digest` is its own sum over it, where it has one.
    pub fn finish_load(&mut self, zxid: Zxid, digest: Option<i64>) {
        // Those of ZooKeeper 3.4 have no /zookeeper/config, and ZooKeeper adds none.
        if self.tree.find(path::ZOOKEEPER).is_none() {
            self.add_reserved();
        }
        self.tree.finish_load();
        self.find_quotas();
        self.last_zxid = zxid;
        self.tree.set_digest(digest.filter(|_| self.rules.digest));
    }

    /// The same state is that of a later zxid.
    pub fn move_to(&mut self, zxid: Zxid) {
        debug_assert!(zxid >= self.last_zxid, "{zxid} is not behind {}", self.last_zxid);
        self.last_zxid = zxid;
    }

    /// Finds the quotas of a loaded tree and counts what they are about anew.
    fn find_quotas(&mut self) {
        let Some(root) = self.tree.find(path::QUOTA) else { return };
        let mut nodes = Vec::new();
        self.tree.for_each_below(root, |node, _| nodes.push(node));
        for node in nodes {
            let path = self.tree.path(node);
            if let Some(QuotaNode::Limits(limited)) = QuotaNode::parse(&path) {
                self.quotas.add(limited);
                self.count_quota(limited);
            }
        }
    }

    /// The quotas as they stand.
    #[must_use]
    pub fn quotas(&self) -> Vec<Quota> {
        let track = |path: String| {
            let node = self.tree.find(&path)?;
            Track::parse(self.tree.data(node)).ok()
        };
        let quota = |path: &str| Quota {
            path: path.to_owned(),
            limits: track(quota::limits_path(path)),
            used: track(quota::stats_path(path)),
        };
        self.quotas.all().map(quota).collect()
    }

    /// Counts the znodes and bytes from a path on and writes them into its statistics.
    pub(super) fn count_quota(&mut self, limited: &str) {
        let Some(stats) = self.tree.find(&quota::stats_path(limited)) else { return };
        let (mut count, mut bytes) = (0, 0);
        if let Some(node) = self.tree.find(limited) {
            count = 1;
            bytes = i64::from(self.tree.stat(node).data_length);
            self.tree.for_each_below(node, |_, len| {
                count += 1;
                bytes += i64::try_from(len).unwrap_or(i64::MAX);
            });
        }
        self.tree.set_data_silently(stats, Track::of(count, bytes).to_string().as_bytes());
    }

    /// Adds what a change below a quota has changed to the quota's statistics.
    pub(super) fn grow_quota(&mut self, path: &str, growth: Growth) {
        let Some(limited) = self.quotas.deepest(path) else { return };
        let Some(stats) = self.tree.find(&quota::stats_path(limited)) else { return };
        // ZooKeeper ends over statistics that a client made unreadable; here they begin anew.
        let mut track = Track::parse(self.tree.data(stats)).unwrap_or_default();
        track.grow(growth);
        self.tree.set_data_silently(stats, track.to_string().as_bytes());
    }

    /// Sums the tree up where that is wanted and no transaction said the sum.
    pub fn ensure_digest(&mut self) {
        if self.rules.digest && self.tree.digest().is_none() {
            let digest = self.tree.compute_digest();
            self.tree.set_digest(Some(digest));
        }
    }
}
