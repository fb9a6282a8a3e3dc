//! Frames as they passed between ZooKeeper's server and its Java client.

use bytes::BytesMut;
use jute::protocol::{
    AddWatchMode, AddWatchRequest, AuthPacket, CheckVersionRequest, Children2Response,
    ChildrenResponse, ClientInfo, ConnectRequest, ConnectResponse, Create2Response, CreateRequest,
    CreateResponse, CreateTtlRequest, DeleteRequest, EphemeralsRequest, EphemeralsResponse,
    ErrorResponse, EventType, GetAclResponse, GetDataResponse, KeeperState, MultiOp, MultiResult,
    PathRequest, ReadOp, ReconfigRequest, ReplyHeader, Request, RequestHeader, Response,
    SaslRequest, SaslResponse, SetAclRequest, SetDataRequest, SetWatches2Request,
    SetWatchesRequest, SyncRequest, SyncResponse, WatchRequest, WatcherEvent, WatcherType,
    WatcherTypeRequest, WhoAmIResponse, put_event, put_frame, put_refusal, put_reply, xid,
};
use jute::{CreateMode, DecodeError, ErrorCode, OpCode, Record, Stat, decode};

use super::{Golden, acls, count_up, data, decode_response, open, stat, text, texts};

const SESSION: i64 = 0x0100_001e_b04d_0000;
const PASSWORD: [u8; 16] = 0xa9c2_2c26_82e9_5346_2f04_5efd_9b4a_c08b_u128.to_be_bytes();
const NODE: &str = "/käse";

/// A frame's payload, without its length.
fn payload(frame: &'static [u8]) -> &'static [u8] {
    let (len, payload) = decode::<i32>(frame).expect("a length");
    assert_eq!(usize::try_from(len), Ok(payload.len()));
    payload
}

fn framed(write: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::new();
    write(&mut out);
    out
}

impl Golden {
    /// A frame of the handshake.
    fn handshake<T: Record<'static> + PartialEq + std::fmt::Debug>(
        &mut self,
        name: &str,
        expected: &T,
    ) {
        let frame = self.take(name);
        let (record, rest) = decode::<T>(payload(frame)).expect(name);
        assert_eq!((&record, rest), (expected, &[][..]), "{name}");
        assert_eq!(framed(|out| put_frame(out, |out| expected.encode(out))), frame, "{name}");
    }

    /// A request that is decoded but would be written otherwise.
    fn reads_as(
        &mut self,
        name: &str,
        xid: i32,
        op: OpCode,
        expected: Result<&Request<'_>, &DecodeError>,
    ) -> &'static [u8] {
        let frame = self.take(name);
        let (header, body) = decode::<RequestHeader>(payload(frame)).expect(name);
        assert_eq!(header, RequestHeader { xid, op: op.code() }, "{name}");
        assert_eq!(Request::decode(header.op, body).as_ref(), expected, "{name}");
        frame
    }

    fn asks(&mut self, name: &str, xid: i32, expected: &Request<'static>) {
        let op = expected.op_code();
        let frame = self.reads_as(name, xid, op, Ok(expected));
        let again = framed(|out| {
            put_frame(out, |out| {
                RequestHeader { xid, op: op.code() }.encode(out);
                expected.encode(out);
            });
        });
        assert_eq!(again, frame, "{name}");
    }

    fn answers(&mut self, name: &str, xid: i32, zxid: i64, expected: &Response<'static>) {
        let frame = self.take(name);
        let (header, body) = decode::<ReplyHeader>(payload(frame)).expect(name);
        assert_eq!(header, ReplyHeader { xid, zxid, err: 0 }, "{name}");
        assert_eq!(&decode_response(expected, body), expected, "{name}");
        assert_eq!(framed(|out| put_reply(out, xid, zxid, expected)), frame, "{name}");
    }

    fn refuses(&mut self, name: &str, xid: i32, zxid: i64, error: ErrorCode) {
        let frame = self.take(name);
        let (header, body) = decode::<ReplyHeader>(payload(frame)).expect(name);
        assert_eq!(
            (header, body),
            (ReplyHeader { xid, zxid, err: error.code() }, &[][..]),
            "{name}"
        );
        assert_eq!(framed(|out| put_refusal(out, xid, zxid, error)), frame, "{name}");
    }

    fn tells(&mut self, name: &str, zxid: i64, event: EventType, path: &'static str) {
        let frame = self.take(name);
        let (header, body) = decode::<ReplyHeader>(payload(frame)).expect(name);
        assert_eq!(header, ReplyHeader { xid: xid::NOTIFICATION, zxid, err: 0 }, "{name}");
        let state = KeeperState::SyncConnected.code();
        let expected = WatcherEvent { event_type: event.code(), state, path: path.into() };
        assert_eq!(decode(body), Ok((expected, &[][..])), "{name}");
        assert_eq!(framed(|out| put_event(out, zxid, event, path)), frame, "{name}");
    }

    /// One request and its answer.
    fn call(
        &mut self,
        name: &str,
        xid: i32,
        request: &Request<'static>,
        zxid: i64,
        response: &Response<'static>,
    ) {
        self.asks(&format!("{name}.request"), xid, request);
        self.answers(&format!("{name}.reply"), xid, zxid, response);
    }

    /// One request and its refusal.
    fn refused(
        &mut self,
        name: &str,
        xid: i32,
        request: &Request<'static>,
        zxid: i64,
        error: ErrorCode,
    ) {
        self.asks(&format!("{name}.request"), xid, request);
        self.refuses(&format!("{name}.reply"), xid, zxid, error);
    }

    /// A request whose body neither server can read.
    fn undecodable(&mut self, name: &str, xid: i32, op: OpCode, zxid: i64, why: DecodeError) {
        self.reads_as(&format!("{name}.request"), xid, op, Err(&why));
        self.refuses(&format!("{name}.reply"), xid, zxid, ErrorCode::MarshallingError);
    }
}

