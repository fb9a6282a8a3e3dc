//! A client that hides nothing: frames in, frames out, and the end of the connection.

use std::borrow::Cow;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes, BytesMut};
use jute::protocol::{
    AddWatchMode, AddWatchRequest, ConnectRequest, ConnectResponse, CreateRequest, GetDataResponse,
    ReplyHeader, Request, RequestHeader, SetDataRequest, WatchRequest, put_frame,
};
use jute::{Acl, CreateMode, Record as _, perms};

/// Nothing that must come takes longer, however busy the machine is.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A reply or an event.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) header: ReplyHeader,
    pub(crate) body: Bytes,
}

/// A socket, and the session on it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) session: ConnectResponse,
    xid: i32,
}

pub(crate) fn open(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, DEADLINE).expect("connects");
    stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
    stream.set_write_timeout(Some(DEADLINE)).expect("a timeout");
    stream.set_nodelay(true).expect("no delay");
    stream
}

pub(crate) fn connect_frame(timeout_ms: i32, session_id: i64, password: &[u8]) -> BytesMut {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms,
        session_id,
        password: Some(Cow::Borrowed(password)),
        read_only: Some(false),
    };
    let mut out = BytesMut::new();
    put_frame(&mut out, |out| request.encode(out));
    out
}

pub(crate) fn request_frame(out: &mut BytesMut, xid: i32, request: &Request<'_>) {
    put_frame(out, |out| {
        RequestHeader { xid, op: request.op_code().code() }.encode(out);
        request.encode(out);
    });
}

/// The next frame's payload; `None` at the end of the connection.
pub(crate) fn frame(stream: &mut TcpStream) -> Option<Bytes> {
    match try_frame(stream) {
        Ok(payload) => Some(payload),
        Err(error) if is_end(&error) => None,
        Err(error) => panic!("no frame: {error}"),
    }
}

/// Whether a connection ended, and not within a frame.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset)
}

fn try_frame(stream: &mut TcpStream) -> io::Result<Bytes> {
    let mut length = [0; 4];
    if stream.read(&mut length[..1])? == 0 {
        return Err(ErrorKind::ConnectionAborted.into());
    }
    stream.read_exact(&mut length[1..])?;
    let mut payload = vec![0; usize::try_from(i32::from_be_bytes(length)).expect("a length")];
    stream.read_exact(&mut payload)?;
    Ok(payload.into())
}

/// Waits for the end of a connection that says nothing more.
pub(crate) fn ends(stream: &mut TcpStream) -> Duration {
    let began = Instant::now();
    let rest = frame(stream);
    assert!(rest.is_none(), "the connection should have ended: {rest:?}");
    began.elapsed()
}

pub(crate) fn connect_response(stream: &mut TcpStream) -> ConnectResponse {
    let payload = frame(stream).expect("an answer to the connect request");
    jute::decode::<ConnectResponse>(&payload).expect("a connect response").0
}

impl Client {
    pub(crate) fn connect(address: SocketAddr, timeout_ms: i32) -> Self {
        let client = Self::attach(address, timeout_ms, 0, &[0; 16]);
        assert!(client.session.timeout_ms > 0, "a session");
        client
    }

    /// A connection for a session that exists. It may be refused.
    pub(crate) fn attach(address: SocketAddr, timeout_ms: i32, id: i64, password: &[u8]) -> Self {
        let mut stream = open(address);
        stream.write_all(&connect_frame(timeout_ms, id, password)).expect("sent");
        let session = connect_response(&mut stream);
        Self { stream, session, xid: 0 }
    }

    /// A session whose handshake is done, with `sent` requests after it.
    pub(crate) const fn over(stream: TcpStream, session: ConnectResponse, sent: i32) -> Self {
        Self { stream, session, xid: sent }
    }

    pub(crate) fn again(&self, address: SocketAddr) -> Self {
        let session = &self.session;
        Self::attach(address, session.timeout_ms, session.session_id, &session.password)
    }

    /// Sends requests in one piece and gives the xid of the last.
    pub(crate) fn send(&mut self, requests: &[Request<'_>]) -> i32 {
        let mut out = BytesMut::new();
        for request in requests {
            self.xid += 1;
            request_frame(&mut out, self.xid, request);
        }
        self.stream.write_all(&out).expect("sent");
        self.xid
    }

    pub(crate) fn receive(&mut self) -> Option<Reply> {
        frame(&mut self.stream).map(reply)
    }

    /// The next reply of a server that may end at any moment.
    pub(crate) fn try_receive(&mut self) -> io::Result<Reply> {
        try_frame(&mut self.stream).map(reply)
    }

    /// The answers to what was sent last, which was `count` requests, in their order.
    pub(crate) fn receive_all(&mut self, count: i32) -> Vec<Reply> {
        let first = self.xid - count + 1;
        (first..=self.xid)
            .map(|xid| {
                let reply = self.receive().expect("a reply");
                assert!(
                    reply.header.xid == xid || reply.header.xid == -2,
                    "{:?}, not {xid}",
                    reply.header
                );
                reply
            })
            .collect()
    }

    pub(crate) fn call(&mut self, request: &Request<'_>) -> Reply {
        self.send(std::slice::from_ref(request));
        self.receive_all(1).pop().expect("a reply")
    }

    pub(crate) fn ok(&mut self, request: &Request<'_>) -> Reply {
        let reply = self.call(request);
        assert_eq!(reply.header.err, 0, "{request:?}");
        reply
    }

    pub(crate) fn exists(&mut self, path: &str) -> bool {
        match self.call(&exists(path, false)).header.err {
            0 => true,
            -101 => false,
            error => panic!("exists: {error}"),
        }
    }
}

fn reply(mut payload: Bytes) -> Reply {
    let (header, rest) = jute::decode::<ReplyHeader>(&payload).expect("a reply header");
    payload.advance(payload.len() - rest.len());
    Reply { header, body: payload }
}

pub(crate) fn create(path: &str, data: Vec<u8>, mode: CreateMode) -> Request<'static> {
    Request::Create(CreateRequest {
        path: path.to_owned().into(),
        data: Some(data.into()),
        acl: Some(vec![Acl::anyone(perms::ALL)]),
        flags: mode.flags(),
    })
}

pub(crate) fn exists(path: &str, watch: bool) -> Request<'_> {
    Request::Exists(WatchRequest { path: path.into(), watch })
}

pub(crate) fn get(path: &str) -> Request<'_> {
    Request::GetData(WatchRequest { path: path.into(), watch: false })
}

/// What a getData was answered with.
pub(crate) fn data_of(reply: &Reply) -> Vec<u8> {
    let (response, _) = jute::decode::<GetDataResponse<'_>>(&reply.body).expect("a znode's data");
    response.data.unwrap_or_default().into_owned()
}

pub(crate) fn set(path: &str, data: Vec<u8>) -> Request<'_> {
    Request::SetData(SetDataRequest { path: path.into(), data: Some(data.into()), version: -1 })
}

pub(crate) fn watch_for_ever(path: &str) -> Request<'_> {
    Request::AddWatch(AddWatchRequest { path: path.into(), mode: AddWatchMode::Persistent })
}

/// What a four-letter word is answered with.
pub(crate) fn word(address: SocketAddr, word: &str) -> String {
    let mut stream = open(address);
    stream.write_all(word.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

/// Asks until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
