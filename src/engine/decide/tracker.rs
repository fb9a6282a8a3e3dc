//! The orderer's view of sessions: who owns each, which are closing, when they expire
//! (`SessionTrackerImpl`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;

use super::expiry::{ExpiryPlace, ExpiryQueue};
use crate::engine::session::{SessionId, Sessions};
use crate::engine::time::Monotonic;
use crate::engine::watch::ConnectionId;

/// Sessions that expire in one group: what they own is deleted under one hold and logged at once.
const EXPIRED_AT_ONCE: usize = 256;

/// When a session was last heard of. Its connection writes it, the orderer looks at it when the
/// session is due.
#[derive(Debug, Default)]
pub struct Heard(AtomicU64);

impl Heard {
    /// The session showed a sign of life.
    pub fn touch(&self, now: Monotonic) {
        self.0.store(now.0, Ordering::Relaxed);
    }

    /// Moves the last sign of life to `at`, unless there was a later one.
    fn delay(&self, at: Monotonic) {
        self.0.fetch_max(at.0, Ordering::Relaxed);
    }

    /// The last sign of life.
    #[must_use]
    pub fn last(&self) -> Monotonic {
        Monotonic(self.0.load(Ordering::Relaxed))
    }
}

/// A session as its orderer sees it.
#[derive(Debug)]
struct Tracked {
    timeout_ms: u64,
    /// The connection that may write for it; none since this orderer began.
    owner: Option<ConnectionId>,
    end: End,
    heard: Arc<Heard>,
}

/// How far a session is from its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    NotYet,
    /// It was not heard of for its timeout; its closeSession is still to be prepared. From here on
    /// nothing more is taken from it.
    Due,
    /// Its closeSession is prepared.
    Prepared,
}

#[cfg(test)]
thread_local! {
    /// A planted fault of a test.
    pub(crate) static OWNER_NOT_CHECKED: std::cell::Cell<bool> =
        const { std::cell::Cell::new(false) };
}

/// Why a request of a session is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) enum NotTaken {
    Unknown,
    Closing,
    /// Another connection owns the session.
    Moved,
}

/// All sessions.
#[derive(Debug)]
pub(in crate::engine) struct SessionTracker {
    sessions: HashMap<SessionId, Tracked>,
    expiry: ExpiryQueue,
    /// The last id given out.
    last_id: i64,
}

/// A session that a connection now owns.
#[derive(Debug, Clone)]
pub struct Attached {
    /// The session.
    pub session: SessionId,
    /// Its timeout.
    pub timeout_ms: i32,
    /// To be touched whenever it is heard of.
    pub heard: Arc<Heard>,
    /// The connection that owned it before.
    pub previous: Option<ConnectionId>,
    /// Whether it is a session of a server without a leader, which reads only.
    pub reads_only: bool,
}

impl SessionTracker {
    /// Every session of the table, with its full timeout ahead. `first_id` is the id of the next
    /// new one.
    pub(in crate::engine) fn new(
        sessions: &Sessions,
        tick_ms: u64,
        first_id: i64,
        now: Monotonic,
    ) -> Self {
        let mut tracker = Self {
            sessions: HashMap::new(),
            expiry: ExpiryQueue::new(tick_ms),
            last_id: first_id.wrapping_sub(1),
        };
        for (&session, &timeout_ms) in sessions {
            tracker.track(session, timeout_ms, None, now);
        }
        tracker
    }

    fn track(
        &mut self,
        session: SessionId,
        timeout_ms: i32,
        owner: Option<ConnectionId>,
        now: Monotonic,
    ) -> Arc<Heard> {
        let heard = Arc::new(Heard::default());
        heard.touch(now);
        let timeout_ms = u64::try_from(timeout_ms).unwrap_or(0);
        self.expiry.put(session, now.plus(timeout_ms));
        let tracked = Tracked { timeout_ms, owner, end: End::NotYet, heard: Arc::clone(&heard) };
        self.sessions.insert(session, tracked);
        heard
    }

