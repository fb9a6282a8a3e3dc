//! `data leave`: a member's directory becomes one of no ensemble, and what that may lose is said first.

use serde_json::json;

use super::Verdict;
use super::data::Change;
use super::error::CommandError;
use super::output::Output;
use super::state::State;
use super::words::{Hex, counted};
use crate::message::MessageId;
use crate::storage::{RaftState, RaftStateFile};

/// What the other members may have done to entries that this one is not sure of is not known here.
pub(super) fn leave(change: &Change, out: &mut Output) -> Result<Verdict, CommandError> {
    let folders = change.place.folders()?;
    let directory = if change.dry_run { folders.look()? } else { folders.take()? };
    let Some(member) = RaftStateFile::look(&directory)? else {
        return Err(CommandError::Refused(
            MessageId::NO_MEMBER,
            "this directory does not belong to a member of an ensemble: it has no raft.state"
                .to_owned(),
        ));
    };
    let state = State::read_as_left(&directory, &folders)?;
    if let Some(error) = state.damage() {
        return Err(CommandError::Refused(
            error.id(),
            format!("a start would refuse the directory: {error}"),
        ));
    }
    let RaftState { id, ensemble, commit, ref members, .. } = member;
    let voters = members.voters.len();
    let last = state.examined.last_zxid;
    if !change.dry_run {
        RaftStateFile::leave(&directory)?;
    }
    if change.json {
        out.json(&json!({
            "done": !change.dry_run,
            "member": format!("{id:#x}"),
            "ensemble": format!("{ensemble:016x}"),
            "voters": voters,
            "last_zxid": Hex(last),
            "final_index": commit,
        }))?;
        return Ok(Verdict::Fine);
    }
    let verb = if change.dry_run { "would be" } else { "is" };
    out.line(format_args!(
        "the directory {verb} detached from its ensemble: it was member {id:#x} of {ensemble:016x}, with {}",
        counted(voters as u64, "voter")
    ))?;
    out.line(format_args!(
        "it ends at {}. If this directory is used from now on, what the other members have after that is lost",
        Hex(last)
    ))?;
    out.line(format_args!(
        "some of its last transactions may never have been acknowledged to any client: they count as committed from now on"
    ))?;
    out.line(format_args!(
        "no other member of that ensemble may ever serve its data again: give each an empty data directory"
    ))?;
    Ok(Verdict::Fine)
}
