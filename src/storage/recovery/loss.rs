//! What stands in the log after a place: what a cut there would lose.
//!
//! Goes on after records that cannot be read, to the next one whose checksum is right.

use std::path::Path;

use crate::storage::disk::Disk;
use crate::storage::disk::window::Window;
use crate::storage::error::{During, Loss, StorageError};
use crate::storage::files::directory::DataDirectory;
use crate::storage::log::record::{FRAME_LEN, HEAD_LEN, Head};
use crate::storage::log::search::Search;
use crate::storage::log::segment::HEADER_LEN;

/// The zxid of a payload begins here, its time right after.
const ZXID_AT: usize = 12;
/// The least that a payload has.
const PAYLOAD_MIN: usize = 32;
/// Bytes that are searched at a time; a record across their end counts as unreadable.
const SEARCHED: u64 = 32 << 20;

/// Counts from `offset` in the log named for `zxid` to the end of all logs, apart from transactions
/// up to `kept`: a snapshot has them.
///
/// # Errors
/// When the disk fails.
pub fn behind(
    directory: &DataDirectory,
    zxid: i64,
    offset: u64,
    kept: i64,
) -> Result<Loss, StorageError> {
    let disk = directory.disk().as_ref();
    let mut loss = Loss::default();
    for name in directory.log_zxids()? {
        if name < zxid {
            continue;
        }
        let from = if name == zxid { offset } else { 0 };
        count(disk, &directory.log_path(name), from.max(HEADER_LEN), kept, &mut loss)?;
    }
    Ok(loss)
}

fn count(
    disk: &dyn Disk,
    path: &Path,
    from: u64,
    kept: i64,
    loss: &mut Loss,
) -> Result<(), StorageError> {
    let mut window = Window::new(disk.open(path).during("open", path)?).during("read", path)?;
    let mut at = from;
    let mut piece = None;
    loop {
        if let Some(found) = whole(&mut window, at).during("read", path)? {
            at = found.end;
            if found.zxid > kept {
                loss.txns = loss.txns.saturating_add(1);
                loss.first.get_or_insert((found.zxid, found.time));
                loss.last = Some((found.zxid, found.time));
            }
            continue;
        }
        let next = next_whole(&mut window, &mut piece, at).during("read", path)?;
        let end = next.unwrap_or(window.len());
        let written = written(&mut window, at, end).during("read", path)?;
        loss.unreadable_bytes = loss.unreadable_bytes.saturating_add(written);
        match next {
            Some(next) => at = next,
            None => return Ok(()),
        }
    }
}

/// A record whose checksum is right.
struct Whole {
    zxid: i64,
    time: i64,
    end: u64,
}

/// The record at `at`, if one is there.
fn whole(window: &mut Window, at: u64) -> std::io::Result<Option<Whole>> {
    let left = window.len().saturating_sub(at);
    let Some(head) = window.bytes(at, HEAD_LEN)?.and_then(Head::parse) else { return Ok(None) };
    let Some(len) = payload_len(head, left) else { return Ok(None) };
    let body_at = at.saturating_add(HEAD_LEN as u64);
    let mark_at = body_at.saturating_add(len as u64);
    // Before all of what may be no record at all is read.
    if window.copy(mark_at, mark_at.saturating_add(1))? != *b"B" {
        return Ok(None);
    }
    let Some(body) = window.bytes(body_at, len.saturating_add(1))? else { return Ok(None) };
    if !head.matches(body) {
        return Ok(None);
    }
    let number = |at: usize| body.get(at..)?.first_chunk().map(|bytes| i64::from_be_bytes(*bytes));
    let (Some(zxid), Some(time)) = (number(ZXID_AT), number(ZXID_AT + 8)) else { return Ok(None) };
    let end = at.saturating_add(FRAME_LEN as u64).saturating_add(len as u64);
    Ok(Some(Whole { zxid, time, end }))
}

fn payload_len(head: Head, left: u64) -> Option<usize> {
    // An Adler-32 in 64 bits begins with four zeros.
    u32::try_from(head.checksum).ok()?;
    let len = usize::try_from(head.len).ok()?;
    let fits = (len as u64).saturating_add(FRAME_LEN as u64) <= left;
    (len >= PAYLOAD_MIN && fits).then_some(len)
}

/// Some of a log, searched for the next record that is whole.
struct Piece {
    begin: u64,
    search: Search,
}

/// Where the next record after `at` begins. `piece` is what was searched before.
fn next_whole(
    window: &mut Window,
    piece: &mut Option<Piece>,
    at: u64,
) -> std::io::Result<Option<u64>> {
    let mut from = at.saturating_add(1);
    while from.saturating_add(FRAME_LEN as u64) <= window.len() {
        let end = |piece: &Piece| piece.begin.saturating_add(piece.search.bytes().len() as u64);
        let Some(there) = piece.take_if(|piece| from < end(piece)) else {
            let bytes = window.copy(from, from.saturating_add(SEARCHED))?;
            *piece = Some(Piece { begin: from, search: Search::new(bytes) });
            continue;
        };
        let there = piece.insert(there);
        let first = usize::try_from(from.saturating_sub(there.begin)).unwrap_or(usize::MAX);
        for start in first..there.search.bytes().len() {
            if there.search.record(start, PAYLOAD_MIN).is_some() {
                return Ok(Some(there.begin.saturating_add(start as u64)));
            }
        }
        from = end(there);
    }
    Ok(None)
}

/// Bytes from `from` to after the last one before `to` that is not zero.
fn written(window: &mut Window, from: u64, to: u64) -> std::io::Result<u64> {
    let mut last = from;
    let mut at = from;
    while at < to {
        let piece = window.piece(at)?;
        let len = usize::try_from(to.saturating_sub(at)).unwrap_or(usize::MAX).min(piece.len());
        if len == 0 {
            break;
        }
        let piece = piece.get(..len).unwrap_or_default();
        if let Some(position) = piece.iter().rposition(|byte| *byte != 0) {
            last = at.saturating_add(position as u64).saturating_add(1);
        }
        at = at.saturating_add(len as u64);
    }
    Ok(last.saturating_sub(from))
}
