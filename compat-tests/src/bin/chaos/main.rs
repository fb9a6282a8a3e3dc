//! Three servers, each a process in a network namespace of its own, kazoo's and Curator's clients
//! on them, and a seeded schedule of everything that goes wrong; at the end a check of all that the
//! clients were told.
//!
//! ```text
//! chaos [--minutes M] [--seed N] [--reference] [--keep FOLDER]
//! ```
//!
//! `--reference` runs Apache ZooKeeper instead, `--keep` copies the histories and the servers'
//! logs.
//!
//! It runs in namespaces of processes, mounts and networks of its own, its files on a file system
//! in memory that only they see: however it ends, the kernel takes all of it away. It has to be
//! root.

mod age;
mod checker;
mod faults;
mod history;
mod linear;
mod member;
mod refused;
mod timeline;
mod world;

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use compat_tests::Kind;
use compat_tests::random::seed_of_now;

use crate::checker::{Allowance, violations};
use crate::faults::{Dice, Fault};
use crate::member::{SYNC_LIMIT, TICK};
use crate::world::{CLIENTS, World};

/// Of less than so many of a kind a run shows nothing.
const FEW: usize = 10;
/// In so many minutes there are as many of the rare ones, too.
const LONG: f64 = 20.0;
/// In so many minutes all that is needed goes wrong, however long each fault takes.
const ENOUGH: f64 = 5.0;
/// What goes wrong first in each run, once each, in an order that the seed decides.
const NEEDED: [&str; 6] = ["Alone", "AllApart", "Copied", "Emptied", "Killed", "Stopped"];
/// Set in the namespaces.
const INSIDE: &str = "CHAOS_INSIDE";
/// Where everything is, inside.
const FOLDER: &str = "/run/chaos";
/// The most that is shown.
const SHOWN: usize = 20;

/// What a run does.
#[derive(Clone, Debug)]
struct Plan {
    minutes: f64,
    seed: u64,
    kind: Kind,
    keep: Option<PathBuf>,
}

fn main() -> ExitCode {
    let done = plan().and_then(|plan| match env::var_os(INSIDE) {
        None => go_inside(plan.seed),
        Some(_) => run(&plan),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "chaos: {error}");
            ExitCode::FAILURE
        }
    }
}

fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn plan() -> Result<Plan, Box<dyn Error>> {
    let mut plan = Plan { minutes: 4.0, seed: seed_of_now(), kind: Kind::Ferrokeeper, keep: None };
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} of what?"));
        match word.as_str() {
            "--minutes" => plan.minutes = value()?.parse()?,
            "--seed" => plan.seed = value()?.parse()?,
            "--reference" => plan.kind = Kind::Reference,
            "--keep" => plan.keep = Some(value()?.into()),
            _ => return Err(format!("{word}: not an option").into()),
        }
    }
    Ok(plan)
}

/// Runs this program again in namespaces that end with it.
fn go_inside(seed: u64) -> Result<bool, Box<dyn Error>> {
    let status = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "unshare", "--mount", "--net", "--pid", "--fork"])
        .args(["--kill-child=KILL", "--mount-proc", "--propagation", "private"])
        .arg(env::current_exe()?)
        .args(env::args().skip(1))
        // The last one counts.
        .args(["--seed", &seed.to_string()])
        .env(INSIDE, "1")
        .env("TMPDIR", FOLDER)
        .status()?;
    Ok(status.success())
}

fn run(plan: &Plan) -> Result<bool, Box<dyn Error>> {
    let Plan { minutes, seed, kind, ref keep } = *plan;
    say(&format!("{kind:?}, {minutes} minutes, seed {seed}"));
    let folder = Path::new(FOLDER);
    let mut world = World::start(kind, folder, seed)?;
    say("three servers, and clients of kazoo and Curator");
    let done = disturb(&mut world, minutes, seed)
        .and_then(|faults| judge(&mut world, (kind, minutes), &faults, folder));
    let found = match done {
        Ok(found) => found,
        Err(error) => vec![error.to_string()],
    };
    for line in found.iter().take(SHOWN) {
        say(&format!("VIOLATION {line}"));
    }
    say(&format!("{} violations, seed {seed}", found.len()));
    if let Some(keep) = keep {
        world.keep(keep)?;
    }
    Ok(found.is_empty())
}

/// How often there was each fault.
type Faults = BTreeMap<String, usize>;

