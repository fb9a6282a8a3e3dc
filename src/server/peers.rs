//! The other servers of the ensemble: a connection out to each, over which this one speaks, and one
//! in from each.
//!
//! Names are looked up at each dial. What cannot be sent is dropped, and the connection with it, so
//! that both sides know that something was lost.

mod address;
mod admission;
mod asking;
mod complaints;
mod handed_secret;
mod hear;
mod hello;
mod introduction;
mod others;
mod refusal;
mod secret;
mod secure;
mod snapshot;
mod speak;
mod strangers;
mod tls;
mod unlisted;
mod voice;

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::BytesMut;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use self::address::Address;
use self::admission::Heard;
use self::complaints::Complaints;
use self::hear::accept;
use self::others::{Changed, Others};
pub(super) use self::secure::Security;
pub use self::secure::SecurityError;
use self::snapshot::{Pace, Part, send_snapshot};
use self::speak::speak;
use self::strangers::Strangers;
use self::voice::Voice;
use super::clock::Clock;
use super::descriptors;
use crate::config;
use crate::ensemble::founding::Founding;
use crate::ensemble::introduction::{Declined, Introduction, ProcessId};
use crate::ensemble::{
    Ensemble, FromPeer, KnownMembers, PeerMessage, PeerWord, Promised, Queue, Said, SnapshotStatus,
    Transport, member_id, put_said, server_of,
};
use crate::list::Servers;
use crate::message::MessageId;
use crate::storage::{DataDirectory, ReceivedSnapshot, SessionSecret, SnapshotFile, StorageError};

/// Bytes that may wait to be sent to a peer; it has to begin anew after them.
const UNSENT_MAX: usize = 64 << 20;
/// Questions of one server that are answered at the same time: it has one of each kind, and an
/// earlier process of it may have some.
const QUESTIONS_MAX: usize = 4;
const DIAL_MAX: Duration = Duration::from_secs(2);
/// How long what is sent may go without a word that it arrived.
const SILENT_MAX: Duration = Duration::from_secs(5);
/// How long the others have to say that another process speaks in the place of this one.
const REFUSAL_MAX: Duration = Duration::from_secs(2);
/// Between two dials of one peer.
const BETWEEN_DIALS: Duration = Duration::from_millis(100);

/// What is to be said to one peer.
#[derive(Debug, Default)]
struct Unsent {
    bytes: BytesMut,
    /// Bytes that are being sent, and stand in memory until they are.
    in_hand: usize,
    /// Whether there is a connection.
    is_up: bool,
    /// What is spoken over it.
    version: u32,
}

impl Unsent {
    fn len(&self) -> usize {
        self.bytes.len() + self.in_hand
    }
}

/// A peer.
#[derive(Debug)]
struct Peer {
    server: u8,
    /// As which member it answered last.
    id: AtomicU64,
    /// Which of its processes is spoken to, while there is a connection.
    process: Mutex<Option<ProcessId>>,
    /// Another of its processes is heard.
    left: Notify,
    /// The number of a probe of its that is to be answered; 0 for none.
    probed: AtomicU64,
    /// Where it is reached; `None` while it is no peer.
    address: watch::Sender<Option<Address>>,
    unsent: Mutex<Unsent>,
    arrived: Notify,
    /// More waits than may wait.
    overflowed: Notify,
    /// Why it was not reached.
    complaints: Mutex<Complaints>,
    /// Who else calls it as this server.
    probes: Mutex<Complaints>,
    /// How many more questions of it may be answered at the same time.
    questions: Arc<Semaphore>,
}

impl Peer {
    /// Not reached anywhere yet.
    fn new(server: u8) -> Self {
        Self {
            server,
            id: AtomicU64::new(member_id(server, 0)),
            process: Mutex::default(),
            left: Notify::new(),
            probed: AtomicU64::new(0),
            address: watch::Sender::default(),
            unsent: Mutex::default(),
            arrived: Notify::new(),
            overflowed: Notify::new(),
            complaints: Mutex::default(),
            probes: Mutex::default(),
            questions: Arc::new(Semaphore::new(QUESTIONS_MAX)),
        }
    }

    /// From here on it is reached there, and nothing is said over a connection to elsewhere.
    fn is_reached_at(&self, address: Option<Address>) {
        // Under the lock, so that no connection to elsewhere begins to speak after it.
        let mut unsent = self.unsent.lock();
        if !self.address.send_if_modified(|its| std::mem::replace(its, address.clone()) != address)
        {
            return;
        }
        unsent.is_up = false;
        unsent.bytes.clear();
        drop(unsent);
        *self.complaints.lock() = Complaints::default();
    }

    fn address(&self) -> Option<Address> {
        self.address.borrow().clone()
    }

