//! A client's requests, one after the other, and for each the decision who answers it.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use jute::protocol::{LENGTH_LEN, Request, RequestHeader, SyncRequest, xid};
use jute::{DecodeError, ErrorCode, IntoStatic as _, OpCode};
use tokio::sync::OwnedSemaphorePermit;

use super::answers::Answers;
use super::frames::Frames;
use super::inbox::Step;
use super::large_requests::{OverBudget, over_budget};
use super::listings::LongListing;
use super::rooms::{QueueShare, request_bytes};
use crate::engine::access::acl::Identities;
use crate::engine::decide::request::{Origin, Work};
use crate::engine::effect::Effect;
use crate::engine::time::Monotonic;
use crate::engine::zxid::Zxid;
use crate::ensemble::{Share, Submission};
use crate::planted;
use crate::server::client::audit;
use crate::server::client::auth;
use crate::server::client::connection::Connection;
use crate::server::client::unread::Claim;
use crate::server::figures::hot_paths::{Sample, Sampler};
use crate::server::figures::namespace::Reads;
use crate::server::figures::stats;
use crate::server::shared::Server;

/// Reads of one connection that may stand with the orderer: it makes their answers before the
/// client has read those ahead.
const READS_IN_FLIGHT: usize = 32;

thread_local! {
    /// The places for submissions of the connection that was idle last, as its buffer.
    static SPARE: Cell<Vec<Submission>> = const { Cell::new(Vec::new()) };
}

/// What is known of a client's requests from one look to the next.
pub(super) struct Requests {
    server: Arc<Server>,
    /// On their way to the orderer.
    submissions: Vec<Submission>,
    /// Room of the queue that was waited for.
    queue_room: Option<OwnedSemaphorePermit>,
    /// When the request that waits for the queue's room began to.
    waits_since: Option<Monotonic>,
    /// When the read that is first came, if it could not be answered at once.
    came: Option<Monotonic>,
    reads_in_flight: usize,
    /// Room for the large answer to what is first.
    granted: Option<Claim>,
    /// Room in the audit log for the change that is first.
    audit_room: Option<audit::Held>,
    /// Whether a read waits for a sync (`linearizableReads`).
    syncs_reads: bool,
    /// Bytes of requests that were here when the last such sync was asked for: the reads in them
    /// may be answered.
    synced_bytes: usize,
    /// A reconfig is with the orderer: it may take long, is answered out of the others' order, and
    /// nothing of its connection is on its way beside it.
    reconfigures: bool,
    sampler: Sampler,
    reads: Reads,
}

/// The request that is first.
struct First<'a> {
    header: &'a RequestHeader,
    /// Bytes of its payload.
    len: usize,
    /// Bytes of that after the header.
    body_len: usize,
    /// Bytes that are here, with it.
    here: usize,
    /// Nothing of the connection is with the orderer.
    is_alone: bool,
    /// When it was seen here.
    received: Monotonic,
}

/// What becomes of the request that is first.
enum Fate {
    /// It stays there.
    Stays(Step),
    /// It was taken. Where there is a step, no further one is.
    Taken(Option<Step>),
}

impl Requests {
    pub(super) fn new(server: Arc<Server>) -> Self {
        let ensemble = server.config.ensemble.as_ref();
        let syncs_reads = ensemble.is_some_and(|ensemble| ensemble.linearizable_reads);
        Self {
            server,
            submissions: Vec::new(),
            queue_room: None,
            waits_since: None,
            came: None,
            reads_in_flight: 0,
            granted: None,
            audit_room: None,
            syncs_reads,
            synced_bytes: 0,
            reconfigures: false,
            sampler: Sampler::default(),
            reads: Reads::default(),
        }
    }

    /// There is room in the queue for the request that is first.
    pub(super) fn grant_room(&mut self, room: OwnedSemaphorePermit) {
        self.queue_room = Some(room);
    }

