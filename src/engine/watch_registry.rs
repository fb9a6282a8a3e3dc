//! One kind of watches: paths to connections, and back.
//!
//! A watch costs a slot beside its path, and an index entry. It is found by its path; those of a connection hang together
//! in a list. Nothing grows in one step: slots stand in chunks and the index in shards.

use std::hash::{BuildHasher as _, Hasher as _};
use std::num::NonZeroU32;

use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};

use super::slab::Slab;
use super::watch::{ConnectionId, Modes};

/// Shards. At a million watched paths one holds a thousand.
const SHARDS: usize = 1024;
/// Bits of a hash that choose the shard.
const SHARD_BITS: u32 = SHARDS.trailing_zeros();
/// Where there is no path.
const NONE: u32 = u32::MAX;

/// How one connection watches one path, and its place in the connection's list. Who is next to it there is named by the
/// path: the watch is the connection's own one of that path.
#[derive(Debug, Clone, Copy)]
struct Watch {
    connection: Number,
    modes: Modes,
    previous: u32,
    next: u32,
}

/// One more than a connection's number in its slab, which leaves a value that tells [`Watchers::Many`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Number(NonZeroU32);

impl Number {
    const fn slot(self) -> u32 {
        self.0.get() - 1
    }
}

/// Who watches a path. Most are watched by one.
#[derive(Debug)]
#[expect(clippy::box_collection, reason = "a vector would make room in all for what few have")]
enum Watchers {
    One(Watch),
    /// By their numbers.
    Many(Box<Vec<Watch>>),
}

#[derive(Debug)]
struct Watched {
    path: Box<str>,
    watchers: Watchers,
}

#[derive(Debug)]
struct Watcher {
    id: ConnectionId,
    /// The path that it watched last.
    first: u32,
}

/// Paths, connections, and who watches what.
#[derive(Debug)]
pub(super) struct Registry {
    paths: Slab<Watched>,
    /// Paths by what they are, seeded so that nobody can choose some that collide.
    index: Vec<HashTable<u32>>,
    hasher: FixedState,
    connections: Slab<Watcher>,
    numbers: HashMap<ConnectionId, Number>,
    /// Recursive watches among them; without any, ancestors need no look.
    recursive: usize,
    /// Pairs of path and connection.
    count: usize,
}

impl Watchers {
    fn as_slice(&self) -> &[Watch] {
        match self {
            Self::One(watch) => std::slice::from_ref(watch),
            Self::Many(watches) => watches,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [Watch] {
        match self {
            Self::One(watch) => std::slice::from_mut(watch),
            Self::Many(watches) => watches,
        }
    }

    fn of(&mut self, connection: Number) -> Option<&mut Watch> {
        let watches = self.as_mut_slice();
        let at = watches.binary_search_by_key(&connection, |watch| watch.connection).ok()?;
        watches.get_mut(at)
    }

    /// Adds one of a connection that has none yet.
    fn add(&mut self, watch: Watch) {
        if let Self::One(one) = *self {
            *self = Self::Many(Box::new(vec![one]));
        }
        if let Self::Many(watches) = self
            && let Err(at) = watches.binary_search_by_key(&watch.connection, |it| it.connection)
        {
            watches.insert(at, watch);
        }
    }

    /// Takes out those that have no modes left; whether none is left.
    fn prune(&mut self) -> bool {
        let Self::Many(watches) = self else {
            return self.as_slice().iter().all(|watch| watch.modes.is_empty());
        };
        watches.retain(|watch| !watch.modes.is_empty());
        match watches[..] {
            [] => return true,
            [one] => *self = Self::One(one),
            _ if watches.len() < watches.capacity() / 4 => watches.shrink_to_fit(),
            _ => {}
        }
        false
    }
}

const fn shard_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SHARD_BITS)) as usize
}

/// Of a path, within its shard too.
fn hash(hasher: &FixedState, path: &str) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(path.as_bytes());
    // The highest bits choose the shard and, in a table, are looked at first.
    hasher.finish()
}