    /// One of its processes is heard from here on: no other one is spoken to.
    fn hears_from(&self, process: ProcessId) {
        if self.process.lock().is_some_and(|spoken_to| spoken_to != process) {
            self.left.notify_one();
        }
    }
}

type Check = fn(&Ensemble, &PeerMessage, &mut ReceivedSnapshot) -> Result<(), StorageError>;
type LookUp = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// Which member of which ensemble this server is.
#[derive(Debug, Clone, Copy)]
struct Own {
    id: u64,
    ensemble: u64,
    /// What its directory held when this process began: as much as every earlier one can have
    /// shown.
    promised: Promised,
}

/// What the tasks of all connections share.
#[derive(Debug)]
struct Common {
    server: u8,
    /// Drawn by this process.
    process: ProcessId,
    own: Mutex<Own>,
    others: Others,
    /// Whether servers that are not in the list are talked to when they call.
    meets_unlisted: bool,
    /// The members that this server knows of.
    known: Mutex<KnownMembers>,
    /// What passwords of sessions are made with, where there is a key.
    session_secret: OnceLock<SessionSecret>,
    /// What it is to those that ask.
    introduction: Mutex<Introduction>,
    /// What it was asked last to belong to, and is not fit for.
    declined: Mutex<Option<Declined>>,
    /// As its founder, what it asks others to belong to.
    founding: Mutex<Founding>,
    queue: Arc<Queue>,
    directory: Arc<DataDirectory>,
    /// How a start would read what is received.
    ensemble: Ensemble,
    /// Whether a start can be made from a snapshot.
    check: Check,
    clock: Clock,
    ending: CancellationToken,
    runtime: Handle,
    security: Security,
    /// The addresses of a name, as the system has them now.
    look_up: LookUp,
    strangers: Arc<Strangers>,
    complaints: Mutex<Complaints>,
    /// Each server that was heard.
    heard: Mutex<HashMap<u8, Heard>>,
    /// Whether this process may speak.
    voice: Voice,
    /// One snapshot is received at a time, until it is installed or turns out not to be needed.
    receiving: Arc<Semaphore>,
    /// What came of one whose sender was lost.
    part: Mutex<Option<Part>>,
    /// How fast snapshots go out.
    pace: Pace,
}

/// The way to the other servers.
#[derive(Debug)]
pub(super) struct Peers(Arc<Common>);

impl Peers {
    /// Within the runtime that is to carry the connections. With `meets_unlisted`, servers that are
    /// not in the list are talked to when they call.
    pub(super) fn new(
        (ensemble, meets_unlisted): (&config::Ensemble, bool),
        security: Security,
        queue: Arc<Queue>,
        directory: Arc<DataDirectory>,
        starts: Ensemble,
        clock: Clock,
        ending: CancellationToken,
    ) -> Self {
        let server = ensemble.my_id;
        let others = Others::new(server, &ensemble.list.servers);
        let own = Own { id: member_id(server, 0), ensemble: 0, promised: Promised::default() };
        let voice = Voice::new(others.to_ask().iter().map(|peer| peer.server));
        let common = Common {
            server,
            process: ProcessId(introduction::draw()),
            own: Mutex::new(own),
            others,
            meets_unlisted,
            known: Mutex::default(),
            session_secret: OnceLock::new(),
            introduction: Mutex::default(),
            declined: Mutex::default(),
            founding: Mutex::default(),
            queue,
            directory,
            ensemble: starts,
            check: Ensemble::check,
            clock,
            ending,
            runtime: Handle::current(),
            security,
            look_up: |host, port| Ok((host, port).to_socket_addrs()?.collect()),
            strangers: Arc::new(Strangers::new(descriptors::strangers())),
            complaints: Mutex::default(),
            heard: Mutex::default(),
            voice,
            receiving: Arc::new(Semaphore::new(1)),
            part: Mutex::default(),
            pace: Pace::new(ensemble.snap_sync_bytes),
        };
        Self(Arc::new(common))
    }

    /// Takes those that dial this server.
    pub(super) fn listen(&self, listener: TcpListener) {
        let task = accept(listener, Arc::clone(&self.0));
        self.0.runtime.spawn(self.0.ending.clone().run_until_cancelled_owned(task));
    }

