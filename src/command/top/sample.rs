//! What an AdminServer says at one moment, and what happened between two of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::Value;

use super::admin::ask;

/// How many connections are shown.
const SHOWN: usize = 10;
/// What the keys of the leader's figures for each other server end in.
const LAG: &str = "_peer_lag_entries";
const PRESENT: &str = "_peer_present";

/// One moment.
pub(super) struct Sample {
    at: Instant,
    monitor: Value,
    received: u64,
    /// By address and session.
    connections: HashMap<(String, i64), u64>,
    /// Apache ZooKeeper has no such command.
    hot_paths: Option<Value>,
}

impl Sample {
    pub(super) fn take(server: &str) -> io::Result<Self> {
        let monitor = ask(server, "monitor")?;
        let received = monitor["packets_received"].as_u64();
        let received = received.ok_or_else(|| io::Error::other("it is not an AdminServer"))?;
        let all = ask(server, "connections")?;
        let lists = ["connections", "secure_connections"].map(|list| all[list].as_array());
        let one = |connection: &Value| {
            let address = printable(&connection["remote_socket_address"]);
            let session = connection["session_id"].as_i64().unwrap_or_default();
            ((address, session), connection["packets_received"].as_u64().unwrap_or_default())
        };
        let connections = lists.into_iter().flatten().flatten().map(one).collect();
        let hot_paths = ask(server, "hot_paths").ok().filter(|told| told["hot_paths"].is_array());
        Ok(Self { at: Instant::now(), monitor, received, connections, hot_paths })
    }
}

/// What happened between two moments, and how it is at the second.
#[derive(Serialize)]
pub(super) struct Turn {
    pub(super) role: String,
    pub(super) requests_per_second: u64,
    /// Of the requests that were answered between both, in milliseconds; 0 without any.
    pub(super) avg_latency: f64,
    /// Since the start, or since the figures were reset: more is not told.
    pub(super) max_latency: f64,
    pub(super) outstanding_requests: u64,
    pub(super) connections: u64,
    pub(super) watches: u64,
    pub(super) znodes: u64,
    /// On a leader: transactions that each other server's disk is not known to have.
    pub(super) peer_lag_entries: BTreeMap<String, u64>,
    /// On a leader: whether each other server is with it.
    pub(super) peer_present: BTreeMap<String, bool>,
    /// The busiest, by the requests of the turn.
    pub(super) busiest: Vec<Busy>,
    /// The paths that were asked for most in the last ten to twenty seconds; `None` from a server
    /// that does not tell.
    pub(super) hot_paths: Option<Vec<HotPath>>,
}

/// A connection.
#[derive(Serialize)]
pub(super) struct Busy {
    pub(super) session: String,
    pub(super) address: String,
    pub(super) requests_per_second: u64,
}

/// A path.
#[derive(Serialize)]
pub(super) struct HotPath {
    pub(super) path: String,
    pub(super) reads_per_second: u64,
    pub(super) writes_per_second: u64,
}

impl Turn {
    pub(super) fn between(before: &Sample, after: &Sample) -> Self {
        let elapsed = after.at.duration_since(before.at);
        let monitor = &after.monitor;
        let number = |name: &str| monitor[name].as_u64().unwrap_or_default();
        let (lags, present) = (of_peers(monitor, LAG), of_peers(monitor, PRESENT));
        let mut busiest: Vec<Busy> = after
            .connections
            .iter()
            .map(|(connection, &received)| {
                let earlier = before.connections.get(connection).copied().unwrap_or_default();
                Busy {
                    session: format!("{:#x}", connection.1),
                    address: connection.0.clone(),
                    requests_per_second: pace(earlier, received, elapsed),
                }
            })
            .collect();
        busiest.sort_by(|a, b| {
            b.requests_per_second
                .cmp(&a.requests_per_second)
                .then_with(|| a.address.cmp(&b.address))
        });
        busiest.truncate(SHOWN);
        Self {
            role: printable(&monitor["server_state"]),
            requests_per_second: pace(before.received, after.received, elapsed),
            avg_latency: average_between(&before.monitor, monitor),
            max_latency: monitor["max_latency"].as_f64().unwrap_or_default(),
            outstanding_requests: number("outstanding_requests"),
            connections: number("num_alive_connections"),
            watches: number("watch_count"),
            znodes: number("znode_count"),
            peer_lag_entries: lags.collect(),
            peer_present: present.map(|(peer, present)| (peer, present != 0)).collect(),
            busiest,
            hot_paths: after.hot_paths.as_ref().map(hot_paths),
        }
    }

