//! How much is taken out of the queue at once: what takes some milliseconds, so that whoever comes next does not wait
//! longer for what others have asked.

use std::time::Duration;

use super::clock::thread_busy;

/// The most that is taken, in bytes as [`Batch::cost`](crate::ensemble::Batch::cost) has them, and the least.
const MOST: usize = 4 << 20;
const LEAST: usize = 64 << 10;
/// How long the orderer may be busy with a portion.
const LONG: Duration = Duration::from_millis(2);
/// So many times as long as its sync it may take: a slow disk wants large groups.
const SYNCS: u32 = 4;

#[derive(Debug)]
pub(super) struct Portion(usize);

/// A portion on its way, large enough to learn from.
#[derive(Debug)]
pub(super) struct Begun {
    cost: usize,
    before: Duration,
}

impl Begun {
    /// One that costs so many bytes begins now, on this thread.
    pub(super) fn now(cost: usize) -> Option<Self> {
        (cost >= LEAST).then(|| Self { cost, before: thread_busy() })
    }
}

impl Default for Portion {
    fn default() -> Self {
        Self(MOST)
    }
}

impl Portion {
    /// The most that is to be taken now, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.0
    }

    /// Learns how long a portion kept this thread busy, and how long its sync took; `decided` as [`Self::took`] has it.
    pub(super) fn end(&mut self, begun: Option<Begun>, decided: usize, sync: Duration) {
        if let Some(Begun { cost, before }) = begun {
            self.took(cost, decided, thread_busy().saturating_sub(before), sync);
        }
    }

    /// Learns that a portion that cost so many bytes kept the orderer busy for so long, and how long its sync took.
    /// `decided` are the bytes of all that was decided in this time, others' requests among it, and of what it became.
    fn took(&mut self, cost: usize, decided: usize, busy: Duration, sync: Duration) {
        // What a request becomes is seldom longer than what it costs.
        let cost = cost.max(decided / 2);
        let long = LONG.max(sync * SYNCS);
        if busy > long {
            let part = long.as_secs_f64() / busy.as_secs_f64();
            self.0 = ((cost as f64 * part) as usize).clamp(LEAST, MOST);
        } else if cost >= self.0 && busy < long / 2 {
            self.0 = self.0.saturating_mul(2).min(MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_takes_long_is_taken_in_smaller_portions_and_what_does_not_in_larger_ones() {
        let mut portion = Portion::default();
        portion.took(600_000, 0, MS, MS / 5);
        assert_eq!(portion.bytes(), MOST);
        // Ten milliseconds for what one request after the other asked.
        portion.took(600_000, 0, 10 * MS, MS / 5);
        assert_eq!(portion.bytes(), 120_000);
        portion.took(120_000, 0, 2 * MS, MS / 5);
        assert_eq!(portion.bytes(), 120_000);
        // What costs less than it may says nothing.
        portion.took(70_000, 0, MS / 100, MS / 5);
        assert_eq!(portion.bytes(), 120_000);
        portion.took(120_500, 0, MS / 10, MS / 5);
        assert_eq!(portion.bytes(), 240_000);
        portion.took(1_000_000, 0, 45 * MS, MS / 5);
        assert_eq!(portion.bytes(), LEAST);
        for _ in 0..10 {
            portion.took(portion.bytes(), 0, MS / 2, MS / 5);
        }
        assert_eq!(portion.bytes(), MOST);
    }

    #[test]
    fn who_asks_for_little_beside_others_is_not_charged_for_what_they_ask() {
        let mut portion = Portion::default();
        portion.took(100_000, 4_000_000, 20 * MS, Duration::ZERO);
        assert_eq!(portion.bytes(), 200_000);
    }

    #[test]
    fn only_time_of_this_thread_counts() {
        let mut portion = Portion::default();
        assert!(Begun::now(LEAST - 1).is_none());
        let begun = Begun::now(LEAST);
        std::thread::sleep(5 * LONG);
        portion.end(begun, 0, Duration::ZERO);
        assert_eq!(portion.bytes(), MOST);
        let begun = Begun::now(MOST);
        let before = thread_busy();
        while thread_busy().saturating_sub(before) < 5 * LONG {}
        portion.end(begun, 0, Duration::ZERO);
        assert!((LEAST..=MOST / 5).contains(&portion.bytes()), "{portion:?}");
    }

    #[test]
    fn a_slow_disk_is_not_asked_to_sync_more_often() {
        let mut portion = Portion::default();
        portion.took(600_000, 0, 19 * MS, 5 * MS);
        assert_eq!(portion.bytes(), MOST);
        portion.took(600_000, 0, 40 * MS, 5 * MS);
        assert_eq!(portion.bytes(), 300_000);
    }
}
