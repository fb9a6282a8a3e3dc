//! Requests that wait for an orderer that works alone, and who has a place in its next group.
//!
//! Where all of them fit, they are taken in the order of their arrival. Where they do not, each
//! connection gets the same share, so that nobody waits for all that another client has sent
//! without waiting for answers. How much fits depends on how long the last groups took: what a
//! request costs beyond its bytes, such as events for thousands of watches, is not known before.

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

/// What deciding costs beside bytes, in bytes.
pub(super) const STEP_BYTES: usize = 512;

/// What deciding a request comes to at least, in bytes: what it becomes is not known before.
pub(super) const fn least_bytes(submission: &Submission) -> usize {
    STEP_BYTES + submission.len
}

/// The requests, in the order of their arrival.
#[derive(Debug)]
pub(super) struct Held {
    waiting: VecDeque<Submission>,
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
        let (waiting, group_bytes, group_time) = (VecDeque::new(), TURN_BYTES, GROUP_TIME);
        Self { waiting, bytes: 0, taken: 0, group_bytes, group_time }
    }
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn extend(&mut self, submissions: Vec<Submission>) {
        self.bytes += submissions.iter().map(least_bytes).sum::<usize>();
        self.waiting.extend(submissions);
    }

    /// All of them: nothing waits any more.
    pub(super) fn take_all(&mut self) -> VecDeque<Submission> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Those of the next group: of each connection in the order of their arrival.
    pub(super) fn take_group(&mut self) -> VecDeque<Submission> {
        self.taken = self.bytes;
        if self.bytes <= self.group_bytes {
            return self.take_all();
        }
        let mut of: HashMap<ConnectionId, usize> = HashMap::new();
        for submission in &self.waiting {
            *of.entry(submission.origin.connection).or_default() += least_bytes(submission);
        }
        // Of one alone it matters only how much a group takes.
        let share = match of.len() {
            1 => usize::MAX,
            _ => share(self.group_bytes, of.values().copied().collect()),
        };
        of.clear();
        let (mut group, mut later) = (VecDeque::new(), VecDeque::new());
        self.taken = 0;
        for submission in self.take_all() {
            let bytes = least_bytes(&submission);
            let its = of.entry(submission.origin.connection).or_default();
            // One of each has a place, however large; after one that has none, its connection has
            // none either.
            let fits = *its == 0 || its.saturating_add(bytes) <= share;
            if !fits || self.taken >= self.group_bytes {
                *its = usize::MAX;
                self.bytes += bytes;
                later.push_back(submission);
            } else {
                *its += bytes;
                self.taken += bytes;
                group.push_back(submission);
            }
        }
        self.waiting = later;
        group
    }

    /// What the group had no place for after all: it comes first in the next one.
    pub(super) fn put_back(&mut self, rest: VecDeque<Submission>) {
        if rest.is_empty() {
            return;
        }
        let bytes = rest.iter().map(least_bytes).sum::<usize>();
        self.taken -= bytes;
        self.bytes += bytes;
        let later = std::mem::replace(&mut self.waiting, rest);
        self.waiting.extend(later);
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

/// The share of each of those that want so much, where the sum of all that get no more than that
/// is `bytes`: who wants less leaves the rest to the others.
fn share(bytes: usize, mut wanted: Vec<usize>) -> usize {
    wanted.sort_unstable();
    let (mut left, mut others) = (bytes, wanted.len());
    for want in wanted {
        if want.saturating_mul(others) > left {
            break;
        }
        left -= want;
        others -= 1;
    }
    (left / others.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use jute::protocol::{PathRequest, Request};

    use super::*;
    use crate::engine::request::{Origin, Work};
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
        // Each took 100 us: five of them would be as long as a group may, and are too few. Two have
        // a place besides.
        held.took(Duration::from_millis(100), Duration::ZERO);
        held.extend((1000..2000).map(|xid| submission(1, xid, 88)).collect());
        held.extend([2, 3].map(|by| submission(by, 0, 88)).into());
        let group = held.take_group();
        assert_eq!(group.len(), GROUP_BYTES_MIN / 600);
        assert_eq!(names(&group)[group.len() - 2..], [(2, 0), (3, 0)]);
        let first = group.iter().take(group.len() - 2).map(|its| its.origin.xid);
        assert!(first.eq((1000..).take(GROUP_BYTES_MIN / 600 - 2)));
        // As long as nobody else asks, it is as quick as ever.
        held.took(Duration::from_micros(200), Duration::ZERO);
        assert_eq!(held.take_group().len(), (2 * GROUP_BYTES_MIN).div_ceil(600));
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

    /// Whatever comes: each connection's requests are taken once and in their order, and where some
    /// of one have no place, nobody has more place than it by more than one request, unless the
    /// group was full before.
    #[test]
    fn everybody_gets_a_share_in_his_order() {
        const LARGEST: usize = 1 << 20;
        let mut shared = 0;
        for seed in 0..40 {
            let mut dice = Dice(seed);
            let mut held = Held::default();
            let (mut put, mut taken) = ([0; 5], [0; 5]);
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
                let mut had = [0; 5];
                for its in held.take_group() {
                    let by = its.origin.connection.0 as usize;
                    taken[by] += 1;
                    assert_eq!(its.origin.xid, taken[by]);
                    had[by] += least_bytes(&its);
                }
                let sum = had.iter().sum::<usize>();
                assert!(sum < most + LARGEST + 1000, "{sum} of {most}");
                let largest = had.into_iter().max().unwrap_or(0);
                for by in (0..5).filter(|by| taken[*by] < put[*by] && sum < most) {
                    assert!(had[by] + LARGEST + 1000 >= largest, "{had:?}");
                    shared += 1;
                }
                held.took(Duration::from_micros(dice.below(20_000)), Duration::ZERO);
            }
            assert_eq!((put, held.bytes), (taken, 0), "{seed}");
        }
        assert!(shared > 100, "{shared}");
    }
}
