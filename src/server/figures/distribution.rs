//! Many values, counted by their size: what sums, percentiles and buckets are made of. Nothing in
//! it is ever taken away, so whoever wants to know of a while compares it with what it was at the
//! beginning of that.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::HistogramFn;
use parking_lot::Mutex;

use super::stats::Summary;

/// Values below this have a bucket each; above it so many stand between a power of two and the
/// next.
const EXACT: u64 = 16;
const EXACT_BITS: u32 = EXACT.trailing_zeros();
/// Greater ones are counted as this.
const GREATEST: u64 = u32::MAX as u64;
const BUCKETS: usize = (EXACT as usize) * (u32::BITS - EXACT_BITS + 1) as usize;

/// The percentiles that `mntr` shows.
pub(in crate::server) const PERCENTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];

/// Marks that a window of time is made of.
const MARKS: usize = 5;

/// How many values there were of each size, since the start.
#[derive(Debug)]
pub(in crate::server) struct Distribution {
    /// Made with the first value: most names never have one.
    buckets: OnceLock<Box<[AtomicU64; BUCKETS]>>,
    sum: AtomicU64,
    /// Since `srst`.
    min: AtomicU64,
    max: AtomicU64,
    marks: Mutex<Marks>,
}

/// How it stood at some moments.
#[derive(Debug, Default)]
struct Marks {
    at_reset: Counted,
    /// The oldest is where the window begins.
    window: VecDeque<Counted>,
}

/// What was counted up to a moment, or between two.
#[derive(Debug, Clone, Default)]
pub(in crate::server) struct Counted {
    pub(in crate::server) sum: u64,
    pub(in crate::server) count: u64,
    /// Buckets with something in them, least first.
    buckets: Vec<(usize, u64)>,
}

impl Default for Distribution {
    fn default() -> Self {
        let marks = Marks { at_reset: Counted::default(), window: [Counted::default()].into() };
        Self {
            buckets: OnceLock::new(),
            sum: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
            marks: Mutex::new(marks),
        }
    }
}

/// Values are whole numbers, none below 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "what is beyond is 0")]
impl HistogramFn for Distribution {
    fn record(&self, value: f64) {
        self.add(value as u64, 1);
    }

    fn record_many(&self, value: f64, count: usize) {
        self.add(value as u64, count as u64);
    }
}

impl Distribution {
    /// Counts a value `times` times.
    fn add(&self, value: u64, times: u64) {
        let buckets = self.buckets.get_or_init(|| Box::new([const { AtomicU64::new(0) }; BUCKETS]));
        if let Some(bucket) = buckets.get(bucket_of(value)) {
            bucket.fetch_add(times, Ordering::Relaxed);
        }
        if value > 0 {
            self.sum.fetch_add(value.saturating_mul(times), Ordering::Relaxed);
        }
        if value < self.min.load(Ordering::Relaxed) {
            self.min.fetch_min(value, Ordering::Relaxed);
        }
        if value > self.max.load(Ordering::Relaxed) {
            self.max.fetch_max(value, Ordering::Relaxed);
        }
    }

    /// What all values add up to.
    pub(in crate::server) fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// Everything since the start.
    pub(in crate::server) fn counted(&self) -> Counted {
        let Some(all) = self.buckets.get() else { return Counted::default() };
        let counts = all.iter().map(|bucket| bucket.load(Ordering::Relaxed)).enumerate();
        let buckets: Vec<(usize, u64)> = counts.filter(|(_, count)| *count > 0).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        Counted { sum: self.sum.load(Ordering::Relaxed), count, buckets }
    }

    /// What `mntr` shows: since `srst`.
    pub(in crate::server) fn since_reset(&self) -> (Summary, [u64; 4]) {
        let counted = self.counted().without(&self.marks.lock().at_reset);
        let mut summary = Summary { sum: counted.sum, count: counted.count, ..Summary::default() };
        if counted.count > 0 {
            summary.min = self.min.load(Ordering::Relaxed);
            summary.max = self.max.load(Ordering::Relaxed);
        }
        let percentiles = PERCENTILES.map(|(_, part)| {
            counted.percentile(part).clamp(summary.min, summary.max.max(summary.min))
        });
        (summary, percentiles)
    }

    /// What was counted lately.
    pub(in crate::server) fn lately(&self) -> Counted {
        let now = self.counted();
        self.marks.lock().window.front().map_or_else(|| now.clone(), |mark| now.without(mark))
    }

    /// To be called at even intervals: lately is so many of them.
    pub(in crate::server) fn mark(&self) {
        let now = self.counted();
        let mut marks = self.marks.lock();
        marks.window.push_back(now);
        if marks.window.len() > MARKS {
            marks.window.pop_front();
        }
    }

    /// `srst`.
    pub(in crate::server) fn reset(&self) {
        let now = self.counted();
        self.marks.lock().at_reset = now;
        self.min.store(u64::MAX, Ordering::Relaxed);
        self.max.store(0, Ordering::Relaxed);
    }
}

