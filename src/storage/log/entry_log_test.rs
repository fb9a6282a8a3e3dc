use std::path::Path;

use jute::txn::{Txn, TxnHeader, TxnRecord};

use super::*;
use crate::storage::disk::sim::{Dice, Fault};
use crate::storage::fixture::{FOLDER, Fixture};
use crate::storage::ledger::Ledger;
use crate::storage::log::txn_log::LogOptions;
use crate::storage::recovery::{RecoveryOptions, recover};
use crate::storage::{
    Compression, Disk, EpochFile, Purged, Reading, ReceivedSnapshot, Refused, Replay,
    discard_void_log, purge,
};

#[path = "entry_log_test/removed.rs"]
mod removed;

/// Takes any record: consensus has its own idea of what they mean.
#[derive(Default)]
struct Any(Vec<i64>);

impl Replay for Any {
    fn begin(&mut self, _: &SnapshotId) {
        self.0.clear();
    }
    fn session(&mut self, _: i64, _: i32) -> Result<(), Refused> {
        Ok(())
    }
    fn acl(&mut self, _: i64, _: Vec<jute::Acl<'_>>) -> Result<(), Refused> {
        Ok(())
    }
    fn node(&mut self, _: &str, _: &jute::persist::SnapshotNode<'_>) -> Result<(), Refused> {
        Ok(())
    }
    fn end(&mut self, _: Option<jute::persist::SnapshotDigest>) -> Result<(), Refused> {
        Ok(())
    }
    fn progress(&mut self, _: Reading, _: u64, _: u64) {}
    fn is_another_history(&self) -> bool {
        false
    }
    fn txn(&mut self, record: &TxnRecord<'_>) -> Result<(), Refused> {
        self.0.push(record.header.zxid);
        Ok(())
    }
}

fn fixture() -> Fixture {
    let log = LogOptions { segment_len: 1024, spares: 1, force_sync: true };
    let fixture = Fixture::default();
    Fixture { options: RecoveryOptions { trust_empty: false, log }, ..fixture }
}

/// A log whose every append is written at once.
struct Both {
    log: EntryLog,
    writer: EntryWriter,
}

impl Both {
    fn append(&mut self, entries: Vec<LogEntry>) -> Result<(), StorageError> {
        self.log.put(&entries);
        self.writer.append(&entries)?;
        self.write()
    }

    fn write(&mut self) -> Result<(), StorageError> {
        self.writer.commit()?;
        let next = self.log.last_index() + 1;
        self.log.written(self.writer.take_segments(), next);
        Ok(())
    }

    fn purge(&mut self, keep: usize) -> Result<Purged, StorageError> {
        let purged = purge(&self.log.directory, keep)?;
        self.writer.forget_removed(self.log.last_index())?;
        self.write()?;
        Ok(purged)
    }
}

impl std::ops::Deref for Both {
    type Target = EntryLog;

    fn deref(&self) -> &EntryLog {
        &self.log
    }
}

fn open(fixture: &Fixture) -> Result<Both, StorageError> {
    let directory = Arc::new(fixture.open());
    let replaces = fixture.replaces.get();
    if replaces != 0 {
        discard_void_log(&directory, replaces, &mut Any::default())?;
        fixture.replaces.set(0);
    }
    let recovered = recover(&directory, fixture.options, &mut Any::default())?;
    if recovered.fresh {
        Ledger::default().snapshot(&directory, 0)?;
    }
    let (log, writer) = EntryLog::open(directory, recovered.log, recovered.snapshot, 0)?;
    Ok(Both { log, writer })
}

fn entry(index: u64, zxid: i64) -> LogEntry {
    let header = TxnHeader { client_id: 0, cxid: 0, zxid, time: 0 };
    let mut payload = Vec::new();
    // Of any length: what is looked at is the place.
    let txn = if zxid % 3 == 0 {
        Txn::Error(0)
    } else {
        Txn::SetData(jute::txn::SetDataTxn {
            path: "/x".into(),
            data: Some(vec![7; usize::try_from(zxid % 200).unwrap()].into()),
            version: 1,
        })
    };
    TxnRecord { header, txn, digest: None }.encode(&mut payload);
    let kind = if zxid % 5 == 0 { EntryKind::Membership } else { EntryKind::Ordinary };
    LogEntry { index, zxid, kind, payload: payload.into() }
}

