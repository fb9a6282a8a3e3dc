//! One client connection: its socket, its outbox, its session, and what is with the orderer.
//!
//! A task of the room `intake` drives it. The orderer puts answers and events into the outbox from
//! its own thread and tries the socket itself.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::BytesMut;
use jute::protocol::{ConnectResponse, LENGTH_LEN, put_frame, put_refusal, put_reply};
use jute::{OpCode, Record as _};
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::audit::Noted;
use super::long_list::Sending;
use super::outbox::{LongEvent, Outbox, Sent};
use super::password::PASSWORD_LEN;
use super::unread::{Rank, Unread};
use crate::engine::access::acl::{Identities, Identity, TooMany};
use crate::engine::answer::read;
use crate::engine::decide::request::Origin;
use crate::engine::decide::tracker::Attached;
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, WallClock};
use crate::engine::watch::ConnectionId;
use crate::engine::zxid::Zxid;
use crate::ensemble::{Answer, Fresh, RequestKind};
use crate::message::MessageId;
use crate::planted;
use crate::server::clock::Clock;
use crate::server::figures::stats;
use crate::server::figures::stats::{Stats, Summary};

/// How long a client may take to read the last words of its connection.
pub(in crate::server) const LAST_WORDS: Duration = Duration::from_secs(10);

/// What `cons` shows of a connection.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct Counters {
    pub(in crate::server) received: u64,
    pub(in crate::server) sent: u64,
    /// The last request's operation.
    pub(in crate::server) last_op: Option<OpCode>,
    pub(in crate::server) last_cxid: i32,
    pub(in crate::server) last_zxid: Zxid,
    pub(in crate::server) established: WallClock,
    pub(in crate::server) last_response: Monotonic,
    pub(in crate::server) last_latency: u64,
    pub(in crate::server) latency: Summary,
}

impl Counters {
    fn new() -> Self {
        Self {
            received: 0,
            sent: 0,
            last_op: None,
            last_cxid: -1,
            last_zxid: Zxid(-1),
            established: Clock::wall(),
            last_response: Monotonic::default(),
            last_latency: 0,
            latency: Summary::default(),
        }
    }

    /// `crst`: forgets what was counted.
    pub(in crate::server) fn reset(&mut self) {
        *self = Self { established: self.established, ..Self::new() };
    }

    pub(in crate::server) fn answered(
        &mut self,
        zxid: Zxid,
        now: Monotonic,
        latency: u64,
        times: u64,
    ) {
        self.sent += times;
        self.last_zxid = zxid;
        self.last_response = now;
        self.last_latency = latency;
        self.latency.record(latency, times);
    }
}

/// A client connection.
#[derive(Debug)]
pub(in crate::server) struct Connection {
    id: ConnectionId,
    peer: SocketAddr,
    socket: TcpStream,
    clock: Clock,
    outbox: Outbox,
    /// Wakes the task.
    kick: Notify,
    /// Requests with the orderer.
    in_flight: AtomicUsize,
    /// The task waits for `in_flight` to become 0.
    draining: AtomicBool,
    /// The last request was the closing of the session: its answer is the last word.
    leaving: AtomicBool,
    /// The one request that is with the orderer is a sync that no client asked for.
    own_sync: AtomicBool,
    /// The group in progress has put something into the outbox.
    touched: AtomicBool,
    /// Whether the client sent the readOnly byte, and so wants it back.
    wants_read_only: AtomicBool,
    /// Whether it was set: the client accepts a server that only lets it read.
    accepts_read_only: AtomicBool,
    /// A word is answered piece by piece, and not all of it was sent. What says that it was is the
    /// end of the connection.
    half_told: AtomicBool,
    session: OnceLock<Attached>,
    identities: Mutex<Arc<Identities>>,
    counters: Mutex<Counters>,
    /// Of the requests with the orderer what the audit log is to say; nothing where there is none.
    audited: Mutex<Noted>,
}

