//! The clocks of the process: the only place that reads them for the engine.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::engine::time::{Monotonic, Now, WallClock};

/// The monotonic clock counts from its making.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(super) fn monotonic(&self) -> Monotonic {
        Monotonic(millis(self.origin.elapsed()))
    }

    pub(super) fn now(&self) -> Now {
        Now { monotonic: self.monotonic(), wall: Self::wall() }
    }

    pub(super) fn wall() -> WallClock {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallClock(millis(since_1970).cast_signed())
    }
}

/// Whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
