//! kazoo's own test suite, which starts the server by itself: what passes with Apache ZooKeeper
//! passes with rookeeper.
//!
//! Apache ZooKeeper's outcomes are recorded in `clients/kazoo_suite/apache-3.9.5.txt`;
//! `SUBJECT=reference RECORD=1` writes them anew. Which tests are left out, and why, is in
//! `left_out.txt` beside it.

use std::collections::BTreeMap;
use std::fs;

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

/// How many tests of each outcome.
fn summary(outcomes: &Outcomes) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for outcome in outcomes.values() {
        *counts.entry(outcome).or_default() += 1;
    }
    counts
        .iter()
        .map(|(outcome, count)| format!("{count} {outcome}"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[test]
#[expect(clippy::print_stdout, reason = "the result table")]
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
    println!("Apache ZooKeeper: {}\n{kind:?}: {}", summary(&expected), summary(&found));

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
