//! What a client is told without having asked: changes of znodes it watches, and changes of its
//! connection.

use std::fmt;

use jute::protocol::EventType;

/// `Watcher.Event.KeeperState`, as far as a client reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeeperState {
    Disconnected,
    SyncConnected,
    AuthFailed,
    ConnectedReadOnly,
    Expired,
    Closed,
}

/// `Watcher.Event.EventType`: the server's, and those that a client makes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    /// Only the connection changed.
    None,
    NodeCreated,
    NodeDeleted,
    NodeDataChanged,
    NodeChildrenChanged,
    DataWatchRemoved,
    ChildWatchRemoved,
    PersistentWatchRemoved,
}

impl EventKind {
    /// What a server's number means.
    pub(super) fn from_code(code: i32) -> Option<Self> {
        const SENT: [(EventType, EventKind); 4] = [
            (EventType::NodeCreated, EventKind::NodeCreated),
            (EventType::NodeDeleted, EventKind::NodeDeleted),
            (EventType::NodeDataChanged, EventKind::NodeDataChanged),
            (EventType::NodeChildrenChanged, EventKind::NodeChildrenChanged),
        ];
        SENT.iter().find(|(sent, _)| sent.code() == code).map(|(_, kind)| *kind)
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) state: KeeperState,
    pub(super) kind: EventKind,
    /// As it is shown, below the chroot; none for a change of the connection.
    pub(super) path: Option<String>,
    /// Of the change; -1 where it is not known.
    pub(super) zxid: i64,
}

impl Event {
    pub(super) fn of_connection(state: KeeperState) -> Self {
        Self { state, kind: EventKind::None, path: None, zxid: -1 }
    }
}

/// As Java prints a `WatchedEvent`.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_deref().unwrap_or("null");
        let Self { state, kind, zxid, .. } = self;
        write!(f, "WatchedEvent state:{state:?} type:{kind:?} path:{path} zxid: {zxid}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines are zkCli's.
    #[test]
    fn events_are_printed_as_java_prints_them() {
        let connected = Event::of_connection(KeeperState::SyncConnected);
        let line = "WatchedEvent state:SyncConnected type:None path:null zxid: -1";
        assert_eq!(connected.to_string(), line);
        let created = Event {
            state: KeeperState::SyncConnected,
            kind: EventKind::NodeCreated,
            path: Some("/last".to_owned()),
            zxid: 17,
        };
        let line = "WatchedEvent state:SyncConnected type:NodeCreated path:/last zxid: 17";
        assert_eq!(created.to_string(), line);
    }
}
