//! Requests that wait for an orderer that works alone, and who has a place in its next group.
//!
//! Where all of them fit, they are taken in the order of their arrival. Where they do not, the
//! connections take turns, and each gets the same share in bytes (deficit round robin), so that
//! nobody waits for all that another client has sent without waiting for answers. A group costs
//! what it takes, however much waits. How much fits depends on how long the last groups took: what
//! a request costs beyond its bytes, such as events for thousands of watches, is not known before.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;

use super::queue::Submission;
use super::steps::TURN_BYTES;
use crate::engine::watch::ConnectionId;

/// A group that takes longer to decide and apply than this, and longer than to sync, is followed by
/// smaller ones: who comes meanwhile waits for it.
const GROUP_TIME: Duration = Duration::from_micros(500);
/// A group is never smaller than this, in bytes: half a hundred requests.
const GROUP_BYTES_MIN: usize = 32 << 10;
/// What a connection may have decided in its turn, in bytes, before the next one has its turn. One
/// that asks for more at once saves its turns up for it.
const TURN_SHARE: usize = 4 << 10;

/// What deciding costs beside bytes, in bytes.
pub(super) const STEP_BYTES: usize = 512;

/// What deciding a request comes to at least, in bytes: what it becomes is not known before.
pub(super) const fn least_bytes(submission: &Submission) -> usize {
    STEP_BYTES + submission.len
}

/// What one connection has waiting.
#[derive(Debug, Default)]
struct Line {
    requests: VecDeque<Submission>,
    /// What it may still have decided, in bytes.
    credit: usize,
}

