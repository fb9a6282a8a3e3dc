//! A snapshot on its way from one member to another, over a connection of its own.
//!
//! ```text
//! sender     frame with the message, compression u8 (0, 1 gzip, 2 snappy), length u64
//! receiver   how much of it is there u64, crc32 of that u32
//! sender     where it goes on u64: there, or at 0 if its own file is another up to there
//! sender     pieces to the end: length u32, crc32 u32, bytes
//! receiver   a byte, once all of it is there and a start could be made from it
//! ```
//!
//! What came whole is kept for a while when the connection ends: who sends the same snapshot then
//! goes on after it.

use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Buf as _, BufMut as _, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::hello::SNAPSHOT;
use super::secure::Stream;
use super::speak::dial;
use super::{Common, Peer, timeout};
use crate::ensemble::{
    FRAME_HEAD_LEN, FromPeer, PeerMessage, Said, parse_head, parse_said, put_said, snapshot_zxid,
};
use crate::message::MessageId;
use crate::storage::{Compression, ReceivedSnapshot, SnapshotFile, StorageError};

const PIECE_MAX: usize = 256 << 10;
const PIECE_HEAD_LEN: usize = 4 + 4;
/// A snapshot's connection on which nothing moves is given up.
const STILL_MAX: Duration = Duration::from_secs(30);
/// How long a sender may read its file to see whether it is the same up to where the receiver has
/// it.
const COMPARE_MAX: Duration = Duration::from_secs(600);
/// How long a receiver may load a snapshot to see whether a start can be made from it.
const CHECK_MAX: Duration = Duration::from_secs(600);
/// How long a part waits for the rest.
const PART_KEPT_MAX: Duration = Duration::from_secs(600);

/// How fast snapshots may go out, all of them together.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes a second.
    limit: Option<NonZeroU64>,
    /// When the next piece may go.
    next: Mutex<Instant>,
}

impl Pace {
    pub(super) fn new(limit: Option<NonZeroU64>) -> Self {
        Self { limit, next: Mutex::new(Instant::now()) }
    }

    /// The most that goes at once: what a tenth of a second has room for.
    fn piece_len(&self) -> usize {
        let Some(limit) = self.limit else { return PIECE_MAX };
        usize::try_from(limit.get() / 10).unwrap_or(PIECE_MAX).clamp(1, PIECE_MAX)
    }

    /// How long a piece that is to go now has to wait.
    fn wait(&self, len: usize, now: Instant) -> Duration {
        let Some(limit) = self.limit else { return Duration::ZERO };
        let nanos = len as u64 * 1_000_000_000 / limit;
        let mut next = self.next.lock();
        let at = (*next).max(now);
        *next = at + Duration::from_nanos(nanos);
        at.duration_since(now)
    }
}

/// A part of a snapshot, until the rest comes.
#[derive(Debug)]
pub(super) struct Part {
    received: ReceivedSnapshot,
    compression: Compression,
    size: u64,
    checksum: crc32fast::Hasher,
    since: Instant,
    /// The disk has refused it.
    is_broken: bool,
}

impl Part {
    fn begin(common: &Common, zxid: i64, compression: Compression, size: u64) -> io::Result<Self> {
        must_have_room(common, size)?;
        let directory = Arc::clone(&common.directory);
        let received = on_disk(|| ReceivedSnapshot::create(directory, zxid, compression))?;
        let (checksum, since) = (crc32fast::Hasher::new(), Instant::now());
        Ok(Self { received, compression, size, checksum, since, is_broken: false })
    }

    /// How much has come.
    pub(super) fn received(&self) -> u64 {
        self.received.size()
    }

    fn is_of(&self, zxid: i64, compression: Compression, size: u64) -> bool {
        self.received.zxid() == zxid && self.compression == compression && self.size == size
    }
}

async fn write(stream: &mut Stream, bytes: &[u8]) -> io::Result<()> {
    timeout(STILL_MAX, async {
        stream.write_all(bytes).await?;
        stream.flush().await
    })
    .await
}

async fn read(stream: &mut Stream, buffer: &mut [u8], patience: Duration) -> io::Result<()> {
    timeout(patience, stream.read_exact(buffer)).await.map(|_| ())
}

async fn read_array<const LEN: usize>(stream: &mut Stream) -> io::Result<[u8; LEN]> {
    let mut array = [0; LEN];
    read(stream, &mut array, STILL_MAX).await?;
    Ok(array)
}

/// What a disk does takes its time; others go on meanwhile.
fn on_disk<T>(work: impl FnOnce() -> Result<T, StorageError>) -> io::Result<T> {
    tokio::task::block_in_place(work).map_err(io::Error::other)
}

