//! Changing the tree, and the sum over it with each change.

use jute::{Acl, StatPersisted};

use super::znode::{Birth, NodeId, Znode};
use super::{Changed, Creation, Impossible, Tree, bytes_of, signed};
use crate::engine::digest::{ContentDigest, PathDigest};
use crate::engine::owner::Owner;
use crate::engine::zxid::Zxid;

/// Data of so many bytes is hashed again whenever a counter of its znode changes.
const HASHED_AGAIN: usize = 4 << 10;

impl Tree {
    /// What path and data of a znode give to the digest.
    pub(in crate::engine) fn content(&self, id: NodeId, path: &str) -> ContentDigest {
        let known = self.contents.get(&id);
        known.copied().unwrap_or_else(|| ContentDigest::new(path, self.data(id)))
    }

    /// The same, where what the path gives is known.
    pub(in crate::engine) fn content_at(&self, id: NodeId, path: &PathDigest) -> ContentDigest {
        let known = self.contents.get(&id);
        known.copied().unwrap_or_else(|| path.content(self.data(id)))
    }

    /// A znode is about to change or to go.
    pub(super) fn count_out(&mut self, id: NodeId, path: &str) {
        self.add_to_digest(id, |tree| tree.content(id, path), i64::wrapping_sub);
    }

    /// A znode has come or changed.
    pub(super) fn count_in(&mut self, id: NodeId, path: &str) {
        self.add_to_digest(id, |tree| tree.content(id, path), i64::wrapping_add);
    }

    fn add_to_digest(
        &mut self,
        id: NodeId,
        content: impl FnOnce(&Self) -> ContentDigest,
        add: fn(i64, i64) -> i64,
    ) {
        let Some(sum) = self.digest else { return };
        let content = content(self);
        if self.data(id).is_some_and(|data| data.len() > HASHED_AGAIN) {
            self.contents.insert(id, content);
        }
        self.digest = Some(add(sum, content.with(&self.znodes.stat_persisted(id))));
    }

    /// Sums up all znodes, one by one: what the kept sum has to be.
    #[must_use]
    pub fn compute_digest(&self) -> i64 {
        let one = |id: NodeId| {
            let path = self.path(id);
            ContentDigest::new(&path, self.data(id)).with(&self.stat_persisted(id))
        };
        let mut digest = one(NodeId::ROOT);
        self.for_each_below(NodeId::ROOT, |id, _| digest = digest.wrapping_add(one(id)));
        digest
    }

    /// Makes a znode below `parent`, which is that of its path. The parent's counters are for the
    /// caller to set.
    ///
    /// # Errors
    /// [`Impossible`] when the znode is there, or the tree full.
    pub fn create(
        &mut self,
        parent: NodeId,
        creation: &Creation<'_>,
    ) -> Result<(NodeId, Changed), Impossible> {
        let path = creation.path;
        let Some((_, name)) = path.rsplit_once('/') else {
            return Err(Impossible::NoNode(path.into()));
        };
        let zxid = creation.zxid.0;
        let acl = self.acls.intern(creation.acl);
        let inserted = self.insert(path, parent, name, |hash| Birth {
            parent,
            name,
            hash,
            data: creation.data,
            acl,
            owner: creation.owner,
            stat: StatPersisted {
                czxid: zxid,
                mzxid: zxid,
                pzxid: zxid,
                ctime: creation.time,
                mtime: creation.time,
                ..StatPersisted::default()
            },
        });
        match inserted {
            Ok(id) => {
                self.count_in(id, path);
                let node_acl = self.reader_acl(acl);
                Ok((id, Changed { node_acl, parent_acl: self.readers(parent) }))
            }
            Err(error) => {
                self.acls.release(acl);
                Err(error)
            }
        }
    }

