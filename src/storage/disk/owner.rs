//! The disk of the tools, which an operator may run as root: what root makes there belongs to the
//! owner of the folder that it is made in, so that the user of the server can read it.
//!
//! What is there already keeps its owner: root gives away nothing that it has not made. Whose the
//! folder is, is asked of the very folder that the new file or folder is in, as its user may put
//! another one in its place meanwhile. A server gives nothing away, see [`RealDisk`].

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;

use super::kept_descriptors::with_one;
use super::real::{self, RealDisk, RealFile};
use super::{Access, Disk, DiskFile, LockAttempt};

/// The file system of this machine, for a tool.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToolDisk;

impl Disk for ToolDisk {
    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(folder)
    }

    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        real::create_folder(folder, &|folder| make_folder(folder, folder_above(folder)))
    }

    fn create_folder_for(&self, folder: &Path, replaced: &Path) -> io::Result<()> {
        let its = std::fs::metadata(replaced);
        let like = match its.is_ok_and(|its| its.is_dir() && its.uid() != 0) {
            true => replaced,
            false => folder_above(folder),
        };
        real::create_folder(folder, &|made| match made == folder {
            true => make_folder(made, like),
            false => make_folder(made, folder_above(made)),
        })
    }

    fn create(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(make_file(path, access)?)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.open(path)
    }

    fn open_for_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        RealDisk.open_for_write(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn exchange(&self, one: &Path, other: &Path) -> io::Result<()> {
        RealDisk.exchange(one, other)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        RealDisk.sync_folder(folder)
    }

    fn free_space(&self, folder: &Path) -> io::Result<u64> {
        RealDisk.free_space(folder)
    }

    fn lock(&self, path: &Path, note: &str) -> io::Result<LockAttempt> {
        real::lock(path, note, make_file)
    }
}

fn make_file(path: &Path, access: Access) -> io::Result<File> {
    let Some(name) = path.file_name().filter(|_| is_root()) else {
        return real::create_file(path, access);
    };
    let folder = open_folder(folder_above(path))?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(if access == Access::Private { 0o600 } else { 0o666 });
    let file = File::from(with_one(|| Ok(openat(&folder, name, flags, mode)?))?);
    give(&file, &folder)?;
    Ok(file)
}

