//! Why a tool could not do what it was asked for: what, where, what to do.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::ConfigError;
use crate::message::MessageId;
use crate::storage::StorageError;

#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("{0}\n  {remedy}", remedy = .0.remedy())]
    Config(#[from] ConfigError),
    #[error("cannot {action} {}: {source}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    #[error(
        "{} is not a data directory: it has no version-2; give dataDir as in zoo.cfg, or the \
         zoo.cfg itself", path.display()
    )]
    NoDataDirectory { path: PathBuf },
    #[error(
        "{} has no log: {}; give the zoo.cfg, which names both folders{}",
        path.display(), where_its_log_is(logs.as_deref()), if_that_is_all(path, logs.as_deref())
    )]
    LogElsewhere { path: PathBuf, logs: Option<PathBuf> },
    #[error(
        "{} says where the log is, and so does --log-dir; leave out --log-dir, or give dataDir \
         instead of the zoo.cfg", config.display()
    )]
    LogNamedTwice { config: PathBuf },
    #[error("{} is in use by process {pid} ({name}); stop it first", path.display())]
    InUse { path: PathBuf, pid: u32, name: String },
    #[error("{} does not match the backup's manifest: {what}; use another backup", path.display())]
    Altered { path: PathBuf, what: &'static str },
    #[error(
        "{} cannot be understood: {reason}; use another backup, or move the manifest away to use \
         the files as they are", path.display()
    )]
    Manifest { path: PathBuf, reason: String },
    #[error("{} has files in it; choose an empty folder{}", path.display(), hint)]
    NotEmpty { path: PathBuf, hint: &'static str },
    #[error(
        "cannot query the AdminServer at {server}: {source}; use --server host:port to name \
         another"
    )]
    Admin { server: String, source: io::Error },
    #[error("{word} is not an error code, exit code, key or message id{}",
       .nearest.map(|name| format!("; \
        did you mean {name}?")).unwrap_or_default())]
    Inexplicable { word: String, nearest: Option<&'static str> },
    #[error("{1}")]
    Refused(MessageId, String),
}

/// As far as anything says it; ZooKeeper says nothing.
fn where_its_log_is(logs: Option<&Path>) -> String {
    match logs {
        Some(logs) => format!("its server keeps the log in {}", logs.display()),
        None => "its snapshots are ZooKeeper's, whose log must be in another folder".to_owned(),
    }
}

/// What to say where the snapshots are all that there is, and nothing says where a log is.
fn if_that_is_all(path: &Path, logs: Option<&Path>) -> String {
    match logs {
        Some(_) => String::new(),
        None => format!(
            "; if there is no log, say so with --log-dir {}, or with a zoo.cfg that has no \
             dataLogDir",
            path.display()
        ),
    }
}

impl CommandError {
    pub(super) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The message that it is.
    pub(super) const fn id(&self) -> MessageId {
        match self {
            Self::Storage(error) => error.id(),
            Self::Config(error) => error.id(),
            Self::Io { .. } => MessageId::TOOL_FILE,
            Self::Output(_) => MessageId::TOOL_OUTPUT,
            Self::NoDataDirectory { .. } => MessageId::NO_DATA_DIRECTORY,
            Self::LogElsewhere { .. } | Self::LogNamedTwice { .. } => MessageId::LOG_FOLDER_UNCLEAR,
            Self::InUse { .. } => MessageId::DIRECTORY_IN_USE,
            Self::Altered { .. } => MessageId::BACKUP_ALTERED,
            Self::Manifest { .. } => MessageId::MANIFEST_UNREADABLE,
            Self::NotEmpty { .. } => MessageId::FOLDER_NOT_EMPTY,
            Self::Admin { .. } => MessageId::ADMIN_SERVER_UNREACHABLE,
            Self::Inexplicable { .. } => MessageId::INEXPLICABLE,
            Self::Refused(id, _) => *id,
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::LogNamedTwice { .. }
            | Self::NotEmpty { .. }
            | Self::Inexplicable { .. } => 2,
            Self::Io { .. }
            | Self::Admin { .. }
            | Self::Output(_)
            | Self::NoDataDirectory { .. }
            | Self::LogElsewhere { .. }
            | Self::InUse { .. }
            | Self::Storage(
                StorageError::Io { .. }
                | StorageError::FolderMissing { .. }
                | StorageError::Locked { .. }
                | StorageError::Moving { .. },
            ) => 3,
            Self::Storage(_) | Self::Altered { .. } | Self::Manifest { .. } | Self::Refused(..) => {
                1
            }
        }
    }
}
