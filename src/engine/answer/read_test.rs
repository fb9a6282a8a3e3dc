//! Answers that grow, and what keeps them within bounds.

use std::borrow::Cow;
use std::sync::LazyLock;

use bytes::BytesMut;
use jute::Acl;
use jute::protocol::{
    EphemeralsRequest, MultiResult, PathRequest, ReadOp, Request, Response, WatchRequest, put_reply,
};
use jute::txn::{SetAclTxn, Txn};

use super::read::{self, Caller};
use crate::engine::access::acl::{Identities, Identity};
use crate::engine::apply_test::{RULES, apply, make};
use crate::engine::database::Database;
use crate::engine::effect::Effect;
use crate::engine::owner::Owner;
use crate::engine::session::SessionId;
use crate::engine::watch::ConnectionId;

static NOBODY: LazyLock<Identities> = LazyLock::new(Identities::default);

fn caller() -> Caller<'static> {
    Caller { connection: ConnectionId(1), session: SessionId(7), identities: &NOBODY }
}

fn answer<'t>(database: &'t Database, request: &Request<'t>) -> Response<'t> {
    read::answer(database, &caller(), request, &mut Vec::new()).unwrap()
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
    // The part that reaches 64 MiB is given, and the one that goes beyond; none after that.
    assert_eq!(given(&database, &ReadOp::GetData("/large".into())), 65);
    assert_eq!(given(&database, &ReadOp::GetData("/empty".into())), 70);
    assert_eq!(given(&database, &ReadOp::GetChildren("/empty".into())), 70);
    // A listing of about a million bytes counts as what it takes in memory, not much more than
    // that.
    let listings = given(&database, &ReadOp::GetChildren("/many".into()));
    assert!((62..=66).contains(&listings), "{listings}");
}

/// A thousand of whom `digest` speaks.
fn users() -> impl Iterator<Item = String> {
    (0..1000).map(|user| format!("{user:040}:hash"))
}

/// A thousand znodes of session 7, and a thousand entries on the root.
fn grown() -> Database {
    let mut database = Database::new(1, RULES);
    for i in 0..1000 {
        make(&mut database, &format!("/{i:04}"), b"", Owner::Session(SessionId(7)));
    }
    let entry = |id: String| Acl { perms: 31, scheme: Some("digest".into()), id: Some(id.into()) };
    let acl = Some(users().map(entry).collect());
    apply(&mut database, Txn::SetAcl(SetAclTxn { path: "/".into(), acl, version: 1 })).unwrap();
    database
}

fn thousand() -> Identities {
    let one = |id| Identity { scheme: "digest".to_owned(), id };
    users().map(one).collect::<Vec<_>>().into()
}

#[test]
fn what_grows_beyond_its_request_can_be_large() {
    let (database, identities) = (grown(), thousand());
    let caller = Caller { identities: &identities, ..caller() };
    let root = || WatchRequest { path: "/".into(), watch: false };
    let path = || PathRequest { path: "/".into() };
    let requests = [
        (Request::Exists(root()), false),
        (Request::GetData(root()), false),
        (Request::Ping, false),
        (Request::GetAcl(path()), true),
        (Request::WhoAmI, true),
        (Request::GetChildren(root()), true),
        (Request::GetChildren2(root()), true),
        (Request::GetEphemerals(EphemeralsRequest { path: "/".into() }), true),
        (Request::MultiRead(vec![ReadOp::GetChildren("/".into())]), true),
    ];
    for (request, grows) in requests {
        let response = read::answer(&database, &caller, &request, &mut Vec::new()).unwrap();
        let mut out = BytesMut::new();
        put_reply(&mut out, 1, 1, &response);
        // The shortest name that the answer could hold, once for each znode.
        let size = out.len();
        assert_eq!(size > 4 * 1000, grows, "{request:?}: {size}");
        assert_eq!(Effect::of(&request).can_be_large(), grows, "{request:?}");
        assert!(Effect::of(&request).is_read(), "{request:?}");
        // What makes room for an answer knows about how much it is. A listing of children knows by
        // itself.
        let is_children = matches!(response, Response::Children(_) | Response::Children2(_));
        if grows && !is_children {
            let expected = read::expected_len(&response);
            assert!(
                (size - 200..size * 2).contains(&expected),
                "{request:?}: {expected} of {size}"
            );
        }
    }
    // A number, but every znode is looked at for it.
    assert!(Effect::of(&Request::GetAllChildrenNumber(path())).can_be_large());
}

#[test]
fn a_list_is_not_copied_to_be_told() {
    let (database, identities) = (grown(), thousand());
    let caller = Caller { identities: &identities, ..caller() };
    let request = Request::GetAcl(PathRequest { path: "/".into() });
    let answer = read::answer(&database, &caller, &request, &mut Vec::new()).unwrap();
    let Response::GetAcl(told) = answer else { panic!() };
    let is_borrowed = |text: &Option<Cow<'_, str>>| matches!(text, Some(Cow::Borrowed(_)));
    assert_eq!(told.acl.len(), 1000);
    assert!(told.acl.iter().all(|acl| is_borrowed(&acl.scheme) && is_borrowed(&acl.id)));
}

#[test]
fn blanks_around_the_prefix_of_ephemerals_ask_for_all_or_for_none() {
    let mut database = Database::new(1, RULES);
    make(&mut database, "/a", b"", Owner::Session(SessionId(7)));
    let given = |prefix: &str| {
        let request = Request::GetEphemerals(EphemeralsRequest { path: prefix.into() });
        let Response::Ephemerals(response) = answer(&database, &request) else { panic!() };
        response.ephemerals.len()
    };
    // `FinalRequestProcessor`, `String.trim`: what stands up to the blank is cut off, and only to
    // know who asks for all.
    for (prefix, expected) in [
        (" / ", 1),
        ("/\t", 1),
        ("\u{1}/\n", 1),
        ("\0", 1),
        (" \u{1f} ", 1),
        ("/a", 1),
        (" /a", 0),
        ("/a ", 0),
        ("\u{a0}", 0),
        ("\u{2003}/", 0),
    ] {
        assert_eq!(given(prefix), expected, "{prefix:?}");
    }
}
