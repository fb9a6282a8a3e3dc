//! Replies: xids, zxids, errors and their order, watches, multi.

use bytes::{Buf, Bytes};
use compat_tests::request::{self, mode, op};
use compat_tests::{RawClient, Reply, Server};

use crate::Row;

pub(crate) const ROWS: [Row; 14] = [
    ("a ping is answered under xid -2, whatever its own", ping_xid),
    ("odd xids are echoed", odd_xids),
    ("requests behind closeSession are dropped, or refused with -112", after_close),
    ("a write's reply carries its own zxid, a read's the last", reply_zxid),
    ("zxids of replies never go back, refused writes included", refused_zxid),
    ("sequential numbers count all children ever created", sequential_numbers),
    ("errors of delete: version before children", delete_errors),
    ("any version but -1 is compared", versions),
    ("null data stays null", null_data),
    ("sync echoes any path", sync_path),
    ("the writer's event comes before its reply, with the txn's zxid", event_before_reply),
    ("setWatches reports what was missed, with zxid -1, before its reply", set_watches),
    ("a multi's results", multi_results),
    ("a failed multi has err 0 and gives its numbers back", failed_multi),
];

fn client(server: &Server) -> RawClient {
    server.connect(20_000)
}

fn call(client: &mut RawClient, op: i32, body: &[u8]) -> Reply {
    client.call(op, body).expect("a reply")
}

fn create(client: &mut RawClient, path: &str, mode: i32) -> Reply {
    let reply = call(client, op::CREATE2, &request::create(path, Some(b"x"), mode));
    assert_eq!(reply.err, 0, "create {path}");
    reply
}

fn send_with_xid(client: &mut RawClient, xid: i32, op: i32, body: &[u8]) -> Reply {
    let payload = [&xid.to_be_bytes(), &op.to_be_bytes(), body].concat();
    client.send_frame(&payload).expect("sent");
    client.read_reply().expect("a frame").expect("a reply")
}

fn ping_xid(server: &Server) {
    let mut client = client(server);
    for xid in [-2, 7, 0] {
        let reply = send_with_xid(&mut client, xid, op::PING, &[]);
        assert_eq!((reply.xid, reply.err, reply.body.len()), (-2, 0, 0));
    }
    client.close().expect("closed");
}

fn odd_xids(server: &Server) {
    let mut client = client(server);
    for xid in [-7, 0, -1_000, i32::MAX, i32::MIN, 5, 5] {
        let body = request::path_watch("/", false);
        let reply = send_with_xid(&mut client, xid, op::EXISTS, &body);
        assert_eq!((reply.xid, reply.err), (xid, 0));
    }
    client.close().expect("closed");
}

fn after_close(server: &Server) {
    let mut leaver = client(server);
    let mut bytes = leaver.next_request(op::CLOSE_SESSION, &[]).1;
    let late = request::create("/late", None, mode::PERSISTENT);
    bytes.extend(leaver.next_request(op::CREATE, &late).1);
    bytes.extend(leaver.next_request(op::EXISTS, &request::path_watch("/", false)).1);
    leaver.send_raw(&bytes).expect("sent");
    let reply = leaver.read_reply().expect("a frame").expect("a reply");
    assert_eq!((reply.xid, reply.err, reply.body.len()), (1, 0, 0));
    // Apache ZooKeeper sometimes reads one more before it has closed the session.
    while let Some(reply) = leaver.read_reply().expect("the end of the stream") {
        assert_eq!((reply.err, reply.body.len()), (-112, 0), "{reply:?}");
    }
    let mut other = client(server);
    assert_eq!(call(&mut other, op::EXISTS, &request::path_watch("/late", false)).err, -101);
    other.close().expect("closed");
}

