//! `data check`, `truncate` and `seal`: a data directory as a whole. `data leave` has a file of its
//! own.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Verdict;
use super::error::CommandError;
use super::output::Output;
use super::place::Place;
use super::progress::Progress;
use super::state::{State, contents};
use super::words::{Hex, Instant, counted};
use crate::ensemble;
use crate::message::MessageId;
use crate::storage;
use crate::storage::files::seal;
use crate::storage::{
    Compression, CutPlan, LogEnd, Loss, Over, RaftState, RaftStateFile, SessionKey, SnapshotOrigin,
    StorageError, Then, Writer, whose,
};

/// Check a data directory, cut its log, or seal it.
#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Report what a start would find and what is wrong. Changes nothing; a server may be running.
    Check {
        #[command(flatten)]
        place: Place,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Cut the log after a zxid. The next start sees nothing after it; later files are moved aside.
    Truncate(Truncate),
    /// Complete the move to ferrokeeper: ZooKeeper's files may be purged, and new session passwords
    /// are derived from a key.
    Seal(Change),
    /// Detach a member's directory from its ensemble, so that it can start standalone or found
    /// another ensemble. Use it when the ensemble has lost its majority for good. Reports what is
    /// lost.
    Leave(Change),
    /// Write a snapshot of the empty tree, if no snapshot can be read and the logs hold every
    /// transaction from the first on.
    FirstSnapshot(Change),
}

/// A change that loses nothing.
#[derive(Debug, Args)]
pub struct Change {
    #[command(flatten)]
    pub(super) place: Place,
    /// Only report what would be done.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
}

/// Where the log is cut.
#[derive(Debug, Args)]
pub struct Truncate {
    #[command(flatten)]
    place: Place,
    /// The last transaction to keep, such as 0x50000000a.
    #[arg(long, value_name = "ZXID")]
    to_zxid: Hex,
    /// If there is no older snapshot, keep those transactions after the cut that ZooKeeper's
    /// snapshot contains.
    #[arg(long)]
    inexact: bool,
    /// Only report what would be lost.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &DataCommand, out: &mut Output) -> Result<Verdict, CommandError> {
    match command {
        DataCommand::Check { place, json } => check(place, *json, out),
        DataCommand::Truncate(truncate) => cut(truncate, out),
        DataCommand::Seal(change) => seal(change, out),
        DataCommand::Leave(change) => super::leave::leave(change, out),
        DataCommand::FirstSnapshot(change) => first_snapshot(change, out),
    }
}

