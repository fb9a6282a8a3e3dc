//! What a member makes of a round of questions at its start, before it takes part again.

use std::collections::BTreeMap;

use super::{Holding, Left, Servers, Standing};

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
    pub(super) fn may_go_on_with(&self, marked: &[u8]) -> bool {
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
