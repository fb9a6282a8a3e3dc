//! A data directory made of another one: the copy of a running server's, and an earlier state of a
//! stopped one's.
//!
//! Either is a snapshot and the logs after it. They are written into a folder of a temporary name
//! and get their place when all of it is durable, so no server starts on half of it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::copy::{Copied, Copier};
use crate::storage::disk::{Access, Disk, DiskFile};
use crate::storage::error::{During, StorageError};
use crate::storage::files::atomic_file;
use crate::storage::files::directory::DataDirectory;
use crate::storage::files::file_name;
use crate::storage::log::record::{Trailer, zxid_of_payload};
use crate::storage::log::segment::HEADER_LEN;
use crate::storage::log::segment_reader::{SegmentOrigin, SegmentReader, Unreadable};
use crate::storage::log::tail::{Tail, judge};
use crate::storage::recovery::examine::{Examined, LogEnd, examine};
use crate::storage::recovery::way_out::refuse_lost;
use crate::storage::recovery::way_out::{is_member, was_member};
use crate::storage::replay::Replay;
use crate::storage::snapshot::reader;

/// How often files that a purge takes away are looked for anew.
const TRIES: usize = 10;
/// How often a write that goes on is waited for.
const LOOKS: usize = 10;
/// Files beside snapshots and logs that belong to the state.
const SMALL_FILES: [&str; 5] = [
    file_name::CURRENT_EPOCH,
    file_name::ACCEPTED_EPOCH,
    file_name::SESSION_KEY,
    file_name::SESSIONS_BEFORE_KEY,
    file_name::SEALED,
];

/// The folders that get the copy.
#[derive(Debug)]
pub struct Target {
    disk: Arc<dyn Disk>,
    data_dir: PathBuf,
    data_log_dir: PathBuf,
}

impl Target {
    /// A `dataDir` and a `dataLogDir` to be; they may be the same.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, data_dir: PathBuf, data_log_dir: PathBuf) -> Self {
        Self { disk, data_dir, data_log_dir }
    }

    /// Refuses folders that have a `version-2` with files in it.
    ///
    /// # Errors
    /// When it is so, or the disk fails.
    pub fn expect_empty(&self) -> Result<(), StorageError> {
        for folder in [self.data_dir.join("version-2"), self.data_log_dir.join("version-2")] {
            match self.disk.list(&folder) {
                Ok(names) if names.is_empty() => {}
                Ok(_) => return Err(StorageError::NotEmpty { folder }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).during("list", &folder),
            }
        }
        Ok(())
    }

    /// Gives what was written the place of what is there, which gets the name `aside`.
    ///
    /// Where the file system lets two folders change places, there is a `version-2` at any time.
    /// Where data and log are in two folders, a start between the two refuses.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn replace(&self, aside: &str) -> Result<(), StorageError> {
        let disk = self.disk.as_ref();
        let is_split = self.data_log_dir != self.data_dir;
        if is_split {
            let staging = staging(&self.data_dir);
            atomic_file::replace(disk, &staging, file_name::RESTORING, b"", Access::Shared)?;
        }
        for folder in self.folders() {
            self.replace_one(folder, &folder.join(aside))?;
        }
        if is_split {
            let folder = self.data_dir.join("version-2");
            let marker = folder.join(file_name::RESTORING);
            disk.remove(&marker).during("remove", &marker)?;
            disk.sync_folder(&folder).during("sync the folder", &folder)?;
        }
        Ok(())
    }

    fn replace_one(&self, folder: &Path, aside: &Path) -> Result<(), StorageError> {
        let disk = self.disk.as_ref();
        let (staging, version) = (staging(folder), folder.join("version-2"));
        let rename = |from: &Path, to: &Path| {
            disk.rename(from, to).during("rename a folder to", to)?;
            disk.sync_folder(folder).during("sync the folder", folder)
        };
        if disk.list(&version).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return rename(&staging, &version);
        }
        // Under its last name before: nothing is left to be done then.
        rename(&staging, aside)?;
        match disk.exchange(aside, &version) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                rename(aside, &staging)?;
                rename(&version, aside)?;
                rename(&staging, &version)
            }
            done => {
                done.during("exchange folders with", &version)?;
                disk.sync_folder(folder).during("sync the folder", folder)
            }
        }
    }

    /// Gives what was written its place: `version-2`, that of the logs first.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn publish(&self) -> Result<(), StorageError> {
        for folder in self.folders().into_iter().rev() {
            let to = folder.join("version-2");
            self.disk.rename(&staging(folder), &to).during("rename a folder to", &to)?;
            self.disk.sync_folder(folder).during("sync the folder", folder)?;
        }
        Ok(())
    }

    fn folders(&self) -> Vec<&Path> {
        let mut folders = vec![self.data_dir.as_path()];
        if self.data_log_dir != self.data_dir {
            folders.push(&self.data_log_dir);
        }
        folders
    }

    /// Makes the temporary folders, or clears what an earlier attempt left in them.
    fn begin(&self) -> Result<(), StorageError> {
        for folder in self.folders() {
            let staging = staging(folder);
            let made = self.disk.create_folder_for(&staging, &folder.join("version-2"));
            made.during("create the folder", &staging)?;
            for name in self.disk.list(&staging).during("list", &staging)? {
                let path = staging.join(name);
                self.disk.remove(&path).during("remove", &path)?;
            }
        }
        Ok(())
    }
}

