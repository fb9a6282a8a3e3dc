//! What the server is, has and counted.

use std::fs;
use std::num::NonZeroU32;
use std::time::UNIX_EPOCH;

use jute::txn::DIGEST_VERSION;

use super::json::{Fields, Json};
use crate::server::environment;
use crate::server::figures::hot_paths::Requests;
use crate::server::figures::series::Counter;
use crate::server::figures::stats;
use crate::server::operator::four_letter::VERSION;
use crate::server::operator::monitor;
use crate::server::role::Role;
use crate::server::shared::Server;

/// Paths that `hot_paths` shows.
const HOT_PATHS: usize = 50;
/// What stands for no snapshot.
const NO_ZXID: i64 = -1;

pub(super) fn configuration(server: &Server) -> Fields {
    let config = &server.config;
    let directory = &server.directory;
    let my_id = config.ensemble.as_ref().map_or(0, |ensemble| ensemble.my_id);
    let backlog = config.client_listen_backlog.map_or(-1, |backlog| i64::from(backlog.get()));
    vec![
        ("client_port".into(), u32::from(config.client_listen.port).into()),
        ("data_dir".into(), directory.snapshots().display().to_string().into()),
        ("data_log_dir".into(), directory.logs().display().to_string().into()),
        ("tick_time".into(), config.tick_time_ms.into()),
        ("max_client_cnxns".into(), config.max_client_cnxns.map_or(0, NonZeroU32::get).into()),
        ("min_session_timeout".into(), config.min_session_timeout_ms.into()),
        ("max_session_timeout".into(), config.max_session_timeout_ms.into()),
        ("server_id".into(), u32::from(my_id).into()),
        ("client_port_listen_backlog".into(), backlog.into()),
    ]
}

/// What stood in zoo.cfg at the start, without its secrets.
pub(super) fn initial_configuration(server: &Server) -> Fields {
    let text = server.config.file.as_ref().map(|file| file.shown.clone());
    vec![("initial_configuration".into(), text.map_or(Json::Null, Json::from))]
}

pub(super) fn dirs(server: &Server) -> Fields {
    let directory = &server.directory;
    vec![
        ("datadir_size".into(), monitor::folder_size(directory.snapshots()).into()),
        ("logdir_size".into(), monitor::folder_size(directory.logs()).into()),
    ]
}

/// Ferrokeeper's own: what clients asked for most in the last ten or twenty seconds.
pub(super) fn hot_paths(server: &Server) -> Fields {
    let (paths, window_ms) = server.stats.hot_paths.hottest(HOT_PATHS, server.clock.monotonic());
    let path = |(path, requests): (String, Requests)| {
        Json::Object(vec![
            ("path".into(), path.into()),
            ("reads".into(), requests.reads.into()),
            ("writes".into(), requests.writes.into()),
        ])
    };
    vec![
        ("window_ms".into(), window_ms.into()),
        ("hot_paths".into(), paths.into_iter().map(path).collect()),
    ]
}

pub(super) fn digests(server: &Server) -> Fields {
    let database = server.replica.shared();
    let digests = database.digests().map(|(zxid, digest)| {
        Json::Object(vec![
            ("zxid".into(), zxid.0.into()),
            ("digest".into(), digest.into()),
            ("digest_version".into(), i64::from(DIGEST_VERSION).into()),
        ])
    });
    vec![("digests".into(), digests.collect())]
}

/// The newest snapshot and when it was written.
pub(super) fn last_snapshot(server: &Server) -> Fields {
    let newest = server.directory.snapshot_files().ok().and_then(|files| files.into_iter().next());
    let (zxid, written) = newest.map_or((NO_ZXID, None), |(zxid, path)| {
        let written = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
        (zxid, written.and_then(|at| at.duration_since(UNIX_EPOCH).ok()))
    });
    let seconds = written.map_or(-1, |at| i64::try_from(at.as_secs()).unwrap_or(i64::MAX));
    vec![("zxid".into(), format!("{zxid:x}").into()), ("timestamp".into(), seconds.into())]
}

