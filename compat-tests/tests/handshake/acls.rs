//! Which ACL lists are taken, and which error wins where several would do.

use bytes::BufMut as _;
use compat_tests::request::{self, op};
use compat_tests::{RawClient, Server};

use crate::Row;

pub(crate) const ROWS: [Row; 4] = [
    ("a null in a list is no scheme, or stumbled over where it is compared", nulls),
    ("which addresses an entry for ip can name", addresses),
    ("a list is looked at behind the path, and before the parent and the permission", order),
    ("duplicates go, and the order stays", duplicates),
];

const NOT_TAKEN: i32 = -114;
const STUMBLED: i32 = -5;

type Entry<'a> = (i32, Option<&'a str>, Option<&'a str>);

fn text(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => request::buffer(out, text.as_bytes()),
        None => out.put_i32(-1),
    }
}

fn set_acl(path: &str, list: &[Entry<'_>]) -> Vec<u8> {
    let mut out = request::path(path);
    out.put_i32(i32::try_from(list.len()).expect("few"));
    for (perms, scheme, id) in list {
        out.put_i32(*perms);
        text(&mut out, *scheme);
        text(&mut out, *id);
    }
    out.put_i32(-1);
    out
}

/// A client with an identity of its own, and a znode.
fn client(server: &Server, path: &str) -> RawClient {
    let mut client = server.connect(20_000);
    assert_eq!(call(&mut client, op::AUTH, &request::auth("digest", b"u:p")), 0);
    let create = request::create(path, None, request::mode::PERSISTENT);
    assert!([0, -110].contains(&call(&mut client, op::CREATE, &create)), "{path}");
    client
}

fn call(client: &mut RawClient, op: i32, body: &[u8]) -> i32 {
    client.call(op, body).expect("a reply").err
}

fn nulls(server: &Server) {
    let mut client = client(server, "/nulls");
    let auth = |id| (31, Some("auth"), id);
    let no_scheme = |perms| (perms, None, Some("x"));
    let digest = |perms| (perms, Some("digest"), Some("u:h"));
    let cases: [(&[Entry<'_>], i32); 16] = [
        (&[auth(None)], 0),
        (&[auth(None), auth(None)], STUMBLED),
        (&[auth(Some("x")), auth(None)], STUMBLED),
        (&[auth(None), auth(Some("x"))], 0),
        (&[(17, Some("auth"), None), auth(None)], 0),
        (&[no_scheme(1)], NOT_TAKEN),
        (&[no_scheme(1), no_scheme(1)], STUMBLED),
        (&[no_scheme(1), no_scheme(2)], NOT_TAKEN),
        (&[digest(1), no_scheme(1)], STUMBLED),
        (&[digest(2), no_scheme(1)], NOT_TAKEN),
        (&[no_scheme(1), digest(1)], NOT_TAKEN),
        (&[(1, Some("nosuch"), Some("x")), (1, Some("world"), None)], NOT_TAKEN),
        (&[(1, Some("world"), None)], STUMBLED),
        (&[(1, Some("digest"), None)], STUMBLED),
        (&[(1, Some("ip"), None)], STUMBLED),
        (&[(1, Some("nosuch"), None)], NOT_TAKEN),
    ];
    for (list, err) in cases {
        assert_eq!(call(&mut client, op::SET_ACL, &set_acl("/nulls", list)), err, "{list:?}");
    }
}

fn addresses(server: &Server) {
    let mut client = client(server, "/addresses");
    let taken = [
        "10.0.0.1",
        "0.0.0.0",
        "01.2.3.4",
        "0001.2.3.4",
        "+1.2.3.4",
        "-0.0.0.0",
        "10.0.0.0/8",
        "10.0.0.0/0",
        "10.0.0.0/32",
        "10.0.0.0/+8",
        "10.0.0.0/-0",
        "::",
        "::1",
        "1::",
        "fe80::/10",
        "::/128",
        "::1/0",
        "1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        "::ffff:102:304",
        "FE80::A",
        "+1::",
        "-1::",
        "-fff::",
        "0::0",
    ];
    let refused = [
        "",
        "host",
        "10.0.0",
        "10.0.0.256",
        "10.0.0.-1",
        "10.0.0.1.",
        ".10.0.0.1",
        "10..0.1",
        " 10.0.0.1",
        "10.0.0.1 ",
        "10.0.0.0/33",
        "10.0.0.0/-1",
        "10.0.0.0/",
        "10.0.0.0/8/8",
        "/8",
        "10.0.0.0/x",
        "::ffff:1.2.3.4",
        "::1.2.3.4",
        "1:2:3:4:5:6:1.2.3.4",
        "::/129",
        "::/-1",
        ":",
        ":::",
        "1::2::3",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7:8::",
        "::1:2:3:4:5:6:7:8",
        "1:2:3:4::5:6:7:8",
        "12345::",
        "00001::",
        "g::",
        "0x1::",
        "1:",
        ":1",
        ":1::",
        "::1:",
        "fe80::1%lo",
        "fe80::1%1",
        "[::1]",
        "1::/",
        "+::",
        "-::",
    ];
    for (ids, err) in [(&taken[..], 0), (&refused[..], NOT_TAKEN)] {
        for id in ids {
            let list = [(31, Some("world"), Some("anyone")), (1, Some("ip"), Some(*id))];
            assert_eq!(call(&mut client, op::SET_ACL, &set_acl("/addresses", &list)), err, "{id}");
        }
    }
}

fn order(server: &Server) {
    let mut client = client(server, "/order");
    let closed = [(1, Some("digest"), Some("nobody:x"))];
    let bad = [(31, Some("nosuch"), Some("x"))];
    let stumbling = [(31, Some("world"), None)];
    assert_eq!(call(&mut client, op::SET_ACL, &set_acl("/order", &closed)), 0);
    for (path, list, err) in [
        ("order", &bad[..], -8),
        ("/order/", &stumbling, -8),
        ("/missing", &bad, NOT_TAKEN),
        ("/missing", &stumbling, STUMBLED),
        ("/missing", &closed, -101),
        ("/order", &bad, NOT_TAKEN),
        ("/order", &[], NOT_TAKEN),
        ("/order", &closed, -102),
    ] {
        assert_eq!(call(&mut client, op::SET_ACL, &set_acl(path, list)), err, "{path} {list:?}");
    }
    for (path, scheme, err) in [
        ("order", "nosuch", -8),
        ("/missing/x", "nosuch", NOT_TAKEN),
        ("/order/x", "nosuch", NOT_TAKEN),
        ("/order/x", "auth", -102),
        ("/missing/x", "auth", -101),
        // The whole path is looked at last.
        ("/order/./x", "nosuch", NOT_TAKEN),
    ] {
        let create = request::create_for(path, &[(31, scheme, "")]);
        assert_eq!(call(&mut client, op::CREATE, &create), err, "{path} {scheme}");
    }
}

fn duplicates(server: &Server) {
    let mut client = client(server, "/duplicates");
    let entry = |user: usize| (31, "digest", ["a:h", "b:h", "c:h", "d:h"][user % 4]);
    let list: Vec<_> = [2, 0, 2, 1, 0, 3, 2].map(entry).into();
    let list = [&[(31, "world", "anyone")], &list[..], &[(1, "digest", "a:h")]].concat();
    let set = request::set_acl("/duplicates", &list);
    assert_eq!(call(&mut client, op::SET_ACL, &set), 0);
    let shown = client.call(op::GET_ACL, &request::path("/duplicates")).expect("a reply").acl();
    let expected = ["world:anyone:31", "digest:c:h:31", "digest:a:h:31", "digest:b:h:31"];
    assert_eq!(shown, [&expected[..], &["digest:d:h:31", "digest:a:h:1"]].concat());
}
