//! Watches: who wants to hear of which path (reference 7).

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use jute::protocol::{AddWatchMode, EventType, WatcherType};

use super::acl::AclList;
use super::zxid::Zxid;

/// A client connection. A watch belongs to one, and goes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

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

/// The zxid of an event that no transaction of this moment caused.
pub const CATCH_UP: Zxid = Zxid(-1);

/// How a connection watches a path: a set of three bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Modes(u8);

impl Modes {
    /// Fires once.
    const STANDARD: Self = Self(1);
    /// Stays.
    const PERSISTENT: Self = Self(2);
    /// Stays, and sees everything below.
    const RECURSIVE: Self = Self(4);
    /// All of them.
    const ANY: Self = Self(7);

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The watchers of one path, in the order of their numbers.
type Watchers = Vec<(ConnectionId, Modes)>;

/// One kind of watches: paths to connections, and back.
#[derive(Debug, Default)]
struct Registry {
    by_path: HashMap<Arc<str>, Watchers>,
    by_connection: HashMap<ConnectionId, BTreeSet<Arc<str>>>,
    /// Recursive watches among them; without any, ancestors need no look.
    recursive: usize,
    /// Pairs of path and connection.
    count: usize,
}

impl Registry {
    fn add(&mut self, path: &str, connection: ConnectionId, modes: Modes) {
        let (path, watchers) = match self.by_path.get_key_value(path) {
            Some((path, _)) => {
                let path = Arc::clone(path);
                let watchers = self.by_path.entry(Arc::clone(&path)).or_default();
                (path, watchers)
            }
            None => {
                let path: Arc<str> = path.into();
                let watchers = self.by_path.entry(Arc::clone(&path)).or_default();
                (path, watchers)
            }
        };
        match watchers.binary_search_by_key(&connection, |(watcher, _)| *watcher) {
            Ok(at) => {
                if let Some((_, before)) = watchers.get_mut(at) {
                    if modes.has(Modes::RECURSIVE) && !before.has(Modes::RECURSIVE) {
                        self.recursive += 1;
                    }
                    *before = before.with(modes);
                }
            }
            Err(at) => {
                watchers.insert(at, (connection, modes));
                self.by_connection.entry(connection).or_default().insert(path);
                self.count += 1;
                if modes.has(Modes::RECURSIVE) {
                    self.recursive += 1;
                }
            }
        }
    }

    fn modes(&self, path: &str, connection: ConnectionId) -> Modes {
        self.by_path
            .get(path)
            .and_then(|watchers| {
                let at =
                    watchers.binary_search_by_key(&connection, |(watcher, _)| *watcher).ok()?;
                watchers.get(at)
            })
            .map_or_else(Modes::default, |(_, modes)| *modes)
    }

    /// Takes modes from a watch; whether it had one of them.
    fn remove(&mut self, path: &str, connection: ConnectionId, modes: Modes) -> bool {
        let before = self.modes(path, connection);
        if !before.has(modes) {
            return false;
        }
        let after = before.without(modes);
        if before.has(Modes::RECURSIVE) && !after.has(Modes::RECURSIVE) {
            self.recursive -= 1;
        }
        let Some(watchers) = self.by_path.get_mut(path) else { return false };
        let Ok(at) = watchers.binary_search_by_key(&connection, |(watcher, _)| *watcher) else {
            return false;
        };
        if after.is_empty() {
            watchers.remove(at);
            if watchers.is_empty() {
                self.by_path.remove(path);
            }
            self.forget_path(path, connection);
        } else if let Some((_, modes)) = watchers.get_mut(at) {
            *modes = after;
        }
        true
    }

    /// Takes a path from a connection's own list.
    fn forget_path(&mut self, path: &str, connection: ConnectionId) {
        self.count -= 1;
        if let Some(paths) = self.by_connection.get_mut(&connection) {
            paths.remove(path);
            if paths.is_empty() {
                self.by_connection.remove(&connection);
            }
        }
    }

    /// Takes away up to `most` watches of a connection and tells how many.
    fn forget(&mut self, connection: ConnectionId, most: usize) -> usize {
        let paths = self.by_connection.get(&connection);
        let paths: Vec<Arc<str>> = paths.into_iter().flatten().take(most).cloned().collect();
        for path in &paths {
            self.remove(path, connection, Modes::ANY);
        }
        paths.len()
    }

