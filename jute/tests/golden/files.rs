//! Whole files of a ZooKeeper server, part by part.

use std::borrow::Cow;

use jute::persist::{
    FILE_VERSION, FileHeader, LOG_MAGIC, SNAPSHOT_MAGIC, SnapshotDigest, SnapshotNode,
    SnapshotSession,
};
use jute::txn::{DIGEST_VERSION, Txn, TxnDigest, TxnHeader, TxnRecord};
use jute::{Acl, Record, StatPersisted, decode};

use super::txns::{
    check, close_session, container, create, create_session, create2, delete, encoded, set_acl,
    set_data, ttl,
};
use super::{Golden, STAT, acl, acls, data, open};

/// The first session of the run that made `traffic.txt`.
const SESSION: i64 = 0x0100_001e_b04d_0000;
/// What a snapshot keeps as the owner of a znode that lives for an hour.
const TTL: i64 = 0xff00_0000_0036_ee80_u64.cast_signed();

macro_rules! stat_persisted {
    ($czxid:expr, $mzxid:expr, $ctime:expr, $mtime:expr, $version:expr, $cversion:expr,
     $aversion:expr, $owner:expr, $pzxid:expr) => {
        StatPersisted {
            czxid: $czxid,
            mzxid: $mzxid,
            ctime: $ctime,
            mtime: $mtime,
            version: $version,
            cversion: $cversion,
            aversion: $aversion,
            ephemeral_owner: $owner,
            pzxid: $pzxid,
        }
    };
}

const LOG_HEADER: FileHeader = FileHeader { magic: LOG_MAGIC, version: FILE_VERSION, dbid: 0 };
const SNAPSHOT_HEADER: FileHeader =
    FileHeader { magic: SNAPSHOT_MAGIC, version: FILE_VERSION, dbid: -1 };

#[test]
fn records() {
    let mut file = Golden::open(include_str!("persist.txt"));
    file.record("log_header", &LOG_HEADER);
    file.record("snapshot_header", &SNAPSHOT_HEADER);
    file.record("stat", &STAT);
    file.record(
        "stat_persisted",
        &stat_persisted!(
            STAT.czxid,
            STAT.mzxid,
            STAT.ctime,
            STAT.mtime,
            3,
            4,
            5,
            i64::MIN,
            STAT.pzxid
        ),
    );
    file.record("acl", &acl(31, "digest", "süß:hash="));
    file.finish();
}

/// Client, cxid, zxid, time, transaction, sum of the tree.
type Entry = (i64, i32, i64, i64, Txn<'static>, Option<i64>);

fn record((client_id, cxid, zxid, time, txn, digest): Entry) -> TxnRecord<'static> {
    let header = TxnHeader { client_id, cxid, zxid, time };
    let digest = digest.map(|tree_digest| TxnDigest { version: DIGEST_VERSION, tree_digest });
    TxnRecord { header, txn, digest }
}

/// Takes one record off the front.
fn next<T: Record<'static>>(rest: &mut &'static [u8]) -> T {
    let (value, behind) = decode(rest).expect("a record");
    *rest = behind;
    value
}

/// The payloads of a log.
fn payloads(mut log: &'static [u8]) -> Vec<&'static [u8]> {
    assert_eq!(next::<FileHeader>(&mut log), LOG_HEADER);
    let mut payloads = Vec::new();
    while !log.is_empty() {
        let _checksum: i64 = next(&mut log);
        let Some(Cow::Borrowed(payload)) = next(&mut log) else { panic!("no payload") };
        payloads.push(payload);
        assert_eq!(next::<u8>(&mut log), b'B');
    }
    payloads
}

#[test]
fn logs() {
    let mut file = Golden::open(include_str!("log.txt"));
    let payloads_of = payloads(file.take("log"));
    let entries = entries();
    assert_eq!(payloads_of.len(), entries.len());
    for (payload, entry) in payloads_of.into_iter().zip(entries) {
        let expected = record(entry);
        assert_eq!(TxnRecord::decode(payload).as_ref(), Ok(&(expected.clone(), &[][..])));
        assert_eq!(encoded(&expected), payload);
    }
    without_close_session_record(&mut file);
    file.finish();
}

/// Where ZooKeeper leaves a closeSession without a record, this crate writes an empty list; all
/// else is the same.
fn without_close_session_record(file: &mut Golden) {
    let payloads_of = payloads(file.take("no_close_session_record"));
    let with_digest = no_close_session_record();
    assert_eq!(payloads_of.len(), with_digest.len());
    for (payload, entry) in payloads_of.into_iter().zip(with_digest) {
        assert_eq!(TxnRecord::decode(payload), Ok((record(entry), &[][..])));
    }
    let payloads_of = payloads(file.take("no_digest"));
    let without = no_digest();
    assert_eq!(payloads_of.len(), without.len());
    for (payload, entry) in payloads_of.into_iter().zip(without) {
        assert_eq!(TxnRecord::decode(payload), Ok((record(entry), &[][..])));
    }
}

fn error(code: i32) -> Txn<'static> {
    Txn::Error(code)
}

