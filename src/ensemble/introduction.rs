//! How a server without a state comes to an ensemble: what it is until then, and answers the
//! others; and, below, what it does by what it heard of them.
//!
//! Nothing here knows sockets, threads or a clock. Whoever drives it asks what [`Coming::next`]
//! wants to be asked, says what was heard, and carries out the [`Deed`] that follows; what is to be
//! written it does with the [`Before`] that it is given.

mod coming;

use std::collections::BTreeMap;

pub use coming::{Coming, Deed, Founds, Heard, Next};

use super::founding::{Founding, FoundingAnswer, LastRecord, Seat, Unfit, may_belong, refusal};
use super::raft::{
    Before, EnsembleError, FIRST_LIFE, KnownMembers, member_id, of_line, server_of,
    take_another_seat, take_seat_instead,
};
use super::standing::{Acceptance, Asks, Base, Busy, Holding, Left, Round, Standing, has_begun};
use crate::storage::{DataDirectory, Members, RaftState, SessionSecret};

/// One run of a server, by a number that it drew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessId(pub u64);

/// What this server is to those that ask.
#[derive(Debug, Default)]
pub enum Introduction {
    /// It is not known yet.
    #[default]
    Reading,
    /// It is about to be another.
    Changing,
    /// It belongs to no ensemble, and says this of itself. To which it may belong if asked, by what
    /// it heard last.
    Before(Box<Before>, Holding, Option<Welcome>),
    /// It belongs to one.
    Member(Belonging),
    /// It belonged to one, and was taken out of it.
    Removed(Belonging),
    /// The disk refused.
    Failed(EnsembleError),
}

/// Who may found the ensemble of a server that belongs to none.
#[derive(Debug, Clone, Copy)]
pub struct Welcome {
    /// To what it may belong.
    pub acceptance: Acceptance,
    /// Which of the founder's processes was reached: another one that asks may be one whose place
    /// it has taken.
    pub process: ProcessId,
}

impl Welcome {
    /// Whether it is for what this process of a server founded.
    fn is_for(self, (server, process): (u8, ProcessId), founding: &Founding) -> bool {
        (self.acceptance.founder, self.process) == (server, process)
            && self.acceptance.is_for(founding.ensemble, founding.base)
            && self.acceptance.configured_at <= founding.configured_at
    }

    /// Whether another voter has more than what it founded.
    fn shows_more(self, (server, process): (u8, ProcessId), founding: &Founding) -> Option<Base> {
        let Acceptance { founder, ensemble, newest, .. } = self.acceptance;
        let is_it = (founder, self.process, ensemble) == (server, process, founding.ensemble);
        (is_it && self.acceptance.shows_more_than(founding.base)).then_some(newest)
    }
}

/// A server that was given a seat.
#[derive(Debug)]
pub enum Applying {
    /// It belonged to no ensemble.
    First(Box<Before>),
    /// It was taken out of this one.
    Again,
    /// It has accepted this one, and has taken no part in it.
    Instead,
}

impl Applying {
    /// Takes the seat.
    ///
    /// # Errors
    /// When the disk refuses. The directory is then a member's or not.
    pub fn take(
        self,
        directory: &DataDirectory,
        seat: Seat,
        secret: Option<&SessionSecret>,
    ) -> Result<(), EnsembleError> {
        match self {
            Self::First(before) => before.take(seat, secret),
            Self::Again => take_another_seat(directory, seat, secret),
            Self::Instead => take_seat_instead(directory, seat, secret),
        }
    }
}

/// What a member can say of itself before it takes part.
#[derive(Debug, Default)]
pub struct Belonging {
    id: u64,
    ensemble: u64,
    /// As its founder, it still has to ask these.
    asks: Vec<u8>,
    /// It takes part when this founder knows of it; 0 for nobody.
    awaits: u64,
    /// Whether the ensemble may have acknowledged anything.
    has_begun: bool,
    /// What else its raft.state says of the ensemble.
    left: Left,
    /// It has not heard yet whether the ensemble goes on.
    returns: bool,
    /// The entry that made the members what they are.
    configured_at: u64,
}

/// What a server was asked to belong to, and is not fit for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declined {
    founder: u8,
    /// The ensemble.
    pub ensemble: u64,
    /// Whether it may have acknowledged anything, as its founder knew when it asked.
    has_begun: bool,
    /// Why.
    pub unfit: Unfit,
}

