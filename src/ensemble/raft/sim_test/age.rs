//! How old a read may be, by the clock of whoever answers it: not older than `syncLimit`, whatever happened meanwhile.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use jute::protocol::{Request, WatchRequest};
use raft::eraftpb::MessageType;

use super::network::{Content, Parcel};
use super::timeline::MS;
use super::turn::SYNC_LIMIT_MS;
use super::world::{Checked, Event, World};
use super::*;
use crate::engine::read;
use crate::engine::time::Monotonic;

/// What clients knew, and since when.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Each newest transaction that one of them was told of, with what every server's clock showed then.
    since: Vec<(i64, Vec<Monotonic>)>,
}

impl World {
    /// A read must show all that anybody was told of a `syncLimit` before.
    pub(super) fn is_in_time(&mut self, at: usize, request: &Request<'_>, zxid: i64) -> Checked {
        let now = self.timeline.now();
        let clocks: Vec<Monotonic> =
            self.servers.iter().map(|server| server.clock.read(now).monotonic).collect();
        if read::is_read(request) && *request != Request::Ping {
            let was_known =
                |(_, since): &&(i64, Vec<Monotonic>)| since[at].plus(SYNC_LIMIT_MS) <= clocks[at];
            let known = self.known.since.iter().rev().find(was_known);
            if let Some((known, since)) = known.filter(|(known, _)| *known > zxid) {
                let ms = clocks[at].since(since[at]);
                return Err(format!("it is too old: {known:#x} was told of {ms} ms before"));
            }
        }
        if self.known.since.last().is_none_or(|(known, _)| *known < zxid) {
            self.known.since.push((zxid, clocks));
        }
        Ok(())
    }

    fn read(&mut self, at: usize) {
        self.ask_for(at, Request::GetData(WatchRequest { path: "/x".into(), watch: false }));
    }

    /// Goes on until such a message of a round is on its way.
    fn until_sent(&mut self, what: MessageType, from: usize, to: usize) -> Checked {
        let is_it = |parcel: &Parcel| {
            let Content::Message(message) = &parcel.content else { return false };
            (parcel.from, parcel.to, message.get_msg_type()) == (from, to, what)
        };
        while !self.timeline.has(|event| matches!(event, Event::Arrive(its) if is_it(its))) {
            self.step()?;
        }
        Ok(())
    }

    /// A server is stopped, with requests of its client in its socket; another one's client writes, and it goes on.
    fn stopped(&mut self, at: usize, ms: u64) -> Checked {
        self.servers[at].frozen_until = self.timeline.now() + ms * MS;
        (0..20).for_each(|_| self.read(at));
        self.try_pass(ms / 4)?;
        let writer = (0..3).find(|other| {
            *other != at && self.servers[*other].member.as_ref().is_some_and(Member::is_leading)
        });
        let before = self.outcome.acknowledged;
        self.set_data(writer.expect("another leads"), 20);
        self.try_pass(100)?;
        assert_eq!(self.outcome.acknowledged, before + 1);
        self.try_pass(ms)
    }
}

/// A leader is stopped, others overwrite, and it goes on with reads in its socket.
fn leader_is_stopped(flaw: Flaw) -> Checked {
    let mut world = World::settled(flaw);
    let leader = world.leader();
    world.stopped(leader, 6000)
}

#[test]
fn what_waited_for_a_stopped_leader_is_not_told_what_was() {
    assert_eq!(leader_is_stopped(Flaw::None), Ok(()));
}

#[test]
fn reads_of_any_age_are_found() {
    let violation = leader_is_stopped(Flaw::AgeNotChecked).expect_err("they are told");
    assert!(violation.contains("too old"), "{violation}");
}

#[test]
fn what_waited_for_a_stopped_follower_is_told_what_is() {
    let mut world = World::settled(Flaw::None);
    let follower = (world.leader() + 1) % 3;
    // Its session is to outlive that.
    while world.clients[follower].timeout_ms < 2500 {
        let (at, id) = world.clients[follower].connection.expect("a connection");
        world.hang_up(at, id);
        world.clients[follower].forget();
        world.connect(follower, follower);
        world.pass(100);
    }
    let before = world.outcome.reads;
    assert_eq!(world.stopped(follower, 2000), Ok(()));
    assert_eq!((world.outcome.reads - before, world.waiting(follower)), (20, 0));
    assert_eq!(world.outcome.closed, 0);
}

