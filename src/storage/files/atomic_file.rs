//! Small files that are either the old or the new content, never something between.

use std::path::Path;

use super::file_name;
use crate::storage::disk::{Access, Disk, read_exact_at};
use crate::storage::error::{During, StorageError};

/// Replaces `folder/name` by `bytes`: written under a temporary name, synced, renamed, folder
/// synced.
pub(crate) fn replace(
    disk: &dyn Disk,
    folder: &Path,
    name: &str,
    bytes: &[u8],
    access: Access,
) -> Result<(), StorageError> {
    let path = folder.join(name);
    let temporary = folder.join(file_name::temporary(name));
    remove_if_there(disk, &temporary)?;
    let file = disk.create(&temporary, access).during("create", &temporary)?;
    file.write_all_at(bytes, 0).during("write", &temporary)?;
    file.sync_all().during("sync", &temporary)?;
    disk.rename(&temporary, &path).during("rename a temporary file to", &path)?;
    disk.sync_folder(folder).during("sync the folder", folder)
}

/// Reads a whole small file; `None` if there is none.
///
/// A file beyond `limit` bytes gives its length only.
pub(crate) fn read(
    disk: &dyn Disk,
    path: &Path,
    limit: u64,
) -> Result<Option<Result<Vec<u8>, u64>>, StorageError> {
    let file = match disk.open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.during("open", path)?,
    };
    let len = file.size().during("read", path)?;
    let size = match usize::try_from(len) {
        Ok(size) if len <= limit => size,
        _ => return Ok(Some(Err(len))),
    };
    let mut bytes = vec![0; size];
    read_exact_at(file.as_ref(), &mut bytes, 0).during("read", path)?;
    Ok(Some(Ok(bytes)))
}

/// Removes a leftover of an earlier attempt.
pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<(), StorageError> {
    match disk.remove(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other.during("remove", path),
    }
}
