//! Cuts, writes after them and power failures, again and again, against a model.
//! `FERROKEEPER_SEEDS` says how many disks.

use std::path::Path;

use super::*;
use crate::storage::disk::Disk as _;
use crate::storage::disk::sim::{Dice, Fault};
use crate::storage::fixture::{FOLDER, Fixture};
use crate::storage::ledger::{Ledger, txn};
use crate::storage::log::txn_log::LogOptions;
use crate::storage::tools::purge::purge;

/// One directory that is written, cut and written again.
struct World {
    fixture: Fixture,
    dice: Dice,
    /// What the next start must show.
    expected: Ledger,
    /// How often a cut was broken off and what was left was neither the old nor the new state.
    between: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let options = LogOptions {
            segment_len: 1024 << dice.below(4),
            spares: dice.below(2) as usize,
            force_sync: true,
        };
        let fixture = Fixture::new(options);
        fixture.write(&[]);
        Self { fixture, dice, expected: Ledger::default(), between: 0 }
    }

    /// Starts, and compares with the model what is there.
    fn start(&self) -> crate::storage::log::txn_log::TxnLog {
        let (recovered, found) = self.fixture.start().expect("starts");
        assert_eq!(found.txns, self.expected.txns);
        assert_eq!(recovered.last_zxid, self.expected.last());
        recovered.log
    }

    fn write(&mut self) {
        let mut log = self.start();
        let mut filler = log.spare_filler();
        let directory = self.fixture.open();
        for _ in 0..self.dice.below(12) {
            for _ in 0..=self.dice.below(4) {
                // Of each history, so that a record of another one is seen.
                let data = vec![self.dice.next().to_le_bytes()[0]; self.dice.below(300) as usize];
                let zxid = log.last_zxid() + 1;
                log.append(&txn(zxid, &data)).expect("appends");
                self.expected.txns.insert(zxid, data);
            }
            log.commit().expect("commits");
            match self.dice.below(6) {
                0 => {
                    self.expected.snapshot(&directory, log.next_index() - 1).expect("a snapshot");
                    log.roll();
                }
                1 => log.roll(),
                2 => drop(filler.step().expect("fills")),
                3 => drop(purge(&directory, 2).expect("purges")),
                _ => {}
            }
        }
    }

    fn cut(&mut self) {
        let directory = self.fixture.open();
        let snapshots = directory.snapshot_files().expect("lists");
        let least = snapshots.last().map_or(0, |(zxid, _)| *zxid);
        let last = self.expected.last();
        let zxid = least + self.dice.below((last - least + 1) as u64) as i64;
        let mut kept = Ledger::default();
        let plan = plan_cut(&directory, zxid, false, &mut kept).expect("it can be cut");
        assert_eq!(kept.last(), zxid);
        assert_eq!(plan.loss.txns, (last - zxid) as u64);
        assert_eq!(plan.loss.last.map(|(zxid, _)| zxid), (zxid < last).then_some(last));
        let before = self.fixture.image();
        let breaks = self.dice.coin();
        if breaks {
            let fault = if self.dice.coin() { Fault::PowerLoss } else { Fault::Eio };
            self.fixture.disk.fail_after(self.dice.below(10), fault);
        }
        let done = plan.carry_out(&directory, "aside");
        assert!(breaks || done.is_ok());
        drop(directory);
        let is_crash = self.dice.coin() || done.is_err();
        if is_crash {
            self.fixture.disk.crash(&mut self.dice);
        } else {
            self.fixture.disk.kill();
        }
        self.expect_nothing_deleted(&before);
        let (recovered, found) = self.fixture.start().expect("half a cut starts as well");
        let is_beginning =
            self.expected.txns.iter().zip(&found.txns).all(|(one, other)| one == other);
        assert!(is_beginning, "it never was like this");
        assert_eq!(recovered.last_zxid, found.last());
        assert!((zxid..=last).contains(&found.last()));
        assert!(done.is_err() || found.last() == zxid, "{:#x} of {zxid:#x}", found.last());
        self.between += usize::from(found.last() > zxid && found.last() < last);
        self.expected.txns.split_off(&(found.last() + 1));
        if done.is_err() {
            // A second attempt ends what the first began.
            let directory = self.fixture.open();
            let plan = plan_cut(&directory, zxid, false, &mut Ledger::default()).expect("again");
            plan.carry_out(&directory, "aside-again").expect("nothing fails now");
            drop(directory);
            self.expected.txns.split_off(&(zxid + 1));
            self.start();
        }
        for folder in ["/data/aside", "/data/aside-again"].map(Path::new) {
            for name in self.fixture.disk.list(folder).unwrap_or_default() {
                self.fixture.disk.remove(&folder.join(name)).expect("the operator clears up");
            }
        }
    }

    /// Every snapshot and log is there or aside, as it was or shorter.
    fn expect_nothing_deleted(&self, before: &[(String, Vec<u8>)]) {
        let of = |folder: &str, name: &str| {
            let folder = Path::new(folder);
            let names = self.fixture.disk.list(folder).unwrap_or_default();
            names
                .iter()
                .any(|there| there == name)
                .then(|| self.fixture.disk.content(&folder.join(name)))
        };
        for (name, content) in before {
            if !name.starts_with("log.") && !name.starts_with("snapshot.") {
                continue;
            }
            let found = of(FOLDER, name).or_else(|| of("/data/aside", name));
            let found = found.unwrap_or_else(|| panic!("{name} is gone"));
            assert!(content.starts_with(&found), "{name} is another");
        }
    }
}

/// ZOOKEEPER-1489, ZOOKEEPER-1154: what was written after a truncated log was lost, or stood
/// after what had been cut off.
#[test]
fn what_is_written_behind_a_cut_stays_and_what_was_cut_never_comes_back() {
    let seeds =
        std::env::var("FERROKEEPER_SEEDS").map_or(60, |count| count.parse().expect("a number"));
    let mut between = 0;
    for seed in 0..seeds {
        let mut world = World::new(seed);
        for _ in 0..6 {
            world.write();
            if world.dice.coin() {
                world.fixture.disk.crash(&mut world.dice);
            } else {
                world.fixture.disk.kill();
            }
            world.cut();
        }
        world.start();
        between += world.between;
    }
    assert!(seeds < 50 || between > 0, "no cut was broken off in the middle");
}
