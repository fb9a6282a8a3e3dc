//! A member of which one znode is not what the log says: it finds out, loads the right tree, and
//! serves that.

use std::sync::Arc;

use ferrokeeper::engine::apply::Mode;
use ferrokeeper::engine::database::Rules;
use ferrokeeper::ensemble::{Rebuild, write_walk};
use ferrokeeper::storage::{
    Compression, DataDirectory, DirectoryOptions, LogOptions, RealDisk, RecoveryOptions,
    SnapshotWriter, recover,
};
use jute::CreateMode;
use jute::txn::{SetDataTxn, Txn, TxnHeader};

use crate::client::{create, set, until};
use crate::ensemble::{Patient, leader, start};
use crate::process::Server;

/// Puts a snapshot into the directory of a server that does not run, with everything that a start
/// looks at, in which one znode has other data.
fn spoil(server: &Server, path: &str, data: &[u8]) {
    let options =
        DirectoryOptions { data_dir: server.data(), data_log_dir: server.data(), create: false };
    let directory = DataDirectory::open(Arc::new(RealDisk), &options).expect("a directory");
    let log = LogOptions { segment_len: 1 << 20, spares: 0, force_sync: true };
    let mut rebuild = Rebuild::new(1, Rules::default());
    let options = RecoveryOptions { trust_empty: false, log };
    let recovered = recover(&directory, options, &mut rebuild).expect("recovers");
    let index = recovered.log.next_index() - 1;
    let mut database = rebuild.finish();
    let zxid = database.last_zxid();
    let version = database.tree().find(path).map(|node| database.tree().stat(node).version);
    let header = TxnHeader { client_id: 0, cxid: 0, zxid: zxid.0, time: 0 };
    let txn = Txn::SetData(SetDataTxn {
        path: path.into(),
        data: Some(data.into()),
        version: version.expect("is there") + 1,
    });
    database.apply(&header, txn, None, Mode::Strict, &mut Vec::new()).expect("fits");
    database.begin_walk();
    let writer =
        SnapshotWriter::create(&directory, zxid.0, index, Compression::None).expect("a file");
    let tree = database.tree();
    let steps = std::iter::from_fn(|| tree.advance_walk(1 << 10, 1 << 16));
    assert!(write_walk(writer, steps).expect("writes") > 0);
}

#[test]
fn a_follower_whose_snapshot_was_changed_loads_the_leaders_tree() {
    let mut servers = start(3);
    let first = leader(&servers);
    let at = (first + 1) % 3;
    let mut client = Patient::connect(&servers[first], 10_000);
    client.ok(&create("/right", b"right".to_vec(), CreateMode::Persistent));
    client.ok(&create("/other", b"other".to_vec(), CreateMode::Persistent));
    until("all have it", || {
        servers.iter().all(|server| Patient::connect(server, 10_000).value("/right") == b"right")
    });
    servers[at].signal("TERM");
    assert!(servers[at].wait().success());
    spoil(&servers[at], "/right", b"wrong");
    servers[at].run();
    until("it is found and healed", || {
        let log = servers[at].log();
        log.contains("[FK0471]") && log.contains("replaced the wrong tree")
    });
    let mut other = Patient::connect(&servers[at], 10_000);
    assert_eq!(other.value("/right"), b"right");
    // And it goes on with what comes.
    client.ok(&set("/right", b"newer".to_vec()));
    assert_eq!(other.value("/right"), b"newer");
    let log = servers[at].log();
    assert_eq!(log.matches("[FK0471]").count(), 1, "{log}");
    until("its log says so", || servers[leader(&servers)].log().contains("[FK0473]"));
    // What it loaded is on its disk.
    servers[at].signal("TERM");
    assert!(servers[at].wait().success());
    servers[at].run();
    let mut again = Patient::connect(&servers[at], 10_000);
    assert_eq!(again.value("/right"), b"newer");
}
