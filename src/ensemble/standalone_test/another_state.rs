//! Another state in the place of the one that is served, and what a start makes of the directory
//! then, wherever that was cut short.

use std::collections::BTreeMap;

use super::*;
use crate::engine::NodeId;
use crate::engine::answer::listing::{Listing, Progress};
use crate::engine::database::Database;
use crate::ensemble::snapshots::snapshot_of;
use crate::storage::{StorageError, UploadedSnapshot, examine};

const ASIDE: &str = "replaced";
const SNAPSHOTS: &str = "/data/version-2";

/// Znodes with their data, and the sessions.
type Shown = (BTreeMap<String, Vec<u8>>, Vec<SessionId>);

fn shown(world: &World) -> Shown {
    shown_of(&world.standalone.replica().shared())
}

/// The state that a start would make of what is aside.
fn shown_aside(world: &World) -> Shown {
    let folder = format!("/data/{ASIDE}");
    let disk = Arc::new(world.disk.clone());
    let directory = DataDirectory::look(disk, (&folder).into(), folder.into()).expect("a folder");
    let mut rebuild = Rebuild::new(5, Rules::default());
    examine(&directory, true, i64::MAX, &mut rebuild).expect("it can be read");
    shown_of(&rebuild.finish())
}

fn shown_of(database: &Database) -> Shown {
    let tree = database.tree();
    let mut znodes = BTreeMap::new();
    tree.for_each_below(NodeId::ROOT, |id, _| {
        znodes.insert(tree.path(id), tree.data(id).unwrap_or_default().to_vec());
    });
    let mut sessions: Vec<SessionId> = database.sessions().keys().copied().collect();
    sessions.sort_unstable();
    (znodes, sessions)
}

/// A server that has made so many changes, with a snapshot in the middle of them.
fn with_changes(znode: &'static str, count: usize) -> World {
    let mut world = World::with_two();
    world.group(&[], vec![by(1, create(znode, CreateMode::Persistent))]);
    for change in 0..count {
        if change == count / 2 {
            take_snapshot(&mut world);
        }
        world.group(&[], vec![by(1, set(znode, "changed"))]);
    }
    world
}

/// The bytes of a snapshot of now.
fn take_snapshot(world: &mut World) -> Vec<u8> {
    let index = world.standalone.log().next_index() - 1;
    world.standalone.log().roll();
    let replica = Arc::clone(world.standalone.replica());
    let mut hold = replica.exclusive();
    let database: &mut Database = hold.database();
    let zxid = database.last_zxid();
    snapshot_of(&world.directory, database, index, Compression::None).expect("a snapshot");
    world.disk.content(format!("{SNAPSHOTS}/snapshot.{:x}", zxid.0).as_ref())
}

type Replaced = Result<Result<Zxid, StorageError>, OrderError>;

fn replace(world: &mut World, snapshot: &[u8]) -> Replaced {
    let mut rebuild = Rebuild::new(5, Rules::default());
    let mut load = || {
        let mut uploaded = UploadedSnapshot::create(Arc::clone(&world.directory), 0)?;
        snapshot.chunks(1000).try_for_each(|piece| uploaded.write(piece))?;
        uploaded.load(&mut rebuild)
    };
    if let Err(error) = load() {
        return Ok(Err(error));
    }
    let monotonic = world.now.monotonic;
    world.standalone.replace(
        rebuild.finish(),
        |database| Sequencer::new(database, TICK_MS, FIRST_SESSION + 100, monotonic),
        &world.directory,
        Compression::None,
        ASIDE,
    )
}

fn names(disk: &SimDisk, folder: &str) -> Vec<String> {
    crate::storage::Disk::list(disk, folder.as_ref()).expect("lists")
}

fn crash(world: World, seed: u64) -> SimDisk {
    let disk = world.disk.clone();
    drop(world);
    disk.crash(&mut Dice(seed));
    disk
}

