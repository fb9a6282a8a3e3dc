//! The log as the members agree on it: the crate `raft`, its disk, and what is not on it yet.

use std::sync::Arc;

use hashbrown::HashSet;
use raft::eraftpb::{Message as PeerMessage, MessageType};
use raft::{Config, RawNode, Ready, SnapshotStatus, StateRole};

use super::EnsembleError;
use super::disk::{What, Write, Written};
use super::election::ELECTION_TICKS;
use super::hint::Hint;
use super::library_log::LibraryLog;
use super::log_store::{LogStore, Shown, SnapshotPlace, zxid_of};
use super::member::Transport;
use super::progress::Appended;
use super::start::Ensemble;
use super::unsynced::Unsynced;
use crate::engine::database::Database;
use crate::engine::time::Monotonic;
use crate::engine::zxid::Zxid;
use crate::ensemble::disk_room::DiskRoom;
use crate::ensemble::steps::TURN_BYTES;
use crate::storage::{DataDirectory, Over, ReceivedSnapshot, SnapshotFile};

/// Ticks between a leader's signs of life.
const HEARTBEAT_TICKS: usize = 2;
/// Bytes of entries that are applied in one turn, and one page of [`MESSAGE_BYTES`] more; an entry
/// costs some beside its own. That takes some 50 ms, and nothing ticks meanwhile. What a leader
/// decides in a turn is no more, so what is left does not grow.
const APPLY_BYTES: usize = TURN_BYTES;
/// Bytes of entries in one message.
const MESSAGE_BYTES: u64 = 1 << 20;
/// Messages on their way to a peer that did not answer yet: all of them fit into what may wait to
/// be sent.
const MESSAGES_IN_FLIGHT: usize = 32;

/// What a member has of the log, and of those that it agrees on it with.
pub struct Consensus {
    pub(super) node: RawNode<LogStore>,
    library_log: LibraryLog,
    pub(super) ensemble: Ensemble,
    /// Members that can be talked to, in both directions.
    pub(super) found: HashSet<u64>,
    /// What is on its way to the disk.
    pub(super) unsynced: Unsynced,
    /// The room on it.
    pub(super) room: DiskRoom,
    /// A snapshot that came whole, until it goes to the disk or turns out not to be needed.
    received: Option<ReceivedSnapshot>,
    /// What came into the log, until it is asked for.
    pub(super) appended: Vec<Appended>,
    /// When it is written down how much of the log is final.
    pub(super) hint: Hint,
    /// Bytes that are applied in one turn.
    pub(super) apply_bytes: usize,
    /// The last turn left something that can be applied.
    pub(super) is_behind: bool,
    /// The leader's connection has ended, and there is no other leader yet.
    pub(super) is_missed: bool,
    /// It may tell the others nothing.
    pub(super) is_silent: bool,
    /// Ticks that have passed.
    pub(super) ticks: u32,
    /// Ticks since the last word of a leader, even of one that could not be followed.
    pub(super) unheard: usize,
    /// When this member wanted to hand over for its disk.
    pub(super) left_disk: Monotonic,
    /// When a seat was taken out last because its server asked for another one.
    pub(super) unused_seat_taken_out: Option<Monotonic>,
    /// Servers have answered their founder since that was asked for.
    pub(super) has_answers: bool,
    /// The directory is not this member's any more. The disk writes that down, and nothing else is
    /// done.
    pub(super) has_ended: bool,
}

impl std::fmt::Debug for Consensus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let raft = &self.node.raft;
        f.debug_struct("Consensus")
            .field("id", &format_args!("{:#x}", raft.id))
            .field("term", &raft.term)
            .field("role", &raft.state)
            .finish_non_exhaustive()
    }
}

