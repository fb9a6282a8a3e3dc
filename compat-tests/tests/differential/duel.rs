//! One script against both servers, and the shortest one that still tells them apart.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::Kind;
use serde::{Deserialize, Serialize};

use crate::answer::Line;
use crate::coverage::Coverage;
use crate::generate::{Generator, Theme};
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Stage {
    top: String,
    clients: usize,
    sort_acls: bool,
}

impl Stage {
    fn open(&self, side: &mut Side) -> io::Result<()> {
        side.begin(&self.top, self.clients, self.sort_acls)
    }
}

/// A script and what both said to each step, and of the tree in the end.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) stage: Stage,
    pub(crate) steps: Vec<Step>,
    /// The reference, the subject.
    pub(crate) said: Vec<(Vec<Line>, Vec<Line>)>,
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
        let stage = self.stage(generator.theme(), large);
        let found = self.run(stage, Source::New(&mut generator, coverage)).difference()?;
        Some(self.shrink(found))
    }

    /// A new script that is kept.
    pub(crate) fn record(&mut self, seed: u64, large: bool, coverage: &mut Coverage) -> Course {
        let mut generator = Generator::new(seed, large);
        coverage.script(large);
        let stage = self.stage(generator.theme(), large);
        self.run(stage, Source::New(&mut generator, coverage))
    }

    fn stage(&mut self, theme: Theme, large: bool) -> Stage {
        self.runs += 1;
        let top = if large { LARGE.into() } else { format!("/d{:07}", self.runs) };
        Stage { top, clients: theme.clients, sort_acls: theme.many_identities }
    }

    fn run(&mut self, stage: Stage, mut source: Source<'_>) -> Course {
        let begun = self.sides().map(|side| stage.open(side));
        if begun.iter().any(Result::is_err) {
            // The script before this one has ended a server.
            *self = Self { runs: self.runs, ..Self::start(self.setup) };
            for side in self.sides() {
                stage.open(side).expect("a new server serves");
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
            equal = same(&expected, &actual);
            steps.push(step);
            said.push((expected, actual));
        }
        said.push((finish(&mut self.reference), finish(&mut self.subject)));
        Course { stage, steps, said }
    }

    fn step(&mut self, step: &Step) -> (Outcome, Outcome) {
        // Both work at the same time.
        let sent = self.sides().map(|side| side.send(step));
        let mut outcomes =
            self.sides().into_iter().zip(sent).map(|(side, sent)| received(side, step, sent));
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
                    match self.again(&best.stage, &steps) {
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
                    match self.again(&best.stage, &steps) {
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

    fn again(&mut self, stage: &Stage, steps: &[Step]) -> Option<Difference> {
        let mut stage = stage.clone();
        if stage.top != LARGE {
            self.runs += 1;
            stage.top = format!("/d{:07}", self.runs);
        }
        self.run(stage, Source::Again(steps.iter())).difference()
    }
}

impl Course {
    pub(crate) fn difference(self) -> Option<Difference> {
        let Self { stage, steps, said } = self;
        let expected = ranked(said.iter().map(|(expected, _)| expected));
        let actual = ranked(said.iter().map(|(_, actual)| actual));
        let said = expected.iter().cloned().zip(actual.iter().cloned()).collect();
        (expected != actual).then_some(Difference { stage, steps, said })
    }
}

/// A script of before against `subject`, and what the reference said then.
pub(crate) fn replay(
    subject: &mut Side,
    stage: &Stage,
    steps: &[Step],
    expected: &[Vec<Line>],
) -> Option<Difference> {
    stage.open(subject).expect("the subject serves");
    let mut said = Vec::new();
    let mut equal = true;
    for (step, expected) in steps.iter().zip(expected) {
        let sent = subject.send(step);
        let actual = received(subject, step, sent).lines;
        said.push(settled(expected.clone(), actual));
        equal = said.last().is_none_or(|(expected, actual)| same(expected, actual));
        if !equal {
            break;
        }
    }
    let steps = steps[..said.len()].to_vec();
    if equal {
        let expected = expected.last().cloned().unwrap_or_default();
        said.push((expected, finish(subject)));
    }
    Course { stage: stage.clone(), steps, said }.difference()
}

/// Whether two say the same but for zxids.
fn same(expected: &[Line], actual: &[Line]) -> bool {
    expected.iter().map(|line| &line.text).eq(actual.iter().map(|line| &line.text))
}

/// What `side` says to a step that it has been sent.
fn received(side: &mut Side, step: &Step, sent: io::Result<Outcome>) -> Outcome {
    let (mut outcome, error) = match sent {
        Ok(mut outcome) => {
            let error = side.receive(step, &mut outcome).err();
            (outcome, error)
        }
        Err(error) => (Outcome::default(), Some(error)),
    };
    outcome.lines.extend(error.map(|error| Line::new(format!("broken: {error}"))));
    outcome
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
