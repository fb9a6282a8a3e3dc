//! Curator's recipes on the server under test, two competing clients each.

use compat_tests::{Kind, Program, Server, classpath, repository};

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

#[test]
fn recipes() {
    let server = Server::start(
        Kind::subject(),
        &["extendedTypesEnabled=true", "znode.container.checkIntervalMs=500"],
    );
    let program = repository().join("compat-tests/clients/curator/Recipes.java");
    // A source file runs as it is: Debian's headless JRE has the compiler, only not javac.
    let words = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-Dlog4j2.level=OFF",
        "-cp",
        &classpath(),
        &program.display().to_string(),
        &server.host_port(),
    ];
    let mut java = Program::start(&words.map(String::from), &[]);
    let mut lines = Vec::new();
    while let Some(line) = java.next_line() {
        lines.push(line);
    }
    let missing: Vec<&str> =
        RECIPES.into_iter().filter(|recipe| !lines.contains(&format!("ok {recipe}"))).collect();
    assert!(missing.is_empty(), "not ok: {}\n{}", missing.join(", "), lines.join("\n"));
}
