//! Members whose trees are not what the log makes: they are found, serve nobody from then on, and
//! get the right one.

use jute::protocol::{Request, WatchRequest};

use super::timeline::MS;
use super::world::{Event, World};
use super::*;
use crate::ensemble::words::{TreeDigest, TreeVersion};

/// It has a digest, and no client looks at it.
const UNSEEN: &str = "/zookeeper";
/// About how long it is from one spoilt tree to the next.
const EVERY: u64 = 1000 * MS;

impl World {
    /// A run in which trees go wrong, beside all else. Nobody could tell which is right if more
    /// than one did at once.
    pub(super) fn run_spoilt(seed: u64) -> Result<Outcome, String> {
        let mut world = Self::new(seed, Flaw::None);
        (world.is_tainted, world.spoils) = (true, Some(0));
        // Of four voters two may come to have a wrong tree: who comes back empty loads that of a
        // leader of which nobody knows it yet. Then nobody can tell.
        world.observer.take_if(|observer| *observer == 4);
        world.timeline.at(2000 * MS, Event::Spoil);
        world.play()?;
        world.outcome.seconds = world.timeline.now() / MS / 1000;
        Ok(world.outcome)
    }

    /// Spoils a tree, if all are the same.
    pub(super) fn spoil_one(&mut self) {
        if self.calm {
            return;
        }
        let pause = self.dice.below(2 * EVERY);
        self.timeline.after(pause, Event::Spoil);
        let at = self.dice.below(self.servers.len() as u64) as usize;
        let Some(spoils) = self.spoils else { return };
        let is_there = self.servers.iter().all(|server| server.member.is_some());
        if is_there && self.is_whole() && self.have_same_trees() {
            self.spoils = Some(spoils + 1);
            self.outcome.spoilt += 1;
            self.spoil(at, UNSEEN, -1 - spoils);
        }
    }

    fn spoil(&mut self, at: usize, path: &str, pzxid: i64) {
        self.is_tainted = true;
        self.member(at).applier.replica.exclusive().database().spoil(path, pzxid);
    }

    /// Whether no member is known to have a wrong tree, and none that runs has another than the
    /// rest, where nobody looks.
    pub(super) fn have_same_trees(&self) -> bool {
        let members = self.servers.iter().filter_map(|server| server.member.as_ref());
        let unseen = |member: &Member<post::Post>| {
            let database = member.replica().shared();
            let node = database.tree().find(UNSEEN).expect("is always there");
            (!member.has_wrong_tree()).then(|| database.tree().stat(node).pzxid)
        };
        let all: Vec<Option<i64>> = members.map(unseen).collect();
        all.iter().all(|its| its.is_some() && *its == all[0])
    }

    /// What a member keeps of its tree is not what the tree is.
    fn drift(&mut self, at: usize) {
        self.is_tainted = true;
        self.member(at).applier.replica.exclusive().database().drift();
    }

    /// Runs until the wrong tree of a member is found. What is asked of it from then on gets no
    /// answer.
    fn until_found(&mut self, at: usize) {
        let latest = self.timeline.now() + 10_000 * MS;
        while !self.member(at).has_wrong_tree() {
            self.step().expect("holds");
            assert!(self.timeline.now() < latest, "it is not found");
        }
        assert!(self.servers[at].connections.is_empty());
        self.connect(at, at);
        self.pass(3);
        assert!(self.member(at).has_wrong_tree());
        assert!(self.servers[at].connections.is_empty(), "nobody is served");
    }

    /// The leader hands over to this member.
    fn hand_over(&mut self, at: usize) {
        let to = self.servers[at].id;
        let leads = |member: &mut Member<post::Post>| {
            member.consensus_mut().hand_over(to);
            Ok(())
        };
        self.with(self.leader(), leads).expect("hands over");
    }

