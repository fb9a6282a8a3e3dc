//! Quotas: the znodes that set them, the statistics that the server keeps beside them, and whether
//! a change would be beyond them (`ZooKeeperServer.checkQuota`).
//!
//! A quota on `/a` is `/zookeeper/quota/a/zookeeper_limits`; beside it `zookeeper_stats` counts the
//! znodes and the bytes from `/a` on. Clients make both; the server keeps the statistics true,
//! without a version and without an event.

use std::collections::BTreeMap;

use super::path;
use super::tree::znode::NodeId;

/// The znode with the limits.
pub const LIMITS: &str = "zookeeper_limits";
/// The znode with the statistics.
pub const STATS: &str = "zookeeper_stats";
/// A limit that is not set.
const UNSET: i64 = -1;
/// The names of the numbers.
const COUNT: &[u8] = b"count";
const BYTES: &[u8] = b"bytes";
const COUNT_HARD_LIMIT: &[u8] = b"countHardLimit";
const BYTES_HARD_LIMIT: &[u8] = b"byteHardLimit";

/// The numbers of limits, or of statistics (`StatsTrack`). `count` and `bytes` are soft limits, or
/// what is used; `countHardLimit` and `byteHardLimit` may not be exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    count: Limit,
    bytes: Limit,
}

/// A soft limit and a hard one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    soft: i64,
    hard: i64,
}

/// A text that is no list of `name=number`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoTrack;

impl Track {
    /// Reads a znode's data, as lenient and as strict as ZooKeeper: separators may repeat and a
    /// name may have an empty number, but not none.
    ///
    /// # Errors
    /// [`NoTrack`] for null and for a text that ZooKeeper cannot read.
    pub fn parse(data: Option<&[u8]>) -> Result<Self, NoTrack> {
        Self::read(data.ok_or(NoTrack)?, |_, _| {})
    }

    /// As [`Self::parse`]; shows each number on the way.
    fn read<'d>(data: &'d [u8], mut each: impl FnMut(&'d [u8], i64)) -> Result<Self, NoTrack> {
        const NONE: Limit = Limit { soft: UNSET, hard: UNSET };
        let mut track = Self { count: NONE, bytes: NONE };
        // What Java makes of bytes that are no text is neither a number nor one of the names.
        for part in parts(data) {
            let (name, number) = part?;
            each(name, number);
            match name {
                COUNT => track.count.soft = number,
                BYTES => track.bytes.soft = number,
                COUNT_HARD_LIMIT => track.count.hard = number,
                BYTES_HARD_LIMIT => track.bytes.hard = number,
                _ => {}
            }
        }
        Ok(track)
    }

    /// Znodes that are allowed, -1 for any number: the hard limit, where there is one.
    #[must_use]
    pub const fn count_limit(&self) -> i64 {
        self.count.allowed()
    }

    /// Bytes that are allowed, likewise.
    #[must_use]
    pub const fn bytes_limit(&self) -> i64 {
        self.bytes.allowed()
    }

    /// What is used, where these are statistics.
    pub(super) const fn used(&self) -> Growth {
        Growth { count: self.count.soft, bytes: self.bytes.soft }
    }

    /// Whether they have anything to say about a change: what is used need not be known otherwise.
    pub(super) const fn concern(&self, growth: Growth) -> bool {
        self.count.concerns(growth.count) || self.bytes.concerns(growth.bytes)
    }
}

const fn is_separator(byte: &u8) -> bool {
    matches!(byte, b',' | b';')
}

/// The parts of a text, in their order. Separators after the last one are passed over, and several
/// between two.
fn parts(text: &[u8]) -> impl Iterator<Item = Result<(&[u8], i64), NoTrack>> {
    #[cfg(test)]
    PARSED.set(PARSED.get() + text.len());
    let last = text.iter().rposition(|byte| !is_separator(byte));
    let text = last.and_then(|last| text.get(..=last));
    let parts = text.into_iter().flat_map(|text| text.split(is_separator)).enumerate();
    parts.filter(|(i, part)| *i == 0 || !part.is_empty()).map(|(_, part)| read_part(part))
}

fn read_part(part: &[u8]) -> Result<(&[u8], i64), NoTrack> {
    let last = part.iter().rposition(|byte| *byte != b'=').ok_or(NoTrack)?;
    let part = part.get(..=last).unwrap_or_default();
    // The separator in front of the hard limits leaves a '=' after the bytes.
    let mut sides = part.splitn(3, |byte| *byte == b'=');
    let (name, number) = sides.next().zip(sides.next()).ok_or(NoTrack)?;
    if number.is_empty() {
        return Ok((name, UNSET));
    }
    let number = std::str::from_utf8(number).or(Err(NoTrack))?;
    Ok((name, number.parse().or(Err(NoTrack))?))
}

