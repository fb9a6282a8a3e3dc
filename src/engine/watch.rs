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
mod tests {

    use jute::protocol::AddWatchMode::{Persistent, PersistentRecursive};

    use super::*;
    use crate::engine::path::WORK;

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    fn change(path: &str) -> Change<'_> {
        Change { path, zxid: Zxid(9), readers: None, parent_readers: None }
    }

    fn assert_empty(watches: &WatchTable) {
        for registry in [&watches.data, &watches.child] {
            assert_eq!((registry.paths(), registry.connections()), (0, 0), "{registry:?}");
            assert_eq!((registry.count(), registry.recursive()), (0, 0));
        }
        assert_eq!(watches.bytes(), 0);
    }

    #[test]
    fn beyond_what_they_may_take_only_those_that_are_there_are_renewed() {
        let mut watches = WatchTable::new(3);
        watches.watch_data("/x", A).unwrap();
        watches.add("/two", A, Persistent).unwrap();
        let three = watches.bytes();
        watches.set_most(three);
        assert_eq!(watches.watch_data("/y", A), Err(NoRoom));
        assert_eq!(watches.watch_data("/x", B), Err(NoRoom));
        assert_eq!(watches.watch_children("/x", A), Err(NoRoom));
        assert_eq!(watches.add("/x", A, Persistent), Err(NoRoom), "it wants one of children");
        assert_eq!((watches.count(), watches.bytes()), (3, three));
        assert!(!watches.contains("/x", A, WatcherType::Persistent), "both or none");
        watches.watch_data("/x", A).unwrap();
        watches.add("/x", A, PersistentRecursive).unwrap();
        watches.watch_children("/two", A).unwrap();
        assert_eq!(watches.bytes(), three);
        // One goes, and makes room for one of the same length.
        assert!(watches.remove("/x", A, WatcherType::Any));
        watches.watch_children("/y", B).unwrap();
        assert_eq!(watches.bytes(), three);
        assert_eq!(watches.watch_data("/z", A), Err(NoRoom));
        watches.set_most(usize::MAX);
        watches.watch_data("/z", A).unwrap();
        assert!(watches.bytes() > three);
        watches.forget(A);
        watches.forget(B);
        assert_empty(&watches);
    }

    #[test]
    fn fired_watches_leave_nothing_behind() {
        let mut watches = WatchTable::new(3);
        for connection in [A, B] {
            watches.watch_data("/x", connection).unwrap();
            watches.watch_children("/x", connection).unwrap();
            watches.watch_children("/", connection).unwrap();
        }
        watches.watch_data("/x", A).unwrap();
        assert_eq!(watches.count(), 6);
        assert_eq!(watches.data_summary(), (2, 1, 2));
        let mut events = Vec::new();
        watches.deleted(&change("/x"), &mut events);
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].receivers, [A, B]);
        assert_eq!(events[1].receivers, [A, B]);
        assert_empty(&watches);
    }

    #[test]
    fn a_connection_takes_its_watches_along() {
        let mut watches = WatchTable::new(3);
        for connection in [A, B] {
            watches.watch_data("/x", connection).unwrap();
            watches.add("/x", connection, Persistent).unwrap();
            watches.add("/x", connection, PersistentRecursive).unwrap();
            watches.add("/", connection, PersistentRecursive).unwrap();
            watches.watch_children("/y", connection).unwrap();
        }
        assert_eq!(watches.count(), 8);
        assert_eq!(watches.data.recursive(), 4);
        watches.forget(A);
        assert_eq!(watches.count(), 4);
        assert_eq!(watches.data.recursive(), 2);
        watches.forget(A);
        watches.forget(B);
        assert_empty(&watches);
    }

    #[test]
    fn the_recursive_ones_are_counted_once_each() {
        let mut watches = WatchTable::new(3);
        watches.add("/x", A, PersistentRecursive).unwrap();
        watches.add("/x", A, PersistentRecursive).unwrap();
        watches.watch_data("/x", A).unwrap();
        assert_eq!((watches.count(), watches.data.recursive()), (1, 1));
        // One-shot modes go when they fire, the recursive one stays.
        let mut events = Vec::new();
        watches.data_changed(&change("/x"), &mut events);
        watches.data_changed(&change("/x/below"), &mut events);
        assert_eq!(events.len(), 2);
        assert_eq!((watches.count(), watches.data.recursive()), (1, 1));
        assert!(!watches.remove("/x", A, WatcherType::Data));
        assert!(!watches.remove("/x", B, WatcherType::Any));
        assert!(watches.remove("/x", A, WatcherType::PersistentRecursive));
        assert!(!watches.remove("/x", A, WatcherType::Any));
        assert_empty(&watches);
    }

    #[test]
    fn removing_one_kind_leaves_the_others() {
        let mut watches = WatchTable::new(3);
        watches.add("/x", A, Persistent).unwrap();
        watches.add("/x", A, PersistentRecursive).unwrap();
        watches.watch_children("/x", A).unwrap();
        assert!(watches.remove("/x", A, WatcherType::PersistentRecursive));
        assert!(watches.contains("/x", A, WatcherType::Persistent));
        assert!(watches.remove("/x", A, WatcherType::Children));
        assert_eq!((watches.count(), watches.data.recursive()), (2, 0));
        assert!(watches.remove("/x", A, WatcherType::Any));
        assert_empty(&watches);
    }

    #[test]
    fn a_receiver_is_told_once() {
        let mut watches = WatchTable::new(3);
        watches.add("/", A, PersistentRecursive).unwrap();
        watches.add("/x", A, PersistentRecursive).unwrap();
        watches.add("/x/y", A, Persistent).unwrap();
        watches.watch_data("/x/y", A).unwrap();
        let mut events = Vec::new();
        watches.deleted(&change("/x/y"), &mut events);
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].receivers, [A]);
        // Nothing above the root: a change of it is told to its own watchers.
        events.clear();
        watches.data_changed(&change("/"), &mut events);
        assert_eq!(events[0].receivers, [A]);
    }

    /// All watches on data, walked so many at a time; with what is done between two pieces.
    fn walked(
        watches: &mut WatchTable,
        most: usize,
        mut between: impl FnMut(&mut WatchTable),
    ) -> Vec<(WatchPair, String, ConnectionId)> {
        let (mut all, mut place) = (Vec::new(), Some(watches.begin_data_walk()));
        while let Some(from) = place {
            let before = all.len();
            place = watches.walk_data(from, most, |pair, path, connection| {
                all.push((pair, path.to_owned(), connection));
                true
            });
            assert!(all.len() - before <= most, "a piece has no more than was asked for");
            between(watches);
        }
        all
    }

    #[test]
    fn watches_on_data_are_listed_by_both_their_ends() {
        let mut watches = WatchTable::new(3);
        watches.watch_data("/x", B).unwrap();
        watches.add("/x", A, Persistent).unwrap();
        watches.watch_data("/y", A).unwrap();
        watches.watch_children("/z", B).unwrap();
        let mut all = walked(&mut watches, 2, |_| {});
        let mut rows: Vec<(&str, ConnectionId)> =
            all.iter().map(|(_, path, connection)| (path.as_str(), *connection)).collect();
        rows.sort_unstable();
        assert_eq!(rows, [("/x", A), ("/x", B), ("/y", A)]);
        // In the order of the pairs those of a connection stand together.
        all.sort_unstable();
        let by_connection: Vec<ConnectionId> = all.iter().map(|its| its.2).collect();
        assert!(by_connection == [A, A, B] || by_connection == [B, A, A]);
        for (pair, path, connection) in &all {
            assert_eq!(watches.data_watch(*pair), Some((*connection, path.as_str())));
        }
        watches.remove("/x", A, WatcherType::Any);
        let gone = all.iter().filter(|(pair, ..)| watches.data_watch(*pair).is_none());
        assert_eq!(gone.map(|its| (its.1.as_str(), its.2)).collect::<Vec<_>>(), [("/x", A)]);
    }

    #[test]
    fn what_stays_is_walked_once_whatever_changes_meanwhile() {
        for most in [2, 3, 7, 64] {
            let mut watches = WatchTable::new(3);
            // One path has many watchers, and many have one or two.
            let stays: Vec<(String, ConnectionId)> = (0..60)
                .map(|number| ("/many".to_owned(), ConnectionId(number)))
                .chain((0..90).map(|number| (format!("/{}", number / 2), ConnectionId(number))))
                .collect();
            for (path, connection) in &stays {
                watches.watch_data(path, *connection).unwrap();
                watches.watch_data(&format!("{path}/gone"), *connection).unwrap();
            }
            let mut step = 0;
            let all = walked(&mut watches, most, |watches| {
                for number in [step, 90 - step % 90] {
                    let path = format!("/{}/gone", number / 2);
                    watches.remove(&path, ConnectionId(number), WatcherType::Any);
                    watches.remove("/many/gone", ConnectionId(number), WatcherType::Any);
                    watches.watch_data(&format!("/new{number}"), ConnectionId(number)).unwrap();
                }
                step += 1;
                assert!(step < 5000, "it comes to an end");
            });
            let mut found: Vec<(String, ConnectionId)> = all
                .into_iter()
                .map(|(_, path, connection)| (path, connection))
                .filter(|(path, _)| !path.ends_with("gone") && !path.starts_with("/new"))
                .collect();
            let mut expected = stays.clone();
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{most} at a time");
        }
    }

    #[test]
    fn a_connections_watches_go_a_few_at_a_time() {
        let mut watches = WatchTable::new(3);
        for path in ["/1", "/2", "/3", "/4"] {
            watches.watch_data(path, A).unwrap();
        }
        for path in ["/1", "/2", "/5"] {
            watches.watch_children(path, A).unwrap();
        }
        watches.watch_data("/1", B).unwrap();
        // Seven and three at a time: so many, and so many again, and the last one.
        assert_eq!((watches.forget_some(A, 3), watches.count()), (true, 5));
        assert_eq!((watches.forget_some(A, 3), watches.count()), (true, 2));
        assert_eq!((watches.forget_some(A, 3), watches.count()), (false, 1));
        assert!(watches.contains("/1", B, WatcherType::Data));
    }

    /// Of each path every byte is hashed.
    #[test]
    fn watches_of_long_paths_go_fewer_at_a_time() {
        const LEN: usize = 64 << 10;
        let mut watches = WatchTable::new(3);
        for at in 0..40 {
            watches.watch_data(&format!("/{}/{at}", "x".repeat(LEN)), A).unwrap();
            watches.watch_children(&format!("/{}/{at}", "x".repeat(LEN)), A).unwrap();
        }
        let mut holds = 0;
        loop {
            WORK.set(0);
            let is_more = watches.forget_some(A, 256);
            // 256 paths of 64 bytes, and one more.
            assert!(WORK.get() < (256 * 64) + LEN + 10, "{} bytes", WORK.get());
            holds += 1;
            if !is_more {
                break;
            }
        }
        assert_eq!(holds, 80);
        assert_empty(&watches);
    }
}
