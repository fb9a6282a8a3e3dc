//! Curator's recipes on Apache ZooKeeper and on the server under test: clients in competition,
//! connections cut, sessions ended behind their backs.

use compat_tests::compatibility::{Client, on_both};
use compat_tests::{Java, classpath};

const CONFIG: &[&str] = &["extendedTypesEnabled=true", "znode.container.checkIntervalMs=500"];

const RECIPES: [&str; 34] = [
    "atomic-long",
    "barrier",
    "cache",
    "delay-queue",
    "double-barrier",
    "group-member",
    "latch",
    "latch-with-killed-sessions",
    "multi-lock",
    "mutex",
    "mutex-with-cut-connections",
    "mutex-with-killed-sessions",
    "namespaces",
    "node-cache",
    "path-children-cache",
    "persistent-node",
    "persistent-ttl-node",
    "persistent-watcher",
    "priority-queue",
    "queue",
    "queue-in-competition",
    "queue-with-killed-session",
    "read-write-lock",
    "revocable-mutex",
    "selector",
    "semaphore",
    "semaphore-mutex",
    "semaphore-of-shared-count",
    "shared-count",
    "simple-queue",
    "transactions",
    "transactions-in-competition",
    "tree-cache",
    "waiters",
];

const WHAT: &str = "recipes, clients in competition, connections cut, sessions ended";

#[test]
fn recipes() {
    let program = Java::compile(&["curator"], classpath());
    let curator = Client { name: "Curator", version: "5.9.0", what: WHAT };
    on_both(curator, &RECIPES, CONFIG, |server| program.start("Recipes", server));
}
