//! What waits for the orderer.

use std::sync::mpsc::SyncSender;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::fair::Fair;
use super::founding::Answer;
use super::raft::{EnsembleError, PeerMessage, Said, SnapshotStatus, Written};
use super::steps;
use crate::engine::database::Database;
use crate::engine::expiry::ExpiryPlace;
use crate::engine::request::{Origin, Work};
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::engine::zxid::Zxid;
use crate::storage::{ReceivedSnapshot, StorageError};

/// A request's share of what may be on its way.
#[derive(Debug)]
pub struct Share {
    _queue: OwnedSemaphorePermit,
    _large: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// Of the queue's bound, and of the one of large requests if it is one.
    #[must_use]
    pub const fn new(queue: OwnedSemaphorePermit, large: Option<OwnedSemaphorePermit>) -> Self {
        Self { _queue: queue, _large: large }
    }
}

/// A request on its way to the orderer.
#[derive(Debug)]
pub struct Submission {
    /// Who asks.
    pub origin: Origin,
    /// For what.
    pub work: Work,
    /// Bytes that came for it, with the identities that go with it.
    pub len: usize,
    /// Its share of the bounds, given back when it is answered. None for another server's, which has its own bound.
    pub room: Option<Share>,
}

#[cfg(test)]
impl Submission {
    /// As it comes from a client without identities.
    pub(super) fn new(origin: Origin, work: Work, room: Option<Share>) -> Self {
        let mut body = Vec::new();
        if let Work::Request(request) = &work {
            request.encode(&mut body);
        }
        Self { origin, work, len: body.len(), room }
    }
}

/// A look at what only the orderer knows, or a word of the operator's that only it can follow.
#[derive(Debug)]
pub enum Inquiry {
    /// Its state goes to the log.
    LogState,
    /// If it leads, another one is to lead; what comes of it goes to the log.
    HandOver,
    /// Some of its sessions by the time at which they expire.
    Expiry(Scope, ExpiryPlace, SyncSender<Expiry>),
    /// A snapshot of what is applied now is to be taken; its zxid is said once it is durable, and nothing if there is none.
    Snapshot(oneshot::Sender<Zxid>),
    /// Another state is to take the place of the applied one. Only who orders alone does it, and says which zxid it has then.
    Replace(Box<Database>, oneshot::Sender<Result<Zxid, StorageError>>),
}

/// Which sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those that live on one server only, if there can be any.
    Local,
    /// Those of all servers; only whoever orders knows when they expire.
    Global,
}

/// Sessions that are told of at once: whoever asks for more asks again, and everybody else has a turn between.
pub const EXPIRIES_AT_ONCE: usize = 1024;

/// Some sessions and when they expire, soonest first, and where to go on. None where that is not known.
pub type Expiry = Option<(Vec<(Monotonic, SessionId)>, Option<ExpiryPlace>)>;

/// Something from another member, or about the way to it.
#[derive(Debug)]
pub enum FromPeer {
    /// It said this.
    Said(u64, Said),
    /// What it says arrives from here on, or does not any more.
    Hears(u64, bool),
    /// It can be told something from here on, or cannot any more.
    Speaks(u64, bool),
    /// A snapshot came from it, with its message.
    Snapshot(PeerMessage, ReceivedSnapshot),
    /// What came of a snapshot that was sent to it.
    SnapshotSent(u64, SnapshotStatus),
    /// A server without a state wants to belong to the ensemble.
    Seat(u8, oneshot::Sender<Answer>),
}

/// What the orderer takes at once.
#[derive(Debug, Default)]
pub struct Batch {
    /// What other members say, in the order of its arrival, with its share of what may wait.
    pub from_peers: Vec<(FromPeer, Option<OwnedSemaphorePermit>)>,
    /// What this member's disk did, in its order.
    pub written: Vec<Result<Written, EnsembleError>>,
    /// Those of one connection in the order of their arrival.
    pub submissions: Vec<Submission>,
    /// What they cost to decide, in bytes.
    pub cost: usize,
    /// More of them were there than were to be taken.
    pub is_cut: bool,
    /// To be answered behind them.
    pub inquiries: Vec<Inquiry>,
    /// Whether nothing comes any more but what was cut.
    pub is_last: bool,
}

/// Submissions, and what else the orderer hears. The bound of the former is the semaphore whose permits they carry. One
/// thread takes.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    /// Submissions that were too many for one batch. Nobody who has something to put waits for it.
    rest: Mutex<Fair>,
}

#[derive(Debug, Default)]
struct Waiting {
    submissions: Vec<Submission>,
    /// What they cost to decide, in bytes.
    cost: usize,
    from_peers: Vec<(FromPeer, Option<OwnedSemaphorePermit>)>,
    written: Vec<Result<Written, EnsembleError>>,
    inquiries: Vec<Inquiry>,
    is_over: bool,
}

impl Waiting {
    /// Whether there is nothing but submissions.
    fn has_none_beside(&self) -> bool {
        self.inquiries.is_empty() && self.from_peers.is_empty() && self.written.is_empty()
    }
}

impl Queue {
    /// Appends submissions, in their order. After the end they are dropped.
    pub fn put(&self, submissions: &mut Vec<Submission>) {
        let cost: usize = submissions.iter().map(|submission| steps::cost(submission.len)).sum();
        let mut waiting = self.waiting.lock();
        if waiting.is_over {
            submissions.clear();
            return;
        }
        waiting.cost += cost;
        waiting.submissions.append(submissions);
        self.arrived.notify_one();
    }

    /// Appends what came from another member. After the end, too: a leader hands over then.
    pub fn put_from_peer(&self, what: FromPeer, room: Option<OwnedSemaphorePermit>) {
        self.waiting.lock().from_peers.push((what, room));
        self.arrived.notify_one();
    }

