//! Clients that read only, which a member has while it has no leader (`ReadOnlyZooKeeperServer`).
//!
//! What they read is the applied state: all of it is final, and what is not known to be final is in
//! the log only. It is of any age, which they accept. Where it is not known to be the ensemble's,
//! nobody is shown it.

use jute::protocol::Response;

use super::here::Here;
use super::member::{Member, Transport};
use super::requests::Requests;
use crate::engine::decide::read_only::{ReadOnlySessions, Taken};
use crate::engine::decide::request::Work;
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::engine::zxid::Zxid;
use crate::ensemble::clients::{Clients as _, RequestKind};
use crate::ensemble::queue::Submission;

/// Clients that read only.
#[derive(Debug, Default)]
pub(super) struct ReadOnly {
    /// Their sessions; from the first time on. A client may come back to its own the next time.
    sessions: Option<ReadOnlySessions>,
    /// Whether they are served now.
    is_served: bool,
    /// Since when sessions that live here only are charged for no time: from its beginning until
    /// there is a leader to serve their clients with. Those were closed for it.
    holds_local_since: Option<Monotonic>,
}

impl ReadOnly {
    /// Takes what is its own out of these requests: all, while these clients are served.
    pub(super) fn take(&mut self, submissions: &mut Vec<Submission>, here: &Here, applied: Zxid) {
        let Some(sessions) = &mut self.sessions else { return };
        let is_served = self.is_served;
        submissions.retain(|Submission { origin, work, .. }| {
            let connection = origin.connection;
            if !is_served {
                // Its connection is about to be closed. A leader is asked for the session itself,
                // and knows of none.
                let is_its = sessions.has(origin.session) && !matches!(work, Work::Attach { .. });
                if is_its {
                    here.close(connection);
                }
                return !is_its;
            }
            match sessions.take(origin, work, here.accepts_read_only(connection)) {
                Taken::Attached(attached) => here.attached(connection, &attached),
                Taken::Closed => {
                    let answer = Ok(Response::Empty);
                    here.answer(origin, RequestKind::Update, applied, None, answer);
                    here.forget(origin.session);
                }
                Taken::Gone => here.no_read_only_session(connection),
                Taken::Refused => here.close(connection),
            }
            false
        });
    }

    /// Sessions that have expired. Those whose clients were sent elsewhere end without a word.
    pub(super) fn expire(&mut self, now: Monotonic, late_ms: u64) -> Vec<SessionId> {
        let Some(sessions) = &mut self.sessions else { return Vec::new() };
        let expired = sessions.expire(now, late_ms);
        if self.is_served { expired } else { Vec::new() }
    }

    /// For how long the others that live here only are not charged for what has passed, `late_ms`
    /// if this server stood still; nothing while they do not expire at all.
    pub(super) fn spares_local(
        &mut self,
        has_leader: bool,
        now: Monotonic,
        late_ms: u64,
    ) -> Option<u64> {
        let is_held = self.is_served || self.holds_local_since.is_some() && !has_leader;
        if is_held {
            let since = Monotonic(now.0.saturating_sub(late_ms));
            self.holds_local_since.get_or_insert(since);
            return None;
        }
        Some(self.holds_local_since.take().map_or(late_ms, |since| now.since(since)))
    }

    /// How many there are, while they are served.
    pub(super) fn count(&self) -> usize {
        self.sessions.as_ref().filter(|_| self.is_served).map_or(0, ReadOnlySessions::count)
    }
}

impl Requests {
    /// From here on clients are served that read only, and nobody else. `first_id` is the id of the
    /// first session that there ever was of the kind, if this is it.
    pub fn begin_read_only(&mut self, first_id: i64) {
        self.serve_nobody();
        let tick_ms = self.tick_ms;
        let new = || ReadOnlySessions::new(tick_ms, first_id);
        self.read_only.sessions.get_or_insert_with(new);
        self.read_only.is_served = true;
    }

    /// There is a leader. Those that only read set their watches again wherever they come to next.
    pub fn end_read_only(&mut self) {
        if std::mem::take(&mut self.read_only.is_served) {
            self.here.close_all();
        }
    }
}

