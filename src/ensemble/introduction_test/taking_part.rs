//! A member that takes part: its thread, its disk, and what it and the others tell each other.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jute::txn::Txn;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::asking::decode;
use super::post::Post;
use super::server::{Reply, ensemble};
use super::world::{Checked, Event, Kind, Letter, Way, World};
use super::*;
use crate::engine::database::{Database, Rules};
use crate::engine::decide::request::{Origin, Work};
use crate::engine::decide::tracker::Attached;
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, Now, WallClock};
use crate::engine::watch::{ConnectionId, Event as Watched};
use crate::engine::zxid::Zxid;
use crate::ensemble::founding::Applicant;
use crate::ensemble::from_peer::{FromPeer, PeerRefused};
use crate::ensemble::queue::Submission;
use crate::ensemble::rebuild::Rebuild;
use crate::ensemble::replica::Replica;
use crate::ensemble::{
    self, Clients, DiskWriter, Life, Member, PeerMessage, SnapshotStatus, snapshot_zxid,
};
use crate::storage::{Compression, ReceivedSnapshot};

/// A step of the clock of elections, ten to twenty of which a leader is missed for.
const TICK: u64 = 80;
/// `tickTime`.
const SESSION_TICK: u64 = 480;

/// The clients of a server, each of which opens a session.
#[derive(Debug, Default)]
pub(super) struct Opened(Mutex<Vec<SessionId>>);

impl Clients for Opened {
    fn now(&self) -> Monotonic {
        Monotonic::default()
    }

    fn is_open(&self, _: ConnectionId) -> bool {
        true
    }

    fn events(&self, _: &[Watched]) {}

    fn answer(
        &self,
        _: &Origin,
        _: ensemble::RequestKind<'_>,
        _: Zxid,
        _: Option<&str>,
        _: ensemble::Answer<'_>,
    ) {
    }

    fn refused_by_quota(&self, _: &str) {}

