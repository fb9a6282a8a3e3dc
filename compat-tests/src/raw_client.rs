//! One socket that speaks frames and hides nothing.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};

use crate::request::{self, op};

/// Nothing a test waits for on a raw socket takes longer.
const DEADLINE: Duration = Duration::from_secs(20);

/// The first frame of a connection.
#[derive(Clone, Debug)]
pub struct ConnectRequest {
    pub protocol_version: i32,
    pub last_zxid_seen: i64,
    pub timeout: i32,
    pub session: i64,
    /// None is the null buffer.
    pub password: Option<Vec<u8>>,
    /// None leaves the byte out, as clients before 3.4 do.
    pub read_only: Option<bool>,
}

impl ConnectRequest {
    /// A new session.
    pub fn new(timeout: i32) -> Self {
        Self {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout,
            session: 0,
            password: Some(vec![0; 16]),
            read_only: Some(false),
        }
    }

    /// A session that exists.
    pub fn again(session: &Session) -> Self {
        Self {
            session: session.id,
            password: Some(session.password.to_vec()),
            ..Self::new(session.timeout)
        }
    }

    /// The payload, without the frame's length.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_i32(self.protocol_version);
        out.put_i64(self.last_zxid_seen);
        out.put_i32(self.timeout);
        out.put_i64(self.session);
        match &self.password {
            Some(password) => request::buffer(&mut out, password),
            None => out.put_i32(-1),
        }
        if let Some(read_only) = self.read_only {
            out.put_u8(u8::from(read_only));
        }
        out
    }
}

/// A decoded ConnectResponse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub protocol_version: i32,
    /// 0 when refused.
    pub timeout: i32,
    pub id: i64,
    pub password: Bytes,
    /// None when the byte is absent.
    pub read_only: Option<bool>,
}

impl Session {
    fn decode(mut payload: Bytes) -> Self {
        let protocol_version = payload.get_i32();
        let timeout = payload.get_i32();
        let id = payload.get_i64();
        let length = usize::try_from(payload.get_i32()).expect("the password has a length");
        let password = payload.split_to(length);
        let read_only = payload.has_remaining().then(|| payload.get_u8() != 0);
        assert!(!payload.has_remaining(), "bytes after the ConnectResponse: {payload:?}");
        Self { protocol_version, timeout, id, password, read_only }
    }

    /// Whether the server said no.
    pub fn refused(&self) -> bool {
        self.timeout == 0
    }
}

/// A frame from the server after the ConnectResponse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub xid: i32,
    pub zxid: i64,
    pub err: i32,
    /// What stands after the header.
    pub body: Bytes,
}

impl Reply {
    fn decode(mut payload: Bytes) -> Self {
        let (xid, zxid, err) = (payload.get_i32(), payload.get_i64(), payload.get_i32());
        Self { xid, zxid, err, body: payload }
    }

    /// The data of a getData reply.
    pub fn data(&self) -> Bytes {
        take_buffer(&mut self.body.clone())
    }

    /// The path of a create or sync reply.
    pub fn path(&self) -> String {
        take_string(&mut self.body.clone())
    }

    /// The stat, which ends every body that has one.
    pub fn stat(&self) -> Stat {
        let start = self.body.len().checked_sub(Stat::SIZE).expect("the body ends in a stat");
        Stat::decode(&mut self.body.slice(start..))
    }

    /// The names of a getChildren or getChildren2 reply, sorted.
    pub fn children(&self) -> Vec<String> {
        let mut body = self.body.clone();
        let mut names: Vec<String> = (0..body.get_i32()).map(|_| take_string(&mut body)).collect();
        names.sort();
        names
    }

    /// The list of a getACL reply as `scheme:id:permissions`, in its order.
    pub fn acl(&self) -> Vec<String> {
        let mut body = self.body.clone();
        let count = body.get_i32();
        let one = |_| {
            let perms = body.get_i32();
            let (scheme, id) = (take_string(&mut body), take_string(&mut body));
            format!("{scheme}:{id}:{perms}")
        };
        (0..count).map(one).collect()
    }

