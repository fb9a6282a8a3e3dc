//! The headers of requests and replies.

use crate::record::record;

record! {
    /// Stands before every request but the first.
    pub struct RequestHeader {
        /// The client's number for the request, echoed in the reply.
        pub xid: i32,
        /// The operation, an [`OpCode`](crate::OpCode) or a number that is none.
        pub op: i32,
    }
}

record! {
    /// Stands before every reply but the first. A body follows only where `err` is 0.
    pub struct ReplyHeader {
        /// The request's xid, or one of [`xid`].
        pub xid: i32,
        /// The last zxid applied when the reply was made.
        pub zxid: i64,
        /// 0 or an [`ErrorCode`](crate::ErrorCode).
        pub err: i32,
    }
}

/// Xids with a meaning of their own.
pub mod xid {
    /// A watch event.
    pub const NOTIFICATION: i32 = -1;
    /// A ping, whatever xid its request had.
    pub const PING: i32 = -2;
    /// What clients put into auth packets.
    pub const AUTH: i32 = -4;
    /// What clients put into setWatches.
    pub const SET_WATCHES: i32 = -8;
}
