//! The data directory: the two `version-2` folders of zoo.cfg's dataDir and dataLogDir.
//!
//! Owns who may use them (one process), what must not be in them, and what an earlier process left
//! half done. It does not read logs or snapshots; `myid` beside them belongs to the configuration.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use super::file_name::{self, FileName};
use super::findings::Findings;
use super::raft_state;
use crate::old_name;
use crate::storage::disk::{Disk, Lock, LockAttempt};
use crate::storage::error::{During, StorageError};

/// The open data directory; its locks are held until it is dropped.
pub struct DataDirectory {
    disk: Arc<dyn Disk>,
    snapshots: PathBuf,
    logs: PathBuf,
    /// Snapshots that were handed over since it was opened.
    handovers: AtomicU64,
    /// Snapshots that the start passed over: whatever their checksums say, they are of no use.
    useless: Mutex<Vec<PathBuf>>,
    /// Held by a purge while it removes, and by whoever needs files to be there that were listed
    /// before.
    removing: Mutex<()>,
    findings: Findings,
    _locks: Vec<Box<dyn Lock>>,
}

/// Where the data directory is and what may be done to open it.
#[derive(Clone, Debug)]
pub struct DirectoryOptions {
    /// zoo.cfg's `dataDir`.
    pub data_dir: PathBuf,
    /// zoo.cfg's `dataLogDir`; the same as `data_dir` if not set.
    pub data_log_dir: PathBuf,
    /// `zookeeper.datadir.autocreate`: whether missing folders are created.
    pub create: bool,
}

impl DataDirectory {
    /// Opens both folders, takes their locks and removes what an unfinished write left.
    ///
    /// # Errors
    /// When a folder is missing and must not be created, is in use, holds files that belong into
    /// the other one, or the disk refuses.
    pub fn open(disk: Arc<dyn Disk>, options: &DirectoryOptions) -> Result<Self, StorageError> {
        let snapshots = options.data_dir.join("version-2");
        let logs = options.data_log_dir.join("version-2");
        let mut folders = vec![snapshots.as_path()];
        if logs != snapshots {
            folders.push(&logs);
        }
        refuse_old_data_dir(disk.as_ref(), &options.data_dir)?;
        for folder in &folders {
            refuse_old_names(disk.as_ref(), folder)?;
        }
        let mut locks = Vec::new();
        for &folder in &folders {
            refuse_staging_alone(disk.as_ref(), folder)?;
            open_folder(disk.as_ref(), folder, options.create)?;
            locks.push(lock(disk.as_ref(), folder)?);
        }
        refuse_misplaced(disk.as_ref(), &snapshots, &logs)?;
        for folder in folders {
            for name in disk.list(folder).during("list", folder)? {
                if FileName::parse(&name) == FileName::Temporary {
                    let path = folder.join(name);
                    disk.remove(&path).during("remove", &path)?;
                }
            }
            // A killed process may have left names that are seen but not yet durable.
            disk.sync_folder(folder).during("sync the folder", folder)?;
        }
        Ok(Self::of(disk, snapshots, logs, locks))
    }

    fn of(
        disk: Arc<dyn Disk>,
        snapshots: PathBuf,
        logs: PathBuf,
        locks: Vec<Box<dyn Lock>>,
    ) -> Self {
        let (handovers, useless) = (AtomicU64::new(0), Mutex::default());
        let (removing, findings) = (Mutex::default(), Findings::default());
        Self { disk, snapshots, logs, handovers, useless, removing, findings, _locks: locks }
    }

    /// A number that no other snapshot handed over has: one may come while another is being
    /// installed.
    pub(crate) fn next_handover(&self) -> u64 {
        self.handovers.fetch_add(1, Ordering::Relaxed)
    }

