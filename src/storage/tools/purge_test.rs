//! What a purge keeps.

use super::*;
use crate::message::told::ids_told;
use crate::storage::disk::sim::{Dice, Fault};
use crate::storage::fixture::Fixture;
use crate::storage::ledger::Ledger;
use crate::storage::log::record::adler32;
use crate::storage::log::txn_log::LogOptions;
use crate::storage::recovery::recover_member;
use crate::storage::{Compression, SnapshotFile};

/// Five starts of two transactions and a snapshot each.
fn worn() -> Fixture {
    let fixture = Fixture::new(LogOptions { spares: 0, ..LogOptions::default() });
    for start in 0..5 {
        let zxid = 2 * start + 1;
        let recovered = fixture.write(&[&[zxid], &[zxid + 1]]);
        let (_, ledger) = fixture.start().expect("starts");
        ledger.snapshot(&fixture.open(), recovered.log.next_index() - 1).expect("snapshot");
    }
    fixture
}

/// Without what says that there is a log.
fn names(fixture: &Fixture) -> String {
    let mut names = fixture.names();
    names.retain(|name| name != "ferrokeeper.logged");
    names.join(" ")
}

#[test]
fn the_newest_snapshots_and_their_logs_stay() {
    let fixture = worn();
    assert_eq!(
        names(&fixture),
        "log.1 log.3 log.5 log.7 log.9 snapshot.0 snapshot.2 snapshot.4 snapshot.6 snapshot.8 \
         snapshot.a"
    );
    let purged = purge(&fixture.open(), 3).expect("purges");
    assert_eq!(purged, Purged { snapshots: 3, logs: 2, unsealed_bytes: 0 });
    // log.5 ends at 6, but its name alone does not tell; ZooKeeper keeps it as well.
    assert_eq!(names(&fixture), "log.5 log.7 log.9 snapshot.6 snapshot.8 snapshot.a");
    assert_eq!(purge(&fixture.open(), 3).expect("purges"), Purged::default());
    assert_eq!(fixture.start().expect("starts").1.txns.len(), 10);
}

/// Somebody gets a snapshot, and then what came since then.
#[test]
fn what_others_want_of_the_log_stays() {
    for (wanted, expected) in [
        (None, "log.9 snapshot.a"),
        (Some(10), "log.9 snapshot.a"),
        (Some(6), "log.5 log.7 log.9 snapshot.a"),
        (Some(0), "log.1 log.3 log.5 log.7 log.9 snapshot.a"),
    ] {
        let fixture = worn();
        purge_behind(&fixture.open(), 1, wanted).expect("purges");
        assert_eq!(names(&fixture), expected, "{wanted:?}");
        assert_eq!(fixture.start().expect("starts").1.txns.len(), 10, "{wanted:?}");
    }
}

#[test]
fn the_last_bytes_are_whole_files() {
    let fixture = worn();
    let directory = fixture.open();
    let logs = directory.log_zxids().expect("lists");
    let one = size(directory.disk().as_ref(), &directory.log_path(1)).expect("is there");
    for (most, first) in [(0, 5), (one - 1, 5), (one, 4), (3 * one, 2), (u64::MAX, 0)] {
        assert_eq!(last_bytes(&directory, &logs, most), first, "{most}");
    }
}

/// ZOOKEEPER-3231: its purge counts snapshots by name, and deletes the good ones when the newest
/// are broken.
#[test]
fn broken_snapshots_do_not_count() {
    let fixture = worn();
    fixture.edit("snapshot.a", |bytes| bytes[40] ^= 1);
    fixture.edit("snapshot.8", |bytes| bytes.truncate(30));
    fixture.edit("snapshot.6", Vec::clear);
    purge(&fixture.open(), 1).expect("purges");
    assert_eq!(
        names(&fixture),
        "log.3 log.5 log.7 log.9 snapshot.4 snapshot.6 snapshot.8 snapshot.a"
    );
    assert_eq!(fixture.start().expect("starts").1.txns.len(), 10);
}

