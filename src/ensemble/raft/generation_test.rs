//! A member's directory that ZooKeeper went on with, and the next generation that is founded on it
//! or takes it in: killed, and without power, at any operation.

use std::path::Path;

use jute::txn::TxnDigest;

use super::super::disk::{What, Write};
use super::super::fixture::{directory, ensemble, entry};
use super::super::{FIRST_LIFE, member_id};
use super::*;
use crate::storage::sim::{Dice, Fault, SimDisk};
use crate::storage::{Disk as _, StorageError, Whose, adler32, whose};

const FOLDER: &str = "/data/version-2";
/// What this server wrote as a member, of term 1 from the blank one on, and ZooKeeper then, of
/// epoch 3.
const OWN: u64 = 7;
const JAVAS: [i64; 3] = [0x3_0000_0001, 0x3_0000_0002, 0x3_0000_0003];

fn members() -> Members {
    let voters = (1..4).map(|server| member_id(server, FIRST_LIFE)).collect();
    Members { voters, ..Members::default() }
}

/// A member of ensemble 7, the first of its line.
fn member() -> SimDisk {
    let disk = SimDisk::default();
    let id = member_id(1, FIRST_LIFE);
    let first = RaftState {
        id,
        term: 1,
        ensemble: 7,
        line: 7,
        generation: 1,
        members: members(),
        ..RaftState::default()
    };
    RaftStateFile::create(&directory(&disk), &first, None).expect("creates");
    let mut started = ensemble(1500, false).start(Arc::new(directory(&disk))).expect("starts");
    for index in 1..=OWN {
        let zxid = (1_i64 << 32) + index.cast_signed() - 1;
        let write = Write(What::Append(vec![entry(index, zxid)]));
        started.writer.write(vec![write]).expect("writes");
    }
    drop(started);
    disk
}

/// ZooKeeper goes on with it.
fn go_on(disk: &SimDisk, zxids: &[i64]) {
    let mut bytes = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
    for zxid in zxids {
        let record = entry(zxid.cast_unsigned(), *zxid);
        bytes.extend(i64::from(adler32(&record.payload)).to_be_bytes());
        bytes.extend((record.payload.len() as u32).to_be_bytes());
        bytes.extend(record.payload.iter().chain(b"B"));
    }
    disk.plant(&Path::new(FOLDER).join(format!("log.{:x}", zxids[0])), &bytes);
    for name in ["currentEpoch", "acceptedEpoch"] {
        let epoch = (zxids[0] >> 32).to_string();
        disk.plant(&Path::new(FOLDER).join(name), epoch.as_bytes());
    }
}

fn left(disk: &SimDisk) -> Option<Left> {
    let directory = directory(disk);
    let state = RaftStateFile::look(&directory).expect("looks").expect("is there");
    let Whose { last, went_on } = whose(&directory, &state).expect("looks");
    went_on.map(|_| of_line(&state, last))
}

fn read(disk: &SimDisk) -> Before {
    let left = left(disk).expect("ZooKeeper went on with it");
    Before::of_member(Arc::new(directory(disk)), &ensemble(1500, false), left).expect("reads")
}

fn founding(before: &Before) -> Founding {
    Founding {
        ensemble: 8,
        line: 7,
        generation: 2,
        term: 4,
        founded_in: 4,
        base: before.base(),
        index: before.index(),
        members: members(),
        configured_at: 0,
    }
}

/// ZooKeeper brings a follower what its leader has, without what this server adds, and perhaps with
/// a digest.
#[test]
fn the_record_that_a_directory_ends_with_is_the_same_as_in_the_log_that_it_is_from() {
    let of = |zxid: i64, has_digest: bool| {
        let payload = entry(zxid.cast_unsigned(), zxid).payload;
        let record = TxnRecord::decode(&payload).expect("a record").0;
        let digest = has_digest.then_some(TxnDigest { version: 2, tree_digest: 7 });
        LastRecord::of(TxnRecord { digest, ..record })
    };
    let disk = member();
    go_on(&disk, &JAVAS);
    let last = JAVAS[2];
    for has_digest in [false, true] {
        assert_eq!(read(&disk).ends_with(), Some(of(last, has_digest)));
    }
    assert_ne!(of(last, false).checksum, of(last - 1, false).checksum);
    // A snapshot does not tell it, also where an earlier record is there.
    let mut snapshot = disk.content(&Path::new(FOLDER).join("snapshot.0"));
    // One of ZooKeeper's, without tails; the seal covers the header.
    snapshot[8..16].fill(0xff);
    snapshot.truncate(snapshot.len() - (13 + 20 + 13 + 8 + 13));
    let seal = i64::from(adler32(&snapshot)).to_be_bytes();
    snapshot.extend(seal.iter().chain(b"\0\0\0\x01/"));
    disk.plant(&Path::new(FOLDER).join("snapshot.400000000"), &snapshot);
    let before = read(&disk);
    assert_eq!((before.base().zxid, before.ends_with()), (4 << 32, None));
}

