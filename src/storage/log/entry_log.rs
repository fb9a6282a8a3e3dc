//! The log by index, as consensus wants it: entries from here to there, and a tail that can be cut.
//!
//! The records are those of [`TxnLog`] in the files of every other server. A segment here holds
//! records of one epoch only, so that its name and its header say the zxid of every index in it.
//! The newest entries stay in memory, older ones are read from their files.
//!
//! Reading and writing are two halves, for two threads: [`EntryLog`] knows every entry at once,
//! [`EntryWriter`] makes it durable later and in the same order, and tells of it through
//! [`EntryLog::written`].

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use jute::OpCode;
use jute::txn::{Txn, TxnHeader, TxnRecord};
use parking_lot::Mutex;

use super::logged::{Logged, take_back};
use super::record::{EntryKind, GROUP_FULL, TRAILER_LEN, Trailer, zxid_of_payload};
use super::segment::SegmentBegin;
use super::segment_reader::SegmentReader;
use super::segments::{drop_before_gap, open_if_kept, readable_segments, remove, shorten};
use super::spare::SpareFiller;
use super::txn_log::{LogOptions, TxnLog, epoch_of};
use crate::storage::error::{DamageReason, StorageError};
use crate::storage::files::directory::DataDirectory;
use crate::storage::files::epoch::EpochFile;
use crate::storage::replay::{SnapshotId, SnapshotOrigin};

/// Bytes of entries that stay in memory for peers that lag.
const TAIL_BYTES: usize = 16 << 20;
/// The same of those that are older than a while: a burst's memory is given back when it is over.
const OLD_TAIL_BYTES: usize = 1 << 20;
/// Bytes of entries that are read from files at once: whoever asks has signs of life to send.
const OLD_BYTES_AT_ONCE: u64 = 64 << 10;

/// Segments that are read at the same time. More peers than that take them from each other.
const CURSORS_MAX: usize = 4;

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its place.
    pub index: u64,
    /// Its zxid; the high half is its term.
    pub zxid: i64,
    /// What it is to the ensemble.
    pub kind: EntryKind,
    /// The record without its trailer: header, transaction, digest.
    pub payload: Bytes,
}

impl LogEntry {
    /// The entry that holds a record; `None` if these bytes are none.
    #[must_use]
    pub fn new(index: u64, kind: EntryKind, payload: Bytes) -> Option<Self> {
        let zxid = zxid_of_payload(&payload)?;
        Some(Self { index, zxid, kind, payload })
    }

    /// An entry that has a place but no content, such as a new leader's first: a transaction that
    /// failed, which ZooKeeper passes over. Nobody's clock is in it.
    #[must_use]
    pub fn blank(index: u64, zxid: i64) -> Self {
        let header = TxnHeader { client_id: 0, cxid: 0, zxid, time: 0 };
        let mut payload = Vec::new();
        TxnRecord { header, txn: Txn::Error(0), digest: None }.encode(&mut payload);
        Self { index, zxid, kind: EntryKind::Ordinary, payload: payload.into() }
    }

    /// Whether it has no content. No other entry is a transaction that failed, but those about
    /// members, which have something to say.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        if self.kind == EntryKind::Membership {
            return false;
        }
        let code = self.payload.get(28..).and_then(|rest| rest.first_chunk::<4>());
        code.is_some_and(|code| i32::from_be_bytes(*code) == OpCode::Error.code())
    }
}

/// The log of a member of an ensemble as it is read: what stands in its files, and what is on its
/// way there.
#[derive(Debug)]
pub struct EntryLog {
    directory: Arc<DataDirectory>,
    /// The entry that the snapshot of the start shows, or one that came later in the place of the
    /// log.
    base: SegmentBegin,
    /// The segments, oldest first, as the writer left them when it was last heard of.
    segments: Vec<SegmentBegin>,
    /// The newest entries; all of those that the files may not hold.
    tail: VecDeque<LogEntry>,
    tail_bytes: usize,
    /// The last entry of a while ago.
    old: u64,
    last_index: u64,
    last_zxid: i64,
    /// Where reading from files stopped, of each peer that lags; the one that was used last is the
    /// last.
    cursors: Mutex<Vec<Cursor>>,
}

/// A segment that is being read.
#[derive(Debug)]
struct Cursor {
    begin: SegmentBegin,
    reader: SegmentReader,
    /// The index of the record that comes next.
    next: u64,
    /// What was read last: whoever had no room for it asks again.
    last: Option<LogEntry>,
}

