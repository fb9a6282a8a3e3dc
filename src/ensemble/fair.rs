//! Whose request is next: connections take turns, so that nobody waits behind all that somebody else has asked for.
//!
//! What one connection asks for keeps its order. Requests of different connections that wait at the same time have none:
//! neither client has an answer yet.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::queue::Submission;
use super::steps::cost;
use crate::engine::request::Work;
use crate::engine::watch::ConnectionId;

/// What a connection may have decided before the next one has its turn, in bytes as [`cost`] has them: some thirty small
/// requests.
const TURN: usize = 16 << 10;
/// Empty lines that are kept for who comes next.
const SPARE_MAX: usize = 64;

/// Who waits in one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Line {
    /// The requests of a session's connection.
    Of(ConnectionId),
    /// Whoever wants a session, new or of before: a crowd that comes at once has one turn, as everybody else.
    Newcomers,
}

/// Those who wait in one line.
#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Submission>,
    /// What it has used of its turn. Who used more than that pays for it with the next ones.
    used: usize,
}

/// Requests that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Fair {
    /// The lines in which somebody waits, in the order of their turns.
    turns: VecDeque<Line>,
    lanes: HashMap<Line, Lane>,
    len: usize,
    spare: Vec<VecDeque<Submission>>,
}

impl Fair {
    pub(super) fn push(&mut self, submission: Submission) {
        let line = match submission.work {
            Work::Open { .. } | Work::Attach { .. } => Line::Newcomers,
            _ => Line::Of(submission.origin.connection),
        };
        let Self { turns, lanes, spare, .. } = self;
        let lane = lanes.entry(line).or_insert_with(|| {
            turns.push_back(line);
            Lane { waiting: spare.pop().unwrap_or_default(), used: 0 }
        });
        lane.waiting.push_back(submission);
        self.len += 1;
    }

