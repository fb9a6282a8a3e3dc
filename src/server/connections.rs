//! The open connections: where the orderer's answers and events go.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::BytesMut;
use hashbrown::HashMap;
use jute::perms;
use jute::protocol::{EventType, LENGTH_LEN, put_event};
use jute::txn::Txn;
use parking_lot::{Mutex, RwLock};

use super::audit::Audit;
use super::clock::Clock;
use super::connection::Connection;
use super::figures::namespace;
use super::figures::series::{Counter, KeyedCounter, Measure};
use super::figures::stats::{self, Stats};
use super::password::Passwords;
use super::unsent::Unsent;
use crate::engine::acl;
use crate::engine::request::Origin;
use crate::engine::session::SessionId;
use crate::engine::time::WallClock;
use crate::engine::tracker::Attached;
use crate::engine::watch::{ConnectionId, Event};
use crate::engine::zxid::Zxid;
use crate::ensemble::{Answer, Clients, Kind, Queue};

/// Connections that the orderer sends for without the sender's help.
const SENT_ALONE: usize = 32;

/// The open connections.
#[derive(Debug)]
pub(super) struct Connections {
    open: RwLock<HashMap<ConnectionId, Arc<Connection>>>,
    next_id: AtomicU64,
    /// How many each address has.
    by_address: Mutex<HashMap<IpAddr, u32>>,
    /// Those that the group in progress has something for.
    touched: Mutex<Vec<Arc<Connection>>>,
    /// Those of earlier groups that are still to be sent for.
    unsent: Arc<Unsent>,
    /// What waits for the orderer.
    queue: Arc<Queue>,
    clock: Clock,
    stats: Arc<Stats>,
    passwords: Arc<Passwords>,
    audit: Option<Arc<Audit>>,
}

impl Connections {
    /// Those of a server of an ensemble, or of a standalone one, whose id in connections is 0.
    pub(super) fn new(
        server: u8,
        queue: Arc<Queue>,
        clock: Clock,
        stats: Arc<Stats>,
        passwords: Arc<Passwords>,
        audit: Option<Arc<Audit>>,
    ) -> Self {
        Self {
            open: RwLock::new(HashMap::new()),
            next_id: AtomicU64::new(first_id(server, Clock::wall()).0),
            by_address: Mutex::new(HashMap::new()),
            touched: Mutex::new(Vec::new()),
            unsent: Arc::default(),
            queue,
            clock,
            stats,
            passwords,
            audit,
        }
    }

    /// What the sender's thread has to do.
    pub(super) fn unsent(&self) -> Arc<Unsent> {
        Arc::clone(&self.unsent)
    }

    /// A number for a connection that is about to be added.
    pub(super) fn next_id(&self) -> ConnectionId {
        ConnectionId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes a place for a connection from `address`, unless it has `max` already or all together have `max_all`.
    pub(super) fn admit(&self, address: IpAddr, max: Option<u32>, max_all: Option<u32>) -> bool {
        if max_all.is_some_and(|max| self.count() >= max as usize) {
            return false;
        }
        let mut by_address = self.by_address.lock();
        let count = by_address.entry(address).or_insert(0);
        if max.is_some_and(|max| *count >= max) {
            return false;
        }
        *count += 1;
        true
    }

    /// Gives the place back.
    pub(super) fn leave(&self, address: IpAddr) {
        let mut by_address = self.by_address.lock();
        if let Some(count) = by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&address);
            }
        }
    }

    pub(super) fn add(&self, connection: &Arc<Connection>) {
        self.open.write().insert(connection.id(), Arc::clone(connection));
    }

    pub(super) fn remove(&self, connection: ConnectionId) {
        let removed = self.open.write().remove(&connection);
        if let (Some(audit), Some(connection)) = (&self.audit, removed) {
            for asked in connection.audited().drain(..).flatten() {
                audit.answered(&asked, None);
            }
        }
    }

    pub(super) fn count(&self) -> usize {
        self.open.read().len()
    }

    /// All of them, oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Connection>> {
        let mut all: Vec<Arc<Connection>> = self.open.read().values().cloned().collect();
        all.sort_unstable_by_key(|connection| connection.id());
        all
    }

    pub(super) fn get(&self, connection: ConnectionId) -> Option<Arc<Connection>> {
        self.open.read().get(&connection).cloned()
    }

    fn touch(&self, connection: Arc<Connection>) {
        if connection.mark_touched() {
            self.touched.lock().push(connection);
        }
    }
}

