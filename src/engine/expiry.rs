//! When sessions expire: in buckets a tick wide (reference 9.2).

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::session::SessionId;
use super::time::Monotonic;

/// Sessions by the end of the bucket that their deadline falls into.
///
/// Touching a session costs nothing here: its last sign of life is looked up when its bucket ends, and a session
/// that was heard of since moves to the bucket of its new deadline.
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
    pub(super) fn new(tick_ms: u64) -> Self {
        Self { tick_ms: tick_ms.max(1), buckets: BTreeMap::new(), bucket_of: HashMap::new() }
    }

    /// The end of the bucket that a deadline falls into: up to a tick behind it.
    const fn bucket(&self, deadline: Monotonic) -> Monotonic {
        Monotonic((deadline.0 / self.tick_ms + 1) * self.tick_ms)
    }

    /// Puts a session where its deadline belongs.
    pub(super) fn put(&mut self, session: SessionId, deadline: Monotonic) {
        let bucket = self.bucket(deadline);
        if self.bucket_of.insert(session, bucket) != Some(bucket) {
            self.buckets.entry(bucket).or_default().push(session);
        }
    }

    /// Forgets a session.
    pub(super) fn remove(&mut self, session: SessionId) {
        self.bucket_of.remove(&session);
    }

    /// When the next bucket ends.
    #[must_use]
    pub(super) fn next(&self) -> Option<Monotonic> {
        self.buckets.first_key_value().map(|(end, _)| *end)
    }

    /// Takes out up to `most` sessions whose bucket has ended and whose deadline, asked for now, has passed. The
    /// others go to the bucket of their deadline; one without a deadline is forgotten.
    pub(super) fn expired(
        &mut self,
        now: Monotonic,
        most: usize,
        mut deadline: impl FnMut(SessionId) -> Option<Monotonic>,
    ) -> Vec<SessionId> {
        let mut expired = Vec::new();
        while expired.len() < most
            && let Some(mut entry) = self.buckets.first_entry()
            && *entry.key() <= now
        {
            let end = *entry.key();
            let Some(session) = entry.get_mut().pop() else {
                entry.remove();
                continue;
            };
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

    /// The buckets with their sessions, soonest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Monotonic, Vec<SessionId>)> {
        self.buckets.iter().filter_map(|(&end, sessions)| {
            let living: Vec<SessionId> = sessions
                .iter()
                .copied()
                .filter(|session| self.bucket_of.get(session) == Some(&end))
                .collect();
            (!living.is_empty()).then_some((end, living))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);

    #[test]
    fn a_session_expires_between_its_timeout_and_a_tick_later() {
        // Reference 9.2: bucket(t) = (t / tick + 1) * tick.
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
        assert_eq!(queue.iter().collect::<Vec<_>>(), [(Monotonic(42_000), vec![A])]);
        assert!(queue.expired(Monotonic(6000), 9, |_| Some(Monotonic(40_000))).is_empty());
        assert_eq!(queue.expired(Monotonic(42_000), 9, |_| Some(Monotonic(40_000))), [A]);
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
}
