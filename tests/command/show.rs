//! What the tools show of files whose content is known.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrokeeper::engine::database::Rules;
use ferrokeeper::ensemble::{Rebuild, write_walk};
use ferrokeeper::storage::{
    Compression, DataDirectory, DirectoryOptions, EntryKind, EntryLog, LogEntry, LogOptions,
    RealDisk, RecoveryOptions, SnapshotWriter, recover,
};
use jute::txn::{Txn, TxnHeader, TxnRecord};

use crate::fixture::{SESSION, ferrokeeper, fine, java, object, own, run, spawn, text, time_of};

/// The zxids of the lines.
fn zxids(words: &[&str]) -> Vec<String> {
    let lines = fine(words).json();
    lines.iter().map(|line| line["zxid"].as_str().expect("a zxid").to_owned()).collect()
}

#[test]
fn transactions_are_chosen_by_path_zxid_session_and_time() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(root.path());
    let dir = text(&dir);
    let show = |more: &[&str]| zxids(&[&["log", "show", "--json", dir], more].concat());
    assert_eq!(show(&[]).len(), 12);
    assert_eq!(show(&["--path", "/a"]), ["0x2", "0x3", "0x6"]);
    // closeSession deletes it.
    assert_eq!(show(&["--path", "/eph"]), ["0x4", "0x7"]);
    assert_eq!(show(&["--zxid", "0x7..0x9"]), ["0x7", "0x8", "0x9"]);
    assert_eq!(show(&["--zxid", "0xb.."]), ["0xb", "0xc"]);
    assert_eq!(show(&["--session", "0x100002a13ec0000"]), ["0x8", "0x9", "0xa", "0xb", "0xc"]);
    assert_eq!(show(&["--since", "2026-11-21T09:01:21.897Z"]), ["0xb", "0xc"]);
    assert_eq!(show(&["--until", "2026-11-21T10:01:15.926+01:00"]), ["0x1"]);
    let line = fine(&["log", "show", dir, "--zxid", "0x2", "--data"]).out;
    assert_eq!(
        line,
        "0x2 2026-11-21T09:01:16.010Z session 0x1000029fe520000 cxid 0x1 create /a data=\"hello\" \
         acl=world:anyone:cdrwa parentCversion=1\n"
    );
}

#[test]
fn changes_of_the_members_are_shown_by_name() {
    let root = tempfile::tempdir().expect("a folder");
    let at = root.path().to_owned();
    let options = DirectoryOptions { data_dir: at.clone(), data_log_dir: at, create: true };
    let directory = DataDirectory::open(Arc::new(RealDisk), &options).expect("opens");
    let log = LogOptions { segment_len: 1 << 16, spares: 0, force_sync: false };
    let (_, mut writer) = EntryLog::beside(Arc::new(directory), log).expect("opens");
    let record = |index: u64, of: i64, code: i32, kind: EntryKind| {
        let zxid = 0x1_0000_0000 + index.cast_signed();
        let header = TxnHeader { client_id: of, cxid: 0, zxid, time: 1_700_000_000_000 };
        let mut payload = Vec::new();
        TxnRecord { header, txn: Txn::Error(code), digest: None }.encode(&mut payload);
        LogEntry::new(index, kind, payload.into()).expect("a record")
    };
    let change = EntryKind::Membership;
    let entries = [
        LogEntry::blank(1, 0x1_0000_0001),
        record(2, 3, 4, change),
        record(3, 0x602, 7, change),
        record(4, 0x203, 2, change),
        record(5, 0x101, 3, change),
        // Neither is a change: a later version's, and one of nobody's.
        record(6, 0x101, 10, change),
        record(7, 0x101, 3, EntryKind::Ordinary),
    ];
    writer.append(&entries).expect("appends");
    writer.commit().expect("is written");
    let dir = text(root.path());
    let lines = fine(&["log", "show", dir]).out;
    let said: Vec<&str> =
        lines.lines().map(|its| its.split_once(" cxid 0x0 ").expect("one").1).collect();
    assert_eq!(
        said,
        [
            "error code=0",
            "changeMembers seat server=3",
            "changeMembers seat server=2 was=0x602",
            "changeMembers vote member=0x203",
            "changeMembers remove member=0x101",
            "error code=10",
            "error code=3",
        ]
    );
    let lines = fine(&["log", "show", "--json", dir]).json();
    let said = ["op", "change", "member", "session"].map(|key| lines[4][key].as_str());
    assert_eq!(said, ["changeMembers", "remove", "0x101", "0x101"].map(Some));
}

