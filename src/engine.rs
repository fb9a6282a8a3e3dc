//! The engine: what ZooKeeper is, without a server around it.
//!
//! Everything here is a pure function of its arguments: no file, no socket, no clock, no
//! randomness, no logging. Time, session ids and seeds come in; transactions, answers and events
//! come out. The same calls give the same results, in a server, in a test and in a simulator.
//!
//! A request is [prepared](decide::sequencer::Sequencer::prepare) into a transaction, and the
//! transaction is [applied](database::Database::apply). Reads are [answered](answer::read::answer).

pub mod access;
pub mod answer;
pub mod apply;
pub mod database;
pub mod decide;
pub mod digest;
pub mod effect;
mod lineage;
mod owner;
pub mod path;
pub mod quota;
mod quota_table;
pub mod session;
mod slab;
pub mod time;
pub mod tree;
pub mod watch;
pub mod zxid;

#[cfg(test)]
mod apply_test;
#[cfg(test)]
mod digest_test;
#[cfg(test)]
mod fuzzy_test;
#[cfg(test)]
mod limits_test;
#[cfg(test)]
mod model;
#[cfg(test)]
mod model_test;
#[cfg(test)]
mod quota_test;
#[cfg(test)]
mod read_back_test;
#[cfg(test)]
mod session_end_test;
#[cfg(test)]
mod transcript_test;

pub use owner::Owner;
pub use tree::walk::{LateWalk, WalkStep};
pub use tree::znode::{Below, NodeId};
