//! What clients have not read yet: answers and events that wait in outboxes, long lists, and large
//! answers that are being made. There is one budget for all of it, in bytes of memory.
//!
//! When it is used up, whoever has read nothing for the longest goes: not whoever has the most, or
//! many small hoarders would drive out somebody who reads. A little of much is nothing: else
//! whoever took a byte now and then would outlast all those who are blocked for a moment. Who it is
//! stands in a list that changes only when a socket takes no more, or has taken its share again, so
//! that nobody looks through all connections.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::engine::watch::ConnectionId;

/// The budget.
#[derive(Debug)]
pub(in crate::server) struct Unread {
    limit: usize,
    /// The longest frame.
    frame: usize,
    bytes: AtomicUsize,
    /// The most that it has come to.
    highest: AtomicUsize,
    stalled: Mutex<Stalled>,
    /// Those who wait for room for more than a frame have it one after the other.
    pub(in crate::server) turn: tokio::sync::Mutex<()>,
    /// Held while somebody looks for room, so that no two close somebody where one is enough: when
    /// somebody who was blocked just now was closed last for those who wait for a frame.
    pub(in crate::server) look: Mutex<Option<Instant>>,
    waiters: AtomicUsize,
    freed: Notify,
}

/// The connections whose clients leave something unread, in the order in which their sockets took
/// their share last.
#[derive(Debug, Default)]
struct Stalled {
    next: u64,
    in_order: BTreeMap<Rank, ConnectionId>,
}

/// A place in that order: since when, and a number that makes it the only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::server) struct Rank {
    since: Instant,
    number: u64,
}

/// Who has read nothing for the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct Longest {
    pub(in crate::server) rank: Rank,
    pub(in crate::server) connection: ConnectionId,
}

impl Unread {
    pub(in crate::server) fn new(limit: usize, frame: usize) -> Self {
        Self {
            limit,
            frame,
            bytes: AtomicUsize::new(0),
            highest: AtomicUsize::new(0),
            stalled: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            look: Mutex::default(),
            waiters: AtomicUsize::new(0),
            freed: Notify::new(),
        }
    }

    /// The bytes that there may be.
    pub(in crate::server) const fn limit(&self) -> usize {
        self.limit
    }

    /// What one piece of it counts for at most: what is larger than the budget is sent, too.
    pub(in crate::server) const fn half(&self) -> usize {
        self.limit / 2
    }

    /// What one client may leave unread of events, or one multiRead may give.
    pub(in crate::server) const fn quarter(&self) -> usize {
        self.limit / 4
    }

    /// Whether an answer is no longer than a znode's may be.
    pub(super) const fn is_a_frame(&self, bytes: usize) -> bool {
        bytes <= self.frame
    }

    /// What nobody waits for. The rest is for what cannot wait, events and small answers, and for
    /// those who waited for a frame.
    const fn free(&self) -> usize {
        self.limit / 4 * 3
    }

    pub(in crate::server) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(in crate::server) fn highest(&self) -> usize {
        self.highest.load(Ordering::Relaxed)
    }

    /// Whether more waits than may.
    pub(in crate::server) fn is_over(&self) -> bool {
        self.bytes() > self.limit
    }

    /// Whether large answers wait for room.
    pub(in crate::server) fn is_scarce(&self) -> bool {
        self.bytes() > self.free()
    }

