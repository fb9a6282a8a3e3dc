//! What comes to a member from the others: what they say, and what is known of the way to them.

use tokio::sync::oneshot;

use super::founding::{Applicant, FoundingAnswer};
use super::raft::{PeerMessage, Said, SnapshotStatus};
use crate::storage::ReceivedSnapshot;

/// Something from another member, or about the way to it.
#[derive(Debug)]
pub enum FromPeer {
    /// It said this.
    Said(u64, Said),
    /// What it says arrives from here on, or does not any more.
    Hears(u64, bool),
    /// It can be told something from here on, or cannot any more.
    Speaks(u64, bool),
    /// A snapshot came from it, with its message.
    Snapshot(PeerMessage, ReceivedSnapshot),
    /// What came of a snapshot that was sent to it.
    SnapshotSent(u64, SnapshotStatus),
    /// It refuses this process for good.
    Refused(PeerRefused),
    /// A server has answered its founder, this one.
    Answered(u8),
    /// A server without a state wants to belong to the ensemble.
    Seat(Applicant, oneshot::Sender<FoundingAnswer>),
}

/// Why a member may not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerRefused {
    /// Its directory is an older copy of this member's.
    Older,
    /// Another process has its place.
    Replaced,
    /// It was taken out of the ensemble.
    Removed,
}
