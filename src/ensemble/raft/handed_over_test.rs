//! A snapshot handed over to a member whose process is killed meanwhile, and whose machine loses
//! power during the next start, at any operation of either: the log goes only when the snapshot can
//! go no more, with one folder and with two.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use raft::eraftpb::HardState;

use super::super::configuration::to_conf_state;
use super::super::log_store::SnapshotPlace;
use super::super::start::Started;
use super::super::{fixture, member_id};
use super::*;
use crate::engine::database::Rules;
use crate::ensemble::rebuild::Rebuild;
use crate::ensemble::snapshots::snapshot_of;
use crate::storage::sim::{Dice, Fault, SimDisk};
use crate::storage::{
    Compression, DirectoryOptions, Disk as _, FillStep, Members, Purged, purge, with_another_digest,
};

/// What the member has acknowledged.
const ACKNOWLEDGED: u64 = 5;
/// What the snapshot shows.
const SHOWN: u64 = 7;

fn entry(index: u64) -> LogEntry {
    fixture::entry(index, zxid(index))
}

fn zxid(index: u64) -> i64 {
    (1 << 32) + index.cast_signed() - 1
}

fn start(disk: &SimDisk, log_dir: &str) -> Result<Started, EnsembleError> {
    let options =
        DirectoryOptions { data_dir: "/data".into(), data_log_dir: log_dir.into(), create: true };
    fixture::ensemble(300, false)
        .start(Arc::new(DataDirectory::open(Arc::new(disk.clone()), &options)?))
}

/// A member with the entries up to `last`, a group each, of which those up to `commit` are known to
/// be final.
fn member(log_dir: &str, last: u64, commit: u64) -> SimDisk {
    let disk = SimDisk::default();
    let options =
        DirectoryOptions { data_dir: "/data".into(), data_log_dir: log_dir.into(), create: true };
    let directory = DataDirectory::open(Arc::new(disk.clone()), &options).expect("opens");
    let members =
        Members { voters: (1..4).map(|at| member_id(at, 1)).collect(), ..Members::default() };
    let first = Promises { id: member_id(1, 1), members, ..Promises::default() };
    RaftStateFile::create(&directory, &first, None).expect("creates");
    drop(directory);
    let mut started = start(&disk, log_dir).expect("starts");
    let promises = Promises { term: 1, ..started.store.promises.clone() };
    started.writer.write(vec![Write(What::Promise(promises.clone()))]).expect("writes");
    for index in 1..=last {
        started.writer.write(vec![Write(What::Append(vec![entry(index)]))]).expect("writes");
    }
    let promises = Promises { commit, ..promises };
    started.writer.write(vec![Write(What::Members(promises))]).expect("writes");
    disk
}

/// The bytes of the leader's snapshot.
fn snapshot() -> Vec<u8> {
    let disk = member("/data", SHOWN, SHOWN);
    let mut started = start(&disk, "/data").expect("starts");
    let directory = Arc::clone(started.directory());
    snapshot_of(&directory, &mut started.database, SHOWN, Compression::None).expect("writes");
    disk.content(&Path::new("/data/version-2").join(format!("snapshot.{:x}", zxid(SHOWN))))
}

/// Takes the snapshot over; whether it came to the end.
fn take_over(disk: &SimDisk, log_dir: &str, bytes: &[u8], fails_after: u64) -> bool {
    let mut started = start(disk, log_dir).expect("starts");
    let directory = Arc::clone(started.directory());
    let mut received =
        ReceivedSnapshot::create(directory, zxid(SHOWN), Compression::None).expect("begins");
    received.write(bytes).expect("writes");
    received.check(SHOWN, &mut Rebuild::new(1, Rules::default())).expect("it is whole");
    let promises = started.store.promises.clone();
    let install = Write(What::Install(Box::new(received), SHOWN, promises));
    disk.fail_after(fails_after, Fault::PowerLoss);
    started.writer.write(vec![install]).is_ok()
}