fn read_only() -> Option<Vec<Acl<'static>>> {
    Some(vec![Acl::anyone(1)])
}

fn entries() -> Vec<Entry> {
    vec![
        (SESSION, 0, 0x1, 1795250932442, create_session(6000), Some(0x51c6d660)),
        (
            SESSION,
            1,
            0x2,
            1795250932530,
            create("/käse", data("dätä"), open(), false, 1),
            Some(0x54dca3b9),
        ),
        (SESSION, 2, 0x3, 1795250932606, create2("/two", None, open(), false, 2), Some(0xb118747f)),
        (SESSION, 3, 0x4, 1795250932682, container("/box", data([]), open(), 3), Some(0x157b7bc38)),
        (
            SESSION,
            4,
            0x5,
            1795250932749,
            ttl("/ttl0000000003", data("t"), open(), 4, 3600000),
            Some(0x169a78a78),
        ),
        (
            SESSION,
            5,
            0x6,
            1795250932819,
            create("/eph-0000000004", data("e"), open(), true, 5),
            Some(0x2c900f7e9),
        ),
        (SESSION, 9, 0x7, 1795250933092, set_data("/käse", data("neu"), 1), Some(0x3222bc517)),
        (SESSION, 10, 0x8, 1795250933159, error(-103), None),
        (SESSION, 11, 0x9, 1795250933228, set_acl("/two", acls(), 1), Some(0x33762d158)),
        (SESSION, 20, 0xa, 1795250933823, create("/w", None, open(), false, 6), Some(0x38c02b535)),
        (SESSION, 25, 0xb, 1795250934088, error(-6), None),
        (
            SESSION,
            27,
            0xc,
            1795250934220,
            Txn::Multi(vec![
                check("/käse", 2),
                create("/m", data("1"), open(), false, 7),
                container("/mc", None, open(), 8),
                ttl("/mt", data("t"), open(), 9, 3600000),
                set_data("/m", data("22"), 1),
                delete("/w"),
            ]),
            Some(0x44964f5d7),
        ),
        (
            SESSION,
            28,
            0xd,
            1795250934287,
            Txn::Multi(vec![delete("/two"), error(-110), error(-2)]),
            Some(0x44964f5d7),
        ),
        (SESSION, 30, 0xe, 1795250934417, delete("/m"), Some(0x4cbf46ad3)),
        (SESSION, 39, 0xf, 1795250944427, close_session(&["/eph-0000000004"]), Some(0x36fc196e2)),
        (SESSION + 1, 0, 0x10, 1795250944593, create_session(6000), Some(0x36fc196e2)),
        (
            SESSION + 1,
            4,
            0x11,
            1795250944919,
            Txn::Multi(vec![
                create2("/raw2", data("2"), open(), false, 10),
                container("/rawc", data("c"), open(), 11),
            ]),
            Some(0x41756d244),
        ),
    ]
}

fn no_close_session_record() -> Vec<Entry> {
    const SESSION: i64 = 0x0100_001d_fceb_0000;
    vec![
        (SESSION, 0, 1, 1795250886494, create_session(6000), Some(0x51c6d660)),
        (SESSION, 1, 2, 1795250886504, create("/e", data([1]), open(), true, 1), Some(0x9ab67bf3)),
        (
            SESSION,
            2,
            3,
            1795250886511,
            create("/p", None, read_only(), false, 2),
            Some(0x164b6535c),
        ),
        (SESSION, 3, 4, 1795250886512, close_session(&[]), Some(0xe6b8058c)),
    ]
}

fn no_digest() -> Vec<Entry> {
    const SESSION: i64 = 0x0100_001e_084e_0000;
    vec![
        (SESSION, 0, 1, 1795250889458, create_session(6000), None),
        (SESSION, 1, 2, 1795250889475, create("/e", data([1]), open(), true, 1), None),
        (SESSION, 2, 3, 1795250889486, create("/p", None, read_only(), false, 2), None),
        (SESSION, 3, 4, 1795250889492, close_session(&[]), None),
    ]
}

