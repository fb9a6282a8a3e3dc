//! From the files of a data directory to the state they hold, and a log to go on with.
//!
//! Chooses the snapshot, then has [`LogScan`] replay what stands after it. Changes a file only
//! when all has been read and nothing is damaged: the torn end of the last group is cut off.

pub(super) mod examine;
pub(super) mod log_scan;
pub(super) mod loss;
pub(super) mod way_out;
pub(super) mod whose;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::examine::{LogEnd, examine};
use self::log_scan::{LogScan, with_way_out};
use self::way_out::{of_no_snapshot, refuse_emptied, refuse_lost};
use super::error::{DamageReason, During, SnapshotReason, StorageError};
use super::files::directory::{DataDirectory, refuse_half_restored};
use super::files::epoch::EpochFile;
use super::log::logged::{Logged, take_back};
use super::log::segment_reader::SegmentReader;
use super::log::txn_log::{LogOptions, TxnLog};
use super::log::unsynced::set_unsynced;
use super::replay::{Nothing, Refused, Replay, SnapshotId, SnapshotOrigin};
use super::snapshot::reader;
use super::snapshot::reader::Loaded;

use crate::message::MessageId;

/// ZooKeeper looks at no more snapshots than this.
const SNAPSHOTS_TRIED: usize = 100;

/// What recovery may do, and how the log goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecoveryOptions {
    /// `snapshot.trust.empty` of a lone server: logs without a snapshot are taken to reach back to
    /// the beginning.
    pub trust_empty: bool,
    /// How the log is written.
    pub log: LogOptions,
}

/// What recovery found.
#[derive(Debug)]
pub struct Recovered {
    /// The log, ready for the next record.
    pub log: TxnLog,
    /// The snapshot that was loaded.
    pub snapshot: SnapshotId,
    /// The zxid of the state; 0 for a fresh directory.
    pub last_zxid: i64,
    /// Transactions replayed after the snapshot.
    pub txns: u64,
    /// Bytes of a group without acknowledgement that were cut off.
    pub bytes_cut: u64,
    /// Whether the directory held nothing: its owner writes `snapshot.0` before it serves.
    pub fresh: bool,
}

/// Rebuilds the state in `replay` and opens the log.
///
/// # Errors
/// When acknowledged transactions may be missing, the state refuses what the files hold, or the
/// disk fails. Apart from the last, nothing has been changed then.
pub fn recover(
    directory: &DataDirectory,
    options: RecoveryOptions,
    replay: &mut dyn Replay,
) -> Result<Recovered, StorageError> {
    recover_from(directory, options, Of::Anybody, replay)
}

/// The same for the directory of a member, which holds nothing that ZooKeeper logged since it is
/// one: a snapshot of ZooKeeper's is what that left when it started there, and is passed over.
///
/// # Errors
/// As [`recover`].
pub fn recover_member(
    directory: &DataDirectory,
    options: RecoveryOptions,
    replay: &mut dyn Replay,
) -> Result<Recovered, StorageError> {
    recover_from(directory, options, Of::ThisServer, replay)
}

/// Whose snapshots count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Anybody,
    ThisServer,
}

fn recover_from(
    directory: &DataDirectory,
    options: RecoveryOptions,
    of: Of,
    replay: &mut dyn Replay,
) -> Result<Recovered, StorageError> {
    refuse_half_restored(directory)?;
    let disk = directory.disk();
    let epoch = EpochFile::current(Arc::clone(disk), directory.snapshots())?;
    let mut passed_over = Vec::new();
    let loaded = load_snapshot_of(of, directory, i64::MAX, i64::MAX, replay, &mut passed_over)?;
    directory.set_useless(passed_over.into_iter().map(|(path, _)| path).collect());
    let from = match &loaded {
        Some((from, _)) => {
            refuse_lost(directory, from.id.zxid)?;
            *from
        }
        None => begin_empty(directory, options.trust_empty, replay)?,
    };
    let snapshot = from.id;
    let scan = LogScan::run(directory, snapshot, replay)?;
    must_reach(directory, from, &scan)?;
    let bytes_cut = scan.settle(disk.as_ref(), directory.logs())?;
    let mut logged = Logged::open(directory);
    if !options.log.force_sync {
        take_back(directory)?;
    } else if scan.has_own_records() {
        logged.say()?;
    } else if directory.log_zxids()?.is_empty() {
        take_back(directory)?;
    }
    set_unsynced(disk.as_ref(), directory.logs(), !options.log.force_sync)?;
    let log = TxnLog::open(
        Arc::clone(disk),
        directory.logs().to_owned(),
        epoch,
        logged,
        options.log,
        scan.last_zxid(),
        scan.next_index(),
    )?;
    Ok(Recovered {
        log,
        snapshot,
        last_zxid: scan.last_zxid(),
        txns: scan.txns(),
        bytes_cut,
        fresh: loaded.is_none() && scan.txns() == 0,
    })
}

