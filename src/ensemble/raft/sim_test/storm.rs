//! What goes wrong: when, to whom, and until when.

use super::faults::FaultKind;
use super::network::Weather;
use super::server::State;
use super::timeline::{MS, Timeline};
use super::world::{Checked, Event, World};
use crate::storage::sim::{Dice, Fault};

/// How long clients may get little done.
const PATIENCE: u64 = 25_000 * MS;

/// The end of something.
pub(super) enum Mend {
    Start(usize),
    Links(Vec<(usize, usize)>),
    Weather(usize, Weather),
    Pace(usize),
    /// In the list of a server another one is there or not.
    List(usize, usize, bool),
}

impl World {
    /// Something goes wrong; at this server, or at one that is in a state that was drawn before.
    pub(super) fn fault(&mut self, at: Option<usize>) -> Checked {
        // Where too little got done, less goes wrong.
        let is_late = self.timeline.now() > PATIENCE;
        if self.calm || is_late && at.is_some() {
            return Ok(());
        }
        if at.is_none() {
            let pause = 1 + self.dice.below(if is_late { 4000 * MS } else { 2 * self.fault_every });
            // Now and then there is time for everything to go on.
            let lull = if self.dice.below(8) == 0 { 3000 * MS } else { 0 };
            self.timeline.after(pause + lull, Event::Fault);
        }
        if self.timeline.now() < self.lists.lull_until || self.copies.is_back() {
            return Ok(());
        }
        let state = State::ALL[self.dice.below(State::ALL.len() as u64) as usize];
        let is_up = |at: &usize| self.servers[*at].state().is_some();
        let mut all: Vec<usize> = (0..self.servers.len()).filter(is_up).collect();
        let is_its = |at: &usize| self.servers[*at].state() == Some(state);
        let its: Vec<usize> = all.iter().copied().filter(is_its).collect();
        if !its.is_empty() {
            all = its;
        }
        if all.is_empty() {
            return Ok(());
        }
        let drawn = all[self.dice.below(all.len() as u64) as usize];
        let at = at.filter(|at| self.servers[*at].member.is_some()).unwrap_or(drawn);
        let kind = FaultKind::draw(&mut self.dice);
        self.strike(kind, at)
    }

    /// Much is to go wrong at a server in the moments to come.
    pub(super) fn trouble(dice: &mut Dice, timeline: &mut Timeline<Event>, at: usize) {
        for _ in 0..dice.below(12) {
            timeline.after(dice.below(400 * MS), Event::FaultAt(at));
        }
    }

    fn count(&mut self, kind: FaultKind, at: usize) {
        if let Some(state) = self.servers[at].state() {
            self.outcome.table.count(kind, state);
        }
    }

    pub(super) fn other(&mut self, at: usize) -> usize {
        let members = self.servers.len();
        (at + 1 + self.dice.below(members as u64 - 1) as usize) % members
    }

