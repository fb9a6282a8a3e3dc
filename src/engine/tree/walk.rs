//! The walk that turns the tree into a snapshot of one instant while it goes on changing.
//!
//! Znodes are written in the order of their numbers, a few at a time. A znode that is about to
//! change and was not written yet is written first, as it was when the walk began; its unwritten
//! ancestors go before it, because a snapshot's reader wants parents before children. Znodes that
//! come into being after the beginning are left out. What is written waits until somebody takes it;
//! a walk for which too much waits is over.

use bytes::BufMut as _;
use jute::Record as _;
use jute::persist::SnapshotSession;

use super::znode::{NodeId, Znodes};
use crate::engine::access::acl::{AclId, AclList, AclTable};
use crate::engine::session::{SessionId, Sessions};
use crate::engine::zxid::Zxid;

/// Bytes of what changed before the walk came to it, that wait to be taken: a walk that has more is
/// late, and over. Whoever takes them, a disk, is too slow for what changes, and neither the
/// changes nor memory are there to make up for it.
pub(in crate::engine) const LATE: usize = 64 << 20;

/// Bytes of what stands before the znodes that are written at once, and of one list more: some tens
/// of microseconds.
const HEAD_A_STEP: usize = 64 << 10;

/// What stands before the znodes, as it was when the walk began: 16 bytes a session and as many a
/// list, which is shared.
#[derive(Debug)]
struct Head {
    sessions: std::vec::IntoIter<(SessionId, i32)>,
    lists: std::vec::IntoIter<(AclId, AclList)>,
    /// Written and not taken. Znodes wait elsewhere until all of the head is taken.
    out: Vec<u8>,
}

impl Head {
    fn new(sessions: &Sessions, acls: &AclTable) -> Self {
        let sessions: Vec<_> = sessions.iter().map(|(id, timeout)| (*id, *timeout)).collect();
        let lists: Vec<_> = acls.iter().map(|(id, list)| (id, list.clone())).collect();
        let mut out = Vec::new();
        put_count(&mut out, sessions.len());
        if sessions.is_empty() {
            put_count(&mut out, lists.len());
        }
        Self { sessions: sessions.into_iter(), lists: lists.into_iter(), out }
    }

    /// Writes some more.
    fn advance(&mut self) {
        let enough = self.out.len().saturating_add(HEAD_A_STEP);
        while self.out.len() < enough {
            if let Some((id, timeout_ms)) = self.sessions.next() {
                SnapshotSession { id: id.0, timeout_ms }.encode(&mut self.out);
                if self.sessions.len() == 0 {
                    put_count(&mut self.out, self.lists.len());
                }
            } else if let Some((id, list)) = self.lists.next() {
                self.out.put_i64(id.stored());
                put_count(&mut self.out, list.len());
                for acl in list.iter() {
                    acl.encode(&mut self.out);
                }
            } else {
                return;
            }
        }
    }

    /// Whether all of it is written.
    fn is_written(&self) -> bool {
        self.sessions.len() == 0 && self.lists.len() == 0
    }
}

/// A walk that has begun.
#[derive(Debug)]
pub(in crate::engine) struct Walk {
    /// What the snapshot will show.
    zxid: Zxid,
    digest: Option<i64>,
    next: u32,
    /// Znodes from here on came into being later.
    end: u32,
    /// One bit for each number below `end`: written, or not there at the beginning.
    written: Vec<u64>,
    /// Until it is taken.
    head: Option<Head>,
    out: Vec<u8>,
    /// A change came while so much waited, and what it changed is not written: the walk shows no
    /// instant any more.
    is_late: bool,
    /// Znodes that are still to be written.
    missing: usize,
}

/// A piece of a snapshot, or its end.
#[derive(Debug)]
pub enum WalkStep {
    /// These bytes follow.
    Bytes(Vec<u8>),
    /// These znodes follow, whole ones. Whoever writes them sums them up: the sum over all of them
    /// is compared at the end.
    Znodes(Vec<u8>),
    /// Everything was handed out.
    Finished {
        /// What the snapshot shows.
        zxid: Zxid,
        /// The kept sum over its znodes, where there is one.
        digest: Option<i64>,
    },
    /// Everything was handed out, and so many znodes are not among it: a defect, and no snapshot.
    Lacking(usize),
}

/// A walk that is over because it was late.
#[derive(Debug)]
pub struct LateWalk(
    #[cfg_attr(not(test), expect(dead_code, reason = "only to be dropped"))]
    pub(in crate::engine)  Walk,
);

impl Walk {
    /// Begins, and keeps what stands before the znodes: sessions and ACL lists.
    pub(in crate::engine) fn new(
        zxid: Zxid,
        digest: Option<i64>,
        sessions: &Sessions,
        acls: &AclTable,
        znodes: &Znodes,
    ) -> Self {
        let head = Some(Head::new(sessions, acls));
        let end = znodes.end();
        let written = vec![0; end.div_ceil(u64::BITS) as usize];
        let missing = znodes.count();
        let out = Vec::new();
        Self { zxid, digest, next: 0, end, written, head, out, is_late: false, missing }
    }

