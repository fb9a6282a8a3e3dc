//! The command line: words to a server, a client or a tool, and their end to an exit code.
//!
//! Exit codes of the server are ZooKeeper's: 0 a clean stop, 1 unexpected, 2 bad arguments or
//! configuration, 3 a data directory that cannot be used, 4 an address that cannot be bound. Those
//! of the tools are told by [`ferrokeeper::command`].

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use ferrokeeper::cli::{self, CliArguments};
use ferrokeeper::command::{self, Tool};
use ferrokeeper::config::{self, ConfigError, Define, Refusals, Severity};
use ferrokeeper::logging;
use ferrokeeper::server::{ServerError, Signals};

const BAD_CONFIGURATION: u8 = 2;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A server that speaks ZooKeeper's client protocol and uses ZooKeeper's data directory format.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct CommandLine {
    #[command(flatten)]
    defines: DefinesAhead,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a server, standalone or as a member of an ensemble.
    Server {
        /// Configuration file; without one, the server listens on 127.0.0.1:2181 and keeps its data
        /// in ./ferrokeeper-data.
        #[arg(value_name = "ZOO.CFG")]
        file: Option<PathBuf>,
        #[command(flatten)]
        defines: Defines,
    },
    /// ZooKeeper's shell: run one command, or read commands from standard input.
    #[command(disable_help_flag = true)]
    Cli(CliArguments),
    #[command(flatten)]
    Tool(Tool),
}

/// `-D` after the subcommand.
#[derive(Debug, Args)]
struct Defines {
    /// Set a property, like Java's -D; repeatable. zoo.cfg overrides it.
    #[arg(short = 'D', value_name = "zookeeper.NAME=VALUE")]
    defines: Vec<Define>,
}

/// `-D` ahead of the subcommand: a global argument would keep only one of the two lists.
#[derive(Debug, Args)]
struct DefinesAhead {
    /// Set a property, like Java's -D; repeatable. zoo.cfg overrides it.
    #[arg(short = 'D', value_name = "zookeeper.NAME=VALUE", id = "defines_ahead")]
    ahead: Vec<Define>,
}

fn main() -> ExitCode {
    let CommandLine { defines: DefinesAhead { ahead }, command } = match CommandLine::try_parse() {
        Ok(command_line) => command_line,
        Err(answer) => {
            // Help and version come this way too; nobody may be reading them.
            let _ = answer.print();
            return u8::try_from(answer.exit_code()).unwrap_or(BAD_CONFIGURATION).into();
        }
    };
    match command {
        Command::Server { file, defines: Defines { defines } } => {
            server(file.as_deref(), &[ahead, defines].concat())
        }
        Command::Cli(arguments) => cli::run(&arguments).into(),
        Command::Tool(tool) => {
            let ending = command::run(&tool);
            if let Some(message) = ending.message {
                logging::print(&message);
            }
            ending.code.into()
        }
    }
}

/// Runs a server to its end.
fn server(file: Option<&Path>, defines: &[Define]) -> ExitCode {
    let signals = match Signals::hear() {
        Ok(signals) => signals,
        Err(error) => return ended_by(&ServerError::System("signals", error)),
    };
    let refused = |error: &ConfigError| {
        logging::print(&format!("ferrokeeper: [{}] {error}\n  {}\n", error.id(), error.remedy()));
    };
    let examined = match config::examine(file, defines) {
        Ok(examined) => examined,
        Err(error) => {
            refused(&error);
            return BAD_CONFIGURATION.into();
        }
    };
    let config = match examined.outcome {
        Ok(config) => config,
        Err(Refusals { first, more }) => {
            std::iter::once(&first).chain(&more).for_each(refused);
            return BAD_CONFIGURATION.into();
        }
    };

    logging::start(config.logs.file.as_deref());
    tracing::info!("ferrokeeper {}", env!("CARGO_PKG_VERSION"));
    for note in examined.notes {
        match note.severity {
            Severity::Info => tracing::info!("{}", note.text),
            Severity::Warning(id) => tracing::warn!(%id, "{}", note.text),
        }
    }
    let ended = ferrokeeper::server::run(config, &signals);
    logging::end();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ended_by(&error),
    }
}

fn ended_by(error: &ServerError) -> ExitCode {
    logging::print(&failure(error));
    error.exit_code().into()
}

/// What ended the server, and below it each cause on a line.
fn failure(error: &ServerError) -> String {
    let mut text = format!("ferrokeeper: [{}] {error}\n", error.id());
    let mut cause = error.source();
    while let Some(error) = cause {
        let because = error.to_string();
        if !text.contains(&because) {
            text.push_str(&format!("  because: {because}\n"));
        }
        cause = error.source();
    }
    text
}
