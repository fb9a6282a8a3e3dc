//! What the server counts and times (`ServerMetrics`): a handle for each name, and one for each
//! name and key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use metrics::{Key, Recorder as _};
use parking_lot::{Mutex, RwLock};

use super::distribution::Distribution;
use super::metric_table::{ADVANCED, BASIC, COUNTERS};
use super::recorder::{self, METADATA, Recorder};

/// Keys that one name may have: clients choose the names of znodes.
const KEYS_MAX: usize = 256;
/// Of so many values for keys without a place, the first one gets its key the place of the key that
/// was not used for longest. The others are not counted: what a place costs is more than a value
/// may.
const MISSES_A_PLACE: u64 = KEYS_MAX as u64;

macro_rules! named {
    ($(#[$doc:meta])* $enum:ident: $($variant:ident = $name:literal,)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(in crate::server) enum $enum {
            $($variant,)*
        }

        impl $enum {
            pub(in crate::server) const ALL: &[Self] = &[$(Self::$variant,)*];

            pub(in crate::server) const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// That of a name, if there is one.
            pub(in crate::server) fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|its| its.name() == name)
            }
        }
    };
}

named! {
    /// Only ever rises, but for `srst`.
    Counter:
    AnswersAboveAll = "response_above_maxbuffer_count",
    AnswersAboveHalf = "response_above_half_maxbuffer_count",
    AuditLinesLost = "audit_lines_lost",
    BytesReceived = "bytes_received_count",
    ClosedWithoutService = "cnxn_closed_without_zk_server_running",
    Commits = "commit_count",
    ConnectionRequests = "connection_request_count",
    ConnectionsDropped = "connection_drop_count",
    ConnectionsRejected = "connection_rejected",
    ConnectionsRevalidated = "connection_revalidate_count",
    DigestMismatches = "digest_mismatches_count",
    Diffs = "diff_count",
    DiskRefused = "disk_nearly_full_refused",
    EnsembleAuthFailures = "ensemble_auth_fail",
    EnsembleAuthSkips = "ensemble_auth_skip",
    EnsembleAuthSuccesses = "ensemble_auth_success",
    FsyncsTooLong = "fsync_threshold_exceed_count",
    LargeRequestsRejected = "large_requests_rejected",
    LearnerCommits = "learner_commit_received_count",
    LearnerProposals = "learner_proposal_received_count",
    Looking = "looking_count",
    Proposals = "proposal_count",
    ReadsTooOldClosed = "read_too_old_closed_count",
    ReadsTooOldWaited = "read_too_old_wait_count",
    RequestsQueued = "prep_processor_request_queued",
    ResponseBytes = "response_bytes",
    RestoreErrors = "restore_error_count",
    RestoresRateLimited = "restore_rate_limited_count",
    Revalidations = "revalidate_count",
    SessionlessExpired = "sessionless_connections_expired",
    SessionsExpired = "stale_sessions_expired",
    SnapshotErrors = "snapshot_error_count",
    Snapshots = "snap_count",
    SnapshotsFailed = "snapshot_failed_count",
    SnapshotsRateLimited = "snapshot_rate_limited_count",
    ThrottledOps = "throttled_ops",
    TxnsLogged = "sync_processor_request_queued",
    UnreadClosed = "unread_closed_count",
    WatchBytes = "watch_bytes",
}

named! {
    /// Many values of a kind. Times are milliseconds.
    Measure:
    Acknowledgement = "proposal_ack_creation_latency",
    ChangedWatchers = "node_changed_watch_count",
    ChildrenWatchers = "node_children_watch_count",
    CommitPropagation = "commit_propagation_latency",
    CreatedWatchers = "node_created_watch_count",
    DatabaseLoad = "dbinittime",
    DeletedWatchers = "node_deleted_watch_count",
    Election = "election_time",
    FollowerSync = "follower_sync_time",
    Fsync = "fsynctime",
    GroupFlush = "sync_processor_queue_flush_time_ms",
    GroupSync = "sync_process_time",
    GroupTxns = "sync_processor_batch_size",
    InflightSnapshots = "inflight_snap_count",
    LeaderUnavailable = "leader_unavailable_time",
    ObserverSync = "observer_sync_time",
    Propagation = "propagation_latency",
    Proposal = "proposal_latency",
    QueueSize = "prep_processor_queue_size",
    QueueTime = "prep_processor_queue_time_ms",
    QuorumAck = "quorum_ack_latency",
    Read = "readlatency",
    Restore = "restore_time",
    Snapshot = "snapshottime",
    SnapshotLoad = "startup_snap_load_time",
    TokenDeficit = "connection_token_deficit",
    TxnsLoad = "startup_txns_load_time",
    TxnsLoaded = "startup_txns_loaded",
    Unavailable = "unavailable_time",
    Update = "updatelatency",
}