/// Whether a snapshot that lacks so many bytes leaves the log its reserve.
fn must_have_room(common: &Common, lacks: u64) -> io::Result<()> {
    let directory = &common.directory;
    let reserve = common.ensemble.recovery.log.reserve();
    let free = tokio::task::block_in_place(|| directory.disk().free_space(directory.snapshots()))?;
    if free >= lacks.saturating_add(reserve) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::StorageFull,
        format!(
            "not enough space for the leader's snapshot: {lacks} bytes of it are still to come, \
             {free} are free in {}, and {reserve} are reserved for the log; enlarge the disk, or \
             move other files away",
            directory.snapshots().display()
        ),
    ))
}

/// Sends a snapshot to a peer.
pub(super) async fn send_snapshot(
    common: &Common,
    peer: &Peer,
    message: PeerMessage,
    file: SnapshotFile,
) -> io::Result<()> {
    let (mut stream, _) = dial(common, peer, SNAPSHOT, STILL_MAX).await?;
    let size = on_disk(|| file.size())?;
    let mut head = BytesMut::new();
    put_said(&mut head, &Said::Message(message));
    head.put_u8(match file.compression() {
        Compression::None => 0,
        Compression::Gzip => 1,
        Compression::Snappy => 2,
    });
    head.put_u64(size);
    write(&mut stream, &head).await?;
    let there = read_array::<12>(&mut stream).await?;
    let (there, checksum) = (there.as_slice().get_u64(), (&there[8..]).get_u32());
    let mut sent = 0;
    if there > 0 && there <= size && on_disk(|| checksum_of(&file, there))? == checksum {
        sent = there;
        tracing::info!(peer = peer.server, sent, size, "resuming a snapshot transfer");
    }
    write(&mut stream, &sent.to_be_bytes()).await?;
    let mut piece = vec![0; PIECE_HEAD_LEN + common.pace.piece_len()];
    while sent < size {
        let len = usize::try_from(size - sent).unwrap_or(usize::MAX);
        let len = len.min(common.pace.piece_len());
        let piece = piece.get_mut(..PIECE_HEAD_LEN + len).unwrap_or_default();
        let Some((head, content)) = piece.split_first_chunk_mut::<PIECE_HEAD_LEN>() else { break };
        on_disk(|| file.read(content, sent))?;
        head[..4].copy_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
        head[4..].copy_from_slice(&crc32fast::hash(content).to_be_bytes());
        tokio::time::sleep(common.pace.wait(len, Instant::now())).await;
        write(&mut stream, piece).await?;
        sent += len as u64;
    }
    let mut taken = [0];
    read(&mut stream, &mut taken, CHECK_MAX).await
}

/// The checksum of the first bytes of a file.
fn checksum_of(file: &SnapshotFile, len: u64) -> Result<u32, StorageError> {
    let mut checksum = crc32fast::Hasher::new();
    let mut piece = vec![0; PIECE_MAX];
    let mut read = 0;
    while read < len {
        let next = usize::try_from(len - read).unwrap_or(PIECE_MAX).min(PIECE_MAX);
        let piece = piece.get_mut(..next).unwrap_or_default();
        file.read(piece, read)?;
        checksum.update(piece);
        read += next as u64;
    }
    Ok(checksum.finalize())
}

/// Takes a snapshot, and gives it to the orderer.
pub(super) async fn receive_snapshot(common: &Arc<Common>, mut stream: Stream) -> io::Result<()> {
    let alone = Arc::clone(&common.receiving).try_acquire_owned();
    let alone = alone.map_err(|_| io::Error::other("another snapshot is being received"))?;
    let (message, zxid, compression, size) = read_head(common, &mut stream).await?;
    let kept = common.part.lock().take();
    let mut part = match kept.filter(|part| part.is_of(zxid, compression, size)) {
        Some(part) => {
            must_have_room(common, size.saturating_sub(part.received()))?;
            part
        }
        None => Part::begin(common, zxid, compression, size)?,
    };
    let there = part.received();
    let mut answer = BytesMut::new();
    answer.put_u64(there);
    answer.put_u32(part.checksum.clone().finalize());
    let begun = async {
        write(&mut stream, &answer).await?;
        let mut from = [0; 8];
        read(&mut stream, &mut from, COMPARE_MAX).await?;
        Ok(u64::from_be_bytes(from))
    };
    match begun.await {
        Ok(from) if from == there => {}
        Ok(0) => {
            // Its file has the same name: it must be gone before there is another.
            drop(part);
            part = Part::begin(common, zxid, compression, size)?;
        }
        Ok(_) => return Err(strange()),
        Err(error) => {
            keep(common, part);
            return Err(error);
        }
    }
    if let Err(error) = receive_pieces(&mut stream, &mut part).await {
        keep(common, part);
        return Err(error);
    }
    // Here, and not where the member goes on: it takes as long as a start.
    let checked = on_disk(|| (common.check)(&common.ensemble, &message, &mut part.received));
    if let Err(error) = checked {
        // It comes again and again.
        if common.complaints.lock().is_due(format!("the snapshot of {zxid:#x}")) {
            tracing::error!(
                id = %MessageId::SNAPSHOT_OF_NO_USE,
                %error,
                "the leader's snapshot cannot be loaded and was not installed"
            );
        }
        return Err(io::Error::other("its snapshot cannot be used for a start"));
    }
    common.queue.put_from_peer(FromPeer::Snapshot(message, part.received), Some(alone));
    write(&mut stream, &[1]).await
}

