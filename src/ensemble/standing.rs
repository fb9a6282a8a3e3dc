//! Who founds an ensemble, and whether that may be yet: decided from what the listed servers hold,
//! as far as they answer.
//!
//! An ensemble begins on the greatest data, or on nothing. On nothing only if no data can be shut
//! out by that: every voter of the list has answered that it is empty too, or an operator left the
//! marker `initialize` on a majority. On data if every voter has answered, or a majority has data:
//! whatever was acknowledged is in the greatest of any majority, as ZooKeeper's own elections have
//! it. A voter that is busy is waited for, however long that takes: it says later what it holds.
//! One that is blank has said nothing of what it holds: its disk may not be mounted. One that was
//! taken out of an ensemble holds nothing that counts, but shows that there was one: beside it,
//! nobody begins on nothing without the marker.
//!
//! Each server names the one that is to found it, by what it has heard, and nobody founds without
//! being named by a majority: servers that hear different ones name different ones, but no two of
//! them have a majority at once.
//!
//! Where ZooKeeper went on with the directories of members, each of those left its ensemble for
//! good. If that is a majority, all that was acknowledged is among theirs, the ensemble cannot go
//! on, and the next generation of its line begins as above. If a majority shows nothing of
//! ZooKeeper, that acknowledged nothing, and the ensemble goes on.

mod heard;
mod patience;
mod returning;
mod round;
mod said;

pub use heard::busy;
pub use patience::{Absence, LastHeard, Patience};
pub use returning::{Asks, Return, Returning};
pub use round::{Acceptance, NextStep, Round};
pub use said::{Refuses, refused, without_any_base};

use crate::storage::RaftState;

/// What the directory of a server without an ensemble holds. The greater one is the one to go on
/// with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Base {
    /// `currentEpoch`, which ZooKeeper compares first.
    pub epoch: i64,
    /// Of its last transaction; 0 for none.
    pub zxid: i64,
    /// The newest epoch that it has heard of.
    pub accepted: i64,
}

impl Base {
    /// Whether nothing would be lost with it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.zxid == 0
    }
}

/// When an empty directory may become a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Begins {
    /// Not by itself: `db.autocreate` is false, and there is no marker.
    #[default]
    Never,
    /// With those of all voters.
    WithAll,
    /// With those of a majority: it has the marker `initialize`.
    Marked,
}

/// Servers by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Servers(pub [u64; 4]);

impl Servers {
    /// Whether this one is among them.
    #[must_use]
    pub fn has(self, server: u8) -> bool {
        let word = self.0.get(usize::from(server / 64)).copied().unwrap_or(0);
        word >> (server % 64) & 1 == 1
    }

    /// Whether more than half of them are among `others`; so of none.
    #[must_use]
    pub fn are_mostly(self, others: Self) -> bool {
        let count = |words: [u64; 4]| words.iter().map(|word| word.count_ones()).sum::<u32>();
        let mut both = self.0;
        both.iter_mut().zip(others.0).for_each(|(word, other)| *word &= other);
        self == Self::default() || count(both) > count(self.0) / 2
    }
}

impl FromIterator<u8> for Servers {
    fn from_iter<T: IntoIterator<Item = u8>>(servers: T) -> Self {
        let mut all = Self::default();
        for server in servers {
            if let Some(word) = all.0.get_mut(usize::from(server / 64)) {
                *word |= 1 << (server % 64);
            }
        }
        all
    }
}

/// What the raft.state of a directory says of its ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OfLine {
    /// The first one of those that were founded anew, up to this one.
    pub line: u64,
    /// Which of them this one is, from 1 on.
    pub generation: u64,
    /// The newest term that was promised.
    pub term: u64,
    /// The zxid of the last record that was written for it, as far as that is known; 0 for none.
    pub last: i64,
    /// Nothing of what it was founded on has come: the directory holds what it held before.
    pub lacks_base: bool,
    /// What that was is something.
    pub held: bool,
    /// It does not vote: its configuration has another life of its server, or none, or its founder
    /// has not answered yet.
    pub lacks_vote: bool,
    /// The servers that vote.
    pub voters: Servers,
    /// Those of before, while that changes.
    pub outgoing: Servers,
}

impl OfLine {
    /// Whether this one was founded after that one had been left.
    #[must_use]
    pub const fn is_later_than(&self, other: &Self) -> bool {
        self.line == other.line && self.generation > other.generation
    }

