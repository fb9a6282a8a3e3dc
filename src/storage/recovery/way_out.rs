//! The one command after which a start works again, for each refusal that gives up data, and what
//! that loses.
//!
//! Only asked for when a start is refused: what it reads, it reads once more.

use std::path::Path;

use super::examine::has_snapshot_for;
use super::load_snapshot;
use super::log_scan::can_follow;
use super::loss;
use crate::storage::error::{During, Loss, StorageError, Then, WayOut};
use crate::storage::files::directory::{DataDirectory, quoted};
use crate::storage::files::file_name;
use crate::storage::files::file_name::FileName;
use crate::storage::log::logged;
use crate::storage::log::record::zxid_of_payload;
use crate::storage::log::segment_reader::{SegmentOrigin, SegmentReader};
use crate::storage::log::segments::readable_segments;
use crate::storage::log::unsynced::is_unsynced;
use crate::storage::replay::{Nothing, SnapshotId, SnapshotOrigin};
use crate::storage::snapshot::reader::{self, Loaded};

/// What a server keeps beside its snapshots; not before its first one.
const KEPT: [&str; 4] =
    [file_name::SESSION_KEY, file_name::SESSIONS_BEFORE_KEY, file_name::SEALED, file_name::LOGGED];

/// What to do about an unreadable place in a log: to cut there, after `last_good`. `None` if what
/// that loses cannot be told.
pub(crate) fn of_damage(
    directory: &DataDirectory,
    snapshot: SnapshotId,
    path: &Path,
    offset: u64,
    last_good: i64,
) -> Option<Box<WayOut>> {
    if is_member(directory).ok()? {
        return Some(Box::new(giving_up(directory, Loss::default())));
    }
    let name = path.file_name().and_then(|name| name.to_str()).map(FileName::parse);
    let Some(FileName::Log(zxid)) = name else { return None };
    let loss = loss::behind(directory, zxid, offset, last_good).ok()?;
    let mut command = directory.truncate_command(last_good);
    // Only ZooKeeper's snapshots hold some of what is cut off.
    if snapshot.origin == SnapshotOrigin::Java && !has_snapshot_for(directory, last_good).ok()? {
        command.push_str(" --inexact");
    }
    Some(Box::new(WayOut { command, loss, then: Then::Works }))
}

/// What to do without a readable snapshot: to begin where the logs begin, if that is the beginning,
/// else anew. `None` where the folder of snapshots is not the one that belongs to the logs.
pub(crate) fn of_no_snapshot(directory: &DataDirectory) -> Option<Box<WayOut>> {
    if is_member(directory).ok()? {
        return Some(Box::new(giving_up(directory, Loss::default())));
    }
    if is_of_others(directory).ok()? {
        return None;
    }
    if logs_reach_back(directory).ok()? {
        let command = directory.tool_command("data first-snapshot");
        return Some(Box::new(WayOut { command, ..WayOut::default() }));
    }
    // From the first of all logs on.
    let loss = loss::behind(directory, 0, 0, 0).ok()?;
    Some(Box::new(giving_up(directory, loss)))
}

/// Whether this server has written to the logs, and nothing beside the snapshots says so: they lie
/// in another folder, or on a disk that is not mounted, with the key of the sessions and with what
/// a member has promised.
fn is_of_others(directory: &DataDirectory) -> Result<bool, StorageError> {
    if readable_segments(directory)?.is_empty() {
        return Ok(false);
    }
    let names = directory.disk().list(directory.snapshots());
    let names = names.during("list", directory.snapshots())?;
    let is_kept = |name: &String| {
        KEPT.contains(&name.as_str()) || matches!(FileName::parse(name), FileName::Snapshot(..))
    };
    Ok(!names.iter().any(is_kept))
}

/// What to do where the log is not that of the snapshot: to begin with an older one with which it
/// can be read to its end, the newer ones moved away. `None` without one.
pub(crate) fn of_another_history(
    directory: &DataDirectory,
    snapshot: SnapshotId,
) -> Option<Box<WayOut>> {
    if is_member(directory).ok()? {
        return Some(Box::new(giving_up(directory, Loss::default())));
    }
    let mut below = snapshot.zxid;
    let older = loop {
        let older = load_snapshot(
            directory,
            below.checked_sub(1)?,
            i64::MAX,
            &mut Nothing,
            &mut Vec::new(),
        );
        let (Loaded { id, .. }, _) = older.ok()??;
        if can_follow(directory, id) {
            break id.zxid;
        }
        below = id.zxid;
    };
    let files = directory.snapshot_files().ok()?.into_iter();
    let newer: Vec<String> =
        files.filter(|(zxid, _)| *zxid > older).map(|(_, path)| quoted(&path)).collect();
    let aside = quoted(&directory.free_beside(directory.snapshots(), "other-history"));
    let command = format!("mkdir {aside} && mv {} {aside}", newer.join(" "));
    Some(Box::new(WayOut { command, loss: Loss::default(), then: Then::FromOlder }))
}

/// What a member does whose log is gone. What another server does is in the refusal: nobody knows
/// what that loses.
fn of_no_log(directory: &DataDirectory) -> Option<Box<WayOut>> {
    let is_member = is_member(directory).unwrap_or(true);
    is_member.then(|| Box::new(giving_up(directory, Loss::default())))
}

