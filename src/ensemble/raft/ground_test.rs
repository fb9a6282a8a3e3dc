use std::path::Path;

use jute::txn::CreateSessionTxn;
use raft::eraftpb::HardState;

use super::super::configuration::to_conf_state;
use super::super::disk::{What, Write};
use super::super::fixture::{directory, ensemble, entry};
use super::super::log_store::SnapshotPlace;
use super::super::member_id;
use super::*;
use crate::engine::database::Rules;
use crate::ensemble::snapshots::first_snapshot;
use crate::storage::sim::{Dice, Fault, SimDisk};
use crate::storage::{Disk as _, Over, ReceivedSnapshot, adler32, with_another_digest};

const OWN: i64 = 0x4_0000_0002;
const TERM: u64 = 9;
/// The record that the ensemble begins with.
const FOUNDING: i64 = 0x9_0000_0001;

fn read(disk: &SimDisk) -> Before {
    Before::read(Arc::new(directory(disk)), &ensemble(1500, false)).expect("reads")
}

fn log(before: &mut Before, zxid: i64) {
    let header = TxnHeader { client_id: zxid, cxid: 0, zxid, time: 1 };
    let txn = Txn::CreateSession(CreateSessionTxn { timeout_ms: 30_000 });
    before.log.append(&TxnRecord { header, txn, digest: None }).expect("appends");
    before.log.commit().expect("is durable");
}

/// What a server alone leaves.
fn with_data() -> SimDisk {
    let disk = SimDisk::default();
    let mut before = read(&disk);
    let directory = Arc::clone(&before.directory);
    first_snapshot(&directory, &mut before.database, Compression::None).expect("written");
    log(&mut before, OWN - 1);
    log(&mut before, OWN);
    disk
}

/// What ZooKeeper logs that goes on with it.
fn plant_javas_log(disk: &SimDisk, zxids: &[i64]) {
    let mut bytes = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
    for zxid in zxids {
        let record = entry(zxid.cast_unsigned(), *zxid);
        bytes.extend(i64::from(adler32(&record.payload)).to_be_bytes());
        bytes.extend((record.payload.len() as u32).to_be_bytes());
        bytes.extend(record.payload.iter().chain(b"B"));
    }
    let name = format!("/data/version-2/log.{:x}", zxids[0]);
    disk.plant(name.as_ref(), &bytes);
}

/// What ZooKeeper leaves that was killed when it had begun another log and another snapshot.
fn with_javas_data() -> SimDisk {
    let disk = SimDisk::default();
    macro_rules! plant {
            ($($name:literal)+) => {$(
                let bytes = include_bytes!(concat!("../../storage/testdata/zookeeper-3.9.5/", $name));
                disk.plant(concat!("/data/version-2/", $name).as_ref(), bytes);
            )+};
        }
    plant!("log.1" "log.8" "snapshot.0" "snapshot.7");
    let log = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0";
    disk.plant("/data/version-2/log.ffff".as_ref(), log);
    disk.plant("/data/version-2/snapshot.ffff".as_ref(), b"ZKSN");
    disk
}

fn founding(before: &Before) -> Founding {
    let voters = [1, 2, 3].map(|server| member_id(server, 1)).to_vec();
    Founding {
        ensemble: 7,
        line: 7,
        generation: 1,
        term: TERM,
        founded_in: TERM,
        base: before.base(),
        index: before.index(),
        members: Members { voters, ..Members::default() },
        configured_at: 0,
    }
}

fn start(disk: &SimDisk) -> Result<(u64, u64), EnsembleError> {
    start_at(Arc::new(directory(disk)))
}

fn start_at(directory: Arc<DataDirectory>) -> Result<(u64, u64), EnsembleError> {
    let started = ensemble(1500, true).start(directory)?;
    Ok((started.applied, started.store.log.last_index()))
}

/// The power goes at any time, and once more while it begins again. Nothing of it counts as
/// newer than what it was founded on, whatever becomes of the founder; and an ensemble that was
/// promised begins.
#[test]
fn an_ensemble_is_founded_whenever_the_power_goes() {
    founded_whenever_the_power_goes(with_data);
}

#[test]
fn an_ensemble_is_founded_on_zookeepers_data_whenever_the_power_goes() {
    founded_whenever_the_power_goes(with_javas_data);
}

