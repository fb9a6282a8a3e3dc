//! From a data directory to a member: its promises, its log, and the state that is final in it.
//!
//! A log can hold entries that no majority has. They are read and kept, but only what is known to
//! be final is applied; the others tell what became of the rest.

use std::sync::Arc;

use jute::txn::TxnRecord;

use super::configuration::{Change, before_last};
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
    /// What `/zookeeper/config` shows; nothing but what the log says where there is none.
    pub list: Option<List>,
}

/// The members as this server's configuration has them.
#[derive(Clone, Debug)]
pub struct List {
    /// ZooKeeper's text of them.
    pub text: String,
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
        if was.founds {
            Before::read(Arc::clone(&directory), self)?.begin(&mut promises)?;
        }
        if was.clears {
            if !self.clears_before(&directory, &was, is_checked)? {
                // Its founder's disk may be lost before the base has come. Until then what lies
                // here is what it has.
                return self.start_beside(directory, promises);
            }
            let state = RaftState { clears: false, ..promises.get().clone() };
            promises.save(state)?;
        }
        if was.replaces != 0 {
            self.ends_replacing(&directory, &mut promises, was.replaces, is_checked)?;
        }
        let (commit, recovered, replay) = self.recover(&directory, &mut promises)?;
        if promises.get().is_removed() {
            return Err(EnsembleError::Replaced { life: life_of(was.id) });
        }
        let index = match recovered.snapshot.origin {
            SnapshotOrigin::Exact { index } => index,
            SnapshotOrigin::None if recovered.fresh => 0,
            SnapshotOrigin::None | SnapshotOrigin::Java => return Err(EnsembleError::NotBegun),
        };
        let mut database = replay.rebuild.finish();
        if let Some(List { text, since }) = &self.list {
            database.show_members(text, *since);
        }
        if recovered.fresh {
            first_snapshot(&directory, &mut database, Compression::None)?;
        }
        // For whoever copies the directory, or makes one of no ensemble of it. Not before the
        // snapshot: a key without one tells of a snapshot that is gone.
        let secret = promises.secret().cloned();
        let disk = directory.disk().as_ref();
        SessionSecret::install(secret.as_ref(), disk, directory.snapshots())?;
        let (log, snapshot) = (recovered.log, recovered.snapshot);
        let (log, writer) = EntryLog::open(Arc::clone(&directory), log, snapshot, was.base)?;
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
    /// Moves aside what the directory held before the ensemble, if it may go yet. Whether it did.
    fn clears_before(
        &self,
        directory: &DataDirectory,
        was: &RaftState,
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
                "the data that this directory held before it joined the ensemble is moved aside and kept; if all other \
                 members are lost for good before this server has loaded the ensemble's data, stop it, run the command in \
                 `way_back`, and start it: this data then counts again"
            );
            move_data_aside(directory, &folder)?;
        } else if replaces != 0 && self.has_come(directory, replaces, is_checked)? {
            tracing::info!(
                zxid,
                folder,
                "the data that this directory held before it joined the ensemble is moved aside and kept"
            );
            move_data_before_aside(directory, replaces, &folder)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// The snapshot that was to take the place of the log has come, or never will.
    fn ends_replacing(
        &self,
        directory: &DataDirectory,
        promises: &mut RaftStateFile,
        replaces: i64,
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

    /// What is final, and up to where: what the promises say, or what the log alone shows.
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
        if let Some(List { text, since }) = &self.list {
            database.show_members(text, *since);
        }
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
    changes: Vec<(u64, Change)>,
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
        self.changes.extend(Change::of(record).map(|change| (self.index, change)));
        Ok(())
    }
}