#[test]
fn traffic() {
    let mut file = Golden::open(include_str!("traffic.txt"));
    creates(&mut file);
    writes(&mut file);
    reads(&mut file);
    watches(&mut file);
    multis(&mut file);
    connection(&mut file);
    raw(&mut file);
    raw_multis(&mut file);
    raw_nulls(&mut file);
    elsewhere(&mut file);
    file.finish();
}

fn create(
    path: &'static str,
    data: Option<&'static [u8]>,
    mode: CreateMode,
) -> CreateRequest<'static> {
    CreateRequest {
        path: path.into(),
        data: data.map(Into::into),
        acl: open(),
        flags: mode.flags(),
    }
}

fn created(path: &'static str) -> Response<'static> {
    Response::Create(CreateResponse { path: path.into() })
}

fn created2(path: &'static str, stat: Stat) -> Response<'static> {
    Response::Create2(Create2Response { path: path.into(), stat })
}

fn creates(file: &mut Golden) {
    let request = Request::Create(create(NODE, Some("dätä".as_bytes()), CreateMode::Persistent));
    file.call("create", 1, &request, 2, &created(NODE));
    let request = Request::Create2(create("/two", None, CreateMode::Persistent));
    let stat = stat!(3, 3, 1795250932606, 1795250932606, 0, 0, 0, 0, 0, 0, 3);
    file.call("create2", 2, &request, 3, &created2("/two", stat));
    let request = Request::CreateContainer(create("/box", Some(b""), CreateMode::Container));
    let stat = stat!(4, 4, 1795250932682, 1795250932682, 0, 0, 0, 0, 0, 0, 4);
    file.call("create_container", 3, &request, 4, &created2("/box", stat));
    let request = Request::CreateTtl(CreateTtlRequest {
        path: "/ttl".into(),
        data: data("t"),
        acl: open(),
        flags: CreateMode::PersistentSequentialWithTtl.flags(),
        ttl: 3_600_000,
    });
    let stat = stat!(5, 5, 1795250932749, 1795250932749, 0, 0, 0, 0, 1, 0, 5);
    file.call("create_ttl", 4, &request, 5, &created2("/ttl0000000003", stat));
    let request = Request::Create(create("/eph-", Some(b"e"), CreateMode::EphemeralSequential));
    file.call("create_ephemeral", 5, &request, 6, &created("/eph-0000000004"));
}

/// `/käse` behind its setData.
const NODE_STAT: Stat = stat!(2, 7, 1795250932530, 1795250933092, 1, 0, 0, 0, 3, 0, 2);
/// `/two` behind its setACL.
const TWO_STAT: Stat = stat!(3, 3, 1795250932606, 1795250932606, 0, 0, 1, 0, 0, 0, 3);

fn writes(file: &mut Golden) {
    let set_data =
        |data, version| Request::SetData(SetDataRequest { path: NODE.into(), data, version });
    file.tells("set_data.event", 7, EventType::NodeDataChanged, NODE);
    file.call("set_data", 9, &set_data(data("neu"), 0), 7, &Response::Stat(NODE_STAT));
    file.refused("set_data_refused", 10, &set_data(None, 7), 8, ErrorCode::BadVersion);
    let set_acl = Request::SetAcl(SetAclRequest { path: "/two".into(), acl: acls(), version: 0 });
    file.call("set_acl", 11, &set_acl, 9, &Response::Stat(TWO_STAT));
    let delete = Request::Delete(DeleteRequest { path: "/m".into(), version: 1 });
    file.call("delete", 30, &delete, 14, &Response::Empty);
    let reconfig = Request::Reconfig(ReconfigRequest {
        joining_servers: text("server.4=h:1:2;3"),
        leaving_servers: None,
        new_members: None,
        cur_config_id: -1,
    });
    file.refused("reconfig", 25, &reconfig, 11, ErrorCode::Unimplemented);
}

fn reads(file: &mut Golden) {
    let of = |path: &'static str, watch| WatchRequest { path: path.into(), watch };
    let path = |path: &'static str| PathRequest { path: path.into() };
    let stat = stat!(2, 2, 1795250932530, 1795250932530, 0, 0, 0, 0, 6, 0, 2);
    file.call("exists", 6, &Request::Exists(of(NODE, true)), 6, &Response::Stat(stat));
    file.refused("exists_missing", 7, &Request::Exists(of("/nil", false)), 6, ErrorCode::NoNode);
    let stat = stat!(3, 3, 1795250932606, 1795250932606, 0, 0, 0, 0, 0, 0, 3);
    let response = Response::GetData(GetDataResponse { data: None, stat });
    file.call("get_data", 8, &Request::GetData(of("/two", false)), 6, &response);
    let acl = acls().expect("a list");
    let response = Response::GetAcl(GetAclResponse { acl, stat: TWO_STAT });
    file.call("get_acl", 12, &Request::GetAcl(path("/two")), 9, &response);
    let children = texts(&["config", "quota"]);
    let response = Response::Children(ChildrenResponse { children: children.clone() });
    file.call("get_children", 13, &Request::GetChildren(of("/zookeeper", false)), 9, &response);
    let stat = stat!(0, 0, 0, 0, 0, -2, 0, 0, 0, 2, 0);
    let response = Response::Children2(Children2Response { children, stat });
    file.call("get_children2", 14, &Request::GetChildren2(of("/zookeeper", false)), 9, &response);
    let response = Response::Sync(SyncResponse { path: text(NODE) });
    file.call("sync", 15, &Request::Sync(SyncRequest { path: text(NODE) }), 9, &response);
    let request = Request::GetEphemerals(EphemeralsRequest { path: "/eph".into() });
    let ephemerals = texts(&["/eph-0000000004"]);
    let response = Response::Ephemerals(EphemeralsResponse { ephemerals });
    file.call("get_ephemerals", 16, &request, 9, &response);
    // Five of the session's, three built in.
    let request = Request::GetAllChildrenNumber(path("/"));
    file.call("get_all_children_number", 17, &request, 9, &Response::AllChildrenNumber(8));
    let client_info = vec![ClientInfo { auth_scheme: "ip".into(), user: "127.0.0.1".into() }];
    let response = Response::WhoAmI(WhoAmIResponse { client_info });
    file.call("who_am_i", 18, &Request::WhoAmI, 9, &response);
    let stat = stat!(0, 0, 0, 0, 0, 0, -1, 0, 0, 0, 0);
    let response = Response::GetData(GetDataResponse { data: data([]), stat });
    file.call("get_config", 26, &Request::GetData(of("/zookeeper/config", false)), 11, &response);
}

fn watches(file: &mut Golden) {
    let mode = AddWatchMode::PersistentRecursive;
    let request = Request::AddWatch(AddWatchRequest { path: "/w".into(), mode });
    file.call("add_watch", 19, &request, 9, &Response::Error(ErrorResponse { err: 0 }));
    file.tells("create_watched.event", 10, EventType::NodeCreated, "/w");
    let request = Request::Create(create("/w", None, CreateMode::Persistent));
    file.call("create_watched", 20, &request, 10, &created("/w"));
    let children = WatcherTypeRequest { path: NODE.into(), watcher_type: WatcherType::Children };
    file.call("check_watches", 23, &Request::CheckWatches(children.clone()), 10, &Response::Empty);
    file.call("remove_watches", 24, &Request::RemoveWatches(children), 10, &Response::Empty);

    let set = SetWatchesRequest {
        relative_zxid: 14,
        data_watches: texts(&[NODE]),
        exist_watches: texts(&["/nil"]),
        child_watches: texts(&["/two"]),
    };
    let set2 = SetWatches2Request {
        relative_zxid: 14,
        data_watches: texts(&[NODE]),
        exist_watches: texts(&["/nil"]),
        child_watches: texts(&["/two"]),
        persistent_watches: texts(&["/p"]),
        persistent_recursive_watches: texts(&["/r"]),
    };
    reattach(file, "set_watches", 35, &Request::SetWatches(set));
    reattach(file, "set_watches2", 38, &Request::SetWatches2(set2));
}

fn auth() -> Request<'static> {
    Request::Auth(AuthPacket { auth_type: 0, scheme: text("digest"), auth: data("süß:pass") })
}

/// Handshake, identities and watches, all at once. The client numbers setWatches as any other
/// request.
fn reattach(file: &mut Golden, name: &str, xid: i32, watches: &Request<'static>) {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 14,
        timeout_ms: 6000,
        session_id: SESSION,
        password: data(PASSWORD),
        read_only: Some(false),
    };
    file.handshake(&format!("{name}.request"), &request);
    file.handshake(&format!("{name}.reply"), &ATTACHED);
    file.asks(&format!("{name}.request_2"), xid::AUTH, &auth());
    file.answers(&format!("{name}.reply_2"), xid::AUTH, 0, &Response::Empty);
    file.asks(&format!("{name}.request_3"), xid, watches);
    file.answers(&format!("{name}.reply_3"), xid, 14, &Response::Empty);
}

