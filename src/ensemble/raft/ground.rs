//! What a directory holds that belongs to no ensemble yet, and how it becomes a member's.

use std::sync::Arc;

use jute::txn::{Txn, TxnHeader, TxnRecord};

use super::{Ensemble, EnsembleError, OrderError, server_of};
use crate::engine::apply::Mode;
use crate::engine::database::Database;
use crate::engine::session::SessionId;
use crate::engine::zxid::Zxid;
use crate::ensemble::founding::{Founding, Seat};
use crate::ensemble::rebuild::Rebuild;
use crate::ensemble::snapshots::snapshot_of;
use crate::ensemble::standing::Base;
use crate::storage::{
    Compression, DataDirectory, EpochFile, Members, RaftState, RaftStateFile, SessionKey,
    SessionSecret, SnapshotOrigin, StorageError, TxnLog, recover, refuse_foreign,
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

/// A directory of no ensemble, read.
#[derive(Debug)]
pub struct Before {
    directory: Arc<DataDirectory>,
    database: Database,
    log: TxnLog,
    base: Base,
    is_javas: bool,
    accepted: Option<u64>,
}

impl Before {
    /// Reads `directory` as a standalone server does.
    ///
    /// # Errors
    /// When acknowledged transactions may be missing, or the disk refuses.
    pub fn read(directory: Arc<DataDirectory>, how: &Ensemble) -> Result<Self, EnsembleError> {
        let mut rebuild = Rebuild::new(how.seed, how.rules).of(&directory)?;
        let recovered = recover(&directory, how.recovery, &mut rebuild)?;
        let folder = directory.snapshots();
        let epoch = |file: Result<EpochFile, _>| file.map(|file: EpochFile| file.get());
        let current = epoch(EpochFile::current(Arc::clone(directory.disk()), folder))?;
        let accepted = epoch(EpochFile::accepted(Arc::clone(directory.disk()), folder))?;
        let zxid = recovered.last_zxid;
        let epoch = current.max(zxid >> 32);
        let base = Base { epoch, zxid, accepted: accepted.max(epoch) };
        let is_javas = recovered.snapshot.origin == SnapshotOrigin::Java;
        let (database, log) = (rebuild.finish(), recovered.log);
        // What cannot be read tells nothing, and stands in nobody's way.
        let left = RaftStateFile::look_left(&directory).ok().flatten();
        let accepted = left.filter(|left| left.awaits != 0).map(|left| left.ensemble);
        Ok(Self { directory, database, log, base, is_javas, accepted })
    }

    /// What others compare.
    #[must_use]
    pub const fn base(&self) -> Base {
        self.base
    }

    /// The ensemble that the directory had accepted, if it left that before the founder knew.
    #[must_use]
    pub const fn accepted(&self) -> Option<u64> {
        self.accepted
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

    /// What an ensemble that is founded on it can make passwords of sessions with: the key that is here, or `fresh` where
    /// there was nothing yet. `None` where sessions have ZooKeeper's.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn secret(&self, fresh: SessionKey) -> Result<Option<SessionSecret>, EnsembleError> {
        // ZooKeeper went on with the directory, and does not know the key.
        if self.is_javas {
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

    /// Founds an ensemble on what is here, as its member `id`: the first term begins with a snapshot of it.
    ///
    /// # Errors
    /// When the disk refuses. The directory is then a member's or not.
    pub fn found(
        self,
        id: u64,
        founding: &Founding,
        secret: Option<&SessionSecret>,
    ) -> Result<(), EnsembleError> {
        let Self { directory, mut database, mut log, .. } = self;
        let index = founding.index;
        if index != 0 {
            let zxid = i64::try_from(founding.term).unwrap_or(i64::MAX) << 32;
            let header = TxnHeader { client_id: 0, cxid: 0, zxid, time: 0 };
            let record = TxnRecord { header, txn: Txn::Error(0), digest: None };
            log.append(&record)?;
            log.commit()?;
            let TxnRecord { header, txn, digest } = record;
            database
                .apply(&header, txn, digest, Mode::Strict, &mut Vec::new())
                .map_err(|reason| OrderError::Diverged { zxid: Zxid(zxid), reason })?;
            snapshot_of(&directory, &mut database, index, Compression::None)?;
        }
        let mut asks: Vec<u8> =
            all(&founding.members).filter(|of| *of != id).map(server_of).collect();
        asks.sort_unstable();
        let state = RaftState {
            id,
            term: founding.term,
            commit: index,
            ensemble: founding.ensemble,
            base: index,
            own: (founding.base.epoch, founding.base.zxid),
            founded_in: founding.founded_in,
            asks,
            members: founding.members.clone(),
            ..RaftState::default()
        };
        Ok(RaftStateFile::create(&directory, &state, secret)?)
    }

    /// Belongs to what the member `founder` has founded, as its member `id`: what is here goes aside once the founder knows.
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

    /// Takes a seat of an ensemble. Only who has no data may.
    ///
    /// # Errors
    /// When the disk refuses. The directory is then a member's or not.
    pub fn take(self, seat: Seat, secret: Option<&SessionSecret>) -> Result<(), EnsembleError> {
        Ok(RaftStateFile::create(&self.directory, &state_of(seat), secret)?)
    }
}

fn state_of(seat: Seat) -> RaftState {
    let Seat { id, ensemble, term, members, configured_at } = seat;
    RaftState { id, ensemble, term, members, configured_at, ..RaftState::default() }
}

/// Takes another seat of the ensemble for the directory of a member that was taken out of it: what is there goes aside at the
/// next start.
///
/// # Errors
/// When the disk refuses. The directory is then that of the one or of the other.
pub fn take_another_seat(
    directory: &DataDirectory,
    seat: Seat,
    secret: Option<&SessionSecret>,
) -> Result<(), EnsembleError> {
    refuse_foreign(directory)?;
    // Who goes on with it until the next start shows it by a later name.
    let snapshots = directory.snapshot_files()?.into_iter().map(|(zxid, _)| zxid);
    let newest = snapshots.chain(directory.log_zxids()?).max().unwrap_or(0);
    let state = RaftState { clears: true, own: (0, newest), ..state_of(seat) };
    // The term that it promised as another member was perhaps never that of the ensemble.
    let mut accepted = EpochFile::accepted(Arc::clone(directory.disk()), directory.snapshots())?;
    let term = i64::try_from(state.term).unwrap_or(i64::MAX);
    accepted.set(accepted.get().min(term))?;
    Ok(RaftStateFile::create(directory, &state, secret)?)
}
