//! `top`: what a running server does, from its AdminServer, each second.

mod admin;
mod sample;

use std::error::Error as _;
use std::io::{self, IsTerminal as _};
use std::thread;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::error::CommandError;
use super::output::Output;

use sample::{Sample, Turn};

const TURN: Duration = Duration::from_secs(1);
/// To the upper left corner, and nothing on the screen.
const NEW_SCREEN: &str = "\x1b[H\x1b[2J";

/// Whom to ask, and how long.
#[derive(Debug, Args)]
pub struct TopArguments {
    /// Address of the server's AdminServer.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8080")]
    server: String,
    /// Show one second, then exit.
    #[arg(long)]
    once: bool,
    /// Print one JSON object per second.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &TopArguments, out: &mut Output) -> Result<(), CommandError> {
    let server = &arguments.server;
    let take = || {
        Sample::take(server)
            .map_err(|source| CommandError::Admin { server: server.clone(), source })
    };
    let redraws = !arguments.json && !arguments.once && io::stdout().is_terminal();
    let mut before = take()?;
    let start = if redraws { NEW_SCREEN } else { "" };
    loop {
        thread::sleep(TURN);
        let after = match take() {
            Ok(after) => after,
            Err(error) if arguments.once => return Err(error),
            // A server that restarts is there again soon.
            Err(error) => {
                let error = in_one_line(&error);
                if arguments.json {
                    out.json(&Failed { error })?;
                } else {
                    out.line(format_args!("{start}{server}  {error}; trying again"))?;
                }
                out.flush()?;
                continue;
            }
        };
        let turn = Turn::between(&before, &after);
        if arguments.json {
            out.json(&turn)?;
        } else {
            show(start, server, &turn, out)?;
        }
        out.flush()?;
        if arguments.once {
            return Ok(());
        }
        before = after;
    }
}

/// A second of which nothing is known.
#[derive(Serialize)]
struct Failed {
    error: String,
}

fn in_one_line(error: &CommandError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn show(start: &str, server: &str, turn: &Turn, out: &mut Output) -> Result<(), CommandError> {
    out.line(format_args!("{start}{server}  {}", turn.role))?;
    out.line(format_args!(
        "requests     {}/s, {} outstanding",
        turn.requests_per_second, turn.outstanding_requests
    ))?;
    out.line(format_args!(
        "latency      {:.1} ms on average, {} ms maximum since the start",
        turn.avg_latency, turn.max_latency
    ))?;
    out.line(format_args!(
        "connections  {}, {} watches, {} znodes",
        turn.connections, turn.watches, turn.znodes
    ))?;
    for (peer, stands) in turn.peers() {
        out.line(format_args!("server {peer}     {stands}"))?;
    }
    out.line(format_args!("\n{:>10}  {:<18}  address", "requests/s", "session"))?;
    for busy in &turn.busiest {
        out.line(format_args!(
            "{:>10}  {:<18}  {}",
            busy.requests_per_second, busy.session, busy.address
        ))?;
    }
    if let Some(paths) = &turn.hot_paths {
        out.line(format_args!("\n{:>10}  {:>10}  path", "reads/s", "writes/s"))?;
        for hot in paths {
            out.line(format_args!(
                "{:>10}  {:>10}  {}",
                hot.reads_per_second, hot.writes_per_second, hot.path
            ))?;
        }
    }
    out.line(format_args!(""))
}
