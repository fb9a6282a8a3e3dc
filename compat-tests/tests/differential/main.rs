//! Random scripts against Apache ZooKeeper and the server under test: every reply and event, and
//! the tree in the end, are the same.
//!
//! `DIFFERENTIAL_OPERATIONS` is how many requests are sent. `DIFFERENTIAL_SEED` repeats the scripts
//! of a run, `new` makes new ones; without it they come from a fixed seed, so that the same change
//! always meets the same scripts.
//! `DIFFERENTIAL_TREE` is how many znodes stand beside those of the scripts.

mod answer;
mod coverage;
mod duel;
mod generate;
mod known;
mod meant;
mod random;
mod script;
mod side;

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use compat_tests::count;

use coverage::Coverage;
use duel::Duel;
use random::Random;

const FIXED_SEED: u64 = 395;

/// More are likely the same ones again.
const MOST_DIFFERENCES: usize = 5;

fn seeds() -> Vec<u64> {
    match std::env::var("DIFFERENTIAL_SEED").as_deref() {
        Err(_) => vec![FIXED_SEED],
        Ok("new") => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock behind 1970");
            vec![now.as_secs()]
        }
        Ok(text) => vec![text.parse().unwrap_or_else(|_| panic!("DIFFERENTIAL_SEED={text}"))],
    }
}

#[test]
fn both_servers_say_the_same() {
    let operations = count("DIFFERENTIAL_OPERATIONS", 60_000);
    let tree = count("DIFFERENTIAL_TREE", 0);
    let seeds = seeds();
    let mut duel = Duel::start(tree);
    let mut differences = Vec::new();
    for seed in &seeds {
        let (mut coverage, started) = (Coverage::default(), Instant::now());
        let mut chance = Random::new(*seed);
        while coverage.operations < operations / seeds.len() && differences.len() < MOST_DIFFERENCES
        {
            let script = chance.next();
            if let Some(found) = duel.script(script, &mut coverage) {
                let report =
                    format!("seed {seed}, script {script:#x}: - reference, + subject\n{found}");
                println!("{report}");
                differences.push(report);
                // The trees' roots may no longer be the same.
                duel = Duel::start(tree);
            }
        }
        println!("seed {seed}, {:.1} s: {coverage}", started.elapsed().as_secs_f64());
        if differences.is_empty() {
            coverage.check();
        }
    }
    assert!(differences.is_empty(), "{} differences, see above", differences.len());
}
