//! Counters of the server, as `srvr`, `mntr` and `/metrics` show them (`ServerStats`).

use std::sync::atomic::{AtomicU64, Ordering};

use super::hot_paths::HotPaths;
use super::quorum_stats::QuorumStats;
use super::series::{Counter, Measure, Series};
use crate::engine::time::Monotonic;
use crate::ensemble::RequestKind;

/// Least, greatest, sum and number of some values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::server) struct Summary {
    pub(in crate::server) min: u64,
    pub(in crate::server) max: u64,
    pub(in crate::server) sum: u64,
    pub(in crate::server) count: u64,
}

impl Summary {
    /// Of one value.
    #[cfg(test)]
    pub(in crate::server) const fn of(value: u64) -> Self {
        Self { min: value, max: value, sum: value, count: 1 }
    }

    /// Counts a value `times` times, at least once.
    pub(in crate::server) fn record(&mut self, value: u64, times: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
        self.count += times;
    }

    /// The average to four decimals as Java prints a double, 0.0 without values.
    pub(in crate::server) fn average(&self) -> String {
        if self.count == 0 {
            return "0.0".to_owned();
        }
        let tenthousandths = (self.sum * 10_000 + self.count / 2) / self.count;
        let mut text = format!("{}.{:04}", tenthousandths / 10_000, tenthousandths % 10_000);
        while text.ends_with('0') && !text.ends_with(".0") {
            text.pop();
        }
        text
    }
}

/// Everything that is counted since the start, or since `srst`.
#[derive(Debug, Default)]
pub(in crate::server) struct Stats {
    pub(in crate::server) packets_received: AtomicU64,
    pub(in crate::server) packets_sent: AtomicU64,
    pub(in crate::server) series: Series,
    pub(in crate::server) quorum: QuorumStats,
    pub(in crate::server) hot_paths: HotPaths,
    pub(in crate::server) unsealed: Unsealed,
    response_size: ResponseSize,
}

/// Old files of ZooKeeper's that wait for `data seal`.
#[derive(Debug, Default)]
pub(in crate::server) struct Unsealed {
    pub(in crate::server) bytes: AtomicU64,
    /// When it is to be told next.
    next: AtomicU64,
}

impl Unsealed {
    /// So many bytes wait. Whether that is to be told: no sooner than `between` milliseconds after
    /// the last time.
    pub(in crate::server) fn set(&self, bytes: u64, now: Monotonic, between: u64) -> bool {
        self.bytes.store(bytes, Ordering::Relaxed);
        let is_due = bytes > 0 && now.0 >= get(&self.next);
        if is_due {
            self.next.store(now.0.saturating_add(between), Ordering::Relaxed);
        }
        is_due
    }
}

/// Bytes of answers, one more than there are: 0 is for none.
#[derive(Debug, Default)]
struct ResponseSize {
    last: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

/// Adds to a counter that nothing is ordered by.
pub(in crate::server) fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Reads such a counter.
pub(in crate::server) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Stats {
    /// Milliseconds from a request's arrival to its answer, of so many requests.
    pub(in crate::server) fn record_latency(&self, kind: RequestKind<'_>, ms: u64, requests: u64) {
        let measure = match kind {
            RequestKind::Read(_) => Measure::Read,
            RequestKind::Update => Measure::Update,
        };
        self.series.record_many(measure, ms, requests);
    }

    /// Latencies of all requests.
    pub(in crate::server) fn latency(&self) -> Summary {
        let [reads, updates] =
            [Measure::Read, Measure::Update].map(|its| self.series.of(its).since_reset().0);
        match (reads.count, updates.count) {
            (_, 0) => reads,
            (0, _) => updates,
            _ => Summary {
                min: reads.min.min(updates.min),
                max: reads.max.max(updates.max),
                sum: reads.sum.saturating_add(updates.sum),
                count: reads.count + updates.count,
            },
        }
    }

    /// So many events are on their way to a client, of so many bytes without those that say how
    /// long each is.
    pub(in crate::server) fn told(&self, events: u64, bytes: u64) {
        add(&self.packets_sent, events);
        self.series.count(Counter::WatchBytes, bytes);
    }

    /// Answers of so many bytes were made: the last, the least and the greatest of them.
    pub(in crate::server) fn record_response_size(&self, last: usize, min: usize, max: usize) {
        let sizes = &self.response_size;
        sizes.last.store(last as u64 + 1, Ordering::Relaxed);
        let (min, max) = (min as u64 + 1, max as u64 + 1);
        let least = sizes.min.load(Ordering::Relaxed);
        if least == 0 || min < least {
            sizes.min.store(min, Ordering::Relaxed);
        }
        if max > sizes.max.load(Ordering::Relaxed) {
            sizes.max.fetch_max(max, Ordering::Relaxed);
        }
    }

    /// Bytes of the last, the least and the greatest answer; -1 where there was none.
    pub(in crate::server) fn response_size(&self) -> [i64; 3] {
        let sizes = &self.response_size;
        [&sizes.last, &sizes.min, &sizes.max].map(|size| get(size).cast_signed() - 1)
    }

    /// `srst`: everything is counted from here on.
    pub(in crate::server) fn reset(&self) {
        self.series.reset();
        self.quorum.reset();
        self.packets_received.store(0, Ordering::Relaxed);
        self.packets_sent.store(0, Ordering::Relaxed);
        for size in [&self.response_size.last, &self.response_size.min, &self.response_size.max] {
            size.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_print_as_javas() {
        for (sum, count, text) in [
            (0, 0, "0.0"),
            (0, 5, "0.0"),
            (10, 4, "2.5"),
            (1, 3, "0.3333"),
            (2, 3, "0.6667"),
            (30, 10, "3.0"),
        ] {
            assert_eq!(Summary { min: 0, max: 0, sum, count }.average(), text, "{sum}/{count}");
        }
    }
}
