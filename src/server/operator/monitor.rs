//! What monitoring reads: `mntr` and `/metrics`, from one table of names (`MonitorCommand`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::descriptors;
use super::admin::health;
use super::four_letter::VERSION;
use crate::engine::quota;
use crate::server::figures::distribution::{Distribution, PERCENTILES};
use crate::server::figures::metric_table::{
    ADVANCED, ADVANCED_SETS, BASIC, BASIC_SETS, COUNTER_SETS, COUNTERS, GAUGE_SETS, GAUGES,
};
use crate::server::figures::namespace;
use crate::server::figures::quorum_stats::{Lag, Shown};
use crate::server::figures::series::{Counter, KeyedCounter, KeyedMeasure, Measure};
use crate::server::figures::stats;
use crate::server::figures::stats::Summary;
use crate::server::role::Role;
use crate::server::shared::Server;

/// Lines that `mntr` may have: some collectors take no more. Keys that are beyond are left out.
const LINES_MAX: usize = 499;

/// Quotas that are looked at under one hold.
const QUOTAS_A_HOLD: usize = 64;

/// Gauges of what the server holds.
const OF_DATA: [&str; 4] =
    ["znode_count", "ephemerals_count", "approximate_data_size", "global_sessions"];

/// A gauge's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::server) enum Value {
    Integer(i64),
    /// An average: ZooKeeper prints it as a double.
    Average(Summary),
    Real(f64),
}

/// What the state and the watches come to, at one instant.
struct Sizes {
    znodes: usize,
    data: u64,
    ephemerals: usize,
    sessions: usize,
    watches: usize,
    watched_bytes: usize,
}

impl Sizes {
    fn of(server: &Server) -> Self {
        let database = server.replica.shared();
        let tree = database.tree();
        let (watches, watched_bytes) = {
            let watches = database.watches().lock();
            (watches.count(), watches.bytes())
        };
        server.stats.series.count_up_to(Counter::DigestMismatches, database.mismatches());
        Self {
            // ZooKeeper's root has two names, and both are znodes of a path's length.
            znodes: tree.count() + 1,
            data: tree.data_size() + 1,
            ephemerals: tree.ephemerals_count(),
            sessions: database.sessions().len(),
            watches,
            watched_bytes,
        }
    }
}

/// Every gauge that this server has in its role, by its name.
pub(in crate::server) fn gauges(server: &Server) -> BTreeMap<&'static str, Value> {
    let dropped = server.intake.connection_throttle.drop_probability();
    let integer = |value: usize| Value::Integer(i64::try_from(value).unwrap_or(i64::MAX));
    let long = |value: u64| Value::Integer(i64::try_from(value).unwrap_or(i64::MAX));
    let latency = server.stats.latency();
    let Sizes { znodes, data, ephemerals, sessions, watches, watched_bytes } = Sizes::of(server);
    let others = &server.others;
    let [last, min, max] = server.stats.response_size().map(Value::Integer);
    let audit_fails = server.audit.as_ref().is_some_and(|audit| audit.is_failing());
    let unfinished = server.unfinished.oldest().unwrap_or_default().as_secs_f64();
    let mut gauges = BTreeMap::from([
        ("avg_latency", Value::Average(latency)),
        ("max_latency", long(latency.max)),
        ("min_latency", long(latency.min)),
        ("packets_received", long(stats::get(&server.stats.packets_received))),
        ("packets_sent", long(stats::get(&server.stats.packets_sent))),
        ("num_alive_connections", integer(server.connections.count())),
        ("outstanding_requests", integer(server.outstanding())),
        ("unread_bytes", integer(server.connections.unread().bytes())),
        ("audit_failing", Value::Integer(audit_fails.into())),
        ("audit_held_bytes", integer(server.audit.as_ref().map_or(0, |audit| audit.held_bytes()))),
        ("unsealed_bytes", long(stats::get(&server.stats.unsealed.bytes))),
        ("ready", Value::Integer(health::not_ready(server).is_none().into())),
        ("unfinished_write_seconds", Value::Real(unfinished)),
        ("uptime", long(server.clock.monotonic().0)),
        ("znode_count", integer(znodes)),
        ("watch_count", integer(watches)),
        ("watched_bytes", integer(watched_bytes)),
        ("ephemerals_count", integer(ephemerals)),
        ("approximate_data_size", long(data)),
        ("global_sessions", integer(sessions)),
        ("local_sessions", long(others.local_sessions.load(Ordering::Relaxed))),
        ("open_file_descriptor_count", long(descriptors::open())),
        ("max_file_descriptor_count", long(descriptors::limit())),
        ("last_client_response_size", last),
        ("min_client_response_size", min),
        ("max_client_response_size", max),
        ("connection_drop_probability", Value::Real(dropped)),
        ("outstanding_tls_handshake", Value::Integer(0)),
        ("auth_failed_count", Value::Integer(0)),
        ("non_mtls_remote_conn_count", Value::Integer(0)),
        ("non_mtls_local_conn_count", Value::Integer(0)),
    ]);
    let role = server.role.get();
    if role == Role::Reading {
        // What it holds is not known yet.
        gauges.retain(|name, _| !OF_DATA.contains(name));
    } else if role != Role::Standalone {
        gauges.insert("quorum_size", integer(others.voters.load(Ordering::Relaxed) as usize));
    }
    if role == Role::Leader {
        let [last, min, max] = server.stats.quorum.proposal_sizes();
        let followers = others.followers.load(Ordering::Relaxed) as usize;
        let observers = others.observers.load(Ordering::Relaxed) as usize;
        let since = others.leads_since.load(Ordering::Relaxed);
        gauges.extend([
            ("last_proposal_size", Value::Integer(last)),
            ("min_proposal_size", Value::Integer(min)),
            ("max_proposal_size", Value::Integer(max)),
            ("learners", integer(followers + observers)),
            ("synced_followers", integer(followers)),
            ("synced_observers", integer(observers)),
            ("synced_non_voting_followers", Value::Integer(0)),
            ("pending_syncs", integer(others.pending_syncs.load(Ordering::Relaxed) as usize)),
            ("leader_uptime", long(server.clock.monotonic().0.saturating_sub(since))),
        ]);
    }
    gauges
}

