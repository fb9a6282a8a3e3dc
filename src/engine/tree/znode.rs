//! Znodes in memory: 80 bytes each, one allocation for name and data, and a side table for what few
//! have.

use jute::{Stat, StatPersisted};

use crate::engine::access::acl::AclId;
use crate::engine::owner::Owner;
use crate::engine::path;
use crate::engine::session::SessionId;
use crate::engine::slab::Slab;
use crate::planted;

/// A znode's number. Numbers of deleted znodes are given out again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(in crate::engine) u32);

impl NodeId {
    /// The root.
    pub const ROOT: Self = Self(0);
}

/// Where there is no znode or no kin.
const NONE: u32 = u32::MAX;
/// In `name_len`: the data is null.
const NULL_DATA: u32 = 1 << 31;

/// What every znode has.
#[derive(Debug)]
pub(in crate::engine) struct Znode {
    pub(in crate::engine) czxid: i64,
    pub(in crate::engine) mzxid: i64,
    pub(in crate::engine) ctime: i64,
    pub(in crate::engine) mtime: i64,
    /// The name, then the data.
    blob: Box<[u8]>,
    /// Bytes of the name, and [`NULL_DATA`].
    name_len: u32,
    /// Of parent and name, for the index.
    pub(in crate::engine) hash: u32,
    pub(in crate::engine) parent: NodeId,
    previous: u32,
    next: u32,
    /// Its number in the side table.
    kin: u32,
    pub(in crate::engine) acl: AclId,
    pub(in crate::engine) version: i32,
}

/// What only parents, owned znodes and those with a changed ACL have.
#[derive(Debug)]
struct Kin {
    first_child: u32,
    num_children: i32,
    /// Creates below the znode, ever: the sequence counter.
    creates: i32,
    aversion: i32,
    pzxid: i64,
    /// Who `keeper` speaks of, or how long it keeps the znode.
    kept: i64,
    /// Bytes of data of all znodes below, at any depth.
    bytes_below: u64,
    /// How many these are.
    znodes_below: u32,
    keeper: Keeper,
}

/// The kind of an [`Owner`], by itself, so that it takes a byte.
#[derive(Debug, Clone, Copy)]
enum Keeper {
    None,
    Session,
    Container,
    Ttl,
}

/// All znodes below one, at any depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Below {
    /// How many there are.
    pub znodes: usize,
    /// Bytes of their data.
    pub bytes: u64,
}

/// A znode as it comes into being.
#[derive(Debug)]
pub(in crate::engine) struct Birth<'a> {
    pub(in crate::engine) parent: NodeId,
    pub(in crate::engine) name: &'a str,
    pub(in crate::engine) hash: u32,
    pub(in crate::engine) data: Option<&'a [u8]>,
    pub(in crate::engine) acl: AclId,
    pub(in crate::engine) owner: Owner,
    pub(in crate::engine) stat: StatPersisted,
}

/// The znodes and how they hang together. Knows no paths, no transactions and no ACL lists.
#[derive(Debug, Default)]
pub(in crate::engine) struct Znodes {
    nodes: Slab<Znode>,
    kin: Slab<Kin>,
}

fn blob(name: &[u8], data: &[u8]) -> Box<[u8]> {
    let mut blob = Vec::with_capacity(name.len() + data.len());
    blob.extend_from_slice(name);
    blob.extend_from_slice(data);
    blob.into_boxed_slice()
}

impl Kin {
    const fn owner(&self) -> Owner {
        match self.keeper {
            Keeper::None => Owner::None,
            Keeper::Session => Owner::Session(SessionId(self.kept)),
            Keeper::Container => Owner::Container,
            Keeper::Ttl => Owner::Ttl(self.kept),
        }
    }

    const fn set_owner(&mut self, owner: Owner) {
        (self.keeper, self.kept) = match owner {
            Owner::None => (Keeper::None, 0),
            Owner::Session(session) => (Keeper::Session, session.0),
            Owner::Container => (Keeper::Container, 0),
            Owner::Ttl(ms) => (Keeper::Ttl, ms),
        };
    }

