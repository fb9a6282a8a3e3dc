//! What this process has found out about the snapshots and logs of its directory, so that no purge
//! needs to find it out again.
//!
//! Only what holds for a file as long as nobody changes it; whether a read fails does not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::storage::disk::Stamp;
use crate::storage::replay::SnapshotId;

/// What was found out, each about a file as it was then.
#[derive(Debug, Default)]
pub(crate) struct Findings(Mutex<Found>);

#[derive(Debug, Default)]
struct Found {
    /// Snapshots that are on the disk and were read to their end; nothing of one that is of no use.
    snapshots: BTreeMap<PathBuf, (Stamp, Option<SnapshotId>)>,
    /// To which entry, by its index and its zxid, a log was found to lead.
    logs: BTreeMap<PathBuf, (Stamp, (u64, i64))>,
    /// Of which files it was told that they cannot be read or removed.
    told: BTreeSet<PathBuf>,
}

impl Findings {
    /// Which snapshot it is; inside, nothing if it is of no use. `None` if that is not known.
    pub(crate) fn snapshot(&self, path: &Path, stamp: Stamp) -> Option<Option<SnapshotId>> {
        let found = self.0.lock();
        found.snapshots.get(path).filter(|(of, _)| *of == stamp).map(|(_, id)| *id)
    }

    pub(crate) fn set_snapshot(&self, path: &Path, stamp: Stamp, id: Option<SnapshotId>) {
        self.0.lock().snapshots.insert(path.to_owned(), (stamp, id));
    }

    /// Whether the log is known to lead to this entry.
    pub(crate) fn log_leads(&self, path: &Path, stamp: Stamp, to: (u64, i64)) -> bool {
        self.0.lock().logs.get(path) == Some(&(stamp, to))
    }

    pub(crate) fn set_log_leads(&self, path: &Path, stamp: Stamp, to: (u64, i64)) {
        self.0.lock().logs.insert(path.to_owned(), (stamp, to));
    }

    /// Whether it is the first time that this file is told of.
    pub(crate) fn is_told_first(&self, path: &Path) -> bool {
        self.0.lock().told.insert(path.to_owned())
    }

    /// Forgets all files but these.
    pub(crate) fn keep_only(&self, there: &BTreeSet<PathBuf>) {
        let mut found = self.0.lock();
        let Found { snapshots, logs, told } = &mut *found;
        snapshots.retain(|path, _| there.contains(path));
        logs.retain(|path, _| there.contains(path));
        told.retain(|path| there.contains(path));
    }
}
