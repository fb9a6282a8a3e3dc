//! Each refusal of a start names one command: run as it is printed, a start works, and what was
//! said is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::fixture::{image, java, object, offsets, output, own, run, text};

/// Runs what is printed as an operator would, in a shell that finds the binary.
fn type_in(command: &str) {
    let binary = Path::new(env!("CARGO_BIN_EXE_ferrokeeper"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", binary.parent().expect("a folder").display());
    let ended = output(Command::new("sh").args(["-c", command]).env("PATH", path));
    assert!(ended.status.success(), "{command}: {}", String::from_utf8_lossy(&ended.stderr));
}

/// What a refused start says; the directory is left as it is.
fn refusal(words: &[&str], dir: &Path) -> Value {
    let before = image(dir);
    let ended = run(words);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert_eq!(image(dir), before, "touched");
    let report = ended.json().remove(0);
    assert_eq!(report["starts"], false);
    let (said, command) = (report["damage"].as_str().expect("text"), &report["command"]);
    let command = command.as_str().unwrap_or_else(|| panic!("no command: {said}"));
    assert!(said.contains(&format!("`{command}`")), "{said}");
    report
}

/// A directory of ours with the zxids 1 to 11 in logs of some groups each.
fn ours(at: &Path) -> PathBuf {
    own(&at.join("my data"), 9, 2)
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).expect("reads");
    bytes[at] ^= 0x40;
    fs::write(file, bytes).expect("written");
}

#[test]
fn the_command_of_a_damaged_log_cuts_there_and_says_what_is_lost() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage, &str, u64); 4] = [
        (
            "a record",
            |version| {
                let log = version.join("log.1");
                let at = offsets(&fs::read(&log).expect("reads"));
                flip(&log, at[2] + 20);
            },
            "0x2",
            8,
        ),
        ("a header", |version| flip(&version.join("log.5"), 1), "0x4", 7),
        (
            "a length",
            |version| fs::write(version.join("log.5"), b"ZKLG").expect("written"),
            "0x4",
            3,
        ),
        (
            "a whole file",
            |version| fs::remove_file(version.join("log.5")).expect("removed"),
            "0x4",
            3,
        ),
    ];
    for (what, damage, last, lost) in damages {
        let root = tempfile::tempdir().expect("a folder");
        let dir = ours(root.path());
        damage(&dir.join("version-2"));
        let words = ["data", "check", "--json", text(&dir)];
        let report = refusal(&words, &dir);
        assert_eq!(report["lost"]["txns"], lost, "{what}: {report}");
        assert_eq!(report["lost"]["last_zxid"], "0xb", "{what}: {report}");
        type_in(report["command"].as_str().expect("a command"));
        assert_eq!(object(&words)["last_zxid"], last, "{what}");
    }
}

/// A log that the snapshot reaches into: what the snapshot holds is not lost.
#[test]
fn what_the_snapshot_holds_is_not_counted_as_lost() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(root.path());
    // Transactions 5 to 7 are in the snapshot as well.
    let log = dir.join("version-2/log.1");
    let at = offsets(&fs::read(&log).expect("reads"));
    flip(&log, at[3] + 20);
    fs::rename(dir.join("version-2/snapshot.7"), dir.join("version-2/snapshot.5"))
        .expect("renamed");
    let words = ["data", "check", "--json", text(&dir)];
    let report = refusal(&words, &dir);
    assert_eq!(report["lost"]["first_zxid"], "0x6", "{report}");
    assert_eq!(report["lost"]["txns"], 7, "{report}");
}

/// ZooKeeper's snapshot holds some of what follows, and there is no older one: a cut needs to be
/// told.
#[test]
fn a_snapshot_that_holds_some_of_what_is_cut_off_is_kept_where_it_is_the_only_one() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(root.path());
    let version = dir.join("version-2");
    fs::remove_file(version.join("snapshot.0")).expect("removed");
    fs::rename(version.join("snapshot.7"), version.join("snapshot.5")).expect("renamed");
    let log = version.join("log.1");
    let at = offsets(&fs::read(&log).expect("reads"));
    flip(&log, at[5] + 20);
    let words = ["data", "check", "--json", text(&dir)];
    let report = refusal(&words, &dir);
    let command = report["command"].as_str().expect("a command");
    let plain = command.strip_suffix(" --inexact").expect("it says so");
    let ended = run(&["data", "truncate", text(&dir), "--to-zxid", "0x5"]);
    assert!(plain.ends_with("--to-zxid 0x5") && ended.code == 1, "{ended:?}");
    assert!(ended.err.contains("--inexact"), "{ended:?}");
    type_in(command);
    assert_eq!(object(&words)["last_zxid"], "0x5");
}