    /// All trees are the same, and what the clients' requests made of them.
    fn assert_right(&mut self) {
        let now: Vec<_> = (0..self.servers.len())
            .map(|at| {
                let member = self.member(at);
                assert!(!member.has_wrong_tree() && !member.has_doubtful_tree(), "{at}");
                let database = member.replica().shared();
                self.history.equals(&database).expect("the right tree");
                assert_eq!(database.tree().digest(), Some(database.tree().compute_digest()));
                (database.last_zxid(), database.tree().digest())
            })
            .collect();
        assert!(now.iter().all(|one| *one == now[0]), "{now:?}");
    }

    /// A client of this member reads what was spoilt, and writes it.
    fn assert_serves(&mut self, at: usize) {
        let mut attempts = 0;
        while self.clients[at].connection.is_none() {
            assert!(attempts < 2, "member {at} takes nobody");
            attempts += 1;
            // Its session may be over by now.
            self.connect(at, at);
            self.pass(300);
        }
        let read = WatchRequest { path: "/x".into(), watch: false };
        self.ask_for(at, Request::Exists(read));
        self.set_data(at, 9);
        self.pass(300);
        assert_eq!(self.waiting(at), 0);
    }
}

#[test]
fn a_follower_with_a_wrong_tree_loads_the_leaders_and_serves_nobody_before() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let at = (leader + 1) % 3;
    world.spoil(at, "/x", -1);
    world.until_found(at);
    world.pass(1500);
    assert_eq!((world.outcome.installed, world.leader()), (1, leader));
    world.assert_right();
    world.assert_serves(at);
    world.pass(3000);
    assert_eq!(world.outcome.installed, 1, "once");
}

/// Its own snapshot shows the wrong tree, too, and has the name of the one that it is sent.
#[test]
fn the_leaders_snapshot_takes_the_place_of_the_wrong_one() {
    let mut world = World::settled(Flaw::None);
    let at = (world.leader() + 1) % 3;
    world.spoil(at, "/x", -1);
    world.snapshot(at).expect("holds");
    world.pass(1500);
    assert_eq!(world.outcome.installed, 1);
    world.crash(at, true);
    world.pass(6000);
    world.assert_right();
    assert_eq!(world.outcome.installed, 1, "it started with the right one");
}

#[test]
fn a_tree_that_goes_wrong_twice_ends_the_process() {
    let mut world = World::settled(Flaw::None);
    let at = (world.leader() + 1) % 3;
    world.spoil(at, "/x", -1);
    world.pass(1500);
    world.assert_right();
    world.spoil(at, "/x", -2);
    let violation = world.try_pass(3000).expect_err("it ends");
    assert!(violation.contains("cannot be trusted"), "{violation}");
}

#[test]
fn a_leader_with_a_wrong_tree_hands_over_and_loads_the_next_ones() {
    let mut world = World::settled(Flaw::None);
    let at = world.leader();
    world.spoil(at, "/x", -1);
    world.until_found(at);
    world.pass(3000);
    assert_ne!(world.leader(), at);
    assert_eq!(world.outcome.installed, 1);
    world.assert_right();
    for at in 0..3 {
        world.assert_serves(at);
    }
}

/// The two of five to which anyone would hand over first, while no tree can be had.
#[test]
fn two_wrong_trees_do_not_hand_over_to_each_other_again_and_again() {
    let mut world = World::settled_with(Flaw::None, 5);
    world.servers.iter_mut().for_each(|server| server.gives_none = true);
    for at in [3, 4] {
        world.spoil(at, "/x", -1);
    }
    world.set_data(0, 10);
    // They hold their logs no more.
    world.pass(30_000);
    assert!([3, 4].iter().all(|at| world.member(*at).has_wrong_tree()));
    let before = world.member(0).consensus.node.raft.term;
    world.hand_over(4);
    world.pass(10_000);
    assert!(world.leader() < 3, "{}", world.leader());
    // To each of the two, and on to a third.
    assert!(world.member(0).consensus.node.raft.term <= before + 4);
    world.servers.iter_mut().for_each(|server| server.gives_none = false);
    world.pass(120_000);
    assert_eq!(world.outcome.installed, 2);
    world.assert_right();
}

