//! kazoo's own test suite, which starts the server by itself, or three of them: what passes with
//! Apache ZooKeeper passes with ferrokeeper.
//!
//! Apache ZooKeeper's outcomes are recorded in `clients/kazoo_suite/apache-3.9.5.txt` and, of three
//! servers, `apache-3.9.5-three.txt`; `SUBJECT=reference RECORD=1` writes them anew, and
//! `scripts/test --all` runs the suite against Apache ZooKeeper and compares. Which tests are left
//! out, and why, is in `left_out.txt` beside it. A test that fails is tried once more; more than
//! five are not.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use compat_tests::compatibility::{Client, record, second_try};
use compat_tests::{Kind, Program, classpath, ferrokeeper, installed, python, repository};

type Outcomes = BTreeMap<String, String>;

/// How many servers a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Servers {
    One,
    Three,
}

impl Servers {
    /// Where Apache ZooKeeper's outcomes are.
    fn recorded(self) -> PathBuf {
        let name = match self {
            Self::One => "apache-3.9.5.txt",
            Self::Three => "apache-3.9.5-three.txt",
        };
        repository().join("compat-tests/clients/kazoo_suite").join(name)
    }

    fn count(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Three => "3",
        }
    }
}

/// Of the run on three servers what each change must pass: the recipes, and a client that is given
/// other servers.
const SELECTION: [&str; 8] = [
    "test_barrier.py",
    "test_counter.py",
    "test_election.py",
    "test_lease.py",
    "test_lock.py",
    "test_party.py",
    "test_queue.py",
    "::test_update_host_list",
];

fn outcomes<'a>(lines: impl Iterator<Item = &'a str>) -> Outcomes {
    let tests = lines.filter(|line| line.starts_with("test_")).filter_map(|line| {
        let (test, outcome) = line.split_once(' ')?;
        let known = ["passed", "failed", "skipped", "left-out"].contains(&outcome);
        known.then(|| (test.into(), outcome.into()))
    });
    tests.collect()
}

/// Runs the suite, or the tests of it that are named; also returns what it says of failures.
fn run<'a>(
    kind: Kind,
    servers: Servers,
    tests: impl Iterator<Item = &'a String>,
) -> (Outcomes, Vec<String>) {
    let script = repository().join("compat-tests/clients/kazoo_suite/run.py");
    let mut words = vec![python().display().to_string(), script.display().to_string()];
    if kind == Kind::Reference {
        words.extend(["--reference".into(), classpath()]);
    }
    words.extend(["--servers".into(), servers.count().into()]);
    words.extend(tests.cloned());
    let binary = ferrokeeper().display().to_string();
    let mut suite = Program::start(&words, &[("FERROKEEPER_BIN", &binary)]);
    let mut lines = Vec::new();
    while let Some(line) = suite.next_line() {
        if !line.trim_matches('.').is_empty() {
            lines.push(line);
        }
    }
    let (succeeded, _) = suite.finish();
    assert!(succeeded, "the suite does not run:\n{}", lines.join("\n"));
    (outcomes(lines.iter().map(String::as_str)), lines)
}

/// A line for each file of the suite and the sum: tests that passed, of those that ran, and how
/// many are left out.
fn table(outcomes: &Outcomes) -> BTreeMap<&str, [usize; 3]> {
    let mut lines: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    for (test, outcome) in outcomes {
        let (file, _) = test.split_once(".py").unwrap_or((test, ""));
        for name in [file, "together"] {
            let [passed, ran, left_out] = lines.entry(name).or_default();
            *passed += usize::from(outcome == "passed");
            *ran += usize::from(outcome != "left-out");
            *left_out += usize::from(outcome == "left-out");
        }
    }
    lines
}

