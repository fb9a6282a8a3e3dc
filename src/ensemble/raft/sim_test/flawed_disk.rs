//! A disk that is wrong in one way about the files of a member.

use std::io;
use std::path::Path;

use crate::storage::sim::SimDisk;
use crate::storage::{Access, Disk, DiskFile, LockAttempt, Stamp};

use super::Flaw;

#[derive(Debug)]
pub(super) struct FlawedDisk {
    pub(super) inner: SimDisk,
    pub(super) flaw: Flaw,
}

fn is_log(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log."))
}

impl FlawedDisk {
    fn wrap(&self, path: &Path, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(FlawedFile {
            inner: file,
            keeps_end: self.flaw == Flaw::TailNotCut && is_log(path),
            forgets_vote: self.flaw == Flaw::VoteForgotten && path.ends_with("raft.state"),
        })
    }
}

impl Disk for FlawedDisk {
    fn free_space(&self, folder: &Path) -> io::Result<u64> {
        self.inner.free_space(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.inner.list(folder)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        self.inner.create_folder(folder)
    }

    fn create(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        self.inner.create(path, access)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.inner.open(path)
    }

    fn open_for_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(path, self.inner.open_for_write(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        self.inner.exchange(one, other)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if self.flaw == Flaw::TailNotCut && is_log(path) {
            return Ok(());
        }
        self.inner.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.inner.sync_folder(folder)
    }

    fn lock(&self, path: &Path, note: &str) -> io::Result<LockAttempt> {
        self.inner.lock(path, note)
    }
}

#[derive(Debug)]
struct FlawedFile {
    inner: Box<dyn DiskFile>,
    keeps_end: bool,
    forgets_vote: bool,
}

impl DiskFile for FlawedFile {
    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.inner.is_at(path)
    }

    fn stamp(&self) -> io::Result<Stamp> {
        self.inner.stamp()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = bytes.to_vec();
        if self.forgets_vote {
            bytes[32..40].fill(0);
            let end = bytes.len() - 4;
            let checksum = crc32fast::hash(&bytes[..end]).to_be_bytes();
            bytes[end..].copy_from_slice(&checksum);
        }
        self.inner.write_all_at(&bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.keeps_end { Ok(()) } else { self.inner.set_len(len) }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.inner.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.inner.sync_all()
    }
}
