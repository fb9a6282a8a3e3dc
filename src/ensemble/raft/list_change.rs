//! Changes of the list of servers: the client here that waits for one and, as a leader, the one
//! that is on its way.
//!
//! The list is the tree's. A leader makes the members follow what it is to be, and only then writes
//! it down: so whoever reads it can rely on the servers in it. A change that has not come to that
//! is known to its leader alone, and goes with its term: the next leader makes the members follow
//! the list as it is.
//!
//! A client's request for a change is not among the others, because it may take as long as a server
//! takes to catch up. Its connection has nothing else on its way meanwhile.

use std::collections::BTreeMap;

use jute::ErrorCode;
use jute::protocol::{ReconfigRequest, Request};

use super::consensus::Consensus;
use super::lists::LISTEN_TICKS;
use super::member::{Member, Transport};
use super::membership::Target;
use super::requests::Requests;
use super::{EnsembleError, MemberChange, server_of};
use crate::engine::database::Database;
use crate::engine::decide::request::{Chore, Origin, Work};
use crate::engine::decide::sequencer::Prepared;
use crate::engine::session::SessionId;
use crate::engine::time::Now;
use crate::engine::zxid::Zxid;
use crate::ensemble::clients::{Clients as _, RequestKind};
use crate::ensemble::queue::Submission;
use crate::ensemble::steps::{Applying, RequestShare};
use crate::ensemble::words::{Forwarded, PeerWord, StreamId, Verdict};
use crate::list::change::{Asked, Present};
use crate::list::line::Addresses;
use crate::list::{Role, ServerList, Servers};

/// What members have to speak for a list to be changed: earlier versions know neither the words for
/// it nor a member that votes no more.
const SPOKEN: u32 = 7;

/// The list of servers as a member knows it, and what becomes of it.
#[derive(Debug, Default)]
pub(super) struct ListChange {
    /// The transaction that `/zookeeper/config` was written by when it was last looked at.
    seen: Zxid,
    /// The list that the ensemble has agreed on, if it has one and this server goes by it.
    agreed: Option<ServerList>,
    /// It became that since it was last asked for.
    is_new: bool,
    waiting: Option<Waiting>,
    /// Of the last request that waited.
    number: u64,
    /// As a leader: what clients ask, each by the member that they are connected to, and with the
    /// number that this has for it.
    asked: BTreeMap<u64, (u64, Forwarded)>,
    /// The same: what the list is to be.
    under_way: Option<UnderWay>,
}

/// A client of this member that waits for its change.
#[derive(Debug)]
struct Waiting {
    number: u64,
    asked: Forwarded,
    room: RequestShare,
    /// Who was asked.
    of: Option<Leader>,
    verdict: Option<Verdict>,
}

/// Whoever leads, as one that can be asked: with one that was lost meanwhile, a word to it may have
/// been, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leader {
    member: u64,
    term: u64,
    /// What it is asked in; none for this member itself.
    stream: Option<StreamId>,
}

/// A change that a leader is about.
#[derive(Debug)]
struct UnderWay {
    next: Servers,
    /// The member whose client waits for it, and that one's number; nobody for the first list.
    asker: Option<(u64, u64)>,
    by: (SessionId, i32),
    /// The transaction that writes the list down, once it is proposed.
    effect: Option<Zxid>,
}

impl ListChange {
    /// The list that counts.
    pub(super) const fn agreed(&self) -> Option<&ServerList> {
        self.agreed.as_ref()
    }

    /// What the members are to follow, where it is not this server's own list.
    fn target(&self) -> Option<&Servers> {
        let next = self.under_way.as_ref().map(|its| &its.next);
        next.or_else(|| self.agreed.as_ref().map(|list| &list.servers))
    }

    /// Takes what a member's client asks of this one as the leader. A later request of the same
    /// member takes the place of an earlier one, for which nobody waits any more.
    pub(super) fn asked(&mut self, from: u64, number: u64, asked: Forwarded) {
        self.asked.insert(from, (number, asked));
    }

    /// The leader has decided what this member asked.
    pub(super) fn decided(&mut self, from: u64, number: u64, verdict: Verdict) {
        let is_it = |waiting: &&mut Waiting| {
            waiting.number == number && waiting.of.is_some_and(|leader| leader.member == from)
        };
        if let Some(waiting) = self.waiting.as_mut().filter(is_it) {
            waiting.verdict.get_or_insert(verdict);
        }
    }

    /// Nothing is known of a member any more.
    pub(super) fn lost(&mut self, peer: u64) {
        self.asked.remove(&peer);
    }

