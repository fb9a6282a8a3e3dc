//! Backups of a directory that is written and purged meanwhile, and restores that are broken off,
//! on a disk that loses power. `FERROKEEPER_SEEDS` says how many.

use std::cell::RefCell;
use std::collections::BTreeMap;

use super::*;
use crate::storage::disk::sim::{Dice, Fault, SimDisk};
use crate::storage::files::directory::DirectoryOptions;
use crate::storage::fixture::Fixture;
use crate::storage::ledger::{Ledger, txn};
use crate::storage::log::txn_log::{LogOptions, TxnLog};
use crate::storage::recovery::{RecoveryOptions, recover};
use crate::storage::tools::purge::purge;

fn seeds(usual: u64) -> u64 {
    std::env::var("FERROKEEPER_SEEDS").map_or(usual, |count| count.parse().expect("a number"))
}

/// Some groups, snapshots and purges; `ledger` has what was acknowledged.
fn write(
    dice: &mut Dice,
    ledger: &mut Ledger,
    directory: &DataDirectory,
    log: &mut TxnLog,
    groups: u64,
) {
    for _ in 0..groups {
        for _ in 0..=dice.below(3) {
            let zxid = log.last_zxid() + 1;
            let data = vec![dice.next().to_le_bytes()[0]; dice.below(200) as usize];
            log.append(&txn(zxid, &data)).expect("appends");
            ledger.txns.insert(zxid, data);
        }
        log.commit().expect("commits");
        match dice.below(8) {
            0 | 1 => {
                ledger.snapshot(directory, log.next_index() - 1).expect("a snapshot");
                log.roll();
            }
            2 => log.roll(),
            3 => drop(purge(directory, 1).expect("purges")),
            _ => {}
        }
    }
}

fn options(dice: &mut Dice) -> LogOptions {
    LogOptions { segment_len: 1024 << dice.below(3), spares: 0, force_sync: true }
}

#[test]
fn a_backup_has_what_was_acknowledged_before_it_whatever_is_written_and_purged_meanwhile() {
    for seed in 0..seeds(100) {
        let mut dice = Dice(seed);
        let fixture = Fixture::new(options(&mut dice));
        let mut log = fixture.write(&[]).log;
        let directory = fixture.open();
        let mut ledger = Ledger::default();
        let groups = dice.below(20);
        write(&mut dice, &mut ledger, &directory, &mut log, groups);
        let before = ledger.last();
        let busy = RefCell::new((dice, ledger, log));
        let go_on = || {
            let (dice, ledger, log) = &mut *busy.borrow_mut();
            let groups = dice.below(3);
            write(dice, ledger, &directory, log, groups);
        };
        let target = Target::new(Arc::clone(directory.disk()), "/copy".into(), "/copy".into());
        let mut copy = Ledger::default();
        let made = backup(&directory, &target, &mut copy, &mut || go_on(), &mut |_| go_on());
        let made = match made {
            Err(StorageError::Moving { .. }) => continue,
            other => other.unwrap_or_else(|error| panic!("seed {seed}: {error}")),
        };
        target.publish().expect("it gets its place");
        let (mut dice, ledger, log) = busy.into_inner();
        drop((directory, log));
        fixture.disk.crash(&mut dice);
        let found = start(&fixture.disk, "/copy", "/copy").expect("starts");
        assert!(found.txns == copy.txns, "seed {seed}");
        assert_eq!(found.last(), made.examined.last_zxid, "seed {seed}");
        assert!(found.last() >= before, "seed {seed}: {} of {before}", found.last());
        let beginning = ledger.txns.range(..=found.last());
        assert!(found.txns.iter().eq(beginning), "seed {seed}");
    }
}

fn open(disk: &SimDisk, data: &str, log: &str) -> Result<DataDirectory, StorageError> {
    let options =
        DirectoryOptions { data_dir: data.into(), data_log_dir: log.into(), create: true };
    DataDirectory::open(Arc::new(disk.clone()), &options)
}

