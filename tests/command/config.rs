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
    let ended = run(&["config", "check", "/no/such/zoo.cfg"]);
    assert_eq!((ended.code, ended.out.as_str()), (2, ""));
    let said = "ferrokeeper: [FK0101] /no/such/zoo.cfg: cannot read the configuration: ";
    assert!(ended.err.starts_with(said), "{}", ended.err);
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

/// What is refused of a zoo.cfg with these lines after dataDir, without the folder of it.
fn refused(root: &Path, lines: &str) -> Vec<String> {
    let file = root.join("zoo.cfg");
    fs::write(&file, format!("dataDir={}\n{lines}", root.join("data").display())).expect("written");
    let ended = run(&["config", "check", text(&file)]);
    assert_eq!((ended.code, ended.err.as_str()), (2, ""), "{lines}");
    let refusals = ended.out.lines().filter_map(|line| line.strip_prefix("REFUSED    "));
    refusals.map(|line| line.replace(text(root), "")).collect()
}

#[test]
fn every_refusal_of_an_ensemble_is_said_at_once_with_those_of_the_rest() {
    let root = tempfile::tempdir().expect("a folder");
    let form = "expected host:port:port[:participant|observer][;[host:]port]";
    let list = "server.1=a:2888\nserver.2=b:1:1\nserver.3=c:2888:3888\nserver.x=d:2888:3888\n";
    let tls = "sslQuorum=true\nssl.quorum.keyStore.location=/k.jks\n";
    let wrong = format!(
        "clientPort=2181\nsyncLimit=0\n{list}{tls}leader.snapSyncLimitInKbPerSecond=x\n\
         minSessionTimeout=9\nmaxSessionTimeout=8\n"
    );
    let mut said = refused(root.path(), &wrong);
    said.sort();
    let mut expected = [
        "[FK0105] /zoo.cfg:3: syncLimit is \"0\", expected a number of ticks from 1 to 2147483647"
            .to_owned(),
        format!("[FK0105] /zoo.cfg:4: server.1 is \"a:2888\": {form}"),
        "[FK0105] /zoo.cfg:5: server.2 is \"b:1:1\": the first two ports are the same".to_owned(),
        "[FK0105] /zoo.cfg:7: server.x is \"d:2888:3888\", expected a number from 0 to 255 for N \
         in server.N"
            .to_owned(),
        "[FK0105] /zoo.cfg:10: leader.snapSyncLimitInKbPerSecond is \"x\", expected a number of \
         KiB per second, 0 for no limit, from 0 to 2147483647"
            .to_owned(),
        "[FK0107] /zoo.cfg: ssl.quorum.trustStore.location is not set".to_owned(),
        "[FK0107] /zoo.cfg:4: initLimit is not set".to_owned(),
        "[FK0108] /zoo.cfg:11: minSessionTimeout 9 is larger than maxSessionTimeout 8".to_owned(),
        "[FK0109] /zoo.cfg:9: ssl.quorum.keyStore.location is /k.jks, of type JKS; this version \
         reads only PEM"
            .to_owned(),
        "[FK0110] /data/myid: this file does not exist; it should say which of the 4 servers this \
         is"
        .to_owned(),
    ];
    expected.sort();
    assert_eq!(said, expected);
}

#[test]
fn what_an_own_line_contradicts_is_said_beside_what_the_list_lacks() {
    let root = tempfile::tempdir().expect("a folder");
    let my_id = root.path().join("data/myid");
    fs::create_dir(root.path().join("data")).expect("a folder");
    fs::write(&my_id, "1").expect("written");
    let check = |lines: &str| refused(root.path(), lines);
    let said = check("clientPort=2181\nserver.1=a:1:2:observer;2182\nserver.2=b:1:2:observer\n");
    assert_eq!(
        said,
        [
            "[FK0108] /zoo.cfg: every server is an observer: none can vote",
            "[FK0107] /zoo.cfg:3: initLimit is not set",
            "[FK0107] /zoo.cfg:3: syncLimit is not set",
            "[FK0108] /zoo.cfg:3: clientPort says 0.0.0.0:2181, server.1 says 0.0.0.0:2182",
        ]
    );
    fs::write(&my_id, "7").expect("written");
    let said = check("clientPort=x\ninitLimit=1\nsyncLimit=1\nserver.1=a:1:2\nserver.2=b:1:2\n");
    assert_eq!(
        said,
        [
            "[FK0105] /zoo.cfg:2: clientPort is \"x\", expected a TCP port from 0 to 65535",
            "[FK0108] /data/myid: this server's number is 7, but /zoo.cfg has no server.7 line",
        ]
    );
    // A start says them as well.
    let start = run(&["server", text(&root.path().join("zoo.cfg"))]);
    assert_eq!((start.code, start.err.matches("ferrokeeper: [FK01").count()), (2, 2));
}

/// A line of the server list that is ignored leaves a smaller ensemble, or none.
#[test]
fn a_misspelt_key_is_said_with_its_line_and_the_likely_one() {
    let root = tempfile::tempdir().expect("a folder");
    let file = zoo_cfg(root.path(), "# a comment\ntickTme=2000\nsever.1=a:2888:3888\n");
    let said = fine(&["config", "check", &file]).out;
    let warnings: Vec<&str> = said.lines().filter(|line| line.starts_with("WARNING")).collect();
    let expected = [("tickTme", 4, "tickTime"), ("sever.1", 5, "server.N")].map(|its| {
        let (written, line, meant) = its;
        format!(
            "WARNING    [FK0121] {file}:{line}: unknown key {written} is ignored; did you mean \
             {meant}?"
        )
    });
    assert_eq!(warnings, expected);
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
