//! The way of requests through a member: those of its clients to whoever leads, those of other
//! members to its own sequencer, and the verdicts back.

use std::collections::BTreeMap;
use std::iter;

use jute::txn::TxnRecord;
use raft::StateRole;

use super::configuration::Change;
use super::following::Following;
use super::leading::Leading;
use super::member::{Member, Transport};
use super::{EnsembleError, server_of};
use crate::engine::decide::local::{LocalSessions, Taken};
use crate::engine::decide::request::Chore;
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, Now};
use crate::engine::watch::ConnectionId;
use crate::ensemble::clients::Clients;
use crate::ensemble::disk_room::Room;
use crate::ensemble::queue::Submission;
use crate::ensemble::standalone::orphans;
use crate::ensemble::words::{Asked, Stream, Verdict, Word};

/// Requests of a leader that are not final; more are not taken.
const WAITING_MAX: usize = 64 << 10;

/// The stream of a member that asks this one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    stream: Stream,
    /// Requests that came in it, and verdicts that went back.
    asked: u64,
    decided: u64,
}

impl<T: Transport> Member<T> {
    /// Takes requests of this member's clients, in their order. They wait here until there is a
    /// leader.
    pub fn submit(&mut self, submissions: Vec<Submission>) {
        if self.has_wrong_tree() || self.has_ended {
            let refused = submissions.into_iter().map(|submission| submission.origin.connection);
            refused.for_each(|connection| self.here.close(connection));
            return;
        }
        let Some(local) = self.local.as_mut().filter(|_| !submissions.is_empty()) else {
            self.held.extend(submissions.into_iter().map(|submission| (submission, None)));
            return;
        };
        for Submission { origin, work, len, room } in submissions {
            match local.take(&origin, work) {
                Taken::Attached(attached) => self.here.attached(origin.connection, &attached),
                Taken::Close => self.here.close(origin.connection),
                Taken::PassOn(work) => {
                    self.held.push_back((Submission { origin, work, len, room }, None));
                }
            }
        }
    }

    /// From here on new sessions of this member's clients live here only.
    pub fn keep_sessions_local(&mut self, local: LocalSessions) {
        self.local = Some(local);
    }

    /// The sessions that live here only, if there can be any.
    #[must_use]
    pub const fn local_sessions(&self) -> Option<&LocalSessions> {
        self.local.as_ref()
    }

    /// Ends the sessions that live here only and were not heard of for their timeout. `late_ms` is
    /// how long this server itself stood still.
    pub fn expire_local(&mut self, now: Monotonic, late_ms: u64) -> Vec<SessionId> {
        let Some(local) = &mut self.local else { return Vec::new() };
        let expired = local.expire(now, late_ms);
        expired.iter().for_each(|session| self.here.session_closed(*session));
        expired
    }

    /// Takes what the server itself wants: a leader decides it in its next turns, as much in each
    /// as it may. Whoever leads after it finds out by itself.
    pub fn take_chores(&mut self, chores: Vec<Chore>) {
        if let Some(leading) = &mut self.leading {
            leading.chores.extend(chores);
        }
    }

    /// Whether some of that is still to be decided.
    #[must_use]
    pub fn has_chores(&self) -> bool {
        self.leading.as_ref().is_some_and(|leading| !leading.chores.is_empty())
    }

    /// Sessions to close of which only ephemeral znodes are left, if this member leads and there is
    /// room for that.
    pub fn orphans(&mut self) -> Vec<Chore> {
        if self.room_to_decide() >= Room::Least {
            return Vec::new();
        }
        self.sequencer().map(orphans).unwrap_or_default()
    }

    /// Decides something small that the server itself wants before anything else.
    pub(super) fn do_at_once(&mut self, chore: Chore, now: Now) -> Result<(), EnsembleError> {
        if self.takes_requests() {
            self.decide(&mut iter::once(chore), &mut iter::empty(), 1, now)?;
        }
        Ok(())
    }