/// Above those of an earlier life: other members may still speak of them.
const fn first_id(server: u8, wall: WallClock) -> ConnectionId {
    ConnectionId::on(server, (wall.0.cast_unsigned() / 1000 % (1 << 32)) << 16)
}

impl Clients for Connections {
    fn is_open(&self, connection: ConnectionId) -> bool {
        self.open.read().get(&connection).is_some_and(|its| !its.outbox().is_ended())
    }

    /// An event is encoded once, whoever receives it.
    fn events(&self, events: &[Event]) {
        let series = &self.stats.series;
        let mut frame = BytesMut::new();
        for event in events {
            let measure = match event.event_type {
                EventType::NodeCreated => Measure::CreatedWatchers,
                EventType::NodeDeleted => Measure::DeletedWatchers,
                EventType::NodeDataChanged => Measure::ChangedWatchers,
                EventType::NodeChildrenChanged => Measure::ChildrenWatchers,
            };
            series.record(measure, event.receivers.len() as u64);
            frame.clear();
            put_event(&mut frame, event.zxid.0, event.event_type, &event.path);
            for receiver in &event.receivers {
                let Some(connection) = self.get(*receiver) else { continue };
                let may_read = event
                    .readers
                    .as_ref()
                    .is_none_or(|list| acl::permits(list, perms::READ, &connection.identities()));
                if may_read {
                    stats::add(&self.stats.packets_sent, 1);
                    series.count(Counter::WatchBytes, (frame.len() - LENGTH_LEN) as u64);
                    connection.put_event(&frame);
                    self.touch(connection);
                }
            }
        }
    }

    fn refused_by_quota(&self, limited: &str) {
        if let Some(name) = namespace::of(limited) {
            self.stats.series.count_key(KeyedCounter::QuotaExceeded, name);
        }
    }

    fn applies(&self, txn: &Txn<'_>) {
        namespace::count_written(&self.stats.series, txn);
    }

    fn answer(&self, origin: &Origin, kind: Kind, zxid: Zxid, answer: Answer<'_>) {
        let Some(connection) = self.get(origin.connection) else { return };
        if connection.end_own_sync(&answer) {
            return;
        }
        if let Some(audit) = &self.audit {
            let asked = connection.audited().pop_front().flatten();
            if let Some(asked) = asked {
                audit.answered(&asked, Some(&answer));
            }
        }
        let now = self.clock.monotonic();
        stats::add(&self.stats.packets_sent, 1);
        self.stats.record_latency(kind, now.since(origin.received), 1);
        let len = connection.put_answer(origin, zxid, now, answer);
        self.stats.record_response_size(len, len, len);
        self.stats.series.count(Counter::ResponseBytes, len as u64);
        self.touch(connection);
    }

    fn attached(&self, connection: ConnectionId, attached: &Attached) {
        let Some(connection) = self.get(connection) else { return };
        stats::add(&self.stats.packets_sent, 1);
        connection.attached(attached, self.passwords.of(attached.session));
        self.touch(connection);
    }

    fn no_session(&self, connection: ConnectionId) {
        let Some(connection) = self.get(connection) else { return };
        connection.refuse_session();
        self.touch(connection);
    }

    fn ephemerals_end(&self, session: SessionId, paths: &[Cow<'_, str>]) {
        if let Some(audit) = &self.audit {
            paths.iter().for_each(|path| audit.ephemeral_gone(session, path));
        }
    }

    fn close(&self, connection: ConnectionId) {
        if let Some(connection) = self.get(connection) {
            connection.close();
        }
    }

    /// Sends. While the next group waits the sender's thread does, and of what goes to many it does a share: each send
    /// is a system call, in which that group could be on its way to the disk.
    fn flush(&self) {
        let mut touched = self.touched.lock();
        let is_busy = !self.queue.is_empty();
        if is_busy || touched.len() > SENT_ALONE {
            self.unsent.put(&mut touched);
        }
        for connection in touched.drain(..) {
            connection.send_now();
        }
        if !is_busy {
            self.unsent.send();
        }
    }
}
