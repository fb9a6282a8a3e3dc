//! `ferrokeeper.unsynced`: the log in the folder was written with `forceSync=no`.
//!
//! A power failure then leaves what looks like damage, and a later start that syncs has to make
//! durable what nobody did. The file is empty and is there from before the first group that is not
//! synced.

use std::path::Path;

use crate::storage::disk::{Access, Disk};
use crate::storage::error::{During, StorageError};
use crate::storage::files::atomic_file;
use crate::storage::files::file_name;

/// Whether the log in `folder` was written without syncs.
pub(crate) fn is_unsynced(disk: &dyn Disk, folder: &Path) -> Result<bool, StorageError> {
    let names = disk.list(folder).during("list", folder)?;
    Ok(names.iter().any(|name| name == file_name::UNSYNCED))
}

/// Says from now on, durably, whether it is.
pub(crate) fn set_unsynced(
    disk: &dyn Disk,
    folder: &Path,
    unsynced: bool,
) -> Result<(), StorageError> {
    if is_unsynced(disk, folder)? == unsynced {
        return Ok(());
    }
    if unsynced {
        return atomic_file::replace(disk, folder, file_name::UNSYNCED, b"", Access::Shared);
    }
    atomic_file::remove_if_there(disk, &folder.join(file_name::UNSYNCED))?;
    disk.sync_folder(folder).during("sync the folder", folder)
}
