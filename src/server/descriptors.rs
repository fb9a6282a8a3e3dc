//! File descriptors: how many this process has and may have, and who may take how many of them.
//!
//! Whoever comes from outside has a bound, and clients have what the others leave: a log that gets
//! none ends the process.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::message::MessageId;

/// Raises the limit as far as the system lets this process, as a JVM does. A refusal leaves it as
/// it is.
pub(super) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(
            id = %MessageId::OPEN_FILES_LIMIT,
            %error,
            "the soft limit of open files could not be raised to the hard limit"
        );
    }
}

/// How many this process may have; 0 for no limit.
pub(super) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(0)
}

/// How many it has.
pub(super) fn open() -> u64 {
    // Since Linux 6.2 the number is told. Before that each one has to be looked at.
    match fs::metadata("/proc/self/fd") {
        Ok(told) if told.len() > 0 => told.len(),
        _ => fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64),
    }
}

/// Connections at a time on a port, and one more that a place is made for.
pub(super) const HTTP_PLACES: usize = 16;
/// The server's own: the log with its spare and what reads it, snapshots, raft.state, the lock, the
/// audit log and the log, ports, signals, what tokio has, what monitoring looks at, and one
/// connection of each port that is about to be refused.
const OWN: u64 = 64;
/// Of each other server: a connection each way, those that take the place of another, questions, a
/// snapshot and its file.
const OF_A_PEER: u64 = 8;
/// Servers outside of the list that are talked to only because they have called.
pub(super) const UNLISTED_MAX: usize = 64;
/// Callers on the port for servers that have not said yet who they are, where there are many
/// descriptors.
const STRANGERS_MAX: u64 = 128;
/// Of few descriptors they have this share, as a divisor.
const STRANGERS_SHARE: u64 = 16;
/// Of few descriptors clients have this share, as a divisor, whatever the bounds of the others add
/// up to.
const CLIENTS_SHARE: u64 = 4;

/// How many other servers a member may talk to whose list has so many, with reconfiguration or
/// without.
pub(super) fn peers(listed: usize, is_reconfig_enabled: bool) -> u64 {
    let unlisted = if is_reconfig_enabled { UNLISTED_MAX } else { 0 };
    (listed.saturating_sub(1) + unlisted) as u64
}

/// How many strangers may wait on the port for servers.
pub(super) fn strangers() -> usize {
    strangers_of(limit())
}

fn strangers_of(limit: u64) -> usize {
    let share = if limit == 0 { STRANGERS_MAX } else { limit / STRANGERS_SHARE };
    usize::try_from(share.clamp(1, STRANGERS_MAX)).unwrap_or(1)
}

/// Who takes descriptors beside the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Takers {
    /// Ports that speak HTTP.
    pub(super) http_ports: u64,
    /// Other servers of the ensemble; `None` for a server that is alone, which has no port for
    /// them.
    pub(super) peers: Option<u64>,
}

impl Takers {
    /// How many clients may be connected; `None` without a limit.
    pub(super) fn clients_max(self) -> Option<u32> {
        self.clients_of(limit())
    }

    fn clients_of(self, limit: u64) -> Option<u32> {
        // A connection may be sent a snapshot from its file.
        let http = self.http_ports * (2 * HTTP_PLACES as u64 + 1);
        let peers = self.peers.map_or(0, |peers| peers * OF_A_PEER + strangers_of(limit) as u64);
        let left = limit.saturating_sub(OWN + http + peers).max(limit / CLIENTS_SHARE);
        (limit > 0).then(|| u32::try_from(left).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bounds_together_are_the_limit() {
        let member = Takers { http_ports: 2, peers: Some(4) };
        for limit in [256, 1024, 20_000] {
            let strangers = strangers_of(limit) as u64;
            let clients = member.clients_of(limit).map(u64::from);
            assert_eq!(clients, Some(limit - 64 - 2 * 33 - 4 * 8 - strangers), "{limit}");
        }
        let alone = Takers { http_ports: 0, peers: None };
        assert_eq!(alone.clients_of(1024), Some(1024 - 64));
        // Too few for all: clients have some.
        assert_eq!((alone.clients_of(64), member.clients_of(100)), (Some(16), Some(25)));
        assert_eq!(alone.clients_of(0), None);
        assert_eq!([peers(5, false), peers(5, true)], [4, 68]);
        assert_eq!([0, 64, 256, 1 << 20].map(strangers_of), [128, 4, 16, 128]);
    }

    #[test]
    fn those_that_are_open_are_counted() {
        let files: Vec<fs::File> =
            (0..50).map(|_| fs::File::open("/dev/null").expect("it opens")).collect();
        assert!(open() >= files.len() as u64 + 3, "{}", open());
    }
}
