use std::sync::Arc;

use jute::Acl;
use jute::protocol::{CheckVersionRequest, CreateRequest, DeleteRequest, MultiOp, SetDataRequest};
use jute::txn::CloseSessionTxn;

use super::*;
use crate::engine::apply::Mode;
use crate::engine::database::Rules;
use crate::engine::digest::HASHED;
use crate::engine::time::WallClock;

const TICK_MS: u64 = 500;

fn now(ms: u64) -> Now {
    Now { monotonic: Monotonic(ms), wall: WallClock(0) }
}

fn apply(sequencer: &mut Sequencer, database: &mut Database, record: TxnRecord<'static>) {
    let TxnRecord { header, txn, digest } = record;
    database.apply(&header, txn, digest, Mode::Strict, &mut Vec::new()).unwrap();
    sequencer.retire(Zxid(header.zxid));
}

/// Opens a session, and gives what its requests come with.
fn open(sequencer: &mut Sequencer, database: &mut Database, connection: ConnectionId) -> Origin {
    let identities = Arc::default();
    let (session, received) = (SessionId::NONE, Monotonic(0));
    let origin = Origin { connection, session, xid: 0, identities, received };
    let work = Work::Open { timeout_ms: 1000 };
    let prepared = sequencer.prepare(database, &origin, work, now(0));
    let Prepared::Open(record, attached) = prepared else { panic!("{prepared:?}") };
    apply(sequencer, database, record);
    Origin { session: attached.session, ..origin }
}

#[test]
fn a_delete_in_flight_outlives_an_earlier_change_of_the_znode() {
    let mut database = Database::new(1, Rules::default());
    let mut sequencer = Sequencer::new(&database, TICK_MS, 7, Monotonic(0));
    let origin = open(&mut sequencer, &mut database, ConnectionId(1));
    let (path, data) = (|| "/x".into(), || Some(b"".as_slice().into()));
    let acl = Some(vec![Acl::anyone(31)]);
    let requests = [
        Request::Create(CreateRequest { path: path(), data: data(), acl, flags: 0 }),
        Request::SetData(SetDataRequest { path: path(), data: data(), version: 0 }),
        Request::Delete(DeleteRequest { path: path(), version: 1 }),
    ];
    let records = requests.map(|request| {
        let work = Work::Request(request);
        match sequencer.prepare(&database, &origin, work, now(0)) {
            Prepared::Txn(record) => record,
            other => panic!("{other:?}"),
        }
    });
    // Whatever of it is applied: who comes after the delete finds nothing.
    for record in records {
        let set = SetDataRequest { path: path(), data: data(), version: -1 };
        let work = Work::Request(Request::SetData(set));
        let prepared = sequencer.prepare(&database, &origin, work, now(0));
        assert!(matches!(prepared, Prepared::Refused(ErrorCode::NoNode)), "{prepared:?}");
        apply(&mut sequencer, &mut database, record);
    }
    assert_eq!(database.tree().find("/x"), None);
}

#[test]
fn the_end_of_a_session_takes_no_room_for_each_of_its_znodes() {
    const ZNODES: usize = 5000;
    let mut database = Database::new(1, Rules::default());
    let mut sequencer = Sequencer::new(&database, TICK_MS, 7, Monotonic(0));
    let [owner, other] =
        [1, 2].map(|connection| open(&mut sequencer, &mut database, ConnectionId(connection)));
    let create = |path: &str, flags| {
        let (data, acl) = (Some(b"".as_slice().into()), Some(vec![Acl::anyone(31)]));
        Request::Create(CreateRequest { path: path.to_owned().into(), data, acl, flags })
    };
    let set = |path: &str| {
        let (path, data) = (path.to_owned().into(), Some(b"set".as_slice().into()));
        Request::SetData(SetDataRequest { path, data, version: -1 })
    };
    let delete =
        |path: &str| Request::Delete(DeleteRequest { path: path.to_owned().into(), version: -1 });
    let decide =
        |sequencer: &mut Sequencer, database: &Database, origin: &Origin, request| match sequencer
            .prepare(database, origin, Work::Request(request), now(0))
        {
            Prepared::Txn(record) => Ok(record),
            Prepared::Refused(error) => Err(error),
            prepared => panic!("{prepared:?}"),
        };
    let mut made = vec![create("/p", 0), create("/q", 0)];
    made.extend((0..ZNODES).map(|number| create(&format!("/p/{number}"), 1)));
    for request in made {
        let record = decide(&mut sequencer, &database, &owner, request).unwrap();
        apply(&mut sequencer, &mut database, record);
    }
    // In flight: what was changed before, the end, and what comes after it.
    let mut in_flight = Vec::new();
    let before = [
        (&other, set("/p/0")),
        (&other, delete("/p/1")),
        (&owner, create("/q/new", 1)),
        (&owner, Request::CloseSession),
    ];
    for (origin, request) in before {
        in_flight.push(decide(&mut sequencer, &database, origin, request).unwrap());
    }
    let Txn::CloseSession(CloseSessionTxn { paths_to_delete }) = &in_flight[3].txn else {
        panic!("{:?}", in_flight[3])
    };
    assert_eq!(paths_to_delete.len(), ZNODES);
    assert!(paths_to_delete.is_sorted() && paths_to_delete.contains(&"/q/new".into()));
    let entries = sequencer.overlay.entries();
    assert!(entries < 40, "{entries}");
    let gone = [set("/p/0"), set("/p/7"), delete("/q/new")];
    for request in gone {
        let refused = decide(&mut sequencer, &database, &other, request);
        assert_eq!(refused, Err(ErrorCode::NoNode));
    }
    for request in [create("/p/7", 1), delete("/q"), delete("/p/7"), delete("/p")] {
        if request == delete("/p/7") {
            let refused = decide(&mut sequencer, &database, &other, delete("/p"));
            assert_eq!(refused, Err(ErrorCode::NotEmpty));
        }
        in_flight.push(decide(&mut sequencer, &database, &other, request).unwrap());
    }
    for record in in_flight {
        apply(&mut sequencer, &mut database, record);
        assert_eq!(database.tree.digest(), Some(database.tree.compute_digest()));
    }
    assert_eq!(sequencer.overlay.entries(), 0);
    assert_eq!((database.tree.find("/p"), database.tree.find("/q")), (None, None));
}

