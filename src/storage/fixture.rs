//! What the tests of storage share: a directory on a simulated disk, and ways to look into it.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::sim::SimDisk;
use super::files::directory::{DataDirectory, DirectoryOptions};
use super::ledger::{Ledger, txn};
use super::log::txn_log::LogOptions;
use super::recovery::{Recovered, RecoveryOptions, recover};
use super::{Disk, StorageError};

pub(crate) const FOLDER: &str = "/data/version-2";

/// One process after the other on one directory.
#[derive(Debug, Default)]
pub(crate) struct Fixture {
    pub(crate) disk: SimDisk,
    pub(crate) options: RecoveryOptions,
    /// The snapshot that takes the place of the log, as `raft.state` has it; 0 for none.
    pub(crate) replaces: Cell<i64>,
}

impl Fixture {
    pub(crate) fn new(log: LogOptions) -> Self {
        let options = RecoveryOptions { trust_empty: false, log };
        Self { disk: SimDisk::default(), options, replaces: Cell::default() }
    }

    /// The same on a disk of its own.
    pub(crate) fn fork(&self) -> Self {
        Self { disk: self.disk.fork(), options: self.options, replaces: self.replaces.clone() }
    }

    pub(crate) fn open(&self) -> DataDirectory {
        let options = DirectoryOptions {
            data_dir: "/data".into(),
            data_log_dir: "/data".into(),
            create: true,
        };
        DataDirectory::open(Arc::new(self.disk.clone()), &options).expect("opens")
    }

    /// Starts and stops.
    pub(crate) fn start(&self) -> Result<(Recovered, Ledger), StorageError> {
        let mut ledger = Ledger::default();
        let recovered = recover(&self.open(), self.options, &mut ledger)?;
        Ok((recovered, ledger))
    }

    /// Starts, writing `snapshot.0` if the directory is fresh, and commits `groups` of zxids.
    pub(crate) fn write(&self, groups: &[&[i64]]) -> Recovered {
        let (mut recovered, ledger) = self.start().expect("starts");
        if recovered.fresh {
            ledger.snapshot(&self.open(), 0).expect("snapshot.0");
        }
        for group in groups {
            for zxid in *group {
                recovered.log.append(&txn(*zxid, &data(*zxid))).expect("appends");
            }
            recovered.log.commit().expect("commits");
        }
        recovered
    }

    pub(crate) fn path(name: &str) -> PathBuf {
        Path::new(FOLDER).join(name)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.disk.list(Path::new(FOLDER)).expect("lists")
    }

    pub(crate) fn content(&self, name: &str) -> Vec<u8> {
        self.disk.content(&Self::path(name))
    }

    /// Changes the bytes of a file behind the server's back.
    pub(crate) fn edit(&self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.content(name);
        edit(&mut bytes);
        self.disk.plant(&Self::path(name), &bytes);
    }

    /// Every name with its content, to see that nothing was touched.
    pub(crate) fn image(&self) -> Vec<(String, Vec<u8>)> {
        self.names().into_iter().map(|name| (name.clone(), self.content(&name))).collect()
    }
}

/// The content that [`Fixture::write`] gives a transaction.
pub(crate) fn data(zxid: i64) -> Vec<u8> {
    zxid.to_be_bytes().repeat(5)
}

/// Where each record of a log begins, and after the last one where it ends.
pub(crate) fn offsets(bytes: &[u8]) -> Vec<usize> {
    let mut offsets = vec![16];
    let mut at = 16;
    while let Some(len) = bytes.get(at + 8..at + 12).map(|len| len.try_into().expect("4 bytes")) {
        match u32::from_be_bytes(len) {
            0 => break,
            len => at += 13 + len as usize,
        }
        offsets.push(at);
    }
    offsets
}
