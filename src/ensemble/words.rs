//! What members tell each other beside Raft's messages: what a follower's clients ask, what the
//! leader decides of it, and whom it heard of.
//!
//! Between two members words keep their order among themselves and towards Raft's messages, or the
//! receiver learns that something was lost. So a verdict comes before the transaction that it
//! speaks of.

use jute::ErrorCode;
use jute::txn::DIGEST_VERSION;

use crate::engine::apply::APPLY_VERSION;
use crate::engine::decide::request::{Origin, Work};
use crate::engine::session::SessionId;
use crate::engine::watch::ConnectionId;
use crate::engine::zxid::Zxid;
use crate::ensemble::disk_room::DiskSpace;
use crate::ensemble::snapshots::Need;

/// The requests of one follower to one leader, from when they have each other until one loses the
/// other. A follower never uses a number again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// What one member tells another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerWord {
    /// From a follower: what its clients ask, in their order.
    Forwarded {
        /// In which stream.
        stream: StreamId,
        /// Requests of the stream before these.
        first: u64,
        /// Who, and for what.
        requests: Vec<Forwarded>,
    },
    /// From the leader: what it decided, in the order of the requests.
    Decided {
        /// Of which stream.
        stream: StreamId,
        /// Verdicts of the stream before these.
        first: u64,
        /// One for each request.
        verdicts: Vec<Verdict>,
    },
    /// From one who was asked and does not lead: these requests, the first of the stream without a
    /// verdict, get none. Another one may be asked.
    Ended {
        /// The stream.
        stream: StreamId,
        /// The requests.
        returned: Vec<Forwarded>,
    },
    /// From a follower: sessions of its clients that showed signs of life.
    Heard(Vec<SessionId>),
    /// From the leader: connections that have lost their session to another.
    Disowned(Vec<ConnectionId>),
    /// From a follower: what it needs of snapshots.
    Snapshot(Need),
    /// From a follower: what room the disk of its log has. From the leader to who said so: the room
    /// that there is for what it decides.
    Room(DiskSpace),
    /// From a follower: the servers that its configuration lists.
    Listed(Vec<u8>),
    /// From a member: a client of its wants the list of servers changed.
    ChangeList {
        /// The member's own for it.
        number: u64,
        /// Who, and to what.
        asked: Forwarded,
    },
    /// From the leader: what becomes of that.
    ListDecided {
        /// The member's for it.
        number: u64,
        /// A transaction, a refusal, or that the client has to go.
        verdict: Verdict,
    },
    /// From the leader: it is the other one's turn to take a snapshot, if it needs one.
    TakeSnapshot,
    /// From the leader: what its tree is after a transaction. From a follower that was told so:
    /// what its own is there.
    Tree(TreeDigest),
    /// From the leader: the follower's tree is wrong; the right one is this after a transaction.
    WrongTree(TreeDigest),
}

/// A sum over the whole tree after a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeDigest {
    /// The transaction.
    pub zxid: Zxid,
    /// How it is made.
    pub version: TreeVersion,
    /// The sum.
    pub digest: i64,
}

/// How the digest of a tree comes about: what is summed up, and what is made of a transaction. Two
/// of different versions say nothing about each other. A release that does not know of the second
/// has 0 there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeVersion(pub i32);

impl TreeVersion {
    /// That of this release.
    pub const OWN: Self = Self(DIGEST_VERSION | (APPLY_VERSION as i32) << 16);
}

impl PeerWord {
    /// Whether who says it waits for an answer.
    #[must_use]
    pub const fn wants_answer(&self) -> bool {
        matches!(self, Self::Forwarded { .. } | Self::ChangeList { .. })
    }

    /// The first version of the members' protocol that has this word: nobody who speaks an earlier
    /// one may be told it.
    #[must_use]
    pub const fn since_version(&self) -> u32 {
        match self {
            Self::Forwarded { .. }
            | Self::Decided { .. }
            | Self::Ended { .. }
            | Self::Heard(_)
            | Self::Disowned(_)
            | Self::Snapshot(_)
            | Self::Room(_)
            | Self::Listed(_)
            | Self::TakeSnapshot => 1,
            Self::Tree(_) | Self::WrongTree(_) => 2,
            Self::ChangeList { .. } | Self::ListDecided { .. } => 7,
        }
    }
}

/// A request of a follower's client. When it came in is of no interest elsewhere, and its length is
/// that of what is heard.
#[derive(Debug, Clone)]
pub struct Forwarded {
    /// Who.
    pub origin: Origin,
    /// For what.
    pub work: Work,
    /// Bytes that came for it, with the identities that go with it.
    pub len: usize,
}

impl PartialEq for Forwarded {
    fn eq(&self, other: &Self) -> bool {
        let who = |asked: &Self| {
            let Origin { connection, session, xid, .. } = asked.origin;
            (connection, session, xid)
        };
        who(self) == who(other)
            && self.origin.identities == other.origin.identities
            && self.work == other.work
    }
}

impl Eq for Forwarded {}

/// What a leader decided of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is this transaction.
    Txn(Zxid),
    /// As [`Self::Txn`]; it opens a session.
    Open {
        /// The transaction.
        zxid: Zxid,
        /// The session.
        session: SessionId,
        /// Its timeout.
        timeout_ms: i32,
    },
    /// To be answered from the tree, once this transaction is in it.
    Read(Zxid),
    /// Refused, once this transaction is in the tree: it was checked against that.
    Refused(Zxid, ErrorCode),
    /// As [`Self::Refused`], for a multi: the codes of its parts.
    RefusedMulti(Zxid, Vec<i32>),
    /// The session is the connection's.
    Attached {
        /// The session.
        session: SessionId,
        /// Its timeout.
        timeout_ms: i32,
    },
    /// There is no such session.
    NoSession,
    /// The connection has to go: its session is another's, or no more.
    Close,
}
