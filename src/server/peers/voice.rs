//! Whether this process may speak to the others: once each of them has had the time to say that
//! another one speaks in its place, and as long as none of them says so again and again.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{BETWEEN_DIALS, DIAL_MAX};

/// A refusal that is not repeated for so long is that of a server which has gone: it had the time
/// for two more.
const REFUSAL_KEPT: Duration = DIAL_MAX.saturating_add(BETWEEN_DIALS).saturating_mul(2);

/// What the others have said of this process.
#[derive(Debug, Default)]
struct Hellos {
    /// Those that have not been heard of yet.
    unanswered: HashSet<u8>,
    /// Those that hear another process in its place, and when they said so last.
    refused: HashMap<u8, Instant>,
    /// It has waited long enough.
    has_waited: bool,
    /// It never speaks again.
    is_over: bool,
}

impl Hellos {
    fn may_speak(&self) -> bool {
        !self.is_over && self.refused.is_empty() && (self.has_waited || self.unanswered.is_empty())
    }
}

/// The leave to speak.
#[derive(Debug)]
pub(super) struct Voice {
    hellos: Mutex<Hellos>,
    is_given: watch::Sender<bool>,
}

impl Voice {
    /// Before any of these has been called.
    pub(super) fn new(others: impl Iterator<Item = u8>) -> Self {
        let hellos = Hellos { unanswered: others.collect(), ..Hellos::default() };
        let is_given = watch::Sender::new(hellos.may_speak());
        Self { hellos: Mutex::new(hellos), is_given }
    }

    /// A call has ended, or found nobody there; whether the other hears another process in this
    /// one's place.
    pub(super) fn answered(&self, server: u8, is_refused: bool, now: Instant) {
        self.change(|hellos| {
            hellos.unanswered.remove(&server);
            hellos.refused.remove(&server);
            if is_refused {
                hellos.refused.insert(server, now);
            }
        });
    }

    /// Whoever has not answered yet may be gone.
    pub(super) fn has_waited(&self) {
        self.change(|hellos| hellos.has_waited = true);
    }

    /// Time has passed, in which some have not said again that they refuse.
    pub(super) fn pass_to(&self, now: Instant) {
        let is_kept = |at: &Instant| now.saturating_duration_since(*at) < REFUSAL_KEPT;
        self.change(|hellos| hellos.refused.retain(|_, at| is_kept(at)));
    }

    /// Nothing is said any more.
    pub(super) fn end(&self) {
        self.change(|hellos| hellos.is_over = true);
    }

    fn change(&self, change: impl FnOnce(&mut Hellos)) {
        let mut hellos = self.hellos.lock();
        change(&mut hellos);
        let may_speak = hellos.may_speak();
        // Under the lock, so that the last change is the last that is told.
        self.is_given
            .send_if_modified(|is_given| std::mem::replace(is_given, may_speak) != may_speak);
    }

    pub(super) fn is_given(&self) -> bool {
        *self.is_given.borrow()
    }

    /// Waits until this process may speak, or may not.
    pub(super) async fn is(&self, given: bool) {
        // The sender is here.
        let _ = self.is_given.subscribe().wait_for(|is_given| *is_given == given).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_alone_speaks() {
        assert!(Voice::new(std::iter::empty()).is_given());
    }

    #[test]
    fn it_speaks_once_all_have_answered_and_nobody_refuses() {
        let (voice, now) = (Voice::new([2, 3].into_iter()), Instant::now());
        assert!(!voice.is_given());
        voice.answered(2, false, now);
        voice.answered(2, false, now);
        assert!(!voice.is_given(), "one has not answered");
        voice.answered(3, false, now);
        assert!(voice.is_given());
        // One of them is enough to silence it, until that one says otherwise.
        voice.answered(2, true, now);
        assert!(!voice.is_given());
        voice.answered(3, false, now);
        assert!(!voice.is_given());
        voice.answered(2, false, now);
        assert!(voice.is_given());
        voice.end();
        voice.answered(2, false, now);
        assert!(!voice.is_given());
    }

    #[test]
    fn who_does_not_answer_is_waited_for_so_long_and_a_refusal_counts_for_longer() {
        let (voice, now) = (Voice::new([2, 3].into_iter()), Instant::now());
        voice.answered(2, true, now);
        voice.has_waited();
        assert!(!voice.is_given());
        voice.answered(2, false, now);
        assert!(voice.is_given(), "the other one is most likely gone");
        voice.answered(3, true, now);
        assert!(!voice.is_given());
    }

    /// The one that refused has gone before it could say otherwise.
    #[test]
    fn a_refusal_counts_as_long_as_it_is_repeated() {
        let (voice, began) = (Voice::new([2, 3].into_iter()), Instant::now());
        let at = |ms| began + Duration::from_millis(ms);
        voice.answered(2, true, began);
        voice.answered(3, true, began);
        voice.answered(2, false, at(100));
        voice.answered(3, true, at(1000));
        voice.has_waited();
        for ms in [100, 1000, 4300, 5199] {
            voice.pass_to(at(ms));
            assert!(!voice.is_given(), "{ms}");
        }
        voice.pass_to(at(5200));
        assert!(voice.is_given());
        // It is back.
        voice.answered(3, true, at(6000));
        assert!(!voice.is_given());
    }
}
