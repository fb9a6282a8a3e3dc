//! Files of a data directory that are kept, but not used: they go into a folder beside theirs.

use std::io;
use std::path::{Path, PathBuf};

use super::backup::copy_small_files;
use super::copy::Copier;
use crate::storage::disk::Disk;
use crate::storage::error::{During, StorageError};
use crate::storage::files::directory::DataDirectory;
use crate::storage::files::file_name::{
    CURRENT_EPOCH, FileName, LOGGED, SEALED, SESSION_KEY, SESSIONS_BEFORE_KEY,
};
use crate::storage::log::logged::take_back;

/// Moves all snapshots into a folder named `aside` beside, durably; tells which they were.
///
/// # Errors
/// When the disk refuses.
pub fn move_snapshots_aside(
    directory: &DataDirectory,
    aside: &str,
) -> Result<Vec<PathBuf>, StorageError> {
    let files: Vec<PathBuf> =
        directory.snapshot_files()?.into_iter().map(|(_, path)| path).collect();
    move_all(directory.disk().as_ref(), directory.snapshots(), &files, aside)?;
    Ok(files)
}

/// Moves snapshots, logs and what says how to read them into a folder named `aside` beside,
/// durably. It can be done again where it was cut short.
///
/// # Errors
/// When the disk refuses.
pub fn move_data_aside(directory: &DataDirectory, aside: &str) -> Result<(), StorageError> {
    move_snapshots_aside(directory, aside)?;
    move_rest_aside(directory, aside)?;
    let disk = directory.disk().as_ref();
    // They hold nothing, but tell of a log.
    for name in disk.list(directory.logs()).during("list", directory.logs())? {
        if let FileName::Spare(_) = FileName::parse(&name) {
            let path = directory.logs().join(name);
            disk.remove(&path).during("remove", &path)?;
        }
    }
    disk.sync_folder(directory.logs()).during("sync the folder", directory.logs())
}

/// The same where the snapshot of `zxid` has come in the place of it all, and stays. Whoever fills
/// spares may go on.
///
/// # Errors
/// When the disk refuses.
pub fn move_data_before_aside(
    directory: &DataDirectory,
    zxid: i64,
    aside: &str,
) -> Result<(), StorageError> {
    move_snapshots_but(directory, zxid, aside)?;
    move_rest_aside(directory, aside)
}

fn move_rest_aside(directory: &DataDirectory, aside: &str) -> Result<(), StorageError> {
    let (disk, folder) = (directory.disk().as_ref(), directory.snapshots());
    let names = disk.list(folder).during("list", folder)?;
    let rest = [CURRENT_EPOCH, SEALED, SESSION_KEY, SESSIONS_BEFORE_KEY, LOGGED];
    let rest: Vec<PathBuf> = rest
        .iter()
        .filter(|name| names.iter().any(|found| found == *name))
        .map(|name| folder.join(name))
        .collect();
    move_all(disk, folder, &rest, aside)?;
    let logs: Vec<PathBuf> =
        directory.log_zxids()?.into_iter().map(|zxid| directory.log_path(zxid)).collect();
    move_all(disk, directory.logs(), &logs, aside)
}

fn move_snapshots_but(
    directory: &DataDirectory,
    zxid: i64,
    aside: &str,
) -> Result<(), StorageError> {
    let mut snapshots = directory.snapshot_files()?;
    snapshots.retain(|(of, _)| *of != zxid);
    let snapshots: Vec<PathBuf> = snapshots.into_iter().map(|(_, path)| path).collect();
    move_all(directory.disk().as_ref(), directory.snapshots(), &snapshots, aside)
}

/// Makes the folder of [`move_history_aside`], and copies into it what stays here and says how to
/// read what comes there.
///
/// # Errors
/// When the disk refuses.
pub(crate) fn begin_aside(directory: &DataDirectory, aside: &str) -> Result<(), StorageError> {
    let disk = directory.disk().as_ref();
    let target = directory.snapshots().with_file_name(aside);
    disk.create_folder(&target).during("create the folder", &target)?;
    let mut nobody_waits = |_| ();
    let mut copier = Copier::new(disk, &target, &mut nobody_waits);
    copy_small_files(directory, &mut copier)?;
    copier.finish().map(|_| ())
}

/// Moves what led to another state than that of the snapshot of `zxid`, which stays alone: all
/// other snapshots, then all logs, into a folder named `aside` beside, durably.
///
/// # Errors
/// When the disk refuses. A start begins from the snapshot of `zxid` all the same, if it is the
/// newest one.
pub(crate) fn move_history_aside(
    directory: &DataDirectory,
    zxid: i64,
    aside: &str,
) -> Result<(), StorageError> {
    let disk = directory.disk().as_ref();
    // First: without the snapshot that stays, none of them may be tried with a log of the new
    // state.
    move_snapshots_but(directory, zxid, aside)?;
    take_back(directory)?;
    let logs: Vec<PathBuf> =
        directory.log_zxids()?.into_iter().map(|zxid| directory.log_path(zxid)).collect();
    move_all(disk, directory.logs(), &logs, aside)
}

/// Moves files into `aside`, which is made beside their folder, the last one first. One that a
/// purge has taken away meanwhile needs no place.
pub(in crate::storage) fn move_all(
    disk: &dyn Disk,
    folder: &Path,
    files: &[PathBuf],
    aside: &str,
) -> Result<(), StorageError> {
    if files.is_empty() {
        return Ok(());
    }
    let target = folder.with_file_name(aside);
    disk.create_folder(&target).during("create the folder", &target)?;
    for file in files.iter().rev() {
        let Some(name) = file.file_name() else { continue };
        match disk.rename(file, &target.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            moved => moved.during("move away", file)?,
        }
        disk.sync_folder(&target).during("sync the folder", &target)?;
        disk.sync_folder(folder).during("sync the folder", folder)?;
    }
    Ok(())
}