#[test]
fn groups_are_shown_and_counted() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = own(root.path(), 9, 100);
    let lines = fine(&["log", "show", "--json", text(&dir)]).json();
    let begins: Vec<bool> = lines.iter().map(|line| line["group"] == line["offset"]).collect();
    assert_eq!(
        begins,
        [true, false, true, false, true, false, true, false, true, false, true],
        "two transactions a group, the last one alone"
    );
    assert_eq!(lines[4]["session"], format!("{SESSION:#x}"));
    let report = object(&["log", "verify", "--json", text(&dir)]);
    assert_eq!((&report["txns"], &report["groups"]), (&11.into(), &6.into()));
    assert_eq!(report["problems"], serde_json::json!([]));
}

#[test]
fn a_missing_log_is_a_gap() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = own(root.path(), 9, 2);
    fs::remove_file(dir.join("version-2/log.5")).expect("removed");
    let ended = run(&["log", "verify", text(&dir)]);
    assert_eq!(ended.code, 1);
    assert!(ended.out.contains("transaction 0x9 follows 0x4"), "{}", ended.out);
    assert!(ended.out.contains("log index 9 follows where 5 should"), "{}", ended.out);
}

#[test]
fn snapshots_are_compared() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(root.path());
    let file = |name: &str| text(&dir.join("version-2").join(name)).to_owned();
    let (a, b) = (file("snapshot.0"), file("snapshot.7"));
    let forth = run(&["snapshot", "diff", &a, &b]);
    assert_eq!(forth.code, 1);
    assert_eq!(forth.out, "changed / (stat)\nadded /a\nadded /a/s-0000000000\nadded /acl\n");
    let back = run(&["snapshot", "diff", &b, &a]);
    assert_eq!(back.out, "changed / (stat)\nremoved /a\nremoved /a/s-0000000000\nremoved /acl\n");
    assert_eq!(fine(&["snapshot", "diff", &b, &b]).out, "");
    let znode = fine(&["snapshot", "show", "--path", "/a", "--data", &b]).out;
    assert!(znode.contains("\n/a data=\"again\" czxid=0x2 mzxid=0x6 pzxid=0x3 "), "{znode}");
    assert!(!znode.contains("\n/acl "), "{znode}");
}

#[test]
fn check_says_what_a_start_finds() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = own(root.path(), 9, 2);
    let report = object(&["data", "check", "--json", text(&dir)]);
    assert_eq!(report["last_zxid"], "0xb");
    assert_eq!((&report["txns"], &report["sessions"]), (&11.into(), &1.into()));
    assert_eq!(report["last_time"], "2023-11-14T22:13:31.000Z");
    assert_eq!(time_of(11), 1_700_000_011_000, "which is that time");
    let java = java(&root.path().join("java"));
    let people = fine(&["data", "check", text(&java)]).out;
    assert!(people.contains("4 files by ZooKeeper, 0 files by ferrokeeper\n"), "{people}");
    assert!(people.ends_with("a server would start\n"), "{people}");
}

#[test]
fn a_reader_that_goes_away_is_a_quiet_end() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = own(root.path(), 6000, 10_000);
    let mut child = spawn(&mut ferrokeeper(&["log", "show", "--json", text(&dir)]));
    let mut first = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
    stdout.read_line(&mut first).expect("a line");
    drop(stdout);
    let ended = child.wait_with_output().expect("ends");
    assert!(first.contains("createSession"), "{first}");
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn what_is_no_zxid_or_no_file_has_its_code() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(root.path());
    assert_eq!(run(&["log", "show", text(&dir), "--zxid", "5"]).code, 2);
    assert_eq!(run(&["log", "show", text(&dir), "--since", "2026-11-21T09:01:21"]).code, 2);
    assert_eq!(run(&["log", "show", "/no/such/file"]).code, 3);
    assert_eq!(run(&["snapshot", "show", "/no/such/file"]).code, 3);
    let ended = run(&["data", "check", "/no/such/folder"]);
    assert_eq!(ended.code, 3);
    assert!(ended.err.contains("has no version-2"), "{}", ended.err);
}

