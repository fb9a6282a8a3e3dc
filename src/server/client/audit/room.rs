//! Room for what is not written: facts are counted in bytes from the request on, and clients wait
//! for their turn to add one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Mutex, Notify};

/// How much there may be, and how much there is.
#[derive(Debug)]
pub(super) struct AuditRoom {
    max: usize,
    bytes: AtomicUsize,
    /// Those who wait have it one after the other, and have taken their room when they go on: no
    /// more of them read their request again than there is room for.
    turn: Mutex<()>,
    waiting: AtomicUsize,
    freed: Notify,
}

impl AuditRoom {
    pub(super) fn new(max: usize) -> Self {
        Self {
            max,
            bytes: AtomicUsize::new(0),
            turn: Mutex::default(),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
        }
    }

    /// The most that there may be; clients wait from half of it on.
    pub(super) const fn max(&self) -> usize {
        self.max
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }

    fn is_below_half(&self, bytes: usize) -> bool {
        bytes < self.max / 2
    }

    /// Whether there is some that nobody waits for.
    pub(super) fn is_free(&self) -> bool {
        self.is_below_half(self.bytes()) && self.waiting.load(Ordering::SeqCst) == 0
    }

    /// Takes nothing yet.
    pub(super) fn nothing(self: &Arc<Self>) -> Held {
        Held { bytes: 0, of: Arc::clone(self) }
    }

    /// Waits until there is some, or until `is_enough` says that nobody has to wait, and takes so
    /// much.
    pub(super) async fn wait(
        self: &Arc<Self>,
        bytes: usize,
        is_enough: impl Fn() -> bool + Send,
    ) -> Held {
        let _waiting = AuditWaiter::new(&self.waiting);
        let _turn = self.turn.lock().await;
        loop {
            let freed = self.freed.notified();
            if self.is_below_half(self.bytes()) || is_enough() {
                let mut held = self.nothing();
                held.set(bytes);
                return held;
            }
            freed.await;
        }
    }

    /// Whoever waits is to look again.
    pub(super) fn wake(&self) {
        self.freed.notify_one();
    }

    fn give_back(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        if !self.is_below_half(before) && self.is_below_half(before - bytes) {
            self.wake();
        }
    }
}

/// Somebody waits, until he has what he waits for or is gone.
struct AuditWaiter<'a>(&'a AtomicUsize);

impl<'a> AuditWaiter<'a> {
    fn new(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(waiting)
    }
}

impl Drop for AuditWaiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Room that was taken, until this is dropped.
#[derive(Debug)]
pub(in crate::server) struct Held {
    bytes: usize,
    of: Arc<AuditRoom>,
}

impl Held {
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// It turned out to be so much.
    pub(super) fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.of.bytes.fetch_add(bytes - self.bytes, Ordering::SeqCst);
        } else {
            self.of.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Looks once at each of those who wait, and takes out whoever has room.
    fn go_on<F: Future<Output = Held>>(waiting: &mut Vec<Pin<Box<F>>>) -> Vec<Held> {
        let mut context = Context::from_waker(Waker::noop());
        let mut held = Vec::new();
        waiting.retain_mut(|wait| match wait.as_mut().poll(&mut context) {
            Poll::Ready(its) => {
                held.push(its);
                false
            }
            Poll::Pending => true,
        });
        held
    }

    #[test]
    fn those_who_wait_go_on_one_by_one_and_with_what_they_take() {
        let room = Arc::new(AuditRoom::new(200));
        let mut first = room.nothing();
        first.set(150);
        assert!(!room.is_free());
        let mut waiting: Vec<_> =
            [80, 30, 5].map(|bytes| Box::pin(room.wait(bytes, || false))).into();
        assert_eq!(go_on(&mut waiting).len(), 0);
        // 100 are half: there is room for one of 80, and beside it for one of 30, not for the last.
        first.set(0);
        assert!(!room.is_free(), "others were there before");
        let mut held = go_on(&mut waiting);
        held.extend(go_on(&mut waiting));
        assert_eq!(held.iter().map(Held::bytes).collect::<Vec<_>>(), [80, 30]);
        assert_eq!((room.bytes(), waiting.len()), (110, 1));
        drop(held.pop());
        assert_eq!(go_on(&mut waiting).iter().map(Held::bytes).sum::<usize>(), 5);
        assert!(waiting.is_empty() && room.is_free());
        drop(held);
        drop(first);
        assert_eq!(room.bytes(), 0);
    }

    #[test]
    fn who_goes_away_keeps_nobody_waiting() {
        let room = Arc::new(AuditRoom::new(200));
        let mut first = room.nothing();
        first.set(100);
        let mut context = Context::from_waker(Waker::noop());
        let mut gone = Box::pin(room.wait(1, || false));
        assert!(gone.as_mut().poll(&mut context).is_pending());
        let mut next = pin!(room.wait(1, || false));
        assert!(next.as_mut().poll(&mut context).is_pending());
        // It is woken, and goes before it looks.
        drop(first);
        drop(gone);
        assert!(next.as_mut().poll(&mut context).is_ready());
        assert!(room.is_free());
    }
}
