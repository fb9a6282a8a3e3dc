//! For tests of what is told, and how often.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

#[derive(Default, Clone)]
struct Lines(Arc<AtomicUsize>);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What `act` gives, and the lines that it tells the log on this thread.
pub(crate) fn lines_told<T>(act: impl FnOnce() -> T) -> (T, usize) {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::registry().with(lines.clone());
    let given = tracing::subscriber::with_default(subscriber, act);
    (given, lines.0.load(Ordering::Relaxed))
}

/// The ids of messages.
#[derive(Default, Clone)]
struct Ids(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Ids {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event.record(&mut self.clone());
    }
}

impl Visit for Ids {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "id" {
            self.0.lock().push(format!("{value:?}"));
        }
    }
}

/// What `act` gives, and the ids of the messages that it tells the log on this thread.
pub(crate) fn ids_told<T>(act: impl FnOnce() -> T) -> (T, Vec<String>) {
    let ids = Ids::default();
    let subscriber = tracing_subscriber::registry().with(ids.clone());
    let given = tracing::subscriber::with_default(subscriber, act);
    let ids = ids.0.lock().clone();
    (given, ids)
}
