//! The transaction log: groups of records that become durable together.
//!
//! Owns the order of records (zxids without gaps, indexes that count records), the choice of the
//! segment and the rule that nothing is tried again after a failure. It starts no thread and reads
//! nothing back; [`recover`](crate::storage::recover) opens it.

use std::path::PathBuf;
use std::sync::Arc;

use jute::txn::TxnRecord;

use super::logged::Logged;
use super::record::{self, EntryKind};
use super::segment::{Segment, SegmentBegin};
use super::spare::{SpareFiller, SpareShelf};
use crate::message::MessageId;
use crate::storage::disk::Disk;
use crate::storage::error::{During, StorageError};
use crate::storage::files::directory::DataDirectory;
use crate::storage::files::epoch::EpochFile;

/// Memory that the group buffer keeps from one group to the next.
const BUFFER_KEPT: usize = 4 << 20;

/// How the log is written.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Length of a segment; a group that does not fit begins the next one.
    pub segment_len: u64,
    /// Zero-filled segments kept ready; 0 for none.
    pub spares: usize,
    /// Whether a commit syncs; without it a power failure can take acknowledged transactions.
    pub force_sync: bool,
}

impl LogOptions {
    /// From ZooKeeper's `preAllocSize` in kilobytes (0 or less: no preallocation) and `forceSync`.
    #[must_use]
    pub fn new(pre_alloc_kb: i64, force_sync: bool) -> Self {
        match u64::try_from(pre_alloc_kb) {
            Ok(kb) if kb > 0 => {
                Self { segment_len: kb.saturating_mul(1024), spares: 2, force_sync }
            }
            _ => Self { spares: 0, force_sync, ..Self::default() },
        }
    }
}

impl LogOptions {
    /// Bytes of the disk that are left to what must not be refused: two segments.
    #[must_use]
    pub fn reserve(&self) -> u64 {
        self.segment_len.saturating_mul(2)
    }
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_len: 64 << 20, spares: 2, force_sync: true }
    }
}

/// The log, open for appending. A start never appends to a segment of an earlier one.
#[derive(Debug)]
pub struct TxnLog {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    options: LogOptions,
    shelf: Arc<SpareShelf>,
    epoch: EpochFile,
    logged: Logged,
    /// Always with a record in it: it is made for a group that is written at once.
    segment: Option<Segment>,
    /// The records since the last commit, as they will stand in the segment.
    group: Vec<u8>,
    group_records: u64,
    group_first_zxid: i64,
    /// The last record appended; with those of the group.
    last_zxid: i64,
    durable_zxid: i64,
    /// The index of the group's first record.
    next_index: u64,
    /// The file that took the last group was removed by somebody else since that was last asked.
    was_removed: bool,
    poisoned: bool,
}

