use super::*;
use crate::storage::disk::sim::{Dice, Fault};
use crate::storage::fixture::{FOLDER, Fixture};

fn state(term: u64) -> RaftState {
    let members = Members {
        voters: vec![1, 2, 3],
        learners: vec![4],
        voters_outgoing: vec![1],
        learners_next: vec![5],
        auto_leave: true,
    };
    let (vote, commit) = (term % 3, term * 10);
    RaftState {
        id: 2,
        term,
        vote,
        commit,
        ensemble: 77,
        line: 66,
        generation: 4,
        base: 5,
        clears: true,
        own: (3, 0x3_0000_0009),
        founded_in: 4,
        founds: true,
        asks: vec![0, 9, 255],
        awaits: 0x103,
        replaces: 99,
        members,
        configured_at: 88,
        over: Some(Over::Removed),
    }
}

fn open(directory: &DataDirectory, term: u64) -> RaftStateFile {
    if RaftStateFile::look(directory).expect("looks").is_none() {
        RaftStateFile::create(directory, &state(term), None).expect("creates");
    }
    RaftStateFile::open(directory).expect("opens").expect("is there")
}

fn path() -> PathBuf {
    Path::new(FOLDER).join("raft.state")
}

#[test]
fn what_was_saved_is_there_after_any_crash() {
    let fixture = Fixture::default();
    let mut dice = Dice(1);
    let mut saved = 0;
    let mut tried = 0;
    for _ in 0..2_000 {
        let directory = fixture.open();
        let mut file = open(&directory, 0);
        let found = file.get().term;
        assert!((saved..=tried).contains(&found), "{saved} to {tried}, not {found}");
        assert_eq!(*file.get(), state(found));
        saved = found;
        fixture.disk.fail_after(dice.below(30), Fault::PowerLoss);
        for term in saved + 1.. {
            tried = term;
            if file.save(state(term)).is_err() {
                break;
            }
            saved = term;
        }
        assert!(matches!(file.save(state(9_999)), Err(StorageError::Poisoned)));
        drop((file, directory));
        fixture.disk.crash(&mut dice);
    }
    assert!(saved > 2_000);
}

/// What is final stands in one slot only, so that it costs one sync; a term and a vote stand in
/// the other one, too.
#[test]
fn what_is_final_is_written_once_and_takes_no_promise_along() {
    let fixture = Fixture::default();
    let mut dice = Dice(1);
    let (mut saved, mut tried, mut said) = (0, 0, 0);
    for _ in 0..1_000 {
        let directory = fixture.open();
        let mut file = open(&directory, 0);
        let found = file.get().clone();
        let RaftState { term, commit, .. } = found;
        assert!((saved..=tried).contains(&term), "{saved} to {tried}, not {term}");
        assert!(commit >= said.max(10 * term), "{said}, not {commit}");
        assert_eq!(found, RaftState { commit, ..state(term) });
        (saved, said) = (term, commit);
        fixture.disk.fail_after(dice.below(30), Fault::PowerLoss);
        loop {
            let (_, syncs) = fixture.disk.writes_and_syncs();
            let more = said + dice.below(3);
            if dice.coin() {
                if file.save_commit(more).is_err() {
                    break;
                }
                let (_, now) = fixture.disk.writes_and_syncs();
                assert_eq!(now - syncs, u64::from(more > said));
                said = more;
            } else {
                tried = saved + 1;
                let commit = said.max(10 * tried);
                if file.save(RaftState { commit, ..state(tried) }).is_err() {
                    break;
                }
                (saved, said) = (tried, commit);
            }
        }
        assert!(matches!(file.save_commit(u64::MAX), Err(StorageError::Poisoned)));
        drop((file, directory));
        fixture.disk.crash(&mut dice);
    }
    assert!(saved > 1_000);
}