fn check(place: &Place, json: bool, out: &mut Output) -> Result<Verdict, CommandError> {
    let folders = place.folders()?;
    let directory = folders.look()?;
    let state = match State::read(&directory, &folders) {
        Err(CommandError::Storage(error)) if !matches!(error, StorageError::Io { .. }) => {
            return refused(&error, json, out);
        }
        other => other?,
    };
    let writers = storage::writers(&directory)?;
    let disk = directory.disk().as_ref();
    let has_key = SessionKey::read(disk, directory.snapshots())?.is_some();
    let member = RaftStateFile::look(&directory)?;
    if member.as_ref().is_some_and(|state| state.over == Some(Over::OlderCopy)) {
        return refused(&StorageError::older_copy(&directory), json, out);
    }
    if let Some(state) = &member
        && let Err(error @ StorageError::EndUnreadable { .. }) = whose(&directory, state)
    {
        return refused(&error, json, out);
    }
    let sealed = seal::sealed_up_to(disk, directory.snapshots())?;
    let way_out = state.damage().and_then(StorageError::way_out);
    let verdict = if state.damage().is_some() { Verdict::Problems } else { Verdict::Fine };
    let examined = &state.examined;
    let by = |writer| writers.iter().filter(|(_, by)| *by == Some(writer)).count();
    if json {
        let passed_over: Vec<Value> = examined
            .passed_over
            .iter()
            .map(|(file, why)| json!({ "file": file, "reason": why }))
            .collect();
        let torn = match &examined.end {
            LogEnd::Torn { path, offset, bytes } => {
                json!({ "file": path, "offset": offset, "bytes": bytes })
            }
            _ => Value::Null,
        };
        out.json(&json!({
            "starts": state.damage().is_none(),
            "snapshot": examined.snapshot_file,
            "snapshot_zxid": Hex(examined.snapshot.zxid),
            "passed_over": passed_over,
            "txns": examined.txns,
            "last_zxid": Hex(examined.last_zxid),
            "last_time": examined.last_time.map(Instant),
            "znodes": state.database.tree().count(),
            "ephemerals": state.database.tree().ephemerals_count(),
            "sessions": state.database.sessions().len(),
            "digest": state.database.tree().digest().map(Hex),
            "torn": torn,
            "files_of_zookeeper": by(Writer::ZooKeeper),
            "files_of_ferrokeeper": by(Writer::Ferrokeeper),
            "session_key": has_key,
            "sealed": sealed.map(Hex),
            "member": member.as_ref().map(|state| state.id),
            "member_removed": member.as_ref().map(RaftState::is_removed),
            "id": state.damage().map(|error| error.id().to_string()),
            "damage": state.damage().map(ToString::to_string),
            "lost": way_out.map(|way_out| loss_for_scripts(&way_out.loss)),
            "command": way_out.map(|way_out| &way_out.command),
        }))?;
        return Ok(verdict);
    }
    match &examined.snapshot_file {
        Some(file) => out.line(format_args!("snapshot   {}", file.display()))?,
        None => out.line(format_args!("snapshot   none: the directory is empty"))?,
    }
    for (file, why) in &examined.passed_over {
        out.line(format_args!("           skipped {}: {why}", file.display()))?;
    }
    let behind = counted(examined.txns, "transaction");
    let last = examined.last_time.map(|time| format!(", of {}", Instant(time))).unwrap_or_default();
    out.line(format_args!(
        "log        {behind} after it, the last {}{last}",
        Hex(examined.last_zxid)
    ))?;
    if let LogEnd::Torn { path, offset, bytes } = &examined.end {
        out.line(format_args!(
            "torn end   {bytes} bytes at offset {offset} of {}: never acknowledged; a start cuts them off",
            path.display()
        ))?;
    }
    for line in contents(&state.database) {
        out.line(format_args!("{line}"))?;
    }
    out.line(format_args!(
        "written    {} by ZooKeeper, {} by ferrokeeper",
        counted(by(Writer::ZooKeeper) as u64, "file"),
        counted(by(Writer::Ferrokeeper) as u64, "file")
    ))?;
    let passwords = if has_key { "derived from a key (session.key)" } else { "ZooKeeper's" };
    out.line(format_args!("passwords  {passwords}"))?;
    if let Some(state) = &member {
        let voters = counted(state.members.voters.len() as u64, "voter");
        out.line(format_args!(
            "member     {} of an ensemble of {voters}; a standalone start is refused",
            state.id
        ))?;
        if state.is_removed() {
            out.line(format_args!(
                "           it was taken out of the ensemble: a start asks for another seat, and what is here is moved aside then"
            ))?;
        } else if state.clears {
            let until = match state.base {
                0 => "a start moves it aside",
                _ => "it is moved aside once the ensemble's data has arrived",
            };
            out.line(format_args!("           what is here is from before it joined: {until}"))?;
        }
    }
    if let Some(zxid) = sealed {
        out.line(format_args!("sealed     ZooKeeper's files up to {} may be purged", Hex(zxid)))?;
    }
    match state.damage() {
        None => out.line(format_args!("a server would start"))?,
        Some(error) => tell_refusal(error, out)?,
    }
    Ok(verdict)
}

fn refused(error: &StorageError, json: bool, out: &mut Output) -> Result<Verdict, CommandError> {
    if json {
        let way_out = error.way_out();
        out.json(&json!({
            "starts": false,
            "id": error.id().to_string(),
            "damage": error.to_string(),
            "lost": way_out.map(|way_out| loss_for_scripts(&way_out.loss)),
            "command": way_out.map(|way_out| &way_out.command),
        }))?;
    } else {
        tell_refusal(error, out)?;
    }
    Ok(Verdict::Problems)
}

fn tell_refusal(error: &StorageError, out: &mut Output) -> Result<(), CommandError> {
    out.line(format_args!("A START WOULD BE REFUSED: [{}] {error}", error.id()))?;
    if let Some(way_out) = error.way_out() {
        out.line(format_args!("this would start: {}", way_out.command))?;
        let lost = loss_for_people(&way_out.loss);
        match way_out.then {
            Then::Works => out.line(format_args!("and would lose: {lost}"))?,
            Then::FromOlder => out.line(format_args!(
                "and would lose: only what the snapshots that it moves aside have from another log"
            ))?,
            Then::BeginsAnew => out.line(format_args!("and would lose: all znodes, {lost}"))?,
            Then::AsksOthers => out.line(format_args!(
                "the server would then load everything from the other members; run it only while a majority of them is running"
            ))?,
        }
    }
    Ok(())
}

