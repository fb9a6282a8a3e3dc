//! When sessions expire: in buckets a tick wide (`ExpiryQueue`).

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;

/// Sessions that are looked at in one step: most were heard of and only move on, and there can be
/// very many of them.
const LOOKED_AT: usize = 32_768;

/// Sessions by the end of the bucket that their deadline falls into.
///
/// Touching a session costs nothing here: its last sign of life is looked up when its bucket ends,
/// and a session that was heard of since moves to the bucket of its new deadline.
#[derive(Debug)]
pub(super) struct ExpiryQueue {
    tick_ms: u64,
    buckets: BTreeMap<Monotonic, Vec<SessionId>>,
    /// The bucket that each session is in. An entry of `buckets` that differs is stale.
    bucket_of: HashMap<SessionId, Monotonic>,
}

impl ExpiryQueue {
    /// An empty queue of buckets `tick_ms` wide, at least 1.
    #[must_use]
    pub(in crate::engine) fn new(tick_ms: u64) -> Self {
        Self { tick_ms: tick_ms.max(1), buckets: BTreeMap::new(), bucket_of: HashMap::new() }
    }

    /// The end of the bucket that a deadline falls into: up to a tick after it.
    const fn bucket(&self, deadline: Monotonic) -> Monotonic {
        Monotonic((deadline.0 / self.tick_ms + 1) * self.tick_ms)
    }

    /// Puts a session where its deadline belongs.
    pub(in crate::engine) fn put(&mut self, session: SessionId, deadline: Monotonic) {
        let bucket = self.bucket(deadline);
        if self.bucket_of.insert(session, bucket) != Some(bucket) {
            self.buckets.entry(bucket).or_default().push(session);
        }
    }

    /// Forgets a session.
    pub(in crate::engine) fn remove(&mut self, session: SessionId) {
        self.bucket_of.remove(&session);
    }

    /// When the next bucket ends.
    #[must_use]
    pub(in crate::engine) fn next(&self) -> Option<Monotonic> {
        self.buckets.first_key_value().map(|(end, _)| *end)
    }

    /// Takes out up to `most` sessions whose bucket has ended and whose deadline, asked for now,
    /// has passed. The others go to the bucket of their deadline; one without a deadline is
    /// forgotten. What is left after a look at [`LOOKED_AT`] sessions is still due.
    pub(in crate::engine) fn expired(
        &mut self,
        now: Monotonic,
        most: usize,
        mut deadline: impl FnMut(SessionId) -> Option<Monotonic>,
    ) -> Vec<SessionId> {
        let mut expired = Vec::new();
        let mut looked_at = 0;
        while expired.len() < most
            && looked_at < LOOKED_AT
            && let Some(mut entry) = self.buckets.first_entry()
            && *entry.key() <= now
        {
            let end = *entry.key();
            let Some(session) = entry.get_mut().pop() else {
                entry.remove();
                continue;
            };
            looked_at += 1;
            if self.bucket_of.get(&session) != Some(&end) {
                continue;
            }
            self.bucket_of.remove(&session);
            match deadline(session) {
                None => {}
                Some(deadline) if self.bucket(deadline) <= now => expired.push(session),
                Some(deadline) => self.put(session, deadline),
            }
        }
        expired
    }

    /// Looks at up to `most` sessions from a place on, soonest first, and tells when their buckets
    /// end. Gives where to go on; nothing at the end.
    pub(in crate::engine) fn walk(
        &self,
        from: ExpiryPlace,
        most: usize,
        mut each: impl FnMut(Monotonic, SessionId),
    ) -> Option<ExpiryPlace> {
        let mut left = most.max(1);
        for (&bucket, sessions) in self.buckets.range(from.bucket..) {
            let seen = if bucket == from.bucket { from.seen } else { 0 };
            for (at, session) in sessions.iter().enumerate().skip(seen) {
                if left == 0 {
                    return Some(ExpiryPlace { bucket, seen: at });
                }
                left -= 1;
                if self.bucket_of.get(session) == Some(&bucket) {
                    each(bucket, *session);
                }
            }
        }
        None
    }
}

