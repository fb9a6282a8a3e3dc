//! The clients: what they ask, where they go, and when they fall silent.

use jute::protocol::{
    AddWatchMode, AddWatchRequest, CheckVersionRequest, CreateRequest, DeleteRequest, MultiOp,
    Request, SetDataRequest, SyncRequest, WatchRequest,
};
use jute::{Acl, CreateMode, perms};

use super::connection::Asked;
use super::timeline::MS;
use super::watches::Watches;
use super::world::{Event, World};
use crate::engine::watch::ConnectionId;

/// Requests that a client lets stand unanswered.
const UNANSWERED_MAX: usize = 12;
/// How long it waits for a connection, and for an answer, before it goes elsewhere.
const PATIENCE: u64 = 1200 * MS;

/// The place of a server and one of its connections.
pub(super) type Place = (usize, ConnectionId);

#[derive(Debug)]
pub(super) struct Client {
    pub(super) session: Option<i64>,
    pub(super) timeout_ms: i32,
    /// The greatest zxid of an answer.
    pub(super) seen: i64,
    pub(super) connection: Option<Place>,
    /// One that it has given up, whose server may not know it.
    pub(super) left: Option<Place>,
    /// Watches of the last connection, to be set again.
    pub(super) watches: Watches,
    /// It was asked to close its session.
    pub(super) closing: bool,
    /// When it began to connect.
    since: u64,
    silent_until: u64,
    /// When the last of what it sent arrives.
    arrives: u64,
    sent: u64,
}

impl Client {
    pub(super) fn new() -> Self {
        Self {
            session: None,
            timeout_ms: 0,
            seen: 0,
            connection: None,
            left: None,
            watches: Watches::default(),
            closing: false,
            since: 0,
            silent_until: 0,
            arrives: 0,
            sent: 0,
        }
    }

    /// The session is no more.
    pub(super) fn forget(&mut self) {
        self.session = None;
        self.closing = false;
        self.watches = Watches::default();
    }
}

impl World {
    /// A client does what it does next.
    pub(super) fn client(&mut self, which: usize) {
        let now = self.timeline.now();
        if self.quiet {
            for place in [self.clients[which].connection.take(), self.clients[which].left.take()] {
                place.into_iter().for_each(|(at, id)| self.hang_up(at, id));
            }
            return;
        }
        let pause = 20 * MS + self.dice.below(self.haste);
        self.timeline.after(pause, Event::Client(which));
        if now < self.clients[which].silent_until {
            return;
        }
        self.client_left(which);
        let Some((at, id)) = self.clients[which].connection else {
            let at = self.dice.below(self.servers.len() as u64) as usize;
            return self.connect(which, at);
        };
        let is_attached =
            self.servers[at].connections.get(&id).map(|connection| connection.attached.is_some());
        match is_attached {
            Some(true) => self.talk(which, at, id),
            // It may still be on its way there.
            Some(false) | None if now < self.clients[which].since + PATIENCE => {}
            Some(false) | None => self.hang_up(at, id),
        }
    }

    fn talk(&mut self, which: usize, at: usize, id: ConnectionId) {
        let now = self.timeline.now();
        let connection = &self.servers[at].connections[&id];
        if connection.unanswered.len() >= UNANSWERED_MAX || self.clients[which].closing {
            if now > connection.heard + PATIENCE && self.dice.coin() {
                self.hang_up(at, id);
            }
            return;
        }
        let timeout = self.clients[which].timeout_ms.cast_unsigned();
        match self.dice.below(200) {
            0 => {
                self.clients[which].closing = true;
                self.ask(which, at, id, vec![Request::CloseSession]);
            }
            // Perhaps for too long.
            1 => {
                let ms = self.dice.below(3 * u64::from(timeout));
                self.clients[which].silent_until = now + ms * MS;
            }
            2 => self.hang_up(at, id),
            3 | 4 => {
                let to = self.dice.below(self.servers.len() as u64) as usize;
                let before = self.clients[which].left.replace((at, id));
                before.into_iter().for_each(|(at, id)| self.hang_up(at, id));
                self.keep_watches(which, at, id);
                self.connect(which, to);
            }
            5..10 if now < self.clients[which].sent + u64::from(timeout) * MS / 3 => {}
            10..20 => self.ask(which, at, id, vec![Request::Ping]),
            _ => {
                let count = 1 + self.dice.below(4);
                let requests = (0..count).map(|_| self.request()).collect();
                self.ask(which, at, id, requests);
            }
        }
    }

    /// What a client does with a connection that it has left: it may have sent something there, and
    /// sends some more.
    fn client_left(&mut self, which: usize) {
        let Some((at, id)) = self.clients[which].left else { return };
        match self.dice.below(4) {
            0 => {
                self.clients[which].left = None;
                self.hang_up(at, id);
            }
            1 | 2 => {
                let is_attached =
                    |connection: &super::connection::Connection| connection.attached.is_some();
                if self.servers[at].connections.get(&id).is_some_and(is_attached) {
                    let write = self.write();
                    self.ask(which, at, id, vec![write]);
                }
            }
            _ => {}
        }
    }

