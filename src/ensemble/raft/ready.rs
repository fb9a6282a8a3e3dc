//! The ready loop: what the crate `raft` wants done, in the order in which it must be.
//!
//! Of one [`Ready`](raft::Ready): a leader's messages go at once, for its own disk is but one of the quorum; then term
//! and vote, a snapshot, and entries become durable, in this order; only then goes what tells a peer of them; then what
//! is final is applied and answered. Nothing else touches the log, so that this order is the only one there is.

use std::sync::Arc;

use jute::txn::{Txn, TxnRecord};
use raft::eraftpb::{Entry, EntryType, Message as PeerMessage, MessageType, Snapshot};
use raft::{Config, RawNode, SnapshotStatus, StateRole};

use super::EnsembleError;
use super::leading::Leading;
use super::log_store::{LogStore, SnapshotPlace, zxid_of};
use super::start::{Ensemble, Started};
use crate::engine::request::Chore;
use crate::engine::sequencer::Sequencer;
use crate::engine::time::Now;
use crate::ensemble::clients::Clients;
use crate::ensemble::queue::Submission;
use crate::ensemble::replica::Replica;
use crate::ensemble::snapshots::write_walk;
use crate::ensemble::steps::Applier;
use crate::storage::{
    Compression, DataDirectory, Purged, ReceivedSnapshot, SnapshotFile, SnapshotWriter,
    SpareFiller, StorageError,
};

/// Ticks without a word of the leader before a member stands for election; up to twice as many.
const ELECTION_TICKS: usize = 10;
/// Ticks between a leader's signs of life.
const HEARTBEAT_TICKS: usize = 2;
/// Bytes of entries in one message.
const MESSAGE_BYTES: u64 = 1 << 20;
/// Messages on their way to a peer that did not answer yet.
const MESSAGES_IN_FLIGHT: usize = 256;
/// Requests of a leader that are not final; more are not taken.
const WAITING_MAX: usize = 64 << 10;

/// The way to the other members. It may lose, repeat and reorder.
pub trait Transport {
    /// Sends a message to the member that it names. Never waits.
    fn send(&mut self, message: PeerMessage);

    /// Sends a snapshot, and behind it the message that tells of it. What came of it is to be given to
    /// [`Member::report_snapshot`].
    fn send_snapshot(&mut self, message: PeerMessage, file: SnapshotFile);
}

/// A member of an ensemble.
pub struct Member<T> {
    node: RawNode<LogStore>,
    ensemble: Ensemble,
    applier: Applier,
    transport: T,
    /// From the leader's first entry to the end of its term.
    leading: Option<Leading>,
    /// A snapshot that came whole, until it is installed or turns out not to be needed.
    received: Option<ReceivedSnapshot>,
    /// zoo.cfg's tickTime, which sessions expire by.
    tick_ms: u64,
}

impl<T> std::fmt::Debug for Member<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let raft = &self.node.raft;
        f.debug_struct("Member")
            .field("id", &raft.id)
            .field("term", &raft.term)
            .field("role", &raft.state)
            .finish_non_exhaustive()
    }
}

impl<T: Transport> Member<T> {
    /// Goes on where `started` is.
    ///
    /// # Errors
    /// When the ensemble cannot be as it is described.
    pub fn new(
        ensemble: Ensemble,
        started: Started,
        clients: Arc<dyn Clients>,
        transport: T,
        tick_ms: u64,
    ) -> Result<Self, EnsembleError> {
        let Started { store, database, applied } = started;
        let config = Config {
            id: ensemble.id,
            applied,
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            max_size_per_msg: MESSAGE_BYTES,
            max_committed_size_per_ready: MESSAGE_BYTES,
            max_inflight_msgs: MESSAGES_IN_FLIGHT,
            pre_vote: true,
            check_quorum: true,
            ..Config::default()
        };
        let node = RawNode::new(&config, store, &slog::Logger::root(ToTracing, slog::o!()))?;
        let applier = Applier { replica: Arc::new(Replica::new(database)), clients };
        let (leading, received) = (None, None);
        let mut member = Self { node, ensemble, applier, transport, leading, received, tick_ms };
        member.set_election_timeout();
        Ok(member)
    }

    /// The applied state.
    #[must_use]
    pub const fn replica(&self) -> &Arc<Replica> {
        &self.applier.replica
    }

    /// Where messages go.
    pub const fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// The data directory.
    #[must_use]
    pub fn directory(&self) -> &Arc<DataDirectory> {
        self.node.store().directory()
    }

    /// The member that leads, as far as this one knows; 0 for nobody.
    #[must_use]
    pub fn leader(&self) -> u64 {
        self.node.raft.leader_id
    }