#[test]
fn with_too_few_valid_snapshots_nothing_goes() {
    let fixture = worn();
    for name in ["snapshot.a", "snapshot.8", "snapshot.6", "snapshot.4"] {
        fixture.edit(name, |bytes| bytes[40] ^= 1);
    }
    assert_eq!(purge(&fixture.open(), 3).expect("purges"), Purged::default());
    assert_eq!(fixture.start().expect("starts").1.txns.len(), 10);
}

#[test]
fn what_zookeeper_wrote_stays() {
    let fixture = worn();
    fixture.edit("log.1", |bytes| bytes[8..16].fill(0));
    fixture.edit("snapshot.2", |bytes| bytes[8..16].fill(0xff));
    fixture.disk.plant(&Fixture::path("snapshot.1.gz"), b"\x1f\x8b");
    let [log, snapshot] = ["log.1", "snapshot.2"].map(|name| fixture.content(name).len() as u64);
    let purged = purge(&fixture.open(), 1).expect("purges");
    assert_eq!(names(&fixture), "log.1 log.9 snapshot.1.gz snapshot.2 snapshot.a");
    assert_eq!(purged.unsealed_bytes, log + snapshot);
    assert_eq!(unsealed_bytes(&fixture.open()).expect("sums"), log + snapshot);
    fixture.disk.plant(&Fixture::path("ferrokeeper.sealed"), b"0x1\n");
    assert_eq!(unsealed_bytes(&fixture.open()).expect("sums"), snapshot);
}

/// As its leader leaves one at each start, also where nothing is written: a member starts from none
/// of them.
#[test]
fn of_a_member_only_its_own_snapshots_count() {
    let with_foreign = || {
        let fixture = worn();
        for name in ["snapshot.6", "snapshot.8"] {
            fixture.edit(name, |bytes| {
                let seals = seals(bytes);
                bytes[8..16].fill(0xff);
                seals.into_iter().for_each(|at| seal_anew(bytes, at));
            });
        }
        fixture
    };
    let alone = with_foreign();
    purge(&alone.open(), 3).expect("purges");
    assert_eq!(names(&alone), "log.5 log.7 log.9 snapshot.6 snapshot.8 snapshot.a");

    let member = with_foreign();
    member.disk.plant(&Fixture::path("raft.state"), b"");
    let purged = purge(&member.open(), 3).expect("purges");
    assert_eq!(purged, Purged { snapshots: 1, logs: 0, unsealed_bytes: 0 });
    for name in ["snapshot.a", "snapshot.4"] {
        member.edit(name, |bytes| bytes[40] ^= 1);
    }
    let recovered = recover_member(&member.open(), member.options, &mut Ledger::default());
    let recovered = recovered.expect("starts from the third");
    assert_eq!((recovered.snapshot.zxid, recovered.last_zxid), (2, 10));
    // With too few of its own nothing goes.
    let before = member.image();
    assert_eq!(purge(&member.open(), 2).expect("purges"), Purged::default());
    assert_eq!(member.image(), before);
}

/// A directory begun by ZooKeeper, whose files stay while ours between them and the newest go.
#[test]
fn between_zookeepers_files_and_the_newest_there_is_a_gap_that_a_start_heeds() {
    let fixture = worn();
    for name in ["log.1", "log.3"] {
        fixture.edit(name, |bytes| bytes[8..16].fill(0));
    }
    for name in ["snapshot.0", "snapshot.2", "snapshot.4"] {
        fixture.edit(name, |bytes| bytes[8..16].fill(0xff));
    }
    let theirs = ["log.1", "log.3", "snapshot.0", "snapshot.2", "snapshot.4"];
    let bytes: u64 = theirs.map(|name| fixture.content(name).len() as u64).iter().sum();
    let purged = purge(&fixture.open(), 1).expect("purges");
    assert_eq!(purged, Purged { snapshots: 2, logs: 2, unsealed_bytes: bytes });
    assert_eq!(names(&fixture), format!("log.1 log.3 log.9 {} snapshot.a", theirs[2..].join(" ")));
    let (recovered, ledger) = fixture.start().expect("starts");
    assert_eq!((recovered.snapshot.zxid, ledger.txns.len()), (10, 10));
    // Without ours there is no way from theirs to the newest.
    fixture.edit("snapshot.a", |bytes| bytes[40] ^= 1);
    fixture.start().expect_err("5 to 8 are missing");
}

