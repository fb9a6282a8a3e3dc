//! Long listings against those that are made at once.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use bytes::BytesMut;
use jute::protocol::{EphemeralsRequest, Request, Response, WatchRequest};
use jute::txn::{DeleteTxn, SetDataTxn, Txn, TxnHeader};
use proptest::prelude::*;

use super::listing::{EphemeralListing, List, Listing, Progress};
use super::read::{self, Caller, Most};
use crate::engine::access::acl::Identities;
use crate::engine::apply::Mode;
use crate::engine::apply_test;
use crate::engine::apply_test::{RULES, apply, make};
use crate::engine::database::Database;
use crate::engine::owner::Owner;
use crate::engine::path::WORK;
use crate::engine::session::SessionId;
use crate::engine::tree::znode::NodeId;
use crate::engine::watch::ConnectionId;

static NOBODY: LazyLock<Identities> = LazyLock::new(Identities::default);

fn caller() -> Caller<'static> {
    Caller { connection: ConnectionId(1), session: SessionId(7), identities: &NOBODY }
}

fn list_request() -> Request<'static> {
    Request::GetChildren(WatchRequest { path: "/p".into(), watch: false })
}

/// The body of the answer that is made at once.
fn whole(database: &Database) -> BytesMut {
    let response = read::answer(database, &caller(), &list_request(), &mut Vec::new()).unwrap();
    let mut out = BytesMut::new();
    response.encode(&mut out);
    out
}

fn parent(database: &Database) -> NodeId {
    database.tree().find("/p").unwrap()
}

fn delete(database: &mut Database, path: &str) {
    apply(database, Txn::Delete(DeleteTxn { path: path.to_owned().into() })).unwrap();
}

fn create(database: &mut Database, path: &str) {
    make(database, path, b"", Owner::None);
}

fn set(database: &mut Database, path: &str) {
    let node = database.tree().find(path).unwrap();
    let version = database.tree().stat(node).version + 1;
    let path = path.to_owned().into();
    apply(database, Txn::SetData(SetDataTxn { path, data: Some(b"x".into()), version })).unwrap();
}

/// `/p` with children of these names, created in this order.
fn family(names: &[String]) -> Database {
    let mut database = Database::new(1, RULES);
    create(&mut database, "/p");
    names.iter().for_each(|name| create(&mut database, &format!("/p/{name}")));
    database
}

fn advance(listing: Listing, database: &Database, most: usize) -> Progress {
    listing.advance(database, parent(database), most)
}

fn begin(database: &Database) -> Listing {
    Listing::begin(database, parent(database))
}

fn more(progress: Progress) -> Listing {
    match progress {
        Progress::More(listing) => listing,
        other => panic!("{other:?}"),
    }
}

fn is_changed(progress: &Progress) -> bool {
    matches!(progress, Progress::Changed)
}

fn check(list: &List, database: &Database) {
    assert_eq!(list.chunks().concat(), whole(database));
    assert_eq!(list.chunks().concat().len(), list.len());
    let names = database.tree().children(parent(database));
    assert_eq!(list.names_len(), names.map(str::len).sum::<usize>());
    assert!(list.is_current(database, parent(database)));
}

#[test]
fn pieces_of_any_size_make_the_whole() {
    let long = "n".repeat(100_000);
    for count in [0, 1, 2, 7, 30] {
        let names: Vec<String> = (0..count)
            .map(
                |number| {
                    if number % 5 == 4 { format!("{long}{number}") } else { number.to_string() }
                },
            )
            .collect();
        let database = family(&names);
        for most in [1, 2, 3, 29, 30, 31, usize::MAX] {
            let mut listing = begin(&database);
            let list = loop {
                match advance(listing, &database, most) {
                    Progress::More(further) => listing = further,
                    Progress::Done(list) => break list,
                    Progress::Changed => panic!("nothing was changed"),
                }
            };
            check(&list, &database);
        }
    }
}

