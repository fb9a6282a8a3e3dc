//! `migrate check`: whether ferrokeeper can take over from an Apache ZooKeeper, which may be
//! running. The way back has a file of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use super::Finding;
use super::config::note_for_scripts;
use super::error::CommandError;
use super::output::Output;
use super::place::Folders;
use super::state::{StartState, contents, largest};
use super::way_back;
use super::words::{Hex, Instant, Plain, counted};
use crate::config::{self, Config};
use crate::engine::database::Database;
use crate::message::MessageId;
use crate::storage::{self, SessionKey};

/// Segments of the log that ferrokeeper has at once: two prepared, one in use.
const SEGMENTS: u64 = 3;

/// Prepare a move from Apache ZooKeeper.
#[derive(Debug, Subcommand)]
pub enum MigrateCommand {
    /// Report whether ferrokeeper can replace ZooKeeper with this zoo.cfg, and what will differ.
    /// Changes nothing.
    Check {
        /// ZooKeeper's zoo.cfg. With --to-zookeeper: ferrokeeper's zoo.cfg, or a dataDir.
        #[arg(value_name = "ZOO.CFG")]
        file: PathBuf,
        /// Report instead what going back to ZooKeeper 3.9.5 would cost: sessions that end, and
        /// what ZooKeeper would not read.
        #[arg(long)]
        to_zookeeper: bool,
        /// dataLogDir, if it is a different folder, and no zoo.cfg names it.
        #[arg(long, value_name = "DIR", requires = "to_zookeeper")]
        log_dir: Option<PathBuf>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(command: &MigrateCommand, out: &mut Output) -> Result<Finding, CommandError> {
    let MigrateCommand::Check { file, to_zookeeper, log_dir, json } = command;
    if *to_zookeeper {
        return way_back::check(file, log_dir.as_deref(), *json, out);
    }
    let loaded = config::load(Some(file), &[])?;
    let folders = Folders::of_config(&loaded.config);
    let directory = folders.look()?;
    let data = StartState::read(&directory, &folders)?;
    let has_key = SessionKey::read(directory.disk().as_ref(), directory.snapshots())?.is_some();
    let unsealed = storage::unsealed_bytes(&directory)?;
    let free = [&folders.data_dir, &folders.data_log_dir].map(|dir| bytes_free(dir));
    let needed = needed(&loaded.config, &data);
    let mut problems = Vec::new();
    if let Some(error) = data.damage() {
        problems.push(format!("[{}] {error}", error.id()));
    }
    for (dir, free) in [&folders.data_dir, &folders.data_log_dir].into_iter().zip(free) {
        if let Some(free) = free.filter(|free| *free < needed) {
            problems.push(format!(
                "{} has {free} bytes free, and a first snapshot with {SEGMENTS} log segments \
                 needs {needed}; free some space, or lower preAllocSize",
                dir.display()
            ));
        }
    }
    let verdict = if problems.is_empty() { Finding::Fine } else { Finding::Problems };
    let report = Report {
        file,
        loaded: &loaded,
        data: &data,
        has_key,
        free,
        needed,
        unsealed,
        problems: &problems,
    };
    if *json {
        report.for_scripts(out)?
    } else {
        report.for_people(out)?
    }
    Ok(verdict)
}

/// Bytes that this user may still write in the file system of a folder.
fn bytes_free(dir: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(dir).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

/// A first snapshot as large as the tree, and the segments of the log.
fn needed(config: &Config, data: &StartState) -> u64 {
    /// What a znode takes in a snapshot beside its path and data.
    const ZNODE: u64 = 76;
    let segment = config.prealloc_bytes.map_or(0, std::num::NonZeroU64::get);
    let tree = data.database.tree();
    tree.data_size()
        .saturating_add(ZNODE.saturating_mul(tree.count() as u64))
        .saturating_add(SEGMENTS.saturating_mul(segment))
}

/// The ids of the scheme digest that hold what a charset did not have.
fn garbled(database: &Database) -> BTreeSet<&str> {
    let lists = database.tree().acls().iter().flat_map(|(_, list)| list.iter());
    let digests = lists.filter(|acl| acl.scheme.as_deref() == Some("digest"));
    let ids = digests.filter_map(|acl| acl.id.as_deref());
    ids.filter(|id| id.contains(char::REPLACEMENT_CHARACTER)).collect()
}

struct Report<'a> {
    file: &'a Path,
    loaded: &'a config::Loaded,
    data: &'a StartState,
    has_key: bool,
    free: [Option<u64>; 2],
    needed: u64,
    /// Bytes of ZooKeeper's files, which stay until the directory is sealed.
    unsealed: u64,
    problems: &'a [String],
}

impl Report<'_> {
    fn sessions_survive(&self) -> bool {
        !self.has_key
    }

    /// Those that move together.
    fn servers(&self) -> usize {
        self.loaded.config.ensemble.as_ref().map_or(1, |its| its.list.servers.iter().len())
    }

    fn for_scripts(&self, out: &mut Output) -> Result<(), CommandError> {
        let notes: Vec<_> = self.loaded.notes.iter().map(note_for_scripts).collect();
        let data = self.data;
        let tree = data.database.tree();
        let (largest_path, largest_length) = largest(&data.database);
        let passed_over: Vec<_> = data.examined.passed_over.iter().map(|(file, _)| file).collect();
        out.json(&json!({
            "can_migrate": self.problems.is_empty(),
            "servers": self.servers(),
            "problems": self.problems,
            "keys_in_effect": self.loaded.keys_in_effect,
            "key_notes": notes,
            "snapshot": data.examined.snapshot_file,
            "passed_over": passed_over,
            "txns": data.examined.txns,
            "zxid": Hex(data.examined.last_zxid),
            "last_time": data.examined.last_time.map(Instant),
            "znodes": tree.count(),
            "ephemerals": tree.ephemerals_count(),
            "sessions": data.database.sessions().len(),
            "sessions_survive": self.sessions_survive(),
            "largest_znode": { "path": largest_path, "length": largest_length },
            "longest_multi": data.longest_multi,
            "read_ms": data.read_ms,
            "bytes_needed": self.needed,
            "bytes_free": self.free,
            "bytes_kept_until_seal": self.unsealed,
            "garbled_ids": garbled(&data.database),
        }))
    }

    fn for_people(&self, out: &mut Output) -> Result<(), CommandError> {
        out.line(format_args!(
            "keys       {} in effect: {}",
            self.loaded.keys_in_effect.len(),
            self.loaded.keys_in_effect.join(", ")
        ))?;
        for note in &self.loaded.notes {
            match note.warns_of() {
                Some(id) => out.line(format_args!("           WARNING [{id}] {}", note.text))?,
                None => out.line(format_args!("           {}", note.text))?,
            }
        }
        self.tell_data(out)?;
        self.tell_cost(out)?;
        for problem in self.problems {
            out.line(format_args!("PROBLEM    {problem}"))?;
        }
        if !self.problems.is_empty() {
            return out.line(format_args!("ferrokeeper would not start"));
        }
        self.tell_way(out)
    }

    fn tell_data(&self, out: &mut Output) -> Result<(), CommandError> {
        let data = self.data;
        if let Some(file) = &data.examined.snapshot_file {
            out.line(format_args!("snapshot   {}", file.display()))?;
        }
        for (file, why) in &data.examined.passed_over {
            out.line(format_args!("           skipped {}: {why}", file.display()))?;
        }
        out.line(format_args!(
            "log        {} after it, the last {}; the longest multi has {}",
            counted(data.examined.txns, "transaction"),
            Hex(data.examined.last_zxid),
            counted(data.longest_multi as u64, "part")
        ))?;
        for line in contents(&data.database) {
            out.line(format_args!("{line}"))?;
        }
        let (path, length) = largest(&data.database);
        out.line(format_args!(
            "largest    {} with {}",
            Plain(&path),
            counted(length as u64, "byte")
        ))?;
        out.line(format_args!(
            "passwords  {}",
            if self.sessions_survive() {
                "ZooKeeper's: open sessions survive the move, and the move back"
            } else {
                "derived from a key (session.key): sessions that ZooKeeper opened end"
            }
        ))?;
        for id in garbled(&data.database) {
            out.line(format_args!(
                "           WARNING [{}] digest {}: its client counts as a different user here, \
                 because the name is not ASCII",
                MessageId::ID_GARBLED,
                Plain(id)
            ))?;
        }
        Ok(())
    }

    /// Room and time.
    fn tell_cost(&self, out: &mut Output) -> Result<(), CommandError> {
        let free = self.free.iter().flatten().min();
        out.line(format_args!(
            "disk       {} bytes needed, {} free",
            self.needed,
            free.map_or_else(|| "an unknown number".to_owned(), u64::to_string)
        ))?;
        out.line(format_args!(
            "kept       {} of ZooKeeper's files are kept until ferrokeeper data seal",
            counted(self.unsealed, "byte")
        ))?;
        out.line(format_args!(
            "start      about {} ms, the time that reading took just now",
            self.data.read_ms
        ))
    }

    fn tell_way(&self, out: &mut Output) -> Result<(), CommandError> {
        let file = self.file.display();
        match self.servers() {
            1 => {
                out.line(format_args!(
                    "to move    stop ZooKeeper, then run: ferrokeeper server {file}"
                ))?;
                out.line(format_args!(
                    "to go back stop ferrokeeper, then start ZooKeeper with the same {file}; \
                     ZooKeeper can read the directory until ferrokeeper data seal"
                ))
            }
            servers => {
                out.line(format_args!(
                    "to move    check the other servers too, stop ZooKeeper on all {servers} \
                     servers, then run on each: ferrokeeper server {file}"
                ))?;
                out.line(format_args!(
                    "to go back stop ferrokeeper on all of them, then start ZooKeeper with the \
                     same {file}"
                ))
            }
        }
    }
}
