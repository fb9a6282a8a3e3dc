//! Which process may speak as a server, and directories that were copied and are put back later.
//!
//! A copy lacks what its member has promised since. It is refused by whoever has heard of that: so
//! one is put back only where all others have, and none of them begins anew before it was refused.

use std::collections::BTreeMap;

use super::post::Post;
use super::server::{Line, Waiting};
use super::timeline::MS;
use super::ways::Lost;
use super::world::{Checked, Event, World};
use super::*;
use crate::ensemble::Promised;
use crate::ensemble::callers::{Claim, Ruling};
use crate::ensemble::from_peer::{FromPeer, PeerRefused};
use crate::ensemble::introduction::ProcessId;
use crate::ensemble::ways::Way;
use crate::storage::sim::{Fault, SimDisk};

/// How long a process that speaks already has to show that it lives.
const PROBE_MAX: u64 = 1000 * MS;

/// A directory as it was.
#[derive(Debug)]
struct Copy {
    disk: SimDisk,
    id: u64,
    promised: Promised,
}

/// Copies of directories.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// One of each server, or none.
    of: BTreeMap<usize, Copy>,
    /// The server that has an older directory now, until that is emptied.
    back: Option<usize>,
}

impl Copies {
    /// Whether some server has an older directory.
    pub(super) const fn is_back(&self) -> bool {
        self.back.is_some()
    }

    /// Whether one of two has.
    pub(super) fn are_back(&self, one: usize, other: usize) -> bool {
        self.back.is_some_and(|at| at == one || at == other)
    }
}

/// Whether a directory is of a member that is over.
pub(super) const fn is_over(error: &EnsembleError) -> bool {
    matches!(error, EnsembleError::OlderCopy(_) | EnsembleError::Replaced { .. })
}

/// A life of a server, as the others know it.
const fn process(at: usize, life: u64) -> ProcessId {
    ProcessId((at as u64 + 1) << 32 | life)
}

impl World {
    /// Whether `to` hears what `from` says from here on, which calls it, and `from` speaks to it.
    pub(super) fn is_let_in(&mut self, from: usize, to: usize) -> bool {
        let life = self.servers[from].life;
        let refused = match self.judge(to, from) {
            _ if self.refuses(to, from) => Some(PeerRefused::Removed),
            Ruling::Welcome => None,
            Ruling::Replaced => Some(PeerRefused::Replaced),
            Ruling::Older(_) if self.flaw == Flaw::CopyLetIn => None,
            Ruling::Older(_) => Some(PeerRefused::Older),
            Ruling::Occupied => {
                self.probe(to, from);
                return false;
            }
        };
        if let Some(refused) = refused {
            let delay = MS + self.dice.below(10 * MS);
            let refused = Waiting::From(FromPeer::Refused(refused));
            self.timeline.after(delay, Event::Tell(from, life, refused));
            return false;
        }
        match self.judge(from, to) {
            Ruling::Welcome => true,
            Ruling::Older(_) => self.flaw == Flaw::CopyLetIn,
            Ruling::Replaced => false,
            Ruling::Occupied => {
                self.probe(from, to);
                false
            }
        }
    }

    /// What one server makes of the process of another one.
    fn judge(&self, at: usize, caller: usize) -> Ruling {
        let (server, by) = (&self.servers[caller], &self.servers[at]);
        let claim = Claim {
            process: process(caller, server.life),
            id: server.id,
            promised: server.claimed,
        };
        let heard = by.hears.get(&caller).map(|line| process(caller, line.life));
        by.callers.get(&caller).map_or(Ruling::Welcome, |its| its.judge(claim, heard))
    }

    /// The process that is heard is asked whether it lives. It is gone.
    fn probe(&mut self, at: usize, caller: usize) {
        let life = self.servers[at].life;
        let Some(Line { number, .. }) = self.servers[at].hears.get(&caller).copied() else {
            return;
        };
        let lost = Lost { from: caller, to: at, number, way: Way::Hears, life };
        self.timeline.after(PROBE_MAX, Event::Lost(lost));
    }

    /// The ways end of members that were taken out after they had called.
    pub(super) fn hear_removed_no_more(&mut self, at: usize, member: &Member<Post>) {
        let known = member.consensus().known();
        let hears = self.servers[at].hears.iter();
        let removed = hears.filter(|(_, line)| known.has_removed(line.id)).map(|(from, _)| *from);
        for from in removed.collect::<Vec<_>>() {
            self.part(from, at);
        }
    }

