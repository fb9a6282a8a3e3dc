//! What a transaction may have in the log, whatever a request makes of itself.

use std::borrow::Cow;
use std::sync::Arc;

use jute::protocol::{CreateRequest, MultiOp, MultiResult, Request, SetAclRequest, SetDataRequest};
use jute::txn::{Txn, TxnRecord};
use jute::{Acl, ErrorCode};

use super::access::acl::{Identities, Identity};
use super::access::scheme;
use super::apply::Mode;
use super::database::{Database, Rules};
use super::decide::request::{Origin, Work};
use super::decide::sequencer::{Prepared, Sequencer};
use super::session::SessionId;
use super::time::{Monotonic, Now, WallClock};
use super::watch::ConnectionId;

/// A server with one client, whose identities take as much as they may.
struct Server {
    database: Database,
    sequencer: Sequencer,
    origin: Origin,
}

const NOW: Now = Now { monotonic: Monotonic(0), wall: WallClock(0) };

impl Server {
    fn new(rules: Rules) -> Self {
        let mut identities = Identities::default();
        let one = |user| Identity { scheme: "digest".to_owned(), id: format!("{user:047}:h") };
        assert!((0..2000).any(|user| identities.add(one(user)).is_err()));
        let mut database = Database::new(1, rules);
        let mut sequencer = Sequencer::new(&database, 500, 1, Monotonic(0));
        let (connection, identities) = (ConnectionId(1), Arc::new(identities));
        let (session, received) = (SessionId::NONE, Monotonic(0));
        let mut origin = Origin { connection, session, xid: 0, identities, received };
        let work = Work::Open { timeout_ms: 4000 };
        match sequencer.prepare(&database, &origin, work, NOW) {
            Prepared::Open(record, attached) => {
                origin.session = attached.session;
                apply(&mut sequencer, &mut database, record);
            }
            other => panic!("{other:?}"),
        }
        Self { database, sequencer, origin }
    }

    fn ask(&mut self, request: Request<'static>) -> Prepared {
        self.sequencer.prepare(&self.database, &self.origin, Work::Request(request), NOW)
    }

    /// What is logged for a request that is taken.
    fn done(&mut self, request: Request<'static>) -> usize {
        match self.ask(request) {
            Prepared::Txn(record) => apply(&mut self.sequencer, &mut self.database, record),
            other => panic!("{other:?}"),
        }
    }

    fn refused(&mut self, request: Request<'static>) -> ErrorCode {
        match self.ask(request) {
            Prepared::Refused(error) => error,
            other => panic!("{other:?}"),
        }
    }
}

/// Gives the length of the payload in the log, with the trailer of eight bytes that each has there.
fn apply(sequencer: &mut Sequencer, database: &mut Database, record: TxnRecord<'static>) -> usize {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    let TxnRecord { header, txn, digest } = record;
    database.apply(&header, txn, digest, Mode::Strict, &mut Vec::new()).unwrap();
    sequencer.retire(database.last_zxid());
    bytes.len() + 8
}

/// As many entries that stand for the client's identities, no two of them alike.
fn auth(times: i32) -> Vec<Acl<'static>> {
    let one = |perms| Acl { perms, scheme: Some("auth".into()), id: Some("".into()) };
    (0..times).map(one).collect()
}

fn create(path: &str, acl: Vec<Acl<'static>>, data: usize) -> CreateRequest<'static> {
    let (path, data) = (Cow::Owned(path.to_owned()), Some(vec![b'x'; data].into()));
    CreateRequest { path, data, acl: Some(acl), flags: 0 }
}

fn open() -> Vec<Acl<'static>> {
    vec![Acl::anyone(31)]
}

#[test]
fn a_list_that_expands_beyond_a_record_is_refused() {
    let mut server = Server::new(Rules::default());
    // 66 kB each.
    let most = server.done(Request::Create(create("/a", auth(30), 0)));
    assert!((1_900_000..2_097_150).contains(&most), "{most}");
    // A request of 17 kB.
    for acl in [auth(1100), auth(32)] {
        let create = Request::Create(create("/b", acl.clone(), 0));
        assert_eq!(server.refused(create), ErrorCode::InvalidAcl);
        let set = SetAclRequest { path: "/a".into(), acl: Some(acl), version: -1 };
        assert_eq!(server.refused(Request::SetAcl(set)), ErrorCode::InvalidAcl);
    }
    server.done(Request::Create(create("/b", open(), 0)));
}

