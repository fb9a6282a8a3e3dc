//! Which members have room on the disks of their logs, and what that means for the others.
//!
//! Each looks at its own and says so to whoever leads. A leader whose disk is short hands over to a
//! member that has more. Where a majority's are short, or its own and nobody has more, it refuses
//! what grows, as a standalone server does. A follower whose disk is full takes no more entries, so
//! that its log never fails: the others go on without it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use raft::StateRole;

use super::consensus::Consensus;
use super::following::Following;
use super::member::Transport;
use super::server_of;
use super::told::Told;
use crate::engine::time::Monotonic;
use crate::ensemble::disk_room::DiskSpace;
use crate::ensemble::words::PeerWord;
use crate::message::MessageId;

/// Between two attempts to hand over.
const BETWEEN_ATTEMPTS_MS: u64 = 1000;

/// The disks as a member knows them.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    /// What the leader was told of this member's.
    told: Told<DiskSpace>,
    /// What the others said last to this member as the leader, and what each of them was told.
    others: BTreeMap<u64, Saying>,
    /// What a leader said last, and which: the room that there is for what it decides.
    decides: Option<(u64, DiskSpace)>,
    /// When this member last wanted to hand over.
    left: Monotonic,
}

/// What a leader and one that follows it say.
#[derive(Debug, Clone, Copy)]
struct Saying {
    heard: DiskSpace,
    told: Option<DiskSpace>,
}

impl Rooms {
    /// What one says that follows, or, where this member does not lead, one that does.
    pub(super) fn heard(&mut self, peer: u64, room: DiskSpace, leads: bool) {
        if leads {
            self.others.insert(peer, Saying { heard: room, told: None });
        } else {
            self.decides = Some((peer, room));
        }
    }

    pub(super) fn lost(&mut self, peer: u64) {
        self.others.remove(&peer);
        self.decides.take_if(|(leader, _)| *leader == peer);
    }

    /// What another member said; it says so as soon as it follows.
    pub(super) fn of(&self, peer: u64) -> DiskSpace {
        self.others.get(&peer).map_or(DiskSpace::Enough, |its| its.heard)
    }

    /// Who has not been told yet that there is so much for what this member decides.
    fn not_told(&mut self, room: DiskSpace) -> impl Iterator<Item = u64> {
        let others = self.others.iter_mut().filter(move |(_, its)| its.told != Some(room));
        others.map(move |(peer, its)| {
            its.told = Some(room);
            *peer
        })
    }
}

/// The room that a majority of `voters` has, if there is one that can be told something: these are
/// the rooms of those.
fn of_majority(voters: usize, mut rooms: Vec<DiskSpace>) -> DiskSpace {
    rooms.sort_unstable();
    rooms.get(voters / 2).copied().unwrap_or_default()
}

/// Who has more room than `own`, most first, and of those the one with most of the log. Each with
/// its room, and with the last entry that it has.
fn has_more(own: DiskSpace, others: impl Iterator<Item = (u64, DiskSpace, u64)>) -> Option<u64> {
    let more = others.filter(|(_, room, _)| *room < own);
    more.max_by_key(|(peer, room, last)| (Reverse(*room), *last, *peer)).map(|(peer, ..)| peer)
}

impl Rooms {
    /// Looks at this member's disk from time to time, says what it has and does what follows from
    /// it.
    pub(super) fn look(
        &mut self,
        consensus: &mut Consensus,
        following: Option<&Following>,
        transport: &mut impl Transport,
        now: Monotonic,
    ) {
        consensus.look_at_disk(now);
        self.told.tell(consensus.room.room(), PeerWord::Room, following, transport);
        self.leave_short_disk(consensus, now);
        self.tell_room_to_decide(consensus, transport);
    }

    /// As a leader, tells those who follow what room there is.
    fn tell_room_to_decide(&mut self, consensus: &Consensus, transport: &mut impl Transport) {
        if !consensus.leads() {
            self.others.clear();
            return;
        }
        let room = self.to_decide(consensus);
        self.not_told(room).for_each(|peer| transport.say(peer, PeerWord::Room(room)));
    }

    /// The room for what clients of this member ask, as far as it knows.
    pub(super) fn for_clients(&self, consensus: &Consensus) -> DiskSpace {
        match self.decides {
            _ if consensus.leads() => self.to_decide(consensus),
            Some((leader, room)) if leader == consensus.leader() => room,
            _ => DiskSpace::Enough,
        }
    }

