//! What the tests of a member's files begin with.

use std::sync::Arc;

use jute::txn::{CreateSessionTxn, Txn, TxnHeader, TxnRecord};

use super::configuration::MemberChange;
use super::start::Ensemble;
use crate::engine::database::Rules;
use crate::engine::decide::request::Chore;
use crate::storage::sim::SimDisk;
use crate::storage::{
    DataDirectory, DirectoryOptions, EntryKind, LogEntry, LogOptions, RecoveryOptions,
};

/// How server 1 starts, with files of the log of this length.
pub(super) fn ensemble(segment_len: u64, trust_empty: bool) -> Ensemble {
    let log = LogOptions { segment_len, spares: 1, force_sync: true };
    Ensemble {
        server: 1,
        recovery: RecoveryOptions { trust_empty, log },
        rules: Rules::default(),
        seed: 1,
        zxids_a_term: 1 << 20,
        list: None,
        standalone_enabled: true,
    }
}

/// The directory of a member on this disk.
pub(super) fn directory(disk: &SimDisk) -> DataDirectory {
    let options =
        DirectoryOptions { data_dir: "/data".into(), data_log_dir: "/data".into(), create: true };
    DataDirectory::open(Arc::new(disk.clone()), &options).expect("opens")
}

/// An entry that opens a session; the first one of a term is blank.
pub(super) fn entry(index: u64, zxid: i64) -> LogEntry {
    if zxid & 0xffff_ffff == 0 {
        return LogEntry::blank(index, zxid);
    }
    let header = TxnHeader { client_id: index.cast_signed(), cxid: 0, zxid, time: 1 };
    let txn = Txn::CreateSession(CreateSessionTxn { timeout_ms: 30_000 });
    let mut payload = Vec::new();
    TxnRecord { header, txn, digest: None }.encode(&mut payload);
    LogEntry::new(index, EntryKind::Ordinary, payload.into()).expect("a record")
}

/// An entry that changes the members.
pub(super) fn change(index: u64, zxid: i64, change: MemberChange) -> LogEntry {
    let Chore::Remark { of, code } = change.chore() else { panic!("a remark") };
    let header = TxnHeader { client_id: of, cxid: 0, zxid, time: 1 };
    let mut payload = Vec::new();
    TxnRecord { header, txn: Txn::Error(code), digest: None }.encode(&mut payload);
    LogEntry::new(index, EntryKind::Membership, payload.into()).expect("a record")
}
