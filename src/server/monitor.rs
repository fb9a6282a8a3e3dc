//! What monitoring reads: `mntr` and `/metrics`, from one list of figures (reference 13.2 and 15).

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use metrics::{counter, gauge};

use super::clock::millis;
use super::descriptors;
use super::four_letter::VERSION;
use super::shared::Server;
use super::stats::{self, Summary};

/// A figure by ZooKeeper's name.
struct Figure {
    name: &'static str,
    value: Value,
}

enum Value {
    Integer(i64),
    /// Only ever rises, but for `srst`.
    Counter(u64),
    /// An average: ZooKeeper prints it as a double.
    Average(Summary),
}

/// Every gauge and counter, in the order in which `mntr` shows them.
fn figures(server: &Server) -> Vec<Figure> {
    let integer = |name, value: usize| Figure {
        name,
        value: Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)),
    };
    let long = |name, value: u64| Figure {
        name,
        value: Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)),
    };
    let counter = |name, value| Figure { name, value: Value::Counter(value) };
    let latency = server.stats.latency();
    let (znodes, data_size, ephemerals, sessions, watches) = {
        let database = server.replica.shared();
        let tree = database.tree();
        let watches = database.watches().lock().count();
        let sessions = database.sessions().len();
        (tree.count() + 1, tree.data_size(), tree.ephemerals_count(), sessions, watches)
    };
    vec![
        Figure { name: "avg_latency", value: Value::Average(latency) },
        long("max_latency", latency.max),
        long("min_latency", latency.min),
        long("packets_received", stats::get(&server.stats.packets_received)),
        long("packets_sent", stats::get(&server.stats.packets_sent)),
        integer("num_alive_connections", server.connections.count()),
        integer("outstanding_requests", outstanding(server)),
        long("uptime", server.clock.monotonic().0),
        integer("znode_count", znodes),
        integer("watch_count", watches),
        integer("ephemerals_count", ephemerals),
        long("approximate_data_size", data_size),
        integer("global_sessions", sessions),
        integer("local_sessions", 0),
        long("open_file_descriptor_count", descriptors::open()),
        long("max_file_descriptor_count", descriptors::limit()),
        counter("connection_request_count", stats::get(&server.stats.connection_requests)),
        counter("connection_rejected", stats::get(&server.stats.connections_rejected)),
        counter("bytes_received_count", stats::get(&server.stats.bytes_received)),
        counter("stale_sessions_expired", stats::get(&server.stats.sessions_expired)),
    ]
}

/// Summaries of milliseconds.
fn summaries(server: &Server) -> [(&'static str, Summary); 2] {
    [("fsynctime", server.stats.fsync()), ("snapshottime", server.stats.snapshot())]
}

/// The answer to `mntr`.
pub(super) fn mntr(server: &Server) -> String {
    let mut text = format!("zk_version\t{VERSION}\nzk_server_state\tstandalone\n");
    for Figure { name, value } in figures(server) {
        let _ = match value {
            Value::Integer(value) => writeln!(text, "zk_{name}\t{value}"),
            Value::Counter(value) => writeln!(text, "zk_{name}\t{value}"),
            Value::Average(summary) => writeln!(text, "zk_{name}\t{}", summary.average()),
        };
    }
    for (name, summary) in summaries(server) {
        let _ = writeln!(text, "zk_avg_{name}\t{}", summary.average());
        let _ = writeln!(text, "zk_min_{name}\t{}", summary.min);
        let _ = writeln!(text, "zk_max_{name}\t{}", summary.max);
        let _ = writeln!(text, "zk_cnt_{name}\t{}", summary.count);
        let _ = writeln!(text, "zk_sum_{name}\t{}", summary.sum);
    }
    text
}

/// Hands the figures to the recorder, for a scrape.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
pub(super) fn publish(server: &Server) {
    for Figure { name, value } in figures(server) {
        match value {
            Value::Integer(value) => gauge!(name).set(value as f64),
            Value::Counter(value) => counter!(name).absolute(value),
            Value::Average(summary) => {
                gauge!(name).set(summary.sum as f64 / summary.count.max(1) as f64);
            }
        }
    }
}

/// Requests with the orderer.
pub(super) fn outstanding(server: &Server) -> usize {
    server.connections.all().iter().map(|connection| connection.in_flight()).sum()
}

/// Bytes of the files in a folder.
pub(super) fn folder_size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|metadata| metadata.len())
        .sum()
}

/// Milliseconds, for the summaries that the recorder keeps.
#[expect(clippy::cast_precision_loss, reason = "a histogram takes doubles")]
pub(super) fn as_ms(duration: std::time::Duration) -> f64 {
    millis(duration) as f64
}
