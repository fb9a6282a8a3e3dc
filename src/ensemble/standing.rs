//! Who founds an ensemble, and whether that may be yet: decided from what the listed servers hold, as far as they answer.
//!
//! An ensemble begins on the greatest data, or on nothing. On nothing only if no data can be shut out by that: every voter
//! of the list has answered that it is empty too, or an operator left the marker `initialize` on a majority. On data
//! if every voter has answered, or a majority has data: whatever was acknowledged is in the greatest of any majority, as
//! ZooKeeper's own elections have it. A voter that is busy is waited for, however long that takes: it says later what it holds.
//! One that is blank has said nothing of what it holds: its disk may not be mounted. One that was taken out of an ensemble holds
//! nothing that counts, but shows that there was one: beside it, nobody begins on nothing without the marker.
//!
//! Each server names the one that is to found it, by what it has heard, and nobody founds without being named by a majority:
//! servers that hear different ones name different ones, but no two of them have a majority at once.
//!
//! Where ZooKeeper went on with the directories of members, each of those left its ensemble for good. If that is a majority, all
//! that was acknowledged is among theirs, the ensemble cannot go on, and the next generation of its line begins as above. If a
//! majority shows nothing of ZooKeeper, that acknowledged nothing, and the ensemble goes on.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::storage::{MOVE_ASIDE, RaftState};

/// For an operator, behind that servers belong to two ensembles.
const NEITHER_IS_KNOWN: &str = ": start all other servers, and check that their lists name the right ones. Move no data away before it \
     is known which ensemble served clients";

/// What the directory of a server without an ensemble holds. The greater one is the one to go on with.
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
    /// It does not vote: its configuration has another life of its server, or none, or its founder has not answered yet.
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

/// The ensemble of which a directory was a member's until ZooKeeper went on with it, or until others founded a later one.
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

    /// Whether it says that this ensemble may have acknowledged anything. Nobody is taken out of one that has not begun.
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
/// No member says so before a majority belongs, and none may acknowledge anything before it says so. Its term tells: a leader
/// has a later one than that of the founding, and no server enters a later term before a majority has said that it would
/// vote, which nobody says before its founder's disk knows of it. Whom the founder still asks does not tell: a server that
/// refused is not asked again either, and one that accepted does not know how many others did.
#[must_use]
pub const fn has_begun(state: &RaftState) -> bool {
    state.term > state.founded_in
}

