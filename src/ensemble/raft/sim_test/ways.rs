//! How members find and lose each other.

use super::frames;
use super::network::{Content, Parcel};
use super::server::Waiting;
use super::timeline::MS;
use super::world::{Checked, Event, World};

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
        let Parcel { from, to, content, frame, .. } = parcel;
        let is_for_another =
            matches!(&content, Content::Message(message) if message.to != self.servers[to].id);
        if self.servers[to].member.is_some() && !is_for_another && self.are_peers(from, to) {
            let now = self.servers[to].clock.read(self.timeline.now()).monotonic;
            let content = frames::read(&frame, content, now)?;
            let from = self.servers[from].id;
            self.servers[to].waiting.push(Waiting::Said(from, content));
            let soon = self.timeline.now() + self.dice.below(300);
            self.wake(to, soon);
        }
        Ok(())
    }

    /// The way between two members breaks, and each that lives gets to know.
    pub(super) fn part(&mut self, one: usize, other: usize) {
        let Some(found) = self.network.break_way(one, other) else { return };
        self.outcome.broken += 1;
        for (at, peer) in [(one, other), (other, one)] {
            // As a connection is not lost before it was there.
            let when = (self.timeline.now() + self.dice.below(30 * MS)).max(found + 1);
            let lost = Waiting::Lost(self.servers[peer].id);
            self.timeline.at(when, Event::Tell(at, self.servers[at].life, lost));
        }
        let delay = 40 * MS + self.dice.below(200 * MS);
        self.timeline.after(delay, Event::Dial(one, other));
    }

    pub(super) fn dial(&mut self, one: usize, other: usize) {
        let is_up = |at: usize| self.servers[at].member.is_some();
        let founds = [MS + self.dice.below(10 * MS), MS + self.dice.below(10 * MS)];
        let latest = self.timeline.now() + founds[0].max(founds[1]);
        let reaches = |from: usize, to: usize| self.network.passes(from, to);
        let meet = is_up(one)
            && is_up(other)
            && reaches(one, other)
            && reaches(other, one)
            && self.are_peers(one, other);
        let calls = [(one, other), (other, one)];
        let refused = calls.into_iter().filter(|(caller, at)| meet && self.refuses(*at, *caller));
        let refused: Vec<usize> = refused.map(|(caller, _)| caller).collect();
        if !meet || !refused.is_empty() || !self.network.dial(one, other, latest) {
            for at in refused {
                let delay = MS + self.dice.below(10 * MS);
                let life = self.servers[at].life;
                self.timeline.after(delay, Event::Tell(at, life, Waiting::Refused));
            }
            self.timeline.after(100 * MS, Event::Dial(one, other));
            return;
        }
        for ((at, peer), delay) in [(one, other), (other, one)].into_iter().zip(founds) {
            let found = Waiting::Found(self.servers[peer].id);
            self.timeline.after(delay, Event::Tell(at, self.servers[at].life, found));
        }
    }
}
