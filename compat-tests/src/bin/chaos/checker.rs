//! Whether what clients were told can be true of one tree that changes in the order of zxids.
//!
//! Every write reply names its zxid or its version, every read reply what it saw, so no order has
//! to be searched for: a znode has one value for each version, versions rise with zxids, and what
//! was acknowledged is there at the end. A write of unknown outcome is done if anybody saw its
//! value, and may account for a version that nobody saw.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::age::{reads_are_not_older, reads_behind_a_sync_show_what_was_written};
use crate::history::{Entry, Nanos};
use crate::refused::{nobody_misses_a_register, versions_are_compared};
use crate::timeline::Timeline;

/// What the servers show when all is over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Last {
    /// Path to value and version, of the registers.
    pub(crate) registers: BTreeMap<String, (String, i32)>,
    /// Path to value, of the sequential znodes.
    pub(crate) sequential: BTreeMap<String, String>,
    /// Sessions that have their ephemeral, while the clients are still there.
    pub(crate) sessions: BTreeSet<String>,
}

/// What is not held against the servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// A read after a sync may be of the past: ZooKeeper's leader answers it without asking
    /// whether it still leads.
    pub(crate) stale_sync: bool,
    /// How old a read without a sync may be when the server makes it; `None` for any age.
    pub(crate) age: Option<Nanos>,
    /// The longest that an answer takes to come where nothing stands in its way, on a busy machine.
    pub(crate) way: Nanos,
    /// So long before its timeout a session may be over although its client was answered. A write
    /// reaches the leader, but it does not count as a sign of life before the next report.
    pub(crate) write: Nanos,
    /// The same of reads: a server that lost its leader answers them for so long.
    pub(crate) read: Nanos,
}

/// A value that a znode had, in a version.
#[derive(Clone, Debug)]
struct State {
    value: String,
    zxid: i64,
}

type Registers<'a> = BTreeMap<&'a str, BTreeMap<i32, State>>;

/// What cannot be true; empty if all can. Entries of each client are in the order of their ends.
pub(crate) fn violations(
    entries: &[Entry],
    last: &Last,
    timeline: &Timeline,
    allowance: Allowance,
) -> Vec<String> {
    let mut found = Vec::new();
    let registers = registers(entries, &mut found);
    versions_rise_with_zxids(&registers, &mut found);
    nothing_acknowledged_is_lost(entries, &registers, last, &mut found);
    zxids_follow_time(entries, &mut found);
    sessions_see_no_past(entries, &mut found);
    reads_show_the_state_at_their_zxid(entries, &registers, &mut found);
    if !allowance.stale_sync {
        reads_behind_a_sync_show_what_was_written(entries, &mut found);
    }
    if let Some(age) = allowance.age {
        reads_are_not_older(entries, (age, allowance.way), timeline, &mut found);
    }
    nobody_misses_a_register(entries, allowance.age, &mut found);
    versions_are_compared(entries, last, &mut found);
    sequences_are_in_order(entries, last, &mut found);
    sessions_live_as_long_as_they_should(entries, last, allowance, &mut found);
    locks_exclude(entries, &mut found);
    found
}

pub(crate) fn is_register(path: &str) -> bool {
    path.starts_with("/chaos/r/") || path.starts_with("/chaos/held/")
}

/// All states that anybody was told of.
fn registers<'a>(entries: &'a [Entry], found: &mut Vec<String>) -> Registers<'a> {
    let mut registers = Registers::new();
    for entry in entries.iter().filter(|entry| entry.is_ok() && is_register(&entry.path)) {
        let (Some(version), Some(zxid), Some(value)) = (entry.version, entry.zxid, &entry.value)
        else {
            continue;
        };
        let state = State { value: value.clone(), zxid };
        let known = registers
            .entry(&entry.path)
            .or_default()
            .entry(version)
            .or_insert_with(|| state.clone());
        if known.value != state.value || known.zxid != state.zxid {
            found.push(format!(
                "{} has two values in version {version}: {known:?} and {state:?}, {} of {}",
                entry.path, entry.op, entry.client
            ));
        }
    }
    registers
}

