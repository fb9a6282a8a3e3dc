//! Disks that do nothing for a while: who leads then, and who is answered.

use jute::protocol::{Request, SetDataRequest};

use super::storm::Mend;
use super::timeline::MS;
use super::world::{Event, World};
use super::*;
use crate::storage::purge;

#[test]
fn a_leader_whose_disk_pauses_keeps_its_term_and_the_others_are_a_quorum_without_it() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let (term, others) =
        (world.member(leader).consensus().term(), [(leader + 1) % 3, (leader + 2) % 3]);
    world.stall(leader, 900);
    (0..3).for_each(|at| world.set_data(at, 10));
    world.pass(850);
    assert_eq!((world.leader(), world.member(leader).consensus().term()), (leader, term));
    // Its own clients see what its disk has.
    assert_eq!(world.waiting(leader), 1);
    assert_eq!(others.map(|at| world.waiting(at)), [0, 0]);
    world.pass(100);
    assert_eq!((world.leader(), world.member(leader).consensus().term()), (leader, term));
    assert_eq!(world.waiting(leader), 0);
}

#[test]
fn without_a_quorum_of_disks_nothing_is_answered_and_nobody_is_deposed() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let term = world.member(leader).consensus().term();
    let before = world.outcome.acknowledged;
    world.stall(leader, 900);
    world.stall((leader + 1) % 3, 900);
    (0..3).for_each(|at| world.set_data(at, 10));
    world.pass(850);
    assert_eq!(world.outcome.acknowledged, before);
    assert_eq!((0..3).map(|at| world.waiting(at)).sum::<usize>(), 3);
    world.pass(100);
    assert_eq!(world.outcome.acknowledged, before + 3);
    assert_eq!((world.leader(), world.member(leader).consensus().term()), (leader, term));
}

#[test]
fn a_leader_whose_disk_hangs_hands_over() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let term = world.member(leader).consensus().term();
    world.stall(leader, 5000);
    world.set_data(leader, 10);
    world.pass(950);
    assert_eq!(world.leader(), leader);
    world.pass(150);
    let next = world.leader();
    assert_ne!(next, leader);
    assert_eq!(world.member(next).consensus().term(), term + 1, "no election is lost");
    world.set_data(next, 10);
    world.pass(50);
    assert_eq!(world.waiting(next), 0);
    // It is in nobody's way while its disk still hangs, nor when that is over.
    world.pass(6000);
    assert_eq!((world.leader(), world.member(leader).consensus().term()), (next, term + 1));
    assert_eq!(
        world.member(leader).consensus().applied(),
        world.member(next).consensus().applied()
    );
}

#[test]
fn a_leader_keeps_a_hanging_disk_while_the_others_are_no_quorum() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let term = world.member(leader).consensus().term();
    world.crash((leader + 1) % 3, true);
    world.stay_down((leader + 1) % 3);
    world.stall(leader, 3000);
    world.set_data(leader, 10);
    world.pass(2900);
    assert_eq!((world.leader(), world.member(leader).consensus().term()), (leader, term));
    assert_eq!(world.waiting(leader), 1);
    world.pass(150);
    assert_eq!(world.waiting(leader), 0);
}

/// What waits for a disk is bounded: the one of a follower, then the leader's own.
#[test]
fn a_disk_that_hangs_takes_no_more_memory_than_its_share() {
    const ENTRY: usize = 16 << 10;
    const SHARE: usize = 40 * ENTRY;
    let mut world = World::settled(Flaw::None);
    for server in &mut world.servers {
        server.member.as_mut().expect("is up").consensus.unsynced.bytes_max = SHARE;
    }
    let leader = world.leader();
    let follower = (leader + 1) % 3;
    world.stall(follower, 20_000);
    for _ in 0..80 {
        world.set_data(leader, ENTRY);
        world.pass(50);
    }
    assert_eq!(world.waiting(leader), 0, "the others are a quorum");
    let held = world.member(follower).consensus.unsynced.bytes();
    assert!((SHARE..SHARE + 2 * ENTRY).contains(&held), "{held}");
    world.go_on(follower);
    world.pass(3000);
    assert_eq!(
        world.member(follower).consensus().applied(),
        world.member(leader).consensus().applied()
    );

    // Without a quorum it keeps its disk.
    world.stall(leader, 60_000);
    world.crash(follower, true);
    world.stay_down(follower);
    for _ in 0..60 {
        world.set_data(leader, ENTRY);
        world.pass(50);
    }
    let held = world.member(leader).consensus.unsynced.bytes();
    assert!((SHARE..SHARE + 2 * ENTRY).contains(&held), "{held}");
    assert_eq!(world.waiting(leader), 60);
    world.go_on(leader);
    world.pass(1000);
    assert_eq!(world.waiting(leader), 0);
}

