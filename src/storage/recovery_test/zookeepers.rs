//! Logs of ZooKeeper, where they end and where they are damaged.

use super::*;

#[test]
fn logs_of_zookeeper_are_read_by_its_rules() {
    let clean = java_log(&[1, 2, 3]);
    let at = offsets(&clean);
    let start = |log: &[u8]| {
        let fixture = plain();
        fixture.write(&[]);
        fixture.disk.plant(&Fixture::path("log.1"), log);
        fixture
    };
    assert_eq!(last(&start(&clean)), (3, 0));
    // Cut off anywhere in the last record, or without its end mark: the end of the file.
    for end in at[2]..at[3] {
        assert_eq!(last(&start(&clean[..end])), (2, 0), "{end}");
    }
    let mut log = clean.clone();
    log[at[3] - 1] = 0;
    assert_eq!(last(&start(&log)), (2, 0));
    // Its reader ends at a length of zero. But what follows was acknowledged.
    let mut log = clean.clone();
    log[at[1] + 8..at[1] + 12].fill(0);
    assert!(matches!(damage(&start(&log)).2, DamageReason::LaterRecord { zxid: 3, .. }));
    let mut log = clean.clone();
    log[at[1] + 20] ^= 1;
    assert_eq!(damage(&start(&log)).2, DamageReason::Checksum);
    let mut log = clean.clone();
    log[at[1] + 8] = 0xff;
    assert!(matches!(damage(&start(&log)).2, DamageReason::Length(_)));
    let mut log = clean;
    log[0] = 0;
    assert_eq!(damage(&start(&log)).2, DamageReason::Header);
}

const EPOCH: i64 = 1 << 32;

/// What a start makes of a log of ZooKeeper's and the one after it, beside a snapshot of
/// ZooKeeper's if that shows anything.
fn recovered(log: &[u8], shown: u64, next: &[i64]) -> Option<i64> {
    let fixture = plain();
    fixture.write(&[&[1, 2]]);
    if shown > 0 {
        let (_, mut ledger) = fixture.start().expect("starts");
        ledger.txns.retain(|zxid, _| *zxid <= shown.cast_signed());
        ledger.snapshot(&fixture.open(), shown).expect("snapshot");
        fixture.edit(&format!("snapshot.{shown}"), make_zookeepers);
    }
    fixture.disk.plant(&Fixture::path("log.1"), log);
    if let Some(first) = next.first() {
        let path = Fixture::path(&format!("log.{first:x}"));
        fixture.disk.plant(&path, &java_log(next));
    }
    match fixture.start() {
        Ok((recovered, _)) => Some(recovered.last_zxid),
        Err(StorageError::Damage { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// A power failure kept a later page of what was never synced, and ZooKeeper began after the last
/// good record.
#[test]
fn where_zookeeper_went_on_after_a_torn_end_it_is_the_end() {
    let mut torn = java_log(&[1, 2, 3]);
    let at = offsets(&torn);
    torn[at[1]..at[2]].fill(0);
    for shown in [0, 1] {
        assert_eq!(recovered(&torn, shown, &[2, 3, 4, 5]), Some(5));
        // Nobody but a running server begins a file after the later record.
        assert_eq!(recovered(&torn, shown, &[4, 5]), None);
    }
    assert_eq!(recovered(&torn, 1, &[]), Some(1));
    assert_eq!(recovered(&torn, 1, &[EPOCH + 1, EPOCH + 2]), Some(EPOCH + 2));
    // A running server's snapshot may show what stands after it.
    for shown in [0, 2] {
        assert_eq!(recovered(&torn, shown, &[]), None);
        assert_eq!(recovered(&torn, shown, &[EPOCH + 1]), None);
    }
}

/// ZooKeeper ran with a greater `jute.maxbuffer`.
#[test]
fn where_zookeeper_went_on_after_a_long_record_that_was_cut_off_it_is_the_end() {
    let mut torn = java_log(&[1]);
    torn.extend([0, 0, 0, 0, 1, 2, 3, 4, 0, 0x30, 0, 0, 7, 7]);
    assert_eq!(recovered(&torn, 0, &[2, 3]), Some(3));
    assert_eq!(recovered(&torn, 1, &[]), Some(1));
    assert_eq!(recovered(&torn, 0, &[3]), None);
    assert_eq!(recovered(&torn, 0, &[]), None);
}
