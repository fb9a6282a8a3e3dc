//! Connections in: who calls is welcomed or refused, and what a peer says goes to the orderer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::hello::{self, Caller, QUESTION, SNAPSHOT};
use super::secure::{Refused, Stream};
use super::snapshot::receive_snapshot;
use super::strangers::Place;
use super::{BETWEEN_DIALS, Common, SILENT_MAX, introduction, timeout};
use crate::ensemble::server_of;
use crate::ensemble::{FRAME_HEAD_LEN, FromPeer, parse_head, parse_said};
use crate::message::MessageId;

/// Bytes of a peer that may wait for the orderer before no more of it is read.
const UNHEARD_MAX: u32 = 64 << 20;
/// From the first byte to the last of TLS and hello.
const HELLO_MAX: Duration = Duration::from_secs(5);
/// Room for what comes next.
const READ_MIN: usize = 16 << 10;

/// Takes connections of peers.
pub(super) async fn accept(listener: TcpListener, common: Arc<Common>) {
    let mut number = 0;
    loop {
        match listener.accept().await {
            Ok((socket, address)) => {
                number += 1;
                let place = common.strangers.enter(number);
                let task = heed(Arc::clone(&common), socket, number, place);
                let common = Arc::clone(&common);
                tokio::spawn(async move {
                    let token = common.ending.clone();
                    if let Some(Err(error)) = token.run_until_cancelled_owned(task).await {
                        let address = address.ip();
                        if hello::is_too_early(&error) {
                            tracing::debug!(%address, %error, "a connection came too early");
                        } else if common.complaints.lock().is_due(format!("{address} {error}")) {
                            tracing::info!(%address, %error, "a connection of the ensemble has ended");
                        }
                    }
                });
            }
            Err(error) => {
                tracing::warn!(
                    id = %MessageId::PEER_NOT_ACCEPTED,
                    %error,
                    "cannot accept a connection from a server of the ensemble"
                );
                tokio::time::sleep(BETWEEN_DIALS).await;
            }
        }
    }
}

/// Welcomes or refuses whoever called, and hears it out.
pub(super) async fn heed(
    common: Arc<Common>,
    socket: TcpStream,
    number: u64,
    place: Place,
) -> io::Result<()> {
    let alive = TcpKeepalive::new().with_time(SILENT_MAX / 2).with_interval(SILENT_MAX / 5);
    SockRef::from(&socket).set_tcp_keepalive(&alive.with_retries(3))?;
    socket.set_nodelay(true)?;
    let greeted = tokio::select! {
        greeted = timeout(HELLO_MAX, greet(&common, socket)) => greeted?,
        () = place.lost.cancelled() => {
            return Err(io::Error::other("too many connections have not said who they are yet"));
        }
    };
    let (stream, caller) = match greeted {
        Ok(greeted) => greeted,
        Err(Refused { mut stream, reason }) => {
            tokio::select! {
                () = hello::refuse(&mut stream, &reason) => {}
                () = place.lost.cancelled() => {}
            }
            return Err(io::Error::other(format!("refused: {reason}")));
        }
    };
    drop(place);
    if caller.purpose == SNAPSHOT {
        return receive_snapshot(&common, stream).await;
    }
    if caller.purpose == QUESTION {
        return introduction::answer(common, stream, server_of(caller.id)).await;
    }
    let replaced = common.hears(caller.id, number);
    let ended = tokio::select! {
        ended = hear(&common, caller.id, number, stream) => ended,
        () = replaced.cancelled() => Err(io::Error::other("it has connected again")),
    };
    common.hears_no_more(caller.id, number);
    ended
}

/// Lets TLS and hello pass.
async fn greet(
    common: &Common,
    socket: TcpStream,
) -> io::Result<Result<(Stream, Caller), Refused>> {
    let mut stream = match common.security.accept(socket).await? {
        Ok(stream) => stream,
        Err(refused) => return Ok(Err(refused)),
    };
    Ok(match hello::hear(common, &mut stream).await? {
        Ok(caller) => Ok((stream, caller)),
        Err(reason) => Err(Refused { stream, reason }),
    })
}

/// Gives the orderer what a peer says.
async fn hear(common: &Arc<Common>, from: u64, number: u64, mut stream: Stream) -> io::Result<()> {
    let unheard = Arc::new(Semaphore::new(UNHEARD_MAX as usize));
    let mut input = BytesMut::new();
    loop {
        while let Some(head) = input.first_chunk::<FRAME_HEAD_LEN>() {
            let (len, checksum) = parse_head(*head).map_err(io::Error::other)?;
            let Some(content) = input.get(FRAME_HEAD_LEN..FRAME_HEAD_LEN + len) else { break };
            let said = parse_said(content, checksum, common.clock.monotonic())
                .map_err(io::Error::other)?;
            let share = u32::try_from(len).unwrap_or(u32::MAX).clamp(1, UNHEARD_MAX);
            let room = Arc::clone(&unheard).acquire_many_owned(share).await.ok();
            if !common.deliver(from, number, FromPeer::Said(from, said), room) {
                return Err(io::Error::other("it has connected again"));
            }
            input.advance(FRAME_HEAD_LEN + len);
        }
        input.reserve(READ_MIN);
        if stream.read_buf(&mut input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

impl Common {
    /// From here on a connection is the one that is heard. Gives what tells it that there is a newer one.
    fn hears(&self, from: u64, number: u64) -> CancellationToken {
        let replaced = CancellationToken::new();
        let mut newest = self.newest.lock();
        if let Some((_, older)) = newest.insert(from, (number, replaced.clone())) {
            older.cancel();
            self.queue.put_from_peer(FromPeer::Hears(from, false), None);
        }
        self.queue.put_from_peer(FromPeer::Hears(from, true), None);
        replaced
    }

    /// A connection has ended.
    fn hears_no_more(&self, from: u64, number: u64) {
        let mut newest = self.newest.lock();
        if newest.get(&from).is_some_and(|(newest, _)| *newest == number) {
            newest.remove(&from);
            self.queue.put_from_peer(FromPeer::Hears(from, false), None);
        }
    }

    /// Hands something on, if its connection is still the one that is heard.
    fn deliver(
        &self,
        from: u64,
        number: u64,
        what: FromPeer,
        room: Option<OwnedSemaphorePermit>,
    ) -> bool {
        let newest = self.newest.lock();
        let is_newest = newest.get(&from).is_some_and(|(newest, _)| *newest == number);
        if is_newest {
            self.queue.put_from_peer(what, room);
        }
        is_newest
    }
}
