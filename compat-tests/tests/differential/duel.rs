//! One script against both servers, and the shortest one that still tells them apart.

use std::collections::BTreeSet;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::Kind;

use crate::answer::Line;
use crate::coverage::Coverage;
use crate::generate::Generator;
use crate::script::{Action, Op, Step};
use crate::side::{LARGE, Outcome, Setup, Side};

/// Shrinking ends then, however far it is.
const SHRINKING: Duration = Duration::from_secs(40);

/// The same script on both.
#[derive(Debug)]
pub(crate) struct Duel {
    reference: Side,
    subject: Side,
    /// Runs so far: each has a top node of its own.
    runs: usize,
    setup: Setup,
}

/// Where steps come from.
enum Source<'a> {
    New(&'a mut Generator, &'a mut Coverage),
    Again(std::slice::Iter<'a, Step>),
}

/// How many clients a script has, whether the order of ACLs counts and where it takes place.
#[derive(Clone, Copy, Debug)]
struct Stage {
    clients: usize,
    sort_acls: bool,
    large: bool,
}

/// A script that tells the servers apart.
#[derive(Debug)]
pub(crate) struct Difference {
    stage: Stage,
    pub(crate) steps: Vec<Step>,
    /// Step by step: what the reference said and what the subject said.
    said: Vec<(Vec<String>, Vec<String>)>,
}

impl Duel {
    pub(crate) fn start(setup: Setup) -> Self {
        let (reference, subject) = thread::scope(|scope| {
            let reference = scope.spawn(|| Side::start(Kind::Reference, setup));
            let subject = Side::start(Kind::subject(), setup);
            (reference.join().expect("Apache ZooKeeper serves"), subject)
        });
        Self { reference, subject, runs: 0, setup }
    }

    fn sides(&mut self) -> [&mut Side; 2] {
        [&mut self.reference, &mut self.subject]
    }

    /// A new script; what is different, cut down.
    pub(crate) fn script(
        &mut self,
        seed: u64,
        large: bool,
        coverage: &mut Coverage,
    ) -> Option<Difference> {
        let mut generator = Generator::new(seed, large);
        coverage.script(large);
        let theme = generator.theme();
        let stage = Stage { clients: theme.clients, sort_acls: theme.many_identities, large };
        let found = self.run(stage, Source::New(&mut generator, coverage))?;
        Some(self.shrink(found))
    }

    fn run(&mut self, stage: Stage, mut source: Source<'_>) -> Option<Difference> {
        self.runs += 1;
        let top = if stage.large { LARGE.into() } else { format!("/d{:07}", self.runs) };
        let begun = self.sides().map(|side| side.begin(&top, stage.clients, stage.sort_acls));
        if begun.iter().any(Result::is_err) {
            // The script before this one has ended a server.
            *self = Self { runs: self.runs, ..Self::start(self.setup) };
            for side in self.sides() {
                side.begin(&top, stage.clients, stage.sort_acls).expect("a new server serves");
            }
        }
        let (mut steps, mut said) = (Vec::new(), Vec::<(Vec<Line>, Vec<Line>)>::new());
        let mut equal = true;
        while equal {
            let next = match &mut source {
                Source::New(generator, _) => generator.next(),
                Source::Again(steps) => steps.next().cloned(),
            };
            let Some(step) = next else { break };
            let (expected, actual) = self.step(&step);
            if let Source::New(generator, coverage) = &mut source {
                generator.learn(&step, &expected);
                coverage.step(&step, &expected);
            }
            let (expected, actual) = settled(expected.lines, actual.lines);
            equal = expected.iter().map(|line| &line.text).eq(actual.iter().map(|line| &line.text));
            steps.push(step);
            said.push((expected, actual));
        }
        said.push((finish(&mut self.reference), finish(&mut self.subject)));
        let expected = ranked(said.iter().map(|(expected, _)| expected));
        let actual = ranked(said.iter().map(|(_, actual)| actual));
        if expected == actual {
            return None;
        }
        let said = expected.into_iter().zip(actual).collect();
        Some(Difference { stage, steps, said })
    }

    fn step(&mut self, step: &Step) -> (Outcome, Outcome) {
        // Both work at the same time.
        let sent = self.sides().map(|side| side.send(step));
        let mut outcomes = self.sides().into_iter().zip(sent).map(|(side, sent)| {
            let broken = |error| Outcome {
                lines: vec![Line::new(format!("broken: {error}"))],
                ..Outcome::default()
            };
            match sent {
                Ok(mut outcome) => match side.receive(step, &mut outcome) {
                    Ok(()) => outcome,
                    Err(error) => {
                        outcome.lines.push(Line::new(format!("broken: {error}")));
                        outcome
                    }
                },
                Err(error) => broken(error),
            }
        });
        let expected = outcomes.next().unwrap_or_default();
        (expected, outcomes.next().unwrap_or_default())
    }

