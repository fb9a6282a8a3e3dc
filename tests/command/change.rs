//! `data truncate` and `data seal`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use ferrokeeper::storage::{
    DataDirectory, DirectoryOptions, Members, RaftState, RaftStateFile, RealDisk,
};

use crate::fixture::{SESSION, fine, image, java, object, offsets, own, run, text};

#[test]
fn a_log_is_cut_behind_any_zxid_and_nothing_is_deleted() {
    for zxid in [0, 1, 4, 5, 8, 10, 11_i64] {
        let root = tempfile::tempdir().expect("a folder");
        let dir = own(&root.path().join("data"), 9, 2);
        let before = image(&dir);
        let cut = format!("{zxid:#x}");
        let words = ["data", "truncate", "--json", text(&dir), "--to-zxid", &cut];
        let plan = object(&[&words[..], &["--dry-run"]].concat());
        assert_eq!(image(&dir), before, "a dry run changed something");
        let done = object(&words);
        assert_eq!(plan["lost"], done["lost"]);
        assert_eq!(done["lost"]["txns"], 11 - zxid);

        let report = object(&["data", "check", "--json", text(&dir)]);
        assert_eq!(report["last_zxid"], cut);
        for (path, bytes) in before {
            let name = path.file_name().expect("a name").to_owned();
            // It goes with the last log.
            if name == "ferrokeeper.logged" && cut == "0x0" {
                assert!(!path.exists());
                continue;
            }
            let after = fs::read(&path).unwrap_or_else(|_| {
                let moved = done["moved"].as_array().expect("a list");
                assert!(moved.contains(&text(&path).into()), "{name:?} is gone");
                let aside = done["aside"][0].as_str().expect("a folder");
                fs::read(std::path::Path::new(aside).join(&name)).expect("it is there")
            });
            if name != "ferrokeeper.lock" {
                assert!(bytes.starts_with(&after), "{name:?}");
            }
        }
        let again = object(&words);
        assert_eq!((&again["lost"]["txns"], &again["moved"]), (&0.into(), &serde_json::json!([])));
    }
}

#[test]
fn snapshots_that_hold_more_go_with_the_log() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(root.path());
    fine(&["data", "truncate", text(&dir), "--to-zxid", "0x5"]);
    let report = object(&["data", "check", "--json", text(&dir)]);
    assert_eq!(report["last_zxid"], "0x5");
    assert!(!dir.join("version-2/snapshot.7").exists() && !dir.join("version-2/log.8").exists());
    let log = fs::read(dir.join("version-2/log.1")).expect("a log");
    assert_eq!(offsets(&log).len(), 6, "five records");
    // The digest that ZooKeeper wrote down for 0x5 is that of the state.
    let lines = fine(&["log", "show", "--json", "--zxid", "0x5", text(&dir)]).json();
    assert_eq!(lines[0]["digest"], report["digest"]);
}

#[test]
fn a_server_keeps_its_directory() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = own(root.path(), 9, 2);
    let options =
        DirectoryOptions { data_dir: dir.clone(), data_log_dir: dir.clone(), create: false };
    let held = DataDirectory::open(Arc::new(RealDisk), &options).expect("opens");
    let before = image(&dir);
    for words in [
        &["data", "truncate", text(&dir), "--to-zxid", "0x3"][..],
        &["data", "seal", text(&dir)],
        &["restore", text(&dir), text(&dir), "--replace"],
    ] {
        let ended = run(words);
        assert_eq!(ended.code, 3, "{words:?}: {}", ended.err);
        let holder = format!("process {}", std::process::id());
        assert!(ended.err.contains(&holder), "{words:?}: {}", ended.err);
    }
    assert_eq!(image(&dir), before);
    // Who only looks is not in the way.
    fine(&["data", "check", text(&dir)]);
    drop(held);
    fine(&["data", "truncate", text(&dir), "--to-zxid", "0x3"]);
}

#[test]
fn a_program_without_a_lock_is_noticed_by_its_open_files() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(root.path());
    let log = fs::File::open(dir.join("version-2/log.8")).expect("opens");
    let ended = run(&["data", "truncate", text(&dir), "--to-zxid", "0x3"]);
    assert_eq!(ended.code, 3, "{}", ended.err);
    let holder = format!("process {} (", std::process::id());
    assert!(ended.err.contains(&holder), "{}", ended.err);
    drop(log);
    fine(&["data", "truncate", text(&dir), "--to-zxid", "0x3"]);
}

#[test]
fn sealing_makes_a_key_and_keeps_the_sessions_of_before() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = own(root.path(), 9, 2);
    let before = image(&dir);
    let words = ["data", "seal", "--json", text(&dir)];
    let plan = object(&[&words[..], &["--dry-run"]].concat());
    assert_eq!(image(&dir), before);
    let done = object(&words);
    for (report, is_done) in [(plan, false), (done, true)] {
        assert_eq!((&report["done"], &report["sealed"]), (&is_done.into(), &"0xb".into()));
        assert_eq!(
            (&report["key_made"], &report["sessions_before_key"]),
            (&true.into(), &1.into())
        );
    }
    let version = dir.join("version-2");
    let key = fs::read(version.join("session.key")).expect("a key");
    assert_eq!(key.len(), 36);
    let mode = fs::metadata(version.join("session.key")).expect("a key").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let read = |name| fs::read_to_string(version.join(name)).expect("it is there");
    // The checksums are zlib's.
    assert_eq!(read("sessions.before.key"), format!("{SESSION:#x}\ncrc32 0x17821b63\n"));
    assert_eq!(read("ferrokeeper.sealed"), "0xb\ncrc32 0x3c93fe6e\n");
    // A second time the key stays.
    assert_eq!(object(&words)["key_made"], false);
    assert_eq!(fs::read(version.join("session.key")).expect("a key"), key);
    let report = object(&["data", "check", "--json", text(&dir)]);
    assert_eq!((&report["session_key"], &report["sealed"]), (&true.into(), &"0xb".into()));
}

