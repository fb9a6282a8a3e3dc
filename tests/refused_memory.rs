//! What a refused request takes. One test: an allocator counts for the whole process.

use std::sync::Arc;

use ferrokeeper::engine::access::acl::{Identities, Identity};
use ferrokeeper::engine::apply::Mode;
use ferrokeeper::engine::database::{Database, Rules};
use ferrokeeper::engine::decide::request::{Origin, Work};
use ferrokeeper::engine::decide::sequencer::{Prepared, Sequencer};
use ferrokeeper::engine::session::SessionId;
use ferrokeeper::engine::time::{Monotonic, Now, WallClock};
use ferrokeeper::engine::watch::ConnectionId;
use jute::protocol::{CreateRequest, MultiOp, Request, SetAclRequest};
use jute::{Acl, ErrorCode};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const NOW: Now = Now { monotonic: Monotonic(0), wall: WallClock(0) };

/// Stands for 29 times 1000 identities of 50 bytes.
fn auth() -> Option<Vec<Acl<'static>>> {
    let one = |perms| Acl { perms, scheme: Some("auth".into()), id: Some("".into()) };
    Some((0..29).map(one).collect())
}

fn create(path: &'static str) -> CreateRequest<'static> {
    CreateRequest { path: path.into(), data: None, acl: auth(), flags: 0 }
}

fn ephemeral(path: &'static str) -> CreateRequest<'static> {
    CreateRequest { flags: 1, acl: Some(vec![Acl::anyone(31)]), ..create(path) }
}

fn with_data(path: &'static str) -> CreateRequest<'static> {
    static DATA: [u8; 1_000_000] = [7; 1_000_000];
    CreateRequest { data: Some(DATA[..].into()), ..create(path) }
}

fn set_acl(path: &'static str, version: i32) -> Request<'static> {
    Request::SetAcl(SetAclRequest { path: path.into(), acl: auth(), version })
}

#[test]
fn who_is_refused_has_made_no_list() {
    let mut database = Database::new(1, Rules::default());
    let mut sequencer = Sequencer::new(&database, 500, 1, NOW.monotonic);
    let mut identities = Identities::default();
    for user in 0..1000 {
        let one = Identity { scheme: "digest".to_owned(), id: format!("{user:047}:h") };
        identities.add(one).unwrap();
    }
    let mut origin = Origin {
        connection: ConnectionId(1),
        session: SessionId::NONE,
        xid: 0,
        identities: Arc::new(identities),
        received: Monotonic(0),
    };
    let opened = sequencer.prepare(&database, &origin, Work::Open { timeout_ms: 4000 }, NOW);
    let Prepared::Open(record, attached) = opened else { panic!("{opened:?}") };
    origin.session = attached.session;
    let (header, txn) = (record.header, record.txn);
    database.apply(&header, txn, None, Mode::Strict, &mut Vec::new()).unwrap();
    let mut ask = |request| {
        let before = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        let decided = sequencer.prepare(&database, &origin, Work::Request(request), NOW);
        (decided, ALLOCATOR.peak_usage().saturating_sub(before))
    };
    let (made, taken) = ask(Request::Create(create("/a")));
    assert!(matches!(made, Prepared::Txn(_)), "{made:?}");
    assert!(taken > 1 << 20, "{taken} bytes");
    let (made, _) = ask(Request::Create(ephemeral("/e")));
    assert!(matches!(made, Prepared::Txn(_)), "{made:?}");
    let refused = [
        (Request::Create(create("/none/a")), ErrorCode::NoNode),
        (Request::Create(create("/a")), ErrorCode::NodeExists),
        (Request::Create(create("/e/a")), ErrorCode::NoChildrenForEphemerals),
        // Each alone would have its place in the log.
        (Request::Create(with_data("/b")), ErrorCode::MarshallingError),
        (set_acl("/none", -1), ErrorCode::NoNode),
        (set_acl("/a", 7), ErrorCode::BadVersion),
    ];
    for (request, expected) in refused {
        let (decided, taken) = ask(request);
        assert!(matches!(decided, Prepared::Refused(error) if error == expected), "{expected:?}");
        assert!(taken < 64 << 10, "{expected:?}: {taken} bytes");
    }
    let (decided, taken) = ask(Request::Multi(vec![MultiOp::Create(create("/none/a"))]));
    assert!(matches!(decided, Prepared::RefusedMulti(_)), "{decided:?}");
    assert!(taken < 64 << 10, "{taken} bytes");
}
