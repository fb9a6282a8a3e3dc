//! Files between this server and ZooKeeper's own code: reads a directory that ZooKeeper wrote, and
//! writes one for its tools.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jute::persist::{SnapshotDigest, SnapshotNode};
use jute::txn::{CreateSessionTxn, CreateTxn, SetDataTxn, Txn, TxnDigest, TxnHeader, TxnRecord};
use jute::{Acl, IntoStatic, OpCode, Record, StatPersisted};

use super::disk::sim::SimDisk;
use super::fixture::{Fixture, offsets};
use super::ledger::{Ledger, txn};
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
        let mut writer = SnapshotWriter::create(directory, zxid, zxid as u64, Compression::None)?;
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

/// What a directory holds, in words.
#[derive(Debug, Default)]
struct Listing {
    nodes: Vec<String>,
    acls: Vec<(i64, Vec<Acl<'static>>)>,
    digest: Option<SnapshotDigest>,
    txns: Vec<(i64, OpCode)>,
    tree_digest: Option<TxnDigest>,
}

impl Replay for Listing {
    fn begin(&mut self, _snapshot: &SnapshotId) {
        *self = Self::default();
    }

    fn session(&mut self, id: i64, _timeout_ms: i32) -> Result<(), Refused> {
        Err(Refused(format!("session {id:#x}")))
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl<'_>>) -> Result<(), Refused> {
        self.acls.push((id, acl.into_static()));
        Ok(())
    }

    fn node(&mut self, path: &str, node: &SnapshotNode<'_>) -> Result<(), Refused> {
        let data = String::from_utf8_lossy(node.data.as_deref().unwrap_or_default());
        self.nodes.push(format!("{path}={data}@{:x} acl {}", node.stat.mzxid, node.acl));
        Ok(())
    }

    fn end(&mut self, digest: Option<SnapshotDigest>) -> Result<(), Refused> {
        self.digest = digest;
        Ok(())
    }

    fn progress(&mut self, _: Reading, _: u64, _: u64) {}

    fn is_another_history(&self) -> bool {
        false
    }

