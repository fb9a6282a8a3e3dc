//! A snapshot that comes from another member, and the log that it makes void.
//!
//! The file is written under a temporary name and read to its end, as a start reads it; only then
//! it gets its name by [`ReceivedSnapshot::install`], and is read again for the tree. From then on
//! a log that does not hold the snapshot's own entry is of no use, and [`discard_void_log`] removes
//! it: at once, or at the next start if that was cut short. That it is to go stands in `raft.state`
//! before, and what cannot be read never says so: a log is removed where a record of it is another
//! than the snapshot's, or where it ends in order before, and where the snapshot's own record is
//! nowhere in it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::storage::compression::Compression;
use crate::storage::disk::{Access, DiskFile, SLICE, read_exact_at};
use crate::storage::error::{During, StorageError};
use crate::storage::files::atomic_file::remove_if_there;
use crate::storage::files::directory::DataDirectory;
use crate::storage::files::file_name;
use crate::storage::log::logged::take_back;
use crate::storage::log::record::zxid_of_payload;
use crate::storage::log::segment::SegmentBegin;
use crate::storage::log::segment_reader::SegmentReader;
use crate::storage::log::segments::{own_segments, remove};
use crate::storage::log::tail::{Tail, judge};
use crate::storage::log::txn_log::epoch_of;
use crate::storage::replay::{Replay, SnapshotId, SnapshotOrigin};
use crate::storage::snapshot::reader;
use crate::storage::snapshot::reader::Loaded;

/// A snapshot of this server that another one is to have.
#[derive(Debug)]
pub struct SnapshotFile {
    path: PathBuf,
    file: Box<dyn DiskFile>,
}

impl SnapshotFile {
    /// Opens the snapshot of `zxid`. It can be read to its end even if it is purged meanwhile.
    ///
    /// # Errors
    /// When there is none, or the disk refuses.
    pub fn open(directory: &DataDirectory, zxid: i64) -> Result<Self, StorageError> {
        let mut files = directory.snapshot_files()?.into_iter();
        let path = files.find_map(|(found, path)| (found == zxid).then_some(path));
        let path = path.unwrap_or_else(|| plain_path(directory, zxid));
        let file = directory.disk().open(&path).during("open", &path)?;
        Ok(Self { path, file })
    }

    /// How it is packed: whoever receives it needs to know.
    #[must_use]
    pub fn compression(&self) -> Compression {
        Compression::of(&self.path)
    }

    /// Its length.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn size(&self) -> Result<u64, StorageError> {
        self.file.size().during("read", &self.path)
    }

    /// Fills `piece` with what stands at `offset`.
    ///
    /// # Errors
    /// When the disk refuses or the file ends before that.
    pub fn read(&self, piece: &mut [u8], offset: u64) -> Result<(), StorageError> {
        read_exact_at(self.file.as_ref(), piece, offset).during("read", &self.path)
    }
}

/// A snapshot on its way in; dropped before it is installed, it leaves nothing.
#[derive(Debug)]
pub struct ReceivedSnapshot {
    directory: Arc<DataDirectory>,
    zxid: i64,
    path: PathBuf,
    temporary: PathBuf,
    file: Box<dyn DiskFile>,
    offset: u64,
    /// Of that, what is not synced yet; under a slice between calls.
    unsynced: usize,
    /// The entry that it shows, once it was checked.
    shows: Option<u64>,
    installed: bool,
}

