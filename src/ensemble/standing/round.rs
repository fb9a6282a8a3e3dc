//! What a server that belongs to no ensemble makes of a round of questions.

use std::collections::BTreeMap;

use super::heard::{Majority, busy, majority, voting, without_base};
use super::{Base, Begins, Busy, Holding, Left, OfLine, Servers, Standing};

/// What a server without a state does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
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

    /// The same, if it has data as new as this.
    #[must_use]
    pub fn named_with(&self, data: Base) -> Option<u8> {
        let order = |its: &Holding| (its.base.epoch, its.base.zxid);
        let is_as_new =
            |its: &(bool, u8, Holding)| its.0 && order(&its.2) >= (data.epoch, data.zxid);
        self.named().filter(|named| self.heard().any(|its| its.1 == *named && is_as_new(&its)))
    }

    /// What it does. `is_late` tells that data of a majority waits for no more answers, unless a
    /// voter is busy.
    #[must_use]
    pub fn step(&self, is_late: bool) -> NextStep {
        if let Some((_, ensemble, _)) = self.asker()
            && !(is_late && self.needs_no_founder(ensemble))
        {
            return NextStep::Wait;
        }
        if self.present().next().is_some() {
            return if self.is_waiting_for_others() { NextStep::Wait } else { NextStep::Join };
        }
        let named = self.named();
        let is_chosen = named == Some(self.own) && self.is_named_by_majority();
        if is_chosen && self.may_begin(is_late) { NextStep::Found } else { NextStep::Wait }
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
    /// answered, and one that has begun goes on without it. Where too few of its members answer or
    /// have its data, this data may count yet: they may have to leave it, as this server did.
    #[must_use]
    pub fn is_out_of_ensemble(&self) -> bool {
        let goes_on = |of: u64| self.majority(of) == Majority::WithData;
        self.is_complete() && self.begun().any(|(ensemble, _)| goes_on(ensemble))
    }

    /// The members of an ensemble, if nothing of what it was founded on has come to any that
    /// answers.
    pub(super) fn without_base(&self, ensemble: u64) -> Option<Vec<u8>> {
        without_base(None, ensemble, self.others)
    }

    /// Whether another voter is there and says later what it holds.
    #[must_use]
    pub fn is_held_up(&self) -> bool {
        self.busy().next().is_some()
    }

    /// The other voters that are busy.
    pub(super) fn busy(&self) -> impl Iterator<Item = (u8, Busy)> {
        busy(self.voters, self.others)
    }

    /// The servers that do not vote and have newer data than all voters, with which nothing is
    /// begun beside it: an observer has only what was acknowledged, so the voters have lost that.
    /// Where no voter has any, those that may have some, too.
    pub(super) fn have_more(&self) -> impl Iterator<Item = (u8, Option<Busy>)> {
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
    pub(super) fn begun(&self) -> impl Iterator<Item = (u64, OfLine)> {
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
    pub(super) fn is_waiting_for_others(&self) -> bool {
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
    pub(super) fn data(&self) -> impl Iterator<Item = (u8, Holding)> {
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
    pub(super) fn members(&self) -> impl Iterator<Item = (u8, u64, OfLine)> {
        self.others.iter().filter_map(|(server, its)| match its {
            Standing::Member { ensemble, of, .. } => Some((*server, *ensemble, *of)),
            Standing::Removed { .. } | Standing::Before(_) | Standing::Busy(_) => None,
        })
    }

    /// Whether neither the data of a majority nor a member shows that it was left.
    pub(super) fn may_go_on(&self, of: &OfLine) -> bool {
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
    pub(super) fn is_left_by_few(&self) -> Option<u8> {
        let mut lefts = self.data().filter_map(|(server, its)| its.left.map(|left| (server, left)));
        lefts.find_map(|(server, left)| (!self.is_past(&left.of)).then_some(server))
    }

    /// Whether those who answer as members of an ensemble are a majority of it.
    pub(super) fn majority(&self, of: u64) -> Majority {
        majority(of, self.others)
    }

    /// Whether an ensemble may begin with what was heard.
    pub(super) fn may_begin(&self, is_late: bool) -> bool {
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
    pub(super) fn heard(&self) -> impl Iterator<Item = (bool, u8, Holding)> {
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
    pub(super) fn needs_no_founder(&self, ensemble: u64) -> bool {
        self.may_go_aside() && (self.knows_begun(ensemble) || self.accepts().is_none())
    }

    /// Whether a member of this ensemble says that it has begun.
    pub(super) fn knows_begun(&self, ensemble: u64) -> bool {
        self.begun().any(|(begun, _)| begun == ensemble)
    }

    /// The voters that were taken out of an ensemble.
    pub(super) fn removed(&self) -> Vec<u8> {
        let is_removed =
            |server: &u8| matches!(self.others.get(server), Some(Standing::Removed { .. }));
        self.voters.iter().copied().filter(is_removed).collect()
    }

    /// The voters that are blank.
    pub(super) fn blank(&self) -> Vec<u8> {
        let mut blank: Vec<u8> =
            self.heard().filter(|its| its.2.is_blank()).map(|its| its.1).collect();
        blank.sort_unstable();
        blank
    }

    /// The voters that are empty and not blank: by that, nobody knows whether a disk is missing
    /// there.
    pub(super) fn empty(&self) -> Vec<u8> {
        let is_empty = |its: &(bool, u8, Holding)| !its.0 && !its.2.is_blank();
        let mut empty: Vec<u8> = self.heard().filter(is_empty).map(|its| its.1).collect();
        empty.sort_unstable();
        empty
    }
}
