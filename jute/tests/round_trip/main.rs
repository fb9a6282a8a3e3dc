//! Random records: encoding and decoding are each other's inverse, a record that ends early is an
//! error, and no input makes a decoder panic.

mod arbitrary;

use std::fmt::Debug;

use jute::persist::{FileHeader, SnapshotDigest, SnapshotNode, SnapshotSession};
use jute::protocol::{
    AddWatchRequest, AuthPacket, CheckVersionRequest, Children2Response, ChildrenResponse,
    ClientInfo, ConnectRequest, ConnectResponse, Create2Response, CreateRequest, CreateResponse,
    CreateTtlRequest, DeleteRequest, EphemeralsRequest, EphemeralsResponse, ErrorResponse,
    GetAclResponse, GetDataResponse, MultiHeader, MultiOp, MultiResult, PathRequest,
    ReconfigRequest, ReplyHeader, Request, RequestHeader, Response, SaslRequest, SaslResponse,
    SetAclRequest, SetDataRequest, SetWatches2Request, SetWatchesRequest, SyncRequest,
    SyncResponse, WatchRequest, WatcherEvent, WatcherTypeRequest, WhoAmIResponse,
};
use jute::txn::{
    CheckVersionTxn, CloseSessionTxn, CreateContainerTxn, CreateSessionTxn, CreateTtlTxn,
    CreateTxn, DeleteTxn, SetAclTxn, SetDataTxn, Txn, TxnDigest, TxnRecord,
};
use jute::{Acl, CreateMode, DecodeError, IntoStatic, Record, Stat, StatPersisted, decode};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use arbitrary::{acls, data, i32s, i64s, list, stat, text, texts};

/// Strategy of a record from the strategies of its fields.
macro_rules! record {
    ($name:ident { $($field:ident: $strategy:expr),* $(,)? }) => {
        ($($strategy,)*).prop_map(|($($field,)*)| $name { $($field),* })
    };
}
use record;

fn encoded<'a>(record: &impl Record<'a>) -> Vec<u8> {
    let mut out = Vec::new();
    record.encode(&mut out);
    out
}

/// Round trip and truncation of a record whose end does not depend on what follows.
fn check<'a, T: Record<'a> + PartialEq + Debug>(record: &T, bytes: &'a [u8]) {
    assert_eq!(
        decode::<T>(bytes).as_ref().map(|(value, rest)| (value, *rest)),
        Ok((record, &[][..]))
    );
    for len in 0..bytes.len() {
        assert_eq!(decode::<T>(&bytes[..len]), Err(DecodeError::Truncated), "{len} bytes");
    }
}

/// Declares a test for each record.
macro_rules! records {
    ($($test:ident: $type:ty = $strategy:expr;)*) => {
        proptest! {
            $(#[test]
            fn $test(record in $strategy) {
                let bytes = encoded(&record);
                check::<$type>(&record, &bytes);
                let (borrowed, _) = decode::<$type>(&bytes).expect("a record");
                assert_eq!(borrowed.into_static(), record);
            })*
        }
    };
}

/// A record that borrows nothing.
macro_rules! plain_records {
    ($($test:ident: $type:ty = $strategy:expr;)*) => {
        proptest! {
            $(#[test]
            fn $test(record in $strategy) {
                check::<$type>(&record, &encoded(&record));
                assert_eq!(record.into_static(), record);
            })*
        }
    };
}

plain_records! {
    request_header: RequestHeader = record!(RequestHeader { xid: i32s(), op: i32s() });
    reply_header: ReplyHeader = record!(ReplyHeader { xid: i32s(), zxid: i64s(), err: i32s() });
    multi_header: MultiHeader =
        record!(MultiHeader { op: i32s(), done: any::<bool>(), err: i32s() });
    error_response: ErrorResponse = record!(ErrorResponse { err: i32s() });
    stats: Stat = stat();
    stats_persisted: StatPersisted = arbitrary::stat_persisted();
    file_header: FileHeader = record!(FileHeader { magic: i32s(), version: i32s(), dbid: i64s() });
    session: SnapshotSession = record!(SnapshotSession { id: i64s(), timeout_ms: i32s() });
    snapshot_digest: SnapshotDigest =
        record!(SnapshotDigest { zxid: i64s(), version: i32s(), digest: i64s() });
    txn_digest: TxnDigest = arbitrary::digest();
    create_session_txn: CreateSessionTxn = record!(CreateSessionTxn { timeout_ms: i32s() });
}

