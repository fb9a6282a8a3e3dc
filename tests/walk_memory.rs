//! What a snapshot takes while it begins and goes on. One test: an allocator counts for the whole
//! process.

use std::time::Instant;

use ferrokeeper::engine::WalkStep;
use ferrokeeper::engine::apply::Mode;
use ferrokeeper::engine::database::{Database, Rules};
use jute::Acl;
use jute::persist::SnapshotSession;
use jute::txn::{CreateTxn, Txn, TxnHeader};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const LISTS: usize = 128;
const LIST_LEN: usize = 512 << 10;
const SESSIONS: i64 = 100_000;
/// What is copied of a session.
const SESSION_LEN: usize = 16;
const PIECE: usize = 256 << 10;
/// Of the number of a list, and of an entry beside its id.
const ROOM: usize = 4096;

#[test]
fn a_snapshot_copies_no_list_when_it_begins_and_one_at_a_time_after() {
    let mut database = Database::new(1, Rules::default());
    for id in 1..=SESSIONS {
        database.load_session(SnapshotSession { id, timeout_ms: 1000 });
    }
    for number in 0..LISTS {
        let id = format!("{number}:{}", "x".repeat(LIST_LEN));
        let acl = Acl { perms: 31, scheme: Some("digest".into()), id: Some(id.into()) };
        let create = CreateTxn {
            path: format!("/{number}").into(),
            data: None,
            acl: Some(vec![acl]),
            ephemeral: false,
            parent_cversion: i32::try_from(number).expect("few") + 1,
        };
        let zxid = database.last_zxid().0 + 1;
        let header = TxnHeader { client_id: 1, cxid: 1, zxid, time: 1000 };
        let txn = Txn::Create(create);
        database.apply(&header, txn, None, Mode::Strict, &mut Vec::new()).expect("it fits");
    }
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let grown = || ALLOCATOR.peak_usage() - before;
    let began = Instant::now();
    database.begin_walk();
    let taken = began.elapsed();
    let most = SESSION_LEN * SESSIONS as usize + LISTS * 64 + ROOM;
    assert!(grown() <= most, "{} bytes, {most} expected", grown());
    let (mut all, mut greatest) = (0, 0);
    loop {
        match database.tree().advance_walk(256, PIECE) {
            Some(WalkStep::Bytes(bytes) | WalkStep::Znodes(bytes)) => {
                all += bytes.len();
                greatest = greatest.max(bytes.len());
            }
            Some(WalkStep::Finished { .. }) => break,
            Some(WalkStep::Lacking(znodes)) => panic!("{znodes} znodes are missing"),
            None => {}
        }
    }
    assert!(all > LISTS * LIST_LEN, "{all} bytes");
    assert!(greatest < PIECE + LIST_LEN + ROOM, "{greatest} bytes at once");
    // A buffer that grows is there twice, and is twice as large as it must be.
    let most = most + 4 * (PIECE + LIST_LEN);
    assert!(grown() <= most, "{} bytes, {most} expected", grown());
    println!("begun in {taken:?}; {} bytes at most", grown());
}