fn founded_whenever_the_power_goes(with_data: fn() -> SimDisk) {
    let (mut none, mut left, mut begun) = (0, 0, 0);
    for fails_after in 0..60 {
        for then in [0, 1, 2, 5, 9, 14] {
            let disk = with_data();
            let before = read(&disk);
            let (had, founding) = (before.base(), founding(&before));
            let index = founding.index;
            assert!(had.zxid > 0 && index > 1);
            let at = Arc::clone(before.directory());
            disk.fail_after(fails_after, Fault::PowerLoss);
            let founded = before.found(member_id(1, 1), &founding, None);
            let first = founded.and_then(|()| start_at(at));
            let mut dice = Dice(fails_after * 100 + then);
            disk.crash(&mut dice);
            let look = || RaftStateFile::look(&directory(&disk)).expect("reads");
            let Some(state) = look() else {
                assert!(first.is_err());
                assert_eq!(read(&disk).base(), had, "after {fails_after}");
                none += 1;
                continue;
            };
            assert_eq!((state.asks.as_slice(), state.term), ([2, 3].as_slice(), TERM));
            if then % 2 == 1 {
                RaftStateFile::leave(&directory(&disk)).expect("leaves");
                let base = read(&disk).base();
                assert_eq!((base.epoch, base.zxid), (had.epoch, had.zxid), "{fails_after}");
                left += 1;
                continue;
            }
            let at = Arc::new(directory(&disk));
            disk.fail_after(then, Fault::PowerLoss);
            let _ = start_at(at);
            disk.crash(&mut dice);
            for _ in 0..2 {
                let started = start(&disk).expect("starts");
                assert_eq!(started, (index, index), "{fails_after} {then}");
            }
            assert!(!look().expect("a member").founds);
            begun += 1;
            RaftStateFile::leave(&directory(&disk)).expect("leaves");
            let base = read(&disk).base();
            assert_eq!((base.epoch, base.zxid), (had.epoch, had.zxid));
            assert_eq!(base.accepted, TERM.cast_signed());
            // Others come to nothing as well, before or after their records.
            for (ensemble, begins) in [(8, false), (9, true), (10, false)] {
                let before = read(&disk);
                let term = TERM + ensemble - 7;
                let (base, index) = (before.base(), before.index());
                let founding =
                    Founding { ensemble, term, founded_in: term, base, index, ..founding.clone() };
                let id = member_id(1, 1);
                if begins {
                    before.found(id, &founding, None).expect("founds");
                } else {
                    before.promise(id, &founding, None).expect("promises");
                    drop(before);
                }
                RaftStateFile::leave(&directory(&disk)).expect("leaves");
                let base = read(&disk).base();
                assert_eq!((base.epoch, base.zxid), (had.epoch, had.zxid), "{ensemble}");
            }
        }
    }
    assert!(none > 9 && left > 99 && begun > 99, "{none} {left} {begun}");
}

/// A directory with data that has accepted an ensemble, and whose founder knows; and what it
/// had.
fn accepted() -> (SimDisk, Base) {
    let disk = with_data();
    let before = read(&disk);
    let (had, founding) = (before.base(), founding(&before));
    before.belong(member_id(1, 1), member_id(3, 1), &founding, None).expect("belongs");
    founder_knows(&directory(&disk)).expect("writes");
    (disk, had)
}

fn has_what_it_had(disk: &SimDisk, had: Base) {
    RaftStateFile::leave(&directory(disk)).expect("leaves");
    let base = read(disk).base();
    assert_eq!((base.epoch, base.zxid), (had.epoch, had.zxid));
    assert_eq!(base.accepted, TERM.cast_signed());
}

/// Its founder's disk may be lost before it has handed over anything: then it has what was
/// acknowledged.
#[test]
fn what_an_accepted_server_had_counts_until_the_base_has_come() {
    let (disk, had) = accepted();
    for _ in 0..2 {
        assert_eq!(start(&disk).expect("starts"), (0, 0));
    }
    has_what_it_had(&disk, had);
}

/// What the founder sends: its snapshot of the record that the ensemble begins with.
fn sent() -> (u64, Vec<u8>) {
    let disk = with_data();
    let before = read(&disk);
    let founding = founding(&before);
    before.found(member_id(1, 1), &founding, None).expect("founds");
    start(&disk).expect("starts");
    let name = format!("/data/version-2/snapshot.{FOUNDING:x}");
    (founding.index, disk.content(name.as_ref()))
}

