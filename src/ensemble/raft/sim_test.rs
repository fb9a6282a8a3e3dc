//! Three or five members in one process under one seed: the real engine, log and promises, on
//! simulated disks that lose what was not synced, with clocks of their own and a network that
//! loses, repeats, reorders and parts what they say. Clients ask them, move between them and fall
//! silent. After each step every claim of [`checks`] must hold, and every reply must be that of
//! [`history`]. And the proof that this can fail: planted faults, each found.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::super::disk::Write;
use super::super::election::ELECTION_TICKS;
use super::*;

#[path = "sim_test/age.rs"]
mod age;
#[path = "sim_test/awaits_base.rs"]
mod awaits_base;
#[path = "sim_test/busy.rs"]
mod busy;
#[path = "sim_test/by_hand.rs"]
mod by_hand;
#[path = "sim_test/checks.rs"]
mod checks;
#[path = "sim_test/clients.rs"]
mod clients;
#[path = "sim_test/connection.rs"]
mod connection;
#[path = "sim_test/copies.rs"]
mod copies;
#[path = "sim_test/cut_off.rs"]
mod cut_off;
#[path = "sim_test/faults.rs"]
mod faults;
#[path = "sim_test/flawed_disk.rs"]
mod flawed_disk;
#[path = "sim_test/frames.rs"]
mod frames;
#[path = "sim_test/full.rs"]
mod full;
#[path = "sim_test/hand_over.rs"]
mod hand_over;
#[path = "sim_test/hint.rs"]
mod hint;
#[path = "sim_test/history.rs"]
mod history;
#[path = "sim_test/kept_log.rs"]
mod kept_log;
#[path = "sim_test/life.rs"]
mod life;
#[path = "sim_test/listed.rs"]
mod listed;
#[path = "sim_test/locals.rs"]
mod locals;
#[path = "sim_test/network.rs"]
mod network;
#[path = "sim_test/observers.rs"]
mod observers;
#[path = "sim_test/outcome.rs"]
mod outcome;
#[path = "sim_test/post.rs"]
mod post;
#[path = "sim_test/reconfigs.rs"]
mod reconfigs;
#[path = "sim_test/replies.rs"]
mod replies;
#[path = "sim_test/requests.rs"]
mod requests;
#[path = "sim_test/server.rs"]
mod server;
#[path = "sim_test/sessions.rs"]
mod sessions;
#[path = "sim_test/slow_disk.rs"]
mod slow_disk;
#[path = "sim_test/spoilt.rs"]
mod spoilt;
#[path = "sim_test/storm.rs"]
mod storm;
#[path = "sim_test/taken_out.rs"]
mod taken_out;
#[path = "sim_test/timeline.rs"]
mod timeline;
#[path = "sim_test/transfer.rs"]
mod transfer;
#[path = "sim_test/turn.rs"]
mod turn;
#[path = "sim_test/watches.rs"]
mod watches;
#[path = "sim_test/ways.rs"]
mod ways;
#[path = "sim_test/wiped.rs"]
mod wiped;
#[path = "sim_test/world.rs"]
mod world;
#[path = "sim_test/writing.rs"]
mod writing;
#[path = "sim_test/wrong_leader.rs"]
mod wrong_leader;

use outcome::Outcome;
use world::World;

/// A planted fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Flaw {
    #[default]
    None,
    /// Entries are acknowledged before they are synced.
    AckBeforeSync,
    /// What was handed to the disk is taken for written.
    SaidBeforeWritten,
    /// A leader counts a peer for what was only sent to it.
    AckBeforeQuorum,
    /// A leader takes itself for heard by the others.
    RoundNotMade,
    /// A read may be as old as it is.
    AgeNotChecked,
    /// Its age is looked at when the hold begins.
    AgeBeforeRead,
    /// An answer to an earlier attempt at a round counts as one to the last.
    RoundTakenForLater,
    /// What conflicts with the leader's log stays on the disk.
    TailNotCut,
    /// A start does not know for whom it voted.
    VoteForgotten,
    /// A connection may write for a session that it has lost.
    OwnerNotChecked,
    /// A client may go back to what it has seen the future of.
    SeenNotChecked,
    /// The leader hears nothing of whom its followers heard.
    TouchesDropped,
    /// The tree of a snapshot takes its place after the log has gone on.
    SnapshotLate,
    /// A member's tree is not what the transactions made of it.
    TreeSpoilt,
    /// An event does not come.
    EventLost,
    /// An event comes after the answer that shows its change.
    EventLate,
    /// A read does not wait for the writes before it.
    ReadTooEarly,
    /// A refusal does not wait for the state that it was checked against.
    RefusedTooEarly,
    /// What the last leader decided is asked of the next one again.
    DoneTwice,
    /// The leader gives sessions more time, again and again.
    ExpiredTooLate,
    /// A server's lives are numbered one after the other, whatever the log has given before.
    IdTwice,
    /// A leader takes out whom it does not list itself.
    OwnListAlone,
    /// Whoever is listed as an observer is given a vote.
    ObserverVotes,
    /// What an observer has counts for what the next voter has.
    ObserverCounted,
    /// What members tell each other lacks a field after the way.
    FieldForgotten,
    /// Whoever has a member's place may speak for it, whatever its disk has.
    CopyLetIn,
}

