//! What a server does that comes to an ensemble, from one round of questions to the next.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Declined, Introduction, ProcessId, Welcome};
use crate::ensemble::founding::LastRecord;
use crate::ensemble::raft::{EnsembleError, server_of};
use crate::ensemble::standing::{
    Absence, Asks, Begins, Holding, LastHeard, Left, NextStep, Patience, Refuses, Return,
    Returning, Round, Standing, busy, refused, without_any_base,
};

/// For an operator, after for whom a server waits that has accepted an ensemble.
const BEGUN_WITHOUT_FOUNDER: &str = "The ensemble has begun: if its founder is silent for \
     initLimit, this server asks the leader of the ensemble for a seat as a new member instead; \
     you do not have to do anything";

/// For an operator, where a member is silent that was heard a moment ago.
fn silent_lately(server: u8) -> String {
    format!(
        "server {server} belongs to an ensemble and no longer answers: start it. If it stays \
         silent for initLimit, the servers that answer may found an ensemble without it"
    )
}

/// What the others are, as far as they have answered, and which process of each has.
#[derive(Debug, Default)]
pub struct Heard {
    /// What they are.
    pub standings: BTreeMap<u8, Standing>,
    /// The processes.
    pub processes: BTreeMap<u8, ProcessId>,
    /// Of those that were reached and refused to answer, or to give a seat, for an operator: how,
    /// and what they said.
    pub refusals: BTreeMap<u8, Refuses>,
}

/// What a server is before a round of questions.
#[derive(Debug)]
pub enum Next {
    /// It takes part.
    TakesPart,
    /// This founder of this ensemble has to know, and this is to be told meanwhile.
    Awaits(u64, Left, String),
    /// It takes part in this one, if that goes on; whether it is its founder and still has to ask
    /// others.
    Returns(Left, Option<Asks>),
    /// It comes to an ensemble with this.
    Comes(Holding),
    /// It was this member of this ensemble and comes back to it as another one, and this is to be
    /// told meanwhile.
    ComesBack(u64, Left, String),
    /// It is about to be another.
    Waits,
}

/// How an ensemble is founded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Founds {
    /// After every term and epoch that was heard of.
    pub(super) term: u64,
    /// The line that it continues, and its generation; `None` for one of its own.
    pub(super) succeeds: Option<(u64, u64)>,
}

/// What a server does after a round of questions.
#[derive(Debug, PartialEq, Eq)]
pub enum Deed {
    /// Asks again.
    Waits,
    /// Looks at once what it is: its ensemble goes on.
    GoesOn,
    /// Leaves this ensemble, of which a majority founded a later generation, and looks at once.
    Leaves(Left),
    /// Writes down that its founder knows of it.
    TakesPart,
    /// Founds an ensemble.
    Founds(Founds),
    /// Asks for a seat until one gives it. Its directory may be that of a member that was taken
    /// out.
    AsksForSeat {
        /// Members, each with the ensemble of which it has to give one.
        members: Vec<(u8, u64)>,
        /// Which one, if so.
        was: Option<u64>,
        /// What a leader must have for it to give one.
        ends_with: Option<LastRecord>,
    },
    /// Ends: the ensemble has begun without its data, which goes so far.
    Ends {
        /// The last transaction.
        zxid: i64,
        /// ZooKeeper has made it of what a member had.
        has_left: bool,
    },
}

/// A server that comes to an ensemble, from one round of questions to the next.
#[derive(Debug)]
pub struct Coming {
    server: u8,
    /// The servers of its list that vote.
    pub(super) voters: Vec<u8>,
    /// For how long who is silent is waited for.
    init_limit: Duration,
    /// For an operator: its directory, and the command that has it leave an ensemble.
    data_dir: String,
    data_leave: String,
    patience: Patience,
    absence: Absence,
    last_heard: LastHeard,
    names: Option<u8>,
}

impl Coming {
    /// Of `server`, before the first round. `data_dir` and `data_leave` are for its operator.
    #[must_use]
    pub fn new(
        server: u8,
        voters: Vec<u8>,
        init_limit: Duration,
        (data_dir, data_leave): (String, String),
    ) -> Self {
        Self {
            server,
            voters,
            init_limit,
            data_dir,
            data_leave,
            patience: Patience::default(),
            absence: Absence::default(),
            last_heard: LastHeard::default(),
            names: None,
        }
    }

