//! A disk in memory that forgets, tears and refuses, under a seed.
//!
//! Per file it keeps what the process sees (`live`) and what has been synced (`durable`); per name
//! the same. [`SimDisk::crash`] throws dice for everything in between: each unsynced sector, each
//! length, each unsynced folder operation. A handle from before a crash is dead after it. A sync
//! that fails leaves what it should have written readable and clean, as Linux does: no later sync
//! writes it, and only a crash shows that it never was on the disk. Reads fail, the disk fills up
//! and bits turn over only where a test asks for it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

pub(crate) use self::dice::Dice;
use self::file::SimFile;
use self::folder_op::FolderOp;
use super::{Access, Disk, DiskFile, Lock, LockAttempt, Stamp};

mod dice;
mod file;
mod folder_op;

const SECTOR: usize = 512;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// What goes wrong at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The one operation fails with EIO, later ones work.
    Eio,
    /// The one operation fails with ENOSPC, later ones work.
    Enospc,
    /// The power goes: it and everything after fails until [`SimDisk::crash`].
    PowerLoss,
}

/// The lies a disk can tell; a correct disk tells none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lies {
    pub(crate) file_sync_does_nothing: bool,
    pub(crate) folder_sync_does_nothing: bool,
}

/// A disk in memory; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimDisk {
    state: Arc<Mutex<State>>,
    /// Told when files hang no more.
    goes_on: Arc<Condvar>,
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<u64, SimFile>,
    next_file: u64,
    live: BTreeMap<PathBuf, u64>,
    durable: BTreeMap<PathBuf, u64>,
    pending: Vec<FolderOp>,
    folders: BTreeSet<PathBuf>,
    durable_folders: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
    generation: u64,
    /// Changing operations so far; reads do not count.
    operations: u64,
    fault: Option<(u64, Fault)>,
    /// Reads that still succeed before one fails with EIO.
    reads_left: Option<u64>,
    /// Bytes by which files may still grow; `None` is no limit.
    free: Option<u64>,
    /// Folders cannot change places, as on some file systems.
    cannot_exchange: bool,
    /// Files whose names begin so hang in their next sync.
    hanging: Option<&'static str>,
    /// The next file whose name begins so hangs in its opening.
    holding: Option<&'static str>,
    /// Openings that hang.
    held: usize,
    powerless: bool,
    lies: Lies,
    syncs: u64,
    writes: u64,
    /// Bytes, in whole sectors, that the greatest sync of content had to write.
    most_synced: usize,
}

impl SimDisk {
    pub(crate) fn with_lies(lies: Lies) -> Self {
        let disk = Self::default();
        disk.state.lock().lies = lies;
        disk
    }

    /// Arms `fault` for the changing operation that comes after `operations` more.
    pub(crate) fn fail_after(&self, operations: u64, fault: Fault) {
        let mut state = self.state.lock();
        state.fault = Some((state.operations + operations, fault));
    }

    /// After `reads` more, one read fails with EIO.
    pub(crate) fn fail_a_read_after(&self, reads: u64) {
        self.state.lock().reads_left = Some(reads);
    }

    /// How many of those still succeed.
    pub(crate) fn reads_left(&self) -> Option<u64> {
        self.state.lock().reads_left
    }

    /// Whether the power is gone, so that nothing works any more.
    pub(crate) fn is_powerless(&self) -> bool {
        self.state.lock().powerless
    }

    /// Lets files grow by so many bytes more; what is removed counts again.
    pub(crate) fn set_free(&self, bytes: Option<u64>) {
        self.state.lock().free = bytes;
    }

    /// A file system without an exchange of folders.
    pub(crate) fn without_exchange(&self) {
        self.state.lock().cannot_exchange = true;
    }

    /// Lets the syncs of files whose names begin so hang, until it is told otherwise.
    pub(crate) fn hang(&self, names: Option<&'static str>) {
        self.state.lock().hanging = names;
        self.goes_on.notify_all();
    }

    /// Lets the next opening of a file whose name begins so hang, until [`SimDisk::let_open`].
    pub(crate) fn hold_open(&self, names: &'static str) {
        self.state.lock().holding = Some(names);
    }

