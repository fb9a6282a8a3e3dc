//! Whether the sets of a register and the reads after a sync have an order that is possible: each
//! takes effect at one instant between its request and its answer. The search is that of Wing and
//! Gong with Lowe's memory, and not ours; `checker` follows versions and zxids instead, and
//! searches nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

use crate::history::{Entry, Nanos};

/// A value, by its number.
type Value = usize;

/// A version and its value. At first nobody knows them: what is told first tells them, too.
type Register = Option<(i32, Value)>;

/// What took effect.
#[derive(Clone, Debug)]
enum Effect {
    /// What is known when a part of a history begins.
    Was(i32, Value),
    Set(i32, Value),
    Get(i32, Value),
    /// A set of unknown outcome whose value nobody saw: it can have made a version that is
    /// nobody's, or nothing.
    Perhaps {
        value: Value,
        nobodys: Rc<BTreeSet<i32>>,
        /// Of what is known to have been there in the same part of the history.
        greatest: Option<i32>,
    },
}

#[derive(Debug)]
struct RegisterModel;

impl Specification for RegisterModel {
    type State = Register;
    type Operation = Effect;

    fn init() -> Register {
        None
    }

    fn apply(effect: &Effect, state: &Register) -> (bool, Register) {
        let after = match (effect, *state) {
            (Effect::Perhaps { value, nobodys, .. }, Some((before, _)))
                if nobodys.contains(&(before + 1)) =>
            {
                Some((before + 1, *value))
            }
            (Effect::Perhaps { greatest, .. }, state) => {
                // After everything else it shows nobody anything.
                return (state.map(|(version, _)| version) >= *greatest, state);
            }
            (Effect::Was(version, value), None)
            | (Effect::Set(version, value) | Effect::Get(version, value), None) => {
                Some((*version, *value))
            }
            (Effect::Was(..), Some(_)) => None,
            (Effect::Set(version, value), Some((before, _))) => {
                (*version == before + 1).then_some((*version, *value))
            }
            (Effect::Get(version, value), Some(is)) => (is == (*version, *value)).then_some(is),
        };
        (after.is_some(), after.or(*state))
    }
}

/// What took effect between two instants.
#[derive(Clone, Debug)]
struct Operation {
    from: Nanos,
    to: Nanos,
    effect: Effect,
}

/// What was searched.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Searched {
    pub(crate) operations: usize,
    pub(crate) parts: usize,
    /// Operations of the longest part.
    pub(crate) longest: usize,
}

/// Registers whose history is impossible, a line each.
pub(crate) fn impossible(entries: &[Entry]) -> (Vec<String>, Searched) {
    let mut registers: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.path.starts_with("/chaos/r/")) {
        registers.entry(&entry.path).or_default().push(entry);
    }
    let mut searched = Searched::default();
    let found = registers.into_iter().filter_map(|(path, entries)| {
        let (part, from) = first_impossible(operations(&entries), &mut searched)?;
        Some(format!("{path}: no order of {part} sets and reads from {from} on is possible"))
    });
    (found.collect(), searched)
}

/// What a register's history says, in the order of requests.
fn operations(entries: &[&Entry]) -> Vec<Operation> {
    let values = entries.iter().filter_map(|entry| entry.value.as_deref());
    let numbers: HashMap<&str, Value> = values.zip(0..).collect();
    let number = |entry: &Entry| numbers.get(entry.value.as_deref()?).copied();
    let mut told: BTreeMap<i32, Nanos> = BTreeMap::new();
    let mut versions_of: HashMap<Value, i32> = HashMap::new();
    for entry in entries.iter().filter(|entry| entry.is_ok()) {
        let (Some(version), Some(value)) = (entry.version, number(entry)) else { continue };
        versions_of.insert(value, version);
        let first = told.entry(version).or_insert(entry.to);
        *first = entry.to.min(*first);
    }
    let greatest = told.last_key_value().map_or(0, |(version, _)| *version);
    let nobodys = (1..greatest).filter(|version| !told.contains_key(version));
    let nobodys: Rc<BTreeSet<i32>> = Rc::new(nobodys.collect());
    // Once anybody was told of a version, it is there, and so are those before it.
    let there = |version: i32| told.range(version..).map(|(_, to)| *to).min();
    let operation = |entry: &&Entry| {
        let value = number(entry)?;
        let (from, mut to) = (entry.from, entry.to);
        let effect = match entry.op.as_str() {
            "set" if entry.is_ok() => Effect::Set(entry.version?, value),
            "set" if entry.is_unknown() => match versions_of.get(&value) {
                Some(version) => {
                    to = there(*version)?.max(from);
                    Effect::Set(*version, value)
                }
                None => {
                    to = Nanos::MAX;
                    Effect::Perhaps { value, nobodys: Rc::clone(&nobodys), greatest: None }
                }
            },
            "get" if entry.is_ok() => {
                return entry.synced.and_then(|from| {
                    Some(Operation { from, to, effect: Effect::Get(entry.version?, value) })
                });
            }
            _ => return None,
        };
        Some(Operation { from, to, effect })
    };
    let mut operations: Vec<Operation> = entries.iter().filter_map(operation).collect();
    operations.sort_by_key(|operation| operation.from);
    operations
}

