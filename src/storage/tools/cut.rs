//! Cuts the log after a zxid, so that the next start makes the state of that zxid.
//!
//! Nothing is deleted: later logs, and snapshots that hold more than the state, are moved into a
//! folder beside. Whole files go first and the newest of them first, so that a crash in between
//! leaves a state that once was.

use std::path::PathBuf;

use super::aside::move_all;
use crate::storage::error::{During, Loss, StorageError};
use crate::storage::files::directory::DataDirectory;
use crate::storage::files::file_name;
use crate::storage::log::logged::take_back;
use crate::storage::log::segment::HEADER_LEN;
use crate::storage::recovery::examine::{Examined, LogEnd, examine_up_to};
use crate::storage::recovery::loss::behind;
use crate::storage::recovery::way_out::refuse_cut_of_member;
use crate::storage::replay::Replay;

/// What a cut would do.
#[derive(Debug)]
pub struct CutPlan {
    /// The state that stays.
    pub kept: Examined,
    /// The log that is cut, and where; `None` if none is.
    pub cut: Option<(PathBuf, u64)>,
    /// Logs that are moved away whole, oldest first.
    pub logs: Vec<PathBuf>,
    /// Snapshots that are moved away, oldest first.
    pub snapshots: Vec<PathBuf>,
    /// What is lost of the log.
    pub loss: Loss,
}

impl CutPlan {
    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cut.is_none() && self.logs.is_empty() && self.snapshots.is_empty()
    }

    /// Carries it out, durably, moving into folders named `aside` beside the two `version-2`.
    ///
    /// # Errors
    /// When the disk refuses; what is then on disk is a state from the kept one up to the present
    /// one.
    pub fn carry_out(&self, directory: &DataDirectory, aside: &str) -> Result<(), StorageError> {
        let disk = directory.disk().as_ref();
        move_all(disk, directory.snapshots(), &self.snapshots, aside)?;
        if self.logs.len() == directory.log_zxids()?.len() {
            take_back(directory)?;
        }
        move_all(disk, directory.logs(), &self.logs, aside)?;
        if let Some((path, offset)) = &self.cut {
            let file = disk.open_for_write(path).during("open", path)?;
            file.set_len(*offset).during("cut", path)?;
            file.sync_all().during("sync", path)?;
        }
        Ok(())
    }
}

/// Finds out what is to be done so that a start makes the state at `zxid`, which is read into
/// `replay`. With `inexact`, the state may hold some of what is cut off, as far as a snapshot of
/// ZooKeeper does.
///
/// # Errors
/// When that state cannot be made, the directory is a member's of an ensemble, or the disk fails.
pub fn plan_cut(
    directory: &DataDirectory,
    zxid: i64,
    inexact: bool,
    replay: &mut dyn Replay,
) -> Result<CutPlan, StorageError> {
    refuse_cut_of_member(directory)?;
    let kept = examine_up_to(directory, false, zxid, inexact, replay)?;
    let place = match &kept.end {
        LogEnd::Clean | LogEnd::Torn { .. } => None,
        LogEnd::Reached { path, offset } => Some((path.clone(), *offset)),
        LogEnd::Damaged(
            StorageError::Damage { path, offset, .. } | StorageError::Unfit { path, offset, .. },
        ) if kept.last_zxid == zxid => Some((path.clone(), *offset)),
        LogEnd::Damaged(_) => {
            let (folder, last) = (directory.logs().to_owned(), kept.last_zxid);
            return Err(StorageError::CutBehindEnd { folder, zxid, last });
        }
    };
    let snapshots = useless_snapshots(directory, zxid, &kept)?;
    let (mut cut, mut logs, mut loss) = (None, Vec::new(), Loss::default());
    if let Some((path, offset)) = place {
        let first = file_name::log_zxid(&path);
        loss = behind(directory, first, offset, zxid)?;
        for name in directory.log_zxids()? {
            if name > first || (name == first && offset <= HEADER_LEN) {
                logs.push(directory.log_path(name));
            }
        }
        if offset > HEADER_LEN {
            cut = Some((path, offset));
        }
    }
    Ok(CutPlan { kept, cut, logs, snapshots, loss })
}

/// Those newer than the state, and those that a start would prefer to the one that makes it.
fn useless_snapshots(
    directory: &DataDirectory,
    zxid: i64,
    kept: &Examined,
) -> Result<Vec<PathBuf>, StorageError> {
    let mut found = Vec::new();
    for (of, path) in directory.snapshot_files()? {
        if of > zxid || kept.passed_over.iter().any(|(passed, _)| *passed == path) {
            found.push(path);
        }
    }
    found.reverse();
    Ok(found)
}

#[cfg(test)]
#[path = "cut_test.rs"]
mod cut_test;