#[test]
fn a_snapshot_handed_over_loses_nothing_whenever_the_process_and_then_the_machine_die() {
    let bytes = snapshot();
    for log_dir in ["/data", "/log"] {
        let before = member(log_dir, ACKNOWLEDGED, 2);
        let (mut killed_at, mut taken_over) = (0, 0);
        loop {
            let mut power_at = 0;
            let is_done = loop {
                let case = format!("{log_dir}, killed at {killed_at}, no power at {power_at}");
                let mut dice = Dice(killed_at * 1000 + power_at);
                let disk = before.fork();
                let is_done = take_over(&disk, log_dir, &bytes, killed_at);
                disk.kill();
                disk.fail_after(power_at, Fault::PowerLoss);
                let restarted = start(&disk, log_dir).is_ok();
                disk.crash(&mut dice);
                let started = start(&disk, log_dir).unwrap_or_else(|e| panic!("{case}: {e}"));
                let log = &started.store.log;
                if log.last_index() == SHOWN {
                    taken_over += 1;
                    assert_eq!(started.applied, SHOWN, "{case}");
                    assert_eq!(started.database.last_zxid().0, zxid(SHOWN), "{case}");
                } else {
                    assert!(!is_done, "{case}: it was told");
                    assert_eq!(log.last_index(), ACKNOWLEDGED, "{case}");
                    let entries = log.entries(1, SHOWN, u64::MAX).expect("reads");
                    let expected: Vec<LogEntry> = (1..=ACKNOWLEDGED).map(entry).collect();
                    assert_eq!(entries, Some(expected), "{case}");
                }
                if restarted {
                    break is_done;
                }
                power_at += 1;
            };
            if is_done {
                break;
            }
            killed_at += 1;
        }
        assert!(taken_over > 100 && killed_at > 10, "{taken_over}, {killed_at}");
    }
}

/// Its seals match, and its digest is not that of its znodes.
#[test]
fn a_snapshot_from_which_no_start_can_be_made_takes_nothing_s_place() {
    let bytes = with_another_digest(snapshot());
    for log_dir in ["/data", "/log"] {
        let disk = member(log_dir, ACKNOWLEDGED, 2);
        let mut started = start(&disk, log_dir).expect("starts");
        let receive = |started: &Started| {
            let directory = Arc::clone(started.directory());
            let mut received = ReceivedSnapshot::create(directory, zxid(SHOWN), Compression::None)
                .expect("begins");
            received.write(&bytes).expect("writes");
            received
        };
        let mut received = receive(&started);
        let mut rebuild = Rebuild::new(1, Rules::default());
        let error = received.check(SHOWN, &mut rebuild).expect_err("refused");
        assert!(error.to_string().contains("digest"), "{error}");
        assert!(!received.shows(SHOWN));
        let promises = started.store.promises.clone();
        let install = Write(What::Install(Box::new(received), SHOWN, promises.clone()));
        started.writer.write(vec![install]).expect_err("it was not checked");
        // As a server left it that looked at the seals only.
        let received = receive(&started);
        let replaces = received.zxid();
        started.writer.promises.save(Promises { replaces, ..promises }).expect("writes");
        received.install().expect("installs");
        drop(started);
        for _ in 0..2 {
            let started = start(&disk, log_dir).unwrap_or_else(|e| panic!("{log_dir}: {e}"));
            let log = &started.store.log;
            assert_eq!(log.last_index(), ACKNOWLEDGED, "{log_dir}");
            let entries = log.entries(1, SHOWN, u64::MAX).expect("reads");
            let expected: Vec<LogEntry> = (1..=ACKNOWLEDGED).map(entry).collect();
            assert_eq!(entries, Some(expected), "{log_dir}");
            purge(started.directory(), 1).expect("purges");
        }
    }
}

/// Where the leader keeps no digest there is none to compare.
#[test]
fn a_snapshot_without_a_digest_is_taken() {
    let disk = member("/data", SHOWN, SHOWN);
    let mut ensemble = fixture::ensemble(300, false);
    ensemble.rules.digest = false;
    let mut started = ensemble.start(Arc::new(fixture::directory(&disk))).expect("starts");
    let directory = Arc::clone(started.directory());
    snapshot_of(&directory, &mut started.database, SHOWN, Compression::None).expect("writes");
    let name = format!("snapshot.{:x}", zxid(SHOWN));
    let bytes = disk.content(&Path::new("/data/version-2").join(name));
    assert!(bytes.len() < snapshot().len());
    let follower = member("/data", ACKNOWLEDGED, 2);
    assert!(take_over(&follower, "/data", &bytes, 1 << 40));
    assert_eq!(start(&follower, "/data").expect("starts").applied, SHOWN);
}

