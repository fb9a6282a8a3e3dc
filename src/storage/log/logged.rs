//! `ferrokeeper.logged`: a log of this server is there, and in which folder.
//!
//! It stands beside the snapshots. So a folder of logs that is not mounted, or is another one, is
//! not taken for that of a log that has not begun. It comes when the first group is durable and
//! before anybody hears of it, and goes before the last log is taken away on purpose. The file is
//! one line, the folder; what counts is that it is there. A second line, of a server that was
//! stopped, is the zxid of a last snapshot that shows all that the log holds: with that one, none
//! is needed. The next group takes the line away. Where nothing is synced, there is no such file:
//! the log may be gone at any time. Nor is there one while the disk of the snapshots has no room
//! for it, which may be another than that of the log: the log goes on, and the file comes when
//! there is room.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::message::MessageId;
use crate::storage::disk::{Access, Disk};
use crate::storage::error::{During, StorageError};
use crate::storage::files::atomic_file;
use crate::storage::files::directory::DataDirectory;
use crate::storage::files::file_name;

/// Longer than any path that a system takes, and its line end.
const LEN_MAX: u64 = 8192;
/// Groups between two attempts, while there is no room for the file.
const GROUPS_WITHOUT: u32 = 1000;

/// Says, while the log is written, that there is one.
#[derive(Debug)]
pub(crate) struct Logged {
    disk: Arc<dyn Disk>,
    /// The folder of snapshots.
    folder: PathBuf,
    logs: PathBuf,
    is_said: bool,
    /// There was no room for it; so many groups later it is tried again.
    no_room: Option<u32>,
}

impl Logged {
    pub(crate) fn open(directory: &DataDirectory) -> Self {
        Self {
            disk: Arc::clone(directory.disk()),
            folder: directory.snapshots().to_owned(),
            logs: directory.logs().to_owned(),
            is_said: false,
            no_room: None,
        }
    }

    /// Sees to it that the file is there and names the folder, durably, unless there is no room for
    /// it.
    pub(crate) fn say(&mut self) -> Result<(), StorageError> {
        if self.is_said {
            return Ok(());
        }
        if let Some(groups) = self.no_room.as_mut().filter(|groups| **groups > 0) {
            *groups -= 1;
            return Ok(());
        }
        match self.write_down() {
            Err(error) if error.is_no_room() => {
                if self.no_room.replace(GROUPS_WITHOUT).is_none() {
                    tracing::error!(
                        id = %MessageId::LOG_UNTOLD,
                        %error,
                        "the disk of the snapshots (dataDir) has no space for ferrokeeper.logged; \
                         the transaction log is not affected"
                    );
                }
                Ok(())
            }
            said => {
                self.no_room = None;
                said
            }
        }
    }

    fn write_down(&mut self) -> Result<(), StorageError> {
        let disk = self.disk.as_ref();
        let line = format!("{}\n", self.logs.display());
        if read(disk, &self.folder)?.as_deref() != Some(line.as_bytes()) {
            let name = file_name::LOGGED;
            atomic_file::replace(disk, &self.folder, name, line.as_bytes(), Access::Shared)?;
        }
        self.is_said = true;
        Ok(())
    }

    /// Says, durably, that a start from the snapshot of `zxid` needs no log.
    pub(crate) fn allow_from(&mut self, zxid: i64) -> Result<(), StorageError> {
        self.is_said = false;
        let disk = self.disk.as_ref();
        if read(disk, &self.folder)?.is_none() {
            return Ok(());
        }
        let lines = format!("{}\n{zxid:#x}\n", self.logs.display());
        atomic_file::replace(
            disk,
            &self.folder,
            file_name::LOGGED,
            lines.as_bytes(),
            Access::Shared,
        )
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

/// What it says in this directory: the folder of the logs, and the zxid of the snapshot with which
/// no log is needed.
pub(crate) fn said(
    directory: &DataDirectory,
) -> Result<Option<(String, Option<i64>)>, StorageError> {
    let said = read(directory.disk().as_ref(), directory.snapshots())?;
    Ok(said.map(|said| lines_of(&said)))
}

/// The folder of logs that the folder `snapshots` says that its server has, if it says so.
///
/// # Errors
/// When the disk fails.
pub fn log_folder(disk: &dyn Disk, snapshots: &Path) -> Result<Option<PathBuf>, StorageError> {
    let said = read(disk, snapshots)?;
    Ok(said.map(|said| PathBuf::from(lines_of(&said).0)))
}

fn lines_of(said: &[u8]) -> (String, Option<i64>) {
    let said = String::from_utf8_lossy(said);
    let said = said.trim_end();
    // A folder's name can hold line ends too.
    let last = said.rsplit_once("\n0x");
    let zxid = last.and_then(|(_, hex)| i64::from_str_radix(hex, 16).ok());
    match (last, zxid) {
        (Some((folder, _)), Some(_)) => (folder.to_owned(), zxid),
        _ => (said.to_owned(), None),
    }
}

fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<Vec<u8>>, StorageError> {
    let bytes = atomic_file::read(disk, &folder.join(file_name::LOGGED), LEN_MAX)?;
    Ok(bytes.map(Result::unwrap_or_default))
}
