//! What a client sent: a word, or a connect request and the requests after it.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use jute::OpCode;
use jute::protocol::{ConnectRequest, LENGTH_LEN, RequestHeader};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::connection_throttle::Wanted;
use super::frames::Frames;
use super::listings::LongListing;
use super::requests::Requests;
use crate::engine::decide::request::{Origin, Work};
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::engine::zxid::Zxid;
use crate::ensemble::{Fresh, Share, Submission};
use crate::message::MessageId;
use crate::planted;
use crate::server::client::audit;
use crate::server::client::connection::Connection;
use crate::server::client::unread::Claim;
use crate::server::figures::series::{Counter, Measure};
use crate::server::figures::stats;
use crate::server::intake::rooms::QueueShare;
use crate::server::operator::four_letter;
use crate::server::role::Role;
use crate::server::shared::Server;

/// What the connection's task does next.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::server) enum Step {
    /// Read from the socket.
    NeedsBytes,
    /// Wait until the orderer has answered everything.
    Drain,
    /// Wait until the client has read some of its answers.
    Full,
    /// Get this share of the queue's room.
    NeedsRoom(QueueShare),
    /// Get this many bytes of what clients may leave unread.
    NeedsUnread(usize),
    /// Get a round of the ensemble: what is read now would be too old.
    NeedsRound,
    /// Get this many bytes of the audit log's room.
    NeedsAuditRoom(usize),
    /// Come back at once: others had to have a turn.
    Again,
    /// Make the long listing that is first.
    List(Box<LongListing>),
    /// Watch the many paths of the setWatches that is first.
    WatchAgain,
    /// Send what a word is answered with, piece by piece.
    Word(four_letter::Word),
    /// Send what waits, then close.
    Leave,
    /// Close.
    HangUp,
}

/// What a client sent.
pub(in crate::server) struct Inbox {
    server: Arc<Server>,
    frames: Frames,
    requests: Requests,
    /// Nothing was read yet: four letters may come.
    is_new: bool,
    /// The connect request passed the throttle.
    is_let_through: bool,
    /// The connect request was taken.
    is_connected: bool,
}