/// Where a `version-2` is written until it is whole.
fn staging(folder: &Path) -> PathBuf {
    folder.join(file_name::temporary("version-2"))
}

/// A copy in its temporary folder.
#[derive(Debug)]
pub struct Backup {
    /// Its files.
    pub files: Vec<Copied>,
    /// What a start would make of it.
    pub examined: Examined,
}

/// Opened files, which a purge can no longer take away, and how much of each is copied.
struct Sources {
    snapshot: Source,
    logs: Vec<Source>,
}

struct Source {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    len: u64,
}

/// What a backup would copy now: files and bytes, the snapshot first.
///
/// # Errors
/// When there is no whole snapshot, or the disk fails.
pub fn plan_backup(
    source: &DataDirectory,
    pause: &mut dyn FnMut(),
) -> Result<Vec<(PathBuf, u64)>, StorageError> {
    let sources = retried(source, || sources(source, 0, pause))?;
    let all = std::iter::once(sources.snapshot).chain(sources.logs);
    Ok(all.map(|source| (source.path, source.len)).collect())
}

/// Copies the newest valid snapshot and the logs after it; `target` then waits for
/// [`Target::publish`].
///
/// A server may be writing: the copy ends where a group of its log ends. `pause` is to wait some 10
/// ms, for a write that goes on. `replay` gets the state of the copy, which is read back.
///
/// # Errors
/// When no valid snapshot is there, the log is damaged, or the disk fails.
pub fn backup(
    source: &DataDirectory,
    target: &Target,
    replay: &mut dyn Replay,
    pause: &mut dyn FnMut(),
    progress: &mut dyn FnMut(u64),
) -> Result<Backup, StorageError> {
    let mut older = 0_usize;
    loop {
        target.begin()?;
        let staging = staging(&target.data_dir);
        let disk = target.disk.as_ref();
        let files = retried(source, || {
            let sources = sources(source, older, pause)?;
            target.begin()?;
            let mut copier = Copier::new(disk, &staging, progress);
            for Source { path, file, len } in
                std::iter::once(&sources.snapshot).chain(&sources.logs)
            {
                copier.copy(file.as_ref(), path, name_of(path), *len)?;
            }
            copy_small_files(source, &mut copier)?;
            copier.finish()
        })?;
        let copy = DataDirectory::look(Arc::clone(&target.disk), staging.clone(), staging)?;
        let examined = match examine(&copy, false, i64::MAX, replay) {
            // The newest looked whole and is not.
            Err(StorageError::NoReadableSnapshot { .. }) => {
                older = older.saturating_add(1);
                continue;
            }
            other => other?,
        };
        return match examined.end {
            LogEnd::Damaged(error) => Err(error),
            _ => Ok(Backup { files, examined }),
        };
    }
}

