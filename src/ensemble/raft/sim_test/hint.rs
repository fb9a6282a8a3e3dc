//! What a disk knows to be final while nothing else is written to it.

use jute::protocol::{Request, SetDataRequest};

use super::world::World;
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
        let directory = self.member(at).directory();
        RaftStateFile::look(directory).expect("reads").expect("is there")
    }

    /// All are killed at once, or lose their power.
    fn end_all(&mut self, power: bool) {
        for at in 0..self.servers.len() {
            self.crash(at, power);
            self.stay_down(at);
        }
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

/// In most worlds it is written after a few entries.
pub(super) const fn step_by_step(seed: u64, member: &mut Member<post::Post>) {
    if !seed.is_multiple_of(5) {
        member.hint.entries = 1 + seed % 5;
    }
}

#[test]
fn after_thousands_of_writes_a_start_knows_that_they_are_final() {
    let mut world = World::settled(Flaw::None);
    let (leader, term) = (world.leader(), world.member(world.leader()).term());
    world.write_much(leader, 3000, 100);
    let applied = world.member(leader).applied();
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
        assert_eq!(world.member(at).applied(), before.commit);
    }
    world.pass(3000);
    assert!(world.member(world.leader()).term() > term);
    assert!((0..3).all(|at| world.member(at).applied() > applied));
}

/// The disk has one small write more in a second, and only while there is something to say.
#[test]
fn it_is_said_once_a_second_and_not_at_all_where_nothing_is_written() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let (_, connection) = world.clients[leader].connection.expect("a connection");
    for server in &mut world.servers {
        server.member.as_mut().expect("is up").hint.entries = 100;
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

/// With `forceSync=no` the log may not have what was applied: a power failure would leave a directory that no start takes.
#[test]
fn nothing_is_said_of_a_log_that_is_not_synced() {
    let mut world = World::settled(Flaw::AckBeforeSync);
    let leader = world.leader();
    let before = [0, 1, 2].map(|at| world.promises(at));
    world.write_much(leader, 3000, 200);
    world.pass(1500);
    assert_eq!([0, 1, 2].map(|at| world.promises(at)), before);
}