impl Declined {
    /// For an operator: why this server does not belong to what it is asked to, and what ends that.
    fn tell(self, round: &Round<'_>) -> Option<String> {
        let Self { founder, ensemble, has_begun, unfit } = self;
        // Its founder may have been away when the others began.
        let has_begun = has_begun || round.others.values().any(|its| its.has_begun(ensemble));
        let newest = match unfit {
            Unfit::HasMore { own, .. } => round.named_with(own),
            Unfit::AnotherHasMore { newest, .. } => round.named_with(newest),
            Unfit::NotListed | Unfit::HasAccepted { .. } => None,
        };
        let known = match round.is_complete() {
            true => "",
            false => ", as far as the servers that answer know",
        };
        let is_asked = round.asker().is_some_and(|its| (its.0, its.1) == (founder, ensemble));
        (!has_begun && is_asked).then(|| {
            let newest =
                newest.map(|server| format!(" The newest data is that of server {server}."));
            format!(
                "server {founder} has founded an ensemble that has not begun{known}, and this \
                 server does not join it: {unfit}.{} {}",
                newest.unwrap_or_default(),
                unfit.way_out(founder)
            )
        })
    }
}

impl Belonging {
    /// Whether its founder knows of it.
    #[must_use]
    pub const fn takes_part(&self) -> bool {
        self.awaits == 0
    }

    fn of(state: &RaftState, last: i64) -> Self {
        let RaftState { id, ensemble, ref asks, awaits, configured_at, .. } = *state;
        let (has_begun, left) = (has_begun(state), of_line(state, last));
        let asks = asks.clone();
        Self { id, ensemble, asks, awaits, has_begun, configured_at, left, returns: false }
    }

    /// As its founder, whether it still has to ask others.
    fn still_asks(&self) -> Option<Asks> {
        let asks = if self.has_begun { Asks::Begun } else { Asks::Alone };
        (!self.asks.is_empty()).then_some(asks)
    }

    /// Whether the founder that is awaited has said that it has heard the answer of `server`.
    fn is_known(&self, server: u8, others: &BTreeMap<u8, Standing>) -> bool {
        others.values().any(|its| match its {
            Standing::Member { id, ensemble, asks, .. } => {
                (*id, *ensemble) == (self.awaits, self.ensemble) && !asks.contains(&server)
            }
            Standing::Removed { .. } | Standing::Before(_) | Standing::Busy(_) => false,
        })
    }

    /// For an operator: why a server that was taken out takes no part yet, and what ends that.
    fn comes_back(&self, data_leave: &str) -> String {
        let ensemble = self.ensemble;
        format!(
            "this server was removed from ensemble {ensemble:016x}. It rejoins as a new member \
             once the other servers list it and the leader admits it. Its current data is then \
             moved aside, not deleted. If the directories of all members are lost for good and you \
             want this one to found another ensemble, stop this server, run `{data_leave}`, and \
             start it again"
        )
    }

    /// For an operator: why it takes no part yet, and what ends that.
    fn waits_for(&self, data_leave: &str) -> String {
        let founder = server_of(self.awaits);
        format!(
            "server {founder} has founded the ensemble and has not confirmed yet that this server \
             belongs to it: start server {founder}. If its directory is lost for good and the \
             ensemble has not begun, stop this server, run `{data_leave}`, which restores what it \
             held before, and start it again"
        )
    }
}

/// What a server does that was asked to belong to an ensemble.
#[derive(Debug)]
pub enum Asked {
    /// It says this.
    Answers(FoundingAnswer),
    /// It is not fit for it, and says this.
    Declines(Declined, FoundingAnswer),
    /// It belongs to it in this term, once this has become its directory.
    Belongs(Box<Before>, u64),
}

impl Introduction {
    /// What a raft.state makes of it, where the last record has this zxid.
    fn of(state: &RaftState, last: i64) -> Self {
        let belonging = Belonging::of(state, last);
        match state.is_removed() {
            true => Self::Removed(belonging),
            false => Self::Member(belonging),
        }
    }

    /// Of a server that is a member already when it is started. Its last record has this zxid.
    #[must_use]
    pub fn of_member(state: &RaftState, last: i64) -> Self {
        let mut introduction = Self::of(state, last);
        if let Self::Member(belonging) = &mut introduction {
            belonging.returns = true;
        }
        introduction
    }

