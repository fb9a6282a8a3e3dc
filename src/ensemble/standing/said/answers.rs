//! What servers have said of an ensemble, and of data that does not belong to it; and what is safe
//! to do by that.

use crate::ensemble::standing::heard::Majority;
use crate::ensemble::standing::{Holding, Left, OfLine, Standing};

/// How far the data of a server goes, as it says; zeros where it has not said it. The greater one
/// is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Extent {
    pub(super) epoch: i64,
    /// Of the last transaction.
    pub(super) zxid: i64,
    pub(super) server: u8,
}

/// All that was said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Answers {
    /// A member says that the ensemble has begun.
    pub(super) has_begun: bool,
    /// Whether it goes on with those of its members that answer.
    pub(super) majority: Majority,
    /// Who belongs to it, or left it with what ZooKeeper went on with.
    pub(super) belong: Vec<u8>,
    /// Who has data of it.
    pub(super) its: Vec<Extent>,
    /// Who has other data.
    pub(super) other: Vec<Extent>,
    /// Who had it leave the ensemble and keeps what it had there, or has not said what it has.
    pub(super) kept: Vec<u8>,
    /// A member of another ensemble, and of which.
    pub(super) stranger: Option<(u8, u64)>,
}

/// What is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advice {
    /// A majority has what the ensemble acknowledged: other data can be given up.
    GiveUp,
    /// A majority is about to have it.
    Wait,
    /// This server belongs to another ensemble: nobody knows here which one served clients.
    FindOut(u8, u64),
    /// Without the others, the newest data is that of the ensemble: all of it leaves that, and the
    /// newest is used.
    Leave,
    /// The same beside other data, which is older than this of the ensemble.
    LeaveBeside(Extent, Extent),
    /// Other data is newer than this of the ensemble: only an operator knows which is right.
    Decide(Extent, Extent),
}

impl Answers {
    /// What `all` servers have said where this ensemble is heard, and whether it goes on with them.
    pub(super) fn of<'a>(
        (ensemble, of): (u64, OfLine),
        majority: Majority,
        all: impl Iterator<Item = (&'a u8, &'a Standing)>,
    ) -> Self {
        let has_left = |left: &Left| {
            left.of.line == of.line && !of.is_later_than(&left.of) || left.ensemble == ensemble
        };
        // A majority founded without it.
        let is_of_before = |left: &Left| of.is_later_than(&left.of);
        let mut answers = Self { majority, ..Self::default() };
        for (server, its) in all {
            let server = *server;
            let holds = |its: &Holding| {
                let (epoch, zxid) = (its.base.epoch, its.base.zxid);
                Extent { epoch, zxid, server }
            };
            match its {
                Standing::Member { ensemble: its, has_begun, of, .. } if *its == ensemble => {
                    answers.has_begun |= has_begun;
                    answers.belong.push(server);
                    let (epoch, zxid) = (of.last >> 32, of.last);
                    answers.its.push(Extent { epoch, zxid, server });
                }
                Standing::Before(its) if its.left.as_ref().is_some_and(has_left) => {
                    answers.belong.push(server);
                    answers.its.push(holds(its));
                }
                Standing::Before(its) if its.left.as_ref().is_some_and(is_of_before) => {}
                Standing::Before(its) if its.base.is_empty() => {}
                Standing::Before(its) if its.left.is_none() && its.detached == Some(ensemble) => {
                    answers.its.push(holds(its));
                    answers.kept.push(server);
                }
                Standing::Before(its) => answers.other.push(holds(its)),
                Standing::Member { ensemble: its, of: other, .. } if !of.is_later_than(other) => {
                    answers.stranger = answers.stranger.or(Some((server, *its)));
                }
                Standing::Member { .. } | Standing::Removed { .. } | Standing::Busy(_) => {
                    answers.kept.push(server);
                }
            }
        }
        answers.belong.sort_unstable();
        answers
    }

    /// What is safe by that.
    pub(super) fn advice(&self) -> Advice {
        let newest = |of: &[Extent]| of.iter().copied().max();
        match (self.majority, self.stranger, newest(&self.its), newest(&self.other)) {
            (Majority::WithData, ..) if self.has_begun => Advice::GiveUp,
            (Majority::WithoutData, ..) if self.has_begun => Advice::Wait,
            (_, Some((server, ensemble)), ..) => Advice::FindOut(server, ensemble),
            // What was founded on less acknowledged nothing: then all data counts.
            (.., Some(its), Some(other)) if self.has_begun => {
                match (other.epoch, other.zxid) > (its.epoch, its.zxid) {
                    true => Advice::Decide(its, other),
                    false => Advice::LeaveBeside(its, other),
                }
            }
            _ => Advice::Leave,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(server: u8, epoch: i64) -> Extent {
        Extent { epoch, zxid: epoch << 32 | 4, server }
    }

    #[test]
    fn other_data_is_given_up_only_beside_a_majority_and_the_newest_is_known_by_what_was_said() {
        use Majority::{No, WithData, WithoutData};
        let (unsaid, no_data) = (Extent { server: 1, ..Extent::default() }, Vec::new());
        for (has_begun, majority, its, other, stranger, advice) in [
            (true, WithData, vec![at(1, 6)], vec![at(5, 3)], None, Advice::GiveUp),
            // Its age does not tell whether an ensemble has it.
            (true, WithData, vec![at(1, 6)], vec![at(5, 9)], None, Advice::GiveUp),
            (true, WithData, vec![at(1, 6)], vec![at(5, 9)], Some((4, 9)), Advice::GiveUp),
            (true, WithoutData, vec![at(1, 6)], vec![at(5, 3)], None, Advice::Wait),
            (true, No, vec![at(1, 6)], no_data.clone(), None, Advice::Leave),
            (true, No, vec![at(1, 6)], vec![at(5, 3)], Some((4, 9)), Advice::FindOut(4, 9)),
            (
                true,
                No,
                vec![at(1, 6), at(2, 7)],
                vec![at(4, 3), at(5, 5)],
                None,
                Advice::LeaveBeside(at(2, 7), at(5, 5)),
            ),
            (
                true,
                No,
                vec![at(1, 6), at(2, 7)],
                vec![at(4, 9), at(5, 5)],
                None,
                Advice::Decide(at(2, 7), at(4, 9)),
            ),
            // The same data twice is newer nowhere.
            (
                true,
                No,
                vec![at(1, 6)],
                vec![at(5, 6)],
                None,
                Advice::LeaveBeside(at(1, 6), at(5, 6)),
            ),
            (true, No, vec![unsaid], vec![at(5, 3)], None, Advice::Decide(unsaid, at(5, 3))),
            // Nothing was acknowledged: the newest of all is used, whose it is.
            (false, No, vec![at(1, 6)], vec![at(5, 9)], None, Advice::Leave),
            (false, WithData, vec![at(1, 6)], vec![at(5, 9)], None, Advice::Leave),
            (false, WithoutData, vec![unsaid], vec![at(5, 9)], None, Advice::Leave),
            (false, No, vec![at(1, 6)], vec![at(5, 9)], Some((4, 9)), Advice::FindOut(4, 9)),
        ] {
            let said = Answers { has_begun, majority, its, other, stranger, ..Answers::default() };
            assert_eq!(said.advice(), advice, "{said:?}");
        }
    }
}
