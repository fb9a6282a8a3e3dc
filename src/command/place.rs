//! Which folders a tool works on.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::error::CommandError;
use super::snapshot::name_zxid;
use crate::config;
use crate::engine::database::Rules;
use crate::ensemble::Rebuild;
use crate::storage::{
    self, DataDirectory, DirectoryOptions, Disk as _, StorageError, ToolDisk, Writer,
};

/// A data directory by its folder or by its zoo.cfg.
#[derive(Clone, Debug, Args)]
pub struct Place {
    /// dataDir, or a zoo.cfg that names it.
    #[arg(value_name = "DIR|ZOO.CFG")]
    at: PathBuf,
    /// dataLogDir, if it is a different folder.
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
}

/// A place looked up.
#[derive(Clone, Debug)]
pub(super) struct Folders {
    pub(super) data_dir: PathBuf,
    pub(super) data_log_dir: PathBuf,
    extended_types: bool,
    /// A dataDir was given alone: nobody has said where its log is.
    is_alone: bool,
}

impl Place {
    pub(super) fn of_folder(at: &Path) -> Self {
        Self { at: at.to_owned(), log_dir: None }
    }

    pub(super) fn of_folders(data_dir: &Path, log_dir: &Path) -> Self {
        Self { at: data_dir.to_owned(), log_dir: Some(log_dir.to_owned()) }
    }

    pub(super) fn folders(&self) -> Result<Folders, CommandError> {
        if self.at.is_file() || is_missing_configuration(&self.at) {
            if self.log_dir.is_some() {
                return Err(CommandError::LogNamedTwice { config: self.at.clone() });
            }
            return Ok(Folders::of_config(&config::load(Some(&self.at), &[])?.config));
        }
        let data_dir = above_version(&self.at);
        let data_log_dir = self.log_dir.as_deref().map_or_else(|| data_dir.clone(), above_version);
        let is_alone = self.log_dir.is_none();
        Ok(Folders { data_dir, data_log_dir, extended_types: false, is_alone })
    }
}

/// A zoo.cfg that is misspelt is not a folder to be made.
fn is_missing_configuration(at: &Path) -> bool {
    at.extension().is_some_and(|extension| extension == "cfg") && !at.exists()
}

/// Who names `version-2` itself means the folder above.
fn above_version(path: &Path) -> PathBuf {
    match (path.file_name(), path.parent()) {
        (Some(name), Some(parent)) if name == "version-2" => {
            if parent.as_os_str().is_empty() {
                PathBuf::from(".")
            } else {
                parent.to_owned()
            }
        }
        _ => path.to_owned(),
    }
}

impl Folders {
    pub(super) fn of_config(config: &config::Config) -> Self {
        Self {
            data_dir: config.data_dir.clone(),
            data_log_dir: config.data_log_dir.clone(),
            extended_types: config.extended_types_enabled,
            is_alone: false,
        }
    }

    /// The same, where znodes with a time to live are known by their mark.
    pub(super) fn with_extended_types(self) -> Self {
        Self { extended_types: true, ..self }
    }

    /// Looks at the directory, whoever uses it.
    pub(super) fn look(&self) -> Result<DataDirectory, CommandError> {
        self.expect()?;
        let folder = |dir: &Path| dir.join("version-2");
        let (data, log) = (folder(&self.data_dir), folder(&self.data_log_dir));
        Ok(DataDirectory::look(Arc::new(ToolDisk), data, log)?)
    }

    /// Takes the directory, so that no server can start on it.
    pub(super) fn take(&self) -> Result<DataDirectory, CommandError> {
        self.expect()?;
        self.expect_unused()?;
        let options = DirectoryOptions {
            data_dir: self.data_dir.clone(),
            data_log_dir: self.data_log_dir.clone(),
            create: false,
        };
        Ok(DataDirectory::open(Arc::new(ToolDisk), &options)?)
    }

    /// Takes what is there of the two folders, to put something else in its place.
    pub(super) fn hold(&self) -> Result<Vec<DataDirectory>, CommandError> {
        self.expect_unused()?;
        let mut dirs = vec![&self.data_dir];
        if self.data_log_dir != self.data_dir {
            dirs.push(&self.data_log_dir);
        }
        let mut held = Vec::new();
        for dir in dirs.into_iter().filter(|dir| dir.join("version-2").is_dir()) {
            let options = DirectoryOptions {
                data_dir: dir.clone(),
                data_log_dir: dir.clone(),
                create: false,
            };
            held.push(DataDirectory::open(Arc::new(ToolDisk), &options)?);
        }
        Ok(held)
    }