    /// Appends what the disk of this member did. After the end, too.
    pub fn put_written(&self, written: Result<Written, EnsembleError>) {
        self.waiting.lock().written.push(written);
        self.arrived.notify_one();
    }

    /// Asks the orderer for something that it need not order.
    pub fn ask(&self, inquiry: Inquiry) {
        self.waiting.lock().inquiries.push(inquiry);
        self.arrived.notify_one();
    }

    /// Nothing is taken any more; what waits is still handed out.
    pub fn end(&self) {
        self.waiting.lock().is_over = true;
        self.arrived.notify_one();
    }

    /// Takes what waits, of submissions those that cost up to `most` bytes to decide, with one more; waits for something to
    /// take no longer than `patience`.
    #[must_use]
    pub fn take(&self, patience: Duration, most: usize) -> Batch {
        let has_rest = self.rest.lock().len() > 0;
        let mut waiting = self.waiting.lock();
        let has_submissions = most > 0 && (has_rest || !waiting.submissions.is_empty());
        if !has_submissions && waiting.has_none_beside() && !waiting.is_over {
            self.arrived.wait_for(&mut waiting, patience);
        }
        // The next group is about as large as this one.
        let next = Vec::with_capacity(waiting.submissions.len());
        let submissions = std::mem::replace(&mut waiting.submissions, next);
        let mut batch = Batch {
            from_peers: std::mem::take(&mut waiting.from_peers),
            written: std::mem::take(&mut waiting.written),
            submissions,
            cost: std::mem::take(&mut waiting.cost),
            is_cut: false,
            inquiries: std::mem::take(&mut waiting.inquiries),
            is_last: waiting.is_over,
        };
        drop(waiting);
        if has_rest || batch.cost > most {
            self.cut(&mut batch, most);
        }
        batch
    }

    /// Lets the submissions of a batch take turns with those that were too many before, and leaves as many as it may have.
    fn cut(&self, batch: &mut Batch, most: usize) {
        let mut rest = self.rest.lock();
        batch.submissions.drain(..).for_each(|submission| rest.push(submission));
        batch.cost = 0;
        while batch.cost < most
            && let Some(submission) = rest.pop()
        {
            batch.cost += steps::cost(submission.len);
            batch.submissions.push(submission);
        }
        batch.is_cut = rest.len() > 0;
    }

    /// Submissions that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        let arrived = self.waiting.lock().submissions.len();
        arrived + self.rest.lock().len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crate::engine::watch::ConnectionId;

    /// The requests of a connection, each of 88 bytes.
    fn put(queue: &Queue, connection: u64, xids: std::ops::Range<i32>) {
        let mut submissions: Vec<Submission> = xids
            .map(|xid| Submission {
                origin: Origin {
                    connection: ConnectionId(connection),
                    session: SessionId(1),
                    xid,
                    identities: Arc::default(),
                    received: Monotonic(0),
                },
                work: Work::Throttled,
                len: 88,
                room: None,
            })
            .collect();
        queue.put(&mut submissions);
    }

    fn origins(batch: &Batch) -> Vec<(u64, i32)> {
        batch.submissions.iter().map(|its| (its.origin.connection.0, its.origin.xid)).collect()
    }

    #[test]
    fn who_comes_later_is_in_the_next_batch_and_nobody_is_overtaken_by_himself() {
        let queue = Queue::default();
        put(&queue, 1, 0..1000);
        let batch = queue.take(Duration::ZERO, 60_000);
        // 600 bytes each.
        assert_eq!((batch.submissions.len(), batch.cost, batch.is_cut), (100, 60_000, true));
        assert_eq!(queue.len(), 900);
        let mut of_first = origins(&batch);
        put(&queue, 2, 0..3);
        put(&queue, 1, 1000..1001);
        let next = origins(&queue.take(Duration::ZERO, 60_000));
        let of_second: Vec<i32> =
            next.iter().filter(|(its, _)| *its == 2).map(|(_, xid)| *xid).collect();
        assert_eq!(of_second, [0, 1, 2]);
        of_first.extend(next.into_iter().filter(|(its, _)| *its == 1));
        let rest = queue.take(Duration::ZERO, usize::MAX);
        assert_eq!((rest.cost, rest.is_cut), (rest.submissions.len() * 600, false));
        of_first.extend(origins(&rest));
        assert_eq!(of_first, Vec::from_iter((0..1001).map(|xid| (1, xid))));
        assert!(queue.is_empty());
    }

    #[test]
    fn who_wants_no_requests_waits_for_something_else() {
        const PATIENCE: Duration = Duration::from_millis(20);
        let queue = Queue::default();
        put(&queue, 1, 0..1);
        let began = Instant::now();
        let batch = queue.take(PATIENCE, 0);
        assert!(began.elapsed() >= PATIENCE);
        assert_eq!((batch.submissions.len(), batch.is_cut), (0, true));
        queue.ask(Inquiry::LogState);
        let batch = queue.take(Duration::MAX, 0);
        assert_eq!((batch.inquiries.len(), batch.submissions.len()), (1, 0));
        assert_eq!(origins(&queue.take(Duration::MAX, 1)), [(1, 0)]);
    }

    #[test]
    fn what_was_cut_is_still_handed_out_at_the_end() {
        let queue = Queue::default();
        put(&queue, 1, 0..3);
        queue.end();
        put(&queue, 1, 3..9);
        let batches = [1, 1, 1].map(|most| queue.take(Duration::MAX, most));
        assert!(batches.iter().all(|batch| batch.is_last && batch.submissions.len() == 1));
        assert_eq!(batches.map(|batch| batch.is_cut), [true, true, false]);
    }
}
