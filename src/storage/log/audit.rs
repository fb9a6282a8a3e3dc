//! One log after the other, from its first record to its last: what is in them and what is wrong.
//!
//! Unlike a start it goes on after the first fault, and it looks at every log, also at those that
//! a snapshot makes needless. What a start would do is the business of
//! [`examine`](crate::storage::examine).

use std::path::{Path, PathBuf};

use jute::txn::TxnRecord;

use super::record::{EntryKind, TRAILER_LEN, Trailer};
use super::segment_reader::{SegmentOrigin, SegmentReader, Unreadable};
use super::tail::{Tail, judge};
use super::txn_log::follows;
use crate::storage::disk::Disk;
use crate::storage::error::{DamageReason, During, StorageError};
use crate::storage::files::file_name::FileName;
use crate::storage::replay::SnapshotOrigin;

/// Who wrote a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// Apache ZooKeeper.
    ZooKeeper,
    /// This server.
    Ferrokeeper,
}

impl SnapshotOrigin {
    /// Who writes such a snapshot.
    pub(crate) fn writer(self) -> Writer {
        match self {
            Self::Java => Writer::ZooKeeper,
            Self::None | Self::Exact { .. } => Writer::Ferrokeeper,
        }
    }
}

impl SegmentOrigin {
    /// Who writes such a log.
    pub(crate) fn writer(self) -> Writer {
        match self {
            Self::Java => Writer::ZooKeeper,
            Self::Own { .. } => Writer::Ferrokeeper,
        }
    }
}

/// A record on its way to whoever lists them.
#[derive(Debug)]
pub struct LogRecord<'a> {
    /// Where it begins in its file.
    pub offset: u64,
    /// Where its group begins; `None` in a log of ZooKeeper, which does not say.
    pub group: Option<u64>,
    /// What it is to an ensemble; `None` where `group` is.
    pub kind: Option<EntryKind>,
    /// The transaction.
    pub txn: &'a TxnRecord<'a>,
}

/// What is in a log.
#[derive(Debug)]
pub struct LogSummary {
    /// The file.
    pub path: PathBuf,
    /// Who wrote it; `None` where it has no header.
    pub writer: Option<Writer>,
    /// The log index of the first record, in a log of ours.
    pub first_index: Option<u64>,
    /// Records.
    pub txns: u64,
    /// Groups, in a log of ours.
    pub groups: Option<u64>,
    /// The zxid and the time in milliseconds of the first record.
    pub first: Option<(i64, i64)>,
    /// The zxid and the time of the last record.
    pub last: Option<(i64, i64)>,
    /// Where the records end.
    pub end: u64,
    /// Bytes after them that are neither records nor zeros: a group that was never acknowledged.
    pub torn_bytes: u64,
    /// What is no fault but worth knowing.
    pub notes: Vec<Remark>,
    /// What is wrong.
    pub problems: Vec<Remark>,
}

/// A sentence about a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Where in the file.
    pub offset: u64,
    /// What.
    pub text: String,
}

/// Reads logs in the order of their names.
#[derive(Debug, Default)]
pub struct LogAudit {
    /// Of the log before: where its records ended, the last zxid, the index that is due.
    before: Option<Before>,
}

#[derive(Clone, Copy, Debug)]
struct Before {
    last_zxid: i64,
    index: Option<u64>,
}

impl LogAudit {
    /// Reads the log at `path`. `is_last` says that no later one exists; `each` gets every record.
    ///
    /// # Errors
    /// When the disk fails, and what `each` returns.
    pub fn file<E: From<StorageError>>(
        &mut self,
        disk: &dyn Disk,
        path: &Path,
        is_last: bool,
        mut each: impl FnMut(&LogRecord<'_>) -> Result<(), E>,
    ) -> Result<LogSummary, E> {
        let mut summary = LogSummary::empty(path);
        let mut reader = match SegmentReader::open(disk, path) {
            Ok(Some(reader)) => reader,
            Ok(None) if is_last => {
                summary.note(0, "the file is empty; a start removes it".to_owned());
                return Ok(summary);
            }
            Ok(None) => {
                summary.problem(0, DamageReason::ShortHeader.to_string());
                return Ok(summary);
            }
            Err(StorageError::Header { .. }) => {
                summary.problem(0, "it does not have the header of a log".to_owned());
                return Ok(summary);
            }
            Err(error) => return Err(error.into()),
        };
        summary.begin(reader.origin());
        let mut walk = Walk::new(self.before, name_zxid(path));
        let mut looked_again = None;
        let unreadable = loop {
            let unreadable = loop {
                match reader.next()? {
                    Ok(found) => match TxnRecord::decode(found.payload) {
                        Ok((txn, rest)) => {
                            let offset = found.offset;
                            let own = walk.record(&mut summary, offset, &txn, rest);
                            let (group, kind) = own.unzip();
                            each(&LogRecord { offset, group, kind, txn: &txn })?;
                        }
                        Err(error) => {
                            let text = DamageReason::Decode(error).to_string();
                            summary.problem(found.offset, text);
                        }
                    },
                    Err(unreadable) => break unreadable,
                }
            };
            // A server may have written on: the record was not there yet when it was looked for,
            // and a later one is there now.
            let offset = reader.offset();
            if !is_last || looked_again == Some(offset) || !is_damage(&mut reader, &summary)? {
                break unreadable;
            }
            looked_again = Some(offset);
            let Some(again) = SegmentReader::open(disk, path)? else { break unreadable };
            reader = again;
            reader.seek(offset);
        };
        summary.end = reader.offset();
        judge_end(&mut reader, unreadable, is_last, &mut summary)?;
        if let Some((last_zxid, _)) = summary.last {
            let index = summary.first_index.map(|first| first.saturating_add(summary.txns));
            self.before = Some(Before { last_zxid, index });
        }
        Ok(summary)
    }
}

/// What the name says, if the file has the name of a log.
fn name_zxid(path: &Path) -> Option<i64> {
    match FileName::parse(path.file_name()?.to_str()?) {
        FileName::Log(zxid) => Some(zxid),
        _ => None,
    }
}

/// What must hold from one record to the next.
struct Walk {
    before: Option<Before>,
    name: Option<i64>,
    group: Option<u64>,
    last: Option<i64>,
}

impl Walk {
    fn new(before: Option<Before>, name: Option<i64>) -> Self {
        Self { before, name, group: None, last: before.map(|before| before.last_zxid) }
    }

