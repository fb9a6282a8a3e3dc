//! How the logs of the members stand, for whoever measures it: a member itself has no clock.

use raft::ProgressState;

use super::consensus::Consensus;
use super::server_of;
use crate::storage::LogEntry;

/// Where the time stands in a record: after session, cxid and zxid.
const TIME: std::ops::Range<usize> = 20..28;

/// A transaction that came into a member's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Its place.
    pub index: u64,
    /// When its leader decided it, by that one's clock.
    pub time: i64,
    /// Its bytes.
    pub bytes: u64,
}

/// What a leader knows of a member's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerLog {
    /// Not how far it goes.
    Unknown,
    /// It gets what comes.
    Follows,
    /// It gets a snapshot first.
    Snapshot,
}

/// A member, as a leader sees it; itself, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub id: u64,
    /// The server that it is.
    pub server: u8,
    /// The last entry that its disk is known to have.
    pub matched: u64,
    /// How it gets what it lacks.
    pub log: PeerLog,
    /// Whether it votes.
    pub votes: bool,
    /// Whether it was heard of lately.
    pub is_there: bool,
}

impl Appended {
    /// Nothing for what is no transaction.
    pub(super) fn of(entry: &LogEntry) -> Option<Self> {
        let time = entry.payload.get(TIME)?.try_into().ok().map(i64::from_be_bytes)?;
        let (index, bytes) = (entry.index, entry.payload.len() as u64);
        (!entry.is_blank()).then_some(Self { index, time, bytes })
    }
}

impl Consensus {
    /// What came into the log since the last call.
    pub fn take_appended(&mut self) -> Vec<Appended> {
        std::mem::take(&mut self.appended)
    }

    /// All members, as a leader sees them.
    #[must_use]
    pub fn peers(&self) -> Vec<Peer> {
        let raft = &self.node.raft;
        let voters = raft.prs().conf().voters();
        let peer = |(id, progress): (&u64, &raft::Progress)| Peer {
            id: *id,
            server: server_of(*id),
            matched: progress.matched,
            log: match progress.state {
                ProgressState::Probe => PeerLog::Unknown,
                ProgressState::Replicate => PeerLog::Follows,
                ProgressState::Snapshot => PeerLog::Snapshot,
            },
            votes: voters.contains(*id),
            is_there: *id == raft.id || self.is_there(*id),
        };
        raft.prs().iter().map(peer).collect()
    }

    /// From which transaction on the others that are there still take the log from a leader: of one
    /// that gets a snapshot, or that has got it and has not said yet that its disk has it, from
    /// that on.
    pub(super) fn wanted(&self, is_leading: bool) -> Option<i64> {
        let (raft, log) = (&self.node.raft, &self.node.store().log);
        let takes = |(id, progress): (&u64, &raft::Progress)| {
            let is_another = is_leading && *id != raft.id && self.is_there(*id);
            let from = |index| if is_another { log.zxid(index) } else { None };
            match progress.state {
                ProgressState::Snapshot => from(progress.pending_snapshot),
                // What it had before is in the log no more where it needed a snapshot.
                ProgressState::Probe | ProgressState::Replicate => {
                    from(progress.matched).or_else(|| from(progress.next_idx.saturating_sub(1)))
                }
            }
        };
        raft.prs().iter().filter_map(takes).min()
    }

    /// Whether it is known what the others still take: only a leader's log is taken, and it hears
    /// at the beginning of its term what each of those that are there has.
    pub(super) fn knows_what_is_wanted(&self, is_leading: bool) -> bool {
        let raft = &self.node.raft;
        let is_unheard = |(id, progress): (&u64, &raft::Progress)| {
            let is_unknown = progress.state == ProgressState::Probe && progress.matched == 0;
            is_unknown && *id != raft.id && self.is_there(*id)
        };
        self.leader() != 0 && !(is_leading && raft.prs().iter().any(is_unheard))
    }

    /// Whether a leader has a way to another member, or heard of it since it last looked whether it
    /// has a quorum: the crate forgets who was active each time that it does.
    pub(super) fn is_there(&self, peer: u64) -> bool {
        let progress = self.node.raft.prs().get(peer);
        self.found.contains(&peer) || progress.is_some_and(|its| its.recent_active)
    }
}
