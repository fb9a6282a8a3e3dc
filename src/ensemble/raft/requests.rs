//! The way of requests through a member: those of its clients to whoever leads, those of other
//! members to its own sequencer, and the verdicts back.

use std::collections::{BTreeMap, VecDeque};
use std::iter;
use std::sync::Arc;

use hashbrown::HashMap;

use super::consensus::Consensus;
use super::following::Following;
use super::here::Here;
use super::leading::Leading;
use super::member::Transport;
use super::read_index::Rounds;
use super::read_only::ReadOnly;
use super::{EnsembleError, server_of};
use crate::engine::database::Database;
use crate::engine::decide::local::{LocalSessions, Taken};
use crate::engine::decide::request::Chore;
use crate::engine::decide::sequencer::Sequencer;
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, Now};
use crate::engine::watch::ConnectionId;
use crate::engine::zxid::Zxid;
use crate::ensemble::clients::Clients;
use crate::ensemble::queue::Submission;
use crate::ensemble::standalone::orphans;
use crate::ensemble::steps::{Applier, TURN_BYTES};
use crate::ensemble::words::{Forwarded, PeerWord, StreamId, Verdict};

/// Requests of a leader that are not final; more are not taken.
const WAITING_MAX: usize = 64 << 10;

/// The stream of a member that asks this one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    stream: StreamId,
    /// Requests that came in it, and verdicts that went back.
    asked: u64,
    decided: u64,
}

/// A request, and of one of another member the stream that it came in.
pub(super) type Held = (Submission, Option<(u64, StreamId)>);

/// What waits to be decided.
pub(super) struct Undecided {
    chores: VecDeque<Chore>,
    is_leaving: bool,
    held: VecDeque<Held>,
}

impl Undecided {
    /// The chores, and the requests, unless what another leader decided comes before them.
    pub(super) fn each(
        &mut self,
    ) -> (impl Iterator<Item = Chore>, impl Iterator<Item = Submission>) {
        let Self { chores, is_leaving, held } = self;
        let requests = iter::from_fn(|| match is_leaving {
            true => None,
            false => held.pop_front().map(|(submission, _)| submission),
        });
        (iter::from_fn(|| chores.pop_front()), requests)
    }
}

/// The requests of a member's clients and of other members, and what answers them.
pub struct Requests {
    /// Of all clients, this member's.
    pub(super) here: Arc<Here>,
    /// From the leader's first entry to the end of its term.
    pub(super) leading: Option<Leading>,
    /// While there is another leader.
    pub(super) following: Option<Following>,
    /// Requests that nobody was asked for yet.
    pub(super) held: VecDeque<Held>,
    /// Bytes that are decided in one turn, and those of them that the turn in progress has left.
    pub(super) turn_bytes: usize,
    pub(super) turn_left: usize,
    /// The stream of each member that has asked this one.
    streams: HashMap<u64, Asking>,
    /// The last one to a leader.
    last_stream: StreamId,
    /// When the leader was last told which sessions were heard of.
    reported: Monotonic,
    /// What shows that whom this member takes for the leader is it.
    pub(super) rounds: Rounds,
    /// zoo.cfg's tickTime, which sessions expire by.
    pub(super) tick_ms: u64,
    /// Sessions that live here only, if there can be any.
    pub(super) local: Option<LocalSessions>,
    /// Clients that read only.
    pub(super) read_only: ReadOnly,
    /// Requests of this member's clients for another list of servers.
    pub(super) reconfigs: Vec<Submission>,
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests")
            .field("following", &self.following)
            .field("held", &self.held.len())
            .finish_non_exhaustive()
    }
}

impl Requests {
    pub(super) fn new(here: Arc<Here>, tick_ms: u64) -> Self {
        Self {
            here,
            leading: None,
            following: None,
            held: VecDeque::new(),
            turn_bytes: TURN_BYTES,
            turn_left: 0,
            streams: HashMap::new(),
            last_stream: StreamId(0),
            reported: Monotonic::default(),
            rounds: Rounds::default(),
            tick_ms,
            local: None,
            read_only: ReadOnly::default(),
            reconfigs: Vec::new(),
        }
    }

