//! One file of the log while it is read, record by record.
//!
//! Says what stands at each offset and nothing about what it means: whether an unreadable record
//! is a torn tail or damage is judged by [`tail`](super::tail), and what may follow what by
//! [`recover`](crate::storage::recover).

use std::path::{Path, PathBuf};

use jute::persist::{FILE_VERSION, FileHeader, LOG_MAGIC};

use super::record::{FRAME_LEN, HEAD_LEN, Head, zxid_of_payload};
use super::search::Search;
use super::segment::HEADER_LEN;
use crate::storage::disk::Disk;
use crate::storage::disk::window::Window;
use crate::storage::error::{DamageReason, During, StorageError};

/// The longest record that ZooKeeper reads (`jute.maxbuffer` and as much again), where its operator
/// has not set more: what is longer and whole is read here all the same.
const ZOOKEEPER_RECORD_MAX: usize = 2 * 1_048_575;
/// A header without a body.
const JAVA_PAYLOAD_MIN: usize = 32;

/// Who wrote a segment, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentOrigin {
    /// ZooKeeper: dbid 0, records without a trailer.
    Java,
    /// This server: dbid is the log index of the first record.
    Own {
        /// That index.
        first_index: u64,
    },
}

/// Reads the records of one segment.
#[derive(Debug)]
pub(crate) struct SegmentReader {
    path: PathBuf,
    window: Window,
    origin: SegmentOrigin,
    /// Where the next record begins; after the last one, where reading stopped.
    offset: u64,
    /// The zxid of the last record.
    last: i64,
}

/// A record that passed its checksum.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    /// Where it begins.
    pub(crate) offset: u64,
    /// Its payload, trailer included.
    pub(crate) payload: &'a [u8],
}

/// Why there is no further record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Nothing that could be a record; in a segment of ours still to be judged.
    End,
    /// In a segment of ZooKeeper: what its own reader refuses, or takes for the end although
    /// records follow. That loses these, which it may have acknowledged.
    Refused(DamageReason),
}

impl SegmentReader {
    /// Opens the segment; `None` if the file is empty.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Option<Self>, StorageError> {
        let file = disk.open(path).during("open", path)?;
        let mut window = Window::new(file).during("read", path)?;
        if window.len() == 0 {
            return Ok(None);
        }
        let invalid =
            || StorageError::Header { path: path.to_owned(), expected: "transaction log" };
        let bytes = window.bytes(0, 16).during("read", path)?.ok_or_else(invalid)?;
        let (header, _) = jute::decode::<FileHeader>(bytes).map_err(|_| invalid())?;
        if header.magic != LOG_MAGIC {
            return Err(invalid());
        }
        if header.version > FILE_VERSION {
            let (version, known) = (header.version.unsigned_abs(), FILE_VERSION.unsigned_abs());
            return Err(StorageError::LaterVersion { path: path.to_owned(), version, known });
        }
        let origin = match u64::try_from(header.dbid) {
            Ok(first_index) if first_index > 0 => SegmentOrigin::Own { first_index },
            _ => SegmentOrigin::Java,
        };
        Ok(Some(Self { path: path.to_owned(), window, origin, offset: HEADER_LEN, last: 0 }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn origin(&self) -> SegmentOrigin {
        self.origin
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Goes on from `offset`, where a record must begin.
    pub(crate) fn seek(&mut self, offset: u64) {
        self.offset = offset;
    }

    pub(crate) fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    /// The next record, or why there is none.
    pub(crate) fn next(&mut self) -> Result<Result<Found<'_>, Unreadable>, StorageError> {
        let offset = self.offset;
        let available = self.window.len().saturating_sub(offset);
        let head = self.window.bytes(offset, HEAD_LEN).during("read", &self.path)?;
        let Some(head) = head.and_then(Head::parse) else { return Ok(Err(Unreadable::End)) };
        let len = match self.origin {
            SegmentOrigin::Own { .. } => match head.own_payload_len(available) {
                Some(len) => len,
                None => return Ok(Err(Unreadable::End)),
            },
            SegmentOrigin::Java => match usize::try_from(head.len) {
                Err(_) => {
                    return Ok(Err(Unreadable::Refused(DamageReason::Length(head.len))));
                }
                Ok(0) => return self.end_of_java(offset).map(Err),
                Ok(len) => len,
            },
        };
        let (at, up_to) = (offset.saturating_add(HEAD_LEN as u64), len.saturating_add(1));
        let body = self.window.bytes(at, up_to).during("read", &self.path)?;
        // ZooKeeper takes a record that is cut off or lacks its end mark for the end of the file,
        // unless it is longer than it may be.
        if body.is_none_or(|body| body.last() != Some(&b'B')) {
            return match self.origin {
                SegmentOrigin::Own { .. } => Ok(Err(Unreadable::End)),
                SegmentOrigin::Java if len > ZOOKEEPER_RECORD_MAX => {
                    Ok(Err(Unreadable::Refused(DamageReason::Length(head.len))))
                }
                SegmentOrigin::Java => self.end_of_java(offset).map(Err),
            };
        }
        let body = self.window.bytes(at, up_to).during("read", &self.path)?.unwrap_or_default();
        if !head.matches(body) {
            return Ok(Err(match self.origin {
                SegmentOrigin::Own { .. } => Unreadable::End,
                SegmentOrigin::Java => Unreadable::Refused(DamageReason::Checksum),
            }));
        }
        self.offset = offset.saturating_add(FRAME_LEN as u64).saturating_add(len as u64);
        let payload = body.get(..len).unwrap_or_default();
        self.last = zxid_of_payload(payload).unwrap_or(self.last);
        Ok(Ok(Found { offset, payload }))
    }

    /// What ZooKeeper takes for the end of its log: the end, unless a whole record of a later
    /// transaction begins before any that is unreadable could be over.
    fn end_of_java(&self, offset: u64) -> Result<Unreadable, StorageError> {
        let to = offset.saturating_add(2 * (FRAME_LEN + ZOOKEEPER_RECORD_MAX) as u64);
        let mut bytes = self.window.copy(offset, to).during("read", &self.path)?;
        let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(written);
        let later = Search::new(bytes).first_after(self.last, JAVA_PAYLOAD_MIN, |_, _| true);
        Ok(later.map_or(Unreadable::End, |(start, zxid)| {
            let offset = offset.saturating_add(start as u64);
            Unreadable::Refused(DamageReason::LaterRecord { offset, zxid })
        }))
    }
}
