//! Forty steps through three stock clients, against Apache ZooKeeper and against the server under
//! test: both must make the client print the same.
//!
//! This repository's own shell is given the scripts of zkCli, and must print what zkCli prints.
//!
//! The scripts are in `clients/`. A client that cannot do a step says `skip: why`. Two more scripts
//! have the commands of zkCli that the forty steps leave out, typed in and each as a run of its
//! own.

mod python;
mod shell;
mod stage;

use std::thread;

use compat_tests::compatibility::{Client, Outcome, record};
use compat_tests::{Kind, Transcript, classpath, installed};
use shell::Shell;
use stage::Stage;

const STEPS: [&str; 40] = [
    "create persistent",
    "null and empty data",
    "create nested",
    "create without a parent",
    "create what exists",
    "create ephemeral",
    "create below an ephemeral",
    "create sequential",
    "create ephemeral sequential",
    "bad paths",
    "unicode path and data",
    "big data",
    "stat",
    "get",
    "set",
    "set with the right version",
    "set with a wrong version",
    "get and set what is missing",
    "list",
    "list with stat",
    "list what is missing",
    "delete with a wrong version",
    "delete what has children",
    "delete what is missing",
    "delete",
    "check",
    "multi that succeeds",
    "multi that fails",
    "data watch",
    "child watch",
    "exists watch",
    "order of watches",
    "sync",
    "ephemerals are gone after close",
    "ephemerals are gone after expiry",
    "attach again with id and password",
    "wrong password refused",
    "restart with the session kept and a missed change reported",
    "kill -9 with everything acknowledged there",
    "four-letter words",
];

const COMMANDS: [&str; 26] = [
    "trees",
    "deleteall",
    "containers",
    "times to live",
    "reserved znodes",
    "ACLs",
    "digest",
    "super",
    "a stranger",
    "quotas",
    "persistent watches",
    "recursive watches",
    "removed watches",
    "configuration",
    "sync",
    "every way to create",
    "every way to read",
    "deleteall in batches",
    "ACLs of a tree",
    "who is there",
    "quotas of every kind",
    "watches of every kind",
    "the configuration",
    "wrong usage",
    "what needs no server",
    "older forms and other spellings",
];

const ONE_SHOTS: [&str; 7] =
    ["writes", "reads", "access", "quotas", "watches", "the configuration", "of the shell itself"];

const ZK_SHELL: [&str; 8] =
    ["create and read", "change", "find", "copies", "transactions", "access", "JSON", "many"];

const FORTY: &str = "forty steps, its output";

/// The version of a Debian package.
fn debian(package: &str) -> String {
    format!("{} (Debian)", installed::debian_package(package))
}

/// That of ZooKeeper's client.
fn zookeeper() -> String {
    installed::jar(&classpath(), "zookeeper")
}

/// Runs a script on both servers at the same time, compares and leaves the client's row.
/// `PRINT_TRANSCRIPT` shows the reference's run, whose lines are returned.
#[expect(clippy::print_stdout, reason = "asked for by whoever writes a script")]
fn compare(
    client: Client<'_>,
    steps: &[&str],
    run: impl Fn(&mut Stage) -> Vec<String> + Copy + Send + 'static,
) -> Vec<String> {
    let start = |kind| thread::spawn(move || run(&mut Stage::new(kind)));
    let (reference, subject) = (start(Kind::Reference), start(Kind::subject()));
    let printed = reference.join().expect("the script runs through on the reference");
    let reference = Transcript::new(&printed);
    let subject = subject.join().expect("the script runs through on the subject");
    let subject = Transcript::new(&subject);
    let (mut there, mut here) = (Outcome::default(), Outcome::default());
    let mut done = Vec::new();
    for (number, name) in (1..).zip(steps) {
        let lines = reference.step(number).unwrap_or_default();
        assert!(!lines.is_empty(), "the script leaves out step {number}, {name}");
        if lines.iter().all(|line| line.starts_with("skip: ")) {
            continue;
        }
        done.push(*name);
        there.passed(name);
        if subject.step(number) == Some(lines) {
            here.passed(name);
        }
    }
    record(client, &there.cell(&done), &here.cell(&done), "");
    if std::env::var_os("PRINT_TRANSCRIPT").is_some() {
        println!("{reference}");
    }
    let diff = subject.diff(&reference, steps);
    assert!(diff.is_empty(), "the subject differs from Apache ZooKeeper:\n{diff}");
    printed
}

