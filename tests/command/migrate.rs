//! `migrate check`.

use std::fs;
use std::path::Path;

use jute::{Acl, perms};

use crate::fixture::{add_with_acl, fine, image, java, object, own, run, text};

fn config(root: &Path, more: &str) -> String {
    let file = root.join("zoo.cfg");
    let data = java(&root.join("data"));
    let lines = format!("dataDir={}\nclientPort=2181\n{more}", data.display());
    fs::write(&file, lines).expect("written");
    text(&file).to_owned()
}

#[test]
fn a_standalone_zookeeper_can_be_taken_over() {
    let root = tempfile::tempdir().expect("a folder");
    let file = config(root.path(), "preAllocSize=64\nflushDelay=5\nsnapCuont=7\n");
    let before = image(root.path());
    let report = object(&["migrate", "check", "--json", &file]);
    assert_eq!(image(root.path()), before, "it only reads");
    assert_eq!(report["can_migrate"], true);
    assert_eq!(
        report["keys_in_effect"],
        serde_json::json!(["clientPort", "dataDir", "preAllocSize"])
    );
    let notes: Vec<&str> = report["key_notes"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|note| note["text"].as_str().expect("text"))
        .collect();
    assert!(notes.iter().any(|note| note.contains("flushDelay")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("snapCuont") && note.contains("snapCount")));
    // As SnapshotFormatter and TxnLogToolkit show it: eight znodes, no session left, /a with
    // "again".
    assert_eq!((&report["znodes"], &report["sessions"]), (&8.into(), &0.into()));
    assert_eq!(report["largest_znode"], serde_json::json!({ "path": "/a", "length": 5 }));
    assert_eq!((&report["zxid"], &report["sessions_survive"]), (&"0xc".into(), &true.into()));
    let theirs = fs::read_dir(root.path().join("data/version-2")).expect("a folder");
    let bytes: u64 =
        theirs.map(|file| file.expect("a file").metadata().expect("a size").len()).sum();
    assert_eq!(report["bytes_kept_until_seal"], bytes);
    let people = run(&["migrate", "check", &file]);
    assert_eq!(people.code, 0);
    assert!(people.out.contains("to go back stop"), "{}", people.out);
}

#[test]
fn an_ensemble_moves_as_a_whole() {
    let root = tempfile::tempdir().expect("a folder");
    let ensemble = "server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n";
    let file = config(root.path(), &format!("initLimit=10\nsyncLimit=5\n{ensemble}"));
    let ended = run(&["migrate", "check", &file]);
    assert_eq!(ended.code, 2, "without a myid: {}", ended.err);
    let my_id = root.path().join("data/myid");
    fs::write(&my_id, "1").expect("written");
    let ended = run(&["migrate", "check", &file]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(
        ended.out.contains("stop ZooKeeper on all 3 servers, then run on each: "),
        "{}",
        ended.out
    );
    let report = object(&["migrate", "check", "--json", &file]);
    assert_eq!((&report["can_migrate"], &report["servers"]), (&true.into(), &3.into()));
}

/// `DigestAuthenticationProvider` under JDK 17 without LANG makes these of `müller`, whose name
/// UTF-8 writes with two bytes for the `ü`: none of them is a character of US-ASCII.
#[test]
fn who_will_be_somebody_else_is_said() {
    let root = tempfile::tempdir().expect("a folder");
    let data = own(&root.path().join("data"), 0, 1);
    let digest = |id: &'static str| Acl {
        perms: perms::ALL,
        scheme: Some("digest".into()),
        id: Some(id.into()),
    };
    let garbled = "m\u{fffd}\u{fffd}ller:x1nq8J5GOJVPY6zgzhtTtA9izLc=";
    let kept = ["müller:x1nq8J5GOJVPY6zgzhtTtA9izLc=", "super:x1nq8J5GOJVPY6zgzhtTtA9izLc="];
    add_with_acl(&data, vec![digest(kept[0]), digest(garbled), digest(kept[1])]);
    let file = root.path().join("zoo.cfg");
    fs::write(&file, format!("dataDir={}\nclientPort=2181\n", data.display())).expect("written");
    let report = object(&["migrate", "check", "--json", text(&file)]);
    assert_eq!(report["garbled_ids"], serde_json::json!([garbled]));
    let people = fine(&["migrate", "check", text(&file)]).out;
    let warnings: Vec<&str> = people.lines().filter(|line| line.contains("WARNING")).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("[FK0821]"), "{people}");
    assert!(warnings[0].contains(garbled), "{people}");
}

#[test]
fn what_prevents_a_move_is_said() {
    let root = tempfile::tempdir().expect("a folder");
    assert_eq!(run(&["migrate", "check", "/no/such/zoo.cfg"]).code, 2);

    let file = config(root.path(), "");
    let log = root.path().join("data/version-2/log.8");
    let mut bytes = fs::read(&log).expect("a log");
    bytes[100] ^= 1;
    fs::write(&log, bytes).expect("written");
    let ended = run(&["migrate", "check", "--json", &file]);
    assert_eq!(ended.code, 1);
    assert_eq!(ended.json()[0]["can_migrate"], false);
    let lots = config(root.path(), "preAllocSize=2147483647\n");
    let ended = run(&["migrate", "check", &lots]);
    assert_eq!(ended.code, 1);
    assert!(ended.out.contains("free some space, or lower preAllocSize"), "{}", ended.out);
}
