//! A server that orders by itself: what its own disk has is final.
//!
//! A group of requests is prepared, written and synced at once, applied, and answered, all on one thread; meanwhile
//! connections fill the next group. Nothing is applied, and so nothing is seen, before it is synced.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jute::ErrorCode;
use jute::protocol::{Request, Response};
use jute::txn::{Txn, TxnRecord};

use super::clients::Clients;
use super::disk_room::{DiskRoom, needs_none};
use super::queue::Submission;
use super::replica::{Exclusive, Replica};
use crate::engine::apply::Mode;
use crate::engine::read::{self, Caller};
use crate::engine::request::{Chore, Origin};
use crate::engine::sequencer::{Notice, Prepared, Sequencer};
use crate::engine::session::SessionId;
use crate::engine::time::Now;
use crate::engine::tracker::Attached;
use crate::engine::tree::Impossible;
use crate::engine::watch::Event;
use crate::engine::zxid::Zxid;
use crate::storage::{StorageError, TxnLog};

/// How long transactions are applied before waiting readers are let in.
const HOLD_MAX: Duration = Duration::from_micros(100);
/// The least time between two notices in the log.
const BETWEEN_NOTICES: Duration = Duration::from_secs(1);
/// Steps between two looks at the clock while the hold lasts.
const STEPS_A_LOOK: usize = 16;

/// Why ordering had to stop. The process ends.
#[derive(Debug, thiserror::Error)]
pub enum OrderError {
    /// The log cannot be written.
    #[error("the transaction log cannot be written; nothing that was not acknowledged is certain")]
    Log(#[from] StorageError),
    /// A transaction that this server itself prepared cannot be applied.
    #[error("transaction {zxid} cannot be applied: {reason}; this is a defect, please report it")]
    Diverged {
        /// The transaction.
        zxid: Zxid,
        /// Why.
        reason: Impossible,
    },
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

/// A request, decided, that waits for the log.
struct Step {
    /// Nobody, for what the server itself wanted.
    origin: Option<Origin>,
    outcome: Prepared,
}

/// The orderer of a standalone server.
pub struct Standalone {
    replica: Arc<Replica>,
    sequencer: Sequencer,
    log: TxnLog,
    clients: Arc<dyn Clients>,
    disk_room: DiskRoom,
    /// When a notice was last logged.
    told: Option<Instant>,
}

impl std::fmt::Debug for Standalone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Standalone").field("log", &self.log).finish_non_exhaustive()
    }
}

impl Standalone {
    /// Goes on behind what `replica` has applied and `log` holds.
    pub fn new(
        replica: Arc<Replica>,
        sequencer: Sequencer,
        log: TxnLog,
        clients: Arc<dyn Clients>,
    ) -> Self {
        Self { replica, sequencer, log, clients, disk_room: DiskRoom::default(), told: None }
    }

    /// The applied state.
    #[must_use]
    pub const fn replica(&self) -> &Arc<Replica> {
        &self.replica
    }

    /// The orderer's own state.
    pub const fn sequencer(&mut self) -> &mut Sequencer {
        &mut self.sequencer
    }

    /// The log.
    pub const fn log(&mut self) -> &mut TxnLog {
        &mut self.log
    }

    /// Orders, writes, applies and answers one group.
    ///
    /// # Errors
    /// When the log fails or a transaction does not fit. The caller ends the process: nothing of the group was
    /// answered.
    pub fn run_group(
        &mut self,
        chores: &[Chore],
        submissions: Vec<Submission>,
        now: Now,
    ) -> Result<GroupReport, OrderError> {
        let mut report = GroupReport::default();
        let mut room = Vec::with_capacity(submissions.len());
        let steps = self.prepare(chores, submissions, &mut room, now, &mut report)?;
        if report.txns > 0 {
            report.bytes = self.log.group_len() as u64;
            self.disk_room.count(report.bytes);
            let started = Instant::now();
            self.log.commit()?;
            report.sync = Some(started.elapsed());
        }
        self.finish(steps)?;
        self.sequencer.retire(self.replica.applied());
        for notice in self.sequencer.take_notices() {
            self.tell(&notice);
        }
        self.clients.flush();
        Ok(report)
    }

    /// Writes what an operator should know of to the log, at most once a second: clients cause it as often as they
    /// like.
    fn tell(&mut self, notice: &Notice) {
        if self.told.is_some_and(|told| told.elapsed() < BETWEEN_NOTICES) {
            return;
        }
        self.told = Some(Instant::now());
        match notice {
            Notice::SequenceExhausted { parent } => tracing::error!(
                parent,
                "the sequence counter is at its end: no sequential znode can be created below this \
                 parent any more; create a new parent"
            ),
            Notice::QuotaExceeded { limited, path } => {
                tracing::warn!(limited, path, "a write went beyond a soft quota");
            }
        }
    }

