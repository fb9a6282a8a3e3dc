//! What a client sent: bytes to frames to requests, and for each the decision who answers it.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use jute::protocol::{
    ConnectRequest, LENGTH_LEN, ReadOp, Request, RequestHeader, Response, SyncRequest, put_event,
    put_refusal, put_reply, xid,
};
use jute::{DecodeError, ErrorCode, IntoStatic as _, OpCode};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::connection_throttle::Wanted;
use super::large_requests::OverBudget;
use super::listings::{Asked, What};
use crate::engine::answer::read;
use crate::engine::answer::read::{Caller, Most};
use crate::engine::decide::request::{Origin, Work};
use crate::engine::effect::Effect;
use crate::engine::path;
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::engine::zxid::Zxid;
use crate::ensemble::{Fresh, Share, Shared, Submission};
use crate::message::MessageId;
use crate::server::client::audit;
use crate::server::client::auth;
use crate::server::client::connection::Connection;
use crate::server::client::unread::{Claim, Unread};
use crate::server::figures::hot_paths::{Sample, Sampler};
use crate::server::figures::namespace::Reads;
use crate::server::figures::series::{Counter, Measure, Series};
use crate::server::figures::stats;
use crate::server::operator::four_letter;
use crate::server::shared::{QueueShare, Role, Server};

/// Bytes read at once; a larger frame comes in several reads, so that memory follows what arrived.
const READ: usize = 8 << 10;
/// The same, while a large frame is on its way.
const READ_LARGE: usize = 64 << 10;
/// Requests answered under one hold, if each costs about what its answer has.
const ANSWERS_A_HOLD: usize = 64;
/// Reads of one connection that may stand with the orderer: it makes their answers before the
/// client has read those ahead.
const READS_IN_FLIGHT: usize = 32;

/// While clients leave much unread, answers above this length wait for room, and reads for what is
/// with the orderer.
const SMALL: usize = 16 << 10;
/// Children that are listed at once then; more are a long listing.
const FEW_CHILDREN: usize = 256;

/// A buffer larger than this is not kept for the next connection.
const SPARE_MAX: usize = 64 << 10;

thread_local! {
    /// The buffers of the connection that was idle last: the next that reads on this thread takes
    /// them, so that idle connections have none and busy ones allocate none.
    static SPARE: Cell<Option<(BytesMut, Vec<Submission>)>> = const { Cell::new(None) };
}

/// What the connection's task does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    List,
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
    bytes: BytesMut,
    /// Nothing was read yet: four letters may come.
    is_new: bool,
    /// The connect request passed the throttle.
    is_let_through: bool,
    /// The connect request was taken.
    is_connected: bool,
    submissions: Vec<Submission>,
    /// When the request that waits for the queue's room began to.
    waits_since: Option<Monotonic>,
    /// When the read that is first came, if it could not be answered at once.
    came: Option<Monotonic>,
    reads_in_flight: usize,
    /// Room for the large answer to what is first.
    granted: Option<Claim>,
    /// Room in the audit log for the change that is first.
    audit_room: Option<audit::Held>,
    /// Whether a read waits for a sync (`linearizableReads`).
    syncs_reads: bool,
    /// Bytes of requests that were here when the last such sync was asked for: the reads in them
    /// may be answered.
    synced_bytes: usize,
    sampler: Sampler,
    reads: Reads,
}

impl Inbox {
    pub(in crate::server) fn new(server: Arc<Server>) -> Self {
        let ensemble = server.config.ensemble.as_ref();
        let syncs_reads = ensemble.is_some_and(|ensemble| ensemble.linearizable_reads);
        Self {
            server,
            bytes: BytesMut::new(),
            is_new: true,
            is_let_through: false,
            is_connected: false,
            submissions: Vec::new(),
            waits_since: None,
            came: None,
            reads_in_flight: 0,
            granted: None,
            audit_room: None,
            syncs_reads,
            synced_bytes: 0,
            sampler: Sampler::default(),
            reads: Reads::default(),
        }
    }

    /// One that a client sent these frames to.
    #[cfg(test)]
    pub(in crate::server) fn holding(server: Arc<Server>, frames: BytesMut) -> Self {
        Self { bytes: frames, ..Self::new(server) }
    }