    /// The transaction at `zxid` is applied: whoever waited for it is answered.
    pub(super) fn applied(&mut self, zxid: Zxid, applying: &mut Applying<'_>) {
        let effect = Some(Verdict::Txn(zxid));
        let is_it = |waiting: &mut Waiting| waiting.verdict == effect;
        if let Some(Waiting { asked, room, .. }) = self.waiting.take_if(is_it) {
            applying.answer_list(&asked.origin, room);
        }
    }

    /// Looks whether there is another list. `goes_by_it` says whether this server goes by what the
    /// ensemble has agreed on.
    pub(super) fn see(&mut self, database: &Database, goes_by_it: bool) {
        // Without a list, nothing is looked up: this is on the way of every transaction.
        if !goes_by_it {
            return;
        }
        let written = database.list_written();
        if written == self.seen {
            return;
        }
        self.seen = written;
        // A text that is no list was written by somebody else than a leader.
        if let Some(list) = database.agreed_list() {
            self.is_new |= self.agreed.as_ref() != Some(&list);
            self.agreed = Some(list);
        }
        self.under_way.take_if(|its| its.effect.is_some_and(|effect| effect <= written));
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_none() && self.asked.is_empty() && self.under_way.is_none()
    }
}

impl Consensus {
    /// Whether so many of the voters to come are there and have what the leader has, by their
    /// servers, that they are a quorum.
    fn has_quorum_of(&self, servers: &Servers) -> bool {
        let members = self.members();
        let is_ready = |server: &u8| {
            let mut lives = members.iter().filter(|id| server_of(**id) == *server);
            lives.any(|id| self.is_at_hand(*id))
        };
        servers.ids(Role::Participant).filter(is_ready).count() > servers.voters() / 2
    }

    /// Whether a member can be talked to and has about what the leader has. Whether it was heard of
    /// just now makes no difference: the crate forgets that twice a second.
    fn is_at_hand(&self, member: u64) -> bool {
        member == self.id() || self.has_found(member) && self.has_most_of_log(member)
    }

    /// Whether a participant of the list could vote, and does not.
    fn lacks_vote_of(&self, servers: &Servers) -> bool {
        let voters = self.node.raft.prs().conf().voters();
        let lacks = |id: &u64| {
            servers.is_participant(server_of(*id)) && self.is_at_hand(*id) && !voters.contains(*id)
        };
        self.members().iter().any(lacks)
    }

    /// Whether the members are as a list wants them: whoever votes is one of its participants, or
    /// leads; they are a majority of those, and all of them that are at hand.
    fn has_reached(&self, servers: &Servers) -> bool {
        let raft = &self.node.raft;
        let voters = raft.prs().conf().voters();
        let of_list = |id: &u64| servers.is_participant(server_of(*id));
        let all_wanted = voters.ids().iter().all(|id| of_list(&id) || id == raft.id);
        let wanted = voters.ids().iter().filter(of_list).count();
        !raft.has_pending_conf()
            && all_wanted
            && wanted > servers.voters() / 2
            && !self.lacks_vote_of(servers)
    }

    /// The voter to demote for a list: one that is none of its participants, nor leads, where those
    /// who stay have a quorum without it.
    pub(super) fn due_demotion(&self, servers: &Servers) -> Option<MemberChange> {
        let raft = &self.node.raft;
        let voters: Vec<u64> = raft.prs().conf().voters().ids().iter().collect();
        let is_wanted = |id: u64| servers.is_participant(server_of(id));
        let goes = voters.iter().find(|id| !is_wanted(**id) && **id != raft.id)?;
        let stay: Vec<u64> = voters.iter().copied().filter(|id| id != goes).collect();
        let at_hand = || stay.iter().copied().filter(|id| self.is_at_hand(*id));
        let has_quorum = at_hand().count() > stay.len() / 2
            // Fewer and fewer would be left where the list's own are away.
            && at_hand().filter(|id| is_wanted(*id)).count() > servers.voters() / 2;
        (has_quorum && !self.lacks_vote_of(servers)).then_some(MemberChange::Demote(*goes))
    }
}

impl Requests {
    /// Keeps requests until there is somebody to ask; those for another list wait by themselves.
    pub(super) fn hold(&mut self, submissions: Vec<Submission>) {
        for submission in submissions {
            match is_reconfig(&submission.work) {
                true => self.reconfigs.push(submission),
                false => self.held.push_back((submission, None)),
            }
        }
    }
}

impl<T: Transport> Member<T> {
    /// The list that the ensemble has agreed on, if it has one and this server goes by it.
    #[must_use]
    pub const fn list(&self) -> Option<&ServerList> {
        self.list_change.agreed()
    }