named! {
    /// Such values by a key.
    KeyedMeasure:
    Ack = "ack_latency",
    BehindLearner = "learner_handler_qp_size",
    NamespaceRead = "read_per_namespace",
    NamespaceWritten = "write_per_namespace",
}

named! {
    /// Counters by a key.
    KeyedCounter:
    QuotaExceeded = "quota_exceeded_error_per_namespace",
}

/// The handles that the server counts with, and which keys have one.
#[derive(Debug)]
pub(in crate::server) struct Series {
    recorder: Recorder,
    counters: [metrics::Counter; Counter::ALL.len()],
    measures: [metrics::Histogram; Measure::ALL.len()],
    /// What the counters had come to at the last `srst`: a scraper's must not go back.
    at_reset: Mutex<[u64; Counter::ALL.len()]>,
    keyed: [RwLock<BTreeMap<String, Keyed>>; KeyedMeasure::ALL.len()],
    keyed_misses: [Misses; KeyedMeasure::ALL.len()],
    keyed_counters: [Mutex<BTreeMap<String, KeyedCount>>; KeyedCounter::ALL.len()],
    counter_misses: [Misses; KeyedCounter::ALL.len()],
    /// Counts keys that came and counts of keys, in place of a clock.
    steps: AtomicU64,
}

/// What the values of a key are counted with, while it has its place.
#[derive(Debug)]
pub(in crate::server) struct KeyPlace {
    values: metrics::Histogram,
    is_given_up: AtomicBool,
}

impl KeyPlace {
    /// Counts a value `times` times.
    pub(in crate::server) fn record(&self, value: u64, times: u64) {
        record_many(&self.values, value, times);
    }

    /// From here on nobody looks at what is counted.
    pub(in crate::server) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Whether nobody looks at it any more.
    pub(in crate::server) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Relaxed)
    }
}

/// A key with a place.
#[derive(Debug)]
struct Keyed {
    its: Arc<KeyPlace>,
    /// What its values added up to when the last place was sought, and the step at which that had
    /// changed.
    sum: u64,
    used: u64,
}

/// A key that is counted.
#[derive(Debug)]
struct KeyedCount {
    count: metrics::Counter,
    used: u64,
}

/// Values for keys without a place, where all places are taken.
#[derive(Debug, Default)]
struct Misses(AtomicU64);

impl Misses {
    /// One more; whether its key gets a place.
    fn gets_place(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(MISSES_A_PLACE)
    }
}

/// Doubles are what the crate counts: up to 2^53 that is exact.
#[expect(clippy::cast_precision_loss, reason = "milliseconds, bytes and numbers of things")]
fn record_many(values: &metrics::Histogram, value: u64, times: u64) {
    values.record_many(value as f64, usize::try_from(times).unwrap_or(usize::MAX));
}

impl Default for Series {
    /// Every name of the metric table that is counted gets its handle here: no name is sought while
    /// requests are served.
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    fn default() -> Self {
        let recorder = Recorder::default();
        let mut counters = [const { metrics::Counter::noop() }; Counter::ALL.len()];
        for row in COUNTERS {
            if let Some(counter) = Counter::named(row.name) {
                let name = Key::from_static_name(row.name);
                counters[counter as usize] = recorder.register_counter(&name, &METADATA);
            }
        }
        let mut measures = [const { metrics::Histogram::noop() }; Measure::ALL.len()];
        for row in BASIC.iter().chain(ADVANCED) {
            if let Some(measure) = Measure::named(row.name) {
                let name = Key::from_static_name(row.name);
                measures[measure as usize] = recorder.register_histogram(&name, &METADATA);
            }
        }
        Self {
            recorder,
            counters,
            measures,
            at_reset: Mutex::new([0; Counter::ALL.len()]),
            keyed: std::array::from_fn(|_| RwLock::default()),
            keyed_misses: std::array::from_fn(|_| Misses::default()),
            keyed_counters: std::array::from_fn(|_| Mutex::default()),
            counter_misses: std::array::from_fn(|_| Misses::default()),
            steps: AtomicU64::new(0),
        }
    }
}

