//! Writes a snapshot file: header, the caller's stream, marks, seals and tails.
//!
//! The stream (sessions, ACLs, znodes, as ZooKeeper lays them out) comes encoded from the caller.
//! The file has its name only when all of it is synced, so a snapshot is whole or is not there.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::BufMut;
use jute::Record;
use jute::persist::{FILE_VERSION, FileHeader, SNAPSHOT_MAGIC, SnapshotDigest};
use simd_adler32::Adler32;

use crate::storage::compression::{Compression, Pack};
use crate::storage::disk::{Access, Disk, DiskFile, SLICE};
use crate::storage::error::{During, StorageError};
use crate::storage::files::atomic_file::remove_if_there;
use crate::storage::files::directory::DataDirectory;
use crate::storage::files::file_name;

/// A snapshot on its way to the disk; dropped before [`finish`](Self::finish), it leaves nothing.
pub struct SnapshotWriter {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    zxid: i64,
    name: String,
    temporary: PathBuf,
    file: Box<dyn DiskFile>,
    /// Content that is not packed yet; under a slice between calls.
    buffer: Vec<u8>,
    /// Its buffer is what is not written yet; under a slice between calls.
    pack: Pack,
    /// Bytes written.
    offset: u64,
    checksum: Adler32,
    /// Free space that is left to the log.
    reserve: u64,
    finished: bool,
}

impl SnapshotWriter {
    /// Begins the snapshot of the tree exactly at `zxid`, which has the log index `index`.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn create(
        directory: &DataDirectory,
        zxid: i64,
        index: u64,
        compression: Compression,
    ) -> Result<Self, StorageError> {
        let disk = Arc::clone(directory.disk());
        let folder = directory.snapshots().to_owned();
        let name = file_name::snapshot(zxid, compression);
        let temporary = folder.join(file_name::temporary(&name));
        remove_if_there(disk.as_ref(), &temporary)?;
        let file = disk.create(&temporary, Access::Shared).during("create", &temporary)?;
        let mut writer = Self {
            disk,
            folder,
            zxid,
            name,
            temporary,
            file,
            buffer: Vec::with_capacity(2 * SLICE),
            pack: Pack::new(compression),
            offset: 0,
            checksum: Adler32::new(),
            reserve: 0,
            finished: false,
        };
        let dbid = i64::try_from(index).unwrap_or(i64::MAX);
        writer.put(|out| {
            FileHeader { magic: SNAPSHOT_MAGIC, version: FILE_VERSION, dbid }.encode(out);
        })?;
        Ok(writer)
    }

    /// Leaves so much of the disk free: a snapshot that would need more is given up before it ends.
    #[must_use]
    pub fn with_reserve(mut self, bytes: u64) -> Self {
        self.reserve = bytes;
        self
    }

    /// Appends a piece of the stream.
    ///
    /// # Errors
    /// When the disk refuses; the snapshot is to be dropped then, the log is unharmed.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), StorageError> {
        while !bytes.is_empty() {
            let room = SLICE.saturating_sub(self.buffer.len()).min(bytes.len());
            let (piece, rest) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            self.put(|out| out.put_slice(piece))?;
            bytes = rest;
        }
        Ok(())
    }

    /// Ends the stream, seals it, and gives the file its name. Returns the length of the file.
    ///
    /// # Errors
    /// When the disk refuses; the snapshot is gone then, the log is unharmed.
    pub fn finish(self, digest: Option<SnapshotDigest>) -> Result<u64, StorageError> {
        self.complete(digest)?.publish()
    }

    /// Ends the stream and seals it: all of it is durable then, but for its name.
    ///
    /// Without a digest (`digest.enabled=false`) the tail with the last zxid is left out as well:
    /// ZooKeeper would take it for a digest.
    ///
    /// # Errors
    /// When the disk refuses; the snapshot is gone then, the log is unharmed.
    pub fn complete(
        mut self,
        digest: Option<SnapshotDigest>,
    ) -> Result<CompleteSnapshot, StorageError> {
        self.put(|out| out.put_slice(b"\0\0\0\x01/"))?;
        self.seal()?;
        if let Some(digest) = digest {
            self.put(|out| digest.encode(out))?;
            self.seal()?;
            let zxid = self.zxid;
            self.put(|out| out.put_i64(zxid))?;
            self.seal()?;
        }
        self.pack_buffer()?;
        self.pack.finish().during("pack", &self.temporary)?;
        self.flush()?;
        self.file.sync_all().during("sync", &self.temporary)?;
        Ok(CompleteSnapshot(self))
    }

    /// The checksum of all bytes so far, and ZooKeeper's mark after it.
    fn seal(&mut self) -> Result<(), StorageError> {
        let checksum = i64::from(self.checksum.finish());
        self.put(|out| {
            out.put_i64(checksum);
            out.put_slice(b"\0\0\0\x01/");
        })
    }

    fn put(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), StorageError> {
        let before = self.buffer.len();
        encode(&mut self.buffer);
        self.checksum.write(self.buffer.get(before..).unwrap_or_default());
        if self.buffer.len() < SLICE {
            return Ok(());
        }
        self.pack_buffer()?;
        let len = self.pack.buffer().len() as u64;
        if len < SLICE as u64 {
            return Ok(());
        }
        let free = self.disk.free_space(&self.folder);
        let free = free.during("look for free space in", &self.folder)?;
        if free < self.reserve.saturating_add(len) {
            return Err(StorageError::NoRoom { folder: self.folder.clone(), free });
        }
        self.flush()
    }

    fn pack_buffer(&mut self) -> Result<(), StorageError> {
        self.pack.write(&self.buffer).during("pack", &self.temporary)?;
        self.buffer.clear();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        let packed = self.pack.buffer();
        self.file.write_all_at(packed, self.offset).during("write", &self.temporary)?;
        self.file.sync_data().during("sync", &self.temporary)?;
        self.offset = self.offset.saturating_add(packed.len() as u64);
        packed.clear();
        Ok(())
    }
}

/// A whole snapshot without its name; dropped, it leaves nothing.
#[derive(Debug)]
pub struct CompleteSnapshot(SnapshotWriter);

impl CompleteSnapshot {
    /// Gives the file its name, durably. Returns its length.
    ///
    /// # Errors
    /// When the disk refuses: whether it has its name is then not known.
    pub fn publish(self) -> Result<u64, StorageError> {
        let Self(mut writer) = self;
        let path = writer.folder.join(&writer.name);
        writer.disk.rename(&writer.temporary, &path).during("rename a new snapshot to", &path)?;
        writer.finished = true;
        writer.disk.sync_folder(&writer.folder).during("sync the folder", &writer.folder)?;
        Ok(writer.offset)
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.finished {
            // What cannot be removed now is removed at the next start.
            let _ = remove_if_there(self.disk.as_ref(), &self.temporary);
        }
    }
}

impl std::fmt::Debug for SnapshotWriter {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SnapshotWriter")
            .field("temporary", &self.temporary)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}
