//! Curator's recipes on Apache ZooKeeper and on the server under test: clients in competition,
//! connections cut, sessions ended after their backs.

use compat_tests::compatibility::{Client, LeaderKill, on_both, through_a_leader_kill};
use compat_tests::{Java, classpath, debian_jars, installed};

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
    let version = installed::jar(&classpath(), "curator-recipes");
    let curator = Client { name: "Curator", version: &version, what: WHAT };
    on_both(curator, &RECIPES, CONFIG, |server| program.start("Recipes", server));
}

/// A server may show its clients the first puts of a priority queue before it has heard of the
/// last.
const IN_ONE_PLACE: &str = "priority-queue";

/// A third of them is done when the leader is killed, two thirds when it is back.
#[test]
#[ignore = "scripts/test --all"]
fn recipes_through_the_end_of_a_leader() {
    let program = Java::compile(&["curator"], classpath());
    let what = "recipes on three servers, whose leader is killed and comes back";
    let version = installed::jar(&classpath(), "curator-recipes");
    let curator = Client { name: "Curator", version: &version, what };
    let kill = LeaderKill { killed: RECIPES.len() / 3, back: RECIPES.len() * 2 / 3 };
    let recipes: Vec<&str> = RECIPES.into_iter().filter(|recipe| *recipe != IN_ONE_PLACE).collect();
    through_a_leader_kill(curator, &recipes, CONFIG, kill, |hosts| {
        program.run("Recipes", &[hosts.to_owned()])
    });
}

/// With Debian's ZooKeeper client.
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
    let version = installed::debian_package("libcurator-recipes-java");
    let curator = Client { name: "Curator", version: &version, what: WHAT };
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
    let version = installed::debian_package("libcurator-discovery-java");
    let curator = Client { name: "Curator", version: &version, what };
    on_both(curator, &checks, CONFIG, |server| program.start("Discovery", server));
}