    /// Waits until an opening hangs.
    pub(crate) fn await_held(&self) {
        let mut state = self.state.lock();
        while state.held == 0 {
            self.goes_on.wait(&mut state);
        }
    }

    /// Lets openings go on.
    pub(crate) fn let_open(&self) {
        self.state.lock().held = 0;
        self.goes_on.notify_all();
    }

    /// Turns one bit over, in what is durable.
    pub(crate) fn flip(&self, path: &Path, byte: usize, bit: u32) {
        let mut state = self.state.lock();
        let id = state.live[path];
        let file = state.files.get_mut(&id).expect("a linked file");
        file.live[byte] ^= 1 << bit;
        file.changes += 1;
        file.durable.clone_from(&file.live);
        file.dirty.clear();
        file.unwritten.clear();
    }

    /// A disk of its own with the same content, as it is seen.
    pub(crate) fn fork(&self) -> Self {
        let fork = Self::default();
        let state = self.state.lock();
        let mut copy = fork.state.lock();
        for (path, id) in &state.live {
            let file = SimFile { live: state.files[id].live.clone(), ..SimFile::default() };
            copy.files.insert(*id, SimFile { durable: file.live.clone(), ..file });
            copy.live.insert(path.clone(), *id);
            copy.durable.insert(path.clone(), *id);
        }
        copy.next_file = state.next_file;
        copy.folders.clone_from(&state.folders);
        copy.durable_folders.clone_from(&state.folders);
        drop(copy);
        fork
    }

    /// Changing operations so far.
    pub(crate) fn operations(&self) -> u64 {
        self.state.lock().operations
    }

    /// Content writes and content syncs so far.
    pub(crate) fn writes_and_syncs(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.writes, state.syncs)
    }

    /// Bytes, in whole sectors, that one sync of content had to write at most.
    pub(crate) fn most_synced(&self) -> usize {
        self.state.lock().most_synced
    }

    /// The process dies but not the machine: nothing is lost, nothing becomes durable.
    pub(crate) fn kill(&self) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.fault = None;
        state.reads_left = None;
        state.powerless = false;
        state.locked.clear();
    }

    /// The machine dies: of what was not synced, `dice` decides what is left.
    pub(crate) fn crash(&self, dice: &mut Dice) {
        self.kill();
        let mut state = self.state.lock();
        let mut names = std::mem::take(&mut state.durable);
        let mut folders = std::mem::take(&mut state.durable_folders);
        let pending = std::mem::take(&mut state.pending);
        // A journal keeps a prefix of the operations; other file systems keep what they like.
        let journal = dice.coin();
        let kept = dice.below(pending.len() as u64 + 1) as usize;
        for (at, operation) in pending.iter().enumerate() {
            if if journal { at < kept } else { dice.coin() } {
                operation.apply(&mut names, &mut folders);
            }
        }
        state.folders.clone_from(&folders);
        state.durable_folders = folders;
        state.live = names.clone();
        let linked: BTreeSet<u64> = names.values().copied().collect();
        state.durable = names;
        state.files.retain(|id, _| linked.contains(id));
        for file in state.files.values_mut() {
            file.crash(dice);
        }
    }

    /// The content of a file as the process sees it.
    pub(crate) fn content(&self, path: &Path) -> Vec<u8> {
        let state = self.state.lock();
        state.files[&state.live[path]].live.clone()
    }

    /// Puts a durable file there, as another program would.
    pub(crate) fn plant(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state.lock();
        let id = state.next_file;
        state.next_file += 1;
        let (live, durable) = (bytes.to_vec(), bytes.to_vec());
        let file = SimFile { live, durable, ..SimFile::default() };
        state.files.insert(id, file);
        state.live.insert(path.to_owned(), id);
        state.durable.insert(path.to_owned(), id);
        if let Some(folder) = path.parent() {
            state.folders.insert(folder.to_owned());
            state.durable_folders.insert(folder.to_owned());
        }
    }
}

