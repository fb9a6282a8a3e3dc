//! Three members in one process under one seed: the real engine, log and promises, on simulated disks that lose what
//! was not synced, and a queue of messages that loses, repeats, reorders and parts them. After each step every claim
//! of [`checks`] must hold. And the proof that this can fail: mistakes made on purpose, each found.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

#[path = "sim_test/checks.rs"]
mod checks;
#[path = "sim_test/flawed_disk.rs"]
mod flawed_disk;
#[path = "sim_test/outcome.rs"]
mod outcome;
#[path = "sim_test/world.rs"]
mod world;

use outcome::Outcome;
use world::World;

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// Entries are acknowledged before they are synced.
    AckBeforeSync,
    /// What was handed to the disk is taken for written.
    SaidBeforeWritten,
    /// A leader counts a peer for what was only sent to it.
    AckBeforeQuorum,
    /// A leader takes itself for heard by the others.
    RoundNotMade,
    /// What conflicts with the leader's log stays on the disk.
    TailNotCut,
    /// A start does not know for whom it voted.
    VoteForgotten,
}

fn run(seed: u64, flaw: Flaw) -> Result<Outcome, String> {
    // The crate panics where it sees that a promise to it was broken.
    catch_unwind(AssertUnwindSafe(|| World::run(seed, flaw)))
        .unwrap_or_else(|panic| Err(format!("panic: {:?}", panic.downcast_ref::<String>())))
}

fn seeds() -> std::ops::Range<u64> {
    let first =
        std::env::var("ROOKEEPER_FIRST_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    let count =
        std::env::var("ROOKEEPER_SEEDS").map_or(200, |count| count.parse().expect("a number"));
    first..first + count
}

#[test]
fn members_agree_whatever_breaks() {
    let mut sum = Outcome::default();
    for seed in seeds() {
        match run(seed, Flaw::None) {
            Ok(outcome) => sum.add(&outcome),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    println!("{sum:?}");
    // What never happened was not tested.
    let counts = sum.counts();
    assert!(seeds().count() < 100 || counts.iter().all(|count| *count > 50), "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..10 {
        let traces = [(); 2].map(|()| run(seed, Flaw::None).expect("no violation").trace);
        assert_eq!(traces[0], traces[1], "seed {seed}");
    }
}

/// A violation of what members owe each other is found, and not only that this member lost something.
fn assert_found(flaw: Flaw, violations: &[&str]) {
    let found = (0..400)
        .filter_map(|seed| run(seed, flaw).err())
        .find(|violation| violations.iter().any(|expected| violation.contains(expected)));
    println!("{flaw:?}: {found:?}");
    assert!(found.is_some(), "{flaw:?} passes");
}

#[test]
fn an_answer_before_the_sync_is_found() {
    assert_found(Flaw::AckBeforeSync, &["without a quorum", "lacks entry", "out of range"]);
}

#[test]
fn a_word_before_the_write_is_found() {
    assert_found(Flaw::SaidBeforeWritten, &["without a quorum", "lacks entry", "two leaders"]);
}

#[test]
fn an_answer_before_the_quorum_is_found() {
    assert_found(Flaw::AckBeforeQuorum, &["quorum"]);
}

#[test]
fn a_conflicting_tail_that_stays_is_found() {
    assert_found(Flaw::TailNotCut, &["damaged"]);
}

#[test]
fn a_forgotten_vote_is_found() {
    assert_found(Flaw::VoteForgotten, &["two leaders"]);
}

/// `ROOKEEPER_OUT=<folder> cargo test --lib -- --ignored write_members_for_zookeeper --nocapture`
#[test]
#[ignore = "writes into the folder ROOKEEPER_OUT, for ZooKeeper itself"]
fn write_members_for_zookeeper() {
    let out = std::env::var("ROOKEEPER_OUT").expect("ROOKEEPER_OUT names a folder");
    for seed in seeds().take(5) {
        World::export(seed, std::path::Path::new(&out)).expect("no violation");
    }
}
