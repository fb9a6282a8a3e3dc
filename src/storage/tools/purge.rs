//! Removes snapshots and logs that no start needs any more.
//!
//! Keeps the newest snapshots that a start could be made from, and every log that one of them
//! needs. One counts when it was read to its end, the start has not passed over it, and the log
//! leads from it to the newest. A member starts from none of ZooKeeper's, so they do not count
//! there. Never removes what ZooKeeper wrote before the directory is sealed, nor what it cannot
//! read: that stays, is told of once, and stops nothing.

mod way;

use std::collections::BTreeSet;
use std::io::ErrorKind::NotFound;
use std::path::Path;

use self::way::Way;
use crate::message::MessageId;
use crate::storage::disk::{Disk, Stamp};
use crate::storage::error::{During, StorageError};
use crate::storage::files::directory::DataDirectory;
use crate::storage::files::file_name::{FileName, RAFT_STATE, SEALED};
use crate::storage::files::seal;
use crate::storage::log::audit::Writer;
use crate::storage::log::segment_reader::{SegmentOrigin, SegmentReader};
use crate::storage::recovery::examine::writers;
use crate::storage::replay::{Nothing, SnapshotId, SnapshotOrigin};
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

/// Keeps the newest `keep` snapshots that count (at least one) and the logs that they need.
///
/// # Errors
/// When a folder cannot be listed or synced; what is kept is whole all the same.
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
    let disk = directory.disk().as_ref();
    let mut purge = Purge { directory, disk, purged: Purged::default() };
    purge.forget_what_is_gone()?;
    // It takes long, and what is proven now is not less later.
    if let Some(oldest_kept) = purge.oldest_kept(keep.max(1))? {
        let _kept_from_others = directory.keep_files();
        let sealed = purge.sealed();
        purge.remove_snapshots(oldest_kept, sealed)?;
        purge.remove_logs(oldest_kept, wanted, sealed)?;
    }
    Ok(purge.purged)
}

/// A purge under way.
struct Purge<'a> {
    directory: &'a DataDirectory,
    disk: &'a dyn Disk,
    purged: Purged,
}

