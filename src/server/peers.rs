//! The other servers of the ensemble: a connection out to each, over which this one speaks, and one in from each.
//!
//! Names are looked up at each dial. What cannot be sent is dropped, and the connection with it, so that both sides know
//! that something was lost.
//!
//! ```text
//! hello    "rookeepr", version u32, purpose u32, id of the caller u64, id of the called u64
//! answer   0 for welcome, or the length of a reason u32 and the reason
//! ```

use std::io::{self, Read as _, Write as _};
use std::net::ToSocketAddrs as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, BytesMut};
use hashbrown::HashMap;
use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::clock::Clock;
use crate::config;
use crate::ensemble::{
    FRAME_HEAD_LEN, FromPeer, PeerMessage, Queue, Said, SnapshotStatus, Transport, Word, member_id,
    parse_head, parse_said, put_said, snapshot_zxid,
};
use crate::storage::{Compression, DataDirectory, ReceivedSnapshot, SnapshotFile, StorageError};

const MAGIC: &[u8; 8] = b"rookeepr";
const VERSION: u32 = 1;
const HELLO_LEN: usize = 8 + 4 + 4 + 8 + 8;
const REASON_MAX: u32 = 1000;
/// What a connection is for.
const WORDS: u32 = 1;
const SNAPSHOT: u32 = 2;

/// Bytes that may wait to be sent to a peer; it has to begin anew behind them.
const UNSENT_MAX: usize = 64 << 20;
/// Bytes of a peer that may wait for the orderer before no more of it is read.
const UNHEARD_MAX: u32 = 64 << 20;
const DIAL_MAX: Duration = Duration::from_secs(2);
const HELLO_MAX: Duration = Duration::from_secs(5);
/// How long what is sent may go without a word that it arrived.
const SILENT_MAX: Duration = Duration::from_secs(5);
/// Between two dials of one peer.
const BETWEEN_DIALS: Duration = Duration::from_millis(100);
/// A peer that cannot be reached is told of this often.
const BETWEEN_COMPLAINTS: Duration = Duration::from_secs(60);
const SNAPSHOT_PIECE: usize = 256 << 10;
/// A snapshot's connection on which nothing moves is given up.
const SNAPSHOT_STILL_MAX: Duration = Duration::from_secs(30);

/// What is to be said to one peer.
#[derive(Debug, Default)]
struct Unsent {
    bytes: BytesMut,
    /// Whether there is a connection.
    is_up: bool,
}

/// A peer.
#[derive(Debug)]
struct Peer {
    id: u64,
    host: String,
    port: u16,
    unsent: Mutex<Unsent>,
    arrived: Notify,
    /// More waits than may wait.
    overflowed: Notify,
}

/// What the tasks of all connections share.
#[derive(Debug)]
struct Common {
    own_id: u64,
    peers: HashMap<u64, Arc<Peer>>,
    queue: Arc<Queue>,
    directory: Arc<DataDirectory>,
    clock: Clock,
    ending: CancellationToken,
    /// The number of the newest connection from each peer: what an older one brings is not heard any more.
    newest: Mutex<HashMap<u64, u64>>,
    /// One snapshot is received at a time, until it is installed or turns out not to be needed.
    receiving: Arc<Semaphore>,
}

/// The way to the other servers.
#[derive(Debug)]
pub(super) struct Peers(Arc<Common>);

impl Peers {
    pub(super) fn new(
        ensemble: &config::Ensemble,
        own_id: u64,
        queue: Arc<Queue>,
        directory: Arc<DataDirectory>,
        clock: Clock,
        ending: CancellationToken,
    ) -> Self {
        let others = ensemble.servers.iter().filter(|(id, _)| **id != ensemble.my_id);
        let peers = others.map(|(id, server)| {
            let id = member_id(*id, super::member::FIRST_LIFE);
            let peer = Peer {
                id,
                host: server.host.clone(),
                port: server.port,
                unsent: Mutex::default(),
                arrived: Notify::new(),
                overflowed: Notify::new(),
            };
            (id, Arc::new(peer))
        });
        let peers = peers.collect();
        let newest = Mutex::default();
        let receiving = Arc::new(Semaphore::new(1));
        let common = Common { own_id, peers, queue, directory, clock, ending, newest, receiving };
        Self(Arc::new(common))
    }

