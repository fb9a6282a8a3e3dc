//! What waits for the orderer.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::OwnedSemaphorePermit;

use super::from_peer::FromPeer;
use super::inquiry::Inquiry;
use super::raft::{EnsembleError, Written};
use crate::engine::decide::request::{Origin, Work};

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
    /// Its share of the bounds, given back when it is answered. None for another server's, which
    /// has its own bound.
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

/// What the orderer takes at once.
#[derive(Debug, Default)]
pub struct Batch {
    /// What other members say, in the order of its arrival, with its share of what may wait.
    pub from_peers: Vec<(FromPeer, Option<OwnedSemaphorePermit>)>,
    /// What this member's disk did, in its order.
    pub written: Vec<Result<Written, EnsembleError>>,
    /// In the order of their arrival.
    pub submissions: Vec<Submission>,
    /// To be answered after them.
    pub inquiries: Vec<Inquiry>,
    /// Whether a read waits for a round of the ensemble.
    pub wants_round: bool,
    /// Whether this is the last batch.
    pub is_last: bool,
}

/// Submissions in the order of their arrival. Its bound is the semaphore whose permits they carry.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: Mutex<Batch>,
    arrived: Condvar,
}

impl Queue {
    /// Appends submissions, in their order. After the end they are dropped.
    pub fn put(&self, submissions: &mut Vec<Submission>) {
        let mut waiting = self.waiting.lock();
        if waiting.is_last {
            submissions.clear();
            return;
        }
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

    /// Asks for a round of the ensemble: a read waits for it.
    pub fn want_round(&self) {
        self.waiting.lock().wants_round = true;
        self.arrived.notify_one();
    }

    /// Nothing is taken any more; what waits is still handed out.
    pub fn end(&self) {
        self.waiting.lock().is_last = true;
        self.arrived.notify_one();
    }

    /// Takes everything that waits; waits for something no longer than `patience`.
    #[must_use]
    pub fn take(&self, patience: Duration) -> Batch {
        let mut waiting = self.waiting.lock();
        let is_idle = waiting.submissions.is_empty()
            && waiting.inquiries.is_empty()
            && waiting.from_peers.is_empty()
            && waiting.written.is_empty()
            && !waiting.wants_round;
        if is_idle && !waiting.is_last {
            self.arrived.wait_for(&mut waiting, patience);
        }
        // The next group is about as large as this one.
        let next = Vec::with_capacity(waiting.submissions.len());
        Batch {
            from_peers: std::mem::take(&mut waiting.from_peers),
            written: std::mem::take(&mut waiting.written),
            submissions: std::mem::replace(&mut waiting.submissions, next),
            inquiries: std::mem::take(&mut waiting.inquiries),
            wants_round: std::mem::take(&mut waiting.wants_round),
            is_last: waiting.is_last,
        }
    }

    /// Submissions that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.lock().submissions.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
