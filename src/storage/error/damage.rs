//! What is wrong with a log or a snapshot, in words.

use jute::DecodeError;

use super::Zxid;

/// What is wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageReason {
    /// Later records had been synced after the unreadable one.
    #[error("the record is unreadable, but transaction {} after it, at offset {offset}, was \
        written in a later group", Zxid(*zxid))]
    LaterGroup {
        /// Where the later record is.
        offset: u64,
        /// Its zxid.
        zxid: i64,
    },
    /// ZooKeeper's reader would end here, and lose what follows.
    #[error("the record is unreadable, but transaction {} after it, at offset {offset}, can be \
        read: ZooKeeper would end the log here and drop both. Either the disk lost acknowledged \
        data, or the power failed before either was synced", Zxid(*zxid))]
    LaterRecord {
        /// Where the later record is.
        offset: u64,
        /// Its zxid.
        zxid: i64,
    },
    /// A later segment exists, which is only begun after a synced end.
    #[error("the record is unreadable, but a later log file exists")]
    LaterSegment,
    /// A record of ZooKeeper fails its checksum.
    #[error("the record fails its checksum (ZooKeeper refuses it too)")]
    Checksum,
    /// A length that is none.
    #[error("the record has the impossible length {0}")]
    Length(i32),
    /// The checksum is right but the payload is no transaction.
    #[error(
        "the record is intact but is not a transaction that this release knows: {0}; if a later \
         release wrote it, start that one"
    )]
    Decode(DecodeError),
    /// The checksum is right but the trailer is not one of this version.
    #[error(
        "the record is intact but does not end with a trailer that this release knows; if a later \
         release wrote it, start that one"
    )]
    Trailer,
    /// Transactions are missing.
    #[error("transaction {} follows, so transactions are missing", Zxid(*found))]
    ZxidGap {
        /// The zxid that follows.
        found: i64,
    },
    /// Log indexes are missing, so transactions or whole files are.
    #[error("log index {found} follows where {expected} should, so transactions are missing")]
    IndexGap {
        /// The index that is due.
        expected: u64,
        /// The one that follows.
        found: i64,
    },
    /// The name of the file is not the zxid of its first record.
    #[error("its first transaction is {}, which does not match the file's name", Zxid(*found))]
    Name {
        /// The zxid of the first record.
        found: i64,
    },
    /// The end of the log is missing.
    #[error("the log ends here, but snapshot.{snapshot:x}, which was written while transactions \
        went on, contains transactions up to {}: the log from here up to that one is \
        missing", Zxid(*newest))]
    InsideSnapshot {
        /// The zxid in the snapshot's name.
        snapshot: i64,
        /// The newest transaction that it shows.
        newest: i64,
    },
    /// It is not a log by its first bytes.
    #[error("it does not begin with the header of a transaction log")]
    Header,
    /// The header ends early.
    #[error("the file ends inside its header")]
    ShortHeader,
}

/// What is wrong with a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotReason {
    /// It is over before its end marker.
    #[error("it ends early")]
    Truncated,
    /// It cannot be unpacked.
    #[error("it cannot be decompressed (offsets count decompressed bytes)")]
    Packing,
    /// A seal does not match the bytes before it.
    #[error("the checksum does not match the bytes before it")]
    Seal,
    /// A count or length is negative.
    #[error("length or count {0} is impossible")]
    Length(i32),
    /// A record cannot be decoded.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// Bytes follow that are no section of the format.
    #[error("it is followed by bytes that belong to no known section")]
    Tail,
}
