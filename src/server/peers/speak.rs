//! The connection out to a peer: dialled for ever, and what there is to say sent over it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::BytesMut;
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::hello::{self, WORDS};
use super::{BETWEEN_DIALS, Common, DIAL_MAX, Peer, SILENT_MAX, Unsent, timeout};
use crate::ensemble::FromPeer;

/// A peer that cannot be reached is told of this often.
const BETWEEN_COMPLAINTS: Duration = Duration::from_secs(60);

/// Keeps a connection to a peer.
pub(super) async fn speak(common: Arc<Common>, peer: Arc<Peer>) {
    let mut last_complaint: Option<Instant> = None;
    loop {
        match timeout(DIAL_MAX, dial(&common, &peer)).await {
            Ok((socket, id)) => {
                last_complaint = None;
                tracing::info!(peer = peer.server, "connected to a server of the ensemble");
                peer.id.store(id, Ordering::Relaxed);
                *peer.unsent.lock() = Unsent { bytes: BytesMut::new(), is_up: true };
                common.queue.put_from_peer(FromPeer::Speaks(id, true), None);
                let error = say_all(&peer, socket).await;
                peer.unsent.lock().is_up = false;
                common.queue.put_from_peer(FromPeer::Speaks(id, false), None);
                tracing::info!(peer = peer.server, %error, "lost a server of the ensemble");
            }
            Err(error) => {
                if last_complaint.is_none_or(|last| last.elapsed() >= BETWEEN_COMPLAINTS) {
                    last_complaint = Some(Instant::now());
                    tracing::warn!(
                        peer = peer.server,
                        address = %format_args!("{}:{}", peer.host, peer.port),
                        %error,
                        "cannot reach a server of the ensemble, tried again"
                    );
                }
            }
        }
        tokio::time::sleep(BETWEEN_DIALS).await;
    }
}

/// Gives the connection and the id of the peer.
async fn dial(common: &Common, peer: &Peer) -> io::Result<(TcpStream, u64)> {
    let mut socket = TcpStream::connect((peer.host.as_str(), peer.port)).await?;
    socket.set_nodelay(true)?;
    SockRef::from(&socket).set_tcp_user_timeout(Some(SILENT_MAX))?;
    let id = hello::say(&mut socket, common.own(), peer.server, WORDS).await?;
    Ok((socket, id))
}

/// Sends what there is to say until the connection ends. Gives why it did.
async fn say_all(peer: &Peer, mut socket: TcpStream) -> io::Error {
    let (mut incoming, mut outgoing) = socket.split();
    let write = async {
        loop {
            let bytes = std::mem::take(&mut peer.unsent.lock().bytes);
            if bytes.is_empty() {
                peer.arrived.notified().await;
            } else if let Err(error) = outgoing.write_all(&bytes).await {
                return error;
            }
        }
    };
    // A peer says nothing here; that it has ended shows.
    let mut byte = [0];
    tokio::select! {
        error = write => error,
        read = incoming.read(&mut byte) => {
            read.err().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into())
        }
        () = peer.overflowed.notified() => io::Error::other("it takes nothing any more"),
    }
}
