//! What an unreadable record in a segment of ours means.
//!
//! A group is written at once and synced before the next one begins. So a valid record behind an
//! unreadable one tells by its trailer: if its group began at or before the unreadable record, both
//! belong to one group that was never synced and never acknowledged. If its group began later, the
//! unreadable record had been synced, and is damage.
//!
//! A client can store bytes that look like a record of a later group. If its own record is then torn
//! by a power failure, this takes a torn tail for damage and the start is refused: the safe side.

use std::io;

use super::record::{FRAME_LEN, HEAD_LEN, Head, Trailer, zxid_of_payload};
use super::window::Window;

/// What stands from the first unreadable record on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Zeros or nothing: the log ends here.
    Clean,
    /// The rest of a group that was never synced, ending at this offset.
    Torn {
        /// Behind the last byte that is not zero.
        end: u64,
    },
    /// A record of a later group.
    Damage {
        /// Where it is.
        offset: u64,
        /// Its zxid.
        zxid: i64,
    },
}

/// Judges what stands in a segment from `at` on, where `last_good` is the zxid of the last record.
pub(crate) fn judge(window: &mut Window, at: u64, last_good: i64) -> io::Result<Tail> {
    let Some(end) = last_written(window, at)? else { return Ok(Tail::Clean) };
    let bytes = window.copy(at, end)?;
    // The unreadable record itself begins at 0.
    for start in 1..bytes.len() {
        let Some(zxid_and_distance) = bytes.get(start..).and_then(candidate) else { continue };
        let (zxid, distance) = zxid_and_distance;
        if zxid > last_good && u64::from(distance) < start as u64 {
            return Ok(Tail::Damage { offset: at.saturating_add(start as u64), zxid });
        }
    }
    Ok(Tail::Torn { end })
}

/// The zxid and the distance to its group of a valid record at the front of `bytes`.
fn candidate(bytes: &[u8]) -> Option<(i64, u32)> {
    let head = Head::parse(bytes)?;
    // An Adler-32 in 64 bits begins with four zeros: cheap, and rare in anything but zeros.
    u32::try_from(head.checksum).ok()?;
    let len = head.own_payload_len(bytes.len() as u64)?;
    let body = bytes.get(HEAD_LEN..FRAME_LEN.checked_add(len)?)?;
    let payload = body.get(..len)?;
    let trailer = Trailer::of_payload(payload)?;
    head.matches(body).then_some((zxid_of_payload(payload)?, trailer.distance))
}

/// The offset behind the last byte from `at` on that is not zero.
fn last_written(window: &mut Window, at: u64) -> io::Result<Option<u64>> {
    let mut last = None;
    let mut offset = at;
    loop {
        let piece = window.piece(offset)?;
        if piece.is_empty() {
            return Ok(last);
        }
        // Megabytes of zeros are the rule, and a sum of all bits is quicker than a look at each byte.
        let is_blank = piece.iter().fold(0, |bits, byte| bits | byte) == 0;
        if !is_blank && let Some(position) = piece.iter().rposition(|byte| *byte != 0) {
            last = Some(offset.saturating_add(position as u64).saturating_add(1));
        }
        offset = offset.saturating_add(piece.len() as u64);
    }
}
