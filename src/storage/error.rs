//! Why storage fails, in words for the operator: what, which file, where in it, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use jute::DecodeError;

/// Why an operation on the data directory failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}; check the disk, its free space and the file's owner", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A folder is missing and must not be created.
    #[error("{} does not exist and zookeeper.datadir.autocreate is false; create it, or correct dataDir and dataLogDir", path.display())]
    FolderMissing {
        /// The folder.
        path: PathBuf,
    },
    /// Another process uses the directory.
    #[error("{} is held by another rookeeper, process {holder}; one process per directory: stop that one, or use another dataDir", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The holder's process id, as it wrote it down.
        holder: String,
    },
    /// A log in the folder of snapshots, or a snapshot in the folder of logs.
    #[error("{} does not belong in that folder: dataDir and dataLogDir differ, snapshots live in the first and logs in the second; check zoo.cfg, then move the files", path.display())]
    Misplaced {
        /// The first such file.
        path: PathBuf,
    },
    /// The file does not begin like a log or a snapshot.
    #[error("{} does not begin with a valid {expected} header; restore the file from a backup or move it away if you know that nothing of it is needed", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// `transaction log` or `snapshot`.
        expected: &'static str,
    },
    /// Acknowledged transactions cannot be read.
    #[error("{} is damaged at offset {offset}: {reason}. The last good transaction before it is {}. Nothing was changed. Restore the file from a backup; or, to start with what is before the damage and lose every transaction from there on: truncate -s {offset} {}, and move the later log files away", path.display(), Zxid(*last_good), path.display())]
    Damage {
        /// The log file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        reason: DamageReason,
        /// The zxid of the last record before it.
        last_good: i64,
    },
    /// Every snapshot that looks whole turned out not to be.
    #[error("none of the {tried} snapshots in {} can be read; the newest: {newest}. Restore one from a backup; starting without one would lose the tree", folder.display())]
    NoReadableSnapshot {
        /// The folder of snapshots.
        folder: PathBuf,
        /// How many were tried.
        tried: usize,
        /// What is wrong with the newest.
        newest: Box<Self>,
    },
    /// There are transactions, but no snapshot that they build on.
    #[error("no valid snapshot in {}, but {} holds transactions; restore a snapshot, or set snapshot.trust.empty=true if these logs reach back to the beginning", folder.display(), log.display())]
    LogWithoutSnapshot {
        /// The folder of snapshots.
        folder: PathBuf,
        /// The first log with a transaction.
        log: PathBuf,
    },
    /// A snapshot is not what its format says.
    #[error("{} is not a valid snapshot at offset {offset}: {reason}; restore it from a backup, or move it away to use an older one", path.display())]
    Snapshot {
        /// The snapshot.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        reason: SnapshotReason,
    },
    /// The tree refused what a file holds.
    #[error("{}, offset {offset} (zxid {}): {reason}; the file does not fit the state before it: restore the data directory from a backup", path.display(), Zxid(*zxid))]
    Refused {
        /// The log or snapshot.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// The zxid of the record, or of the snapshot.
        zxid: i64,
        /// What the tree said.
        reason: String,
    },
    /// An earlier write or sync failed; what is on disk is not known any more.
    #[error(
        "the transaction log failed before and takes nothing more; restart the server, recovery finds out what is on disk"
    )]
    Poisoned,
    /// Transactions came out of order; nothing was written.
    #[error("transaction {} cannot follow {} in the log; this is a defect of the server, the log is unharmed", Zxid(*zxid), Zxid(*last))]
    OutOfOrder {
        /// The last zxid in the log.
        last: i64,
        /// The zxid that came.
        zxid: i64,
    },
    /// A group of transactions is larger than its records can say; nothing was written.
    #[error("a group of {len} bytes is beyond the log's limit of 1 GiB; commit more often")]
    GroupTooLarge {
        /// Its length.
        len: usize,
    },
    /// An epoch file does not hold a number.
    #[error("{} must hold one decimal number; write the epoch of the last transaction into it, or restore it", path.display())]
    Epoch {
        /// The file.
        path: PathBuf,
    },
    /// `rookeeper.sealed` does not hold a zxid.
    #[error("{} must hold one zxid, as in 0x50000000a; run rookeeper data seal again", path.display())]
    Sealed {
        /// The file.
        path: PathBuf,
    },
    /// The session key has not 32 bytes.
    #[error("{} has {len} bytes and must have 32; restore it, or remove it and let clients open new sessions", path.display())]
    SessionKey {
        /// The file.
        path: PathBuf,
        /// Its length.
        len: u64,
    },
}

/// What is wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageReason {
    /// Later records had been synced after the unreadable one.
    #[error("the record is unreadable, but transaction {} behind it, at offset {offset}, was written in a later group", Zxid(*zxid))]
    LaterGroup {
        /// Where the later record is.
        offset: u64,
        /// Its zxid.
        zxid: i64,
    },
    /// A later segment exists, which is only begun behind a synced end.
    #[error("the record is unreadable, but a later log file exists")]
    LaterSegment,
    /// A record of ZooKeeper fails its checksum.
    #[error("the record fails its checksum (ZooKeeper refuses it too)")]
    Checksum,
    /// A length that is none.
    #[error("the record has the impossible length {0}")]
    Length(i32),
    /// The checksum is right but the payload is no transaction.
    #[error("the record is whole but is no transaction: {0}; perhaps a newer version wrote it")]
    Decode(DecodeError),
    /// The checksum is right but the trailer is not one of this version.
    #[error(
        "the record is whole but does not end in a trailer that this version knows; perhaps a newer version wrote it"
    )]
    Trailer,
    /// Transactions are missing.
    #[error("transaction {} follows, so transactions are missing", Zxid(*found))]
    ZxidGap {
        /// The zxid that follows.
        found: i64,
    },
    /// Log indexes are missing, so transactions or whole files are.
    #[error("log index {found} follows where {expected} is due, so transactions are missing")]
    IndexGap {
        /// The index that is due.
        expected: u64,
        /// The one that follows.
        found: i64,
    },
    /// The name of the file is not the zxid of its first record.
    #[error("its first transaction is {}, which is not what the file's name says", Zxid(*found))]
    Name {
        /// The zxid of the first record.
        found: i64,
    },
    /// The header ends early.
    #[error("the file ends inside its header")]
    ShortHeader,
}

/// What is wrong with a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotReason {
    /// It is over before its end marker.
    #[error("it ends early")]
    Truncated,
    /// It cannot be unpacked.
    #[error("it cannot be unpacked (offsets count unpacked bytes)")]
    Packing,
    /// A seal does not match the bytes before it.
    #[error("the checksum does not match the bytes before it")]
    Seal,
    /// A count or length is negative.
    #[error("length or count {0} is impossible")]
    Length(i32),
    /// A path or name is not UTF-8.
    #[error("a string is not UTF-8")]
    Utf8,
    /// A record cannot be decoded.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// Bytes follow that are no section of the format.
    #[error("bytes follow that belong to no known section")]
    Tail,
}

/// Turns the error of the operating system into one that names the action and the file.
pub(crate) trait During<T> {
    /// `action` completes the sentence "cannot ... `path`".
    fn during(self, action: &'static str, path: &Path) -> Result<T, StorageError>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, action: &'static str, path: &Path) -> Result<T, StorageError> {
        self.map_err(|source| StorageError::Io { action, path: path.to_owned(), source })
    }
}

/// A zxid as ZooKeeper's tools and file names show it.
struct Zxid(i64);

impl std::fmt::Display for Zxid {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:#x}", self.0)
    }
}
