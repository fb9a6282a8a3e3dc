//! Data directories to try the tools on.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use ferrokeeper::engine::database::Rules;
use ferrokeeper::ensemble::{Rebuild, write_walk};
use ferrokeeper::storage::{
    Compression, DataDirectory, DirectoryOptions, LogOptions, RealDisk, RecoveryOptions,
    SnapshotWriter, TxnLog, recover,
};
use jute::Acl;
use jute::txn::{CreateSessionTxn, CreateTxn, SetDataTxn, Txn, TxnHeader, TxnRecord};
use serde_json::Value;

/// The session of the transactions that are written here.
pub(crate) const SESSION: i64 = 0x0100_0029_fe52_0000;

/// When the transaction of a zxid is made, in milliseconds.
pub(crate) fn time_of(zxid: i64) -> i64 {
    1_700_000_000_000 + zxid * 1000
}

pub(crate) fn ferrokeeper(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrokeeper"));
    command.args(words).stdin(Stdio::null());
    command.env_remove("SERVER_JVMFLAGS").env_remove("JVMFLAGS");
    command
}

/// One process begins at a time: until it runs its own program it has whatever files this one has
/// open, and a tool that looks for who uses a directory finds it there.
static BEGINS: Mutex<()> = Mutex::new(());

pub(crate) fn spawn(command: &mut Command) -> Child {
    let _one = BEGINS.lock().unwrap_or_else(PoisonError::into_inner);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
}

/// What it said, when it has ended.
pub(crate) fn output(command: &mut Command) -> Output {
    spawn(command).wait_with_output().expect("it ends")
}

/// How a tool ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// Its lines as JSON.
    pub(crate) fn json(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{self:?}"));
        self.out.lines().map(parse).collect()
    }
}

pub(crate) fn run(words: &[&str]) -> Ended {
    let Output { status, stdout, stderr } = output(&mut ferrokeeper(words));
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    let (out, err) = (text(stdout), text(stderr));
    let code = status.code().unwrap_or_else(|| panic!("{words:?} was killed: {err}"));
    assert!((0..=3).contains(&code) && !err.contains("panicked"), "{words:?}: {code} {err}");
    Ended { code, out, err }
}

/// Runs a tool that must find nothing wrong.
pub(crate) fn fine(words: &[&str]) -> Ended {
    let ended = run(words);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{words:?}: {}", ended.out);
    ended
}

/// The one JSON object of a tool that finds nothing wrong.
pub(crate) fn object(words: &[&str]) -> Value {
    let mut lines = fine(words).json();
    assert_eq!(lines.len(), 1, "{words:?}: {lines:?}");
    lines.remove(0)
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// A directory that Apache ZooKeeper 3.9.5 wrote: zxids 1 to 7, a restart, 8 to 12.
pub(crate) fn java(at: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/storage/testdata/zookeeper-3.9.5");
    copy(&from, &at.join("version-2"));
    at.to_owned()
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("lists") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("copies");
        }
    }
}

/// Path and content of every file.
pub(crate) fn image(at: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(at).expect("lists") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(image(&path));
        } else {
            files.insert(path.clone(), fs::read(&path).expect("reads"));
        }
    }
    files
}

/// A directory of ferrokeeper's: a session, /a, and `sets` changes of its data, two transactions a
/// group, with a new log every `roll` groups.
pub(crate) fn own(at: &Path, sets: i64, roll: i64) -> PathBuf {
    let options =
        DirectoryOptions { data_dir: at.to_owned(), data_log_dir: at.to_owned(), create: true };
    let directory = DataDirectory::open(Arc::new(RealDisk), &options).expect("opens");
    let mut rebuild = Rebuild::new(0, Rules::default());
    let log = LogOptions::new(0, true);
    let options = RecoveryOptions { log, ..RecoveryOptions::default() };
    let mut log = recover(&directory, options, &mut rebuild).expect("recovers").log;
    let mut database = rebuild.finish();
    database.begin_walk();
    let writer = SnapshotWriter::create(&directory, 0, 0, Compression::None).expect("a snapshot");
    let tree = database.tree();
    write_walk(writer, std::iter::from_fn(|| tree.advance_walk(u32::MAX, 0))).expect("written");

    append(&mut log, 1, Txn::CreateSession(CreateSessionTxn { timeout_ms: 30_000 }));
    let create = CreateTxn {
        path: "/a".into(),
        data: Some(Cow::Borrowed(b"2")),
        acl: Some(vec![Acl::anyone(31)]),
        ephemeral: false,
        parent_cversion: 1,
    };
    append(&mut log, 2, Txn::Create(create));
    log.commit().expect("commits");
    for zxid in 3..3 + sets {
        let data = zxid.to_string().into_bytes();
        let version = i32::try_from(zxid - 2).expect("small");
        let set = SetDataTxn { path: "/a".into(), data: Some(data.into()), version };
        append(&mut log, zxid, Txn::SetData(set));
        if zxid % 2 == 0 || zxid == 2 + sets {
            log.commit().expect("commits");
            if zxid / 2 % roll == 0 {
                log.roll();
            }
        }
    }
    at.to_owned()
}

/// Adds a znode `/who` with this ACL after the zxids 1 and 2.
pub(crate) fn add_with_acl(at: &Path, acl: Vec<Acl<'_>>) {
    let create = CreateTxn {
        path: "/who".into(),
        data: None,
        acl: Some(acl),
        ephemeral: false,
        parent_cversion: 2,
    };
    add(at, Txn::Create(create));
}

/// Adds a transaction after the zxids 1 and 2.
pub(crate) fn add(at: &Path, txn: Txn<'_>) {
    let options =
        DirectoryOptions { data_dir: at.to_owned(), data_log_dir: at.to_owned(), create: false };
    let directory = DataDirectory::open(Arc::new(RealDisk), &options).expect("opens");
    let mut rebuild = Rebuild::new(0, Rules::default());
    let log = LogOptions::new(0, true);
    let options = RecoveryOptions { log, ..RecoveryOptions::default() };
    let mut log = recover(&directory, options, &mut rebuild).expect("recovers").log;
    append(&mut log, 3, txn);
    log.commit().expect("commits");
}

fn append(log: &mut TxnLog, zxid: i64, txn: Txn<'_>) {
    let header = TxnHeader {
        client_id: SESSION,
        cxid: i32::try_from(zxid).expect("small"),
        zxid,
        time: time_of(zxid),
    };
    log.append(&TxnRecord { header, txn, digest: None }).expect("appends");
}

/// Where each record of a log begins, and where the last one ends.
pub(crate) fn offsets(bytes: &[u8]) -> Vec<usize> {
    let mut offsets = vec![16];
    let mut at = 16;
    while let Some(len) = bytes.get(at + 8..at + 12) {
        let len = u32::from_be_bytes(len.try_into().expect("4 bytes"));
        if len == 0 {
            break;
        }
        at += 13 + len as usize;
        offsets.push(at);
    }
    offsets
}
