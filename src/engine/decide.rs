//! What becomes of a request: the transaction that it is, or the error that refuses it; and which
//! sessions and znodes end by themselves.

pub mod expiry;
pub mod local;
mod overlay;
mod path_map;
mod prepare;
pub mod read_only;
pub mod reaper;
pub mod request;
pub mod sequencer;
pub mod tracker;

#[cfg(test)]
mod sequence_end_test;
