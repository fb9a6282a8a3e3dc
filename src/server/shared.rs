//! What all connections of a server share.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use jute::Acl;
use jute::protocol::{MultiOp, Request};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::client::audit::Audit;
use super::client::connections::Connections;
use super::client::ended::Ended;
use super::client::password::Passwords;
use super::clock::Clock;
use super::figures::stats::Stats;
use super::intake::connection_throttle::ConnectionThrottle;
use super::intake::large_requests::LargeRequests;
use super::intake::listings::Listings;
use super::memory;
use super::operator::inventory::Inventories;
use crate::config::{Config, SessionsLive};
use crate::engine::access::acl::Identities;
use crate::engine::zxid::Zxid;
use crate::ensemble::{Queue, Replica};
use crate::storage::DataDirectory;

/// Memory that requests may take on their way to the orderer and through it.
const ROOM_BYTES: u32 = 64 << 20;
/// What a request takes beside its frame.
const REQUEST_OVERHEAD: u32 = 512;
/// What a part of a multi or an entry of an ACL takes beside its bytes in the frame: decoded, in
/// the transaction and in the answer. One can have fewer than twenty bytes there.
const PART_OVERHEAD: usize = 128;
/// A request of more bytes than this is a large one.
pub(super) const SMALL_MAX: usize = 64 << 10;
/// Beside the room of requests there is this part of it for connect requests, as a divisor.
const CONNECTS_SHARE: u32 = 4;

/// What a server is in its ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Role {
    /// It has none.
    Standalone,
    /// It has none, and serves no clients: its data is being read.
    Reading,
    /// Nobody leads: it serves no clients.
    None,
    Leader,
    Follower,
    Observer,
}

impl Role {
    const ALL: [Self; 6] =
        [Self::Standalone, Self::Reading, Self::None, Self::Leader, Self::Follower, Self::Observer];
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standalone | Self::Reading => "standalone",
            Self::None => "none",
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Observer => "observer",
        })
    }
}

/// The role that a server has now.
#[derive(Debug)]
pub(super) struct CurrentRole(AtomicU8);

impl CurrentRole {
    pub(super) const fn new(role: Role) -> Self {
        Self(AtomicU8::new(role as u8))
    }

    pub(super) fn get(&self) -> Role {
        let role = usize::from(self.0.load(Ordering::Acquire));
        Role::ALL.get(role).copied().unwrap_or(Role::None)
    }

    /// Whoever sees it sees what was done before: a server that begins to serve has what it read.
    pub(super) fn set(&self, role: Role) {
        self.0.store(role as u8, Ordering::Release);
    }
}

/// What a member of an ensemble sees of the others.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Servers that vote, this one too if it does.
    pub(super) voters: AtomicU32,
    /// Why it belongs to no ensemble yet, as long as it waits for one, or why that has no leader,
    /// where too few answer or nobody has any data of it.
    pub(super) waits_for: Mutex<Option<String>>,
    /// Whether this server is listed as a voter and only follows so far.
    pub(super) lacks_vote: AtomicBool,
    /// Who is known to lead.
    pub(super) leader: Mutex<Option<u8>>,
    /// Voters and observers that answered this server lately, if it leads.
    pub(super) followers: AtomicU32,
    pub(super) observers: AtomicU32,
    /// Which observers those are.
    pub(super) observers_there: Mutex<Vec<u8>>,
    /// Requests that wait for a `sync`, if it leads.
    pub(super) pending_syncs: AtomicU32,
    /// Sessions that live on this server only.
    pub(super) local_sessions: AtomicU64,
    /// When this server began to lead.
    pub(super) leads_since: AtomicU64,
}

/// Which of the rooms of the queue a request takes its share of. Each has its own, so that nobody
/// waits for room after those that ask for much more, or after all that come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RoomOf {
    /// Requests.
    Small,
    /// Requests of more bytes than [`SMALL_MAX`].
    Large,
    /// Sessions that clients want to open or to go on with, and long setWatches.
    Connects,
}

/// What a request takes of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueueShare {
    pub(super) of: RoomOf,
    pub(super) bytes: u32,
}

/// One of the rooms.
#[derive(Debug)]
struct Room {
    bytes: u32,
    permits: Arc<Semaphore>,
}

impl Room {
    fn new(bytes: u32) -> Self {
        Self { bytes, permits: Arc::new(Semaphore::new(bytes as usize)) }
    }
}

