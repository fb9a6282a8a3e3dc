//! What this product called its things before its name was ferrokeeper.
//!
//! Nothing of it is read. Whoever meets one of these names refuses it, or warns, and says what it
//! is called now: to pass over a mark would be to trust what must not be trusted, and over a lock,
//! to run beside whoever holds it. Imports nothing.

/// Files in a `version-2`: what is in them has stayed as it was.
pub(crate) const FILES: [(&str, &str); 5] = [
    ("rookeeper.lock", "ferrokeeper.lock"),
    ("rookeeper.sealed", "ferrokeeper.sealed"),
    ("rookeeper.logged", "ferrokeeper.logged"),
    ("rookeeper.unsynced", "ferrokeeper.unsynced"),
    ("rookeeper.restoring", "ferrokeeper.restoring"),
];

/// The `dataDir` of a start without zoo.cfg.
pub(crate) const DATA_DIR: (&str, &str) = ("rookeeper-data", "ferrokeeper-data");

/// How a slot of `raft.state` began.
pub(crate) const RAFT_STATE: &[u8; 4] = b"RKRS";

/// How the hello of a server to another one began.
pub(crate) const HELLO: &[u8; 8] = b"rookeepr";

/// Environment variables of the server and its start script.
pub(crate) const VARIABLES: [(&str, &str); 3] = [
    ("ROOKEEPER", "FERROKEEPER"),
    ("ROOKEEPER_LOG", "FERROKEEPER_LOG"),
    ("ROOKEEPER_LOG_FORMAT", "FERROKEEPER_LOG_FORMAT"),
];
