//! Snapshots taken among requests that change what they show, and starts from them.

use std::collections::BTreeMap;

use jute::protocol::SetAclRequest;
use tokio::sync::oneshot::{self, error::TryRecvError};

use super::*;
use crate::engine::NodeId;
use crate::engine::database::Database;
use crate::ensemble::snapshots::snapshot_of;
use crate::storage::{Disk as _, StorageError, load_snapshot, purge, with_another_digest};

/// Data, ACL and both versions of each znode.
type Shown = BTreeMap<String, (Vec<u8>, Vec<Acl<'static>>, i32, i32)>;

fn shown(database: &Database) -> Shown {
    let tree = database.tree();
    let mut shown = Shown::new();
    tree.for_each_below(NodeId::ROOT, |id, _| {
        let acl = tree.acls().list(tree.acl(id)).map_or_else(Vec::new, |list| list.to_vec());
        let (data, stat) = (tree.data(id).unwrap_or_default().to_vec(), tree.stat(id));
        shown.insert(tree.path(id), (data, acl, stat.version, stat.aversion));
    });
    shown
}

fn now_shown(world: &World) -> Shown {
    shown(&world.standalone.replica().shared())
}

/// What the snapshot of a zxid shows, without the log after it.
fn snapshot_shown(disk: &SimDisk, zxid: Zxid) -> Shown {
    let path = format!("/data/version-2/snapshot.{:x}", zxid.0);
    let mut rebuild = Rebuild::new(3, Rules::default());
    load_snapshot(disk, path.as_ref(), zxid.0, &mut rebuild).expect("it is whole");
    shown(&rebuild.finish())
}

/// A snapshot on its way, a slice of the walk at a time.
struct Taking {
    snapshots: Snapshots,
    zxid: Zxid,
}

impl Taking {
    fn begin(world: &mut World) -> Self {
        let replica = Arc::clone(world.standalone.replica());
        let directory = Arc::clone(&world.directory);
        let mut snapshots = Snapshots::new(directory, Compression::None, 1, None, 1);
        snapshots.begin(&replica, world.standalone.log(), world.now.monotonic);
        assert!(snapshots.is_writing());
        Self { snapshots, zxid: replica.applied() }
    }

    fn advance(&mut self, world: &World) -> bool {
        self.snapshots.advance(world.standalone.replica(), world.now.monotonic)
    }

    fn end(mut self, world: &World) -> Zxid {
        while self.snapshots.is_writing() {
            if !self.advance(world) {
                std::thread::yield_now();
            }
        }
        self.zxid
    }
}

fn restart(world: World, seed: u64) -> World {
    restart_with(world, seed, Rules::default())
}

fn restart_with(world: World, seed: u64, rules: Rules) -> World {
    let disk = world.disk.clone();
    drop(world);
    disk.crash(&mut Dice(seed));
    World::start_with(disk, rules)
}

fn path(number: usize) -> String {
    format!("/{number:04}")
}

fn creation(number: usize, data: Vec<u8>) -> MultiOp<'static> {
    MultiOp::Create(CreateRequest {
        path: path(number).into(),
        data: Some(data.into()),
        acl: Some(vec![Acl::anyone(perms::ALL)]),
        flags: CreateMode::Persistent.flags(),
    })
}

/// A directory with a session and so many znodes.
fn with_znodes(count: usize, len: usize) -> World {
    let mut world = World::with_two();
    for first in (0..count).step_by(100) {
        let some = first..count.min(first + 100);
        let parts = some.map(|number| creation(number, vec![7; len])).collect();
        assert!(world.group(&[], vec![by(1, Request::Multi(parts))])[0].ends_with("done"));
    }
    world
}

/// ZOOKEEPER-3127: a snapshot showed a part of a multi, and a start from it never the rest.
#[test]
fn a_snapshot_during_a_multi_shows_all_of_it_or_nothing() {
    const PARTS: usize = 1000;
    let remove = |number| MultiOp::Delete(DeleteRequest { path: path(number).into(), version: -1 });
    let change = |number| {
        let (path, data) = (path(number).into(), Some(b"changed"[..].into()));
        MultiOp::SetData(SetDataRequest { path, data, version: -1 })
    };
    // The new ones first: some take the numbers that were given back before, some come after all
    // others.
    let created = (0..400).map(|number| creation(2 * PARTS + number, vec![1]));
    let parts: Vec<MultiOp<'static>> =
        created.chain((0..300).map(change)).chain((200..500).map(remove)).collect();
    assert_eq!(parts.len(), PARTS);
    // Slices of the walk before the multi: from none to all of them.
    for slices in 0..6 {
        let mut world = with_znodes(PARTS + 200, 1);
        world.group(&[], vec![by(1, Request::Multi((PARTS..PARTS + 200).map(remove).collect()))]);
        let before = now_shown(&world);
        let mut taking = Taking::begin(&mut world);
        for _ in 0..slices {
            taking.advance(&world);
        }
        world.group(&[], vec![by(1, Request::Multi(parts.clone()))]);
        let zxid = taking.end(&world);
        let after = now_shown(&world);
        assert_ne!(before, after);
        assert_eq!(snapshot_shown(&world.disk, zxid), before, "behind {slices} slices");
        let zxid = Taking::begin(&mut world).end(&world);
        assert_eq!(snapshot_shown(&world.disk, zxid), after, "behind {slices} slices");
        assert_eq!(now_shown(&restart(world, slices)), after);
    }
}

