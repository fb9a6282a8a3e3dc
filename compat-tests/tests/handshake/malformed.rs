//! Input that no client should send.

use bytes::BufMut;
use compat_tests::request::{self, mode, op};
use compat_tests::{RawClient, Reply, Server};

use crate::Row;

/// Where ferrokeeper does better on purpose.
pub(crate) const MEANT_DIFFERENCES: [Row; 1] =
    [("what only a server may ask itself gets -6, then the close", servers_own_operations)];

const MARSHALLING_ERROR: i32 = -5;
const UNIMPLEMENTED: i32 = -6;
const BAD_ARGUMENTS: i32 = -8;
const NO_NODE: i32 = -101;

/// The default jute.maxbuffer: the longest frame.
const LONGEST: usize = 1_048_575;

pub(crate) const ROWS: [Row; 20] = [
    ("a negative, huge or zero length is closed", bad_lengths),
    ("a frame of the greatest length is served, one byte more is closed", longest_frame),
    ("less than a header is closed", short_header),
    ("an unknown operation gets -6 with zxid -1, then the close", unknown_operation),
    ("check outside of a multi gets -6, then the close", lone_check),
    ("a truncated body gets -5 and the connection stays", truncated_body),
    ("a null path gets -5, from setData -8", null_path),
    ("a null list in setWatches gets -5", null_list),
    ("bytes behind the body are ignored", trailing_bytes),
    ("a bad length inside the body gets -5", bad_inner_length),
    ("paths that create refuses", bad_create_paths),
    ("paths that setData refuses", bad_set_paths),
    ("paths that delete refuses", bad_delete_paths),
    ("paths at the edge are accepted", edge_paths),
    ("bytes that are no UTF-8 make a path that is none", no_utf8),
    ("odd counts of lists", odd_counts),
    ("any byte but 0 is true", odd_booleans),
    ("an auth or sasl packet that ends too early is closed silently", half_an_identity),
    ("a packet of SASL without it gets none, whatever its xid", sasl_without_sasl),
    ("an auth packet is answered under its own xid with zxid 0", auth_packets),
];

fn client(server: &Server) -> RawClient {
    server.connect(20_000)
}

fn call(client: &mut RawClient, op: i32, body: &[u8]) -> Reply {
    client.call(op, body).expect("a reply")
}

fn assert_closed(client: &mut RawClient) {
    let rest = client.read_frame().expect("the end of the stream");
    assert_eq!(rest, None);
}

fn assert_alive(mut client: RawClient) {
    assert_eq!(call(&mut client, op::EXISTS, &request::path_watch("/", false)).err, 0);
    client.close().expect("closed");
}

fn bad_lengths(server: &Server) {
    for length in [-1, i32::MIN, i32::MAX, 1_048_576, 0] {
        let mut fresh = RawClient::dial(server.address()).expect("a socket");
        fresh.send_raw(&length.to_be_bytes()).expect("sent");
        assert_closed(&mut fresh);
        let mut attached = client(server);
        attached.send_raw(&length.to_be_bytes()).expect("sent");
        assert_closed(&mut attached);
    }
}

fn longest_frame(server: &Server) {
    let header = 8;
    let around = request::create("/longest", Some(b""), mode::EPHEMERAL).len() + header;
    let data = vec![b'x'; LONGEST - around];
    let mut owner = client(server);
    let body = request::create("/longest", Some(&data), mode::EPHEMERAL);
    assert_eq!(call(&mut owner, op::CREATE, &body).err, 0);
    let reply = call(&mut owner, op::GET_DATA, &request::path_watch("/longest", false));
    assert!(reply.data() == data, "{} bytes come back otherwise", reply.data().len());
    owner.close().expect("closed");

    let mut sender = client(server);
    let longer = [&data[..], b"x"].concat();
    let body = request::create("/longest", Some(&longer), mode::EPHEMERAL);
    // The connection may be closed while the rest is being sent.
    let _ = sender.send(op::CREATE, &body);
    assert_closed(&mut sender);
    let mut other = client(server);
    let reply = call(&mut other, op::EXISTS, &request::path_watch("/longest", false));
    assert_eq!(reply.err, NO_NODE);
    other.close().expect("closed");
}

fn short_header(server: &Server) {
    for length in [1, 4, 7] {
        let mut client = client(server);
        client.send_frame(&vec![0; length]).expect("sent");
        assert_closed(&mut client);
    }
}

fn unknown_operation(server: &Server) {
    for op in [0, -1, 10, 23, 99, 1_000_000] {
        let mut client = client(server);
        let reply = call(&mut client, op, &[]);
        assert_eq!((reply.err, reply.zxid, reply.body.len()), (UNIMPLEMENTED, -1, 0), "op {op}");
        assert_closed(&mut client);
    }
}