/// The two numbers, as statistics begin.
pub(super) fn head(used: Growth) -> Vec<u8> {
    format!("count={},bytes={}", used.count, used.bytes).into_bytes()
}

/// Bytes of that.
pub(super) fn head_len(used: Growth) -> usize {
    let digits = |number: i64| {
        let digits = number.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1;
        digits + usize::from(number < 0)
    };
    "count=,bytes=".len() + digits(used.count) + digits(used.bytes)
}

/// What statistics say, and what the server writes after the two numbers when it counts there: the
/// other numbers, by name. `None` where ZooKeeper cannot read them.
pub(super) fn read_statistics(data: &[u8]) -> Option<(Growth, Vec<u8>)> {
    let mut others = BTreeMap::new();
    let track = Track::read(data, |name, number| {
        if name != COUNT && name != BYTES {
            others.insert(jute::java_text(name), number);
        }
    });
    let used = track.ok()?.used();
    let mut others: Vec<_> = others.into_iter().collect();
    others.sort_by(|(one, _), (other, _)| java_order(one).cmp(java_order(other)));
    let mut rest = Vec::new();
    for (name, number) in others {
        rest.extend_from_slice(if rest.is_empty() { b"=;" } else { b";" });
        rest.extend_from_slice(name.as_bytes());
        rest.extend_from_slice(format!("={number}").as_bytes());
    }
    Some((used, rest))
}

/// A name by what Java sorts it by, which are UTF-16 units: characters that take two are in front
/// of those from U+E000 on.
fn java_order(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().map(|byte| if matches!(byte, 0xee | 0xef) { byte | 0x10 } else { byte })
}

/// How many bytes longer a text becomes.
pub(super) fn longer(before: usize, after: usize) -> i64 {
    let signed = |len| i64::try_from(len).unwrap_or(i64::MAX);
    signed(after) - signed(before)
}

#[cfg(test)]
thread_local! {
    /// Bytes of limits and statistics that were parsed.
    pub(super) static PARSED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A quota as it stands: limits, statistics or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota<'a> {
    /// The znode that its limits and its statistics are children of.
    pub folder: NodeId,
    /// The path with the quota.
    pub path: &'a str,
    /// Its limits, if they can be read.
    pub limits: Option<Track>,
    /// What counts against them, if that can be read.
    pub used: Option<Growth>,
}

/// Znodes and bytes: what is used of a quota, or what a change adds below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Growth {
    /// Znodes.
    pub count: i64,
    /// Bytes of their data.
    pub bytes: i64,
}

impl Limit {
    const fn allowed(self) -> i64 {
        if self.hard > UNSET { self.hard } else { self.soft }
    }

    const fn concerns(self, growth: i64) -> bool {
        growth != 0 && (self.soft > UNSET || self.hard > UNSET)
    }