/// A copy of a member's directory is no member's, but remembers that its log was one's.
///
/// # Errors
/// When the disk fails.
pub(in crate::storage) fn copy_small_files(
    source: &DataDirectory,
    copier: &mut Copier<'_>,
) -> Result<(), StorageError> {
    for name in SMALL_FILES {
        copier.copy_if_there(source.snapshots(), name)?;
    }
    if is_member(source)? || was_member(source)? {
        copier.mark(file_name::RAFT_STATE_LEFT)?;
    }
    Ok(())
}

/// Copies the state at `zxid_max` out of a directory that nobody writes; `target` then waits for
/// [`Target::publish`]. `examined` is what [`examine`] said of it.
///
/// # Errors
/// When the disk fails.
pub fn restore(
    source: &DataDirectory,
    examined: &Examined,
    target: &Target,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Copied>, StorageError> {
    target.begin()?;
    let disk = source.disk().as_ref();
    let (snapshots, logs) = (staging(&target.data_dir), staging(&target.data_log_dir));
    let mut copier = Copier::new(target.disk.as_ref(), &snapshots, progress);
    if let Some(path) = &examined.snapshot_file {
        let file = disk.open(path).during("open", path)?;
        let len = file.size().during("read", path)?;
        copier.copy(file.as_ref(), path, name_of(path), len)?;
    }
    copy_small_files(source, &mut copier)?;
    let mut copied = copier.finish()?;
    let cut = match &examined.end {
        LogEnd::Clean => None,
        LogEnd::Torn { path, offset, .. } | LogEnd::Reached { path, offset } => {
            Some((path, *offset))
        }
        LogEnd::Damaged(
            StorageError::Damage { path, offset, .. } | StorageError::Unfit { path, offset, .. },
        ) => Some((path, *offset)),
        LogEnd::Damaged(_) => None,
    };
    let mut copier = Copier::new(target.disk.as_ref(), &logs, progress);
    let names = source.log_zxids()?;
    for zxid in needed(&names, examined.snapshot.zxid) {
        let path = source.log_path(*zxid);
        let here = cut.filter(|(cut, _)| **cut == path).map(|(_, offset)| offset);
        let file = disk.open(&path).during("open", &path)?;
        let len = match here {
            Some(offset) => offset,
            None => match SegmentReader::open(disk, &path)? {
                Some(mut reader) => records_end(&mut reader)?,
                None => 0,
            },
        };
        // A log without a record would have a name that none of its records has.
        if len > HEADER_LEN {
            copier.copy(file.as_ref(), &path, name_of(&path), len)?;
        }
        if here.is_some() {
            break;
        }
    }
    copied.extend(copier.finish()?);
    Ok(copied)
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// The logs, of all in ascending order, that a start from a snapshot reads.
fn needed(names: &[i64], snapshot: i64) -> &[i64] {
    // The newest log that begins at or before the snapshot can reach beyond it.
    let first = names.partition_point(|zxid| *zxid <= snapshot).saturating_sub(1);
    names.get(first..).unwrap_or_default()
}

/// Tries again where a purge was faster.
fn retried<T>(
    source: &DataDirectory,
    mut attempt: impl FnMut() -> Result<T, StorageError>,
) -> Result<T, StorageError> {
    for _ in 0..TRIES {
        match attempt() {
            Err(StorageError::Io { path, source: error, .. })
                if error.kind() == io::ErrorKind::NotFound
                    && (path.starts_with(source.snapshots())
                        || path.starts_with(source.logs())) => {}
            other => return other,
        }
    }
    Err(StorageError::Moving { folder: source.snapshots().to_owned() })
}

/// Opens a snapshot, `older` down from the newest whole one, and then the logs after it.
fn sources(
    source: &DataDirectory,
    older: usize,
    pause: &mut dyn FnMut(),
) -> Result<Sources, StorageError> {
    let disk = source.disk().as_ref();
    let (zxid, snapshot) = whole_snapshot(source, older)?;
    refuse_lost(source, zxid)?;
    // Listed after the snapshot: what a fuzzy one holds was logged before.
    let names = source.log_zxids()?;
    let mut logs = Vec::new();
    let mut opened = Vec::new();
    for zxid in needed(&names, zxid) {
        let path = source.log_path(*zxid);
        let file = disk.open(&path).during("open", &path)?;
        let reader = SegmentReader::open(disk, &path)?;
        opened.push((path, file, reader));
    }
    let last = opened.len().saturating_sub(1);
    for (position, (path, file, reader)) in opened.into_iter().enumerate() {
        let len = match reader {
            None => 0,
            Some(reader) if position == last => group_end(disk, reader, pause)?,
            Some(mut reader) => records_end(&mut reader)?,
        };
        // The last log may have been begun and not yet written.
        if position < last || len > HEADER_LEN {
            logs.push(Source { path, file, len });
        }
    }
    Ok(Sources { snapshot, logs })
}

fn whole_snapshot(source: &DataDirectory, older: usize) -> Result<(i64, Source), StorageError> {
    let disk = source.disk().as_ref();
    let mut skip = older;
    for (zxid, path) in source.snapshot_files()? {
        if !reader::looks_whole(disk, &path)? {
            continue;
        }
        if skip > 0 {
            skip = skip.saturating_sub(1);
            continue;
        }
        let file = disk.open(&path).during("open", &path)?;
        let len = file.size().during("read", &path)?;
        return Ok((zxid, Source { path, file, len }));
    }
    let folder = source.snapshots().to_owned();
    Err(StorageError::NoSnapshotUpTo { folder, zxid: i64::MAX, reason: None })
}

/// Where the records of a finished log end; its whole length where that is not clear, so that the
/// copy shows it.
fn records_end(reader: &mut SegmentReader) -> Result<u64, StorageError> {
    let mut last_good = 0;
    let unreadable = loop {
        match reader.next()? {
            Ok(found) => {
                last_good = zxid_of_payload(found.payload).unwrap_or(last_good);
            }
            Err(unreadable) => break unreadable,
        }
    };
    let (offset, len) = (reader.offset(), reader.window().len());
    if unreadable != Unreadable::End {
        return Ok(len);
    }
    if reader.origin() == SegmentOrigin::Java {
        return Ok(offset);
    }
    let path = reader.path().to_owned();
    let tail = judge(reader.window(), offset, last_good).during("read", &path)?;
    Ok(if tail == Tail::Clean { offset } else { len })
}

/// Where the last finished group of a log ends that is being written.
///
/// A group is written at once, but a reader can see the first part of it. It is finished when the
/// next one has begun, or when nothing more of it comes.
fn group_end(
    disk: &dyn Disk,
    mut reader: SegmentReader,
    pause: &mut dyn FnMut(),
) -> Result<u64, StorageError> {
    let path = reader.path().to_owned();
    let mut seen = read_groups(&mut reader, HEADER_LEN)?;
    for _ in 0..LOOKS {
        pause();
        let Some(mut again) = SegmentReader::open(disk, &path)? else { break };
        again.seek(seen.last_group);
        let now = read_groups(&mut again, seen.last_group)?;
        if now.last_group > seen.last_group {
            return Ok(now.last_group);
        }
        if now == seen && now.is_clean {
            return Ok(now.end);
        }
        seen = now;
    }
    // A torn end that stays: nobody writes any more.
    Ok(seen.end)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Groups {
    /// Where the last group begins.
    last_group: u64,
    /// Where the records end.
    end: u64,
    /// Whether only zeros stand after.
    is_clean: bool,
}

fn read_groups(reader: &mut SegmentReader, from: u64) -> Result<Groups, StorageError> {
    let is_own = reader.origin() != SegmentOrigin::Java;
    let (mut last_group, mut last_good) = (from, 0);
    let is_refused = loop {
        match reader.next()? {
            Ok(found) => {
                last_good = zxid_of_payload(found.payload).unwrap_or(last_good);
                let trailer = Trailer::of_payload(found.payload);
                // ZooKeeper does not say where groups begin: every record may be the last.
                if !is_own || trailer.is_some_and(|trailer| trailer.distance == 0) {
                    last_group = found.offset;
                }
            }
            Err(unreadable) => break unreadable != Unreadable::End,
        }
    };
    let (end, path) = (reader.offset(), reader.path().to_owned());
    let tail = judge(reader.window(), end, last_good).during("read", &path)?;
    Ok(Groups { last_group, end, is_clean: !is_refused && tail == Tail::Clean })
}

#[cfg(test)]
#[path = "backup_test.rs"]
mod backup_test;
