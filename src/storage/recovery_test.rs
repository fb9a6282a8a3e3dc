//! Every rule of recovery, on files that are damaged by hand.

use jute::persist::{FileHeader, LOG_MAGIC, SnapshotDigest};
use jute::txn::{Txn, TxnRecord};
use jute::{Acl, Record};

use std::sync::Arc;

use super::super::StorageError;
use super::super::disk::sim::{Fault, SimDisk};
use super::super::error::DamageReason;
use super::super::fixture::{FOLDER, Fixture, data, offsets};
use super::super::ledger::{Ledger, txn};
use super::super::replay::{Nothing, Reading, SnapshotOrigin};
use crate::storage::files::directory::{DataDirectory, DirectoryOptions};
use crate::storage::log::record::adler32;
use crate::storage::log::txn_log::LogOptions;
use crate::storage::tools::cut::plan_cut;
use crate::storage::{Compression, Disk, purge};

#[path = "recovery_test/handed_over.rs"]
mod handed_over;
#[path = "recovery_test/zookeepers.rs"]
mod zookeepers;

fn plain() -> Fixture {
    Fixture::new(LogOptions { spares: 0, ..LogOptions::default() })
}

fn damage(fixture: &Fixture) -> (String, u64, DamageReason, i64) {
    let before = fixture.image();
    let error = fixture.start().expect_err("refused");
    assert_eq!(fixture.image(), before, "touched");
    let text = error.to_string();
    match error {
        StorageError::Damage { path, offset, reason, last_good, way_out, .. } => {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let command = format!("ferrokeeper data truncate /data --to-zxid {last_good:#x}");
            assert_eq!(way_out.expect("a way out").command, command);
            for part in [path.to_str().expect("text"), &format!("offset {offset}"), &command] {
                assert!(text.contains(part), "{part} in {text}");
            }
            start_anyway(&before, &name, offset, last_good);
            (name, offset, reason, last_good)
        }
        other => panic!("{other}"),
    }
}

/// What the command does, on a copy: it starts, and has everything before the damage.
fn start_anyway(image: &[(String, Vec<u8>)], name: &str, offset: u64, last_good: i64) {
    let copy = plain();
    let first = |name: &str| {
        name.strip_prefix("log.").map(|zxid| i64::from_str_radix(zxid, 16).expect("a zxid"))
    };
    for (other, content) in image {
        let mut content = content.clone();
        if other == name {
            content.truncate(usize::try_from(offset).expect("an offset"));
        } else if first(other) > first(name) && first(other).is_some() {
            continue;
        }
        copy.disk.plant(&Fixture::path(other), &content);
    }
    let (recovered, _) = copy.start().expect("starts");
    assert_eq!(recovered.last_zxid, last_good, "{name} at {offset}");
}

fn last(fixture: &Fixture) -> (i64, u64) {
    let (recovered, ledger) = fixture.start().expect("starts");
    for (zxid, found) in &ledger.txns {
        assert_eq!(*found, data(*zxid));
    }
    assert_eq!(recovered.last_zxid, ledger.last());
    (recovered.last_zxid, recovered.bytes_cut)
}

