//! A member, whose parts own what it has, and its turn, which passes values between them: what the
//! crate `raft` wants done, in the order in which it must be.
//!
//! Of one [`Ready`](raft::Ready): a leader's messages go at once, for its own disk is but one of
//! the quorum; then term and vote, a snapshot, and entries are handed to the disk, in this order;
//! what tells a peer of them is kept until they are durable, and until then this member's disk
//! counts for nobody. Then what is final is applied and answered: the crate gives only what this
//! disk has, so that no snapshot shows more. Nothing else touches the log, so that this order is
//! the only one there is.

use std::net::IpAddr;
use std::sync::Arc;

use raft::eraftpb::{Message as PeerMessage, MessageType};

use super::applying::bytes_of;
use super::consensus::Consensus;
use super::disk::{DiskWriter, Written};
use super::here::Here;
use super::list_change::ListChange;
use super::lists::Lists;
use super::log_store::zxid_of;
use super::requests::Requests;
use super::room::Rooms;
use super::start::{Ensemble, Started};
use super::trees::Trees;
use super::turns::Turns;
use super::{EnsembleError, server_of};
use crate::engine::apply::Mode;
use crate::engine::time::{Monotonic, Now};
use crate::engine::zxid::Zxid;
use crate::ensemble::clients::Clients;
use crate::ensemble::disk_room::DiskSpace;
use crate::ensemble::queue::Submission;
use crate::ensemble::replica::Replica;
use crate::ensemble::snapshots::{Need, Snapshots};
use crate::ensemble::steps::Applier;
use crate::ensemble::words::PeerWord;
use crate::storage::{Over, ReceivedSnapshot, SnapshotFile};

/// The way to the other members. It may lose, repeat and reorder.
pub trait Transport {
    /// Sends a message to the member that it names. Never waits.
    fn send(&mut self, message: PeerMessage);

    /// Tells a member a word. From [`Member::found`] to [`Member::lost`], called on both sides,
    /// words arrive in their order, and none before a message that was sent before it.
    fn say(&mut self, to: u64, word: PeerWord);

    /// Sends a snapshot, and after it the message that tells of it. What came of it is to be given
    /// to [`Consensus::report_snapshot`].
    fn send_snapshot(&mut self, message: PeerMessage, file: SnapshotFile);

    /// Where the process is that speaks as this server, if one does.
    fn hears_from(&self, server: u8) -> Option<IpAddr>;

    /// The version of what is spoken with a server, the lower one of both directions; `None`
    /// without a connection.
    fn version_with(&self, server: u8) -> Option<u32>;
}

/// A member of an ensemble.
pub struct Member<T> {
    pub(super) consensus: Consensus,
    pub(super) requests: Requests,
    /// Whose turn it is to take a snapshot.
    pub(super) turns: Turns,
    /// Whose disks have room.
    pub(super) rooms: Rooms,
    /// Whom the members list.
    pub(super) lists: Lists,
    /// The list of servers, and what becomes of it.
    pub(super) list_change: ListChange,
    /// Whether all have the same tree.
    pub(super) trees: Trees,
    pub(super) applier: Applier,
    pub(super) transport: T,
}

