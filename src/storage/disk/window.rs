//! A file read front to back through a bounded buffer.
//!
//! Never holds more than what was asked for at once or one piece, and never more than the file
//! has, whatever a length in the file says.

use std::io;

use super::{DiskFile, read_exact_at};

/// Bytes read at a time.
const PIECE: u64 = 256 << 10;

/// The part of a file that is in memory.
#[derive(Debug)]
pub(crate) struct Window {
    file: Box<dyn DiskFile>,
    len: u64,
    /// Offset of the first byte of `buffer`.
    start: u64,
    buffer: Vec<u8>,
}

impl Window {
    pub(crate) fn new(file: Box<dyn DiskFile>) -> io::Result<Self> {
        let len = file.size()?;
        Ok(Self { file, len, start: 0, buffer: Vec::new() })
    }

    /// The length of the file when it was opened.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// `count` bytes at `offset`; `None` if the file has not so many there.
    pub(crate) fn bytes(&mut self, offset: u64, count: usize) -> io::Result<Option<&[u8]>> {
        let end = match offset.checked_add(count as u64) {
            Some(end) if end <= self.len => end,
            _ => return Ok(None),
        };
        if offset < self.start || end > self.start.saturating_add(self.buffer.len() as u64) {
            let size = PIECE.max(count as u64).min(self.len - offset);
            let size = usize::try_from(size).map_err(io::Error::other)?;
            // Grown or cut, but not zeroed again: it is read over.
            self.buffer.resize(size, 0);
            read_exact_at(self.file.as_ref(), &mut self.buffer, offset)?;
            self.buffer.shrink_to(size);
            self.start = offset;
        }
        let from = usize::try_from(offset - self.start).map_err(io::Error::other)?;
        Ok(self.buffer.get(from..).and_then(|rest| rest.get(..count)))
    }

    /// The bytes from `offset` on, as many as one piece; empty at the end of the file.
    pub(crate) fn piece(&mut self, offset: u64) -> io::Result<&[u8]> {
        let count = usize::try_from(PIECE.min(self.len.saturating_sub(offset)))
            .map_err(io::Error::other)?;
        Ok(self.bytes(offset, count)?.unwrap_or_default())
    }

    /// Everything from `from` up to `to`, in a buffer of its own.
    pub(crate) fn copy(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let count = to.min(self.len).saturating_sub(from);
        let mut bytes = vec![0; usize::try_from(count).map_err(io::Error::other)?];
        read_exact_at(self.file.as_ref(), &mut bytes, from)?;
        Ok(bytes)
    }
}