impl Inbox {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self {
            requests: Requests::new(Arc::clone(&server)),
            server,
            frames: Frames::new(),
            is_new: true,
            is_let_through: false,
            is_connected: false,
        }
    }

    /// One that a client sent these frames to.
    #[cfg(test)]
    pub(in crate::server) fn holding(server: Arc<Server>, frames: bytes::BytesMut) -> Self {
        Self { frames: Frames::holding(frames), ..Self::new(server) }
    }

    /// Reads what the socket has, a piece. False at its end.
    pub(super) fn read(&mut self, socket: &TcpStream) -> io::Result<bool> {
        let read = self.frames.read(socket)?;
        if let Some(read) = read.filter(|read| *read > 0) {
            self.server.stats.series.count(Counter::BytesReceived, read as u64);
        }
        Ok(read.is_some())
    }

    /// There is room in the queue for the request that is first.
    pub(super) fn grant_room(&mut self, room: OwnedSemaphorePermit) {
        self.requests.grant_room(room);
    }

    /// There is room for the large answer that is to come next.
    pub(super) fn grant(&mut self, taken: Claim) {
        self.requests.grant(taken);
    }

    /// The same in the audit log for the change that is to come next.
    pub(super) fn grant_audit(&mut self, held: audit::Held) {
        self.requests.grant_audit(held);
    }

    /// No request is taken any more.
    pub(super) fn leave(&mut self) {
        self.requests.leave();
    }

    /// Whether more may be read after a request that waits.
    pub(super) fn has_place(&self) -> bool {
        self.frames.has_place()
    }

    /// Whether nothing is half read; then the buffers are given back, and else a large one.
    pub(super) fn is_idle(&mut self) -> bool {
        let is_idle = self.frames.is_idle();
        if is_idle {
            self.requests.rest();
        }
        is_idle
    }

    /// When the read that is first came.
    pub(super) fn take_came(&mut self) -> Monotonic {
        self.requests.take_came()
    }

    /// The long listing that is first was answered.
    pub(super) fn listed(&mut self, connection: &Connection, listing: &LongListing) {
        self.requests.listed(&mut self.frames, connection, listing);
    }

    /// Takes the first request out, and counts it as taken: its header, and what follows that.
    pub(super) fn take_first(&mut self, connection: &Connection) -> Option<(RequestHeader, Bytes)> {
        self.requests.take_first(&mut self.frames, connection)
    }

    /// Takes every frame that is here, as far as it goes now.
    pub(in crate::server) fn process(&mut self, connection: &Connection) -> Step {
        if self.is_new
            && let Some(word) = self.frames.bytes().first_chunk::<LENGTH_LEN>()
        {
            if let Some(word) = four_letter::Word::parse(word) {
                return self.word(connection, word);
            }
            self.is_new = false;
        }
        let step = if connection.session().is_some() {
            self.requests.take(&mut self.frames, connection)
        } else if self.is_connected {
            Step::Drain
        } else {
            self.connect(connection)
        };
        self.requests.hand_over();
        step
    }

    /// Answers a four-letter word, once everything that belongs to it is here.
    fn word(&self, connection: &Connection, word: four_letter::Word) -> Step {
        let needed = word.argument_len(&self.server.config.four_letter_words);
        let Some(argument) =
            self.frames.bytes().get(LENGTH_LEN..).filter(|rest| rest.len() >= needed)
        else {
            return Step::NeedsBytes;
        };
        stats::add(&self.server.stats.packets_received, 1);
        connection.counters().received += 1;
        if word.takes_inventory(&self.server) {
            stats::add(&self.server.stats.packets_sent, 1);
            return Step::Word(word);
        }
        let text = word.answer(&self.server, argument);
        // Who has read the answer finds it counted.
        stats::add(&self.server.stats.packets_sent, 1);
        connection.outbox().put_answers(&mut text.as_bytes().into(), None, Fresh::NOTHING_READ);
        connection.outbox().end();
        Step::Leave
    }

    /// Takes the first frame (`ZooKeeperServer.processConnectRequest`).
    fn connect(&mut self, connection: &Connection) -> Step {
        let len = match self.frames.first_len(&self.server, connection) {
            Ok(Some(len)) => len,
            Ok(None) => return Step::NeedsBytes,
            Err(step) => return step,
        };
        let Ok((request, _)) = jute::decode::<ConnectRequest<'_>>(self.frames.payload(len)) else {
            return Step::HangUp;
        };
        let server = &self.server;
        if !server.serves_client(request.read_only == Some(true)) {
            server.stats.series.count(Counter::ClosedWithoutService, 1);
            return Step::HangUp;
        }
        let session = SessionId(request.session_id);
        if !self.is_let_through && !self.passes_throttle(connection, session) {
            return Step::HangUp;
        }
        self.is_let_through = true;
        let seen = Zxid(request.last_zxid_seen);
        if !planted::is("future-zxid") && server.replica.is_behind(seen) {
            tracing::warn!(
                id = %MessageId::CLIENT_AHEAD,
                client = %connection.peer(),
                %seen,
                applied = %server.replica.applied(),
                "refusing a client that has seen a later transaction than this server has"
            );
            return Step::HangUp;
        }
        connection.set_read_only(request.read_only);
        let Some(work) = self.work_of(connection, &request) else {
            connection.refuse_session(server.is_read_only());
            return Step::Leave;
        };
        let share = server.intake.rooms.connect_share(len, &connection.identities());
        let Some(room) = self.requests.take_room(share) else {
            return Step::NeedsRoom(share);
        };
        stats::add(&server.stats.packets_received, 1);
        server.stats.series.count(Counter::ConnectionRequests, 1);
        {
            let mut counters = connection.counters();
            counters.received += 1;
            counters.last_op = Some(OpCode::CreateSession);
        }
        self.is_connected = true;
        let origin = Origin {
            connection: connection.id(),
            session,
            xid: 0,
            identities: connection.identities(),
            received: server.clock.monotonic(),
        };
        let room = Some(Share::new(room, None));
        let identities = origin.identities.bytes();
        let submission = Submission { origin, work, len: len + identities, room };
        self.requests.submit(connection, submission);
        self.frames.advance(len);
        Step::Drain
    }

    /// Whether the throttle lets one more session be opened.
    fn passes_throttle(&self, connection: &Connection, session: SessionId) -> bool {
        let server = &self.server;
        let wanted = match (session, server.sessions_live_here()) {
            (SessionId::NONE, false) => Wanted::Global,
            (SessionId::NONE, true) => Wanted::Local,
            _ => Wanted::Renewed,
        };
        let now = server.clock.monotonic();
        let Some(deficit) = server.intake.connection_throttle.take(wanted, now) else {
            server.stats.series.count(Counter::ConnectionsRejected, 1);
            tracing::warn!(
                id = %MessageId::TOO_MANY_SESSIONS_AT_ONCE,
                client = %connection.peer(),
                "closing a connection: too many sessions are requested (connection_throttle_tokens)"
            );
            return false;
        };
        server.stats.series.record(Measure::TokenDeficit, deficit.into());
        true
    }

    /// What the orderer is to do; `None` for a wrong password.
    fn work_of(&self, connection: &Connection, request: &ConnectRequest<'_>) -> Option<Work> {
        let server = &self.server;
        let session = SessionId(request.session_id);
        let bounds = [server.config.min_session_timeout_ms, server.config.max_session_timeout_ms];
        let [least, most] = bounds.map(|ms| i32::try_from(ms).unwrap_or(i32::MAX));
        let least = if planted::is("no-least-timeout") { 1 } else { least };
        let timeout_ms = request.timeout_ms.max(least).min(most);
        if session == SessionId::NONE {
            return Some(Work::Open { timeout_ms });
        }
        let password = request.password.as_deref().unwrap_or_default();
        if !planted::is("any-password") && !server.passwords.is_right(session, password) {
            tracing::warn!(
                id = %MessageId::WRONG_PASSWORD,
                client = %connection.peer(),
                %session,
                "wrong password for a session"
            );
            return None;
        }
        server.stats.series.count(Counter::ConnectionsRevalidated, 1);
        if matches!(server.role.get(), Role::Follower | Role::Observer) {
            server.stats.series.count(Counter::Revalidations, 1);
        }
        Some(Work::Attach { timeout_ms })
    }
}

#[cfg(test)]
#[path = "inbox_test.rs"]
mod inbox_test;
