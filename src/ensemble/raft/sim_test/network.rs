//! What lies between the members: a link in each direction, and a connection of each, the way of
//! its words, over both.
//!
//! A link keeps the order as a socket does, unless the weather of one of its ends is bad: then
//! messages are lost, come twice or overtake each other. What meets a cut link waits behind it, as
//! bytes in a socket would. Words keep their order and follow every message that was sent before
//! them; where one is lost the way breaks, and all words with it. That of the other direction may
//! stay.

use bytes::Bytes;
use raft::eraftpb::Message as PeerMessage;

use super::timeline::MS;
use crate::engine::session::SessionId;
use crate::ensemble::words::PeerWord;
use crate::storage::sim::Dice;

/// What one member sends another.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Message(PeerMessage),
    PeerWord(PeerWord),
    /// The word of whom a member heard, if it says one, and who that has to be.
    Heard(Option<PeerWord>, Vec<SessionId>),
}

/// Something on its way, by the places of the members.
#[derive(Debug, Clone)]
pub(super) struct Parcel {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Of the way when it was sent.
    pub(super) number: u64,
    /// What its sender put into the frame.
    pub(super) content: Content,
    pub(super) frame: Bytes,
}

/// What is wrong with a member's links for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weather {
    Loss,
    Duplication,
    Reordering,
    Slow,
}

#[derive(Debug, Clone, Default)]
struct Link {
    /// Causes for which nothing passes.
    cuts: u32,
    /// When the last of what was sent arrives.
    last: u64,
    held: Vec<Parcel>,
}

#[derive(Debug, Clone, Default)]
struct Way {
    is_up: bool,
    /// Counts how often it broke.
    number: u64,
    /// When its speaker knows that it is there.
    speaks: u64,
}

#[derive(Debug)]
pub(super) struct Network {
    members: usize,
    links: Vec<Link>,
    ways: Vec<Way>,
    weather: Vec<Vec<Weather>>,
}

impl Network {
    pub(super) fn new(members: usize) -> Self {
        Self {
            members,
            links: vec![Link::default(); members * members],
            ways: vec![Way::default(); members * members],
            weather: vec![Vec::new(); members],
        }
    }

    fn link(&mut self, from: usize, to: usize) -> &mut Link {
        &mut self.links[from * self.members + to]
    }

    fn way(&mut self, from: usize, to: usize) -> &mut Way {
        &mut self.ways[from * self.members + to]
    }

    /// Whether anything passes in this direction.
    pub(super) fn passes(&self, from: usize, to: usize) -> bool {
        self.links[from * self.members + to].cuts == 0
    }

    pub(super) fn weather(&mut self, member: usize) -> &mut Vec<Weather> {
        &mut self.weather[member]
    }

    fn has(&self, from: usize, to: usize, weather: Weather) -> bool {
        self.weather[from].contains(&weather) || self.weather[to].contains(&weather)
    }

    /// Sends something. When it arrives, each time that it does; `None` where a word is lost, which
    /// breaks the way.
    pub(super) fn send(
        &mut self,
        dice: &mut Dice,
        now: u64,
        (from, to): (usize, usize),
        (content, frame): (Content, Bytes),
    ) -> Option<Vec<(u64, Parcel)>> {
        let is_message = matches!(content, Content::Message(_));
        let Way { is_up, number, speaks } = *self.way(from, to);
        if !is_message && (!is_up || now < speaks) {
            return Some(Vec::new());
        }
        let parcel = Parcel { from, to, number, content, frame };
        if self.has(from, to, Weather::Loss) && dice.below(if is_message { 5 } else { 30 }) == 0 {
            return is_message.then(Vec::new);
        }
        let mut delay = 100 + dice.below(900);
        if self.has(from, to, Weather::Slow) {
            delay += 20 * MS + dice.below(150 * MS);
        }
        let overtakes = is_message && self.has(from, to, Weather::Reordering);
        if overtakes {
            delay += dice.below(60 * MS);
        }
        let again = is_message && self.has(from, to, Weather::Duplication) && dice.coin();
        let link = self.link(from, to);
        let arrives = if overtakes { now + delay } else { (now + delay).max(link.last + 1) };
        link.last = link.last.max(arrives);
        let mut arrivals = vec![(arrives, parcel.clone())];
        if again {
            arrivals.push((arrives + dice.below(300 * MS), parcel));
        }
        Some(arrivals)
    }

    /// Something has arrived, if it did not have to wait and its way has not broken. A message is
    /// another matter: it may come however late.
    pub(super) fn arrive(&mut self, parcel: Parcel) -> Option<Parcel> {
        let Parcel { from, to, number, .. } = parcel;
        let is_message = matches!(parcel.content, Content::Message(_));
        if !is_message && self.way(from, to).number != number {
            return None;
        }
        let link = self.link(from, to);
        if link.cuts > 0 {
            link.held.push(parcel);
            return None;
        }
        Some(parcel)
    }

    pub(super) fn cut(&mut self, from: usize, to: usize) {
        self.link(from, to).cuts += 1;
    }

    /// Takes one cause away. Where there is no other, what waited arrives, before what is still on
    /// its way.
    pub(super) fn mend(&mut self, from: usize, to: usize) -> Vec<Parcel> {
        let link = self.link(from, to);
        link.cuts -= 1;
        if link.cuts > 0 {
            return Vec::new();
        }
        std::mem::take(&mut link.held)
    }

    pub(super) fn is_up(&mut self, from: usize, to: usize) -> bool {
        self.way(from, to).is_up
    }

    /// Whether a way is there and has not broken since it had this number.
    pub(super) fn is_same(&mut self, from: usize, to: usize, number: u64) -> bool {
        let way = self.way(from, to);
        way.is_up && way.number == number
    }

    /// Ends a way, and all words on it. If there was one, its number.
    pub(super) fn break_way(&mut self, from: usize, to: usize) -> Option<u64> {
        let way = self.way(from, to);
        let number = way.number;
        way.number += 1;
        std::mem::replace(&mut way.is_up, false).then_some(number)
    }

    /// Begins a way, whose words follow what arrives at `hears` and are said from `speaks` on.
    /// Gives its number.
    pub(super) fn dial(&mut self, from: usize, to: usize, hears: u64, speaks: u64) -> u64 {
        let link = self.link(from, to);
        link.last = link.last.max(hears);
        let way = self.way(from, to);
        (way.is_up, way.speaks) = (true, speaks);
        way.number
    }

    /// Lets everything pass, as it was at the beginning.
    pub(super) fn clear(&mut self) -> Vec<Parcel> {
        self.weather.iter_mut().for_each(Vec::clear);
        let mut arrivals = Vec::new();
        let members = self.members;
        for (from, to) in (0..members).flat_map(|from| (0..members).map(move |to| (from, to))) {
            if self.link(from, to).cuts > 0 {
                self.link(from, to).cuts = 1;
                arrivals.extend(self.mend(from, to));
            }
        }
        arrivals
    }
}