impl Counted {
    fn without(&self, before: &Self) -> Self {
        let mut old = before.buckets.iter().peekable();
        let new = |(at, count): &(usize, u64)| {
            while old.next_if(|(old, _)| old < at).is_some() {}
            let had = old.next_if(|(old, _)| old == at).map_or(0, |(_, had)| *had);
            (*at, count.saturating_sub(had))
        };
        let buckets: Vec<(usize, u64)> =
            self.buckets.iter().map(new).filter(|(_, count)| *count > 0).collect();
        let count = buckets.iter().map(|(_, count)| count).sum();
        Self { sum: self.sum.saturating_sub(before.sum), count, buckets }
    }

    /// Values below a power of two of at least 1.
    pub(in crate::server) fn below(&self, power: u64) -> u64 {
        let end = bucket_of(power);
        self.buckets.iter().take_while(|(at, _)| *at < end).map(|(_, count)| count).sum()
    }

    /// The value at a part of them: between two, what lies between them in proportion, as
    /// `com.codahale.metrics.UniformSnapshot` has it. Within a thirtieth of it.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts and milliseconds, none below 0"
    )]
    pub(in crate::server) fn percentile(&self, part: f64) -> u64 {
        let place = part * (self.count + 1) as f64;
        let above = self.at((place as u64).max(1));
        if place < 1.0 || place as u64 >= self.count {
            return above;
        }
        let below = self.at(place as u64) as f64;
        let above = self.at(place as u64 + 1) as f64;
        (below + place.fract() * (above - below)).round() as u64
    }

    /// The value at a place, counted from 1 on; the greatest after the end, 0 where there is none.
    fn at(&self, place: u64) -> u64 {
        let mut passed = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            passed += count;
            passed >= place
        });
        found.or_else(|| self.buckets.last()).map_or(0, |(at, _)| middle_of(*at))
    }
}

const fn bucket_of(value: u64) -> usize {
    let value = if value < GREATEST { value } else { GREATEST };
    if value < EXACT {
        return value as usize;
    }
    let octave = value.ilog2() - EXACT_BITS;
    (EXACT * octave as u64 + (value >> octave)) as usize
}

/// A value that stands for those in a bucket.
const fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * EXACT {
        return bucket;
    }
    let octave = bucket / EXACT - 1;
    let width = 1 << octave;
    (bucket - EXACT * octave) * width + (width - 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Distribution {
        let distribution = Distribution::default();
        values.into_iter().for_each(|value| distribution.add(value, 1));
        distribution
    }

    fn percentiles(values: impl IntoIterator<Item = u64>) -> [u64; 4] {
        of(values).since_reset().1
    }

    /// What `com.codahale.metrics.UniformSnapshot` gives, rounded.
    #[test]
    fn percentiles_are_those_of_zookeeper() {
        assert_eq!(percentiles([]), [0; 4]);
        assert_eq!(percentiles([7]), [7; 4]);
        assert_eq!(percentiles([0, 1]), [1, 1, 1, 1]);
        assert_eq!(percentiles([10, 20, 30, 40]), [25, 40, 40, 40]);
        for values in [(1..=1000).collect::<Vec<_>>(), (1..=1000).rev().collect()] {
            let found = percentiles(values);
            for (found, exact) in found.into_iter().zip([501_u64, 951, 991, 1000]) {
                assert!(found.abs_diff(exact) * 30 <= exact, "{found} for {exact}");
            }
        }
    }

    #[test]
    fn a_bucket_stands_for_values_near_its_middle() {
        let mut last = 0;
        for value in (0..4096).chain((12..40).flat_map(|bit| [(1 << bit) - 1, 1 << bit, 3 << bit]))
        {
            let bucket = bucket_of(value);
            assert!(bucket < BUCKETS);
            if value <= 4096 {
                assert!(bucket == last || bucket == last + 1, "{value}");
                last = bucket;
            }
            let value = value.min(GREATEST);
            let middle = middle_of(bucket);
            assert!(middle.abs_diff(value) * 30 <= value, "{middle} for {value}");
        }
    }

    #[test]
    fn what_was_before_a_reset_or_long_ago_does_not_count() {
        let distribution = of([5, 500]);
        distribution.reset();
        let nothing = (Summary::default(), [0; 4]);
        assert_eq!(distribution.since_reset(), nothing);
        distribution.add(7, 3);
        let summary = Summary { min: 7, max: 7, sum: 21, count: 3 };
        assert_eq!(distribution.since_reset(), (summary, [7; 4]));
        let Counted { sum, count, .. } = distribution.counted();
        assert_eq!((sum, count), (526, 5));

        for round in 0..MARKS {
            assert_eq!(distribution.lately().count, 5, "{round}");
            distribution.mark();
        }
        assert_eq!(distribution.lately().count, 0);
        distribution.add(9, 1);
        assert_eq!((distribution.lately().count, distribution.lately().percentile(0.99)), (1, 9));
    }

    #[test]
    fn values_below_a_power_of_two_are_counted_exactly() {
        let counted = of((0..=1024).flat_map(|value| [value, value])).counted();
        for power in (0..=10).map(|bit| 1 << bit) {
            assert_eq!(counted.below(power), 2 * power);
        }
    }
}
