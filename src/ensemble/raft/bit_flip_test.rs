//! A bit that turns over in a file of a member, any bit of any file: the group written last is cut
//! off with a word, or what the member has acknowledged and promised is there, or it does not start
//! and nothing was removed. `FERROKEEPER_FLIPS` says how many.

use std::path::Path;
use std::sync::Arc;

use super::super::disk::{What, Write};
use super::super::fixture::{directory, ensemble, entry};
use super::super::member_id;
use super::{EnsembleError, Started};
use crate::engine::database::Rules;
use crate::ensemble::rebuild::Rebuild;
use crate::ensemble::snapshots::snapshot_of;
use crate::storage::sim::{Dice, SimDisk};
use crate::storage::{
    Compression, DataDirectory, Disk, LogEntry, Members, RaftState, RaftStateFile,
    ReceivedSnapshot, SessionKey, SessionSecret, Then, purge,
};

const FOLDER: &str = "/data/version-2";

/// A member's directory, and what it has told the others.
#[derive(Clone)]
struct Written {
    disk: SimDisk,
    /// All entries that were ever durable and are the log's, from 1 on.
    entries: Vec<LogEntry>,
    promise: (u64, u64),
    /// The first entry of the group that was written last.
    last_group: u64,
    /// The entry that the oldest snapshot shows from which the log goes on.
    oldest: u64,
}

fn secret() -> SessionSecret {
    SessionSecret { key: SessionKey::new([7; 32]), before: vec![5] }
}

impl Written {
    fn begin() -> Self {
        let disk = SimDisk::default();
        let members =
            Members { voters: (1..4).map(|at| member_id(at, 1)).collect(), ..Members::default() };
        let first = RaftState { id: member_id(1, 1), members, ..RaftState::default() };
        let written = Self { disk, entries: Vec::new(), promise: (0, 0), last_group: 0, oldest: 0 };
        let directory = written.open();
        RaftStateFile::create(&directory, &first, Some(&secret())).expect("creates");
        written
    }

    fn open(&self) -> DataDirectory {
        directory(&self.disk)
    }

    fn start(&self) -> Result<Started, EnsembleError> {
        ensemble(1500, true).start(Arc::new(self.open()))
    }

    /// Votes and writes this many entries of a term after `keep`, in groups.
    fn term(&mut self, term: u64, keep: usize, count: u64, dice: &mut Dice) {
        let mut started = self.start().expect("starts");
        self.promise = (term, member_id(1 + (term % 3) as u8, 1));
        let (term, vote) = self.promise;
        let promises = RaftState { term, vote, ..started.store.promises.clone() };
        started.writer.write(vec![Write(What::Promise(promises))]).expect("writes");
        self.entries.truncate(keep);
        let mut at = 0;
        while at < count {
            let group: Vec<LogEntry> = (at..count.min(at + 1 + dice.below(4)))
                .map(|at| entry(keep as u64 + 1 + at, ((term << 32) | at).cast_signed()))
                .collect();
            at += group.len() as u64;
            self.last_group = group[0].index;
            started.writer.write(vec![Write(What::Append(group.clone()))]).expect("writes");
            self.entries.extend(group);
        }
    }

    /// Says that everything is final, and takes a snapshot of it.
    fn snapshot(&mut self, keep: usize) {
        let mut started = self.start().expect("starts");
        let commit = self.entries.len() as u64;
        let promises = RaftState { commit, ..started.store.promises.clone() };
        started.writer.write(vec![Write(What::Members(promises))]).expect("writes");
        drop(started);
        let mut started = self.start().expect("starts");
        assert_eq!(started.applied, commit);
        let directory = Arc::clone(started.directory());
        snapshot_of(&directory, &mut started.database, commit, Compression::None).expect("writes");
        purge(&directory, keep).expect("purges");
    }

