//! What the paths of many znodes have in common, looked at once: the paths above them.
//!
//! A path is as long as the names above say, and only names are stored. Who looks at many znodes by
//! their full paths pays for those names again with each. Here each name is paid for once.

use std::hash::Hasher as _;

use foldhash::fast::FoldHasher;
use hashbrown::HashMap;

use super::database::Database;
use super::digest::PathDigest;
use super::path;
use super::tree::znode::NodeId;
use super::watch::WatchTable;

/// What is known of a znode is kept so many levels below one that is kept, or so many bytes of
/// names: no chain is climbed, and no long name looked at, again for each that hangs on it.
const LEVELS: usize = 64;
const NAMES_LEN: usize = 1024;
/// So many are kept; then they are forgotten, and found anew where they are needed.
const KNOWN_MAX: usize = 16 << 10;

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
        let has_quotas = database.quotas.has_limits();
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
        let is_limited = quota.is_some_and(|place| database.quotas.is_limited(place));
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

/// The paths that are known, as long as the tree stays as it is above the znodes that are looked
/// at.
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
        let (mut kept_depth, mut kept_len) = (prefix.depth, prefix.len);
        for above in unknown.into_iter().rev() {
            let name = tree.name(above);
            prefix = prefix.child(database, above, name);
            prefix.is_watched_below = prefix.is_watched_below || watched(&prefix, name);
            let is_far = prefix.depth - kept_depth >= LEVELS || prefix.len - kept_len >= NAMES_LEN;
            if above == id || is_far {
                (kept_depth, kept_len) = (prefix.depth, prefix.len);
                if self.known.len() >= KNOWN_MAX {
                    self.known.clear();
                }
                self.known.insert(above, prefix.clone());
            }
        }
        prefix
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::apply_test::{RULES, make};
    use crate::engine::owner::Owner;

    /// There can be as many parents as there are znodes.
    #[test]
    fn what_is_kept_of_many_parents_is_bounded_and_what_is_forgotten_is_found_again() {
        let mut database = Database::new(1, RULES);
        (0..3 * KNOWN_MAX).for_each(|at| make(&mut database, &format!("/{at}"), b"", Owner::None));
        let hasher = database.watches.lock().hasher();
        let mut lineage = Lineage::new(hasher.clone(), &database);
        let mut most = 0;
        for at in (0..3 * KNOWN_MAX).chain(0..3) {
            let path = format!("/{at}");
            let id = database.tree().find(&path).expect("it was made");
            let prefix = lineage.of(&database, None, id);
            let hash = prefix.key(database.tree().name(id)).hash;
            assert_eq!((prefix.len, hash), (path.len(), path::hash(hasher.clone(), &path)));
            most = most.max(lineage.known.len());
        }
        assert!(most <= KNOWN_MAX, "{most} are kept");
    }
}
