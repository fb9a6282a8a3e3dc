//! Each file of a directory missing, empty, cut or garbage: a start shows the whole tree or refuses
//! with a word. Never less silently, apart from what nobody can know: how far the last log reached.

use super::Disk;
use super::StorageError;
use super::disk::sim::Dice;
use super::files::seal;
use super::files::session_key::SessionKey;
use super::fixture::{Fixture, offsets};
use super::log::txn_log::LogOptions;

/// Three processes: snapshots at 0 and 4 with logs from the first on, epochs, a key, a spare.
fn worn() -> Fixture {
    let fixture = Fixture::new(LogOptions { segment_len: 4096, spares: 1, force_sync: true });
    fixture.write(&[&[1, 2], &[3, 4]]);
    let (recovered, ledger) = fixture.start().expect("starts");
    ledger.snapshot(&fixture.open(), recovered.log.next_index() - 1).expect("snapshot");
    fixture.write(&[&[5], &[6, 7]]);
    let recovered = fixture.write(&[&[8], &[9, 10]]);
    let mut filler = recovered.log.spare_filler();
    filler.step().expect("fills");
    for (name, content) in [
        ("currentEpoch", b"0".as_slice()),
        ("acceptedEpoch", b"0"),
        ("session.key", &[7; 32]),
        ("ferrokeeper.sealed", b"0x3\n"),
    ] {
        fixture.disk.plant(&Fixture::path(name), content);
    }
    fixture
}

/// What can become of a file.
fn fates(content: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let mut dice = Dice(content.len() as u64);
    let len = content.len();
    let mut fates = vec![
        ("missing".to_owned(), None),
        ("zeros".to_owned(), Some(vec![0; len])),
        ("garbage".to_owned(), Some((0..len).map(|_| dice.next().to_le_bytes()[0]).collect())),
    ];
    let step = (len / 40).max(1);
    for cut in (0..len).step_by(step).chain(len.saturating_sub(15)..len) {
        fates.push((format!("cut to {cut}"), Some(content[..cut].to_vec())));
    }
    fates
}

/// ZOOKEEPER-2325, ZOOKEEPER-3644 and ZOOKEEPER-2332: files that are missing or empty gave an empty
/// tree, or no start.
#[test]
fn any_one_file_missing_empty_cut_or_garbage() {
    let (mut started, mut refused) = (0, 0);
    for name in worn().names() {
        for (fate, content) in fates(&worn().content(&name)) {
            let fixture = worn();
            match content {
                Some(content) => fixture.disk.plant(&Fixture::path(&name), &content),
                None => fixture.disk.remove(&Fixture::path(&name)).expect("removes"),
            }
            let before = fixture.image();
            match fixture.start() {
                Ok((recovered, ledger)) => {
                    started += 1;
                    let whole: Vec<i64> = (1..=recovered.last_zxid).collect();
                    let found: Vec<i64> = ledger.txns.keys().copied().collect();
                    assert_eq!(found, whole, "{name} {fate}");
                    // The last log alone says how far it reached.
                    let least = if name == "log.8" { 7 } else { 10 };
                    assert!(recovered.last_zxid >= least, "{name} {fate}: {recovered:?}");
                }
                Err(error) => {
                    refused += 1;
                    let text = error.to_string();
                    // Of a file that is missing, the one before it tells.
                    let told = if fate == "missing" { "/data/version-2/log." } else { &name };
                    assert!(text.contains(told), "{name} {fate}: {text}");
                    assert_eq!(fixture.image(), before, "{name} {fate}: touched");
                }
            }
        }
    }
    assert!(started > 50 && refused > 50, "{started} starts, {refused} refusals");
}

/// RaftKeeper#234, #160: without any snapshot its replay crashed. ZOOKEEPER-2325: ZooKeeper began
/// an empty tree.
#[test]
fn without_any_snapshot_and_with_a_cut_log_nothing_starts() {
    for cut in [usize::MAX, 1000, 100, 17] {
        let fixture = worn();
        for name in fixture.names().iter().filter(|name| name.starts_with("snapshot.")) {
            fixture.disk.remove(&Fixture::path(name)).expect("removes");
        }
        fixture.edit("log.1", |log| log.truncate(cut));
        let error = fixture.start().expect_err("refused");
        assert!(matches!(error, StorageError::LogWithoutSnapshot { .. }), "{cut}: {error}");
        assert!(error.to_string().contains("log."), "{error}");
    }
}

/// RaftKeeper#240, #363: an incomplete snapshot was taken for a whole one and all else was gone.
#[test]
fn an_incomplete_snapshot_gives_way_to_the_older_one_with_its_log() {
    let len = worn().content("snapshot.4").len();
    for cut in 0..len {
        let fixture = worn();
        fixture.edit("snapshot.4", |snapshot| snapshot.truncate(cut));
        let (recovered, ledger) = fixture.start().expect("starts");
        // Without its tails it is a whole snapshot of an older ZooKeeper.
        let is_whole = [len - 54, len - 21].contains(&cut);
        let zxid = if is_whole { 4 } else { 0 };
        assert_eq!((recovered.snapshot.zxid, ledger.txns.len()), (zxid, 10), "{cut}");
    }
}

#[test]
fn what_stands_in_a_spare_never_becomes_a_record() {
    for seed in 0..50 {
        let fixture = worn();
        let spare =
            fixture.names().into_iter().find(|name| name.starts_with("spare.")).expect("one");
        let mut dice = Dice(seed);
        // Also whole records, as a careless copy would leave them.
        let log = fixture.content("log.8");
        fixture.edit(&spare, |content| {
            if seed % 2 == 0 {
                content.fill_with(|| dice.next().to_le_bytes()[0]);
            } else {
                content[16..log.len()].copy_from_slice(&log[16..]);
            }
        });
        fixture.write(&[&[11], &[12]]);
        match fixture.start() {
            Ok((recovered, ledger)) => {
                assert_eq!((recovered.last_zxid, ledger.txns.len()), (12, 12), "{seed}");
            }
            // A whole record right after the last one cannot be told from one that was lost
            // before.
            Err(error) => {
                assert!(matches!(error, StorageError::Damage { last_good: 12, .. }), "{error}");
                assert_eq!(seed % 2, 1, "{error}");
            }
        }
    }
}

/// A start in the middle of the last group shows its beginning, whatever stands after.
#[test]
fn the_last_log_cut_anywhere_shows_what_is_whole() {
    let whole = worn().content("log.8");
    let offsets = offsets(&whole);
    for cut in 16..whole.len() {
        let fixture = worn();
        fixture.edit("log.8", |log| log.truncate(cut));
        let records = offsets.iter().skip(1).filter(|end| **end <= cut).count() as i64;
        let (recovered, ledger) = fixture.start().expect("starts");
        assert_eq!((recovered.last_zxid, ledger.last()), (7 + records, 7 + records), "{cut}");
    }
}

#[test]
fn small_files_are_whole_or_refused() {
    for len in 0..40 {
        let fixture = worn();
        fixture.disk.plant(&Fixture::path("session.key"), &vec![1; len]);
        let directory = fixture.open();
        let read = SessionKey::read(&fixture.disk, directory.snapshots());
        assert_eq!(read.is_ok(), len == 32, "{len}");
    }
    let fixture = worn();
    fixture.disk.plant(&Fixture::path("ferrokeeper.sealed"), b"");
    let directory = fixture.open();
    seal::sealed_up_to(&fixture.disk, directory.snapshots()).expect_err("refused");
}