fn start(disk: &SimDisk, data: &str, log: &str) -> Result<Ledger, StorageError> {
    let mut ledger = Ledger::default();
    let log_options = LogOptions { spares: 0, ..LogOptions::default() };
    let options = RecoveryOptions { trust_empty: false, log: log_options };
    recover(&open(disk, data, log)?, options, &mut ledger)?;
    Ok(Ledger { begun: 0, digest: None, told: Vec::new(), ..ledger })
}

/// Every file below a folder, by content.
fn contents(disk: &SimDisk, folders: &[&str]) -> BTreeMap<Vec<u8>, String> {
    let mut found = BTreeMap::new();
    for folder in folders.iter().map(Path::new) {
        for name in disk.list(folder).unwrap_or_default() {
            found.insert(disk.content(&folder.join(&name)), name);
        }
    }
    found
}

#[test]
fn a_restore_that_is_broken_off_shows_the_old_or_the_new_or_says_so() {
    let (mut old_shown, mut new_shown, mut refused) = (0, 0, 0);
    for seed in 0..seeds(200) {
        let mut dice = Dice(seed);
        let fixture = Fixture::new(options(&mut dice));
        let disk = &fixture.disk;
        if dice.below(4) == 0 {
            disk.without_exchange();
        }
        let mut source = Ledger::default();
        let mut log = fixture.write(&[]).log;
        let directory = fixture.open();
        let groups = 5 + dice.below(10);
        write(&mut dice, &mut source, &directory, &mut log, groups);
        drop((directory, log));

        // What is there before: another history.
        let split = dice.coin();
        let (data, logs) = if split { ("/new", "/newlog") } else { ("/new", "/new") };
        let mut old = Ledger::default();
        let directory = open(disk, data, logs).expect("opens");
        old.snapshot(&directory, 0).expect("a snapshot");
        let log_options = options(&mut dice);
        let options = RecoveryOptions { trust_empty: false, log: log_options };
        let mut log = recover(&directory, options, &mut Ledger::default()).expect("starts").log;
        let groups = 1 + dice.below(10);
        write(&mut dice, &mut old, &directory, &mut log, groups);
        drop((directory, log));
        let places = ["/new/version-2", "/newlog/version-2", "/new/aside", "/newlog/aside"];
        let files = contents(disk, &places);

        let last = source.last();
        let directory = fixture.open();
        let least = directory.snapshot_files().expect("lists").last().expect("one").0;
        let zxid = least + dice.below((last - least + 1) as u64) as i64;
        let target = Target::new(Arc::new(disk.clone()), data.into(), logs.into());
        let mut expected = Ledger::default();
        let examined = examine(&directory, false, zxid, &mut expected).expect("examines");
        let run = |aside: &str| {
            restore(&directory, &examined, &target, &mut |_| {})?;
            target.replace(aside)
        };
        let at = dice.below(45);
        disk.fail_after(at, if dice.coin() { Fault::PowerLoss } else { Fault::Eio });
        let done = run("aside");
        disk.crash(&mut dice);
        match start(disk, data, logs) {
            Ok(found) if found.txns == expected.txns => new_shown += 1,
            Ok(found) => {
                assert!(done.is_err(), "seed {seed}: it was done");
                assert!(found.txns == old.txns, "seed {seed}: neither the old nor the new");
                old_shown += 1;
            }
            Err(error) => {
                assert!(done.is_err(), "seed {seed}: it was done");
                assert!(matches!(error, StorageError::HalfRestored { .. }), "seed {seed}: {error}");
                refused += 1;
            }
        }
        // Nothing of what was there is gone.
        let left = contents(disk, &places);
        for (content, name) in files.iter().filter(|(content, _)| !content.is_empty()) {
            assert!(left.contains_key(content), "seed {seed}: {name} is gone");
        }
        // Once more, as the refusal says.
        run("again").unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        disk.crash(&mut dice);
        let found = start(disk, data, logs).expect("starts");
        assert!(found.txns == expected.txns, "seed {seed}");
    }
    assert!(old_shown > 0 && new_shown > 0 && refused > 0, "{old_shown} {new_shown} {refused}");
}
