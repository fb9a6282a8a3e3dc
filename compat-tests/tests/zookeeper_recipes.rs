//! The recipes of ZooKeeper's own distribution on Apache ZooKeeper and on the server under test:
//! five clients, connections cut, sessions ended after their backs.

use compat_tests::compatibility::{Client, on_both};
use compat_tests::{Java, debian_jars, installed};

fn run(class: &str, what: &str, checks: &[&str]) {
    let jars = debian_jars(&[
        "zookeeper-recipes-lock",
        "zookeeper-recipes-queue",
        "zookeeper-recipes-election",
        "zookeeper",
        "slf4j-nop",
    ]);
    let program = Java::compile(&["zookeeper_recipes"], jars);
    let version = installed::debian_package("libzookeeper-java");
    let client = Client { name: "ZooKeeper's recipes", version: &version, what };
    on_both(client, checks, &[], |server| program.start(class, server));
}

#[test]
fn write_lock() {
    let checks =
        ["write-lock", "write-lock-with-cut-connections", "write-lock-with-killed-sessions"];
    run("WriteLocks", "WriteLock, five clients, connections cut, sessions ended", &checks);
}

#[test]
fn distributed_queue() {
    let checks = ["queue-order", "queue-in-competition", "queue-with-kills"];
    run("DistributedQueues", "DistributedQueue, connections cut, sessions ended", &checks);
}

#[test]
fn leader_election_support() {
    let checks = [
        "election-resigned",
        "election-killed",
        "election-with-cut-connections",
        "election-killed-while-away",
        "election-without-the-middle",
    ];
    run("Elections", "LeaderElectionSupport, five candidates, cut and killed", &checks);
}
