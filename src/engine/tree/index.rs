//! Finding a znode by its parent and its name: one number an entry, in shards that grow apart from
//! each other.

use std::hash::{BuildHasher as _, Hasher as _};
use std::ops::Range;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::znode::{NodeId, Znodes};
use crate::engine::path;

/// Shards. At ten million znodes one holds 2,500, and growing it takes some tens of microseconds.
const SHARDS: usize = 4096;
/// Bits of a hash that choose the shard.
const SHARD_BITS: u32 = SHARDS.trailing_zeros();

/// (parent, name) to [`NodeId`].
#[derive(Debug)]
pub(in crate::engine) struct Index {
    shards: Vec<HashTable<NodeId>>,
    /// Seeded, so that nobody can choose names that collide.
    hasher: FixedState,
}

/// Bits within a shard: the stored hash spread over 64.
const fn spread(hash: u32) -> u64 {
    (hash as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Index {
    pub(in crate::engine) fn new(seed: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
            hasher: FixedState::with_seed(seed),
        }
    }

    pub(in crate::engine) fn hash(&self, parent: NodeId, name: &str) -> u32 {
        path::count_work(name.len());
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u32(parent.0);
        hasher.write(name.as_bytes());
        (hasher.finish() >> 32) as u32
    }

    const fn shard(hash: u32) -> usize {
        (hash >> (u32::BITS - SHARD_BITS)) as usize
    }

    pub(in crate::engine) fn find(
        &self,
        znodes: &Znodes,
        parent: NodeId,
        name: &str,
    ) -> Option<NodeId> {
        self.find_hashed(znodes, self.hash(parent, name), parent, name)
    }

    /// The same, where the hash of the two is known.
    pub(in crate::engine) fn find_hashed(
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

    pub(in crate::engine) fn insert(&mut self, znodes: &Znodes, id: NodeId, hash: u32) {
        if let Some(shard) = self.shards.get_mut(Self::shard(hash)) {
            shard.insert_unique(spread(hash), id, |&id| hash_of(znodes, id));
        }
    }

    /// Adds many znodes, shard by shard, so that each shard grows once and while it is at hand.
    ///
    /// # Errors
    /// One whose parent has another child of its name. Part of the others may be missing then.
    pub(super) fn insert_all(&mut self, znodes: &Znodes, ids: Range<u32>) -> Result<(), NodeId> {
        let with_hashes = || {
            let hash = |id| znodes.get(id).map(|node| (id, node.hash));
            ids.clone().filter_map(move |id| hash(NodeId(id)))
        };
        // So few are not worth a turn through all shards.
        if ids.len() < SHARDS {
            return with_hashes().try_for_each(|(id, hash)| {
                let shard = self.shards.get_mut(Self::shard(hash));
                shard.map_or(Ok(()), |shard| insert_new(shard, znodes, id, hash))
            });
        }
        let mut lens = vec![0_usize; SHARDS];
        for (_, hash) in with_hashes() {
            lens[Self::shard(hash)] += 1;
        }
        let mut end = 0;
        let begin_of = |len: &usize| {
            end += len;
            end - len
        };
        let mut nexts: Vec<usize> = lens.iter().map(begin_of).collect();
        let mut by_shard = vec![(NodeId::ROOT, 0); end];
        for (id, hash) in with_hashes() {
            let next = &mut nexts[Self::shard(hash)];
            by_shard[*next] = (id, hash);
            *next += 1;
        }
        let mut rest = &by_shard[..];
        for (shard, len) in self.shards.iter_mut().zip(lens) {
            let (here, behind) = rest.split_at(len);
            rest = behind;
            shard.reserve(len, |&id| hash_of(znodes, id));
            for &(id, hash) in here {
                insert_new(shard, znodes, id, hash)?;
            }
        }
        Ok(())
    }

    pub(in crate::engine) fn remove(&mut self, znodes: &Znodes, id: NodeId, hash: u32) {
        if let Some(shard) = self.shards.get_mut(Self::shard(hash))
            && let Ok(entry) = shard.find_entry(spread(hash), |&entry| entry == id)
        {
            entry.remove();
            // Eight times too large: what is left is moved once for many that went.
            if shard.len() <= shard.capacity() / 8 {
                shard.shrink_to(shard.len() * 2, |&id| hash_of(znodes, id));
            }
        }
    }
}

/// What a shard goes by, of a znode that is in it.
fn hash_of(znodes: &Znodes, id: NodeId) -> u64 {
    spread(znodes.get(id).map_or(0, |node| node.hash))
}

/// Adds a znode unless its parent has another child of its name.
fn insert_new(
    shard: &mut HashTable<NodeId>,
    znodes: &Znodes,
    id: NodeId,
    hash: u32,
) -> Result<(), NodeId> {
    let Some(node) = znodes.get(id) else { return Ok(()) };
    let is_same = |&other: &NodeId| {
        let hash_is = znodes.get(other).is_some_and(|other| other.hash == hash);
        hash_is && Index::is(znodes, other, node.parent, node.name())
    };
    match shard.entry(spread(hash), is_same, |&id| hash_of(znodes, id)) {
        Entry::Occupied(_) => Err(id),
        Entry::Vacant(place) => {
            place.insert(id);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use jute::StatPersisted;

    use super::*;
    use crate::engine::access::acl::AclId;
    use crate::engine::owner::Owner;
    use crate::engine::tree::znode::Birth;

    #[test]
    fn a_name_that_comes_twice_is_told() {
        let (mut znodes, mut index) = (Znodes::default(), Index::new(3));
        let ids: Vec<NodeId> = ["", "a", "b", "a", "c"]
            .iter()
            .map(|name| {
                let hash = index.hash(NodeId::ROOT, name);
                let (parent, data, acl, owner) = (NodeId::ROOT, None, AclId::OPEN, Owner::None);
                let stat = StatPersisted::default();
                znodes.insert(&Birth { parent, name, hash, data, acl, owner, stat }).unwrap()
            })
            .collect();
        assert_eq!(index.insert_all(&znodes, 1..znodes.end()), Err(ids[3]));
    }

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
        // Some by themselves, then some of those after them at once, and all the rest.
        for &(id, hash) in &ids[..10_000] {
            index.insert(&znodes, id, hash);
        }
        let [some, rest] = [ids[10_000].0.0, ids[12_000].0.0];
        assert_eq!(index.insert_all(&znodes, some..rest), Ok(()));
        assert_eq!(index.insert_all(&znodes, rest..znodes.end()), Ok(()));
        let other = ids[0].0;
        for (name, &(id, _)) in names.iter().zip(&ids) {
            assert_eq!(index.find(&znodes, NodeId::ROOT, name), Some(id), "{name}");
            assert_eq!(index.find(&znodes, other, name), None, "{name} elsewhere");
            assert_eq!(index.find(&znodes, NodeId::ROOT, &format!("{name}-")), None, "{name}-");
        }
        for (i, &(id, hash)) in ids.iter().enumerate() {
            index.remove(&znodes, id, hash);
            assert_eq!(index.find(&znodes, NodeId::ROOT, &names[i]), None);
        }
        assert!(index.shards.iter().all(|shard| shard.is_empty() && shard.capacity() == 0));
    }
}
