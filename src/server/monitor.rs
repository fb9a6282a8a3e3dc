//! What monitoring reads: `mntr` and `/metrics`, from one list of figures (reference 13.2 and 15).

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use metrics::{counter, gauge};

use super::clock::millis;
use super::descriptors;
use super::distribution::{Distribution, PERCENTILES};
use super::four_letter::VERSION;
use super::quorum_stats::{self, Counts};
use super::shared::{Role, Server};
use super::stats::{self, Counters, Summary};

/// A figure by ZooKeeper's name.
struct Figure {
    name: &'static str,
    /// What it is of, where there are several of the name.
    key: Option<u8>,
    value: Value,
}

impl Figure {
    const fn one(name: &'static str, value: Value) -> Self {
        Self { name, key: None, value }
    }
}

enum Value {
    Integer(i64),
    /// Only ever rises, but for `srst`.
    Counter {
        total: u64,
        at_reset: u64,
    },
    /// An average: ZooKeeper prints it as a double.
    Average(Summary),
}

/// Every gauge and counter, in the order in which `mntr` shows them.
fn figures(server: &Server) -> Vec<Figure> {
    let integer = |name, value: usize| {
        Figure::one(name, Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)))
    };
    let long = |name, value: u64| {
        Figure::one(name, Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)))
    };
    let (totals, resets) = (server.stats.counters(), server.stats.counters_at_reset());
    let counter = |name, of: fn(&Counters) -> u64| {
        Figure::one(name, Value::Counter { total: of(&totals), at_reset: of(&resets) })
    };
    let mut ensemble = Vec::new();
    let others = &server.others;
    let role = server.role.get();
    if role != Role::Standalone {
        ensemble.push(integer("quorum_size", others.voters.load(Ordering::Relaxed) as usize));
    }
    let shown = server.quorum_stats.shown();
    if role == Role::Leader {
        let sizes = shown.proposal_size.map(|sizes| sizes.map(|size| size.cast_signed()));
        let [last, min, max] = sizes.unwrap_or([-1; 3]);
        for (name, size) in
            [("last_proposal_size", last), ("min_proposal_size", min), ("max_proposal_size", max)]
        {
            ensemble.push(Figure::one(name, Value::Integer(size)));
        }
        for (server, lag) in &shown.lags {
            let of = |value: u64| Value::Integer(i64::try_from(value).unwrap_or(i64::MAX));
            let key = Some(*server);
            ensemble.extend([
                Figure { name: "peer_lag_entries", key, value: of(lag.entries) },
                Figure { name: "peer_lag_bytes", key, value: of(lag.bytes) },
            ]);
        }
        let followers = others.followers.load(Ordering::Relaxed) as usize;
        let observers = others.observers.load(Ordering::Relaxed) as usize;
        let since = others.leads_since.load(Ordering::Relaxed);
        ensemble.extend([
            integer("learners", followers + observers),
            integer("synced_followers", followers),
            integer("synced_observers", observers),
            integer("synced_non_voting_followers", 0),
            integer("pending_syncs", others.pending_syncs.load(Ordering::Relaxed) as usize),
            long("leader_uptime", server.clock.monotonic().0.saturating_sub(since)),
        ]);
    }
    if role != Role::Standalone {
        let (totals, resets) = (&shown.counts, &shown.counts_at_reset);
        let counter = |name, of: fn(&Counts) -> u64| {
            Figure::one(name, Value::Counter { total: of(totals), at_reset: of(resets) })
        };
        ensemble.extend([
            counter("proposal_count", |counts| counts.proposals),
            counter("commit_count", |counts| counts.commits),
            counter("learner_proposal_received_count", |counts| counts.learner_proposals),
            counter("learner_commit_received_count", |counts| counts.learner_commits),
            counter("looking_count", |counts| counts.looking),
            counter("snap_count", |counts| counts.snapshots_sent),
            counter("diff_count", |counts| counts.diffs),
        ]);
    }
    let latency = server.stats.latency();
    let (znodes, data_size, ephemerals, sessions, watches) = {
        let database = server.replica.shared();
        let tree = database.tree();
        let watches = database.watches().lock().count();
        let sessions = database.sessions().len();
        // ZooKeeper's root has two names, and both are znodes of a path's length.
        (tree.count() + 1, tree.data_size() + 1, tree.ephemerals_count(), sessions, watches)
    };
    let mut figures = vec![
        Figure::one("avg_latency", Value::Average(latency)),
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
        integer("local_sessions", others.local_sessions.load(Ordering::Relaxed) as usize),
        long("open_file_descriptor_count", descriptors::open()),
        long("max_file_descriptor_count", descriptors::limit()),
        counter("connection_request_count", |counters| counters.connection_requests),
        counter("connection_rejected", |counters| counters.connections_rejected),
        counter("bytes_received_count", |counters| counters.bytes_received),
        counter("stale_sessions_expired", |counters| counters.sessions_expired),
    ];
    figures.append(&mut ensemble);
    figures
}