    /// Takes a word of another member.
    ///
    /// # Errors
    /// When an answer that was waited for cannot be made.
    pub fn hear(&mut self, from: u64, word: Word, now: Now) -> Result<(), EnsembleError> {
        if self.has_ended {
            return Ok(());
        }
        match word {
            Word::Asked { stream, first, requests } => self.asked(from, stream, first, requests),
            Word::Decided { stream, first, verdicts } => {
                let is_it = |following: &Following| {
                    following.leader() == from && following.stream() == stream
                };
                let is_gap = |its: &mut Following| is_it(its) && its.decided() != first;
                if let Some(following) = self.following.take_if(is_gap) {
                    following.end(&*self.here);
                }
                if let Some(following) = self.following.as_mut().filter(|its| is_it(its)) {
                    for verdict in verdicts {
                        following.decide(verdict, now.monotonic, &mut self.rounds);
                    }
                    self.settle()?;
                }
            }
            Word::Ended { stream, returned } => {
                let is_it = |its: &Following| its.leader() == from && its.stream() == stream;
                if let Some(following) = self.following.as_mut().filter(|its| is_it(its)) {
                    following.leave(self.rounds.done());
                    if !following.take_back(returned)
                        && let Some(following) = self.following.take()
                    {
                        following.end(&*self.here);
                    }
                }
            }
            Word::Heard(sessions) => {
                if let Some(leading) = &self.leading {
                    sessions.iter().for_each(|session| leading.touch(*session, now.monotonic));
                }
            }
            Word::Disowned(connections) => {
                connections.into_iter().for_each(|connection| self.here.close(connection));
            }
            Word::Snapshot(need) => self.needs(from, need),
            Word::Room(room) => {
                let leads = self.node.raft.state == StateRole::Leader;
                self.rooms.heard(from, room, leads);
            }
            Word::Listed(servers) => self.lists.heard(from, servers),
            Word::TakeSnapshot => self.told_to_go(from),
            Word::Tree(tree) => self.heard_tree(from, tree)?,
            Word::WrongTree(tree) => self.told_wrong_tree(from, tree)?,
        }
        Ok(())
    }

    /// From here on words to and from a member arrive, in their order.
    pub fn found(&mut self, peer: u64) {
        self.found.insert(peer);
    }

    /// Words to or from a member may have been lost, and more will be until it is found again.
    pub fn lost(&mut self, peer: u64) {
        self.found.remove(&peer);
        self.streams.remove(&peer);
        self.turns.lost(peer);
        self.rooms.lost(peer);
        self.lists.lost(peer);
        self.trees.lost(peer);
        self.drop_held(peer);
        if let Some(following) = self.following.take_if(|its| its.leader() == peer) {
            following.end(&*self.here);
            // Where others still hear it, they do not elect another.
            self.miss_leader();
        }
    }

    /// Tells the leader which sessions were heard of since the last call.
    pub fn report_heard(&mut self, now: Now) {
        // While there is nobody to tell, it is kept for whoever comes next.
        if self.leading.is_none() && self.following.as_ref().is_none_or(Following::is_leaving) {
            return;
        }
        let since = std::mem::replace(&mut self.reported, now.monotonic);
        let heard = self.here.heard_since(since);
        if let Some(leading) = &self.leading {
            heard.iter().for_each(|session| leading.touch(*session, now.monotonic));
        } else if let Some(following) = &self.following
            && !heard.is_empty()
        {
            self.transport.say(following.leader(), Word::Heard(heard));
        }
    }

    /// How many requests a leader has refused for want of room since the last call.
    pub fn take_refused_for_room(&mut self) -> u64 {
        let leading = self.leading.as_mut();
        leading.map_or(0, |leading| std::mem::take(&mut leading.refused_for_room))
    }

    /// Requests of this member that nobody was asked for yet.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes requests of another member, if none of its stream is missing.
    fn asked(&mut self, from: u64, stream: Stream, first: u64, requests: Vec<Asked>) {
        let known = self.streams.get(&from).filter(|known| known.stream == stream);
        if known.map_or(0, |known| known.asked) != first {
            self.streams.remove(&from);
            self.drop_held(from);
            self.transport.say(from, Word::Ended { stream, returned: requests });
            return;
        }
        let decided = known.map_or(0, |known| known.decided);
        if known.is_none() {
            self.drop_held(from);
        }
        let asked = first + requests.len() as u64;
        self.streams.insert(from, Asking { stream, asked, decided });
        for Asked { origin, work, len } in requests {
            let submission = Submission { origin, work, len, room: None };
            self.held.push_back((submission, Some((from, stream))));
        }
    }

    fn drop_held(&mut self, peer: u64) {
        self.held.retain(|(_, from)| from.is_none_or(|(from, _)| from != peer));
    }

