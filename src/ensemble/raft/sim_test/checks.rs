//! What must hold of the members' logs and trees after every step.

use std::collections::{BTreeMap, BTreeSet};

use jute::IntoStatic as _;
use jute::txn::{Txn, TxnRecord};

use super::super::super::configuration::MemberChange;
use crate::engine::database::Database;
use crate::storage::{EntryLog, EntryWriter, Members};

/// What all members together have shown so far.
#[derive(Debug, Default)]
pub(super) struct Checks {
    /// The one leader of each term.
    leaders: BTreeMap<u64, u64>,
    /// Each entry that any log ever held: its index, the zxid before it, its bytes.
    entries: BTreeMap<i64, (u64, Option<i64>, Vec<u8>)>,
    /// The entries that any member called final, and the term that it was in when it did.
    committed: BTreeMap<u64, (i64, u64)>,
    /// Those that the history does not have yet.
    news: Vec<i64>,
    /// Changes of the members that are new in a log, with their indexes.
    changes: Vec<(u64, MemberChange)>,
    /// The digest of the tree at each zxid.
    digests: BTreeMap<i64, Option<i64>>,
    /// The members that each entry has made.
    configurations: BTreeMap<u64, Members>,
}

/// A member's log as it was seen last: the zxid of each index, from 1 on; 0 where a snapshot stands
/// instead.
pub(super) type Chain = Vec<i64>;

type Checked = Result<(), String>;

fn check(holds: bool, violation: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(violation()) }
}

impl Checks {
    /// All who know the members as of an entry know the same, and nobody is in two lists.
    pub(super) fn configuration(&mut self, configured_at: u64, members: &Members) -> Checked {
        let ids = |members: &Members| -> BTreeSet<u64> {
            members.voters.iter().chain(&members.learners).copied().collect()
        };
        if !self.configurations.contains_key(&configured_at)
            && let Some((_, before)) = self.configurations.range(..configured_at).next_back()
        {
            let (now, before) = (ids(members), ids(before));
            let earlier = self.configurations.range(..configured_at).map(|(_, its)| ids(its));
            let gone: BTreeSet<u64> = earlier.flatten().filter(|id| !before.contains(id)).collect();
            let again = now.intersection(&gone).next();
            check(again.is_none(), || {
                format!("an id was given twice: {again:x?}, by entry {configured_at}")
            })?;
        }
        let known = self.configurations.entry(configured_at).or_insert_with(|| members.clone());
        check(known == members, || {
            format!("members as of entry {configured_at} are {known:?} and {members:?}")
        })?;
        let ids = || members.voters.iter().chain(&members.learners);
        let distinct: BTreeSet<&u64> = ids().collect();
        check(distinct.len() == ids().count(), || format!("an id is there twice: {members:?}"))
    }

