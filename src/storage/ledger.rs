//! The plain model of the tests: every transaction ever, by zxid, with its content.
//!
//! As a snapshot it is one znode per transaction, so a start from any snapshot and its logs must
//! give the same ledger as a start from the beginning.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jute::persist::{SnapshotDigest, SnapshotNode};
use jute::txn::{SetDataTxn, Txn, TxnDigest, TxnHeader, TxnRecord};
use jute::{Acl, Record, StatPersisted};

use super::compression::Compression;
use super::error::StorageError;
use super::files::directory::DataDirectory;
use super::replay::{Reading, Refused, Replay, SnapshotId};
use super::snapshot::writer::SnapshotWriter;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) txns: BTreeMap<i64, Vec<u8>>,
    pub(crate) begun: usize,
    pub(crate) digest: Option<SnapshotDigest>,
    /// What was told of the progress.
    pub(crate) told: Vec<(Reading, u64, u64)>,
}

impl Ledger {
    pub(crate) fn last(&self) -> i64 {
        self.txns.keys().next_back().copied().unwrap_or(0)
    }

    /// Writes all of it as the snapshot of its last zxid.
    pub(crate) fn snapshot(
        &self,
        directory: &DataDirectory,
        index: u64,
    ) -> Result<u64, StorageError> {
        self.packed_snapshot(directory, index, Compression::None)
    }

    /// The same, packed.
    pub(crate) fn packed_snapshot(
        &self,
        directory: &DataDirectory,
        index: u64,
        compression: Compression,
    ) -> Result<u64, StorageError> {
        let mut writer = SnapshotWriter::create(directory, self.last(), index, compression)?;
        let mut head = Vec::new();
        1_i32.encode(&mut head);
        0x77_i64.encode(&mut head);
        30_000_i32.encode(&mut head);
        1_i32.encode(&mut head);
        1_i64.encode(&mut head);
        vec![Acl::anyone(31)].encode(&mut head);
        writer.write(&head)?;
        for (zxid, data) in std::iter::once((&0, &Vec::new())).chain(&self.txns) {
            let mut bytes = Vec::new();
            let path = if *zxid == 0 { String::new() } else { format!("/{zxid:x}") };
            Cow::Borrowed(path.as_str()).encode(&mut bytes);
            let node = SnapshotNode {
                data: Some(Cow::Borrowed(data)),
                acl: 1,
                stat: StatPersisted { czxid: *zxid, ..StatPersisted::default() },
            };
            node.encode(&mut bytes);
            writer.write(&bytes)?;
        }
        writer.finish(Some(SnapshotDigest { zxid: self.last(), version: 2, digest: 7 }))
    }
}

/// A transaction of the model.
pub(crate) fn txn(zxid: i64, data: &[u8]) -> TxnRecord<'_> {
    TxnRecord {
        header: TxnHeader { client_id: 0x77, cxid: 1, zxid, time: 1_700_000_000_000 },
        txn: Txn::SetData(SetDataTxn {
            path: Cow::Borrowed("/ledger"),
            data: Some(Cow::Borrowed(data)),
            version: 1,
        }),
        digest: (zxid % 2 == 0).then_some(TxnDigest { version: 2, tree_digest: zxid }),
    }
}

impl Replay for Ledger {
    fn begin(&mut self, _snapshot: &SnapshotId) {
        *self = Self { begun: self.begun + 1, ..Self::default() };
    }

    fn session(&mut self, id: i64, timeout_ms: i32) -> Result<(), Refused> {
        expect((id, timeout_ms) == (0x77, 30_000))
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl<'_>>) -> Result<(), Refused> {
        expect((id, acl) == (1, vec![Acl::anyone(31)]))
    }

    fn node(&mut self, path: &str, node: &SnapshotNode<'_>) -> Result<(), Refused> {
        if !path.is_empty() {
            expect(path == format!("/{:x}", node.stat.czxid))?;
            self.txns.insert(node.stat.czxid, node.data.as_deref().unwrap_or_default().to_vec());
        }
        Ok(())
    }

    fn end(&mut self, digest: Option<SnapshotDigest>) -> Result<(), Refused> {
        self.digest = digest;
        Ok(())
    }

    fn progress(&mut self, reading: Reading, done: u64, total: u64) {
        self.told.push((reading, done, total));
    }

    fn is_another_history(&self) -> bool {
        false
    }

    fn txn(&mut self, record: &TxnRecord<'_>) -> Result<(), Refused> {
        let zxid = record.header.zxid;
        let Txn::SetData(set) = &record.txn else {
            return Err(Refused("not a setData".to_owned()));
        };
        let data = set.data.as_deref().unwrap_or_default();
        if *record != txn(zxid, data) {
            return Err(Refused("not a txn of the model".to_owned()));
        }
        if zxid <= self.last() {
            return Err(Refused(format!("{zxid:#x} after {:#x}", self.last())));
        }
        self.txns.insert(zxid, data.to_vec());
        Ok(())
    }
}

fn expect(holds: bool) -> Result<(), Refused> {
    if holds { Ok(()) } else { Err(Refused("not of the model".to_owned())) }
}
