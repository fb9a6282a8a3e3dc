//! `/metrics` of a server: fetched, and taken apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// The provider that serves it, for zoo.cfg of both servers.
pub const PROVIDER: &str =
    "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";

/// Names that ZooKeeper does not have.
pub const OWN: [&str; 10] = [
    "audit_failing",
    "audit_held_bytes",
    "audit_lines_lost",
    "disk_nearly_full_refused",
    "fsync_threshold_exceed_count",
    "peer_present",
    "ready",
    "snapshot_failed_count",
    "unfinished_write_seconds",
    "watched_bytes",
];
/// How others of them begin.
pub const OWN_STARTS: [&str; 7] = [
    "ferrokeeper_",
    "process_",
    "peer_lag_",
    "read_too_old_",
    "response_above_",
    "unread_",
    "unsealed_",
];

/// Whether ZooKeeper does not have a metric of that name.
pub fn is_own(name: &str) -> bool {
    OWN.contains(&name) || OWN_STARTS.iter().any(|start| name.starts_with(start))
}

/// A sample: its value by its labels.
pub type Samples = BTreeMap<BTreeMap<String, String>, f64>;

/// A page.
#[derive(Debug, Default)]
pub struct MetricsPage {
    /// The type of each family.
    pub types: BTreeMap<String, String>,
    /// The text beside it.
    pub help: BTreeMap<String, String>,
    /// The samples by their name, which for those of summaries and histograms may have an ending.
    pub samples: BTreeMap<String, Samples>,
}

impl MetricsPage {
    /// Fetches it.
    ///
    /// # Panics
    /// If it is not served, or is none.
    pub fn fetch(address: SocketAddr) -> Self {
        Self::fetch_from(address, "/metrics")
    }

    /// The same from a path with a query.
    ///
    /// # Panics
    /// If it is not served, or is none.
    pub fn fetch_from(address: SocketAddr, path: &str) -> Self {
        let patience = Duration::from_secs(10);
        let mut stream = TcpStream::connect_timeout(&address, patience).expect("connected");
        stream.set_read_timeout(Some(patience)).expect("set");
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer and the end of the stream");
        let (head, page) = answer.split_once("\r\n\r\n").expect("a head and a page");
        assert!(head.contains(" 200 "), "{head}");
        assert!(head.to_lowercase().contains("text/plain; version=0.0.4"), "{head}");
        Self::parse(page)
    }

    /// Takes a page apart.
    ///
    /// # Panics
    /// If a line is none of the format, or a sample has no type.
    pub fn parse(text: &str) -> Self {
        let mut page = Self::default();
        for line in text.lines() {
            if let Some((name, help)) =
                line.strip_prefix("# HELP ").and_then(|it| it.split_once(' '))
            {
                page.help.insert(name.to_owned(), help.to_owned());
            } else if let Some((name, of)) =
                line.strip_prefix("# TYPE ").and_then(|it| it.split_once(' '))
            {
                let before = page.types.insert(name.to_owned(), of.to_owned());
                assert!(before.is_none(), "{name} has two types");
            } else {
                page.put(line).unwrap_or_else(|| panic!("no line of a page: {line}"));
            }
        }
        page
    }

    fn put(&mut self, line: &str) -> Option<()> {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}')?),
            None => (series, ""),
        };
        let labels = labels.split(',').filter(|label| !label.is_empty()).map(|label| {
            let (key, value) = label.split_once('=')?;
            Some((key.to_owned(), value.trim_matches('"').to_owned()))
        });
        let labels: Option<BTreeMap<String, String>> = labels.collect();
        self.family_of(name)?;
        let samples = self.samples.entry(name.to_owned()).or_default();
        let before = samples.insert(labels?, value.parse().ok()?);
        assert!(before.is_none(), "twice: {line}");
        Some(())
    }

    /// The family that a sample belongs to.
    pub fn family_of(&self, sample: &str) -> Option<&str> {
        let endings = ["_sum", "_count", "_bucket"];
        let shorter = endings.into_iter().filter_map(|ending| sample.strip_suffix(ending));
        std::iter::once(sample)
            .chain(shorter)
            .find_map(|name| self.types.get_key_value(name))
            .map(|(name, _)| name.as_str())
    }

    /// The labels that samples of a name have.
    pub fn labels(&self, sample: &str) -> BTreeSet<&str> {
        let samples = self.samples.get(sample).into_iter().flat_map(BTreeMap::keys);
        samples.flat_map(BTreeMap::keys).map(String::as_str).collect()
    }

    /// The one value of a name without labels.
    ///
    /// # Panics
    /// If there is none.
    pub fn value(&self, sample: &str) -> f64 {
        let samples = self.samples.get(sample);
        let value = samples.and_then(|samples| samples.get(&BTreeMap::new()));
        *value.unwrap_or_else(|| panic!("no {sample}"))
    }

    /// The value of a name with one key.
    pub fn of_key(&self, sample: &str, key: &str) -> Option<f64> {
        let labels = BTreeMap::from([("key".to_owned(), key.to_owned())]);
        self.samples.get(sample)?.get(&labels).copied()
    }
}

/// Lines of zoo.cfg for a server that shows its metrics. Apache ZooKeeper finds its provider among
/// these classes.
pub fn config(classes: &Path) -> [String; 2] {
    assert!(fs::exists(classes).is_ok_and(|exists| exists), "no classes");
    [PROVIDER.to_owned(), format!("metricsProvider.classPath={}", classes.display())]
}
