//! The open connections: where the orderer's answers and events go.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use hashbrown::HashMap;
use jute::perms;
use jute::protocol::{EventType, LENGTH_LEN, put_event};
use jute::txn::Txn;
use parking_lot::{Mutex, RwLock};

use super::audit::{Audit, Came};
use super::connection::Connection;
use super::large_answers::LargeAnswers;
use super::outbox::LongEvent;
use super::password::Passwords;
use super::unread::{Claim, Unread};
use super::unsent::Unsent;
use crate::engine::decide::request::Origin;
use crate::engine::decide::tracker::Attached;
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, WallClock};
use crate::engine::watch::{ConnectionId, Event};
use crate::engine::zxid::Zxid;
use crate::ensemble::{Answer, Clients, Queue, RequestKind};
use crate::message::MessageId;
use crate::planted;
use crate::server::clock::Clock;
use crate::server::figures::namespace;
use crate::server::figures::series::{Counter, KeyedCounter, Measure};
use crate::server::figures::stats;
use crate::server::figures::stats::Stats;

/// Connections that the orderer sends for without the sender's help.
const SENT_ALONE: usize = 32;
/// Who has read nothing for so long is closed for those who wait for room.
const STALLED: Duration = Duration::from_millis(500);
/// How long somebody waits for room before anybody is closed who leaves something unread.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at who that is.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Connections that are taken from the list under one hold by whoever looks at all of them.
const LOOKED_AT: usize = 256;

/// The open connections.
#[derive(Debug)]
pub(in crate::server) struct Connections {
    open: RwLock<HashMap<ConnectionId, Arc<Connection>>>,
    /// The same, oldest first, for those who look at all: the orderer waits for none of them.
    in_order: Mutex<BTreeMap<ConnectionId, Arc<Connection>>>,
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
    unread: Arc<Unread>,
    large_answers: LargeAnswers,
}

impl Connections {
    /// Those of a server of an ensemble, or of a standalone one, whose id in connections is 0.
    pub(in crate::server) fn new(
        server: u8,
        queue: Arc<Queue>,
        clock: Clock,
        stats: Arc<Stats>,
        passwords: Arc<Passwords>,
        audit: Option<Arc<Audit>>,
        unread: Arc<Unread>,
    ) -> Self {
        Self {
            open: RwLock::new(HashMap::new()),
            in_order: Mutex::default(),
            next_id: AtomicU64::new(first_id(server, Clock::wall()).0),
            by_address: Mutex::new(HashMap::new()),
            touched: Mutex::new(Vec::new()),
            unsent: Arc::default(),
            queue,
            clock,
            stats,
            passwords,
            audit,
            unread,
            large_answers: LargeAnswers::default(),
        }
    }

    /// What all their clients have not read.
    pub(in crate::server) const fn unread(&self) -> &Arc<Unread> {
        &self.unread
    }

