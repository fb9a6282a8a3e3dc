//! `features.toml`: what a ZooKeeper server does, row by row, and the test of each row.

use std::collections::BTreeMap;

use crate::named_test::read;
use crate::program::repository;

/// The keys of a row.
pub type Row = BTreeMap<String, String>;

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
}