fn loss_for_scripts(loss: &Loss) -> Value {
    json!({
        "txns": loss.txns,
        "first_zxid": loss.first.map(|(zxid, _)| Hex(zxid)),
        "first_time": loss.first.map(|(_, time)| Instant(time)),
        "last_zxid": loss.last.map(|(zxid, _)| Hex(zxid)),
        "last_time": loss.last.map(|(_, time)| Instant(time)),
        "unreadable_bytes": loss.unreadable_bytes,
    })
}

fn loss_for_people(loss: &Loss) -> String {
    let mut text = counted(loss.txns, "readable transaction");
    if let (Some((first, begin)), Some((last, end))) = (loss.first, loss.last) {
        text.push_str(&format!(
            ", {} of {} to {} of {}",
            Hex(first),
            Instant(begin),
            Hex(last),
            Instant(end)
        ));
    }
    if loss.unreadable_bytes > 0 {
        let bytes = counted(loss.unreadable_bytes, "byte");
        text.push_str(&format!(", and {bytes} that cannot be read"));
    }
    text
}

fn cut(truncate: &Truncate, out: &mut Output) -> Result<Verdict, CommandError> {
    let folders = truncate.place.folders()?;
    let directory = if truncate.dry_run { folders.look()? } else { folders.take()? };
    let zxid = truncate.to_zxid.0;
    let progress = Progress::waiting("reading the data directory");
    let mut rebuild = folders.rebuild(&directory)?;
    let plan = match storage::plan_cut(&directory, zxid, truncate.inexact, &mut rebuild) {
        Err(StorageError::NoSnapshotUpTo { reason: Some(reason), .. }) if !truncate.inexact => {
            return Err(CommandError::Refused(
                MessageId::CUT_INSIDE_SNAPSHOT,
                format!(
                    "the only snapshots there are contain some of the transactions to be cut off ({reason}); --inexact cuts anyway and keeps those"
                ),
            ));
        }
        other => other?,
    };
    drop(progress);
    let aside = format!("cut-after-{}-{}", truncate.to_zxid, stamp());
    let state = rebuild.finish();
    if !truncate.dry_run && !plan.is_empty() {
        plan.carry_out(&directory, &aside)?;
    }
    let beside = |folder: &std::path::Path| folder.with_file_name(&aside);
    let moved: Vec<&PathBuf> = plan.snapshots.iter().chain(&plan.logs).collect();
    if truncate.json {
        out.json(&json!({
            "done": !truncate.dry_run,
            "last_zxid": Hex(plan.kept.last_zxid),
            "znodes": state.tree().count(),
            "sessions": state.sessions().len(),
            "digest": state.tree().digest().map(Hex),
            "cut": plan.cut.as_ref().map(|(file, offset)| json!({ "file": file, "offset": offset })),
            "inexact_up_to": plan.kept.inexact_up_to.map(Hex),
            "moved": moved,
            "aside": [beside(directory.snapshots()), beside(directory.logs())],
            "lost": loss_for_scripts(&plan.loss),
        }))?;
        return Ok(Verdict::Fine);
    }
    tell_cut(&plan, truncate.dry_run, &beside(directory.logs()), out)?;
    out.line(format_args!("state      {}", Hex(plan.kept.last_zxid)))?;
    if let Some(zxid) = plan.kept.inexact_up_to {
        out.line(format_args!(
            "inexact    the snapshot still has some of the transactions that are cut off, up to {}",
            Hex(zxid)
        ))?;
    }
    for line in contents(&state) {
        out.line(format_args!("{line}"))?;
    }
    Ok(Verdict::Fine)
}

fn tell_cut(
    plan: &CutPlan,
    dry_run: bool,
    aside: &std::path::Path,
    out: &mut Output,
) -> Result<(), CommandError> {
    let would = if dry_run { "would be " } else { "" };
    if plan.is_empty() {
        return out.line(format_args!("nothing follows that zxid; nothing {would}changed"));
    }
    if let Some((file, offset)) = &plan.cut {
        out.line(format_args!("{would}cut        {} at offset {offset}", file.display()))?;
    }
    for file in plan.snapshots.iter().chain(&plan.logs) {
        out.line(format_args!("{would}moved      {} to {}", file.display(), aside.display()))?;
    }
    out.line(format_args!("{would}lost       {}", loss_for_people(&plan.loss)))
}

/// The second, for the name of a folder.
pub(super) fn stamp() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    Instant(ms).to_string().replace([':', '-'], "").replace('.', "")
}