    /// Reads what the socket has, a piece. False at its end.
    pub(in crate::server) fn read(&mut self, socket: &TcpStream) -> io::Result<bool> {
        if self.bytes.capacity() == 0
            && let Some(spare) = SPARE.take()
        {
            (self.bytes, self.submissions) = spare;
        }
        let piece = if self.bytes.len() >= READ { READ_LARGE } else { READ };
        self.bytes.reserve(piece);
        let room = self.bytes.capacity() - self.bytes.len();
        let mut outcome = Err(io::ErrorKind::WouldBlock.into());
        // A read that leaves room has emptied the socket. To say so spares the read that would find
        // it empty.
        let _ = socket.try_io(Interest::READABLE, || {
            outcome = socket.try_read_buf(&mut self.bytes);
            match outcome {
                Ok(read) if read > 0 && read < room => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        });
        match outcome {
            Ok(0) => Ok(false),
            Ok(read) => {
                self.server.stats.series.count(Counter::BytesReceived, read as u64);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// There is room for the large answer that is to come next.
    pub(super) fn grant(&mut self, taken: Claim) {
        self.granted = Some(taken);
    }

    /// The same in the audit log for the change that is to come next.
    pub(super) fn grant_audit(&mut self, held: audit::Held) {
        self.audit_room = Some(held);
    }

    /// Whether more may be read after a request that waits.
    pub(in crate::server) fn has_place(&self) -> bool {
        self.bytes.len() < READ_LARGE
    }

    /// Whether nothing is half read; then the buffers are given back, and else a large one.
    pub(in crate::server) fn is_idle(&mut self) -> bool {
        if !self.bytes.is_empty() {
            if self.bytes.len() < READ && self.bytes.capacity() > SPARE_MAX {
                self.bytes = BytesMut::from(&*self.bytes);
            }
            return false;
        }
        let buffers = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.submissions));
        if (1..=SPARE_MAX).contains(&buffers.0.capacity()) {
            SPARE.set(Some(buffers));
        }
        true
    }

    /// The payload's length once the whole frame is here.
    fn frame_len(&self, connection: &Connection) -> Result<Option<usize>, Step> {
        let Some(prefix) = self.bytes.first_chunk::<LENGTH_LEN>() else { return Ok(None) };
        let len = i32::from_be_bytes(*prefix);
        match usize::try_from(len) {
            Ok(len) if len <= self.server.config.jute_max_buffer as usize => {
                if let Some(large) = &self.server.large_requests {
                    large.announce(len).map_err(|OverBudget| self.over_budget(connection))?;
                }
                Ok((self.bytes.len() - LENGTH_LEN >= len).then_some(len))
            }
            _ => {
                tracing::warn!(
                    id = %MessageId::FRAME_TOO_LONG,
                    client = %connection.peer(),
                    len,
                    "closing a connection: a frame may have at most {} bytes (jute.maxbuffer)",
                    self.server.config.jute_max_buffer
                );
                Err(Step::HangUp)
            }
        }
    }

    fn over_budget(&self, connection: &Connection) -> Step {
        self.server.stats.series.count(Counter::LargeRequestsRejected, 1);
        tracing::warn!(
            id = %MessageId::LARGE_REQUESTS_TOO_MANY,
            client = %connection.peer(),
            "closing a connection: a large request exceeds largeRequestMaxBytes"
        );
        Step::HangUp
    }

    /// Takes every frame that is here, as far as it goes now.
    pub(in crate::server) fn process(
        &mut self,
        connection: &Connection,
        room: &mut Option<OwnedSemaphorePermit>,
    ) -> Step {
        if self.is_new
            && let Some(word) = self.bytes.first_chunk::<LENGTH_LEN>()
        {
            if let Some(word) = four_letter::Word::parse(word) {
                return self.word(connection, word);
            }
            self.is_new = false;
        }
        let step = if connection.session().is_some() {
            self.requests(connection, room)
        } else if self.is_connected {
            Step::Drain
        } else {
            self.connect(connection, room)
        };
        if !self.submissions.is_empty() {
            self.server.queue.put(&mut self.submissions);
        }
        step
    }

    /// Answers a four-letter word, once everything that belongs to it is here.
    fn word(&self, connection: &Connection, word: four_letter::Word) -> Step {
        let needed = word.argument_len(&self.server.config.four_letter_words);
        let Some(argument) = self.bytes.get(LENGTH_LEN..).filter(|rest| rest.len() >= needed)
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
    fn connect(
        &mut self,
        connection: &Connection,
        room: &mut Option<OwnedSemaphorePermit>,
    ) -> Step {
        let len = match self.frame_len(connection) {
            Ok(Some(len)) => len,
            Ok(None) => return Step::NeedsBytes,
            Err(step) => return step,
        };
        let Ok((request, _)) = jute::decode::<ConnectRequest<'_>>(payload(&self.bytes, len)) else {
            return Step::HangUp;
        };
        let server = &self.server;
        if !server.serves() {
            server.stats.series.count(Counter::ClosedWithoutService, 1);
            return Step::HangUp;
        }
        let session = SessionId(request.session_id);
        if !self.is_let_through {
            let wanted = match (session, server.sessions_live_here()) {
                (SessionId::NONE, false) => Wanted::Global,
                (SessionId::NONE, true) => Wanted::Local,
                _ => Wanted::Renewed,
            };
            let now = server.clock.monotonic();
            let Some(deficit) = server.connection_throttle.take(wanted, now) else {
                server.stats.series.count(Counter::ConnectionsRejected, 1);
                tracing::warn!(
                    id = %MessageId::TOO_MANY_SESSIONS_AT_ONCE,
                    client = %connection.peer(),
                    "closing a connection: too many sessions are requested (connection_throttle_tokens)"
                );
                return Step::HangUp;
            };
            server.stats.series.record(Measure::TokenDeficit, deficit.into());
            self.is_let_through = true;
        }
        if server.replica.is_behind(Zxid(request.last_zxid_seen)) {
            tracing::warn!(
                id = %MessageId::CLIENT_AHEAD,
                client = %connection.peer(),
                seen = %Zxid(request.last_zxid_seen),
                applied = %server.replica.applied(),
                "refusing a client that has seen a later transaction than this server has"
            );
            return Step::HangUp;
        }
        connection.set_wants_read_only(request.read_only.is_some());
        let bounds = [server.config.min_session_timeout_ms, server.config.max_session_timeout_ms];
        let [least, most] = bounds.map(|ms| i32::try_from(ms).unwrap_or(i32::MAX));
        let timeout_ms = request.timeout_ms.max(least).min(most);
        let work = if session == SessionId::NONE {
            Work::Open { timeout_ms }
        } else if server
            .passwords
            .is_right(session, request.password.as_deref().unwrap_or_default())
        {
            server.stats.series.count(Counter::ConnectionsRevalidated, 1);
            if matches!(server.role.get(), Role::Follower | Role::Observer) {
                server.stats.series.count(Counter::Revalidations, 1);
            }
            Work::Attach { timeout_ms }
        } else {
            tracing::warn!(
                id = %MessageId::WRONG_PASSWORD,
                client = %connection.peer(),
                %session,
                "wrong password for a session"
            );
            connection.refuse_session();
            return Step::Leave;
        };
        let share = server.connect_share(len, &connection.identities());
        let Some(room) = take_room(server, room, share) else {
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
        connection.submitted();
        let room = Some(Share::new(room, None));
        let identities = origin.identities.bytes();
        self.submissions.push(Submission { origin, work, len: len + identities, room });
        self.bytes.advance(LENGTH_LEN + len);
        Step::Drain
    }

    /// Takes requests: reads with nothing of the session in flight are answered here, anything else
    /// is submitted.
    fn requests(
        &mut self,
        connection: &Connection,
        room: &mut Option<OwnedSemaphorePermit>,
    ) -> Step {
        let server = Arc::clone(&self.server);
        let received = server.clock.monotonic();
        let mut reads = std::mem::take(&mut self.reads);
        // What is not needed now is not needed.
        let granted = self.granted.take();
        let came = self.came.take().unwrap_or(received);
        let answers = Answers::new(connection, &server, came, granted, &mut reads);
        let step = self.take_requests(connection, room, received, answers);
        reads.flush();
        self.reads = reads;
        step
    }

    fn take_requests(
        &mut self,
        connection: &Connection,
        room: &mut Option<OwnedSemaphorePermit>,
        received: Monotonic,
        mut answers: Answers<'_>,
    ) -> Step {
        let server = answers.server;
        let mut taken = Taken::new(connection, server);
        let mut heard = false;
        self.sampler.begin();
        loop {
            let len = match self.frame_len(connection) {
                Ok(Some(len)) => len,
                Ok(None) => return Step::NeedsBytes,
                Err(step) => return step,
            };
            if connection.is_full(&answers.out) {
                // The client may read nothing for long, and others want that room.
                self.audit_room = None;
                return Step::Full;
            }
            // Not before: events wake the task of a frozen client, too, and find the same frame
            // again.
            if !heard && let Some(session) = connection.session() {
                session.heard.touch(received);
                heard = true;
            }
            let Ok((header, body)) = jute::decode::<RequestHeader>(payload(&self.bytes, len))
            else {
                return Step::HangUp;
            };
            let is_alone = connection.in_flight() == 0;
            if is_alone {
                self.reads_in_flight = 0;
            }
            let is_known = auth::is_enough(&server.config.access, connection, header.op);
            let request = Request::decode(header.op, body);
            let sample = match &request {
                Ok(request) if self.sampler.is_due() => Sample::of(request),
                _ => None,
            };
            let is_late =
                request.as_ref().is_ok_and(|its| !server.replica.may_answer(its, received));
            let audit = server.audit.as_ref();
            let audit = audit
                .filter(|_| request.as_ref().is_ok_and(|its| Effect::of(its) == Effect::Changes));
            let step = match request {
                Ok(_) if is_known && audit.is_some_and(|audit| audit.refuses()) => {
                    if !is_alone {
                        return Step::Drain;
                    }
                    if answers.is_at_end() {
                        return Step::Again;
                    }
                    self.audit_room = None;
                    answers.refuse(
                        header.xid,
                        server.replica.applied(),
                        ErrorCode::OperationTimeout,
                    );
                    None
                }
                Ok(request)
                    if is_known
                        && self.audit_room.is_none()
                        && audit.is_some_and(|audit| !audit.has_room()) =>
                {
                    let (session, address) = (connection.session_id(), connection.peer().ip());
                    let identities = connection.identities();
                    let mut noted = connection.audited();
                    let weight = noted.weight(&request, session, &identities, address);
                    return Step::NeedsAuditRoom(weight);
                }
                Ok(request) if is_known && self.belongs_to_orderer(&request, is_alone, is_late) => {
                    let share = server.share(&request, len, &connection.identities());
                    let Some(room) = take_room(server, room, share) else {
                        self.waits_since.get_or_insert(received);
                        return Step::NeedsRoom(share);
                    };
                    let received = self.waits_since.take().unwrap_or(received);
                    let large = server.large_requests.as_ref().map(|large| large.take(body.len()));
                    let large = match large.transpose() {
                        Ok(share) => share.flatten(),
                        Err(OverBudget) => return self.over_budget(connection),
                    };
                    let room = Share::new(room, large);
                    // Answers made here stand before what the orderer makes of the next request.
                    if !answers.publish() {
                        return Step::Leave;
                    }
                    let request = request.into_static();
                    self.submit(connection, header.xid, request, len, room, received)
                }
                Ok(_) if is_known && is_alone && is_late => {
                    self.came = Some(answers.received);
                    return Step::NeedsRound;
                }
                Ok(request) if is_known && is_alone && self.needs_sync(&request, len) => {
                    let share = server.share(&request, len, &connection.identities());
                    let Some(room) = take_room(server, room, share) else {
                        self.waits_since.get_or_insert(received);
                        return Step::NeedsRoom(share);
                    };
                    let received = self.waits_since.take().unwrap_or(received);
                    if !answers.publish() {
                        return Step::Leave;
                    }
                    connection.begin_own_sync();
                    self.synced_bytes = self.bytes.len();
                    let sync = Request::Sync(SyncRequest { path: None });
                    let room = Share::new(room, None);
                    self.submit(connection, header.xid, sync, 0, room, received);
                    return Step::Drain;
                }
                // What is answered here waits until the orderer is done: answers keep the order of
                // their requests.
                _ if !is_alone => return Step::Drain,
                _ if answers.is_at_end() => return Step::Again,
                _ if !is_known => {
                    answers.refuse(header.xid, Zxid::ZERO, ErrorCode::SessionClosedRequireSaslAuth);
                    Some(Step::Leave)
                }
                Ok(request) => match answers.take(header.xid, &request) {
                    Some(step @ (Step::List | Step::WatchAgain | Step::NeedsUnread(_))) => {
                        self.came = Some(answers.received);
                        return step;
                    }
                    step => step,
                },
                Err(error) => answers.malformed(&header, error),
            };
            taken.count(&header);
            let times = self.sampler.take();
            if let Some(sample) = sample {
                server.stats.hot_paths.count(&sample, times, received);
            }
            self.take_out(len);
            if let Some(step) = step {
                if step == Step::Leave && !connection.is_leaving() {
                    if !answers.publish() {
                        return Step::Leave;
                    }
                    connection.outbox().end();
                }
                return step;
            }
        }
    }

    /// When the read that is first came.
    pub(super) fn take_came(&mut self) -> Monotonic {
        self.came.take().unwrap_or_else(|| self.server.clock.monotonic())
    }

    /// The long listing that is first.
    pub(super) fn long_listing(&self, connection: &Connection) -> Option<Asked> {
        let len = self.frame_len(connection).ok().flatten()?;
        let (header, body) = jute::decode::<RequestHeader>(payload(&self.bytes, len)).ok()?;
        let request = Request::decode(header.op, body).ok()?;
        let with_stat = matches!(request, Request::GetChildren2(_));
        let what = match request {
            Request::GetChildren(body) | Request::GetChildren2(body) => {
                What::Children { body: body.into_static(), with_stat }
            }
            Request::GetEphemerals(body) => What::Ephemerals { prefix: body.path.into_owned() },
            _ => return None,
        };
        Some(Asked { xid: header.xid, what })
    }

    /// It was answered.
    pub(in crate::server) fn listed(&mut self, connection: &Connection) {
        let Some(frame) = self.take_first(connection) else { return };
        if let Ok((header, body)) = jute::decode::<RequestHeader>(&frame)
            && let Some(sample) =
                Request::decode(header.op, body).ok().as_ref().and_then(Sample::of)
        {
            self.server.stats.hot_paths.count(&sample, 1, self.server.clock.monotonic());
        }
    }

    /// Takes the payload of the first frame out, and counts it as taken.
    pub(super) fn take_first(&mut self, connection: &Connection) -> Option<Bytes> {
        let len = self.frame_len(connection).ok().flatten()?;
        let mut frame = self.bytes.split_to(LENGTH_LEN + len).freeze();
        self.synced_bytes = self.synced_bytes.saturating_sub(frame.len());
        frame.advance(LENGTH_LEN);
        if let Ok((header, _)) = jute::decode::<RequestHeader>(&frame) {
            Taken::new(connection, &self.server).count(&header);
        }
        Some(frame)
    }

    fn take_out(&mut self, len: usize) {
        self.bytes.advance(LENGTH_LEN + len);
        self.synced_bytes = self.synced_bytes.saturating_sub(LENGTH_LEN + len);
    }

    /// Whether a request is submitted: writes always, reads only while something of the connection
    /// is with the orderer, and then only those with small answers, a few at a time. One that waits
    /// for a round waits here: others stand behind it there.
    fn belongs_to_orderer(&self, request: &Request<'_>, is_alone: bool, is_late: bool) -> bool {
        if Effect::of(request).is_read() {
            !is_alone
                && !is_late
                && !self.syncs(request)
                && !Effect::of(request).can_be_large()
                && self.reads_in_flight < READS_IN_FLIGHT
                && !self.server.connections.unread().is_scarce()
        } else {
            !matches!(request, Request::Auth(_) | Request::Sasl(_))
        }
    }

    /// Whether a read may only be answered after a sync.
    fn syncs(&self, request: &Request<'_>) -> bool {
        self.syncs_reads && Effect::of(request).shows_tree()
    }

    /// Whether that is still to come for the read whose payload has this length.
    fn needs_sync(&self, request: &Request<'_>, len: usize) -> bool {
        self.syncs(request) && self.synced_bytes < LENGTH_LEN + len
    }

    fn submit(
        &mut self,
        connection: &Connection,
        request_xid: i32,
        request: Request<'static>,
        len: usize,
        room: Share,
        received: Monotonic,
    ) -> Option<Step> {
        let origin = Origin {
            connection: connection.id(),
            session: connection.session_id(),
            xid: if request == Request::Ping { xid::PING } else { request_xid },
            identities: connection.identities(),
            received,
        };
        let is_close = request == Request::CloseSession;
        if is_close {
            connection.leave_after_answer();
        }
        self.reads_in_flight += usize::from(Effect::of(&request).is_read());
        if let Some(audit) = self.server.audit.as_ref().filter(|_| !connection.has_own_sync()) {
            let (identities, address) = (&origin.identities, connection.peer().ip());
            let room = self.audit_room.take();
            connection.audited().note(audit, room, &request, origin.session, identities, address);
        }
        connection.submitted();
        let len = Server::request_bytes(&request, len) + origin.identities.bytes();
        let work = Work::Request(request);
        self.submissions.push(Submission { origin, work, len, room: Some(room) });
        is_close.then_some(Step::Leave)
    }
}

/// Requests that were taken and are still to be counted: all of them at once.
struct Taken<'a> {
    connection: &'a Connection,
    server: &'a Server,
    count: u64,
    last_op: i32,
    last_cxid: Option<i32>,
}

impl<'a> Taken<'a> {
    const fn new(connection: &'a Connection, server: &'a Server) -> Self {
        Self { connection, server, count: 0, last_op: 0, last_cxid: None }
    }

    fn count(&mut self, header: &RequestHeader) {
        self.count += 1;
        self.last_op = header.op;
        // Not that of a ping: the last real request is what is asked for
        // (`ServerCnxn.updateStatsForResponse`).
        if header.xid >= 0 {
            self.last_cxid = Some(header.xid);
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.count == 0 {
            return;
        }
        stats::add(&self.server.stats.packets_received, self.count);
        let mut counters = self.connection.counters();
        counters.received += self.count;
        counters.last_op = OpCode::from_code(self.last_op);
        if let Some(cxid) = self.last_cxid {
            counters.last_cxid = cxid;
        }
    }
}

/// The payload of the first frame, which is here.
fn payload(bytes: &[u8], len: usize) -> &[u8] {
    bytes.get(LENGTH_LEN..LENGTH_LEN + len).unwrap_or_default()
}

/// Room for one request: what the task waited for, or what is free now.
fn take_room(
    server: &Server,
    waited_for: &mut Option<OwnedSemaphorePermit>,
    share: QueueShare,
) -> Option<OwnedSemaphorePermit> {
    let is_enough = |room: &OwnedSemaphorePermit| room.num_permits() >= share.bytes as usize;
    waited_for.take().filter(is_enough).or_else(|| server.rooms.try_take(share))
}

/// Answers made by the connection itself, under one shared hold of the tree. They go into the
/// outbox before the hold is released, so that no event of a later change comes before them.
struct Answers<'a> {
    connection: &'a Connection,
    server: &'a Server,
    received: Monotonic,
    hold: Option<Shared<'a>>,
    /// Some of the answers tell something of the tree.
    shows_tree: bool,
    out: BytesMut,
    zxid: Zxid,
    count: usize,
    /// Events before the answers, and their bytes.
    events: (u64, u64),
    /// What the answers took of [`ANSWERS_A_HOLD`].
    spent: usize,
    sizes: Sizes,
    room: Room,
    reads: &'a mut Reads,
}

/// Room of what clients may leave unread.
#[derive(Default)]
struct Room {
    /// For the next large answer, which waited for it.
    granted: Option<Claim>,
    /// What the answers that were made have taken.
    taken: Option<Claim>,
}

impl Room {
    /// Takes room for an answer of so many bytes; false if it has to wait for some.
    fn take(&mut self, unread: &Arc<Unread>, len: usize) -> bool {
        let granted = self.granted.take_if(|granted| granted.is_enough_for(len));
        let Some(taken) = granted.or_else(|| unread.try_take(len)) else { return false };
        match &mut self.taken {
            Some(all) => all.merge(taken),
            none => *none = Some(taken),
        }
        true
    }
}

/// Bytes of the answers that were made last.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    last: usize,
    min: usize,
    max: usize,
    /// Of all but pings.
    sum: u64,
}

impl Sizes {
    const NONE: Self = Self { last: 0, min: usize::MAX, max: 0, sum: 0 };