#[test]
fn what_zookeeper_wrote_goes_up_to_the_zxid_of_the_seal() {
    let fixture = worn();
    for name in ["log.1", "log.5"] {
        fixture.edit(name, |bytes| bytes[8..16].fill(0));
    }
    for name in ["snapshot.2", "snapshot.4"] {
        fixture.edit(name, |bytes| bytes[8..16].fill(0xff));
    }
    fixture.disk.plant(&Fixture::path("ferrokeeper.sealed"), b"0x3\n");
    purge(&fixture.open(), 1).expect("purges");
    assert_eq!(names(&fixture), "ferrokeeper.sealed log.5 log.9 snapshot.4 snapshot.a");
    fixture.disk.plant(&Fixture::path("ferrokeeper.sealed"), b"0x5\n");
    purge(&fixture.open(), 1).expect("purges");
    assert_eq!(names(&fixture), "ferrokeeper.sealed log.9 snapshot.a");
    assert_eq!(fixture.start().expect("starts").1.txns.len(), 10);
}

/// It says nothing of what this server wrote.
#[test]
fn a_seal_that_cannot_be_read_releases_nothing_of_zookeepers() {
    let fixture = worn();
    fixture.edit("log.1", |bytes| bytes[8..16].fill(0));
    fixture.edit("snapshot.2", |bytes| bytes[8..16].fill(0xff));
    fixture.disk.plant(&Fixture::path("ferrokeeper.sealed"), b"");
    let directory = fixture.open();
    for told in [&["FK0340"][..], &[]] {
        let (purged, ids) = ids_told(|| purge(&directory, 1));
        purged.expect("purges");
        assert_eq!(ids, told);
        assert_eq!(names(&fixture), "ferrokeeper.sealed log.1 log.9 snapshot.2 snapshot.a");
    }
}

/// The last seal tells of a byte that turned over, not of a snapshot that was written wrong.
#[test]
fn a_snapshot_counts_that_can_be_read_to_its_end() {
    let fixture = worn();
    fixture.edit("snapshot.a", |bytes| {
        bytes[40] ^= 1;
        let last = bytes.len() - 13;
        seal_anew(bytes, last);
    });
    purge(&fixture.open(), 1).expect("purges");
    assert_eq!(names(&fixture), "log.7 log.9 snapshot.8 snapshot.a");
    assert_eq!(fixture.start().expect("starts").1.txns.len(), 10);
}

/// As many bytes as the first purge reads, it would read after each snapshot.
#[test]
fn a_snapshot_is_read_to_its_end_once() {
    const MANY: u64 = 1 << 40;
    let fixture = worn();
    let directory = fixture.open();
    let reads = || {
        fixture.disk.fail_a_read_after(MANY);
        purge(&directory, 3).expect("purges");
        MANY - fixture.disk.reads_left().expect("none failed")
    };
    let (first, second) = (reads(), reads());
    // The heads of the logs.
    assert!(2 * second < first, "{second} reads, and {first} the first time");
    // Another file of the same name and length is not what was read.
    let bytes = fixture.content("snapshot.8");
    fixture.disk.plant(&Fixture::path("snapshot.8"), &bytes);
    assert!(reads() > second);
    assert_eq!(reads(), second);
    fixture.edit("snapshot.8", |bytes| bytes[40] ^= 1);
    purge(&directory, 2).expect("purges");
    assert_eq!(names(&fixture), "log.5 log.7 log.9 snapshot.6 snapshot.8 snapshot.a");
}

