//! The log and the promises of a member as the crate `raft` reads them: with what is still on its
//! way to the disk.
//!
//! An entry is a record of the log: its index counts records and its term is the high half of the
//! zxid. An entry without content is a transaction that failed.

use std::sync::Arc;

use jute::txn::TxnRecord;
use raft::eraftpb::{ConfState, Entry, EntryType, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Storage, StorageError as Unavailable};

use super::EnsembleError;
use super::configuration::{MemberChange, in_order, to_conf_state};
use crate::storage::{
    DataDirectory, EntryKind, EntryLog, LogEntry, Members, RaftState as Promises,
};

/// What a member has on its disk, or will have.
#[derive(Debug)]
pub(super) struct LogStore {
    directory: Arc<DataDirectory>,
    pub(super) log: EntryLog,
    /// With what is on its way.
    pub(super) promises: Promises,
    /// The newest snapshot.
    snapshot: SnapshotPlace,
    /// What the applied state showed at the start.
    started_at: u64,
}

/// What a snapshot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SnapshotPlace {
    pub(super) index: u64,
    pub(super) zxid: i64,
}

impl LogStore {
    pub(super) fn new(
        directory: Arc<DataDirectory>,
        log: EntryLog,
        promises: Promises,
        snapshot: SnapshotPlace,
        started_at: u64,
    ) -> Self {
        Self { directory, log, promises, snapshot, started_at }
    }

    pub(super) fn directory(&self) -> &Arc<DataDirectory> {
        &self.directory
    }

    /// What to make durable of a term and a vote, if they are others than before. What is said to
    /// be final with them is what the disk has then, and that is not what is about to be replaced
    /// from the entry `next` on.
    pub(super) fn promise(
        &mut self,
        state: &HardState,
        applied: u64,
        next: Option<u64>,
    ) -> Option<Promises> {
        if (state.term, state.vote) == (self.promises.term, self.promises.vote) {
            return None;
        }
        let kept = next.map_or(u64::MAX, |next| next.saturating_sub(1)).min(self.log.last_index());
        self.promises.term = state.term;
        self.promises.vote = state.vote;
        // Members are those of what is applied.
        let commit = state.commit.min(kept).min(applied);
        self.promises.commit = commit.max(self.promises.commit);
        Some(self.promises.clone())
    }

    /// What to make durable of who belongs to the ensemble from the entry `index` on, which is
    /// final.
    pub(super) fn members(&mut self, members: Members, index: u64) -> Promises {
        self.promises.commit = self.promises.commit.max(index);
        self.promises.members = members;
        self.promises.configured_at = index;
        self.promises.clone()
    }

    /// What to make durable of a server that has answered its founder; nothing if it has before.
    pub(super) fn answered(&mut self, server: u8) -> Option<Promises> {
        let asks = &mut self.promises.asks;
        let at = asks.iter().position(|asked| *asked == server)?;
        asks.remove(at);
        Some(self.promises.clone())
    }

    /// Puts a snapshot in the place of the log. What to make durable before it: an older one is
    /// enough until it is there, and no more in what is written later.
    pub(super) fn replace(
        &mut self,
        state: &HardState,
        snapshot: SnapshotPlace,
        members: &ConfState,
        configured_at: u64,
    ) -> Promises {
        self.promises.term = state.term;
        self.promises.vote = state.vote;
        self.promises.members = in_order(members);
        self.promises.configured_at = configured_at;
        self.log.replace(snapshot.index, snapshot.zxid);
        self.snapshot = snapshot;
        let before = self.promises.clone();
        self.promises.commit = self.promises.commit.max(snapshot.index);
        // What was there of before goes with it.
        self.promises.clears = false;
        before
    }

    /// Puts one's own members into a message of a snapshot that knows only earlier ones: the crate
    /// would go back to them.
    pub(super) fn keep_members(&self, snapshot: &mut Snapshot) {
        if let Some(shown) = Shown::of(snapshot)
            && shown.configured_at < self.promises.configured_at
        {
            self.show(snapshot, shown.zxid);
        }
    }

    /// What is said with a snapshot of this zxid.
    fn show(&self, snapshot: &mut Snapshot, zxid: i64) {
        let Promises { members, configured_at, .. } = &self.promises;
        snapshot.mut_metadata().set_conf_state(to_conf_state(members));
        let mut data = zxid.to_be_bytes().to_vec();
        data.extend(configured_at.to_be_bytes());
        snapshot.data = data.into();
    }