impl ReceivedSnapshot {
    /// Begins to receive the snapshot of `zxid`.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn create(
        directory: Arc<DataDirectory>,
        zxid: i64,
        compression: Compression,
    ) -> Result<Self, StorageError> {
        let folder = directory.snapshots();
        let path = folder.join(file_name::snapshot(zxid, compression));
        let number = directory.next_handover();
        let name = format!("{}.{number}{}", file_name::HANDOVER, compression.suffix());
        let temporary = folder.join(file_name::temporary(&name));
        let disk = directory.disk().as_ref();
        remove_if_there(disk, &temporary)?;
        let file = disk.create(&temporary, Access::Shared).during("create", &temporary)?;
        let (offset, unsynced, shows, installed) = (0, 0, None, false);
        Ok(Self { directory, zxid, path, temporary, file, offset, unsynced, shows, installed })
    }

    /// Adds what follows. Each slice is synced at once: one sync of the whole file would have the
    /// log's wait behind it. To be asked where nobody waits.
    ///
    /// # Errors
    /// When the disk refuses; the snapshot is to be dropped then.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), StorageError> {
        self.shows = None;
        while !bytes.is_empty() {
            let room = SLICE.saturating_sub(self.unsynced);
            let (piece, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            self.file.write_all_at(piece, self.offset).during("write", &self.temporary)?;
            self.offset = self.offset.saturating_add(piece.len() as u64);
            self.unsynced = self.unsynced.saturating_add(piece.len());
            if self.unsynced >= SLICE {
                self.file.sync_data().during("sync", &self.temporary)?;
                self.unsynced = 0;
            }
            bytes = rest;
        }
        Ok(())
    }

    /// How much has come.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.offset
    }

    /// Reads what came to its end into `replay`, as a start will: a whole snapshot of a server of
    /// ours, which shows the log's entry `index`. To be asked where nobody waits: it takes as long
    /// as a start.
    ///
    /// # Errors
    /// When it is none, `replay` refuses it, or the disk does. It is not to be installed then.
    pub fn check(&mut self, index: u64, replay: &mut dyn Replay) -> Result<(), StorageError> {
        self.shows = None;
        let disk = self.directory.disk().as_ref();
        let loaded = reader::load(disk, &self.temporary, self.zxid, replay)?;
        if loaded.id.origin != (SnapshotOrigin::Exact { index }) {
            return Err(StorageError::Refused {
                path: self.temporary.clone(),
                offset: 0,
                zxid: self.zxid,
                reason: format!("it is not the state at entry {index} of the log"),
            });
        }
        self.shows = Some(index);
        Ok(())
    }

    /// Whether a start can be made from it, which then has the log's entry `index`.
    #[must_use]
    pub fn shows(&self, index: u64) -> bool {
        self.shows == Some(index)
    }

    /// The zxid that the snapshot is to show.
    #[must_use]
    pub fn zxid(&self) -> i64 {
        self.zxid
    }

    /// Makes the snapshot durable under its name. The log that does not lead to it is then to go.
    ///
    /// # Errors
    /// When the disk refuses. The snapshot has its name or not.
    pub fn install(mut self) -> Result<(), StorageError> {
        self.file.sync_all().during("sync", &self.temporary)?;
        let disk = self.directory.disk();
        let renamed = disk.rename(&self.temporary, &self.path);
        renamed.during("rename a snapshot handed over to", &self.path)?;
        self.installed = true;
        let folder = self.directory.snapshots();
        disk.sync_folder(folder).during("sync the folder", folder)
    }
}

impl Drop for ReceivedSnapshot {
    fn drop(&mut self) {
        if !self.installed {
            // What cannot be removed now is removed at the next start.
            let _ = remove_if_there(self.directory.disk().as_ref(), &self.temporary);
        }
    }
}

/// Removes the log that the snapshot of `zxid`, which was handed over, takes the place of: one that
/// ends before it in order, or has another entry in its place. Any other one stays, for recovery to
/// judge. Tells which entry the snapshot shows; `None` if it is not there, or if it cannot be
/// loaded into `replay`: no start could be made from it.
///
/// # Errors
/// When the disk refuses.
pub fn discard_void_log(
    directory: &DataDirectory,
    zxid: i64,
    replay: &mut dyn Replay,
) -> Result<Option<u64>, StorageError> {
    let Some((path, index)) = handed_over(directory, zxid, replay)? else { return Ok(None) };
    let segments = match own_segments(directory) {
        // Nobody can tell what it holds.
        Err(StorageError::Header { .. }) => return Ok(Some(index)),
        segments => segments?,
    };
    if !is_void(directory, &segments, zxid, index)? {
        return Ok(Some(index));
    }
    tracing::info!(snapshot = %path.display(), "the log is replaced by a snapshot from the leader");
    take_back(directory)?;
    // The newest first: what is left is always void by the same rule.
    for begin in segments.iter().rev() {
        remove(directory, *begin)?;
    }
    Ok(Some(index))
}

/// Whether the snapshot of `zxid`, which was handed over, is there and can be loaded into `replay`.
/// What else has its name goes.
///
/// # Errors
/// When the disk refuses.
pub fn has_come(
    directory: &DataDirectory,
    zxid: i64,
    replay: &mut dyn Replay,
) -> Result<bool, StorageError> {
    if handed_over(directory, zxid, replay)?.is_some() {
        return Ok(true);
    }
    let (disk, folder) = (directory.disk().as_ref(), directory.snapshots());
    for (_, path) in directory.snapshot_files()?.into_iter().filter(|(of, _)| *of == zxid) {
        disk.remove(&path).during("remove", &path)?;
        disk.sync_folder(folder).during("sync the folder", folder)?;
    }
    Ok(false)
}

