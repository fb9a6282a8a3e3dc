//! `ferrokeeper cli`: ZooKeeper's shell, zkCli.sh, without Java.
//!
//! It knows the protocol's records and nothing of the server beside it. Commands, what they print
//! where, and exit codes are zkCli's of 3.9.5; `--json`, `watch`, `tree` and `help` are its own.
//!
//! A run is a `shell`: it reads each `line`, finds the one of the `commands` that it names, reads
//! its `arguments`, and has it ask by a `client`, which has a `connection`. What comes back is
//! shown by `print`; what comes unasked, an `event`, goes through `events`.

mod arguments;
mod client;
mod commands;
mod complete;
mod connection;
mod error;
mod event;
mod events;
mod help;
mod line;
mod options;
mod path;
mod print;
mod servers;
mod shell;
mod watches;

#[cfg(test)]
mod hostile_test;

use std::io::Write as _;

use clap::Args;

use options::Purpose;
use shell::Shell;

/// The options and the command, in zkCli's form: options of several letters have one hyphen.
#[derive(Debug, Args)]
pub struct CliArguments {
    #[arg(value_name = "OPTIONS, COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// Exit code of words that make no sense; those of commands are zkCli's.
const USAGE: u8 = 2;

/// Runs the client to its end; returns the exit code.
#[must_use]
pub fn run(arguments: &CliArguments) -> u8 {
    match options::parse(&arguments.words) {
        Ok(Purpose::Run(options)) => Shell::new(options).run(),
        Ok(Purpose::Help) => {
            // Nobody may be reading.
            let _ = std::io::stdout().write_all(options::USAGE.as_bytes());
            0
        }
        Err(why) => {
            let _ = std::io::stderr().write_all(format!("ferrokeeper: {why}\n").as_bytes());
            USAGE
        }
    }
}
