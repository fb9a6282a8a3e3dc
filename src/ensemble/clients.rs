//! Where answers and events go: the orderer's view of the connections.

use std::borrow::Cow;

use jute::ErrorCode;
use jute::protocol::Response;
use jute::txn::Txn;

use super::freshness::Fresh;
use crate::engine::decide::request::Origin;
use crate::engine::decide::tracker::Attached;
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::engine::watch::{ConnectionId, Event};
use crate::engine::zxid::Zxid;

/// What a request gives.
pub type Answer<'a> = Result<Response<'a>, ErrorCode>;

/// What a request was, for who measures how long such ones take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind<'a> {
    /// It changes nothing, and what it shows is young enough.
    Read(Fresh<'a>),
    /// Anything else, refused or not.
    Update,
}

/// The connections of this server. Every call comes from the orderer, in the order in which the
/// clients must see its results, and none of them blocks. A connection that is gone is passed over.
pub trait Clients: Send + Sync {
    /// What the clock shows.
    fn now(&self) -> Monotonic;

    /// Whether the connection is still there. One that is not leaves no watches.
    fn is_open(&self, connection: ConnectionId) -> bool;

    /// Whether the client accepts a server without a leader, which only lets it read.
    fn accepts_read_only(&self, connection: ConnectionId) -> bool {
        let _ = connection;
        false
    }

    /// Puts events into the outboxes of their receivers.
    fn events(&self, events: &[Event]);

    /// Puts an answer into its connection's outbox; `zxid` is the last one applied, and `path` that
    /// of a read.
    fn answer(
        &self,
        origin: &Origin,
        kind: RequestKind<'_>,
        zxid: Zxid,
        path: Option<&str>,
        answer: Answer<'_>,
    );

    /// A request, whoever asked for it, was refused by the quota of this path.
    fn refused_by_quota(&self, limited: &str);

    /// A transaction, whoever asked for it, is about to be applied here.
    fn applies(&self, txn: &Txn<'_>);

    /// The connection has its session.
    fn attached(&self, connection: ConnectionId, attached: &Attached);

    /// The session that the connection asked for is not to be had.
    fn no_session(&self, connection: ConnectionId);

    /// The same, by the word of a server without a leader.
    fn no_read_only_session(&self, connection: ConnectionId) {
        self.no_session(connection);
    }

    /// A session is about to end, and these ephemerals with it.
    fn ephemerals_end(&self, session: SessionId, paths: &[Cow<'_, str>]) {
        let _ = (session, paths);
    }

    /// Closes a connection after what it was told: the next answer would be too old.
    fn end(&self, connection: ConnectionId);

    /// Closes a connection without another word.
    fn close(&self, connection: ConnectionId);

    /// A group is done: what was put into outboxes can go.
    fn flush(&self);
}
