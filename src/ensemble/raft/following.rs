//! What a follower has beside what every member has: the requests of its clients that it passed on
//! to the leader.
//!
//! They keep their order, reads among them: one is answered when everything before it is. It begins
//! when there is a leader to ask and ends with either. What waits then has no known outcome, and
//! its clients are told nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use jute::ErrorCode;
use jute::protocol::{MultiResult, Request};
use jute::txn::TxnRecord;

use super::read_index::{Round, Rounds};
use crate::engine::decide::request::{Origin, Work};
use crate::engine::decide::sequencer::Prepared;
use crate::engine::decide::tracker::{Attached, Heard};
use crate::engine::effect::Effect;
use crate::engine::time::Monotonic;
use crate::engine::watch::ConnectionId;
use crate::engine::zxid::Zxid;
use crate::ensemble::clients::Clients;
use crate::ensemble::queue::Submission;
use crate::ensemble::standalone::OrderError;
use crate::ensemble::steps::{Applying, RequestShare};
use crate::ensemble::words::{Forwarded, StreamId, Verdict};

/// How long what a leader decided before another one came may take to become final.
const LEAVING_TICKS: u32 = 10;

/// What becomes of a request.
#[derive(Debug)]
enum Stage {
    /// The leader was asked. A sync is kept, because its answer repeats it.
    Forwarded(Option<Request<'static>>),
    Decided(Outcome),
}

#[derive(Debug)]
enum Outcome {
    /// It is this transaction, which opens a session or not.
    Txn(Zxid, Option<Attached>),
    /// It needs none, and is answered once this one is applied.
    Settled(Zxid, Prepared),
}

impl Outcome {
    /// Whether it was only true if its leader still led.
    const fn is_lost_without_round(&self) -> bool {
        match self {
            Self::Txn(..) | Self::Settled(_, Prepared::Read(Request::Sync(_))) => false,
            Self::Settled(..) => true,
        }
    }
}

/// Nobody knows the answer.
const LOST: Outcome = Outcome::Settled(Zxid::ZERO, Prepared::Close);

#[derive(Debug)]
struct Awaited {
    origin: Origin,
    /// Bytes that came for it.
    len: usize,
    room: RequestShare,
    /// Whether its session lives on this server only.
    is_local: bool,
    state: Stage,
    /// The round after which it may be answered.
    round: Round,
}

/// The requests to one leader.
#[derive(Debug)]
pub(super) struct Following {
    leader: u64,
    term: u64,
    stream: StreamId,
    waiting: VecDeque<Awaited>,
    /// Of those that wait, the first that may have no verdict.
    undecided: usize,
    /// Requests that the leader was asked, and verdicts that came.
    asked: u64,
    decided: u64,
    /// It leads no more; ticks since then. What it decided is waited for, and what it did not comes
    /// back.
    left: Option<u32>,
    /// What came back.
    returned: Vec<Submission>,
}

impl Following {
    pub(super) const fn new(leader: u64, term: u64, stream: StreamId) -> Self {
        let waiting = VecDeque::new();
        Self {
            leader,
            term,
            stream,
            waiting,
            undecided: 0,
            asked: 0,
            decided: 0,
            left: None,
            returned: Vec::new(),
        }
    }

    /// The leader leads no more, but it is there. What it decided without a transaction may already
    /// have been of the past, unless a round was over after it. A sync can wait for a round of the
    /// next leader.
    pub(super) fn leave(&mut self, done: Round) {
        if self.left.is_some() {
            return;
        }
        self.left = Some(0);
        for Awaited { state, round, .. } in &mut self.waiting {
            let is_lost =
                matches!(&*state, Stage::Decided(outcome) if outcome.is_lost_without_round());
            if is_lost && *round > done {
                (*state, *round) = (Stage::Decided(LOST), Round::default());
            }
        }
    }

    pub(super) const fn is_leaving(&self) -> bool {
        self.left.is_some()
    }