/// An ACL that no other znode has, and that lets anyone set another one.
fn own_acl(number: usize) -> Vec<Acl<'static>> {
    let id = format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
    vec![
        Acl::anyone(perms::ADMIN),
        Acl { perms: perms::ALL, scheme: Some("ip".into()), id: Some(id.into()) },
    ]
}

fn set_acl(znode: usize, number: usize) -> (u64, Option<i64>, Work) {
    let (path, acl) = (path(znode).into(), Some(own_acl(number)));
    by(1, Request::SetAcl(SetAclRequest { path, acl, version: -1 }))
}

/// ZOOKEEPER-3306, ZOOKEEPER-4689, ZOOKEEPER-4846: after a start from a snapshot that was taken
/// while ACLs came and went, znodes named ACLs that were not there, or those of others.
#[test]
fn every_znode_has_its_acl_behind_a_snapshot_in_a_storm_of_new_ones() {
    const ZNODES: usize = 700;
    let mut world = with_znodes(ZNODES, 1);
    let mut dice = Dice(1);
    let mut number = 0;
    // Table slots that are given back by one storm are used by the next.
    for round in 0..4 {
        let before = now_shown(&world);
        let mut taking = Taking::begin(&mut world);
        for _ in 0..40 {
            let storm = (0..30).map(|_| {
                number += 1;
                set_acl(dice.below(ZNODES as u64) as usize, number)
            });
            let seen = world.group(&[], storm.collect());
            assert!(seen[..30].iter().all(|line| line.contains(": version")), "{seen:?}");
            if dice.coin() {
                taking.advance(&world);
            }
        }
        let zxid = taking.end(&world);
        assert_eq!(snapshot_shown(&world.disk, zxid), before, "round {round}");
        let after = now_shown(&world);
        world = restart(world, round);
        assert_eq!(now_shown(&world), after, "round {round}");
        let again = (1, Some(0), Work::Attach { timeout_ms: TIMEOUT_MS });
        assert_eq!(world.group(&[], vec![again]), ["1 has 0", "flush"]);
    }
    // As many lists as are in use, and those of the server itself.
    let distinct: std::collections::BTreeSet<String> =
        now_shown(&world).values().map(|(_, acl, ..)| format!("{acl:?}")).collect();
    let lists = world.standalone.replica().shared().tree().acls().iter().count();
    assert!(lists <= distinct.len() + 1, "{lists} lists for {} in use", distinct.len());
}

/// ZOOKEEPER-3531, ZOOKEEPER-4858, ZOOKEEPER-4872: while a snapshot was written, new ACLs or the
/// log waited for its disk, and an operator's snapshot held more than its zxid. Here its disk
/// stands still.
#[test]
fn a_snapshot_whose_disk_hangs_keeps_nobody_waiting() {
    const ZNODES: usize = 2500;
    // More than may wait for the disk.
    let mut world = with_znodes(ZNODES, 4_000);
    let before = now_shown(&world);
    let disk = world.disk.clone();
    disk.hang(Some("tmp.snapshot"));
    let mut taking = Taking::begin(&mut world);
    for turn in 0..300 {
        let asked =
            vec![set_acl(turn % ZNODES, turn), by(2, create("/new", CreateMode::Ephemeral))];
        let seen = world.group(&[], [asked, vec![by(2, delete("/new"))]].concat());
        assert_eq!(seen.len(), 4, "{seen:?}");
        taking.advance(&world);
    }
    assert!(taking.snapshots.is_writing());
    disk.hang(None);
    let zxid = taking.end(&world);
    assert_eq!(snapshot_shown(&disk, zxid), before);
    let after = now_shown(&world);
    assert_eq!(now_shown(&restart(world, 1)), after);
}

