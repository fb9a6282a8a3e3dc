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
        self.find_hashed(znodes, self.hash(parent, name), parent, name)
    }

    /// The same, where the hash of the two is known.
    pub(super) fn find_hashed(
        &self,
        znodes: &Znodes,
        hash: u32,
        parent: NodeId,
        name: &str,
    ) -> Option<NodeId> {
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

#[cfg(test)]
mod tests {
    use jute::StatPersisted;

    use super::*;
    use crate::engine::acl::AclId;
    use crate::engine::owner::Owner;
    use crate::engine::znode::Birth;

    #[test]
    fn names_are_found_under_their_parent_alone_and_leave_nothing() {
        let (mut znodes, mut index) = (Znodes::default(), Index::new(3));
        let mut birth = |parent, name: &str, hash| {
            let (data, acl, owner) = (None, AclId::OPEN, Owner::None);
            let stat = StatPersisted::default();
            znodes.insert(&Birth { parent, name, hash, data, acl, owner, stat }).unwrap()
        };
        assert_eq!(birth(NodeId::ROOT, "", 0), NodeId::ROOT);
        // So many that names share a shard, and in it what is compared before the name.
        let names: Vec<String> = (0..40_000).map(|i| format!("name-{i}")).collect();
        let ids: Vec<(NodeId, u32)> = names
            .iter()
            .map(|name| {
                let hash = index.hash(NodeId::ROOT, name);
                (birth(NodeId::ROOT, name, hash), hash)
            })
            .collect();
        for &(id, hash) in &ids {
            index.insert(&znodes, id, hash);
        }
        let other = ids[0].0;
        for (name, &(id, _)) in names.iter().zip(&ids) {
            assert_eq!(index.find(&znodes, NodeId::ROOT, name), Some(id), "{name}");
            assert_eq!(index.find(&znodes, other, name), None, "{name} elsewhere");
            assert_eq!(index.find(&znodes, NodeId::ROOT, &format!("{name}-")), None, "{name}-");
        }
        for (i, &(id, hash)) in ids.iter().enumerate() {
            index.remove(id, hash);
            assert_eq!(index.find(&znodes, NodeId::ROOT, &names[i]), None);
        }
        assert!(index.shards.iter().all(HashTable::is_empty));
    }
}
