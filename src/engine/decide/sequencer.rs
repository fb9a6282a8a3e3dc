//! The one who orders: turns requests into transactions, one after the other.
//!
//! A request is checked against the tree and the changes still in flight; what comes out is a
//! finished transaction, a refusal, or a read that is answered at its turn. Standalone servers and
//! leaders have one.

use jute::protocol::{MultiResult, Request};
use jute::txn::{CreateSessionTxn, DIGEST_VERSION, Txn, TxnDigest, TxnHeader, TxnRecord};
use jute::{ErrorCode, perms};

use super::expiry::ExpiryPlace;
use super::overlay::Overlay;
use super::prepare::{MultiRefusal, Prepare, RECORD_LEN};
use super::request::{Chore, Origin, Work};
use super::tracker::{Attached, NotTaken, SessionTracker};
use crate::engine::access::acl::Identities;
use crate::engine::database::Database;
use crate::engine::effect::Effect;
use crate::engine::path;
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, Now};
use crate::engine::watch::ConnectionId;
use crate::engine::zxid::Zxid;

/// What becomes of a request.
#[derive(Debug)]
pub enum Prepared {
    /// Write it down, apply it, answer with its outcome.
    Txn(TxnRecord<'static>),
    /// As [`Self::Txn`]; it opens a session.
    Open(TxnRecord<'static>, Attached),
    /// Answer from the tree once everything before it is applied.
    Read(Request<'static>),
    /// Refuse it once everything before it is applied: it was checked against that.
    Refused(ErrorCode),
    /// As [`Self::Refused`], for a multi: the header says success, the body what failed.
    RefusedMulti(Vec<MultiResult<'static>>),
    /// The session is the connection's now.
    Attached(Attached),
    /// There is no such session, or it is closing.
    NoSession,
    /// Close the connection without a reply: its session is gone or moved.
    Close,
}

/// Something that an operator should know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The counter of a parent has come to its end; no sequential znode can be made below it any
    /// more.
    SequenceExhausted {
        /// The parent.
        parent: String,
    },
    /// A write would have gone beyond a hard quota and was refused.
    QuotaRefused {
        /// The path with the quota.
        limited: String,
    },
    /// A client wants what ZooKeeper takes and this server does not.
    RefusedOnPurpose {
        /// The client.
        session: SessionId,
        /// Why not.
        harm: Harm,
    },
    /// A write went beyond a soft quota.
    QuotaExceeded {
        /// The path with the quota.
        limited: String,
        /// The written znode.
        path: String,
    },
}

/// What a request would do that ZooKeeper takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Harm {
    /// createTTL in a mode that has no time to live: its transaction ends ZooKeeper at each start.
    TtlWithoutMode,
    /// Limits or statistics of a quota in a place, or with data, where ZooKeeper cannot have them:
    /// the same.
    FatalQuota,
    /// An ephemeral znode of a session whose id is the mark of another kind of znode: its
    /// transaction ends ZooKeeper at each start, or its znode outlives the session.
    SessionOwnsNone,
}

/// The orderer.
#[derive(Debug)]
pub struct Sequencer {
    pub(in crate::engine) overlay: Overlay,
    pub(in crate::engine) tracker: SessionTracker,
    pub(in crate::engine) notices: Vec<Notice>,
    /// Sessions that are in no table and have ephemeral znodes.
    orphans: Vec<SessionId>,
    /// Of the last transaction prepared.
    last_zxid: Zxid,
    /// Entries of ACLs and identities that were looked up.
    looked_up: usize,
}

/// Sessions in no table that end in one group.
const ORPHANS_AT_ONCE: usize = 256;

impl Sequencer {
    /// Goes on after what `database` has applied. Every session has its full timeout ahead.
    #[must_use]
    pub fn new(database: &Database, tick_ms: u64, first_session_id: i64, now: Monotonic) -> Self {
        Self {
            overlay: Overlay::default(),
            tracker: SessionTracker::new(&database.sessions, tick_ms, first_session_id, now),
            notices: Vec::new(),
            orphans: database.orphans(),
            last_zxid: database.last_zxid,
            looked_up: 0,
        }
    }

    /// What a snapshot of ZooKeeper's and its log can leave: ephemeral znodes of sessions that are
    /// gone. ZooKeeper deletes them at each start and writes nothing down
    /// (`ZooKeeperServer.loadData`); here their sessions are closed once more. Some at a time,
    /// until there are none.
    pub fn take_orphans(&mut self) -> Vec<Chore> {
        let some = self.orphans.len().saturating_sub(ORPHANS_AT_ONCE);
        self.orphans.split_off(some).into_iter().map(Chore::Orphan).collect()
    }

    /// Such a session that was taken is to be closed later.
    pub fn put_back_orphan(&mut self, session: SessionId) {
        self.orphans.push(session);
    }

    /// Sessions that [`Self::take_orphans`] still has.
    #[must_use]
    pub const fn orphans_count(&self) -> usize {
        self.orphans.len()
    }

    /// Decides a request.
    pub fn prepare(
        &mut self,
        database: &Database,
        origin: &Origin,
        work: Work,
        now: Now,
    ) -> Prepared {
        match work {
            Work::Open { timeout_ms } => {
                let attached = self.tracker.open(timeout_ms, origin.connection, now.monotonic);
                let txn = Txn::CreateSession(CreateSessionTxn { timeout_ms });
                self.begin(database);
                Prepared::Open(self.record(database, attached.session, 0, txn, now), attached)
            }
            Work::Attach { timeout_ms } => self
                .tracker
                .attach(origin.session, timeout_ms, origin.connection, now.monotonic)
                .map_or(Prepared::NoSession, Prepared::Attached),
            Work::Throttled => Prepared::Refused(ErrorCode::ThrottledOp),
            Work::Request(request) | Work::Upgrade { request, .. } => {
                match self.refuses(origin, false) {
                    None => self.prepare_request(database, origin, request, false, now),
                    Some(refused) => refused,
                }
            }
            // It may have become one of all servers meanwhile.
            Work::OfLocal(request) => match self.tracker.check(origin.session, origin.connection) {
                Err(NotTaken::Unknown) if request == Request::CloseSession => {
                    Prepared::Read(request)
                }
                Err(NotTaken::Unknown) => {
                    self.prepare_request(database, origin, request, true, now)
                }
                _ => self.prepare(database, origin, Work::Request(request), now),
            },
        }
    }

    /// Makes a session of all servers out of one that lived on its client's only. `None` if it is
    /// one already.
    pub fn upgrade(
        &mut self,
        database: &Database,
        origin: &Origin,
        timeout_ms: i32,
        now: Now,
    ) -> Option<TxnRecord<'static>> {
        let Origin { session, connection, .. } = *origin;
        if !self.tracker.adopt(session, timeout_ms, connection, now.monotonic) {
            return None;
        }
        let txn = Txn::CreateSession(CreateSessionTxn { timeout_ms });
        self.begin(database);
        Some(self.record(database, session, 0, txn, now))
    }

    fn prepare_request(
        &mut self,
        database: &Database,
        origin: &Origin,
        request: Request<'static>,
        is_local: bool,
        now: Now,
    ) -> Prepared {
        if Effect::of(&request).is_read() {
            return Prepared::Read(request);
        }
        let zxid = self.begin(database);
        let mut prepare = Prepare {
            database,
            overlay: &mut self.overlay,
            notices: &mut self.notices,
            identities: &origin.identities,
            looked_up: &mut self.looked_up,
            session: origin.session,
            is_local,
            zxid,
            now,
            room: database.rules.record_max.saturating_sub(RECORD_LEN),
        };
        let txn = match request {
            Request::Sync(_) => return Prepared::Read(request),
            Request::Multi(ops) => match prepare.multi(ops) {
                Ok(txn) => txn,
                Err(MultiRefusal::Whole(error)) => return Prepared::Refused(error),
                Err(MultiRefusal::Part(results)) => return Prepared::RefusedMulti(results),
            },
            Request::CloseSession => {
                self.tracker.begin_close(origin.session);
                prepare.close_session()
            }
            request => match prepare.single(request) {
                Ok(txn) => txn,
                Err(error) => return Prepared::Refused(error),
            },
        };
        Prepared::Txn(self.record(database, origin.session, origin.xid, txn, now))
    }

    /// Decides something that the server itself wants. `None` where there is nothing to do any
    /// more.
    pub fn prepare_chore(
        &mut self,
        database: &Database,
        chore: &Chore,
        now: Now,
    ) -> Option<TxnRecord<'static>> {
        let zxid = self.begin(database);
        let (session, xid) = match chore {
            Chore::Expire(session) | Chore::Orphan(session) => (*session, 0),
            Chore::Reap(_) => (SessionId::NONE, 0),
            Chore::SetList { by, .. } => *by,
            Chore::Remark { of, .. } => (SessionId(*of), 0),
        };
        let mut prepare = Prepare {
            database,
            overlay: &mut self.overlay,
            notices: &mut self.notices,
            identities: &Identities::default(),
            looked_up: &mut self.looked_up,
            session,
            is_local: false,
            zxid,
            now,
            room: database.rules.record_max.saturating_sub(RECORD_LEN),
        };
        let txn = match chore {
            Chore::Expire(session) => {
                if !self.tracker.begin_close(*session) {
                    return None;
                }
                prepare.close_session()
            }
            Chore::Orphan(_) => prepare.close_session(),
            Chore::Reap(path) => prepare.reap(path)?,
            Chore::SetList { servers, .. } => prepare.set_list(servers)?,
            Chore::Remark { code, .. } => Txn::Error(*code),
        };
        Some(self.record(database, session, xid, txn, now))
    }