impl Consensus {
    pub(super) fn new(
        ensemble: Ensemble,
        store: LogStore,
        applied: u64,
    ) -> Result<Self, EnsembleError> {
        let config = Config {
            id: store.promises.id,
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
        let library_log = LibraryLog::default();
        let logger = slog::Logger::root(library_log.clone(), slog::o!());
        let node = RawNode::new(&config, store, &logger)?;
        let mut consensus = Self {
            node,
            library_log,
            ensemble,
            found: HashSet::new(),
            unsynced: Unsynced::default(),
            room: DiskRoom::default(),
            received: None,
            appended: Vec::new(),
            hint: Hint::default(),
            apply_bytes: APPLY_BYTES,
            is_behind: false,
            is_missed: false,
            is_silent: false,
            ticks: 0,
            unheard: 0,
            left_disk: Monotonic::default(),
            unused_seat_taken_out: None,
            has_answers: false,
            has_ended: false,
        };
        consensus.set_election_timeout();
        Ok(consensus)
    }

    /// The data directory.
    #[must_use]
    pub fn directory(&self) -> &Arc<DataDirectory> {
        self.node.store().directory()
    }

    /// This member's id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.node.raft.id
    }

    /// Whether it only follows.
    #[must_use]
    pub fn is_learner(&self) -> bool {
        !self.node.raft.promotable()
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

    /// The last entry of the log, durable or not.
    #[must_use]
    pub fn last_index(&self) -> u64 {
        self.node.raft.raft_log.last_index()
    }

    /// The last entry that is known to be on this member's disk.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.node.raft.raft_log.persisted
    }

