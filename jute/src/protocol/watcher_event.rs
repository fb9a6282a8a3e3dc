//! Watch events.

use std::borrow::Cow;

use crate::record::record;

record! {
    /// What happened to a znode that a client watches.
    pub struct WatcherEvent<'a> {
        /// An [`EventType`].
        pub event_type: i32,
        /// A [`KeeperState`].
        pub state: i32,
        /// The changed znode.
        pub path: Cow<'a, str>,
    }
}

/// What happened (`Watcher.Event.EventType`), as far as servers send it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum EventType {
    /// The znode came into being.
    NodeCreated = 1,
    /// The znode is gone.
    NodeDeleted = 2,
    /// The znode's data changed.
    NodeDataChanged = 3,
    /// A child came or went.
    NodeChildrenChanged = 4,
}

impl EventType {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i32 {
        self as i32
    }
}

/// The state of the session as an event tells it; servers know only this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum KeeperState {
    /// Connected.
    SyncConnected = 3,
}

impl KeeperState {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i32 {
        self as i32
    }
}
