//! kazoo's own test suite, which starts the server by itself: what passes with Apache ZooKeeper
//! passes with rookeeper.
//!
//! Apache ZooKeeper's outcomes are recorded in `clients/kazoo_suite/apache-3.9.5.txt`;
//! `SUBJECT=reference RECORD=1` writes them anew. Which tests are left out, and why, is in
//! `left_out.txt` beside it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};

use compat_tests::compatibility::{Client, record};
use compat_tests::{Kind, Program, classpath, python, repository, rookeeper};

type Outcomes = BTreeMap<String, String>;

const RECORDED: &str = "compat-tests/clients/kazoo_suite/apache-3.9.5.txt";

fn outcomes<'a>(lines: impl Iterator<Item = &'a str>) -> Outcomes {
    let tests = lines.filter(|line| line.starts_with("test_")).filter_map(|line| {
        let (test, outcome) = line.split_once(' ')?;
        let known = ["passed", "failed", "skipped", "left-out"].contains(&outcome);
        known.then(|| (test.into(), outcome.into()))
    });
    tests.collect()
}

/// Runs the suite; also returns what it says of failures.
fn run(kind: Kind) -> (Outcomes, Vec<String>) {
    let script = repository().join("compat-tests/clients/kazoo_suite/run.py");
    let mut words = vec![python().display().to_string(), script.display().to_string()];
    if kind == Kind::Reference {
        words.extend(["--reference".into(), classpath()]);
    }
    let binary = rookeeper().display().to_string();
    let mut suite = Program::start(&words, &[("ROOKEEPER_BIN", &binary)]);
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
    let again = said.iter().filter(|line| line.starts_with("again "));
    writeln!(out, "tried again: {}", again.clone().count())?;
    again.into_iter().try_for_each(|line| writeln!(out, "{line}"))
}

#[test]
fn what_passes_on_apache_zookeeper_passes_here() {
    let kind = Kind::subject();
    let (found, said) = run(kind);
    let recorded = repository().join(RECORDED);
    if kind == Kind::Reference && std::env::var_os("RECORD").is_some() {
        let lines: String =
            found.iter().map(|(test, outcome)| format!("{test} {outcome}\n")).collect();
        fs::write(&recorded, lines).expect("the record is written");
    }
    let text = fs::read_to_string(&recorded).expect("the record is in the repository");
    let expected = outcomes(text.lines());
    show(kind, &expected, &found, &said).expect("stdout takes the table");
    let cell = |outcomes: &Outcomes| {
        let [passed, ran, left_out] = table(outcomes).get("together").copied().unwrap_or_default();
        format!("{passed} of {ran}, {left_out} left out (three servers, TLS, SASL)")
    };
    let kazoo = Client { name: "kazoo", version: "2.11.0", what: "its own test suite" };
    record(kazoo, &cell(&expected), &cell(&found));

    let mut differences = Vec::new();
    for test in expected.keys().chain(found.keys()) {
        let (theirs, ours) = (expected.get(test), found.get(test));
        if theirs != ours {
            differences.push(format!("{test}: Apache ZooKeeper {theirs:?}, here {ours:?}"));
        }
    }
    differences.dedup();
    assert!(expected.values().any(|outcome| outcome == "passed"), "an empty record");
    assert!(differences.is_empty(), "{}\n\n{}", differences.join("\n"), said.join("\n"));
}
