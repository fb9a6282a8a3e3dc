//! A leader whose memory has changed decides from what is not so. What it decided is final, and
//! ends nobody: all go on with the same trees, and the leader gets the right one.

use jute::protocol::{CreateRequest, DeleteRequest, Request};
use jute::{Acl, CreateMode, perms};

use super::world::World;
use super::*;
use crate::engine::Owner;
use crate::engine::tree::{Creation, Tree};
use crate::engine::zxid::Zxid;

fn create(path: &'static str) -> Request<'static> {
    let acl = Some(vec![Acl::anyone(perms::ALL)]);
    let flags = CreateMode::Persistent.flags();
    Request::Create(CreateRequest { path: path.into(), data: None, acl, flags })
}

fn delete(path: &'static str) -> Request<'static> {
    Request::Delete(DeleteRequest { path: path.into(), version: -1 })
}

fn set_data(path: &'static str) -> Request<'static> {
    let data = Some(vec![1; 10].into());
    Request::SetData(jute::protocol::SetDataRequest { path: path.into(), data, version: -1 })
}

fn lose(tree: &mut Tree, path: &str) {
    let node = tree.find(path).expect("is there");
    tree.delete(node, path).expect("has no children");
}

fn add(tree: &mut Tree, path: &str) {
    let (data, acl, owner) = (None, [], Owner::None);
    let made = Creation { path, data, acl: &acl, owner, zxid: Zxid(1), time: 1 };
    let parent = tree.parent_of(path).expect("is there");
    tree.create(parent, &made).expect("is new");
}

/// What has changed in the leader's memory, what a client asks for then, and whether the leader's
/// tree is another one after that.
type Case = (&'static str, fn(&mut Tree), Request<'static>, bool);

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    vec![
        ("version too high",
            |tree| tree.corrupt("/x", |stat| stat.version += 0x100), set_data("/x"), true),
        ("version too low",
            |tree| tree.corrupt("/x", |stat| stat.version -= 7), set_data("/x"), true),
        ("cversion too high",
            |tree| tree.corrupt("/", |stat| stat.cversion += 0x40), create("/y"), true),
        ("cversion too low",
            |tree| tree.corrupt("/", |stat| stat.cversion -= 1), create("/y"), true),
        ("a znode lost", |tree| lose(tree, "/x"), create("/x"), true),
        ("a znode too many", |tree| add(tree, "/z"), set_data("/z"), true),
        // What was wrong is deleted.
        ("a znode too many, to delete", |tree| add(tree, "/z"), delete("/z"), false),
        ("a parent too many", |tree| add(tree, "/z"), create("/z/a"), true),
    ]
}

impl World {
    /// The leader's tree is changed, and a client of another member asks.
    fn mislead(&mut self, (_, change, request, _): &Case) -> usize {
        let leader = self.leader();
        (self.is_tainted, self.is_leader_wrong) = (true, true);
        change(self.member(leader).applier.replica.exclusive().database().tree_mut());
        self.ask_for((leader + 1) % 3, request.clone());
        self.try_pass(300).expect("nobody ends");
        leader
    }

    /// All trees are the same, and what the transactions made of them.
    fn assert_agreed(&self, case: &str) {
        for at in 0..3 {
            let member = self.member(at);
            assert!(!member.has_wrong_tree() && !member.has_doubtful_tree(), "{case}: {at}");
            let database = member.replica().shared();
            self.history.equals(&database).unwrap_or_else(|error| panic!("{case}: {at}: {error}"));
            let sum = database.tree().compute_digest();
            assert_eq!(database.tree().digest(), Some(sum), "{case}: {at}");
        }
    }
}

#[test]
fn what_a_wrong_leader_decided_ends_nobody() {
    for case in cases() {
        let mut world = World::settled(Flaw::None);
        let wrong = world.mislead(&case);
        assert_eq!(world.waiting((wrong + 1) % 3), 0, "{}", case.0);
        world.pass(6000);
        let found = (world.outcome.installed, world.leader() == wrong);
        assert_eq!(found, (u64::from(case.3), !case.3), "{}", case.0);
        world.assert_agreed(case.0);
        // Clients are served everywhere, and what they write is the same everywhere.
        for at in 0..3 {
            // Its session may be over by now.
            for _ in 0..2 {
                if world.clients[at].connection.is_none() {
                    world.connect(at, at);
                    world.pass(500);
                }
            }
            world.ask_for(at, set_data("/x"));
            world.pass(300);
            assert_eq!(world.waiting(at), 0, "{}", case.0);
        }
        world.pass(2000);
        world.assert_agreed(case.0);
    }
}

/// A start makes of the log what was made of it before.
#[test]
fn what_a_wrong_leader_decided_is_no_reason_not_to_start() {
    for case in cases() {
        let mut world = World::settled(Flaw::None);
        let wrong = world.mislead(&case);
        (0..3).filter(|at| *at != wrong).for_each(|at| world.crash(at, true));
        world.pass(10_000);
        world.assert_agreed(case.0);
        (0..3).for_each(|at| world.crash(at, true));
        world.pass(10_000);
        world.assert_agreed(case.0);
    }
}