/// Makes one that belongs to the owner of the folder `like`.
fn make_folder(path: &Path, like: &Path) -> io::Result<()> {
    let Some(name) = path.file_name().filter(|_| is_root()) else {
        return std::fs::create_dir(path);
    };
    let above = open_folder(folder_above(path))?;
    mkdirat(&above, name, Mode::from_raw_mode(0o777))?;
    // Not through a link that somebody has put in its place.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = with_one(|| Ok(openat(&above, name, flags, Mode::empty())?))?;
    match like == folder_above(path) {
        true => give(&made, &above),
        false => give(&made, &open_folder(like)?),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn folder_above(path: &Path) -> &Path {
    let above = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    above.unwrap_or_else(|| Path::new("."))
}

fn open_folder(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = with_one(|| Ok(rustix::fs::open(folder, flags, Mode::empty())?))?;
    Ok(File::from(opened))
}

/// Gives what this process has just made to the user and the group of `like`, unless that is
/// root's as well, or the system cannot say whose it is.
fn give(made: impl AsFd, like: &File) -> io::Result<()> {
    let its = like.metadata()?;
    if its.uid() == 0 || its.uid() == nobody_known() {
        return Ok(());
    }
    as_far_as_possible(fchown(made, Some(its.uid()), Some(its.gid())))
}

/// The user that a user namespace shows for those that it does not know.
fn nobody_known() -> u32 {
    let said = std::fs::read_to_string("/proc/sys/fs/overflowuid");
    said.ok().and_then(|said| said.trim().parse().ok()).unwrap_or(65_534)
}

/// A root without the right to it, and a file system that keeps no owners, leave the file as it
/// is, which is whole all the same. Only a disk that fails is told.
fn as_far_as_possible(given: io::Result<()>) -> io::Result<()> {
    match given {
        Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    /// Whose a file or a folder is, by the numbers of the user and the group.
    fn owner(path: &Path) -> (u32, u32) {
        let its = std::fs::symlink_metadata(path).expect("it is there");
        (its.uid(), its.gid())
    }

    /// A server that is not root must be able to use what a tool has made as root.
    #[test]
    fn what_a_tool_makes_as_root_in_a_folder_of_another_user_is_that_users() {
        let root = tempfile::tempdir().expect("a folder");
        let data = root.path().join("data");
        std::fs::create_dir(&data).expect("a folder");
        if is_root() {
            chown(&data, Some(4711), Some(4712)).expect("root may");
        }
        // Who is not root keeps what it makes, which is in its own folder here.
        let theirs = owner(&data);
        let folder = data.join("a/version-2");
        ToolDisk.create_folder(&folder).expect("folders");
        ToolDisk.create(&folder.join("log.1"), Access::Shared).expect("a file");
        ToolDisk.create(&folder.join("session.key"), Access::Private).expect("a file");
        ToolDisk.lock(&folder.join("lock"), "").expect("a lock");
        for name in ["a", "a/version-2"] {
            assert_eq!(owner(&data.join(name)), theirs, "{name}");
        }
        for name in ["log.1", "session.key", "lock"] {
            assert_eq!(owner(&folder.join(name)), theirs, "{name}");
        }
        let mode =
            |name: &str| std::fs::metadata(folder.join(name)).expect("it is there").mode() & 0o777;
        assert_eq!(mode("session.key"), 0o600);
        let exists = ToolDisk.create(&folder.join("log.1"), Access::Shared);
        assert_eq!(exists.expect_err("it is there").kind(), io::ErrorKind::AlreadyExists);
    }

    /// A server runs as its user, or as a root whose files nobody else is to have.
    #[test]
    fn what_a_server_makes_as_root_stays_roots() {
        if !is_root() {
            return;
        }
        let root = tempfile::tempdir().expect("a folder");
        chown(root.path(), Some(4711), Some(4712)).expect("root may");
        let folder = root.path().join("version-2");
        RealDisk.create_folder(&folder).expect("a folder");
        chown(&folder, Some(4711), Some(4712)).expect("root may");
        RealDisk.create(&folder.join("log.1"), Access::Shared).expect("a file");
        RealDisk.lock(&folder.join("lock"), "").expect("a lock");
        RealDisk.create_folder(&folder.join("a")).expect("a folder");
        for name in ["log.1", "lock", "a"] {
            assert_eq!(owner(&folder.join(name)), (0, 0), "{name}");
        }
    }

    #[test]
    fn what_is_there_keeps_its_owner() {
        if !is_root() {
            return;
        }
        let root = tempfile::tempdir().expect("a folder");
        let path = root.path().join("lock");
        std::fs::write(&path, "").expect("a file");
        chown(root.path(), Some(4711), Some(4712)).expect("root may");
        ToolDisk.lock(&path, "").expect("a lock");
        ToolDisk.create_folder(root.path()).expect("it is there");
        ToolDisk.open_for_write(&path).expect("opens");
        assert_eq!(owner(&path), (0, 0));
        // A link leads to a folder that somebody else made.
        let (theirs, link) = (root.path().join("theirs"), root.path().join("link"));
        std::fs::create_dir(&theirs).expect("a folder");
        symlink(&theirs, &link).expect("a link");
        ToolDisk.create_folder(&link).expect("it is there");
        assert_eq!((owner(&theirs), owner(&link)), ((0, 0), (0, 0)));
    }

    /// Where the system does not know the owner, its number may be that of somebody else.
    #[test]
    fn nothing_is_given_to_an_owner_that_is_not_known() {
        if !is_root() {
            return;
        }
        let root = tempfile::tempdir().expect("a folder");
        let nobody = nobody_known();
        chown(root.path(), Some(nobody), Some(nobody)).expect("root may");
        ToolDisk.create(&root.path().join("log.1"), Access::Shared).expect("a file");
        ToolDisk.create_folder(&root.path().join("version-2")).expect("a folder");
        for name in ["log.1", "version-2"] {
            assert_eq!(owner(&root.path().join(name)), (0, 0), "{name}");
        }
    }

    /// Kubernetes leaves the folder above to root, and gives it a group only (`fsGroup`).
    #[test]
    fn what_takes_the_place_of_a_folder_gets_its_owner() {
        if !is_root() {
            return;
        }
        let root = tempfile::tempdir().expect("a folder");
        let (old, new) = (root.path().join("version-2"), root.path().join("tmp.version-2"));
        ToolDisk.create_folder_for(&new, &old).expect("a folder");
        assert_eq!(owner(&new), (0, 0), "nothing is replaced");
        std::fs::remove_dir(&new).expect("removed");
        std::fs::create_dir(&old).expect("a folder");
        chown(&old, Some(4711), Some(4712)).expect("root may");
        ToolDisk.create_folder_for(&new, &old).expect("a folder");
        ToolDisk.create(&new.join("snapshot.0"), Access::Shared).expect("a file");
        assert_eq!(owner(&new), (4711, 4712));
        assert_eq!(owner(&new.join("snapshot.0")), (4711, 4712));
        // Root's was of no use to the server.
        std::fs::remove_file(new.join("snapshot.0")).expect("removed");
        std::fs::remove_dir(&new).expect("removed");
        chown(&old, Some(0), Some(0)).expect("root may");
        chown(root.path(), Some(4713), Some(4714)).expect("root may");
        ToolDisk.create_folder_for(&new, &old).expect("a folder");
        assert_eq!(owner(&new), (4713, 4714));
    }

    #[test]
    fn a_file_that_cannot_be_given_away_is_whole_all_the_same() {
        for errno in [Errno::PERM, Errno::INVAL, Errno::OPNOTSUPP, Errno::ROFS, Errno::OVERFLOW] {
            as_far_as_possible(Err(errno.into())).expect("it stays as it is");
        }
        as_far_as_possible(Err(Errno::IO.into())).expect_err("the disk fails");
    }
}
