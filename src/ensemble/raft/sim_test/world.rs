//! The three members, what lies between them, and the dice.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jute::protocol::Request;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::checks::{Chain, Checks};
use super::flawed_disk::FlawedDisk;
use super::outcome::Outcome;
use super::*;
use crate::engine::database::{Database, Rules};
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, WallClock};
use crate::engine::watch::ConnectionId;
use crate::engine::zxid::Zxid;
use crate::ensemble::snapshots::write_walk;
use crate::storage::sim::{Dice, Fault, SimDisk};
use crate::storage::{
    Compression, DirectoryOptions, Disk, EntryWriter, FillStep, LogOptions, Members, RaftState,
    RaftStateFile, RecoveryOptions, SnapshotWriter, StorageError, purge,
};

#[path = "by_hand.rs"]
mod by_hand;
#[path = "clients.rs"]
mod clients;
#[path = "cut_off.rs"]
mod cut_off;
#[path = "slow_disk.rs"]
mod slow_disk;

use clients::{Client, Seen, Told};

const MEMBERS: u64 = 3;
const STEPS: u64 = 2500;
const PARCELS_MAX: usize = 200;

/// Something on its way between two members.
#[derive(Clone)]
struct Parcel {
    from: u64,
    to: u64,
    content: Content,
}

#[derive(Clone)]
enum Content {
    /// With the snapshot that it tells of.
    Message(PeerMessage, Option<Vec<u8>>),
    Word(Word),
}

/// Takes what a member sends.
#[derive(Default)]
struct Post {
    id: u64,
    sent: Vec<Parcel>,
    /// Answers that nobody gave.
    forged: Vec<PeerMessage>,
    flaw: Option<Flaw>,
}

impl Transport for Post {
    fn send(&mut self, message: PeerMessage) {
        if self.flaw == Some(Flaw::RoundNotMade)
            && message.get_msg_type() == MessageType::MsgHeartbeat
            && !message.context.is_empty()
        {
            let mut answer = PeerMessage::default();
            answer.set_msg_type(MessageType::MsgHeartbeatResponse);
            (answer.from, answer.to, answer.term) = (message.to, message.from, message.term);
            answer.context = message.context.clone();
            self.forged.push(answer);
        }
        if self.flaw == Some(Flaw::AckBeforeQuorum)
            && message.get_msg_type() == MessageType::MsgAppend
        {
            let mut answer = PeerMessage::default();
            answer.set_msg_type(MessageType::MsgAppendResponse);
            (answer.from, answer.to, answer.term) = (message.to, message.from, message.term);
            answer.index = message.index + message.entries.len() as u64;
            self.forged.push(answer);
        }
        let (from, to) = (self.id, message.to);
        self.sent.push(Parcel { from, to, content: Content::Message(message, None) });
    }

    fn say(&mut self, to: u64, word: Word) {
        self.sent.push(Parcel { from: self.id, to, content: Content::Word(word) });
    }

    fn send_snapshot(&mut self, message: PeerMessage, file: SnapshotFile) {
        let mut bytes = vec![0; file.size().expect("a size") as usize];
        file.read(&mut bytes, 0).expect("reads");
        let (from, to) = (self.id, message.to);
        self.sent.push(Parcel { from, to, content: Content::Message(message, Some(bytes)) });
    }
}

impl Member<Post> {
    /// Takes a snapshot of the applied state, all of it at once.
    ///
    /// # Errors
    /// When the disk refuses; the log keeps everything.
    fn take_snapshot(&mut self, now: Monotonic) -> Result<(), StorageError> {
        let index = self.applied();
        let mut hold = self.applier.replica.exclusive();
        hold.database().begin_walk();
        let zxid = hold.database().last_zxid().0;
        let writer =
            SnapshotWriter::create(self.node.store().directory(), zxid, index, Compression::None)?;
        let tree = hold.database().tree();
        write_walk(writer, std::iter::from_fn(|| tree.advance_walk(u32::MAX, 0)))?;
        drop(hold);
        self.snapshot_taken(index, Zxid(zxid), now);
        Ok(())
    }
}

