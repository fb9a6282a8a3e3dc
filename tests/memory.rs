//! What the tree takes, and that it gives it back. One test: an allocator counts for the whole
//! process.

use ferrokeeper::engine::WalkStep;
use ferrokeeper::engine::apply::Mode;
use ferrokeeper::engine::database::{Database, Rules};
use jute::Acl;
use jute::txn::{CreateTxn, DeleteTxn, Txn, TxnHeader, TxnRecord};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const ZNODES: i32 = 200_000;
const DATA: [u8; 100] = [7; 100];

fn apply(database: &mut Database, txn: Txn<'_>) {
    let zxid = database.last_zxid().0 + 1;
    let header = TxnHeader { client_id: 1, cxid: 1, zxid, time: 1_700_000_000_000 };
    let TxnRecord { header, txn, digest } = TxnRecord { header, txn, digest: None };
    database.apply(&header, txn, digest, Mode::Strict, &mut Vec::new()).expect("it fits");
}

fn create(database: &mut Database, path: &str, parent_cversion: i32) {
    let create = CreateTxn {
        path: path.into(),
        data: Some(DATA[..].into()),
        acl: Some(vec![Acl::anyone(31)]),
        ephemeral: false,
        parent_cversion,
    };
    apply(database, Txn::Create(create));
}

/// RaftKeeper#313, RaftKeeper#322: what znodes had taken was never given back.
#[test]
fn what_znodes_take_is_given_back_when_they_go() {
    let mut database = Database::new(1, Rules::default());
    create(&mut database, "/parent", 1);
    let path = |number| format!("/parent/{number}");
    let before = ALLOCATOR.current_usage();
    let grown = |database: &Database| {
        assert!(database.tree().count() > 0);
        ALLOCATOR.current_usage().saturating_sub(before)
    };
    for number in 0..ZNODES {
        create(&mut database, &path(number), number + 1);
    }
    let full = grown(&database);
    assert!(full > ZNODES as usize * DATA.len(), "{full} bytes");
    // A snapshot is under way meanwhile, and ends.
    database.begin_walk();
    for number in 0..ZNODES {
        apply(&mut database, Txn::Delete(DeleteTxn { path: path(number).into() }));
        if number % 1000 == 0 {
            database.tree().advance_walk(1000, 1);
        }
    }
    while !matches!(database.tree().advance_walk(1000, 1), Some(WalkStep::Finished { .. })) {}
    let left = grown(&database);
    assert!(left < full / 5, "{left} of {full} bytes are still taken");
}
