//! What a directory holds that belongs to no ensemble yet, and how it becomes a member's.

use std::path::PathBuf;
use std::sync::Arc;

use jute::txn::{Txn, TxnHeader, TxnRecord};

use super::log_store::first_zxid;
use super::{Ensemble, EnsembleError, OrderError, server_of};
use crate::engine::apply::Mode;
use crate::engine::database::Database;
use crate::engine::session::SessionId;
use crate::engine::zxid::Zxid;
use crate::ensemble::founding::{Founding, LastRecord, Seat};
use crate::ensemble::rebuild::Rebuild;
use crate::ensemble::snapshots::snapshot_of;
use crate::ensemble::standing::{Base, Left, OfLine, Servers, has_begun, lacks_base};
use crate::storage::{
    Compression, DataDirectory, EpochFile, Members, RaftState, RaftStateFile, SessionKey,
    SessionSecret, SnapshotId, SnapshotOrigin, StorageError, TxnLog, record_of, recover,
    refuse_unreadable_end, whose,
};

fn all(members: &Members) -> impl Iterator<Item = u64> {
    members.voters.iter().chain(&members.learners).copied()
}

/// The founder that this directory's member has accepted knows of it: from here on it takes part.
///
/// # Errors
/// When the disk refuses.
pub fn founder_knows(directory: &DataDirectory) -> Result<(), StorageError> {
    let Some(mut promises) = RaftStateFile::open(directory)? else { return Ok(()) };
    let state = RaftState { awaits: 0, ..promises.get().clone() };
    promises.save(state)
}

/// The zxid of the record that an ensemble begins with.
fn founding_zxid(state: &RaftState) -> i64 {
    // None is above what 31 bits hold.
    first_zxid(i64::try_from(state.founded_in).unwrap_or(0).min(0x7fff_ffff))
}

/// Whether it is that of this record, which earlier versions gave the number 0 of its term.
fn is_of_founding(zxid: i64, state: &RaftState) -> bool {
    let founding = founding_zxid(state);
    [founding - 1, founding].contains(&zxid)
}

/// Whether this is the zxid of a record that an ensemble was to begin with, of those that were
/// founded on what `left` was, up to it: an ensemble that came to nothing leaves one, and the next
/// one is founded on the same. Nobody else begins an epoch up to its term: a leader of ours does in
/// an ensemble that has begun, ZooKeeper's takes a later one, and whoever goes on alone counts on
/// in the epoch that is there.
fn is_of_a_founding(left: &RaftState, zxid: i64) -> bool {
    let begins = first_zxid(zxid >> 32);
    let is_later = zxid >> 32 > left.own.1 >> 32;
    is_later && [begins - 1, begins].contains(&zxid) && zxid <= founding_zxid(left)
}

/// Whether a directory that left an ensemble holds, beside what it held before, at most records
/// that ensembles were to begin with: only a founder has one before a leader is there, and whoever
/// has nothing yet of one that has begun has none of that. `current` is `currentEpoch`, which is
/// raised before that record, and further by whoever went on.
#[must_use]
pub fn is_bare_founding(left: &RaftState, last_zxid: i64, current: i64) -> bool {
    let has_come = left.replaces != 0 && last_zxid >= left.replaces;
    let lacks_base = left.base != 0 && left.clears && !has_come;
    let is_bare_yet = !has_begun(left) || lacks_base;
    let is_founded = left.founded_in != 0 && left.own.1 != 0 && is_bare_yet;
    let is_bare = last_zxid == left.own.1 || is_of_a_founding(left, last_zxid);
    is_founded && is_bare && current <= founding_zxid(left) >> 32
}

