//! What becomes of requests that were decided and wait for their transactions to be final.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jute::protocol::{Request, Response};
use jute::txn::{Txn, TxnRecord};

use super::clients::{Clients, RequestKind};
use super::held::{STEP_BYTES, least_bytes};
use super::queue::{Share, Submission};
use super::rebuild::{tell_misfit, tell_mismatch};
use super::replica::{Exclusive, Publisher, Replica};
use super::standalone::OrderError;
use crate::engine::access::acl::AclList;
use crate::engine::answer::read;
use crate::engine::answer::read::Caller;
use crate::engine::apply::Mode;
use crate::engine::database::Database;
use crate::engine::decide::request::{Chore, Origin, Work};
use crate::engine::decide::sequencer::{Prepared, Sequencer};
use crate::engine::decide::tracker::Attached;
use crate::engine::effect::Effect;
use crate::engine::path;
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, Now};
use crate::engine::watch::{Event, Tell};
use crate::engine::zxid::Zxid;
use crate::planted;

/// How long transactions are applied before waiting readers are let in.
const HOLD_MAX: Duration = Duration::from_micros(100);
/// Between two looks at the clock while the hold lasts: steps, parts of their transactions, and
/// receivers of their events; of all of them each counts as more where its path is long.
const WORK_A_LOOK: usize = 16;
/// What one receiver of an event comes to at most: longer ones are shared.
const COPIED: usize = 64;

/// Bytes that are decided in one turn, with one more request: those that came and those of the
/// transactions that they become, whatever the outcome. A megabyte of small parts takes some 40 ms
/// to decide, and nothing ticks meanwhile.
pub(super) const TURN_BYTES: usize = 4 << 20;
/// What looking up an entry of an ACL, or an identity, costs, in bytes.
const LOOK_UP_BYTES: usize = 4;

/// Entries of ACL lists that are kept until the hold is over: some 12 MB.
const GONE_ENTRIES_MAX: usize = 100_000;
/// Bytes of events that wait for the end of their transaction, with one more event.
const EVENTS_BYTES: usize = 1 << 20;

/// A request's share of the bounds of what may be on its way.
pub(super) type RequestShare = Option<Share>;

/// A request, decided, that waits for the log.
pub(super) struct Unlogged {
    /// Nobody, for what the server itself wanted.
    pub(super) origin: Option<Origin>,
    pub(super) outcome: Prepared,
    /// Its share of the queue's bound, until it is answered.
    pub(super) room: RequestShare,
}

impl Unlogged {
    /// The transaction that it waits for.
    pub(super) const fn record(&self) -> Option<&TxnRecord<'static>> {
        match &self.outcome {
            Prepared::Txn(record) | Prepared::Open(record, _) => Some(record),
            _ => None,
        }
    }
}