    /// Reads what is new in a log. Equal zxids are equal entries after equal ones, so two logs
    /// that share an entry share all before it.
    pub(super) fn log(&mut self, log: &EntryLog, chain: &mut Chain) -> Checked {
        let last = log.last_index();
        if chain.len() as u64 == last && chain.last().is_none_or(|held| *held == log.last_zxid()) {
            return Ok(());
        }
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
            let changes = &mut self.changes;
            let known = self.entries.entry(zxid).or_insert_with(|| {
                let change =
                    TxnRecord::decode(&entry.2).ok().and_then(|its| MemberChange::of(&its.0));
                changes.extend(change.map(|change| (index, change)));
                entry.clone()
            });
            let same_before = known.1.is_none() || entry.1.is_none() || known.1 == entry.1;
            check((known.0, &known.2) == (index, &entry.2) && same_before, || {
                format!("two entries are {zxid:#x}, at {index} and {}", known.0)
            })?;
        }
        let new = &chain[(known as usize).saturating_sub(1)..];
        check(new.windows(2).all(|pair| pair[0] == 0 || follows(pair[0], pair[1])), || {
            format!("zxids do not follow each other: {new:x?}")
        })
    }

    /// `leader` leads `term`: nobody else ever does, and it has everything that became final in an
    /// earlier one. What did in a later one it may lack: the votes for it may have come late.
    pub(super) fn leads(&mut self, term: u64, leader: u64, log: &EntryLog) -> Checked {
        let before = self.leaders.get(&term).copied();
        check(before.is_none_or(|before| before == leader), || {
            format!("two leaders of term {term}: {before:?} and {leader}")
        })?;
        if before.is_none() {
            self.leaders.insert(term, leader);
            let earlier = self.committed.iter().filter(|(_, (_, its))| *its < term);
            for (index, (zxid, _)) in earlier {
                let has = *index < log.first_index() || log.zxid(*index) == Some(*zxid);
                check(has, || format!("the leader of term {term} lacks entry {index}, {zxid:#x}"))?;
            }
        }
        Ok(())
    }

    /// The members before the entry of this zxid, and the leader of its term.
    pub(super) fn as_of(&self, zxid: i64) -> Option<(&Members, u64)> {
        let (index, ..) = self.entries.get(&zxid)?;
        let (_, members) = self.configurations.range(..index).next_back()?;
        let term = u64::try_from(zxid >> 32).ok()?;
        Some((members, *self.leaders.get(&term)?))
    }

    /// The changes of the members that came into a log since the last call.
    pub(super) fn take_changes(&mut self) -> Vec<(u64, MemberChange)> {
        std::mem::take(&mut self.changes)
    }

    /// A member calls entries final: those on the disks of a quorum, and never others in their
    /// places. It is a quorum of the voters that it knew before, or of those that it knows since.
    pub(super) fn committed(
        &mut self,
        (up_to, term): (u64, u64),
        own: &EntryLog,
        all: &[(u64, &Chain)],
        voters: [&[u64]; 2],
    ) -> Checked {
        let from = self.committed.keys().next_back().map_or(1, |last| last + 1).min(up_to).max(1);
        for index in from..=up_to {
            let Some(zxid) = own.zxid(index) else { continue };
            let news = &mut self.news;
            let is_new = !self.committed.contains_key(&index);
            let (known, _) = *self.committed.entry(index).or_insert_with(|| {
                news.push(zxid);
                (zxid, term)
            });
            check(known == zxid, || format!("{zxid:#x} is final at {index}, as was {known:#x}"))?;
            if !is_new {
                continue;
            }
            let place = index as usize - 1;
            // Where a snapshot stands, it stands for what was final.
            let has = |(_, chain): &&(u64, &Chain)| {
                chain.get(place).is_some_and(|found| *found == zxid || *found == 0)
            };
            let disks: BTreeSet<u64> = all.iter().filter(has).map(|(id, _)| *id).collect();
            let is_quorum = |voters: &[u64]| {
                voters.iter().filter(|id| disks.contains(id)).count() > voters.len() / 2
            };
            check(voters.into_iter().any(is_quorum), || {
                format!("{zxid:#x} is final without a quorum: {disks:x?} of {voters:x?}")
            })?;
        }
        let known = self.committed.get(&up_to).map(|(zxid, _)| *zxid);
        check(up_to == 0 || own.zxid(up_to).is_none_or(|zxid| known == Some(zxid)), || {
            format!("at {up_to}, {:x?} is final, not {known:x?}", own.zxid(up_to))
        })
    }

    /// A tree shows what is final.
    pub(super) fn applied(&mut self, applied: u64, committed: u64, tree: &Database) -> Checked {
        let zxid = tree.last_zxid().0;
        check(applied <= committed, || format!("{applied} applied, {committed} final"))?;
        let known = self.committed.get(&applied).map(|(zxid, _)| *zxid);
        let expected = if applied == 0 { Some(0) } else { known };
        check(expected == Some(zxid), || {
            format!("the tree at {applied} is that of {zxid:#x}, but {expected:x?} is final there")
        })
    }

    /// A tree is what every other one is at that zxid.
    pub(super) fn tree(&mut self, tree: &Database) -> Checked {
        let (zxid, digest) = (tree.last_zxid().0, tree.tree().digest());
        check(tree.mismatches() == 0, || format!("what is final up to {zxid:#x} does not fit"))?;
        let known = *self.digests.entry(zxid).or_insert(digest);
        check(known == digest, || format!("two trees at {zxid:#x}: {known:?} and {digest:?}"))
    }

    /// Whether a session was opened in some log, final or not.
    pub(super) fn has_opening(&self, session: i64) -> bool {
        self.entries.values().any(|(_, _, bytes)| {
            TxnRecord::decode(bytes).is_ok_and(|(record, _)| {
                record.header.client_id == session && matches!(record.txn, Txn::CreateSession(_))
            })
        })
    }

    /// What became final since the last call, in its order.
    pub(super) fn take_news(&mut self) -> Result<Vec<TxnRecord<'static>>, String> {
        let decode = |zxid: i64| {
            let (_, _, bytes) = self.entries.get(&zxid).ok_or("a final entry in no log")?;
            let (record, _) = TxnRecord::decode(bytes).map_err(|error| error.to_string())?;
            let TxnRecord { header, txn, digest } = record;
            Ok(TxnRecord { header, txn: txn.into_static(), digest })
        };
        std::mem::take(&mut self.news).into_iter().map(decode).collect()
    }

    /// The last entry that is final.
    pub(super) fn last(&self) -> u64 {
        self.committed.keys().next_back().copied().unwrap_or(0)
    }
}

/// The zxid of each index on a disk.
pub(super) fn read_chain(log: &EntryWriter, chain: &mut Chain) {
    chain.resize(log.last_index() as usize, 0);
    for (place, known) in chain.iter_mut().enumerate().rev() {
        let zxid = log.zxid(place as u64 + 1).unwrap_or(0);
        if std::mem::replace(known, zxid) == zxid && zxid != 0 {
            break;
        }
    }
}

/// Whether a transaction may stand right after another: the next of its term, or the first of a
/// later one.
fn follows(before: i64, zxid: i64) -> bool {
    zxid == before + 1 || zxid >> 32 > before >> 32 && zxid & 0xffff_ffff == 1
}