    /// There is room for the large answer that is to come next.
    pub(super) fn grant(&mut self, taken: Claim) {
        self.granted = Some(taken);
    }

    /// The same in the audit log for the change that is to come next.
    pub(super) fn grant_audit(&mut self, held: audit::Held) {
        self.audit_room = Some(held);
    }

    /// No request is taken any more: what was waited for is for others.
    pub(super) fn leave(&mut self) {
        self.queue_room = None;
        self.granted = None;
        self.audit_room = None;
    }

    /// Nothing is half read: what is kept for requests is given back.
    pub(super) fn rest(&mut self) {
        let places = std::mem::take(&mut self.submissions);
        if places.capacity() > 0 {
            SPARE.set(places);
        }
    }

    /// Room for one request: what the task waited for, or what is free now.
    pub(super) fn take_room(&mut self, share: QueueShare) -> Option<OwnedSemaphorePermit> {
        let is_enough = |room: &OwnedSemaphorePermit| room.num_permits() >= share.bytes as usize;
        let waited_for = self.queue_room.take().filter(is_enough);
        waited_for.or_else(|| self.server.intake.rooms.try_take(share))
    }

    pub(super) fn put(&mut self, submission: Submission) {
        if self.submissions.capacity() == 0 {
            self.submissions = SPARE.take();
        }
        self.submissions.push(submission);
    }

    /// Hands to the orderer what was submitted since the last time.
    pub(super) fn hand_over(&mut self) {
        if !self.submissions.is_empty() {
            self.server.intake.queue.put(&mut self.submissions);
        }
        // What was waited for and turned out not to be needed: others wait for it.
        self.queue_room = None;
    }

    /// Takes requests: reads with nothing of the session in flight are answered here, anything else
    /// is submitted.
    pub(super) fn take(&mut self, frames: &mut Frames, connection: &Connection) -> Step {
        let server = Arc::clone(&self.server);
        let received = server.clock.monotonic();
        let mut reads = std::mem::take(&mut self.reads);
        // What is not needed now is not needed.
        let granted = self.granted.take();
        let came = self.came.take().unwrap_or(received);
        let answers = Answers::new(connection, &server, came, granted, &mut reads);
        let step = self.take_all(frames, connection, received, answers);
        reads.flush();
        self.reads = reads;
        step
    }

    fn take_all(
        &mut self,
        frames: &mut Frames,
        connection: &Connection,
        received: Monotonic,
        mut answers: Answers<'_>,
    ) -> Step {
        let server = answers.server();
        let mut taken = Taken::new(connection, server);
        let mut heard = false;
        self.sampler.begin();
        loop {
            let len = match frames.first_len(server, connection) {
                Ok(Some(len)) => len,
                Ok(None) => return Step::NeedsBytes,
                Err(step) => return step,
            };
            if answers.is_full() {
                // The client may read nothing for long, and others want that room.
                self.audit_room = None;
                return Step::Full;
            }
            // Not before: events wake the task of a frozen client, too, and find the same frame
            // again.
            if !heard && let Some(session) = connection.session() {
                session.heard.touch(received);
                heard = true;
            }
            let Ok((header, body)) = jute::decode::<RequestHeader>(frames.payload(len)) else {
                return Step::HangUp;
            };
            let is_alone = connection.in_flight() == 0;
            if is_alone {
                self.reads_in_flight = 0;
            }
            let request = Request::decode(header.op, body);
            let sample = match &request {
                Ok(request) if self.sampler.is_due() => Sample::of(request),
                _ => None,
            };
            let (body_len, here) = (body.len(), frames.bytes().len());
            let first = First { header: &header, len, body_len, here, is_alone, received };
            let step = match self.fate(connection, &first, request, &mut answers) {
                Fate::Stays(step) => return step,
                Fate::Taken(step) => step,
            };
            taken.count(&header);
            let times = self.sampler.take();
            if let Some(sample) = sample {
                server.stats.hot_paths.count(&sample, times, received);
            }
            frames.advance(len);
            self.synced_bytes = self.synced_bytes.saturating_sub(LENGTH_LEN + len);
            if let Some(step) = step {
                if step == Step::Leave && !connection.is_leaving() {
                    if !answers.publish() {
                        return Step::Leave;
                    }
                    connection.outbox().end();
                }
                return step;
            }
        }
    }