impl EntryLog {
    /// The log that recovery opened after `snapshot`, and what writes it. Entries up to `floor`
    /// are not given to anybody.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn open(
        directory: Arc<DataDirectory>,
        mut log: TxnLog,
        snapshot: SnapshotId,
        floor: u64,
    ) -> Result<(Self, EntryWriter), StorageError> {
        let index = match snapshot.origin {
            SnapshotOrigin::Exact { index } => index,
            SnapshotOrigin::None | SnapshotOrigin::Java => 0,
        };
        let base = SegmentBegin { index, zxid: snapshot.zxid };
        // What a start needs, recovery has read.
        let mut segments = readable_segments(&directory)?;
        let next = log.next_index();
        // One that was begun and got no record would stand in the way of what comes instead of it.
        log.go_on_behind(log.last_zxid(), next, || {
            if segments.first().is_some_and(|first| first.index >= next) {
                take_back(&directory)?;
            }
            while let Some(empty) = segments.pop_if(|segment| segment.index >= next) {
                remove(&directory, empty)?;
            }
            Ok(())
        })?;
        drop_before_gap(&directory, &mut segments, base)?;
        segments.retain(|segment| segment.index > floor);
        let read = Self {
            directory: Arc::clone(&directory),
            base,
            segments: segments.clone(),
            tail: VecDeque::new(),
            tail_bytes: 0,
            old: 0,
            last_index: next.saturating_sub(1),
            last_zxid: log.last_zxid(),
            cursors: Mutex::default(),
        };
        Ok((
            read,
            EntryWriter { directory, log, base, segments, has_changed: true, was_removed: false },
        ))
    }

    /// A log without entries, beside what lies in the directory and is another's: that is not read,
    /// and not changed.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn beside(
        directory: Arc<DataDirectory>,
        options: LogOptions,
    ) -> Result<(Self, EntryWriter), StorageError> {
        let disk = Arc::clone(directory.disk());
        let epoch = EpochFile::current(Arc::clone(&disk), directory.snapshots())?;
        let (logs, logged) = (directory.logs().to_owned(), Logged::open(&directory));
        let log = TxnLog::open(disk, logs, epoch, logged, options, 0, 1)?;
        let base = SegmentBegin { index: 0, zxid: 0 };
        let read = Self {
            directory: Arc::clone(&directory),
            base,
            segments: Vec::new(),
            tail: VecDeque::new(),
            tail_bytes: 0,
            old: 0,
            last_index: 0,
            last_zxid: 0,
            cursors: Mutex::default(),
        };
        let segments = Vec::new();
        Ok((
            read,
            EntryWriter { directory, log, base, segments, has_changed: true, was_removed: false },
        ))
    }

    /// The first entry that can be read; the zxid of the one before it is known.
    #[must_use]
    pub fn first_index(&self) -> u64 {
        match self.segments.first() {
            None => self.base.index.saturating_add(1),
            Some(first) if first.index <= 1 || first.index == self.base.index.saturating_add(1) => {
                first.index
            }
            // Of the record before it nothing is known: it is itself the one before.
            Some(first) => first.index.saturating_add(1),
        }
    }

    /// The last entry.
    #[must_use]
    pub const fn last_index(&self) -> u64 {
        self.last_index
    }

    /// The zxid of the last entry.
    #[must_use]
    pub const fn last_zxid(&self) -> i64 {
        self.last_zxid
    }

    /// The zxid of an entry, or of the one before the first; `None` for what is not here.
    #[must_use]
    pub fn zxid(&self, index: u64) -> Option<i64> {
        if index > self.last_index || index.saturating_add(1) < self.first_index() {
            return None;
        }
        match self.place_in_tail(index) {
            Some(at) => self.tail.get(at).map(|entry| entry.zxid),
            None => zxid_in(&self.segments, self.base, index),
        }
    }

    /// Takes entries that the writer is given as well. They begin after the last one, or replace
    /// what stands from the first of them on.
    pub fn put(&mut self, entries: &[LogEntry]) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return };
        if first.index <= self.last_index {
            self.cursors.lock().clear();
            while let Some(gone) = self.tail.pop_back_if(|entry| entry.index >= first.index) {
                self.tail_bytes = self.tail_bytes.saturating_sub(gone.payload.len());
            }
        }
        self.last_index = last.index;
        self.last_zxid = last.zxid;
        self.tail_bytes = entries
            .iter()
            .fold(self.tail_bytes, |bytes, entry| bytes.saturating_add(entry.payload.len()));
        self.tail.extend(entries.iter().cloned());
    }

    /// A snapshot takes the place of everything.
    pub fn replace(&mut self, index: u64, zxid: i64) {
        self.base = SegmentBegin { index, zxid };
        self.segments.clear();
        self.tail.clear();
        self.tail_bytes = 0;
        (self.last_index, self.last_zxid) = (index, zxid);
        self.cursors.lock().clear();
    }

    /// The files hold what they were given before the entry `unwritten`, in these segments if they
    /// are others.
    pub fn written(&mut self, segments: Option<Segments>, unwritten: u64) {
        if let Some(Segments(segments)) = segments {
            self.segments = segments;
            self.cursors.lock().clear();
        }
        self.shorten(TAIL_BYTES, unwritten);
    }

    /// To be called every while: of the entries that were there at the last call, only the newest
    /// stay in memory. The files hold all before the entry `unwritten`.
    pub fn age(&mut self, unwritten: u64) {
        let old = std::mem::replace(&mut self.old, self.last_index);
        self.shorten(OLD_TAIL_BYTES, unwritten.min(old.saturating_add(1)));
        if self.tail.len() < self.tail.capacity() / 4 {
            self.tail.shrink_to_fit();
        }
    }

    /// Forgets the oldest before the entry `end`, down to so many bytes.
    fn shorten(&mut self, bytes: usize, end: u64) {
        while self.tail_bytes > bytes {
            let Some(oldest) = self.tail.pop_front_if(|entry| entry.index < end) else { break };
            self.tail_bytes = self.tail_bytes.saturating_sub(oldest.payload.len());
        }
    }

    /// The entries from `low` to before `high`, at least one and no more bytes than `bytes_max`
    /// beyond that, fewer where they come from files; all of them where `bytes_max` is
    /// [`u64::MAX`]. `None` if they are not here any more.
    ///
    /// # Errors
    /// When a file cannot be read or does not hold what its name says.
    pub fn entries(
        &self,
        low: u64,
        high: u64,
        bytes_max: u64,
    ) -> Result<Option<Vec<LogEntry>>, StorageError> {
        if low < self.first_index() {
            return Ok(None);
        }
        let is_old = bytes_max != u64::MAX && self.place_in_tail(low).is_none();
        let mut room = if is_old { bytes_max.min(OLD_BYTES_AT_ONCE) } else { bytes_max };
        let mut entries = Vec::new();
        let mut cursors = self.cursors.lock();
        for index in low..high.min(self.last_index.saturating_add(1)) {
            let Some(entry) = self.entry(index, &mut cursors)? else {
                return Ok((!entries.is_empty()).then_some(entries));
            };
            let len = entry.payload.len() as u64;
            if !entries.is_empty() && len > room {
                break;
            }
            room = room.saturating_sub(len);
            entries.push(entry);
        }
        Ok(Some(entries))
    }

    fn entry(
        &self,
        index: u64,
        cursors: &mut Vec<Cursor>,
    ) -> Result<Option<LogEntry>, StorageError> {
        if let Some(at) = self.place_in_tail(index) {
            return Ok(self.tail.get(at).cloned());
        }
        let after = self.segments.partition_point(|segment| segment.index <= index);
        let begin = match after.checked_sub(1).and_then(|at| self.segments.get(at)) {
            Some(begin) => *begin,
            None => return Ok(None),
        };
        let ready = cursors
            .iter()
            .enumerate()
            .filter(|(_, open)| open.begin == begin && open.reaches(index));
        let nearest = ready.max_by_key(|(_, open)| open.next).map(|(at, _)| at);
        let mut open = match nearest {
            Some(at) => cursors.remove(at),
            None => {
                let reader = open_if_kept(&self.directory, &self.directory.log_path(begin.zxid))?;
                let Some(reader) = reader else { return Ok(None) };
                Cursor { begin, reader, next: begin.index, last: None }
            }
        };
        let entry = open.read(index, &self.directory)?;
        if cursors.len() >= CURSORS_MAX {
            cursors.remove(0);
        }
        cursors.push(open);
        Ok(entry)
    }

    fn place_in_tail(&self, index: u64) -> Option<usize> {
        let oldest = self.tail.front()?.index;
        usize::try_from(index.checked_sub(oldest)?).ok()
    }
}

