//! The orderer's view of sessions: who owns each, which are closing, when they expire (reference 9).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;

use super::expiry::ExpiryQueue;
use super::session::{SessionId, Sessions};
use super::time::Monotonic;
use super::watch::ConnectionId;

/// When a session was last heard of. Its connection writes it, the orderer looks at it when the session is due.
#[derive(Debug, Default)]
pub struct Heard(AtomicU64);

impl Heard {
    /// The session showed a sign of life.
    pub fn touch(&self, now: Monotonic) {
        self.0.store(now.0, Ordering::Relaxed);
    }

    fn last(&self) -> Monotonic {
        Monotonic(self.0.load(Ordering::Relaxed))
    }
}

/// A session as its orderer sees it.
#[derive(Debug)]
struct Tracked {
    timeout_ms: u64,
    /// The connection that may write for it; none since the start of this server.
    owner: Option<ConnectionId>,
    /// From the preparing of closeSession on: nothing more is taken from it.
    closing: bool,
    heard: Arc<Heard>,
}

/// Why a request of a session is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotTaken {
    Unknown,
    Closing,
    /// Another connection owns the session.
    Moved,
}

/// All sessions.
#[derive(Debug)]
pub(super) struct SessionTracker {
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
}

impl SessionTracker {
    /// Every session of the table, with its full timeout ahead. `first_id` is the id of the next new one.
    pub(super) fn new(sessions: &Sessions, tick_ms: u64, first_id: i64, now: Monotonic) -> Self {
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
        let tracked = Tracked { timeout_ms, owner, closing: false, heard: Arc::clone(&heard) };
        self.sessions.insert(session, tracked);
        heard
    }

    /// A new session, owned by `owner`.
    pub(super) fn open(
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
        Attached { session, timeout_ms, heard, previous: None }
    }

    /// Hands a session to a new connection; `None` where it does not exist or is closing.
    pub(super) fn attach(
        &mut self,
        session: SessionId,
        timeout_ms: i32,
        owner: ConnectionId,
        now: Monotonic,
    ) -> Option<Attached> {
        let tracked = self.sessions.get_mut(&session).filter(|tracked| !tracked.closing)?;
        tracked.timeout_ms = u64::try_from(timeout_ms).unwrap_or(0);
        tracked.heard.touch(now);
        self.expiry.put(session, now.plus(tracked.timeout_ms));
        let previous = tracked.owner.replace(owner);
        Some(Attached { session, timeout_ms, heard: Arc::clone(&tracked.heard), previous })
    }

    /// Whether a connection may have something done for a session.
    pub(super) fn check(&self, session: SessionId, by: ConnectionId) -> Result<(), NotTaken> {
        let tracked = self.sessions.get(&session).ok_or(NotTaken::Unknown)?;
        if tracked.closing {
            Err(NotTaken::Closing)
        } else if tracked.owner != Some(by) {
            Err(NotTaken::Moved)
        } else {
            Ok(())
        }
    }

    /// From here on nothing more is taken from the session. Whether it was there and not closing yet.
    pub(super) fn begin_close(&mut self, session: SessionId) -> bool {
        self.expiry.remove(session);
        self.sessions
            .get_mut(&session)
            .is_some_and(|tracked| !std::mem::replace(&mut tracked.closing, true))
    }

    /// The session is gone. Gives the connection that owned it.
    pub(super) fn closed(&mut self, session: SessionId) -> Option<ConnectionId> {
        self.sessions.remove(&session).and_then(|tracked| tracked.owner)
    }

    /// When to ask for expired sessions next.
    pub(super) fn next_expiry(&self) -> Option<Monotonic> {
        self.expiry.next()
    }

    /// Sessions that were not heard of for their timeout. `late_ms` is how long this server itself stood still: it
    /// is given to every session on top.
    pub(super) fn expired(&mut self, now: Monotonic, late_ms: u64) -> Vec<SessionId> {
        if late_ms > 0 {
            for tracked in self.sessions.values() {
                tracked.heard.touch(tracked.heard.last().plus(late_ms).min(now));
            }
        }
        let sessions = &self.sessions;
        self.expiry.expired(now, |session| {
            let tracked = sessions.get(&session)?;
            Some(tracked.heard.last().plus(tracked.timeout_ms))
        })
    }

    /// Sessions, the closing ones included.
    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// The expiry buckets, soonest first.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (Monotonic, Vec<SessionId>)> {
        self.expiry.iter()
    }
}

/// The first session id of a server's life (`SessionTrackerImpl.initializeNextSessionId`): the server in the top
/// byte, then 40 bits of time. The wall clock goes in, because ids must not come again after a reboot.
#[must_use]
pub const fn first_session_id(server_id: u8, wall_ms: i64) -> i64 {
    let time = (wall_ms.cast_unsigned() << 24) >> 8;
    ((server_id as u64) << 56 | time).cast_signed()
}