    /// Of a server that belongs to no ensemble.
    #[must_use]
    pub fn of_none(before: Before) -> Self {
        let (base, left, detached) = (before.base(), before.left(), before.detached());
        let holding = Holding { base, left, detached, ..Holding::default() };
        Self::Before(Box::new(before), holding, None)
    }

    /// Whether it belongs to an ensemble, taking part in it or not.
    #[must_use]
    pub const fn is_member(&self) -> bool {
        matches!(self, Self::Member(_))
    }

    /// Whom the founder of the ensemble still asks, by its disk.
    pub fn asks(&mut self, servers: Vec<u8>) {
        if let Self::Member(belonging) = self {
            belonging.asks = servers;
        }
    }

    /// This member may have a leader from here on.
    pub const fn has_begun(&mut self) {
        if let Self::Member(belonging) = self {
            belonging.has_begun = true;
        }
    }

    /// Who belongs to the ensemble now, and how far this member is, which takes part in it.
    pub const fn knows(&mut self, known: &KnownMembers) {
        if let Self::Member(belonging) = self {
            belonging.configured_at = known.configured_at();
            belonging.left.of = known.of();
        }
    }

    /// What the ensemble was founded on has come to this member.
    pub const fn has_base(&mut self) {
        if let Self::Member(belonging) = self {
            belonging.left.of.lacks_base = false;
        }
    }

    /// Of a server that founds the ensemble of this number and of these members: with what, and
    /// what it asks the others to belong to.
    pub fn found(
        &mut self,
        ensemble: u64,
        members: Members,
        Founds { term, succeeds }: Founds,
    ) -> Option<(Before, Founding)> {
        let before = self.take_before()?;
        let (line, generation) = succeeds.unwrap_or((ensemble, 1));
        let founding = Founding {
            ensemble,
            line,
            generation,
            term,
            founded_in: term,
            base: before.base(),
            index: before.index(),
            members,
            configured_at: 0,
        };
        Some((before, founding))
    }

    /// Whether it still asks a server to belong to the ensemble of these members, as its founder,
    /// and the server's first life is among them.
    #[must_use]
    pub fn offers_to(&self, server: u8, members: &Members) -> bool {
        let id = member_id(server, FIRST_LIFE);
        let still_asks = match self {
            Self::Member(belonging) => belonging.asks.contains(&server),
            _ => false,
        };
        still_asks && (members.voters.contains(&id) || members.learners.contains(&id))
    }