impl TxnLog {
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        folder: PathBuf,
        epoch: EpochFile,
        logged: Logged,
        options: LogOptions,
        last_zxid: i64,
        next_index: u64,
    ) -> Result<Self, StorageError> {
        let shelf = Arc::new(SpareShelf::open(disk.as_ref(), &folder, options.segment_len)?);
        Ok(Self {
            disk,
            folder,
            options,
            shelf,
            epoch,
            logged,
            segment: None,
            group: Vec::new(),
            group_records: 0,
            group_first_zxid: 0,
            last_zxid,
            durable_zxid: last_zxid,
            next_index,
            was_removed: false,
            poisoned: false,
        })
    }

    /// Adds a record to the group; nothing reaches the disk before [`commit`](Self::commit).
    ///
    /// # Errors
    /// When the log is poisoned, the zxid is not the next one, or the group is beyond 1 GiB.
    pub fn append(&mut self, record: &TxnRecord<'_>) -> Result<(), StorageError> {
        self.append_encoded(record.header.zxid, EntryKind::Ordinary, |out| record.encode(out))
    }

    /// As [`append`](Self::append), for a record that `encode` writes.
    pub(crate) fn append_encoded(
        &mut self,
        zxid: i64,
        kind: EntryKind,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), StorageError> {
        if self.poisoned {
            return Err(StorageError::Poisoned);
        }
        if !follows(self.last_zxid, zxid) {
            return Err(StorageError::OutOfOrder { last: self.last_zxid, zxid });
        }
        record::append(&mut self.group, kind, encode)?;
        if self.group_records == 0 {
            self.group_first_zxid = zxid;
        }
        self.group_records = self.group_records.saturating_add(1);
        self.last_zxid = zxid;
        Ok(())
    }

    /// Makes the group durable: one write and one sync. Without records it does nothing.
    ///
    /// # Errors
    /// When the disk refuses. What of the group is on disk is then unknown and the log takes
    /// nothing more: the caller ends the process, recovery finds out.
    pub fn commit(&mut self) -> Result<(), StorageError> {
        if self.poisoned {
            return Err(StorageError::Poisoned);
        }
        if self.group.is_empty() {
            return Ok(());
        }
        // Cleared only by success, so that no way out of the write forgets it.
        self.poisoned = true;
        self.write_group()?;
        self.poisoned = false;
        self.next_index = self.next_index.saturating_add(self.group_records);
        self.durable_zxid = self.last_zxid;
        self.group_records = 0;
        self.group.clear();
        self.group.shrink_to(BUFFER_KEPT);
        Ok(())
    }

    /// Lets the next group begin a new segment; done at each snapshot, so that purge can follow.
    pub fn roll(&mut self) {
        self.segment = None;
    }

    /// Lets the next start do without the log, if the newest snapshot shows all that is committed.
    ///
    /// # Errors
    /// When the disk refuses; a start then needs the log, as it does after a crash.
    pub fn rest_on_snapshot(&mut self, directory: &DataDirectory) -> Result<(), StorageError> {
        match directory.snapshot_files()?.first() {
            Some((zxid, _)) if *zxid == self.durable_zxid => self.logged.allow_from(*zxid),
            _ => Ok(()),
        }
    }

    /// Goes on where `last_zxid` is the last record and `next_index` the next one, once `settle`
    /// has made that so: what stood after is cut off, or another state stands in the place of this
    /// one. The next group begins a segment. A failure poisons the log, as one of
    /// [`commit`](Self::commit) does.
    pub(crate) fn go_on_behind(
        &mut self,
        last_zxid: i64,
        next_index: u64,
        settle: impl FnOnce() -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        if self.poisoned {
            return Err(StorageError::Poisoned);
        }
        self.poisoned = true;
        self.segment = None;
        self.group.clear();
        self.group_records = 0;
        self.logged.forget();
        settle()?;
        self.epoch.set(epoch_of(last_zxid))?;
        self.poisoned = false;
        self.last_zxid = last_zxid;
        self.durable_zxid = last_zxid;
        self.next_index = next_index;
        Ok(())
    }

    /// The first record of the segment that took the last group, if the next one can go there too.
    pub(crate) fn segment_begin(&self) -> Option<SegmentBegin> {
        self.segment.as_ref().map(Segment::begin)
    }

    /// The zxid of the last record that was appended.
    #[must_use]
    pub fn last_zxid(&self) -> i64 {
        self.last_zxid
    }

    /// The zxid of the last record that was committed.
    #[must_use]
    pub fn durable_zxid(&self) -> i64 {
        self.durable_zxid
    }

    /// The index that the next record to be appended gets.
    #[must_use]
    pub fn next_index(&self) -> u64 {
        self.next_index.saturating_add(self.group_records)
    }

    /// Bytes in the group.
    #[must_use]
    pub fn group_len(&self) -> usize {
        self.group.len()
    }

    /// Bytes that the disk of the log has left.
    ///
    /// # Errors
    /// When the disk does not say.
    pub fn free_space(&self) -> Result<u64, StorageError> {
        self.disk.free_space(&self.folder).during("look for free space in", &self.folder)
    }

    /// Free space below which only what is small may be appended; see [`LogOptions::reserve`].
    #[must_use]
    pub fn reserve(&self) -> u64 {
        self.options.reserve()
    }

    /// Goes on with the spares of another log of the same folder, which this one has found there as
    /// well.
    pub(crate) fn keep_spares(&mut self, of: &Self) {
        self.shelf = Arc::clone(&of.shelf);
    }

    /// The filler of this log's spares, for a thread of its own.
    #[must_use]
    pub fn spare_filler(&self) -> SpareFiller {
        SpareFiller::new(
            Arc::clone(&self.disk),
            self.folder.clone(),
            self.options,
            Arc::clone(&self.shelf),
        )
    }

    fn write_group(&mut self) -> Result<(), StorageError> {
        let epoch = epoch_of(self.last_zxid);
        if epoch > self.epoch.get() {
            self.epoch.set(epoch)?;
        }
        let last = self.segment.take().filter(|segment| self.takes_group(segment));
        let mut segment = match self.if_there(last)? {
            Some(segment) => segment,
            None => Segment::create(
                self.disk.as_ref(),
                &self.folder,
                SegmentBegin { index: self.next_index, zxid: self.group_first_zxid },
                self.shelf.take(),
            )?,
        };
        segment.write(&self.group, self.options.force_sync)?;
        if self.options.force_sync {
            self.logged.say()?;
        }
        self.segment = Some(segment);
        Ok(())
    }

    /// The segment, unless somebody removed its file or put another one in its place: then the next
    /// group begins a new one, and tells of it.
    fn if_there(&mut self, segment: Option<Segment>) -> Result<Option<Segment>, StorageError> {
        let segment = match segment {
            Some(segment) if !segment.is_there() => segment,
            there => return Ok(there),
        };
        tracing::error!(
            id = %MessageId::LOG_REMOVED,
            path = %segment.path().display(),
            "the transaction log was removed while the server was writing to it; taking a \
             snapshot; until it is complete, the transactions of that file exist in memory only: \
             do not stop this process"
        );
        self.was_removed = true;
        self.logged.forget();
        self.disk.create_folder(&self.folder).during("create", &self.folder)?;
        Ok(None)
    }

    /// Whether the log was removed since this was last asked: what stood in it is in memory only,
    /// until there is a snapshot.
    pub const fn take_was_removed(&mut self) -> bool {
        std::mem::replace(&mut self.was_removed, false)
    }

    /// A group never spans segments; an unfilled segment is left as soon as a spare is ready.
    fn takes_group(&self, segment: &Segment) -> bool {
        let end = segment.end().saturating_add(self.group.len() as u64);
        end <= self.options.segment_len && (segment.is_filled() || self.shelf.is_empty())
    }
}

/// Whether `zxid` can stand after `last`: the next one, or any of a later epoch.
pub(crate) fn follows(last: i64, zxid: i64) -> bool {
    last.checked_add(1) == Some(zxid) || epoch_of(zxid) > epoch_of(last)
}

/// The high half of a zxid.
pub(crate) fn epoch_of(zxid: i64) -> i64 {
    zxid >> 32
}

#[cfg(test)]
#[path = "txn_log_test.rs"]
mod txn_log_test;