impl<T: Transport> Member<T> {
    /// Whether what is applied may be shown to clients that accept that it is of any age, as far as
    /// this member knows: it hears no leader, and nothing says that the state is not the
    /// ensemble's.
    #[must_use]
    pub fn may_be_read_only(&self) -> bool {
        !self.requests.is_leading()
            && self.consensus.hears_no_leader()
            && !self.consensus.has_ended
            && !self.consensus.lacks_base()
            && !self.trees.is_doubted()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jute::protocol::{Request, SyncRequest};
    use jute::txn::Txn;
    use parking_lot::Mutex;

    use super::*;
    use crate::engine::decide::local::LocalSessions;
    use crate::engine::decide::request::Origin;
    use crate::engine::decide::tracker::Attached;
    use crate::engine::watch::{ConnectionId, Event};
    use crate::ensemble::clients::{Answer, Clients};
    use crate::ensemble::raft::following::Following;
    use crate::ensemble::words::StreamId;

    const A: ConnectionId = ConnectionId::on(1, 1);
    const B: ConnectionId = ConnectionId::on(1, 2);
    /// It does not accept a server that only lets it read.
    const WRITER: ConnectionId = ConnectionId::on(1, 3);

    /// What became of connections.
    #[derive(Default)]
    struct Seen(Mutex<Vec<(ConnectionId, &'static str)>>);

    impl Clients for Seen {
        fn now(&self) -> Monotonic {
            Monotonic(0)
        }

        fn is_open(&self, _: ConnectionId) -> bool {
            true
        }

        fn accepts_read_only(&self, connection: ConnectionId) -> bool {
            connection != WRITER
        }

        fn answer(
            &self,
            origin: &Origin,
            _: RequestKind<'_>,
            zxid: Zxid,
            _: Option<&str>,
            answer: Answer<'_>,
        ) {
            assert!(zxid == Zxid(9) && answer.is_ok());
            self.0.lock().push((origin.connection, "answered"));
        }

        fn attached(&self, connection: ConnectionId, attached: &Attached) {
            let what = if attached.reads_only { "attached" } else { "attached to write" };
            self.0.lock().push((connection, what));
        }

        fn close(&self, connection: ConnectionId) {
            self.0.lock().push((connection, "closed"));
        }

        fn end(&self, _: ConnectionId) {}
        fn events(&self, _: &[Event]) {}
        fn refused_by_quota(&self, _: &str) {}
        fn applies(&self, _: &Txn<'_>) {}
        fn no_session(&self, _: ConnectionId) {}

        fn no_read_only_session(&self, connection: ConnectionId) {
            self.0.lock().push((connection, "gone"));
        }

        fn flush(&self) {}
    }

    struct Bench {
        seen: Arc<Seen>,
        requests: Requests,
    }

    impl Bench {
        fn new() -> Self {
            let seen: Arc<Seen> = Arc::default();
            let here = Arc::new(Here::new(1, Arc::clone(&seen) as _));
            Self { seen, requests: Requests::new(here, 500) }
        }

        /// What becomes of connections by this request.
        fn ask(
            &mut self,
            connection: ConnectionId,
            session: i64,
            work: Work,
        ) -> Vec<(ConnectionId, &'static str)> {
            let (session, identities) = (SessionId(session), Arc::default());
            let origin = Origin { connection, session, xid: 1, identities, received: Monotonic(0) };
            let submission = Submission { origin, work, len: 10, room: None };
            self.requests.submit(vec![submission], Zxid(9));
            self.seen()
        }

        fn seen(&self) -> Vec<(ConnectionId, &'static str)> {
            std::mem::take(&mut *self.seen.0.lock())
        }
    }

    #[test]
    fn without_a_leader_whoever_accepts_it_reads_and_with_one_all_requests_are_its() {
        let (open, attach) = (Work::Open { timeout_ms: 1000 }, Work::Attach { timeout_ms: 1000 });
        let sync = Work::Request(Request::Sync(SyncRequest { path: None }));
        let mut bench = Bench::new();
        // What waits for a leader is let go.
        assert_eq!(bench.ask(WRITER, 0, open.clone()), []);
        assert_eq!(bench.requests.held(), 1);
        bench.requests.begin_read_only(7);
        assert_eq!(bench.seen(), [(WRITER, "closed")]);
        assert_eq!(bench.ask(WRITER, 0, open.clone()), [(WRITER, "closed")]);
        assert_eq!(bench.ask(A, 0, open.clone()), [(A, "attached")]);
        assert_eq!(bench.ask(A, 99, sync.clone()), [(A, "closed")]);
        // The connection that had the session goes.
        assert_eq!(bench.ask(B, 7, attach.clone()), [(A, "closed"), (B, "attached")]);
        assert_eq!((bench.requests.held(), bench.requests.count_local()), (0, 1));

        bench.requests.end_read_only();
        assert_eq!(bench.seen(), [(B, "closed")]);
        // What it still asked is not done, and the leader says what its session is.
        assert_eq!(bench.ask(B, 7, Work::Request(Request::CloseSession)), [(B, "closed")]);
        assert_eq!(
            (bench.ask(A, 7, attach.clone()), bench.ask(A, 0, open.clone())),
            (vec![], vec![])
        );
        assert_eq!(bench.requests.held(), 2);
        bench.requests.end_read_only();
        assert_eq!(bench.seen(), []);

        // The next time it is still there.
        bench.requests.begin_read_only(1000);
        assert_eq!(bench.seen(), [(A, "closed"), (A, "closed")]);
        assert_eq!(bench.ask(B, 7, attach.clone()), [(B, "attached")]);
        let close = Work::Request(Request::CloseSession);
        assert_eq!(bench.ask(B, 7, close), [(B, "answered")]);
        assert_eq!(bench.ask(B, 7, attach.clone()), [(B, "gone")]);
        assert_eq!(bench.ask(B, 99, attach), [(B, "closed")]);
        assert_eq!(bench.ask(A, 0, open), [(A, "attached")]);
        assert_eq!(bench.requests.expire_local(Monotonic(5000), 0), [SessionId(8)]);
        assert_eq!(bench.seen(), [(A, "closed")]);
    }

    #[test]
    fn sessions_that_live_here_only_outlast_the_mode() {
        let mut bench = Bench::new();
        bench.requests.keep_sessions_local(LocalSessions::new(500, 100, false));
        let opened = bench.ask(WRITER, 0, Work::Open { timeout_ms: 1000 });
        assert_eq!(opened, [(WRITER, "attached to write")]);
        assert_eq!(bench.requests.expire_local(Monotonic(200), 0), []);
        bench.requests.begin_read_only(7);
        assert_eq!(bench.seen(), [(WRITER, "closed")]);
        // It stood still before it came to look.
        assert_eq!(bench.requests.expire_local(Monotonic(1900), 1700), []);
        assert_eq!(bench.requests.expire_local(Monotonic(60_000), 0), []);
        bench.requests.end_read_only();
        assert_eq!(bench.requests.expire_local(Monotonic(60_500), 0), []);
        bench.requests.following = Some(Following::new(2, 1, StreamId(1)));
        // From here on it has what it had left: 800 ms.
        assert_eq!(bench.requests.expire_local(Monotonic(61_000), 0), []);
        assert_eq!(bench.requests.expire_local(Monotonic(61_999), 0), []);
        assert_eq!(bench.requests.expire_local(Monotonic(62_000), 0), [SessionId(100)]);
    }

    #[test]
    fn sessions_whose_clients_were_sent_elsewhere_are_not_said_to_expire() {
        let mut bench = Bench::new();
        bench.requests.begin_read_only(7);
        assert_eq!(bench.ask(A, 0, Work::Open { timeout_ms: 1000 }), [(A, "attached")]);
        assert_eq!(bench.requests.count_local(), 1);
        bench.requests.end_read_only();
        assert_eq!(bench.requests.count_local(), 0);
        assert_eq!(bench.requests.expire_local(Monotonic(5000), 0), []);
        bench.requests.begin_read_only(1000);
        assert_eq!(bench.requests.count_local(), 0, "it has ended all the same");
    }

    #[test]
    fn nothing_is_kept_of_sessions_that_clients_have_closed() {
        let mut bench = Bench::new();
        bench.requests.begin_read_only(7);
        for session in 7..107 {
            let opened = bench.ask(A, 0, Work::Open { timeout_ms: 1000 });
            assert_eq!(opened, [(A, "attached")]);
            let closed = bench.ask(A, session, Work::Request(Request::CloseSession));
            assert_eq!(closed, [(A, "answered")]);
        }
        assert_eq!(bench.requests.here.heard_since(Monotonic(0)), []);
        assert_eq!(bench.requests.count_local(), 0);
    }
}
