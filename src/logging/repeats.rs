//! One cause of a line is told at most once a second, so that nobody floods a disk by doing the
//! same wrong thing again and again.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Between two lines of one cause.
const BETWEEN: Duration = Duration::from_secs(1);
/// Causes that are remembered. With so many in a second, further ones are all told.
const CAUSES_MAX: usize = 1024;
/// The field that names the client that a line is about. Whatever else the line says, two clients
/// that do the same are one cause: who wants to flood the log comes from as many ports as it takes,
/// with something else each time.
const CLIENT: &str = "client";

thread_local! {
    static LEFT_OUT: Cell<u64> = const { Cell::new(0) };
}

/// How many lines of its cause were left out ahead of the one that is being written on this thread.
pub(super) fn left_out() -> u64 {
    LEFT_OUT.get()
}

/// When a cause was told last, and how often it came since then.
#[derive(Debug)]
struct LastTold {
    at: Instant,
    left_out: u64,
}

/// The causes that are remembered.
#[derive(Debug, Default)]
struct Causes {
    told: HashMap<u64, LastTold>,
    /// When the next of them is over, at the earliest, as far as it was looked for.
    next_over: Option<Instant>,
    #[cfg(test)]
    looked_at: usize,
}

/// Lets the first line of each cause through, then one a second. Not those of `debug` and `trace`:
/// who asks for them wants all.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    told: Mutex<Causes>,
}

impl Causes {
    /// Forgets those that are over, unless it is known that none is: there can be a line for each
    /// of many.
    fn make_room(&mut self, now: Instant) {
        if self.told.len() < CAUSES_MAX || self.next_over.is_some_and(|over| now < over) {
            return;
        }
        #[cfg(test)]
        {
            self.looked_at += self.told.len();
        }
        self.told.retain(|_, its| now.duration_since(its.at) < BETWEEN);
        self.next_over = self.told.values().map(|its| its.at + BETWEEN).min();
    }
}

impl Repeats {
    /// Whether to tell `cause`, and how many lines of it were left out.
    fn tell(&self, cause: u64, now: Instant) -> Option<u64> {
        let mut causes = self.told.lock();
        if let Some(its) = causes.told.get_mut(&cause) {
            if now.duration_since(its.at) < BETWEEN {
                its.left_out += 1;
                return None;
            }
            its.at = now;
            return Some(std::mem::take(&mut its.left_out));
        }
        causes.make_room(now);
        if causes.told.len() < CAUSES_MAX {
            causes.told.insert(cause, LastTold { at: now, left_out: 0 });
        }
        Some(0)
    }
}

impl<S: Subscriber> Layer<S> for Repeats {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        LEFT_OUT.set(0);
        if *event.metadata().level() > Level::INFO {
            return true;
        }
        let mut cause = Cause { place: DefaultHasher::new(), fields: Some(String::new()) };
        event.metadata().callsite().hash(&mut cause.place);
        event.record(&mut cause);
        let told = self.tell(cause.finish(), Instant::now());
        LEFT_OUT.set(told.unwrap_or_default());
        told.is_some()
    }
}

/// The place in the source, and the fields where they are part of it.
struct Cause {
    place: DefaultHasher,
    fields: Option<String>,
}

impl Cause {
    fn finish(mut self) -> u64 {
        self.fields.hash(&mut self.place);
        self.place.finish()
    }
}

impl Visit for Cause {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == CLIENT {
            self.fields = None;
        } else if let Some(fields) = &mut self.fields {
            let _ = write!(fields, "\0{}={value:?}", field.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once_a_second_with_what_was_left_out() {
        let (repeats, began) = (Repeats::default(), Instant::now());
        let after = |millis| began + Duration::from_millis(millis);
        assert_eq!(repeats.tell(1, began), Some(0));
        assert_eq!(repeats.tell(2, after(1)), Some(0));
        for millis in 2..999 {
            assert_eq!(repeats.tell(1, after(millis)), None);
        }
        assert_eq!(repeats.tell(1, after(1000)), Some(997));
        assert_eq!(repeats.tell(1, after(1001)), None);
        assert_eq!(repeats.tell(1, after(9000)), Some(1));
        assert_eq!(repeats.tell(2, after(9000)), Some(0));
    }

    #[test]
    fn many_causes_take_no_more_memory() {
        let (repeats, began) = (Repeats::default(), Instant::now());
        for cause in 0..10 * CAUSES_MAX as u64 {
            assert_eq!(repeats.tell(cause, began), Some(0));
        }
        assert!(repeats.told.lock().told.len() <= CAUSES_MAX);
        // That there is no room is found out once, not for each.
        assert_eq!(repeats.told.lock().looked_at, CAUSES_MAX);
        // Those of before give way.
        let later = began + 2 * BETWEEN;
        assert_eq!(repeats.tell(u64::MAX, later), Some(0));
        assert_eq!(repeats.tell(u64::MAX, later), None);
    }
}
