//! A map by path that is also asked for a path whose hash is known, without the path.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::fast::{FoldHasher, RandomState};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::engine::lineage::PathKey;
use crate::engine::path;

/// Paths with what is kept of them.
#[derive(Debug)]
pub(super) struct PathMap<V> {
    table: HashTable<(u64, Arc<str>, V)>,
    hasher: RandomState,
}

impl<V> Default for PathMap<V> {
    fn default() -> Self {
        Self { table: HashTable::new(), hasher: RandomState::default() }
    }
}

impl<V> PathMap<V> {
    /// Where the hash of a path begins.
    pub(in crate::engine) fn hasher(&self) -> FoldHasher<'static> {
        self.hasher.build_hasher()
    }

    fn hash(&self, path: &str) -> u64 {
        path::hash(self.hasher(), path)
    }

    pub(in crate::engine) fn get(&self, path: &str) -> Option<&V> {
        if self.table.is_empty() {
            return None;
        }
        let found = self.table.find(self.hash(path), |(_, known, _)| **known == *path);
        found.map(|(_, _, value)| value)
    }

    pub(in crate::engine) fn contains_key(&self, path: &str) -> bool {
        self.get(path).is_some()
    }

    /// Whether there is such a path. One that is not, but looks like it, can be taken for it.
    pub(in crate::engine) fn may_have(&self, key: PathKey<'_>) -> bool {
        let is = |(hash, known, _): &(u64, Arc<str>, V)| *hash == key.hash && key.may_be(known);
        self.table.find(key.hash, is).is_some()
    }

    /// Exchanges what is kept of a path, and gives the path as it is kept.
    pub(in crate::engine) fn insert(&mut self, path: &str, value: V) -> (Arc<str>, Option<V>) {
        let hash = self.hash(path);
        match self.entry(hash, path) {
            Entry::Occupied(mut entry) => {
                let (_, path, before) = entry.get_mut();
                (Arc::clone(path), Some(std::mem::replace(before, value)))
            }
            Entry::Vacant(entry) => {
                let path: Arc<str> = path.into();
                entry.insert((hash, Arc::clone(&path), value));
                (path, None)
            }
        }
    }

    pub(in crate::engine) fn remove(&mut self, path: &str) -> Option<V> {
        self.remove_if(path, |_| true)
    }

    /// Removes a path if what is kept of it `is` so.
    pub(super) fn remove_if(&mut self, path: &str, is: impl FnOnce(&V) -> bool) -> Option<V> {
        let hash = self.hash(path);
        let entry = self.table.find_entry(hash, |(_, known, _)| **known == *path).ok()?;
        let (_, _, value) = entry.get();
        if is(value) { Some(entry.remove().0.2) } else { None }
    }

    fn entry(&mut self, hash: u64, path: &str) -> Entry<'_, (u64, Arc<str>, V)> {
        self.table.entry(hash, |(_, known, _)| **known == *path, |(hash, ..)| *hash)
    }

    #[cfg(test)]
    pub(in crate::engine) fn len(&self) -> usize {
        self.table.len()
    }

    #[cfg(test)]
    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}
