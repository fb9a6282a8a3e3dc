//! What a member has its disk do: promises, entries, a snapshot in the place of everything, each in
//! its order.
//!
//! The member hands over [`Write`]s and goes on; whoever has the [`DiskWriter`] carries them out,
//! as many at once as wait, and gives back what is durable by that. Until then the member tells
//! nobody of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::promised::Promised;
use super::start::{Ensemble, Started, older_copy};
use super::{EnsembleError, life_of};
use crate::engine::database::Database;
use crate::storage::{
    DataDirectory, EntryWriter, LogEntry, Over, RaftState as Promises, RaftStateFile,
    ReceivedSnapshot, Segments, SpareFiller, StorageError,
};

/// Something for the disk.
#[derive(Debug)]
pub struct Write(pub(super) What);

#[derive(Debug)]
pub(super) enum What {
    /// Another term or vote.
    Promise(Promises),
    /// Other members; the entries that say so are durable.
    Members(Promises),
    /// A server has answered its founder.
    Answered(Promises),
    /// The log is final up to this entry, which is durable. Nothing waits for it:
    /// [`DiskWriter::write_hint`] does it.
    Hint(u64),
    /// They replace what stands from the first of them on.
    Append(Vec<LogEntry>),
    /// It takes the place of the log; the promise goes before it.
    Install(Box<ReceivedSnapshot>, u64, Promises),
    /// The log goes on in a new segment.
    Roll,
    /// Files of the log may be gone that no start needs; up to this entry, all is applied.
    Purged(u64),
    /// The directory is not this member's any more. Nothing is written after that.
    Over(Over),
}

impl Write {
    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        match &self.0 {
            What::Append(entries) => entries.iter().map(|entry| entry.payload.len() + 64).sum(),
            _ => 0,
        }
    }

    /// The first entry that is not on the disk before this is done.
    pub(super) fn first_entry(&self) -> Option<u64> {
        match &self.0 {
            What::Append(entries) => entries.first().map(|entry| entry.index),
            _ => None,
        }
    }
}

/// What came of writes: all of them are durable.
#[derive(Debug, Default)]
pub struct Written {
    /// How many there were.
    pub(super) writes: usize,
    pub(super) segments: Option<Segments>,
    pub(super) installed: Option<(u64, Database)>,
    /// The longest sync of the log among them.
    pub sync: Option<Duration>,
    /// About how much log there is more.
    pub bytes: u64,
    /// Whether somebody removed the log: what stood in it wants a snapshot.
    pub log_was_removed: bool,
}

/// The disk of a member. It is for one thread at a time, and may wait for the disk.
#[derive(Debug)]
pub struct DiskWriter {
    directory: Arc<DataDirectory>,
    ensemble: Ensemble,
    pub(super) log: EntryWriter,
    pub(super) promises: RaftStateFile,
    /// The last one that was taken and is not written.
    hint: Option<u64>,
}

impl DiskWriter {
    pub(super) const fn new(
        directory: Arc<DataDirectory>,
        ensemble: Ensemble,
        log: EntryWriter,
        promises: RaftStateFile,
    ) -> Self {
        Self { directory, ensemble, log, promises, hint: None }
    }

    /// Makes these writes durable, in their order: entries with one sync as far as nothing stands
    /// between them.
    ///
    /// # Errors
    /// When the disk refuses, or does not hold what it has to. Nothing is tried again: the caller
    /// ends the process.
    pub fn write(&mut self, writes: Vec<Write>) -> Result<Written, EnsembleError> {
        let mut written = Written { writes: writes.len(), ..Written::default() };
        for write in writes {
            written.bytes += write.bytes() as u64;
            let Write(what) = write;
            if !matches!(what, What::Append(_) | What::Hint(_)) {
                self.commit(&mut written)?;
            }
            match what {
                What::Promise(promises) | What::Members(promises) | What::Answered(promises) => {
                    self.promises.save(promises)?
                }
                // Data of before is where they would go.
                What::Append(entries) if self.promises.get().clears => {
                    let index = entries.first().map_or(0, |entry| entry.index);
                    return Err(EnsembleError::Entry { index });
                }
                What::Append(entries) => self.log.append(&entries)?,
                What::Hint(index) => self.hint = Some(index),
                What::Install(received, index, promises) => {
                    let database = self.install(*received, index, promises)?;
                    written.installed = Some((index, database));
                }
                What::Roll => self.log.roll()?,
                What::Purged(applied) => self.log.forget_removed(applied)?,
                What::Over(over) => {
                    let promised = self.promises.get().clone();
                    let life = life_of(promised.id);
                    self.promises.save(Promises { over: Some(over), ..promised })?;
                    return Err(match over {
                        Over::OlderCopy => older_copy(&self.directory),
                        Over::Removed => EnsembleError::Replaced { life },
                    });
                }
            }
        }
        self.commit(&mut written)?;
        written.segments = self.log.take_segments();
        written.log_was_removed = self.log.take_was_removed();
        Ok(written)
    }

    /// Writes down how much of the log is final, if that was among the writes. Not before the word
    /// of those is out: they do not wait for it.
    ///
    /// # Errors
    /// When the disk refuses. The caller ends the process, as in [`Self::write`].
    pub fn write_hint(&mut self) -> Result<(), EnsembleError> {
        match self.hint.take() {
            Some(index) => Ok(self.promises.save_commit(index)?),
            None => Ok(()),
        }
    }

    /// What the disk has.
    pub(super) fn promised(&self) -> Promised {
        Promised { term: self.promises.get().term, last: self.log.last_index() }
    }

    fn commit(&mut self, written: &mut Written) -> Result<(), StorageError> {
        if self.log.has_group() {
            let began = Instant::now();
            self.log.commit()?;
            written.sync = written.sync.max(Some(began.elapsed()));
        }
        Ok(())
    }

    /// Puts a snapshot that was checked in the place of the log, and gives the state that it shows.
    fn install(
        &mut self,
        received: ReceivedSnapshot,
        index: u64,
        promises: Promises,
    ) -> Result<Database, EnsembleError> {
        if !received.shows(index) {
            return Err(EnsembleError::Entry { index });
        }
        let directory = Arc::clone(&self.directory);
        // The start below opens what it has listed.
        let _kept = directory.keep_files();
        // Before the snapshot, which does not show them: they are final, and after it nothing of
        // the log says them again. Where it does not come to that, the log says them in their
        // order, up to these. From then on, whatever comes in between, the log goes when the
        // snapshot is there.
        self.promises.save(Promises { replaces: received.zxid(), ..promises })?;
        received.install()?;
        let Started { mut writer, database, applied, .. } =
            self.ensemble.start_installed(Arc::clone(&self.directory))?;
        if applied != index || writer.log.last_index() != index {
            return Err(EnsembleError::Entry { index });
        }
        writer.log.keep_spares(&self.log);
        *self = writer;
        Ok(database)
    }

    /// The filler of the log's spares, for a thread of its own.
    #[must_use]
    pub fn spare_filler(&self) -> SpareFiller {
        self.log.spare_filler()
    }
}

#[cfg(test)]
#[path = "handed_over_test.rs"]
mod handed_over_test;
