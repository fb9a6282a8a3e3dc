//! `data seal`: the move to ferrokeeper is complete.

use serde_json::json;

use super::change::SafeChange;
use crate::command::Finding;
use crate::command::error::CommandError;
use crate::command::output::Output;
use crate::command::state::StartState;
use crate::command::words::{Hex, counted};
use crate::message::MessageId;
use crate::storage::files::seal;
use crate::storage::{self, RaftStateFile, SessionKey, SnapshotOrigin};

pub(super) fn seal(change: &SafeChange, out: &mut Output) -> Result<Finding, CommandError> {
    let &SafeChange { ref place, dry_run, json } = change;
    let folders = place.folders()?;
    let directory = if dry_run { folders.look()? } else { folders.take()? };
    let state = StartState::read(&directory, &folders)?;
    if let Some(error) = state.damage() {
        return Err(CommandError::Refused(error.id(), error.to_string()));
    }
    if !matches!(state.examined.snapshot.origin, SnapshotOrigin::Exact { .. }) {
        return Err(CommandError::Refused(
            MessageId::NOT_SERVED_YET,
            format!(
                "the newest snapshot in {} was not written by ferrokeeper, so ferrokeeper has not \
                 served this data yet; start and stop it on the directory, then seal",
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
        return Ok(Finding::Fine);
    }
    let would = if dry_run { "would be " } else { "is " };
    if !keeps {
        out.line(format_args!(
            "session.key {would}created: passwords of new sessions cannot be guessed; existing \
             passwords remain valid for {}",
            counted(sessions.len() as u64, "session")
        ))?;
        out.line(format_args!("going back to ZooKeeper ends the sessions opened from now on"))?;
    }
    let would = if dry_run { "would be" } else { "are" };
    out.line(format_args!("ZooKeeper's files up to {} {would} free to be purged", Hex(zxid)))?;
    Ok(Finding::Fine)
}
