//! The bytes that a client sent, as frames.

use std::cell::Cell;
use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use jute::protocol::LENGTH_LEN;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::inbox::Step;
use super::large_requests::{OverBudget, over_budget};
use crate::message::MessageId;
use crate::server::client::connection::Connection;
use crate::server::shared::Server;

/// Bytes read at once; a larger frame comes in several reads, so that memory follows what arrived.
const READ: usize = 8 << 10;
/// The same, while a large frame is on its way.
const READ_LARGE: usize = 64 << 10;

/// A buffer larger than this is not kept for the next connection.
const SPARE_MAX: usize = 64 << 10;

thread_local! {
    /// The buffer of the connection that was idle last: the next that reads on this thread takes
    /// it, so that idle connections have none and busy ones allocate none.
    static SPARE: Cell<Option<BytesMut>> = const { Cell::new(None) };
}

/// What was read and not taken out yet.
pub(super) struct Frames {
    bytes: BytesMut,
}

impl Frames {
    pub(super) fn new() -> Self {
        Self { bytes: BytesMut::new() }
    }

    /// These bytes were read.
    #[cfg(test)]
    pub(super) const fn holding(bytes: BytesMut) -> Self {
        Self { bytes }
    }

    #[cfg(test)]
    pub(super) const fn bytes_mut(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }

    /// Reads what the socket has, a piece: how many bytes, `None` at its end.
    pub(super) fn read(&mut self, socket: &TcpStream) -> io::Result<Option<usize>> {
        if self.bytes.capacity() == 0
            && let Some(spare) = SPARE.take()
        {
            self.bytes = spare;
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
            Ok(0) => Ok(None),
            Ok(read) => Ok(Some(read)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Some(0)),
            Err(error) => Err(error),
        }
    }

    /// Whether more may be read after a request that waits.
    pub(super) fn has_place(&self) -> bool {
        self.bytes.len() < READ_LARGE
    }

    /// Whether nothing is half read; then the buffer is given back, and else a large one.
    pub(super) fn is_idle(&mut self) -> bool {
        if !self.bytes.is_empty() {
            if self.bytes.len() < READ && self.bytes.capacity() > SPARE_MAX {
                self.bytes = BytesMut::from(&*self.bytes);
            }
            return false;
        }
        let buffer = std::mem::take(&mut self.bytes);
        if (1..=SPARE_MAX).contains(&buffer.capacity()) {
            SPARE.set(Some(buffer));
        }
        true
    }

    /// All bytes that are here.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The payload's length once the whole frame is here. Else what ends the connection.
    #[inline]
    pub(super) fn first_len(
        &self,
        server: &Server,
        connection: &Connection,
    ) -> Result<Option<usize>, Step> {
        let Some(prefix) = self.bytes.first_chunk::<LENGTH_LEN>() else { return Ok(None) };
        let len = i32::from_be_bytes(*prefix);
        match usize::try_from(len) {
            Ok(len) if len <= server.config.jute_max_buffer as usize => {
                if let Some(large) = &server.intake.large_requests {
                    large.announce(len).map_err(|OverBudget| over_budget(server, connection))?;
                }
                Ok((self.bytes.len() - LENGTH_LEN >= len).then_some(len))
            }
            _ => Err(too_long(server, connection, len)),
        }
    }

    /// The payload of the first frame, which is here.
    pub(super) fn payload(&self, len: usize) -> &[u8] {
        self.bytes.get(LENGTH_LEN..LENGTH_LEN + len).unwrap_or_default()
    }

    /// The first frame, whose payload has this length, is done with.
    pub(super) fn advance(&mut self, len: usize) {
        self.bytes.advance(LENGTH_LEN + len);
    }

    /// Takes the payload of the first frame out.
    pub(super) fn split_first(&mut self, len: usize) -> Bytes {
        let mut frame = self.bytes.split_to(LENGTH_LEN + len).freeze();
        frame.advance(LENGTH_LEN);
        frame
    }
}

/// Apart, because each request passes the place where this is called.
#[cold]
fn too_long(server: &Server, connection: &Connection, len: i32) -> Step {
    tracing::warn!(
        id = %MessageId::FRAME_TOO_LONG,
        client = %connection.peer(),
        len,
        "closing a connection: a frame may have at most {} bytes (jute.maxbuffer)",
        server.config.jute_max_buffer
    );
    Step::HangUp
}