/// Of some 1200 bytes.
fn large(index: u64) -> LogEntry {
    let header = TxnHeader { client_id: 0, cxid: 0, zxid: zxid(1, index as i64), time: 0 };
    let data = vec![index as u8; 1100];
    let txn = jute::txn::SetDataTxn { path: "/x".into(), data: Some(data.into()), version: 1 };
    let mut payload = Vec::new();
    TxnRecord { header, txn: Txn::SetData(txn), digest: None }.encode(&mut payload);
    LogEntry { index, zxid: header.zxid, kind: EntryKind::Ordinary, payload: payload.into() }
}

fn zxid(term: i64, counter: i64) -> i64 {
    (term << 32) | counter
}

fn all(log: &EntryLog) -> Vec<LogEntry> {
    log.entries(log.first_index(), u64::MAX, u64::MAX).expect("reads").expect("is there")
}

#[test]
fn no_group_is_so_long_that_it_has_no_place() {
    const LEN: usize = 16 << 20;
    let fixture = fixture();
    let mut both = open(&fixture).expect("opens");
    let data = vec![7; LEN];
    let of = |index: u64| {
        let txn =
            jute::txn::SetDataTxn { path: "/x".into(), data: Some((&data).into()), version: 1 };
        let header = TxnHeader { client_id: 0, cxid: 0, zxid: zxid(1, index as i64), time: 0 };
        let mut payload = Vec::new();
        TxnRecord { header, txn: Txn::SetData(txn), digest: None }.encode(&mut payload);
        LogEntry { index, zxid: header.zxid, kind: EntryKind::Ordinary, payload: payload.into() }
    };
    for index in 1..=6 {
        both.writer.append(&[of(index)]).expect("is taken");
        assert!(both.writer.log.group_len() < GROUP_FULL + LEN + 200, "behind {index}");
    }
    // Nothing had to be said for the first of them.
    assert!(both.writer.log.durable_zxid() >= zxid(1, 4));
    both.writer.commit().expect("is durable");
    assert_eq!(both.writer.log.durable_zxid(), zxid(1, 6));
}

#[test]
fn entries_are_read_back_from_memory_and_from_files() {
    let fixture = fixture();
    let mut log = open(&fixture).expect("opens");
    let entries: Vec<LogEntry> = (0..60)
        .map(|at| if at < 40 { zxid(1, at) } else { zxid(3, at - 40) })
        .zip(1..)
        .map(|(zxid, index)| entry(index, zxid))
        .collect();
    for group in entries.chunks(7) {
        log.append(group.to_vec()).expect("appends");
    }
    assert_eq!(all(&log), entries);
    drop(log);
    let log = open(&fixture).expect("opens");
    assert!(log.tail.is_empty());
    assert!(log.segments.len() > 3);
    assert_eq!((log.first_index(), log.last_index()), (1, 60));
    assert_eq!(all(&log), entries);
    for entry in &entries {
        assert_eq!(log.zxid(entry.index), Some(entry.zxid));
        let one = log.entries(entry.index, entry.index + 9, 0).expect("reads").expect("is there");
        assert_eq!(one, std::slice::from_ref(entry));
    }
    assert_eq!((log.zxid(0), log.zxid(61)), (Some(0), None));
}

#[test]
fn what_is_appended_behind_a_reader_is_read() {
    let fixture = fixture();
    let mut log = open(&fixture).expect("opens");
    log.append((1..4).map(|at| entry(at, zxid(1, at as i64))).collect()).expect("appends");
    drop(log);
    let mut log = open(&fixture).expect("opens");
    for at in 4..7 {
        assert_eq!(log.entries(1, 4, u64::MAX).expect("reads").expect("there").len(), 3);
        log.append(vec![entry(at, zxid(1, at as i64))]).expect("appends");
        log.log.tail.clear();
        assert_eq!(all(&log).len(), at as usize);
    }
}