fn versions_rise_with_zxids(registers: &Registers<'_>, found: &mut Vec<String>) {
    for (path, states) in registers {
        for (before, after) in states.iter().zip(states.iter().skip(1)) {
            if before.1.zxid >= after.1.zxid {
                found.push(format!("{path}: {before:?} is not older than {after:?}"));
            }
        }
    }
}

fn nothing_acknowledged_is_lost(
    entries: &[Entry],
    registers: &Registers<'_>,
    last: &Last,
    found: &mut Vec<String>,
) {
    let mut unknown: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.op == "set" && entry.is_unknown()) {
        if let Some(value) = &entry.value {
            unknown.entry(&entry.path).or_default().insert(value);
        }
    }
    for (path, states) in registers {
        let Some((value, version)) = last.registers.get(*path) else {
            found.push(format!("{path} is not there at the end"));
            continue;
        };
        let Some((greatest, state)) = states.last_key_value() else { continue };
        let seen: BTreeSet<&str> = states.values().map(|state| state.value.as_str()).collect();
        let open = unknown.get(path).map_or(0, |values| values.difference(&seen).count());
        let is_last = value == &state.value || open > 0;
        if version < greatest || version == greatest && value != &state.value || !is_last {
            found.push(format!(
                "{path} ends as {value:?} in version {version}, and {state:?} was in {greatest}"
            ));
        }
        // Version 0 is the create's.
        let known = states.keys().filter(|version| **version > 0).count();
        let missing = usize::try_from(*version).unwrap_or_default().saturating_sub(known);
        if missing > open {
            found.push(format!(
                "{path} ends in version {version}: {missing} versions are nobody's, and only {open} sets have no \
                 known outcome"
            ));
        }
    }
    for entry in entries.iter().filter(|entry| entry.op == "create" && entry.is_ok()) {
        if let (Some(made), Some(value)) = (&entry.made, &entry.value)
            && last.sequential.get(made) != Some(value)
        {
            found.push(format!("{made} of {} is {:?}", entry.client, last.sequential.get(made)));
        }
    }
}

fn is_write(entry: &Entry) -> bool {
    entry.is_ok() && (entry.op == "set" || entry.op == "create") && entry.zxid.is_some()
}

/// What ended before something else began has the lesser zxid.
fn zxids_follow_time(entries: &[Entry], found: &mut Vec<String>) {
    let mut by_start: Vec<&Entry> = entries.iter().filter(|entry| is_write(entry)).collect();
    let mut by_end = by_start.clone();
    by_start.sort_by_key(|entry| entry.from);
    by_end.sort_by_key(|entry| entry.to);
    let mut ended = by_end.into_iter().peekable();
    let mut latest: Option<&Entry> = None;
    let mut seen: HashMap<i64, &Entry> = HashMap::new();
    for entry in by_start {
        while let Some(before) = ended.next_if(|before| before.to < entry.from) {
            if latest.is_none_or(|latest| latest.zxid < before.zxid) {
                latest = Some(before);
            }
        }
        if let Some(latest) = latest.filter(|latest| latest.zxid >= entry.zxid) {
            found.push(format!("zxids run against time: {latest:?} ended before {entry:?}"));
        }
        if let Some(other) = entry.zxid.and_then(|zxid| seen.insert(zxid, entry)) {
            found.push(format!("one zxid for two writes: {other:?} and {entry:?}"));
        }
    }
}

/// Neither the zxid of replies nor what a session saw of a znode falls.
fn sessions_see_no_past(entries: &[Entry], found: &mut Vec<String>) {
    let mut headers: HashMap<&str, &Entry> = HashMap::new();
    let mut versions: HashMap<(&str, &str), &Entry> = HashMap::new();
    for entry in entries {
        let Some(session) = &entry.session else { continue };
        if entry.header.is_some()
            && let Some(before) = headers.insert(session, entry)
            && before.header > entry.header
        {
            found.push(format!("the zxid of a session falls: {before:?}, then {entry:?}"));
        }
        if entry.is_ok()
            && entry.version.is_some()
            && let Some(before) = versions.insert((session, &entry.path), entry)
            && before.version > entry.version
        {
            found.push(format!("a session sees the past: {before:?}, then {entry:?}"));
        }
    }
}

