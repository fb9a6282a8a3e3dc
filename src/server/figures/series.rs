//! What the server counts and times (reference 15.3): one place in memory for each name, and one for each name and key.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use super::distribution::Distribution;

/// Keys that one name may have: clients choose the names of znodes. What is beyond is not counted.
const KEYS_MAX: usize = 256;

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
    BytesReceived = "bytes_received_count",
    ClosedWithoutService = "cnxn_closed_without_zk_server_running",
    Commits = "commit_count",
    ConnectionRequests = "connection_request_count",
    ConnectionsDropped = "connection_drop_count",
    ConnectionsRejected = "connection_rejected",
    ConnectionsRevalidated = "connection_revalidate_count",
    Diffs = "diff_count",
    DiskRefused = "disk_nearly_full_refused",
    FsyncsTooLong = "fsync_threshold_exceed_count",
    LargeRequestsRejected = "large_requests_rejected",
    LearnerCommits = "learner_commit_received_count",
    LearnerProposals = "learner_proposal_received_count",
    Looking = "looking_count",
    Proposals = "proposal_count",
    RequestsQueued = "prep_processor_request_queued",
    ResponseBytes = "response_bytes",
    RestoreErrors = "restore_error_count",
    RestoresRateLimited = "restore_rate_limited_count",
    Revalidations = "revalidate_count",
    SessionlessExpired = "sessionless_connections_expired",
    SessionsExpired = "stale_sessions_expired",
    SnapshotErrors = "snapshot_error_count",
    Snapshots = "snap_count",
    SnapshotsRateLimited = "snapshot_rate_limited_count",
    ThrottledOps = "throttled_ops",
    TxnsLogged = "sync_processor_request_queued",
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

/// What was counted since the start.
#[derive(Debug)]
pub(in crate::server) struct Series {
    counters: [AtomicU64; Counter::ALL.len()],
    /// What the counters had come to at the last `srst`: a scraper's must not go back.
    at_reset: Mutex<[u64; Counter::ALL.len()]>,
    measures: [Distribution; Measure::ALL.len()],
    keyed: [RwLock<BTreeMap<String, Arc<Distribution>>>; KeyedMeasure::ALL.len()],
    keyed_counters: [Mutex<BTreeMap<String, u64>>; KeyedCounter::ALL.len()],
}

impl Default for Series {
    fn default() -> Self {
        Self {
            counters: [const { AtomicU64::new(0) }; Counter::ALL.len()],
            at_reset: Mutex::new([0; Counter::ALL.len()]),
            measures: std::array::from_fn(|_| Distribution::default()),
            keyed: std::array::from_fn(|_| RwLock::default()),
            keyed_counters: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

impl Series {
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn count(&self, counter: Counter, by: u64) {
        self.counters[counter as usize].fetch_add(by, Ordering::Relaxed);
    }

    /// What a counter has come to since the start.
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn total(&self, counter: Counter) -> u64 {
        self.counters[counter as usize].load(Ordering::Relaxed)
    }

    /// What it has come to since `srst`.
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn since_reset(&self, counter: Counter) -> u64 {
        self.total(counter).saturating_sub(self.at_reset.lock()[counter as usize])
    }

    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn of(&self, measure: Measure) -> &Distribution {
        &self.measures[measure as usize]
    }

    pub(in crate::server) fn record(&self, measure: Measure, value: u64) {
        self.of(measure).record(value, 1);
    }

    /// The values of one key. `None` where it is beyond those that are counted.
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn of_key(
        &self,
        measure: KeyedMeasure,
        key: &str,
    ) -> Option<Arc<Distribution>> {
        let all = &self.keyed[measure as usize];
        if let Some(found) = all.read().get(key) {
            return Some(Arc::clone(found));
        }
        let mut all = all.write();
        if all.len() >= KEYS_MAX && !all.contains_key(key) {
            return None;
        }
        Some(Arc::clone(all.entry(key.to_owned()).or_default()))
    }

    /// All keys of a name with what they have.
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn keys(
        &self,
        measure: KeyedMeasure,
    ) -> Vec<(String, Arc<Distribution>)> {
        let all = self.keyed[measure as usize].read();
        all.iter().map(|(key, its)| (key.clone(), Arc::clone(its))).collect()
    }

    /// Counts one more of a key, unless it is beyond those that are counted.
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn count_key(&self, counter: KeyedCounter, key: &str) {
        let mut all = self.keyed_counters[counter as usize].lock();
        if all.len() < KEYS_MAX || all.contains_key(key) {
            *all.entry(key.to_owned()).or_default() += 1;
        }
    }

    /// All keys of a counter with what they have come to since the start.
    #[expect(clippy::indexing_slicing, reason = "there is a place for each")]
    pub(in crate::server) fn keyed_counts(&self, counter: KeyedCounter) -> BTreeMap<String, u64> {
        self.keyed_counters[counter as usize].lock().clone()
    }

    /// `srst`: everything is counted from here on.
    pub(in crate::server) fn reset(&self) {
        let mut at_reset = self.at_reset.lock();
        for (at_reset, counter) in at_reset.iter_mut().zip(&self.counters) {
            *at_reset = counter.load(Ordering::Relaxed);
        }
        self.measures.iter().for_each(Distribution::reset);
        for all in &self.keyed {
            all.read().values().for_each(|its| its.reset());
        }
    }

    /// To be called every two minutes: lately is ten.
    pub(in crate::server) fn mark(&self) {
        self.measures.iter().for_each(Distribution::mark);
        for all in &self.keyed {
            all.read().values().for_each(|its| its.mark());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_more_keys_than_it_may() {
        let series = Series::default();
        for key in 0..KEYS_MAX + 3 {
            let its = series.of_key(KeyedMeasure::NamespaceRead, &key.to_string());
            assert_eq!(its.is_some(), key < KEYS_MAX, "{key}");
        }
        assert!(series.of_key(KeyedMeasure::NamespaceRead, "7").is_some());
        assert_eq!(series.keys(KeyedMeasure::NamespaceRead).len(), KEYS_MAX);
        assert_eq!(series.keys(KeyedMeasure::NamespaceWritten).len(), 0);
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