impl State {
    /// Counts a changing operation and fails it if a fault is due.
    fn change(&mut self) -> io::Result<()> {
        if self.powerless {
            return Err(io::Error::other("power lost"));
        }
        let now = self.operations;
        self.operations += 1;
        match self.fault {
            Some((at, fault)) if at == now => match fault {
                Fault::Eio => Err(io::Error::from_raw_os_error(EIO)),
                Fault::Enospc => Err(io::Error::from_raw_os_error(ENOSPC)),
                Fault::PowerLoss => {
                    self.powerless = true;
                    Err(io::Error::other("power lost"))
                }
            },
            _ => Ok(()),
        }
    }

    /// Takes the room that a file needs to grow; the length that there is room for.
    fn grow(&mut self, from: u64, to: u64) -> u64 {
        let Some(free) = &mut self.free else { return to };
        let grown = to.saturating_sub(from).min(*free);
        *free -= grown;
        if to > from { from + grown } else { to }
    }

    /// Gives back the room of a file that has no name any more.
    fn unlink(&mut self, id: u64) {
        let len = self.files.get(&id).map_or(0, |file| file.live.len() as u64);
        if let Some(free) = &mut self.free {
            *free += len;
        }
    }

    fn hangs(&self, id: u64) -> bool {
        self.hanging.is_some_and(|names| {
            let mut paths = self.live.iter().filter(|(_, of)| **of == id).map(|(path, _)| path);
            paths.any(|path| {
                path.file_name()
                    .is_some_and(|name| name.to_str().is_some_and(|name| name.starts_with(names)))
            })
        })
    }

    fn place_folders(&mut self, operation: FolderOp) -> io::Result<()> {
        if let FolderOp::Move(from, to) | FolderOp::Exchange(from, to) = &operation {
            let is_in = |path: Option<&Path>| path == Some(from) || path == Some(to);
            assert!(
                !self.pending.iter().any(|op| is_in(op.folder())),
                "not synced before it moves"
            );
            if self.folders.contains(to) && matches!(operation, FolderOp::Move(..)) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
        }
        operation.apply(&mut self.live, &mut self.folders);
        self.pending.push(operation);
        Ok(())
    }

    fn missing_folder(&self, path: &Path) -> bool {
        !path.parent().is_some_and(|folder| self.folders.contains(folder))
    }
}

impl Disk for SimDisk {
    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = self.state.lock();
        if !state.folders.contains(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(state
            .live
            .keys()
            .filter(|path| path.parent() == Some(folder))
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect())
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.folders.insert(folder.to_owned());
        state.durable_folders.insert(folder.to_owned());
        Ok(())
    }

    fn create(&self, path: &Path, _access: Access) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state.lock();
        state.change()?;
        if state.missing_folder(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if state.live.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = state.next_file;
        state.next_file += 1;
        state.files.insert(id, SimFile::default());
        state.live.insert(path.to_owned(), id);
        state.pending.push(FolderOp::Create(path.to_owned(), id));
        Ok(Box::new(SimHandle { disk: self.clone(), id, generation: state.generation }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state.lock();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if state.holding.take_if(|names| name.starts_with(*names)).is_some() {
            state.held += 1;
            self.goes_on.notify_all();
            while state.held > 0 {
                self.goes_on.wait(&mut state);
            }
        }
        let id = *state.live.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(SimHandle { disk: self.clone(), id, generation: state.generation }))
    }

    fn open_for_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.change()?;
        if state.folders.contains(from) {
            return state.place_folders(FolderOp::Move(from.to_owned(), to.to_owned()));
        }
        let id = state.live.remove(from).ok_or(io::ErrorKind::NotFound)?;
        if let Some(replaced) = state.live.insert(to.to_owned(), id) {
            state.unlink(replaced);
        }
        state.pending.push(FolderOp::Rename(from.to_owned(), to.to_owned(), id));
        Ok(())
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.change()?;
        if [one, other].iter().any(|folder| !state.folders.contains(*folder)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if state.cannot_exchange {
            return Err(io::ErrorKind::Unsupported.into());
        }
        state.place_folders(FolderOp::Exchange(one.to_owned(), other.to_owned()))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.change()?;
        let id = state.live.remove(path).ok_or(io::ErrorKind::NotFound)?;
        state.unlink(id);
        state.pending.push(FolderOp::Remove(path.to_owned(), id));
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.state.lock();
        state.change()?;
        if state.lies.folder_sync_does_nothing {
            return Ok(());
        }
        let pending = std::mem::take(&mut state.pending);
        let (synced, left): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|operation| operation.folder() == Some(folder));
        state.pending = left;
        let State { durable, durable_folders, .. } = &mut *state;
        for operation in synced {
            operation.apply(durable, durable_folders);
        }
        Ok(())
    }

