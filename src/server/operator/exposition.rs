//! The figures as Prometheus reads them (`PrometheusMetricsProvider`): ZooKeeper's names as they
//! are, and beside them this server's own.

use std::iter;

use metrics::{Key, Label};
use metrics_exporter_prometheus::LabelSet;
use metrics_exporter_prometheus::formatting::{
    write_help_line, write_metric_line, write_type_line,
};

use super::four_letter::ZOOKEEPER_VERSION;
use super::monitor::{self, Value};
use crate::server::figures::distribution::Distribution;
use crate::server::figures::metric_table::{
    ADVANCED, ADVANCED_SETS, BASIC, BASIC_SETS, COUNTER_SETS, COUNTERS, GAUGE_SETS, GAUGES,
};
use crate::server::figures::process;
use crate::server::figures::recorder::KEY;
use crate::server::figures::series::{Counter, KeyedCounter, Measure};
use crate::server::shared::Server;

/// Quantiles of ZooKeeper's two kinds of summaries.
const BASIC_QUANTILES: &[f64] = &[0.5];
const ADVANCED_QUANTILES: &[f64] = &[0.5, 0.9, 0.99];

/// Upper bounds of histograms, in milliseconds: powers of two, at which counting is exact.
const BOUNDS_MS: [u64; 15] =
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384];

/// Summaries that are histograms, too: those can be added up over servers.
const HISTOGRAMS: [(&str, Measure); 8] = [
    ("ferrokeeper_read_seconds", Measure::Read),
    ("ferrokeeper_update_seconds", Measure::Update),
    ("ferrokeeper_fsync_seconds", Measure::Fsync),
    ("ferrokeeper_snapshot_seconds", Measure::Snapshot),
    ("ferrokeeper_quorum_ack_seconds", Measure::QuorumAck),
    ("ferrokeeper_propagation_seconds", Measure::Propagation),
    ("ferrokeeper_election_seconds", Measure::Election),
    ("ferrokeeper_unavailable_seconds", Measure::Unavailable),
];

