//! `data truncate`: the log ends at a zxid, and what follows is moved aside.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::loss;
use crate::command::Finding;
use crate::command::error::CommandError;
use crate::command::output::Output;
use crate::command::place::Place;
use crate::command::progress::Progress;
use crate::command::state::contents;
use crate::command::words::{Hex, stamp};
use crate::message::MessageId;
use crate::storage::{self, CutPlan, StorageError};

/// Where the log is cut.
#[derive(Debug, Args)]
pub struct Truncate {
    #[command(flatten)]
    place: Place,
    /// The last transaction to keep, such as 0x50000000a.
    #[arg(long, value_name = "ZXID")]
    to_zxid: Hex,
    /// If there is no snapshot from before the cut, use one of ZooKeeper's that contains
    /// transactions from after the cut, and keep those.
    #[arg(long)]
    inexact: bool,
    /// Only report what would be lost.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn cut(truncate: &Truncate, out: &mut Output) -> Result<Finding, CommandError> {
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
                    "the only snapshots there are contain some of the transactions to be cut off \
                     ({reason}); --inexact cuts anyway and keeps those"
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
    let beside = |folder: &Path| folder.with_file_name(&aside);
    let moved: Vec<&PathBuf> = plan.snapshots.iter().chain(&plan.logs).collect();
    if truncate.json {
        let cut = plan.cut.as_ref();
        let cut = cut.map(|(file, offset)| json!({ "file": file, "offset": offset }));
        out.json(&json!({
            "done": !truncate.dry_run,
            "last_zxid": Hex(plan.kept.last_zxid),
            "znodes": state.tree().count(),
            "sessions": state.sessions().len(),
            "digest": state.tree().digest().map(Hex),
            "cut": cut,
            "inexact_up_to": plan.kept.inexact_up_to.map(Hex),
            "moved": moved,
            "aside": [beside(directory.snapshots()), beside(directory.logs())],
            "lost": loss::for_scripts(&plan.loss),
        }))?;
        return Ok(Finding::Fine);
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
    Ok(Finding::Fine)
}

fn tell_cut(
    plan: &CutPlan,
    dry_run: bool,
    aside: &Path,
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
    out.line(format_args!("{would}lost       {}", loss::for_people(&plan.loss)))
}