    /// Has another member's newest snapshot in the place of the log.
    fn take_over(&mut self, of: &Self) {
        let names = of.disk.list(Path::new(FOLDER)).expect("lists");
        let newest = names.iter().filter_map(|name| name.strip_prefix("snapshot."));
        let newest = newest.filter_map(|zxid| i64::from_str_radix(zxid, 16).ok()).max();
        let zxid = newest.expect("a snapshot");
        let bytes = of.disk.content(&Path::new(FOLDER).join(format!("snapshot.{zxid:x}")));
        let index = of.entries.len() as u64;
        assert_eq!(of.entries.last().map(|entry| entry.zxid), Some(zxid));
        let mut started = self.start().expect("starts");
        let directory = Arc::clone(started.directory());
        let mut received =
            ReceivedSnapshot::create(directory, zxid, Compression::None).expect("begins");
        received.write(&bytes).expect("writes");
        let mut rebuild = Rebuild::new(1, Rules::default());
        received.check(index, &mut rebuild).expect("a start can be made from it");
        let promises = started.store.promises.clone();
        let install = Write(What::Install(Box::new(received), index, promises));
        started.writer.write(vec![install]).expect("installs");
        self.entries.clone_from(&of.entries);
        self.oldest = index;
        self.last_group = index + 1;
    }

    /// What the member must never be without: each file that holds some of it.
    fn data(&self) -> Vec<(String, Vec<u8>)> {
        let names = self.disk.list(Path::new(FOLDER)).expect("lists");
        let is_data = |name: &String| name.starts_with("log.") || name.starts_with("snapshot.");
        let content = |name: String| {
            let content = self.disk.content(&Path::new(FOLDER).join(&name));
            (name, content)
        };
        names.into_iter().filter(is_data).map(content).collect()
    }

