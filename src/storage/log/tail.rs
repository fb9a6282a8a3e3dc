//! What an unreadable record in a segment of ours means.
//!
//! A group is written at once and synced before the next one begins. So a valid record after an
//! unreadable one tells by its trailer: if its group began at or before the unreadable record, both
//! belong to one group that was never synced and never acknowledged. If its group began later, the
//! unreadable record had been synced, and is damage.
//!
//! A client can store bytes that look like a record of a later group. If its own record is then
//! torn by a power failure, this takes a torn tail for damage and the start is refused: the safe
//! side.

use std::io;

use super::record::{OWN_PAYLOAD_MIN, Trailer};
use super::search::Search;
use crate::storage::disk::window::Window;

/// What stands from the first unreadable record on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Zeros or nothing: the log ends here.
    Clean,
    /// The rest of a group that was never synced, ending at this offset.
    Torn {
        /// After the last byte that is not zero.
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
    // A trailer of a later release is one, too.
    let is_of_later_group = |start: usize, payload: &[u8]| {
        let distance = Trailer::distance_of_payload(payload);
        distance.is_some_and(|distance| u64::from(distance) < start as u64)
    };
    let mut search = Search::new(window.copy(at, end)?);
    let later = search.first_after(last_good, OWN_PAYLOAD_MIN, is_of_later_group);
    Ok(later.map_or(Tail::Torn { end }, |(start, zxid)| Tail::Damage {
        offset: at.saturating_add(start as u64),
        zxid,
    }))
}

/// The offset after the last byte from `at` on that is not zero.
fn last_written(window: &mut Window, at: u64) -> io::Result<Option<u64>> {
    let mut last = None;
    let mut offset = at;
    loop {
        let piece = window.piece(offset)?;
        if piece.is_empty() {
            return Ok(last);
        }
        // Megabytes of zeros are the rule, and a sum of all bits is quicker than a look at each
        // byte.
        let is_blank = piece.iter().fold(0, |bits, byte| bits | byte) == 0;
        if !is_blank && let Some(position) = piece.iter().rposition(|byte| *byte != 0) {
            last = Some(offset.saturating_add(position as u64).saturating_add(1));
        }
        offset = offset.saturating_add(piece.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::fixture::Fixture;
    use crate::storage::log::record::frame;

    /// An unreadable record, and after it one whose checksum is right, with a trailer that begins
    /// with a distance.
    fn judged(trailer: [u8; 8]) -> Tail {
        let mut bytes = vec![9; 64];
        let mut payload = vec![0; 32];
        payload[19] = 7;
        payload.extend(trailer);
        frame(&mut bytes, &payload);
        let fixture = Fixture::default();
        let path = Fixture::path("log.1");
        fixture.disk.plant(&path, &bytes);
        let file = crate::storage::Disk::open(&fixture.disk, &path).expect("opens");
        judge(&mut Window::new(file).expect("reads"), 0, 1).expect("reads")
    }

    #[test]
    fn a_record_of_a_later_release_tells_of_damage_too() {
        assert_eq!(judged([0, 0, 0, 0, 0, 0, 0, 0]), Tail::Damage { offset: 64, zxid: 7 });
        assert_eq!(judged([0, 0, 0, 0, 9, 1, 2, 3]), Tail::Damage { offset: 64, zxid: 7 });
        assert_eq!(judged([0, 0, 0, 64, 9, 1, 2, 3]), Tail::Torn { end: 64 + 13 + 40 });
    }
}
