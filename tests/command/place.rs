//! Which folders a tool works on: those of a zoo.cfg, or a dataDir that is all of a directory.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fixture::{Ended, fine, image, java, object, own, run, text};
use crate::show::snapshot_of;

/// A directory whose logs are in a folder of their own, and its zoo.cfg.
pub(crate) struct Split {
    pub(crate) data: PathBuf,
    pub(crate) logs: PathBuf,
    pub(crate) config: PathBuf,
}

impl Split {
    /// Moves the logs of `data` to another folder.
    fn of(data: PathBuf) -> Self {
        let root = data.parent().expect("a folder");
        let (logs, config) = (root.join("logs"), root.join("zoo.cfg"));
        fs::create_dir_all(logs.join("version-2")).expect("a folder");
        for path in image(&data.join("version-2")).into_keys() {
            let name = path.file_name().expect("a name").to_str().expect("text");
            if name.starts_with("log.") {
                fs::rename(&path, logs.join("version-2").join(name)).expect("moved");
            }
        }
        let lines =
            format!("dataDir={}\ndataLogDir={}\nclientPort=2181\n", data.display(), logs.display());
        fs::write(&config, lines).expect("written");
        Self { data, logs, config }
    }

    /// As a server leaves it that has written its log there.
    pub(crate) fn of_ours(root: &Path) -> Self {
        let split = Self::of(own(&root.join("data"), 4, 2));
        let said = format!("{}\n", split.logs.join("version-2").display());
        fs::write(split.data.join("version-2/ferrokeeper.logged"), said).expect("written");
        split
    }

    pub(crate) fn of_zookeepers(root: &Path) -> Self {
        Self::of(java(&root.join("data")))
    }
}

fn refused(words: &[&str], code: i32) -> Ended {
    let ended = run(words);
    assert_eq!(ended.code, code, "{words:?}: {ended:?}");
    assert!(ended.err.contains("[FK0824]") && ended.out.is_empty(), "{words:?}: {ended:?}");
    assert!(ended.err.contains("zoo.cfg"), "{words:?}: {ended:?}");
    ended
}

/// The snapshots alone look like a directory that has lost its log, or like one that is complete.
#[test]
fn a_data_dir_whose_log_is_elsewhere_is_half_of_the_data() {
    for is_own in [true, false] {
        let root = tempfile::tempdir().expect("a folder");
        let split = match is_own {
            true => Split::of_ours(root.path()),
            false => Split::of_zookeepers(root.path()),
        };
        let (data, backup, made) =
            (text(&split.data), root.path().join("backup"), root.path().join("made"));
        let before = image(root.path());
        for words in [
            &["data", "check", data][..],
            &["data", "check", "--json", data],
            &["data", "truncate", data, "--to-zxid", "0x3"],
            &["data", "seal", data],
            &["data", "leave", data],
            &["data", "first-snapshot", data],
            &["backup", data, text(&backup)],
            &["restore", data, text(&made)],
            &["log", "show", data],
            &["log", "verify", text(&split.data.join("version-2"))],
            &["migrate", "check", "--to-zookeeper", data],
        ] {
            let ended = refused(words, 3);
            let logs = text(&split.logs);
            assert_eq!(ended.err.contains(logs), is_own, "{words:?}: {ended:?}");
        }
        assert_eq!(image(root.path()), before, "nothing is written");
    }
}

#[test]
fn both_folders_are_all_of_it() {
    for is_own in [true, false] {
        let root = tempfile::tempdir().expect("a folder");
        let split = match is_own {
            true => Split::of_ours(root.path()),
            false => Split::of_zookeepers(root.path()),
        };
        let (data, logs, config) = (text(&split.data), text(&split.logs), text(&split.config));
        let last = if is_own { "0x6" } else { "0xc" };
        for place in [&[config][..], &[data, "--log-dir", logs]] {
            let report = object(&[&["data", "check", "--json"][..], place].concat());
            assert_eq!(report["last_zxid"], last, "{place:?}");
        }
        let (backup, made) = (root.path().join("backup"), root.path().join("made"));
        fine(&["backup", config, text(&backup)]);
        fine(&["restore", text(&backup), text(&made)]);
        let made = object(&["data", "check", "--json", text(&made)]);
        assert_eq!(made["last_zxid"], last);
    }
}

/// Without a log there is nothing that was left out.
#[test]
fn a_data_dir_without_a_log_is_whole_where_none_was_written() {
    let root = tempfile::tempdir().expect("a folder");
    let made = root.path().join("made");
    // The state of the empty tree: a snapshot, and no log.
    let theirs = java(&root.path().join("theirs"));
    fine(&["restore", text(&theirs), text(&made), "--to-time", "2026-11-21T09:01:15Z"]);
    assert_eq!(object(&["data", "check", "--json", text(&made)])["last_zxid"], "0x0");
    // A log that is gone from its own place is damage, and told as such.
    let ours = own(&root.path().join("ours"), 4, 2);
    for path in image(&ours).into_keys() {
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log.")) {
            fs::remove_file(path).expect("removed");
        }
    }
    let check = run(&["data", "check", text(&ours)]);
    assert!(check.code == 1 && check.out.contains("FK0232"), "{check:?}");
    // Who says that there is no other folder is believed.
    let split = Split::of_zookeepers(root.path());
    let data = text(&split.data);
    let report = object(&["data", "check", "--json", data, "--log-dir", data]);
    assert_eq!(report["last_zxid"], "0x7");
}

