//! ZooKeeper's records as bytes.
//!
//! This crate owns every byte layout that a ZooKeeper server and its clients share: the records of
//! the client protocol ([`protocol`]), of the transaction log ([`txn`]) and of the snapshot
//! ([`persist`]), the operation and error codes, and the primitives that they are made of. It reads
//! no socket and no file, and it knows nothing of what the records mean.
//!
//! Decoding borrows from its input and is bounded by it: a length or a count never makes the
//! decoder allocate more than the input holds, and input that ends early is an error, never a
//! panic.

#![warn(missing_docs, clippy::indexing_slicing, clippy::cast_possible_truncation)]

mod acl;
mod create_mode;
mod error;
mod error_code;
mod op_code;
pub mod persist;
mod primitive;
pub mod protocol;
mod record;
mod stat;
pub mod txn;

pub use acl::{Acl, perms};
pub use create_mode::CreateMode;
pub use error::DecodeError;
pub use error_code::ErrorCode;
pub use op_code::OpCode;
pub use primitive::{java_text, text};
pub use record::{IntoStatic, Parsed, Record, decode};
pub use stat::{Stat, StatPersisted};