    const fn judge(self, used: i64, growth: i64) -> QuotaVerdict {
        if !self.concerns(growth) || used.saturating_add(growth) <= self.allowed() {
            QuotaVerdict::Within
        } else if self.hard > UNSET {
            QuotaVerdict::Exceeded
        } else {
            QuotaVerdict::Warned
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
pub(super) enum QuotaVerdict {
    Within,
    /// Beyond a soft limit.
    Warned,
    /// Beyond a hard limit.
    Exceeded,
}

/// What the limits say about `used` after `growth` (`ZooKeeperServer.checkQuota`).
pub(super) const fn judge(limits: &Track, used: Growth, growth: Growth) -> QuotaVerdict {
    let count = limits.count.judge(used.count, growth.count);
    let bytes = limits.bytes.judge(used.bytes, growth.bytes);
    match (count, bytes) {
        (QuotaVerdict::Exceeded, _) | (_, QuotaVerdict::Exceeded) => QuotaVerdict::Exceeded,
        (QuotaVerdict::Warned, _) | (_, QuotaVerdict::Warned) => QuotaVerdict::Warned,
        _ => QuotaVerdict::Within,
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

/// The limits of the whole tree would be here.
const LIMITS_OF_ALL: &str = "/zookeeper/quota/zookeeper_limits";

/// Whether limits of this path keep ZooKeeper from starting, when they are made or deleted, or when
/// a snapshot has them. It takes every parent that begins with `/zookeeper` for one below
/// `/zookeeper/quota` and cuts as many characters off (`DataTree.deleteNode`); nothing but blanks
/// may not be left. In a snapshot the path ends for it at the first name that begins like that of
/// limits (`DataTree.traverseNode`).
pub(super) fn are_fatal_limits(path: &str) -> bool {
    let parent = path.strip_suffix(LIMITS).and_then(|above| above.strip_suffix('/'));
    parent.is_some_and(|parent| {
        let mut left = parent.chars().skip(path::QUOTA.len());
        parent.starts_with(path::ZOOKEEPER)
            && (left.all(|char| matches!(char, '/' | ' ')) || path.starts_with(LIMITS_OF_ALL))
    })
}

/// Whether these data would be statistics that ZooKeeper cannot read: at the next change that
/// counts there it ends, and at each start again (`DataTree.updateQuotaStat`).
pub(super) fn are_fatal_stats(path: &str, data: Option<&[u8]>) -> bool {
    matches!(QuotaNode::parse(path), Some(QuotaNode::Stats(limited)) if !limited.is_empty())
        && Track::parse(data).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_tree_is_a_path_like_any() {
        assert_eq!(QuotaNode::parse(LIMITS_OF_ALL), Some(QuotaNode::Limits("")));
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
        // Written by the command line client of 3.9.5 (`StatsTrack`); what cannot be read is in the
        // transcripts.
        let text = "count=10,bytes=-1=;byteHardLimit=-1;countHardLimit=20";
        let track = Track::parse(Some(text.as_bytes())).unwrap();
        assert_eq!((track.count.soft, track.bytes.soft), (10, -1));
        assert_eq!((track.count.hard, track.bytes.hard), (20, -1));
        assert_eq!(server_text(track.used(), text.as_bytes()), text);
        assert_eq!(server_text(Growth { count: 3, bytes: 12 }, b""), "count=3,bytes=12");
    }

    /// What the server makes of a client's statistics.
    fn server_text(used: Growth, text: &[u8]) -> String {
        let head = head(used);
        assert_eq!(head.len(), head_len(used));
        let (_, rest) = read_statistics(text).unwrap();
        String::from_utf8([head, rest].concat()).unwrap()
    }

    #[test]
    fn the_two_numbers_have_as_many_bytes_as_are_foreseen() {
        let numbers = [0, 9, 10, 99, 100, i64::MAX, i64::MAX - 7, -1, -9, -10, -99, i64::MIN];
        for count in numbers {
            for bytes in numbers {
                let text = format!("count={count},bytes={bytes}");
                assert_eq!(server_text(Growth { count, bytes }, b""), text);
            }
        }
    }

    #[test]
    fn other_numbers_stay() {
        // `StatsTrack.toString`: by name, the last of a name, an empty number as -1.
        let used = Growth { count: 1, bytes: 2 };
        let text = "b=8,count=9;c==3;a=5;;b=+7,\u{e4}=-0=x,bytes=7,=4";
        assert_eq!(server_text(used, text.as_bytes()), "count=1,bytes=2=;=4;a=5;b=7;c=-1;\u{e4}=0");
        // By UTF-16 units.
        assert_eq!(
            server_text(used, "\u{ff5e}=3;z=5;\u{1f600}=4".as_bytes()),
            "count=1,bytes=2=;z=5;\u{1f600}=4;\u{ff5e}=3"
        );
        // Bytes that are no text are one name.
        assert_eq!(server_text(used, b"\xff=1;\xe2\x82=2;\xfe=3"), "count=1,bytes=2=;\u{fffd}=3");
    }

    #[test]
    fn hard_limits_refuse_and_soft_ones_warn() {
        let growth = |count, bytes| Growth { count, bytes };
        let cases = [
            ("countHardLimit=3", growth(1, 0), QuotaVerdict::Exceeded),
            ("countHardLimit=4", growth(1, 0), QuotaVerdict::Within),
            ("count=3", growth(1, 0), QuotaVerdict::Warned),
            ("count=3,countHardLimit=9", growth(1, 0), QuotaVerdict::Within),
            ("byteHardLimit=10", growth(0, 1), QuotaVerdict::Exceeded),
            ("byteHardLimit=5", growth(0, 0), QuotaVerdict::Within),
            ("byteHardLimit=5", growth(1, 0), QuotaVerdict::Within),
        ];
        for (limits, growth, expected) in cases {
            let track = Track::parse(Some(limits.as_bytes())).unwrap();
            let used = Growth { count: 3, bytes: 10 };
            assert_eq!(judge(&track, used, growth), expected, "{limits} {growth:?}");
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
