//! `data`: a data directory as a whole, checked or changed. Each command has a file.

mod change;
mod check;
mod cut;
mod first_snapshot;
mod leave;
mod loss;
mod seal;

use clap::Subcommand;

use super::Finding;
use super::error::CommandError;
use super::output::Output;
use super::place::Place;

pub use change::SafeChange;
pub use cut::Truncate;

/// Check a data directory, cut its log, or seal it.
#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Report what a start would find and what is wrong. Changes nothing; a server may be running.
    Check {
        #[command(flatten)]
        place: Place,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Cut the log after a zxid. The next start sees nothing after it; later files are moved aside.
    Truncate(Truncate),
    /// Complete the move to ferrokeeper: ZooKeeper's files may be purged, and new session passwords
    /// are derived from a key. Going back to ZooKeeper then ends the sessions opened since.
    Seal(SafeChange),
    /// Detach a member's directory from its ensemble, so that it can start standalone or found
    /// another ensemble. Use it when the ensemble has lost its majority for good. Reports what is
    /// lost.
    Leave(SafeChange),
    /// Write a snapshot of the empty tree, if no snapshot can be read and the logs hold every
    /// transaction from the first on.
    FirstSnapshot(SafeChange),
}

pub(super) fn run(command: &DataCommand, out: &mut Output) -> Result<Finding, CommandError> {
    match command {
        DataCommand::Check { place, json } => check::check(place, *json, out),
        DataCommand::Truncate(truncate) => cut::cut(truncate, out),
        DataCommand::Seal(change) => seal::seal(change, out),
        DataCommand::Leave(change) => leave::leave(change, out),
        DataCommand::FirstSnapshot(change) => first_snapshot::first_snapshot(change, out),
    }
}