#[test]
fn a_file_that_cannot_be_read_stays_is_told_of_once_and_stops_nothing() {
    let fixture = worn();
    // Neither a snapshot nor a log, a log of a later release, and a snapshot that is damaged.
    for name in ["snapshot.0", "log.1"] {
        fixture.edit(name, |bytes| bytes[0] ^= 1);
    }
    fixture.edit("log.3", |bytes| bytes[7] = 99);
    fixture.edit("snapshot.8", |bytes| bytes[40] ^= 1);
    let directory = fixture.open();
    for (told, snapshots, logs) in [(4, 2, 0), (0, 0, 0)] {
        let (purged, ids) = ids_told(|| purge(&directory, 2));
        assert_eq!(purged.expect("purges"), Purged { snapshots, logs, unsealed_bytes: 0 });
        assert_eq!(ids, vec!["FK0340"; told]);
        assert_eq!(
            names(&fixture),
            "log.1 log.3 log.5 log.7 log.9 snapshot.0 snapshot.6 snapshot.8 snapshot.a"
        );
    }
    drop(directory);
    assert_eq!(fixture.start().expect("starts").1.txns.len(), 10);
}

#[test]
fn a_read_that_fails_stops_no_purge() {
    let mut stood_in_the_way = 0;
    for reads in 0.. {
        let fixture = worn();
        let directory = fixture.open();
        fixture.disk.fail_a_read_after(reads);
        purge(&directory, 2).expect("goes on");
        drop(directory);
        if fixture.disk.reads_left().is_some() {
            break;
        }
        stood_in_the_way += usize::from(names(&fixture) != "log.7 log.9 snapshot.8 snapshot.a");
        assert_eq!(fixture.start().expect("starts").1.txns.len(), 10, "{reads} reads");
        // The disk is well again.
        purge(&fixture.open(), 2).expect("purges");
        assert_eq!(names(&fixture), "log.7 log.9 snapshot.8 snapshot.a", "{reads} reads");
    }
    assert!(stood_in_the_way > 0);
}

/// Whatever went is gone for good: a log that comes back may be one that does not lead to the next.
#[test]
fn what_cannot_be_removed_stays_and_what_was_removed_does_not_come_back() {
    let mut refused = Vec::new();
    for operations in 0..12 {
        let fixture = worn();
        let directory = fixture.open();
        fixture.disk.fail_after(operations, Fault::Eio);
        let purged = purge(&directory, 1);
        drop(directory);
        let left = names(&fixture);
        match purged {
            // The first one is the sync of the newest snapshot: then it does not count.
            Ok(purged) => {
                let gone = if operations == 0 { 7 } else { 8 };
                assert_eq!(purged.snapshots + purged.logs, gone, "{operations}: {purged:?}");
                fixture.disk.crash(&mut Dice(operations));
                assert_eq!(names(&fixture), left, "{operations}");
            }
            Err(_) => refused.push(operations),
        }
        purge(&fixture.open(), 1).expect("purges");
        assert_eq!(names(&fixture), "log.9 snapshot.a", "{operations}");
        assert_eq!(fixture.start().expect("starts").1.txns.len(), 10, "{operations}");
    }
    // The syncs of the folder.
    assert_eq!(refused, [6, 11]);
}

/// A start from one that the log does not go on from ends before the newest, if it goes at all.
#[test]
fn a_snapshot_counts_from_which_the_log_leads_to_the_newest() {
    let without = |logs: &[&str]| {
        let fixture = worn();
        logs.iter().for_each(|log| fixture.disk.remove(&Fixture::path(log)).expect("removes"));
        fixture
    };
    // The first two count; what is before 7 does not lead there.
    let fixture = without(&["log.7"]);
    purge(&fixture.open(), 2).expect("purges");
    assert_eq!(names(&fixture), "log.5 log.9 snapshot.8 snapshot.a");
    // Only the newest two count, so what is older stays, as far as it is no more than what counts.
    let fixture = without(&["log.7"]);
    purge(&fixture.open(), 3).expect("purges");
    assert_eq!(
        names(&fixture),
        "log.1 log.3 log.5 log.9 snapshot.2 snapshot.4 snapshot.6 snapshot.8 snapshot.a"
    );
    // As after a snapshot of the leader's that replaced the log.
    let fixture = without(&["log.1", "log.3", "log.5", "log.7", "log.9"]);
    purge(&fixture.open(), 3).expect("purges");
    assert_eq!(names(&fixture), "snapshot.4 snapshot.6 snapshot.8 snapshot.a");
}

