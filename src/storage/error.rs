//! Why storage fails, in words for the operator: what, which file, where in it, and what to do.

mod damage;
mod way_out;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::files::directory::{DataDirectory, quoted};
use super::files::file_name;
use crate::message::MessageId;

pub use self::damage::{DamageReason, SnapshotReason};
pub use self::way_out::{Loss, Then, WayOut};

/// Why an operation on the data directory failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}; check the disk, its free space and the file's \
        owner", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A snapshot would take what is left to the log.
    #[error("{} has only {free} bytes left, which the log may need; free some \
        space", folder.display())]
    NoRoom {
        /// The folder of snapshots.
        folder: PathBuf,
        /// Its free space.
        free: u64,
    },
    /// A folder is missing and must not be created.
    #[error("{} does not exist and zookeeper.datadir.autocreate is false; create it, or correct \
        dataDir and dataLogDir", path.display())]
    FolderMissing {
        /// The folder.
        path: PathBuf,
    },
    /// Another process uses the directory.
    #[error("{} is in use by another ferrokeeper, process {holder}; only one process can use a \
        directory: stop that one, or use another dataDir (a container has process ids of its \
        own)", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The holder's process id, as it wrote it down.
        holder: String,
    },
    /// Something is named as it was before this product had its name.
    #[error("{} was written by a release from before the product was renamed to ferrokeeper. This \
        release does not read it, and nothing was changed. Stop the earlier release if it still \
        runs, then run `{command}`", path.display())]
    OldName {
        /// The first such file, or the folder.
        path: PathBuf,
        /// What an operator types to give all of them their names.
        command: String,
    },
    /// A member's file of a version from before this product had its name.
    #[error("{} was written by a release from before the product was renamed to ferrokeeper. This \
        release does not read it, and nothing was changed. Stop all servers of its ensemble, and \
        keep the directories of all. When all have stopped, find the server with the highest last \
        zxid, with `data check` of the earlier release. Take a `backup` of that server with the \
        earlier release, and restore it into an empty directory. Start the other servers with \
        empty directories", path.display())]
    OldRaftState {
        /// The file.
        path: PathBuf,
    },
    /// A log in the folder of snapshots, or a snapshot in the folder of logs.
    #[error("{} does not belong in that folder: dataDir and dataLogDir differ, so snapshots belong \
        in the first and logs in the second; check zoo.cfg, then move the files", path.display())]
    Misplaced {
        /// The first such file.
        path: PathBuf,
    },
    /// The file does not begin like a log or a snapshot; of a log that is needed, a start says
    /// [`Self::Damage`].
    #[error("{} does not begin with a valid {expected} header; restore the file from a backup or \
        move it away if you know that nothing in it is needed", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// `transaction log` or `snapshot`.
        expected: &'static str,
    },
    /// Acknowledged transactions cannot be read.
    #[error("{} is damaged at offset {offset}: {reason}. The last good transaction before it is \
        {}. Nothing was changed. {}Restore the file from a backup{}",
       path.display(), Zxid(*last_good), of_unsynced(*unsynced), WayOut::shown(way_out.as_deref()))]
    Damage {
        /// The log file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        reason: DamageReason,
        /// The zxid of the state without what is there and after.
        last_good: i64,
        /// Whether the log was written without syncs, so that a power failure leaves this as well.
        unsynced: bool,
        /// How to start all the same; `None` if what that loses cannot be told.
        way_out: Option<Box<WayOut>>,
    },
    /// A file has a format that only a later release knows.
    #[error("{} was written by a later release: it has version {version} of its format, and this \
        release knows versions up to {known}. Nothing was changed. Start that release, or a later \
        one", path.display())]
    LaterVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The last that is known here.
        known: u32,
    },
    /// Every snapshot that looks whole turned out not to be.
    #[error("none of the {tried} snapshots in {} can be read; the newest: {newest}. Nothing was \
        changed. Restore one from a backup{}", folder.display(), WayOut::shown(way_out.as_deref()))]
    NoReadableSnapshot {
        /// The folder of snapshots.
        folder: PathBuf,
        /// How many were tried.
        tried: usize,
        /// What is wrong with the newest.
        newest: Box<Self>,
        /// How to start all the same.
        way_out: Option<Box<WayOut>>,
    },
    /// There are transactions, but no snapshot that they build on.
    #[error("no valid snapshot in {}, but {} holds transactions. Nothing was changed. Check \
        dataDir and what should be mounted there, or restore a snapshot from a backup{}",
       folder.display(), log.display(), WayOut::shown(way_out.as_deref()))]
    LogWithoutSnapshot {
        /// The folder of snapshots.
        folder: PathBuf,
        /// The first log with a transaction.
        log: PathBuf,
        /// How to start all the same.
        way_out: Option<Box<WayOut>>,
    },
    /// There is neither a snapshot nor a log, where there once was one.
    #[error("{} holds {trace}, but there is neither a snapshot nor a log: its data is gone. \
        Nothing was changed. Check dataDir and dataLogDir, or restore it from a backup{}",
       folder.display(), WayOut::shown(Some(way_out)))]
    Emptied {
        /// The folder.
        folder: PathBuf,
        /// What tells of a past.
        trace: String,
        /// How to begin anew.
        way_out: Box<WayOut>,
    },
    /// There was a log, and its folder holds none.
    #[error("{} holds no log, but {} says that there was one in {was_in}, with every transaction \
        after {}. Nothing was changed. Check dataLogDir and what should be mounted there; or \
        restore the log from a backup{}",
       logs.display(), path.display(), Zxid(*shown), of_gone(path, *shown, way_out.as_deref()))]
    LogGone {
        /// The folder of logs.
        logs: PathBuf,
        /// The file that tells.
        path: PathBuf,
        /// Where it was.
        was_in: String,
        /// The zxid of the snapshot.
        shown: i64,
        /// What a member does.
        way_out: Option<Box<WayOut>>,
    },
    /// No snapshot is old enough for the state that is asked for.
    #[error("{} holds no snapshot from which the state at {} can be rebuilt{}; ask for a later \
        state, or look for older snapshots and logs in a backup",
       folder.display(), Zxid(*zxid), reason.as_ref().map(|reason| format!(" \
        ({reason})")).unwrap_or_default())]
    NoSnapshotUpTo {
        /// The folder of snapshots.
        folder: PathBuf,
        /// The zxid of the state.
        zxid: i64,
        /// Why the newest of those up to there is of no use.
        reason: Option<String>,
    },
    /// The log cannot be read as far as a cut is to keep it.
    #[error("the log in {} can be read only up to {}, so it cannot be cut after {}; cut it at the \
        last readable transaction: --to-zxid {}",
       folder.display(), Zxid(*last), Zxid(*zxid), Zxid(*last))]
    CutBehindEnd {
        /// The folder of logs.
        folder: PathBuf,
        /// The zxid after which the cut was to be.
        zxid: i64,
        /// The last zxid that can be read.
        last: i64,
    },
    /// The log of a member was to be cut.
    #[error("{} says that this is the directory of a member of an ensemble, and the log of a \
        member is never cut: the others rely on what it acknowledged. Nothing was changed. If a \
        start refuses the directory: while a majority of the others is running, run `{}` and start \
        the server: it loads everything from them. Only if the ensemble is given up for good: run \
        `{leave}` first", path.display(), way_out.command)]
    CutOfMember {
        /// The file that tells.
        path: PathBuf,
        /// How it starts again.
        way_out: Box<WayOut>,
        /// Makes it one of no ensemble.
        leave: String,
    },
    /// A restore ended in the middle.
    #[error("{} was left by an interrupted restore. Nothing was changed. Run the restore again, \
        with --replace; the previous files are in this folder or in replaced-* next to \
        it", path.display())]
    HalfRestored {
        /// What is left of it.
        path: PathBuf,
    },
    /// A copy would go over files that are there.
    #[error("{} is not empty; choose another folder, or move its contents away", folder.display())]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
    },
    /// A file went away each time that it was to be copied.
    #[error("the files in {} are removed faster than they can be copied; try again, or turn off \
        the purge meanwhile", folder.display())]
    Moving {
        /// The folder.
        folder: PathBuf,
    },
    /// A snapshot is not what its format says.
    #[error("{} is not a valid snapshot at offset {offset}: {reason}; restore it from a backup, or \
        move it away to use an older one", path.display())]
    Snapshot {
        /// The snapshot.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        reason: SnapshotReason,
    },
    /// A snapshot that is being written has not all that it must show.
    #[error(
        "a snapshot lacks {znodes} znodes of the tree and is not kept: this is a bug in the \
         server, please report it; the log keeps everything"
    )]
    Lacking {
        /// How many.
        znodes: usize,
    },
    /// The znodes that were written make another sum than the one that the tree has kept.
    #[error(
        "the znodes of a new snapshot have the digest {}, but the server has kept {kept:#x}: the \
         snapshot is discarded, and nothing is replaced or purged because of it. A member of an \
         ensemble loads the leader's tree; any other server has to be restarted: a start rebuilds \
         the tree from the previous snapshot and the log",
        sum.map_or_else(|| "of something else".to_owned(), |sum| format!("{sum:#x}"))
    )]
    Drifted {
        /// What the tree has kept.
        kept: i64,
        /// What was written.
        sum: Option<i64>,
    },
    /// The tree refused a transaction of the log.
    #[error("{}, offset {offset}: transaction {} does not fit the state before it, {}: {reason}. \
        Nothing was changed. Restore the data directory from a backup{}",
       path.display(), Zxid(*zxid), Zxid(*last_good), WayOut::shown(way_out.as_deref()))]
    Unfit {
        /// The log.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// The transaction.
        zxid: i64,
        /// What the tree said.
        reason: String,
        /// The zxid of the state before it.
        last_good: i64,
        /// How to start all the same.
        way_out: Option<Box<WayOut>>,
    },
    /// The tree refused what a snapshot holds.
    #[error("{}, offset {offset} (zxid {}): {reason}; the file does not fit the state before it: \
        restore the data directory from a backup", path.display(), Zxid(*zxid))]
    Refused {
        /// The snapshot.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// The zxid of the snapshot.
        zxid: i64,
        /// What the tree said.
        reason: String,
    },
    /// An earlier write or sync failed; what is on disk is not known any more.
    #[error(
        "the transaction log failed earlier and accepts no more writes; restart the server: it \
         reads back what is on disk"
    )]
    Poisoned,
    /// Transactions came out of order; nothing was written.
    #[error("transaction {} cannot follow {} in the log; this is a bug in the server, the log is \
        undamaged", Zxid(*zxid), Zxid(*last))]
    OutOfOrder {
        /// The last zxid in the log.
        last: i64,
        /// The zxid that came.
        zxid: i64,
    },
    /// A group of transactions is larger than its records can say; nothing was written.
    #[error("a group of {len} bytes is beyond the log's limit of 1 GiB; lower jute.maxbuffer")]
    GroupTooLarge {
        /// Its length.
        len: usize,
    },
    /// An epoch file does not hold a number.
    #[error("{} must hold one decimal number; restore it{}", path.display(), epoch_remedy(path))]
    Epoch {
        /// The file.
        path: PathBuf,
    },
    /// The promises of a member of an ensemble are lost.
    #[error("{} does not hold the newest term that this member has promised; a member that forgets \
        its promises can break those of the ensemble. Nothing was changed. While a majority of the \
        others is running, run `{command}` and start the server: it loads everything from \
        them", path.display())]
    RaftState {
        /// The file.
        path: PathBuf,
        /// What an operator types to move all aside.
        command: String,
    },
    /// ZooKeeper has gone on with the directory of a member.
    #[error("{} was written by Apache ZooKeeper after this server had become a member of an \
        ensemble: the server never takes part in that ensemble again. Nothing was changed. Start \
        it again: it will find out from the others whether ZooKeeper went on with the data of a \
        majority", path.display())]
    WentOn {
        /// What was written.
        path: PathBuf,
    },
    /// What the directory of a server of an ensemble shows last cannot be read.
    #[error("{} cannot be read, and no other file holds what it holds: acknowledged transactions \
        may exist only there. Nothing was changed. Restore the file from a backup. Only if the \
        others have what is needed, and while a majority of them is running, run `{command}`, \
        which keeps the file, and start the server: it loads everything from them", path.display())]
    EndUnreadable {
        /// The snapshot or log.
        path: PathBuf,
        /// What an operator types to move all aside.
        command: String,
    },
    /// A member of an ensemble is started alone.
    #[error("{} says that this is the directory of member {id:#x} of an ensemble of {voters} \
        voters. Started alone, it would treat as committed what the others may not have; and if \
        the others run as well, two servers would serve different data. Nothing was changed. Put \
        the server list of its ensemble back into zoo.cfg. Only if all other members are lost for \
        good, run `{command}` and start this server standalone; what only they had is then \
        lost", path.display())]
    Member {
        /// The file that tells.
        path: PathBuf,
        /// Who it is.
        id: u64,
        /// How many elect.
        voters: usize,
        /// Makes it one of no ensemble.
        command: String,
    },
    /// The others have heard more of a member than its directory holds.
    #[error(
        "{} is an older copy of this member's data directory: the others have heard more from the \
         member than the directory holds, so the member can neither vote nor acknowledge with it. \
         Start with the directory that the member ran with last. If that is gone, and while a \
         majority of the others is running, run `{command}` and start the server: it loads \
         everything from them",
        directory.display()
    )]
    OlderCopy {
        /// Where it is.
        directory: PathBuf,
        /// What an operator types to move all aside.
        command: String,
    },
    /// An ensemble has more members than its file can hold; nothing was written.
    #[error("an ensemble cannot have more than 480 members; this is a bug in the server")]
    Members,
    /// `ferrokeeper.sealed` does not hold a zxid.
    #[error("{} must hold one zxid, such as 0x50000000a; run ferrokeeper data seal \
        again", path.display())]
    Sealed {
        /// The file.
        path: PathBuf,
    },
    /// `ferrokeeper.sealed` is not what was written.
    #[error("{} fails its checksum: a changed zxid could let the wrong files be purged; run \
        ferrokeeper data seal again", path.display())]
    SealedChecksum {
        /// The file.
        path: PathBuf,
    },
    /// `sessions.before.key` is not what was written.
    #[error("{} fails its checksum: with a wrong id, another session would be taken for one from \
        before the seal. Restore the file from a backup. Or run `rm {}` and start the server: the \
        sessions from before the seal are then lost, and their clients open new \
        ones", path.display(), quoted(path))]
    SessionsBeforeKeyChecksum {
        /// The file.
        path: PathBuf,
    },
    /// `sessions.before.key` does not hold session ids.
    #[error("{} must hold session ids, such as 0x1000029fe520000, one per line. Restore the file \
        from a backup. Or run `rm {}` and start the server: the sessions from before the seal are \
        then lost, and their clients open new ones", path.display(), quoted(path))]
    SessionsBeforeKey {
        /// The file.
        path: PathBuf,
    },
    /// The session key is not the one that was written.
    #[error("{} fails its checksum: with a changed key, the password of every session would be \
        different. Restore the file from a backup. Or run `rm {}` and start the server: all open \
        sessions are then lost, and their clients open new ones, with passwords that can be \
        guessed until ferrokeeper data seal", path.display(), quoted(path))]
    SessionKeyChecksum {
        /// The file.
        path: PathBuf,
    },
    /// The session key has neither 36 bytes nor, from before it had a checksum, 32.
    #[error("{} has {len} bytes but must have 36, or 32 if it dates from before keys had a \
        checksum. Restore the file from a backup. Or run `rm {}` and start the server: all open \
        sessions are then lost, and their clients open new ones, with passwords that can be \
        guessed until ferrokeeper data seal", path.display(), quoted(path))]
    SessionKey {
        /// The file.
        path: PathBuf,
        /// Its length.
        len: u64,
    },
}

