//! Reads the logs after a snapshot, in order, and decides where they end.
//!
//! Our segments are held to strict rules: zxids follow each other, indexes count every record, an
//! unreadable record is either the torn end of the last group or damage. Segments of ZooKeeper are
//! read by ZooKeeper's rules. Nothing is changed before [`LogScan::settle`].

use std::io;
use std::path::{Path, PathBuf};

use jute::txn::TxnRecord;

use super::way_out;
use crate::storage::disk::{Disk, SLICE};
use crate::storage::error::{DamageReason, During, StorageError};
use crate::storage::files::directory::DataDirectory;
use crate::storage::log::record::{TRAILER_LEN, Trailer, frame};
use crate::storage::log::segment::HEADER_LEN;
use crate::storage::log::segment_reader::{Found, SegmentOrigin, SegmentReader, Unreadable};
use crate::storage::log::tail::{Tail, judge};
use crate::storage::log::txn_log::{epoch_of, follows};
use crate::storage::log::unsynced::is_unsynced;
use crate::storage::replay::{Nothing, Reading, Refused, Replay, SnapshotId, SnapshotOrigin};

use crate::message::MessageId;

/// Transactions from one word about the progress to the next.
const TXNS_A_WORD: u64 = 5_000;

/// Where the logs have been read to.
#[derive(Debug)]
pub(crate) struct LogScan {
    snapshot: SnapshotId,
    /// The last record read, replayed or not.
    last_record: Option<i64>,
    /// The index of the next record, as far as it is known.
    next_index: Option<u64>,
    /// Where the last segment of ours ends, if it was the last one read.
    own_end: Option<(PathBuf, u64)>,
    /// The last segment and where reading it ended.
    end: Option<(PathBuf, u64)>,
    /// Whether what was read last, snapshot or segment, is not ours and so counts no index.
    java: bool,
    txns: u64,
    /// Bytes of the segments that are read, and of those before the present one.
    total_bytes: u64,
    bytes_before: u64,
    /// The last segment and what is to be done with it.
    ending: Option<(PathBuf, Ending)>,
    /// Whether a segment of ZooKeeper was read: its zxids may leave some out, and no index counts
    /// them.
    has_java: bool,
    /// Whether a record of this server was read.
    has_own: bool,
    /// Whether the log was written without syncs.
    unsynced: bool,
    /// What was read, as far as the disk may never have had it.
    unsure: Vec<Unsure>,
}

/// Records of a segment that no sync is known to have covered.
#[derive(Debug)]
struct Unsure {
    path: PathBuf,
    /// Without syncs, all of the segment.
    from: u64,
    to: u64,
}

/// The segment after the one that is read.
#[derive(Clone, Copy, Debug)]
struct After {
    name: Option<i64>,
    /// Whose it is, where its header says so.
    origin: Option<SegmentOrigin>,
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Keep,
    Cut {
        at: u64,
        end: u64,
    },
    /// No record in it; so many bytes of a torn one.
    Remove {
        torn: u64,
    },
}

impl LogScan {
    /// Reads what stands after `snapshot` into `replay`.
    pub(crate) fn run(
        directory: &DataDirectory,
        snapshot: SnapshotId,
        replay: &mut dyn Replay,
    ) -> Result<Self, StorageError> {
        Self::read(directory, snapshot, replay).map_err(|error| match replay.is_another_history() {
            true => with_older_snapshot(directory, snapshot, error),
            false => with_way_out(directory, snapshot, error),
        })
    }

