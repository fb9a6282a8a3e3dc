//! What a server is in its ensemble, and what it sees of the others.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

/// What a server is in its ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Role {
    /// It has none.
    Standalone,
    /// It has none, and serves no clients: its data is being read.
    Reading,
    /// Nobody leads: it serves no clients.
    None,
    Leader,
    Follower,
    Observer,
    /// Nobody leads, and it serves clients that read only.
    ReadOnly,
}

impl Role {
    const ALL: [Self; 7] = [
        Self::Standalone,
        Self::Reading,
        Self::None,
        Self::Leader,
        Self::Follower,
        Self::Observer,
        Self::ReadOnly,
    ];

    /// Whether it is that of a member without a leader.
    pub(super) const fn lacks_leader(self) -> bool {
        matches!(self, Self::None | Self::ReadOnly)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Standalone | Self::Reading => "standalone",
            Self::None => "none",
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Observer => "observer",
            Self::ReadOnly => "read-only",
        })
    }
}

/// Why a member has no role.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoRole {
    /// It follows nobody.
    #[default]
    NoLeader,
    /// What it has applied is older than a read may be.
    TooOld {
        /// By how many milliseconds.
        ms: u64,
        /// Entries that are known to be final and not applied.
        behind: u64,
    },
    /// Its tree is not the others', and the leader's takes its place.
    WrongTree,
    /// Its tree is not the leader's, and nobody has told which of them is right.
    TreeInDoubt,
}

impl fmt::Display for NoRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLeader => f.write_str("there is no leader, or this server cannot reach it"),
            Self::TooOld { ms, behind: 0 } => write!(
                f,
                "this server knows a leader, but for {ms} ms too long a majority has not confirmed \
                 that its data is up to date"
            ),
            Self::TooOld { ms, behind } => write!(
                f,
                "this server lags {behind} transactions behind: what it has is {ms} ms older than \
                 syncLimit allows"
            ),
            Self::WrongTree => f.write_str(
                "the data of this server differs from that of the others; it is loading the \
                 leader's",
            ),
            Self::TreeInDoubt => f.write_str(
                "the data of this server differs from the leader's, and too few servers are \
                 present to tell which is right",
            ),
        }
    }
}

/// The role that a server has now.
#[derive(Debug)]
pub(super) struct CurrentRole(AtomicU8);

impl CurrentRole {
    pub(super) const fn new(role: Role) -> Self {
        Self(AtomicU8::new(role as u8))
    }

    pub(super) fn get(&self) -> Role {
        let role = usize::from(self.0.load(Ordering::Acquire));
        Role::ALL.get(role).copied().unwrap_or(Role::None)
    }

    /// Whoever sees it sees what was done before: a server that begins to serve has what it read.
    pub(super) fn set(&self, role: Role) {
        self.0.store(role as u8, Ordering::Release);
    }
}

/// What a member of an ensemble sees of the others.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// Servers that vote, this one too if it does.
    pub(super) voters: AtomicU32,
    /// Why it belongs to no ensemble yet, as long as it waits for one, or why that has no leader,
    /// where too few answer or nobody has any data of it.
    pub(super) waits_for: Mutex<Option<String>>,
    /// Why this server has no role, if it has none.
    pub(super) no_role: Mutex<NoRole>,
    /// Whether this server is listed as a voter and only follows so far.
    pub(super) lacks_vote: AtomicBool,
    /// Who is known to lead.
    pub(super) leader: Mutex<Option<u8>>,
    /// Voters and observers that answered this server lately, if it leads.
    pub(super) followers: AtomicU32,
    pub(super) observers: AtomicU32,
    /// Which observers those are.
    pub(super) observers_there: Mutex<Vec<u8>>,
    /// Requests that wait for a `sync`, if it leads.
    pub(super) pending_syncs: AtomicU32,
    /// Sessions that live on this server only.
    pub(super) local_sessions: AtomicU64,
    /// When this server began to lead.
    pub(super) leads_since: AtomicU64,
}