    /// Whether this member leads and decides at once what it is asked.
    #[must_use]
    pub fn takes_requests(&self) -> bool {
        let raft = &self.node.raft;
        let leads =
            |leading: &Leading| leading.term() == raft.term && leading.waiting() < WAITING_MAX;
        raft.state == StateRole::Leader
            && !self.has_ended
            && raft.lead_transferee.is_none()
            && !self.unsynced.is_full()
            && self.room_to_decide() < Room::Full
            && self.leading.as_ref().is_some_and(leads)
            && !self.is_out_of_numbers()
            && !self.has_wrong_tree()
    }

    /// Whether this term's numbers come to their end: 32 bits of each zxid count within it.
    pub(super) fn is_out_of_numbers(&self) -> bool {
        let a_term = self.ensemble.zxids_a_term;
        self.leading.as_ref().is_some_and(|leading| !leading.has_numbers(a_term))
    }

    /// Whether another turn is due at once: not all was applied or, by a leader, decided that could
    /// be.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.is_behind && !self.has_ended || self.has_more_to_decide()
    }

    fn has_more_to_decide(&self) -> bool {
        let has_requests = !self.held.is_empty() && !self.is_leaving();
        (has_requests || self.has_chores()) && self.takes_requests()
    }

    /// Whether what another leader decided is waited for, before which nothing else may be asked.
    fn is_leaving(&self) -> bool {
        self.following.as_ref().is_some_and(Following::is_leaving)
    }

    /// Decides as a leader: other members hear the verdicts on their requests before anything of
    /// the transactions. Gives how much was decided.
    fn decide(
        &mut self,
        chores: &mut impl Iterator<Item = Chore>,
        submissions: &mut impl Iterator<Item = Submission>,
        bytes_max: usize,
        now: Now,
    ) -> Result<usize, EnsembleError> {
        let room = self.room_to_decide().max(self.applier.replica.memory_room());
        let Self { node, applier, leading, transport, streams, rounds, .. } = self;
        let Some(leading) = leading else { return Ok(0) };
        leading.room = room;
        let propose = |record: &TxnRecord<'static>| {
            let mut data = Vec::new();
            record.encode(&mut data);
            let len = data.len();
            let proposed = match Change::of(record) {
                // Whoever applies it knows the index; until then, only that it is a change counts.
                Some(change) => node.propose_conf_change(data, change.to_conf_change(0)),
                None => node.propose(Vec::new(), data),
            };
            proposed.map(|()| len)
        };
        let (decided, bytes) = leading.decide(
            &applier.replica,
            chores,
            submissions,
            now,
            bytes_max,
            rounds,
            propose,
        )?;
        let mut words: Vec<(u8, Vec<Verdict>)> = Vec::new();
        for (server, verdict) in decided {
            match words.iter_mut().find(|(its, _)| *its == server) {
                Some((_, verdicts)) => verdicts.push(verdict),
                None => words.push((server, vec![verdict])),
            }
        }
        for (server, verdicts) in words {
            let asker = streams.iter_mut().find(|(peer, _)| server_of(**peer) == server);
            if let Some((peer, asking)) = asker {
                let (stream, first) = (asking.stream, asking.decided);
                asking.decided += verdicts.len() as u64;
                transport.say(*peer, Word::Decided { stream, first, verdicts });
            }
        }
        applier.under_hold(|applying| leading.finish_settled(applying, rounds.done()))?;
        Ok(bytes)
    }

    /// Has whoever leads decide what waits, as a leader up to what a turn may.
    pub(super) fn pass_on(&mut self, now: Now) -> Result<(), EnsembleError> {
        self.follow(now);
        // Whoever was let go with a request of unknown outcome must have none after it done.
        let here = &self.here;
        self.held.retain(|(submission, from)| {
            from.is_some() || here.is_open(submission.origin.connection)
        });
        if self.has_more_to_decide() && self.turn_left > 0 {
            self.decide_some(now)?;
        }
        // What another leader did not decide comes before them.
        if self.held.is_empty() || self.is_leaving() {
            if self.node.raft.leader_id != self.node.raft.id {
                self.refuse_held();
            }
            return self.settle();
        }
        if self.takes_requests() {
            return Ok(());
        }
        if self.node.raft.leader_id != self.node.raft.id {
            self.refuse_held();
        }
        let Self { held, following: Some(following), transport, rounds, .. } = self else {
            return Ok(());
        };
        let first = following.asked();
        let submissions = held.drain(..).map(|(submission, _)| submission);
        let requests: Vec<Asked> =
            submissions.filter_map(|submission| following.take(submission, rounds)).collect();
        if !requests.is_empty() {
            let stream = following.stream();
            transport.say(following.leader(), Word::Asked { stream, first, requests });
        }
        self.settle()
    }

    /// Decides what waits, as much as this turn may still.
    fn decide_some(&mut self, now: Now) -> Result<(), EnsembleError> {
        let bytes_max = self.unsynced.room().min(self.turn_left);
        let is_leaving = self.is_leaving();
        let mut held = std::mem::take(&mut self.held);
        let mut chores =
            self.leading.as_mut().map(|its| std::mem::take(&mut its.chores)).unwrap_or_default();
        let mut requests = iter::from_fn(|| match is_leaving {
            true => None,
            false => held.pop_front().map(|(submission, _)| submission),
        });
        let mut next = iter::from_fn(|| chores.pop_front());
        let bytes = self.decide(&mut next, &mut requests, bytes_max, now)?;
        self.held = held;
        self.take_chores(chores.into());
        self.turn_left = self.turn_left.saturating_sub(bytes);
        Ok(())
    }

    /// Answers what a leader was asked and can be answered by now.
    pub(super) fn settle(&mut self) -> Result<(), EnsembleError> {
        let Some(following) = &mut self.following else { return Ok(()) };
        let done = self.rounds.done();
        self.applier.under_hold(|applying| {
            following.settle(applying, done);
            Ok(())
        })
    }

    /// Begins to follow whoever leads now, and ends what was with another.
    fn follow(&mut self, now: Now) {
        let raft = &self.node.raft;
        let (leader, term) = (raft.leader_id, raft.term);
        if let Some(following) = &mut self.following {
            if following.leader() != leader || following.term() != term {
                following.leave(self.rounds.done());
            }
            if let Some(returned) = following.take_returned() {
                self.following = None;
                let later = std::mem::take(&mut self.held);
                self.held.extend(returned.into_iter().map(|submission| (submission, None)));
                self.held.extend(later);
            }
        }
        if self.following.is_none() && leader != raft.id && self.found.contains(&leader) {
            // Above those of an earlier life of this member.
            let of_now = now.wall.0.cast_unsigned() << 16;
            self.last_stream = Stream(of_now.max(self.last_stream.0 + 1));
            self.following = Some(Following::new(leader, term, self.last_stream));
            // The last reports may have been lost with what was before.
            self.reported = Monotonic(self.reported.0.saturating_sub(2 * self.tick_ms));
        }
    }

    /// Another leads: what other members ask here is for nobody.
    fn refuse_held(&mut self) {
        let mut of: BTreeMap<(u64, Stream), Vec<Asked>> = BTreeMap::new();
        for (submission, from) in std::mem::take(&mut self.held) {
            let Some((peer, stream)) = from else {
                self.held.push_back((submission, None));
                continue;
            };
            let Submission { origin, work, len, .. } = submission;
            of.entry((peer, stream)).or_default().push(Asked { origin, work, len });
        }
        for ((peer, stream), returned) in of {
            if self.streams.remove(&peer).is_some() {
                self.transport.say(peer, Word::Ended { stream, returned });
            }
        }
    }

    /// What waits here has no outcome here: the connections of this member's clients end, and what
    /// other members have asked and was not decided goes back to them.
    pub(super) fn let_all_go(&mut self) {
        self.refuse_held();
        if let Some(leading) = self.leading.take() {
            leading.end(&*self.here);
            self.trees.end_of_term();
        }
        if let Some(following) = self.following.take() {
            following.end(&*self.here);
        }
        for (submission, _) in std::mem::take(&mut self.held) {
            self.here.close(submission.origin.connection);
        }
        self.here.close_all();
        self.here.flush();
    }

    /// Tells other members which of their connections lost their session.
    pub(super) fn disown(&mut self) {
        let mut of: BTreeMap<u64, Vec<ConnectionId>> = BTreeMap::new();
        for connection in self.here.take_disowned() {
            let peers = self.node.raft.prs().iter().map(|(peer, _)| *peer);
            let lives = peers.filter(|peer| server_of(*peer) == connection.server());
            // A seat that nobody took yet hears nothing.
            if let Some(peer) = lives.max_by_key(|peer| (self.found.contains(peer), *peer)) {
                of.entry(peer).or_default().push(connection);
            }
        }
        for (peer, connections) in of {
            self.transport.say(peer, Word::Disowned(connections));
        }
    }
}
