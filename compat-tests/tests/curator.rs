//! Curator's recipes on Apache ZooKeeper and on the server under test: clients in competition,
//! connections cut, sessions ended behind their backs.

use compat_tests::compatibility::{Client, on_both};
use compat_tests::{Java, classpath, debian_jars};

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

/// With the ZooKeeper client 3.8.0.
fn debian() -> Java {
    let jars = debian_jars(&[
        "curator-client",
        "curator-framework",
        "curator-recipes",
        "curator-x-discovery",
        "zookeeper",
        "slf4j-nop",
    ]);
    Java::compile(&["curator", "curator_discovery"], jars)
}

#[test]
#[ignore = "scripts/test --all"]
fn recipes_of_debian() {
    let program = debian();
    let curator = Client { name: "Curator", version: "5.4.0", what: WHAT };
    on_both(curator, &RECIPES, CONFIG, |server| program.start("Recipes", server));
}

#[test]
#[ignore = "scripts/test --all"]
fn service_discovery() {
    let program = debian();
    let what = "service discovery, connections cut, sessions ended";
    let checks = [
        "discovery-queries",
        "discovery-provider",
        "discovery-cache",
        "discovery-with-killed-sessions",
    ];
    let curator = Client { name: "Curator", version: "5.4.0", what };
    on_both(curator, &checks, CONFIG, |server| program.start("Discovery", server));
}