/// Entries are read before they are written, whatever is cut off before the writer comes to it.
#[test]
fn what_is_not_written_yet_is_read_back() {
    for seed in 0..100 {
        let mut dice = Dice(seed);
        let fixture = fixture();
        let mut log = open(&fixture).expect("opens");
        let mut expected: Vec<LogEntry> = Vec::new();
        let mut waiting: VecDeque<Vec<LogEntry>> = Vec::new().into();
        let mut term = 1;
        for _ in 0..60 {
            let keep = match dice.below(4) {
                0 => dice.below(expected.len() as u64 + 1) as usize,
                _ => expected.len(),
            };
            term += i64::from(keep < expected.len());
            expected.truncate(keep);
            let last = expected.last().map_or(0, |entry| entry.zxid);
            for more in 1..=1 + dice.below(4) as i64 {
                let zxid = if last >> 32 == term { last + more } else { zxid(term, more - 1) };
                expected.push(entry(expected.len() as u64 + 1, zxid));
            }
            log.log.put(&expected[keep..]);
            waiting.push_back(expected[keep..].to_vec());
            for _ in 0..dice.below(4) {
                let Some(group) = waiting.pop_front() else { break };
                log.writer.append(&group).expect("appends");
            }
            log.writer.commit().expect("commits");
            let first = |group: &Vec<LogEntry>| group[0].index;
            let unwritten = waiting.iter().map(first).min();
            let unwritten = unwritten.unwrap_or_else(|| log.last_index() + 1);
            let segments = log.writer.take_segments();
            log.log.written(segments, unwritten);
            // As if there were no room for what is written.
            let tail = &mut log.log.tail;
            while tail.pop_front_if(|entry| entry.index < unwritten).is_some() {}
            assert_eq!(all(&log), expected, "seed {seed}");
            for (at, entry) in expected.iter().enumerate() {
                assert_eq!(log.zxid(at as u64 + 1), Some(entry.zxid), "seed {seed}");
            }
            assert_eq!(log.last_zxid(), expected.last().expect("some").zxid);
        }
    }
}

#[test]
fn old_entries_go_from_memory_and_come_from_files() {
    let fixture = fixture();
    let mut log = open(&fixture).expect("opens");
    // 2000 are more than what stays of old ones.
    let entries: Vec<LogEntry> = (1..=2000).map(large).collect();
    log.append(entries[..1500].to_vec()).expect("written");
    let bytes = |log: &Both| log.tail.iter().map(|entry| entry.payload.len()).sum::<usize>();
    log.log.age(1501);
    assert_eq!(log.tail.len(), 1500, "they are new");
    log.log.put(&entries[1500..]);
    log.writer.append(&entries[1500..]).expect("taken");
    log.log.age(1);
    assert_eq!(log.tail.len(), 2000, "nothing is durable");
    log.log.age(1001);
    assert_eq!(log.tail.front().map(|entry| entry.index), Some(1001), "up to what is durable");
    log.write().expect("written");
    log.log.age(2001);
    assert!(bytes(&log) <= 1 << 20 && bytes(&log) + 2000 > 1 << 20, "{}", bytes(&log));
    assert_eq!(log.tail.back(), entries.last());
    let mut read = Vec::new();
    let mut pieces = 0;
    while read.len() < entries.len() {
        let next = read.len() as u64 + 1;
        let piece = log.entries(next, 2001, 1 << 20).expect("readable").expect("there");
        assert!(
            next > 1000 || piece.iter().map(|entry| entry.payload.len()).sum::<usize>() < 80_000
        );
        read.extend(piece);
        pieces += 1;
    }
    assert_eq!(read, entries);
    assert!(pieces < 40, "{pieces}");
}