    fn free_space(&self, _folder: &Path) -> io::Result<u64> {
        Ok(self.state.lock().free.unwrap_or(u64::MAX))
    }

    fn lock(&self, path: &Path, note: &str) -> io::Result<LockAttempt> {
        if !self.state.lock().locked.insert(path.to_owned()) {
            return Ok(LockAttempt::Held(note.to_owned()));
        }
        Ok(LockAttempt::Taken(Box::new(SimLock { disk: self.clone(), path: path.to_owned() })))
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    path: PathBuf,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state.lock().locked.remove(&self.path);
    }
}

#[derive(Debug)]
struct SimHandle {
    disk: SimDisk,
    id: u64,
    generation: u64,
}

impl SimHandle {
    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.disk.state.lock();
        assert_eq!(self.generation, state.generation, "a handle outlived its process");
        state
    }
}

impl State {
    fn file(&mut self, id: u64) -> io::Result<&mut SimFile> {
        self.files.get_mut(&id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl DiskFile for SimHandle {
    fn size(&self) -> io::Result<u64> {
        Ok(self.state().file(self.id)?.live.len() as u64)
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        Ok(self.state().live.get(path) == Some(&self.id))
    }

    fn stamp(&self) -> io::Result<Stamp> {
        let mut state = self.state();
        let file = state.file(self.id)?;
        let (len, changed) = (file.live.len() as u64, (file.changes, 0));
        Ok(Stamp { file: (0, self.id), len, changed })
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.state();
        match &mut state.reads_left {
            Some(0) => {
                state.reads_left = None;
                return Err(io::Error::from_raw_os_error(EIO));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        let live = &state.file(self.id)?.live;
        let from = live.len().min(offset as usize);
        let count = buffer.len().min(live.len() - from);
        buffer[..count].copy_from_slice(&live[from..from + count]);
        Ok(count)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.state();
        let dark = state.powerless;
        state.writes += 1;
        let result = state.change();
        // A write that fails may have come through in part.
        let written = match result {
            Ok(()) => bytes.len(),
            Err(_) if dark => 0,
            Err(_) if state.powerless => bytes.len(),
            Err(_) => bytes.len() / 2,
        };
        let (len, end) = (state.file(self.id)?.live.len() as u64, offset + written as u64);
        let room = state.grow(len, end).saturating_sub(offset).min(written as u64) as usize;
        if room > 0 {
            state.file(self.id)?.write(&bytes[..room], offset as usize);
        }
        if room < written { Err(io::Error::from_raw_os_error(ENOSPC)) } else { result }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        state.change()?;
        let old = state.file(self.id)?.live.len();
        if state.grow(old as u64, len) < len {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        if let Some(free) = &mut state.free {
            *free += (old as u64).saturating_sub(len);
        }
        let file = state.file(self.id)?;
        file.live.resize(len as usize, 0);
        if old < file.live.len() {
            file.touch(old, len as usize);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state();
        while state.hangs(self.id) {
            self.disk.goes_on.wait(&mut state);
        }
        state.syncs += 1;
        let dirty = state.file(self.id)?.dirty.len() * SECTOR;
        state.most_synced = state.most_synced.max(dirty);
        if let Err(error) = state.change() {
            if !state.powerless {
                state.file(self.id)?.fail_to_sync();
            }
            return Err(error);
        }
        if !state.lies.file_sync_does_nothing {
            state.file(self.id)?.sync();
        }
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
}