    /// The same, if it is another one than at the last call.
    pub fn take_list(&mut self) -> Option<ServerList> {
        let is_new = std::mem::take(&mut self.list_change.is_new);
        self.list_change.agreed.clone().filter(|_| is_new)
    }

    /// Whether a change is on its way here, or asked for.
    #[must_use]
    pub fn list_is_changing(&self) -> bool {
        !self.list_change.is_idle()
    }

    /// Looks whether there is another list in the tree.
    pub(super) fn see_list(&mut self) {
        let goes_by_it = self.consensus.ensemble.rules.reconfig;
        self.list_change.see(&self.applier.replica.shared(), goes_by_it);
    }

    /// Goes on with what clients ask of the list, as far as that is possible now.
    pub(super) fn go_on_with_list(&mut self, now: Now) -> Result<(), EnsembleError> {
        for submission in std::mem::take(&mut self.requests.reconfigs) {
            self.wait_for_list(submission, now);
        }
        if self.list_change.is_idle() {
            return Ok(());
        }
        self.ask_for_list();
        if !self.requests.is_leading() {
            self.list_change.under_way = None;
            if !self.consensus.leads() {
                self.list_change.asked.clear();
            }
        }
        if self.takes_requests() {
            for (from, (number, asked)) in std::mem::take(&mut self.list_change.asked) {
                if let Some(verdict) = self.decide_list(from, number, &asked) {
                    self.tell_of_list((from, number), verdict);
                }
            }
            self.go_on_as_leader(now)?;
        }
        self.settle_list();
        Ok(())
    }

    /// A client of this member asks for a change.
    fn wait_for_list(&mut self, submission: Submission, now: Now) {
        let Submission { origin, work, len, room } = submission;
        let change = &mut self.list_change;
        // There is one place, and a change at a time.
        if change.waiting.is_some() {
            self.refuse_list(&origin, ErrorCode::ReconfigInProgress);
            return;
        }
        // Above those of an earlier process.
        change.number = (change.number + 1).max(now.wall.0.cast_unsigned() << 16);
        let (number, asked) = (change.number, Forwarded { origin, work, len });
        change.waiting = Some(Waiting { number, asked, room, of: None, verdict: None });
    }

    fn refuse_list(&self, origin: &Origin, error: ErrorCode) {
        let (zxid, here) = (self.applier.replica.applied(), &self.requests.here);
        here.answer(origin, RequestKind::Update, zxid, None, Err(error));
    }

    /// Passes on what a client of this member asks, or lets the client go if whoever was asked
    /// leads no more.
    fn ask_for_list(&mut self) {
        let Self { list_change, requests, transport, consensus, .. } = self;
        let Some(waiting) = &mut list_change.waiting else { return };
        if !requests.here.is_open(waiting.asked.origin.connection) {
            list_change.waiting = None;
            return;
        }
        // What is decided is so, whoever leads now.
        if waiting.verdict.is_some() {
            return;
        }
        let leader = leader_of(requests, consensus);
        match (waiting.of, leader) {
            (None, Some(leader)) => {
                let (number, asked) = (waiting.number, waiting.asked.clone());
                waiting.of = Some(leader);
                if leader.stream.is_none() {
                    list_change.asked.insert(leader.member, (number, asked));
                    return;
                }
                let version = transport.version_with(server_of(leader.member));
                if version.is_some_and(|version| version < SPOKEN) {
                    let error = ErrorCode::ReconfigDisabled;
                    waiting.verdict = Some(Verdict::Refused(Zxid::ZERO, error));
                    return;
                }
                transport.say(leader.member, PeerWord::ChangeList { number, asked });
            }
            (Some(asked), leader) if leader != Some(asked) => {
                waiting.verdict = Some(Verdict::Close);
            }
            _ => {}
        }
    }

    /// Answers the client that waits, if what it asked is decided and its state is here.
    fn settle_list(&mut self) {
        let applied = self.applier.replica.applied();
        let is_due = |waiting: &mut Waiting| match waiting.verdict {
            Some(Verdict::Refused(after, _)) => after <= applied,
            // It would have been answered with it.
            Some(Verdict::Txn(effect)) => effect <= applied,
            Some(_) => true,
            None => false,
        };
        let Some(Waiting { asked, verdict, room, .. }) = self.list_change.waiting.take_if(is_due)
        else {
            return;
        };
        match verdict {
            Some(Verdict::Refused(_, error)) => self.refuse_list(&asked.origin, error),
            _ => self.requests.here.close(asked.origin.connection),
        }
        drop(room);
    }