fn reply_zxid(server: &Server) {
    let mut client = client(server);
    let created = create(&mut client, "/zxid", mode::EPHEMERAL);
    assert_eq!(created.zxid, created.stat().czxid);
    let set = call(&mut client, op::SET_DATA, &request::set_data("/zxid", b"y", 0));
    assert_eq!(set.zxid, set.stat().mzxid);
    assert!(set.zxid > created.zxid);
    let got = call(&mut client, op::GET_DATA, &request::path_watch("/zxid", false));
    assert_eq!(got.zxid, set.zxid);
    client.close().expect("closed");
}

fn refused_zxid(server: &Server) {
    let mut client = client(server);
    let mut last = create(&mut client, "/refused", mode::EPHEMERAL).zxid;
    for _ in 0..3 {
        for (op, body) in [
            (op::SET_DATA, request::set_data("/refused", b"y", 99)),
            (op::DELETE, request::path_version("/nothing", -1)),
            (op::GET_DATA, request::path_watch("/nothing", false)),
            (op::SET_DATA, request::set_data("/refused", b"y", -1)),
        ] {
            let reply = call(&mut client, op, &body);
            assert!(reply.zxid >= last, "{} after {last}", reply.zxid);
            last = reply.zxid;
        }
    }
    client.close().expect("closed");
}

fn sequential_numbers(server: &Server) {
    let mut client = client(server);
    create(&mut client, "/seq", mode::PERSISTENT);
    let next = |client: &mut RawClient, mode| create(client, "/seq/n", mode).path();
    assert_eq!(next(&mut client, mode::SEQUENTIAL), "/seq/n0000000000");
    assert_eq!(next(&mut client, mode::EPHEMERAL_SEQUENTIAL), "/seq/n0000000001");
    create(&mut client, "/seq/plain", mode::PERSISTENT);
    for path in ["/seq/plain", "/seq/n0000000000"] {
        assert_eq!(call(&mut client, op::DELETE, &request::path_version(path, -1)).err, 0);
    }
    assert_eq!(next(&mut client, mode::SEQUENTIAL), "/seq/n0000000003");
    let stat = call(&mut client, op::EXISTS, &request::path_watch("/seq", false)).stat();
    assert_eq!((stat.cversion, stat.num_children, stat.version), (6, 2, 0));
    for path in ["/seq/n0000000001", "/seq/n0000000003", "/seq"] {
        assert_eq!(call(&mut client, op::DELETE, &request::path_version(path, -1)).err, 0);
    }
    client.close().expect("closed");
}

fn delete_errors(server: &Server) {
    let mut client = client(server);
    create(&mut client, "/del", mode::PERSISTENT);
    create(&mut client, "/del/child", mode::PERSISTENT);
    for (path, version, err) in [
        ("/del", 7, -103),
        ("/del", 0, -111),
        ("/del", -1, -111),
        ("/del/child", -2, -103),
        ("/del/child", 0, 0),
        ("/del", -1, 0),
        ("/del", -1, -101),
    ] {
        let reply = call(&mut client, op::DELETE, &request::path_version(path, version));
        assert_eq!(reply.err, err, "{path} {version}");
    }
    client.close().expect("closed");
}

fn versions(server: &Server) {
    let mut client = client(server);
    create(&mut client, "/ver", mode::EPHEMERAL);
    for (version, err) in [(0, 0), (0, -103), (-2, -103), (2, -103), (1, 0), (-1, 0)] {
        let reply = call(&mut client, op::SET_DATA, &request::set_data("/ver", b"y", version));
        assert_eq!(reply.err, err, "version {version}");
        assert_eq!(reply.body.is_empty(), err != 0);
    }
    client.close().expect("closed");
}

fn null_data(server: &Server) {
    let mut client = client(server);
    let length = |client: &mut RawClient| {
        call(client, op::GET_DATA, &request::path_watch("/null", false)).body.get_i32()
    };
    let body = request::create("/null", None, mode::EPHEMERAL);
    assert_eq!(call(&mut client, op::CREATE, &body).err, 0);
    assert_eq!(length(&mut client), -1);
    assert_eq!(call(&mut client, op::SET_DATA, &request::set_data("/null", b"", -1)).err, 0);
    assert_eq!(length(&mut client), 0);
    client.close().expect("closed");
}

