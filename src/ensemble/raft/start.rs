//! From a data directory to a member: its promises, its log, and the state that is final in it.
//!
//! A log can hold entries that no majority has. They are read and kept, but only what is known to
//! be final is applied; the others tell what became of the rest.

use std::sync::Arc;

use jute::txn::TxnRecord;

use super::configuration::{MemberChange, before_last};
use super::disk::DiskWriter;
use super::ground::{Before, refuse_gone_on};
use super::log_store::{LogStore, SnapshotPlace};
use super::promised::Promised;
use super::{EnsembleError, FIRST_LIFE, PeerMessage, life_of, server_of};
use crate::engine::database::{Database, Rules};
use crate::engine::time::WallClock;
use crate::ensemble::founding::Founding;
use crate::ensemble::rebuild::Rebuild;
use crate::ensemble::snapshots::first_snapshot;
use crate::list::ServerList;
use crate::storage::{
    Compression, DataDirectory, EntryLog, Front, Nothing, Over, RaftState, RaftStateFile,
    ReceivedSnapshot, Recovered, RecoveryOptions, Refused, Replay, SessionSecret, SnapshotId,
    SnapshotOrigin, StorageError, discard_void_log, has_come, move_data_aside,
    move_data_before_aside, pass_over, recover_member,
};

/// How a member keeps its data.
#[derive(Clone, Debug)]
pub struct Ensemble {
    /// The server that it is (`myid`).
    pub server: u8,
    /// How its log is read and written.
    pub recovery: RecoveryOptions,
    /// What all members agree on.
    pub rules: Rules,
    /// Makes hashes and election timeouts unpredictable.
    pub seed: u64,
    /// Transactions of a term, of the 2^32 that its zxids can count, after which another one
    /// begins.
    pub zxids_a_term: u32,
    /// What `/zookeeper/config` shows where the ensemble has agreed on no list, or this server does
    /// not go by it; nothing but what the log says where there is none.
    pub list: Option<List>,
    /// Whether a server may be alone without an ensemble (`standaloneEnabled`).
    pub standalone_enabled: bool,
}

/// The servers as this one's configuration has them.
#[derive(Clone, Debug)]
pub struct List {
    /// All of them.
    pub list: ServerList,
    /// Since when it has them.
    pub since: WallClock,
}

/// A member's directory, opened and read.
#[derive(Debug)]
pub struct Started {
    pub(super) store: LogStore,
    pub(super) writer: DiskWriter,
    /// What is known to be final.
    pub database: Database,
    /// The last entry in it.
    pub(super) applied: u64,
    /// What passwords of sessions are made with; `None` is ZooKeeper's formula.
    pub secret: Option<SessionSecret>,
}

impl Started {
    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Arc<DataDirectory> {
        self.store.directory()
    }

    /// Which member it is.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.store.promises.id
    }

    /// What its directory holds.
    #[must_use]
    pub fn promised(&self) -> Promised {
        self.writer.promised()
    }

    /// Of which ensemble.
    #[must_use]
    pub fn ensemble(&self) -> u64 {
        self.store.promises.ensemble
    }

    /// As its founder, which servers it has to ask whether they belong to it, and what.
    #[must_use]
    pub fn founding(&self) -> (Vec<u8>, Founding) {
        let promises = &self.store.promises;
        (promises.asks.clone(), Founding::of(promises))
    }
}

impl Ensemble {
    /// Reads `directory`, which is a member's, finishing what an earlier process left half done.
    ///
    /// # Errors
    /// When the disk refuses or what it holds is not what it has to be.
    pub fn start(&self, directory: Arc<DataDirectory>) -> Result<Started, EnsembleError> {
        self.start_with(directory, false)
    }

    /// The same after the installing of a snapshot, which was checked.
    pub(super) fn start_installed(
        &self,
        directory: Arc<DataDirectory>,
    ) -> Result<Started, EnsembleError> {
        self.start_with(directory, true)
    }

    /// Finds out whether a start can be made from a snapshot that came with this message. It takes
    /// as long as one, and as much memory.
    ///
    /// # Errors
    /// When none can, or the disk refuses.
    pub fn check(
        &self,
        message: &PeerMessage,
        received: &mut ReceivedSnapshot,
    ) -> Result<(), StorageError> {
        let index = message.get_snapshot().get_metadata().index;
        received.check(index, &mut Rebuild::new(self.seed, self.rules))
    }

    /// What the member of `directory` has promised, on the disk again: what an earlier process
    /// could only read may be gone with the next loss of power, and nobody is to hear of it.
    ///
    /// # Errors
    /// When the disk refuses, or the directory is not this member's any more.
    pub fn promises(&self, directory: &DataDirectory) -> Result<RaftStateFile, EnsembleError> {
        refuse_gone_on(directory)?;
        let promises = RaftStateFile::open(directory)?.ok_or(EnsembleError::NotBegun)?;
        let RaftState { id, over, .. } = *promises.get();
        if server_of(id) != self.server {
            return Err(EnsembleError::Foreign { found: server_of(id), expected: self.server });
        }
        if over == Some(Over::OlderCopy) {
            return Err(older_copy(directory));
        }
        Ok(promises)
    }