impl Registry {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            paths: Slab::default(),
            index: (0..SHARDS).map(|_| HashTable::new()).collect(),
            hasher: FixedState::with_seed(seed),
            connections: Slab::default(),
            numbers: HashMap::new(),
            recursive: 0,
            count: 0,
        }
    }

    /// Pairs of path and connection.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Recursive watches.
    #[cfg(test)]
    pub(super) const fn recursive(&self) -> usize {
        self.recursive
    }

    /// Watched paths.
    pub(super) const fn paths(&self) -> usize {
        self.paths.used()
    }

    /// Watching connections.
    pub(super) const fn connections(&self) -> usize {
        self.connections.used()
    }

    fn find(&self, path: &str) -> Option<u32> {
        let hash = hash(&self.hasher, path);
        let is = |number: &u32| self.paths.get(*number).is_some_and(|it| *it.path == *path);
        self.index.get(shard_of(hash))?.find(hash.rotate_left(SHARD_BITS), is).copied()
    }

    /// Adds modes to a connection's watch of a path.
    pub(super) fn add(&mut self, path: &str, connection: ConnectionId, modes: Modes) {
        let known = self.numbers.get(&connection).copied();
        let Some(connection) = known.or_else(|| self.add_connection(connection)) else { return };
        let place = self.find(path);
        let watched = place.and_then(|place| self.paths.get_mut(place));
        let recursive = modes.has(Modes::RECURSIVE);
        if let Some(watch) = watched.and_then(|watched| watched.watchers.of(connection)) {
            self.recursive += usize::from(recursive && !watch.modes.has(Modes::RECURSIVE));
            watch.modes = watch.modes.with(modes);
            return;
        }
        let next = self.connections.get(connection.slot()).map_or(NONE, |watcher| watcher.first);
        let watch = Watch { connection, modes, previous: NONE, next };
        let place = match place {
            Some(place) => {
                if let Some(watched) = self.paths.get_mut(place) {
                    watched.watchers.add(watch);
                }
                place
            }
            None => match self.add_path(path, watch) {
                Some(place) => place,
                None => return,
            },
        };
        if let Some(watcher) = self.connections.get_mut(connection.slot()) {
            watcher.first = place;
        }
        if let Some(after) = self.watch(next, connection) {
            after.previous = place;
        }
        self.count += 1;
        self.recursive += usize::from(recursive);
    }

    fn add_connection(&mut self, id: ConnectionId) -> Option<Number> {
        let slot = self.connections.insert(Watcher { id, first: NONE })?;
        let number = Number(NonZeroU32::MIN.checked_add(slot)?);
        self.numbers.insert(id, number);
        Some(number)
    }

    fn add_path(&mut self, path: &str, watch: Watch) -> Option<u32> {
        let watched = Watched { path: path.into(), watchers: Watchers::One(watch) };
        let number = self.paths.insert(watched)?;
        let Self { paths, index, hasher, .. } = self;
        let hash_of = |number: &u32| {
            let path = paths.get(*number).map_or("", |watched| &watched.path);
            hash(hasher, path).rotate_left(SHARD_BITS)
        };
        let hash = hash(hasher, path);
        if let Some(shard) = index.get_mut(shard_of(hash)) {
            shard.insert_unique(hash.rotate_left(SHARD_BITS), number, hash_of);
        }
        Some(number)
    }

    fn watch(&mut self, place: u32, connection: Number) -> Option<&mut Watch> {
        self.paths.get_mut(place)?.watchers.of(connection)
    }

    /// How a connection watches a path.
    pub(super) fn modes(&self, path: &str, connection: ConnectionId) -> Modes {
        let modes = || {
            let connection = self.numbers.get(&connection)?;
            let watches = self.paths.get(self.find(path)?)?.watchers.as_slice();
            let at = watches.binary_search_by_key(connection, |watch| watch.connection).ok()?;
            Some(watches.get(at)?.modes)
        };
        modes().unwrap_or_default()
    }

    /// Takes modes from a watch; whether it had one of them.
    pub(super) fn remove(&mut self, path: &str, connection: ConnectionId, modes: Modes) -> bool {
        let Some(&number) = self.numbers.get(&connection) else { return false };
        let Some(place) = self.find(path) else { return false };
        self.remove_at(place, number, modes)
    }

    fn remove_at(&mut self, place: u32, connection: Number, modes: Modes) -> bool {
        let Some(watch) = self.watch(place, connection).filter(|watch| watch.modes.has(modes))
        else {
            return false;
        };
        let before = watch.modes;
        watch.modes = before.without(modes);
        let removed = *watch;
        if before.has(Modes::RECURSIVE) && !removed.modes.has(Modes::RECURSIVE) {
            self.recursive -= 1;
        }
        if removed.modes.is_empty() {
            self.unlink(removed);
            self.prune(place);
        }
        true
    }

    /// Takes a watch from its connection's list, and forgets a connection without any.
    fn unlink(&mut self, removed: Watch) {
        let Watch { connection, previous, next, .. } = removed;
        self.count -= 1;
        if let Some(after) = self.watch(next, connection) {
            after.previous = previous;
        }
        if let Some(before) = self.watch(previous, connection) {
            before.next = next;
        } else if let Some(watcher) = self.connections.get_mut(connection.slot()) {
            watcher.first = next;
            if next == NONE {
                let id = watcher.id;
                self.connections.remove(connection.slot());
                self.numbers.remove(&id);
            }
        }
    }

    /// Takes watches without modes from a path, and the path with the last of them.
    fn prune(&mut self, place: u32) {
        let Some(watched) = self.paths.get_mut(place) else { return };
        if !watched.watchers.prune() {
            return;
        }
        let Some(watched) = self.paths.remove(place) else { return };
        let hash = hash(&self.hasher, &watched.path);
        if let Some(shard) = self.index.get_mut(shard_of(hash))
            && let Ok(entry) = shard.find_entry(hash.rotate_left(SHARD_BITS), |it| *it == place)
        {
            entry.remove();
        }
    }

    /// Takes away up to `most` watches of a connection and tells how many.
    pub(super) fn forget(&mut self, connection: ConnectionId, most: usize) -> usize {
        let mut forgotten = 0;
        while forgotten < most
            && let Some(&number) = self.numbers.get(&connection)
            && let Some(first) = self.connections.get(number.slot()).map(|watcher| watcher.first)
            && self.remove_at(first, number, Modes::ANY)
        {
            forgotten += 1;
        }
        forgotten
    }

    /// Who is told of a change of `path`: its own watchers, whose one-shot watches end, then the recursive ones
    /// above. Everyone once, in their order.
    pub(super) fn trigger(&mut self, path: &str) -> Vec<ConnectionId> {
        let mut receivers: Vec<ConnectionId> = Vec::new();
        if let Some(place) = self.find(path)
            && let Some(watched) = self.paths.get_mut(place)
        {
            let mut ended = Vec::new();
            for watch in watched.watchers.as_mut_slice() {
                receivers.extend(self.connections.get(watch.connection.slot()).map(|it| it.id));
                watch.modes = watch.modes.without(Modes::STANDARD);
                if watch.modes.is_empty() {
                    ended.push(*watch);
                }
            }
            if !ended.is_empty() {
                for watch in ended {
                    self.unlink(watch);
                }
                self.prune(place);
            }
        }
        if self.recursive > 0 {
            let mut above = path;
            while let Some((parent, _)) = above.rsplit_once('/') {
                above = parent;
                let watched = self.find(super::path::canonical(parent));
                let watched = watched.and_then(|place| self.paths.get(place));
                let watches = watched.map_or(&[][..], |watched| watched.watchers.as_slice());
                let recursive = watches.iter().filter(|watch| watch.modes.has(Modes::RECURSIVE));
                receivers.extend(
                    recursive.filter_map(|watch| {
                        Some(self.connections.get(watch.connection.slot())?.id)
                    }),
                );
            }
        }
        receivers.sort_unstable();
        receivers.dedup();
        receivers
    }

    /// The paths that each connection watches, in their order.
    pub(super) fn by_connection(&self) -> impl Iterator<Item = (ConnectionId, Vec<&str>)> {
        self.numbers.iter().map(|(id, number)| {
            let mut paths = Vec::new();
            let mut next =
                self.connections.get(number.slot()).map_or(NONE, |watcher| watcher.first);
            while let Some(watched) = self.paths.get(next) {
                paths.push(&*watched.path);
                let watches = watched.watchers.as_slice();
                let at = watches.binary_search_by_key(number, |watch| watch.connection);
                next = at.ok().and_then(|at| watches.get(at)).map_or(NONE, |watch| watch.next);
            }
            paths.sort_unstable();
            (*id, paths)
        })
    }

    /// Who watches each path.
    pub(super) fn by_path(&self) -> impl Iterator<Item = (&str, Vec<ConnectionId>)> {
        self.paths.iter().map(|watched| {
            let watches = watched.watchers.as_slice().iter();
            let mut ids: Vec<ConnectionId> = watches
                .filter_map(|watch| Some(self.connections.get(watch.connection.slot())?.id))
                .collect();
            ids.sort_unstable();
            (&*watched.path, ids)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::slab::Slot;
    use super::*;

    #[test]
    fn a_watched_path_takes_32_bytes() {
        assert_eq!(size_of::<Slot<Watched>>(), 32);
    }

    /// Every watch as a row, and what is asked of them by looking at all rows.
    #[derive(Default)]
    struct Model(BTreeMap<(String, ConnectionId), u8>);

    impl Model {
        fn add(&mut self, path: &str, connection: ConnectionId, modes: Modes) {
            *self.0.entry((path.to_owned(), connection)).or_default() |= modes.0;
        }

        fn remove(&mut self, path: &str, connection: ConnectionId, modes: Modes) -> bool {
            let key = (path.to_owned(), connection);
            let Some(had) = self.0.get_mut(&key).filter(|had| **had & modes.0 != 0) else {
                return false;
            };
            *had &= !modes.0;
            if *had == 0 {
                self.0.remove(&key);
            }
            true
        }

        fn trigger(&mut self, path: &str) -> Vec<ConnectionId> {
            let recursive = |of: &str| path.starts_with(&format!("{}/", of.trim_end_matches('/')));
            let told: BTreeSet<ConnectionId> = self
                .0
                .iter()
                .filter(|((of, _), modes)| of == path || **modes & 4 != 0 && recursive(of))
                .map(|((_, connection), _)| *connection)
                .collect();
            for connection in &told {
                self.remove(path, *connection, Modes::STANDARD);
            }
            told.into_iter().collect()
        }
    }

    #[test]
    fn random_watches_are_those_of_a_list() {
        let (mut registry, mut model) = (Registry::new(5), Model::default());
        let mut random = 88_172_645_463_325_252_u64;
        let mut dice = move |sides: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 33) % sides
        };
        let all_modes = [Modes::STANDARD, Modes::PERSISTENT, Modes::RECURSIVE];
        for _ in 0..100_000 {
            let path = match dice(10) {
                0 => "/".to_owned(),
                1..6 => format!("/{}", dice(12)),
                _ => format!("/{}/{}", dice(12), dice(12)),
            };
            let connection = ConnectionId(dice(9));
            let modes = all_modes[dice(3) as usize];
            match dice(20) {
                0 => {
                    let most = dice(20) as usize;
                    let before = registry.count();
                    let forgotten = registry.forget(connection, most);
                    assert_eq!(before - registry.count(), forgotten);
                    let own = model.0.keys().filter(|(_, of)| *of == connection).count();
                    assert_eq!(forgotten, own.min(most));
                    model.0.retain(|(path, of), _| {
                        *of != connection || !registry.modes(path, *of).is_empty()
                    });
                }
                1..4 => assert_eq!(registry.trigger(&path), model.trigger(&path), "{path}"),
                4..8 => {
                    let removed = model.remove(&path, connection, modes);
                    assert_eq!(registry.remove(&path, connection, modes), removed);
                }
                _ => {
                    model.add(&path, connection, modes);
                    registry.add(&path, connection, modes);
                }
            }
            assert_eq!(registry.count(), model.0.len());
            let recursive = model.0.values().filter(|modes| **modes & 4 != 0).count();
            assert_eq!(registry.recursive(), recursive);
            let key = (path, connection);
            let expected = model.0.get(&key).copied().unwrap_or(0);
            assert_eq!(registry.modes(&key.0, connection), Modes(expected));
        }
        let mut by_path: BTreeMap<&str, Vec<ConnectionId>> = BTreeMap::new();
        let mut by_connection: BTreeMap<ConnectionId, Vec<&str>> = BTreeMap::new();
        for (path, connection) in model.0.keys() {
            by_path.entry(path).or_default().push(*connection);
            by_connection.entry(*connection).or_default().push(path);
        }
        assert_eq!(
            (registry.paths(), registry.connections()),
            (by_path.len(), by_connection.len())
        );
        assert_eq!(registry.by_path().collect::<BTreeMap<_, _>>(), by_path);
        assert_eq!(registry.by_connection().collect::<BTreeMap<_, _>>(), by_connection);
        for connection in (0..9).map(ConnectionId) {
            registry.forget(connection, usize::MAX);
        }
        assert_eq!((registry.paths(), registry.connections(), registry.recursive()), (0, 0, 0));
        assert!(registry.index.iter().all(HashTable::is_empty));
    }
}
