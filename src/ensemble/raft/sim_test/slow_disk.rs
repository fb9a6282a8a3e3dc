//! Disks that do nothing for a while: who leads then, and who is answered.

use jute::protocol::{CreateRequest, Request, SetDataRequest};
use jute::{Acl, CreateMode, perms};

use super::storm::Mend;
use super::timeline::MS;
use super::world::{Event, World};
use super::*;

impl World {
    /// An ensemble of three with a leader, and a client of each member with a session. Nothing goes wrong by itself.
    fn settled() -> Self {
        let mut world = Self::begin(7, Flaw::None, 3);
        world.calm = true;
        for at in 0..3 {
            world.start(at).expect("starts");
            for other in at + 1..3 {
                world.timeline.at(MS, Event::Dial(at, other));
            }
        }
        world.pass(2000);
        world.clients.truncate(3);
        (0..3).for_each(|at| world.connect(at, at));
        world.pass(500);
        assert!(world.clients.iter().all(|client| client.session.is_some()));
        let create = CreateRequest {
            path: "/x".into(),
            data: None,
            acl: Some(vec![Acl::anyone(perms::ALL)]),
            flags: CreateMode::Persistent.flags(),
        };
        world.ask_for(0, Request::Create(create));
        world.pass(200);
        assert_eq!(world.waiting(0), 0);
        world
    }

    /// So much time; meanwhile the clients are heard of.
    fn pass(&mut self, ms: u64) {
        let end = self.timeline.now() + ms * MS;
        while self.timeline.now() < end {
            let next = end.min(self.timeline.now() + 200 * MS);
            while self.timeline.is_due(next) {
                self.step().expect("holds");
            }
            self.timeline.pass_to(next);
            for server in &self.servers {
                let now = server.clock.read(next).monotonic;
                for connection in server.connections.values() {
                    connection.attached.iter().for_each(|attached| attached.heard.touch(now));
                }
            }
        }
    }

    fn ask_for(&mut self, at: usize, request: Request<'static>) {
        let (_, id) = self.clients[at].connection.expect("a connection");
        self.ask(at, at, id, vec![request]);
    }

    fn set_data(&mut self, at: usize, len: usize) {
        let data = Some(vec![1; len].into());
        self.ask_for(at, Request::SetData(SetDataRequest { path: "/x".into(), data, version: -1 }));
    }

    /// Requests of a member's clients that are not answered.
    fn waiting(&self, at: usize) -> usize {
        let connections = self.servers[at].connections.values();
        connections.map(|connection| connection.unanswered.len()).sum()
    }

    fn member(&self, at: usize) -> &Member<post::Post> {
        self.servers[at].member.as_ref().expect("is up")
    }

    fn leader(&self) -> usize {
        let leads = |at: &usize| self.servers[*at].member.as_ref().is_some_and(Member::is_leading);
        let leaders: Vec<usize> = (0..3).filter(leads).collect();
        assert_eq!(leaders.len(), 1, "{leaders:?}");
        leaders[0]
    }

    fn stall(&mut self, at: usize, ms: u64) {
        self.servers[at].stalled_until = self.timeline.now() + ms * MS;
    }

    /// It is not started again.
    fn stay_down(&mut self, at: usize) {
        self.timeline.forget(|event| matches!(event, Event::Mend(Mend::Start(its)) if *its == at));
    }

    /// The disk goes on.
    fn go_on(&mut self, at: usize) {
        self.servers[at].stalled_until = 0;
        self.servers[at].is_writing = false;
        self.write_later(at);
    }
}

#[test]
fn a_leader_whose_disk_pauses_keeps_its_term_and_the_others_are_a_quorum_without_it() {
    let mut world = World::settled();
    let leader = world.leader();
    let (term, others) = (world.member(leader).term(), [(leader + 1) % 3, (leader + 2) % 3]);
    world.stall(leader, 900);
    (0..3).for_each(|at| world.set_data(at, 10));
    world.pass(850);
    assert_eq!((world.leader(), world.member(leader).term()), (leader, term));
    // Its own clients see what its disk has.
    assert_eq!(world.waiting(leader), 1);
    assert_eq!(others.map(|at| world.waiting(at)), [0, 0]);
    world.pass(100);
    assert_eq!((world.leader(), world.member(leader).term()), (leader, term));
    assert_eq!(world.waiting(leader), 0);
}