/// Decides chores and requests in their order: `refuse` may give an answer before the tree is
/// looked at, `place` gives each transaction its place in the log, and its length. Beyond
/// `bytes_max` of what came and what it became the rest stays where it is, and half of that is for
/// requests. Gives what was decided, and how much it was.
#[expect(clippy::too_many_arguments, reason = "what is decided, and by what")]
pub(super) fn decide<E>(
    sequencer: &mut Sequencer,
    database: &Database,
    chores: &mut impl Iterator<Item = Chore>,
    submissions: &mut impl Iterator<Item = Submission>,
    now: Now,
    bytes_max: usize,
    mut refuse: impl FnMut(&Work) -> Option<Prepared>,
    mut place: impl FnMut(&TxnRecord<'static>) -> Result<usize, E>,
) -> Result<(Vec<Unlogged>, usize), E> {
    let mut steps = Vec::new();
    let mut bytes = 0;
    while bytes < bytes_max.div_ceil(2)
        && let Some(chore) = chores.next()
    {
        bytes += STEP_BYTES;
        if let Some(record) = sequencer.prepare_chore(database, &chore, now) {
            bytes += place(&record)?;
            steps.push(Unlogged { origin: None, outcome: Prepared::Txn(record), room: None });
        }
    }
    while bytes < bytes_max
        && let Some(submission) = submissions.next()
    {
        bytes += least_bytes(&submission);
        let Submission { origin, work, room, .. } = submission;
        let refused = refuse(&work);
        if let Work::Upgrade { timeout_ms, .. } = &work
            && refused.is_none()
            && let Some(record) = sequencer.upgrade(database, &origin, *timeout_ms, now)
        {
            bytes += place(&record)?;
            steps.push(Unlogged { origin: None, outcome: Prepared::Txn(record), room: None });
        }
        let outcome = refused.unwrap_or_else(|| sequencer.prepare(database, &origin, work, now));
        bytes += LOOK_UP_BYTES * sequencer.take_looked_up();
        let step = Unlogged { origin: Some(origin), outcome, room };
        if let Some(record) = step.record() {
            bytes += place(record)?;
        }
        steps.push(step);
    }
    Ok((steps, bytes))
}

/// Applies what is final and tells the clients what came of it.
pub(super) struct Applier {
    pub(super) replica: Arc<Replica>,
    pub(super) clients: Arc<dyn Clients>,
    /// What becomes of a transaction that does not fit.
    pub(super) mode: Mode,
}

/// An applier that has the exclusive hold.
pub(super) struct Applying<'a> {
    hold: ManuallyDrop<Exclusive<'a>>,
    replica: &'a Replica,
    clients: &'a dyn Clients,
    mode: Mode,
    since: Instant,
    /// What was done since the last look at the clock.
    work: usize,
    events: Vec<Event>,
    /// The shares of what is answered: given back, which wakes who waits for one, only after the
    /// hold.
    rooms: Vec<Share>,
    /// What transactions left to drop, likewise; and its entries.
    gone: Vec<AclList>,
    gone_entries: usize,
}

impl Applier {
    /// Takes the exclusive hold for `apply`. Where that fails it is never given back: nobody may
    /// read half a transaction, and the process ends.
    pub(super) fn under_hold<E>(
        &self,
        apply: impl FnOnce(&mut Applying<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut applying = Applying {
            hold: ManuallyDrop::new(self.replica.exclusive()),
            replica: &self.replica,
            clients: &*self.clients,
            mode: self.mode,
            since: Instant::now(),
            work: 0,
            events: Vec::new(),
            rooms: Vec::new(),
            gone: Vec::new(),
            gone_entries: 0,
        };
        apply(&mut applying)?;
        drop(ManuallyDrop::into_inner(applying.hold));
        Ok(())
    }
}

impl Applying<'_> {
    /// Finishes a step whose transaction, if it is one, is final, and everything before it applied.
    pub(super) fn finish(
        &mut self,
        step: Unlogged,
        sequencer: &mut Sequencer,
    ) -> Result<(), OrderError> {
        self.let_readers_in();
        let Unlogged { origin, outcome, room } = step;
        self.rooms.extend(room);
        match (outcome, origin) {
            (Prepared::Txn(record), origin) => {
                let closed = match &record.txn {
                    Txn::CloseSession(_) => Some(SessionId(record.header.client_id)),
                    _ => None,
                };
                let response = self.apply(record)?;
                let owner = closed.and_then(|session| sequencer.session_closed(session));
                match (origin, owner) {
                    (Some(origin), _) => self.answer_applied(&origin, response),
                    (None, Some(owner)) => self.clients.close(owner),
                    (None, None) => {}
                }
            }
            (Prepared::Open(record, attached), Some(origin)) => {
                self.apply(record)?;
                self.clients.attached(origin.connection, &attached);
            }
            (outcome, Some(origin)) => self.settle(&origin, outcome),
            (_, None) => {}
        }
        Ok(())
    }

    /// Answers what needs no transaction, once everything before it is applied.
    fn settle(&mut self, origin: &Origin, outcome: Prepared) {
        match outcome {
            Prepared::Attached(attached) => self.attach(origin, &attached),
            Prepared::NoSession => self.clients.no_session(origin.connection),
            Prepared::Close => self.clients.close(origin.connection),
            Prepared::Refused(error) => {
                let zxid = self.hold.database().last_zxid();
                self.clients.answer(origin, RequestKind::Update, zxid, None, Err(error));
            }
            Prepared::RefusedMulti(results) => {
                let zxid = self.hold.database().last_zxid();
                self.clients.answer(
                    origin,
                    RequestKind::Update,
                    zxid,
                    None,
                    Ok(Response::Multi(results)),
                );
            }
            Prepared::Read(request) => self.read(origin, &request),
            // These are transactions.
            Prepared::Txn(_) | Prepared::Open(..) => {}
        }
    }

