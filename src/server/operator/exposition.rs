//! The figures as Prometheus reads them (`PrometheusMetricsProvider`): ZooKeeper's names as they
//! are, and beside them this server's own.

use prometheus::TextEncoder;
use prometheus::proto::{
    Bucket, Counter as CounterValue, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
    Quantile, Summary,
};

use super::super::shared::Server;
use super::four_letter::ZOOKEEPER_VERSION;
use super::monitor::{self, Value};
use crate::server::figures::distribution::Distribution;
use crate::server::figures::metric_table::{
    ADVANCED, ADVANCED_SETS, BASIC, BASIC_SETS, COUNTER_SETS, COUNTERS, GAUGE_SETS, GAUGES, Row,
};
use crate::server::figures::process;
use crate::server::figures::series::{Counter, KeyedCounter, Measure};

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
    let mut families = families(server);
    if !wanted.is_empty() {
        families.retain(|family| wanted.iter().any(|name| name == family.name()));
    }
    // It refuses nothing but families without a sample.
    TextEncoder::new().encode_to_string(&families).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has doubles")]
fn families(server: &Server) -> Vec<MetricFamily> {
    let mut families = Families(Vec::new());
    let gauges = monitor::gauges(server);
    for row in GAUGES {
        let value = match gauges.get(row.name) {
            Some(Value::Integer(value)) => *value as f64,
            Some(Value::Average(summary)) => summary.sum as f64 / summary.count.max(1) as f64,
            Some(Value::Real(value)) => *value,
            None => continue,
        };
        families.put(row, MetricType::GAUGE, vec![gauge(value)]);
    }
    let keyed = monitor::keyed_gauges(server);
    for row in GAUGE_SETS {
        let of_keys = keyed.get(row.name).into_iter().flatten();
        let metrics = of_keys.map(|(key, value)| with_key(gauge(*value as f64), key));
        families.put(row, MetricType::GAUGE, metrics.collect());
    }
    let series = &server.stats.series;
    for row in COUNTERS {
        let total = Counter::named(row.name).map_or(0, |counter| series.total(counter));
        families.put(row, MetricType::COUNTER, vec![counter(total as f64)]);
    }
    for row in COUNTER_SETS {
        let of_keys = KeyedCounter::named(row.name).map(|counter| series.keyed_counts(counter));
        let metrics =
            of_keys.into_iter().flatten().map(|(key, total)| with_key(counter(total as f64), &key));
        families.put(row, MetricType::COUNTER, metrics.collect());
    }
    let never = Distribution::default();
    for (rows, quantiles) in [(BASIC, BASIC_QUANTILES), (ADVANCED, ADVANCED_QUANTILES)] {
        for row in rows {
            let its = Measure::named(row.name).map_or(&never, |measure| series.of(measure));
            families.put(row, MetricType::SUMMARY, vec![summary(its, quantiles)]);
        }
    }
    for (rows, quantiles) in [(BASIC_SETS, BASIC_QUANTILES), (ADVANCED_SETS, ADVANCED_QUANTILES)] {
        for row in rows {
            let keys = monitor::keys(server, row.name).into_iter();
            let metrics = keys.map(|(_, key, its)| with_key(summary(&its, quantiles), &key));
            families.put(row, MetricType::SUMMARY, metrics.collect());
        }
    }
    for (name, measure) in HISTOGRAMS {
        let help = format!("{}, in seconds", measure.name());
        families.add(name, help, MetricType::HISTOGRAM, vec![histogram(series.of(measure))]);
    }
    for figure in process::figures(server.clock.started()) {
        let (kind, metric) = if figure.is_counter {
            (MetricType::COUNTER, counter(figure.value))
        } else {
            (MetricType::GAUGE, gauge(figure.value))
        };
        families.add(figure.name, figure.help.to_owned(), kind, vec![metric]);
    }
    let mut info = gauge(1.0);
    info.set_label(vec![
        label("version", env!("CARGO_PKG_VERSION")),
        label("zookeeper", ZOOKEEPER_VERSION),
        label("built", env!("FERROKEEPER_BUILT")),
    ]);
    families.add(
        "ferrokeeper_info",
        "the version that is running".to_owned(),
        MetricType::GAUGE,
        vec![info],
    );
    families.0
}

struct Families(Vec<MetricFamily>);

impl Families {
    fn put(&mut self, row: &Row, kind: MetricType, metrics: Vec<Metric>) {
        self.add(row.name, row.help(), kind, metrics);
    }

    fn add(&mut self, name: &str, help: String, kind: MetricType, metrics: Vec<Metric>) {
        if metrics.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help);
        family.set_field_type(kind);
        family.set_metric(metrics);
        self.0.push(family);
    }
}

fn label(name: &str, value: &str) -> LabelPair {
    let mut label = LabelPair::default();
    label.set_name(name.to_owned());
    label.set_value(value.to_owned());
    label
}

/// ZooKeeper's one label.
fn with_key(mut metric: Metric, key: &str) -> Metric {
    metric.set_label(vec![label("key", key)]);
    metric
}

fn gauge(value: f64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    Metric::from_gauge(gauge)
}

fn counter(value: f64) -> Metric {
    let mut counter = CounterValue::default();
    counter.set_value(value);
    let mut metric = Metric::default();
    metric.set_counter(counter);
    metric
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus has doubles")]
fn summary(values: &Distribution, quantiles: &[f64]) -> Metric {
    let (all, lately) = (values.counted(), values.lately());
    let quantile = |part: &f64| {
        let mut quantile = Quantile::default();
        quantile.set_quantile(*part);
        let is_known = lately.count > 0;
        quantile.set_value(if is_known { lately.percentile(*part) as f64 } else { f64::NAN });
        quantile
    };
    let mut summary = Summary::default();
    summary.set_quantile(quantiles.iter().map(quantile).collect());
    summary.set_sample_count(all.count);
    summary.set_sample_sum(all.sum as f64);
    let mut metric = Metric::default();
    metric.set_summary(summary);
    metric
}

/// Values are whole milliseconds that have passed: one of 3 lies between 3 and 4.
#[expect(clippy::cast_precision_loss, reason = "Prometheus has doubles")]
fn histogram(values: &Distribution) -> Metric {
    let all = values.counted();
    let bucket = |bound: &u64| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound as f64 / 1000.0);
        bucket.set_cumulative_count(all.below(*bound));
        bucket
    };
    let mut histogram = Histogram::default();
    histogram.set_bucket(BOUNDS_MS.iter().map(bucket).collect());
    histogram.set_sample_count(all.count);
    histogram.set_sample_sum(all.sum as f64 / 1000.0);
    let mut metric = Metric::default();
    metric.set_histogram(histogram);
    metric
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
