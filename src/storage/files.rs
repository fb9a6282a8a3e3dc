//! The files of a data directory other than the log and the snapshots: how they are named, how one
//! is replaced as a whole, and what each says.
//!
//! Owns no decision about what a start does with them.

pub(super) mod atomic_file;
pub(super) mod checked_text;
pub(super) mod directory;
pub(super) mod epoch;
pub(super) mod file_name;
pub(super) mod findings;
pub(super) mod raft_state;
pub mod seal;
pub(super) mod session_key;