/// ZooKeeper writes the ACLs first and then znodes that may name one that was made since
/// (ZOOKEEPER-3306).
#[test]
fn a_znode_may_name_an_acl_that_only_the_log_has() {
    let root = tempfile::tempdir().expect("a folder");
    let version = root.path().join("version-2");
    fs::create_dir(&version).expect("a folder");
    let mut snapshot = b"ZKSN\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff".to_vec();
    // No sessions, no ACLs, the root, and a znode with ACL 5.
    snapshot.extend([0; 8]);
    for (path, acl) in [("", -1_i64), ("/a", 5)] {
        snapshot.extend(u32::try_from(path.len()).expect("short").to_be_bytes());
        snapshot.extend(path.as_bytes());
        snapshot.extend([0; 4]);
        snapshot.extend(acl.to_be_bytes());
        snapshot.extend([0; 60]);
    }
    snapshot.extend(b"\0\0\0\x01/");
    let seal = simd_adler32::adler32(&snapshot.as_slice());
    snapshot.extend(i64::from(seal).to_be_bytes());
    snapshot.extend(b"\0\0\0\x01/");
    let file = version.join("snapshot.3");
    fs::write(&file, &snapshot).expect("written");
    fine(&["snapshot", "verify", text(&file)]);
    let lines = fine(&["snapshot", "show", "--json", text(&file)]).json();
    let znode = lines.iter().find(|line| line["path"] == "/a").expect("it is shown");
    assert_eq!(znode["acl"], serde_json::json!([{"scheme": "world", "id": "anyone", "perms": 0}]));
    // No log brings it: the start says so, and lets nobody in.
    let checked = run(&["data", "check", text(root.path()), "--log-dir", text(root.path())]);
    assert_eq!(checked.code, 0, "{checked:?}");

    // Ours show one instant, with all that belongs to it.
    snapshot[8..16].copy_from_slice(&3_i64.to_be_bytes());
    let end = snapshot.len() - 13;
    let seal = simd_adler32::adler32(&&snapshot[..end]);
    snapshot[end..end + 8].copy_from_slice(&i64::from(seal).to_be_bytes());
    fs::write(&file, &snapshot).expect("written");
    let verified = run(&["snapshot", "verify", text(&file)]);
    assert_eq!(verified.code, 1);
    assert!(format!("{verified:?}").contains("ACL 5"), "{verified:?}");
}

/// A snapshot of the state that is in the directory.
pub(crate) fn snapshot_of(dir: &Path, digest: bool) -> PathBuf {
    let options =
        DirectoryOptions { data_dir: dir.to_owned(), data_log_dir: dir.to_owned(), create: false };
    let directory = DataDirectory::open(Arc::new(RealDisk), &options).expect("opens");
    let mut rebuild = Rebuild::new(0, Rules { digest, ..Rules::default() });
    let log = LogOptions::new(0, true);
    let options = RecoveryOptions { log, ..RecoveryOptions::default() };
    let recovered = recover(&directory, options, &mut rebuild).expect("recovers");
    let mut database = rebuild.finish();
    let (zxid, index) = (recovered.last_zxid, recovered.log.next_index() - 1);
    let writer = SnapshotWriter::create(&directory, zxid, index, Compression::None);
    database.begin_walk();
    let tree = database.tree();
    let steps = std::iter::from_fn(|| tree.advance_walk(u32::MAX, 0));
    write_walk(writer.expect("a snapshot"), steps).expect("written");
    dir.join(format!("version-2/snapshot.{zxid:x}"))
}

#[test]
fn a_digest_that_the_znodes_do_not_make_is_told_with_both_values() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = own(&root.path().join("data"), 9, 2);
    let file = snapshot_of(&dir, true);
    let digest = object(&["data", "check", "--json", text(&dir)])["digest"].clone();
    let verified = object(&["snapshot", "verify", "--json", text(&file)]);
    assert_eq!((&verified["digest"], &verified["sum"]), (&digest, &digest));
    let digest = digest.as_str().expect("a digest");
    for command in ["verify", "show"] {
        let ended = fine(&["snapshot", command, text(&file)]);
        let said = format!("the digest {digest} is that of its znodes");
        assert!(ended.out.contains(&said), "{ended:?}");
    }

    // After each of the last two parts, a checksum and a mark.
    let mut bytes = fs::read(&file).expect("reads");
    let seals = [bytes.len() - 34, bytes.len() - 13];
    bytes[seals[0] - 1] ^= 1;
    for at in seals {
        let seal = i64::from(simd_adler32::adler32(&&bytes[..at]));
        bytes[at..at + 8].copy_from_slice(&seal.to_be_bytes());
    }
    fs::write(&file, bytes).expect("written");
    let said = i64::from_str_radix(digest.trim_start_matches("0x"), 16).expect("a number") ^ 1;
    for command in [&["verify"][..], &["verify", "--json"], &["show"], &["show", "--json"]] {
        let ended = run(&[&["snapshot"], command, &[text(&file)]].concat());
        assert_ne!(ended.code, 0, "{ended:?}");
        for value in [digest, &format!("{said:#x}")] {
            let told = if command[0] == "verify" { &ended.out } else { &ended.err };
            assert!(told.contains(value), "{value}: {ended:?}");
        }
    }
    // What it holds can be compared all the same.
    fine(&["snapshot", "diff", text(&file), text(&file)]);

    fs::remove_file(&file).expect("removed");
    let file = snapshot_of(&dir, false);
    let verified = object(&["snapshot", "verify", "--json", text(&file)]);
    assert_eq!(verified["digest"], serde_json::Value::Null);
    assert_eq!(verified["sum"], digest);
}

