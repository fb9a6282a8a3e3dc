//! The three members, what lies between them, and the dice.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use jute::protocol::{
    CreateRequest, DeleteRequest, MultiOp, Request, Response, SetDataRequest, SyncRequest,
    WatchRequest,
};
use jute::{Acl, CreateMode, perms};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::checks::{Chain, Checks};
use super::flawed_disk::FlawedDisk;
use super::*;
use crate::engine::database::Rules;
use crate::engine::request::{Origin, Work};
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, WallClock};
use crate::engine::tracker::Attached;
use crate::engine::watch::{ConnectionId, Event};
use crate::engine::zxid::Zxid;
use crate::ensemble::Answer;
use crate::ensemble::snapshots::write_walk;
use crate::storage::sim::{Dice, Fault, SimDisk};
use crate::storage::{
    Compression, DirectoryOptions, Disk, FillStep, LogOptions, RecoveryOptions, SnapshotWriter,
};

const MEMBERS: u64 = 3;
const STEPS: u64 = 2500;
const PARCELS_MAX: usize = 200;

/// What happened in a run, so that a test can say that it did.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) trace: u64,
    elections: u64,
    acknowledged: u64,
    crashes: u64,
    failures: u64,
    cuts: u64,
    handed_over: u64,
    installed: u64,
    purged: u64,
    unknown: u64,
    /// Answers of members that do not lead.
    by_followers: u64,
    /// Sessions that went on at another connection.
    moved: u64,
    /// Ways between two members that broke.
    broken: u64,
}

impl Outcome {
    pub(super) fn add(&mut self, other: &Self) {
        self.elections += other.elections;
        self.acknowledged += other.acknowledged;
        self.crashes += other.crashes;
        self.failures += other.failures;
        self.cuts += other.cuts;
        self.handed_over += other.handed_over;
        self.installed += other.installed;
        self.purged += other.purged;
        self.unknown += other.unknown;
        self.by_followers += other.by_followers;
        self.moved += other.moved;
        self.broken += other.broken;
    }

    pub(super) fn counts(&self) -> [u64; 12] {
        [
            self.elections,
            self.acknowledged,
            self.crashes,
            self.failures,
            self.cuts,
            self.handed_over,
            self.installed,
            self.purged,
            self.unknown,
            self.by_followers,
            self.moved,
            self.broken,
        ]
    }
}

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
    forges: bool,
}

