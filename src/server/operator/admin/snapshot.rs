//! A snapshot of this instant: taken, and sent if that is wanted.

use std::time::Instant;

use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::oneshot;

use super::commands::Command;
use super::{Admin, CommandAnswer, parameter};
use crate::engine::zxid::Zxid;
use crate::ensemble::Inquiry;
use crate::message::MessageId;
use crate::server::figures::series::Counter;
use crate::server::shared::Server;
use crate::storage::{SnapshotFile, StorageError};

const LAST_ZXID: HeaderName = HeaderName::from_static("last_zxid");
const SNAPSHOT_SIZE: HeaderName = HeaderName::from_static("snapshot_size");
/// Bytes that are read and sent at once.
const PIECE: usize = 256 << 10;

pub(super) async fn answer(admin: &Admin, server: &Server, query: &str) -> Response {
    let refuse = |status, why: &str| {
        CommandAnswer::error(Command::Snapshot.name(), status, why).into_response()
    };
    if !admin.config.snapshot_enabled {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "admin.snapshot.enabled is false");
    }
    if !admin.snapshots.allows(Instant::now()) {
        server.stats.series.count(Counter::SnapshotsRateLimited, 1);
        let why = "too soon after the last one: admin.rateLimiterIntervalInMS";
        return refuse(StatusCode::TOO_MANY_REQUESTS, why);
    }
    match take(server).await {
        Ok(Some(taken)) => taken.into_response(query),
        Ok(None) => {
            server.stats.series.count(Counter::SnapshotErrors, 1);
            refuse(
                StatusCode::INTERNAL_SERVER_ERROR,
                "a snapshot could not be taken; the log says why",
            )
        }
        Err(error) => {
            server.stats.series.count(Counter::SnapshotErrors, 1);
            tracing::error!(
                id = %MessageId::SNAPSHOT_NOT_SERVED,
                %error,
                "the requested snapshot cannot be read"
            );
            refuse(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the snapshot cannot be read; the log says why",
            )
        }
    }
}

/// A snapshot that is on the disk.
struct Taken {
    zxid: Zxid,
    size: u64,
    file: SnapshotFile,
}

/// Nothing if none could be taken.
async fn take(server: &Server) -> Result<Option<Taken>, StorageError> {
    let (asker, taken) = oneshot::channel();
    server.intake.queue.ask(Inquiry::Snapshot(asker));
    let Ok(zxid) = taken.await else { return Ok(None) };
    let open = || {
        let file = SnapshotFile::open(&server.directory, zxid.0)?;
        Ok(Some(Taken { zxid, size: file.size()?, file }))
    };
    tokio::task::block_in_place(open)
}

impl Taken {
    fn into_response(self, query: &str) -> Response {
        let Self { zxid, size, file } = self;
        let mut headers = HeaderMap::new();
        headers.insert(SNAPSHOT_SIZE, size.into());
        if let Ok(zxid) = HeaderValue::try_from(zxid.to_string()) {
            headers.insert(LAST_ZXID, zxid);
        }
        let streaming = parameter(query, "streaming");
        if streaming.is_some_and(|value| !value.eq_ignore_ascii_case("true")) {
            let answer = CommandAnswer::of(Command::Snapshot, Vec::new());
            return CommandAnswer { headers, ..answer }.into_response();
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(CONTENT_LENGTH, size.into());
        let pieces = stream::try_unfold((file, 0), move |(file, offset)| async move {
            let len = usize::try_from(size - offset).unwrap_or(usize::MAX).min(PIECE);
            if len == 0 {
                return Ok::<_, StorageError>(None);
            }
            let mut piece = vec![0; len];
            tokio::task::block_in_place(|| file.read(&mut piece, offset))?;
            Ok(Some((Bytes::from(piece), (file, offset + len as u64))))
        });
        (headers, Body::from_stream(pieces)).into_response()
    }
}
