//! `migrate check --to-zookeeper`: what it costs when Apache ZooKeeper 3.9.5 goes on with a
//! directory, which may be in use.
//!
//! A problem is what ZooKeeper would not start with, or what of the tree it would lose. All else
//! that differs is a cost.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use serde_json::json;

use super::Finding;
use super::config::note_for_scripts;
use super::error::CommandError;
use super::output::Output;
use super::place::{Folders, Place};
use super::state::{StartState, contents, largest};
use super::words::{Hex, Plain, counted};
use crate::config::{self, Config, Loaded};
use crate::engine::Owner;
use crate::engine::database::Database;
use crate::engine::session::SessionId;
use crate::ensemble::server_of;
use crate::storage::{
    DataDirectory, EpochFile, LogEnd, Members, Over, RaftState, RaftStateFile, SessionSecret,
    SnapshotOrigin, whose,
};

/// Of many, so many are named to people.
const NAMED: usize = 10;
/// `jute.maxbuffer` of a JVM that is not told, which has the same again for what it reads of its
/// files.
const MAX_BUFFER: usize = 0xf_ffff;

pub(super) fn check(
    at: &Path,
    log_dir: Option<&Path>,
    json: bool,
    out: &mut Output,
) -> Result<Finding, CommandError> {
    let loaded = if at.is_dir() { None } else { Some(config::load(Some(at), &[])?) };
    let folders = match (&loaded, log_dir) {
        (Some(_), Some(_)) => return Err(CommandError::LogNamedTwice { config: at.to_owned() }),
        (Some(loaded), None) => Folders::of_config(&loaded.config),
        (None, Some(log_dir)) => Place::of_folders(at, log_dir).folders()?,
        (None, None) => Place::of_folder(at).folders()?,
    }
    .with_extended_types();
    let directory = folders.look()?;
    let member = RaftStateFile::look(&directory)?;
    let has_left = match &member {
        Some(state) => whose(&directory, state)?.went_on.is_some(),
        None => false,
    };
    let data = match has_left {
        true => StartState::read_as_left(&directory, &folders)?,
        false => StartState::read(&directory, &folders)?,
    };
    let mut report = Report {
        at,
        loaded: loaded.as_ref(),
        member: member.filter(|_| !has_left),
        ending: Vec::new(),
        ttl: with_ttl(&data.database),
        epochs: epochs(&directory)?,
        data,
        problems: Vec::new(),
        costs: Vec::new(),
    };
    // ZooKeeper has never known a key, and what it went on with has its own passwords.
    if !has_left && report.data.examined.snapshot.origin != SnapshotOrigin::Java {
        let secret = RaftStateFile::look_secret(&directory)?;
        report.ending = secret.map_or(Vec::new(), |secret| ending(&secret, &report.data.database));
    }
    if let Err(CommandError::InUse { path, pid, name }) = folders.expect_unused() {
        report.costs.push(format!(
            "{} is in use by process {pid} ({name}): stop it with SIGTERM and check again; this \
             is what its directory holds now",
            path.display()
        ));
    }
    report.look_at_emptiness();
    report.look_at_log();
    report.look_at_tree();
    report.look_at_member();
    report.look_at_epochs();
    report.look_at_keys();
    if json {
        report.for_scripts(out)?;
    } else {
        report.for_people(out)?;
    }
    Ok(if report.problems.is_empty() { Finding::Fine } else { Finding::Problems })
}

/// The open sessions with passwords that ZooKeeper does not make, and how many ephemeral znodes go
/// with each.
fn ending(secret: &SessionSecret, database: &Database) -> Vec<(SessionId, usize)> {
    let before: HashSet<i64> = secret.before.iter().copied().collect();
    let open = database.sessions().keys().filter(|session| !before.contains(&session.0));
    open.map(|session| (*session, database.tree().ephemerals(*session).count())).collect()
}

/// The znodes with a time to live.
fn with_ttl(database: &Database) -> BTreeSet<String> {
    let tree = database.tree();
    let with_ttl = tree.reapable(None).filter(|id| matches!(tree.owner(*id), Owner::Ttl(_)));
    with_ttl.map(|id| tree.path(id)).collect()
}

/// `currentEpoch` and `acceptedEpoch`, as far as they are there.
fn epochs(directory: &DataDirectory) -> Result<[Option<i64>; 2], CommandError> {
    let folder = directory.snapshots();
    let disk = directory.disk();
    let current = EpochFile::current(disk.clone(), folder)?.get();
    let accepted = EpochFile::accepted(disk.clone(), folder)?.get();
    let is_there = |name: &str| folder.join(name).exists();
    Ok([is_there("currentEpoch").then_some(current), is_there("acceptedEpoch").then_some(accepted)])
}