    /// On a leader: how each other server stands.
    pub(super) fn peers(&self) -> Vec<(&str, String)> {
        let all: BTreeSet<&String> =
            self.peer_lag_entries.keys().chain(self.peer_present.keys()).collect();
        let stands = |peer: &String| {
            let lag = self.peer_lag_entries.get(peer);
            let lag = lag.map(|entries| format!("{entries} transactions behind"));
            let gone = (self.peer_present.get(peer) == Some(&false)).then(|| "not there".into());
            gone.into_iter().chain(lag).collect::<Vec<String>>().join(", ")
        };
        all.into_iter().map(|peer| (peer.as_str(), stands(peer))).collect()
    }
}

/// The figures whose names end so, by server.
fn of_peers(monitor: &Value, ending: &str) -> impl Iterator<Item = (String, u64)> {
    let figures = monitor.as_object().into_iter().flatten();
    figures.filter_map(move |(name, figure)| {
        Some((name.strip_suffix(ending)?.to_owned(), figure.as_u64()?))
    })
}

/// The average latency of what was answered between two moments: of reads and updates, which is
/// every request.
#[expect(clippy::cast_precision_loss, reason = "milliseconds, and requests of some seconds")]
fn average_between(before: &Value, after: &Value) -> f64 {
    let done = |figure: &str| -> u64 {
        let between = ["readlatency", "updatelatency"].map(|kind| {
            let name = format!("{figure}_{kind}");
            let [before, after] =
                [before, after].map(|told| told[&name].as_u64().unwrap_or_default());
            // Figures that were reset count from 0.
            after.checked_sub(before).unwrap_or(after)
        });
        between.into_iter().fold(0, u64::saturating_add)
    };
    done("sum") as f64 / done("cnt").max(1) as f64
}

fn hot_paths(told: &Value) -> Vec<HotPath> {
    let window = Duration::from_millis(told["window_ms"].as_u64().unwrap_or_default());
    let paths = told["hot_paths"].as_array().into_iter().flatten();
    let pace_of = |count: &Value| pace(0, count.as_u64().unwrap_or_default(), window);
    let one = |its: &Value| HotPath {
        path: printable(&its["path"]),
        reads_per_second: pace_of(&its["reads"]),
        writes_per_second: pace_of(&its["writes"]),
    };
    paths.map(one).take(SHOWN).collect()
}

/// How many a second; a counter that was reset counts from 0.
fn pace(before: u64, after: u64, elapsed: Duration) -> u64 {
    let done = after.checked_sub(before).unwrap_or(after);
    let millis = elapsed.as_millis().max(1);
    u64::try_from(u128::from(done) * 1000 / millis).unwrap_or(u64::MAX)
}

/// A text without what moves a terminal's cursor.
fn printable(value: &Value) -> String {
    value.as_str().unwrap_or("?").chars().filter(|c| !c.is_control()).take(80).collect()
}

#[test]
fn a_pace_is_of_a_second_and_outlives_a_reset() {
    let two_seconds = Duration::from_secs(2);
    assert_eq!(pace(10, 30, two_seconds), 10);
    assert_eq!(pace(1000, 30, two_seconds), 15);
    assert_eq!(pace(0, 7, Duration::ZERO), 7000);
}

#[test]
fn a_server_that_is_not_there_is_shown() {
    let sample = |monitor| Sample {
        at: Instant::now(),
        monitor,
        received: 0,
        connections: HashMap::new(),
        hot_paths: None,
    };
    let peers = |monitor| {
        let turn = Turn::between(&sample(Value::Null), &sample(monitor));
        let peers = turn.peers().into_iter();
        peers.map(|(peer, stands)| format!("{peer}: {stands}")).collect::<Vec<_>>()
    };
    let leader = serde_json::json!({
        "1_peer_present": 1, "1_peer_lag_entries": 3,
        "2_peer_present": 0, "2_peer_lag_entries": 40,
        "4_peer_present": 0,
    });
    assert_eq!(
        peers(leader),
        ["1: 3 transactions behind", "2: not there, 40 transactions behind", "4: not there"]
    );
    // Nothing is said of who is there.
    assert_eq!(peers(serde_json::json!({"2_peer_lag_entries": 0})), ["2: 0 transactions behind"]);
    assert_eq!(peers(serde_json::json!({})), [""; 0]);
}

#[test]
fn latency_is_that_of_the_time_between() {
    let told = |read: (u64, u64), update: (u64, u64)| {
        serde_json::json!({
            "sum_readlatency": read.0, "cnt_readlatency": read.1,
            "sum_updatelatency": update.0, "cnt_updatelatency": update.1,
            "avg_latency": 99.0,
        })
    };
    let before = told((1000, 10), (5000, 20));
    assert_eq!(average_between(&before, &told((1006, 12), (5010, 22))), 4.0);
    assert_eq!(average_between(&before, &before), 0.0);
    // They were reset.
    assert_eq!(average_between(&before, &told((8, 2), (0, 0))), 4.0);
}
