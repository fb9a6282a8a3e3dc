//! Transactions that do not fit, and what a database keeps of those that do.

use std::borrow::Cow;

use jute::persist::{SnapshotNode, SnapshotSession};
use jute::protocol::{PathRequest, Request, Response};
use jute::txn::{
    CloseSessionTxn, CreateContainerTxn, CreateSessionTxn, CreateTtlTxn, CreateTxn, DIGEST_VERSION,
    DeleteTxn, SetAclTxn, SetDataTxn, Txn, TxnDigest, TxnHeader,
};
use jute::{Acl, ErrorCode, StatPersisted};

use super::access::acl::Identities;
use super::answer::read;
use super::answer::read::Caller;
use super::apply::{APPLY_VERSION, Mode};
use super::database::{Database, Rules};
use super::owner::Owner;
use super::session::SessionId;
use super::tree::misfit::Misfit;
use super::tree::{Impossible, VISITED};
use super::watch::ConnectionId;
use super::zxid::Zxid;

pub(super) const RULES: Rules = Rules {
    extended_types: true,
    digest: true,
    skip_acl: false,
    digest_scheme: true,
    reconfig: false,
    max_never_used_ms: None,
    enforce_quota: false,
    record_max: 2 * 0xf_ffff,
};

/// Applies a transaction of session 7 as the next one, a second after the one before.
pub(super) fn apply(
    database: &mut Database,
    txn: Txn<'static>,
) -> Result<Response<'static>, Impossible> {
    let zxid = database.last_zxid().0 + 1;
    let header = TxnHeader { client_id: 7, cxid: 1, zxid, time: 1000 * zxid };
    database.apply(&header, txn, None, Mode::Strict, &mut Vec::new())
}

/// The transaction that makes a znode.
pub(super) fn create(database: &Database, path: &str, data: &[u8], owner: Owner) -> Txn<'static> {
    let parent = database.tree().parent_of(path).unwrap();
    let parent_cversion = database.tree().stat_persisted(parent).cversion + 1;
    let path: Cow<'static, str> = path.to_owned().into();
    let data = Some(Cow::Owned(data.to_vec()));
    let acl = Some(vec![Acl::anyone(31)]);
    match owner {
        Owner::None | Owner::Session(_) => {
            let ephemeral = owner.is_ephemeral();
            Txn::Create(CreateTxn { path, data, acl, ephemeral, parent_cversion })
        }
        Owner::Container => {
            Txn::CreateContainer(CreateContainerTxn { path, data, acl, parent_cversion })
        }
        Owner::Ttl(ttl) => Txn::CreateTtl(CreateTtlTxn { path, data, acl, parent_cversion, ttl }),
    }
}

pub(super) fn make(database: &mut Database, path: &str, data: &[u8], owner: Owner) {
    let txn = create(database, path, data, owner);
    apply(database, txn).unwrap();
}

/// `/a` with a child, and `/b`.
fn database() -> Database {
    let mut database = Database::new(1, RULES);
    for path in ["/a", "/a/x", "/b"] {
        make(&mut database, path, b"data", Owner::None);
    }
    database
}