/// A read with a header's zxid shows the latest change up to it.
fn reads_show_the_state_at_their_zxid(
    entries: &[Entry],
    registers: &Registers<'_>,
    found: &mut Vec<String>,
) {
    for entry in entries.iter().filter(|entry| entry.op == "get" && entry.is_ok()) {
        let (Some(header), Some(zxid), Some(version)) = (entry.header, entry.zxid, entry.version)
        else {
            continue;
        };
        let Some(states) = registers.get(entry.path.as_str()) else { continue };
        if zxid > header {
            found.push(format!("a reply shows a change later than itself: {entry:?}"));
        }
        // Later versions have greater zxids.
        let missed = states.range(version + 1..).next().filter(|(_, state)| state.zxid <= header);
        if let Some(missed) = missed {
            found.push(format!("{entry:?} does not show {missed:?}"));
        }
    }
}

/// Names are given once, and in the order of zxids.
fn sequences_are_in_order(entries: &[Entry], last: &Last, found: &mut Vec<String>) {
    let mut made: Vec<(i64, &str)> = entries
        .iter()
        .filter(|entry| entry.op == "create" && entry.is_ok() && entry.path.ends_with("n-"))
        .filter_map(|entry| Some((entry.zxid?, entry.made.as_deref()?)))
        .collect();
    made.sort_unstable();
    for pair in made.windows(2) {
        if pair[0].1 >= pair[1].1 {
            found.push(format!("sequential znodes against their zxids: {pair:x?}"));
        }
    }
    let values: BTreeSet<&String> = last.sequential.values().collect();
    if values.len() < last.sequential.len() {
        found.push("a sequential create was done twice".to_owned());
    }
}

/// What is known of a session.
#[derive(Clone, Debug, Default)]
struct Life {
    timeout: Nanos,
    /// Since when its ephemeral is there, and the change that made it.
    ephemeral: Option<(Nanos, i64)>,
    /// When the last write and the last request that were answered were asked.
    write: Nanos,
    answered: Nanos,
    /// A server said so.
    expired: Option<Nanos>,
    /// A server said so or its client assumes it: it may be there for a while.
    given_up: Option<Nanos>,
    closed: Option<Nanos>,
}

impl Life {
    /// Before this it cannot have expired.
    fn sure(&self, allowance: Allowance) -> Nanos {
        let after = |asked: Nanos, less: Nanos| match asked {
            0 => 0,
            asked => (asked + self.timeout).saturating_sub(less),
        };
        after(self.write, allowance.write).max(after(self.answered, allowance.read))
    }
}