#[test]
fn only_a_listing_that_is_too_long_for_one_hold_is_not_answered() {
    let mut database = family(&(0..4096).map(|number| number.to_string()).collect::<Vec<_>>());
    let answer = |database: &Database| {
        read::answer_unless_long(database, &caller(), &list_request(), Most::USUAL, &mut Vec::new())
            .map(|answer| {
                answer == read::answer(database, &caller(), &list_request(), &mut Vec::new())
            })
    };
    assert_eq!(answer(&database), Some(true));
    create(&mut database, "/p/one more");
    assert_eq!(answer(&database), None);
}

#[test]
fn the_next_child_is_deleted() {
    let mut database = family(&["a", "b", "c"].map(str::to_owned));
    // Youngest first: c is listed, b is next.
    let listing = more(advance(begin(&database), &database, 1));
    delete(&mut database, "/p/b");
    assert!(is_changed(&advance(listing, &database, 1)));
}

#[test]
fn a_parent_that_comes_again_is_another_one() {
    let mut database = family(&["a", "b"].map(str::to_owned));
    let (before, number) = (begin(&database), parent(&database));
    let Progress::Done(list) = advance(begin(&database), &database, 3) else { panic!() };
    for path in ["/p/a", "/p/b", "/p"] {
        delete(&mut database, path);
    }
    create(&mut database, "/p");
    create(&mut database, "/p/a");
    create(&mut database, "/p/b");
    assert_eq!(parent(&database), number, "this test wants a number that comes again");
    assert!(!list.is_current(&database, number));
    assert!(is_changed(&advance(before, &database, 9)));
}

#[test]
fn a_database_in_the_place_of_another_has_other_children() {
    let one = family(&["a", "b"].map(str::to_owned));
    let mut other = family(&["b", "a"].map(str::to_owned));
    let listing = more(advance(begin(&one), &one, 1));
    let Progress::Done(list) = advance(begin(&one), &one, 3) else { panic!() };
    other.succeed(&one);
    assert!(!list.is_current(&other, parent(&other)));
    assert!(is_changed(&advance(listing, &other, 9)));
    let Progress::Done(list) = advance(begin(&other), &other, 3) else { panic!() };
    check(&list, &other);
}

#[derive(Debug, Clone)]
enum Step {
    /// Creates the child, or deletes it if it is there.
    Toggle(u8),
    SetChild(u8),
    SetParent,
    CreateBeside,
    List(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..12u8).prop_map(Step::Toggle),
        2 => (0..12u8).prop_map(Step::SetChild),
        1 => Just(Step::SetParent),
        1 => Just(Step::CreateBeside),
        8 => (1..6usize).prop_map(Step::List),
    ]
}

proptest! {
    #[test]
    fn a_listing_goes_on_until_the_children_change(steps in prop::collection::vec(step(), 1..80)) {
        let mut database = family(&(0..8).map(|number: u8| number.to_string()).collect::<Vec<_>>());
        let mut there: BTreeSet<u8> = (0..8).collect();
        let mut beside = 0;
        let (mut listing, mut changed) = (begin(&database), false);
        for step in steps {
            match step {
                Step::Toggle(child) => {
                    if there.remove(&child) {
                        delete(&mut database, &format!("/p/{child}"));
                    } else {
                        there.insert(child);
                        create(&mut database, &format!("/p/{child}"));
                    }
                    changed = true;
                }
                Step::SetChild(child) if there.contains(&child) => {
                    set(&mut database, &format!("/p/{child}"));
                }
                Step::SetChild(_) => {}
                Step::SetParent => set(&mut database, "/p"),
                Step::CreateBeside => {
                    beside += 1;
                    create(&mut database, &format!("/beside{beside}"));
                }
                Step::List(most) => match advance(listing, &database, most) {
                    Progress::More(further) => {
                        prop_assert!(!changed);
                        listing = further;
                    }
                    Progress::Done(list) => {
                        prop_assert!(!changed);
                        check(&list, &database);
                        listing = begin(&database);
                    }
                    Progress::Changed => {
                        prop_assert!(changed);
                        (listing, changed) = (begin(&database), false);
                    }
                },
            }
        }
    }
}

const LONG: usize = 100_000;
const OWNED: usize = 100;

