//! What a disk knows to be final while nothing else is written to it, and how what it does not know
//! is applied after a restart of all.

use jute::protocol::{Request, SetDataRequest};
use raft::StateRole;

use super::timeline::MS;
use super::world::{World, place_of};
use super::*;
use crate::storage::{RaftState, RaftStateFile};

/// Entries that are applied, and not known to be final by the disk, once a second has passed.
const LAG_MAX: u64 = 1000;

impl World {
    /// Many writes of a client, so many every 50 ms.
    fn write_much(&mut self, at: usize, count: usize, a_time: usize) {
        let (_, connection) = self.clients[at].connection.expect("a connection");
        for _ in 0..count / a_time {
            self.ask(at, at, connection, vec![set(); a_time]);
            self.pass(50);
        }
    }

    /// What the disk of a member that runs holds.
    fn promises(&self, at: usize) -> RaftState {
        let directory = self.member(at).consensus().directory();
        RaftStateFile::look(directory).expect("reads").expect("is there")
    }

    /// All are killed at once, or lose their power. Nothing of what they have said comes to those
    /// that are started then.
    fn end_all(&mut self, power: bool) {
        for at in 0..self.servers.len() {
            self.crash(at, power);
            self.stay_down(at);
        }
        self.pass(1000);
    }

    fn start_all(&mut self) {
        for at in 0..self.servers.len() {
            self.start(at).expect("starts");
        }
    }
}

fn set() -> Request<'static> {
    let data = Some(vec![1; 10].into());
    Request::SetData(SetDataRequest { path: "/x".into(), data, version: -1 })
}

/// In every other world less is applied in a turn than comes at once, and in others the hint is
/// written after a few entries.
pub(super) fn step_by_step(seed: u64, member: &mut Member<post::Post>) {
    if (seed / 2).is_multiple_of(2) {
        slow(member, 500, 200);
    }
    if !seed.is_multiple_of(5) {
        member.consensus.hint.entries = 1 + seed % 5;
    }
}

/// A turn applies no more than this, a page at a time.
fn slow(member: &mut Member<post::Post>, bytes: usize, page: u64) {
    member.consensus.apply_bytes = bytes;
    member.consensus.node.raft.set_max_committed_size_per_ready(page);
}

#[test]
fn after_thousands_of_writes_a_start_knows_that_they_are_final() {
    let mut world = World::settled(Flaw::None);
    let (leader, term) = (world.leader(), world.member(world.leader()).consensus().term());
    world.write_much(leader, 3000, 100);
    let applied = world.member(leader).consensus().applied();
    assert!(applied > 3000);
    for at in 0..3 {
        let RaftState { commit, .. } = world.promises(at);
        // 100 each 50 ms, for a second.
        assert!(commit + LAG_MAX + 2000 > applied, "{commit} of {applied}");
    }
    // What is left is due once a second has passed, and nothing wakes anybody for it.
    world.pass(1500);
    let before = [0, 1, 2].map(|at| world.promises(at));
    for promises in &before {
        assert!(promises.commit + LAG_MAX > applied, "{promises:?} of {applied}");
    }
    world.end_all(true);
    world.start_all();
    for (at, before) in before.iter().enumerate() {
        assert_eq!(world.member(at).consensus().applied(), before.commit);
    }
    world.pass(3000);
    assert!(world.member(world.leader()).consensus().term() > term);
    assert!((0..3).all(|at| world.member(at).consensus().applied() > applied));
}

/// The disk has one small write more in a second, and only while there is something to say.
#[test]
fn it_is_said_once_a_second_and_not_at_all_where_nothing_is_written() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let (_, connection) = world.clients[leader].connection.expect("a connection");
    for server in &mut world.servers {
        server.member.as_mut().expect("is up").consensus.hint.entries = 100;
    }
    let (mut said, mut last) = ([0; 3], [0, 1, 2].map(|at| world.promises(at)));
    for _ in 0..100 {
        world.ask(leader, leader, connection, vec![set(); 10]);
        world.pass(50);
        for at in 0..3 {
            let now = world.promises(at);
            assert!(now.commit >= last[at].commit, "it goes back");
            assert!(
                now.commit <= world.servers[at].writer.as_ref().expect("is up").log.last_index()
            );
            said[at] += u32::from(now.commit > last[at].commit);
            last[at] = now;
        }
    }
    assert!(said.iter().all(|said| (5..=6).contains(said)), "{said:?} in 5 s");
    world.pass(2000);
    let disks = [0, 1, 2].map(|at| world.servers[at].disk.clone());
    let idle = disks.clone().map(|disk| disk.writes_and_syncs());
    world.pass(10_000);
    assert_eq!(disks.map(|disk| disk.writes_and_syncs()), idle);
}

/// With `forceSync=no` the log may not have what was applied: a power failure would leave a
/// directory that no start takes.
#[test]
fn nothing_is_said_of_a_log_that_is_not_synced() {
    let mut world = World::settled(Flaw::AckBeforeSync);
    let leader = world.leader();
    let before = [0, 1, 2].map(|at| world.promises(at));
    world.write_much(leader, 3000, 200);
    world.pass(1500);
    assert_eq!([0, 1, 2].map(|at| world.promises(at)), before);
}

