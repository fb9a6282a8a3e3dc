//! A disk that turns one bit over, and what a start makes of it: by where the bit is, it refuses
//! with the place, cuts off the last group and says so, or shows everything. Never less without a
//! word. And what a refusal says to type loses no more than it says. `FERROKEEPER_FLIPS` says how
//! many.

use super::disk::sim::Dice;
use super::files::file_name::FileName;
use super::fixture::{Fixture, offsets};
use super::ledger::{Ledger, txn};
use super::log::txn_log::LogOptions;
use super::recovery::recover;
use super::tools::cut::plan_cut;
use super::{Compression, Disk, StorageError, Then};

/// A directory that several processes wrote, all of it synced.
struct Written {
    fixture: Fixture,
    dice: Dice,
    ledger: Ledger,
    /// Of the newest snapshot.
    snapshot: i64,
    /// Of the first transaction of the last group.
    last_group: i64,
}

impl Written {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed);
        let options = LogOptions {
            segment_len: 4096 << dice.below(4),
            spares: dice.below(3) as usize,
            force_sync: true,
        };
        let fixture = Fixture::new(options);
        let mut written =
            Self { fixture, dice, ledger: Ledger::default(), snapshot: 0, last_group: 0 };
        for _ in 0..1 + written.dice.below(4) {
            written.process();
        }
        written
    }

    /// The same on a disk of its own.
    fn fork(&self, seed: u64) -> Self {
        let (fixture, ledger) = (self.fixture.fork(), self.ledger.clone());
        Self { fixture, dice: Dice(seed), ledger, ..*self }
    }

    fn process(&mut self) {
        let directory = self.fixture.open();
        let mut ledger = Ledger::default();
        let recovered =
            recover(&directory, self.fixture.options, &mut ledger).expect("starts undamaged");
        if recovered.fresh {
            ledger.snapshot(&directory, 0).expect("snapshot.0");
        }
        let mut log = recovered.log;
        let mut filler = log.spare_filler();
        for _ in 0..1 + self.dice.below(12) {
            for _ in 0..self.dice.below(20) {
                filler.step().expect("fills");
            }
            // Now and then the zxids of another leader.
            let epoch = i64::from(self.dice.below(12) == 0) << 32;
            let mut zxid = ((log.last_zxid() >> 32) << 32) + epoch;
            if epoch == 0 {
                zxid = log.last_zxid() + 1;
            }
            self.last_group = zxid;
            for zxid in zxid..=zxid + self.dice.below(5) as i64 {
                let len = self.dice.below(700);
                let data: Vec<u8> = (0..len).map(|_| self.dice.next().to_le_bytes()[0]).collect();
                log.append(&txn(zxid, &data)).expect("appends");
                self.ledger.txns.insert(zxid, data);
            }
            log.commit().expect("commits");
            if self.dice.below(8) == 0 {
                let compression = match self.dice.below(3) {
                    0 => Compression::Gzip,
                    _ => Compression::None,
                };
                let index = log.next_index() - 1;
                self.ledger.packed_snapshot(&directory, index, compression).expect("snapshot");
                self.snapshot = log.last_zxid();
            }
        }
    }

    /// The zxid and the offset of the record that holds the byte `at` of a log.
    fn record(&self, name: &str, at: usize) -> Option<(i64, u64)> {
        let bytes = self.fixture.content(name);
        let offsets = offsets(&bytes);
        let record = offsets.windows(2).find(|record| (record[0]..record[1]).contains(&at))?;
        let zxid = bytes[record[0] + 24..record[0] + 32].try_into().expect("8 bytes");
        Some((i64::from_be_bytes(zxid), record[0] as u64))
    }

    /// The ledger up to and without `zxid`.
    fn before(&self, zxid: i64) -> Ledger {
        let txns = self.ledger.txns.range(..zxid).map(|(zxid, data)| (*zxid, data.clone()));
        Ledger { txns: txns.collect(), ..Ledger::default() }
    }
}

/// Does what the refusal says to type, and compares what that loses with what it says.
fn try_way_out(written: &Written, error: &StorageError, case: &str) {
    let text = error.to_string();
    let fixture = &written.fixture;
    let directory = fixture.open();
    let (mut named, mut has_unreadable) = (0, false);
    match error {
        StorageError::Epoch { path } => {
            assert!(text.contains(&format!("`rm {}`", path.display())), "{case}: {text}");
            fixture.disk.remove(path).expect("removes");
        }
        StorageError::LaterVersion { .. } => return,
        error => {
            let Some(way_out) = error.way_out() else { panic!("{case}: {text}") };
            (named, has_unreadable) = (way_out.loss.txns, way_out.loss.unreadable_bytes > 0);
            if way_out.then == Then::BeginsAnew {
                assert!(text.contains("lost: all znodes"), "{case}: {text}");
                return;
            }
            if way_out.command.contains("data first-snapshot") {
                for (_, path) in directory.snapshot_files().expect("lists") {
                    fixture.disk.remove(&path).expect("removes");
                }
                Ledger::default().snapshot(&directory, 0).expect("writes");
            } else {
                let zxid = way_out.command.rsplit_once("--to-zxid 0x").expect("a zxid").1;
                let zxid = i64::from_str_radix(zxid, 16).expect("a zxid");
                let plan = plan_cut(&directory, zxid, false, &mut Ledger::default());
                plan.expect("a plan").carry_out(&directory, "aside").expect("cuts");
            }
        }
    }
    drop(directory);
    let (_, found) = fixture.start().unwrap_or_else(|after| panic!("{case}: {text}: {after}"));
    assert_eq!(found.txns, written.before(found.last() + 1).txns, "{case}: {text}");
    let lost = written.ledger.txns.len() - found.txns.len();
    let is_named = lost as u64 == named || (has_unreadable && lost as u64 > named);
    assert!(is_named, "{case}: {lost} are lost: {text}");
}

