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

mod said;

use std::collections::BTreeMap;
use std::time::Duration;

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

/// What a server without a state does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Asks again.
    Wait,
    /// Founds the ensemble.
    Found,
    /// Asks for a seat.
    Join,
}

/// What a server may belong to if it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acceptance {
    /// Who may ask.
    pub founder: u8,
    /// The ensemble of who asks.
    pub ensemble: u64,
    /// The newest data of other voters that belong to none. An ensemble that was founded on less
    /// would shut it out.
    pub newest: Base,
    /// The newest configuration that a member of the ensemble knows. Who asks with an earlier one
    /// lags, and may ask a first life that was taken out.
    pub configured_at: u64,
}

impl Acceptance {
    /// Whether it is for an ensemble that was founded on this.
    #[must_use]
    pub fn is_for(self, ensemble: u64, base: Base) -> bool {
        self.ensemble == ensemble && !self.shows_more_than(base)
    }

    /// Whether another voter has newer data than this.
    #[must_use]
    pub fn shows_more_than(self, base: Base) -> bool {
        (self.newest.epoch, self.newest.zxid) > (base.epoch, base.zxid)
    }
}

/// What one server has heard of the others in a round of questions.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    /// The server.
    pub own: u8,
    /// What it holds itself.
    pub holding: Holding,
    /// The servers of its list that vote.
    pub voters: &'a [u8],
    /// What the others have answered.
    pub others: &'a BTreeMap<u8, Standing>,
}