#[cfg(test)]
#[path = "bit_flip_test.rs"]
mod bit_flip_test;

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::super::disk::{What, Write};
    use super::super::fixture::{change, directory, ensemble, entry};
    use super::super::ground::take_another_seat;
    use super::super::member_id;
    use super::*;
    use crate::engine::database::Rules;
    use crate::ensemble::founding::Seat;
    use crate::message::told::lines_told;
    use crate::storage::sim::{Dice, Fault, SimDisk};
    use crate::storage::{LogEntry, Members, RaftStateFile, Reading, adler32};

    /// As a start of a server alone does, once a second.
    #[test]
    fn a_members_start_tells_how_far_it_is() {
        let rebuild = Rebuild::new(1, Rules::default());
        let mut replay = FinalOnly::new(rebuild, 0);
        std::thread::sleep(Duration::from_secs(1));
        for reading in [Reading::Snapshot, Reading::Logs] {
            let ((), lines) = lines_told(|| replay.progress(reading, 1, 2));
            assert_eq!(lines, usize::from(reading == Reading::Snapshot), "{reading:?}");
        }
    }

    /// What lay there goes aside, unless somebody has gone on with it since it was to.
    #[test]
    fn what_another_server_has_gone_on_with_does_not_go_aside() {
        for (own, newer) in [(0x5_0000_0007, false), (0x5_0000_0006, true)] {
            let disk = SimDisk::default();
            let open = || Arc::new(directory(&disk));
            let log = Path::new("/data/version-2/log.500000007");
            let LogEntry { payload, .. } = entry(1, 0x5_0000_0007);
            let mut bytes = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
            bytes.extend(i64::from(adler32(&payload)).to_be_bytes());
            bytes.extend((payload.len() as u32).to_be_bytes());
            bytes.extend(payload.iter().chain(b"B"));
            disk.plant(log, &bytes);
            let members = Members { voters: vec![member_id(1, 1)], ..Members::default() };
            let first = RaftState {
                id: member_id(1, 1),
                term: 6,
                clears: true,
                own: (5, own),
                members,
                ..RaftState::default()
            };
            RaftStateFile::create(&open(), &first, None).expect("creates");
            let started = ensemble(1500, true).start(open()).map(drop);
            match newer {
                false => started.expect("starts"),
                true => {
                    let ended = started.expect_err("ends");
                    assert!(matches!(ended, EnsembleError::Storage(StorageError::WentOn { .. })));
                    assert!(!disk.content(log).is_empty(), "it is there");
                }
            }
        }
    }

    /// A member that was taken out takes another seat, and the power goes at any time: it is the
    /// one or the other, and what it had is in one place.
    #[test]
    fn another_seat_is_taken_whenever_the_power_goes() {
        let (gone, new) = (member_id(2, 1), member_id(2, 40));
        let voters = vec![member_id(1, 1), member_id(3, 1)];
        let how = Ensemble { server: 2, ..ensemble(1500, true) };
        let (mut again, mut aside) = (0, 0);
        for fails_after in 0..90 {
            let disk = SimDisk::default();
            let open = || Arc::new(directory(&disk));
            let all = [voters.as_slice(), &[gone]].concat();
            let members = Members { voters: all, ..Members::default() };
            let first =
                RaftState { id: gone, term: 7, ensemble: 5, members, ..RaftState::default() };
            RaftStateFile::create(&open(), &first, None).expect("creates");
            let mut started = how.start(open()).expect("starts");
            let entry = entry(1, 7 << 32);
            started.writer.write(vec![Write(What::Append(vec![entry]))]).expect("writes");
            started.writer.write(vec![Write(What::Over(Over::Removed))]).expect_err("ends");
            drop(started);
            let had = disk.content(Path::new("/data/version-2/log.700000000"));
            let members =
                Members { voters: voters.clone(), learners: vec![new], ..Members::default() };
            let (line, generation) = (5, 1);
            let seat = Seat {
                id: new,
                ensemble: 5,
                line,
                generation,
                term: 6,
                members,
                configured_at: 40,
            };
            let at = open();
            disk.fail_after(fails_after, Fault::PowerLoss);
            let taken = take_another_seat(&at, seat.clone(), None);
            let started = taken.and_then(|()| how.start(at).map(drop));
            disk.crash(&mut Dice(fails_after));
            let open = || Arc::new(directory(&disk));
            let state = RaftStateFile::look(&open()).expect("reads").expect("a member");
            if state.id == gone {
                assert!(started.is_err() && state.is_removed());
                assert!(disk.content(Path::new("/data/version-2/log.700000000")) == had);
                how.promises(&open()).expect("what it promised is whole");
                take_another_seat(&open(), seat, None).expect("takes it now");
                again += 1;
            }
            let started = how.start(open()).expect("starts");
            assert_eq!((started.id(), started.store.log.last_index()), (new, 0));
            let kept = disk.content(Path::new("/data/before-0000000000000005-40/log.700000000"));
            assert!(kept == had && !had.is_empty(), "after {fails_after}");
            aside += 1;
        }
        assert!(again > 3 && aside == 90, "{again} {aside}");
    }

    /// The log of a member whose promises are of before it.
    fn started_behind(own: u8, changes: &[(u64, Change)]) -> Result<Started, EnsembleError> {
        let disk = SimDisk::default();
        let open = || directory(&disk);
        let voters = (1..6).map(|server| member_id(server, 1)).collect();
        let members = Members { voters, ..Members::default() };
        let first = RaftState { id: member_id(own, 1), term: 1, members, ..RaftState::default() };
        RaftStateFile::create(&open(), &first, None).expect("creates");
        let how = Ensemble { server: own, ..ensemble(1500, true) };
        let mut started = how.start(Arc::new(open())).expect("starts");
        let entries = (1..30).map(|index| {
            let zxid = (1_u64 << 32 | (index - 1)).cast_signed();
            let found = changes.iter().find(|(at, _)| *at == index);
            found.map_or_else(|| entry(index, zxid), |(_, what)| change(index, zxid, *what))
        });
        let write = Write(What::Append(entries.collect()));
        started.writer.write(vec![write]).expect("writes");
        drop(started);
        how.start(Arc::new(open()))
    }

    #[test]
    fn an_older_copy_that_was_refused_never_starts_again() {
        let disk = SimDisk::default();
        let open = || Arc::new(directory(&disk));
        let members = Members { voters: vec![member_id(1, 1)], ..Members::default() };
        let first = RaftState { id: member_id(1, 1), term: 1, members, ..RaftState::default() };
        RaftStateFile::create(&open(), &first, None).expect("creates");
        let how = ensemble(1500, true);
        let mut started = how.start(open()).expect("starts");
        let ended =
            started.writer.write(vec![Write(What::Over(Over::OlderCopy))]).expect_err("ends");
        assert!(matches!(ended, EnsembleError::OlderCopy { .. }), "{ended}");
        drop(started);
        for _ in 0..2 {
            let ended = how.start(open()).map(drop).expect_err("ends");
            assert!(ended.to_string().contains("/data/version-2 is an older copy"), "{ended}");
        }
    }

    #[test]
    fn a_start_does_not_know_members_of_two_changes_ago() {
        let (gone, new) = (member_id(5, 1), member_id(5, 9));
        let changes = [(9, Change::Seat(5)), (14, Change::Remove(gone)), (20, Change::Vote(new))];
        for (count, commit, voters, learners) in [
            // What is alone may not be final.
            (1, 0, 5, vec![]),
            (2, 9, 5, vec![new]),
            (3, 14, 4, vec![new]),
        ] {
            let started = started_behind(1, &changes[..count]).expect("starts");
            let promises = &started.store.promises;
            assert_eq!((promises.commit, promises.configured_at), (commit, commit));
            assert_eq!(started.applied, commit);
            assert_eq!(promises.members.voters.len(), voters);
            assert_eq!(promises.members.learners, learners);
            assert_eq!(started.writer.promises.get(), promises, "it is durable");
        }
        // It was taken out itself.
        let ended = started_behind(5, &changes).map(drop).expect_err("ends");
        assert!(matches!(ended, EnsembleError::Replaced { life: 1 }), "{ended}");
        started_behind(5, &changes[..2]).expect("that it was is not final");
    }
}
