//! What waits for its place in the order.

use std::sync::Arc;

use jute::protocol::Request;

use crate::engine::access::acl::Identities;
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::engine::watch::ConnectionId;
use crate::list::Servers;

/// Who sent a request, and what it calls it.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Where the answer goes.
    pub connection: ConnectionId,
    /// On whose behalf; none yet for a connect.
    pub session: SessionId,
    /// The client's number for it.
    pub xid: i32,
    /// Who the client has shown to be.
    pub identities: Arc<Identities>,
    /// When it came in.
    pub received: Monotonic,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// A new session.
    Open {
        /// Its negotiated timeout.
        timeout_ms: i32,
    },
    /// An existing session on a new connection; the password was right.
    Attach {
        /// The session's timeout from now on.
        timeout_ms: i32,
    },
    /// A client's request.
    Request(Request<'static>),
    /// A client's request that has waited for too long: it is refused at its turn, whatever it
    /// asked.
    Throttled,
    /// A request of a session that lives on the client's server only, by the word of that server.
    OfLocal(Request<'static>),
    /// As [`Self::OfLocal`]: the session is to be one of all servers first.
    Upgrade {
        /// Its timeout.
        timeout_ms: i32,
        /// The request.
        request: Request<'static>,
    },
}

/// What the server itself wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chore {
    /// A session was not heard of for its timeout.
    Expire(SessionId),
    /// A session that is in no table has ephemeral znodes.
    Orphan(SessionId),
    /// A container is empty, or a time to live has passed.
    Reap(String),
    /// The list of servers is to be this one from here on.
    SetList {
        /// The servers.
        servers: Servers,
        /// Whose change it is, and what the client calls its request; nobody's where the ensemble
        /// has no list yet.
        by: (SessionId, i32),
    },
    /// Something is to be written down that is none of the tree's business: it becomes a
    /// transaction that failed.
    Remark {
        /// Of whom, where a transaction has its session.
        of: i64,
        /// What, where a failed transaction has its error.
        code: i32,
    },
}