impl StorageError {
    /// Whether the disk has no room, or its user may not have more of it.
    pub(crate) fn is_no_room(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        let Self::Io { source, .. } = self else { return false };
        matches!(source.kind(), StorageFull | QuotaExceeded)
    }

    /// Of a directory that the others have refused.
    #[must_use]
    pub fn older_copy(directory: &DataDirectory) -> Self {
        let command = directory.aside_command();
        Self::OlderCopy { directory: directory.snapshots().to_owned(), command }
    }

    /// Of a snapshot or log that is needed and cannot be read.
    #[must_use]
    pub fn end_unreadable(directory: &DataDirectory, path: PathBuf) -> Self {
        Self::EndUnreadable { path, command: directory.aside_command() }
    }

    /// The message that it is.
    #[must_use]
    pub const fn id(&self) -> MessageId {
        match self {
            Self::Io { .. } => MessageId::DISK_REFUSED,
            Self::NoRoom { .. } => MessageId::NO_ROOM_FOR_SNAPSHOT,
            Self::FolderMissing { .. } => MessageId::FOLDER_MISSING,
            Self::Locked { .. } => MessageId::DIRECTORY_LOCKED,
            Self::OldName { .. } | Self::OldRaftState { .. } => MessageId::OLD_NAME,
            Self::Misplaced { .. } => MessageId::FILES_MISPLACED,
            Self::Header { .. } => MessageId::NO_HEADER,
            Self::Damage { .. } => MessageId::LOG_DAMAGED,
            Self::LaterVersion { .. } => MessageId::LATER_VERSION,
            Self::NoReadableSnapshot { .. } => MessageId::NO_READABLE_SNAPSHOT,
            Self::LogWithoutSnapshot { .. } => MessageId::LOG_WITHOUT_SNAPSHOT,
            Self::Emptied { .. } => MessageId::DIRECTORY_EMPTIED,
            Self::LogGone { .. } => MessageId::LOG_GONE,
            Self::NoSnapshotUpTo { .. } => MessageId::NO_SNAPSHOT_UP_TO,
            Self::CutBehindEnd { .. } => MessageId::CUT_BEHIND_END,
            Self::HalfRestored { .. } => MessageId::RESTORE_BROKEN_OFF,
            Self::CutOfMember { .. } => MessageId::MEMBER_NOT_CUT,
            Self::NotEmpty { .. } => MessageId::TARGET_NOT_EMPTY,
            Self::Moving { .. } => MessageId::FILES_KEEP_MOVING,
            Self::Snapshot { .. } => MessageId::SNAPSHOT_INVALID,
            Self::Lacking { .. } => MessageId::SNAPSHOT_FAILED,
            Self::Drifted { .. } => MessageId::SNAPSHOT_DRIFTED,
            Self::Unfit { .. } => MessageId::TRANSACTION_UNFIT,
            Self::Refused { .. } => MessageId::SNAPSHOT_UNFIT,
            Self::Poisoned => MessageId::LOG_POISONED,
            Self::OutOfOrder { .. } => MessageId::OUT_OF_ORDER,
            Self::GroupTooLarge { .. } => MessageId::GROUP_TOO_LARGE,
            Self::Epoch { .. } => MessageId::EPOCH_FILE,
            Self::RaftState { .. } => MessageId::RAFT_STATE_FILE,
            Self::WentOn { .. } => MessageId::ZOOKEEPER_WENT_ON,
            Self::EndUnreadable { .. } => MessageId::LAST_FILE_UNREADABLE,
            Self::Member { .. } => MessageId::MEMBER_STARTED_ALONE,
            Self::OlderCopy { .. } => MessageId::OLDER_COPY,
            Self::Members => MessageId::TOO_MANY_MEMBERS,
            Self::Sealed { .. } | Self::SealedChecksum { .. } => MessageId::SEAL_FILE,
            Self::SessionsBeforeKey { .. } | Self::SessionsBeforeKeyChecksum { .. } => {
                MessageId::SESSIONS_BEFORE_KEY_FILE
            }
            Self::SessionKey { .. } | Self::SessionKeyChecksum { .. } => {
                MessageId::SESSION_KEY_FILE
            }
        }
    }

