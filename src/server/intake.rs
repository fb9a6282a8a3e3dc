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
mod watch_again;