/// Takes over what the founder sends, and another term after it; whether it came to the end.
fn take_over(disk: &SimDisk, (index, bytes): &(u64, Vec<u8>), fails_after: u64) -> bool {
    let (index, zxid) = (*index, FOUNDING);
    let directory = Arc::new(directory(disk));
    let mut started = ensemble(1500, true).start(Arc::clone(&directory)).expect("starts");
    let mut received =
        ReceivedSnapshot::create(directory, zxid, Compression::None).expect("begins");
    received.write(bytes).expect("writes");
    received.check(index, &mut Rebuild::new(1, Rules::default())).expect("it is whole");
    let members = to_conf_state(&started.store.promises.members);
    let state = HardState { term: TERM, commit: index, ..HardState::default() };
    let place = SnapshotPlace { index, zxid };
    let promises = started.store.replace(&state, place, &members, 0);
    let install = Write(What::Install(Box::new(received), index, promises));
    let state = HardState { term: TERM + 1, ..state };
    let later = started.store.promise(&state, index, None).expect("another term");
    disk.fail_after(fails_after, Fault::PowerLoss);
    started.writer.write(vec![install, Write(What::Promise(later))]).is_ok()
}

/// The power goes at any time, and once more while it starts again: it has what it had, or the
/// base, and what it had is in one place then.
#[test]
fn a_base_comes_whenever_the_power_goes() {
    let sent = sent();
    let aside = PathBuf::from("/data/before-0000000000000007/log.400000001");
    let kept = with_data().content("/data/version-2/log.400000001".as_ref());
    let (mut without, mut with, mut is_done) = (0, 0, false);
    for fails_after in 0.. {
        if std::mem::take(&mut is_done) {
            break;
        }
        for then in [0, 1, 2, 4, 7, 11, 16, 22, 29] {
            let (disk, had) = accepted();
            is_done = take_over(&disk, &sent, fails_after);
            let mut dice = Dice(fails_after * 100 + then);
            disk.crash(&mut dice);
            let at = Arc::new(directory(&disk));
            disk.fail_after(then, Fault::PowerLoss);
            let _ = start_at(at);
            disk.crash(&mut dice);
            let (applied, last) = start(&disk).expect("starts");
            let state = RaftStateFile::look(&directory(&disk)).expect("reads").expect("there");
            assert_eq!((state.replaces, applied), (0, last));
            if last == 0 {
                assert!(state.clears && !is_done, "after {fails_after} {then}");
                match then % 2 {
                    0 => has_what_it_had(&disk, had),
                    _ => assert!(take_over(&disk, &sent, 1 << 40), "{fails_after} {then}"),
                }
                without += 1;
            } else {
                assert_eq!((state.clears, last), (false, sent.0), "{fails_after} {then}");
                assert!(disk.content(&aside) == kept, "after {fails_after} {then}");
                with += 1;
            }
        }
    }
    assert!(without > 30 && with > 100 && !kept.is_empty(), "{without} {with}");
}

/// It has voted, and nothing has come: the ensemble may have begun, and it has nothing of it.
/// After what it held lies the record of a founding that came to nothing, which would be newer
/// than what others hold.
#[test]
fn what_it_held_counts_again_where_nothing_has_come_in_an_ensemble_that_has_begun() {
    for voted in [false, true] {
        let disk = with_data();
        let before = read(&disk);
        let (had, first) = (before.base(), founding(&before));
        before.found(member_id(1, 1), &first, None).expect("founds");
        start(&disk).expect("starts");
        RaftStateFile::leave(&directory(&disk)).expect("leaves");
        let before = read(&disk);
        assert_eq!((before.base().epoch, before.base().zxid), (had.epoch, had.zxid));
        let term = TERM + 1;
        let index = first.index + 1;
        let next = Founding { ensemble: 8, term, founded_in: term, index, ..first };
        before.belong(member_id(1, 1), member_id(3, 1), &next, None).expect("belongs");
        founder_knows(&directory(&disk)).expect("writes");
        let mut promises = RaftStateFile::open(&directory(&disk)).expect("opens").expect("is");
        let state = RaftState { term: term + u64::from(voted), ..promises.get().clone() };
        promises.save(state).expect("saves");
        drop(promises);
        assert_eq!(start(&disk).expect("starts"), (0, 0));
        RaftStateFile::leave(&directory(&disk)).expect("leaves");
        let base = read(&disk).base();
        assert_eq!((base.epoch, base.zxid), (had.epoch, had.zxid), "{voted}");
    }
}

