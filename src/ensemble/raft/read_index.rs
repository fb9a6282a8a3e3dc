//! Rounds of the ensemble that show who leads: everything that was acknowledged when a round began is known behind it.
//!
//! A leader that was cut off does not know it yet, and would answer a `sync` with what was, or refuse a write for what is
//! no more. So whoever answers, leader or follower, has the leader heard by a quorum first: one round for all that wait, and
//! the next one for those who came after it had begun. (ZooKeeper has a quorum log what it refuses.)

use raft::ReadState;

use super::EnsembleError;
use super::ready::{Member, Transport};
use crate::engine::time::Now;

/// Ticks without an answer before a round is asked for again: a word of it may be lost.
const PATIENCE_TICKS: u32 = 4;

/// A round: what asks to be answered behind it. Rounds count up; 0 has always been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Round(u64);

impl Round {
    /// Behind all others.
    pub(super) const MAX: Self = Self(u64::MAX);
}

/// The rounds of a member.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The last one that somebody waits for.
    wanted: Round,
    /// The last one that is over.
    done: Round,
    open: Option<Open>,
}

/// The round on its way.
#[derive(Debug)]
struct Open {
    round: Round,
    /// What nobody else has asked with, nor this member in another life.
    name: Vec<u8>,
    waited_ticks: u32,
    /// The entry that has to be applied, once that is known.
    index: Option<u64>,
}

impl Rounds {
    /// The round behind which a request of now may be answered.
    pub(super) fn next(&mut self) -> Round {
        let last = self.open.as_ref().map_or(self.done, |open| open.round);
        self.wanted = Round(last.0 + 1);
        self.wanted
    }

    /// The last round that is over.
    pub(super) const fn done(&self) -> Round {
        self.done
    }

    fn begin(&mut self, id: u64, now: Now) -> Option<Vec<u8>> {
        if self.open.is_some() || self.wanted <= self.done {
            return None;
        }
        let round = self.wanted;
        let numbers = [id, now.wall.0.cast_unsigned(), round.0];
        let name: Vec<u8> = numbers.into_iter().flat_map(u64::to_be_bytes).collect();
        self.open = Some(Open { round, name: name.clone(), waited_ticks: 0, index: None });
        Some(name)
    }

    /// A tick passed. The round to ask for once more.
    pub(super) fn tick(&mut self) -> Option<Vec<u8>> {
        let open = self.open.as_mut().filter(|open| open.index.is_none())?;
        open.waited_ticks += 1;
        open.waited_ticks.is_multiple_of(PATIENCE_TICKS).then(|| open.name.clone())
    }

    pub(super) fn answered(&mut self, states: Vec<ReadState>) {
        let Some(open) = &mut self.open else { return };
        if let Some(state) = states.into_iter().find(|state| state.request_ctx == open.name) {
            open.index = Some(state.index);
        }
    }

    /// Ends the round that is answered, if what was final then is applied.
    fn end(&mut self, applied: u64) -> bool {
        let is_over = |open: &mut Open| open.index.is_some_and(|index| index <= applied);
        let ended = self.open.take_if(is_over);
        if let Some(Open { round, .. }) = &ended {
            self.done = *round;
        }
        ended.is_some()
    }
}

impl<T: Transport> Member<T> {
    /// Answers what waited for a round that is over, and begins the next one that is wanted.
    pub(super) fn go_round(&mut self, now: Now) -> Result<(), EnsembleError> {
        if self.rounds.end(self.applied()) {
            let Self { leading, applier, rounds, .. } = self;
            if let Some(leading) = leading {
                applier.under_hold(|applying| leading.finish_settled(applying, rounds.done()))?;
            }
            self.settle()?;
        }
        if let Some(name) = self.rounds.begin(self.id(), now) {
            self.node.read_index(name);
        }
        Ok(())
    }
}
