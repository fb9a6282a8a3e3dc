//! `explain`: every spelling finds its row, unknown words their neighbour, and the documentation
//! has the same rows.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::fixture::{fine, object, run};

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name))
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
    assert_eq!(of("127"), ["exit code cli", "message null"]);
    assert_eq!(of("441"), ["message null"]);
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
fn a_message_is_found_by_its_id() {
    for word in ["FK0510", "fk0510", "[FK0510]", "510", "0510", "FK510", "fk510"] {
        let row = object(&["explain", word, "--json"]);
        assert_eq!((&row["kind"], &row["id"]), (&"message".into(), &"FK0510".into()), "{word}");
    }
    let said = fine(&["explain", "FK0207"]).out;
    assert!(
        said.starts_with("FK0207, a message of ferrokeeper\n  A part of a log that "),
        "{said}"
    );
    assert!(said.contains("\n  To do: "), "{said}");
}

/// What is printed can be explained.
#[test]
fn a_refusal_says_an_id_that_is_explained() {
    let ended = run(&["data", "check", "/no/such/directory"]);
    let id = ended.err.strip_prefix("ferrokeeper: [").and_then(|rest| rest.split_once(']'));
    let (id, _) = id.unwrap_or_else(|| panic!("no id: {ended:?}"));
    let row = object(&["explain", id, "--json"]);
    assert_eq!(row["kind"], "message");
    assert_eq!(row["id"], id);
}

#[test]
fn what_is_unknown_has_a_neighbour_or_none_and_is_code_2() {
    for (word, answer) in [
        (
            "NoNod",
            "ferrokeeper: [FK0809] NoNod is not an error code, exit code, key or message id; did \
             you mean NoNode?\n",
        ),
        (
            "tiktime",
            "ferrokeeper: [FK0809] tiktime is not an error code, exit code, key or message id; did \
             you mean tickTime?\n",
        ),
        ("-104", "ferrokeeper: [FK0809] -104 is not an error code, exit code, key or message id\n"),
        (
            "99999999999",
            "ferrokeeper: [FK0809] 99999999999 is not an error code, exit code, key or message \
             id\n",
        ),
        ("", "ferrokeeper: [FK0809]  is not an error code, exit code, key or message id\n"),
    ] {
        let ended = run(&["explain", word]);
        assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (2, "", answer));
    }
}

/// `ferrokeeper explain` prints what belongs there.
#[test]
fn the_documentation_has_every_error_code() {
    let table = fine(&["explain"]).out;
    let (errors, _) = table.split_once("\n\n").expect("two tables");
    assert!(errors.lines().count() > 30, "{errors}");
    assert!(
        page("operations/errors.md").contains(&format!("\n{errors}\n\n")),
        "docs/operations/errors.md differs from\n{errors}"
    );
}

/// `ferrokeeper explain` prints what belongs there, from its first heading on.
#[test]
fn the_documentation_has_every_message_and_no_other() {
    let all = fine(&["explain"]).out;
    let begin = all.find("\n## ").expect("a heading");
    let (page, table) = (page("messages.md"), &all[begin..]);
    assert!(table.lines().filter(|line| line.starts_with("| FK")).count() > 100, "{table}");
    assert!(page.ends_with(table), "docs/messages.md does not end in\n{table}");
}

#[test]
fn the_documentation_has_every_exit_code() {
    let page = page("operations/errors.md");
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
