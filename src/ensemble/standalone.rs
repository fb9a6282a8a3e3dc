//! A server that orders by itself: what its own disk has is final.
//!
//! A group of requests is prepared, written and synced at once, applied, and answered, all on one
//! thread; meanwhile connections fill the next group. Nothing is applied, and so nothing is seen,
//! before it is synced.

use std::collections::VecDeque;
use std::iter;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::clients::Clients;
use super::disk_room::{DiskRoom, DiskSpace};
use super::held::Held;
use super::notices::Notices;
use super::queue::Submission;
use super::replica::Replica;
use super::snapshots::complete_snapshot_of;
use super::steps::{self, Applier, TURN_BYTES};
use crate::engine::apply::Mode;
use crate::engine::database::Database;
use crate::engine::decide::request::{Chore, Work};
use crate::engine::decide::sequencer::Sequencer;
use crate::engine::time::Now;
use crate::engine::tree::Impossible;
use crate::engine::zxid::Zxid;
use crate::message::MessageId;
use crate::storage::{
    Compression, DataDirectory, StorageError, TxnLog, begin_aside, move_history_aside,
};

/// Why ordering had to stop. The process ends.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The log cannot be written.
    #[error(
        "the transaction log cannot be written; writes that were not acknowledged may or may not \
         be kept"
    )]
    Log(#[from] StorageError),
    /// A transaction that this server itself prepared cannot be applied.
    #[error("transaction {zxid} cannot be applied: {reason}; this is a bug, please report it")]
    Diverged {
        /// The transaction.
        zxid: Zxid,
        /// Why.
        reason: Impossible,
    },
}

impl OrderError {
    /// The message that it is.
    #[must_use]
    pub const fn id(&self) -> MessageId {
        match self {
            Self::Log(_) => MessageId::LOG_NOT_WRITTEN,
            Self::Diverged { .. } => MessageId::DIVERGED,
        }
    }
}

/// One turn of the orderer, for statistics.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupReport {
    /// Transactions written.
    pub txns: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Requests that were refused because the disk is nearly full.
    pub refused_for_room: u64,
    /// How long the sync took, where there was one.
    pub sync: Option<Duration>,
}

/// The orderer of a standalone server.
pub struct Standalone {
    applier: Applier,
    sequencer: Sequencer,
    log: TxnLog,
    /// What this server itself wants, and requests, that no group has had room for yet.
    chores: VecDeque<Chore>,
    held: Held,
    disk_room: DiskRoom,
    notices: Notices,
}

impl std::fmt::Debug for Standalone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standalone").field("log", &self.log).finish_non_exhaustive()
    }
}

impl Standalone {
    /// Goes on after what `replica` has applied and `log` holds.
    pub fn new(
        replica: Arc<Replica>,
        sequencer: Sequencer,
        log: TxnLog,
        clients: Arc<dyn Clients>,
    ) -> Self {
        let applier = Applier { replica, clients, mode: Mode::Strict };
        let (chores, held, disk_room, notices) = Default::default();
        Self { applier, sequencer, log, chores, held, disk_room, notices }
    }

    /// The applied state.
    #[must_use]
    pub const fn replica(&self) -> &Arc<Replica> {
        &self.applier.replica
    }

    /// The orderer's own state.
    pub const fn sequencer(&mut self) -> &mut Sequencer {
        &mut self.sequencer
    }

    /// The log.
    pub const fn log(&mut self) -> &mut TxnLog {
        &mut self.log
    }