fn first_snapshot(change: &Change, out: &mut Output) -> Result<Verdict, CommandError> {
    let &Change { ref place, dry_run, json } = change;
    let folders = place.folders()?;
    let directory = if dry_run { folders.look()? } else { folders.take()? };
    match storage::examine(&directory, false, i64::MAX, &mut folders.rebuild(&directory)?) {
        Err(StorageError::NoReadableSnapshot { .. } | StorageError::LogWithoutSnapshot { .. }) => {}
        other => {
            other?;
            return Err(CommandError::Refused(
                MessageId::SNAPSHOT_IS_THERE,
                "there is a readable snapshot; there is nothing to do".to_owned(),
            ));
        }
    }
    if !storage::logs_reach_back(&directory)? {
        return Err(CommandError::Refused(
            MessageId::LOGS_DO_NOT_REACH_BACK,
            format!(
                "the logs in {} do not begin with the first transaction; restore a snapshot from a backup",
                directory.logs().display()
            ),
        ));
    }
    let aside = format!("unreadable-{}", stamp());
    let mut moved = Vec::new();
    if !dry_run {
        moved = storage::move_snapshots_aside(&directory, &aside)?;
        ensemble::first_snapshot(
            &directory,
            &mut folders.rebuild(&directory)?.finish(),
            Compression::None,
        )?;
    }
    let aside = directory.snapshots().with_file_name(&aside);
    if json {
        out.json(&json!({ "done": !dry_run, "moved": moved, "aside": aside }))?;
        return Ok(Verdict::Fine);
    }
    for file in &moved {
        out.line(format_args!("moved      {} to {}", file.display(), aside.display()))?;
    }
    let would = if dry_run { "would be " } else { "" };
    let folder = directory.snapshots().display();
    out.line(format_args!("{would}written    {folder}/snapshot.0, the empty tree"))?;
    Ok(Verdict::Fine)
}

fn seal(change: &Change, out: &mut Output) -> Result<Verdict, CommandError> {
    let &Change { ref place, dry_run, json } = change;
    let folders = place.folders()?;
    let directory = if dry_run { folders.look()? } else { folders.take()? };
    let state = State::read(&directory, &folders)?;
    if let Some(error) = state.damage() {
        return Err(CommandError::Refused(error.id(), error.to_string()));
    }
    if !matches!(state.examined.snapshot.origin, SnapshotOrigin::Exact { .. }) {
        return Err(CommandError::Refused(
            MessageId::NOT_SERVED_YET,
            format!(
                "the newest snapshot in {} was not written by ferrokeeper, so ferrokeeper has not served this data yet; start and stop it on the directory, then seal",
                directory.snapshots().display()
            ),
        ));
    }
    let (disk, folder) = (directory.disk().as_ref(), directory.snapshots());
    // A member has the key of its ensemble, or none as all the others.
    let keeps =
        SessionKey::read(disk, folder)?.is_some() || RaftStateFile::look(&directory)?.is_some();
    let zxid = state.examined.last_zxid;
    let sessions = state.database.sessions();
    if !dry_run {
        if !keeps {
            let mut bytes = [0; SessionKey::LEN];
            getrandom::fill(&mut bytes).map_err(|error| {
                CommandError::Refused(
                    MessageId::NO_RANDOM_BYTES_FOR_KEY,
                    format!("cannot get random bytes from the system: {error}"),
                )
            })?;
            // The sessions first: with the key alone, theirs would be passwords of nobody.
            let ids: Vec<i64> = sessions.keys().map(|session| session.0).collect();
            storage::write_sessions_before_key(disk, folder, &ids)?;
            SessionKey::create(disk, folder, bytes)?;
        }
        seal::write(disk, folder, zxid)?;
    }
    if json {
        out.json(&json!({
            "done": !dry_run,
            "sealed": Hex(zxid),
            "key_made": !keeps,
            "sessions_before_key": if keeps { 0 } else { sessions.len() },
        }))?;
        return Ok(Verdict::Fine);
    }
    let would = if dry_run { "would be " } else { "is " };
    if !keeps {
        out.line(format_args!(
            "session.key {would}created: passwords of new sessions cannot be guessed; existing passwords remain valid for {}",
            counted(sessions.len() as u64, "session")
        ))?;
        out.line(format_args!("going back to ZooKeeper ends the sessions opened from now on"))?;
    }
    let would = if dry_run { "would be" } else { "are" };
    out.line(format_args!("ZooKeeper's files up to {} {would} free to be purged", Hex(zxid)))?;
    Ok(Verdict::Fine)
}