/// Of what ZooKeeper wrote while nothing changed.
#[test]
fn the_digest_of_a_snapshot_of_zookeeper_is_told_and_summed() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(root.path());
    let verified =
        object(&["snapshot", "verify", "--json", text(&dir.join("version-2/snapshot.7"))]);
    assert!(verified["digest"].is_string(), "{verified}");
    assert!(verified["sum"].is_string(), "{verified}");
}

/// A start goes by the name of a snapshot.
#[test]
fn a_name_that_does_not_fit_what_a_snapshot_holds_is_told_with_both_zxids() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = own(&root.path().join("data"), 9, 2);
    let (inside, outside) = (root.path().join("other/version-2"), root.path().join("downloads"));
    for folder in [&inside, &outside] {
        fs::create_dir_all(folder).expect("a folder");
    }
    let renamed = |from: &Path, folder: &Path, name: &str| {
        let to = folder.join(name);
        fs::copy(from, &to).expect("copied");
        text(&to).to_owned()
    };
    // Wherever else it is, nobody goes by its name, and its content is as valid as before.
    let refused = |from: &Path, name: &str, what: &str, says: &str| {
        let file = &renamed(from, &inside, name);
        let ended = run(&["snapshot", "verify", file]);
        assert_eq!((ended.code, ended.out), (1, format!("{file}: NOT VALID: [FK0823] {what}\n")));
        let [report] = run(&["snapshot", "verify", "--json", file]).json().try_into().expect("one");
        assert_eq!((&report["valid"], &report["id"]), (&false.into(), &"FK0823".into()));
        assert_eq!(report["problem"], what);
        let file = &renamed(from, &outside, name);
        let report = object(&["snapshot", "verify", "--json", file]);
        assert_eq!((&report["valid"], &report["zxid"]), (&true.into(), &says.into()));
        let remarks = report["remarks"].as_array().expect("a list").iter();
        let remarks: Vec<&str> = remarks.filter_map(|remark| remark.as_str()).collect();
        assert_eq!(remarks.join("; "), what);
        let shown = fine(&["snapshot", "verify", file]).out;
        assert!(remarks.iter().all(|it| shown.contains(&format!("remark: {it}"))), "{shown}");
    };
    // The zxids are 1 to 0xb.
    let ours = snapshot_of(&dir, true);
    for wrong in ["a", "c"] {
        let what = format!(
            "its name is 0x{wrong}, but its last zxid is 0xb; its name is 0x{wrong}, but its \
             digest is of 0xb"
        );
        refused(&ours, &format!("snapshot.{wrong}"), &what, "0xb");
    }
    // As it came over HTTP.
    let report = object(&["snapshot", "verify", "--json", &renamed(&ours, &outside, "snapshot")]);
    assert_eq!((&report["zxid"], &report["holds_up_to"]), (&"0xb".into(), &"0xb".into()));
    assert_eq!((&report["digest"], &report["remarks"]), (&report["sum"], &serde_json::json!([])));

    // Without a digest it does not say its zxid itself, and its znodes do not either: ours may be
    // made of one of ZooKeeper's that was written while transactions went on.
    fs::remove_file(&ours).expect("removed");
    let bare = snapshot_of(&dir, false);
    fine(&["snapshot", "verify", text(&bare)]);
    fine(&["snapshot", "verify", &renamed(&bare, &inside, "snapshot.a")]);

    // ZooKeeper's may hold more than its name says, and never less.
    let theirs = java(&root.path().join("java")).join("version-2/snapshot.7");
    let report =
        object(&["snapshot", "verify", "--json", &renamed(&theirs, &inside, "snapshot.5")]);
    assert_eq!((&report["zxid"], &report["holds_up_to"]), (&"0x5".into(), &"0x7".into()));
    refused(&theirs, "snapshot.9", "its name is 0x9, but its last zxid is 0x7", "0x7");
}
