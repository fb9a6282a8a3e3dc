//! Programs on clients that nobody here wrote, in their own languages, on Apache ZooKeeper and on
//! the server under test. Each looks at what its client can do with one server: replies and
//! errors, watches, a cut connection, the end of its session.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use compat_tests::compatibility::{Client, on_both};
use compat_tests::{Program, Proxy, Server, cache, installed, repository};

const WHAT: &str = "a program on its API, cut connections and expiry too";

/// What the programs know of their server.
const CONFIG: &[&str] = &[
    "extendedTypesEnabled=true",
    "znode.container.checkIntervalMs=300",
    "minSessionTimeout=1000",
    "maxSessionTimeout=4000",
    "tickTime=500",
];

/// A client's program, compiled once for both servers, which ask for it at the same time.
/// `compile` is told of the source and of a place for the binary.
fn built(source: &str, binary: &str, compile: impl FnOnce(&str, &str) -> Command) -> PathBuf {
    static DONE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    let source = repository().join("compat-tests/clients").join(source);
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join(binary);
    if done.insert(binary.clone()) {
        let mut command = compile(&source.display().to_string(), &binary.display().to_string());
        let output = command.output().expect("the compiler runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    binary
}

/// Runs a program with what it needs to know: the server, a proxy before it, the proxy's control.
fn run(words: &[String], server: &Server) -> Program {
    let proxy = Proxy::before(server.address());
    let known = [server.host_port(), proxy.address.to_string(), proxy.control.port().to_string()];
    Program::start(&[words, &known].concat(), &[])
}

/// The version of a Debian package.
fn debian(package: &str) -> String {
    format!("{} (Debian)", installed::debian_package(package))
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
    let version = debian("libzookeeper-mt-dev");
    let client = Client { name: "C client, libzookeeper_mt", version: &version, what: WHAT };
    on_both(client, &C, CONFIG, |server| {
        let binary = built("c/checks.c", "c-checks", |source, binary| {
            let mut cc = Command::new("cc");
            cc.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-DTHREADED"]);
            cc.args(["-o", binary, source, "-lzookeeper_mt", "-lpthread"]);
            cc
        });
        run(&[binary.display().to_string()], server)
    });
}

const GO: [&str; 19] = [
    "session",
    "stats",
    "versions",
    "ephemerals",
    "sequence",
    "errors",
    "children",
    "acls",
    "auth",
    "multi",
    "watches",
    "cut connection",
    "expiry",
    "locks",
    "unicode",
    "big values",
    "burst",
    "sync",
    "ruok",
];

#[test]
#[ignore = "scripts/test --all"]
fn go_client() {
    let client = Client {
        name: "Go client, samuel/go-zookeeper",
        version: &debian("golang-github-samuel-go-zookeeper-dev"),
        what: WHAT,
    };
    on_both(client, &GO, CONFIG, |server| {
        let binary = built("go/checks.go", "go-checks", |source, binary| {
            let mut go = Command::new("go");
            go.args(["build", "-o", binary, source]);
            // Debian's sources of packages, and nothing from the network.
            go.env("GO111MODULE", "off").env("GOPATH", "/usr/share/gocode").env("GOFLAGS", "");
            go
        });
        run(&[binary.display().to_string()], server)
    });
}

const NODE: [&str; 17] = [
    "session",
    "stats",
    "versions",
    "ephemerals",
    "sequence",
    "errors",
    "children",
    "acls",
    "auth",
    "multi",
    "watches",
    "cut connection",
    "expiry",
    "attach",
    "unicode",
    "big values",
    "burst",
];

#[test]
#[ignore = "scripts/test --all"]
fn node_client() {
    let version = installed::node_package("node-zookeeper-client");
    let client =
        Client { name: "Node client, node-zookeeper-client", version: &version, what: WHAT };
    on_both(client, &NODE, CONFIG, |server| {
        let program = repository().join("compat-tests/clients/node/checks.js");
        // Debian's node and others alike look here.
        let packages = format!("NODE_PATH={}", cache().join("node/node_modules").display());
        let words = ["env", &packages, "node", &program.display().to_string()].map(String::from);
        run(&words, server)
    });
}

const RUST: [&str; 23] = [
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
    "persistent watches",
    "cut connection",
    "expiry",
    "attach",
    "locks",
    "unicode",
    "big values",
    "burst",
    "sync and config",
    "chroots",
];

#[test]
#[ignore = "scripts/test --all"]
fn rust_client() {
    let version = installed::rust_crate("rust", "zookeeper-client");
    let client = Client { name: "Rust client, zookeeper-client", version: &version, what: WHAT };
    on_both(client, &RUST, CONFIG, |server| {
        let folder = built("rust/Cargo.toml", "rust-client", |manifest, folder| {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "--locked", "--manifest-path", manifest]);
            cargo.args(["--target-dir", folder]);
            cargo
        });
        run(&[folder.join("debug/checks").display().to_string()], server)
    });
}

const RUST_CRATES: [&str; 6] = [
    "zookeeper: containers",
    "zookeeper: ZkQueue",
    "zookeeper: LeaderLatch",
    "zookeeper-async: shared_lock",
    "zookeeper-async: LeaderLatch",
    "tokio-zookeeper: containers",
];

/// Crates whose recipes make znodes by a create with the flags of a container.
#[test]
#[ignore = "scripts/test --all"]
fn rust_crates() {
    let versions = ["zookeeper", "zookeeper-async", "tokio-zookeeper"]
        .map(|name| installed::rust_crate("rust_crates", name));
    let client = Client {
        name: "Rust crates zookeeper, zookeeper-async, tokio-zookeeper",
        version: &versions.join(", "),
        what: "their queue, locks and latches",
    };
    on_both(client, &RUST_CRATES, CONFIG, |server| {
        let folder = built("rust_crates/Cargo.toml", "rust-crates", |manifest, folder| {
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args(["build", "--quiet", "--locked", "--manifest-path", manifest]);
            cargo.args(["--target-dir", folder]);
            cargo
        });
        let program = folder.join("debug/checks").display().to_string();
        Program::start(&[program, server.address().to_string()], &[])
    });
}

/// It builds each chroot by such a create, and its package has its suite.
#[test]
#[ignore = "scripts/test --all"]
fn aiozk_suite() {
    let folder = repository().join("compat-tests/clients/aiozk");
    let tests = std::fs::read_to_string(folder.join("tests.txt")).expect("the suite's tests");
    let tests: Vec<&str> = tests.lines().collect();
    let version = installed::python_package("aiozk", "aiozk");
    let client = Client { name: "aiozk", version: &version, what: "its own test suite" };
    on_both(client, &tests, &["extendedTypesEnabled=true"], |server| {
        let python = cache().join("aiozk/bin/python");
        let words = [python, folder.join("run.py")].map(|path| path.display().to_string());
        Program::start(&[&words[..], &[server.address().to_string()]].concat(), &[])
    });
}
