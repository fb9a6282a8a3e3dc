//! The connection out to a peer: dialled for ever, and what there is to say sent over it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::complaints::Complaints;
use super::hello::{self, WORDS};
use super::secure::Stream;
use super::{BETWEEN_DIALS, Common, DIAL_MAX, Peer, SILENT_MAX, Unsent, timeout};
use crate::ensemble::FromPeer;
use crate::message::MessageId;

/// Keeps a connection to a peer.
pub(super) async fn speak(common: Arc<Common>, peer: Arc<Peer>) {
    loop {
        match dial(&common, &peer, WORDS, SILENT_MAX).await {
            Ok((stream, id, version)) => {
                *peer.complaints.lock() = Complaints::default();
                let server = peer.server;
                tracing::info!(peer = server, version, "connected to a server of the ensemble");
                peer.id.store(id, Ordering::Relaxed);
                *peer.unsent.lock() = Unsent { is_up: true, version, ..Unsent::default() };
                common.queue.put_from_peer(FromPeer::Speaks(id, true), None);
                let error = say_all(&peer, stream).await;
                peer.unsent.lock().is_up = false;
                *peer.complaints.lock() = Complaints::default();
                common.queue.put_from_peer(FromPeer::Speaks(id, false), None);
                tracing::info!(peer = server, %error, "lost a server of the ensemble");
            }
            Err(error) => peer.complain(&error),
        }
        tokio::time::sleep(BETWEEN_DIALS).await;
    }
}

impl Peer {
    /// Says why it was not reached, unless it has just been said.
    pub(super) fn complain(&self, error: &io::Error) {
        let mut complaints = self.complaints.lock();
        if is_of_a_start(error) && complaints.is_early() {
            return;
        }
        if complaints.is_due(error.to_string()) {
            tracing::warn!(
                id = %MessageId::PEER_UNREACHABLE,
                peer = self.server,
                address = %format_args!("{}:{}", self.host, self.port),
                %error,
                "cannot reach a server of the ensemble; still trying"
            );
        }
    }
}

/// Whether it is what a server meets whose peers do not run yet, still read what they have, or belong to no ensemble yet.
pub(super) fn is_of_a_start(error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::ConnectionRefused,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::UnexpectedEof,
    ];
    kinds.contains(&error.kind()) || hello::is_too_early(error)
}

/// A connection to a peer that is welcome there, its id, and the version to speak over it. What is sent may go without a word
/// that it arrived for `silent_max`.
pub(super) async fn dial(
    common: &Common,
    peer: &Peer,
    purpose: u32,
    silent_max: Duration,
) -> io::Result<(Stream, u64, u32)> {
    timeout(DIAL_MAX, async {
        let socket = connect(look_up(common, peer).await?).await?;
        socket.set_nodelay(true)?;
        SockRef::from(&socket).set_tcp_user_timeout(Some(silent_max))?;
        let mut stream = common.security.connect(&peer.host, socket).await?;
        let (id, version) = hello::say(common, &mut stream, peer.server, purpose).await?;
        Ok((stream, id, version))
    })
    .await
}

/// Where a peer is now.
async fn look_up(common: &Common, peer: &Peer) -> io::Result<Vec<SocketAddr>> {
    let (look_up, host, port) = (common.look_up, peer.host.clone(), peer.port);
    tokio::task::spawn_blocking(move || look_up(&host, port)).await.map_err(io::Error::other)?
}

/// To the first of its addresses that answers. None of them may use up the time of the others.
async fn connect(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let share = DIAL_MAX / u32::try_from(addresses.len().max(1)).unwrap_or(1);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its host name has no address");
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Sends what there is to say until the connection ends. Gives why it did.
async fn say_all(peer: &Peer, stream: Stream) -> io::Error {
    let (mut incoming, mut outgoing) = tokio::io::split(stream);
    let write = async {
        loop {
            let bytes = {
                let mut unsent = peer.unsent.lock();
                unsent.in_hand = unsent.bytes.len();
                std::mem::take(&mut unsent.bytes)
            };
            if bytes.is_empty() {
                peer.arrived.notified().await;
                continue;
            }
            let sent = async {
                outgoing.write_all(&bytes).await?;
                outgoing.flush().await
            };
            if let Err(error) = sent.await {
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
        () = peer.overflowed.notified() => io::Error::other("it accepts no more data"),
    }
}
