//! Quotas: the znodes that set them, the statistics that the server keeps beside them, and whether a change would be
//! beyond them (reference 10).
//!
//! A quota on `/a` is `/zookeeper/quota/a/zookeeper_limits`; beside it `zookeeper_stats` counts the znodes and the
//! bytes from `/a` on. Clients make both; the server keeps the statistics true, without a version and without an
//! event.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::path;

/// The znode with the limits.
const LIMITS: &str = "zookeeper_limits";
/// The znode with the statistics.
const STATS: &str = "zookeeper_stats";
/// A limit that is not set.
const UNSET: i64 = -1;
/// The names of the numbers.
const COUNT: &str = "count";
const BYTES: &str = "bytes";
const COUNT_HARD_LIMIT: &str = "countHardLimit";
const BYTES_HARD_LIMIT: &str = "byteHardLimit";
/// What stands between them.
const SEPARATORS: [char; 2] = [',', ';'];

/// Limits, or statistics (`StatsTrack`): numbers by name. `count` and `bytes` are what is used, or soft limits;
/// `countHardLimit` and `byteHardLimit` may not be exceeded. Other names are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Track {
    numbers: BTreeMap<String, i64>,
}

/// A text that is no list of `name=number`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTrack;

impl Track {
    /// Statistics.
    #[must_use]
    pub fn of(count: i64, bytes: i64) -> Self {
        Self { numbers: [(COUNT.to_owned(), count), (BYTES.to_owned(), bytes)].into() }
    }

    /// Reads a znode's data, as lenient and as strict as ZooKeeper: separators may repeat and a name may have an
    /// empty number, but not none.
    ///
    /// # Errors
    /// [`NoTrack`] for null and for a text that ZooKeeper cannot read.
    pub fn parse(data: Option<&[u8]>) -> Result<Self, NoTrack> {
        let text = String::from_utf8_lossy(data.ok_or(NoTrack)?);
        let text = text.trim_end_matches(SEPARATORS);
        let mut track = Self::default();
        if text.is_empty() {
            return Ok(track);
        }
        for (i, part) in text.split(SEPARATORS).enumerate() {
            // Only separators in front are not passed over.
            if part.is_empty() && i > 0 {
                continue;
            }
            let (name, number) = part.trim_end_matches('=').split_once('=').ok_or(NoTrack)?;
            // The separator in front of the hard limits leaves a '=' behind the bytes.
            let number = number.split('=').next().unwrap_or_default();
            let number = if number.is_empty() { UNSET } else { number.parse().or(Err(NoTrack))? };
            track.numbers.insert(name.to_owned(), number);
        }
        Ok(track)
    }

    fn get(&self, name: &str) -> i64 {
        self.numbers.get(name).copied().unwrap_or(UNSET)
    }

    /// Znodes: used, or allowed softly.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.get(COUNT)
    }

    /// Bytes: used, or allowed softly.
    #[must_use]
    pub fn bytes(&self) -> i64 {
        self.get(BYTES)
    }

    /// Znodes that are allowed, -1 for any number: the hard limit, where there is one.
    #[must_use]
    pub fn count_limit(&self) -> i64 {
        let hard = self.get(COUNT_HARD_LIMIT);
        if hard > UNSET { hard } else { self.count() }
    }

    /// Bytes that are allowed, likewise.
    #[must_use]
    pub fn bytes_limit(&self) -> i64 {
        let hard = self.get(BYTES_HARD_LIMIT);
        if hard > UNSET { hard } else { self.bytes() }
    }

    /// Adds to statistics.
    pub(super) fn grow(&mut self, growth: Growth) {
        for (name, by) in [(COUNT, growth.count), (BYTES, growth.bytes)] {
            self.numbers.insert(name.to_owned(), self.get(name).saturating_add(by));
        }
    }
}

impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{COUNT}={},{BYTES}={}", self.get(COUNT), self.get(BYTES))?;
        let others = self.numbers.iter().filter(|(name, _)| *name != COUNT && *name != BYTES);
        for (i, (name, number)) in others.enumerate() {
            let separator = if i == 0 { "=;" } else { ";" };
            write!(f, "{separator}{name}={number}")?;
        }
        Ok(())
    }
}

/// A quota as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// The path with the quota.
    pub path: String,
    /// Its limits, if they can be read.
    pub limits: Option<Track>,
    /// What counts against them, if that can be read.
    pub used: Option<Track>,
}

/// What a change adds below a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Growth {
    pub(super) count: i64,
    pub(super) bytes: i64,
}

/// What a limit has to say about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Within,
    /// Beyond a soft limit.
    Warned,
    /// Beyond a hard limit.
    Exceeded,
}

/// What the limits say about `used` after `growth` (`ZooKeeperServer.checkQuota`).
pub(super) fn judge(limits: &Track, used: &Track, growth: Growth) -> Verdict {
    let one = |hard: &str, soft: &str, growth: i64| {
        let is_hard = limits.get(hard) > UNSET;
        let limit = limits.get(if is_hard { hard } else { soft });
        if growth == 0 || limit <= UNSET || used.get(soft).saturating_add(growth) <= limit {
            Verdict::Within
        } else if is_hard {
            Verdict::Exceeded
        } else {
            Verdict::Warned
        }
    };
    let count = one(COUNT_HARD_LIMIT, COUNT, growth.count);
    let bytes = one(BYTES_HARD_LIMIT, BYTES, growth.bytes);
    match (count, bytes) {
        (Verdict::Exceeded, _) | (_, Verdict::Exceeded) => Verdict::Exceeded,
        (Verdict::Warned, _) | (_, Verdict::Warned) => Verdict::Warned,
        _ => Verdict::Within,
    }
}