/// A directory of no ensemble, or of a founder that has promised one and made nothing for it yet,
/// read.
#[derive(Debug)]
pub struct Before {
    directory: Arc<DataDirectory>,
    database: Database,
    log: TxnLog,
    /// The snapshot that it begins with.
    snapshot: SnapshotId,
    /// The last record, and what of it counts.
    last_zxid: i64,
    base: Base,
    accepted: Option<u64>,
    left: Option<Left>,
    detached: Option<u64>,
    ends_with: Option<LastRecord>,
}

/// What the raft.state of a directory says of its ensemble, for which the last record was written
/// with this zxid.
#[must_use]
pub fn of_line(state: &RaftState, last: i64) -> Left {
    let RaftState { id, ensemble, line, generation, term, ref members, awaits, .. } = *state;
    let servers = |ids: &[u64]| ids.iter().copied().map(server_of).collect::<Servers>();
    let (voters, outgoing) = (servers(&members.voters), servers(&members.voters_outgoing));
    let lacks_base = lacks_base(state, last);
    // What lay there before a seat was taken goes aside at the first start as its member.
    let held = state.own.1 != 0 && (state.clears || state.founded_in != 0);
    let is_voter = members.voters.contains(&id) || members.voters_outgoing.contains(&id);
    let lacks_vote = awaits != 0 || !is_voter;
    let of =
        OfLine { line, generation, term, last, lacks_base, held, lacks_vote, voters, outgoing };
    Left { ensemble, of }
}

impl Before {
    /// Reads `directory` as a standalone server does.
    ///
    /// # Errors
    /// When acknowledged transactions may be missing, or the disk refuses.
    pub fn read(directory: Arc<DataDirectory>, how: &Ensemble) -> Result<Self, EnsembleError> {
        Self::read_left(directory, how, None)
    }

