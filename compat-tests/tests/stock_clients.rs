//! Programs on clients that nobody here wrote, in their own languages, on Apache ZooKeeper and on
//! the server under test. Each looks at what its client can do with one server: replies and
//! errors, watches, a cut connection, the end of its session.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use compat_tests::compatibility::{Client, on_both};
use compat_tests::{Program, Proxy, Server, repository};
use tempfile::TempDir;

const WHAT: &str = "a program on its API, cut connections and expiry too";

/// What the programs know of their server.
const CONFIG: &[&str] = &[
    "extendedTypesEnabled=true",
    "znode.container.checkIntervalMs=300",
    "minSessionTimeout=1000",
    "maxSessionTimeout=4000",
    "tickTime=500",
];

/// A client's program, compiled once for both servers.
fn built(file: &'static str, compile: impl FnOnce(&str, &str) -> Command) -> PathBuf {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| TempDir::new().expect("a temporary directory"));
    let source = repository().join("compat-tests/clients").join(file);
    let binary = folder.path().join(file.replace('/', "-"));
    let mut command = compile(&source.display().to_string(), &binary.display().to_string());
    let output = command.output().expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    binary
}

/// Runs a program with what it needs to know: the server, a proxy before it, the proxy's control.
fn run(words: &[String], server: &Server) -> Program {
    let proxy = Proxy::before(server.address());
    let known = [server.host_port(), proxy.address.to_string(), proxy.control.port().to_string()];
    Program::start(&[words, &known].concat(), &[])
}

const C: [&str; 21] = [
    "session",
    "stats",
    "versions",
    "ephemerals",
    "sequence",
    "errors",
    "children",
    "containers",
    "times to live",
    "acls",
    "auth",
    "multi",
    "watches",
    "removed watches",
    "cut connection",
    "expiry",
    "attach",
    "unicode",
    "big values",
    "burst",
    "sync and config",
];

#[test]
fn c_client() {
    let client =
        Client { name: "C client, libzookeeper_mt", version: "3.8.0 (Debian)", what: WHAT };
    on_both(client, &C, CONFIG, |server| {
        let binary = built("c/checks.c", |source, binary| {
            let mut cc = Command::new("cc");
            cc.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-DTHREADED"]);
            cc.args(["-o", binary, source, "-lzookeeper_mt", "-lpthread"]);
            cc
        });
        run(&[binary.display().to_string()], server)
    });
}
