//! What must hold after every step, and the plain model that the tree must equal.

use std::collections::{BTreeMap, BTreeSet};

use jute::txn::{Txn, TxnRecord};

use crate::engine::database::Database;
use crate::storage::EntryLog;

/// What all members together have shown so far.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// The one leader of each term.
    leaders: BTreeMap<u64, u64>,
    /// Each entry that any log ever held: its index, the zxid before it, its bytes.
    entries: BTreeMap<i64, (u64, Option<i64>, Vec<u8>)>,
    /// The entries that any member called final.
    committed: BTreeMap<u64, i64>,
    /// The digest of the tree at each zxid.
    digests: BTreeMap<i64, Option<i64>>,
    /// Transactions that a client was told of.
    acknowledged: BTreeSet<i64>,
}

/// A member's log as it was seen last: the zxid of each index, from 1 on; 0 where a snapshot stands instead.
pub(super) type Chain = Vec<i64>;

type Checked = Result<(), String>;

fn check(holds: bool, violation: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(violation()) }
}

impl Checks {
    /// Reads what is new in a log. Equal zxids are equal entries behind equal ones, so two logs that share an entry
    /// share all before it.
    pub(super) fn log(&mut self, log: &EntryLog, chain: &mut Chain) -> Checked {
        let last = log.last_index();
        chain.resize(last as usize, 0);
        let mut known = last;
        while known > 0 {
            let place = known as usize - 1;
            let Some(zxid) = log.zxid(known) else {
                chain[..=place].fill(0);
                break;
            };
            if std::mem::replace(&mut chain[place], zxid) == zxid {
                break;
            }
            known -= 1;
        }
        for index in (known + 1).max(log.first_index())..=last {
            let zxid = chain[index as usize - 1];
            let found = log.entries(index, index + 1, 0).map_err(|error| error.to_string())?;
            let bytes = found.and_then(|mut found| found.pop());
            let bytes = bytes.ok_or_else(|| format!("entry {index} is gone"))?.payload.to_vec();
            let entry = (index, log.zxid(index - 1), bytes);
            let known = self.entries.entry(zxid).or_insert_with(|| entry.clone());
            let same_before = known.1.is_none() || entry.1.is_none() || known.1 == entry.1;
            check((known.0, &known.2) == (index, &entry.2) && same_before, || {
                format!("two entries are {zxid:#x}, at {index} and {}", known.0)
            })?;
        }
        check(chain.windows(2).all(|pair| pair[0] < pair[1] || pair[0] == 0), || {
            format!("zxids do not rise: {chain:x?}")
        })
    }

    /// `leader` leads `term`: nobody else ever does, and it has everything that is final.
    pub(super) fn leads(&mut self, term: u64, leader: u64, log: &EntryLog) -> Checked {
        let before = self.leaders.get(&term).copied();
        check(before.is_none_or(|before| before == leader), || {
            format!("two leaders of term {term}: {before:?} and {leader}")
        })?;
        if before.is_none() {
            self.leaders.insert(term, leader);
            for (index, zxid) in &self.committed {
                let has = *index < log.first_index() || log.zxid(*index) == Some(*zxid);
                check(has, || format!("the leader of term {term} lacks entry {index}, {zxid:#x}"))?;
            }
        }
        Ok(())
    }

    /// A member calls entries final: those on the disks of a quorum, and never others in their places.
    pub(super) fn committed(&mut self, up_to: u64, own: &EntryLog, all: &[&Chain]) -> Checked {
        let from = self.committed.keys().next_back().map_or(1, |last| last + 1).min(up_to).max(1);
        for index in from..=up_to {
            let Some(zxid) = own.zxid(index) else { continue };
            let known = *self.committed.entry(index).or_insert_with(|| zxid);
            check(known == zxid, || format!("{zxid:#x} is final at {index}, as was {known:#x}"))?;
            let place = index as usize - 1;
            // Where a snapshot stands, it stands for what was final.
            let disks = all.iter().filter(|chain| {
                chain.get(place).is_some_and(|found| *found == zxid || *found == 0)
            });
            let disks = disks.count();
            check(disks >= 2, || format!("{zxid:#x} is final without a quorum: {disks} disk"))?;
        }
        let known = self.committed.get(&up_to).copied();
        check(up_to == 0 || own.zxid(up_to).is_none_or(|zxid| known == Some(zxid)), || {
            format!("at {up_to}, {:x?} is final, not {known:x?}", own.zxid(up_to))
        })
    }