impl Transport for Post {
    fn send(&mut self, message: PeerMessage) {
        if self.forges && message.get_msg_type() == MessageType::MsgAppend {
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

/// What the clients of a member were told.
#[derive(Debug, Default)]
struct Seen(Mutex<Vec<Told>>, Mutex<BTreeSet<ConnectionId>>);

#[derive(Debug)]
enum Told {
    /// The answer to a write that was done.
    Done(ConnectionId, i32, Zxid),
    /// Any other answer.
    Answered(ConnectionId, i32, Zxid),
    Attached(ConnectionId, SessionId),
    Closed(ConnectionId),
}

impl Clients for Seen {
    fn is_open(&self, connection: ConnectionId) -> bool {
        !self.1.lock().contains(&connection)
    }

    fn events(&self, _: &[Event]) {}

    fn answer(&self, origin: &Origin, zxid: Zxid, answer: Answer<'_>) {
        let failed = |results: &[jute::protocol::MultiResult<'_>]| {
            results.iter().any(|result| matches!(result, jute::protocol::MultiResult::Error(_)))
        };
        let (connection, xid) = (origin.connection, origin.xid);
        let told = match answer {
            Ok(Response::Multi(results)) if failed(&results) => {
                Told::Answered(connection, xid, zxid)
            }
            Ok(Response::GetData(_) | Response::Sync(_)) | Err(_) => {
                Told::Answered(connection, xid, zxid)
            }
            Ok(_) => Told::Done(connection, xid, zxid),
        };
        self.0.lock().push(told);
    }

    fn attached(&self, connection: ConnectionId, attached: &Attached) {
        self.0.lock().push(Told::Attached(connection, attached.session));
    }

    fn no_session(&self, connection: ConnectionId) {
        self.1.lock().insert(connection);
        self.0.lock().push(Told::Closed(connection));
    }

    fn close(&self, connection: ConnectionId) {
        self.1.lock().insert(connection);
        self.0.lock().push(Told::Closed(connection));
    }

    fn flush(&self) {}
}

impl Member<Post> {
    /// Takes a snapshot of the applied state, all of it at once.
    ///
    /// # Errors
    /// When the disk refuses; the log keeps everything.
    fn take_snapshot(&mut self) -> Result<(), StorageError> {
        let index = self.applied();
        let mut hold = self.applier.replica.exclusive();
        hold.database().begin_walk();
        let zxid = hold.database().last_zxid().0;
        let writer =
            SnapshotWriter::create(self.node.store().directory(), zxid, index, Compression::None)?;
        let tree = hold.database().tree();
        write_walk(writer, std::iter::from_fn(|| tree.advance_walk(u32::MAX, 0)))?;
        drop(hold);
        self.node.mut_store().snapshot_taken(SnapshotPlace { index, zxid });
        Ok(())
    }
}

struct Server {
    id: u64,
    disk: SimDisk,
    options: RecoveryOptions,
    member: Option<Member<Post>>,
    seen: Arc<Seen>,
    /// Its log when it was last seen, and its promise.
    chain: Chain,
    promise: (u64, u64),
    /// Its clients.
    clients: Vec<Client>,
}

/// A client: it sends to one member, on one connection at a time.
#[derive(Debug)]
struct Client {
    connection: ConnectionId,
    session: Option<SessionId>,
    /// Requests that are not answered, in their order.
    asked: VecDeque<i32>,
    /// The newest zxid that an answer had.
    seen: Zxid,
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

    fn play(seed: u64, flaw: Flaw) -> Result<Self, String> {
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
                seen: Arc::default(),
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
            outcome: Outcome::default(),
            trace: DefaultHasher::new(),
        };
        (0..MEMBERS as usize).try_for_each(|at| world.start(at))?;
        for step in 0..STEPS {
            world.event().map_err(|violation| format!("step {step}: {violation}"))?;
        }
        world.heal().map_err(|violation| format!("healed: {violation}"))?;
        Ok(world)
    }

    fn event(&mut self) -> Checked {
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
        match done {
            Ok(()) => {}
            Err(EnsembleError::Storage(StorageError::Io { .. })) => {
                self.outcome.failures += 1;
                // What was sent before the power went is on its way, and its disk had what it told of.
                self.parcels.extend(sent);
                let log = &member.node.store().log;
                let held = |index| log.zxid(index).unwrap_or(0);
                self.servers[at].chain = (1..=log.last_index()).map(held).collect();
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

    /// Everything that must hold, after a member has done something.
    fn observe(&mut self, at: usize) -> Checked {
        let Server { id, member, chain, promise, .. } = &mut self.servers[at];
        let Some(member) = member else { return Ok(()) };
        let store = member.node.store();
        let before = chain.clone();
        self.checks.log(&store.log, chain)?;
        let kept = before.iter().zip(chain.iter()).take_while(|(was, is)| was == is).count();
        if kept < before.len() && kept < chain.len() && chain[kept] != 0 {
            self.outcome.cuts += 1;
        }
        *promise = (store.promises.get().term, store.promises.get().vote);
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

    /// Answers come in the order of the requests, and their zxids never fall.
    fn answered(&mut self, at: usize, connection: ConnectionId, xid: i32, zxid: Zxid) -> Checked {
        let Server { clients, member, .. } = &mut self.servers[at];
        let leads = member.as_ref().is_some_and(|member| member.is_leading());
        self.outcome.by_followers += u64::from(!leads);
        let Some(client) = clients.iter_mut().find(|client| client.connection == connection) else {
            return Ok(());
        };
        let due = client.asked.pop_front();
        if due != Some(xid) {
            return Err(format!("{connection:?} has the answer to {xid}, and waits for {due:?}"));
        }
        if zxid < client.seen {
            return Err(format!("{connection:?} saw {}, then {zxid}", client.seen));
        }
        client.seen = zxid;
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
        let mut installed = false;
        self.try_with(to, |member| {
            let zxid = zxid_of(message.get_snapshot()).expect("a zxid");
            let mut received =
                ReceivedSnapshot::create(Arc::clone(member.directory()), zxid, Compression::None)?;
            bytes.chunks(700).try_for_each(|piece| received.write(piece))?;
            let before = member.applied();
            member.receive_snapshot(message, received, now)?;
            installed = member.applied() > before;
            Ok(())
        })?;
        self.outcome.installed += u64::from(installed);
        if installed && let Some(member) = &self.servers[to].member {
            self.checks.model(member.applied(), &member.replica().shared())?;
        }
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

    fn request(&mut self, at: usize) -> Checked {
        let Some(member) = &self.servers[at].member else { return Ok(()) };
        let sessions: Vec<SessionId> = {
            let database = member.replica().shared();
            let mut sessions: Vec<_> = database.sessions().keys().copied().collect();
            sessions.sort_unstable();
            sessions
        };
        // Sessions of before are left by their clients.
        if sessions.len() > 6 && self.dice.below(4) == 0 {
            let left = [Chore::Expire(sessions[0])];
            self.try_with_now(at, |member, now| member.do_chores(&left, now))?;
        }
        if self.servers[at].clients.len() < 2 {
            self.next_connection += 1;
            let connection = ConnectionId::on(at as u8 + 1, self.next_connection);
            let (asked, seen) = (VecDeque::new(), Zxid::ZERO);
            self.servers[at].clients.push(Client { connection, session: None, asked, seen });
            let work = Work::Open { timeout_ms: 4000 };
            return self.submit(at, connection, SessionId::NONE, vec![work]);
        }
        let which = self.dice.below(2) as usize;
        let client = &self.servers[at].clients[which];
        let Client { connection, session: Some(session), .. } = *client else { return Ok(()) };
        if client.asked.len() > 20 {
            return Ok(());
        }
        let works: Vec<Work> = if self.dice.below(40) == 0 {
            vec![Work::Request(Request::CloseSession)]
        } else {
            (0..=self.dice.below(3)).map(|_| self.ask()).collect()
        };
        self.submit(at, connection, session, works)
    }

    fn submit(
        &mut self,
        at: usize,
        connection: ConnectionId,
        session: SessionId,
        works: Vec<Work>,
    ) -> Checked {
        let mut submissions = Vec::new();
        for work in works {
            self.xid += 1;
            let origin = Origin {
                connection,
                session,
                xid: self.xid,
                identities: Arc::new([]),
                received: self.now.monotonic,
            };
            let room = Arc::clone(&self.room).try_acquire_owned().expect("room");
            let client =
                self.servers[at].clients.iter_mut().find(|client| client.connection == connection);
            client.expect("a client").asked.push_back(self.xid);
            submissions.push(Submission { origin, work, room: Some(room) });
        }
        self.with(at, |member, _| member.submit(submissions))
    }

    /// A client goes on at another member, or at the same one, before anybody misses it.
    fn move_session(&mut self, to: usize) -> Checked {
        if self.servers[to].member.is_none() {
            return Ok(());
        }
        let all = self.servers.iter().flat_map(|server| &server.clients);
        let sessions: Vec<SessionId> = all.filter_map(|client| client.session).collect();
        let Some(session) = sessions.get(self.dice.below(sessions.len().max(1) as u64) as usize)
        else {
            return Ok(());
        };
        self.next_connection += 1;
        let connection = ConnectionId::on(to as u8 + 1, self.next_connection);
        let (asked, seen) = (VecDeque::new(), Zxid::ZERO);
        let session = *session;
        let client = Client { connection, session: Some(session), asked, seen };
        self.servers[to].clients.push(client);
        self.submit(to, connection, session, vec![Work::Attach { timeout_ms: 4000 }])
    }

    fn ask(&mut self) -> Work {
        match self.dice.below(8) {
            0 => {
                let path = format!("/k{}", self.dice.below(6)).into();
                Work::Request(Request::GetData(WatchRequest { path, watch: false }))
            }
            1 => Work::Request(Request::Sync(SyncRequest { path: None })),
            _ => self.write(),
        }
    }

    fn write(&mut self) -> Work {
        let path = format!("/k{}", self.dice.below(6));
        let len = if self.dice.below(30) == 0 { 900 } else { self.dice.below(60) };
        let data = vec![self.dice.next() as u8; len as usize];
        let create = |path: String, mode: CreateMode, data: Vec<u8>| CreateRequest {
            path: path.into(),
            data: Some(data.into()),
            acl: Some(vec![Acl::anyone(perms::ALL)]),
            flags: mode.flags(),
        };
        let set = |path: String, data: Vec<u8>| SetDataRequest {
            path: path.into(),
            data: Some(data.into()),
            version: -1,
        };
        Work::Request(match self.dice.below(10) {
            0 | 1 => Request::Create(create(path, CreateMode::Persistent, data)),
            2 => Request::Create(create("/s-".into(), CreateMode::PersistentSequential, data)),
            3 => Request::Create(create("/e-".into(), CreateMode::EphemeralSequential, data)),
            4 => Request::Delete(DeleteRequest { path: path.into(), version: -1 }),
            5 => Request::Multi(vec![
                MultiOp::SetData(set(path, data.clone())),
                MultiOp::Create(create("/m-".into(), CreateMode::PersistentSequential, data)),
            ]),
            _ => Request::SetData(set(path, data)),
        })
    }

    fn snapshot(&mut self, at: usize) -> Checked {
        let (purges, keep) = (self.dice.coin(), 1 + self.dice.below(2) as usize);
        let mut purged = 0;
        self.try_with(at, |member| {
            if member.applied() > 0 {
                member.take_snapshot()?;
            }
            if purges {
                purged = member.purge(keep)?.logs;
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
            id: server.id,
            voters: (1..=MEMBERS).collect(),
            learners: Vec::new(),
            recovery: server.options,
            rules: Rules::default(),
            seed: self.seed,
        };
        let post =
            Post { id: server.id, forges: self.flaw == Flaw::AckBeforeQuorum, ..Post::default() };
        let clients: Arc<dyn Clients> = Arc::clone(&server.seen) as _;
        let started = DataDirectory::open(disk, &options)
            .map_err(EnsembleError::from)
            .and_then(|directory| ensemble.start(Arc::new(directory)))
            .and_then(|started| Member::new(ensemble, started, clients, post, 1000));
        let member = match started {
            Ok(mut member) => {
                (1..=MEMBERS).filter(|peer| *peer != server.id).for_each(|peer| member.found(peer));
                member
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
        let mut filler = member.spare_filler();
        while self.dice.coin() {
            match filler.step() {
                Ok(FillStep::Idle) | Err(_) => break,
                Ok(_) => {}
            }
        }
        let promises = member.node.store().promises.get();
        let promise = (promises.term, promises.vote);
        let before = server.promise;
        // What a completed step has promised stays promised.
        let kept = promise.0 > before.0
            || promise.0 == before.0 && (before.1 == 0 || promise.1 == before.1);
        if self.flaw == Flaw::None && !kept {
            return Err(format!("member {}: promised {before:?}, then {promise:?}", at + 1));
        }
        self.checks.model(member.applied(), &member.replica().shared())?;
        server.member = Some(member);
        // All of it is read again.
        server.chain.clear();
        self.observe(at)
    }

    /// Nothing fails any more: everybody comes to the same state, and a write is answered.
    fn heal(&mut self) -> Checked {
        self.parted = Default::default();
        for at in 0..MEMBERS as usize {
            self.servers[at].disk.fail_after(u64::MAX / 2, Fault::PowerLoss);
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
