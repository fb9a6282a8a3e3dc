//! rookeeper.
