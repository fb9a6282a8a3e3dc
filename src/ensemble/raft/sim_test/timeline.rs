//! What is to happen, in the order of its time.

use std::collections::BTreeMap;

/// Microseconds of a millisecond.
pub(super) const MS: u64 = 1000;

/// Time in microseconds, and what it brings.
#[derive(Debug)]
pub(super) struct Timeline<E> {
    now: u64,
    /// Events of one instant come in the order in which they were put here.
    number: u64,
    events: BTreeMap<(u64, u64), E>,
}

impl<E> Timeline<E> {
    pub(super) const fn new() -> Self {
        Self { now: 0, number: 0, events: BTreeMap::new() }
    }

    pub(super) const fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn at(&mut self, time: u64, event: E) {
        self.number += 1;
        self.events.insert((time.max(self.now), self.number), event);
    }

    pub(super) fn after(&mut self, delay: u64, event: E) {
        self.at(self.now + delay, event);
    }

    pub(super) fn next(&mut self) -> Option<E> {
        let ((time, _), event) = self.events.pop_first()?;
        self.now = time;
        Some(event)
    }

    /// Whether something happens by then.
    pub(super) fn is_due(&self, time: u64) -> bool {
        self.events.first_key_value().is_some_and(|((next, _), _)| *next <= time)
    }

    /// Nothing happens until then.
    pub(super) fn pass_to(&mut self, time: u64) {
        self.now = self.now.max(time);
    }

    /// Whether such a thing is to happen.
    pub(super) fn has(&self, is_it: impl Fn(&E) -> bool) -> bool {
        self.events.values().any(is_it)
    }

    /// What was to happen happens not; how much of it there was.
    pub(super) fn forget(&mut self, is_it: impl Fn(&E) -> bool) -> usize {
        let before = self.events.len();
        self.events.retain(|_, event| !is_it(event));
        before - self.events.len()
    }
}