    const fn grow_below(&mut self, znodes: i32, bytes: i64) {
        self.znodes_below = self.znodes_below.wrapping_add_signed(znodes);
        self.bytes_below = self.bytes_below.wrapping_add_signed(bytes);
    }
}

impl Znode {
    const fn name_len(&self) -> usize {
        (self.name_len & !NULL_DATA) as usize
    }

    fn name_bytes(&self) -> &[u8] {
        self.blob.get(..self.name_len()).unwrap_or_default()
    }

    pub(in crate::engine) fn name(&self) -> &str {
        std::str::from_utf8(self.name_bytes()).unwrap_or_default()
    }

    /// The next older sibling.
    pub(in crate::engine) fn next(&self) -> Option<NodeId> {
        (self.next != NONE).then_some(NodeId(self.next))
    }

    pub(in crate::engine) fn is_named(&self, name: &str) -> bool {
        self.name_bytes() == name.as_bytes()
    }

    pub(in crate::engine) fn data(&self) -> Option<&[u8]> {
        if self.name_len & NULL_DATA != 0 { None } else { self.blob.get(self.name_len()..) }
    }

    pub(in crate::engine) fn data_len(&self) -> usize {
        self.blob.len() - self.name_len()
    }
}

impl Znodes {
    pub(in crate::engine) const fn count(&self) -> usize {
        self.nodes.used()
    }

    /// One more than the highest number ever given out.
    pub(in crate::engine) fn end(&self) -> u32 {
        self.nodes.end()
    }

    pub(in crate::engine) fn get(&self, id: NodeId) -> Option<&Znode> {
        self.nodes.get(id.0)
    }

    pub(in crate::engine) fn get_mut(&mut self, id: NodeId) -> Option<&mut Znode> {
        self.nodes.get_mut(id.0)
    }

    fn kin(&self, id: NodeId) -> Option<&Kin> {
        self.kin.get(self.get(id)?.kin)
    }

    /// The side entry of a znode, made if it has none. `None` only where there is no such znode, or
    /// no number left.
    fn kin_mut(&mut self, id: NodeId) -> Option<&mut Kin> {
        let node = self.nodes.get_mut(id.0)?;
        if node.kin == NONE {
            node.kin = self.kin.insert(Kin {
                first_child: NONE,
                num_children: 0,
                creates: 0,
                aversion: 0,
                pzxid: node.czxid,
                kept: 0,
                bytes_below: 0,
                znodes_below: 0,
                keeper: Keeper::None,
            })?;
        }
        self.kin.get_mut(node.kin)
    }

    /// Adds a znode as the first child of its parent; the root is its own parent. The parent's
    /// counters are not touched but for the number of its children, nor is anything counted for
    /// those above. `None` when there are 2^32 - 1 already.
    pub(in crate::engine) fn insert(&mut self, birth: &Birth<'_>) -> Option<NodeId> {
        let Birth { parent, name, hash, data, acl, owner, stat } = *birth;
        let name_len = u32::try_from(name.len()).ok().filter(|len| len & NULL_DATA == 0)?;
        let id = NodeId(self.nodes.insert(Znode {
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            ctime: stat.ctime,
            mtime: stat.mtime,
            blob: blob(name.as_bytes(), data.unwrap_or_default()),
            name_len: name_len | if data.is_none() { NULL_DATA } else { 0 },
            hash,
            parent,
            previous: NONE,
            next: NONE,
            kin: NONE,
            acl,
            version: stat.version,
        })?);
        if owner != Owner::None
            || stat.cversion != 0
            || stat.aversion != 0
            || stat.pzxid != stat.czxid
        {
            let kin = self.kin_mut(id)?;
            kin.set_owner(owner);
            kin.creates = stat.cversion;
            kin.aversion = stat.aversion;
            kin.pzxid = stat.pzxid;
        }
        if id != parent {
            let family = self.kin_mut(parent)?;
            family.num_children += 1;
            let next = std::mem::replace(&mut family.first_child, id.0);
            if let Some(sibling) = self.nodes.get_mut(next) {
                sibling.previous = id.0;
            }
            if let Some(node) = self.nodes.get_mut(id.0) {
                node.next = next;
            }
        }
        Some(id)
    }

