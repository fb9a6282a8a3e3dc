//! A znode and what is below it.

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;

use jute::protocol::MultiResult;

use super::{Session, word};
use crate::cli::arguments::{Arguments, listed};
use crate::cli::client::Client;
use crate::cli::connection::Reply;
use crate::cli::error::CliError;
use crate::cli::path::{child, validate};
use crate::cli::print;

/// Deletes in one request.
const BATCH: i32 = 1000;
/// Requests whose answers are not waited for.
const IN_FLIGHT_MAX: usize = 10;

pub(super) fn list(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let Session { client, out, .. } = session;
    let path = word(arguments, 0);
    let watch = arguments.has("w");
    if arguments.has("?") {
        out.text(format_args!("usage: ls [options] path\n{}", listed(super::LS_OPTIONS)))?;
    }
    out.field("path", path);
    if arguments.has("R") {
        return client.walk(path, watch, &mut |path| {
            out.element("paths", path);
            out.line(format_args!("{path}"))
        });
    }
    let (names, stat) = client.children(path, watch)?;
    out.line(format_args!("{}", print::list(&names)))?;
    out.field("children", names);
    out.stat(&stat, arguments.has("s"))
}

pub(super) fn delete_all(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let batch = arguments.value("b").map_or(Ok(BATCH), str::parse::<i32>);
    let batch =
        batch.map_err(|_| CliError::Malformed("-b argument must be an int value".to_owned()))?;
    let path = word(arguments, 0);
    validate(path).map_err(CliError::Malformed)?;
    let mut paths = everything_below(session.client, path)?;
    paths.reverse();
    let done = match usize::try_from(batch) {
        Ok(batch) if batch > 0 => delete_in_batches(session.client, &paths, batch),
        _ => {
            for path in &paths {
                session.client.delete(path, -1)?;
            }
            true
        }
    };
    session.out.field("deleted", if done { paths } else { Vec::new() });
    if !done {
        session.out.error_line(format_args!("Failed to delete some node(s) in the subtree!"));
    }
    Ok(())
}

/// The path, and what is below it after what it is below of.
fn everything_below(client: &Client, path: &str) -> Result<Vec<String>, CliError> {
    let mut paths = vec![path.to_owned()];
    let mut next = 0;
    while let Some(parent) = paths.get(next).cloned() {
        let (names, _) = client.children(&parent, false)?;
        paths.extend(names.iter().map(|name| child(&parent, name)));
        next += 1;
    }
    Ok(paths)
}

/// Whether all of them are gone. What follows a failure is not sent.
fn delete_in_batches(client: &Client, paths: &[String], batch: usize) -> bool {
    let mut in_flight: VecDeque<Receiver<Reply>> = VecDeque::new();
    let mut batches = paths.chunks(batch);
    let mut done = true;
    loop {
        if done
            && in_flight.len() < IN_FLIGHT_MAX
            && let Some(batch) = batches.next()
        {
            in_flight.push_back(client.delete_together(batch));
            continue;
        }
        let Some(answer) = in_flight.pop_front() else { return done };
        done &= answer.recv().is_ok_and(|reply| reply.is_ok_and(|body| all_done(&body)));
    }
}

/// Whether a multi did everything.
fn all_done(body: &[u8]) -> bool {
    MultiResult::decode_all(body)
        .is_ok_and(|results| !results.iter().any(|result| matches!(result, MultiResult::Error(_))))
}
