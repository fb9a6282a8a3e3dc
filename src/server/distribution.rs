//! Many values and their percentiles, as ZooKeeper's `AvgMinMaxPercentileCounter` keeps them.

use super::stats::Summary;

/// Values that percentiles are made from; of more, each has the same chance to be among them.
const SAMPLES_MAX: usize = 4096;

/// The percentiles that `mntr` shows.
pub(super) const PERCENTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)];

/// A summary with percentiles.
#[derive(Debug, Clone, Default)]
pub(super) struct Distribution {
    summary: Summary,
    samples: Vec<u64>,
    /// The last draw of what decides which sample goes.
    drawn: u64,
}

impl Distribution {
    pub(super) fn record(&mut self, value: u64) {
        self.summary.record(value);
        if self.samples.len() < SAMPLES_MAX {
            self.samples.push(value);
            return;
        }
        self.drawn =
            self.drawn.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let at = (self.drawn >> 16) % self.summary.count;
        if let Some(sample) = usize::try_from(at).ok().and_then(|at| self.samples.get_mut(at)) {
            *sample = value;
        }
    }

    pub(super) const fn summary(&self) -> Summary {
        self.summary
    }

    /// The values of [`PERCENTILES`]: between two samples, what lies between them in proportion.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "milliseconds of some thousand samples, none below 0"
    )]
    pub(super) fn percentiles(&self) -> [u64; 4] {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        PERCENTILES.map(|(_, part)| {
            let place = part * (sorted.len() + 1) as f64;
            let below = sorted.get((place as usize).saturating_sub(1)).or_else(|| sorted.last());
            let above = sorted.get((place as usize).max(1)).or_else(|| sorted.last());
            let (below, above) = match (below, above) {
                (Some(below), Some(_)) if place < 1.0 => (*below, *below),
                (Some(below), Some(above)) => (*below, *above),
                _ => return 0,
            };
            let between = below as f64 + place.fract() * (above as f64 - below as f64);
            between.round() as u64
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentiles(values: impl IntoIterator<Item = u64>) -> [u64; 4] {
        let mut distribution = Distribution::default();
        values.into_iter().for_each(|value| distribution.record(value));
        distribution.percentiles()
    }

    /// What `com.codahale.metrics.UniformSnapshot` gives, rounded.
    #[test]
    fn percentiles_are_those_of_zookeeper() {
        assert_eq!(percentiles([]), [0; 4]);
        assert_eq!(percentiles([7]), [7; 4]);
        assert_eq!(percentiles([0, 1]), [1, 1, 1, 1]);
        assert_eq!(percentiles([10, 20, 30, 40]), [25, 40, 40, 40]);
        assert_eq!(percentiles(1..=1000), [501, 951, 991, 1000]);
        assert_eq!(percentiles((1..=1000).rev()), [501, 951, 991, 1000]);
    }

    #[test]
    fn of_many_values_the_samples_are_about_the_whole() {
        let [p50, p95, p99, _] = percentiles((0..1_000_000).map(|at| at % 1000));
        assert!(
            (450..550).contains(&p50) && (930..970).contains(&p95) && p99 >= 975,
            "{p50} {p95}"
        );
        assert!(percentiles((0..100_000).map(|at| at / 100))[0].abs_diff(500) < 50);
    }
}