    /// Answers the first request, or submits it, or says what it waits for.
    fn fate(
        &mut self,
        connection: &Connection,
        first: &First<'_>,
        request: Result<Request<'_>, DecodeError>,
        answers: &mut Answers<'_>,
    ) -> Fate {
        let is_reconfig = matches!(request, Ok(Request::Reconfig(_)));
        if (self.reconfigures || is_reconfig)
            && let Some(step) = first.must_wait(answers)
        {
            return Fate::Stays(step);
        }
        self.reconfigures = is_reconfig;
        let is_known = auth::is_enough(&self.server.config.access, connection, first.header.op);
        if is_known
            && connection.reads_only()
            && Effect::is_refused_to_readers(first.header.op)
            && !planted::is("read-only-takes-writes")
        {
            if let Some(step) = first.must_wait(answers) {
                return Fate::Stays(step);
            }
            answers.refuse_shown(first.header.xid, ErrorCode::NotReadOnly);
            return Fate::Taken(None);
        }
        match request {
            Ok(request) if is_known => self.fate_of_known(connection, first, request, answers),
            other => {
                if let Some(step) = first.must_wait(answers) {
                    return Fate::Stays(step);
                }
                match other {
                    Err(error) if is_known => Fate::Taken(answers.malformed(first.header, error)),
                    _ => {
                        let error = ErrorCode::SessionClosedRequireSaslAuth;
                        answers.refuse(first.header.xid, Zxid::ZERO, error);
                        Fate::Taken(Some(Step::Leave))
                    }
                }
            }
        }
    }

    /// The same for a request of a client that has shown to be somebody, where that is wanted.
    fn fate_of_known(
        &mut self,
        connection: &Connection,
        first: &First<'_>,
        request: Request<'_>,
        answers: &mut Answers<'_>,
    ) -> Fate {
        let server = answers.server();
        let effect = Effect::of(&request);
        if effect == Effect::Changes
            && let Some(audit) = &server.audit
        {
            if audit.refuses() {
                if let Some(step) = first.must_wait(answers) {
                    return Fate::Stays(step);
                }
                self.audit_room = None;
                answers.refuse_shown(first.header.xid, ErrorCode::OperationTimeout);
                return Fate::Taken(None);
            }
            if self.audit_room.is_none() && !audit.has_room() {
                return Fate::Stays(Step::NeedsAuditRoom(audit_weight(connection, &request)));
            }
        }
        let is_late = !connection.reads_only()
            && !server.replica.may_answer(effect.shows_tree(), first.received);
        // The orderer answers no reads of who reads only.
        let is_alone = first.is_alone || connection.reads_only();
        if self.belongs_to_orderer(effect, is_alone, is_late) {
            return self.submit_first(connection, first, (effect, request), answers);
        }
        if first.is_alone && is_late {
            self.came = Some(answers.received());
            return Fate::Stays(Step::NeedsRound);
        }
        if first.is_alone && !connection.reads_only() && self.needs_sync(effect, first.len) {
            return self.sync_before(connection, first, &request, answers);
        }
        // What is answered here waits until the orderer is done: answers keep the order of their
        // requests.
        if let Some(step) = first.must_wait(answers) {
            return Fate::Stays(step);
        }
        match answers.take(first.header, effect, &request) {
            Some(step @ (Step::List(_) | Step::WatchAgain | Step::NeedsUnread(_))) => {
                self.came = Some(answers.received());
                Fate::Stays(step)
            }
            step => Fate::Taken(step),
        }
    }

