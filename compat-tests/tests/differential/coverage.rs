//! What the scripts have reached: requests by their answer, events by the watch they came from.

use std::collections::BTreeMap;
use std::fmt;

use crate::script::{Action, Op, Step, name, op};
use crate::side::Outcome;

const KINDS: [&str; 6] = ["", "child", "data", "exist", "persistent", "recursive"];
const EVENTS: [&str; 5] = ["", "created", "deleted", "data changed", "children changed"];

/// Counts of everything that the reference answered.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    pub(crate) operations: usize,
    successes: usize,
    scripts: usize,
    deaths: usize,
    reattached: usize,
    /// (operation, error) to how often.
    answers: BTreeMap<(String, i32), usize>,
    /// (kind of watch, type of event) to how often; an event may have several reasons.
    events: BTreeMap<(usize, i32), usize>,
    caught_up: BTreeMap<i32, usize>,
    /// Client to its watches: path and kind.
    watches: BTreeMap<usize, Vec<(String, usize)>>,
}

impl Coverage {
    pub(crate) fn script(&mut self) {
        self.scripts += 1;
        self.watches.clear();
    }

    pub(crate) fn step(&mut self, step: &Step, outcome: &Outcome) {
        let is_death = matches!(step.action, Action::Die(_));
        self.deaths += usize::from(is_death);
        self.reattached += usize::from(step.action == Action::Reattach);
        if outcome.reconnected {
            self.watches.remove(&step.client);
        }
        let catches_up =
            step.ops().iter().any(|op| matches!(op.code(), op::SET_WATCHES | op::SET_WATCHES2));
        for (op, answer) in step.ops().iter().zip(&outcome.answers) {
            self.operations += 1;
            let results = answer.parts.iter().filter(|part| part.err != 0 && answer.err == 0);
            let failed = results.map(|part| part.err).find(|err| *err != -2);
            let err =
                if op.code() == op::MULTI { failed.unwrap_or(answer.err) } else { answer.err };
            self.successes += usize::from(err == 0);
            self.count(name(op.code()), err);
            if let Op::Multi { code, parts } = op
                && answer.err == 0
            {
                for (part, result) in parts.iter().zip(&answer.parts) {
                    self.count(format!("{}/{}", name(*code), name(part.code())), result.err);
                }
            }
            self.registered(step.client, op, answer.err);
        }
        for told in &outcome.events {
            if catches_up && told.client == step.client {
                *self.caught_up.entry(told.kind).or_default() += 1;
            }
            self.event(told.client, told.kind, &told.path);
        }
    }

    fn count(&mut self, operation: String, err: i32) {
        *self.answers.entry((operation, err)).or_default() += 1;
    }

    fn registered(&mut self, client: usize, op: &Op, err: i32) {
        let watches = self.watches.entry(client).or_default();
        let mut add = |path: &Option<String>, kind| {
            watches.extend(path.clone().map(|path| (path, kind)));
        };
        match op {
            Op::Read { code: op::EXISTS, path, watch: true } if err == -101 => add(path, 3),
            _ if err != 0 => {}
            Op::Read { code: op::EXISTS | op::GET_DATA, path, watch: true } => add(path, 2),
            Op::Read { path, watch: true, .. } => add(path, 1),
            Op::Watch { code: op::ADD_WATCH, path, kind: 0 } => add(path, 4),
            Op::Watch { code: op::ADD_WATCH, path, .. } => add(path, 5),
            Op::SetWatches { lists, .. } => {
                for (list, kind) in lists.iter().zip([2, 3, 1, 4, 5]) {
                    list.iter().for_each(|path| add(path, kind));
                }
            }
            _ => {}
        }
    }

    fn event(&mut self, client: usize, event: i32, path: &str) {
        let watches = self.watches.entry(client).or_default();
        let mut kinds: Vec<usize> = Vec::new();
        watches.retain(|(watched, kind)| {
            let fits = match kind {
                5 => {
                    let below = path.strip_prefix(watched.as_str());
                    event != 4 && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                }
                4 => watched == path,
                1 => watched == path && (event == 4 || event == 2),
                _ => watched == path && event != 4,
            };
            if fits {
                kinds.push(*kind);
            }
            !fits || *kind > 3
        });
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            *self.events.entry((kind, event)).or_default() += 1;
        }
    }

    fn share(&self) -> usize {
        self.successes * 100 / self.operations.max(1)
    }

    /// Panics when the scripts have become too poor to prove anything.
    pub(crate) fn check(&self) {
        assert!(self.share() >= 60, "only {} % of the requests succeed", self.share());
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} operations in {} scripts, {} % successful; {} reattached, {} sessions expired",
            self.operations,
            self.scripts,
            self.share(),
            self.reattached,
            self.deaths
        )?;
        let mut last = "";
        for ((operation, err), count) in &self.answers {
            if operation != last {
                write!(f, "{}  {operation:24}", if last.is_empty() { "" } else { "\n" })?;
                last = operation;
            }
            let what = if *err == 0 { "ok".to_string() } else { err.to_string() };
            write!(f, " {what}: {count} ")?;
        }
        writeln!(f, "\nwatches:")?;
        for (kind, label) in KINDS.iter().enumerate().skip(1) {
            write!(f, "  {label:24}")?;
            for (event, label) in EVENTS.iter().enumerate().skip(1) {
                let event = i32::try_from(event).expect("small");
                let count = self.events.get(&(kind, event)).copied().unwrap_or(0);
                if count > 0 {
                    write!(f, " {label}: {count} ")?;
                }
            }
            writeln!(f)?;
        }
        write!(f, "  caught up by setWatches:")?;
        self.caught_up.iter().try_for_each(|(event, count)| {
            let label = usize::try_from(*event).ok().and_then(|event| EVENTS.get(event));
            write!(f, " {}: {count} ", label.unwrap_or(&"?"))
        })?;
        writeln!(f)
    }
}
