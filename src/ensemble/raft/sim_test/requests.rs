//! The way of a request into a server, as its connections do it.

use std::sync::Arc;

use super::connection::{Asked, Connection};
use super::history::Reply;
use super::turn::SYNC_LIMIT_MS;
use super::world::{Checked, Event, Sent, World};
use super::*;
use crate::engine::access::acl::Identities;
use crate::engine::answer::read;
use crate::engine::answer::read::Caller;
use crate::engine::decide::request::{Origin, Work};
use crate::engine::effect::Effect;
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::engine::watch::ConnectionId;
use crate::engine::zxid::Zxid;
use crate::ensemble::{RequestKind, Share};

impl World {
    /// A connection ends.
    pub(super) fn hang_up(&mut self, at: usize, id: ConnectionId) {
        let server = &mut self.servers[at];
        server.seen.open.lock().remove(&id);
        let connection = server.connections.remove(&id);
        if let Some(member) = &server.member {
            member.replica().shared().watches().lock().forget(id);
        }
        for client in &mut self.clients {
            if client.connection == Some((at, id)) {
                client.connection = None;
                if let Some(connection) = &connection
                    && connection.attached.is_some()
                {
                    client.watches = connection.watches.clone();
                }
            }
        }
    }

    /// A client wants a connection with a server.
    pub(super) fn take_connection(&mut self, which: usize, at: usize, id: ConnectionId) {
        if self.clients[which].connection != Some((at, id)) {
            return;
        }
        let now = self.timeline.now();
        let server = &mut self.servers[at];
        if now < server.frozen_until {
            self.timeline.at(server.frozen_until, Event::Connect(which, at, id));
            return;
        }
        let local = server.clock.read(now);
        let client = &self.clients[which];
        let shown = if self.flaw == Flaw::SeenNotChecked { Zxid::ZERO } else { Zxid(client.seen) };
        let is_taken = server.member.as_ref().is_some_and(|member| {
            let is_behind = member.replica().is_behind(shown);
            self.outcome.behind += u64::from(is_behind);
            !is_behind && server.thread.serves(local) && !member.has_wrong_tree()
        });
        if !is_taken {
            self.clients[which].connection = None;
            return;
        }
        let is_over = client
            .session
            .is_some_and(|its| self.history.has_session(its) && !self.history.lives(its));
        let connection = Connection { is_over, ..Connection::new(which, client.seen, now) };
        server.connections.insert(id, connection);
        server.seen.open.lock().insert(id);
        let timeout_ms = client.timeout_ms;
        let (session, work) = match client.session {
            Some(session) => (SessionId(session), Work::Attach { timeout_ms }),
            None => (SessionId::NONE, Work::Open { timeout_ms }),
        };
        self.submit(at, id, session, 0, work);
    }

    pub(super) fn submit(
        &mut self,
        at: usize,
        connection: ConnectionId,
        session: SessionId,
        xid: i32,
        work: Work,
    ) {
        let now = self.timeline.now();
        let received = self.servers[at].clock.read(now).monotonic;
        let origin = Origin { connection, session, xid, identities: Arc::default(), received };
        let room = Arc::clone(&self.room).try_acquire_owned().expect("room");
        let submission = Submission::new(origin, work, Some(Share::new(room, None)));
        self.servers[at].submissions.push(submission);
        let soon = now + self.dice.below(300);
        self.wake(at, soon);
    }

    /// Requests come to their server.
    pub(super) fn take_requests(
        &mut self,
        at: usize,
        id: ConnectionId,
        asked: Vec<Asked>,
    ) -> Checked {
        let now = self.timeline.now();
        let server = &mut self.servers[at];
        if now < server.frozen_until {
            self.timeline.at(server.frozen_until, Event::Ask(at, id, asked));
            return Ok(());
        }
        let local = server.clock.read(now).monotonic;
        let Some(connection) = server.connections.get_mut(&id) else { return Ok(()) };
        let Some(attached) = &connection.attached else { return Ok(()) };
        attached.heard.touch(local);
        server.ears.may_hear_of(attached.session.0, local);
        connection.is_news = true;
        connection.unanswered.extend(asked);
        self.look_at_requests(at, id)?;
        self.hear(at)
    }

