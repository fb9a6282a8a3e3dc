//! Who belongs to the ensemble, and how that changes: one member at a time, each change a record of
//! the log. When a server that is listed no more goes is in [`super::lists`].
//!
//! A server whose disk was emptied comes back as another member: what it promised before is gone
//! with the disk, so nothing of it may be counted on. It follows first; once it has what the leader
//! has, its earlier life is taken out of the ensemble, and then it votes.
//!
//! The record of a seat says only whose it is, and which member that was before: the index of its
//! entry is the life, so no id is given twice, whoever leads.

use std::collections::BTreeSet;

use jute::txn::TxnRecord;

use super::configuration::{KnownMembers, MEMBERS_MAX, MemberChange, in_order};
use super::consensus::Consensus;
use super::disk::{What, Write};
use super::ground::of_line;
use super::member::{Member, Transport};
use super::{EnsembleError, FIRST_LIFE, life_of, server_of};
use crate::engine::time::{Monotonic, Now};
use crate::ensemble::founding::{Applicant, Founding, LastRecord, Seat};
use crate::ensemble::standing::has_begun;
use crate::list::Servers;
use crate::message::MessageId;
use crate::storage::{Over, RaftState as Promises};

/// Entries that one who catches up may lack to be a voter.
const LAG_MAX: u64 = 1000;
/// The time from one unused seat that is taken out because its server asks for another one to the
/// next such seat of any server.
const SEAT_PAUSE_MS: u64 = 1000;

/// The servers that the members are to follow.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target<'a> {
    /// By this server's own list: those that vote. Who is to go is not said by it alone.
    Own(&'a [u8]),
    /// By a list that the ensemble has agreed on, or is to.
    List(&'a Servers),
}

impl Target<'_> {
    fn wants_vote(&self, server: u8) -> bool {
        match self {
            Self::Own(voters) => voters.contains(&server),
            Self::List(servers) => servers.is_participant(server),
        }
    }
}

/// What a server that wants a seat can expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ensemble) enum Prospect {
    /// It will have a life above this; [`Consensus::take_seat`] has it when it is there.
    SeatAbove(u64),
    /// It is to ask again, and perhaps another one: this member does not lead.
    Later,
    /// It is to ask again: another change has to come first.
    Changing,
    /// Not as long as this server speaks as a member.
    Speaks,
    /// Not before others have gone.
    Full,
    /// Not with this directory: another one of the same server may be this member's.
    Taken(u64),
    /// Not with what it holds: this member's log does not show that the ensemble has it.
    Lacking,
}

impl Consensus {
    /// Who belongs to the ensemble as of what is applied here.
    #[must_use]
    pub fn known(&self) -> KnownMembers {
        let store = self.node.store();
        let durable = self.durable();
        let last = store.log.zxid(durable).filter(|last| *last > store.promises.own.1);
        // What is on its way to the disk has not come.
        let promises = Promises { commit: durable, ..store.promises.clone() };
        let of = of_line(&promises, last.unwrap_or(0)).of;
        KnownMembers::new(self.members(), promises.configured_at, of)
    }

    /// The ids of all members.
    #[must_use]
    pub fn members(&self) -> Vec<u64> {
        let mut members: Vec<u64> = self.node.raft.prs().iter().map(|(id, _)| *id).collect();
        members.sort_unstable();
        members
    }

    /// What a server without a disk of before can expect, and the change that is to be made for it
    /// at once: it gets a life that follows, after what has to go for it.
    /// Its earliest life stays: the start without a disk may have been a mistake.
    pub(super) fn prospect(
        &mut self,
        applicant: Applicant,
        now: Monotonic,
    ) -> (Prospect, Option<MemberChange>) {
        let not = |prospect| (prospect, None);
        let Applicant { server, was, ends_with } = applicant;
        let members = self.members();
        let is_its = |member: &&u64| server_of(**member) == server;
        let speaks = members.iter().filter(is_its).any(|member| self.found.contains(member));
        // Whoever asks may be the second of two that run with the same myid: the first keeps its
        // place.
        if speaks {
            return not(Prospect::Speaks);
        }
        if let Some(record) = ends_with
            && let Some(not_with_it) = self.lacks(record)
        {
            return not(not_with_it);
        }
        if self.node.raft.has_pending_conf() {
            return not(Prospect::Changing);
        }
        let asks = was.map_or(0, life_of) << 8 | u64::from(server);
        // With that one it may come back at any time, which is then the right one. Of what an
        // earlier leader gave, this one does not know whether somebody took it; but the directory
        // that it was given for has not, or it would not ask as before.
        let has_been = |id: &&u64| {
            let raft = &self.node.raft;
            let is_of_own_term = life_of(**id) > FIRST_LIFE
                && raft.raft_log.term(life_of(**id)).is_ok_and(|term| term == raft.term);
            raft.prs().conf().voters().contains(**id)
                || raft.prs().get(**id).is_some_and(|progress| progress.matched > 0)
                // The log is read last: whoever asks may not have the disk read for nothing.
                || !(is_of_own_term || self.was_given(**id) == Some(asks))
        };
        if was.is_some()
            && let Some(taken) = members.iter().filter(is_its).find(has_been)
        {
            return not(Prospect::Taken(*taken));
        }
        let learners = &self.node.store().promises.members.learners;
        // They are in ascending order, and so are its lives.
        if let Some(unused) = members.iter().filter(is_its).skip(1).find(|id| learners.contains(id))
        {
            // Whoever asks again and again would have the log changed each time.
            let is_soon = |last: Monotonic| now.since(last) < SEAT_PAUSE_MS;
            if !self.unused_seat_taken_out.is_some_and(is_soon) {
                self.unused_seat_taken_out = Some(now);
                return (Prospect::Changing, Some(MemberChange::Remove(*unused)));
            }
            return not(Prospect::Changing);
        }
        if members.len() >= MEMBERS_MAX {
            return not(Prospect::Full);
        }
        let above = self.last_index();
        (Prospect::SeatAbove(above), Some(MemberChange::Seat(asks)))
    }