    /// A new session, owned by `owner`.
    pub(in crate::engine) fn open(
        &mut self,
        timeout_ms: i32,
        owner: ConnectionId,
        now: Monotonic,
    ) -> Attached {
        let session = loop {
            self.last_id = self.last_id.wrapping_add(1);
            let id = SessionId(self.last_id);
            if id != SessionId::NONE && !self.sessions.contains_key(&id) {
                break id;
            }
        };
        let heard = self.track(session, timeout_ms, Some(owner), now);
        Attached { session, timeout_ms, heard, previous: None, reads_only: false }
    }

    /// Takes a session that lived on one server only. Whether it is new here.
    pub(super) fn adopt(
        &mut self,
        session: SessionId,
        timeout_ms: i32,
        owner: ConnectionId,
        now: Monotonic,
    ) -> bool {
        let is_new = !self.sessions.contains_key(&session);
        if is_new {
            self.track(session, timeout_ms, Some(owner), now);
        }
        is_new
    }

    /// The id that was given out last.
    pub(super) const fn last_id(&self) -> i64 {
        self.last_id
    }

    /// The timeout of a session, if there is one.
    pub(in crate::engine) fn timeout_ms(&self, session: SessionId) -> Option<i32> {
        let tracked = self.sessions.get(&session)?;
        Some(i32::try_from(tracked.timeout_ms).unwrap_or(i32::MAX))
    }

    /// Hands a session to a new connection; `None` where it does not exist or is closing.
    pub(in crate::engine) fn attach(
        &mut self,
        session: SessionId,
        timeout_ms: i32,
        owner: ConnectionId,
        now: Monotonic,
    ) -> Option<Attached> {
        let tracked =
            self.sessions.get_mut(&session).filter(|tracked| tracked.end == End::NotYet)?;
        tracked.timeout_ms = u64::try_from(timeout_ms).unwrap_or(0);
        tracked.heard.touch(now);
        self.expiry.put(session, now.plus(tracked.timeout_ms));
        let previous = tracked.owner.replace(owner);
        let heard = Arc::clone(&tracked.heard);
        Some(Attached { session, timeout_ms, heard, previous, reads_only: false })
    }

    /// Whether a connection may have something done for a session. Where nobody owns the session
    /// yet, it does from here on: after an election clients keep their connections
    /// (`SessionTrackerImpl.checkSession`).
    pub(in crate::engine) fn check(
        &mut self,
        session: SessionId,
        by: ConnectionId,
    ) -> Result<(), NotTaken> {
        let tracked = self.sessions.get_mut(&session).ok_or(NotTaken::Unknown)?;
        #[cfg(test)]
        if OWNER_NOT_CHECKED.get() && tracked.end == End::NotYet {
            return Ok(());
        }
        if tracked.end != End::NotYet {
            Err(NotTaken::Closing)
        } else if *tracked.owner.get_or_insert(by) != by {
            Err(NotTaken::Moved)
        } else {
            Ok(())
        }
    }

    /// A session was heard of, by a server that tells of it.
    pub(in crate::engine) fn touch(&self, session: SessionId, now: Monotonic) {
        if let Some(tracked) = self.sessions.get(&session) {
            tracked.heard.touch(now);
        }
    }

    /// The session's closeSession is prepared: from here on nothing more is taken from it. Whether
    /// it was there, and none was before.
    pub(super) fn begin_close(&mut self, session: SessionId) -> bool {
        self.expiry.remove(session);
        self.sessions.get_mut(&session).is_some_and(|tracked| {
            std::mem::replace(&mut tracked.end, End::Prepared) != End::Prepared
        })
    }

    /// The session is gone. Gives the connection that owned it.
    pub(in crate::engine) fn closed(&mut self, session: SessionId) -> Option<ConnectionId> {
        self.sessions.remove(&session).and_then(|tracked| tracked.owner)
    }

    /// When to ask for expired sessions next.
    pub(in crate::engine) fn next_expiry(&self) -> Option<Monotonic> {
        self.expiry.next()
    }

