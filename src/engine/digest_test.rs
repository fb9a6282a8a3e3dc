//! The digest of the tree against ZooKeeper's own.
//!
//! `testdata/log.1` is the log of a fresh Apache ZooKeeper 3.9.5, without the zeros after its last
//! record. It holds every type of transaction, and after each the sum that ZooKeeper expected of
//! its tree.

use jute::txn::{Txn, TxnRecord};

use super::apply::Mode;
use super::database::{Database, Rules};

const LOG: &[u8] = include_bytes!("testdata/log.1");

/// The records of a log: a header of 16 bytes, then checksum, length, payload and one byte for
/// each.
fn records(log: &[u8]) -> Vec<TxnRecord<'_>> {
    let mut rest = &log[16..];
    let mut records = Vec::new();
    while !rest.is_empty() {
        let len = i32::from_be_bytes(rest[8..12].try_into().unwrap());
        let (payload, behind) = rest[12..].split_at(usize::try_from(len).unwrap());
        let (record, tail) = TxnRecord::decode(payload).unwrap();
        assert!(tail.is_empty(), "{record:?}");
        records.push(record);
        rest = &behind[1..];
    }
    records
}

/// The log's transactions.
pub(super) fn log() -> Vec<TxnRecord<'static>> {
    records(LOG)
}

#[test]
fn every_transaction_of_zookeepers_log_gives_zookeepers_digest() {
    let mut database = Database::new(1, Rules { extended_types: true, ..Rules::default() });
    let mut compared = 0;
    let mut kinds = Vec::new();
    for record in records(LOG) {
        kinds.push(record.txn.op_code().code());
        let is_error = matches!(record.txn, Txn::Error(_));
        let digest = record.digest;
        // Without the digest, so that the sum below is ours alone.
        database
            .apply(&record.header, record.txn, None, Mode::Strict, &mut Vec::new())
            .unwrap_or_else(|error| panic!("{:#x}: {error}", record.header.zxid));
        match digest {
            Some(digest) => {
                assert_eq!(digest.version, jute::txn::DIGEST_VERSION);
                assert_eq!(
                    database.tree().compute_digest(),
                    digest.tree_digest,
                    "behind {:#x}",
                    record.header.zxid
                );
                compared += 1;
            }
            None => assert!(is_error, "{:#x} has no digest", record.header.zxid),
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, [-11, -10, -1, 1, 2, 5, 7, 14, 15, 19, 20, 21]);
    assert_eq!(compared, 34, "errors have none, failed multis have one");
}
