//! `features.toml`: each of the 180 rows has a test that exists, or the name of the work that will
//! bring it. The faults of the rows are those of the sources.

use std::collections::BTreeMap;
use std::process::Command;

use compat_tests::features::{self, Row};
use compat_tests::named_test::{CargoTest, has_part, read, source_of};
use compat_tests::{ferrokeeper, repository, run_the_release};

const ROWS: usize = 180;

/// What is still to come.
const LATER: [&str; 5] = ["admin", "clients", "ensemble", "sasl", "tls"];

fn check(row: &Row) -> Result<(), String> {
    let (test, part) = (row.get("test"), row.get("part"));
    if row.contains_key("fault") && test.is_none_or(|test| test.starts_with("kazoo-suite ")) {
        return Err("a fault without a test that is run with it".into());
    }
    if row.contains_key("says") && (part.is_some() || !row.contains_key("fault")) {
        return Err("what a fault makes a test say, without a fault or beside a part".into());
    }
    match (test.map(String::as_str), row.get("later")) {
        (Some(_), Some(_)) | (None, None) => Err("either test or later".into()),
        (None, Some(later)) if part.is_none() && LATER.contains(&later.as_str()) => Ok(()),
        (None, Some(later)) => Err(format!("later = {later}: not one of {LATER:?}")),
        (Some(test), None) => {
            let clients = repository().join("compat-tests/clients");
            if let Some(name) = test.strip_prefix("kazoo-suite ") {
                let record = read(&clients.join("kazoo_suite/apache-3.9.5.txt"));
                let line = format!("{name} passed");
                return if record.lines().any(|known| known == line) {
                    Ok(())
                } else {
                    Err(format!("{test}: does not pass in kazoo's suite"))
                };
            }
            if let Some(recipe) = test.strip_prefix("curator ") {
                let source = read(&repository().join("compat-tests/tests/curator.rs"));
                return if source.contains(&format!("    \"{recipe}\",\n")) {
                    Ok(())
                } else {
                    Err(format!("{test}: no such recipe"))
                };
            }
            let source = source_of(test)?;
            CargoTest::of(test)?;
            match part {
                Some(part) if !has_part(&source, part) => Err(format!("{test}: no part {part}")),
                _ => Ok(()),
            }
        }
    }
}

#[test]
fn every_feature_has_a_test_or_a_name_for_later() {
    let rows = features::all();
    let mut wrong = Vec::new();
    let numbers: Vec<&str> =
        rows.iter().filter_map(|row| row.get("number")).map(String::as_str).collect();
    let expected: Vec<String> = (1..=ROWS).map(|number| number.to_string()).collect();
    if numbers != expected {
        let stray: Vec<(&str, &String)> =
            numbers.iter().copied().zip(&expected).filter(|(found, due)| found != due).collect();
        wrong.push(format!("{} rows, not 1 to {ROWS} each once: {stray:?}", numbers.len()));
    }
    for row in &rows {
        let known = ["number", "feature", "test", "part", "fault", "says", "later"];
        if let Some(key) = row.keys().find(|key| !known.contains(&key.as_str())) {
            wrong.push(format!("row {:?}: unknown key {key}", row.get("number")));
        }
        if row.get("feature").is_none_or(String::is_empty) {
            wrong.push(format!("row {:?}: no feature", row.get("number")));
        }
        if let Err(reason) = check(row) {
            wrong.push(format!("row {:?}: {reason}", row.get("number")));
        }
    }
    for later in LATER {
        if !rows.iter().any(|row| row.get("later").is_some_and(|its| its == later)) {
            wrong.push(format!("nothing is to come of {later}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each fault belongs to one feature, and stands in one place.
#[test]
fn each_fault_stands_once_in_the_sources_and_once_here() {
    let rows = features::all();
    let mut times: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let planted = features::planted();
    planted.iter().for_each(|fault| times.entry(fault).or_default().0 += 1);
    let named = rows.iter().filter_map(|row| row.get("fault"));
    named.for_each(|fault| times.entry(fault).or_default().1 += 1);
    assert!(times.len() > 10, "{times:?}");
    times.retain(|_, times| *times != (1, 1));
    assert!(times.is_empty(), "how often in src/, and how often in features.toml: {times:?}");
}

/// The server that users get reads no name of a fault.
#[test]
fn no_fault_can_be_planted_in_a_release() {
    let has_it = || {
        let mut grep = Command::new("grep");
        grep.args(["--quiet", "--text", "--fixed-strings", "FERROKEEPER_PLANTED"]);
        match grep.arg(ferrokeeper()).status().expect("grep runs").code() {
            Some(0) => true,
            Some(1) => false,
            other => panic!("grep ended with {other:?}"),
        }
    };
    let is_chosen = std::env::var_os("FERROKEEPER_BIN").is_some();
    assert!(is_chosen || has_it(), "what cargo builds for tests has it");
    run_the_release();
    assert!(!has_it(), "{}", ferrokeeper().display());
}

#[test]
fn what_does_not_exist_is_found_out() {
    let row = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect::<Row>()
    };
    let good = "compat-tests::handshake::subject";
    let part = ("part", "the timeout is clamped");
    assert_eq!(check(&row(&[("test", good), part, ("fault", "any")])), Ok(()));
    for bad in [
        row(&[]),
        row(&[("test", good), ("later", "tls")]),
        row(&[("later", "some day")]),
        row(&[("test", good), ("part", "the timeout is clamp")]),
        row(&[("test", "compat-tests::handshake::run")]),
        row(&[("test", "compat-tests::handshake::subjec")]),
        row(&[("test", "nowhere::handshake::subject")]),
        row(&[("test", "subject")]),
        row(&[("test", "kazoo-suite test_client.py::TestReconfig::test_bad_input")]),
        row(&[("test", "curator nothing")]),
        row(&[("later", "tls"), ("fault", "any")]),
        row(&[("test", good), ("says", "any")]),
        row(&[("test", good), part, ("fault", "any"), ("says", "any")]),
        row(&[
            ("test", "kazoo-suite test_client.py::TestClient::test_create_stat"),
            ("fault", "any"),
        ]),
    ] {
        assert!(check(&bad).is_err(), "{bad:?}");
    }
}