    /// Dials the others, and takes those that dial this server.
    pub(super) fn start(&self, listener: TcpListener) {
        for peer in self.0.peers.values() {
            let task = speak(Arc::clone(&self.0), Arc::clone(peer));
            tokio::spawn(self.0.ending.clone().run_until_cancelled_owned(task));
        }
        let task = accept(listener, Arc::clone(&self.0));
        tokio::spawn(self.0.ending.clone().run_until_cancelled_owned(task));
    }

    fn put(&self, to: u64, said: &Said) {
        let Some(peer) = self.0.peers.get(&to) else { return };
        let mut unsent = peer.unsent.lock();
        if !unsent.is_up {
            return;
        }
        if unsent.bytes.len() > UNSENT_MAX {
            unsent.is_up = false;
            peer.overflowed.notify_one();
            return;
        }
        put_said(&mut unsent.bytes, said);
        drop(unsent);
        peer.arrived.notify_one();
    }
}

impl Transport for Peers {
    fn send(&mut self, message: PeerMessage) {
        self.put(message.to, &Said::Message(message));
    }

    fn say(&mut self, to: u64, word: Word) {
        self.put(to, &Said::Word(word));
    }

    fn send_snapshot(&mut self, message: PeerMessage, file: SnapshotFile) {
        let (common, to) = (Arc::clone(&self.0), message.to);
        let Some(peer) = self.0.peers.get(&to).map(Arc::clone) else { return };
        let send = move || {
            let sent = send_snapshot(&common, &peer, message, &file);
            let status = match sent {
                Ok(()) => SnapshotStatus::Finish,
                Err(error) => {
                    tracing::warn!(peer = server_of(to), %error, "cannot send a snapshot");
                    SnapshotStatus::Failure
                }
            };
            common.queue.put_from_peer(FromPeer::SnapshotSent(to, status), None);
        };
        let thread = std::thread::Builder::new().name("snapshot-out".to_owned()).spawn(send);
        if thread.is_err() {
            let failed = FromPeer::SnapshotSent(to, SnapshotStatus::Failure);
            self.0.queue.put_from_peer(failed, None);
        }
    }
}

const fn server_of(member: u64) -> u64 {
    member & 0xff
}

