//! ZooKeeper's names of figures, in the order in which its `mntr` has them, and what each means
//! here (`ServerMetrics`).

/// A name.
#[derive(Debug, Clone, Copy)]
pub(in crate::server) struct Row {
    pub(in crate::server) name: &'static str,
    /// What it is; for what never happens here, why.
    pub(in crate::server) meaning: Meaning,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Meaning {
    /// This is counted or looked at.
    Of(&'static str),
    /// Always 0, so that whoever asks for the name finds it.
    Never(&'static str),
}

impl Row {
    /// The text beside it in `/metrics`.
    pub(in crate::server) fn help(self) -> String {
        match self.meaning {
            Meaning::Of(what) => what.to_owned(),
            Meaning::Never(why) => format!("always 0: {why}"),
        }
    }
}

const fn of(name: &'static str, what: &'static str) -> Row {
    Row { name, meaning: Meaning::Of(what) }
}

const fn never(name: &'static str, why: &'static str) -> Row {
    Row { name, meaning: Meaning::Never(why) }
}

const NO_STAGES: &str = "a request does not wait in ZooKeeper's stages";
const NO_AGE: &str = "a request is carried out even if its connection has ended";
const NO_CACHE: &str = "answers are built from the tree each time";
const NO_THROTTLE: &str = "instead, a busy server stops reading its clients' sockets";
const NO_TLS: &str = "there is no TLS for clients";
const NO_DEAD: &str = "watches are removed with their connection";
const ENDS: &str = "the process ends on an unrecoverable error";

/// Figures that are looked at when somebody asks. Some of them only a member of an ensemble has,
/// most of those a leader.
pub(in crate::server) const GAUGES: &[Row] = &[
    of("ephemerals_count", "ephemeral znodes"),
    of("num_alive_connections", "connections of clients"),
    of("avg_latency", "milliseconds from a request to its answer, average"),
    of("min_proposal_size", "bytes of the smallest proposal, -1 for none"),
    of("outstanding_requests", "requests that are not answered yet"),
    of("znode_count", "znodes, the root counted twice as in ZooKeeper"),
    of("global_sessions", "sessions of the whole ensemble"),
    never("non_mtls_remote_conn_count", NO_TLS),
    of("last_client_response_size", "bytes of the last answer, -1 for none"),
    of("packets_sent", "answers and events"),
    of("packets_received", "requests, including four-letter words"),
    of("max_proposal_size", "bytes of the largest proposal, -1 for none"),
    of("max_client_response_size", "bytes of the largest answer, -1 for none"),
    of("synced_followers", "servers that follow this leader and vote"),
    of("connection_drop_probability", "fraction of session requests that is refused at random"),
    of("watch_count", "watches of data and of children"),
    never("synced_non_voting_followers", "all servers that do not vote are observers"),
    of("synced_observers", "servers that follow this leader and do not vote"),
    never("auth_failed_count", NO_TLS),
    of("min_latency", "milliseconds from a request to its answer, minimum"),
    of("max_file_descriptor_count", "files and sockets that the process may have open"),
    of("approximate_data_size", "bytes of all paths and data"),
    of("open_file_descriptor_count", "files and sockets that the process has open"),
    of("last_proposal_size", "bytes of the last proposal, -1 for none"),
    of("pending_syncs", "sync requests that are not answered yet"),
    of("leader_uptime", "milliseconds since this server became the leader"),
    of("local_sessions", "sessions of this server only"),
    of("uptime", "milliseconds since the start"),
    of("max_latency", "milliseconds from a request to its answer, maximum"),
    never("outstanding_tls_handshake", NO_TLS),
    of("learners", "servers that follow this leader"),
    of("min_client_response_size", "bytes of the smallest answer, -1 for none"),
    never("non_mtls_local_conn_count", NO_TLS),
    of("quorum_size", "voters"),
    // These are not ZooKeeper's.
    of("watched_bytes", "bytes of memory for watches, estimated"),
    of("unread_bytes", "bytes of memory for answers and events that clients have not read"),
    of(
        "audit_held_bytes",
        "bytes of changes not in the audit log yet: of memory or of lines, whichever is more",
    ),
    of("audit_failing", "1 if no audit line could be written for 5 s, until it can, otherwise 0"),
    of(
        "unsealed_bytes",
        "bytes of old ZooKeeper files that are not purged until ferrokeeper data seal",
    ),
    of("ready", "1 if /health/ready is 200, otherwise 0"),
    of(
        "unfinished_write_seconds",
        "age in seconds of the oldest write or sync in the data directory that has not returned, \
         0 for none",
    ),
];

/// The same by a key.
pub(in crate::server) const GAUGE_SETS: &[Row] = &[
    of("quota_count_limit_per_namespace", "znodes that quotas allow, -1 for no limit"),
    of("quota_bytes_limit_per_namespace", "bytes that quotas allow, -1 for no limit"),
    of("quota_count_usage_per_namespace", "znodes that count against quotas"),
    of("quota_bytes_usage_per_namespace", "bytes that count against quotas"),
    of(
        "peer_present",
        "on a leader: 1 if a server that is listed or a member is with it, otherwise 0",
    ),
    of("peer_lag_entries", "on a leader: transactions that are not known to be on a server's disk"),
    of(
        "peer_lag_bytes",
        "on a leader: bytes of the transactions that are not known to be on a server's disk, a \
         lower bound",
    ),
];

/// What only rises.
pub(in crate::server) const COUNTERS: &[Row] = &[
    of("watch_bytes", "bytes of events sent"),
    never("stale_requests_dropped", NO_AGE),
    of("throttled_ops", "requests refused because they waited longer than throttled_op_wait_time"),
    never("insecure_admin_count", "the AdminServer has no TLS"),
    of(
        "connection_rejected",
        "connections refused because there were too many at once or too many new ones",
    ),
    of(
        "sessionless_connections_expired",
        "connections closed because they did not request a session in time",
    ),
    never("dead_watchers_queued", NO_DEAD),
    never("stale_requests", NO_AGE),
    of("connection_drop_count", "connections closed by their clients"),
    never("response_packet_cache_hits", NO_CACHE),
    of("bytes_received_count", "bytes received from clients"),
    never("add_dead_watcher_stall_time", NO_DEAD),
    never("request_throttle_wait_count", NO_THROTTLE),
    never("requests_not_forwarded_to_commit_processor", NO_STAGES),
    never("response_packet_cache_misses", NO_CACHE),
    of(
        "prep_processor_request_queued",
        "requests sent to be ordered, including reads that follow writes",
    ),
    never("stale_replies", NO_AGE),
    of("response_bytes", "bytes of answers"),
    of("ensemble_auth_fail", "clients that named another ensemble"),
    of("diff_count", "servers that caught up from this leader's log"),
    of("connection_revalidate_count", "connections that resumed a session"),
    never(
        "quit_leading_due_to_disloyal_voter",
        "a voter that voted for another leader does not count for this one",
    ),
    never("unrecoverable_error_count", ENDS),
    never("unsuccessful_handshake", NO_TLS),
    of("commit_count", "transactions committed while this server was the leader"),
    never("outstanding_changes_queued", "changes in flight are not counted individually"),
    never("request_commit_queued", NO_STAGES),
    of(
        "ensemble_auth_skip",
        "clients that named no ensemble, or named one while no name is configured",
    ),
    never("skip_learner_request_to_next_processor_count", NO_STAGES),
    of("proposal_count", "transactions proposed while this server was the leader"),
    of(
        "large_requests_rejected",
        "connections closed because large requests together exceeded largeRequestMaxBytes",
    ),
    never("outstanding_changes_removed", "changes in flight are not counted individually"),
    of("restore_error_count", "restores that failed"),
    of("cnxn_closed_without_zk_server_running", "connections closed because there was no leader"),
    of("looking_count", "times that this server lost its leader or began without one"),
    of(
        "snapshot_rate_limited_count",
        "snapshots refused because they were requested too soon after the last one",
    ),
    of("learner_proposal_received_count", "transactions received from a leader"),
    of(
        "digest_mismatches_count",
        "digests in transactions and snapshots that do not match the tree, and transactions that \
         do not fit it",
    ),
    never("dead_watchers_cleared", NO_DEAD),
    of("ensemble_auth_success", "clients that named this ensemble"),
    of("learner_commit_received_count", "transactions committed while this server was a follower"),
    of("snapshot_error_count", "requested snapshots that failed"),
    of("connection_request_count", "requests for a session"),
    never("response_packet_get_children_cache_misses", NO_CACHE),
    of("snap_count", "servers that caught up from a snapshot of this leader"),
    of("stale_sessions_expired", "sessions that expired"),
    of(
        "restore_rate_limited_count",
        "restores refused because they were sent too soon after the last one",
    ),
    never("response_packet_get_children_cache_hits", NO_CACHE),
    of("sync_processor_request_queued", "transactions written to the log"),
    never("tls_handshake_exceeded", NO_TLS),
    of("revalidate_count", "connections that resumed a session while this server was a follower"),
    // These are not ZooKeeper's, or were in 3.5.
    of(
        "fsync_threshold_exceed_count",
        "syncs of the log that took longer than fsync.warningthresholdms",
    ),
    of(
        "snapshot_failed_count",
        "snapshots that failed or were abandoned, whether requested or not",
    ),
    of("audit_lines_lost", "audit lines that could not be written"),
    of("disk_nearly_full_refused", "requests refused because disk or memory is nearly full"),
    of("unread_closed_count", "connections closed because they had gone longest without reading"),
    of(
        "read_too_old_wait_count",
        "times that reads of a connection waited because the state was older than syncLimit",
    ),
    of(
        "read_too_old_closed_count",
        "connections closed because an answer would have been older than syncLimit",
    ),
    of(
        "response_above_half_maxbuffer_count",
        "responses longer than half of the 1048575 bytes that clients accept by default",
    ),
    of("response_above_maxbuffer_count", "responses longer than 1048575 bytes"),
];

/// The same by a key.
pub(in crate::server) const COUNTER_SETS: &[Row] =
    &[of("quota_exceeded_error_per_namespace", "requests refused by a hard quota")];

/// Summaries with a median.
pub(in crate::server) const BASIC: &[Row] = &[
    never("socket_closing_time", "closing a socket never blocks"),
    never("proposal_process_time", NO_STAGES),
    of(
        "leader_unavailable_time",
        "milliseconds without service, on a server that then became the leader",
    ),
    of("node_created_watch_count", "watchers notified when a znode was created"),
    never("session_queues_drained", NO_STAGES),
    never("write_commit_proc_req_queued", NO_STAGES),
    of("connection_token_deficit", "tokens missing when a session was requested"),
    never("read_commit_proc_req_queued", NO_STAGES),
    of("node_deleted_watch_count", "watchers notified when a znode was deleted"),
    of(
        "startup_txns_load_time",
        "milliseconds that a start spent on the log, on a standalone server",
    ),
    never("sync_processor_queue_size", NO_STAGES),
    of("follower_sync_time", "milliseconds from knowing a leader until following it"),
    of("prep_processor_queue_size", "requests ordered together"),
    of("fsynctime", "milliseconds that a sync of the log took"),
    of("inflight_snap_count", "snapshots being sent to other servers when another one began"),
    never("reads_issued_from_session_queue", NO_STAGES),
    of("restore_time", "milliseconds without service during a restore"),
    never("learner_request_processor_queue_size", NO_STAGES),
    of("snapshottime", "milliseconds that writing a snapshot took"),
    of("unavailable_time", "milliseconds without service"),
    of(
        "startup_txns_loaded",
        "transactions that a start read from the log, on a standalone server",
    ),
    never("reads_after_write_in_session_queue", NO_STAGES),
    never("requests_in_session_queue", NO_STAGES),
    never("write_commit_proc_issued", NO_STAGES),
    never("prep_process_time", NO_STAGES),
    never("pending_session_queue_size", NO_STAGES),
    never("time_waiting_empty_pool_in_commit_processor_read_ms", NO_STAGES),
    never("commit_process_time", NO_STAGES),
    of("dbinittime", "milliseconds that a start spent on the snapshot and the log"),
    never("inflight_diff_count", "a server that has the log needs only the next entries"),
    of("election_time", "milliseconds without a known leader"),
    never("commit_commit_proc_req_queued", NO_STAGES),
    of("sync_processor_batch_size", "transactions that one sync of the log made durable"),
    of("node_children_watch_count", "watchers notified of a change of children"),
    never("write_batch_time_in_commit_processor", NO_STAGES),
    never("read_commit_proc_issued", NO_STAGES),
    never("concurrent_request_processing_in_commit_processor", NO_STAGES),
    of("observer_sync_time", "milliseconds from knowing a leader until this observer follows it"),
    of("node_changed_watch_count", "watchers notified of a change of data"),
    of("sync_process_time", "milliseconds that a sync of the log took"),
    of(
        "startup_snap_load_time",
        "milliseconds that a start spent on the snapshot, on a standalone server",
    ),
];

/// Summaries with more percentiles, too.
pub(in crate::server) const ADVANCED: &[Row] = &[
    of("prep_processor_queue_time_ms", "milliseconds until a request is ordered"),
    never("close_session_prep_time", NO_STAGES),
    never("read_commitproc_time_ms", NO_STAGES),
    of("updatelatency", "milliseconds from a write to its answer"),
    never("local_write_committed_time_ms", NO_STAGES),
    never("request_throttle_queue_time_ms", NO_THROTTLE),
    of("readlatency", "milliseconds from a read to its answer"),
    of("quorum_ack_latency", "milliseconds from a proposal until it is on the disks of a quorum"),
    never("om_commit_process_time_ms", "observers follow the leader"),
    never("read_final_proc_time_ms", NO_STAGES),
    of(
        "commit_propagation_latency",
        "milliseconds from a proposal until a follower knows that it is committed",
    ),
    never("dead_watchers_cleaner_latency", NO_DEAD),
    never("write_final_proc_time_ms", NO_STAGES),
    of(
        "proposal_ack_creation_latency",
        "milliseconds from a proposal until it is on this server's disk",
    ),
    of("proposal_latency", "milliseconds from a proposal until it reaches a follower"),
    never("om_proposal_process_time_ms", "observers follow the leader"),
    never("sync_processor_queue_and_flush_time_ms", NO_STAGES),
    of("propagation_latency", "milliseconds from a proposal until it is in this server's tree"),
    never("server_write_committed_time_ms", NO_STAGES),
    never("sync_processor_queue_time_ms", NO_STAGES),
    of("sync_processor_queue_flush_time_ms", "milliseconds that a sync of the log took"),
    never("write_commitproc_time_ms", NO_STAGES),
];

/// Summaries with a median, by a key.
pub(in crate::server) const BASIC_SETS: &[Row] = &[
    of("write_per_namespace", "bytes of the path and data of a write"),
    of("read_per_namespace", "bytes of the path, data and Stat of a read"),
    of(
        "learner_handler_qp_size",
        "transactions that a server was missing when this leader checked",
    ),
];

/// Summaries with more percentiles, by a key.
pub(in crate::server) const ADVANCED_SETS: &[Row] =
    &[of("ack_latency", "milliseconds from a proposal until it is on a server's disk")];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::figures::series::{Counter, KeyedMeasure, Measure};

    /// What is counted has a row that says so, and what has such a row is counted.
    #[test]
    fn rows_and_what_is_counted_belong_together() {
        let counters = COUNTERS.iter().map(|row| (row, Counter::named(row.name).is_some()));
        let measures =
            BASIC.iter().chain(ADVANCED).map(|row| (row, Measure::named(row.name).is_some()));
        let keyed = BASIC_SETS
            .iter()
            .chain(ADVANCED_SETS)
            .map(|row| (row, KeyedMeasure::named(row.name).is_some()));
        let is_counted = |row: &Row| matches!(row.meaning, Meaning::Of(_));
        let all: Vec<(&Row, bool)> = counters.chain(measures).chain(keyed).collect();
        for (row, is_there) in &all {
            assert_eq!(is_counted(row), *is_there, "{}", row.name);
        }
        let counted = all.iter().filter(|(row, _)| is_counted(row)).count();
        let names = Counter::ALL.len() + Measure::ALL.len() + KeyedMeasure::ALL.len();
        assert_eq!(counted, names, "a name twice, or without a row");
    }
}
