//! What is wrong with connections, said once a minute: peers are dialled ten times a second, and
//! anybody can call.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::message::MessageId;

/// A server that starts, or starts again, is not there for so long without a word.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same is said once in that time.
const BETWEEN: Duration = Duration::from_secs(60);
/// Different things in that time.
const MAX: usize = 50;

/// What has been said.
#[derive(Debug)]
pub(super) struct Complaints {
    /// When there was nothing to complain of.
    well: Instant,
    began: Instant,
    made: HashSet<String>,
    /// It has been said that there is more.
    is_full: bool,
}

impl Default for Complaints {
    fn default() -> Self {
        let now = Instant::now();
        Self { well: now, began: now, made: HashSet::new(), is_full: false }
    }
}

impl Complaints {
    /// Whether it is too early to say what is normal while servers start.
    pub(super) fn is_early(&self) -> bool {
        self.well.elapsed() < PATIENCE
    }

    /// Whether `what` is to be said now.
    pub(super) fn is_due(&mut self, what: String) -> bool {
        self.is_due_at(what, Instant::now())
    }

    fn is_due_at(&mut self, what: String, now: Instant) -> bool {
        if now.duration_since(self.began) >= BETWEEN {
            *self = Self { well: self.well, began: now, ..Self::default() };
        }
        if self.made.len() < MAX {
            return self.made.insert(what);
        }
        if !self.is_full && !self.made.contains(&what) {
            self.is_full = true;
            tracing::warn!(
                id = %MessageId::COMPLAINTS_LEFT_OUT,
                "there are more problems with connections between servers than are logged"
            );
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_a_minute_and_nothing_without_end() {
        let mut complaints = Complaints::default();
        let (began, second) = (complaints.began, Duration::from_secs(1));
        let what = |number: usize| format!("reason {number}");
        assert!(complaints.is_due_at(what(0), began));
        assert!(!complaints.is_due_at(what(0), began + 59 * second));
        assert!(complaints.is_due_at(what(1), began + 59 * second));
        let made = (2..1000).filter(|number| complaints.is_due_at(what(*number), began));
        assert_eq!(made.count(), MAX - 2);
        assert!(complaints.is_due_at(what(0), began + 60 * second));
        assert!(!complaints.is_due_at(what(0), began + 61 * second));
    }
}
