//! Files that end anywhere, have a bit turned, or hold something else.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::fixture::{fine, java, object, offsets, own, run, text};

/// Every tool that only looks, on a directory and on its log and snapshot.
fn look(dir: &Path, log: &Path, snapshot: &Path) {
    let spare = dir.join("made");
    let (dir, log, snapshot) = (text(dir), text(log), text(snapshot));
    for words in [
        &["log", "show", log][..],
        &["log", "show", "--json", "--data", dir],
        &["log", "verify", dir],
        &["snapshot", "show", snapshot],
        &["snapshot", "verify", "--json", snapshot],
        &["snapshot", "diff", snapshot, snapshot],
        &["data", "check", dir],
        &["data", "truncate", dir, "--to-zxid", "0x3", "--dry-run"],
        &["data", "seal", dir, "--dry-run"],
        &["backup", dir, text(&spare), "--dry-run"],
        &["restore", dir, text(&spare), "--dry-run"],
        &["restore", dir, text(&spare), "--dry-run", "--to-time", "2026-11-21T09:01:16Z"],
    ] {
        run(words);
    }
    assert!(!spare.exists(), "a dry run made something");
}

/// Deterministic noise.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    };
    (0..len).map(|_| byte()).collect()
}

#[test]
fn noise_is_never_more_than_a_finding() {
    for seed in 1..9 {
        let root = tempfile::tempdir().expect("a folder");
        let version = root.path().join("version-2");
        fs::create_dir(&version).expect("a folder");
        let (log, snapshot) = (version.join("log.1"), version.join("snapshot.0"));
        let mut bytes = noise(seed, 1 << (seed + 4));
        // Half of them begin like the real thing.
        let head = |magic: &[u8; 4], dbid: i64| {
            [magic.as_slice(), &2_i32.to_be_bytes(), &dbid.to_be_bytes()].concat()
        };
        if seed % 2 == 0 {
            bytes.splice(0..0, head(b"ZKLG", i64::try_from(seed % 4).expect("small")));
        }
        fs::write(&log, &bytes).expect("written");
        if seed % 2 == 0 {
            bytes.splice(0..16, head(b"ZKSN", -1));
            bytes.extend(b"\0\0\0\x01/");
        }
        fs::write(&snapshot, &bytes).expect("written");
        look(root.path(), &log, &snapshot);
        assert_ne!(run(&["snapshot", "verify", text(&snapshot)]).code, 0);
    }
}

/// The lines of `log show --json`, as long as they come.
fn shown(log: &Path) -> Vec<Value> {
    run(&["log", "show", "--json", text(log)]).json()
}

#[test]
fn a_log_that_ends_anywhere_shows_what_is_whole() {
    for is_own in [false, true] {
        let root = tempfile::tempdir().expect("a folder");
        let dir = if is_own { own(root.path(), 2, 100) } else { java(root.path()) };
        let log = dir.join("version-2/log.1");
        let whole = fs::read(&log).expect("a log");
        let offsets = offsets(&whole);
        let expected = shown(&log);
        assert_eq!(expected.len(), offsets.len() - 1);
        for len in 0..offsets[offsets.len() - 1] {
            fs::write(&log, &whole[..len]).expect("written");
            let complete = offsets[1..].iter().filter(|end| **end <= len).count();
            assert_eq!(shown(&log), expected[..complete], "the first {len} bytes");
            if len % 64 == 0 {
                look(&dir, &log, &dir.join("version-2/snapshot.0"));
            }
        }
    }
}

#[test]
fn a_snapshot_that_ends_anywhere_is_not_valid() {
    let root = tempfile::tempdir().expect("a folder");
    let dir = java(root.path());
    let snapshot = dir.join("version-2/snapshot.7");
    let whole = fs::read(&snapshot).expect("a snapshot");
    fine(&["snapshot", "verify", text(&snapshot)]);
    for len in 0..whole.len() {
        fs::write(&snapshot, &whole[..len]).expect("written");
        let report = run(&["snapshot", "verify", "--json", text(&snapshot)]);
        // ZooKeeper takes one without the digest after it, or without the zxid: older versions
        // wrote none.
        let is_valid = report.code == 0;
        let ends_in_a_seal = whole[..len].ends_with(b"\0\0\0\x01/");
        assert!(!is_valid || ends_in_a_seal, "{len} of {} bytes", whole.len());
        assert_eq!(report.json()[0]["valid"], is_valid);
        if len % 128 == 0 {
            look(&dir, &dir.join("version-2/log.8"), &snapshot);
        }
    }
}

#[test]
fn a_turned_bit_is_found_and_the_command_that_is_named_works() {
    let root = tempfile::tempdir().expect("a folder");
    let source = own(&root.path().join("source"), 9, 2);
    let log = "version-2/log.5";
    let whole = fs::read(source.join(log)).expect("a log");
    let offsets = offsets(&whole);
    for (turn, at) in (16..offsets[offsets.len() - 1]).step_by(23).enumerate() {
        let dir = root.path().join(format!("turned{turn}"));
        crate::fixture::copy(&source.join("version-2"), &dir.join("version-2"));
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (turn % 8);
        fs::write(dir.join(log), &bytes).expect("written");
        assert_eq!(run(&["log", "verify", text(&dir)]).code, 1, "byte {at}");

        let check = run(&["data", "check", "--json", text(&dir)]);
        assert_eq!(check.code, 1, "byte {at}: {}", check.out);
        let report = &check.json()[0];
        assert_eq!(report["starts"], false);
        let command = report["command"].as_str().unwrap_or_else(|| panic!("{report}"));
        let words: Vec<&str> = command.split(' ').skip(1).collect();
        let last = offsets.iter().filter(|end| **end <= at).count() as i64 + 3;
        assert_eq!(words.last(), Some(&format!("{last:#x}").as_str()), "byte {at}");
        // 11 transactions in all; the one with the turned bit cannot be read.
        assert_eq!(report["lost"]["txns"], 11 - last - 1, "byte {at}: {report}");
        fine(&words);
        let after = object(&["data", "check", "--json", text(&dir)]);
        assert_eq!(after["last_zxid"], format!("{last:#x}"));
        fine(&["log", "verify", text(&dir)]);
    }
}