    /// Starts with one bit turned over.
    fn flip(&self, kind: &str, name: &str, at: usize, bit: u32) -> Outcome {
        let flipped = Self { disk: self.disk.fork(), ..self.clone() };
        flipped.disk.flip(&Path::new(FOLDER).join(name), at, bit);
        let before = flipped.data();
        let case = format!("{kind}: {name}, byte {at}, bit {bit}");
        let started = match flipped.start() {
            Ok(started) => started,
            Err(error) => {
                assert_eq!(flipped.data(), before, "{case}: {error}, and something is gone");
                if let EnsembleError::Storage(error) = &error
                    && let Some(way_out) = error.way_out()
                {
                    let text = error.to_string();
                    assert_eq!(way_out.then, Then::AsksOthers, "{case}: {text}");
                    assert!(way_out.command.starts_with("mv /data/version-2 "), "{case}: {text}");
                    assert!(!text.contains("truncate"), "{case}: {text}");
                }
                return Outcome::Refused;
            }
        };
        let promises = &started.store.promises;
        match name {
            // A later one makes a term in which nothing was promised.
            "acceptedEpoch" if promises.term > self.promise.0 => {
                assert_eq!(promises.vote, 0, "{case}");
            }
            _ => assert_eq!((promises.term, promises.vote), self.promise, "{case}"),
        }
        assert_eq!(promises.members.voters.len(), 3, "{case}");
        assert_eq!(started.secret, Some(secret()), "{case}");
        let (log, last) = (&started.store.log, self.entries.len() as u64);
        let outcome = if log.last_index() == last { Outcome::Whole } else { Outcome::Cut };
        assert!((self.last_group - 1..=last).contains(&log.last_index()), "{case}");
        assert!(outcome == Outcome::Whole || name.starts_with("log."), "{case}");
        let of = |index: u64| &self.entries[index as usize - 1];
        // What the state does not show, the log has; and nothing else is in it.
        assert!(log.first_index() <= started.applied + 1, "{case}");
        let entries = log.entries(log.first_index(), last + 1, u64::MAX).expect("reads");
        for entry in entries.iter().flatten() {
            assert_eq!(entry, of(entry.index), "{case}");
        }
        let count = entries.map_or(0, |entries| entries.len()) as u64;
        assert_eq!(count, log.last_index() + 1 - log.first_index(), "{case}");
        let (database, applied) = (&started.database, started.applied);
        let zxid = if applied == 0 { 0 } else { of(applied).zxid };
        let sessions = (1..=applied).filter(|index| !of(*index).is_blank()).count();
        assert_eq!(database.last_zxid().0, zxid, "{case}");
        assert_eq!(database.sessions().len(), sessions, "{case}");
        assert!(applied >= promises.commit, "{case}");
        outcome
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Everything is there.
    Whole,
    /// But for the end of the group written last.
    Cut,
    Refused,
}

/// Directories of every kind: with and without snapshots, with a tail that was cut, purged, handed
/// over, and begun.
fn directories() -> Vec<(&'static str, Written)> {
    let mut dice = Dice(3);
    let mut log = Written::begin();
    log.term(1, 0, 12, &mut dice);
    let mut cut = log.clone();
    cut.disk = log.disk.fork();
    cut.term(2, 9, 4, &mut dice);
    cut.term(3, 13, 11, &mut dice);
    let mut snapshots = Written { disk: cut.disk.fork(), ..cut.clone() };
    snapshots.snapshot(3);
    snapshots.term(3, 24, 0, &mut dice);
    snapshots.term(4, 24, 9, &mut dice);
    let mut purged = Written { disk: snapshots.disk.fork(), ..snapshots.clone() };
    purged.snapshot(1);
    purged.term(5, 33, 13, &mut dice);
    purged.snapshot(1);
    let leader = Written { disk: purged.disk.fork(), ..purged.clone() };
    purged.term(6, 46, 7, &mut dice);
    let mut handed = Written { disk: cut.disk.fork(), ..cut.clone() };
    handed.take_over(&leader);
    let bare = Written { disk: handed.disk.fork(), ..handed.clone() };
    handed.term(7, 46, 10, &mut dice);
    let all = [
        ("log", log),
        ("cut", cut),
        ("snapshots", snapshots),
        ("purged", purged),
        ("handed over", handed),
        ("handed over, no log", bare),
    ];
    all.into_iter().collect()
}

#[test]
fn no_bit_of_a_member_loses_what_was_acknowledged() {
    let flips =
        std::env::var("FERROKEEPER_FLIPS").map_or(2000, |count| count.parse().expect("a number"));
    let directories = directories();
    let mut dice = Dice(1);
    let mut seen = [0; 3];
    for _ in 0..flips {
        let (kind, written) = &directories[dice.below(directories.len() as u64) as usize];
        let names = written.disk.list(Path::new(FOLDER)).expect("lists");
        let name = &names[dice.below(names.len() as u64) as usize];
        let len = written.disk.content(&Path::new(FOLDER).join(name)).len() as u64;
        if len == 0 {
            continue;
        }
        // Headers and what stands before zeros are the smaller part.
        let reach = if dice.coin() { len } else { len.min(1 << dice.below(13)) };
        let (at, bit) = (dice.below(reach) as usize, dice.below(8) as u32);
        seen[written.flip(kind, name, at, bit) as usize] += 1;
    }
    println!("of {flips} flips: whole, cut, refused: {seen:?}");
    assert!(flips < 1000 || seen.iter().all(|count| *count > 20), "{seen:?}");
}

/// Those that say where in the log a record stands have no checksum.
#[test]
fn no_bit_of_a_header_loses_what_was_acknowledged() {
    for (kind, written) in directories() {
        for (name, _) in written.data() {
            for at in 0..16 {
                for bit in 0..8 {
                    written.flip(kind, &name, at, bit);
                }
            }
        }
    }
}

#[test]
fn logs_without_a_snapshot_are_refused_whatever_is_trusted() {
    for (kind, written) in directories() {
        let copy = Written { disk: written.disk.fork(), ..written.clone() };
        for (name, _) in copy.data().iter().filter(|(name, _)| name.starts_with("snapshot.")) {
            copy.disk.remove(&Path::new(FOLDER).join(name)).expect("removes");
        }
        let before = copy.data();
        let error = copy.start().expect_err("refused");
        let text = match &error {
            EnsembleError::Storage(error) => {
                assert_eq!(error.way_out().expect("a way out").then, Then::AsksOthers, "{kind}");
                error.to_string()
            }
            other => panic!("{kind}: {other}"),
        };
        assert!(text.contains("a majority of the others is running"), "{kind}: {text}");
        assert_eq!(copy.data(), before, "{kind}");
    }
}
