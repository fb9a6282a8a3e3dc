//! Servers that go from the lists of others, one list after the other, and come back into them:
//! whom the ensemble takes out, and whether it has everybody again.
//!
//! A list is read when a process starts, as zoo.cfg is. One server at a time is listed no more, and
//! only while all is well: an ensemble that has lost a disk as well is left with less than it
//! bears.

use std::collections::{BTreeMap, BTreeSet};

use jute::txn::TxnRecord;

use super::super::super::configuration::MemberChange;
use super::server::Server;
use super::storm::Mend;
use super::timeline::MS;
use super::world::{Checked, Event, World, place_of};
use super::*;
use crate::storage::Members;

/// Between two lists that are changed, at most.
const BETWEEN_MAX: u64 = 1000 * MS;
/// From the last list that a server goes from to the first that it comes back into. A leader
/// listens for three seconds.
const AWAY_MIN: u64 = 4000 * MS;
const AWAY_MAX: u64 = 9000 * MS;
/// Each second time nothing else goes wrong for so long: few leaders last otherwise.
const LULL: u64 = 5000 * MS;

/// A server that others do not list.
#[derive(Debug)]
struct Unlisted {
    at: usize,
    /// Those whose process has started without it in its list.
    omitted: BTreeSet<usize>,
    /// Changes of lists that are still to come.
    left: usize,
}

/// What follows from lists.
#[derive(Debug, Default)]
pub(super) struct Lists {
    unlisted: Option<Unlisted>,
    /// Members whose removal was proposed because they are listed no more, by its place in the log.
    proposed: BTreeMap<u64, u64>,
    /// Members whose removal is final.
    gone: BTreeSet<u64>,
    /// Servers that were taken out so, until they belong to the ensemble again.
    out: BTreeSet<usize>,
    /// Nothing goes wrong before this time.
    pub(super) lull_until: u64,
    /// Whoever writes a test takes members out.
    pub(super) by_hand: bool,
}

impl World {
    /// A server goes from the lists of some others, or of all, and comes back later.
    pub(super) fn unlist(&mut self, at: usize) {
        self.outcome.unlisted += 1;
        let mut others: Vec<usize> = (0..self.servers.len()).filter(|other| *other != at).collect();
        for place in (1..others.len()).rev() {
            others.swap(place, self.dice.below(place as u64 + 1) as usize);
        }
        if self.dice.below(3) == 0 {
            let some = 1 + self.dice.below(others.len() as u64) as usize;
            others.truncate(some);
        }
        let mut delay = 0;
        let has_lull = self.dice.coin();
        for is_listed in [false, true] {
            for other in &others {
                delay += self.dice.below(BETWEEN_MAX);
                self.timeline.after(delay, Event::Mend(Mend::List(*other, at, is_listed)));
            }
            if has_lull && !is_listed {
                self.lists.lull_until = self.timeline.now() + delay + LULL;
            }
            delay += AWAY_MIN + self.dice.below(AWAY_MAX - AWAY_MIN);
        }
        let left = 2 * others.len();
        self.lists.unlisted = Some(Unlisted { at, omitted: BTreeSet::new(), left });
    }

    /// Changes the list of a server, whose process may be started anew for it at once, or when
    /// something ends it.
    pub(super) fn change_list(&mut self, at: usize, of: usize, is_listed: bool) {
        if let Some(unlisted) = &mut self.lists.unlisted {
            unlisted.left -= 1;
        }
        let server = &mut self.servers[at];
        server.list.remove(&(of as u8 + 1));
        if is_listed {
            server.list.insert(of as u8 + 1);
        }
        let is_new = server.is_running() && server.list != server.listed;
        if is_new && (is_listed || self.dice.below(4) > 0) {
            self.crash(at, false);
        }
    }

    /// Every list is whole again, and read.
    pub(super) fn list_all(&mut self) {
        let all: BTreeSet<u8> = (1..=self.servers.len() as u8).collect();
        if let Some(unlisted) = &mut self.lists.unlisted {
            unlisted.left = 0;
        }
        for at in 0..self.servers.len() {
            let server = &mut self.servers[at];
            server.list.clone_from(&all);
            if server.is_running() && server.listed != all {
                self.crash(at, false);
            }
        }
    }

    /// A process reads its list.
    pub(super) fn read_list(&mut self, at: usize) {
        let server = &mut self.servers[at];
        server.listed.clone_from(&server.list);
        if let Some(unlisted) = &mut self.lists.unlisted
            && !server.listed.contains(&(unlisted.at as u8 + 1))
        {
            unlisted.omitted.insert(at);
        }
    }

    /// Whether two processes are peers of each other.
    pub(super) fn are_peers(&self, one: usize, other: usize) -> bool {
        let lists =
            |one: usize, other: usize| self.servers[one].listed.contains(&(other as u8 + 1));
        lists(one, other) && lists(other, one)
    }

