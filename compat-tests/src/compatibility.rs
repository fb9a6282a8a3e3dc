//! The rows of `docs/compatibility.md`: what a client's checks say on Apache ZooKeeper and here.
//!
//! A test that runs somebody's client calls [`on_both`], or [`record`] if it has its own way to run
//! it. Each leaves its row in `target/compatibility` (or `COMPATIBILITY_ROWS`); the program
//! `compatibility` makes the document of the rows, or compares them with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::thread;

use crate::program::repository;
use crate::{Ensemble, Kind, Program, Server};

/// A client or an application, and what of it runs.
#[derive(Clone, Copy, Debug)]
pub struct Client<'a> {
    pub name: &'a str,
    pub version: &'a str,
    /// What ran, in a few words.
    pub what: &'a str,
}

/// Which checks held, and what was said of those that did not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    checks: BTreeMap<String, Result<(), String>>,
}

impl Outcome {
    /// Of a program that prints `ok NAME` for a check that holds and `failed NAME: why` for one
    /// that does not; also returns all that it printed.
    pub fn of_program(program: Program) -> (Self, String) {
        Self::with_events(program, |_| ())
    }

    /// The same; `event` hears of each check that held.
    fn with_events(mut program: Program, mut event: impl FnMut(&str)) -> (Self, String) {
        let mut outcome = Self::default();
        let mut said = String::new();
        while let Some(line) = program.next_line() {
            if let Some(name) = line.strip_prefix("ok ") {
                outcome.passed(name);
                event(name);
            } else if let Some(rest) = line.strip_prefix("failed ") {
                let (name, why) = rest.split_once(':').unwrap_or((rest, ""));
                outcome.failed(name, why.trim());
            }
            said.push_str(&line);
            said.push('\n');
        }
        (outcome, said)
    }

    /// A check held; a failure of the same name stays.
    pub fn passed(&mut self, name: &str) {
        self.checks.entry(name.into()).or_insert(Ok(()));
    }

    pub fn failed(&mut self, name: &str, why: &str) {
        self.checks.insert(name.into(), Err(why.into()));
    }

    /// What of `names` does not hold: failed or never reported.
    pub fn missing<'a>(&self, names: &[&'a str]) -> Vec<&'a str> {
        names.iter().copied().filter(|name| self.checks.get(*name) != Some(&Ok(()))).collect()
    }

    /// "24 of 25", with the names of what does not hold.
    pub fn cell(&self, names: &[&str]) -> String {
        let missing = self.missing(names);
        let mut cell = format!("{} of {}", names.len() - missing.len(), names.len());
        if !missing.is_empty() {
            let _ = write!(cell, ", not {}", missing.join(", "));
        }
        cell
    }
}

/// Runs a client's program on a server of each kind at the same time, leaves its row, and fails if
/// one of `checks` does not hold on either.
///
/// # Panics
/// If a check fails or is not reported; the message has what the program printed.
pub fn on_both(
    client: Client<'_>,
    checks: &[&str],
    config: &[&str],
    start: impl Fn(&Server) -> Program + Sync,
) {
    compare(client, checks, |kind| {
        let server = Server::start(kind, config);
        let (outcome, said) = Outcome::of_program(start(&server));
        Course { outcome, again: Vec::new(), said }
    });
}

/// What a program said on one server in all its runs.
#[derive(Debug)]
struct Course {
    outcome: Outcome,
    /// The checks that needed another run.
    again: Vec<String>,
    said: String,
}

/// How far a program is when the leader of its ensemble is killed, and when that comes back: checks
/// that held.
#[derive(Clone, Copy, Debug)]
pub struct LeaderKill {
    pub killed: usize,
    pub back: usize,
}

/// Runs of a program through the end of a leader: the first, and two for what failed there.
const MOST_RUNS: usize = 3;

/// Runs a client's program on three servers of each kind, whose leader is killed (`kill -9`)
/// meanwhile and comes back. `start` gets the addresses of all three. Not every program can know
/// whether a step that the end of a server cut short was done: if a check fails, the whole program
/// runs again on new servers with the same kill, at most twice. What failed once must hold in a
/// run where it ends after the kill.
///
/// # Panics
/// As [`on_both`], and if the leader was not killed in each run, or the killed one not started
/// again.
pub fn through_a_leader_kill(
    client: Client<'_>,
    checks: &[&str],
    config: &[&str],
    kill: LeaderKill,
    start: impl Fn(&str) -> Program + Sync,
) {
    compare(client, checks, |kind| {
        let mut runs = Runs::default();
        for number in 1..=MOST_RUNS {
            let (outcome, after, said) = with_a_leader_kill(kind, config, kill, &start);
            let _ = write!(runs.said, "run {number}:\n{said}");
            runs.add(&outcome, &after, checks);
            if runs.missing(checks).is_empty() {
                break;
            }
        }
        runs.course(checks)
    });
}