    /// The same of a directory that was a member's of this ensemble until now.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of_member(
        directory: Arc<DataDirectory>,
        how: &Ensemble,
        left: Left,
    ) -> Result<Self, EnsembleError> {
        Self::read_left(directory, how, Some(left))
    }

    fn read_left(
        directory: Arc<DataDirectory>,
        how: &Ensemble,
        left: Option<Left>,
    ) -> Result<Self, EnsembleError> {
        // A founder that has not begun yet is one of those that have no ensemble.
        let rebuild = Rebuild::new(how.seed, how.rules);
        let mut rebuild = rebuild.of(&directory)?.of_former_member();
        let recovered = recover(&directory, how.recovery, &mut rebuild)?;
        refuse_unreadable_end(&directory, recovered.last_zxid)?;
        let folder = directory.snapshots();
        let epoch = |file: Result<EpochFile, _>| file.map(|file: EpochFile| file.get());
        let current = epoch(EpochFile::current(Arc::clone(directory.disk()), folder))?;
        let accepted = epoch(EpochFile::accepted(Arc::clone(directory.disk()), folder))?;
        let last_zxid = recovered.last_zxid;
        let newest = current.max(last_zxid >> 32);
        // What cannot be read tells nothing, and stands in nobody's way.
        let by_command = RaftStateFile::look_left(&directory).ok().flatten();
        let is_bare = |its: &&RaftState| is_bare_founding(its, last_zxid, current);
        let (epoch, zxid) =
            by_command.as_ref().filter(is_bare).map_or((newest, last_zxid), |its| its.own);
        let base = Base { epoch, zxid, accepted: accepted.max(newest) };
        let snapshot = recovered.snapshot;
        let (database, log) = (rebuild.finish(), recovered.log);
        // One that it left since by itself was a later one.
        let detached = by_command.as_ref().filter(|_| left.is_none()).map(|its| its.ensemble);
        let accepted = by_command.filter(|its| its.awaits != 0).map(|its| its.ensemble);
        let ends_with = match left {
            Some(_) => record_of(&directory, last_zxid)?,
            None => None,
        };
        let ends_with = ends_with.and_then(|payload| {
            TxnRecord::decode(&payload).ok().map(|(record, _)| LastRecord::of(record))
        });
        Ok(Self {
            directory,
            database,
            log,
            snapshot,
            last_zxid,
            base,
            accepted,
            left,
            detached,
            ends_with,
        })
    }

    /// What others compare.
    #[must_use]
    pub const fn base(&self) -> Base {
        self.base
    }

    /// The ensemble of which the directory was a member's.
    #[must_use]
    pub const fn left(&self) -> Option<Left> {
        self.left
    }

    /// The ensemble that a command had the directory leave.
    #[must_use]
    pub const fn detached(&self) -> Option<u64> {
        self.detached
    }

    /// The ensemble that the directory had accepted, if it left that before the founder knew.
    #[must_use]
    pub const fn accepted(&self) -> Option<u64> {
        self.accepted
    }

    /// Of a directory that was a member's, the last record, if it can be read: a snapshot alone
    /// does not tell it.
    #[must_use]
    pub const fn ends_with(&self) -> Option<LastRecord> {
        self.ends_with
    }

    /// The same, as if it ended with this.
    #[cfg(test)]
    #[must_use]
    pub const fn ending_with(mut self, record: LastRecord) -> Self {
        self.ends_with = Some(record);
        self
    }

    /// Its ensemble has not that record.
    pub const fn is_lacked(&mut self) {
        self.ends_with = None;
    }

    /// The entry that shows it, if an ensemble is founded on it.
    #[must_use]
    pub fn index(&self) -> u64 {
        if self.base.zxid == 0 { 0 } else { self.log.next_index() }
    }

    /// The directory.
    #[must_use]
    pub const fn directory(&self) -> &Arc<DataDirectory> {
        &self.directory
    }

    /// The sessions that are open in it.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.database.sessions().keys().copied()
    }

    fn was_zookeepers(&self) -> bool {
        self.left.is_some() || self.snapshot.origin == SnapshotOrigin::Java
    }

    /// Whether passwords of sessions depended on a key until ZooKeeper went on with the directory.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn lost_key(&self) -> Result<bool, EnsembleError> {
        let (disk, folder) = (self.directory.disk().as_ref(), self.directory.snapshots());
        Ok(self.was_zookeepers() && SessionSecret::read(disk, folder)?.is_some())
    }

    /// What an ensemble that is founded on it can make passwords of sessions with: the key that is
    /// here, or `fresh` where there was nothing yet. `None` where sessions have ZooKeeper's.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn secret(&self, fresh: SessionKey) -> Result<Option<SessionSecret>, EnsembleError> {
        // It does not know the key.
        if self.was_zookeepers() {
            return Ok(None);
        }
        let (disk, folder) = (self.directory.disk().as_ref(), self.directory.snapshots());
        let found = SessionSecret::read(disk, folder)?;
        let fresh = || SessionSecret { key: fresh, before: Vec::new() };
        let secret = found.or_else(|| (self.base.zxid == 0).then(fresh));
        Ok(secret.map(|SessionSecret { key, mut before }| {
            before.retain(|session| self.database.sessions().contains_key(&SessionId(*session)));
            SessionSecret { key, before }
        }))
    }

    /// Founds an ensemble on what is here, as its member `id`: it is promised, and then what the
    /// first term begins with is made, by a start if it does not come to that. From the promise on
    /// the directory is that of no earlier ensemble.
    ///
    /// # Errors
    /// When the disk refuses. The directory is then a member's or not.
    pub fn found(
        self,
        id: u64,
        founding: &Founding,
        secret: Option<&SessionSecret>,
    ) -> Result<(), EnsembleError> {
        match self.promise(id, founding, secret)? {
            Some(mut promises) if promises.get().founds => self.begin(&mut promises),
            _ => Ok(()),
        }
    }

    fn promise(
        &self,
        id: u64,
        founding: &Founding,
        secret: Option<&SessionSecret>,
    ) -> Result<Option<RaftStateFile>, EnsembleError> {
        let mut asks: Vec<u8> =
            all(&founding.members).filter(|of| *of != id).map(server_of).collect();
        asks.sort_unstable();
        let state = RaftState {
            id,
            term: founding.term,
            commit: founding.index,
            ensemble: founding.ensemble,
            line: founding.line,
            generation: founding.generation,
            base: founding.index,
            own: (founding.base.epoch, founding.base.zxid),
            founded_in: founding.founded_in,
            founds: founding.index != 0,
            asks,
            members: founding.members.clone(),
            ..RaftState::default()
        };
        RaftStateFile::create(&self.directory, &state, secret)?;
        // ZooKeeper, should it go on with what is here, shows it by a later epoch.
        Ok(RaftStateFile::open(&self.directory)?)
    }

    /// Makes what the ensemble begins with that was promised to be founded: a record after all
    /// that is here, and a snapshot of it. Where a crash came in between, the rest.
    ///
    /// # Errors
    /// When the disk refuses, or what is here is not what it was founded on.
    pub(super) fn begin(mut self, promises: &mut RaftStateFile) -> Result<(), EnsembleError> {
        let state = promises.get().clone();
        let index = state.base;
        let is_logged = is_of_founding(self.last_zxid, &state);
        let zxid = if is_logged { self.last_zxid } else { founding_zxid(&state) };
        if !is_logged && self.base.zxid > state.own.1 {
            return Err(StorageError::WentOn { path: self.newest_file()? }.into());
        }
        let last = self.log.next_index().saturating_sub(1);
        let expected = if is_logged { index } else { index.saturating_sub(1) };
        if last != expected || (!is_logged && self.base.zxid < state.own.1) {
            let command = self.directory.tool_command("data leave");
            return Err(EnsembleError::BaseLost { last, index, command });
        }
        if !is_logged {
            let header = TxnHeader { client_id: 0, cxid: 0, zxid, time: 0 };
            let record = TxnRecord { header, txn: Txn::Error(0), digest: None };
            self.log.append(&record)?;
            self.log.commit()?;
            let TxnRecord { header, txn, digest } = record;
            self.database
                .apply(&header, txn, digest, Mode::Strict, &mut Vec::new())
                .map_err(|reason| OrderError::Diverged { zxid: Zxid(zxid), reason })?;
        }
        // The ensemble begins with the lists of zoo.cfg, whatever ZooKeeper's had agreed on.
        self.database.forget_agreed_list();
        let shows = SnapshotId { zxid, origin: SnapshotOrigin::Exact { index } };
        if self.snapshot != shows {
            snapshot_of(&self.directory, &mut self.database, index, Compression::None)?;
        }
        Ok(promises.save(RaftState { founds: false, ..state })?)
    }

    fn newest_file(&self) -> Result<PathBuf, StorageError> {
        let snapshot = self.directory.snapshot_files()?.into_iter().next();
        let log = self.directory.log_zxids()?.into_iter().next_back();
        let log = log.map(|zxid| (zxid, self.directory.log_path(zxid)));
        Ok(log.max(snapshot).map_or_else(PathBuf::new, |(_, path)| path))
    }

    /// Belongs to what the member `founder` has founded, as its member `id`: what is here goes
    /// aside once its base has come.
    ///
    /// # Errors
    /// When the disk refuses. The directory is then a member's or not.
    pub fn belong(
        self,
        id: u64,
        founder: u64,
        founding: &Founding,
        secret: Option<&SessionSecret>,
    ) -> Result<(), EnsembleError> {
        let state = RaftState {
            id,
            term: founding.term,
            ensemble: founding.ensemble,
            line: founding.line,
            generation: founding.generation,
            base: founding.index,
            clears: self.base.zxid != 0,
            own: (self.base.epoch, self.base.zxid),
            founded_in: founding.founded_in,
            awaits: founder,
            members: founding.members.clone(),
            configured_at: founding.configured_at,
            ..RaftState::default()
        };
        RaftStateFile::create(&self.directory, &state, secret)?;
        // ZooKeeper, should it go on with what is here, shows it by a later epoch.
        RaftStateFile::open(&self.directory)?;
        Ok(())
    }

    /// Takes a seat of an ensemble. What is here goes aside.
    ///
    /// # Errors
    /// When the disk refuses. The directory is then a member's or not.
    pub fn take(self, seat: Seat, secret: Option<&SessionSecret>) -> Result<(), EnsembleError> {
        let (clears, own) = (self.base.zxid != 0, (self.base.epoch, self.base.zxid));
        let state = RaftState { clears, own, ..state_of(seat) };
        Ok(RaftStateFile::create(&self.directory, &state, secret)?)
    }
}

