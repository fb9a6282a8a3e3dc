//! What becomes of the requests of a leader's followers when it hands over.

use std::sync::Arc;

use jute::protocol::{CreateRequest, Request, SyncRequest, WatchRequest};
use jute::{Acl, CreateMode, perms};

use super::world::World;
use super::*;
use crate::engine::decide::request::{Origin, Work};
use crate::engine::session::SessionId;
use crate::ensemble::words::{Forwarded, PeerWord};

/// Writes that number what they make, with reads and syncs between them.
fn requests() -> Vec<Request<'static>> {
    let numbered = Request::Create(CreateRequest {
        path: "/s-".into(),
        data: None,
        acl: Some(vec![Acl::anyone(perms::ALL)]),
        flags: CreateMode::PersistentSequential.flags(),
    });
    let get = Request::GetData(WatchRequest { path: "/x".into(), watch: false });
    let sync = Request::Sync(SyncRequest { path: None });
    vec![get.clone(), numbered.clone(), get.clone(), sync, numbered.clone(), numbered, get]
}

/// Whenever it does so while they are under way: each is answered once and in its order, at the
/// same connection.
#[test]
fn a_leader_that_hands_over_loses_no_request_of_its_followers() {
    let mut met = 0;
    for (seed, steps) in (0..8).flat_map(|seed| (0..60).map(move |steps| (seed, steps))) {
        let mut world = World::settled_by(seed, Flaw::None, 3);
        let leader = world.leader();
        let others = [(leader + 1) % 3, (leader + 2) % 3];
        let acknowledged = world.outcome.acknowledged;
        for at in others {
            requests().into_iter().for_each(|request| world.ask_for(at, request));
        }
        (0..steps).for_each(|_| world.step().expect("holds"));
        let next = world.servers[others[0]].id;
        let hand_over = |member: &mut Member<post::Post>| {
            member.consensus_mut().hand_over(next);
            Ok(())
        };
        met += u64::from(others.iter().all(|at| world.waiting(*at) > 0));
        world.with(leader, hand_over).expect("holds");
        for _ in 0..4 {
            others.iter().for_each(|at| world.set_data(*at, 10));
            world.pass(5);
        }
        world.pass(1000);
        assert_eq!(world.leader(), others[0], "seed {seed}, after {steps} steps");
        assert_eq!(others.map(|at| world.waiting(at)), [0, 0], "seed {seed}, after {steps} steps");
        assert_eq!(world.outcome.closed, 0, "seed {seed}, after {steps} steps");
        assert_eq!(
            world.outcome.acknowledged,
            acknowledged + 2 * (3 + 4),
            "seed {seed}, after {steps} steps"
        );
    }
    assert!(met > 8 * 25, "{met}");
}

/// A leader gives back what it was not asked: nobody is left waiting for an answer that never
/// comes.
#[test]
fn requests_that_do_not_come_back_as_they_were_asked_end_their_connections() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let (at, from) = ((leader + 1) % 3, world.servers[leader].id);
    world.stall(leader, 500);
    world.stall((leader + 2) % 3, 500);
    requests().into_iter().for_each(|request| world.ask_for(at, request));
    world.pass(100);
    assert_ne!(world.waiting(at), 0);
    let (_, connection) = world.clients[at].connection.expect("a connection");
    let origin = Origin {
        connection,
        session: SessionId(1),
        xid: 77,
        identities: Arc::default(),
        received: Monotonic(0),
    };
    let other = Forwarded { origin, work: Work::Request(Request::CloseSession), len: 0 };
    let stream = world.member(at).requests.following.as_ref().expect("follows").stream();
    let now = world.servers[at].clock.read(world.timeline.now());
    let ended = PeerWord::Ended { stream, returned: vec![other] };
    world.with(at, |member| member.hear(from, ended, now)).expect("holds");
    assert_eq!((world.waiting(at), world.outcome.closed), (0, 1));
}
