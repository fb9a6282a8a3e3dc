//! What a start would make of a data directory, without starting: nothing is changed, and somebody
//! may be using it.
//!
//! Can stop at an earlier zxid. A snapshot of ours is the tree at one zxid. One of ZooKeeper was
//! written while transactions went on, so it is of use for a state only if the last transaction in
//! it is not after that state.

use std::path::PathBuf;

use jute::txn::TxnRecord;

use super::log_scan::LogScan;
use super::way_out::is_member;
use super::{begin_empty, load_snapshot, must_reach};
use crate::storage::error::StorageError;
use crate::storage::files::directory::{DataDirectory, refuse_half_restored};
use crate::storage::log::audit::Writer;
use crate::storage::log::segment_reader::SegmentReader;
use crate::storage::recovery::way_out::refuse_lost;
use crate::storage::replay::{Front, Nothing, Refused, Replay, SnapshotId, SnapshotOrigin};
use crate::storage::snapshot::reader;

/// What was found.
#[derive(Debug)]
pub struct Examined {
    /// The snapshot that the state builds on.
    pub snapshot: SnapshotId,
    /// Its file; `None` without one.
    pub snapshot_file: Option<PathBuf>,
    /// Newer snapshots that are of no use, and why.
    pub passed_over: Vec<(PathBuf, String)>,
    /// The zxid of the state.
    pub last_zxid: i64,
    /// When the last transaction after the snapshot was made, in milliseconds; `None` if there is
    /// none.
    pub last_time: Option<i64>,
    /// Transactions after the snapshot.
    pub txns: u64,
    /// Where and why the log ends.
    pub end: LogEnd,
    /// The newest transaction in the snapshot, if that is after the state that was asked for.
    pub inexact_up_to: Option<i64>,
}

/// Where and why reading the log ended.
#[derive(Debug)]
pub enum LogEnd {
    /// After the last transaction.
    Clean,
    /// At a group that was never acknowledged; a start cuts it off.
    Torn {
        /// The last log.
        path: PathBuf,
        /// Where the group begins to be unreadable.
        offset: u64,
        /// Bytes that a start cuts off.
        bytes: u64,
    },
    /// At the first transaction after the zxid that was asked for.
    Reached {
        /// Its log.
        path: PathBuf,
        /// Where it begins.
        offset: u64,
    },
    /// At damage, for which a start refuses.
    Damaged(StorageError),
}

/// Reads the directory as a start would, up to `zxid_max`, into `replay`.
///
/// # Errors
/// When there is no snapshot to begin with, or the disk fails. Damage of the log is in what is
/// returned.
pub fn examine(
    directory: &DataDirectory,
    trust_empty: bool,
    zxid_max: i64,
    replay: &mut dyn Replay,
) -> Result<Examined, StorageError> {
    examine_up_to(directory, trust_empty, zxid_max, false, replay)
}

/// The same; with `inexact`, a snapshot of ZooKeeper will do that holds transactions from after
/// `zxid_max`.
pub(crate) fn examine_up_to(
    directory: &DataDirectory,
    trust_empty: bool,
    zxid_max: i64,
    inexact: bool,
    replay: &mut dyn Replay,
) -> Result<Examined, StorageError> {
    refuse_half_restored(directory)?;
    let is_alone = !is_member(directory)?;
    let mut bounded = Bounded { inner: replay, zxid_max, is_alone, state: Examining::default() };
    let mut passed_over = Vec::new();
    let shown_max = if inexact { i64::MAX } else { zxid_max };
    let loaded = load_snapshot(directory, zxid_max, shown_max, &mut bounded, &mut passed_over);
    let (from, snapshot_file) = match loaded {
        Ok(Some((from, file))) => {
            refuse_lost(directory, from.id.zxid)?;
            (from, Some(file))
        }
        Ok(None) if zxid_max == i64::MAX || trust_empty => {
            (begin_empty(directory, trust_empty, &mut bounded)?, None)
        }
        Ok(None) => return Err(no_snapshot(directory, zxid_max, None)),
        Err(StorageError::NoReadableSnapshot { newest, .. }) if zxid_max < i64::MAX => {
            return Err(no_snapshot(directory, zxid_max, Some(newest.to_string())));
        }
        Err(error) => return Err(error),
    };
    let snapshot = from.id;
    let inexact_up_to = Some(from.newest).filter(|newest| *newest > zxid_max);
    bounded.state = Examining { last_zxid: snapshot.zxid, ..Examining::default() };
    let scanned = LogScan::run(directory, snapshot, &mut bounded)
        .and_then(|scan| must_reach(directory, from, &scan).map(|()| scan));
    let Examining { last_zxid, last_time, txns, reached, .. } = bounded.state;
    let end = match scanned {
        Ok(scan) => scan.torn().map_or(LogEnd::Clean, |(path, offset, end)| LogEnd::Torn {
            path: path.to_owned(),
            offset,
            bytes: end.saturating_sub(offset),
        }),
        Err(StorageError::Unfit { path, offset, .. }) if reached => {
            LogEnd::Reached { path, offset }
        }
        Err(error @ (StorageError::Damage { .. } | StorageError::Unfit { .. })) => {
            LogEnd::Damaged(error)
        }
        Err(error) => return Err(error),
    };
    Ok(Examined {
        snapshot,
        snapshot_file,
        passed_over,
        last_zxid,
        last_time,
        txns,
        end,
        inexact_up_to,
    })
}