#[test]
fn a_transaction_beyond_a_record_is_refused_and_leaves_nothing() {
    let mut server = Server::new(Rules::default());
    // Each part alone has its place.
    let parts = |count| -> Vec<_> {
        (0..count).map(|at| MultiOp::Create(create(&format!("/m{at}"), auth(10), 0))).collect()
    };
    for count in [4, 3000] {
        assert_eq!(server.refused(Request::Multi(parts(count))), ErrorCode::MarshallingError);
    }
    let long = create("/m0", auth(30), 1_000_000);
    assert_eq!(server.refused(Request::Create(long)), ErrorCode::MarshallingError);
    let digest = server.database.tree().digest();
    // What was refused is not there, neither for who asks next.
    let len = server.done(Request::Multi(parts(3)));
    assert!((1_900_000..2_097_150).contains(&len), "{len}");
    assert_eq!(server.database.tree().digest(), Some(server.database.tree().compute_digest()));
    assert_ne!(server.database.tree().digest(), digest);
    // A part that fails is told as before, however long the others are.
    let mut parts = parts(2);
    parts.insert(0, MultiOp::Create(create("/n", auth(5), 0)));
    match server.ask(Request::Multi(parts)) {
        Prepared::RefusedMulti(results) => {
            let codes = [0, -110, -2].map(MultiResult::Error);
            assert_eq!(results, codes);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_record_may_be_as_long_as_zookeeper_reads() {
    let mut server = Server::new(Rules { record_max: 10_000, ..Rules::default() });
    server.done(Request::Create(create("/a", open(), 0)));
    let set = |len| {
        let data = Some(vec![b'x'; len].into());
        SetDataRequest { path: "/a".into(), data, version: -1 }
    };
    // Header, path, length, version, digest, trailer.
    let most = 10_000 - 32 - 6 - 4 - 4 - 12 - 8;
    assert_eq!(server.done(Request::SetData(set(most))), 10_000);
    assert_eq!(server.refused(Request::SetData(set(most + 1))), ErrorCode::MarshallingError);
    let multi = |len| Request::Multi(vec![MultiOp::SetData(set(len))]);
    assert_eq!(server.done(multi(most - 12)), 10_000);
    assert_eq!(server.refused(multi(most - 11)), ErrorCode::MarshallingError);
}

#[test]
fn the_end_of_a_session_is_never_refused() {
    let mut server = Server::new(Rules { record_max: 10_000, ..Rules::default() });
    for at in 0..1000 {
        let ephemeral =
            CreateRequest { flags: 1, ..create(&format!("/ephemeral-{at}"), open(), 0) };
        server.done(Request::Create(ephemeral));
    }
    let Prepared::Txn(record) = server.ask(Request::CloseSession) else { panic!() };
    assert!(matches!(record.txn, Txn::CloseSession(_)));
    let len = apply(&mut server.sequencer, &mut server.database, record);
    assert!((9000..=10_000).contains(&len), "{len}");
    assert_eq!(server.database.tree().ephemerals_count(), 0);
    assert_eq!(server.database.tree().digest(), Some(server.database.tree().compute_digest()));
}

/// Its parts ask for 300 lists in turns, ten times for each.
#[test]
fn a_list_is_looked_up_once_for_a_multi() {
    const LISTS: usize = 300;
    const ENTRIES: usize = 40;
    let mut server = Server::new(Rules::default());
    let all = Arc::clone(&server.origin.identities);
    let list = |first: usize| {
        let shown = all.all().iter().skip(first).take(ENTRIES);
        let entry = |one: &Identity| Acl {
            perms: 2,
            scheme: Some(one.scheme.clone().into()),
            id: Some(one.id.clone().into()),
        };
        shown.map(entry).collect()
    };
    let path = |number: usize| format!("/a{number}");
    for number in 0..LISTS {
        server.done(Request::Create(create(&path(number), list(number), 0)));
    }
    let set = |number: usize| {
        let path = path(number % LISTS).into();
        MultiOp::SetData(SetDataRequest { path, data: None, version: -1 })
    };
    let before = scheme::LOOKED_AT.get();
    server.done(Request::Multi((0..10 * LISTS).map(set).collect()));
    let looked_at = scheme::LOOKED_AT.get() - before;
    // Each entry once, and what has the same place in a table by chance.
    assert!(looked_at < 2 * LISTS * ENTRIES, "{looked_at}");
}
