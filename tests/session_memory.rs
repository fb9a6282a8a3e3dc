//! What the end of a session takes while it is decided and applied. One test: an allocator counts
//! for the whole process.

use std::time::Instant;

use ferrokeeper::engine::apply::Mode;
use ferrokeeper::engine::database::{Database, Rules};
use ferrokeeper::engine::decide::request::Chore;
use ferrokeeper::engine::decide::sequencer::Sequencer;
use ferrokeeper::engine::session::SessionId;
use ferrokeeper::engine::time::{Monotonic, Now, WallClock};
use jute::Acl;
use jute::txn::{CreateSessionTxn, CreateTxn, Txn, TxnHeader};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const SESSION: i64 = 7;
const ZNODES: i32 = 300_000;
/// What the transaction lists of them, with room for the list itself, and four bytes of a number
/// for each znode.
const MOST: usize = 8 << 20;

fn apply(database: &mut Database, txn: Txn<'_>) {
    let zxid = database.last_zxid().0 + 1;
    let header = TxnHeader { client_id: SESSION, cxid: 1, zxid, time: 1_700_000_000_000 };
    database.apply(&header, txn, None, Mode::Strict, &mut Vec::new()).expect("it fits");
}

#[test]
fn a_session_with_very_many_ephemerals_ends_in_little_room() {
    let mut database = Database::new(1, Rules::default());
    apply(&mut database, Txn::CreateSession(CreateSessionTxn { timeout_ms: 1000 }));
    let mut create = |path: String, parent_cversion, ephemeral| {
        let acl = Some(vec![Acl::anyone(31)]);
        let (path, data) = (path.into(), Some([7; 10][..].into()));
        apply(
            &mut database,
            Txn::Create(CreateTxn { path, data, acl, ephemeral, parent_cversion }),
        );
    };
    create("/parent".to_owned(), 1, false);
    for number in 0..ZNODES {
        create(format!("/parent/ephemeral-{number:010}"), number + 1, true);
    }
    let now = Now { monotonic: Monotonic(0), wall: WallClock(0) };
    let mut sequencer = Sequencer::new(&database, 500, 8, now.monotonic);
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let began = Instant::now();
    let record = sequencer
        .prepare_chore(&database, &Chore::Expire(SessionId(SESSION)), now)
        .expect("there is such a session");
    let decided = began.elapsed();
    let peak = ALLOCATOR.peak_usage() - before;
    println!("deciding: {decided:?}, {peak} bytes");
    assert!(peak < MOST, "deciding takes {peak} bytes");
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let began = Instant::now();
    database
        .apply(&record.header, record.txn, record.digest, Mode::Strict, &mut Vec::new())
        .expect("it fits");
    sequencer.retire(database.last_zxid());
    let peak = ALLOCATOR.peak_usage() - before;
    println!("applying: {:?}, {peak} bytes", began.elapsed());
    assert!(peak < MOST, "applying takes {peak} bytes");
    assert_eq!(database.tree().ephemerals_count(), 0);
    assert_eq!(database.tree().digest(), Some(database.tree().compute_digest()));
}