#[test]
fn a_log_folder_beside_a_zoo_cfg_is_a_contradiction() {
    let root = tempfile::tempdir().expect("a folder");
    let split = Split::of_ours(root.path());
    let (config, logs, made) = (text(&split.config), text(&split.logs), root.path().join("made"));
    let whole = own(&root.path().join("whole"), 4, 2);
    let before = image(root.path());
    for words in [
        &["data", "check", config][..],
        &["data", "seal", config],
        &["data", "truncate", config, "--to-zxid", "0x3"],
        &["backup", config, text(&made)],
        &["restore", text(&whole), config, "--replace"],
        &["migrate", "check", "--to-zookeeper", config],
    ] {
        refused(&[words, &["--log-dir", logs]].concat(), 2);
    }
    assert_eq!(image(root.path()), before, "nothing is written");
}

#[test]
fn a_restore_puts_both_folders_of_a_zoo_cfg_in_their_place() {
    let root = tempfile::tempdir().expect("a folder");
    let split = Split::of_ours(root.path());
    let (config, data) = (text(&split.config), text(&split.data));
    let backup = root.path().join("backup");
    fine(&["backup", config, text(&backup)]);
    refused(&["restore", text(&backup), data, "--replace"], 3);
    let misspelt = root.path().join("zo.cfg");
    assert_eq!(run(&["restore", text(&backup), text(&misspelt)]).code, 2);
    assert!(!misspelt.exists());
    fine(&["restore", text(&backup), config, "--replace", "--to-zxid", "0x5"]);
    assert_eq!(object(&["data", "check", "--json", config])["last_zxid"], "0x5");
    assert!(split.logs.join("version-2/log.1").exists());
    assert!(!split.data.join("version-2/log.1").exists());
}

/// Two logs of each, and the same records whichever way they are named.
#[test]
fn the_logs_of_a_zoo_cfg_are_shown() {
    for is_own in [true, false] {
        let root = tempfile::tempdir().expect("a folder");
        let split = match is_own {
            true => Split::of_ours(root.path()),
            false => Split::of_zookeepers(root.path()),
        };
        let (logs, config) = (text(&split.logs), text(&split.config));
        let shown = fine(&["log", "show", "--json", config]).json();
        let zxids: Vec<&str> = shown.iter().filter_map(|line| line["zxid"].as_str()).collect();
        let expected: Vec<String> =
            (1..=if is_own { 6 } else { 12 }).map(|zxid| format!("{zxid:#x}")).collect();
        assert_eq!(zxids, expected);
        assert_eq!(fine(&["log", "show", "--json", logs]).json(), shown);
        let verified = fine(&["log", "verify", config]).out;
        assert_eq!(fine(&["log", "verify", logs]).out, verified);
        assert_eq!(verified.lines().count(), 2, "{verified}");
        // What is wrong with a zoo.cfg is told as of a zoo.cfg; a log may have any name.
        fs::write(root.path().join("bad.cfg"), "dataDir=\n").expect("written");
        assert_eq!(run(&["log", "verify", text(&root.path().join("bad.cfg"))]).code, 2);
        let copy = root.path().join("copy");
        fs::copy(split.logs.join("version-2/log.1"), &copy).expect("copied");
        fine(&["log", "verify", text(&copy)]);
    }
}

/// A server that was stopped says that a start from its last snapshot needs no log.
#[test]
fn a_data_dir_whose_last_snapshot_shows_all_is_whole_where_the_log_is_gone() {
    let root = tempfile::tempdir().expect("a folder");
    let whole = own(&root.path().join("data"), 4, 2);
    snapshot_of(&whole, true);
    let split = Split::of(whole);
    let data = text(&split.data);
    let says = |zxid: &str| {
        let said = format!("{}\n{zxid}\n", split.logs.join("version-2").display());
        fs::write(split.data.join("version-2/ferrokeeper.logged"), said).expect("written");
    };
    says("0x6");
    // What is there is a part of the directory: a cut of one half would not last.
    refused(&["data", "check", data], 3);
    fs::remove_dir_all(&split.logs).expect("removed");
    assert_eq!(object(&["data", "check", "--json", data])["last_zxid"], "0x6");
    let (backup, made) = (root.path().join("backup"), root.path().join("made"));
    fine(&["backup", data, text(&backup)]);
    fine(&["restore", data, text(&made)]);
    assert_eq!(object(&["data", "check", "--json", text(&made)])["last_zxid"], "0x6");
    says("0x7");
    refused(&["data", "check", data], 3);
}

/// As a server sends it over HTTP, and as it may be put in the place of a data directory.
#[test]
fn a_snapshot_that_is_the_only_file_can_be_said_to_be_all_and_is_restored() {
    let root = tempfile::tempdir().expect("a folder");
    let at = |name: &str| root.path().join(name);
    let (theirs, only) = (java(&at("theirs")), at("only"));
    fs::create_dir_all(only.join("version-2")).expect("a folder");
    fs::copy(theirs.join("version-2/snapshot.7"), only.join("version-2/snapshot.7"))
        .expect("copied");
    let (data, made, backup, again) = (text(&only), at("made"), at("backup"), at("again"));
    for words in [&["data", "check", data][..], &["backup", data, text(&backup)]] {
        let ended = refused(words, 3);
        assert!(ended.err.contains(&format!("--log-dir {data}")), "{ended:?}");
    }
    let report = object(&["restore", "--json", data, text(&made)]);
    assert_eq!((&report["zxid"], &report["snapshot_only"]), (&"0x7".into(), &true.into()));
    let shown = fine(&["restore", data, text(&again), "--dry-run"]).out;
    assert!(shown.contains("remark     one snapshot, and no log"), "{shown}");
    // A backup of it has no log either, and its manifest says what belongs to it.
    fine(&["backup", data, "--log-dir", data, text(&backup)]);
    let report = object(&["restore", "--json", text(&backup), text(&again)]);
    assert_eq!((&report["zxid"], &report["verified"]), (&"0x7".into(), &true.into()));
}
