//! Answers that the connection's task makes itself: to reads, and to what is about no znode.

use std::sync::Arc;

use bytes::BytesMut;
use jute::protocol::{
    LENGTH_LEN, ReadOp, Request, RequestHeader, Response, put_event, put_refusal, put_reply, xid,
};
use jute::{DecodeError, ErrorCode, OpCode};

use super::inbox::Step;
use super::listings::LongListing;
use crate::engine::answer::read::{self, Caller, Most};
use crate::engine::effect::Effect;
use crate::engine::path;
use crate::engine::time::Monotonic;
use crate::engine::watch::Event;
use crate::engine::zxid::Zxid;
use crate::ensemble::{Fresh, Shared};
use crate::message::MessageId;
use crate::planted;
use crate::server::client::auth;
use crate::server::client::connection::Connection;
use crate::server::client::unread::{Claim, Unread};
use crate::server::figures::namespace::Reads;
use crate::server::figures::series::{Counter, Series};
use crate::server::shared::Server;

/// Requests answered under one hold, if each costs about what its answer has.
const ANSWERS_A_HOLD: usize = 64;

/// While clients leave much unread, answers above this length wait for room, and reads for what is
/// with the orderer.
const SMALL: usize = 16 << 10;
/// Children that are listed at once then; more are a long listing.
const FEW_CHILDREN: usize = 256;

/// Answers made by the connection itself, under one shared hold of the tree. They go into the
/// outbox before the hold is released, so that no event of a later change comes before them.
pub(super) struct Answers<'a> {
    connection: &'a Connection,
    server: &'a Server,
    received: Monotonic,
    hold: Option<Shared<'a>>,
    /// Some of the answers tell something of the tree.
    shows_tree: bool,
    out: BytesMut,
    zxid: Zxid,
    count: usize,
    /// Events before the answers, and their bytes.
    events: (u64, u64),
    /// What the answers took of [`ANSWERS_A_HOLD`].
    spent: usize,
    sizes: Sizes,
    room: UnreadRoom,
    reads: &'a mut Reads,
}

/// Room of what clients may leave unread.
#[derive(Default)]
struct UnreadRoom {
    /// For the next large answer, which waited for it.
    granted: Option<Claim>,
    /// What the answers that were made have taken.
    taken: Option<Claim>,
}

impl UnreadRoom {
    /// Takes room for an answer of so many bytes; false if it has to wait for some.
    fn take(&mut self, unread: &Arc<Unread>, len: usize) -> bool {
        let granted = self.granted.take_if(|granted| granted.is_enough_for(len));
        let Some(taken) = granted.or_else(|| unread.try_take(len)) else { return false };
        match &mut self.taken {
            Some(all) => all.merge(taken),
            none => *none = Some(taken),
        }
        true
    }
}

/// Bytes of the answers that were made last.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    last: usize,
    min: usize,
    max: usize,
    /// Of all but pings.
    sum: u64,
}

impl Sizes {
    const NONE: Self = Self { last: 0, min: usize::MAX, max: 0, sum: 0 };

    fn count(&mut self, len: usize) {
        self.sum += len as u64;
        if len != self.last {
            (self.last, self.min, self.max) = (len, self.min.min(len), self.max.max(len));
        }
    }
}

