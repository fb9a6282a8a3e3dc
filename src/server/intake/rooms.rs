//! The rooms of the orderer's queue: what requests on their way to the orderer and through it may
//! take, in bytes.

use std::num::NonZeroU32;
use std::sync::Arc;

use jute::Acl;
use jute::protocol::{MultiOp, Request};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Config;
use crate::engine::access::acl::Identities;
use crate::planted;
use crate::server::memory;

/// Memory that requests may take on their way to the orderer and through it.
const ROOM_BYTES: u32 = 64 << 20;
/// What a request takes beside its frame.
const REQUEST_OVERHEAD: u32 = 512;
/// What a part of a multi or an entry of an ACL takes beside its bytes in the frame: decoded, in
/// the transaction and in the answer. One can have fewer than twenty bytes there.
const PART_OVERHEAD: usize = 128;
/// A request of more bytes than this is a large one.
pub(in crate::server) const SMALL_MAX: usize = 64 << 10;
/// Beside the room of requests there is this part of it for connect requests, as a divisor.
const CONNECTS_SHARE: u32 = 4;

/// Which of the rooms of the queue a request takes its share of. Each has its own, so that nobody
/// waits for room after those that ask for much more, or after all that come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum RoomOf {
    /// Requests.
    Small,
    /// Requests of more bytes than [`SMALL_MAX`].
    Large,
    /// Sessions that clients want to open or to go on with, and long setWatches.
    Connects,
}

/// What a request takes of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) struct QueueShare {
    pub(in crate::server) of: RoomOf,
    pub(in crate::server) bytes: u32,
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
pub(in crate::server) struct Rooms {
    small: Room,
    large: Room,
    connects: Room,
    /// How many requests may be on their way at once.
    most: u32,
}

impl Rooms {
    /// Half of the queue's bound each for small requests and for large ones. Those that connect
    /// have a room beside.
    pub(in crate::server) fn new(config: &Config) -> Self {
        let bytes = bound(config);
        let Config { global_outstanding_limit, throttle, .. } = config;
        Self {
            most: most_requests(*global_outstanding_limit, throttle.max_requests),
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
    pub(in crate::server) async fn take(&self, share: QueueShare) -> Option<OwnedSemaphorePermit> {
        // They are never closed.
        Arc::clone(&self.of(share.of).permits).acquire_many_owned(share.bytes).await.ok()
    }

    /// A share, if there is room for it now.
    pub(in crate::server) fn try_take(&self, share: QueueShare) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.of(share.of).permits).try_acquire_many_owned(share.bytes).ok()
    }

    /// The share of a request that takes so many bytes, with those of the identities that go with
    /// it: at least as much as keeps the number of requests within its limits.
    pub(in crate::server) fn share_of_request(&self, bytes: usize) -> QueueShare {
        self.share_of(if bytes > SMALL_MAX { RoomOf::Large } else { RoomOf::Small }, bytes)
    }

    /// The share of a connect request: there is room for one in any case.
    pub(in crate::server) fn connect_share(
        &self,
        frame_len: usize,
        identities: &Identities,
    ) -> QueueShare {
        self.share_of(RoomOf::Connects, frame_len.saturating_add(identities.bytes()))
    }

    /// The share of so many bytes in a room, of which there are as many as there may be requests,
    /// or a quarter as many that connect.
    pub(in crate::server) fn share_of(&self, of: RoomOf, bytes: usize) -> QueueShare {
        let most = match of {
            RoomOf::Small | RoomOf::Large => self.most,
            RoomOf::Connects => (self.most / CONNECTS_SHARE).max(1),
        };
        QueueShare { of, bytes: weight(self.of(of).bytes, most, bytes) }
    }
}

/// The queue's bound in bytes: enough for any frame, a few at a time.
fn bound(config: &Config) -> u32 {
    let largest = config.jute_max_buffer.saturating_add(REQUEST_OVERHEAD);
    memory::requests_limit(config, ROOM_BYTES).max(largest.saturating_mul(4))
}

/// What a request takes that came in a frame of this length, in bytes.
pub(in crate::server) fn request_bytes(request: &Request<'_>, frame_len: usize) -> usize {
    frame_len.saturating_add(parts(request).saturating_mul(PART_OVERHEAD))
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
    let outstanding = if planted::is("outstanding-unlimited") { u32::MAX } else { outstanding };
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
