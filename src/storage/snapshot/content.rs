//! The content of a snapshot file, unpacked and read front to back.
//!
//! Holds what was asked for at once or one piece, and no more than is there: whatever a length in
//! the file says, memory grows with what was read. Tells a disk that fails from a file that cannot
//! be unpacked.

use std::io::{self, Read};

use crate::storage::compression::{Compression, Unpack};
use crate::storage::disk::DiskFile;

/// Bytes read at a time.
const PIECE: usize = 256 << 10;
/// The most that is asked for at once: no record of the log could have made a znode larger.
const RECORD_MAX: usize = 1 << 30;

/// Why content cannot be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// The disk failed, which says nothing about the file.
    Disk(io::Error),
    /// What the file holds is not packed as its name says.
    Packing,
    /// What is packed goes on after the end of the file.
    CutOff,
}

/// Unpacked bytes of a snapshot.
#[derive(Debug)]
pub(crate) struct Content {
    source: Unpack<FileBytes>,
    buffer: Vec<u8>,
    /// The first byte of the buffer that is not consumed.
    start: usize,
    /// Bytes consumed.
    offset: u64,
}

impl Content {
    pub(crate) fn new(file: Box<dyn DiskFile>, compression: Compression) -> Self {
        let file = FileBytes { file, offset: 0, failed: None };
        let source = Unpack::new(compression, file);
        Self { source, buffer: Vec::new(), start: 0, offset: 0 }
    }

    /// Bytes consumed so far.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of the file that were read, packed as they are.
    pub(crate) fn file_offset(&mut self) -> u64 {
        self.source.file().offset
    }

    /// The next `count` bytes; fewer at the end.
    pub(crate) fn peek(&mut self, count: usize) -> Result<&[u8], Unreadable> {
        while self.buffered() < count.min(RECORD_MAX) && self.read_more(count)? {}
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        Ok(rest.get(..count).unwrap_or(rest))
    }

    /// Consumes bytes that were peeked at.
    pub(crate) fn take(&mut self, count: usize) -> &[u8] {
        let from = self.start;
        let count = count.min(self.buffered());
        self.start = from.saturating_add(count);
        self.offset = self.offset.saturating_add(count as u64);
        self.buffer.get(from..self.start).unwrap_or_default()
    }

    fn buffered(&self) -> usize {
        self.buffer.len().saturating_sub(self.start)
    }

    /// Reads a piece, and as much again as is there already if more is wanted; `false` at the end.
    fn read_more(&mut self, wanted: usize) -> Result<bool, Unreadable> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let before = self.buffer.len();
        if before <= PIECE && self.buffer.capacity() > 4 * PIECE {
            self.buffer.shrink_to(2 * PIECE);
        }
        let more = wanted.saturating_sub(before).min(before).max(PIECE);
        self.buffer.reserve(more);
        // Not zeroed first: of most files less than a piece is read.
        match (&mut self.source).take(more as u64).read_to_end(&mut self.buffer) {
            Ok(count) => Ok(count > 0),
            Err(unpacking) => Err(match self.source.file().failed.take() {
                Some(error) => Unreadable::Disk(error),
                None if unpacking.kind() == io::ErrorKind::UnexpectedEof => Unreadable::CutOff,
                None => Unreadable::Packing,
            }),
        }
    }
}

/// A file read from its beginning.
#[derive(Debug)]
struct FileBytes {
    file: Box<dyn DiskFile>,
    offset: u64,
    /// What the disk said, kept apart from what the decoders find.
    failed: Option<io::Error>,
}

impl Read for FileBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.file.read_at(buffer, self.offset) {
            Ok(count) => {
                self.offset = self.offset.saturating_add(count as u64);
                Ok(count)
            }
            Err(error) => {
                self.failed = Some(error);
                Err(io::ErrorKind::Other.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::storage::Disk;
    use crate::storage::compression::Pack;
    use crate::storage::disk::sim::SimDisk;

    fn content(compression: Compression, bytes: &[u8]) -> Content {
        let mut pack = Pack::new(compression);
        pack.write(bytes).expect("packs");
        pack.finish().expect("ends");
        let (disk, path) = (SimDisk::default(), Path::new("/data/x"));
        disk.plant(path, pack.buffer());
        Content::new(disk.open(path).expect("opens"), compression)
    }

    #[test]
    fn memory_grows_with_what_is_there() {
        for compression in [Compression::None, Compression::Gzip, Compression::Snappy] {
            let mut few = content(compression, &[7; 1000]);
            assert_eq!(few.peek(RECORD_MAX).expect("reads"), [7; 1000]);
            assert!(few.buffer.capacity() <= 3 * PIECE, "{compression:?}");
            let mut many = content(compression, &vec![7; 20 << 20]);
            assert_eq!(many.peek(RECORD_MAX).expect("reads").len(), 20 << 20);
            assert!(many.buffer.capacity() <= 64 << 20, "{compression:?}");
            many.take(20 << 20);
            assert!(many.peek(1).expect("reads").is_empty());
            assert_eq!(many.offset(), 20 << 20);
        }
    }

    #[test]
    fn pieces_join_wherever_they_are_cut() {
        let bytes: Vec<u8> = (0..3 * PIECE).map(|at| (at % 251) as u8).collect();
        let mut read = content(Compression::Snappy, &bytes);
        let (mut at, mut count) = (0, 1);
        while at < bytes.len() {
            let end = (at + count).min(bytes.len());
            assert_eq!(read.peek(count).expect("reads"), &bytes[at..end]);
            assert_eq!(read.take(count), &bytes[at..end]);
            (at, count) = (end, count * 3 % 100_003);
        }
    }
}
