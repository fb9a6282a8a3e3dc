//! When the log gives way to a snapshot that was handed over, and when it does not.

use super::*;
use crate::storage::discard_void_log;

/// The records 3 to 5 and the snapshot after them; those before are purged.
fn with_the_last_record_in_the_snapshot() -> Fixture {
    let fixture = plain();
    fixture.write(&[&[1, 2]]);
    fixture.write(&[&[3, 4], &[5]]);
    let (_, ledger) = fixture.start().expect("starts");
    ledger.snapshot(&fixture.open(), 5).expect("snapshot");
    purge(&fixture.open(), 1).expect("purges");
    let has = |name: &str| fixture.names().iter().any(|its| its == name);
    assert!(has("log.3") && has("snapshot.5") && !has("log.1") && !has("snapshot.0"));
    fixture
}

/// The same with one bit of the log's index turned over, the sign apart: that says who wrote it.
fn with_each_wrong_index() -> impl Iterator<Item = (i64, Fixture)> {
    let fixture = with_the_last_record_in_the_snapshot();
    (0..63).map(move |bit| {
        let fork = fixture.fork();
        let wrong = 3 ^ (1_i64 << bit);
        fork.edit("log.3", |bytes| bytes[8..16].copy_from_slice(&wrong.to_be_bytes()));
        (wrong, fork)
    })
}

/// Nothing stands after the snapshot that could show it.
#[test]
fn a_wrong_index_ahead_of_the_snapshots_own_record_is_damage() {
    assert_eq!(last(&with_the_last_record_in_the_snapshot()), (5, 0));
    for (wrong, fixture) in with_each_wrong_index() {
        let (name, _, reason, _) = damage(&fixture);
        let expected = DamageReason::IndexGap { expected: 3, found: wrong };
        assert_eq!((name.as_str(), reason), ("log.3", expected));
    }
}

#[test]
fn a_log_with_a_wrong_index_does_not_give_way_to_a_snapshot_handed_over() {
    for (wrong, fixture) in with_each_wrong_index() {
        let before = fixture.image();
        discard_void_log(&fixture.open(), 5, &mut Nothing).expect("looks");
        assert_eq!(fixture.image(), before, "{wrong}");
    }
}

/// With the wrong index a record of a later term is in its place, or the log seems to end before
/// it.
#[test]
fn a_log_that_has_the_snapshots_record_elsewhere_does_not_give_way_to_it() {
    const TERM: i64 = 5 << 32;
    // The later term is in the same segment, or in the next one.
    for (name, index, is_apart) in [("log.3", 3, false), ("log.500000000", 5, true)] {
        let fixture = plain();
        fixture.write(&[&[1, 2]]);
        match is_apart {
            true => {
                fixture.write(&[&[3], &[4]]);
                fixture.write(&[&[TERM], &[TERM + 1]]);
            }
            false => drop(fixture.write(&[&[3], &[4], &[TERM], &[TERM + 1]])),
        }
        let (_, mut ledger) = fixture.start().expect("starts");
        ledger.txns.retain(|zxid, _| *zxid <= 4);
        ledger.snapshot(&fixture.open(), 4).expect("snapshot");
        purge(&fixture.open(), 1).expect("purges");
        assert_eq!(last(&fixture), (TERM + 1, 0));
        for bit in 0..63 {
            let fork = fixture.fork();
            let wrong = index ^ (1_i64 << bit);
            fork.edit(name, |bytes| bytes[8..16].copy_from_slice(&wrong.to_be_bytes()));
            let before = fork.image();
            discard_void_log(&fork.open(), 4, &mut Nothing).expect("looks");
            assert_eq!(fork.image(), before, "{name} {wrong}");
            let error = fork.start().expect_err("is damage");
            assert!(matches!(error, StorageError::Damage { .. }), "{name} {wrong}: {error}");
            assert_eq!(fork.image(), before, "{name} {wrong}");
        }
    }
}

/// A snapshot of the record 4, whose segment is followed by one of a later term, with an index that
/// is wrong.
fn with_a_later_term() -> Fixture {
    const TERM: i64 = 5 << 32;
    let fixture = plain();
    fixture.write(&[&[1, 2]]);
    fixture.write(&[&[3], &[4]]);
    fixture.write(&[&[TERM], &[TERM + 1]]);
    let (_, mut ledger) = fixture.start().expect("starts");
    ledger.txns.retain(|zxid, _| *zxid <= 4);
    ledger.snapshot(&fixture.open(), 4).expect("snapshot");
    fixture.edit("log.500000000", |bytes| bytes[8..16].copy_from_slice(&4_i64.to_be_bytes()));
    fixture
}

/// The snapshot's record cannot be read any more, and later segments have what the snapshot does
/// not show.
#[test]
fn a_log_whose_inner_segment_ends_unreadable_does_not_give_way() {
    let fixture = with_a_later_term();
    let at = offsets(&fixture.content("log.3"));
    fixture.edit("log.3", |bytes| bytes[at[1] + 20] ^= 1);
    let before = fixture.image();
    discard_void_log(&fixture.open(), 4, &mut Nothing).expect("looks");
    assert_eq!(fixture.image(), before);
    let error = fixture.start().expect_err("is damage");
    assert!(matches!(error, StorageError::Damage { .. }), "{error}");
}

/// The snapshot's record stands in a segment that does not begin as a log any more. The one after
/// it, of a later term, would be void by itself.
#[test]
fn a_log_with_a_segment_without_a_header_does_not_give_way() {
    let fixture = with_a_later_term();
    fixture.edit("log.3", |bytes| bytes[0] ^= 1);
    let before = fixture.image();
    discard_void_log(&fixture.open(), 4, &mut Nothing).expect("looks");
    assert_eq!(fixture.image(), before);
}