    /// Answers a request that another server decided without a transaction.
    pub(super) fn answer(&mut self, origin: &Origin, outcome: Prepared, room: RequestShare) {
        self.let_readers_in();
        self.rooms.extend(room);
        self.settle(origin, outcome);
    }

    /// Applies a transaction of this server's client that another server decided, and answers it.
    pub(super) fn answer_txn(
        &mut self,
        origin: &Origin,
        record: TxnRecord<'_>,
        opened: Option<&Attached>,
        room: RequestShare,
    ) -> Result<(), OrderError> {
        self.let_readers_in();
        self.rooms.extend(room);
        let response = self.apply(record)?;
        match opened {
            Some(attached) => self.clients.attached(origin.connection, attached),
            None => self.answer_applied(origin, response),
        }
        Ok(())
    }

    /// Answers whoever asked for a transaction that was applied. Of a multi that is half done there
    /// is nothing true to say.
    fn answer_applied(&mut self, origin: &Origin, response: Response<'_>) {
        let database = self.hold.database();
        let (zxid, undone) = (database.last_zxid(), database.undone());
        let answer = match (response, undone) {
            (Response::Multi(_), Some(_)) => return self.clients.close(origin.connection),
            (_, Some(error)) => Err(error),
            (response, None) => Ok(response),
        };
        self.clients.answer(origin, RequestKind::Update, zxid, None, answer);
    }

    /// Answers whoever had the list of servers changed by the transaction that was just applied.
    pub(super) fn answer_list(&mut self, origin: &Origin, room: RequestShare) {
        self.rooms.extend(room);
        let database = &*self.hold.database();
        let (zxid, answer) = (database.last_zxid(), database.show_list());
        self.clients.answer(origin, RequestKind::Update, zxid, None, answer);
    }

    /// Applies a transaction that is final and has its events told.
    pub(super) fn apply<'t>(&mut self, record: TxnRecord<'t>) -> Result<Response<'t>, OrderError> {
        let TxnRecord { header, txn, digest } = record;
        self.clients.applies(&txn);
        self.work += parts(&txn);
        if let Txn::CloseSession(its) = &txn {
            self.clients.ephemerals_end(SessionId(header.client_id), &its.paths_to_delete);
        }
        let zxid = Zxid(header.zxid);
        let mut telling = Telling {
            clients: self.clients,
            publisher: self.hold.publisher(),
            zxid,
            events: &mut self.events,
            bytes: 0,
            work: &mut self.work,
        };
        let response = self
            .hold
            .database()
            .apply(&header, txn, digest, self.mode, &mut telling)
            .map_err(|reason| OrderError::Diverged { zxid, reason })?;
        telling.hand_on();
        if let Some(mismatch) = self.hold.database().take_mismatch() {
            tell_mismatch(&mismatch);
        }
        if let Some(misfit) = self.hold.database().take_misfit() {
            tell_misfit(&misfit);
        }
        self.put_aside();
        Ok(response)
    }

    /// Keeps what the transaction left to drop until the hold is over, unless that is too much by
    /// then.
    fn put_aside(&mut self) {
        let gone = self.hold.database().take_gone();
        self.gone_entries += gone.iter().map(|list| list.len()).sum::<usize>();
        self.gone.extend(gone);
        if self.gone_entries > GONE_ENTRIES_MAX {
            self.gone.clear();
            self.gone_entries = 0;
        }
    }

    /// A round is over that began then: all is applied that it is to show.
    pub(super) fn shows(&self, began: Monotonic) {
        if let Some(freshness) = self.replica.freshness() {
            freshness.shows(began);
        }
    }

    /// The database, as it is now.
    pub(super) fn database(&mut self) -> &mut Database {
        self.hold.database()
    }

    /// To be called once a step.
    pub(super) fn let_readers_in(&mut self) {
        self.work += 1;
        if self.takes_a_look() && self.since.elapsed() >= HOLD_MAX {
            self.hold.bump();
            self.since = Instant::now();
        }
    }

    /// Whether so much was done that it is time to look at the clock.
    const fn takes_a_look(&mut self) -> bool {
        let is_due = self.work >= WORK_A_LOOK;
        if is_due {
            self.work = 0;
        }
        is_due
    }

    fn attach(&self, origin: &Origin, attached: &Attached) {
        if let Some(previous) = attached.previous
            && !planted::is("older-connection-stays")
        {
            self.clients.close(previous);
        }
        self.clients.attached(origin.connection, attached);
    }

    /// A read that stood after a write of its session, and could be told when it came. It does not
    /// wait: others would, too.
    fn read(&mut self, origin: &Origin, request: &Request<'static>) {
        if !self.clients.is_open(origin.connection) {
            return;
        }
        let database = &*self.hold.database();
        let caller = Caller {
            connection: origin.connection,
            session: origin.session,
            identities: &origin.identities,
        };
        let answer = read::answer(database, &caller, request, &mut self.events);
        let shows_tree = Effect::of(request).shows_tree();
        match self.replica.fresh(database, shows_tree, || self.clients.now()) {
            Some(fresh) => {
                self.clients.events(&self.events);
                let (zxid, path) = (database.last_zxid(), request.path());
                self.clients.answer(origin, RequestKind::Read(fresh), zxid, path, answer);
            }
            None => self.clients.end(origin.connection),
        }
        self.events.clear();
    }
}