/// Two peers that lag read a file of 2.4 MB in turns, in pieces of 64 kB: it is read about once for
/// each, in ten reads, and not from its beginning for every piece.
#[test]
fn peers_that_lag_are_read_on_for_where_they_stopped() {
    let mut fixture = fixture();
    fixture.options.log.segment_len = 4 << 20;
    let mut log = open(&fixture).expect("opens");
    let entries: Vec<LogEntry> = (1..=2000).map(large).collect();
    log.append(entries.clone()).expect("written");
    log.log.tail.clear();
    assert_eq!(log.segments.len(), 1);
    fixture.disk.fail_a_read_after(40);
    let mut nexts = [1, 1000];
    while nexts != [2001; 2] {
        for next in nexts.iter_mut().filter(|next| **next < 2001) {
            let piece = log.entries(*next, 2001, 1 << 20).expect("reads").expect("there");
            assert_eq!(piece, entries[*next as usize - 1..][..piece.len()]);
            *next += piece.len() as u64;
        }
    }
}

/// A log and its cuts on a disk that loses power at any operation: what is found is what a
/// completed append left, or a beginning of it, or what the interrupted one was about to leave.
#[test]
fn a_cut_tail_stays_cut_and_nothing_before_it_goes() {
    for seed in 0..300 {
        let mut dice = Dice(seed);
        let fixture = fixture();
        let mut expected: Vec<LogEntry> = Vec::new();
        let mut attempted: Vec<LogEntry> = Vec::new();
        // Entries before this one were never to be cut by the interrupted append.
        let mut safe = 0;
        let mut term = 1;
        for _ in 0..8 {
            let mut log = open(&fixture).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let found = all(&log);
            assert!(found.len() >= safe, "seed {seed}: {safe} were final, {} left", found.len());
            assert!(
                expected.starts_with(&found) || attempted.starts_with(&found),
                "seed {seed}: neither what was nor what was to be"
            );
            assert!(found.len() >= expected.len() || attempted != expected, "seed {seed}: lost");
            expected = found;
            fixture.disk.fail_after(dice.below(60), Fault::PowerLoss);
            loop {
                term += i64::try_from(dice.below(2)).unwrap();
                let keep = if dice.below(3) == 0 {
                    dice.below(expected.len() as u64 + 1) as usize
                } else {
                    expected.len()
                };
                let mut next = expected[..keep].to_vec();
                let replaces = keep < expected.len();
                term += i64::from(replaces);
                let last = next.last().map_or(0, |entry| entry.zxid);
                for more in 1..=1 + dice.below(6) as i64 {
                    let zxid = if last >> 32 == term { last + more } else { zxid(term, more - 1) };
                    next.push(entry(next.len() as u64 + 1, zxid));
                }
                attempted = next;
                safe = keep;
                if log.append(attempted[keep..].to_vec()).is_err() {
                    break;
                }
                expected.clone_from(&attempted);
                assert_eq!(all(&log), expected, "seed {seed}");
                assert_eq!(log.last_zxid(), expected.last().unwrap().zxid);
            }
            drop(log);
            fixture.disk.crash(&mut dice);
            let log = open(&fixture).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            // ZooKeeper elects by this first.
            let epoch = EpochFile::current(Arc::new(fixture.disk.clone()), Path::new(FOLDER));
            let epoch = epoch.expect("reads").get();
            assert_eq!(epoch, log.last_zxid() >> 32, "seed {seed}");
        }
    }
}

/// The bytes of a snapshot, made on another disk.
fn snapshot(of: i64, index: u64) -> Vec<u8> {
    let other = Fixture::default();
    let directory = other.open();
    let ledger = Ledger { txns: [(of, vec![1; 900])].into(), ..Ledger::default() };
    ledger.snapshot(&directory, index).expect("writes");
    let files = directory.snapshot_files().expect("lists");
    let path = files.into_iter().find_map(|(zxid, path)| (zxid == of).then_some(path));
    other.disk.content(&path.expect("written"))
}

