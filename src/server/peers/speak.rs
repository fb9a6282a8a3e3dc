//! The connection out to a peer: dialled for ever, and what there is to say sent over it.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::address::Address;
use super::admission::Probe;
use super::complaints::Complaints;
use super::hello::{self, Called, WORDS};
use super::refusal::{Refusal, RefusalKind};
use super::secure::Stream;
use super::{BETWEEN_DIALS, Common, DIAL_MAX, Peer, SILENT_MAX, Unsent, timeout};
use crate::ensemble::{FRAME_HEAD_LEN, FromPeer, PeerRefused, Said, parse_head, put_said};
use crate::list::host::Host;
use crate::message::MessageId;

/// Bytes of whole frames that are sent before anything else may be.
const PIECE_MIN: usize = 64 << 10;

/// Keeps a connection to a peer, where it is reached, as long as it is one.
pub(super) async fn speak(common: Arc<Common>, peer: Arc<Peer>) {
    let mut place = peer.address.subscribe();
    loop {
        // The sender is the peer's.
        let _ = place.wait_for(Option::is_some).await;
        let dialled = tokio::select! {
            dialled = dial(&common, &peer, WORDS, SILENT_MAX) => dialled,
            Ok(()) = place.changed() => continue,
        };
        match dialled {
            Ok((stream, called)) => {
                *peer.complaints.lock() = Complaints::default();
                let (server, version) = (peer.server, called.version);
                tracing::info!(peer = server, version, "connected to a server of the ensemble");
                *peer.process.lock() = Some(called.process);
                common.voice.answered(server, false, Instant::now());
                let error = say_all(&common, &peer, &place, (called, stream)).await;
                *peer.process.lock() = None;
                *peer.complaints.lock() = Complaints::default();
                tracing::info!(
                    peer = server,
                    %error,
                    "lost the connection to a server of the ensemble"
                );
            }
            Err(error) => {
                // Anybody who has the ensemble's secret may call, and say what it wants then.
                let has_a_say = || common.others.has_a_say(peer.server);
                let refused = match Refusal::kind_of(&error).filter(|_| has_a_say()) {
                    Some(RefusalKind::Older) => Some(PeerRefused::Older),
                    Some(RefusalKind::Replaced) => Some(PeerRefused::Replaced),
                    Some(RefusalKind::Removed) => Some(PeerRefused::Removed),
                    Some(RefusalKind::Reason | RefusalKind::InUse | RefusalKind::OfAnother)
                    | None => None,
                };
                if let Some(refused) = refused {
                    common.voice.end();
                    peer.complain(&error);
                    common.queue.put_from_peer(FromPeer::Refused(refused), None);
                    return;
                }
                // Who did not answer in time may do so later.
                if error.kind() != io::ErrorKind::TimedOut && has_a_say() {
                    let is_in_use = Refusal::kind_of(&error) == Some(RefusalKind::InUse);
                    common.voice.answered(peer.server, is_in_use, Instant::now());
                }
                peer.complain(&error);
                common.forget_unlisted(peer.server);
            }
        }
        tokio::time::sleep(BETWEEN_DIALS).await;
    }
}

impl Peer {
    /// Says why it was not reached, unless it has just been said.
    pub(super) fn complain(&self, error: &io::Error) {
        let Some(address) = self.address() else { return };
        let mut complaints = self.complaints.lock();
        let refused = Refusal::kind_of(error).filter(|kind| *kind != RefusalKind::Reason);
        if refused.is_none() && is_of_a_start(error) && complaints.is_early() {
            return;
        }
        if !complaints.is_due(error.to_string()) {
            return;
        }
        if refused == Some(RefusalKind::OfAnother) {
            tracing::warn!(
                id = %MessageId::PEER_OF_ANOTHER_ENSEMBLE,
                peer = self.server,
                %address,
                %error,
                "a server in the list belongs to a different ensemble than this one"
            );
        } else if refused.is_some() {
            tracing::warn!(
                id = %MessageId::ID_IN_USE,
                peer = self.server,
                %address,
                %error,
                "a server of the ensemble refuses to talk to this process"
            );
        } else {
            tracing::warn!(
                id = %MessageId::PEER_UNREACHABLE,
                peer = self.server,
                %address,
                %error,
                "cannot reach a server of the ensemble; still trying"
            );
        }
    }
}

/// Whether it is what a server meets whose peers do not run yet, still read what they have, or
/// belong to no ensemble yet.
pub(super) fn is_of_a_start(error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::ConnectionRefused,
        io::ErrorKind::ConnectionReset,
        io::ErrorKind::UnexpectedEof,
    ];
    kinds.contains(&error.kind()) || hello::is_too_early(error)
}

/// A connection to a peer that is welcome there, and whom it reaches. What is sent may go without a
/// word that it arrived for `silent_max`.
pub(super) async fn dial(
    common: &Common,
    peer: &Peer,
    purpose: u32,
    silent_max: Duration,
) -> io::Result<(Stream, Called)> {
    let Some(Address { host, port }) = peer.address() else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "it is not in the list any more"));
    };
    timeout(DIAL_MAX, async {
        let socket = connect(look_up(common, &host, port).await?).await?;
        socket.set_nodelay(true)?;
        SockRef::from(&socket).set_tcp_user_timeout(Some(silent_max))?;
        let address = socket.peer_addr()?;
        let mut stream = common.security.connect(host.as_str(), socket).await?;
        let called = hello::say(common, &mut stream, address, peer.server, purpose).await?;
        Ok((stream, called))
    })
    .await
}

