//! `snapshot verify`: whether a file is a whole snapshot, and of what.

use std::collections::HashSet;
use std::path::Path;

use jute::Acl;
use jute::persist::SnapshotNode;
use serde_json::json;

use super::{Counts, Visit, digest_for_people, is_exact, name_zxid, read, writer};
use crate::command::Finding;
use crate::command::error::CommandError;
use crate::command::output::Output;
use crate::command::progress::Progress;
use crate::command::words::{Hex, Plain, counted};
use crate::message::MessageId;
use crate::storage::{Loaded, StorageError};

pub(super) fn verify(file: &Path, json: bool, out: &mut Output) -> Result<Finding, CommandError> {
    let progress = Progress::waiting("reading");
    let read = read(file, true, &mut Verify::default());
    drop(progress);
    match read {
        Ok((loaded, counts)) => {
            let named = name_zxid(file);
            // A start goes by the name only where it looks for snapshots.
            let judged = named.filter(|_| is_in_data_directory(file));
            let misfits = misfits(judged, &loaded, &counts);
            if misfits.is_empty() {
                return valid(file, named, &loaded, &counts, json, out);
            }
            invalid(file, MessageId::SNAPSHOT_MISNAMED, &misfits.join("; "), json, out)
        }
        Err(CommandError::Storage(error)) if !matches!(error, StorageError::Io { .. }) => {
            invalid(file, error.id(), &error.to_string(), json, out)
        }
        Err(CommandError::Refused(id, reason)) => invalid(file, id, &reason, json, out),
        Err(error) => Err(error),
    }
}

/// Whether a start could find the file where it is.
fn is_in_data_directory(file: &Path) -> bool {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    file.parent().is_some_and(|folder| folder.ends_with("version-2"))
}

/// What of the file says another zxid than its name, or where it has none, than its end.
fn misfits(named: Option<i64>, loaded: &Loaded, counts: &Counts) -> Vec<String> {
    let Some(zxid) = named.or(loaded.stated) else { return Vec::new() };
    let whose = if named.is_some() { "name" } else { "last zxid" };
    let is_exact = is_exact(&loaded.id);
    let mut found = Vec::new();
    let mut expect = |fits: bool, what: &str, it: i64| {
        if !fits {
            found.push(format!("its {whose} is {}, but {what} {}", Hex(zxid), Hex(it)));
        }
    };
    if let Some(stated) = loaded.stated {
        // ZooKeeper's goes on while the file is written.
        let fits = if is_exact { stated == zxid } else { stated >= zxid };
        expect(fits, "its last zxid is", stated);
    }
    if let Some(digest) = counts.digest_zxid.filter(|_| is_exact) {
        expect(digest == zxid, "its digest is of", digest);
    }
    // Its znodes tell nothing: where a log ended inside a snapshot of ZooKeeper's, ours shows more
    // than its last zxid as well.
    found
}

fn valid(
    file: &Path,
    named: Option<i64>,
    loaded: &Loaded,
    counts: &Counts,
    json: bool,
    out: &mut Output,
) -> Result<Finding, CommandError> {
    let id = &loaded.id;
    let remarks = misfits(named, loaded, counts);
    // What came over HTTP has no name yet, or one that says nothing.
    let named = named.filter(|_| remarks.is_empty());
    let zxid = named.or(loaded.stated).unwrap_or(loaded.newest);
    // One of ZooKeeper holds transactions from its zxid up to this one, in part.
    let holds_up_to = match is_exact(id) {
        true => zxid,
        false => loaded.newest.max(loaded.stated.unwrap_or(0)).max(zxid),
    };
    if json {
        out.json(&json!({
            "file": file, "valid": true, "zxid": Hex(zxid), "writer": writer(id),
            "znodes": counts.znodes, "sessions": counts.sessions,
            "ephemerals": counts.ephemerals,
            "data_bytes": counts.data_bytes,
            "digest": counts.digest.map(Hex), "sum": Hex(counts.sum),
            "holds_up_to": Hex(holds_up_to),
            "remarks": remarks,
        }))?;
        return Ok(Finding::Fine);
    }
    out.line(format_args!(
        "{}: valid, {}, written by {}, {} ({} ephemeral), {} of data, {}",
        file.display(),
        Hex(zxid),
        writer(id),
        counted(counts.znodes, "znode"),
        counts.ephemerals,
        counted(counts.data_bytes, "byte"),
        counted(counts.sessions, "session"),
    ))?;
    out.line(format_args!("  {}", digest_for_people(id, counts)))?;
    for remark in remarks {
        out.line(format_args!("  remark: {remark}; in a data directory it needs the right name"))?;
    }
    if holds_up_to > zxid {
        out.line(format_args!(
            "  note: written while transactions went on; it contains some of them, up to {}",
            Hex(holds_up_to)
        ))?;
    }
    Ok(Finding::Fine)
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