impl Round<'_> {
    /// Which server is to found the ensemble, by what was heard.
    #[must_use]
    pub fn named(&self) -> Option<u8> {
        let heard = || self.heard();
        let greatest = |(_, server, holding): &(bool, u8, Holding)| {
            (holding.base.epoch, holding.base.zxid, *server)
        };
        let is_of = |what: Begins| move |its: &(bool, u8, Holding)| its.2.begins == what;
        let with_data = heard().filter(|its| its.0).max_by_key(greatest);
        if let Some((_, server, _)) = with_data {
            return Some(server);
        }
        let servers = |(_, server, _)| server;
        match heard().count() == self.voters.len() && !heard().any(|its| is_of(Begins::Never)(&its))
        {
            true => heard().map(servers).max(),
            false => heard().filter(is_of(Begins::Marked)).map(servers).max(),
        }
    }

    /// What it does. `is_late` tells that data of a majority waits for no more answers, unless a
    /// voter is busy.
    #[must_use]
    pub fn step(&self, is_late: bool) -> Step {
        if let Some((_, ensemble, _)) = self.asker()
            && !(is_late && self.needs_no_founder(ensemble))
        {
            return Step::Wait;
        }
        if self.present().next().is_some() {
            return if self.is_waiting_for_others() { Step::Wait } else { Step::Join };
        }
        let named = self.named();
        let is_chosen = named == Some(self.own) && self.is_named_by_majority();
        if is_chosen && self.may_begin(is_late) { Step::Found } else { Step::Wait }
    }

    /// Whether all voters but itself have said what they hold.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let has_said = |server: &u8| match self.others.get(server) {
            None | Some(Standing::Busy(_)) => *server == self.own,
            Some(Standing::Before(holding)) => !holding.is_blank(),
            Some(Standing::Member { .. } | Standing::Removed { .. }) => true,
        };
        self.voters.iter().all(has_said)
    }

    /// Whether the data of this server, which belongs to no ensemble, is refused: all have
    /// answered, and one that has begun goes on without it. Where its members are too few for that,
    /// or have nothing of it, this data may count yet: they may have to leave it, as this server
    /// did.
    #[must_use]
    pub fn is_out_of_ensemble(&self) -> bool {
        let goes_on = |of: u64| {
            let mut members = self.members().filter(|its| its.1 == of);
            self.has_majority(of) && members.any(|its| !its.2.lacks_base)
        };
        self.is_complete() && self.begun().any(|(ensemble, _)| goes_on(ensemble))
    }

    /// The members of an ensemble, if nothing of what it was founded on has come to any that
    /// answers.
    fn without_base(&self, ensemble: u64) -> Option<Vec<u8>> {
        without_base(None, ensemble, self.others)
    }

    /// Whether another voter is there and says later what it holds.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.busy().next().is_some()
    }

    /// The other voters that are busy.
    fn busy(&self) -> impl Iterator<Item = (u8, Busy)> {
        busy(self.voters, self.others)
    }

    /// The servers that do not vote and have newer data than all voters, with which nothing is
    /// begun beside it: an observer has only what was acknowledged, so the voters have lost that.
    /// Where no voter has any, those that may have some, too.
    fn have_more(&self) -> impl Iterator<Item = (u8, Option<Busy>)> {
        let order = |its: &Holding| (its.base.epoch, its.base.zxid);
        let greatest = self.heard().filter(|its| its.0).map(|its| order(&its.2)).max();
        let others = self.others.iter().filter(|(server, _)| !self.voters.contains(server));
        others.filter_map(move |(server, its)| match its {
            Standing::Busy(busy) if greatest.is_none() => Some((*server, Some(*busy))),
            Standing::Before(holding)
                if !holding.base.is_empty()
                    && greatest.is_none_or(|greatest| order(holding) > greatest) =>
            {
                Some((*server, None))
            }
            Standing::Busy(_)
            | Standing::Before(_)
            | Standing::Member { .. }
            | Standing::Removed { .. } => None,
        })
    }

    /// Whether a majority has the marker.
    fn is_marked(&self) -> bool {
        let marked = self.heard().filter(|its| its.2.begins == Begins::Marked).count();
        marked > self.voters.len() / 2
    }

    /// To which ensemble it may belong, if the founder of that asks.
    ///
    /// Nobody may belong to two ensembles: what one has acknowledged would be shut out by the
    /// other. A directory with data of before was no member's, or of one that had acknowledged
    /// nothing: what it acknowledged is newer than what another was founded on. An empty one may
    /// have been a member's until it was emptied, and only the others can show it. If every voter
    /// answers, and none belongs to another ensemble that may have begun, then nobody is left who
    /// acknowledged anything in another; what was taken out of one is not needed there. If one is
    /// silent, it may be the last who has: the founder that asks may be one that the others went on
    /// without. What they become after they have answered is no reason: this server belongs to
    /// nothing meanwhile. One that left an ensemble has what it acknowledged there: it belongs to
    /// no ensemble that was founded on less. The marker is an operator's word that whoever is
    /// silent is not to be waited for.
    #[must_use]
    pub fn accepts(&self) -> Option<Acceptance> {
        let (founder, ensemble, of) = self.asker()?;
        let was_none = !self.holding.base.is_empty() || self.holding.begins == Begins::Marked;
        // What those have who left the line of the founder before takes a seat: a majority founded
        // without it.
        let is_of_before = |its: &Holding| its.left.is_some_and(|left| of.is_later_than(&left.of));
        let others = self.heard().filter(|its| its.1 != self.own && !is_of_before(&its.2));
        let newest = others.map(|its| its.2.base).max().unwrap_or_default();
        let configured_at = self.others.values().filter_map(|its| match its {
            Standing::Member { ensemble: of, configured_at, .. } if *of == ensemble => {
                Some(*configured_at)
            }
            _ => None,
        });
        let configured_at = configured_at.max().unwrap_or(0);
        let acceptance = Acceptance { founder, ensemble, newest, configured_at };
        (was_none || self.is_complete()).then_some(acceptance)
    }

    /// Who asks it to belong to its ensemble, or is about to, and to which. Nobody, where that was
    /// left or another one may have begun.
    #[must_use]
    pub fn asker(&self) -> Option<(u8, u64, OfLine)> {
        let has_left = |of: &OfLine| self.holding.left.is_none_or(|its| of.is_later_than(&its.of));
        let asker = |(server, its): (&u8, &Standing)| match its {
            Standing::Member { ensemble, asks, of, .. }
                if asks.contains(&self.own) && has_left(of) =>
            {
                Some((*server, *ensemble, *of))
            }
            _ => None,
        };
        // One that was left for this one is none.
        let has_another_begun = |ensemble: u64, of: &OfLine| {
            self.begun().any(|(other, its)| other != ensemble && !of.is_later_than(&its))
        };
        let mut askers = self.others.iter().filter_map(asker);
        askers.find(|(_, ensemble, of)| self.may_go_on(of) && !has_another_begun(*ensemble, of))
    }

    /// Whether an ensemble may have acknowledged anything.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun().next().is_some()
    }

    /// The ensembles of members that say so.
    fn begun(&self) -> impl Iterator<Item = (u64, OfLine)> {
        self.others.values().filter_map(|its| match its {
            Standing::Member { ensemble, has_begun: true, of, .. } => Some((*ensemble, *of)),
            Standing::Member { .. }
            | Standing::Removed { .. }
            | Standing::Before(_)
            | Standing::Busy(_) => None,
        })
    }

    /// Whether what this server holds may go aside for a seat: it is nothing, or what was there
    /// before the ensemble that is heard was founded on the data of a majority, or nothing that the
    /// others have not, if its leader has the last record of it.
    #[must_use]
    pub fn may_go_aside(&self) -> bool {
        let left = self.holding.left;
        !self.has_to_show() || left.is_some_and(|left| self.may_have_nothing_more(left))
    }

    /// Whether what this server holds may go aside only if a leader has its last record.
    #[must_use]
    pub fn has_to_show(&self) -> bool {
        !self.holding.base.is_empty()
            && !self.holding.left.is_some_and(|left| self.is_before_all(left))
    }

    /// Whether all ensembles that are heard and may go on were founded after this one had been
    /// left.
    fn is_before_all(&self, left: Left) -> bool {
        let mut present = self.members().filter(|(_, _, of)| self.may_go_on(of));
        present.all(|(_, _, of)| of.is_later_than(&left.of))
    }

    /// Whether a majority goes on with the ensemble that this server left, and may have all that it
    /// holds: an ensemble of ZooKeeper's, which raises the epoch, brought it what the others had
    /// before. That they have is for their leader to say, by the last record: ZooKeeper may have
    /// written in an earlier epoch of its own, and others that were restored from before that may
    /// have gone on to later zxids. A snapshot does not tell that record, also one that is named
    /// for the beginning of an epoch.
    fn may_have_nothing_more(&self, left: Left) -> bool {
        let Base { zxid, accepted, .. } = self.holding.base;
        let was_with_others = u64::try_from(accepted).is_ok_and(|accepted| accepted > left.of.term);
        let is_of_before = zxid >> 32 < accepted;
        let fellows = || self.members().filter(|(_, ensemble, _)| *ensemble == left.ensemble);
        was_with_others
            && is_of_before
            && self.is_majority_of(left, voting(fellows()))
            && self.present().all(|(_, ensemble)| ensemble == left.ensemble)
            && fellows().any(|its| zxid <= its.2.last)
    }

    fn is_majority_of(&self, left: Left, servers: Servers) -> bool {
        let voters: Servers = self.voters.iter().copied().collect();
        voters.are_mostly(servers) && left.of.is_majority(servers)
    }

    /// Whether ZooKeeper went on with what this server holds, and not enough of the others are
    /// heard to tell whether it did with that of a majority.
    fn is_waiting_for_others(&self) -> bool {
        let Some(left) = self.holding.left.filter(|_| !self.may_go_aside()) else { return false };
        let mut own =
            self.members().filter(|(_, ensemble, _)| *ensemble == left.ensemble).peekable();
        own.peek().is_some() && !self.is_majority_of(left, voting(own))
    }

    /// Whether what a majority holds is of after this ensemble, so that it cannot go on.
    fn is_past(&self, of: &OfLine) -> bool {
        let is_left = |its: &OfLine| its.line == of.line && its.generation >= of.generation;
        let servers: Servers = self.data().map(|(server, _)| server).collect();
        let voters: Servers = self.voters.iter().copied().collect();
        self.lefts().any(|left| is_left(&left.of))
            && voters.are_mostly(servers)
            && of.is_majority(servers)
    }

    /// All servers that belong to no ensemble and have data, this one too, observers as well.
    fn data(&self) -> impl Iterator<Item = (u8, Holding)> {
        let others = self.others.iter().filter_map(|(server, its)| match its {
            Standing::Before(holding) => Some((*server, *holding)),
            Standing::Member { .. } | Standing::Removed { .. } | Standing::Busy(_) => None,
        });
        others.chain([(self.own, self.holding)]).filter(|(_, its)| !its.base.is_empty())
    }

    /// The ensembles that were left, as far as heard.
    fn lefts(&self) -> impl Iterator<Item = Left> {
        self.data().filter_map(|(_, holding)| holding.left)
    }

    /// Members of an ensemble that may go on, and of which.
    pub fn present(&self) -> impl Iterator<Item = (u8, u64)> {
        let present = self.members().filter(|(_, _, of)| self.may_go_on(of));
        present.map(|(server, ensemble, _)| (server, ensemble))
    }

    /// Servers that belong to an ensemble, to which, and what else they say of it.
    fn members(&self) -> impl Iterator<Item = (u8, u64, OfLine)> {
        self.others.iter().filter_map(|(server, its)| match its {
            Standing::Member { ensemble, of, .. } => Some((*server, *ensemble, *of)),
            Standing::Removed { .. } | Standing::Before(_) | Standing::Busy(_) => None,
        })
    }

    /// Whether neither the data of a majority nor a member shows that it was left.
    fn may_go_on(&self, of: &OfLine) -> bool {
        !self.is_past(of) && !self.others.values().any(|its| its.is_of_later(of))
    }

    /// The generation after all that were left, and its line; `None` where none was. Nobody founds
    /// where they are of two lines.
    #[must_use]
    pub fn next_generation(&self) -> Option<(u64, u64)> {
        let newest = self.lefts().max_by_key(|left| left.of.generation)?;
        Some((newest.of.line, newest.of.generation.saturating_add(1)))
    }

    /// The newest epoch in which anything was promised, to this server's knowledge.
    #[must_use]
    pub fn newest_epoch(&self) -> i64 {
        let others = self.others.values().map(|its| match its {
            Standing::Before(holding) => holding.base.accepted,
            Standing::Member { of, .. } => i64::try_from(of.term).unwrap_or(0),
            Standing::Removed { .. } | Standing::Busy(_) => 0,
        });
        others.fold(self.holding.base.accepted, i64::max)
    }

    /// One that left an ensemble, if no majority of that is known to have left.
    fn is_left_by_few(&self) -> Option<u8> {
        let mut lefts = self.data().filter_map(|(server, its)| its.left.map(|left| (server, left)));
        lefts.find_map(|(server, left)| (!self.is_past(&left.of)).then_some(server))
    }

    /// Whether those who answer as members of an ensemble are a majority of it, by the newest
    /// configuration that one of them knows. Who has come back with an empty directory counts when
    /// it votes.
    fn has_majority(&self, of: u64) -> bool {
        let servers = voting(self.members().filter(|its| its.1 == of));
        let configurations = self.others.values().filter_map(|its| match its {
            Standing::Member { ensemble, configured_at, of: its, .. } if *ensemble == of => {
                Some((*configured_at, *its))
            }
            _ => None,
        });
        let newest = configurations.max_by_key(|its| its.0);
        newest.is_some_and(|(_, its)| its.is_majority(servers))
    }

    /// Whether an ensemble may begin with what was heard.
    fn may_begin(&self, is_late: bool) -> bool {
        if self.have_more().next().is_some() {
            return false;
        }
        let voters = self.voters.len();
        let said = self.heard().filter(|its| !its.2.is_blank()).count();
        let with_data = self.heard().filter(|its| its.0).count();
        if self.next_generation().is_some() {
            let is_said = self.is_of_other_lines().is_some() || self.is_older_than_left().is_some();
            let are_left = self.is_left_by_few().is_none();
            let is_late = is_late && !self.is_held_up();
            return !is_said && are_left && (self.is_complete() || is_late);
        }
        if with_data > 0 {
            // What was taken out of an ensemble is not what this one is to be founded on, nor
            // belongs to it.
            let are_all = said + self.removed().len() == voters && said > voters / 2;
            return are_all || (is_late && !self.is_held_up() && with_data > voters / 2);
        }
        said == voters || (self.is_marked() && !self.is_held_up())
    }

    fn is_named_by_majority(&self) -> bool {
        let names = self.heard().filter(|(_, server, holding)| {
            let names = if *server == self.own { self.named() } else { holding.names };
            names == Some(self.own)
        });
        names.count() > self.voters.len() / 2
    }

    /// The voters that belong to no ensemble, this one too: whether they have data, who, and what
    /// they hold.
    fn heard(&self) -> impl Iterator<Item = (bool, u8, Holding)> {
        let others = self.others.iter().filter_map(|(server, standing)| match standing {
            Standing::Before(holding) => Some((*server, *holding)),
            Standing::Member { .. } | Standing::Removed { .. } | Standing::Busy(_) => None,
        });
        let heard = others.chain([(self.own, self.holding)]);
        let voters = heard.filter(|(server, _)| self.voters.contains(server));
        voters.map(|(server, holding)| (!holding.base.is_empty(), server, holding))
    }

    /// Whether it need not wait for the founder of this ensemble, which asks it: a leader has the
    /// word of a majority and can give it a seat, and the founder may never reach it. There is none
    /// before the ensemble has begun. Where it may not accept because somebody is silent, a seat is
    /// all that it can have.
    fn needs_no_founder(&self, ensemble: u64) -> bool {
        let has_begun = self.begun().any(|(begun, _)| begun == ensemble);
        self.may_go_aside() && (has_begun || self.accepts().is_none())
    }

    /// The voters that were taken out of an ensemble.
    fn removed(&self) -> Vec<u8> {
        let is_removed =
            |server: &u8| matches!(self.others.get(server), Some(Standing::Removed { .. }));
        self.voters.iter().copied().filter(is_removed).collect()
    }

    /// The voters that are blank.
    fn blank(&self) -> Vec<u8> {
        let mut blank: Vec<u8> =
            self.heard().filter(|its| its.2.is_blank()).map(|its| its.1).collect();
        blank.sort_unstable();
        blank
    }

    /// The voters that are empty and not blank: by that, nobody knows whether a disk is missing
    /// there.
    fn empty(&self) -> Vec<u8> {
        let is_empty = |its: &(bool, u8, Holding)| !its.0 && !its.2.is_blank();
        let mut empty: Vec<u8> = self.heard().filter(is_empty).map(|its| its.1).collect();
        empty.sort_unstable();
        empty
    }
}

