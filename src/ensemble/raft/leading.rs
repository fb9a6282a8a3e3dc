//! What a leader has beside what every member has: the sequencer, and the requests that wait.
//!
//! It begins when the leader's own first entry is applied, because only then its tree is the whole log; and it ends
//! with the term. What waits then has no known outcome, and its clients are told nothing.

use std::collections::VecDeque;

use jute::protocol::MultiResult;
use jute::txn::TxnRecord;

use super::log_store::term_of;
use crate::engine::database::Database;
use crate::engine::request::Chore;
use crate::engine::sequencer::{Prepared, Sequencer};
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, Now};
use crate::engine::tracker::first_session_id;
use crate::engine::watch::ConnectionId;
use crate::engine::zxid::Zxid;
use crate::ensemble::clients::Clients;
use crate::ensemble::notices::Notices;
use crate::ensemble::queue::Submission;
use crate::ensemble::replica::Replica;
use crate::ensemble::standalone::OrderError;
use crate::ensemble::steps::{self, Applying, Step};
use crate::ensemble::words::Verdict;

/// The orderer of a term.
pub(super) struct Leading {
    term: u64,
    sequencer: Sequencer,
    /// In the order of the requests.
    waiting: VecDeque<Step>,
    notices: Notices,
}

impl Leading {
    /// Goes on behind `database`, in which the leader's first entry is the last one. Every session has its full
    /// timeout ahead.
    pub(super) fn new(database: &Database, tick_ms: u64, server_id: u8, now: Now) -> Self {
        let first_session = first_session_id(server_id, now.wall.0);
        Self {
            term: term_of(database.last_zxid().0),
            sequencer: Sequencer::new(database, tick_ms, first_session, now.monotonic),
            waiting: VecDeque::new(),
            notices: Notices::default(),
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

    /// Decides requests; `propose` puts each transaction into the replicated log. Gives the verdicts on those of other
    /// members' clients, with their servers.
    pub(super) fn decide<E>(
        &mut self,
        replica: &Replica,
        chores: &[Chore],
        submissions: Vec<Submission>,
        now: Now,
        here: u8,
        propose: impl FnMut(&TxnRecord<'static>) -> Result<(), E>,
    ) -> Result<Vec<(u8, Verdict)>, E> {
        let database = replica.shared();
        let sequencer = &mut self.sequencer;
        let mut newest = sequencer.last_zxid();
        let steps =
            steps::decide(sequencer, &database, chores, submissions, now, |_| None, propose)?;
        let mut verdicts = Vec::new();
        for step in &steps {
            if let Some(record) = step.record() {
                newest = Zxid(record.header.zxid);
            }
            let asker = step.origin.as_ref().map(|origin| origin.connection.server());
            if let Some(server) = asker.filter(|server| *server != here) {
                verdicts.push((server, verdict(&step.outcome, newest)));
            }
        }
        self.waiting.extend(steps);
        Ok(verdicts)
    }

    /// A session was heard of by another member.
    pub(super) fn touch(&self, session: SessionId, now: Monotonic) {
        self.sequencer.touch(session, now);
    }

    /// Finishes what needs no transaction, up to the first that does.
    pub(super) fn finish_settled(&mut self, applying: &mut Applying<'_>) -> Result<(), OrderError> {
        while let Some(step) = self.waiting.pop_front_if(|step| step.record().is_none()) {
            applying.finish(step, &mut self.sequencer)?;
        }
        Ok(())
    }

    /// Finishes the request whose transaction is final, if it is the one at `zxid`. Gives the connection that it came
    /// from, if from one.
    pub(super) fn finish(
        &mut self,
        zxid: i64,
        applying: &mut Applying<'_>,
    ) -> Result<Option<Option<ConnectionId>>, OrderError> {
        let is_it =
            |step: &mut Step| step.record().is_some_and(|record| record.header.zxid == zxid);
        let Some(step) = self.waiting.pop_front_if(is_it) else { return Ok(None) };
        let asker = step.origin.as_ref().map(|origin| origin.connection);
        applying.finish(step, &mut self.sequencer)?;
        self.sequencer.retire(applying.database().last_zxid());
        self.finish_settled(applying)?;
        Ok(Some(asker))
    }

    pub(super) fn tell_notices(&mut self) {
        self.notices.tell(&self.sequencer.take_notices());
    }

    /// The term is over. Whoever still waits cannot know what comes of it.
    pub(super) fn end(self, clients: &dyn Clients) {
        for step in self.waiting {
            if let Some(origin) = step.origin {
                clients.close(origin.connection);
            }
        }
    }
}

/// What another member is told of an outcome; `newest` is the last change that it was checked against, or the
/// transaction itself.
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