    /// Whether these servers are enough for it, or too many for it to go on without.
    fn is_majority(&self, servers: Servers) -> bool {
        self.voters.are_mostly(servers) && self.outgoing.are_mostly(servers)
    }

    /// Whether that may have been a majority, whichever of its configurations ZooKeeper's was.
    fn may_be_majority(&self, servers: Servers) -> bool {
        let is_changing = self.outgoing != Servers::default();
        self.voters.are_mostly(servers) || (is_changing && self.outgoing.are_mostly(servers))
    }
}

/// The ensemble of which a directory was a member's until ZooKeeper went on with it, or until
/// others founded a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Left {
    /// Its number.
    pub ensemble: u64,
    /// What else is known of it.
    pub of: OfLine,
}

/// What a server that belongs to no ensemble says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Holding {
    /// What its directory holds.
    pub base: Base,
    /// If that is nothing, whether it may begin with it.
    pub begins: Begins,
    /// Which server is to found the ensemble, as far as it has heard.
    pub names: Option<u8>,
    /// The ensemble that it left, if its directory was a member's.
    pub left: Option<Left>,
    /// The ensemble that an operator had it leave.
    pub detached: Option<u64>,
}

impl Holding {
    /// Whether it is empty and may not be: the disk with what it has may not be mounted.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.base.is_empty() && self.begins == Begins::Never
    }
}

/// Why a server cannot say yet what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Busy {
    /// It still reads its directory.
    Reads,
    /// It is becoming a member.
    Joins,
}

/// What a server is to others that ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It says so later.
    Busy(Busy),
    /// It belongs to no ensemble.
    Before(Holding),
    /// It belongs to one.
    Member {
        /// As which member.
        id: u64,
        /// To which.
        ensemble: u64,
        /// As its founder, it is about to ask these.
        asks: Vec<u8>,
        /// Whether that may have acknowledged anything, by what this member knows.
        has_begun: bool,
        /// The entry that made the members what they are, as far as it knows.
        configured_at: u64,
        /// What else its raft.state says of it.
        of: OfLine,
    },
    /// It belonged to one, and was taken out of it.
    Removed {
        /// Of which.
        ensemble: u64,
    },
}

impl Standing {
    /// Whether it belongs to an ensemble that was founded after this one had been left.
    #[must_use]
    pub const fn is_of_later(&self, than: &OfLine) -> bool {
        matches!(self, Self::Member { of, .. } if of.is_later_than(than))
    }

    /// Whether it says that this ensemble may have acknowledged anything. Nobody is taken out of
    /// one that has not begun.
    #[must_use]
    pub fn has_begun(&self, of: u64) -> bool {
        match self {
            Self::Member { ensemble, has_begun: true, .. } | Self::Removed { ensemble } => {
                *ensemble == of
            }
            Self::Member { .. } | Self::Before(_) | Self::Busy(_) => false,
        }
    }
}

/// Whether an ensemble may have acknowledged anything, by what a member of it has promised.
///
/// No member says so before a majority belongs, and none may acknowledge anything before it says
/// so. Its term tells: a leader has a later one than that of the founding, and no server enters a
/// later term before a majority has said that it would vote, which nobody says before its founder's
/// disk knows of it. Whom the founder still asks does not tell: a server that refused is not asked
/// again either, and one that accepted does not know how many others did.
#[must_use]
pub const fn has_begun(state: &RaftState) -> bool {
    state.term > state.founded_in
}

/// Whether nothing of its ensemble has come to a member, whose last record of it has this zxid:
/// neither what that was founded on nor, where the member was given a seat or came to the founding
/// late, what was there by then. Its founder knows all of that to be final, and so does who has it.
/// Without it, a member has acknowledged nothing in the ensemble.
#[must_use]
pub const fn lacks_base(state: &RaftState, last: i64) -> bool {
    let came_later = state.configured_at > 0 && state.commit == 0;
    last == 0 && (state.commit < state.base || state.clears || came_later)
}
#[cfg(test)]
#[path = "standing_test.rs"]
mod standing_test;

#[cfg(test)]
#[path = "without_vote_test.rs"]
mod without_vote_test;

#[cfg(test)]
#[path = "giving_up_test.rs"]
mod giving_up_test;
