//! Requests, as ZooKeeper's record classes write them.

use jute::protocol::{
    AddWatchMode, AddWatchRequest, AuthPacket, CheckVersionRequest, ConnectRequest, CreateRequest,
    CreateTtlRequest, DeleteRequest, EphemeralsRequest, MultiOp, PathRequest, ReadOp,
    ReconfigRequest, Request, RequestHeader, SaslRequest, SetAclRequest, SetDataRequest,
    SetWatches2Request, SetWatchesRequest, SyncRequest, WatchRequest, WatcherType,
    WatcherTypeRequest, xid,
};
use jute::{Acl, CreateMode, DecodeError, OpCode};

use super::{Golden, PATH, acls, count_up, data, encoded_request, text, texts};

impl Golden {
    fn request(&mut self, name: &str, expected: &Request<'static>) {
        let bytes = self.take(name);
        let op = expected.op_code().code();
        assert_eq!(Request::decode(op, bytes).as_ref(), Ok(expected), "{name}");
        assert_eq!(encoded_request(expected), bytes, "{name}");
    }
}

#[test]
fn requests() {
    let mut file = Golden::open(include_str!("requests.txt"));
    handshake(&mut file);
    creates(&mut file);
    writes(&mut file);
    reads(&mut file);
    watches(&mut file);
    connection(&mut file);
    multis(&mut file);
    file.finish();
}

fn handshake(file: &mut Golden) {
    file.record(
        "connect",
        &ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0x1_0000_0002,
            timeout_ms: 30_000,
            session_id: 0x0100_a0b0_c0d0_e0f0,
            password: count_up(16),
            read_only: Some(true),
        },
    );
    let new = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: -1,
        session_id: 0,
        password: None,
        read_only: Some(false),
    };
    file.record("connect_null_password", &new);
    let old = ConnectRequest { timeout_ms: 4000, password: data([0; 16]), read_only: None, ..new };
    file.record("connect_before_3_4", &old);
    file.record("header", &RequestHeader { xid: 0x0102_0304, op: OpCode::GetData.code() });
    file.record(
        "header_set_watches",
        &RequestHeader { xid: xid::SET_WATCHES, op: OpCode::SetWatches2.code() },
    );
}

fn creates(file: &mut Golden) {
    let create = CreateRequest {
        path: PATH.into(),
        data: data("dätä"),
        acl: acls(),
        flags: CreateMode::EphemeralSequential.flags(),
    };
    file.request("create", &Request::Create(create));
    let nulls = CreateRequest { path: "/a".into(), data: None, acl: None, flags: 0 };
    file.request("create_nulls", &Request::Create2(nulls));
    let empties =
        CreateRequest { path: "".into(), data: data([]), acl: Some(Vec::new()), flags: 0 };
    file.request("create_empties", &Request::Create(empties));
    let null_id = CreateRequest {
        path: "/a".into(),
        data: data([0]),
        acl: Some(vec![Acl { perms: -1, scheme: None, id: None }]),
        flags: CreateMode::Container.flags(),
    };
    file.request("create_null_id", &Request::CreateContainer(null_id));
    let ttl = CreateTtlRequest {
        path: PATH.into(),
        data: data("x"),
        acl: acls(),
        flags: CreateMode::PersistentSequentialWithTtl.flags(),
        ttl: 0xff_ffff_ffff,
    };
    file.request("create_ttl", &Request::CreateTtl(ttl));
}

fn writes(file: &mut Golden) {
    let delete = DeleteRequest { path: PATH.into(), version: -1 };
    file.request("delete", &Request::Delete(delete));
    let set_data = SetDataRequest { path: PATH.into(), data: data("neu"), version: 12 };
    file.request("set_data", &Request::SetData(set_data));
    let null = SetDataRequest { path: "/a".into(), data: None, version: -1 };
    file.request("set_data_null", &Request::SetData(null));
    let set_acl = SetAclRequest { path: PATH.into(), acl: acls(), version: 2 };
    file.request("set_acl", &Request::SetAcl(set_acl));
    file.record("check_version", &CheckVersionRequest { path: PATH.into(), version: 9 });
    let reconfig = ReconfigRequest {
        joining_servers: text("server.4=h:1:2;3"),
        leaving_servers: text("1,2"),
        new_members: None,
        cur_config_id: -1,
    };
    file.request("reconfig", &Request::Reconfig(reconfig));
    let members = ReconfigRequest {
        joining_servers: None,
        leaving_servers: None,
        new_members: text("server.1=ä:1:2;3"),
        cur_config_id: 0x1_0000_0000,
    };
    file.request("reconfig_members", &Request::Reconfig(members));

    // Java writes each half of a surrogate pair as three bytes, which is not UTF-8, and does not
    // read it back itself: it gives one U+FFFD for each half, this crate the character that was
    // written. Paths refuse both.
    let bytes = file.take("set_data_surrogates");
    let path = "/\u{1f600}".into();
    let surrogates = SetDataRequest { path, data: None, version: -1 };
    let op = OpCode::SetData.code();
    assert_eq!(Request::decode(op, bytes), Ok(Request::SetData(surrogates)));
}