    /// A tick passed. Whether it has been left for too long.
    pub(super) fn tick(&mut self) -> bool {
        let Some(ticks) = &mut self.left else { return false };
        *ticks += 1;
        *ticks > LEAVING_TICKS
    }

    /// What another leader is to be asked, once nothing else waits.
    pub(super) fn take_returned(&mut self) -> Option<Vec<Submission>> {
        (self.is_leaving() && self.waiting.is_empty()).then(|| std::mem::take(&mut self.returned))
    }

    /// Takes back what the leader did not decide, and what needed no word of it among that. False
    /// if that is not what it was asked.
    pub(super) fn take_back(&mut self, returned: Vec<Forwarded>) -> bool {
        let is_asked = |waiting: &Awaited| matches!(waiting.state, Stage::Forwarded(_));
        let first = self.waiting.iter().position(is_asked).unwrap_or(self.waiting.len());
        let mut rest = self.waiting.split_off(first);
        let mut returned = returned.into_iter().peekable();
        while let Some(Awaited { origin, len, room, is_local, state, round }) = rest.pop_front() {
            let is_its = |its: &Forwarded| {
                (its.origin.connection, its.origin.xid) == (origin.connection, origin.xid)
            };
            let work = match state {
                Stage::Decided(Outcome::Settled(_, Prepared::Read(request))) => {
                    Ok(if is_local { Work::OfLocal(request) } else { Work::Request(request) })
                }
                Stage::Decided(Outcome::Settled(_, Prepared::Refused(ErrorCode::ThrottledOp))) => {
                    Ok(Work::Throttled)
                }
                Stage::Forwarded(repeated) => {
                    returned.next_if(is_its).map(|its| its.work).ok_or(Stage::Forwarded(repeated))
                }
                Stage::Decided(outcome) => Err(Stage::Decided(outcome)),
            };
            match work {
                Ok(work) => self.returned.push(Submission { origin, work, len, room }),
                Err(state) => {
                    rest.push_front(Awaited { origin, len, room, is_local, state, round });
                    break;
                }
            }
        }
        self.waiting.append(&mut rest);
        self.undecided = self.undecided.min(self.waiting.len());
        returned.next().is_none()
    }

    /// The first entry of a later term is final, after the transaction `last`: what was decided
    /// and is not applied is not done. A sync waits for a round of the next leader, and the reads
    /// after it wait for their turn.
    pub(super) fn term_ended(&mut self, last: Zxid, done: Round) {
        for Awaited { state, round, .. } in &mut self.waiting {
            let Stage::Decided(outcome) = &*state else { break };
            let is_lost = match outcome {
                Outcome::Txn(..) => true,
                Outcome::Settled(after, _) => {
                    *after > last || *round > done && outcome.is_lost_without_round()
                }
            };
            if is_lost {
                (*state, *round) = (Stage::Decided(LOST), Round::default());
            }
        }
    }

    /// Requests that the leader was asked.
    pub(super) const fn asked(&self) -> u64 {
        self.asked
    }

    /// Verdicts that came.
    pub(super) const fn decided(&self) -> u64 {
        self.decided
    }

    pub(super) const fn leader(&self) -> u64 {
        self.leader
    }

    pub(super) const fn term(&self) -> u64 {
        self.term
    }

    pub(super) const fn stream(&self) -> StreamId {
        self.stream
    }

