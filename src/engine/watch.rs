//! Watches: who wants to hear of which path (`WatchManager`).

mod registry;
mod watchers;

use std::sync::Arc;

use foldhash::fast::FoldHasher;
use jute::ErrorCode;
use jute::protocol::{AddWatchMode, EventType, WatcherType};

use self::registry::Registry;
pub use self::registry::{WatchPair, WatchPlace};
use super::access::acl::AclList;
use super::lineage::PathKey;
use super::zxid::Zxid;

/// A client connection. A watch belongs to one, and goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

impl ConnectionId {
    /// Bits that count the connections of one server.
    const NUMBER_BITS: u32 = 48;

    /// A connection of the server with this id; `number` is below 2^48.
    #[must_use]
    pub const fn on(server: u8, number: u64) -> Self {
        Self((server as u64) << Self::NUMBER_BITS | number)
    }

    /// The id of the server that has the connection.
    #[must_use]
    pub const fn server(self) -> u8 {
        (self.0 >> Self::NUMBER_BITS) as u8
    }
}

/// Something that watchers are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Who, without repetition.
    pub receivers: Vec<ConnectionId>,
    /// What happened.
    pub event_type: EventType,
    /// To which znode.
    pub path: Arc<str>,
    /// By which transaction; -1 for what setWatches catches up on.
    pub zxid: Zxid,
    /// Receivers without READ by this list are not told; `None` where anyone may read.
    pub readers: Option<AclList>,
}

/// Whoever takes events as they come about. Those of one transaction can be longer than memory.
pub trait Tell {
    /// Takes the next one.
    fn tell(&mut self, event: Event);
}

impl Tell for Vec<Event> {
    fn tell(&mut self, event: Event) {
        self.push(event);
    }
}

/// The zxid of an event that no transaction of this moment caused.
pub const CATCH_UP: Zxid = Zxid(-1);

/// How a connection watches a path: a set of three bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Modes(pub(super) u8);

impl Modes {
    /// None of them.
    pub(super) const NONE: Self = Self(0);
    /// Fires once.
    pub(super) const STANDARD: Self = Self(1);
    /// Stays.
    pub(super) const PERSISTENT: Self = Self(2);
    /// Stays, and sees everything below.
    pub(super) const RECURSIVE: Self = Self(4);
    /// All of them.
    pub(super) const ANY: Self = Self(7);

    pub(super) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// There is no memory for another watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

impl From<NoRoom> for ErrorCode {
    /// What a write is refused by that there is no room for: the client may try again, here or
    /// elsewhere.
    fn from(NoRoom: NoRoom) -> Self {
        Self::OperationTimeout
    }
}

/// All watches of a server.
#[derive(Debug)]
pub struct WatchTable {
    data: Registry,
    child: Registry,
    /// Bytes that they may take.
    most: usize,
}

impl WatchTable {
    /// None. `seed` makes hashes unpredictable.
    pub(super) fn new(seed: u64) -> Self {
        Self { data: Registry::new(seed), child: Registry::new(seed), most: usize::MAX }
    }

    /// About how many bytes of memory all of them take.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.data.bytes() + self.child.bytes()
    }

    /// Says how many bytes they may take from here on. Those that there are stay.
    pub const fn set_most(&mut self, bytes: usize) {
        self.most = bytes;
    }

