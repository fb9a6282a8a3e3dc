//! The servers in turn, round after round, and the medians.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::case::{CASES, Case, Population, SMALL, Spans, What};
use crate::measure::{Failed, Figures, Found, NO_ANSWERS, PER_SECOND, measure};
use crate::start::Contents;
use crate::subject::{Heap, Kind, Launch, Programs, Subject};
use crate::{ensemble, floor, population, report, snapshot, start, storm};

/// All that a run found: case, server, figure, one value a round.
pub(crate) type Findings = BTreeMap<usize, BTreeMap<Kind, BTreeMap<&'static str, Vec<f64>>>>;

/// A case, or a part of it, that a server did not get through in one round.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) case: &'static str,
    pub(crate) kind: Kind,
    pub(crate) failed: Failed,
}

/// The case whose operations a second decide the rate of the open loop.
const SETS: &str = "set 16 x 32";
/// If it does not run.
const ASSUMED_SETS: f64 = 40_000.0;

/// Which cases run, and how often.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) spans: Spans,
    pub(crate) rounds: u32,
    /// Parts of names; none means all.
    pub(crate) only: Vec<String>,
    /// A part of the name of what goes on in the storm; none means all of it.
    pub(crate) storm: Option<String>,
    /// Whether the largest cases run.
    pub(crate) large: bool,
    pub(crate) kinds: Vec<Kind>,
}

impl Plan {
    fn cases(&self) -> impl Iterator<Item = (usize, &'static Case)> {
        let chosen = |case: &Case| {
            let is_named = |part: &String| case.name.contains(part.as_str());
            (self.large || !case.is_large())
                && (self.only.is_empty() || self.only.iter().any(is_named))
        };
        CASES.iter().enumerate().filter(move |(_, case)| chosen(case))
    }
}

/// Runs everything, and returns how often something failed. `tell` hears what is going on; `keep`
/// gets the round and what was found so far after each case, so that a run that is broken off
/// leaves that.
pub(crate) fn run(
    plan: &Plan,
    programs: &Programs,
    mut tell: impl FnMut(&str),
    mut keep: impl FnMut(u32, &Findings, &[Failure]) -> io::Result<()>,
) -> io::Result<usize> {
    let mut findings = Findings::new();
    let mut failures = Vec::new();
    let mut contents = Contents::default();
    for round in 1..=plan.rounds {
        for kind in &plan.kinds {
            let mut running = None;
            for (number, case) in plan.cases() {
                let is_over = round > 1 && case.what.has_own_rounds();
                if is_over || *kind == Kind::Floor && !has_floor(case) {
                    continue;
                }
                let sets = apache_sets(&findings);
                let found = if case.what.has_own_servers() {
                    running = None;
                    alone(*kind, case, plan, programs, &mut contents)
                } else {
                    shared(*kind, case, plan, programs, sets, &mut running).map(Found::from)
                };
                let Found { figures, failed } = found.unwrap_or_else(|error| {
                    // The others are worth their time.
                    running = None;
                    let failed = Failed { part: String::new(), why: error.to_string() };
                    Found { figures: Figures::new(), failed: vec![failed] }
                });
                if !figures.is_empty() {
                    tell(&line(round, *kind, case.name, &figures));
                    let found = findings.entry(number).or_default().entry(*kind).or_default();
                    for (figure, value) in figures {
                        found.entry(figure).or_default().push(value);
                    }
                }
                for Failed { part, why } in failed {
                    let failed = Failed { part, why: report::one_line(&why) };
                    let why = report::why(*kind, &failed);
                    tell(&format!("round {round}, {}: {why}", case.name));
                    failures.push(Failure { case: case.name, kind: *kind, failed });
                }
                keep(round, &findings, &failures)?;
            }
        }
    }
    Ok(failures.len())
}

/// What a server must have to serve for a case.
type Wanted = (Population, Heap);

/// A case on the server of the one before, if that one is as wanted.
fn shared(
    kind: Kind,
    case: &Case,
    plan: &Plan,
    programs: &Programs,
    apache_sets: f64,
    running: &mut Option<(Subject, Wanted)>,
) -> io::Result<Figures> {
    let wanted = (case.population, case.heap());
    if running.as_ref().is_none_or(|(_, its)| *its != wanted) {
        // Never two at a time.
        *running = None;
    }
    let (subject, _) = match running {
        Some(running) => running,
        none => none.insert((populated(kind, case, plan, programs)?, wanted)),
    };
    measure(subject, case, &plan.spans, apache_sets)
}