    /// Counts what cannot wait for room.
    pub(in crate::server) fn add(&self, bytes: usize) {
        let now = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if now > self.highest() {
            self.highest.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// It was read, or dropped.
    pub(super) fn give_back(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        if self.waiters.load(Ordering::Relaxed) > 0 {
            self.freed.notify_one();
        }
    }

    /// Takes room for an answer, if there is some.
    pub(in crate::server) fn try_take(self: &Arc<Self>, bytes: usize) -> Option<Claim> {
        self.try_take_of(self.free(), bytes)
    }

    /// The same for somebody who waits for it: no more than a frame is taken of all that there is.
    pub(super) fn try_take_waited(self: &Arc<Self>, bytes: usize) -> Option<Claim> {
        let of = if self.is_a_frame(bytes) { self.limit } else { self.free() };
        let taken = self.try_take_of(of, bytes)?;
        // There may be enough for the next one, too.
        self.wake();
        Some(taken)
    }

    fn try_take_of(self: &Arc<Self>, most: usize, bytes: usize) -> Option<Claim> {
        let bytes = bytes.min(self.half());
        let take = |now: usize| Some(now + bytes).filter(|sum| *sum <= most);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        self.highest.fetch_max(self.bytes(), Ordering::Relaxed);
        Some(Claim { unread: Arc::clone(self), bytes })
    }

    /// Takes room for an answer that is there already.
    pub(in crate::server) fn take(self: &Arc<Self>, bytes: usize) -> Claim {
        let bytes = bytes.min(self.half());
        self.add(bytes);
        Claim { unread: Arc::clone(self), bytes }
    }

    /// Waits until something is given back, or for so long.
    pub(in crate::server) async fn wait(&self, most: Duration) {
        let _waiter = Waiter::new(&self.waiters);
        let _ = tokio::time::timeout(most, self.freed.notified()).await;
    }

    /// The socket of a connection has just taken its share or, without a rank before, has just not
    /// taken something; it has stood still for so long.
    pub(in crate::server) fn stall(
        &self,
        before: Option<Rank>,
        connection: ConnectionId,
        stood: Duration,
    ) -> Rank {
        let mut stalled = self.stalled.lock();
        if let Some(before) = before {
            stalled.in_order.remove(&before);
        }
        stalled.next += 1;
        let now = Instant::now();
        let since = now.checked_sub(stood).unwrap_or(now);
        let rank = Rank { since, number: stalled.next };
        stalled.in_order.insert(rank, connection);
        rank
    }

    /// The connection of this rank is not offered anything for now. Gives how long it has stood
    /// still.
    pub(in crate::server) fn pause(&self, rank: Rank) -> Duration {
        self.leave(rank);
        rank.since.elapsed()
    }

    /// Nothing waits for the connection of this rank any more.
    pub(in crate::server) fn leave(&self, rank: Rank) {
        self.stalled.lock().in_order.remove(&rank);
    }

    /// Who has read nothing for the longest, if that is so long.
    pub(in crate::server) fn longest(&self, at_least: Duration) -> Option<Longest> {
        let stalled = self.stalled.lock();
        let (rank, connection) = stalled.in_order.first_key_value()?;
        let is_long = at_least.is_zero() || rank.since.elapsed() >= at_least;
        is_long.then_some(Longest { rank: *rank, connection: *connection })
    }
}

/// Somebody waits, until he has what he waits for or is gone.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn new(waiters: &'a AtomicUsize) -> Self {
        waiters.fetch_add(1, Ordering::Relaxed);
        Self(waiters)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Room that was taken, until it is dropped.
#[derive(Debug)]
pub(in crate::server) struct Claim {
    unread: Arc<Unread>,
    bytes: usize,
}

impl Claim {
    /// Whether it is enough for so many bytes.
    pub(in crate::server) fn is_enough_for(&self, bytes: usize) -> bool {
        self.bytes >= bytes.min(self.unread.half())
    }

    /// Takes another one in.
    pub(in crate::server) fn merge(&mut self, other: Self) {
        self.bytes += other.hand_over();
    }

    /// It turned out to be so much.
    pub(in crate::server) fn resize(&mut self, bytes: usize) {
        let bytes = bytes.min(self.unread.half());
        if bytes > self.bytes {
            self.unread.add(bytes - self.bytes);
        } else {
            self.unread.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// Leaves it to whoever counts it from here on.
    pub(in crate::server) fn hand_over(mut self) -> usize {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.unread.give_back(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(longest: Option<Longest>) -> Option<u64> {
        longest.map(|longest| longest.connection.0)
    }

    #[test]
    fn the_order_is_that_of_what_was_read_last() {
        let unread = Unread::new(100, 100);
        let mut ranks: Vec<Rank> =
            (0..4).map(|number| unread.stall(None, ConnectionId(number), Duration::ZERO)).collect();
        assert_eq!(connection(unread.longest(Duration::ZERO)), Some(0));
        // The first reads something, the second everything.
        ranks[0] = unread.stall(Some(ranks[0]), ConnectionId(0), Duration::ZERO);
        unread.leave(ranks[1]);
        let mut order = Vec::new();
        while let Some(longest) = unread.longest(Duration::ZERO) {
            order.push(longest.connection.0);
            unread.leave(longest.rank);
        }
        assert_eq!(order, [2, 3, 0]);
        unread.stall(None, ConnectionId(9), Duration::ZERO);
        assert_eq!(connection(unread.longest(Duration::from_secs(3600))), None);
    }

    #[test]
    fn who_was_not_offered_anything_for_a_while_has_stood_as_long_as_before() {
        let long = Duration::from_secs(10);
        let unread = Unread::new(100, 100);
        let rank = unread.stall(None, ConnectionId(1), long);
        unread.stall(None, ConnectionId(2), Duration::ZERO);
        assert_eq!(connection(unread.longest(Duration::ZERO)), Some(1));
        let stood = unread.pause(rank);
        assert!(stood >= long);
        assert_eq!(connection(unread.longest(Duration::ZERO)), Some(2));
        unread.stall(None, ConnectionId(1), stood);
        assert_eq!(connection(unread.longest(long)), Some(1));
    }

    #[test]
    fn large_answers_leave_room_for_what_cannot_wait() {
        let unread = Arc::new(Unread::new(1000, 100));
        let first = unread.try_take(400).unwrap();
        assert!(unread.try_take(351).is_none());
        let mut second = unread.try_take(350).unwrap();
        assert_eq!((unread.bytes(), unread.is_scarce()), (750, false));
        unread.add(200);
        assert!(unread.is_scarce() && !unread.is_over());
        second.resize(450);
        assert!(unread.is_over());
        drop(first);
        second.resize(10);
        assert_eq!(unread.bytes(), 210);
        assert_eq!(second.hand_over(), 10);
        assert_eq!(unread.bytes(), 210);
        unread.give_back(210);
        assert_eq!((unread.bytes(), unread.highest()), (0, 1050));
    }

    #[test]
    fn who_waits_for_a_frame_has_it_of_all_that_there_is() {
        let unread = Arc::new(Unread::new(1000, 100));
        let large = [unread.try_take_waited(500).unwrap(), unread.try_take_waited(250).unwrap()];
        assert!(unread.try_take(100).is_none() && unread.try_take_waited(101).is_none());
        let frames = [100, 100, 50].map(|bytes| unread.try_take_waited(bytes).unwrap());
        assert!(unread.try_take_waited(1).is_none());
        drop(large);
        assert_eq!(unread.bytes(), 250);
        drop(frames);
        assert_eq!(unread.bytes(), 0);
    }

    #[test]
    fn what_is_larger_than_all_counts_as_half() {
        let unread = Arc::new(Unread::new(1000, 100));
        let taken = unread.try_take(5000).unwrap();
        assert_eq!(taken.bytes, 500);
        assert!(taken.is_enough_for(5000) && !unread.take(499).is_enough_for(500));
        assert!(unread.try_take(5000).is_none());
        assert_eq!(unread.take(5000).bytes, 500);
    }
}