#[test]
fn the_layout_is_the_documented_one() {
    let fixture = Fixture::default();
    let directory = fixture.open();
    let mut file = open(&directory, 6);
    file.save(state(7)).expect("saves");
    let bytes = fixture.disk.content(&path());
    assert_eq!(bytes.len(), 8192);
    let mut expected = b"FKRS\0\0\0\x03".to_vec();
    // Made with 1 and 2, opened with 3, saved with 4 and 5.
    for number in [5_u64, 2, 7, 1, 70, 77, 5] {
        expected.extend(number.to_be_bytes());
    }
    expected.extend([1, 1]);
    for list in [[1_u64, 2, 3].as_slice(), &[4], &[1], &[5]] {
        expected.extend((list.len() as u32).to_be_bytes());
        list.iter().for_each(|id| expected.extend(id.to_be_bytes()));
    }
    assert_eq!(bytes[..expected.len()], expected);
    assert!(bytes[expected.len()..3994].iter().all(|byte| *byte == 0));
    assert_eq!(bytes[3994..4002], 66_u64.to_be_bytes());
    assert_eq!(bytes[4002..4010], 4_u64.to_be_bytes());
    assert_eq!(bytes[4010], 1);
    assert_eq!(bytes[4011..4019], 4_u64.to_be_bytes());
    let mut asks = [0; 32];
    (asks[0], asks[1], asks[31]) = (1, 2, 0x80);
    assert_eq!(bytes[4019..4051], asks);
    assert_eq!(bytes[4051..4059], 0x103_u64.to_be_bytes());
    assert_eq!(bytes[4059..4067], 3_i64.to_be_bytes());
    assert_eq!(bytes[4067..4075], 0x3_0000_0009_i64.to_be_bytes());
    assert_eq!(bytes[4075], 2);
    assert_eq!(bytes[4076..4084], 88_u64.to_be_bytes());
    assert_eq!(bytes[4084..4092], 99_i64.to_be_bytes());
    expected[8..16].copy_from_slice(&4_u64.to_be_bytes());
    assert_eq!(bytes[4096..4096 + expected.len()], expected);
    assert_eq!(fixture.disk.content(&Path::new(FOLDER).join("acceptedEpoch")), b"7");
    for (over, number) in [(None, 0), (Some(Over::OlderCopy), 1)] {
        file.save(RaftState { over, ..state(7) }).expect("saves");
        let bytes = fixture.disk.content(&path());
        assert_eq!((bytes[4075], bytes[4096 + 4075]), (number, number));
        assert_eq!(file.get().over, over);
    }
}

#[test]
fn the_key_of_passwords_stays_behind_what_changes() {
    let fixture = Fixture::default();
    let directory = fixture.open();
    let secret = SessionSecret { key: SessionKey::new([7; 32]), before: vec![5, -6] };
    RaftStateFile::create(&directory, &state(1), Some(&secret)).expect("creates");
    let mut file = open(&directory, 1);
    for term in 2..5 {
        file.save(state(term)).expect("saves");
    }
    drop(file);
    let file = open(&directory, 1);
    assert_eq!((file.get(), file.secret()), (&state(4), Some(&secret)));
    drop(file);
    let whole = fixture.disk.content(&path());
    let mut expected = vec![7; 32];
    expected.extend(2_u32.to_be_bytes());
    [5_i64, -6].iter().for_each(|id| expected.extend(id.to_be_bytes()));
    expected.extend(crc32fast::hash(&expected).to_be_bytes());
    assert_eq!(whole[8192..], expected);
    for damaged in 8192..whole.len() {
        let mut bytes = whole.clone();
        bytes[damaged] ^= 1;
        fixture.disk.plant(&path(), &bytes);
        let error = RaftStateFile::open(&directory).expect_err("refused");
        assert!(matches!(error, StorageError::RaftState { .. }), "{error}");
        fixture.disk.plant(&path(), &whole[..damaged.max(8193)]);
        RaftStateFile::look(&directory).expect_err("refused");
    }
}

#[test]
fn a_promise_that_is_gone_is_no_start() {
    let fixture = Fixture::default();
    let directory = fixture.open();
    let mut file = open(&directory, 6);
    file.save(state(7)).expect("saves");
    drop(file);
    let whole = fixture.disk.content(&path());
    let flipped = |at: &[usize]| {
        let mut bytes = whole.clone();
        at.iter().for_each(|at| bytes[*at] ^= 1);
        bytes
    };
    for bytes in [flipped(&[0, 4096]), flipped(&[8191, 4095])] {
        fixture.disk.plant(&path(), &bytes);
        let error = RaftStateFile::open(&directory).expect_err("refused");
        assert!(matches!(error, StorageError::RaftState { .. }), "{error}");
    }
    for at in [0, 4095, 4096, 8191] {
        fixture.disk.plant(&path(), &flipped(&[at]));
        assert_eq!(*open(&directory, 1).get(), state(7));
    }
}

