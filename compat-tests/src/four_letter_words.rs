//! Four-letter words: asking, and the shape of the answers.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::program::repository;

/// Sends a word and returns everything until the server closes.
pub fn ask(address: SocketAddr, word: &str) -> io::Result<String> {
    ask_within(address, word, Duration::from_secs(5))
}

/// The same with another patience for connecting and for each read.
pub fn ask_within(address: SocketAddr, word: &str, patience: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(word.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// What monitors parse out of `mntr`.
const MONITORED: [&str; 16] = [
    "zk_version",
    "zk_server_state",
    "zk_avg_latency",
    "zk_max_latency",
    "zk_min_latency",
    "zk_packets_received",
    "zk_packets_sent",
    "zk_num_alive_connections",
    "zk_outstanding_requests",
    "zk_znode_count",
    "zk_watch_count",
    "zk_ephemerals_count",
    "zk_approximate_data_size",
    "zk_open_file_descriptor_count",
    "zk_max_file_descriptor_count",
    "zk_global_sessions",
];

/// The answer with every changing value blotted out: keys, order and punctuation stay.
pub fn shape(word: &str, answer: &str) -> Vec<String> {
    match word {
        "mntr" => mntr_shape(answer),
        "conf" => answer.split('\n').map(blot_setting).collect(),
        "cons" | "stat" => {
            let (mut clients, rest): (Vec<String>, Vec<String>) =
                answer.split('\n').map(blot_connection).partition(|line| line.starts_with(" /"));
            // The server lists its connections in no order.
            clients.sort();
            clients.dedup();
            [rest, clients].concat()
        }
        _ => answer.split('\n').map(blot).collect(),
    }
}

fn mntr_shape(answer: &str) -> Vec<String> {
    let lines: Vec<(&str, &str)> =
        answer.lines().map(|line| line.split_once('\t').unwrap_or((line, "no TAB"))).collect();
    let first = lines.iter().take(2).map(|(key, _)| format!("first keys: {key}"));
    let monitored = MONITORED.iter().map(|key| {
        let value = lines.iter().find(|(known, _)| known == key).map(|(_, value)| *value);
        format!(
            "{key}\t{}",
            value.map_or_else(
                || "missing".into(),
                |value| {
                    // An average without a fraction is printed as 0.0 or 0 by the same server.
                    if *key == "zk_avg_latency" {
                        blot(value).replace("<n>.<n>", "<n>")
                    } else {
                        blot(value)
                    }
                }
            )
        )
    });
    first.chain(monitored).collect()
}

/// Keys of ZooKeeper's `mntr` that are not here, but for those that may be missing. They may be
/// without the `zk_` in front, as AdminServers have them.
///
/// # Panics
/// If docs/metrics.md cannot be read.
pub fn missing_keys(theirs: &[String], ours: &[String]) -> Vec<String> {
    const PARTS: [&str; 9] = ["avg", "min", "max", "cnt", "sum", "p50", "p95", "p99", "p999"];
    let left_out = summaries_left_out();
    let may_be_missing = |key: &str| {
        let its = key.strip_prefix("zk_").unwrap_or(key).split_once('_');
        its.is_some_and(|(part, name)| {
            PARTS.contains(&part) && left_out.iter().any(|summary| summary == name)
        })
    };
    theirs.iter().filter(|key| !ours.contains(key) && !may_be_missing(key)).cloned().collect()
}

/// Summaries that are not in `mntr`, as the page of metrics has it: always 0, or absent. Those by
/// the number of a server or by a namespace are there once they have a value.
fn summaries_left_out() -> Vec<String> {
    let page = fs::read_to_string(repository().join("docs/metrics.md")).expect("the page");
    let row = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect()
    };
    let always_0 = page.lines().map(row).filter_map(|cells| {
        let [name, kind, mntr, _, why] = cells.as_slice() else { return None };
        (kind == "summary" && mntr.is_empty() && why.starts_with("always 0")).then(|| name.clone())
    });
    let absent = page.lines().skip_while(|line| *line != "| metric | why |").skip(2);
    let absent = absent.take_while(|line| line.starts_with('|')).map(|line| row(line).remove(0));
    let names: Vec<String> = always_0.chain(absent).collect();
    let keyed = ["ack_latency", "learner_handler_qp_size", "learner_handler_qp_time_ms"];
    let by_server = |name: &str| (1..=3).map(|id| format!("{id}_{name}")).collect::<Vec<_>>();
    let by_namespace = ["write", "read"].map(|kind| format!("zookeeper_{kind}_per_namespace"));
    names.into_iter().chain(keyed.into_iter().flat_map(by_server)).chain(by_namespace).collect()
}

/// A setting of `conf` as it is, unless it depends on the run.
fn blot_setting(line: &str) -> String {
    let (key, _) = line.split_once('=').unwrap_or((line, ""));
    let changing = ["clientPort", "dataDir", "dataDirSize", "dataLogDir", "dataLogSize"];
    if changing.contains(&key) { blot(line) } else { line.to_string() }
}

/// A connection's line: what its last request was depends on its pings.
fn blot_connection(line: &str) -> String {
    if !line.starts_with(" /") {
        return blot(line);
    }
    let fields = line.trim_end_matches(')').split(',').filter(|field| !field.starts_with("lcxid="));
    let shapes: Vec<String> = fields
        .map(|field| if field.starts_with("lop=") { "lop=<op>".into() } else { blot(field) })
        .collect();
    shapes.join(",")
}

/// Numbers, the version and directories blotted out.
fn blot(line: &str) -> String {
    if let Some(rest) = line.strip_prefix("Zookeeper version: ") {
        return format!("Zookeeper version: {}", blot_version(rest));
    }
    if let Some((version, _)) = line.split_once(", built on ")
        && version.starts_with("3.")
    {
        return blot_version(line);
    }
    for key in ["dataDir=", "dataLogDir="] {
        if let Some(value) = line.strip_prefix(key) {
            let last = value.rsplit('/').next().unwrap_or_default();
            return format!("{key}<path>/{last}");
        }
    }
    blot_numbers(line)
}

fn blot_version(text: &str) -> String {
    let (version, built) = text.split_once(", built on ").unwrap_or((text, "nothing"));
    let (release, commit) = version.split_once('-').unwrap_or((version, ""));
    // The server says its own version where ZooKeeper names its commit.
    let own = commit.strip_prefix("ferrokeeper.").is_some_and(|version| !version.is_empty());
    let hex = !commit.is_empty() && commit.chars().all(|c| c.is_ascii_hexdigit());
    let commit = if hex || own { "<commit>" } else { commit };
    format!("{release}-{commit}, built on {}", blot_numbers(built))
}

fn blot_numbers(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        if let Some(hex) = rest.strip_prefix("0x") {
            out.push_str("0x<n>");
            rest = hex.trim_start_matches(|c: char| c.is_ascii_hexdigit());
        } else if c.is_ascii_digit() {
            out.push_str("<n>");
            rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        } else {
            out.push(c);
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
    }
    out
}
