//! What the audit log is to say of the requests on their way: their facts, counted in bytes from here until they are written.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jute::protocol::Request;

use super::{Asked, Audit, users};
use crate::engine::acl::Identities;
use crate::engine::session::SessionId;

/// Bytes that are held, until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Held {
    pub(super) const fn none(all: Arc<AtomicUsize>) -> Self {
        Self { bytes: 0, all }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn grow_to(&mut self, bytes: usize) {
        self.all.fetch_add(bytes.saturating_sub(self.bytes), Ordering::SeqCst);
        self.bytes = self.bytes.max(bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

/// A change with the orderer.
#[derive(Debug)]
pub(in crate::server) struct Change {
    pub(super) asked: Asked,
    pub(super) held: Held,
}

/// The requests of a connection that are with the orderer.
#[derive(Debug, Default)]
pub(in crate::server) struct Noted {
    /// Of each the change; nothing of a read.
    requests: VecDeque<Option<Change>>,
    /// Who the client has shown to be, as lines name it.
    users: Option<Arc<str>>,
}

impl Noted {
    /// One more request goes to the orderer.
    pub(in crate::server) fn note(
        &mut self,
        audit: &Audit,
        request: &Request<'_>,
        session: SessionId,
        identities: &Identities,
        address: IpAddr,
    ) {
        let users = self.users.get_or_insert_with(|| users(identities));
        let asked = Asked::of(request, session, Arc::clone(users), address);
        self.requests.push_back(asked.map(|asked| {
            let mut held = audit.held();
            held.grow_to(asked.weight());
            Change { asked, held }
        }));
    }

    /// The orderer is done with the first of them.
    pub(in crate::server) fn pop(&mut self) -> Option<Change> {
        self.requests.pop_front().flatten()
    }

    /// The connection is gone.
    pub(in crate::server) fn take_all(&mut self) -> impl Iterator<Item = Change> + use<> {
        std::mem::take(&mut self.requests).into_iter().flatten()
    }

    /// The client has shown to be someone more.
    pub(in crate::server) fn forget_users(&mut self) {
        self.users = None;
    }
}
