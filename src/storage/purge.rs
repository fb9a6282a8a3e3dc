//! Removes snapshots and logs that no start needs any more.
//!
//! Keeps the newest snapshots that are proven whole, seal included, and every log that one of them
//! needs. Never removes what ZooKeeper wrote before the directory is sealed, nor what it cannot read.

use super::directory::DataDirectory;
use super::error::{During, StorageError};
use super::replay::SnapshotOrigin;
use super::seal;
use super::segment_reader::{Origin, SegmentReader};
use super::snapshot_reader;

/// What a purge removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Snapshots.
    pub snapshots: usize,
    /// Logs.
    pub logs: usize,
}

/// Keeps the newest `keep` valid snapshots (at least one) and the logs that they need.
///
/// # Errors
/// When the disk refuses; what is kept is whole all the same.
pub fn purge(directory: &DataDirectory, keep: usize) -> Result<Purged, StorageError> {
    let mut purged = Purged::default();
    let Some(oldest_kept) = oldest_kept(directory, keep.max(1))? else { return Ok(purged) };
    let disk = directory.disk().as_ref();
    let sealed = seal::sealed_up_to(disk, directory.snapshots())?;
    let is_released = |zxid| sealed.is_some_and(|sealed| zxid <= sealed);
    for (zxid, path) in directory.snapshot_files()? {
        if zxid >= oldest_kept {
            continue;
        }
        let may_go = match snapshot_reader::origin(disk, &path)? {
            Some(SnapshotOrigin::Exact { .. }) => true,
            Some(SnapshotOrigin::Java) => is_released(zxid),
            Some(SnapshotOrigin::None) | None => false,
        };
        if may_go {
            disk.remove(&path).during("remove", &path)?;
            purged.snapshots = purged.snapshots.saturating_add(1);
        }
    }
    if purged.snapshots > 0 {
        // The logs go only when no snapshot can come back that needs them.
        disk.sync_folder(directory.snapshots()).during("sync the folder", directory.snapshots())?;
    }
    let logs = directory.log_zxids()?;
    // The newest log that begins at or before the snapshot can reach beyond it.
    let needed = logs.partition_point(|zxid| *zxid <= oldest_kept).saturating_sub(1);
    for zxid in logs.into_iter().take(needed) {
        let path = directory.log_path(zxid);
        let origin = match SegmentReader::open(disk, &path) {
            Ok(reader) => reader.map(|reader| reader.origin()),
            Err(StorageError::Header { .. }) => None,
            Err(error) => return Err(error),
        };
        let may_go = match origin {
            Some(Origin::Own { .. }) => true,
            Some(Origin::Java) => is_released(zxid),
            None => false,
        };
        if may_go {
            disk.remove(&path).during("remove", &path)?;
            purged.logs = purged.logs.saturating_add(1);
        }
    }
    if purged.logs > 0 {
        disk.sync_folder(directory.logs()).during("sync the folder", directory.logs())?;
    }
    Ok(purged)
}

/// The zxid of the last of the newest `keep` valid snapshots; `None` if there are fewer.
fn oldest_kept(directory: &DataDirectory, keep: usize) -> Result<Option<i64>, StorageError> {
    let disk = directory.disk().as_ref();
    let mut valid = 0_usize;
    for (zxid, path) in directory.snapshot_files()? {
        if !snapshot_reader::looks_whole(disk, &path)?
            || !snapshot_reader::seal_matches(disk, &path)?
        {
            continue;
        }
        // ZooKeeper does not sync its snapshots; what is only in memory proves nothing.
        let file = disk.open_for_write(&path).during("open", &path)?;
        file.sync_all().during("sync", &path)?;
        valid = valid.saturating_add(1);
        if valid == keep {
            return Ok(Some(zxid));
        }
    }
    Ok(None)
}

#[cfg(test)]
#[path = "purge_test.rs"]
mod purge_test;