/// Tells clients of what one transaction changes: all at once at its end, unless that would be much
/// by then.
struct Telling<'a> {
    clients: &'a dyn Clients,
    publisher: Publisher<'a>,
    /// Of the transaction.
    zxid: Zxid,
    events: &'a mut Vec<Event>,
    /// What `events` take.
    bytes: usize,
    work: &'a mut usize,
}

impl Tell for Telling<'_> {
    fn tell(&mut self, event: Event) {
        self.bytes += size_of::<Event>() + event.path.len() + size_of_val(&*event.receivers);
        self.events.push(event);
        if self.bytes >= EVENTS_BYTES {
            self.hand_on();
        }
    }
}

impl Telling<'_> {
    fn hand_on(&mut self) {
        self.publisher.publish(self.zxid);
        self.clients.events(self.events);
        *self.work += self.events.iter().map(work_of_event).sum::<usize>();
        self.events.clear();
        self.bytes = 0;
    }
}

/// What a transaction comes to beyond one short part.
fn parts(txn: &Txn<'_>) -> usize {
    let parts: usize = match txn {
        Txn::Multi(parts) => parts.iter().map(|part| 1 + parts_of_one(part)).sum(),
        Txn::CloseSession(its) => its.paths_to_delete.iter().map(|path| path::cost(path)).sum(),
        one => 1 + parts_of_one(one),
    };
    parts.saturating_sub(1)
}

/// What a part comes to for its path beyond a short one.
fn parts_of_one(txn: &Txn<'_>) -> usize {
    let path = match txn {
        Txn::Create(its) | Txn::Create2(its) => &its.path,
        Txn::CreateContainer(its) => &its.path,
        Txn::CreateTtl(its) => &its.path,
        Txn::Delete(its) | Txn::DeleteContainer(its) => &its.path,
        Txn::SetData(its) | Txn::Reconfig(its) => &its.path,
        Txn::SetAcl(its) => &its.path,
        Txn::Check(_) | Txn::Error(_) | Txn::Multi(_) => return 0,
        Txn::CreateSession(_) | Txn::CloseSession(_) => return 0,
    };
    path::cost(path) - 1
}

/// What telling of an event comes to: its path is encoded once, and a short one is copied for each
/// who is told.
fn work_of_event(event: &Event) -> usize {
    let cost = path::cost(&event.path);
    event.receivers.len() * cost.min(COPIED) + cost
}

#[cfg(test)]
#[path = "steps_test.rs"]
mod steps_test;
