//! What the server counts and how it is told: counters and distributions, `mntr`'s lines and
//! Prometheus's text.

pub(super) mod distribution;
pub(super) mod hot_paths;
pub(super) mod metric_table;
pub(super) mod namespace;
pub(super) mod process;
pub(super) mod quorum_stats;
pub(super) mod recorder;
pub(super) mod series;
pub(super) mod stats;
