//! `snapshot verify`: whether a file is a whole snapshot, and of what.

use std::collections::HashSet;
use std::path::Path;

use jute::Acl;
use jute::persist::SnapshotNode;
use serde_json::json;

use super::{Visit, digest_for_people, read, writer};
use crate::command::Finding;
use crate::command::error::CommandError;
use crate::command::output::Output;
use crate::command::progress::Progress;
use crate::command::words::{Hex, Plain, counted};
use crate::message::MessageId;
use crate::storage::{SnapshotOrigin, StorageError};

pub(super) fn verify(file: &Path, json: bool, out: &mut Output) -> Result<Finding, CommandError> {
    let progress = Progress::waiting("reading");
    let read = read(file, true, &mut Verify::default());
    drop(progress);
    match read {
        Ok((id, counts)) => {
            // One of ZooKeeper holds transactions from its zxid up to this one, in part.
            let fuzzy = (id.origin == SnapshotOrigin::Java)
                .then(|| counts.newest.max(counts.digest_zxid.unwrap_or(0)).max(id.zxid));
            if json {
                out.json(&json!({
                    "file": file, "valid": true, "zxid": Hex(id.zxid), "writer": writer(&id),
                    "znodes": counts.znodes, "sessions": counts.sessions,
                    "ephemerals": counts.ephemerals,
                    "data_bytes": counts.data_bytes,
                    "digest": counts.digest.map(Hex), "sum": Hex(counts.sum),
                    "holds_up_to": Hex(fuzzy.unwrap_or(id.zxid)),
                }))?;
                return Ok(Finding::Fine);
            }
            out.line(format_args!(
                "{}: valid, {}, written by {}, {} ({} ephemeral), {} of data, {}",
                file.display(),
                Hex(id.zxid),
                writer(&id),
                counted(counts.znodes, "znode"),
                counts.ephemerals,
                counted(counts.data_bytes, "byte"),
                counted(counts.sessions, "session"),
            ))?;
            out.line(format_args!("  {}", digest_for_people(&id, &counts)))?;
            if let Some(newest) = fuzzy.filter(|newest| *newest > id.zxid) {
                out.line(format_args!(
                    "  note: written while transactions went on; it contains some of them, up to \
                     {}",
                    Hex(newest)
                ))?;
            }
            Ok(Finding::Fine)
        }
        Err(CommandError::Storage(error)) if !matches!(error, StorageError::Io { .. }) => {
            invalid(file, error.id(), &error.to_string(), json, out)
        }
        Err(CommandError::Refused(id, reason)) => invalid(file, id, &reason, json, out),
        Err(error) => Err(error),
    }
}

fn invalid(
    file: &Path,
    id: MessageId,
    reason: &str,
    json: bool,
    out: &mut Output,
) -> Result<Finding, CommandError> {
    if json {
        out.json(
            &json!({ "file": file, "valid": false, "id": id.to_string(), "problem": reason }),
        )?;
    } else {
        out.line(format_args!("{}: NOT VALID: [{id}] {reason}", file.display()))?;
    }
    Ok(Finding::Problems)
}

/// The parents, by which the znodes must make a tree.
#[derive(Default)]
struct Verify {
    known: HashSet<Box<str>>,
}

impl Visit for Verify {
    fn node(
        &mut self,
        path: &str,
        _node: &SnapshotNode<'_>,
        _acl: &[Acl<'_>],
    ) -> Result<(), CommandError> {
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let parent = if parent.is_empty() { "/" } else { parent };
        if path != "/" && !self.known.contains(parent) {
            return Err(CommandError::Refused(
                MessageId::SNAPSHOT_NO_TREE,
                format!(
                    "{} appears before its parent, so the znodes do not form a tree",
                    Plain(path)
                ),
            ));
        }
        if !self.known.insert(path.into()) {
            return Err(CommandError::Refused(
                MessageId::SNAPSHOT_NO_TREE,
                format!("{} appears twice", Plain(path)),
            ));
        }
        Ok(())
    }
}