    /// Who a whoAmI reply says that the connection is, as `scheme:user`, sorted.
    pub fn identities(&self) -> Vec<String> {
        let mut body = self.body.clone();
        let count = body.get_i32();
        let one = |_| format!("{}:{}", take_string(&mut body), take_string(&mut body));
        let mut all: Vec<String> = (0..count).map(one).collect();
        all.sort();
        all
    }

    /// The event, if this is one.
    pub fn event(&self) -> Option<Event> {
        let mut body = self.body.clone();
        (self.xid == -1).then(|| Event {
            zxid: self.zxid,
            kind: body.get_i32(),
            state: body.get_i32(),
            path: take_string(&mut body),
        })
    }
}

/// A watch notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub zxid: i64,
    /// 1 created, 2 deleted, 3 data changed, 4 children changed.
    pub kind: i32,
    pub state: i32,
    pub path: String,
}

/// A znode's stat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    pub czxid: i64,
    pub mzxid: i64,
    pub ctime: i64,
    pub mtime: i64,
    pub version: i32,
    pub cversion: i32,
    pub aversion: i32,
    pub ephemeral_owner: i64,
    pub data_length: i32,
    pub num_children: i32,
    pub pzxid: i64,
}

impl Stat {
    const SIZE: usize = 68;

    fn decode(bytes: &mut Bytes) -> Self {
        Self {
            czxid: bytes.get_i64(),
            mzxid: bytes.get_i64(),
            ctime: bytes.get_i64(),
            mtime: bytes.get_i64(),
            version: bytes.get_i32(),
            cversion: bytes.get_i32(),
            aversion: bytes.get_i32(),
            ephemeral_owner: bytes.get_i64(),
            data_length: bytes.get_i32(),
            num_children: bytes.get_i32(),
            pzxid: bytes.get_i64(),
        }
    }
}

/// A client that sends what it is told and counts nothing but xids.
#[derive(Debug)]
pub struct RawClient {
    stream: TcpStream,
    last_xid: i32,
    /// Bytes read and not yet asked for.
    input: VecDeque<u8>,
    /// The session of the last handshake.
    pub session: Option<Session>,
    /// Events that arrived before replies read by [`Self::call`], oldest first.
    pub events: Vec<Event>,
}

