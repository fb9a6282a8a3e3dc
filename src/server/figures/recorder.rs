//! Where the handles of the crate `metrics` count (`ServerMetrics`): one place in memory for each
//! name, and one for each name and key. Each server has a recorder of its own, for several may run
//! in one process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Gauge, Histogram, Key, KeyName, Label, Level, Metadata, SharedString, Unit};
use parking_lot::RwLock;

use super::distribution::Distribution;
use super::series::{Counter, KeyedCounter, KeyedMeasure, Measure};

/// ZooKeeper's one label.
pub(in crate::server) const KEY: &str = "key";

/// What the macros of the crate say of whoever counts; the recorder does not ask.
pub(in crate::server) const METADATA: Metadata<'_> = Metadata::new("", Level::INFO, None);

/// The places of a name's keys.
type Keys<T> = RwLock<BTreeMap<String, Arc<T>>>;

/// What was counted since the start.
#[derive(Debug)]
pub(in crate::server) struct Recorder {
    counters: [Arc<AtomicU64>; Counter::ALL.len()],
    measures: [Arc<Distribution>; Measure::ALL.len()],
    keyed_counters: [Keys<AtomicU64>; KeyedCounter::ALL.len()],
    keyed_measures: [Keys<Distribution>; KeyedMeasure::ALL.len()],
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            counters: std::array::from_fn(|_| Arc::default()),
            measures: std::array::from_fn(|_| Arc::default()),
            keyed_counters: std::array::from_fn(|_| Keys::default()),
            keyed_measures: std::array::from_fn(|_| Keys::default()),
        }
    }
}

/// A name as the crate wants it, with a key.
pub(in crate::server) fn with_key(name: &'static str, key: &str) -> Key {
    Key::from_parts(name, vec![Label::new(KEY, key.to_owned())])
}

fn key_of(key: &Key) -> Option<&str> {
    key.labels().find(|label| label.key() == KEY).map(Label::value)
}

/// A name that the server does not have counts nowhere.
#[expect(clippy::indexing_slicing, reason = "there is a place for each")]
impl metrics::Recorder for Recorder {
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> metrics::Counter {
        let place = match key_of(key) {
            None => Counter::named(key.name()).map(|its| Arc::clone(&self.counters[its as usize])),
            Some(of_key) => KeyedCounter::named(key.name())
                .map(|its| place_of(&self.keyed_counters[its as usize], of_key)),
        };
        place.map_or_else(metrics::Counter::noop, metrics::Counter::from_arc)
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let place = match key_of(key) {
            None => Measure::named(key.name()).map(|its| Arc::clone(&self.measures[its as usize])),
            Some(of_key) => KeyedMeasure::named(key.name())
                .map(|its| place_of(&self.keyed_measures[its as usize], of_key)),
        };
        place.map_or_else(Histogram::noop, Histogram::from_arc)
    }

    /// Gauges are looked at when somebody asks.
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    // What a name means is in the metric table.
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
}

fn place_of<T: Default>(all: &Keys<T>, key: &str) -> Arc<T> {
    Arc::clone(all.write().entry(key.to_owned()).or_default())
}

#[expect(clippy::indexing_slicing, reason = "there is a place for each")]
impl Recorder {
    pub(in crate::server) fn total(&self, counter: Counter) -> u64 {
        self.counters[counter as usize].load(Ordering::Relaxed)
    }

    pub(in crate::server) fn of(&self, measure: Measure) -> &Distribution {
        &self.measures[measure as usize]
    }

    /// All keys of a counter with what they have come to.
    pub(in crate::server) fn keyed_counts(&self, counter: KeyedCounter) -> BTreeMap<String, u64> {
        let all = self.keyed_counters[counter as usize].read();
        all.iter().map(|(key, its)| (key.clone(), its.load(Ordering::Relaxed))).collect()
    }