/// All that was there: sessions, of which each record but the blank one opens one.
const SESSIONS: usize = OWN as usize - 1 + JAVAS.len();

#[test]
fn what_zookeeper_went_on_with_is_read_whole_and_never_speaks_for_its_ensemble() {
    let disk = member();
    assert_eq!(left(&disk), None);
    go_on(&disk, &JAVAS);
    let Left { ensemble: number, of } = left(&disk).expect("ZooKeeper went on with it");
    assert_eq!((number, of.line, of.generation, of.term), (7, 7, 1, 1));
    assert_eq!(of.last, (1 << 32) + OWN.cast_signed() - 1);
    assert_eq!(of.voters, (1..4).collect());
    let refused = ensemble(1500, false).start(Arc::new(directory(&disk))).map(drop);
    let refused = refused.expect_err("it left");
    assert!(matches!(refused, EnsembleError::Storage(StorageError::WentOn { .. })), "{refused}");
    let before = read(&disk);
    assert_eq!(before.base(), Base { epoch: 3, zxid: JAVAS[2], accepted: 3 });
    assert_eq!(before.sessions().count(), SESSIONS);
    assert_eq!(before.secret(SessionKey::new([1; 32])).expect("looks"), None);
    assert!(!before.lost_key().expect("looks"));
    drop(before);
    // A key that its ensemble had is none that ZooKeeper's sessions know, and that it is lost is
    // said.
    let at = directory(&disk);
    let secret = SessionSecret { key: SessionKey::new([2; 32]), before: Vec::new() };
    SessionSecret::install(Some(&secret), at.disk().as_ref(), at.snapshots()).expect("writes");
    drop(at);
    let before = read(&disk);
    assert_eq!(before.secret(SessionKey::new([1; 32])).expect("looks"), None);
    assert!(before.lost_key().expect("looks"));
}

/// A server alone, with data of epoch 1, that accepts what [`founding`] says.
fn accepts(disk: &SimDisk) -> Base {
    let how = ensemble(1500, false);
    let mut alone = Before::read(Arc::new(directory(disk)), &how).expect("reads");
    let at = Arc::clone(&alone.directory);
    crate::ensemble::snapshots::first_snapshot(&at, &mut alone.database, Compression::None)
        .expect("is written");
    for index in 1..=OWN {
        let payload = entry(index, (1_i64 << 32) + index.cast_signed()).payload;
        let (record, _) = TxnRecord::decode(&payload).expect("a record");
        alone.log.append(&record).expect("appends");
        alone.log.commit().expect("is durable");
    }
    drop((alone, at));
    let before = Before::read(Arc::new(directory(disk)), &how).expect("reads");
    let (had, founding) = (before.base(), founding(&before));
    assert_eq!((had.zxid, founding.index), ((1 << 32) + OWN.cast_signed(), OWN + 1));
    let (id, founder) = (member_id(1, FIRST_LIFE), member_id(3, FIRST_LIFE));
    before.belong(id, founder, &founding, None).expect("belongs");
    had
}