    /// Takes entries; they replace what stands from the first of them on. The records to make
    /// durable.
    pub(super) fn append(&mut self, entries: Vec<Entry>) -> Result<Vec<LogEntry>, EnsembleError> {
        let mut last = match entries.first() {
            Some(first) => self.log.zxid(first.index.saturating_sub(1)),
            None => return Ok(Vec::new()),
        };
        let mut records = Vec::with_capacity(entries.len());
        for entry in entries {
            let wrong = || EnsembleError::Entry { index: entry.index };
            let (kind, payload) = match entry.entry_type {
                EntryType::EntryNormal => (EntryKind::Ordinary, entry.data),
                // What the crate makes of a change of members is not kept: the record says the
                // same.
                EntryType::EntryConfChangeV2 => (EntryKind::Membership, entry.context),
                EntryType::EntryConfChange => return Err(wrong()),
            };
            let record = match payload.is_empty() && kind == EntryKind::Ordinary {
                true => None,
                false => Some(LogEntry::new(entry.index, kind, payload).ok_or_else(wrong)?),
            };
            // What it does not know it does not acknowledge either.
            if record.as_ref().is_some_and(|record| !is_known(record)) {
                return Err(wrong());
            }
            let of_before = record.as_ref().filter(|record| record.is_blank());
            // The k-th entry of a term has that number in the low half.
            let zxid = match (last, i64::try_from(entry.term)) {
                (Some(last), Ok(term)) if term == last >> 32 => last + 1,
                (Some(last), Ok(term)) if term > last >> 32 => match of_before {
                    Some(_) => term << 32,
                    None => first_zxid(term),
                },
                _ => return Err(wrong()),
            };
            let record = match record {
                None => LogEntry::blank(entry.index, zxid),
                Some(record)
                    if record.zxid == zxid && (!record.is_blank() || is_of_before(zxid)) =>
                {
                    record
                }
                Some(_) => return Err(wrong()),
            };
            last = Some(zxid);
            records.push(record);
        }
        self.log.put(&records);
        Ok(records)
    }

    /// The last entry that the newest snapshot shows.
    pub(super) const fn snapshot_index(&self) -> u64 {
        self.snapshot.index
    }

    /// A snapshot of the applied state is durable. Whether it is the newest: another may have taken
    /// its place.
    pub(super) fn snapshot_taken(&mut self, snapshot: SnapshotPlace) -> bool {
        let is_newest = snapshot.index > self.snapshot.index;
        if is_newest {
            self.snapshot = snapshot;
        }
        is_newest
    }
}

impl Storage for LogStore {
    fn initial_state(&self) -> raft::Result<RaftState> {
        let promises = &self.promises;
        let hard_state = HardState {
            term: promises.term,
            vote: promises.vote,
            commit: self.started_at,
            ..HardState::default()
        };
        Ok(RaftState { hard_state, conf_state: to_conf_state(&promises.members) })
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _context: GetEntriesContext,
    ) -> raft::Result<Vec<Entry>> {
        let room = max_size.into().unwrap_or(u64::MAX);
        match self.log.entries(low, high, room) {
            Ok(Some(entries)) => Ok(entries.into_iter().map(to_entry).collect()),
            Ok(None) => Err(Error::Store(Unavailable::Compacted)),
            Err(error) => Err(Error::Store(Unavailable::Other(Box::new(error)))),
        }
    }

    fn term(&self, index: u64) -> raft::Result<u64> {
        match self.log.zxid(index) {
            Some(zxid) => Ok(term_of(zxid)),
            None if index > self.log.last_index() => Err(Error::Store(Unavailable::Unavailable)),
            None => Err(Error::Store(Unavailable::Compacted)),
        }
    }

    fn first_index(&self) -> raft::Result<u64> {
        Ok(self.log.first_index())
    }

    fn last_index(&self) -> raft::Result<u64> {
        Ok(self.log.last_index())
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> raft::Result<Snapshot> {
        if self.snapshot.index == 0 || self.snapshot.index < request_index {
            return Err(Error::Store(Unavailable::SnapshotTemporarilyUnavailable));
        }
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        metadata.index = self.snapshot.index;
        metadata.term = term_of(self.snapshot.zxid);
        self.show(&mut snapshot, self.snapshot.zxid);
        Ok(snapshot)
    }
}

/// What a message of a snapshot says beside what the crate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// The zxid that the snapshot shows.
    pub(super) zxid: i64,
    /// The entry that made the members in the message what they are, which may be after the
    /// snapshot.
    pub(super) configured_at: u64,
}

impl Shown {
    pub(super) fn of(snapshot: &Snapshot) -> Option<Self> {
        let (zxid, configured_at) = snapshot.data.split_first_chunk()?;
        let configured_at = u64::from_be_bytes(configured_at.try_into().ok()?);
        Some(Self { zxid: i64::from_be_bytes(*zxid), configured_at })
    }
}

/// The zxid that a snapshot on its way shows.
pub(super) fn zxid_of(snapshot: &Snapshot) -> Option<i64> {
    Shown::of(snapshot).map(|shown| shown.zxid)
}

/// The zxid of a term's first entry. ZooKeeper's epochs begin with 1 as well, and it takes whoever
/// ends in 0 for one that has only seen the epoch begin: such a one would keep what the others do
/// not have.
pub(super) const fn first_zxid(term: i64) -> i64 {
    (term << 32) + 1
}

/// Whether it is that of a term's first entry as earlier versions counted: the low half is 0.
const fn is_of_before(zxid: i64) -> bool {
    zxid & 0xffff_ffff == 0
}

