//! A server whose disk was emptied: it asks the others for a seat, and comes back as another
//! member.
//!
//! One at a time, until it votes again: more of them than the ensemble bears is what no ensemble
//! survives.

use std::sync::Arc;

use super::checks::Chain;
use super::frames;
use super::life::is_refusal;
use super::server::{Asking, Server};
use super::timeline::MS;
use super::world::{Checked, Event, World};
use super::*;
use crate::ensemble::Said;
use crate::ensemble::founding::{Applicant, FoundingAnswer, Question, Seat};
use crate::ensemble::introduction::Introduction;
use crate::ensemble::raft::{Before, Prospect, life_of};
use crate::storage::sim::SimDisk;
use crate::storage::{RaftStateFile, StorageError};

/// What each member has on its disk, or had: the word of one that is no more may still be on its
/// way.
pub(super) fn disks<'c>(
    servers: &'c [Server],
    before: &'c [(u64, Chain)],
) -> Vec<(u64, &'c Chain)> {
    let now = servers.iter().map(|server| (server.owner, &server.chain));
    now.chain(before.iter().map(|(id, chain)| (*id, chain))).collect()
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
        (server.promise, server.promised_at) = ((0, 0), 0);
        server.known.clear();
        let before = (std::mem::take(&mut server.owner), std::mem::take(&mut server.chain));
        self.before.push(before);
        let server = &mut self.servers[at];
        server.is_founder = false;
        // Until it has a seat.
        server.id = 0;
        self.wiped = Some(at);
    }

    /// A server without a state asks another one, if this is when it was to.
    pub(super) fn ask_for_seat(&mut self, at: usize, when: u64) -> Checked {
        let server = &mut self.servers[at];
        if server.member.is_some() || server.asks != Some(when) {
            return Ok(());
        }
        server.asked = when;
        let (asking, was) = (Asking { at, life: server.life, when }, server.was);
        let whom = self.other(at);
        let passes = self.network.passes(at, whom) && self.network.passes(whom, at);
        let passes = passes && self.are_peers(at, whom);
        let mut prospect = Prospect::Later;
        if passes && self.timeline.now() >= self.servers[whom].frozen_until {
            let now = self.servers[whom].clock.read(self.timeline.now());
            let question = Question::Seat(Applicant { server: at as u8 + 1, was, ends_with: None });
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
            // No log says any more that the seat was given to this directory: its operator starts
            // it with an empty one, sooner or later.
            Prospect::Taken(_) if self.calm || self.dice.below(10) == 0 => {
                let server = &mut self.servers[at];
                (server.disk, server.was) = (SimDisk::default(), None);
                MS
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
            match member.consensus().take_seat(asking.at as u8 + 1, above) {
                Some(seat)
                    if self.network.passes(at, asking.at) && self.are_peers(at, asking.at) =>
                {
                    let delay = MS + self.dice.below(20 * MS);
                    let now = self.servers[asking.at].clock.read(self.timeline.now()).monotonic;
                    let passed = frames::pass(Said::Answer(FoundingAnswer::Seat(seat, None)), now)?;
                    let Said::Answer(FoundingAnswer::Seat(seat, _)) = passed else { continue };
                    self.timeline.after(delay, Event::Seat(asking, seat));
                }
                None if member.requests().is_leading() => {
                    self.servers[at].seats.push((above, asking))
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A server without a state hears which seat it has.
    pub(super) fn take_seat(&mut self, Asking { at, life, when }: Asking, seat: Seat) -> Checked {
        let server = &self.servers[at];
        // It waits for the answer to what it asked last.
        if server.member.is_some() || (server.life, server.asked) != (life, when) {
            return Ok(());
        }
        let ensemble = self.ensemble(at);
        let taken = self.open(at).map_err(EnsembleError::from).and_then(|directory| {
            let directory = Arc::new(directory);
            let mut introduction = match RaftStateFile::look(&directory)? {
                Some(state) => Introduction::of_member(&state, 0),
                None => Introduction::of_none(Before::read(Arc::clone(&directory), &ensemble)?),
            };
            let applying = introduction.take_applying(seat.ensemble);
            applying.ok_or(EnsembleError::NotBegun)?.take(&directory, seat, None)
        });
        match taken {
            Ok(()) => {}
            Err(EnsembleError::Storage(StorageError::Io { source, .. })) if is_refusal(&source) => {
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

    /// Whether who was wiped votes again, as the disks of a majority know. Where only the leader
    /// knew, and is lost, those who are left would wait for its vote.
    pub(super) fn see_wiped(&mut self) {
        if self.wiped.is_some_and(|at| self.belongs(at)) {
            self.wiped = None;
            self.outcome.seated += 1;
        }
    }
}

/// A snapshot shows nothing of the members, and the log after which it stands is not read again.
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
            prospect =
                member.prepare_seat(Applicant { server, was: None, ends_with: None }, now)?;
            Ok(())
        };
        world.with(leader, prepare).expect("holds");
    }
    let Prospect::SeatAbove(above) = prospect else { panic!("{prospect:?}") };
    let seat = loop {
        match world.member(at).consensus().take_seat(server, above) {
            Some(seat) => break seat.id,
            None => world.step().expect("holds"),
        }
    };
    world.stall(at, 1000);
    world.snapshot(at).expect("holds");
    let known = |world: &World| {
        let promises = &world.member(at).consensus.node.store().promises;
        (promises.configured_at, world.member(at).consensus().members())
    };
    let before = known(&world);
    assert!(before.0 >= life_of(seat), "{before:?}");
    let applied = world.member(at).consensus().applied();
    world.crash(at, false);
    let has_applied = |server: &Server| {
        server.member.as_ref().is_some_and(|member| member.consensus().applied() >= applied)
    };
    while !has_applied(&world.servers[at]) {
        world.step().expect("holds");
    }
    assert!(known(&world).0 >= before.0, "{:?} after {before:?}", known(&world));
}