fn sync_path(server: &Server) {
    let mut client = client(server);
    for path in ["/", "/nothing", "", "no/slash"] {
        let reply = call(&mut client, op::SYNC, &request::path(path));
        assert_eq!((reply.err, reply.path().as_str()), (0, path));
    }
    client.close().expect("closed");
}

fn event_before_reply(server: &Server) {
    let mut client = client(server);
    create(&mut client, "/event", mode::PERSISTENT);
    call(&mut client, op::GET_DATA, &request::path_watch("/event", true));
    call(&mut client, op::GET_CHILDREN2, &request::path_watch("/event", true));
    call(&mut client, op::EXISTS, &request::path_watch("/event/a", true));
    assert!(client.events.is_empty());
    let mut expected = Vec::new();
    let created = create(&mut client, "/event/a", mode::PERSISTENT);
    expected.extend([(created.zxid, 1, "/event/a"), (created.zxid, 4, "/event")]);
    // What comes behind the reply is not among the events yet.
    assert_eq!(client.events.len(), expected.len(), "when the create is answered");
    let set = call(&mut client, op::SET_DATA, &request::set_data("/event", b"y", -1));
    expected.push((set.zxid, 3, "/event"));
    assert_eq!(client.events.len(), expected.len(), "when the set is answered");
    // One-shot: nothing is left to fire, except what is set again.
    call(&mut client, op::EXISTS, &request::path_watch("/event/a", true));
    call(&mut client, op::GET_CHILDREN2, &request::path_watch("/event/a", true));
    call(&mut client, op::SET_DATA, &request::set_data("/event", b"y", -1));
    assert_eq!(client.events.len(), expected.len(), "when the second set is answered");
    let deleted = call(&mut client, op::DELETE, &request::path_version("/event/a", -1));
    expected.push((deleted.zxid, 2, "/event/a"));
    assert_eq!(client.events.len(), expected.len(), "when the delete is answered");
    call(&mut client, op::DELETE, &request::path_version("/event", -1));
    let events: Vec<_> =
        client.events.iter().map(|event| (event.zxid, event.kind, event.path.as_str())).collect();
    assert_eq!(events, expected);
    assert!(client.events.iter().all(|event| event.state == 3));
    client.close().expect("closed");
}

fn set_watches(server: &Server) {
    let mut writer = client(server);
    for path in ["/sw", "/sw/old", "/sw/same", "/sw/kids"] {
        create(&mut writer, path, mode::PERSISTENT);
    }
    let seen = call(&mut writer, op::EXISTS, &request::path_watch("/", false)).zxid;
    call(&mut writer, op::SET_DATA, &request::set_data("/sw/old", b"y", -1));
    create(&mut writer, "/sw/kids/1", mode::PERSISTENT);
    create(&mut writer, "/sw/new", mode::PERSISTENT);
    let mut watcher = client(server);
    let body = request::set_watches(
        seen,
        &["/sw/old", "/sw/same", "/sw/gone"],
        &["/sw/new", "/sw/later"],
        &["/sw/kids", "/sw/same"],
    );
    let payload =
        [&(-8_i32).to_be_bytes(), &op::SET_WATCHES.to_be_bytes(), body.as_slice()].concat();
    watcher.send_frame(&payload).expect("sent");
    let mut missed = Vec::new();
    let reply = loop {
        let reply = watcher.read_reply().expect("a frame").expect("a reply");
        match reply.event() {
            Some(event) => missed.push((event.kind, event.path, event.zxid, event.state)),
            None => break reply,
        }
    };
    assert_eq!((reply.xid, reply.err, reply.body.len()), (-8, 0, 0));
    missed.sort();
    let expected = [(1, "/sw/new"), (2, "/sw/gone"), (3, "/sw/old"), (4, "/sw/kids")];
    let expected = expected.map(|(kind, path)| (kind, path.to_string(), -1, 3));
    assert_eq!(missed, expected);
    // What had not changed is watched from now on.
    for path in ["/sw/same/1", "/sw/later"] {
        create(&mut writer, path, mode::PERSISTENT);
    }
    call(&mut writer, op::SET_DATA, &request::set_data("/sw/same", b"y", -1));
    for expected in [(4, "/sw/same"), (1, "/sw/later"), (3, "/sw/same")] {
        let event = watcher.read_reply().expect("a frame").expect("a reply").event();
        let event = event.expect("an event");
        assert_eq!((event.kind, event.path.as_str()), expected);
        assert!(event.zxid > 0);
    }
    for path in [
        "/sw/same/1",
        "/sw/kids/1",
        "/sw/old",
        "/sw/same",
        "/sw/kids",
        "/sw/new",
        "/sw/later",
        "/sw",
    ] {
        assert_eq!(call(&mut writer, op::DELETE, &request::path_version(path, -1)).err, 0);
    }
    writer.close().expect("closed");
    watcher.close().expect("closed");
}

