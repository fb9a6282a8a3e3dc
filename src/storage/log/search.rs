//! Whole records among bytes of which nobody knows where one begins.
//!
//! A client chooses most of these bytes: it can store any number of heads that announce long
//! records. So the checksum of what a head announces is taken from sums that are made once, and the
//! work is linear in the bytes.

use super::record::{END_MARK, FRAME_LEN, HEAD_LEN, Head, zxid_of_payload};

/// The modulus of Adler-32.
const MODULUS: u32 = 65_521;
/// Bytes from one kept sum to the next.
const STEP: usize = 16;

/// Bytes to be searched.
#[derive(Debug)]
pub(crate) struct Search {
    bytes: Vec<u8>,
    /// Of all bytes before every 16th: their sum, and the sum of the sums up to each of them. Made
    /// when it is needed.
    sums: Vec<(u16, u16)>,
    /// Bytes that were summed.
    cost: u64,
}

impl Search {
    pub(crate) const fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, sums: Vec::new(), cost: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[cfg(test)]
    pub(crate) const fn cost(&self) -> u64 {
        self.cost
    }

    /// Where the first whole record begins, after the unreadable one at 0, that has at least so
    /// many bytes, a zxid above `last`, and is one by `is_it`; and its zxid.
    pub(crate) fn first_after(
        &mut self,
        last: i64,
        least: usize,
        is_it: impl Fn(usize, &[u8]) -> bool,
    ) -> Option<(usize, i64)> {
        (1..self.bytes.len()).find_map(|start| {
            let payload = self.record(start, least)?;
            let zxid = zxid_of_payload(payload).filter(|zxid| *zxid > last)?;
            is_it(start, payload).then_some((start, zxid))
        })
    }

    /// The payload of the record that begins at `start` and is whole, if it has at least so many
    /// bytes.
    pub(crate) fn record(&mut self, start: usize, least: usize) -> Option<&[u8]> {
        let rest = self.bytes.get(start..)?;
        let head = Head::parse(rest)?;
        // An Adler-32 in 64 bits begins with four zeros: cheap, and rare in anything but zeros.
        let checksum = u32::try_from(head.checksum).ok()?;
        let len = usize::try_from(head.len).ok().filter(|len| *len >= least)?;
        let end = FRAME_LEN.checked_add(len)?;
        if rest.get(..end)?.last() != Some(&END_MARK) {
            return None;
        }
        let from = start.saturating_add(HEAD_LEN);
        let to = from.saturating_add(len);
        if self.adler32(from, to) != checksum {
            return None;
        }
        self.bytes.get(from..to)
    }

    fn adler32(&mut self, from: usize, to: usize) -> u32 {
        if self.sums.is_empty() {
            self.sum_up();
        }
        let ((sum_from, sums_from), (sum_to, sums_to)) = (self.sums(from), self.sums(to));
        let len = u32::try_from(to.saturating_sub(from) as u64 % u64::from(MODULUS)).unwrap_or(0);
        let low = 1 + sum_to + MODULUS - sum_from;
        // Every one of these sums counts what came before `from`, and misses the 1 that Adler
        // begins with.
        let before = u64::from(len) * u64::from(sum_from) % u64::from(MODULUS);
        let before = u32::try_from(before).unwrap_or(0);
        let high = len + sums_to + MODULUS - sums_from + MODULUS - before;
        ((high % MODULUS) << 16) | (low % MODULUS)
    }

    /// Of the bytes before `end`.
    fn sums(&mut self, end: usize) -> (u32, u32) {
        let mark = end / STEP;
        let (sum, sums) = self.sums.get(mark).copied().unwrap_or_default();
        let rest = self.bytes.get(mark * STEP..end).unwrap_or_default();
        self.cost = self.cost.saturating_add(rest.len() as u64);
        add((sum.into(), sums.into()), rest)
    }

    fn sum_up(&mut self) {
        let mut at = (0, 0);
        self.sums.reserve_exact(self.bytes.len() / STEP + 1);
        // The last mark stands after the last whole step, where it may be the end.
        for mark in 0..=self.bytes.len() / STEP {
            let (sum, sums) = at;
            let narrow = |number: u32| u16::try_from(number).unwrap_or(0);
            self.sums.push((narrow(sum), narrow(sums)));
            let from = mark * STEP;
            let to = from.saturating_add(STEP).min(self.bytes.len());
            at = add(at, self.bytes.get(from..to).unwrap_or_default());
        }
        self.cost = self.cost.saturating_add(self.bytes.len() as u64);
    }
}

/// Goes on over a few bytes.
fn add((mut sum, mut sums): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    for byte in bytes {
        sum += u32::from(*byte);
        sums += sum;
    }
    (sum % MODULUS, sums % MODULUS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::disk::sim::Dice;
    use crate::storage::log::record::{adler32, frame};

    #[test]
    fn the_checksum_of_any_part_is_adlers() {
        let mut dice = Dice(1);
        for len in [0, 1, 15, 16, 17, 32, 5000, 70_000] {
            let bytes: Vec<u8> = (0..len).map(|_| dice.next().to_le_bytes()[0] | 0xc0).collect();
            let mut search = Search::new(bytes.clone());
            for _ in 0..200 {
                let to = dice.below(len + 1) as usize;
                let from = dice.below(to as u64 + 1) as usize;
                assert_eq!(search.adler32(from, to), adler32(&bytes[from..to]), "{from}..{to}");
            }
        }
    }

    #[test]
    fn a_record_is_found_where_it_begins_and_nowhere_else() {
        let mut bytes = vec![7; 100];
        frame(&mut bytes, &[1; 50]);
        bytes.extend([0; 40]);
        let mut search = Search::new(bytes);
        let found: Vec<usize> = (0..300).filter(|at| search.record(*at, 32).is_some()).collect();
        assert_eq!(found, [100]);
        assert_eq!(search.record(100, 50), Some(&[1; 50][..]));
        assert_eq!(search.record(100, 51), None);
    }

    /// A head every 16 bytes, each announcing all that follows.
    pub(crate) fn hostile(len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() + 16 < len {
            let announced = len - bytes.len() - FRAME_LEN;
            bytes.extend([0, 0, 0, 0, 1, 2, 3, 4]);
            bytes.extend((announced as u32).to_be_bytes());
            bytes.extend([0; 4]);
        }
        bytes.resize(len - 1, 0);
        bytes.push(b'B');
        bytes
    }

    #[test]
    fn heads_that_announce_everything_cost_no_more_than_the_bytes() {
        let len = 1 << 18;
        let mut search = Search::new(hostile(len));
        assert!((0..len).all(|at| search.record(at, 32).is_none()));
        assert!(search.cost() > 1 << 18, "it was not looked at");
        assert!(search.cost() <= 4 * len as u64, "{}", search.cost());
    }
}