    /// What it is now. `begins` is how its directory may become a database if that is empty.
    ///
    /// # Errors
    /// Where the disk refused.
    pub fn next(
        &self,
        introduction: &mut Introduction,
        begins: Begins,
    ) -> Result<Next, EnsembleError> {
        if let Introduction::Failed(_) = introduction
            && let Introduction::Failed(error) = std::mem::take(introduction)
        {
            return Err(error);
        }
        Ok(match introduction {
            Introduction::Member(belonging) if belonging.takes_part() => match belonging.returns {
                true => Next::Returns(belonging.left, belonging.still_asks()),
                false => Next::TakesPart,
            },
            Introduction::Member(its) => {
                Next::Awaits(its.awaits, its.left, its.waits_for(&self.data_leave))
            }
            Introduction::Before(_, holding, _) => {
                (holding.begins, holding.names) = (begins, self.names);
                Next::Comes(*holding)
            }
            Introduction::Removed(its) => {
                Next::ComesBack(its.id, its.left, its.comes_back(&self.data_leave))
            }
            Introduction::Reading | Introduction::Changing | Introduction::Failed(_) => Next::Waits,
        })
    }

    /// Whether nobody else has to be heard in this round, `now` after the first one.
    #[must_use]
    pub fn is_enough(&self, next: &Next, heard: &Heard, now: Duration) -> bool {
        let Next::Returns(left, asks) = *next else { return false };
        // Who is asked waits for this one. It asks each of them first what it is.
        if asks == Some(Asks::Alone) {
            return false;
        }
        let is_late = self.is_late(now);
        self.returning(left, asks, &heard.standings).step(is_late) != Return::Wait
    }