fn set_data(path: &'static str, version: i32) -> Txn<'static> {
    Txn::SetData(SetDataTxn { path: path.into(), data: Some(b"other".into()), version })
}

fn set_acl(path: &'static str, version: i32) -> Txn<'static> {
    Txn::SetAcl(SetAclTxn { path: path.into(), acl: Some(vec![Acl::anyone(1)]), version })
}

fn delete(path: &'static str) -> Txn<'static> {
    Txn::Delete(DeleteTxn { path: path.into() })
}

#[test]
fn what_does_not_fit_is_impossible_and_changes_nothing() {
    let mut database = database();
    let at = |path: &str, parent_cversion| {
        Txn::Create(CreateTxn {
            path: path.to_owned().into(),
            data: None,
            acl: None,
            ephemeral: false,
            parent_cversion,
        })
    };
    let no_node = |path: &str| Impossible::NoNode(path.to_owned());
    let version = |path: &str, ours, theirs| {
        let path = path.to_owned();
        Impossible::Version { path, ours, theirs }
    };
    let cases = [
        (at("/c/x", 1), no_node("/c/x")),
        (at("/a", 3), Impossible::NodeExists("/a".to_owned())),
        // Two creates below the root so far, none below `/b`.
        (at("/c", 2), version("/", 3, 2)),
        (at("/c", 4), version("/", 3, 4)),
        (at("/b/x", 2), version("/b", 1, 2)),
        (delete("/"), no_node("/")),
        (delete("/c"), no_node("/c")),
        (delete("/a"), Impossible::NotEmpty("/a".to_owned())),
        (set_data("/c", 1), no_node("/c")),
        (set_data("/a", 0), version("/a", 1, 0)),
        (set_data("/a", 2), version("/a", 1, 2)),
        (set_acl("/c", 1), no_node("/c")),
        (set_acl("/a", 0), version("/a", 1, 0)),
        (set_acl("/a", 2), version("/a", 1, 2)),
    ];
    let (before, zxid) = (database.tree().compute_digest(), database.last_zxid());
    for (txn, expected) in cases {
        let shown = format!("{txn:?}");
        assert_eq!(apply(&mut database, txn), Err(expected), "{shown}");
        assert_eq!(database.tree().compute_digest(), before, "{shown}");
        assert_eq!((database.last_zxid(), database.tree().count()), (zxid, 7), "{shown}");
    }
    for txn in [at("/c", 3), set_data("/a", 1), set_acl("/a", 1), delete("/a/x"), delete("/a")] {
        apply(&mut database, txn).unwrap();
    }
}

/// What others have is done all the same. The numbers are those of `DataTree.processTxn` and what
/// it calls.
#[test]
fn what_others_have_is_done_by_its_own_numbers_as_far_as_it_can_be() {
    const ZXID: i64 = 9;
    /// A znode's version, aversion, creates and pzxid.
    type Numbers = Option<(i32, i32, i32, i64)>;
    type Case = (Txn<'static>, Impossible, Numbers, (&'static str, Numbers), Option<ErrorCode>);
    let new = |path: &'static str, parent_cversion| CreateTxn {
        path: path.into(),
        data: Some(b"new".into()),
        acl: Some(vec![Acl::anyone(3)]),
        ephemeral: false,
        parent_cversion,
    };
    let at = |path, parent_cversion| Txn::Create(new(path, parent_cversion));
    let no_node = |path: &str| Impossible::NoNode(path.to_owned());
    let exists = |path: &str| Impossible::NodeExists(path.to_owned());
    let version = |path: &str, ours, theirs| {
        let path = path.to_owned();
        Impossible::Version { path, ours, theirs }
    };
    let (root, a) = (Some((0, 0, 2, 3)), Some((0, 0, 1, 2)));
    let there = Some((0, 0, 0, ZXID));
    let close =
        Txn::CloseSession(CloseSessionTxn { paths_to_delete: vec!["/c".into(), "/b".into()] });
    let multi = Txn::Multi(vec![at("/a", 3), set_data("/a", 1)]);
    // After each: the root, a znode, and whether the client is told of an error.
    let taken = Some(ErrorCode::NodeExists);
    let not_empty = Impossible::NotEmpty("/a".to_owned());
    #[rustfmt::skip]
    let cases: Vec<Case> = vec![
        (set_data("/a", 7), version("/a", 1, 7), root, ("/a", Some((7, 0, 1, 2))), None),
        (set_data("/a", -5), version("/a", 1, -5), root, ("/a", Some((-5, 0, 1, 2))), None),
        (set_data("/c", 1), no_node("/c"), root, ("/c", None), Some(ErrorCode::NoNode)),
        (set_acl("/a", 7), version("/a", 1, 7), root, ("/a", Some((0, 7, 1, 2))), None),
        (set_acl("/c", 1), no_node("/c"), root, ("/c", None), Some(ErrorCode::NoNode)),
        (at("/c", 7), version("/", 3, 7), Some((0, 0, 7, ZXID)), ("/c", there), None),
        // A counter does not go back, and the pzxid goes with it.
        (at("/c", 2), version("/", 3, 2), root, ("/c", there), None),
        (at("/c", -2), version("/", 3, -2), root, ("/c", there), None),
        (at("/c/x", 1), no_node("/c/x"), root, ("/c/x", None), Some(ErrorCode::NoNode)),
        (at("/a", 3), exists("/a"), Some((0, 0, 3, ZXID)), ("/a", a), Some(ErrorCode::NodeExists)),
        (at("/a", 7), version("/", 3, 7), Some((0, 0, 7, ZXID)), ("/a", a), taken),
        (at("/a", 2), version("/", 3, 2), root, ("/a", a), Some(ErrorCode::NodeExists)),
        // `processTxn` raises the counter for the plain create only.
        (Txn::Create2(new("/a", 3)), exists("/a"), root, ("/a", a), Some(ErrorCode::NodeExists)),
        (delete("/c"), no_node("/c"), Some((0, 0, 2, ZXID)), ("/c", None), Some(ErrorCode::NoNode)),
        (delete("/c/x"), no_node("/c/x"), root, ("/c/x", None), Some(ErrorCode::NoNode)),
        (delete("/a"), not_empty, Some((0, 0, 2, ZXID)), ("/a", None), None),
        (multi, exists("/a"), Some((0, 0, 3, ZXID)), ("/a", Some((1, 0, 1, 2))), taken),
        (close, no_node("/c"), Some((0, 0, 2, ZXID)), ("/b", None), None),
    ];
    for (txn, reason, of_root, (path, of_path), error) in cases {
        let shown = format!("{txn:?}");
        let mut database = database();
        let header = TxnHeader { client_id: 7, cxid: 1, zxid: ZXID, time: 9000 };
        let events = &mut Vec::new();
        database.apply(&header, txn, None, Mode::Agreed, events).expect("nothing is refused");
        let tree = database.tree();
        let numbers = |path: &str| {
            let stat = tree.stat_persisted(tree.find(path)?);
            Some((stat.version, stat.aversion, stat.cversion, stat.pzxid))
        };
        assert_eq!((numbers("/"), numbers(path)), (of_root, of_path), "{shown}");
        assert_eq!(tree.digest(), Some(tree.compute_digest()), "{shown}");
        assert_eq!((database.last_zxid().0, database.undone()), (ZXID, error), "{shown}");
        let told = Misfit { zxid: Zxid(ZXID), reason, count: 1 };
        assert_eq!((database.take_misfit(), database.mismatches()), (Some(told), 1), "{shown}");
    }
}

/// This tells that something has changed, and not what is right: another sum needs another number,
/// or members of two releases take each other's trees for wrong.
#[test]
fn what_is_made_of_transactions_has_a_number() {
    let mut database = database();
    let at = |path: &'static str, parent_cversion| {
        let (path, data) = (path.into(), Some(b"new".into()));
        Txn::Create(CreateTxn { path, data, acl: None, ephemeral: true, parent_cversion })
    };
    let close = Txn::CloseSession(CloseSessionTxn { paths_to_delete: vec!["/none".into()] });
    let txns = [
        at("/e", 3),
        close,
        at("/f", 9),
        at("/f", 10),
        at("/g", 5),
        at("/none/g", 1),
        set_data("/a", 1),
        set_data("/a", 7),
        set_data("/none", 1),
        set_acl("/a", 1),
        set_acl("/a", 7),
        delete("/none"),
        delete("/b"),
        delete("/a"),
    ];
    for txn in txns {
        let zxid = database.last_zxid().0 + 1;
        let header = TxnHeader { client_id: 7, cxid: 1, zxid, time: 1000 * zxid };
        database.apply(&header, txn, None, Mode::Agreed, &mut Vec::new()).unwrap();
    }
    // Of the root, /zookeeper, /f and /g, as `DigestCalculator` sums them up.
    assert_eq!((APPLY_VERSION, database.tree().compute_digest()), (1, 0x1_4350_0bca));
}

