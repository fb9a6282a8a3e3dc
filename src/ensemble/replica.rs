//! The applied state of this server behind the one lock that everybody shares.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::disk_room::DiskSpace;
use super::freshness::{Fresh, Freshness};
use crate::engine::database::Database;
use crate::engine::time::Monotonic;
use crate::engine::zxid::Zxid;

/// A shared hold: reads, and leaving watches.
pub type Shared<'a> = RwLockReadGuard<'a, Database>;

/// The exclusive hold: applying.
#[derive(Debug)]
pub struct Exclusive<'a> {
    guard: RwLockWriteGuard<'a, Database>,
    applied: &'a AtomicI64,
}

/// The applied state.
#[derive(Debug)]
pub struct Replica {
    database: RwLock<Database>,
    /// The database's last zxid, for those who need no more than that.
    applied: AtomicI64,
    /// There is no memory for a larger tree.
    memory_short: AtomicBool,
    /// How old it is, where others can be ahead of it.
    freshness: Option<Freshness>,
}

impl Replica {
    /// Shares a recovered database, which nobody is ahead of.
    #[must_use]
    pub fn new(database: Database) -> Self {
        let applied = AtomicI64::new(database.last_zxid().0);
        let memory_short = AtomicBool::new(false);
        Self { database: RwLock::new(database), applied, memory_short, freshness: None }
    }

    /// Shares that of a member of an ensemble: what is read of it may be so old at most, in
    /// milliseconds.
    #[must_use]
    pub fn of_member(database: Database, limit_ms: u64) -> Self {
        Self { freshness: Some(Freshness::new(limit_ms)), ..Self::new(database) }
    }

    pub(super) const fn freshness(&self) -> Option<&Freshness> {
        self.freshness.as_ref()
    }

    /// Whether a read is young enough at this time, as far as the state goes that is applied now.
    pub fn is_fresh(&self, now: Monotonic) -> bool {
        self.freshness.as_ref().is_none_or(|its| its.is_young(now))
    }

    /// How old what is read may be at most, in milliseconds. 0 where it is never too old.
    pub fn age_limit_ms(&self) -> u64 {
        self.freshness.as_ref().map_or(0, Freshness::limit_ms)
    }

    /// Until when what is read now may be told.
    pub fn fresh_until(&self) -> Monotonic {
        self.freshness.as_ref().map_or(Monotonic(u64::MAX), Freshness::until)
    }

    /// What the answer to a request must be held against, if it shows something of the tree.
    fn bound(&self, shows_tree: bool) -> Option<&Freshness> {
        self.freshness.as_ref().filter(|_| shows_tree)
    }

    /// Whether a request may be answered now, as far as its age goes. To be asked before it is;
    /// [`Self::fresh`] has the last word.
    pub fn may_answer(&self, shows_tree: bool, now: Monotonic) -> bool {
        self.bound(shows_tree).is_none_or(|its| its.is_young(now))
    }

    /// Looks whether an answer from this state may be told. To be called after the read, with what
    /// the clock shows then, and under the hold.
    #[must_use]
    pub fn fresh<'a>(
        &self,
        read: &'a Database,
        shows_tree: bool,
        now: impl FnOnce() -> Monotonic,
    ) -> Option<Fresh<'a>> {
        match self.bound(shows_tree) {
            Some(its) => its.look(read, now()),
            None => Some(Fresh::NOTHING_READ),
        }
    }

    /// Waits until a turn of the member finds the state young, from the call on; for ever where
    /// there are no rounds.
    pub fn renewed(&self) -> impl Future<Output = ()> {
        let renewed = self.freshness.as_ref().map(Freshness::renewed);
        async {
            match renewed {
                Some(renewed) => renewed.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Takes a shared hold. Once for a batch of requests, and not for long: the orderer waits for
    /// it.
    pub fn shared(&self) -> Shared<'_> {
        self.database.read()
    }

    /// Takes the exclusive hold. Only the orderer does.
    pub fn exclusive(&self) -> Exclusive<'_> {
        Exclusive { guard: self.database.write(), applied: &self.applied }
    }

    /// Says whether there is memory for a larger tree.
    pub fn set_memory_short(&self, is_short: bool) {
        self.memory_short.store(is_short, Ordering::Relaxed);
    }

    /// The room that memory leaves: with none, what makes the tree no larger goes on.
    pub(super) fn memory_room(&self) -> DiskSpace {
        if self.memory_short.load(Ordering::Relaxed) {
            DiskSpace::Scarce
        } else {
            DiskSpace::Enough
        }
    }

    /// As a round that began then, and is over at once.
    #[cfg(test)]
    pub fn shows(&self, began: Monotonic) {
        if let Some(its) = &self.freshness {
            its.shows(began);
            its.wake(began);
        }
    }

    /// As in the midst of a transaction, whose zxid is published before its events are told.
    #[cfg(test)]
    pub fn publish_ahead(&self, zxid: Zxid) {
        Publisher(&self.applied).publish(zxid);
    }

    /// Whether nobody has a hold.
    #[cfg(test)]
    pub(super) fn is_free(&self) -> bool {
        self.database.try_write().is_some()
    }

    /// Whether a client that has seen `seen` would see the past here.
    #[must_use]
    pub fn is_behind(&self, seen: Zxid) -> bool {
        seen > self.applied()
    }

    /// The last transaction applied.
    #[must_use]
    pub fn applied(&self) -> Zxid {
        Zxid(self.applied.load(Ordering::Acquire))
    }
}

impl<'a> Exclusive<'a> {
    /// Publishes zxids while the database is being changed.
    pub(super) const fn publisher(&self) -> Publisher<'a> {
        Publisher(self.applied)
    }

    /// The database.
    pub fn database(&mut self) -> &mut Database {
        &mut self.guard
    }

    /// Puts another database in the place of this one. Gives that one back, to be dropped after
    /// the hold: with a large tree it takes its time.
    #[must_use]
    pub fn install(&mut self, mut database: Database) -> Database {
        database.succeed(&self.guard);
        std::mem::replace(&mut *self.guard, database)
    }

    /// Publishes the last zxid, as dropping the hold does, and lets waiting readers in before it
    /// goes on.
    pub fn bump(&mut self) {
        self.publish();
        RwLockWriteGuard::bump(&mut self.guard);
    }

    fn publish(&self) {
        self.publisher().publish(self.guard.last_zxid());
    }
}

/// Publishes zxids, each before an answer or an event shows it, or its client could come back with
/// it and be refused.
pub(super) struct Publisher<'a>(&'a AtomicI64);

impl Publisher<'_> {
    /// Publishes one whose transaction may still be half applied: nobody reads the tree before the
    /// hold is over.
    pub(super) fn publish(&self, zxid: Zxid) {
        self.0.store(zxid.0, Ordering::Release);
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        self.publish();
    }
}