fn multis(file: &mut Golden) {
    let writes = vec![
        MultiOp::Check(CheckVersionRequest { path: NODE.into(), version: 1 }),
        MultiOp::Create(create("/m", Some(b"1"), CreateMode::Persistent)),
        MultiOp::CreateContainer(create("/mc", None, CreateMode::Container)),
        MultiOp::CreateTtl(CreateTtlRequest {
            path: "/mt".into(),
            data: data("t"),
            acl: open(),
            flags: CreateMode::PersistentWithTtl.flags(),
            ttl: 3_600_000,
        }),
        MultiOp::SetData(SetDataRequest { path: "/m".into(), data: data("22"), version: 0 }),
        MultiOp::Delete(DeleteRequest { path: "/w".into(), version: -1 }),
    ];
    let time = 1795250934220;
    let results = vec![
        MultiResult::Check,
        MultiResult::Create("/m".into()),
        MultiResult::Create2("/mc".into(), stat!(12, 12, time, time, 0, 0, 0, 0, 0, 0, 12)),
        MultiResult::Create2("/mt".into(), stat!(12, 12, time, time, 0, 0, 0, 0, 1, 0, 12)),
        MultiResult::SetData(stat!(12, 12, time, time, 1, 0, 0, 0, 2, 0, 12)),
        MultiResult::Delete,
    ];
    file.tells("multi.event", 12, EventType::NodeDeleted, "/w");
    file.call("multi", 27, &Request::Multi(writes), 12, &Response::Multi(results));

    let delete =
        |path: &'static str| MultiOp::Delete(DeleteRequest { path: path.into(), version: -1 });
    let again = MultiOp::Create(create(NODE, None, CreateMode::Persistent));
    let writes = vec![delete("/two"), again, delete("/m")];
    let results = [0, ErrorCode::NodeExists.code(), ErrorCode::RuntimeInconsistency.code()];
    let results = Response::Multi(results.map(MultiResult::Error).to_vec());
    file.call("multi_failed", 28, &Request::Multi(writes), 13, &results);

    let reads = vec![
        ReadOp::GetData(NODE.into()),
        ReadOp::GetChildren("/zookeeper".into()),
        ReadOp::GetData("/nil".into()),
    ];
    let results = vec![
        MultiResult::GetData(data("neu"), NODE_STAT),
        MultiResult::GetChildren(texts(&["config", "quota"])),
        MultiResult::Error(ErrorCode::NoNode.code()),
    ];
    file.call("multi_read", 29, &Request::MultiRead(reads), 13, &Response::Multi(results));
}