/// The addresses of a name now.
async fn look_up(common: &Common, host: &Host, port: u16) -> io::Result<Vec<SocketAddr>> {
    let (look_up, host) = (common.look_up, host.as_str().to_owned());
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

/// Sends what there is to say until the connection ends, or the peer is not reached at `place` any
/// more. Gives why it did. Nothing is said before this process may speak, or when it may no more.
async fn say_all(
    common: &Common,
    peer: &Peer,
    place: &watch::Receiver<Option<Address>>,
    (called, stream): (Called, Stream),
) -> io::Error {
    let elsewhere = || io::Error::other("the list has it no more, or at another address");
    let mut moved = place.clone();
    let (mut incoming, mut outgoing) = tokio::io::split(stream);
    let has_spoken = AtomicBool::new(false);
    let write = async {
        common.voice.is(true).await;
        let mut first = Unsent { is_up: true, version: called.version, ..Unsent::default() };
        // Others know by it who speaks.
        put_said(&mut first.bytes, &Said::Alive(0));
        peer.id.store(called.id, Ordering::Relaxed);
        {
            let mut unsent = peer.unsent.lock();
            if place.has_changed().unwrap_or(true) {
                return elsewhere();
            }
            *unsent = first;
        }
        has_spoken.store(true, Ordering::Relaxed);
        common.queue.put_from_peer(FromPeer::Speaks(called.id, true), None);
        match send_all(peer, &mut outgoing).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    };
    let silenced = async {
        common.voice.is(true).await;
        common.voice.is(false).await;
    };
    let error = tokio::select! {
        error = write => error,
        error = heed_probes(peer, &mut incoming) => error,
        _ = moved.changed() => elsewhere(),
        () = peer.overflowed.notified() => io::Error::other("it accepts no more data"),
        () = peer.left.notified() => io::Error::other("another process runs as that server"),
        () = silenced => io::Error::other("this process may not talk to the other servers"),
    };
    peer.unsent.lock().is_up = false;
    if has_spoken.load(Ordering::Relaxed) {
        common.queue.put_from_peer(FromPeer::Speaks(called.id, false), None);
    }
    error
}

async fn send_all(peer: &Peer, outgoing: &mut (impl AsyncWrite + Unpin)) -> io::Result<Infallible> {
    let mut bytes = BytesMut::new();
    loop {
        let probe = peer.probed.swap(0, Ordering::Relaxed);
        if probe != 0 {
            let mut alive = BytesMut::new();
            put_said(&mut alive, &Said::Alive(probe));
            outgoing.write_all(&alive).await?;
        }
        if bytes.is_empty() {
            let mut unsent = peer.unsent.lock();
            bytes = std::mem::take(&mut unsent.bytes);
            unsent.in_hand = bytes.len();
        }
        let piece = bytes.split_to(whole_frames(&bytes));
        outgoing.write_all(&piece).await?;
        if bytes.is_empty() {
            outgoing.flush().await?;
        }
        if piece.is_empty() && probe == 0 {
            peer.arrived.notified().await;
        }
    }
}

/// How many bytes a piece has, which ends where a frame does.
fn whole_frames(bytes: &[u8]) -> usize {
    let mut end = 0;
    while end < PIECE_MIN.min(bytes.len()) {
        let head = bytes.get(end..).and_then(|rest| rest.first_chunk());
        let len = head.and_then(|head| parse_head(*head).ok()).map(|(len, _)| len);
        let Some(len) = len else { return bytes.len() };
        end += FRAME_HEAD_LEN + len;
    }
    end.min(bytes.len())
}

/// Has probes answered. Nothing else comes here; that the peer has ended shows. Gives why.
async fn heed_probes(peer: &Peer, incoming: &mut (impl AsyncRead + Unpin)) -> io::Error {
    let mut bytes = [0; Probe::LEN];
    loop {
        if let Err(error) = incoming.read_exact(&mut bytes).await {
            return error;
        }
        let Probe { number, other } = Probe::parse(&bytes);
        peer.probed.store(number, Ordering::Relaxed);
        peer.arrived.notify_one();
        if peer.probes.lock().is_due(other.ip().to_string()) {
            tracing::warn!(
                id = %MessageId::ID_CALLED_ELSEWHERE,
                peer = peer.server,
                address = %other,
                "another process connects to the servers of the ensemble as this server; it is \
                 refused as long as this one answers"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_ends_where_a_frame_does() {
        let mut bytes = BytesMut::new();
        assert_eq!(whole_frames(&bytes), 0);
        put_said(&mut bytes, &Said::Alive(1));
        let one = bytes.len();
        assert_eq!(whole_frames(&bytes), one);
        while bytes.len() < 3 * PIECE_MIN {
            put_said(&mut bytes, &Said::Alive(1));
        }
        let mut pieces = 0;
        while !bytes.is_empty() {
            let piece = bytes.split_to(whole_frames(&bytes));
            assert!(piece.len().is_multiple_of(one) && (1..PIECE_MIN + one).contains(&piece.len()));
            pieces += 1;
        }
        assert_eq!(pieces, 3);
    }
}