impl Series {
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn count(&self, counter: Counter, by: u64) {
        self.counters[counter as usize].increment(by);
    }

    /// Somebody else counts it, and has come to `total`.
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn count_up_to(&self, counter: Counter, total: u64) {
        self.counters[counter as usize].absolute(total);
    }

    /// What a counter has come to since the start.
    pub(in crate::server) fn total(&self, counter: Counter) -> u64 {
        self.recorder.total(counter)
    }

    /// What it has come to since `srst`.
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn since_reset(&self, counter: Counter) -> u64 {
        self.total(counter).saturating_sub(self.at_reset.lock()[counter as usize])
    }

    /// What was counted by size.
    pub(in crate::server) fn of(&self, measure: Measure) -> &Distribution {
        self.recorder.of(measure)
    }

    pub(in crate::server) fn record(&self, measure: Measure, value: u64) {
        self.record_many(measure, value, 1);
    }

    /// Counts a value `times` times.
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn record_many(&self, measure: Measure, value: u64, times: u64) {
        record_many(&self.measures[measure as usize], value, times);
    }

    fn step(&self) -> u64 {
        self.steps.fetch_add(1, Ordering::Relaxed)
    }

    /// The place of one key, if it has one or gets one.
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn of_key(
        &self,
        measure: KeyedMeasure,
        key: &str,
    ) -> Option<Arc<KeyPlace>> {
        let all = &self.keyed[measure as usize];
        {
            let all = all.read();
            if let Some(found) = all.get(key) {
                return Some(Arc::clone(&found.its));
            }
            if all.len() >= KEYS_MAX && !self.keyed_misses[measure as usize].gets_place() {
                return None;
            }
        }
        let used = self.step();
        let mut all = all.write();
        if all.len() >= KEYS_MAX && !all.contains_key(key) {
            self.give_up_one(&mut all, measure, used);
        }
        let new = || {
            let name = recorder::with_key(measure.name(), key);
            let values = self.recorder.register_histogram(&name, &METADATA);
            let its = Arc::new(KeyPlace { values, is_given_up: AtomicBool::new(false) });
            Keyed { its, sum: 0, used }
        };
        Some(Arc::clone(&all.entry(key.to_owned()).or_insert_with(new).its))
    }

    /// Gives the place of the key up that was not used for longest. Who uses one leaves no other
    /// mark than a greater sum.
    fn give_up_one(&self, all: &mut BTreeMap<String, Keyed>, measure: KeyedMeasure, now: u64) {
        self.recorder.each_key(measure, |key, its| {
            let sum = its.sum();
            if let Some(of_key) = all.get_mut(key).filter(|of_key| of_key.sum != sum) {
                (of_key.sum, of_key.used) = (sum, now);
            }
        });
        let longest = all.iter().min_by_key(|(_, of_key)| of_key.used).map(|(key, _)| key.clone());
        if let Some((key, of_key)) = longest.and_then(|key| all.remove_entry(&key)) {
            self.recorder.unregister_histogram(measure, &key);
            of_key.its.give_up();
        }
    }

    /// Counts a value of one key, if that has a place or gets one.
    pub(in crate::server) fn record_of_key(&self, measure: KeyedMeasure, key: &str, value: u64) {
        if let Some(its) = self.of_key(measure, key) {
            its.record(value, 1);
        }
    }

    /// All keys of a name with what they have.
    pub(in crate::server) fn keys(
        &self,
        measure: KeyedMeasure,
    ) -> Vec<(String, Arc<Distribution>)> {
        self.recorder.keys(measure)
    }

    /// Counts one more of a key, if that has a place or gets one.
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn count_key(&self, counter: KeyedCounter, key: &str) {
        let mut all = self.keyed_counters[counter as usize].lock();
        if let Some(of_key) = all.get_mut(key) {
            of_key.count.increment(1);
            of_key.used = self.step();
            return;
        }
        if all.len() >= KEYS_MAX {
            if !self.counter_misses[counter as usize].gets_place() {
                return;
            }
            let longest = all.iter().min_by_key(|(_, of_key)| of_key.used);
            if let Some(longest) = longest.map(|(key, _)| key.clone()) {
                all.remove(&longest);
                self.recorder.unregister_counter(counter, &longest);
            }
        }
        let name = recorder::with_key(counter.name(), key);
        let count = self.recorder.register_counter(&name, &METADATA);
        count.increment(1);
        all.insert(key.to_owned(), KeyedCount { count, used: self.step() });
    }