impl Connection {
    pub(in crate::server) fn new(
        id: ConnectionId,
        peer: SocketAddr,
        socket: TcpStream,
        clock: Clock,
        unread: Arc<Unread>,
    ) -> Self {
        let address = Identity { scheme: "ip".to_owned(), id: java_address(peer.ip()) };
        let identities = Arc::new(Identities::from(vec![address]));
        Self {
            id,
            peer,
            socket,
            clock,
            outbox: Outbox::new(id, unread),
            kick: Notify::new(),
            in_flight: AtomicUsize::new(0),
            draining: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            own_sync: AtomicBool::new(false),
            touched: AtomicBool::new(false),
            wants_read_only: AtomicBool::new(false),
            accepts_read_only: AtomicBool::new(false),
            half_told: AtomicBool::new(false),
            session: OnceLock::new(),
            identities: Mutex::new(identities),
            counters: Mutex::new(Counters::new()),
            audited: Mutex::default(),
        }
    }

    pub(in crate::server) const fn id(&self) -> ConnectionId {
        self.id
    }

    pub(in crate::server) const fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(in crate::server) const fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(in crate::server) fn session(&self) -> Option<&Attached> {
        self.session.get()
    }

    pub(in crate::server) fn session_id(&self) -> SessionId {
        self.session().map_or(SessionId::NONE, |attached| attached.session)
    }

    /// Who the client has shown to be.
    pub(in crate::server) fn identities(&self) -> Arc<Identities> {
        Arc::clone(&self.identities.lock())
    }

    /// The client has shown to be someone more. They are copied only where a request is on its way
    /// with them.
    pub(super) fn add_identities(
        &self,
        more: impl IntoIterator<Item = Identity>,
    ) -> Result<(), TooMany> {
        self.audited.lock().forget_users();
        let mut identities = self.identities.lock();
        let all = Arc::make_mut(&mut identities);
        more.into_iter().try_for_each(|identity| all.add(identity))
    }

