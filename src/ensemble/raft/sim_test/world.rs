//! Everything under one seed: what happens next, what follows from it, and that it may be so.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;

use jute::protocol::Request;
use tokio::sync::Semaphore;

use super::age::Known;
use super::checks::{Chain, Checks};
use super::clients::Client;
use super::connection::{Asked, Seen};
use super::copies::Copies;
use super::history::{History, Reply};
use super::listed::Lists;
use super::locals::Locals;
use super::network::{Network, Parcel};
use super::outcome::Outcome;
use super::reconfigs::Reconfigs;
use super::server::{Asking, Clock, Server, Waiting};
use super::sessions::Owners;
use super::storm::Mend;
use super::timeline::{MS, Timeline};
use super::transfer::Transfer;
use super::ways::{Found, Lost};
use super::*;
use crate::engine::decide::tracker::OWNER_NOT_CHECKED;
use crate::engine::watch::ConnectionId;
use crate::ensemble::founding::Seat;
use crate::ensemble::raft::configuration::LIVES_COUNTED;
use crate::ensemble::raft::{FIRST_LIFE, member_id};
use crate::storage::sim::{Dice, SimDisk};
use crate::storage::{Disk as _, LogOptions, RecoveryOptions};

/// A run goes on until it has all of this.
const TIME: u64 = 12_000 * MS;
const STEPS: u64 = 2000;
const OPERATIONS: u64 = 500;
/// No run is longer.
const TIME_MAX: u64 = 60_000 * MS;

pub(super) type Checked = Result<(), String>;

/// The place of the server that a member is a life of.
pub(super) const fn place_of(member: u64) -> usize {
    server_of(member) as usize - 1
}

/// Why a member goes no further.
pub(super) enum Stop {
    Violation(String),
    Failed(EnsembleError),
}

impl From<EnsembleError> for Stop {
    fn from(error: EnsembleError) -> Self {
        Self::Failed(error)
    }
}

pub(super) enum Event {
    /// A member's thread wakes, if this is when it was to.
    Turn(usize, u64),
    Arrive(Parcel),
    /// Something comes to a life of a server.
    Tell(usize, u64, Waiting),
    /// A life of a server tries to reach another one.
    Dial(usize, usize, u64),
    Line(Found),
    Lost(Lost),
    /// Nothing may pass over the way from one to the other.
    Notice(usize, usize),
    Piece(u64),
    /// A life of a server's disk writes, and is free for more.
    Write(usize, u64),
    Written(usize, u64),
    Client(usize),
    Connect(usize, usize, ConnectionId),
    Ask(usize, ConnectionId, Vec<Asked>),
    Snapshot(usize),
    AskForSeat(usize, u64),
    Seat(Asking, Seat),
    Fault,
    FaultAt(usize),
    Spoil,
    Mend(Mend),
}

/// A request that may become final.
pub(super) struct Sent {
    pub(super) session: i64,
    pub(super) connection: ConnectionId,
    pub(super) request: Request<'static>,
}

pub(super) struct World {
    pub(super) seed: u64,
    pub(super) flaw: Flaw,
    pub(super) dice: Dice,
    pub(super) timeline: Timeline<Event>,
    pub(super) servers: Vec<Server>,
    pub(super) network: Network,
    pub(super) transfers: BTreeMap<u64, Transfer>,
    pub(super) transfers_begun: u64,
    pub(super) clients: Vec<Client>,
    /// The longest pause of a client.
    pub(super) haste: u64,
    /// Nothing goes wrong any more.
    pub(super) calm: bool,
    /// A member's tree was changed behind its back.
    pub(super) is_tainted: bool,
    /// A leader may have decided from a wrong tree: what is final is done by the words of its
    /// transactions.
    pub(super) is_leader_wrong: bool,
    /// How many were, where that goes on by chance.
    pub(super) spoils: Option<i64>,
    /// No client does anything any more.
    pub(super) quiet: bool,
    /// About how long it is from one fault to the next.
    pub(super) fault_every: u64,
    pub(super) snapshot_every: u64,
    pub(super) zxids_a_term: u32,
    /// The server that is listed as an observer, if one is.
    pub(super) observer: Option<usize>,
    /// A server whose disk was emptied, until it belongs to the ensemble again.
    pub(super) wiped: Option<usize>,
    /// Members whose disks are another's now, and what they had.
    pub(super) before: Vec<(u64, Chain)>,
    pub(super) lists: Lists,
    pub(super) locals: Locals,
    pub(super) reconfigs: Reconfigs,
    pub(super) copies: Copies,
    pub(super) checks: Checks,
    pub(super) history: History,
    pub(super) owners: Owners,
    /// Sessions that somebody wants to end.
    pub(super) ending: BTreeSet<i64>,
    pub(super) sent: BTreeMap<i32, Sent>,
    /// What became final of them, and what was refused.
    pub(super) done: BTreeMap<i32, (i64, Reply)>,
    pub(super) refused: BTreeSet<i32>,
    /// The newest transaction that a client was told of.
    pub(super) acknowledged: i64,
    pub(super) known: Known,
    pub(super) room: Arc<Semaphore>,
    pub(super) next_connection: u64,
    pub(super) xid: i32,
    pub(super) outcome: Outcome,
    pub(super) trace: DefaultHasher,
}

