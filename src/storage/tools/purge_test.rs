//! What a purge keeps.

use super::*;
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
        assert_eq!(last_bytes(&directory, &logs, most).expect("reads"), first, "{most}");
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
                bytes[8..16].fill(0xff);
                let covered = bytes.len() - 13;
                let seal = i64::from(adler32(&bytes[..covered])).to_be_bytes();
                bytes[covered..covered + 8].copy_from_slice(&seal);
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
    // A marker that cannot be read releases nothing.
    let fixture = worn();
    fixture.disk.plant(&Fixture::path("ferrokeeper.sealed"), b"");
    let before = fixture.image();
    purge(&fixture.open(), 1).expect_err("refuses");
    assert_eq!(fixture.image(), before);
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