impl<'a> Answers<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        server: &'a Server,
        received: Monotonic,
        granted: Option<Claim>,
        reads: &'a mut Reads,
    ) -> Self {
        Self {
            connection,
            server,
            received,
            hold: None,
            shows_tree: false,
            out: BytesMut::new(),
            zxid: Zxid::ZERO,
            count: 0,
            events: (0, 0),
            spent: 0,
            sizes: Sizes::NONE,
            room: UnreadRoom { granted, taken: None },
            reads,
        }
    }

    pub(super) const fn server(&self) -> &'a Server {
        self.server
    }

    pub(super) const fn received(&self) -> Monotonic {
        self.received
    }

    /// Whether the client leaves too much unread, with these.
    pub(super) fn is_full(&self) -> bool {
        self.connection.is_full(&self.out)
    }

    /// Whether enough was answered under one hold.
    pub(super) const fn is_at_end(&self) -> bool {
        self.spent >= ANSWERS_A_HOLD
    }

    fn read(
        &mut self,
        header: &RequestHeader,
        effect: Effect,
        request: &Request<'_>,
    ) -> Option<Step> {
        let hold = self.hold.get_or_insert_with(|| self.server.replica.shared());
        let identities = self.connection.identities();
        let caller = Caller {
            connection: self.connection.id(),
            session: self.connection.session_id(),
            identities: &identities,
        };
        let mut events = Vec::new();
        let unread = self.server.connections.unread();
        let mut most = Most { multi_read: unread.quarter(), ..Most::USUAL };
        if unread.is_scarce() {
            most.children = FEW_CHILDREN;
            let len = read::data_len(hold, request);
            if len > SMALL && !self.room.take(unread, len) {
                return Some(Step::NeedsUnread(len));
            }
        }
        let Some(answer) = read::answer_unless_long(hold, &caller, request, most, &mut events)
        else {
            return Some(match request {
                Request::SetWatches(_) | Request::SetWatches2(_) => Step::WatchAgain,
                request => match LongListing::of(header, request) {
                    Some(listing) => Step::List(Box::new(listing)),
                    None => Step::HangUp,
                },
            });
        };
        // Its client looks at no error of it, and would believe that it has the watches.
        let sets_watches = matches!(request, Request::SetWatches(_) | Request::SetWatches2(_));
        if sets_watches && answer.is_err() {
            return Some(Step::HangUp);
        }
        let len = answer.as_ref().map_or(0, read::expected_len);
        // What can be far larger than a znode leaves no watch: it can be made again.
        let is_data = matches!(answer, Ok(Response::GetData(_)));
        if len > SMALL && !is_data && !self.room.take(unread, len) {
            return Some(Step::NeedsUnread(len));
        }
        self.shows_tree |= effect.shows_tree();
        self.out.reserve(len);
        put_events(&mut self.out, &mut self.events, &events);
        let is_ping = matches!(request, Request::Ping);
        let xid = if is_ping { xid::PING } else { header.xid };
        self.zxid = hold.last_zxid();
        if let Ok(response) = &answer {
            count_read(self.reads, &self.server.stats.series, request, response);
        }
        let before = self.out.len() + LENGTH_LEN;
        match answer {
            Ok(response) => put_reply(&mut self.out, xid, self.zxid.0, &response),
            Err(error) => put_refusal(&mut self.out, xid, self.zxid.0, error),
        }
        let len = self.out.len() - before;
        if !is_ping {
            self.sizes.count(len);
        }
        self.server.connections.made(self.connection, len, || request.path(), self.received);
        self.count += 1;
        self.spent += share_of_hold(request);
        None
    }

    /// Answers a request that is not for the orderer.
    pub(super) fn take(
        &mut self,
        header: &RequestHeader,
        effect: Effect,
        request: &Request<'_>,
    ) -> Option<Step> {
        let xid = header.xid;
        match request {
            Request::Auth(packet) => {
                let Server { config, stats, .. } = self.server;
                match auth::authenticate(&config.access, &stats.series, self.connection, packet) {
                    Ok(()) => {
                        self.put(xid, Zxid::ZERO, Ok(Response::Empty));
                        None
                    }
                    Err(auth::NotTaken::Failed) => {
                        self.refuse(xid, Zxid::ZERO, ErrorCode::AuthFailed);
                        (!planted::is("failed-auth-stays")).then_some(Step::Leave)
                    }
                    Err(auth::NotTaken::Elsewhere) => Some(Step::Leave),
                }
            }
            // ZooKeeper fails over the token's length.
            Request::Sasl(packet) if packet.token.is_none() => Some(Step::Leave),
            Request::Sasl(_) => {
                self.put(xid, Zxid::ZERO, Ok(auth::no_sasl()));
                None
            }
            request => self.read(header, effect, request),
        }
    }

    /// Refuses what is no request. An operation that is none ends the connection, and so does half
    /// an identity.
    pub(super) fn malformed(&mut self, header: &RequestHeader, error: DecodeError) -> Option<Step> {
        let code = match (OpCode::from_code(header.op), error) {
            (_, DecodeError::UnknownOperation(op)) => {
                tracing::warn!(
                    id = %MessageId::REFUSED_ON_PURPOSE,
                    client = %self.connection.peer(),
                    op,
                    "closing a connection: it sent an operation that clients cannot use"
                );
                let code = match planted::is("unknown-operation-is-minus-5") {
                    true => ErrorCode::MarshallingError,
                    false => ErrorCode::Unimplemented,
                };
                self.refuse(header.xid, Zxid(-1), code);
                return Some(Step::Leave);
            }
            // ZooKeeper reads these before it has a request that it could answer.
            (Some(OpCode::Auth | OpCode::Sasl), _) => return Some(Step::Leave),
            // ZooKeeper decodes the null path of these two, and finds it no path.
            (Some(OpCode::SetData | OpCode::SetAcl), DecodeError::Null) => ErrorCode::BadArguments,
            _ => ErrorCode::MarshallingError,
        };
        self.refuse_shown(header.xid, code);
        None
    }

    /// Refuses with the zxid of what a read shows now, under the same hold: what is published may
    /// be ahead of its events, and a client that has seen it would not be told of them when it sets
    /// its watches again.
    pub(super) fn refuse_shown(&mut self, xid: i32, error: ErrorCode) {
        let hold = self.hold.get_or_insert_with(|| self.server.replica.shared());
        let zxid = hold.last_zxid();
        self.refuse(xid, zxid, error);
    }

    pub(super) fn refuse(&mut self, xid: i32, zxid: Zxid, error: ErrorCode) {
        self.put(xid, zxid, Err(error));
    }

    fn put(&mut self, xid: i32, zxid: Zxid, answer: Result<Response<'_>, ErrorCode>) {
        match answer {
            Ok(response) => put_reply(&mut self.out, xid, zxid.0, &response),
            Err(error) => put_refusal(&mut self.out, xid, zxid.0, error),
        }
        self.count += 1;
        self.spent += 1;
    }

    /// Puts the answers into the outbox and ends the hold. False where they are too old by now:
    /// nobody is told them, and the connection ends.
    pub(super) fn publish(&mut self) -> bool {
        let is_told = self.count == 0 || self.tell();
        self.shows_tree = false;
        if self.hold.take().is_some() {
            self.server.connections.shed(self.connection);
        }
        is_told
    }

    fn tell(&mut self) -> bool {
        let now = self.server.clock.monotonic();
        let fresh = match &self.hold {
            Some(hold) => self.server.fresh(self.connection, hold, self.shows_tree, || now),
            None => Some(Fresh::NOTHING_READ),
        };
        let count = std::mem::take(&mut self.count) as u64;
        let (events, bytes) = std::mem::take(&mut self.events);
        let Sizes { last, min, max, sum } = std::mem::replace(&mut self.sizes, Sizes::NONE);
        self.spent = 0;
        let Some(fresh) = fresh else {
            self.out.clear();
            self.server.connections.end_too_old(self.connection);
            return false;
        };
        self.connection.outbox().put_answers(&mut self.out, self.room.taken.take(), fresh);
        let times = (self.received, now);
        self.connection.answered_here(&self.server.stats, self.zxid, count, times, fresh);
        self.connection.caught_up(&self.server.stats, events, bytes);
        if sum > 0 {
            self.server.stats.record_response_size(last, min, max);
            self.server.stats.series.count(Counter::ResponseBytes, sum);
        }
        true
    }
}