    /// Takes a childless znode out.
    pub(in crate::engine) fn remove(&mut self, id: NodeId) {
        let Some(node) = self.nodes.remove(id.0) else { return };
        self.kin.remove(node.kin);
        if let Some(next) = self.nodes.get_mut(node.next) {
            next.previous = node.previous;
        }
        if let Some(previous) = self.nodes.get_mut(node.previous) {
            previous.next = node.next;
        }
        if let Some(family) = self.kin_mut(node.parent) {
            family.num_children -= 1;
            if family.first_child == id.0 {
                family.first_child = node.next;
            }
        }
    }

    /// Counts for all that are above a znode what comes, goes or becomes larger with it.
    pub(super) fn grow_above(&mut self, id: NodeId, znodes: i32, bytes: i64) {
        let mut at = id;
        while at != NodeId::ROOT
            && let Some(node) = self.get(at)
        {
            at = node.parent;
            if let Some(kin) = self.kin_mut(at) {
                kin.grow_below(znodes, bytes);
            }
        }
    }

    /// Counts the znodes with the numbers from `first` on, each of which is higher than its
    /// parent's, for all that are above them.
    pub(super) fn count_below(&mut self, first: u32) {
        for number in (first.max(1)..self.end()).rev() {
            let id = NodeId(number);
            let Some(node) = self.get(id) else { continue };
            let parent = node.parent;
            debug_assert!(parent.0 < number, "{number} was there before its parent");
            let Below { znodes, bytes } = self.below(id);
            let znodes = (znodes as u32).wrapping_add(1).cast_signed();
            let bytes = bytes.wrapping_add(node.data_len() as u64).cast_signed();
            if parent.0 < first {
                self.grow_above(id, znodes, bytes);
            } else if let Some(kin) = self.kin_mut(parent) {
                kin.grow_below(znodes, bytes);
            }
        }
    }

    /// What is below a znode.
    pub(in crate::engine) fn below(&self, id: NodeId) -> Below {
        self.kin(id).map_or_else(Below::default, |kin| Below {
            znodes: kin.znodes_below as usize,
            bytes: kin.bytes_below,
        })
    }

    pub(in crate::engine) fn set_data(&mut self, id: NodeId, data: Option<&[u8]>) {
        if let Some(node) = self.nodes.get_mut(id.0) {
            let name_len = node.name_len();
            let bytes = data.unwrap_or_default();
            match node.blob.get_mut(name_len..) {
                // As it is mostly: a value of the same size.
                Some(place) if place.len() == bytes.len() => place.copy_from_slice(bytes),
                _ => node.blob = blob(node.name_bytes(), bytes),
            }
            node.name_len =
                (node.name_len & !NULL_DATA) | if data.is_none() { NULL_DATA } else { 0 };
        }
    }

    /// Replaces so many bytes at the front of the data. What is after them moves if need be, but
    /// is not copied elsewhere.
    pub(super) fn set_front(&mut self, id: NodeId, replaced: usize, front: &[u8]) {
        let Some(node) = self.nodes.get_mut(id.0) else { return };
        let from = node.name_len();
        let to = node.blob.len().min(from + replaced);
        match node.blob.get_mut(from..to) {
            // As it is mostly: numbers of the same size.
            Some(place) if place.len() == front.len() => place.copy_from_slice(front),
            _ => {
                let mut blob = std::mem::take(&mut node.blob).into_vec();
                blob.reserve_exact(front.len().saturating_sub(to - from));
                blob.splice(from..to, front.iter().copied());
                node.blob = blob.into_boxed_slice();
            }
        }
        node.name_len &= !NULL_DATA;
    }

    pub(super) fn set_aversion(&mut self, id: NodeId, aversion: i32) {
        if let Some(kin) = self.kin_mut(id) {
            kin.aversion = aversion;
        }
    }

