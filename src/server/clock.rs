//! The clocks of the process: the only place that reads them for the engine.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::engine::time::{Monotonic, Now, WallClock};

/// The monotonic clock counts from its making, and goes on while the machine is suspended
/// (CLOCK_BOOTTIME): what is read of the tree ages then, too.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    origin: Duration,
    started: WallClock,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { origin: since_boot(), started: Self::wall() }
    }

    pub(super) fn monotonic(&self) -> Monotonic {
        Monotonic(millis(since_boot().saturating_sub(self.origin)))
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

fn since_boot() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

/// Whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
