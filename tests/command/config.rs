//! `config check` and `config keys`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::fixture::{ferrokeeper, fine, output, run, text};

/// A zoo.cfg that nothing is wrong with, and `more`, from line 3 on.
fn zoo_cfg(root: &Path, more: &str) -> String {
    let file = root.join("zoo.cfg");
    fs::write(&file, format!("dataDir=/d\nclientPort=2181\n{more}")).expect("written");
    text(&file).to_owned()
}

#[test]
fn the_code_says_whether_a_server_would_start() {
    let root = tempfile::tempdir().expect("a folder");
    for (lines, code, strict, last) in [
        ("", 0, 0, "a server would start"),
        ("cnxTimeout=1\n", 0, 0, "a server would start"),
        ("snapCuont=1\n", 0, 1, "a server would start, with 1 warning"),
        ("admin.portUnification=true\nx=1\n", 0, 1, "a server would start, with 2 warnings"),
        ("tickTime=x\n", 2, 2, "a start would be refused"),
        ("x=1\ngroup.1=1\n", 2, 2, "a start would be refused"),
    ] {
        let file = zoo_cfg(root.path(), lines);
        for (words, code) in [
            (vec!["config", "check", &file], code),
            (vec!["config", "check", "--strict", &file], strict),
        ] {
            let ended = run(&words);
            assert_eq!((ended.code, ended.err.as_str()), (code, ""), "{words:?} {lines}");
            assert_eq!(ended.out.lines().last(), Some(last), "{lines}");
        }
    }
    assert_eq!(run(&["config", "check", "/no/such/zoo.cfg"]).code, 2);
    assert_eq!(fs::read_dir(root.path()).expect("a folder").count(), 1, "it only reads");
}

#[test]
fn everything_is_said_at_once_with_file_and_line() {
    let root = tempfile::tempdir().expect("a folder");
    let file = zoo_cfg(root.path(), "tickTime=x\noraclePath=/o\ntiktime=1\ncnxTimeout=5\n");
    let ended = run(&["config", "check", &file, "-Dzookeeper.snapCount=y"]);
    let expected = [
        format!(
            "REFUSED    [FK0106] {file}:4: oraclePath is refused: an ensemble of two needs both \
             servers; no oracle lets one continue alone."
        ),
        "           Remove oraclePath if you can do without it.".to_owned(),
        format!(
            "REFUSED    [FK0105] {file}:3: tickTime is \"x\", expected a number of \
            milliseconds from 1 to 2147483647"
        ),
        "           Correct tickTime, or remove it to get its default.".to_owned(),
        format!(
            "WARNING    [FK0121] {file}:5: unknown key tiktime is ignored; did you mean \
            tickTime?"
        ),
        "WARNING    [FK0123] command line, -D: snapCount is \"y\", expected a whole number from \
         -2147483648 to 2147483647; the default is used, as in ZooKeeper"
            .to_owned(),
        format!(
            "           {file}:6: cnxTimeout is known but has no effect here. Servers connect \
            to each other in a different way."
        ),
        "in effect  4 keys: clientPort, dataDir, snapCount, tickTime".to_owned(),
        "a start would be refused".to_owned(),
    ];
    assert_eq!(ended.out.lines().collect::<Vec<_>>(), expected);

    let ended = run(&["config", "check", "--json", &file]);
    assert_eq!(ended.code, 2);
    let [report] = ended.json().try_into().expect("one object");
    assert_eq!(report["would_start"], false);
    let texts = |what: &Value| -> Vec<String> {
        let list = what.as_array().expect("a list");
        list.iter().map(|one| one["text"].as_str().expect("text").to_owned()).collect()
    };
    assert!(texts(&report["refusals"])[0].starts_with(&format!("{file}:4: oraclePath")));
    assert!(texts(&report["notes"])[0].starts_with(&format!("{file}:5: unknown key")));
    let ids = |what: &Value| -> Vec<Value> {
        what.as_array().expect("a list").iter().map(|one| one["id"].clone()).collect()
    };
    assert_eq!(ids(&report["refusals"]), ["FK0106", "FK0105"]);
    // A line that is no warning has none.
    assert_eq!(ids(&report["notes"]), [json!("FK0121"), Value::Null]);
    assert_eq!(report["keys_in_effect"], json!(["clientPort", "dataDir", "tickTime"]));
}

#[test]
fn the_environment_counts_as_at_a_start() {
    let root = tempfile::tempdir().expect("a folder");
    let file = zoo_cfg(root.path(), "");
    let mut command = ferrokeeper(&["config", "check", &file]);
    let output = output(command.env("JVMFLAGS", "-Dzookeeper.oraclePath=/o"));
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.starts_with("REFUSED    [FK0106] environment, JVMFLAGS: oraclePath is refused"),
        "{said}"
    );
}

/// What is documented is what the code has; `ferrokeeper config keys` prints what belongs there.
#[test]
fn the_documentation_lists_every_key() {
    let name = "docs/operations/keys.md";
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).expect("the page");
    let table = fine(&["config", "keys"]).out;
    let missing: Vec<&str> =
        table.lines().filter(|line| !page.lines().any(|other| other == *line)).collect();
    assert!(missing.is_empty(), "{name} lacks:\n{}", missing.join("\n"));
    assert!(page.contains(table.trim_end()), "{name} has more than `config keys`");
}

#[test]
fn keys_for_scripts() {
    let keys = fine(&["config", "keys", "--json"]).json();
    let of = |name: &str| keys.iter().find(|key| key["key"] == name).cloned().unwrap_or_default();
    // The properties are those of ZooKeeper's source.
    assert_eq!(of("clientPort")["property"], Value::Null);
    assert_eq!(of("snapCount")["property"], "zookeeper.snapCount");
    assert_eq!(of("jute.maxbuffer")["property"], "jute.maxbuffer");
    assert_eq!(of("fsync.warningthresholdms")["fate"], "better by default");
    assert_eq!(of("oraclePath")["fate"], "refused");
    assert_eq!(of("quorumListenOnAllIPs")["fate"], "not yet");
    assert_eq!(of("peerType")["fate"], "meaningless");
}

/// As the official image does it: a zoo.cfg in its folder counts, and its variables do where there
/// is none.
#[test]
fn a_zoo_cfg_in_the_folder_of_the_image_is_found() {
    let root = tempfile::tempdir().expect("a folder");
    let check = || {
        let mut command = ferrokeeper(&["config", "check"]);
        command.env("ZOO_CONF_DIR", root.path()).env("ZOO_TICK_TIME", "slow");
        let output = output(&mut command);
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = check();
    assert_eq!(code, Some(2));
    assert!(
        said.starts_with("REFUSED    [FK0105] environment, ZOO_TICK_TIME: tickTime is"),
        "{said}"
    );
    let file = zoo_cfg(root.path(), "");
    let (code, said) = check();
    assert_eq!(code, Some(0));
    assert!(said.contains(&format!("ZOO_TICK_TIME ignored, because there is {file}")), "{said}");
}
