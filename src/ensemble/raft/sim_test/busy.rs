//! What a leader decides in one turn of its thread: not all that waits.

use jute::protocol::{CreateRequest, Request};
use jute::{Acl, perms};

use super::world::World;
use super::*;

const LEN: usize = 10_000;
const REQUESTS: usize = 40;

/// A znode that is there already.
fn refused() -> Request<'static> {
    Request::Create(CreateRequest {
        path: "/x".into(),
        data: Some(vec![0; LEN].into()),
        acl: Some(vec![Acl::anyone(perms::ALL)]),
        flags: 0,
    })
}

/// Requests that log nothing are no less work: whoever asks for many keeps the leader from nothing
/// else, and each is answered in its order, whichever member was asked.
#[test]
fn requests_that_are_refused_take_several_turns() {
    for asks_leader in [true, false] {
        let mut world = World::settled(Flaw::None);
        let leader = world.leader();
        let at = if asks_leader { leader } else { (leader + 1) % 3 };
        world.servers[leader].member.as_mut().expect("is up").requests.turn_bytes = 4 * LEN;
        let acknowledged = world.outcome.acknowledged;
        let (_, connection) = world.clients[at].connection.expect("a connection");
        world.ask(at, at, connection, (0..REQUESTS).map(|_| refused()).collect());
        world.set_data(at, 10);
        let (mut held, mut turns) = (0, 0);
        // The last of them changes something.
        while world.outcome.acknowledged == acknowledged {
            world.step().expect("holds");
            assert_eq!(world.outcome.closed, 0);
            let now = world.member(leader).requests().held();
            assert!(now + 4 >= held, "{held} requests were held, and {now} behind one turn");
            turns += usize::from(now < held);
            held = now;
        }
        assert!(turns + 1 >= REQUESTS / 4, "{turns}");
        assert_eq!((world.waiting(at), world.leader()), (0, leader));
    }
}