fn lone_check(server: &Server) {
    let mut client = client(server);
    let reply = call(&mut client, op::CHECK, &request::path_version("/", -1));
    assert_eq!((reply.err, reply.zxid), (UNIMPLEMENTED, -1));
    assert_closed(&mut client);
}

fn truncated_body(server: &Server) {
    let bodies = [
        (op::EXISTS, request::path_watch("/x", true)),
        (op::GET_DATA, request::path_watch("/x", true)),
        (op::GET_CHILDREN, request::path_watch("/x", true)),
        (op::GET_CHILDREN2, request::path_watch("/x", true)),
        (op::CREATE, request::create("/x", Some(b"y"), mode::PERSISTENT)),
        (op::CREATE2, request::create("/x", Some(b"y"), mode::PERSISTENT)),
        (op::DELETE, request::path_version("/x", -1)),
        (op::SET_DATA, request::set_data("/x", b"y", -1)),
        (op::SYNC, request::path("/x")),
        (op::SET_ACL, request::set_acl("/x", &[(31, "world", "anyone")])),
        (op::GET_ACL, request::path("/x")),
        (op::GET_EPHEMERALS, request::path("/x")),
        (op::ALL_CHILDREN_NUMBER, request::path("/x")),
        (op::CREATE_CONTAINER, request::create("/x", Some(b"y"), mode::CONTAINER)),
        (op::CREATE_TTL, request::create_ttl("/x", 1_000)),
        (op::ADD_WATCH, request::path_kind("/x", 0)),
        (op::CHECK_WATCHES, request::path_kind("/x", 1)),
        (op::REMOVE_WATCHES, request::path_kind("/x", 1)),
        (op::SET_WATCHES, request::set_watches(0, &["/x"], &[], &[])),
        (op::SET_WATCHES2, [request::set_watches(0, &["/x"], &[], &[]), vec![0; 8]].concat()),
        (op::MULTI, request::multi(&[(op::DELETE, request::path_version("/x", -1))])),
        (op::MULTI_READ, request::multi(&[(op::GET_DATA, request::path_watch("/x", false))])),
        (op::RECONFIG, request::reconfig("server.1=localhost:1:2;3")),
    ];
    let mut client = client(server);
    for (op, body) in bodies {
        for length in [0, 3, 5, body.len() - 1] {
            let reply = call(&mut client, op, body.get(..length).expect("shorter than the body"));
            let got = (reply.err, reply.body.len());
            assert_eq!(got, (MARSHALLING_ERROR, 0), "op {op}, {length} bytes");
        }
    }
    assert_alive(client);
}

fn null_path(server: &Server) {
    let null_and = |rest: &[u8]| [&(-1_i32).to_be_bytes(), rest].concat();
    let create = request::create("", Some(b"y"), mode::PERSISTENT);
    let mut client = client(server);
    for (op, body) in [
        (op::EXISTS, null_and(&[0])),
        (op::GET_DATA, null_and(&[0])),
        (op::GET_CHILDREN, null_and(&[0])),
        (op::GET_CHILDREN2, null_and(&[0])),
        (op::CREATE, null_and(create.get(4..).expect("behind the path"))),
        (op::DELETE, null_and(&[0xff; 4])),
    ] {
        assert_eq!(call(&mut client, op, &body).err, MARSHALLING_ERROR, "op {op}");
    }
    let set_data = request::set_data("", b"x", -1);
    let body = null_and(set_data.get(4..).expect("behind the path"));
    assert_eq!(call(&mut client, op::SET_DATA, &body).err, BAD_ARGUMENTS);
    assert_alive(client);
}

fn null_list(server: &Server) {
    let mut body = Vec::new();
    body.put_i64(0);
    body.put_i32(-1);
    body.put_i32(0);
    body.put_i32(0);
    let mut client = client(server);
    assert_eq!(call(&mut client, op::SET_WATCHES, &body).err, MARSHALLING_ERROR);
    assert_alive(client);
}

fn trailing_bytes(server: &Server) {
    let mut client = client(server);
    for (op, mut body) in [
        (op::EXISTS, request::path_watch("/", false)),
        (op::GET_CHILDREN2, request::path_watch("/", false)),
        (op::SYNC, request::path("/")),
        (op::CREATE, request::create("/trailing", None, mode::EPHEMERAL)),
        (op::SET_DATA, request::set_data("/trailing", b"x", 0)),
        (op::DELETE, request::path_version("/trailing", 1)),
    ] {
        body.extend([7; 9]);
        assert_eq!(call(&mut client, op, &body).err, 0, "op {op}");
    }
    assert_alive(client);
}