#[test]
fn snapshot() {
    let mut file = Golden::open(include_str!("snapshot.txt"));
    let bytes = file.take("snapshot");
    let mut rest = bytes;
    let mut again = Vec::new();

    let header: FileHeader = next(&mut rest);
    assert_eq!(header, SNAPSHOT_HEADER);
    header.encode(&mut again);

    let sessions: Vec<SnapshotSession> = next(&mut rest);
    let session = |n| SnapshotSession { id: SESSION + n, timeout_ms: 6000 };
    assert_eq!(sessions, [session(3), session(2), session(1)]);
    sessions.encode(&mut again);

    let lists = [(1, read_only()), (2, open()), (3, acls())];
    assert_eq!(next::<i32>(&mut rest), 3);
    3i32.encode(&mut again);
    for (index, list) in lists {
        assert_eq!((next::<i64>(&mut rest), next(&mut rest)), (index, list.clone()));
        index.encode(&mut again);
        list.encode(&mut again);
    }

    for (path, data, acl, stat) in nodes() {
        assert_eq!(next::<Cow<'_, str>>(&mut rest), path);
        let node: SnapshotNode<'_> = next(&mut rest);
        assert_eq!(node, SnapshotNode { data, acl, stat }, "{path}");
        Cow::Borrowed(path).encode(&mut again);
        node.encode(&mut again);
    }

    // The end of the znodes and the seals, each a checksum and a "/".
    let end = Cow::Borrowed("/");
    assert_eq!(next::<Cow<'_, str>>(&mut rest), end);
    end.encode(&mut again);
    seal(&mut rest, &mut again, 0x28f3_b3e7);
    let digest: SnapshotDigest = next(&mut rest);
    let expected = SnapshotDigest { zxid: 0x28, version: DIGEST_VERSION, digest: 0x5_01d5_ea08 };
    assert_eq!(digest, expected);
    digest.encode(&mut again);
    seal(&mut rest, &mut again, 0xaf09_b8c3);
    let last_processed_zxid: i64 = next(&mut rest);
    assert_eq!(last_processed_zxid, 0x28);
    last_processed_zxid.encode(&mut again);
    seal(&mut rest, &mut again, 0xfb63_bb4e);

    assert_eq!(rest, [0; 0]);
    assert_eq!(again, bytes);
    file.finish();
}

fn seal(rest: &mut &'static [u8], again: &mut Vec<u8>, checksum: i64) {
    let end = Cow::Borrowed("/");
    assert_eq!((next::<i64>(rest), next::<Cow<'_, str>>(rest)), (checksum, end.clone()));
    checksum.encode(again);
    end.encode(again);
}

type Node = (&'static str, Option<Cow<'static, [u8]>>, i64, StatPersisted);

fn nodes() -> Vec<Node> {
    vec![
        ("", data([]), -1, stat_persisted!(0x0, 0x0, 0, 0, 0, 14, 0, 0x0, 0x28)),
        ("/zookeeper", data([]), -1, stat_persisted!(0x0, 0x0, 0, 0, 0, 0, 0, 0x0, 0x0)),
        ("/zookeeper/config", data([]), 1, stat_persisted!(0x0, 0x0, 0, 0, 0, 0, -1, 0x0, 0x0)),
        ("/zookeeper/quota", data([]), -1, stat_persisted!(0x0, 0x0, 0, 0, 0, 0, 0, 0x0, 0x0)),
        (
            "/ttl0000000003",
            data("t"),
            2,
            stat_persisted!(0x5, 0x5, 1795250932749, 1795250932749, 0, 0, 0, TTL, 0x5),
        ),
        (
            "/mc",
            None,
            2,
            stat_persisted!(0xc, 0xc, 1795250934220, 1795250934220, 0, 0, 0, i64::MIN, 0xc),
        ),
        (
            "/mt",
            data("t"),
            2,
            stat_persisted!(0xc, 0xc, 1795250934220, 1795250934220, 0, 0, 0, TTL, 0xc),
        ),
        (
            "/raw21_0",
            data("2"),
            2,
            stat_persisted!(0x17, 0x17, 1795250945368, 1795250945368, 0, 0, 0, 0x0, 0x17),
        ),
        (
            "/box",
            data([]),
            2,
            stat_persisted!(0x4, 0x4, 1795250932682, 1795250932682, 0, 0, 0, i64::MIN, 0x4),
        ),
        (
            "/raw21_4",
            data("2"),
            2,
            stat_persisted!(0x12, 0x12, 1795250944983, 1795250944983, 0, 0, 0, i64::MIN, 0x12),
        ),
        (
            "/two",
            None,
            3,
            stat_persisted!(0x3, 0x3, 1795250932606, 1795250932606, 0, 0, 1, 0x0, 0x3),
        ),
        (
            "/live",
            data("l"),
            2,
            stat_persisted!(0x28, 0x28, 1795250946964, 1795250946964, 0, 0, 0, SESSION + 3, 0x28),
        ),
        (
            "/käse",
            data("neu"),
            2,
            stat_persisted!(0x2, 0x7, 1795250932530, 1795250933092, 1, 0, 0, 0x0, 0x2),
        ),
        (
            "/raw2",
            data("2"),
            2,
            stat_persisted!(0x11, 0x11, 1795250944919, 1795250944919, 0, 0, 0, 0x0, 0x11),
        ),
    ]
}