/// A znode that is there already gets the list of the one to make (`DataTree.createNode`), and
/// nothing else.
#[test]
fn a_znode_that_others_make_again_keeps_its_data() {
    let mut database = database();
    let acl = Some(vec![Acl::anyone(3)]);
    let (path, data) = ("/a".into(), Some(b"new".into()));
    let txn = Txn::Create(CreateTxn { path, data, acl, ephemeral: false, parent_cversion: 3 });
    let header = TxnHeader { client_id: 7, cxid: 1, zxid: 9, time: 9000 };
    database.apply(&header, txn, None, Mode::Agreed, &mut Vec::new()).unwrap();
    let tree = database.tree();
    let node = tree.find("/a").unwrap();
    assert_eq!(tree.data(node), Some(b"data".as_slice()));
    assert_eq!(**tree.acls().list(tree.acl(node)).unwrap(), [Acl::anyone(3)]);
}

/// A leader that took it for a persistent one has let others make children of it.
#[test]
fn a_session_ends_whose_znodes_have_children() {
    let mut database = database();
    let mut apply = |client_id: i64, txn: Txn<'static>| {
        let zxid = database.last_zxid().0 + 1;
        let header = TxnHeader { client_id, cxid: 1, zxid, time: 1000 };
        database.apply(&header, txn, None, Mode::Agreed, &mut Vec::new()).unwrap();
        database.take_misfit().map(|misfit| misfit.reason)
    };
    let new = |path: &'static str| {
        let (path, parent_cversion) = (path.into(), -1);
        Txn::Create(CreateTxn { path, data: None, acl: None, ephemeral: true, parent_cversion })
    };
    // Another session's goes with its parent, and so does one of its own.
    for (session, path) in [(7, "/e"), (8, "/e/c"), (7, "/e/own"), (7, "/f"), (8, "/g")] {
        assert_eq!(apply(session, new(path)), None);
    }
    let close = || Txn::CloseSession(CloseSessionTxn { paths_to_delete: Vec::new() });
    assert_eq!(apply(7, close()), Some(Impossible::NotEmpty("/e".to_owned())));
    assert_eq!(apply(8, close()), None);
    let tree = database.tree();
    for path in ["/e", "/e/c", "/e/own", "/f", "/g"] {
        assert_eq!(tree.find(path), None, "{path}");
    }
    assert_eq!((database.undone(), tree.ephemerals(SessionId(8)).count()), (None, 0));
    assert_eq!(tree.digest(), Some(tree.compute_digest()));
}