/// A server that was stopped finds the answer to a round that it began before.
#[test]
fn who_waits_is_not_woken_while_the_state_is_too_old() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let follower = (leader + 1) % 3;
    world.until_sent(MessageType::MsgReadIndexResp, leader, follower).expect("holds");
    let replica = Arc::clone(world.member(follower).replica());
    let mut renewed = pin!(replica.renewed());
    let mut context = Context::from_waker(Waker::noop());
    let mut is_woken = || renewed.as_mut().poll(&mut context).is_ready();
    assert!(!is_woken());
    world.servers[follower].frozen_until = world.timeline.now() + 2000 * MS;
    let before = replica.fresh_until();
    while replica.fresh_until() == before {
        world.step().expect("holds");
    }
    let now = |world: &World| world.servers[follower].clock.read(world.timeline.now()).monotonic;
    assert!(!replica.is_fresh(now(&world)), "it was shown what was");
    assert!(!is_woken());
    while !replica.is_fresh(now(&world)) {
        world.step().expect("holds");
    }
    assert!(is_woken());
}

/// A follower is stopped while it reads, and others overwrite that.
fn stopped_in_read(flaw: Flaw) -> Result<u64, String> {
    let mut world = World::settled(flaw);
    let leader = world.leader();
    let (stopped, writer) = ((leader + 1) % 3, (leader + 2) % 3);
    let before = world.outcome.reads;
    world.servers[stopped].stops_in_read = 2000 * MS;
    world.read(stopped);
    world.try_pass(100)?;
    world.set_data(writer, 20);
    world.try_pass(4000)?;
    Ok(world.outcome.reads - before)
}

#[test]
fn what_was_read_before_the_server_was_stopped_is_not_told_afterwards() {
    assert_eq!(stopped_in_read(Flaw::None), Ok(0));
}

#[test]
fn an_age_looked_at_before_the_read_is_found() {
    let violation = stopped_in_read(Flaw::AgeBeforeRead).expect_err("it is told");
    assert!(violation.contains("too old"), "{violation}");
}

/// The answer to a follower's question comes when it has asked once more; it hears nothing else any more.
fn late_answer(flaw: Flaw) -> Checked {
    let mut world = World::settled(flaw);
    let leader = world.leader();
    let (cut, writer) = ((leader + 1) % 3, (leader + 2) % 3);
    let answers = |parcel: &Parcel| {
        let Content::Message(message) = &parcel.content else { return false };
        parcel.to == cut && message.get_msg_type() == MessageType::MsgReadIndexResp
    };
    world.until_sent(MessageType::MsgReadIndexResp, leader, cut)?;
    for other in [leader, writer] {
        world.network.cut(cut, other);
        world.network.cut(other, cut);
    }
    world.set_data(writer, 20);
    world.try_pass(300)?;
    let held = world.network.mend(leader, cut);
    let (late, _): (Vec<Parcel>, Vec<Parcel>) = held.into_iter().partition(answers);
    assert_eq!(late.len(), 1);
    late.into_iter().for_each(|parcel| world.arrive(parcel));
    world.network.cut(leader, cut);
    let before = world.outcome.reads;
    for _ in 0..100 {
        world.try_pass(20)?;
        if world.clients[cut].connection.is_some() {
            world.read(cut);
        }
    }
    assert!(world.outcome.reads > before + 20, "it is young at first");
    Ok(())
}

#[test]
fn an_answer_counts_from_when_it_was_asked_for() {
    assert_eq!(late_answer(Flaw::None), Ok(()));
}

#[test]
fn an_answer_that_counts_for_a_later_attempt_is_found() {
    let violation = late_answer(Flaw::RoundTakenForLater).expect_err("it reads what was");
    assert!(violation.contains("too old"), "{violation}");
}

/// One that hears nothing of the others answers for a while, and then no more.
#[test]
fn who_is_cut_off_tells_what_was_for_no_longer_than_it_may() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let (cut, writer) = ((leader + 1) % 3, (leader + 2) % 3);
    for other in (0..3).filter(|other| *other != cut) {
        world.network.cut(cut, other);
        world.network.cut(other, cut);
    }
    world.pass(100);
    world.set_data(writer, 20);
    let before = world.outcome.reads;
    for _ in 0..30 {
        world.pass(100);
        if world.clients[cut].connection.is_some() {
            world.read(cut);
        }
    }
    let answered = world.outcome.reads - before;
    assert!((8..16).contains(&answered), "{answered}");
    world.pass(SYNC_LIMIT_MS);
    assert_eq!(world.waiting(cut), 0, "they are let go");
}