/// For how long servers that are silent have been waited for.
///
/// A server that is busy begins that anew, as long as its first process is that was since it said
/// what it is: one that is started again and again and never comes further is waited for only while
/// it is heard.
#[derive(Debug, Default)]
pub struct Patience {
    since: Duration,
    busy: BTreeMap<u8, u64>,
}

impl Patience {
    /// After a round of questions, `now` after the first one, with the numbers of the processes
    /// that are busy and the servers that are not.
    pub fn heard(
        &mut self,
        busy: impl Iterator<Item = (u8, u64)>,
        others: impl Iterator<Item = u8>,
        now: Duration,
    ) {
        for server in others {
            self.busy.remove(&server);
        }
        for (server, process) in busy {
            if *self.busy.entry(server).or_insert(process) == process {
                self.since = now;
            }
        }
    }

    /// For how long.
    #[must_use]
    pub fn waited(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }
}

/// When members of ensembles were heard last. They may be silent for a moment, and their ensembles
/// serve clients.
#[derive(Debug, Default)]
pub struct LastHeard(BTreeMap<u8, (OfLine, Duration)>);

impl LastHeard {
    /// After a round of questions, `now` after the first one. Who says that it is no member is
    /// none; who is busy may be one.
    pub fn heard(&mut self, others: &BTreeMap<u8, Standing>, now: Duration) {
        for (server, its) in others {
            match its {
                Standing::Member { of, .. } => {
                    self.0.insert(*server, (*of, now));
                }
                Standing::Before(_) | Standing::Removed { .. } => {
                    self.0.remove(server);
                }
                Standing::Busy(_) => {}
            }
        }
    }