/// Those that have a key, by name and key.
pub(in crate::server) fn keyed_gauges(
    server: &Server,
) -> BTreeMap<&'static str, BTreeMap<String, i64>> {
    let mut gauges: BTreeMap<&'static str, BTreeMap<String, i64>> = BTreeMap::new();
    let mut add = |name, key: &str, value: i64| {
        let of_key = gauges.entry(name).or_default().entry(key.to_owned()).or_default();
        *of_key = of_key.saturating_add(value);
    };
    let (mut last, mut looked_at) = (None, QUOTAS_A_HOLD);
    while looked_at == QUOTAS_A_HOLD {
        looked_at = 0;
        for quota in server.replica.shared().quotas(last).take(QUOTAS_A_HOLD) {
            last = Some(quota.folder);
            looked_at += 1;
            // The first name below /zookeeper/quota: limits and statistics of the whole tree are
            // there by themselves.
            let key = namespace::of(quota.path);
            if let Some(limits) = quota.limits {
                let key = key.unwrap_or(quota::LIMITS);
                add("quota_count_limit_per_namespace", key, limits.count_limit());
                add("quota_bytes_limit_per_namespace", key, limits.bytes_limit());
            }
            if let Some(used) = quota.used {
                let key = key.unwrap_or(quota::STATS);
                add("quota_count_usage_per_namespace", key, used.count);
                add("quota_bytes_usage_per_namespace", key, used.bytes);
            }
        }
    }
    if server.role.get() == Role::Leader {
        let Shown { lags, there, .. } = server.stats.quorum.shown();
        if let Some(there) = there {
            for peer in others(server, &lags) {
                add("peer_present", &peer.to_string(), there.contains(&peer).into());
            }
        }
        for (peer, lag) in lags {
            let key = peer.to_string();
            add("peer_lag_entries", &key, i64::try_from(lag.entries).unwrap_or(i64::MAX));
            add("peer_lag_bytes", &key, i64::try_from(lag.bytes).unwrap_or(i64::MAX));
        }
    }
    gauges
}

/// The other servers that are listed here, and those that are members.
fn others(server: &Server, members: &BTreeMap<u8, Lag>) -> BTreeSet<u8> {
    let listed = server.config.ensemble.iter().flat_map(|its| {
        let ids = its.list.servers.iter().map(|(id, _)| *id);
        ids.filter(|id| *id != its.my_id)
    });
    listed.chain(members.keys().copied()).collect()
}

