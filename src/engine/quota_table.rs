//! The quotas of a tree, read: what limits and statistics say is parsed when they are written, and statistics that the
//! server counts become text once a transaction. So a change below a quota costs the same however long the texts are that a
//! client put there.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::quota::{self, Growth, NoTrack, Quota, Track};
use super::znode::NodeId;

/// Statistics that a client wrote or the server counted.
#[derive(Debug)]
struct Statistics {
    /// The znode that has them.
    node: NodeId,
    used: Option<Growth>,
    /// What stands behind the two numbers.
    rest: Box<[u8]>,
    /// Bytes of the text, also while it is not written yet.
    len: usize,
    is_written: bool,
}

/// What there is for a path; at least one of them.
#[derive(Debug)]
struct Entry {
    /// The path.
    limited: Box<str>,
    limits: Option<Result<Track, NoTrack>>,
    statistics: Option<Statistics>,
}

/// Limits and statistics by the znode that they are children of, their folder.
#[derive(Debug, Default)]
pub(super) struct QuotaTable {
    entries: BTreeMap<NodeId, Entry>,
    /// How many of them have limits.
    limits: usize,
    /// Whose statistics are not written yet.
    unwritten: Vec<NodeId>,
}

impl QuotaTable {
    /// Whether there are any limits.
    pub(super) const fn has_limits(&self) -> bool {
        self.limits > 0
    }

    /// Those with limits, in the order of their folders, from behind one on.
    pub(super) fn iter(&self, last: Option<NodeId>) -> impl Iterator<Item = Quota<'_>> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.range((from, Bound::Unbounded));
        let limited = entries.filter(|(_, entry)| entry.limits.is_some());
        limited.map(|(folder, entry)| Quota {
            folder: *folder,
            path: &entry.limited,
            limits: entry.limits.and_then(Result::ok),
            used: entry.statistics.as_ref().and_then(|its| its.used),
        })
    }

    fn entry(&mut self, folder: NodeId, limited: &str) -> &mut Entry {
        let empty = || Entry { limited: limited.into(), limits: None, statistics: None };
        self.entries.entry(folder).or_insert_with(empty)
    }

    fn statistics(&mut self, folder: NodeId) -> Option<&mut Statistics> {
        self.entries.get_mut(&folder)?.statistics.as_mut()
    }

    /// The limits of a path are these data now.
    pub(super) fn set_limits(&mut self, folder: NodeId, limited: &str, data: Option<&[u8]>) {
        let before = self.entry(folder, limited).limits.replace(Track::parse(data));
        self.limits += usize::from(before.is_none());
    }

    /// Its limits are gone.
    pub(super) fn remove_limits(&mut self, folder: NodeId) {
        let Some(entry) = self.entries.get_mut(&folder) else { return };
        self.limits -= usize::from(entry.limits.take().is_some());
        if entry.statistics.is_none() {
            self.entries.remove(&folder);
        }
    }

    /// Its statistics are these data of a znode now.
    pub(super) fn set_statistics(
        &mut self,
        folder: NodeId,
        limited: &str,
        node: NodeId,
        data: Option<&[u8]>,
    ) {
        let (used, rest) = data.and_then(quota::read_statistics).unzip();
        let (rest, len) = (rest.unwrap_or_default().into(), data.map_or(0, <[u8]>::len));
        let its = Statistics { node, used, rest, len, is_written: true };
        self.entry(folder, limited).statistics = Some(its);
    }

    /// Its statistics are gone.
    pub(super) fn remove_statistics(&mut self, folder: NodeId) {
        let Some(entry) = self.entries.get_mut(&folder) else { return };
        entry.statistics = None;
        if entry.limits.is_none() {
            self.entries.remove(&folder);
        }
    }

    /// Whether a path has limits.
    pub(super) fn is_limited(&self, folder: NodeId) -> bool {
        self.entries.get(&folder).is_some_and(|entry| entry.limits.is_some())
    }

    /// The limits of a path.
    pub(super) fn limits(&self, folder: NodeId) -> Option<Result<Track, NoTrack>> {
        self.entries.get(&folder)?.limits
    }

    /// What counts against them.
    pub(super) fn used(&self, folder: NodeId) -> Option<Result<Growth, NoTrack>> {
        Some(self.entries.get(&folder)?.statistics.as_ref()?.used.ok_or(NoTrack))
    }

    /// Adds to the statistics of a path, to be written later, and gives their znode and how many bytes longer they become.
    /// `None` where there are none. ZooKeeper ends over those that cannot be read; here they begin anew.
    pub(super) fn grow(&mut self, folder: NodeId, growth: Growth) -> Option<(NodeId, i64)> {
        let its = self.statistics(folder)?;
        let used = its.used.unwrap_or(Growth::UNKNOWN).plus(growth);
        its.used = Some(used);
        let len = quota::head_len(used) + its.rest.len();
        let (node, longer) = (its.node, quota::longer(its.len, len));
        its.len = len;
        if std::mem::take(&mut its.is_written) {
            self.unwritten.push(folder);
        }
        Some((node, longer))
    }

    /// A folder whose statistics are to be written.
    pub(super) fn next_unwritten(&mut self) -> Option<NodeId> {
        self.unwritten.pop()
    }

    /// The statistics of a folder, if they are not written yet, as text with their znode. They count as written from here on.
    pub(super) fn take_text(&mut self, folder: NodeId) -> Option<(NodeId, Vec<u8>)> {
        let its = self.statistics(folder)?;
        if std::mem::replace(&mut its.is_written, true) {
            return None;
        }
        let head = quota::head(its.used.unwrap_or(Growth::UNKNOWN));
        Some((its.node, [&head[..], &its.rest].concat()))
    }
}