    /// An answer of so many bytes was made.
    #[inline]
    pub(in crate::server) fn made<'p>(
        &self,
        connection: &Connection,
        len: usize,
        path: impl FnOnce() -> Option<&'p str>,
        now: Monotonic,
    ) {
        self.large_answers.look_at(len, path, connection.peer(), now, &self.stats.series);
    }

    /// Waits for room for a large answer. Who has read nothing for a while is closed for it; later,
    /// whoever has read nothing for the longest. Those who want no more than a frame do not queue:
    /// those who want much could keep them there for ever.
    pub(in crate::server) async fn room(&self, bytes: usize) -> Claim {
        let is_a_frame = self.unread.is_a_frame(bytes);
        let _turn = if is_a_frame { None } else { Some(self.unread.turn.lock().await) };
        let began = Instant::now();
        loop {
            if let Some(taken) = self.look_for_room(bytes, began) {
                return taken;
            }
            self.unread.wait(BETWEEN_LOOKS).await;
        }
    }

    /// Takes room for somebody who began to wait for it then, and closes for it who is to be
    /// closed.
    fn look_for_room(&self, bytes: usize, began: Instant) -> Option<Claim> {
        let mut hurried = self.unread.look.lock();
        loop {
            if let Some(taken) = self.unread.try_take_waited(bytes) {
                return Some(taken);
            }
            if self.close_longest(STALLED) {
                continue;
            }
            // Many may wait for a frame: they have one patience together.
            let is_a_frame = self.unread.is_a_frame(bytes);
            let since = hurried.filter(|_| is_a_frame).map_or(began, |last| last.max(began));
            if since.elapsed() < PATIENCE || !self.close_longest(Duration::ZERO) {
                return None;
            }
            if is_a_frame {
                *hurried = Some(Instant::now());
            }
        }
    }

    /// Closes those who have read nothing for the longest while more waits than may, `connection`
    /// being what something was put into last.
    pub(in crate::server) fn shed(&self, connection: &Connection) {
        if !self.unread.is_over() {
            return;
        }
        // Whether anybody reads it shows when it is sent.
        connection.send_some();
        if connection.outbox().own_len() > self.unread.half() {
            self.tell_unread(connection, connection.outbox().own_len());
            connection.close();
        }
        while self.unread.is_over() && self.close_longest(Duration::ZERO) {}
    }

    /// Closes the connection whose client has read nothing for the longest, if that is so long.
    /// False if there is none.
    fn close_longest(&self, at_least: Duration) -> bool {
        let Some(longest) = self.unread.longest(at_least) else { return false };
        match self.get(longest.connection) {
            // It may have read something meanwhile.
            Some(connection) => {
                if let Some(len) = connection.close_unread(longest.rank) {
                    self.tell_unread(&connection, len);
                }
            }
            None => self.unread.leave(longest.rank),
        }
        true
    }

    fn tell_unread(&self, connection: &Connection, bytes: usize) {
        self.stats.series.count(Counter::UnreadClosed, 1);
        tracing::warn!(
            id = %MessageId::UNREAD_TOO_MUCH,
            client = %connection.peer(),
            bytes,
            "closing the connection that has gone longest without reading: clients together leave \
             too much unread"
        );
    }

    /// Closes a connection after what it was told: the next answer would be too old. Where there
    /// is a hold that it was read under, this is to be called under it: what fires later is not
    /// told either.
    pub(in crate::server) fn end_too_old(&self, connection: &Connection) {
        if connection.outbox().is_ended() {
            return;
        }
        connection.end();
        self.stats.series.count(Counter::ReadsTooOldClosed, 1);
        tracing::warn!(
            id = %MessageId::READ_TOO_OLD,
            client = %connection.peer(),
            "closing a connection: its next answer may be older than syncLimit"
        );
    }

    /// What the sender's thread has to do.
    pub(in crate::server) fn unsent(&self) -> Arc<Unsent> {
        Arc::clone(&self.unsent)
    }

    /// A number for a connection that is about to be added.
    pub(in crate::server) fn next_id(&self) -> ConnectionId {
        ConnectionId(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Takes a place for a connection from `address`, unless it has `max` already or all together
    /// have `max_all`.
    pub(in crate::server) fn admit(
        &self,
        address: IpAddr,
        max: Option<u32>,
        max_all: Option<u32>,
    ) -> bool {
        if max_all.is_some_and(|max| self.count() >= max as usize) {
            return false;
        }
        let mut by_address = self.by_address.lock();
        let count = by_address.entry(address).or_insert(0);
        if max.is_some_and(|max| *count >= max) && !planted::is("address-limit-off") {
            return false;
        }
        *count += 1;
        true
    }

    /// Gives the place back.
    pub(in crate::server) fn leave(&self, address: IpAddr) {
        let mut by_address = self.by_address.lock();
        if let Some(count) = by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&address);
            }
        }
    }

    pub(in crate::server) fn add(&self, connection: &Arc<Connection>) {
        self.in_order.lock().insert(connection.id(), Arc::clone(connection));
        self.open.write().insert(connection.id(), Arc::clone(connection));
    }

    pub(in crate::server) fn remove(&self, connection: ConnectionId) {
        let removed = self.open.write().remove(&connection);
        self.in_order.lock().remove(&connection);
        if let (Some(audit), Some(connection)) = (&self.audit, removed) {
            let changes = connection.audited().take_all();
            for change in changes {
                audit.never_answered(change);
            }
        }
    }

    pub(in crate::server) fn count(&self) -> usize {
        self.open.read().len()
    }

    /// Some of them, oldest first, from the one after `last` on; empty when there are no more.
    pub(in crate::server) fn after(&self, last: Option<ConnectionId>) -> Vec<Arc<Connection>> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let in_order = self.in_order.lock();
        in_order
            .range((from, Bound::Unbounded))
            .take(LOOKED_AT)
            .map(|(_, its)| Arc::clone(its))
            .collect()
    }

    /// Looks at all of them, oldest first, a few at a time; not at who comes meanwhile.
    pub(in crate::server) fn each(&self, mut look: impl FnMut(&Connection)) {
        let looked: Result<(), Infallible> = self.try_each(|connection| {
            look(connection);
            Ok(())
        });
        let Ok(()) = looked;
    }

    /// The same until `look` fails.
    ///
    /// # Errors
    /// That of `look`.
    pub(in crate::server) fn try_each<E>(
        &self,
        mut look: impl FnMut(&Connection) -> Result<(), E>,
    ) -> Result<(), E> {
        let end = ConnectionId(self.next_id.load(Ordering::Relaxed));
        let mut last = None;
        loop {
            let some = self.after(last);
            let mut of_then = some.iter().filter(|connection| connection.id() < end);
            of_then.try_for_each(|connection| look(connection))?;
            last = some.last().map(|connection| connection.id());
            if last.is_none_or(|last| last >= end) {
                return Ok(());
            }
        }
    }

    pub(in crate::server) fn get(&self, connection: ConnectionId) -> Option<Arc<Connection>> {
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
    fn now(&self) -> Monotonic {
        self.clock.monotonic()
    }

    fn is_open(&self, connection: ConnectionId) -> bool {
        self.open.read().get(&connection).is_some_and(|its| !its.outbox().is_ended())
    }

    fn accepts_read_only(&self, connection: ConnectionId) -> bool {
        self.get(connection).is_some_and(|connection| connection.accepts_read_only())
    }

    /// An event is encoded once, whoever receives it, and a long one is not copied.
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
            let len = frame.len() - LENGTH_LEN;
            let long = LongEvent::of(&mut frame, &self.unread);
            for receiver in &event.receivers {
                let Some(connection) = self.get(*receiver) else { continue };
                let may_read = event
                    .readers
                    .as_ref()
                    .is_none_or(|list| connection.identities().may(list, perms::READ));
                if may_read {
                    self.stats.told(1, len as u64);
                    connection.put_event(&frame, long.as_ref());
                    self.shed(&connection);
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

    fn answer(
        &self,
        origin: &Origin,
        kind: RequestKind<'_>,
        zxid: Zxid,
        path: Option<&str>,
        answer: Answer<'_>,
    ) {
        let Some(connection) = self.get(origin.connection) else { return };
        if connection.end_own_sync(&answer) {
            return;
        }
        let behind = self.audit.as_ref().map(|audit| {
            let change = connection.audited().pop();
            let number = match change {
                Some(change) => audit.answered(change, Came::of(&answer), &connection),
                // The end of a session is told by its ephemerals.
                None if connection.is_leaving() => audit.after_all(&connection),
                None => 0,
            };
            (number, audit.open_up_to())
        });
        let now = self.clock.monotonic();
        stats::add(&self.stats.packets_sent, 1);
        self.stats.record_latency(kind, now.since(origin.received), 1);
        let len = connection.put_answer(origin, zxid, now, answer, behind);
        self.made(&connection, len, || path, now);
        self.shed(&connection);
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
        connection.refuse_session(false);
        self.touch(connection);
    }

    fn no_read_only_session(&self, connection: ConnectionId) {
        let Some(connection) = self.get(connection) else { return };
        connection.refuse_session(true);
        self.touch(connection);
    }

    fn ephemerals_end(&self, session: SessionId, paths: &[Cow<'_, str>]) {
        if let Some(audit) = self.audit.as_ref().filter(|_| !paths.is_empty()) {
            let paths = paths.iter().map(|path| path.clone().into_owned());
            audit.ephemerals_gone(session, paths.collect());
        }
    }

    fn end(&self, connection: ConnectionId) {
        if let Some(connection) = self.get(connection) {
            self.end_too_old(&connection);
        }
    }

    fn close(&self, connection: ConnectionId) {
        if let Some(connection) = self.get(connection) {
            connection.close();
        }
    }

    /// Sends. While the next group waits the sender's thread does, and of what goes to many it does
    /// a share: each send is a system call, in which that group could be on its way to the disk.
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

#[cfg(test)]
#[path = "connections_test.rs"]
mod connections_test;
