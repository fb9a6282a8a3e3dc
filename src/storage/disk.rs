//! The seam between storage and the operating system.
//!
//! Owns the two traits through which every byte of storage reaches a disk, so that tests can put
//! a disk there that loses, tears and refuses writes. It knows nothing of logs or snapshots.

pub(super) mod window;

use std::fmt::Debug;
use std::io;
use std::path::Path;

mod kept_descriptors;
mod owner;
mod real;
#[cfg(test)]
pub(crate) mod sim;

pub use owner::ToolDisk;
pub use real::RealDisk;

/// Bytes that a spare or a snapshot writes and syncs at a time: the log's sync queues behind them.
pub(crate) const SLICE: usize = 128 << 10;

/// Folders and the files in them.
///
/// Nothing here is durable by itself: a created, renamed or removed name is durable after
/// [`Disk::sync_folder`], and the content of a file after [`DiskFile::sync_data`].
pub trait Disk: Debug + Send + Sync {
    /// Names of the files in `folder`, sorted; folders inside are left out.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Creates `folder` and what is missing above it, durably.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;

    /// The same for a folder that is to take the place of `replaced`, if that is there.
    fn create_folder_for(&self, folder: &Path, _replaced: &Path) -> io::Result<()> {
        self.create_folder(folder)
    }

    /// Creates a file that must not exist yet, for reading and writing.
    fn create(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file for reading only.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file for reading and writing.
    fn open_for_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file, replacing one that has the new name, or a folder.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives two folders each other's names, both or neither; `Unsupported` where the file system
    /// cannot.
    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in `folder` durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// Bytes that this process may still write to the file system of `folder`.
    fn free_space(&self, folder: &Path) -> io::Result<u64>;

    /// Takes the lock file at `path` and writes `note` into it; held until the value is dropped.
    fn lock(&self, path: &Path, note: &str) -> io::Result<LockAttempt>;
}

/// One open file. Every access names its offset; there is no cursor.
pub trait DiskFile: Debug + Send {
    /// The length of the file in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Whether `path` still names this file.
    fn is_at(&self, path: &Path) -> io::Result<bool>;

    /// Which file this is and what was done to it last.
    fn stamp(&self) -> io::Result<Stamp>;

    /// Reads up to `buffer.len()` bytes; 0 is the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes all of `bytes`, growing the file if needed.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes the content durable, and of the metadata what is needed to read it (fdatasync).
    fn sync_data(&self) -> io::Result<()>;

    /// Makes content and all metadata durable (fsync).
    fn sync_all(&self) -> io::Result<()>;
}

/// Which file it is and when it was changed last: while that is the same, so is its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The number of its disk, and its own there.
    pub file: (u64, u64),
    /// Its length.
    pub len: u64,
    /// When it was changed: seconds and what is left of them, or any number that only grows.
    pub changed: (i64, i64),
}

/// Who may read a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As the umask says.
    Shared,
    /// The owner only (0600), for secrets.
    Private,
}

/// What came of an attempt to lock.
#[derive(Debug)]
pub enum LockAttempt {
    /// The lock is held for as long as this value lives.
    Taken(Box<dyn Lock>),
    /// Another process holds it; its note, as far as it could be read.
    Held(String),
}

/// A held lock; dropping it gives the lock back.
pub trait Lock: Debug + Send + Sync {}

/// Fills `buffer` from `offset`; fails with `UnexpectedEof` where the file ends before that.
pub(crate) fn read_exact_at(
    file: &dyn DiskFile,
    mut buffer: &mut [u8],
    mut offset: u64,
) -> io::Result<()> {
    while !buffer.is_empty() {
        let count = file.read_at(buffer, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = buffer.get_mut(count..).unwrap_or_default();
        offset = offset.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
    }
    Ok(())
}