/// Its seals match, and no start can be made from it: an earlier release installed it by its
/// seals.
#[test]
fn a_base_that_cannot_be_loaded_takes_nothings_place() {
    let (disk, had) = accepted();
    let bytes = with_another_digest(sent().1);
    let path = PathBuf::from(format!("/data/version-2/snapshot.{FOUNDING:x}"));
    disk.plant(&path, &bytes);
    let mut promises = RaftStateFile::open(&directory(&disk)).expect("opens").expect("there");
    let replaces = FOUNDING;
    let state = RaftState { replaces, ..promises.get().clone() };
    promises.save(state).expect("saves");
    for _ in 0..2 {
        assert_eq!(start(&disk).expect("starts"), (0, 0));
    }
    let names = disk.list("/data/version-2".as_ref()).expect("lists");
    assert!(!names.iter().any(|name| path.ends_with(name)), "{names:?}");
    has_what_it_had(&disk, had);
}

/// It was taken out before it had anything of the ensemble. What it had, of ZooKeeper here,
/// goes aside then.
#[test]
fn who_is_taken_out_before_the_base_has_come_takes_another_seat() {
    let disk = with_javas_data();
    for name in ["log.ffff", "snapshot.ffff"] {
        let path = PathBuf::from("/data/version-2").join(name);
        disk.remove(&path).expect("removes");
    }
    let before = read(&disk);
    let founding = founding(&before);
    before.belong(member_id(1, 1), member_id(3, 1), &founding, None).expect("belongs");
    founder_knows(&directory(&disk)).expect("writes");
    let how = ensemble(1500, true);
    let mut started = how.start(Arc::new(directory(&disk))).expect("starts");
    started.writer.write(vec![Write(What::Over(Over::Removed))]).expect_err("ends");
    drop(started);
    let ended = start(&disk).expect_err("ends");
    assert!(matches!(ended, EnsembleError::Replaced { life: 1 }), "{ended}");
    let new = member_id(1, 40);
    let members = Members { voters: vec![new], ..Members::default() };
    let seat = Seat {
        id: new,
        ensemble: 7,
        line: 7,
        generation: 1,
        term: TERM + 1,
        members,
        configured_at: 40,
    };
    take_another_seat(&directory(&disk), seat, None).expect("takes it");
    assert_eq!(start(&disk).expect("starts"), (0, 0));
    let aside = PathBuf::from("/data/before-0000000000000007-40/log.8");
    assert!(!disk.content(&aside).is_empty());
}

/// Its founder does not come back, and the ensemble has begun: it is the one member or the
/// other, and what lay there is in one place.
#[test]
fn a_seat_is_taken_instead_whenever_the_power_goes() {
    let (mut before_it, mut behind_it) = (0, 0);
    for fails_after in 0..40 {
        let disk = with_data();
        let before = read(&disk);
        let at = Arc::clone(before.directory());
        let founding = founding(&before);
        before.belong(member_id(1, 1), member_id(3, 1), &founding, None).expect("belongs");
        let new = member_id(1, 40);
        let members = Members {
            voters: founding.members.voters.clone(),
            learners: vec![new],
            ..Members::default()
        };
        // A leader of a term that it has not heard of, or below the one that it was offered.
        let term = TERM + 1 - 2 * (fails_after % 2);
        let (line, generation) = (7, 1);
        let seat =
            Seat { id: new, ensemble: 7, line, generation, term, members, configured_at: 40 };
        disk.fail_after(fails_after, Fault::PowerLoss);
        let taken = take_seat_instead(&at, seat.clone(), None);
        let taken = taken.and_then(|()| start_at(at));
        disk.crash(&mut Dice(fails_after));
        let state = RaftStateFile::look(&directory(&disk)).expect("reads").expect("a member");
        assert!(state.awaits == 0 || taken.is_err());
        if state.awaits != 0 {
            assert_eq!((state.id, state.own.1, state.clears), (member_id(1, 1), OWN, true));
            take_seat_instead(&directory(&disk), seat, None).expect("takes it now");
            before_it += 1;
        } else {
            behind_it += 1;
        }
        assert_eq!(start(&disk).expect("starts"), (0, 0));
        let aside = PathBuf::from("/data/before-0000000000000007-40/log.400000001");
        assert!(!disk.content(&aside).is_empty(), "after {fails_after}");
    }
    assert!(before_it > 2 && behind_it > 20, "{before_it} {behind_it}");
}

