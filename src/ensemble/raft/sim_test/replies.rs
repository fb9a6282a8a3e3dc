//! What becomes final and what clients are told, held against each other.

use std::collections::BTreeSet;
use std::hash::Hash as _;

use jute::ErrorCode;
use jute::protocol::Request;
use jute::txn::{Txn, TxnRecord};

use super::connection::{Asked, Connection, Told};
use super::history::Reply;
use super::world::{Checked, World};
use crate::engine::effect::Effect;
use crate::engine::watch::ConnectionId;

impl World {
    /// A transaction is final: the model does the request again that it came from.
    pub(super) fn became_final(&mut self, record: TxnRecord<'static>) -> Checked {
        let TxnRecord { header, txn, .. } = record;
        let (zxid, session) = (header.zxid, header.client_id);
        match txn {
            Txn::Error(_) => {
                self.history.pass(zxid);
                Ok(())
            }
            Txn::Reconfig(list) => {
                self.history.pass(zxid);
                self.list_became_final(zxid, &list)
            }
            Txn::CreateSession(_) => {
                self.outcome.upgraded += u64::from(self.locals.began(session));
                self.history.open_session(zxid, session)
            }
            Txn::CloseSession(_) if header.cxid == 0 => {
                if !self.ending.contains(&session) {
                    return Err(format!("{zxid:#x} ends session {session:#x}, which nobody wants"));
                }
                self.history.close_session(zxid, session)
            }
            _ => {
                let sent = self.sent.get(&header.cxid);
                let Some(sent) = sent.filter(|sent| sent.session == session) else {
                    return Err(format!("{zxid:#x} is {txn:?}, which nobody asked for"));
                };
                if self.refused.contains(&header.cxid) {
                    return Err(format!("{zxid:#x} does {:?}, which was refused", sent.request));
                }
                self.owners.wrote(session, zxid, sent.connection)?;
                if self.is_leader_wrong {
                    let reply = self.history.apply_as_said(zxid, header.time, session, &txn)?;
                    self.done.extend(reply.map(|reply| (header.cxid, (zxid, reply))));
                    return Ok(());
                }
                // Until it is one of all servers.
                let is_local = self.locals.began(session) && !self.history.has_session(session);
                let request = &sent.request;
                let reply = self.history.apply(zxid, header.time, session, request, is_local)?;
                match self.done.insert(header.cxid, (zxid, reply)) {
                    None => Ok(()),
                    Some((before, _)) => Err(format!("{zxid:#x} was done at {before:#x}")),
                }
            }
        }
    }

    /// What clients of a server were told.
    pub(super) fn hear(&mut self, at: usize) -> Checked {
        let mut touched = BTreeSet::new();
        loop {
            let told = std::mem::take(&mut *self.servers[at].seen.told.lock());
            for told in told {
                touched.extend(self.told(at, told)?);
            }
            // What waited for the orderer is looked at now.
            let Some(id) = touched.pop_first() else { return Ok(()) };
            self.look_at_requests(at, id)?;
        }
    }

    pub(super) fn told(&mut self, at: usize, told: Told) -> Result<Option<ConnectionId>, String> {
        let now = self.timeline.now();
        match told {
            Told::Event(id, event, path, zxid) => {
                if let Some(connection) = self.servers[at].connections.get_mut(&id) {
                    self.outcome.events += 1;
                    connection
                        .watches
                        .told(&self.history, event, &path, zxid.0)
                        .map_err(|violation| format!("{id:?}: {violation}"))?;
                }
                Ok(None)
            }
            Told::Reply(id, xid, zxid, reply) => {
                (id.0, xid, zxid.0).hash(&mut self.trace);
                let server = &mut self.servers[at];
                let Some(connection) = server.connections.get_mut(&id) else { return Ok(None) };
                let asked = connection.unanswered.pop_front();
                let Some(asked) = asked.filter(|asked| asked.xid == xid) else {
                    return Err(format!("{id:?} has the answer to {xid}, and waits for another"));
                };
                connection.with_orderer = connection.with_orderer.saturating_sub(1);
                connection.heard = now;
                let reply = connection.early.remove(&xid).unwrap_or(reply);
                let leads = server.member.as_ref().is_some_and(|its| its.requests().is_leading());
                self.outcome.by_followers += u64::from(!leads);
                self.outcome.by_observers += u64::from(self.observer == Some(at));
                self.replied(at, id, &asked, zxid.0, &reply).map_err(|violation| {
                    format!("{id:?}: {:?} gives {reply:?} at {zxid}: {violation}", asked.request)
                })?;
                Ok(Some(id))
            }
            Told::Attached(id, attached) => {
                let Some(connection) = self.servers[at].connections.get_mut(&id) else {
                    return Ok(None);
                };
                connection.heard = now;
                connection.attached = Some(attached.clone());
                let (which, is_over) = (connection.client, connection.is_over);
                self.see_session(at, attached.session.0, is_over)?;
                let client = &mut self.clients[which];
                if client.connection != Some((at, id)) {
                    return Ok(None);
                }
                self.outcome.moved += u64::from(client.session.is_some());
                client.session = Some(attached.session.0);
                let watches = std::mem::take(&mut client.watches);
                if watches.count() > 0 {
                    let again = watches.to_set_again(&self.history, client.seen);
                    self.ask(which, at, id, vec![again]);
                }
                Ok(None)
            }
            Told::NoSession(id) => {
                let connection = self.servers[at].connections.get(&id).map(|its| its.client);
                if let Some(which) = connection
                    && self.clients[which].connection == Some((at, id))
                    && let Some(session) = self.clients[which].session
                {
                    // One of one server may just become one of all, which its client does not wait
                    // for.
                    let is_local = self.locals.began(session);
                    if self.history.lives(session) && !self.ending.contains(&session) && !is_local {
                        return Err(format!("session {session:#x} is gone, and nobody ended it"));
                    }
                    self.clients[which].forget();
                }
                self.hang_up(at, id);
                Ok(None)
            }
            Told::Closed(id) => {
                self.outcome.closed += 1;
                self.hang_up(at, id);
                Ok(None)
            }
        }
    }