    fn applies(&self, _: &Txn<'_>) {}

    fn attached(&self, _: ConnectionId, attached: &Attached) {
        self.0.lock().push(attached.session);
    }

    fn no_session(&self, _: ConnectionId) {}

    fn ephemerals_end(&self, _: SessionId, _: &[Cow<'_, str>]) {}

    fn end(&self, _: ConnectionId) {}

    fn close(&self, _: ConnectionId) {}

    fn flush(&self) {}
}

#[derive(Debug)]
pub(super) struct Running {
    pub(super) member: Member<Post>,
    pub(super) writer: DiskWriter,
    opened: Arc<Opened>,
    /// What it asks others to belong to, as its founder.
    pub(super) founding: Founding,
    /// The ways that it knows of: to which server, which way, and to which member.
    pub(super) found: BTreeMap<usize, (u64, u64)>,
    life: Life,
    /// Who waits for a seat.
    asking: Vec<(Reply, oneshot::Receiver<FoundingAnswer>)>,
}

impl World {
    const fn clock(&self) -> Now {
        let wall = WallClock(1_700_000_000_000 + self.now.cast_signed());
        Now { monotonic: Monotonic(self.now), wall }
    }

    /// A member begins to take part.
    pub(super) fn join(&mut self, at: usize) -> Checked {
        let (how, count) = (ensemble(self.seed, at), self.servers.len() as u8);
        // The marker counts once.
        self.servers[at].is_marked = false;
        let process = self.servers[at].process.as_mut().expect("it runs");
        let directory = Arc::clone(&process.directory);
        let opened = Arc::new(Opened::default());
        let started = how.start(directory).and_then(|started| {
            let (number, (asks, founding)) = (started.ensemble(), started.founding());
            let replica = Replica::of_member(Database::new(self.seed, Rules::default()), 1000);
            let (replica, post) = (Arc::new(replica), Post::default());
            let clients: Arc<dyn Clients> = Arc::clone(&opened) as _;
            let (member, writer) = Member::new(how, started, replica, clients, post, 500)?;
            Ok((number, asks, founding, member, writer))
        });
        let (ensemble, asks, founding, member, writer) = match started {
            Ok(started) => started,
            Err(error) => return self.failed(at, error),
        };
        let all: Vec<u8> = (1..=count).collect();
        let life = Life::new(Monotonic(self.now), SESSION_TICK, all.clone(), all);
        let (found, asking) = (BTreeMap::new(), Vec::new());
        process.ensemble = ensemble;
        let id = member.consensus().id();
        process.running = Some(Running { member, writer, opened, founding, found, life, asking });
        let number = process.number;
        self.tell_of(at, || format!("takes part as {id:x} of {ensemble:x}, asks {asks:?}"));
        self.look(at)?;
        let volume = self.servers[at].volume().number;
        self.checks.takes_part(ensemble, id, volume)?;
        self.servers[at].has_ended = false;
        for server in asks {
            self.after(5, Event::Offer(at, number, server));
        }
        let wait = self.dice.below(TICK);
        self.after(wait, Event::Tick(at, number));
        Ok(())
    }

    /// Lets a member do something, its disk what follows from that, and looks at it.
    fn with(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Life, &mut Member<Post>, Now) -> Result<(), EnsembleError>,
    ) -> Checked {
        let now = self.clock();
        let Some(process) = &mut self.servers[at].process else { return Ok(()) };
        let Some(running) = &mut process.running else { return Ok(()) };
        let Running { member, writer, life, .. } = running;
        let (mut asks, mut has_base) = (None, false);
        let done = act(life, member, now).and_then(|()| {
            member.turn(now)?;
            loop {
                let writes = member.consensus_mut().take_writes();
                if writes.is_empty() {
                    return Ok(());
                }
                let written = writer.write(writes)?;
                has_base |= member.persisted(written)?;
                if let Some(still) = member.consensus_mut().take_asks() {
                    asks = Some(still);
                }
                member.turn(now)?;
            }
        });
        if let Some(asks) = asks {
            process.introduction.asks(asks);
        }
        if has_base {
            process.introduction.has_base();
        }
        self.post(at);
        match done {
            Ok(()) => self.observe(at),
            Err(error) => self.failed(at, error),
        }
    }

    /// What it has said goes on its way.
    fn post(&mut self, at: usize) {
        let Some(process) = &mut self.servers[at].process else { return };
        let (number, ensemble) = (process.number, process.ensemble);
        let Some(running) = &mut process.running else { return };
        let id = running.member.consensus().id();
        let post = running.member.transport();
        let (sent, snapshots) =
            (std::mem::take(&mut post.sent), std::mem::take(&mut post.snapshots));
        let found = running.found.clone();
        let count = self.servers.len();
        for (to_id, bytes) in sent {
            let to = usize::from(server_of(to_id)).wrapping_sub(1);
            let Some((way, _)) = found.get(&to).filter(|(_, its)| *its == to_id) else { continue };
            let called = self.servers[to].process.as_ref().map_or(0, |process| process.number);
            let wait = 1 + self.dice.below(10);
            let last = &mut self.last[at * count + to];
            // They keep their order.
            *last = (*last).max(self.now + wait);
            let when = *last;
            let kind = Kind::Words(*way, id, to_id);
            let letter = Letter { from: at, process: number, ensemble, to, called, kind, bytes };
            self.at(when, Event::Arrive(letter));
        }
        for (message, bytes) in snapshots {
            let to = usize::from(server_of(message.to)).wrapping_sub(1);
            let called = self.servers[to].process.as_ref().map_or(0, |process| process.number);
            let wait = 20 + self.dice.below(200);
            let event = Event::Snapshot((at, number), (to, called), Box::new(message), bytes);
            self.after(wait, event);
        }
    }

    /// A snapshot has come to where it is for, or does not.
    pub(super) fn snapshot(
        &mut self,
        (from, sender): (usize, u64),
        (to, called): (usize, u64),
        message: PeerMessage,
        bytes: &[u8],
    ) -> Checked {
        let to_id = message.to;
        let process = self.servers[to].process.as_ref().filter(|its| its.number == called);
        if let Some(thaws) = process.map(|its| its.frozen_until).filter(|until| *until > self.now) {
            let event =
                Event::Snapshot((from, sender), (to, called), Box::new(message), bytes.to_vec());
            self.at(thaws, event);
            return Ok(());
        }
        let passes = self.passes(from, to) && self.passes(to, from);
        let running = process.and_then(|its| its.running.as_ref());
        let member =
            running.map(|its| &its.member).filter(|its| passes && its.consensus().id() == to_id);
        let mut status = SnapshotStatus::Failure;
        if let Some(member) = member {
            let directory = Arc::clone(member.consensus().directory());
            let zxid = snapshot_zxid(&message).ok_or("a snapshot without a zxid")?;
            let index = message.get_snapshot().get_metadata().index;
            let mut rebuild = Rebuild::new(self.seed, Rules::default());
            let received =
                ReceivedSnapshot::create(directory, zxid, Compression::None).and_then(|mut its| {
                    its.write(bytes)?;
                    its.check(index, &mut rebuild)?;
                    Ok(its)
                });
            match received {
                Ok(received) => {
                    status = SnapshotStatus::Finish;
                    self.told(to, FromPeer::Snapshot(message, received))?;
                }
                Err(error) => self.failed(to, error.into())?,
            }
        }
        self.after(1, Event::Sent(from, sender, to_id, status));
        Ok(())
    }

    /// A member hears what came of a snapshot that it has sent.
    pub(super) fn sent(&mut self, at: usize, to: u64, status: SnapshotStatus) -> Checked {
        self.told(at, FromPeer::SnapshotSent(to, status))
    }

    /// Something from another member comes to a member's thread.
    fn told(&mut self, at: usize, what: FromPeer) -> Checked {
        self.with(at, |life, member, now| life.take(member, what, now).map(drop))
    }

    /// Words of another member.
    pub(super) fn words(
        &mut self,
        (from, from_id): (usize, u64),
        (to, to_id): (usize, u64),
        way: u64,
        letter: &Letter,
    ) -> Checked {
        self.see_ways(to)?;
        let Some(process) = &self.servers[to].process else { return Ok(()) };
        let Some(running) = &process.running else { return Ok(()) };
        if running.found.get(&from) != Some(&(way, from_id))
            || running.member.consensus().id() != to_id
        {
            return Ok(());
        }
        let said = decode(&letter.bytes, self.now)?;
        self.told(to, FromPeer::Said(from_id, said))
    }

    /// Members of one ensemble find each other, as hellos have it.
    pub(super) fn dial(&mut self) -> Checked {
        let count = self.servers.len();
        for (one, other) in (0..count).flat_map(|one| (one + 1..count).map(move |its| (one, its))) {
            if !self.passes(one, other) || !self.passes(other, one) {
                self.ways.remove(&(one, other));
                continue;
            }
            let awake = |at: usize| {
                let process = self.servers[at].process.as_ref();
                let process = process.filter(|its| its.frozen_until <= self.now)?;
                Some((process.ensemble, &process.running.as_ref()?.member))
            };
            let (Some((of_one, first)), Some((of_other, second))) = (awake(one), awake(other))
            else {
                continue;
            };
            if of_one != of_other || self.ways.contains_key(&(one, other)) {
                continue;
            }
            let ids = [first.consensus().id(), second.consensus().id()];
            let removed = match (
                second.consensus().known().has_removed(ids[0]),
                first.consensus().known().has_removed(ids[1]),
            ) {
                (true, _) => Some(one),
                (false, true) => Some(other),
                (false, false) => None,
            };
            if let Some(removed) = removed {
                self.told(removed, FromPeer::Refused(PeerRefused::Removed))?;
                continue;
            }
            let number = self.number();
            self.ways.insert((one, other), Way { number, ids });
        }
        Ok(())
    }

    /// A member learns which ways there are.
    fn see_ways(&mut self, at: usize) -> Checked {
        let count = self.servers.len();
        for other in (0..count).filter(|other| *other != at) {
            let way = self.ways.get(&(at.min(other), at.max(other)));
            let is = way.map(|way| (way.number, way.ids[usize::from(at < other)]));
            let Some(process) = &mut self.servers[at].process else { return Ok(()) };
            let Some(running) = &mut process.running else { return Ok(()) };
            let was = running.found.get(&other).copied();
            if was == is {
                continue;
            }
            running.found.remove(&other);
            running.found.extend(is.map(|is| (other, is)));
            let ends = was.map(|(_, id)| (id, false)).into_iter();
            for (id, is_up) in ends.chain(is.map(|(_, id)| (id, true))) {
                self.told(at, FromPeer::Hears(id, is_up))?;
                self.told(at, FromPeer::Speaks(id, is_up))?;
            }
        }
        Ok(())
    }

    /// A step of a member's thread.
    pub(super) fn tick(&mut self, at: usize) -> Checked {
        let number = self.servers[at].process.as_ref().expect("it runs").number;
        self.after(TICK, Event::Tick(at, number));
        self.see_ways(at)?;
        let connection = ConnectionId::on(at as u8 + 1, self.number());
        let opens = self.dice.below(4) == 0;
        self.with(at, |life, member, now| {
            life.tick(member, now.monotonic);
            if opens && (member.requests().is_leading() || member.requests().is_following()) {
                let origin = Origin {
                    connection,
                    session: SessionId::NONE,
                    xid: 0,
                    identities: Arc::default(),
                    received: now.monotonic,
                };
                let work = Work::Open { timeout_ms: 30_000 };
                member.submit(vec![Submission::new(origin, work, None)]);
            }
            member.turn(now)
        })?;
        let Some(process) = &mut self.servers[at].process else { return Ok(()) };
        let Some(running) = &mut process.running else { return Ok(()) };
        if running.life.finds_begun(&running.member) {
            process.introduction.has_begun();
        }
        let (mut is_time, mut offer) = (false, None);
        self.with(at, |life, member, now| {
            is_time = life.report(member, now)?;
            offer = member.consensus().offer();
            Ok(())
        })?;
        let process = self.servers[at].process.as_mut();
        let running = process.and_then(|process| process.running.as_mut());
        if let (true, Some(running), Some(founding)) = (is_time, running, offer) {
            running.founding = founding;
        }
        Ok(())
    }

    /// A server has answered its founder.
    pub(super) fn has_answered(&mut self, at: usize, server: u8, accepts: bool) -> Checked {
        let ensemble = self.servers[at].process.as_ref().expect("it runs").ensemble;
        if accepts {
            self.checks.knows_of(ensemble, server)?;
        }
        self.told(at, FromPeer::Answered(server))
    }

    /// A server wants a seat.
    pub(super) fn seat(&mut self, at: usize, reply: Reply, applicant: Applicant) -> Checked {
        if usize::from(applicant.server) != reply.to + 1 {
            return Err("another server's seat".to_owned());
        }
        let (answer, answered) = oneshot::channel();
        let process = self.servers[at].process.as_mut();
        match process.and_then(|process| process.running.as_mut()) {
            Some(running) => running.asking.push((reply, answered)),
            None => self.answer(at, reply, FoundingAnswer::Elsewhere),
        }
        self.told(at, FromPeer::Seat(applicant, answer))
    }

    fn give_seats(&mut self, at: usize) {
        let Some(process) = &mut self.servers[at].process else { return };
        let Some(running) = &mut process.running else { return };
        running.life.give_seats(&running.member);
        let mut given = Vec::new();
        for (reply, mut answered) in std::mem::take(&mut running.asking) {
            match answered.try_recv() {
                Ok(answer) => given.push((reply, answer)),
                Err(TryRecvError::Empty) => running.asking.push((reply, answered)),
                // Nobody hears of it.
                Err(TryRecvError::Closed) => given.push((reply, FoundingAnswer::Elsewhere)),
            }
        }
        for (reply, answer) in given {
            self.answer(at, reply, answer);
        }
    }

    /// What must hold of a member that has done something.
    fn observe(&mut self, at: usize) -> Checked {
        self.give_seats(at);
        let Some(process) = &self.servers[at].process else { return Ok(()) };
        let Some(running) = &process.running else { return Ok(()) };
        let opened = std::mem::take(&mut *running.opened.0.lock());
        if opened.is_empty() {
            return Ok(());
        }
        self.outcome.acknowledged += opened.len() as u64;
        let database = running.member.replica().shared();
        let has = |session: i64| database.sessions().contains_key(&SessionId(session));
        let zxid = database.last_zxid().0;
        self.checks.acknowledges(process.ensemble, (&opened, zxid), has, self.now)
    }

    /// Whether an ensemble of all servers serves, and has done so since.
    pub(super) fn serves(&self, since: u64) -> bool {
        self.checks.acknowledged_at > since && self.are_all_voters()
    }

    /// The same, and nobody lacks anything: what was lost is there again.
    pub(super) fn is_whole(&mut self) -> bool {
        let is_whole = self.are_all_voters();
        self.has_lost &= !is_whole;
        is_whole
    }

    /// Whether all servers are members that vote, by what all of them know, and one of them leads
    /// the others.
    fn are_all_voters(&self) -> bool {
        let members: Vec<&Running> = self
            .servers
            .iter()
            .filter_map(|server| server.process.as_ref().and_then(|its| its.running.as_ref()))
            .collect();
        let Some(leader) = members.iter().find(|its| its.member.takes_requests()) else {
            return false;
        };
        let last = leader.member.replica().shared().last_zxid();
        let peers = leader.member.consensus().peers();
        let are_peers = |its: &&Running| {
            let others = its.member.consensus().peers();
            others.len() == peers.len() && others.iter().all(|peer| peer.votes)
        };
        let is_one =
            |its: &&Running| peers.iter().any(|peer| peer.id == its.member.consensus().id());
        let is_near =
            |its: &&Running| its.member.replica().shared().last_zxid().0 >> 32 == last.0 >> 32;
        members.len() == self.servers.len()
            && peers.len() == members.len()
            && members.iter().all(|its| is_one(its) && are_peers(its) && is_near(its))
    }
}
