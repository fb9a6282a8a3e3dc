//! The ready loop: what the crate `raft` wants done, in the order in which it must be.
//!
//! Of one [`Ready`](raft::Ready): a leader's messages go at once, for its own disk is but one of
//! the quorum; then term and vote, a snapshot, and entries are handed to the disk, in this order;
//! what tells a peer of them is kept until they are durable, and until then this member's disk
//! counts for nobody. Then what is final is applied and answered: the crate gives only what this
//! disk has, so that no snapshot shows more. Nothing else touches the log, so that this order is
//! the only one there is.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use raft::eraftpb::{Message as PeerMessage, MessageType};
use raft::{Config, RawNode, Ready, SnapshotStatus, StateRole};

use super::applying::bytes_of;
use super::disk::{DiskWriter, What, Write, Written};
use super::following::Following;
use super::here::Here;
use super::hint::Hint;
use super::leading::Leading;
use super::lists::Lists;
use super::log_store::{LogStore, Shown, SnapshotPlace, zxid_of};
use super::progress::Appended;
use super::read_index::Rounds;
use super::requests::Asking;
use super::room::Rooms;
use super::start::{Ensemble, Started};
use super::trees::Trees;
use super::turns::Turns;
use super::unsynced::Unsynced;
use super::{EnsembleError, server_of};
use crate::engine::apply::Mode;
use crate::engine::decide::local::LocalSessions;
use crate::engine::decide::sequencer::Sequencer;
use crate::engine::time::{Monotonic, Now};
use crate::engine::zxid::Zxid;
use crate::ensemble::clients::Clients;
use crate::ensemble::disk_room::Room;
use crate::ensemble::queue::Submission;
use crate::ensemble::replica::Replica;
use crate::ensemble::snapshots::Snapshots;
use crate::ensemble::steps::{Applier, TURN_BYTES};
use crate::ensemble::words::{Stream, Word};
use crate::message::MessageId;
use crate::storage::{DataDirectory, Over, ReceivedSnapshot, SnapshotFile};

/// Ticks without a word of the leader before a member stands for election; up to twice as many.
const ELECTION_TICKS: usize = 10;
/// The same after the end of the leader's connection, which all see at once.
const TICKS_TO_DIFFER: usize = 4;
/// Ticks by which the others may have heard of the leader later: they give no vote for as long as
/// [`ELECTION_TICKS`].
const TICKS_TO_FORGET: usize = 2;
/// How much faster the clock of elections runs then: two who stand at the same time try again that
/// much sooner.
const HASTE: usize = 3;
/// Ticks between a leader's signs of life.
const HEARTBEAT_TICKS: usize = 2;
/// After so many ticks entries in memory are a while older.
const TICKS_TO_AGE: u32 = 20;
/// Bytes of entries that are applied in one turn, and one page of [`MESSAGE_BYTES`] more; an entry
/// costs some beside its own. That takes some 50 ms, and nothing ticks meanwhile. What a leader
/// decides in a turn is no more, so what is left does not grow.
const APPLY_BYTES: usize = TURN_BYTES;
/// Bytes of entries in one message.
const MESSAGE_BYTES: u64 = 1 << 20;
/// Messages on their way to a peer that did not answer yet: all of them fit into what may wait to
/// be sent.
const MESSAGES_IN_FLIGHT: usize = 32;

/// A write of a leader that lasts longer than this has it hand over, and again so long after an
/// attempt.
const DISK_PATIENCE_MS: u64 = 1000;

/// The way to the other members. It may lose, repeat and reorder.
pub trait Transport {
    /// Sends a message to the member that it names. Never waits.
    fn send(&mut self, message: PeerMessage);

    /// Tells a member a word. From [`Member::found`] to [`Member::lost`], called on both sides,
    /// words arrive in their order, and none before a message that was sent before it.
    fn say(&mut self, to: u64, word: Word);

    /// Sends a snapshot, and after it the message that tells of it. What came of it is to be given
    /// to [`Member::report_snapshot`].
    fn send_snapshot(&mut self, message: PeerMessage, file: SnapshotFile);

    /// Where the process is that speaks as this server, if one does.
    fn hears_from(&self, server: u8) -> Option<IpAddr>;
}

