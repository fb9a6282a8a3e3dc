//! `data first-snapshot`: the empty tree, where the logs reach back to it.

use serde_json::json;

use super::change::SafeChange;
use crate::command::Finding;
use crate::command::error::CommandError;
use crate::command::output::Output;
use crate::command::words::stamp;
use crate::ensemble;
use crate::message::MessageId;
use crate::storage::{self, Compression, StorageError};

pub(super) fn first_snapshot(
    change: &SafeChange,
    out: &mut Output,
) -> Result<Finding, CommandError> {
    let &SafeChange { ref place, dry_run, json } = change;
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
                "the logs in {} do not begin with the first transaction; restore a snapshot from \
                 a backup",
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
        return Ok(Finding::Fine);
    }
    for file in &moved {
        out.line(format_args!("moved      {} to {}", file.display(), aside.display()))?;
    }
    let would = if dry_run { "would be " } else { "" };
    let folder = directory.snapshots().display();
    out.line(format_args!("{would}written    {folder}/snapshot.0, the empty tree"))?;
    Ok(Finding::Fine)
}