#[test]
fn it_is_served_and_goes_on_behind_all_that_was_seen() {
    let mut source = with_changes("/theirs", 3);
    let snapshot = take_snapshot(&mut source);
    let expected = shown(&source);
    for changes in [0, 1, 20] {
        let mut world = with_changes("/ours", changes);
        let before = shown(&world);
        let (seen, theirs) = (world.standalone.replica().applied(), source.standalone.replica());
        let zxid = replace(&mut world, &snapshot).expect("the disk works").expect("it is whole");
        assert_eq!(zxid, theirs.applied().max(seen.next()), "behind {changes} changes");
        assert_eq!(world.standalone.replica().applied(), zxid);
        assert_eq!(shown(&world), expected);
        // What led to the other state is aside.
        assert_eq!(shown_aside(&world), before);
        let left = names(&world.disk, SNAPSHOTS);
        assert_eq!(left, [format!("snapshot.{:x}", zxid.0)]);

        // Its sessions are there again, and ids of others that were here are not given to new ones.
        let open = Work::Open { timeout_ms: TIMEOUT_MS };
        let (attach, gone) = (Work::Attach { timeout_ms: TIMEOUT_MS }, Some(77));
        let seen = world
            .group(&[], vec![(7, Some(0), attach.clone()), (8, gone, attach), (9, None, open)]);
        assert_eq!(seen, ["7 has 0", "8 no session", "9 has 100", "flush"]);
        let set = Work::Request(set("/theirs", "later"));
        world.group(&[], vec![(7, Some(0), set)]);
        let after = shown(&world);
        let world = World::start(crash(world, 1));
        assert_eq!(shown(&world), after);
        assert_eq!(world.standalone.replica().applied().0, zxid.0 + 2);
    }
}

#[test]
fn a_request_of_before_is_not_done_to_it() {
    let mut world = with_changes("/a", 3);
    let snapshot = take_snapshot(&mut world);
    let large = || {
        let (path, data) = ("/none/x".into(), Some(vec![0; 5 << 20].into()));
        by(1, Request::Create(CreateRequest { path, data, acl: None, flags: 0 }))
    };
    world
        .try_group(&[], vec![large(), by(1, create("/old", CreateMode::Persistent))])
        .expect("goes");
    assert!(world.standalone.has_more());
    world.seen.lines.lock().clear();
    replace(&mut world, &snapshot).expect("goes").expect("is whole");
    assert_eq!(*world.seen.lines.lock(), ["1 closed"]);
    assert!(!world.standalone.has_more());
    assert_eq!(world.room.available_permits(), ROOM, "room was kept");
    world.group(&[], vec![]);
    assert!(!shown(&world).0.contains_key("/old"));
}

/// Numbers of znodes mean something else in the other state, and zxids may: here all of them are
/// the same.
#[test]
fn a_long_listing_of_before_does_not_go_on_in_it() {
    let mut world = with_changes("/ours", 3);
    let snapshot = take_snapshot(&mut world);
    let replica = Arc::clone(world.standalone.replica());
    let begin = || Listing::begin(&replica.shared(), NodeId::ROOT);
    let go_on = |listing: Listing| listing.advance(&replica.shared(), NodeId::ROOT, usize::MAX);
    assert!(matches!(go_on(begin()), Progress::Done(_)));
    let listing = begin();
    replace(&mut world, &snapshot).expect("the disk works").expect("it is whole");
    assert!(matches!(go_on(listing), Progress::Changed));
    assert!(matches!(go_on(begin()), Progress::Done(_)));
}

#[test]
fn wherever_it_is_cut_short_a_start_makes_one_state_or_the_other() {
    let mut source = with_changes("/theirs", 3);
    let snapshot = take_snapshot(&mut source);
    let new = shown(&source);
    let (mut olds, mut news) = (0, 0);
    for operations in 0_u64.. {
        let mut world = with_changes("/ours", 9);
        let old = shown(&world);
        world.disk.fail_after(operations, Fault::PowerLoss);
        let replaced = replace(&mut world, &snapshot);
        let is_over = !world.disk.is_powerless();
        let mut world = World::start(crash(world, operations));
        let found = shown(&world);
        assert!(found == old || found == new, "{operations}: {found:?}");
        if matches!(replaced, Ok(Ok(_))) {
            assert_eq!(found, new, "{operations}: it was said to be there");
        }
        if found == new {
            news += 1
        } else {
            olds += 1
        }
        // Whichever it is goes on.
        let znode = if found == new { "/theirs" } else { "/ours" };
        world.group(&[], vec![by(1, set(znode, "on"))]);
        let after = shown(&world);
        let world = World::start(crash(world, operations));
        assert_eq!(shown(&world), after, "{operations}");
        if is_over {
            break;
        }
    }
    assert!(olds > 5 && news > 5, "{olds} {news}");
}

