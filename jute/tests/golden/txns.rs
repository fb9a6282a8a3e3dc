//! Payloads of log entries, as ZooKeeper's record classes write them.

use std::borrow::Cow;

use jute::txn::{
    CheckVersionTxn, CloseSessionTxn, CreateContainerTxn, CreateSessionTxn, CreateTtlTxn,
    CreateTxn, DeleteTxn, SetAclTxn, SetDataTxn, Txn, TxnDigest, TxnHeader, TxnRecord,
};
use jute::{Acl, ErrorCode};

use super::{Golden, PATH, acls, data, texts};

type Data = Option<Cow<'static, [u8]>>;
type AclList = Option<Vec<Acl<'static>>>;

const HEADER: TxnHeader = TxnHeader {
    client_id: 0x0100_0000_0000_0abc,
    cxid: 7,
    zxid: 0x1_0000_0009,
    time: 0x018f_0000_0000_0003,
};

const DIGEST: Option<TxnDigest> =
    Some(TxnDigest { version: 2, tree_digest: 0x1234_5678_90ab_cdef });

impl Golden {
    fn txn(&mut self, name: &str, txn: Txn<'static>, digest: Option<TxnDigest>) {
        let bytes = self.take(name);
        let expected = TxnRecord { header: HEADER, txn, digest };
        let (record, rest) = TxnRecord::decode(bytes).expect(name);
        assert_eq!((&record, rest), (&expected, &[][..]), "{name}");
        assert_eq!(encoded(&record), bytes, "{name}");
    }

    /// Older forms, which are read and not written.
    fn old_txn(&mut self, name: &str, txn: Txn<'static>, digest: Option<TxnDigest>) {
        let expected = TxnRecord { header: HEADER, txn, digest };
        assert_eq!(TxnRecord::decode(self.take(name)), Ok((expected, &[][..])), "{name}");
    }
}

pub(super) fn encoded(record: &TxnRecord<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    record.encode(&mut out);
    out
}

#[test]
fn txns() {
    let mut file = Golden::open(include_str!("txns.txt"));
    file.txn("create_session", create_session(30_000), DIGEST);
    file.txn("close_session", close_session(&["/e", PATH]), DIGEST);
    file.txn("close_session_none", close_session(&[]), DIGEST);
    file.old_txn("close_session_before_3_6", close_session(&[]), None);
    file.txn("create", create(PATH, data("dätä"), acls(), true, 5), DIGEST);
    file.txn("create_nulls", create("/a", None, None, false, 1), DIGEST);
    file.txn("create_without_digest", create("/a", data([]), acls(), false, 1), None);
    file.old_txn("create_v0", create(PATH, data("v0"), acls(), true, -1), None);
    file.txn("create2", create2(PATH, data("2"), acls(), false, 6), DIGEST);
    file.txn("create_container", container(PATH, data("c"), acls(), 7), DIGEST);
    file.txn("create_ttl", ttl(PATH, data("t"), acls(), 8, 0xff_ffff_ffff), DIGEST);
    file.txn("delete", delete(PATH), DIGEST);
    let delete_container = Txn::DeleteContainer(DeleteTxn { path: "/c".into() });
    file.txn("delete_container", delete_container, DIGEST);
    file.txn("set_data", set_data(PATH, data("neu"), 9), DIGEST);
    file.txn("set_data_null", set_data(PATH, None, 10), DIGEST);
    let reconfig = Txn::Reconfig(SetDataTxn {
        path: "/zookeeper/config".into(),
        data: data("server.1=h:1:2\nversion=100000000"),
        version: -1,
    });
    file.txn("reconfig", reconfig, DIGEST);
    file.txn("set_acl", set_acl(PATH, acls(), 3), DIGEST);
    file.txn("error", Txn::Error(ErrorCode::NoNode.code()), None);
    multis(&mut file);
    file.finish();
}

fn multis(file: &mut Golden) {
    let writes = vec![
        check(PATH, 3),
        create("/m", data("1"), acls(), false, 9),
        create2("/m2", None, acls(), false, 10),
        container("/c", data("c"), acls(), 11),
        ttl("/t", data("t"), acls(), 12, 1234),
        set_data(PATH, data("2"), 4),
        delete("/gone"),
    ];
    file.txn("multi", Txn::Multi(writes), DIGEST);
    let failed = vec![delete("/a"), Txn::Error(-110), Txn::Error(-2)];
    file.txn("multi_failed", Txn::Multi(failed), DIGEST);
    file.txn("multi_empty", Txn::Multi(Vec::new()), DIGEST);
    file.old_txn("multi_null", Txn::Multi(Vec::new()), DIGEST);
}

pub(super) fn create_session(timeout_ms: i32) -> Txn<'static> {
    Txn::CreateSession(CreateSessionTxn { timeout_ms })
}

pub(super) fn close_session(paths: &[&'static str]) -> Txn<'static> {
    Txn::CloseSession(CloseSessionTxn { paths_to_delete: texts(paths) })
}

fn create_txn(
    path: &'static str,
    data: Data,
    acl: AclList,
    ephemeral: bool,
    parent_cversion: i32,
) -> CreateTxn<'static> {
    CreateTxn { path: path.into(), data, acl, ephemeral, parent_cversion }
}

pub(super) fn create(
    path: &'static str,
    data: Data,
    acl: AclList,
    ephemeral: bool,
    parent_cversion: i32,
) -> Txn<'static> {
    Txn::Create(create_txn(path, data, acl, ephemeral, parent_cversion))
}

pub(super) fn create2(
    path: &'static str,
    data: Data,
    acl: AclList,
    ephemeral: bool,
    parent_cversion: i32,
) -> Txn<'static> {
    Txn::Create2(create_txn(path, data, acl, ephemeral, parent_cversion))
}

pub(super) fn container(
    path: &'static str,
    data: Data,
    acl: AclList,
    parent_cversion: i32,
) -> Txn<'static> {
    let path = path.into();
    Txn::CreateContainer(CreateContainerTxn { path, data, acl, parent_cversion })
}

pub(super) fn ttl(
    path: &'static str,
    data: Data,
    acl: AclList,
    parent_cversion: i32,
    ttl: i64,
) -> Txn<'static> {
    Txn::CreateTtl(CreateTtlTxn { path: path.into(), data, acl, parent_cversion, ttl })
}

pub(super) fn delete(path: &'static str) -> Txn<'static> {
    Txn::Delete(DeleteTxn { path: path.into() })
}

pub(super) fn set_data(path: &'static str, data: Data, version: i32) -> Txn<'static> {
    Txn::SetData(SetDataTxn { path: path.into(), data, version })
}

pub(super) fn set_acl(path: &'static str, acl: AclList, version: i32) -> Txn<'static> {
    Txn::SetAcl(SetAclTxn { path: path.into(), acl, version })
}

pub(super) fn check(path: &'static str, version: i32) -> Txn<'static> {
    Txn::Check(CheckVersionTxn { path: path.into(), version })
}