    /// Submits the request that is first.
    fn submit_first(
        &mut self,
        connection: &Connection,
        first: &First<'_>,
        (effect, request): (Effect, Request<'_>),
        answers: &mut Answers<'_>,
    ) -> Fate {
        let server = answers.server();
        let identities = connection.identities();
        let len = request_bytes(&request, first.len).saturating_add(identities.bytes());
        let (room, received) =
            match self.room_for(server.intake.rooms.share_of_request(len), first.received) {
                Ok(its) => its,
                Err(step) => return Fate::Stays(step),
            };
        let large = server.intake.large_requests.as_ref().map(|large| large.take(first.body_len));
        let large = match large.transpose() {
            Ok(share) => share.flatten(),
            Err(OverBudget) => return Fate::Stays(over_budget(server, connection)),
        };
        // Answers made here stand before what the orderer makes of the next request.
        if !answers.publish() {
            return Fate::Stays(Step::Leave);
        }
        let request = request.into_static();
        if let Some(audit) = &server.audit {
            let (session, address) = (connection.session_id(), connection.peer().ip());
            let room = self.audit_room.take();
            connection.audited().note(audit, room, &request, session, &identities, address);
        }
        let is_close = request == Request::CloseSession;
        self.reads_in_flight += usize::from(effect.is_read());
        let xid = if request == Request::Ping { xid::PING } else { first.header.xid };
        let origin = origin(connection, xid, identities, received);
        let room = Some(Share::new(room, large));
        self.submit(connection, Submission { origin, work: Work::Request(request), len, room });
        if is_close {
            // After it counts as in flight: else the answer to an earlier request, given just now,
            // would be the last word.
            connection.leave_after_answer();
        }
        Fate::Taken(is_close.then_some(Step::Leave))
    }

    /// Asks for the sync that the read that is first waits for. It takes the read's room.
    fn sync_before(
        &mut self,
        connection: &Connection,
        first: &First<'_>,
        request: &Request<'_>,
        answers: &mut Answers<'_>,
    ) -> Fate {
        let server = answers.server();
        let identities = connection.identities();
        let len = request_bytes(request, first.len).saturating_add(identities.bytes());
        let (room, received) =
            match self.room_for(server.intake.rooms.share_of_request(len), first.received) {
                Ok(its) => its,
                Err(step) => return Fate::Stays(step),
            };
        if !answers.publish() {
            return Fate::Stays(Step::Leave);
        }
        connection.begin_own_sync();
        self.synced_bytes = first.here;
        let len = identities.bytes();
        let origin = origin(connection, first.header.xid, identities, received);
        let work = Work::Request(Request::Sync(SyncRequest { path: None }));
        let room = Some(Share::new(room, None));
        self.submit(connection, Submission { origin, work, len, room });
        Fate::Stays(Step::Drain)
    }

    /// Room for the request that is first, and since when it waits.
    fn room_for(
        &mut self,
        share: QueueShare,
        received: Monotonic,
    ) -> Result<(OwnedSemaphorePermit, Monotonic), Step> {
        let Some(room) = self.take_room(share) else {
            self.waits_since.get_or_insert(received);
            return Err(Step::NeedsRoom(share));
        };
        Ok((room, self.waits_since.take().unwrap_or(received)))
    }

    /// One more request is with the orderer.
    pub(super) fn submit(&mut self, connection: &Connection, submission: Submission) {
        connection.submitted();
        self.put(submission);
    }

    /// When the read that is first came.
    pub(super) fn take_came(&mut self) -> Monotonic {
        self.came.take().unwrap_or_else(|| self.server.clock.monotonic())
    }

    /// The long listing that is first was answered.
    pub(super) fn listed(
        &mut self,
        frames: &mut Frames,
        connection: &Connection,
        listing: &LongListing,
    ) {
        if self.take_first(frames, connection).is_some()
            && let Some(sample) = &listing.sample
        {
            self.server.stats.hot_paths.count(sample, 1, self.server.clock.monotonic());
        }
    }

    /// Takes the first request out, and counts it as taken: its header, and what follows that.
    pub(super) fn take_first(
        &mut self,
        frames: &mut Frames,
        connection: &Connection,
    ) -> Option<(RequestHeader, Bytes)> {
        let len = frames.first_len(&self.server, connection).ok().flatten()?;
        let payload = frames.split_first(len);
        self.synced_bytes = self.synced_bytes.saturating_sub(LENGTH_LEN + len);
        let (header, body) = jute::decode::<RequestHeader>(&payload).ok()?;
        Taken::new(connection, &self.server).count(&header);
        let body = payload.slice_ref(body);
        Some((header, body))
    }

    /// Whether a request is submitted: writes always, reads only while something of the connection
    /// is with the orderer, and then only those with small answers, a few at a time. One that waits
    /// for a round waits here: others stand behind it there.
    fn belongs_to_orderer(&self, effect: Effect, is_alone: bool, is_late: bool) -> bool {
        if effect.is_read() {
            !is_alone
                && !is_late
                && !self.syncs(effect)
                && !effect.can_be_large()
                && self.reads_in_flight < READS_IN_FLIGHT
                && !self.server.connections.unread().is_scarce()
        } else {
            effect != Effect::Authenticates
        }
    }

    /// Whether a read may only be answered after a sync.
    const fn syncs(&self, effect: Effect) -> bool {
        self.syncs_reads && effect.shows_tree()
    }

    /// Whether that is still to come for the read whose payload has this length.
    const fn needs_sync(&self, effect: Effect, len: usize) -> bool {
        self.syncs(effect) && self.synced_bytes < LENGTH_LEN + len
    }

    #[cfg(test)]
    pub(super) const fn came(&self) -> Option<Monotonic> {
        self.came
    }
}

impl First<'_> {
    /// What comes before an answer that is made here.
    fn must_wait(&self, answers: &Answers<'_>) -> Option<Step> {
        if !self.is_alone {
            Some(Step::Drain)
        } else if answers.is_at_end() {
            Some(Step::Again)
        } else {
            None
        }
    }
}