/// The first of many, and how many more there are.
fn named(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let mut text = names.take(NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

fn servers(ids: &BTreeSet<u8>) -> String {
    named(ids.iter().map(u8::to_string))
}

struct Report<'a> {
    at: &'a Path,
    /// `None` where a folder was given.
    loaded: Option<&'a Loaded>,
    data: StartState,
    /// The member whose directory it is; `None` also where ZooKeeper has gone on with it.
    member: Option<RaftState>,
    ending: Vec<(SessionId, usize)>,
    ttl: BTreeSet<String>,
    epochs: [Option<i64>; 2],
    problems: Vec<String>,
    costs: Vec<String>,
}

impl Report<'_> {
    fn config(&self) -> Option<&Config> {
        self.loaded.map(|loaded| &loaded.config)
    }

    fn keys_only_here(&self) -> &[String] {
        self.loaded.map_or(&[], |loaded| &loaded.keys_only_here)
    }

    fn is_only_here(&self, key: &str) -> bool {
        self.keys_only_here().iter().any(|one| one == key)
    }

    /// Bytes of a record, or of a znode's data in a snapshot, that ZooKeeper reads back
    /// (`BinaryInputArchive`).
    fn record_max(&self) -> usize {
        let Some(config) = self.config() else { return 2 * MAX_BUFFER };
        let (record, buffer) = (config.jute_max_record as usize, config.jute_max_buffer as usize);
        let is_set =
            |key| self.loaded.is_some_and(|its| its.keys_in_effect.iter().any(|one| one == key));
        match (self.is_only_here("jute.maxbuffer"), is_set("jute.maxbuffer.extrasize")) {
            (false, _) => record,
            (true, true) => MAX_BUFFER + record.saturating_sub(buffer),
            (true, false) => 2 * MAX_BUFFER,
        }
    }

    /// An empty server of an ensemble votes as one that has lost nothing.
    fn look_at_emptiness(&mut self) {
        let examined = &self.data.examined;
        let is_empty = examined.snapshot_file.is_none() && examined.last_zxid == 0;
        let ensemble = self.config().and_then(|config| config.ensemble.as_ref());
        let is_voter = ensemble.is_some_and(|its| its.ids(false).any(|id| id == its.my_id));
        if is_empty && self.member.is_none() && is_voter {
            self.problems.push(
                "the directory has no data, but zoo.cfg lists this server as a voter: ZooKeeper \
                 would count its vote, and so could form a majority that lacks acknowledged \
                 transactions; run ferrokeeper until /health/ready is 200 on all servers"
                    .to_owned(),
            );
        }
    }

    fn look_at_log(&mut self) {
        match &self.data.examined.end {
            LogEnd::Damaged(error) => self.problems.push(format!("[{}] {error}", error.id())),
            LogEnd::Torn { path, offset, bytes } => self.problems.push(format!(
                "{} has {bytes} torn bytes at offset {offset}, as left by a crash or a write in \
                 progress, and ZooKeeper may not start with them: start ferrokeeper once more, \
                 which cuts them off, and then stop it with SIGTERM",
                path.display()
            )),
            LogEnd::Clean | LogEnd::Reached { .. } => {}
        }
    }

    fn look_at_tree(&mut self) {
        if !self.ending.is_empty() {
            let ephemerals: usize = self.ending.iter().map(|(_, ephemerals)| ephemerals).sum();
            let names = self.ending.iter().map(|(session, _)| format!("{:#x}", session.0));
            self.costs.push(format!(
                "{} would expire, with {}: their passwords depend on session.key, which ZooKeeper \
                 does not know: {}",
                counted(self.ending.len() as u64, "session"),
                counted(ephemerals as u64, "ephemeral znode"),
                named(names)
            ));
        }
        let limit = self.record_max();
        let (path, data) = largest(&self.data.database);
        let raise =
            "set jute.maxbuffer for ZooKeeper's JVM, with -D: it does not read it from zoo.cfg";
        if data > limit {
            self.problems.push(format!(
                "{} has {data} bytes, and ZooKeeper cannot read a snapshot in which a znode has \
                 more than {limit}; {raise}",
                Plain(&path)
            ));
        }
        let record = self.data.longest_record;
        if record > limit {
            self.problems.push(format!(
                "the log has a transaction of {record} bytes, and ZooKeeper cannot read one of \
                 more than {limit}; {raise}"
            ));
        }
        if !self.ttl.is_empty() {
            let names = named(self.ttl.iter().map(|path| Plain(path).to_string()));
            let count = counted(self.ttl.len() as u64, "znode");
            match self.config() {
                Some(config) if config.extended_types_enabled => {}
                Some(_) => self.problems.push(format!(
                    "{count} with a time to live would be taken for ephemeral, and deleted, \
                     without extendedTypesEnabled=true: {names}"
                )),
                None => self.costs.push(format!(
                    "{count} with a time to live would be deleted, unless ZooKeeper's zoo.cfg has \
                     extendedTypesEnabled=true: {names}"
                )),
            }
        }
        let tree = self.data.database.tree();
        let lists = tree.acls().iter().flat_map(|(_, list)| list.iter());
        let digests = lists.filter(|acl| acl.scheme.as_deref() == Some("digest"));
        let ids = digests.filter_map(|acl| acl.id.as_deref());
        let ids: BTreeSet<&str> = ids.filter(|id| !id.is_ascii()).collect();
        if !ids.is_empty() {
            self.costs.push(format!(
                "clients with these digest ids count as different users unless ZooKeeper's JVM \
                 has -Dfile.encoding=UTF-8, because their names are not ASCII: {}",
                named(ids.iter().map(|id| Plain(id).to_string()))
            ));
        }
    }

    fn look_at_member(&mut self) {
        let Some(member) = &self.member else { return };
        let mut found = Vec::new();
        if member.over == Some(Over::OlderCopy) {
            found.push(
                "the directory is an older copy of a member's: the others have newer data"
                    .to_owned(),
            );
        } else if member.is_removed() {
            found.push(
                "the member was removed from its ensemble: the others have newer data".to_owned(),
            );
        }
        if member.clears || member.replaces != 0 || member.founds {
            found.push(
                "the directory is between two states: what it has is to be replaced by the \
                 ensemble's data; start ferrokeeper until /health/ready is 200"
                    .to_owned(),
            );
        }
        let Members { voters, voters_outgoing, .. } = &member.members;
        if !voters_outgoing.is_empty() {
            found.push(
                "the members of the ensemble are being changed; wait until that is done".to_owned(),
            );
        }
        let votes = voters.contains(&member.id);
        let mut voters: BTreeSet<u8> = voters.iter().copied().map(server_of).collect();
        if !votes {
            // A voter's id may be of an earlier life of the same server, whose data is gone.
            voters.remove(&server_of(member.id));
        }
        match self.config().map(|config| &config.ensemble) {
            None if votes => {}
            None => self.costs.push(
                "this member does not vote, and may lack acknowledged transactions; ZooKeeper \
                 would count its vote if zoo.cfg lists it as a voter"
                    .to_owned(),
            ),
            Some(None) => self.costs.push(format!(
                "zoo.cfg has no list of servers, but this is the directory of one of {}: a \
                 standalone ZooKeeper would have only what this one had",
                counted(voters.len() as u64, "voter")
            )),
            Some(Some(ensemble)) => {
                let listed: BTreeSet<u8> = ensemble.ids(false).collect();
                let early = &listed - &voters;
                if !early.is_empty() {
                    found.push(format!(
                        "these servers are voters in zoo.cfg but do not vote yet: {}; ZooKeeper \
                         would count their votes, but they may lack acknowledged transactions; \
                         run ferrokeeper until /health/ready is 200 on all servers",
                        servers(&early)
                    ));
                }
                let unlisted = &voters - &listed;
                if !unlisted.is_empty() {
                    found.push(format!(
                        "these servers vote but are not voters in zoo.cfg: {}; acknowledged \
                         transactions may be on them and not on a majority of the others",
                        servers(&unlisted)
                    ));
                }
            }
        }
        self.problems.append(&mut found);
    }

    /// As `QuorumPeer.loadDataBase` compares them; a server that is alone does not read them.
    fn look_at_epochs(&mut self) {
        let is_alone =
            self.config().map_or_else(|| self.member.is_none(), |config| config.ensemble.is_none());
        if is_alone {
            return;
        }
        let of_log = self.data.examined.last_zxid >> 32;
        let [current, accepted] = self.epochs.map(|epoch| epoch.unwrap_or(of_log));
        if of_log > current {
            self.problems.push(format!(
                "currentEpoch is {current}, but the last transaction is of epoch {of_log}; \
                 ZooKeeper does not start like that: start ferrokeeper once more, and stop it \
                 with SIGTERM"
            ));
        } else if accepted < current {
            self.problems.push(format!(
                "acceptedEpoch is {accepted}, less than currentEpoch, {current}; ZooKeeper does \
                 not start like that: start ferrokeeper once more, and stop it with SIGTERM"
            ));
        }
    }

    fn look_at_keys(&mut self) {
        for key in self.keys_only_here().to_vec() {
            self.costs.push(match key.as_str() {
                "quorum.auth.secretFile" => format!(
                    "{key} is ferrokeeper's own: ZooKeeper's servers do not use it to \
                     authenticate each other"
                ),
                key if config::known_key(key).is_some_and(|known| {
                    known.property().is_some_and(|property| property == known.name)
                }) =>
                {
                    format!(
                        "{key} is in effect here, but ZooKeeper does not read it from \
                             zoo.cfg: set it with -D"
                    )
                }
                _ => format!("{key} is ferrokeeper's own, and ZooKeeper ignores it"),
            });
        }
        let is_set = |key: &str| {
            self.loaded.is_none_or(|its| its.keys_in_effect.iter().any(|one| one == key))
        };
        if !is_set("autopurge.purgeInterval") {
            self.costs.push(
                "autopurge.purgeInterval is not set: ZooKeeper never purges old snapshots and \
                 logs then"
                    .to_owned(),
            );
        }
    }

    fn for_scripts(&self, out: &mut Output) -> Result<(), CommandError> {
        let data = &self.data;
        let tree = data.database.tree();
        let ending = self.ending.iter().map(
            |(session, ephemerals)| json!({ "session": Hex(session.0), "ephemerals": ephemerals }),
        );
        let ephemerals_ending: usize = self.ending.iter().map(|(_, ephemerals)| ephemerals).sum();
        let notes = self.loaded.iter().flat_map(|loaded| &loaded.notes).map(note_for_scripts);
        out.json(&json!({
            "can_go_back": self.problems.is_empty(),
            "problems": self.problems,
            "costs": self.costs,
            "snapshot": data.examined.snapshot_file,
            "txns": data.examined.txns,
            "zxid": Hex(data.examined.last_zxid),
            "znodes": tree.count(),
            "ephemerals": tree.ephemerals_count(),
            "sessions": data.database.sessions().len(),
            "sessions_ending": ending.collect::<Vec<_>>(),
            "ephemerals_ending": ephemerals_ending,
            "ttl_znodes": self.ttl.len(),
            "longest_record": data.longest_record,
            "record_max": self.record_max(),
            "member": self.member.as_ref().map(|state| Hex::of_member(state.id)),
            "current_epoch": self.epochs[0],
            "accepted_epoch": self.epochs[1],
            "keys_only_here": self.keys_only_here(),
            "key_notes": notes.collect::<Vec<_>>(),
        }))
    }

    fn for_people(&self, out: &mut Output) -> Result<(), CommandError> {
        let data = &self.data;
        if let Some(file) = &data.examined.snapshot_file {
            out.line(format_args!("snapshot   {}", file.display()))?;
        }
        for (file, why) in &data.examined.passed_over {
            out.line(format_args!("           skipped {}: {why}", file.display()))?;
        }
        out.line(format_args!(
            "log        {} after it, the last {}",
            counted(data.examined.txns, "transaction"),
            Hex(data.examined.last_zxid)
        ))?;
        for line in contents(&data.database) {
            out.line(format_args!("{line}"))?;
        }
        let passwords = match (self.ending.len(), data.database.sessions().len()) {
            (0, 0) => {
                "no session is open; which passwords later sessions will get is not known here"
                    .to_owned()
            }
            (0, _) => "all open sessions have ZooKeeper's, and continue".to_owned(),
            (ending, all) => {
                format!("{ending} of {all} sessions have keyed passwords, and will end")
            }
        };
        out.line(format_args!("passwords  {passwords}"))?;
        if let Some(RaftState { id, members, .. }) = &self.member {
            out.line(format_args!(
                "member     {} of an ensemble of {}; what the others have is not known here: check \
                 each server",
                Hex::of_member(*id),
                counted(members.voters.len() as u64, "voter")
            ))?;
        }
        for cost in &self.costs {
            out.line(format_args!("COST       {cost}"))?;
        }
        for problem in &self.problems {
            out.line(format_args!("PROBLEM    {problem}"))?;
        }
        if !self.problems.is_empty() {
            return out.line(format_args!("ZooKeeper 3.9.5 would not start, or would lose znodes"));
        }
        let servers = self.config().and_then(|config| config.ensemble.as_ref());
        let (whom, checks) = match servers {
            Some(ensemble) => (
                format!("ferrokeeper on all {} servers", ensemble.list.servers.iter().len()),
                "check the other servers too, ",
            ),
            None => ("ferrokeeper".to_owned(), ""),
        };
        match self.loaded {
            Some(_) => out.line(format_args!(
                "to go back {checks}stop {whom} with SIGTERM, then start ZooKeeper 3.9.5 with the \
                 same {}",
                self.at.display()
            )),
            None => out.line(format_args!(
                "to go back stop {whom} with SIGTERM, then start ZooKeeper 3.9.5 on the directory"
            )),
        }
    }
}