    fn read(
        directory: &DataDirectory,
        snapshot: SnapshotId,
        replay: &mut dyn Replay,
    ) -> Result<Self, StorageError> {
        let mut scan = Self {
            snapshot,
            last_record: None,
            next_index: None,
            own_end: None,
            end: None,
            java: !matches!(snapshot.origin, SnapshotOrigin::Exact { .. }),
            txns: 0,
            total_bytes: 0,
            bytes_before: 0,
            ending: None,
            has_java: false,
            has_own: false,
            unsynced: is_unsynced(directory.disk().as_ref(), directory.logs())?,
            unsure: Vec::new(),
        };
        let zxids = directory.log_zxids()?;
        // The newest log that begins at or before the snapshot can reach beyond it.
        let first = zxids.partition_point(|zxid| *zxid <= snapshot.zxid).saturating_sub(1);
        for zxid in zxids.iter().skip(first) {
            scan.total_bytes = scan.total_bytes.saturating_add(size(directory, *zxid)?);
        }
        let mut names = zxids.into_iter().skip(first).peekable();
        let mut next = None;
        while let Some(zxid) = names.next() {
            let path = directory.log_path(zxid);
            let open =
                |zxid| SegmentReader::open(directory.disk().as_ref(), &directory.log_path(zxid));
            let reader = match next.take() {
                Some(reader) => Ok(Some(reader)),
                None => open(zxid),
            };
            let reader = match reader {
                Err(StorageError::Header { .. }) => {
                    return Err(scan.damage(&path, 0, DamageReason::Header));
                }
                other => other?,
            };
            let Some(reader) = reader else {
                if names.peek().is_some() {
                    return Err(scan.damage(&path, 0, DamageReason::ShortHeader));
                }
                // ZooKeeper as well removes a last log that was never begun.
                scan.ending = Some((path, Ending::Remove { torn: 0 }));
                break;
            };
            next = match names.peek().map(|zxid| open(*zxid)) {
                // Told when it is its turn, with what is before it read.
                Some(Err(StorageError::Header { .. })) | None => None,
                Some(other) => other?,
            };
            let after = After {
                name: names.peek().copied(),
                origin: next.as_ref().map(SegmentReader::origin),
            };
            scan.segment(reader, zxid, after, replay)?;
            scan.bytes_before = scan.bytes_before.saturating_add(size(directory, zxid)?);
        }
        Ok(scan)
    }

    /// The zxid of the state.
    pub(crate) fn last_zxid(&self) -> i64 {
        self.last_record.map_or(self.snapshot.zxid, |zxid| zxid.max(self.snapshot.zxid))
    }

    /// The index that the next record gets: after ZooKeeper, at least its place in its epoch.
    pub(crate) fn next_index(&self) -> u64 {
        let counted = self.next_index.unwrap_or(1);
        let index = match self.snapshot.origin {
            // Before the snapshot's entry, nothing says how many there are.
            SnapshotOrigin::Exact { index } if index > 0 && self.is_all_in_snapshot() => {
                index.saturating_add(1)
            }
            SnapshotOrigin::Exact { index } => counted.max(index.saturating_add(1)),
            SnapshotOrigin::None | SnapshotOrigin::Java => counted,
        };
        if !self.java {
            return index;
        }
        let place = u64::try_from(self.last_zxid() & 0xffff_ffff).unwrap_or(0);
        index.max(place.saturating_add(1))
    }

    fn is_all_in_snapshot(&self) -> bool {
        self.last_zxid() == self.snapshot.zxid
    }

    /// Whether a log of this server has a record in it, as far as it was read.
    pub(crate) fn has_own_records(&self) -> bool {
        self.has_own
    }

    /// Transactions that were replayed.
    pub(crate) fn txns(&self) -> u64 {
        self.txns
    }

    /// The torn end of the last segment that [`settle`](Self::settle) would cut off: file, from,
    /// to.
    pub(crate) fn torn(&self) -> Option<(&Path, u64, u64)> {
        match &self.ending {
            Some((path, Ending::Cut { at, end })) => Some((path, *at, *end)),
            _ => None,
        }
    }

    /// Makes what was read durable, and cuts off what was not; returns the bytes cut.
    pub(crate) fn settle(&self, disk: &dyn Disk, folder: &Path) -> Result<u64, StorageError> {
        let cut = self.settle_end(disk, folder)?;
        // What an earlier process wrote can be read from memory and not be on the disk: a sync that
        // failed leaves it so, and no other one writes it. What follows builds on it.
        for Unsure { path, from, to } in &self.unsure {
            write_again(disk, path, *from, *to)?;
        }
        Ok(cut)
    }

    fn settle_end(&self, disk: &dyn Disk, folder: &Path) -> Result<u64, StorageError> {
        let Some((path, ending)) = &self.ending else { return Ok(0) };
        let (at, end) = match *ending {
            Ending::Remove { torn } => {
                if torn > 0 {
                    self.tell_of_cut(path, HEADER_LEN, torn);
                }
                disk.remove(path).during("remove", path)?;
                disk.sync_folder(folder).during("sync the folder", folder)?;
                return Ok(torn);
            }
            Ending::Keep => (0, 0),
            Ending::Cut { at, end } => (at, end),
        };
        let file = disk.open_for_write(path).during("open", path)?;
        if end > at {
            self.tell_of_cut(path, at, end - at);
            file.set_len(at).during("cut", path)?;
        }
        file.sync_all().during("sync", path)?;
        Ok(end.saturating_sub(at))
    }