    /// What takes a seat in this ensemble, if this server still has none.
    pub fn take_applying(&mut self, of: u64) -> Option<Applying> {
        match std::mem::replace(self, Self::Changing) {
            Self::Before(before, ..) => Some(Applying::First(before)),
            Self::Removed(its) if its.ensemble == of => Some(Applying::Again),
            Self::Member(its) if its.ensemble == of && !its.takes_part() => Some(Applying::Instead),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Of a server that left an ensemble, its last record, if that can be read and its ensemble may
    /// have it.
    #[must_use]
    pub const fn ends_with(&self) -> Option<LastRecord> {
        match self {
            Self::Before(before, ..) => before.ends_with(),
            _ => None,
        }
    }

    /// A leader of that ensemble has not that record.
    pub const fn is_lacked(&mut self) {
        if let Self::Before(before, ..) = self {
            before.is_lacked();
        }
    }

    /// The ensemble in which this server takes part, if that has begun.
    #[must_use]
    pub const fn takes_part_in(&self) -> Option<Left> {
        match self {
            Self::Member(its) if its.takes_part() && its.has_begun => Some(its.left),
            _ => None,
        }
    }

    /// The ensemble of a member to which nothing of what that was founded on has come.
    #[must_use]
    pub const fn without_base(&self) -> Option<Left> {
        match self {
            Self::Member(Belonging { left, .. }) if left.of.lacks_base => Some(*left),
            _ => None,
        }
    }

    /// What belongs to no ensemble, for whoever makes something else of it.
    pub fn take_before(&mut self) -> Option<Before> {
        match std::mem::replace(self, Self::Changing) {
            Self::Before(before, ..) => Some(*before),
            other => {
                *self = other;
                None
            }
        }
    }

    /// The directory has become a member's, as this raft.state says, or the disk refused.
    pub fn changed(&mut self, state: Result<Option<RaftState>, EnsembleError>) {
        *self = match state {
            Ok(state) => Self::of(&state.unwrap_or_default(), 0),
            Err(error) => Self::Failed(error),
        };
    }

    /// It has left its ensemble, and its directory is read anew.
    pub fn leaves(&mut self) {
        *self = Self::Reading;
    }

    /// Its directory was read, and belongs to no ensemble.
    pub fn left(&mut self, read: Result<Before, EnsembleError>) {
        *self = match read {
            Ok(before) => Self::of_none(before),
            Err(error) => Self::Failed(error),
        };
    }

    /// To which ensemble this server may belong if asked.
    pub const fn accepts(&mut self, welcome: Option<Welcome>) {
        if let Self::Before(_, _, accepts) = self {
            *accepts = welcome;
        }
    }

    /// Whether the founder of what this server, of this number, has accepted is among those who
    /// answered, and knows of it.
    #[must_use]
    pub fn is_known(&self, server: u8, others: &BTreeMap<u8, Standing>) -> bool {
        matches!(self, Self::Member(belonging) if belonging.is_known(server, others))
    }

    /// What it says of itself.
    #[must_use]
    pub fn standing(&self) -> Option<Standing> {
        match self {
            Self::Before(_, holding, _) => Some(Standing::Before(*holding)),
            Self::Removed(its) => Some(Standing::Removed { ensemble: its.ensemble }),
            Self::Member(its) => Some(Standing::Member {
                id: its.id,
                ensemble: its.ensemble,
                asks: its.asks.clone(),
                has_begun: its.has_begun,
                configured_at: its.configured_at,
                of: its.left.of,
            }),
            Self::Reading => Some(Standing::Busy(Busy::Reads)),
            Self::Changing => Some(Standing::Busy(Busy::Joins)),
            Self::Failed(_) => None,
        }
    }

    /// The server `from` has founded this, and its process asks `server`, which is this one, to
    /// belong to it.
    pub fn asked_to_belong(
        &mut self,
        server: u8,
        (from, process): (u8, ProcessId),
        founding: &Founding,
    ) -> Asked {
        let id = member_id(server, FIRST_LIFE);
        let Founding { members, ensemble, .. } = founding;
        let is_later =
            |left: &Left| founding.line == left.of.line && founding.generation > left.of.generation;
        let is_meant = members.voters.contains(&id) || members.learners.contains(&id);
        let may = match self {
            Self::Before(..) if !is_meant => Err(Unfit::NotListed),
            Self::Before(_, _, Some(welcome))
                if let Some(newest) = welcome.shows_more((from, process), founding) =>
            {
                Err(Unfit::AnotherHasMore { newest, base: founding.base })
            }
            Self::Before(_, _, accepts)
                if !accepts.is_some_and(|its| its.is_for((from, process), founding)) =>
            {
                return Asked::Answers(FoundingAnswer::Elsewhere);
            }
            Self::Before(before, holding, _) => {
                may_belong(holding.base, before.accepted(), founding)
            }
            // Its answer was lost, or has not become durable there.
            Self::Member(belonging) if belonging.ensemble == *ensemble => {
                return Asked::Answers(FoundingAnswer::Founded);
            }
            // Its founder does not know that it was taken out.
            Self::Removed(its) if its.ensemble == *ensemble => {
                return Asked::Answers(FoundingAnswer::Elsewhere);
            }
            // It is about to find out that its ensemble was left.
            Self::Member(its) | Self::Removed(its) if is_later(&its.left) => {
                return Asked::Answers(FoundingAnswer::Elsewhere);
            }
            // It may leave that, and must be asked then.
            Self::Member(its) | Self::Removed(its) => {
                return Asked::Answers(FoundingAnswer::OfAnother(its.ensemble));
            }
            Self::Reading | Self::Changing | Self::Failed(_) => {
                return Asked::Answers(FoundingAnswer::Elsewhere);
            }
        };
        let term = match may {
            Ok(term) => term,
            Err(unfit) => {
                let (ensemble, has_begun) = (*ensemble, founding.has_begun());
                let declined = Declined { founder: from, ensemble, has_begun, unfit };
                return Asked::Declines(declined, refusal(unfit, from, founding));
            }
        };
        let before = self.take_before().map(Box::new);
        before.map_or(Asked::Answers(FoundingAnswer::Elsewhere), |before| {
            Asked::Belongs(before, term)
        })
    }
}

#[cfg(test)]
#[path = "introduction_test.rs"]
mod introduction_test;
