//! Random records.

use std::borrow::Cow;

use jute::protocol::{
    AddWatchMode, AddWatchRequest, AuthPacket, CheckVersionRequest, ConnectRequest,
    ConnectResponse, CreateRequest, CreateTtlRequest, DeleteRequest, EphemeralsRequest, MultiOp,
    MultiResult, PathRequest, ReadOp, ReconfigRequest, Request, SaslRequest, SetAclRequest,
    SetDataRequest, SetWatches2Request, SetWatchesRequest, SyncRequest, WatchRequest, WatcherType,
    WatcherTypeRequest,
};
use jute::txn::{
    CheckVersionTxn, CloseSessionTxn, CreateContainerTxn, CreateSessionTxn, CreateTtlTxn,
    CreateTxn, DeleteTxn, SetAclTxn, SetDataTxn, Txn, TxnDigest, TxnHeader, TxnRecord,
};
use jute::{Acl, Stat, StatPersisted};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::record;

pub(super) fn text() -> impl Strategy<Value = Cow<'static, str>> {
    any::<String>().prop_map(Cow::Owned)
}

pub(super) fn texts() -> impl Strategy<Value = Vec<Cow<'static, str>>> {
    vec(text(), 0..4)
}

pub(super) fn data() -> impl Strategy<Value = Option<Cow<'static, [u8]>>> {
    option::of(vec(any::<u8>(), 0..40).prop_map(Cow::Owned))
}

pub(super) fn i32s() -> impl Strategy<Value = i32> {
    any::<i32>()
}

pub(super) fn i64s() -> impl Strategy<Value = i64> {
    any::<i64>()
}

pub(super) fn acl() -> impl Strategy<Value = Acl<'static>> {
    record!(Acl { perms: i32s(), scheme: option::of(text()), id: option::of(text()) })
}

pub(super) fn list() -> impl Strategy<Value = Vec<Acl<'static>>> {
    vec(acl(), 0..3)
}

pub(super) fn acls() -> impl Strategy<Value = Option<Vec<Acl<'static>>>> {
    option::of(list())
}

pub(super) fn stat() -> impl Strategy<Value = Stat> {
    (any::<[i64; 6]>(), any::<[i32; 5]>()).prop_map(|(longs, ints)| {
        let [czxid, mzxid, ctime, mtime, ephemeral_owner, pzxid] = longs;
        let [version, cversion, aversion, data_length, num_children] = ints;
        Stat {
            czxid,
            mzxid,
            ctime,
            mtime,
            version,
            cversion,
            aversion,
            ephemeral_owner,
            data_length,
            num_children,
            pzxid,
        }
    })
}

pub(super) fn stat_persisted() -> impl Strategy<Value = StatPersisted> {
    stat().prop_map(|stat| StatPersisted {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        ctime: stat.ctime,
        mtime: stat.mtime,
        version: stat.version,
        cversion: stat.cversion,
        aversion: stat.aversion,
        ephemeral_owner: stat.ephemeral_owner,
        pzxid: stat.pzxid,
    })
}

pub(super) fn create(
    flags: impl Strategy<Value = i32>,
    acl: impl Strategy<Value = Option<Vec<Acl<'static>>>>,
) -> impl Strategy<Value = CreateRequest<'static>> {
    record!(CreateRequest { path: text(), data: data(), acl: acl, flags: flags })
}

pub(super) fn create_ttl(
    flags: impl Strategy<Value = i32>,
) -> impl Strategy<Value = CreateTtlRequest<'static>> {
    record!(CreateTtlRequest { path: text(), data: data(), acl: acls(), flags: flags, ttl: i64s() })
}

pub(super) fn delete() -> impl Strategy<Value = DeleteRequest<'static>> {
    record!(DeleteRequest { path: text(), version: i32s() })
}

pub(super) fn set_data() -> impl Strategy<Value = SetDataRequest<'static>> {
    record!(SetDataRequest { path: text(), data: data(), version: i32s() })
}

pub(super) fn set_acl() -> impl Strategy<Value = SetAclRequest<'static>> {
    record!(SetAclRequest { path: text(), acl: acls(), version: i32s() })
}

pub(super) fn check_version() -> impl Strategy<Value = CheckVersionRequest<'static>> {
    record!(CheckVersionRequest { path: text(), version: i32s() })
}

pub(super) fn watch() -> impl Strategy<Value = WatchRequest<'static>> {
    record!(WatchRequest { path: text(), watch: any::<bool>() })
}

pub(super) fn path() -> impl Strategy<Value = PathRequest<'static>> {
    record!(PathRequest { path: text() })
}

pub(super) fn sync() -> impl Strategy<Value = SyncRequest<'static>> {
    record!(SyncRequest { path: option::of(text()) })
}

