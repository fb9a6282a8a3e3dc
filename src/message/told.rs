//! For tests of how often something is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
