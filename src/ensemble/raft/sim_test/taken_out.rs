//! Members that are taken out of the ensemble: a leader by its own entry, and a server that wants to come back.

use super::super::super::configuration::Change;
use super::super::super::membership::Prospect;
use super::world::World;
use super::*;
use crate::ensemble::founding::Applicant;

/// What comes behind its removal, in the log or not yet, is for another leader. Nobody of its clients waits for that.
#[test]
fn a_leader_that_applies_its_own_removal_does_nothing_more() {
    // Its disk has all at once, or one entry after the other.
    for stall in [0, 300] {
        let mut world = World::settled(Flaw::None);
        let leader = world.leader();
        let other = (leader + 1) % 3;
        let (id, process) = (world.servers[leader].id, world.servers[leader].life);
        world.stall(leader, stall);
        let now = world.servers[leader].clock.read(world.timeline.now());
        world.with(leader, |member| member.change(Change::Remove(id), now)).expect("holds");
        let asked = world.clients[leader].connection.expect("a connection");
        let mut ended = Ok(());
        for _ in 0..2000 {
            for at in [leader, other] {
                if world.clients[at].connection.is_some() && world.waiting(at) < 5 {
                    world.set_data(at, 10);
                }
            }
            ended = world.try_pass(1);
            if ended.is_err() {
                break;
            }
        }
        // The last that it does is to write down why it ends.
        let ended = ended.expect_err("ends");
        assert!(
            ended.contains("disk") && ended.contains("was taken out of the ensemble"),
            "{ended}"
        );
        assert_eq!(world.servers[leader].life, process);
        assert!(!world.servers[leader].seen.is_open(asked.1), "{stall}");
        world.crash(leader, false);
        world.stay_down(leader);
        world.pass(5000);
        assert_ne!(world.leader(), leader);
        // Its session may be over by now.
        for _ in 0..2 {
            if world.clients[other].connection.is_none() {
                world.connect(other, other);
                world.pass(500);
            }
        }
        world.set_data(other, 10);
        world.pass(500);
        assert_eq!(world.waiting(other), 0, "{stall}");
        assert!(!world.member(other).members().contains(&id));
    }
}

/// What a member had under another leader is not known, and it may be with the directory that is the right one.
#[test]
fn who_comes_back_gets_no_seat_beside_one_that_an_earlier_leader_gave() {
    let mut world = World::settled(Flaw::None);
    let first = world.leader();
    let (second, gone) = ((first + 1) % 3, (first + 2) % 3);
    let (server, id) = (gone as u8 + 1, world.servers[gone].id);
    world.crash(gone, true);
    world.stay_down(gone);
    world.pass(500);
    let now = world.servers[first].clock.read(world.timeline.now());
    world.with(first, |member| member.change(Change::Remove(id), now)).expect("holds");
    world.pass(500);
    let ask = |world: &mut World, at: usize, comes_back: bool| {
        let mut prospect = Prospect::Later;
        let now = world.servers[at].clock.read(world.timeline.now());
        let prepare = |member: &mut Member<post::Post>| {
            prospect = member.prepare_seat(Applicant { server, comes_back }, now)?;
            Ok(())
        };
        world.with(at, prepare).expect("holds");
        world.pass(500);
        prospect
    };
    let Prospect::SeatAbove(above) = ask(&mut world, first, true) else { panic!("no seat") };
    let seat = world.member(first).take_seat(server, above).expect("is there").id;
    // It did not hear of that: as long as this one leads, it is known that nobody has it.
    assert!(matches!(ask(&mut world, first, true), Prospect::SeatAbove(_)));
    assert_eq!(ask(&mut world, first, true), Prospect::Later, "one goes before another comes");
    let next = world.servers[second].id;
    let hand_over = |member: &mut Member<post::Post>| {
        member.hand_over(next);
        Ok(())
    };
    world.with(first, hand_over).expect("holds");
    world.pass(1000);
    assert_eq!(world.leader(), second);
    assert!(world.member(second).members().contains(&seat));
    assert_eq!(ask(&mut world, second, true), Prospect::Taken(seat));
    // With an empty directory it is whoever comes.
    assert!(matches!(ask(&mut world, second, false), Prospect::SeatAbove(_) | Prospect::Later));
}