    /// A read waits until it may be answered.
    fn wait_for_round(&mut self, at: usize, id: ConnectionId, local: Monotonic) -> Checked {
        let server = &mut self.servers[at];
        if let Some(connection) = server.connections.get_mut(&id) {
            connection.waits_since.get_or_insert(local);
        }
        server.member.iter_mut().for_each(|its| its.requests_mut().want_round());
        let soon = self.timeline.now() + self.dice.below(300);
        self.wake(at, soon);
        Ok(())
    }

    /// What has waited for too long is let go, and the rest is answered once it may be.
    pub(super) fn look_at_late_reads(&mut self, at: usize, local: Monotonic) -> Checked {
        let server = &self.servers[at];
        let Some(member) = &server.member else { return Ok(()) };
        let is_fresh = member.replica().is_fresh(local);
        let waiting =
            server.connections.iter().filter_map(|(id, its)| Some((*id, its.waits_since?)));
        let waiting: Vec<(ConnectionId, Monotonic)> = waiting.collect();
        for (id, since) in waiting {
            if is_fresh {
                self.look_at_requests(at, id)?;
            } else if local.since(since) >= SYNC_LIMIT_MS {
                self.servers[at].seen.close(id);
            }
        }
        self.hear(at)
    }

    /// What the server's connection does: reads are answered at once where nothing stands before
    /// them, everything else goes to the orderer.
    pub(super) fn look_at_requests(&mut self, at: usize, id: ConnectionId) -> Checked {
        loop {
            let server = &mut self.servers[at];
            let Some(member) = &server.member else { return Ok(()) };
            let Some(connection) = server.connections.get_mut(&id) else { return Ok(()) };
            let Some(attached) = &connection.attached else { return Ok(()) };
            let Some(asked) = connection.unanswered.get(connection.with_orderer) else {
                return Ok(());
            };
            let (xid, request, session) = (asked.xid, asked.request.clone(), attached.session);
            let effect = Effect::of(&request);
            if effect.is_read() && connection.with_orderer == 0 {
                let now = self.timeline.now();
                let local = server.clock.read(now).monotonic;
                let began = connection.hold_began.take();
                if began.is_none() && effect.shows_tree() {
                    if !member.replica().may_answer(effect.shows_tree(), local) {
                        return self.wait_for_round(at, id, local);
                    }
                    let frozen = std::mem::take(&mut server.stops_in_read);
                    if frozen > 0 {
                        connection.hold_began = Some(local);
                        server.frozen_until = now + frozen;
                        self.timeline.after(frozen, Event::Ask(at, id, Vec::new()));
                        return Ok(());
                    }
                }
                connection.waits_since = None;
                connection.with_orderer = 1;
                let looked = match self.flaw {
                    Flaw::AgeBeforeRead => began.unwrap_or(local),
                    _ => local,
                };
                let database = member.replica().shared();
                let caller = Caller { connection: id, session, identities: &Identities::default() };
                let mut events = Vec::new();
                let answer = read::answer(&database, &caller, &request, &mut events);
                let origin = Origin {
                    connection: id,
                    session,
                    xid,
                    identities: Arc::default(),
                    received: attached.heard.last(),
                };
                let seen = Arc::clone(&server.seen);
                match member.replica().fresh(&database, effect.shows_tree(), || looked) {
                    Some(fresh) => {
                        seen.events(&events);
                        let zxid = database.last_zxid();
                        seen.answer(&origin, RequestKind::Read(fresh), zxid, None, answer);
                    }
                    None => seen.close(id),
                }
                drop(database);
                let told = std::mem::take(&mut *seen.told.lock());
                for told in told {
                    self.told(at, told)?;
                }
                continue;
            }
            let local = server.clock.read(self.timeline.now()).monotonic;
            let is_late = !member.replica().may_answer(effect.shows_tree(), local);
            if (effect.can_be_large() || is_late) && connection.with_orderer > 0 {
                return Ok(());
            }
            connection.with_orderer += 1;
            if self.flaw == Flaw::ReadTooEarly && effect.shows_tree() {
                let database = member.replica().shared();
                let caller = Caller { connection: id, session, identities: &Identities::default() };
                let answer = read::answer(&database, &caller, &request, &mut Vec::new());
                connection.early.insert(xid, Reply::of(answer));
            }
            if !effect.is_read() {
                if Self::ends(&request) {
                    self.ending.insert(session.0);
                }
                let sent = Sent { session: session.0, connection: id, request: request.clone() };
                self.sent.insert(xid, sent);
            }
            self.submit(at, id, session, xid, Work::Request(request));
        }
    }
}
