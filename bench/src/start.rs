//! Starts after kill -9, of both servers on the same files: from the process to the first reply.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::connection::Connection;
use crate::measure::Figures;
use crate::population;
use crate::request::{self, key_path};
use crate::subject::{self, Kind, Launch};

/// A snapshot that is not there by then never comes.
const SNAPSHOT_DEADLINE: Duration = Duration::from_secs(600);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
/// Transactions that the population has beside the keys, with room.
const BESIDE_KEYS: u32 = 1_000;
/// Sets in flight while the log after the snapshot is written.
const BATCH: u32 = 500;

/// What a killed server left: a snapshot of so many keys, and changes of theirs in the log after
/// it.
#[derive(Debug)]
pub(crate) struct Content {
    dir: TempDir,
    keys: u32,
}

/// The contents of a run, made once for all servers and rounds.
#[derive(Debug, Default)]
pub(crate) struct Contents(BTreeMap<(u32, usize, u32), Content>);

impl Contents {
    pub(crate) fn of(
        &mut self,
        launch: &Launch<'_>,
        value_len: usize,
        replayed: u32,
    ) -> io::Result<&Content> {
        match self.0.entry((launch.znodes, value_len, replayed)) {
            Entry::Occupied(made) => Ok(made.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(make(launch, value_len, replayed)?)),
        }
    }
}

/// Both servers read the files of either; ferrokeeper's snapshot comes exactly where it is due.
fn make(launch: &Launch<'_>, value_len: usize, replayed: u32) -> io::Result<Content> {
    let keys = launch.znodes;
    let settings =
        format!("snapCount={}\nautopurge.purgeInterval=0\n", keys.max(replayed + BESIDE_KEYS));
    let subject = Launch { kind: Kind::Ferrokeeper, settings, ..launch.clone() }.fresh()?;
    population::create(subject.address(), keys, value_len)?;
    let deadline = Instant::now() + SNAPSHOT_DEADLINE;
    while !has_snapshot(&subject)? {
        if Instant::now() > deadline {
            return Err(io::Error::other("no snapshot was taken"));
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    let mut connection = Connection::open(subject.address(), 0)?;
    let value = vec![b'w'; value_len];
    for first in (0..replayed).step_by(BATCH as usize) {
        let numbers = first..replayed.min(first + BATCH);
        let mut frames = Vec::new();
        for number in numbers.clone() {
            // Spread over the keys: neighbours were made one after the other.
            let key = (u64::from(number) * 7_919 % u64::from(keys)) as u32;
            frames.extend(request::frame(1, &request::set(&key_path(key), &value)));
        }
        connection.call_all(&frames, numbers.len())?;
    }
    Ok(Content { dir: subject.kill()?, keys })
}

/// Whether there is one after the empty `snapshot.0`.
fn has_snapshot(subject: &subject::Subject) -> io::Result<bool> {
    for entry in fs::read_dir(subject.files())? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with("snapshot.") && name != "snapshot.0") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A start on a copy of the files.
pub(crate) fn figures(launch: &Launch<'_>, content: &Content) -> io::Result<Figures> {
    let dir = subject::folder(launch.programs)?;
    let (from, to) = (subject::files(content.dir.path()), subject::files(dir.path()));
    fs::create_dir_all(&to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        fs::copy(entry.path(), &copy)?;
        // What is read is in memory, and nothing of the copying goes on meanwhile.
        File::open(copy)?.sync_all()?;
    }
    let began = Instant::now();
    let subject = launch.on(dir)?;
    let mut connection = Connection::open(subject.address(), 0)?;
    let head = connection.call(&request::get(&key_path(content.keys - 1), false))?;
    let took = began.elapsed();
    if head.error != 0 {
        return Err(io::Error::other(format!("a key is answered {}", head.error)));
    }
    Ok(Figures::from([
        ("s to the first reply", took.as_secs_f64()),
        ("CPU s", subject.cpu()?.as_secs_f64()),
        ("peak RSS MB", subject.peak_rss()? as f64 / 1e6),
    ]))
}
