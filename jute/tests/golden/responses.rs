//! Replies, as ZooKeeper's record classes write them.

use jute::protocol::{
    Children2Response, ChildrenResponse, ClientInfo, ConnectResponse, Create2Response,
    CreateResponse, EphemeralsResponse, ErrorResponse, EventType, GetAclResponse, GetDataResponse,
    KeeperState, MultiHeader, MultiResult, ReplyHeader, Response, SaslResponse, SyncResponse,
    WatcherEvent, WhoAmIResponse,
};
use jute::{ErrorCode, OpCode};

use super::{Golden, PATH, STAT, acls, count_up, data, decode_response, text, texts};

impl Golden {
    fn response(&mut self, name: &str, expected: &Response<'static>) {
        let bytes = self.take(name);
        assert_eq!(&decode_response(expected, bytes), expected, "{name}");
        let mut out = Vec::new();
        expected.encode(&mut out);
        assert_eq!(out, bytes, "{name}");
    }
}

#[test]
fn responses() {
    let mut file = Golden::open(include_str!("responses.txt"));
    headers(&mut file);
    writes(&mut file);
    reads(&mut file);
    multis(&mut file);
    file.finish();
}

fn headers(file: &mut Golden) {
    let attached = ConnectResponse {
        timeout_ms: 30_000,
        session_id: 0x0100_a0b0_c0d0_e0f0,
        password: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
        read_only: Some(true),
    };
    file.record("connect", &attached);
    file.record("connect_refused", &ConnectResponse::refused(true));
    let old = ConnectResponse {
        timeout_ms: 4000,
        session_id: 0x0100_0000_0000_0001,
        read_only: None,
        ..attached
    };
    file.record("connect_before_3_4", &old);
    file.record("header", &ReplyHeader { xid: 0x0102_0304, zxid: 0x1_0000_0009, err: 0 });
    file.record("header_error", &ReplyHeader { xid: 5, zxid: -1, err: ErrorCode::NoNode.code() });
    file.record(
        "watcher_event",
        &WatcherEvent {
            event_type: EventType::NodeChildrenChanged.code(),
            state: KeeperState::SyncConnected.code(),
            path: PATH.into(),
        },
    );
    file.record("multi_header", &MultiHeader { op: OpCode::Check.code(), done: false, err: -1 });
    file.record("multi_header_end", &MultiHeader { op: -1, done: true, err: -1 });
}

fn writes(file: &mut Golden) {
    let path = format!("{PATH}0000000001").into();
    file.response("create", &Response::Create(CreateResponse { path }));
    let create2 = Create2Response { path: PATH.into(), stat: STAT };
    file.response("create2", &Response::Create2(create2));
    file.response("set_data", &Response::Stat(STAT));
    file.response("set_acl", &Response::Stat(STAT));
    file.response("sasl", &Response::Sasl(SaslResponse { token: count_up(3) }));
    file.response("sasl_null", &Response::Sasl(SaslResponse { token: None }));
    file.response("error", &Response::Error(ErrorResponse { err: ErrorCode::NoNode.code() }));
}

fn reads(file: &mut Golden) {
    let get_data = |data| Response::GetData(GetDataResponse { data, stat: STAT });
    file.response("exists", &Response::Stat(STAT));
    file.response("get_data", &get_data(data("dätä")));
    file.response("get_data_null", &get_data(None));
    file.response("get_data_empty", &get_data(data([])));
    let acl = acls().expect("the list");
    file.response("get_acl", &Response::GetAcl(GetAclResponse { acl, stat: STAT }));
    let children = |names| Response::Children(ChildrenResponse { children: texts(names) });
    file.response("get_children", &children(&["a", "käse", ""]));
    file.response("get_children_empty", &children(&[]));
    let children2 = Children2Response { children: texts(&["雪"]), stat: STAT };
    file.response("get_children2", &Response::Children2(children2));
    file.response("sync", &Response::Sync(SyncResponse { path: text(PATH) }));
    file.response("sync_null", &Response::Sync(SyncResponse { path: None }));
    let ephemerals = EphemeralsResponse { ephemerals: texts(&["/e", PATH]) };
    file.response("get_ephemerals", &Response::Ephemerals(ephemerals));
    file.response("get_all_children_number", &Response::AllChildrenNumber(0x0102_0304));
    let client_info = vec![
        ClientInfo { auth_scheme: "ip".into(), user: "127.0.0.1".into() },
        ClientInfo { auth_scheme: "digest".into(), user: "süß".into() },
    ];
    file.response("who_am_i", &Response::WhoAmI(WhoAmIResponse { client_info }));
}

fn multis(file: &mut Golden) {
    let writes = vec![
        MultiResult::Check,
        MultiResult::Create("/m0000000001".into()),
        MultiResult::Create2(PATH.into(), STAT),
        MultiResult::SetData(STAT),
        MultiResult::Delete,
    ];
    file.response("multi", &Response::Multi(writes));
    let failed = [0, ErrorCode::NodeExists.code(), ErrorCode::RuntimeInconsistency.code()];
    let failed = failed.map(MultiResult::Error).to_vec();
    file.response("multi_failed", &Response::Multi(failed));
    let reads = vec![
        MultiResult::GetData(data("x"), STAT),
        MultiResult::GetData(None, STAT),
        MultiResult::GetChildren(texts(&["a", "b"])),
        MultiResult::Error(ErrorCode::NoNode.code()),
    ];
    file.response("multi_read", &Response::Multi(reads));
    file.response("multi_empty", &Response::Multi(Vec::new()));
}