struct Server {
    id: u64,
    disk: SimDisk,
    options: RecoveryOptions,
    member: Option<Member<Post>>,
    /// What writes for it, and what it is to write.
    writer: Option<DiskWriter>,
    writes: VecDeque<Write>,
    /// Its disk does nothing before this time.
    stalled: Monotonic,
    seen: Arc<Seen>,
    /// Its log when it was last seen, and what its disk has of it.
    known: Chain,
    chain: Chain,
    /// What its disk has of its promise.
    promise: (u64, u64),
    /// Its clients.
    clients: Vec<Client>,
}

/// Everything, under one seed.
pub(super) struct World {
    seed: u64,
    dice: Dice,
    flaw: Flaw,
    servers: Vec<Server>,
    parcels: Vec<Parcel>,
    /// Whether parcels pass from one to another.
    parted: [[bool; MEMBERS as usize]; MEMBERS as usize],
    checks: Checks,
    room: Arc<Semaphore>,
    now: Now,
    next_connection: u64,
    xid: i32,
    /// By the xid of a request: the newest change that was acknowledged before it.
    asked_behind: BTreeMap<i32, i64>,
    outcome: Outcome,
    trace: DefaultHasher,
}

type Checked = Result<(), String>;

impl World {
    pub(super) fn run(seed: u64, flaw: Flaw) -> Result<Outcome, String> {
        let mut world = Self::play(seed, flaw)?;
        world.outcome.acknowledged = world.checks.acknowledged_count() as u64;
        world.outcome.trace = world.trace.finish();
        Ok(world.outcome)
    }

