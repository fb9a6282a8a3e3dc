//! One client connection: a session, bytes waiting to leave, and the answers as they come.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use bytes::BytesMut;
use jute::Record as _;
use jute::protocol::{ConnectRequest, Request, put_frame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Socket, Type};

use crate::request;

/// No server leaves an answer to a single request out for longer.
const PATIENCE: Duration = Duration::from_secs(60);
const SESSION_TIMEOUT_MS: i32 = 30_000;
const READ_CHUNK: usize = 256 << 10;
/// xid of an event.
const EVENT: i32 = -1;

/// The head of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) xid: i32,
    pub(crate) error: i32,
}

impl Head {
    pub(crate) fn is_event(self) -> bool {
        self.xid == EVENT
    }
}

/// What a client shows when it comes back.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    id: i64,
    password: [u8; 16],
}

impl Session {
    const NEW: Self = Self { id: 0, password: [0; 16] };

    /// The answer's protocol version and timeout, then the id and the password with its length.
    fn of_answer(answer: &[u8]) -> Option<Self> {
        let id = i64::from_be_bytes(*answer.get(8..)?.first_chunk()?);
        Some(Self { id, password: *answer.get(20..)?.first_chunk()? })
    }
}

/// A session over a socket that does not block once [`Connection::unblock`] was called.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
    session: Session,
    /// What is to be sent; its front is gone already up to `sent`.
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    /// What of `input` was looked at, and how far it is filled.
    taken: usize,
    filled: usize,
}

impl Connection {
    /// Opens a session. The `number` spreads many connections over local addresses: one address has
    /// too few ports for those that were closed a moment ago.
    pub(crate) fn open(server: SocketAddr, number: u32) -> io::Result<Self> {
        Self::attach(server, number, &Session::NEW)
    }

    /// Goes on with a session; refused if it is over.
    pub(crate) fn attach(server: SocketAddr, number: u32, session: &Session) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        if server.ip() == Ipv4Addr::LOCALHOST {
            let local = Ipv4Addr::from_bits(Ipv4Addr::LOCALHOST.to_bits() + number % 64);
            socket.bind(&SocketAddr::from((local, 0)).into())?;
        }
        socket.connect(&server.into())?;
        socket.set_tcp_nodelay(true)?;
        let socket = TcpStream::from(socket);
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut connection = Self {
            socket,
            session: Session::NEW,
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            taken: 0,
            filled: 0,
        };
        connection.socket.write_all(&handshake(session))?;
        let answer = connection.body()?;
        // Protocol version, then the timeout: 0 refuses.
        if answer.get(4..8).is_none_or(|timeout| timeout == [0; 4]) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "a session is refused"));
        }
        connection.session = Session::of_answer(&answer)
            .ok_or_else(|| io::Error::other("an answer without a session"))?;
        Ok(connection)
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Sends one request and waits for its answer, with the head in front.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> io::Result<(Head, Vec<u8>)> {
        self.socket.write_all(&request::frame(1, request))?;
        loop {
            let body = self.body()?;
            let head = head(&body)?;
            if !head.is_event() {
                return Ok((head, body));
            }
        }
    }

    /// Sends one request and reads its answer away, however long it is.
    pub(crate) fn pass_over(&mut self, request: &Request<'_>) -> io::Result<()> {
        self.socket.write_all(&request::frame(1, request))?;
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let len = u64::from(u32::from_be_bytes(length));
        let read = io::copy(&mut (&self.socket).take(len), &mut io::sink())?;
        if read < len { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Whether the server has ended it.
    pub(crate) fn is_cut(&self) -> io::Result<bool> {
        self.socket.set_nonblocking(true)?;
        let peeked = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false)?;
        match peeked {
            Ok(read) => Ok(read == 0),
            Err(error) => Ok(error.kind() != io::ErrorKind::WouldBlock),
        }
    }

    /// Whether the server has ended it, whatever is still to be read.
    pub(crate) fn is_over(&self) -> io::Result<bool> {
        let mut looks = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        Ok(poll(&mut looks, Some(&Timespec::default()))? > 0)
    }

    /// Sends requests and waits for the answers, each of which is to have one of the errors `due`;
    /// events in between are passed over.
    pub(crate) fn exchange(&mut self, frames: &[u8], count: usize, due: &[i32]) -> io::Result<()> {
        self.socket.write_all(frames)?;
        let mut missing = count;
        while missing > 0 {
            let head = head(&self.body()?)?;
            if head.is_event() {
                continue;
            }
            if !due.contains(&head.error) {
                let Head { error, .. } = head;
                return Err(io::Error::other(format!("an answer {error}, where {due:?} is due")));
            }
            missing -= 1;
        }
        Ok(())
    }

    /// Sends one request and waits for its answer's head; events in between are passed over.
    pub(crate) fn call(&mut self, request: &Request<'_>) -> io::Result<Head> {
        Ok(self.ask(request)?.0)
    }

    /// Sends many requests at once and waits until all are answered, with success.
    pub(crate) fn call_all(&mut self, frames: &[u8], count: usize) -> io::Result<()> {
        self.call_each(frames, count, 0)
    }

    /// The same where each is to be answered by one error.
    pub(crate) fn call_each(&mut self, frames: &[u8], count: usize, due: i32) -> io::Result<()> {
        self.socket.write_all(frames)?;
        for _ in 0..count {
            let body = self.body()?;
            let head = head(&body)?;
            if head.error != due {
                return Err(io::Error::other(format!("the server answers {}", head.error)));
            }
        }
        Ok(())
    }

    /// Reads one frame, waiting for it.
    fn body(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.socket.read_exact(&mut body)?;
        Ok(body)
    }

    pub(crate) fn unblock(&mut self) -> io::Result<()> {
        self.socket.set_nonblocking(true)
    }

    /// Where requests are appended; [`Self::flush`] sends them.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Sends what it can; false if something is left.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.sent < self.out.len() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        Ok(true)
    }

    /// Takes what has come, once, and shows each answer's head.
    pub(crate) fn receive(&mut self, mut answer: impl FnMut(Head)) -> io::Result<()> {
        if self.input.len() - self.filled < READ_CHUNK {
            self.input.resize(self.filled + READ_CHUNK, 0);
        }
        match self.socket.read(&mut self.input[self.filled..]) {
            Ok(0) => return Err(io::Error::other("the server has closed a connection")),
            Ok(read) => self.filled += read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
        loop {
            let rest = &self.input[self.taken..self.filled];
            let Some((length, rest)) = rest.split_first_chunk() else { break };
            let length = u32::from_be_bytes(*length) as usize;
            let Some(body) = rest.get(..length) else { break };
            answer(head(body)?);
            self.taken += 4 + length;
        }
        self.input.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        Ok(())
    }

    /// Gives the receive buffer back: thousands of idle connections need none.
    pub(crate) fn shrink(&mut self) {
        if self.filled == 0 {
            self.input = Vec::new();
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn head(body: &[u8]) -> io::Result<Head> {
    let short = || io::Error::other("an answer without a header");
    let xid = body.first_chunk().ok_or_else(short)?;
    let error = body.get(12..).and_then(<[u8]>::first_chunk).ok_or_else(short)?;
    Ok(Head { xid: i32::from_be_bytes(*xid), error: i32::from_be_bytes(*error) })
}

fn handshake(session: &Session) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_frame(&mut out, |out| {
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms: SESSION_TIMEOUT_MS,
            session_id: session.id,
            password: Some(session.password.as_slice().into()),
            read_only: Some(false),
        }
        .encode(out);
    });
    out.to_vec()
}