#[test]
fn a_directory_that_ferrokeeper_has_not_served_is_not_sealed() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(root.path());
    let before = image(&dir);
    let ended = run(&["data", "seal", text(&dir), "--dry-run"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("start and stop it on the directory"), "{}", ended.err);
    assert_eq!(image(&dir), before);
}

/// The others have counted what a member acknowledged.
#[test]
fn the_log_of_a_member_is_not_cut() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = own(&root.path().join("data"), 9, 2);
    let options =
        DirectoryOptions { data_dir: dir.clone(), data_log_dir: dir.clone(), create: false };
    let directory = DataDirectory::open(Arc::new(RealDisk), &options).expect("opens");
    let id = (1 << 8) | 1;
    let members = Members { voters: vec![id, (1 << 8) | 2, (1 << 8) | 3], ..Members::default() };
    let state = RaftState { id, members, ..RaftState::default() };
    RaftStateFile::create(&directory, &state, None).expect("a member");
    drop(directory);
    let lock = dir.join("version-2/ferrokeeper.lock");
    let files = || {
        let mut files = image(&dir);
        // It names the process that had it last.
        files.remove(&lock);
        files
    };
    let before = files();
    for more in [&[][..], &["--dry-run"], &["--json"], &["--inexact"]] {
        for zxid in ["0x5", "0xb"] {
            let ended = run(&[&["data", "truncate", text(&dir), "--to-zxid", zxid], more].concat());
            assert_eq!(ended.code, 1, "{ended:?}");
            assert!(ended.err.contains("FK0820"), "{ended:?}");
            for advice in ["a majority of the others", "`mv ", "data leave"] {
                assert!(ended.err.contains(advice), "{advice}: {ended:?}");
            }
            assert!(files() == before, "{more:?}");
        }
    }
    fine(&["data", "leave", text(&dir)]);
    fine(&["data", "truncate", text(&dir), "--to-zxid", "0x5"]);
}

/// What becomes of each member that leaves: only one that has something of an ensemble that has
/// begun may speak for it, and nobody is sent to empty what may be the only copy.
#[test]
fn a_member_that_leaves_says_what_counts_then() {
    let id = (1 << 8) | 1;
    let voters = vec![id, (1 << 8) | 2, (1 << 8) | 3];
    let members = Members { voters, ..Members::default() };
    // What lay in the directory goes to 0xb, of epoch 0; the ensemble was founded after another
    // server's 20 entries.
    let own = (0, 0xb);
    let accepted = RaftState {
        id,
        term: 2,
        founded_in: 2,
        base: 20,
        clears: true,
        own,
        members,
        ..RaftState::default()
    };
    let begun = RaftState { term: 3, ..accepted.clone() };
    let seated = RaftState { founded_in: 0, base: 0, ..begun.clone() };
    let has_all = RaftState { commit: 20, clears: false, own: (0, 0), ..begun.clone() };
    let has_founded = RaftState { commit: 11, base: 11, clears: false, ..accepted.clone() };
    let went_on = RaftState { own: (0, 0x9), ..has_founded.clone() };
    let counts = "the data that it held before is used again, up to 0xb of epoch 0";
    let gives_up = "as well, and keep their data directories";
    for (state, has_begun, lacks_base, parts) in [
        (accepted, false, true, vec!["has not begun", counts, gives_up]),
        (begun, true, true, vec!["it has nothing of that ensemble", counts, gives_up]),
        (seated, true, true, vec!["it has nothing of that ensemble", counts, gives_up]),
        (has_founded, false, false, vec!["has not begun", counts, gives_up]),
        (went_on, false, false, vec!["has not begun", "it ends at 0xb", gives_up]),
        (
            has_all,
            true,
            false,
            vec![
                "it ends at 0xb",
                "before you start any server, run `ferrokeeper data leave` on every other server \
                 whose data you want considered",
                "no other member of that ensemble may ever serve its data again: on all others, \
                 and only there, move `version-2`",
            ],
        ),
    ] {
        let root = tempfile::tempdir().expect("a folder");
        let dir = crate::fixture::own(&root.path().join("data"), 9, 2);
        let options =
            DirectoryOptions { data_dir: dir.clone(), data_log_dir: dir.clone(), create: false };
        let directory = DataDirectory::open(Arc::new(RealDisk), &options).expect("opens");
        RaftStateFile::create(&directory, &state, None).expect("a member");
        drop(directory);
        let plan = object(&["data", "leave", "--json", "--dry-run", text(&dir)]);
        assert_eq!((&plan["done"], &plan["last_zxid"]), (&false.into(), &"0xb".into()));
        assert_eq!(plan["has_begun"], has_begun, "{state:?}");
        assert_eq!(plan["lacks_base"], lacks_base, "{state:?}");
        let said = fine(&["data", "leave", text(&dir)]).out;
        assert!(parts.iter().all(|part| said.contains(part)), "{state:?}: {said}");
        assert_eq!(
            said.contains("move `version-2`"),
            has_begun && !lacks_base,
            "{state:?}: {said}"
        );
        assert!(!dir.join("version-2/raft.state").exists());
        let nothing_more = run(&["data", "leave", text(&dir)]);
        assert!(nothing_more.err.contains("FK0815"), "{}", nothing_more.err);
    }
}
