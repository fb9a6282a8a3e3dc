//! A server: its disk, its clock, the member while it runs, and what waits for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::checks::Chain;
use super::connection::{Connection, Seen};
use super::network::Content;
use super::post::Post;
use super::sessions::Ears;
use super::timeline::MS;
use crate::engine::database::Database;
use crate::engine::time::{Monotonic, Now, WallClock};
use crate::engine::watch::ConnectionId;
use crate::ensemble::callers::Callers;
use crate::ensemble::from_peer::FromPeer;
use crate::ensemble::queue::Submission;
use crate::ensemble::raft::{DiskWriter, Member, Write, Written};
use crate::ensemble::ways::Way;
use crate::ensemble::{Life, Promised};
use crate::storage::RecoveryOptions;
use crate::storage::sim::SimDisk;

/// A clock that goes at its own pace and can be set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    /// What it showed, in microseconds, and when.
    shown: u64,
    at: u64,
    /// Hundredths of the true pace.
    pace: u64,
    /// Milliseconds by which the wall clock differs.
    pub(super) wall_off: i64,
}

impl Clock {
    pub(super) const fn new(shown: u64) -> Self {
        Self { shown, at: 0, pace: 100, wall_off: 0 }
    }

    const fn micros(&self, now: u64) -> u64 {
        self.shown + (now - self.at) * self.pace / 100
    }

    pub(super) const fn read(&self, now: u64) -> Now {
        let since_1970 = 1_700_000_000_000 + (now / MS).cast_signed() + self.wall_off;
        Now { monotonic: Monotonic(self.micros(now) / MS), wall: WallClock(since_1970) }
    }

    pub(super) const fn jump(&mut self, now: u64, by: u64) {
        (self.shown, self.at) = (self.micros(now) + by, now);
    }

    pub(super) const fn set_pace(&mut self, now: u64, pace: u64) {
        (self.shown, self.at, self.pace) = (self.micros(now), now, pace);
    }

    /// When it will show this.
    pub(super) const fn when(&self, shown: Monotonic, now: u64) -> u64 {
        let left = (shown.0 * MS).saturating_sub(self.micros(now));
        now + (left * 100).div_ceil(self.pace)
    }
}

/// What waits for a member's thread.
#[derive(Debug)]
pub(super) enum Waiting {
    Said(u64, Content),
    From(FromPeer),
    Written(Box<Written>),
}

/// What a member's thread knows beside the member.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) life: Life,
    /// When it led, or followed, last.
    pub(super) led: Monotonic,
}

pub(super) struct Server {
    /// As which member it takes part; 0 for none.
    pub(super) id: u64,
    /// The member that its directory is of; 0 for none.
    pub(super) owner: u64,
    /// The servers that its configuration lists, and those that its process has read there.
    pub(super) list: BTreeSet<u8>,
    pub(super) listed: BTreeSet<u8>,
    pub(super) disk: SimDisk,
    pub(super) options: RecoveryOptions,
    pub(super) clock: Clock,
    pub(super) member: Option<Member<Post>>,
    /// Counts its starts: what was meant for an earlier life comes to nothing.
    pub(super) life: u64,
    /// The processes that it hears, and those that it speaks to, by their places; and whom it is
    /// about to call.
    pub(super) hears: BTreeMap<usize, Line>,
    pub(super) speaks: BTreeMap<usize, Line>,
    pub(super) dials: BTreeSet<usize>,
    /// What its process knows of the processes of each other server.
    pub(super) callers: BTreeMap<usize, Callers>,
    /// What its disk had when its process began.
    pub(super) claimed: Promised,
    pub(super) waiting: Vec<Waiting>,
    pub(super) submissions: Vec<Submission>,
    pub(super) thread: Thread,
    /// When its thread has its next turn.
    pub(super) wakes: u64,
    pub(super) frozen_until: u64,
    /// It is to be frozen for so long within the next read, between the hold's begin and the
    /// answer.
    pub(super) stops_in_read: u64,
    /// What writes for the member, and what it is to write.
    pub(super) writer: Option<DiskWriter>,
    pub(super) writes: VecDeque<Write>,
    /// It is at it.
    pub(super) is_writing: bool,
    /// The disk does nothing before this time.
    pub(super) stalled_until: u64,
    pub(super) seen: Arc<Seen>,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    /// A snapshot on its way here.
    pub(super) receiving: Option<u64>,
    /// It can take no snapshot for another.
    pub(super) gives_none: bool,
    /// It was started after this entry, and is not there yet.
    pub(super) recovering: Option<u64>,
    /// It makes itself a member if its directory is no member's.
    pub(super) is_founder: bool,
    /// When it asks for a seat next, as a process whose directory is no member's, and when it asked
    /// last.
    pub(super) asks: Option<u64>,
    pub(super) asked: u64,
    /// Which member its directory is of, if that was taken out.
    pub(super) was: Option<u64>,
    /// Seats that were asked for here.
    pub(super) seats: Vec<(u64, Asking)>,
    pub(super) ears: Ears,
    /// A tree that was to be in place long ago, and when it will be.
    pub(super) late: Option<(Database, u64)>,
    /// Its log when it was last seen, and what its disk has of that and of its promise.
    pub(super) known: Chain,
    pub(super) chain: Chain,
    pub(super) promise: (u64, u64),
    /// What made the members that its disk has promised.
    pub(super) promised_at: u64,
    /// The entry that made the members that this life knows, and the voters of those when it was
    /// last looked at.
    pub(super) configured_at: u64,
    pub(super) voters: Vec<u64>,
}

