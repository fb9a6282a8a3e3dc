//! The other servers of the ensemble: a connection out to each, over which this one speaks, and one in from each.
//!
//! Names are looked up at each dial. What cannot be sent is dropped, and the connection with it, so that both sides know
//! that something was lost.

mod complaints;
mod hear;
mod hello;
mod secret;
mod secure;
mod snapshot;
mod speak;
mod strangers;
mod tls;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use self::complaints::Complaints;
use self::hear::accept;
pub(super) use self::secure::Security;
pub use self::secure::SecurityError;
use self::snapshot::{Pace, Part, send_snapshot};
use self::speak::speak;
use self::strangers::Strangers;
use super::clock::Clock;
use crate::config;
use crate::ensemble::{
    FromPeer, PeerMessage, Queue, Said, SnapshotStatus, Transport, Word, member_id, put_said,
};
use crate::storage::{DataDirectory, SnapshotFile};

/// Bytes that may wait to be sent to a peer; it has to begin anew behind them.
const UNSENT_MAX: usize = 64 << 20;
const DIAL_MAX: Duration = Duration::from_secs(2);
/// How long what is sent may go without a word that it arrived.
const SILENT_MAX: Duration = Duration::from_secs(5);
/// Between two dials of one peer.
const BETWEEN_DIALS: Duration = Duration::from_millis(100);

/// What is to be said to one peer.
#[derive(Debug, Default)]
struct Unsent {
    bytes: BytesMut,
    /// Whether there is a connection.
    is_up: bool,
}

/// A peer.
#[derive(Debug)]
struct Peer {
    id: u64,
    host: String,
    port: u16,
    unsent: Mutex<Unsent>,
    arrived: Notify,
    /// More waits than may wait.
    overflowed: Notify,
}

type LookUp = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// What the tasks of all connections share.
#[derive(Debug)]
struct Common {
    own_id: u64,
    peers: HashMap<u64, Arc<Peer>>,
    queue: Arc<Queue>,
    directory: Arc<DataDirectory>,
    clock: Clock,
    ending: CancellationToken,
    runtime: Handle,
    security: Security,
    /// The addresses of a name, as the system has them now.
    look_up: LookUp,
    strangers: Arc<Strangers>,
    complaints: Mutex<Complaints>,
    /// The number of the newest connection from each peer, and what ends it when there is a newer one.
    newest: Mutex<HashMap<u64, (u64, CancellationToken)>>,
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
    /// Within the runtime that is to carry the connections.
    pub(super) fn new(
        ensemble: &config::Ensemble,
        own_id: u64,
        security: Security,
        queue: Arc<Queue>,
        directory: Arc<DataDirectory>,
        clock: Clock,
        ending: CancellationToken,
    ) -> Self {
        let others = ensemble.servers.iter().filter(|(id, _)| **id != ensemble.my_id);
        let peers = others.map(|(id, server)| {
            let id = member_id(*id, super::member::FIRST_LIFE);
            let peer = Peer {
                id,
                host: server.host.clone(),
                port: server.port,
                unsent: Mutex::default(),
                arrived: Notify::new(),
                overflowed: Notify::new(),
            };
            (id, Arc::new(peer))
        });
        let peers = peers.collect();
        let common = Common {
            own_id,
            peers,
            queue,
            directory,
            clock,
            ending,
            runtime: Handle::current(),
            security,
            look_up: |host, port| Ok((host, port).to_socket_addrs()?.collect()),
            strangers: Arc::default(),
            complaints: Mutex::default(),
            newest: Mutex::default(),
            receiving: Arc::new(Semaphore::new(1)),
            part: Mutex::default(),
            pace: Pace::new(ensemble.snap_sync_bytes),
        };
        Self(Arc::new(common))
    }

    /// Dials the others, and takes those that dial this server.
    pub(super) fn start(&self, listener: TcpListener) {
        for peer in self.0.peers.values() {
            let task = speak(Arc::clone(&self.0), Arc::clone(peer));
            tokio::spawn(self.0.ending.clone().run_until_cancelled_owned(task));
        }
        let task = accept(listener, Arc::clone(&self.0));
        tokio::spawn(self.0.ending.clone().run_until_cancelled_owned(task));
    }

    fn put(&self, to: u64, said: &Said) {
        let Some(peer) = self.0.peers.get(&to) else { return };
        let mut unsent = peer.unsent.lock();
        if !unsent.is_up {
            return;
        }
        if unsent.bytes.len() > UNSENT_MAX {
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
        self.put(message.to, &Said::Message(message));
    }

    fn say(&mut self, to: u64, word: Word) {
        self.put(to, &Said::Word(word));
    }

    fn send_snapshot(&mut self, message: PeerMessage, file: SnapshotFile) {
        let (common, to) = (Arc::clone(&self.0), message.to);
        let Some(peer) = self.0.peers.get(&to).map(Arc::clone) else { return };
        self.0.runtime.spawn(async move {
            let status = match send_snapshot(&common, &peer, message, file).await {
                Ok(()) => SnapshotStatus::Finish,
                Err(error) => {
                    tracing::warn!(peer = server_of(to), %error, "cannot send a snapshot");
                    SnapshotStatus::Failure
                }
            };
            common.queue.put_from_peer(FromPeer::SnapshotSent(to, status), None);
        });
    }
}

const fn server_of(member: u64) -> u64 {
    member & 0xff
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
