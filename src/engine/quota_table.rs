//! The quotas of a tree, read: what limits and statistics say is parsed when they are written, and
//! statistics that the server counts become text once a transaction. So a change below a quota
//! costs the same however long the texts are that a client put there.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::quota::{self, Growth, NoTrack, Quota, Track};
use super::tree::znode::NodeId;

/// Statistics that a client wrote or the server counted.
#[derive(Debug)]
struct Statistics {
    /// The znode that has them.
    node: NodeId,
    used: Option<Growth>,
    /// Bytes at the front of the znode's data that what is written next takes the place of: all
    /// that a client wrote, or the two numbers.
    replaced: usize,
    /// Bytes of its data after these, which stay.
    kept: usize,
    /// What is written next has this after the two numbers.
    rest: Box<[u8]>,
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
    /// Whose statistics are not written yet, or were not and are gone.
    unwritten: Vec<NodeId>,
}

impl Statistics {
    /// Bytes of the text, also while it is not written yet.
    fn len(&self) -> usize {
        let front = match self.used {
            _ if self.is_written => self.replaced,
            used => quota::head_len(used.unwrap_or(Growth::UNKNOWN)) + self.rest.len(),
        };
        front + self.kept
    }
}

impl QuotaTable {
    /// Whether there are any limits.
    pub(super) const fn has_limits(&self) -> bool {
        self.limits > 0
    }

    /// All of them, in the order of their folders, from after one on.
    pub(super) fn iter(&self, last: Option<NodeId>) -> impl Iterator<Item = Quota<'_>> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.range((from, Bound::Unbounded));
        entries.map(|(folder, entry)| Quota {
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
        let its = Statistics {
            node,
            used,
            replaced: data.map_or(0, <[u8]>::len),
            kept: 0,
            rest: rest.unwrap_or_default().into(),
            is_written: true,
        };
        self.entry(folder, limited).statistics = Some(its);
    }

    /// Its statistics are what the server has counted, to be written later in place of the
    /// `replaced` bytes that their znode has. Gives how many bytes longer they become.
    pub(super) fn count(
        &mut self,
        folder: NodeId,
        limited: &str,
        node: NodeId,
        used: Growth,
        replaced: usize,
    ) -> i64 {
        let rest = Box::default();
        let its = Statistics { node, used: Some(used), replaced, kept: 0, rest, is_written: false };
        let len = its.len();
        self.entry(folder, limited).statistics = Some(its);
        self.unwritten.push(folder);
        quota::longer(replaced, len)
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

    /// Adds to the statistics of a path, to be written later, and gives their znode and how many
    /// bytes longer they become. `None` where there are none. ZooKeeper ends over those that cannot
    /// be read; here they begin anew.
    pub(super) fn grow(&mut self, folder: NodeId, growth: Growth) -> Option<(NodeId, i64)> {
        let its = self.statistics(folder)?;
        let before = its.len();
        its.used = Some(its.used.unwrap_or(Growth::UNKNOWN).plus(growth));
        let was_written = std::mem::replace(&mut its.is_written, false);
        let (node, longer) = (its.node, quota::longer(before, its.len()));
        if was_written {
            self.unwritten.push(folder);
        }
        Some((node, longer))
    }

    /// Statistics that are still to be written: their znode, the front of their text, and how many
    /// bytes of the znode's data that takes the place of. They count as written from here on.
    pub(super) fn next_unwritten(&mut self) -> Option<(NodeId, usize, Vec<u8>)> {
        while let Some(folder) = self.unwritten.pop() {
            if let Some(its) = self.statistics(folder)
                && !std::mem::replace(&mut its.is_written, true)
            {
                let mut front = quota::head(its.used.unwrap_or(Growth::UNKNOWN));
                let replaced = std::mem::replace(&mut its.replaced, front.len());
                its.kept += its.rest.len();
                front.extend(std::mem::take(&mut its.rest));
                return Some((its.node, replaced, front));
            }
        }
        None
    }

    /// Bytes of the statistics of a path, also while they are not written yet.
    pub(super) fn statistics_len(&self, folder: NodeId) -> Option<usize> {
        Some(self.entries.get(&folder)?.statistics.as_ref()?.len())
    }
}