/// What the member of `directory` has promised, if ZooKeeper has not gone on with it.
///
/// # Errors
/// When it has, or the disk refuses.
pub(super) fn refuse_gone_on(directory: &DataDirectory) -> Result<RaftState, EnsembleError> {
    let state = RaftStateFile::look(directory)?.ok_or(EnsembleError::NotBegun)?;
    match whose(directory, &state)?.went_on {
        Some(path) => Err(StorageError::WentOn { path }.into()),
        None => Ok(state),
    }
}

fn state_of(seat: Seat) -> RaftState {
    let Seat { id, ensemble, line, generation, term, members, configured_at } = seat;
    RaftState {
        id,
        ensemble,
        line,
        generation,
        term,
        members,
        configured_at,
        ..RaftState::default()
    }
}

/// Takes a seat of the ensemble for a directory that has accepted it, and whose founder has not
/// said that it knows. As what it would have been it has promised nothing to anybody. What lay
/// there goes aside as it would have.
///
/// # Errors
/// When the disk refuses. The directory is then that of the one or of the other.
pub fn take_seat_instead(
    directory: &DataDirectory,
    seat: Seat,
    secret: Option<&SessionSecret>,
) -> Result<(), EnsembleError> {
    let accepted = RaftStateFile::look(directory)?.ok_or(EnsembleError::NotBegun)?;
    let RaftState { clears, own, .. } = accepted;
    let state = RaftState { clears, own, ..state_of(seat) };
    promise_no_more(directory, state.term)?;
    Ok(RaftStateFile::create(directory, &state, secret)?)
}

