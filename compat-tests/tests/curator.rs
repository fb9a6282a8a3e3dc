//! Curator's recipes on Apache ZooKeeper and on the server under test, two competing clients each.

use compat_tests::compatibility::{Client, on_both};
use compat_tests::{Program, Server, classpath, repository};

const RECIPES: [&str; 9] = [
    "mutex",
    "mutex-with-cut-connections",
    "latch",
    "cache",
    "persistent-node",
    "persistent-watcher",
    "persistent-ttl-node",
    "transactions",
    "waiters",
];

/// A source file runs as it is: Debian's headless JRE has the compiler, only not javac.
fn start(server: &Server) -> Program {
    let program = repository().join("compat-tests/clients/curator/Recipes.java");
    let words = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-Dlog4j2.level=OFF",
        "-cp",
        &classpath(),
        &program.display().to_string(),
        &server.host_port(),
    ];
    Program::start(&words.map(String::from), &[])
}

#[test]
fn recipes() {
    let curator =
        Client { name: "Curator", version: "5.9.0", what: "recipes, two clients in competition" };
    let config = &["extendedTypesEnabled=true", "znode.container.checkIntervalMs=500"];
    on_both(curator, &RECIPES, config, start);
}