    /// Whether another group is due at once: something waits that the last one had no room for.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.held.is_empty() || self.has_chores()
    }

    /// Whether the server itself wants some of it.
    #[must_use]
    pub fn has_chores(&self) -> bool {
        !self.chores.is_empty()
    }

    /// Sessions to close of which only ephemeral znodes are left, some at a time. None while the
    /// disk has less than half of its reserve, which is for what clients bring to an end.
    pub fn orphans(&mut self, now: Now) -> Vec<Chore> {
        if self.sequencer.orphans_count() == 0 {
            return Vec::new();
        }
        self.look_at_disk(now);
        if self.has_room_for_orphans() { orphans(&mut self.sequencer) } else { Vec::new() }
    }

    /// What room the disk of the log has, looked at from time to time.
    pub fn room(&mut self, now: Now) -> DiskSpace {
        self.look_at_disk(now);
        self.disk_room.room()
    }

    /// Whether it had less than the reserve when it was last looked at.
    #[must_use]
    pub fn has_short_disk(&self) -> bool {
        self.disk_room.room() > DiskSpace::Enough
    }

    fn has_room_for_orphans(&self) -> bool {
        self.disk_room.room() < DiskSpace::Least
    }

    fn put_back_orphans(&mut self) {
        let sequencer = &mut self.sequencer;
        self.chores.retain(|chore| match chore {
            Chore::Orphan(session) => {
                sequencer.put_back_orphan(*session);
                false
            }
            _ => true,
        });
    }

    fn look_at_disk(&mut self, now: Now) {
        let Self { disk_room, log, .. } = self;
        disk_room.look(log.reserve(), now.monotonic, || log.free_space().ok());
    }

    /// Closes such sessions as far as there is room. To be called before anybody is served, and
    /// while nobody is.
    ///
    /// # Errors
    /// As [`run_group`](Self::run_group).
    pub fn end_orphans(&mut self, now: Now) -> Result<GroupReport, OrderError> {
        let mut sum = GroupReport::default();
        loop {
            let orphans = if self.has_chores() { Vec::new() } else { self.orphans(now) };
            if orphans.is_empty() && !self.has_chores() {
                break;
            }
            let report = self.run_group(orphans, Vec::new(), now)?;
            sum.txns += report.txns;
            sum.bytes += report.bytes;
        }
        let sessions = self.sequencer.orphans_count();
        if sessions > 0 {
            tracing::info!(
                sessions,
                "ephemeral znodes of sessions that are gone stay until the log's disk has space"
            );
        }
        Ok(sum)
    }

    /// Puts another state in the place of this one, with what led to it, and orders from there on
    /// with the sequencer that `sequencer` makes of it. Nobody may be served meanwhile. What led to
    /// this state is moved into a folder named `aside` beside. Its last zxid is after those of
    /// this state: clients have seen them.
    ///
    /// A start makes this state until a snapshot of the other one is on the disk with all of it,
    /// and the other one from then on. Gives its zxid, or why this state stays.
    ///
    /// # Errors
    /// When the disk fails where it is not known any more which of both a start makes.
    pub fn replace(
        &mut self,
        mut database: Database,
        sequencer: impl FnOnce(&Database) -> Sequencer,
        directory: &DataDirectory,
        compression: Compression,
        aside: &str,
    ) -> Result<Result<Zxid, StorageError>, OrderError> {
        let (last, index) = (Zxid(self.log.last_zxid()), self.log.next_index());
        if database.last_zxid() <= last {
            database.move_to(last.next());
        }
        let zxid = database.last_zxid();
        // In the place of a record, which no log has: with an older snapshot, what follows is
        // refused.
        let reserve = self.log.reserve();
        let prepared = complete_snapshot_of(directory, &mut database, index, compression, reserve)
            .and_then(|snapshot| begin_aside(directory, aside).map(|()| snapshot));
        let snapshot = match prepared {
            Ok(snapshot) => snapshot,
            Err(error) => return Ok(Err(error)),
        };
        self.log.go_on_behind(zxid.0, index.saturating_add(1), || {
            snapshot.publish()?;
            move_history_aside(directory, zxid.0, aside)
        })?;
        self.chores.clear();
        for submission in self.held.take_all() {
            self.applier.clients.close(submission.origin.connection);
        }
        self.sequencer = sequencer(&database);
        let before = self.applier.replica.exclusive().install(database);
        drop(before);
        Ok(Ok(zxid))
    }

    /// Orders, writes, applies and answers what waits, as much as a group has room for.
    /// [`Self::has_more`] tells of the rest, which comes before what is asked later.
    ///
    /// # Errors
    /// When the log fails or a transaction does not fit. The caller ends the process: nothing of
    /// the group was answered.
    pub fn run_group(
        &mut self,
        chores: Vec<Chore>,
        submissions: Vec<Submission>,
        now: Now,
    ) -> Result<GroupReport, OrderError> {
        let mut report = GroupReport::default();
        self.chores.extend(chores);
        self.held.extend(submissions);
        if self.has_more() {
            self.look_at_disk(now);
        }
        if !self.has_room_for_orphans() {
            self.put_back_orphans();
        }
        // Its own errands may take long; requests are not the cause.
        let is_asked_only = self.chores.is_empty();
        let mut group = self.held.take_group();
        let began = Instant::now();
        let (steps, _) = {
            let room = self.disk_room.room().max(self.applier.replica.memory_room());
            let Self { applier, sequencer, log, chores, .. } = self;
            let database = applier.replica.shared();
            let refuse = |work: &Work| {
                let refused = room.refuse(&database, work);
                report.refused_for_room += u64::from(refused.is_some());
                refused
            };
            let place = |record: &_| {
                report.txns += 1;
                let before = log.group_len();
                log.append(record).map(|()| log.group_len() - before)
            };
            steps::decide(
                sequencer,
                &database,
                &mut iter::from_fn(|| chores.pop_front()),
                &mut iter::from_fn(|| group.pop_front()),
                now,
                TURN_BYTES,
                refuse,
                place,
            )?
        };
        self.held.put_back(group);
        if report.txns > 0 {
            let bytes = self.log.group_len() as u64;
            report.bytes = bytes;
            self.disk_room.count(bytes);
            let started = Instant::now();
            self.log.commit()?;
            report.sync = Some(started.elapsed());
        }
        let sequencer = &mut self.sequencer;
        self.applier.under_hold(|applying| {
            steps.into_iter().try_for_each(|step| applying.finish(step, sequencer))
        })?;
        if is_asked_only {
            let sync = report.sync.unwrap_or_default();
            self.held.took(began.elapsed().saturating_sub(sync), sync);
        }
        self.sequencer.retire(self.applier.replica.applied());
        self.notices.tell(&self.sequencer.take_notices(), &*self.applier.clients);
        self.applier.clients.flush();
        Ok(report)
    }
}

/// Sessions to close of which only ephemeral znodes are left, which is said.
pub(super) fn orphans(sequencer: &mut Sequencer) -> Vec<Chore> {
    let orphans = sequencer.take_orphans();
    if !orphans.is_empty() {
        let sessions = orphans.len();
        tracing::info!(sessions, "deleting ephemeral znodes of sessions that are gone");
    }
    orphans
}

#[cfg(test)]
#[path = "standalone_test.rs"]
mod standalone_test;