/// As [`compare`], and gives the script to this repository's own shell on both servers: it must
/// print what the client printed on the reference.
fn compare_own(client: Client<'_>, steps: &[&str], zkcli: &'static Shell, own: &'static Shell) {
    let start =
        |kind| thread::spawn(move || shell::run(own, &mut Stage::with_session(kind, own.session)));
    let (there, here) = (start(Kind::Reference), start(Kind::subject()));
    let printed = compare(client, steps, |stage| shell::run(zkcli, stage));
    let transcript = |lines: &[String]| Transcript::new(&shell::without_known_differences(lines));
    let expected = transcript(&printed);
    for (run, server) in [(there, "Apache ZooKeeper"), (here, "the subject")] {
        let run = run.join().unwrap_or_else(|_| panic!("the script runs through on {server}"));
        let diff = transcript(&run).diff(&expected, steps);
        assert!(diff.is_empty(), "on {server} the shell differs from zkCli:\n{diff}");
    }
}

#[test]
fn zkcli_of_debian() {
    let client = Client { name: "zkCli.sh", version: &debian("zookeeper"), what: FORTY };
    compare(client, &STEPS, |stage| shell::run(&shell::ZKCLI_OF_DEBIAN, stage));
}

#[test]
fn zkcli_of_the_reference() {
    let client = Client { name: "zkCli", version: &zookeeper(), what: FORTY };
    compare_own(client, &STEPS, &shell::ZKCLI_OF_THE_REFERENCE, &shell::FERROKEEPER_CLI);
}

#[test]
fn c_client() {
    let client =
        Client { name: "C client, cli_mt", version: &debian("zookeeper-bin"), what: FORTY };
    compare(client, &STEPS, |stage| shell::run(&shell::CLI_MT, stage));
}

#[test]
fn kazoo_client() {
    let version = installed::python_package("venv", "kazoo");
    compare(Client { name: "kazoo", version: &version, what: FORTY }, &STEPS, python::kazoo);
}

#[test]
#[ignore = "scripts/test --all"]
fn zk_shell() {
    let client = Client {
        name: "zk-shell",
        version: &installed::python_package("zk-shell", "zk-shell"),
        what: "its commands except those that print statistics, their output",
    };
    compare(client, &ZK_SHELL, python::zk_shell);
}

#[test]
fn zkcli_commands() {
    let client = Client {
        name: "zkCli",
        version: &zookeeper(),
        what: "every command and option, wrong usage too, its output",
    };
    compare_own(client, &COMMANDS, &shell::ZKCLI_COMMANDS, &shell::FERROKEEPER_CLI_COMMANDS);
}

#[test]
fn zkcli_commands_of_debian() {
    let client = Client {
        name: "zkCli.sh",
        version: &debian("zookeeper"),
        what: "every command and option, wrong usage too, its output",
    };
    compare(client, &COMMANDS, |stage| shell::run(&shell::ZKCLI_COMMANDS_OF_DEBIAN, stage));
}

#[test]
fn zkcli_one_shot() {
    let client = Client {
        name: "zkCli",
        version: &zookeeper(),
        what: "a command for each run, output and exit code",
    };
    compare_own(client, &ONE_SHOTS, &shell::ZKCLI_ONE_SHOT, &shell::FERROKEEPER_CLI_ONE_SHOT);
}
