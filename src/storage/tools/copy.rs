//! Copies of files of a data directory into a folder where none are, each synced, with its SHA-256.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::storage::disk::{Access, Disk, DiskFile, read_exact_at};
use crate::storage::error::{During, StorageError};
use crate::storage::files::file_name;

/// Bytes copied at a time.
const PIECE: u64 = 1 << 20;

/// A file that was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// Its name, the same in both folders.
    pub name: String,
    /// Its length; that of the copy, where the end was left out.
    pub len: u64,
    /// The SHA-256 of the copy.
    pub sha256: [u8; 32],
}

/// Writes into one folder.
pub(crate) struct Copier<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    copied: Vec<Copied>,
    progress: &'a mut dyn FnMut(u64),
}

impl<'a> Copier<'a> {
    /// `progress` gets the bytes of each piece.
    pub(crate) fn new(
        disk: &'a dyn Disk,
        folder: &'a Path,
        progress: &'a mut dyn FnMut(u64),
    ) -> Self {
        Self { disk, folder, copied: Vec::new(), progress }
    }

    /// Copies the first `len` bytes of `from`, which is at `path`.
    pub(crate) fn copy(
        &mut self,
        from: &dyn DiskFile,
        path: &Path,
        name: &str,
        len: u64,
    ) -> Result<(), StorageError> {
        let access = if name == file_name::SESSION_KEY { Access::Private } else { Access::Shared };
        let target = self.folder.join(name);
        let file = self.disk.create(&target, access).during("create", &target)?;
        let mut sum = Sha256::new();
        let mut offset = 0;
        let mut piece = Vec::new();
        while offset < len {
            let count = PIECE.min(len.saturating_sub(offset));
            piece.resize(usize::try_from(count).unwrap_or_default(), 0);
            read_exact_at(from, &mut piece, offset).during("read", path)?;
            file.write_all_at(&piece, offset).during("write", &target)?;
            sum.update(&piece);
            offset = offset.saturating_add(count);
            (self.progress)(count);
        }
        file.sync_all().during("sync", &target)?;
        self.copied.push(Copied { name: name.to_owned(), len, sha256: sum.finalize().into() });
        Ok(())
    }

    /// Copies a whole file if it exists.
    pub(crate) fn copy_if_there(&mut self, folder: &Path, name: &str) -> Result<(), StorageError> {
        let path = folder.join(name);
        let file = match self.disk.open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => other.during("open", &path)?,
        };
        let len = file.size().during("read", &path)?;
        self.copy(file.as_ref(), &path, name, len)
    }

    /// Makes an empty file, which tells by being there.
    pub(crate) fn mark(&mut self, name: &str) -> Result<(), StorageError> {
        let target = self.folder.join(name);
        let file = self.disk.create(&target, Access::Shared).during("create", &target)?;
        file.sync_all().during("sync", &target)?;
        let sha256 = Sha256::new().finalize().into();
        self.copied.push(Copied { name: name.to_owned(), len: 0, sha256 });
        Ok(())
    }

    /// Makes the names durable.
    pub(crate) fn finish(self) -> Result<Vec<Copied>, StorageError> {
        self.disk.sync_folder(self.folder).during("sync the folder", self.folder)?;
        Ok(self.copied)
    }
}

/// The SHA-256 and the length of a file.
///
/// # Errors
/// When it cannot be read.
pub fn sha256(
    disk: &dyn Disk,
    path: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<(u64, [u8; 32]), StorageError> {
    let file = disk.open(path).during("open", path)?;
    let len = file.size().during("read", path)?;
    let mut sum = Sha256::new();
    let mut offset = 0;
    let mut piece = Vec::new();
    while offset < len {
        let count = PIECE.min(len.saturating_sub(offset));
        piece.resize(usize::try_from(count).unwrap_or_default(), 0);
        read_exact_at(file.as_ref(), &mut piece, offset).during("read", path)?;
        sum.update(&piece);
        offset = offset.saturating_add(count);
        progress(count);
    }
    Ok((len, sum.finalize().into()))
}
