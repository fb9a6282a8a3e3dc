//! `features.toml`: what a ZooKeeper server does, row by row, and the test of each row. Some rows
//! have a fault, which stands in the sources of the server.

use std::collections::BTreeMap;

use crate::named_test::{files_below, read};
use crate::program::repository;

/// The keys of a row.
pub type Row = BTreeMap<String, String>;

/// How a fault stands in the sources.
const PLANTED: &str = "planted::is(\"";

/// The rows of the file.
///
/// # Panics
/// If it cannot be read.
pub fn all() -> Vec<Row> {
    rows(&read(&repository().join("compat-tests/features.toml")))
}

/// The little of TOML that the file uses: `[[row]]`, and keys with a number or a string.
///
/// # Panics
/// If there is anything else in it.
pub fn rows(text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line == "[[row]]" {
            rows.push(Row::new());
            continue;
        }
        let (key, value) = line.split_once(" = ").unwrap_or_else(|| panic!("no key: {line}"));
        let row = rows.last_mut().expect("a key stands in a row");
        let value = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
        assert!(row.insert(key.into(), value.into()).is_none(), "twice in a row: {line}");
    }
    rows
}

/// The faults in the sources of the server, as often as they stand there.
///
/// # Panics
/// If the sources cannot be read.
pub fn planted() -> Vec<String> {
    let mut files = Vec::new();
    files_below(&repository().join("src"), &mut files);
    let sources = files.iter().filter(|path| path.extension().is_some_and(|its| its == "rs"));
    sources.flat_map(|path| faults_of(&read(path))).collect()
}

fn faults_of(source: &str) -> Vec<String> {
    let after = source.split(PLANTED).skip(1);
    after.filter_map(|text| Some(text.split_once('"')?.0.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_keys_that_stand_below_them() {
        let found = rows("# head\n\n[[row]]\nnumber = 1\nfeature = \"a = b\"\n\n[[row]]\n");
        let first = [("number", "1"), ("feature", "a = b")];
        let first: Row = first.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        assert_eq!(found, [first, Row::new()]);
    }

    #[test]
    fn faults_are_found_in_a_source() {
        let source = "if a && !planted::is(\"one\") || planted::is(\"two\") {}\nplanted::is(name)";
        assert_eq!(faults_of(source), ["one", "two"]);
    }
}
