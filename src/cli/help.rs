//! All commands by name: those that ask a server, and those of the shell itself.

use super::commands::COMMANDS;

/// What the shell does itself, and how each is used.
const LOCAL: [(&str, &str); 7] = [
    ("close", ""),
    ("connect", "host:port"),
    ("help", ""),
    ("history", ""),
    ("printwatches", "on|off"),
    ("quit", ""),
    ("redo", "cmdno"),
];

/// Names of all commands, for completion.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.name).chain(LOCAL.map(|(name, _)| name))
}

/// Every command with its usage, a line each, by name.
pub(super) fn usage() -> String {
    let mut lines: Vec<String> = COMMANDS
        .iter()
        .map(|command| (command.name, command.usage))
        .chain(LOCAL)
        .map(|(name, usage)| format!("\t{name} {usage}\n"))
        .collect();
    lines.sort();
    let first = "ZooKeeper -server host:port -client-configuration properties-file cmd args\n";
    format!("{first}{}", lines.concat())
}
