//! Which segments a folder has, by what their files say, and what takes one of them away.

use std::io::ErrorKind::NotFound;
use std::path::Path;

use super::record::zxid_of_payload;
use super::segment::SegmentBegin;
use super::segment_reader::{SegmentOrigin, SegmentReader};
use crate::storage::error::{During, StorageError};
use crate::storage::files::atomic_file::remove_if_there;
use crate::storage::files::directory::DataDirectory;

/// The segments that this server wrote, oldest first; those after the last one of ZooKeeper, and
/// after the last one that does not begin as a log does.
pub(crate) fn readable_segments(
    directory: &DataDirectory,
) -> Result<Vec<SegmentBegin>, StorageError> {
    let mut segments = Vec::new();
    for zxid in directory.log_zxids()? {
        let path = directory.log_path(zxid);
        match SegmentReader::open(directory.disk().as_ref(), &path) {
            Err(StorageError::Header { .. }) => segments.clear(),
            reader => list(&mut segments, zxid, reader?.as_ref()),
        }
    }
    Ok(segments)
}

/// The segments that this server wrote, oldest first; those after the last one of ZooKeeper.
///
/// # Errors
/// When the disk refuses, or a segment does not begin as a log does: it may be one of them.
pub(crate) fn own_segments(directory: &DataDirectory) -> Result<Vec<SegmentBegin>, StorageError> {
    let mut segments = Vec::new();
    for zxid in directory.log_zxids()? {
        let reader = SegmentReader::open(directory.disk().as_ref(), &directory.log_path(zxid))?;
        list(&mut segments, zxid, reader.as_ref());
    }
    Ok(segments)
}

/// Adds a segment to those before it; an empty file is none.
fn list(segments: &mut Vec<SegmentBegin>, zxid: i64, reader: Option<&SegmentReader>) {
    match reader.map(SegmentReader::origin) {
        Some(SegmentOrigin::Own { first_index }) => {
            segments.push(SegmentBegin { index: first_index, zxid });
        }
        Some(SegmentOrigin::Java) => segments.clear(),
        None => {}
    }
}

/// A segment, unless it is empty, or somebody removed it, or a purge did of which the writer has
/// not told yet.
pub(super) fn open_if_kept(
    directory: &DataDirectory,
    path: &Path,
) -> Result<Option<SegmentReader>, StorageError> {
    match SegmentReader::open(directory.disk().as_ref(), path) {
        Err(StorageError::Io { source, .. }) if source.kind() == NotFound => Ok(None),
        reader => reader,
    }
}

/// Forgets the segments before one that does not reach to the next, as if they had been purged.
/// Recovery has looked at what stands after the entry `known`, which the snapshot shows, and
/// before it only a reader can tell. The last segment must reach to that entry: else nothing says
/// what stood between, nor of which terms.
pub(super) fn drop_before_gap(
    directory: &DataDirectory,
    segments: &mut Vec<SegmentBegin>,
    known: SegmentBegin,
) -> Result<(), StorageError> {
    let up_to_known = segments.partition_point(|segment| segment.index <= known.index);
    if let Some(last) = up_to_known.checked_sub(1).and_then(|at| segments.get(at))
        && !holds(directory, *last, known)?
    {
        segments.drain(..up_to_known);
        return Ok(());
    }
    let mut gap = None;
    for (at, pair) in segments.windows(2).enumerate().rev() {
        if let [begin, next] = pair
            && next.index <= known.index.saturating_add(1)
            && !ends_before(directory, *begin, next.index)?
        {
            gap = Some(at);
            break;
        }
    }
    if let Some(at) = gap {
        segments.drain(..=at);
    }
    Ok(())
}

/// Whether a segment, which begins at this entry or before it, has it in its place.
pub(crate) fn holds(
    directory: &DataDirectory,
    begin: SegmentBegin,
    entry: SegmentBegin,
) -> Result<bool, StorageError> {
    let path = directory.log_path(begin.zxid);
    let reader = SegmentReader::open(directory.disk().as_ref(), &path)?;
    let Some(mut reader) = reader else { return Ok(false) };
    for _ in begin.index..entry.index {
        if reader.next()?.is_err() {
            return Ok(false);
        }
    }
    let Ok(found) = reader.next()? else { return Ok(false) };
    Ok(zxid_of_payload(found.payload) == Some(entry.zxid))
}

/// Whether the records of a segment are those up to `end` and no others: else its place in the log
/// is not certain.
pub(crate) fn ends_before(
    directory: &DataDirectory,
    begin: SegmentBegin,
    end: u64,
) -> Result<bool, StorageError> {
    let path = directory.log_path(begin.zxid);
    let reader = SegmentReader::open(directory.disk().as_ref(), &path)?;
    let Some(mut reader) = reader else { return Ok(false) };
    for _ in begin.index..end {
        if reader.next()?.is_err() {
            return Ok(false);
        }
    }
    Ok(reader.next()?.is_err())
}

/// Removes a segment, durably, if it is there.
pub(crate) fn remove(directory: &DataDirectory, begin: SegmentBegin) -> Result<(), StorageError> {
    let path = directory.log_path(begin.zxid);
    let disk = directory.disk();
    remove_if_there(disk.as_ref(), &path)?;
    disk.sync_folder(directory.logs()).during("sync the folder", directory.logs())
}

/// Cuts a segment before the record `from`, durably; one that ends before it is left.
pub(super) fn shorten(
    directory: &DataDirectory,
    begin: SegmentBegin,
    from: u64,
) -> Result<(), StorageError> {
    let path = directory.log_path(begin.zxid);
    let disk = directory.disk().as_ref();
    let Some(mut reader) = SegmentReader::open(disk, &path)? else { return Ok(()) };
    for _ in begin.index..from {
        if reader.next()?.is_err() {
            return Ok(());
        }
    }
    let file = disk.open_for_write(&path).during("open", &path)?;
    file.set_len(reader.offset()).during("cut", &path)?;
    file.sync_all().during("sync", &path)
}