records! {
    acls_of_a_znode: Option<Vec<Acl<'_>>> = acls();
    create_request: CreateRequest<'_> = arbitrary::create(i32s(), acls());
    create_ttl_request: CreateTtlRequest<'_> = arbitrary::create_ttl(i32s());
    delete_request: DeleteRequest<'_> = arbitrary::delete();
    set_data_request: SetDataRequest<'_> = arbitrary::set_data();
    set_acl_request: SetAclRequest<'_> = arbitrary::set_acl();
    check_version_request: CheckVersionRequest<'_> = arbitrary::check_version();
    watch_request: WatchRequest<'_> = arbitrary::watch();
    path_request: PathRequest<'_> = arbitrary::path();
    ephemerals_request: EphemeralsRequest<'_> = record!(EphemeralsRequest { path: text() });
    sync_request: SyncRequest<'_> = arbitrary::sync();
    reconfig_request: ReconfigRequest<'_> = arbitrary::reconfig();
    set_watches_request: SetWatchesRequest<'_> = arbitrary::set_watches();
    set_watches2_request: SetWatches2Request<'_> = arbitrary::set_watches2();
    auth_packet: AuthPacket<'_> = arbitrary::auth();
    sasl_request: SaslRequest<'_> = record!(SaslRequest { token: data() });
    add_watch_request: AddWatchRequest<'_> = arbitrary::add_watch();
    watcher_type_request: WatcherTypeRequest<'_> = arbitrary::watcher_type();
    create_response: CreateResponse<'_> = record!(CreateResponse { path: text() });
    create2_response: Create2Response<'_> = record!(Create2Response { path: text(), stat: stat() });
    get_data_response: GetDataResponse<'_> =
        record!(GetDataResponse { data: data(), stat: stat() });
    get_acl_response: GetAclResponse<'_> = record!(GetAclResponse { acl: list(), stat: stat() });
    children_response: ChildrenResponse<'_> = record!(ChildrenResponse { children: texts() });
    children2_response: Children2Response<'_> =
        record!(Children2Response { children: texts(), stat: stat() });
    sync_response: SyncResponse<'_> = record!(SyncResponse { path: option::of(text()) });
    ephemerals_response: EphemeralsResponse<'_> =
        record!(EphemeralsResponse { ephemerals: texts() });
    sasl_response: SaslResponse<'_> = record!(SaslResponse { token: data() });
    who_am_i_response: WhoAmIResponse<'_> = record!(WhoAmIResponse {
        client_info: vec(record!(ClientInfo { auth_scheme: text(), user: text() }), 0..3),
    });
    watcher_event: WatcherEvent<'_> =
        record!(WatcherEvent { event_type: i32s(), state: i32s(), path: text() });
    snapshot_node: SnapshotNode<'_> =
        record!(SnapshotNode { data: data(), acl: i64s(), stat: arbitrary::stat_persisted() });
    create_txn: CreateTxn<'_> = arbitrary::create_txn();
    create_container_txn: CreateContainerTxn<'_> = arbitrary::create_container_txn();
    create_ttl_txn: CreateTtlTxn<'_> = arbitrary::create_ttl_txn();
    delete_txn: DeleteTxn<'_> = record!(DeleteTxn { path: text() });
    set_data_txn: SetDataTxn<'_> = arbitrary::set_data_txn();
    set_acl_txn: SetAclTxn<'_> = arbitrary::set_acl_txn();
    check_version_txn: CheckVersionTxn<'_> = arbitrary::check_version_txn();
    close_session_txn: CloseSessionTxn<'_> = record!(CloseSessionTxn { paths_to_delete: texts() });
}