/// What changed while the disk did nothing waited in memory, however much it was.
#[test]
fn a_snapshot_whose_disk_is_too_slow_is_given_up_and_begun_again_after_a_pause() {
    const LEN: usize = 1 << 20;
    const PAUSE_MS: u64 = 10_000;
    // More than may wait for the disk stands before what changes.
    const FIRST: usize = 5000;
    let mut world = with_znodes(FIRST, 4_000);
    for number in FIRST..FIRST + 80 {
        let large = Request::Multi(vec![creation(number, vec![7; LEN])]);
        assert!(world.group(&[], vec![by(1, large)])[0].ends_with("done"));
    }
    let disk = world.disk.clone();
    disk.hang(Some("tmp.snapshot"));
    let mut taking = Taking::begin(&mut world);
    let (asker, mut answer) = oneshot::channel();
    taking.snapshots.ask(asker);
    while taking.advance(&world) {}
    for number in FIRST..FIRST + 80 {
        assert!(taking.snapshots.is_writing());
        let data = Some(b"changed"[..].into());
        let set = SetDataRequest { path: path(number).into(), data, version: -1 };
        let seen = world.group(&[], vec![by(1, Request::SetData(set))]);
        assert!(seen[0].contains(": version"), "{seen:?}");
    }
    taking.advance(&world);
    let (snapshots, began) = (&mut taking.snapshots, world.now.monotonic);
    assert!(!snapshots.is_writing(), "it was given up");
    assert_eq!([snapshots.take_failed(), snapshots.take_failed()], [1, 0]);
    assert!(!world.standalone.replica().shared().tree().is_walking(), "nothing waits");
    // Its writer still hangs: there is one at a time, also for who asks.
    let later = began.plus(PAUSE_MS);
    assert!(!snapshots.is_due(later) && !snapshots.is_asked_for());
    disk.hang(None);
    while !snapshots.is_due(later) {
        std::thread::yield_now();
    }
    assert!(snapshots.is_asked_for());
    assert!(!snapshots.is_due(began.plus(PAUSE_MS - 1)), "not at once");
    let name = format!("snapshot.{:x}", taking.zxid.0);
    let names = crate::storage::Disk::list(&disk, "/data/version-2".as_ref()).expect("the files");
    assert!(!names.contains(&name), "there is half a snapshot");
    let replica = Arc::clone(world.standalone.replica());
    taking.snapshots.begin(&replica, world.standalone.log(), later);
    taking.end(&world);
    let zxid = answer.try_recv().expect("the one that was asked for");
    assert_eq!(snapshot_shown(&disk, zxid), now_shown(&world));
}

#[test]
fn who_asks_gets_a_snapshot_that_began_behind_the_question() {
    let mut world = with_znodes(50, 100);
    let mut taking = Taking::begin(&mut world);
    let (asker, mut answer) = oneshot::channel();
    taking.snapshots.ask(asker);
    assert!(!taking.snapshots.is_asked_for(), "one at a time");
    world.group(&[], vec![by(1, set("/0000", "changed"))]);
    let early = taking.zxid;
    while taking.snapshots.is_writing() {
        taking.advance(&world);
        assert!(answer.try_recv().is_err(), "that one was on its way");
    }
    assert!(taking.snapshots.is_asked_for());
    let replica = Arc::clone(world.standalone.replica());
    taking.snapshots.begin(&replica, world.standalone.log(), world.now.monotonic);
    assert!(!taking.snapshots.is_asked_for(), "it is on its way");
    taking.end(&world);
    let zxid = answer.try_recv().expect("an answer");
    assert!(zxid > early);
    assert_eq!(snapshot_shown(&world.disk, zxid), now_shown(&world));
}

#[test]
fn who_asks_hears_of_a_snapshot_that_is_given_up() {
    let mut world = with_znodes(50, 100);
    let mut taking = Taking::begin(&mut world);
    let (asker, mut answer) = oneshot::channel();
    taking.snapshots.ask(asker);
    while taking.snapshots.is_writing() {
        taking.advance(&world);
    }
    let replica = Arc::clone(world.standalone.replica());
    taking.snapshots.begin(&replica, world.standalone.log(), world.now.monotonic);
    assert_eq!(answer.try_recv(), Err(TryRecvError::Empty));
    taking.snapshots.abandon();
    assert_eq!(answer.try_recv(), Err(TryRecvError::Closed));
}

