//! The end of a parent's counter of creates, 2^31-1: ZooKeeper wraps it, and names collide
//! (`PrepRequestProcessor`); here it stays, and only sequential creates are refused.

use std::sync::Arc;

use jute::persist::SnapshotNode;
use jute::protocol::{CreateRequest, DeleteRequest, MultiOp, MultiResult, Request, Response};
use jute::{Acl, CreateMode, ErrorCode, StatPersisted};

use super::request::{Origin, Work};
use super::sequencer::{Notice, Prepared, Sequencer};
use crate::engine::apply::Mode;
use crate::engine::database::{Database, Rules};
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, Now, WallClock};
use crate::engine::watch::ConnectionId;
use crate::engine::zxid::Zxid;

const NOW: Now = Now { monotonic: Monotonic(0), wall: WallClock(1_700_000_000_000) };

/// A database whose `/p` has had so many children, and a session that writes.
struct Parent {
    database: Database,
    sequencer: Sequencer,
    origin: Origin,
}

impl Parent {
    fn with_creates(creates: i32) -> Self {
        let mut database = Database::empty(7, Rules::default());
        let stat = StatPersisted { cversion: creates, ..StatPersisted::default() };
        for (path, stat) in [("", StatPersisted::default()), ("/p", stat)] {
            let node = SnapshotNode { data: Some(b"".as_slice().into()), acl: -1, stat };
            database.load_node(path, &node).unwrap();
        }
        database.finish_load(Zxid(5));
        let mut sequencer = Sequencer::new(&database, 500, 1, NOW.monotonic);
        let mut origin = Origin {
            connection: ConnectionId(1),
            session: SessionId::NONE,
            xid: 1,
            identities: Arc::default(),
            received: NOW.monotonic,
        };
        let work = Work::Open { timeout_ms: 10_000 };
        let Prepared::Open(record, attached) = sequencer.prepare(&database, &origin, work, NOW)
        else {
            panic!("no session");
        };
        origin.session = attached.session;
        let mut parent = Self { database, sequencer, origin };
        parent.apply(Prepared::Txn(record)).unwrap();
        parent
    }

    fn prepare(&mut self, request: Request<'static>) -> Prepared {
        self.sequencer.prepare(&self.database, &self.origin, Work::Request(request), NOW)
    }

    /// Applies as strictly as a running server, and sums the tree up.
    fn apply(&mut self, prepared: Prepared) -> Result<Response<'static>, ErrorCode> {
        let record = match prepared {
            Prepared::Txn(record) => record,
            Prepared::Refused(error) => return Err(error),
            Prepared::RefusedMulti(results) => return Ok(Response::Multi(results)),
            other => panic!("{other:?}"),
        };
        let mut events = Vec::new();
        let response = self
            .database
            .apply(&record.header, record.txn, record.digest, Mode::Strict, &mut events)
            .unwrap();
        self.sequencer.retire(Zxid(record.header.zxid));
        assert_eq!(self.database.tree.digest(), Some(self.database.tree.compute_digest()));
        Ok(response)
    }

    fn create(&mut self, path: &'static str, mode: CreateMode) -> Result<String, ErrorCode> {
        let prepared = self.prepare(Request::Create(create(path, mode)));
        self.apply(prepared).map(created)
    }

    fn cversion(&self) -> i32 {
        self.database.tree.stat_persisted(self.database.tree.find("/p").unwrap()).cversion
    }

    fn exhausted(&mut self) -> usize {
        let notices = self.sequencer.take_notices();
        let expected = Notice::SequenceExhausted { parent: "/p".to_owned() };
        assert!(notices.iter().all(|notice| *notice == expected), "{notices:?}");
        notices.len()
    }
}

fn create(path: &'static str, mode: CreateMode) -> CreateRequest<'static> {
    CreateRequest {
        path: path.into(),
        data: None,
        acl: Some(vec![Acl::anyone(31)]),
        flags: mode as i32,
    }
}

fn created(response: Response<'static>) -> String {
    match response {
        Response::Create(body) => body.path.into_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_last_number_is_given_and_then_none() {
    let mut parent = Parent::with_creates(i32::MAX - 1);
    let sequential = CreateMode::PersistentSequential;
    assert_eq!(parent.create("/p/n-", sequential).unwrap(), "/p/n-2147483646");
    assert_eq!((parent.cversion(), parent.exhausted()), (i32::MAX, 0));
    for mode in [sequential, CreateMode::EphemeralSequential] {
        assert_eq!(parent.create("/p/n-", mode), Err(ErrorCode::BadArguments));
        assert_eq!(parent.exhausted(), 1);
    }
    assert_eq!(parent.create("/n-", sequential).unwrap(), "/n-0000000000");
}

#[test]
fn names_of_ones_own_go_on() {
    for creates in [i32::MAX - 1, i32::MAX] {
        let mut parent = Parent::with_creates(creates);
        for path in ["/p/a", "/p/b"] {
            assert_eq!(parent.create(path, CreateMode::Persistent).unwrap(), path);
        }
        assert_eq!(parent.create("/p/a", CreateMode::Persistent), Err(ErrorCode::NodeExists));
        let delete = DeleteRequest { path: "/p/a".into(), version: -1 };
        let prepared = parent.prepare(Request::Delete(delete));
        parent.apply(prepared).unwrap();
        assert_eq!(parent.create("/p/a", CreateMode::Ephemeral).unwrap(), "/p/a");
        assert_eq!((parent.cversion(), parent.exhausted()), (i32::MAX, 0));
    }
}

#[test]
fn requests_in_flight_share_the_last_number_with_nobody() {
    let mut parent = Parent::with_creates(i32::MAX - 2);
    let sequential = CreateMode::PersistentSequential;
    let prepared: Vec<Prepared> =
        (0..4).map(|_| parent.prepare(Request::Create(create("/p/", sequential)))).collect();
    let outcomes: Vec<_> =
        prepared.into_iter().map(|prepared| parent.apply(prepared).map(created)).collect();
    let refused = || Err(ErrorCode::BadArguments);
    assert_eq!(
        outcomes,
        [Ok("/p/2147483645".to_owned()), Ok("/p/2147483646".to_owned()), refused(), refused()]
    );
    assert_eq!(parent.exhausted(), 2);
}

#[test]
fn a_multi_without_a_number_for_each_gives_all_back() {
    let mut parent = Parent::with_creates(i32::MAX - 1);
    let sequential = CreateMode::PersistentSequential;
    let parts = || MultiOp::Create(create("/p/", sequential));
    let prepared = parent.prepare(Request::Multi(vec![parts(), parts()]));
    let results = vec![MultiResult::Error(0), MultiResult::Error(ErrorCode::BadArguments.code())];
    assert_eq!(parent.apply(prepared), Ok(Response::Multi(results)));
    assert_eq!(parent.create("/p/", sequential).unwrap(), "/p/2147483646");
}
