//! Whether the disk of the log has room, and what still goes when it has not.
//!
//! A log that cannot be written ends the process, so writes that grow the tree are refused before
//! that. What makes the tree no larger goes on, and so do sessions: who wants to delete something
//! needs one. Each writes to the log all the same, so when half of the reserve is gone only what
//! comes to an end by itself goes on: deletes, the end of sessions.

use jute::ErrorCode;
use jute::protocol::{MultiOp, Request};

use crate::engine::database::Database;
use crate::engine::decide::request::Work;
use crate::engine::decide::sequencer::Prepared;
use crate::engine::time::Monotonic;
use crate::message::MessageId;

/// Between two looks at the disk.
const LOOK_EVERY_MS: u64 = 100;

/// The disk of the log as it was when it was last looked at.
#[derive(Debug, Default)]
pub(super) struct DiskRoom {
    looked: Option<Monotonic>,
    /// Bytes logged since.
    logged: u64,
    room: DiskSpace,
}

/// How much there is, most first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskSpace {
    /// At least the reserve.
    #[default]
    Enough,
    /// Less than the reserve.
    Scarce,
    /// Less than half of it.
    Least,
    /// Less than a quarter: what a member of an ensemble has left for its promises.
    Full,
    /// Less than a sixteenth.
    Nothing,
}

/// Each with the part of the reserve below which it is that, worst first.
const ROOMS: [(DiskSpace, u64); 4] =
    [(DiskSpace::Nothing, 16), (DiskSpace::Full, 4), (DiskSpace::Least, 2), (DiskSpace::Scarce, 1)];

impl DiskRoom {
    /// Looks at the disk from time to time, and sooner if much was logged: `free` is what it has,
    /// unless it does not say.
    pub(super) fn look(
        &mut self,
        reserve: u64,
        now: Monotonic,
        free: impl FnOnce() -> Option<u64>,
    ) {
        let is_fresh = self.looked.is_some_and(|looked| now.since(looked) < LOOK_EVERY_MS);
        if is_fresh && self.logged < reserve / 4 {
            return;
        }
        self.looked = Some(now);
        self.logged = 0;
        // A disk that does not say is told by its first failing write.
        let Some(free) = free() else { return };
        // To get better it takes somewhat more, so that it does not come and go.
        let is_it = |room: DiskSpace, part: u64| {
            let more = if self.room >= room { reserve / 8 } else { 0 };
            free < (reserve / part).saturating_add(more)
        };
        let found = ROOMS.into_iter().find(|(room, part)| is_it(*room, *part));
        let room = found.map_or(DiskSpace::Enough, |(room, _)| room);
        let before = std::mem::replace(&mut self.room, room);
        // What is worse has no meaning for a server that is alone.
        if room.min(DiskSpace::Least) == before.min(DiskSpace::Least) {
            return;
        }
        match room {
            DiskSpace::Enough => {
                tracing::info!(free, reserve, "the disk of the log has enough free space again")
            }
            DiskSpace::Scarce => tracing::error!(
                id = %MessageId::DISK_NEARLY_FULL,
                free,
                reserve,
                "the disk of the log is nearly full: writes that need space are refused until \
                 there is enough again"
            ),
            DiskSpace::Least | DiskSpace::Full | DiskSpace::Nothing => tracing::error!(
                id = %MessageId::DISK_ALL_BUT_FULL,
                free,
                reserve,
                "the disk of the log is all but full: everything except deletes, closing sessions \
                 and reads is refused"
            ),
        }
    }

    pub(super) const fn room(&self) -> DiskSpace {
        self.room
    }

    /// Counts what was logged.
    pub(super) const fn count(&mut self, bytes: u64) {
        self.logged = self.logged.saturating_add(bytes);
    }
}

impl DiskSpace {
    /// Whether a session can be opened.
    #[must_use]
    pub const fn takes_sessions(self) -> bool {
        matches!(self, Self::Enough | Self::Scarce)
    }

    /// What becomes of work that there is no room for.
    pub(super) fn refuse(self, database: &Database, work: &Work) -> Option<Prepared> {
        let goes_on = match self {
            Self::Enough => true,
            Self::Scarce => needs_none(database, work),
            Self::Least | Self::Full | Self::Nothing => comes_to_an_end(work),
        };
        match work {
            _ if goes_on => None,
            // A handshake has no word for it; the client tries again, elsewhere if it can.
            Work::Open { .. } => Some(Prepared::Close),
            _ => Some(Prepared::Refused(ErrorCode::OperationTimeout)),
        }
    }
}

/// Whether nobody can do this for ever: reads write nothing, and what was deleted is not there
/// again.
fn comes_to_an_end(work: &Work) -> bool {
    match work {
        Work::Open { .. } => false,
        Work::Attach { .. } | Work::Throttled => true,
        Work::Request(Request::Multi(ops))
        | Work::OfLocal(Request::Multi(ops))
        | Work::Upgrade { request: Request::Multi(ops), .. } => {
            ops.iter().any(|op| matches!(op, MultiOp::Delete(_)))
                && ops.iter().all(|op| matches!(op, MultiOp::Delete(_) | MultiOp::Check(_)))
        }
        Work::Request(request) | Work::OfLocal(request) | Work::Upgrade { request, .. } => {
            !matches!(
                request,
                Request::Create(_)
                    | Request::Create2(_)
                    | Request::CreateContainer(_)
                    | Request::CreateTtl(_)
                    | Request::SetAcl(_)
                    | Request::SetData(_)
            )
        }
    }
}

/// Whether the work writes nothing, or leaves the tree no larger than it was.
fn needs_none(database: &Database, work: &Work) -> bool {
    let request = match work {
        Work::Request(request) | Work::OfLocal(request) | Work::Upgrade { request, .. } => request,
        Work::Open { .. } | Work::Attach { .. } | Work::Throttled => return true,
    };
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
