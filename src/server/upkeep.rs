//! What goes on beside the requests: spare log segments and the purge of old files.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::password::Passwords;
use super::shared::Server;
use crate::config::Purge;
use crate::storage::{self, FillStep, SpareFiller};

/// Between two slices of a spare: a megabyte at a time, so that the log's sync never queues behind more.
const BETWEEN_SLICES: Duration = Duration::from_millis(25);
/// Between a spare that failed and the next one.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(10);
/// Between two purges where zoo.cfg says nothing.
const PURGE_INTERVAL: Duration = Duration::from_secs(3600);
/// Between two looks at whether a spare is wanted.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// Fills spares until the process ends. A failure is told, once until it is over: the log goes on without spares.
pub(super) fn fill_spares(mut filler: SpareFiller) {
    let fill = move || {
        let mut has_failed = false;
        loop {
            match filler.step() {
                Ok(FillStep::Filled(_)) => thread::sleep(BETWEEN_SLICES),
                Ok(FillStep::Ready | FillStep::Idle) => {
                    has_failed = false;
                    thread::sleep(BETWEEN_LOOKS);
                }
                Err(error) => {
                    if !has_failed {
                        tracing::error!(%error, "cannot prepare a log segment ahead, tried again");
                    }
                    has_failed = true;
                    thread::sleep(BETWEEN_ATTEMPTS);
                }
            }
        }
    };
    if let Err(error) = thread::Builder::new().name("spares".to_owned()).spawn(fill) {
        tracing::error!(%error, "no log segments are prepared ahead");
    }
}

/// How often to purge: as zoo.cfg says, and where it says nothing, only in a directory that this server began or an
/// operator sealed. Whoever comes from ZooKeeper has a purge of his own, or wants none.
pub(super) fn purge_interval(server: &Server) -> Option<Duration> {
    match (server.config.purge, server.passwords.as_ref()) {
        (Purge::Every(interval), _) => Some(interval),
        (Purge::Unset, Passwords::Keyed(..)) => Some(PURGE_INTERVAL),
        (Purge::Unset, Passwords::Zookeeper) | (Purge::Never, _) => None,
    }
}

/// Purges old snapshots and logs, at the start and then every interval.
pub(super) async fn purge(server: Arc<Server>, every: Duration) {
    let mut turns = tokio::time::interval(every);
    loop {
        tokio::select! {
            _ = turns.tick() => {}
            () = server.ending.cancelled() => return,
        }
        let directory = Arc::clone(&server.directory);
        let keep = server.config.snap_retain_count as usize;
        let purged = tokio::task::spawn_blocking(move || storage::purge(&directory, keep)).await;
        match purged {
            Ok(Ok(purged)) => tracing::info!(?purged, "purged old snapshots and logs"),
            Ok(Err(error)) => tracing::error!(%error, "cannot purge old snapshots and logs"),
            Err(error) => tracing::error!(%error, "purging ended unexpectedly"),
        }
    }
}