/// Makes the state of nothing in `replay`, whatever lies in the directory: of whoever has nothing
/// of it.
///
/// # Errors
/// When `replay` refuses it.
pub fn pass_over(directory: &DataDirectory, replay: &mut dyn Replay) -> Result<(), StorageError> {
    begin_with_nothing(directory, replay).map(|_| ())
}

/// The state without a snapshot.
pub(crate) fn begin_empty(
    directory: &DataDirectory,
    trust_empty: bool,
    replay: &mut dyn Replay,
) -> Result<Loaded, StorageError> {
    if !trust_empty {
        refuse_transactions(directory)?;
    }
    if directory.log_zxids()?.is_empty() {
        refuse_emptied(directory)?;
    }
    if !trust_empty {
        refuse_unfinished(directory)?;
    }
    begin_with_nothing(directory, replay)
}

/// Without a snapshot to begin with, one that was not finished tells of transactions that are gone;
/// ZooKeeper's first, of nothing, does not.
fn refuse_unfinished(directory: &DataDirectory) -> Result<(), StorageError> {
    let Some((_, path)) = directory.snapshot_files()?.into_iter().find(|(zxid, _)| *zxid > 0)
    else {
        return Ok(());
    };
    let newest = StorageError::Snapshot { path, offset: 0, reason: SnapshotReason::Truncated };
    Err(StorageError::NoReadableSnapshot {
        folder: directory.snapshots().to_owned(),
        tried: 1,
        newest: Box::new(newest),
        way_out: of_no_snapshot(directory),
    })
}

fn begin_with_nothing(
    directory: &DataDirectory,
    replay: &mut dyn Replay,
) -> Result<Loaded, StorageError> {
    let none = SnapshotId { zxid: 0, origin: SnapshotOrigin::None };
    replay.begin(&none);
    replay.end(None).map_err(|Refused(reason)| StorageError::Refused {
        path: directory.snapshots().to_owned(),
        offset: 0,
        zxid: 0,
        reason,
    })?;
    Ok(Loaded { id: none, newest: 0, stated: None })
}

/// A snapshot that was written while transactions went on becomes the tree of one instant only with
/// all of those.
///
/// A copy of a running ZooKeeper's directory may have its logs from before the snapshot's end. The
/// state at the end of the log is then what an older snapshot makes. Without one, ZooKeeper's own
/// rule is left: the snapshot counts.
pub(crate) fn must_reach(
    directory: &DataDirectory,
    from: Loaded,
    scan: &LogScan,
) -> Result<(), StorageError> {
    let last = scan.last_zxid();
    if last >= from.newest {
        return Ok(());
    }
    let reason = DamageReason::InsideSnapshot { snapshot: from.id.zxid, newest: from.newest };
    let older = examine(directory, false, last, &mut Nothing);
    let is_whole = older
        .is_ok_and(|older| older.last_zxid == last && !matches!(older.end, LogEnd::Damaged(_)));
    match scan.damage_at_end(reason) {
        Some(error) if is_whole => Err(with_way_out(directory, from.id, error)),
        _ => {
            tracing::warn!(
                id = %MessageId::LOG_ENDS_IN_SNAPSHOT,
                snapshot = format_args!("{:#x}", from.id.zxid),
                log_end = format_args!("{last:#x}"),
                newest = format_args!("{:#x}", from.newest),
                "the log ends too early to complete the snapshot: some transactions up to the \
                 newest one in it are missing"
            );
            Ok(())
        }
    }
}