#[test]
fn a_snapshot_handed_over_takes_the_place_of_the_log_wherever_the_power_goes() {
    // Terms that rise and an uncommitted tail whose term is above the snapshot's.
    let zxids = [zxid(1, 0), zxid(1, 1), zxid(1, 2), zxid(5, 0), zxid(5, 1), zxid(5, 2)];
    for (of, index, same) in [
        (zxid(3, 2), 5, false),
        (zxid(3, 2), 9, false),
        (zxid(6, 2), 4, false),
        (zxid(5, 1), 5, true),
    ] {
        let bytes = snapshot(of, index);
        for seed in 0..60 {
            let mut dice = Dice(seed);
            let fixture = fixture();
            let mut log = open(&fixture).expect("opens");
            for (zxid, index) in zxids.iter().zip(1..) {
                log.append(vec![entry(index, *zxid)]).expect("appends");
            }
            fixture.disk.fail_after(seed / 2, Fault::PowerLoss);
            let directory = Arc::clone(&log.directory);
            drop(log);
            // As the promises have it.
            fixture.replaces.set(of);
            let install = || -> Result<(), StorageError> {
                let mut received =
                    ReceivedSnapshot::create(Arc::clone(&directory), of, Compression::None)?;
                for piece in bytes.chunks(300) {
                    received.write(piece)?;
                }
                received.check(index, &mut Any::default())?;
                received.install()?;
                discard_void_log(&directory, of, &mut Any::default()).map(drop)
            };
            let done = install().is_ok();
            fixture.disk.crash(&mut dice);
            let log = open(&fixture).expect("opens");
            if log.base.index == 0 {
                assert!(!done, "seed {seed}");
                assert_eq!(log.last_index(), 6, "seed {seed}: nothing is lost before it is there");
            } else if same {
                assert_eq!((log.last_index(), log.last_zxid()), (6, zxid(5, 2)), "seed {seed}");
            } else {
                assert_eq!((log.last_index(), log.last_zxid()), (index, of), "seed {seed}");
                assert_eq!(log.first_index(), index + 1, "seed {seed}");
                assert_eq!(log.zxid(index), Some(of), "seed {seed}");
            }
        }
    }
}

#[test]
fn a_snapshot_that_came_in_part_is_not_whole_and_leaves_nothing() {
    let bytes = snapshot(zxid(1, 4), 5);
    let fixture = fixture();
    let log = open(&fixture).expect("opens");
    for (cut, flip) in [(1, None), (0, Some(100)), (500, None)] {
        let mut bytes = bytes.clone();
        bytes.truncate(bytes.len() - cut);
        flip.into_iter().for_each(|at: usize| bytes[at] ^= 1);
        let mut received =
            ReceivedSnapshot::create(Arc::clone(&log.directory), 1, Compression::None)
                .expect("begins");
        received.write(&bytes).expect("writes");
        received.check(5, &mut Any::default()).expect_err("refused");
        assert!(!received.shows(5));
    }
    let mut received =
        ReceivedSnapshot::create(Arc::clone(&log.directory), 1, Compression::None).expect("begins");
    received.write(&bytes).expect("writes");
    received.check(6, &mut Any::default()).expect_err("it is another's");
    assert!(!received.shows(6) && !received.shows(5));
    drop(received);
    let names = fixture.disk.list(Path::new(FOLDER)).expect("lists");
    assert!(!names.iter().any(|name| name.starts_with("tmp.")), "{names:?}");
}

