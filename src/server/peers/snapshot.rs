//! A snapshot on its way from one member to another, over a connection of its own.
//!
//! ```text
//! frame with the message, compression u8 (0, 1 gzip, 2 snappy), length u64, the file; answered by a byte once it is there
//! ```

use std::io::{self, Read as _, Write as _};
use std::net::ToSocketAddrs as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, BytesMut};

use super::hello::{SNAPSHOT, hello};
use super::{Common, DIAL_MAX, Peer};
use crate::ensemble::{
    FRAME_HEAD_LEN, FromPeer, PeerMessage, Said, parse_head, parse_said, put_said, snapshot_zxid,
};
use crate::storage::{Compression, ReceivedSnapshot, SnapshotFile, StorageError};

const SNAPSHOT_PIECE: usize = 256 << 10;
/// A snapshot's connection on which nothing moves is given up.
const SNAPSHOT_STILL_MAX: Duration = Duration::from_secs(30);

/// Sends a snapshot to a peer.
pub(super) fn send_snapshot(
    common: &Common,
    peer: &Peer,
    message: PeerMessage,
    file: &SnapshotFile,
) -> io::Result<()> {
    let not_found = || io::Error::from(io::ErrorKind::NotFound);
    let address =
        (peer.host.as_str(), peer.port).to_socket_addrs()?.next().ok_or_else(not_found)?;
    let mut socket = std::net::TcpStream::connect_timeout(&address, DIAL_MAX)?;
    socket.set_read_timeout(Some(SNAPSHOT_STILL_MAX))?;
    socket.set_write_timeout(Some(SNAPSHOT_STILL_MAX))?;
    socket.write_all(&hello(common.own(), peer.server, SNAPSHOT))?;
    let mut reason = [0; 4];
    socket.read_exact(&mut reason)?;
    if reason != [0; 4] {
        return Err(io::Error::other("it refuses the connection"));
    }
    socket.read_exact(&mut [0; 8])?;
    let size = file.size().map_err(io::Error::other)?;
    let mut head = BytesMut::new();
    put_said(&mut head, &Said::Message(message));
    head.put_u8(match file.compression() {
        Compression::None => 0,
        Compression::Gzip => 1,
        Compression::Snappy => 2,
    });
    head.put_u64(size);
    socket.write_all(&head)?;
    let mut piece = vec![0; SNAPSHOT_PIECE];
    let mut sent = 0;
    while sent < size && !common.ending.is_cancelled() {
        let len = usize::try_from(size - sent).unwrap_or(SNAPSHOT_PIECE).min(SNAPSHOT_PIECE);
        let Some(piece) = piece.get_mut(..len) else { break };
        file.read(piece, sent).map_err(io::Error::other)?;
        socket.write_all(piece)?;
        sent += len as u64;
    }
    socket.read_exact(&mut [0])
}

/// Takes a snapshot, and gives it to the orderer.
pub(super) fn receive_snapshot(common: &Common, mut socket: std::net::TcpStream) -> io::Result<()> {
    let alone = Arc::clone(&common.receiving).try_acquire_owned();
    let alone = alone.map_err(|_| io::Error::other("another snapshot is being received"))?;
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(Some(SNAPSHOT_STILL_MAX))?;
    let mut head = [0; FRAME_HEAD_LEN];
    socket.read_exact(&mut head)?;
    let (len, checksum) = parse_head(head).map_err(io::Error::other)?;
    let mut content = Vec::new();
    (&mut socket).take(len as u64).read_to_end(&mut content)?;
    let said =
        parse_said(&content, checksum, common.clock.monotonic()).map_err(io::Error::other)?;
    let strange = || io::Error::other("a snapshot that is none");
    let Said::Message(message) = said else { return Err(strange()) };
    let zxid = snapshot_zxid(&message).ok_or_else(strange)?;
    let mut rest = [0; 9];
    socket.read_exact(&mut rest)?;
    let [compression, size @ ..] = rest;
    let compression = match compression {
        0 => Compression::None,
        1 => Compression::Gzip,
        2 => Compression::Snappy,
        _ => return Err(strange()),
    };
    let mut left = u64::from_be_bytes(size);
    let directory = Arc::clone(&common.directory);
    let mut received =
        ReceivedSnapshot::create(directory, zxid, compression).map_err(io::Error::other)?;
    let mut piece = vec![0; SNAPSHOT_PIECE];
    while left > 0 {
        let len = usize::try_from(left).unwrap_or(SNAPSHOT_PIECE).min(SNAPSHOT_PIECE);
        let read = socket.read(piece.get_mut(..len).unwrap_or_default())?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let written = received.write(piece.get(..read).unwrap_or_default());
        written.map_err(|error: StorageError| io::Error::other(error))?;
        left -= read as u64;
    }
    common.queue.put_from_peer(FromPeer::Snapshot(message, received), Some(alone));
    socket.write_all(&[1])
}
