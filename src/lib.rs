//! ferrokeeper: a server that speaks ZooKeeper's client protocol and keeps its data directory.
//!
//! Data flows one way: socket, frame, request, transaction, log, tree, reply. [`server`] owns the
//! sockets and the threads, [`ensemble`] decides the order, [`storage`] makes it durable,
//! [`engine`] knows what it means, and [`config`] says how all of them are set up. [`list`] is the
//! list of servers, [`command`] holds the tools on a data directory, [`cli`] a client, and
//! [`message`] the ids of what is said when something is wrong. `docs/architecture.md` is the way
//! in.

pub mod cli;
pub mod command;
pub mod config;
pub mod engine;
pub mod ensemble;
pub mod list;
pub mod logging;
pub mod message;
mod old_name;
mod planted;
mod properties;
pub mod server;
pub mod storage;
