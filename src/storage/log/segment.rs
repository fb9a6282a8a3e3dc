//! One file of the log while it is written.
//!
//! A segment gets its name only with its header synced, and no record is written before that name
//! is durable: whoever finds `log.<zxid>` finds a header in it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use jute::Record;
use jute::persist::{FILE_VERSION, FileHeader, LOG_MAGIC};

use super::segment_reader::{SegmentOrigin, SegmentReader};
use crate::planted;
use crate::storage::disk::{Access, Disk, DiskFile};
use crate::storage::error::{During, StorageError};
use crate::storage::files::atomic_file::remove_if_there;
use crate::storage::files::file_name;

/// Bytes of the header of a log or a snapshot.
pub(crate) const HEADER_LEN: u64 = 16;

/// The segment that takes the groups.
#[derive(Debug)]
pub(crate) struct Segment {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    /// Where the next group goes.
    end: u64,
    /// Whether zeros stand after the end, synced, so that a group changes no metadata.
    filled: bool,
    /// Whether the file system knows the file again under its name.
    is_known: bool,
    begin: SegmentBegin,
}

/// The first record of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentBegin {
    /// Its log index.
    pub(crate) index: u64,
    /// Its zxid, which is the segment's name.
    pub(crate) zxid: i64,
}

impl Segment {
    /// Makes the segment whose first record is to be `begin`.
    pub(crate) fn create(
        disk: &dyn Disk,
        folder: &Path,
        begin: SegmentBegin,
        spare: Option<u64>,
    ) -> Result<Self, StorageError> {
        let name = file_name::log(begin.zxid);
        let path = folder.join(&name);
        let opened = spare.map(|number| {
            let spare = folder.join(file_name::spare(number));
            (disk.open_for_write(&spare), spare)
        });
        // Whoever removed the log may have removed its spares as well.
        let opened = opened.filter(|(file, _)| {
            file.as_ref().err().is_none_or(|error| error.kind() != ErrorKind::NotFound)
        });
        let filled = opened.is_some();
        let (before, file) = match opened {
            Some((file, spare)) => {
                let file = file.during("open the spare segment", &spare)?;
                (spare, file)
            }
            None => {
                let temporary = folder.join(file_name::temporary(&name));
                remove_if_there(disk, &temporary)?;
                let file = disk.create(&temporary, Access::Shared).during("create", &temporary)?;
                (temporary, file)
            }
        };
        file.write_all_at(&header(begin.index), 0).during("write the header of", &before)?;
        file.sync_all().during("sync", &before)?;
        keep_zookeepers(disk, &path)?;
        disk.rename(&before, &path).during("rename a new segment to", &path)?;
        disk.sync_folder(folder).during("sync the folder", folder)?;
        let is_known = file.is_at(&path).unwrap_or(false);
        Ok(Self { file, path, end: HEADER_LEN, filled, is_known, begin })
    }

    pub(crate) fn begin(&self) -> SegmentBegin {
        self.begin
    }

    /// Whether its name still leads to it: what is written is lost with the process otherwise. True
    /// where the system does not tell.
    pub(crate) fn is_there(&self) -> bool {
        !self.is_known || self.file.is_at(&self.path).unwrap_or(true)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.filled
    }

    /// Writes a group after the last one, and syncs it if `sync`.
    pub(crate) fn write(&mut self, group: &[u8], sync: bool) -> Result<(), StorageError> {
        self.file.write_all_at(group, self.end).during("write", &self.path)?;
        if sync && !planted::is("log-not-synced") {
            self.file.sync_data().during("sync", &self.path)?;
        }
        self.end = self.end.saturating_add(group.len() as u64);
        Ok(())
    }
}

/// What ZooKeeper wrote under the name of a new segment has no record that can be read, and stays
/// beside it under a name that neither server takes for a log.
fn keep_zookeepers(disk: &dyn Disk, path: &Path) -> Result<(), StorageError> {
    match SegmentReader::open(disk, path) {
        Ok(Some(reader)) if matches!(reader.origin(), SegmentOrigin::Java) => {}
        Ok(_) => return Ok(()),
        Err(StorageError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return Ok(());
        }
        Err(StorageError::Header { .. }) => {}
        Err(error) => return Err(error),
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut names = (1..).map(|number| path.with_file_name(file_name::unreadable(number, &name)));
    let is_free =
        |kept: &PathBuf| disk.open(kept).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let kept = names.find(is_free).unwrap_or_else(|| path.to_owned());
    disk.rename(path, &kept).during("rename", path)
}

/// ZooKeeper's header; its dbid, which ZooKeeper writes as 0 and never reads, is our index.
fn header(index: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let dbid = i64::try_from(index).unwrap_or(i64::MAX);
    FileHeader { magic: LOG_MAGIC, version: FILE_VERSION, dbid }.encode(&mut bytes);
    bytes
}