    fn count(&mut self, len: usize) {
        self.sum += len as u64;
        if len != self.last {
            (self.last, self.min, self.max) = (len, self.min.min(len), self.max.max(len));
        }
    }
}

impl<'a> Answers<'a> {
    fn new(
        connection: &'a Connection,
        server: &'a Server,
        received: Monotonic,
        granted: Option<Claim>,
        reads: &'a mut Reads,
    ) -> Self {
        Self {
            connection,
            server,
            received,
            hold: None,
            shows_tree: false,
            out: BytesMut::new(),
            zxid: Zxid::ZERO,
            count: 0,
            events: (0, 0),
            spent: 0,
            sizes: Sizes::NONE,
            room: Room { granted, taken: None },
            reads,
        }
    }

    /// Whether enough was answered under one hold.
    const fn is_at_end(&self) -> bool {
        self.spent >= ANSWERS_A_HOLD
    }

    fn read(&mut self, request_xid: i32, request: &Request<'_>) -> Option<Step> {
        let hold = self.hold.get_or_insert_with(|| self.server.replica.shared());
        let identities = self.connection.identities();
        let caller = Caller {
            connection: self.connection.id(),
            session: self.connection.session_id(),
            identities: &identities,
        };
        let mut events = Vec::new();
        let unread = self.server.connections.unread();
        let mut most = Most { multi_read: unread.quarter(), ..Most::USUAL };
        if unread.is_scarce() {
            most.children = FEW_CHILDREN;
            let len = read::data_len(hold, request);
            if len > SMALL && !self.room.take(unread, len) {
                return Some(Step::NeedsUnread(len));
            }
        }
        let Some(answer) = read::answer_unless_long(hold, &caller, request, most, &mut events)
        else {
            return Some(match request {
                Request::SetWatches(_) | Request::SetWatches2(_) => Step::WatchAgain,
                _ => Step::List,
            });
        };
        // Its client looks at no error of it, and would believe that it has the watches.
        let sets_watches = matches!(request, Request::SetWatches(_) | Request::SetWatches2(_));
        if sets_watches && answer.is_err() {
            return Some(Step::HangUp);
        }
        let len = answer.as_ref().map_or(0, read::expected_len);
        // What can be far larger than a znode leaves no watch: it can be made again.
        let is_data = matches!(answer, Ok(Response::GetData(_)));
        if len > SMALL && !is_data && !self.room.take(unread, len) {
            return Some(Step::NeedsUnread(len));
        }
        self.shows_tree |= Effect::of(request).shows_tree();
        self.out.reserve(len);
        for event in &events {
            let before = self.out.len() + LENGTH_LEN;
            put_event(&mut self.out, event.zxid.0, event.event_type, &event.path);
            self.events.0 += 1;
            self.events.1 += (self.out.len() - before) as u64;
        }
        let is_ping = matches!(request, Request::Ping);
        let xid = if is_ping { xid::PING } else { request_xid };
        self.zxid = hold.last_zxid();
        if let Ok(response) = &answer {
            count_read(self.reads, &self.server.stats.series, request, response);
        }
        let before = self.out.len() + LENGTH_LEN;
        match answer {
            Ok(response) => put_reply(&mut self.out, xid, self.zxid.0, &response),
            Err(error) => put_refusal(&mut self.out, xid, self.zxid.0, error),
        }
        let len = self.out.len() - before;
        if !is_ping {
            self.sizes.count(len);
        }
        self.server.connections.made(self.connection, len, || request.path(), self.received);
        self.count += 1;
        self.spent += share_of_hold(request);
        None
    }

