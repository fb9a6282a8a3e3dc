//! An ensemble orders by Raft. Here, and nowhere else, is what knows the crate of that name.
//!
//! ```text
//! peers --step--> Member --turn--> Write --> DiskWriter --persisted--> Member --> Transport
//! --> peers
//! clients --submit--> leading: Sequencer --propose--> ...   committed --> applied, answered
//! ```
//!
//! Everything here is driven by its caller: there is no thread, no socket and no clock. One call to
//! [`Member::turn`] does what is due, in the only order in which it may be done. What it wants on
//! the disk its caller takes from it, and gives back when it is there.

mod applying;
mod configuration;
mod consensus;
mod deciding;
mod disk;
mod election;
#[cfg(test)]
mod fixture;
mod following;
mod frame;
mod ground;
mod here;
mod hint;
mod leading;
mod library_log;
mod list_change;
mod lists;
mod log_store;
mod member;
mod membership;
mod progress;
mod promised;
mod read_index;
mod read_only;
mod requests;
mod room;
mod start;
mod told;
mod trees;
mod turns;
mod unsynced;

pub use ::raft::SnapshotStatus;
pub use ::raft::eraftpb::Message as PeerMessage;
pub use configuration::{KnownMembers, MemberChange};
pub use consensus::Consensus;
pub use disk::{DiskWriter, Write, Written};
pub use frame::{FRAME_HEAD_LEN, FRAME_MAX, FrameError, Said, parse_head, parse_said, put_said};
pub use ground::{
    Before, founder_knows, is_bare_founding, of_line, take_another_seat, take_seat_instead,
};
pub use member::{Member, Transport};
pub(super) use membership::Prospect;
pub use progress::{Appended, Peer, PeerLog};
pub use promised::Promised;
pub use requests::Requests;
pub use start::{Ensemble, List, Started};

use super::standalone::OrderError;
use crate::engine::zxid::Zxid;
use crate::message::MessageId;
use crate::storage::{MOVE_ASIDE, StorageError};

/// The zxid of the snapshot that a message tells of.
#[must_use]
pub fn snapshot_zxid(message: &PeerMessage) -> Option<i64> {
    log_store::zxid_of(message.get_snapshot())
}

/// The first life of a server as a member, of those that an ensemble is founded with.
pub const FIRST_LIFE: u64 = 1;

/// The id of a server as a member. The low byte is the server; what is above is its life, and is
/// never 0: a server whose disk was emptied is another member. Founders have life 1; every other
/// life is the index of the entry that gave the seat.
#[must_use]
pub const fn member_id(server: u8, life: u64) -> u64 {
    life << 8 | server as u64
}

/// Which life of its server a member is.
#[must_use]
const fn life_of(member: u64) -> u64 {
    member >> 8
}

/// The server that a member is a life of; 0 for no member, too.
#[must_use]
pub const fn server_of(member: u64) -> u8 {
    (member & 0xff) as u8
}

