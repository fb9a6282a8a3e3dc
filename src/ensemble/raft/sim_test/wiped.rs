//! A server whose disk was emptied: it asks the others for a seat, and comes back as another member.
//!
//! One at a time, until it votes again: more of them than the ensemble bears is what no ensemble survives.

use std::sync::Arc;

use super::checks::Chain;
use super::server::{Asking, Server};
use super::timeline::MS;
use super::world::{Checked, Event, World};
use super::*;
use crate::ensemble::Said;
use crate::ensemble::founding::{Answer, Applicant, Question, Seat};
use crate::ensemble::raft::{Before, Prospect, life_of};
use crate::storage::StorageError;
use crate::storage::sim::SimDisk;

/// A server whose disk was emptied.
#[derive(Debug)]
pub(super) struct Wiped {
    at: usize,
    /// What it had: its word for that may still be on its way.
    chain: Chain,
}

/// What counts as on the disks: of a server that was wiped and votes for no leader's entries yet, what it had before.
pub(super) fn chains<'c>(servers: &'c [Server], wiped: Option<&'c Wiped>) -> Vec<&'c Chain> {
    let is_voter = |id: u64| {
        let mut members = servers.iter().filter_map(|server| server.member.as_ref());
        members.any(|member| member.node.store().promises.members.voters.contains(&id))
    };
    let before = wiped.filter(|wiped| !is_voter(servers[wiped.at].id));
    let chain = |(at, server): (usize, &'c Server)| {
        before.filter(|wiped| wiped.at == at).map_or(&server.chain, |wiped| &wiped.chain)
    };
    servers.iter().enumerate().map(chain).collect()
}

/// How long an answer is waited for.
const ANSWER_MAX: u64 = 5000 * MS;

impl World {
    /// Ends a server, and takes everything that its disk has.
    pub(super) fn wipe(&mut self, at: usize) {
        self.outcome.wiped += 1;
        self.crash(at, true);
        let server = &mut self.servers[at];
        server.disk = SimDisk::default();
        server.promise = (0, 0);
        server.known.clear();
        let chain = std::mem::take(&mut server.chain);
        server.is_founder = false;
        // Until it has a seat.
        server.id = 0;
        self.wiped = Some(Wiped { at, chain });
    }

    /// A server without a state asks another one, if this is when it was to.
    pub(super) fn ask_for_seat(&mut self, at: usize, when: u64) -> Checked {
        let server = &mut self.servers[at];
        if server.member.is_some() || server.asks != Some(when) {
            return Ok(());
        }
        let asking = Asking { at, life: server.life };
        let whom = self.other(at);
        let passes = self.network.passes(at, whom) && self.network.passes(whom, at);
        let mut prospect = Prospect::Later;
        if passes && self.timeline.now() >= self.servers[whom].frozen_until {
            let now = self.servers[whom].clock.read(self.timeline.now());
            let question = Question::Seat(Applicant { server: at as u8 + 1, was: None });
            let passed = frames::pass(Said::Question(question), now.monotonic)?;
            let Said::Question(Question::Seat(applicant)) = passed else { return Ok(()) };
            self.with(whom, |member| {
                prospect = member.prepare_seat(applicant, now)?;
                Ok(())
            })?;
        }
        let wait = match prospect {
            Prospect::SeatAbove(above) if self.servers[whom].member.is_some() => {
                self.servers[whom].seats.push((above, asking));
                ANSWER_MAX
            }
            _ => 100 * MS + self.dice.below(200 * MS),
        };
        self.ask_later(at, wait);
        Ok(())
    }

    pub(super) fn ask_later(&mut self, at: usize, wait: u64) {
        let when = self.timeline.now() + wait;
        self.servers[at].asks = Some(when);
        self.timeline.at(when, Event::AskForSeat(at, when));
    }

