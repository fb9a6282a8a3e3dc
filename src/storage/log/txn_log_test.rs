//! The log on a disk that counts, refuses and fills up.

use std::path::Path;

use super::*;
use crate::storage::StorageError;
use crate::storage::disk::sim::{Dice, Fault};
use crate::storage::fixture::{FOLDER, Fixture, data, offsets};
use crate::storage::ledger::txn;
use crate::storage::log::spare::FillStep;

const SMALL: LogOptions = LogOptions { segment_len: 4096, spares: 1, force_sync: true };

#[test]
fn the_bytes_of_a_log() {
    let fixture = Fixture::new(LogOptions { spares: 0, ..SMALL });
    let mut recovered = fixture.write(&[&[1]]);
    for zxid in [2, 3] {
        recovered.log.append(&txn(zxid, b"ab")).expect("appends");
    }
    recovered.log.commit().expect("commits");
    let bytes = fixture.content("log.1");
    let at = offsets(&bytes);
    assert_eq!(bytes[..16], *b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\x01");
    // Zxid 2 is even and has a digest, zxid 3 has none.
    let head = |zxid: u8| {
        let mut head = Vec::new();
        head.extend(0x77_i64.to_be_bytes());
        head.extend([0, 0, 0, 1]);
        head.extend([0, 0, 0, 0, 0, 0, 0, zxid]);
        head.extend(1_700_000_000_000_i64.to_be_bytes());
        head.extend([0, 0, 0, 5]);
        head.extend(b"\0\0\0\x07/ledger\0\0\0\x02ab\0\0\0\x01");
        head
    };
    let mut second = head(2);
    second.extend(b"\0\0\0\x02\0\0\0\0\0\0\0\x02");
    second.extend([0, 0, 0, 0, 0, 0, 0, 0]);
    let mut third = head(3);
    third.extend([0, 0, 0, 86, 0, 0, 0, 0]);
    assert_eq!(second.len() + 13, 86);
    for (payload, at) in [(second, at[1]), (third, at[2])] {
        let (mut a, mut b) = (1_u32, 0_u32);
        for byte in &payload {
            a = (a + u32::from(*byte)) % 65521;
            b = (b + a) % 65521;
        }
        let mut record = vec![0; 4];
        record.extend((b << 16 | a).to_be_bytes());
        record.extend((payload.len() as u32).to_be_bytes());
        record.extend(payload);
        record.push(b'B');
        assert_eq!(bytes[at..at + record.len()], record);
    }
    assert_eq!(bytes.len(), at[3]);
}

#[test]
fn a_commit_is_one_write_and_one_sync() {
    let fixture = Fixture::new(LogOptions::default());
    let mut log = fixture.write(&[&[1]]).log;
    for zxid in 2..100 {
        log.append(&txn(zxid, &data(zxid))).expect("appends");
    }
    let before = fixture.disk.writes_and_syncs();
    log.commit().expect("commits");
    let after = fixture.disk.writes_and_syncs();
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1));
    log.commit().expect("nothing to do");
    assert_eq!(fixture.disk.writes_and_syncs(), after);
    assert_eq!((log.durable_zxid(), log.next_index()), (99, 100));
}

#[test]
fn without_force_sync_a_commit_does_not_sync() {
    let fixture = Fixture::new(LogOptions { force_sync: false, ..SMALL });
    let mut log = fixture.write(&[&[1]]).log;
    log.append(&txn(2, &[])).expect("appends");
    let before = fixture.disk.writes_and_syncs();
    log.commit().expect("commits");
    let after = fixture.disk.writes_and_syncs();
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 0));
}