/// A log that ends before the member's own snapshot, in an older term, says nothing of the terms up
/// to there.
#[test]
fn a_log_that_ends_before_the_snapshot_is_as_good_as_purged() {
    // The last term's file is gone, or its only group cannot be read; or the older term goes on to
    // the snapshot's index.
    for (of_first_term, is_flipped) in [(50, false), (50, true), (60, false)] {
        for segment_len in [1024, 1 << 20] {
            let log = LogOptions { segment_len, spares: 1, force_sync: true };
            let fixture = Fixture::new(log);
            let mut log = open(&fixture).expect("opens");
            let of = |index: u64| entry(index, zxid(1, index as i64 - 1));
            log.append((1..=of_first_term).map(of).collect()).expect("appends");
            if is_flipped {
                let of = |index: u64| entry(index, zxid(2, index as i64 - 51));
                log.append((51..=60).map(of).collect()).expect("appends");
            }
            let shown = zxid(2, 9);
            let ledger = Ledger { txns: [(shown, vec![1])].into(), ..Ledger::default() };
            ledger.snapshot(&log.directory, 60).expect("writes");
            drop(log);
            if is_flipped {
                fixture.disk.flip(&Fixture::path("log.200000000"), 30, 0);
            }
            let case = format!("{of_first_term}, {is_flipped}, {segment_len}");
            let expect = |log: &Both, last: u64| {
                assert_eq!((log.zxid(59), log.zxid(60)), (None, Some(shown)), "{case}");
                assert_eq!((log.first_index(), log.last_index()), (61, last), "{case}");
                assert_eq!((log.writer.zxid(59), log.writer.zxid(60)), (None, Some(shown)));
                assert_eq!(log.entries(60, 61, u64::MAX).expect("reads"), None, "{case}");
            };
            let mut log = open(&fixture).unwrap_or_else(|error| panic!("{case}: {error}"));
            expect(&log, 60);
            log.append(vec![entry(61, zxid(3, 0)), entry(62, zxid(3, 1))]).expect("appends");
            log.append(vec![entry(61, zxid(4, 0))]).expect("cuts");
            expect(&log, 61);
            drop(log);
            let log = open(&fixture).unwrap_or_else(|error| panic!("{case}: {error}"));
            expect(&log, 61);
            assert_eq!(all(&log), [entry(61, zxid(4, 0))], "{case}");
        }
    }
}

/// Forty entries, and a snapshot of the thirtieth by the member itself.
fn forty_and_a_snapshot(segment_len: u64) -> Fixture {
    let log = LogOptions { segment_len, spares: 1, force_sync: true };
    let fixture = Fixture::new(log);
    let mut log = open(&fixture).expect("opens");
    for index in 1..=40 {
        log.append(vec![entry(index, zxid(1, index as i64 - 1))]).expect("appends");
    }
    let ledger = Ledger { txns: [(zxid(1, 29), vec![1])].into(), ..Ledger::default() };
    ledger.snapshot(&log.directory, 30).expect("writes");
    fixture
}

#[test]
fn a_flipped_bit_before_the_snapshot_takes_nothing_behind_it_away() {
    // The second as if it had been handed over, which says that a log is to go, but not this one.
    for (segment_len, replaces) in [(1024, 0), (1024, zxid(1, 29)), (1 << 20, zxid(1, 29))] {
        let fixture = forty_and_a_snapshot(segment_len);
        fixture.replaces.set(replaces);
        let names = fixture.names();
        for name in names.iter().filter(|name| name.starts_with("log.")) {
            for at in (0..fixture.content(name).len().min(1 << 13)).step_by(3) {
                let flipped = fixture.fork();
                flipped.disk.flip(&Fixture::path(name), at, (at % 8) as u32);
                let case = format!("{name}, byte {at}");
                let before = flipped.image();
                match open(&flipped) {
                    // A bit in the group written last looks like a torn write.
                    Ok(log) if log.last_index() == 39 => assert!(at > 0, "{case}"),
                    Ok(log) => {
                        assert_eq!(
                            (log.last_index(), log.last_zxid()),
                            (40, zxid(1, 39)),
                            "{case}"
                        );
                        for index in log.first_index()..=40 {
                            let expected = entry(index, zxid(1, index as i64 - 1));
                            let found = log.entries(index, index + 1, u64::MAX);
                            assert_eq!(found.expect("reads"), Some(vec![expected]), "{case}");
                        }
                    }
                    Err(_) => assert_eq!(flipped.image(), before, "{case}: touched"),
                }
            }
        }
    }
}