    /// A member that was heard less than `limit` ago, of an ensemble that may go on by what `round`
    /// has heard.
    #[must_use]
    pub fn lately(&self, round: &Round<'_>, limit: Duration, now: Duration) -> Option<u8> {
        let is_late = |at: &Duration| now.saturating_sub(*at) >= limit;
        let mut members = self.0.iter().filter(|(_, (_, at))| !is_late(at));
        members.find_map(|(server, (of, _))| round.may_go_on(of).then_some(*server))
    }
}

/// The voters that are busy.
pub fn busy(voters: &[u8], others: &BTreeMap<u8, Standing>) -> impl Iterator<Item = (u8, Busy)> {
    let voters = others.iter().filter(|(server, _)| voters.contains(server));
    voters.filter_map(|(server, its)| match its {
        Standing::Busy(busy) => Some((*server, *busy)),
        Standing::Before(_) | Standing::Member { .. } | Standing::Removed { .. } => None,
    })
}

/// Those of the members that vote.
fn voting(members: impl Iterator<Item = (u8, u64, OfLine)>) -> Servers {
    members.filter(|(_, _, of)| !of.lacks_vote).map(|(server, ..)| server).collect()
}

/// The members of an ensemble that answer, and `own` with them, if nothing of what it was founded
/// on has come to any. None where one was taken out of it, which shows that more was there, or
/// where ZooKeeper went on with what another has.
fn without_base(
    own: Option<u8>,
    ensemble: u64,
    others: &BTreeMap<u8, Standing>,
) -> Option<Vec<u8>> {
    let has_more = |its: &Standing| match its {
        Standing::Member { ensemble: its, of, .. } => *its == ensemble && !of.lacks_base,
        Standing::Removed { ensemble: its } => *its == ensemble,
        Standing::Before(its) => its.left.is_some_and(|left| left.ensemble == ensemble),
        Standing::Busy(_) => false,
    };
    let is_member =
        |its: &Standing| matches!(its, Standing::Member { ensemble: its, .. } if *its == ensemble);
    let members = others.iter().filter(|(_, its)| is_member(its)).map(|(server, _)| *server);
    let mut members: Vec<u8> = members.chain(own).collect();
    members.sort_unstable();
    (!members.is_empty() && !others.values().any(has_more)).then_some(members)
}

