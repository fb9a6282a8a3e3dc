//! A leader that was cut off and does not know it: what it still tells its clients.

use jute::protocol::{Request, SyncRequest};
use raft::eraftpb::MessageType;

use super::network::Content;
use super::server::Waiting;
use super::timeline::MS;
use super::world::{Checked, Event, World};
use super::*;
use crate::ensemble::from_peer::FromPeer;
use crate::message::told::ids_told;

/// A leader that is cut off and does not know it, and the other one that there is by now.
fn two_leaders(flaw: Flaw) -> (World, usize, usize) {
    let mut world = World::settled(flaw);
    let leader = world.leader();
    for other in (0..3).filter(|other| *other != leader) {
        world.network.cut(leader, other);
        world.network.cut(other, leader);
        // The others see the end of its connections, it does not see that of theirs.
        let lost = Waiting::From(FromPeer::Hears(world.servers[leader].id, false));
        world.timeline.after(MS, Event::Tell(other, world.servers[other].life, lost));
    }
    world.servers[leader].frozen_until = world.timeline.now() + 2000 * MS;
    world.pass(2000);
    let leaders: Vec<usize> =
        (0..3).filter(|at| world.member(*at).requests().is_leading()).collect();
    assert_eq!(leaders.len(), 2, "the first one does not know yet");
    let next = *leaders.iter().find(|at| **at != leader).expect("another");
    (world, leader, next)
}

/// It is cut off in one direction only: it cannot ask its leader, but hears it.
#[test]
fn a_member_that_hears_a_leader_is_not_read_without_one() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let at = (leader + 1) % 3;
    world.network.cut(at, leader);
    let lost = Waiting::From(FromPeer::Speaks(world.servers[leader].id, false));
    world.timeline.after(MS, Event::Tell(at, world.servers[at].life, lost));
    world.pass(1000);
    assert!(!world.member(at).requests().is_following());
    for _ in 0..40 {
        world.pass(100);
        assert!(!world.member(at).may_be_read_only());
    }
    world.network.cut(leader, at);
    world.pass(2000);
    assert!(world.member(at).may_be_read_only());
}

/// Another leader acknowledges a write, and a client of the first asks for a sync. What it was
/// answered.
fn sync_behind_the_back(flaw: Flaw) -> Checked {
    let (mut world, leader, next) = two_leaders(flaw);
    let before = world.outcome.acknowledged;
    world.set_data(next, 10);
    world.pass(50);
    assert_eq!(world.outcome.acknowledged, before + 1);
    assert!(world.member(leader).requests().is_leading());
    world.sync(leader);
    world.try_pass(2000)?;
    assert!(!world.member(leader).requests().is_leading());
    assert_eq!((world.outcome.syncs, world.waiting(leader)), (0, 0), "who asked is let go");
    Ok(())
}

/// Another leader ends a session, whose client comes to the first with it.
fn come_back_behind_the_back(flaw: Flaw) -> Checked {
    let (mut world, leader, next) = two_leaders(flaw);
    let (session, seen) = (world.clients[next].session, world.clients[next].seen);
    world.ask_for(next, Request::CloseSession);
    world.pass(50);
    assert!(!world.history.lives(session.expect("it has one")));
    assert!(world.member(leader).requests().is_leading());
    // As if nobody had told it.
    (world.clients[next].session, world.clients[next].seen) = (session, seen);
    world.connect(next, leader);
    let (_, connection) = world.clients[next].connection.expect("it connects");
    world.try_pass(5)?;
    assert!(world.servers[leader].connections.contains_key(&connection), "it is let in");
    world.try_pass(2000)?;
    assert!(!world.member(leader).requests().is_leading());
    Ok(())
}

#[test]
fn a_leader_that_was_cut_off_tells_of_no_session_that_it_goes_on() {
    assert_eq!(come_back_behind_the_back(Flaw::None), Ok(()));
}

#[test]
fn a_session_that_goes_on_without_a_round_is_found() {
    let violation = come_back_behind_the_back(Flaw::RoundNotMade).expect_err("it was told");
    assert!(violation.contains("had ended before"), "{violation}");
}

#[test]
fn a_leader_that_was_cut_off_answers_no_sync() {
    assert_eq!(sync_behind_the_back(Flaw::None), Ok(()));
}

#[test]
fn a_sync_without_a_round_is_found() {
    let violation = sync_behind_the_back(Flaw::RoundNotMade).expect_err("it was answered");
    assert!(violation.contains("does not show"), "{violation}");
}

/// Through any server, alone and with writes before and after it; with the answers in their order.
#[test]
fn a_sync_is_answered_by_every_server() {
    let mut world = World::settled(Flaw::None);
    for at in 0..3 {
        world.sync(at);
        world.pass(100);
        assert_eq!(world.waiting(at), 0);
        world.set_data(at, 10);
        world.sync(at);
        world.sync(at);
        world.set_data(at, 20);
        world.pass(100);
        assert_eq!(world.waiting(at), 0);
    }
    assert_eq!(world.outcome.syncs, 3 * 3);
}

/// The question or its answer is lost: it is asked again.
#[test]
fn a_sync_outlasts_a_lost_word() {
    for lost in [MessageType::MsgReadIndex, MessageType::MsgReadIndexResp] {
        let mut world = World::settled(Flaw::None);
        let leader = world.leader();
        for at in (0..3).filter(|at| *at != leader) {
            world.sync(at);
            let is_lost = |event: &Event| {
                matches!(event, Event::Arrive(parcel)
                    if matches!(&parcel.content, Content::Message(its) if its.get_msg_type() == lost))
            };
            // Any round of this time can answer it.
            let (end, mut count) = (world.timeline.now() + 150 * MS, 0);
            while world.timeline.is_due(end) {
                world.step().expect("holds");
                count += world.timeline.forget(is_lost);
            }
            assert!(count > 0, "{lost:?} is sent");
            assert_eq!(world.waiting(at), 1);
            world.pass(600);
            assert_eq!(world.waiting(at), 0, "{at}, with {leader} as the leader");
        }
    }
}

impl World {
    fn sync(&mut self, at: usize) {
        self.ask_for(at, Request::Sync(SyncRequest { path: None }));
    }
}

/// Where all servers are ended together, the others may be gone before the leader is.
#[test]
fn a_leader_that_ends_does_not_warn_of_those_that_are_gone() {
    for (ends, expected) in [(false, &["FK0462"][..]), (true, &[])] {
        let mut world = World::settled(Flaw::None);
        let leader = world.leader();
        for other in (0..3).filter(|other| *other != leader) {
            world.network.cut(leader, other);
            world.network.cut(other, leader);
        }
        if ends {
            world.member(leader).consensus().ends();
        }
        let ((), ids) = ids_told(|| world.pass(2000));
        assert!(!world.member(leader).requests().is_leading());
        let of_library: Vec<_> = ids.iter().filter(|id| *id == "FK0462").collect();
        assert_eq!(of_library, expected);
    }
}
