//! Answers that grow, and what keeps them within bounds.

use jute::protocol::{
    EphemeralsRequest, MultiResult, PathRequest, ReadOp, Request, Response, WatchRequest,
};

use super::apply_test::{RULES, make};
use super::database::Database;
use super::owner::Owner;
use super::read::{self, Caller};
use super::session::SessionId;
use super::watch::ConnectionId;

const CALLER: Caller<'_> =
    Caller { connection: ConnectionId(1), session: SessionId(7), identities: &[] };

fn answer<'t>(database: &'t Database, request: &Request<'t>) -> Response<'t> {
    read::answer(database, &CALLER, request, &mut Vec::new()).unwrap()
}

fn is_given(result: &MultiResult<'_>) -> bool {
    match result {
        MultiResult::GetData(..) | MultiResult::GetChildren(_) => true,
        // BadArguments: docs/architecture.md, where it differs from ZooKeeper.
        MultiResult::Error(-8) => false,
        other => panic!("{other:?} in a multiRead"),
    }
}

/// How many of 70 equal parts are given, before the others are refused.
fn given(database: &Database, op: &ReadOp<'static>) -> usize {
    let ops = vec![op.clone(); 70];
    let Response::Multi(results) = answer(database, &Request::MultiRead(ops)) else { panic!() };
    assert_eq!(results.len(), 70);
    let given = results.iter().take_while(|result| is_given(result)).count();
    assert!(!results[given..].iter().any(is_given));
    given
}

#[test]
fn a_multi_read_ends_behind_64_mebibytes() {
    let mut database = Database::new(1, RULES);
    make(&mut database, "/large", &vec![7; 1 << 20], Owner::None);
    make(&mut database, "/empty", b"", Owner::None);
    make(&mut database, "/many", b"", Owner::None);
    for i in 0..100 {
        make(&mut database, &format!("/many/{i:010400}"), b"", Owner::None);
    }
    // The part that reaches 64 MiB is given, and the one that goes beyond; none behind that.
    assert_eq!(given(&database, &ReadOp::GetData("/large".into())), 65);
    assert_eq!(given(&database, &ReadOp::GetData("/empty".into())), 70);
    assert_eq!(given(&database, &ReadOp::GetChildren("/empty".into())), 70);
    // A listing of about a million bytes counts as what it takes in memory, not much more than that.
    let listings = given(&database, &ReadOp::GetChildren("/many".into()));
    assert!((62..=66).contains(&listings), "{listings}");
}

#[test]
fn what_grows_with_the_tree_is_a_listing() {
    let mut database = Database::new(1, RULES);
    for i in 0..1000 {
        make(&mut database, &format!("/{i:04}"), b"", Owner::Session(SessionId(7)));
    }
    let root = || WatchRequest { path: "/".into(), watch: false };
    let path = || PathRequest { path: "/".into() };
    let requests = [
        (Request::Exists(root()), false),
        (Request::GetData(root()), false),
        (Request::GetAcl(path()), false),
        (Request::Ping, false),
        (Request::WhoAmI, false),
        (Request::GetChildren(root()), true),
        (Request::GetChildren2(root()), true),
        (Request::GetEphemerals(EphemeralsRequest { path: "/".into() }), true),
        (Request::MultiRead(vec![ReadOp::GetChildren("/".into())]), true),
    ];
    for (request, grows) in requests {
        // The shortest name that the answer could hold, once for each znode.
        let size = format!("{:?}", answer(&database, &request)).len();
        assert_eq!(size > 4 * 1000, grows, "{request:?}: {size}");
        assert_eq!(read::is_listing(&request), grows, "{request:?}");
        assert!(read::is_read(&request), "{request:?}");
    }
    // A number, but every znode is looked at for it.
    assert!(read::is_listing(&Request::GetAllChildrenNumber(path())));
}
