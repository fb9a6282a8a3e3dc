//! `/health/live` and `/health/ready`: what an orchestrator asks. ZooKeeper has neither.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};

use super::json::{Fields, Json};
use super::{allowed, json_body, not_found};
use crate::server::role::{NoRole, Role};
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

const READS: &str =
    "this server is reading its data directory, and serves clients once it has read it";

const NO_VOTE: &str = "this server follows the leader, but does not vote yet: it gets its vote \
    when it has what the leader has, and the lists of the others name it as a voter";

const NOT_AUDITED: &str =
    "the audit log cannot be written: changes are refused until it can (audit.failClosed)";

/// Why clients would be turned away, if they would, or why the next server is not to be stopped
/// yet.
pub(in crate::server) fn not_ready(server: &Server) -> Option<Cow<'static, str>> {
    let short_disk = (*server.short_disk.lock()).map(Cow::from);
    let not_audited = || server.audit.as_ref()?.refuses().then(|| NOT_AUDITED.into());
    short_disk.or_else(|| lacks_role(server)).or_else(not_audited)
}

fn lacks_role(server: &Server) -> Option<Cow<'static, str>> {
    match server.role.get() {
        Role::Observer if server.others.lacks_vote.load(Ordering::Relaxed) => Some(NO_VOTE.into()),
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
                |what| format!("this server takes part in no ensemble yet: {what}").into(),
            ))
        }
        Role::None => {
            let no_role = *server.others.no_role.lock();
            let waits_for = server.others.waits_for.lock().clone();
            Some(match waits_for.filter(|_| no_role == NoRole::NoLeader) {
                Some(what) => format!("there is no leader: {what}").into(),
                None => no_role.to_string().into(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::without_orderer;

    /// Whoever is on call reads them first.
    #[test]
    fn who_is_not_ready_says_why() {
        let (_dir, server) = without_orderer("");
        let reason = || not_ready(&server).map(Cow::into_owned);
        assert_eq!(reason(), None);
        server.role.set(Role::Reading);
        assert_eq!(
            reason().as_deref(),
            Some(
                "this server is reading its data directory, and serves clients once it has read it"
            )
        );
        server.role.set(Role::None);
        *server.others.waits_for.lock() = Some("start server 2".to_owned());
        assert_eq!(
            reason().as_deref(),
            Some("this server takes part in no ensemble yet: start server 2")
        );
        server.others.voters.store(3, Ordering::Relaxed);
        assert_eq!(reason().as_deref(), Some("there is no leader: start server 2"));
        // A leader is there: nobody has to be started.
        for (no_role, expected) in [
            (
                NoRole::TooOld { ms: 700, behind: 1200 },
                "this server lags 1200 transactions behind: what it has is 700 ms older than \
                 syncLimit allows",
            ),
            (
                NoRole::TooOld { ms: 700, behind: 0 },
                "this server knows a leader, but for 700 ms too long a majority has not confirmed \
                 that its data is up to date",
            ),
            (
                NoRole::WrongTree,
                "the data of this server differs from that of the others; it is loading the \
                 leader's",
            ),
            (
                NoRole::TreeInDoubt,
                "the data of this server differs from the leader's, and too few servers are \
                 present to tell which is right",
            ),
        ] {
            *server.others.no_role.lock() = no_role;
            assert_eq!(reason().as_deref(), Some(expected));
        }
        *server.others.no_role.lock() = NoRole::NoLeader;
        *server.others.waits_for.lock() = None;
        assert_eq!(reason().as_deref(), Some("there is no leader, or this server cannot reach it"));
        server.role.set(Role::Observer);
        assert_eq!(reason(), None);
        server.others.lacks_vote.store(true, Ordering::Relaxed);
        assert!(reason().is_some_and(|it| it.contains("does not vote yet")));
    }

    /// Every reason that does not come from elsewhere.
    fn all_reasons(server: &Server) -> Vec<String> {
        let mut reasons = vec![NOT_AUDITED.to_owned()];
        let mut tell = || reasons.extend(not_ready(server).map(Cow::into_owned));
        server.role.set(Role::Reading);
        tell();
        server.role.set(Role::ReadOnly);
        tell();
        server.role.set(Role::Observer);
        server.others.lacks_vote.store(true, Ordering::Relaxed);
        tell();
        server.role.set(Role::None);
        *server.others.waits_for.lock() = Some("start server 2".to_owned());
        tell();
        server.others.voters.store(3, Ordering::Relaxed);
        for no_role in [
            NoRole::NoLeader,
            NoRole::TooOld { ms: 700, behind: 1200 },
            NoRole::TooOld { ms: 700, behind: 0 },
            NoRole::WrongTree,
            NoRole::TreeInDoubt,
        ] {
            *server.others.no_role.lock() = no_role;
            tell();
        }
        reasons
    }

    /// Who looks for what the server says finds it, and nothing that it no longer says.
    #[test]
    fn the_reasons_that_operators_read_about_are_those_that_it_gives() {
        let read = |name: &str| {
            let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
            std::fs::read_to_string(docs.join(name)).expect("reads")
        };
        let part = |text: &str, from: &str, to: &str| {
            let (_, text) = text.split_once(from).expect("it begins");
            text.split_once(to).expect("it ends").0.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let (_dir, server) = without_orderer("");
        let reasons = all_reasons(&server);
        assert_eq!(reasons.len(), 10);
        let runbook = part(&read("runbooks.md"), "\n### ServerIsNotReady\n", "\n### ");
        let todo = part(&runbook, "**What to do.**", "**What not to do.**");
        let quoted: Vec<&str> = todo.split('"').skip(1).step_by(2).collect();
        for reason in &reasons {
            assert!(quoted.iter().any(|quote| reason.contains(quote)), "{reason}");
        }
        for quote in quoted {
            assert!(reasons.iter().any(|reason| reason.contains(quote)), "{quote}");
        }
        let damage = read("operations/damage.md");
        assert_eq!(part(&damage, "\"reason\" : \"", "\"\n"), NO_VOTE);
    }
}
