//! Watching again in pieces, with changes between them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jute::protocol::EventType::{NodeCreated, NodeDeleted};
use jute::protocol::{Request, SetWatches2Request, SetWatchesRequest, WatcherType};
use jute::txn::{DeleteTxn, SetDataTxn, Txn, TxnHeader};

use super::WatchAgain;
use crate::engine::access::acl::Identities;
use crate::engine::answer::read;
use crate::engine::answer::read::{Caller, Most};
use crate::engine::apply::Mode;
use crate::engine::apply_test::{RULES, create, make};
use crate::engine::database::Database;
use crate::engine::owner::Owner;
use crate::engine::session::SessionId;
use crate::engine::watch::{CATCH_UP, ConnectionId, Event};

const HERE: ConnectionId = ConnectionId(1);
const PATHS: usize = 40;

fn apply(database: &mut Database, txn: Txn<'static>, events: &mut Vec<Event>) {
    let zxid = database.last_zxid().0 + 1;
    let header = TxnHeader { client_id: 7, cxid: 1, zxid, time: 1000 * zxid };
    database.apply(&header, txn, None, Mode::Strict, events).unwrap();
}

fn path(number: usize) -> Cow<'static, str> {
    format!("/n{number}").into()
}

/// Changes what there is, makes what there is not, and deletes every third.
fn change(database: &mut Database, number: usize, events: &mut Vec<Event>) {
    let path = path(number);
    let txn = match database.tree().find(&path) {
        None => create(database, &path, b"", Owner::None),
        Some(_) if number.is_multiple_of(3) => Txn::Delete(DeleteTxn { path }),
        Some(node) => {
            let version = database.tree().stat(node).version + 1;
            Txn::SetData(SetDataTxn { path, data: None, version })
        }
    };
    apply(database, txn, events);
}

fn again(database: &Database, data: Vec<usize>, exist: Vec<usize>) -> Request<'static> {
    let paths = |numbers: Vec<usize>| numbers.into_iter().map(path).collect();
    Request::SetWatches2(SetWatches2Request {
        relative_zxid: database.last_zxid().0,
        data_watches: paths(data),
        exist_watches: paths(exist),
        child_watches: vec![],
        persistent_watches: vec!["/p".into()],
        persistent_recursive_watches: vec!["/r".into()],
    })
}

/// Even ones are there, odd ones are not; each is watched for what it lacks.
#[test]
fn whatever_changes_between_two_pieces_each_path_is_told_of_once_or_watched() {
    for most in [1, 2, 7, PATHS, usize::MAX] {
        for shift in 0..PATHS {
            let mut database = Database::new(1, RULES);
            (0..PATHS).step_by(2).for_each(|it| make(&mut database, &path(it), b"", Owner::None));
            let (even, odd) = (0..PATHS).partition(|it| it.is_multiple_of(2));
            let request = again(&database, even, odd);
            let mut events = Vec::new();
            let mut changed = Vec::new();
            let mut again = WatchAgain::of(&request).unwrap();
            let mut pieces = 0;
            loop {
                // One is changed before each piece, half of all at most.
                let next = (pieces * 7 + shift) % PATHS;
                if pieces < PATHS / 2 && !changed.contains(&next) {
                    change(&mut database, next, &mut events);
                    changed.push(next);
                }
                pieces += 1;
                let before = (events.len(), database.watches().lock().count());
                let is_over = again.advance(&database, HERE, most, &mut events).unwrap();
                let after = (events.len(), database.watches().lock().count());
                let done = after.0 - before.0 + after.1 - before.1;
                // A persistent watch is two.
                assert!(done <= most.saturating_add(1), "{done} at once");
                if is_over {
                    break;
                }
            }
            assert!(pieces >= PATHS / most);
            let mut told: BTreeMap<&str, usize> = BTreeMap::new();
            for event in events.iter().filter(|event| event.receivers == [HERE]) {
                *told.entry(&event.path).or_default() += 1;
            }
            for number in 0..PATHS {
                let path = path(number);
                let times = told.get(&*path).copied().unwrap_or_default();
                let watched = database.watches().lock().contains(&path, HERE, WatcherType::Data);
                let is_changed = changed.contains(&number);
                assert_eq!((times, watched), (usize::from(is_changed), !is_changed), "{path}");
            }
            let watches = database.watches().lock();
            assert!(watches.contains("/p", HERE, WatcherType::Persistent));
            assert!(watches.contains("/r", HERE, WatcherType::PersistentRecursive));
        }
    }
}

#[test]
fn what_changed_before_is_told_as_such() {
    let mut database = Database::new(1, RULES);
    make(&mut database, "/n0", b"", Owner::None);
    let request = again(&database, vec![0, 1], vec![2]);
    change(&mut database, 2, &mut Vec::new());
    let mut events = Vec::new();
    let mut again = WatchAgain::of(&request).unwrap();
    assert!(again.advance(&database, HERE, usize::MAX, &mut events).unwrap());
    let told: Vec<_> = events.iter().map(|event| (&*event.path, event.event_type)).collect();
    assert_eq!(told, [("/n1", NodeDeleted), ("/n2", NodeCreated)]);
    assert!(events.iter().all(|event| event.zxid == CATCH_UP));
}

#[test]
fn only_what_is_too_much_for_one_hold_is_not_answered() {
    let database = Database::new(1, RULES);
    let caller =
        Caller { connection: HERE, session: SessionId(7), identities: &Identities::default() };
    let is_long = |request: &Request<'_>| {
        read::answer_unless_long(&database, &caller, request, Most::USUAL, &mut Vec::new())
            .is_none()
    };
    let most = Most::USUAL.watched_again;
    let of = |paths: Vec<Cow<'static, str>>| {
        Request::SetWatches(SetWatchesRequest {
            relative_zxid: 0,
            data_watches: vec![],
            exist_watches: paths,
            child_watches: vec![],
        })
    };
    assert!(!is_long(&of((0..most).map(path).collect())));
    assert!(is_long(&of((0..=most).map(path).collect())));
    // A long path is not a short one.
    assert!(is_long(&of(vec![format!("/{}", "n".repeat(64 * most)).into()])));
    let added = Request::SetWatches2(SetWatches2Request {
        relative_zxid: 0,
        data_watches: vec![],
        exist_watches: vec![],
        child_watches: vec![],
        persistent_watches: vec![],
        persistent_recursive_watches: (0..=most).map(path).collect(),
    });
    assert!(is_long(&added));
}
