//! ZooKeeper records.
