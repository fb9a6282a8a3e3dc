//! What a change is told that loses nothing.

use clap::Args;

use crate::command::place::Place;

/// A change that loses nothing.
#[derive(Debug, Args)]
pub struct SafeChange {
    #[command(flatten)]
    pub(super) place: Place,
    /// Only report what would be done.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
}