    pub(super) fn insert<'a>(
        &mut self,
        path: &str,
        parent: NodeId,
        name: &'a str,
        birth: impl FnOnce(u32) -> Birth<'a>,
    ) -> Result<NodeId, Impossible> {
        let hash = self.index.hash(parent, name);
        if name.is_empty() || self.index.find_hashed(&self.znodes, hash, parent, name).is_some() {
            return Err(Impossible::NodeExists(path.into()));
        }
        self.preserve(parent);
        let id = self.add(path, &birth(hash))?;
        let bytes = self.znodes.get(id).map_or(0, Znode::data_len);
        self.znodes.grow_above(id, 1, signed(bytes));
        if let Some(walk) = self.walk.get_mut() {
            walk.leave_out(id);
        }
        self.index.insert(&self.znodes, id, hash);
        Ok(id)
    }

    /// Adds a znode, but for the index.
    pub(super) fn add(&mut self, path: &str, birth: &Birth<'_>) -> Result<NodeId, Impossible> {
        let id = self.znodes.insert(birth).ok_or(Impossible::Full)?;
        self.data_size += bytes_of(path.len(), birth.data.map_or(0, <[u8]>::len));
        match birth.owner {
            Owner::None => {}
            Owner::Session(session) => {
                self.ephemerals_changes += 1;
                let owned = self.ephemerals.entry(session).or_default();
                owned.nodes.insert(id);
                owned.changed = self.ephemerals_changes;
                self.ephemerals_count += 1;
            }
            Owner::Container | Owner::Ttl(_) => {
                self.reapable.insert(id);
            }
        }
        Ok(id)
    }

    /// Takes the childless znode of `path` out. The parent's counters are for the caller to set.
    ///
    /// # Errors
    /// [`Impossible`] when it is the root or has children.
    pub fn delete(&mut self, id: NodeId, path: &str) -> Result<Changed, Impossible> {
        if id == NodeId::ROOT {
            return Err(Impossible::NoNode(path.into()));
        }
        if self.znodes.num_children(id) > 0 {
            return Err(Impossible::NotEmpty(path.into()));
        }
        let content = |tree: &Self| tree.content(id, path);
        self.take_out(id, path.len(), content).ok_or_else(|| Impossible::NoNode(path.into()))
    }

    /// As [`Self::delete`], where what the path gives is known, and how long it is.
    ///
    /// # Errors
    /// [`Impossible`] when the znode has children.
    pub(in crate::engine) fn delete_at(
        &mut self,
        id: NodeId,
        path_len: usize,
        path: &PathDigest,
    ) -> Result<Changed, Impossible> {
        if self.znodes.num_children(id) > 0 {
            return Err(Impossible::NotEmpty(self.path(id)));
        }
        let content = |tree: &Self| tree.content_at(id, path);
        self.take_out(id, path_len, content).ok_or_else(|| Impossible::NoNode(String::new()))
    }

    fn take_out(
        &mut self,
        id: NodeId,
        path_len: usize,
        content: impl FnOnce(&Self) -> ContentDigest,
    ) -> Option<Changed> {
        let node = self.znodes.get(id)?;
        let (parent, acl, hash) = (node.parent, node.acl, node.hash);
        let bytes = node.data_len();
        self.data_size -= bytes_of(path_len, bytes);
        let changed = Changed { node_acl: self.reader_acl(acl), parent_acl: self.readers(parent) };
        self.preserve(id);
        self.preserve(parent);
        self.add_to_digest(id, content, i64::wrapping_sub);
        match self.znodes.owner(id) {
            Owner::None => {}
            Owner::Session(session) => {
                self.ephemerals_changes += 1;
                if let Some(owned) = self.ephemerals.get_mut(&session) {
                    owned.nodes.remove(&id);
                    owned.changed = self.ephemerals_changes;
                    if owned.nodes.is_empty() {
                        self.ephemerals.remove(&session);
                    }
                }
                self.ephemerals_count -= 1;
            }
            Owner::Container | Owner::Ttl(_) => {
                self.reapable.remove(&id);
            }
        }
        self.index.remove(&self.znodes, id, hash);
        self.znodes.grow_above(id, -1, -signed(bytes));
        self.contents.remove(&id);
        self.znodes.remove(id);
        self.acls.release(acl);
        Some(changed)
    }

    /// Replaces the data of the znode of `path`.
    pub fn set_data(
        &mut self,
        id: NodeId,
        path: &str,
        data: Option<&[u8]>,
        version: i32,
        zxid: Zxid,
        time: i64,
    ) {
        self.count_out(id, path);
        self.replace_data(id, data);
        if let Some(node) = self.znodes.get_mut(id) {
            node.version = version;
            node.mzxid = zxid.0;
            node.mtime = time;
        }
        self.count_in(id, path);
    }

    /// The data will be so many bytes longer: it counts already.
    pub(in crate::engine) fn announce_data(&mut self, id: NodeId, longer: i64) {
        self.data_size = self.data_size.wrapping_add_signed(longer);
        self.znodes.grow_above(id, 0, longer);
    }

    /// Replaces so many bytes at the front of the data and nothing else, where the new length
    /// counts already: how the server keeps its statistics, which count nothing in the digest.
    pub(in crate::engine) fn set_announced_front(
        &mut self,
        id: NodeId,
        replaced: usize,
        front: &[u8],
    ) {
        #[cfg(test)]
        super::WRITTEN.set(super::WRITTEN.get() + front.len());
        self.preserve(id);
        self.contents.remove(&id);
        self.znodes.set_front(id, replaced, front);
    }

    fn replace_data(&mut self, id: NodeId, data: Option<&[u8]>) {
        self.preserve(id);
        let before = self.znodes.get(id).map_or(0, Znode::data_len);
        let after = data.map_or(0, <[u8]>::len);
        self.data_size = self.data_size - before as u64 + after as u64;
        self.contents.remove(&id);
        self.znodes.set_data(id, data);
        if before != after {
            self.znodes.grow_above(id, 0, signed(after) - signed(before));
        }
    }

    /// Replaces the ACL of the znode of `path`.
    pub fn set_acl(&mut self, id: NodeId, path: &str, acl: Vec<Acl<'_>>, aversion: i32) {
        self.preserve(id);
        self.count_out(id, path);
        let renewed = self.acls.intern_owned(acl);
        if let Some(node) = self.znodes.get_mut(id) {
            let before = std::mem::replace(&mut node.acl, renewed);
            self.acls.release(before);
        }
        self.znodes.set_aversion(id, aversion);
        self.count_in(id, path);
    }

    /// Sets what a create below the znode of `path` leaves on it: the creates so far and the zxid.
    pub fn set_counters(&mut self, id: NodeId, path: &str, creates: i32, pzxid: Zxid) {
        self.preserve(id);
        self.count_out(id, path);
        self.znodes.set_counters(id, creates, pzxid.0);
        self.count_in(id, path);
    }

    /// What a delete below the znode of `path` leaves on it. The zxid there can be the higher one:
    /// after a snapshot that ZooKeeper wrote while transactions went on, and a log that ends
    /// before it did (`DataTree.deleteNode`).
    pub(in crate::engine) fn raise_pzxid(&mut self, id: NodeId, path: &str, zxid: Zxid) {
        let stat = self.znodes.stat_persisted(id);
        self.set_counters(id, path, stat.cversion, zxid.max(Zxid(stat.pzxid)));
    }

    /// As [`Self::raise_pzxid`], where what the path gives is known.
    pub(in crate::engine) fn raise_pzxid_at(&mut self, id: NodeId, path: &PathDigest, zxid: Zxid) {
        let stat = self.znodes.stat_persisted(id);
        self.preserve(id);
        self.add_to_digest(id, |tree| tree.content_at(id, path), i64::wrapping_sub);
        self.znodes.set_counters(id, stat.cversion, zxid.0.max(stat.pzxid));
        self.add_to_digest(id, |tree| tree.content_at(id, path), i64::wrapping_add);
    }
}