/// What a client sends first.
fn new_session() -> ConnectRequest<'static> {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: 6000,
        session_id: 0,
        password: data([0; 16]),
        read_only: Some(false),
    }
}

const ATTACHED: ConnectResponse = ConnectResponse {
    timeout_ms: 6000,
    session_id: SESSION,
    password: PASSWORD,
    read_only: Some(false),
};

fn connection(file: &mut Golden) {
    file.handshake("connect.request", &new_session());
    file.handshake("connect.reply", &ATTACHED);
    file.call("auth", xid::AUTH, &auth(), 0, &Response::Empty);
    file.call("ping", xid::PING, &Request::Ping, 14, &Response::Empty);
    file.call("close_session", 39, &Request::CloseSession, 15, &Response::Empty);
}

fn raw(file: &mut Golden) {
    file.handshake("connect_old.request", &ConnectRequest { read_only: None, ..new_session() });
    let password = 0xbce3_2626_2235_338b_2447_c528_6fd3_d458_u128.to_be_bytes();
    let attached =
        ConnectResponse { session_id: SESSION + 1, password, read_only: None, ..ATTACHED };
    file.handshake("connect_old.reply", &attached);
    let unknown = ConnectRequest { session_id: 0x0123_4567_89ab_cdef, ..new_session() };
    file.handshake("connect_refused.request", &unknown);
    file.handshake("connect_refused.reply", &ConnectResponse::refused(true));
    let sasl = Request::Sasl(SaslRequest { token: count_up(3) });
    file.call("sasl", 1, &sasl, 0, &Response::Sasl(SaslResponse { token: None }));
    let request = Request::Create(CreateRequest {
        flags: 9,
        ..create("/raw_flags9", None, CreateMode::Persistent)
    });
    file.refused("create_flags", 18, &request, 26, ErrorCode::BadArguments);
    let null_id = jute::Acl { perms: 31, scheme: None, id: None };
    let request = Request::Create(CreateRequest {
        acl: Some(vec![null_id]),
        ..create("/nullid", None, CreateMode::Persistent)
    });
    file.refused("create_null_id", 30, &request, 33, ErrorCode::InvalidAcl);
    let unknown = DecodeError::UnknownOperation(OpCode::Check.code());
    file.reads_as("check.request", 19, OpCode::Check, Err(&unknown));
    file.refuses("check.reply", 19, -1, ErrorCode::Unimplemented);
}

