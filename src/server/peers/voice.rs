//! Whether this process may speak to the others: once each of them has had the time to say that another one speaks in its
//! place, and as long as none of them says so.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::watch;

/// What the others have said of this process.
#[derive(Debug, Default)]
struct Hellos {
    /// Those that have not been heard of yet.
    unanswered: HashSet<u8>,
    /// Those that hear another process in its place.
    refused: HashSet<u8>,
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

    /// A call has ended, or found nobody there; whether the other hears another process in this one's place.
    pub(super) fn answered(&self, server: u8, is_refused: bool) {
        self.change(|hellos| {
            hellos.unanswered.remove(&server);
            match is_refused {
                true => hellos.refused.insert(server),
                false => hellos.refused.remove(&server),
            };
        });
    }

    /// Whoever has not answered yet may be gone.
    pub(super) fn has_waited(&self) {
        self.change(|hellos| hellos.has_waited = true);
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
        let voice = Voice::new([2, 3].into_iter());
        assert!(!voice.is_given());
        voice.answered(2, false);
        voice.answered(2, false);
        assert!(!voice.is_given(), "one has not answered");
        voice.answered(3, false);
        assert!(voice.is_given());
        // One of them is enough to silence it, until that one says otherwise.
        voice.answered(2, true);
        assert!(!voice.is_given());
        voice.answered(3, false);
        assert!(!voice.is_given());
        voice.answered(2, false);
        assert!(voice.is_given());
        voice.end();
        voice.answered(2, false);
        assert!(!voice.is_given());
    }

    #[test]
    fn who_does_not_answer_is_waited_for_so_long_and_a_refusal_counts_for_longer() {
        let voice = Voice::new([2, 3].into_iter());
        voice.answered(2, true);
        voice.has_waited();
        assert!(!voice.is_given());
        voice.answered(2, false);
        assert!(voice.is_given(), "the other one is most likely gone");
        voice.answered(3, true);
        assert!(!voice.is_given());
    }
}