    /// Decides every request of the group and puts the transactions into the log's group.
    fn prepare(
        &mut self,
        chores: &[Chore],
        submissions: Vec<Submission>,
        room: &mut Vec<tokio::sync::OwnedSemaphorePermit>,
        now: Now,
        report: &mut GroupReport,
    ) -> Result<Vec<Step>, OrderError> {
        if !submissions.is_empty() {
            self.disk_room.look(&self.log, now.monotonic);
        }
        let replica = Arc::clone(&self.replica);
        let database = replica.shared();
        let mut steps = Vec::with_capacity(chores.len() + submissions.len());
        for chore in chores {
            if let Some(record) = self.sequencer.prepare_chore(&database, chore, now) {
                self.log.append(&record)?;
                report.txns += 1;
                steps.push(Step { origin: None, outcome: Prepared::Txn(record) });
            }
        }
        for Submission { origin, work, room: share } in submissions {
            let outcome = if self.disk_room.is_scarce() && !needs_none(&database, &work) {
                report.refused_for_room += 1;
                Prepared::Refused(ErrorCode::OperationTimeout)
            } else {
                self.sequencer.prepare(&database, &origin, work, now)
            };
            if let Prepared::Txn(record) | Prepared::Open(record, _) = &outcome {
                self.log.append(record)?;
                report.txns += 1;
            }
            steps.push(Step { origin: Some(origin), outcome });
            room.push(share);
        }
        Ok(steps)
    }

    /// Applies and answers a group that is on disk.
    fn finish(&mut self, steps: Vec<Step>) -> Result<(), OrderError> {
        let replica = Arc::clone(&self.replica);
        // Not given back on any way out but the last: nobody may read half a transaction, and the process ends.
        let mut hold = ManuallyDrop::new(replica.exclusive());
        let mut held_since = Instant::now();
        let mut events = Vec::new();
        for (done, step) in steps.into_iter().enumerate() {
            if done % STEPS_A_LOOK == STEPS_A_LOOK - 1 && held_since.elapsed() >= HOLD_MAX {
                hold.bump();
                held_since = Instant::now();
            }
            self.finish_step(&mut hold, step, &mut events)?;
        }
        drop(ManuallyDrop::into_inner(hold));
        Ok(())
    }

    fn finish_step(
        &mut self,
        hold: &mut Exclusive<'_>,
        step: Step,
        events: &mut Vec<Event>,
    ) -> Result<(), OrderError> {
        let Step { origin, outcome } = step;
        match (outcome, origin) {
            (Prepared::Txn(record), origin) => {
                let closed = match &record.txn {
                    Txn::CloseSession(_) => Some(SessionId(record.header.client_id)),
                    _ => None,
                };
                let response = self.apply(hold, record, events)?;
                let zxid = hold.database().last_zxid();
                let owner = closed.and_then(|session| self.sequencer.session_closed(session));
                match (origin, owner) {
                    (Some(origin), _) => self.clients.answer(&origin, zxid, Ok(response)),
                    (None, Some(owner)) => self.clients.close(owner),
                    (None, None) => {}
                }
            }
            (Prepared::Open(record, attached), Some(origin)) => {
                self.apply(hold, record, events)?;
                self.clients.attached(origin.connection, &attached);
            }
            (Prepared::Attached(attached), Some(origin)) => self.attach(&origin, &attached),
            (Prepared::NoSession, Some(origin)) => self.clients.no_session(origin.connection),
            (Prepared::Close, Some(origin)) => self.clients.close(origin.connection),
            (Prepared::Refused(error), Some(origin)) => {
                let zxid = hold.database().last_zxid();
                self.clients.answer(&origin, zxid, Err(error));
            }
            (Prepared::RefusedMulti(results), Some(origin)) => {
                let zxid = hold.database().last_zxid();
                self.clients.answer(&origin, zxid, Ok(Response::Multi(results)));
            }
            (Prepared::Read(request), Some(origin)) => self.read(hold, &origin, &request, events),
            (_, None) => {}
        }
        Ok(())
    }

    fn apply(
        &self,
        hold: &mut Exclusive<'_>,
        record: TxnRecord<'static>,
        events: &mut Vec<Event>,
    ) -> Result<Response<'static>, OrderError> {
        let TxnRecord { header, txn, digest } = record;
        let response = hold
            .database()
            .apply(&header, txn, digest, Mode::Strict, events)
            .map_err(|reason| OrderError::Diverged { zxid: Zxid(header.zxid), reason })?;
        hold.publish();
        self.clients.events(events);
        events.clear();
        Ok(response)
    }

    fn attach(&self, origin: &Origin, attached: &Attached) {
        if let Some(previous) = attached.previous {
            self.clients.close(previous);
        }
        self.clients.attached(origin.connection, attached);
    }

    /// A read that stood behind a write of its session.
    fn read(
        &self,
        hold: &mut Exclusive<'_>,
        origin: &Origin,
        request: &Request<'static>,
        events: &mut Vec<Event>,
    ) {
        if !self.clients.is_open(origin.connection) {
            return;
        }
        let database = &*hold.database();
        let caller = Caller {
            connection: origin.connection,
            session: origin.session,
            identities: &origin.identities,
        };
        let answer = read::answer(database, &caller, request, events);
        self.clients.events(events);
        self.clients.answer(origin, database.last_zxid(), answer);
        events.clear();
    }
}

#[cfg(test)]
#[path = "standalone_test.rs"]
mod standalone_test;