/// A member of an ensemble.
pub struct Member<T> {
    pub(super) node: RawNode<LogStore>,
    pub(super) ensemble: Ensemble,
    pub(super) applier: Applier,
    pub(super) transport: T,
    /// Of all clients, this member's.
    pub(super) here: Arc<Here>,
    /// From the leader's first entry to the end of its term.
    pub(super) leading: Option<Leading>,
    /// While there is another leader.
    pub(super) following: Option<Following>,
    /// Requests that nobody was asked for yet; those of other members with their stream.
    pub(super) held: VecDeque<(Submission, Option<(u64, Stream)>)>,
    /// Bytes that are decided in one turn, and those of them that the turn in progress has left.
    pub(super) turn_bytes: usize,
    pub(super) turn_left: usize,
    /// Bytes that are applied in one turn.
    pub(super) apply_bytes: usize,
    /// The last turn left something that can be applied.
    pub(super) is_behind: bool,
    /// When it is written down how much of the log is final.
    pub(super) hint: Hint,
    /// When a seat was taken out last because its server asked for another one.
    pub(super) unused_seat_taken_out: Option<Monotonic>,
    /// Members that can be talked to, in both directions.
    pub(super) found: HashSet<u64>,
    /// The leader's connection has ended, and there is no other leader yet.
    pub(super) is_missed: bool,
    /// It may tell the others nothing.
    is_silent: bool,
    /// The stream of each member that has asked this one.
    pub(super) streams: HashMap<u64, Asking>,
    /// The last one to a leader.
    pub(super) last_stream: Stream,
    /// When the leader was last told which sessions were heard of.
    pub(super) reported: Monotonic,
    /// A snapshot that came whole, until it goes to the disk or turns out not to be needed.
    pub(super) received: Option<ReceivedSnapshot>,
    ticks: u32,
    /// What is on its way to the disk.
    pub(super) unsynced: Unsynced,
    /// What shows that whom this member takes for the leader is it.
    pub(super) rounds: Rounds,
    /// When this member wanted to hand over for its disk.
    pub(super) left_disk: Monotonic,
    /// Whose turn it is to take a snapshot.
    pub(super) turns: Turns,
    /// Whose disks have room.
    pub(super) rooms: Rooms,
    /// Whom the members list.
    pub(super) lists: Lists,
    /// Whether all have the same tree.
    pub(super) trees: Trees,
    /// What came into the log, until it is asked for.
    pub(super) appended: Vec<Appended>,
    /// Servers have answered their founder since that was asked for.
    pub(super) has_answers: bool,
    /// zoo.cfg's tickTime, which sessions expire by.
    pub(super) tick_ms: u64,
    /// Sessions that live here only, if there can be any.
    pub(super) local: Option<LocalSessions>,
    /// The directory is not this member's any more. The disk writes that down, and nothing else is
    /// done.
    pub(super) has_ended: bool,
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
    /// Goes on where `started` is; its state takes the place of what `replica` shows. With the
    /// member comes what writes for it.
    ///
    /// # Errors
    /// When the ensemble cannot be as it is described.
    pub fn new(
        ensemble: Ensemble,
        started: Started,
        replica: Arc<Replica>,
        clients: Arc<dyn Clients>,
        transport: T,
        tick_ms: u64,
    ) -> Result<(Self, DiskWriter), EnsembleError> {
        let Started { store, writer, database, applied, secret: _ } = started;
        let id = store.promises.id;
        let before = replica.exclusive().install(database);
        drop(before);
        let config = Config {
            id,
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
        let here = Arc::new(Here::new(server_of(id), clients));
        let clients: Arc<dyn Clients> = Arc::clone(&here) as _;
        let mut member = Self {
            node,
            ensemble,
            applier: Applier { replica, clients, mode: Mode::Agreed },
            transport,
            here,
            leading: None,
            following: None,
            held: VecDeque::new(),
            turn_bytes: TURN_BYTES,
            turn_left: 0,
            apply_bytes: APPLY_BYTES,
            is_behind: false,
            hint: Hint::default(),
            unused_seat_taken_out: None,
            found: HashSet::new(),
            is_missed: false,
            is_silent: false,
            streams: HashMap::new(),
            last_stream: Stream(0),
            reported: Monotonic::default(),
            received: None,
            ticks: 0,
            unsynced: Unsynced::default(),
            rounds: Rounds::default(),
            left_disk: Monotonic::default(),
            turns: Turns::default(),
            rooms: Rooms::default(),
            lists: Lists::default(),
            trees: Trees::default(),
            appended: Vec::new(),
            has_answers: false,
            tick_ms,
            local: None,
            has_ended: false,
        };
        member.set_election_timeout();
        Ok((member, writer))
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

    /// Whether there is another member that leads and can be asked.
    #[must_use]
    pub const fn is_following(&self) -> bool {
        self.following.is_some()
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

    /// Whether this process may tell the others nothing: as long as that is so, it does not stand
    /// for election, which an only voter would win unheard.
    pub const fn set_silent(&mut self, is_silent: bool) {
        self.is_silent = is_silent;
    }

    /// A tick of the clock of elections and signs of life.
    pub fn tick(&mut self) {
        self.is_missed &= self.node.raft.leader_id == 0 || self.following.is_none();
        self.turns.tick(self.node.raft.state == StateRole::Leader);
        self.trees.tick();
        if self.has_ended {
            return;
        }
        if self.lacks_base() {
            // It does not stand itself, but one that leads no more keeps nobody else from its vote.
            let elapsed = &mut self.node.raft.election_elapsed;
            *elapsed = elapsed.saturating_add(1);
            return;
        }
        if let Some(following) = self.following.take_if(|following| following.tick()) {
            following.end(&*self.here);
        }
        if self.is_out_of_numbers() {
            self.begin_another_term();
        }
        for _ in 0..if self.is_missed { HASTE } else { 1 } {
            self.tick_once();
        }
        self.rounds.tick();
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(TICKS_TO_AGE) {
            let log = &mut self.node.mut_store().log;
            let next = log.last_index().saturating_add(1);
            log.age(self.unsynced.first_entry().unwrap_or(next));
        }
    }

    fn tick_once(&mut self) {
        if self.may_stand() || self.node.raft.state == StateRole::Leader {
            self.node.tick();
            self.set_election_timeout();
        } else if self.is_behind {
            // One that leads no more keeps nobody else from its vote.
            let elapsed = &mut self.node.raft.election_elapsed;
            *elapsed = elapsed.saturating_add(1);
        }
    }

    /// Whether the crate can have this member stand for election: not while it may not speak, or a
    /// snapshot takes the place of its log, nor before it has applied about what is final, which
    /// the crate would read at once, only where another term can be written down, and an only
    /// voter, which leads at once, only with its whole log durable.
    fn may_stand(&self) -> bool {
        let is_only = self.node.raft.prs().conf().voters().ids().len() == 1;
        !self.is_silent
            && !self.unsynced.has_snapshot()
            && !self.is_behind
            && !self.has_no_room()
            && (!is_only || self.unsynced.is_empty())
    }

    /// The leader is most likely gone: from here on there is nothing to wait for but another one.
    pub(super) fn miss_leader(&mut self) {
        self.is_missed = true;
        if self.lacks_base() || self.has_ended {
            return;
        }
        (0..ELECTION_TICKS).for_each(|_| self.tick_once());
    }

    /// Whether what the ensemble was founded on has not come yet.
    fn lacks_base(&self) -> bool {
        let store = self.node.store();
        store.log.last_index() < store.promises.base
    }

    /// Takes what a peer said.
    pub fn step(&mut self, mut message: PeerMessage) {
        if self.has_ended {
            return;
        }
        self.hold_log(&mut message);
        self.forget_asked(&message);
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
            MessageType::MsgAppend
                if !message.get_entries().is_empty() && self.passes_over_entries() => {}
            // Neither a vote nor that there is a later term can be kept.
            _ if message.term > self.node.raft.term && self.has_no_room() => {}
            // What cannot be used is passed over, as if it had been lost.
            _ => drop(self.node.step(message)),
        }
        self.set_election_timeout();
    }

    /// Takes a snapshot that came with its message. One that was not checked with it is passed
    /// over.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn receive_snapshot(
        &mut self,
        mut message: PeerMessage,
        received: ReceivedSnapshot,
        now: Now,
    ) -> Result<(), EnsembleError> {
        let snapshot = message.get_snapshot();
        let index = snapshot.get_metadata().index;
        if self.has_ended
            || message.get_msg_type() != MessageType::MsgSnapshot
            || zxid_of(snapshot) != Some(received.zxid())
            || self.is_too_old(index)
            || !received.shows(index)
        {
            return Ok(());
        }
        self.turn(now)?;
        self.received = Some(received);
        self.node.store().keep_members(message.mut_snapshot());
        drop(self.node.step(message));
        self.set_election_timeout();
        self.turn(now)?;
        self.received = None;
        Ok(())
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

    /// Hands over to another member, which must have the whole log for it.
    pub fn hand_over(&mut self, to: u64) {
        self.node.transfer_leader(to);
        self.set_election_timeout();
    }

    /// How many members vote, and as a leader sees it, how many other voters and how many learners
    /// are there.
    #[must_use]
    pub fn count_members(&self) -> (usize, usize, usize) {
        let raft = &self.node.raft;
        let conf = raft.prs().conf();
        let there: Vec<u64> = raft
            .prs()
            .iter()
            .map(|(peer, _)| *peer)
            .filter(|peer| *peer != raft.id && self.is_there(*peer))
            .collect();
        let voters = there.iter().filter(|peer| conf.voters().contains(**peer)).count();
        (conf.voters().ids().len(), voters, there.len() - voters)
    }

    /// Hands over to the voter that has most of the log, if it can to one that is connected and
    /// whose disk is not full. To which server, if there is one.
    pub fn hand_over_to_best(&mut self) -> Option<u8> {
        let to = self.best_to_lead(&[])?;
        self.hand_over(to);
        Some(server_of(to))
    }

    /// The voter to which leadership is handed over best: to one of those `tried` only where there
    /// is no other.
    pub(super) fn best_to_lead(&self, tried: &[u64]) -> Option<u64> {
        let raft = &self.node.raft;
        let voters = raft.prs().conf().voters();
        let others = raft.prs().iter().filter(|(peer, _)| {
            **peer != raft.id && self.is_there(**peer) && voters.contains(**peer)
        });
        let best = others.max_by_key(|(peer, progress)| {
            let is_new = !tried.contains(*peer);
            let has_room = self.rooms.of(**peer) < Room::Full;
            // Who was killed a moment ago was heard of just now, too.
            let is_connected = self.found.contains(*peer);
            (is_new, is_connected, progress.recent_active, has_room, progress.matched, **peer)
        });
        best.map(|(peer, _)| *peer)
    }

    /// Lets another member begin a term, or begins one itself where it votes alone.
    fn begin_another_term(&mut self) {
        if self.node.raft.lead_transferee.is_some() || self.hand_over_to_best().is_some() {
            return;
        }
        if self.node.raft.prs().is_singleton() {
            let next = self.node.raft.term + 1;
            self.node.raft.become_follower(next, 0);
            self.set_election_timeout();
        }
    }

    /// Hands over if this leader's disk has done nothing for long and the others are enough without
    /// it: they have a quorum, but this leader can apply and answer nothing.
    fn leave_slow_disk(&mut self, now: Monotonic) {
        let Some(since) = self.unsynced.since() else { return };
        let raft = &self.node.raft;
        let ms = now.since(since);
        let has_tried = now.since(self.left_disk) < DISK_PATIENCE_MS;
        if ms < DISK_PATIENCE_MS || has_tried || raft.state != StateRole::Leader {
            return;
        }
        let voters = raft.prs().conf().voters();
        let others = raft.prs().iter().filter(|(peer, progress)| {
            **peer != raft.id && progress.recent_active && voters.contains(**peer)
        });
        if others.count() <= voters.ids().len() / 2 {
            return;
        }
        self.left_disk = now;
        if let Some(to) = self.hand_over_to_best() {
            tracing::warn!(
                id = %MessageId::LEADER_LEAVES_DISK,
                ms,
                to,
                "the disk of the log hangs: handing over leadership"
            );
        }
    }

    /// Does all that is due. It applies as much as one turn may, and as a leader it decides as
    /// much; [`Self::has_more`] tells of the rest.
    ///
    /// # Errors
    /// When the disk refuses or a transaction does not fit. The caller ends the process: nobody was
    /// told of what is not durable.
    pub fn turn(&mut self, now: Now) -> Result<(), EnsembleError> {
        if self.has_ended {
            return Ok(());
        }
        self.turn_left = self.turn_bytes;
        self.is_behind = false;
        let mut apply_left = self.apply_bytes;
        self.leave_slow_disk(now.monotonic);
        self.look_at_disk(now.monotonic);
        self.compare_trees(now.monotonic);
        loop {
            self.end_of_term();
            self.pass_on(now)?;
            self.go_round(now)?;
            if !self.node.has_ready() {
                break;
            }
            if apply_left == 0 {
                self.is_behind = true;
                break;
            }
            let mut unsent = Vec::new();
            let mut ready = self.node.ready();
            self.unsynced.begin(ready.number());
            let of_leader = ready.take_messages();
            self.hand_to_disk(&mut ready, now)?;
            // The only voter leads before its promise is durable.
            if self.unsynced.has_promise() {
                self.unsynced.keep(of_leader);
            } else {
                self.send(of_leader, &mut unsent);
            }
            let (at_once, persisted) =
                ready.take_persisted_messages().into_iter().partition(tells_nothing_durable);
            self.send(at_once, &mut unsent);
            self.unsynced.keep(persisted);
            self.rounds.answered(ready.take_read_states());
            let committed = ready.take_committed_entries();
            self.apply(&committed, now)?;
            let bytes = bytes_of(&committed);
            apply_left = apply_left.saturating_sub(bytes);
            self.hint.count(bytes);
            // A leader that is no member is nothing that the crate knows.
            let has_ended = self.has_ended;
            if !has_ended {
                self.node.advance_append_async(ready);
            }
            if let Some(last) = committed.last() {
                self.node.advance_apply_to(last.index);
            }
            if has_ended {
                break;
            }
            self.go_on_durable(&mut unsent);
            for peer in unsent {
                self.node.report_snapshot(peer, SnapshotStatus::Failure);
            }
            self.set_election_timeout();
        }
        self.give_hint(now.monotonic);
        self.disown();
        self.applier.clients.flush();
        Ok(())
    }

    /// Hands to the disk what a `Ready` has for it.
    fn hand_to_disk(&mut self, ready: &mut Ready, now: Now) -> Result<(), EnsembleError> {
        let Self { node, unsynced, received, rooms, appended, .. } = self;
        let (state, applied) = (node.raft.hard_state(), node.raft.raft_log.applied);
        let store = node.mut_store();
        let now = now.monotonic;
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
            rooms.own.count(write.bytes() as u64);
            unsynced.write(write, now);
        }
        Ok(())
    }

    /// What the disk is to do, to be carried out in this order; [`Member::persisted`] is to hear of
    /// it.
    pub fn take_writes(&mut self) -> Vec<Write> {
        self.unsynced.take_writes()
    }

    /// The oldest writes that were taken are durable. A turn is due then. Whether another state
    /// took the place of the applied one.
    ///
    /// # Errors
    /// When an answer that was waited for cannot be made.
    pub fn persisted(&mut self, written: Written) -> Result<bool, EnsembleError> {
        if self.has_ended {
            return Ok(false);
        }
        self.unsynced.written(written.writes);
        let log = &mut self.node.mut_store().log;
        let next = log.last_index().saturating_add(1);
        // They are those of a log that a snapshot is about to replace.
        let segments = written.segments.filter(|_| !self.unsynced.has_snapshot());
        log.written(segments, self.unsynced.first_entry().unwrap_or(next));
        let installed = written.installed;
        let index = installed.as_ref().map(|(index, _)| *index);
        if let Some((_, database)) = installed {
            // Watches went with the tree that they were set on: their clients set them again when
            // they come back.
            self.here.close_all();
            if let Some(local) = &mut self.local {
                database.sessions().keys().for_each(|session| local.forget(*session));
            }
            let before = self.applier.replica.exclusive().install(database);
            drop(before);
        }
        let mut unsent = Vec::new();
        self.go_on_durable(&mut unsent);
        if let Some(index) = index {
            self.node.advance_apply_to(index);
            self.tree_replaced(index);
            self.settle()?;
        }
        for peer in unsent {
            self.node.report_snapshot(peer, SnapshotStatus::Failure);
        }
        Ok(index.is_some())
    }

    /// Counts what is durable, and sends what waited for it.
    fn go_on_durable(&mut self, unsent: &mut Vec<u64>) {
        self.node.on_persist_ready(self.unsynced.durable());
        let due = self.unsynced.due();
        self.send(due, unsent);
    }

    /// Entries that are applied after the newest snapshot.
    #[must_use]
    pub fn behind_snapshot(&self) -> u64 {
        self.applied().saturating_sub(self.node.store().snapshot_index())
    }

    /// Whether a snapshot may be taken. It shows nothing of the members, and the log that says them
    /// is not read after it: their last change has to be durable first. A wrong tree is for
    /// nobody, and who has no base has no tree.
    pub(super) fn may_take_snapshot(&self) -> bool {
        let waits = self.unsynced.has_members() || self.unsynced.has_snapshot();
        !waits && !self.has_wrong_tree() && !self.lacks_base()
    }

    /// Begins a snapshot of the applied state, unless it has to wait.
    pub fn begin_snapshot(&self, snapshots: &mut Snapshots, now: Monotonic) {
        if !self.may_take_snapshot() {
            return;
        }
        let reserve = self.ensemble.recovery.log.reserve();
        snapshots.begin_at(&self.applier.replica, self.applied(), reserve, now);
    }

    /// A snapshot is durable that shows the state after the entry `index`. The log goes on in a
    /// new segment, so that purge can follow.
    pub fn snapshot_taken(&mut self, index: u64, zxid: Zxid, now: Monotonic) {
        self.trees.looked(zxid);
        if self.node.mut_store().snapshot_taken(SnapshotPlace { index, zxid: zxid.0 }) {
            self.unsynced.write_aside(Write(What::Roll), now);
        }
    }

    /// Files of the log may have been removed that no start needs.
    pub fn purged(&mut self, now: Monotonic) {
        self.unsynced.write_aside(Write(What::Purged), now);
    }

    /// The directory is not this member's any more, by the log or the word of another member. It
    /// does nothing more, and lets its clients go. Once that is written down, the disk ends with
    /// [`EnsembleError::OlderCopy`] or [`EnsembleError::Replaced`].
    pub fn is_over(&mut self, over: Over, now: Monotonic) {
        if !self.has_ended {
            self.unsynced.write_aside(Write(What::Over(over)), now);
            self.let_all_go();
            self.has_ended = true;
        }
    }

    /// Since when the oldest write that was taken is not durable.
    #[must_use]
    pub fn unsynced_since(&self) -> Option<Monotonic> {
        self.unsynced.since()
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

    /// Replaces the timeout that the crate draws from the machine's chance: members differ in it,
    /// and so do a member's terms, but the same seed gives the same. As long as there is a leader,
    /// each voter has a part of the time for itself, another one in each term: two who miss it at
    /// once do not stand at once and share the votes. An attempt that failed is repeated by chance
    /// alone, or two might keep step.
    fn set_election_timeout(&mut self) {
        let raft = &mut self.node.raft;
        let mut draw = self.ensemble.seed ^ raft.id.rotate_left(32) ^ raft.term;
        draw = (draw ^ (draw >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        draw = (draw ^ (draw >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let draw = (draw >> 33) as usize;
        let more = if self.is_missed {
            draw % TICKS_TO_DIFFER
        } else if raft.leader_id == 0 {
            draw % ELECTION_TICKS
        } else {
            let (mut voters, mut before) = (0, raft.term as usize);
            for voter in raft.prs().conf().voters().ids().iter() {
                voters += 1;
                before = before.wrapping_add(usize::from(voter < raft.id));
            }
            let places = ELECTION_TICKS - TICKS_TO_FORGET;
            let part = (places / voters.max(1)).max(1);
            TICKS_TO_FORGET + (before % voters.max(1) * part + draw % part) % places
        };
        raft.set_randomized_election_timeout(ELECTION_TICKS + more);
    }
}

/// Whether a message need not wait for the disk: a question, or a word that this member is there
/// and has heard of no later leader. Whom it elects after that has what was final before.
fn tells_nothing_durable(message: &PeerMessage) -> bool {
    matches!(message.get_msg_type(), MessageType::MsgHeartbeatResponse | MessageType::MsgReadIndex)
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
            slog::Level::Critical | slog::Level::Error => tracing::error!(
                id = %MessageId::RAFT_ERROR,
                "{text}"
            ),
            slog::Level::Warning => tracing::warn!(id = %MessageId::RAFT_WARNING, "{text}"),
            // Its ids, terms and votes mean nothing to operators; what does, the server says.
            slog::Level::Info | slog::Level::Debug | slog::Level::Trace => {
                tracing::debug!("{text}");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "sim_test.rs"]
mod sim_test;
