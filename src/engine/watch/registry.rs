//! One kind of watches: paths to connections, and back.
//!
//! A watch costs a slot beside its path, and an index entry. It is found by its path; those of a
//! connection hang together in a list. Nothing grows in one step: slots stand in chunks and the
//! index in shards.

use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::{FixedState, FoldHasher};
use hashbrown::{HashMap, HashTable};

use super::watchers::{Number, Watch, Watchers};
use super::{ConnectionId, Modes};
use crate::engine::lineage::PathKey;
use crate::engine::path;
use crate::engine::slab::Slab;
use crate::planted;

/// Shards. At a million watched paths one holds a thousand.
const SHARDS: usize = 1024;
/// Bits of a hash that choose the shard.
const SHARD_BITS: u32 = SHARDS.trailing_zeros();
/// About what a watched path takes beside its own bytes, and what each watch of it takes.
const PATH_BYTES: usize = 32;
const WATCH_BYTES: usize = 32;
/// Where there is no path.
const NONE: u32 = u32::MAX;

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
pub(in crate::engine) struct Registry {
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
    /// Bytes of the watched paths.
    path_bytes: usize,
}

const fn shard_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SHARD_BITS)) as usize
}

/// Of a path, within its shard too. The highest bits choose the shard and, in a table, are looked
/// at first.
fn hash(hasher: &FixedState, path: &str) -> u64 {
    path::hash(hasher.build_hasher(), path)
}

impl Registry {
    pub(in crate::engine) fn new(seed: u64) -> Self {
        Self {
            paths: Slab::default(),
            index: (0..SHARDS).map(|_| HashTable::new()).collect(),
            hasher: FixedState::with_seed(seed),
            connections: Slab::default(),
            numbers: HashMap::new(),
            recursive: 0,
            count: 0,
            path_bytes: 0,
        }
    }

    /// About how many bytes of memory its watches take.
    pub(in crate::engine) const fn bytes(&self) -> usize {
        self.path_bytes + self.paths() * PATH_BYTES + self.count * WATCH_BYTES
    }

    /// About how many a watch of `path` takes if nobody else watches it.
    pub(in crate::engine) const fn bytes_of(path: &str) -> usize {
        path.len() + PATH_BYTES + WATCH_BYTES
    }

    /// Pairs of path and connection.
    pub(in crate::engine) const fn count(&self) -> usize {
        self.count
    }

    /// Recursive watches.
    #[cfg(test)]
    pub(in crate::engine) const fn recursive(&self) -> usize {
        self.recursive
    }

    /// Watched paths.
    pub(in crate::engine) const fn paths(&self) -> usize {
        self.paths.used()
    }

    /// Watching connections.
    pub(in crate::engine) const fn connections(&self) -> usize {
        self.connections.used()
    }

    fn find(&self, path: &str) -> Option<u32> {
        self.find_hashed(hash(&self.hasher, path), |watched| *watched.path == *path)
    }

    fn find_hashed(&self, hash: u64, is: impl Fn(&Watched) -> bool) -> Option<u32> {
        let is = |number: &u32| self.paths.get(*number).is_some_and(&is);
        self.index.get(shard_of(hash))?.find(hash.rotate_left(SHARD_BITS), is).copied()
    }

