//! The tools: words on the command line to a report on standard output and an exit code.
//!
//! Each tool has a file. What is read and written in a data directory is
//! [`storage`](crate::storage)'s business; here it is asked for and shown. A tool that only shows
//! can run beside a server. One that changes takes the lock of the directory first, and says with
//! `--dry-run` what it would do. Nothing here logs.

mod backup;
mod config;
mod directory;
mod error;
mod explain;
mod log;
mod membership;
mod migrate;
mod output;
mod place;
mod progress;
mod restore;
mod snapshot;
mod state;
mod top;
mod txn;
mod way_back;
mod words;

use clap::Subcommand;

pub use backup::BackupArguments;
pub use config::{CheckConfig, ConfigCommand};
pub use directory::{DataCommand, SafeChange, Truncate};
pub use explain::ExplainArguments;
pub use log::{LogCommand, ShowLog};
pub use migrate::MigrateCommand;
pub use place::Place;
pub use restore::RestoreArguments;
pub use snapshot::{ShowSnapshot, SnapshotCommand};
pub use top::TopArguments;

use output::Output;

/// A tool and its arguments.
#[derive(Debug, Subcommand)]
pub enum Tool {
    /// Show, verify or compare snapshots.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Show or verify transaction logs.
    #[command(subcommand)]
    Log(LogCommand),
    /// Check a data directory, cut its log, or seal it.
    #[command(subcommand)]
    Data(DataCommand),
    /// Copy the data directory of a running or stopped server.
    Backup(BackupArguments),
    /// Create a data directory from a backup, or from a copy of a ZooKeeper data directory.
    Restore(RestoreArguments),
    /// Check a configuration without starting a server.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Prepare a move from Apache ZooKeeper.
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Explain an error code, an exit code, a key of zoo.cfg or a message id, and say what to do.
    Explain(ExplainArguments),
    /// Show what a running server is doing, every second, as its AdminServer reports it.
    Top(TopArguments),
}

/// What a tool found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    /// Nothing is wrong.
    Fine,
    /// Something is wrong, and was told.
    Problems,
    /// A start would be refused, and why was told.
    Refused,
}

/// How a tool ended.
#[derive(Debug)]
pub struct Ending {
    /// 0 fine, 1 problems, 2 usage, 3 cannot read or write.
    pub code: u8,
    /// The last words, for standard error.
    pub message: Option<String>,
}

/// Runs a tool to its end.
#[must_use]
pub fn run(tool: &Tool) -> Ending {
    let mut out = Output::new();
    let ended = match tool {
        Tool::Snapshot(command) => snapshot::run(command, &mut out),
        Tool::Log(command) => log::run(command, &mut out),
        Tool::Data(command) => directory::run(command, &mut out),
        Tool::Backup(arguments) => backup::run(arguments, &mut out),
        Tool::Restore(arguments) => restore::run(arguments, &mut out),
        Tool::Config(command) => config::run(command, &mut out),
        Tool::Migrate(command) => migrate::run(command, &mut out),
        Tool::Top(arguments) => top::run(arguments, &mut out).map(|()| Finding::Fine),
        Tool::Explain(arguments) => explain::run(arguments, &mut out).map(|()| Finding::Fine),
    };
    let flushed = out.flush();
    match ended.and_then(|verdict| flushed.map(|()| verdict)) {
        Ok(Finding::Fine) => Ending { code: 0, message: None },
        Ok(Finding::Problems) => Ending { code: 1, message: None },
        Ok(Finding::Refused) => Ending { code: 2, message: None },
        // Whoever read the output has had enough.
        Err(error) if error.is_broken_pipe() => Ending { code: 0, message: None },
        Err(error) => {
            let message = format!("ferrokeeper: [{}] {error}\n", error.id());
            Ending { code: error.exit_code(), message: Some(message) }
        }
    }
}