/// How many operations the first impossible part has, and when it begins. A history is cut wherever
/// nothing is under way but what may last for ever: the search takes the square of a part's length.
fn first_impossible(operations: Vec<Operation>, searched: &mut Searched) -> Option<(usize, Nanos)> {
    let mut known: Register = None;
    let mut open: Vec<Operation> = Vec::new();
    let mut part: Vec<Operation> = Vec::new();
    let mut ends = 0;
    let mut is_possible = |known, open: &[Operation], part: &[Operation]| {
        searched.operations += part.len();
        searched.parts += 1;
        searched.longest = searched.longest.max(part.len());
        is_possible(known, open, part)
    };
    for operation in operations {
        if operation.from > ends && !part.is_empty() {
            let from = part[0].from;
            if !is_possible(known, &open, &part) {
                return Some((part.len(), from));
            }
            let before = known.or_else(|| states(&part).min_by_key(|(version, _)| *version));
            known = latest(known, &part);
            open.extend(part.drain(..).filter(|operation| operation.to == Nanos::MAX));
            // Each takes effect once. From here on one is as good as another.
            let done = nobodys(before, &open, known.map(|(version, _)| version));
            open.drain(..done.min(open.len()));
        }
        if operation.to != Nanos::MAX {
            ends = ends.max(operation.to);
        }
        part.push(operation);
    }
    let from = part.first()?.from;
    (!is_possible(known, &open, &part)).then_some((part.len(), from))
}

/// The greatest version of a part that is over.
fn latest(known: Register, part: &[Operation]) -> Register {
    states(part).chain(known).max_by_key(|(version, _)| *version)
}

/// The versions that a part tells, with their values.
fn states(part: &[Operation]) -> impl Iterator<Item = (i32, Value)> {
    part.iter().filter_map(|operation| match operation.effect {
        Effect::Set(version, value) | Effect::Get(version, value) => Some((version, value)),
        Effect::Was(..) | Effect::Perhaps { .. } => None,
    })
}

/// How many versions between what is known and this one are nobody's.
fn nobodys(known: Register, open: &[Operation], there: Option<i32>) -> usize {
    let Some(Effect::Perhaps { nobodys, .. }) = open.first().map(|operation| &operation.effect)
    else {
        return 0;
    };
    let first = known.map_or(0, |(version, _)| version + 1);
    there.map_or(0, |last| nobodys.iter().filter(|its| (first..=last).contains(its)).count())
}