    /// A reply must be what the model says, and show nothing older than what its client has seen.
    pub(super) fn replied(
        &mut self,
        at: usize,
        id: ConnectionId,
        asked: &Asked,
        zxid: i64,
        reply: &Reply,
    ) -> Checked {
        let Asked { xid, request, behind } = asked;
        let connection = self.servers[at].connections.get_mut(&id).ok_or("no connection")?;
        if zxid < connection.seen {
            return Err(format!("its client saw {:#x}", connection.seen));
        }
        if !self.history.has(zxid) {
            return Err("nothing final has this zxid".to_owned());
        }
        connection.watches.replied(&self.history, request, reply, zxid)?;
        connection.seen = zxid;
        self.is_in_time(at, request, zxid)?;
        let connection = self.servers[at].connections.get(&id).ok_or("no connection")?;
        let Connection { wrote, came_with, client: which, .. } = *connection;
        let session = connection.attached.as_ref().map_or(0, |attached| attached.session.0);
        let client = &mut self.clients[which];
        if client.connection == Some((at, id)) {
            client.seen = client.seen.max(zxid);
        }
        // A leader asks whether there is a session also for a read (PrepRequestProcessor).
        if *reply == Reply::Refused(ErrorCode::SessionExpired) {
            let is_over = self.ending.contains(&session) || !self.history.lives(session);
            let is_over = is_over || self.locals.began(session);
            return if is_over { Ok(()) } else { Err("nobody ended the session".to_owned()) };
        }
        if Effect::of(request).is_read() {
            let expected = self.history.read(request, zxid);
            self.outcome.reads += 1;
            return if *reply == expected { Ok(()) } else { Err(format!("and not {expected:?}")) };
        }
        if matches!(request, Request::Sync(_)) {
            self.outcome.syncs += 1;
            return if zxid < *behind {
                Err(format!("it does not show {behind:#x}, told of before it was asked"))
            } else {
                Ok(())
            };
        }
        if reply.is_refusal() {
            self.outcome.refusals += 1;
            self.refused.insert(*xid);
            if let Some((zxid, _)) = self.done.get(xid) {
                return Err(format!("it was done at {zxid:#x}"));
            }
            let from = wrote.max(came_with).max(*behind);
            return if self.history.refuses(request, session, (from, zxid), reply) {
                Ok(())
            } else {
                Err(format!("in no state since {wrote:#x}, {came_with:#x} and {behind:#x}"))
            };
        }
        if Self::ends(request) && self.locals.began(session) && !self.history.has_session(session) {
            self.hang_up(at, id);
            self.clients[which].forget();
            return Ok(());
        }
        match self.done.get(xid) {
            Some((its, expected)) if *its == zxid && expected == reply => {}
            other => return Err(format!("and not {other:x?}")),
        }
        if zxid <= *behind {
            return Err(format!("{behind:#x} had been told of before it was asked"));
        }
        self.acknowledged = self.acknowledged.max(zxid);
        self.outcome.acknowledged += 1;
        if let Some(connection) = self.servers[at].connections.get_mut(&id) {
            connection.wrote = zxid;
        }
        if Self::ends(request) {
            self.hang_up(at, id);
            self.clients[which].forget();
        }
        Ok(())
    }
}