    /// Where the hash of a path begins.
    pub(in crate::engine) fn hasher(&self) -> FoldHasher<'static> {
        self.hasher.build_hasher()
    }

    /// Whether somebody watches such a path. One that is not, but looks like it, can be taken for
    /// it.
    pub(super) fn may_watch(&self, key: PathKey<'_>) -> bool {
        self.find_hashed(key.hash, |watched| key.may_be(&watched.path)).is_some()
    }

    /// The same for recursive watches.
    pub(in crate::engine) fn may_see_below(&self, key: PathKey<'_>) -> bool {
        let is = |it: &Watched| key.may_be(&it.path) && it.watchers.has_recursive();
        self.recursive > 0 && self.find_hashed(key.hash, is).is_some()
    }

    /// Adds modes to a connection's watch of a path.
    pub(in crate::engine) fn add(&mut self, path: &str, connection: ConnectionId, modes: Modes) {
        let known = self.numbers.get(&connection).copied();
        let Some(connection) = known.or_else(|| self.add_connection(connection)) else { return };
        let place = self.find(path);
        let watched = place.and_then(|place| self.paths.get_mut(place));
        let recursive = modes.has(Modes::RECURSIVE);
        if let Some(watched) = watched
            && let Some(before) = watched.watchers.get(connection).map(|watch| watch.modes)
        {
            self.recursive += usize::from(recursive && !before.has(Modes::RECURSIVE));
            watched.watchers.set_modes(connection, before.with(modes));
            return;
        }
        let next = self.connections.get(connection.slot()).map_or(NONE, |watcher| watcher.first);
        let watch = Watch { modes, previous: NONE, next };
        let place = match place {
            Some(place) => {
                if let Some(watched) = self.paths.get_mut(place) {
                    watched.watchers.add(connection, watch);
                }
                place
            }
            None => match self.add_path(path, connection, watch) {
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
        let number = Number::of(slot)?;
        self.numbers.insert(id, number);
        Some(number)
    }

    fn add_path(&mut self, path: &str, connection: Number, watch: Watch) -> Option<u32> {
        let watched = Watched { path: path.into(), watchers: Watchers::One(connection, watch) };
        let number = self.paths.insert(watched)?;
        self.path_bytes += path.len();
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
        self.paths.get_mut(place)?.watchers.get_mut(connection)
    }

    /// How a connection watches a path.
    pub(super) fn modes(&self, path: &str, connection: ConnectionId) -> Modes {
        let modes = || {
            let connection = self.numbers.get(&connection)?;
            Some(self.paths.get(self.find(path)?)?.watchers.get(*connection)?.modes)
        };
        modes().unwrap_or_default()
    }

    /// Takes modes from a watch; whether it had one of them.
    pub(in crate::engine) fn remove(
        &mut self,
        path: &str,
        connection: ConnectionId,
        modes: Modes,
    ) -> bool {
        let Some(&number) = self.numbers.get(&connection) else { return false };
        let Some(place) = self.find(path) else { return false };
        self.remove_at(place, number, modes)
    }

    fn remove_at(&mut self, place: u32, connection: Number, modes: Modes) -> bool {
        let Some(watched) = self.paths.get_mut(place) else { return false };
        let Some(watch) = watched.watchers.get(connection).filter(|watch| watch.modes.has(modes))
        else {
            return false;
        };
        let removed = *watch;
        let left = removed.modes.without(modes);
        if removed.modes.has(Modes::RECURSIVE) && !left.has(Modes::RECURSIVE) {
            self.recursive -= 1;
        }
        if !left.is_empty() {
            watched.watchers.set_modes(connection, left);
        } else {
            if watched.watchers.remove(connection) {
                self.remove_path(place);
            }
            self.unlink(connection, removed);
        }
        true
    }

    /// Takes a watch that is no more from its connection's list, and forgets a connection without
    /// any.
    fn unlink(&mut self, connection: Number, removed: Watch) {
        let Watch { previous, next, .. } = removed;
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

    /// Forgets a path that nobody watches any more.
    fn remove_path(&mut self, place: u32) {
        let Some(watched) = self.paths.remove(place) else { return };
        self.path_bytes -= watched.path.len();
        let hash = hash(&self.hasher, &watched.path);
        if let Some(shard) = self.index.get_mut(shard_of(hash))
            && let Ok(entry) = shard.find_entry(hash.rotate_left(SHARD_BITS), |it| *it == place)
        {
            entry.remove();
        }
    }

    /// Takes away watches of a connection as far as `left` covers what their paths cost, or little
    /// further; whether these were all.
    pub(in crate::engine) fn forget(&mut self, connection: ConnectionId, left: &mut usize) -> bool {
        while *left > 0
            && let Some(&number) = self.numbers.get(&connection)
            && let Some(first) = self.connections.get(number.slot()).map(|watcher| watcher.first)
            && let Some(cost) = self.paths.get(first).map(|watched| path::cost(&watched.path))
            && self.remove_at(first, number, Modes::ANY)
        {
            *left = left.saturating_sub(cost);
        }
        // Whoever comes again while there are more must not come for ever.
        *left > 0 || !self.numbers.contains_key(&connection)
    }

    /// Who is told of a change of `path`: its own watchers, whose one-shot watches end, then the
    /// recursive ones above. Everyone once, in their order.
    pub(super) fn trigger(&mut self, path: &str) -> Vec<ConnectionId> {
        let mut receivers: Vec<ConnectionId> = Vec::new();
        if let Some(place) = self.find(path)
            && let Some(watched) = self.paths.get_mut(place)
        {
            let connections = &self.connections;
            let (ended, is_empty) = watched.watchers.fire(|number| {
                receivers.extend(connections.get(number.slot()).map(|watcher| watcher.id));
            });
            if is_empty {
                self.remove_path(place);
            }
            for (connection, watch) in ended {
                self.unlink(connection, watch);
            }
        }
        if self.recursive > 0 && !planted::is("recursion-blind") {
            self.watching_all_below(path, &mut receivers);
        }
        receivers.sort_unstable();
        receivers.dedup();
        receivers
    }

    /// Who has a recursive watch of a path above this one. Every byte of the path is looked at
    /// twice, however many names it has.
    fn watching_all_below(&self, path: &str, receivers: &mut Vec<ConnectionId>) {
        let mut hasher = self.hasher.build_hasher();
        let mut above_len = 0;
        let mut names = path::names(path).peekable();
        while let Some(name) = names.next()
            && names.peek().is_some()
        {
            path::add_name(&mut hasher, name);
            above_len += name.len();
            let above = path.get(..above_len).unwrap_or_default();
            above_len += 1;
            let hash = match above {
                "" => hash(&self.hasher, path::ROOT),
                _ => hasher.clone().finish(),
            };
            let above = path::canonical(above);
            let is = |it: &Watched| it.watchers.has_recursive() && *it.path == *above;
            let watched = self.find_hashed(hash, is).and_then(|place| self.paths.get(place));
            if let Some(watched) = watched {
                watched.watchers.recursive(|number| {
                    let watcher = self.connections.get(number.slot());
                    receivers.extend(watcher.map(|watcher| watcher.id));
                });
            }
        }
    }

    /// Where a walk begins. It ends where the watches end now.
    pub(in crate::engine) fn begin_walk(&self) -> WatchPlace {
        WatchPlace { place: 0, after: None, end: self.paths.end() }
    }

    /// Looks at watches from a place on, path by path, until `each` has had enough or so many
    /// places and watches were looked at, which is at least two. Gives where to go on; nothing at
    /// the end.
    pub(in crate::engine) fn walk(
        &self,
        from: WatchPlace,
        most: usize,
        mut each: impl FnMut(WatchPair, &str, ConnectionId) -> bool,
    ) -> Option<WatchPlace> {
        let WatchPlace { mut place, mut after, end } = from;
        let (mut left, mut goes_on) = (most.max(2), true);
        while place < end {
            if left == 0 || !goes_on {
                return Some(WatchPlace { place, after, end });
            }
            left -= 1;
            if let Some(watched) = self.paths.get(place) {
                let is_over = watched.watchers.each_after(after, |number| {
                    if left == 0 || !goes_on {
                        return false;
                    }
                    left -= 1;
                    after = Some(number);
                    if let Some(watcher) = self.connections.get(number.slot()) {
                        goes_on = each(WatchPair::of(number, place), &watched.path, watcher.id);
                    }
                    true
                });
                if !is_over {
                    return Some(WatchPlace { place, after, end });
                }
            }
            (place, after) = (place + 1, None);
        }
        None
    }

    /// Who watches what by a pair that a walk came by, if they still do.
    pub(super) fn watch_of(&self, pair: WatchPair) -> Option<(ConnectionId, &str)> {
        let number = Number::of(pair.connection())?;
        let watched = self.paths.get(pair.place())?;
        watched.watchers.get(number)?;
        Some((self.connections.get(number.slot())?.id, &*watched.path))
    }
}

/// Where a walk over all watches goes on. What is added or goes meanwhile may or may not be seen;
/// what stays is, once.
#[derive(Debug, Clone, Copy)]
pub struct WatchPlace {
    place: u32,
    end: u32,
    /// The watchers up to this one were seen.
    after: Option<Number>,
}

/// A connection and a path that it watches, in as few bytes as will do; in the order of
/// connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchPair(u64);

impl WatchPair {
    const fn of(number: Number, place: u32) -> Self {
        Self((number.slot() as u64) << u32::BITS | place as u64)
    }

    const fn place(self) -> u32 {
        (self.0 & u32::MAX as u64) as u32
    }

    /// A small number of the connection, which is another one's when it is gone.
    #[must_use]
    pub const fn connection(self) -> u32 {
        (self.0 >> u32::BITS) as u32
    }
}

#[cfg(test)]
#[path = "registry_test.rs"]
mod registry_test;
