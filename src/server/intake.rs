//! What clients send: taking connections, reading frames, and answering them or handing them to the
//! orderer.

pub(super) mod connection_throttle;
pub(super) mod drive;
mod inbox;
pub(super) mod large_requests;
pub(super) mod listener;
pub(super) mod listings;
mod watch_again;
