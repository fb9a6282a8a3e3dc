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
//! SpareFiller   step                 zero-filled segments ahead of the log, on a thread of the caller
//! SnapshotWriter write* finish       snapshot.<zxid>
//! purge                              what no start needs any more
//! ```

#![warn(clippy::indexing_slicing, missing_docs)]
// Tests cast numbers that they chose themselves.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation))]

mod aside;
mod atomic_file;
mod backup;
mod checked_text;
mod compression;
mod copy;
mod cut;
mod directory;
mod disk;
mod entry_log;
mod epoch;
mod error;
mod examine;
mod file_name;
mod handover;
mod log_audit;
mod log_scan;
mod logged;
mod loss;
mod purge;
mod raft_state;
mod record;
mod recovery;
mod replay;
pub mod seal;
mod search;
mod segment;
mod segment_reader;
mod session_key;
mod snapshot_content;
mod snapshot_reader;
mod snapshot_writer;
mod spare;
mod tail;
mod txn_log;
mod unsynced;
mod upload;
mod way_out;
mod whose;
mod window;

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
pub(crate) use record::adler32;
#[cfg(test)]
pub(crate) use snapshot_reader::with_another_digest;

pub(crate) use aside::{begin_aside, move_history_aside};
pub use aside::{move_data_aside, move_data_before_aside, move_snapshots_aside};
pub use backup::{Backup, Target, backup, plan_backup, restore};
pub use compression::Compression;
pub use copy::{Copied, sha256};
pub use cut::{CutPlan, plan_cut};
pub use directory::{DataDirectory, DirectoryOptions, MOVE_ASIDE, logs_in};
pub use disk::{Access, Disk, DiskFile, Lock, LockAttempt, RealDisk};
pub use entry_log::{EntryLog, EntryWriter, LogEntry, Segments};
pub use epoch::EpochFile;
pub use error::{DamageReason, SnapshotReason, StorageError, Then, WayOut};
pub use examine::{Examined, LogEnd, examine, writers, zxid_at};
pub use file_name::log_zxid;
pub use handover::{ReceivedSnapshot, SnapshotFile, discard_void_log, has_come};
pub use log_audit::{LogAudit, LogRecord, LogSummary, Remark, Writer};
pub use loss::{Loss, behind};
pub use purge::{Purged, purge, purge_behind, unsealed_bytes};
pub use raft_state::{Members, Over, RaftState, RaftStateFile, SESSIONS_BEFORE_MAX};
pub(crate) use record::TRAILER_LEN;
pub use record::{EntryKind, RECORD_MAX};
pub use recovery::{Recovered, RecoveryOptions, pass_over, recover, recover_member};
pub(crate) use replay::Nothing;
pub use replay::{Reading, Refused, Replay, SnapshotId, SnapshotOrigin};
pub use session_key::{SessionKey, SessionSecret, write_sessions_before_key};
pub use snapshot_reader::{Loaded, load as load_snapshot};
pub use snapshot_writer::{CompleteSnapshot, SnapshotWriter};
pub use spare::{FillStep, SpareFiller};
pub use txn_log::{LogOptions, TxnLog};
pub use upload::UploadedSnapshot;
pub use way_out::{is_member, logs_reach_back, was_member};
pub use whose::{Whose, record_of, refuse_unreadable_end, whose};