/// Both tables side by side, past the test harness, which shows only what failed tests print.
/// What failed at first and was tried again is named: a pass must not hide that.
fn show(kind: Kind, expected: &Outcomes, found: &Outcomes, said: &[String]) -> io::Result<()> {
    let (theirs, ours) = (table(expected), table(found));
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "\n{:28}{:>12}{:>12}{:>10}",
        "passed",
        "Apache",
        format!("{kind:?}"),
        "left out"
    )?;
    let none = [0; 3];
    for name in theirs.keys().chain(ours.keys().filter(|name| !theirs.contains_key(*name))) {
        let [passed, ran, left_out] = theirs.get(name).unwrap_or(&none);
        let [here, ran_here, _] = ours.get(name).unwrap_or(&none);
        let (there, here) = (format!("{passed}/{ran}"), format!("{here}/{ran_here}"));
        writeln!(out, "{name:28}{there:>12}{here:>12}{left_out:>10}")?;
    }
    let again = tried_again(said);
    writeln!(out, "tried again: {}", again.len())?;
    again.iter().try_for_each(|test| writeln!(out, "again {test}"))
}

fn tried_again(said: &[String]) -> Vec<String> {
    let tests = said.iter().filter_map(|line| line.strip_prefix("again "));
    tests.map(ToOwned::to_owned).collect()
}

fn read(servers: Servers) -> Outcomes {
    let text = fs::read_to_string(servers.recorded()).expect("the record is in the repository");
    outcomes(text.lines())
}

/// The whole suite.
fn whole(servers: Servers, what: &str, left_out: &str) {
    let kind = Kind::subject();
    let (found, said) = run(kind, servers, [].iter());
    if kind == Kind::Reference && std::env::var_os("RECORD").is_some() {
        let lines: String =
            found.iter().map(|(test, outcome)| format!("{test} {outcome}\n")).collect();
        fs::write(servers.recorded(), lines).expect("the record is written");
    }
    let expected = read(servers);
    let cell = |outcomes: &Outcomes, recorded: &str| {
        let [passed, ran, out] = table(outcomes).get("together").copied().unwrap_or_default();
        format!("{passed} of {ran}{recorded}, {out} left out ({left_out})")
    };
    let version = installed::python_package("venv", "kazoo");
    let kazoo = Client { name: "kazoo", version: &version, what };
    let (there, here) = (cell(&expected, " (recorded)"), cell(&found, ""));
    record(kazoo, &there, &here, &second_try(&[], &tried_again(&said)));
    compare(kind, &expected, &found, &said);
}

/// Held by the tests that `scripts/test --all` adds: each alone takes all that the machine has.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn what_passes_on_apache_zookeeper_passes_here() {
    whole(Servers::One, "its own test suite", "three servers, TLS, SASL");
}

#[test]
#[ignore = "scripts/test --all"]
fn what_passes_on_three_servers_passes_here() {
    let _alone = alone();
    let left_out = "reconfig, TLS, SASL";
    whole(Servers::Three, "its own test suite on three servers", left_out);
}

/// What the record says is what Apache ZooKeeper does.
fn record_holds(servers: Servers) {
    let _alone = alone();
    let (found, said) = run(Kind::Reference, servers, [].iter());
    compare(Kind::Reference, &read(servers), &found, &said);
}

#[test]
#[ignore = "scripts/test --all"]
fn the_record_is_what_apache_zookeeper_does() {
    record_holds(Servers::One);
}

#[test]
#[ignore = "scripts/test --all"]
fn the_record_of_three_servers_is_what_apache_zookeeper_does() {
    record_holds(Servers::Three);
}

#[test]
fn recipes_pass_on_three_servers() {
    let is_chosen = |test: &str| SELECTION.iter().any(|part| test.contains(part));
    let mut expected = read(Servers::Three);
    expected.retain(|test, outcome| is_chosen(test) && outcome != "left-out");
    let kind = Kind::subject();
    let (found, said) = run(kind, Servers::Three, expected.keys());
    compare(kind, &expected, &found, &said);
}

fn compare(kind: Kind, expected: &Outcomes, found: &Outcomes, said: &[String]) {
    show(kind, expected, found, said).expect("stdout takes the table");
    let mut differences = Vec::new();
    for test in expected.keys().chain(found.keys()) {
        let (theirs, ours) = (expected.get(test), found.get(test));
        if theirs != ours {
            differences.push(format!("{test}: recorded {theirs:?}, {kind:?} {ours:?}"));
        }
    }
    differences.dedup();
    assert!(expected.values().any(|outcome| outcome == "passed"), "an empty record");
    assert!(differences.is_empty(), "{}\n\n{}", differences.join("\n"), said.join("\n"));
}
