//! The transaction log: records in segments, written in groups, read by zxid and by index.
//!
//! It never deletes what it cannot read.

pub(super) mod audit;
pub(super) mod entry_log;
pub(super) mod logged;
pub(super) mod record;
pub(super) mod search;
pub(super) mod segment;
pub(super) mod segment_reader;
pub(super) mod segments;
pub(super) mod spare;
pub(super) mod tail;
pub(super) mod txn_log;
pub(super) mod unsynced;