/// One line each for the first, the second, the fourth and so on; what fits again is undone no
/// more.
#[test]
fn of_many_that_do_not_fit_few_are_told_of() {
    let mut database = database();
    let mut apply = |version: i32, said: Option<i64>| {
        let zxid = database.last_zxid().0 + 1;
        let header = TxnHeader { client_id: 7, cxid: 1, zxid, time: 1000 };
        let digest = said.map(|tree_digest| TxnDigest { version: DIGEST_VERSION, tree_digest });
        let txn = set_data("/a", version);
        database.apply(&header, txn, digest, Mode::Agreed, &mut Vec::new()).unwrap();
        let told = database.take_misfit().map(|misfit| misfit.count);
        (told, database.mismatches(), database.take_mismatch().is_some())
    };
    // With a digest that does not match either, it counts once and is told once.
    let told: Vec<_> = (1..=9).map(|round| apply(10 * round, Some(1))).collect();
    let expected = [Some(1), Some(2), None, Some(4), None, None, None, Some(8), None];
    assert_eq!(
        told,
        expected.into_iter().zip(1..).map(|(told, all)| (told, all, false)).collect::<Vec<_>>()
    );
    assert_eq!(apply(91, None), (None, 9, false));
    assert_eq!(apply(100, None), (None, 10, false));
    // A tree that takes the place of this one goes on from there.
    let before = std::mem::replace(&mut database, self::database());
    database.succeed(&before);
    let mut apply = |version: i32| {
        let header = TxnHeader { client_id: 7, cxid: 1, zxid: 9, time: 1000 };
        let txn = set_data("/a", version);
        database.apply(&header, txn, None, Mode::Agreed, &mut Vec::new()).unwrap();
        (database.take_misfit().map(|misfit| misfit.count), database.mismatches())
    };
    let told: Vec<_> = (1..=6).map(|round| apply(10 * round)).collect();
    let silent = (11..=15).map(|all| (None, all));
    assert_eq!(told, silent.chain([(Some(16), 16)]).collect::<Vec<_>>());
}

#[test]
fn old_logs_do_not_say_the_parents_version() {
    // Before 3.4 a create had none; it stands as -1 there (`DataTree.createNode`).
    let mut database = database();
    let txn = create(&database, "/c", b"", Owner::None);
    let Txn::Create(txn) = txn else { panic!("{txn:?}") };
    apply(&mut database, Txn::Create(CreateTxn { parent_cversion: -1, ..txn })).unwrap();
    let root = database.tree().find("/").unwrap();
    assert_eq!(database.tree().stat_persisted(root).cversion, 3);
}

