//! The servers in turn, round after round, and the medians.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::case::{CASES, Case, Spans, What};
use crate::floor;
use crate::measure::{Figures, PER_SECOND, measure};
use crate::population;
use crate::subject::{Kind, Programs, Subject};

/// All that a run found: case, server, figure, one value a round.
pub(crate) type Findings = BTreeMap<usize, BTreeMap<Kind, BTreeMap<&'static str, Vec<f64>>>>;

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
    pub(crate) kinds: Vec<Kind>,
}

impl Plan {
    fn cases(&self) -> impl Iterator<Item = (usize, &'static Case)> {
        let chosen = |case: &Case| {
            self.only.is_empty() || self.only.iter().any(|part| case.name.contains(part.as_str()))
        };
        CASES.iter().enumerate().filter(move |(_, case)| chosen(case))
    }
}

/// Runs everything; `tell` hears what is going on.
pub(crate) fn run(
    plan: &Plan,
    programs: &Programs,
    mut tell: impl FnMut(&str),
) -> io::Result<Findings> {
    let mut findings = Findings::new();
    for round in 1..=plan.rounds {
        for kind in &plan.kinds {
            let mut running: Option<(Subject, _)> = None;
            for (number, case) in plan.cases() {
                if *kind == Kind::Floor && !has_floor(case) {
                    continue;
                }
                let subject = match running.take() {
                    Some((subject, population)) if population == case.population => subject,
                    ended => {
                        drop(ended);
                        populated(*kind, case, plan, programs)?
                    }
                };
                let sets = apache_sets(&findings);
                let figures = measure(&subject, case, &plan.spans, sets).map_err(|error| {
                    io::Error::other(format!("{}, {}: {error}", case.name, kind.name()))
                })?;
                tell(&line(round, *kind, case.name, &figures));
                let found = findings.entry(number).or_default().entry(*kind).or_default();
                for (figure, value) in figures {
                    found.entry(figure).or_default().push(value);
                }
                running = Some((subject, case.population));
            }
        }
    }
    Ok(findings)
}

/// What a bare server can be asked.
fn has_floor(case: &Case) -> bool {
    use crate::request::Workload::{Get, Set};
    match case.what {
        What::Closed { workload: Get | Set, .. } => case.population.value_len == 100,
        What::FanOut { .. } | What::Trickle { .. } => true,
        _ => false,
    }
}

fn populated(kind: Kind, case: &Case, plan: &Plan, programs: &Programs) -> io::Result<Subject> {
    let subject = Subject::start(kind, programs)?;
    if kind != Kind::Floor {
        let keys = plan.spans.scaled(case.population.keys);
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

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        Some(upper) if sorted.len() % 2 == 1 => *upper,
        Some(upper) => (sorted[middle - 1] + upper) / 2.0,
        None => f64::NAN,
    }
}

/// The floor of a synced write: `fdatasync` behind a small write on the same disk.
pub(crate) fn sync_floor(programs: &Programs, span: Duration) -> io::Result<Histogram<u64>> {
    floor::sync_latency(&programs.data, span)
}