/// Where a walk over the buckets goes on.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExpiryPlace {
    bucket: Monotonic,
    /// So many of the bucket were seen.
    seen: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);

    #[test]
    fn a_session_expires_between_its_timeout_and_a_tick_later() {
        // `ExpiryQueue.roundToNextInterval`: (t / tick + 1) * tick.
        for (deadline, end) in [(4000, 6000), (4001, 6000), (5999, 6000), (6000, 8000)] {
            let mut queue = ExpiryQueue::new(2000);
            queue.put(A, Monotonic(deadline));
            assert_eq!(queue.next(), Some(Monotonic(end)));
            assert!(queue.expired(Monotonic(end - 1), 9, |_| Some(Monotonic(deadline))).is_empty());
            assert_eq!(queue.expired(Monotonic(end), 9, |_| Some(Monotonic(deadline))), [A]);
            assert_eq!(queue.next(), None);
        }
    }

    #[test]
    fn a_session_that_was_heard_of_moves_on() {
        let mut queue = ExpiryQueue::new(2000);
        queue.put(A, Monotonic(4000));
        assert!(queue.expired(Monotonic(6000), 9, |_| Some(Monotonic(9000))).is_empty());
        assert_eq!(queue.next(), Some(Monotonic(10_000)));
        assert_eq!(queue.expired(Monotonic(10_000), 9, |_| Some(Monotonic(9000))), [A]);
    }

    #[test]
    fn a_removed_session_never_expires() {
        let mut queue = ExpiryQueue::new(2000);
        queue.put(A, Monotonic(4000));
        queue.remove(A);
        assert!(queue.expired(Monotonic(60_000), 9, |_| Some(Monotonic(4000))).is_empty());
    }

    #[test]
    fn a_longer_timeout_leaves_the_old_bucket_stale() {
        let mut queue = ExpiryQueue::new(2000);
        queue.put(A, Monotonic(4000));
        queue.put(A, Monotonic(40_000));
        let mut all = Vec::new();
        assert!(
            queue
                .walk(ExpiryPlace::default(), 99, |end, session| all.push((end, session)))
                .is_none()
        );
        assert_eq!(all, [(Monotonic(42_000), A)]);
        assert!(queue.expired(Monotonic(6000), 9, |_| Some(Monotonic(40_000))).is_empty());
        assert_eq!(queue.expired(Monotonic(42_000), 9, |_| Some(Monotonic(40_000))), [A]);
    }

    #[test]
    fn a_step_looks_at_some_however_many_there_are() {
        const SESSIONS: i64 = 70_000;
        let mut queue = ExpiryQueue::new(2000);
        (1..=SESSIONS).for_each(|id| queue.put(SessionId(id), Monotonic(4000)));
        // All but one were heard of.
        let (mut expired, mut asked) = (Vec::new(), Vec::new());
        while queue.next() == Some(Monotonic(6000)) {
            let mut asked_now = 0;
            expired.extend(queue.expired(Monotonic(6000), 9, |session| {
                asked_now += 1;
                Some(Monotonic(if session == A { 4000 } else { 9000 }))
            }));
            asked.push(asked_now);
        }
        assert_eq!((expired, asked), (vec![A], vec![32_768, 32_768, 4464]));
        assert_eq!(queue.next(), Some(Monotonic(10_000)));
        let mut there = 0;
        assert!(queue.walk(ExpiryPlace::default(), usize::MAX, |_, _| there += 1).is_none());
        assert_eq!(there, 69_999);
    }

    #[test]
    fn what_is_beyond_the_limit_expires_the_next_time() {
        let mut queue = ExpiryQueue::new(2000);
        for id in 1..=5 {
            queue.put(SessionId(id), Monotonic(4000));
        }
        let mut expire = |most| queue.expired(Monotonic(6000), most, |_| Some(Monotonic(4000)));
        assert_eq!(
            [expire(2).len(), expire(2).len(), expire(2).len(), expire(2).len()],
            [2, 2, 1, 0]
        );
        assert_eq!(queue.next(), None);
    }

    #[test]
    fn sessions_are_walked_a_few_at_a_time() {
        let mut queue = ExpiryQueue::new(10);
        let expected: Vec<(Monotonic, SessionId)> = (0..50)
            .map(|number| (Monotonic((number / 7 + 1) * 10), SessionId(number.cast_signed())))
            .collect();
        for (end, session) in &expected {
            queue.put(*session, Monotonic(end.0 - 1));
            // It was in an earlier bucket before.
            queue.put(SessionId(session.0 + 100), Monotonic(1));
            queue.remove(SessionId(session.0 + 100));
        }
        for most in [1, 3, 7, 200] {
            let (mut all, mut place) = (Vec::new(), Some(ExpiryPlace::default()));
            while let Some(from) = place {
                let before = all.len();
                place = queue.walk(from, most, |end, session| all.push((end, session)));
                assert!(all.len() - before <= most);
            }
            assert_eq!(all, expected, "{most} at a time");
        }
    }
}