    pub(in crate::server) fn counters(&self) -> parking_lot::MutexGuard<'_, Counters> {
        self.counters.lock()
    }

    pub(in crate::server) fn audited(&self) -> parking_lot::MutexGuard<'_, Noted> {
        self.audited.lock()
    }

    /// Requests with the orderer.
    pub(in crate::server) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// One more request is with the orderer.
    pub(in crate::server) fn submitted(&self) {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
    }

    pub(in crate::server) const fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The readOnly byte of the connect request, if it came.
    pub(in crate::server) fn set_read_only(&self, asked: Option<bool>) {
        self.wants_read_only.store(asked.is_some(), Ordering::Relaxed);
        self.accepts_read_only.store(asked == Some(true), Ordering::Relaxed);
    }

    pub(super) fn accepts_read_only(&self) -> bool {
        self.accepts_read_only.load(Ordering::Relaxed)
    }

    /// Whether its session reads only, at a server without a leader.
    pub(in crate::server) fn reads_only(&self) -> bool {
        self.session().is_some_and(|attached| attached.reads_only)
    }

    pub(in crate::server) fn set_half_told(&self, is: bool) {
        self.half_told.store(is, Ordering::Relaxed);
    }

    /// Whether a word has half an answer, which must not look like a whole one.
    pub(in crate::server) fn is_half_told(&self) -> bool {
        self.half_told.load(Ordering::Relaxed)
    }

    /// The answer to the next request answered by the orderer is the last word.
    pub(in crate::server) fn leave_after_answer(&self) {
        self.leaving.store(true, Ordering::SeqCst);
    }

    pub(in crate::server) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    /// The next request with the orderer, which then is the only one, is a sync of the server's
    /// own.
    pub(in crate::server) fn begin_own_sync(&self) {
        self.own_sync.store(true, Ordering::SeqCst);
    }

    /// Takes the answer to a sync of the server's own, if this is one. Reads wait for it.
    pub(super) fn end_own_sync(&self, answer: &Answer<'_>) -> bool {
        let is_own = self.own_sync.swap(false, Ordering::SeqCst);
        if is_own {
            if answer.is_err() {
                // The session is ending: nothing of it is to be answered any more.
                self.close();
            }
            self.answered();
        }
        is_own
    }

    /// The client has given a sign of life.
    pub(in crate::server) fn is_heard(&self) {
        if let Some(session) = self.session() {
            session.heard.touch(self.clock.monotonic());
        }
    }

    /// Whether nothing is with the orderer. Else its task is woken when nothing is.
    pub(in crate::server) fn is_drained(&self) -> bool {
        self.draining.store(true, Ordering::SeqCst);
        let is_drained = self.in_flight() == 0;
        if is_drained {
            self.draining.store(false, Ordering::SeqCst);
        }
        is_drained
    }

    /// Waits until the orderer leaves something to the task.
    pub(in crate::server) async fn kicked(&self) {
        self.kick.notified().await;
    }

    /// Whether the mark is new.
    pub(super) fn mark_touched(&self) -> bool {
        !self.touched.swap(true, Ordering::Relaxed)
    }

    /// Appends an event's frame, or shares a long one. A client that lets too much of it lie is
    /// disconnected: it asks for what it missed when it comes back.
    pub(in crate::server) fn put_event(&self, frame: &[u8], long: Option<&Arc<LongEvent>>) {
        let is_enough = match long {
            Some(event) => !self.outbox.put_long_event(event),
            None => !self.outbox.put_event(frame),
        };
        self.counters().sent += 1;
        if is_enough {
            tracing::warn!(
                id = %MessageId::EVENTS_NOT_READ,
                client = %self.peer,
                "closing a connection whose client does not read its events"
            );
            self.close();
        }
    }

    /// Appends the orderer's answer, which may have to wait for a number. Gives its length.
    pub(in crate::server) fn put_answer(
        &self,
        origin: &Origin,
        zxid: Zxid,
        now: Monotonic,
        answer: Answer<'_>,
        behind: Option<(u64, &AtomicU64)>,
    ) -> usize {
        let mut len = 0;
        let write = |out: &mut BytesMut| {
            let before = out.len() + LENGTH_LEN;
            match answer {
                Ok(response) => {
                    out.reserve(read::expected_len(&response));
                    put_reply(out, origin.xid, zxid.0, &response);
                }
                Err(error) => put_refusal(out, origin.xid, zxid.0, error),
            }
            len = out.len() - before;
        };
        match behind {
            Some((number, open)) => self.outbox.put_behind(number, open, write),
            None => self.outbox.put(write),
        };
        self.counters().answered(zxid, now, now.since(origin.received), 1);
        self.answered();
        len
    }

    /// What waited for numbers up to this one may leave.
    pub(super) fn let_out(&self, open: &AtomicU64) {
        if self.outbox.let_out(open) {
            self.kick.notify_one();
        }
    }

    /// The orderer is done with one request.
    pub(in crate::server) fn answered(&self) {
        if self.in_flight.fetch_sub(1, Ordering::SeqCst) > 1 {
            return;
        }
        if self.is_leaving() {
            self.outbox.end();
            self.kick.notify_one();
        } else if self.draining.swap(false, Ordering::SeqCst) {
            self.kick.notify_one();
        }
    }

    /// The connection has its session.
    pub(in crate::server) fn attached(&self, attached: &Attached, password: [u8; PASSWORD_LEN]) {
        let _ = self.session.set(attached.clone());
        self.put_connect_response(&ConnectResponse {
            timeout_ms: attached.timeout_ms,
            session_id: attached.session.0,
            password,
            read_only: self.read_only(attached.reads_only),
        });
        self.answered();
        self.kick.notify_one();
    }

    /// There is no such session, by the word of a server that only lets read, or that does not.
    pub(in crate::server) fn refuse_session(&self, is_read_only: bool) {
        self.put_connect_response(&ConnectResponse {
            read_only: self.read_only(is_read_only),
            ..ConnectResponse::refused(false)
        });
        self.outbox.end();
        self.kick.notify_one();
    }

    fn read_only(&self, is: bool) -> Option<bool> {
        (planted::is("always-37-bytes") || self.wants_read_only.load(Ordering::Relaxed))
            .then_some(is)
    }

    fn put_connect_response(&self, response: &ConnectResponse) {
        self.outbox.put(|out| put_frame(out, |out| response.encode(out)));
        self.counters().sent += 1;
    }

    /// Closes the connection after what waits.
    pub(in crate::server) fn end(&self) {
        self.outbox.end();
        self.kick.notify_one();
    }

    /// Closes the connection without another word.
    pub(in crate::server) fn close(&self) {
        self.outbox.abandon();
        self.kick.notify_one();
    }

    /// The same if it still has this rank among those that do not read. Gives how much that leaves
    /// unread.
    pub(super) fn close_unread(&self, rank: Rank) -> Option<usize> {
        let len = self.outbox.abandon_at(rank)?;
        self.kick.notify_one();
        Some(len)
    }

    /// Sends for the group in progress.
    pub(super) fn send_now(&self) {
        self.touched.store(false, Ordering::Relaxed);
        self.send_some();
    }

    /// Sends what waits as far as the socket takes it; the task goes on with the rest.
    pub(in crate::server) fn send_some(&self) {
        match self.send() {
            // The task may sleep until there is room, or until everything is sent: it was told to
            // leave that here.
            Ok(Sent::All) if self.outbox.take_awaited() => self.kick.notify_one(),
            Ok(Sent::All | Sent::Elsewhere) => {}
            Ok(Sent::Blocked | Sent::List) => self.kick.notify_one(),
            Err(_) => self.close(),
        }
    }

    /// Sends what waits as far as the socket takes it.
    pub(in crate::server) fn send(&self) -> io::Result<Sent> {
        self.outbox.send(|bytes| self.socket.try_write(bytes))
    }

    /// Sends until no more than `left` bytes wait.
    ///
    /// # Errors
    /// When the client is gone, or does not read them before `end`.
    pub(in crate::server) async fn send_all(&self, left: usize, end: Instant) -> io::Result<()> {
        loop {
            let sent = self.send()?;
            if self.outbox.len() <= left {
                return Ok(());
            }
            let end = end.min(Instant::now() + LAST_WORDS);
            tokio::select! {
                ready = self.ready(interest(false, sent == Sent::Blocked)) => drop(ready?),
                () = self.kick.notified() => {}
                () = tokio::time::sleep_until(end) => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }

    /// Sends some of a long list. That a client reads it is a sign of life: what else it sends
    /// waits meanwhile.
    pub(in crate::server) async fn send_of_list(&self, sending: &Sending) -> io::Result<Sent> {
        // Whoever takes nothing stands still, and has no turn.
        let is_writable = tokio::select! {
            biased;
            ready = self.socket.writable() => ready.map(|()| true)?,
            () = std::future::ready(()) => false,
        };
        if !is_writable {
            return Ok(Sent::Blocked);
        }
        self.outbox.pause();
        let mut taken = 0;
        let write = |bytes: &[u8]| self.socket.try_write(bytes).inspect(|sent| taken += sent);
        let sent = sending.send(|| self.outbox.send_of_list(write)).await?;
        if taken > 0 {
            self.is_heard();
        }
        Ok(sent)
    }

    pub(in crate::server) async fn ready(
        &self,
        interest: Option<Interest>,
    ) -> io::Result<tokio::io::Ready> {
        match interest {
            Some(interest) => self.socket.ready(interest).await,
            None => std::future::pending().await,
        }
    }

    /// Counts events that were told to a client that came back, of so many bytes as live ones are
    /// counted with.
    pub(in crate::server) fn caught_up(&self, stats: &Stats, events: u64, bytes: u64) {
        if events > 0 {
            stats.told(events, bytes);
            self.counters().sent += events;
        }
    }

    /// Counts requests that were answered `now` without the orderer.
    pub(in crate::server) fn answered_here(
        &self,
        stats: &Stats,
        zxid: Zxid,
        count: u64,
        (received, now): (Monotonic, Monotonic),
        fresh: Fresh<'_>,
    ) {
        let latency = now.since(received);
        stats::add(&stats.packets_sent, count);
        stats.record_latency(RequestKind::Read(fresh), latency, count);
        let mut counters = self.counters();
        counters.answered(zxid, now, latency, count);
    }

    /// Whether what waits is more than a client may leave lying before its requests wait, too.
    pub(in crate::server) fn is_full(&self, more: &BytesMut) -> bool {
        self.outbox.is_full(more.len())
    }
}

pub(in crate::server) const fn interest(reads: bool, writes: bool) -> Option<Interest> {
    match (reads, writes) {
        (true, true) => Some(Interest::READABLE.add(Interest::WRITABLE)),
        (true, false) => Some(Interest::READABLE),
        (false, true) => Some(Interest::WRITABLE),
        (false, false) => None,
    }
}

pub(in crate::server) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// An address as Java's `getHostAddress` prints it: IPv6 without abbreviation.
pub(in crate::server) fn java_address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let segments: Vec<String> =
                address.segments().iter().map(|segment| format!("{segment:x}")).collect();
            segments.join(":")
        }
    }
}

#[cfg(test)]
#[path = "connection_test.rs"]
mod connection_test;