    /// What a create or delete below a znode leaves on it.
    pub(in crate::engine) fn set_counters(&mut self, id: NodeId, creates: i32, pzxid: i64) {
        if let Some(kin) = self.kin_mut(id) {
            kin.creates = creates;
            kin.pzxid = pzxid;
        }
    }

    pub(in crate::engine) fn owner(&self, id: NodeId) -> Owner {
        self.kin(id).map_or(Owner::None, Kin::owner)
    }

    pub(in crate::engine) fn num_children(&self, id: NodeId) -> i32 {
        self.kin(id).map_or(0, |kin| kin.num_children)
    }

    /// The youngest child.
    pub(in crate::engine) fn first_child(&self, id: NodeId) -> Option<NodeId> {
        let first = self.kin(id)?.first_child;
        (first != NONE).then_some(NodeId(first))
    }

    /// The children, youngest first.
    pub(in crate::engine) fn children(&self, id: NodeId) -> impl Iterator<Item = (NodeId, &Znode)> {
        let mut next = self.kin(id).map_or(NONE, |kin| kin.first_child);
        std::iter::from_fn(move || {
            let node = self.nodes.get(next)?;
            let id = NodeId(next);
            next = node.next;
            Some((id, node))
        })
    }

    /// What a snapshot and a digest see.
    pub(in crate::engine) fn stat_persisted(&self, id: NodeId) -> StatPersisted {
        let Some(node) = self.get(id) else { return StatPersisted::default() };
        let kin = self.kin(id);
        StatPersisted {
            czxid: node.czxid,
            mzxid: node.mzxid,
            ctime: node.ctime,
            mtime: node.mtime,
            version: node.version,
            cversion: kin.map_or(0, |kin| kin.creates),
            aversion: kin.map_or(0, |kin| kin.aversion),
            ephemeral_owner: kin.map_or(0, |kin| kin.owner().stored()),
            pzxid: kin.map_or(node.czxid, |kin| kin.pzxid),
        }
    }

    /// What clients see. The children's version counts creates and deletes: twice the creates less
    /// the living.
    pub(in crate::engine) fn stat(&self, id: NodeId) -> Stat {
        let Some(node) = self.get(id) else { return Stat::default() };
        let kin = self.kin(id);
        let num_children = kin.map_or(0, |kin| kin.num_children);
        let creates = kin.map_or(0, |kin| kin.creates);
        Stat {
            czxid: node.czxid,
            mzxid: node.mzxid,
            ctime: node.ctime,
            mtime: node.mtime,
            version: node.version,
            cversion: match planted::is("cversion-is-creates") {
                true => creates,
                false => creates.wrapping_mul(2).wrapping_sub(num_children),
            },
            aversion: kin.map_or(0, |kin| kin.aversion),
            ephemeral_owner: kin.map_or(0, |kin| match planted::is("owners-shown") {
                true => kin.owner().stored(),
                false => kin.owner().shown(),
            }),
            data_length: i32::try_from(node.data_len()).unwrap_or(i32::MAX),
            num_children,
            pzxid: kin.map_or(node.czxid, |kin| kin.pzxid),
        }
    }

    /// Puts the full path of a znode into `path`; the root's is empty.
    pub(in crate::engine) fn write_path(&self, id: NodeId, path: &mut String) {
        let mut names = Vec::new();
        let mut at = id;
        while at != NodeId::ROOT
            && let Some(node) = self.get(at)
        {
            names.push(node.name());
            at = node.parent;
        }
        path.clear();
        for name in names.iter().rev() {
            path.push('/');
            path.push_str(name);
        }
        path::count_work(path.len());
        #[cfg(test)]
        HOPS.set(HOPS.get() + names.len());
    }
}

#[cfg(test)]
thread_local! {
    /// Steps from a znode to the one above it, for its path.
    pub(super) static HOPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::slab::Slot;

    #[test]
    fn a_znode_takes_80_bytes() {
        assert_eq!(size_of::<Slot<Znode>>(), 80);
        assert!(size_of::<Slot<Kin>>() <= 48, "{}", size_of::<Slot<Kin>>());
    }
}