fn raw_multis(file: &mut Golden) {
    let multi = OpCode::Multi;
    let raw = |path, data| create(path, Some(data), CreateMode::Persistent);
    let writes =
        vec![MultiOp::Create2(raw("/raw2", b"2")), MultiOp::CreateContainer(raw("/rawc", b"c"))];
    let time = 1795250944919;
    let stat = stat!(17, 17, time, time, 0, 0, 0, 0, 1, 0, 17);
    let results = ["/raw2", "/rawc"].map(|path| MultiResult::Create2(path.into(), stat));
    let results = Response::Multi(results.to_vec());
    file.call("multi_create2", 4, &Request::Multi(writes), 17, &results);
    file.call("multi_empty", 13, &Request::Multi(Vec::new()), 24, &Response::Multi(Vec::new()));

    // A createTTL whose flags say otherwise.
    let container = CreateRequest { flags: 4, ..raw("/raw21_4", b"2") };
    let request = Request::Multi(vec![MultiOp::CreateContainer(container)]);
    file.reads_as("multi_ttl_container.request", 5, multi, Ok(&request));
    let time = 1795250944983;
    let stat = stat!(18, 18, time, time, 0, 0, 0, 0, 1, 0, 18);
    let result = MultiResult::Create2("/raw21_4".into(), stat);
    file.answers("multi_ttl_container.reply", 5, 18, &Response::Multi(vec![result]));
    let request = Request::Multi(vec![MultiOp::Create(raw("/raw21_0", b"2"))]);
    file.reads_as("multi_ttl_plain.request", 11, multi, Ok(&request));
    let result = MultiResult::Create("/raw21_0".into());
    file.answers("multi_ttl_plain.reply", 11, 23, &Response::Multi(vec![result]));

    let failed = |error: ErrorCode| Response::Multi(vec![MultiResult::Error(error.code())]);
    let ttl = |path: &'static str, acl, flags, ttl| CreateTtlRequest {
        path: path.into(),
        data: data("2"),
        acl,
        flags,
        ttl,
    };
    let request = Request::Multi(vec![MultiOp::CreateTtl(ttl("/raw21_9", open(), 9, -1))]);
    file.call("multi_ttl_flags", 6, &request, 19, &failed(ErrorCode::BadArguments));
    let request = Request::Multi(vec![MultiOp::CreateTtl(ttl("/raw21_n", None, 5, 1))]);
    file.call("multi_ttl_null_acl", 21, &request, 27, &failed(ErrorCode::InvalidAcl));
    let empty = CreateRequest { acl: Some(Vec::new()), ..raw("/raw21_n0", b"2") };
    let request = Request::Multi(vec![MultiOp::Create(empty)]);
    file.reads_as("multi_ttl_plain_null_acl.request", 22, multi, Ok(&request));
    file.answers("multi_ttl_plain_null_acl.reply", 22, 28, &failed(ErrorCode::InvalidAcl));
    let empty =
        CreateRequest { acl: Some(Vec::new()), ..create("/raw1_e", None, CreateMode::Persistent) };
    let request = Request::Multi(vec![MultiOp::Create(empty)]);
    file.call("multi_create_empty_acl", 10, &request, 22, &failed(ErrorCode::InvalidAcl));

    file.undecodable("multi_create_flags", 7, multi, 20, DecodeError::CreateFlags(9));
    file.undecodable("multi_create_ttl", 8, multi, 21, DecodeError::CreateFlags(5));
    file.undecodable("multi_create_null_acl", 9, multi, 21, DecodeError::Null);
    let delete = DecodeError::Operation(OpCode::Delete.code());
    file.undecodable("multi_read_write", 12, OpCode::MultiRead, 23, delete);
}

