//! What a leader has beside what every member has: the sequencer, and the requests that wait.
//!
//! It begins when the leader's own first entry is applied, because only then its tree is the whole
//! log; and it ends with the term. What waits then has no known outcome, and its clients are told
//! nothing.

use std::collections::VecDeque;

use jute::protocol::{MultiResult, Request};
use jute::txn::TxnRecord;

use super::log_store::term_of;
use super::read_index::{Round, Rounds};
use crate::engine::database::Database;
use crate::engine::decide::request::{Chore, Work};
use crate::engine::decide::sequencer::{Prepared, Sequencer};
use crate::engine::decide::tracker::first_session_id;
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, Now};
use crate::engine::watch::ConnectionId;
use crate::engine::zxid::Zxid;
use crate::ensemble::clients::Clients;
use crate::ensemble::disk_room::DiskSpace;
use crate::ensemble::notices::Notices;
use crate::ensemble::queue::Submission;
use crate::ensemble::replica::Replica;
use crate::ensemble::standalone::OrderError;
use crate::ensemble::steps::{self, Applying, Unlogged};
use crate::ensemble::words::Verdict;

/// The orderer of a term.
pub(super) struct Leading {
    term: u64,
    server_id: u8,
    sequencer: Sequencer,
    /// In the order of the requests, each with the round after which it may be answered.
    waiting: VecDeque<(Unlogged, Round)>,
    /// What this server itself wants, until a turn has room for it.
    pub(super) chores: VecDeque<Chore>,
    notices: Notices,
    /// What the disks have room for.
    pub(super) room: DiskSpace,
    /// Requests that were refused because they have none.
    pub(super) refused_for_room: u64,
}

impl Leading {
    /// Goes on after `database`, in which the leader's first entry is the last one. Every session
    /// has its full timeout ahead.
    pub(super) fn new(database: &Database, tick_ms: u64, server_id: u8, now: Now) -> Self {
        let first_session = first_session_id(server_id, now.wall.0);
        Self {
            term: term_of(database.last_zxid().0),
            server_id,
            sequencer: Sequencer::new(database, tick_ms, first_session, now.monotonic),
            waiting: VecDeque::new(),
            chores: VecDeque::new(),
            notices: Notices::default(),
            room: DiskSpace::Enough,
            refused_for_room: 0,
        }
    }

    pub(super) const fn term(&self) -> u64 {
        self.term
    }

    pub(super) const fn sequencer(&mut self) -> &mut Sequencer {
        &mut self.sequencer
    }

    /// Requests whose outcome is not final.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Those of them that are a `sync`.
    pub(super) fn pending_syncs(&self) -> usize {
        let is_sync = |(step, _): &&(Unlogged, Round)| {
            matches!(step.outcome, Prepared::Read(Request::Sync(_)))
        };
        self.waiting.iter().filter(is_sync).count()
    }