    /// What whoever holds nothing after this record can expect, if that is not known to be final
    /// here. A leader has all that may become final; what its log goes on after is not known any
    /// more, and another record may have the same zxid.
    fn lacks(&self, record: LastRecord) -> Option<Prospect> {
        let log = &self.node.store().log;
        let (mut low, mut high) = (log.first_index(), log.last_index().saturating_add(1));
        while low < high {
            let middle = low.midpoint(high);
            match log.zxid(middle) {
                Some(zxid) if zxid < record.zxid => low = middle + 1,
                Some(_) => high = middle,
                None => return Some(Prospect::Lacking),
            }
        }
        let entries = log.entries(low, low.saturating_add(1), u64::MAX).ok().flatten();
        let entry = entries.and_then(|mut entries| entries.pop());
        let found = entry.as_ref().and_then(|entry| TxnRecord::decode(&entry.payload).ok());
        match found.map(|(found, _)| LastRecord::of(found)) == Some(record) {
            false => Some(Prospect::Lacking),
            true if low > self.node.raft.raft_log.committed => Some(Prospect::Later),
            true => None,
        }
    }

    /// For whom a seat was given, as far as the log still says so: its server, and above that what
    /// it was before.
    fn was_given(&self, id: u64) -> Option<u64> {
        let index = life_of(id);
        let entries = self.node.store().log.entries(index, index.saturating_add(1), u64::MAX);
        let entry = entries.ok().flatten()?.pop()?;
        let (record, _) = TxnRecord::decode(&entry.payload).ok()?;
        match MemberChange::of(&record)? {
            MemberChange::Seat(asks) => Some(asks),
            MemberChange::Follow(_)
            | MemberChange::Vote(_)
            | MemberChange::Remove(_)
            | MemberChange::Demote(_) => None,
        }
    }

    /// What the server has to know to be the member that it became above this life, if it has by
    /// now.
    #[must_use]
    pub fn take_seat(&self, server: u8, above: u64) -> Option<Seat> {
        let promises = &self.node.store().promises;
        let is_it = |id: &&u64| server_of(**id) == server && life_of(**id) > above;
        let id = *promises.members.learners.iter().find(is_it)?;
        let Promises { ensemble, line, generation, ref members, configured_at, .. } = *promises;
        let (term, members) = (self.node.raft.term, members.clone());
        Some(Seat { id, ensemble, line, generation, term, members, configured_at })
    }

    /// As a leader, the change that is due, if there is one and no other is on its way: earlier
    /// lives go, who has caught up votes, and where a life is there, a later one that its server
    /// left unused goes. When all vote that can, those go whom an agreed list has not as voters.
    pub(super) fn due_change(&self, target: &Target<'_>) -> Option<MemberChange> {
        let raft = &self.node.raft;
        if raft.has_pending_conf() {
            return None;
        }
        let members = self.members();
        let servers: BTreeSet<u8> = members.iter().map(|id| server_of(*id)).collect();
        let due = servers.into_iter().find_map(|server| {
            let wants_vote = target.wants_vote(server);
            let lives = members.iter().copied().filter(|id| server_of(*id) == server);
            // The last of them that can take the place of the others. A seat that nobody took is in
            // nobody's way.
            let current = lives.clone().filter(|id| self.has_caught_up(*id)).max()?;
            let earlier = lives.clone().min().filter(|earlier| *earlier < current);
            let is_voter = raft.prs().conf().voters().contains(current);
            let is_there = current == raft.id || self.found.contains(&current);
            let unused = lives.max().filter(|later| *later > current && is_there);
            let vote = (wants_vote && !is_voter).then_some(MemberChange::Vote(current));
            earlier.or(unused).map(MemberChange::Remove).or(vote)
        });
        due.or_else(|| match target {
            Target::List(servers) => self.due_demotion(servers),
            Target::Own(_) => None,
        })
    }