/// Puts events before the answer that caught up on them, and counts them and their bytes.
fn put_events(out: &mut BytesMut, counted: &mut (u64, u64), events: &[Event]) {
    for event in events {
        let before = out.len() + LENGTH_LEN;
        put_event(out, event.zxid.0, event.event_type, &event.path);
        counted.0 += 1;
        counted.1 += (out.len() - before) as u64;
    }
}

/// What a request takes of [`ANSWERS_A_HOLD`].
fn share_of_hold(request: &Request<'_>) -> usize {
    match request {
        // All that the session owns is looked at, also for an answer with none of it.
        Request::GetEphemerals(_) => ANSWERS_A_HOLD,
        // Each path is looked for and watched.
        Request::SetWatches(_) | Request::SetWatches2(_) => ANSWERS_A_HOLD,
        Request::MultiRead(ops) => ops
            .iter()
            .map(|op| match op {
                ReadOp::GetData(path) | ReadOp::GetChildren(path) => path::cost(path),
            })
            .fold(1, usize::saturating_add),
        Request::AddWatch(body) => path::cost(&body.path),
        Request::CheckWatches(body) | Request::RemoveWatches(body) => path::cost(&body.path),
        request => request.path().map_or(1, path::cost),
    }
}

/// What ZooKeeper counts as read from a namespace.
fn count_read(reads: &mut Reads, series: &Series, request: &Request<'_>, response: &Response<'_>) {
    match (request, response) {
        (Request::GetData(body), Response::GetData(found)) => {
            reads.count(series, &body.path, found.data.as_ref().map_or(0, |data| data.len()));
        }
        (Request::Exists(body), _) => reads.count(series, &body.path, 0),
        (Request::GetChildren(body), Response::Children(found)) => {
            reads.count(series, &body.path, found.children.iter().map(|name| name.len()).sum());
        }
        (Request::GetChildren2(body), Response::Children2(found)) => {
            reads.count(series, &body.path, found.children.iter().map(|name| name.len()).sum());
        }
        _ => {}
    }
}

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        self.publish();
    }
}

#[cfg(test)]
#[path = "answers_test.rs"]
mod answers_test;
