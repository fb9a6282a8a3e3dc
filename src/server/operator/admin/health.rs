//! `/health/live` and `/health/ready`: what an orchestrator asks. ZooKeeper has neither.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};

use super::json::{Fields, Json};
use super::{allowed, json_body, not_found};
use crate::server::role::Role;
use crate::server::shared::Server;

pub(super) fn answer(probe: &str, method: &Method, server: Option<&Arc<Server>>) -> Response {
    let (what, reason) = match probe {
        // Whoever answers lives.
        "live" => ("live", None),
        "ready" => ("ready", server.map_or_else(|| Some(READS.into()), |server| not_ready(server))),
        _ => return not_found(),
    };
    if !matches!(*method, Method::GET | Method::HEAD) {
        return allowed(StatusCode::METHOD_NOT_ALLOWED, "GET, HEAD");
    }
    let mut fields: Fields = vec![(what.into(), reason.is_none().into())];
    if let Some(server) = server {
        fields.push(("server_state".into(), server.role.get().to_string().into()));
    }
    let status = match reason {
        None => StatusCode::OK,
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    fields.push(("reason".into(), reason.map_or(Json::Null, |reason| reason.into_owned().into())));
    (status, json_body(fields)).into_response()
}

const READS: &str = "it is reading its data directory";

const NOT_AUDITED: &str =
    "the audit log cannot be written: changes are refused until it can (audit.failClosed)";

/// Why clients would be turned away, if they would, or why the next server is not to be stopped
/// yet.
fn not_ready(server: &Server) -> Option<Cow<'static, str>> {
    let short_disk = (*server.short_disk.lock()).map(Cow::from);
    let not_audited = || server.audit.as_ref()?.refuses().then(|| NOT_AUDITED.into());
    short_disk.or_else(|| lacks_role(server)).or_else(not_audited)
}

fn lacks_role(server: &Server) -> Option<Cow<'static, str>> {
    match server.role.get() {
        Role::Observer if server.others.lacks_vote.load(Ordering::Relaxed) => {
            Some("it follows, and does not vote yet".into())
        }
        Role::Standalone | Role::Follower | Role::Observer | Role::Leader => None,
        Role::Reading => Some(READS.into()),
        Role::ReadOnly => {
            Some("there is no leader: it serves only clients that accept a read-only server".into())
        }
        // Nothing is known of the others before it has read what it has.
        Role::None if server.others.voters.load(Ordering::Relaxed) == 0 => {
            let waits_for = server.others.waits_for.lock().clone();
            Some(waits_for.map_or_else(
                || READS.into(),
                |what| format!("it takes part in no ensemble yet: {what}").into(),
            ))
        }
        Role::None => Some(server.others.waits_for.lock().clone().map_or_else(
            || "there is no leader, or this server cannot reach it".into(),
            |what| format!("there is no leader: {what}").into(),
        )),
    }
}