    fn txn(&mut self, record: &TxnRecord<'_>) -> Result<(), Refused> {
        self.txns.push((record.header.zxid, record.txn.op_code()));
        self.tree_digest = record.digest;
        Ok(())
    }
}

/// ZooKeeper 3.9.5 wrote these in two lives, killed after each; its TxnLogToolkit and
/// SnapshotFormatter tell what the test expects.
#[test]
fn a_directory_of_zookeeper_is_read() {
    let files: [(&str, &[u8]); 4] = [
        ("log.1", include_bytes!("testdata/zookeeper-3.9.5/log.1")),
        ("log.8", include_bytes!("testdata/zookeeper-3.9.5/log.8")),
        ("snapshot.0", include_bytes!("testdata/zookeeper-3.9.5/snapshot.0")),
        ("snapshot.7", include_bytes!("testdata/zookeeper-3.9.5/snapshot.7")),
    ];
    let second_life = [
        (0x8, OpCode::CreateSession),
        (0x9, OpCode::CreateContainer),
        (0xa, OpCode::Create),
        (0xb, OpCode::Delete),
        (0xc, OpCode::CloseSession),
    ];
    let first_life = [
        (0x1, OpCode::CreateSession),
        (0x2, OpCode::Create),
        (0x3, OpCode::Create),
        (0x4, OpCode::Create),
        (0x5, OpCode::Create),
        (0x6, OpCode::SetData),
        (0x7, OpCode::CloseSession),
    ];
    for newest in ["snapshot.7", "snapshot.0"] {
        let disk = SimDisk::default();
        for (name, bytes) in files.iter().filter(|(name, _)| *name <= newest) {
            disk.plant(&Path::new("/data/version-2").join(name), bytes);
        }
        let options = DirectoryOptions {
            data_dir: "/data".into(),
            data_log_dir: "/data".into(),
            create: false,
        };
        let directory = DataDirectory::open(Arc::new(disk), &options).expect("opens");
        let mut listing = Listing::default();
        let recovered =
            recover(&directory, RecoveryOptions::default(), &mut listing).expect("recovers");
        assert_eq!(recovered.snapshot.origin, SnapshotOrigin::Java);
        assert_eq!((recovered.last_zxid, recovered.log.next_index()), (0xc, 0xd));
        assert!(listing.tree_digest.is_some());
        assert_eq!(
            SessionKey::read(directory.disk().as_ref(), directory.snapshots()).ok(),
            Some(None)
        );
        if newest == "snapshot.0" {
            assert_eq!(listing.txns, [&first_life[..], &second_life].concat());
            assert_eq!(listing.digest, None);
            continue;
        }
        assert_eq!(listing.txns, second_life);
        assert_eq!(listing.digest.map(|digest| (digest.zxid, digest.version)), Some((7, 2)));
        listing.nodes.sort();
        let nodes = ["/a/s-0000000000=x@3 acl ", "/a=again@6 acl ", "/acl=y@5 acl "];
        for (found, start) in
            listing.nodes.iter().skip_while(|node| !node.starts_with("/a")).zip(nodes)
        {
            assert!(found.starts_with(start), "{found}");
        }
        assert_eq!(listing.nodes.len(), 7);
        let digest = Acl { perms: 1, scheme: Some("digest".into()), id: Some("u:h".into()) };
        assert!(listing.acls.iter().any(|(_, acl)| *acl == [digest.clone()]));
    }
}

/// The files of a directory that ZooKeeper wrote, and where its last log's records begin.
fn zookeepers(disk: &SimDisk, log_8: &[u8]) {
    let files: [(&str, &[u8]); 4] = [
        ("log.1", include_bytes!("testdata/zookeeper-3.9.5/log.1")),
        ("log.8", log_8),
        ("snapshot.0", include_bytes!("testdata/zookeeper-3.9.5/snapshot.0")),
        ("snapshot.7", include_bytes!("testdata/zookeeper-3.9.5/snapshot.7")),
    ];
    for (name, bytes) in files {
        disk.plant(&Fixture::path(name), bytes);
    }
}

/// ZooKeeper takes some of them for the end of its log, and loses what follows without a word. Of
/// the last record nobody can tell a bit that turned over from a write that was cut off.
#[test]
fn no_bit_of_zookeepers_log_that_turns_over_loses_a_record_that_is_followed_by_another() {
    let good = include_bytes!("testdata/zookeeper-3.9.5/log.8");
    let begins = offsets(good);
    let end = *begins.last().expect("an end");
    let last = begins[begins.len() - 2];
    let (mut refused, mut whole) = (0, 0);
    for bit in 0..8 * end {
        let mut bytes = good.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let fixture = Fixture::default();
        zookeepers(&fixture.disk, &bytes);
        match recover(&fixture.open(), RecoveryOptions::default(), &mut Nothing) {
            Err(error) => {
                let known = matches!(
                    error,
                    StorageError::Damage { .. }
                        | StorageError::Unfit { .. }
                        | StorageError::LaterVersion { .. }
                );
                assert!(known, "bit {bit}: {error:?}");
                refused += 1;
            }
            Ok(recovered) => {
                let least = if bit / 8 < last { 0xc } else { 0xb };
                assert!(recovered.last_zxid >= least, "bit {bit}: {:#x}", recovered.last_zxid);
                whole += 1;
            }
        }
    }
    assert!(refused > 4 * end && whole > 0, "{refused} {whole}");
}

#[test]
fn what_zookeeper_wrote_under_the_name_of_a_new_segment_is_kept() {
    let good = include_bytes!("testdata/zookeeper-3.9.5/log.8");
    let first = offsets(good)[1];
    // Cut off in its first record.
    let torn = good[..first - 1].to_vec();
    let fixture = Fixture::default();
    zookeepers(&fixture.disk, &torn);
    let directory = fixture.open();
    let mut recovered =
        recover(&directory, RecoveryOptions::default(), &mut Nothing).expect("recovers");
    assert_eq!(recovered.last_zxid, 7);
    recovered.log.append(&txn(8, b"ours")).expect("appends");
    recovered.log.commit().expect("commits");
    assert_eq!(fixture.content("unreadable-1.log.8"), torn);
    assert_ne!(fixture.content("log.8"), torn);
}

/// `FERROKEEPER_OUT=<folder> cargo test --lib -- --ignored write_a_directory_for_zookeeper`
#[test]
#[ignore = "writes into the folder FERROKEEPER_OUT, for ZooKeeper's tools"]
fn write_a_directory_for_zookeeper() {
    let out = std::env::var("FERROKEEPER_OUT").expect("FERROKEEPER_OUT names a folder");
    let data_dir = Path::new(&out).to_owned();
    let options = DirectoryOptions { data_log_dir: data_dir.clone(), data_dir, create: true };
    let directory = DataDirectory::open(Arc::new(RealDisk), &options).expect("opens");
    let log = LogOptions { segment_len: 2 << 20, ..LogOptions::default() };
    let options = RecoveryOptions { trust_empty: false, log };
    let mut log = recover(&directory, options, &mut Ledger::default()).expect("recovers").log;
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