    /// Whether this member leads.
    pub(super) fn leads(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    /// Whether it leads in this term.
    pub(super) fn leads_in(&self, term: u64) -> bool {
        self.leads() && self.term() == term
    }

    /// Whether it leads and can propose what it decides.
    pub(super) fn may_propose(&self) -> bool {
        self.leads()
            && !self.has_ended
            && self.node.raft.lead_transferee.is_none()
            && !self.unsynced.is_full()
    }

    /// From here on words to and from a member arrive, in their order.
    pub(super) fn found(&mut self, peer: u64) {
        self.found.insert(peer);
    }

    /// Words to or from a member may have been lost, and more will be until it is found again.
    pub(super) fn lost(&mut self, peer: u64) {
        self.found.remove(&peer);
    }

    /// Whether this member has a way to another one.
    pub(super) fn has_found(&self, peer: u64) -> bool {
        self.found.contains(&peer)
    }

    /// Whether this process may tell the others nothing: as long as that is so, it does not stand
    /// for election, which an only voter would win unheard.
    pub const fn set_silent(&mut self, is_silent: bool) {
        self.is_silent = is_silent;
    }

    /// Takes what a peer said.
    pub(super) fn step(&mut self, message: PeerMessage) {
        let is_leaders =
            matches!(message.get_msg_type(), MessageType::MsgAppend | MessageType::MsgHeartbeat);
        if is_leaders && message.term >= self.node.raft.term {
            self.unheard = 0;
        }
        match message.get_msg_type() {
            // A follower's requests come another way; a snapshot comes with its file.
            MessageType::MsgPropose | MessageType::MsgSnapshot => {}
            MessageType::MsgTimeoutNow if self.lacks_base() || !self.may_stand() => {}
            // An ensemble is founded on what one member has. Those who have not got it yet are no
            // majority without it.
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote
                if message.index < self.node.store().promises.base => {}
            MessageType::MsgReadIndex | MessageType::MsgReadIndexResp
                if message.get_entries().len() != 1 => {}
            // The leader sends them again when there is room.
            MessageType::MsgAppend
                if self.unsynced.is_full() && !message.get_entries().is_empty() => {}
            MessageType::MsgAppend if !message.get_entries().is_empty() && self.has_full_disk() => {
            }
            // Neither a vote nor that there is a later term can be kept.
            _ if message.term > self.node.raft.term && self.has_no_room() => {}
            // What cannot be used is passed over, as if it had been lost.
            _ => drop(self.node.step(message)),
        }
        self.set_election_timeout();
    }

    /// Takes a snapshot that came with its message.
    pub(super) fn take_snapshot(&mut self, mut message: PeerMessage, received: ReceivedSnapshot) {
        self.received = Some(received);
        self.node.store().keep_members(message.mut_snapshot());
        drop(self.node.step(message));
        self.set_election_timeout();
    }

    /// Drops a snapshot that turned out not to be needed.
    pub(super) fn drop_snapshot(&mut self) {
        self.received = None;
    }

    /// Whether the crate has something ready.
    pub(super) fn has_ready(&self) -> bool {
        self.node.has_ready()
    }

    /// Asks the leader for a round with this name.
    pub(super) fn begin_round(&mut self, name: Vec<u8>) {
        self.node.read_index(name);
    }

    /// Takes what the crate has ready: sends what may go at once, and hands to the disk what is for
    /// it. `unsent` are those who get no snapshot.
    pub(super) fn take_ready(
        &mut self,
        now: Monotonic,
        transport: &mut impl Transport,
        unsent: &mut Vec<u64>,
    ) -> Result<Ready, EnsembleError> {
        let mut ready = self.node.ready();
        self.unsynced.begin(ready.number());
        let of_leader = ready.take_messages();
        self.hand_to_disk(&mut ready, now)?;
        // The only voter leads before its promise is durable.
        if self.unsynced.has_promise() {
            self.unsynced.keep(of_leader);
        } else {
            self.send(of_leader, transport, unsent);
        }
        let (at_once, persisted) =
            ready.take_persisted_messages().into_iter().partition(tells_nothing_durable);
        self.send(at_once, transport, unsent);
        self.unsynced.keep(persisted);
        Ok(ready)
    }

    /// Goes on behind what was ready, whose entries are applied: up to which one, and how many
    /// bytes. Whether there can be more.
    pub(super) fn advance(
        &mut self,
        ready: Ready,
        (applied, bytes): (Option<u64>, usize),
        transport: &mut impl Transport,
        mut unsent: Vec<u64>,
    ) -> bool {
        self.hint.count(bytes);
        // A leader that is no member is nothing that the crate knows.
        let has_ended = self.has_ended;
        if !has_ended {
            self.node.advance_append_async(ready);
        }
        if let Some(last) = applied {
            self.node.advance_apply_to(last);
        }
        if has_ended {
            return false;
        }
        self.go_on_durable(transport, &mut unsent);
        self.give_up(unsent);
        self.set_election_timeout();
        true
    }

    /// Hands to the disk what a `Ready` has for it.
    fn hand_to_disk(&mut self, ready: &mut Ready, now: Monotonic) -> Result<(), EnsembleError> {
        let Self { node, unsynced, received, room, appended, .. } = self;
        let (state, applied) = (node.raft.hard_state(), node.raft.raft_log.applied);
        let store = node.mut_store();
        if ready.snapshot().is_empty() {
            let next = ready.entries().first().map(|entry| entry.index);
            if let Some(promise) = store.promise(&state, applied, next) {
                unsynced.write(Write(What::Promise(promise)), now);
            }
        } else {
            let snapshot = ready.snapshot();
            let metadata = snapshot.get_metadata();
            let index = metadata.index;
            let shown = Shown::of(snapshot);
            let is_it =
                |received: &mut ReceivedSnapshot| zxid_of(snapshot) == Some(received.zxid());
            let (Some(received), Some(shown)) = (received.take_if(is_it), shown) else {
                return Err(EnsembleError::Entry { index });
            };
            let Shown { zxid, configured_at } = shown;
            let place = SnapshotPlace { index, zxid };
            let promise = store.replace(&state, place, metadata.get_conf_state(), configured_at);
            unsynced.write(Write(What::Install(Box::new(received), index, promise)), now);
        }
        let records = store.append(ready.take_entries())?;
        if !records.is_empty() {
            appended.extend(records.iter().filter_map(Appended::of));
            let write = Write(What::Append(records));
            room.count(write.bytes() as u64);
            unsynced.write(write, now);
        }
        Ok(())
    }

    /// The oldest writes that were taken are durable. Gives the state that took the place of the
    /// applied one, if one did, and the entry after which it is.
    pub(super) fn written(&mut self, written: Written) -> Option<(u64, Database)> {
        self.unsynced.written(written.writes);
        let log = &mut self.node.mut_store().log;
        let next = log.last_index().saturating_add(1);
        // They are those of a log that a snapshot is about to replace.
        let segments = written.segments.filter(|_| !self.unsynced.has_snapshot());
        log.written(segments, self.unsynced.first_entry().unwrap_or(next));
        written.installed
    }

    /// The state after the entry at `index` took the place of the applied one.
    pub(super) fn installed(&mut self, index: u64) {
        self.node.advance_apply_to(index);
    }

    /// Counts what is durable, and sends what waited for it.
    pub(super) fn go_on_durable(&mut self, transport: &mut impl Transport, unsent: &mut Vec<u64>) {
        self.node.on_persist_ready(self.unsynced.durable());
        let due = self.unsynced.due();
        self.send(due, transport, unsent);
    }

    fn send(
        &self,
        messages: Vec<PeerMessage>,
        transport: &mut impl Transport,
        unsent: &mut Vec<u64>,
    ) {
        for message in messages {
            if message.get_msg_type() != MessageType::MsgSnapshot {
                transport.send(message);
                continue;
            }
            let file = zxid_of(message.get_snapshot())
                .map(|zxid| SnapshotFile::open(self.node.store().directory(), zxid));
            match file {
                Some(Ok(file)) => transport.send_snapshot(message, file),
                _ => unsent.push(message.to),
            }
        }
    }

    /// These got no snapshot.
    pub(super) fn give_up(&mut self, unsent: Vec<u64>) {
        for peer in unsent {
            self.node.report_snapshot(peer, SnapshotStatus::Failure);
        }
    }

    /// What the disk is to do, to be carried out in this order;
    /// [`Member::persisted`](super::Member::persisted) is to hear of it.
    pub fn take_writes(&mut self) -> Vec<Write> {
        self.unsynced.take_writes()
    }

    /// Entries that are applied after the newest snapshot.
    #[must_use]
    pub fn behind_snapshot(&self) -> u64 {
        self.applied().saturating_sub(self.node.store().snapshot_index())
    }

    /// Whether a snapshot may be taken. It shows nothing of the members, and the log that says them
    /// is not read after it: their last change has to be durable first. And who has no base has no
    /// tree.
    pub(super) fn may_take_snapshot(&self) -> bool {
        let waits = self.unsynced.has_members() || self.unsynced.has_snapshot();
        !waits && !self.lacks_base()
    }

    /// A snapshot is durable that shows the state after the entry `index`. The log goes on in a
    /// new segment, so that purge can follow.
    pub(super) fn snapshot_taken(&mut self, index: u64, zxid: Zxid, now: Monotonic) {
        if self.node.mut_store().snapshot_taken(SnapshotPlace { index, zxid: zxid.0 }) {
            self.unsynced.write_aside(Write(What::Roll), now);
        }
    }

    /// The directory is not this member's any more, once that is written down.
    pub(super) fn write_over(&mut self, over: Over, now: Monotonic) {
        self.unsynced.write_aside(Write(What::Over(over)), now);
    }

    /// The process ends. Until it has, the member goes on.
    pub fn ends(&self) {
        self.library_log.ends();
    }

    /// Files of the log may have been removed that no start needs.
    pub fn purged(&mut self, now: Monotonic) {
        let applied = self.applied();
        self.unsynced.write_aside(Write(What::Purged(applied)), now);
    }

    /// Since when the oldest write that was taken is not durable.
    #[must_use]
    pub fn unsynced_since(&self) -> Option<Monotonic> {
        self.unsynced.since()
    }

    /// What came of a snapshot that was sent.
    pub fn report_snapshot(&mut self, to: u64, status: SnapshotStatus) {
        if !self.has_ended {
            self.node.report_snapshot(to, status);
        }
    }

    /// A peer could not be reached.
    pub fn report_unreachable(&mut self, peer: u64) {
        if !self.has_ended {
            self.node.report_unreachable(peer);
        }
    }
}

/// Whether a message need not wait for the disk: a question, or a word that this member is there
/// and has heard of no later leader. Whom it elects after that has what was final before.
fn tells_nothing_durable(message: &PeerMessage) -> bool {
    matches!(message.get_msg_type(), MessageType::MsgHeartbeatResponse | MessageType::MsgReadIndex)
}
