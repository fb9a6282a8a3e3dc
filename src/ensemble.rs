//! Who orders, and what makes an order final.
//!
//! A standalone server orders by itself: a transaction is final once its own disk has it. A
//! [`Member`] of an ensemble orders while the others have elected it, and a transaction is final
//! once a majority's disks have it. The applied state stands behind the one lock here, whoever
//! orders.

pub mod callers;
mod clients;
mod disk_room;
pub mod founding;
mod freshness;
mod from_peer;
mod held;
mod inquiry;
pub mod introduction;
mod life;
mod loader;
mod notices;
mod queue;
mod raft;
mod rebuild;
mod replica;
mod snapshots;
mod standalone;
pub mod standing;
mod steps;
mod ways;
mod words;

pub use self::raft::{
    Appended, Before, Consensus, DiskWriter, Ensemble, EnsembleError, FIRST_LIFE, FRAME_HEAD_LEN,
    FRAME_MAX, FrameError, KnownMembers, List, Member, MemberChange, Peer, PeerLog, PeerMessage,
    Promised, Requests, Said, SnapshotStatus, Started, Transport, Write, Written, founder_knows,
    is_bare_founding, member_id, of_line, parse_head, parse_said, put_said, server_of,
    snapshot_zxid, take_another_seat, take_seat_instead,
};
pub use clients::{Answer, Clients, RequestKind};
pub use disk_room::DiskSpace;
pub use freshness::Fresh;
pub use from_peer::{FromPeer, PeerRefused};
pub use inquiry::{EXPIRIES_AT_ONCE, Expiry, Inquiry, Scope};
pub use life::{Life, speaks_as, stood_still};
pub use queue::{Batch, Queue, Share, Submission};
pub use rebuild::{Rebuild, wrong_digest};
pub use replica::{Exclusive, Replica, Shared};
pub use snapshots::{Drift, Need, Snapshots, first_snapshot, write_walk};
pub use standalone::{GroupReport, OrderError, Standalone};
pub use words::{Forwarded, PeerWord, StreamId, TreeDigest, TreeVersion, Verdict};