    /// The term that this member is in.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.node.raft.term
    }

    /// The last entry that is known to be final.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.node.raft.raft_log.committed
    }

    /// The last entry that is applied.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.node.raft.raft_log.applied
    }

    /// Whether requests are taken here.
    #[must_use]
    pub const fn is_leading(&self) -> bool {
        self.leading.is_some()
    }

    /// The orderer's own state, where requests are taken.
    pub fn sequencer(&mut self) -> Option<&mut Sequencer> {
        self.leading.as_mut().map(Leading::sequencer)
    }

    /// A tick of the clock of elections and signs of life.
    pub fn tick(&mut self) {
        self.node.tick();
        self.set_election_timeout();
    }

    /// Takes what a peer said.
    pub fn step(&mut self, message: PeerMessage) {
        match message.get_msg_type() {
            // A follower's requests come another way; a snapshot comes with its file.
            MessageType::MsgPropose | MessageType::MsgSnapshot => {}
            // What cannot be used is passed over, as if it had been lost.
            _ => drop(self.node.step(message)),
        }
        self.set_election_timeout();
    }

    /// Takes a snapshot that came with its message. One that is not whole is passed over.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn receive_snapshot(
        &mut self,
        message: PeerMessage,
        received: ReceivedSnapshot,
        now: Now,
    ) -> Result<(), EnsembleError> {
        let snapshot = message.get_snapshot();
        let index = snapshot.get_metadata().index;
        if message.get_msg_type() != MessageType::MsgSnapshot
            || zxid_of(snapshot) != Some(received.zxid())
            || !received.is_whole(index)?
        {
            return Ok(());
        }
        self.turn(now)?;
        self.received = Some(received);
        drop(self.node.step(message));
        self.set_election_timeout();
        self.turn(now)?;
        self.received = None;
        Ok(())
    }

    /// What came of a snapshot that was sent.
    pub fn report_snapshot(&mut self, to: u64, status: SnapshotStatus) {
        self.node.report_snapshot(to, status);
    }

    /// A peer could not be reached.
    pub fn report_unreachable(&mut self, peer: u64) {
        self.node.report_unreachable(peer);
    }

    /// Hands over to another member, which must have the whole log for it.
    pub fn hand_over(&mut self, to: u64) {
        self.node.transfer_leader(to);
        self.set_election_timeout();
    }

    /// Takes requests and what the server itself wants. Gives them back where this member does not lead, hands over,
    /// or has as much as it takes.
    ///
    /// # Errors
    /// When a decided transaction gets no place.
    pub fn submit(
        &mut self,
        chores: &[Chore],
        submissions: Vec<Submission>,
        now: Now,
    ) -> Result<Vec<Submission>, EnsembleError> {
        let raft = &self.node.raft;
        let takes = raft.state == StateRole::Leader && raft.lead_transferee.is_none();
        let term = raft.term;
        let leading = self
            .leading
            .as_mut()
            .filter(|leading| takes && leading.term() == term && leading.waiting() < WAITING_MAX);
        let Some(leading) = leading else { return Ok(submissions) };
        let node = &mut self.node;
        leading.decide(&self.applier.replica, chores, submissions, now, |record| {
            let mut data = Vec::new();
            record.encode(&mut data);
            node.propose(Vec::new(), data)
        })?;
        self.applier.under_hold(|applying| leading.finish_settled(applying))?;
        Ok(Vec::new())
    }

    /// Does all that is due.
    ///
    /// # Errors
    /// When the disk refuses or a transaction does not fit. The caller ends the process: nobody was told of what is
    /// not durable.
    pub fn turn(&mut self, now: Now) -> Result<(), EnsembleError> {
        while self.node.has_ready() {
            self.end_of_term();
            let mut unsent = Vec::new();
            let mut ready = self.node.ready();
            self.send(ready.take_messages(), &mut unsent);
            let snapshot = ready.snapshot().clone();
            let promise = ready.must_sync().then(|| self.node.raft.hard_state());
            if let Some(state) = &promise {
                self.node.mut_store().promise(state, None)?;
            }
            if !snapshot.is_empty() {
                self.install(&snapshot)?;
            }
            self.node.mut_store().append(ready.take_entries())?;
            self.send(ready.take_persisted_messages(), &mut unsent);
            self.apply(&ready.take_committed_entries(), now)?;
            let mut light = self.node.advance_append(ready);
            self.send(light.take_messages(), &mut unsent);
            self.apply(&light.take_committed_entries(), now)?;
            self.node.advance_apply();
            for peer in unsent {
                self.node.report_snapshot(peer, SnapshotStatus::Failure);
            }
            self.set_election_timeout();
        }
        self.end_of_term();
        self.applier.clients.flush();
        Ok(())
    }

    /// Takes a snapshot of the applied state, all of it at once.
    ///
    /// # Errors
    /// When the disk refuses; the log keeps everything.
    pub fn take_snapshot(&mut self) -> Result<(), StorageError> {
        let index = self.applied();
        let mut hold = self.applier.replica.exclusive();
        hold.database().begin_walk();
        let zxid = hold.database().last_zxid().0;
        let writer =
            SnapshotWriter::create(self.node.store().directory(), zxid, index, Compression::None)?;
        let tree = hold.database().tree();
        write_walk(writer, std::iter::from_fn(|| tree.advance_walk(u32::MAX, 0)))?;
        drop(hold);
        self.node.mut_store().snapshot_taken(SnapshotPlace { index, zxid });
        Ok(())
    }

    /// Keeps the newest `keep` snapshots and the log behind them.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn purge(&mut self, keep: usize) -> Result<Purged, StorageError> {
        self.node.mut_store().log.purge(keep)
    }

    /// The filler of the log's spares, for a thread of its own.
    #[must_use]
    pub fn spare_filler(&self) -> SpareFiller {
        self.node.store().log.spare_filler()
    }

    fn send(&mut self, messages: Vec<PeerMessage>, unsent: &mut Vec<u64>) {
        for message in messages {
            if message.get_msg_type() != MessageType::MsgSnapshot {
                self.transport.send(message);
                continue;
            }
            let file = zxid_of(message.get_snapshot())
                .map(|zxid| SnapshotFile::open(self.node.store().directory(), zxid));
            match file {
                Some(Ok(file)) => self.transport.send_snapshot(message, file),
                _ => unsent.push(message.to),
            }
        }
    }

    /// Puts a snapshot in the place of the log and of the applied state.
    fn install(&mut self, snapshot: &Snapshot) -> Result<(), EnsembleError> {
        let metadata = snapshot.get_metadata();
        let wrong = EnsembleError::Entry { index: metadata.index };
        let is_it = |received: &mut ReceivedSnapshot| zxid_of(snapshot) == Some(received.zxid());
        let Some(received) = self.received.take_if(is_it) else { return Err(wrong) };
        received.install()?;
        let started = self.ensemble.start(Arc::clone(self.node.store().directory()))?;
        if started.applied != metadata.index {
            return Err(wrong);
        }
        *self.node.mut_store() = started.store;
        let state = self.node.raft.hard_state();
        self.node.mut_store().promise(&state, Some(metadata.get_conf_state()))?;
        *self.applier.replica.exclusive().database() = started.database;
        Ok(())
    }

    /// Applies what is final and answers whoever asked for it here.
    fn apply(&mut self, entries: &[Entry], now: Now) -> Result<(), EnsembleError> {
        if entries.is_empty() {
            return Ok(());
        }
        let Self { node, applier, leading, ensemble, tick_ms, .. } = self;
        let raft = &node.raft;
        let leads = |entry: &Entry| raft.state == StateRole::Leader && raft.term == entry.term;
        applier.under_hold(|applying| {
            for entry in entries {
                let wrong = || EnsembleError::Entry { index: entry.index };
                if entry.entry_type != EntryType::EntryNormal {
                    return Err(wrong());
                }
                let last = applying.database().last_zxid().0;
                if entry.data.is_empty() {
                    let zxid = i64::try_from(entry.term).map_err(|_| wrong())? << 32;
                    let header = jute::txn::TxnHeader { client_id: 0, cxid: 0, zxid, time: 0 };
                    applying.apply(TxnRecord { header, txn: Txn::Error(0), digest: None })?;
                    if leads(entry) {
                        let server_id = (ensemble.id & 0xff) as u8;
                        let database = &*applying.database();
                        *leading = Some(Leading::new(database, *tick_ms, server_id, now));
                    }
                    continue;
                }
                let (record, _) = TxnRecord::decode(&entry.data).map_err(|_| wrong())?;
                let zxid = record.header.zxid;
                if zxid <= last {
                    return Err(wrong());
                }
                if let Some(leading) = leading.as_mut()
                    && leading.finish(zxid, applying)?
                {
                    continue;
                }
                applying.let_readers_in();
                applying.apply(record)?;
            }
            Ok(())
        })?;
        if let Some(leading) = &mut self.leading {
            leading.tell_notices();
        }
        Ok(())
    }

    /// Ends what belongs to a term that this member does not lead any more.
    fn end_of_term(&mut self) {
        let raft = &self.node.raft;
        let is_over =
            |leading: &mut Leading| raft.state != StateRole::Leader || raft.term != leading.term();
        if let Some(leading) = self.leading.take_if(is_over) {
            leading.end(&*self.applier.clients);
        }
    }

    /// Replaces the timeout that the crate draws from the machine's chance: members differ in it, and so do a member's
    /// terms, but the same seed gives the same.
    fn set_election_timeout(&mut self) {
        let raft = &mut self.node.raft;
        let mut draw = self.ensemble.seed ^ raft.id.rotate_left(32) ^ raft.term;
        draw = (draw ^ (draw >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        draw = (draw ^ (draw >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let more = (draw >> 33) as usize % ELECTION_TICKS;
        raft.set_randomized_election_timeout(ELECTION_TICKS + more);
    }
}

/// The log lines of the crate `raft`.
struct ToTracing;

impl slog::Drain for ToTracing {
    type Ok = ();
    type Err = slog::Never;

    fn log(
        &self,
        record: &slog::Record<'_>,
        _values: &slog::OwnedKVList,
    ) -> Result<(), slog::Never> {
        let text = record.msg();
        match record.level() {
            slog::Level::Critical | slog::Level::Error => tracing::error!("{text}"),
            slog::Level::Warning => tracing::warn!("{text}"),
            slog::Level::Info => tracing::info!("{text}"),
            slog::Level::Debug | slog::Level::Trace => tracing::debug!("{text}"),
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "sim_test.rs"]
mod sim_test;