    fn tell_of_cut(&self, path: &Path, offset: u64, bytes: u64) {
        tracing::warn!(
            id = %MessageId::TORN_END_CUT,
            file = %path.display(), offset, bytes,
            last_zxid = format_args!("{:#x}", self.last_zxid()),
            "cutting off the torn last group of the log: it looks like a write that was \
             interrupted by a crash and never acknowledged, but disk damage at this place looks \
             the same"
        );
    }

    fn segment(
        &mut self,
        mut reader: SegmentReader,
        name: i64,
        after: After,
        replay: &mut dyn Replay,
    ) -> Result<(), StorageError> {
        let is_last = after.name.is_none();
        match reader.origin() {
            SegmentOrigin::Own { first_index } => self.begin_own(first_index)?,
            SegmentOrigin::Java => {
                (self.java, self.has_java) = (true, true);
                self.own_end = None;
            }
        }
        let own = matches!(reader.origin(), SegmentOrigin::Own { .. });
        let mut first = own.then_some(name);
        let path = reader.path().to_owned();
        let mut group = HEADER_LEN;
        let unreadable = loop {
            match reader.next()? {
                Ok(found) => {
                    self.record(&path, own, first.take(), &found, replay)?;
                    let trailer = Trailer::of_payload(found.payload).filter(|_| own);
                    if let Some(Trailer { distance, .. }) = trailer {
                        group = found.offset.saturating_sub(u64::from(distance)).max(HEADER_LEN);
                    }
                }
                Err(unreadable) => break unreadable,
            }
        };
        let offset = reader.offset();
        self.count_unsure(&path, own, group, offset);
        if let Unreadable::Refused(reason) = unreadable
            && !(offset > HEADER_LEN && self.has_ended_here(after, reason))
        {
            return Err(self.damage(&path, offset, reason));
        }
        let mut ending = Ending::Keep;
        if own && !matches!(after.origin, Some(SegmentOrigin::Own { .. })) {
            let last_good = self.last_record.unwrap_or(0).max(name.saturating_sub(1));
            match judge(reader.window(), offset, last_good).during("read", &path)? {
                Tail::Clean => {}
                // If ZooKeeper went on after it, it made the same decision and acted on it.
                Tail::Torn { .. } if !is_last => {}
                Tail::Torn { end } => ending = Ending::Cut { at: offset, end },
                Tail::Damage { offset: later, zxid } => {
                    let reason = DamageReason::LaterGroup { offset: later, zxid };
                    return Err(self.damage(&path, offset, reason));
                }
            }
        }
        // Its name may stand above those that follow, if they go on in an older epoch.
        if own && is_last && offset == HEADER_LEN {
            let torn =
                if let Ending::Cut { at, end } = ending { end.saturating_sub(at) } else { 0 };
            ending = Ending::Remove { torn };
        }
        self.own_end = own.then(|| (path.clone(), offset));
        self.end = Some((path.clone(), offset));
        self.ending = Some((path, ending));
        Ok(())
    }

    /// Whether a start of ZooKeeper's took the last record for the end of the log, although more
    /// stands after it in the file. Then it gave the zxids of what follows to others, in the next
    /// file, or began another epoch there; or it has done no more than to take a snapshot, as each
    /// of its starts does. Nothing that follows counts then, for ZooKeeper's clients either.
    fn has_ended_here(&self, after: After, reason: DamageReason) -> bool {
        let Some(last) = self.last_record else { return false };
        let unreadable = match reason {
            DamageReason::LaterRecord { zxid, .. } => zxid,
            // Of a record that was cut off, and is longer than ZooKeeper reads by default.
            DamageReason::Length(1..) => last.saturating_add(1),
            _ => return false,
        };
        match after.name {
            Some(name) if epoch_of(name) == epoch_of(last) => name > last && name <= unreadable,
            Some(_) | None => {
                self.snapshot.origin == SnapshotOrigin::Java && self.snapshot.zxid == last
            }
        }
    }