    /// Answers a request that is not for the orderer.
    fn take(&mut self, xid: i32, request: &Request<'_>) -> Option<Step> {
        match request {
            Request::Auth(packet) => {
                let Server { config, stats, .. } = self.server;
                match auth::authenticate(&config.access, &stats.series, self.connection, packet) {
                    Ok(()) => {
                        self.put(xid, Zxid::ZERO, Ok(Response::Empty));
                        None
                    }
                    Err(auth::NotTaken::Failed) => {
                        self.refuse(xid, Zxid::ZERO, ErrorCode::AuthFailed);
                        Some(Step::Leave)
                    }
                    Err(auth::NotTaken::Elsewhere) => Some(Step::Leave),
                }
            }
            // ZooKeeper fails over the token's length.
            Request::Sasl(packet) if packet.token.is_none() => Some(Step::Leave),
            Request::Sasl(_) => {
                self.put(xid, Zxid::ZERO, Ok(auth::no_sasl()));
                None
            }
            request => self.read(xid, request),
        }
    }

    /// Refuses what is no request. An operation that is none ends the connection, and so does half
    /// an identity.
    fn malformed(&mut self, header: &RequestHeader, error: DecodeError) -> Option<Step> {
        let code = match (OpCode::from_code(header.op), error) {
            (_, DecodeError::UnknownOperation(op)) => {
                tracing::warn!(
                    id = %MessageId::REFUSED_ON_PURPOSE,
                    client = %self.connection.peer(),
                    op,
                    "closing a connection: it sent an operation that clients cannot use"
                );
                self.refuse(header.xid, Zxid(-1), ErrorCode::Unimplemented);
                return Some(Step::Leave);
            }
            // ZooKeeper reads these before it has a request that it could answer.
            (Some(OpCode::Auth | OpCode::Sasl), _) => return Some(Step::Leave),
            // ZooKeeper decodes the null path of these two, and finds it no path.
            (Some(OpCode::SetData | OpCode::SetAcl), DecodeError::Null) => ErrorCode::BadArguments,
            _ => ErrorCode::MarshallingError,
        };
        self.refuse(header.xid, self.server.replica.applied(), code);
        None
    }