/// Ephemeral znodes of session 7 below a long name, and some elsewhere.
fn owned() -> Database {
    let mut database = Database::new(1, RULES);
    let above = format!("/{}", "x".repeat(LONG));
    create(&mut database, &above);
    let own = Owner::Session(SessionId(7));
    (0..OWNED).for_each(|at| make(&mut database, &format!("{above}/{at}"), b"", own));
    make_of_another(&mut database, "/other");
    make(&mut database, "/own", b"", own);
    database
}

/// An ephemeral znode of session 8.
fn make_of_another(database: &mut Database, path: &str) {
    let txn = apply_test::create(database, path, b"", Owner::Session(SessionId(8)));
    let zxid = database.last_zxid().0 + 1;
    let header = TxnHeader { client_id: 8, cxid: 1, zxid, time: 1000 };
    database.apply(&header, txn, None, Mode::Strict, &mut Vec::new()).unwrap();
}

fn ephemerals_request(prefix: &str) -> Request<'static> {
    Request::GetEphemerals(EphemeralsRequest { path: prefix.to_owned().into() })
}

const AT_ONCE: usize = 128 << 10;

/// All pieces, and how many there were.
fn pieces(database: &Database, prefix: &str) -> (List, usize) {
    let mut listing = EphemeralListing::begin(database, SessionId(7), prefix);
    let mut count = 0;
    loop {
        WORK.set(0);
        count += 1;
        match listing.advance(database, 512, AT_ONCE, true) {
            Progress::More(more) => listing = more,
            Progress::Done(list) => return (list, count),
            Progress::Changed => panic!("nothing has changed"),
        }
        assert!(WORK.get() < AT_ONCE + 3 * LONG, "{} bytes", WORK.get());
    }
}

#[test]
fn ephemerals_with_long_paths_are_listed_a_few_at_a_time() {
    let database = owned();
    let long = format!("/{}/1", "x".repeat(LONG));
    for (prefix, found) in
        [("/", OWNED + 1), ("/x", OWNED), ("/own", 1), ("/none", 0), (long.as_str(), 11)]
    {
        let request = ephemerals_request(prefix);
        let events = &mut Vec::new();
        WORK.set(0);
        let at_once = read::answer_unless_long(&database, &caller(), &request, Most::USUAL, events);
        assert!(WORK.get() < AT_ONCE + 3 * LONG, "{} bytes", WORK.get());
        let whole = read::answer(&database, &caller(), &request, events).unwrap();
        let Response::Ephemerals(all) = &whole else { panic!() };
        assert_eq!(all.ephemerals.len(), found);
        let mut expected = BytesMut::new();
        whole.encode(&mut expected);
        let (list, count) = pieces(&database, prefix);
        assert!(list.chunks().concat() == expected, "{found} paths");
        assert_eq!(list.len(), expected.len());
        // Where none is copied, each costs its name.
        assert_eq!(at_once.is_none(), found > 1, "{found}");
        assert_eq!(count > 5, found > 1, "{found} in {count} pieces");
    }
}

#[test]
fn a_listing_of_ephemerals_is_of_one_instant_unless_they_change_all_the_time() {
    let mut database = owned();
    let begin = |database: &Database| EphemeralListing::begin(database, SessionId(7), "/");
    let first = |database: &Database| match begin(database).advance(database, 1, AT_ONCE, true) {
        Progress::More(listing) => listing,
        other => panic!("{other:?}"),
    };
    let listing = first(&database);
    // What others own is nothing to it, nor what changes without coming or going.
    make_of_another(&mut database, "/another");
    set(&mut database, "/own");
    let Progress::More(_) = listing.advance(&database, 1, AT_ONCE, true) else { panic!() };
    let listing = first(&database);
    delete(&mut database, "/own");
    make(&mut database, "/own", b"", Owner::Session(SessionId(7)));
    assert!(matches!(listing.advance(&database, 1, AT_ONCE, true), Progress::Changed));
    let listing = first(&database);
    delete(&mut database, "/own");
    match listing.advance(&database, usize::MAX, usize::MAX, false) {
        Progress::Done(list) => {
            let request = ephemerals_request("/");
            let whole = read::answer(&database, &caller(), &request, &mut Vec::new()).unwrap();
            let mut expected = BytesMut::new();
            whole.encode(&mut expected);
            assert!(list.chunks().concat() == expected);
        }
        other => panic!("{other:?}"),
    }
}