/// One run on new servers: what the checks said, which of them held after the kill, and all that
/// the program printed.
fn with_a_leader_kill(
    kind: Kind,
    config: &[&str],
    LeaderKill { killed, back }: LeaderKill,
    start: impl Fn(&str) -> Program,
) -> (Outcome, BTreeSet<String>, String) {
    let mut ensemble = Ensemble::start(kind, config);
    let program = start(&ensemble.hosts());
    let (mut lost, mut kills, mut restarts) = (None, 0, 0);
    let (mut held, mut after) = (0, BTreeSet::new());
    let (outcome, said) = Outcome::with_events(program, |name| {
        held += 1;
        if kills > 0 {
            after.insert(name.to_owned());
        }
        if held == killed {
            lost = Some(ensemble.kill_leader());
            kills += 1;
        } else if held == back
            && let Some(lost) = lost.take()
        {
            ensemble.restart(lost);
            restarts += 1;
        }
    });
    assert_eq!(kills, 1, "the leader of {kind:?} was not killed, {held} checks held:\n{said}");
    assert_eq!(
        restarts, 1,
        "the killed leader of {kind:?} was not started again, {held} checks held:\n{said}"
    );
    (outcome, after, said)
}

/// What several runs with a kill have shown.
#[derive(Debug, Default)]
struct Runs {
    held: BTreeSet<String>,
    /// Those that held in a run where they ended after the kill.
    held_after: BTreeSet<String>,
    failed: BTreeSet<String>,
    /// Those for which there had to be another run.
    again: BTreeSet<String>,
    said: String,
}

impl Runs {
    fn add(&mut self, run: &Outcome, after: &BTreeSet<String>, checks: &[&str]) {
        let missing = run.missing(checks);
        for check in checks {
            let name = (*check).to_owned();
            if missing.contains(check) {
                self.failed.insert(name);
            } else {
                if after.contains(*check) {
                    self.held_after.insert(name.clone());
                }
                self.held.insert(name);
            }
        }
        let again = self.missing(checks);
        self.again.extend(again.into_iter().map(ToOwned::to_owned));
    }

    fn missing<'a>(&self, checks: &[&'a str]) -> Vec<&'a str> {
        let holds = |check: &str| {
            let held = self.held.contains(check) && !self.failed.contains(check);
            held || self.held_after.contains(check)
        };
        checks.iter().copied().filter(|check| !holds(check)).collect()
    }

    fn course(self, checks: &[&str]) -> Course {
        let missing = self.missing(checks);
        let mut outcome = Outcome::default();
        for check in checks {
            match missing.contains(check) {
                true => outcome.failed(check, "in every run"),
                false => outcome.passed(check),
            }
        }
        Course { outcome, again: self.again.into_iter().collect(), said: self.said }
    }
}

fn compare(client: Client<'_>, checks: &[&str], run: impl Fn(Kind) -> Course + Sync) {
    let (reference, subject) = thread::scope(|scope| {
        let reference = scope.spawn(|| run(Kind::Reference));
        let subject = scope.spawn(|| run(Kind::subject()));
        (
            reference.join().expect("the program ends on the reference"),
            subject.join().expect("the program ends on the subject"),
        )
    });
    let cells = [&reference, &subject].map(|course| course.outcome.cell(checks));
    record(client, &cells[0], &cells[1], &second_try(&reference.again, &subject.again));
    let [there, here] = [&reference, &subject].map(|course| course.outcome.missing(checks));
    let said = &reference.said;
    assert!(there.is_empty(), "on Apache ZooKeeper not ok: {}\n{said}", there.join(", "));
    assert!(here.is_empty(), "not ok: {}\n{}", here.join(", "), subject.said);
}

/// The last column of a row: the checks that needed another run on Apache ZooKeeper, and here.
pub fn second_try(reference: &[String], ours: &[String]) -> String {
    let sides = [("Apache", reference), ("here", ours)];
    let named = sides.iter().filter(|(_, names)| !names.is_empty());
    let parts = named.map(|(side, names)| format!("{side}: {}", names.join(", ")));
    parts.collect::<Vec<_>>().join("; ")
}

