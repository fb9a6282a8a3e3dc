//! `watch`: each change of a znode, or of all below it, as it comes.

use std::time::{Duration, SystemTime};

use jute::ErrorCode;
use jute::protocol::AddWatchMode;
use serde_json::json;
use time::OffsetDateTime;
use time::macros::format_description;

use super::{Session, word};
use crate::cli::arguments::Arguments;
use crate::cli::client::Client;
use crate::cli::error::CliError;
use crate::cli::event::{Event, EventKind, KeeperState};
use crate::cli::print::Output;

/// Between two attempts to watch again when no server is there.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs until the process is ended, or nobody reads any more.
pub(super) fn follow(arguments: &Arguments, session: &mut Session<'_>) -> Result<(), CliError> {
    let path = word(arguments, 0);
    let mode = match arguments.has("r") {
        true => AddWatchMode::PersistentRecursive,
        false => AddWatchMode::Persistent,
    };
    let events = session.events.taken();
    session.client.add_watch(path, mode)?;
    let told = format!("watching {path}; press Ctrl-C to stop");
    told_or_shown(session.out, "Watching", &told)?;
    // A session of its own, where the first one is gone.
    let mut again: Option<Client> = None;
    let mut connected = true;
    while let Ok(event) = events.recv() {
        match event.state {
            _ if event.kind != EventKind::None => show(&event, session.out)?,
            KeeperState::Disconnected => {
                connected = false;
                told_or_shown(session.out, "Disconnected", "disconnected; reconnecting")?;
            }
            KeeperState::SyncConnected | KeeperState::ConnectedReadOnly if !connected => {
                connected = true;
                let told = "reconnected; changes made in between are not shown";
                told_or_shown(session.out, "SyncConnected", told)?;
            }
            KeeperState::Expired => {
                told_or_shown(
                    session.out,
                    "Expired",
                    "the session has expired; watching with a new session",
                )?;
                let old = again.as_ref().unwrap_or(session.client);
                again = Some(watch_again(old, session, path, mode)?);
                told_or_shown(session.out, "Watching", &told)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// A new session that watches the same, once there is a server.
fn watch_again(
    old: &Client,
    session: &Session<'_>,
    path: &str,
    mode: AddWatchMode,
) -> Result<Client, CliError> {
    let client = old.another(session.events).map_err(CliError::Thread)?;
    loop {
        match client.add_watch(path, mode) {
            Err(error) if error.is(ErrorCode::ConnectionLoss) => std::thread::sleep(PAUSE),
            other => return other.map(|()| client),
        }
    }
}

fn show(event: &Event, out: &mut Output) -> Result<(), CliError> {
    let path = event.path.as_deref().unwrap_or_default();
    let zxid = (event.zxid > 0).then(|| format!("{:#x}", event.zxid));
    let (time, kind) = (now(), event.kind);
    if out.is_json() {
        out.field("time", time);
        out.field("kind", format!("{kind:?}"));
        out.field("path", path);
        out.field("zxid", json!(zxid));
        return out.finish();
    }
    let zxid = zxid.as_deref().unwrap_or("-");
    out.line(format_args!("{time}  {zxid:<12} {:<19}  {path}", format!("{kind:?}")))?;
    out.flush()
}

/// What became of the connection: on standard error, or a document.
fn told_or_shown(out: &mut Output, state: &str, told: &str) -> Result<(), CliError> {
    if out.is_json() {
        out.field("time", now());
        out.field("state", state);
        return out.finish();
    }
    out.error_line(format_args!("{told}"));
    Ok(())
}

fn now() -> String {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");
    OffsetDateTime::from(SystemTime::now()).format(&format).unwrap_or_default()
}
