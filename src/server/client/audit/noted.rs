//! What the audit log is to say of a connection's requests on their way, and who its client is.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use jute::protocol::Request;

use super::room::Held;
use super::{AskedChange, Audit, Users};
use crate::engine::access::acl::Identities;
use crate::engine::session::SessionId;

/// A change with the orderer.
#[derive(Debug)]
pub(in crate::server) struct NotedChange {
    pub(super) asked: AskedChange,
    pub(super) held: Held,
}

/// The requests of a connection that are with the orderer.
#[derive(Debug, Default)]
pub(in crate::server) struct Noted {
    /// Of each the change; nothing of a read.
    requests: VecDeque<Option<NotedChange>>,
    /// Who the client has shown to be, as lines name it.
    users: Option<Users>,
    /// Of how many identities the whole names were told.
    told: usize,
}

impl Noted {
    /// One more request goes to the orderer. `room` is what was taken for it already.
    pub(in crate::server) fn note(
        &mut self,
        audit: &Audit,
        room: Option<Held>,
        request: &Request<'_>,
        session: SessionId,
        identities: &Identities,
        address: IpAddr,
    ) {
        let asked = self.asked(request, session, identities, address);
        if let Some(asked) = &asked
            && !asked.names.is_empty()
        {
            self.told = identities.all().len();
        }
        self.requests.push_back(asked.map(|asked| {
            let mut held = room.unwrap_or_else(|| audit.held());
            held.set(asked.weight_if_done());
            NotedChange { asked, held }
        }));
    }

    /// How much room a request takes.
    pub(in crate::server) fn weight(
        &mut self,
        request: &Request<'_>,
        session: SessionId,
        identities: &Identities,
        address: IpAddr,
    ) -> usize {
        let asked = self.asked(request, session, identities, address);
        asked.map_or(0, |asked| asked.weight_if_done())
    }

    fn asked(
        &mut self,
        request: &Request<'_>,
        session: SessionId,
        identities: &Identities,
        address: IpAddr,
    ) -> Option<AskedChange> {
        let users = self.users.get_or_insert_with(|| Users::of(identities));
        let asked = AskedChange::of(request, session, Arc::clone(&users.text), address)?;
        let news = if users.is_cut { identities.all().get(self.told..) } else { None };
        Some(asked.with_names(news.unwrap_or_default()))
    }

    /// The orderer is done with the first of them.
    pub(in crate::server) fn pop(&mut self) -> Option<NotedChange> {
        self.requests.pop_front().flatten()
    }

    /// The connection is gone.
    pub(in crate::server) fn take_all(&mut self) -> impl Iterator<Item = NotedChange> + use<> {
        std::mem::take(&mut self.requests).into_iter().flatten()
    }

    /// The client has shown to be someone more.
    pub(in crate::server) fn forget_users(&mut self) {
        self.users = None;
    }
}