    /// A group of ours is written when the one before is durable, and a segment is begun when the
    /// last group of the one before is, or when a start has seen to it. ZooKeeper says nothing of
    /// the kind.
    fn count_unsure(&mut self, path: &Path, own: bool, group: u64, to: u64) {
        if own && !self.unsynced {
            self.unsure.clear();
        }
        let from = if own && !self.unsynced { group } else { HEADER_LEN };
        if from < to {
            self.unsure.push(Unsure { path: path.to_owned(), from, to });
        }
    }

    /// Between two segments of ours no index is missing, or only such as the snapshot holds.
    fn begin_own(&mut self, first_index: u64) -> Result<(), StorageError> {
        if let (Some((path, offset)), Some(expected)) = (&self.own_end, self.next_index)
            && first_index != expected
        {
            let covered = match self.snapshot.origin {
                SnapshotOrigin::Exact { index } => {
                    (expected..=index.saturating_add(1)).contains(&first_index)
                }
                SnapshotOrigin::None | SnapshotOrigin::Java => false,
            };
            if !covered {
                let found = i64::try_from(first_index).unwrap_or(i64::MAX);
                let reason = DamageReason::IndexGap { expected, found };
                return Err(self.damage(path, *offset, reason));
            }
            tracing::warn!(
                id = %MessageId::RECORDS_IN_SNAPSHOT_ONLY,
                file = %path.display(), offset,
                "records that the snapshot holds are missing from the log; older snapshots are of \
                 no use"
            );
        }
        self.next_index = Some(first_index);
        self.java = false;
        Ok(())
    }

    fn record(
        &mut self,
        path: &Path,
        own: bool,
        name: Option<i64>,
        found: &Found<'_>,
        replay: &mut dyn Replay,
    ) -> Result<(), StorageError> {
        let damage = |reason| self.damage(path, found.offset, reason);
        let (record, rest) = TxnRecord::decode(found.payload)
            .map_err(|error| damage(DamageReason::Decode(error)))?;
        let zxid = record.header.zxid;
        if own {
            if rest.len() != TRAILER_LEN || Trailer::parse(rest).is_none() {
                return Err(damage(DamageReason::Trailer));
            }
            if name.is_some_and(|name| name != zxid) {
                return Err(damage(DamageReason::Name { found: zxid }));
            }
            if let Some(reason) = self.gap(zxid).or_else(|| self.misplaced(zxid)) {
                return Err(damage(reason));
            }
        }
        self.has_own |= own;
        if zxid > self.snapshot.zxid {
            replay
                .txn(&record)
                .and_then(|()| {
                    // ZooKeeper's digests are wrong at times, and say nothing.
                    match own && self.txns == 0 && replay.is_another_history() {
                        true => Err(Refused(
                            "its digest shows that it was made on a different state".to_owned(),
                        )),
                        false => Ok(()),
                    }
                })
                .map_err(|Refused(reason)| StorageError::Unfit {
                    path: path.to_owned(),
                    offset: found.offset,
                    zxid,
                    reason,
                    last_good: self.last_zxid(),
                    way_out: None,
                })?;
            self.txns = self.txns.saturating_add(1);
            if self.txns.is_multiple_of(TXNS_A_WORD) {
                let done = self.bytes_before.saturating_add(found.offset);
                replay.progress(Reading::Logs, done, self.total_bytes);
            }
        }
        // ZooKeeper only complains of a zxid that falls.
        self.last_record = Some(self.last_record.map_or(zxid, |last| last.max(zxid)));
        self.next_index = self.next_index.map(|index| index.saturating_add(1));
        Ok(())
    }

    /// What is missing before a record of ours with this zxid.
    fn gap(&self, zxid: i64) -> Option<DamageReason> {
        let missing = DamageReason::ZxidGap { found: zxid };
        if zxid <= self.snapshot.zxid {
            return self.last_record.is_some_and(|last| zxid <= last).then_some(missing);
        }
        let last = self.last_record.map_or(self.snapshot.zxid, |last| last.max(self.snapshot.zxid));
        // Logs that are trusted without a snapshot begin where they begin.
        let begins = self.last_record.is_none() && self.snapshot.origin == SnapshotOrigin::None;
        if !begins && !follows(last, zxid) {
            return Some(missing);
        }
        // A later epoch can begin anywhere; only the index tells that nothing stood between.
        match (self.snapshot.origin, self.next_index) {
            (SnapshotOrigin::Exact { index }, Some(found)) if self.txns == 0 => {
                let expected = index.saturating_add(1);
                let found_i64 = i64::try_from(found).unwrap_or(i64::MAX);
                (found != expected).then_some(DamageReason::IndexGap { expected, found: found_i64 })
            }
            _ => None,
        }
    }