    /// Plays a seed to its end and writes the members' directories below `folder`, each with the zxid, the znodes and
    /// the digest that a server must show that goes on there.
    pub(super) fn export(seed: u64, folder: &std::path::Path) -> Result<(), String> {
        for server in Self::play(seed, Flaw::None)?.servers {
            let member = server.member.as_ref().ok_or("a member is down")?;
            let target = folder.join(format!("{seed}-{}/version-2", server.id));
            std::fs::create_dir_all(&target).map_err(|error| error.to_string())?;
            let source = member.directory().snapshots();
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

    fn new(seed: u64, flaw: Flaw) -> Result<Self, String> {
        let mut dice = Dice(seed);
        let servers = (1..=MEMBERS).map(|id| {
            let log = LogOptions {
                segment_len: 1024 << dice.below(4),
                spares: dice.below(2) as usize,
                force_sync: flaw != Flaw::AckBeforeSync,
            };
            Server {
                id,
                disk: SimDisk::default(),
                options: RecoveryOptions { trust_empty: false, log },
                member: None,
                writer: None,
                writes: VecDeque::new(),
                stalled: Monotonic(0),
                seen: Arc::default(),
                known: Chain::new(),
                chain: Chain::new(),
                promise: (0, 0),
                clients: Vec::new(),
            }
        });
        let servers = servers.collect();
        let mut world = Self {
            seed,
            dice,
            flaw,
            servers,
            parcels: Vec::new(),
            parted: Default::default(),
            checks: Checks::default(),
            room: Arc::new(Semaphore::new(1 << 20)),
            now: Now { monotonic: Monotonic(0), wall: WallClock(1_700_000_000_000) },
            next_connection: 1,
            xid: 0,
            asked_behind: BTreeMap::new(),
            outcome: Outcome::default(),
            trace: DefaultHasher::new(),
        };
        (0..MEMBERS as usize).try_for_each(|at| world.start(at))?;
        Ok(world)
    }

    fn play(seed: u64, flaw: Flaw) -> Result<Self, String> {
        let mut world = Self::new(seed, flaw)?;
        for step in 0..STEPS {
            world.event().map_err(|violation| format!("step {step}: {violation}"))?;
        }
        world.heal().map_err(|violation| format!("healed: {violation}"))?;
        Ok(world)
    }

    fn event(&mut self) -> Checked {
        if self.dice.below(3) > 0 {
            let at = self.dice.below(MEMBERS) as usize;
            let most = 1 + self.dice.below(4) as usize;
            self.write_disk(at, most)?;
        }
        let at = self.dice.below(MEMBERS) as usize;
        match self.dice.below(1000) {
            0..200 => {
                self.now.monotonic = self.now.monotonic.plus(30);
                self.now.wall.0 += 30;
                self.with(at, |member, _| member.tick())
            }
            200..700 => self.deliver(),
            700..884 => self.request(at),
            884..890 => {
                let power = self.dice.coin();
                let lost = self.servers[at].member.is_some();
                self.crash(at, power);
                self.outcome.crashes += u64::from(lost);
                Ok(())
            }
            890..930 if self.servers[at].member.is_none() => self.start(at),
            930..936 => {
                // Power fails at one of the operations to come.
                let after = self.dice.below(40);
                self.servers[at].disk.fail_after(after, Fault::PowerLoss);
                Ok(())
            }
            936..950 => {
                let (from, to) = (self.dice.below(3) as usize, self.dice.below(3) as usize);
                self.parted[from][to] = true;
                if self.dice.coin() {
                    self.parted[to][from] = true;
                }
                Ok(())
            }
            950..964 => {
                self.parted = Default::default();
                Ok(())
            }
            964..984 => self.snapshot(at),
            988..992 => self.with(at, |member, now| member.report_heard(now)),
            992..996 => self.move_session(at),
            996..999 => {
                let ms = 100 * self.dice.below(30);
                self.servers[at].stalled = self.now.monotonic.plus(ms);
                Ok(())
            }
            984..988 => {
                let to = 1 + self.dice.below(MEMBERS);
                self.outcome.handed_over += 1;
                self.with(at, |member, _| member.hand_over(to))
            }
            _ => Ok(()),
        }
    }

    /// Lets a member do something and everything that follows from it.
    fn with(&mut self, at: usize, act: impl FnOnce(&mut Member<Post>, Now)) -> Checked {
        let now = self.now;
        self.try_with(at, |member| {
            act(member, now);
            Ok(())
        })
    }

    fn try_with_now(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Member<Post>, Now) -> Result<(), EnsembleError>,
    ) -> Checked {
        let now = self.now;
        self.try_with(at, |member| act(member, now))
    }

    fn try_with(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Member<Post>) -> Result<(), EnsembleError>,
    ) -> Checked {
        let now = self.now;
        let Some(member) = &mut self.servers[at].member else { return Ok(()) };
        let done = act(member).and_then(|()| {
            member.turn(now)?;
            while let Some(forged) = member.transport.forged.pop() {
                member.step(forged);
                member.turn(now)?;
            }
            Ok(())
        });
        let sent = std::mem::take(&mut member.transport.sent);
        let writes = member.take_writes();
        if self.flaw == Flaw::SaidBeforeWritten && done.is_ok() {
            let written = Written { writes: writes.len(), ..Written::default() };
            member.persisted(written).expect("sends");
        }
        self.servers[at].writes.extend(writes);
        match done {
            Ok(()) => {}
            Err(EnsembleError::Storage(StorageError::Io { .. })) => {
                self.outcome.failures += 1;
                // What was sent before the power went is on its way.
                self.parcels.extend(sent);
                self.crash(at, true);
                return Ok(());
            }
            Err(error) => return Err(format!("member {}: {error}: {:?}", at + 1, error)),
        }
        self.parcels.extend(sent);
        while self.parcels.len() > PARCELS_MAX {
            self.lose(0);
        }
        self.observe(at)
    }

    /// Lets a disk do the oldest of what it is to do, at most so much of it.
    fn write_disk(&mut self, at: usize, most: usize) -> Checked {
        let now = self.now.monotonic;
        let Server { writer, writes, stalled, chain, promise, .. } = &mut self.servers[at];
        let Some(writer) = writer else { return Ok(()) };
        if writes.is_empty() || now < *stalled {
            return Ok(());
        }
        let some: Vec<Write> = writes.drain(..most.min(writes.len())).collect();
        let written = match writer.write(some) {
            Ok(written) => written,
            Err(EnsembleError::Storage(StorageError::Io { .. })) => {
                self.outcome.failures += 1;
                self.crash(at, true);
                return Ok(());
            }
            Err(error) => return Err(format!("disk {}: {error}: {error:?}", at + 1)),
        };
        let before = chain.clone();
        read_chain(&writer.log, chain);
        let kept = before.iter().zip(chain.iter()).take_while(|(was, is)| was == is).count();
        if kept < before.len() && kept < chain.len() && chain[kept] != 0 {
            self.outcome.cuts += 1;
        }
        *promise = (writer.promises.get().term, writer.promises.get().vote);
        if self.flaw == Flaw::SaidBeforeWritten {
            return Ok(());
        }
        let mut installed = false;
        self.try_with(at, |member| {
            installed = member.persisted(written)?;
            Ok(())
        })?;
        self.outcome.installed += u64::from(installed);
        if installed && let Some(member) = &self.servers[at].member {
            self.checks.model(member.applied(), &member.replica().shared())?;
        }
        Ok(())
    }

