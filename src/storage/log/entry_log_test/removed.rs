//! What the log says where files of it are gone.

use super::*;

/// A purge removes a file while it is open, and tells of it later.
#[test]
fn what_was_purged_behind_a_reader_is_not_here_any_more() {
    let fixture = fixture();
    let mut log = open(&fixture).expect("opens");
    log.append((1..4).map(|at| entry(at, zxid(1, at as i64))).collect()).expect("appends");
    log.log.tail.clear();
    assert_eq!(log.entries(1, 4, u64::MAX).expect("reads").expect("there").len(), 3);
    log.append(vec![entry(4, zxid(1, 4))]).expect("appends");
    log.log.tail.clear();
    let path = log.log.directory.log_path(zxid(1, 1));
    log.log.directory.disk().remove(&path).expect("removes");
    assert_eq!(log.entries(4, 5, u64::MAX).expect("is no failure"), None);
    assert_eq!(log.entries(1, 2, u64::MAX).expect("is no failure"), None);
}

#[test]
fn after_a_purge_the_first_entry_is_one_whose_predecessor_is_known() {
    let fixture = fixture();
    let mut log = open(&fixture).expect("opens");
    for index in 1..=40 {
        log.append(vec![entry(index, zxid(1, index as i64 - 1))]).expect("appends");
    }
    let ledger = Ledger { txns: [(zxid(1, 29), vec![1])].into(), ..Ledger::default() };
    ledger.snapshot(&log.directory, 30).expect("writes");
    assert!(log.purge(1).expect("purges").logs > 0);
    let first = log.first_index();
    assert!((2..=31).contains(&first), "{first}");
    assert_eq!(log.entries(first - 1, 40, u64::MAX).expect("reads"), None);
    assert_eq!(log.zxid(first - 1), Some(zxid(1, first as i64 - 2)));
    assert_eq!(all(&log).len() as u64, 41 - first);
    drop(log);
    let log = open(&fixture).expect("opens");
    assert_eq!(log.first_index(), first);
    assert_eq!(log.base.index, 30);
}

#[test]
fn entries_before_one_that_is_missing_are_as_good_as_purged() {
    let fixture = fixture();
    let mut log = open(&fixture).expect("opens");
    for index in 1..=9 {
        // Three segments of three.
        let term = (index as i64 - 1) / 3 + 1;
        log.append(vec![entry(index, zxid(term, (index as i64 - 1) % 3))]).expect("appends");
    }
    let ledger = Ledger { txns: [(zxid(3, 0), vec![1])].into(), ..Ledger::default() };
    ledger.snapshot(&log.directory, 7).expect("writes");
    // As a purge leaves it whose removals did not all last.
    fixture.disk.remove(&Path::new(FOLDER).join("log.200000000")).expect("removes");
    drop(log);
    let log = open(&fixture).expect("opens");
    assert_eq!((log.first_index(), log.last_index()), (8, 9));
    assert_eq!((log.zxid(6), log.zxid(7)), (None, Some(zxid(3, 0))));
    assert_eq!(log.entries(3, 9, u64::MAX).expect("reads"), None);
}

/// A purge goes on behind a file that it cannot read or remove, and that one says nothing of what
/// came after it.
#[test]
fn entries_before_one_that_was_purged_are_not_here_any_more() {
    let of = |index: u64| entry(index, zxid(index as i64, 0));
    // Nine terms of one entry: which of their files are gone, and the first that still counts.
    for (gone, first) in
        [(vec![(2, 4)], 4), (vec![(1, 3)], 3), (vec![(2, 3), (5, 7)], 7), (vec![(1, 2), (3, 9)], 9)]
    {
        let fixture = fixture();
        let mut log = open(&fixture).expect("opens");
        (1..=9).for_each(|index| log.append(vec![of(index)]).expect("appends"));
        log.log.tail.clear();
        for index in gone.iter().flat_map(|(from, to)| *from..*to) {
            let path = log.directory.log_path(zxid(index, 0));
            fixture.disk.remove(&path).expect("removes");
        }
        log.writer.forget_removed(9).expect("looks");
        log.write().expect("tells");
        assert_eq!((log.first_index(), log.last_index()), (first + 1, 9), "{gone:?}");
        for index in 1..=9 {
            let known = (index >= first).then(|| of(index).zxid);
            assert_eq!((log.zxid(index), log.writer.zxid(index)), (known, known), "{gone:?}");
        }
        assert_eq!(all(&log), (first + 1..=9).map(of).collect::<Vec<_>>(), "{gone:?}");
    }
}

/// What stood in it is in memory, and may not be applied yet.
#[test]
fn a_log_that_somebody_removed_is_read_on_from_memory() {
    for is_all in [true, false] {
        let fixture = fixture();
        let mut log = open(&fixture).expect("opens");
        // Two segments, of a term each.
        let of = |index: u64| entry(index, zxid(1 + index as i64 / 4, index as i64 % 4));
        let expect = |log: &Both, first: u64| {
            assert_eq!(all(log), (first..=7).map(of).collect::<Vec<_>>(), "all: {is_all}");
        };
        (1..=6).for_each(|index| log.append(vec![of(index)]).expect("appends"));
        let files = log.directory.log_zxids().expect("lists");
        assert_eq!(files, [zxid(1, 1), zxid(2, 0)]);
        for file in &files[usize::from(!is_all)..] {
            fixture.disk.remove(&log.directory.log_path(*file)).expect("removes");
        }
        log.append(vec![of(7)]).expect("appends");
        assert!(log.writer.take_was_removed());
        expect(&log, 1);
        // What takes the place of some of them is taken, if the log goes on from a file.
        if !is_all {
            log.append(vec![entry(4, zxid(3, 0))]).expect("cuts");
            assert_eq!(log.zxid(4), Some(zxid(3, 0)));
            continue;
        }
        // Whatever was purged, nothing is passed over.
        for (applied, first) in [(3, 1), (4, 5), (6, 5), (7, 8)] {
            log.writer.forget_removed(applied).expect("looks");
            log.write().expect("tells");
            expect(&log, first);
            assert_eq!(log.zxid(first - 1), Some(if first > 1 { of(first - 1).zxid } else { 0 }));
        }
    }
}