    /// Who is told of a change of `path`: its own watchers, whose one-shot watches end, then the recursive ones
    /// above. Everyone once.
    fn trigger(&mut self, path: &str) -> Vec<ConnectionId> {
        let mut receivers: Vec<ConnectionId> = Vec::new();
        if let Some(watchers) = self.by_path.get_mut(path) {
            receivers.extend(watchers.iter().map(|(connection, _)| *connection));
            watchers.retain_mut(|(_, modes)| {
                *modes = modes.without(Modes::STANDARD);
                !modes.is_empty()
            });
            let kept = std::mem::take(watchers);
            if kept.len() < receivers.len() {
                for &connection in &receivers {
                    if kept.binary_search_by_key(&connection, |(watcher, _)| *watcher).is_err() {
                        self.forget_path(path, connection);
                    }
                }
            }
            if kept.is_empty() {
                self.by_path.remove(path);
            } else if let Some(watchers) = self.by_path.get_mut(path) {
                *watchers = kept;
            }
        }
        if self.recursive > 0 {
            let mut above = path;
            while let Some((parent, _)) = above.rsplit_once('/') {
                above = parent;
                let watchers = self.by_path.get(super::path::canonical(parent));
                receivers.extend(
                    watchers
                        .into_iter()
                        .flatten()
                        .filter(|(_, modes)| modes.has(Modes::RECURSIVE))
                        .map(|(connection, _)| *connection),
                );
            }
            receivers.sort_unstable();
            receivers.dedup();
        }
        receivers
    }
}

/// All watches of a server.
#[derive(Debug, Default)]
pub struct WatchTable {
    data: Registry,
    child: Registry,
}

impl WatchTable {
    /// Leaves a one-shot watch on data and existence.
    pub fn watch_data(&mut self, path: &str, connection: ConnectionId) {
        self.data.add(path, connection, Modes::STANDARD);
    }

    /// Leaves a one-shot watch on the children.
    pub fn watch_children(&mut self, path: &str, connection: ConnectionId) {
        self.child.add(path, connection, Modes::STANDARD);
    }

    /// Leaves a persistent watch. A recursive one sees no change of children as such: it sees the children.
    pub fn add(&mut self, path: &str, connection: ConnectionId, mode: AddWatchMode) {
        match mode {
            AddWatchMode::Persistent => {
                self.data.add(path, connection, Modes::PERSISTENT);
                self.child.add(path, connection, Modes::PERSISTENT);
            }
            AddWatchMode::PersistentRecursive => {
                self.data.add(path, connection, Modes::RECURSIVE);
            }
        }
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
        const NO: Modes = Modes(0);
        match kind {
            WatcherType::Children => (NO, Modes::STANDARD),
            WatcherType::Data => (Modes::STANDARD, NO),
            WatcherType::Any => (Modes::ANY, Modes::ANY),
            WatcherType::Persistent => (Modes::PERSISTENT, Modes::PERSISTENT),
            WatcherType::PersistentRecursive => (Modes::RECURSIVE, Modes::RECURSIVE),
        }
    }

    /// Takes away every watch of a connection that is gone.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.forget_some(connection, usize::MAX);
    }

    /// Takes away up to `most` of them; whether it was so many, and there may be more.
    pub fn forget_some(&mut self, connection: ConnectionId, most: usize) -> bool {
        let data = self.data.forget(connection, most);
        data + self.child.forget(connection, most - data) == most
    }