fn raw_nulls(file: &mut Golden) {
    let null = DecodeError::Null;
    let all = Request::GetEphemerals(EphemeralsRequest { path: "".into() });
    file.reads_as("get_ephemerals_null.request", 2, OpCode::GetEphemerals, Ok(&all));
    let none = Response::Ephemerals(EphemeralsResponse { ephemerals: Vec::new() });
    file.answers("get_ephemerals_null.reply", 2, 16, &none);
    let mode = AddWatchMode::Persistent;
    let add = Request::AddWatch(AddWatchRequest { path: "".into(), mode });
    file.reads_as("add_watch_null.request", 15, OpCode::AddWatch, Ok(&add));
    file.answers("add_watch_null.reply", 15, 24, &Response::Error(ErrorResponse { err: 0 }));
    let watcher_type = WatcherType::Any;
    let check = Request::CheckWatches(WatcherTypeRequest { path: "".into(), watcher_type });
    file.reads_as("check_watches_null.request", 23, OpCode::CheckWatches, Ok(&check));
    file.answers("check_watches_null.reply", 23, 28, &Response::Empty);
    file.undecodable("get_all_children_number_null", 3, OpCode::GetAllChildrenNumber, 16, null);
    file.undecodable("set_watches_null_path", 14, OpCode::SetWatches, 24, null);
    file.undecodable("get_acl_null", 16, OpCode::GetAcl, 24, null);
    file.undecodable("exists_null", 24, OpCode::Exists, 28, null);
    file.undecodable("delete_null_path", 26, OpCode::Delete, 30, null);
    file.undecodable("create_null_path", 27, OpCode::Create, 31, null);
    file.undecodable("multi_null_path", 28, OpCode::Multi, 32, null);
    file.undecodable("multi_set_data_null_path", 1, OpCode::Multi, 36, null);
    file.undecodable("multi_check_null_path", 2, OpCode::Multi, 37, null);
    file.undecodable("multi_create_null_path", 3, OpCode::Multi, 38, null);
}