/// Why a member of an ensemble had to stop. The process ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnsembleError {
    /// The disk refuses, or what it holds is not what it has to be.
    #[error(
        "the member's data directory cannot be used; writes that were not acknowledged may or may \
         not be kept"
    )]
    Storage(#[from] StorageError),
    /// A transaction cannot be applied.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// An entry of the log is not what this version writes.
    #[error(
        "this version does not know entry {index} of the replicated log; run the same version \
         everywhere"
    )]
    Entry {
        /// Its place.
        index: u64,
    },
    /// What a majority had is not on this disk any more.
    #[error(
        "the log ends at entry {last}, but entry {commit} was committed: acknowledged transactions \
         are missing. If the newest files are on a disk that is not mounted, mount it. Never \
         restore older files. Otherwise, while a majority of the others is running, run \
         `{command}` and start the server: it loads everything from them"
    )]
    Lost {
        /// The last entry that is there.
        last: u64,
        /// One that was known to be final.
        commit: u64,
        /// What an operator types to move all aside.
        command: String,
    },
    /// What an ensemble was to be founded on is not on this disk any more.
    #[error(
        "this server has promised to found an ensemble on what its data directory held ({index} \
         entries, including the one that the ensemble begins with), but the log ends at entry \
         {last}: files are missing. Nothing was acknowledged by that ensemble. Bring the missing \
         files back: a disk may not be mounted. Only if they are lost, and only if other servers \
         have as much, run `{command}` and start the servers: they found an ensemble on the newest \
         data that they have. Do not start it with an empty directory as long as what was here may \
         be newer than what the others have"
    )]
    BaseLost {
        /// The last entry that is there.
        last: u64,
        /// The entry that the ensemble begins with.
        index: u64,
        /// What makes the directory one of no ensemble.
        command: String,
    },
    /// The directory belongs to another server.
    #[error(
        "the data directory belongs to server {found}, but myid says {expected}; check myid and \
         dataDir"
    )]
    Foreign {
        /// Whose it is.
        found: u8,
        /// Whose it should be.
        expected: u8,
    },
    /// The directory is no member's.
    #[error("the data directory belongs to no ensemble yet; this is a bug, please report it")]
    NotBegun,
    /// The member was taken out of the ensemble.
    #[error(
        "the member that this directory belongs to, life {life} of this server, was removed from \
         the ensemble: the server has rejoined it with another directory, or was no longer listed. \
         In the second case, if it is listed again, it joins as a new member when you start it, \
         and what the directory holds is moved aside"
    )]
    Replaced {
        /// Which life it is of.
        life: u64,
    },
    /// The others have heard more of this member than the directory holds.
    #[error(transparent)]
    OlderCopy(StorageError),
    /// Another process runs as this server.
    #[error(
        "another process now runs as this server of the ensemble: it was started while this one \
         did not answer. The directory that ran last is the only valid one. To run the server \
         here, stop the other process first; then start with that directory, or, while a majority \
         of the others is running, {aside}, and start again",
        aside = MOVE_ASIDE
    )]
    ProcessReplaced,
    /// It has loaded the leader's tree, and its tree is wrong again.
    #[error(
        "the tree of this server differs from the others' again: at {zxid} its digest is {}, and \
         theirs is {expected:#x}. It was already wrong at {before}, and the server has loaded the \
         leader's tree since then: the memory or the disk of this machine cannot be trusted",
        found.map_or_else(|| "none".to_owned(), |found| format!("{found:#x}"))
    )]
    WrongTreeAgain {
        /// After which transaction.
        zxid: Zxid,
        /// The digest of its tree there, if its znodes have one.
        found: Option<i64>,
        /// That of the others'.
        expected: i64,
        /// Where it was found for the first time.
        before: Zxid,
    },
    /// Whatever writes the log ended without a word.
    #[error("the thread that writes the log is gone; this is a bug, please report it")]
    WriterLost,
    /// Raft has other members than it was told.
    #[error(
        "the members that result from entry {index} differ from those that Raft has; this is a \
         bug, please report it"
    )]
    Members {
        /// The entry.
        index: u64,
    },
    /// Raft found a breach of what it is promised.
    #[error("{0}; this is a bug, please report it")]
    Raft(#[from] ::raft::Error),
}

impl EnsembleError {
    /// The message that it is.
    #[must_use]
    pub const fn id(&self) -> MessageId {
        match self {
            Self::Storage(error) => error.id(),
            Self::Order(error) => error.id(),
            Self::Entry { .. } => MessageId::UNKNOWN_ENTRY,
            Self::Lost { .. } => MessageId::FINAL_ENTRIES_LOST,
            Self::BaseLost { .. } => MessageId::BASE_LOST,
            Self::Foreign { .. } => MessageId::FOREIGN_DIRECTORY,
            Self::NotBegun => MessageId::NO_ENSEMBLE_YET,
            Self::Replaced { .. } => MessageId::DIRECTORY_REPLACED,
            Self::OlderCopy(error) => error.id(),
            Self::ProcessReplaced => MessageId::PROCESS_REPLACED,
            Self::WrongTreeAgain { .. } => MessageId::TREE_WRONG_AGAIN,
            Self::WriterLost => MessageId::WRITER_LOST,
            Self::Members { .. } | Self::Raft(_) => MessageId::RAFT_BROKEN,
        }
    }
}
