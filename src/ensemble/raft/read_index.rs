//! Rounds of the ensemble that show who leads: everything that was acknowledged when a round began
//! is known after it.
//!
//! A leader that was cut off does not know it yet, and would answer a `sync` with what was, or
//! refuse a write for what is no more. So whoever answers, leader or follower, has the leader heard
//! by a quorum first: one round for all that wait, and the next one for those who came after it had
//! begun. (ZooKeeper has a quorum log what it refuses.)
//!
//! They also say how old the applied state is: a member begins some in each `syncLimit`, and one at
//! once when a read waits. What counts is when that one was begun that was answered. An answer can
//! be as late as any other word, so each has a name and a time of its own, also where it is only
//! asked again.

use std::collections::VecDeque;

use raft::ReadState;

use super::EnsembleError;
use super::consensus::Consensus;
use super::requests::Requests;
use crate::engine::time::{Monotonic, Now};
use crate::ensemble::steps::Applier;

/// Ticks without an answer before the leader is asked again: a word of it may be lost. Each time it
/// is not, it may be far away, and twice as many pass, up to the most.
const PATIENCE_TICKS: u32 = 4;
const PATIENCE_TICKS_MAX: u32 = 64;
/// Rounds whose answers still count, however late they come. Where there are more, only those count
/// that leave no more than a part of the time between the oldest and the newest without one:
/// whoever waits for one that does not waits for the next. Never without the oldest: else none
/// would be over where a way, or applying, takes longer than so many.
const ROUNDS_MAX: usize = 256;
/// That part, as a divisor. From each that stays to the next but one it is more, so half of the
/// most stay.
const KEPT_APART: u64 = ROUNDS_MAX as u64 / 4;
/// Rounds that are begun in the time that a read may be old.
const ROUNDS_A_LIMIT: u64 = 4;

/// A round: what asks to be answered after it. Rounds count up; 0 has always been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Round(u64);

impl Round {
    /// After all others.
    pub(super) const MAX: Self = Self(u64::MAX);
}

/// Who is asked: a term, its leader, and the term of what is applied here. A leader answers nobody
/// before it has committed an entry of its own term.
type RoundOf = (u64, u64, u64);

/// The rounds of a member.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The last one that somebody waits for, that is begun, and that is over.
    wanted: Round,
    begun: Round,
    done: Round,
    /// Those that are begun and not over, oldest first. One does not wait for the one before it.
    open: VecDeque<Open>,
    /// When the last one was begun, and whom it asks.
    began: Option<Monotonic>,
    asked: RoundOf,
    /// Ticks since then, and those after which it is asked again.
    ticks: u32,
    patience: u32,
    /// A read waits for the applied state to be young enough.
    is_read_waiting: bool,
}

/// A round on its way.
#[derive(Debug)]
struct Open {
    round: Round,
    /// What nobody else has asked with, nor this member in another life.
    name: Vec<u8>,
    began: Monotonic,
    /// The entry that has to be applied, once that is known.
    index: Option<u64>,
}

impl Rounds {
    /// The round after which a request of now may be answered.
    pub(super) fn next(&mut self) -> Round {
        self.wanted = Round(self.begun.0 + 1);
        self.wanted
    }

    /// The last round that is over.
    pub(super) const fn done(&self) -> Round {
        self.done
    }

    /// Wants one if the last one was begun so long ago, in milliseconds, or if a read waits and
    /// none on its way can show that the state is young enough. Whether one is due by its time.
    fn renew(&mut self, limit_ms: u64, now: Monotonic) -> bool {
        let after_ms = (limit_ms / ROUNDS_A_LIMIT).max(1);
        let is_renewed = self.began.is_none_or(|began| now.since(began) >= after_ms);
        let is_too_old = |last: &Open| now.since(last.began) >= limit_ms;
        if is_renewed || self.is_read_waiting && self.open.back().is_none_or(is_too_old) {
            self.next();
        }
        is_renewed
    }

    /// Whether the last round that was begun has no answer.
    fn is_unanswered(&self) -> bool {
        self.open.back().is_some_and(|open| open.index.is_none())
    }

