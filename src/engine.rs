//! The engine: what ZooKeeper is, without a server around it.
//!
//! Everything here is a pure function of its arguments: no file, no socket, no clock, no
//! randomness, no logging. Time, session ids and seeds come in; transactions, answers and events
//! come out. The same calls give the same results, in a server, in a test and in a simulator.
//!
//! A request is [prepared](sequencer::Sequencer::prepare) into a transaction, and the transaction
//! is [applied](database::Database::apply). Reads are [answered](read::answer).

pub mod acl;
mod acl_list;
pub mod apply;
pub mod database;
pub mod digest;
pub mod expiry;
mod fixup;
mod granted;
mod identity;
mod index;
mod lineage;
pub mod listing;
pub mod local;
pub mod misfit;
mod overlay;
mod owner;
pub mod path;
mod path_map;
mod prepare;
pub mod quota;
mod quota_table;
pub mod read;
pub mod reaper;
pub mod request;
mod scheme;
pub mod sequencer;
pub mod session;
mod slab;
pub mod time;
pub mod tracker;
mod trail;
pub mod tree;
mod walk;
pub mod watch;
pub mod watch_again;
mod watch_registry;
mod watchers;
mod znode;
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
mod listing_test;
#[cfg(test)]
mod model;
#[cfg(test)]
mod model_test;
#[cfg(test)]
mod quota_test;
#[cfg(test)]
mod read_back_test;
#[cfg(test)]
mod read_test;
#[cfg(test)]
mod sequence_end_test;
#[cfg(test)]
mod session_end_test;
#[cfg(test)]
mod transcript_test;
#[cfg(test)]
mod walk_test;

pub use owner::Owner;
pub use walk::{LateWalk, WalkStep};
pub use znode::{Below, NodeId};
