//! What the paths of many znodes have in common, looked at once: the paths above them.
//!
//! A path is as long as the names above say, and only names are stored. Who looks at many znodes by their full paths pays for
//! those names again with each. Here each name is paid for once.

use std::hash::Hasher as _;

use foldhash::fast::FoldHasher;
use hashbrown::HashMap;

use super::database::Database;
use super::digest::PathDigest;
use super::path;
use super::quota;
use super::watch::WatchTable;
use super::znode::NodeId;

/// What is known of a znode at every such level is kept, so that no chain is climbed again for each that hangs on it.
const KEPT: usize = 64;

/// A path as far as to a znode.
#[derive(Clone)]
pub(super) struct Prefix {
    /// Bytes of it; none for the root.
    pub(super) len: usize,
    depth: usize,
    pub(super) digest: PathDigest,
    /// Name by name, as [`path::hash`] goes.
    names: FoldHasher<'static>,
    /// Its place in the tree of quotas, if there is one.
    quota: Option<NodeId>,
    /// The deepest znode down to here with a quota.
    pub(super) limited: Option<NodeId>,
    /// Somebody is told of all changes below.
    pub(super) is_watched_below: bool,
}

/// A path to be looked up by its hash. What is found may be another one, though hardly ever.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathKey<'a> {
    pub(super) hash: u64,
    len: usize,
    /// The last one; empty for the root.
    name: &'a str,
}

impl PathKey<'_> {
    /// Whether it may be this path, to be asked where the hashes are equal.
    pub(super) fn may_be(&self, path: &str) -> bool {
        path.len() == self.len && path.ends_with(self.name)
    }
}

impl Prefix {
    /// That of the root.
    fn root(hasher: FoldHasher<'static>, database: &Database) -> Self {
        let mut names = hasher;
        path::add_name(&mut names, "");
        let has_quotas = !database.quotas.is_empty();
        Self {
            len: 0,
            depth: 0,
            digest: PathDigest::root(),
            names,
            quota: database.tree.find(path::QUOTA).filter(|_| has_quotas),
            limited: None,
            is_watched_below: false,
        }
    }

    /// That of a child.
    pub(super) fn child(&self, database: &Database, id: NodeId, name: &str) -> Self {
        path::count_work(name.len());
        let tree = &database.tree;
        let mut names = self.names.clone();
        path::add_name(&mut names, name);
        let quota = self.quota.and_then(|place| tree.child(place, name));
        let is_limited = quota.is_some_and(|place| tree.child(place, quota::LIMITS).is_some());
        Self {
            len: self.len + 1 + name.len(),
            depth: self.depth + 1,
            digest: self.digest.child(name, self.depth == 0),
            names,
            quota,
            limited: if is_limited { Some(id) } else { self.limited },
            is_watched_below: self.is_watched_below,
        }
    }

    /// To look the path up; `name` is its last one.
    pub(super) fn key<'a>(&self, name: &'a str) -> PathKey<'a> {
        let mut names = self.names.clone();
        if self.depth == 0 {
            path::add_name(&mut names, "");
        }
        PathKey { hash: names.finish(), len: self.len.max(path::ROOT.len()), name }
    }
}

/// The paths that are known, as long as the tree stays as it is above the znodes that are looked at.
pub(super) struct Lineage {
    known: HashMap<NodeId, Prefix>,
    root: Prefix,
}

impl Lineage {
    /// None so far. `hasher` is that of whoever looks paths up by their hashes.
    pub(super) fn new(hasher: FoldHasher<'static>, database: &Database) -> Self {
        Self { known: HashMap::new(), root: Prefix::root(hasher, database) }
    }

    /// The path of a znode that is above others.
    pub(super) fn of(
        &mut self,
        database: &Database,
        watches: Option<&WatchTable>,
        id: NodeId,
    ) -> Prefix {
        let tree = &database.tree;
        let (mut unknown, mut at) = (Vec::new(), id);
        let known = loop {
            if let Some(known) = self.known.get(&at) {
                break known;
            }
            if at == NodeId::ROOT {
                break &self.root;
            }
            unknown.push(at);
            at = tree.parent(at);
        };
        let mut prefix = known.clone();
        let watched = |prefix: &Prefix, name: &str| {
            watches.is_some_and(|watches| watches.may_see_below(prefix.key(name)))
        };
        if at == NodeId::ROOT {
            prefix.is_watched_below = watched(&prefix, "");
        }
        for above in unknown.into_iter().rev() {
            let name = tree.name(above);
            prefix = prefix.child(database, above, name);
            prefix.is_watched_below = prefix.is_watched_below || watched(&prefix, name);
            if above == id || prefix.depth.is_multiple_of(KEPT) {
                self.known.insert(above, prefix.clone());
            }
        }
        prefix
    }
}
