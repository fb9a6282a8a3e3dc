//! Whether the disk of the log has room, and what still goes when it has not.
//!
//! A log that cannot be written ends the process, so writes that grow the tree are refused before that. What makes the
//! tree smaller goes on, and so do sessions: who wants to delete something needs one.

use jute::protocol::{MultiOp, Request};

use crate::engine::database::Database;
use crate::engine::request::Work;
use crate::engine::time::Monotonic;
use crate::storage::TxnLog;

/// Between two looks at the disk.
const LOOK_EVERY_MS: u64 = 100;

/// The disk of the log as it was when it was last looked at.
#[derive(Debug, Default)]
pub(super) struct DiskRoom {
    looked: Option<Monotonic>,
    /// Bytes logged since.
    logged: u64,
    is_scarce: bool,
}

impl DiskRoom {
    /// Looks at the disk from time to time, and sooner if much was logged.
    pub(super) fn look(&mut self, log: &TxnLog, now: Monotonic) {
        let reserve = log.reserve();
        let is_fresh = self.looked.is_some_and(|looked| now.since(looked) < LOOK_EVERY_MS);
        if is_fresh && self.logged < reserve / 4 {
            return;
        }
        self.looked = Some(now);
        self.logged = 0;
        // A disk that does not say is told by its first failing write.
        let Ok(free) = log.free_space() else { return };
        if !self.is_scarce && free < reserve {
            self.is_scarce = true;
            tracing::error!(
                free,
                reserve,
                "the disk of the log is nearly full: writes that need room are refused until there is more"
            );
        }
        // Somewhat more, so that it does not come and go.
        if self.is_scarce && free >= reserve.saturating_add(reserve / 8) {
            self.is_scarce = false;
            tracing::info!(free, reserve, "the disk of the log has room again");
        }
    }

    /// Counts what was logged.
    pub(super) const fn count(&mut self, bytes: u64) {
        self.logged = self.logged.saturating_add(bytes);
    }

    /// Whether only what [`needs_none`] may be logged.
    pub(super) const fn is_scarce(&self) -> bool {
        self.is_scarce
    }
}

/// Whether the work writes nothing, or leaves the tree no larger than it was.
pub(super) fn needs_none(database: &Database, work: &Work) -> bool {
    let Work::Request(request) = work else { return true };
    let shrinks = |path: &str, data: Option<&[u8]>| {
        let tree = database.tree();
        let len = tree.find(path).map(|znode| tree.stat(znode).data_length);
        // Of a znode that is not there, the error is the right one.
        len.is_none_or(|len| data.map_or(0, <[u8]>::len) as u64 <= u64::try_from(len).unwrap_or(0))
    };
    match request {
        Request::SetData(set) => shrinks(&set.path, set.data.as_deref()),
        Request::Multi(ops) => ops.iter().all(|op| match op {
            MultiOp::Delete(_) | MultiOp::Check(_) => true,
            MultiOp::SetData(set) => shrinks(&set.path, set.data.as_deref()),
            MultiOp::Create(_)
            | MultiOp::Create2(_)
            | MultiOp::CreateContainer(_)
            | MultiOp::CreateTtl(_) => false,
        }),
        Request::Create(_)
        | Request::Create2(_)
        | Request::CreateContainer(_)
        | Request::CreateTtl(_)
        | Request::SetAcl(_) => false,
        _ => true,
    }
}