/// So many seeds fill the table.
const SEEDS_FOR_TABLE: u64 = 1500;

fn run(seed: u64, flaw: Flaw) -> Result<Outcome, String> {
    caught(|| World::run(seed, flaw))
}

fn caught(run: impl FnOnce() -> Result<Outcome, String>) -> Result<Outcome, String> {
    // The crate panics where it sees that a promise to it was broken.
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(format!("panic: {:?}", panic.downcast_ref::<String>())))
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
}

/// A run ends after so many violations: each tells its seed, so that a long run is worth its time.
const VIOLATIONS_TOLD: usize = 5;

/// Runs seeds on all processors. The error has every violation that was found.
fn run_all(
    seeds: std::ops::Range<u64>,
    run: impl Fn(u64) -> Result<Outcome, String> + Sync,
) -> Result<Outcome, String> {
    let next = AtomicU64::new(seeds.start);
    let sum = Mutex::new(Outcome::default());
    let violations = Mutex::new(Vec::new());
    let work = || {
        while violations.lock().len() < VIOLATIONS_TOLD {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            match run(seed) {
                Ok(outcome) => sum.lock().add(&outcome),
                Err(violation) => violations.lock().push(format!(
                    "seed {seed}: {violation}\n\
                     FERROKEEPER_FIRST_SEED={seed} FERROKEEPER_SEEDS=1 repeats it"
                )),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let violations = violations.into_inner();
    if violations.is_empty() { Ok(sum.into_inner()) } else { Err(violations.join("\n\n")) }
}

/// `FERROKEEPER_FIRST_SEED=<seed> FERROKEEPER_SEEDS=1 cargo test --lib members_agree` repeats a
/// seed.
#[test]
fn members_agree_whatever_breaks() {
    let (first, count) = (number("FERROKEEPER_FIRST_SEED", 0), number("FERROKEEPER_SEEDS", 300));
    let started = std::time::Instant::now();
    let sum = run_all(first..first + count, |seed| run(seed, Flaw::None))
        .unwrap_or_else(|violation| panic!("{violation}"));
    println!("seeds {first} to {}, {:?}", first + count - 1, started.elapsed());
    println!("simulated hours: {:.1}", sum.seconds as f64 / 3600.0);
    println!("{:?}\n{}", sum.counts(), sum.table);
    // What never happened was not tested.
    if count >= 300 {
        let of_trees = ["spoilt", "healed", "ended"];
        let counts = sum.counts().into_iter().filter(|(name, _)| !of_trees.contains(name));
        let few: Vec<_> = counts.filter(|(_, count)| *count < 10).collect();
        assert_eq!(few, []);
    }
    if count >= SEEDS_FOR_TABLE {
        let least = if count >= 20_000 { 100 } else { 10 };
        assert_eq!(sum.table.below(least), []);
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..10 {
        let traces = [(); 2].map(|()| run(seed, Flaw::None).expect("no violation").trace);
        assert_eq!(traces[0], traces[1], "seed {seed}");
    }
}

/// With `FERROKEEPER_FIRST_SEED` and `FERROKEEPER_SEEDS`, too.
#[test]
fn whoever_has_a_wrong_tree_gets_the_right_one_whatever_breaks() {
    let (first, count) = (number("FERROKEEPER_FIRST_SEED", 0), number("FERROKEEPER_SEEDS", 200));
    let sum = run_all(first..first + count, |seed| caught(|| World::run_spoilt(seed)));
    let sum = sum.unwrap_or_else(|violation| panic!("{violation}"));
    println!("{:?}", sum.counts());
    // Others are lost with their process: a start makes the tree anew. Of few seeds that can be
    // most.
    let least = match count {
        100.. => count / 3,
        10.. => 1,
        _ => 0,
    };
    assert!(sum.healed >= least, "{} spoilt, {} healed", sum.spoilt, sum.healed);
}

/// A violation of what members owe each other is found, and not only that this member lost
/// something; without the planted fault, the same seed has none.
fn assert_found(flaw: Flaw, violations: &[&str]) {
    let found = (0..5000).find_map(|seed| {
        let violation = run(seed, flaw).err()?;
        violations.iter().any(|expected| violation.contains(expected)).then_some((seed, violation))
    });
    let Some((seed, violation)) = found else { panic!("{flaw:?} passes") };
    println!("{flaw:?} is found after {} seeds: {violation}", seed + 1);
    assert_eq!(run(seed, Flaw::None).err(), None, "{flaw:?}, seed {seed}");
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
    assert_found(Flaw::TailNotCut, &["IndexGap", "two entries are"]);
}

#[test]
fn a_forgotten_vote_is_found() {
    assert_found(Flaw::VoteForgotten, &["two leaders"]);
}

#[test]
fn reads_of_any_age_are_found() {
    assert_found(Flaw::AgeNotChecked, &["too old"]);
}

#[test]
fn an_age_looked_at_before_the_read_is_found() {
    assert_found(Flaw::AgeBeforeRead, &["too old"]);
}

#[test]
fn a_write_of_who_lost_the_session_is_found() {
    assert_found(Flaw::OwnerNotChecked, &["which lost session"]);
}

#[test]
fn a_client_that_goes_back_in_time_is_found() {
    assert_found(Flaw::SeenNotChecked, &["its client saw"]);
}

#[test]
fn a_lost_report_of_who_was_heard_is_found() {
    assert_found(Flaw::TouchesDropped, &["and was heard of"]);
}

#[test]
fn a_snapshot_that_is_applied_late_is_found() {
    assert_found(Flaw::SnapshotLate, &["the tree at", "cannot be applied"]);
}

#[test]
fn a_tree_that_differs_is_found() {
    assert_found(Flaw::TreeSpoilt, &["two trees at"]);
}

#[test]
fn a_lost_event_is_found() {
    assert_found(Flaw::EventLost, &["came before", "looked at"]);
}

#[test]
fn a_late_event_is_found() {
    assert_found(Flaw::EventLate, &["a reply of"]);
}

#[test]
fn a_read_before_ones_own_write_is_found() {
    assert_found(Flaw::ReadTooEarly, &["and not"]);
}

#[test]
fn a_refusal_before_its_state_is_found() {
    assert_found(Flaw::RefusedTooEarly, &["in no state since"]);
}

#[test]
fn a_request_done_twice_at_a_hand_over_is_found() {
    assert_found(Flaw::DoneTwice, &["was done at"]);
}

#[test]
fn a_session_that_ends_too_late_is_found() {
    assert_found(Flaw::ExpiredTooLate, &["after it was heard of"]);
}

#[test]
fn an_id_that_is_given_twice_is_found() {
    assert_found(Flaw::IdTwice, &["was given twice"]);
}

#[test]
fn who_is_taken_out_by_one_list_alone_is_found() {
    assert_found(Flaw::OwnListAlone, &["do not list it"]);
}

#[test]
fn an_observer_that_votes_is_found() {
    assert_found(Flaw::ObserverVotes, &["is a voter"]);
}

#[test]
fn an_observer_that_counts_is_found() {
    assert_found(Flaw::ObserverCounted, &["without a quorum"]);
}

#[test]
fn a_field_that_does_not_travel_is_found() {
    assert_found(Flaw::FieldForgotten, &["comes out of its frame"]);
}

#[test]
fn a_copy_that_is_let_in_is_found() {
    assert_found(
        Flaw::CopyLetIn,
        &["without a quorum", "lacks entry", "two leaders", "out of range"],
    );
}

/// `FERROKEEPER_OUT=<folder> cargo test --lib -- --ignored write_members_for_zookeeper --nocapture`
#[test]
#[ignore = "writes into the folder FERROKEEPER_OUT, for ZooKeeper itself"]
fn write_members_for_zookeeper() {
    let out = std::env::var("FERROKEEPER_OUT").expect("FERROKEEPER_OUT names a folder");
    for seed in 0..number("FERROKEEPER_SEEDS", 5) {
        World::export(seed, std::path::Path::new(&out)).expect("no violation");
    }
}
