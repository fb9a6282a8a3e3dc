//! Making a tree of a snapshot's lists and znodes, one by one or all at once.

use jute::persist::SnapshotNode;
use jute::{Acl, StatPersisted};

use super::trail::Trail;
use super::{Bulk, Impossible, Tree};
use crate::engine::digest::ContentDigest;
use crate::engine::owner::Owner;
use crate::engine::tree::znode::{Birth, NodeId};
use crate::engine::zxid::Zxid;

impl Tree {
    /// Adds an ACL list of a snapshot, by its number there.
    pub fn load_acl(&mut self, stored: i64, list: &[Acl<'_>]) {
        self.acls.load(stored, list);
    }

    /// Takes znodes whose ACL list is still to come.
    pub const fn expect_fuzzy(&mut self) {
        self.acls.expect_fuzzy();
    }

    /// Adds a znode of a snapshot. Its parent must be there, and its ACL list unless the snapshot
    /// is fuzzy.
    ///
    /// # Errors
    /// [`Impossible`], with the reason.
    pub fn load(&mut self, path: &str, node: &SnapshotNode<'_>) -> Result<(), Impossible> {
        let stored = node.stat.ephemeral_owner;
        let Some(owner) = Owner::from_stored(stored, self.extended_types) else {
            return Err(Impossible::UnknownOwner { path: path.into(), owner: stored });
        };
        let acl = (self.acls.of_snapshot(node.acl))
            .ok_or_else(|| Impossible::NoAcl { path: path.into(), acl: node.acl })?;
        self.acls.retain(acl);
        if path.is_empty() {
            self.acls.release(self.acl(NodeId::ROOT));
            self.count_out(NodeId::ROOT, path);
            if let Some(root) = self.znodes.get_mut(NodeId::ROOT) {
                root.acl = acl;
                root.czxid = node.stat.czxid;
                root.ctime = node.stat.ctime;
            }
            self.count_in(NodeId::ROOT, path);
            let (data, stat) = (node.data.as_deref(), node.stat);
            let (mzxid, pzxid) = (Zxid(stat.mzxid), Zxid(stat.pzxid));
            self.set_data(NodeId::ROOT, path, data, stat.version, mzxid, stat.mtime);
            self.set_counters(NodeId::ROOT, path, stat.cversion, pzxid);
            self.count_out(NodeId::ROOT, path);
            self.znodes.set_aversion(NodeId::ROOT, stat.aversion);
            self.count_in(NodeId::ROOT, path);
            return Ok(());
        }
        let data = node.data.as_deref();
        let stat = node.stat;
        if self.bulk.is_some() {
            let (parent, name) = self.find_loaded_parent(path)?;
            let hash = self.index.hash(parent, name);
            let id = self.add(path, &Birth { parent, name, hash, data, acl, owner, stat })?;
            if let Some(Bulk { trail, .. }) = &mut self.bulk {
                trail.go(path, id, path.len() - name.len() - 1, parent);
            }
            self.count_loaded(path, data, &stat);
            return Ok(());
        }
        let Some((parent, name)) = self.find_parent(path) else {
            return Err(Impossible::NoNode(path.into()));
        };
        let birth = |hash| Birth { parent, name, hash, data, acl, owner, stat };
        self.insert(path, parent, name, birth)?;
        self.count_loaded(path, data, &stat);
        Ok(())
    }

    fn count_loaded(&mut self, path: &str, data: Option<&[u8]>, stat: &StatPersisted) {
        if let Some(sum) = &mut self.digest {
            *sum = sum.wrapping_add(ContentDigest::new(path, data).with(stat));
        }
    }

    /// From here on loaded znodes are found by where they hang, and get into the index together.
    /// That one came twice is told late, and not where.
    pub fn begin_bulk(&mut self) {
        let end = self.znodes.end();
        self.bulk = Some(Bulk { trail: Trail::default(), first: end, indexed: end });
    }

    /// Ends that: all znodes are in the index.
    ///
    /// # Errors
    /// [`Impossible`] when one came twice.
    pub fn end_bulk(&mut self) -> Result<(), Impossible> {
        self.index_loaded()?;
        if let Some(bulk) = self.bulk.take() {
            self.znodes.count_below(bulk.first);
        }
        Ok(())
    }

    /// The parent of a znode that is loaded in bulk, and the last name.
    fn find_loaded_parent<'a>(&mut self, path: &'a str) -> Result<(NodeId, &'a str), Impossible> {
        let missing = || Impossible::NoNode(path.into());
        let (above, name) = path.rsplit_once('/').ok_or_else(missing)?;
        if name.is_empty() {
            return Err(Impossible::NodeExists(path.into()));
        }
        let on_trail = self.bulk.as_ref().and_then(|bulk| bulk.trail.find(above));
        if let Some(parent) = on_trail {
            return Ok((parent, name));
        }
        self.index_loaded()?;
        Ok((self.find(above).ok_or_else(missing)?, name))
    }

    /// Puts the znodes that were loaded in bulk so far into the index.
    fn index_loaded(&mut self) -> Result<(), Impossible> {
        let Some(bulk) = &mut self.bulk else { return Ok(()) };
        let end = self.znodes.end();
        let loaded = std::mem::replace(&mut bulk.indexed, end)..end;
        self.index
            .insert_all(&self.znodes, loaded)
            .map_err(|twice| Impossible::NodeExists(self.path(twice)))
    }

    /// Ends loading: lists that no znode uses are forgotten.
    pub fn finish_load(&mut self) {
        self.acls.finish_load();
    }
}
