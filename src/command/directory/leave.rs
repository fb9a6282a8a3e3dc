//! `data leave`: a member's directory becomes one of no ensemble, and what that may lose is said
//! first.

use std::sync::Arc;

use serde_json::json;

use super::change::SafeChange;
use crate::command::Finding;
use crate::command::error::CommandError;
use crate::command::output::Output;
use crate::command::state::StartState;
use crate::command::words::{Hex, counted};
use crate::ensemble::is_bare_founding;
use crate::ensemble::standing::{has_begun, lacks_base};
use crate::message::MessageId;
use crate::storage::{EpochFile, MOVE_ASIDE, RaftState, RaftStateFile, whose};

/// What the other members may have done to entries that this one is not sure of is not known here.
pub(super) fn leave(change: &SafeChange, out: &mut Output) -> Result<Finding, CommandError> {
    let folders = change.place.folders()?;
    let directory = if change.dry_run { folders.look()? } else { folders.take()? };
    let Some(member) = RaftStateFile::look(&directory)? else {
        return Err(CommandError::Refused(
            MessageId::NO_MEMBER,
            "this directory does not belong to a member of an ensemble: it has no raft.state"
                .to_owned(),
        ));
    };
    let state = StartState::read_as_left(&directory, &folders)?;
    if let Some(error) = state.damage() {
        return Err(CommandError::Refused(
            error.id(),
            format!("a start would refuse the directory: {error}"),
        ));
    }
    let RaftState { id, ensemble, commit, own, ref members, .. } = member;
    let last_own = whose(&directory, &member)?.last;
    let (last, lacks_base) = (state.examined.last_zxid, lacks_base(&member, last_own));
    let disk = Arc::clone(directory.disk());
    let current = EpochFile::current(disk, directory.snapshots())?.get();
    let left = Left {
        has_begun: has_begun(&member),
        lacks_base,
        last,
        before: match is_bare_founding(&member, last, current) {
            true => Some(own),
            false => (lacks_base && last != 0).then_some((current.max(last >> 32), last)),
        },
    };
    let voters = members.voters.len();
    if !change.dry_run {
        RaftStateFile::leave(&directory)?;
    }
    if change.json {
        out.json(&json!({
            "done": !change.dry_run,
            "member": Hex::of_member(id),
            "ensemble": format!("{ensemble:016x}"),
            "voters": voters,
            "has_begun": left.has_begun,
            "lacks_base": lacks_base,
            "last_zxid": Hex(last),
            "final_index": commit,
        }))?;
        return Ok(Finding::Fine);
    }
    let verb = if change.dry_run { "would be" } else { "is" };
    out.line(format_args!(
        "the directory {verb} detached from its ensemble: it was member {id:#x} of \
         {ensemble:016x}, with {}",
        counted(voters as u64, "voter")
    ))?;
    if left.has_begun && !left.lacks_base {
        left.tell_data(out)?;
    } else {
        left.tell_nothing(out)?;
    }
    Ok(Finding::Fine)
}

/// What a member leaves with.
struct Left {
    /// Whether its ensemble did.
    has_begun: bool,
    /// Whether it has nothing of that ensemble.
    lacks_base: bool,
    last: i64,
    /// The epoch and the last zxid of the data that counts again.
    before: Option<(i64, i64)>,
}

impl Left {
    /// Of one that has nothing of its ensemble.
    fn tell_nothing(&self, out: &mut Output) -> Result<(), CommandError> {
        match self.has_begun {
            false => out.line(format_args!(
                "that ensemble has not begun: as far as this directory shows, it has \
                 acknowledged nothing to any client"
            ))?,
            true => out.line(format_args!(
                "it has nothing of that ensemble: if the ensemble acknowledged anything to a \
                 client, other members have it"
            ))?,
        }
        match self.before {
            Some((epoch, zxid)) => out.line(format_args!(
                "the data that it held before is used again, up to {} of epoch {epoch}",
                Hex(zxid)
            ))?,
            None => out.line(format_args!("it ends at {}", Hex(self.last)))?,
        }
        let others = match self.has_begun {
            false => "the other servers that belong to that ensemble",
            true => "the other servers that have nothing of that ensemble either",
        };
        out.line(format_args!(
            "run `ferrokeeper data leave` on {others} as well, and keep their data directories"
        ))
    }

    /// Of one that has data of its ensemble.
    fn tell_data(&self, out: &mut Output) -> Result<(), CommandError> {
        out.line(format_args!(
            "it ends at {}. If this directory is used from now on, later transactions of the other \
             members are lost, unless you run `data leave` on them, too",
            Hex(self.last)
        ))?;
        out.line(format_args!(
            "some of its last transactions may never have been acknowledged to any client: they \
             count as committed from now on"
        ))?;
        out.line(format_args!(
            "before you start any server, run `ferrokeeper data leave` on every other server \
             whose data you want considered: the newest copy wins"
        ))?;
        out.line(format_args!(
            "no other member of that ensemble may ever serve its data again: on all others, and \
             only there, {MOVE_ASIDE}"
        ))
    }
}