/// What an accepted server had stays in place until the base has come. ZooKeeper may go on with
/// that meanwhile, and what it wrote is no less than what it wrote anywhere else.
#[test]
fn zookeeper_goes_on_with_what_an_accepted_server_had() {
    for (knows, starts, term) in
        [(false, false, 4), (true, false, 4), (true, true, 4), (true, true, 5)]
    {
        let disk = SimDisk::default();
        let had = accepts(&disk);
        if knows {
            founder_knows(&directory(&disk)).expect("writes");
        }
        if starts {
            let started = ensemble(1500, false).start(Arc::new(directory(&disk))).expect("starts");
            assert_eq!((started.applied, started.database.sessions().len()), (0, 0));
        }
        let at = directory(&disk);
        let mut promises = RaftStateFile::open(&at).expect("opens").expect("is there");
        let state = RaftState { term, ..promises.get().clone() };
        promises.save(state.clone()).expect("saves");
        // A member that has nothing of its ensemble, and shows nothing.
        let is = whose(&at, &state).expect("looks");
        drop((promises, at));
        assert_eq!(is, Whose::default(), "{knows} {starts} {term}");
        go_on(&disk, &[0x6_0000_0001, 0x6_0000_0002]);
        let Left { ensemble: number, of } = left(&disk).expect("ZooKeeper went on with it");
        assert_eq!((number, of.line, of.generation, of.last), (8, 7, 2, 0));
        let refused = ensemble(1500, false).start(Arc::new(directory(&disk))).map(drop);
        let refused = refused.expect_err("it left");
        let is_told = matches!(refused, EnsembleError::Storage(StorageError::WentOn { .. }));
        assert!(is_told, "{refused}");
        let before = read(&disk);
        assert_eq!(before.base(), Base { epoch: 6, zxid: 0x6_0000_0002, accepted: 6 });
        assert!(before.base().zxid > had.zxid);
        // Of each record that was there, and of each of ZooKeeper's.
        assert_eq!(before.sessions().count(), OWN as usize + 2);
        // The next generation has it all.
        let founding =
            Founding { ensemble: 9, generation: 3, term: 7, founded_in: 7, ..founding(&before) };
        before.found(member_id(1, FIRST_LIFE), &founding, None).expect("founds");
        let started = ensemble(1500, false).start(Arc::new(directory(&disk))).expect("starts");
        assert_eq!(started.database.sessions().len(), OWN as usize + 2);
    }
}

/// Founds the next generation, and begins it.
fn found(before: Before) -> Result<(), EnsembleError> {
    let founding = founding(&before);
    let at = Arc::clone(before.directory());
    before.found(member_id(1, FIRST_LIFE), &founding, None)?;
    ensemble(1500, false).start(at).map(drop)
}

/// It does not start where it had accepted less than it has ("The accepted epoch ... is less than
/// the current epoch").
fn epochs_are_zookeepers(disk: &SimDisk, case: &str) {
    let epoch = |name| String::from_utf8(disk.content(&Path::new(FOLDER).join(name)));
    let [accepted, current] = ["acceptedEpoch", "currentEpoch"]
        .map(|name| epoch(name).expect("a text").trim().parse::<i64>().expect("a number"));
    assert!(accepted >= current, "{case}: accepted {accepted}, current {current}");
}

