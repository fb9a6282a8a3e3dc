//! Reads a snapshot file into a [`Replay`], in memory bounded by its largest znode.
//!
//! Knows the layout, the seals and the tails; what the znodes mean is the replay's. Every length is
//! checked against what the file holds before anything is allocated for it.

use std::path::{Path, PathBuf};

use jute::Acl;
use jute::persist::{FILE_VERSION, FileHeader, SNAPSHOT_MAGIC, SnapshotDigest, SnapshotNode};
use simd_adler32::Adler32;

use super::content::{Content, Unreadable};
use crate::storage::compression::Compression;
use crate::storage::disk::Disk;
use crate::storage::disk::window::Window;
use crate::storage::error::{During, SnapshotReason, StorageError};
use crate::storage::replay::{Reading, Refused, Replay, SnapshotId, SnapshotOrigin};

/// After the last znode and after each seal.
const MARK: [u8; 5] = *b"\0\0\0\x01/";
/// Magic, version and dbid.
const HEADER_LEN: usize = 16;
/// Bytes of a seal: checksum and mark.
const SEAL_LEN: usize = 13;
/// Znodes from one word about the progress to the next.
const NODES_A_WORD: u64 = 10_000;
/// Bytes that a checksum is taken of at a time.
const PIECE: usize = 64 << 10;
/// Bytes of a znode after its data: ACL id and metadata.
const NODE_TAIL_LEN: usize = 8 + 60;
/// The least that ZooKeeper takes for a snapshot.
const LEN_MIN: u64 = 10;

/// ZooKeeper's check before loading: a plain file is as long as a snapshot and ends in a mark, a
/// packed one begins with its magic.
pub(crate) fn looks_whole(disk: &dyn Disk, path: &Path) -> Result<bool, StorageError> {
    let mut window = Window::new(disk.open(path).during("open", path)?).during("read", path)?;
    let compression = Compression::of(path);
    if compression != Compression::None {
        let magic = compression.magic();
        return Ok(window.bytes(0, magic.len()).during("read", path)? == Some(magic));
    }
    let len = window.len();
    if len < LEN_MIN {
        return Ok(false);
    }
    let end = window.bytes(len.saturating_sub(MARK.len() as u64), MARK.len());
    Ok(end.during("read", path)? == Some(&MARK[..]))
}

/// Who wrote the snapshot, by its header; `None` if it has not a snapshot's header.
pub(crate) fn origin(disk: &dyn Disk, path: &Path) -> Result<Option<SnapshotOrigin>, StorageError> {
    let mut content = open(disk, path)?;
    let header = match content.peek(HEADER_LEN) {
        Ok(bytes) => jute::decode::<FileHeader>(bytes).ok(),
        Err(Unreadable::Disk(error)) => return Err(error).during("read", path),
        Err(Unreadable::Packing | Unreadable::CutOff) => None,
    };
    Ok(header
        .and_then(|(header, _)| (header.magic == SNAPSHOT_MAGIC).then(|| origin_of(header.dbid))))
}

/// What the end of a snapshot tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its last seal matches everything before it.
    Whole,
    /// There is no mark at its end: its writer did not come to it.
    Unfinished,
    /// It was written to its end, and is not what was written.
    Damaged,
}

/// Whether the last seal, which covers everything before it, matches, or is not there.
pub(crate) fn ending(disk: &dyn Disk, path: &Path) -> Result<Ending, StorageError> {
    let mut content = open(disk, path)?;
    let mut checksum = Adler32::new();
    loop {
        let bytes = match content.peek(PIECE) {
            Ok(bytes) => bytes,
            Err(Unreadable::Disk(error)) => return Err(error).during("read", path),
            Err(Unreadable::Packing) => return Ok(Ending::Damaged),
            Err(Unreadable::CutOff) => return Ok(Ending::Unfinished),
        };
        let Some((covered, seal)) = bytes.split_last_chunk::<SEAL_LEN>() else {
            return Ok(Ending::Unfinished);
        };
        checksum.write(covered);
        let (covered, is_end) = (covered.len(), bytes.len() < PIECE);
        if is_end {
            let expected = i64::from(checksum.finish()).to_be_bytes();
            return Ok(match seal.split_first_chunk::<8>() {
                Some((_, mark)) if mark != MARK => Ending::Unfinished,
                Some((sum, _)) if *sum == expected => Ending::Whole,
                _ => Ending::Damaged,
            });
        }
        content.take(covered);
    }
}

/// A snapshot that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Which it is.
    pub id: SnapshotId,
    /// `id.zxid <= newest`: the newest transaction that it shows, as far as its znodes and its
    /// digest tell. One of ZooKeeper was written while transactions went on.
    pub newest: i64,
    /// The zxid that its last tail says, where it has one. That of its name counts, as in
    /// ZooKeeper.
    pub stated: Option<i64>,
}