    /// What is wrong with the index of a record of ours, by the snapshot: in an epoch, zxids and
    /// indexes go on together.
    fn misplaced(&self, zxid: i64) -> Option<DamageReason> {
        let SnapshotOrigin::Exact { index } = self.snapshot.origin else { return None };
        if index == 0 || self.has_java || epoch_of(zxid) != epoch_of(self.snapshot.zxid) {
            return None;
        }
        let behind = zxid.saturating_sub(self.snapshot.zxid);
        let (expected, found) = (index.saturating_add_signed(behind), self.next_index?);
        let found_i64 = i64::try_from(found).unwrap_or(i64::MAX);
        (found != expected).then_some(DamageReason::IndexGap { expected, found: found_i64 })
    }

    /// Damage there, if there is a log.
    pub(crate) fn damage_at_end(&self, reason: DamageReason) -> Option<StorageError> {
        self.end.as_ref().map(|(path, offset)| self.damage(path, *offset, reason))
    }

    fn damage(&self, path: &Path, offset: u64, reason: DamageReason) -> StorageError {
        StorageError::Damage {
            path: path.to_owned(),
            offset,
            reason,
            last_good: self.last_zxid(),
            unsynced: self.unsynced,
            way_out: None,
        }
    }
}

/// Writes the records of a segment in a part of it once more, as they are, and makes them durable.
fn write_again(disk: &dyn Disk, path: &Path, from: u64, to: u64) -> Result<(), StorageError> {
    // What was clean and not on the disk may have gone from memory since it was read: what is
    // written is read and checked once more.
    let changed = || Err(io::Error::other("it now has different contents")).during("read", path);
    let Some(mut reader) = SegmentReader::open(disk, path)? else { return changed() };
    let file = disk.open_for_write(path).during("open", path)?;
    let (mut bytes, mut at) = (Vec::new(), from);
    if from == HEADER_LEN {
        let header = reader.window().copy(0, HEADER_LEN).during("read", path)?;
        file.write_all_at(&header, 0).during("write again", path)?;
    }
    reader.seek(from);
    while reader.offset() < to {
        let Ok(found) = reader.next()? else { return changed() };
        frame(&mut bytes, found.payload);
        if bytes.len() >= SLICE || reader.offset() >= to {
            file.write_all_at(&bytes, at).during("write again", path)?;
            at = at.saturating_add(bytes.len() as u64);
            bytes.clear();
        }
    }
    if at != to {
        return changed();
    }
    file.sync_all().during("sync", path)
}

fn size(directory: &DataDirectory, zxid: i64) -> Result<u64, StorageError> {
    let path = directory.log_path(zxid);
    let file = directory.disk().open(&path).during("open", &path)?;
    file.size().during("read", &path)
}

/// Whether the logs can be read to their end after a snapshot.
pub(crate) fn can_follow(directory: &DataDirectory, snapshot: SnapshotId) -> bool {
    LogScan::read(directory, snapshot, &mut Nothing).is_ok()
}

/// Of a log that is not that of the snapshot. A cut would leave a state that never was: only a
/// snapshot that the log goes with helps.
fn with_older_snapshot(
    directory: &DataDirectory,
    snapshot: SnapshotId,
    mut error: StorageError,
) -> StorageError {
    if let StorageError::Damage { way_out, .. } | StorageError::Unfit { way_out, .. } = &mut error {
        *way_out = way_out::of_another_history(directory, snapshot);
    }
    error
}

/// Looks ahead of the damage, so that the refusal can say what giving up would lose.
pub(crate) fn with_way_out(
    directory: &DataDirectory,
    snapshot: SnapshotId,
    mut error: StorageError,
) -> StorageError {
    if let StorageError::Damage { path, offset, last_good, way_out, .. }
    | StorageError::Unfit { path, offset, last_good, way_out, .. } = &mut error
    {
        *way_out = way_out::of_damage(directory, snapshot, path, *offset, *last_good);
    }
    error
}
