//! The clients' connections, and what they watch and own.

use std::collections::BTreeMap;

use super::json::{Fields, Json};
use crate::engine::session::SessionId;
use crate::ensemble::Expiry;
use crate::server::connection::{Connection, java_address};
use crate::server::four_letter;
use crate::server::shared::Server;

/// All connections; `brief` is how `stats` has them.
pub(super) fn all(server: &Server, brief: bool) -> Fields {
    let all = server.connections.all();
    let list = all.iter().map(|connection| Json::Object(one(connection, brief))).collect();
    // There is no TLS for clients.
    vec![("connections".into(), list), ("secure_connections".into(), Json::List(Vec::new()))]
}

/// `ServerCnxn.getConnectionInfo`.
fn one(connection: &Connection, brief: bool) -> Fields {
    let counters = *connection.counters();
    let peer = connection.peer();
    let address = java_address(peer.ip());
    let address = if peer.is_ipv6() { format!("[{address}]") } else { address };
    let mut fields: Fields = vec![
        ("remote_socket_address".into(), format!("{address}:{}", peer.port()).into()),
        // In reading.
        ("interest_ops".into(), Json::Integer(1)),
        ("outstanding_requests".into(), connection.in_flight().into()),
        ("packets_received".into(), counters.received.into()),
        ("packets_sent".into(), counters.sent.into()),
    ];
    if !brief {
        let attached = connection.session();
        let timeout_ms = attached.map_or(0, |attached| attached.timeout_ms);
        let latency = counters.latency;
        fields.extend([
            ("session_id".into(), connection.session_id().0.into()),
            ("last_operation".into(), counters.last_op.map_or("NA", four_letter::operation).into()),
            ("established".into(), counters.established.0.into()),
            ("session_timeout".into(), i64::from(timeout_ms).into()),
            ("last_cxid".into(), i64::from(counters.last_cxid).into()),
            ("last_zxid".into(), counters.last_zxid.0.into()),
            ("last_response_time".into(), counters.last_response.0.into()),
            ("last_latency".into(), counters.last_latency.into()),
            ("min_latency".into(), latency.min.into()),
            ("avg_latency".into(), (latency.sum / latency.count.max(1)).into()),
            ("max_latency".into(), latency.max.into()),
        ]);
    }
    fields
}

/// Sessions by the time at which they expire, and what they own.
pub(super) fn dump(server: &Server) -> Fields {
    let Expiry { local, global } = four_letter::expiry(server);
    let mut buckets: BTreeMap<u64, Vec<SessionId>> = BTreeMap::new();
    for (end, sessions) in local.into_iter().chain(global).flatten() {
        buckets.entry(end.0).or_default().extend(sessions);
    }
    let expiry = buckets.into_iter().map(|(end, sessions)| (end.to_string().into(), ids(sessions)));
    let database = server.replica.shared();
    let tree = database.tree();
    let owners = tree.sessions_with_ephemerals().into_iter();
    let ephemerals = owners.map(|session| {
        let paths = tree.ephemerals(session).map(|node| Json::from(tree.path(node)));
        (session.0.to_string().into(), paths.collect())
    });
    vec![
        ("expiry_time_to_session_ids".into(), Json::Object(expiry.collect())),
        ("session_id_to_ephemeral_paths".into(), Json::Object(ephemerals.collect())),
    ]
}

pub(super) fn watches(server: &Server) -> Fields {
    let watched = four_letter::watched_paths(server).into_iter();
    let watched = watched.map(|(session, paths)| {
        (session.0.to_string().into(), paths.into_iter().map(Json::from).collect())
    });
    vec![("session_id_to_watched_paths".into(), Json::Object(watched.collect()))]
}

pub(super) fn watches_by_path(server: &Server) -> Fields {
    let watching = four_letter::watching_sessions(server).into_iter();
    let watching = watching.map(|(path, sessions)| (path.into(), ids(sessions)));
    vec![("path_to_session_ids".into(), Json::Object(watching.collect()))]
}

pub(super) fn watch_summary(server: &Server) -> Fields {
    let (connections, paths, watches) = server.replica.shared().watches().lock().data_summary();
    vec![
        ("num_connections".into(), connections.into()),
        ("num_paths".into(), paths.into()),
        ("num_total_watches".into(), watches.into()),
    ]
}

fn ids(sessions: Vec<SessionId>) -> Json {
    sessions.into_iter().map(|session| Json::from(session.0)).collect()
}