impl RawClient {
    /// A socket, nothing sent.
    pub fn dial(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, DEADLINE)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        stream.set_nodelay(true)?;
        let input = VecDeque::new();
        Ok(Self { stream, last_xid: 0, input, session: None, events: Vec::new() })
    }

    /// A socket and its handshake; a server that closes without an answer is an error.
    pub fn open(address: SocketAddr, request: &ConnectRequest) -> io::Result<(Self, Session)> {
        let mut client = Self::dial(address)?;
        client.send_frame(&request.bytes())?;
        let session = client.read_session()?;
        Ok((client, session))
    }

    /// Reads the ConnectResponse.
    pub fn read_session(&mut self) -> io::Result<Session> {
        let payload = self.read_frame()?.ok_or(ErrorKind::UnexpectedEof)?;
        let session = Session::decode(payload);
        self.session = Some(session.clone());
        Ok(session)
    }

    /// A second handle of the socket, for a reader or writer of its own; no session, no events.
    pub fn split(&self) -> io::Result<Self> {
        let stream = self.stream.try_clone()?;
        let input = VecDeque::new();
        Ok(Self { stream, last_xid: self.last_xid, input, session: None, events: Vec::new() })
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends one frame.
    pub fn send_frame(&mut self, payload: &[u8]) -> io::Result<()> {
        self.send_raw(&frame(payload))
    }

    /// The frame of a request under the next xid.
    pub fn next_request(&mut self, op: i32, body: &[u8]) -> (i32, Vec<u8>) {
        self.last_xid += 1;
        (self.last_xid, frame(&with_header(self.last_xid, op, body)))
    }

    /// Sends a request under the next xid, which it returns.
    pub fn send(&mut self, op: i32, body: &[u8]) -> io::Result<i32> {
        let (xid, bytes) = self.next_request(op, body);
        self.send_raw(&bytes)?;
        Ok(xid)
    }

    /// The next frame's payload; None at the end of the stream (also a reset one).
    pub fn read_frame(&mut self) -> io::Result<Option<Bytes>> {
        let mut header = [0; 4];
        if !self.fill(4)? {
            return Ok(None);
        }
        for byte in &mut header {
            *byte = self.input.pop_front().ok_or(ErrorKind::UnexpectedEof)?;
        }
        let length = usize::try_from(i32::from_be_bytes(header))
            .map_err(|_| io::Error::other("a negative frame length from the server"))?;
        if !self.fill(length)? {
            return Ok(None);
        }
        Ok(Some(self.input.drain(..length).collect::<Vec<u8>>().into()))
    }

    /// Everything up to the end of the stream, frames or not.
    pub fn read_all(&mut self) -> io::Result<Vec<u8>> {
        while self.fill(self.input.len() + 1)? {}
        Ok(self.input.drain(..).collect())
    }

    /// The next reply or event; None at the end of the stream.
    pub fn read_reply(&mut self) -> io::Result<Option<Reply>> {
        Ok(self.read_frame()?.map(Reply::decode))
    }

    /// Sends a request and returns its reply; events on the way go to [`Self::events`].
    pub fn call(&mut self, op: i32, body: &[u8]) -> io::Result<Reply> {
        let xid = self.send(op, body)?;
        self.reply_to(xid)
    }

    /// Sends all requests before it reads the first reply; the replies in their order.
    pub fn call_all(&mut self, requests: &[(i32, Vec<u8>)]) -> io::Result<Vec<Reply>> {
        let (xids, frames): (Vec<i32>, Vec<Vec<u8>>) =
            requests.iter().map(|(op, body)| self.next_request(*op, body)).unzip();
        self.send_raw(&frames.concat())?;
        xids.into_iter().map(|xid| self.reply_to(xid)).collect()
    }

    fn reply_to(&mut self, xid: i32) -> io::Result<Reply> {
        loop {
            let reply = self.read_reply()?.ok_or(ErrorKind::UnexpectedEof)?;
            match reply.event() {
                Some(event) => self.events.push(event),
                None if reply.xid == xid => return Ok(reply),
                None => return Err(io::Error::other(format!("xid {xid} asked, got {reply:?}"))),
            }
        }
    }

    /// Closes the session and waits until the server has closed the socket.
    pub fn close(mut self) -> io::Result<()> {
        self.call(op::CLOSE_SESSION, &[])?;
        match self.read_frame()? {
            None => Ok(()),
            Some(frame) => Err(io::Error::other(format!("{frame:?} after closeSession's reply"))),
        }
    }

    /// How long reads wait before they fail with `WouldBlock`.
    pub fn set_deadline(&mut self, deadline: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(deadline))
    }

    /// Reads until `length` bytes are at hand; false when the stream ended before.
    fn fill(&mut self, length: usize) -> io::Result<bool> {
        let mut chunk = [0; 16 * 1024];
        while self.input.len() < length {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(false),
                Ok(read) => self.input.extend(chunk.iter().take(read)),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Length and payload.
pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + 4);
    request::buffer(&mut out, payload);
    out
}

fn with_header(xid: i32, op: i32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 8);
    out.put_i32(xid);
    out.put_i32(op);
    out.put_slice(body);
    out
}

fn take_buffer(bytes: &mut Bytes) -> Bytes {
    // A null buffer reads as empty: who must tell them apart looks at the body.
    let length = usize::try_from(bytes.get_i32()).unwrap_or(0);
    bytes.split_to(length)
}

fn take_string(bytes: &mut Bytes) -> String {
    String::from_utf8(take_buffer(bytes).to_vec()).expect("the server sends UTF-8")
}
