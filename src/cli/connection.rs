//! A session: one thread that connects, reads and keeps the session alive, one that hands over what
//! came, in order.
//!
//! As ZooKeeper's own client: the servers of the list in turn, the session's id and password shown
//! again after a loss, the watches set again, and the session given up when no server was heard of
//! for four thirds of its timeout. Requests on their way when the connection breaks end with
//! ConnectionLoss: whether they were carried out is not known.

mod delivery;
mod wire;

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use jute::protocol::{
    ConnectRequest, ConnectResponse, ReplyHeader, Request, SetWatchesRequest, WatcherEvent,
    WatcherType, put_frame, xid,
};
use jute::{ErrorCode, Record as _};
use parking_lot::{Condvar, Mutex};

use super::event::{Event, EventKind, KeeperState};
use super::servers::{Address, Servers};
use super::watches::{Leaves, Watches};
use delivery::{Delivery, deliver};
pub(super) use delivery::{EventSink, Reply};
use wire::{Lost, auth_frame, frame, frame_len, open, read_some};

/// After every server of the list was tried.
const PAUSE: Duration = Duration::from_secs(1);
/// A session that nobody writes on is told of often enough, whatever its timeout.
const PING_MAX: Duration = Duration::from_secs(10);

/// How to reach a server, and what to ask it for.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) servers: Servers,
    pub(super) timeout: Duration,
    /// Whether a server without a quorum would do.
    pub(super) read_only: bool,
}

/// `ZooKeeper.States`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Connecting,
    Connected,
    ConnectedReadOnly,
    Closed,
    AuthFailed,
}

impl State {
    pub(super) fn is_alive(self) -> bool {
        !matches!(self, Self::Closed | Self::AuthFailed)
    }

    pub(super) fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::ConnectedReadOnly)
    }
}

/// As zkCli's prompt shows it.
impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "CONNECTING",
            Self::Connected => "CONNECTED",
            Self::ConnectedReadOnly => "CONNECTEDREADONLY",
            Self::Closed => "CLOSED",
            Self::AuthFailed => "AUTH_FAILED",
        })
    }
}

/// What a request does to the watches when it is answered.
#[derive(Clone, Debug)]
pub(super) enum OnReply {
    Nothing,
    Watch { path: String, leaves: Leaves },
    Unwatch { path: String, which: WatcherType, locally: bool },
}

#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: Target,
    inner: Mutex<Inner>,
    /// The state changed.
    changed: Condvar,
}

#[derive(Debug)]
struct Inner {
    state: State,
    /// What the last event of the connection said.
    told: KeeperState,
    session_id: i64,
    password: [u8; 16],
    /// The negotiated timeout.
    timeout: Duration,
    last_zxid: i64,
    last_xid: i32,
    /// While connected.
    socket: Option<TcpStream>,
    last_sent: Instant,
    /// Sent, in the order that answers come in.
    sent: VecDeque<Call>,
    /// To be sent once there is a connection.
    unsent: VecDeque<Call>,
    watches: Watches,
    identities: Vec<(String, Option<Vec<u8>>)>,
    /// Why there is no connection: the last failure of each server.
    failures: Vec<(Address, String)>,
    closing: bool,
    delivery: Sender<Delivery>,
}

#[derive(Debug)]
struct Call {
    xid: i32,
    frame: BytesMut,
    on_reply: OnReply,
    answer: Sender<Reply>,
}

