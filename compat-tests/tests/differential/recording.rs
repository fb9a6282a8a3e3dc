//! A run against Apache ZooKeeper that is kept in the repository: where Java cannot be had, its
//! answers stand in for a live reference.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;

use compat_tests::{Kind, repository};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::answer::Line;
use crate::coverage::Coverage;
use crate::duel::{Difference, Duel, Stage, replay};
use crate::script::Step;
use crate::side::{Setup, Side};
use crate::{FIXED_SEED, LARGE_EVERY};
use compat_tests::random::Random;

/// Requests that are recorded.
const OPERATIONS: usize = 8_000;

const SETUP: Setup = Setup::Ttl;

/// A script, and what Apache ZooKeeper said to each step and of the tree in the end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Script {
    stage: Stage,
    pub(crate) steps: Vec<Step>,
    pub(crate) said: Vec<Vec<Line>>,
}

fn path() -> PathBuf {
    repository().join("compat-tests/tests/differential/recorded.jsonl.gz")
}

/// Asks Apache ZooKeeper and writes the file anew.
pub(crate) fn record() {
    let mut duel = Duel::start(SETUP);
    let (mut coverage, mut chance) = (Coverage::default(), Random::of(FIXED_SEED, 0));
    // Whole or not at all: a test beside this one may be reading it.
    let unfinished = path().with_extension("unfinished");
    let file = File::create(&unfinished).expect("the recording is written");
    let mut out = GzEncoder::new(file, Compression::best());
    for number in 0.. {
        if coverage.operations >= OPERATIONS {
            break;
        }
        let course = duel.record(chance.number(), number % LARGE_EVERY == 0, &mut coverage);
        let script = Script {
            stage: course.stage.clone(),
            steps: course.steps.clone(),
            said: course.said.iter().map(|(expected, _)| expected.clone()).collect(),
        };
        if let Some(difference) = course.difference() {
            panic!("nothing is recorded with a difference in it:\n{difference}");
        }
        serde_json::to_writer(&mut out, &script).expect("a script is a line of JSON");
        writeln!(out).expect("the recording is written");
    }
    out.finish().expect("the recording is written");
    fs::rename(unfinished, path()).expect("the recording is written");
}

/// What was recorded.
pub(crate) fn scripts() -> Vec<Script> {
    let file = File::open(path()).expect("the repository has a recording");
    let lines = BufReader::new(GzDecoder::new(file)).lines();
    let script = |line: io::Result<String>| {
        serde_json::from_str(&line.expect("a line")).expect("a script of this version: RECORD=1")
    };
    lines.map(script).collect()
}

/// How many requests the scripts have.
pub(crate) fn operations(scripts: &[Script]) -> usize {
    scripts.iter().flat_map(|script| &script.steps).map(|step| step.ops().len()).sum()
}

/// The first difference between what was recorded and what the subject says.
pub(crate) fn difference(scripts: &[Script]) -> Option<Difference> {
    let mut subject = Side::start(Kind::subject(), SETUP);
    scripts
        .iter()
        .find_map(|script| replay(&mut subject, &script.stage, &script.steps, &script.said))
}
