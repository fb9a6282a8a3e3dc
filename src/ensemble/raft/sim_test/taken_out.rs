//! Members that are taken out of the ensemble: a leader by its own entry, and a server that wants
//! to come back.

use super::super::super::configuration::MemberChange;
use super::super::super::membership::Prospect;
use super::super::super::{member_id, server_of};
use super::world::World;
use super::*;
use crate::ensemble::founding::Applicant;
use crate::ensemble::standing::Servers;

/// What comes after its removal, in the log or not yet, is for another leader. Nobody of its
/// clients waits for that.
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
        world.with(leader, |member| member.change(MemberChange::Remove(id), now)).expect("holds");
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
            ended.contains("disk") && ended.contains("was removed from the ensemble"),
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
        assert!(!world.member(other).consensus().members().contains(&id));
    }
}

/// A server that was taken out and does not run: where it is, the member that it was, who leads,
/// and who is left besides.
fn taken_out() -> (World, (usize, u64), usize, usize) {
    let mut world = World::settled(Flaw::None);
    let first = world.leader();
    let (second, gone) = ((first + 1) % 3, (first + 2) % 3);
    let id = world.servers[gone].id;
    world.crash(gone, true);
    world.stay_down(gone);
    world.pass(500);
    let now = world.servers[first].clock.read(world.timeline.now());
    world.with(first, |member| member.change(MemberChange::Remove(id), now)).expect("holds");
    world.pass(500);
    (world, (gone, id), first, second)
}

/// A server asks for a seat with the directory of a member that was taken out, or with an empty
/// one.
fn ask(world: &mut World, at: usize, server: usize, was: Option<u64>) -> Prospect {
    let mut prospect = Prospect::Later;
    let now = world.servers[at].clock.read(world.timeline.now());
    let applicant = Applicant { server: server as u8 + 1, was, ends_with: None };
    let prepare = |member: &mut Member<post::Post>| {
        prospect = member.prepare_seat(applicant, now)?;
        Ok(())
    };
    world.with(at, prepare).expect("holds");
    world.pass(500);
    prospect
}

/// The seat that it gets; another one may have to go first.
fn seat(world: &mut World, at: usize, server: usize, was: Option<u64>) -> u64 {
    for _ in 0..3 {
        match ask(world, at, server, was) {
            Prospect::SeatAbove(above) => {
                let seat = world.member(at).consensus().take_seat(server as u8 + 1, above);
                return seat.expect("is there").id;
            }
            Prospect::Later | Prospect::Changing | Prospect::Speaks => {}
            refused => panic!("{refused:?}"),
        }
    }
    panic!("no seat")
}

fn hand_over(world: &mut World, from: usize, to: usize) {
    let next = world.servers[to].id;
    let hand_over = |member: &mut Member<post::Post>| {
        member.consensus_mut().hand_over(next);
        Ok(())
    };
    world.with(from, hand_over).expect("holds");
    world.pass(1000);
    assert_eq!(world.leader(), to);
}

/// Those that ask hear who votes now, and how far the member is, all of one instant.
#[test]
fn a_member_knows_the_voters_that_are_left() {
    let (world, _, first, second) = taken_out();
    for at in [first, second] {
        let (member, known) = (world.member(at), world.member(at).consensus().known());
        let voters: Servers = [first, second].map(|at| at as u8 + 1).into_iter().collect();
        assert_eq!(known.of().voters, voters);
        assert!(known.configured_at() > 0);
        let applied = member.replica().shared().last_zxid().0;
        assert!(applied > 0 && known.of().last >= applied, "{known:?} {applied:x}");
        assert_eq!(known.of().term, (applied >> 32).cast_unsigned());
        assert!(!known.of().lacks_base);
    }
}

/// What a member had under another leader is not known, and it may be with the directory that is
/// the right one.
#[test]
fn who_comes_back_gets_no_seat_beside_one_that_an_earlier_leader_gave() {
    let (mut world, (gone, id), first, second) = taken_out();
    // Its disk was emptied, and then the one of before was put back.
    let given = seat(&mut world, first, gone, None);
    // It did not hear of that: as long as this one leads, it is known that nobody has it.
    assert!(matches!(ask(&mut world, first, gone, Some(id)), Prospect::SeatAbove(_)));
    let later = ask(&mut world, first, gone, Some(id));
    assert_eq!(later, Prospect::Changing, "one goes before another comes");
    hand_over(&mut world, first, second);
    assert!(world.member(second).consensus().members().contains(&given));
    assert_eq!(ask(&mut world, second, gone, Some(id)), Prospect::Taken(given));
    // With an empty directory it is whoever comes.
    seat(&mut world, second, gone, None);
}

/// It may ask again and again, and the leader would wait for its disk each time.
#[test]
fn nothing_is_read_for_who_comes_back_beside_a_life_that_votes() {
    let (mut world, (gone, id), first, second) = taken_out();
    let given = seat(&mut world, first, gone, None);
    let now = world.servers[first].clock.read(world.timeline.now());
    world.with(first, |member| member.change(MemberChange::Vote(given), now)).expect("holds");
    world.pass(500);
    // What a start finds is in files only.
    world.crash(second, false);
    world.pass(5000);
    if world.leader() != second {
        hand_over(&mut world, first, second);
    }
    let now = world.servers[second].clock.read(world.timeline.now());
    let applicant = Applicant { server: gone as u8 + 1, was: Some(id), ends_with: None };
    let disk = world.servers[second].disk.clone();
    let mut prospect = Prospect::Later;
    let prepare = |member: &mut Member<post::Post>| {
        disk.fail_a_read_after(1000);
        prospect = member.prepare_seat(applicant, now)?;
        assert_eq!(disk.reads_left(), Some(1000));
        Ok(())
    };
    world.with(second, prepare).expect("holds");
    assert_eq!(prospect, Prospect::Taken(given));
}

/// The leader that gave it a seat was lost before it said so: nobody but this directory can have
/// it, which has not.
#[test]
fn who_comes_back_gets_another_seat_where_it_did_not_hear_of_the_one_that_an_earlier_leader_gave() {
    let (mut world, (gone, id), first, second) = taken_out();
    let mut given = vec![seat(&mut world, first, gone, Some(id))];
    for (from, to) in [(first, second), (second, first), (first, second)] {
        hand_over(&mut world, from, to);
        assert!(world.member(to).consensus().members().contains(given.last().expect("one")));
        // Of another directory, that one may be the right one.
        let other = member_id(gone as u8 + 1, 999);
        assert!(matches!(ask(&mut world, to, gone, Some(other)), Prospect::Taken(_)));
        given.push(seat(&mut world, to, gone, Some(id)));
        let its = world.member(to).consensus().members();
        let its = its.iter().filter(|its| server_of(**its) == gone as u8 + 1);
        assert!(its.count() <= 2, "{given:x?}");
    }
    // Whatever took one of them is nobody else.
    assert!(given.is_sorted_by(|one, next| one < next), "{given:x?}");
}