/// The requests.
#[derive(Debug)]
pub(super) struct Held {
    /// All that wait, in the order of their arrival, while no connection has a line.
    arrived: VecDeque<Submission>,
    /// What had no place in the last group after all.
    first: VecDeque<Submission>,
    /// While more waits than fits, what waits of each connection.
    lines: HashMap<ConnectionId, Line>,
    /// Whose turn is next, and before them those that have had none since their line began: who
    /// asks little is among these.
    turns: VecDeque<ConnectionId>,
    first_turns: VecDeque<ConnectionId>,
    /// Whether the others have their turns before those in the next group, as they had not in the
    /// last one.
    others_first: bool,
    /// What deciding them comes to at least.
    bytes: usize,
    /// The same of the last group that was taken, and what the next one may come to.
    taken: usize,
    group_bytes: usize,
    /// [`GROUP_TIME`], but for tests of what does not depend on how fast they run.
    pub(super) group_time: Duration,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            arrived: VecDeque::new(),
            first: VecDeque::new(),
            lines: HashMap::new(),
            turns: VecDeque::new(),
            first_turns: VecDeque::new(),
            others_first: false,
            bytes: 0,
            taken: 0,
            group_bytes: TURN_BYTES,
            group_time: GROUP_TIME,
        }
    }
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.arrived.is_empty() && self.first.is_empty() && self.lines.is_empty()
    }

    pub(super) fn extend(&mut self, submissions: Vec<Submission>) {
        self.bytes += submissions.iter().map(least_bytes).sum::<usize>();
        if self.lines.is_empty() {
            self.arrived.extend(submissions);
        } else {
            submissions.into_iter().for_each(|submission| self.queue(submission));
        }
    }

    /// Puts a request into the line of its connection.
    fn queue(&mut self, submission: Submission) {
        let connection = submission.origin.connection;
        let line = self.lines.entry(connection).or_insert_with(|| {
            self.first_turns.push_back(connection);
            Line::default()
        });
        line.requests.push_back(submission);
    }

    /// All of them: nothing waits any more.
    pub(super) fn take_all(&mut self) -> VecDeque<Submission> {
        self.bytes = 0;
        let mut all = std::mem::take(&mut self.first);
        self.first_turns.append(&mut self.turns);
        for connection in std::mem::take(&mut self.first_turns) {
            let line = self.lines.remove(&connection).unwrap_or_default();
            all.extend(line.requests);
        }
        match all.is_empty() {
            true => std::mem::take(&mut self.arrived),
            false => {
                all.append(&mut self.arrived);
                all
            }
        }
    }

    /// Those of the next group: of each connection in the order of their arrival.
    pub(super) fn take_group(&mut self) -> VecDeque<Submission> {
        self.taken = self.bytes;
        if self.bytes <= self.group_bytes {
            return self.take_all();
        }
        for submission in std::mem::take(&mut self.arrived) {
            self.queue(submission);
        }
        let mut group = std::mem::take(&mut self.first);
        self.taken = group.iter().map(least_bytes).sum();
        let others_first = std::mem::take(&mut self.others_first);
        let mut has_place = true;
        if !others_first {
            let before = group.len();
            while has_place && let Some(connection) = self.first_turns.pop_front() {
                has_place = self.take_turn(connection, &mut group);
            }
            self.others_first = group.len() > before;
        }
        while has_place && let Some(connection) = self.turns.pop_front() {
            has_place = self.take_turn(connection, &mut group);
        }
        while has_place && let Some(connection) = self.first_turns.pop_front() {
            has_place = self.take_turn(connection, &mut group);
        }
        self.bytes -= self.taken;
        group
    }

    /// A connection has its turn. Whether the group has more place: a request that is larger than
    /// what is left has a group of its own, for which nobody else waits.
    fn take_turn(&mut self, connection: ConnectionId, group: &mut VecDeque<Submission>) -> bool {
        let Some(line) = self.lines.get_mut(&connection) else { return true };
        let next = |line: &Line| line.requests.front().map(least_bytes);
        // The last turn may not have been over when the group was full.
        if next(line).is_some_and(|bytes| bytes > line.credit) {
            line.credit += TURN_SHARE;
        }
        while let Some(bytes) = next(line)
            && bytes <= line.credit
        {
            if !group.is_empty() && self.taken + bytes > self.group_bytes {
                self.turns.push_front(connection);
                return false;
            }
            line.credit -= bytes;
            self.taken += bytes;
            group.extend(line.requests.pop_front());
        }
        if line.requests.is_empty() {
            self.lines.remove(&connection);
        } else {
            self.turns.push_back(connection);
        }
        true
    }

    /// What the group had no place for after all: it comes first in the next one.
    pub(super) fn put_back(&mut self, rest: VecDeque<Submission>) {
        let bytes = rest.iter().map(least_bytes).sum::<usize>();
        self.taken -= bytes;
        self.bytes += bytes;
        self.first = rest;
    }

    /// To decide and apply the group took so long, and to sync it.
    pub(super) fn took(&mut self, time: Duration, sync: Duration) {
        let most = self.group_time.max(sync);
        if time > most {
            let fit = self.taken as u128 * most.as_nanos() / time.as_nanos();
            let fit = usize::try_from(fit).unwrap_or(TURN_BYTES);
            self.group_bytes = fit.clamp(GROUP_BYTES_MIN, TURN_BYTES);
        } else if !self.is_empty() {
            self.group_bytes = (2 * self.group_bytes).min(TURN_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use jute::protocol::{PathRequest, Request};

    use super::*;
    use crate::engine::decide::request::{Origin, Work};
    use crate::engine::session::SessionId;
    use crate::storage::sim::Dice;

    fn submission(connection: u64, xid: i32, len: usize) -> Submission {
        let origin = Origin {
            connection: ConnectionId(connection),
            session: SessionId::NONE,
            xid,
            identities: std::sync::Arc::default(),
            received: crate::engine::time::Monotonic::default(),
        };
        let work = Work::Request(Request::GetAllChildrenNumber(PathRequest { path: "/".into() }));
        Submission { origin, work, len, room: None }
    }

    fn names(group: &VecDeque<Submission>) -> Vec<(u64, i32)> {
        group.iter().map(|its| (its.origin.connection.0, its.origin.xid)).collect()
    }

    #[test]
    fn what_fits_is_taken_as_it_came() {
        let mut held = Held::default();
        held.extend([(1, 1), (2, 1), (1, 2)].map(|(by, xid)| submission(by, xid, 9)).into());
        assert_eq!(names(&held.take_group()), [(1, 1), (2, 1), (1, 2)]);
        assert!(held.is_empty() && held.take_group().is_empty());
    }

    /// One has sent a thousand, and two send one each after them.
    #[test]
    fn who_asks_little_waits_for_one_group() {
        let mut held = Held::default();
        held.extend((0..1000).map(|xid| submission(1, xid, 88)).collect());
        assert_eq!(held.take_group().len(), 1000, "nothing is known yet");
        // Each took 100 us: five of them would be as long as a group may, and are too few.
        held.took(Duration::from_millis(100), Duration::ZERO);
        held.extend((1000..2000).map(|xid| submission(1, xid, 88)).collect());
        held.extend([2, 3].map(|by| submission(by, 0, 88)).into());
        let group = held.take_group();
        assert_eq!(group.len(), GROUP_BYTES_MIN / 600);
        let (first, others): (Vec<_>, Vec<_>) =
            names(&group).into_iter().partition(|(by, _)| *by == 1);
        assert_eq!(others, [(2, 0), (3, 0)]);
        assert!(first.into_iter().map(|(_, xid)| xid).eq((1000..).take(group.len() - 2)));
        // As long as nobody else asks, it is as quick as ever.
        held.took(Duration::from_micros(200), Duration::ZERO);
        assert_eq!(held.take_group().len(), 2 * GROUP_BYTES_MIN / 600);
    }

    /// Each of its requests is larger than a group.
    #[test]
    fn who_asks_little_waits_for_one_of_those_that_ask_much() {
        const LARGE: usize = 1 << 20;
        let mut held = Held { group_bytes: GROUP_BYTES_MIN, ..Held::default() };
        for by in 1..=3 {
            held.extend((0..40).map(|xid| submission(by, xid, LARGE)).collect());
        }
        assert_eq!(names(&held.take_group()), [(1, 0)]);
        held.extend(vec![submission(4, 0, 88)]);
        assert_eq!(names(&held.take_group()), [(4, 0)]);
        // And they do not wait for ever.
        held.extend(vec![submission(4, 1, 88)]);
        for turn in 1..10 {
            assert_eq!(names(&held.take_group()), [(1 + turn as u64 % 3, turn / 3)]);
            assert_eq!(names(&held.take_group()), [(4, turn)]);
            held.extend(vec![submission(4, turn + 1, 88)]);
        }
    }

    #[test]
    fn a_group_costs_what_it_takes_and_not_all_that_waits() {
        let mut held = Held { group_bytes: GROUP_BYTES_MIN, ..Held::default() };
        held.extend((0..50_000).map(|xid| submission(xid as u64 % 60, xid, 88)).collect());
        held.take_group();
        // They have their lines; what is taken is found at the ends of these.
        let places = |held: &Held| held.lines.values().map(|line| line.requests.capacity()).sum();
        let before: usize = places(&held);
        for _ in 0..10 {
            assert!(held.take_group().len() <= GROUP_BYTES_MIN / 600);
            assert!(held.arrived.is_empty() && held.first.is_empty());
        }
        assert_eq!(places(&held), before);
    }

    #[test]
    fn a_group_is_about_as_long_as_it_may() {
        let mut held = Held::default();
        held.extend((0..4000).map(|xid| submission(1, xid, 512)).collect());
        assert_eq!(held.take_group().len(), 4000);
        held.took(GROUP_TIME * 32, GROUP_TIME * 4);
        assert_eq!(held.group_bytes, 4000 * 1024 / 8);
        for _ in 0..2 {
            // A smaller one says nothing of those that are larger.
            held.extend(vec![submission(1, 0, 512)]);
            held.take_group();
            held.took(GROUP_TIME / 8, Duration::ZERO);
        }
        assert_eq!(held.group_bytes, 4000 * 1024 / 8);
    }

    #[test]
    fn what_had_no_place_comes_first() {
        let mut held = Held::default();
        held.extend((1..=3).map(|xid| submission(1, xid, 9)).collect());
        let mut group = held.take_group();
        group.pop_front();
        held.extend(vec![submission(2, 1, 9)]);
        held.put_back(group);
        assert_eq!(names(&held.take_group()), [(1, 2), (1, 3), (2, 1)]);
        assert_eq!(held.bytes, 0);
    }

    /// Whatever comes: each connection's requests are taken once and in their order, and of two
    /// that both wait all the time none gets more than the other by more than three requests.
    #[test]
    fn everybody_gets_a_share_in_his_order() {
        const LARGEST: usize = 1 << 20;
        let (mut shared, mut apart_most) = (0, 0);
        for seed in 0..40 {
            let mut dice = Dice(seed);
            let mut held = Held::default();
            let (mut put, mut taken) = ([0; 5], [0; 5]);
            // What each of two got while both were waiting.
            let mut apart = [[0_usize; 5]; 5];
            while put.iter().sum::<i32>() < 600 || !held.is_empty() {
                if put.iter().sum::<i32>() < 600 {
                    // One sends more than the others.
                    let by = (dice.below(8) as usize).min(4);
                    let most = if dice.below(20) == 0 { LARGEST } else { 1000 } as u64;
                    let many = (0..dice.below(60)).map(|_| {
                        put[by] += 1;
                        submission(by as u64, put[by], dice.below(most) as usize)
                    });
                    held.extend(many.collect());
                }
                let most = held.group_bytes;
                let (mut sum, mut had) = (0, [0; 5]);
                for its in held.take_group() {
                    let by = its.origin.connection.0 as usize;
                    taken[by] += 1;
                    assert_eq!(its.origin.xid, taken[by]);
                    had[by] += least_bytes(&its);
                    sum += least_bytes(&its);
                }
                assert!(sum <= most.max(LARGEST + STEP_BYTES), "{sum} of {most}");
                for (one, other) in (0..25).map(|both| (both / 5, both % 5)) {
                    let wait = [one, other].into_iter().all(|by| taken[by] < put[by]);
                    apart[one][other] = if wait { apart[one][other] + had[one] } else { 0 };
                    if wait && one < other {
                        shared += 1;
                        apart_most = apart_most.max(apart[one][other].abs_diff(apart[other][one]));
                    }
                }
                held.took(Duration::from_micros(dice.below(20_000)), Duration::ZERO);
            }
            assert_eq!((put, held.bytes), (taken, 0), "{seed}");
            assert!(held.lines.is_empty());
        }
        assert!(shared > 100, "{shared}");
        assert!(apart_most < 3 * (LARGEST + TURN_SHARE + STEP_BYTES), "{apart_most}");
    }
}
