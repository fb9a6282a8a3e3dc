//! Applying what is final, in the log's order: each entry is a transaction of a leader that this
//! member knows, whose client here, if it has one, is answered with it.

use jute::txn::{Txn, TxnRecord};
use raft::StateRole;
use raft::eraftpb::{Entry, EntryType};

use super::EnsembleError;
use super::configuration::Change;
use super::following::Following;
use super::leading::Leading;
use super::log_store::blank_zxid;
use super::member::{Member, Transport};
use super::read_index::Rounds;
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

impl<T: Transport> Member<T> {
    /// Applies what is final and answers whoever asked for it here.
    pub(super) fn apply(&mut self, entries: &[Entry], now: Now) -> Result<(), EnsembleError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut changes = Vec::new();
        let Self {
            node,
            applier,
            leading,
            following,
            here,
            ensemble,
            tick_ms,
            rounds,
            local,
            trees,
            ..
        } = self;
        let raft = &node.raft;
        let leads = |entry: &Entry| raft.state == StateRole::Leader && raft.term == entry.term;
        let before = raft.raft_log.applied;
        applier.under_hold(|applying| {
            if let Some(began) = rounds.end(before) {
                applying.shows(began);
            }
            for entry in entries {
                let wrong = || EnsembleError::Entry { index: entry.index };
                let payload = match entry.entry_type {
                    EntryType::EntryNormal => &entry.data,
                    EntryType::EntryConfChangeV2 if !entry.context.is_empty() => &entry.context,
                    _ => return Err(wrong()),
                };
                let last = applying.database().last_zxid().0;
                if let Some(zxid) = blank_zxid(entry) {
                    if let Some(following) =
                        following.as_mut().filter(|its| its.term() < entry.term)
                    {
                        following.term_ended(Zxid(last), rounds.done());
                    }
                    let header = jute::txn::TxnHeader { client_id: 0, cxid: 0, zxid, time: 0 };
                    applying.apply(TxnRecord { header, txn: Txn::Error(0), digest: None })?;
                    if leads(entry) {
                        let server_id = ensemble.server;
                        let database = &*applying.database();
                        *leading = Some(Leading::new(database, *tick_ms, server_id, now));
                    }
                    trees.applied(applying.database());
                    settle(entry.index, applying, leading, following, rounds)?;
                    continue;
                }
                let (record, _) = TxnRecord::decode(payload).map_err(|_| wrong())?;
                let zxid = record.header.zxid;
                if zxid <= last {
                    return Err(wrong());
                }
                if entry.entry_type == EntryType::EntryConfChangeV2 {
                    changes.push((Change::of(&record).ok_or_else(wrong)?, entry.index));
                }
                let of_session = match &record.txn {
                    Txn::CreateSession(_) | Txn::CloseSession(_) => {
                        Some(SessionId(record.header.client_id))
                    }
                    _ => None,
                };
                let closed = of_session.filter(|_| matches!(record.txn, Txn::CloseSession(_)));
                let mut asker = None;
                let mut rest = Some(record);
                if let Some(leading) = leading.as_mut()
                    && let Some(of) = leading.finish(zxid, applying)?
                {
                    asker = of.filter(|connection| here.has(*connection));
                    rest = None;
                }
                if let Some(following) = following.as_mut()
                    && let Some(record) = rest.take()
                {
                    following.settle_before(Zxid(zxid), applying, rounds.done());
                    let connection = following.next_asker();
                    rest = following.finish(record, applying)?;
                    asker = connection.filter(|_| rest.is_none());
                }
                if let Some(record) = rest {
                    applying.let_readers_in();
                    applying.apply(record)?;
                }
                trees.applied(applying.database());
                if let (Some(local), Some(session)) = (local.as_mut(), of_session) {
                    local.forget(session);
                }
                // Its client, if it asked for it here, has the answer; any other connection to it
                // has to go.
                if let Some(session) = closed.filter(|_| asker.is_none()) {
                    here.session_closed(session);
                }
                settle(entry.index, applying, leading, following, rounds)?;
            }
            Ok(())
        })?;
        if let Some(leading) = &mut self.leading {
            leading.tell_notices(&*self.applier.clients);
        }
        self.answer_tree();
        for (change, index) in changes {
            // What comes after its own removal is for the others.
            if self.has_ended {
                break;
            }
            self.changed(change, index, now)?;
        }
        Ok(())
    }

    /// Ends what belongs to a term that this member does not lead any more.
    pub(super) fn end_of_term(&mut self) {
        let raft = &self.node.raft;
        let is_over =
            |leading: &mut Leading| raft.state != StateRole::Leader || raft.term != leading.term();
        if let Some(leading) = self.leading.take_if(is_over) {
            leading.end(&*self.applier.clients);
            self.trees.end_of_term();
        }
    }
}

/// Answers what stood after the entry at `index`, which is applied. How old it is, the rounds say
/// that are over with it.
fn settle(
    index: u64,
    applying: &mut Applying<'_>,
    leading: &mut Option<Leading>,
    following: &mut Option<Following>,
    rounds: &mut Rounds,
) -> Result<(), EnsembleError> {
    if let Some(began) = rounds.end(index) {
        applying.shows(began);
    }
    if let Some(leading) = leading {
        leading.finish_settled(applying, rounds.done())?;
    }
    if let Some(following) = following {
        following.settle(applying, rounds.done());
    }
    Ok(())
}
