//! What the server counts: the table of names, the handles that are counted with, and the recorder
//! behind them.

pub(super) mod distribution;
pub(super) mod hot_paths;
pub(super) mod metric_table;
pub(super) mod namespace;
pub(super) mod process;
pub(super) mod quorum_stats;
pub(super) mod recorder;
pub(super) mod series;
pub(super) mod stats;