/// The others may be lost before anything has come: the line that says where it is says how it
/// counts again.
#[test]
fn what_went_aside_for_a_seat_counts_again_by_the_way_back() {
    let disk = with_data();
    let before = read(&disk);
    let had = before.base();
    let new = member_id(1, 40);
    let members =
        Members { voters: vec![member_id(2, 1)], learners: vec![new], ..Members::default() };
    let (line, generation, term) = (7, 1, TERM);
    let seat = Seat { id: new, ensemble: 7, line, generation, term, members, configured_at: 40 };
    before.take(seat, None).expect("takes it");
    assert_eq!(start(&disk).expect("starts"), (0, 0));
    let aside = "before-0000000000000007-40";
    let command = directory(&disk).back_command(aside);
    assert_eq!(
        command,
        format!("mv /data/version-2 /data/given-up-1 && mv /data/{aside} /data/version-2")
    );
    let again = SimDisk::default();
    drop(directory(&again));
    let folder = Path::new("/data").join(aside);
    for name in disk.list(&folder).expect("lists") {
        let to = Path::new("/data/version-2").join(&name);
        again.plant(&to, &disk.content(&folder.join(&name)));
    }
    let base = read(&again).base();
    assert_eq!((base.epoch, base.zxid), (had.epoch, had.zxid));
}

/// ZooKeeper went on, or not, after the record of an ensemble that came to nothing, and wrote
/// less than what the next one was to begin with.
#[test]
fn what_came_behind_a_founding_that_came_to_nothing_does_not_go_aside() {
    for (zxid, is_known) in [(OWN, true), (FOUNDING, true), (FOUNDING + 1, false)] {
        let disk = with_data();
        let before = read(&disk);
        let (first, index) = (founding(&before), before.index());
        before.found(member_id(1, 1), &first, None).expect("founds");
        start(&disk).expect("starts");
        RaftStateFile::leave(&directory(&disk)).expect("leaves");
        let before = read(&disk);
        assert_eq!(before.base().zxid, OWN);
        let term = TERM + 1;
        let next = Founding { ensemble: 8, term, founded_in: term, index: index + 1, ..first };
        before.belong(member_id(1, 1), member_id(3, 1), &next, None).expect("belongs");
        plant_javas_log(&disk, &[zxid]);
        let started = start(&disk);
        assert_eq!(started.is_ok(), is_known, "{zxid:x}");
    }
}

/// The record that it begins with counts as soon as it may have been acknowledged, and so does
/// what came after it.
#[test]
fn what_an_ensemble_had_that_has_begun_counts() {
    for (is_begun, goes_on) in [(true, false), (false, true)] {
        let disk = with_data();
        let before = read(&disk);
        let founding = founding(&before);
        before.found(member_id(1, 1), &founding, None).expect("founds");
        start(&disk).expect("starts");
        let mut promises = RaftStateFile::open(&directory(&disk)).expect("opens").expect("there");
        let term = TERM + u64::from(is_begun);
        let state = RaftState { term, ..promises.get().clone() };
        promises.save(state).expect("saves");
        RaftStateFile::leave(&directory(&disk)).expect("leaves");
        let founded = FOUNDING;
        if goes_on {
            log(&mut read(&disk), founded + 1);
        }
        let base = read(&disk).base();
        let zxid = founded + i64::from(goes_on);
        assert_eq!((base.epoch, base.zxid), (TERM.cast_signed(), zxid));
    }
}

#[test]
fn a_founder_does_not_begin_with_more_or_less_than_it_has_promised() {
    for (zxid, is_more) in [(OWN - 1, true), (OWN + 1, false)] {
        let disk = with_data();
        let before = read(&disk);
        let mut founding = founding(&before);
        founding.base.zxid = zxid;
        before.promise(member_id(1, 1), &founding, None).expect("promises");
        drop(before);
        let error = start(&disk).expect_err("refused");
        let is_right = match error {
            EnsembleError::Storage(StorageError::WentOn { .. }) => is_more,
            EnsembleError::BaseLost { .. } => !is_more,
            _ => false,
        };
        let told = error.to_string();
        let instructs = told.replace("Do not start it with an empty directory", "");
        assert!(is_right && !instructs.contains("empty"), "{told}");
        assert_eq!(told.contains("data leave"), !is_more, "{told}");
        // As it says.
        RaftStateFile::leave(&directory(&disk)).expect("leaves");
        let base = read(&disk).base();
        assert_eq!((base.epoch, base.zxid), (OWN >> 32, OWN));
    }
}
