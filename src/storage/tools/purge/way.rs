//! The way that the log leads from an older snapshot to the newest.
//!
//! Looks at no more of the log than it is asked for, and at each segment that is finished once.

use std::path::PathBuf;

use super::stamp;
use crate::storage::error::StorageError;
use crate::storage::files::directory::DataDirectory;
use crate::storage::log::segment::SegmentBegin;
use crate::storage::log::segment_reader::{SegmentOrigin, SegmentReader};
use crate::storage::log::segments::{ends_before, holds};
use crate::storage::replay::{SnapshotId, SnapshotOrigin};

/// The log, from its segment `begin` on, leads to the newest snapshot.
pub(super) struct Way {
    /// Segments before that, which were not looked at; none if the next of them does not lead on.
    logs: Vec<i64>,
    /// The index is 0 where ZooKeeper wrote the segment: it counts none.
    begin: Option<SegmentBegin>,
    /// What the segment before is to lead to, as far as indexes tell; at first an entry in it.
    to: Option<SegmentBegin>,
}

impl Way {
    pub(super) fn back_from(
        directory: &DataDirectory,
        newest: SnapshotId,
    ) -> Result<Self, StorageError> {
        let mut logs = directory.log_zxids()?;
        logs.retain(|zxid| *zxid <= newest.zxid);
        let to = match newest.origin {
            SnapshotOrigin::Exact { index } if index > 0 => {
                Some(SegmentBegin { index, zxid: newest.zxid })
            }
            SnapshotOrigin::Exact { .. } | SnapshotOrigin::Java | SnapshotOrigin::None => None,
        };
        Ok(Self { logs, begin: None, to })
    }

    /// Whether it leads from an older snapshot on.
    ///
    /// # Errors
    /// With the file that cannot be read. From there on it leads nowhere.
    pub(super) fn leads_from(
        &mut self,
        directory: &DataDirectory,
        snapshot: SnapshotId,
    ) -> Result<bool, (PathBuf, StorageError)> {
        while !self.covers(snapshot) {
            let Some(zxid) = self.logs.pop() else { return Ok(false) };
            match self.go_back_to(directory, zxid) {
                Ok(true) => {}
                Ok(false) => self.logs.clear(),
                Err(error) => {
                    self.logs.clear();
                    return Err((directory.log_path(zxid), error));
                }
            }
        }
        Ok(true)
    }

    /// Whether the first transaction after the snapshot is in it. The first of a later epoch can
    /// have any zxid: only the index tells that it is the next.
    fn covers(&self, snapshot: SnapshotId) -> bool {
        let Some(begin) = self.begin else { return false };
        begin.zxid <= snapshot.zxid.saturating_add(1)
            || match snapshot.origin {
                SnapshotOrigin::Exact { index } => {
                    begin.index > 0 && begin.index <= index.saturating_add(1)
                }
                SnapshotOrigin::Java | SnapshotOrigin::None => false,
            }
    }

    /// Whether the way begins with this segment, which leads on.
    fn go_back_to(&mut self, directory: &DataDirectory, zxid: i64) -> Result<bool, StorageError> {
        let (path, disk) = (directory.log_path(zxid), directory.disk().as_ref());
        let stamp = stamp(disk, &path)?;
        // Nothing is in it.
        let Some(reader) = SegmentReader::open(disk, &path)? else { return Ok(true) };
        let SegmentOrigin::Own { first_index } = reader.origin() else {
            (self.begin, self.to) = (Some(SegmentBegin { index: 0, zxid }), None);
            return Ok(true);
        };
        let begin = SegmentBegin { index: first_index, zxid };
        if let Some(to) = self.to
            && !directory.findings().log_leads(&path, stamp, (to.index, to.zxid))
        {
            let leads = match self.begin {
                None => holds(directory, begin, to)?,
                Some(_) => ends_before(directory, begin, to.index)?,
            };
            if !leads {
                return Ok(false);
            }
            directory.findings().set_log_leads(&path, stamp, (to.index, to.zxid));
        }
        (self.begin, self.to) = (Some(begin), Some(begin));
        Ok(true)
    }
}