/// The files of a log, as the writer left them.
#[derive(Debug)]
pub struct Segments(Vec<SegmentBegin>);

/// What writes the log of a member of an ensemble.
#[derive(Debug)]
pub struct EntryWriter {
    directory: Arc<DataDirectory>,
    log: TxnLog,
    /// The entry that the snapshot of the start shows.
    base: SegmentBegin,
    /// The segments, oldest first, those among them that somebody else removed.
    segments: Vec<SegmentBegin>,
    /// Whether they are others than they were.
    has_changed: bool,
    /// Whether somebody else removed one that was written to, since that was last asked.
    was_removed: bool,
}

impl EntryWriter {
    /// The last entry that was appended.
    #[must_use]
    pub fn last_index(&self) -> u64 {
        self.log.next_index().saturating_sub(1)
    }

    /// The zxid of an entry that is durable; `None` for what is not here.
    #[must_use]
    pub fn zxid(&self, index: u64) -> Option<i64> {
        if index > self.last_index() {
            return None;
        }
        zxid_in(&self.segments, self.base, index)
    }

    /// Adds entries to the group; they are durable after the next [`commit`](Self::commit). They
    /// begin after the last one, or replace what stands from the first of them on.
    ///
    /// # Errors
    /// When the disk refuses, or the entries do not follow. The log takes nothing more then.
    pub fn append(&mut self, entries: &[LogEntry]) -> Result<(), StorageError> {
        let Some(first) = entries.first() else { return Ok(()) };
        if first.index <= self.last_index() {
            self.commit()?;
            self.cut(first.index)?;
        }
        for entry in entries {
            let last = self.log.last_zxid();
            if entry.index != self.log.next_index() {
                return Err(StorageError::OutOfOrder { last, zxid: entry.zxid });
            }
            if epoch_of(entry.zxid) != epoch_of(last) {
                self.commit()?;
                self.log.roll();
            } else if self.log.group_len() >= GROUP_FULL {
                self.commit()?;
            }
            self.log.append_encoded(entry.zxid, entry.kind, |out| {
                out.extend_from_slice(&entry.payload);
            })?;
        }
        Ok(())
    }

