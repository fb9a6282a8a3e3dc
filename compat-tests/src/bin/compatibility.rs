//! Makes `docs/compatibility.md` of the rows that a run of the tests has left, or compares the two.
//!
//! ```text
//! compatibility write    every row of the run; what did not run is not in the table
//! compatibility check    each row of the run stands in the document
//! ```

use std::fs;
use std::io;
use std::process::ExitCode;

use compat_tests::{compatibility, repository};

const DOCUMENT: &str = "docs/compatibility.md";

const HEAD: &str = "\
# Compatibility

Third-party clients and applications, run against Apache ZooKeeper 3.9.5 and against this server.
The table is written by `scripts/test --all` from what the run found; if a shorter run gives a
different row, `scripts/test` fails. \"24 of 25\" counts the checks of a row that hold, and the others
are named. A check that holds on Apache ZooKeeper and is skipped here counts as failed.

| client or application | version | what ran | Apache ZooKeeper 3.9.5 | here |
|---|---|---|---|---|
";

/// The rows of the run, in the order of their clients.
fn rows() -> io::Result<Vec<String>> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(compatibility::rows())? {
        rows.push(fs::read_to_string(entry?.path())?);
    }
    rows.sort_by_key(|row| row.to_lowercase());
    Ok(rows)
}

#[expect(clippy::print_stderr, reason = "a command-line tool")]
fn main() -> ExitCode {
    let document = repository().join(DOCUMENT);
    let done = match std::env::args().nth(1).as_deref() {
        Some("write") => {
            rows().and_then(|rows| fs::write(&document, HEAD.to_owned() + &rows.concat()))
        }
        Some("check") => rows().and_then(|rows| {
            let text = fs::read_to_string(&document)?;
            let missing: Vec<String> =
                rows.into_iter().filter(|row| !text.contains(row.as_str())).collect();
            if missing.is_empty() {
                return Ok(());
            }
            Err(io::Error::other(format!("{DOCUMENT} says something else:\n{}", missing.concat())))
        }),
        _ => Err(io::Error::other("say write or check")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compatibility: {error}");
            ExitCode::FAILURE
        }
    }
}
