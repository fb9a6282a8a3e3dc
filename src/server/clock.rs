//! The clocks of the process: the only place that reads them for the engine.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::engine::time::{Monotonic, Now, WallClock};

/// The monotonic clock counts from its making.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    origin: Instant,
    started: WallClock,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { origin: Instant::now(), started: Self::wall() }
    }

    pub(super) fn monotonic(&self) -> Monotonic {
        Monotonic(millis(self.origin.elapsed()))
    }

    /// When it was made, in seconds since 1970.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub(super) const fn started(&self) -> f64 {
        self.started.0 as f64 / 1000.0
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