    /// Decides chores and requests up to `bytes_max` as [`steps::decide`] counts; `propose` puts
    /// each transaction into the replicated log, and gives its length. Gives the verdicts on those
    /// of other members' clients, with their servers, and how much was decided.
    #[expect(clippy::too_many_arguments, reason = "what is decided, and by what")]
    pub(super) fn decide<E>(
        &mut self,
        replica: &Replica,
        chores: &mut impl Iterator<Item = Chore>,
        submissions: &mut impl Iterator<Item = Submission>,
        now: Now,
        bytes_max: usize,
        rounds: &mut Rounds,
        propose: impl FnMut(&TxnRecord<'static>) -> Result<usize, E>,
    ) -> Result<(Vec<(u8, Verdict)>, usize), E> {
        let database = replica.shared();
        let sequencer = &mut self.sequencer;
        let mut newest = sequencer.last_zxid();
        let (room, refused_for_room) = (self.room, &mut self.refused_for_room);
        let refuse = |work: &Work| {
            let refused = room.refuse(&database, work);
            *refused_for_room += u64::from(refused.is_some());
            refused
        };
        let (steps, bytes) = steps::decide(
            sequencer,
            &database,
            chores,
            submissions,
            now,
            bytes_max,
            refuse,
            propose,
        )?;
        let mut verdicts = Vec::new();
        for step in steps {
            if let Some(record) = step.record() {
                newest = Zxid(record.header.zxid);
            }
            let asker = step.origin.as_ref().map(|origin| origin.connection.server());
            let mut round = Round::default();
            match (asker, &step.outcome) {
                // The member that was asked sees to it.
                (Some(server), outcome) if server != self.server_id => {
                    verdicts.push((server, verdict(outcome, newest)));
                }
                (Some(_), outcome) if shows_the_newest(outcome) => round = rounds.next(),
                _ => {}
            }
            self.waiting.push_back((step, round));
        }
        Ok((verdicts, bytes))
    }

    /// A session was heard of by another member.
    pub(super) fn touch(&self, session: SessionId, now: Monotonic) {
        self.sequencer.touch(session, now);
    }

    /// Finishes what needs no transaction, up to the first that does or waits for a later round
    /// than `done`.
    pub(super) fn finish_settled(
        &mut self,
        applying: &mut Applying<'_>,
        done: Round,
    ) -> Result<(), OrderError> {
        let is_settled =
            |(step, round): &mut (Unlogged, Round)| step.record().is_none() && *round <= done;
        while let Some((step, _)) = self.waiting.pop_front_if(is_settled) {
            applying.finish(step, &mut self.sequencer)?;
        }
        Ok(())
    }

    /// Finishes the request whose transaction is final, if it is the one at `zxid`. What was asked
    /// before it needs no round any more: a quorum took the transaction from this leader. Gives the
    /// connection that it came from, if from one.
    pub(super) fn finish(
        &mut self,
        zxid: i64,
        applying: &mut Applying<'_>,
    ) -> Result<Option<Option<ConnectionId>>, OrderError> {
        let mut records = self.waiting.iter().map(|(step, _)| step.record());
        let first = records.find_map(|record| record.map(|record| record.header.zxid));
        if first != Some(zxid) {
            return Ok(None);
        }
        self.finish_settled(applying, Round::MAX)?;
        let Some((step, _)) = self.waiting.pop_front() else { return Ok(None) };
        let asker = step.origin.as_ref().map(|origin| origin.connection);
        applying.finish(step, &mut self.sequencer)?;
        self.sequencer.retire(applying.database().last_zxid());
        Ok(Some(asker))
    }

    pub(super) fn tell_notices(&mut self, clients: &dyn Clients) {
        self.notices.tell(&self.sequencer.take_notices(), clients);
    }

    /// Whether there are numbers for more transactions in this term.
    pub(super) fn has_numbers(&self, a_term: u32) -> bool {
        self.sequencer.last_zxid().0 & 0xffff_ffff < i64::from(a_term)
    }

    /// Closes the connections of this member's clients that still wait: they are answered by
    /// nobody.
    pub(super) fn let_own_go(&self, clients: &dyn Clients) {
        let origins = self.waiting.iter().filter_map(|(step, _)| step.origin.as_ref());
        for origin in origins.filter(|its| its.connection.server() == self.server_id) {
            clients.close(origin.connection);
        }
    }

    /// The term is over. Whoever still waits here cannot know what comes of it; other members know
    /// what was decided of their clients' requests.
    pub(super) fn end(self, clients: &dyn Clients) {
        self.let_own_go(clients);
    }
}

/// Whether an outcome without a transaction tells of what is the newest anywhere, and not only
/// here. That a session goes on does, too: another leader may have ended it.
const fn shows_the_newest(outcome: &Prepared) -> bool {
    matches!(
        outcome,
        Prepared::Read(Request::Sync(_))
            | Prepared::Refused(_)
            | Prepared::RefusedMulti(_)
            | Prepared::Attached(_)
            | Prepared::NoSession
    )
}

/// What another member is told of an outcome; `newest` is the last change that it was checked
/// against, or the transaction itself.
fn verdict(outcome: &Prepared, newest: Zxid) -> Verdict {
    match outcome {
        Prepared::Txn(_) => Verdict::Txn(newest),
        Prepared::Open(_, attached) => Verdict::Open {
            zxid: newest,
            session: attached.session,
            timeout_ms: attached.timeout_ms,
        },
        Prepared::Read(_) => Verdict::Read(newest),
        Prepared::Refused(error) => Verdict::Refused(newest, *error),
        Prepared::RefusedMulti(results) => {
            let code = |result: &MultiResult<'_>| match result {
                MultiResult::Error(code) => *code,
                _ => 0,
            };
            Verdict::RefusedMulti(newest, results.iter().map(code).collect())
        }
        Prepared::Attached(attached) => {
            Verdict::Attached { session: attached.session, timeout_ms: attached.timeout_ms }
        }
        Prepared::NoSession => Verdict::NoSession,
        Prepared::Close => Verdict::Close,
    }
}
