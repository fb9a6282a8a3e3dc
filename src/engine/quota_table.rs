//! The quotas of a tree, read: what limits say is parsed when they are written, and statistics become text once a
//! transaction. So a change below a quota costs the same however long the texts are that a client put there.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::quota::{Growth, Limits, NoTrack, Track};

/// Statistics that a client wrote or the server counted.
#[derive(Debug, Default)]
struct Statistics {
    used: Option<Growth>,
    /// What stands behind the two numbers.
    rest: Box<str>,
    /// Bytes of the text, also while it is not written yet.
    len: usize,
    is_written: bool,
}

/// What there is for a path; at least one of them.
#[derive(Debug, Default)]
struct Entry {
    limits: Option<Result<Limits, NoTrack>>,
    statistics: Option<Statistics>,
}

/// Limits and statistics by the path that they are of.
#[derive(Debug, Default)]
pub(super) struct QuotaTable {
    entries: BTreeMap<String, Entry>,
    /// Whose statistics are not written yet.
    unwritten: Vec<String>,
}

impl Statistics {
    /// The text up to what stays as it is.
    fn head(&self) -> String {
        let Growth { count, bytes } = self.used.unwrap_or(Growth::UNKNOWN);
        Track::of(count, bytes).to_string()
    }
}

impl QuotaTable {
    /// Whether there are neither limits nor statistics.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The paths with limits after `last`, in their order.
    pub(super) fn limited(&self, last: Option<&str>) -> impl Iterator<Item = &str> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.range::<str, _>((from, Bound::Unbounded));
        entries.filter(|(_, entry)| entry.limits.is_some()).map(|(path, _)| path.as_str())
    }

    /// The limits of a path are these data now, or gone.
    pub(super) fn set_limits(&mut self, path: &str, data: Option<Option<&[u8]>>) {
        let limits = data.map(|data| Track::parse(data).map(|track| Limits::of(&track)));
        self.change(path, |entry| entry.limits = limits);
    }

    /// Its statistics are these data now, or gone.
    pub(super) fn set_statistics(&mut self, path: &str, data: Option<Option<&[u8]>>) {
        let statistics = data.map(|data| {
            let track = Track::parse(data).ok();
            let used = track.as_ref().map(Track::used);
            let rest = track.map(|track| track.rest()).unwrap_or_default().into();
            Statistics { used, rest, len: data.map_or(0, <[u8]>::len), is_written: true }
        });
        self.change(path, |entry| entry.statistics = statistics);
    }

    fn change(&mut self, path: &str, change: impl FnOnce(&mut Entry)) {
        let entry = match self.entries.get_mut(path) {
            Some(entry) => entry,
            None => self.entries.entry(path.to_owned()).or_default(),
        };
        change(entry);
        if entry.limits.is_none() && entry.statistics.is_none() {
            self.entries.remove(path);
        }
    }

    /// The limits of a path.
    pub(super) fn limits(&self, path: &str) -> Option<Result<Limits, NoTrack>> {
        self.entries.get(path)?.limits
    }

    /// What counts against them.
    pub(super) fn used(&self, path: &str) -> Option<Result<Growth, NoTrack>> {
        Some(self.entries.get(path)?.statistics.as_ref()?.used.ok_or(NoTrack))
    }

    /// Adds to the statistics of a path, to be written later, and gives how many bytes longer they become. `None` where
    /// there are none. ZooKeeper ends over those that cannot be read; here they begin anew.
    pub(super) fn grow(&mut self, path: &str, growth: Growth) -> Option<i64> {
        let its = self.entries.get_mut(path)?.statistics.as_mut()?;
        its.used = Some(its.used.unwrap_or(Growth::UNKNOWN).plus(growth));
        if std::mem::take(&mut its.is_written) {
            self.unwritten.push(path.to_owned());
        }
        let len = its.head().len() + its.rest.len();
        let before = std::mem::replace(&mut its.len, len);
        let signed = |len| i64::try_from(len).unwrap_or(i64::MAX);
        Some(signed(its.len) - signed(before))
    }

    /// A path whose statistics are to be written.
    pub(super) fn next_unwritten(&mut self) -> Option<String> {
        self.unwritten.pop()
    }

    /// The statistics of a path as a text, if they are not written yet. They count as written from here on.
    pub(super) fn take_text(&mut self, path: &str) -> Option<String> {
        let its = self.entries.get_mut(path)?.statistics.as_mut()?;
        if std::mem::replace(&mut its.is_written, true) {
            return None;
        }
        Some(its.head() + &its.rest)
    }
}