/// Where the seals of a snapshot are, first to last.
fn seals(bytes: &[u8]) -> Vec<usize> {
    let is_seal = |at: &usize| {
        let sum = i64::from(adler32(&bytes[..*at])).to_be_bytes();
        bytes[*at..].starts_with(&[&sum[..], b"\0\0\0\x01/"].concat())
    };
    (16..bytes.len()).filter(is_seal).collect()
}

fn seal_anew(bytes: &mut [u8], at: usize) {
    let seal = i64::from(adler32(&bytes[..at])).to_be_bytes();
    bytes[at..at + 8].copy_from_slice(&seal);
}

#[test]
fn compressed_snapshots_count_and_go_like_plain_ones() {
    for compression in [Compression::Gzip, Compression::Snappy] {
        let fixture = Fixture::new(LogOptions { spares: 0, ..LogOptions::default() });
        for zxid in 1..5 {
            let recovered = fixture.write(&[&[zxid]]);
            let (_, ledger) = fixture.start().expect("starts");
            let index = recovered.log.next_index() - 1;
            ledger.packed_snapshot(&fixture.open(), index, compression).expect("snapshot");
        }
        let newest = fixture.names().pop().expect("a snapshot");
        fixture.edit(&newest, |bytes| {
            let at = bytes.len() / 2;
            bytes[at] ^= 0x10;
        });
        assert_eq!(
            purge(&fixture.open(), 2).expect("purges"),
            Purged { snapshots: 2, logs: 1, unsealed_bytes: 0 },
            "{compression:?}"
        );
        assert_eq!(fixture.start().expect("starts").1.txns.len(), 4);
    }
}

/// ZooKeeper does not sync its snapshots.
#[test]
fn a_snapshot_that_is_only_in_memory_is_made_durable_before_it_counts() {
    for seed in 0..20 {
        let fixture = worn();
        let path = Fixture::path("snapshot.a");
        let bytes = fixture.content("snapshot.a");
        fixture.disk.plant(&path, b"");
        let file = fixture.disk.open_for_write(&path).expect("opens");
        file.write_all_at(&bytes, 0).expect("writes");
        purge(&fixture.open(), 1).expect("purges");
        assert_eq!(names(&fixture), "log.9 snapshot.a");
        fixture.disk.crash(&mut Dice(seed));
        assert_eq!(fixture.start().expect("starts").1.txns.len(), 10, "seed {seed}");
    }
}

#[test]
fn a_crash_in_the_middle_leaves_a_directory_that_starts() {
    for seed in 0..200 {
        let fixture = worn();
        let directory = fixture.open();
        let mut dice = Dice(seed);
        fixture.disk.fail_after(dice.below(12), Fault::PowerLoss);
        let _ = purge(&directory, 2);
        drop(directory);
        fixture.disk.crash(&mut dice);
        assert_eq!(fixture.start().expect("starts").1.txns.len(), 10, "seed {seed}");
    }
}

/// ClickHouse#107141: a member that asks for a piece of a snapshot that was purged meanwhile ends
/// the leader there.
#[test]
fn a_snapshot_is_handed_over_to_its_end_though_it_is_purged_meanwhile() {
    let fixture = worn();
    let whole = fixture.content("snapshot.4");
    let handed_over = SnapshotFile::open(&fixture.open(), 4).expect("it is there");
    let mut came = vec![0; whole.len()];
    let (first, second) = came.split_at_mut(whole.len() / 2);
    handed_over.read(first, 0).expect("the first half");

    purge(&fixture.open(), 1).expect("purges");
    assert_eq!(names(&fixture), "log.9 snapshot.a");
    handed_over.read(second, first.len() as u64).expect("the second half");
    assert_eq!(came, whole);

    // Whoever comes back for it is told that it is gone; so is who asks for more than there is.
    let error = SnapshotFile::open(&fixture.open(), 4).expect_err("it is gone");
    assert!(matches!(error, StorageError::Io { .. }), "{error}");
    let mut more = [0; 8];
    let error = handed_over.read(&mut more, whole.len() as u64 - 4).expect_err("behind its end");
    assert!(matches!(error, StorageError::Io { .. }), "{error}");
}