/// Reads the snapshot at `path`, which begins `replay` anew.
///
/// # Errors
/// When it is no whole snapshot, `replay` refuses it, or the disk fails.
pub fn load(
    disk: &dyn Disk,
    path: &Path,
    zxid: i64,
    replay: &mut dyn Replay,
) -> Result<Loaded, StorageError> {
    match read(disk, path, zxid, replay) {
        Ok(loaded) => Ok(loaded),
        // A disk that fails says nothing about the snapshot.
        Err(error @ (StorageError::Io { .. } | StorageError::LaterVersion { .. })) => Err(error),
        Err(error) => {
            if replay.again() {
                read(disk, path, zxid, replay)
            } else {
                Err(error)
            }
        }
    }
}

fn read(
    disk: &dyn Disk,
    path: &Path,
    zxid: i64,
    replay: &mut dyn Replay,
) -> Result<Loaded, StorageError> {
    let file = disk.open(path).during("open", path)?;
    let file_len = file.size().during("read", path)?;
    let content = Content::new(file, Compression::of(path));
    let checksum = Adler32::new();
    let mut stream = Stream {
        path: path.to_owned(),
        zxid,
        content,
        file_len,
        checksum,
        newest: zxid,
        stated: None,
    };
    let header = jute::decode::<FileHeader>(stream.take(HEADER_LEN)?).map(|(header, _)| header);
    let header = match header {
        Ok(header) if header.magic == SNAPSHOT_MAGIC => header,
        _ => return Err(stream.header()),
    };
    let id = SnapshotId { zxid, origin: origin_of(header.dbid) };
    replay.begin(&id);
    stream.sessions(replay)?;
    stream.acls(replay)?;
    stream.nodes(replay)?;
    stream.seal()?;
    let digest = stream.tails()?;
    replay.end(digest).map_err(|refused| stream.refused(refused))?;
    // Not before the seals have told that it is no damage.
    if header.version > FILE_VERSION {
        let (version, known) = (header.version.unsigned_abs(), FILE_VERSION.unsigned_abs());
        return Err(StorageError::LaterVersion { path: path.to_owned(), version, known });
    }
    // ZooKeeper's digest is that of the end of the writing.
    let newest = stream.newest.max(digest.map_or(0, |digest| digest.zxid));
    Ok(Loaded { id, newest, stated: stream.stated })
}

fn open(disk: &dyn Disk, path: &Path) -> Result<Content, StorageError> {
    Ok(Content::new(disk.open(path).during("open", path)?, Compression::of(path)))
}

/// ZooKeeper writes -1.
fn origin_of(dbid: i64) -> SnapshotOrigin {
    u64::try_from(dbid).map_or(SnapshotOrigin::Java, |index| SnapshotOrigin::Exact { index })
}

/// The file as it is consumed, with the checksum of what is.
struct Stream {
    path: PathBuf,
    zxid: i64,
    content: Content,
    file_len: u64,
    checksum: Adler32,
    newest: i64,
    stated: Option<i64>,
}

impl Stream {
    fn sessions(&mut self, replay: &mut dyn Replay) -> Result<(), StorageError> {
        for _ in 0..self.count()? {
            let id = self.i64()?;
            let timeout_ms = self.i32()?;
            replay.session(id, timeout_ms).map_err(|refused| self.refused(refused))?;
        }
        Ok(())
    }

    fn acls(&mut self, replay: &mut dyn Replay) -> Result<(), StorageError> {
        for _ in 0..self.count()? {
            let id = self.i64()?;
            let entries = self.count()?;
            let mut acl = Vec::new();
            for _ in 0..entries {
                let perms = self.i32()?;
                let scheme = self.string()?.map(Into::into);
                let name = self.string()?.map(Into::into);
                acl.push(Acl { perms, scheme, id: name });
            }
            replay.acl(id, acl).map_err(|refused| self.refused(refused))?;
        }
        Ok(())
    }

