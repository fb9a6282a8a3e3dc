//! The state of a data directory as a start would make it, while somebody may be writing.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use jute::txn::{Txn, TxnRecord};

use super::error::CommandError;
use super::place::Folders;
use super::progress::Progress;
use super::words::counted;
use crate::engine::database::Database;
use crate::ensemble::Rebuild;
use crate::storage::{
    self, DataDirectory, Examined, Front, LogEnd, Refused, Replay, StorageError, TRAILER_LEN,
};

/// How often a directory is read anew that changes meanwhile.
const TRIES: u32 = 6;

/// What a start would make of a directory.
pub(super) struct StartState {
    pub(super) examined: Examined,
    pub(super) database: Database,
    /// Parts of the longest multi after the snapshot.
    pub(super) longest_multi: usize,
    /// Bytes of the longest record after the snapshot.
    pub(super) longest_record: usize,
    /// How long the reading took, in milliseconds.
    pub(super) read_ms: u64,
}

impl StartState {
    pub(super) fn read(directory: &DataDirectory, folders: &Folders) -> Result<Self, CommandError> {
        Self::read_by(directory, || folders.rebuild(directory))
    }

    /// As it is when the directory belongs to no ensemble any more.
    ///
    /// # Errors
    /// As those of [`Self::read`].
    pub(super) fn read_as_left(
        directory: &DataDirectory,
        folders: &Folders,
    ) -> Result<Self, CommandError> {
        Self::read_by(directory, || Ok(folders.rebuild(directory)?.of_former_member()))
    }

    fn read_by(
        directory: &DataDirectory,
        rebuild: impl Fn() -> Result<Rebuild, StorageError>,
    ) -> Result<Self, CommandError> {
        let progress = Progress::waiting("reading the data directory");
        let mut seen = None;
        let mut tries = TRIES;
        let state = loop {
            tries -= 1;
            match Self::read_once(directory, rebuild()) {
                // A purge was faster.
                Err(StorageError::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound && tries > 0 => {}
                // A group that was being written can look like damage, once.
                Ok(state) if state.damaged_at() != seen && tries > 0 => match state.damaged_at() {
                    None => break Ok(state),
                    at => seen = at,
                },
                other => break other,
            }
        };
        drop(progress);
        Ok(state?)
    }

    fn read_once(
        directory: &DataDirectory,
        rebuild: Result<Rebuild, StorageError>,
    ) -> Result<Self, StorageError> {
        let began = Instant::now();
        let mut census =
            Census { inner: rebuild?, longest_multi: 0, longest_record: 0, record: Vec::new() };
        let examined = storage::examine(directory, false, i64::MAX, &mut census)?;
        let Census { inner, longest_multi, longest_record, record: _ } = census;
        let database = inner.finish();
        let read_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Self { examined, database, longest_multi, longest_record, read_ms })
    }

    pub(super) fn damage(&self) -> Option<&StorageError> {
        match &self.examined.end {
            LogEnd::Damaged(error) => Some(error),
            _ => None,
        }
    }

    fn damaged_at(&self) -> Option<(PathBuf, u64)> {
        match self.damage() {
            Some(
                StorageError::Damage { path, offset, .. }
                | StorageError::Unfit { path, offset, .. },
            ) => Some((path.clone(), *offset)),
            _ => None,
        }
    }
}

/// What is in a state, in lines.
pub(super) fn contents(database: &Database) -> [String; 2] {
    let tree = database.tree();
    [
        format!(
            "znodes     {}, {} of them ephemeral, {} of paths and data",
            tree.count(),
            tree.ephemerals_count(),
            counted(tree.data_size(), "byte")
        ),
        format!("sessions   {}", database.sessions().len()),
    ]
}

/// Counts on the way to the state.
struct Census {
    inner: Rebuild,
    longest_multi: usize,
    longest_record: usize,
    /// The one that is measured.
    record: Vec<u8>,
}

impl Front for Census {
    fn behind(&mut self) -> &mut dyn Replay {
        &mut self.inner
    }

    fn finds_another_history(&self) -> bool {
        self.inner.is_another_history()
    }

    fn sees(&mut self, record: &TxnRecord<'_>) -> Result<(), Refused> {
        if let Txn::Multi(parts) = &record.txn {
            self.longest_multi = self.longest_multi.max(parts.len());
        }
        self.record.clear();
        record.encode(&mut self.record);
        self.longest_record = self.longest_record.max(self.record.len() + TRAILER_LEN);
        self.inner.txn(record)
    }
}

/// The znode with the most data.
pub(super) fn largest(database: &Database) -> (String, usize) {
    let tree = database.tree();
    let Some(root) = tree.find("/") else { return ("/".to_owned(), 0) };
    let mut largest = (root, tree.data(root).map_or(0, <[u8]>::len));
    tree.for_each_below(root, |id, len| {
        if len > largest.1 {
            largest = (id, len);
        }
    });
    (tree.path(largest.0), largest.1)
}
