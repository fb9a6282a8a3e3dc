//! `docs/guarantees.md`: the tests that it names are there.

use std::fs;

use compat_tests::named_test::{has_part, source_of};
use compat_tests::repository;

/// The tests that a page names as `crate::file::test`, with the part that may follow in quotes.
fn named(page: &str) -> Vec<(&str, Option<&str>)> {
    let mut named = Vec::new();
    let mut rest = page;
    while let Some((_, behind)) = rest.split_once('`') {
        let Some((code, behind)) = behind.split_once('`') else { break };
        rest = behind;
        if code.contains("::") {
            let quoted = behind.trim_start().strip_prefix('"');
            let part = quoted.and_then(|quoted| quoted.split_once('"')).map(|(part, _)| part);
            named.push((code, part));
        }
    }
    named
}

fn check(test: &str, part: Option<&str>) -> Result<(), String> {
    let source = source_of(test)?;
    match part {
        Some(part) if !has_part(&source, part) => Err(format!("{test}: no part {part}")),
        _ => Ok(()),
    }
}

#[test]
fn every_guarantee_has_tests_that_exist() {
    let page = fs::read_to_string(repository().join("docs/guarantees.md")).expect("the page");
    let mut wrong = Vec::new();
    // A row of a table: the promise, what it means, its tests, those of an ensemble.
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    for row in rows.iter().filter(|row| !row.starts_with("| promise ")) {
        // Nothing stands before the first bar, and after the last.
        let cells: Vec<&str> = row.split('|').collect();
        if cells.len() != 6 || cells[3..5].iter().any(|tests| named(tests).is_empty()) {
            wrong.push(format!("no test of one server, or none of an ensemble: {row}"));
        }
    }
    let tests = named(&page);
    wrong.extend(tests.iter().filter_map(|(test, part)| check(test, *part).err()));
    assert!(rows.len() > 10 && tests.len() > rows.len(), "the page has hardly a test");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_name_and_its_part_are_read_and_what_does_not_exist_is_found_out() {
    let page = "| x | `a::b::c` \"some part\", `no name`, `d::e` and \"text\" |";
    assert_eq!(named(page), [("a::b::c", Some("some part")), ("d::e", None)]);

    let good = "compat-tests::handshake::subject";
    assert_eq!(check(good, Some("the timeout is clamped")), Ok(()));
    assert!(check(good, Some("the timeout is clamp")).is_err());
    assert!(check("compat-tests::guarantees::order::nothing", None).is_err());
}