    fn nodes(&mut self, replay: &mut dyn Replay) -> Result<(), StorageError> {
        for nodes in 0_u64.. {
            if nodes.is_multiple_of(NODES_A_WORD) {
                replay.progress(Reading::Snapshot, self.content.file_offset(), self.file_len);
            }
            let path = match self.string()? {
                Some(path) if path == "/" => return Ok(()),
                Some(path) => path,
                None => return Err(self.broken(SnapshotReason::Length(-1))),
            };
            let data_len = match self.peek_i32()? {
                -1 => 0,
                len => {
                    usize::try_from(len).map_err(|_| self.broken(SnapshotReason::Length(len)))?
                }
            };
            let at = (self.path.clone(), self.zxid, self.content.offset());
            let bytes = self.take(data_len.saturating_add(4 + NODE_TAIL_LEN))?;
            match jute::decode::<SnapshotNode<'_>>(bytes) {
                Ok((node, _)) => {
                    let stat = &node.stat;
                    let newest = stat.czxid.max(stat.mzxid).max(stat.pzxid);
                    replay.node(&path, &node).map_err(|Refused(reason)| {
                        let (path, zxid, offset) = at;
                        StorageError::Refused { path, offset, zxid, reason }
                    })?;
                    self.newest = self.newest.max(newest);
                }
                Err(error) => return Err(self.broken(error.into())),
            }
        }
        Ok(())
    }

    /// What ZooKeeper added after the first seal over time; all of it may be missing.
    fn tails(&mut self) -> Result<Option<SnapshotDigest>, StorageError> {
        const ZXID_TAIL: usize = 8 + SEAL_LEN;
        let mut digest = None;
        let left = self.peek(ZXID_TAIL + 1)?.len();
        if left != 0 && left != ZXID_TAIL {
            digest = Some(self.digest()?);
            self.seal()?;
        }
        if self.peek(ZXID_TAIL + 1)?.len() == ZXID_TAIL {
            self.stated = Some(self.i64()?);
            self.seal()?;
        }
        if !self.peek(1)?.is_empty() {
            return Err(self.broken(SnapshotReason::Tail));
        }
        Ok(digest.filter(|digest| digest.zxid > 0))
    }

    /// Before version 2 the sum was a string in base 16.
    fn digest(&mut self) -> Result<SnapshotDigest, StorageError> {
        let zxid = self.i64()?;
        let version = self.i32()?;
        let digest = if version >= 2 {
            self.i64()?
        } else {
            let text = self.string()?.unwrap_or_default();
            i64::from_str_radix(&text, 16).map_err(|_| self.broken(SnapshotReason::Tail))?
        };
        Ok(SnapshotDigest { zxid, version, digest })
    }

    fn seal(&mut self) -> Result<(), StorageError> {
        let expected = i64::from(self.checksum.finish());
        let found = self.i64()?;
        if found != expected || self.take(MARK.len())? != MARK {
            return Err(self.broken(SnapshotReason::Seal));
        }
        Ok(())
    }

    /// ZooKeeper reads a negative count as none.
    fn count(&mut self) -> Result<i32, StorageError> {
        self.i32()
    }

    fn i32(&mut self) -> Result<i32, StorageError> {
        let bytes = self.take(4)?.first_chunk().copied();
        bytes.map(i32::from_be_bytes).ok_or_else(|| self.broken(SnapshotReason::Truncated))
    }

    fn i64(&mut self) -> Result<i64, StorageError> {
        let bytes = self.take(8)?.first_chunk().copied();
        bytes.map(i64::from_be_bytes).ok_or_else(|| self.broken(SnapshotReason::Truncated))
    }

    fn peek_i32(&mut self) -> Result<i32, StorageError> {
        let bytes = self.peek(4)?.first_chunk().copied();
        bytes.map(i32::from_be_bytes).ok_or_else(|| self.broken(SnapshotReason::Truncated))
    }

    fn string(&mut self) -> Result<Option<String>, StorageError> {
        let len = match self.i32()? {
            -1 => return Ok(None),
            len => usize::try_from(len).map_err(|_| self.broken(SnapshotReason::Length(len)))?,
        };
        Ok(Some(jute::text(self.take(len)?).into_owned()))
    }

    /// The next `count` bytes, which count for the checksum.
    fn take(&mut self, count: usize) -> Result<&[u8], StorageError> {
        let there = self.peek(count)?.len();
        if there < count {
            return Err(self.broken(SnapshotReason::Truncated));
        }
        let bytes = self.content.take(count);
        self.checksum.write(bytes);
        Ok(bytes)
    }

    /// The next `count` bytes, or as many as there are.
    fn peek(&mut self, count: usize) -> Result<&[u8], StorageError> {
        let offset = self.content.offset();
        match self.content.peek(count) {
            Ok(bytes) => Ok(bytes),
            Err(Unreadable::Disk(error)) => Err(error).during("read", &self.path),
            Err(Unreadable::Packing | Unreadable::CutOff) => Err(StorageError::Snapshot {
                path: self.path.clone(),
                offset,
                reason: SnapshotReason::Packing,
            }),
        }
    }

    fn broken(&self, reason: SnapshotReason) -> StorageError {
        StorageError::Snapshot { path: self.path.clone(), offset: self.content.offset(), reason }
    }

    fn header(&self) -> StorageError {
        StorageError::Header { path: self.path.clone(), expected: "snapshot" }
    }

    fn refused(&self, Refused(reason): Refused) -> StorageError {
        StorageError::Refused {
            path: self.path.clone(),
            offset: self.content.offset(),
            zxid: self.zxid,
            reason,
        }
    }
}

/// The same snapshot, not packed, with a digest that its znodes do not make; every seal matches.
#[cfg(test)]
pub(crate) fn with_another_digest(mut bytes: Vec<u8>) -> Vec<u8> {
    let seal = |bytes: &mut Vec<u8>, at: usize| {
        let checksum = i64::from(simd_adler32::adler32(&&bytes[..at]));
        bytes[at..at + 8].copy_from_slice(&checksum.to_be_bytes());
    };
    let last = bytes.len() - SEAL_LEN;
    let first = last - 8 - SEAL_LEN;
    bytes[first - 1] ^= 1;
    seal(&mut bytes, first);
    seal(&mut bytes, last);
    bytes
}
