//! What the thread of a member does, as the server's own thread does it: what came from others,
//! time, what clients ask, sessions that are over, and the report to the leader.

use jute::protocol::Request;
use raft::eraftpb::MessageType;

use super::EnsembleError;
use super::Flaw;
use super::network::Content;
use super::server::{Thread, Waiting};
use super::timeline::MS;
use super::world::{Stop, World};
use crate::engine::database::{Database, Rules};
use crate::engine::decide::request::{Chore, Work};
use crate::engine::effect::Effect;
use crate::engine::time::{Monotonic, Now};
use crate::engine::zxid::Zxid;
use crate::ensemble::from_peer::FromPeer;
use crate::ensemble::raft::Member;
use crate::ensemble::words::{PeerWord, Verdict};
use crate::ensemble::{Clients as _, Life, Said};

use super::post::Post;

/// zoo.cfg's tickTime.
pub(super) const SESSION_TICK_MS: u64 = 500;
/// How old a read may be, and how long clients are kept without a leader.
pub(super) const SYNC_LIMIT_MS: u64 = 1500;

impl Thread {
    pub(super) fn new(now: Monotonic, voters: Vec<u8>, listed: Vec<u8>) -> Self {
        Self { life: Life::new(now, SESSION_TICK_MS, voters, listed), led: now }
    }

    /// Whether clients are taken.
    pub(super) const fn serves(&self, now: Now) -> bool {
        now.monotonic.since(self.led) < SYNC_LIMIT_MS
    }
}

impl World {
    /// A turn of a member's thread, and everything that follows from it.
    pub(super) fn turn(&mut self, at: usize) -> Result<(), String> {
        let now = self.servers[at].clock.read(self.timeline.now());
        *self.servers[at].seen.now.lock() = now.monotonic;
        let Some(mut member) = self.servers[at].member.take() else { return Ok(()) };
        let late = self.servers[at].thread.life.wakes(now.monotonic);
        if late > 0 {
            self.servers[at].ears.stood_still(late);
        }
        let done = self.drive(at, &mut member, now, late);
        let has_more = member.has_more();
        self.outcome.cut_short += u64::from(member.consensus.is_behind);
        self.servers[at].member = Some(member);
        let server = &mut self.servers[at];
        let next = now.monotonic.plus(server.thread.life.sleeps(has_more, now.monotonic));
        let next = server.clock.when(next, self.timeline.now());
        self.finish(at, done)?;
        self.look_at_late_reads(at, now.monotonic)?;
        self.wake(at, next);
        Ok(())
    }