fn reads(file: &mut Golden) {
    let watched = |watch| WatchRequest { path: PATH.into(), watch };
    let path = || PathRequest { path: PATH.into() };
    file.request("exists", &Request::Exists(watched(true)));
    let get_data = WatchRequest { path: "/a".into(), watch: false };
    file.request("get_data", &Request::GetData(get_data));
    file.request("get_acl", &Request::GetAcl(path()));
    file.request("get_children", &Request::GetChildren(watched(true)));
    file.request("get_children2", &Request::GetChildren2(watched(false)));
    file.request("get_all_children_number", &Request::GetAllChildrenNumber(path()));
    let prefix = EphemeralsRequest { path: PATH.into() };
    file.request("get_ephemerals", &Request::GetEphemerals(prefix));
    let all = Request::GetEphemerals(EphemeralsRequest { path: "".into() });
    let null = file.take("get_ephemerals_null");
    assert_eq!(Request::decode(OpCode::GetEphemerals.code(), null), Ok(all));
    file.request("sync", &Request::Sync(SyncRequest { path: text(PATH) }));
    file.request("sync_null", &Request::Sync(SyncRequest { path: None }));
}

fn watches(file: &mut Golden) {
    let of_type = |watcher_type| WatcherTypeRequest { path: PATH.into(), watcher_type };
    file.request("check_watches", &Request::CheckWatches(of_type(WatcherType::Any)));
    let recursive = of_type(WatcherType::PersistentRecursive);
    file.request("remove_watches", &Request::RemoveWatches(recursive));
    let add = AddWatchRequest { path: PATH.into(), mode: AddWatchMode::PersistentRecursive };
    file.request("add_watch", &Request::AddWatch(add));
    let set = SetWatchesRequest {
        relative_zxid: 0x1_0000_0005,
        data_watches: texts(&["/a", PATH]),
        exist_watches: Vec::new(),
        child_watches: texts(&["/b"]),
    };
    file.request("set_watches", &Request::SetWatches(set));
    let set2 = SetWatches2Request {
        relative_zxid: 0x1_0000_0005,
        data_watches: texts(&["/a"]),
        exist_watches: texts(&["/b"]),
        child_watches: texts(&[PATH]),
        persistent_watches: texts(&["/d", "/e"]),
        persistent_recursive_watches: texts(&["/"]),
    };
    file.request("set_watches2", &Request::SetWatches2(set2));
    let null = file.take("set_watches_null");
    assert_eq!(Request::decode(OpCode::SetWatches.code(), null), Err(DecodeError::Null));
}

fn connection(file: &mut Golden) {
    let auth = AuthPacket { auth_type: 0, scheme: text("digest"), auth: data("süß:pass") };
    file.request("auth", &Request::Auth(auth));
    let nulls = AuthPacket { auth_type: 0, scheme: None, auth: None };
    file.request("auth_nulls", &Request::Auth(nulls));
    file.request("sasl", &Request::Sasl(SaslRequest { token: count_up(5) }));
    file.request("sasl_null", &Request::Sasl(SaslRequest { token: None }));
}

fn multis(file: &mut Golden) {
    let create = |path: &'static str, data, mode: CreateMode| CreateRequest {
        path: path.into(),
        data,
        acl: acls(),
        flags: mode.flags(),
    };
    let writes = vec![
        MultiOp::Check(CheckVersionRequest { path: PATH.into(), version: 3 }),
        MultiOp::Create(create("/m", data("1"), CreateMode::PersistentSequential)),
        MultiOp::CreateContainer(create("/c", None, CreateMode::Container)),
        MultiOp::CreateTtl(CreateTtlRequest {
            path: "/t".into(),
            data: data([]),
            acl: acls(),
            flags: CreateMode::PersistentWithTtl.flags(),
            ttl: 1234,
        }),
        MultiOp::SetData(SetDataRequest { path: PATH.into(), data: data("2"), version: -1 }),
        MultiOp::Delete(DeleteRequest { path: "/gone".into(), version: 4 }),
    ];
    file.request("multi", &Request::Multi(writes));
    file.request("multi_empty", &Request::Multi(Vec::new()));
    let reads = vec![ReadOp::GetData(PATH.into()), ReadOp::GetChildren("/".into())];
    file.request("multi_read", &Request::MultiRead(reads));
}