    /// Whether there is another member that leads and can be asked.
    #[must_use]
    pub const fn is_following(&self) -> bool {
        self.following.is_some()
    }

    /// Whether requests are taken here.
    #[must_use]
    pub const fn is_leading(&self) -> bool {
        self.leading.is_some()
    }

    /// The orderer's own state, where requests are taken.
    pub fn sequencer(&mut self) -> Option<&mut Sequencer> {
        self.leading.as_mut().map(Leading::sequencer)
    }

    /// Requests of a leader that wait for a `sync` to be shown.
    #[must_use]
    pub fn pending_syncs(&self) -> usize {
        self.leading.as_ref().map_or(0, Leading::pending_syncs)
    }

    /// Requests of this member that nobody was asked for yet.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes requests of this member's clients, in their order. They wait here until there is a
    /// leader, but for those of clients that read only.
    pub(super) fn submit(&mut self, mut submissions: Vec<Submission>, applied: Zxid) {
        self.read_only.take(&mut submissions, &self.here, applied);
        let Some(local) = self.local.as_mut().filter(|_| !submissions.is_empty()) else {
            self.hold(submissions);
            return;
        };
        let mut passed_on = Vec::new();
        for Submission { origin, work, len, room } in submissions {
            match local.take(&origin, work) {
                Taken::Attached(attached) => self.here.attached(origin.connection, &attached),
                Taken::Close => self.here.close(origin.connection),
                Taken::PassOn(work) => passed_on.push(Submission { origin, work, len, room }),
            }
        }
        self.hold(passed_on);
    }

