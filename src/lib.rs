//! rookeeper: a server that speaks ZooKeeper's client protocol and keeps its data directory.

pub mod config;
pub mod engine;
pub mod ensemble;
pub mod logging;
pub mod storage;