    /// Tells a member what became of what its client asked.
    fn tell_of_list(&mut self, (asker, number): (u64, u64), verdict: Verdict) {
        if asker == self.consensus.id() {
            self.list_change.decided(asker, number, verdict);
        } else {
            self.transport.say(asker, PeerWord::ListDecided { number, verdict });
        }
    }

    /// As the leader, decides on a request for another list: nothing, if that is on its way from
    /// here on.
    fn decide_list(&mut self, from: u64, number: u64, forwarded: &Forwarded) -> Option<Verdict> {
        let Forwarded { origin, work, .. } = forwarded;
        let is_local = matches!(work, Work::OfLocal(_));
        let Some(request) = reconfig_of(work) else { return Some(Verdict::Close) };
        let Self { consensus, requests, list_change, applier, transport, .. } = self;
        let sequencer = requests.sequencer()?;
        let last = sequencer.last_zxid();
        let refused = |error| Some(Verdict::Refused(last, error));
        let ensemble = &consensus.ensemble;
        if !ensemble.rules.reconfig {
            return refused(ErrorCode::ReconfigDisabled);
        }
        match sequencer.refuses(origin, is_local) {
            Some(Prepared::Refused(error)) => return refused(error),
            Some(_) => return Some(Verdict::Close),
            None => {}
        }
        let database = applier.replica.shared();
        if !database.has_place_for_list() {
            return refused(ErrorCode::Unimplemented);
        }
        let under_way = list_change.under_way.as_ref();
        let (Some(list), None) =
            (&list_change.agreed, under_way.and_then(|under_way| under_way.effect))
        else {
            return refused(ErrorCode::ReconfigInProgress);
        };
        let present = Present {
            list,
            next: under_way.map(|under_way| &under_way.next),
            standalone_enabled: ensemble.standalone_enabled,
        };
        let has_quorum =
            |servers: &Servers| consensus.has_quorum_of(servers) && all_speak(consensus, transport);
        let has_rights = || sequencer.may_change_list(&database, &origin.identities);
        match Asked::read(request, Addresses::One).decide(&present, has_quorum, has_rights) {
            Ok(next) => {
                drop(database);
                let by = (origin.session, origin.xid);
                let under_way = UnderWay { next, asker: Some((from, number)), by, effect: None };
                let before = self.list_change.under_way.replace(under_way);
                if let Some(asker) = before.and_then(|before| before.asker) {
                    let error = ErrorCode::ReconfigInProgress;
                    self.tell_of_list(asker, Verdict::Refused(last, error));
                }
                None
            }
            Err(error) => {
                let code = error.code();
                tracing::debug!(%error, code = code.code(), "a change of the list was refused");
                refused(code)
            }
        }
    }

    /// As the leader, goes on with the change that is on its way.
    fn go_on_as_leader(&mut self, now: Now) -> Result<(), EnsembleError> {
        let Some(under_way) = &self.list_change.under_way else { return Ok(()) };
        if under_way.effect.is_some() {
            return Ok(());
        }
        if self.consensus.has_reached(&under_way.next) {
            let (next, by, asker) = (under_way.next.clone(), under_way.by, under_way.asker);
            let effect = self.write_list(next, by, now)?;
            if let Some(under_way) = &mut self.list_change.under_way {
                under_way.effect = effect;
            }
            if let (Some(asker), Some(effect)) = (asker, effect) {
                self.tell_of_list(asker, Verdict::Txn(effect));
            }
            return Ok(());
        }
        let due = self.consensus.due_change(&Target::List(&under_way.next));
        due.filter(|due| self.can_take(*due)).map_or(Ok(()), |change| self.change(change, now))
    }

    /// Whether every member that is there knows such a change.
    fn can_take(&self, change: MemberChange) -> bool {
        !matches!(change, MemberChange::Demote(_)) || all_speak(&self.consensus, &self.transport)
    }

    /// Proposes to write a list down. Which transaction that is, if it could be.
    fn write_list(
        &mut self,
        servers: Servers,
        by: (SessionId, i32),
        now: Now,
    ) -> Result<Option<Zxid>, EnsembleError> {
        let mut last = || self.requests.sequencer().map(|sequencer| sequencer.last_zxid());
        let before = last();
        tracing::info!(servers = servers.voters(), "writing down another list of servers");
        self.do_at_once(Chore::SetList { servers, by }, now)?;
        let after = self.requests.sequencer().map(|sequencer| sequencer.last_zxid());
        Ok(after.filter(|_| after > before))
    }