    /// Lets those go who ask.
    pub(super) fn refuse(&self, submissions: Vec<Submission>) {
        let refused = submissions.into_iter().map(|submission| submission.origin.connection);
        refused.for_each(|connection| self.here.close(connection));
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

    /// How many sessions live here only.
    #[must_use]
    pub fn count_local(&self) -> usize {
        self.local.as_ref().map_or(0, LocalSessions::count) + self.read_only.count()
    }

    /// Ends the sessions that live here only and were not heard of for their timeout. `late_ms` is
    /// how long this server itself stood still.
    pub fn expire_local(&mut self, now: Monotonic, late_ms: u64) -> Vec<SessionId> {
        let mut expired = self.read_only.expire(now, late_ms);
        let has_leader = self.is_leading() || self.is_following();
        let spared_ms = self.read_only.spares_local(has_leader, now, late_ms);
        if let (Some(local), Some(late_ms)) = (&mut self.local, spared_ms) {
            expired.append(&mut local.expire(now, late_ms));
        }
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

    /// Sessions to close of which only ephemeral znodes are left, if this member leads.
    pub(super) fn orphans(&mut self) -> Vec<Chore> {
        self.sequencer().map(orphans).unwrap_or_default()
    }

    /// How many requests a leader has refused for want of room since the last call.
    pub fn take_refused_for_room(&mut self) -> u64 {
        let leading = self.leading.as_mut();
        leading.map_or(0, |leading| std::mem::take(&mut leading.refused_for_room))
    }

    /// A tick passes for what waits for an earlier leader.
    pub(super) fn tick(&mut self) {
        if let Some(following) = self.following.take_if(|following| following.tick()) {
            following.end(&*self.here);
        }
    }

    /// Takes verdicts of the leader, if none of its stream is missing, and answers what can be
    /// answered with them.
    pub(super) fn decided(
        &mut self,
        from: u64,
        (stream, first): (StreamId, u64),
        verdicts: Vec<Verdict>,
        applier: &Applier,
        now: Monotonic,
    ) -> Result<(), EnsembleError> {
        let is_it =
            |following: &Following| following.leader() == from && following.stream() == stream;
        let is_gap = |its: &mut Following| is_it(its) && its.decided() != first;
        if let Some(following) = self.following.take_if(is_gap) {
            following.end(&*self.here);
        }
        if let Some(following) = self.following.as_mut().filter(|its| is_it(its)) {
            for verdict in verdicts {
                following.decide(verdict, now, &mut self.rounds);
            }
            self.settle(applier)?;
        }
        Ok(())
    }

    /// The leader of a stream leads no more: what it did not decide comes back.
    pub(super) fn ended(&mut self, from: u64, stream: StreamId, returned: Vec<Forwarded>) {
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

    /// As a leader: these sessions were heard of.
    pub(super) fn heard(&self, sessions: &[SessionId], now: Monotonic) {
        if let Some(leading) = &self.leading {
            sessions.iter().for_each(|session| leading.touch(*session, now));
        }
    }

    /// Other members tell of connections of this one that lost their session.
    pub(super) fn disowned(&self, connections: Vec<ConnectionId>) {
        connections.into_iter().for_each(|connection| self.here.close(connection));
    }

    /// Words to or from a member may have been lost. Whether it is the leader that was followed.
    pub(super) fn lost(&mut self, peer: u64) -> bool {
        self.streams.remove(&peer);
        self.drop_held(peer);
        match self.following.take_if(|its| its.leader() == peer) {
            Some(following) => {
                following.end(&*self.here);
                true
            }
            None => false,
        }
    }

    /// Tells the leader which sessions were heard of since the last call.
    pub(super) fn report_heard(&mut self, transport: &mut impl Transport, now: Monotonic) {
        // While there is nobody to tell, it is kept for whoever comes next.
        if self.leading.is_none() && self.following.as_ref().is_none_or(Following::is_leaving) {
            return;
        }
        let since = std::mem::replace(&mut self.reported, now);
        let heard = self.here.heard_since(since);
        if self.leading.is_some() {
            self.heard(&heard, now);
        } else if let Some(following) = &self.following
            && !heard.is_empty()
        {
            transport.say(following.leader(), PeerWord::Heard(heard));
        }
    }

    /// Takes requests of another member, if none of its stream is missing.
    pub(super) fn asked(
        &mut self,
        from: u64,
        (stream, first): (StreamId, u64),
        requests: Vec<Forwarded>,
        transport: &mut impl Transport,
    ) {
        let known = self.streams.get(&from).filter(|known| known.stream == stream);
        if known.map_or(0, |known| known.asked) != first {
            self.streams.remove(&from);
            self.drop_held(from);
            transport.say(from, PeerWord::Ended { stream, returned: requests });
            return;
        }
        let decided = known.map_or(0, |known| known.decided);
        if known.is_none() {
            self.drop_held(from);
        }
        let asked = first + requests.len() as u64;
        self.streams.insert(from, Asking { stream, asked, decided });
        for Forwarded { origin, work, len } in requests {
            let submission = Submission { origin, work, len, room: None };
            self.held.push_back((submission, Some((from, stream))));
        }
    }

    fn drop_held(&mut self, peer: u64) {
        self.held.retain(|(_, from)| from.is_none_or(|(from, _)| from != peer));
    }

    /// Whether this member has a leader's state of this term, and room and numbers for more; a term
    /// has so many.
    pub(super) fn can_decide(&self, term: u64, numbers: u32) -> bool {
        let leads = |leading: &Leading| leading.term() == term && leading.waiting() < WAITING_MAX;
        self.leading.as_ref().is_some_and(leads) && !self.is_out_of_numbers(numbers)
    }

    /// Whether this term's numbers come to their end: 32 bits of each zxid count within it.
    pub(super) fn is_out_of_numbers(&self, numbers: u32) -> bool {
        self.leading.as_ref().is_some_and(|leading| !leading.has_numbers(numbers))
    }

    /// Whether there is something to decide.
    pub(super) fn has_more_to_decide(&self) -> bool {
        let has_requests = !self.held.is_empty() && !self.is_leaving();
        has_requests || self.has_chores()
    }

    /// Whether there is something to pass on to a leader: what another one did not decide comes
    /// before it.
    pub(super) fn has_more_to_pass_on(&self) -> bool {
        !self.held.is_empty() && !self.is_leaving()
    }

    /// Whether what another leader decided is waited for, before which nothing else may be asked.
    fn is_leaving(&self) -> bool {
        self.following.as_ref().is_some_and(Following::is_leaving)
    }

    /// A turn begins.
    pub(super) const fn begin_turn(&mut self) {
        self.turn_left = self.turn_bytes;
    }

    /// Takes what waits to be decided, until [`Self::give_back`] has what is left of it.
    pub(super) fn take_waiting(&mut self) -> Undecided {
        let chores = self.leading.as_mut().map(|its| std::mem::take(&mut its.chores));
        Undecided {
            chores: chores.unwrap_or_default(),
            is_leaving: self.is_leaving(),
            held: std::mem::take(&mut self.held),
        }
    }

    /// So many bytes of it are decided.
    pub(super) fn give_back(&mut self, waiting: Undecided, bytes: usize) {
        self.held = waiting.held;
        self.take_chores(waiting.chores.into());
        self.turn_left = self.turn_left.saturating_sub(bytes);
    }

    /// Tells other members what was decided of what they asked.
    pub(super) fn tell_decided(
        &mut self,
        decided: Vec<(u8, Verdict)>,
        transport: &mut impl Transport,
    ) {
        let mut words: Vec<(u8, Vec<Verdict>)> = Vec::new();
        for (server, verdict) in decided {
            match words.iter_mut().find(|(its, _)| *its == server) {
                Some((_, verdicts)) => verdicts.push(verdict),
                None => words.push((server, vec![verdict])),
            }
        }
        for (server, verdicts) in words {
            let asker = self.streams.iter_mut().find(|(peer, _)| server_of(**peer) == server);
            if let Some((peer, asking)) = asker {
                let (stream, first) = (asking.stream, asking.decided);
                asking.decided += verdicts.len() as u64;
                transport.say(*peer, PeerWord::Decided { stream, first, verdicts });
            }
        }
    }

    /// Whoever was let go with a request of unknown outcome must have none after it done.
    pub(super) fn drop_closed(&mut self) {
        let here = &self.here;
        self.held.retain(|(submission, from)| {
            from.is_some() || here.is_open(submission.origin.connection)
        });
    }

    /// Passes all that waits on to whoever leads, and answers what can be answered.
    pub(super) fn ask_leader(
        &mut self,
        applier: &Applier,
        transport: &mut impl Transport,
    ) -> Result<(), EnsembleError> {
        let Self { held, following: Some(following), rounds, .. } = self else {
            return Ok(());
        };
        let first = following.asked();
        let submissions = held.drain(..).map(|(submission, _)| submission);
        let requests: Vec<Forwarded> =
            submissions.filter_map(|submission| following.take(submission, rounds)).collect();
        if !requests.is_empty() {
            let stream = following.stream();
            transport.say(following.leader(), PeerWord::Forwarded { stream, first, requests });
        }
        self.settle(applier)
    }

    /// Answers what a leader was asked and can be answered by now.
    pub(super) fn settle(&mut self, applier: &Applier) -> Result<(), EnsembleError> {
        let Some(following) = &mut self.following else { return Ok(()) };
        let done = self.rounds.done();
        applier.under_hold(|applying| {
            following.settle(applying, done);
            Ok(())
        })
    }

    /// Answers what a leader decided without a transaction and can be answered by now.
    pub(super) fn finish_settled(&mut self, applier: &Applier) -> Result<(), EnsembleError> {
        let Self { leading: Some(leading), rounds, .. } = self else { return Ok(()) };
        applier.under_hold(|applying| leading.finish_settled(applying, rounds.done()))?;
        Ok(())
    }

    /// Begins to follow whoever leads now, and ends what was with another.
    pub(super) fn follow(&mut self, consensus: &Consensus, now: Now) {
        let raft = &consensus.node.raft;
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
        if self.following.is_none() && leader != raft.id && consensus.has_found(leader) {
            // Above those of an earlier life of this member.
            let of_now = now.wall.0.cast_unsigned() << 16;
            self.last_stream = StreamId(of_now.max(self.last_stream.0 + 1));
            self.following = Some(Following::new(leader, term, self.last_stream));
            // The last reports may have been lost with what was before.
            self.reported = Monotonic(self.reported.0.saturating_sub(2 * self.tick_ms));
        }
    }

    /// Another leads: what other members ask here is for nobody.
    pub(super) fn refuse_held(&mut self, transport: &mut impl Transport) {
        let mut of: BTreeMap<(u64, StreamId), Vec<Forwarded>> = BTreeMap::new();
        for (submission, from) in std::mem::take(&mut self.held) {
            let Some((peer, stream)) = from else {
                self.held.push_back((submission, None));
                continue;
            };
            let Submission { origin, work, len, .. } = submission;
            of.entry((peer, stream)).or_default().push(Forwarded { origin, work, len });
        }
        for ((peer, stream), returned) in of {
            if self.streams.remove(&peer).is_some() {
                transport.say(peer, PeerWord::Ended { stream, returned });
            }
        }
    }

    /// What waits here has no outcome here: the connections of this member's clients end, and what
    /// other members have asked and was not decided goes back to them.
    pub(super) fn let_all_go(&mut self, transport: &mut impl Transport) {
        self.refuse_held(transport);
        if let Some(leading) = self.leading.take() {
            leading.end(&*self.here);
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

    /// Lets all clients of this member go, and whatever they still wait for.
    pub(super) fn serve_nobody(&mut self) {
        self.here.close_all();
        let here = &self.here;
        self.held.retain(|(submission, from)| {
            if from.is_none() {
                here.close(submission.origin.connection);
            }
            from.is_some()
        });
        if let Some(following) = self.following.take() {
            following.end(&**here);
        }
        if let Some(leading) = &self.leading {
            leading.let_own_go(&**here);
        }
    }

    /// Ends what belongs to a term that this member does not lead any more, if `leads_in` says so
    /// of it. Whether there was such a term.
    pub(super) fn end_of_term(
        &mut self,
        leads_in: impl FnOnce(u64) -> bool,
        clients: &dyn Clients,
    ) -> bool {
        let is_over = |leading: &mut Leading| !leads_in(leading.term());
        match self.leading.take_if(is_over) {
            Some(leading) => {
                leading.end(clients);
                true
            }
            None => false,
        }
    }

    /// Another state takes the place of the applied one. Watches go with the tree that they were
    /// set on: their clients set them again when they come back.
    pub(super) fn replaced(&mut self, database: &Database) {
        self.here.close_all();
        if let Some(local) = &mut self.local {
            database.sessions().keys().for_each(|session| local.forget(*session));
        }
    }

    /// Tells other members which of their connections lost their session.
    pub(super) fn disown(&self, consensus: &Consensus, transport: &mut impl Transport) {
        let mut of: BTreeMap<u64, Vec<ConnectionId>> = BTreeMap::new();
        for connection in self.here.take_disowned() {
            let peers = consensus.node.raft.prs().iter().map(|(peer, _)| *peer);
            let lives = peers.filter(|peer| server_of(*peer) == connection.server());
            // A seat that nobody took yet hears nothing.
            if let Some(peer) = lives.max_by_key(|peer| (consensus.has_found(*peer), *peer)) {
                of.entry(peer).or_default().push(connection);
            }
        }
        for (peer, connections) in of {
            transport.say(peer, PeerWord::Disowned(connections));
        }
    }
}