/// Where a bit was, and so what is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A record of the log after the snapshot, not of the last group: refused, with file and
    /// offset.
    Synced,
    /// A record of the last group: cut there, and said.
    LastGroup,
    /// What a start does without, or a snapshot: everything, or refused.
    Elsewhere,
}

#[test]
fn a_bit_that_turns_over_is_refused_cut_off_with_a_word_or_harmless() {
    let seeds =
        std::env::var("FERROKEEPER_FLIPS").map_or(2000, |count| count.parse().expect("a number"));
    let mut places = [0; 3];
    let mut refused_elsewhere = 0;
    let mut worn = Written::new(0);
    for seed in 0..seeds {
        if seed % 10 == 0 {
            worn = Written::new(seed);
        }
        let mut written = worn.fork(seed);
        let names: Vec<String> = written.fixture.names();
        let is_log = |name: &&String| matches!(FileName::parse(name), FileName::Log(_));
        let is_snapshot = |name: &&String| matches!(FileName::parse(name), FileName::Snapshot(..));
        let logs: Vec<&String> = names.iter().filter(is_log).collect();
        let snapshots: Vec<&String> = names.iter().filter(is_snapshot).collect();
        let rest = |name: &&String| !is_log(name) && !is_snapshot(name);
        let rest: Vec<&String> = names.iter().filter(rest).collect();
        let group = match written.dice.below(16) {
            0 | 1 => snapshots,
            2 if !rest.is_empty() => rest,
            _ => logs,
        };
        let name = group[written.dice.below(group.len() as u64) as usize].clone();
        let bytes = written.fixture.content(&name);
        let end = match FileName::parse(&name) {
            FileName::Log(_) => *offsets(&bytes).last().expect("an end"),
            _ => bytes.len(),
        };
        // Now and then in the zeros after the records.
        let reach = if written.dice.below(8) == 0 { bytes.len() } else { end };
        let at = written.dice.below(reach as u64) as usize;
        let record = written.record(&name, at).filter(|_| name.starts_with("log."));
        let place = match record {
            Some((zxid, _)) if zxid <= written.snapshot => Place::Elsewhere,
            Some((zxid, _)) if zxid >= written.last_group => Place::LastGroup,
            Some(_) => Place::Synced,
            None => Place::Elsewhere,
        };
        let bit = written.dice.below(8) as u32;
        written.fixture.disk.flip(&Fixture::path(&name), at, bit);
        let before = written.fixture.image();
        let outcome = written.fixture.start();
        let case = format!("seed {seed}: {name}, byte {at}, bit {bit}, {place:?}");
        places[place as usize] += 1;
        match (place, outcome) {
            (Place::Synced, Err(error @ StorageError::Damage { .. })) => {
                let StorageError::Damage { path, offset, .. } = &error else { continue };
                let (_, expected) = record.expect("a record");
                assert_eq!((path, *offset), (&Fixture::path(&name), expected), "{case}");
                assert_eq!(written.fixture.image(), before, "{case}: touched");
                try_way_out(&written, &error, &case);
            }
            (Place::LastGroup, Ok((recovered, found))) => {
                let (zxid, _) = record.expect("a record");
                assert_eq!(found.txns, written.before(zxid).txns, "{case}");
                assert_eq!(recovered.last_zxid, found.last(), "{case}");
                assert!(recovered.bytes_cut > 0, "{case}: not a word");
            }
            (Place::Elsewhere, Ok((_, found))) => {
                assert_eq!(found.txns, written.ledger.txns, "{case}");
            }
            (Place::Elsewhere, Err(error)) => {
                refused_elsewhere += 1;
                assert_eq!(written.fixture.image(), before, "{case}: touched");
                try_way_out(&written, &error, &case);
            }
            (_, Ok((recovered, _))) => {
                panic!(
                    "{case}: starts at {:#x} of {:#x}",
                    recovered.last_zxid,
                    written.ledger.last()
                )
            }
            (_, Err(error)) => panic!("{case}: {error}"),
        }
    }
    assert!(seeds < 100 || places.iter().all(|count| *count > 0), "never reached: {places:?}");
    assert!(refused_elsewhere < places[Place::Elsewhere as usize] || seeds < 100, "all refused");
}