impl Connection {
    /// Begins to connect; events go to `sink`.
    pub(super) fn start(target: Target, sink: EventSink) -> io::Result<Self> {
        let (delivery, deliveries) = channel();
        let inner = Inner {
            state: State::Connecting,
            told: KeeperState::Disconnected,
            session_id: 0,
            password: [0; 16],
            timeout: target.timeout,
            last_zxid: 0,
            last_xid: 0,
            socket: None,
            last_sent: Instant::now(),
            sent: VecDeque::new(),
            unsent: VecDeque::new(),
            watches: Watches::default(),
            identities: Vec::new(),
            failures: Vec::new(),
            closing: false,
            delivery,
        };
        let shared = Arc::new(Shared { target, inner: Mutex::new(inner), changed: Condvar::new() });
        thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || deliver(&deliveries, &*sink))?;
        let of_thread = Arc::clone(&shared);
        thread::Builder::new().name("connection".to_owned()).spawn(move || of_thread.run())?;
        Ok(Self { shared })
    }

    pub(super) fn target(&self) -> &Target {
        &self.shared.target
    }

    pub(super) fn state(&self) -> State {
        self.shared.inner.lock().state
    }

    /// Waits for a connection no longer than `time`.
    pub(super) fn wait_connected(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut inner = self.shared.inner.lock();
        while !inner.state.is_connected() && inner.state.is_alive() {
            if self.shared.changed.wait_until(&mut inner, deadline).timed_out() {
                break;
            }
        }
        inner.state.is_connected()
    }

    /// What was tried without success since there was a connection, a server a line.
    pub(super) fn failures(&self) -> Vec<String> {
        let inner = self.shared.inner.lock();
        inner.failures.iter().map(|(address, why)| format!("{address}: {why}")).collect()
    }

    /// Shows who this is, now and after every reconnect. Nobody waits for the answer, as in
    /// ZooKeeper's client: a refusal is an event, and the end of the session.
    pub(super) fn add_identity(&self, scheme: &str, token: Option<Vec<u8>>) {
        let mut inner = self.shared.inner.lock();
        if !inner.state.is_alive() {
            return;
        }
        if inner.state.is_connected() {
            let frame = auth_frame(scheme, token.as_deref());
            inner.write(&frame);
        }
        inner.identities.push((scheme.to_owned(), token));
    }

    /// What [`Self::add_identity`] was told.
    pub(super) fn identities(&self) -> Vec<(String, Option<Vec<u8>>)> {
        self.shared.inner.lock().identities.clone()
    }

    /// Sends a request; the answer comes after all events that came before it.
    pub(super) fn send(&self, request: &Request<'_>, on_reply: OnReply) -> Receiver<Reply> {
        let (answer, answers) = channel();
        let mut inner = self.shared.inner.lock();
        inner.last_xid = inner.last_xid.checked_add(1).unwrap_or(1);
        let xid = inner.last_xid;
        let call = Call { xid, frame: frame(xid, request), on_reply, answer };
        match inner.state {
            State::Connecting => inner.unsent.push_back(call),
            state if state.is_connected() => {
                inner.write(&call.frame);
                inner.sent.push_back(call);
            }
            _ => inner.fail(call),
        }
        answers
    }

    /// Sends a request and waits for its answer.
    pub(super) fn call(&self, request: &Request<'_>, on_reply: OnReply) -> Reply {
        let lost = || Err(ErrorCode::ConnectionLoss.code());
        self.send(request, on_reply).recv().unwrap_or_else(|_| lost())
    }

    /// Ends the session, where there is a server to tell.
    pub(super) fn close(&self) {
        if self.state().is_connected() {
            self.shared.inner.lock().closing = true;
            let answer = self.send(&Request::CloseSession, OnReply::Nothing);
            // A server that does not answer is not waited for.
            let _ = answer.recv_timeout(self.shared.target.timeout.min(Duration::from_secs(5)));
        }
        let mut inner = self.shared.inner.lock();
        inner.closing = true;
        if let Some(socket) = &inner.socket {
            let _ = socket.shutdown(Shutdown::Both);
            while inner.state.is_alive() {
                self.shared.changed.wait(&mut inner);
            }
        } else {
            inner.end(State::Closed, None);
            self.shared.changed.notify_all();
        }
        drop(inner);
        self.flush_events();
    }

    /// Waits until every event so far was handed over.
    fn flush_events(&self) {
        let (done, handed_over) = channel();
        let delivered =
            self.shared.inner.lock().delivery.send(Delivery::Reply(done, Ok(Vec::new())));
        if delivered.is_ok() {
            let _ = handed_over.recv();
        }
    }
}

impl Inner {
    fn deliver(&self, delivery: Delivery) {
        // The other thread ends when this value does.
        let _ = self.delivery.send(delivery);
    }

    /// Tells of a change of the connection, once.
    fn tell(&mut self, state: KeeperState) {
        if self.told != state {
            self.told = state;
            self.deliver(Delivery::Event(Event::of_connection(state)));
        }
    }

