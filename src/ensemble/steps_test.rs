use jute::protocol::{CreateRequest, SetDataRequest, WatchRequest};
use jute::{Acl, ErrorCode};
use parking_lot::Mutex;

use super::*;
use crate::engine::access::acl::{Identities, Identity};
use crate::engine::database::Rules;
use crate::engine::time::WallClock;
use crate::engine::watch::ConnectionId;
use crate::ensemble::Answer;

/// A connection: the time on its server's clock, and what became of it.
#[derive(Default)]
struct Seen(Mutex<(Monotonic, Vec<&'static str>)>);

impl Seen {
    fn put(&self, what: &'static str) {
        self.0.lock().1.push(what);
    }
}

impl Clients for Seen {
    fn now(&self) -> Monotonic {
        self.0.lock().0
    }

    fn is_open(&self, _: ConnectionId) -> bool {
        true
    }

    fn answer(&self, _: &Origin, _: RequestKind<'_>, _: Zxid, _: Option<&str>, answer: Answer<'_>) {
        self.put(if answer.is_ok() { "answered" } else { "refused" });
    }

    fn end(&self, _: ConnectionId) {
        self.put("closed behind what it was told");
    }

    fn close(&self, _: ConnectionId) {
        self.put("closed at once");
    }

    fn events(&self, _: &[Event]) {}
    fn refused_by_quota(&self, _: &str) {}
    fn applies(&self, _: &Txn<'_>) {}
    fn attached(&self, _: ConnectionId, _: &Attached) {}
    fn no_session(&self, _: ConnectionId) {}
    fn flush(&self) {}
}

#[test]
fn a_read_that_is_too_old_closes_behind_what_was_told() {
    const LIMIT_MS: u64 = 1000;
    let database = Database::new(1, Rules::default());
    let replica = Arc::new(Replica::of_member(database, LIMIT_MS));
    let seen: Arc<Seen> = Arc::default();
    let clients: Arc<dyn Clients> = Arc::clone(&seen) as _;
    let applier = Applier { replica: Arc::clone(&replica), clients, mode: Mode::Agreed };
    let at = |ms, request: Request<'static>| {
        seen.0.lock().0 = Monotonic(ms);
        let (session, identities) = (SessionId(1), Arc::default());
        let (connection, received) = (ConnectionId(1), Monotonic(0));
        let origin = Origin { connection, session, xid: 1, identities, received };
        let held = applier.under_hold(|applying| {
            applying.answer(&origin, Prepared::Read(request), None);
            Ok::<_, OrderError>(())
        });
        held.expect("nothing is applied");
        std::mem::take(&mut seen.0.lock().1)
    };
    let get = || Request::GetData(WatchRequest { path: "/".into(), watch: false });
    assert_eq!(at(5, get()), ["closed behind what it was told"]);
    replica.shows(Monotonic(5));
    assert_eq!(at(5 + LIMIT_MS - 1, get()), ["answered"]);
    assert_eq!(at(5 + LIMIT_MS, get()), ["closed behind what it was told"]);
    // It shows nothing.
    assert_eq!(at(5 + LIMIT_MS, Request::Ping), ["answered"]);
}

#[test]
fn one_step_can_be_as_much_as_many() {
    let check = || Txn::Check(jute::txn::CheckVersionTxn { path: "/".into(), version: 1 });
    let close = |paths: usize| {
        let paths_to_delete = vec!["/e".into(); paths];
        Txn::CloseSession(jute::txn::CloseSessionTxn { paths_to_delete })
    };
    let all = [check(), Txn::Multi(vec![check(); 20]), close(0), close(1), close(30)];
    assert_eq!(all.each_ref().map(parts), [0, 19, 0, 0, 29]);
    // As many as there are 64 bytes in its path.
    let delete = |len: usize| {
        let path = format!("/{}", "x".repeat(len - 1)).into();
        Txn::Delete(jute::txn::DeleteTxn { path })
    };
    let multi = Txn::Multi(vec![delete(640), delete(64), check()]);
    assert_eq!(
        [delete(63), delete(64), delete(64_000), multi].each_ref().map(parts),
        [0, 1, 1000, 13]
    );
}

#[test]
fn no_more_is_decided_at_once_than_there_is_room_for() {
    let database = Database::new(1, Rules::default());
    let mut sequencer = Sequencer::new(&database, 500, 1, Monotonic(0));
    let now = Now { monotonic: Monotonic(0), wall: WallClock(0) };
    let submission = |number| {
        let (connection, session) = (ConnectionId(number), SessionId::NONE);
        let (identities, received) = (Arc::default(), Monotonic(0));
        let origin = Origin { connection, session, xid: 0, identities, received };
        Submission { origin, work: Work::Open { timeout_ms: 4000 }, len: 10, room: None }
    };
    let mut submissions = (0..7).map(submission).collect::<Vec<_>>().into_iter();
    let mut groups = Vec::new();
    while submissions.len() > 0 {
        let mut bytes = 0;
        let place = |_: &TxnRecord<'static>| {
            bytes += 4000;
            Ok::<_, OrderError>(4000)
        };
        let chores = &mut std::iter::empty();
        let all = &mut submissions;
        let most = 10_000;
        let (steps, _) =
            decide(&mut sequencer, &database, chores, all, now, most, |_| None, place).unwrap();
        let connections = steps.iter().filter_map(|step| step.origin.as_ref());
        groups.push(connections.map(|origin| origin.connection.0).collect::<Vec<_>>());
        assert!(bytes < 10_000 + 4000, "{bytes}");
    }
    assert_eq!(groups, [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
}

/// They log nothing, but each costs what its bytes cost.
#[test]
fn what_is_refused_counts_by_what_came() {
    const MB: usize = 1 << 20;
    let database = Database::new(1, Rules::default());
    let mut sequencer = Sequencer::new(&database, 500, 1, Monotonic(0));
    let now = Now { monotonic: Monotonic(0), wall: WallClock(0) };
    let origin = |xid, session| {
        let (connection, identities) = (ConnectionId(1), Arc::default());
        Origin { connection, session, xid, identities, received: Monotonic(0) }
    };
    let create = |xid| {
        let (path, data) = ("/none/x".into(), Some(vec![0; MB].into()));
        let create = CreateRequest { path, data, acl: Some(vec![Acl::anyone(31)]), flags: 0 };
        let work = Work::Request(Request::Create(create));
        Submission { origin: origin(xid, SessionId(1)), work, len: MB, room: None }
    };
    let open = Work::Open { timeout_ms: 4000 };
    let opened = sequencer.prepare(&database, &origin(0, SessionId::NONE), open, now);
    assert!(matches!(opened, Prepared::Open(..)), "{opened:?}");
    let mut waiting = (0..64).map(create).collect::<Vec<_>>().into_iter();
    let (mut decided, mut turns) = (Vec::new(), 0);
    while waiting.len() > 0 {
        let place = |_: &TxnRecord<'static>| Ok::<_, OrderError>(0);
        let chores = &mut std::iter::empty();
        let (all, most) = (&mut waiting, 4 * MB);
        let (steps, _) =
            decide(&mut sequencer, &database, chores, all, now, most, |_| None, place).unwrap();
        assert!((1..=4).contains(&steps.len()), "{}", steps.len());
        for Unlogged { origin, outcome, .. } in steps {
            let is_no_node = matches!(outcome, Prepared::Refused(ErrorCode::NoNode));
            assert!(is_no_node, "{outcome:?}");
            decided.extend(origin.map(|origin| origin.xid));
        }
        turns += 1;
    }
    assert_eq!((decided, turns), ((0..64).collect(), 16));
}
/// The first time each request is held against a list of its own; then what it grants is known.
#[test]
fn what_is_looked_up_in_lists_counts() {
    const COUNT: usize = 40;
    let mut database = Database::new(1, Rules::default());
    let mut sequencer = Sequencer::new(&database, 500, 1, Monotonic(0));
    let now = Now { monotonic: Monotonic(0), wall: WallClock(0) };
    let one = |user| Identity { scheme: "digest".to_owned(), id: format!("{user}:h") };
    let identities: Arc<Identities> = Arc::new((0..1000).map(one).collect::<Vec<_>>().into());
    let origin = |session| {
        let (connection, identities) = (ConnectionId(1), Arc::clone(&identities));
        Origin { connection, session, xid: 0, identities, received: Monotonic(0) }
    };
    let mut done = |work, session| {
        let prepared = sequencer.prepare(&database, &origin(session), work, now);
        let (Prepared::Txn(record) | Prepared::Open(record, _)) = prepared else { panic!() };
        let TxnRecord { header, txn, digest } = record;
        database.apply(&header, txn, digest, Mode::Strict, &mut Vec::new()).unwrap();
        sequencer.retire(database.last_zxid());
        SessionId(header.client_id)
    };
    let session = done(Work::Open { timeout_ms: 4000 }, SessionId::NONE);
    let path = |number: usize| format!("/{number}").into();
    for number in 0..COUNT {
        // Of the first identity and of strangers.
        let ids = (0..1000).map(|user| format!("{}:h", user * (1000 + number)));
        let entry =
            |id: String| Acl { perms: 2, scheme: Some("digest".into()), id: Some(id.into()) };
        let acl = Some(ids.map(entry).collect());
        let create = CreateRequest { path: path(number), data: None, acl, flags: 0 };
        done(Work::Request(Request::Create(create)), session);
    }
    let set = |number| {
        let set = SetDataRequest { path: path(number), data: None, version: -1 };
        let work = Work::Request(Request::SetData(set));
        Submission { origin: origin(session), work, len: 0, room: None }
    };
    let mut turns = || {
        let mut waiting = (0..COUNT).map(set).collect::<Vec<_>>().into_iter();
        let (mut turns, most) = (0, 5 * 1000 * LOOK_UP_BYTES);
        while waiting.len() > 0 {
            let place = |_: &TxnRecord<'static>| Ok::<_, OrderError>(0);
            let (chores, all) = (&mut std::iter::empty(), &mut waiting);
            let (steps, _) =
                decide(&mut sequencer, &database, chores, all, now, most, |_| None, place).unwrap();
            assert!(steps.iter().all(|step| step.record().is_some()));
            turns += 1;
        }
        turns
    };
    let (first, later) = (turns(), turns());
    assert!(first >= COUNT / 5, "{first} turns");
    assert!(later <= 1 + COUNT * STEP_BYTES / (5 * 1000 * LOOK_UP_BYTES), "{later} turns");
}