/// The other slot tells what was promised before.
#[test]
fn opening_what_an_earlier_release_wrote_takes_no_promise_back() {
    let members = Members { voters: vec![1, 2, 3], ..Members::default() };
    let promised = |vote| RaftState {
        id: 1,
        term: 7,
        vote,
        generation: 1,
        members: members.clone(),
        ..RaftState::default()
    };
    let mut bytes = [(0, 1), (2, 2)]
        .map(|(vote, sequence)| encode(&promised(vote), sequence).expect("a slot"))
        .concat();
    for slot in [0, 4096] {
        bytes[slot + 7] = 1;
        bytes[slot + 3994..slot + 4010].fill(0);
        let checksum = crc32fast::hash(&bytes[slot..slot + 4092]).to_be_bytes();
        bytes[slot + 4092..slot + 4096].copy_from_slice(&checksum);
    }
    let (mut dice, mut torn) = (Dice(1), 0);
    for round in 0..400 {
        let fixture = Fixture::default();
        let directory = fixture.open();
        RaftStateFile::create(&directory, &promised(0), None).expect("creates");
        fixture.disk.plant(&path(), &bytes);
        fixture.disk.fail_after(round % 12, Fault::PowerLoss);
        torn += u32::from(RaftStateFile::open(&directory).is_err());
        drop(directory);
        fixture.disk.crash(&mut dice);
        let found = RaftStateFile::open(&fixture.open()).expect("opens").expect("there");
        assert_eq!(*found.get(), promised(2), "round {round}");
    }
    assert!(torn > 100, "{torn}");
}

/// Of ZooKeeper, which went on with the directory, or of a state that was lost: then with a
/// vote in that term, perhaps.
#[test]
fn a_later_epoch_makes_a_term_in_which_nothing_was_promised() {
    let fixture = Fixture::default();
    let directory = fixture.open();
    let mut file = open(&directory, 6);
    let before = fixture.disk.content(&path());
    file.save(state(9)).expect("saves");
    drop(file);
    fixture.disk.plant(&path(), &before);
    for _ in 0..2 {
        let expected = RaftState { term: 10, vote: 0, ..state(6) };
        assert_eq!(*open(&directory, 6).get(), expected);
        let accepted = Path::new(FOLDER).join("acceptedEpoch");
        assert_eq!(fixture.disk.content(&accepted), b"10");
    }
    // Neither slot has what was there before.
    let whole = fixture.disk.content(&path());
    for at in [0, 4096] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fixture.disk.plant(&path(), &bytes);
        assert_eq!(open(&directory, 6).get().term, 10);
    }
}

#[test]
fn what_a_later_release_wrote_is_refused_by_name() {
    let fixture = Fixture::default();
    let directory = fixture.open();
    let mut file = open(&directory, 6);
    file.save(state(7)).expect("saves");
    drop(file);
    let whole = fixture.disk.content(&path());
    for slot in [0, 4096] {
        let mut bytes = whole.clone();
        bytes[slot + 7] = 4;
        let checksum = crc32fast::hash(&bytes[slot..slot + 4092]).to_be_bytes();
        bytes[slot + 4092..slot + 4096].copy_from_slice(&checksum);
        fixture.disk.plant(&path(), &bytes);
        let look = RaftStateFile::look(&directory).map(drop);
        for outcome in [look, RaftStateFile::open(&directory).map(drop)] {
            let error = outcome.expect_err("refused");
            let text = error.to_string();
            assert!(matches!(error, StorageError::LaterVersion { version: 4, .. }), "{text}");
            assert!(text.contains("raft.state was written by a later release"), "{text}");
        }
        assert_eq!(fixture.disk.content(&path()), bytes, "touched");
    }
}

/// What a release of before wrote: the same bytes, with this version and zeros for what it did
/// not know.
fn of_before(version: u8, unknown: std::ops::Range<usize>, state: &RaftState) -> Vec<u8> {
    let slots = [1, 2].map(|sequence| {
        let mut slot = encode(state, sequence).expect("a slot");
        slot[7] = version;
        slot[unknown.clone()].fill(0);
        let checksum = crc32fast::hash(&slot[..4092]).to_be_bytes();
        slot[4092..].copy_from_slice(&checksum);
        slot
    });
    slots.concat()
}

/// Of the first one, its founding was over, as far as it knew; of both, the ensemble was the
/// first of its line.
#[test]
fn earlier_versions_are_read() {
    let first = RaftState { line: 77, generation: 1, founds: false, ..state(7) };
    let founded = RaftState { configured_at: 0, ..first.clone() };
    let of_nobody = RaftState { asks: Vec::new(), awaits: 0, ..founded.clone() };
    let alone = RaftState { vote: 0, commit: founded.base, awaits: 0, ..founded.clone() };
    let elected = RaftState { vote: alone.id, ..alone.clone() };
    let serving = RaftState { commit: alone.base + 1, ..alone.clone() };
    let (none, unsaid) = ((0, 0), 0);
    for (version, unknown, wrote, expected) in [
        (1, 3994..4075, &first, RaftState { own: none, founded_in: unsaid, ..of_nobody.clone() }),
        (2, 3994..4011, &first, first.clone()),
        // Before the term of the founding stood in it: whoever is still in its founding may not
        // have begun by that term.
        (2, 3994..4019, &founded, RaftState { founded_in: 7, ..founded.clone() }),
        (2, 3994..4019, &of_nobody, RaftState { founded_in: unsaid, ..of_nobody.clone() }),
        // Its members have changed since.
        (2, 3994..4019, &first, RaftState { founded_in: unsaid, ..first.clone() }),
        // A founder: alone yet, after it was elected, after it learned of a record that is
        // final.
        (2, 3994..4019, &alone, RaftState { founded_in: 7, ..alone.clone() }),
        (2, 3994..4019, &elected, RaftState { founded_in: unsaid, ..elected.clone() }),
        (2, 3994..4019, &serving, RaftState { founded_in: unsaid, ..serving.clone() }),
    ] {
        let expected = RaftState { configured_at: wrote.configured_at, ..expected };
        let fixture = Fixture::default();
        let directory = fixture.open();
        drop(open(&directory, 7));
        fixture.disk.plant(&path(), &of_before(version, unknown, wrote));
        assert_eq!(*open(&directory, 7).get(), expected);
        // From then on it is of this version.
        assert_eq!(fixture.disk.content(&path())[..8], *b"FKRS\0\0\0\x03");
        assert_eq!(*open(&directory, 7).get(), expected);
    }
}

