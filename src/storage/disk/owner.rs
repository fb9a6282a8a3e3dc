//! Whose a new file or folder is: that of the folder that it is made in, also where root makes it.
//!
//! A tool that an operator runs as root must leave nothing that the user of the server cannot read.
//! What is there already keeps its owner: root gives away nothing that it has not made.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, fchown, lchown};
use std::path::Path;

use rustix::io::Errno;

/// Gives away a file that was just made at `path`.
pub(super) fn give_file(file: &File, path: &Path) -> io::Result<()> {
    match owner_above(path)? {
        Some((user, group)) => as_far_as_possible(fchown(file, Some(user), Some(group))),
        None => Ok(()),
    }
}

/// Gives away a folder that was just made.
pub(super) fn give_folder(folder: &Path) -> io::Result<()> {
    match owner_above(folder)? {
        // Not through a link that somebody has put in its place.
        Some((user, group)) => as_far_as_possible(lchown(folder, Some(user), Some(group))),
        None => Ok(()),
    }
}

/// User and group of the folder that `path` is in, where this process is root and it is another's.
fn owner_above(path: &Path) -> io::Result<Option<(u32, u32)>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let its = std::fs::metadata(folder.unwrap_or_else(|| Path::new(".")))?;
    Ok((its.uid() != 0).then(|| (its.uid(), its.gid())))
}

/// A root without the right to it, and a file system without owners, leave the file as it is, which
/// is whole all the same.
fn as_far_as_possible(given: io::Result<()>) -> io::Result<()> {
    let is_refused = |error: &io::Error| {
        [Errno::PERM, Errno::INVAL, Errno::NOTSUP, Errno::NOSYS]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    };
    match given {
        Err(error) if is_refused(&error) => Ok(()),
        given => given,
    }
}