    /// Takes a request. What is to be passed on, unless the answer can be made here.
    pub(super) fn take(
        &mut self,
        submission: Submission,
        rounds: &mut Rounds,
    ) -> Option<Forwarded> {
        let Submission { origin, work, len, room } = submission;
        let round = match work {
            Work::Request(Request::Sync(_)) | Work::OfLocal(Request::Sync(_)) => rounds.next(),
            _ => Round::default(),
        };
        let is_local = matches!(work, Work::OfLocal(_));
        // The end of a session that lives here is nobody else's.
        let is_of_here =
            |request: &Request<'_>| is_local && matches!(request, Request::CloseSession);
        let (state, asked) = match work {
            Work::Request(request) | Work::OfLocal(request)
                if Effect::of(&request).is_read() || is_of_here(&request) =>
            {
                (Stage::Decided(Outcome::Settled(Zxid::ZERO, Prepared::Read(request))), None)
            }
            Work::Throttled => {
                let refused = Prepared::Refused(ErrorCode::ThrottledOp);
                (Stage::Decided(Outcome::Settled(Zxid::ZERO, refused)), None)
            }
            work => {
                let repeated = match &work {
                    Work::Request(request @ Request::Sync(_))
                    | Work::OfLocal(request @ Request::Sync(_)) => Some(request.clone()),
                    _ => None,
                };
                (Stage::Forwarded(repeated), Some(Forwarded { origin: origin.clone(), work, len }))
            }
        };
        self.waiting.push_back(Awaited { origin, len, room, is_local, state, round });
        self.asked += u64::from(asked.is_some());
        asked
    }

    /// Takes the leader's verdict on the first request that has none.
    pub(super) fn decide(&mut self, verdict: Verdict, now: Monotonic, rounds: &mut Rounds) {
        let is_asked = |waiting: &Awaited| matches!(waiting.state, Stage::Forwarded(_));
        let Some(at) = (self.undecided..self.waiting.len()).find(|at| is_asked(&self.waiting[*at]))
        else {
            return;
        };
        self.undecided = at + 1;
        self.decided += 1;
        let Awaited { origin, state, round, .. } = &mut self.waiting[at];
        if let Verdict::Refused(..)
        | Verdict::RefusedMulti(..)
        | Verdict::Attached { .. }
        | Verdict::NoSession = verdict
        {
            *round = rounds.next();
        }
        let attached = |session, timeout_ms| {
            let heard = Arc::new(Heard::default());
            heard.touch(now);
            Attached { session, timeout_ms, heard, previous: None, reads_only: false }
        };
        let outcome = match verdict {
            Verdict::Txn(zxid) => Outcome::Txn(zxid, None),
            Verdict::Open { zxid, session, timeout_ms } => {
                Outcome::Txn(zxid, Some(attached(session, timeout_ms)))
            }
            Verdict::Read(after) => {
                let Stage::Forwarded(request) = state else { return };
                let read = request.take().map_or(Prepared::Close, Prepared::Read);
                Outcome::Settled(after, read)
            }
            Verdict::Refused(after, error) => Outcome::Settled(after, Prepared::Refused(error)),
            Verdict::RefusedMulti(after, codes) => {
                let results = codes.into_iter().map(MultiResult::Error).collect();
                Outcome::Settled(after, Prepared::RefusedMulti(results))
            }
            Verdict::Attached { session, timeout_ms } => {
                debug_assert_eq!(session, origin.session);
                Outcome::Settled(Zxid::ZERO, Prepared::Attached(attached(session, timeout_ms)))
            }
            Verdict::NoSession => Outcome::Settled(Zxid::ZERO, Prepared::NoSession),
            Verdict::Close => Outcome::Settled(Zxid::ZERO, Prepared::Close),
        };
        *state = Stage::Decided(match outcome {
            outcome if self.left.is_some() && outcome.is_lost_without_round() => {
                *round = Round::default();
                LOST
            }
            outcome => outcome,
        });
    }

    /// Answers what was asked before the transaction at `zxid`, which is final. Where that is this
    /// member's, no round is needed: a quorum took it from the leader.
    pub(super) fn settle_before(&mut self, zxid: Zxid, applying: &mut Applying<'_>, done: Round) {
        let is_settled = |state: &Stage| matches!(state, Stage::Decided(Outcome::Settled(..)));
        let next = self.waiting.iter().find(|waiting| !is_settled(&waiting.state));
        let is_next = next.is_some_and(
            |next| matches!(next.state, Stage::Decided(Outcome::Txn(its, _)) if its == zxid),
        );
        self.settle(applying, if is_next { Round::MAX } else { done });
    }