    /// Everything that must hold, after a member has done something.
    fn observe(&mut self, at: usize) -> Checked {
        let Server { id, member, known, .. } = &mut self.servers[at];
        let Some(member) = member else { return Ok(()) };
        let store = member.node.store();
        self.checks.log(&store.log, known)?;
        let id = *id;
        (member.term(), member.leader(), store.log.last_zxid()).hash(&mut self.trace);
        let server = &self.servers[at];
        let Some(member) = &server.member else { return Ok(()) };
        let log = &member.node.store().log;
        if member.leader() == id {
            let (before, term) = (self.outcome.elections, member.term());
            self.checks.leads(term, id, log)?;
            self.outcome.elections = before.max(term);
        }
        let chains: Vec<&Chain> = self.servers.iter().map(|server| &server.chain).collect();
        self.checks.committed(member.committed(), log, &chains)?;
        self.checks.applied(member.applied(), member.committed(), &member.replica().shared())?;
        let told = std::mem::take(&mut *server.seen.0.lock());
        for told in told {
            match told {
                Told::Done(connection, xid, zxid) => {
                    self.checks.acknowledged(zxid.0, xid)?;
                    self.answered(at, connection, xid, zxid)?;
                }
                Told::Synced(connection, xid, zxid) => {
                    self.outcome.synced += 1;
                    self.synced(xid, zxid)?;
                    self.answered(at, connection, xid, zxid)?;
                }
                Told::Answered(connection, xid, zxid) => {
                    self.answered(at, connection, xid, zxid)?;
                }
                Told::Attached(connection, session) => {
                    let clients = &mut self.servers[at].clients;
                    let client = clients.iter_mut().find(|client| client.connection == connection);
                    if let Some(client) = client {
                        self.outcome.moved += u64::from(client.session == Some(session));
                        client.session = Some(session);
                        client.asked.pop_front();
                    }
                }
                Told::Closed(connection) => {
                    self.outcome.unknown += 1;
                    self.servers[at].clients.retain(|client| client.connection != connection);
                }
            }
        }
        Ok(())
    }

    fn deliver(&mut self) -> Checked {
        if self.parcels.is_empty() {
            return Ok(());
        }
        // Mostly the oldest, so that there is progress; often enough any other.
        let of = if self.dice.below(3) == 0 { self.parcels.len() as u64 } else { 1 };
        let mut which = self.dice.below(of) as usize;
        let is_word = matches!(self.parcels[which].content, Content::Word(_));
        if is_word {
            // Words do not overtake each other.
            let Parcel { from, to, .. } = self.parcels[which];
            let is_first = |parcel: &Parcel| {
                (parcel.from, parcel.to) == (from, to) && matches!(parcel.content, Content::Word(_))
            };
            which = self.parcels.iter().position(is_first).unwrap_or(which);
        }
        match self.dice.below(if is_word { 400 } else { 40 }) {
            0 => {
                self.lose(which);
                return Ok(());
            }
            1 if !is_word => {
                let again = self.parcels[which].clone();
                self.parcels.push(again);
            }
            _ => {}
        }
        let parcel = &self.parcels[which];
        let (from, to) = (parcel.from as usize - 1, parcel.to as usize - 1);
        if self.parted[from][to] || self.servers[to].member.is_none() {
            self.lose(which);
            return Ok(());
        }
        let parcel = self.parcels.remove(which);
        self.hand(parcel)
    }

