//! When a member stands for election, and when one that leads hands over.

use raft::StateRole;

use super::consensus::Consensus;
use super::room::Rooms;
use super::server_of;
use crate::engine::time::Monotonic;
use crate::ensemble::disk_room::DiskSpace;
use crate::message::MessageId;

/// Ticks without a word of the leader before a member stands for election; up to twice as many.
pub(super) const ELECTION_TICKS: usize = 10;
/// The same after the end of the leader's connection, which all see at once.
const TICKS_TO_DIFFER: usize = 4;
/// Ticks by which the others may have heard of the leader later: they give no vote for as long as
/// [`ELECTION_TICKS`].
const TICKS_TO_FORGET: usize = 2;
/// How much faster the clock of elections runs then: two who stand at the same time try again that
/// much sooner.
const HASTE: usize = 3;
/// After so many ticks entries in memory are a while older.
const TICKS_TO_AGE: u32 = 20;
/// A write of a leader that lasts longer than this has it hand over, and again so long after an
/// attempt.
const DISK_PATIENCE_MS: u64 = 1000;

impl Consensus {
    /// Whether the leader is still missed, where `is_following` says that there is one to ask.
    pub(super) fn look_for_leader(&mut self, is_following: bool) {
        self.is_missed &= self.node.raft.leader_id == 0 || !is_following;
    }

    /// A tick passes for one that does not stand itself: where it leads no more, it keeps nobody
    /// else from its vote.
    pub(super) fn wait(&mut self) {
        let elapsed = &mut self.node.raft.election_elapsed;
        *elapsed = elapsed.saturating_add(1);
    }

    /// A tick of the clock of elections and signs of life.
    pub(super) fn tick(&mut self) {
        for _ in 0..if self.is_missed { HASTE } else { 1 } {
            self.tick_once();
        }
    }

    /// A tick passes for the entries in memory.
    pub(super) fn age(&mut self) {
        self.unheard = self.unheard.saturating_add(1);
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
            self.wait();
        }
    }

    /// Whether the crate can have this member stand for election: not while it may not speak, or a
    /// snapshot takes the place of its log, nor before it has applied about what is final, which
    /// the crate would read at once, only where another term can be written down, and an only
    /// voter, which leads at once, only with its whole log durable.
    pub(super) fn may_stand(&self) -> bool {
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
        self.unheard = self.unheard.saturating_add(ELECTION_TICKS);
        if self.lacks_base() || self.has_ended {
            return;
        }
        (0..ELECTION_TICKS).for_each(|_| self.tick_once());
    }

    /// Whether nothing was heard of a leader for longer than a member waits before it stands for
    /// election. One that cannot stand, as it does not vote or its disk is full, cannot tell
    /// otherwise that there is none, and one that hears a leader may be unable to ask it.
    pub(super) const fn hears_no_leader(&self) -> bool {
        self.unheard >= 2 * ELECTION_TICKS
    }

    /// Whether what the ensemble was founded on has not come yet.
    pub(super) fn lacks_base(&self) -> bool {
        let store = self.node.store();
        store.log.last_index() < store.promises.base
    }

    /// Hands over to another member, which must have the whole log for it.
    pub(super) fn hand_over(&mut self, to: u64) {
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
    pub(super) fn hand_over_to_best(&mut self, rooms: &Rooms) -> Option<u8> {
        let to = self.best_to_lead(&[], rooms)?;
        self.hand_over(to);
        Some(server_of(to))
    }

    /// The voter to which leadership is handed over best: to one of those `tried` only where there
    /// is no other.
    pub(super) fn best_to_lead(&self, tried: &[u64], rooms: &Rooms) -> Option<u64> {
        let raft = &self.node.raft;
        let voters = raft.prs().conf().voters();
        let others = raft.prs().iter().filter(|(peer, _)| {
            **peer != raft.id && self.is_there(**peer) && voters.contains(**peer)
        });
        let best = others.max_by_key(|(peer, progress)| {
            let is_new = !tried.contains(*peer);
            let has_room = rooms.of(**peer) < DiskSpace::Full;
            // Who was killed a moment ago was heard of just now, too.
            let is_connected = self.found.contains(*peer);
            (is_new, is_connected, progress.recent_active, has_room, progress.matched, **peer)
        });
        best.map(|(peer, _)| *peer)
    }

    /// Lets another member begin a term, or begins one itself where it votes alone.
    pub(super) fn begin_another_term(&mut self, rooms: &Rooms) {
        if self.node.raft.lead_transferee.is_some() || self.hand_over_to_best(rooms).is_some() {
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
    pub(super) fn leave_slow_disk(&mut self, rooms: &Rooms, now: Monotonic) {
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
        if let Some(to) = self.hand_over_to_best(rooms) {
            tracing::warn!(
                id = %MessageId::LEADER_LEAVES_DISK,
                ms,
                to,
                "the disk of the log hangs: handing over leadership"
            );
        }
    }

    /// Replaces the timeout that the crate draws from the machine's chance: members differ in it,
    /// and so do a member's terms, but the same seed gives the same. As long as there is a leader,
    /// each voter has a part of the time for itself, another one in each term: two who miss it at
    /// once do not stand at once and share the votes. An attempt that failed is repeated by chance
    /// alone, or two might keep step.
    pub(super) fn set_election_timeout(&mut self) {
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