/// Refuses a directory whose log is gone; `shown` is the zxid of its snapshot.
pub(crate) fn refuse_lost(directory: &DataDirectory, shown: i64) -> Result<(), StorageError> {
    let (disk, folder) = (directory.disk().as_ref(), directory.snapshots());
    if !directory.log_zxids()?.is_empty() || is_unsynced(disk, directory.logs())? {
        return Ok(());
    }
    let Some((was_in, needed)) = logged::said(directory)? else { return Ok(()) };
    if needed.is_some_and(|zxid| shown >= zxid) {
        return Ok(());
    }
    Err(StorageError::LogGone {
        logs: directory.logs().to_owned(),
        path: folder.join(file_name::LOGGED),
        was_in,
        shown,
        way_out: of_no_log(directory),
    })
}

/// Whether the newest snapshot shows all that the log held, as a server said when it was stopped: a
/// start goes on from it where the log is gone.
///
/// # Errors
/// When the disk refuses.
pub fn needs_no_log(directory: &DataDirectory) -> Result<bool, StorageError> {
    let Some((_, Some(needed))) = logged::said(directory)? else { return Ok(false) };
    for (zxid, path) in directory.snapshot_files()? {
        if reader::looks_whole(directory.disk().as_ref(), &path)? {
            return Ok(zxid >= needed);
        }
    }
    Ok(false)
}

/// Whether the logs of the directory hold every transaction that ever was.
///
/// # Errors
/// When the disk fails.
pub fn logs_reach_back(directory: &DataDirectory) -> Result<bool, StorageError> {
    let first = directory.log_zxids()?.into_iter().next();
    first.map_or(Ok(false), |first| begins_at_the_beginning(directory, first))
}

/// Whether the log of this name holds the first transaction that ever was.
fn begins_at_the_beginning(directory: &DataDirectory, first: i64) -> Result<bool, StorageError> {
    let path = directory.log_path(first);
    let reader = match SegmentReader::open(directory.disk().as_ref(), &path) {
        Err(StorageError::Header { .. }) => return Ok(false),
        other => other?,
    };
    let Some(mut reader) = reader else { return Ok(false) };
    if let SegmentOrigin::Own { first_index } = reader.origin() {
        return Ok(first_index == 1);
    }
    // A standalone ZooKeeper begins with epoch 0, an ensemble with 1.
    let begins = |zxid: i64| zxid == 1 || zxid == (1 << 32) + 1;
    Ok(reader.next()?.ok().and_then(|found| zxid_of_payload(found.payload)).is_some_and(begins))
}

/// Refuses a directory that tells of a past and holds nothing of it.
pub(crate) fn refuse_emptied(directory: &DataDirectory) -> Result<(), StorageError> {
    let (disk, snapshots, logs) = (directory.disk(), directory.snapshots(), directory.logs());
    let is_trace = |name: &String| {
        KEPT.contains(&name.as_str()) || matches!(FileName::parse(name), FileName::Spare(_))
    };
    for folder in [snapshots, logs] {
        let names = disk.list(folder).during("list", folder)?;
        if let Some(trace) = names.into_iter().find(is_trace) {
            let way_out = Box::new(giving_up(directory, Loss::default()));
            return Err(StorageError::Emptied { folder: folder.to_owned(), trace, way_out });
        }
    }
    Ok(())
}

/// Refuses to give up a part of a member's log.
pub(crate) fn refuse_cut_of_member(directory: &DataDirectory) -> Result<(), StorageError> {
    if !is_member(directory)? {
        return Ok(());
    }
    let path = directory.snapshots().join(file_name::RAFT_STATE);
    let way_out = Box::new(giving_up(directory, Loss::default()));
    Err(StorageError::CutOfMember { path, way_out, leave: directory.tool_command("data leave") })
}

/// Whether it is the directory of a member of an ensemble. Such a one must give up nothing of its
/// log and keep its promises: the others have counted it.
///
/// # Errors
/// When the disk refuses.
pub fn is_member(directory: &DataDirectory) -> Result<bool, StorageError> {
    has(directory, file_name::RAFT_STATE)
}

/// Whether it was the directory of a member, or is made of a copy of one: an ensemble has agreed on
/// its log, and a leader may have decided what is in it from a wrong tree.
///
/// # Errors
/// When the disk refuses.
pub fn was_member(directory: &DataDirectory) -> Result<bool, StorageError> {
    has(directory, file_name::RAFT_STATE_LEFT)
}

fn has(directory: &DataDirectory, name: &str) -> Result<bool, StorageError> {
    let names = directory.disk().list(directory.snapshots());
    let names = names.during("list", directory.snapshots())?;
    Ok(names.iter().any(|its| its == name))
}

/// Moves everything aside, so that a start begins anew.
fn giving_up(directory: &DataDirectory, loss: Loss) -> WayOut {
    let then = match is_member(directory) {
        Ok(true) => Then::AsksOthers,
        Ok(false) | Err(_) => Then::BeginsAnew,
    };
    WayOut { command: directory.aside_command(), loss, then }
}
