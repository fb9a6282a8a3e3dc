//! Snapshot files: the state at one zxid, written and read.

pub(super) mod content;
pub(super) mod reader;
pub(super) mod writer;
