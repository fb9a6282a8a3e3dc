//! Who belongs to the ensemble, and how that changes: one member at a time, each change a record of the log. When a server
//! that is listed no more goes is in [`super::lists`].
//!
//! A server whose disk was emptied comes back as another member: what it promised before is gone with the disk, so
//! nothing of it may be counted on. It follows first; once it has what the leader has, its earlier life is taken out of the
//! ensemble, and then it votes.
//!
//! The record of a seat says only whose it is: the index of its entry is the life, so no id is given twice, whoever leads.

use std::collections::BTreeSet;

use jute::txn::{Txn, TxnRecord};
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};

use super::disk::{What, Write};
use super::ready::{Member, Transport};
use super::{EnsembleError, life_of, member_id, server_of};
use crate::engine::request::Chore;
use crate::engine::time::Now;
use crate::ensemble::founding::Seat;
use crate::message::MessageId;
use crate::storage::{Members, RaftState as Promises};

/// Entries that one who catches up may lack to be a voter.
const LAG_MAX: u64 = 1000;
/// Members, with all their lives. A seat beyond it is not given, and would be nothing: what a disk can hold is more.
const MEMBERS_MAX: usize = 256;

/// A change of the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// A server gets a life that only follows.
    Seat(u8),
    /// The same with an id that was counted up, in logs of before lives were numbered by the log; never proposed.
    Follow(u64),
    /// A member that has followed votes.
    Vote(u64),
    Remove(u64),
}

/// What a server that wants a seat can expect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prospect {
    /// It will have a life above this; [`Member::take_seat`] has it when it is there.
    SeatAbove(u64),
    /// It is to ask again: this member does not lead, or another change has to come first.
    Later,
    /// Not before others have gone.
    Full,
}

impl Change {
    /// The change that a record of this kind writes down.
    pub(super) fn of(record: &TxnRecord<'_>) -> Option<Self> {
        let of = record.header.client_id.cast_unsigned();
        match record.txn {
            Txn::Error(1) => Some(Self::Follow(of)),
            Txn::Error(2) => Some(Self::Vote(of)),
            Txn::Error(3) => Some(Self::Remove(of)),
            Txn::Error(4) => u8::try_from(of).ok().map(Self::Seat),
            _ => None,
        }
    }

    fn chore(self) -> Chore {
        let (of, code) = match self {
            Self::Follow(member) => (member, 1),
            Self::Vote(member) => (member, 2),
            Self::Remove(member) => (member, 3),
            Self::Seat(server) => (server.into(), 4),
        };
        Chore::Remark { of: of.cast_signed(), code }
    }

    /// As the crate wants it, of the entry `index`.
    pub(super) fn to_conf_change(self, index: u64) -> ConfChangeV2 {
        let (change_type, node_id) = match self {
            Self::Seat(server) => (ConfChangeType::AddLearnerNode, member_id(server, index)),
            Self::Follow(member) => (ConfChangeType::AddLearnerNode, member),
            Self::Vote(member) => (ConfChangeType::AddNode, member),
            Self::Remove(member) => (ConfChangeType::RemoveNode, member),
        };
        let change = ConfChangeSingle { change_type, node_id, ..ConfChangeSingle::default() };
        ConfChangeV2 { changes: vec![change].into(), ..ConfChangeV2::default() }
    }
}

/// Who belongs to the ensemble, as a member knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownMembers {
    ids: Vec<u64>,
    /// The entry that made them so.
    configured_at: u64,
}

impl KnownMembers {
    /// Whether a member of this id was there and is no more. Who has joined later than is known here has not.
    #[must_use]
    pub fn has_removed(&self, id: u64) -> bool {
        life_of(id) <= self.configured_at && !self.ids.contains(&id)
    }
}

impl<T: Transport> Member<T> {
    /// Who belongs to the ensemble as of what is applied here.
    #[must_use]
    pub fn known(&self) -> KnownMembers {
        let configured_at = self.node.store().promises.configured_at;
        KnownMembers { ids: self.members(), configured_at }
    }

    /// The ids of all members.
    #[must_use]
    pub fn members(&self) -> Vec<u64> {
        let mut members: Vec<u64> = self.node.raft.prs().iter().map(|(id, _)| *id).collect();
        members.sort_unstable();
        members
    }

    /// Has a server without a disk of before get a life that follows, behind what has to go for it. Its earliest life stays:
    /// the start without a disk may have been a mistake.
    ///
    /// # Errors
    /// When a decided transaction gets no place.
    pub fn prepare_seat(&mut self, server: u8, now: Now) -> Result<Prospect, EnsembleError> {
        let members = self.members();
        let is_its = |member: &&u64| server_of(**member) == server;
        let speaks = members.iter().filter(is_its).any(|member| self.found.contains(member));
        // Whoever asks may be the second of two that run with the same myid: the first keeps its place.
        if !self.takes_requests() || self.node.raft.has_pending_conf() || speaks {
            return Ok(Prospect::Later);
        }
        let learners = &self.node.store().promises.members.learners;
        // They are in ascending order, and so are its lives.
        if let Some(unused) = members.iter().filter(is_its).skip(1).find(|id| learners.contains(id))
        {
            self.change(Change::Remove(*unused), now)?;
            return Ok(Prospect::Later);
        }
        if members.len() >= MEMBERS_MAX {
            return Ok(Prospect::Full);
        }
        let above = self.last_index();
        self.change(Change::Seat(server), now)?;
        Ok(Prospect::SeatAbove(above))
    }

