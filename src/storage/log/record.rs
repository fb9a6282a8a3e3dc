//! One record of the transaction log: ZooKeeper's frame, and the trailer at the end of our
//! payloads.
//!
//! ```text
//! checksum i64 | length i32 | payload                                                   | 'B'
//!              |            | TxnHeader, txn, [TxnDigest] | distance u32, kind u8, 0 0 0 |
//! ```
//!
//! It knows bytes only; which record may follow which is the reader's business.

use crate::storage::error::StorageError;

/// Bytes before the payload: checksum and length.
pub(crate) const HEAD_LEN: usize = 12;
/// Bytes around a payload: head and end mark.
pub(crate) const FRAME_LEN: usize = HEAD_LEN + 1;
/// Bytes of our trailer. Under 12, so that ZooKeeper takes it for no digest.
pub(crate) const TRAILER_LEN: usize = 8;
/// ZooKeeper's mark after each record.
pub(crate) const END_MARK: u8 = b'B';
/// Bytes of a transaction header, with the type.
const TXN_HEADER_LEN: usize = 32;
/// The least that a payload of ours has.
pub(crate) const OWN_PAYLOAD_MIN: usize = TXN_HEADER_LEN + TRAILER_LEN;
/// The largest group; far under what a trailer's distance can say.
const GROUP_LIMIT: usize = 1 << 30;
/// The largest record that is to be made.
pub const RECORD_MAX: usize = GROUP_LIMIT / 2;
/// A group of this length is made durable before another record comes into it.
pub(crate) const GROUP_FULL: usize = 64 << 20;

/// What stands before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Adler-32 of the payload, in 64 bits.
    pub(crate) checksum: i64,
    /// Length of the payload.
    pub(crate) len: i32,
}

impl Head {
    /// Reads a head from the front of `bytes`; `None` if they are too few.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (checksum, rest) = bytes.split_first_chunk::<8>()?;
        let len = rest.first_chunk::<4>()?;
        Some(Self { checksum: i64::from_be_bytes(*checksum), len: i32::from_be_bytes(*len) })
    }

    /// The length of a payload that could be a record of ours in `available` bytes, head included.
    pub(crate) fn own_payload_len(self, available: u64) -> Option<usize> {
        let len = usize::try_from(self.len).ok()?;
        let fits = (len as u64).saturating_add(FRAME_LEN as u64) <= available;
        (len >= OWN_PAYLOAD_MIN && fits).then_some(len)
    }

    /// Whether `body`, the payload and one byte more, is what this head announces.
    pub(crate) fn matches(self, body: &[u8]) -> bool {
        body.split_last().is_some_and(|(mark, payload)| {
            *mark == END_MARK && i64::from(adler32(payload)) == self.checksum
        })
    }
}

/// What a record is to an ensemble: Raft's types of entries, by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A transaction, or nothing but a place in the order.
    Ordinary,
    /// It changes who belongs to the ensemble.
    Membership,
}

impl EntryKind {
    const fn code(self) -> u8 {
        match self {
            Self::Ordinary => 0,
            Self::Membership => 2,
        }
    }

    const fn parse(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Ordinary),
            2 => Some(Self::Membership),
            _ => None,
        }
    }
}

/// The last bytes of a payload of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Bytes from the first byte of the record's group to the first byte of the record.
    pub(crate) distance: u32,
    /// What the record is to an ensemble.
    pub(crate) kind: EntryKind,
}

impl Trailer {
    /// Reads the trailer; `None` if this version did not write such a one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (distance, rest) = bytes.split_first_chunk::<4>()?;
        let (&code, zeros) = rest.split_first()?;
        let kind = EntryKind::parse(code).filter(|_| zeros == [0, 0, 0])?;
        Some(Self { distance: u32::from_be_bytes(*distance), kind })
    }

    /// The distance of a trailer that may be of a later release: what it begins with stays.
    pub(crate) fn distance_of_payload(payload: &[u8]) -> Option<u32> {
        let trailer = payload.last_chunk::<TRAILER_LEN>()?;
        trailer.first_chunk().map(|distance| u32::from_be_bytes(*distance))
    }

    /// The trailer of a whole payload, without a look at the transaction.
    pub(crate) fn of_payload(payload: &[u8]) -> Option<Self> {
        Self::parse(payload.last_chunk::<TRAILER_LEN>()?)
    }
}

/// The zxid of a payload, without decoding the rest.
pub(crate) fn zxid_of_payload(payload: &[u8]) -> Option<i64> {
    payload.get(12..)?.first_chunk::<8>().map(|zxid| i64::from_be_bytes(*zxid))
}

/// Appends the record that `encode` writes, framed and with its trailer, to `group`; on failure
/// `group` is as before.
pub(crate) fn append(
    group: &mut Vec<u8>,
    kind: EntryKind,
    encode: impl FnOnce(&mut Vec<u8>),
) -> Result<(), StorageError> {
    let start = group.len();
    group.extend_from_slice(&[0; HEAD_LEN]);
    encode(group);
    // Within the group limit both numbers fit; beyond it nothing is kept of the record.
    group.extend_from_slice(&u32::try_from(start).unwrap_or(u32::MAX).to_be_bytes());
    group.extend_from_slice(&[kind.code(), 0, 0, 0]);
    let payload = group.get(start + HEAD_LEN..).unwrap_or_default();
    let checksum = i64::from(adler32(payload)).to_be_bytes();
    let len = i32::try_from(payload.len()).unwrap_or(i32::MAX).to_be_bytes();
    if group.len() >= GROUP_LIMIT {
        let len = group.len();
        group.truncate(start);
        return Err(StorageError::GroupTooLarge { len });
    }
    let head = group.iter_mut().skip(start);
    for (byte, value) in head.zip(checksum.into_iter().chain(len)) {
        *byte = value;
    }
    group.push(END_MARK);
    Ok(())
}

/// Appends a whole payload in its frame, with the checksum that it has.
pub(crate) fn frame(out: &mut Vec<u8>, payload: &[u8]) {
    out.extend_from_slice(&i64::from(adler32(payload)).to_be_bytes());
    out.extend_from_slice(&i32::try_from(payload.len()).unwrap_or(i32::MAX).to_be_bytes());
    out.extend_from_slice(payload);
    out.push(END_MARK);
}

/// ZooKeeper's checksum of everything.
pub(crate) fn adler32(bytes: &[u8]) -> u32 {
    let mut adler = simd_adler32::Adler32::new();
    adler.write(bytes);
    adler.finish()
}