/// Each turn takes as long as what it applies. The leader's machine is the slowest, and whoever
/// hears nothing of it for a second stands for election.
#[test]
fn what_was_final_is_applied_in_several_turns_and_the_leader_is_heard_meanwhile() {
    const WRITES: usize = 2000;
    const A_TURN: u64 = 50;
    let mut world = World::settled(Flaw::None);
    let first = world.leader();
    for server in &mut world.servers {
        server.member.as_mut().expect("is up").consensus.hint.entries = u64::MAX;
    }
    world.write_much(first, WRITES, 200);
    let last = world.member(first).consensus().applied();
    world.end_all(false);
    world.start_all();
    let entry = world.member(first).consensus.node.store().log.entries(last, last + 1, 0);
    let bytes = entry.expect("reads").expect("is there")[0].payload.len();
    for server in &mut world.servers {
        let member = server.member.as_mut().expect("is up");
        assert!(member.consensus().applied() + WRITES as u64 <= last);
        slow(member, (bytes + 64) * A_TURN as usize, 10 * bytes as u64);
    }
    let mut applied = [0, 1, 2].map(|at| world.member(at).consensus().applied());
    let (mut turns, mut most, mut term) = ([0; 3], 0, 0);
    while applied.iter().any(|applied| *applied <= last) {
        world.step().expect("holds");
        let now = world.timeline.now();
        for (at, before) in applied.iter_mut().enumerate() {
            let member = world.servers[at].member.as_ref().expect("is up");
            let new = member.consensus().applied() - *before;
            *before = member.consensus().applied();
            if new == 0 {
                continue;
            }
            most = u64::max(most, new);
            turns[at] += 1;
            let raft = &member.consensus.node.raft;
            term = u64::max(term, raft.term);
            assert_eq!(raft.term, term);
            let each = if raft.state == StateRole::Leader { MS } else { MS / 20 };
            world.servers[at].frozen_until = now + new * each;
        }
        let stands = |at: usize| {
            let state = world.member(at).consensus.node.raft.state;
            matches!(state, StateRole::PreCandidate | StateRole::Candidate)
        };
        assert!(term == 0 || !(0..3).any(stands), "at {applied:?} of {last}");
    }
    assert!(most <= A_TURN + 10, "{most} in one turn");
    assert!(turns.iter().all(|turns| *turns >= WRITES as u64 / (A_TURN + 10)), "{turns:?}");
    let leader = world.leader();
    assert_eq!(world.member(leader).consensus().term(), term);
    // What is asked then is answered.
    let applied = world.member(leader).consensus().applied();
    world.clients[leader] = clients::Client::new();
    world.connect(leader, leader);
    world.pass(500);
    world.set_data(leader, 10);
    world.pass(200);
    assert_eq!(
        (world.waiting(leader), world.member(leader).consensus().applied() >= applied + 2),
        (0, true)
    );
}

/// The crate would read at once all that is not applied. Whoever leads no more keeps nobody else
/// from its vote meanwhile.
#[test]
fn who_has_much_to_apply_does_not_stand_and_gives_its_vote() {
    let mut world = World::settled(Flaw::None);
    let first = world.leader();
    for server in &mut world.servers {
        server.member.as_mut().expect("is up").consensus.hint.entries = u64::MAX;
    }
    world.write_much(first, 1000, 200);
    let last = world.member(first).consensus().applied();
    world.end_all(false);
    world.start_all();
    let slow_one = (first + 1) % 3;
    slow(world.servers[slow_one].member.as_mut().expect("is up"), 1, 1);
    let end = world.timeline.now() + 5000 * MS;
    while !world.member(slow_one).consensus.is_behind {
        world.step().expect("holds");
        assert!(world.timeline.now() < end, "it applies all at once");
    }
    let leader = place_of(world.member(slow_one).consensus().leader());
    assert_ne!(leader, slow_one);
    let term = world.member(leader).consensus().term();
    // A turn for each entry, twenty a second.
    let mut before = 0;
    world.crash(leader, false);
    world.stay_down(leader);
    while world.member(slow_one).consensus.is_behind {
        world.step().expect("holds");
        let member = world.member(slow_one);
        assert!(member.consensus().applied() <= before + 1 || before == 0);
        if member.consensus().applied() != before {
            before = member.consensus().applied();
            world.servers[slow_one].frozen_until = world.timeline.now() + 50 * MS;
        }
        let state = world.member(slow_one).consensus.node.raft.state;
        assert!(matches!(state, StateRole::Follower), "{state:?} at {before} of {last}");
        if world.member(slow_one).consensus().term() > term {
            break;
        }
    }
    assert!(before < last && world.member(slow_one).consensus.is_behind, "{before} of {last}");
    world.pass(1000);
    let next = world.leader();
    assert!(next != slow_one && world.member(next).consensus().term() > term);
}
