//! What a directory holds that belongs to no ensemble yet, and how it becomes a member's.

use std::sync::Arc;

use jute::txn::{Txn, TxnHeader, TxnRecord};

use super::{Ensemble, EnsembleError, OrderError};
use crate::engine::apply::Mode;
use crate::engine::database::Database;
use crate::engine::zxid::Zxid;
use crate::ensemble::founding::{Base, Founding, Seat};
use crate::ensemble::rebuild::Rebuild;
use crate::ensemble::snapshots::snapshot_of;
use crate::storage::{
    Compression, DataDirectory, EpochFile, RaftState, RaftStateFile, TxnLog, recover,
};

/// A directory of no ensemble, read.
#[derive(Debug)]
pub struct Before {
    directory: Arc<DataDirectory>,
    database: Database,
    log: TxnLog,
    base: Base,
}

impl Before {
    /// Reads `directory` as a standalone server does.
    ///
    /// # Errors
    /// When acknowledged transactions may be missing, or the disk refuses.
    pub fn read(directory: Arc<DataDirectory>, how: &Ensemble) -> Result<Self, EnsembleError> {
        let mut rebuild = Rebuild::new(how.seed, how.rules);
        let recovered = recover(&directory, how.recovery, &mut rebuild)?;
        let folder = directory.snapshots();
        let epoch = |file: Result<EpochFile, _>| file.map(|file: EpochFile| file.get());
        let current = epoch(EpochFile::current(Arc::clone(directory.disk()), folder))?;
        let accepted = epoch(EpochFile::accepted(Arc::clone(directory.disk()), folder))?;
        let zxid = recovered.last_zxid;
        let epoch = current.max(zxid >> 32);
        let base = Base { epoch, zxid, accepted: accepted.max(epoch) };
        Ok(Self { directory, database: rebuild.finish(), log: recovered.log, base })
    }

    /// What others compare.
    #[must_use]
    pub const fn base(&self) -> Base {
        self.base
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

    /// Founds an ensemble on what is here, as its member `id`: the first term begins with a snapshot of it.
    ///
    /// # Errors
    /// When the disk refuses. The directory is then a member's or not.
    pub fn found(self, id: u64, founding: &Founding) -> Result<(), EnsembleError> {
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
        let state = RaftState {
            id,
            term: founding.term,
            commit: index,
            ensemble: founding.ensemble,
            base: index,
            members: founding.members.clone(),
            ..RaftState::default()
        };
        Ok(RaftStateFile::create(&directory, &state)?)
    }

    /// Belongs to what another server has founded, as its member `id`: what is here goes aside.
    ///
    /// # Errors
    /// When the disk refuses. The directory is then a member's or not.
    pub fn belong(self, id: u64, founding: &Founding) -> Result<(), EnsembleError> {
        let state = RaftState {
            id,
            term: founding.term,
            ensemble: founding.ensemble,
            base: founding.index,
            clears: self.base.zxid != 0,
            members: founding.members.clone(),
            ..RaftState::default()
        };
        Ok(RaftStateFile::create(&self.directory, &state)?)
    }

    /// Takes a seat of an ensemble. Only who has no data may.
    ///
    /// # Errors
    /// When the disk refuses. The directory is then a member's or not.
    pub fn take(self, seat: Seat) -> Result<(), EnsembleError> {
        let Seat { id, ensemble, term, members } = seat;
        let state = RaftState { id, ensemble, term, members, ..RaftState::default() };
        Ok(RaftStateFile::create(&self.directory, &state)?)
    }
}