/// A znode of the quota tree that means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotaNode<'a> {
    /// The limits of this path.
    Limits(&'a str),
    /// The statistics of this path.
    Stats(&'a str),
}

impl<'a> QuotaNode<'a> {
    pub(super) fn parse(path: &'a str) -> Option<Self> {
        let (parent, name) = path.rsplit_once('/')?;
        let limited = parent.strip_prefix(path::QUOTA)?;
        if !limited.is_empty() && !limited.starts_with('/') {
            return None;
        }
        match name {
            LIMITS => Some(Self::Limits(limited)),
            STATS => Some(Self::Stats(limited)),
            _ => None,
        }
    }
}

/// The path of the statistics of a path with a quota.
pub(super) fn stats_path(limited: &str) -> String {
    format!("{}{limited}/{STATS}", path::QUOTA)
}

/// The limits of the whole tree would be here.
pub(super) const LIMITS_OF_ALL: &str = "/zookeeper/quota/zookeeper_limits";

/// The path of its limits.
pub(super) fn limits_path(limited: &str) -> String {
    format!("{}{limited}/{LIMITS}", path::QUOTA)
}

/// The paths that have a quota.
#[derive(Debug, Default)]
pub(super) struct QuotaTable {
    limited: BTreeSet<String>,
}

impl QuotaTable {
    pub(super) fn add(&mut self, limited: &str) {
        self.limited.insert(limited.to_owned());
    }

    pub(super) fn remove(&mut self, limited: &str) {
        self.limited.remove(limited);
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.limited.iter().map(String::as_str)
    }

    /// The deepest path with a quota that a znode belongs to. The root can have none.
    pub(super) fn deepest<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.limited.is_empty() {
            return None;
        }
        let mut at = path;
        while !at.is_empty() {
            if self.limited.contains(at) {
                return Some(at);
            }
            at = at.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_tree_is_a_path_like_any() {
        assert_eq!(limits_path(""), LIMITS_OF_ALL);
    }

    #[test]
    fn the_text_is_zookeepers() {
        // Written by the command line client of 3.9.5 (reference 10); what cannot be read is in the transcripts.
        let text = "count=10,bytes=-1=;byteHardLimit=-1;countHardLimit=20";
        let track = Track::parse(Some(text.as_bytes())).unwrap();
        assert_eq!((track.get(COUNT), track.get(BYTES)), (10, -1));
        assert_eq!((track.get(COUNT_HARD_LIMIT), track.get(BYTES_HARD_LIMIT)), (20, -1));
        assert_eq!(track.to_string(), text);
        assert_eq!(Track::of(3, 12).to_string(), "count=3,bytes=12");
    }

    #[test]
    fn hard_limits_refuse_and_soft_ones_warn() {
        let growth = |count, bytes| Growth { count, bytes };
        let cases = [
            ("countHardLimit=3", growth(1, 0), Verdict::Exceeded),
            ("countHardLimit=4", growth(1, 0), Verdict::Within),
            ("count=3", growth(1, 0), Verdict::Warned),
            ("count=3,countHardLimit=9", growth(1, 0), Verdict::Within),
            ("byteHardLimit=10", growth(0, 1), Verdict::Exceeded),
            ("byteHardLimit=5", growth(0, 0), Verdict::Within),
            ("byteHardLimit=5", growth(1, 0), Verdict::Within),
        ];
        for (limits, growth, expected) in cases {
            let limits = Track::parse(Some(limits.as_bytes())).unwrap();
            assert_eq!(judge(&limits, &Track::of(3, 10), growth), expected, "{limits} {growth:?}");
        }
    }

    #[test]
    fn the_deepest_quota_counts() {
        let mut table = QuotaTable::default();
        assert_eq!(table.deepest("/a/b"), None);
        table.add("/a");
        table.add("/a/b/c");
        assert_eq!(table.deepest("/a"), Some("/a"));
        assert_eq!(table.deepest("/a/b"), Some("/a"));
        assert_eq!(table.deepest("/a/b/c/d"), Some("/a/b/c"));
        assert_eq!(table.deepest("/ab"), None);
        table.remove("/a");
        assert_eq!(table.deepest("/a/b"), None);
    }

    #[test]
    fn the_znodes_of_a_quota_are_known_by_their_names() {
        let parse = QuotaNode::parse;
        assert_eq!(parse("/zookeeper/quota/a/b/zookeeper_limits"), Some(QuotaNode::Limits("/a/b")));
        assert_eq!(parse("/zookeeper/quota/a/zookeeper_stats"), Some(QuotaNode::Stats("/a")));
        assert_eq!(parse("/zookeeper/quotas/zookeeper_stats"), None);
        assert_eq!(parse("/zookeeper/quota/a"), None);
        assert_eq!(parse("/a/zookeeper_limits"), None);
    }
}
