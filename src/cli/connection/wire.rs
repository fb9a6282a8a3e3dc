//! Frames on a socket: how one is opened, written for and read, and what ends it.

use std::io::{self, ErrorKind, Read as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use bytes::BytesMut;
use jute::Record as _;
use jute::protocol::{AuthPacket, Request, RequestHeader, put_frame, xid};

use crate::cli::servers::Address;

/// No answer of a server is longer: a listing of a million children is a third of it.
const FRAME_MAX: usize = 64 << 20;
/// Read at a time: memory grows with what has come, not with what a length announces.
const CHUNK: usize = 64 << 10;
/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the host name has no address")]
    Unresolved,
    #[error("the server closed the connection")]
    ByServer,
    #[error("no response for {} ms", .0.as_millis())]
    Silence(Duration),
    #[error(
        "it answered with a frame of {0} bytes: it is not a ZooKeeper server, or the answer is too \
         long"
    )]
    FrameLength(i32),
    #[error("it sent an answer that no ZooKeeper server sends: {0}")]
    Garbage(#[from] jute::DecodeError),
    #[error("it answered request {got} instead of {expected:?}")]
    OutOfOrder { got: i32, expected: Option<i32> },
    #[error("the session has expired")]
    Expired,
    #[error("authentication failed")]
    AuthFailed,
}

pub(super) fn frame(xid: i32, request: &Request<'_>) -> BytesMut {
    let mut out = BytesMut::new();
    put_frame(&mut out, |out| {
        RequestHeader { xid, op: request.op_code().code() }.encode(out);
        request.encode(out);
    });
    out
}

pub(super) fn auth_frame(scheme: &str, token: Option<&[u8]>) -> BytesMut {
    let packet =
        AuthPacket { auth_type: 0, scheme: Some(scheme.into()), auth: token.map(Into::into) };
    frame(xid::AUTH, &Request::Auth(packet))
}

/// Connects to the first address of a name that answers.
pub(super) fn open(address: &Address, time: Duration) -> Result<TcpStream, Lost> {
    let mut lost = Lost::Unresolved;
    for at in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&at, time) {
            Ok(socket) => return Ok(socket),
            Err(error) => lost = Lost::Io(error),
        }
    }
    Err(lost)
}

/// The length of the frame at the front, if it is there as a whole.
pub(super) fn frame_len(buffer: &[u8]) -> Result<Option<usize>, Lost> {
    let Some((prefix, payload)) = buffer.split_first_chunk::<4>() else { return Ok(None) };
    let announced = i32::from_be_bytes(*prefix);
    let len = usize::try_from(announced).ok().filter(|len| *len <= FRAME_MAX);
    let len = len.ok_or(Lost::FrameLength(announced))?;
    Ok((payload.len() >= len).then_some(len))
}

/// Appends what comes within `wait`; false if nothing did.
pub(super) fn read_some(
    socket: &mut TcpStream,
    buffer: &mut Vec<u8>,
    wait: Duration,
) -> Result<bool, Lost> {
    socket.set_read_timeout(Some(wait))?;
    let before = buffer.len();
    buffer.resize(before + CHUNK, 0);
    let read = socket.read(buffer.get_mut(before..).unwrap_or_default());
    buffer.truncate(before + read.as_ref().copied().unwrap_or_default());
    match read {
        Ok(0) => Err(Lost::ByServer),
        Ok(_) => Ok(true),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(Lost::Io(error)),
    }
}