/// A case that starts servers of its own.
fn alone(
    kind: Kind,
    case: &Case,
    plan: &Plan,
    programs: &Programs,
    contents: &mut Contents,
) -> io::Result<Found> {
    let Population { keys, value_len } = case.population;
    let znodes = plan.spans.scaled(keys);
    let launch = Launch { kind, programs, settings: String::new(), znodes, heap: case.heap() };
    let figures = match case.what {
        What::Start { replayed } => {
            let content = contents.of(&launch, value_len, plan.spans.scaled(replayed))?;
            start::figures(&launch, content)
        }
        What::Ensemble(of) => ensemble::figures(&launch, of, value_len, &plan.spans),
        What::Storm => {
            let part = plan.storm.as_deref();
            return Ok(storm::figures(&launch, value_len, &plan.spans, part));
        }
        _ => snapshot::figures(&launch, value_len, &plan.spans),
    };
    figures.map(Found::from)
}

/// What a bare server can be asked.
fn has_floor(case: &Case) -> bool {
    use crate::request::Workload::{Get, Set};
    match case.what {
        // It has no tree: a larger one is the same to it.
        What::Closed { workload: Get | Set, .. } => case.population == SMALL,
        What::FanOut { .. } | What::Trickle { .. } => true,
        _ => false,
    }
}

fn populated(kind: Kind, case: &Case, plan: &Plan, programs: &Programs) -> io::Result<Subject> {
    let keys = plan.spans.scaled(case.population.keys);
    let launch =
        Launch { kind, programs, settings: String::new(), znodes: keys, heap: case.heap() };
    let subject = launch.fresh()?;
    if kind != Kind::Floor {
        population::create(subject.address(), keys, case.population.value_len)?;
    }
    Ok(subject)
}

fn apache_sets(findings: &Findings) -> f64 {
    let number = CASES.iter().position(|case| case.name == SETS);
    number
        .and_then(|number| findings.get(&number)?.get(&Kind::Apache)?.get(PER_SECOND))
        .map_or(ASSUMED_SETS, |rounds| median(rounds))
}

fn line(round: u32, kind: Kind, case: &str, figures: &Figures) -> String {
    let figures: Vec<String> =
        figures.iter().map(|(name, value)| format!("{name} {value:.1}")).collect();
    format!("round {round}, {}, {case}: {}", kind.name(), figures.join(", "))
}

/// The middle value, or the mean of the two in the middle, which is no answer where one is none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        Some(upper) if sorted.len() % 2 == 1 || *upper >= NO_ANSWERS => *upper,
        Some(upper) => (sorted[middle - 1] + upper) / 2.0,
        None => f64::NAN,
    }
}

/// The floor of a synced write: `fdatasync` after a small write on the same disk.
pub(crate) fn sync_floor(programs: &Programs, span: Duration) -> io::Result<Histogram<u64>> {
    floor::sync_latency(&programs.data, span)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::path::PathBuf;

    use super::*;
    use crate::warmth::Steady;

    #[test]
    fn the_mean_of_an_answer_and_none_is_no_answer() {
        assert_eq!(median(&[1.0, 2.0]), 1.5);
        assert_eq!(median(&[NO_ANSWERS, 2.0]), NO_ANSWERS);
        assert_eq!(median(&[NO_ANSWERS; 4]), NO_ANSWERS);
        assert_eq!(median(&[1.0, NO_ANSWERS, 2.0]), 2.0);
    }

    /// Nothing comes after it that would have it kept.
    #[test]
    fn the_failure_of_the_last_case_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let none = PathBuf::from("/nonexistent");
        let data = folder.path().to_owned();
        let programs = Programs { ferrokeeper: none.clone(), reference: none, data };
        let plan = Plan {
            spans: Spans {
                warm_up: Duration::ZERO,
                steady: Steady { step: Duration::ZERO, at_most: Duration::ZERO },
                measured: Duration::ZERO,
                open_loop: Duration::ZERO,
                outages: 1,
                scale: NonZeroU32::MIN,
            },
            rounds: 1,
            only: vec![SETS.to_owned()],
            storm: None,
            large: false,
            kinds: vec![Kind::Ferrokeeper],
        };
        let mut kept = 0;
        let keep = |_, _: &Findings, failures: &[Failure]| {
            kept = failures.len();
            Ok(())
        };
        let failed = run(&plan, &programs, |_| {}, keep).expect("it ends");
        assert_eq!((failed, kept), (1, 1));
    }
}