/// The filler runs as long as the process.
#[test]
fn the_log_behind_a_snapshot_handed_over_takes_the_spares_that_are_filled_for_it() {
    let disk = member("/data", ACKNOWLEDGED, 2);
    let mut started = start(&disk, "/data").expect("starts");
    let mut filler = started.writer.spare_filler();
    let directory = Arc::clone(started.directory());
    let mut received =
        ReceivedSnapshot::create(directory, zxid(SHOWN), Compression::None).expect("begins");
    received.write(&snapshot()).expect("writes");
    received.check(SHOWN, &mut Rebuild::new(1, Rules::default())).expect("it is whole");
    let promises = started.store.promises.clone();
    let install = Write(What::Install(Box::new(received), SHOWN, promises));
    started.writer.write(vec![install]).expect("installs");
    let spares = || {
        let names = disk.list(Path::new("/data/version-2")).expect("lists");
        names.iter().filter(|name| name.starts_with("spare.")).count()
    };
    while filler.step().expect("fills") != FillStep::Idle {}
    assert_eq!(spares(), 1);
    let append = Write(What::Append(vec![entry(SHOWN + 1)]));
    started.writer.write(vec![append]).expect("writes");
    assert_eq!(spares(), 0);
    assert!(filler.is_urgent());
}

/// A term that begins while it is on its way to the disk knows of it.
#[test]
fn what_is_promised_later_says_that_the_snapshot_is_needed() {
    let disk = member("/data", ACKNOWLEDGED, 2);
    let mut started = start(&disk, "/data").expect("starts");
    let mut received =
        ReceivedSnapshot::create(Arc::clone(started.directory()), zxid(SHOWN), Compression::None)
            .expect("begins");
    received.write(&snapshot()).expect("writes");
    received.check(SHOWN, &mut Rebuild::new(1, Rules::default())).expect("it is whole");
    let store = &mut started.store;
    let members = to_conf_state(&store.promises.members);
    let state = HardState { term: 1, commit: SHOWN, ..HardState::default() };
    let place = SnapshotPlace { index: SHOWN, zxid: zxid(SHOWN) };
    let before = store.replace(&state, place, &members, 0);
    assert_eq!(before.commit, 2, "until it is there, what is there is enough");
    let state = HardState { term: 2, ..state };
    let later = store.promise(&state, 2, None).expect("another term");
    let install = Write(What::Install(Box::new(received), SHOWN, before));
    started.writer.write(vec![install, Write(What::Promise(later))]).expect("writes");
    assert_eq!(started.writer.promises.get().commit, SHOWN);
}

/// Who installs a snapshot lists the logs and then opens each; a purge that has that snapshot needs
/// none of them.
#[test]
fn a_purge_waits_until_a_snapshot_handed_over_is_in_its_place() {
    let disk = member("/data", 3, 2);
    let mut started = start(&disk, "/data").expect("starts");
    let last = (4..=ACKNOWLEDGED).map(entry).collect();
    started.writer.write(vec![Write(What::Roll), Write(What::Append(last))]).expect("writes");
    let directory = Arc::clone(started.directory());
    let mut received =
        ReceivedSnapshot::create(Arc::clone(&directory), zxid(SHOWN), Compression::None)
            .expect("begins");
    received.write(&snapshot()).expect("writes");
    received.check(SHOWN, &mut Rebuild::new(1, Rules::default())).expect("it is whole");
    let promises = started.store.promises.clone();
    let install = Write(What::Install(Box::new(received), SHOWN, promises));
    disk.hold_open("log.");
    let mut writer = started.writer;
    let installs = thread::spawn(move || writer.write(vec![install]).map(|_| writer));
    disk.await_held();
    let (ended, end) = mpsc::channel();
    let purges = thread::spawn(move || {
        let purged = purge(&directory, 1);
        // Nobody listens any more where it had to wait.
        let _ = ended.send(());
        purged
    });
    // Where nothing keeps it, it is over at once.
    let is_over = end.recv_timeout(Duration::from_millis(300)).is_ok();
    disk.let_open();
    let writer = installs.join().expect("ends").unwrap_or_else(|error| panic!("{error}"));
    assert!(!is_over, "it did not wait");
    let purged = purges.join().expect("ends").expect("purges");
    assert_eq!(writer.log.last_index(), SHOWN);
    // The logs went with the install.
    assert_eq!(purged, Purged { snapshots: 1, ..Purged::default() });
}