/// A digest that is not that of the znodes makes a snapshot that no start takes.
#[test]
fn a_snapshot_of_a_tree_whose_digest_has_drifted_is_not_kept_and_takes_nothing_s_place() {
    let mut world = with_znodes(1000, 5);
    let whole = Taking::begin(&mut world).end(&world);
    assert!(
        world.group(&[], vec![by(1, Request::Multi(vec![creation(1000, vec![])]))])[0]
            .ends_with("done")
    );
    world.standalone.replica().exclusive().database().drift();
    let names = |world: &World| world.disk.list("/data/version-2".as_ref()).expect("lists");
    let before = names(&world);
    for _ in 0..2 {
        let mut taking = Taking::begin(&mut world);
        let (asker, mut asked) = oneshot::channel();
        taking.snapshots.ask(asker);
        while taking.snapshots.is_writing() {
            if !taking.advance(&world) {
                std::thread::yield_now();
            }
        }
        assert_eq!(taking.snapshots.take_done(), None);
        assert_eq!(taking.snapshots.take_failed(), 1);
        let drift = taking.snapshots.take_drift().expect("is told");
        assert_eq!((drift.zxid, drift.sum), (taking.zxid, Some(drift.kept - 1)));
        let (now, is_for_another) = (world.now.monotonic, Snapshots::may_begin_for_another);
        assert!(!is_for_another(&taking.snapshots, now));
        assert_eq!(names(&world), before);
        purge(&world.directory, 1).expect("purges");
        assert!(asked.try_recv().is_err());
    }
    // The same for one that is to take the place of another state.
    {
        let mut hold = world.standalone.replica().exclusive();
        let error = snapshot_of(&world.directory, hold.database(), 1, Compression::None);
        assert!(matches!(error, Err(StorageError::Drifted { .. })), "{error:?}");
    }
    assert_eq!(snapshot_shown(&world.disk, whole).len(), 1003);
    let shown = now_shown(&world);
    let mut world = restart(world, 1);
    assert_eq!(now_shown(&world), shown);
    let zxid = Taking::begin(&mut world).end(&world);
    assert_eq!(snapshot_shown(&world.disk, zxid), shown);
}

#[test]
fn a_purge_does_not_count_a_snapshot_that_the_start_passed_over() {
    let mut world = with_znodes(100, 5);
    Taking::begin(&mut world).end(&world);
    for number in 100..103 {
        world.group(&[], vec![by(1, Request::Multi(vec![creation(number, vec![])]))]);
        let zxid = Taking::begin(&mut world).end(&world);
        let path = format!("/data/version-2/snapshot.{:x}", zxid.0);
        let bytes = with_another_digest(world.disk.content(path.as_ref()));
        let file = world.disk.open_for_write(path.as_ref()).expect("opens");
        file.write_all_at(&bytes, 0).expect("writes");
        file.sync_all().expect("syncs");
    }
    let shown = now_shown(&world);
    for seed in 0..3 {
        world = restart(world, seed);
        assert_eq!(now_shown(&world), shown);
        purge(&world.directory, 1).expect("purges");
    }
    // One that is good makes all of them go.
    let zxid = Taking::begin(&mut world).end(&world);
    purge(&world.directory, 1).expect("purges");
    assert_eq!(snapshot_shown(&world.disk, zxid), shown);
    assert_eq!(now_shown(&restart(world, 4)), shown);
}

/// `digest.enabled` changed at any start, with a snapshot in between, with one that does not end,
/// or with none.
#[test]
fn digests_may_be_switched_on_and_off_at_each_start() {
    const LIVES: u32 = 3;
    for order in 0..6_u32.pow(LIVES) {
        let mut world = World::with_two();
        let (mut rest, mut number) = (order, 0);
        for life in 0..=LIVES {
            let (digest, snapshot) = (rest % 2 == 0, rest / 2 % 3);
            rest /= 6;
            let shown = now_shown(&world);
            let rules = Rules { digest, ..Rules::default() };
            world = restart_with(world, u64::from(order), rules);
            let case = format!("order {order}, life {life}");
            assert_eq!(now_shown(&world), shown, "{case}");
            let sum = world.standalone.replica().shared().tree().compute_digest();
            assert_eq!(world.digest(), digest.then_some(sum), "{case}");
            purge(&world.directory, 1).expect("purges");
            let open = (1, None, Work::Open { timeout_ms: TIMEOUT_MS });
            let session = world.group(&[], vec![open]);
            let session = session[0].rsplit(' ').next().and_then(|number| number.parse().ok());
            for _ in 0..2 {
                let multi = Request::Multi(vec![creation(number, vec![1; number])]);
                let seen = world.group(&[], vec![(1, session, Work::Request(multi))]);
                assert!(seen[0].ends_with("done"), "{case}: {seen:?}");
                number += 1;
            }
            match snapshot {
                0 => {}
                1 => {
                    let zxid = Taking::begin(&mut world).end(&world);
                    assert_eq!(snapshot_shown(&world.disk, zxid), now_shown(&world), "{case}");
                }
                _ => {
                    let mut taking = Taking::begin(&mut world);
                    taking.advance(&world);
                    // Its writer removes nothing any more, and is not there at the next start.
                    world.disk.fail_after(0, Fault::PowerLoss);
                    taking.snapshots.abandon();
                    while !taking.snapshots.may_begin() {
                        std::thread::yield_now();
                    }
                }
            }
            assert_eq!(world.standalone.replica().shared().mismatches(), 0, "{case}");
        }
    }
}