/// Whether a state at `zxid` can be made without what is after it.
pub(crate) fn has_snapshot_for(directory: &DataDirectory, zxid: i64) -> Result<bool, StorageError> {
    match load_snapshot(directory, zxid, zxid, &mut Nothing, &mut Vec::new()) {
        Ok(loaded) => Ok(loaded.is_some()),
        Err(StorageError::NoReadableSnapshot { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Who wrote each snapshot and log of the directory; `None` for a file without a header.
///
/// # Errors
/// When the disk fails.
pub fn writers(directory: &DataDirectory) -> Result<Vec<(PathBuf, Option<Writer>)>, StorageError> {
    let disk = directory.disk().as_ref();
    let mut found = Vec::new();
    for (_, path) in directory.snapshot_files()? {
        let origin = reader::origin(disk, &path)?;
        found.push((path, origin.map(SnapshotOrigin::writer)));
    }
    for zxid in directory.log_zxids()? {
        let path = directory.log_path(zxid);
        let writer = match SegmentReader::open(disk, &path) {
            Ok(reader) => reader.map(|reader| reader.origin().writer()),
            Err(StorageError::Header { .. }) => None,
            Err(error) => return Err(error),
        };
        found.push((path, writer));
    }
    Ok(found)
}

/// The last zxid that was written at `time` or before, in milliseconds: the one before the first
/// later transaction.
///
/// # Errors
/// When no transaction of the log is that old, or the disk fails.
pub fn zxid_at(directory: &DataDirectory, time: i64) -> Result<i64, StorageError> {
    let disk = directory.disk().as_ref();
    let mut last = None;
    for name in directory.log_zxids()? {
        let path = directory.log_path(name);
        let Some(mut reader) = SegmentReader::open(disk, &path)? else { continue };
        while let Ok(found) = reader.next()? {
            let Ok((record, _)) = TxnRecord::decode(found.payload) else { break };
            let header = record.header;
            if header.time > time {
                // The state before it is that of the snapshot that the logs begin after.
                return Ok(last.unwrap_or_else(|| header.zxid.saturating_sub(1)));
            }
            last = Some(header.zxid);
        }
    }
    Ok(i64::MAX)
}

fn no_snapshot(directory: &DataDirectory, zxid: i64, reason: Option<String>) -> StorageError {
    StorageError::NoSnapshotUpTo { folder: directory.snapshots().to_owned(), zxid, reason }
}

/// Hands on what belongs to the state, and refuses the first that does not.
struct Bounded<'a> {
    inner: &'a mut dyn Replay,
    zxid_max: i64,
    /// Whether it is not a member's, whose start does not ask for another history.
    is_alone: bool,
    state: Examining,
}

#[derive(Debug, Default)]
struct Examining {
    last_zxid: i64,
    last_time: Option<i64>,
    txns: u64,
    reached: bool,
}

impl Front for Bounded<'_> {
    fn behind(&mut self) -> &mut dyn Replay {
        self.inner
    }

    fn begins(&mut self, _snapshot: &SnapshotId) {
        self.state = Examining::default();
    }

    fn finds_another_history(&self) -> bool {
        self.is_alone && self.inner.is_another_history()
    }

    fn sees(&mut self, record: &TxnRecord<'_>) -> Result<(), Refused> {
        let header = &record.header;
        if header.zxid > self.zxid_max {
            self.state.reached = true;
            return Err(Refused("after the requested one".to_owned()));
        }
        self.inner.txn(record)?;
        self.state.last_zxid = self.state.last_zxid.max(header.zxid);
        self.state.last_time = Some(header.time);
        self.state.txns = self.state.txns.saturating_add(1);
        Ok(())
    }
}
