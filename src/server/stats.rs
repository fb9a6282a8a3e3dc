//! Counters of the server, as `srvr`, `mntr` and `/metrics` show them (reference 13.2 and 15).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::clock::millis;

/// Least, greatest, sum and number of some values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) sum: u64,
    pub(super) count: u64,
}

impl Summary {
    /// Of one value.
    pub(super) const fn of(value: u64) -> Self {
        Self { min: value, max: value, sum: value, count: 1 }
    }

    pub(super) fn record(&mut self, value: u64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.sum = self.sum.saturating_add(value);
        self.count += 1;
    }

    /// The average to four decimals as Java prints a double, 0.0 without values.
    pub(super) fn average(&self) -> String {
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
pub(super) struct Stats {
    pub(super) packets_received: AtomicU64,
    pub(super) packets_sent: AtomicU64,
    pub(super) bytes_received: AtomicU64,
    pub(super) connections_rejected: AtomicU64,
    pub(super) connection_requests: AtomicU64,
    pub(super) sessions_expired: AtomicU64,
    /// Syncs above `fsync.warningthresholdms`; `srst` leaves it.
    pub(super) slow_syncs: AtomicU64,
    /// Milliseconds from a request's arrival to its answer, without pings.
    latency: Mutex<Summary>,
    fsync: Mutex<Summary>,
    snapshot: Mutex<Summary>,
    /// What the counters had come to at the last `srst`: a scraper's must not go back.
    at_reset: Mutex<Counters>,
}

/// Counters that `srst` sets to zero, but not for a scraper.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) bytes_received: u64,
    pub(super) connections_rejected: u64,
    pub(super) connection_requests: u64,
    pub(super) sessions_expired: u64,
}

/// Adds to a counter that nothing is ordered by.
pub(super) fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

/// Reads such a counter.
pub(super) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Stats {
    pub(super) fn record_latency(&self, latencies: Summary) {
        if latencies.count == 0 {
            return;
        }
        let mut latency = self.latency.lock();
        latency.min =
            if latency.count == 0 { latencies.min } else { latency.min.min(latencies.min) };
        latency.max = latency.max.max(latencies.max);
        latency.sum = latency.sum.saturating_add(latencies.sum);
        latency.count += latencies.count;
    }

    pub(super) fn latency(&self) -> Summary {
        *self.latency.lock()
    }

    pub(super) fn record_fsync(&self, took: Duration) {
        self.fsync.lock().record(millis(took));
    }

    pub(super) fn fsync(&self) -> Summary {
        *self.fsync.lock()
    }

    pub(super) fn record_snapshot(&self, ms: u64) {
        self.snapshot.lock().record(ms);
    }

    pub(super) fn snapshot(&self) -> Summary {
        *self.snapshot.lock()
    }

    /// What was counted since the start.
    pub(super) fn counters(&self) -> Counters {
        Counters {
            bytes_received: get(&self.bytes_received),
            connections_rejected: get(&self.connections_rejected),
            connection_requests: get(&self.connection_requests),
            sessions_expired: get(&self.sessions_expired),
        }
    }

    /// What had been counted when `srst` was last asked for.
    pub(super) fn counters_at_reset(&self) -> Counters {
        *self.at_reset.lock()
    }

    /// `srst`: everything is counted from here on.
    pub(super) fn reset(&self) {
        *self.at_reset.lock() = self.counters();
        *self.fsync.lock() = Summary::default();
        *self.snapshot.lock() = Summary::default();
        self.packets_received.store(0, Ordering::Relaxed);
        self.packets_sent.store(0, Ordering::Relaxed);
        *self.latency.lock() = Summary::default();
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