    /// Keeps a purge from removing files, for as long as the value lives. A purge that is at it
    /// comes to its end first.
    pub(crate) fn keep_files(&self) -> MutexGuard<'_, ()> {
        self.removing.lock()
    }

    /// A start has passed over these snapshots.
    pub(crate) fn set_useless(&self, snapshots: Vec<PathBuf>) {
        *self.useless.lock() = snapshots;
    }

    /// Whether the start has passed over this snapshot.
    pub(crate) fn is_useless(&self, snapshot: &Path) -> bool {
        self.useless.lock().iter().any(|useless| useless == snapshot)
    }

    /// What was found out about its files.
    pub(crate) const fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Shows two `version-2` folders as they are, whoever uses them: nothing is locked, made or
    /// removed.
    ///
    /// # Errors
    /// When a folder is missing or cannot be listed, or holds files that belong into the other one.
    pub fn look(
        disk: Arc<dyn Disk>,
        snapshots: PathBuf,
        logs: PathBuf,
    ) -> Result<Self, StorageError> {
        for folder in [&snapshots, &logs] {
            disk.list(folder).during("list", folder)?;
            refuse_old_names(disk.as_ref(), folder)?;
        }
        refuse_misplaced(disk.as_ref(), &snapshots, &logs)?;
        Ok(Self::of(disk, snapshots, logs, Vec::new()))
    }

    /// The disk below.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Whether it holds neither a snapshot nor a log.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn is_empty(&self) -> Result<bool, StorageError> {
        for folder in [&self.snapshots, &self.logs] {
            let names = self.disk.list(folder).during("list", folder)?;
            let is_data = |name: &String| name.starts_with("snapshot.") || name.starts_with("log.");
            if names.iter().any(is_data) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The folder of snapshots, epochs and the session key.
    #[must_use]
    pub fn snapshots(&self) -> &Path {
        &self.snapshots
    }

    /// The folder of logs.
    #[must_use]
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// The zxids in the names of the logs, ascending.
    pub(crate) fn log_zxids(&self) -> Result<Vec<i64>, StorageError> {
        let mut zxids = Vec::new();
        for name in self.disk.list(&self.logs).during("list", &self.logs)? {
            if let FileName::Log(zxid) = FileName::parse(&name) {
                zxids.push(zxid);
            }
        }
        zxids.sort_unstable();
        Ok(zxids)
    }

    /// The snapshots with the zxids in their names, newest first.
    pub(crate) fn snapshot_files(&self) -> Result<Vec<(i64, PathBuf)>, StorageError> {
        let mut found = Vec::new();
        for name in self.disk.list(&self.snapshots).during("list", &self.snapshots)? {
            if let FileName::Snapshot(zxid, compression) = FileName::parse(&name) {
                found.push((zxid, compression, self.snapshots.join(name)));
            }
        }
        // Of one zxid the plain one comes first.
        found.sort_by_key(|(zxid, compression, _)| (std::cmp::Reverse(*zxid), *compression));
        Ok(found.into_iter().map(|(zxid, _, path)| (zxid, path)).collect())
    }

    /// What an operator types to give up all after `zxid`.
    pub(crate) fn truncate_command(&self, zxid: i64) -> String {
        format!("{} --to-zxid {zxid:#x}", self.tool_command("data truncate"))
    }

    /// What an operator types to have a tool work on the directory.
    pub(crate) fn tool_command(&self, tool: &str) -> String {
        let root = |folder: &Path| quoted(folder.parent().unwrap_or(folder));
        let logs = match self.logs == self.snapshots {
            true => String::new(),
            false => format!(" --log-dir {}", root(&self.logs)),
        };
        format!("ferrokeeper {tool} {}{logs}", root(&self.snapshots))
    }

    /// What an operator types to have the data again that was moved into `aside` when the directory
    /// became a member's, as that of no ensemble. What is here now is kept.
    pub(crate) fn back_command(&self, aside: &str) -> String {
        let mut folders = vec![self.snapshots()];
        if self.logs != self.snapshots {
            folders.push(self.logs());
        }
        let moves = folders.into_iter().map(|folder| {
            let (now, before) =
                (self.free_beside(folder, "given-up"), folder.with_file_name(aside));
            let (folder, now, before) = (quoted(folder), quoted(&now), quoted(&before));
            format!("mv {folder} {now} && mv {before} {folder}")
        });
        moves.collect::<Vec<_>>().join(" && ")
    }

    /// What an operator types to move all data aside, kept, so that a start begins empty as the
    /// same server: `myid` stays.
    #[must_use]
    pub fn aside_command(&self) -> String {
        let mut folders = vec![self.snapshots()];
        if self.logs != self.snapshots {
            folders.push(self.logs());
        }
        let moves = folders.into_iter().map(|folder| {
            format!("mv {} {}", quoted(folder), quoted(&self.free_beside(folder, "given-up")))
        });
        moves.collect::<Vec<_>>().join(" && ")
    }

    /// A folder beside this one that is not there.
    pub(crate) fn free_beside(&self, folder: &Path, name: &str) -> PathBuf {
        let free = (1..).map(|number| folder.with_file_name(format!("{name}-{number}")));
        let mut free = free.filter(|aside| self.disk.list(aside).is_err());
        free.next().unwrap_or_default()
    }

    pub(crate) fn log_path(&self, zxid: i64) -> PathBuf {
        self.logs.join(file_name::log(zxid))
    }
}

