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