    fn start_with(
        &self,
        directory: Arc<DataDirectory>,
        is_checked: bool,
    ) -> Result<Started, EnsembleError> {
        let mut promises = self.promises(&directory)?;
        let was = promises.get().clone();
        let RaftState { id, base, founds, clears, replaces, .. } = was;
        if founds {
            Before::read(Arc::clone(&directory), self)?.begin(&mut promises)?;
        }
        if clears && !self.move_before_aside(&directory, &was, &mut promises, is_checked)? {
            // Its founder's disk may be lost before the base has come. Until then what lies here
            // is what it has.
            return self.start_beside(directory, promises);
        }
        if replaces != 0 {
            self.end_replacing(&directory, replaces, &mut promises, is_checked)?;
        }
        let (commit, recovered, replay) = self.recover(&directory, &mut promises)?;
        if promises.get().is_removed() {
            return Err(EnsembleError::Replaced { life: life_of(id) });
        }
        let index = match recovered.snapshot.origin {
            SnapshotOrigin::Exact { index } => index,
            SnapshotOrigin::None if recovered.fresh => 0,
            SnapshotOrigin::None | SnapshotOrigin::Java => return Err(EnsembleError::NotBegun),
        };
        let mut database = replay.rebuild.finish();
        self.show_list(&mut database);
        if recovered.fresh {
            first_snapshot(&directory, &mut database, Compression::None)?;
        }
        // For whoever copies the directory, or makes one of no ensemble of it. Not before the
        // snapshot: a key without one tells of a snapshot that is gone.
        let secret = promises.secret().cloned();
        let disk = directory.disk().as_ref();
        SessionSecret::install(secret.as_ref(), disk, directory.snapshots())?;
        let (log, snapshot) = (recovered.log, recovered.snapshot);
        let (log, writer) = EntryLog::open(Arc::clone(&directory), log, snapshot, base)?;
        let last = log.last_index();
        if last < commit {
            let command = directory.aside_command();
            return Err(EnsembleError::Lost { last, commit, command });
        }
        let snapshot = SnapshotPlace { index, zxid: snapshot.zxid };
        let applied = commit.max(index);
        let promised = promises.get().clone();
        let writer = DiskWriter::new(Arc::clone(&directory), self.clone(), writer, promises);
        let store = LogStore::new(directory, log, promised, snapshot, applied);
        Ok(Started { store, writer, database, applied, secret })
    }
}

impl Ensemble {
    /// Shows this server's own list, unless the ensemble has agreed on one.
    fn show_list(&self, database: &mut Database) {
        // Also where this server does not go by it: what the others agreed on is theirs.
        let has_agreed = database.agreed_list().is_some();
        if let Some(List { list, since }) = self.list.as_ref().filter(|_| !has_agreed) {
            database.show_members(&list.text(), *since);
        }
    }

    /// Moves what lay in the directory before the member did aside. Not where the member has
    /// nothing in its place yet, which gives `false`.
    fn move_before_aside(
        &self,
        directory: &DataDirectory,
        was: &RaftState,
        promises: &mut RaftStateFile,
        is_checked: bool,
    ) -> Result<bool, EnsembleError> {
        let RaftState { id, base, ensemble, own, replaces, .. } = *was;
        let folder = aside(id, ensemble);
        let zxid = format_args!("{:#x}", own.1);
        if base == 0 {
            // Not only when the ensemble's data has come: whoever has a seat may be sent the
            // log from its first entry on, and has no other place for that.
            tracing::info!(
                zxid,
                folder,
                way_back = directory.back_command(&folder),
                "the data that this directory held before it joined the ensemble is moved aside \
                 and kept; if all other members are lost for good before this server has loaded \
                 the ensemble's data, stop it, run the command in `way_back`, and start it: this \
                 data is then used again"
            );
            move_data_aside(directory, &folder)?;
        } else if replaces != 0 && self.has_come(directory, replaces, is_checked)? {
            tracing::info!(
                zxid,
                folder,
                "the data that this directory held before it joined the ensemble is moved aside \
                 and kept"
            );
            move_data_before_aside(directory, replaces, &folder)?;
        } else {
            return Ok(false);
        }
        let state = RaftState { clears: false, ..promises.get().clone() };
        promises.save(state)?;
        Ok(true)
    }

    /// A snapshot was to take the place of the log, and not all of that was done: discards what is
    /// void by it.
    fn end_replacing(
        &self,
        directory: &DataDirectory,
        replaces: i64,
        promises: &mut RaftStateFile,
        is_checked: bool,
    ) -> Result<(), EnsembleError> {
        // Of an earlier version, or of a disk that rots: the log goes for nothing from which no
        // start can be made.
        let shown = match is_checked {
            true => discard_void_log(directory, replaces, &mut Nothing)?,
            false => {
                let mut rebuild = Rebuild::new(self.seed, self.rules);
                discard_void_log(directory, replaces, &mut rebuild)?
            }
        };
        let shown = shown.unwrap_or(0);
        let promised = promises.get().clone();
        // Without the snapshot, an older one must never be enough again.
        let commit = promised.commit.max(shown);
        promises.save(RaftState { replaces: 0, commit, ..promised })?;
        Ok(())
    }

