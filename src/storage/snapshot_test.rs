//! The bytes of a snapshot, and what of it reaches the disk when.

use super::disk::sim::{Dice, Fault};
use super::fixture::Fixture;
use super::ledger::Ledger;
use super::log::txn_log::LogOptions;
use super::snapshot::writer::SnapshotWriter;
use super::{Compression, Disk, StorageError};

fn plain() -> Fixture {
    Fixture::new(LogOptions { spares: 0, ..LogOptions::default() })
}

/// Adler-32 as its definition says.
fn seal(bytes: &mut Vec<u8>) {
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes.iter() {
        a = (a + u32::from(*byte)) % 65521;
        b = (b + a) % 65521;
    }
    bytes.extend([0; 4]);
    bytes.extend((b << 16 | a).to_be_bytes());
    bytes.extend(b"\0\0\0\x01/");
}

#[test]
fn the_bytes_of_a_snapshot() {
    let fixture = plain();
    let ledger = Ledger { txns: [(0x2_0000_0005, b"hi".to_vec())].into(), ..Ledger::default() };
    ledger.snapshot(&fixture.open(), 9).expect("writes");
    let mut expected = b"ZKSN\0\0\0\x02\0\0\0\0\0\0\0\x09".to_vec();
    expected.extend(b"\0\0\0\x01\0\0\0\0\0\0\0\x77\0\0\x75\x30");
    expected
        .extend(b"\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone");
    expected.extend(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01");
    expected.extend([0; 60]);
    expected.extend(b"\0\0\0\x0a/200000005\0\0\0\x02hi\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\x05");
    expected.extend([0; 52]);
    expected.extend(b"\0\0\0\x01/");
    seal(&mut expected);
    expected.extend(b"\0\0\0\x02\0\0\0\x05\0\0\0\x02\0\0\0\0\0\0\0\x07");
    seal(&mut expected);
    expected.extend(b"\0\0\0\x02\0\0\0\x05");
    seal(&mut expected);
    assert_eq!(fixture.content("snapshot.200000005"), expected);
}

#[test]
fn without_a_digest_there_are_no_tails() {
    let fixture = plain();
    fixture.write(&[]);
    let full = fixture.content("snapshot.0");
    let mut writer =
        SnapshotWriter::create(&fixture.open(), 0, 0, Compression::None).expect("begins");
    writer.write(&full[16..full.len() - 72]).expect("writes");
    assert_eq!(writer.finish(None).expect("finishes"), full.len() as u64 - 54);
    assert_eq!(fixture.content("snapshot.0"), full[..full.len() - 54]);
    let (recovered, ledger) = fixture.start().expect("starts");
    assert_eq!((recovered.fresh, ledger.digest), (false, None));
}

#[test]
fn a_snapshot_is_written_in_synced_slices() {
    let fixture = plain();
    let directory = fixture.open();
    let mut writer = SnapshotWriter::create(&directory, 1, 1, Compression::None).expect("begins");
    for (len, writes) in [((128 << 10) - 17, 0), (1, 1), (384 << 10, 4), (100, 4)] {
        writer.write(&vec![7; len]).expect("writes");
        assert_eq!(fixture.disk.writes_and_syncs(), (writes, writes));
    }
}

#[test]
fn a_snapshot_leaves_the_reserve_alone() {
    let fixture = plain();
    let directory = fixture.open();
    let write = |free: u64| {
        fixture.disk.set_free(Some(free));
        let writer = SnapshotWriter::create(&directory, 1, 1, Compression::None)?;
        let mut writer = writer.with_reserve(5 << 20);
        for _ in 0..3 {
            writer.write(&[7; 1 << 20])?;
        }
        Ok(writer)
    };
    write(8 << 20).expect("three megabytes and the reserve");
    let error = write((8 << 20) - 1).expect_err("one byte less");
    assert!(matches!(error, StorageError::NoRoom { .. }), "{error}");
    assert_eq!(fixture.names(), Vec::<String>::new());
}

#[test]
fn a_dropped_or_failed_snapshot_leaves_nothing() {
    let fixture = plain();
    fixture.write(&[]);
    let before = fixture.names();
    let mut writer =
        SnapshotWriter::create(&fixture.open(), 5, 5, Compression::None).expect("begins");
    writer.write(b"anything").expect("writes");
    drop(writer);
    assert_eq!(fixture.names(), before);
    // remove, create, write, sync, sync, rename
    for at in 0..6 {
        let ledger = Ledger { txns: [(5, Vec::new())].into(), ..Ledger::default() };
        let directory = fixture.open();
        fixture.disk.fail_after(at, Fault::Enospc);
        let outcome = ledger.snapshot(&directory, 5);
        outcome.expect_err("full");
        assert_eq!(fixture.names(), before, "{at}");
    }
}

#[test]
fn a_snapshot_has_its_name_only_when_it_is_whole() {
    for seed in 0..300 {
        let fixture = plain();
        fixture.write(&[&[1, 2, 3]]);
        let (recovered, ledger) = fixture.start().expect("starts");
        let directory = fixture.open();
        let mut dice = Dice(seed);
        fixture.disk.fail_after(dice.below(8), Fault::PowerLoss);
        let done = ledger.snapshot(&directory, recovered.log.next_index() - 1).is_ok();
        drop(directory);
        fixture.disk.crash(&mut dice);
        let (recovered, found) = fixture.start().expect("starts");
        assert_eq!((found.txns.len(), found.begun), (3, 1), "seed {seed}");
        assert!(!done || recovered.snapshot.zxid == 3, "seed {seed}");
        let temporary = fixture.disk.list(fixture.open().snapshots()).expect("lists");
        assert!(!temporary.iter().any(|name| name.starts_with("tmp.")));
    }
}

/// It may be the only file of a directory: one that was sent, and not whole.
#[test]
fn a_snapshot_that_was_not_finished_is_not_a_directory_that_begins() {
    let fixture = Fixture::default();
    fixture.write(&[&[1, 2, 3]]);
    let whole = fixture.content("snapshot.0");
    let fixture = Fixture::default();
    fixture.disk.plant(&Fixture::path("snapshot.15"), &whole[..whole.len() - 1]);
    let refused = fixture.start().map(drop);
    assert!(matches!(refused, Err(StorageError::NoReadableSnapshot { .. })), "{refused:?}");
    assert_eq!(fixture.names(), ["snapshot.15"]);
    // ZooKeeper's first, of nothing, says nothing.
    let fixture = Fixture::default();
    fixture.disk.plant(&Fixture::path("snapshot.0"), &whole[..whole.len() - 1]);
    let (began, _) = fixture.start().expect("begins");
    assert!(began.fresh);
}