    /// A tree shows what is final, and what every other tree shows at that zxid.
    pub(super) fn applied(&mut self, applied: u64, committed: u64, tree: &Database) -> Checked {
        let zxid = tree.last_zxid().0;
        let digest = tree.tree().digest();
        check(applied <= committed, || format!("{applied} applied, {committed} final"))?;
        let expected = if applied == 0 { Some(0) } else { self.committed.get(&applied).copied() };
        check(expected == Some(zxid), || {
            format!("the tree at {applied} is that of {zxid:#x}, but {expected:x?} is final there")
        })?;
        let known = *self.digests.entry(zxid).or_insert(digest);
        check(known == digest, || format!("two trees at {zxid:#x}: {known:?} and {digest:?}"))
    }

    /// A client was told of a transaction.
    pub(super) fn acknowledged(&mut self, zxid: i64, xid: i32) -> Checked {
        let is_final = self.committed.values().any(|committed| *committed == zxid);
        check(is_final, || format!("{zxid:#x} was acknowledged and is not final"))?;
        check(self.acknowledged.insert(zxid), || format!("{zxid:#x} was acknowledged twice"))?;
        let (_, _, bytes) = self.entries.get(&zxid).ok_or("an acknowledged entry in no log")?;
        let (record, _) = TxnRecord::decode(bytes).map_err(|error| error.to_string())?;
        check(record.header.cxid == xid, || format!("{zxid:#x} answers the wrong request"))
    }

    /// The last change that a client was told of.
    pub(super) fn newest_acknowledged(&self) -> i64 {
        self.acknowledged.last().copied().unwrap_or(0)
    }

    pub(super) fn acknowledged_count(&self) -> usize {
        self.acknowledged.len()
    }

    /// The tree equals what a plain model makes of the final entries.
    pub(super) fn model(&self, applied: u64, database: &Database) -> Checked {
        let mut model = Model::default();
        for (_, zxid) in self.committed.range(..=applied) {
            let (_, _, bytes) = self.entries.get(zxid).ok_or("a final entry in no log")?;
            let (record, _) = TxnRecord::decode(bytes).map_err(|error| error.to_string())?;
            model.apply(record.header.client_id, &record.txn);
        }
        let tree = database.tree();
        for (path, znode) in &model.znodes {
            let found = tree.find(path).map(|node| {
                (
                    tree.data(node).map(<[u8]>::to_vec),
                    tree.stat(node).version,
                    tree.stat(node).ephemeral_owner,
                )
            });
            let expected = Some((Some(znode.data.clone()), znode.version, znode.owner));
            check(found == expected, || format!("{path} is {found:?}, not {expected:?}"))?;
        }
        // Those of a fresh tree: the root and three below /zookeeper.
        let (found, expected) = (tree.count(), model.znodes.len() + 4);
        check(found == expected, || format!("{found} znodes, not {expected}"))?;
        let sessions: BTreeSet<i64> = database.sessions().keys().map(|session| session.0).collect();
        check(sessions == model.sessions, || format!("{sessions:x?}, not {:x?}", model.sessions))
    }
}

/// Paths and what is there, nothing else.
#[derive(Debug, Default)]
struct Model {
    znodes: BTreeMap<String, ModelZnode>,
    sessions: BTreeSet<i64>,
}

#[derive(Debug)]
struct ModelZnode {
    data: Vec<u8>,
    version: i32,
    owner: i64,
}

impl Model {
    fn apply(&mut self, session: i64, txn: &Txn<'_>) {
        match txn {
            Txn::CreateSession(_) => drop(self.sessions.insert(session)),
            Txn::CloseSession(_) => {
                self.sessions.remove(&session);
                self.znodes.retain(|_, znode| znode.owner != session);
            }
            Txn::Create(create) | Txn::Create2(create) => {
                let owner = if create.ephemeral { session } else { 0 };
                let data = create.data.as_deref().unwrap_or_default().to_vec();
                self.znodes.insert(create.path.to_string(), ModelZnode { data, version: 0, owner });
            }
            Txn::SetData(set) => {
                if let Some(znode) = self.znodes.get_mut(&*set.path) {
                    znode.data = set.data.as_deref().unwrap_or_default().to_vec();
                    znode.version += 1;
                }
            }
            Txn::Delete(delete) => drop(self.znodes.remove(&*delete.path)),
            Txn::Multi(parts) => parts.iter().for_each(|part| self.apply(session, part)),
            _ => {}
        }
    }
}