/// A log of ZooKeeper: dbid 0, no trailers.
fn java_log(zxids: &[i64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    FileHeader { magic: LOG_MAGIC, version: 2, dbid: 0 }.encode(&mut bytes);
    for zxid in zxids {
        let mut payload = Vec::new();
        txn(*zxid, &data(*zxid)).encode(&mut payload);
        bytes.extend(i64::from(adler32(&payload)).to_be_bytes());
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(payload);
        bytes.push(b'B');
    }
    bytes
}

/// Makes a snapshot of ours one of ZooKeeper, without tails.
fn make_zookeepers(snapshot: &mut Vec<u8>) {
    snapshot[8..16].fill(0xff);
    // The seal covers the header.
    let tails = 13 + 20 + 13 + 8 + 13;
    snapshot.truncate(snapshot.len() - tails);
    let seal = i64::from(adler32(snapshot)).to_be_bytes();
    snapshot.extend(seal);
    snapshot.extend(b"\0\0\0\x01/");
}

#[test]
fn a_fresh_directory_starts_at_index_1() {
    let fixture = plain();
    let (recovered, ledger) = fixture.start().expect("starts");
    assert!(recovered.fresh);
    assert_eq!((recovered.last_zxid, recovered.log.next_index()), (0, 1));
    assert_eq!((ledger.begun, recovered.snapshot.origin), (1, SnapshotOrigin::None));
}

#[test]
fn each_start_begins_a_segment_that_counts_on() {
    let fixture = plain();
    fixture.write(&[&[1, 2], &[3]]);
    fixture.write(&[&[4]]);
    let recovered = fixture.write(&[&[5, 6]]);
    assert!(!recovered.fresh);
    assert_eq!(recovered.log.next_index(), 7);
    assert_eq!(last(&fixture), (6, 0));
    for (name, index) in [("log.1", 1), ("log.4", 4), ("log.5", 5)] {
        assert_eq!(fixture.content(name)[8..16], i64::to_be_bytes(index), "{name}");
    }
}

#[test]
fn a_torn_last_group_is_cut_and_a_new_segment_follows() {
    for broken in 0..3 {
        let fixture = plain();
        fixture.write(&[&[1, 2], &[3, 4, 5]]);
        let at = offsets(&fixture.content("log.1"));
        fixture.edit("log.1", |log| log[at[2 + broken] + 20] ^= 1);
        let good = 2 + broken as i64;
        assert_eq!(last(&fixture), (good, (at[5] - at[2 + broken]) as u64));
        assert_eq!(fixture.content("log.1").len(), at[2 + broken]);
        // What was cut is written anew under the same zxid.
        fixture.write(&[&[good + 1, good + 2]]);
        assert_eq!(last(&fixture), (good + 2, 0));
    }
}

/// Else the name of an epoch that never was stands after those that follow.
#[test]
fn a_last_segment_without_a_record_is_removed() {
    const EPOCH: i64 = 1 << 32;
    for torn in [false, true] {
        let fixture = plain();
        fixture.write(&[&[1, 2]]);
        fixture.write(&[&[EPOCH]]);
        let at = offsets(&fixture.content("log.100000000"));
        fixture.edit("log.100000000", |log| if torn { log[20] ^= 1 } else { log[16..].fill(0) });
        assert_eq!(last(&fixture), (2, if torn { (at[1] - at[0]) as u64 } else { 0 }));
        assert_eq!(fixture.names(), ["currentEpoch", "ferrokeeper.logged", "log.1", "snapshot.0"]);
        fixture.write(&[&[3], &[4]]);
        assert_eq!(last(&fixture), (4, 0));
    }
}

#[test]
fn a_hole_of_zeros_in_the_last_group_is_cut() {
    let fixture = plain();
    fixture.write(&[&[1], &[2, 3, 4]]);
    let at = offsets(&fixture.content("log.1"));
    fixture.edit("log.1", |log| log[at[1]..at[3]].fill(0));
    assert_eq!(last(&fixture), (1, (at[4] - at[1]) as u64));
}

#[test]
fn zeros_behind_the_last_record_are_a_clean_end() {
    let fixture = plain();
    fixture.write(&[&[1, 2]]);
    fixture.edit("log.1", |log| log.resize(log.len() + 300_000, 0));
    let before = fixture.image();
    assert_eq!(last(&fixture), (2, 0));
    assert_eq!(fixture.image(), before);
}

#[test]
fn a_bad_record_before_a_later_group_is_damage() {
    let fixture = plain();
    fixture.write(&[&[1], &[2, 3], &[4]]);
    let at = offsets(&fixture.content("log.1"));
    for broken in 0..3 {
        let clean = fixture.content("log.1");
        fixture.edit("log.1", |log| log[at[broken] + 30] ^= 0x40);
        // Of the records after, the first whose group began later is the proof.
        let proof = [1, 3, 3][broken];
        let reason = DamageReason::LaterGroup { offset: at[proof] as u64, zxid: proof as i64 + 1 };
        assert_eq!(
            damage(&fixture),
            ("log.1".to_owned(), at[broken] as u64, reason, broken as i64)
        );
        fixture.edit("log.1", |log| *log = clean);
    }
}

#[test]
fn a_bad_or_missing_end_before_a_later_segment_is_damage() {
    for cut in [false, true] {
        let fixture = plain();
        fixture.write(&[&[1, 2]]);
        fixture.write(&[&[3]]);
        let at = offsets(&fixture.content("log.1"));
        fixture.edit("log.1", |log| if cut { log.truncate(at[1]) } else { log[at[1] + 9] ^= 1 });
        let reason = DamageReason::IndexGap { expected: 2, found: 3 };
        assert_eq!(damage(&fixture), ("log.1".to_owned(), at[1] as u64, reason, 1));
    }
}

#[test]
fn a_missing_segment_is_damage() {
    let fixture = plain();
    fixture.write(&[&[1, 2]]);
    fixture.write(&[&[3]]);
    fixture.write(&[&[4]]);
    fixture.disk.remove(&Fixture::path("log.3")).expect("removes");
    let (name, _, reason, last_good) = damage(&fixture);
    assert_eq!((name.as_str(), last_good), ("log.1", 2));
    assert_eq!(reason, DamageReason::IndexGap { expected: 3, found: 4 });
}

#[test]
fn a_missing_first_segment_is_damage() {
    let fixture = plain();
    fixture.write(&[&[1, 2]]);
    // A new epoch: only the index tells that something is missing.
    fixture.write(&[&[1 << 32]]);
    fixture.disk.remove(&Fixture::path("log.1")).expect("removes");
    let (_, _, reason, _) = damage(&fixture);
    assert_eq!(reason, DamageReason::IndexGap { expected: 1, found: 3 });
}

#[test]
fn a_renamed_segment_is_damage() {
    let fixture = plain();
    fixture.write(&[&[1, 2]]);
    let (from, to) = (Fixture::path("log.1"), Fixture::path("log.2"));
    fixture.disk.rename(&from, &to).expect("renames");
    assert_eq!(damage(&fixture).2, DamageReason::Name { found: 1 });
}

#[test]
fn a_record_without_a_trailer_in_our_segment_is_damage() {
    let fixture = plain();
    fixture.write(&[]);
    let mut log = java_log(&[1]);
    log[8..16].copy_from_slice(&1_i64.to_be_bytes());
    fixture.disk.plant(&Fixture::path("log.1"), &log);
    assert_eq!(damage(&fixture).2, DamageReason::Trailer);
}

#[test]
fn records_that_the_snapshot_holds_are_not_needed() {
    let fixture = plain();
    let recovered = fixture.write(&[&[1, 2, 3], &[4]]);
    let (_, ledger) = fixture.start().expect("starts");
    ledger.snapshot(&fixture.open(), recovered.log.next_index() - 1).expect("snapshot");
    let at = offsets(&fixture.content("log.1"));
    fixture.edit("log.1", |log| log.truncate(at[2] + 5));
    assert_eq!(last(&fixture), (4, 5));
    fixture.write(&[&[5]]);
    assert_eq!(last(&fixture), (5, 0));
}

#[test]
fn a_long_start_tells_how_far_it_is() {
    let fixture = plain();
    let first: Vec<i64> = (1..=11_000).collect();
    let recovered = fixture.write(&[&first]);
    let (_, ledger) = fixture.start().expect("starts");
    ledger.snapshot(&fixture.open(), recovered.log.next_index() - 1).expect("snapshot");
    let (second, third): (Vec<i64>, Vec<i64>) = (11_001..=22_000).partition(|zxid| *zxid < 13_000);
    fixture.write(&[&second]);
    fixture.write(&[&third]);
    let (_, ledger) = fixture.start().expect("starts");
    let of = |reading| ledger.told.iter().filter(move |(of, ..)| *of == reading);
    for (reading, words, files) in [
        (Reading::Snapshot, 2, vec!["snapshot.2af8"]),
        (Reading::Logs, 2, vec!["log.1", "log.2af9", "log.32c8"]),
    ] {
        let bytes: usize = files.iter().map(|name| fixture.content(name).len()).sum();
        let told: Vec<u64> = of(reading).map(|(_, done, _)| *done).collect();
        assert_eq!(told.len(), words, "{reading:?}");
        assert!(told.is_sorted() && told.iter().all(|done| *done <= bytes as u64), "{told:?}");
        assert!(of(reading).all(|(.., total)| *total == bytes as u64), "{:?}", ledger.told);
    }
}

#[test]
fn a_broken_snapshot_gives_way_to_an_older_one() {
    let fixture = plain();
    fixture.write(&[&[1, 2]]);
    let (_, ledger) = fixture.start().expect("starts");
    ledger.snapshot(&fixture.open(), 2).expect("snapshot");
    fixture.write(&[&[3]]);
    let len = fixture.content("snapshot.2").len();
    // Anywhere but in the last mark, which is looked at before: the seals find it.
    for at in (0..len - 5).step_by(7) {
        fixture.edit("snapshot.2", |bytes| bytes[at] ^= 0x20);
        let (recovered, found) = fixture.start().expect("starts");
        assert_eq!((found.txns.len(), found.begun <= 2), (3, true), "byte {at}");
        assert_eq!(recovered.snapshot.zxid, 0, "byte {at}");
        fixture.edit("snapshot.2", |bytes| bytes[at] ^= 0x20);
    }
}

#[test]
fn without_a_readable_snapshot_nothing_starts() {
    let fixture = plain();
    fixture.write(&[&[1]]);
    fixture.edit("snapshot.0", |bytes| bytes[0] ^= 1);
    let error = fixture.start().expect_err("refused");
    assert!(matches!(error, StorageError::NoReadableSnapshot { tried: 1, .. }), "{error}");
    // One that does not even end like a snapshot counts as none.
    fixture.edit("snapshot.0", |bytes| bytes.truncate(20));
    let error = fixture.start().expect_err("refused");
    assert!(matches!(error, StorageError::LogWithoutSnapshot { .. }), "{error}");
    let mut trusting = fixture.fork();
    trusting.options.trust_empty = true;
    assert_eq!(last(&trusting), (1, 0));
}

/// As where the disk of dataDir is not mounted, and that of dataLogDir is: the sessions' key and
/// what a member has promised are there.
#[test]
fn nobody_is_told_to_do_without_a_folder_that_is_not_there() {
    let fixture = plain();
    fixture.write(&[&[1, 2]]);
    fixture.disk.remove(&Fixture::path("snapshot.0")).expect("removes");
    let way_out = |fixture: &Fixture| match fixture.start().expect_err("refused") {
        StorageError::LogWithoutSnapshot { way_out, .. } => way_out,
        error => panic!("{error}"),
    };
    let command = way_out(&fixture).expect("its other files are there").command;
    assert_eq!(command, "ferrokeeper data first-snapshot /data");
    for name in fixture.names() {
        if !name.starts_with("log.") {
            fixture.disk.remove(&Fixture::path(&name)).expect("removes");
        }
    }
    assert_eq!(way_out(&fixture), None);
}

const PACKED: [(Compression, &str); 2] =
    [(Compression::Gzip, "snapshot.2.gz"), (Compression::Snappy, "snapshot.2.snappy")];

#[test]
fn a_compressed_snapshot_is_read_like_a_plain_one() {
    for (compression, name) in PACKED {
        let fixture = plain();
        fixture.write(&[&[1, 2]]);
        let (_, ledger) = fixture.start().expect("starts");
        ledger.packed_snapshot(&fixture.open(), 2, compression).expect("snapshot");
        fixture.write(&[&[3]]);
        fixture.disk.remove(&Fixture::path("snapshot.0")).expect("removes");
        fixture.disk.remove(&Fixture::path("log.1")).expect("removes");
        assert_eq!(fixture.names(), ["ferrokeeper.logged", "log.3", name]);
        let (recovered, found) = fixture.start().expect("starts");
        assert_eq!(recovered.snapshot.origin, SnapshotOrigin::Exact { index: 2 });
        assert_eq!((recovered.snapshot.zxid, recovered.txns), (2, 1));
        assert_eq!((found.txns.len(), found.digest), (3, ledger_digest(2)));
    }
}

fn ledger_digest(zxid: i64) -> Option<SnapshotDigest> {
    Some(SnapshotDigest { zxid, version: 2, digest: 7 })
}

#[test]
fn a_broken_compressed_snapshot_gives_way_to_an_older_one() {
    for (compression, name) in PACKED {
        let fixture = plain();
        fixture.write(&[&[1, 2]]);
        let (_, ledger) = fixture.start().expect("starts");
        ledger.packed_snapshot(&fixture.open(), 2, compression).expect("snapshot");
        fixture.write(&[&[3]]);
        let whole = fixture.content(name);
        for len in 0..whole.len() {
            fixture.edit(name, |bytes| bytes.truncate(len));
            let (recovered, found) = fixture.start().expect("starts");
            assert_eq!((recovered.snapshot.zxid, found.txns.len()), (0, 3), "{name} to {len}");
            fixture.edit(name, |bytes| bytes.clone_from(&whole));
        }
        let mut taken = 0;
        for at in 0..whole.len() {
            fixture.edit(name, |bytes| bytes[at] ^= 0x20);
            let (recovered, found) = fixture.start().expect("starts");
            assert_eq!(found.txns.len(), 3, "{name} at {at}");
            // Some bits mean nothing: in the heads, and in a copy from where the same stands.
            taken += usize::from(recovered.snapshot.zxid == 2);
            fixture.edit(name, |bytes| bytes.clone_from(&whole));
        }
        assert!(taken * 4 < whole.len(), "{name}: {taken} flips are not seen");
    }
}

#[test]
fn a_plain_snapshot_goes_before_a_compressed_one_of_the_same_zxid() {
    let fixture = plain();
    fixture.write(&[&[1, 2]]);
    let (_, ledger) = fixture.start().expect("starts");
    ledger.snapshot(&fixture.open(), 2).expect("snapshot");
    fixture.disk.plant(&Fixture::path("snapshot.2.gz"), b"\x1f\x8b");
    let (recovered, found) = fixture.start().expect("starts");
    assert_eq!((recovered.snapshot.zxid, found.begun), (2, 1));
}

#[test]
fn a_refusal_says_what_giving_up_would_lose() {
    let lost = |fixture: &Fixture| match fixture.start().expect_err("refused") {
        StorageError::Damage { way_out, .. } => way_out.expect("a way out").loss,
        other => panic!("{other}"),
    };
    // Of three files the second is damaged: what is in it after the damage, and the third.
    let fixture = plain();
    fixture.write(&[&[1, 2]]);
    fixture.write(&[&[3], &[4, 5], &[6]]);
    fixture.write(&[&[7, 8]]);
    let at = offsets(&fixture.content("log.3"));
    fixture.edit("log.3", |log| log[at[1] + 20] ^= 1);
    let time = 1_700_000_000_000;
    let loss = lost(&fixture);
    assert_eq!((loss.txns, loss.first, loss.last), (4, Some((5, time)), Some((8, time))));
    // Their bytes that are zeros do not count at the end.
    assert_eq!(loss.unreadable_bytes, (at[2] - at[1]) as u64);
    let text = fixture.start().expect_err("refused").to_string();
    assert!(
        text.contains(
            "lost: 4 transactions that can still be read, up to 0x8, written from \
             2023-11-14T22:13:20.000Z to 2023-11-14T22:13:20.000Z, and "
        ),
        "{text}"
    );
    // A missing file: nothing is unreadable, all that is there is lost.
    let fixture = plain();
    fixture.write(&[&[1]]);
    fixture.write(&[&[2]]);
    fixture.write(&[&[3], &[4]]);
    fixture.disk.remove(&Fixture::path("log.2")).expect("removes");
    let loss = lost(&fixture);
    assert_eq!((loss.txns, loss.first, loss.unreadable_bytes), (2, Some((3, time)), 0));
}

#[test]
fn the_command_names_both_folders_where_there_are_two() {
    let disk = SimDisk::default();
    let options =
        DirectoryOptions { data_dir: "/data".into(), data_log_dir: "/my log".into(), create: true };
    let directory = DataDirectory::open(Arc::new(disk), &options).expect("opens");
    assert_eq!(
        directory.truncate_command(0x1f),
        "ferrokeeper data truncate /data --log-dir '/my log' --to-zxid 0x1f"
    );
}

#[test]
fn an_empty_last_log_is_removed_and_an_empty_earlier_one_is_damage() {
    let fixture = plain();
    fixture.write(&[]);
    fixture.disk.plant(&Fixture::path("log.1"), &java_log(&[1]));
    fixture.disk.plant(&Fixture::path("log.2"), b"");
    assert_eq!(last(&fixture), (1, 0));
    assert!(!fixture.names().contains(&"log.2".to_owned()));
    fixture.disk.plant(&Fixture::path("log.2"), b"");
    fixture.disk.plant(&Fixture::path("log.3"), &java_log(&[3]));
    assert_eq!(damage(&fixture).2, DamageReason::ShortHeader);
}

#[test]
fn the_index_goes_on_behind_zookeeper() {
    let fixture = plain();
    fixture.write(&[]);
    fixture.edit("snapshot.0", make_zookeepers);
    let zxid = |low: i64| 5 << 32 | low;
    let name = format!("log.{:x}", zxid(0x63));
    fixture.disk.plant(&Fixture::path(&name), &java_log(&[zxid(0x63), zxid(0x64)]));
    let recovered = fixture.write(&[&[zxid(0x65)], &[zxid(0x66)]]);
    assert_eq!(recovered.snapshot.origin, SnapshotOrigin::Java);
    assert_eq!(recovered.log.next_index(), 0x67);
    assert_eq!(fixture.content("log.500000065")[8..16], 0x65_i64.to_be_bytes());
    // And on after our own segment, and with ZooKeeper between two of ours.
    fixture.write(&[&[zxid(0x67)]]);
    let name = format!("log.{:x}", zxid(0x68));
    fixture.disk.plant(&Fixture::path(&name), &java_log(&[zxid(0x68)]));
    let recovered = fixture.write(&[&[zxid(0x69)]]);
    assert_eq!(recovered.log.next_index(), 0x6a);
    assert_eq!(last(&fixture), (zxid(0x69), 0));
}

/// ZooKeeper's `snapshot.4`, begun at 4 and ended after 6, with the logs as they were at 4.
fn a_copy_without_the_end_of_the_log() -> Fixture {
    let fixture = plain();
    fixture.write(&[&[1, 2, 3, 4], &[5, 6]]);
    let (_, ledger) = fixture.start().expect("starts");
    ledger.snapshot(&fixture.open(), 6).expect("snapshot.6");
    let mut snapshot = fixture.content("snapshot.6");
    make_zookeepers(&mut snapshot);
    let copy = plain();
    copy.disk.plant(&Fixture::path("snapshot.4"), &snapshot);
    copy.disk.plant(&Fixture::path("snapshot.0"), &fixture.content("snapshot.0"));
    copy.disk.plant(&Fixture::path("log.1"), &java_log(&[1, 2, 3, 4]));
    copy
}

#[test]
fn a_snapshot_that_the_log_does_not_reach_to_the_end_of_is_no_state() {
    let copy = a_copy_without_the_end_of_the_log();
    let before = copy.image();
    let error = copy.start().expect_err("refused");
    assert_eq!(copy.image(), before, "touched");
    let text = error.to_string();
    let StorageError::Damage { reason, last_good, way_out, .. } = error else { panic!("{text}") };
    assert_eq!(reason, DamageReason::InsideSnapshot { snapshot: 4, newest: 6 });
    assert_eq!(last_good, 4);
    let command = way_out.expect("a way out").command;
    assert_eq!(command, "ferrokeeper data truncate /data --to-zxid 0x4");

    // What that command does.
    let directory = copy.open();
    let plan = plan_cut(&directory, 4, false, &mut Ledger::default()).expect("a plan");
    plan.carry_out(&directory, "aside").expect("carries out");
    drop(directory);
    assert_eq!(copy.names(), ["log.1", "snapshot.0"]);
    assert_eq!(last(&copy), (4, 0));
}

#[test]
fn with_no_older_snapshot_it_counts_as_in_zookeeper() {
    let copy = a_copy_without_the_end_of_the_log();
    copy.disk.remove(&Fixture::path("snapshot.0")).expect("removes");
    let (recovered, ledger) = copy.start().expect("starts");
    assert_eq!((recovered.last_zxid, ledger.last()), (4, 6));
}

#[test]
fn a_torn_end_that_zookeeper_went_on_behind_is_left_alone() {
    let fixture = plain();
    fixture.write(&[&[1], &[2, 3]]);
    let at = offsets(&fixture.content("log.1"));
    fixture.edit("log.1", |log| log.truncate(at[2] - 3));
    fixture.disk.plant(&Fixture::path("log.2"), &java_log(&[2]));
    let before = fixture.image();
    assert_eq!(last(&fixture), (2, 0));
    assert_eq!(fixture.image(), before);
}

#[test]
fn what_was_read_is_durable_before_more_is_written() {
    let fixture = plain();
    let mut recovered = fixture.write(&[&[1]]);
    recovered.log.append(&txn(2, &data(2))).expect("appends");
    fixture.disk.fail_after(1, Fault::PowerLoss);
    recovered.log.commit().expect_err("the write comes through, the sync does not");
    fixture.disk.kill();
    assert_eq!(last(&fixture), (2, 0));
    fixture.disk.crash(&mut crate::storage::disk::sim::Dice(1));
    assert_eq!(last(&fixture), (2, 0));
}

/// A sync that fails leaves pages that can be read and are clean: another sync writes nothing of
/// them.
#[test]
fn what_a_failed_sync_left_readable_is_written_again_before_it_counts() {
    for seed in 0..20 {
        let fixture = plain();
        let mut recovered = fixture.write(&[&[1]]);
        for zxid in [2, 3] {
            recovered.log.append(&txn(zxid, &data(zxid))).expect("appends");
        }
        fixture.disk.fail_after(1, Fault::Eio);
        recovered.log.commit().expect_err("the write comes through, the sync does not");
        fixture.disk.kill();
        assert_eq!(last(&fixture), (3, 0), "it is in memory");
        fixture.write(&[&[4]]);
        fixture.disk.crash(&mut crate::storage::disk::sim::Dice(seed));
        assert_eq!(last(&fixture), (4, 0), "seed {seed}");
    }
}

#[test]
fn what_zookeeper_left_readable_is_written_again_before_it_counts() {
    for seed in 0..20 {
        let fixture = plain();
        fixture.write(&[]);
        fixture.edit("snapshot.0", make_zookeepers);
        fixture.disk.plant(&Fixture::path("log.1"), &java_log(&[1, 2, 3]));
        fixture.disk.plant(&Fixture::path("log.4"), &java_log(&[4, 5]));
        let expected = last(&fixture);
        let names: Vec<String> =
            fixture.names().into_iter().filter(|name| name.starts_with("log.")).collect();
        // As its own syncs left them that failed.
        for name in &names {
            let bytes = fixture.content(name);
            fixture.edit(name, |bytes| bytes.truncate(16));
            let file = fixture.disk.open_for_write(&Fixture::path(name)).expect("opens");
            file.write_all_at(&bytes[16..], 16).expect("writes");
            fixture.disk.fail_after(0, Fault::Eio);
            file.sync_all().expect_err("fails");
        }
        fixture.disk.kill();
        assert_eq!(last(&fixture), expected);
        fixture.disk.crash(&mut crate::storage::disk::sim::Dice(seed));
        assert_eq!(last(&fixture), expected, "seed {seed}");
    }
}

#[test]
fn files_of_a_later_release_are_refused_by_name() {
    let fixture = plain();
    fixture.write(&[&[1, 2]]);
    let (_, ledger) = fixture.start().expect("starts");
    ledger.snapshot(&fixture.open(), 2).expect("snapshot");
    fixture.write(&[&[3]]);
    let refused = |fixture: &Fixture, name: &str| {
        let before = fixture.image();
        let error = fixture.start().expect_err("refused");
        assert_eq!(fixture.image(), before, "touched");
        let expected = format!("{name} was written by a later release: it has version 3");
        assert!(error.to_string().contains(&expected), "{error}");
    };
    let log = fixture.fork();
    log.edit("log.3", |bytes| bytes[7] = 3);
    refused(&log, "log.3");
    // Whole, so that no older one takes its place.
    fixture.edit("snapshot.2", |bytes| {
        bytes[7] = 3;
        let tail = 8 + 13;
        for seal in [bytes.len() - tail - 13 - 20 - 13, bytes.len() - tail - 13, bytes.len() - 13] {
            let checksum = i64::from(adler32(&bytes[..seal])).to_be_bytes();
            bytes[seal..seal + 8].copy_from_slice(&checksum);
        }
    });
    refused(&fixture, "snapshot.2");
    // Broken, so that its version says nothing.
    fixture.edit("snapshot.2", |bytes| bytes[40] ^= 1);
    assert_eq!(last(&fixture), (3, 0));
}

#[test]
fn a_log_without_syncs_is_told_of_and_made_durable_by_a_start_that_syncs() {
    let fixture = plain();
    let mut unsynced = Fixture { disk: fixture.disk.clone(), ..plain() };
    unsynced.options.log.force_sync = false;
    let is_told = || fixture.names().contains(&"ferrokeeper.unsynced".to_owned());
    fixture.write(&[&[1]]);
    assert!(!is_told());
    unsynced.write(&[&[2], &[3]]);
    unsynced.write(&[&[4], &[5]]);
    assert!(is_told());
    // As a power failure leaves it.
    let damaged = fixture.fork();
    let at = offsets(&damaged.content("log.2"))[0];
    damaged.edit("log.2", |log| log[at + 20] ^= 1);
    let error = damaged.start().expect_err("refused");
    assert!(matches!(error, StorageError::Damage { unsynced: true, .. }), "{error}");
    assert!(error.to_string().contains("forceSync=no"), "{error}");
    // What was never synced is durable before the first word that a start gives.
    fixture.disk.kill();
    assert_eq!(last(&fixture), (5, 0));
    assert!(!is_told());
    for seed in 0..10 {
        fixture.disk.crash(&mut crate::storage::disk::sim::Dice(seed));
        assert_eq!(last(&fixture), (5, 0));
    }
    let mut log = fixture.write(&[&[6], &[7]]).log;
    log.roll();
    let at = offsets(&fixture.content("log.6"))[0];
    fixture.edit("log.6", |log| log[at + 20] ^= 1);
    let error = fixture.start().expect_err("refused");
    assert!(matches!(error, StorageError::Damage { unsynced: false, .. }), "{error}");
}

#[test]
fn a_snapshot_of_many_acls_does_not_trust_its_counts() {
    let fixture = plain();
    fixture.write(&[]);
    // A count of two billion ACL entries in a file of some bytes.
    fixture.edit("snapshot.0", |bytes| {
        let mut anyone = Vec::new();
        vec![Acl::anyone(31)].encode(&mut anyone);
        let at = bytes.windows(anyone.len()).position(|part| part == anyone).expect("there");
        bytes[at] = 0x7f;
    });
    let error = fixture.start().expect_err("refused");
    assert!(matches!(error, StorageError::NoReadableSnapshot { .. }), "{error}");
}

/// Whole in every byte, and still not what the state can be followed by.
#[test]
fn a_transaction_that_the_tree_refuses_can_be_given_up() {
    let fixture = plain();
    let mut log = fixture.write(&[&[1, 2], &[3]]).log;
    let TxnRecord { header, .. } = txn(4, b"");
    log.append(&TxnRecord { header, txn: Txn::Error(-4), digest: None }).expect("appends");
    log.append(&txn(5, b"")).expect("appends");
    log.commit().expect("commits");
    let before = fixture.image();
    let error = fixture.start().expect_err("refused");
    assert_eq!(fixture.image(), before, "touched");
    let text = error.to_string();
    let StorageError::Unfit { offset, zxid: 4, last_good: 3, way_out: Some(way_out), .. } = error
    else {
        panic!("{text}")
    };
    assert_eq!(offset, offsets(&fixture.content("log.1"))[3] as u64);
    assert_eq!(way_out.command, "ferrokeeper data truncate /data --to-zxid 0x3");
    assert_eq!((way_out.loss.txns, way_out.loss.last.map(|(zxid, _)| zxid)), (2, Some(5)));
    assert!(text.contains("log.1") && text.contains(&way_out.command), "{text}");
    let directory = fixture.open();
    let plan = plan_cut(&directory, 3, false, &mut Ledger::default()).expect("it can be cut");
    assert_eq!(plan.loss, way_out.loss);
    plan.carry_out(&directory, "aside").expect("cuts");
    drop(directory);
    assert_eq!(last(&fixture), (3, 0));
}

/// As a server does at its end.
#[test]
fn a_log_is_not_needed_with_the_last_snapshot_and_is_with_an_older_one() {
    for (later, damaged, starts) in
        [(false, false, true), (false, true, false), (true, false, false)]
    {
        let fixture = plain();
        let mut recovered = fixture.write(&[&[1, 2]]);
        recovered.log.rest_on_snapshot(&fixture.open()).expect("nothing is said");
        let (_, ledger) = fixture.start().expect("starts");
        ledger.snapshot(&fixture.open(), 2).expect("snapshot.2");
        recovered.log.rest_on_snapshot(&fixture.open()).expect("is said");
        if later {
            recovered.log.append(&txn(3, &data(3))).expect("appends");
            recovered.log.commit().expect("commits");
        }
        fixture.disk.remove(&Fixture::path("log.1")).expect("removes");
        if damaged {
            fixture.edit("snapshot.2", |snapshot| snapshot[40] ^= 1);
        }
        match fixture.start() {
            Ok((recovered, _)) => assert!(starts && recovered.last_zxid == 2),
            Err(StorageError::LogGone { was_in, shown, .. }) => {
                assert!(!starts);
                assert_eq!((was_in.as_str(), shown), (FOLDER, if damaged { 0 } else { 2 }));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// The snapshots may stand on another disk than the log.
#[test]
fn a_log_goes_on_where_there_is_no_room_to_note_it() {
    let mut without = 0;
    for operations in 0..40 {
        let fixture = plain();
        let (mut recovered, ledger) = fixture.start().expect("starts");
        ledger.snapshot(&fixture.open(), 0).expect("snapshot.0");
        recovered.log.append(&txn(1, &data(1))).expect("appends");
        fixture.disk.fail_after(operations, Fault::Enospc);
        let committed = recovered.log.commit();
        let is_noted = || fixture.names().iter().any(|name| name == "ferrokeeper.logged");
        match committed {
            // It hit the log itself, or the epoch of its name.
            Err(_) => continue,
            Ok(_) if is_noted() => {
                assert!(without > 0, "the fault came behind the file at once");
                break;
            }
            Ok(_) => without += 1,
        }
        // A start has no room for it either, once.
        drop(recovered);
        let (mut recovered, _) = fixture.start().expect("starts");
        assert_eq!(recovered.last_zxid, 1);
        assert!(is_noted());
        recovered.log.append(&txn(2, &data(2))).expect("appends");
        recovered.log.commit().expect("commits");
    }
    assert!(without >= 3, "at its creation, its write and its sync: {without}");
}

#[test]
fn what_could_not_be_noted_is_noted_when_there_is_room() {
    let fixture = plain();
    drop(fixture.write(&[&[1]]));
    fixture.disk.remove(&Fixture::path("ferrokeeper.logged")).expect("removes");
    let is_noted = || fixture.names().iter().any(|name| name == "ferrokeeper.logged");
    // A start that has no room for a new file.
    fixture.disk.set_free(Some(0));
    let (mut recovered, _) = fixture.start().expect("starts");
    assert!(!is_noted());
    fixture.disk.set_free(None);
    for zxid in 2..3000 {
        recovered.log.append(&txn(zxid, &data(zxid))).expect("appends");
        recovered.log.commit().expect("commits");
        if is_noted() {
            return;
        }
    }
    panic!("it was not noted");
}
