//! Whatever a log makes of a tree that is taken, a snapshot of it is read back as the same tree:
//! also logs that no server of ours writes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jute::persist::{SnapshotNode, SnapshotSession};
use jute::txn::{
    CloseSessionTxn, CreateContainerTxn, CreateSessionTxn, CreateTtlTxn, CreateTxn, DeleteTxn,
    SetAclTxn, SetDataTxn, Txn, TxnHeader,
};
use jute::{Acl, Record, StatPersisted};
use proptest::prelude::*;

use super::WalkStep;
use super::apply::Mode;
use super::database::{Database, Rules};
use super::owner::Owner;
use super::zxid::Zxid;

const SESSIONS: [i64; 8] = [
    1,
    2,
    0,
    i64::MIN,
    -1,
    0xff00_0000_0000_0005_u64.cast_signed(),
    0xff01_0000_0000_0005_u64.cast_signed(),
    0xffff_ff00_0000_0001_u64.cast_signed(),
];

const TTLS: [i64; 7] = [1, 0xff_ffff_ffff, 0x100_0000_0000, -1, 0, i64::MIN, i64::MAX];

/// No reserved one: a start makes those that are missing.
const NAMES: [&str; 6] = ["a", "b", "", "\u{1f600}", ".", "\u{fffd}"];

fn path() -> impl Strategy<Value = Cow<'static, str>> {
    let names = prop::collection::vec(prop::sample::select(&NAMES[..]), 1..3);
    let path = names.prop_map(|names| Cow::Owned(format!("/{}", names.join("/"))));
    prop_oneof![20 => path, 1 => Just("".into()), 1 => Just("a".into()), 1 => Just("//".into())]
}

/// One that a delete can name: nobody deletes the root, and with it the reserved ones.
fn deleted() -> impl Strategy<Value = Cow<'static, str>> {
    path().prop_filter("the root", |path| !path.trim_matches('/').is_empty())
}

fn data() -> impl Strategy<Value = Option<Cow<'static, [u8]>>> {
    prop::sample::select(vec![None, Some(Cow::Borrowed(b"".as_slice())), Some(b"x".into())])
}

fn acl() -> impl Strategy<Value = Option<Vec<Acl<'static>>>> {
    let text = prop::sample::select(vec![None, Some(""), Some("world"), Some("\u{1f600}:x")]);
    let one = (any::<i32>(), text.clone(), text).prop_map(|(perms, scheme, id)| Acl {
        perms,
        scheme: scheme.map(Cow::Borrowed),
        id: id.map(Cow::Borrowed),
    });
    prop_oneof![
        3 => Just(Some(vec![Acl::anyone(31)])),
        3 => prop::collection::vec(one, 0..3).prop_map(Some),
        1 => Just(None),
    ]
}

/// The counter that a create leaves: the next one, or any.
fn counter() -> impl Strategy<Value = i32> {
    prop_oneof![6 => Just(-1), 1 => any::<i32>()]
}

fn part() -> impl Strategy<Value = Txn<'static>> {
    let create = (path(), data(), acl(), any::<bool>(), counter()).prop_map(
        |(path, data, acl, ephemeral, parent_cversion)| CreateTxn {
            path,
            data,
            acl,
            ephemeral,
            parent_cversion,
        },
    );
    let create = create.boxed();
    let container =
        (path(), data(), acl(), counter()).prop_map(|(path, data, acl, parent_cversion)| {
            Txn::CreateContainer(CreateContainerTxn { path, data, acl, parent_cversion })
        });
    let ttl = (path(), data(), acl(), counter(), prop::sample::select(&TTLS[..])).prop_map(
        |(path, data, acl, parent_cversion, ttl)| {
            Txn::CreateTtl(CreateTtlTxn { path, data, acl, parent_cversion, ttl })
        },
    );
    let delete = deleted().prop_map(|path| DeleteTxn { path }).boxed();
    prop_oneof![
        4 => create.clone().prop_map(Txn::Create),
        2 => create.prop_map(Txn::Create2),
        2 => container,
        3 => ttl,
        1 => delete.clone().prop_map(Txn::Delete),
        1 => delete.prop_map(Txn::DeleteContainer),
        2 => (path(), data(), counter())
            .prop_map(|(path, data, version)| Txn::SetData(SetDataTxn { path, data, version })),
        2 => (path(), acl(), any::<i32>())
            .prop_map(|(path, acl, version)| Txn::SetAcl(SetAclTxn { path, acl, version })),
    ]
}