#[test]
fn a_reconfiguration_leaves_the_config_at_version_minus_one() {
    // `PrepRequestProcessor` puts -1 into the transaction.
    let mut database = Database::new(1, RULES);
    for _ in 0..2 {
        let path = super::path::CONFIG.into();
        let txn = SetDataTxn { path, data: Some(b"server.1=...".into()), version: -1 };
        apply(&mut database, Txn::Reconfig(txn)).unwrap();
        let node = database.tree().find(super::path::CONFIG).unwrap();
        assert_eq!(database.tree().stat(node).version, -1);
    }
}

#[test]
fn the_digest_of_every_128th_zxid_is_kept_a_thousand_times() {
    // `DataTree.DIGEST_LOG_INTERVAL` and `DIGEST_LOG_LIMIT`, which is 1024.
    let mut database = Database::new(1, RULES);
    let mut apply = |zxid| {
        let header = TxnHeader { client_id: zxid, cxid: 0, zxid, time: 0 };
        let txn = Txn::CreateSession(CreateSessionTxn { timeout_ms: 4000 });
        database.apply(&header, txn, None, Mode::Strict, &mut Vec::new()).unwrap();
        let sum = database.tree().compute_digest();
        assert!(database.digests().all(|(_, digest)| digest == sum));
        database.digests().map(|(zxid, _)| zxid.0 / 128).collect::<Vec<_>>()
    };
    for zxid in [1, 127, 129, 255] {
        assert_eq!(apply(zxid), Vec::<i64>::new());
    }
    assert_eq!(apply(256), [2]);
    for round in 3..=1025 {
        apply(128 * round);
    }
    assert_eq!(apply(128 * 1026), (3..=1026).collect::<Vec<_>>());
}

#[test]
fn a_digest_that_is_not_the_trees_is_counted_and_told_of_once_in_a_row() {
    let mut database = database();
    let sum = database.tree().compute_digest();
    let mut apply = |version, tree_digest| {
        let zxid = database.last_zxid().0 + 1;
        let header = TxnHeader { client_id: 7, cxid: 1, zxid, time: 1000 };
        let txn = Txn::CreateSession(CreateSessionTxn { timeout_ms: 4000 });
        let digest = Some(TxnDigest { version, tree_digest });
        database.apply(&header, txn, digest, Mode::Strict, &mut Vec::new()).unwrap();
        assert_eq!(database.tree().digest(), Some(sum), "what is said changes nothing");
        (database.mismatches(), database.take_mismatch().map(|first| (first.zxid.0, first.said)))
    };
    assert_eq!(apply(DIGEST_VERSION, sum), (0, None));
    assert_eq!(apply(DIGEST_VERSION, 5), (1, Some((5, 5))));
    assert_eq!(apply(DIGEST_VERSION, 6), (2, None));
    assert_eq!(apply(DIGEST_VERSION, sum), (2, None));
    assert_eq!(apply(1, 7), (2, None), "another way to make it");
    assert_eq!(apply(DIGEST_VERSION, 8), (3, Some((9, 8))));
}

#[test]
fn without_digests_none_is_summed_up() {
    let mut database = Database::new(1, Rules { digest: false, ..RULES });
    assert_eq!(database.tree().digest(), None);
    make(&mut database, "/a", b"", Owner::None);
    assert_eq!(database.tree().digest(), None);
    database.finish_load(Zxid(9));
    assert_eq!(database.tree().digest(), None, "a snapshot's");
}

#[test]
fn a_snapshots_znodes_need_their_parents_lists_and_owners() {
    let mut database = Database::empty(1, RULES);
    let node = |acl, ephemeral_owner| {
        let stat = StatPersisted { ephemeral_owner, ..StatPersisted::default() };
        SnapshotNode { data: None, acl, stat }
    };
    database.load_acl(1, &[Acl::anyone(31)]);
    database.load_acl(2, &[Acl::anyone(2)]);
    database.load_session(SnapshotSession { id: 7, timeout_ms: 4000 });
    database.load_node("/a", &node(1, 7)).unwrap();
    database.load_node("/b", &node(-1, 0)).unwrap();
    let no_acl = |acl| Impossible::NoAcl { path: "/c".to_owned(), acl };
    for acl in [0, 3, -2, 1 << 40] {
        assert_eq!(database.load_node("/c", &node(acl, 0)), Err(no_acl(acl)));
    }
    let unknown = 0xff00_0100_0000_0000_u64.cast_signed();
    assert_eq!(
        database.load_node("/c", &node(1, unknown)),
        Err(Impossible::UnknownOwner { path: "/c".to_owned(), owner: unknown })
    );
    assert_eq!(database.load_node("/c/x", &node(1, 0)), Err(Impossible::NoNode("/c/x".to_owned())));
    assert_eq!(database.load_node("/a", &node(1, 0)), Err(Impossible::NodeExists("/a".to_owned())));
    database.finish_load(Zxid(9));
    let tree = database.tree();
    // The root, the two that fit, and the server's own three. The second list is nobody's.
    assert_eq!(tree.count(), 6);
    assert!(tree.acls().iter().all(|(_, list)| **list != [Acl::anyone(2)]));
    assert_eq!((tree.ephemerals_count(), tree.ephemerals(SessionId(7)).count()), (1, 1));
    assert_eq!(tree.sessions_with_ephemerals(), [SessionId(7)]);
}