    fn returning<'a>(
        &'a self,
        left: Left,
        asks: Option<Asks>,
        others: &'a BTreeMap<u8, Standing>,
    ) -> Returning<'a> {
        Returning { own: self.server, left, asks, voters: &self.voters, others }
    }

    /// For an operator, where the founder that it awaits runs, and has nothing: why it takes no
    /// part yet, and what ends that.
    fn awaits_emptied(&self, founder: u8, left: Left) -> String {
        let held = match left.of.held {
            true => ", which restores what it held before",
            false => " (it held nothing before)",
        };
        format!(
            "server {founder} has founded the ensemble, has not confirmed yet that this server \
             belongs to it, and answers with an empty directory: check that its disk is mounted. \
             Only if what was there is lost for good, stop this server, run `{}`{held}, and start \
             it again",
            self.data_leave
        )
    }

    fn is_late(&self, now: Duration) -> bool {
        self.patience.waited(now) >= self.init_limit
    }

    /// What it does about what the others have answered, `now` after the first round; and for an
    /// operator, what it waits for. `declined` is what it was asked last to belong to, and is not
    /// fit for.
    pub fn heard(
        &mut self,
        introduction: &mut Introduction,
        declined: Option<Declined>,
        next: Next,
        heard: &Heard,
        now: Duration,
    ) -> (Deed, Option<String>) {
        let (deed, text) = self.does(introduction, declined, next, heard, now);
        let Heard { standings, refusals, .. } = heard;
        let refused = refused(self.server, &self.voters, standings, refusals);
        (deed, text.map(|text| refused.unwrap_or(text)))
    }

    /// The same, without regard to who refuses.
    fn does(
        &mut self,
        introduction: &mut Introduction,
        declined: Option<Declined>,
        next: Next,
        heard: &Heard,
        now: Duration,
    ) -> (Deed, Option<String>) {
        let Heard { standings: others, processes, .. } = heard;
        let reading = busy(&self.voters, others);
        let reading = reading.filter_map(|(server, _)| Some((server, processes.get(&server)?.0)));
        let is_busy = |its: &Standing| matches!(its, Standing::Busy(_));
        let said = others.iter().filter(|(_, its)| !is_busy(its));
        self.patience.heard(reading, said.map(|(server, _)| *server), now);
        self.last_heard.heard(others, now);
        let is_left = |left: Left| others.values().any(|its| its.is_of_later(&left.of));
        match next {
            Next::TakesPart | Next::Waits => (Deed::Waits, None),
            Next::Returns(left, asks) => self.returns(introduction, (left, asks), others, now),
            Next::Awaits(_, left, _) | Next::ComesBack(_, left, _) if is_left(left) => {
                (Deed::Leaves(left), None)
            }
            Next::Awaits(founder, left, text) => {
                self.awaits(introduction, (founder, left, text), others, now)
            }
            Next::ComesBack(id, left, text) => {
                let (members, was) = (members_of(left, others), Some(id));
                (Deed::AsksForSeat { members, was, ends_with: None }, Some(text))
            }
            Next::Comes(holding) => self.comes(introduction, declined, holding, heard, now),
        }
    }

    /// As a member that was started again.
    fn returns(
        &self,
        introduction: &mut Introduction,
        (left, asks): (Left, Option<Asks>),
        others: &BTreeMap<u8, Standing>,
        now: Duration,
    ) -> (Deed, Option<String>) {
        let returning = self.returning(left, asks, others);
        match returning.step(self.is_late(now)) {
            Return::Wait => (Deed::Waits, Some(returning.waits_for())),
            Return::TakePart => {
                if let Introduction::Member(belonging) = introduction {
                    belonging.returns = false;
                }
                (Deed::GoesOn, None)
            }
            Return::Leave => (Deed::Leaves(left), None),
        }
    }

    /// As one that has accepted the ensemble of a founder that has to know.
    fn awaits(
        &mut self,
        introduction: &Introduction,
        (founder, left, text): (u64, Left, String),
        others: &BTreeMap<u8, Standing>,
        now: Duration,
    ) -> (Deed, Option<String>) {
        let has_begun = others.values().any(|its| its.has_begun(left.ensemble));
        let absent = self.absence.heard((founder, left.ensemble), others, now);
        let is_late = absent >= self.init_limit;
        let deed = if introduction.is_known(self.server, others) {
            Deed::TakesPart
        } else if has_begun && is_late {
            // Its founder may be lost for good. It has taken no part as who it would be by the
            // founding.
            Deed::AsksForSeat { members: members_of(left, others), was: None, ends_with: None }
        } else {
            Deed::Waits
        };
        let is_empty = |its: &Standing| matches!(its, Standing::Before(its) if its.base.is_empty());
        let is_emptied = others.get(&server_of(founder)).is_some_and(is_empty);
        let text = match without_any_base(self.server, left, &self.voters, others) {
            Some(nothing) if has_begun => nothing,
            // Without a leader nobody gives it a seat.
            None if has_begun => match self.returning(left, None, others).lost_majority() {
                Some(lost) => format!("this server belongs to an ensemble, and {lost}"),
                None => format!("{text}. {BEGUN_WITHOUT_FOUNDER}"),
            },
            _ if is_emptied => self.awaits_emptied(server_of(founder), left),
            _ => text,
        };
        (deed, Some(text))
    }

    /// As one that belongs to no ensemble.
    fn comes(
        &mut self,
        introduction: &mut Introduction,
        declined: Option<Declined>,
        holding: Holding,
        Heard { standings: others, processes, .. }: &Heard,
        now: Duration,
    ) -> (Deed, Option<String>) {
        let is_late = self.is_late(now);
        let ends_with = introduction.ends_with();
        let round = Round { own: self.server, holding, voters: &self.voters, others };
        let may_show = ends_with.is_some() || !round.has_to_show();
        // Nobody founds beside it, and nobody is named to.
        let lately = self.last_heard.lately(&round, self.init_limit, now);
        self.names = round.named().filter(|_| lately.is_none());
        introduction.accepts(round.accepts().and_then(|acceptance| {
            let process = *processes.get(&acceptance.founder)?;
            Some(Welcome { acceptance, process })
        }));
        let step = round.step(is_late);
        let deed = match step {
            NextStep::Found if lately.is_some() => Deed::Waits,
            NextStep::Found => Deed::Founds(Founds {
                term: u64::try_from(round.newest_epoch()).unwrap_or(0) + 1,
                succeeds: round.next_generation(),
            }),
            NextStep::Join if round.may_go_aside() && may_show => {
                let ends_with = ends_with.filter(|_| round.has_to_show());
                let members = round.present().collect();
                Deed::AsksForSeat { members, was: None, ends_with }
            }
            // One that is silent may have founded it, and be about to ask.
            NextStep::Join if is_late && round.is_out_of_ensemble() => {
                let (zxid, has_left) = (holding.base.zxid, holding.left.is_some());
                Deed::Ends { zxid, has_left }
            }
            NextStep::Join | NextStep::Wait => Deed::Waits,
        };
        let declined = declined.filter(|_| step == NextStep::Wait);
        let silent = lately.filter(|server| !others.contains_key(server));
        let silent = silent.filter(|_| round.present().next().is_none());
        let text = declined.and_then(|its| its.tell(&round));
        let text = text.or_else(|| silent.map(silent_lately));
        let has_more = step == NextStep::Join && round.may_go_aside() && !may_show;
        let text = text.or_else(|| has_more.then(|| round.has_more()));
        (deed, Some(text.unwrap_or_else(|| round.waits_for(is_late, &self.data_dir))))
    }
}

/// The members of this ensemble that answer, each with it.
fn members_of(left: Left, others: &BTreeMap<u8, Standing>) -> Vec<(u8, u64)> {
    let is_of_it = |its: &Standing| match its {
        Standing::Member { ensemble, .. } => *ensemble == left.ensemble,
        Standing::Before(_) | Standing::Removed { .. } | Standing::Busy(_) => false,
    };
    let members = others.iter().filter(|(_, its)| is_of_it(its));
    members.map(|(server, _)| (*server, left.ensemble)).collect()
}

#[cfg(test)]
#[path = "coming_test.rs"]
mod coming_test;

#[cfg(test)]
#[path = "without_base_test.rs"]
mod without_base_test;