/// The answer to `mntr`. Summaries that never have a value are left out.
pub(in crate::server) fn mntr(server: &Server) -> String {
    let role = server.role.get();
    let mut text = format!("zk_version\t{VERSION}\nzk_server_state\t{role}\n");
    match role {
        Role::Standalone | Role::Reading | Role::None | Role::ReadOnly => {}
        Role::Leader => text.push_str("zk_peer_state\tleading - broadcast\n"),
        Role::Follower => text.push_str("zk_peer_state\tfollowing - broadcast\n"),
        Role::Observer => {
            let leader = server.others.leader.lock().unwrap_or_default();
            let _ = writeln!(
                text,
                "zk_peer_state\tobserving - broadcast\nzk_observer_master_id\t{leader}"
            );
        }
    }
    let gauges = gauges(server);
    for row in GAUGES {
        let _ = match gauges.get(row.name) {
            Some(Value::Integer(value)) => writeln!(text, "zk_{}\t{value}", row.name),
            Some(Value::Average(summary)) => {
                writeln!(text, "zk_{}\t{}", row.name, summary.average())
            }
            // As Java prints a double: 0.0 for none.
            Some(Value::Real(value)) => writeln!(text, "zk_{}\t{value:?}", row.name),
            None => Ok(()),
        };
    }
    let series = &server.stats.series;
    for row in COUNTERS {
        let value = Counter::named(row.name).map_or(0, |counter| series.since_reset(counter));
        let _ = writeln!(text, "zk_{}\t{value}", row.name);
    }
    for row in BASIC {
        if let Some(measure) = Measure::named(row.name) {
            put_summary(&mut text, row.name, series.of(measure).since_reset().0);
        }
    }
    for row in ADVANCED {
        if let Some(measure) = Measure::named(row.name) {
            put_distribution(&mut text, row.name, series.of(measure));
        }
    }
    let mut more = Vec::new();
    let keyed = keyed_gauges(server);
    for row in GAUGE_SETS.iter().rev() {
        for (key, value) in keyed.get(row.name).into_iter().flatten() {
            more.push(format!("zk_{key}_{}\t{value}\n", row.name));
        }
    }
    for row in COUNTER_SETS {
        let counts = KeyedCounter::named(row.name).map(|counter| series.keyed_counts(counter));
        for (key, value) in counts.into_iter().flatten() {
            more.push(format!("zk_{key}_{}\t{value}\n", row.name));
        }
    }
    for (rows, put) in [
        (ADVANCED_SETS, put_distribution as fn(&mut String, &str, &Distribution)),
        (BASIC_SETS, put_basic),
    ] {
        for (name, key, its) in rows.iter().flat_map(|row| keys(server, row.name)) {
            let mut part = String::new();
            put(&mut part, &format!("{key}_{name}"), &its);
            more.push(part);
        }
    }
    let mut lines = text.lines().count();
    for part in more {
        lines += part.lines().count();
        if lines > LINES_MAX {
            break;
        }
        text.push_str(&part);
    }
    text
}

/// The keys of a name, with what they have.
pub(in crate::server) fn keys(
    server: &Server,
    name: &'static str,
) -> Vec<(&'static str, String, Arc<Distribution>)> {
    let all = KeyedMeasure::named(name).map(|measure| server.stats.series.keys(measure));
    all.into_iter().flatten().map(|(key, its)| (name, key, its)).collect()
}

fn put_basic(text: &mut String, name: &str, values: &Distribution) {
    put_summary(text, name, values.since_reset().0);
}

fn put_summary(text: &mut String, name: &str, summary: Summary) {
    let _ = writeln!(text, "zk_avg_{name}\t{}", summary.average());
    let _ = writeln!(text, "zk_min_{name}\t{}", summary.min);
    let _ = writeln!(text, "zk_max_{name}\t{}", summary.max);
    let _ = writeln!(text, "zk_cnt_{name}\t{}", summary.count);
    let _ = writeln!(text, "zk_sum_{name}\t{}", summary.sum);
}

fn put_distribution(text: &mut String, name: &str, values: &Distribution) {
    let (summary, percentiles) = values.since_reset();
    put_summary(text, name, summary);
    for ((percentile, _), value) in PERCENTILES.into_iter().zip(percentiles) {
        let _ = writeln!(text, "zk_{percentile}_{name}\t{value}");
    }
}

/// Bytes of the files in a folder.
pub(in crate::server) fn folder_size(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|metadata| metadata.len())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::without_orderer;

    #[test]
    fn a_server_is_ready_while_nobody_is_turned_away() {
        let (_dir, server) = without_orderer("");
        let is_ready = || gauges(&server)["ready"];
        assert_eq!(is_ready(), Value::Integer(1));
        for role in [Role::Reading, Role::None] {
            server.role.set(role);
            assert_eq!(is_ready(), Value::Integer(0), "{role:?}");
        }
        server.role.set(Role::Observer);
        assert_eq!(is_ready(), Value::Integer(1));
        server.others.lacks_vote.store(true, Ordering::Relaxed);
        assert_eq!(is_ready(), Value::Integer(0), "it does not vote yet");
        server.role.set(Role::Standalone);
        *server.short_disk.lock() = Some("the disk is full");
        assert_eq!(is_ready(), Value::Integer(0), "nobody gets a session");
    }

    #[test]
    fn a_write_to_the_data_directory_that_does_not_return_is_shown() {
        let (dir, server) = without_orderer("");
        let unfinished = || gauges(&server)["unfinished_write_seconds"];
        assert_eq!(unfinished(), Value::Real(0.0));
        // Whoever opens it waits until somebody writes.
        let pipe = dir.path().join("pipe");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("a pipe");
        std::thread::scope(|scope| {
            let hangs = scope.spawn(|| server.directory.disk().sync_folder(&pipe));
            while unfinished() == Value::Real(0.0) {
                std::thread::yield_now();
            }
            let writer = fs::OpenOptions::new().write(true).open(&pipe).expect("it is read");
            // That it is no folder does not matter.
            let _ = hangs.join().expect("it returns");
            drop(writer);
        });
        assert_eq!(unfinished(), Value::Real(0.0));
    }
}