    /// The next one.
    pub(super) fn pop(&mut self) -> Option<Submission> {
        loop {
            let line = *self.turns.front()?;
            let lane = self.lanes.get_mut(&line)?;
            if lane.used >= TURN {
                lane.used -= TURN;
                self.turns.rotate_left(1);
                continue;
            }
            let submission = lane.waiting.pop_front()?;
            lane.used += cost(submission.len);
            self.len -= 1;
            if lane.waiting.is_empty() {
                self.turns.pop_front();
                let emptied = self.lanes.remove(&line).map(|lane| lane.waiting);
                // One that was long is not kept.
                let kept = emptied
                    .filter(|line| line.capacity() <= SPARE_MAX && self.spare.len() < SPARE_MAX);
                self.spare.extend(kept);
            }
            return Some(submission);
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::request::Origin;
    use crate::engine::session::SessionId;
    use crate::engine::time::Monotonic;
    use crate::storage::sim::Dice;

    fn submission(connection: u64, xid: i32, work: Work, len: usize) -> Submission {
        let (connection, session) = (ConnectionId(connection), SessionId(1));
        let received = Monotonic(0);
        let origin = Origin { connection, session, xid, identities: Arc::default(), received };
        Submission { origin, work, len, room: None }
    }

    /// The request `xid` of a connection, of so many bytes.
    fn request(connection: u64, xid: i32, len: usize) -> Submission {
        submission(connection, xid, Work::Throttled, len)
    }

    #[test]
    fn who_asks_for_one_thing_does_not_wait_behind_a_thousand_of_another() {
        let mut fair = Fair::default();
        (0..1000).for_each(|xid| fair.push(request(1, xid, 60)));
        let first = fair.pop().expect("is there");
        assert_eq!((first.origin.connection, first.origin.xid), (ConnectionId(1), 0));
        fair.push(request(2, 0, 60));
        let ahead = std::iter::from_fn(|| fair.pop())
            .take_while(|next| next.origin.connection != ConnectionId(2))
            .count();
        assert!(ahead < TURN / 512, "{ahead}");
        // Then it is the other one's turn again, to its end.
        let rest: Vec<i32> =
            std::iter::from_fn(|| fair.pop()).map(|next| next.origin.xid).collect();
        assert_eq!(rest, Vec::from_iter(ahead as i32 + 1..1000));
        assert_eq!(fair.len(), 0);
    }

    #[test]
    fn a_crowd_that_wants_sessions_has_one_turn() {
        let mut fair = Fair::default();
        for connection in 10..5010 {
            let work = match connection % 2 {
                0 => Work::Open { timeout_ms: 1 },
                _ => Work::Attach { timeout_ms: 1 },
            };
            fair.push(submission(connection, 0, work, 45));
        }
        fair.push(request(1, 0, 60));
        let ahead = std::iter::from_fn(|| fair.pop())
            .take_while(|next| next.origin.connection != ConnectionId(1))
            .count();
        assert!(ahead <= TURN / 512, "{ahead}");
        let rest = std::iter::from_fn(|| fair.pop()).map(|next| next.origin.connection.0);
        assert!(rest.eq(10 + ahead as u64..5010), "in the order in which they came");
    }

    #[test]
    fn who_asks_for_much_at_once_has_no_more_than_others() {
        const LARGE: usize = 1 << 20;
        let mut fair = Fair::default();
        (0..50).for_each(|xid| fair.push(request(1, xid, LARGE)));
        (0..50_000).for_each(|xid| fair.push(request(2, xid, 60)));
        let mut had = [0_usize; 2];
        while had.iter().sum::<usize>() < 20 * LARGE {
            let next = fair.pop().expect("both have more");
            had[next.origin.connection.0 as usize - 1] += cost(next.len);
            assert!(had[0].abs_diff(had[1]) <= cost(LARGE) + TURN, "{had:?}");
        }
    }

    #[test]
    fn who_waits_no_more_leaves_nothing_behind() {
        let mut fair = Fair::default();
        for connection in 0..1000 {
            let requests = if connection % 10 == 0 { 100 } else { 1 };
            (0..requests).for_each(|xid| fair.push(request(connection, xid, 10)));
        }
        while fair.pop().is_some() {}
        assert_eq!((fair.len(), fair.turns.len(), fair.lanes.len()), (0, 0, 0));
        let kept: usize = fair.spare.iter().map(VecDeque::capacity).sum();
        assert!(kept <= SPARE_MAX * SPARE_MAX, "{kept}");
    }

    /// Beside a model that looks through everything that waits.
    #[test]
    fn each_line_keeps_its_order_and_nobody_waits_for_more_than_a_turn_of_each_other() {
        const LARGEST: usize = 40_000;
        let mut dice = Dice(5);
        let mut fair = Fair::default();
        let mut model: Vec<VecDeque<(i32, usize)>> = vec![VecDeque::new(); 12];
        // What was decided of others since a line's first one came to its place, and how many lines there were at most.
        let mut passed = [(0, 0); 12];
        for xid in 0..60_000 {
            if dice.below(1000) < 480 {
                let line = dice.below(12) as usize;
                let len = if dice.below(50) == 0 { LARGEST } else { dice.below(300) as usize };
                fair.push(request(line as u64, xid, len));
                model[line].push_back((xid, cost(len)));
            } else if let Some(next) = fair.pop() {
                let line = next.origin.connection.0 as usize;
                let expected = model[line].pop_front();
                assert_eq!(expected, Some((next.origin.xid, cost(next.len))));
                let busy = model.iter().filter(|waiting| !waiting.is_empty()).count() + 1;
                for (other, passed) in passed.iter_mut().enumerate() {
                    if other == line || model[other].is_empty() {
                        *passed = (0, 0);
                        continue;
                    }
                    passed.0 += cost(next.len);
                    passed.1 = busy.max(passed.1);
                    // It may have to pay for its own last one.
                    let turns = 1 + cost(LARGEST).div_ceil(TURN);
                    let most = passed.1 * (turns * TURN + cost(LARGEST));
                    assert!(passed.0 <= most, "{other} waits for {} of {most}", passed.0);
                }
            } else {
                assert!(model.iter().all(VecDeque::is_empty));
            }
            assert_eq!(fair.len(), model.iter().map(VecDeque::len).sum::<usize>());
        }
    }
}