#[test]
fn who_only_looks_at_a_znode_does_not_pay_for_its_data() {
    const LEN: usize = 100_000;
    let mut database = Database::new(1, Rules::default());
    let mut sequencer = Sequencer::new(&database, TICK_MS, 7, Monotonic(0));
    let origin = open(&mut sequencer, &mut database, ConnectionId(1));
    let create = |path: &str, len| {
        let (data, acl) = (Some(vec![7; len].into()), Some(vec![Acl::anyone(31)]));
        MultiOp::Create(CreateRequest { path: path.to_owned().into(), data, acl, flags: 0 })
    };
    let check = || MultiOp::Check(CheckVersionRequest { path: "/x".into(), version: 0 });
    let mut run = |ops| {
        let before = HASHED.get();
        let work = Work::Request(Request::Multi(ops));
        let record = match sequencer.prepare(&database, &origin, work, now(0)) {
            Prepared::Txn(record) => record,
            prepared => panic!("{prepared:?}"),
        };
        let hashed = HASHED.get() - before;
        apply(&mut sequencer, &mut database, record);
        assert_eq!(database.tree.digest(), Some(database.tree.compute_digest()));
        hashed
    };
    assert_eq!(run(vec![create("/x", LEN)]), LEN);
    assert_eq!(run((0..100).map(|_| check()).collect()), 0);
    // Its children change it, but not its data, whose sum was kept when it was made.
    let children = (0..100).map(|number| create(&format!("/x/{number}"), 1));
    assert_eq!(run(children.collect()), 100);
}

#[test]
fn a_session_is_opened_expires_and_is_gone() {
    let mut database = Database::new(1, Rules::default());
    let mut sequencer = Sequencer::new(&database, TICK_MS, 7, Monotonic(0));
    let mut sessions = Vec::new();
    for connection in [ConnectionId(1), ConnectionId(2)] {
        sessions.push(open(&mut sequencer, &mut database, connection).session);
    }
    assert_eq!(sessions, [SessionId(7), SessionId(8)]);
    assert_eq!(sequencer.sessions_count(), 2);
    // The bucket of 1000 ends at 1500 (`ExpiryQueue.roundToNextInterval`).
    assert_eq!(sequencer.next_expiry(), Some(Monotonic(1500)));
    let mut buckets = Vec::new();
    let each = |end, session| buckets.push((end, session));
    assert!(sequencer.walk_expiry(ExpiryPlace::default(), 9, each).is_none());
    assert_eq!(buckets, [7, 8].map(|session| (Monotonic(1500), SessionId(session))));
    assert_eq!(sequencer.expired(Monotonic(1499), 0), []);
    let mut expired = sequencer.expired(Monotonic(1500), 0);
    expired.sort_unstable();
    assert_eq!(expired, sessions);
    assert_eq!(sequencer.next_expiry(), None);
    let chore = Chore::Expire(sessions[0]);
    let record = sequencer.prepare_chore(&database, &chore, now(1500)).unwrap();
    assert_eq!(record.header.client_id, 7);
    assert_eq!(sequencer.prepare_chore(&database, &chore, now(1500)), None, "it is closing");
    apply(&mut sequencer, &mut database, record);
    assert_eq!(sequencer.session_closed(sessions[0]), Some(ConnectionId(1)));
    assert_eq!(sequencer.session_closed(sessions[0]), None);
    assert_eq!(sequencer.sessions_count(), 1);
    assert_eq!(sequencer.prepare_chore(&database, &chore, now(1500)), None, "it is gone");
    assert_eq!(database.sessions().keys().copied().collect::<Vec<_>>(), [SessionId(8)]);
}

