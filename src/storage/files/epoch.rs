//! `currentEpoch` and `acceptedEpoch`: one decimal number each, replaced atomically.
//!
//! ZooKeeper elects by `currentEpoch` first, so it is the epoch of the last record in the log and
//! never more than that by a promise. A plain standalone directory has neither file; a missing
//! file counts as 0.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::atomic_file;
use super::file_name;
use crate::storage::disk::{Access, Disk};
use crate::storage::error::{During, StorageError};

/// One of the two epoch files.
#[derive(Debug)]
pub struct EpochFile {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    name: &'static str,
    epoch: i64,
}

impl EpochFile {
    /// Reads `currentEpoch` in `folder`, a `version-2` of snapshots.
    ///
    /// # Errors
    /// When the file cannot be read or holds no number.
    pub fn current(disk: Arc<dyn Disk>, folder: &Path) -> Result<Self, StorageError> {
        Self::open(disk, folder, file_name::CURRENT_EPOCH)
    }

    /// Reads `acceptedEpoch` in `folder`, a `version-2` of snapshots.
    ///
    /// # Errors
    /// When the file cannot be read or holds no number.
    pub fn accepted(disk: Arc<dyn Disk>, folder: &Path) -> Result<Self, StorageError> {
        Self::open(disk, folder, file_name::ACCEPTED_EPOCH)
    }

    fn open(disk: Arc<dyn Disk>, folder: &Path, name: &'static str) -> Result<Self, StorageError> {
        let path = folder.join(name);
        let epoch = match atomic_file::read(disk.as_ref(), &path, 64)? {
            None => 0,
            Some(bytes) => {
                bytes.ok().and_then(|bytes| parse(&bytes)).ok_or(StorageError::Epoch { path })?
            }
        };
        Ok(Self { disk, folder: folder.to_owned(), name, epoch })
    }

    /// The epoch in the file.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.epoch
    }

    /// Replaces the epoch, durably; writes nothing if it is there already. On a disk without room
    /// for another file it is written over the old one: an election must not fail for that.
    ///
    /// # Errors
    /// When the disk refuses; the file then holds the old or the new epoch.
    pub fn set(&mut self, epoch: i64) -> Result<(), StorageError> {
        if epoch == self.epoch {
            return Ok(());
        }
        let text = epoch.to_string();
        let disk = self.disk.as_ref();
        match atomic_file::replace(disk, &self.folder, self.name, text.as_bytes(), Access::Shared) {
            Err(error) if error.is_no_room() => self.write_over(text, error)?,
            replaced => replaced?,
        }
        self.epoch = epoch;
        Ok(())
    }

    /// Writes over what is there, which is less than a sector and so the old or the new one after a
    /// power failure. Where there is nothing, it is as it was.
    fn write_over(&self, mut text: String, no_room: StorageError) -> Result<(), StorageError> {
        let path = self.folder.join(self.name);
        let Ok(file) = self.disk.open_for_write(&path) else { return Err(no_room) };
        // The first line counts, and a longer number is not to be left in part.
        while (text.len() as u64) < file.size().during("read", &path)? {
            text.push('\n');
        }
        file.write_all_at(text.as_bytes(), 0).during("write", &path)?;
        file.sync_all().during("sync", &path)
    }
}

/// ZooKeeper reads the first line and parses it as a long.
fn parse(bytes: &[u8]) -> Option<i64> {
    let line = std::str::from_utf8(bytes).ok()?.lines().next()?;
    line.trim_end().parse().ok().filter(|epoch| *epoch >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::disk::sim::{Dice, Fault, SimDisk};

    const FOLDER: &str = "/data/version-2";

    fn disk() -> SimDisk {
        let disk = SimDisk::default();
        disk.create_folder(Path::new(FOLDER)).expect("folder");
        disk
    }

    #[test]
    fn a_missing_file_is_epoch_0_and_setting_0_writes_none() {
        let disk = disk();
        let mut epoch =
            EpochFile::current(Arc::new(disk.clone()), Path::new(FOLDER)).expect("opens");
        epoch.set(0).expect("sets");
        assert_eq!(disk.list(Path::new(FOLDER)).expect("lists"), Vec::<String>::new());
        epoch.set(7).expect("sets");
        assert_eq!(disk.content(&Path::new(FOLDER).join("currentEpoch")), b"7");
    }

    #[test]
    fn a_crash_leaves_the_old_or_the_new_epoch() {
        for seed in 0..200 {
            let disk = disk();
            disk.plant(&Path::new(FOLDER).join("acceptedEpoch"), b"41\n");
            let mut epoch =
                EpochFile::accepted(Arc::new(disk.clone()), Path::new(FOLDER)).expect("opens");
            let mut dice = Dice(seed);
            disk.fail_after(dice.below(7), Fault::PowerLoss);
            let done = epoch.set(42).is_ok();
            disk.crash(&mut dice);
            let after = EpochFile::accepted(Arc::new(disk), Path::new(FOLDER)).expect("opens");
            assert!(after.get() == 42 || (!done && after.get() == 41), "seed {seed}");
        }
    }

    #[test]
    fn a_disk_without_room_takes_another_epoch() {
        for (old, epoch) in [("41\n", 42), ("41", 42), ("1000\n", 999), ("1000", 9)] {
            let disk = disk();
            let path = Path::new(FOLDER).join("acceptedEpoch");
            disk.plant(&path, old.as_bytes());
            disk.set_free(Some(0));
            let open = || EpochFile::accepted(Arc::new(disk.clone()), Path::new(FOLDER));
            open().expect("opens").set(epoch).expect("sets");
            disk.crash(&mut Dice(1));
            assert_eq!(open().expect("opens").get(), epoch, "{old:?}");
        }
        let disk = disk();
        disk.set_free(Some(0));
        let mut none = EpochFile::accepted(Arc::new(disk), Path::new(FOLDER)).expect("opens");
        assert!(none.set(1).expect_err("there is nothing to write over").is_no_room());
    }

    #[test]
    fn a_file_without_a_number_is_refused() {
        for content in ["", "x", "-1", "1 2"] {
            let disk = disk();
            disk.plant(&Path::new(FOLDER).join("currentEpoch"), content.as_bytes());
            let error = EpochFile::current(Arc::new(disk), Path::new(FOLDER)).expect_err("refused");
            assert!(matches!(error, StorageError::Epoch { .. }), "{content:?}: {error}");
        }
    }
}