/// A life of a server, without a state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asking {
    pub(super) at: usize,
    pub(super) life: u64,
    pub(super) when: u64,
}

/// A process at the other end of a way of this number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) number: u64,
    pub(super) id: u64,
    pub(super) life: u64,
}

/// What a server is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    Leader,
    Follower,
    /// It knows no leader.
    Candidate,
    /// A snapshot is on its way to it.
    Receiving,
    /// Started, and after what was final then.
    Recovering,
}

impl State {
    pub(super) const ALL: [Self; 5] =
        [Self::Leader, Self::Follower, Self::Candidate, Self::Receiving, Self::Recovering];
}

impl Server {
    /// Whether there is a process of it, which may have no seat yet.
    pub(super) const fn is_running(&self) -> bool {
        self.member.is_some() || self.asks.is_some()
    }

    pub(super) const fn lines(&mut self, way: Way) -> &mut BTreeMap<usize, Line> {
        match way {
            Way::Hears => &mut self.hears,
            Way::Speaks => &mut self.speaks,
        }
    }

    pub(super) fn new(id: u64, disk: SimDisk, options: RecoveryOptions, clock: Clock) -> Self {
        Self {
            id,
            owner: id,
            list: BTreeSet::new(),
            listed: BTreeSet::new(),
            disk,
            options,
            clock,
            member: None,
            life: 0,
            hears: BTreeMap::new(),
            speaks: BTreeMap::new(),
            dials: BTreeSet::new(),
            callers: BTreeMap::new(),
            claimed: Promised::default(),
            waiting: Vec::new(),
            submissions: Vec::new(),
            thread: Thread::new(Monotonic::default(), Vec::new(), Vec::new()),
            wakes: u64::MAX,
            frozen_until: 0,
            stops_in_read: 0,
            writer: None,
            writes: VecDeque::new(),
            is_writing: false,
            stalled_until: 0,
            seen: Arc::default(),
            connections: BTreeMap::new(),
            receiving: None,
            gives_none: false,
            recovering: None,
            is_founder: true,
            asks: None,
            asked: 0,
            was: None,
            seats: Vec::new(),
            ears: Ears::default(),
            late: None,
            known: Chain::new(),
            chain: Chain::new(),
            promise: (0, 0),
            promised_at: 0,
            configured_at: 0,
            voters: Vec::new(),
        }
    }

    /// None while it is down.
    pub(super) fn state(&self) -> Option<State> {
        let member = self.member.as_ref()?;
        Some(if member.requests().is_leading() {
            State::Leader
        } else if self.receiving.is_some() || member.consensus.unsynced.has_snapshot() {
            State::Receiving
        } else if self.recovering.is_some() {
            State::Recovering
        } else if member.requests().is_following() {
            State::Follower
        } else {
            State::Candidate
        })
    }
}