#[test]
fn ephemeral_znodes_of_sessions_that_are_gone_are_closed_with_them() {
    let rules = Rules { extended_types: false, ..Rules::default() };
    let mut database = Database::new(1, rules);
    let time_to_live = 0xff00_0000_0000_0005_u64.cast_signed();
    let owners = [("/mine", 3), ("/a", 5), ("/a2", 5), ("/b", 6), ("/ttl", time_to_live)];
    for (path, owner) in owners {
        let stat = jute::StatPersisted { ephemeral_owner: owner, ..Default::default() };
        let node = jute::persist::SnapshotNode { data: None, acl: -1, stat };
        database.load_node(path, &node).unwrap();
    }
    database.load_session(jute::persist::SnapshotSession { id: 3, timeout_ms: 1000 });
    database.finish_load(Zxid(9));
    let mut sequencer = Sequencer::new(&database, TICK_MS, 100, Monotonic(0));
    // Nobody takes such a session over meanwhile.
    let (session, received) = (SessionId(5), Monotonic(0));
    let (connection, identities) = (ConnectionId(1), Arc::default());
    let origin = Origin { connection, session, xid: 0, identities, received };
    let attach = Work::Attach { timeout_ms: 1000 };
    let prepared = sequencer.prepare(&database, &origin, attach, now(0));
    assert!(matches!(prepared, Prepared::NoSession), "{prepared:?}");

    let chores = sequencer.take_orphans();
    assert_eq!(chores, [Chore::Orphan(SessionId(5)), Chore::Orphan(SessionId(6))]);
    assert_eq!(sequencer.take_orphans(), []);
    for chore in &chores {
        let record = sequencer.prepare_chore(&database, chore, now(0)).unwrap();
        assert!(matches!(record.txn, Txn::CloseSession(_)), "{record:?}");
        apply(&mut sequencer, &mut database, record);
    }
    let left = owners.map(|(path, _)| database.tree().find(path).is_some());
    assert_eq!(left, [true, false, false, false, true]);
    assert_eq!(database.tree().digest(), Some(database.tree().compute_digest()));
    // The next start finds none.
    let again = Sequencer::new(&database, TICK_MS, 100, Monotonic(0)).take_orphans();
    assert_eq!(again, []);
}

/// With extended types, the ids of a server numbered 255 are marks of theirs; one of a start
/// without them can be in the table. What is decided is what can be applied.
#[test]
fn a_session_whose_id_is_a_mark_owns_no_znode() {
    const CONTAINER: i64 = i64::MIN;
    let [time_to_live, unknown] =
        [0xff00_0000_0000_0005_u64, 0xff00_0100_0000_0000].map(u64::cast_signed);
    for (extended_types, id, owns) in [
        (true, time_to_live, false),
        (true, unknown, false),
        (true, -1, false),
        (true, CONTAINER, false),
        (true, 5, true),
        (true, CONTAINER + 1, true),
        (false, time_to_live, true),
        (false, unknown, true),
        (false, CONTAINER, false),
    ] {
        let mut database = Database::new(1, Rules { extended_types, ..Rules::default() });
        database.load_session(jute::persist::SnapshotSession { id, timeout_ms: 1000 });
        let mut sequencer = Sequencer::new(&database, TICK_MS, 100, Monotonic(0));
        let (connection, session) = (ConnectionId(1), SessionId(id));
        let (identities, received) = (Arc::default(), Monotonic(0));
        let origin = Origin { connection, session, xid: 1, identities, received };
        let create = |path: &'static str, flags| {
            let acl = Some(vec![Acl::anyone(31)]);
            CreateRequest { path: path.into(), data: None, acl, flags }
        };
        let requests = [
            (Request::Create(create("/persistent", 0)), true),
            (Request::Create(create("/e", 1)), owns),
            (Request::Create2(create("/e2", 1)), owns),
            (Request::Create(create("/s", 3)), owns),
            (Request::Multi(vec![MultiOp::Create(create("/m", 1))]), owns),
            (Request::Multi(vec![MultiOp::Create2(create("/m2", 3))]), owns),
        ];
        for (request, is_done) in requests {
            let asked = format!("{id:#x} {extended_types} {request:?}");
            let prepared = sequencer.prepare(&database, &origin, Work::Request(request), now(0));
            match prepared {
                Prepared::Txn(record) if is_done => {
                    apply(&mut sequencer, &mut database, record);
                }
                Prepared::Refused(ErrorCode::BadArguments) if !is_done => {}
                Prepared::RefusedMulti(parts) if !is_done => {
                    assert_eq!(parts, [MultiResult::Error(-8)], "{asked}");
                }
                other => panic!("{asked}: {other:?}"),
            }
        }
        assert_eq!(database.tree().ephemerals_count(), if owns { 5 } else { 0 });
        let notice = Notice::RefusedOnPurpose { session, harm: Harm::SessionOwnsNone };
        assert_eq!(sequencer.take_notices(), vec![notice; if owns { 0 } else { 5 }]);
    }
}
