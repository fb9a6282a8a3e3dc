//! Acknowledged means durable: the log, spares, snapshots and purge on a disk that loses power,
//! fails or fills up at a random operation, again and again, against a ledger. And the proof that
//! this test can fail. `FERROKEEPER_SEEDS` says how many disks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use super::compression::Compression;
use super::disk::sim::{Dice, Fault, Lies, SimDisk};
use super::files::directory::{DataDirectory, DirectoryOptions};
use super::files::file_name::FileName;
use super::ledger::{Ledger, txn};
use super::log::record::{FRAME_LEN, HEAD_LEN, Head, TRAILER_LEN, Trailer, adler32};
use super::log::spare::SpareFiller;
use super::log::txn_log::{LogOptions, TxnLog};
use super::recovery::log_scan::LogScan;
use super::recovery::{RecoveryOptions, recover};
use super::tools::purge::purge;
use super::{Disk, StorageError};

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    FileSyncDoesNothing,
    FolderSyncDoesNothing,
    AckBeforeSync,
    TrailerIgnored,
}

/// One directory through several lives.
struct World {
    disk: SimDisk,
    dice: Dice,
    flaw: Flaw,
    options: RecoveryOptions,
    separate: bool,
    /// What every later start must show.
    acked: Ledger,
    /// What was written in the last life without an answer; a start shows any beginning of it.
    attempted: Vec<(i64, Vec<u8>)>,
    /// A state and its index, of which a snapshot is still to be written.
    due: Option<(Ledger, u64)>,
    txns: usize,
    seen: Seen,
}

/// What came to pass, to know that the dice reach everything.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// A torn end was cut off.
    cuts: usize,
    /// A process ended because its disk failed, and the next one found what it had in memory.
    killed_at_fault: usize,
    /// The process lived on after a snapshot, a spare or a purge that failed.
    went_on: usize,
    /// A read failed at a start.
    reads_failed: usize,
    /// A start from a packed snapshot.
    packed_starts: usize,
    snapshots_purged: usize,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.cuts += other.cuts;
        self.killed_at_fault += other.killed_at_fault;
        self.went_on += other.went_on;
        self.reads_failed += other.reads_failed;
        self.packed_starts += other.packed_starts;
        self.snapshots_purged += other.snapshots_purged;
    }
}