    pub(super) fn connect(&mut self, which: usize, at: usize) {
        self.next_connection += 1;
        let id = ConnectionId::on(self.servers[at].id as u8, self.next_connection);
        let client = &mut self.clients[which];
        if client.session.is_none() {
            client.timeout_ms = 1000 + 500 * self.dice.below(5) as i32;
        }
        client.connection = Some((at, id));
        (client.since, client.sent) = (self.timeline.now(), self.timeline.now());
        let delay = 200 + self.dice.below(2 * MS);
        client.arrives = self.timeline.now() + delay;
        self.timeline.after(delay, Event::Connect(which, at, id));
    }

    pub(super) fn ask(
        &mut self,
        which: usize,
        at: usize,
        id: ConnectionId,
        requests: Vec<Request<'static>>,
    ) {
        let now = self.timeline.now();
        let delay = 100 + self.dice.below(MS);
        let client = &mut self.clients[which];
        client.sent = now;
        // Also after what it sent on another connection, which does no harm.
        client.arrives = (now + delay).max(client.arrives + 1);
        let arrives = client.arrives;
        let mut asked = Vec::new();
        for request in requests {
            self.xid += 1;
            self.outcome.operations += 1;
            asked.push(Asked { xid: self.xid, request, behind: self.acknowledged });
        }
        self.timeline.at(arrives, Event::Ask(at, id, asked));
    }

    /// What a connection watched is set again on the next one.
    pub(super) fn keep_watches(&mut self, which: usize, at: usize, id: ConnectionId) {
        if let Some(connection) = self.servers[at].connections.get(&id)
            && connection.attached.is_some()
        {
            self.clients[which].watches = connection.watches.clone();
        }
    }

    fn path(&mut self) -> String {
        match self.dice.below(10) {
            0..6 => format!("/k{}", self.dice.below(5)),
            6..8 => format!("/k{}/c{}", self.dice.below(3), self.dice.below(2)),
            _ => format!("/e{}", self.dice.below(3)),
        }
    }

    fn version(&mut self, path: &str) -> i32 {
        match self.dice.below(6) {
            0..3 => -1,
            // Most likely the right one, but something may be on its way.
            3..5 => self.history.version(path).unwrap_or(0),
            _ => self.history.version(path).unwrap_or(0) + 1,
        }
    }

    fn request(&mut self) -> Request<'static> {
        match self.dice.below(20) {
            0..5 => {
                let (path, watch) = (self.path().into(), self.dice.coin());
                Request::GetData(WatchRequest { path, watch })
            }
            5 | 6 => {
                let (path, watch) = (self.path().into(), self.dice.coin());
                Request::Exists(WatchRequest { path, watch })
            }
            7 | 8 => {
                let path = if self.dice.coin() { "/".to_owned() } else { self.path() };
                let watch = self.dice.below(3) == 0;
                Request::GetChildren2(WatchRequest { path: path.into(), watch })
            }
            9 => Request::Sync(SyncRequest { path: Some("/".into()) }),
            10 if self.dice.below(4) == 0 => {
                let path = if self.dice.coin() { "/".to_owned() } else { self.path() };
                let mode = match self.dice.coin() {
                    true => AddWatchMode::PersistentRecursive,
                    false => AddWatchMode::Persistent,
                };
                Request::AddWatch(AddWatchRequest { path: path.into(), mode })
            }
            _ => self.write(),
        }
    }

    fn data(&mut self) -> Vec<u8> {
        let len = if self.dice.below(40) == 0 { 900 } else { self.dice.below(40) };
        vec![self.dice.next() as u8; len as usize]
    }

    fn create(&mut self) -> CreateRequest<'static> {
        let (path, mode) = match self.dice.below(10) {
            0..5 => (self.path(), CreateMode::Persistent),
            5 | 6 => (format!("/e{}", self.dice.below(3)), CreateMode::Ephemeral),
            7 => ("/s-".to_owned(), CreateMode::PersistentSequential),
            _ => (format!("/k{}/l-", self.dice.below(3)), CreateMode::EphemeralSequential),
        };
        CreateRequest {
            path: path.into(),
            data: Some(self.data().into()),
            acl: Some(vec![Acl::anyone(perms::ALL)]),
            flags: mode.flags(),
        }
    }

    fn set(&mut self) -> SetDataRequest<'static> {
        let path = self.path();
        let version = self.version(&path);
        SetDataRequest { path: path.into(), data: Some(self.data().into()), version }
    }

    fn delete(&mut self) -> DeleteRequest<'static> {
        let path = if self.dice.below(4) == 0 {
            format!("/s-{:010}", self.dice.below(20))
        } else {
            self.path()
        };
        let version = self.version(&path);
        DeleteRequest { path: path.into(), version }
    }

    pub(super) fn write(&mut self) -> Request<'static> {
        match self.dice.below(20) {
            0..4 => Request::Create(self.create()),
            4..7 => Request::Create2(self.create()),
            7..10 => Request::Delete(self.delete()),
            10..12 => {
                let count = 1 + self.dice.below(3);
                let part = |world: &mut Self| match world.dice.below(4) {
                    0 => MultiOp::Create(world.create()),
                    1 => MultiOp::Delete(world.delete()),
                    2 => {
                        let path = world.path();
                        let version = world.version(&path);
                        MultiOp::Check(CheckVersionRequest { path: path.into(), version })
                    }
                    _ => MultiOp::SetData(world.set()),
                };
                Request::Multi((0..count).map(|_| part(self)).collect())
            }
            _ => Request::SetData(self.set()),
        }
    }
}