#[test]
fn sessions_with_ephemerals_are_listed_in_order() {
    let mut database = database();
    assert_eq!(database.tree().sessions_with_ephemerals(), []);
    // Of server 251, and so below zero.
    let negative = -5 << 56;
    for (path, session) in [("/e", 9), ("/f", negative), ("/g", 9), ("/h", 3)] {
        let zxid = database.last_zxid().0 + 1;
        let header = TxnHeader { client_id: session, cxid: 1, zxid, time: 0 };
        let txn = create(&database, path, b"", Owner::Session(SessionId(session)));
        database.apply(&header, txn, None, Mode::Strict, &mut Vec::new()).unwrap();
    }
    let sessions = [SessionId(negative), SessionId(3), SessionId(9)];
    assert_eq!(database.tree().sessions_with_ephemerals(), sessions);
    assert_eq!(database.tree().ephemerals_count(), 4);
    apply(&mut database, delete("/h")).unwrap();
    assert_eq!(database.tree().sessions_with_ephemerals(), [SessionId(negative), SessionId(9)]);
}

#[test]
fn statistics_cost_the_same_however_much_there_is_to_count() {
    let mut database = Database::new(1, RULES);
    make(&mut database, "/a", b"12", Owner::None);
    for number in 0..1000 {
        make(&mut database, &format!("/a/{number}"), b"123", Owner::None);
    }
    make(&mut database, "/zookeeper/quota/a", b"", Owner::None);
    let before = VISITED.get();
    for _ in 0..3 {
        for (stats, expected) in [
            // Each counts itself as well, where it is below: empty, as its client made it.
            ("/zookeeper/quota/zookeeper_stats", "count=1007,bytes=3002"),
            ("/zookeeper/quota/a/zookeeper_stats", "count=1001,bytes=3002"),
        ] {
            make(&mut database, stats, b"", Owner::None);
            let node = database.tree.find(stats).unwrap();
            assert_eq!(database.tree.data(node), Some(expected.as_bytes()));
            let delete = Txn::Delete(DeleteTxn { path: stats.into() });
            apply(&mut database, delete).unwrap();
        }
    }
    let caller = Caller {
        connection: ConnectionId(1),
        session: SessionId(1),
        identities: &Identities::default(),
    };
    let request = Request::GetAllChildrenNumber(PathRequest { path: "/a".into() });
    let answer = read::answer(&database, &caller, &request, &mut Vec::new());
    assert_eq!(answer, Ok(Response::AllChildrenNumber(1000)));
    assert_eq!(VISITED.get(), before);
}

#[test]
fn a_long_acl_list_that_goes_is_left_to_whoever_applies() {
    let list = |first: usize| -> Vec<Acl<'static>> {
        let id = |number: usize| Some(format!("u{number}:h").into());
        let entry = |number| Acl { perms: 1, scheme: Some("digest".into()), id: id(number) };
        (first..first + 100).map(entry).collect()
    };
    let set = |first, version| {
        Txn::SetAcl(SetAclTxn { path: "/a".into(), acl: Some(list(first)), version })
    };
    let mut database = database();
    apply(&mut database, set(0, 1)).unwrap();
    assert!(database.take_gone().is_empty());
    apply(&mut database, set(1, 2)).unwrap();
    let gone = database.take_gone();
    assert_eq!(gone.len(), 1);
    assert_eq!(*gone[0], list(0));
    // Where nobody takes it, it goes with the next transaction.
    apply(&mut database, set(2, 3)).unwrap();
    apply(&mut database, set_data("/b", 1)).unwrap();
    assert!(database.take_gone().is_empty());
}