/// Where this crate leaves ZooKeeper: all of it input that no client sends.
fn elsewhere(file: &mut Golden) {
    let null = DecodeError::Null;
    // A null path is undecodable here; ZooKeeper's path check refuses it with -8 where a write has
    // one.
    file.reads_as("set_data_null_path.request", 25, OpCode::SetData, Err(&null));
    file.refuses("set_data_null_path.reply", 25, 29, ErrorCode::BadArguments);
    file.reads_as("set_acl_null_path.request", 32, OpCode::SetAcl, Err(&null));
    file.refuses("set_acl_null_path.reply", 32, 34, ErrorCode::BadArguments);
    // ZooKeeper answers err -5 with a body: the results before the part that failed.
    let header = ReplyHeader { xid: 20, zxid: 26, err: ErrorCode::MarshallingError.code() };
    let delete = DecodeError::Operation(OpCode::Delete.code());
    let op = OpCode::MultiRead;
    file.reads_as("multi_read_delete.request", 20, op, Err(&delete));
    let (reply, body) = decode(payload(file.take("multi_read_delete.reply"))).expect("a reply");
    assert_eq!((header, Ok(Vec::new())), (reply, MultiResult::decode_all(body)));
    file.reads_as("multi_read_null_path.request", 29, op, Err(&null));
    let (reply, body) = decode(payload(file.take("multi_read_null_path.reply"))).expect("a reply");
    let header = ReplyHeader { xid: 29, zxid: 32, ..header };
    assert_eq!((header, Ok(Vec::new())), (reply, MultiResult::decode_all(body)));
    // Only servers delete containers: ZooKeeper lets a client do it, without a look at the ACL.
    let unknown = DecodeError::UnknownOperation(OpCode::DeleteContainer.code());
    file.reads_as("delete_container.request", 17, OpCode::DeleteContainer, Err(&unknown));
    file.answers("delete_container.reply", 17, 25, &Response::Empty);
}