    /// As a leader, hands over to a member whose disk has more room.
    fn leave_short_disk(&mut self, consensus: &mut Consensus, now: Monotonic) {
        let (own, raft) = (consensus.room.room(), &consensus.node.raft);
        let is_due = now.since(self.left) >= BETWEEN_ATTEMPTS_MS;
        let leads = raft.state == StateRole::Leader && raft.lead_transferee.is_none();
        if own == DiskSpace::Enough || !leads || !is_due {
            return;
        }
        let voters = raft.prs().conf().voters();
        let others = raft.prs().iter().filter(|(peer, _)| {
            **peer != raft.id
                && voters.contains(**peer)
                && consensus.has_caught_up(**peer)
                && self.others.contains_key(*peer)
        });
        let others = others.map(|(peer, its)| (*peer, self.of(*peer), its.matched));
        if let Some(to) = has_more(own, others) {
            self.left = now;
            tracing::warn!(
                id = %MessageId::LEADER_LEAVES_SHORT_DISK,
                to = server_of(to),
                "the disk of the log is short of space: handing over leadership"
            );
            consensus.hand_over(to);
        }
    }

    /// The room that there is for what a leader decides: its own, and that of a majority.
    pub(super) fn to_decide(&self, consensus: &Consensus) -> DiskSpace {
        let voters = consensus.node.raft.prs().conf().voters().ids();
        let others = voters.iter().filter(|peer| consensus.has_found(*peer));
        let own = consensus.room.room();
        let rooms = others.map(|peer| self.of(peer)).chain([own]).collect();
        own.max(of_majority(voters.len(), rooms))
    }
}

impl Consensus {
    /// Looks at the disk of the log from time to time.
    fn look_at_disk(&mut self, now: Monotonic) {
        let directory = self.node.store().directory();
        let on_its_way = self.unsynced.bytes() as u64;
        let free = || {
            let free = directory.disk().free_space(directory.logs()).ok()?;
            Some(free.saturating_sub(on_its_way))
        };
        let was_full = self.room.room() >= DiskSpace::Full;
        self.room.look(self.ensemble.recovery.log.reserve(), now, free);
        if self.has_full_disk() && !was_full {
            tracing::error!(
                id = %MessageId::MEMBER_DISK_FULL,
                "the disk of the log is full: this server accepts no more transactions"
            );
        }
    }

    /// Whether this member accepts no more transactions for want of room: entries are passed over.
    #[must_use]
    pub fn has_full_disk(&self) -> bool {
        self.room.room() >= DiskSpace::Full
    }

    /// Whether the disk of the log has less than the reserve.
    #[must_use]
    pub fn has_short_disk(&self) -> bool {
        self.room.room() > DiskSpace::Enough
    }

    /// Whether not even another term can be written down.
    pub(super) fn has_no_room(&self) -> bool {
        self.room.room() == DiskSpace::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ensemble::disk_room::DiskRoom;
    use DiskSpace::{Enough, Full, Least, Nothing, Scarce};

    #[test]
    fn the_room_of_a_majority_is_that_of_the_worst_whose_disk_is_needed() {
        for (voters, rooms, expected) in [
            (1, vec![Scarce], Scarce),
            (3, vec![Enough, Enough, Nothing], Enough),
            (3, vec![Full, Enough, Scarce], Scarce),
            (3, vec![Least, Enough], Least),
            (5, vec![Nothing, Enough, Full, Enough, Enough], Enough),
            (5, vec![Nothing, Enough, Full, Enough, Least], Least),
            // Nothing becomes final without a majority, whatever room there is.
            (3, vec![Full], Enough),
        ] {
            assert_eq!(of_majority(voters, rooms.clone()), expected, "{rooms:?} of {voters}");
        }
    }

    #[test]
    fn who_is_short_hands_over_to_whoever_has_most_and_of_those_most_of_the_log() {
        let others = [(1, Scarce, 9), (2, Enough, 7), (3, Enough, 8), (4, Full, 9)];
        for (own, expected) in [(Enough, None), (Scarce, Some(3)), (Nothing, Some(3))] {
            assert_eq!(has_more(own, others.into_iter()), expected, "{own:?}");
        }
        assert_eq!(has_more(Least, [(1, Scarce, 1), (2, Least, 9)].into_iter()), Some(1));
        assert_eq!(has_more(Least, [(2, Least, 9), (3, Full, 9)].into_iter()), None);
    }

    #[test]
    fn a_disk_gets_worse_at_once_and_better_with_something_to_spare() {
        let (mut disk, mut at) = (DiskRoom::default(), 0);
        for (free, expected) in [
            (1600, Enough),
            (1599, Scarce),
            (1799, Scarce),
            (1800, Enough),
            (799, Least),
            (999, Least),
            (1000, Scarce),
            (399, Full),
            (99, Nothing),
            (299, Nothing),
            (300, Full),
            (599, Full),
            (600, Least),
            (0, Nothing),
            (5000, Enough),
        ] {
            at += 100;
            disk.look(1600, Monotonic(at), || Some(free));
            assert_eq!(disk.room(), expected, "{free} free");
        }
        disk.look(1600, Monotonic(at + 99), || Some(0));
        assert_eq!(disk.room(), Enough, "it was looked at a moment ago");
    }
}