/// The rooms, whose permits are bytes.
#[derive(Debug)]
pub(super) struct Rooms {
    small: Room,
    large: Room,
    connects: Room,
}

impl Rooms {
    /// Of a bound of so many bytes: half each for small requests and for large ones. Those that
    /// connect have a room beside.
    pub(super) fn new(bytes: u32) -> Self {
        Self {
            small: Room::new(bytes / 2),
            large: Room::new(bytes / 2),
            connects: Room::new(bytes / CONNECTS_SHARE),
        }
    }

    const fn of(&self, of: RoomOf) -> &Room {
        match of {
            RoomOf::Small => &self.small,
            RoomOf::Large => &self.large,
            RoomOf::Connects => &self.connects,
        }
    }

    /// A share, once there is room for it.
    pub(super) async fn take(&self, share: QueueShare) -> Option<OwnedSemaphorePermit> {
        // They are never closed.
        Arc::clone(&self.of(share.of).permits).acquire_many_owned(share.bytes).await.ok()
    }

    /// A share, if there is room for it now.
    pub(super) fn try_take(&self, share: QueueShare) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.of(share.of).permits).try_acquire_many_owned(share.bytes).ok()
    }

    /// All bytes of one of them.
    pub(super) const fn bytes(&self, of: RoomOf) -> u32 {
        self.of(of).bytes
    }
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) replica: Arc<Replica>,
    pub(super) queue: Arc<Queue>,
    /// The bounds of the queue.
    pub(super) rooms: Rooms,
    /// The bound of the large ones among them, if they have one.
    pub(super) large_requests: Option<LargeRequests>,
    /// Long listings, one at a time.
    pub(super) listings: Listings,
    /// What monitoring lists, one of a kind at a time.
    pub(super) inventories: Inventories,
    pub(super) connections: Arc<Connections>,
    pub(super) ended: Ended,
    pub(super) connection_throttle: ConnectionThrottle,
    pub(super) passwords: Arc<Passwords>,
    /// Where changes are written down, if they are.
    pub(super) audit: Option<Arc<Audit>>,
    pub(super) stats: Arc<Stats>,
    /// When the orderer began the group that it is at; 0 between two.
    pub(super) group_began: AtomicU64,
    pub(super) directory: Arc<DataDirectory>,
    pub(super) role: CurrentRole,
    /// Why nobody gets a session, if that is for want of room on the disks of logs.
    pub(super) short_disk: Mutex<Option<&'static str>>,
    pub(super) others: Others,
    /// Cancelled when the server ends.
    pub(super) ending: CancellationToken,
    /// What `stmk` set and `gtmk` shows; it has no other meaning here.
    pub(super) trace_mask: AtomicI64,
}

impl Server {
    /// Whether it has clients in a role: without a leader it has none, and a leader may leave them
    /// to the others.
    pub(super) fn serves_as(&self, role: Role) -> bool {
        let ensemble = self.config.ensemble.as_ref();
        match role {
            Role::None | Role::Reading => false,
            Role::Leader => ensemble.is_none_or(|ensemble| ensemble.leader_serves),
            Role::Standalone | Role::Follower | Role::Observer => true,
        }
    }

    /// Whether it has clients now.
    pub(super) fn serves(&self) -> bool {
        self.serves_as(self.role.get())
    }

    /// Whether nothing was read yet, as far as can be told: who may do what is not known then.
    pub(super) fn knows_nothing(&self) -> bool {
        !self.serves() && self.replica.applied() == Zxid::ZERO
    }

    /// Waits until what is read is young enough to be told: for a round of the ensemble. False if
    /// it is not for longer than `syncLimit`.
    pub(super) async fn round(&self) -> bool {
        let limit = Duration::from_millis(self.replica.age_limit_ms());
        let round = async {
            loop {
                let renewed = self.replica.renewed();
                self.queue.want_round();
                if self.replica.is_fresh(self.clock.monotonic()) {
                    return;
                }
                renewed.await;
            }
        };
        tokio::time::timeout(limit, round).await.is_ok()
    }

    /// Takes no more requests and answers those that it has.
    pub(super) fn end(&self) {
        if let Some(audit) = &self.audit {
            audit.stopping();
        }
        self.ending.cancel();
        self.queue.end();
    }

    /// Requests with the orderer.
    pub(super) fn outstanding(&self) -> usize {
        let mut all = 0;
        self.connections.each(|connection| all += connection.in_flight());
        all
    }