fn is_possible(known: Register, open: &[Operation], part: &[Operation]) -> bool {
    let was = known.map(|(version, value)| Operation {
        from: 0,
        to: 0,
        effect: Effect::Was(version, value),
    });
    let begins = part.first().map_or(0, |first| first.from);
    let there = latest(known, part).map(|(version, _)| version);
    // One is as good as another, and each that is not needed would double what is searched.
    let open = open.iter().take(nobodys(known, open, there));
    let open = open.map(|operation| Operation { from: begins, ..operation.clone() });
    let mut moments = Vec::new();
    let all = was.into_iter().chain(open).chain(part.iter().cloned());
    for (process, Operation { from, to, mut effect }) in all.enumerate() {
        if let Effect::Perhaps { greatest, .. } = &mut effect {
            *greatest = there;
        }
        // What begins at the instant at which another ends may come first.
        moments.push((from, 0, process, Action::Call(effect.clone())));
        moments.push((to, 1, process, Action::Response(effect)));
    }
    moments.sort_by_key(|(at, end, ..)| (*at, *end));
    let actions = moments.into_iter().map(|(_, _, process, action)| (process, action));
    WGLChecker::<RegisterModel>::is_linearizable(History::from_actions(actions.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(op: &str, version: Option<i32>, value: &str, from: Nanos, to: Nanos) -> Entry {
        Entry {
            op: op.to_owned(),
            path: "/chaos/r/1".to_owned(),
            from,
            to,
            end: if version.is_some() { "ok" } else { "unknown" }.to_owned(),
            version,
            value: Some(value.to_owned()),
            ..Entry::default()
        }
    }

    fn set(version: i32, value: &str, from: Nanos, to: Nanos) -> Entry {
        entry("set", Some(version), value, from, to)
    }

    fn unknown(value: &str, from: Nanos, to: Nanos) -> Entry {
        entry("set", None, value, from, to)
    }

    /// A read after a sync that was asked for at `from`.
    fn get(version: i32, value: &str, from: Nanos, to: Nanos) -> Entry {
        let entry = entry("get", Some(version), value, to, to);
        Entry { synced: Some(from), ..entry }
    }

    #[track_caller]
    fn check(entries: &[Entry], expected: bool) {
        let (found, searched) = impossible(entries);
        assert_eq!(found.is_empty(), expected, "{found:?}, {searched:?}");
    }

    #[test]
    fn what_one_register_can_do_is_possible() {
        check(&[], true);
        assert_eq!(impossible(&[set(1, "a", 1, 2), set(2, "b", 3, 4)]).1.parts, 2);
        check(&[set(1, "a", 1, 2), set(2, "b", 3, 4), get(2, "b", 5, 6)], true);
        // At the same time, in any order.
        check(&[set(2, "b", 1, 9), set(1, "a", 1, 9), get(1, "a", 2, 8), get(2, "b", 3, 9)], true);
    }

    #[test]
    fn a_read_behind_a_sync_that_misses_a_write_is_found() {
        check(&[set(1, "a", 1, 2), set(2, "b", 3, 4), get(1, "a", 5, 6)], false);
        check(&[set(1, "a", 1, 2), set(2, "b", 3, 9), get(2, "b", 4, 5), get(1, "a", 6, 7)], false);
    }

    /// One read shows a write that was never answered, a later one does not: no version and no zxid
    /// says that.
    #[test]
    fn what_was_seen_does_not_go_again() {
        let lines = [set(1, "a", 1, 2), unknown("b", 3, 4), get(2, "b", 5, 6), get(1, "a", 7, 8)];
        check(&lines, false);
        let lines = [set(1, "a", 1, 2), unknown("b", 3, 4), get(1, "a", 5, 6), get(2, "b", 7, 8)];
        check(&lines, true);
    }

    #[test]
    fn a_write_without_an_answer_may_be_done_late_once_or_never() {
        let open = unknown("x", 3, 4);
        check(&[set(1, "a", 1, 2), open.clone(), set(2, "b", 5, 6), get(2, "b", 7, 8)], true);
        check(&[set(1, "a", 1, 2), open.clone(), set(3, "b", 5, 6), get(3, "b", 7, 8)], true);
        check(&[set(1, "a", 1, 2), open.clone(), set(4, "b", 5, 6)], false);
        let third = set(3, "b", 5, 6);
        check(&[set(1, "a", 1, 2), open.clone(), third.clone(), set(4, "c", 7, 8)], true);
        check(&[set(1, "a", 1, 2), open.clone(), third.clone(), set(5, "c", 7, 8)], false);
        let both = [open.clone(), unknown("y", 3, 4)];
        let lines = [&[set(1, "a", 1, 2)], &both[..], &[third, set(5, "c", 7, 8)]].concat();
        check(&lines, true);
        // Not before it was asked for.
        check(&[set(1, "a", 1, 2), set(3, "b", 2, 3), unknown("x", 5, 6)], false);
    }

    /// A search that tries each of them ends when nobody waits for it any more.
    #[test]
    fn many_writes_without_an_answer_cost_nothing_where_none_is_needed() {
        let open = (0..60).map(|at| unknown(&format!("x{at}"), 3 + at, 4 + at));
        let beside = [set(2, "b", 100, 109), get(1, "a", 101, 108)];
        let lines: Vec<Entry> = [set(1, "a", 1, 2)].into_iter().chain(open).chain(beside).collect();
        check(&lines, true);
        check(&[&lines[..], &[get(1, "a", 110, 111)]].concat(), false);
    }

    #[test]
    fn a_write_done_twice_is_found() {
        check(&[set(1, "a", 1, 2), get(1, "a", 3, 4), get(2, "a", 5, 6)], false);
    }

    #[test]
    fn parts_know_what_was_before_them() {
        check(&[set(5, "a", 1, 2), get(4, "b", 10, 11)], false);
        check(&[set(5, "a", 1, 2), set(7, "b", 10, 11)], false);
    }
}
