//! The two forms of a znode's metadata: what a client sees and what a snapshot keeps.

use crate::record::record;

record! {
    /// What a client sees of a znode's metadata (68 bytes). Zxids are transaction ids, times
    /// milliseconds since the epoch.
    #[derive(Default)]
    pub struct Stat {
        /// Zxid of the create.
        pub czxid: i64,
        /// Zxid of the last change of the data.
        pub mzxid: i64,
        /// Time of the create.
        pub ctime: i64,
        /// Time of the last change of the data.
        pub mtime: i64,
        /// Number of changes of the data, from 0.
        pub version: i32,
        /// Number of changes of the children: twice the creates less the living children.
        pub cversion: i32,
        /// Number of changes of the ACL.
        pub aversion: i32,
        /// The owning session of an ephemeral znode, else 0; container and TTL marks are hidden.
        pub ephemeral_owner: i64,
        /// Bytes of data; 0 for null.
        pub data_length: i32,
        /// Living children.
        pub num_children: i32,
        /// Zxid of the last create or delete of a child.
        pub pzxid: i64,
    }
}

record! {
    /// What a snapshot keeps of a znode's metadata (60 bytes).
    #[derive(Default)]
    pub struct StatPersisted {
        /// Zxid of the create.
        pub czxid: i64,
        /// Zxid of the last change of the data.
        pub mzxid: i64,
        /// Time of the create.
        pub ctime: i64,
        /// Time of the last change of the data.
        pub mtime: i64,
        /// Number of changes of the data.
        pub version: i32,
        /// Number of creates below the znode: the sequence counter.
        pub cversion: i32,
        /// Number of changes of the ACL.
        pub aversion: i32,
        /// The owning session, or a container or TTL mark.
        pub ephemeral_owner: i64,
        /// Zxid of the last create or delete of a child.
        pub pzxid: i64,
    }
}