    /// Whether entries wait for [`commit`](Self::commit).
    #[must_use]
    pub fn has_group(&self) -> bool {
        self.log.group_len() > 0
    }

    /// Makes the group durable, with one write and one sync. Without entries it does nothing.
    ///
    /// # Errors
    /// When the disk refuses. The log takes nothing more then.
    pub fn commit(&mut self) -> Result<(), StorageError> {
        self.log.commit()?;
        // It stays among the segments: what it held is in memory, in its place.
        self.was_removed |= self.log.take_was_removed();
        if let Some(begin) = self.log.segment_begin()
            && self.segments.last() != Some(&begin)
        {
            self.segments.push(begin);
            self.has_changed = true;
        }
        Ok(())
    }

    /// Takes the entries from `from` on away. The newest file goes first, each durably, so that a
    /// crash at any point leaves a beginning of what was there.
    fn cut(&mut self, from: u64) -> Result<(), StorageError> {
        let Self { directory, log, base, segments, has_changed, was_removed: _ } = self;
        let kept = segments.partition_point(|segment| segment.index < from);
        // What a snapshot shows is final.
        let last = zxid_in(segments, *base, from.saturating_sub(1));
        let Some(zxid) = last.filter(|_| from > base.index) else {
            return Err(StorageError::OutOfOrder { last: log.last_zxid(), zxid: base.zxid });
        };
        *has_changed = true;
        log.go_on_behind(zxid, from, || {
            // Logs that are not in this list, of before a gap or of ZooKeeper, are no harm.
            if kept == 0 && !segments.is_empty() {
                take_back(directory)?;
            }
            while segments.len() > kept {
                if let Some(begin) = segments.pop() {
                    remove(directory, begin)?;
                }
            }
            match segments.last() {
                Some(begin) => shorten(directory, *begin, from),
                None => Ok(()),
            }
        })
    }

    /// The segments, if they are others than at the last call.
    pub fn take_segments(&mut self) -> Option<Segments> {
        std::mem::take(&mut self.has_changed).then(|| Segments(self.segments.clone()))
    }

