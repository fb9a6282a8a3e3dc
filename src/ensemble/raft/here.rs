//! The clients of this member, among those of all. What is for others' clients goes no further than
//! here: their own member tells them, when it has applied the same.

use std::borrow::Cow;
use std::sync::Arc;

use hashbrown::HashMap;
use jute::txn::Txn;
use parking_lot::Mutex;

use crate::engine::decide::request::Origin;
use crate::engine::decide::tracker::{Attached, Heard};
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::engine::watch::{ConnectionId, Event};
use crate::engine::zxid::Zxid;
use crate::ensemble::clients::{Answer, Clients, RequestKind};

/// A session with a connection to this member.
#[derive(Debug)]
struct Session {
    connection: ConnectionId,
    heard: Arc<Heard>,
}

/// This member's clients.
pub(super) struct Here {
    server: u8,
    clients: Arc<dyn Clients>,
    sessions: Mutex<HashMap<SessionId, Session>>,
    /// Connections to other members that have to be closed.
    disowned: Mutex<Vec<ConnectionId>>,
}

impl Here {
    pub(super) fn new(server: u8, clients: Arc<dyn Clients>) -> Self {
        Self { server, clients, sessions: Mutex::default(), disowned: Mutex::default() }
    }

    pub(super) const fn has(&self, connection: ConnectionId) -> bool {
        connection.server() == self.server
    }

    /// Sessions that were heard of since `since`.
    pub(super) fn heard_since(&self, since: Monotonic) -> Vec<SessionId> {
        let mut sessions = self.sessions.lock();
        sessions.retain(|_, session| self.clients.is_open(session.connection));
        let is_new = |session: &Session| session.heard.last() >= since;
        let heard = sessions.iter().filter(|(_, session)| is_new(session));
        let mut heard: Vec<SessionId> = heard.map(|(id, _)| *id).collect();
        heard.sort_unstable();
        heard
    }

    /// The session is no more: neither is its connection.
    pub(super) fn session_closed(&self, session: SessionId) {
        let gone = self.sessions.lock().remove(&session);
        if let Some(Session { connection, .. }) = gone {
            self.clients.close(connection);
        }
    }

    /// The session is no more. Its connection stays for its last words.
    pub(super) fn forget(&self, session: SessionId) {
        self.sessions.lock().remove(&session);
    }

    /// Closes every connection that has a session.
    pub(super) fn close_all(&self) {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        let mut connections: Vec<ConnectionId> =
            sessions.into_values().map(|session| session.connection).collect();
        connections.sort_unstable();
        connections.into_iter().for_each(|connection| self.clients.close(connection));
    }

    /// Connections to other members that lost their session since the last call.
    pub(super) fn take_disowned(&self) -> Vec<ConnectionId> {
        std::mem::take(&mut *self.disowned.lock())
    }
}

impl Clients for Here {
    fn now(&self) -> Monotonic {
        self.clients.now()
    }

    fn is_open(&self, connection: ConnectionId) -> bool {
        self.has(connection) && self.clients.is_open(connection)
    }

    fn accepts_read_only(&self, connection: ConnectionId) -> bool {
        self.has(connection) && self.clients.accepts_read_only(connection)
    }

    fn events(&self, events: &[Event]) {
        self.clients.events(events);
    }

    fn answer(
        &self,
        origin: &Origin,
        kind: RequestKind<'_>,
        zxid: Zxid,
        path: Option<&str>,
        answer: Answer<'_>,
    ) {
        if self.has(origin.connection) {
            self.clients.answer(origin, kind, zxid, path, answer);
        }
    }

    fn refused_by_quota(&self, limited: &str) {
        self.clients.refused_by_quota(limited);
    }

    fn applies(&self, txn: &Txn<'_>) {
        self.clients.applies(txn);
    }

    fn attached(&self, connection: ConnectionId, attached: &Attached) {
        if self.has(connection) {
            let heard = Arc::clone(&attached.heard);
            let session = Session { connection, heard };
            let before = self.sessions.lock().insert(attached.session, session);
            // A leader that was elected meanwhile does not know of it.
            if let Some(before) = before.filter(|before| before.connection != connection) {
                self.clients.close(before.connection);
            }
            self.clients.attached(connection, attached);
        }
    }

    fn no_session(&self, connection: ConnectionId) {
        if self.has(connection) {
            self.clients.no_session(connection);
        }
    }

    fn no_read_only_session(&self, connection: ConnectionId) {
        if self.has(connection) {
            self.clients.no_read_only_session(connection);
        }
    }

    fn ephemerals_end(&self, session: SessionId, paths: &[Cow<'_, str>]) {
        self.clients.ephemerals_end(session, paths);
    }

    fn end(&self, connection: ConnectionId) {
        if self.has(connection) {
            self.clients.end(connection);
        }
    }

    fn close(&self, connection: ConnectionId) {
        if self.has(connection) {
            self.clients.close(connection);
        } else {
            self.disowned.lock().push(connection);
        }
    }

    fn flush(&self) {
        self.clients.flush();
    }
}