    /// What the server has to know to be the member that it became above this life, if it has by now.
    #[must_use]
    pub fn take_seat(&self, server: u8, above: u64) -> Option<Seat> {
        let promises = &self.node.store().promises;
        let is_it = |id: &&u64| server_of(**id) == server && life_of(**id) > above;
        let id = *promises.members.learners.iter().find(is_it)?;
        let Promises { ensemble, ref members, configured_at, .. } = *promises;
        let (term, members) = (self.node.raft.term, members.clone());
        Some(Seat { id, ensemble, term, members, configured_at })
    }

    /// As a leader, goes on with the change that is due, if there is one: earlier lives go, who has caught up votes, and
    /// where a life is there, a later one that its server left unused goes.
    /// `may_vote` tells of which server that is wanted.
    ///
    /// # Errors
    /// When a decided transaction gets no place.
    pub fn mend(&mut self, may_vote: impl Fn(u8) -> bool, now: Now) -> Result<(), EnsembleError> {
        if !self.takes_requests() || self.node.raft.has_pending_conf() {
            return Ok(());
        }
        let due = self.due_change(may_vote);
        due.map_or(Ok(()), |change| self.change(change, now))
    }

    fn due_change(&self, may_vote: impl Fn(u8) -> bool) -> Option<Change> {
        let raft = &self.node.raft;
        let members = self.members();
        let servers: BTreeSet<u8> = members.iter().map(|id| server_of(*id)).collect();
        servers.into_iter().find_map(|server| {
            let wants_vote = may_vote(server);
            let lives = members.iter().copied().filter(|id| server_of(*id) == server);
            // The last of them that can take the place of the others. A seat that nobody took is in nobody's way.
            let current = lives.clone().filter(|id| self.has_caught_up(*id)).max()?;
            let earlier = lives.clone().min().filter(|earlier| *earlier < current);
            let is_voter = raft.prs().conf().voters().contains(current);
            let is_there = current == raft.id || self.found.contains(&current);
            let unused = lives.max().filter(|later| *later > current && is_there);
            let vote = (wants_vote && !is_voter).then_some(Change::Vote(current));
            earlier.or(unused).map(Change::Remove).or(vote)
        })
    }

    /// Whether a member that was heard of lately has about what the leader has.
    pub(super) fn has_caught_up(&self, member: u64) -> bool {
        let raft = &self.node.raft;
        raft.prs().get(member).is_some_and(|progress| {
            progress.recent_active
                && progress.matched > 0
                && progress.matched + LAG_MAX >= raft.raft_log.committed
        })
    }

    pub(super) fn change(&mut self, change: Change, now: Now) -> Result<(), EnsembleError> {
        tracing::info!(?change, "changing the members of the ensemble");
        self.do_at_once(change.chore(), now)
    }

    /// Whether the members as they are cannot be changed so.
    fn is_void(&self, change: Change) -> bool {
        let Members { voters, learners, .. } = &self.node.store().promises.members;
        match change {
            Change::Seat(_) | Change::Follow(_) => voters.len() + learners.len() >= MEMBERS_MAX,
            Change::Vote(member) => !voters.contains(&member) && !learners.contains(&member),
            Change::Remove(member) => *voters == [member],
        }
    }

    /// Takes a change that is final, as the entry `index`.
    pub(super) fn changed(
        &mut self,
        change: Change,
        index: u64,
        now: Now,
    ) -> Result<(), EnsembleError> {
        let store = self.node.store();
        // What the configuration shows already is history: it came with a snapshot that does not show it.
        if index <= store.promises.configured_at {
            return Ok(());
        }
        // The same for all who apply it.
        if self.is_void(change) {
            tracing::warn!(
                id = %MessageId::CHANGE_OF_MEMBERS_VOID,
                index,
                ?change,
                "a committed change of the members is not possible; it is passed over"
            );
            return Ok(());
        }
        let members = self.node.apply_conf_change(&change.to_conf_change(index))?;
        let members = self.node.mut_store().members(&members, index);
        self.unsynced.write_aside(Write(What::Members(members)), now.monotonic);
        if change == Change::Remove(self.id()) {
            return Err(EnsembleError::Replaced { life: life_of(self.id()) });
        }
        Ok(())
    }
}

pub(super) fn to_conf_state(members: &Members) -> ConfState {
    ConfState {
        voters: members.voters.clone(),
        learners: members.learners.clone(),
        voters_outgoing: members.voters_outgoing.clone(),
        learners_next: members.learners_next.clone(),
        auto_leave: members.auto_leave,
        ..ConfState::default()
    }
}

pub(super) fn from_conf_state(state: &ConfState) -> Members {
    Members {
        voters: state.voters.clone(),
        learners: state.learners.clone(),
        voters_outgoing: state.voters_outgoing.clone(),
        learners_next: state.learners_next.clone(),
        auto_leave: state.auto_leave,
    }
}

/// The same in ascending order: the crate has sets, whose order is another one each time.
pub(super) fn in_order(state: &ConfState) -> Members {
    let mut members = from_conf_state(state);
    members.voters.sort_unstable();
    members.learners.sort_unstable();
    members.voters_outgoing.sort_unstable();
    members.learners_next.sort_unstable();
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_removed_can_be_told_from_who_is_not_known_yet() {
        let known = |configured_at| KnownMembers { ids: vec![0x101, 0x103, 0x902], configured_at };
        for (id, configured_at, is_removed) in [
            (0x101, 40, false),
            // Its server has another life since then, or none.
            (0x102, 40, true),
            (0x104, 40, true),
            (0x902, 40, false),
            (0x2802, 40, true),
            (0x2902, 40, false),
            // As it was founded.
            (0x102, 0, false),
        ] {
            let known = known(configured_at);
            assert_eq!(known.has_removed(id), is_removed, "{id:#x} as of {configured_at}");
        }
    }
}
