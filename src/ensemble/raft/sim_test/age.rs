//! How old a read may be, by the clock of whoever answers it: not older than `syncLimit`, whatever
//! happened meanwhile.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use jute::protocol::{Request, SetDataRequest, WatchRequest};
use raft::eraftpb::MessageType;

use super::network::{Content, Parcel};
use super::timeline::MS;
use super::turn::SYNC_LIMIT_MS;
use super::world::{Checked, Event, World};
use super::*;
use crate::engine::effect::Effect;
use crate::engine::time::Monotonic;

/// What clients knew, and since when.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Each newest transaction that one of them was told of, with what every server's clock showed
    /// then.
    since: Vec<(i64, Vec<Monotonic>)>,
}

impl World {
    /// A read must show all that anybody was told of a `syncLimit` before.
    pub(super) fn is_in_time(&mut self, at: usize, request: &Request<'_>, zxid: i64) -> Checked {
        let now = self.timeline.now();
        let clocks: Vec<Monotonic> =
            self.servers.iter().map(|server| server.clock.read(now).monotonic).collect();
        if Effect::of(request).is_read() && *request != Request::Ping {
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
        self.ask_for(at, get());
    }

    /// The session of a server's client is to outlive that this server is stopped for two seconds.
    fn outlast(&mut self, at: usize) {
        while self.clients[at].timeout_ms < 2500 {
            let (_, id) = self.clients[at].connection.expect("a connection");
            self.hang_up(at, id);
            self.clients[at].forget();
            self.connect(at, at);
            self.pass(100);
        }
    }

    /// Goes on until a write of a server's client is durable there, and not known to be final, or
    /// all is answered.
    fn until_durable(&mut self, at: usize) -> Checked {
        let mut has_come = false;
        loop {
            let log = &self.member(at).consensus.node.raft.raft_log;
            let waits = self.waiting(at) > 0;
            has_come |= waits;
            if log.committed < log.persisted || has_come && !waits {
                return Ok(());
            }
            self.step()?;
        }
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

    /// A server is stopped, with requests of its client in its socket; another one's client writes,
    /// and it goes on.
    fn stopped(&mut self, at: usize, ms: u64) -> Checked {
        self.servers[at].frozen_until = self.timeline.now() + ms * MS;
        (0..20).for_each(|_| self.read(at));
        self.try_pass(ms / 4)?;
        let writer = (0..3).find(|other| {
            *other != at
                && self.servers[*other]
                    .member
                    .as_ref()
                    .is_some_and(|its| its.requests().is_leading())
        });
        let before = self.outcome.acknowledged;
        self.set_data(writer.expect("another leads"), 20);
        self.try_pass(100)?;
        assert_eq!(self.outcome.acknowledged, before + 1);
        self.try_pass(ms)
    }
}

fn get() -> Request<'static> {
    Request::GetData(WatchRequest { path: "/x".into(), watch: false })
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
    world.outlast(follower);
    let before = world.outcome.reads;
    assert_eq!(world.stopped(follower, 2000), Ok(()));
    assert_eq!((world.outcome.reads - before, world.waiting(follower)), (20, 0));
    assert_eq!(world.outcome.closed, 0);
}

/// The write is final when the follower goes on, and what its client read after it has waited in
/// the socket.
#[test]
fn what_stands_behind_a_write_waits_for_a_round_as_well() {
    let mut world = World::settled(Flaw::None);
    let follower = (world.leader() + 1) % 3;
    world.outlast(follower);
    world.set_data(follower, 20);
    world.until_durable(follower).expect("holds");
    let before = (world.outcome.reads, world.outcome.acknowledged);
    world.servers[follower].frozen_until = world.timeline.now() + 2000 * MS;
    let (_, id) = world.clients[follower].connection.expect("a connection");
    let set = SetDataRequest { path: "/x".into(), data: None, version: -1 };
    let asked = [get(), Request::SetData(set), get()];
    for _ in 0..5 {
        world.ask(follower, follower, id, asked.to_vec());
    }
    world.pass(4000);
    let reads = world.outcome.reads - before.0;
    let writes = world.outcome.acknowledged - before.1;
    assert_eq!((world.outcome.closed, reads, writes, world.waiting(follower)), (0, 10, 6, 0));
}

/// The answer to a round is in the socket of a follower that was stopped, with the word that a
/// write is final. The read after it is older than what the round before it showed, and not than
/// what this one shows.
fn round_beside_a_write(is_asked_first: bool) {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let follower = (leader + 1) % 3;
    world.outlast(follower);
    let (_, id) = world.clients[follower].connection.expect("a connection");
    let set = SetDataRequest { path: "/x".into(), data: None, version: -1 };
    let asked = [Request::SetData(set), get()];
    let mut attempts = 0;
    let (shown, reads) = loop {
        let replica = Arc::clone(world.member(follower).replica());
        let (shown, reads) = (replica.fresh_until(), world.outcome.reads);
        if is_asked_first {
            world.until_sent(MessageType::MsgReadIndex, follower, leader).expect("holds");
        }
        world.ask(follower, follower, id, asked.to_vec());
        world.until_durable(follower).expect("holds");
        if !is_asked_first {
            // Neither is the write known to be final before it asks.
            world.network.cut(leader, follower);
            world.until_sent(MessageType::MsgReadIndex, follower, leader).expect("holds");
            let held = world.network.mend(leader, follower);
            held.into_iter().for_each(|parcel| world.arrive(parcel).expect("holds"));
        }
        if replica.fresh_until() == shown && world.outcome.reads == reads {
            break (shown, reads);
        }
        attempts += 1;
        assert!(attempts < 50, "it is stopped too late");
        world.pass(100);
    };
    world.servers[follower].frozen_until = world.timeline.now() + (SYNC_LIMIT_MS - 200) * MS;
    world.pass(SYNC_LIMIT_MS - 100);
    assert!(world.member(follower).replica().fresh_until() > shown);
    world.pass(1000);
    let reads = world.outcome.reads - reads;
    assert_eq!((world.outcome.closed, reads, world.waiting(follower)), (0, 1, 0));
}

#[test]
fn a_round_of_before_a_write_shows_how_old_it_is() {
    round_beside_a_write(true);
}

#[test]
fn a_round_of_behind_a_write_shows_how_old_it_is() {
    round_beside_a_write(false);
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

/// A follower is stopped with the word in its socket that a write is final. A read stands after
/// that, with the orderer; others overwrite, and the follower hears nothing of it when it goes on.
/// How many reads were answered.
fn stopped_before_a_write_is_final(flaw: Flaw) -> Result<u64, String> {
    let mut world = World::settled(flaw);
    let leader = world.leader();
    let (stopped, writer) = ((leader + 1) % 3, (leader + 2) % 3);
    world.outlast(stopped);
    let (_, id) = world.clients[stopped].connection.expect("a connection");
    let set = SetDataRequest { path: "/x".into(), data: None, version: -1 };
    let asked = [Request::SetData(set), get()];
    let mut attempts = 0;
    let before = loop {
        let before = (world.outcome.reads, world.outcome.acknowledged);
        world.ask(stopped, stopped, id, asked.to_vec());
        world.until_durable(stopped)?;
        if world.waiting(stopped) == asked.len() {
            break before;
        }
        attempts += 1;
        assert!(attempts < 50, "it is stopped too late");
        world.try_pass(100)?;
    };
    world.servers[stopped].frozen_until = world.timeline.now() + 2200 * MS;
    world.try_pass(400)?;
    for other in [leader, writer] {
        world.network.cut(stopped, other);
        world.network.cut(other, stopped);
    }
    world.set_data(writer, 20);
    world.try_pass(4000)?;
    assert_eq!(world.outcome.acknowledged - before.1, 2, "the write is final there");
    Ok(world.outcome.reads - before.0)
}

#[test]
fn what_the_orderer_reads_behind_a_write_is_not_told_if_it_is_too_old() {
    assert_eq!(stopped_before_a_write_is_final(Flaw::None), Ok(0));
}

#[test]
fn reads_of_the_orderers_of_any_age_are_found() {
    let found = stopped_before_a_write_is_final(Flaw::AgeNotChecked).expect_err("it is told");
    assert!(found.contains("too old"), "{found}");
}

/// The answer to a follower's question comes when it has asked once more; it hears nothing else any
/// more.
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
    late.into_iter().try_for_each(|parcel| world.arrive(parcel))?;
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