    fn drive(
        &mut self,
        at: usize,
        member: &mut Member<Post>,
        now: Now,
        late: u64,
    ) -> Result<(), Stop> {
        self.put_late_tree(at, member);
        if self.flaw == Flaw::TreeSpoilt && at == 1 {
            member.applier.replica.exclusive().database().spoil("/", -1);
        }
        for waiting in std::mem::take(&mut self.servers[at].waiting) {
            self.take(at, member, waiting, now)?;
        }
        self.servers[at].thread.life.tick(member, now.monotonic);
        let submissions = std::mem::take(&mut self.servers[at].submissions);
        let sessions = submissions.iter().map(|submission| submission.origin.session.0);
        sessions.for_each(|session| self.servers[at].ears.may_hear_of(session, now.monotonic));
        member.submit(submissions);
        member.turn(now)?;
        while let Some(forged) = member.transport().forged.pop() {
            member.step(forged);
            member.turn(now)?;
        }
        let leads = member.requests().is_leading().then(|| member.consensus().term());
        self.servers[at].ears.leads(leads, now.monotonic);
        self.do_chores(at, member, now)?;
        self.expire_locals(at, member, now.monotonic, late)?;
        self.report(at, member, now)?;
        member.reload(true);
        if member.is_asked_for_snapshot() && !self.servers[at].gives_none {
            member.try_snapshot(&self.servers[at].disk, self.is_tainted, now.monotonic)?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        at: usize,
        member: &mut Member<Post>,
        waiting: Waiting,
        now: Now,
    ) -> Result<(), Stop> {
        match waiting {
            Waiting::Said(_, Content::Message(mut message)) => {
                if self.flaw == Flaw::RoundTakenForLater
                    && message.get_msg_type() == MessageType::MsgReadIndexResp
                    && let Some(entry) = message.mut_entries().first_mut()
                {
                    entry.data = member.transport().asked.clone().into();
                }
                self.count_observer(member, &message);
                self.tell(at, member, FromPeer::Said(message.from, Said::Message(message)), now)?;
            }
            Waiting::Said(from, Content::PeerWord(word)) => {
                let word = self.spoil_word(at, word);
                self.servers[at].ears.may_hear(&word, now.monotonic);
                self.tell(at, member, FromPeer::Said(from, Said::Word(word)), now)?;
            }
            Waiting::Said(from, Content::Heard(word, sessions)) => {
                if let Some(word) = word {
                    self.servers[at].ears.may_hear(&word, now.monotonic);
                    self.tell(at, member, FromPeer::Said(from, Said::Word(word)), now)?;
                }
                let ears = &mut self.servers[at].ears;
                sessions.into_iter().for_each(|session| ears.hear(session.0, now.monotonic));
            }
            Waiting::From(what) => {
                if matches!(what, FromPeer::Snapshot(..)) {
                    self.servers[at].receiving = None;
                }
                self.tell(at, member, what, now)?;
            }
            Waiting::Written(mut written) => {
                let new = written.installed.take_if(|_| self.flaw == Flaw::SnapshotLate);
                if let Some((index, new)) = new {
                    let empty = Database::new(self.seed, Rules::default());
                    let old = std::mem::replace(member.replica().exclusive().database(), empty);
                    written.installed = Some((index, old));
                    self.servers[at].late = Some((new, self.timeline.now() + 200 * MS));
                }
                let was_wrong = member.has_wrong_tree();
                self.outcome.installed += u64::from(member.persisted(*written)?);
                self.outcome.healed += u64::from(was_wrong && !member.has_wrong_tree());
            }
        }
        Ok(())
    }

    fn tell(
        &mut self,
        at: usize,
        member: &mut Member<Post>,
        what: FromPeer,
        now: Now,
    ) -> Result<(), EnsembleError> {
        self.servers[at].thread.life.take(member, what, now).map(drop)
    }

    /// Only with that planted fault.
    fn spoil_word(&mut self, at: usize, word: PeerWord) -> PeerWord {
        match (self.flaw, word) {
            (Flaw::RefusedTooEarly, PeerWord::Decided { stream, first, mut verdicts }) => {
                for verdict in &mut verdicts {
                    if let Verdict::Refused(after, _) | Verdict::RefusedMulti(after, _) = verdict {
                        *after = Zxid::ZERO;
                    }
                }
                PeerWord::Decided { stream, first, verdicts }
            }
            (Flaw::DoneTwice, word @ PeerWord::Ended { .. }) => {
                let connections = self.servers[at].connections.iter();
                let first = connections.filter_map(|(id, its)| {
                    let asked = its.unanswered.front().filter(|_| its.with_orderer > 0)?;
                    let session = its.attached.as_ref()?.session;
                    Some((*id, session, asked.xid, asked.request.clone()))
                });
                let again: Vec<_> = first.filter(|its| !Effect::of(&its.3).is_read()).collect();
                for (id, session, xid, request) in again {
                    self.submit(at, id, session, xid, Work::Request(request));
                }
                word
            }
            (_, word) => word,
        }
    }

    /// Only with that planted fault.
    fn put_late_tree(&mut self, at: usize, member: &Member<Post>) {
        let now = self.timeline.now();
        if let Some((tree, _)) = self.servers[at].late.take_if(|(_, when)| *when <= now) {
            let _ = member.replica().exclusive().install(tree);
        }
    }

    fn do_chores(&mut self, at: usize, member: &mut Member<Post>, now: Now) -> Result<(), Stop> {
        let looks = self.servers[at].thread.life.looks_at_sessions(member);
        let Some(late) = looks else { return Ok(()) };
        let Some(sequencer) = member.requests_mut().sequencer() else { return Ok(()) };
        let is_due = sequencer.next_expiry().is_some_and(|next| next <= now.monotonic);
        let expired = match self.flaw {
            _ if late == 0 && !is_due => Vec::new(),
            Flaw::ExpiredTooLate => sequencer.expired(now.monotonic, late + SESSION_TICK_MS),
            _ => sequencer.expired(now.monotonic, late),
        };
        for session in &expired {
            let timeout = member.replica().shared().sessions().get(session).copied();
            let timeout = u64::try_from(timeout.unwrap_or(0)).unwrap_or(0);
            let ears = &self.servers[at].ears;
            ears.may_expire(session.0, timeout, now.monotonic).map_err(Stop::Violation)?;
            self.ending.insert(session.0);
        }
        let database = member.replica().shared();
        for (session, timeout) in database.sessions().iter() {
            if !self.ending.contains(&session.0) {
                let timeout = u64::try_from(*timeout).unwrap_or(0);
                let ears = &mut self.servers[at].ears;
                ears.must_live(session.0, timeout, now.monotonic).map_err(Stop::Violation)?;
            }
        }
        drop(database);
        if expired.is_empty() {
            return Ok(());
        }
        self.outcome.expired += expired.len() as u64;
        let chores: Vec<Chore> = expired.into_iter().map(Chore::Expire).collect();
        member.requests_mut().take_chores(chores);
        member.turn(now)?;
        Ok(())
    }

    fn report(
        &mut self,
        at: usize,
        member: &mut Member<Post>,
        now: Now,
    ) -> Result<(), EnsembleError> {
        let server = &mut self.servers[at];
        if member.requests().is_leading() || member.requests().is_following() {
            server.thread.led = now.monotonic;
        }
        if self.flaw == Flaw::OwnListAlone {
            let listed: Vec<u8> = server.listed.iter().copied().collect();
            for peer in member.consensus().members() {
                member.lists.heard(peer, listed.clone());
            }
        }
        if !server.thread.life.report(member, now)? {
            return Ok(());
        }
        self.hear_removed_no_more(at, member);
        let server = &mut self.servers[at];
        let asks = member.requests.following.as_ref().filter(|following| !following.is_leaving());
        let leader = match asks {
            Some(following) => following.leader(),
            None if member.requests().is_leading() => server.id,
            // What is heard of is kept.
            None => return Ok(()),
        };
        let mut heard = Vec::new();
        for (id, connection) in &mut server.connections {
            let is_current =
                self.clients[connection.client].connection.is_some_and(|(_, its)| its == *id)
                    && server.seen.is_open(*id);
            if let Some(attached) = &connection.attached {
                server.ears.may_hear_of(attached.session.0, attached.heard.last());
            }
            if std::mem::take(&mut connection.is_news)
                && is_current
                && let Some(attached) = &connection.attached
            {
                heard.push(attached.session);
            }
        }
        if member.requests().is_leading() {
            heard.iter().for_each(|session| server.ears.hear(session.0, now.monotonic));
        } else if !heard.is_empty() {
            let sent = &mut member.transport().sent;
            let is_report =
                |(_, said): &(_, Content)| matches!(said, Content::PeerWord(PeerWord::Heard(_)));
            // It may have said more since.
            let place = sent.iter().rposition(is_report);
            let word = match place.map(|place| sent.remove(place)) {
                Some((_, Content::PeerWord(word))) => Some(word),
                _ => None,
            };
            let place = place.unwrap_or(sent.len());
            sent.insert(place, (leader, Content::Heard(word, heard)));
        }
        Ok(())
    }

    /// Whether a request ends its session.
    pub(super) fn ends(request: &Request<'_>) -> bool {
        *request == Request::CloseSession
    }
}