fn origin(
    connection: &Connection,
    xid: i32,
    identities: Arc<Identities>,
    received: Monotonic,
) -> Origin {
    let (id, session) = (connection.id(), connection.session_id());
    Origin { connection: id, session, xid, identities, received }
}

/// What a change takes of the audit log's room.
fn audit_weight(connection: &Connection, request: &Request<'_>) -> usize {
    let (session, address) = (connection.session_id(), connection.peer().ip());
    let identities = connection.identities();
    connection.audited().weight(request, session, &identities, address)
}

/// Requests that were taken and are still to be counted: all of them at once.
struct Taken<'a> {
    connection: &'a Connection,
    server: &'a Server,
    count: u64,
    last_op: i32,
    last_cxid: Option<i32>,
}

impl<'a> Taken<'a> {
    const fn new(connection: &'a Connection, server: &'a Server) -> Self {
        Self { connection, server, count: 0, last_op: 0, last_cxid: None }
    }

    fn count(&mut self, header: &RequestHeader) {
        self.count += 1;
        self.last_op = header.op;
        // Not that of a ping: the last real request is what is asked for
        // (`ServerCnxn.updateStatsForResponse`).
        if header.xid >= 0 {
            self.last_cxid = Some(header.xid);
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.count == 0 {
            return;
        }
        stats::add(&self.server.stats.packets_received, self.count);
        let mut counters = self.connection.counters();
        counters.received += self.count;
        counters.last_op = OpCode::from_code(self.last_op);
        if let Some(cxid) = self.last_cxid {
            counters.last_cxid = cxid;
        }
    }
}