/// Loads the newest snapshot up to `zxid_max` that can be read and shows nothing after
/// `shown_max`; `None` if none looks like one.
///
/// `passed_over` gets the newer ones that are of no use, and why.
pub(crate) fn load_snapshot(
    directory: &DataDirectory,
    zxid_max: i64,
    shown_max: i64,
    replay: &mut dyn Replay,
    passed_over: &mut Vec<(PathBuf, String)>,
) -> Result<Option<(Loaded, PathBuf)>, StorageError> {
    load_snapshot_of(Of::Anybody, directory, zxid_max, shown_max, replay, passed_over)
}

fn load_snapshot_of(
    of: Of,
    directory: &DataDirectory,
    zxid_max: i64,
    shown_max: i64,
    replay: &mut dyn Replay,
    passed_over: &mut Vec<(PathBuf, String)>,
) -> Result<Option<(Loaded, PathBuf)>, StorageError> {
    let disk = directory.disk().as_ref();
    let mut newest = None;
    let mut tried = 0_usize;
    for (zxid, path) in directory.snapshot_files()? {
        if zxid > zxid_max {
            continue;
        }
        if !reader::looks_whole(disk, &path)? {
            tracing::warn!(
                id = %MessageId::SNAPSHOT_NOT_WHOLE,
                file = %path.display(),
                "ignoring an incomplete snapshot"
            );
            passed_over.push((path, "it is incomplete: its writer did not finish".to_owned()));
            continue;
        }
        if of == Of::ThisServer && reader::origin(disk, &path)? == Some(SnapshotOrigin::Java) {
            passed_over.push((path, "ZooKeeper wrote it, but logged nothing".to_owned()));
            continue;
        }
        if tried == SNAPSHOTS_TRIED {
            break;
        }
        tried = tried.saturating_add(1);
        let loaded = reader::load(disk, &path, zxid, replay);
        match loaded.and_then(|loaded| up_to(loaded, shown_max, &path)) {
            Ok(loaded) => return Ok(Some((loaded, path))),
            // A disk that fails says nothing about the snapshot.
            Err(error @ (StorageError::Io { .. } | StorageError::LaterVersion { .. })) => {
                return Err(error);
            }
            Err(error) => {
                tracing::warn!(id = %MessageId::OLDER_SNAPSHOT, %error, "trying an older snapshot");
                passed_over.push((path, error.to_string()));
                newest.get_or_insert(error);
            }
        }
    }
    match newest {
        None => Ok(None),
        Some(newest) => Err(StorageError::NoReadableSnapshot {
            folder: directory.snapshots().to_owned(),
            tried,
            newest: Box::new(newest),
            way_out: of_no_snapshot(directory),
        }),
    }
}

/// What shows a later transaction is of no use for a state.
fn up_to(loaded: Loaded, shown_max: i64, path: &Path) -> Result<Loaded, StorageError> {
    let Loaded { id: SnapshotId { zxid, .. }, newest, .. } = loaded;
    if newest <= shown_max {
        return Ok(loaded);
    }
    let path = path.to_owned();
    let reason = format!(
        "it was written while transactions went on and contains transactions up to \
         {newest:#x}"
    );
    Err(StorageError::Refused { path, offset: 0, zxid, reason })
}

/// Without a snapshot the logs must be empty.
fn refuse_transactions(directory: &DataDirectory) -> Result<(), StorageError> {
    for zxid in directory.log_zxids()? {
        let path: PathBuf = directory.log_path(zxid);
        let disk = directory.disk().as_ref();
        let Some(mut reader) = SegmentReader::open(disk, &path)? else { continue };
        let blank = {
            let window = reader.window();
            let piece = window.piece(super::log::segment::HEADER_LEN).during("read", &path)?;
            piece.iter().all(|byte| *byte == 0)
        };
        if !blank {
            return Err(StorageError::LogWithoutSnapshot {
                folder: directory.snapshots().to_owned(),
                log: path,
                way_out: of_no_snapshot(directory),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "recovery_test.rs"]
mod recovery_test;
