//! Sessions that live on one server only (`LocalSessionTracker`): no transaction opens or closes
//! them, and they own no ephemeral znode. One that wants to becomes a session of all servers first,
//! if that is allowed.

use std::collections::BTreeSet;

use jute::CreateMode;
use jute::protocol::{CreateRequest, MultiOp, Request};

use super::expiry::ExpiryPlace;
use super::request::{Origin, Work};
use super::tracker::{Attached, SessionTracker};
use crate::engine::session::{SessionId, Sessions};
use crate::engine::time::Monotonic;

/// What becomes of a request of this server's clients.
#[derive(Debug)]
pub enum Taken {
    /// The connection has its session: it is one of this server only.
    Attached(Attached),
    /// Whoever orders is to be asked.
    PassOn(Work),
    /// The connection has to go: its session is another's.
    Close,
}

/// The sessions of one server.
#[derive(Debug)]
pub struct LocalSessions {
    tracker: SessionTracker,
    /// Whether they can become sessions of all servers.
    upgrades: bool,
    /// Those that are to be sessions of all servers, and are not yet as far as is applied here.
    leaving: BTreeSet<SessionId>,
}

impl LocalSessions {
    /// None yet. `first_id` is the id of the first.
    #[must_use]
    pub fn new(tick_ms: u64, first_id: i64, upgrades: bool) -> Self {
        let tracker =
            SessionTracker::new(&Sessions::new(), tick_ms, first_id, Monotonic::default());
        Self { tracker, upgrades, leaving: BTreeSet::new() }
    }

    /// Takes a request of a client of this server.
    pub fn take(&mut self, origin: &Origin, work: Work) -> Taken {
        let (session, connection, now) = (origin.session, origin.connection, origin.received);
        match work {
            Work::Open { timeout_ms } => {
                Taken::Attached(self.tracker.open(timeout_ms, connection, now))
            }
            // Whoever orders knows whether it is one of all servers by now, or was one and has
            // ended.
            Work::Attach { .. } if self.leaving.contains(&session) => Taken::PassOn(work),
            Work::Attach { timeout_ms } => {
                match self.tracker.attach(session, timeout_ms, connection, now) {
                    Some(attached) => Taken::Attached(attached),
                    None => Taken::PassOn(work),
                }
            }
            Work::Request(request) if self.tracker.timeout_ms(session).is_some() => {
                self.request(origin, request)
            }
            work => Taken::PassOn(work),
        }
    }

    fn request(&mut self, origin: &Origin, request: Request<'static>) -> Taken {
        let session = origin.session;
        if self.leaving.contains(&session) {
            return Taken::PassOn(Work::Request(request));
        }
        if self.tracker.check(session, origin.connection).is_err() {
            return Taken::Close;
        }
        if request == Request::CloseSession {
            self.forget(session);
        } else if self.upgrades && creates_ephemeral(&request) {
            self.leaving.insert(session);
            let timeout_ms = self.tracker.timeout_ms(session).unwrap_or_default();
            return Taken::PassOn(Work::Upgrade { timeout_ms, request });
        }
        Taken::PassOn(Work::OfLocal(request))
    }

    /// A session is none of this server's any more: it has become one of all servers, or was one
    /// and has ended.
    pub fn forget(&mut self, session: SessionId) {
        self.tracker.begin_close(session);
        self.tracker.closed(session);
        self.leaving.remove(&session);
    }

    /// Sessions that were not heard of for their timeout, and are no more. `late_ms` is how long
    /// the server itself stood still. Those that are to be sessions of all servers are only
    /// forgotten: whoever orders ends them.
    pub fn expire(&mut self, now: Monotonic, late_ms: u64) -> Vec<SessionId> {
        let mut expired = self.tracker.expired(now, late_ms);
        expired.retain(|session| {
            let is_here = !self.leaving.contains(session);
            self.forget(*session);
            is_here
        });
        expired
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.tracker.len()
    }

    /// Looks at up to `most` sessions and the time at which they expire, soonest first. Gives where
    /// to go on.
    pub fn walk_expiry(
        &self,
        from: ExpiryPlace,
        most: usize,
        each: impl FnMut(Monotonic, SessionId),
    ) -> Option<ExpiryPlace> {
        self.tracker.walk_expiry(from, most, each)
    }
}