    /// Begins a round if one is due: one that is wanted, while no other has to be answered first,
    /// or one in the place of one that got no answer. `is_renewed` is one that waits for no answer.
    fn begin(&mut self, id: u64, asked: RoundOf, is_renewed: bool, now: Now) -> Option<Vec<u8>> {
        let (term, leader, applied_term) = asked;
        let answers = leader != 0 && (leader != id || applied_term == term);
        let is_due = if self.is_unanswered() {
            is_renewed || self.ticks >= self.patience || self.asked != asked
        } else {
            self.wanted > self.begun
        };
        if !answers || !is_due {
            return None;
        }
        let is_again = self.is_unanswered() && self.asked == asked;
        self.patience =
            if is_again { (2 * self.patience).min(PATIENCE_TICKS_MAX) } else { PATIENCE_TICKS };
        let round = Round(self.begun.0 + 1);
        let numbers = [id, now.wall.0.cast_unsigned(), round.0];
        let name: Vec<u8> = numbers.into_iter().flat_map(u64::to_be_bytes).collect();
        (self.begun, self.began, self.asked, self.ticks) = (round, Some(now.monotonic), asked, 0);
        if self.open.len() == ROUNDS_MAX {
            self.thin_out();
        }
        let began = now.monotonic;
        self.open.push_back(Open { round, name: name.clone(), began, index: None });
        Some(name)
    }

    /// Leaves fewer of them, evenly in time: however long a way, or applying, takes, one that began
    /// shortly after another is also over shortly after it.
    fn thin_out(&mut self) {
        let [Some(oldest), Some(newest)] = [self.open.front(), self.open.back()] else { return };
        let apart = newest.began.since(oldest.began) / KEPT_APART;
        let mut kept: Option<Monotonic> = None;
        let mut all = std::mem::take(&mut self.open).into_iter().peekable();
        while let Some(open) = all.next() {
            let is_between = |kept: Monotonic| {
                all.peek().is_some_and(|next: &Open| next.began.since(kept) <= apart)
            };
            if !kept.is_some_and(is_between) {
                kept = Some(open.began);
                self.open.push_back(open);
            }
        }
    }

    /// A tick passed.
    pub(super) const fn tick(&mut self) {
        self.ticks = self.ticks.saturating_add(1);
    }

    pub(super) fn answered(&mut self, states: Vec<ReadState>) {
        for ReadState { index, request_ctx } in states {
            if let Some(open) = self.open.iter_mut().find(|open| open.name == request_ctx) {
                open.index.get_or_insert(index);
            }
        }
    }

    /// Ends the rounds that are answered, if what was final then is applied. Gives when the last of
    /// them was begun.
    pub(super) fn end(&mut self, applied: u64) -> Option<Monotonic> {
        let is_over = |open: &Open| open.index.is_some_and(|index| index <= applied);
        let last = self.open.iter().rposition(is_over)?;
        let Open { round, began, .. } = self.open.drain(..=last).next_back()?;
        self.done = round;
        Some(began)
    }
}

impl Requests {
    /// A read waits until the applied state is young enough.
    pub const fn want_round(&mut self) {
        self.rounds.is_read_waiting = true;
    }