pub(super) fn reconfig() -> impl Strategy<Value = ReconfigRequest<'static>> {
    record!(ReconfigRequest {
        joining_servers: option::of(text()),
        leaving_servers: option::of(text()),
        new_members: option::of(text()),
        cur_config_id: i64s(),
    })
}

pub(super) fn set_watches() -> impl Strategy<Value = SetWatchesRequest<'static>> {
    record!(SetWatchesRequest {
        relative_zxid: i64s(),
        data_watches: texts(),
        exist_watches: texts(),
        child_watches: texts(),
    })
}

pub(super) fn set_watches2() -> impl Strategy<Value = SetWatches2Request<'static>> {
    record!(SetWatches2Request {
        relative_zxid: i64s(),
        data_watches: texts(),
        exist_watches: texts(),
        child_watches: texts(),
        persistent_watches: texts(),
        persistent_recursive_watches: texts(),
    })
}

pub(super) fn auth() -> impl Strategy<Value = AuthPacket<'static>> {
    record!(AuthPacket { auth_type: i32s(), scheme: option::of(text()), auth: data() })
}

pub(super) fn add_watch() -> impl Strategy<Value = AddWatchRequest<'static>> {
    let mode = prop_oneof![Just(AddWatchMode::Persistent), Just(AddWatchMode::PersistentRecursive)];
    record!(AddWatchRequest { path: text(), mode: mode })
}

pub(super) fn watcher_type() -> impl Strategy<Value = WatcherTypeRequest<'static>> {
    let watcher_type = prop_oneof![
        Just(WatcherType::Children),
        Just(WatcherType::Data),
        Just(WatcherType::Any),
        Just(WatcherType::Persistent),
        Just(WatcherType::PersistentRecursive),
    ];
    record!(WatcherTypeRequest { path: text(), watcher_type: watcher_type })
}

pub(super) fn create_txn() -> impl Strategy<Value = CreateTxn<'static>> {
    record!(CreateTxn {
        path: text(),
        data: data(),
        acl: acls(),
        ephemeral: any::<bool>(),
        parent_cversion: i32s(),
    })
}

pub(super) fn create_container_txn() -> impl Strategy<Value = CreateContainerTxn<'static>> {
    record!(CreateContainerTxn { path: text(), data: data(), acl: acls(), parent_cversion: i32s() })
}

pub(super) fn create_ttl_txn() -> impl Strategy<Value = CreateTtlTxn<'static>> {
    record!(CreateTtlTxn {
        path: text(),
        data: data(),
        acl: acls(),
        parent_cversion: i32s(),
        ttl: i64s(),
    })
}

pub(super) fn set_data_txn() -> impl Strategy<Value = SetDataTxn<'static>> {
    record!(SetDataTxn { path: text(), data: data(), version: i32s() })
}

pub(super) fn set_acl_txn() -> impl Strategy<Value = SetAclTxn<'static>> {
    record!(SetAclTxn { path: text(), acl: acls(), version: i32s() })
}

pub(super) fn check_version_txn() -> impl Strategy<Value = CheckVersionTxn<'static>> {
    record!(CheckVersionTxn { path: text(), version: i32s() })
}

pub(super) fn digest() -> impl Strategy<Value = TxnDigest> {
    record!(TxnDigest { version: i32s(), tree_digest: i64s() })
}

/// Parts of a multi whose mode fits their operation; others are read as another operation or
/// refused.
pub(super) fn multi_op() -> impl Strategy<Value = MultiOp<'static>> {
    let ttl = prop_oneof![5..=6, Just(-1), Just(7)];
    let list = || list().prop_map(Some);
    prop_oneof![
        create(0..=3, list()).prop_map(MultiOp::Create),
        create(0..=3, list()).prop_map(MultiOp::Create2),
        create(0..=4, list()).prop_map(MultiOp::CreateContainer),
        create_ttl(ttl).prop_map(MultiOp::CreateTtl),
        delete().prop_map(MultiOp::Delete),
        set_data().prop_map(MultiOp::SetData),
        check_version().prop_map(MultiOp::Check),
    ]
}

pub(super) fn read_op() -> impl Strategy<Value = ReadOp<'static>> {
    prop_oneof![text().prop_map(ReadOp::GetData), text().prop_map(ReadOp::GetChildren)]
}