    /// Whether new sessions live on this server only.
    pub(super) fn sessions_live_here(&self) -> bool {
        let ensemble = self.config.ensemble.as_ref();
        ensemble.is_some_and(|ensemble| matches!(ensemble.sessions, SessionsLive::Here { .. }))
    }

    /// The queue's bound in bytes: enough for any frame, a few at a time.
    pub(super) fn room_bytes(config: &Config) -> u32 {
        let largest = config.jute_max_buffer.saturating_add(REQUEST_OVERHEAD);
        memory::requests_limit(config, ROOM_BYTES).max(largest.saturating_mul(4))
    }

    /// The share of a request that takes so many bytes, with those of the identities that go with
    /// it: at least as much as keeps the number of requests within its limits.
    pub(super) fn share_of_request(&self, bytes: usize) -> QueueShare {
        self.share_of(if bytes > SMALL_MAX { RoomOf::Large } else { RoomOf::Small }, bytes)
    }

    /// The share of a connect request: there is room for one in any case.
    pub(super) fn connect_share(&self, frame_len: usize, identities: &Identities) -> QueueShare {
        self.share_of(RoomOf::Connects, frame_len.saturating_add(identities.bytes()))
    }

    /// The share of so many bytes in a room, of which there are as many as there may be requests,
    /// or a quarter as many that connect.
    pub(super) fn share_of(&self, of: RoomOf, bytes: usize) -> QueueShare {
        let Config { global_outstanding_limit, throttle, .. } = &self.config;
        let most = most_requests(*global_outstanding_limit, throttle.max_requests);
        let most = match of {
            RoomOf::Small | RoomOf::Large => most,
            RoomOf::Connects => (most / CONNECTS_SHARE).max(1),
        };
        QueueShare { of, bytes: weight(self.rooms.bytes(of), most, bytes) }
    }

    /// What a request takes that came in a frame of this length, in bytes.
    pub(super) fn request_bytes(request: &Request<'_>, frame_len: usize) -> usize {
        frame_len.saturating_add(parts(request).saturating_mul(PART_OVERHEAD))
    }
}

/// The parts of a multi, and entries of ACLs.
fn parts(request: &Request<'_>) -> usize {
    let entries = |acl: &Option<Vec<Acl<'_>>>| acl.as_ref().map_or(0, Vec::len);
    match request {
        Request::Create(create) | Request::Create2(create) | Request::CreateContainer(create) => {
            entries(&create.acl)
        }
        Request::CreateTtl(create) => entries(&create.acl),
        Request::SetAcl(set) => entries(&set.acl),
        Request::Multi(ops) => {
            let entries = |op: &MultiOp<'_>| match op {
                MultiOp::Create(create)
                | MultiOp::Create2(create)
                | MultiOp::CreateContainer(create) => entries(&create.acl),
                MultiOp::CreateTtl(create) => entries(&create.acl),
                _ => 0,
            };
            ops.len() + ops.iter().map(entries).sum::<usize>()
        }
        _ => 0,
    }
}

/// How many requests may be on their way at once: `globalOutstandingLimit` or
/// `request_throttle_max_requests`.
fn most_requests(outstanding: u32, max_requests: Option<NonZeroU32>) -> u32 {
    outstanding.min(max_requests.map_or(u32::MAX, NonZeroU32::get)).max(1)
}

/// Of `room` bytes in which at most so many requests have place, the share of one.
fn weight(room: u32, most_requests: u32, frame_len: usize) -> u32 {
    let bytes = u32::try_from(frame_len).unwrap_or(u32::MAX).saturating_add(REQUEST_OVERHEAD);
    bytes.max(room / most_requests).min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_requests_have_place_than_there_may_be() {
        for most in [1, 2, 3, 10, 1000] {
            assert_eq!(ROOM_BYTES / weight(ROOM_BYTES, most, 0), most);
        }
        // Large ones are fewer.
        assert_eq!(weight(ROOM_BYTES, 1000, 1 << 20), (1 << 20) + REQUEST_OVERHEAD);
        assert_eq!(weight(1 << 10, 1, 1 << 20), 1 << 10);
    }

    #[test]
    fn the_lesser_of_both_limits_counts() {
        for (outstanding, max, most) in
            [(1000, 0, 1000), (1000, 7, 7), (1000, 2000, 1000), (5, 7, 5), (0, 0, 1)]
        {
            assert_eq!(most_requests(outstanding, NonZeroU32::new(max)), most);
        }
    }
}