    fn hand(&mut self, parcel: Parcel) -> Checked {
        let (from, to) = (parcel.from as usize - 1, parcel.to as usize - 1);
        let (message, bytes) = match parcel.content {
            Content::Word(word) => {
                let now = self.now;
                return self.try_with(to, |member| member.hear(parcel.from, word, now));
            }
            Content::Message(message, None) => {
                return self.with(to, |member, _| member.step(message));
            }
            Content::Message(message, Some(bytes)) => (message, bytes),
        };
        let now = self.now;
        self.try_with(to, |member| {
            let zxid = zxid_of(message.get_snapshot()).expect("a zxid");
            let mut received =
                ReceivedSnapshot::create(Arc::clone(member.directory()), zxid, Compression::None)?;
            bytes.chunks(700).try_for_each(|piece| received.write(piece))?;
            member.receive_snapshot(message, received, now)
        })?;
        let id = to as u64 + 1;
        self.with(from, |member, _| member.report_snapshot(id, SnapshotStatus::Finish))
    }

    /// A parcel is gone; whoever sends a snapshot gets to know.
    fn lose(&mut self, which: usize) {
        let Parcel { from, to, content } = self.parcels.remove(which);
        let sender = self.servers[from as usize - 1].member.as_mut();
        match content {
            Content::Message(_, Some(_)) => {
                if let Some(member) = sender {
                    member.report_snapshot(to, SnapshotStatus::Failure);
                }
            }
            Content::Message(_, None) => {}
            Content::Word(_) => self.part(from, to),
        }
    }

    /// A word was lost, or one of the two is gone: so are all words on their way between them, and both get to know.
    fn part(&mut self, one: u64, other: u64) {
        self.outcome.broken += 1;
        self.parcels.retain(|parcel| {
            let is_between = (parcel.from, parcel.to) == (one, other)
                || (parcel.from, parcel.to) == (other, one);
            !is_between || !matches!(parcel.content, Content::Word(_))
        });
        for (at, peer) in [(one, other), (other, one)] {
            if let Some(member) = &mut self.servers[at as usize - 1].member {
                member.lost(peer);
                member.found(peer);
            }
        }
    }

    fn snapshot(&mut self, at: usize) -> Checked {
        let (purges, keep) = (self.dice.coin(), 1 + self.dice.below(2) as usize);
        let mut purged = 0;
        let now = self.now.monotonic;
        self.try_with(at, |member| {
            if member.applied() > 0 {
                member.take_snapshot(now)?;
            }
            if purges {
                purged = purge(member.directory(), keep)?.logs;
                member.purged(now);
            }
            Ok(())
        })?;
        self.outcome.purged += purged as u64;
        Ok(())
    }

    fn crash(&mut self, at: usize, power: bool) {
        for other in (1..=MEMBERS).filter(|other| *other != at as u64 + 1) {
            self.part(at as u64 + 1, other);
        }
        let server = &mut self.servers[at];
        server.member = None;
        server.writer = None;
        server.writes.clear();
        server.clients.clear();
        server.seen.0.lock().clear();
        if power {
            server.disk.crash(&mut Dice(self.dice.next()));
        } else {
            server.disk.kill();
        }
    }

