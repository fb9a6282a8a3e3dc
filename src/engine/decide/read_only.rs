//! Sessions of a member without a leader, which read only (`ReadOnlyZooKeeperServer`): no
//! transaction opens or closes them, they own nothing in the tree, and no other server knows them.

use jute::protocol::Request;

use super::request::{Origin, Work};
use super::tracker::{Attached, SessionTracker};
use crate::engine::session::{SessionId, Sessions};
use crate::engine::time::Monotonic;

/// What becomes of a request.
#[derive(Debug)]
pub enum Taken {
    /// The connection has its session.
    Attached(Attached),
    /// The client has closed its session.
    Closed,
    /// It asked for a session that was one of these, and is no more.
    Gone,
    /// The connection has to go.
    Refused,
}

/// The sessions.
#[derive(Debug)]
pub struct ReadOnlySessions {
    tracker: SessionTracker,
    first_id: i64,
}

impl ReadOnlySessions {
    /// None yet. `first_id` is the id of the first.
    #[must_use]
    pub fn new(tick_ms: u64, first_id: i64) -> Self {
        let none = Sessions::new();
        let tracker = SessionTracker::new(&none, tick_ms, first_id, Monotonic::default());
        Self { tracker, first_id }
    }

    /// Takes what is asked while there is no leader; `accepts_it` if the client accepts a server
    /// that only lets it read. A session that was never one of these is not refused but left
    /// alone: it may live where the majority is.
    pub fn take(&mut self, origin: &Origin, work: &Work, accepts_it: bool) -> Taken {
        let (session, connection, now) = (origin.session, origin.connection, origin.received);
        let attached = match work {
            Work::Open { timeout_ms } if accepts_it => {
                Some(self.tracker.open(*timeout_ms, connection, now))
            }
            Work::Attach { timeout_ms } if accepts_it => {
                let attached = self.tracker.attach(session, *timeout_ms, connection, now);
                if attached.is_none() && self.was_given(session) {
                    return Taken::Gone;
                }
                attached
            }
            Work::Request(Request::CloseSession)
                if self.tracker.check(session, connection).is_ok() =>
            {
                self.forget(session);
                return Taken::Closed;
            }
            _ => None,
        };
        match attached {
            Some(attached) => Taken::Attached(Attached { reads_only: true, ..attached }),
            None => Taken::Refused,
        }
    }

    /// Whether there is this one.
    #[must_use]
    pub fn has(&self, session: SessionId) -> bool {
        self.tracker.timeout_ms(session).is_some()
    }

    /// Whether this one was ever one of these.
    fn was_given(&self, session: SessionId) -> bool {
        (self.first_id..=self.tracker.last_id()).contains(&session.0)
    }

    fn forget(&mut self, session: SessionId) {
        self.tracker.begin_close(session);
        self.tracker.closed(session);
    }

    /// Sessions that were not heard of for their timeout, and are no more. `late_ms` is how long
    /// the server itself stood still.
    pub fn expire(&mut self, now: Monotonic, late_ms: u64) -> Vec<SessionId> {
        let expired = self.tracker.expired(now, late_ms);
        expired.iter().for_each(|session| self.forget(*session));
        expired
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.tracker.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jute::protocol::SyncRequest;

    use super::*;
    use crate::engine::watch::ConnectionId;

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    fn origin(connection: ConnectionId, session: SessionId) -> Origin {
        Origin { connection, session, xid: 1, identities: Arc::default(), received: Monotonic(0) }
    }

    fn attached(taken: Taken) -> Attached {
        match taken {
            Taken::Attached(attached) => attached,
            other => panic!("{other:?}"),
        }
    }

    fn is_refused(taken: &Taken) -> bool {
        matches!(taken, Taken::Refused)
    }

    #[test]
    fn only_who_accepts_it_has_a_session_and_only_its_own() {
        let mut sessions = ReadOnlySessions::new(500, 7);
        let (open, attach) = (Work::Open { timeout_ms: 1000 }, Work::Attach { timeout_ms: 2000 });
        assert!(is_refused(&sessions.take(&origin(A, SessionId::NONE), &open, false)));
        let opened = attached(sessions.take(&origin(A, SessionId::NONE), &open, true));
        assert!(opened.reads_only && opened.session == SessionId(7) && opened.timeout_ms == 1000);

        // It moves to who comes with it, and to nobody who wants more.
        assert!(is_refused(&sessions.take(&origin(B, opened.session), &attach, false)));
        let again = attached(sessions.take(&origin(B, opened.session), &attach, true));
        assert!(again.reads_only && again.session == opened.session);
        assert_eq!((again.previous, again.timeout_ms), (Some(A), 2000));
        // What is none of these may live elsewhere.
        assert!(is_refused(&sessions.take(&origin(B, SessionId(8)), &attach, true)));
        assert!(sessions.has(SessionId(7)) && !sessions.has(SessionId(8)));
    }

    #[test]
    fn nothing_is_ordered_and_a_session_ends_by_its_client_or_by_itself() {
        let mut sessions = ReadOnlySessions::new(500, 7);
        let open = Work::Open { timeout_ms: 1000 };
        let session = attached(sessions.take(&origin(A, SessionId::NONE), &open, true)).session;
        let sync = Work::Request(Request::Sync(SyncRequest { path: Some("/".into()) }));
        assert!(is_refused(&sessions.take(&origin(A, session), &sync, true)));
        let close = Work::Request(Request::CloseSession);
        assert!(is_refused(&sessions.take(&origin(B, session), &close, true)), "it is not its own");
        assert!(matches!(sessions.take(&origin(A, session), &close, true), Taken::Closed));
        assert!(is_refused(&sessions.take(&origin(A, session), &close, true)));
        assert_eq!(sessions.count(), 0);

        let session = attached(sessions.take(&origin(A, SessionId::NONE), &open, true)).session;
        assert_eq!(session, SessionId(8), "no id comes again");
        // Who asks for one that is no more hears so, and else asks again and again.
        let attach = Work::Attach { timeout_ms: 1000 };
        assert!(matches!(sessions.take(&origin(B, SessionId(7)), &attach, true), Taken::Gone));
        for (other, accepts_it) in [(6, true), (9, true), (7, false)] {
            let taken = sessions.take(&origin(B, SessionId(other)), &attach, accepts_it);
            assert!(is_refused(&taken), "{other}");
        }
        assert_eq!(sessions.expire(Monotonic(1499), 0), []);
        assert_eq!(sessions.expire(Monotonic(1500), 0), [session]);
        assert_eq!(sessions.count(), 0);
    }
}
