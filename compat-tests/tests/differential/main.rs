//! Random scripts against Apache ZooKeeper and the server under test: every reply and event, and
//! the tree in the end, are the same.
//!
//! There are two parts. The first has `DIFFERENTIAL_OPERATIONS` requests, whose scripts come from a
//! fixed seed: the same change always meets the same ones, and they must reach all that
//! `required.rs` lists, which is so not by chance. The second has half as many, whose scripts come
//! from seeds of the clock, one for each 100,000 requests: no two runs have the same.
//! `DIFFERENTIAL_SEED` repeats the scripts of one of these seeds, or of several (`7,8`), and
//! nothing else.
//!
//! The answers that Apache ZooKeeper gave to some scripts are in `recorded.jsonl.gz`; `RECORD=1`
//! records them anew. Where it cannot be had, there are no others; where `CI` is set as well, the
//! test fails.

mod answer;
mod coverage;
mod duel;
mod generate;
mod known;
mod meant;
mod recording;
mod required;
mod script;
mod side;

use std::io::{self, Write};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use compat_tests::{count, repository, run_the_release, skipped};

use compat_tests::random::Random;
use coverage::Coverage;
use duel::Duel;
use side::Setup;

const FIXED_SEED: u64 = 395;

/// The most requests of one seed of the clock.
const OF_ONE_SEED: usize = 100_000;

/// Seeds of the clock have this share of the requests of the fixed one, as a divisor.
const OF_FRESH: usize = 2;

/// More are likely the same ones again.
const MOST_DIFFERENCES: usize = 5;

/// Pairs of servers at work at a time: most of what one does is waiting.
const LANES: [Setup; 4] = [Setup::Ttl, Setup::Ttl, Setup::Ttl, Setup::Reconfig];

/// One script in so many takes place on a large tree.
const LARGE_EVERY: usize = 10;

/// The seeds that are to be repeated, if any are.
fn repeated() -> Option<Vec<u64>> {
    let text = std::env::var("DIFFERENTIAL_SEED").ok()?;
    let seed = |text: &str| text.parse().unwrap_or_else(|_| panic!("a seed: {text}"));
    Some(text.split(',').map(seed).collect())
}

/// Seeds that no run has had before.
fn fresh(operations: usize) -> Vec<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    let count = u64::try_from(operations.div_ceil(OF_ONE_SEED)).expect("a usize fits");
    (0..count).map(|number| now.as_secs() + number).collect()
}

/// The scripts of one lane: what they reached, and what was different.
fn lane(
    seed: u64,
    number: usize,
    operations: usize,
    differences: &AtomicUsize,
) -> (Coverage, Vec<String>) {
    let setup = LANES[number];
    let mut duel = Duel::start(setup);
    let (mut coverage, mut found) = (Coverage::default(), Vec::new());
    let mut chance = Random::of(seed, number);
    for script in 0.. {
        if coverage.operations >= operations
            || differences.load(Ordering::Relaxed) >= MOST_DIFFERENCES
        {
            break;
        }
        let (large, script) = (script % LARGE_EVERY == 0, chance.number());
        if let Some(difference) = duel.script(script, large, &mut coverage) {
            differences.fetch_add(1, Ordering::Relaxed);
            found.push(format!("lane {number}, script {script:#x}:\n{difference}"));
            // The trees' roots may no longer be the same.
            duel = Duel::start(setup);
        }
    }
    (coverage, found)
}

/// Whether there is Apache ZooKeeper to ask, and Java to run it; if not, why.
fn has_reference() -> Result<(), String> {
    let prepared = Command::new(repository().join("scripts/reference")).arg("--prepare").output();
    match prepared {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Also when the test passes: which of the two it did must not be missed.
fn say(text: &str) {
    writeln!(io::stderr(), "differential: {text}").expect("stderr is open");
}

/// Runs so many requests of these seeds together; what the scripts have reached.
#[expect(clippy::print_stdout, reason = "what a failed test shows")]
fn compare(seeds: &[u64], operations: usize, differences: &AtomicUsize) -> Coverage {
    let mut all = Coverage::default();
    for seed in seeds {
        let started = Instant::now();
        let of_lane = operations / seeds.len() / LANES.len();
        let run = |number| lane(*seed, number, of_lane, differences);
        let lanes: Vec<(Coverage, Vec<String>)> = thread::scope(|scope| {
            let lanes: Vec<_> =
                (0..LANES.len()).map(|number| scope.spawn(move || run(number))).collect();
            lanes.into_iter().map(|lane| lane.join().expect("a lane ends")).collect()
        });
        let before = all.operations;
        for (coverage, found) in &lanes {
            all.add(coverage);
            for difference in found {
                println!("- reference, + subject: seed {seed}, {difference}");
            }
        }
        println!(
            "seed {seed}: {} operations in {:.1} s, {} differences so far",
            all.operations - before,
            started.elapsed().as_secs_f64(),
            differences.load(Ordering::Relaxed)
        );
    }
    println!("{all}");
    let seeds = seeds.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    say(&format!(
        "{} operations against Apache ZooKeeper, {} differences so far; to repeat these: \
         DIFFERENTIAL_SEED={seeds} DIFFERENTIAL_OPERATIONS={operations} cargo test -p compat-tests \
         --test differential both_servers_say_the_same -- --nocapture",
        all.operations,
        differences.load(Ordering::Relaxed)
    ));
    all
}

#[test]
fn both_servers_say_the_same() {
    run_the_release();
    if let Err(why) = has_reference() {
        skipped(
            &format!("APACHE ZOOKEEPER CANNOT BE HAD HERE, so no random scripts: {why}"),
            "scripts/reference --prepare gets it, and Java",
        );
        let scripts = recording::scripts();
        let difference = recording::difference(&scripts);
        assert!(difference.is_none(), "{}", difference.expect("not none"));
        say(&format!("{} recorded operations, 0 differences", recording::operations(&scripts)));
        return;
    }
    let operations = count("DIFFERENTIAL_OPERATIONS", 100_000);
    let differences = AtomicUsize::new(0);
    let fixed = match repeated() {
        Some(seeds) => {
            compare(&seeds, operations, &differences);
            None
        }
        None => {
            let fixed = compare(&[FIXED_SEED], operations, &differences);
            let operations = operations / OF_FRESH;
            compare(&fresh(operations), operations, &differences);
            Some(fixed)
        }
    };
    assert_eq!(differences.into_inner(), 0, "see above");
    if let Some(fixed) = fixed {
        fixed.check();
    }
}

#[test]
fn recorded_answers_hold() {
    run_the_release();
    if std::env::var_os("RECORD").is_some() {
        recording::record();
    }
    let difference = recording::difference(&recording::scripts());
    assert!(difference.is_none(), "{}", difference.expect("not none"));
}

#[test]
fn another_answer_than_the_recorded_one_is_found() {
    run_the_release();
    let mut scripts = recording::scripts();
    scripts.truncate(2);
    let at = scripts[1].said.len() / 2;
    let line = scripts[1].said[at].last_mut().expect("every step says something");
    *line = line.with_text(format!("{} planted", line.text));
    let difference = recording::difference(&scripts).expect("it is found");
    assert_eq!(difference.steps.last(), scripts[1].steps.get(at));
    assert!(difference.to_string().contains(" planted"));
}