/// Summaries of milliseconds.
fn summaries(server: &Server) -> [(&'static str, Summary); 2] {
    [("fsynctime", server.stats.fsync()), ("snapshottime", server.stats.snapshot())]
}

/// The answer to `mntr`.
pub(super) fn mntr(server: &Server) -> String {
    let role = server.role.get();
    let mut text = format!("zk_version\t{VERSION}\nzk_server_state\t{role}\n");
    match role {
        Role::Standalone | Role::None => {}
        Role::Leader => text.push_str("zk_peer_state\tleading - broadcast\n"),
        Role::Follower => text.push_str("zk_peer_state\tfollowing - broadcast\n"),
        Role::Observer => text.push_str("zk_peer_state\tobserving - broadcast\n"),
    }
    for Figure { name, key, value } in figures(server) {
        let name = key.map_or_else(|| name.to_owned(), |key| format!("{key}_{name}"));
        let _ = match value {
            Value::Integer(value) => writeln!(text, "zk_{name}\t{value}"),
            Value::Counter { total, at_reset } => {
                writeln!(text, "zk_{name}\t{}", total.saturating_sub(at_reset))
            }
            Value::Average(summary) => writeln!(text, "zk_{name}\t{}", summary.average()),
        };
    }
    for (name, summary) in summaries(server) {
        put_summary(&mut text, name, summary);
    }
    if role != Role::Standalone {
        let shown = server.quorum_stats.shown();
        for name in quorum_stats::TIMES {
            put_summary(&mut text, name, shown.times.get(name).copied().unwrap_or_default());
        }
        let none = Distribution::default();
        for name in quorum_stats::LATENCIES {
            put_distribution(&mut text, name, shown.latencies.get(name).unwrap_or(&none));
        }
        for (server, latencies) in &shown.acks {
            put_distribution(&mut text, &format!("{server}_ack_latency"), latencies);
        }
    }
    text
}

fn put_summary(text: &mut String, name: &str, summary: Summary) {
    let _ = writeln!(text, "zk_avg_{name}\t{}", summary.average());
    let _ = writeln!(text, "zk_min_{name}\t{}", summary.min);
    let _ = writeln!(text, "zk_max_{name}\t{}", summary.max);
    let _ = writeln!(text, "zk_cnt_{name}\t{}", summary.count);
    let _ = writeln!(text, "zk_sum_{name}\t{}", summary.sum);
}

fn put_distribution(text: &mut String, name: &str, values: &Distribution) {
    put_summary(text, name, values.summary());
    for ((percentile, _), value) in PERCENTILES.into_iter().zip(values.percentiles()) {
        let _ = writeln!(text, "zk_{percentile}_{name}\t{value}");
    }
}

/// Hands the figures to the recorder, for a scrape.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a double")]
pub(super) fn publish(server: &Server) {
    let mut published = server.published.lock();
    let mut gone = published.clone();
    for Figure { name, key, value } in figures(server) {
        match value {
            Value::Integer(value) => match key {
                Some(key) => gauge!(name, "key" => key.to_string()).set(value as f64),
                None => gauge!(name).set(value as f64),
            },
            Value::Counter { total, .. } => counter!(name).absolute(total),
            Value::Average(summary) => {
                gauge!(name).set(summary.sum as f64 / summary.count.max(1) as f64);
            }
        }
        gone.remove(&(name, key));
        published.insert((name, key));
    }
    // The recorder keeps what it once had; this is the value of what has none.
    for (name, key) in gone {
        match key {
            Some(key) => gauge!(name, "key" => key.to_string()).set(f64::NAN),
            None => gauge!(name).set(f64::NAN),
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