    fn strike(&mut self, kind: FaultKind, at: usize) -> Checked {
        let now = self.timeline.now();
        let members = self.servers.len();
        match kind {
            FaultKind::Killed | FaultKind::PowerLoss => {
                self.count(kind, at);
                self.outcome.crashes += 1;
                self.crash(at, kind == FaultKind::PowerLoss);
            }
            FaultKind::Wiped | FaultKind::CopyPutBack | FaultKind::ListChanged => {
                self.strike_member(kind, at);
            }
            FaultKind::PowerLossInWrite | FaultKind::Eio | FaultKind::Enospc => {
                self.count(kind, at);
                let fault = match kind {
                    FaultKind::Eio => Fault::Eio,
                    FaultKind::Enospc => Fault::Enospc,
                    _ => Fault::PowerLoss,
                };
                let after = self.dice.below(30);
                self.servers[at].disk.fail_after(after, fault);
            }
            FaultKind::Frozen => {
                self.count(kind, at);
                let long = if self.dice.below(3) == 0 { 5000 } else { 600 };
                let ms = 20 + self.dice.below(long);
                match self.dice.below(4) {
                    0 => self.servers[at].stops_in_read = ms * MS,
                    _ => self.servers[at].frozen_until = now + ms * MS,
                }
            }
            FaultKind::DiskStalled => {
                self.count(kind, at);
                let long = if self.dice.below(3) == 0 { 5000 } else { 600 };
                let ms = 20 + self.dice.below(long);
                self.servers[at].stalled_until = now + ms * MS;
            }
            FaultKind::ClockJump => {
                self.count(kind, at);
                let most = if self.dice.coin() { 400 } else { 20_000 };
                let ms = 10 + self.dice.below(most);
                self.servers[at].clock.jump(now, ms * MS);
                self.servers[at].ears.jumped(ms);
                self.wake(at, now);
            }
            FaultKind::ClockSlow | FaultKind::ClockFast => {
                self.count(kind, at);
                let pace = match kind {
                    FaultKind::ClockSlow => 20 + self.dice.below(70),
                    _ => 110 + self.dice.below(200),
                };
                self.servers[at].clock.set_pace(now, pace);
                self.wake(at, now);
                self.mend_later(Mend::Pace(at));
            }
            FaultKind::WallClockStep => {
                self.count(kind, at);
                let most = 1 << self.dice.below(24);
                self.servers[at].clock.wall_off = self.dice.below(2 * most) as i64 - most as i64;
            }
            FaultKind::CutFromOne => {
                let other = self.other(at);
                self.cut(kind, vec![at, other], vec![(at, other), (other, at)]);
            }
            FaultKind::CutOneWay => {
                let other = self.other(at);
                let link = if self.dice.coin() { (at, other) } else { (other, at) };
                self.cut(kind, vec![at, other], vec![link]);
            }
            FaultKind::CutHalf | FaultKind::Isolated => {
                let others = (0..members).filter(|other| *other != at);
                let (out, back): (Vec<_>, Vec<_>) =
                    others.map(|other| ((at, other), (other, at))).unzip();
                let links = match (kind, self.dice.coin()) {
                    (FaultKind::Isolated, _) => out.into_iter().chain(back).collect(),
                    (_, true) => out,
                    (_, false) => back,
                };
                self.cut(kind, vec![at], links);
            }
            FaultKind::Halves | FaultKind::Bridge => {
                let mut sides: Vec<bool> = (0..members).map(|_| self.dice.coin()).collect();
                // There are two sides, with or without it.
                let (one, other) = ((at + 1) % members, (at + 2) % members);
                sides[other] = !sides[one];
                let is_free = |member: usize| kind == FaultKind::Bridge && member == at;
                let is_cut = |(from, to): &(usize, usize)| {
                    sides[*from] != sides[*to] && !is_free(*from) && !is_free(*to)
                };
                let pairs = (0..members).flat_map(|from| (0..members).map(move |to| (from, to)));
                let links: Vec<(usize, usize)> = pairs.filter(is_cut).collect();
                let concerned = match kind {
                    FaultKind::Bridge => vec![at],
                    _ => (0..members).collect(),
                };
                self.cut(kind, concerned, links);
            }
            FaultKind::ConnectionReset => {
                // Of one direction, or both.
                let other = self.other(at);
                let ways = [(at, other), (other, at)];
                let drawn = self.dice.below(3);
                let mut is_up = false;
                for (_, (from, to)) in (0..).zip(ways).filter(|(way, _)| *way != drawn) {
                    is_up |= self.network.is_up(from, to);
                    self.part(from, to);
                }
                if is_up {
                    self.count(kind, at);
                    self.count(kind, other);
                }
            }
            FaultKind::Loss => self.worsen(kind, at, Weather::Loss),
            FaultKind::Duplication => self.worsen(kind, at, Weather::Duplication),
            FaultKind::Reordering => self.worsen(kind, at, Weather::Reordering),
            FaultKind::SlowLinks => self.worsen(kind, at, Weather::Slow),
            FaultKind::HandOver => {
                let leads = |at: &usize| self.servers[*at].state() == Some(State::Leader);
                let leader = (0..members).filter(|other| *other != at).find(leads);
                if self.may_vote(at)
                    && let Some(leader) = leader
                    && self.servers[at].state() != Some(State::Leader)
                    && now >= self.servers[leader].frozen_until
                {
                    self.count(kind, at);
                    self.outcome.handed_over += 1;
                    let to = self.servers[at].id;
                    self.with(leader, |member| {
                        member.consensus_mut().hand_over(to);
                        Ok(())
                    })?;
                }
            }
            FaultKind::TransferBroken => {
                let mut transfers = self.transfers.iter();
                let its = transfers.find(|(_, its)| its.to == at || its.from == at);
                if let Some(number) = its.map(|(number, _)| *number)
                    && let Some(transfer) = self.transfers.remove(&number)
                {
                    self.count(kind, transfer.from);
                    self.count(kind, transfer.to);
                    self.end_transfer(transfer, false)?;
                }
            }
        }
        Ok(())
    }