    /// Lets the next group begin a new segment, so that purge can follow a snapshot.
    ///
    /// # Errors
    /// When the disk refuses what waits.
    pub fn roll(&mut self) -> Result<(), StorageError> {
        self.commit()?;
        self.log.roll();
        Ok(())
    }

    /// Knows no more of files that a [`purge`](crate::storage::purge) removed, nor of those before
    /// them, which it had to leave: the log does not go on from there. All up to `applied` is
    /// applied. What is not is still to be read, from memory where somebody else removed the file,
    /// so such a one stays known.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn forget_removed(&mut self, applied: u64) -> Result<(), StorageError> {
        let left = self.directory.log_zxids()?;
        let is_purged = |pair: &[SegmentBegin]| match pair {
            [removed, next] => left.binary_search(&removed.zxid).is_err() && next.index <= applied,
            _ => false,
        };
        if let Some(last) = self.segments.windows(2).rposition(is_purged) {
            self.segments.drain(..=last);
            self.has_changed = true;
        }
        Ok(())
    }

    /// Whether the log was removed; see [`TxnLog::take_was_removed`].
    pub const fn take_was_removed(&mut self) -> bool {
        std::mem::replace(&mut self.was_removed, false)
    }

    /// Goes on with the spares of the log that this one takes the place of: its filler fills these.
    pub fn keep_spares(&mut self, of: &Self) {
        self.log.keep_spares(&of.log);
    }

    /// The filler of this log's spares, for a thread of its own.
    #[must_use]
    pub fn spare_filler(&self) -> SpareFiller {
        self.log.spare_filler()
    }
}

/// The zxid of an entry in these segments, or of the one before them.
fn zxid_in(segments: &[SegmentBegin], base: SegmentBegin, index: u64) -> Option<i64> {
    let after = segments.partition_point(|segment| segment.index <= index);
    match after.checked_sub(1).and_then(|at| segments.get(at)) {
        Some(begin) => i64::try_from(index - begin.index).ok()?.checked_add(begin.zxid),
        None => (index == base.index).then_some(base.zxid),
    }
}

impl Cursor {
    /// Whether an entry is read here, or still to come.
    fn reaches(&self, index: u64) -> bool {
        self.next <= index || self.last.as_ref().is_some_and(|last| last.index == index)
    }

    /// Reads on to `index`.
    fn read(
        &mut self,
        index: u64,
        directory: &DataDirectory,
    ) -> Result<Option<LogEntry>, StorageError> {
        if let Some(last) = self.last.as_ref().filter(|last| last.index == index) {
            return Ok(Some(last.clone()));
        }
        let mut reopened = false;
        loop {
            let zxid = self.begin.zxid.saturating_add_unsigned(self.next - self.begin.index);
            let path = self.reader.path().to_owned();
            let offset = self.reader.offset();
            let damage = |reason| StorageError::Damage {
                path: path.clone(),
                offset,
                reason,
                last_good: zxid.saturating_sub(1),
                unsynced: false,
                way_out: None,
            };
            let Ok(found) = self.reader.next()? else {
                // What is written after an open reader's window shows only through a new one.
                if std::mem::replace(&mut reopened, true) {
                    return Ok(None);
                }
                match open_if_kept(directory, &path)? {
                    Some(reader) => self.reader = reader,
                    None => return Ok(None),
                }
                self.reader.seek(offset);
                continue;
            };
            let found_zxid = zxid_of_payload(found.payload);
            if found_zxid != Some(zxid) {
                let found = found_zxid.unwrap_or_default();
                return Err(damage(DamageReason::ZxidGap { found }));
            }
            let here = self.next;
            self.next = here.saturating_add(1);
            if here < index {
                continue;
            }
            let Some(trailer) = Trailer::of_payload(found.payload) else {
                return Err(damage(DamageReason::Trailer));
            };
            let len = found.payload.len().saturating_sub(TRAILER_LEN);
            let payload = Bytes::copy_from_slice(found.payload.get(..len).unwrap_or_default());
            let entry = LogEntry { index, zxid, kind: trailer.kind, payload };
            self.last = Some(entry.clone());
            return Ok(Some(entry));
        }
    }
}

#[cfg(test)]
#[path = "entry_log_test.rs"]
mod entry_log_test;