#[test]
fn on_a_disk_that_refuses_the_state_stays_and_goes_on_or_the_server_ends() {
    let mut source = with_changes("/theirs", 3);
    let snapshot = take_snapshot(&mut source);
    let new = shown(&source);
    let (mut stayed, mut ended) = (0, 0);
    for fault in [Fault::Eio, Fault::Enospc] {
        for operations in 0_u64.. {
            let mut world = with_changes("/ours", 9);
            let old = shown(&world);
            let due = world.disk.operations() + operations;
            world.disk.fail_after(operations, fault);
            let replaced = replace(&mut world, &snapshot);
            match replaced {
                Ok(Ok(_)) => {
                    assert_eq!(shown(&world), new);
                    if world.disk.operations() <= due {
                        break;
                    }
                }
                Ok(Err(_)) => {
                    stayed += 1;
                    assert_eq!(shown(&world), old, "{operations}");
                    world.group(&[], vec![by(1, set("/ours", "on"))]);
                    let after = shown(&world);
                    let world = World::start(crash(world, operations));
                    assert_eq!(shown(&world), after, "{operations}");
                }
                Err(_) => {
                    ended += 1;
                    let found = shown(&World::start(crash(world, operations)));
                    assert!(found == old || found == new, "{operations}: {found:?}");
                }
            }
        }
    }
    assert!(stayed > 5 && ended > 5, "{stayed} {ended}");
}

#[test]
fn what_is_no_whole_snapshot_changes_nothing() {
    let mut source = with_changes("/theirs", 3);
    let snapshot = take_snapshot(&mut source);
    let mut flipped = snapshot.clone();
    flipped[snapshot.len() / 2] ^= 1;
    let longer = [&snapshot[..], b"x"].concat();
    let mut world = with_changes("/ours", 3);
    let (old, files) = (shown(&world), names(&world.disk, SNAPSHOTS));
    let cut = [0, 1, 16, 100, snapshot.len() - 1].map(|len| snapshot[..len].to_vec());
    for wrong in
        [&b"no snapshot"[..], &flipped, &longer].into_iter().chain(cut.iter().map(|it| &it[..]))
    {
        replace(&mut world, wrong).expect("the server goes on").expect_err("refused");
        assert_eq!(shown(&world), old);
        assert_eq!(names(&world.disk, SNAPSHOTS), files);
    }
    world.disk.set_free(Some(100));
    let error = replace(&mut world, &snapshot).expect("the server goes on").expect_err("no room");
    assert!(matches!(error, StorageError::NoRoom { .. }), "{error}");
    assert_eq!(names(&world.disk, SNAPSHOTS), files);
}

/// Damage of the snapshot is damage: neither the state of before nor one of both comes of it.
#[test]
fn a_start_never_goes_back_behind_it() {
    let mut source = with_changes("/theirs", 3);
    let snapshot = take_snapshot(&mut source);
    for writes in [0, 2] {
        let mut world = with_changes("/ours", 9);
        let zxid = replace(&mut world, &snapshot).expect("the disk works").expect("it is whole");
        for _ in 0..writes {
            world.group(&[], vec![by(1, set("/theirs", "on"))]);
        }
        let disk = crash(world, 1);
        disk.flip(format!("{SNAPSHOTS}/snapshot.{:x}", zxid.0).as_ref(), 60, 1);
        let options = DirectoryOptions {
            data_dir: "/data".into(),
            data_log_dir: "/data".into(),
            create: true,
        };
        let directory = DataDirectory::open(Arc::new(disk), &options).expect("opens");
        let refused =
            recover(&directory, RecoveryOptions::default(), &mut Rebuild::new(1, Rules::default()));
        let error = refused.expect_err("refused");
        assert!(matches!(error, StorageError::NoReadableSnapshot { .. }), "{error}");
    }
}
