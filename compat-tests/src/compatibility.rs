//! The rows of `docs/compatibility.md`: what a client's checks say on Apache ZooKeeper and here.
//!
//! A test that runs somebody's client calls [`on_both`], or [`record`] if it has its own way to run
//! it. Each leaves its row in `target/compatibility` (or `COMPATIBILITY_ROWS`); the program
//! `compatibility` makes the document of the rows, or compares them with it.

use std::collections::BTreeMap;
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

    /// The same; `event` hears after how many checks that held the program is.
    fn with_events(mut program: Program, mut event: impl FnMut(usize)) -> (Self, String) {
        let mut held = 0;
        let mut outcome = Self::default();
        let mut said = String::new();
        while let Some(line) = program.next_line() {
            if let Some(name) = line.strip_prefix("ok ") {
                outcome.passed(name);
                held += 1;
                event(held);
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
        Outcome::of_program(start(&server))
    });
}

/// How far a program is when the leader of its ensemble is killed, and when that comes back: checks
/// that held.
#[derive(Clone, Copy, Debug)]
pub struct LeaderKill {
    pub killed: usize,
    pub back: usize,
}

/// Runs a client's program on three servers of each kind, whose leader is killed (`kill -9`)
/// meanwhile and comes back. `start` gets the addresses of all three, and which checks are to run,
/// none being all: those that failed run once more where no leader is killed, for not every program
/// can know whether a step that the end of a server cut short was done.
///
/// # Panics
/// As [`on_both`], and if the leader was not killed.
pub fn through_a_leader_kill(
    client: Client<'_>,
    checks: &[&str],
    config: &[&str],
    LeaderKill { killed, back }: LeaderKill,
    start: impl Fn(&str, &[&str]) -> Program + Sync,
) {
    compare(client, checks, |kind| {
        let mut ensemble = Ensemble::start(kind, config);
        let program = start(&ensemble.hosts(), &[]);
        let (mut lost, mut kills) = (None, 0);
        let (mut outcome, mut said) = Outcome::with_events(program, |held| {
            if held == killed {
                lost = Some(ensemble.kill_leader());
                kills += 1;
            } else if held == back
                && let Some(lost) = lost.take()
            {
                ensemble.restart(lost);
            }
        });
        assert_eq!(kills, 1, "the leader of {kind:?} was not killed: {said}");
        let failed = outcome.missing(checks);
        if !failed.is_empty() {
            // On fresh servers: what is there of the first time would be in the way.
            drop(ensemble);
            let ensemble = Ensemble::start(kind, config);
            let (again, more) = Outcome::of_program(start(&ensemble.hosts(), &failed));
            said.push_str(&format!("again: {}\n{more}", failed.join(", ")));
            outcome.checks.extend(again.checks);
        }
        (outcome, said)
    });
}

fn compare(client: Client<'_>, checks: &[&str], run: impl Fn(Kind) -> (Outcome, String) + Sync) {
    let ((reference, said_there), (subject, said_here)) = thread::scope(|scope| {
        let reference = scope.spawn(|| run(Kind::Reference));
        let subject = scope.spawn(|| run(Kind::subject()));
        (
            reference.join().expect("the program ends on the reference"),
            subject.join().expect("the program ends on the subject"),
        )
    });
    record(client, &reference.cell(checks), &subject.cell(checks));
    let (there, here) = (reference.missing(checks), subject.missing(checks));
    assert!(there.is_empty(), "on Apache ZooKeeper not ok: {}\n{said_there}", there.join(", "));
    assert!(here.is_empty(), "not ok: {}\n{said_here}", here.join(", "));
}

/// Leaves a row; with Apache ZooKeeper in the place of the subject there is none.
pub fn record(client: Client<'_>, reference: &str, ours: &str) {
    if Kind::subject() == Kind::Reference {
        return;
    }
    let Client { name, version, what } = client;
    let row = format!("| {name} | {version} | {what} | {reference} | {ours} |\n");
    let file: String = format!("{name} {version} {what}")
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .take(120)
        .collect();
    let folder = rows();
    std::fs::create_dir_all(&folder).expect("the folder of the rows");
    std::fs::write(folder.join(file), row).expect("the row is written");
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