/// What an operator does where there is no [`DataDirectory::aside_command`], because the directory
/// is another server's.
pub const MOVE_ASIDE: &str =
    "move `version-2` in dataDir and dataLogDir aside, keep both, leave `myid`";

/// The logs in a folder, oldest first.
///
/// # Errors
/// When the folder cannot be listed.
pub fn logs_in(disk: &dyn Disk, folder: &Path) -> Result<Vec<PathBuf>, StorageError> {
    let mut logs = Vec::new();
    for name in disk.list(folder).during("list", folder)? {
        if let FileName::Log(zxid) = FileName::parse(&name) {
            logs.push((zxid, folder.join(name)));
        }
    }
    logs.sort();
    Ok(logs.into_iter().map(|(_, path)| path).collect())
}

impl fmt::Debug for DataDirectory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("DataDirectory")
            .field("snapshots", &self.snapshots)
            .field("logs", &self.logs)
            .finish_non_exhaustive()
    }
}

/// A path as a shell takes it for one word.
pub(crate) fn quoted(path: &Path) -> String {
    let path = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !path.is_empty() && path.chars().all(is_plain) {
        return path;
    }
    format!("'{}'", path.replace('\'', "'\\''"))
}

/// A server would begin with nothing beside the data that it had under its old name.
fn refuse_old_data_dir(disk: &dyn Disk, data_dir: &Path) -> Result<(), StorageError> {
    let (old, new) = old_name::DATA_DIR;
    let path = data_dir.with_file_name(old);
    let is_there = |dir: &Path| Ok(names_in(disk, &dir.join("version-2"))?.is_some());
    if !data_dir.ends_with(new) || is_there(data_dir)? || !is_there(&path)? {
        return Ok(());
    }
    let command = format!("mv -T {} {}", quoted(&path), quoted(data_dir));
    Err(StorageError::OldName { path, command })
}

/// Refuses a folder with a file of before this product had its name.
fn refuse_old_names(disk: &dyn Disk, folder: &Path) -> Result<(), StorageError> {
    let Some(names) = names_in(disk, folder)? else { return Ok(()) };
    let is_there = |name: &str| names.iter().any(|its| its == name);
    // First: the release that reads it needs its other files by their old names.
    for name in [file_name::RAFT_STATE, file_name::RAFT_STATE_LEFT] {
        let path = folder.join(name);
        if is_there(name) && raft_state::has_old_name(disk, &path)? {
            return Err(StorageError::OldRaftState { path });
        }
    }
    let found = || old_name::FILES.iter().filter(|(old, _)| is_there(old));
    if let Some((first, _)) = found().next() {
        // A lock stays held when its file is renamed.
        let renames = found().map(|(old, new)| format!(" && mv -n {old} {new}"));
        let command = format!("cd {}{}", quoted(folder), renames.collect::<String>());
        return Err(StorageError::OldName { path: folder.join(first), command });
    }
    Ok(())
}

/// The files in a folder; `None` if it does not exist.
fn names_in(disk: &dyn Disk, folder: &Path) -> Result<Option<Vec<String>>, StorageError> {
    match disk.list(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        names => names.map(Some).during("list", folder),
    }
}

/// Between two renames, there is only what the second would give its place.
fn refuse_staging_alone(disk: &dyn Disk, folder: &Path) -> Result<(), StorageError> {
    let path = folder.with_file_name(file_name::temporary("version-2"));
    let is_there = |folder: &Path| disk.list(folder).is_ok();
    match !is_there(folder) && is_there(&path) {
        true => Err(StorageError::HalfRestored { path }),
        false => Ok(()),
    }
}

/// Refuses data of a restore whose log may be that of before.
pub(crate) fn refuse_half_restored(directory: &DataDirectory) -> Result<(), StorageError> {
    let folder = directory.snapshots();
    let names = directory.disk.list(folder).during("list", folder)?;
    match names.iter().any(|name| name == file_name::RESTORING) {
        true => Err(StorageError::HalfRestored { path: folder.join(file_name::RESTORING) }),
        false => Ok(()),
    }
}

fn open_folder(disk: &dyn Disk, folder: &Path, create: bool) -> Result<(), StorageError> {
    match disk.list(folder) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && create => {
            disk.create_folder(folder).during("create the folder", folder)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(StorageError::FolderMissing { path: folder.to_owned() })
        }
        Err(error) => Err(error).during("list", folder),
    }
}

