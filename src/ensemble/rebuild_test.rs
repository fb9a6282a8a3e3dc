//! Snapshots that are loaded ahead: the same tree, and the same refusals, as one znode at a time.

use std::path::Path;
use std::sync::Arc;

use jute::persist::{SnapshotDigest, SnapshotNode};
use jute::txn::{
    CreateSessionTxn, DIGEST_VERSION, DeleteTxn, Txn, TxnDigest, TxnHeader, TxnRecord,
};
use jute::{Record as _, StatPersisted};

use super::Rebuild;
use crate::engine::database::{Database, Rules};
use crate::message::told::lines_told;
use crate::storage::sim::SimDisk;
use crate::storage::{
    Compression, DataDirectory, DirectoryOptions, LogEnd, RaftState, RaftStateFile,
    RecoveryOptions, Replay as _, SnapshotId, SnapshotOrigin, SnapshotWriter, StorageError, Target,
    backup, examine, is_member, load_snapshot, recover,
};

const ZXID: i64 = 0x77;

fn node(number: usize, acl: i64) -> SnapshotNode<'static> {
    let data = (!number.is_multiple_of(3)).then(|| number.to_string().into_bytes().into());
    let czxid = number as i64;
    let stat = StatPersisted { czxid, mzxid: czxid, pzxid: czxid, ..StatPersisted::default() };
    SnapshotNode { data, acl, stat }
}

/// Ten thousand znodes: families in a row, families in turn, and a deep line; parents before their
/// children.
fn paths() -> Vec<String> {
    let mut paths: Vec<String> = vec![String::new()];
    paths.extend((0..40).map(|parent| format!("/p{parent}")));
    for parent in 0..20 {
        paths.extend((0..250).map(|child| format!("/p{parent}/c{child}")));
    }
    for child in 0..240 {
        paths.extend((20..40).map(|parent| format!("/p{parent}/c{child}")));
    }
    let mut deep = String::new();
    for _ in 0..200 {
        deep.push_str("/deep");
        paths.push(deep.clone());
    }
    paths
}