/// Leaves a row; with Apache ZooKeeper in the place of the subject there is none.
pub fn record(client: Client<'_>, reference: &str, ours: &str, second_try: &str) {
    if Kind::subject() == Kind::Reference {
        return;
    }
    let Client { name, version, what } = client;
    let row = row(&[name, version, what, reference, ours, second_try]);
    let file: String = format!("{name} {version} {what}")
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(120)
        .collect();
    let folder = rows();
    std::fs::create_dir_all(&folder).expect("the folder of the rows");
    std::fs::write(folder.join(file), row).expect("the row is written");
}

fn row(cells: &[&str]) -> String {
    let cell = |cell: &&str| if cell.is_empty() { "| ".into() } else { format!("| {cell} ") };
    cells.iter().map(cell).chain(["|\n".into()]).collect()
}

/// What a row says without its last column, which differs from run to run.
pub fn without_second_try(row: &str) -> Option<&str> {
    let cells = row.trim_end().strip_suffix('|')?;
    cells.rsplit_once('|').map(|(cells, _)| cells)
}

/// Where the rows of a run are.
pub fn rows() -> PathBuf {
    std::env::var_os("COMPATIBILITY_ROWS").map_or_else(
        || {
            let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
            repository().join(target).join("compatibility")
        },
        PathBuf::from,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run in which these checks held before the kill, held after it, and failed.
    fn run(before: &[&str], after: &[&str], failed: &[&str]) -> (Outcome, BTreeSet<String>) {
        let mut outcome = Outcome::default();
        before.iter().chain(after).for_each(|name| outcome.passed(name));
        failed.iter().for_each(|name| outcome.failed(name, "why"));
        (outcome, after.iter().map(ToString::to_string).collect())
    }

    fn runs(checks: &[&str], all: &[(Outcome, BTreeSet<String>)]) -> Runs {
        let mut runs = Runs::default();
        all.iter().for_each(|(outcome, after)| runs.add(outcome, after, checks));
        runs
    }

    #[test]
    fn what_failed_must_hold_after_a_kill() {
        let checks = ["a", "b", "c"];
        let first = run(&["a"], &["b"], &["c"]);
        assert_eq!(runs(&checks, std::slice::from_ref(&first)).missing(&checks), ["c"]);
        let too_early = [first.clone(), run(&["c"], &["a", "b"], &[])];
        assert_eq!(runs(&checks, &too_early).missing(&checks), ["c"]);
        let after_kill = [first.clone(), run(&["a"], &["c"], &["b"])];
        let after_kill = runs(&checks, &after_kill);
        assert_eq!(after_kill.missing(&checks), [""; 0], "b held after the first kill");
        let course = after_kill.course(&checks);
        assert_eq!(
            (course.outcome.cell(&checks), course.again),
            ("3 of 3".into(), vec!["c".into()])
        );
    }

    #[test]
    fn what_held_before_a_kill_and_failed_behind_another_does_not_hold() {
        let checks = ["a", "b"];
        let both = [run(&["a"], &[], &["b"]), run(&[], &["b"], &["a"])];
        let both = runs(&checks, &both);
        assert_eq!(both.missing(&checks), ["a"]);
        let course = both.course(&checks);
        assert_eq!(course.outcome.cell(&checks), "1 of 2, not a");
        assert_eq!(course.again, ["a", "b"]);
    }

    #[test]
    fn a_row_has_an_empty_last_column_or_who_needed_more() {
        let empty = row(&["name", "1.0", "what", "1 of 1", "1 of 1", ""]);
        assert_eq!(empty, "| name | 1.0 | what | 1 of 1 | 1 of 1 | |\n");
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let needed = second_try(&names(&["x"]), &names(&["y", "z"]));
        assert_eq!(needed, "Apache: x; here: y, z");
        assert_eq!(second_try(&[], &names(&["y"])), "here: y");
        assert_eq!(second_try(&[], &[]), "");
        let other = row(&["name", "1.0", "what", "1 of 1", "1 of 1", &needed]);
        assert_eq!(without_second_try(&empty), without_second_try(&other));
        assert_eq!(without_second_try(&other), Some("| name | 1.0 | what | 1 of 1 | 1 of 1 "));
    }
}
