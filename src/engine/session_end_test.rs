//! What the end of a session costs: what its znodes are called, and what those above them are,
//! once.

use std::sync::Arc;

use jute::Acl;
use jute::protocol::{AddWatchMode, CreateRequest, EventType, Request};
use jute::txn::{CloseSessionTxn, Txn, TxnHeader, TxnRecord};

use super::apply::Mode;
use super::apply_test::{RULES, make};
use super::database::{Database, Rules};
use super::decide::request::{Origin, Work};
use super::decide::sequencer::{Prepared, Sequencer};
use super::owner::Owner;
use super::path::WORK;
use super::session::SessionId;
use super::time::{Monotonic, Now, WallClock};
use super::tree::znode::NodeId;
use super::watch::{ConnectionId, Event};

const NOW: Now = Now { monotonic: Monotonic(0), wall: WallClock(0) };
/// Somebody who watches.
const OTHER: ConnectionId = ConnectionId(9);

/// A server with one client.
struct Server {
    database: Database,
    sequencer: Sequencer,
    origin: Origin,
}

impl Server {
    fn new() -> Self {
        let mut database = Database::new(1, Rules::default());
        let mut sequencer = Sequencer::new(&database, 500, 1, Monotonic(0));
        let (connection, identities) = (ConnectionId(1), Arc::default());
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

    fn create(&mut self, path: &str, flags: i32) {
        let (path, acl) = (path.to_owned().into(), Some(vec![Acl::anyone(31)]));
        self.done(Request::Create(CreateRequest { path, data: None, acl, flags }));
    }

    fn done(&mut self, request: Request<'static>) -> Vec<Event> {
        let work = Work::Request(request);
        match self.sequencer.prepare(&self.database, &self.origin, work, NOW) {
            Prepared::Txn(record) => apply(&mut self.sequencer, &mut self.database, record),
            other => panic!("{other:?}"),
        }
    }
}

/// The sum that was expected is that of the tree.
fn apply(
    sequencer: &mut Sequencer,
    database: &mut Database,
    record: TxnRecord<'static>,
) -> Vec<Event> {
    let mut events = Vec::new();
    let TxnRecord { header, txn, digest } = record;
    assert!(digest.is_some());
    database.apply(&header, txn, digest, Mode::Strict, &mut events).unwrap();
    assert!(database.take_mismatch().is_none());
    sequencer.retire(database.last_zxid());
    events
}

/// Ends the session; the bytes of paths that were hashed or copied for it, and how many events
/// there were.
fn end(server: &mut Server) -> (usize, Vec<(EventType, String)>) {
    WORK.set(0);
    let events = server.done(Request::CloseSession);
    let work = WORK.get();
    assert_eq!(server.database.tree().ephemerals_count(), 0);
    assert_eq!(server.database.tree().digest(), Some(server.database.tree().compute_digest()));
    let mut told: Vec<_> =
        events.into_iter().map(|event| (event.event_type, event.path.to_string())).collect();
    told.sort_by(|a, b| (a.0 as i32, &a.1).cmp(&(b.0 as i32, &b.1)));
    (work, told)
}

/// What a closed session leaves, whether its transaction lists its znodes, as ZooKeeper's does, or
/// does not.
#[test]
fn what_is_not_listed_goes_like_what_is() {
    let ends: Vec<_> = [true, false].into_iter().map(closed).collect();
    let [listed, unlisted] = &ends[..] else { panic!() };
    assert_eq!(listed.0, unlisted.0);
    assert_eq!(listed.1, unlisted.1);
    assert!(listed.0.iter().any(|told| told.contains("NodeChildrenChanged")), "{:?}", listed.0);
}

/// Who is told of what, and what there is then.
fn closed(is_listed: bool) -> (Vec<String>, Vec<String>) {
    let mut database = Database::new(1, RULES);
    let own = Owner::Session(SessionId(7));
    for path in ["/a", "/a/b", "/a/b/c", "/d", "/zookeeper/x"] {
        make(&mut database, path, b"data", Owner::None);
    }
    for path in ["/a", "/a/b", "/a/b/c"] {
        for at in 0..5 {
            make(&mut database, &format!("{path}/e{at}"), b"1234", own);
        }
    }
    for path in ["/e", "/d/e", "/d/f", "/zookeeper/x/e"] {
        make(&mut database, path, &[7; 5000], own);
    }
    // `/a/b` has limits that stay, `/d` some that go with the session, and `/d/f` its own.
    let quotas = [("/a", None), ("/a/b", Some(Owner::None)), ("/d", Some(own))];
    for (path, owner) in quotas.into_iter().chain([("/d/f", Some(Owner::None))]) {
        let place = format!("/zookeeper/quota{path}");
        make(&mut database, &place, b"", Owner::None);
        if let Some(owner) = owner {
            let limits = format!("{place}/zookeeper_limits");
            make(&mut database, &limits, b"count=5,bytes=-1", owner);
            make(&mut database, &format!("{place}/zookeeper_stats"), b"", Owner::None);
        }
    }
    {
        let mut watches = database.watches.lock();
        for (number, path) in (10..).zip(["/a", "/a/b/c/e1", "/", "/d", "/d/e", "/else", "/e"]) {
            let one = ConnectionId(number);
            watches.watch_data(path, one).unwrap();
            watches.watch_children(path, one).unwrap();
            watches.add(path, ConnectionId(number + 100), AddWatchMode::Persistent).unwrap();
        }
        watches.add("/a/b", ConnectionId(50), AddWatchMode::PersistentRecursive).unwrap();
        watches.add("/a/b/c/e2", ConnectionId(51), AddWatchMode::PersistentRecursive).unwrap();
    }
    let tree = database.tree();
    let mut all: Vec<String> = tree.ephemerals(SessionId(7)).map(|node| tree.path(node)).collect();
    all.sort_unstable();
    let paths: Vec<_> = all.iter().filter(|_| is_listed).map(|path| path.clone().into()).collect();
    let zxid = database.last_zxid().0 + 1;
    let header = TxnHeader { client_id: 7, cxid: 1, zxid, time: 1000 };
    let close = Txn::CloseSession(CloseSessionTxn { paths_to_delete: paths });
    let mut events = Vec::new();
    database.apply(&header, close, None, Mode::Strict, &mut events).expect("it fits");
    let mut told: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
    told.sort_unstable();
    let tree = database.tree();
    assert_eq!(tree.digest(), Some(tree.compute_digest()));
    let mut left = vec![format!("{} {}", tree.data_size(), tree.ephemerals_count())];
    tree.for_each_below(NodeId::ROOT, |node, _| {
        let (data, below) = (tree.data(node), tree.below(node));
        left.push(format!("{} {:?} {data:?} {below:?}", tree.path(node), tree.stat(node)));
    });
    left.sort_unstable();
    (told, left)
}

const LONG: usize = 100_000;
const MANY: usize = 100;

#[test]
fn the_name_above_many_ephemerals_is_paid_for_once() {
    let mut server = Server::new();
    let above = format!("/{}", "x".repeat(LONG));
    server.create(&above, 0);
    (0..MANY).for_each(|at| server.create(&format!("{above}/{at:06}"), 1));
    // Whoever watches something else makes none of it dearer.
    let mut watches = server.database.watches.lock();
    watches.watch_data("/else", OTHER).unwrap();
    watches.watch_children("/else", OTHER).unwrap();
    watches.add("/else", OTHER, AddWatchMode::PersistentRecursive).unwrap();
    drop(watches);
    let (work, told) = end(&mut server);
    assert_eq!(told, []);
    // Ten of them are named in the transaction, and copied, found and hashed for it.
    assert!(work < 100 * LONG, "{work} bytes");
}

#[test]
fn names_above_parents_are_paid_for_once_too() {
    let mut server = Server::new();
    let above = format!("/{}", "x".repeat(LONG));
    server.create(&above, 0);
    for at in 0..MANY {
        server.create(&format!("{above}/{at}"), 0);
        server.create(&format!("{above}/{at}/e"), 1);
    }
    let mut watches = server.database.watches.lock();
    watches.watch_data("/else", OTHER).unwrap();
    watches.watch_children("/else", OTHER).unwrap();
    watches.add("/else", OTHER, AddWatchMode::PersistentRecursive).unwrap();
    drop(watches);
    let (work, told) = end(&mut server);
    assert_eq!(told, []);
    assert!(work < 100 * LONG, "{work} bytes");
}
