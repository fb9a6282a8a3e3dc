//! How old a read may be. A member of an ensemble tells a client what it read only if all is
//! applied that had been acknowledged anywhere `syncLimit` before: whatever became of its leader,
//! and of itself, meanwhile.
//!
//! A round of the ensemble that began at t and is over ([`read_index`](super::raft)) shows that
//! what was acknowledged by t is applied. So until t plus `syncLimit` what is read is young enough.
//! When something arrived says nothing: a process that was stopped finds old words in its sockets
//! when it goes on. For the same reason the clock is looked at after the read, and under the hold
//! of the tree that it was made under.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::engine::database::Database;
use crate::engine::time::Monotonic;

/// That what was read of a database is young enough to be told. Only
/// [`Replica::fresh`](super::Replica::fresh) says so, and whatever takes the answer to a read
/// demands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fresh<'a>(PhantomData<&'a Database>);

impl Fresh<'_> {
    /// For what shows nothing of the tree.
    pub const NOTHING_READ: Self = Self(PhantomData);

    /// For a client that accepts a server without a leader: it knows that what it reads can be of
    /// any age.
    pub const READ_ONLY: Self = Self(PhantomData);
}

/// How old the applied state is.
#[derive(Debug)]
pub(super) struct Freshness {
    limit_ms: u64,
    /// When it will be too old; each round that is over puts it off.
    until: AtomicU64,
    /// For those who wait until it is young.
    renewed: Notify,
}

impl Freshness {
    /// Of a state that is not known to be young: it may be so old at most, in milliseconds.
    pub(super) fn new(limit_ms: u64) -> Self {
        Self { limit_ms, until: AtomicU64::new(0), renewed: Notify::new() }
    }

    pub(super) const fn limit_ms(&self) -> u64 {
        self.limit_ms
    }

    /// All is applied that was acknowledged anywhere by then.
    pub(super) fn shows(&self, began: Monotonic) {
        self.until.fetch_max(began.plus(self.limit_ms).0, Ordering::Release);
    }

    /// Wakes who waits, if it is young: after a stop, many a round shows what was. Not under the
    /// hold of the tree: they may be many.
    pub(super) fn wake(&self, now: Monotonic) {
        if self.is_young(now) {
            self.renewed.notify_waiters();
        }
    }

    /// When it will be too old, if no other round is over by then.
    pub(super) fn until(&self) -> Monotonic {
        Monotonic(self.until.load(Ordering::Acquire))
    }

    /// Whoever sees that it is young sees the state that is: it was applied before.
    pub(super) fn is_young(&self, now: Monotonic) -> bool {
        now < self.until()
    }

    /// What was read of a database, if it is young enough after the read.
    pub(super) fn look<'a>(&self, _read: &'a Database, now: Monotonic) -> Option<Fresh<'a>> {
        self.is_young(now).then_some(Fresh(PhantomData))
    }

    /// Until it is young at a turn of the member, from the call on.
    pub(super) fn renewed(&self) -> impl Future<Output = ()> {
        self.renewed.notified()
    }
}