/// The snapshot of ours of this zxid from which a start can be made, with the index that it shows.
fn handed_over(
    directory: &DataDirectory,
    wanted: i64,
    replay: &mut dyn Replay,
) -> Result<Option<(PathBuf, u64)>, StorageError> {
    let disk = directory.disk().as_ref();
    for (zxid, path) in directory.snapshot_files()? {
        if zxid != wanted || !reader::looks_whole(disk, &path)? {
            continue;
        }
        match reader::load(disk, &path, zxid, replay) {
            Ok(Loaded {
                id: SnapshotId { origin: SnapshotOrigin::Exact { index }, .. }, ..
            }) => {
                return Ok(Some((path, index)));
            }
            Err(error @ (StorageError::Io { .. } | StorageError::LaterVersion { .. })) => {
                return Err(error);
            }
            Ok(_) | Err(_) => {}
        }
    }
    Ok(None)
}

fn plain_path(directory: &DataDirectory, zxid: i64) -> PathBuf {
    directory.snapshots().join(file_name::snapshot(zxid, Compression::None))
}

/// Whether the log certainly does not hold the snapshot's entry.
fn is_void(
    directory: &DataDirectory,
    segments: &[SegmentBegin],
    zxid: i64,
    index: u64,
) -> Result<bool, StorageError> {
    // The index of a segment can be wrong. So it does not tell alone.
    Ok(lacks_index(directory, segments, zxid, index)? && !may_hold(directory, segments, zxid)?)
}

/// Whether a record of the log has this zxid, as far as can be told.
fn may_hold(
    directory: &DataDirectory,
    segments: &[SegmentBegin],
    zxid: i64,
) -> Result<bool, StorageError> {
    for (at, begin) in segments.iter().enumerate() {
        let path = directory.log_path(begin.zxid);
        let reader = match SegmentReader::open(directory.disk().as_ref(), &path) {
            Err(StorageError::Header { .. }) => return Ok(true),
            reader => reader?,
        };
        let Some(mut reader) = reader else { continue };
        let mut last = begin.zxid;
        while let Ok(found) = reader.next()? {
            match zxid_of_payload(found.payload) {
                Some(found) if found != zxid => last = found,
                _ => return Ok(true),
            }
        }
        let end = reader.offset();
        let tail = judge(reader.window(), end, last).during("read", &path)?;
        // Only the last one may end in what was never synced.
        let is_last = at + 1 == segments.len();
        match tail {
            Tail::Clean => {}
            Tail::Torn { .. } if is_last => {}
            Tail::Torn { .. } | Tail::Damage { .. } => return Ok(true),
        }
    }
    Ok(false)
}

/// Whether another record is in the place of the snapshot's entry, or the log ends in order before
/// that.
fn lacks_index(
    directory: &DataDirectory,
    segments: &[SegmentBegin],
    zxid: i64,
    index: u64,
) -> Result<bool, StorageError> {
    let after = segments.partition_point(|segment| segment.index <= index);
    let Some(begin) = after.checked_sub(1).and_then(|at| segments.get(at)) else {
        return Ok(false);
    };
    let path = directory.log_path(begin.zxid);
    let reader = SegmentReader::open(directory.disk().as_ref(), &path)?;
    let Some(mut reader) = reader else { return Ok(false) };
    for at in begin.index..=index {
        let Ok(found) = reader.next()? else { break };
        let Some(found) = zxid_of_payload(found.payload) else { return Ok(false) };
        let is_same_term = epoch_of(found) == epoch_of(zxid);
        // In a term, zxids and indexes go on together: where they do not, the index is wrong, and
        // says nothing.
        if is_same_term && zxid.saturating_sub(found).cast_unsigned() != index - at {
            return Ok(false);
        }
        if at == index {
            return Ok(!is_same_term);
        }
    }
    let end = reader.offset();
    let is_end = judge(reader.window(), end, begin.zxid).during("read", &path)? == Tail::Clean;
    Ok(is_end && after == segments.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::fixture::Fixture;
    use crate::storage::log::txn_log::LogOptions;

    /// A sync of many megabytes looks like a disk that hangs, and the log's sync waits behind it.
    #[test]
    fn no_sync_of_a_snapshot_that_comes_covers_more_than_a_slice() {
        let fixture = Fixture::new(LogOptions::new(0, true));
        let directory = Arc::new(fixture.open());
        let mut received =
            ReceivedSnapshot::create(directory, 1, Compression::None).expect("begins");
        // Pieces as peers send them, without a limit of their pace and with one.
        for len in [256 << 10, 256 << 10, 50_000, 50_000, 50_000, 3 << 20, 1] {
            received.write(&vec![7; len]).expect("writes");
        }
        assert_eq!(received.size(), (512 << 10) + 150_000 + (3 << 20) + 1);
        received.install().expect("installed");
        let most = fixture.disk.most_synced();
        assert!(most <= SLICE, "{most} bytes by one sync");
    }
}
