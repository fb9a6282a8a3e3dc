//! Records of the files: headers and snapshot entries. The order of a file's parts, its checksums
//! and seals belong to whoever writes files.

use std::borrow::Cow;

use crate::StatPersisted;
use crate::record::record;

/// First four bytes of a transaction log: `ZKLG`.
pub const LOG_MAGIC: i32 = 0x5a4b_4c47;
/// First four bytes of a snapshot: `ZKSN`.
pub const SNAPSHOT_MAGIC: i32 = 0x5a4b_534e;
/// The version of both formats.
pub const FILE_VERSION: i32 = 2;

record! {
    /// The first 16 bytes of a log or a snapshot.
    pub struct FileHeader {
        /// [`LOG_MAGIC`] or [`SNAPSHOT_MAGIC`].
        pub magic: i32,
        /// [`FILE_VERSION`].
        pub version: i32,
        /// ZooKeeper writes 0 in logs and -1 in snapshots and never reads it.
        pub dbid: i64,
    }
}

record! {
    /// A session in a snapshot.
    pub struct SnapshotSession {
        /// The session id.
        pub id: i64,
        /// Its timeout in milliseconds.
        pub timeout_ms: i32,
    }
}

record! {
    /// A znode in a snapshot; its path stands before it.
    pub struct SnapshotNode<'a> {
        /// The data; null and empty differ.
        pub data: Option<Cow<'a, [u8]>>,
        /// Index into the snapshot's ACL table, or -1 for an open znode without an entry.
        pub acl: i64,
        /// The metadata.
        pub stat: StatPersisted,
    }
}

record! {
    /// The digest of the whole tree at a zxid.
    pub struct SnapshotDigest {
        /// The zxid of the tree that was summed up.
        pub zxid: i64,
        /// Version of the digest's algorithm, 2 today.
        pub version: i32,
        /// The wrapping sum of all znodes' digests.
        pub digest: i64,
    }
}
