//! Connections in: who calls is welcomed or refused, and what a peer says goes to the orderer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::hello::{self, HELLO_LEN, QUESTION, SNAPSHOT};
use super::snapshot::receive_snapshot;
use super::{BETWEEN_DIALS, Common, SILENT_MAX, introduction, server_of, timeout};
use crate::ensemble::{FRAME_HEAD_LEN, FromPeer, parse_head, parse_said};

/// Bytes of a peer that may wait for the orderer before no more of it is read.
const UNHEARD_MAX: u32 = 64 << 20;
const HELLO_MAX: Duration = Duration::from_secs(5);

/// Takes connections of peers.
pub(super) async fn accept(listener: TcpListener, common: Arc<Common>) {
    let mut number = 0;
    loop {
        match listener.accept().await {
            Ok((socket, address)) => {
                number += 1;
                let task = heed(Arc::clone(&common), socket, number);
                let token = common.ending.clone();
                tokio::spawn(async move {
                    if let Some(Err(error)) = token.run_until_cancelled_owned(task).await {
                        tracing::info!(%address, %error, "a connection of the ensemble has ended");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a server of the ensemble");
                tokio::time::sleep(BETWEEN_DIALS).await;
            }
        }
    }
}

/// Welcomes or refuses whoever called, and hears it out.
async fn heed(common: Arc<Common>, mut socket: TcpStream, number: u64) -> io::Result<()> {
    let mut said = [0; HELLO_LEN];
    timeout(HELLO_MAX, socket.read_exact(&mut said)).await?;
    let (from, purpose) = match common.caller(&said) {
        Ok(caller) => caller,
        Err(reason) => {
            socket.write_all(&hello::refusal(&reason)).await?;
            return Err(io::Error::other(format!("refused: {reason}")));
        }
    };
    socket.set_nodelay(true)?;
    let alive = TcpKeepalive::new().with_time(SILENT_MAX / 2).with_interval(SILENT_MAX / 5);
    SockRef::from(&socket).set_tcp_keepalive(&alive.with_retries(3))?;
    socket.write_all(&hello::welcome(common.own().id)).await?;
    if purpose == QUESTION {
        return timeout(HELLO_MAX, introduction::answer(common, socket, server_of(from))).await;
    }
    if purpose == SNAPSHOT {
        let socket = socket.into_std()?;
        let receive = move || receive_snapshot(&common, socket);
        return tokio::task::spawn_blocking(receive).await.map_err(io::Error::other)?;
    }
    common.hears(from, number, true);
    let ended = hear(&common, from, number, socket).await;
    common.hears(from, number, false);
    ended
}

/// Gives the orderer what a peer says.
async fn hear(
    common: &Arc<Common>,
    from: u64,
    number: u64,
    mut socket: TcpStream,
) -> io::Result<()> {
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
                return Err(io::Error::other("it has called anew"));
            }
            input.advance(FRAME_HEAD_LEN + len);
        }
        if socket.read_buf(&mut input).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

impl Common {
    /// From here on a connection is the one that is heard, or there is none any more.
    fn hears(&self, from: u64, number: u64, is_up: bool) {
        let mut newest = self.newest.lock();
        if is_up {
            if newest.insert(from, number).is_some() {
                self.queue.put_from_peer(FromPeer::Hears(from, false), None);
            }
            self.queue.put_from_peer(FromPeer::Hears(from, true), None);
        } else if newest.get(&from) == Some(&number) {
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
        let is_newest = newest.get(&from) == Some(&number);
        if is_newest {
            self.queue.put_from_peer(what, room);
        }
        is_newest
    }
}