#[test]
fn without_a_snapshot_the_logs_are_all_or_not_enough() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 3] = [
        ("gone", |version| fs::remove_file(version.join("snapshot.0")).expect("removed")),
        ("cut", |version| fs::write(version.join("snapshot.0"), b"ZKSN").expect("written")),
        ("turned", |version| flip(&version.join("snapshot.0"), 30)),
    ];
    for (what, damage) in damages {
        for is_whole in [true, false] {
            let root = tempfile::tempdir().expect("a folder");
            let dir = ours(root.path());
            let whole = object(&["data", "check", "--json", text(&dir)]);
            let version = dir.join("version-2");
            damage(&version);
            if !is_whole {
                fs::remove_file(version.join("log.1")).expect("removed");
            }
            let words = ["data", "check", "--json", text(&dir)];
            let report = refusal(&words, &dir);
            let command = report["command"].as_str().expect("a command");
            if is_whole {
                assert!(command.starts_with("ferrokeeper data first-snapshot '"), "{command}");
                assert_eq!(report["lost"]["txns"], 0, "{what}");
                let dry = format!("{command} --dry-run");
                let before = image(&dir);
                type_in(&dry);
                assert_eq!(image(&dir), before);
                type_in(command);
                let found = object(&words);
                assert_eq!(
                    (&found["last_zxid"], &found["digest"]),
                    (&whole["last_zxid"], &whole["digest"])
                );
            } else {
                assert_eq!(report["lost"]["txns"], 7, "{what}: {report}");
                let said = report["damage"].as_str().expect("text");
                assert!(said.contains("lost: all znodes"), "{said}");
                let tool = run(&["data", "first-snapshot", text(&dir)]);
                assert_eq!(tool.code, 1, "{tool:?}");
                type_in(command);
                assert!(!version.exists() && dir.join("given-up-1/log.5").exists());
            }
        }
    }
    let root = tempfile::tempdir().expect("a folder");
    let dir = ours(root.path());
    let tool = run(&["data", "first-snapshot", text(&dir)]);
    assert_eq!(tool.code, 1);
    assert!(tool.err.contains("readable snapshot"), "{tool:?}");
}

/// ZooKeeper begins an empty tree there.
#[test]
fn a_directory_that_lost_everything_is_not_taken_for_a_new_one() {
    for trace in [
        "session.key",
        "sessions.before.key",
        "ferrokeeper.sealed",
        "ferrokeeper.logged",
        "spare.3",
    ] {
        for is_split in [false, true] {
            let root = tempfile::tempdir().expect("a folder");
            let data = root.path().join("my data");
            let logs = if is_split { root.path().join("logs") } else { data.clone() };
            for folder in [&data, &logs] {
                fs::create_dir_all(folder.join("version-2")).expect("a folder");
            }
            let words = ["data", "check", "--json", text(&data), "--log-dir", text(&logs)];
            // What a first start leaves that is broken off, and what an ensemble agreed to before
            // its first word.
            fs::write(data.join("version-2/acceptedEpoch"), b"1").expect("written");
            assert_eq!(object(&words)["last_zxid"], "0x0");
            let folder = if trace == "spare.3" { &logs } else { &data };
            fs::write(folder.join("version-2").join(trace), [7; 32]).expect("written");
            let report = refusal(&words, root.path());
            let said = report["damage"].as_str().expect("text");
            assert!(said.contains(trace) && said.contains("lost: all znodes"), "{said}");
            // An earlier attempt is not in the way.
            fs::create_dir(data.join("given-up-1")).expect("a folder");
            let report = refusal(&words, root.path());
            type_in(report["command"].as_str().expect("a command"));
            assert!(!data.join("version-2").exists() && !logs.join("version-2").exists());
            let aside = if is_split && trace == "spare.3" {
                "logs/given-up-1"
            } else {
                "my data/given-up-2"
            };
            assert!(root.path().join(aside).join(trace).exists());
        }
    }
}
