//! Starts of a member from what different pasts have left in its directory.

use std::path::Path;
use std::time::Duration;

use super::super::disk::{What, Write};
use super::super::fixture::{change, directory, ensemble, entry};
use super::super::ground::take_another_seat;
use super::super::member_id;
use super::*;
use crate::engine::database::Rules;
use crate::ensemble::founding::Seat;
use crate::message::told::lines_told;
use crate::storage::sim::{Dice, Fault, SimDisk};
use crate::storage::{LogEntry, Members, RaftStateFile, Reading, adler32};

/// As a start of a server alone does, once a second.
#[test]
fn a_members_start_tells_how_far_it_is() {
    let rebuild = Rebuild::new(1, Rules::default());
    let mut replay = FinalOnly::new(rebuild, 0);
    std::thread::sleep(Duration::from_secs(1));
    for reading in [Reading::Snapshot, Reading::Logs] {
        let ((), lines) = lines_told(|| replay.progress(reading, 1, 2));
        assert_eq!(lines, usize::from(reading == Reading::Snapshot), "{reading:?}");
    }
}

/// What lay there goes aside, unless somebody has gone on with it since it was to.
#[test]
fn what_another_server_has_gone_on_with_does_not_go_aside() {
    for (own, newer) in [(0x5_0000_0007, false), (0x5_0000_0006, true)] {
        let disk = SimDisk::default();
        let open = || Arc::new(directory(&disk));
        let log = Path::new("/data/version-2/log.500000007");
        let LogEntry { payload, .. } = entry(1, 0x5_0000_0007);
        let mut bytes = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
        bytes.extend(i64::from(adler32(&payload)).to_be_bytes());
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(payload.iter().chain(b"B"));
        disk.plant(log, &bytes);
        let members = Members { voters: vec![member_id(1, 1)], ..Members::default() };
        let first = RaftState {
            id: member_id(1, 1),
            term: 6,
            clears: true,
            own: (5, own),
            members,
            ..RaftState::default()
        };
        RaftStateFile::create(&open(), &first, None).expect("creates");
        let started = ensemble(1500, true).start(open()).map(drop);
        match newer {
            false => started.expect("starts"),
            true => {
                let ended = started.expect_err("ends");
                assert!(matches!(ended, EnsembleError::Storage(StorageError::WentOn { .. })));
                assert!(!disk.content(log).is_empty(), "it is there");
            }
        }
    }
}

/// A member that was taken out takes another seat, and the power goes at any time: it is the
/// one or the other, and what it had is in one place.
#[test]
fn another_seat_is_taken_whenever_the_power_goes() {
    let (gone, new) = (member_id(2, 1), member_id(2, 40));
    let voters = vec![member_id(1, 1), member_id(3, 1)];
    let how = Ensemble { server: 2, ..ensemble(1500, true) };
    let (mut again, mut aside) = (0, 0);
    for fails_after in 0..90 {
        let disk = SimDisk::default();
        let open = || Arc::new(directory(&disk));
        let all = [voters.as_slice(), &[gone]].concat();
        let members = Members { voters: all, ..Members::default() };
        let first = RaftState { id: gone, term: 7, ensemble: 5, members, ..RaftState::default() };
        RaftStateFile::create(&open(), &first, None).expect("creates");
        let mut started = how.start(open()).expect("starts");
        let entry = entry(1, 7 << 32);
        started.writer.write(vec![Write(What::Append(vec![entry]))]).expect("writes");
        started.writer.write(vec![Write(What::Over(Over::Removed))]).expect_err("ends");
        drop(started);
        let had = disk.content(Path::new("/data/version-2/log.700000000"));
        let members = Members { voters: voters.clone(), learners: vec![new], ..Members::default() };
        let (line, generation) = (5, 1);
        let seat =
            Seat { id: new, ensemble: 5, line, generation, term: 6, members, configured_at: 40 };
        let at = open();
        disk.fail_after(fails_after, Fault::PowerLoss);
        let taken = take_another_seat(&at, seat.clone(), None);
        let started = taken.and_then(|()| how.start(at).map(drop));
        disk.crash(&mut Dice(fails_after));
        let open = || Arc::new(directory(&disk));
        let state = RaftStateFile::look(&open()).expect("reads").expect("a member");
        if state.id == gone {
            assert!(started.is_err() && state.is_removed());
            assert!(disk.content(Path::new("/data/version-2/log.700000000")) == had);
            how.promises(&open()).expect("what it promised is whole");
            take_another_seat(&open(), seat, None).expect("takes it now");
            again += 1;
        }
        let started = how.start(open()).expect("starts");
        assert_eq!((started.id(), started.store.log.last_index()), (new, 0));
        let kept = disk.content(Path::new("/data/before-0000000000000005-40/log.700000000"));
        assert!(kept == had && !had.is_empty(), "after {fails_after}");
        aside += 1;
    }
    assert!(again > 3 && aside == 90, "{again} {aside}");
}