fn sessions_live_as_long_as_they_should(
    entries: &[Entry],
    last: &Last,
    allowance: Allowance,
    found: &mut Vec<String>,
) {
    let mut lives: BTreeMap<&str, Life> = BTreeMap::new();
    for entry in entries {
        let Some(session) = &entry.session else { continue };
        let life = lives.entry(session).or_default();
        match entry.op.as_str() {
            "session" => life.timeout = entry.timeout_ms * 1_000_000,
            "expired" => life.expired = life.expired.or(Some(entry.to)),
            "given-up" => life.given_up = life.given_up.or(Some(entry.to)),
            "closed" => life.closed = Some(entry.from),
            _ if entry.is_unknown() => (),
            _ => {
                life.answered = life.answered.max(entry.from);
                if is_write(entry) {
                    life.write = life.write.max(entry.from);
                }
                if entry.op == "create" && is_ephemeral(&entry.path) && entry.is_ok() {
                    life.ephemeral = Some((entry.to, entry.zxid.unwrap_or_default()));
                }
            }
        }
    }
    for (session, life) in &lives {
        let sure = life.sure(allowance);
        let over = life.expired.or(life.given_up);
        if let Some(over) = over.filter(|over| *over < sure) {
            let early = (sure - over) / 1_000_000;
            found.push(format!("{session} expired {early} ms too early: {life:?}"));
        }
        let lives_on = over.is_none() && life.closed.is_some();
        if life.ephemeral.is_some() && lives_on && !last.sessions.contains(*session) {
            found.push(format!(
                "{session} was never said to be over, and its ephemeral is gone: {life:?}"
            ));
        }
    }
    for session in &last.sessions {
        if !lives.contains_key(session.as_str()) {
            found.push(format!("{session} has an ephemeral and is nobody's session"));
        }
        if lives.get(session.as_str()).is_some_and(|life| life.expired.is_some()) {
            found.push(format!("{session} has expired and has its ephemeral"));
        }
    }
    for entry in entries {
        let missing = |session: &str| match entry.op.as_str() {
            "children" => !entry.names.iter().any(|name| name == session),
            "exists" => entry.path.ends_with(session) && entry.owner.is_none(),
            _ => false,
        };
        if !entry.is_ok() || !(entry.op == "children" || entry.op == "exists") {
            continue;
        }
        for (session, life) in &lives {
            let Some((since, zxid)) = life.ephemeral else { continue };
            // Whoever reads sees it from its change on; without a header only its own session does.
            let must_see = match entry.header {
                Some(header) => header >= zxid,
                None => entry.session.as_deref() == Some(*session) && entry.from > since,
            };
            let is_closed = life.closed.is_some_and(|closed| closed < entry.to);
            if must_see && !is_closed && missing(session) && entry.to < life.sure(allowance) {
                found.push(format!("the ephemeral of {session} is missing in {entry:?}: {life:?}"));
            }
        }
    }
}

fn is_ephemeral(path: &str) -> bool {
    path.starts_with("/chaos/e/")
}