/// For how long the founder has not been heard whose ensemble a server has accepted.
#[derive(Debug, Default)]
pub struct Absence {
    since: Option<((u64, u64), Duration)>,
}

impl Absence {
    /// After a round of questions, `now` after the first one, for the member `founder` of
    /// `ensemble`.
    pub fn heard(
        &mut self,
        (founder, ensemble): (u64, u64),
        others: &BTreeMap<u8, Standing>,
        now: Duration,
    ) -> Duration {
        let is_it = |its: &Standing| matches!(its, Standing::Member { id, ensemble: of, .. } if (*id, *of) == (founder, ensemble));
        let awaited = (founder, ensemble);
        let since = self.since.filter(|(of, _)| *of == awaited && !others.values().any(is_it));
        let (_, since) = *self.since.insert(since.unwrap_or((awaited, now)));
        now.saturating_sub(since)
    }
}

/// The other voters that are blank.
fn blank(voters: &[u8], others: &BTreeMap<u8, Standing>) -> Vec<u8> {
    let is_blank =
        |server: &u8| matches!(others.get(server), Some(Standing::Before(its)) if its.is_blank());
    voters.iter().copied().filter(is_blank).collect()
}

/// The other voters that are empty, and not blank.
fn empty(voters: &[u8], others: &BTreeMap<u8, Standing>) -> Vec<u8> {
    let is_empty = |server: &u8| matches!(others.get(server), Some(Standing::Before(its)) if its.base.is_empty() && !its.is_blank());
    voters.iter().copied().filter(is_empty).collect()
}