    /// All keys of a name with what they have.
    pub(in crate::server) fn keys(
        &self,
        measure: KeyedMeasure,
    ) -> Vec<(String, Arc<Distribution>)> {
        let all = self.keyed_measures[measure as usize].read();
        all.iter().map(|(key, its)| (key.clone(), Arc::clone(its))).collect()
    }

    /// Looks at the keys of a name one after another.
    pub(in crate::server) fn each_key(
        &self,
        measure: KeyedMeasure,
        mut look: impl FnMut(&str, &Distribution),
    ) {
        let all = self.keyed_measures[measure as usize].read();
        all.iter().for_each(|(key, its)| look(key, its));
    }

    /// What a handle to it counts from here on is not seen.
    pub(in crate::server) fn unregister_counter(&self, counter: KeyedCounter, key: &str) {
        self.keyed_counters[counter as usize].write().remove(key);
    }

    /// The same of a measure.
    pub(in crate::server) fn unregister_histogram(&self, measure: KeyedMeasure, key: &str) {
        self.keyed_measures[measure as usize].write().remove(key);
    }

    /// What all counters have come to.
    pub(in crate::server) fn totals(&self) -> [u64; Counter::ALL.len()] {
        self.counters.each_ref().map(|its| its.load(Ordering::Relaxed))
    }

    /// Looks at all that is counted by size.
    pub(in crate::server) fn each_distribution(&self, look: impl Fn(&Distribution)) {
        self.measures.iter().for_each(|its| look(its));
        for all in &self.keyed_measures {
            all.read().values().for_each(|its| look(its));
        }
    }
}

#[cfg(test)]
mod tests {
    use metrics::Recorder as _;

    use super::*;
    use crate::server::figures::stats::Summary;

    #[test]
    fn two_recorders_in_one_process_count_for_themselves() {
        let [one, other] = [Recorder::default(), Recorder::default()];
        let name = Key::from_static_name(Counter::Commits.name());
        one.register_counter(&name, &METADATA).increment(3);
        one.register_counter(&name, &METADATA).increment(4);
        assert_eq!([&one, &other].map(|its| its.total(Counter::Commits)), [7, 0]);
    }

    /// A trait's own `record_many` would take so many steps.
    #[test]
    fn many_values_are_one_addition() {
        let recorder = Recorder::default();
        let name = Key::from_static_name(Measure::Read.name());
        recorder.register_histogram(&name, &METADATA).record_many(7.0, 1 << 40);
        let all = Summary { min: 7, max: 7, sum: 7 << 40, count: 1 << 40 };
        assert_eq!(recorder.of(Measure::Read).since_reset().0, all);
    }

    #[test]
    fn what_is_unregistered_is_shown_no_more_and_begins_at_0() {
        let recorder = Recorder::default();
        let name = KeyedCounter::QuotaExceeded.name();
        let old = recorder.register_counter(&with_key(name, "a"), &METADATA);
        old.increment(5);
        recorder.register_counter(&with_key(name, "b"), &METADATA).increment(1);
        recorder.unregister_counter(KeyedCounter::QuotaExceeded, "a");
        old.increment(1);
        let shown = || recorder.keyed_counts(KeyedCounter::QuotaExceeded);
        assert_eq!(shown(), BTreeMap::from([("b".to_owned(), 1)]));
        recorder.register_counter(&with_key(name, "a"), &METADATA).increment(2);
        assert_eq!(shown()["a"], 2);
    }

    #[test]
    fn a_name_that_is_not_there_counts_nowhere() {
        let recorder = Recorder::default();
        recorder.register_counter(&Key::from_static_name("no_such_name"), &METADATA).increment(1);
        recorder.register_counter(&with_key("commit_count", "a"), &METADATA).increment(1);
        recorder.register_histogram(&with_key("fsynctime", "a"), &METADATA).record(1.0);
        assert_eq!(recorder.totals(), [0; Counter::ALL.len()]);
        recorder.each_distribution(|its| assert_eq!(its.counted().count, 0));
    }
}
