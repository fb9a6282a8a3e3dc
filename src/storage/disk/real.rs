//! The disk of the operating system, through `std::fs`.
//!
//! What it makes belongs to whom this process runs as. A server gives nothing away, not even as
//! root: in a container, it may have the right to give its files away and none to use them then.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::kept_descriptors::with_one;
use super::{Access, Disk, DiskFile, Lock, LockAttempt, Stamp};

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in with_one(|| std::fs::read_dir(folder))? {
            let entry = entry?;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => continue,
                // It is gone by now.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                // Whoever opens it is told what is wrong with it.
                Ok(_) | Err(_) => {}
            }
            // No file of a data directory has a name outside of UTF-8, so such a one is not ours.
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        create_folder(folder, &|folder| std::fs::create_dir(folder))
    }

    fn create(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(create_file(path, access)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(with_one(|| File::open(path))?)))
    }

    fn open_for_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        Ok(Box::new(RealFile(with_one(|| options.open(path))?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
            Err(Errno::INVAL | Errno::NOSYS) => Err(io::ErrorKind::Unsupported.into()),
            done => Ok(done?),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        with_one(|| File::open(folder))?.sync_all()
    }

    fn free_space(&self, folder: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(folder)?;
        // What only root may use does not count.
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn lock(&self, path: &Path, note: &str) -> io::Result<LockAttempt> {
        lock(path, note, create_file)
    }
}

/// Creates `folder` and what is missing above it, durably, each with `make`.
pub(super) fn create_folder(
    folder: &Path,
    make: &dyn Fn(&Path) -> io::Result<()>,
) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    if let Some(above) = above {
        create_folder(above, make)?;
    }
    match make(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
        made => made?,
    }
    RealDisk.sync_folder(above.unwrap_or_else(|| Path::new(".")))
}

/// Creates a file that must not exist yet.
pub(super) fn create_file(path: &Path, access: Access) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    if access == Access::Private {
        options.mode(0o600);
    }
    with_one(|| options.open(path))
}

/// Takes the lock file at `path`, which `make` creates if it is not there. What a link leads to is
/// no lock file, and is not to be emptied.
pub(super) fn lock(
    path: &Path,
    note: &str,
    make: fn(&Path, Access) -> io::Result<File>,
) -> io::Result<LockAttempt> {
    let mut file = match make(path, Access::Shared) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut options = OpenOptions::new();
            // Never truncated at open: the note of the holder must survive a refused attempt.
            options.read(true).write(true).create(true).truncate(false);
            options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
            with_one(|| options.open(path))?
        }
        made => made?,
    };
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0)?;
            file.write_all(note.as_bytes())?;
            Ok(LockAttempt::Taken(Box::new(RealLock { file })))
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The holder is told for the operator's sake; the refusal stands without it.
            let _ = file.take(64).read_to_string(&mut holder);
            Ok(LockAttempt::Held(holder.trim().to_owned()))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[derive(Debug)]
pub(super) struct RealFile(pub(super) File);

impl DiskFile for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let ours = self.0.metadata()?;
        match std::fs::metadata(path) {
            Ok(its) => Ok((its.dev(), its.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The time of the last change of any kind: nobody sets that back.
    fn stamp(&self) -> io::Result<Stamp> {
        let its = self.0.metadata()?;
        let (file, changed) = ((its.dev(), its.ino()), (its.ctime(), its.ctime_nsec()));
        Ok(Stamp { file, len: its.len(), changed })
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.0.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// The operating system gives the lock back when the file closes, also when the process dies.
#[derive(Debug)]
struct RealLock {
    file: File,
}

impl Lock for RealLock {}

impl Drop for RealLock {
    fn drop(&mut self) {
        // A child that another thread starts at this moment has the file open, too, until it runs
        // its program.
        let _ = self.file.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::disk::ToolDisk;

    /// Root would empty a file that whoever owns the folder cannot write.
    #[test]
    fn what_a_link_leads_to_is_no_lock_and_keeps_its_content() {
        let root = tempfile::tempdir().expect("a folder");
        let (path, link) = (root.path().join("theirs"), root.path().join("lock"));
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        RealDisk.lock(&link, "pid 1").expect_err("it leads nowhere");
        assert!(!path.exists(), "nothing is made where it leads");
        std::fs::write(&path, "what they have").expect("a file");
        RealDisk.lock(&link, "pid 1").expect_err("it is a link");
        ToolDisk.lock(&link, "pid 1").expect_err("it is a link");
        assert_eq!(std::fs::read_to_string(&path).expect("reads"), "what they have");
    }

    #[test]
    fn who_gives_the_lock_back_keeps_it_in_no_child_that_starts() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let file = File::create_new(&path).expect("a file");
        file.lock().expect("the lock");
        // As a child has it between its fork and its program.
        let childs = file.try_clone().expect("the same file");
        let take = || RealDisk.lock(&path, "").expect("an attempt");
        assert!(matches!(take(), LockAttempt::Held(_)));
        drop(RealLock { file });
        assert!(matches!(take(), LockAttempt::Taken(_)));
        drop(childs);
    }
}