/// The page, of all names or of those that are `wanted`.
pub(in crate::server) fn page(server: &Server, wanted: &[String]) -> String {
    let mut page = Page { text: String::new(), wanted };
    put_gauges(&mut page, server);
    put_counters(&mut page, server);
    put_summaries(&mut page, server);
    for (name, measure) in HISTOGRAMS {
        let help = format!("{}, in seconds", measure.name());
        let its = server.stats.series.of(measure);
        page.put(name, &help, "histogram", [(no_label(), its)], put_histogram);
    }
    for figure in process::figures(server.clock.started()) {
        let kind = if figure.is_counter { "counter" } else { "gauge" };
        page.put(figure.name, figure.help, kind, [(no_label(), figure.value)], put_number);
    }
    let info = labels([
        ("version", env!("CARGO_PKG_VERSION")),
        ("zookeeper", ZOOKEEPER_VERSION),
        ("built", env!("FERROKEEPER_BUILT")),
    ]);
    let help = "the version that is running";
    page.put("ferrokeeper_info", help, "gauge", [(info, 1.0)], put_number);
    page.text
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has doubles")]
fn put_gauges(page: &mut Page<'_>, server: &Server) {
    let gauges = monitor::gauges(server);
    for row in GAUGES {
        let value = match gauges.get(row.name) {
            Some(Value::Integer(value)) => *value as f64,
            Some(Value::Average(summary)) => summary.sum as f64 / summary.count.max(1) as f64,
            Some(Value::Real(value)) => *value,
            None => continue,
        };
        page.put(row.name, &row.help(), "gauge", [(no_label(), value)], put_number);
    }
    let keyed = monitor::keyed_gauges(server);
    for row in GAUGE_SETS {
        let of_keys = keyed.get(row.name).into_iter().flatten();
        let samples = of_keys.map(|(key, value)| (of_key(key), *value as f64));
        page.put(row.name, &row.help(), "gauge", samples, put_number);
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has doubles")]
fn put_counters(page: &mut Page<'_>, server: &Server) {
    let series = &server.stats.series;
    for row in COUNTERS {
        let total = Counter::named(row.name).map_or(0, |counter| series.total(counter));
        page.put(row.name, &row.help(), "counter", [(no_label(), total as f64)], put_number);
    }
    for row in COUNTER_SETS {
        let of_keys = KeyedCounter::named(row.name).map(|counter| series.keyed_counts(counter));
        let samples = of_keys.into_iter().flatten();
        let samples = samples.map(|(key, total)| (of_key(&key), total as f64));
        page.put(row.name, &row.help(), "counter", samples, put_number);
    }
}

fn put_summaries(page: &mut Page<'_>, server: &Server) {
    let never = Distribution::default();
    for (rows, quantiles) in [(BASIC, BASIC_QUANTILES), (ADVANCED, ADVANCED_QUANTILES)] {
        for row in rows {
            let its =
                Measure::named(row.name).map_or(&never, |measure| server.stats.series.of(measure));
            page.put(row.name, &row.help(), "summary", [(no_label(), its)], |line, its| {
                put_summary(line, its, quantiles);
            });
        }
    }
    for (rows, quantiles) in [(BASIC_SETS, BASIC_QUANTILES), (ADVANCED_SETS, ADVANCED_QUANTILES)] {
        for row in rows {
            let keys = monitor::keys(server, row.name).into_iter();
            let samples = keys.map(|(_, key, its)| (of_key(&key), its));
            page.put(row.name, &row.help(), "summary", samples, |line, its| {
                put_summary(line, &its, quantiles);
            });
        }
    }
}

/// What is written of the page.
struct Page<'a> {
    text: String,
    /// Names; none is all.
    wanted: &'a [String],
}

impl Page<'_> {
    /// A name with its samples, if it has one and somebody wants it.
    fn put<T>(
        &mut self,
        name: &str,
        help: &str,
        kind: &str,
        samples: impl IntoIterator<Item = (LabelSet, T)>,
        put: impl Fn(&mut Lines<'_>, T),
    ) {
        if !self.wanted.is_empty() && !self.wanted.iter().any(|wanted| wanted == name) {
            return;
        }
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let text = &mut self.text;
        write_help_line(text, name, None, None, help);
        write_type_line(text, name, None, None, kind);
        for (labels, value) in samples {
            put(&mut Lines { text, name, labels: &labels }, value);
        }
    }
}

/// The lines of a sample.
struct Lines<'a> {
    text: &'a mut String,
    name: &'a str,
    labels: &'a LabelSet,
}

impl Lines<'_> {
    /// One, with a label of its own beside those of the sample. The formatter's own endings are not
    /// used: it leaves them out behind a name that has them, as `node_created_watch_count`.
    fn put(&mut self, ending: &str, own: Option<(&'static str, &str)>, value: f64) {
        let name = format!("{}{ending}", self.name);
        write_metric_line(self.text, &name, None, self.labels, own, value, None);
    }
}

fn no_label() -> LabelSet {
    labels([])
}

fn of_key(key: &str) -> LabelSet {
    labels([(KEY, key)])
}

/// The formatter takes two backslashes for one that is quoted already, and one before a quotation
/// mark for its own: doubled, each stands for itself.
fn labels<const N: usize>(all: [(&'static str, &str); N]) -> LabelSet {
    let all = all.map(|(name, value)| Label::new(name, value.replace('\\', r"\\")));
    LabelSet::from_key_and_global(&Key::from_parts("", all.to_vec()), &Default::default())
}

fn put_number(lines: &mut Lines<'_>, value: f64) {
    lines.put("", None, value);
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has doubles")]
fn put_summary(lines: &mut Lines<'_>, values: &Distribution, quantiles: &[f64]) {
    let (all, lately) = (values.counted(), values.lately());
    for part in quantiles {
        let is_known = lately.count > 0;
        let value = if is_known { lately.percentile(*part) as f64 } else { f64::NAN };
        lines.put("", Some(("quantile", &part.to_string())), value);
    }
    lines.put("_sum", None, all.sum as f64);
    lines.put("_count", None, all.count as f64);
}

/// Values are whole milliseconds that have passed: one of 3 lies between 3 and 4.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has doubles")]
fn put_histogram(lines: &mut Lines<'_>, values: &Distribution) {
    let all = values.counted();
    let bounds = BOUNDS_MS.map(|bound| ((bound as f64 / 1000.0).to_string(), all.below(bound)));
    for (bound, below) in bounds.into_iter().chain(iter::once(("+Inf".to_owned(), all.count))) {
        lines.put("_bucket", Some(("le", &bound)), below as f64);
    }
    lines.put("_sum", None, all.sum as f64 / 1000.0);
    lines.put("_count", None, all.count as f64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::figures::series::KeyedMeasure;
    use crate::server::without_orderer;

    fn part(server: &Server, name: &str) -> Vec<String> {
        let page = page(server, &[name.to_owned()]);
        assert!(page.ends_with('\n') || page.is_empty());
        page.lines().map(str::to_owned).collect()
    }

    /// A scrape with the same line twice is refused as a whole.
    #[test]
    fn every_key_has_lines_of_its_own() {
        let (_dir, server) = without_orderer("");
        for key in ["a", r"b\c", r"b\\c", r#"b\"c"#, r"end\", "\u{fc} d"] {
            server.stats.series.record_of_key(KeyedMeasure::NamespaceRead, key, 7);
        }
        let keys = ["a", r#"b\\\"c"#, r"b\\\\c", r"b\\c", r"end\\", "\u{fc} d"];
        let expected = keys.map(|key| {
            [
                format!("read_per_namespace{{key=\"{key}\",quantile=\"0.5\"}} 7"),
                format!("read_per_namespace_sum{{key=\"{key}\"}} 7"),
                format!("read_per_namespace_count{{key=\"{key}\"}} 1"),
            ]
        });
        assert_eq!(part(&server, "read_per_namespace")[2..], expected.concat());
    }

    #[test]
    fn a_name_may_end_as_a_part_of_a_summary_does() {
        let (_dir, server) = without_orderer("");
        server.stats.series.record(Measure::CreatedWatchers, 3);
        assert_eq!(
            part(&server, "node_created_watch_count"),
            [
                "# HELP node_created_watch_count watchers notified when a znode was created",
                "# TYPE node_created_watch_count summary",
                "node_created_watch_count{quantile=\"0.5\"} 3",
                "node_created_watch_count_sum 3",
                "node_created_watch_count_count 1",
            ]
        );
        let lines = part(&server, "updatelatency");
        let quantiles = ["0.5", "0.9", "0.99"]
            .map(|quantile| format!("updatelatency{{quantile=\"{quantile}\"}} NaN"));
        assert_eq!(lines[2..5], quantiles);
        assert_eq!(lines[5..], ["updatelatency_sum 0", "updatelatency_count 0"]);
    }

    #[test]
    fn histograms_are_in_seconds() {
        let (_dir, server) = without_orderer("");
        server.stats.series.record_many(Measure::Fsync, 3, 2);
        server.stats.series.record(Measure::Fsync, 70_000);
        let lines = part(&server, "ferrokeeper_fsync_seconds");
        assert_eq!(lines.len(), 2 + BOUNDS_MS.len() + 3);
        assert_eq!(lines[1], "# TYPE ferrokeeper_fsync_seconds histogram");
        assert_eq!(
            lines[3..5],
            [2, 4].map(|ms| {
                let below = if ms == 2 { 0 } else { 2 };
                format!("ferrokeeper_fsync_seconds_bucket{{le=\"0.00{ms}\"}} {below}")
            })
        );
        assert_eq!(
            lines[16..],
            [
                "ferrokeeper_fsync_seconds_bucket{le=\"16.384\"} 2",
                "ferrokeeper_fsync_seconds_bucket{le=\"+Inf\"} 3",
                "ferrokeeper_fsync_seconds_sum 70.006",
                "ferrokeeper_fsync_seconds_count 3",
            ]
        );
    }

    #[test]
    fn a_name_without_a_sample_or_that_nobody_wants_is_left_out() {
        let (_dir, server) = without_orderer("");
        assert_eq!(part(&server, "read_per_namespace"), [""; 0]);
        assert_eq!(part(&server, "no_such_name"), [""; 0]);
        let page = page(&server, &[]);
        assert!(!page.contains("read_per_namespace"));
        assert!(page.contains("\n# TYPE commit_count counter\ncommit_count 0\n"));
        let info = format!(
            "ferrokeeper_info{{version=\"{}\",zookeeper=\"{ZOOKEEPER_VERSION}\",built=\"{}\"}} 1\n",
            env!("CARGO_PKG_VERSION"),
            env!("FERROKEEPER_BUILT")
        );
        assert!(page.ends_with(&info), "{page}");
    }
}
