//! `rookeeper.logged`: a log of this server is there, and in which folder.
//!
//! It stands beside the snapshots. So a folder of logs that is not mounted, or is another one, is not taken for that of a
//! log that has not begun. It comes when the first group is durable and before anybody hears of it, and goes before the
//! last log is taken away on purpose. The file is one line, the folder; what counts is that it is there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::atomic_file;
use super::directory::DataDirectory;
use super::disk::{Access, Disk};
use super::error::{During, StorageError};
use super::file_name;
use super::unsynced::is_unsynced;
use super::way_out::of_no_log;

/// Longer than any path that a system takes, and its line end.
const LEN_MAX: u64 = 8192;

/// Says, while the log is written, that there is one.
#[derive(Debug)]
pub(crate) struct Logged {
    disk: Arc<dyn Disk>,
    /// The folder of snapshots.
    folder: PathBuf,
    logs: PathBuf,
    is_said: bool,
}

impl Logged {
    pub(crate) fn open(directory: &DataDirectory) -> Self {
        Self {
            disk: Arc::clone(directory.disk()),
            folder: directory.snapshots().to_owned(),
            logs: directory.logs().to_owned(),
            is_said: false,
        }
    }

    /// Sees to it that the file is there and names the folder, durably.
    pub(crate) fn say(&mut self) -> Result<(), StorageError> {
        if self.is_said {
            return Ok(());
        }
        let disk = self.disk.as_ref();
        let line = format!("{}\n", self.logs.display());
        if read(disk, &self.folder)?.as_deref() != Some(line.as_bytes()) {
            let name = file_name::LOGGED;
            atomic_file::replace(disk, &self.folder, name, line.as_bytes(), Access::Shared)?;
        }
        self.is_said = true;
        Ok(())
    }

    /// Somebody may have taken it back.
    pub(crate) fn forget(&mut self) {
        self.is_said = false;
    }
}

/// Takes it back, durably, before the last log goes.
pub(crate) fn take_back(directory: &DataDirectory) -> Result<(), StorageError> {
    let (disk, folder) = (directory.disk().as_ref(), directory.snapshots());
    let names = disk.list(folder).during("list", folder)?;
    if names.iter().all(|name| name != file_name::LOGGED) {
        return Ok(());
    }
    atomic_file::remove_if_there(disk, &folder.join(file_name::LOGGED))?;
    disk.sync_folder(folder).during("sync the folder", folder)
}

/// Refuses a directory whose log is gone; `shown` is the zxid of its snapshot.
pub(crate) fn refuse_lost(directory: &DataDirectory, shown: i64) -> Result<(), StorageError> {
    let (disk, folder) = (directory.disk().as_ref(), directory.snapshots());
    if !directory.log_zxids()?.is_empty() || is_unsynced(disk, directory.logs())? {
        return Ok(());
    }
    let Some(line) = read(disk, folder)? else { return Ok(()) };
    Err(StorageError::LogGone {
        logs: directory.logs().to_owned(),
        path: folder.join(file_name::LOGGED),
        was_in: String::from_utf8_lossy(line.trim_ascii_end()).into_owned(),
        shown,
        way_out: of_no_log(directory),
    })
}

fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<Vec<u8>>, StorageError> {
    let bytes = atomic_file::read(disk, &folder.join(file_name::LOGGED), LEN_MAX)?;
    Ok(bytes.map(Result::unwrap_or_default))
}