    /// As a leader, makes the members follow the list that counts: what the ensemble has agreed on,
    /// or else this server's own. `voters` are those of its own that may vote, `listed` all of it.
    ///
    /// # Errors
    /// When a decided transaction gets no place.
    pub fn follow_list(
        &mut self,
        voters: &[u8],
        listed: &[u8],
        now: Now,
    ) -> Result<(), EnsembleError> {
        self.lists.tell(listed, self.requests.following.as_ref(), &mut self.transport);
        if !self.takes_requests() {
            return Ok(());
        }
        let target = self.list_change.target();
        let target = target.map_or(Target::Own(voters), Target::List);
        if let Some(change) = self.consensus.due_change(&target) {
            return if self.can_take(change) { self.change(change, now) } else { Ok(()) };
        }
        if self.consensus.node.raft.has_pending_conf() || !self.turns.has_led(LISTEN_TICKS) {
            return Ok(());
        }
        if self.list_change.under_way.is_some() {
            return Ok(());
        }
        if self.list_change.agreed.is_none() {
            return match self.lists.listed_no_more(listed, &self.consensus) {
                Some(member) => self.change(MemberChange::Remove(member), now),
                None => self.write_first_list(listed, now),
            };
        }
        self.leave_to_participants();
        Ok(())
    }

    /// Writes down this server's own list where the ensemble has none: when the voters that are
    /// there are a majority, and each lists the same servers.
    fn write_first_list(&mut self, listed: &[u8], now: Now) -> Result<(), EnsembleError> {
        let ensemble = &self.consensus.ensemble;
        let Some(own) = ensemble.list.as_ref().filter(|_| ensemble.rules.reconfig) else {
            return Ok(());
        };
        if !self.applier.replica.shared().has_place_for_list() || !own.list.servers.are_reached() {
            return Ok(());
        }
        let voters: Vec<u64> =
            self.consensus.node.raft.prs().conf().voters().ids().iter().collect();
        let there = || {
            let is_there =
                |id: &&u64| **id == self.consensus.id() || self.consensus.has_found(**id);
            voters.iter().filter(is_there)
        };
        let agrees = |id: &u64| {
            let speaks = self.transport.version_with(server_of(*id)) >= Some(SPOKEN);
            *id == self.consensus.id() || speaks && self.lists.is_same(*id, listed)
        };
        if there().count() <= voters.len() / 2 || !there().all(agrees) {
            return Ok(());
        }
        let (next, by) = (own.list.servers.clone(), (SessionId::NONE, 0));
        let effect = self.write_list(next.clone(), by, now)?;
        if effect.is_some() {
            self.list_change.under_way = Some(UnderWay { next, asker: None, by, effect });
        }
        Ok(())
    }

    /// A leader that is none of the list's participants hands over to one of them: after that it
    /// votes no more.
    fn leave_to_participants(&mut self) {
        let Some(ServerList { servers, .. }) = &self.list_change.agreed else { return };
        let is_wanted = |id: u64| servers.is_participant(server_of(id));
        if is_wanted(self.consensus.id()) {
            return;
        }
        let to = self.consensus.best_to_lead(&[], &self.rooms);
        if let Some(to) = to.filter(|to| is_wanted(*to) && self.consensus.is_at_hand(*to)) {
            let server = server_of(to);
            tracing::info!(
                to = server,
                "handing over leadership: the list has this server not as \
                a participant"
            );
            self.consensus.hand_over(to);
        }
    }
}

/// Who leads and can be asked.
fn leader_of(requests: &Requests, consensus: &Consensus) -> Option<Leader> {
    if let Some(leading) = &requests.leading {
        return Some(Leader { member: consensus.id(), term: leading.term(), stream: None });
    }
    let following = requests.following.as_ref().filter(|its| !its.is_leaving())?;
    let (member, term) = (following.leader(), following.term());
    Some(Leader { member, term, stream: Some(following.stream()) })
}

/// Whether every other member that is there speaks what a change of the list needs.
fn all_speak(consensus: &Consensus, transport: &impl Transport) -> bool {
    let members = consensus.members().into_iter();
    let mut there = members.filter(|id| *id != consensus.id() && consensus.has_found(*id));
    there.all(|id| transport.version_with(server_of(id)) >= Some(SPOKEN))
}

/// What a request for another list asks.
fn reconfig_of(work: &Work) -> Option<&ReconfigRequest<'static>> {
    match work {
        Work::Request(Request::Reconfig(request)) | Work::OfLocal(Request::Reconfig(request)) => {
            Some(request)
        }
        _ => None,
    }
}

/// Whether it asks for another list.
fn is_reconfig(work: &Work) -> bool {
    reconfig_of(work).is_some()
}