    /// Takes in a record and says where its group begins, and what it is to an ensemble.
    fn record(
        &mut self,
        summary: &mut LogSummary,
        offset: u64,
        txn: &TxnRecord<'_>,
        rest: &[u8],
    ) -> Option<(u64, EntryKind)> {
        let (zxid, time) = (txn.header.zxid, txn.header.time);
        let is_own = summary.writer == Some(Writer::Ferrokeeper);
        if summary.txns == 0 {
            self.first(summary, offset, zxid);
        }
        if let Some(last) = self.last.filter(|last| !follows(*last, zxid)) {
            let text = format!("transaction {zxid:#x} follows {last:#x}");
            // ZooKeeper takes what follows; a server that was given a snapshot goes on after it.
            if is_own { summary.problem(offset, text) } else { summary.note(offset, text) }
        }
        self.last = Some(zxid);
        summary.txns = summary.txns.saturating_add(1);
        summary.first.get_or_insert((zxid, time));
        summary.last = Some((zxid, time));
        if !is_own {
            return None;
        }
        let trailer = (rest.len() == TRAILER_LEN).then(|| Trailer::parse(rest)).flatten();
        let Some(trailer) = trailer else {
            summary.problem(offset, DamageReason::Trailer.to_string());
            return None;
        };
        let begin = offset.saturating_sub(u64::from(trailer.distance));
        if trailer.distance == 0 {
            summary.groups = summary.groups.map(|groups| groups.saturating_add(1));
        } else if self.group != Some(begin) {
            let text =
                format!("its trailer says that its group begins at {begin}, but no group does");
            summary.problem(offset, text);
        }
        self.group = Some(begin);
        Some((begin, trailer.kind))
    }

    fn first(&self, summary: &mut LogSummary, offset: u64, zxid: i64) {
        if self.name.is_some_and(|name| name != zxid) {
            let text = DamageReason::Name { found: zxid }.to_string();
            if summary.writer == Some(Writer::Ferrokeeper) {
                summary.problem(offset, text);
            } else {
                summary.note(offset, text);
            }
        }
        let due = self.before.and_then(|before| before.index);
        if let (Some(expected), Some(first)) = (due, summary.first_index)
            && expected != first
        {
            let found = i64::try_from(first).unwrap_or(i64::MAX);
            summary.problem(offset, DamageReason::IndexGap { expected, found }.to_string());
        }
    }
}

fn is_damage(reader: &mut SegmentReader, summary: &LogSummary) -> Result<bool, StorageError> {
    let last_good = summary.last.map_or(0, |(zxid, _)| zxid);
    let (offset, path) = (reader.offset(), reader.path().to_owned());
    let tail = judge(reader.window(), offset, last_good).during("read", &path)?;
    Ok(matches!(tail, Tail::Damage { .. }))
}

/// What stands after the last record.
fn judge_end(
    reader: &mut SegmentReader,
    unreadable: Unreadable,
    is_last: bool,
    summary: &mut LogSummary,
) -> Result<(), StorageError> {
    let (at, path) = (summary.end, summary.path.clone());
    if let Unreadable::Refused(reason) = unreadable {
        summary.problem(at, reason.to_string());
        return Ok(());
    }
    let last_good = summary.last.map_or(0, |(zxid, _)| zxid);
    match judge(reader.window(), at, last_good).during("read", &path)? {
        Tail::Clean => {}
        Tail::Torn { end } => {
            summary.torn_bytes = end.saturating_sub(at);
            let bytes = summary.torn_bytes;
            if is_last || summary.writer == Some(Writer::ZooKeeper) {
                let text = format!("{bytes} bytes of an unfinished write, never acknowledged");
                summary.note(at, text);
            } else {
                summary.problem(at, DamageReason::LaterSegment.to_string());
            }
        }
        Tail::Damage { offset, zxid } => {
            summary.problem(at, DamageReason::LaterGroup { offset, zxid }.to_string());
        }
    }
    Ok(())
}

impl LogSummary {
    fn empty(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            writer: None,
            first_index: None,
            txns: 0,
            groups: None,
            first: None,
            last: None,
            end: 0,
            torn_bytes: 0,
            notes: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn begin(&mut self, origin: SegmentOrigin) {
        match origin {
            SegmentOrigin::Java => self.writer = Some(Writer::ZooKeeper),
            SegmentOrigin::Own { first_index } => {
                self.writer = Some(Writer::Ferrokeeper);
                self.first_index = Some(first_index);
                self.groups = Some(0);
            }
        }
    }

    fn note(&mut self, offset: u64, text: String) {
        self.notes.push(Remark { offset, text });
    }

    fn problem(&mut self, offset: u64, text: String) {
        self.problems.push(Remark { offset, text });
    }
}
