//! `backup` and `restore`.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use crate::fixture::{fine, image, java, object, own, run, text};

/// What a start would find.
fn state(dir: &Path) -> (String, String) {
    let report = object(&["data", "check", "--json", text(dir)]);
    (report["last_zxid"].to_string(), report["digest"].to_string())
}

#[test]
fn a_backup_is_a_data_directory_and_comes_back() {
    for is_own in [false, true] {
        let root = tempfile::tempdir().expect("a folder");
        let data = root.path().join("data");
        let dir = if is_own { own(&data, 9, 2) } else { java(&data) };
        let before = image(&dir);
        let (backup, made) = (root.path().join("backup"), root.path().join("made"));
        fine(&["backup", text(&dir), text(&backup), "--dry-run"]);
        let plan = object(&["backup", "--json", text(&dir), text(&backup), "--dry-run"]);
        assert!(!backup.exists());
        let manifest = fine(&["backup", "--json", text(&dir), text(&backup)]).json().remove(0);
        assert_eq!(image(&dir), before, "the source stays as it was");
        let copied = manifest["files"].as_array().expect("a list");
        for planned in plan["files"].as_array().expect("a list") {
            let name = Path::new(planned["file"].as_str().expect("a path")).file_name();
            let name = name.expect("a name").to_str().expect("UTF-8");
            let file = copied.iter().find(|file| file["name"] == name).expect("it is copied");
            assert_eq!(file["length"], planned["length"], "{name}");
        }
        assert_eq!(state(&backup), state(&dir));
        assert_eq!(manifest["zxid"], if is_own { "0xb" } else { "0xc" });
        assert_eq!(run(&["backup", text(&dir), text(&backup)]).code, 2, "it is not empty now");

        fine(&["restore", text(&backup), text(&made), "--dry-run"]);
        assert!(!made.exists());
        let done = object(&["restore", "--json", text(&backup), text(&made)]);
        assert_eq!(done["verified"], true);
        assert_eq!(state(&made), state(&dir));
        fine(&["log", "verify", text(&made)]);
        assert_eq!(done["replaces"], false);
        assert_eq!(run(&["restore", text(&backup), text(&made)]).code, 2, "it holds data now");
        let done = object(&["restore", "--json", text(&backup), text(&made), "--replace"]);
        assert_eq!(done["replaces"], true);
        let moved = Path::new(done["moved"].as_str().expect("a folder"));
        assert!(moved.join(if is_own { "log.1" } else { "snapshot.7" }).exists());
    }
}

/// What ZooKeeper wrote down for each transaction is the digest of the state after it.
#[test]
fn every_earlier_state_of_zookeepers_comes_back() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(&root.path().join("data"));
    let lines = fine(&["log", "show", "--json", text(&dir)]).json();
    assert_eq!(lines.len(), 12);
    for line in lines {
        let zxid = line["zxid"].as_str().expect("a zxid");
        let (by_zxid, by_time) = (root.path().join(zxid), root.path().join(format!("time-{zxid}")));
        fine(&["restore", text(&dir), text(&by_zxid), "--to-zxid", zxid]);
        let expected = (line["zxid"].to_string(), line["digest"].to_string());
        assert_eq!(state(&by_zxid), expected);
        let time = line["time"].as_str().expect("a time");
        fine(&["restore", text(&dir), text(&by_time), "--to-time", time]);
        assert_eq!(state(&by_time), expected, "at {time}");
    }
    let early = root.path().join("early");
    fine(&["restore", text(&dir), text(&early), "--to-time", "2026-11-21T09:01:15Z"]);
    assert_eq!(state(&early).0, "\"0x0\"");
    let late = run(&["restore", text(&dir), text(&root.path().join("x")), "--to-zxid", "0xd"]);
    assert_eq!(late.code, 1);
    assert!(late.err.contains("ends at 0xc"), "{}", late.err);
}

#[test]
fn every_earlier_state_of_ours_comes_back() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = own(&root.path().join("data"), 9, 2);
    let log_dir = root.path().join("logs");
    for zxid in [0, 1, 4, 5, 8, 11] {
        let (made, cut) = (root.path().join(format!("made{zxid}")), format!("{zxid:#x}"));
        let words = ["restore", text(&dir), text(&made), "--to-zxid", &cut];
        fine(&[&words[..], &["--log-dir", text(&log_dir), "--replace"]].concat());
        let place = ["data", "check", "--json", text(&made), "--log-dir", text(&log_dir)];
        let report = object(&place);
        assert_eq!(report["last_zxid"], cut);
        if zxid > 0 {
            let last = |dir: &Path| {
                let words = ["log", "show", "--json", "--data", "--zxid", &cut, text(dir)];
                fine(&words).json()[0]["data"].clone()
            };
            assert_eq!(last(&log_dir), last(&dir));
        }
    }
}