/// Whether nothing of its ensemble has come to a member, whose last record of it has this zxid: neither what that was founded on
/// nor, where the member was given a seat or came to the founding late, what was there by then. Its founder knows all of that to be
/// final, and so does who has it. Without it, a member has acknowledged nothing in the ensemble.
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
    /// The newest data of other voters that belong to none. An ensemble that was founded on less would shut it out.
    pub newest: Base,
    /// The newest configuration that a member of the ensemble knows. Who asks with an earlier one lags, and may ask a first life
    /// that was taken out.
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

    /// What it does. `is_late` tells that data of a majority waits for no more answers, unless a voter is busy.
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

    /// For an operator: why it is not a member yet, and what ends that. `data_dir` is the directory of this server.
    #[must_use]
    pub fn waits_for(&self, is_late: bool, data_dir: &str) -> String {
        let marked = format!("`touch {data_dir}/initialize`");
        let (silent, are) = self.silent();
        let unmounted = self.unmounted();
        // Before the marker is spoken of: what it gives up may lie on a disk that is not mounted.
        let mounted = |whose: &str| match unmounted.as_str() {
            "" => format!(". Check that the disks of {whose} are mounted"),
            _ => unmounted.clone(),
        };
        if let Some((server, ensemble, of)) = self.asker() {
            let accepts = self.accepts();
            let tries_seat = accepts.is_some() && is_late && self.needs_no_founder(ensemble);
            return match accepts {
                Some(_) if tries_seat => self.lacks_seat(server, (ensemble, of)),
                Some(_) => format!(
                    "server {server} is founding the ensemble and has not asked this one yet, or does not know all of its members \
                     yet, or has founded it on less data than another server has"
                ),
                None => self.holds_up().unwrap_or_else(|| {
                    let is_told = self.holding.is_blank() && self.voters.contains(&self.own);
                    let own = match is_told {
                        true => "",
                        false => ". Check that the disk of this server is mounted",
                    };
                    // Where its founder is silent for a moment, a majority with the marker would begin on nothing.
                    let end = match self.may_be_marked() {
                        true => format!(
                            ". To belong to the ensemble of server {server} without that, run {marked}: that gives up what this \
                             server had in another one"
                        ),
                        false => self.ends_with_all(),
                    };
                    format!(
                        "server {server} asks this empty server to belong to its ensemble, but {} and may belong to another one, to \
                         which this server belonged before its directory was emptied{own}{unmounted}{}{end}",
                        self.missing(),
                        started(&silent)
                    )
                }),
            };
        }
        if let Some(text) = self.is_of_two() {
            return text;
        }
        let present = || self.members().filter(|(_, _, of)| self.may_go_on(of));
        if let Some((server, ensemble, of)) = present().next() {
            let lacking = || present().find_map(|its| Some((its.0, self.without_base(its.1)?)));
            let held = self.members().any(|its| its.2.held);
            let has_data = self.data().next().is_some();
            // Of one that has not begun, who is silent may have it.
            if (self.has_begun() || !(held || has_data) || self.is_complete())
                && let Some((server, members)) = lacking()
            {
                return self.holds_up().unwrap_or_else(|| {
                    let empty = (self.empty(), has_data);
                    let end = ends_without_base(&members, &silent, &unmounted, held, &empty);
                    format!("server {server} belongs to an ensemble, and {end}")
                });
            }
            if !self.has_begun()
                && let Some(text) = self.is_not_listed()
            {
                return text;
            }
            if self.may_go_aside() {
                return self.lacks_seat(server, (ensemble, of));
            }
            if self.is_waiting_for_others() {
                let end = self.ends_without_others((ensemble, of));
                let majority = majority_wins(&silent);
                return self.holds_up().unwrap_or_else(|| {
                    format!(
                        "ZooKeeper has gone on with the data of this server, and server {server} belongs to the ensemble of before \
                         and shows nothing of that. {majority}{unmounted}{end}"
                    )
                });
            }
            return match self.holds_up() {
                Some(text) => text,
                None if !self.has_begun() => self.lacks_beginning(server),
                None if !self.is_complete() => format!(
                    "server {server} belongs to an ensemble, and {} and may have founded it: start what is silent{unmounted}",
                    self.missing()
                ),
                None => self.lacks_seat(server, (ensemble, of)),
            };
        }
        if let Some(text) = self.holds_up() {
            return text;
        }
        if let Some(text) = self.is_of_other_lines() {
            return text;
        }
        if let Some((server, _)) = self.have_more().next() {
            let than = match self.heard().any(|its| its.0) {
                true => "newer data than all that vote",
                false => "data",
            };
            return format!(
                "server {server}, which does not vote, has {than}, and nothing is begun beside that. To begin on it, give server \
                 {server} a vote in the lists of all servers, and start them again; to begin without it, stop server {server}, \
                 {MOVE_ASIDE}, and start the server again"
            );
        }
        if let Some(text) = self.is_older_than_left() {
            return text;
        }
        if let Some(server) = self.is_left_by_few() {
            let start = match silent.is_empty() {
                true => format!("the others are empty{unmounted}"),
                false => format!(
                    "{silent} {are} not answer: start what is silent, with the data that it has{unmounted}"
                ),
            };
            return format!(
                "ZooKeeper has gone on with the data of server {server}, and no majority has any: {start}. If the data of the others is \
                 lost, and what server {server} has is to count, stop server {server}, run `ferrokeeper data leave` on its dataDir, \
                 and start it again"
            );
        }
        let with_data = self.heard().any(|its| its.0);
        match (silent.is_empty(), self.named().filter(|_| with_data)) {
            (true, named)
                if !self.may_begin(is_late)
                    && self.removed().len()
                        >= named.map_or(1, |_| self.voters.len().div_ceil(2)) =>
            {
                let anew = match self.data().next() {
                    None => format!(
                        "; to begin with an empty tree, run {marked} on a majority of the servers, each with its own dataDir: that \
                         gives up all that there was"
                    ),
                    Some(_) => String::new(),
                };
                format!(
                    "{}, and no member of that answers: start the servers that belong to it, and check that the lists name \
                     them{}. If they are lost for good: to go on with what is left of before that, stop the server that was taken \
                     out, run `ferrokeeper data leave` on its dataDir, and start it again{anew}",
                    self.taken_out(),
                    mounted("all servers")
                )
            }
            (false, None) => {
                let end = match self.data().next() {
                    None => format!(
                        "Only if what {silent} had is not needed, begin with an empty tree: run {marked} on a majority of the \
                         servers, each with its own dataDir: that gives up all that there was"
                    ),
                    // Where that is silent for a moment, a majority with the marker would begin without it.
                    Some((server, _)) => format!(
                        "To begin on the data of server {server}, which does not vote, give it a vote in the lists"
                    ),
                };
                format!(
                    "{silent} {are} not answer and may have data{}{}. {end}",
                    mounted("the servers that answer"),
                    started(&silent)
                )
            }
            (false, Some(_)) if self.may_begin(is_late) => {
                format!(
                    "{silent} {are} not answer; the servers with data are enough, but {}",
                    self.founder()
                )
            }
            (false, Some(_)) if self.may_begin(true) => format!(
                "{silent} {are} not answer and may have newer data; after initLimit the servers with data wait no longer"
            ),
            (false, Some(server)) => format!(
                "{silent} {are} not answer and may have newer data than server {server}{unmounted}{}",
                started(&silent)
            ),
            (true, Some(_)) if !self.may_begin(is_late) && self.may_begin(true) => {
                format!("after initLimit the servers with data wait no longer{unmounted}")
            }
            (true, Some(server)) if !self.may_begin(is_late) => format!(
                "there may be newer data than that of server {server}{unmounted}{}",
                self.ends_with_all()
            ),
            (true, None) if !self.may_begin(is_late) => format!(
                "all voters are empty, and db.autocreate=false: check that their disks are mounted. {}",
                match self.data().next() {
                    None => format!(
                        "If there is to be no data, run {marked} on a majority of the servers, each with its own dataDir: that gives \
                         up all that there was"
                    ),
                    Some((server, _)) => format!(
                        "To begin on the data of server {server}, which does not vote, give it a vote in the lists"
                    ),
                }
            ),
            (true, _) => format!("all voters have answered, but {}", self.founder()),
        }
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

    /// Whether the data of this server, which belongs to no ensemble, is refused: all have answered, and one that has begun goes on
    /// without it. Where its members are too few for that, or have nothing of it, this data may count yet: they may have to leave it,
    /// as this server did.
    #[must_use]
    pub fn is_out_of_ensemble(&self) -> bool {
        let goes_on = |of: u64| {
            let mut members = self.members().filter(|its| its.1 == of);
            self.has_majority(of) && members.any(|its| !its.2.lacks_base)
        };
        self.is_complete() && self.begun().any(|(ensemble, _)| goes_on(ensemble))
    }

    /// The members of an ensemble, if nothing of what it was founded on has come to any that answers.
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

    /// The servers that do not vote and have newer data than all voters, with which nothing is begun beside it: an observer
    /// has only what was acknowledged, so the voters have lost that. Where no voter has any, those that may have some, too.
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

    /// For an operator, if voters are busy, or observers that are waited for as well.
    fn holds_up(&self) -> Option<String> {
        let is_none_there = self.members().next().is_none();
        let observers = self.have_more().filter(|_| is_none_there);
        let observers = observers.filter_map(|(server, busy)| Some((server, busy?)));
        holds_up(self.busy().chain(observers), self.silent())
    }

    /// To which ensemble it may belong, if the founder of that asks.
    ///
    /// Nobody may belong to two ensembles: what one has acknowledged would be shut out by the other. A directory with data of
    /// before was no member's, or of one that had acknowledged nothing: what it acknowledged is newer than what another was
    /// founded on. An empty one may have been a member's until it was emptied, and only the others can show it. If every voter
    /// answers, and none belongs to another ensemble that may have begun, then nobody is left who acknowledged anything in
    /// another; what was taken out of one is not needed there. If one is silent, it may be the last who has: the founder that
    /// asks may be one that the others went on without. What they become after they have answered is no reason: this server
    /// belongs to nothing meanwhile. One that left an ensemble has what it acknowledged there: it belongs to no ensemble that was
    /// founded on less. The marker is an operator's word that whoever is silent is not to be waited for.
    #[must_use]
    pub fn accepts(&self) -> Option<Acceptance> {
        let (founder, ensemble, of) = self.asker()?;
        let was_none = !self.holding.base.is_empty() || self.holding.begins == Begins::Marked;
        // What those have who left the line of the founder before takes a seat: a majority founded without it.
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

    /// Who asks it to belong to its ensemble, or is about to, and to which. Nobody, where that was left or another one may have
    /// begun.
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

    /// Whether what this server holds may go aside for a seat: it is nothing, or what was there before the ensemble that is
    /// heard was founded on the data of a majority, or nothing that the others have not.
    #[must_use]
    pub fn may_go_aside(&self) -> bool {
        let is_of_before = |left: Left| {
            let mut present = self.members().filter(|(_, _, of)| self.may_go_on(of));
            present.all(|(_, _, of)| of.is_later_than(&left.of))
        };
        let left = self.holding.left;
        self.holding.base.is_empty()
            || left.is_some_and(|left| is_of_before(left) || self.has_nothing_more(left))
    }

    /// Whether a majority goes on with the ensemble that this server left, and has all that it holds: an ensemble of ZooKeeper's,
    /// which raises the epoch, brought it what the others had before, or a snapshot of that, named for the beginning of that epoch.
    /// What ZooKeeper itself wrote is of that epoch: others may have come to the same zxids that were restored from before it.
    fn has_nothing_more(&self, left: Left) -> bool {
        let Base { zxid, accepted, .. } = self.holding.base;
        let was_with_others = u64::try_from(accepted).is_ok_and(|accepted| accepted > left.of.term);
        let is_of_before = zxid >> 32 < accepted;
        let is_there = |of: OfLine| (is_of_before && zxid <= of.last) || zxid & 0xffff_ffff == 0;
        let fellows = || self.members().filter(|(_, ensemble, _)| *ensemble == left.ensemble);
        was_with_others
            && self.is_majority_of(left, voting(fellows()))
            && self.present().all(|(_, ensemble)| ensemble == left.ensemble)
            && fellows().any(|its| is_there(its.2))
    }

    fn is_majority_of(&self, left: Left, servers: Servers) -> bool {
        let voters: Servers = self.voters.iter().copied().collect();
        voters.are_mostly(servers) && left.of.is_majority(servers)
    }

    /// Whether ZooKeeper went on with what this server holds, and not enough of the others are heard to tell whether it did with
    /// that of a majority.
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

    /// The generation after all that were left, and its line; `None` where none was. Nobody founds where they are of two lines.
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

    /// For an operator, if not all that were left are of one line.
    fn is_of_other_lines(&self) -> Option<String> {
        let of = |(server, its): (u8, Holding)| its.left.map(|left| (server, left.of.line));
        let mut all = self.data().filter_map(of);
        let (one, first) = all.next()?;
        let (other, second) = all.find(|(_, line)| *line != first)?;
        Some(format!(
            "servers {one} and {other} were members of two ensembles, {first:016x} and {second:016x}, before ZooKeeper went on with \
             their data: check that their lists name the right servers and that the disks are the right ones"
        ))
    }

    /// For an operator, if a record of an ensemble that was left is of a later epoch than all that ZooKeeper wrote.
    fn is_older_than_left(&self) -> Option<String> {
        self.next_generation()?;
        let newest = self.data().map(|its| its.1.base.epoch).max().unwrap_or(0);
        let left = self.data().filter_map(|(server, its)| its.left.map(|left| (server, left.of)));
        let members = self.members().map(|(server, _, of)| (server, of));
        let (server, of) = left.chain(members).find(|(_, of)| of.last >> 32 > newest)?;
        Some(format!(
            "server {server} has a transaction of epoch {} in the ensemble that was left, and ZooKeeper went on at most at epoch \
             {newest}: that data is from before it. If the directories were restored from a backup, and what server {server} has is \
             not needed, stop it, {MOVE_ASIDE}, and start it again",
            of.last >> 32
        ))
    }

    /// For an operator, if members of two ensembles were heard. Only who belongs to one that has not begun, beside a majority of
    /// one that has, can be told to give up what it has: without that majority, it may be all that is left of what was
    /// acknowledged before.
    fn is_of_two(&self) -> Option<String> {
        let (one, first) = self.present().next()?;
        let (other, second) = self.present().find(|(_, ensemble)| *ensemble != first)?;
        let has_begun = |of: u64| self.begun().any(|(ensemble, _)| ensemble == of);
        let two = format!(
            "servers {one} and {other} belong to two ensembles, {first:016x} and {second:016x}"
        );
        let (of_none, begun) = match (has_begun(first), has_begun(second)) {
            (true, false) => (other, first),
            (false, true) => (one, second),
            _ => return Some(format!("{two}{NEITHER_IS_KNOWN}")),
        };
        let has_nothing = self.without_base(begun).is_some();
        if self.has_majority(begun) && !has_nothing {
            return Some(format!(
                "{two}, and that of server {of_none} has not begun: start all other servers. If this stays, stop server \
                 {of_none}, {MOVE_ASIDE}, and start the server again"
            ));
        }
        if self.begun().any(|(ensemble, _)| ensemble != begun) {
            return Some(format!("{two}{NEITHER_IS_KNOWN}"));
        }
        if let Some(text) = self.holds_up() {
            return Some(text);
        }
        let (silent, are) = self.silent();
        let lacks = match has_nothing {
            true => "nobody who answers has anything of the other one",
            false => "no majority of the other one answers",
        };
        let two = format!("{two}; that of server {of_none} has not begun, and {lacks}");
        if !silent.is_empty() {
            return Some(format!(
                "{two}: {silent} {are} not answer{}. Move no other data away",
                started(&silent)
            ));
        }
        let all: Vec<u8> = self.present().map(|its| its.0).collect();
        let each = if let [_, _] = all.as_slice() { "both" } else { "each" };
        let unmounted = self.unmounted();
        let all = in_words(&all);
        Some(format!(
            "{two}: start the servers of that with the data that they had{unmounted}. If that is lost for good, stop {all}, run \
             `ferrokeeper data leave` on the dataDir of {each}, and start them again then: the newest data counts"
        ))
    }

    /// Whether those who answer as members of an ensemble are a majority of it, by the newest configuration that one of them
    /// knows. Who has come back with an empty directory counts when it votes.
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
            // What was taken out of an ensemble is not what this one is to be founded on, nor belongs to it.
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

    /// The voters that belong to no ensemble, this one too: whether they have data, who, and what they hold.
    fn heard(&self) -> impl Iterator<Item = (bool, u8, Holding)> {
        let others = self.others.iter().filter_map(|(server, standing)| match standing {
            Standing::Before(holding) => Some((*server, *holding)),
            Standing::Member { .. } | Standing::Removed { .. } | Standing::Busy(_) => None,
        });
        let heard = others.chain([(self.own, self.holding)]);
        let voters = heard.filter(|(server, _)| self.voters.contains(server));
        voters.map(|(server, holding)| (!holding.base.is_empty(), server, holding))
    }

    /// Whether it need not wait for the founder of this ensemble, which asks it: a leader has the word of a majority and can
    /// give it a seat, and the founder may never reach it. There is none before the ensemble has begun. Where it may not
    /// accept because somebody is silent, a seat is all that it can have.
    fn needs_no_founder(&self, ensemble: u64) -> bool {
        let has_begun = self.begun().any(|(begun, _)| begun == ensemble);
        self.may_go_aside() && (has_begun || self.accepts().is_none())
    }

    /// Who of the voters has not answered, in words, with their verb.
    fn silent(&self) -> (String, &'static str) {
        silent(self.own, self.voters, self.others)
    }

    /// The voters that were taken out of an ensemble.
    fn removed(&self) -> Vec<u8> {
        let is_removed =
            |server: &u8| matches!(self.others.get(server), Some(Standing::Removed { .. }));
        self.voters.iter().copied().filter(is_removed).collect()
    }

    /// The same, in words.
    fn taken_out(&self) -> String {
        let removed = self.removed();
        let were = if let [_] = removed.as_slice() { "was" } else { "were" };
        format!("{} {were} taken out of an ensemble", in_words(&removed))
    }

    /// The voters that are blank.
    fn blank(&self) -> Vec<u8> {
        let mut blank: Vec<u8> =
            self.heard().filter(|its| its.2.is_blank()).map(|its| its.1).collect();
        blank.sort_unstable();
        blank
    }

    /// The voters that are empty and not blank: by that, nobody knows whether a disk is missing there.
    fn empty(&self) -> Vec<u8> {
        let is_empty = |its: &(bool, u8, Holding)| !its.0 && !its.2.is_blank();
        let mut empty: Vec<u8> = self.heard().filter(is_empty).map(|its| its.1).collect();
        empty.sort_unstable();
        empty
    }

    /// A sentence to end with about those that are blank.
    fn unmounted(&self) -> String {
        unmounted(&self.blank())
    }

    /// What has the other voters that are blank say that they hold nothing, where somebody has data: no marker, for when that server is
    /// silent for a moment, a majority with the marker begins without it.
    fn ends_with_all(&self) -> String {
        let blank = self.blank();
        let (each, them) = match blank.as_slice() {
            [] => return String::new(),
            [_] => ("its configuration", "it"),
            _ => ("the configuration of each", "them"),
        };
        format!(
            ". If nothing was ever there, set db.autocreate=true in {each} ({}), and start {them} again: all voters are waited for then",
            in_words(&blank)
        )
    }

    /// Whether all empty voters that are heard can have the marker and are no majority.
    fn may_be_marked(&self) -> bool {
        self.heard().filter(|its| !its.0).count() <= self.voters.len() / 2
    }

    /// Which voters have not said what they hold, and why.
    fn missing(&self) -> String {
        let blank = blank(self.voters, self.others);
        let blank = (!blank.is_empty())
            .then(|| format!("what {} had may not be mounted", in_words(&blank)));
        let (silent, are) = self.silent();
        let silent = (!silent.is_empty()).then(|| format!("{silent} {are} not answer"));
        [silent, blank].into_iter().flatten().collect::<Vec<_>>().join(", and ")
    }

    /// For an operator, if members were founded with a list on which this server does not vote.
    fn is_not_listed(&self) -> Option<String> {
        let lacks_own = |(_, _, of): &(u8, u64, OfLine)| {
            !of.voters.has(self.own) && of.voters != Servers::default()
        };
        let lacking = || self.members().filter(lacks_own);
        let asks = |server: u8| matches!(self.others.get(&server), Some(Standing::Member { asks, .. }) if !asks.is_empty());
        // As a rule its founder still asks somebody.
        let founder = lacking().find(|its| asks(its.0)).or_else(|| lacking().next());
        let (server, ..) = founder.filter(|_| self.voters.contains(&self.own))?;
        Some(format!(
            "server {server} belongs to an ensemble that has not begun, and that was founded with a list on which this server does not \
             vote: correct the list that is wrong, and start all other servers. If it was that one, stop server {server}, run \
             `ferrokeeper data leave` on its dataDir, and start it again, which gives up no data"
        ))
    }

    /// Beside one that belongs to an ensemble that has not begun.
    fn lacks_beginning(&self, server: u8) -> String {
        let is_founder =
            |its: &Standing| matches!(its, Standing::Member { asks, .. } if !asks.is_empty());
        // What it holds may be all that is left of what was acknowledged before.
        let leave = |server: u8| {
            let then = match self.members().any(|its| its.0 == server && its.2.held) {
                true => "what it held before counts again then",
                false => "it held nothing before",
            };
            format!(
                "stop server {server}, run `ferrokeeper data leave` on its dataDir, and start it again: {then}"
            )
        };
        let have_held = self.members().any(|its| its.2.held);
        let empty = if have_held { String::new() } else { answer_empty(&self.empty()) };
        // Who asks nobody may be one that has accepted, or a founder whom all have answered.
        match self.others.iter().find(|(_, its)| is_founder(its)) {
            Some((founder, _)) => format!(
                "server {founder} has founded an ensemble that has not begun, and does not ask this server: it does not list it, \
                 or this one has refused, as its log says. First of all, start all other servers{empty}. If this stays, {}",
                leave(*founder)
            ),
            // What there is to lose or to have is somebody else's.
            None if !have_held => format!(
                "server {server} belongs to an ensemble that has not begun, and held nothing before: start all other servers{empty}. The \
                 log of server {server} says for whom it waits, and what ends that"
            ),
            None => format!(
                "server {server} belongs to an ensemble that has not begun: start all other servers. If this stays, unless its \
                 log says what it waits for and what ends that, {}",
                leave(server)
            ),
        }
    }

    /// Beside one that belongs to an ensemble of which this server gets no seat, or wants none.
    fn lacks_seat(&self, server: u8, of: (u64, OfLine)) -> String {
        // Who says later what it has may be one of them.
        if let Some(text) = self.holds_up() {
            return text;
        }
        let has = match self.may_go_aside() {
            true => "no leader of that gives this server a seat",
            false => "this server holds data that does not belong to that ensemble",
        };
        // It serves clients, or is about to: none of its servers is to leave it.
        let end = match (self.has_majority(of.0), self.may_go_aside()) {
            (true, true) => ". A majority of that answers: if this stays, check that its servers reach each other, and that no other \
                 process runs with the `myid` of this server"
                .to_owned(),
            (true, false) => ". A majority of that answers, and goes on without that data: this server ends after initLimit, and its \
                 log says then what to do"
                .to_owned(),
            (false, _) => {
                let lacking = self.members().filter(|its| its.1 == of.0 && its.2.lacks_vote);
                let lacking = without_vote(lacking.map(|its| its.0).filter(|it| self.voters.contains(it)));
                format!(
                    ": start the other servers of that ensemble{lacking}{}",
                    self.ends_without_others(of)
                )
            }
        };
        format!("server {server} belongs to an ensemble, and {has}{end}")
    }

    /// What ends a wait beside members of an ensemble.
    fn ends_without_others(&self, (ensemble, of): (u64, OfLine)) -> String {
        let own = (self.own, Standing::Before(self.holding));
        ends_without_others((ensemble, of), self.others.iter().chain([(&own.0, &own.1)]))
    }

    fn founder(&self) -> String {
        if let Some(text) = self.is_of_other_list() {
            return text;
        }
        match self.named() {
            Some(server) if server != self.own => {
                format!("server {server}, which is to found the ensemble, has not done it yet: see its log")
            }
            _ => "no majority of them names this server as the founder: check that they all reach each other".to_owned(),
        }
    }

    /// For an operator, if another server is to be the founder that this one's list does not have.
    fn is_of_other_list(&self) -> Option<String> {
        let mut heard = self.heard().filter(|its| its.1 != self.own);
        let is_listed = |server: &u8| self.voters.contains(server);
        heard.find_map(|(_, server, holding)| {
            let named = holding.names.filter(|named| !is_listed(named))?;
            Some(format!(
                "server {server} names server {named} as the founder, which does not vote by the list of this server: correct the list \
                 that is wrong"
            ))
        })
    }
}

/// For how long servers that are silent have been waited for.
///
/// A server that is busy begins that anew, as long as its first process is that was since it said what it is: one that is
/// started again and again and never comes further is waited for only while it is heard.
#[derive(Debug, Default)]
pub struct Patience {
    since: Duration,
    busy: BTreeMap<u8, u64>,
}

impl Patience {
    /// After a round of questions, `now` after the first one, with the numbers of the processes that are busy and the servers
    /// that are not.
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

/// When members of ensembles were heard last. They may be silent for a moment, and their ensembles serve clients.
#[derive(Debug, Default)]
pub struct LastHeard(BTreeMap<u8, (OfLine, Duration)>);

impl LastHeard {
    /// After a round of questions, `now` after the first one. Who says that it is no member is none; who is busy may be one.
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

    /// A member that was heard less than `limit` ago, of an ensemble that may go on by what `round` has heard.
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

/// For an operator, if voters are busy. Behind them, who does not answer.
fn holds_up(
    busy: impl Iterator<Item = (u8, Busy)>,
    (silent, are): (String, &str),
) -> Option<String> {
    let busy = busy.map(|(server, busy)| match busy {
        Busy::Reads => format!("server {server} still reads its data directory"),
        Busy::Joins => format!("server {server} is joining or founding an ensemble"),
    });
    let busy: Vec<String> = busy.collect();
    let silent = match silent.as_str() {
        "" => String::new(),
        _ => format!(". Besides, {silent} {are} not answer: start what is silent"),
    };
    (!busy.is_empty()).then(|| {
        format!(
            "{}, and is waited for, however long that takes: its log says how far it is. If it hangs, stop it{silent}",
            busy.join(", ")
        )
    })
}

/// For an operator, a sentence behind who is silent; nothing if nobody is.
fn started(silent: &str) -> String {
    let whose = match silent {
        "" => return String::new(),
        one if one.starts_with("server ") => "its data directory",
        _ => "the data directory of one",
    };
    format!(
        ". Start {silent}. If {whose} is lost, start it with an empty one, unless its own log says otherwise"
    )
}

/// For an operator, if servers refuse what this one asks of them, each with what it says of that: until that is mended, nobody knows
/// what they hold, and nothing is given up.
#[must_use]
pub fn refused(
    own: u8,
    voters: &[u8],
    others: &BTreeMap<u8, Standing>,
    refusals: &BTreeMap<u8, String>,
) -> Option<String> {
    let counts = |server: &u8| voters.contains(server) || others.contains_key(server);
    let refused: Vec<_> = refusals.iter().filter(|its| counts(its.0)).collect();
    let all: Vec<String> =
        refused.iter().map(|(server, why)| format!("server {server} {why}")).collect();
    let correct = match refused.iter().any(|its| !others.contains_key(its.0)) {
        true => ". Correct that first: what is there may count",
        false => "",
    };
    let is_silent = |server: &u8| {
        *server != own && !others.contains_key(server) && !refusals.contains_key(server)
    };
    let silent: Vec<u8> = voters.iter().copied().filter(is_silent).collect();
    let besides = match silent.as_slice() {
        [] => String::new(),
        [_] => format!(". Besides, {} does not answer: start it", in_words(&silent)),
        _ => format!(". Besides, {} do not answer: start them", in_words(&silent)),
    };
    (!all.is_empty()).then(|| format!("{}{correct}{besides}", all.join("; ")))
}

/// For an operator, where a minority went on as members and another one with ZooKeeper: what to do first.
fn majority_wins(silent: &str) -> String {
    match silent {
        "" => "The data held by a majority wins, and neither version has a majority".to_owned(),
        _ => format!("The data held by a majority wins{}", started(silent)),
    }
}

/// Those of the members that vote.
fn voting(members: impl Iterator<Item = (u8, u64, OfLine)>) -> Servers {
    members.filter(|(_, _, of)| !of.lacks_vote).map(|(server, ..)| server).collect()
}

/// For an operator, behind what answers: members that do not vote.
fn without_vote(servers: impl Iterator<Item = u8>) -> String {
    let servers: Vec<u8> = servers.collect();
    match servers.as_slice() {
        [] => String::new(),
        [_] => format!(
            ". {} does not vote: its directory was emptied, or it has just joined",
            capital(&servers)
        ),
        _ => format!(
            ". {} do not vote: their directories were emptied, or they have just joined",
            capital(&servers)
        ),
    }
}

/// The same at the beginning of a sentence.
fn capital(servers: &[u8]) -> String {
    in_words(servers).replacen('s', "S", 1)
}

/// The term of a record.
fn term_of(zxid: i64) -> u64 {
    u64::try_from(zxid >> 32).unwrap_or(0)
}

/// For an operator, beside members of an ensemble that has no majority: what ends that where all others are lost. `all` are those that
/// answer, and this server. Emptied is only who is silent or has nothing that counts.
fn ends_without_others<'a>(
    (ensemble, of): (u64, OfLine),
    all: impl Iterator<Item = (&'a u8, &'a Standing)>,
) -> String {
    let has_left = |left: &Left| {
        left.of.line == of.line && !of.is_later_than(&left.of) || left.ensemble == ensemble
    };
    // A majority founded without it.
    let is_of_before = |left: &Left| of.is_later_than(&left.of);
    let (mut belonged, mut newest, mut kept) = (Vec::new(), (0, 0, 0), Vec::new());
    let (mut begun, mut counted, mut foreign, mut another) = (false, 0, Vec::new(), None);
    for (server, its) in all {
        match its {
            Standing::Member { ensemble: its, has_begun, of, .. } if *its == ensemble => {
                begun |= has_begun;
                belonged.push(*server);
                newest = newest.max((of.last >> 32, of.last, *server));
            }
            Standing::Before(Holding { left: Some(left), base, .. }) if has_left(left) => {
                belonged.push(*server);
                newest = newest.max((base.epoch, base.zxid, *server));
            }
            Standing::Before(Holding { left: Some(left), .. }) if is_of_before(left) => {}
            Standing::Before(its) if its.base.is_empty() => {}
            Standing::Before(its) if its.left.is_none() && its.detached == Some(ensemble) => {
                counted += 1;
                kept.push(*server);
            }
            Standing::Before(its) => foreign.push((*server, its.base)),
            Standing::Member { ensemble: its, of: other, .. } if !of.is_later_than(other) => {
                another = another.or(Some((*server, *its)));
            }
            Standing::Member { .. } | Standing::Removed { .. } | Standing::Busy(_) => {
                kept.push(*server);
            }
        }
    }
    if let Some((server, another)) = another {
        return format!(
            ". Server {server} belongs to another ensemble, {another:016x}{NEITHER_IS_KNOWN}"
        );
    }
    if begun && let Some((server, Base { epoch, zxid, .. })) = foreign.first() {
        let (epoch_there, zxid_there, member) = newest;
        return format!(
            ". Server {server} holds data up to zxid {zxid:#x} of epoch {epoch} that does not belong to that ensemble, and server {member} \
             holds the ensemble's data up to zxid {zxid_there:#x} of epoch {epoch_there}. If the ensemble has what is needed, stop server \
             {server}, {MOVE_ASIDE}, and start the server again; otherwise find out first which data is right"
        );
    }
    // What was founded on less acknowledged nothing: then all data counts.
    counted += foreign.len();
    kept.extend(foreign.iter().map(|its| its.0));
    belonged.sort_unstable();
    kept.sort_unstable();
    let but = match kept.as_slice() {
        [] => String::new(),
        kept => format!(" but {}", in_words(kept)),
    };
    let newest = match belonged.len() + counted {
        1 => "what it has",
        _ => "the newest data of these",
    };
    format!(
        ". If the data of all others is lost for good, {}. Start all others{but} with empty directories, and keep what was in \
         their old ones: {newest} counts then",
        leave_together(&belonged)
    )
}

/// For an operator: what these servers are to do.
fn leave_together(servers: &[u8]) -> String {
    let (place, them) = match servers.len() {
        1 => ("its dataDir", "it"),
        2 => ("the dataDir of both", "them"),
        _ => ("the dataDir of each", "them"),
    };
    let words = in_words(servers);
    format!("stop {words}, run `ferrokeeper data leave` on {place}, and start {them} again")
}

/// The members of an ensemble that answer, and `own` with them, if nothing of what it was founded on has come to any. None where
/// one was taken out of it, which shows that more was there, or where ZooKeeper went on with what another has.
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

/// The same for an operator, behind to what they belong: what they held before, if they `held` anything, lies in their directories.
/// If not, `empty` are those who answer that they are empty, of which one may have a disk that is not mounted, and somebody may have
/// data that belongs to none.
fn ends_without_base(
    members: &[u8],
    silent: &str,
    unmounted: &str,
    held: bool,
    (empty, has_data): &(Vec<u8>, bool),
) -> String {
    let (it, has) = if let [_] = members { ("it", "what it") } else { ("them", "what they") };
    if !held {
        let start = match silent {
            "" => String::new(),
            _ => format!(". Start {silent} with the data that was there"),
        };
        let (words, leave) = (in_words(members), leave_together(members));
        let end = match has_data {
            true => format!("{leave}: the newest data of the others counts then"),
            false => format!("to begin with an empty tree, {leave}"),
        };
        return format!(
            "nothing of what that was founded on has come to {words}, and nothing else is there{start}{}{unmounted}. Only if \
             the directories of all other members are lost for good, and no folder before-... beside theirs has what is needed, {end}",
            answer_empty(empty)
        );
    }
    format!(
        "nothing of what that was founded on has come to {}, nor does anybody answer who could give it to {it}{}{unmounted}. If the \
         directories of all other members are lost for good, {}: {has} held before that ensemble counts again then",
        in_words(members),
        started(silent),
        leave_together(members)
    )
}

/// For an operator of the member `own` of an ensemble, to which nothing of what that was founded on has come, if it has not to any
/// other one that answers either, and nobody says later what it has.
#[must_use]
pub fn without_any_base(
    own: u8,
    left: Left,
    voters: &[u8],
    others: &BTreeMap<u8, Standing>,
) -> Option<String> {
    let members = without_base(Some(own), left.ensemble, others)?;
    let is_held_up = busy(voters, others).next().is_some();
    let (silent, _) = silent(own, voters, others);
    let has_held = |its: &Standing| matches!(its, Standing::Member { ensemble, of, .. } if *ensemble == left.ensemble && of.held);
    let held = left.of.held || others.values().any(has_held);
    let has_data =
        others.values().any(|its| matches!(its, Standing::Before(its) if !its.base.is_empty()));
    let (unmounted, empty) = (unmounted(&blank(voters, others)), empty(voters, others));
    let end = ends_without_base(&members, &silent, &unmounted, held, &(empty, has_data));
    (left.of.lacks_base && !is_held_up)
        .then(|| format!("this server belongs to an ensemble, and {end}"))
}

/// Who of the voters has not answered, in words, with their verb.
fn silent(own: u8, voters: &[u8], others: &BTreeMap<u8, Standing>) -> (String, &'static str) {
    let is_silent = |server: &u8| *server != own && !others.contains_key(server);
    let silent: Vec<u8> = voters.iter().copied().filter(is_silent).collect();
    (in_words(&silent), if let [_] = silent.as_slice() { "does" } else { "do" })
}

/// For how long the founder has not been heard whose ensemble a server has accepted.
#[derive(Debug, Default)]
pub struct Absence {
    since: Option<((u64, u64), Duration)>,
}

impl Absence {
    /// After a round of questions, `now` after the first one, for the member `founder` of `ensemble`.
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

/// A sentence to end with about servers that are empty, where one should have data.
fn answer_empty(empty: &[u8]) -> String {
    let words = in_words(empty);
    match empty.len() {
        0 => String::new(),
        1 => {
            format!(". But {words} answers with an empty directory: check that its disk is mounted")
        }
        _ => format!(
            ". But {words} answer with empty directories: check that their disks are mounted"
        ),
    }
}

/// A sentence to end with about servers that are blank.
fn unmounted(blank: &[u8]) -> String {
    let words = in_words(blank);
    match blank.len() {
        0 => String::new(),
        1 => format!(
            ". The directory of {words} is empty, with db.autocreate=false: check that its disk is mounted"
        ),
        _ => format!(
            ". The directories of {words} are empty, with db.autocreate=false: check that their disks are mounted"
        ),
    }
}

/// Servers as an operator calls them; nothing for none.
fn in_words(servers: &[u8]) -> String {
    let servers: Vec<String> = servers.iter().map(u8::to_string).collect();
    match servers.as_slice() {
        [] => String::new(),
        [one] => format!("server {one}"),
        [first @ .., last] => format!("servers {} and {last}", first.join(", ")),
    }
}

/// What a member does at its start with what it has heard, before it takes part in its ensemble again.
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
    /// A majority belongs, and has begun: ZooKeeper may have gone on with theirs, and even with that of whoever is silent.
    Begun,
}

/// What a member has heard of the others in a round of questions.
#[derive(Debug, Clone, Copy)]
pub struct Returning<'a> {
    /// The server.
    pub own: u8,
    /// The ensemble of which its directory is a member's.
    pub left: Left,
    /// As its founder, it still has to ask others. Where it is alone, all have been asked what they are.
    pub asks: Option<Asks>,
    /// The servers of its list that vote.
    pub voters: &'a [u8],
    /// What the others have answered.
    pub others: &'a BTreeMap<u8, Standing>,
}

impl Returning<'_> {
    /// What it does. `is_late` tells that it goes on with any other member, if ZooKeeper cannot have had a majority of those that
    /// are silent and nobody else has data.
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

    /// Whether it may go on with any other member, if these have the marker: nobody else has data, and ZooKeeper cannot have had
    /// a majority of those that have not said what they hold.
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

    /// For an operator: the marker on as many that are blank as are needed, and never on a majority of the voters, which would
    /// begin on nothing as soon as no member answers.
    fn ends_with_marker(&self) -> String {
        let mut marks = blank(self.voters, self.others);
        for server in marks.clone().into_iter().rev() {
            let fewer: Vec<u8> = marks.iter().copied().filter(|its| *its != server).collect();
            if self.may_go_on_with(&fewer) {
                marks = fewer;
            }
        }
        let is_marked = |server: &&u8| matches!(self.others.get(server), Some(Standing::Before(its)) if its.begins == Begins::Marked);
        let marked = self.voters.iter().filter(is_marked).count() + marks.len();
        if marks.is_empty() || !self.may_go_on_with(&marks) || marked > self.voters.len() / 2 {
            return String::new();
        }
        format!(
            ". If nothing was ever there, run `touch initialize` in the dataDir of {marks}, and of no other server: that gives up what \
             {marks} had",
            marks = in_words(&marks)
        )
    }

    /// What ends a wait that nobody else can end.
    fn ends_without_others(&self) -> String {
        let Left { ensemble, of } = self.left;
        // The term of the founding has no other record than its first.
        let has_begun = of.last & 0xffff_ffff > 1 || of.term > term_of(of.last);
        let (id, asks, configured_at) = (0, Vec::new(), 0);
        let member = Standing::Member { id, ensemble, asks, has_begun, configured_at, of };
        ends_without_others((ensemble, of), self.others.iter().chain([(&self.own, &member)]))
    }

    /// For an operator of a member that took part and has no leader, if those who answer are no majority: for whom it waits.
    #[must_use]
    pub fn lost_majority(&self) -> Option<String> {
        let fellows = || {
            let others = self.others.iter().filter_map(|(server, its)| match its {
                Standing::Member { ensemble, of, .. } if *ensemble == self.left.ensemble => {
                    Some((*server, *ensemble, *of))
                }
                _ => None,
            });
            others.chain([(self.own, self.left.ensemble, self.left.of)])
        };
        let lacking = fellows().filter(|its| its.2.lacks_vote).map(|its| its.0);
        let lacking = without_vote(lacking.filter(|it| self.voters.contains(it)));
        let (silent, are) = silent(self.own, self.voters, self.others);
        let busy = holds_up(busy(self.voters, self.others), (silent.clone(), are));
        let start = match silent.as_str() {
            "" => String::new(),
            _ => format!(": start {silent}"),
        };
        (!self.left.of.is_majority(voting(fellows()))).then(|| {
            busy.unwrap_or_else(|| {
                format!(
                    "no majority of its ensemble answers{start}{lacking}{}{}{}",
                    answer_empty(&empty(self.voters, self.others)),
                    unmounted(&blank(self.voters, self.others)),
                    self.ends_without_others()
                )
            })
        })
    }

    /// For an operator: for whom it waits, and why.
    #[must_use]
    pub fn waits_for(&self) -> String {
        let (silent, are) = silent(self.own, self.voters, self.others);
        if let Some(text) = holds_up(busy(self.voters, self.others), (silent.clone(), are)) {
            return text;
        }
        let has_left = |(server, its): (&u8, &Standing)| match its {
            Standing::Before(its) if its.left.is_some() => Some(*server),
            _ => None,
        };
        if let Some(text) = without_any_base(self.own, self.left, self.voters, self.others) {
            return text;
        }
        let left = self.others.iter().find_map(has_left);
        let (start, end) = match (silent.as_str(), left) {
            (_, Some(_)) => (majority_wins(&silent), self.ends_without_others()),
            ("", None) => (String::new(), self.ends_without_others()),
            _ => (format!(": start {silent}"), self.ends_without_others()),
        };
        let end = unmounted(&blank(self.voters, self.others)) + &end + &self.ends_with_marker();
        match left {
            Some(server) => format!(
                "ZooKeeper has gone on with the data of server {server}, and not with that of this server. {start}{end}"
            ),
            None => format!("no majority of its ensemble answers{start}{end}"),
        }
    }
}

#[cfg(test)]
#[path = "standing_test.rs"]
mod standing_test;

#[cfg(test)]
#[path = "without_vote_test.rs"]
mod without_vote_test;