impl World {
    pub(super) fn run(seed: u64, flaw: Flaw) -> Result<Outcome, String> {
        OWNER_NOT_CHECKED.set(flaw == Flaw::OwnerNotChecked);
        LIVES_COUNTED.set(flaw == Flaw::IdTwice);
        let mut world = Self::new(seed, flaw);
        world.play()?;
        world.outcome.trace = world.trace.finish();
        world.outcome.seconds = world.timeline.now() / MS / 1000;
        Ok(world.outcome)
    }

    /// Plays a seed to its end and writes the members' directories below `folder`, each with the
    /// zxid, the znodes and the digest that a server must show that goes on there.
    pub(super) fn export(seed: u64, folder: &std::path::Path) -> Result<(), String> {
        let mut world = Self::new(seed, Flaw::None);
        world.play()?;
        for server in &world.servers {
            let member = server.member.as_ref().ok_or("a member is down")?;
            let target = folder.join(format!("{seed}-{}/version-2", server.id));
            std::fs::create_dir_all(&target).map_err(|error| error.to_string())?;
            let source = member.consensus().directory().snapshots();
            for name in server.disk.list(source).map_err(|error| error.to_string())? {
                let bytes = server.disk.content(&source.join(&name));
                std::fs::write(target.join(name), bytes).map_err(|error| error.to_string())?;
            }
            let database = member.replica().shared();
            let (zxid, tree) = (database.last_zxid(), database.tree());
            println!("{seed}-{} {zxid} {} {:?}", server.id, tree.count(), tree.digest());
        }
        Ok(())
    }

    pub(super) fn new(seed: u64, flaw: Flaw) -> Self {
        let members = if seed.is_multiple_of(3) { 5 } else { 3 };
        // Every seventh world has an observer: one of five, or beside three.
        let has_observer = seed % 7 == 2;
        let beside = u64::from(has_observer && members == 3);
        let mut world = Self::begin(seed, flaw, members + beside);
        world.observer = has_observer.then(|| world.servers.len() - 1);
        // Every fourth world has sessions that live on one server.
        world.locals.are_there = seed % 4 == 3;
        // Every sixth world has a list that changes by requests.
        world.reconfigs.are_there = seed % 6 == 5;
        // Every fifth world has terms that end by their numbers.
        if seed % 5 == 1 {
            world.zxids_a_term = 60;
        }
        world
    }

    pub(super) fn begin(seed: u64, flaw: Flaw, members: u64) -> Self {
        let mut dice = Dice(seed);
        let list: BTreeSet<u8> = (1..=members as u8).collect();
        let servers = list.iter().map(|server| {
            let log = LogOptions {
                segment_len: 1024 << dice.below(4),
                spares: dice.below(2) as usize,
                force_sync: flaw != Flaw::AckBeforeSync,
            };
            let options = RecoveryOptions { trust_empty: false, log };
            let clock = Clock::new(dice.below(1000) * 1000 * MS);
            let id = member_id(*server, FIRST_LIFE);
            let server = Server::new(id, SimDisk::default(), options, clock);
            Server { list: list.clone(), seen: Arc::new(Seen::new(flaw)), ..server }
        });
        let servers: Vec<Server> = servers.collect();
        let members = servers.len();
        let clients = (0..4 + dice.below(4)).map(|_| Client::new()).collect();
        let haste = [100, 200, 400][dice.below(3) as usize] * MS;
        let fault_every = [200, 400, 1000][dice.below(3) as usize] * MS;
        let snapshot_every = [500, 2000, 8000][dice.below(3) as usize] * MS;
        Self {
            seed,
            flaw,
            dice,
            timeline: Timeline::new(),
            servers,
            network: Network::new(members),
            transfers: BTreeMap::new(),
            transfers_begun: 0,
            clients,
            haste,
            calm: false,
            is_tainted: false,
            is_leader_wrong: false,
            spoils: None,
            quiet: false,
            fault_every,
            snapshot_every,
            zxids_a_term: u32::MAX,
            observer: None,
            wiped: None,
            before: Vec::new(),
            lists: Lists::default(),
            locals: Locals::default(),
            reconfigs: Reconfigs::default(),
            copies: Copies::default(),
            checks: Checks::default(),
            history: History::new(),
            owners: Owners::default(),
            ending: BTreeSet::new(),
            sent: BTreeMap::new(),
            done: BTreeMap::new(),
            refused: BTreeSet::new(),
            acknowledged: 0,
            known: Known::default(),
            room: Arc::new(Semaphore::new(1 << 20)),
            next_connection: 0,
            xid: 0,
            outcome: Outcome::default(),
            trace: DefaultHasher::new(),
        }
    }