    /// A failure shows where answers are read.
    fn write(&mut self, frame: &[u8]) {
        self.last_sent = Instant::now();
        if let Some(socket) = &mut self.socket
            && socket.write_all(frame).is_err()
        {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Answers a request that no server will.
    fn fail(&mut self, call: Call) {
        let code = match self.state {
            State::AuthFailed => ErrorCode::AuthFailed,
            State::Closed => ErrorCode::SessionExpired,
            _ => ErrorCode::ConnectionLoss,
        };
        self.answer(call, code.code(), Vec::new());
    }

    fn fail_all(&mut self) {
        while let Some(call) = self.sent.pop_front().or_else(|| self.unsent.pop_front()) {
            self.fail(call);
        }
    }

    fn answer(&mut self, call: Call, err: i32, body: Vec<u8>) {
        let mut err = err;
        match &call.on_reply {
            OnReply::Nothing => {}
            OnReply::Watch { path, leaves } => self.watches.answered(*leaves, path, err),
            OnReply::Unwatch { path, which, locally } => {
                let connected = err != ErrorCode::ConnectionLoss.code();
                match self.watches.removed(path, *which, *locally, err) {
                    Ok(kinds) => {
                        err = 0;
                        for kind in kinds {
                            let state = match connected {
                                true => KeeperState::SyncConnected,
                                false => KeeperState::Disconnected,
                            };
                            let path = Some(path.clone());
                            let event = Event { state, kind, path, zxid: -1 };
                            self.deliver(Delivery::Event(event));
                        }
                    }
                    Err(code) => err = code,
                }
            }
        }
        let reply = if err == 0 { Ok(body) } else { Err(err) };
        self.deliver(Delivery::Reply(call.answer, reply));
    }

    /// No connection will follow.
    fn end(&mut self, state: State, told: Option<KeeperState>) {
        self.state = state;
        self.socket = None;
        self.fail_all();
        if let Some(told) = told {
            self.tell(told);
        }
    }
}

impl Shared {
    fn run(&self) {
        let addresses = &self.target.servers.addresses;
        // Not every client begins with the same server.
        let mut random = [0; 8];
        let _ = getrandom::fill(&mut random);
        let first = usize::from_ne_bytes(random) % addresses.len().max(1);
        let mut last_heard = Instant::now();
        let mut tried = 0;
        for address in addresses.iter().cycle().skip(first) {
            if self.inner.lock().closing {
                break;
            }
            let lost = match self.connect(address) {
                Ok((socket, rest)) => {
                    tried = 0;
                    let lost = self.serve(socket, rest);
                    last_heard = Instant::now();
                    lost
                }
                Err(lost) => lost,
            };
            tried += 1;
            let everyone = tried >= addresses.len();
            if !self.lost(address, &lost, last_heard, everyone) {
                break;
            }
            if everyone {
                tried = 0;
                thread::sleep(PAUSE);
            }
        }
        self.changed.notify_all();
    }

    /// Whether to go on with the next server. Requests that wait for a connection fail when
    /// `everyone` was tried.
    fn lost(&self, address: &Address, lost: &Lost, last_heard: Instant, everyone: bool) -> bool {
        let mut inner = self.inner.lock();
        inner.socket = None;
        inner.failures.retain(|(of, _)| of != address);
        inner.failures.push((address.clone(), lost.to_string()));
        let silent = inner.session_id != 0 && last_heard.elapsed() > inner.timeout * 4 / 3;
        match lost {
            _ if inner.closing => inner.end(State::Closed, Some(KeeperState::Closed)),
            Lost::AuthFailed => inner.end(State::AuthFailed, Some(KeeperState::AuthFailed)),
            Lost::Expired => inner.end(State::Closed, Some(KeeperState::Expired)),
            _ if silent => inner.end(State::Closed, Some(KeeperState::Expired)),
            _ => {
                inner.state = State::Connecting;
                while let Some(call) = inner.sent.pop_front() {
                    inner.fail(call);
                }
                if everyone {
                    inner.fail_all();
                }
                inner.tell(KeeperState::Disconnected);
            }
        }
        self.changed.notify_all();
        inner.state.is_alive()
    }

    /// Opens a socket and a session, or the session again; returns what came after the answer.
    fn connect(&self, address: &Address) -> Result<(TcpStream, Vec<u8>), Lost> {
        let (session_id, password, last_zxid, timeout) = {
            let inner = self.inner.lock();
            (inner.session_id, inner.password, inner.last_zxid, inner.timeout)
        };
        let servers = u32::try_from(self.target.servers.addresses.len()).unwrap_or(u32::MAX).max(1);
        let time = (timeout / servers).max(Duration::from_millis(1));
        let mut socket = open(address, time)?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(time))?;

        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: last_zxid,
            timeout_ms: i32::try_from(self.target.timeout.as_millis()).unwrap_or(i32::MAX),
            session_id,
            password: Some(password.as_slice().into()),
            read_only: Some(self.target.read_only),
        };
        let mut out = BytesMut::new();
        put_frame(&mut out, |out| request.encode(out));
        socket.write_all(&out)?;

        let deadline = Instant::now() + time;
        let mut buffer = Vec::new();
        let response = loop {
            if let Some(len) = frame_len(&buffer)? {
                let payload = buffer.get(4..4 + len).unwrap_or_default();
                let (response, _) = jute::decode::<ConnectResponse>(payload)?;
                buffer.drain(..4 + len);
                break response;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !read_some(&mut socket, &mut buffer, left)? {
                return Err(Lost::Silence(time));
            }
        };
        if response.timeout_ms <= 0 {
            return Err(Lost::Expired);
        }
        self.connected(&socket, &response)?;
        Ok((socket, buffer))
    }

    fn connected(&self, socket: &TcpStream, response: &ConnectResponse) -> Result<(), Lost> {
        let socket = socket.try_clone()?;
        let mut inner = self.inner.lock();
        let timeout = u64::try_from(response.timeout_ms).unwrap_or_default();
        inner.timeout = Duration::from_millis(timeout);
        socket.set_write_timeout(Some(inner.timeout))?;
        inner.session_id = response.session_id;
        inner.password = response.password;
        inner.socket = Some(socket);
        inner.failures.clear();
        let mut out = BytesMut::new();
        for (scheme, token) in &inner.identities {
            out.extend_from_slice(&auth_frame(scheme, token.as_deref()));
        }
        let servers = &self.target.servers;
        for watches in inner.watches.again(inner.last_zxid, |path| servers.on_server(path)) {
            // Servers before 3.6 know only the older form.
            let request = if watches.persistent_watches.is_empty()
                && watches.persistent_recursive_watches.is_empty()
            {
                Request::SetWatches(SetWatchesRequest {
                    relative_zxid: watches.relative_zxid,
                    data_watches: watches.data_watches,
                    exist_watches: watches.exist_watches,
                    child_watches: watches.child_watches,
                })
            } else {
                Request::SetWatches2(watches)
            };
            out.extend_from_slice(&frame(xid::SET_WATCHES, &request));
        }
        for call in &inner.unsent {
            out.extend_from_slice(&call.frame);
        }
        let unsent = std::mem::take(&mut inner.unsent);
        inner.sent.extend(unsent);
        let (state, told) = match response.read_only {
            Some(true) => (State::ConnectedReadOnly, KeeperState::ConnectedReadOnly),
            _ => (State::Connected, KeeperState::SyncConnected),
        };
        inner.state = state;
        inner.tell(told);
        inner.write(&out);
        self.changed.notify_all();
        Ok(())
    }

    /// Reads until the connection ends, and pings.
    fn serve(&self, mut socket: TcpStream, mut buffer: Vec<u8>) -> Lost {
        let timeout = self.inner.lock().timeout;
        let silence_max = timeout * 2 / 3;
        let ping_after = (silence_max / 2).min(PING_MAX);
        let mut last_heard = Instant::now();
        loop {
            if let Err(lost) = self.take_frames(&mut buffer) {
                return lost;
            }
            let heard = last_heard.elapsed();
            if heard >= silence_max {
                return Lost::Silence(heard);
            }
            let quiet = {
                let mut inner = self.inner.lock();
                if inner.last_sent.elapsed() >= ping_after {
                    inner.write(&frame(xid::PING, &Request::Ping));
                }
                inner.last_sent.elapsed()
            };
            let wait = (silence_max - heard).min(ping_after.saturating_sub(quiet));
            match read_some(&mut socket, &mut buffer, wait.max(Duration::from_millis(1))) {
                Ok(true) => last_heard = Instant::now(),
                Ok(false) => {}
                Err(lost) => return lost,
            }
        }
    }

    fn take_frames(&self, buffer: &mut Vec<u8>) -> Result<(), Lost> {
        let mut taken = 0;
        while let Some(rest) = buffer.get(taken..)
            && let Some(len) = frame_len(rest)?
        {
            self.take(rest.get(4..4 + len).unwrap_or_default())?;
            taken += 4 + len;
        }
        buffer.drain(..taken);
        Ok(())
    }

    /// One frame of the server.
    fn take(&self, frame: &[u8]) -> Result<(), Lost> {
        let (header, body) = jute::decode::<ReplyHeader>(frame)?;
        let mut inner = self.inner.lock();
        match header.xid {
            xid::PING | xid::SET_WATCHES => {}
            xid::AUTH => {
                if header.err == ErrorCode::AuthFailed.code() {
                    return Err(Lost::AuthFailed);
                }
            }
            xid::NOTIFICATION => {
                let (event, _) = jute::decode::<WatcherEvent<'_>>(body)?;
                let path = self.target.servers.shown(&event.path);
                if let Some(kind) = EventKind::from_code(event.event_type)
                    && inner.watches.fire(kind, &path)
                {
                    let state = KeeperState::SyncConnected;
                    let event = Event { state, kind, path: Some(path), zxid: header.zxid };
                    inner.deliver(Delivery::Event(event));
                }
            }
            got => match inner.sent.pop_front() {
                Some(call) if call.xid == got => {
                    if header.zxid > 0 {
                        inner.last_zxid = header.zxid;
                    }
                    inner.answer(call, header.err, body.to_owned());
                }
                other => {
                    let expected = other.as_ref().map(|call| call.xid);
                    inner.sent.extend(other);
                    return Err(Lost::OutOfOrder { got, expected });
                }
            },
        }
        Ok(())
    }
}