pub(super) fn request() -> impl Strategy<Value = Request<'static>> {
    let creates = prop_oneof![
        create(i32s(), acls()).prop_map(Request::Create),
        create(i32s(), acls()).prop_map(Request::Create2),
        create(i32s(), acls()).prop_map(Request::CreateContainer),
        create_ttl(i32s()).prop_map(Request::CreateTtl),
    ];
    let writes = prop_oneof![
        delete().prop_map(Request::Delete),
        set_data().prop_map(Request::SetData),
        set_acl().prop_map(Request::SetAcl),
        reconfig().prop_map(Request::Reconfig),
        vec(multi_op(), 0..5).prop_map(Request::Multi),
    ];
    let reads = prop_oneof![
        watch().prop_map(Request::Exists),
        watch().prop_map(Request::GetData),
        watch().prop_map(Request::GetChildren),
        watch().prop_map(Request::GetChildren2),
        path().prop_map(Request::GetAcl),
        path().prop_map(Request::GetAllChildrenNumber),
        record!(EphemeralsRequest { path: text() }).prop_map(Request::GetEphemerals),
        sync().prop_map(Request::Sync),
        vec(read_op(), 0..5).prop_map(Request::MultiRead),
    ];
    let watches = prop_oneof![
        watcher_type().prop_map(Request::CheckWatches),
        watcher_type().prop_map(Request::RemoveWatches),
        set_watches().prop_map(Request::SetWatches),
        set_watches2().prop_map(Request::SetWatches2),
        add_watch().prop_map(Request::AddWatch),
    ];
    let connection = prop_oneof![
        auth().prop_map(Request::Auth),
        record!(SaslRequest { token: data() }).prop_map(Request::Sasl),
        Just(Request::Ping),
        Just(Request::WhoAmI),
        Just(Request::CloseSession),
    ];
    prop_oneof![creates, writes, reads, watches, connection]
}

pub(super) fn multi_result() -> impl Strategy<Value = MultiResult<'static>> {
    prop_oneof![
        text().prop_map(MultiResult::Create),
        (text(), stat()).prop_map(|(path, stat)| MultiResult::Create2(path, stat)),
        Just(MultiResult::Delete),
        stat().prop_map(MultiResult::SetData),
        Just(MultiResult::Check),
        (data(), stat()).prop_map(|(data, stat)| MultiResult::GetData(data, stat)),
        texts().prop_map(MultiResult::GetChildren),
        i32s().prop_map(MultiResult::Error),
    ]
}

/// What can stand in a multi.
pub(super) fn sub_txn() -> impl Strategy<Value = Txn<'static>> {
    prop_oneof![
        create_txn().prop_map(Txn::Create),
        create_txn().prop_map(Txn::Create2),
        create_container_txn().prop_map(Txn::CreateContainer),
        create_ttl_txn().prop_map(Txn::CreateTtl),
        text().prop_map(|path| Txn::Delete(DeleteTxn { path })),
        set_data_txn().prop_map(Txn::SetData),
        check_version_txn().prop_map(Txn::Check),
        i32s().prop_map(Txn::Error),
    ]
}

pub(super) fn txn() -> impl Strategy<Value = Txn<'static>> {
    // A znode to delete has a path.
    let path = "/[a-z]{0,8}".prop_map(Cow::Owned);
    prop_oneof![
        5 => sub_txn(),
        1 => vec(sub_txn(), 0..4).prop_map(Txn::Multi),
        1 => i32s().prop_map(|timeout_ms| Txn::CreateSession(CreateSessionTxn { timeout_ms })),
        1 => vec(path, 0..4)
            .prop_map(|paths_to_delete| Txn::CloseSession(CloseSessionTxn { paths_to_delete })),
        1 => text().prop_map(|path| Txn::DeleteContainer(DeleteTxn { path })),
        1 => set_data_txn().prop_map(Txn::Reconfig),
        1 => set_acl_txn().prop_map(Txn::SetAcl),
    ]
}

pub(super) fn txn_record() -> impl Strategy<Value = TxnRecord<'static>> {
    let header = record!(TxnHeader { client_id: i64s(), cxid: i32s(), zxid: i64s(), time: i64s() });
    record!(TxnRecord { header: header, txn: txn(), digest: option::of(digest()) })
}

pub(super) fn connect_request() -> impl Strategy<Value = ConnectRequest<'static>> {
    record!(ConnectRequest {
        protocol_version: i32s(),
        last_zxid_seen: i64s(),
        timeout_ms: i32s(),
        session_id: i64s(),
        password: data(),
        read_only: option::of(any::<bool>()),
    })
}

pub(super) fn connect_response() -> impl Strategy<Value = ConnectResponse> {
    record!(ConnectResponse {
        timeout_ms: i32s(),
        session_id: i64s(),
        password: any::<[u8; 16]>(),
        read_only: option::of(any::<bool>()),
    })
}

/// Bytes, most of them small numbers of four bytes, so that lengths and counts are met.
pub(super) fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        4 => -2..24i32,
        1 => Just(i32::MAX),
        1 => Just(i32::MIN),
        2 => any::<i32>(),
    ];
    let words = vec(word, 0..40)
        .prop_map(|words| words.into_iter().flat_map(i32::to_be_bytes).collect::<Vec<_>>());
    prop_oneof![
        words.clone(),
        vec(any::<u8>(), 0..200),
        (vec(any::<u8>(), 0..4), words).prop_map(|(mut bytes, words)| {
            bytes.extend(words);
            bytes
        })
    ]
}