/// A founder: of the old ensemble until it is of the new one, and then whole after its start.
#[test]
fn a_founder_is_of_one_generation_after_any_crash() {
    let begun = member();
    go_on(&begun, &JAVAS);
    let mut dice = Dice(1);
    let mut seen = [0; 2];
    for fails_after in 0..80 {
        for fault in [Fault::PowerLoss, Fault::Eio] {
            let disk = begun.fork();
            let before = read(&disk);
            let base = before.index();
            disk.fail_after(fails_after, fault);
            let done = found(before);
            disk.crash(&mut dice);
            epochs_are_zookeepers(&disk, &format!("{fails_after}"));
            let generation = RaftStateFile::look(&directory(&disk)).expect("looks");
            let generation = generation.expect("is there").generation;
            let case = format!("{fault:?} after {fails_after}");
            assert!(generation == 2 || done.is_err(), "{case}");
            seen[generation as usize - 1] += 1;
            if generation == 1 {
                assert_eq!(left(&disk).map(|left| left.of.generation), Some(1), "{case}");
                assert_eq!(read(&disk).base().zxid, JAVAS[2], "{case}");
                continue;
            }
            assert_eq!(left(&disk), None, "{case}");
            // Its start can be cut short as well.
            let again = disk.fork();
            let opened = Arc::new(directory(&again));
            again.fail_after(dice.below(30), Fault::PowerLoss);
            drop(ensemble(1500, false).start(opened));
            again.crash(&mut dice);
            for disk in [disk, again] {
                let started = ensemble(1500, false).start(Arc::new(directory(&disk)));
                let started = started.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(started.database.sessions().len(), SESSIONS, "{case}");
                assert_eq!(started.database.last_zxid().0, (4 << 32) + 1, "{case}");
                let promises = &started.store.promises;
                assert_eq!((promises.line, promises.generation), (7, 2), "{case}");
                assert_eq!((promises.founds, promises.base), (false, base), "{case}");
                assert_eq!(promises.asks, [2, 3], "{case}");
                assert_eq!(started.store.log.last_index(), base, "{case}");
                drop(started);
                // And ZooKeeper once more.
                go_on(&disk, &[0x5_0000_0001]);
                assert_eq!(left(&disk).map(|left| left.of.generation), Some(2), "{case}");
                assert_eq!(read(&disk).sessions().count(), SESSIONS + 1, "{case}");
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 10), "{seen:?}");
}

/// ZooKeeper may come between the founder's raft.state and its first entry.
#[test]
fn zookeeper_goes_on_with_a_founder_that_was_cut_short() {
    let begun = member();
    go_on(&begun, &JAVAS);
    let mut cut_short = 0;
    for fails_after in 0..80 {
        let disk = begun.fork();
        let before = read(&disk);
        disk.fail_after(fails_after, Fault::PowerLoss);
        drop(found(before));
        disk.crash(&mut Dice(fails_after));
        let state = RaftStateFile::look(&directory(&disk)).expect("looks").expect("is there");
        go_on(&disk, &[0x5_0000_0001]);
        let left = left(&disk).expect("ZooKeeper went on with it");
        assert_eq!(left.of.generation, state.generation, "after {fails_after}");
        assert_eq!(read(&disk).base().zxid, 0x5_0000_0001);
        assert_eq!(read(&disk).sessions().count(), SESSIONS + 1, "after {fails_after}");
        cut_short += u32::from(state.founds);
    }
    assert!(cut_short > 5, "{cut_short}");
}

/// One that was away, or late, belongs to the next generation or takes a seat of it: what it had
/// stays, or goes aside, whole.
#[test]
fn what_a_latecomer_had_is_kept() {
    for (seat, is_javas) in [(true, true), (true, false), (false, true), (false, false)] {
        let disk = member();
        if is_javas {
            go_on(&disk, &JAVAS[..1]);
        }
        let open = || Arc::new(directory(&disk));
        let state = RaftStateFile::look(&open()).expect("looks").expect("is there");
        let before = Before::of_member(open(), &ensemble(1500, false), of_line(&state, 1 << 32));
        let before = before.expect("reads");
        let base = before.base();
        let names = disk.list(Path::new(FOLDER)).expect("lists");
        match seat {
            true => {
                let seat = Seat {
                    id: member_id(1, 20),
                    ensemble: 8,
                    line: 7,
                    generation: 2,
                    term: 4,
                    members: members(),
                    configured_at: 0,
                };
                before.take(seat, None).expect("takes it");
            }
            false => {
                let founder = member_id(2, FIRST_LIFE);
                let founding = Founding { base: Base { epoch: 9, ..base }, ..founding(&before) };
                before.belong(member_id(1, FIRST_LIFE), founder, &founding, None).expect("belongs");
                founder_knows(&open()).expect("saves");
            }
        }
        assert_eq!(left(&disk), None);
        let started = ensemble(1500, false).start(open()).expect("starts");
        assert_eq!(started.database.sessions().len(), 0);
        assert_eq!((started.ensemble(), started.store.log.last_index()), (8, 0));
        drop(started);
        // Who belongs has nothing else until the base has come.
        let kept = match seat {
            true => Path::new("/data/before-0000000000000008-20"),
            false => Path::new(FOLDER),
        };
        for name in names.iter().filter(|name| name.starts_with("log.")) {
            assert!(!disk.content(&kept.join(name)).is_empty(), "{name}");
        }
        // ZooKeeper once more, before the base has come.
        go_on(&disk, &[0x9_0000_0001]);
        assert_eq!(left(&disk).map(|left| left.of.generation), Some(2));
    }
}

/// Without a write of ZooKeeper's, the ensemble goes on above its epochs, and its snapshots are
/// passed over.
#[test]
fn a_turn_without_writes_changes_nothing_but_the_term() {
    let disk = member();
    // What ZooKeeper's leader writes when it begins: the tree at the last zxid.
    let name = format!("snapshot.{:x}", (1_i64 << 32) + OWN.cast_signed() - 1);
    let mut bytes = disk.content(&Path::new(FOLDER).join("snapshot.0"));
    bytes[8..16].copy_from_slice(&(-1_i64).to_be_bytes());
    disk.plant(&Path::new(FOLDER).join(name), &bytes);
    for file in ["currentEpoch", "acceptedEpoch"] {
        disk.plant(&Path::new(FOLDER).join(file), b"6");
    }
    assert_eq!(left(&disk), None);
    for _ in 0..2 {
        let started = ensemble(1500, false).start(Arc::new(directory(&disk))).expect("starts");
        let promises = &started.store.promises;
        assert_eq!((promises.term, promises.vote, promises.generation), (7, 0, 1));
        assert_eq!(started.store.log.last_index(), OWN);
        assert_eq!(started.store.log.first_index(), 1);
    }
}
