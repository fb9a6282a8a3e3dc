//! What a member decides as the leader, and passes on to another one that leads.

use std::iter;

use jute::txn::TxnRecord;

use super::EnsembleError;
use super::configuration::MemberChange;
use super::consensus::Consensus;
use super::member::{Member, Transport};
use crate::engine::decide::request::Chore;
use crate::engine::time::Now;
use crate::ensemble::disk_room::DiskSpace;
use crate::ensemble::queue::Submission;

impl Consensus {
    /// Puts a transaction into the log. Gives its length.
    fn propose(&mut self, record: &TxnRecord<'static>) -> Result<usize, raft::Error> {
        let mut data = Vec::new();
        record.encode(&mut data);
        let len = data.len();
        let proposed = match MemberChange::of(record) {
            // Whoever applies it knows the index; until then, only that it is a change counts.
            Some(change) => self.node.propose_conf_change(data, change.to_conf_change(0)),
            None => self.node.propose(Vec::new(), data),
        };
        proposed.map(|()| len)
    }
}

impl<T: Transport> Member<T> {
    /// Whether this member leads and decides at once what it is asked.
    #[must_use]
    pub fn takes_requests(&self) -> bool {
        let numbers = self.consensus.ensemble.zxids_a_term;
        self.consensus.may_propose()
            && self.rooms.to_decide(&self.consensus) < DiskSpace::Full
            && self.requests.can_decide(self.consensus.term(), numbers)
            && !self.has_wrong_tree()
    }

    /// Whether another turn is due at once: not all was applied or, by a leader, decided that could
    /// be.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.consensus.is_behind && !self.consensus.has_ended || self.has_more_to_decide()
    }

    fn has_more_to_decide(&self) -> bool {
        self.requests.has_more_to_decide() && self.takes_requests()
    }

    /// Sessions to close of which only ephemeral znodes are left, if this member leads and there is
    /// room for that.
    pub fn orphans(&mut self) -> Vec<Chore> {
        if self.rooms.to_decide(&self.consensus) >= DiskSpace::Least {
            return Vec::new();
        }
        self.requests.orphans()
    }

    /// Decides something small that the server itself wants before anything else.
    pub(super) fn do_at_once(&mut self, chore: Chore, now: Now) -> Result<(), EnsembleError> {
        if self.takes_requests() {
            self.decide(&mut iter::once(chore), &mut iter::empty(), 1, now)?;
        }
        Ok(())
    }

    /// Has whoever leads decide what waits, as a leader up to what a turn may.
    pub(super) fn pass_on(&mut self, now: Now) -> Result<(), EnsembleError> {
        self.requests.follow(&self.consensus, now);
        self.requests.drop_closed();
        if self.has_more_to_decide() && self.requests.turn_left > 0 {
            self.decide_some(now)?;
        }
        let passes_on = self.requests.has_more_to_pass_on();
        if passes_on && self.takes_requests() {
            return Ok(());
        }
        if self.consensus.leader() != self.consensus.id() {
            self.requests.refuse_held(&mut self.transport);
        }
        match passes_on {
            true => self.requests.ask_leader(&self.applier, &mut self.transport),
            false => self.requests.settle(&self.applier),
        }
    }

    /// Decides what waits, as much as this turn may still.
    fn decide_some(&mut self, now: Now) -> Result<(), EnsembleError> {
        let bytes_max = self.consensus.unsynced.room().min(self.requests.turn_left);
        let mut waiting = self.requests.take_waiting();
        let (mut chores, mut requests) = waiting.each();
        let bytes = self.decide(&mut chores, &mut requests, bytes_max, now)?;
        drop((chores, requests));
        self.requests.give_back(waiting, bytes);
        Ok(())
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
        let Self { consensus, requests, rooms, applier, transport, .. } = self;
        let Some(leading) = &mut requests.leading else { return Ok(0) };
        leading.room = rooms.to_decide(consensus).max(applier.replica.memory_room());
        let (decided, bytes) = leading.decide(
            &applier.replica,
            chores,
            submissions,
            now,
            bytes_max,
            &mut requests.rounds,
            |record| consensus.propose(record),
        )?;
        requests.tell_decided(decided, transport);
        requests.finish_settled(applier)?;
        Ok(bytes)
    }
}