    /// Answers what waited for rounds that are over. Gives the name of the next one, if one is
    /// wanted and can begin.
    pub(super) fn go_round(
        &mut self,
        consensus: &Consensus,
        applier: &Applier,
        now: Now,
    ) -> Result<Option<Vec<u8>>, EnsembleError> {
        if let Some(began) = self.rounds.end(consensus.applied()) {
            if let Some(freshness) = applier.replica.freshness() {
                freshness.shows(began);
            }
            self.finish_settled(applier)?;
            self.settle(applier)?;
        }
        let mut is_renewed = false;
        if let Some(freshness) = applier.replica.freshness() {
            freshness.wake(now.monotonic);
            let (limit_ms, is_young) = (freshness.limit_ms(), freshness.is_young(now.monotonic));
            self.rounds.is_read_waiting &= !is_young;
            is_renewed = self.rounds.renew(limit_ms, now.monotonic);
        }
        let applied_term = applier.replica.applied().0.cast_unsigned() >> 32;
        let asked = (consensus.term(), consensus.leader(), applied_term);
        Ok(self.rounds.begin(consensus.id(), asked, is_renewed, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT_MS: u64 = 10_000;
    const FOLLOWS: RoundOf = (2, 2, 2);

    fn at(ms: u64) -> Now {
        Now { monotonic: Monotonic(ms), ..Now::default() }
    }

    /// A member follows for so long, and ticks every 50 ms. Its rounds, with the times when they
    /// were begun.
    fn begun(rounds: &mut Rounds, from: u64, to: u64) -> Vec<(u64, Vec<u8>)> {
        let mut begun = Vec::new();
        for ms in (from..to).step_by(50) {
            rounds.tick();
            let is_renewed = rounds.renew(LIMIT_MS, Monotonic(ms));
            let name = rounds.begin(1, FOLLOWS, is_renewed, at(ms));
            begun.extend(name.map(|name| (ms, name)));
        }
        begun
    }

    fn state(name: &[u8], index: u64) -> Vec<ReadState> {
        vec![ReadState { index, request_ctx: name.to_vec() }]
    }

    #[test]
    fn an_answer_counts_however_many_were_asked_for_meanwhile() {
        let mut rounds = Rounds::default();
        let begun = begun(&mut rounds, 0, 9000);
        assert!(begun.len() > 4);
        rounds.answered(state(&begun[0].1, 7));
        assert_eq!(rounds.end(6), None);
        assert_eq!(rounds.end(7), Some(Monotonic(begun[0].0)));
        assert_eq!(rounds.end(7), None);
    }

    /// A round begins for each that was answered, not for each word that is on its way.
    #[test]
    fn a_leader_that_is_far_away_is_not_asked_without_end() {
        let mut rounds = Rounds::default();
        let mut asked = VecDeque::new();
        let mut count = 0;
        for ms in (0..10_000).step_by(50) {
            asked.extend(begun(&mut rounds, ms, ms + 50));
            while let Some((_, name)) = asked.pop_front_if(|(at, _)| *at + 300 <= ms) {
                rounds.answered(state(&name, 1));
                rounds.end(1);
                count += 1;
            }
        }
        assert!((4..=8).contains(&count), "{count}");
    }

    /// Applying lags by more than half of the limit: rounds begin meanwhile.
    #[test]
    fn rounds_do_not_wait_for_each_other() {
        let mut rounds = Rounds::default();
        let mut names = Vec::new();
        for ms in [0, 2500, 5000, 7500] {
            let its = begun(&mut rounds, ms, ms + 50);
            assert_eq!(its.len(), 1, "at {ms}");
            rounds.answered(state(&its[0].1, ms));
            names.extend(its);
        }
        for (ms, _) in names {
            assert_eq!(rounds.end(ms), Some(Monotonic(ms)));
        }
    }

    /// A way that takes as long as more rounds than are kept: each who waits hears of one in the
    /// end, and of none too early.
    #[test]
    fn who_waits_for_a_round_hears_of_one_however_late_its_answer_is() {
        const LATE: usize = ROUNDS_MAX + ROUNDS_MAX / 2;
        let mut rounds = Rounds::default();
        let mut names = VecDeque::new();
        let mut done = 0;
        for ms in 0..20 * ROUNDS_MAX {
            rounds.next();
            let name = rounds.begin(1, FOLLOWS, true, at(ms as u64)).expect("it is due");
            names.push_back(name);
            assert!(rounds.open.len() <= ROUNDS_MAX);
            if ms < LATE {
                continue;
            }
            rounds.answered(state(&names.pop_front().expect("one was begun"), 1));
            let answered = (ms - LATE) as u64;
            if let Some(began) = rounds.end(1) {
                assert_eq!((began.0, rounds.done()), (answered, Round(answered + 1)));
                done = answered;
            }
            assert!(answered - done < 8, "at {ms}: {answered}, {done}");
        }
    }

    /// Each is answered at once, and the next begins; applying lags by most of the limit.
    #[test]
    fn some_round_is_over_soon_after_another_however_many_begin_meanwhile() {
        const BEHIND_MS: u64 = LIMIT_MS * 9 / 10;
        let mut rounds = Rounds::default();
        let mut shown = None;
        for ms in 0..4 * LIMIT_MS {
            rounds.next();
            let name = rounds.begin(1, FOLLOWS, false, at(ms)).expect("it is due");
            rounds.answered(state(&name, ms));
            let Some(applied) = ms.checked_sub(BEHIND_MS) else { continue };
            shown = rounds.end(applied).or(shown);
            let age = Monotonic(ms).since(shown.expect("the first is over"));
            assert!(age <= BEHIND_MS + LIMIT_MS / 32, "at {ms}: {age} ms");
        }
    }

    #[test]
    fn nobody_is_asked_who_does_not_answer_yet() {
        let mut rounds = Rounds::default();
        rounds.next();
        assert_eq!(rounds.begin(1, (2, 0, 1), true, at(0)), None, "nobody leads");
        assert_eq!(rounds.begin(1, (2, 1, 1), true, at(0)), None, "it has committed nothing");
        assert!(rounds.begin(1, (2, 1, 2), true, at(0)).is_some());
        // What another one was asked, or one that could not answer, is asked again at once.
        assert_eq!(rounds.begin(1, (2, 1, 2), false, at(1)), None);
        assert!(rounds.begin(1, (3, 2, 2), false, at(1)).is_some());
        assert!(rounds.begin(1, (3, 2, 3), false, at(1)).is_some());
        assert_eq!(rounds.begin(1, (3, 2, 3), false, at(1)), None);
    }

    #[test]
    fn whoever_comes_behind_the_begin_of_a_round_waits_for_the_next() {
        let mut rounds = Rounds::default();
        let first = rounds.next();
        let name = rounds.begin(1, FOLLOWS, false, at(0)).expect("it is wanted");
        let second = rounds.next();
        assert!(second > first);
        rounds.answered(state(&name, 1));
        rounds.end(1);
        assert_eq!(rounds.done(), first);
    }
}
