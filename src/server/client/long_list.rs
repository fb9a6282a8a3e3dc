//! A list that is too long for one buffer, and the turns in which such lists are sent.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::unread::Claim;
use crate::engine::answer::listing::List;

/// Sending long lists takes this share of one thread's time, as a divisor: it costs those who read
/// them as much again.
const SENDING_SHARE: u32 = 4;
/// How much of that may be taken ahead.
const AHEAD: Duration = Duration::from_millis(1);

/// A list that is sent, to one client or to several.
#[derive(Debug)]
pub(in crate::server) struct LongList {
    list: List,
    /// What it takes of the memory for what clients have not read.
    _room: Option<Claim>,
}

impl LongList {
    pub(in crate::server) const fn new(list: List, room: Claim) -> Self {
        Self { list, _room: Some(room) }
    }

    #[cfg(test)]
    pub(super) fn of_a_megabyte() -> std::sync::Arc<Self> {
        use std::sync::Arc;

        use crate::engine::NodeId;
        use crate::engine::answer::listing::{Listing, Progress};
        use crate::engine::database::{Database, Rules};

        let mut database = Database::empty(1, Rules::default());
        let stat = jute::StatPersisted::default();
        let node = jute::persist::SnapshotNode { data: None, acl: -1, stat };
        for number in 0..100 {
            database.load_node(&format!("/{number:010000}"), &node).expect("a znode");
        }
        let listing = Listing::begin(&database, NodeId::ROOT);
        match listing.advance(&database, NodeId::ROOT, usize::MAX) {
            Progress::Done(list) => Arc::new(Self { list, _room: None }),
            other => panic!("{other:?}"),
        }
    }

    pub(in crate::server) const fn list(&self) -> &List {
        &self.list
    }

    pub(in crate::server) fn chunks(&self) -> &[Bytes] {
        self.list.chunks()
    }
}

/// Whose turn it is to send a piece of a long list.
#[derive(Debug)]
pub(in crate::server) struct Sending {
    /// When sending has had no more than its share again.
    rested: tokio::sync::Mutex<Instant>,
}

impl Sending {
    pub(in crate::server) fn new() -> Self {
        Self { rested: tokio::sync::Mutex::new(Instant::now()) }
    }

    /// Waits for the turn to send a piece, and sends it.
    pub(in crate::server) async fn send<T>(&self, send: impl FnOnce() -> T) -> T {
        let mut rested = self.rested.lock().await;
        if *rested > Instant::now() + AHEAD {
            tokio::time::sleep_until(*rested).await;
        }
        let began = Instant::now();
        let sent = send();
        *rested = rested.max(began) + began.elapsed() * SENDING_SHARE;
        sent
    }
}