    /// What a request gets instead of being taken, if its session is not, or no more, that of its
    /// connection.
    #[must_use]
    pub fn refuses(&mut self, origin: &Origin, is_local: bool) -> Option<Prepared> {
        match self.tracker.check(origin.session, origin.connection) {
            Ok(()) => None,
            Err(NotTaken::Unknown) if is_local => None,
            Err(NotTaken::Closing) => Some(Prepared::Refused(ErrorCode::SessionExpired)),
            Err(NotTaken::Unknown | NotTaken::Moved) => Some(Prepared::Close),
        }
    }

    /// Whether a client may change the list of servers, with all that is decided by now.
    pub fn may_change_list(&mut self, database: &Database, identities: &Identities) -> bool {
        let Some(node) = self.overlay.view(database, path::CONFIG) else { return false };
        let permits = |list| identities.may_at(list, perms::WRITE, &mut self.looked_up);
        database.rules.skip_acl || node.acl.as_ref().is_none_or(permits)
    }

    /// The zxid of the transaction that is about to be prepared.
    fn begin(&mut self, database: &Database) -> Zxid {
        if self.last_zxid == database.last_zxid {
            self.overlay.rebase(database.tree.digest().unwrap_or_default());
        }
        self.overlay.begin();
        self.last_zxid.next()
    }

