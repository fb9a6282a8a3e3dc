//! Watches that stay, and their removal.

use jute::protocol::{AddWatchMode, WatcherType};

use super::{Session, word};
use crate::cli::arguments::Arguments;
use crate::cli::error::CliError;

pub(super) fn add_watch(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let mode = match arguments.value("m").map(str::to_uppercase).as_deref() {
        None | Some("PERSISTENT_RECURSIVE") => AddWatchMode::PersistentRecursive,
        Some("PERSISTENT") => AddWatchMode::Persistent,
        Some(_) => return Err(CliError::Usage),
    };
    let path = word(arguments, 0);
    session.client.add_watch(path, mode)?;
    session.out.field("watching", path);
    Ok(())
}

pub(super) fn remove_watches(
    arguments: &Arguments,
    session: &mut Session<'_>,
) -> Result<(), CliError> {
    let which = [
        ("c", WatcherType::Children),
        ("d", WatcherType::Data),
        ("p", WatcherType::Persistent),
        ("r", WatcherType::PersistentRecursive),
    ];
    let asked = which.iter().find(|(option, _)| arguments.has(option));
    let which = asked.map_or(WatcherType::Any, |(_, which)| *which);
    let path = word(arguments, 0);
    session.client.remove_watches(path, which, arguments.has("l"))?;
    session.out.field("removed", path);
    Ok(())
}