    /// Sessions that were not heard of for their timeout: nothing more is taken from them.
    /// `late_ms` is how long this server itself stood still: it is given to every session on top.
    pub(in crate::engine) fn expired(&mut self, now: Monotonic, late_ms: u64) -> Vec<SessionId> {
        if late_ms > 0 {
            for tracked in self.sessions.values() {
                tracked.heard.delay(tracked.heard.last().plus(late_ms).min(now));
            }
        }
        let sessions = &mut self.sessions;
        let expired = self.expiry.expired(now, EXPIRED_AT_ONCE, |session| {
            let tracked = sessions.get(&session)?;
            Some(tracked.heard.last().plus(tracked.timeout_ms))
        });
        for session in &expired {
            if let Some(tracked) = sessions.get_mut(session) {
                tracked.end = End::Due;
            }
        }
        expired
    }

    /// Sessions, the closing ones included.
    pub(in crate::engine) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Looks at up to `most` sessions and the time at which they expire, soonest first. Gives where
    /// to go on.
    pub(in crate::engine) fn walk_expiry(
        &self,
        from: ExpiryPlace,
        most: usize,
        each: impl FnMut(Monotonic, SessionId),
    ) -> Option<ExpiryPlace> {
        self.expiry.walk(from, most, each)
    }
}