#[test]
fn acknowledged_transactions_survive_power_failures() {
    let seeds =
        std::env::var("FERROKEEPER_SEEDS").map_or(300, |count| count.parse().expect("a number"));
    let mut seen = Seen::default();
    for seed in 0..seeds {
        match World::run(seed, Flaw::None) {
            Ok(world) => seen.add(world.seen),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    let Seen { cuts, killed_at_fault, went_on, reads_failed, packed_starts, snapshots_purged } =
        seen;
    let counts = [cuts, killed_at_fault, went_on, reads_failed, packed_starts, snapshots_purged];
    assert!(seeds < 100 || counts.iter().all(|count| *count > 0), "never reached: {seen:?}");
}

/// A start that shows less than was acknowledged.
const LOST: &str = "acknowledged transactions are lost: ";
/// The end of a group that was never synced, taken for acknowledged transactions.
const LATER_GROUP: &str = "was written in a later group";

#[test]
fn a_disk_whose_sync_does_nothing_is_found_out() {
    assert_found_out(Flaw::FileSyncDoesNothing, LOST);
}

#[test]
fn a_disk_that_drops_folder_syncs_is_found_out() {
    assert_found_out(Flaw::FolderSyncDoesNothing, LOST);
}

#[test]
fn an_answer_before_the_sync_is_found_out() {
    assert_found_out(Flaw::AckBeforeSync, LOST);
}

#[test]
fn a_recovery_without_trailers_is_found_out() {
    assert_found_out(Flaw::TrailerIgnored, LATER_GROUP);
}

/// A violation of this kind is found, and no other one counts; without the planted fault, the
/// same seed has none.
fn assert_found_out(flaw: Flaw, expected: &str) {
    let violation = |seed, flaw| {
        let run = || World::run(seed, flaw).err();
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Some("a panic".to_owned()))
    };
    let found = (0..300).find_map(|seed| {
        let violation = violation(seed, flaw)?;
        violation.contains(expected).then_some((seed, violation))
    });
    let Some((seed, text)) = found else { panic!("{flaw:?} passes") };
    println!("{flaw:?} is found after {} seeds: {text}", seed + 1);
    assert_eq!(violation(seed, Flaw::None), None, "{flaw:?}, seed {seed}");
}

impl World {
    fn run(seed: u64, flaw: Flaw) -> Result<Self, String> {
        let mut dice = Dice(seed);
        let disk = SimDisk::with_lies(Lies {
            file_sync_does_nothing: flaw == Flaw::FileSyncDoesNothing,
            folder_sync_does_nothing: flaw == Flaw::FolderSyncDoesNothing,
        });
        let log = LogOptions {
            segment_len: 4096 << dice.below(4),
            spares: dice.below(3) as usize,
            force_sync: true,
        };
        let options = RecoveryOptions { trust_empty: false, log };
        let separate = dice.coin();
        let (acked, attempted) = (Ledger::default(), Vec::new());
        let mut world = Self {
            disk,
            dice,
            flaw,
            options,
            separate,
            acked,
            attempted,
            due: None,
            txns: 0,
            seen: Seen::default(),
        };
        // Three failures at least, and 200 transactions over all.
        let mut lives = 0;
        while lives < 3 || world.txns < 200 {
            lives += 1;
            let failed = world.life()?;
            // What a process did not bring to the disk is seen by the next one, and then the power
            // fails.
            if world.dice.below(4) == 0 || (failed && world.dice.coin()) {
                world.disk.kill();
                world.seen.killed_at_fault += usize::from(failed);
            } else {
                let mut dice = Dice(world.dice.next());
                world.disk.crash(&mut dice);
            }
            if flaw == Flaw::TrailerIgnored {
                world.erase_distances();
            }
        }
        world.disk.set_free(None);
        world.start().map_err(|error| error.to_string())??;
        Ok(world)
    }

    /// From a start to a power failure. What storage refuses after the failure is no violation.
    /// Whether the disk failed for once.
    fn life(&mut self) -> Result<bool, String> {
        let (fault, span) = match self.dice.below(8) {
            0 | 1 => (Fault::Eio, 100),
            2 => (Fault::Enospc, 400),
            _ => (Fault::PowerLoss, 400),
        };
        let at = 1 + self.dice.below(span);
        self.disk.fail_after(at, fault);
        let is_small = self.dice.below(8) == 0;
        self.disk.set_free(is_small.then(|| self.dice.below(200_000)));
        let reads = self.dice.below(400);
        let read_fails = self.dice.below(8) == 0;
        if read_fails {
            self.disk.fail_a_read_after(reads);
        }
        let before = self.disk.operations();
        let outcome = self.live();
        let failed = self.disk.operations() > before + at;
        match outcome {
            Ok(checked) => checked?,
            Err(StorageError::Io { action: "read", .. }) if read_fails => {
                self.seen.reads_failed += 1;
            }
            Err(StorageError::Io { .. }) if failed || is_small => {}
            Err(StorageError::NoRoom { .. }) if is_small => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(failed && fault == Fault::Eio)
    }

    fn live(&mut self) -> Result<Result<(), String>, StorageError> {
        let (directory, mut log) = match self.start()? {
            Ok(started) => started,
            Err(violation) => return Ok(Err(violation)),
        };
        let mut filler = log.spare_filler();
        for _ in 0..20 + self.dice.below(40) {
            self.act(&directory, &mut log, &mut filler)?;
        }
        Ok(Ok(()))
    }

    fn start(&mut self) -> Result<Result<(DataDirectory, TxnLog), String>, StorageError> {
        let root = PathBuf::from("/data");
        let log_root = if self.separate { PathBuf::from("/log") } else { root.clone() };
        let options = DirectoryOptions { data_dir: root, data_log_dir: log_root, create: true };
        let directory = DataDirectory::open(Arc::new(self.disk.clone()), &options)?;
        let mut ledger = Ledger::default();
        let recovered = recover(&directory, self.options, &mut ledger)?;
        if let Err(violation) = self.check(&ledger) {
            return Ok(Err(violation));
        }
        assert_eq!(recovered.last_zxid, ledger.last());
        assert_eq!(recovered.log.next_index(), ledger.txns.len() as u64 + 1);
        self.acked = Ledger { begun: 0, digest: None, ..ledger };
        self.attempted.clear();
        self.due = None;
        self.seen.cuts += usize::from(recovered.bytes_cut > 0);
        let newest = directory.snapshot_files()?.into_iter().next();
        self.seen.packed_starts += usize::from(newest.is_some_and(|(zxid, path)| {
            zxid == recovered.snapshot.zxid
                && path.extension() != Some(format!("{zxid:x}").as_ref())
        }));
        if recovered.fresh {
            self.acked.snapshot(&directory, 0)?;
        }
        Ok(Ok((directory, recovered.log)))
    }

    /// All that was acknowledged, then a beginning of what was attempted, and nothing else.
    fn check(&self, found: &Ledger) -> Result<(), String> {
        let mut expected = self.acked.txns.clone();
        for (zxid, data) in &self.attempted {
            if *zxid <= found.last() {
                expected.insert(*zxid, data.clone());
            }
        }
        if found.txns == expected {
            return Ok(());
        }
        let lost: Vec<_> =
            self.acked.txns.keys().filter(|zxid| !found.txns.contains_key(zxid)).collect();
        let what = match lost.is_empty() {
            true => "what is there is no beginning of what was written".to_owned(),
            false => format!("{LOST}{lost:x?}"),
        };
        let (acked, last) = (self.acked.last(), found.last());
        Err(format!("acknowledged up to {acked:#x}, found up to {last:#x}: {what}"))
    }

    fn act(
        &mut self,
        directory: &DataDirectory,
        log: &mut TxnLog,
        filler: &mut SpareFiller,
    ) -> Result<(), StorageError> {
        match self.dice.below(16) {
            0 => log.roll(),
            1 | 2 => match self.due.take() {
                // Written late and without a roll, so that its log reaches beyond it.
                Some((ledger, index)) => {
                    let compression = match self.dice.below(4) {
                        0 => Compression::Gzip,
                        1 => Compression::Snappy,
                        _ => Compression::None,
                    };
                    let outcome = ledger.packed_snapshot(directory, index, compression);
                    self.go_on(outcome)?;
                }
                None => {
                    self.due = Some((self.acked.clone(), log.next_index() - 1));
                    if self.dice.coin() {
                        log.roll();
                    }
                }
            },
            3 => {
                let purged = purge(directory, 1 + self.dice.below(3) as usize);
                let purged = self.go_on(purged)?.unwrap_or_default();
                self.seen.snapshots_purged += purged.snapshots;
            }
            4..=6 => {
                let outcome = filler.step();
                self.go_on(outcome)?;
            }
            _ => self.group(log)?,
        }
        Ok(())
    }

    /// A server goes on where a snapshot, a spare or a purge fails; only the log must not.
    fn go_on<T>(&mut self, outcome: Result<T, StorageError>) -> Result<Option<T>, StorageError> {
        match outcome {
            Ok(done) => Ok(Some(done)),
            Err(StorageError::Io { .. } | StorageError::NoRoom { .. })
                if !self.disk.is_powerless() =>
            {
                self.seen.went_on += 1;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn group(&mut self, log: &mut TxnLog) -> Result<(), StorageError> {
        for _ in 0..=self.dice.below(8) {
            let epoch = i64::from(self.dice.below(100) == 0) << 32;
            let zxid = if epoch == 0 {
                log.last_zxid() + 1
            } else {
                ((log.last_zxid() >> 32) << 32) + epoch
            };
            let data = self.data();
            log.append(&txn(zxid, &data))?;
            self.attempted.push((zxid, data));
            self.txns += 1;
        }
        if self.flaw == Flaw::AckBeforeSync {
            self.acknowledge();
        }
        log.commit()?;
        self.acknowledge();
        Ok(())
    }

    fn acknowledge(&mut self) {
        self.acked.txns.extend(self.attempted.drain(..));
    }

    /// Mostly small, sometimes larger than some sectors or a segment, sometimes zeros.
    fn data(&mut self) -> Vec<u8> {
        let len = match self.dice.below(20) {
            0 => self.dice.below(6000),
            1..=4 => self.dice.below(1500),
            _ => self.dice.below(120),
        };
        if self.dice.below(8) == 0 {
            return vec![0; len as usize];
        }
        (0..len).map(|_| self.dice.next().to_le_bytes()[0]).collect()
    }

    /// Makes every record the only one of its group, as if nobody had written down where it began.
    fn erase_distances(&self) {
        for folder in ["/data/version-2", "/log/version-2"].map(PathBuf::from) {
            for name in self.disk.list(&folder).unwrap_or_default() {
                if let FileName::Log(_) = FileName::parse(&name) {
                    let mut bytes = self.disk.content(&folder.join(&name));
                    (0..bytes.len()).for_each(|at| erase_distance(&mut bytes[at..]));
                    self.disk.plant(&folder.join(name), &bytes);
                }
            }
        }
    }
}

fn erase_distance(bytes: &mut [u8]) {
    let Some(head) = Head::parse(bytes) else { return };
    let Some(len) = head.own_payload_len(bytes.len() as u64) else { return };
    let body = &mut bytes[HEAD_LEN..len + FRAME_LEN];
    if !head.matches(body) || Trailer::of_payload(&body[..len]).is_none() {
        return;
    }
    body[len - TRAILER_LEN..len - TRAILER_LEN + 4].fill(0);
    let checksum = i64::from(adler32(&body[..len]));
    bytes[..8].copy_from_slice(&checksum.to_be_bytes());
}

#[test]
fn a_scan_does_not_change_the_disk() {
    for seed in 0..20 {
        let mut dice = Dice(seed);
        let disk = SimDisk::default();
        let options = DirectoryOptions {
            data_dir: "/data".into(),
            data_log_dir: "/data".into(),
            create: true,
        };
        let directory = DataDirectory::open(Arc::new(disk.clone()), &options).expect("opens");
        let recovered =
            recover(&directory, RecoveryOptions::default(), &mut Ledger::default()).expect("fresh");
        Ledger::default().snapshot(&directory, 0).expect("snapshot.0");
        let mut log = recovered.log;
        for zxid in 1..20 {
            log.append(&txn(zxid, &[1; 300])).expect("appends");
        }
        disk.fail_after(4 + dice.below(3), Fault::PowerLoss);
        log.commit().expect_err("power lost");
        drop(directory);
        disk.crash(&mut dice);
        let directory = DataDirectory::open(Arc::new(disk.clone()), &options).expect("opens");
        let before = disk.operations();
        let mut ledger = Ledger::default();
        let recovered = super::replay::SnapshotId {
            zxid: 0,
            origin: super::replay::SnapshotOrigin::Exact { index: 0 },
        };
        LogScan::run(&directory, recovered, &mut ledger).expect("scans");
        assert_eq!(disk.operations(), before, "seed {seed}");
    }
}