/// Keeps a connection to a peer.
async fn speak(common: Arc<Common>, peer: Arc<Peer>) {
    let mut last_complaint: Option<Instant> = None;
    loop {
        match timeout(DIAL_MAX, dial(&common, &peer)).await {
            Ok(socket) => {
                last_complaint = None;
                tracing::info!(peer = server_of(peer.id), "connected to a server of the ensemble");
                *peer.unsent.lock() = Unsent { bytes: BytesMut::new(), is_up: true };
                common.queue.put_from_peer(FromPeer::Speaks(peer.id, true), None);
                let error = say_all(&peer, socket).await;
                peer.unsent.lock().is_up = false;
                common.queue.put_from_peer(FromPeer::Speaks(peer.id, false), None);
                tracing::info!(peer = server_of(peer.id), %error, "lost a server of the ensemble");
            }
            Err(error) => {
                if last_complaint.is_none_or(|last| last.elapsed() >= BETWEEN_COMPLAINTS) {
                    last_complaint = Some(Instant::now());
                    tracing::warn!(
                        peer = server_of(peer.id),
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

async fn timeout<T>(
    patience: Duration,
    future: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer");
    tokio::time::timeout(patience, future).await.unwrap_or_else(|_| Err(late()))
}

async fn dial(common: &Common, peer: &Peer) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect((peer.host.as_str(), peer.port)).await?;
    socket.set_nodelay(true)?;
    SockRef::from(&socket).set_tcp_user_timeout(Some(SILENT_MAX))?;
    socket.write_all(&hello(common.own_id, peer.id, WORDS)).await?;
    let mut reason = [0; 4];
    socket.read_exact(&mut reason).await?;
    let len = u32::from_be_bytes(reason).min(REASON_MAX);
    if len == 0 {
        return Ok(socket);
    }
    let mut reason = vec![0; len as usize];
    socket.read_exact(&mut reason).await?;
    Err(refused(&reason))
}

fn refused(reason: &[u8]) -> io::Error {
    let reason = String::from_utf8_lossy(reason).into_owned();
    io::Error::new(io::ErrorKind::ConnectionRefused, format!("it refuses: {reason}"))
}

fn hello(from: u64, to: u64, purpose: u32) -> BytesMut {
    let mut hello = BytesMut::with_capacity(HELLO_LEN);
    hello.put_slice(MAGIC);
    hello.put_u32(VERSION);
    hello.put_u32(purpose);
    hello.put_u64(from);
    hello.put_u64(to);
    hello
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

/// Takes connections of peers.
async fn accept(listener: TcpListener, common: Arc<Common>) {
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
    let mut hello = [0; HELLO_LEN];
    timeout(HELLO_MAX, socket.read_exact(&mut hello)).await?;
    let (from, purpose) = match common.caller(&hello) {
        Ok(caller) => caller,
        Err(reason) => {
            let mut answer = BytesMut::new();
            answer.put_u32(u32::try_from(reason.len()).unwrap_or(REASON_MAX).min(REASON_MAX));
            answer.put_slice(reason.as_bytes());
            socket.write_all(&answer).await?;
            return Err(io::Error::other(format!("refused: {reason}")));
        }
    };
    socket.set_nodelay(true)?;
    let alive = TcpKeepalive::new().with_time(SILENT_MAX / 2).with_interval(SILENT_MAX / 5);
    SockRef::from(&socket).set_tcp_keepalive(&alive.with_retries(3))?;
    socket.write_all(&[0; 4]).await?;
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
    /// Who calls, and what for.
    fn caller(&self, hello: &[u8; HELLO_LEN]) -> Result<(u64, u32), String> {
        let Some((magic, mut rest)) = hello.split_at_checked(MAGIC.len()) else {
            return Err("no hello".to_owned());
        };
        if magic != MAGIC {
            return Err(
                "this is rookeeper's port for its ensemble; Java servers cannot join it".to_owned()
            );
        }
        let version = rest.get_u32();
        if version != VERSION {
            return Err(format!("it speaks version {version}, this server {VERSION}"));
        }
        let purpose = rest.get_u32();
        let (from, to) = (rest.get_u64(), rest.get_u64());
        if from == self.own_id {
            return Err(format!("myid {} is in use twice", server_of(from)));
        }
        if to != self.own_id {
            let (to, own) = (server_of(to), server_of(self.own_id));
            return Err(format!("it looks for server {to}, and this is server {own}"));
        }
        if !self.peers.contains_key(&from) {
            return Err(format!("server {} is not in this server's list", server_of(from)));
        }
        match purpose {
            WORDS | SNAPSHOT => Ok((from, purpose)),
            _ => Err(format!("{purpose} is no purpose that it knows")),
        }
    }

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
        room: Option<tokio::sync::OwnedSemaphorePermit>,
    ) -> bool {
        let newest = self.newest.lock();
        let is_newest = newest.get(&from) == Some(&number);
        if is_newest {
            self.queue.put_from_peer(what, room);
        }
        is_newest
    }
}

/// ```text
/// frame with the message, compression u8 (0, 1 gzip, 2 snappy), length u64, the file; answered by a byte once it is there
/// ```
fn send_snapshot(
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
    socket.write_all(&hello(common.own_id, peer.id, SNAPSHOT))?;
    let mut reason = [0; 4];
    socket.read_exact(&mut reason)?;
    if reason != [0; 4] {
        return Err(io::Error::other("it refuses the connection"));
    }
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

fn receive_snapshot(common: &Common, mut socket: std::net::TcpStream) -> io::Result<()> {
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
