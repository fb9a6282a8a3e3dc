//! Snapshots that are loaded ahead: the same tree, and the same refusals, as one znode at a time.

use std::path::Path;
use std::sync::Arc;

use jute::persist::SnapshotNode;
use jute::{Record as _, StatPersisted};

use super::Rebuild;
use crate::engine::database::{Database, Rules};

use crate::storage::sim::SimDisk;
use crate::storage::{
    Compression, DataDirectory, DirectoryOptions, SnapshotWriter, StorageError, load_snapshot,
};

const ZXID: i64 = 0x77;

fn node(number: usize, acl: i64) -> SnapshotNode<'static> {
    let data = (!number.is_multiple_of(3)).then(|| number.to_string().into_bytes().into());
    let czxid = number as i64;
    let stat = StatPersisted { czxid, mzxid: czxid, pzxid: czxid, ..StatPersisted::default() };
    SnapshotNode { data, acl, stat }
}

/// Ten thousand znodes: families in a row, families in turn, and a deep line; parents before their children.
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

#[test]
fn the_tree_is_that_of_one_znode_at_a_time() {
    let nodes = whole();
    let ahead = load(&nodes).expect("loads");
    let mut one_by_one = Database::empty(9, Rules::default());
    for (path, node) in &nodes {
        one_by_one.load_node(path, node).expect("fits");
    }
    one_by_one.finish_load(crate::engine::zxid::Zxid(ZXID), None);
    one_by_one.ensure_digest();
    let (ahead, expected) = (ahead.tree(), one_by_one.tree());
    assert_eq!((ahead.count(), ahead.digest()), (expected.count(), expected.digest()));
    assert_eq!(ahead.data_size(), expected.data_size());
    for (path, node) in &nodes {
        let id = ahead.find(path).unwrap_or_else(|| panic!("{path} is missing"));
        assert_eq!(ahead.data(id), node.data.as_deref(), "{path}");
        assert_eq!(ahead.stat_persisted(id), node.stat, "{path}");
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
            // Where the znode begins behind its path.
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
        let no_list = "znode /x has ACL 5, which the snapshot does not hold";
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
