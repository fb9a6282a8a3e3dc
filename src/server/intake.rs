//! What clients send: taking connections, reading frames, and answering them or handing them to the
//! orderer.

mod answers;
pub(super) mod connection_throttle;
pub(super) mod drive;
mod frames;
mod inbox;
pub(super) mod large_requests;
pub(super) mod listener;
pub(super) mod listings;
mod requests;
mod rooms;
mod watch_again;

use std::sync::Arc;

use self::connection_throttle::ConnectionThrottle;
use self::large_requests::LargeRequests;
use self::listings::Listings;
use self::rooms::Rooms;
use super::clock::Clock;
use crate::config::Config;
use crate::ensemble::Queue;
use crate::planted;

/// What requests pass on their way to the orderer.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) queue: Arc<Queue>,
    /// The bounds of the queue.
    pub(super) rooms: Rooms,
    /// The bound of the large ones among them, if they have one.
    pub(super) large_requests: Option<LargeRequests>,
    pub(super) connection_throttle: ConnectionThrottle,
    /// Long listings, one at a time.
    pub(super) listings: Listings,
}

impl Intake {
    pub(super) fn new(queue: Arc<Queue>, config: &Config, clock: Clock) -> Self {
        let large = config.throttle.large_requests.filter(|_| !planted::is("large-requests-off"));
        Self {
            queue,
            rooms: Rooms::new(config),
            large_requests: large.map(LargeRequests::new),
            connection_throttle: ConnectionThrottle::new(
                config.throttle.connections,
                clock.monotonic(),
            ),
            listings: Listings::new(),
        }
    }
}
