//! The clients of the members: what they ask, where they go, and what they are told.

use std::collections::{BTreeSet, VecDeque};

use jute::protocol::{
    CreateRequest, DeleteRequest, MultiOp, Response, SetDataRequest, SyncRequest, WatchRequest,
};
use jute::{Acl, CreateMode, perms};

use super::*;
use crate::engine::request::{Chore, Origin, Work};
use crate::engine::tracker::Attached;
use crate::engine::watch::Event;
use crate::ensemble::Answer;

/// What the clients of a member were told.
#[derive(Debug, Default)]
pub(super) struct Seen(pub(super) Mutex<Vec<Told>>, Mutex<BTreeSet<ConnectionId>>);

#[derive(Debug)]
pub(super) enum Told {
    /// The answer to a write that was done.
    Done(ConnectionId, i32, Zxid),
    /// The answer to a sync.
    Synced(ConnectionId, i32, Zxid),
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
            Ok(Response::Sync(_)) => Told::Synced(connection, xid, zxid),
            Ok(Response::GetData(_)) | Err(_) => Told::Answered(connection, xid, zxid),
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

/// A client: it sends to one member, on one connection at a time.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) connection: ConnectionId,
    pub(super) session: Option<SessionId>,
    /// Requests that are not answered, in their order.
    pub(super) asked: VecDeque<i32>,
    /// The newest zxid that an answer had.
    pub(super) seen: Zxid,
}

impl World {
    /// Answers come in the order of the requests, and their zxids never fall.
    pub(super) fn answered(
        &mut self,
        at: usize,
        connection: ConnectionId,
        xid: i32,
        zxid: Zxid,
    ) -> Checked {
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

    /// What a client is shown behind its sync has every change that was acknowledged before it asked for that.
    pub(super) fn synced(&self, xid: i32, zxid: Zxid) -> Checked {
        let newest = self.asked_behind.get(&xid).copied().unwrap_or(0);
        if zxid.0 < newest {
            return Err(format!("the sync {xid} at {zxid} does not show {newest:#x}"));
        }
        Ok(())
    }

    pub(super) fn request(&mut self, at: usize) -> Checked {
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

    pub(super) fn submit(
        &mut self,
        at: usize,
        connection: ConnectionId,
        session: SessionId,
        works: Vec<Work>,
    ) -> Checked {
        let mut submissions = Vec::new();
        let newest = self.checks.newest_acknowledged();
        for work in works {
            self.xid += 1;
            self.asked_behind.insert(self.xid, newest);
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
    pub(super) fn move_session(&mut self, to: usize) -> Checked {
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
}
