//! `data check`: what a start would find in a directory, and what is wrong.

use serde_json::{Value, json};

use super::loss;
use crate::command::Finding;
use crate::command::error::CommandError;
use crate::command::output::Output;
use crate::command::place::Place;
use crate::command::state::{StartState, contents};
use crate::command::words::{Hex, Instant, counted};
use crate::storage::files::seal;
use crate::storage::{
    self, LogEnd, Over, RaftState, RaftStateFile, SessionKey, StorageError, Then, Writer, whose,
};

/// What there is to be told of a directory.
struct Report {
    state: StartState,
    /// Files that ZooKeeper and this server have written.
    written: [usize; 2],
    has_key: bool,
    member: Option<RaftState>,
    sealed: Option<i64>,
}

pub(super) fn check(place: &Place, json: bool, out: &mut Output) -> Result<Finding, CommandError> {
    let folders = place.folders()?;
    let directory = folders.look()?;
    let state = match StartState::read(&directory, &folders) {
        Err(CommandError::Storage(error)) if !matches!(error, StorageError::Io { .. }) => {
            return refused(&error, json, out);
        }
        other => other?,
    };
    let writers = storage::writers(&directory)?;
    let by = |writer| writers.iter().filter(|(_, by)| *by == Some(writer)).count();
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
    let written = [Writer::ZooKeeper, Writer::Ferrokeeper].map(by);
    let report = Report { state, written, has_key, member, sealed };
    match json {
        true => report.for_scripts(out)?,
        false => report.for_people(out)?,
    }
    Ok(if report.state.damage().is_some() { Finding::Problems } else { Finding::Fine })
}

impl Report {
    fn for_scripts(&self, out: &mut Output) -> Result<(), CommandError> {
        let Self { state, written, has_key, member, sealed } = self;
        let examined = &state.examined;
        let way_out = state.damage().and_then(StorageError::way_out);
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
            "files_of_zookeeper": written[0],
            "files_of_ferrokeeper": written[1],
            "session_key": has_key,
            "sealed": sealed.map(Hex),
            "member": member.as_ref().map(|state| Hex::of_member(state.id)),
            "member_removed": member.as_ref().map(RaftState::is_removed),
            "id": state.damage().map(|error| error.id().to_string()),
            "damage": state.damage().map(ToString::to_string),
            "lost": way_out.map(|way_out| loss::for_scripts(&way_out.loss)),
            "command": way_out.map(|way_out| &way_out.command),
        }))
    }

    fn for_people(&self, out: &mut Output) -> Result<(), CommandError> {
        self.tell_data(out)?;
        out.line(format_args!(
            "written    {} by ZooKeeper, {} by ferrokeeper",
            counted(self.written[0] as u64, "file"),
            counted(self.written[1] as u64, "file")
        ))?;
        let passwords =
            if self.has_key { "derived from a key (session.key)" } else { "ZooKeeper's" };
        out.line(format_args!("passwords  {passwords}"))?;
        if let Some(member) = &self.member {
            tell_member(member, out)?;
        }
        if let Some(zxid) = self.sealed {
            out.line(format_args!(
                "sealed     ZooKeeper's files up to {} may be purged",
                Hex(zxid)
            ))?;
        }
        match self.state.damage() {
            None => out.line(format_args!("a server would start")),
            Some(error) => tell_refusal(error, out),
        }
    }

    /// The snapshot, the log behind it, and what they come to.
    fn tell_data(&self, out: &mut Output) -> Result<(), CommandError> {
        let examined = &self.state.examined;
        match &examined.snapshot_file {
            Some(file) => out.line(format_args!("snapshot   {}", file.display()))?,
            None => out.line(format_args!("snapshot   none: the directory is empty"))?,
        }
        for (file, why) in &examined.passed_over {
            out.line(format_args!("           skipped {}: {why}", file.display()))?;
        }
        let behind = counted(examined.txns, "transaction");
        let last =
            examined.last_time.map(|time| format!(", of {}", Instant(time))).unwrap_or_default();
        out.line(format_args!(
            "log        {behind} after it, the last {}{last}",
            Hex(examined.last_zxid)
        ))?;
        if let LogEnd::Torn { path, offset, bytes } = &examined.end {
            out.line(format_args!(
                "torn end   {bytes} bytes at offset {offset} of {}: never acknowledged; a start \
                 cuts them off",
                path.display()
            ))?;
        }
        for line in contents(&self.state.database) {
            out.line(format_args!("{line}"))?;
        }
        Ok(())
    }
}

fn tell_member(state: &RaftState, out: &mut Output) -> Result<(), CommandError> {
    let voters = counted(state.members.voters.len() as u64, "voter");
    out.line(format_args!(
        "member     {} of an ensemble of {voters}; a standalone start is refused",
        Hex::of_member(state.id)
    ))?;
    if state.is_removed() {
        out.line(format_args!(
            "           this server was removed from the ensemble: when you start it, it asks to \
             join again, and this data is then moved aside"
        ))?;
    } else if state.clears {
        let until = match state.base {
            0 => "a start moves it aside",
            _ => "it is moved aside once the ensemble's data has arrived",
        };
        out.line(format_args!("           what is here is from before it joined: {until}"))?;
    }
    Ok(())
}

fn refused(error: &StorageError, json: bool, out: &mut Output) -> Result<Finding, CommandError> {
    if json {
        let way_out = error.way_out();
        out.json(&json!({
            "starts": false,
            "id": error.id().to_string(),
            "damage": error.to_string(),
            "lost": way_out.map(|way_out| loss::for_scripts(&way_out.loss)),
            "command": way_out.map(|way_out| &way_out.command),
        }))?;
    } else {
        tell_refusal(error, out)?;
    }
    Ok(Finding::Problems)
}

fn tell_refusal(error: &StorageError, out: &mut Output) -> Result<(), CommandError> {
    out.line(format_args!("A START WOULD BE REFUSED: [{}] {error}", error.id()))?;
    if let Some(way_out) = error.way_out() {
        out.line(format_args!("this would start: {}", way_out.command))?;
        let lost = loss::for_people(&way_out.loss);
        match way_out.then {
            Then::Works => out.line(format_args!("and would lose: {lost}"))?,
            Then::FromOlder => out.line(format_args!(
                "and would lose only the transactions from another log that are in the snapshots \
                 that it moves aside"
            ))?,
            Then::BeginsAnew => out.line(format_args!("and would lose: all znodes, {lost}"))?,
            Then::AsksOthers => out.line(format_args!(
                "the server would then load everything from the other members; run it only while \
                 a majority of them is running"
            ))?,
        }
    }
    Ok(())
}