    /// Leaves out steps, requests and parts as long as there is a difference.
    fn shrink(&mut self, found: Difference) -> Difference {
        let deadline = Instant::now() + SHRINKING;
        let mut best = found;
        loop {
            let before = size(&best.steps);
            let mut length = (best.steps.len() / 2).max(1);
            loop {
                let mut at = 0;
                while at < best.steps.len() && Instant::now() < deadline {
                    let mut steps = best.steps.clone();
                    steps.drain(at..(at + length).min(steps.len()));
                    match self.again(best.stage, &steps) {
                        Some(smaller) => best = smaller,
                        None => at += length,
                    }
                }
                if length == 1 {
                    break;
                }
                length /= 2;
            }
            for at in 0..best.steps.len() {
                let mut variant = 0;
                while let Some(step) = best.steps.get(at).and_then(|step| without(step, variant))
                    && Instant::now() < deadline
                {
                    let mut steps = best.steps.clone();
                    steps[at] = step;
                    match self.again(best.stage, &steps) {
                        Some(smaller) => best = smaller,
                        None => variant += 1,
                    }
                }
            }
            if size(&best.steps) == before || Instant::now() > deadline {
                return best;
            }
        }
    }

    fn again(&mut self, stage: Stage, steps: &[Step]) -> Option<Difference> {
        self.run(stage, Source::Again(steps.iter()))
    }
}

fn size(steps: &[Step]) -> usize {
    let parts = |op: &Op| match op {
        Op::Multi { parts, .. } => 1 + parts.len(),
        Op::SetWatches { lists, .. } => 1 + lists.iter().map(Vec::len).sum::<usize>(),
        _ => 1,
    };
    steps.iter().map(|step| 1 + step.ops().iter().map(parts).sum::<usize>()).sum()
}

/// The step without its n-th request, part of a multi or path.
fn without(step: &Step, n: usize) -> Option<Step> {
    let ops = step.ops();
    let with = |ops: Vec<Op>| {
        let action = match &step.action {
            Action::Die(_) => Action::Die(ops),
            _ => Action::Send(ops),
        };
        Some(Step { action, ..step.clone() })
    };
    if ops.len() > 1 && n < ops.len() {
        let mut ops = ops.to_vec();
        ops.remove(n);
        return with(ops);
    }
    let mut left = if ops.len() > 1 { n - ops.len() } else { n };
    for (at, op) in ops.iter().enumerate() {
        let mut smaller = op.clone();
        match &mut smaller {
            Op::Multi { parts, .. } => {
                if left < parts.len() {
                    parts.remove(left);
                    return with([&ops[..at], &[smaller], &ops[at + 1..]].concat());
                }
                left -= parts.len();
            }
            Op::SetWatches { lists, .. } => {
                for list in lists {
                    if left < list.len() {
                        list.remove(left);
                        return with([&ops[..at], &[smaller], &ops[at + 1..]].concat());
                    }
                    left -= list.len();
                }
            }
            _ => {}
        }
    }
    None
}

/// Both without a last reply that only the subject has been given the time to send.
fn settled(expected: Vec<Line>, mut actual: Vec<Line>) -> (Vec<Line>, Vec<Line>) {
    if actual.len() > expected.len() && !expected.iter().any(|line| line.may_be_lost) {
        actual.retain(|line| !line.may_be_lost);
    }
    (expected, actual)
}

fn finish(side: &mut Side) -> Vec<Line> {
    side.finish().unwrap_or_else(|error| vec![Line::new(format!("broken: {error}"))])
}

fn ranked<'a>(said: impl Iterator<Item = &'a Vec<Line>> + Clone) -> Vec<Vec<String>> {
    let known: BTreeSet<i64> =
        said.clone().flatten().flat_map(Line::known).filter(|zxid| *zxid > 0).collect();
    let known: Vec<i64> = known.into_iter().collect();
    said.map(|lines| lines.iter().map(|line| line.ranked(&known)).collect()).collect()
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (expected, actual)) in self.said.iter().enumerate() {
            let step = self.steps.get(at);
            match step {
                Some(step) => writeln!(f, "{step}")?,
                None => writeln!(f, "the tree in the end")?,
            }
            for line in expected {
                match actual.contains(line) {
                    false => writeln!(f, "    - {line}")?,
                    // Of the tree only what differs.
                    true if step.is_some() => writeln!(f, "      {line}")?,
                    true => {}
                }
            }
            for line in actual.iter().filter(|line| !expected.contains(line)) {
                writeln!(f, "    + {line}")?;
            }
            let same_lines = actual.iter().all(|line| expected.contains(line));
            if same_lines && expected != actual {
                writeln!(f, "    + these in another order, or another number of times:")?;
                actual.iter().try_for_each(|line| writeln!(f, "    + {line}"))?;
            }
        }
        Ok(())
    }
}