/// What a member does at its start with what it has heard, before it takes part in its ensemble
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Return {
    /// Asks again.
    Wait,
    /// Takes part.
    TakePart,
    /// Its ensemble was left by a majority, and others have founded the next: it left it too.
    Leave,
}

/// A founder that still has to ask others to belong to its ensemble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// Nothing was acknowledged yet: who is asked waits for it.
    Alone,
    /// A majority belongs, and has begun: ZooKeeper may have gone on with theirs, and even with
    /// that of whoever is silent.
    Begun,
}

/// What a member has heard of the others in a round of questions.
#[derive(Debug, Clone, Copy)]
pub struct Returning<'a> {
    /// The server.
    pub own: u8,
    /// The ensemble of which its directory is a member's.
    pub left: Left,
    /// As its founder, it still has to ask others. Where it is alone, all have been asked what they
    /// are.
    pub asks: Option<Asks>,
    /// The servers of its list that vote.
    pub voters: &'a [u8],
    /// What the others have answered.
    pub others: &'a BTreeMap<u8, Standing>,
}

impl Returning<'_> {
    /// What it does. `is_late` tells that it goes on with any other member, if ZooKeeper cannot
    /// have had a majority of those that are silent and nobody else has data.
    #[must_use]
    pub fn step(&self, is_late: bool) -> Return {
        let of = self.left.of;
        if self.others.values().any(|its| its.is_of_later(&of)) {
            return Return::Leave;
        }
        let servers: Servers = self.fellows().chain([self.own]).collect();
        let voters: Servers = self.voters.iter().copied().collect();
        // ZooKeeper may have had the servers of the list, or those that the log names.
        let is_enough = voters.are_mostly(servers) && of.is_majority(servers);
        let has_left = |its: &Holding| {
            its.left.is_some_and(|left| !of.is_later_than(&left.of) && left.of.line == of.line)
        };
        let may_be_over = self.holdings().any(has_left);
        // It says to who is of another one that they have nothing in common.
        let foreign = |its: &Standing| match its {
            Standing::Member { ensemble, of: other, .. } => {
                *ensemble != self.left.ensemble && !of.is_later_than(other)
            }
            Standing::Removed { .. } | Standing::Before(_) | Standing::Busy(_) => false,
        };
        let are_all = self.voters.iter().all(|server| self.has_said(*server));
        let is_told = (is_late || are_all) && self.others.values().any(foreign);
        let is_founder = match self.asks {
            None => false,
            Some(Asks::Alone) => true,
            Some(Asks::Begun) => is_late || are_all,
        };
        let may_go_on =
            (is_late && self.may_go_on_with(&[])) || (!may_be_over && (is_told || is_founder));
        if is_enough || may_go_on { Return::TakePart } else { Return::Wait }
    }

    /// The others that belong to its ensemble.
    fn fellows(&self) -> impl Iterator<Item = u8> {
        self.others.iter().filter_map(|(server, its)| match its {
            Standing::Member { ensemble, .. } if *ensemble == self.left.ensemble => Some(*server),
            _ => None,
        })
    }

    /// What those have that belong to none.
    fn holdings(&self) -> impl Iterator<Item = &Holding> {
        self.others.values().filter_map(|its| match its {
            Standing::Before(holding) => Some(holding),
            Standing::Member { .. } | Standing::Removed { .. } | Standing::Busy(_) => None,
        })
    }

    fn has_said(&self, server: u8) -> bool {
        match self.others.get(&server) {
            None | Some(Standing::Busy(_)) => server == self.own,
            // Its disk may not be mounted.
            Some(Standing::Before(holding)) => !holding.is_blank(),
            Some(Standing::Member { .. } | Standing::Removed { .. }) => true,
        }
    }

    /// Whether it may go on with any other member, if these have the marker: nobody else has data,
    /// and ZooKeeper cannot have had a majority of those that have not said what they hold.
    fn may_go_on_with(&self, marked: &[u8]) -> bool {
        let of = self.left.of;
        let voters: Servers = self.voters.iter().copied().collect();
        let is_unheard = |server: &u8| !self.has_said(*server) && !marked.contains(server);
        let unheard: Servers = (0..=u8::MAX).filter(is_unheard).collect();
        self.fellows().next().is_some()
            && self.holdings().all(|its| its.base.is_empty())
            && !voters.are_mostly(unheard)
            && !of.may_be_majority(unheard)
    }
}

#[cfg(test)]
#[path = "standing_test.rs"]
mod standing_test;

#[cfg(test)]
#[path = "without_vote_test.rs"]
mod without_vote_test;
