//! What a leader's purge leaves in its log for another member: that takes it from what it is known
//! to have on, or from the snapshot on that it gets.

use std::sync::Arc;

use super::storm::Mend;
use super::timeline::MS;
use super::world::{Event, World};
use super::*;
use crate::ensemble::raft::{Peer, PeerLog};
use crate::storage::purge_behind;

/// More than a segment of the log has, by far.
const WRITES: usize = 40;

impl World {
    fn first_index(&self, at: usize) -> u64 {
        self.member(at).consensus.node.store().log.first_index()
    }

    /// A write, a snapshot, and a purge with no regard for others or as the thread of a member does
    /// it.
    fn write_and_purge(&mut self, leader: usize, for_others: bool) {
        self.set_data(leader, 1000);
        self.pass(100);
        let disk = self.servers[leader].disk.clone();
        let now = self.servers[leader].clock.read(self.timeline.now()).monotonic;
        let purged = |member: &mut Member<post::Post>| {
            member.try_snapshot(&disk, false, now)?;
            let wanted = if for_others { member.wanted() } else { None };
            purge_behind(member.consensus().directory(), 1, wanted)?;
            member.consensus_mut().purged(now);
            Ok(())
        };
        self.with(leader, purged).expect("holds");
        self.pass(100);
    }

    fn peer(&self, leader: usize, at: usize) -> Peer {
        let peers = self.member(leader).consensus().peers();
        peers.into_iter().find(|peer| peer.id == self.servers[at].id).expect("a member")
    }

    /// Until what it got is on its disk and its tree is the leader's.
    fn catch_up(&mut self, leader: usize, at: usize) {
        self.go_on(at);
        self.pass(3000);
        assert_eq!(
            self.member(at).consensus().applied(),
            self.member(leader).consensus().applied()
        );
    }
}

/// Whoever gets a snapshot says that it has it only when it is on its disk. Until then nothing is
/// known of what it has, or only what it had before.
#[test]
fn who_gets_a_snapshot_finds_what_is_behind_it_in_the_log() {
    for is_emptied in [false, true] {
        let mut world = World::settled(Flaw::None);
        let leader = world.leader();
        let at = (leader + 1) % 3;
        let had = world.member(at).consensus().last_index();
        match is_emptied {
            true => world.wipe(at),
            false => world.crash(at, false),
        }
        world.stay_down(at);
        while world.first_index(leader) <= had + 1 {
            world.write_and_purge(leader, false);
        }
        world.timeline.after(MS, Event::Mend(Mend::Start(at)));
        while world.transfers.is_empty() {
            world.step().expect("holds");
        }
        world.stall(at, 600_000);
        let raft = &world.member(leader).consensus.node.raft;
        let snapshot = raft.prs().get(world.servers[at].id).expect("a member").pending_snapshot;
        // The third one has more.
        world.set_data(leader, 1000);
        while world.peer(leader, (leader + 2) % 3).matched <= snapshot {
            world.step().expect("holds");
        }
        let wanted = |world: &World| world.member(leader).wanted();
        let from = world.member(leader).consensus.node.store().log.zxid(snapshot);
        assert!(from.is_some() && world.peer(leader, at).log == PeerLog::Snapshot);
        assert_eq!(wanted(&world), from, "emptied: {is_emptied}");
        while world.peer(leader, at).log == PeerLog::Snapshot {
            world.step().expect("holds");
        }
        assert!(world.peer(leader, at).matched < snapshot, "its disk has done nothing");
        assert_eq!(wanted(&world), from, "emptied: {is_emptied}");
        for _ in 0..WRITES {
            world.write_and_purge(leader, true);
        }
        assert!(world.first_index(leader) <= snapshot + 1, "emptied: {is_emptied}");
        world.catch_up(leader, at);
        assert_eq!((world.transfers_begun, world.outcome.installed), (1, 1));
        // And then no longer.
        for _ in 0..WRITES {
            world.write_and_purge(leader, true);
        }
        assert!(world.first_index(leader) > snapshot + 1);
    }
}

#[test]
fn who_follows_slowly_needs_no_snapshot() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let at = (leader + 1) % 3;
    world.stall(at, 600_000);
    let had = world.peer(leader, at).matched;
    for _ in 0..WRITES {
        world.write_and_purge(leader, true);
    }
    assert_eq!(world.peer(leader, at).matched, had);
    assert!(world.first_index(leader) <= had + 1);
    world.catch_up(leader, at);
    assert_eq!(world.transfers_begun, 0);
}

/// It would keep what nobody takes.
#[test]
fn nothing_is_kept_for_who_is_away() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let at = (leader + 1) % 3;
    let had = world.member(at).consensus().last_index();
    world.crash(at, false);
    world.stay_down(at);
    // Until the leader has looked whether it has a quorum.
    world.pass(5000);
    for _ in 0..WRITES {
        world.write_and_purge(leader, true);
    }
    assert!(world.first_index(leader) > had + 1);
}

/// What stood in it is in memory only: of that, nothing is passed over.
#[test]
fn a_log_that_is_removed_under_a_member_is_gone_on_with() {
    for of_leader in [true, false] {
        let mut world = World::settled(Flaw::None);
        let leader = world.leader();
        let at = if of_leader { leader } else { (leader + 1) % 3 };
        for _ in 0..3 {
            let directory = Arc::clone(world.member(at).consensus().directory());
            for zxid in directory.log_zxids().expect("lists") {
                directory.disk().remove(&directory.log_path(zxid)).expect("removes");
            }
            world.set_data(leader, 10);
            world.set_data(leader, 10);
            world.pass(500);
            assert_eq!(world.waiting(leader), 0);
            let applied = world.member(at).consensus().applied();
            assert_eq!(applied, world.member(leader).consensus().last_index());
        }
    }
}
