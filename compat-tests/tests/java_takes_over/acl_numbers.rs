//! A snapshot's numbers of ACL lists, which only rise: one for each list that a server ever had.

use std::fs;

use bytes::BufMut as _;
use compat_tests::request::{self, op};
use compat_tests::{Kind, RawClient, Server};

use super::{TIMEOUT, write};

/// As a server that makes a hundred locks a second has them in two days, in a year, and at the end
/// of all.
const NUMBERS: [i64; 6] = [1, (1 << 24) + 1, 1 << 31, (1 << 32) + 7, 1 << 62, i64::MAX - 5];

/// What the znode of a number has.
fn list(number: i64) -> Vec<(i32, &'static str, String)> {
    vec![(31, "world", "anyone".to_owned()), (1, "digest", format!("user{number}:hash"))]
}

fn shown(number: i64) -> Vec<String> {
    list(number).iter().map(|(perms, scheme, id)| format!("{scheme}:{id}:{perms}")).collect()
}

fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (a + b) % 65_521)
    });
    b << 16 | a
}

/// A snapshot as ZooKeeper writes it without digests.
fn snapshot() -> Vec<u8> {
    let mut out = b"ZKSN".to_vec();
    out.put_i32(2);
    out.put_i64(-1);
    out.put_i32(0);
    out.put_i32(i32::try_from(NUMBERS.len()).expect("few"));
    for number in NUMBERS {
        out.put_i64(number);
        let list = list(number);
        let entries: Vec<_> =
            list.iter().map(|(perms, scheme, id)| (*perms, *scheme, id.as_str())).collect();
        request::acl(&mut out, &entries);
    }
    let reserved = ["", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"];
    let nodes = reserved.into_iter().map(|path| (path.to_owned(), -1));
    for (path, number) in nodes.chain(NUMBERS.map(|number| (format!("/n{number}"), number))) {
        request::buffer(&mut out, path.as_bytes());
        request::buffer(&mut out, b"x");
        out.put_i64(number);
        // czxid to pzxid.
        out.put_bytes(0, 60);
    }
    request::buffer(&mut out, b"/");
    let seal = adler32(&out);
    out.put_i64(seal.into());
    request::buffer(&mut out, b"/");
    out
}

fn check(server: &Server, numbers: &[i64]) {
    let mut client = server.connect(TIMEOUT);
    for number in numbers {
        let path = request::path(&format!("/n{number}"));
        let got = client.call(op::GET_ACL, &path).expect("a reply");
        assert_eq!((got.err, got.acl()), (0, shown(*number)), "{number}, {:?}", server.kind());
    }
}

/// A znode with a list of its own.
fn make(client: &mut RawClient, number: i64) {
    let list = list(number);
    let entries: Vec<_> =
        list.iter().map(|(perms, scheme, id)| (*perms, *scheme, id.as_str())).collect();
    write(client, op::CREATE, &request::create_for(&format!("/n{number}"), &entries));
}

fn remove(client: &mut RawClient, number: i64) {
    write(client, op::DELETE, &request::path_version(&format!("/n{number}"), -1));
}

#[test]
fn any_number_that_zookeeper_gives_out_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("version-2")).expect("a folder");
    fs::write(folder.path().join("version-2/snapshot.64"), snapshot()).expect("written");
    // That it is one that ZooKeeper reads, and then one that it reads back.
    for kinds in [[Kind::Reference, Kind::subject()], [Kind::subject(), Kind::Reference]] {
        let mut server = Server::on_copy(kinds[0], &[], folder.path());
        server.restart();
        check(&server, &NUMBERS);
        let mut client = server.connect(TIMEOUT);
        make(&mut client, 2);
        remove(&mut client, NUMBERS[3]);
        drop(client);
        server.stop();
        server.hand_over_to(kinds[1]);
        server.restart();
        let left = [NUMBERS[0], NUMBERS[1], NUMBERS[2], NUMBERS[4], NUMBERS[5], 2];
        check(&server, &left);
        server.stop();
        server.hand_over_to(kinds[0]);
        server.restart();
        check(&server, &left);
    }
}

#[test]
fn locks_that_come_and_go_take_no_numbers_here() {
    let mut server = Server::start(Kind::Reference, &["snapCount=1000"]);
    let mut client = server.connect(TIMEOUT);
    make(&mut client, 0);
    for lock in 1..=60 {
        make(&mut client, lock);
        if lock % 20 != 0 {
            remove(&mut client, lock);
        }
    }
    drop(client);
    let left = [0, 20, 40, 60];
    for kind in [Kind::Reference, Kind::subject(), Kind::Reference] {
        server.stop();
        server.hand_over_to(kind);
        server.restart();
        check(&server, &left);
    }
}