    fn expect(&self) -> Result<(), CommandError> {
        for dir in [&self.data_dir, &self.data_log_dir] {
            if !dir.join("version-2").is_dir() {
                return Err(CommandError::NoDataDirectory { path: dir.clone() });
            }
        }
        self.expect_log()
    }

    /// A dataDir alone is not taken for all of a directory whose log is in another folder.
    pub(super) fn expect_log(&self) -> Result<(), CommandError> {
        let version = self.data_dir.join("version-2");
        if !self.is_alone || !version.is_dir() {
            return Ok(());
        }
        let directory = DataDirectory::look(Arc::new(ToolDisk), version.clone(), version.clone())?;
        if !storage::logs_in(&ToolDisk, &version)?.is_empty() {
            return Ok(());
        }
        let logs = storage::log_folder(&ToolDisk, &version)?;
        let is_elsewhere = match &logs {
            // A start needs none then. One that is there is part of the directory all the same.
            Some(logs) if storage::needs_no_log(&directory)? => has_logs(logs)?,
            Some(logs) => !is_one_folder(logs, &version),
            None => is_cut_off(&directory)?,
        };
        match is_elsewhere {
            true => Err(CommandError::LogElsewhere { path: self.data_dir.clone(), logs }),
            false => Ok(()),
        }
    }

    /// Whether a dataDir was given alone whose one file is a snapshot, as a server sends it.
    pub(super) fn is_snapshot_only(&self) -> Result<bool, CommandError> {
        let version = self.data_dir.join("version-2");
        if !self.is_alone || !version.is_dir() {
            return Ok(false);
        }
        let failed = |source| CommandError::Io { action: "list", path: version.clone(), source };
        let names = ToolDisk.list(&version).map_err(failed)?;
        let [name] = names.as_slice() else { return Ok(false) };
        Ok(name_zxid(Path::new(name)).is_some())
    }

    /// The same, where it is known that there is no log in another folder.
    pub(super) fn with_all_there(self) -> Self {
        Self { is_alone: false, ..self }
    }

    /// ZooKeeper takes no lock. As far as this user may see, no process has a file of the directory
    /// open.
    pub(super) fn expect_unused(&self) -> Result<(), CommandError> {
        for dir in [&self.data_dir, &self.data_log_dir] {
            let Ok(folder) = dir.join("version-2").canonicalize() else { continue };
            if let Some((pid, name)) = user_of(&folder) {
                return Err(CommandError::InUse { path: dir.clone(), pid, name });
            }
        }
        Ok(())
    }

    /// An empty state for what the directory holds.
    pub(super) fn rebuild(&self, directory: &DataDirectory) -> Result<Rebuild, StorageError> {
        let rules = Rules { extended_types: self.extended_types, ..Rules::default() };
        // Nobody chooses names against the hashes of a tool.
        Rebuild::new(0, rules).of(directory)
    }
}

/// Whether `named`, which may be relative to where a server ran, is this folder.
fn is_one_folder(named: &Path, folder: &Path) -> bool {
    let (Ok(its), Ok(folder)) = (named.canonicalize(), folder.canonicalize()) else {
        return named == folder;
    };
    its == folder
}

/// Whether there are logs in `folder`, if that is there.
fn has_logs(folder: &Path) -> Result<bool, StorageError> {
    match storage::logs_in(&ToolDisk, folder) {
        Err(StorageError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(false)
        }
        logs => Ok(!logs?.is_empty()),
    }
}

/// Whether the newest snapshot is ZooKeeper's and shows transactions. ZooKeeper never parts it from
/// the log of before it.
fn is_cut_off(directory: &DataDirectory) -> Result<bool, StorageError> {
    let newest = storage::writers(directory)?.into_iter().next();
    Ok(newest.is_some_and(|(path, writer)| {
        writer == Some(Writer::ZooKeeper) && name_zxid(&path) > Some(0)
    }))
}

/// A process with a file of `folder` open, by its number and its program.
fn user_of(folder: &Path) -> Option<(u32, String)> {
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(open) = std::fs::read_dir(process.path().join("fd")) else { continue };
        let mut files = open.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
        if pid != std::process::id() && files.any(|file| file.parent() == Some(folder)) {
            let program = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            return Some((pid, program.trim().to_owned()));
        }
    }
    None
}