    /// Reads the snapshot and the log, and applies what is known to be final: up to which entry,
    /// what there is, and what was made of it.
    fn recover(
        &self,
        directory: &DataDirectory,
        promises: &mut RaftStateFile,
    ) -> Result<(u64, Recovered, FinalOnly), EnsembleError> {
        // Logs without a snapshot are no state that the others have counted this member for: they
        // have it all.
        let options = RecoveryOptions { trust_empty: false, ..self.recovery };
        loop {
            let RaftState { commit, configured_at, ref members, .. } = *promises.get();
            let rebuild = Rebuild::new(self.seed, self.rules).of_member();
            let mut replay = FinalOnly::new(rebuild, commit);
            let recovered = recover_member(directory, options, &mut replay)?;
            // Who knows members of two changes ago could elect with one who has gone: what the log
            // alone shows to be final counts before it votes.
            let Some((members, at)) = before_last(members, configured_at, &replay.changes) else {
                return Ok((commit, recovered, replay));
            };
            drop(recovered);
            let state = promises.get().clone();
            let commit = commit.max(at);
            promises.save(RaftState { members, configured_at: at, commit, ..state })?;
        }
    }

    fn has_come(
        &self,
        directory: &DataDirectory,
        snapshot: i64,
        is_checked: bool,
    ) -> Result<bool, StorageError> {
        match is_checked {
            true => has_come(directory, snapshot, &mut Nothing),
            false => has_come(directory, snapshot, &mut Rebuild::new(self.seed, self.rules)),
        }
    }

    /// A member whose base has not come: it has nothing, and what lies in the directory is of
    /// before.
    fn start_beside(
        &self,
        directory: Arc<DataDirectory>,
        mut promises: RaftStateFile,
    ) -> Result<Started, EnsembleError> {
        let promised = promises.get().clone();
        if promised.replaces != 0 {
            promises.save(RaftState { replaces: 0, ..promised.clone() })?;
        }
        if promised.is_removed() {
            return Err(EnsembleError::Replaced { life: life_of(promised.id) });
        }
        if promised.commit > 0 {
            let (last, commit, command) = (0, promised.commit, directory.aside_command());
            return Err(EnsembleError::Lost { last, commit, command });
        }
        let mut rebuild = Rebuild::new(self.seed, self.rules).of_member();
        pass_over(&directory, &mut rebuild)?;
        let mut database = rebuild.finish();
        self.show_list(&mut database);
        let (log, writer) = EntryLog::beside(Arc::clone(&directory), self.recovery.log)?;
        let secret = promises.secret().cloned();
        let promised = promises.get().clone();
        let writer = DiskWriter::new(Arc::clone(&directory), self.clone(), writer, promises);
        let nothing = SnapshotPlace { index: 0, zxid: 0 };
        let store = LogStore::new(directory, log, promised, nothing, 0);
        Ok(Started { store, writer, database, applied: 0, secret })
    }
}

pub(super) fn older_copy(directory: &DataDirectory) -> EnsembleError {
    EnsembleError::OlderCopy(StorageError::older_copy(directory))
}

/// Where data goes that lay in the directory before the member did: another place for each member.
fn aside(id: u64, ensemble: u64) -> String {
    match life_of(id) {
        FIRST_LIFE => format!("before-{ensemble:016x}"),
        life => format!("before-{ensemble:016x}-{life}"),
    }
}

/// Applies what is known to be final and passes over the rest.
struct FinalOnly {
    rebuild: Rebuild,
    commit: u64,
    /// Of the last record.
    index: u64,
    /// The changes of the members among the records that are passed over, with their indexes.
    changes: Vec<(u64, MemberChange)>,
}

impl FinalOnly {
    const fn new(rebuild: Rebuild, commit: u64) -> Self {
        Self { rebuild, commit, index: 0, changes: Vec::new() }
    }
}

impl Front for FinalOnly {
    fn behind(&mut self) -> &mut dyn Replay {
        &mut self.rebuild
    }

    fn begins(&mut self, snapshot: &SnapshotId) {
        self.changes.clear();
        self.index = match snapshot.origin {
            SnapshotOrigin::Exact { index } => index,
            SnapshotOrigin::None | SnapshotOrigin::Java => 0,
        };
    }

    /// The members compare their trees, and a tree that differs is loaded from the leader.
    fn finds_another_history(&self) -> bool {
        false
    }

    fn sees(&mut self, record: &TxnRecord<'_>) -> Result<(), Refused> {
        self.index += 1;
        if self.index <= self.commit {
            return self.rebuild.txn(record);
        }
        // No transaction that failed has such an error: ZooKeeper's are negative.
        self.changes.extend(MemberChange::of(record).map(|change| (self.index, change)));
        Ok(())
    }
}

#[cfg(test)]
#[path = "bit_flip_test.rs"]
mod bit_flip_test;

#[cfg(test)]
#[path = "start_test.rs"]
mod start_test;
