//! The walk that turns the tree into a snapshot of one instant while it goes on changing.
//!
//! Znodes are written in the order of their numbers, a few at a time. A znode that is about to change and was not
//! written yet is written first, as it was when the walk began; its unwritten ancestors go before it, because a
//! snapshot's reader wants parents before children. Znodes that come into being after the beginning are left out.

use bytes::BufMut as _;
use jute::Record as _;
use jute::persist::SnapshotSession;

use super::acl::AclTable;
use super::session::Sessions;
use super::znode::{NodeId, Znodes};
use super::zxid::Zxid;

/// A walk that has begun.
#[derive(Debug)]
pub(super) struct Walk {
    /// What the snapshot will show.
    zxid: Zxid,
    digest: Option<i64>,
    next: u32,
    /// Znodes from here on came into being later.
    end: u32,
    /// One bit for each number below `end`: written, or not there at the beginning.
    written: Vec<u64>,
    out: Vec<u8>,
}

/// A piece of a snapshot, or its end.
#[derive(Debug)]
pub enum WalkStep {
    /// These bytes follow.
    Bytes(Vec<u8>),
    /// Everything was handed out.
    Finished {
        /// What the snapshot shows.
        zxid: Zxid,
        /// The sum over its znodes, where it is kept.
        digest: Option<i64>,
    },
}

impl Walk {
    /// Begins with what stands before the znodes: sessions and ACL lists.
    pub(super) fn new(
        zxid: Zxid,
        digest: Option<i64>,
        sessions: &Sessions,
        acls: &AclTable,
        znodes: &Znodes,
    ) -> Self {
        let mut out = Vec::new();
        put_count(&mut out, sessions.len());
        for (&id, &timeout_ms) in sessions {
            SnapshotSession { id: id.0, timeout_ms }.encode(&mut out);
        }
        put_count(&mut out, acls.iter().count());
        for (id, list) in acls.iter() {
            out.put_i64(id.stored());
            put_count(&mut out, list.len());
            for acl in list.iter() {
                acl.encode(&mut out);
            }
        }
        let end = znodes.end();
        Self { zxid, digest, next: 0, end, written: vec![0; end.div_ceil(u64::BITS) as usize], out }
    }

    /// Marks a number and tells whether it was marked before. Numbers behind the end always were.
    fn mark(&mut self, id: NodeId) -> bool {
        if id.0 >= self.end {
            return true;
        }
        let bit = 1_u64 << (id.0 % u64::BITS);
        self.written.get_mut((id.0 / u64::BITS) as usize).is_none_or(|word| {
            let before = *word & bit != 0;
            *word |= bit;
            before
        })
    }

    /// Writes a znode that is about to change or go, if it was not.
    pub(super) fn preserve(&mut self, znodes: &Znodes, id: NodeId) {
        let Some(node) = znodes.get(id) else { return };
        if self.mark(id) {
            return;
        }
        if id != NodeId::ROOT {
            self.preserve_ancestors(znodes, node.parent);
        }
        self.write(znodes, id);
    }

    /// Writes the unwritten among a znode and those above it, the highest first.
    fn preserve_ancestors(&mut self, znodes: &Znodes, parent: NodeId) {
        let mut unwritten = Vec::new();
        let mut at = parent;
        while !self.mark(at) {
            unwritten.push(at);
            match znodes.get(at) {
                Some(node) if at != NodeId::ROOT => at = node.parent,
                _ => break,
            }
        }
        for id in unwritten.into_iter().rev() {
            self.write(znodes, id);
        }
    }

    /// Leaves out a znode that comes into being now.
    pub(super) fn leave_out(&mut self, id: NodeId) {
        self.mark(id);
    }

    fn write(&mut self, znodes: &Znodes, id: NodeId) {
        let Some(node) = znodes.get(id) else { return };
        let mut path = String::new();
        znodes.write_path(id, &mut path);
        put_count(&mut self.out, path.len());
        self.out.put_slice(path.as_bytes());
        jute::persist::SnapshotNode {
            data: node.data().map(Into::into),
            acl: node.acl.stored(),
            stat: znodes.stat_persisted(id),
        }
        .encode(&mut self.out);
    }

    /// Writes up to `nodes` further znodes.
    pub(super) fn advance(&mut self, znodes: &Znodes, nodes: u32) {
        for _ in 0..nodes {
            if self.next >= self.end {
                return;
            }
            self.preserve(znodes, NodeId(self.next));
            self.next += 1;
        }
    }

    pub(super) const fn is_finished(&self) -> bool {
        self.next >= self.end
    }

    /// Bytes that wait to be taken.
    pub(super) const fn pending(&self) -> usize {
        self.out.len()
    }

    /// Takes what was written so far.
    pub(super) fn take(&mut self) -> WalkStep {
        if self.out.is_empty() && self.is_finished() {
            WalkStep::Finished { zxid: self.zxid, digest: self.digest }
        } else {
            WalkStep::Bytes(std::mem::take(&mut self.out))
        }
    }
}

/// Counts of a snapshot are 4 bytes.
fn put_count(out: &mut Vec<u8>, count: usize) {
    out.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
}