    /// Leaves a one-shot watch on data and existence.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn watch_data(&mut self, path: &str, connection: ConnectionId) -> Result<(), NoRoom> {
        self.leave(path, connection, Modes::STANDARD, Modes::NONE)
    }

    /// Leaves a one-shot watch on the children.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn watch_children(&mut self, path: &str, connection: ConnectionId) -> Result<(), NoRoom> {
        self.leave(path, connection, Modes::NONE, Modes::STANDARD)
    }

    /// Leaves a persistent watch. A recursive one sees no change of children as such: it sees the
    /// children.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn add(
        &mut self,
        path: &str,
        connection: ConnectionId,
        mode: AddWatchMode,
    ) -> Result<(), NoRoom> {
        match mode {
            AddWatchMode::Persistent => {
                self.leave(path, connection, Modes::PERSISTENT, Modes::PERSISTENT)
            }
            AddWatchMode::PersistentRecursive => {
                self.leave(path, connection, Modes::RECURSIVE, Modes::NONE)
            }
        }
    }

    /// Adds modes to the connection's watches of a path in the data and in the child registry, or
    /// to none.
    fn leave(
        &mut self,
        path: &str,
        connection: ConnectionId,
        data: Modes,
        child: Modes,
    ) -> Result<(), NoRoom> {
        let left = self.most.saturating_sub(self.bytes());
        let one = Registry::bytes_of(path);
        if left < 2 * one {
            let is_new = |registry: &Registry, modes: Modes| {
                !modes.is_empty() && registry.modes(path, connection).is_empty()
            };
            let new =
                usize::from(is_new(&self.data, data)) + usize::from(is_new(&self.child, child));
            if left < new * one {
                return Err(NoRoom);
            }
        }
        for (registry, modes) in [(&mut self.data, data), (&mut self.child, child)] {
            if !modes.is_empty() {
                registry.add(path, connection, modes);
            }
        }
        Ok(())
    }

    /// Whether the connection has such a watch.
    #[must_use]
    pub fn contains(&self, path: &str, connection: ConnectionId, kind: WatcherType) -> bool {
        let (data, child) = Self::modes_of(kind);
        self.data.modes(path, connection).has(data) || self.child.modes(path, connection).has(child)
    }

    /// Takes such watches away; whether there were any.
    pub fn remove(&mut self, path: &str, connection: ConnectionId, kind: WatcherType) -> bool {
        let (data, child) = Self::modes_of(kind);
        let from_data = self.data.remove(path, connection, data);
        self.child.remove(path, connection, child) || from_data
    }

    /// The modes in the data and in the child registry that a watcher type speaks of.
    const fn modes_of(kind: WatcherType) -> (Modes, Modes) {
        match kind {
            WatcherType::Children => (Modes::NONE, Modes::STANDARD),
            WatcherType::Data => (Modes::STANDARD, Modes::NONE),
            WatcherType::Any => (Modes::ANY, Modes::ANY),
            WatcherType::Persistent => (Modes::PERSISTENT, Modes::PERSISTENT),
            WatcherType::PersistentRecursive => (Modes::RECURSIVE, Modes::RECURSIVE),
        }
    }

    /// Takes away every watch of a connection that is gone.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.forget_some(connection, usize::MAX);
    }

    /// Takes away as many of them as `most` covers of what their paths cost, or little more;
    /// whether there are more.
    pub fn forget_some(&mut self, connection: ConnectionId, most: usize) -> bool {
        let mut left = most;
        let is_over = self.data.forget(connection, &mut left);
        !(self.child.forget(connection, &mut left) && is_over)
    }

    /// Watches, over both kinds.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.data.count() + self.child.count()
    }

    /// Connections, paths and watches on data: what `wchs` counts.
    #[must_use]
    pub fn data_summary(&self) -> (usize, usize, usize) {
        (self.data.connections(), self.data.paths(), self.data.count())
    }

    /// Where a walk over watches on data begins.
    #[must_use]
    pub fn begin_data_walk(&self) -> WatchPlace {
        self.data.begin_walk()
    }

    /// Looks at watches on data from a place on, path by path, until `each` has had enough or so
    /// many were looked at. Gives where to go on; nothing at the end.
    pub fn walk_data(
        &self,
        from: WatchPlace,
        most: usize,
        each: impl FnMut(WatchPair, &str, ConnectionId) -> bool,
    ) -> Option<WatchPlace> {
        self.data.walk(from, most, each)
    }

    /// Who watches which path by a pair that such a walk came by, if they still do.
    #[must_use]
    pub fn data_watch(&self, pair: WatchPair) -> Option<(ConnectionId, &str)> {
        self.data.watch_of(pair)
    }

    /// Where the hash of a path begins.
    pub(super) fn hasher(&self) -> FoldHasher<'static> {
        self.data.hasher()
    }

    /// Whether anybody may have to be told that a znode is gone, by its own path and by that of its
    /// parent. It can seem so where nobody has.
    pub(super) fn may_tell(&self, node: PathKey<'_>, parent: PathKey<'_>) -> bool {
        self.data.may_watch(node) || self.child.may_watch(node) || self.child.may_watch(parent)
    }

    /// Whether anybody may have to be told of whatever changes below a path.
    pub(super) fn may_see_below(&self, key: PathKey<'_>) -> bool {
        self.data.may_see_below(key)
    }

    /// A znode came into being.
    pub fn created(&mut self, change: &Change<'_>, events: &mut dyn Tell) {
        let receivers = self.data.trigger(change.path);
        change.tell(receivers, EventType::NodeCreated, events);
        self.children_changed(change, events);
    }

    /// A znode is gone. A connection that watched both its data and its children hears of it once.
    pub fn deleted(&mut self, change: &Change<'_>, events: &mut dyn Tell) {
        let mut receivers = self.data.trigger(change.path);
        receivers.extend(self.child.trigger(change.path));
        receivers.sort_unstable();
        receivers.dedup();
        change.tell(receivers, EventType::NodeDeleted, events);
        self.children_changed(change, events);
    }

    /// A znode's data changed.
    pub fn data_changed(&mut self, change: &Change<'_>, events: &mut dyn Tell) {
        let receivers = self.data.trigger(change.path);
        change.tell(receivers, EventType::NodeDataChanged, events);
    }

    fn children_changed(&mut self, change: &Change<'_>, events: &mut dyn Tell) {
        if self.child.paths() == 0 {
            return;
        }
        let Some((parent, _)) = change.path.rsplit_once('/') else { return };
        let parent = super::path::canonical(parent);
        let receivers = self.child.trigger(parent);
        let change = Change { path: parent, readers: change.parent_readers, ..*change };
        change.tell(receivers, EventType::NodeChildrenChanged, events);
    }
}

/// A change of a znode, as watchers see it.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The znode.
    pub path: &'a str,
    /// Of the transaction.
    pub zxid: Zxid,
    /// Who may read the znode; `None` for anyone.
    pub readers: Option<&'a AclList>,
    /// Who may read its parent; `None` for anyone.
    pub parent_readers: Option<&'a AclList>,
}

impl Change<'_> {
    fn tell(&self, receivers: Vec<ConnectionId>, event_type: EventType, events: &mut dyn Tell) {
        if !receivers.is_empty() {
            super::path::count_work(self.path.len());
            events.tell(Event {
                receivers,
                event_type,
                path: self.path.into(),
                zxid: self.zxid,
                readers: self.readers.cloned(),
            });
        }
    }
}

#[cfg(test)]
#[path = "watch_test.rs"]
mod watch_test;
