//! Removes snapshots and logs that no start needs any more.
//!
//! Keeps the newest snapshots that are proven whole, seal included, and that the start has not
//! passed over, and every log that one of them needs. A member starts from none of ZooKeeper's, so
//! they do not count there. Never removes what ZooKeeper wrote before the directory is sealed, nor
//! what it cannot read.

use std::path::Path;

use crate::storage::disk::Disk;
use crate::storage::error::{During, StorageError};
use crate::storage::files::directory::DataDirectory;
use crate::storage::files::file_name::{FileName, RAFT_STATE};
use crate::storage::files::seal;
use crate::storage::log::audit::Writer;
use crate::storage::log::segment_reader::{SegmentOrigin, SegmentReader};
use crate::storage::recovery::examine::writers;
use crate::storage::replay::SnapshotOrigin;
use crate::storage::snapshot::reader;

/// Bytes of log that stay for others, beside those that a snapshot needs.
const WANTED_MAX: u64 = 1 << 30;

/// What a purge removed, and what it would have removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Snapshots.
    pub snapshots: usize,
    /// Logs.
    pub logs: usize,
    /// Bytes of ZooKeeper's files that are as old, and stay until the directory is sealed.
    pub unsealed_bytes: u64,
}

/// Keeps the newest `keep` valid snapshots (at least one) and the logs that they need.
///
/// # Errors
/// When the disk refuses; what is kept is whole all the same.
pub fn purge(directory: &DataDirectory, keep: usize) -> Result<Purged, StorageError> {
    purge_behind(directory, keep, None)
}

/// The same for a log from which others take what they lack: it stays from the transaction `wanted`
/// on too, as far as that is no more than 1 GiB.
///
/// # Errors
/// As those of [`purge`].
pub fn purge_behind(
    directory: &DataDirectory,
    keep: usize,
    wanted: Option<i64>,
) -> Result<Purged, StorageError> {
    let mut purged = Purged::default();
    // It takes long, and what is proven now is not less later.
    let Some(oldest_kept) = oldest_kept(directory, keep.max(1))? else { return Ok(purged) };
    let _kept_from_others = directory.keep_files();
    let disk = directory.disk().as_ref();
    let sealed = seal::sealed_up_to(disk, directory.snapshots())?;
    let is_released = |zxid| sealed.is_some_and(|sealed| zxid <= sealed);
    for (zxid, path) in directory.snapshot_files()? {
        if zxid >= oldest_kept {
            continue;
        }
        let may_go = match reader::origin(disk, &path)? {
            Some(SnapshotOrigin::Exact { .. }) => true,
            Some(SnapshotOrigin::Java) => is_released(zxid) || purged.leave(disk, &path)?,
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
    let mut needed = begins_at_or_before(&logs, oldest_kept);
    if let Some(wanted) = wanted {
        let wanted = begins_at_or_before(&logs, wanted);
        needed = needed.min(wanted.max(last_bytes(directory, &logs, WANTED_MAX)?));
    }
    for zxid in logs.into_iter().take(needed) {
        let path = directory.log_path(zxid);
        let origin = match SegmentReader::open(disk, &path) {
            Ok(reader) => reader.map(|reader| reader.origin()),
            Err(StorageError::Header { .. }) => None,
            Err(error) => return Err(error),
        };
        let may_go = match origin {
            Some(SegmentOrigin::Own { .. }) => true,
            Some(SegmentOrigin::Java) => is_released(zxid) || purged.leave(disk, &path)?,
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

/// Which of these is the newest that begins at or before `zxid`: it can reach beyond it.
fn begins_at_or_before(logs: &[i64], zxid: i64) -> usize {
    logs.partition_point(|begins| *begins <= zxid).saturating_sub(1)
}

/// From which of these on they have no more than so many bytes.
fn last_bytes(directory: &DataDirectory, logs: &[i64], most: u64) -> Result<usize, StorageError> {
    let mut bytes = 0_u64;
    for (at, zxid) in logs.iter().enumerate().rev() {
        bytes = bytes.saturating_add(size(directory.disk().as_ref(), &directory.log_path(*zxid))?);
        if bytes > most {
            return Ok(at + 1);
        }
    }
    Ok(0)
}

impl Purged {
    /// Counts a file that stays for ZooKeeper: it may not go.
    fn leave(&mut self, disk: &dyn Disk, path: &Path) -> Result<bool, StorageError> {
        self.unsealed_bytes = self.unsealed_bytes.saturating_add(size(disk, path)?);
        Ok(false)
    }
}

/// Bytes of all files that ZooKeeper wrote and that no purge removes before the directory is
/// sealed.
///
/// # Errors
/// When the disk fails, or the seal cannot be read.
pub fn unsealed_bytes(directory: &DataDirectory) -> Result<u64, StorageError> {
    let disk = directory.disk().as_ref();
    let sealed = seal::sealed_up_to(disk, directory.snapshots())?;
    let mut bytes = 0_u64;
    for (path, writer) in writers(directory)? {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let (FileName::Log(zxid) | FileName::Snapshot(zxid, _)) = FileName::parse(name) else {
            continue;
        };
        if writer == Some(Writer::ZooKeeper) && sealed.is_none_or(|sealed| zxid > sealed) {
            bytes = bytes.saturating_add(size(disk, &path)?);
        }
    }
    Ok(bytes)
}

fn size(disk: &dyn Disk, path: &Path) -> Result<u64, StorageError> {
    disk.open(path).and_then(|file| file.size()).during("open", path)
}

/// The zxid of the last of the newest `keep` valid snapshots; `None` if there are fewer.
fn oldest_kept(directory: &DataDirectory, keep: usize) -> Result<Option<i64>, StorageError> {
    let (disk, folder) = (directory.disk().as_ref(), directory.snapshots());
    let names = disk.list(folder).during("list", folder)?;
    let is_members = names.iter().any(|name| name == RAFT_STATE);
    let is_foreign = |path: &Path| match is_members {
        true => Ok(reader::origin(disk, path)? == Some(SnapshotOrigin::Java)),
        false => Ok::<_, StorageError>(false),
    };
    let mut valid = 0_usize;
    for (zxid, path) in directory.snapshot_files()? {
        if directory.is_useless(&path)
            || !reader::looks_whole(disk, &path)?
            || is_foreign(&path)?
            || !reader::seal_matches(disk, &path)?
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
