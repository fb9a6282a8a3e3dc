//! A client's connection as its server has it: what came in, what is with the orderer, and what
//! went out, looked at on its way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jute::protocol::{EventType, Request};
use jute::txn::Txn;
use parking_lot::Mutex;

use super::Flaw;
use super::history::Reply;
use super::watches::Watches;
use crate::engine::decide::request::Origin;
use crate::engine::decide::tracker::Attached;
use crate::engine::path;
use crate::engine::time::Monotonic;
use crate::engine::watch::{ConnectionId, Event};
use crate::engine::zxid::Zxid;
use crate::ensemble::{Answer, Clients, RequestKind};

/// What clients of a server are told, in its order.
#[derive(Debug)]
pub(super) enum Told {
    Reply(ConnectionId, i32, Zxid, Reply),
    Event(ConnectionId, EventType, Arc<str>, Zxid),
    Attached(ConnectionId, Attached),
    NoSession(ConnectionId),
    Closed(ConnectionId),
}

/// Takes what a member has for the clients.
#[derive(Debug, Default)]
pub(super) struct Seen {
    flaw: Flaw,
    /// Events that come late, and how many there were, with that planted fault.
    late: Mutex<Vec<Told>>,
    events: AtomicU64,
    pub(super) now: Mutex<Monotonic>,
    pub(super) told: Mutex<Vec<Told>>,
    pub(super) open: Mutex<BTreeSet<ConnectionId>>,
}

impl Seen {
    pub(super) fn new(flaw: Flaw) -> Self {
        Self { flaw, ..Self::default() }
    }
}

impl Clients for Seen {
    fn now(&self) -> Monotonic {
        *self.now.lock()
    }

    fn is_open(&self, connection: ConnectionId) -> bool {
        self.open.lock().contains(&connection)
    }

    fn events(&self, events: &[Event]) {
        let told = if self.flaw == Flaw::EventLate { &self.late } else { &self.told };
        let mut told = told.lock();
        // Of the list the model knows nothing.
        for event in events.iter().filter(|event| *event.path != *path::CONFIG) {
            for receiver in &event.receivers {
                let number = self.events.fetch_add(1, Ordering::Relaxed);
                if self.flaw == Flaw::EventLost && number % 50 == 49 {
                    continue;
                }
                let path = Arc::clone(&event.path);
                told.push(Told::Event(*receiver, event.event_type, path, event.zxid));
            }
        }
    }

    fn applies(&self, _: &Txn<'_>) {}

    fn refused_by_quota(&self, _: &str) {}

    fn answer(
        &self,
        origin: &Origin,
        _: RequestKind<'_>,
        zxid: Zxid,
        _: Option<&str>,
        answer: Answer<'_>,
    ) {
        let reply = Reply::of(answer);
        let mut told = self.told.lock();
        told.push(Told::Reply(origin.connection, origin.xid, zxid, reply));
        told.append(&mut self.late.lock());
    }

    fn attached(&self, connection: ConnectionId, attached: &Attached) {
        self.told.lock().push(Told::Attached(connection, attached.clone()));
    }

    fn no_session(&self, connection: ConnectionId) {
        self.open.lock().remove(&connection);
        self.told.lock().push(Told::NoSession(connection));
    }

    fn end(&self, connection: ConnectionId) {
        self.close(connection);
    }

    fn close(&self, connection: ConnectionId) {
        if self.open.lock().remove(&connection) {
            self.told.lock().push(Told::Closed(connection));
        }
    }

    fn flush(&self) {}
}

/// A request that was sent and not answered.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) xid: i32,
    pub(super) request: Request<'static>,
    /// The newest transaction that any client had been told of when it was sent.
    pub(super) behind: i64,
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: usize,
    /// What its client sends once it has its session.
    pub(super) attached: Option<Attached>,
    /// In the order in which they were sent.
    pub(super) unanswered: VecDeque<Asked>,
    /// The end of the session that its client came with was final before.
    pub(super) is_over: bool,
    /// Since when the first of them has waited for the server to be young enough, by its clock.
    pub(super) waits_since: Option<Monotonic>,
    /// When the hold began under which it is read, where the server was frozen meanwhile.
    pub(super) hold_began: Option<Monotonic>,
    /// How many of those stand with the orderer; the server did not look at what is after.
    pub(super) with_orderer: usize,
    /// The greatest zxid that its client saw before, that it saw here or before, and of its own
    /// writes here.
    pub(super) came_with: i64,
    pub(super) seen: i64,
    pub(super) wrote: i64,
    pub(super) watches: Watches,
    /// When it was made, and when its client last heard something.
    pub(super) heard: u64,
    /// Something was sent since the server reported last.
    pub(super) is_news: bool,
    /// Answers to reads that were made before their turn, with that planted fault.
    pub(super) early: BTreeMap<i32, Reply>,
}

impl Connection {
    pub(super) fn new(client: usize, seen: i64, now: u64) -> Self {
        Self {
            client,
            attached: None,
            unanswered: VecDeque::new(),
            is_over: false,
            waits_since: None,
            hold_began: None,
            with_orderer: 0,
            came_with: seen,
            seen,
            wrote: 0,
            watches: Watches::default(),
            heard: now,
            is_news: false,
            early: BTreeMap::new(),
        }
    }
}