/// The lines of `mntr`, without their prefix.
pub(super) fn monitor(server: &Server) -> Fields {
    let text = monitor::mntr(server);
    let lines = text.lines().filter_map(|line| line.strip_prefix("zk_")?.split_once('\t'));
    lines.map(|(name, value)| (name.to_owned().into(), figure(value))).collect()
}

fn figure(value: &str) -> Json {
    match (value.parse(), value.parse()) {
        (Ok(integer), _) => Json::Integer(integer),
        (_, Ok(double)) => Json::Double(double),
        _ => value.into(),
    }
}

pub(super) fn server_stats(server: &Server) -> Fields {
    let of_server = of_server(server);
    let mut fields: Fields = vec![
        ("version".into(), VERSION.into()),
        ("read_only".into(), server.is_read_only().into()),
        ("server_stats".into(), Json::Object(of_server)),
        ("client_response".into(), buffer_stats(server.stats.response_size())),
    ];
    if server.role.get() == Role::Leader {
        let sizes = server.stats.quorum.shown().proposal_size;
        let sizes = sizes.map_or([-1; 3], |sizes| sizes.map(u64::cast_signed));
        fields.push(("proposal_stats".into(), buffer_stats(sizes)));
    }
    let nodes = server.replica.shared().tree().count() + 1;
    fields.push(("node_count".into(), nodes.into()));
    fields
}

/// The getters of `ServerStats`.
fn of_server(server: &Server) -> Fields {
    let latency = server.stats.latency();
    let average = latency.average().parse().unwrap_or_default();
    let directory = &server.directory;
    let nobody = || Json::Integer(0);
    vec![
        ("packets_sent".into(), stats::get(&server.stats.packets_sent).into()),
        ("packets_received".into(), stats::get(&server.stats.packets_received).into()),
        (
            "fsync_threshold_exceed_count".into(),
            server.stats.series.total(Counter::FsyncsTooLong).into(),
        ),
        ("client_response_stats".into(), buffer_stats(server.stats.response_size())),
        ("data_dir_size".into(), monitor::folder_size(directory.snapshots()).into()),
        ("log_dir_size".into(), monitor::folder_size(directory.logs()).into()),
        ("provider_null".into(), false.into()),
        ("last_processed_zxid".into(), server.replica.applied().0.into()),
        ("outstanding_requests".into(), server.outstanding().into()),
        ("server_state".into(), server.role.get().to_string().into()),
        ("avg_latency".into(), Json::Double(average)),
        ("max_latency".into(), latency.max.into()),
        ("min_latency".into(), latency.min.into()),
        ("num_alive_client_connections".into(), server.connections.count().into()),
        // There is nothing here that could fail or count: no SASL and no TLS for clients.
        ("auth_failed_count".into(), nobody()),
        ("non_mtlsremote_conn_count".into(), nobody()),
        ("non_mtlslocal_conn_count".into(), nobody()),
        ("uptime".into(), server.clock.monotonic().0.into()),
    ]
}

/// Bytes of the last, the least and the greatest; -1 where none is known.
fn buffer_stats([last, min, max]: [i64; 3]) -> Json {
    Json::Object(vec![
        ("last_buffer_size".into(), last.into()),
        ("min_buffer_size".into(), min.into()),
        ("max_buffer_size".into(), max.into()),
    ])
}

pub(super) fn environment() -> Fields {
    environment::entries().into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

/// What of the environment are properties of a JVM, sorted.
pub(super) fn system_properties() -> Fields {
    let mut properties = environment();
    let is_property = ["java.", "os.arch", "os.name", "os.version", "user."];
    properties.retain(|(name, _)| is_property.iter().any(|start| name.starts_with(start)));
    properties.sort_by(|(a, _), (b, _)| a.cmp(b));
    properties
}