fn txn() -> impl Strategy<Value = Txn<'static>> {
    prop_oneof![
        12 => part(),
        1 => prop::collection::vec(part(), 0..4).prop_map(Txn::Multi),
        1 => any::<i32>()
            .prop_map(|timeout_ms| Txn::CreateSession(CreateSessionTxn { timeout_ms })),
        1 => prop::collection::vec(deleted(), 0..2)
            .prop_map(|paths_to_delete| Txn::CloseSession(CloseSessionTxn { paths_to_delete })),
    ]
}

fn take<'a, T: Record<'a>>(rest: &mut &'a [u8]) -> T {
    let (value, behind) = jute::decode(rest).unwrap();
    *rest = behind;
    value
}

/// A database of a snapshot's bytes, as a start makes it.
fn read_back(bytes: &[u8], zxid: Zxid, rules: Rules) -> Database {
    let mut loaded = Database::empty(9, rules);
    let mut rest = bytes;
    for _ in 0..take::<i32>(&mut rest) {
        loaded.load_session(take::<SnapshotSession>(&mut rest));
    }
    for _ in 0..take::<i32>(&mut rest) {
        let id: i64 = take(&mut rest);
        let list: Vec<Acl<'_>> = take(&mut rest);
        loaded.load_acl(id, &list);
    }
    while !rest.is_empty() {
        let path: Cow<'_, str> = take(&mut rest);
        assert_ne!(path, "/", "that is the end of the znodes");
        let node: SnapshotNode<'_> = take(&mut rest);
        loaded.load_node(&path, &node).unwrap();
    }
    loaded.finish_load(zxid);
    loaded
}

type Shown = (Option<Vec<u8>>, StatPersisted, Vec<Acl<'static>>, Owner, Vec<String>);

/// Everything that is kept of each znode.
fn shown(database: &Database) -> BTreeMap<String, Shown> {
    let tree = database.tree();
    let mut all = vec![tree.find("").unwrap()];
    tree.for_each_below(all[0], |id, _| all.push(id));
    let one = |id| {
        let list = tree.acls().list(tree.acl(id)).map(|list| list.to_vec()).unwrap_or_default();
        let mut children: Vec<String> = tree.children(id).map(str::to_owned).collect();
        children.sort();
        let data = tree.data(id).map(<[u8]>::to_vec);
        (tree.path(id), (data, tree.stat_persisted(id), list, tree.owner(id), children))
    };
    all.into_iter().map(one).collect()
}

fn walk(database: &mut Database) -> Vec<u8> {
    database.begin_walk();
    let mut bytes = Vec::new();
    loop {
        match database.tree().advance_walk(3, 1) {
            Some(WalkStep::Bytes(more) | WalkStep::Znodes(more)) => bytes.extend(more),
            Some(WalkStep::Finished { .. }) => return bytes,
            Some(WalkStep::Lacking(znodes)) => panic!("{znodes} znodes are not there"),
            None => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_of_what_a_log_made_is_read_back(
        txns in prop::collection::vec((prop::sample::select(&SESSIONS[..]), txn()), 1..12),
        is_strict in any::<bool>(),
        extended_types in any::<bool>(),
    ) {
        let rules = Rules { extended_types, ..Rules::default() };
        let mode = if is_strict { Mode::Strict } else { Mode::Tolerant };
        let mut database = Database::new(1, rules);
        for (zxid, (client_id, txn)) in (1..).zip(txns) {
            let header = TxnHeader { client_id, cxid: 1, zxid, time: 1000 * zxid };
            // A log with it is not taken.
            if database.apply(&header, txn, None, mode, &mut Vec::new()).is_err() {
                break;
            }
            let bytes = walk(&mut database);
            let loaded = read_back(&bytes, database.last_zxid(), rules);
            prop_assert_eq!(shown(&loaded), shown(&database));
            prop_assert_eq!(loaded.sessions(), database.sessions());
            prop_assert_eq!(loaded.tree().ephemerals_count(), database.tree().ephemerals_count());
            let reapable = |database: &Database| database.tree().reapable(None).count();
            prop_assert_eq!(reapable(&loaded), reapable(&database));
            prop_assert_eq!(loaded.orphans(), database.orphans());
        }
    }
}