    /// Something has come over the way that has this number, if that is the one that is heard.
    pub(super) fn spoke(
        &mut self,
        from: usize,
        to: usize,
        number: u64,
        promised: Option<Promised>,
    ) -> bool {
        let Some(Line { id, life, .. }) =
            self.servers[to].hears.get(&from).filter(|line| line.number == number).copied()
        else {
            return false;
        };
        // That its log was as long is no promise: a leader may have cut it since.
        let of_now = (self.servers[from].life == life).then_some(self.servers[from].claimed);
        let claimed = of_now.map_or_else(Promised::default, |its| Promised { last: 0, ..its });
        let promised = promised.map_or(claimed, |promised| promised.max(claimed));
        let callers = self.servers[to].callers.entry(from).or_default();
        callers.spoke(process(from, life), id, promised);
        true
    }

    /// Copies the directory of a server whose process has ended, now and then.
    pub(super) fn copy_directory(&mut self, at: usize, promised: Option<Promised>) {
        let Some(promised) = promised.filter(|_| self.copies.back != Some(at)) else { return };
        let is_there =
            self.copies.of.get(&at).is_some_and(|copy| copy.id == self.servers[at].owner);
        if !is_there || self.dice.below(8) == 0 {
            let server = &self.servers[at];
            let copy = Copy { disk: server.disk.fork(), id: server.owner, promised };
            self.copies.of.insert(at, copy);
        }
    }

    /// Whether there is a copy of a server's directory that all others know to be older.
    pub(super) fn has_copy_to_put_back(&self, at: usize) -> bool {
        let Some(Copy { id, promised, .. }) = self.copies.of.get(&at) else { return false };
        let now = self.timeline.now();
        let knows = |by: usize| {
            let server = &self.servers[by];
            let claim = Claim { process: ProcessId(0), id: *id, promised: *promised };
            let verdict = server.callers.get(&at).map(|callers| callers.judge(claim, None));
            server.member.is_some()
                && now >= server.frozen_until
                && matches!(verdict, Some(Ruling::Older(_)))
        };
        *id == self.servers[at].id
            && self.is_whole()
            // A wrong tree may end the process of another one.
            && self.spoils.is_none()
            && !self.copies.is_back()
            && (0..self.servers.len()).filter(|by| *by != at).all(knows)
    }

    /// Ends a server, whose directory is an older one when it starts.
    pub(super) fn put_copy_back(&mut self, at: usize) {
        let Some(Copy { disk, .. }) = self.copies.of.remove(&at) else { return };
        self.outcome.copies += 1;
        self.copies.back = Some(at);
        self.crash(at, false);
        // Faults that were to come would end others.
        for server in self.servers.iter().filter(|server| !server.disk.is_powerless()) {
            server.disk.fail_after(u64::MAX / 2, Fault::PowerLoss);
        }
        let server = &mut self.servers[at];
        server.disk = disk;
        (server.promise, server.promised_at) = ((0, 0), 0);
        server.known.clear();
        let before = (server.owner, std::mem::take(&mut server.chain));
        self.before.push(before);
    }

    /// No process begins on the directory of a member that is over.
    pub(super) fn end_for_good(&mut self, at: usize, error: &EnsembleError) -> Checked {
        match error {
            EnsembleError::OlderCopy(_) => self.empty_copy(at, error),
            _ => self.end_removed(at, error),
        }
    }

    /// A process ends because its directory is an older copy.
    pub(super) fn end_copy(&mut self, at: usize, error: &EnsembleError) -> Checked {
        if self.copies.back != Some(at) {
            return Err(format!("server {}: {error}", at + 1));
        }
        self.crash(at, false);
        Ok(())
    }

    /// No process begins on an older copy: its operator empties that.
    fn empty_copy(&mut self, at: usize, error: &EnsembleError) -> Checked {
        self.end_copy(at, error)?;
        self.copies.back = None;
        self.outcome.refused_copies += 1;
        self.stay_down(at);
        self.wipe(at);
        Ok(())
    }
}

/// All others have heard of a later term.
#[test]
fn an_older_copy_is_refused_and_its_server_comes_back_with_an_empty_directory() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let (at, other) = ((leader + 1) % 3, (leader + 2) % 3);
    for _ in 0..2 {
        world.crash(at, false);
        world.pass(5000);
        let from = world.leader();
        let to = if from == other { at } else { other };
        let to_id = world.servers[to].id;
        world
            .with(from, |member| {
                member.consensus_mut().hand_over(to_id);
                Ok(())
            })
            .expect("holds");
        world.pass(1000);
    }
    let id = world.servers[at].id;
    assert!(world.has_copy_to_put_back(at));
    world.put_copy_back(at);
    world.pass(10_000);
    assert_eq!((world.outcome.copies, world.outcome.refused_copies), (1, 1));
    assert!(world.is_whole() && world.servers[at].id != id, "{:x}", world.servers[at].id);
}