#[test]
fn zxids_out_of_order_are_refused_and_leave_the_group_alone() {
    let fixture = Fixture::new(SMALL);
    let mut log = fixture.write(&[&[1]]).log;
    for zxid in [1, 0, -1, 3, i64::MIN] {
        let error = log.append(&txn(zxid, &[])).expect_err("refused");
        assert!(matches!(error, StorageError::OutOfOrder { last: 1, .. }), "{error}");
    }
    log.append(&txn(2, &[])).expect("appends");
    log.append(&txn(7 << 32, &[])).expect("a later epoch");
    log.commit().expect("commits");
    assert_eq!(fixture.start().expect("starts").0.last_zxid, 7 << 32);
    assert_eq!(fixture.content("currentEpoch"), b"7");
}

#[test]
fn an_epoch_is_durable_before_its_first_record() {
    for at in 0..12 {
        let fixture = Fixture::new(LogOptions { spares: 0, ..SMALL });
        let mut log = fixture.write(&[&[1]]).log;
        log.append(&txn(3 << 32, &[])).expect("appends");
        fixture.disk.fail_after(at, Fault::PowerLoss);
        let failed = log.commit().is_err();
        assert_eq!(
            failed,
            at < 8,
            "remove a leftover, create, write, sync, rename, sync the folder, write, sync"
        );
        fixture.disk.crash(&mut Dice(at));
        let (recovered, _) = fixture.start().expect("starts");
        if recovered.last_zxid == 3 << 32 {
            assert_eq!(fixture.content("currentEpoch"), b"3");
        }
        assert!(failed || recovered.last_zxid == 3 << 32);
    }
}

#[test]
fn the_log_never_tries_again_after_a_failure() {
    for fault in [Fault::Eio, Fault::Enospc] {
        for at in 0..2 {
            let fixture = Fixture::new(SMALL);
            let mut log = fixture.write(&[&[1]]).log;
            log.append(&txn(2, &[])).expect("appends");
            fixture.disk.fail_after(at, fault);
            let error = log.commit().expect_err("fails");
            assert!(error.to_string().contains("/data/version-2/log.1"), "{error}");
            let before = fixture.disk.operations();
            assert!(matches!(log.commit(), Err(StorageError::Poisoned)));
            assert!(matches!(log.append(&txn(3, &[])), Err(StorageError::Poisoned)));
            assert_eq!(fixture.disk.operations(), before);
            fixture.disk.kill();
            assert!(fixture.start().expect("starts").0.last_zxid >= 1);
        }
    }
}

#[test]
fn a_log_that_somebody_removes_goes_on_in_a_new_file_and_says_so() {
    let fixture = Fixture::new(SMALL);
    let mut log = fixture.write(&[&[1]]).log;
    let mut commit = |zxid| {
        log.append(&txn(zxid, &[])).expect("appends");
        log.commit().expect("commits");
        log.take_was_removed()
    };
    assert_eq!([commit(2), commit(3)], [false; 2]);
    fixture.disk.rename(&Fixture::path("log.1"), &Fixture::path("moved")).expect("moves");
    assert_eq!([commit(4), commit(5)], [true, false]);
    // Another file under its name is not it.
    fixture.disk.remove(&Fixture::path("log.4")).expect("removes");
    fixture.disk.plant(&Fixture::path("log.4"), b"");
    assert_eq!([commit(6), commit(7)], [true, false]);
    assert!(fixture.names().contains(&"log.6".to_owned()));
    // What is lost without a snapshot is not passed over.
    fixture.disk.kill();
    fixture.start().expect_err("1 to 5 are gone");
}

#[test]
fn a_segment_takes_what_fits_and_a_large_group_gets_its_own() {
    let fixture = Fixture::new(LogOptions { spares: 0, ..SMALL });
    let mut log = fixture.write(&[&[1]]).log;
    for (zxid, len) in [(2, 3000), (3, 1000), (4, 9000), (5, 10)] {
        log.append(&txn(zxid, &vec![1; len])).expect("appends");
        log.commit().expect("commits");
    }
    log.roll();
    log.append(&txn(6, &[])).expect("appends");
    log.commit().expect("commits");
    let logs: Vec<_> =
        fixture.names().into_iter().filter(|name| name.starts_with("log.")).collect();
    assert_eq!(logs, ["log.1", "log.3", "log.4", "log.5", "log.6"]);
    assert_eq!(fixture.start().expect("starts").0.last_zxid, 6);
}