/// It answers for a transaction when the other has answered for later ones.
#[test]
fn a_leader_with_a_wrong_tree_is_found_where_a_member_always_lags() {
    let mut world = World::settled(Flaw::None);
    let wrong = world.leader();
    let (prompt, late) = ((wrong + 1) % 3, (wrong + 2) % 3);
    world.spoil(wrong, "/x", -1);
    for _ in 0..8 {
        world.stall(late, 2500);
        for _ in 0..25 {
            if world.clients[prompt].connection.is_some() {
                world.set_data(prompt, 10);
            }
            world.pass(100);
        }
    }
    assert_ne!(world.leader(), wrong);
    world.pass(6000);
    assert_eq!(world.outcome.installed, 1);
    world.assert_right();
    (0..3).for_each(|at| world.assert_serves(at));
}

/// As one of a release says it that makes something else of the same transactions.
#[test]
fn trees_that_come_about_in_another_way_are_not_compared() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let (at, from) = ((leader + 1) % 3, world.servers[leader].id);
    let zxid = world.member(at).replica().shared().last_zxid();
    for (version, differs) in [(TreeVersion(2), false), (TreeVersion::OWN, true)] {
        let said = TreeDigest { zxid, version, digest: 1 };
        world.with(at, |member| member.heard_tree(from, said)).expect("holds");
        assert_eq!(world.member(at).has_doubtful_tree(), differs);
        world.with(at, |member| member.told_wrong_tree(from, said)).expect("holds");
        assert_eq!(world.member(at).has_wrong_tree(), differs);
    }
}

/// Without a third nobody knows whose tree is right: neither changes, until it is there.
#[test]
fn of_two_trees_that_differ_none_is_loaded_until_a_third_is_there() {
    for is_leader_wrong in [false, true] {
        let mut world = World::settled(Flaw::None);
        let leader = world.leader();
        let (at, third) = ((leader + 1) % 3, (leader + 2) % 3);
        world.crash(third, true);
        world.stay_down(third);
        world.spoil(if is_leader_wrong { leader } else { at }, "/x", -1);
        world.pass(5000);
        assert!(world.member(at).has_doubtful_tree());
        assert_eq!((world.outcome.installed, world.leader()), (0, leader));
        world.start(third).expect("starts");
        world.pass(5000);
        assert_eq!((world.outcome.installed, world.leader() == leader), (1, !is_leader_wrong));
        world.assert_right();
    }
}

/// Who is left alone with such a tree shows it to nobody, whether it led or not, until a third has
/// shown whose is right.
#[test]
fn a_tree_in_doubt_is_not_read_where_its_member_is_alone() {
    for (is_spoilt, is_leader_left) in [(false, false), (false, true), (true, false), (true, true)]
    {
        let mut world = World::settled(Flaw::None);
        let leader = world.leader();
        let (at, third) = ((leader + 1) % 3, (leader + 2) % 3);
        world.crash(third, true);
        world.stay_down(third);
        if is_spoilt {
            world.spoil(at, "/x", -1);
        }
        world.pass(5000);
        assert_eq!(world.member(at).has_doubtful_tree(), is_spoilt);
        let (left, gone) = if is_leader_left { (leader, at) } else { (at, leader) };
        let is_read_alone = |world: &mut World, gone: usize| {
            world.crash(gone, true);
            world.stay_down(gone);
            world.pass(5000);
            world.member(left).may_be_read_only()
        };
        assert_eq!(is_read_alone(&mut world, gone), !is_spoilt, "led {is_leader_left}");
        world.start(third).expect("starts");
        world.pass(5000);
        let is_right = !is_spoilt || is_leader_left;
        assert_eq!(is_read_alone(&mut world, third), is_right, "led {is_leader_left}");
    }
}