    /// Whether a member that was heard of lately has about what the leader has.
    pub(super) fn has_caught_up(&self, member: u64) -> bool {
        let progress = self.node.raft.prs().get(member);
        progress.is_some_and(|its| its.recent_active) && self.has_most_of_log(member)
    }

    /// Whether a member has about what the leader has.
    pub(super) fn has_most_of_log(&self, member: u64) -> bool {
        let raft = &self.node.raft;
        raft.prs().get(member).is_some_and(|progress| {
            progress.matched > 0 && progress.matched + LAG_MAX >= raft.raft_log.committed
        })
    }

    /// As the founder: a server has answered whether it belongs to the ensemble. It is not asked
    /// again.
    pub fn answered(&mut self, server: u8, now: Monotonic) {
        let Some(promises) = self.node.mut_store().answered(server) else { return };
        self.unsynced.write_aside(Write(What::Answered(promises)), now);
        self.has_answers = true;
    }

    /// What the founder asks those that have not answered; nothing where nobody is left.
    #[must_use]
    pub fn offer(&self) -> Option<Founding> {
        let promises = &self.node.store().promises;
        (!promises.asks.is_empty()).then(|| Founding::of(promises))
    }

    /// Whether the ensemble may have acknowledged anything, as far as this member knows. It knows
    /// before it acknowledges anything itself.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        has_begun(&self.node.store().promises)
    }

    /// Which servers the founder still asks, by its disk; nothing if that is as before.
    pub fn take_asks(&mut self) -> Option<Vec<u8>> {
        if !self.has_answers || self.unsynced.has_answered() {
            return None;
        }
        self.has_answers = false;
        Some(self.node.store().promises.asks.clone())
    }

    /// Takes a change that is final, as the entry `index`. Whether it takes this member out.
    pub(super) fn changed(
        &mut self,
        change: MemberChange,
        index: u64,
        now: Monotonic,
    ) -> Result<bool, EnsembleError> {
        let promises = &self.node.store().promises;
        // What the members show already is history: they came with a snapshot that does not show
        // it.
        if index <= promises.configured_at {
            return Ok(false);
        }
        let Some(members) = change.applied(&promises.members, index) else {
            tracing::warn!(
                id = %MessageId::CHANGE_OF_MEMBERS_VOID,
                index,
                ?change,
                "a committed change of the members is not possible; it is ignored"
            );
            return Ok(false);
        };
        let crates = self.node.apply_conf_change(&change.to_conf_change(index))?;
        if in_order(&crates) != members {
            return Err(EnsembleError::Members { index });
        }
        let members = self.node.mut_store().members(members, index);
        self.unsynced.write_aside(Write(What::Members(members)), now);
        if let MemberChange::Remove(gone) = change
            && life_of(gone) == FIRST_LIFE
        {
            // What it would belong as is no more.
            self.answered(server_of(gone), now);
        }
        if change == MemberChange::Demote(self.id()) && self.leads() {
            // The crate would let it lead on without a vote.
            let term = self.node.raft.term;
            self.node.raft.become_follower(term, 0);
        }
        Ok(change == MemberChange::Remove(self.id()))
    }
}

impl<T: Transport> Member<T> {
    /// Has a server without a disk of before get a life that follows, after what has to go for it.
    /// Its earliest life stays: the start without a disk may have been a mistake.
    ///
    /// # Errors
    /// When a decided transaction gets no place.
    pub(in crate::ensemble) fn prepare_seat(
        &mut self,
        applicant: Applicant,
        now: Now,
    ) -> Result<Prospect, EnsembleError> {
        if !self.takes_requests() {
            return Ok(Prospect::Later);
        }
        let (prospect, change) = self.consensus.prospect(applicant, now.monotonic);
        if let Some(change) = change {
            self.change(change, now)?;
        }
        Ok(prospect)
    }

    pub(super) fn change(&mut self, change: MemberChange, now: Now) -> Result<(), EnsembleError> {
        tracing::info!(?change, "changing the members of the ensemble");
        self.do_at_once(change.chore(), now)
    }

    /// Takes a change that is final, as the entry `index`.
    pub(super) fn changed(
        &mut self,
        change: MemberChange,
        index: u64,
        now: Now,
    ) -> Result<(), EnsembleError> {
        if self.consensus.changed(change, index, now.monotonic)? {
            self.is_over(Over::Removed, now.monotonic);
        }
        Ok(())
    }
}