#[test]
fn a_spare_is_filled_in_slices_and_taken_as_soon_as_it_is_ready() {
    // Two slices and a half.
    let len = 320 << 10;
    let fixture = Fixture::new(LogOptions { segment_len: len, spares: 1, force_sync: true });
    let mut log = fixture.write(&[&[1]]).log;
    let mut filler = log.spare_filler();
    for expected in [FillStep::Filled(128 << 10), FillStep::Filled(128 << 10), FillStep::Ready] {
        log.append(&txn(log.last_zxid() + 1, &[])).expect("appends");
        log.commit().expect("commits");
        assert_eq!(filler.step().expect("fills"), expected);
    }
    assert_eq!(filler.step().expect("fills"), FillStep::Idle);
    assert!(fixture.names().contains(&"spare.1".to_owned()));
    log.append(&txn(5, &[])).expect("appends");
    log.commit().expect("commits");
    assert!(!fixture.names().contains(&"spare.1".to_owned()));
    assert_eq!(fixture.content("log.5").len() as u64, len);
    assert_eq!(fixture.content("log.5")[8..16], 5_i64.to_be_bytes());
    // A filled segment is kept, though another spare is ready.
    while filler.step().expect("fills") != FillStep::Ready {}
    log.append(&txn(6, &[])).expect("appends");
    log.commit().expect("commits");
    assert!(fixture.names().contains(&"spare.2".to_owned()));
    assert_eq!(fixture.start().expect("starts").0.last_zxid, 6);
}

#[test]
fn spares_survive_a_start_unless_their_length_is_another() {
    let fixture = Fixture::new(SMALL);
    let log = fixture.write(&[&[1]]).log;
    while log.spare_filler().step().expect("fills") != FillStep::Idle {}
    fixture.disk.plant(&Path::new(FOLDER).join("spare.9"), &[0; 100]);
    fixture.write(&[&[2]]);
    assert_eq!(fixture.content("log.2").len(), 4096);
    assert!(!fixture.names().iter().any(|name| name.starts_with("spare.")));
}

#[test]
fn a_full_disk_stops_the_filler_and_not_the_log() {
    for at in 0..6 {
        let fixture = Fixture::new(SMALL);
        let mut log = fixture.write(&[&[1]]).log;
        let mut filler = log.spare_filler();
        fixture.disk.fail_after(at, Fault::Enospc);
        let mut failed = false;
        while log.shelf.is_empty() {
            failed |= filler.step().is_err();
        }
        assert!(failed, "{at}");
        log.append(&txn(2, &[])).expect("appends");
        log.commit().expect("commits");
        fixture.disk.crash(&mut Dice(at));
        assert_eq!(fixture.start().expect("starts").0.last_zxid, 2);
        assert!(!fixture.names().iter().any(|name| name.starts_with("tmp.")));
    }
}

#[test]
fn spares_leave_the_reserve_alone() {
    let fixture = Fixture::new(SMALL);
    let log = fixture.write(&[&[1]]).log;
    assert_eq!(log.reserve(), 2 * 4096);
    let mut filler = log.spare_filler();
    for (free, step) in [(3 * 4096 - 1, FillStep::Idle), (3 * 4096, FillStep::Ready)] {
        fixture.disk.set_free(Some(free));
        assert_eq!(filler.step().expect("fills"), step, "{free}");
    }
    assert_eq!(log.free_space().expect("tells"), 2 * 4096);
}

#[test]
fn the_options_follow_zookeepers_keys() {
    let options = LogOptions::new(65536, true);
    assert_eq!((options.segment_len, options.spares), (64 << 20, 2));
    for kb in [0, -1, i64::MIN] {
        let options = LogOptions::new(kb, false);
        assert_eq!((options.spares, options.force_sync), (0, false));
        assert_eq!(options.segment_len, 64 << 20);
    }
}