    /// A server may not be the member any more that it was; one at a time.
    fn strike_member(&mut self, kind: FaultKind, at: usize) {
        // Where a list changes, much else may go on.
        if !self.is_whole() && !self.reconfigs.are_there {
            return;
        }
        let mut others = (0..self.servers.len()).map(|by| (at + by) % self.servers.len());
        let at = match kind {
            // The moments are few.
            FaultKind::CopyPutBack => others.find(|at| self.has_copy_to_put_back(*at)),
            _ => Some(at),
        };
        let Some(at) = at else { return };
        self.count(kind, at);
        if self.reconfigs.are_there {
            return self.reconfigure();
        }
        match kind {
            FaultKind::Wiped => self.wipe(at),
            FaultKind::CopyPutBack => self.put_copy_back(at),
            _ => self.unlist(at),
        }
    }

    fn worsen(&mut self, kind: FaultKind, at: usize, weather: Weather) {
        self.count(kind, at);
        self.network.weather(at).push(weather);
        self.mend_later(Mend::Weather(at, weather));
    }

    fn cut(&mut self, kind: FaultKind, concerned: Vec<usize>, links: Vec<(usize, usize)>) {
        concerned.into_iter().for_each(|at| self.count(kind, at));
        for (from, to) in &links {
            self.network.cut(*from, *to);
            // No connection goes on whose bytes or their receipts are lost.
            for (from, to) in [(*from, *to), (*to, *from)] {
                let notice = 50 * MS + self.dice.below(2500 * MS);
                self.timeline.after(notice, Event::Notice(from, to));
            }
        }
        self.mend_later(Mend::Links(links));
    }

    fn mend_later(&mut self, mend: Mend) {
        let long = if self.dice.below(3) == 0 { 5000 } else { 1200 };
        let ms = 50 + self.dice.below(long);
        self.timeline.after(ms * MS, Event::Mend(mend));
    }

    pub(super) fn mend(&mut self, mend: Mend) -> Checked {
        let now = self.timeline.now();
        match mend {
            Mend::Start(at) => {
                if !self.servers[at].is_running() {
                    return self.start(at);
                }
            }
            // All of the rest was mended at once when it was over.
            _ if self.calm => {}
            Mend::List(at, of, is_listed) => self.change_list(at, of, is_listed),
            Mend::Links(links) => {
                for (from, to) in links {
                    for parcel in self.network.mend(from, to) {
                        self.arrive(parcel)?;
                    }
                }
            }
            Mend::Weather(at, weather) => {
                let its = self.network.weather(at);
                if let Some(place) = its.iter().position(|one| *one == weather) {
                    its.remove(place);
                }
            }
            Mend::Pace(at) => {
                self.servers[at].clock.set_pace(now, 100);
                self.wake(at, now);
            }
        }
        Ok(())
    }

    /// Nothing goes wrong from here on.
    pub(super) fn end_storm(&mut self) -> Checked {
        self.calm = true;
        let now = self.timeline.now();
        self.list_all();
        for parcel in self.network.clear() {
            self.arrive(parcel)?;
        }
        for at in 0..self.servers.len() {
            let server = &mut self.servers[at];
            server.frozen_until = now;
            server.stalled_until = now;
            server.clock.set_pace(now, 100);
            if !server.disk.is_powerless() {
                server.disk.fail_after(u64::MAX / 2, Fault::PowerLoss);
            }
            if !server.is_running() {
                self.start(at)?;
            }
            self.wake(at, now);
        }
        Ok(())
    }
}