impl Purge<'_> {
    fn forget_what_is_gone(&self) -> Result<(), StorageError> {
        let snapshots = self.directory.snapshot_files()?.into_iter().map(|(_, path)| path);
        let mut there: BTreeSet<_> = snapshots.collect();
        let logs = self.directory.log_zxids()?;
        there.extend(logs.into_iter().map(|zxid| self.directory.log_path(zxid)));
        there.insert(self.directory.snapshots().join(SEALED));
        self.directory.findings().keep_only(&there);
        Ok(())
    }

    /// The zxid of the last of the newest `keep` snapshots that count; `None` if there are fewer.
    /// Where the log does not lead on from older ones, as many of these stay as would count: they
    /// are all that there is beside the newest, but nobody needs each that was ever there.
    fn oldest_kept(&self, keep: usize) -> Result<Option<i64>, StorageError> {
        let folder = self.directory.snapshots();
        let names = self.disk.list(folder).during("list", folder)?;
        let is_members = names.iter().any(|name| name == RAFT_STATE);
        let (mut counted, mut cut_off) = (0_usize, 0_usize);
        let mut way = None;
        for (zxid, path) in self.directory.snapshot_files()? {
            let Some(snapshot) = self.proven(zxid, &path) else { continue };
            if is_members && snapshot.origin == SnapshotOrigin::Java {
                continue;
            }
            let leads = match &mut way {
                Some(way) => self.leads_from(way, snapshot),
                None => {
                    way = Some(Way::back_from(self.directory, snapshot)?);
                    true
                }
            };
            let count = if leads { &mut counted } else { &mut cut_off };
            *count = count.saturating_add(1);
            if *count == keep {
                return Ok(Some(zxid));
            }
        }
        Ok(None)
    }

    /// Which snapshot it is, if a start could be made from it.
    fn proven(&self, zxid: i64, path: &Path) -> Option<SnapshotId> {
        if self.directory.is_useless(path) {
            return None;
        }
        self.prove(zxid, path).unwrap_or_else(|error| {
            self.keep(path, &error);
            None
        })
    }

    fn prove(&self, zxid: i64, path: &Path) -> Result<Option<SnapshotId>, StorageError> {
        let findings = self.directory.findings();
        let stamp = stamp(self.disk, path)?;
        if let Some(found) = findings.snapshot(path, stamp) {
            return Ok(found);
        }
        let id = match reader::load(self.disk, path, zxid, &mut Nothing) {
            Ok(loaded) => loaded.id,
            // A disk that fails says nothing about the snapshot.
            Err(error @ StorageError::Io { .. }) => return Err(error),
            Err(error) => {
                findings.set_snapshot(path, stamp, None);
                return Err(error);
            }
        };
        // ZooKeeper does not sync its snapshots; what is only in memory proves nothing, and after a
        // sync that failed no other one writes it.
        let file = self.disk.open_for_write(path).during("open", path)?;
        let synced = file.sync_all().during("sync", path);
        findings.set_snapshot(path, stamp, synced.is_ok().then_some(id));
        synced.map(|()| Some(id))
    }

    fn leads_from(&self, way: &mut Way, snapshot: SnapshotId) -> bool {
        way.leads_from(self.directory, snapshot).unwrap_or_else(|(path, error)| {
            self.keep(&path, &error);
            false
        })
    }

    /// Up to which zxid ZooKeeper's files may go.
    fn sealed(&self) -> Option<i64> {
        let folder = self.directory.snapshots();
        seal::sealed_up_to(self.disk, folder).unwrap_or_else(|error| {
            self.keep(&folder.join(SEALED), &error);
            None
        })
    }

    fn remove_snapshots(
        &mut self,
        oldest_kept: i64,
        sealed: Option<i64>,
    ) -> Result<(), StorageError> {
        let folder = self.directory.snapshots();
        for (zxid, path) in self.directory.snapshot_files()? {
            if zxid >= oldest_kept {
                continue;
            }
            let writer = match reader::origin(self.disk, &path) {
                Ok(Some(origin)) => Ok(SnapshotOrigin::writer(origin)),
                Ok(None) => Err(StorageError::Header { path: path.clone(), expected: "snapshot" }),
                Err(error) => Err(error),
            };
            let is_gone = self.remove(&path, writer, sealed.is_some_and(|sealed| zxid <= sealed));
            self.purged.snapshots = self.purged.snapshots.saturating_add(is_gone.into());
        }
        // The logs go only when no snapshot can come back that needs them, of an earlier purge
        // either.
        self.disk.sync_folder(folder).during("sync the folder", folder)
    }

    fn remove_logs(
        &mut self,
        oldest_kept: i64,
        wanted: Option<i64>,
        sealed: Option<i64>,
    ) -> Result<(), StorageError> {
        let folder = self.directory.logs();
        let logs = self.directory.log_zxids()?;
        let mut needed = begins_at_or_before(&logs, oldest_kept);
        if let Some(wanted) = wanted {
            let wanted = begins_at_or_before(&logs, wanted);
            needed = needed.min(wanted.max(last_bytes(self.directory, &logs, WANTED_MAX)));
        }
        for zxid in logs.into_iter().take(needed) {
            let path = self.directory.log_path(zxid);
            let writer = match SegmentReader::open(self.disk, &path) {
                Ok(Some(reader)) => Ok(SegmentOrigin::writer(reader.origin())),
                // Nothing is in it.
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            let is_gone = self.remove(&path, writer, sealed.is_some_and(|sealed| zxid <= sealed));
            self.purged.logs = self.purged.logs.saturating_add(is_gone.into());
        }
        match self.purged.logs {
            0 => Ok(()),
            _ => self.disk.sync_folder(folder).during("sync the folder", folder),
        }
    }

    /// Removes a file, unless it is ZooKeeper's and not released, or cannot be read or removed.
    fn remove(
        &mut self,
        path: &Path,
        writer: Result<Writer, StorageError>,
        is_released: bool,
    ) -> bool {
        let removed = match writer {
            Ok(Writer::ZooKeeper) if !is_released => {
                size(self.disk, path).map(|size| self.purged.count_unsealed(size))
            }
            Ok(_) => match self.disk.remove(path) {
                Err(error) if error.kind() == NotFound => return false,
                removed => removed.during("remove", path).map(|()| true),
            },
            Err(error) => Err(error),
        };
        removed.unwrap_or_else(|error| {
            self.keep(path, &error);
            false
        })
    }

    /// Tells of a file that stays because of this.
    fn keep(&self, path: &Path, error: &StorageError) {
        if self.directory.findings().is_told_first(path) {
            tracing::warn!(
                id = %MessageId::PURGE_KEEPS_FILE,
                file = %path.display(),
                %error,
                "the purge of old files keeps a file that it cannot read or remove, and goes on \
                 without it"
            );
        }
    }
}

impl Purged {
    /// Counts a file that stays for ZooKeeper: it may not go.
    const fn count_unsealed(&mut self, bytes: u64) -> bool {
        self.unsealed_bytes = self.unsealed_bytes.saturating_add(bytes);
        false
    }
}

/// Which of these is the newest that begins at or before `zxid`: it can reach beyond it.
fn begins_at_or_before(logs: &[i64], zxid: i64) -> usize {
    logs.partition_point(|begins| *begins <= zxid).saturating_sub(1)
}

/// From which of these on they have no more than so many bytes, as far as they can be told.
fn last_bytes(directory: &DataDirectory, logs: &[i64], most: u64) -> usize {
    let mut bytes = 0_u64;
    for (at, zxid) in logs.iter().enumerate().rev() {
        let its = size(directory.disk().as_ref(), &directory.log_path(*zxid));
        bytes = bytes.saturating_add(its.unwrap_or(0));
        if bytes > most {
            return at + 1;
        }
    }
    0
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

fn stamp(disk: &dyn Disk, path: &Path) -> Result<Stamp, StorageError> {
    disk.open(path).and_then(|file| file.stamp()).during("open", path)
}

#[cfg(test)]
#[path = "purge_test.rs"]
mod purge_test;
