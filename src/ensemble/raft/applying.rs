//! Applying what is final, in the log's order: each entry is a transaction of a leader that this
//! member knows, whose client here, if it has one, is answered with it.

use jute::txn::{Txn, TxnHeader, TxnRecord};
use raft::eraftpb::{Entry, EntryType};

use super::EnsembleError;
use super::configuration::MemberChange;
use super::leading::Leading;
use super::log_store::blank_zxid;
use super::member::{Member, Transport};
use super::requests::Requests;
use crate::engine::session::SessionId;
use crate::engine::time::Now;
use crate::engine::zxid::Zxid;
use crate::ensemble::steps::Applying;

/// What applying an entry costs beside its own bytes, in bytes.
const ENTRY_BYTES: usize = 64;

/// What applying these costs, in bytes.
pub(super) fn bytes_of(entries: &[Entry]) -> usize {
    entries.iter().map(|entry| entry.data.len() + entry.context.len() + ENTRY_BYTES).sum()
}

/// What a transaction says of a session.
struct SaysOf {
    session: SessionId,
    /// It is closed, and nobody here is answered with that.
    is_closed_elsewhere: bool,
}

impl<T: Transport> Member<T> {
    /// Applies what is final and answers whoever asked for it here.
    pub(super) fn apply(&mut self, entries: &[Entry], now: Now) -> Result<(), EnsembleError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut changes = Vec::new();
        let Self { consensus, requests, trees, applier, list_change, .. } = self;
        let goes_by_list = consensus.ensemble.rules.reconfig;
        applier.under_hold(|applying| {
            requests.show_age(consensus.applied(), applying);
            for entry in entries {
                let says_of = match read(entry, applying.database().last_zxid())? {
                    Read::Blank(zxid) => {
                        requests.apply_blank(zxid, entry.term, applying)?;
                        if consensus.leads_in(entry.term) {
                            requests.lead(consensus.ensemble.server, applying, now);
                        }
                        None
                    }
                    Read::Txn(record, change) => {
                        changes.extend(change.map(|change| (change, entry.index)));
                        let zxid = Zxid(record.header.zxid);
                        let says_of = requests.apply(record, applying)?;
                        list_change.applied(zxid, applying);
                        says_of
                    }
                };
                trees.applied(applying.database());
                if let Some(says_of) = says_of {
                    requests.see_session(&says_of);
                }
                requests.settle_after(entry.index, applying)?;
            }
            list_change.see(applying.database(), goes_by_list);
            Ok::<_, EnsembleError>(())
        })?;
        if let Some(leading) = &mut self.requests.leading {
            leading.tell_notices(&*self.applier.clients);
        }
        self.answer_tree();
        for (change, index) in changes {
            // What comes after its own removal is for the others.
            if self.consensus.has_ended {
                break;
            }
            self.changed(change, index, now)?;
        }
        Ok(())
    }
}

/// What an entry holds.
enum Read<'a> {
    /// Nothing: its leader's term begins.
    Blank(i64),
    /// And what it changes about the members.
    Txn(TxnRecord<'a>, Option<MemberChange>),
}

/// Reads an entry that comes after the transaction `last`.
fn read(entry: &Entry, last: Zxid) -> Result<Read<'_>, EnsembleError> {
    let wrong = || EnsembleError::Entry { index: entry.index };
    let payload = match entry.entry_type {
        EntryType::EntryNormal => &entry.data,
        EntryType::EntryConfChangeV2 if !entry.context.is_empty() => &entry.context,
        _ => return Err(wrong()),
    };
    if let Some(zxid) = blank_zxid(entry) {
        return Ok(Read::Blank(zxid));
    }
    let (record, _) = TxnRecord::decode(payload).map_err(|_| wrong())?;
    if record.header.zxid <= last.0 {
        return Err(wrong());
    }
    let change = match entry.entry_type {
        EntryType::EntryConfChangeV2 => Some(MemberChange::of(&record).ok_or_else(wrong)?),
        _ => None,
    };
    Ok(Read::Txn(record, change))
}

impl Requests {
    /// Applies the first entry of a leader's term.
    fn apply_blank(
        &mut self,
        zxid: i64,
        term: u64,
        applying: &mut Applying<'_>,
    ) -> Result<(), EnsembleError> {
        if let Some(following) = self.following.as_mut().filter(|its| its.term() < term) {
            following.term_ended(applying.database().last_zxid(), self.rounds.done());
        }
        let header = TxnHeader { client_id: 0, cxid: 0, zxid, time: 0 };
        applying.apply(TxnRecord { header, txn: Txn::Error(0), digest: None })?;
        Ok(())
    }

    /// From here on this member takes requests as the leader.
    fn lead(&mut self, server: u8, applying: &mut Applying<'_>, now: Now) {
        let database = &*applying.database();
        self.leading = Some(Leading::new(database, self.tick_ms, server, now));
    }

    /// Applies a transaction. Gives what it says of a session.
    fn apply(
        &mut self,
        record: TxnRecord<'_>,
        applying: &mut Applying<'_>,
    ) -> Result<Option<SaysOf>, EnsembleError> {
        let zxid = record.header.zxid;
        let session = match &record.txn {
            Txn::CreateSession(_) | Txn::CloseSession(_) => {
                Some(SessionId(record.header.client_id))
            }
            _ => None,
        };
        let is_closed = matches!(record.txn, Txn::CloseSession(_));
        let mut asker = None;
        let mut rest = Some(record);
        if let Some(leading) = self.leading.as_mut()
            && let Some(of) = leading.finish(zxid, applying)?
        {
            asker = of.filter(|connection| self.here.has(*connection));
            rest = None;
        }
        if let Some(following) = self.following.as_mut()
            && let Some(record) = rest.take()
        {
            following.settle_before(Zxid(zxid), applying, self.rounds.done());
            let connection = following.next_asker();
            rest = following.finish(record, applying)?;
            asker = connection.filter(|_| rest.is_none());
        }
        if let Some(record) = rest {
            applying.let_readers_in();
            applying.apply(record)?;
        }
        let is_closed_elsewhere = is_closed && asker.is_none();
        Ok(session.map(|session| SaysOf { session, is_closed_elsewhere }))
    }

    /// A transaction has opened or closed a session. Its client, if it asked for it here, has the
    /// answer; any other connection to it has to go.
    fn see_session(&mut self, says_of: &SaysOf) {
        if let Some(local) = &mut self.local {
            local.forget(says_of.session);
        }
        if says_of.is_closed_elsewhere {
            self.here.session_closed(says_of.session);
        }
    }

    /// How old the state after the entry at `index` is, the rounds say that are over with it.
    fn show_age(&mut self, index: u64, applying: &mut Applying<'_>) {
        if let Some(began) = self.rounds.end(index) {
            applying.shows(began);
        }
    }

    /// Answers what stood after the entry at `index`, which is applied.
    fn settle_after(
        &mut self,
        index: u64,
        applying: &mut Applying<'_>,
    ) -> Result<(), EnsembleError> {
        self.show_age(index, applying);
        if let Some(leading) = &mut self.leading {
            leading.finish_settled(applying, self.rounds.done())?;
        }
        if let Some(following) = &mut self.following {
            following.settle(applying, self.rounds.done());
        }
        Ok(())
    }
}