proptest! {
    #[test]
    fn requests(request in arbitrary::request()) {
        let op = request.op_code().code();
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let decoded = Request::decode(op, &bytes).expect("a request");
        prop_assert_eq!(&decoded, &request);
        prop_assert_eq!(decoded.into_static(), request);
        for len in 0..bytes.len() {
            prop_assert_eq!(Request::decode(op, &bytes[..len]), Err(DecodeError::Truncated));
        }
        bytes.extend([0xff; 5]);
        prop_assert!(Request::decode(op, &bytes).is_ok(), "bytes behind a request are ignored");
    }

    #[test]
    fn multi_results(results in vec(arbitrary::multi_result(), 0..6)) {
        let mut bytes = Vec::new();
        Response::Multi(results.clone()).encode(&mut bytes);
        prop_assert_eq!(MultiResult::decode_all(&bytes), Ok(results));
        for len in 0..bytes.len() {
            prop_assert_eq!(MultiResult::decode_all(&bytes[..len]), Err(DecodeError::Truncated));
        }
    }

    /// Some tails are optional, and only those: the digest, the parent's counter of a create, the
    /// list of a closeSession.
    #[test]
    fn txn_records(record in arbitrary::txn_record()) {
        const HEADER_LEN: usize = 32;
        const DIGEST_LEN: usize = 12;
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        prop_assert_eq!(TxnRecord::decode(&bytes), Ok((record.clone(), &[][..])));
        prop_assert_eq!(&record.txn.clone().into_static(), &record.txn);
        let without_digest = bytes.len() - record.digest.map_or(0, |_| DIGEST_LEN);
        prop_assert_eq!(record.txn.body_len(), without_digest - HEADER_LEN);
        for len in 0..without_digest {
            let is_tail = match &record.txn {
                Txn::Create(_) | Txn::Create2(_) => len == without_digest - size_of::<i32>(),
                Txn::CloseSession(txn) => {
                    // Two paths begin as a digest of version 2 does.
                    let two = txn.paths_to_delete.len() == 2;
                    len == HEADER_LEN || two && len == HEADER_LEN + DIGEST_LEN
                }
                _ => false,
            };
            if !is_tail {
                prop_assert_eq!(TxnRecord::decode(&bytes[..len]), Err(DecodeError::Truncated));
            }
        }
        let expected = TxnRecord { digest: None, ..record };
        for len in without_digest..bytes.len() {
            let rest = &bytes[without_digest..len];
            prop_assert_eq!(TxnRecord::decode(&bytes[..len]), Ok((expected.clone(), rest)));
        }
    }

    /// The last byte is optional.
    #[test]
    fn connect_requests(request in arbitrary::connect_request()) {
        let bytes = encoded(&request);
        prop_assert_eq!(decode(&bytes), Ok((request.clone(), &[][..])));
        let fixed = bytes.len() - usize::from(request.read_only.is_some());
        for len in 0..fixed {
            let cut = decode::<ConnectRequest<'_>>(&bytes[..len]);
            prop_assert_eq!(cut, Err(DecodeError::Truncated));
        }
        let old = ConnectRequest { read_only: None, ..request };
        prop_assert_eq!(decode(&bytes[..fixed]), Ok((old, &[][..])));
    }

    /// The last byte is optional.
    #[test]
    fn connect_responses(response in arbitrary::connect_response()) {
        let bytes = encoded(&response);
        prop_assert_eq!(decode(&bytes), Ok((response, &[][..])));
        for len in 0..36 {
            prop_assert_eq!(decode::<ConnectResponse>(&bytes[..len]), Err(DecodeError::Truncated));
        }
        let old = ConnectResponse { read_only: None, ..response };
        prop_assert_eq!(decode(&bytes[..36]), Ok((old, &[][..])));
    }

    /// In a multi the mode of a create decides its operation.
    #[test]
    fn modes_in_a_multi(
        create in arbitrary::create(-1..8, acls()),
        ttl in arbitrary::create_ttl(-1..8),
    ) {
        for op in [MultiOp::Create, MultiOp::Create2, MultiOp::CreateContainer] {
            let asked = op(create.clone());
            let expected = match CreateMode::from_flags(create.flags) {
                None => Err(DecodeError::CreateFlags(create.flags)),
                Some(mode) if mode.is_ttl() => Err(DecodeError::CreateFlags(create.flags)),
                Some(CreateMode::Container) => Ok(MultiOp::CreateContainer(create.clone())),
                Some(_) => Ok(asked.clone()),
            };
            let expected = if create.acl.is_some() { expected } else { Err(DecodeError::Null) };
            prop_assert_eq!(reread(asked), expected);
        }
        let CreateTtlRequest { path, data, acl, flags, ttl: _ } = ttl.clone();
        let plain = CreateRequest { path, data, acl: Some(acl.unwrap_or_default()), flags };
        let expected = match flags {
            0..=3 => MultiOp::Create(plain),
            4 => MultiOp::CreateContainer(plain),
            _ => MultiOp::CreateTtl(ttl.clone()),
        };
        prop_assert_eq!(reread(MultiOp::CreateTtl(ttl)), Ok(expected));
    }

    #[test]
    fn no_bytes_panic(op in -20..120, bytes in arbitrary::hostile()) {
        let _ = Request::decode(op, &bytes);
        let _ = TxnRecord::decode(&bytes);
        let _ = MultiResult::decode_all(&bytes);
        let _ = decode::<ConnectRequest<'_>>(&bytes);
        let _ = decode::<ConnectResponse>(&bytes);
        let _ = decode::<RequestHeader>(&bytes);
        let _ = decode::<FileHeader>(&bytes);
        let _ = decode::<Vec<SnapshotSession>>(&bytes);
        let _ = decode::<Option<Vec<Acl<'_>>>>(&bytes);
        let _ = decode::<SnapshotNode<'_>>(&bytes);
        let _ = decode::<SnapshotDigest>(&bytes);
    }

    /// As above, behind the head of a log entry of every type.
    #[test]
    fn no_txn_panics(txn_type in -20..120, bytes in arbitrary::hostile()) {
        let mut payload = vec![0; 28];
        payload.extend(i32::to_be_bytes(txn_type));
        payload.extend(bytes);
        let _ = TxnRecord::decode(&payload);
    }
}

fn reread(op: MultiOp<'static>) -> Result<MultiOp<'static>, DecodeError> {
    let request = Request::Multi(vec![op]);
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    match Request::decode(request.op_code().code(), &bytes)?.into_static() {
        Request::Multi(mut ops) => Ok(ops.pop().expect("one part")),
        other => panic!("{other:?}"),
    }
}
