//! What goes wrong. No more of it than an ensemble, or those who are to found one, can bear: data
//! that was acknowledged is somewhere, and where it is no directory is lost before another one has
//! it.

use super::server::{Server, Volume, open};
use super::world::{Checked, Event, World};
use super::*;
use crate::engine::session::SessionId;
use crate::storage::sim::Fault;
use crate::storage::was_member;

/// The fault after which a directory is empty.
const EMPTIES: u64 = 11;

impl World {
    pub(super) fn fault(&mut self) -> Checked {
        if self.calm {
            return Ok(());
        }
        let wait = 1 + self.dice.below(2 * self.fault_every);
        self.after(wait, Event::Fault);
        let count = self.servers.len();
        let kind = self.dice.below(12);
        let at = self.whose(kind);
        let long = if self.dice.below(4) == 0 { 4000 } else { 600 };
        let time = 20 + self.dice.below(long);
        match kind {
            0..=2 if self.servers[at].process.is_some() => {
                self.outcome.killed += 1;
                self.end(at, false);
                // Others do without a founder that is away for long.
                let founds = self.servers[at].volume().founds && self.dice.coin();
                self.start_after(at, if founds { 5 * time } else { time });
            }
            3 if self.servers[at].process.is_some() => {
                self.outcome.powerless += 1;
                self.lose_power(at);
            }
            4 | 5 => self.servers[at].disk().fail_after(self.dice.below(40), Fault::PowerLoss),
            6 | 7 => {
                let thaws = self.now + time;
                if let Some(process) = &mut self.servers[at].process {
                    self.outcome.frozen += 1;
                    process.frozen_until = thaws;
                }
            }
            8..=10 => {
                self.outcome.cut += 1;
                let other = (at + 1 + self.dice.below(count as u64 - 1) as usize) % count;
                let all = self.dice.below(4) == 0;
                for peer in (0..count).filter(|peer| *peer != at && (all || *peer == other)) {
                    let ways = match self.dice.below(3) {
                        0 => vec![(at, peer)],
                        1 => vec![(peer, at)],
                        _ => vec![(at, peer), (peer, at)],
                    };
                    for (from, to) in ways {
                        self.cuts[from * count + to] += 1;
                        self.after(time, Event::Mend(from, to));
                    }
                }
                self.dial()?;
            }
            EMPTIES if self.servers[at].mounted == 0 && self.may_lose(at) => {
                self.outcome.emptied += 1;
                self.has_lost = true;
                self.empty(at);
                self.start_after(at, time);
            }
            _ => {}
        }
        Ok(())
    }

    /// To whom a fault happens: to founders more than to others, and directories are lost as long
    /// as a founder may not know of them.
    fn whose(&mut self, kind: u64) -> usize {
        let any = self.dice.below(self.servers.len() as u64) as usize;
        let is_it = |server: &Server| {
            let volume = &server.volumes[server.mounted];
            volume.belongs.is_some() && volume.founds == (kind != EMPTIES)
        };
        let mut its = (0..self.servers.len()).filter(|at| is_it(&self.servers[*at]));
        let one = its.nth(any % 2);
        one.filter(|_| self.dice.coin()).unwrap_or(any)
    }

    /// The directory goes, and what it held.
    pub(super) fn empty(&mut self, at: usize) {
        self.tell_of(at, || "is emptied".to_owned());
        self.end(at, true);
        let number = self.number();
        let server = &mut self.servers[at];
        server.volumes[server.mounted] = Volume::empty(number);
        server.has_kept = false;
        server.has_ended = false;
        server.is_marked = false;
        server.line.clear();
        server.no_seat.clear();
    }

    /// The server's own disk is there from its next process on, and what was written meanwhile is
    /// not. Not where an ensemble counts on that.
    pub(super) fn mount(&mut self, at: usize) {
        let volume = self.servers[at].volume();
        let has_left = open(&volume.disk.fork()).is_ok_and(|its| was_member(&its).unwrap_or(false));
        if volume.belongs.is_some() || has_left {
            if !self.may_lose(at) {
                return;
            }
            self.has_lost = true;
        }
        self.tell_of(at, || "is mounted".to_owned());
        self.servers[at].mounted = 0;
    }

    /// Whether the directory of a server can be lost.
    fn may_lose(&mut self, at: usize) -> bool {
        // One at a time: whoever elects without it is a majority with all others that count.
        if self.has_lost && !self.is_whole() {
            return false;
        }
        let mut others = (0..self.servers.len()).filter(|other| *other != at);
        self.checks.ensemble.is_some() || others.any(|other| self.holds(other))
    }

    /// Whether a directory holds what must not be lost, in its place.
    fn holds(&self, at: usize) -> bool {
        let server = &self.servers[at];
        if let Some(process) = &server.process
            && let Some(running) = &process.running
        {
            let database = running.member.replica().shared();
            let has = |zxid: &i64| database.sessions().contains_key(&SessionId(*zxid));
            // What has come from a founder is in memory before it is on the disk.
            let is_on_disk = RaftStateFile::look(&process.directory)
                .is_ok_and(|state| state.is_some_and(|its| its.commit >= its.base && !its.clears));
            if is_on_disk && self.checks.kept.iter().all(has) {
                return true;
            }
        }
        let Ok(directory) = open(&server.volumes[0].disk.fork()) else { return false };
        // A disk that is not mounted may stay so.
        server.mounted == 0
            && server.has_kept
            && match RaftStateFile::look(&directory) {
                Ok(None) => true,
                // It goes aside when the base of the ensemble has come to its disk.
                Ok(Some(state)) => server.volumes[0].founds || (state.clears && state.base != 0),
                Err(_) => false,
            }
    }
}