    pub(super) fn play(&mut self) -> Checked {
        let members = self.servers.len();
        for at in 0..members {
            self.start(at)?;
            let first = self.dice.below(2000 * MS);
            self.timeline.at(first, Event::Snapshot(at));
        }
        for which in 0..self.clients.len() {
            self.timeline.at(500 * MS, Event::Client(which));
        }
        self.timeline.at(1000 * MS, Event::Fault);
        while self.timeline.now() < TIME
            || self.outcome.steps < STEPS
            || self.outcome.operations < OPERATIONS
        {
            if self.timeline.now() > TIME_MAX {
                return Err(format!("too little happens: {:?}", self.outcome));
            }
            self.step()?;
        }
        self.heal().map_err(|violation| format!("healed: {violation}"))
    }

    pub(super) fn step(&mut self) -> Checked {
        self.outcome.steps += 1;
        let step = self.outcome.steps;
        let event = self.timeline.next().ok_or("nothing is to happen")?;
        self.happen(event).map_err(|violation| {
            format!("step {step}, at {} ms: {violation}", self.timeline.now() / MS)
        })
    }

    fn happen(&mut self, event: Event) -> Checked {
        let now = self.timeline.now();
        match event {
            Event::Turn(at, when) => {
                let server = &mut self.servers[at];
                if server.wakes != when {
                    return Ok(());
                }
                server.wakes = u64::MAX;
                if now < server.frozen_until {
                    let thaws = server.frozen_until;
                    self.wake(at, thaws);
                    return Ok(());
                }
                self.turn(at)
            }
            Event::Arrive(parcel) => self.arrive(parcel),
            Event::Tell(at, life, what) => {
                let server = &mut self.servers[at];
                if server.life == life && server.member.is_some() {
                    server.waiting.push(what);
                    self.wake(at, now);
                }
                Ok(())
            }
            Event::Dial(from, to, life) => {
                self.dial(from, to, life);
                Ok(())
            }
            Event::Line(found) => {
                self.find(found);
                Ok(())
            }
            Event::Lost(lost) => {
                self.lose(lost);
                Ok(())
            }
            Event::Notice(from, to) => {
                if !self.network.passes(from, to) || !self.network.passes(to, from) {
                    self.part(from, to);
                }
                Ok(())
            }
            Event::Piece(number) => self.piece(number),
            Event::Write(at, life) => self.write_disk(at, life),
            Event::Written(at, life) => {
                self.wrote(at, life);
                Ok(())
            }
            Event::Client(which) => {
                self.client(which);
                Ok(())
            }
            Event::Connect(which, at, id) => {
                self.take_connection(which, at, id);
                Ok(())
            }
            Event::Ask(at, id, asked) => self.take_requests(at, id, asked),
            Event::Snapshot(at) => self.snapshot(at),
            Event::AskForSeat(at, when) => self.ask_for_seat(at, when),
            Event::Seat(asking, seat) => self.take_seat(asking, seat),
            Event::Spoil => {
                self.spoil_one();
                Ok(())
            }
            Event::Fault => self.fault(None),
            Event::FaultAt(at) => self.fault(Some(at)),
            Event::Mend(mend) => self.mend(mend),
        }
    }

    /// Nothing fails any more: everybody comes to the same state, a write is answered, and every
    /// session ends with its client.
    fn heal(&mut self) -> Checked {
        self.end_storm()?;
        let wanted = self.outcome.acknowledged + 3;
        let limit = self.timeline.now() + 30_000 * MS;
        loop {
            let is_settled = || {
                let mut ends = self.servers.iter().map(|server| {
                    let member = server.member.as_ref()?;
                    let last = member.consensus.node.store().log.last_index();
                    let is_settled = member.consensus().applied() == last
                        && member.consensus.unsynced.is_empty();
                    is_settled.then_some(last)
                });
                let first = ends.next().flatten();
                first.is_some() && ends.all(|end| end == first)
            };
            if self.outcome.acknowledged >= wanted && !self.quiet {
                (0..self.servers.len()).try_for_each(|at| self.watches_are_as_left(at))?;
                self.quiet = true;
            }
            let is_over =
                self.is_whole() && self.follows_list() && self.have_same_trees() && is_settled();
            if self.quiet && self.history.living().next().is_none() && is_over {
                break;
            }
            if self.timeline.now() > limit {
                let members: Vec<_> = self.servers.iter().map(|server| &server.member).collect();
                let living: Vec<i64> = self.history.living().collect();
                let is = (self.is_whole(), self.have_same_trees(), is_settled());
                return Err(format!(
                    "no agreement: {members:?}, sessions {living:x?}, quiet {}, whole, same, \
                     settled {is:?}, lists {:?}",
                    self.quiet,
                    self.list_changes(),
                ));
            }
            self.step()?;
        }
        for server in &self.servers {
            let Some(member) = &server.member else { continue };
            self.history.equals(&member.replica().shared())?;
        }
        Ok(())
    }
}