/// From the first acknowledged write of a holder to the last one was asked, by the session that has
/// the lock: nobody else has it meanwhile.
fn locks_exclude(entries: &[Entry], found: &mut Vec<String>) {
    let mut holds: BTreeMap<(&str, &str), (Nanos, Nanos)> = BTreeMap::new();
    for entry in entries.iter().filter(|entry| entry.is_ok() && entry.session == entry.owner) {
        let (Some(lock), Some(hold)) = (&entry.lock, &entry.hold) else { continue };
        let (first, last) = holds.entry((lock, hold)).or_insert((entry.to, entry.from));
        *first = (*first).min(entry.to);
        *last = (*last).max(entry.from);
    }
    let mut spans: Vec<_> = holds
        .into_iter()
        .filter(|(_, (first, last))| first < last)
        .map(|((lock, hold), (first, last))| (lock, first, last, hold))
        .collect();
    spans.sort_unstable();
    for pair in spans.windows(2) {
        let ((lock, _, until, one), (same, from, _, other)) = (pair[0], pair[1]);
        if lock == same && from < until {
            found.push(format!("{lock} is held by {one} and {other} at the same time"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWANCE: Allowance =
        Allowance { stale_sync: false, age: Some(5), way: 0, write: 0, read: 0 };

    fn entries(lines: &[&str]) -> Vec<Entry> {
        let whole = |line: &&str| {
            let line = line.replace('\'', "\"");
            Entry::parse(&format!("{{\"c\":\"a\",{line}}}"), 8).expect("an entry")
        };
        lines.iter().map(whole).collect()
    }

    /// Two sets of a register and a read, in the best order.
    const GOOD: [&str; 3] = [
        "'s':'0x1','op':'set','path':'/chaos/r/1','t0':10,'t1':20,'end':'ok','value':'a','version':1,'zxid':5,'header':5",
        "'s':'0x1','op':'set','path':'/chaos/r/1','t0':30,'t1':40,'end':'ok','value':'b','version':2,'zxid':7,'header':7",
        "'s':'0x1','op':'get','path':'/chaos/r/1','t0':50,'t1':60,'end':'ok','value':'b','version':2,'zxid':7,'header':8",
    ];

    fn last(value: &str, version: i32) -> Last {
        let registers = BTreeMap::from([("/chaos/r/1".to_owned(), (value.to_owned(), version))]);
        Last { registers, ..Last::default() }
    }

    fn found(lines: &[&str], last: &Last) -> Vec<String> {
        violations(&entries(lines), last, &Timeline::default(), ALLOWANCE)
    }

    /// The good history with one line replaced.
    fn with(at: usize, line: &'static str, last: &Last) -> Vec<String> {
        let mut lines = GOOD;
        lines[at] = line;
        found(&lines, last)
    }

    #[track_caller]
    fn one(found: &[String], part: &str) {
        assert!(found.iter().any(|line| line.contains(part)), "{part}: {found:?}");
    }

    #[test]
    fn what_can_be_true_is_not_a_violation() {
        assert_eq!(found(&GOOD, &last("b", 2)), Vec::<String>::new());
    }

    #[test]
    fn a_lost_write_is_found() {
        one(&found(&GOOD, &last("a", 1)), "ends as");
        one(&found(&GOOD, &Last::default()), "is not there at the end");
        one(&found(&GOOD, &last("x", 3)), "nobody's");
    }

    #[test]
    fn an_unknown_outcome_may_be_either() {
        let unknown = "'op':'set','path':'/chaos/r/1','t0':30,'t1':40,'end':'unknown','value':'c'";
        let lines = [GOOD[0], GOOD[1], GOOD[2], unknown];
        assert_eq!(found(&lines, &last("c", 3)), Vec::<String>::new());
        assert_eq!(found(&lines, &last("b", 2)), Vec::<String>::new());
        one(&found(&lines, &last("c", 4)), "nobody's");
    }

    #[test]
    fn a_write_in_the_place_of_another_is_found() {
        one(
            &with(
                2,
                "'s':'0x2','op':'get','path':'/chaos/r/1','t0':50,'t1':60,'end':'ok','value':'c','version':2,'zxid':7,'header':8",
                &last("b", 2),
            ),
            "two values",
        );
    }

    #[test]
    fn zxids_against_time_are_found() {
        one(
            &with(
                0,
                "'s':'0x1','op':'set','path':'/chaos/r/1','t0':10,'t1':20,'end':'ok','value':'a','version':1,'zxid':8,'header':5",
                &last("b", 2),
            ),
            "against time",
        );
        one(
            &with(
                0,
                "'s':'0x2','op':'set','path':'/chaos/r/1','t0':10,'t1':35,'end':'ok','value':'a','version':1,'zxid':8,'header':8",
                &last("b", 2),
            ),
            "not older",
        );
    }

    #[test]
    fn a_session_that_sees_the_past_is_found() {
        let old = "'s':'0x1','op':'get','path':'/chaos/r/1','t0':50,'t1':60,'end':'ok','value':'a','version':1,'zxid':5,'header':6";
        let found = with(2, old, &last("b", 2));
        one(&found, "the zxid of a session falls");
        one(&found, "a session sees the past");
    }

    #[test]
    fn a_read_without_what_was_there_is_found() {
        one(
            &with(
                2,
                "'s':'0x2','op':'get','path':'/chaos/r/1','t0':50,'t1':60,'end':'ok','value':'a','version':1,'zxid':5,'header':7",
                &last("b", 2),
            ),
            "does not show",
        );
        one(
            &with(
                2,
                "'s':'0x2','op':'get','path':'/chaos/r/1','t0':50,'t1':60,'synced':45,'end':'ok','value':'a','version':1,'zxid':5",
                &last("b", 2),
            ),
            "after a sync",
        );
    }

    #[test]
    fn a_read_that_is_too_old_is_found() {
        let answered_at = |to: Nanos| {
            format!(
                "'s':'0x2','op':'get','path':'/chaos/r/1','t0':41,'t1':{to},'end':'ok','value':'a','version':1,'zxid':5"
            )
        };
        let in_time = answered_at(45);
        assert_eq!(found(&[GOOD[0], GOOD[1], &in_time], &last("b", 2)), Vec::<String>::new());
        one(&found(&[GOOD[0], GOOD[1], &answered_at(46)], &last("b", 2)), "too old");
    }

    #[test]
    fn sequences_out_of_order_are_found() {
        let create = |name: &str, zxid: i64, value: &str| {
            format!(
                "'op':'create','path':'/chaos/q/n-','t0':1,'t1':9,'end':'ok','made':'{name}','zxid':{zxid},'value':'{value}'"
            )
        };
        let lines = [create("/chaos/q/n-2", 4, "x"), create("/chaos/q/n-1", 5, "y")];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let pairs = [("/chaos/q/n-1", "y"), ("/chaos/q/n-2", "x")];
        let sequential = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        one(&found(&lines, &Last { sequential, ..Last::default() }), "against their zxids");
        one(&found(&lines, &Last::default()), "/chaos/q/n-2 of a is None");
    }

    const SESSION: &str = "'s':'0x1','op':'session','timeout':6000,'t0':1,'t1':1";
    const EPHEMERAL: &str = "'s':'0x1','op':'create','path':'/chaos/e/0x1','t0':2,'t1':3,'end':'ok','made':'/chaos/e/0x1','zxid':4,'header':4";

    #[test]
    fn a_session_that_expires_early_is_found() {
        let early = "'s':'0x1','op':'expired','t0':5000000000,'t1':5000000000";
        one(&found(&[SESSION, EPHEMERAL, early], &Last::default()), "too early");
        let due = "'s':'0x1','op':'expired','t0':6000000002,'t1':6000000002";
        assert_eq!(found(&[SESSION, EPHEMERAL, due], &Last::default()), Vec::<String>::new());
    }

    #[test]
    fn a_session_nobody_can_account_for_is_found() {
        let closed = "'s':'0x1','op':'closed','t0':70000000000,'t1':70000000001";
        one(&found(&[SESSION, EPHEMERAL, closed], &Last::default()), "never said to be over");
        let sessions = BTreeSet::from(["0x1".to_owned()]);
        let there = Last { sessions, ..Last::default() };
        assert_eq!(found(&[SESSION, EPHEMERAL, closed], &there), Vec::<String>::new());
        one(&found(&[], &there), "nobody's session");
        let expired = "'s':'0x1','op':'expired','t0':70000000000,'t1':70000000000";
        one(&found(&[SESSION, EPHEMERAL, expired], &there), "has expired and has");
    }

    #[test]
    fn an_ephemeral_that_is_missing_is_found() {
        let seen = "'s':'0x2','op':'children','path':'/chaos/e','t0':9,'t1':10,'end':'ok','names':[],'header':9";
        one(&found(&[SESSION, EPHEMERAL, seen], &Last::default()), "is missing");
    }

    #[test]
    fn two_holders_are_found() {
        let held = |hold: &str, session: &str, from: Nanos, zxid: i64, version: i32| {
            format!(
                "'s':'{session}','op':'set','path':'/chaos/held/{hold}','t0':{from},'t1':{},'end':'ok','value':'{zxid}','version':{version},'zxid':{zxid},'lock':'l','hold':'{hold}','owner':'{session}'",
                from + 1
            )
        };
        let lines = [
            held("one", "0x1", 10, 1, 1),
            held("two", "0x2", 20, 2, 1),
            held("one", "0x1", 30, 3, 2),
            held("two", "0x2", 40, 4, 2),
        ];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        one(&found(&lines, &Last::default()), "at the same time");
        let apart = [lines[0], lines[2]];
        assert!(!found(&apart, &Last::default()).iter().any(|line| line.contains("same time")));
    }
}
