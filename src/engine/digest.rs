//! The sum over all znodes that two trees compare to find out whether they are the same
//! (`DigestCalculator`).

use std::borrow::Cow;

use crc32fast::Hasher;
use jute::StatPersisted;
use jute::persist::SnapshotNode;

use super::path;

/// What a znode of a snapshot gives to the sum.
#[must_use]
pub fn of_node(path: &str, node: &SnapshotNode<'_>) -> i64 {
    ContentDigest::new(path, node.data.as_deref()).with(&node.stat)
}

/// What znodes give to the sum, whole ones, as a snapshot has them; `None` when they are something
/// else.
#[must_use]
pub fn of_nodes(mut znodes: &[u8]) -> Option<i64> {
    let mut sum = 0_i64;
    while !znodes.is_empty() {
        let (path, behind) = jute::decode::<Cow<'_, str>>(znodes).ok()?;
        let (node, behind) = jute::decode::<SnapshotNode<'_>>(behind).ok()?;
        sum = sum.wrapping_add(of_node(&path, &node));
        znodes = behind;
    }
    Some(sum)
}

/// The part of a znode's digest that its path and data make. A znode below `/zookeeper/` counts
/// nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContentDigest(Option<u32>);

/// What a path gives to the digests of its znode and of all that are below.
#[derive(Clone)]
pub(super) struct PathDigest {
    /// `None` below `/zookeeper/`.
    sum: Option<Hasher>,
    is_zookeeper: bool,
}

impl PathDigest {
    /// That of the root, whose path is empty here.
    pub(super) fn root() -> Self {
        Self { sum: Some(Hasher::new()), is_zookeeper: false }
    }

    /// That of a child, of the root or of another znode.
    pub(super) fn child(&self, name: &str, of_root: bool) -> Self {
        let sum = self.sum.as_ref().filter(|_| !self.is_zookeeper).map(|sum| {
            let mut sum = sum.clone();
            sum.update(b"/");
            sum.update(name.as_bytes());
            sum
        });
        Self { sum, is_zookeeper: of_root && path::ZOOKEEPER.strip_prefix('/') == Some(name) }
    }

    /// That of its znode, but for the metadata.
    pub(super) fn content(&self, data: Option<&[u8]>) -> ContentDigest {
        ContentDigest(self.sum.as_ref().map(|sum| {
            let mut sum = sum.clone();
            sum.update(data.unwrap_or_default());
            #[cfg(test)]
            HASHED.set(HASHED.get() + data.map_or(0, <[u8]>::len));
            sum.finalize()
        }))
    }
}

#[cfg(test)]
thread_local! {
    /// Bytes of data that went into a digest.
    pub(super) static HASHED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl ContentDigest {
    /// Begins a znode's digest; the root's path is empty here.
    #[must_use]
    pub(super) fn new(path: &str, data: Option<&[u8]>) -> Self {
        let below = path.strip_prefix(path::ZOOKEEPER).is_some_and(|rest| rest.starts_with('/'));
        if below {
            return Self(None);
        }
        path::count_work(path.len());
        let mut hasher = Hasher::new();
        hasher.update(if path == path::ROOT { b"" } else { path.as_bytes() });
        hasher.update(data.unwrap_or_default());
        #[cfg(test)]
        HASHED.set(HASHED.get() + data.map_or(0, <[u8]>::len));
        Self(Some(hasher.finalize()))
    }

    /// Ends it with the metadata.
    #[must_use]
    pub(super) fn with(self, stat: &StatPersisted) -> i64 {
        let Some(content) = self.0 else { return 0 };
        let mut bytes = [0_u8; 60];
        let longs = [stat.czxid, stat.mzxid, stat.pzxid, stat.ctime, stat.mtime];
        let ints = [stat.version, stat.cversion, stat.aversion];
        let (head, rest) = bytes.split_at_mut(40);
        let (middle, tail) = rest.split_at_mut(12);
        for (to, long) in head.chunks_exact_mut(8).zip(longs) {
            to.copy_from_slice(&long.to_be_bytes());
        }
        for (to, int) in middle.chunks_exact_mut(4).zip(ints) {
            to.copy_from_slice(&int.to_be_bytes());
        }
        tail.copy_from_slice(&stat.ephemeral_owner.to_be_bytes());
        let mut hasher = Hasher::new_with_initial(content);
        hasher.update(&bytes);
        i64::from(hasher.finalize())
    }
}