/// The first session id of a server's life (`SessionTrackerImpl.initializeNextSessionId`): the
/// server in the top byte, then 40 bits of time. The wall clock goes in, because ids must not come
/// again after a reboot.
#[must_use]
pub const fn first_session_id(server_id: u8, wall_ms: i64) -> i64 {
    let time = (wall_ms.cast_unsigned() << 24) >> 8;
    ((server_id as u64) << 56 | time).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    fn tracker() -> SessionTracker {
        SessionTracker::new(&Sessions::new(), 500, 100, Monotonic(0))
    }

    #[test]
    fn a_session_that_is_not_heard_of_expires_once() {
        let mut tracker = tracker();
        let opened = tracker.open(1000, A, Monotonic(0));
        opened.heard.touch(Monotonic(600));
        assert_eq!(tracker.next_expiry(), Some(Monotonic(1500)));
        assert!(tracker.expired(Monotonic(1999), 0).is_empty(), "its bucket ends at 2000");
        assert_eq!(tracker.expired(Monotonic(2000), 0), [opened.session]);
        assert!(tracker.begin_close(opened.session));
        assert!(!tracker.begin_close(opened.session));
        assert!(tracker.expired(Monotonic(90_000), 0).is_empty());
    }

    /// What is done about it may take its turn.
    #[test]
    fn a_session_that_is_due_takes_nothing_more() {
        let mut tracker = tracker();
        let session = tracker.open(1000, A, Monotonic(0)).session;
        assert_eq!(tracker.expired(Monotonic(1500), 0), [session]);
        assert_eq!(tracker.check(session, A), Err(NotTaken::Closing));
        assert!(tracker.attach(session, 1000, B, Monotonic(1500)).is_none());
        assert!(tracker.expired(Monotonic(90_000), 0).is_empty());
        assert!(tracker.begin_close(session));
        assert!(!tracker.begin_close(session));
    }

    #[test]
    fn expiry_comes_between_the_timeout_and_a_tick_later() {
        for heard in [0, 1, 499, 500, 501, 999] {
            let mut tracker = tracker();
            let opened = tracker.open(1000, A, Monotonic(0));
            opened.heard.touch(Monotonic(heard));
            let mut now = Monotonic(0);
            while tracker.expired(now, 0).is_empty() {
                now = now.plus(1);
            }
            assert!((heard + 1000..=heard + 1500).contains(&now.0), "{heard}: {now:?}");
        }
    }

    #[test]
    fn a_server_that_stood_still_gives_the_time_back() {
        let mut tracker = tracker();
        let sessions: Vec<SessionId> =
            (0..3).map(|_| tracker.open(1000, A, Monotonic(0)).session).collect();
        // Frozen from 100 on for a minute: nobody could have been heard.
        assert!(tracker.expired(Monotonic(60_100), 60_000).is_empty());
        assert!(tracker.expired(Monotonic(60_999), 0).is_empty());
        let mut expired = tracker.expired(Monotonic(61_500), 0);
        expired.sort_unstable();
        assert_eq!(expired, sessions);
    }

    #[test]
    fn time_given_back_is_not_given_ahead() {
        let mut tracker = tracker();
        let opened = tracker.open(1000, A, Monotonic(0));
        opened.heard.touch(Monotonic(59_900));
        assert!(tracker.expired(Monotonic(60_000), 60_000).is_empty());
        assert_eq!(tracker.expired(Monotonic(61_500), 0), [opened.session]);
    }

    #[test]
    fn a_session_moves_to_the_connection_that_attached_last() {
        let mut tracker = tracker();
        let opened = tracker.open(1000, A, Monotonic(0));
        let session = opened.session;
        assert_eq!((opened.previous, session), (None, SessionId(100)));
        assert_eq!(tracker.check(session, A), Ok(()));
        let attached = tracker.attach(session, 4000, B, Monotonic(200)).unwrap();
        assert_eq!((attached.previous, attached.timeout_ms), (Some(A), 4000));
        assert_eq!(tracker.check(session, A), Err(NotTaken::Moved));
        assert_eq!(tracker.check(session, B), Ok(()));
        // The new timeout holds, and both connections' signs of life are the session's.
        assert!(tracker.expired(Monotonic(4000), 0).is_empty());
        assert!(Arc::ptr_eq(&opened.heard, &attached.heard));
        assert_eq!(tracker.expired(Monotonic(4500), 0), [session]);
    }

    #[test]
    fn a_closing_session_takes_nothing_more() {
        let mut tracker = tracker();
        let session = tracker.open(1000, A, Monotonic(0)).session;
        assert!(tracker.begin_close(session));
        assert_eq!(tracker.check(session, A), Err(NotTaken::Closing));
        assert!(tracker.attach(session, 1000, B, Monotonic(0)).is_none());
        assert_eq!(tracker.len(), 1);
        assert_eq!(tracker.closed(session), Some(A));
        assert_eq!(tracker.closed(session), None);
        assert_eq!(tracker.check(session, A), Err(NotTaken::Unknown));
        assert!(tracker.attach(session, 1000, B, Monotonic(0)).is_none());
        let walked =
            tracker.walk_expiry(ExpiryPlace::default(), 9, |_, session| panic!("{session}"));
        assert_eq!((tracker.len(), walked.is_none()), (0, true));
    }

    #[test]
    fn sessions_of_before_have_their_timeout_ahead_and_no_owner() {
        let sessions = Sessions::from([(SessionId(100), 1000), (SessionId(101), 2000)]);
        let mut tracker = SessionTracker::new(&sessions, 500, 100, Monotonic(7000));
        let attached = tracker.attach(SessionId(100), 1000, A, Monotonic(7000)).unwrap();
        assert_eq!(attached.previous, None);
        // Whoever asks first owns it.
        assert_eq!(tracker.check(SessionId(101), B), Ok(()));
        assert_eq!(tracker.check(SessionId(101), A), Err(NotTaken::Moved));
        // Ids that are taken are not given out.
        assert_eq!(tracker.open(1000, B, Monotonic(7000)).session, SessionId(102));
        assert!(tracker.expired(Monotonic(8000), 0).is_empty());
        assert_eq!(tracker.expired(Monotonic(9500), 0).len(), 3);
    }

    #[test]
    fn first_ids_are_zookeepers() {
        // `SessionTrackerImpl.initializeNextSessionId`.
        assert_eq!(first_session_id(1, 0x15_6bad), 0x0100_0015_6bad_0000_u64.cast_signed());
        assert_eq!(first_session_id(255, -1).cast_unsigned() >> 56, 255);
    }
}
