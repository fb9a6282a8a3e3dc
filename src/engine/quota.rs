//! Quotas: the znodes that set them, the statistics that the server keeps beside them, and whether a change would be
//! beyond them (reference 10).
//!
//! A quota on `/a` is `/zookeeper/quota/a/zookeeper_limits`; beside it `zookeeper_stats` counts the znodes and the
//! bytes from `/a` on. Clients make both; the server keeps the statistics true, without a version and without an
//! event.

use std::collections::BTreeSet;
use std::fmt;

use super::path;

/// The znode with the limits.
const LIMITS: &str = "zookeeper_limits";
/// The znode with the statistics.
const STATS: &str = "zookeeper_stats";
/// A limit that is not set.
const UNSET: i64 = -1;

/// Limits, or statistics (`StatsTrack`): `count=<n>,bytes=<n>`, then hard limits if there are any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    /// Znodes; as a limit a soft one.
    pub count: i64,
    /// Bytes of data; as a limit a soft one.
    pub bytes: i64,
    /// Znodes that may not be exceeded.
    pub count_hard_limit: i64,
    /// Bytes that may not be exceeded.
    pub bytes_hard_limit: i64,
}

impl Track {
    const NONE: Self =
        Self { count: UNSET, bytes: UNSET, count_hard_limit: UNSET, bytes_hard_limit: UNSET };

    /// Statistics.
    #[must_use]
    pub const fn of(count: i64, bytes: i64) -> Self {
        Self { count, bytes, ..Self::NONE }
    }

    /// Reads a znode's data. What is not understood is not set: a znode is a client's to write.
    #[must_use]
    pub fn parse(data: Option<&[u8]>) -> Self {
        let mut track = Self::NONE;
        let text = String::from_utf8_lossy(data.unwrap_or_default());
        for part in text.split([',', ';']) {
            let Some((key, value)) = part.split_once('=') else { continue };
            // The separator in front of the hard limits leaves a '=' behind the bytes.
            let value = value.trim_end_matches('=').parse().unwrap_or(UNSET);
            match key {
                "count" => track.count = value,
                "bytes" => track.bytes = value,
                "countHardLimit" => track.count_hard_limit = value,
                "byteHardLimit" => track.bytes_hard_limit = value,
                _ => {}
            }
        }
        track
    }
}

impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count={},bytes={}", self.count, self.bytes)?;
        let hard =
            [("byteHardLimit", self.bytes_hard_limit), ("countHardLimit", self.count_hard_limit)];
        let mut separator = "=;";
        for (key, limit) in hard {
            if limit > UNSET {
                write!(f, "{separator}{key}={limit}")?;
                separator = ";";
            }
        }
        Ok(())
    }
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
    let one = |hard: i64, soft: i64, used: i64, growth: i64| {
        let limit = if hard > UNSET { hard } else { soft };
        if growth == 0 || limit <= UNSET || used.saturating_add(growth) <= limit {
            Verdict::Within
        } else if hard > UNSET {
            Verdict::Exceeded
        } else {
            Verdict::Warned
        }
    };
    let count = one(limits.count_hard_limit, limits.count, used.count, growth.count);
    let bytes = one(limits.bytes_hard_limit, limits.bytes, used.bytes, growth.bytes);
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
    fn the_text_is_zookeepers() {
        // Written by the command line client of 3.9.5 (reference 10).
        let text = "count=10,bytes=-1=;byteHardLimit=-1;countHardLimit=20";
        let track = Track::parse(Some(text.as_bytes()));
        assert_eq!((track.count, track.bytes), (10, -1));
        assert_eq!((track.count_hard_limit, track.bytes_hard_limit), (20, -1));
        assert_eq!(Track::of(3, 12).to_string(), "count=3,bytes=12");
        assert_eq!(Track::parse(Some(b"nonsense")), Track::NONE);
        assert_eq!(Track::parse(None), Track::NONE);
    }

    #[test]
    fn hard_limits_refuse_and_soft_ones_warn() {
        let growth = |count, bytes| Growth { count, bytes };
        let used = Track::of(3, 10);
        let limits = |count, bytes, count_hard_limit, bytes_hard_limit| Track {
            count,
            bytes,
            count_hard_limit,
            bytes_hard_limit,
        };
        assert_eq!(judge(&limits(-1, -1, 3, -1), &used, growth(1, 0)), Verdict::Exceeded);
        assert_eq!(judge(&limits(-1, -1, 4, -1), &used, growth(1, 0)), Verdict::Within);
        assert_eq!(judge(&limits(3, -1, -1, -1), &used, growth(1, 0)), Verdict::Warned);
        assert_eq!(judge(&limits(3, -1, 9, -1), &used, growth(1, 0)), Verdict::Within);
        assert_eq!(judge(&limits(-1, -1, -1, 10), &used, growth(0, 1)), Verdict::Exceeded);
        assert_eq!(judge(&limits(-1, -1, -1, 5), &used, growth(0, 0)), Verdict::Within);
        assert_eq!(judge(&limits(-1, -1, -1, 5), &used, growth(1, 0)), Verdict::Within);
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