    /// Whether a number is marked. Numbers after the end always are.
    fn is_marked(&self, id: NodeId) -> bool {
        let word = self.written.get((id.0 / u64::BITS) as usize);
        id.0 >= self.end || word.is_none_or(|word| word >> (id.0 % u64::BITS) & 1 != 0)
    }

    fn mark(&mut self, id: NodeId) {
        if id.0 < self.end
            && let Some(word) = self.written.get_mut((id.0 / u64::BITS) as usize)
        {
            *word |= 1 << (id.0 % u64::BITS);
        }
    }

    /// Writes a znode that is about to change or go, if it was not. Where too much waits the walk
    /// is late from here on.
    pub(super) fn preserve(&mut self, znodes: &Znodes, id: NodeId) {
        if !self.is_late {
            self.is_late = !self.reach(znodes, id, LATE);
        }
    }

    /// Writes the unwritten among a znode and those above it, the highest first, while no more than
    /// `most` bytes wait. Whether these were all.
    fn reach(&mut self, znodes: &Znodes, id: NodeId, most: usize) -> bool {
        let mut unwritten = Vec::new();
        let mut at = id;
        while !self.is_marked(at)
            && let Some(node) = znodes.get(at)
        {
            unwritten.push(at);
            if at == NodeId::ROOT {
                break;
            }
            at = node.parent;
        }
        #[cfg(test)]
        super::znode::HOPS.set(super::znode::HOPS.get() + unwritten.len());
        // Each path is that of the znode above it and a name.
        let mut path = String::new();
        if at != NodeId::ROOT && !unwritten.is_empty() {
            znodes.write_path(at, &mut path);
        }
        for id in unwritten.into_iter().rev() {
            if self.out.len() > most {
                return false;
            }
            if let Some(node) = znodes.get(id).filter(|_| id != NodeId::ROOT) {
                path.push('/');
                path.push_str(node.name());
            }
            self.mark(id);
            self.write(znodes, id, &path);
        }
        true
    }

    /// Leaves out a znode that comes into being now.
    pub(super) fn leave_out(&mut self, id: NodeId) {
        self.mark(id);
    }

    fn write(&mut self, znodes: &Znodes, id: NodeId, path: &str) {
        let Some(node) = znodes.get(id) else { return };
        put_count(&mut self.out, path.len());
        self.out.put_slice(path.as_bytes());
        jute::persist::SnapshotNode {
            data: node.data().map(Into::into),
            acl: node.acl.stored(),
            stat: znodes.stat_persisted(id),
        }
        .encode(&mut self.out);
        self.missing = self.missing.saturating_sub(1);
    }

    /// Writes some of what stands before the znodes, or up to `nodes` further znodes, until
    /// `enough` bytes wait.
    pub(in crate::engine) fn advance(&mut self, znodes: &Znodes, nodes: u32, enough: usize) {
        if let Some(head) = &mut self.head {
            head.advance();
            return;
        }
        for _ in 0..nodes {
            if self.next >= self.end || self.out.len() > enough {
                return;
            }
            if !self.reach(znodes, NodeId(self.next), enough) {
                return;
            }
            self.next += 1;
        }
    }

    /// Whether the walk is over because too much waited to be taken.
    pub(in crate::engine) const fn is_late(&self) -> bool {
        self.is_late
    }

    /// Whether all that is left is to be taken.
    pub(in crate::engine) fn is_finished(&self) -> bool {
        self.head.is_none() && self.next >= self.end
    }

    /// Whether what waits is to be taken, however little: it is the end, or what stands before the
    /// znodes has ended.
    pub(super) fn is_to_be_taken(&self) -> bool {
        self.head.as_ref().map_or_else(|| self.is_finished(), Head::is_written)
    }

    /// Bytes that can be taken.
    pub(in crate::engine) fn pending(&self) -> usize {
        self.head.as_ref().map_or(self.out.len(), |head| head.out.len())
    }

    /// Bytes of znodes that wait to be taken.
    #[cfg(test)]
    pub(in crate::engine) const fn waiting(&self) -> usize {
        self.out.len()
    }

    /// Takes what was written so far.
    pub(in crate::engine) fn take(&mut self) -> WalkStep {
        if let Some(head) = &mut self.head {
            let bytes = std::mem::take(&mut head.out);
            if head.is_written() {
                self.head = None;
            }
            return WalkStep::Bytes(bytes);
        }
        if !self.out.is_empty() || !self.is_finished() {
            let znodes = std::mem::take(&mut self.out);
            if self.digest.is_some() { WalkStep::Znodes(znodes) } else { WalkStep::Bytes(znodes) }
        } else if self.missing > 0 {
            WalkStep::Lacking(self.missing)
        } else {
            WalkStep::Finished { zxid: self.zxid, digest: self.digest }
        }
    }
}

/// Counts of a snapshot are 4 bytes.
fn put_count(out: &mut Vec<u8>, count: usize) {
    out.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
}