    /// Gives a decided transaction its place.
    fn record(
        &mut self,
        database: &Database,
        session: SessionId,
        xid: i32,
        txn: Txn<'static>,
        now: Now,
    ) -> TxnRecord<'static> {
        self.last_zxid = self.last_zxid.next();
        self.overlay.settle(self.last_zxid);
        let header =
            TxnHeader { client_id: session.0, cxid: xid, zxid: self.last_zxid.0, time: now.wall.0 };
        let digest = database
            .rules
            .digest
            .then(|| TxnDigest { version: DIGEST_VERSION, tree_digest: self.overlay.digest() });
        TxnRecord { header, txn, digest }
    }

    /// Forgets the changes up to `applied`.
    pub fn retire(&mut self, applied: Zxid) {
        self.overlay.retire(applied);
    }

    /// A closeSession was applied. Gives the connection that owned the session.
    pub fn session_closed(&mut self, session: SessionId) -> Option<ConnectionId> {
        self.tracker.closed(session)
    }

    /// A session was heard of by another server.
    pub fn touch(&self, session: SessionId, now: Monotonic) {
        self.tracker.touch(session, now);
    }

    /// The last transaction prepared: what a request decided now was checked against.
    #[must_use]
    pub const fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    /// When [`Self::expired`] has something to do at the earliest.
    #[must_use]
    pub fn next_expiry(&self) -> Option<Monotonic> {
        self.tracker.next_expiry()
    }

    /// Sessions that were not heard of for their timeout: nothing more is taken from them, and each
    /// is to be closed. `late_ms` is how long the server itself stood still.
    pub fn expired(&mut self, now: Monotonic, late_ms: u64) -> Vec<SessionId> {
        self.tracker.expired(now, late_ms)
    }

    /// Sessions, the closing ones included.
    #[must_use]
    pub fn sessions_count(&self) -> usize {
        self.tracker.len()
    }

    /// Looks at up to `most` sessions and the time at which they expire, soonest first. Gives where
    /// to go on.
    pub fn walk_expiry(
        &self,
        from: ExpiryPlace,
        most: usize,
        each: impl FnMut(Monotonic, SessionId),
    ) -> Option<ExpiryPlace> {
        self.tracker.walk_expiry(from, most, each)
    }

    /// Entries of ACLs and identities that were looked up since the last call to find out what
    /// clients may do. What is known of an ACL is not looked up again.
    pub const fn take_looked_up(&mut self) -> usize {
        std::mem::replace(&mut self.looked_up, 0)
    }

    /// What an operator should know of since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }
}

#[cfg(test)]
#[path = "sequencer_test.rs"]
mod sequencer_test;
