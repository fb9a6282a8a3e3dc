//! Who belongs to the ensemble, and how that changes: one member at a time, each change a record of the log. When a server
//! that is listed no more goes is in [`super::lists`].
//!
//! A server whose disk was emptied comes back as another member: what it promised before is gone with the disk, so
//! nothing of it may be counted on. It follows first; once it has what the leader has, its earlier life is taken out of the
//! ensemble, and then it votes. Until then the leader's list has both, so that no number is given twice.

use std::collections::BTreeSet;

use jute::txn::{Txn, TxnRecord};
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};

use super::disk::{What, Write};
use super::ready::{Member, Transport};
use super::{EnsembleError, member_id, server_of};
use crate::engine::request::Chore;
use crate::engine::time::Now;
use crate::ensemble::founding::Seat;
use crate::storage::Members;

/// Entries that one who catches up may lack to be a voter.
const LAG_MAX: u64 = 1000;

/// A change of the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// One that only follows.
    AddLearner(u64),
    /// One that votes, which may have followed before.
    AddVoter(u64),
    Remove(u64),
}

impl Change {
    /// The change that a record of this kind writes down.
    pub(super) fn of(record: &TxnRecord<'_>) -> Option<Self> {
        let member = record.header.client_id.cast_unsigned();
        match record.txn {
            Txn::Error(1) => Some(Self::AddLearner(member)),
            Txn::Error(2) => Some(Self::AddVoter(member)),
            Txn::Error(3) => Some(Self::Remove(member)),
            _ => None,
        }
    }

    const fn chore(self) -> Chore {
        let (member, code) = match self {
            Self::AddLearner(member) => (member, 1),
            Self::AddVoter(member) => (member, 2),
            Self::Remove(member) => (member, 3),
        };
        Chore::Remark { of: member.cast_signed(), code }
    }

    /// As the crate wants it.
    pub(super) fn to_conf_change(self) -> ConfChangeV2 {
        let (change_type, node_id) = match self {
            Self::AddLearner(member) => (ConfChangeType::AddLearnerNode, member),
            Self::AddVoter(member) => (ConfChangeType::AddNode, member),
            Self::Remove(member) => (ConfChangeType::RemoveNode, member),
        };
        let change = ConfChangeSingle { change_type, node_id, ..ConfChangeSingle::default() };
        ConfChangeV2 { changes: vec![change].into(), ..ConfChangeV2::default() }
    }
}

impl<T: Transport> Member<T> {
    /// The ids of all members.
    #[must_use]
    pub fn members(&self) -> Vec<u64> {
        let mut members: Vec<u64> = self.node.raft.prs().iter().map(|(id, _)| *id).collect();
        members.sort_unstable();
        members
    }

    /// Gives a server that has no disk of before a place: the id of its next life. It can be used once
    /// [`Self::take_seat`] has it.
    ///
    /// # Errors
    /// When a decided transaction gets no place.
    pub fn prepare_seat(&mut self, server: u8, now: Now) -> Result<Option<u64>, EnsembleError> {
        if !self.takes_requests() || self.node.raft.has_pending_conf() {
            return Ok(None);
        }
        let lives = self.members().into_iter().filter(|member| server_of(*member) == server);
        let last = lives.max().map_or(0, life_of);
        let id = member_id(server, last + 1);
        self.change(Change::AddLearner(id), now)?;
        Ok(Some(id))
    }

    /// What the server has to know to be the member `id`, if it is one by now.
    #[must_use]
    pub fn take_seat(&self, id: u64) -> Option<Seat> {
        let promises = &self.node.store().promises;
        let members = promises.members.clone();
        let is_there = members.learners.contains(&id) || members.voters.contains(&id);
        let seat = Seat { id, ensemble: promises.ensemble, term: self.node.raft.term, members };
        is_there.then_some(seat)
    }

    /// As a leader, goes on with the change that is due, if there is one: earlier lives go, and who has caught up votes.
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
            // Its last life counts until this one can take its place. A seat that nobody took is in nobody's way.
            let current =
                lives.clone().filter(|id| !wants_vote || self.has_caught_up(*id)).max()?;
            let earlier = lives.min().filter(|earlier| *earlier < current);
            let is_voter = raft.prs().conf().voters().contains(current);
            let vote = (wants_vote && !is_voter).then_some(Change::AddVoter(current));
            earlier.map(Change::Remove).or(vote)
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

    /// Takes a change that is final, as the entry `index`.
    pub(super) fn changed(
        &mut self,
        change: Change,
        index: u64,
        now: Now,
    ) -> Result<(), EnsembleError> {
        let members = self.node.apply_conf_change(&change.to_conf_change())?;
        let members = self.node.mut_store().members(&members, index);
        self.unsynced.write_aside(Write(What::Members(members)), now.monotonic);
        if change == Change::Remove(self.id()) {
            return Err(EnsembleError::Replaced { life: life_of(self.id()) });
        }
        Ok(())
    }
}

/// Which life of its server a member is.
pub(super) const fn life_of(member: u64) -> u32 {
    (member >> 8) as u32
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