impl<T> std::fmt::Debug for Member<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let raft = &self.consensus.node.raft;
        f.debug_struct("Member")
            .field("id", &format_args!("{:#x}", raft.id))
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
        let before = replica.exclusive().install(database);
        drop(before);
        let consensus = Consensus::new(ensemble, store, applied)?;
        let here = Arc::new(Here::new(server_of(consensus.id()), clients));
        let clients: Arc<dyn Clients> = Arc::clone(&here) as _;
        let mut member = Self {
            consensus,
            requests: Requests::new(here, tick_ms),
            turns: Turns::default(),
            rooms: Rooms::default(),
            lists: Lists::default(),
            list_change: ListChange::default(),
            trees: Trees::default(),
            applier: Applier { replica, clients, mode: Mode::Agreed },
            transport,
        };
        member.see_list();
        Ok((member, writer))
    }

    /// The applied state.
    #[must_use]
    pub const fn replica(&self) -> &Arc<Replica> {
        &self.applier.replica
    }

    /// What it has of the log, and of those that it agrees on it with.
    #[must_use]
    pub const fn consensus(&self) -> &Consensus {
        &self.consensus
    }

    /// The same, to be told something.
    pub const fn consensus_mut(&mut self) -> &mut Consensus {
        &mut self.consensus
    }

    /// The requests of its clients and of other members.
    #[must_use]
    pub const fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The same, to be told something.
    pub const fn requests_mut(&mut self) -> &mut Requests {
        &mut self.requests
    }

    /// Where messages go.
    pub const fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// A tick of the clock of elections and signs of life.
    pub fn tick(&mut self) {
        self.consensus.look_for_leader(self.requests.following.is_some());
        self.turns.tick(self.consensus.leads());
        self.trees.tick();
        if self.consensus.has_ended {
            return;
        }
        if self.consensus.lacks_base() {
            self.consensus.wait();
            return;
        }
        self.requests.tick();
        let numbers = self.consensus.ensemble.zxids_a_term;
        if self.requests.is_out_of_numbers(numbers) {
            self.consensus.begin_another_term(&self.rooms);
        }
        self.consensus.tick();
        self.requests.rounds.tick();
        self.consensus.age();
    }

    /// Takes what a peer said.
    pub fn step(&mut self, mut message: PeerMessage) {
        if self.consensus.has_ended {
            return;
        }
        self.hold_log(&mut message);
        self.forget_asked(&message);
        self.consensus.step(message);
    }

    /// Takes a snapshot that came with its message. One that was not checked with it is passed
    /// over.
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
        if self.consensus.has_ended
            || message.get_msg_type() != MessageType::MsgSnapshot
            || zxid_of(snapshot) != Some(received.zxid())
            || self.is_too_old(index)
            || !received.shows(index)
        {
            return Ok(());
        }
        self.turn(now)?;
        self.consensus.take_snapshot(message, received);
        self.turn(now)?;
        self.consensus.drop_snapshot();
        Ok(())
    }

    /// Takes requests of this member's clients, in their order. They wait here until there is a
    /// leader.
    pub fn submit(&mut self, submissions: Vec<Submission>) {
        match self.has_wrong_tree() || self.consensus.has_ended {
            true => self.requests.refuse(submissions),
            false => self.requests.submit(submissions, self.applier.replica.applied()),
        }
    }

    /// Takes a word of another member.
    ///
    /// # Errors
    /// When an answer that was waited for cannot be made.
    pub fn hear(&mut self, from: u64, word: PeerWord, now: Now) -> Result<(), EnsembleError> {
        if self.consensus.has_ended {
            return Ok(());
        }
        let Self {
            consensus, requests, turns, rooms, lists, list_change, applier, transport, ..
        } = self;
        match word {
            PeerWord::Forwarded { stream, first, requests: asked } => {
                requests.asked(from, (stream, first), asked, transport);
            }
            PeerWord::Decided { stream, first, verdicts } => {
                requests.decided(from, (stream, first), verdicts, applier, now.monotonic)?;
            }
            PeerWord::Ended { stream, returned } => requests.ended(from, stream, returned),
            PeerWord::Heard(sessions) => requests.heard(&sessions, now.monotonic),
            PeerWord::Disowned(connections) => requests.disowned(connections),
            PeerWord::Snapshot(need) => turns.heard(from, need),
            PeerWord::Room(room) => rooms.heard(from, room, consensus.leads()),
            PeerWord::Listed(servers) => lists.heard(from, servers),
            PeerWord::ChangeList { number, asked } => list_change.asked(from, number, asked),
            PeerWord::ListDecided { number, verdict } => list_change.decided(from, number, verdict),
            PeerWord::TakeSnapshot if consensus.leader() == from => turns.told_to_go(),
            PeerWord::TakeSnapshot => {}
            PeerWord::Tree(tree) => self.heard_tree(from, tree)?,
            PeerWord::WrongTree(tree) => self.told_wrong_tree(from, tree)?,
        }
        Ok(())
    }

    /// From here on words to and from a member arrive, in their order.
    pub fn found(&mut self, peer: u64) {
        self.consensus.found(peer);
    }

    /// Words to or from a member may have been lost, and more will be until it is found again.
    pub fn lost(&mut self, peer: u64) {
        self.consensus.lost(peer);
        self.turns.lost(peer);
        self.rooms.lost(peer);
        self.lists.lost(peer);
        self.list_change.lost(peer);
        self.trees.lost(peer);
        if self.requests.lost(peer) {
            // Where others still hear it, they do not elect another.
            self.consensus.miss_leader();
        }
    }

    /// Tells the leader which sessions were heard of since the last call.
    pub fn report_heard(&mut self, now: Now) {
        self.requests.report_heard(&mut self.transport, now.monotonic);
    }

    /// The room for what clients of this member ask, as far as it knows.
    #[must_use]
    pub fn room(&self) -> DiskSpace {
        self.rooms.for_clients(&self.consensus)
    }

    /// From which transaction on the others that are there still take the log from a leader: of one
    /// that gets a snapshot, or that has got it and has not said yet that its disk has it, from
    /// that on.
    #[must_use]
    pub fn wanted(&self) -> Option<i64> {
        self.consensus.wanted(self.requests.is_leading())
    }

    /// Whether this member may purge though it has taken no snapshot just now: what the ensemble
    /// began with is here, nothing is on its way that takes the place of its log, and it is known
    /// what the others still want of that.
    #[must_use]
    pub fn may_purge(&self) -> bool {
        self.consensus.may_take_snapshot()
            && self.consensus.knows_what_is_wanted(self.requests.is_leading())
    }

    /// Whether this member is to begin a snapshot, where this is what it needs.
    pub fn has_turn(&mut self, need: Need) -> bool {
        let Self { consensus, requests, turns, transport, .. } = self;
        match consensus.leads() {
            true => turns.as_leader(need, transport),
            false => turns.as_follower(need, requests.following.as_ref(), transport),
        }
    }

    /// Hands over to the voter that has most of the log, if it can to one that is connected and
    /// whose disk is not full. To which server, if there is one.
    pub fn hand_over_to_best(&mut self) -> Option<u8> {
        self.consensus.hand_over_to_best(&self.rooms)
    }

    /// Does all that is due. It applies as much as one turn may, and as a leader it decides as
    /// much; [`Self::has_more`] tells of the rest.
    ///
    /// # Errors
    /// When the disk refuses or a transaction does not fit. The caller ends the process: nobody was
    /// told of what is not durable.
    pub fn turn(&mut self, now: Now) -> Result<(), EnsembleError> {
        if self.consensus.has_ended {
            return Ok(());
        }
        self.requests.begin_turn();
        self.consensus.is_behind = false;
        let mut apply_left = self.consensus.apply_bytes;
        self.consensus.leave_slow_disk(&self.rooms, now.monotonic);
        let following = self.requests.following.as_ref();
        self.rooms.look(&mut self.consensus, following, &mut self.transport, now.monotonic);
        self.compare_trees(now.monotonic);
        loop {
            self.end_of_term();
            self.go_on_with_list(now)?;
            self.pass_on(now)?;
            let round = self.requests.go_round(&self.consensus, &self.applier, now)?;
            if let Some(name) = round {
                self.consensus.begin_round(name);
            }
            if !self.consensus.has_ready() {
                break;
            }
            if apply_left == 0 {
                self.consensus.is_behind = true;
                break;
            }
            let mut unsent = Vec::new();
            let mut ready =
                self.consensus.take_ready(now.monotonic, &mut self.transport, &mut unsent)?;
            self.requests.rounds.answered(ready.take_read_states());
            let committed = ready.take_committed_entries();
            self.apply(&committed, now)?;
            let bytes = bytes_of(&committed);
            apply_left = apply_left.saturating_sub(bytes);
            let last = committed.last().map(|entry| entry.index);
            if !self.consensus.advance(ready, (last, bytes), &mut self.transport, unsent) {
                break;
            }
        }
        self.consensus.give_hint(now.monotonic);
        self.requests.disown(&self.consensus, &mut self.transport);
        self.applier.clients.flush();
        Ok(())
    }

    /// The oldest writes that were taken are durable. A turn is due then. Whether another state
    /// took the place of the applied one.
    ///
    /// # Errors
    /// When an answer that was waited for cannot be made.
    pub fn persisted(&mut self, written: Written) -> Result<bool, EnsembleError> {
        if self.consensus.has_ended {
            return Ok(false);
        }
        let installed = self.consensus.written(written);
        let index = installed.as_ref().map(|(index, _)| *index);
        if let Some((_, database)) = installed {
            self.requests.replaced(&database);
            let before = self.applier.replica.exclusive().install(database);
            drop(before);
            self.see_list();
        }
        let mut unsent = Vec::new();
        self.consensus.go_on_durable(&mut self.transport, &mut unsent);
        if let Some(index) = index {
            self.consensus.installed(index);
            self.tree_replaced(index);
            self.requests.settle(&self.applier)?;
        }
        self.consensus.give_up(unsent);
        Ok(index.is_some())
    }

    /// Whether a snapshot may be taken. A wrong tree is for nobody.
    pub(super) fn may_take_snapshot(&self) -> bool {
        self.consensus.may_take_snapshot() && !self.has_wrong_tree()
    }

    /// Begins a snapshot of the applied state, unless it has to wait.
    pub fn begin_snapshot(&self, snapshots: &mut Snapshots, now: Monotonic) {
        if !self.may_take_snapshot() {
            return;
        }
        let reserve = self.consensus.ensemble.recovery.log.reserve();
        snapshots.begin_at(&self.applier.replica, self.consensus.applied(), reserve, now);
    }

    /// A snapshot is durable that shows the state after the entry `index`. The log goes on in a
    /// new segment, so that purge can follow.
    pub fn snapshot_taken(&mut self, index: u64, zxid: Zxid, now: Monotonic) {
        self.trees.looked(zxid);
        self.consensus.snapshot_taken(index, zxid, now);
    }

    /// The directory is not this member's any more, by the log or the word of another member. It
    /// does nothing more, and lets its clients go. Once that is written down, the disk ends with
    /// [`EnsembleError::OlderCopy`] or [`EnsembleError::Replaced`].
    pub fn is_over(&mut self, over: Over, now: Monotonic) {
        if !self.consensus.has_ended {
            self.consensus.write_over(over, now);
            let led = self.requests.is_leading();
            self.requests.let_all_go(&mut self.transport);
            if led {
                self.trees.end_of_term();
            }
            self.consensus.has_ended = true;
        }
    }

    /// Ends what belongs to a term that this member does not lead any more.
    fn end_of_term(&mut self) {
        let Self { consensus, requests, trees, applier, .. } = self;
        if requests.end_of_term(|term| consensus.leads_in(term), &*applier.clients) {
            trees.end_of_term();
        }
    }
}

#[cfg(test)]
#[path = "sim_test.rs"]
mod sim_test;