/// The zxid of an entry without content; `None` of one that has some.
pub(super) fn blank_zxid(entry: &Entry) -> Option<i64> {
    let term = i64::try_from(entry.term).ok()?;
    if entry.entry_type != EntryType::EntryNormal {
        return None;
    }
    if entry.data.is_empty() {
        return Some(first_zxid(term));
    }
    let record = LogEntry::new(entry.index, EntryKind::Ordinary, entry.data.clone())?;
    record.is_blank().then_some(record.zxid)
}

/// The term of whoever ordered a transaction.
pub(super) fn term_of(zxid: i64) -> u64 {
    u64::try_from(zxid >> 32).unwrap_or(0)
}

/// Whether this version knows what it makes of the members, if it is about them.
fn is_known(record: &LogEntry) -> bool {
    let decode = || TxnRecord::decode(&record.payload).ok();
    record.kind == EntryKind::Ordinary
        || decode().is_some_and(|its| MemberChange::of(&its.0).is_some())
}

fn to_entry(record: LogEntry) -> Entry {
    let (term, index) = (term_of(record.zxid), record.index);
    let entry = Entry { term, index, ..Entry::default() };
    match record.kind {
        // Nothing tells its place from the others' but its zxid, where an earlier version wrote it.
        EntryKind::Ordinary if record.is_blank() && !is_of_before(record.zxid) => entry,
        EntryKind::Ordinary => Entry { data: record.payload, ..entry },
        EntryKind::Membership => {
            Entry { entry_type: EntryType::EntryConfChangeV2, context: record.payload, ..entry }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jute::txn::{Txn, TxnHeader};

    use super::super::fixture::{directory, ensemble, entry as record};
    use super::super::member_id;
    use super::*;
    use crate::storage::sim::SimDisk;
    use crate::storage::{Members, RaftState as Promised, RaftStateFile};

    fn store() -> LogStore {
        let disk = SimDisk::default();
        let members = Members { voters: vec![member_id(1, 1)], ..Members::default() };
        let first = Promised { id: member_id(1, 1), members, ..Promised::default() };
        RaftStateFile::create(&directory(&disk), &first, None).expect("creates");
        ensemble(1500, true).start(Arc::new(directory(&disk))).expect("starts").store
    }

    fn blank(term: u64, index: u64) -> Entry {
        Entry { term, index, ..Entry::default() }
    }

    fn zxids(store: &mut LogStore, entries: Vec<Entry>) -> Option<Vec<i64>> {
        let records = store.append(entries).ok()?;
        Some(records.iter().map(|record| record.zxid).collect())
    }

    /// ZooKeeper sends nobody a TRUNC whose last zxid ends in 32 zero bits.
    #[test]
    fn no_term_begins_with_a_zxid_that_ends_in_zeros() {
        let mut store = store();
        let next = to_entry(record(2, 0x2_0000_0002));
        let zxids = zxids(&mut store, vec![blank(2, 1), next, blank(5, 3)]).expect("appends");
        assert_eq!(zxids, [0x2_0000_0001, 0x2_0000_0002, 0x5_0000_0001]);
        assert_eq!(blank_zxid(&blank(5, 3)), Some(0x5_0000_0001));
    }

    /// A later version may make of the members what this one cannot: it stops before it has
    /// acknowledged that.
    #[test]
    fn a_change_of_members_that_is_not_known_is_not_taken() {
        for (code, is_known) in
            [(2, true), (3, true), (4, true), (5, false), (7, false), (8, false)]
        {
            let header = TxnHeader { client_id: 2, cxid: 0, zxid: 0x2_0000_0002, time: 1 };
            let mut payload = Vec::new();
            TxnRecord { header, txn: Txn::Error(code), digest: None }.encode(&mut payload);
            let change = LogEntry::new(2, EntryKind::Membership, payload.into()).expect("a record");
            let mut store = store();
            let taken = zxids(&mut store, vec![blank(2, 1), to_entry(change)]);
            assert_eq!(taken.is_some(), is_known, "{code}");
            assert_eq!(store.log.last_index(), if is_known { 2 } else { 0 }, "{code}");
        }
    }

    /// A term that an earlier version began goes on as it began, on whoever gets it now.
    #[test]
    fn a_term_of_before_keeps_its_zxids() {
        let mut of_before = store();
        let first = to_entry(LogEntry::blank(1, 0x2_0000_0000));
        let second = to_entry(record(2, 0x2_0000_0001));
        assert_eq!(blank_zxid(&first), Some(0x2_0000_0000));
        assert_eq!(blank_zxid(&second), None);
        let of_two = zxids(&mut of_before, vec![first.clone(), second.clone()]).expect("appends");
        assert_eq!(of_two, [0x2_0000_0000, 0x2_0000_0001]);
        let sent = of_before.entries(1, 3, None, GetEntriesContext::empty(false)).expect("reads");
        assert_eq!(zxids(&mut store(), sent).expect("appends"), of_two);
        // Without that, the second one has no place.
        assert_eq!(zxids(&mut store(), vec![blank(2, 1), second]), None);
        // Only the first one of a term can be such a one.
        assert_eq!(zxids(&mut store(), vec![blank(2, 1), Entry { index: 2, ..first }]), None);
    }
}
