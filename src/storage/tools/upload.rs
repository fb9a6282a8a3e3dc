//! A snapshot that an operator sends to a running server: written under a temporary name, read from
//! there, and gone then.

use std::path::PathBuf;
use std::sync::Arc;

use crate::storage::disk::{Access, DiskFile, SLICE};
use crate::storage::error::{During, SnapshotReason, StorageError};
use crate::storage::files::atomic_file::remove_if_there;
use crate::storage::files::directory::DataDirectory;
use crate::storage::files::file_name;
use crate::storage::replay::{Nothing, Replay};
use crate::storage::snapshot::reader;
use crate::storage::snapshot::reader::Loaded;

/// A snapshot on its way in, not packed. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct UploadedSnapshot {
    directory: Arc<DataDirectory>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    len: u64,
    /// Bytes for which there was room when that was looked at last.
    room: u64,
    /// Free space that is left to the log.
    reserve: u64,
}

impl UploadedSnapshot {
    /// Begins to receive one. So much of the disk is left free.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn create(directory: Arc<DataDirectory>, reserve: u64) -> Result<Self, StorageError> {
        let name = format!("{}.{}", file_name::UPLOAD, directory.next_handover());
        let path = directory.snapshots().join(file_name::temporary(&name));
        let disk = directory.disk().as_ref();
        remove_if_there(disk, &path)?;
        let file = disk.create(&path, Access::Private).during("create", &path)?;
        Ok(Self { directory, path, file, len: 0, room: 0, reserve })
    }

    /// Refuses what there is no room for: so many bytes are to come.
    ///
    /// # Errors
    /// When they would take what is left to the log, or the disk does not say.
    pub fn expect(&self, bytes: u64) -> Result<(), StorageError> {
        let folder = self.directory.snapshots();
        let free = self.directory.disk().free_space(folder);
        let free = free.during("look for free space in", folder)?;
        match free < self.reserve.saturating_add(bytes) {
            true => Err(StorageError::NoRoom { folder: folder.to_owned(), free }),
            false => Ok(()),
        }
    }

    /// Adds what follows.
    ///
    /// # Errors
    /// When there is no room for it, or the disk refuses.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let count = bytes.len() as u64;
        if self.room < count {
            let wanted = count.max(SLICE as u64);
            self.expect(wanted)?;
            self.room = wanted;
        }
        self.file.write_all_at(bytes, self.len).during("write", &self.path)?;
        self.len = self.len.saturating_add(count);
        self.room = self.room.saturating_sub(count);
        Ok(())
    }

    /// How much has come.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.len
    }

    /// Reads it into `replay`, having made sure that it is whole. Gives the zxid that it shows,
    /// which it says itself; one that does not say so, that of its newest change.
    ///
    /// # Errors
    /// When it is no whole snapshot, `replay` refuses it, or the disk fails.
    pub fn load(self, replay: &mut dyn Replay) -> Result<i64, StorageError> {
        let disk = self.directory.disk().as_ref();
        let Loaded { newest, stated, .. } = reader::load(disk, &self.path, 0, &mut Nothing)?;
        let zxid = stated.unwrap_or(0).max(newest);
        // The next ones have to be greater.
        if zxid >= i64::MAX >> 1 {
            let (path, offset) = (self.path.clone(), self.len);
            return Err(StorageError::Snapshot { path, offset, reason: SnapshotReason::Tail });
        }
        reader::load(disk, &self.path, zxid, replay)?;
        Ok(zxid)
    }
}

impl Drop for UploadedSnapshot {
    fn drop(&mut self) {
        // What cannot be removed now is removed at the next start.
        let _ = remove_if_there(self.directory.disk().as_ref(), &self.path);
    }
}