    /// Answers what needs no transaction, up to the first that does, has no verdict, or waits for a
    /// later round than `done`.
    pub(super) fn settle(&mut self, applying: &mut Applying<'_>, done: Round) {
        loop {
            let last = applying.database().last_zxid();
            let is_due = |waiting: &mut Awaited| match &waiting.state {
                _ if waiting.round > done => false,
                Stage::Forwarded(_) => false,
                // One that was applied before its verdict came: what it gave is not known any more.
                Stage::Decided(Outcome::Txn(zxid, _)) => *zxid <= last,
                Stage::Decided(Outcome::Settled(after, _)) => *after <= last,
            };
            let Some(Awaited { origin, room, state, .. }) = self.pop_if(is_due) else { return };
            let outcome = match state {
                Stage::Decided(Outcome::Settled(_, outcome)) => outcome,
                _ => Prepared::Close,
            };
            applying.answer(&origin, outcome, room);
        }
    }

    /// Applies a transaction and answers who waits for it. Gives it back where nobody does.
    pub(super) fn finish<'t>(
        &mut self,
        record: TxnRecord<'t>,
        applying: &mut Applying<'_>,
    ) -> Result<Option<TxnRecord<'t>>, OrderError> {
        let zxid = Zxid(record.header.zxid);
        let is_it = |waiting: &mut Awaited| match &waiting.state {
            Stage::Decided(Outcome::Txn(its, _)) => *its == zxid,
            _ => false,
        };
        let Some(Awaited { origin, room, state, .. }) = self.pop_if(is_it) else {
            return Ok(Some(record));
        };
        let opened = match &state {
            Stage::Decided(Outcome::Txn(_, opened)) => opened.as_ref(),
            _ => None,
        };
        applying.answer_txn(&origin, record, opened, room)?;
        Ok(None)
    }

    /// The connection of whoever is answered next.
    pub(super) fn next_asker(&self) -> Option<ConnectionId> {
        self.waiting.front().map(|waiting| waiting.origin.connection)
    }

    fn pop_if(&mut self, is_due: impl FnOnce(&mut Awaited) -> bool) -> Option<Awaited> {
        let first = self.waiting.pop_front_if(is_due)?;
        self.undecided = self.undecided.saturating_sub(1);
        Some(first)
    }

    /// The leader is lost, or this member to it. Whoever still waits cannot know what comes of it.
    pub(super) fn end(self, clients: &dyn Clients) {
        let returned = self.returned.into_iter().map(|submission| submission.origin);
        let waiting = self.waiting.into_iter().map(|waiting| waiting.origin);
        for origin in returned.chain(waiting) {
            clients.close(origin.connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use jute::protocol::{DeleteRequest, WatchRequest};

    use super::*;
    use crate::engine::session::SessionId;

    fn submission(xid: i32, work: Work) -> Submission {
        let (connection, session) = (ConnectionId(1), SessionId(1));
        let (identities, received) = (Arc::default(), Monotonic(0));
        let origin = Origin { connection, session, xid, identities, received };
        Submission { origin, work, len: 0, room: None }
    }

    #[test]
    fn what_needs_no_word_of_the_leader_comes_back_in_its_place() {
        let delete = || {
            let request = DeleteRequest { path: "/a".into(), version: -1 };
            Work::Request(Request::Delete(request))
        };
        let read = WatchRequest { path: "/a".into(), watch: false };
        let works = [delete(), Work::Throttled, Work::Request(Request::Exists(read)), delete()];
        let mut following = Following::new(2, 1, StreamId(1));
        let mut rounds = Rounds::default();
        let asked: Vec<Forwarded> = (1..)
            .zip(works.clone())
            .filter_map(|(xid, work)| following.take(submission(xid, work), &mut rounds))
            .collect();
        assert_eq!(asked.len(), 2);
        following.leave(Round::default());
        assert!(following.take_back(asked));
        let returned = following.take_returned().expect("nothing waits");
        let returned: Vec<Work> = returned.into_iter().map(|its| its.work).collect();
        assert_eq!(returned, works);
    }
}
