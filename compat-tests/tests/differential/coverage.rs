//! What the scripts have reached: requests by their answer, events by the watch they came from.

use std::collections::BTreeMap;
use std::fmt;

use crate::required;
use crate::script::{Action, Op, Step, name, op};
use crate::side::Outcome;

/// Kinds of watches; the last one is what setWatches tells at once.
pub(crate) const KINDS: [&str; 7] =
    ["", "child", "data", "exist", "persistent", "recursive", "caught up"];
pub(crate) const EVENTS: [&str; 5] = ["", "created", "deleted", "data changed", "children changed"];
const CAUGHT_UP: usize = 6;

/// Counts of everything that the reference answered.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    pub(crate) operations: usize,
    successes: usize,
    scripts: usize,
    large: usize,
    deaths: usize,
    reattached: usize,
    /// (operation, error) to how often.
    answers: BTreeMap<(String, i32), usize>,
    /// (kind of watch, type of event) to how often; an event may have several reasons.
    events: BTreeMap<(usize, i32), usize>,
    /// Client to its watches: path and kind.
    watches: BTreeMap<usize, Vec<(String, usize)>>,
}

impl Coverage {
    pub(crate) fn script(&mut self, large: bool) {
        self.scripts += 1;
        self.large += usize::from(large);
        self.watches.clear();
    }

    pub(crate) fn step(&mut self, step: &Step, outcome: &Outcome) {
        let is_death = matches!(step.action, Action::Die(_));
        self.deaths += usize::from(is_death);
        self.reattached += usize::from(matches!(step.action, Action::Reattach(_)));
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
                *self.events.entry((CAUGHT_UP, told.kind)).or_default() += 1;
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

    /// Adds what another lane has reached.
    pub(crate) fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.successes += other.successes;
        self.scripts += other.scripts;
        self.large += other.large;
        self.deaths += other.deaths;
        self.reattached += other.reattached;
        for (answer, count) in &other.answers {
            *self.answers.entry(answer.clone()).or_default() += count;
        }
        for (event, count) in &other.events {
            *self.events.entry(*event).or_default() += count;
        }
    }

    fn share(&self) -> usize {
        self.successes * 100 / self.operations.max(1)
    }

    /// What must occur and is too rare, and how often it occurred.
    fn missing(&self) -> Vec<String> {
        let least = required::least(self.operations);
        let answers = required::answers().map(|(operation, err)| {
            let count = self.answers.get(&(operation.to_string(), err)).copied().unwrap_or(0);
            (format!("{operation} {err}"), count)
        });
        let events = required::events().map(|(kind, event)| {
            let code = i32::try_from(event).expect("small");
            let count = self.events.get(&(kind, code)).copied().unwrap_or(0);
            (format!("{} watch, {}", KINDS[kind], EVENTS[event]), count)
        });
        let rare = answers.chain(events).filter(|(_, count)| *count < least);
        rare.map(|(what, count)| format!("{what}: {count} of {least}")).collect()
    }

    /// Panics when the scripts have become too poor to prove anything.
    pub(crate) fn check(&self) {
        assert!(self.share() >= 60, "only {} % of the requests succeed", self.share());
        assert!(self.large * 10 >= self.scripts, "only {} on a large tree", self.large);
        let missing = self.missing();
        assert!(missing.is_empty(), "too rare:\n{}", missing.join("\n"));
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} operations in {} scripts ({} on a large tree), {} % successful; {} reattached, {} \
             sessions expired",
            self.operations,
            self.scripts,
            self.large,
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
        let required: Vec<(&str, i32)> = required::answers().collect();
        let others = self.answers.iter().filter(|((operation, err), _)| {
            !required.contains(&(operation.as_str(), *err)) && !operation.starts_with("op ")
        });
        write!(f, "not asked for:")?;
        for ((operation, err), count) in others {
            write!(f, " {operation} {err}: {count} ")?;
        }
        writeln!(f, "\nnever brought about:")?;
        required::NEVER.iter().try_for_each(|(what, why)| writeln!(f, "  {what}: {why}"))
    }
}
