//! The number spaces against the constants of ZooKeeper's classes.

use std::collections::BTreeMap;

use jute::protocol::{AddWatchMode, EventType, WatcherType};
use jute::{CreateMode, ErrorCode, OpCode, perms};

/// The numbers of one kind, each with its name in letters and digits only, lower case, and what
/// stands behind it.
fn numbers(kind: &str) -> BTreeMap<i32, (String, Vec<&'static str>)> {
    include_str!("numbers.txt")
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix(kind)?.strip_prefix(' ')?.split(' ');
            let number = words.next()?.parse().expect("a number");
            Some((number, (plain(words.next()?), words.collect())))
        })
        .collect()
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| *c != '_').flat_map(char::to_lowercase).collect()
}

fn named<T: std::fmt::Debug>(value: T) -> String {
    plain(&format!("{value:?}"))
}

/// Every number near those that exist.
const RANGE: std::ops::Range<i32> = -1000..1000;

#[test]
fn operations() {
    let java = numbers("op");
    assert_eq!(java.len(), 33);
    for number in RANGE {
        let ours = OpCode::from_code(number);
        assert_eq!(ours.map(named), java.get(&number).map(|(name, _)| name.clone()), "{number}");
        assert_eq!(ours.map_or(number, OpCode::code), number);
    }
}

#[test]
fn errors() {
    let mut java = numbers("error");
    assert_eq!(java.len(), 32);
    assert_eq!(java.remove(&0).expect("OK").0, "ok"); // here the absence of an error
    for number in RANGE {
        let ours = ErrorCode::from_code(number);
        assert_eq!(ours.map(named), java.get(&number).map(|(name, _)| name.clone()), "{number}");
        assert_eq!(ours.map_or(number, ErrorCode::code), number);
    }
}

#[test]
fn create_modes() {
    let java = numbers("mode");
    assert_eq!(java.len(), 7);
    for number in RANGE {
        let ours = CreateMode::from_flags(number).map(|mode| {
            assert_eq!(mode.flags(), number);
            let is_container = mode.op_code() == OpCode::CreateContainer;
            let is_ttl = mode.op_code() == OpCode::CreateTtl;
            assert_eq!(is_ttl, mode.is_ttl());
            let is = [mode.is_ephemeral(), mode.is_sequential(), is_container, is_ttl];
            (named(mode), is.map(|is| if is { "true" } else { "false" }).to_vec())
        });
        assert_eq!(ours.as_ref(), java.get(&number), "{number}");
    }
}

#[test]
fn watches() {
    use WatcherType::{Any, Children, Data, Persistent, PersistentRecursive};
    let types = [Children, Data, Any, Persistent, PersistentRecursive];
    check(&numbers("watcher"), types.map(|ours| (ours as i32, named(ours))));
    let modes = [AddWatchMode::Persistent, AddWatchMode::PersistentRecursive];
    check(&numbers("watch"), modes.map(|ours| (ours as i32, named(ours))));

    let mut events = numbers("event");
    // None and the removals are made up by clients.
    events.retain(|number, _| (1..=4).contains(number));
    use EventType::{NodeChildrenChanged, NodeCreated, NodeDataChanged, NodeDeleted};
    let types = [NodeCreated, NodeDeleted, NodeDataChanged, NodeChildrenChanged];
    check(&events, types.map(|ours| (ours.code(), named(ours))));
}

#[test]
fn permissions() {
    let ours = [
        (perms::READ, "read"),
        (perms::WRITE, "write"),
        (perms::CREATE, "create"),
        (perms::DELETE, "delete"),
        (perms::ADMIN, "admin"),
        (perms::ALL, "all"),
    ];
    check(&numbers("perm"), ours.map(|(bits, name)| (bits, name.to_owned())));
}

fn check<const N: usize>(
    java: &BTreeMap<i32, (String, Vec<&'static str>)>,
    ours: [(i32, String); N],
) {
    let java: BTreeMap<i32, String> =
        java.iter().map(|(number, (name, _))| (*number, name.clone())).collect();
    assert_eq!(BTreeMap::from(ours), java);
}