    /// All keys of a counter with what they have come to since the start.
    pub(in crate::server) fn keyed_counts(&self, counter: KeyedCounter) -> BTreeMap<String, u64> {
        self.recorder.keyed_counts(counter)
    }

    /// `srst`: everything is counted from here on.
    pub(in crate::server) fn reset(&self) {
        let mut at_reset = self.at_reset.lock();
        *at_reset = self.recorder.totals();
        self.recorder.each_distribution(Distribution::reset);
    }

    #[cfg(test)]
    pub(in crate::server) fn forget_keys(&self) {
        for measure in KeyedMeasure::ALL {
            let all = std::mem::take(&mut *self.keyed[*measure as usize].write());
            all.keys().for_each(|key| self.recorder.unregister_histogram(*measure, key));
        }
    }

    /// To be called every two minutes: lately is ten.
    pub(in crate::server) fn mark(&self) {
        self.recorder.each_distribution(Distribution::mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_more_than_there_may_be_takes_the_place_of_the_one_unused_for_longest() {
        let series = Series::default();
        let of_key = |key: usize| series.of_key(KeyedMeasure::NamespaceRead, &key.to_string());
        // As often as it takes to get a place.
        let last = |key: usize| {
            (0..MISSES_A_PLACE).for_each(|_| {
                of_key(key);
            });
            of_key(key).expect("it has a place")
        };
        let exceeded = |key: usize| {
            series.count_key(KeyedCounter::QuotaExceeded, &key.to_string());
        };
        let cached = last(5);
        for key in 0..KEYS_MAX {
            last(key).record(70, 1);
            exceeded(key);
        }
        // Those below eight are used all the time, and many come for a while.
        for key in KEYS_MAX..3 * KEYS_MAX {
            (0..8).for_each(|key| last(key).record(70, 1));
            last(key).record(70, 1);
            exceeded(7);
            (0..MISSES_A_PLACE).for_each(|_| exceeded(key));
        }
        let keys = series.keys(KeyedMeasure::NamespaceRead);
        assert_eq!(keys.len(), KEYS_MAX);
        for key in (0..8).chain(3 * KEYS_MAX - 100..3 * KEYS_MAX) {
            assert!(keys.iter().any(|(known, _)| *known == key.to_string()), "{key}");
        }
        assert!(!cached.is_given_up());
        let of_cached = keys.iter().find(|(known, _)| known == "5").expect("it has a place");
        assert_eq!(of_cached.1.counted().count, 1 + 2 * KEYS_MAX as u64);
        let exceeded = series.keyed_counts(KeyedCounter::QuotaExceeded);
        assert_eq!((exceeded.len(), exceeded["7"]), (KEYS_MAX, 1 + 2 * KEYS_MAX as u64));
        assert!(exceeded.contains_key(&(3 * KEYS_MAX - 1).to_string()));
        assert_eq!(series.keys(KeyedMeasure::NamespaceWritten).len(), 0);
    }

    /// A place costs two looks at all keys, the exclusive lock and 4 kB.
    #[test]
    fn keys_in_turn_get_a_place_once_in_so_many_values() {
        const TURNS: usize = 10;
        let series = Series::default();
        let of_key = |key: usize| series.of_key(KeyedMeasure::NamespaceWritten, &key.to_string());
        let mut places = 0;
        let mut shown = series.keyed_counts(KeyedCounter::QuotaExceeded);
        let mut shown_changed = 0;
        for key in (0..TURNS).flat_map(|_| 0..2 * KEYS_MAX) {
            let had = series.keys(KeyedMeasure::NamespaceWritten);
            let had = had.iter().any(|(known, _)| *known == key.to_string());
            places += usize::from(of_key(key).is_some() && !had);
            series.count_key(KeyedCounter::QuotaExceeded, &key.to_string());
            let now = series.keyed_counts(KeyedCounter::QuotaExceeded);
            shown_changed += usize::from(!now.keys().eq(shown.keys()));
            shown = now;
        }
        let most = KEYS_MAX + 2 * TURNS;
        assert!((KEYS_MAX + 2..=most).contains(&places), "{places} places");
        assert!((KEYS_MAX + 2..=most).contains(&shown_changed), "{shown_changed} places");
    }

    #[test]
    fn a_reset_is_none_for_a_scraper() {
        let series = Series::default();
        series.count(Counter::Commits, 3);
        series.reset();
        series.count(Counter::Commits, 2);
        assert_eq!((series.total(Counter::Commits), series.since_reset(Counter::Commits)), (5, 2));
    }
}
