//! A snapshot that is sent takes the place of what a lone server serves.
//!
//! It is written to the disk as it comes, read from there to a state of its own, and handed to the
//! orderer: whatever is wrong with it is found before anything changes.

use std::sync::Arc;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use tokio::sync::oneshot;

use super::commands::Command;
use super::{Admin, CommandAnswer};
use crate::engine::zxid::Zxid;
use crate::ensemble::Inquiry;
use crate::server::figures::series::Counter;
use crate::server::orderer::restoring::tell_not_restored;
use crate::server::shared::Server;
use crate::server::{ServerError, data, memory};
use crate::storage::{StorageError, UploadedSnapshot};

/// Why the state stays what it is.
#[derive(Debug, thiserror::Error)]
enum NotRestored {
    #[error("{0}")]
    Storage(#[from] StorageError),
    #[error("{0}")]
    Server(#[from] ServerError),
    #[error("the snapshot was not received completely: {0}")]
    Cut(#[source] axum::Error),
    #[error("no more of the snapshot arrived within admin.idleTimeout")]
    Silent,
    #[error("a snapshot of {len} bytes does not fit into memory in addition to the served data")]
    NoMemory { len: u64 },
    #[error("{0} of its znodes have ACLs that it does not contain; use another snapshot")]
    NoAcl(u64),
    #[error("the server is ending")]
    Ending,
}

pub(super) async fn answer(
    admin: &Admin,
    server: &Server,
    headers: &HeaderMap,
    body: Body,
) -> Response {
    let refuse = |status, why: &str| {
        CommandAnswer::error(Command::Restore.name(), status, why).into_response()
    };
    if !admin.config.restore_enabled {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "admin.restore.enabled is false");
    }
    if server.config.ensemble.is_some() {
        let why = "a member of an ensemble must keep the data that the others have: stop all \
            servers, make the data directory of one with ferrokeeper restore, and empty the \
            directories of the others";
        return refuse(StatusCode::SERVICE_UNAVAILABLE, why);
    }
    if !admin.restores.allows(Instant::now()) {
        server.stats.series.count(Counter::RestoresRateLimited, 1);
        let why = "too soon after the last one: admin.rateLimiterIntervalInMS";
        return refuse(StatusCode::TOO_MANY_REQUESTS, why);
    }
    let restored = match receive(admin, server, headers, body).await {
        Ok(uploaded) => {
            let _turn = admin.snapshot_turn.lock().await;
            restore(server, uploaded).await
        }
        Err(error) => Err(error),
    };
    match restored {
        Ok(zxid) => {
            let fields = vec![("last_zxid".into(), zxid.0.into())];
            CommandAnswer::of(Command::Restore, fields).into_response()
        }
        Err(error) => {
            server.stats.series.count(Counter::RestoreErrors, 1);
            tell_not_restored(&error);
            refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
        }
    }
}

/// Writes the snapshot to the disk as it comes.
async fn receive(
    admin: &Admin,
    server: &Server,
    headers: &HeaderMap,
    body: Body,
) -> Result<UploadedSnapshot, NotRestored> {
    let reserve = data::log_options(&server.config).reserve();
    let mut uploaded = tokio::task::block_in_place(|| {
        let uploaded = UploadedSnapshot::create(Arc::clone(&server.directory), reserve)?;
        let announced = headers.get(CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
        uploaded.expect(announced.unwrap_or(0)).map(|()| uploaded)
    })?;
    let mut pieces = body.into_data_stream();
    loop {
        let next = pieces.next();
        let piece: Option<Result<Bytes, axum::Error>> = match admin.config.idle_timeout {
            Some(most) => {
                tokio::time::timeout(most, next).await.map_err(|_| NotRestored::Silent)?
            }
            None => next.await,
        };
        let Some(piece) = piece else { return Ok(uploaded) };
        let piece = piece.map_err(NotRestored::Cut)?;
        tokio::task::block_in_place(|| uploaded.write(&piece))?;
    }
}

/// Gives the zxid that the snapshot shows. The state may have got a later one: clients have seen
/// those up to it.
async fn restore(server: &Server, uploaded: UploadedSnapshot) -> Result<Zxid, NotRestored> {
    let (zxid, database) = tokio::task::block_in_place(|| {
        let len = uploaded.size();
        if !memory::has_room(&server.config, len) {
            return Err(NotRestored::NoMemory { len });
        }
        let mut rebuild = data::rebuild(&server.config)?;
        let zxid = uploaded.load(&mut rebuild)?;
        let database = rebuild.finish();
        match database.tree().acls().still_awaited() {
            0 => Ok((zxid, database)),
            znodes => Err(NotRestored::NoAcl(znodes)),
        }
    })?;
    let (asker, restored) = oneshot::channel();
    server.intake.queue.ask(Inquiry::Replace(Box::new(database), asker));
    restored.await.map_err(|_| NotRestored::Ending)??;
    Ok(Zxid(zxid))
}