#[test]
fn without_a_quorum_of_disks_nothing_is_answered_and_nobody_is_deposed() {
    let mut world = World::settled();
    let leader = world.leader();
    let term = world.member(leader).term();
    let before = world.outcome.acknowledged;
    world.stall(leader, 900);
    world.stall((leader + 1) % 3, 900);
    (0..3).for_each(|at| world.set_data(at, 10));
    world.pass(850);
    assert_eq!(world.outcome.acknowledged, before);
    assert_eq!((0..3).map(|at| world.waiting(at)).sum::<usize>(), 3);
    world.pass(100);
    assert_eq!(world.outcome.acknowledged, before + 3);
    assert_eq!((world.leader(), world.member(leader).term()), (leader, term));
}

#[test]
fn a_leader_whose_disk_hangs_hands_over() {
    let mut world = World::settled();
    let leader = world.leader();
    let term = world.member(leader).term();
    world.stall(leader, 5000);
    world.set_data(leader, 10);
    world.pass(950);
    assert_eq!(world.leader(), leader);
    world.pass(150);
    let next = world.leader();
    assert_ne!(next, leader);
    assert_eq!(world.member(next).term(), term + 1, "no election is lost");
    world.set_data(next, 10);
    world.pass(50);
    assert_eq!(world.waiting(next), 0);
    // It is in nobody's way while its disk still hangs, nor when that is over.
    world.pass(6000);
    assert_eq!((world.leader(), world.member(leader).term()), (next, term + 1));
    assert_eq!(world.member(leader).applied(), world.member(next).applied());
}

#[test]
fn a_leader_keeps_a_hanging_disk_while_the_others_are_no_quorum() {
    let mut world = World::settled();
    let leader = world.leader();
    let term = world.member(leader).term();
    world.crash((leader + 1) % 3, true);
    world.stay_down((leader + 1) % 3);
    world.stall(leader, 3000);
    world.set_data(leader, 10);
    world.pass(2900);
    assert_eq!((world.leader(), world.member(leader).term()), (leader, term));
    assert_eq!(world.waiting(leader), 1);
    world.pass(150);
    assert_eq!(world.waiting(leader), 0);
}

/// What waits for a disk is bounded: the one of a follower, then the leader's own.
#[test]
fn a_disk_that_hangs_takes_no_more_memory_than_its_share() {
    const ENTRY: usize = 16 << 10;
    const SHARE: usize = 40 * ENTRY;
    let mut world = World::settled();
    for server in &mut world.servers {
        server.member.as_mut().expect("is up").unsynced.bytes_max = SHARE;
    }
    let leader = world.leader();
    let follower = (leader + 1) % 3;
    world.stall(follower, 20_000);
    for _ in 0..80 {
        world.set_data(leader, ENTRY);
        world.pass(50);
    }
    assert_eq!(world.waiting(leader), 0, "the others are a quorum");
    let held = world.member(follower).unsynced.bytes();
    assert!((SHARE..SHARE + 2 * ENTRY).contains(&held), "{held}");
    world.go_on(follower);
    world.pass(3000);
    assert_eq!(world.member(follower).applied(), world.member(leader).applied());

    // Without a quorum it keeps its disk.
    world.stall(leader, 60_000);
    world.crash(follower, true);
    world.stay_down(follower);
    for _ in 0..60 {
        world.set_data(leader, ENTRY);
        world.pass(50);
    }
    let held = world.member(leader).unsynced.bytes();
    assert!((SHARE..SHARE + 2 * ENTRY).contains(&held), "{held}");
    assert_eq!(world.waiting(leader), 60);
    world.go_on(leader);
    world.pass(1000);
    assert_eq!(world.waiting(leader), 0);
}
