//! Quotas: the znodes that set them, the statistics that the server keeps beside them, and whether a change would be
//! beyond them (reference 10).
//!
//! A quota on `/a` is `/zookeeper/quota/a/zookeeper_limits`; beside it `zookeeper_stats` counts the znodes and the
//! bytes from `/a` on. Clients make both; the server keeps the statistics true, without a version and without an
//! event.

use std::collections::BTreeMap;
use std::fmt;

use super::path;

/// The znode with the limits.
pub(super) const LIMITS: &str = "zookeeper_limits";
/// The znode with the statistics.
pub(super) const STATS: &str = "zookeeper_stats";
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
        let text = jute::java_text(data.ok_or(NoTrack)?);
        #[cfg(test)]
        PARSED.set(PARSED.get() + text.len());
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

    /// Both numbers of statistics.
    pub(super) fn used(&self) -> Growth {
        Growth { count: self.count(), bytes: self.bytes() }
    }

    /// What stands behind them in the text.
    pub(super) fn rest(&self) -> String {
        let both = Self::of(self.count(), self.bytes()).to_string();
        self.to_string().split_off(both.len())
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

#[cfg(test)]
thread_local! {
    /// Bytes of limits and statistics that were parsed.
    pub(super) static PARSED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
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

/// The numbers of limits that a check asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    count: Limit,
    bytes: Limit,
}

/// A soft limit and a hard one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    soft: i64,
    hard: i64,
}

impl Limits {
    pub(super) fn of(track: &Track) -> Self {
        let limit = |soft, hard| Limit { soft: track.get(soft), hard: track.get(hard) };
        Self { count: limit(COUNT, COUNT_HARD_LIMIT), bytes: limit(BYTES, BYTES_HARD_LIMIT) }
    }

    /// Whether they have anything to say about a change: what is used need not be known otherwise.
    pub(super) const fn concern(&self, growth: Growth) -> bool {
        self.count.concerns(growth.count) || self.bytes.concerns(growth.bytes)
    }
}

impl Limit {
    const fn concerns(self, growth: i64) -> bool {
        growth != 0 && (self.soft > UNSET || self.hard > UNSET)
    }

    const fn judge(self, used: i64, growth: i64) -> Verdict {
        let is_hard = self.hard > UNSET;
        let limit = if is_hard { self.hard } else { self.soft };
        if !self.concerns(growth) || used.saturating_add(growth) <= limit {
            Verdict::Within
        } else if is_hard {
            Verdict::Exceeded
        } else {
            Verdict::Warned
        }
    }
}

impl Growth {
    /// Statistics that say nothing.
    pub(super) const UNKNOWN: Self = Self { count: UNSET, bytes: UNSET };

    pub(super) const fn plus(self, other: Self) -> Self {
        let count = self.count.saturating_add(other.count);
        Self { count, bytes: self.bytes.saturating_add(other.bytes) }
    }

    pub(super) const fn add(&mut self, other: Self) {
        self.count = self.count.wrapping_add(other.count);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }

    /// Takes back what was added.
    pub(super) const fn subtract(&mut self, other: Self) {
        self.count = self.count.wrapping_sub(other.count);
        self.bytes = self.bytes.wrapping_sub(other.bytes);
    }
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
pub(super) const fn judge(limits: &Limits, used: Growth, growth: Growth) -> Verdict {
    let count = limits.count.judge(used.count, growth.count);
    let bytes = limits.bytes.judge(used.bytes, growth.bytes);
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
const LIMITS_OF_ALL: &str = "/zookeeper/quota/zookeeper_limits";

/// Whether limits of this path keep ZooKeeper from starting, when they are made or deleted, or when a snapshot has them. It
/// takes every parent that begins with `/zookeeper` for one below `/zookeeper/quota` and cuts as many characters off
/// (`DataTree.deleteNode`); nothing but blanks may not be left. In a snapshot the path ends for it at the first name that
/// begins like that of limits (`DataTree.traverseNode`).
pub(super) fn are_fatal_limits(path: &str) -> bool {
    let parent = path.strip_suffix(LIMITS).and_then(|above| above.strip_suffix('/'));
    parent.is_some_and(|parent| {
        let mut left = parent.chars().skip(path::QUOTA.len());
        parent.starts_with(path::ZOOKEEPER)
            && (left.all(|char| matches!(char, '/' | ' ')) || path.starts_with(LIMITS_OF_ALL))
    })
}

/// Whether these data would be statistics that ZooKeeper cannot read: at the next change that counts there it ends, and at
/// each start again (`DataTree.updateQuotaStat`).
pub(super) fn are_fatal_stats(path: &str, data: Option<&[u8]>) -> bool {
    matches!(QuotaNode::parse(path), Some(QuotaNode::Stats(limited)) if !limited.is_empty())
        && Track::parse(data).is_err()
}

/// The path of its limits.
pub(super) fn limits_path(limited: &str) -> String {
    format!("{}{limited}/{LIMITS}", path::QUOTA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_tree_is_a_path_like_any() {
        assert_eq!(limits_path(""), LIMITS_OF_ALL);
    }

    #[test]
    fn statistics_that_zookeeper_cannot_read_are_fatal() {
        let stats = "/zookeeper/quota/a/zookeeper_stats";
        for data in [None, Some("x"), Some("count"), Some("count="), Some("="), Some(";count=1")] {
            assert!(are_fatal_stats(stats, data.map(str::as_bytes)), "{data:?}");
        }
        for data in ["", ",", "count=1", "==5", "count=1=x,other=2"] {
            assert!(!are_fatal_stats(stats, Some(data.as_bytes())), "{data:?}");
        }
        // Nothing counts there.
        for path in ["/zookeeper/quota/zookeeper_stats", "/zookeeper/quota/a/zookeeper_limits"] {
            assert!(!are_fatal_stats(path, Some(b"x")), "{path}");
        }
    }

    #[test]
    fn limits_that_zookeeper_cannot_cut_are_fatal() {
        // What 3.9.5 makes of directories with such znodes is in compat-tests/tests/taken_back.
        for parent in [
            "/zookeeper",
            "/zookeeperx",
            "/zookeeper/abcd",
            "/zookeeper/abcde",
            "/zookeeper/abcde ",
            "/zookeeper/abcde/ / ",
            "/zookeeper/\u{e4}bcde",
            "/zookeeperabcdef",
            "/zookeeper/quota",
            "/zookeeper/quota/ ",
            "/zookeeper/quota/zookeeper_limitsx",
            "/zookeeper/quota/zookeeper_limits/a",
        ] {
            assert!(are_fatal_limits(&format!("{parent}/zookeeper_limits")), "{parent}");
            assert!(!are_fatal_limits(&format!("{parent}/zookeeper_stats")), "{parent}");
            assert!(!are_fatal_limits(&format!("{parent}/xzookeeper_limits")), "{parent}");
        }
        for parent in [
            "",
            "/a",
            "/zookeepe",
            "/zookeeper/config",
            "/zookeeper/abcdef",
            "/zookeeperabcdefg",
            "/zookeeper/quota/a",
            "/zookeeper/quota/ /a",
            "/zookeeper/quota/a/zookeeper_limits",
            "/zookeeper/quota/zookeeper_stats",
        ] {
            assert!(!are_fatal_limits(&format!("{parent}/zookeeper_limits")), "{parent}");
        }
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
            let track = Track::parse(Some(limits.as_bytes())).unwrap();
            let used = Growth { count: 3, bytes: 10 };
            assert_eq!(judge(&Limits::of(&track), used, growth), expected, "{limits} {growth:?}");
        }
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