    /// Dials the others, as the member `id` of an ensemble, which makes passwords of sessions with
    /// `secret`. `promised` is what its directory holds now. As its founder, has those belong to it
    /// that have not answered yet.
    pub(super) fn start(
        &self,
        id: u64,
        ensemble: u64,
        promised: Promised,
        secret: Option<&SessionSecret>,
        (asks, founding): (Vec<u8>, Founding),
    ) {
        if let Some(secret) = secret {
            let _ = self.0.session_secret.set(secret.clone());
        }
        *self.0.own.lock() = Own { id, ensemble, promised };
        self.offers(founding);
        self.ask_to_belong(asks);
        let common = Arc::clone(&self.0);
        let wait = async move {
            tokio::time::sleep(REFUSAL_MAX).await;
            common.voice.has_waited();
            loop {
                tokio::time::sleep(BETWEEN_DIALS).await;
                common.voice.pass_to(std::time::Instant::now());
            }
        };
        self.0.runtime.spawn(self.0.ending.clone().run_until_cancelled_owned(wait));
        self.0.speak_to(self.0.others.begin_to_speak());
    }

    /// Whether this process may not speak to the others.
    pub(super) fn is_silent(&self) -> bool {
        !self.0.voice.is_given()
    }

    /// What those are asked to belong to that have not answered: the members as they are now.
    pub(super) fn offers(&self, founding: Founding) {
        *self.0.founding.lock() = founding;
    }

    /// Who belongs to the ensemble, and how far this member is.
    pub(super) fn know(&self, known: KnownMembers) {
        self.0.introduction.lock().knows(&known);
        *self.0.known.lock() = known.clone();
        self.0.hear_removed_no_more(&known);
        self.0.follow(self.0.others.know(&known));
    }

    /// From here on these are the servers of the list. One that is not among them stays a peer as
    /// long as it is a member, and this server itself is none.
    pub(super) fn set_list(&self, servers: &Servers) {
        let known = self.0.known.lock().clone();
        self.0.follow(self.0.others.set_list(servers, &known));
    }

    /// Has something said that was not known before this version.
    fn put(&self, to: u64, said: &Said, since_version: u32) {
        let peer = self.0.others.get(server_of(to));
        let Some(peer) = peer.filter(|peer| peer.id.load(Ordering::Relaxed) == to) else { return };
        let mut unsent = peer.unsent.lock();
        // An earlier release takes what it does not know for damage.
        if !unsent.is_up || unsent.version < since_version {
            return;
        }
        if unsent.len() > UNSENT_MAX {
            unsent.is_up = false;
            peer.overflowed.notify_one();
            return;
        }
        put_said(&mut unsent.bytes, said);
        drop(unsent);
        peer.arrived.notify_one();
    }
}

impl Transport for Peers {
    fn send(&mut self, message: PeerMessage) {
        self.put(message.to, &Said::Message(message), 1);
    }

    fn say(&mut self, to: u64, word: PeerWord) {
        let since = word.since_version();
        self.put(to, &Said::Word(word), since);
    }

    fn send_snapshot(&mut self, message: PeerMessage, file: SnapshotFile) {
        let (common, to) = (Arc::clone(&self.0), message.to);
        let Some(peer) = self.0.others.get(server_of(to)) else { return };
        self.0.runtime.spawn(async move {
            let status = match send_snapshot(&common, &peer, message, file).await {
                Ok(()) => SnapshotStatus::Finish,
                Err(error) => {
                    tracing::warn!(
                        id = %MessageId::SNAPSHOT_NOT_SENT,
                        peer = server_of(to),
                        %error,
                        "cannot send a snapshot"
                    );
                    SnapshotStatus::Failure
                }
            };
            common.queue.put_from_peer(FromPeer::SnapshotSent(to, status), None);
        });
    }

    fn version_with(&self, server: u8) -> Option<u32> {
        let spoken = self.0.others.get(server).and_then(|peer| {
            let unsent = peer.unsent.lock();
            unsent.is_up.then_some(unsent.version)
        });
        let heard = self.0.heard.lock().get(&server).and_then(Heard::version);
        spoken.into_iter().chain(heard).min()
    }

    fn hears_from(&self, server: u8) -> Option<IpAddr> {
        self.0.heard.lock().get(&server)?.address()
    }
}

impl Common {
    fn own(&self) -> Own {
        *self.own.lock()
    }

    /// Keeps connections to these.
    fn speak_to(self: &Arc<Self>, peers: Vec<Arc<Peer>>) {
        for peer in peers {
            let task = speak(Arc::clone(self), peer);
            self.runtime.spawn(self.ending.clone().run_until_cancelled_owned(task));
        }
    }

    /// Who are peers has changed.
    fn follow(self: &Arc<Self>, changed: Changed) {
        self.speak_to(changed.come);
        self.hear_gone_no_more(&changed.gone);
    }
}

async fn timeout<T>(
    patience: Duration,
    future: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "no answer");
    tokio::time::timeout(patience, future).await.unwrap_or_else(|_| Err(late()))
}

#[cfg(test)]
#[path = "peers/peers_test.rs"]
mod peers_test;
