//! `explain`: every spelling finds its row, unknown words their neighbour, and the documentation has the same rows.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::fixture::{fine, object, run};

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md"))
        .expect("the page")
}

fn rows() -> Vec<Value> {
    fine(&["explain", "--json"]).json()
}

#[test]
fn one_code_has_many_spellings() {
    for word in [
        "-101",
        "NoNode",
        "NONODE",
        "ZNONODE",
        "NoNodeException",
        "KeeperException.NoNodeException",
    ] {
        let row = object(&["explain", word, "--json"]);
        assert_eq!((&row["code"], &row["name"]), (&(-101).into(), &"NoNode".into()), "{word}");
    }
    let said = fine(&["explain", "CONNECTIONLOSS"]).out;
    assert!(said.starts_with("-4 ConnectionLoss, an error code of ZooKeeper\n  "), "{said}");
    assert!(said.contains("\n  To do: "), "{said}");
}

#[test]
fn a_number_is_every_code_that_it_may_be() {
    let of = |word: &str| -> Vec<String> {
        let rows = fine(&["explain", word, "--json"]).json();
        rows.iter().map(|row| format!("{} {}", row["kind"], row["of"]).replace('"', "")).collect()
    };
    assert_eq!(of("3"), ["exit code server", "exit code tools", "exit code config check"]);
    assert_eq!(of("0")[..2], ["error code null", "exit code server"]);
    assert_eq!(of("127"), ["exit code cli"]);
}

#[test]
fn keys_come_from_the_table_of_keys() {
    for word in ["snapCount", "zookeeper.snapCount"] {
        let row = object(&["explain", word, "--json"]);
        assert_eq!((&row["key"], &row["fate"]), (&"snapCount".into(), &"works".into()), "{word}");
        assert_eq!(row["property"], "zookeeper.snapCount");
    }
    // A heading of the admin guide, and one of a family.
    assert_eq!(
        object(&["explain", "throttledOpWaitTime", "--json"])["key"],
        "throttled_op_wait_time"
    );
    assert_eq!(object(&["explain", "authProvider.1", "--json"])["key"], "authProvider.N");
}

#[test]
fn what_is_unknown_has_a_neighbour_or_none_and_is_code_2() {
    for (word, answer) in [
        ("NoNod", "rookeeper: NoNod is no error code, exit code or key; did you mean NoNode?\n"),
        (
            "tiktime",
            "rookeeper: tiktime is no error code, exit code or key; did you mean tickTime?\n",
        ),
        ("-104", "rookeeper: -104 is no error code, exit code or key\n"),
        ("99999999999", "rookeeper: 99999999999 is no error code, exit code or key\n"),
        ("", "rookeeper:  is no error code, exit code or key\n"),
    ] {
        let ended = run(&["explain", word]);
        assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (2, "", answer));
    }
}

/// `rookeeper explain` prints what belongs there.
#[test]
fn the_documentation_has_every_error_code() {
    let table = fine(&["explain"]).out;
    let (errors, _) = table.split_once("\n\n").expect("two tables");
    assert!(errors.lines().count() > 30, "{errors}");
    assert!(
        page().contains(&format!("\n{errors}\n\n")),
        "docs/operations.md differs from\n{errors}"
    );
}

#[test]
fn the_documentation_has_every_exit_code() {
    let page = page();
    let rows = rows();
    // The table's header, and whose exit codes it has.
    for (header, of) in [
        ("| exit code | meaning |", ["server", "tools"].as_slice()),
        ("| exit code of `config check` | meaning |", &["config check"]),
    ] {
        let documented: Vec<&str> = page
            .split(&format!("{header}\n|---|---|\n"))
            .skip(1)
            .flat_map(|behind| behind.lines().take_while(|line| line.starts_with('|')))
            .collect();
        let of_them = |row: &&Value| of.iter().any(|of| row["of"] == **of);
        let line = |row: &Value| {
            format!("| {} | {} |", row["code"], row["meaning"].as_str().unwrap_or_default())
        };
        let table: Vec<String> = rows.iter().filter(of_them).map(line).collect();
        assert_eq!(documented, table, "{header}");
    }
}