    /// A member tells who asked which seats they have.
    pub(super) fn give_seats(&mut self, at: usize) -> Checked {
        for (above, asking) in std::mem::take(&mut self.servers[at].seats) {
            let Some(member) = &self.servers[at].member else { return Ok(()) };
            match member.take_seat(asking.at as u8 + 1, above) {
                Some(seat) if self.network.passes(at, asking.at) => {
                    let delay = MS + self.dice.below(20 * MS);
                    let now = self.servers[asking.at].clock.read(self.timeline.now()).monotonic;
                    let passed = frames::pass(Said::Answer(Answer::Seat(seat, None)), now)?;
                    let Said::Answer(Answer::Seat(seat, _)) = passed else { continue };
                    self.timeline.after(delay, Event::Seat(asking, seat));
                }
                None if member.is_leading() => self.servers[at].seats.push((above, asking)),
                _ => {}
            }
        }
        Ok(())
    }

    /// A server without a state hears which seat it has.
    pub(super) fn take_seat(&mut self, Asking { at, life }: Asking, seat: Seat) -> Checked {
        let server = &self.servers[at];
        if server.member.is_some() || server.life != life {
            return Ok(());
        }
        let ensemble = self.ensemble(at);
        let taken = self
            .open(at)
            .map_err(EnsembleError::from)
            .and_then(|directory| Before::read(Arc::new(directory), &ensemble)?.take(seat, None));
        match taken {
            Ok(()) => {}
            Err(EnsembleError::Storage(StorageError::Io { .. })) => {
                self.fail(at);
                return Ok(());
            }
            Err(error) => return Err(format!("member {} takes no seat: {error}", at + 1)),
        }
        if self.dice.below(4) == 0 {
            self.crash(at, true);
            return Ok(());
        }
        self.start(at)
    }

    /// Whether who was wiped votes again, as the disks of a majority know. Where only the leader knew, and is lost, those who
    /// are left would wait for its vote.
    pub(super) fn see_wiped(&mut self) {
        let Some(wiped) = &self.wiped else { return };
        let id = self.servers[wiped.at].id;
        let writers = self.servers.iter().filter_map(|server| server.writer.as_ref());
        let knows = |writer: &&DiskWriter| writer.promises.get().members.voters.contains(&id);
        if writers.filter(knows).count() > self.servers.len() / 2 {
            self.wiped = None;
            self.outcome.seated += 1;
        }
    }
}

/// A snapshot shows nothing of the members, and the log behind which it stands is not read again.
#[test]
fn a_change_of_members_outlives_a_snapshot_that_does_not_show_it() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let (at, other) = ((leader + 1) % 3, (leader + 2) % 3);
    let now = world.servers[leader].clock.read(world.timeline.now());
    let server = other as u8 + 1;
    world.crash(other, true);
    // As long as the leader believes that it is there, nobody else gets its seat.
    let mut prospect = Prospect::Later;
    while matches!(prospect, Prospect::Later | Prospect::Changing | Prospect::Speaks) {
        world.step().expect("holds");
        let prepare = |member: &mut Member<post::Post>| {
            prospect = member.prepare_seat(Applicant { server, was: None }, now)?;
            Ok(())
        };
        world.with(leader, prepare).expect("holds");
    }
    let Prospect::SeatAbove(above) = prospect else { panic!("{prospect:?}") };
    let seat = loop {
        match world.member(at).take_seat(server, above) {
            Some(seat) => break seat.id,
            None => world.step().expect("holds"),
        }
    };
    world.stall(at, 1000);
    world.snapshot(at).expect("holds");
    let known = |world: &World| {
        let promises = &world.member(at).node.store().promises;
        (promises.configured_at, world.member(at).members())
    };
    let before = known(&world);
    assert!(before.0 >= life_of(seat), "{before:?}");
    let applied = world.member(at).applied();
    world.crash(at, false);
    let has_applied =
        |server: &Server| server.member.as_ref().is_some_and(|member| member.applied() >= applied);
    while !has_applied(&world.servers[at]) {
        world.step().expect("holds");
    }
    assert!(known(&world).0 >= before.0, "{:?} after {before:?}", known(&world));
}