/// Type, done and err of the next result.
fn result_header(body: &mut Bytes) -> (i32, bool, i32) {
    (body.get_i32(), body.get_u8() != 0, body.get_i32())
}

fn multi_results(server: &Server) {
    let mut client = client(server);
    let parts = [
        (op::CREATE, request::create("/m", Some(b"1"), mode::PERSISTENT)),
        (op::CREATE2, request::create("/m/s", None, mode::SEQUENTIAL)),
        (op::SET_DATA, request::set_data("/m", b"2", 0)),
        (op::CHECK, request::path_version("/m", 1)),
        (op::DELETE, request::path_version("/m/s0000000000", -1)),
        (op::DELETE, request::path_version("/m", 1)),
    ];
    let reply = call(&mut client, op::MULTI, &request::multi(&parts));
    assert_eq!(reply.err, 0);
    let mut body = reply.body.clone();
    assert_eq!(result_header(&mut body), (1, false, 0));
    assert_eq!(body.split_to(4 + 2).as_ref(), b"\0\0\0\x02/m");
    assert_eq!(result_header(&mut body), (15, false, 0));
    assert_eq!(body.split_to(4 + 14).slice(4..).as_ref(), b"/m/s0000000000");
    assert_eq!(body.split_to(68).get_i64(), reply.zxid);
    assert_eq!(result_header(&mut body), (5, false, 0));
    body.advance(68);
    for op in [op::CHECK, op::DELETE, op::DELETE] {
        assert_eq!(result_header(&mut body), (op, false, 0));
    }
    assert_eq!(result_header(&mut body), (-1, true, -1));
    assert!(body.is_empty());
    let empty = call(&mut client, op::MULTI, &request::multi(&[]));
    assert_eq!(result_header(&mut empty.body.clone()), (-1, true, -1));
    assert!(empty.zxid > reply.zxid);
    client.close().expect("closed");
}

fn failed_multi(server: &Server) {
    let mut client = client(server);
    create(&mut client, "/fm", mode::PERSISTENT);
    let parts = [
        (op::CREATE, request::create("/fm/s", None, mode::SEQUENTIAL)),
        (op::CHECK, request::path_version("/fm", 9)),
        (op::SET_DATA, request::set_data("/fm", b"2", 0)),
    ];
    let reply = call(&mut client, op::MULTI, &request::multi(&parts));
    assert_eq!(reply.err, 0);
    let mut body = reply.body.clone();
    for err in [0, -103, -2] {
        assert_eq!(result_header(&mut body), (-1, false, err));
        assert_eq!(body.get_i32(), err);
    }
    assert_eq!(result_header(&mut body), (-1, true, -1));
    let next = create(&mut client, "/fm/s", mode::SEQUENTIAL).path();
    assert_eq!(next, "/fm/s0000000000");
    for path in [next.as_str(), "/fm"] {
        assert_eq!(call(&mut client, op::DELETE, &request::path_version(path, -1)).err, 0);
    }
    client.close().expect("closed");
}
