use std::collections::{BTreeMap, BTreeSet};

use super::super::watchers::TOUCHED;
use super::*;
use crate::engine::slab::Slot;

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

/// How many watches `work` touches because of others.
fn touched(work: impl FnOnce()) -> usize {
    let before = TOUCHED.get();
    work();
    TOUCHED.get() - before
}

#[test]
fn a_watcher_costs_the_same_however_many_others_watch_the_path() {
    const CONNECTIONS: u64 = 20_000;
    let mut registry = Registry::new(5);
    let connections = || (0..CONNECTIONS).map(ConnectionId);
    // Every second one goes and comes again, so that numbers are not given out in their order.
    let each_with_one_more = |registry: &mut Registry| {
        touched(|| {
            connections().for_each(|id| registry.add("/x", id, Modes::STANDARD));
            connections().step_by(2).for_each(|id| _ = registry.forget(id, &mut { usize::MAX }));
            connections().step_by(2).for_each(|id| registry.add("/x", id, Modes::STANDARD));
        })
    };
    assert!(each_with_one_more(&mut registry) < 4096);
    assert_eq!(registry.count(), CONNECTIONS as usize);
    let gone =
        touched(|| connections().for_each(|id| _ = registry.forget(id, &mut { usize::MAX })));
    assert!(gone < 4096, "{gone}");
    assert_eq!((registry.paths(), registry.connections()), (0, 0));
    // All of them are told, and none is left.
    each_with_one_more(&mut registry);
    assert!(registry.trigger("/x").into_iter().eq(connections()));
    assert_eq!((registry.paths(), registry.connections()), (0, 0));
}

#[test]
fn who_watches_a_path_alone_costs_nothing_when_something_below_changes() {
    let mut registry = Registry::new(5);
    (0..10_000).map(ConnectionId).for_each(|id| registry.add("/", id, Modes::STANDARD));
    registry.add("/", ConnectionId(7), Modes::RECURSIVE);
    let cost = touched(|| {
        for _ in 0..100 {
            assert_eq!(registry.trigger("/x/y"), [ConnectionId(7)]);
        }
    });
    assert!(cost < 1000, "{cost}");
    registry.remove("/", ConnectionId(7), Modes::RECURSIVE);
    registry.add("/elsewhere", ConnectionId(7), Modes::RECURSIVE);
    assert!(registry.trigger("/x/y").is_empty());
    assert_eq!(registry.modes("/", ConnectionId(7)), Modes::STANDARD);
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
        // On one path there are so many that their watches change their form now and then.
        let connection = ConnectionId(dice(if path == "/" { 50 } else { 9 }));
        let modes = all_modes[dice(3) as usize];
        match dice(20) {
            0 => {
                let most = dice(20) as usize;
                let before = registry.count();
                let mut left = most;
                let is_over = registry.forget(connection, &mut left);
                assert_eq!(before - registry.count(), most - left);
                let own = model.0.keys().filter(|(_, of)| *of == connection).count();
                assert_eq!((most - left, is_over), (own.min(most), own <= most));
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
    assert_eq!((registry.paths(), registry.connections()), (by_path.len(), by_connection.len()));
    let mut walked: Vec<(String, ConnectionId)> = Vec::new();
    let mut place = Some(registry.begin_walk());
    while let Some(from) = place {
        place = registry.walk(from, 5, |pair, path, connection| {
            assert_eq!(registry.watch_of(pair), Some((connection, path)));
            walked.push((path.to_owned(), connection));
            !walked.len().is_multiple_of(3)
        });
    }
    walked.sort_unstable();
    let expected =
        by_path.iter().flat_map(|(path, all)| all.iter().map(|its| ((*path).to_owned(), *its)));
    assert_eq!(walked, expected.collect::<Vec<_>>());
    for connection in (0..50).map(ConnectionId) {
        registry.forget(connection, &mut { usize::MAX });
    }
    assert_eq!((registry.paths(), registry.connections(), registry.recursive()), (0, 0, 0));
    assert_eq!(registry.bytes(), 0);
    assert!(registry.index.iter().all(HashTable::is_empty));
}