#[test]
fn an_altered_backup_is_refused_whatever_was_altered() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(&root.path().join("data"));
    let backup = root.path().join("backup");
    fine(&["backup", text(&dir), text(&backup)]);
    let made = root.path().join("made");
    let refused = |what: &str| {
        let ended = run(&["restore", text(&backup), text(&made)]);
        assert_eq!(ended.code, 1, "{what}: {}", ended.err);
        assert!(!made.exists(), "{what}");
        ended.err
    };
    for (path, bytes) in image(&backup) {
        let mut turned = bytes.clone();
        turned[bytes.len() / 2] ^= 1;
        if path.ends_with("backup.json") {
            turned = bytes[..bytes.len() / 2].to_vec();
        }
        fs::write(&path, turned).expect("written");
        refused(text(&path));
        fs::remove_file(&path).expect("removed");
        if !path.ends_with("backup.json") {
            assert!(refused(text(&path)).contains("missing"));
        }
        fs::write(&path, bytes).expect("written");
    }
    let extra = backup.join("version-2/log.d");
    fs::write(&extra, b"").expect("written");
    assert!(refused("a file more").contains("log.d"));
    fs::remove_file(&extra).expect("removed");
    fine(&["restore", text(&backup), text(&made)]);
}

#[test]
fn a_snapshot_that_is_broken_gives_way_to_an_older_one() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(&root.path().join("data"));
    let snapshot = dir.join("version-2/snapshot.7");
    let whole = state(&dir);
    let mut bytes = fs::read(&snapshot).expect("a snapshot");
    bytes[200] ^= 1;
    fs::write(&snapshot, bytes).expect("written");
    let backup = root.path().join("backup");
    fine(&["backup", text(&dir), text(&backup)]);
    assert!(backup.join("version-2/snapshot.0").exists());
    assert!(!backup.join("version-2/snapshot.7").exists());
    assert_eq!(state(&backup), whole);
}

/// What a run would do is told before, and why it would do nothing.
#[test]
fn a_dry_run_of_a_restore_over_data_says_what_the_run_would_do() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(&root.path().join("data"));
    let (backup, made) = (root.path().join("backup"), root.path().join("made"));
    fine(&["backup", text(&dir), text(&backup)]);
    let words = ["restore", text(&backup), text(&made)];
    let dry = [&words[..], &["--dry-run"]].concat();
    let first_line = |said: &str| said.lines().next().unwrap_or_default().to_owned();
    assert_eq!(first_line(&fine(&dry).out), format!("would create {}", made.display()));
    fine(&words);

    let before = image(&made);
    let refusal = |words: &[&str]| {
        let ended = run(words);
        (ended.code, ended.out, ended.err)
    };
    assert_eq!(refusal(&dry), refusal(&words));
    let replacing = [&dry[..], &["--replace"]].concat();
    let said = fine(&replacing).out;
    assert_eq!(first_line(&said), format!("would replace {}", made.display()));
    assert!(said.contains(&format!("would be moved to {}/replaced-", made.display())), "{said}");
    let report = object(&[&replacing[..], &["--json"]].concat());
    assert_eq!((&report["done"], &report["replaces"]), (&false.into(), &true.into()));
    assert_eq!(image(&made), before);

    // Whoever has a file of it open would keep the run from it.
    let open = fs::File::open(made.join("version-2/snapshot.7")).expect("opens");
    let run_too = [&words[..], &["--replace"]].concat();
    let refused = refusal(&replacing);
    assert_eq!(refused, refusal(&run_too));
    assert!(refused.0 == 3 && refused.2.contains("in use by process"), "{refused:?}");
    assert_eq!(image(&made), before);
    drop(open);
    let said = fine(&run_too).out;
    assert_eq!(first_line(&said), format!("replaced {}", made.display()));
}

/// The user and the group of everything below a folder, and of the folder.
fn owners(at: &Path) -> Vec<(PathBuf, u32, u32)> {
    let mut owners = Vec::new();
    let mut left = vec![at.to_owned()];
    while let Some(path) = left.pop() {
        let its = fs::symlink_metadata(&path).expect("it is there");
        if its.is_dir() {
            left.extend(fs::read_dir(&path).expect("lists").map(|one| one.expect("one").path()));
        }
        owners.push((path, its.uid(), its.gid()));
    }
    owners
}

/// `sudo ferrokeeper restore ...`, where the server is another user's: whoever runs this as root
/// sees that nothing of root's is left.
#[test]
fn what_root_writes_in_the_folder_of_the_servers_user_is_that_users() {
    let root = tempfile::tempdir().expect("a folder");
    let theirs = java(&root.path().join("theirs"));
    let is_root = fs::metadata(root.path()).expect("a folder").uid() == 0;
    let folder = |name: &str| {
        let folder = root.path().join(name);
        fs::create_dir(&folder).expect("a folder");
        if is_root {
            chown(&folder, Some(4711), Some(4712)).expect("root may");
        }
        folder
    };
    let (backup, made, served) = (folder("backup"), folder("made"), folder("served"));
    fine(&["backup", text(&theirs), text(&backup)]);
    fine(&["restore", text(&backup), text(&made)]);
    fine(&["restore", text(&backup), text(&made), "--replace", "--to-zxid", "0xa"]);
    fine(&["data", "truncate", text(&made), "--to-zxid", "0x9"]);
    // What a server of that user has written: the lock, a snapshot, logs.
    own(&served, 9, 2);
    if is_root {
        for (path, ..) in owners(&served) {
            chown(&path, Some(4711), Some(4712)).expect("root may");
        }
    }
    fine(&["data", "seal", text(&served)]);
    for folder in [backup, made, served] {
        let owners = owners(&folder);
        assert!(owners.len() > 4, "{owners:?}");
        let (_, user, group) = owners[0];
        for its in &owners {
            assert_eq!((its.1, its.2), (user, group), "{}", its.0.display());
        }
    }
}