fn strange() -> io::Error {
    io::Error::other("this is not a snapshot")
}

/// The message that announces a snapshot; the snapshot's zxid, how it is packed, its length.
async fn read_head(
    common: &Common,
    stream: &mut Stream,
) -> io::Result<(PeerMessage, i64, Compression, u64)> {
    let (len, checksum) =
        parse_head(read_array::<FRAME_HEAD_LEN>(stream).await?).map_err(io::Error::other)?;
    if len > PIECE_MAX {
        return Err(strange());
    }
    let mut content = vec![0; len];
    read(stream, &mut content, STILL_MAX).await?;
    let said =
        parse_said(&content, checksum, common.clock.monotonic()).map_err(io::Error::other)?;
    let Said::Message(message) = said else { return Err(strange()) };
    let zxid = snapshot_zxid(&message).ok_or_else(strange)?;
    let [compression, size @ ..] = read_array::<9>(stream).await?;
    let compression = match compression {
        0 => Compression::None,
        1 => Compression::Gzip,
        2 => Compression::Snappy,
        _ => return Err(strange()),
    };
    Ok((message, zxid, compression, u64::from_be_bytes(size)))
}

/// Reads to the end of a snapshot. What is in `part` is whole, whatever happens.
async fn receive_pieces(stream: &mut Stream, part: &mut Part) -> io::Result<()> {
    let mut piece = vec![0; PIECE_MAX];
    while part.received() < part.size {
        let head = read_array::<PIECE_HEAD_LEN>(stream).await?;
        let (len, checksum) = (head.as_slice().get_u32(), (&head[4..]).get_u32());
        let left = part.size - part.received();
        if len == 0 || len as usize > PIECE_MAX || u64::from(len) > left {
            return Err(strange());
        }
        let piece = piece.get_mut(..len as usize).unwrap_or_default();
        read(stream, piece, STILL_MAX).await?;
        if crc32fast::hash(piece) != checksum {
            return Err(io::Error::other("a piece of a snapshot was damaged in transit"));
        }
        let written = on_disk(|| part.received.write(piece));
        part.is_broken = written.is_err();
        written?;
        part.checksum.update(piece);
    }
    Ok(())
}

/// Keeps what came of a snapshot for whoever sends the rest, for a while.
fn keep(common: &Arc<Common>, mut part: Part) {
    let (received, size) = (part.received(), part.size);
    if received == 0 || part.is_broken {
        return;
    }
    tracing::info!(
        received,
        size,
        "received a part of a snapshot; it is kept until the rest arrives"
    );
    let since = Instant::now();
    part.since = since;
    *common.part.lock() = Some(part);
    let common = Arc::clone(common);
    tokio::spawn(async move {
        tokio::time::sleep(PART_KEPT_MAX).await;
        let mut kept = common.part.lock();
        if kept.as_ref().is_some_and(|part| part.since == since) {
            *kept = None;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_snapshots_together_keep_to_the_pace() {
        let began = Instant::now();
        let pace = Pace::new(NonZeroU64::new(1000));
        assert_eq!(pace.piece_len(), 100);
        // One piece at once, and each other one when those ahead of it have had their time.
        let waits: Vec<u128> = (0..5).map(|_| pace.wait(100, began).as_millis()).collect();
        assert!(waits.windows(2).all(|pair| pair[1] - pair[0] == 100), "{waits:?}");
        // What was not used up does not come on top later.
        let later = began + Duration::from_secs(60);
        assert_eq!(pace.wait(100, later), Duration::ZERO);
        assert_eq!(pace.wait(100, later).as_millis(), 100);

        let free = Pace::new(None);
        assert_eq!(free.piece_len(), PIECE_MAX);
        assert!((0..5).all(|_| free.wait(PIECE_MAX, began).is_zero()));
        assert_eq!(Pace::new(NonZeroU64::new(1)).piece_len(), 1);
        assert_eq!(Pace::new(NonZeroU64::new(1 << 40)).piece_len(), PIECE_MAX);
    }
}