/// As `QuorumZooKeeperServer.checkUpgradeSession` has it: containers and times to live do not
/// count.
fn creates_ephemeral(request: &Request<'_>) -> bool {
    let is_ephemeral = |create: &CreateRequest<'_>| {
        CreateMode::from_flags(create.flags).is_some_and(CreateMode::is_ephemeral)
    };
    match request {
        Request::Create(create) | Request::Create2(create) => is_ephemeral(create),
        Request::Multi(ops) => ops.iter().any(|op| match op {
            MultiOp::Create(create) | MultiOp::Create2(create) => is_ephemeral(create),
            _ => false,
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::watch::ConnectionId;

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    fn origin(connection: ConnectionId, session: SessionId) -> Origin {
        Origin { connection, session, xid: 1, identities: Arc::default(), received: Monotonic(0) }
    }

    fn open(local: &mut LocalSessions) -> SessionId {
        let work = Work::Open { timeout_ms: 1000 };
        match local.take(&origin(A, SessionId::NONE), work) {
            Taken::Attached(attached) => attached.session,
            other => panic!("{other:?}"),
        }
    }

    fn create(mode: CreateMode) -> Request<'static> {
        let (path, data, acl) = ("/x".into(), None, None);
        Request::Create(CreateRequest { path, data, acl, flags: mode.flags() })
    }

    fn in_multi(mode: CreateMode) -> Request<'static> {
        match create(mode) {
            Request::Create(create) => Request::Multi(vec![MultiOp::Create2(create)]),
            other => other,
        }
    }

    fn passed(local: &mut LocalSessions, origin: &Origin, request: Request<'static>) -> Work {
        match local.take(origin, Work::Request(request)) {
            Taken::PassOn(work) => work,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_ephemeral_makes_it_a_session_of_all_servers() {
        let mut local = LocalSessions::new(500, 7, true);
        let origin = origin(A, open(&mut local));
        for mode in [CreateMode::Persistent, CreateMode::Container, CreateMode::PersistentWithTtl] {
            for request in [create(mode), in_multi(mode), Request::CloseSession] {
                let mut local = LocalSessions::new(500, 7, true);
                open(&mut local);
                let work = passed(&mut local, &origin, request.clone());
                assert_eq!(work, Work::OfLocal(request));
            }
        }
        for request in [create(CreateMode::Ephemeral), in_multi(CreateMode::EphemeralSequential)] {
            let mut local = LocalSessions::new(500, 7, true);
            open(&mut local);
            let upgrade = Work::Upgrade { timeout_ms: 1000, request: request.clone() };
            assert_eq!(passed(&mut local, &origin, request.clone()), upgrade);
            // From here on it is none of this server's.
            assert_eq!(passed(&mut local, &origin, request.clone()), Work::Request(request));
            let close = passed(&mut local, &origin, Request::CloseSession);
            assert_eq!(close, Work::Request(Request::CloseSession));
            assert_eq!(local.count(), 1);
            local.forget(origin.session);
            assert_eq!(local.count(), 0);
        }
        let mut local = LocalSessions::new(500, 7, false);
        open(&mut local);
        let request = create(CreateMode::Ephemeral);
        assert_eq!(passed(&mut local, &origin, request.clone()), Work::OfLocal(request));
    }

    #[test]
    fn it_moves_between_connections_and_ends_by_itself_or_by_its_client() {
        let mut local = LocalSessions::new(500, 7, true);
        let attach = Work::Attach { timeout_ms: 2000 };
        let session = open(&mut local);
        let attached = local.take(&origin(B, session), attach.clone());
        assert!(matches!(attached, Taken::Attached(attached) if attached.previous == Some(A)));
        let late = local.take(&origin(A, session), Work::Request(Request::Ping));
        assert!(matches!(late, Taken::Close));
        assert_eq!(local.expire(Monotonic(2499), 0), []);
        assert_eq!(local.expire(Monotonic(2500), 0), [session]);
        // Whoever orders knows no such session.
        let gone = local.take(&origin(B, session), attach.clone());
        assert!(matches!(gone, Taken::PassOn(work) if work == attach));

        let session = open(&mut local);
        let close = passed(&mut local, &origin(A, session), Request::CloseSession);
        assert_eq!(close, Work::OfLocal(Request::CloseSession));
        let walked = local.walk_expiry(ExpiryPlace::default(), 9, |_, session| panic!("{session}"));
        assert_eq!((local.count(), walked.is_none()), (0, true));
        // Of one that is to become a session of all servers only whoever orders knows whether it is
        // one, or was one and has ended: that may be applied here late, or never, where a snapshot
        // comes in its place.
        let mut local = LocalSessions::new(500, 7, true);
        let session = open(&mut local);
        passed(&mut local, &origin(A, session), create(CreateMode::Ephemeral));
        let attached = local.take(&origin(B, session), attach.clone());
        assert!(matches!(attached, Taken::PassOn(work) if work == attach));
        for request in [create(CreateMode::Ephemeral), Request::CloseSession] {
            let asked = passed(&mut local, &origin(B, session), request.clone());
            assert_eq!(asked, Work::Request(request));
        }
        // Nor does it end here.
        assert_eq!(local.expire(Monotonic(1499), 0), []);
        assert_eq!(local.count(), 1);
        assert_eq!(local.expire(Monotonic(1500), 0), []);
        assert_eq!(local.count(), 0);
        // A session of all servers is none of this one's.
        let global = passed(&mut local, &origin(A, SessionId(99)), create(CreateMode::Ephemeral));
        assert_eq!(global, Work::Request(create(CreateMode::Ephemeral)));
    }
}
