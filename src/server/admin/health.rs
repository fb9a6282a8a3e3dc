//! `/health/live` and `/health/ready`: what an orchestrator asks. ZooKeeper has neither.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};

use super::json::{Fields, Json};
use super::{allowed, json_body, not_found};
use crate::server::shared::{Role, Server};

pub(super) fn answer(probe: &str, method: &Method, server: Option<&Arc<Server>>) -> Response {
    let (what, reason) = match probe {
        // Whoever answers lives.
        "live" => ("live", None),
        "ready" => ("ready", server.map_or(Some(READS), |server| not_ready(server))),
        _ => return not_found(),
    };
    if !matches!(*method, Method::GET | Method::HEAD) {
        return allowed(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD");
    }
    let mut fields: Fields = vec![(what.into(), reason.is_none().into())];
    if let Some(server) = server {
        fields.push(("server_state".into(), server.role.get().to_string().into()));
    }
    fields.push(("reason".into(), reason.map_or(Json::Null, Json::from)));
    let status = match reason {
        None => StatusCode::OK,
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, json_body(fields)).into_response()
}

const READS: &str = "it is reading its data directory";

/// Why clients would be turned away, if they would.
fn not_ready(server: &Server) -> Option<&'static str> {
    match server.role.get() {
        Role::Standalone | Role::Follower | Role::Observer | Role::Leader => None,
        Role::Reading => Some(READS),
        // Nothing is known of the others before it has read what it has.
        Role::None if server.others.voters.load(Ordering::Relaxed) == 0 => Some(
            "it is reading its data directory, or waiting for other servers to form an ensemble",
        ),
        Role::None => Some("there is no leader, or this server cannot reach it"),
    }
}
