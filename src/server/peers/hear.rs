//! Connections in: who calls is welcomed or refused, and what a peer says goes to the orderer.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::admission::Line;
use super::hello::{self, Caller, QUESTION, SNAPSHOT};
use super::secure::{Stream, Unwelcome};
use super::snapshot::receive_snapshot;
use super::strangers::StrangersPlace;
use super::{BETWEEN_DIALS, Common, QUESTIONS_MAX, SILENT_MAX, introduction, timeout};
use crate::ensemble::{
    FRAME_HEAD_LEN, FromPeer, Promised, Said, parse_head, parse_said, server_of,
};
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
                let task = heed(Arc::clone(&common), socket, address, number, place);
                let common = Arc::clone(&common);
                tokio::spawn(async move {
                    let token = common.ending.clone();
                    if let Some(Err(error)) = token.run_until_cancelled_owned(task).await {
                        let address = address.ip();
                        if hello::is_too_early(&error) {
                            tracing::debug!(%address, %error, "a connection came too early");
                        } else if common.complaints.lock().is_due(format!("{address} {error}")) {
                            tracing::info!(%address, %error, "a connection between servers was \
                                closed");
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
    address: SocketAddr,
    number: u64,
    place: StrangersPlace,
) -> io::Result<()> {
    let alive = TcpKeepalive::new().with_time(SILENT_MAX / 2).with_interval(SILENT_MAX / 5);
    SockRef::from(&socket).set_tcp_keepalive(&alive.with_retries(3))?;
    socket.set_nodelay(true)?;
    let greeted = tokio::select! {
        greeted = timeout(HELLO_MAX, greet(&common, socket, address, number)) => greeted?,
        () = place.lost.cancelled() => {
            return Err(io::Error::other("too many connections have not said who they are yet"));
        }
    };
    let (stream, caller) = match greeted {
        Ok(greeted) => greeted,
        Err(Unwelcome { mut stream, refusal }) => {
            tokio::select! {
                () = hello::refuse(&mut stream, &refusal) => {}
                () = place.lost.cancelled() => {}
            }
            return Err(io::Error::other(format!("refused: {}", refusal.reason)));
        }
    };
    drop(place);
    if caller.purpose == SNAPSHOT {
        return receive_snapshot(&common, stream).await;
    }
    if caller.purpose == QUESTION {
        let from = server_of(caller.id);
        let questions = common.others.get(from).map(|peer| Arc::clone(&peer.questions));
        let Some(_place) = questions.and_then(|all| all.try_acquire_owned().ok()) else {
            let error = format!("server {from} asks more than {QUESTIONS_MAX} questions at once");
            return Err(io::Error::other(error));
        };
        return introduction::answer(common, stream, (from, caller.process)).await;
    }
    let Some(line) = caller.line else { return Ok(()) };
    let replaced = line.replaced.clone();
    tokio::select! {
        ended = hear(&common, line, stream) => ended,
        () = replaced.cancelled() => Err(io::Error::other("it has connected again")),
    }
}

/// Lets TLS and hello pass.
async fn greet(
    common: &Arc<Common>,
    socket: TcpStream,
    address: SocketAddr,
    number: u64,
) -> io::Result<Result<(Stream, Caller), Unwelcome>> {
    let mut stream = match common.security.accept(socket).await? {
        Ok(stream) => stream,
        Err(refused) => return Ok(Err(refused)),
    };
    Ok(match hello::hear(common, &mut stream, address, number).await? {
        Ok(caller) => Ok((stream, caller)),
        Err(refusal) => Err(Unwelcome { stream, refusal }),
    })
}

/// Gives the orderer what a peer says, and asks it whether it lives when another process wants its
/// place.
async fn hear(common: &Common, mut line: Line, stream: Stream) -> io::Result<()> {
    let (mut incoming, mut outgoing) = tokio::io::split(stream);
    let unheard = Arc::new(Semaphore::new(UNHEARD_MAX as usize));
    let mut input = BytesMut::new();
    loop {
        while let Some(head) = input.first_chunk::<FRAME_HEAD_LEN>() {
            let (len, checksum) = parse_head(*head).map_err(io::Error::other)?;
            let Some(content) = input.get(FRAME_HEAD_LEN..FRAME_HEAD_LEN + len) else { break };
            let said = parse_said(content, checksum, common.clock.monotonic())
                .map_err(io::Error::other)?;
            let is_heard = if let Said::Alive(probe) = said {
                line.answers.send_replace(probe);
                line.deliver(None, None, None)
            } else {
                let share = u32::try_from(len).unwrap_or(u32::MAX).clamp(1, UNHEARD_MAX);
                line.is_full.store(unheard.available_permits() < share as usize, Ordering::Relaxed);
                let room = Arc::clone(&unheard).acquire_many_owned(share).await.ok();
                line.is_full.store(false, Ordering::Relaxed);
                let promised = match &said {
                    Said::Message(message) => Promised::of(message),
                    _ => None,
                };
                line.deliver(Some(FromPeer::Said(line.id, said)), promised, room)
            };
            if !is_heard {
                return Err(io::Error::other("it has connected again"));
            }
            input.advance(FRAME_HEAD_LEN + len);
        }
        input.reserve(READ_MIN);
        tokio::select! {
            read = incoming.read_buf(&mut input) => if read? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            },
            Ok(()) = line.probes.changed() => {
                let probe = *line.probes.borrow_and_update();
                if let Some(probe) = probe {
                    outgoing.write_all(&probe.encode()).await?;
                    outgoing.flush().await?;
                }
            }
        }
    }
}