/// One fault after the other, sometimes two at a time, with quiet between them. Those that are
/// needed come first.
fn disturb(world: &mut World, minutes: f64, seed: u64) -> Result<Faults, Box<dyn Error>> {
    let mut count = Faults::new();
    let mut dice = Dice::new(seed);
    let mut needed = NEEDED.to_vec();
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    while Instant::now() < end {
        let leader = world.leader();
        let mut faults = vec![match dice.take(&mut needed) {
            Some(name) => Fault::named(name, &mut dice, leader),
            None => Fault::any(&mut dice, leader),
        }];
        if dice.below(4) == 0 {
            faults.push(Fault::any(&mut dice, leader));
        }
        if !faults.iter().all(Fault::goes_with_others) {
            faults.truncate(1);
        }
        let least = faults.iter().map(Fault::least).max().unwrap_or_default();
        let lasts = least + Duration::from_millis(1_000 + dice.below(8_000));
        let lasts = faults.iter().find_map(Fault::exactly).unwrap_or(lasts);
        say(&format!("{} {faults:?}, leader {leader:?}, {lasts:.1?}", uptime()));
        for fault in &faults {
            *count.entry(fault.name()).or_default() += 1;
            fault.begin(world)?;
        }
        let until = Instant::now() + lasts;
        while Instant::now() < until {
            world.note_ends()?;
            std::thread::sleep(Duration::from_millis(100));
        }
        for fault in &faults {
            fault.end(world)?;
        }
        world.heal()?;
        let took = world.settle()?;
        say(&format!("{} together again after {took:.1?}", uptime()));
        std::thread::sleep(Duration::from_millis(1_000 + dice.below(3_000)));
    }
    Ok(count)
}

/// Seconds of the clock that the histories have, too.
fn uptime() -> String {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Lets the clients stop, compares the servers, and checks the histories.
fn judge(
    world: &mut World,
    (kind, minutes): (Kind, f64),
    faults: &Faults,
    folder: &Path,
) -> Result<Vec<String>, Box<dyn Error>> {
    say(&format!("faults: {faults:?}"));
    world.stop_clients();
    let (last, mut found) = world.last()?;
    world.end_clients();
    found.extend(world.sessions_left()?);
    found.extend(world.defects());
    let mut entries = Vec::new();
    for (file, host) in world::HISTORIES.into_iter().zip(CLIENTS) {
        entries.extend(history::read(&folder.join(file), host)?);
    }
    let count = |is: fn(&history::Entry) -> bool| entries.iter().filter(|entry| is(entry)).count();
    say(&format!(
        "{} entries: {} sets, {} gets, {} of unknown outcome; {} writes under a lock; {} sessions, \
         {} expired, {} given up; {} ephemerals at the end; servers ended by themselves: {}; gets \
         answered by a server that stood when it was asked: {}",
        entries.len(),
        count(|entry| entry.op == "set" && entry.is_ok()),
        count(|entry| entry.op == "get" && entry.is_ok()),
        count(history::Entry::is_unknown),
        count(|entry| entry.hold.is_some() && entry.is_ok()),
        count(|entry| entry.op == "session"),
        count(|entry| entry.op == "expired"),
        count(|entry| entry.op == "given-up"),
        last.sessions.len(),
        world.ended_by_themselves(),
        age::asked_of_who_stood(&entries, world.timeline()),
    ));
    let stood = age::asked_of_who_stood(&entries, world.timeline());
    // What never happened was not tested.
    let least = [
        ("sets", count(|entry| entry.op == "set" && entry.is_ok())),
        ("gets", count(|entry| entry.op == "get" && entry.is_ok())),
        ("writes under a lock", count(|entry| entry.hold.is_some() && entry.is_ok())),
        ("sessions", count(|entry| entry.op == "session")),
        ("gets of a server that stood", if minutes < LONG { usize::MAX } else { stood }),
    ];
    let few = least.into_iter().filter(|(_, count)| *count < FEW);
    found.extend(few.map(|(what, count)| format!("hardly any {what}: {count}")));
    let absent = NEEDED.into_iter().filter(|name| minutes >= ENOUGH && !faults.contains_key(*name));
    found.extend(absent.map(|name| format!("nothing of the kind {name} went wrong")));
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let stale_sync = kind != Kind::Ferrokeeper;
    let allowance = Allowance {
        stale_sync,
        age: (!stale_sync).then_some(nanos(TICK * SYNC_LIMIT)),
        way: nanos(2 * TICK),
        write: nanos(2 * TICK),
        read: nanos(TICK * SYNC_LIMIT + 2 * TICK),
    };
    found.extend(violations(&entries, &last, world.timeline(), allowance));
    if !stale_sync {
        let (impossible, searched) = linear::impossible(&entries);
        say(&format!("searched for an order: {searched:?}"));
        if searched.operations < FEW {
            found.push("hardly any set or read was searched for an order".to_owned());
        }
        found.extend(impossible);
    }
    Ok(found)
}
