//! Durable bytes: the data directory in ZooKeeper's formats.
//!
//! Owns the transaction log, snapshot files, what a start makes of them, the epoch files, the
//! session key, and the lock that keeps the directory to one process. `docs/format.md` gives every
//! byte.
//!
//! It never interprets a transaction: the tree is on the other side of [`Replay`]. It starts no
//! thread and reads no clock. Every byte passes the [`Disk`] trait, so that tests can lose it.
//!
//! ```text
//! DataDirectory --recover(Replay)--> Recovered { TxnLog, .. }
//! TxnLog        append* commit       one write, one fdatasync per group
//! EntryWriter   append* commit       the same log by index, with a tail that can be cut
//! EntryLog      put entries          that log as it is read, before it is written too
//! RaftStateFile save                 term and vote of a member of an ensemble
//! SpareFiller   step                 zero-filled segments ahead of the log, on its caller's thread
//! SnapshotWriter write* finish       snapshot.<zxid>
//! purge                              what no start needs any more
//! ```

#![warn(clippy::indexing_slicing, missing_docs)]
// Tests cast numbers that they chose themselves.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

mod compression;
mod disk;
mod error;
pub mod files;
mod log;
mod recovery;
mod replay;
mod snapshot;
mod tools;

#[cfg(test)]
mod bit_flip_test;
#[cfg(test)]
mod crash_test;
#[cfg(test)]
mod file_matrix_test;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod ledger;
#[cfg(test)]
mod snapshot_test;
#[cfg(test)]
mod zookeeper_test;

#[cfg(test)]
pub(crate) use disk::sim;
#[cfg(test)]
pub(crate) use log::record::adler32;
#[cfg(test)]
pub(crate) use snapshot::reader::with_another_digest;

pub use compression::Compression;
pub use disk::{Access, Disk, DiskFile, Lock, LockAttempt, RealDisk, Stamp, ToolDisk};
pub use error::{DamageReason, Loss, SnapshotReason, StorageError, Then, WayOut};
pub use files::directory::{DataDirectory, DirectoryOptions, MOVE_ASIDE, logs_in};
pub use files::epoch::EpochFile;
pub use files::file_name::log_zxid;
pub use files::raft_state::{Members, Over, RaftState, RaftStateFile, SESSIONS_BEFORE_MAX};
pub use files::session_key::{SessionKey, SessionSecret, write_sessions_before_key};
pub use log::audit::{LogAudit, LogRecord, LogSummary, Remark, Writer};
pub use log::entry_log::{EntryLog, EntryWriter, LogEntry, Segments};
pub use log::logged::log_folder;
pub(crate) use log::record::TRAILER_LEN;
pub use log::record::{EntryKind, RECORD_MAX};
pub use log::spare::{FillStep, SpareFiller};
pub use log::txn_log::{LogOptions, TxnLog};
pub use recovery::examine::{Examined, LogEnd, examine, writers, zxid_at};
pub use recovery::loss::behind;
pub use recovery::way_out::{is_member, logs_reach_back, needs_no_log, was_member};
pub use recovery::whose::{Whose, record_of, refuse_unreadable_end, whose};
pub use recovery::{Recovered, RecoveryOptions, pass_over, recover, recover_member};
pub(crate) use replay::Nothing;
pub use replay::{Front, Reading, Refused, Replay, SnapshotId, SnapshotOrigin};
pub use snapshot::reader::{Loaded, load as load_snapshot};
pub use snapshot::writer::{CompleteSnapshot, SnapshotWriter};
pub(crate) use tools::aside::{begin_aside, move_history_aside};
pub use tools::aside::{move_data_aside, move_data_before_aside, move_snapshots_aside};
pub use tools::backup::{Backup, Target, backup, plan_backup, restore};
pub use tools::copy::{Copied, sha256};
pub use tools::cut::{CutPlan, plan_cut};
pub use tools::handover::{ReceivedSnapshot, SnapshotFile, discard_void_log, has_come};
pub use tools::purge::{Purged, purge, purge_behind, unsealed_bytes};
pub use tools::upload::UploadedSnapshot;