    /// How to start all the same, of a refusal that gives up what the files hold.
    #[must_use]
    pub fn way_out(&self) -> Option<&WayOut> {
        match self {
            Self::Damage { way_out, .. }
            | Self::Unfit { way_out, .. }
            | Self::NoReadableSnapshot { way_out, .. }
            | Self::LogWithoutSnapshot { way_out, .. }
            | Self::LogGone { way_out, .. } => way_out.as_deref(),
            Self::Emptied { way_out, .. } | Self::CutOfMember { way_out, .. } => Some(way_out),
            _ => None,
        }
    }
}

fn of_unsynced(unsynced: bool) -> &'static str {
    match unsynced {
        true => "The log was written with forceSync=no, so a power failure can also be the cause. ",
        false => "",
    }
}

/// Who is no member can take what the snapshot shows for all that there is.
fn of_gone(path: &Path, shown: i64, way_out: Option<&WayOut>) -> String {
    match way_out {
        Some(way_out) => WayOut::shown(Some(way_out)),
        None => format!(
            "; or, if it is lost for good, run `rm {}` and start the server; lost: every \
             transaction after {}",
            quoted(path),
            Zxid(shown)
        ),
    }
}

/// The log tells the current epoch once more; what was agreed to, only the file.
fn epoch_remedy(path: &Path) -> String {
    if path.ends_with(file_name::CURRENT_EPOCH) {
        format!("; or run `rm {}` and start the server; nothing is lost", quoted(path))
    } else {
        String::new()
    }
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

impl fmt::Display for Zxid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.0)
    }
}