/// The same of what comes at once, though a turn could decide all of it.
#[test]
fn a_leader_decides_no_more_in_a_turn_than_its_disk_has_room_for() {
    const ENTRY: usize = 16 << 10;
    const SHARE: usize = 10 * ENTRY;
    const REQUESTS: usize = 60;
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    world.servers[leader].member.as_mut().expect("is up").consensus.unsynced.bytes_max = SHARE;
    world.stall(leader, 900);
    let (_, connection) = world.clients[leader].connection.expect("a connection");
    let set = || {
        let data = Some(vec![1; ENTRY].into());
        Request::SetData(SetDataRequest { path: "/x".into(), data, version: -1 })
    };
    world.ask(leader, leader, connection, (0..REQUESTS).map(|_| set()).collect());
    world.pass(500);
    let held = world.member(leader).consensus.unsynced.bytes();
    assert!((SHARE..SHARE + 2 * ENTRY).contains(&held), "{held}");
    world.pass(2000);
    assert_eq!((world.waiting(leader), world.leader()), (0, leader));
}

/// Whoever has received a snapshot reads and installs it where its disk writes: meanwhile it ticks,
/// hears its leader and is heard.
#[test]
fn a_member_whose_disk_installs_a_snapshot_goes_on_ticking() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let at = (leader + 1) % 3;
    let (id, had) = (world.member(at).consensus().id(), world.member(at).consensus().last_index());
    world.crash(at, false);
    world.stay_down(at);
    // The leader has no more of what it lacks.
    while world.member(leader).consensus.node.store().log.first_index() <= had + 1 {
        world.set_data(leader, 10);
        world.pass(100);
        let disk = world.servers[leader].disk.clone();
        let now = world.servers[leader].clock.read(world.timeline.now()).monotonic;
        let purged = |member: &mut Member<post::Post>| {
            member.try_snapshot(&disk, false, now)?;
            purge(member.consensus().directory(), 1)?;
            member.consensus_mut().purged(now);
            Ok(())
        };
        world.with(leader, purged).expect("holds");
        world.pass(100);
    }
    world.timeline.after(MS, Event::Mend(Mend::Start(at)));
    while world.transfers.is_empty() {
        world.step().expect("holds");
    }
    world.stall(at, 60_000);
    while !world.member(at).consensus.unsynced.has_snapshot() {
        world.step().expect("holds");
    }
    let (applied, ticks) =
        (world.member(at).consensus().applied(), world.member(at).consensus.ticks);
    assert!(applied <= had);
    world.pass(3000);
    assert_eq!(world.member(at).consensus().applied(), applied, "its disk did nothing");
    let passed = world.member(at).consensus.ticks.wrapping_sub(ticks);
    assert!(passed + 5 >= 3000 / 50, "{passed} ticks");
    assert_eq!(
        (world.leader(), world.member(at).consensus().leader()),
        (leader, world.member(leader).consensus().id())
    );
    assert!(
        world.member(leader).consensus().peers().iter().any(|peer| peer.id == id && peer.is_there)
    );
    world.go_on(at);
    world.pass(2000);
    assert_eq!(world.member(at).consensus().applied(), world.member(leader).consensus().applied());
    assert_eq!(world.outcome.installed, 1);
}