    /// Watches, over both kinds.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.data.count + self.child.count
    }

    /// Connections, paths and watches on data: what `wchs` counts.
    #[must_use]
    pub fn data_summary(&self) -> (usize, usize, usize) {
        (self.data.by_connection.len(), self.data.by_path.len(), self.data.count)
    }

    /// Watched paths by connection, data watches only: what `wchc` lists.
    pub fn data_by_connection(&self) -> impl Iterator<Item = (ConnectionId, &BTreeSet<Arc<str>>)> {
        self.data.by_connection.iter().map(|(connection, paths)| (*connection, paths))
    }

    /// Watching connections by path, data watches only: what `wchp` lists.
    pub fn data_by_path(&self) -> impl Iterator<Item = (&str, Vec<ConnectionId>)> {
        self.data.by_path.iter().map(|(path, watchers)| {
            (&**path, watchers.iter().map(|(connection, _)| *connection).collect())
        })
    }

    /// A znode came into being.
    pub fn created(&mut self, change: &Change<'_>, events: &mut Vec<Event>) {
        let receivers = self.data.trigger(change.path);
        change.tell(receivers, EventType::NodeCreated, events);
        self.children_changed(change, events);
    }

    /// A znode is gone. A connection that watched both its data and its children hears of it once.
    pub fn deleted(&mut self, change: &Change<'_>, events: &mut Vec<Event>) {
        let mut receivers = self.data.trigger(change.path);
        receivers.extend(self.child.trigger(change.path));
        receivers.sort_unstable();
        receivers.dedup();
        change.tell(receivers, EventType::NodeDeleted, events);
        self.children_changed(change, events);
    }

    /// A znode's data changed.
    pub fn data_changed(&mut self, change: &Change<'_>, events: &mut Vec<Event>) {
        let receivers = self.data.trigger(change.path);
        change.tell(receivers, EventType::NodeDataChanged, events);
    }

    fn children_changed(&mut self, change: &Change<'_>, events: &mut Vec<Event>) {
        if self.child.by_path.is_empty() {
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
    fn tell(&self, receivers: Vec<ConnectionId>, event_type: EventType, events: &mut Vec<Event>) {
        if !receivers.is_empty() {
            events.push(Event {
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
    use std::collections::BTreeMap;

    use jute::protocol::AddWatchMode::{Persistent, PersistentRecursive};

    use super::*;

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    fn change(path: &str) -> Change<'_> {
        Change { path, zxid: Zxid(9), readers: None, parent_readers: None }
    }

    fn assert_empty(watches: &WatchTable) {
        for registry in [&watches.data, &watches.child] {
            assert!(registry.by_path.is_empty(), "{registry:?}");
            assert!(registry.by_connection.is_empty(), "{registry:?}");
            assert_eq!((registry.count, registry.recursive), (0, 0));
        }
    }

    #[test]
    fn fired_watches_leave_nothing_behind() {
        let mut watches = WatchTable::default();
        for connection in [A, B] {
            watches.watch_data("/x", connection);
            watches.watch_children("/x", connection);
            watches.watch_children("/", connection);
        }
        watches.watch_data("/x", A);
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
        let mut watches = WatchTable::default();
        for connection in [A, B] {
            watches.watch_data("/x", connection);
            watches.add("/x", connection, Persistent);
            watches.add("/x", connection, PersistentRecursive);
            watches.add("/", connection, PersistentRecursive);
            watches.watch_children("/y", connection);
        }
        assert_eq!(watches.count(), 8);
        assert_eq!(watches.data.recursive, 4);
        watches.forget(A);
        assert_eq!(watches.count(), 4);
        assert_eq!(watches.data.recursive, 2);
        watches.forget(A);
        watches.forget(B);
        assert_empty(&watches);
    }

    #[test]
    fn the_recursive_ones_are_counted_once_each() {
        let mut watches = WatchTable::default();
        watches.add("/x", A, PersistentRecursive);
        watches.add("/x", A, PersistentRecursive);
        watches.watch_data("/x", A);
        assert_eq!((watches.count(), watches.data.recursive), (1, 1));
        // One-shot modes go when they fire, the recursive one stays.
        let mut events = Vec::new();
        watches.data_changed(&change("/x"), &mut events);
        watches.data_changed(&change("/x/below"), &mut events);
        assert_eq!(events.len(), 2);
        assert_eq!((watches.count(), watches.data.recursive), (1, 1));
        assert!(!watches.remove("/x", A, WatcherType::Data));
        assert!(!watches.remove("/x", B, WatcherType::Any));
        assert!(watches.remove("/x", A, WatcherType::PersistentRecursive));
        assert!(!watches.remove("/x", A, WatcherType::Any));
        assert_empty(&watches);
    }

    #[test]
    fn removing_one_kind_leaves_the_others() {
        let mut watches = WatchTable::default();
        watches.add("/x", A, Persistent);
        watches.add("/x", A, PersistentRecursive);
        watches.watch_children("/x", A);
        assert!(watches.remove("/x", A, WatcherType::PersistentRecursive));
        assert!(watches.contains("/x", A, WatcherType::Persistent));
        assert!(watches.remove("/x", A, WatcherType::Children));
        assert_eq!((watches.count(), watches.data.recursive), (2, 0));
        assert!(watches.remove("/x", A, WatcherType::Any));
        assert_empty(&watches);
    }

    #[test]
    fn a_receiver_is_told_once() {
        let mut watches = WatchTable::default();
        watches.add("/", A, PersistentRecursive);
        watches.add("/x", A, PersistentRecursive);
        watches.add("/x/y", A, Persistent);
        watches.watch_data("/x/y", A);
        let mut events = Vec::new();
        watches.deleted(&change("/x/y"), &mut events);
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].receivers, [A]);
        // Nothing above the root: a change of it is told to its own watchers.
        events.clear();
        watches.data_changed(&change("/"), &mut events);
        assert_eq!(events[0].receivers, [A]);
    }

    #[test]
    fn watches_on_data_are_listed_by_both_their_ends() {
        let mut watches = WatchTable::default();
        watches.watch_data("/x", B);
        watches.add("/x", A, Persistent);
        watches.watch_data("/y", A);
        watches.watch_children("/z", B);
        let by_path: BTreeMap<&str, Vec<ConnectionId>> = watches.data_by_path().collect();
        assert_eq!(by_path, BTreeMap::from([("/x", vec![A, B]), ("/y", vec![A])]));
        let by_connection: BTreeMap<ConnectionId, Vec<&str>> = watches
            .data_by_connection()
            .map(|(connection, paths)| (connection, paths.iter().map(|path| &**path).collect()))
            .collect();
        assert_eq!(by_connection, BTreeMap::from([(A, vec!["/x", "/y"]), (B, vec!["/x"])]));
    }

    #[test]
    fn a_connections_watches_go_a_few_at_a_time() {
        let mut watches = WatchTable::default();
        for path in ["/1", "/2", "/3", "/4"] {
            watches.watch_data(path, A);
        }
        for path in ["/1", "/2", "/5"] {
            watches.watch_children(path, A);
        }
        watches.watch_data("/1", B);
        // Seven and three at a time: so many, and so many again, and the last one.
        assert_eq!((watches.forget_some(A, 3), watches.count()), (true, 5));
        assert_eq!((watches.forget_some(A, 3), watches.count()), (true, 2));
        assert_eq!((watches.forget_some(A, 3), watches.count()), (false, 1));
        assert!(watches.contains("/1", B, WatcherType::Data));
    }
}