    fn start(&mut self, at: usize) -> Checked {
        let server = &mut self.servers[at];
        let disk: Arc<dyn Disk> =
            Arc::new(FlawedDisk { inner: server.disk.clone(), flaw: self.flaw });
        let options = DirectoryOptions {
            data_dir: "/data".into(),
            data_log_dir: "/data".into(),
            create: true,
        };
        let ensemble = Ensemble {
            server: server.id as u8,
            recovery: server.options,
            rules: Rules::default(),
            seed: self.seed,
            // Every fifth world has terms that end by their numbers.
            zxids_a_term: if self.seed % 5 == 1 { 60 } else { u32::MAX },
        };
        let post = Post { id: server.id, flaw: Some(self.flaw), ..Post::default() };
        let clients: Arc<dyn Clients> = Arc::clone(&server.seen) as _;
        let started = DataDirectory::open(disk, &options)
            .map_err(EnsembleError::from)
            .and_then(|directory| {
                if RaftStateFile::look(&directory)?.is_none() {
                    let members = Members { voters: (1..=MEMBERS).collect(), ..Members::default() };
                    let first = RaftState { id: server.id, members, ..RaftState::default() };
                    RaftStateFile::create(&directory, &first, None)?;
                }
                ensemble.start(Arc::new(directory))
            })
            .and_then(|started| {
                let replica = Arc::new(Replica::new(Database::new(self.seed, Rules::default())));
                Member::new(ensemble, started, replica, clients, post, 1000)
            });
        let (member, writer) = match started {
            Ok((mut member, writer)) => {
                (1..=MEMBERS).filter(|peer| *peer != server.id).for_each(|peer| member.found(peer));
                (member, writer)
            }
            Err(EnsembleError::Storage(StorageError::Io { .. })) => {
                self.outcome.failures += 1;
                self.crash(at, true);
                return Ok(());
            }
            Err(EnsembleError::Storage(error)) => {
                return Err(format!("member {} does not start: {error}", at + 1));
            }
            Err(error) => return Err(format!("member {} does not start: {error}", at + 1)),
        };
        let mut filler = writer.spare_filler();
        while self.dice.coin() {
            match filler.step() {
                Ok(FillStep::Idle) | Err(_) => break,
                Ok(_) => {}
            }
        }
        let promises = writer.promises.get();
        let promise = (promises.term, promises.vote);
        let before = server.promise;
        // What a completed step has promised stays promised.
        let kept = promise.0 > before.0
            || promise.0 == before.0 && (before.1 == 0 || promise.1 == before.1);
        if self.flaw == Flaw::None && !kept {
            return Err(format!("member {}: promised {before:?}, then {promise:?}", at + 1));
        }
        self.checks.model(member.applied(), &member.replica().shared())?;
        server.promise = promise;
        server.member = Some(member);
        // All of it is read again.
        server.known.clear();
        server.chain.clear();
        read_chain(&writer.log, &mut server.chain);
        server.writer = Some(writer);
        self.observe(at)
    }

    /// Nothing fails any more: everybody comes to the same state, and a write is answered.
    fn heal(&mut self) -> Checked {
        self.parted = Default::default();
        for at in 0..MEMBERS as usize {
            self.servers[at].disk.fail_after(u64::MAX / 2, Fault::PowerLoss);
            self.servers[at].stalled = self.now.monotonic;
        }
        let before = self.checks.acknowledged_count();
        for round in 0..600 {
            self.now.monotonic = self.now.monotonic.plus(100);
            self.now.wall.0 += 100;
            for at in 0..MEMBERS as usize {
                if self.servers[at].member.is_none() {
                    self.start(at)?;
                }
                self.with(at, |member, _| member.tick())?;
                self.write_disk(at, usize::MAX)?;
                if round % 5 == 0 && self.checks.acknowledged_count() < before + 3 {
                    self.request(at)?;
                }
            }
            for parcel in std::mem::take(&mut self.parcels) {
                self.hand(parcel)?;
            }
            let applied: Vec<(u64, u64)> = self
                .servers
                .iter()
                .filter_map(|server| server.member.as_ref())
                .map(|member| (member.applied(), member.node.store().log.last_index()))
                .collect();
            if self.checks.acknowledged_count() >= before + 3
                && applied.len() == MEMBERS as usize
                && applied.iter().all(|here| *here == (applied[0].1, applied[0].1))
            {
                return self.end();
            }
        }
        Err(format!(
            "no agreement: {:?}",
            self.servers.iter().map(|s| &s.member).collect::<Vec<_>>()
        ))
    }

    fn end(&mut self) -> Checked {
        for server in &self.servers {
            let Some(member) = &server.member else { continue };
            self.checks.model(member.applied(), &member.replica().shared())?;
        }
        Ok(())
    }
}

/// The zxid of each index on a disk.
fn read_chain(log: &EntryWriter, chain: &mut Chain) {
    chain.resize(log.last_index() as usize, 0);
    for (place, known) in chain.iter_mut().enumerate().rev() {
        let zxid = log.zxid(place as u64 + 1).unwrap_or(0);
        if std::mem::replace(known, zxid) == zxid && zxid != 0 {
            break;
        }
    }
}