    fn refuse(&mut self, xid: i32, zxid: Zxid, error: ErrorCode) {
        self.put(xid, zxid, Err(error));
    }

    fn put(&mut self, xid: i32, zxid: Zxid, answer: Result<Response<'_>, ErrorCode>) {
        match answer {
            Ok(response) => put_reply(&mut self.out, xid, zxid.0, &response),
            Err(error) => put_refusal(&mut self.out, xid, zxid.0, error),
        }
        self.count += 1;
        self.spent += 1;
    }

    /// Puts the answers into the outbox and ends the hold. False where they are too old by now:
    /// nobody is told them, and the connection ends.
    fn publish(&mut self) -> bool {
        let is_told = self.count == 0 || self.tell();
        self.shows_tree = false;
        if self.hold.take().is_some() {
            self.server.connections.shed(self.connection);
        }
        is_told
    }

    fn tell(&mut self) -> bool {
        let now = self.server.clock.monotonic();
        let fresh = match &self.hold {
            Some(hold) => self.server.replica.fresh(hold, self.shows_tree, || now),
            None => Some(Fresh::NOTHING_READ),
        };
        let count = std::mem::take(&mut self.count) as u64;
        let (events, bytes) = std::mem::take(&mut self.events);
        let Sizes { last, min, max, sum } = std::mem::replace(&mut self.sizes, Sizes::NONE);
        self.spent = 0;
        let Some(fresh) = fresh else {
            self.out.clear();
            self.server.connections.end_too_old(self.connection);
            return false;
        };
        self.connection.outbox().put_answers(&mut self.out, self.room.taken.take(), fresh);
        let times = (self.received, now);
        self.connection.answered_here(&self.server.stats, self.zxid, count, times, fresh);
        self.connection.caught_up(&self.server.stats, events, bytes);
        if sum > 0 {
            self.server.stats.record_response_size(last, min, max);
            self.server.stats.series.count(Counter::ResponseBytes, sum);
        }
        true
    }
}

/// What a request takes of [`ANSWERS_A_HOLD`].
fn share_of_hold(request: &Request<'_>) -> usize {
    match request {
        // All that the session owns is looked at, also for an answer with none of it.
        Request::GetEphemerals(_) => ANSWERS_A_HOLD,
        // Each path is looked for and watched.
        Request::SetWatches(_) | Request::SetWatches2(_) => ANSWERS_A_HOLD,
        Request::MultiRead(ops) => ops
            .iter()
            .map(|op| match op {
                ReadOp::GetData(path) | ReadOp::GetChildren(path) => path::cost(path),
            })
            .fold(1, usize::saturating_add),
        Request::AddWatch(body) => path::cost(&body.path),
        Request::CheckWatches(body) | Request::RemoveWatches(body) => path::cost(&body.path),
        request => request.path().map_or(1, path::cost),
    }
}

/// What ZooKeeper counts as read from a namespace.
fn count_read(reads: &mut Reads, series: &Series, request: &Request<'_>, response: &Response<'_>) {
    match (request, response) {
        (Request::GetData(body), Response::GetData(found)) => {
            reads.count(series, &body.path, found.data.as_ref().map_or(0, |data| data.len()));
        }
        (Request::Exists(body), _) => reads.count(series, &body.path, 0),
        (Request::GetChildren(body), Response::Children(found)) => {
            reads.count(series, &body.path, found.children.iter().map(|name| name.len()).sum());
        }
        (Request::GetChildren2(body), Response::Children2(found)) => {
            reads.count(series, &body.path, found.children.iter().map(|name| name.len()).sum());
        }
        _ => {}
    }
}

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        self.publish();
    }
}

#[cfg(test)]
#[path = "inbox_test.rs"]
mod inbox_test;
