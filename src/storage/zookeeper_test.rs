//! Files between this server and ZooKeeper's own code: reads a directory that ZooKeeper wrote, and
//! writes one for its tools.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jute::persist::{SnapshotDigest, SnapshotNode};
use jute::txn::{CreateSessionTxn, CreateTxn, SetDataTxn, Txn, TxnDigest, TxnHeader, TxnRecord};
use jute::{Acl, Record, StatPersisted};

use super::*;

const SESSION: i64 = 0x1_0000_0000_0077;

/// A tree that knows as much as a digest needs.
#[derive(Debug, Default)]
struct Tree {
    nodes: BTreeMap<String, (Vec<u8>, StatPersisted)>,
}

impl Tree {
    fn new() -> Self {
        let nodes = ["", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"]
            .map(|path| (path.to_owned(), (Vec::new(), StatPersisted::default())));
        Self { nodes: nodes.into() }
    }

    fn digest(&self) -> i64 {
        let counted = self.nodes.iter().filter(|(path, _)| !path.starts_with("/zookeeper/"));
        counted.fold(0, |sum, (path, (data, stat))| {
            let mut crc = crc32fast::Hasher::new();
            crc.update(path.as_bytes());
            crc.update(data);
            for value in [stat.czxid, stat.mzxid, stat.pzxid, stat.ctime, stat.mtime] {
                crc.update(&value.to_be_bytes());
            }
            for value in [stat.version, stat.cversion, stat.aversion] {
                crc.update(&value.to_be_bytes());
            }
            crc.update(&stat.ephemeral_owner.to_be_bytes());
            sum + i64::from(crc.finalize())
        })
    }

    fn apply(&mut self, header: TxnHeader, txn: &Txn<'_>) {
        let TxnHeader { zxid, time, .. } = header;
        match txn {
            Txn::Create(create) => {
                let data = create.data.clone().unwrap_or_default().into_owned();
                let stat = StatPersisted {
                    czxid: zxid,
                    mzxid: zxid,
                    pzxid: zxid,
                    ctime: time,
                    mtime: time,
                    ..StatPersisted::default()
                };
                self.nodes.insert(create.path.clone().into_owned(), (data, stat));
                let parent = create.path.rsplit_once('/').expect("a parent").0;
                let (_, stat) = self.nodes.get_mut(parent).expect("a parent");
                stat.cversion = create.parent_cversion;
                stat.pzxid = zxid;
            }
            Txn::SetData(set) => {
                let (data, stat) = self.nodes.get_mut(set.path.as_ref()).expect("there");
                *data = set.data.clone().unwrap_or_default().into_owned();
                stat.version = set.version;
                stat.mzxid = zxid;
                stat.mtime = time;
            }
            _ => {}
        }
    }

    fn write(&self, directory: &DataDirectory, zxid: i64) -> Result<(), StorageError> {
        let mut writer = SnapshotWriter::create(directory, zxid, zxid as u64)?;
        let mut stream = Vec::new();
        i32::from(zxid > 0).encode(&mut stream);
        if zxid > 0 {
            SESSION.encode(&mut stream);
            30_000_i32.encode(&mut stream);
        }
        1_i32.encode(&mut stream);
        1_i64.encode(&mut stream);
        vec![Acl::anyone(31)].encode(&mut stream);
        for (path, (data, stat)) in &self.nodes {
            Cow::Borrowed(path.as_str()).encode(&mut stream);
            let node = SnapshotNode { data: Some(Cow::Borrowed(data)), acl: 1, stat: *stat };
            node.encode(&mut stream);
        }
        writer.write(&stream)?;
        writer.finish(Some(SnapshotDigest { zxid, version: 2, digest: self.digest() }))?;
        Ok(())
    }
}

/// `ROOKEEPER_OUT=<folder> cargo test --lib -- --ignored write_a_directory_for_zookeeper`
#[test]
#[ignore = "writes into the folder ROOKEEPER_OUT, for ZooKeeper's tools"]
fn write_a_directory_for_zookeeper() {
    let out = std::env::var("ROOKEEPER_OUT").expect("ROOKEEPER_OUT names a folder");
    let data_dir = Path::new(&out).to_owned();
    let options = DirectoryOptions { data_log_dir: data_dir.clone(), data_dir, create: true };
    let directory = DataDirectory::open(Arc::new(RealDisk), &options).expect("opens");
    let log = LogOptions { segment_len: 2 << 20, ..LogOptions::default() };
    let options = RecoveryOptions { trust_empty: false, log };
    let mut log =
        recover(&directory, options, &mut ledger::Ledger::default()).expect("recovers").log;
    let mut tree = Tree::new();
    tree.write(&directory, 0).expect("snapshot.0");
    let mut filler = log.spare_filler();
    while filler.step().expect("fills") != FillStep::Idle {}

    let mut zxid = 0;
    for group in 0..4 {
        for _ in 0..3 {
            zxid += 1;
            let txn = match zxid {
                1 => Txn::CreateSession(CreateSessionTxn { timeout_ms: 30_000 }),
                5 => Txn::Error(-101),
                6 | 7 => Txn::SetData(SetDataTxn {
                    path: "/n2".into(),
                    data: Some(Cow::Borrowed(b"again")),
                    version: zxid as i32 - 5,
                }),
                _ => Txn::Create(CreateTxn {
                    path: format!("/n{zxid}").into(),
                    data: Some(Cow::Borrowed(b"hello")),
                    acl: Some(vec![Acl::anyone(31)]),
                    ephemeral: false,
                    parent_cversion: zxid as i32,
                }),
            };
            let header = TxnHeader { client_id: SESSION, cxid: 1, zxid, time: 1_700_000_000_000 };
            tree.apply(header, &txn);
            let digest = (!matches!(txn, Txn::Error(_)))
                .then(|| TxnDigest { version: 2, tree_digest: tree.digest() });
            log.append(&TxnRecord { header, txn, digest }).expect("appends");
        }
        log.commit().expect("commits");
        if group == 1 {
            tree.write(&directory, zxid).expect("snapshot");
            log.roll();
        }
    }
}