/// A snapshot file of these znodes, and where in it each of them begins.
fn snapshot(nodes: &[(String, SnapshotNode<'_>)]) -> (SimDisk, std::path::PathBuf, Vec<u64>) {
    let disk = SimDisk::default();
    let options =
        DirectoryOptions { data_dir: "/data".into(), data_log_dir: "/data".into(), create: true };
    let directory = DataDirectory::open(Arc::new(disk.clone()), &options).expect("opens");
    // No session, no ACL list.
    let mut stream = vec![0; 8];
    let mut places = Vec::new();
    for (path, node) in nodes {
        places.push(16 + stream.len() as u64);
        std::borrow::Cow::Borrowed(path.as_str()).encode(&mut stream);
        node.encode(&mut stream);
    }
    let mut writer =
        SnapshotWriter::create(&directory, ZXID, 0, Compression::None).expect("begins");
    writer.write(&stream).expect("writes");
    writer.finish(None).expect("finishes");
    (disk, Path::new("/data/version-2").join(format!("snapshot.{ZXID:x}")), places)
}

fn load(nodes: &[(String, SnapshotNode<'_>)]) -> Result<Database, StorageError> {
    let (disk, path, _) = snapshot(nodes);
    let mut rebuild = Rebuild::new(7, Rules::default());
    load_snapshot(&disk, &path, ZXID, &mut rebuild)?;
    Ok(rebuild.finish())
}

fn whole() -> Vec<(String, SnapshotNode<'static>)> {
    paths().into_iter().enumerate().map(|(number, path)| (path, node(number, -1))).collect()
}

/// A count and bytes, as jute has them.
fn put(stream: &mut Vec<u8>, bytes: &[u8]) {
    stream.extend(u32::try_from(bytes.len()).expect("short").to_be_bytes());
    stream.extend(bytes);
}

#[test]
fn characters_are_what_javas_writer_made_surrogates_of() {
    // U+1F600, as `BinaryOutputArchive.stringToByteBuffer` writes it.
    let surrogates = b"\xed\xa0\xbd\xed\xb8\x80";
    let mut stream = vec![0; 4];
    stream.extend(1_u32.to_be_bytes());
    stream.extend(7_i64.to_be_bytes());
    stream.extend([1_u32.to_be_bytes(), 31_u32.to_be_bytes()].concat());
    put(&mut stream, b"digest");
    put(&mut stream, surrogates);
    let znodes: [(&[u8], i64); 3] = [(b"", -1), (b"/x", 7), (b"/\xed\xa0\xbd\xed\xb8\x80", -1)];
    for (path, acl) in znodes {
        put(&mut stream, path);
        node(0, acl).encode(&mut stream);
    }
    let disk = SimDisk::default();
    let options =
        DirectoryOptions { data_dir: "/data".into(), data_log_dir: "/data".into(), create: true };
    let directory = DataDirectory::open(Arc::new(disk.clone()), &options).expect("opens");
    let mut writer =
        SnapshotWriter::create(&directory, ZXID, 0, Compression::None).expect("begins");
    writer.write(&stream).expect("writes");
    writer.finish(None).expect("finishes");
    let path = Path::new("/data/version-2").join(format!("snapshot.{ZXID:x}"));
    let mut rebuild = Rebuild::new(7, Rules::default());
    load_snapshot(&disk, &path, ZXID, &mut rebuild).expect("loads");
    let database = rebuild.finish();
    let tree = database.tree();
    let list = tree.acls().list(tree.acl(tree.find("/x").expect("x"))).expect("its list");
    assert_eq!(list[0].id.as_deref(), Some("\u{1f600}"));
    assert!(tree.find("/\u{1f600}").is_some());
}

#[test]
fn the_tree_is_that_of_one_znode_at_a_time() {
    let nodes = whole();
    let ahead = load(&nodes).expect("loads");
    let mut one_by_one = Database::empty(9, Rules::default());
    for (path, node) in &nodes {
        one_by_one.load_node(path, node).expect("fits");
    }
    one_by_one.finish_load(crate::engine::zxid::Zxid(ZXID));
    let (ahead, expected) = (ahead.tree(), one_by_one.tree());
    assert_eq!((ahead.count(), ahead.digest()), (expected.count(), expected.digest()));
    assert_eq!(ahead.data_size(), expected.data_size());
    for (path, node) in &nodes {
        let id = ahead.find(path).unwrap_or_else(|| panic!("{path} is missing"));
        assert_eq!(ahead.data(id), node.data.as_deref(), "{path}");
        assert_eq!(ahead.stat_persisted(id), node.stat, "{path}");
        let below = |tree: &crate::engine::tree::Tree| tree.find(path).map(|id| tree.below(id));
        assert_eq!(below(ahead), below(expected), "{path}");
        let children = |tree: &crate::engine::tree::Tree| -> Option<Vec<String>> {
            Some(tree.children(tree.find(path)?).map(str::to_owned).collect())
        };
        assert_eq!(children(ahead), children(expected), "{path}");
    }
}

/// The refusal of a snapshot with this znode put in at `place`.
fn refusal(place: usize, path: &str, acl: i64) -> (String, u64) {
    let mut nodes = whole();
    nodes.insert(place, (path.to_owned(), node(1, acl)));
    // A second reason further on is not the one that counts.
    nodes.insert(place + 2_000, ("/nowhere/at/all".to_owned(), node(1, -1)));
    let (.., places) = snapshot(&nodes);
    match load(&nodes) {
        Err(StorageError::Refused { offset, zxid: ZXID, reason, .. }) => {
            // Where the znode begins after its path.
            (reason, offset - places[place] - 4 - path.len() as u64)
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[test]
fn a_refusal_names_the_first_znode_that_does_not_fit() {
    // In the first batch and in a later one.
    for place in [100, 6_000] {
        let refused = |path, acl| refusal(place, path, acl);
        assert_eq!(refused("/p1", -1), ("znode /p1 exists already".to_owned(), 0));
        assert_eq!(refused("/no/x", -1), ("znode /no/x does not exist".to_owned(), 0));
        let no_list = "znode /x has ACL 5, which the snapshot does not contain";
        assert_eq!(refused("/x", 5), (no_list.to_owned(), 0));
    }
}

#[test]
fn a_broken_seal_behind_a_znode_that_comes_twice_is_not_what_is_told() {
    let mut nodes = whole();
    nodes.push(("/p1".to_owned(), node(1, -1)));
    let (disk, path, _) = snapshot(&nodes);
    let mut bytes = disk.content(&path);
    let seal = bytes.len() - 14;
    bytes[seal] ^= 1;
    disk.plant(&path, &bytes);
    let mut rebuild = Rebuild::new(7, Rules::default());
    let error = load_snapshot(&disk, &path, ZXID, &mut rebuild).expect_err("is refused");
    assert!(matches!(error, StorageError::Refused { .. }), "{error}");
    // Without that znode it is the seal, and the next snapshot is loaded into the same.
    bytes.clone_from(&snapshot(&whole()).0.content(&path));
    let seal = bytes.len() - 14;
    bytes[seal] ^= 1;
    disk.plant(&path, &bytes);
    let error = load_snapshot(&disk, &path, ZXID, &mut rebuild).expect_err("is refused");
    assert!(matches!(error, StorageError::Snapshot { .. }), "{error}");
    bytes[seal] ^= 1;
    disk.plant(&path, &bytes);
    load_snapshot(&disk, &path, ZXID, &mut rebuild).expect("loads");
    assert_eq!(rebuild.finish().tree().count(), load(&whole()).expect("loads").tree().count());
}

fn said(zxid: i64, digest: i64) -> Option<SnapshotDigest> {
    Some(SnapshotDigest { zxid, version: DIGEST_VERSION, digest })
}

/// Writes a snapshot of `whole()` with this digest.
fn write(directory: &DataDirectory, zxid: i64, digest: i64) {
    let mut stream = vec![0; 8];
    for (path, node) in whole() {
        std::borrow::Cow::Borrowed(path.as_str()).encode(&mut stream);
        node.encode(&mut stream);
    }
    let mut writer = SnapshotWriter::create(directory, zxid, 0, Compression::None).expect("begins");
    writer.write(&stream).expect("writes");
    writer.finish(said(zxid, digest)).expect("finishes");
}

#[test]
fn a_snapshot_of_ours_with_another_digest_than_its_znodes_gives_way_to_an_older_one() {
    let sum = load(&whole()).expect("loads").tree().compute_digest();
    let options =
        DirectoryOptions { data_dir: "/data".into(), data_log_dir: "/data".into(), create: true };
    for (digest, expected) in [(sum, 0x78), (sum ^ 1, 0x77)] {
        let disk = SimDisk::default();
        let directory = DataDirectory::open(Arc::new(disk), &options).expect("opens");
        write(&directory, 0x77, sum);
        write(&directory, 0x78, digest);
        let mut rebuild = Rebuild::new(7, Rules::default());
        let recovered =
            recover(&directory, RecoveryOptions::default(), &mut rebuild).expect("starts");
        assert_eq!(recovered.snapshot.zxid, expected);
        let database = rebuild.finish();
        assert_eq!((database.tree().digest(), database.mismatches()), (Some(sum), 0));
    }
    let disk = SimDisk::default();
    let directory = DataDirectory::open(Arc::new(disk), &options).expect("opens");
    write(&directory, 0x77, sum ^ 1);
    let mut rebuild = Rebuild::new(7, Rules::default());
    let refused = recover(&directory, RecoveryOptions::default(), &mut rebuild);
    assert!(matches!(refused, Err(StorageError::NoReadableSnapshot { .. })), "{refused:?}");
}

/// A session's opening: it changes no znode.
fn opening(zxid: i64, digest: Option<i64>) -> TxnRecord<'static> {
    let header = TxnHeader { client_id: zxid, cxid: 0, zxid, time: 0 };
    let txn = Txn::CreateSession(CreateSessionTxn { timeout_ms: 4000 });
    let digest = digest.map(|tree_digest| TxnDigest { version: DIGEST_VERSION, tree_digest });
    TxnRecord { header, txn, digest }
}

/// What is after a snapshot of ZooKeeper's, with these digests of its own and of the transactions
/// after it: how many mismatches there are.
fn mismatches(snapshot: Option<SnapshotDigest>, txns: &[(i64, i64)]) -> (i64, u64) {
    mismatches_after(10, snapshot, txns)
}

fn mismatches_after(
    zxid: i64,
    snapshot: Option<SnapshotDigest>,
    txns: &[(i64, i64)],
) -> (i64, u64) {
    let mut rebuild = Rebuild::new(7, Rules::default());
    rebuild.begin(&SnapshotId { zxid, origin: SnapshotOrigin::Java });
    rebuild.node("", &node(1, -1)).expect("fits");
    rebuild.node("/a", &node(2, -1)).expect("fits");
    rebuild.end(snapshot).expect("a digest of ZooKeeper's is never a reason");
    for (zxid, digest) in txns {
        rebuild.txn(&opening(*zxid, Some(*digest))).expect("fits");
    }
    let database = rebuild.finish();
    (database.last_zxid().0, database.mismatches())
}

#[test]
fn digests_of_zookeepers_are_compared_from_the_instant_of_its_snapshots_on() {
    let nodes = [("".to_owned(), node(1, -1)), ("/a".to_owned(), node(2, -1))];
    let mut database = Database::empty(1, Rules::default());
    for (path, node) in &nodes {
        database.load_node(path, node).expect("fits");
    }
    database.finish_load(crate::engine::zxid::Zxid(10));
    let sum = database.tree().compute_digest();
    let odd = sum + 1;
    // At its own zxid, and wrong there; the transactions count from then on.
    assert_eq!(mismatches(said(10, sum), &[(11, sum), (12, odd), (13, sum)]), (13, 1));
    assert_eq!(mismatches(said(10, odd), &[(11, sum)]), (11, 1));
    // It was written up to 12: before that nothing is meant.
    assert_eq!(mismatches(said(12, sum), &[(11, odd), (12, odd), (13, sum), (14, odd)]), (14, 1));
    assert_eq!(mismatches(said(12, odd), &[(11, odd), (12, odd), (13, odd)]), (13, 2));
    // The very first snapshot is that of one instant, though it says nothing.
    assert_eq!(mismatches_after(0, None, &[(1, sum), (2, odd), (3, odd)]), (3, 2));
    // Where it was written up to is not there, or nobody says it.
    for snapshot in [said(12, sum), said(9, sum), None] {
        assert_eq!(mismatches(snapshot, &[(11, odd), (13, odd)]), (13, 0));
    }
}

/// ZooKeeper's own is wrong after each create with the flags of a container, of which a log can
/// hold very many.
#[test]
fn a_start_tells_of_one_mismatch_and_how_many_there_are() {
    let (found, lines) = lines_told(|| {
        let (_, right) = mismatches(None, &[]);
        assert_eq!(right, 0);
        let nodes = [("", node(1, -1)), ("/a", node(2, -1))];
        let mut database = Database::empty(1, Rules::default());
        for (path, node) in &nodes {
            database.load_node(path, node).expect("fits");
        }
        database.finish_load(crate::engine::zxid::Zxid(10));
        let sum = database.tree().compute_digest();
        let txns: Vec<(i64, i64)> = (11..211).map(|zxid| (zxid, sum + zxid % 2)).collect();
        mismatches(said(10, sum), &txns).1
    });
    assert_eq!((found, lines), (100, 2));
}

#[test]
fn logs_of_zookeepers_that_overlap_give_the_highest_zxid() {
    // `FileTxnSnapLog.fastForwardFromEdits` complains and applies them.
    assert_eq!(mismatches(None, &[(11, 0), (12, 0), (11, 0)]), (12, 0));
    let mut rebuild = Rebuild::new(7, Rules::default());
    rebuild.begin(&SnapshotId { zxid: 10, origin: SnapshotOrigin::Exact { index: 10 } });
    rebuild.node("", &node(1, -1)).expect("fits");
    rebuild.end(None).expect("whole");
    rebuild.txn(&opening(11, None)).expect("fits");
    rebuild.txn(&opening(12, None)).expect("fits");
    for zxid in [11, 12] {
        let refused = rebuild.txn(&opening(zxid, None)).expect_err("is refused");
        assert_eq!(
            refused.0,
            "it follows transaction 0xc, whose zxid is not smaller: the logs overlap"
        );
    }
}

/// A leader with a wrong tree has decided it.
fn missing(zxid: i64) -> TxnRecord<'static> {
    let header = TxnHeader { client_id: 1, cxid: 0, zxid, time: 0 };
    TxnRecord { header, txn: Txn::Delete(DeleteTxn { path: "/nowhere".into() }), digest: None }
}

/// What the ensemble has agreed on, its former members and those who have a copy read as well. But
/// they ask whether the log is that of the snapshot, which nobody else tells them.
#[test]
fn a_log_of_an_ensemble_is_read_by_who_was_a_member_too() {
    let sum = load(&whole()).expect("loads").tree().compute_digest();
    let at = |disk: &SimDisk, folder: &str| {
        let (data_dir, data_log_dir) = (folder.into(), folder.into());
        let options = DirectoryOptions { data_dir, data_log_dir, create: true };
        DataDirectory::open(Arc::new(disk.clone()), &options).expect("opens")
    };
    let is_read = |directory: &DataDirectory| {
        let mut rebuild = Rebuild::new(7, Rules::default()).of(directory).expect("looks");
        let examined = examine(directory, false, i64::MAX, &mut rebuild).expect("reads");
        // As a start has it.
        let mut rebuild = Rebuild::new(7, Rules::default()).of(directory).expect("looks");
        let starts = recover(directory, RecoveryOptions::default(), &mut rebuild).is_ok();
        assert_eq!(matches!(examined.end, LogEnd::Clean), starts);
        starts
    };
    let copied = |disk: &SimDisk, from: &DataDirectory, to: &str| {
        let target = Target::new(Arc::clone(from.disk()), to.into(), to.into());
        let rebuild = Rebuild::new(7, Rules::default()).of(from).expect("looks");
        let mut rebuild = rebuild.of_former_member();
        backup(from, &target, &mut rebuild, &mut || (), &mut |_| ())?;
        target.publish().expect("gets its place");
        Ok::<_, StorageError>(at(disk, to))
    };
    // How many fit before.
    for (fitting, of_former) in [(1, true), (0, false)] {
        let disk = SimDisk::default();
        let directory = at(&disk, "/data");
        write(&directory, 0x77, sum);
        let mut rebuild = Rebuild::new(7, Rules::default());
        let mut recovered =
            recover(&directory, RecoveryOptions::default(), &mut rebuild).expect("starts");
        for zxid in 0x78..0x78 + fitting {
            recovered.log.append(&opening(zxid, None)).expect("appends");
        }
        recovered.log.append(&missing(0x78 + fitting)).expect("appends");
        recovered.log.commit().expect("commits");
        drop(recovered);
        assert!(!is_read(&directory));
        RaftStateFile::create(&directory, &RaftState::default(), None).expect("a member");
        let mut rebuild = Rebuild::new(7, Rules::default()).of(&directory).expect("looks");
        let examined = examine(&directory, false, i64::MAX, &mut rebuild).expect("reads");
        assert!(matches!(examined.end, LogEnd::Clean), "{:?}", examined.end);
        // What nobody could start from is no backup.
        let copy = copied(&disk, &directory, "/copy");
        assert_eq!(copy.is_ok(), of_former, "{copy:?}");
        if let Ok(copy) = &copy {
            assert!(!is_member(copy).expect("looks") && is_read(copy));
        }
        RaftStateFile::leave(&directory).expect("leaves");
        assert_eq!(is_read(&directory), of_former);
        if let Ok(copy) = &copy {
            assert!(is_read(&copied(&disk, copy, "/copy-of-copy").expect("is copied")));
        }
    }
}

/// What was applied after the snapshot belongs to it, whether or not it has a digest to say so.
#[test]
fn only_the_first_transaction_tells_of_another_history() {
    for (fitting, expected) in [(0, true), (1, false), (2, false)] {
        let mut rebuild = Rebuild::new(7, Rules::default());
        rebuild.begin(&SnapshotId { zxid: 10, origin: SnapshotOrigin::Exact { index: 10 } });
        rebuild.node("", &node(1, -1)).expect("fits");
        rebuild.end(None).expect("whole");
        for zxid in 11..11 + fitting {
            rebuild.txn(&opening(zxid, None)).expect("fits");
        }
        rebuild.txn(&missing(11 + fitting)).expect_err("there is no such znode");
        assert_eq!(rebuild.is_another_history(), expected, "{fitting}");
    }
}

/// A member's log and snapshots are compared with those of the others, and its start asks nothing
/// of this kind.
#[test]
fn a_members_directory_is_not_another_history_by_a_digest() {
    let sum = load(&whole()).expect("loads").tree().compute_digest();
    let options =
        DirectoryOptions { data_dir: "/data".into(), data_log_dir: "/data".into(), create: true };
    for is_member in [false, true] {
        let directory = DataDirectory::open(Arc::new(SimDisk::default()), &options).expect("opens");
        write(&directory, 0x77, sum);
        let mut rebuild = Rebuild::new(7, Rules::default());
        let mut recovered =
            recover(&directory, RecoveryOptions::default(), &mut rebuild).expect("starts");
        recovered.log.append(&opening(0x78, Some(sum ^ 1))).expect("appends");
        recovered.log.commit().expect("commits");
        if is_member {
            RaftStateFile::create(&directory, &RaftState::default(), None).expect("a member");
        }
        let mut rebuild = Rebuild::new(7, Rules::default());
        let examined = examine(&directory, false, i64::MAX, &mut rebuild).expect("reads");
        assert_eq!(matches!(examined.end, LogEnd::Damaged(_)), !is_member, "{:?}", examined.end);
        assert_eq!(rebuild.finish().mismatches(), 1);
    }
}