    /// Whether a member does not hear another one, because that was taken out.
    pub(super) fn refuses(&self, at: usize, caller: usize) -> bool {
        let member = self.servers[at].member.as_ref();
        member.is_some_and(|member| member.consensus().known().has_removed(self.servers[caller].id))
    }

    /// A change of the members that a member wants. Lives of a server follow each other; a server
    /// goes where a majority of those that stay does not list it, and they are a quorum without it.
    pub(super) fn proposes(&mut self, at: usize, index: u64, change: MemberChange) -> Checked {
        if self.reconfigs.are_there {
            return self.proposes_by_list(at, change);
        }
        let MemberChange::Remove(id) = change else { return Ok(()) };
        let Some(member) = self.servers[at].member.as_ref().filter(|_| !self.lists.by_hand) else {
            return Ok(());
        };
        let members = &member.consensus.node.store().promises.members;
        let is_other = |its: &u64| *its != id && server_of(*its) == server_of(id);
        if members.voters.iter().chain(&members.learners).any(is_other) {
            return Ok(());
        }
        let stay: Vec<u64> = members.voters.iter().copied().filter(|its| *its != id).collect();
        let unlisted = self.lists.unlisted.as_ref();
        let omitted = unlisted.filter(|its| its.at == place_of(id)).map(|its| &its.omitted);
        let omits = |voter: &&u64| omitted.is_some_and(|its| its.contains(&place_of(**voter)));
        let agree = stay.iter().filter(omits).count();
        if agree <= stay.len() / 2 {
            return Err(format!(
                "member {id:#x} is to go, and of {} that stay only {agree} do not list it",
                stay.len()
            ));
        }
        let is_there = |voter: &&u64| self.servers[place_of(**voter)].owner == **voter;
        let there = stay.iter().filter(is_there).count();
        if there <= stay.len() / 2 {
            return Err(format!("member {id:#x} is to go, and {there} of {stay:x?} are left"));
        }
        self.lists.proposed.insert(index, id);
        Ok(())
    }

    /// What became final may be that a member has gone.
    pub(super) fn see_gone(&mut self, record: &TxnRecord<'_>) {
        let Some(MemberChange::Remove(id)) = MemberChange::of(record) else { return };
        if self.lists.gone.insert(id) && self.lists.proposed.values().any(|its| *its == id) {
            self.outcome.removed += 1;
            self.lists.out.insert(place_of(id));
        }
    }

    /// A process ends because its member was taken out. The next one asks for a seat.
    pub(super) fn end_removed(&mut self, at: usize, error: &EnsembleError) -> Checked {
        let id = self.servers[at].owner;
        if self.lists.by_hand || !self.lists.gone.contains(&id) {
            return Err(format!("member {id:#x}: {error}: {error:?}"));
        }
        self.crash(at, false);
        Ok(())
    }

    /// Whether a server is what its list says, as the disks of a majority know.
    pub(super) fn belongs(&self, at: usize) -> bool {
        let (id, votes) = (self.servers[at].id, self.may_vote(at));
        let knows = |at: &usize| {
            let Some(writer) = &self.servers[*at].writer else { return false };
            let Members { voters, learners, .. } = &writer.promises.get().members;
            if votes { voters } else { learners }.contains(&id)
        };
        let voters: Vec<usize> = (0..self.servers.len()).filter(|at| self.may_vote(*at)).collect();
        id != 0 && voters.iter().copied().filter(knows).count() > voters.len() / 2
    }

    /// Whether an entry that was proposed is final, or stands in no log any more.
    fn is_decided(&self, index: u64) -> bool {
        let is_nowhere = |server: &Server| {
            server
                .member
                .as_ref()
                .is_some_and(|its| its.consensus.node.store().log.last_index() < index)
        };
        index <= self.checks.last() || self.servers.iter().all(is_nowhere)
    }

    /// Whether everybody belongs to the ensemble, and nobody is about to go.
    pub(super) fn is_whole(&self) -> bool {
        self.wiped.is_none()
            && self.lists.unlisted.is_none()
            && self.lists.proposed.keys().all(|index| self.is_decided(*index))
            && (0..self.servers.len()).all(|at| self.belongs(at))
    }

    /// Whether who was listed no more belongs to the ensemble again.
    pub(super) fn see_listed(&mut self) {
        let out = std::mem::take(&mut self.lists.out);
        for at in out {
            if self.belongs(at) {
                self.outcome.returned += 1;
            } else {
                self.lists.out.insert(at);
            }
        }
        let is_over = |unlisted: &Unlisted| {
            let mut servers = self.servers.iter();
            unlisted.left == 0
                && servers.all(|server| server.list == server.listed)
                && self.belongs(unlisted.at)
        };
        if self.lists.unlisted.as_ref().is_some_and(is_over) {
            self.lists.unlisted = None;
        }
    }
}