fn bad_inner_length(server: &Server) {
    let mut client = client(server);
    for length in [-2, i32::MIN, i32::MAX, 3_000_000] {
        let mut body = Vec::new();
        body.put_i32(length);
        body.put_slice(b"/x\0");
        for op in [op::EXISTS, op::GET_DATA, op::CREATE, op::SET_DATA, op::DELETE] {
            assert_eq!(call(&mut client, op, &body).err, MARSHALLING_ERROR, "{length}, op {op}");
        }
    }
    assert_alive(client);
}

fn bad_create_paths(server: &Server) {
    let mut client = client(server);
    for (path, err) in [
        ("", BAD_ARGUMENTS),
        ("x", BAD_ARGUMENTS),
        ("/x\0y", BAD_ARGUMENTS),
        ("/x/", NO_NODE),
        ("/", -110),
        ("//x", BAD_ARGUMENTS),
        ("/zookeeper/", BAD_ARGUMENTS),
        ("/zookeeper//x", NO_NODE),
        ("/zookeeper/./x", NO_NODE),
        ("/zookeeper/.", BAD_ARGUMENTS),
        ("/..", BAD_ARGUMENTS),
        ("/x\u{1}", BAD_ARGUMENTS),
        ("/x\u{1f}", BAD_ARGUMENTS),
        ("/x\u{7f}", BAD_ARGUMENTS),
        ("/x\u{9f}", BAD_ARGUMENTS),
        ("/x\u{e000}", BAD_ARGUMENTS),
        ("/x\u{f8ff}", BAD_ARGUMENTS),
        ("/x\u{fff0}", BAD_ARGUMENTS),
        ("/x\u{1f600}", BAD_ARGUMENTS),
    ] {
        for op in [op::CREATE, op::CREATE2] {
            let body = request::create(path, Some(b"x"), mode::PERSISTENT);
            assert_eq!(call(&mut client, op, &body).err, err, "{path:?}");
        }
    }
    assert_alive(client);
}

fn bad_set_paths(server: &Server) {
    let mut client = client(server);
    for path in ["", "x", "/x/", "//x", "/./x", "/x/..", "/x\0y", "/x\u{7f}", "/x\u{1f600}"] {
        let body = request::set_data(path, b"x", -1);
        assert_eq!(call(&mut client, op::SET_DATA, &body).err, BAD_ARGUMENTS, "{path:?}");
    }
    assert_alive(client);
}

fn bad_delete_paths(server: &Server) {
    let mut client = client(server);
    for (path, err) in [
        ("", BAD_ARGUMENTS),
        ("x", BAD_ARGUMENTS),
        ("/x\0y", BAD_ARGUMENTS),
        ("/", BAD_ARGUMENTS),
        ("/zookeeper", BAD_ARGUMENTS),
        ("/zookeeper/quota", BAD_ARGUMENTS),
        ("/zookeeper/config", BAD_ARGUMENTS),
        ("/x/", NO_NODE),
        ("/nothing", NO_NODE),
        ("/no/thing", NO_NODE),
    ] {
        let body = request::path_version(path, -1);
        assert_eq!(call(&mut client, op::DELETE, &body).err, err, "{path:?}");
    }
    assert_alive(client);
}

fn edge_paths(server: &Server) {
    let mut client = client(server);
    for path in ["/...", "/x y", "/x\u{a0}", "/x\u{d7ff}", "/x\u{f900}", "/x\u{ffef}", "/.x"] {
        let body = request::create(path, None, mode::EPHEMERAL);
        let reply = call(&mut client, op::CREATE, &body);
        assert_eq!(reply.err, 0, "{path:?}");
        assert_eq!(reply.path(), path);
    }
    // A sequential name makes the trailing slash legal.
    let parent = request::create("/slash", None, mode::PERSISTENT);
    assert_eq!(call(&mut client, op::CREATE, &parent).err, 0);
    let child = request::create("/slash/", None, mode::EPHEMERAL_SEQUENTIAL);
    assert_eq!(call(&mut client, op::CREATE, &child).path(), "/slash/0000000000");
    for path in ["/slash/0000000000", "/slash"] {
        assert_eq!(call(&mut client, op::DELETE, &request::path_version(path, -1)).err, 0);
    }
    assert_alive(client);
}

fn no_utf8(server: &Server) {
    let mut client = client(server);
    for bytes in [b"/\xff".as_slice(), b"/\xc3", b"/a\xed\xa0\x80", b"/\xf0\x9f"] {
        let mut create = Vec::new();
        request::buffer(&mut create, bytes);
        create.extend(request::create("", None, mode::EPHEMERAL).get(4..).expect("the rest"));
        assert_eq!(call(&mut client, op::CREATE, &create).err, BAD_ARGUMENTS, "{bytes:?}");
        let mut exists = Vec::new();
        request::buffer(&mut exists, bytes);
        exists.push(0);
        assert_eq!(call(&mut client, op::EXISTS, &exists).err, NO_NODE, "{bytes:?}");
    }
    assert_alive(client);
}

