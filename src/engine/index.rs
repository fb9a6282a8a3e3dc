//! Finding a znode by its parent and its name: one number an entry, in shards that grow apart from each other.

use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::znode::{NodeId, Znodes};

/// Shards. At ten million znodes one holds 2,500, and growing it takes some tens of microseconds.
const SHARDS: usize = 4096;
/// Bits of a hash that choose the shard.
const SHARD_BITS: u32 = SHARDS.trailing_zeros();

/// (parent, name) to [`NodeId`].
#[derive(Debug)]
pub(super) struct Index {
    shards: Vec<HashTable<NodeId>>,
    /// Seeded, so that nobody can choose names that collide.
    hasher: FixedState,
}

/// Bits within a shard: the stored hash spread over 64.
const fn spread(hash: u32) -> u64 {
    (hash as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Index {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
            hasher: FixedState::with_seed(seed),
        }
    }

    pub(super) fn hash(&self, parent: NodeId, name: &str) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u32(parent.0);
        hasher.write(name.as_bytes());
        (hasher.finish() >> 32) as u32
    }

    const fn shard(hash: u32) -> usize {
        (hash >> (u32::BITS - SHARD_BITS)) as usize
    }

    pub(super) fn find(&self, znodes: &Znodes, parent: NodeId, name: &str) -> Option<NodeId> {
        let hash = self.hash(parent, name);
        let shard = self.shards.get(Self::shard(hash))?;
        shard.find(spread(hash), |&id| Self::is(znodes, id, parent, name)).copied()
    }

    fn is(znodes: &Znodes, id: NodeId, parent: NodeId, name: &str) -> bool {
        znodes.get(id).is_some_and(|node| node.parent == parent && node.is_named(name))
    }

    pub(super) fn insert(&mut self, znodes: &Znodes, id: NodeId, hash: u32) {
        if let Some(shard) = self.shards.get_mut(Self::shard(hash)) {
            shard.insert_unique(spread(hash), id, |&id| {
                spread(znodes.get(id).map_or(0, |node| node.hash))
            });
        }
    }

    pub(super) fn remove(&mut self, id: NodeId, hash: u32) {
        if let Some(shard) = self.shards.get_mut(Self::shard(hash))
            && let Ok(entry) = shard.find_entry(spread(hash), |&entry| entry == id)
        {
            entry.remove();
        }
    }
}