fn lock(disk: &dyn Disk, folder: &Path) -> Result<Box<dyn Lock>, StorageError> {
    let path = folder.join(file_name::LOCK);
    // A process id says nothing in another container, which has another host name.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let own = match host.trim() {
        "" => std::process::id().to_string(),
        host => format!("{} on {host}", std::process::id()),
    };
    match disk.lock(&path, &own).during("lock", &path)? {
        LockAttempt::Taken(lock) => Ok(lock),
        LockAttempt::Held(holder) => Err(StorageError::Locked { path, holder }),
    }
}

/// Where the folders differ, each holds its own kind of files only.
fn refuse_misplaced(disk: &dyn Disk, snapshots: &Path, logs: &Path) -> Result<(), StorageError> {
    if logs == snapshots {
        return Ok(());
    }
    refuse(disk, snapshots, |name| matches!(name, FileName::Log(_)))?;
    refuse(disk, logs, |name| matches!(name, FileName::Snapshot(..)))
}

fn refuse(
    disk: &dyn Disk,
    folder: &Path,
    misplaced: impl Fn(FileName) -> bool,
) -> Result<(), StorageError> {
    for name in disk.list(folder).during("list", folder)? {
        if misplaced(FileName::parse(&name)) {
            return Err(StorageError::Misplaced { path: folder.join(name) });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::disk::RealDisk;

    fn options(data: &Path, log: &Path, create: bool) -> DirectoryOptions {
        DirectoryOptions { data_dir: data.to_owned(), data_log_dir: log.to_owned(), create }
    }

    #[test]
    fn one_process_per_directory_and_the_refusal_names_it() {
        let root = tempfile::tempdir().expect("folder");
        let (data, log) = (root.path().join("a/data"), root.path().join("a/log"));
        let options = options(&data, &log, true);
        let held = DataDirectory::open(Arc::new(RealDisk), &options).expect("opens");
        // A lock taken through another open file is another holder, also in the same process.
        let error = DataDirectory::open(Arc::new(RealDisk), &options).expect_err("refused");
        let pid = std::process::id();
        assert!(error.to_string().contains(&format!("process {pid} on ")), "{error}");
        drop(held);
        DataDirectory::open(Arc::new(RealDisk), &options).expect("opens again");
    }

    #[test]
    fn a_missing_folder_is_created_only_if_allowed() {
        let root = tempfile::tempdir().expect("folder");
        let data = root.path().join("data");
        let error = DataDirectory::open(Arc::new(RealDisk), &options(&data, &data, false))
            .expect_err("refused");
        assert!(matches!(error, StorageError::FolderMissing { .. }), "{error}");
        assert!(!data.exists());
        DataDirectory::open(Arc::new(RealDisk), &options(&data, &data, true)).expect("opens");
        assert!(data.join("version-2").is_dir());
    }

    #[test]
    fn files_in_the_wrong_folder_abort() {
        for (folder, name) in [("data", "log.1"), ("log", "snapshot.0"), ("log", "snapshot.1.gz")] {
            let root = tempfile::tempdir().expect("folder");
            let (data, log) = (root.path().join("data"), root.path().join("log"));
            let version = root.path().join(folder).join("version-2");
            std::fs::create_dir_all(&version).expect("creates");
            std::fs::write(version.join(name), b"").expect("writes");
            let error = DataDirectory::open(Arc::new(RealDisk), &options(&data, &log, true))
                .expect_err("refused");
            assert!(
                matches!(&error, StorageError::Misplaced { path } if path.ends_with(name)),
                "{error}"
            );
        }
    }

    #[test]
    fn a_path_in_a_command_is_one_word() {
        for (path, word) in [
            ("/var/lib/zookeeper-3.9_x", "/var/lib/zookeeper-3.9_x"),
            ("/my data", "'/my data'"),
            ("/it's;$x", r"'/it'\''s;$x'"),
        ] {
            assert_eq!(quoted(Path::new(path)), word);
        }
    }

    #[test]
    fn leftovers_go_and_foreign_files_stay() {
        let root = tempfile::tempdir().expect("folder");
        let version = root.path().join("version-2");
        std::fs::create_dir_all(&version).expect("creates");
        for name in ["tmp.log.5", "tmp.spare.1", "currentEpoch.tmp", "log.5.tmp", "notes"] {
            std::fs::write(version.join(name), b"x").expect("writes");
        }
        let options = options(root.path(), root.path(), false);
        let open = DataDirectory::open(Arc::new(RealDisk), &options).expect("opens");
        assert_eq!(
            open.disk().list(open.snapshots()).expect("lists"),
            ["ferrokeeper.lock", "log.5.tmp", "notes"]
        );
    }
}