/// The term that it promised as another member was perhaps never that of the ensemble.
fn promise_no_more(directory: &DataDirectory, term: u64) -> Result<(), StorageError> {
    let mut accepted = EpochFile::accepted(Arc::clone(directory.disk()), directory.snapshots())?;
    let term = i64::try_from(term).unwrap_or(i64::MAX);
    accepted.set(accepted.get().min(term))
}

/// Takes another seat of the ensemble for the directory of a member that was taken out of it: what
/// is there goes aside at the next start.
///
/// # Errors
/// When the disk refuses. The directory is then that of the one or of the other.
pub fn take_another_seat(
    directory: &DataDirectory,
    seat: Seat,
    secret: Option<&SessionSecret>,
) -> Result<(), EnsembleError> {
    let gone = refuse_gone_on(directory)?;
    // Who goes on with it until the next start shows it by a later name.
    let snapshots = directory.snapshot_files()?.into_iter().map(|(zxid, _)| zxid);
    let newest = snapshots.chain(directory.log_zxids()?).max().unwrap_or(0);
    // What was there before it may be ZooKeeper's, and go on after its names.
    let own = if gone.clears { gone.own } else { (0, newest) };
    let state = RaftState { clears: true, own, ..state_of(seat) };
    promise_no_more(directory, state.term)?;
    Ok(RaftStateFile::create(directory, &state, secret)?)
}

#[cfg(test)]
#[path = "ground_test.rs"]
mod ground_test;

#[cfg(test)]
#[path = "generation_test.rs"]
mod generation_test;