/// While it is found, one of the others is lost: the two that are left must come to terms, and so
/// they do while clients write.
#[test]
fn a_wrong_tree_is_healed_where_every_member_counts() {
    for is_leader_lost in [false, true] {
        for busy_ms in [0, 1, 5, 20] {
            let mut world = World::settled(Flaw::None);
            let leader = world.leader();
            let (at, third) = ((leader + 1) % 3, (leader + 2) % 3);
            let (lost, left) = if is_leader_lost { (leader, third) } else { (third, leader) };
            world.spoil(at, "/x", -1);
            let latest = world.timeline.now() + 10_000 * MS;
            let mut steps = 0;
            while !world.member(at).has_wrong_tree() {
                let is_open = world.clients[left].connection.is_some();
                if busy_ms > 0 && steps % 20 == 0 && is_open {
                    world.set_data(left, 10);
                }
                world.step().expect("holds");
                steps += 1;
                assert!(world.timeline.now() < latest, "it is not found");
            }
            world.pass(busy_ms);
            world.crash(lost, true);
            world.stay_down(lost);
            for _ in 0..40 {
                if world.clients[left].connection.is_some() {
                    world.set_data(left, 10);
                }
                world.pass(100);
            }
            assert_eq!(world.outcome.installed, 1, "{is_leader_lost} {busy_ms}");
            let trees = [left, at].map(|at| world.member(at).replica().shared().tree().digest());
            assert_eq!(trees[0], trees[1], "{is_leader_lost} {busy_ms}");
            assert!(world.have_same_trees());
        }
    }
}

/// It is needed for what clients write, and the leader's disk is full.
#[test]
fn writes_go_on_where_the_leader_can_take_no_snapshot_for_a_wrong_tree() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let (at, third) = ((leader + 1) % 3, (leader + 2) % 3);
    world.servers[leader].gives_none = true;
    world.spoil(at, "/x", -1);
    world.until_found(at);
    world.crash(third, true);
    world.stay_down(third);
    let before = world.member(leader).consensus().committed();
    world.set_data(leader, 10);
    world.pass(30_000);
    assert!(world.member(leader).consensus().committed() > before, "the log goes on");
    assert_eq!((world.waiting(leader), world.outcome.installed), (0, 0));
    assert!(world.member(at).has_wrong_tree());
    world.servers[leader].gives_none = false;
    world.pass(120_000);
    assert_eq!(world.outcome.installed, 1);
    assert!(!world.member(at).has_wrong_tree() && world.have_same_trees());
}

/// The znodes changed past what is kept of them: no comparison sees that, but a snapshot does.
#[test]
fn who_finds_its_own_tree_wrong_loads_another() {
    for is_leader_wrong in [false, true] {
        let mut world = World::settled(Flaw::None);
        let leader = world.leader();
        let at = if is_leader_wrong { leader } else { (leader + 1) % 3 };
        world.drift(at);
        world.snapshot(at).expect("goes on");
        assert!(world.member(at).has_wrong_tree());
        world.pass(3000);
        assert_eq!((world.outcome.installed, world.leader() == leader), (1, !is_leader_wrong));
        world.assert_right();
        (0..3).for_each(|at| world.assert_serves(at));
        world.drift(at);
        let violation = world.snapshot(at).expect_err("it ends");
        assert!(violation.contains("cannot be trusted"), "{violation}");
    }
}

/// Of two the leader is believed, but it looks at its own tree first.
#[test]
fn of_two_voters_a_leader_that_is_wrong_gives_way() {
    for is_leader_wrong in [false, true] {
        let mut world = World::settled_with(Flaw::None, 2);
        let leader = world.leader();
        let at = if is_leader_wrong { leader } else { 1 - leader };
        world.drift(at);
        world.pass(20_000);
        assert_eq!((world.outcome.installed, world.leader() == leader), (1, !is_leader_wrong));
        world.assert_right();
        (0..2).for_each(|at| world.assert_serves(at));
    }
}
