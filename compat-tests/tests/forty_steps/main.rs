//! Forty steps through three stock clients, against Apache ZooKeeper and against the server under
//! test: both must make the client print the same.
//!
//! The scripts are in `clients/`. A client that cannot do a step says `skip: why`. One more script
//! has the commands of zkCli that the forty steps leave out.

mod kazoo;
mod shell;
mod stage;

use std::thread;

use compat_tests::{Kind, Transcript};
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

const COMMANDS: [&str; 15] = [
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
];

/// Runs a script on both servers at the same time and compares. `PRINT_TRANSCRIPT` shows the
/// reference's run.
#[expect(clippy::print_stdout, reason = "asked for by whoever writes a script")]
fn compare(steps: &[&str], run: fn(&mut Stage) -> Vec<String>) {
    let start = |kind| thread::spawn(move || Transcript::new(&run(&mut Stage::new(kind))));
    let (reference, subject) = (start(Kind::Reference), start(Kind::subject()));
    let reference = reference.join().expect("the script runs through on the reference");
    let subject = subject.join().expect("the script runs through on the subject");
    for (number, name) in (1..).zip(steps) {
        let lines = reference.step(number).unwrap_or_default();
        assert!(!lines.is_empty(), "the script leaves out step {number}, {name}");
    }
    if std::env::var_os("PRINT_TRANSCRIPT").is_some() {
        println!("{reference}");
    }
    let diff = subject.diff(&reference, steps);
    assert!(diff.is_empty(), "the subject differs from Apache ZooKeeper:\n{diff}");
}

#[test]
fn zkcli_of_debian() {
    compare(&STEPS, |stage| shell::run(&shell::ZKCLI_OF_DEBIAN, stage));
}

#[test]
fn zkcli_of_the_reference() {
    compare(&STEPS, |stage| shell::run(&shell::ZKCLI_OF_THE_REFERENCE, stage));
}

#[test]
fn c_client() {
    compare(&STEPS, |stage| shell::run(&shell::CLI_MT, stage));
}

#[test]
fn kazoo_client() {
    compare(&STEPS, kazoo::run);
}

#[test]
fn zkcli_commands() {
    compare(&COMMANDS, |stage| shell::run(&shell::ZKCLI_COMMANDS, stage));
}