/// The log of a member whose promises are of before it.
fn started_behind(own: u8, changes: &[(u64, MemberChange)]) -> Result<Started, EnsembleError> {
    let disk = SimDisk::default();
    let open = || directory(&disk);
    let voters = (1..6).map(|server| member_id(server, 1)).collect();
    let members = Members { voters, ..Members::default() };
    let first = RaftState { id: member_id(own, 1), term: 1, members, ..RaftState::default() };
    RaftStateFile::create(&open(), &first, None).expect("creates");
    let how = Ensemble { server: own, ..ensemble(1500, true) };
    let mut started = how.start(Arc::new(open())).expect("starts");
    let entries = (1..30).map(|index| {
        let zxid = (1_u64 << 32 | (index - 1)).cast_signed();
        let found = changes.iter().find(|(at, _)| *at == index);
        found.map_or_else(|| entry(index, zxid), |(_, what)| change(index, zxid, *what))
    });
    let write = Write(What::Append(entries.collect()));
    started.writer.write(vec![write]).expect("writes");
    drop(started);
    how.start(Arc::new(open()))
}

#[test]
fn an_older_copy_that_was_refused_never_starts_again() {
    let disk = SimDisk::default();
    let open = || Arc::new(directory(&disk));
    let members = Members { voters: vec![member_id(1, 1)], ..Members::default() };
    let first = RaftState { id: member_id(1, 1), term: 1, members, ..RaftState::default() };
    RaftStateFile::create(&open(), &first, None).expect("creates");
    let how = ensemble(1500, true);
    let mut started = how.start(open()).expect("starts");
    let ended = started.writer.write(vec![Write(What::Over(Over::OlderCopy))]).expect_err("ends");
    assert!(matches!(ended, EnsembleError::OlderCopy { .. }), "{ended}");
    drop(started);
    for _ in 0..2 {
        let ended = how.start(open()).map(drop).expect_err("ends");
        assert!(ended.to_string().contains("/data/version-2 is an older copy"), "{ended}");
    }
}

#[test]
fn a_start_does_not_know_members_of_two_changes_ago() {
    let (gone, new) = (member_id(5, 1), member_id(5, 9));
    let changes = [
        (9, MemberChange::Seat(5)),
        (14, MemberChange::Remove(gone)),
        (20, MemberChange::Vote(new)),
    ];
    for (count, commit, voters, learners) in [
        // What is alone may not be final.
        (1, 0, 5, vec![]),
        (2, 9, 5, vec![new]),
        (3, 14, 4, vec![new]),
    ] {
        let started = started_behind(1, &changes[..count]).expect("starts");
        let promises = &started.store.promises;
        assert_eq!((promises.commit, promises.configured_at), (commit, commit));
        assert_eq!(started.applied, commit);
        assert_eq!(promises.members.voters.len(), voters);
        assert_eq!(promises.members.learners, learners);
        assert_eq!(started.writer.promises.get(), promises, "it is durable");
    }
    // It was taken out itself.
    let ended = started_behind(5, &changes).map(drop).expect_err("ends");
    assert!(matches!(ended, EnsembleError::Replaced { life: 1 }), "{ended}");
    started_behind(5, &changes[..2]).expect("that it was is not final");
}