fn odd_counts(server: &Server) {
    let mut client = client(server);
    for (count, err) in [(-1, -114), (0, -114), (-2, -114), (i32::MIN, -114), (i32::MAX, -5)] {
        let mut body = request::path("/counted");
        body.put_i32(-1);
        body.put_i32(count);
        body.put_i32(mode::EPHEMERAL);
        assert_eq!(call(&mut client, op::CREATE, &body).err, err, "{count} entries");
    }
    for (count, err) in [(-1, -5), (-2, 0), (0, 0), (i32::MAX, -5)] {
        let mut body = Vec::new();
        body.put_i64(0);
        body.put_i32(count);
        body.put_i64(0);
        assert_eq!(call(&mut client, op::SET_WATCHES, &body).err, err, "{count} paths");
    }
    assert_alive(client);
}

fn odd_booleans(server: &Server) {
    let mut client = client(server);
    for byte in [1, 2, 0x80, 0xff] {
        let mut exists = request::path("/boolean");
        exists.push(byte);
        assert_eq!(call(&mut client, op::EXISTS, &exists).err, NO_NODE);
        let body = request::create("/boolean", None, mode::EPHEMERAL);
        assert_eq!(call(&mut client, op::CREATE, &body).err, 0);
        assert_eq!(client.events.len(), 1, "{byte}");
        client.events.clear();
        assert_eq!(call(&mut client, op::DELETE, &request::path_version("/boolean", -1)).err, 0);
    }
    assert_alive(client);
}

fn half_an_identity(server: &Server) {
    let auth = request::auth("digest", b"u:p");
    let mut token = Vec::new();
    request::buffer(&mut token, b"token");
    let null = (-1_i32).to_be_bytes().to_vec();
    for (op, body) in [
        (op::AUTH, Vec::new()),
        (op::AUTH, auth[..auth.len() - 1].to_vec()),
        (op::AUTH, auth[..6].to_vec()),
        (op::SASL, Vec::new()),
        (op::SASL, token[..token.len() - 1].to_vec()),
        (op::SASL, null),
    ] {
        let mut client = client(server);
        // What was asked before is answered.
        let mut bytes = client.next_request(op::EXISTS, &request::path_watch("/", false)).1;
        client.send_raw(&bytes).expect("sent");
        let reply = client.read_reply().expect("a frame").expect("a reply");
        assert_eq!((reply.xid, reply.err), (1, 0));
        bytes = client.next_request(op, &body).1;
        client.send_raw(&bytes).expect("sent");
        assert_closed(&mut client);
    }
}

fn sasl_without_sasl(server: &Server) {
    let mut client = client(server);
    for token in [b"".as_slice(), b"token"] {
        let mut body = Vec::new();
        request::buffer(&mut body, token);
        let reply = call(&mut client, op::SASL, &body);
        assert_eq!((reply.zxid, reply.err), (0, 0));
        assert_eq!(reply.body.as_ref(), (-1_i32).to_be_bytes());
    }
    assert_alive(client);
}

fn auth_packets(server: &Server) {
    let mut client = client(server);
    for (scheme, token) in [("digest", "u:p"), ("digest", "nocolon"), ("ip", ""), ("digest", "")] {
        let reply = call(&mut client, op::AUTH, &request::auth(scheme, token.as_bytes()));
        assert_eq!((reply.zxid, reply.err, reply.body.len()), (0, 0, 0), "{scheme} {token}");
    }
    assert_alive(client);
    for scheme in ["world", "auth", "super", "sasl", "nosuch", ""] {
        let mut client = self::client(server);
        let reply = call(&mut client, op::AUTH, &request::auth(scheme, b"x"));
        assert_eq!((reply.xid, reply.zxid, reply.err), (1, 0, -115), "{scheme}");
        assert_closed(&mut client);
    }
}

fn servers_own_operations(server: &Server) {
    for (op, body) in [
        (op::CREATE_SESSION, 10_000_i32.to_be_bytes().to_vec()),
        (op::DELETE_CONTAINER, request::path("/zookeeper/x")),
    ] {
        let mut client = client(server);
        let reply = call(&mut client, op, &body);
        assert_eq!((reply.err, reply.zxid, reply.body.len()), (UNIMPLEMENTED, -1, 0), "op {op}");
        assert_closed(&mut client);
    }
}
