//! File descriptors: how many this process has and may have.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::message::MessageId;

/// Raises the limit as far as the system lets this process, as a JVM does. A refusal leaves it as it is.
pub(super) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(
            id = %MessageId::OPEN_FILES_LIMIT,
            %error,
            "the limit of open files stays at its soft value"
        );
    }
}

/// How many this process may have; 0 for no limit.
pub(super) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(0)
}

/// How many it has.
pub(super) fn open() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}
