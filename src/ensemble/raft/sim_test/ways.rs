//! How members find and lose each other.

use super::frames;
use super::network::{Content, Parcel};
use super::server::{Line, Server, Waiting};
use super::timeline::MS;
use super::world::{Checked, Event, World};
use crate::ensemble::Promised;
use crate::ensemble::from_peer::FromPeer;
use crate::ensemble::ways::Way;

/// How long it may take an end of a way to find out that it broke.
const LATE_MAX: u64 = 2500 * MS;

/// An end of a way that has broken, in a life of its server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) number: u64,
    pub(super) way: Way,
    pub(super) life: u64,
}

/// The same of one that is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    from: usize,
    to: usize,
    way: Way,
    line: Line,
    life: u64,
}

impl World {
    pub(super) fn send(&mut self, from: usize, to: usize, content: Content) {
        if !self.are_peers(from, to) {
            return;
        }
        let now = self.timeline.now();
        let frame = frames::put(&content, self.flaw);
        match self.network.send(&mut self.dice, now, (from, to), (content, frame)) {
            Some(arrivals) => {
                for (when, parcel) in arrivals {
                    self.timeline.at(when, Event::Arrive(parcel));
                }
            }
            None => self.part(from, to),
        }
    }

    pub(super) fn arrive(&mut self, parcel: Parcel) -> Checked {
        let Some(parcel) = self.network.arrive(parcel) else { return Ok(()) };
        let Parcel { from, to, number, content, frame } = parcel;
        let is_for_another =
            matches!(&content, Content::Message(message) if message.to != self.servers[to].id);
        if self.servers[to].member.is_some() && !is_for_another && self.are_peers(from, to) {
            let promised = match &content {
                Content::Message(message) => Promised::of(message),
                _ => None,
            };
            // A message may come late, from a process of before, but never to another disk.
            if !self.spoke(from, to, number, promised) && self.copies.are_back(from, to) {
                return Ok(());
            }
            let now = self.servers[to].clock.read(self.timeline.now()).monotonic;
            let content = frames::read(&frame, content, now)?;
            let from = self.servers[from].id;
            self.servers[to].waiting.push(Waiting::Said(from, content));
            let soon = self.timeline.now() + self.dice.below(300);
            self.wake(to, soon);
        }
        Ok(())
    }

    /// The way of one member's words to another breaks, and each that lives gets to know: mostly at
    /// once, where the connection was reset, and else when nothing moves on it.
    pub(super) fn part(&mut self, from: usize, to: usize) {
        let Some(number) = self.network.break_way(from, to) else { return };
        self.outcome.broken += 1;
        for (end, way) in [(from, Way::Speaks), (to, Way::Hears)] {
            let is_late = self.dice.below(10) == 0;
            let delay = self.dice.below(if is_late { LATE_MAX } else { 30 * MS });
            let lost = Lost { from, to, number, way, life: self.servers[end].life };
            self.timeline.after(delay, Event::Lost(lost));
        }
    }

    /// One end of a way gets to know that it broke, if it does not know yet.
    pub(super) fn lose(&mut self, Lost { from, to, number, way, life }: Lost) {
        let (at, peer) = match way {
            Way::Speaks => (from, to),
            Way::Hears => (to, from),
        };
        if self.servers[at].life != life {
            return;
        }
        let its = self.servers[at].lines(way).get(&peer);
        if its.is_some_and(|line| line.number == number) {
            self.end_line(at, peer, way);
        }
        if way == Way::Speaks {
            let delay = 40 * MS + self.dice.below(200 * MS);
            self.dial_later(from, to, delay);
        }
    }

    /// A connection is over for this end of it.
    fn end_line(&mut self, at: usize, peer: usize, way: Way) {
        if let Some(line) = self.servers[at].lines(way).remove(&peer) {
            self.tell_way(at, line.id, way, false);
        }
    }

    fn tell_way(&mut self, at: usize, id: u64, way: Way, is_up: bool) {
        if self.servers[at].member.is_some() {
            let told = match way {
                Way::Hears => FromPeer::Hears(id, is_up),
                Way::Speaks => FromPeer::Speaks(id, is_up),
            };
            self.servers[at].waiting.push(Waiting::From(told));
            let soon = self.timeline.now() + self.dice.below(300);
            self.wake(at, soon);
        }
    }

    /// Has a member try to reach another one, if it is not about to.
    pub(super) fn dial_later(&mut self, from: usize, to: usize, delay: u64) {
        if self.servers[from].dials.insert(to) {
            self.timeline.after(delay, Event::Dial(from, to, self.servers[from].life));
        }
    }

    pub(super) fn dial(&mut self, from: usize, to: usize, life: u64) {
        if self.servers[from].life != life {
            return;
        }
        self.servers[from].dials.remove(&to);
        if self.servers[from].member.is_none() || self.network.is_up(from, to) {
            return;
        }
        let now = self.timeline.now();
        let answers = |at: usize| now >= self.servers[at].frozen_until;
        let meet = self.servers[to].member.is_some()
            && self.are_peers(from, to)
            && self.network.passes(from, to)
            && self.network.passes(to, from)
            && answers(from)
            && answers(to);
        if !meet || !self.is_let_in(from, to) {
            self.dial_later(from, to, 100 * MS);
            return;
        }
        let hears = now + MS + self.dice.below(9 * MS);
        let speaks = hears + 100 + self.dice.below(5 * MS);
        let number = self.network.dial(from, to, hears, speaks);
        for (when, way) in [(hears, Way::Hears), (speaks, Way::Speaks)] {
            let (peer, end) = if way == Way::Hears { (from, to) } else { (to, from) };
            let Server { id, life, .. } = self.servers[peer];
            let line = Line { number, id, life };
            let end_life = self.servers[end].life;
            self.timeline.at(when, Event::Line(Found { from, to, way, line, life: end_life }));
        }
    }

    /// One end of a way gets to know that it is there: the one that is called before the one that
    /// calls. Whichever other process of that server it had to do with is no more.
    pub(super) fn find(&mut self, Found { from, to, way, line, life }: Found) {
        let (at, peer, other) = match way {
            Way::Speaks => (from, to, Way::Hears),
            Way::Hears => (to, from, Way::Speaks),
        };
        if self.servers[at].life != life || !self.network.is_same(from, to, line.number) {
            return;
        }
        self.end_line(at, peer, way);
        self.servers[at].lines(way).insert(peer, line);
        self.tell_way(at, line.id, way, true);
        if way == Way::Hears {
            // The first that is said is that it lives.
            self.spoke(from, to, line.number, None);
        }
        let its = self.servers[at].lines(other).get(&peer);
        if its.is_some_and(|its| its.life != line.life) {
            self.end_line(at, peer, other);
            if other == Way::Speaks {
                self.dial_later(at, peer, 100 * MS);
            }
        }
    }
}
