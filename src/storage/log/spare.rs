//! Segments that are filled with zeros and synced before they are needed.
//!
//! A group written over synced zeros changes no metadata of the file system, which nearly halves
//! its sync. Filling costs a whole segment of writes, so it goes in slices that its caller paces;
//! the log never waits for it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::txn_log::LogOptions;
use crate::storage::disk::{Access, Disk, DiskFile, SLICE};
use crate::storage::error::{During, StorageError};
use crate::storage::files::atomic_file::remove_if_there;
use crate::storage::files::file_name;
use crate::storage::files::file_name::FileName;

/// The spares that are ready, shared by the filler and the log.
#[derive(Debug, Default)]
pub(crate) struct SpareShelf {
    ready: Mutex<VecDeque<u64>>,
}

impl SpareShelf {
    /// Finds the spares of an earlier process; those of another length are removed.
    pub(crate) fn open(disk: &dyn Disk, folder: &Path, len: u64) -> Result<Self, StorageError> {
        let mut ready = VecDeque::new();
        for name in disk.list(folder).during("list", folder)? {
            let FileName::Spare(number) = FileName::parse(&name) else { continue };
            let path = folder.join(name);
            let file = disk.open(&path).during("open", &path)?;
            if file.size().during("read", &path)? == len {
                ready.push_back(number);
            } else {
                disk.remove(&path).during("remove", &path)?;
            }
        }
        Ok(Self { ready: Mutex::new(ready) })
    }

    pub(crate) fn take(&self) -> Option<u64> {
        self.ready.lock().pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ready.lock().is_empty()
    }
}

/// Makes spares, one slice a step; belongs to a background thread.
#[derive(Debug)]
pub struct SpareFiller {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    /// The length of a spare.
    len: u64,
    /// How many spares are kept ready.
    wanted: usize,
    /// Free space that no spare takes.
    reserve: u64,
    shelf: Arc<SpareShelf>,
    next_number: u64,
    filling: Option<Filling>,
    zeros: Vec<u8>,
}

#[derive(Debug)]
struct Filling {
    number: u64,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    filled: u64,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillStep {
    /// Nothing: enough spares are ready, or there is no room for one.
    Idle,
    /// So many bytes of zeros, synced.
    Filled(u64),
    /// The last bytes of a spare, which is ready now.
    Ready,
}

impl SpareFiller {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        folder: PathBuf,
        options: LogOptions,
        shelf: Arc<SpareShelf>,
    ) -> Self {
        let (len, wanted, reserve) = (options.segment_len, options.spares, options.reserve());
        let next_number = shelf.ready.lock().iter().max().map_or(1, |newest| newest + 1);
        Self {
            disk,
            folder,
            len,
            wanted,
            reserve,
            shelf,
            next_number,
            filling: None,
            zeros: Vec::new(),
        }
    }

    /// Writes and syncs at most 1 MiB of zeros.
    ///
    /// # Errors
    /// When the disk refuses, for instance because it is full. The unfinished spare is gone then;
    /// the log does without, and a later step begins anew.
    pub fn step(&mut self) -> Result<FillStep, StorageError> {
        let mut filling = match self.filling.take() {
            Some(filling) => filling,
            None if self.shelf.ready.lock().len() >= self.wanted => return Ok(FillStep::Idle),
            None if !self.has_room()? => return Ok(FillStep::Idle),
            None => self.begin()?,
        };
        match self.fill(&mut filling) {
            Ok(FillStep::Ready) => Ok(FillStep::Ready),
            Ok(step) => {
                self.filling = Some(filling);
                Ok(step)
            }
            Err(error) => {
                // What cannot be removed now is removed at the next start.
                let _ = remove_if_there(self.disk.as_ref(), &filling.path);
                Err(error)
            }
        }
    }

    /// Whether the log has none left, and goes on without at the end of its segment.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        self.shelf.is_empty()
    }

    fn has_room(&self) -> Result<bool, StorageError> {
        let free = self.disk.free_space(&self.folder);
        let free = free.during("look for free space in", &self.folder)?;
        Ok(free >= self.reserve.saturating_add(self.len))
    }

    fn begin(&mut self) -> Result<Filling, StorageError> {
        let number = self.next_number;
        self.next_number = number.saturating_add(1);
        let path = self.folder.join(file_name::temporary(&file_name::spare(number)));
        remove_if_there(self.disk.as_ref(), &path)?;
        let file = self.disk.create(&path, Access::Shared).during("create", &path)?;
        self.zeros = vec![0; usize::try_from(self.len).unwrap_or(SLICE).min(SLICE)];
        Ok(Filling { number, path, file, filled: 0 })
    }

    fn fill(&mut self, filling: &mut Filling) -> Result<FillStep, StorageError> {
        let left = usize::try_from(self.len.saturating_sub(filling.filled)).unwrap_or(SLICE);
        let slice = self.zeros.get(..left.min(SLICE)).unwrap_or_default();
        filling.file.write_all_at(slice, filling.filled).during("fill", &filling.path)?;
        filling.file.sync_data().during("sync", &filling.path)?;
        filling.filled = filling.filled.saturating_add(slice.len() as u64);
        if filling.filled < self.len {
            return Ok(FillStep::Filled(slice.len() as u64));
        }
        filling.file.sync_all().during("sync", &filling.path)?;
        let path = self.folder.join(file_name::spare(filling.number));
        self.disk.rename(&filling.path, &path).during("rename a spare segment to", &path)?;
        self.disk.sync_folder(&self.folder).during("sync the folder", &self.folder)?;
        self.shelf.ready.lock().push_back(filling.number);
        self.zeros = Vec::new();
        Ok(FillStep::Ready)
    }
}