/// As the last release before the lines wrote the file of a founder that two others had still
/// to answer.
#[test]
fn a_file_of_the_second_version_is_read_as_it_was_written() {
    let mut slot = b"FKRS\0\0\0\x02".to_vec();
    for number in [2_u64, 0x101, 6, 0, 9, 0x77, 9] {
        slot.extend(number.to_be_bytes());
    }
    slot.extend([0, 0]);
    for voters in [&[0x101_u64, 0x102, 0x103][..], &[], &[], &[]] {
        slot.extend((voters.len() as u32).to_be_bytes());
        voters.iter().for_each(|id| slot.extend(id.to_be_bytes()));
    }
    slot.resize(4011, 0);
    slot.extend(6_u64.to_be_bytes());
    slot.push(0b1100);
    slot.resize(4059, 0);
    slot.extend(5_i64.to_be_bytes());
    slot.extend(0x5_0000_0009_i64.to_be_bytes());
    slot.resize(4092, 0);
    slot.extend(crc32fast::hash(&slot).to_be_bytes());
    let fixture = Fixture::default();
    let directory = fixture.open();
    drop(open(&directory, 0));
    fixture.disk.plant(&path(), &[vec![0; 4096], slot].concat());
    let expected = RaftState {
        id: 0x101,
        term: 6,
        commit: 9,
        ensemble: 0x77,
        line: 0x77,
        generation: 1,
        base: 9,
        own: (5, 0x5_0000_0009),
        founded_in: 6,
        asks: vec![2, 3],
        members: Members { voters: vec![0x101, 0x102, 0x103], ..Members::default() },
        ..RaftState::default()
    };
    assert_eq!(*RaftStateFile::open(&directory).expect("opens").expect("there").get(), expected);
    assert_eq!(fixture.disk.content(&Path::new(FOLDER).join("acceptedEpoch")), b"6");
}

#[test]
fn what_a_failed_sync_left_readable_is_written_again_before_it_counts() {
    for seed in 0..20 {
        let fixture = Fixture::default();
        let directory = fixture.open();
        let mut file = open(&directory, 6);
        fixture.disk.fail_after(1 + 2 * (seed % 2), Fault::Eio);
        file.save(state(7)).expect_err("its sync fails");
        drop((file, directory));
        fixture.disk.kill();
        let directory = fixture.open();
        assert_eq!(*open(&directory, 1).get(), state(7), "it is in memory");
        drop(directory);
        fixture.disk.crash(&mut Dice(seed));
        assert_eq!(*open(&fixture.open(), 1).get(), state(7), "seed {seed}");
    }
}

#[test]
fn one_bit_makes_no_member_forget_what_it_told() {
    let fixture = Fixture::default();
    let directory = fixture.open();
    let mut file = open(&directory, 6);
    file.save(RaftState { vote: 0, ..state(7) }).expect("saves");
    file.save(RaftState { vote: 3, ..state(7) }).expect("saves");
    drop(file);
    let whole = fixture.disk.content(&path());
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fixture.disk.plant(&path(), &bytes);
        if let Ok(Some(file)) = RaftStateFile::open(&directory) {
            assert_eq!(file.get().vote, 3, "byte {at}");
        }
    }
}

#[test]
fn more_members_than_can_be_are_refused() {
    let fixture = Fixture::default();
    let directory = fixture.open();
    let mut file = open(&directory, 6);
    let mut many = state(7);
    many.members.voters = (0..480).collect();
    assert!(matches!(file.save(many), Err(StorageError::Members)));
    file.save(state(8)).expect("the file is unharmed");
}
