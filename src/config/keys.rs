//! The names ZooKeeper 3.9.5 knows, the few that are this server's own, and the fate of each.
//!
//! Owns the one table of keys, from which the log, `ferrokeeper config` and the documentation tell
//! what a key comes to, and readers its default and range; the other spellings that keys are found
//! under, and the nearest name of a mistyped one. Never sees a value.

use std::borrow::Cow;
use std::fmt;

pub use super::key_table::KEYS;

/// What becomes of a known key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It does what it does in ZooKeeper.
    Works,
    /// It works, and what happens without it is better than ZooKeeper's default.
    Better,
    /// What it asks for is not built. A value that asks for nothing, given here, is no reason for a
    /// warning.
    NotYet(&'static str),
    /// There is nothing here that it could set, and nothing is missed.
    Meaningless,
    /// It cannot be honoured, and to start without it would be less safe than what was asked for.
    Refused(Refusal),
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Works => "works",
            Self::Better => "better by default",
            Self::NotYet(_) => "not yet",
            Self::Meaningless => "meaningless",
            Self::Refused(_) => "refused",
        })
    }
}

/// When a key of [`Fate::Refused`] stops a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Whatever it says.
    Always,
    /// Where it says `true`.
    IfTrue,
    /// Where it says `true`, and there are other servers.
    IfTrueInEnsemble,
    /// Where it says `true`, and servers speak TLS among themselves.
    IfTrueWithTls,
    /// Whatever it says, where servers speak TLS among themselves.
    WithTls,
    /// Where it names a class that is not ZooKeeper's.
    UnknownProvider,
}

/// What ZooKeeper takes for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// Judged where it is used, if at all.
    Text,
    /// A Java `int`.
    Int,
    /// A Java `long`.
    Long,
    /// A Java `long`, decimal also as a property.
    LongDecimal,
    /// `true` or `false`.
    Bool,
    /// `participant` or `observer`.
    PeerType,
}

/// Greatest value of a Java `int`, in which ZooKeeper keeps most numbers.
pub(super) const INT_MAX: i64 = i32::MAX as i64;

/// Least value of one.
pub(super) const INT_MIN: i64 = i32::MIN as i64;

/// What a number may be, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) least: i64,
    pub(super) most: i64,
}

/// Any Java `int` from `least` on.
pub(super) const fn from(least: i64) -> Range {
    Range { least, most: INT_MAX }
}

impl Range {
    pub(super) fn contains(self, number: i64) -> bool {
        (self.least..=self.most).contains(&number)
    }
}

/// What counts where a key is not set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Default {
    /// Whoever reads the key knows.
    Other,
    Number(i64),
    Flag(bool),
    Fraction(f64),
    Text(&'static str),
}

impl fmt::Display for Default {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => Ok(()),
            Self::Number(number) => number.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::Fraction(fraction) => fraction.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Where ZooKeeper reads a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// In zoo.cfg, by QuorumPeerConfig itself: a number is decimal, and a bad value ends the start.
    File,
    /// As the property of that name after `zookeeper.`, which every other line of zoo.cfg sets: a
    /// number is read by `Integer.decode`, and the default counts in the place of a bad one.
    Property,
    /// As a property without the prefix, which only `-D` can set.
    Bare,
    /// As a property with the prefix or without it.
    Either,
}

/// One key, or a family of them whose name ends in `.N`.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// As it stands in zoo.cfg.
    pub name: &'static str,
    source: Source,
    pub(super) syntax: Syntax,
    /// What becomes of it.
    pub fate: Fate,
    /// One sentence, of a key in effect with `{default}` where that stands.
    pub(super) note: &'static str,
    pub(super) default: Default,
    /// Of a number, and what it is, for the error: "a number of milliseconds".
    pub(super) range: Option<(Range, &'static str)>,
}

impl Key {
    const fn row(
        source: Source,
        name: &'static str,
        syntax: Syntax,
        fate: Fate,
        note: &'static str,
    ) -> Self {
        Self { name, source, syntax, fate, note, default: Default::Other, range: None }
    }

    pub(super) const fn range(self, range: Range, what: &'static str) -> Self {
        Self { range: Some((range, what)), ..self }
    }

    pub(super) const fn number(self, default: i64, range: Range, what: &'static str) -> Self {
        Self { default: Default::Number(default), ..self }.range(range, what)
    }

    pub(super) const fn flag(self, default: bool) -> Self {
        Self { default: Default::Flag(default), ..self }
    }

    /// A number from 0 to 1.
    pub(super) const fn fraction(self, default: f64) -> Self {
        Self { default: Default::Fraction(default), ..self }
    }

    pub(super) const fn text(self, default: &'static str) -> Self {
        Self { default: Default::Text(default), ..self }
    }

    /// One sentence: what it sets, how it is better, or why it is not in effect.
    #[must_use]
    pub fn note(&self) -> Cow<'static, str> {
        const PLACE: &str = "{default}";
        match self.note.contains(PLACE) {
            true => self.note.replace(PLACE, &self.default.to_string()).into(),
            false => self.note.into(),
        }
    }

    /// The property of the JVM that ZooKeeper reads it from; `None` where only zoo.cfg counts
    /// there.
    #[must_use]
    pub fn property(&self) -> Option<String> {
        match self.source {
            Source::File => None,
            Source::Property | Source::Either => Some(format!("{PREFIX}{}", self.name)),
            Source::Bare => Some(self.name.to_owned()),
        }
    }

    /// Whether a line of zoo.cfg is judged by ZooKeeper as it reads the file, and a bad value ends
    /// the start.
    pub(super) fn is_read_from_file(&self) -> bool {
        self.source == Source::File
    }

    /// Whether ZooKeeper reads this key from `-D` and ignores a line of zoo.cfg.
    pub(super) fn is_define_only(&self) -> bool {
        self.source == Source::Bare
    }

    /// Whether ZooKeeper does not know it.
    pub(super) fn is_own(&self) -> bool {
        self.note.starts_with(OWN)
    }

    /// Whether something reads its value.
    pub(super) fn is_in_effect(&self) -> bool {
        matches!(self.fate, Fate::Works | Fate::Better)
    }

    /// What the names of a family begin with.
    fn family(&self) -> Option<&'static str> {
        self.name.strip_suffix('N').filter(|prefix| prefix.ends_with('.'))
    }
}

/// Keys that belong together.
#[derive(Debug)]
pub struct Section {
    /// What they are about.
    pub heading: &'static str,
    /// At least one.
    pub keys: &'static [Key],
}

pub(super) const fn in_file(
    name: &'static str,
    syntax: Syntax,
    fate: Fate,
    note: &'static str,
) -> Key {
    Key::row(Source::File, name, syntax, fate, note)
}

pub(super) const fn property(
    name: &'static str,
    syntax: Syntax,
    fate: Fate,
    note: &'static str,
) -> Key {
    Key::row(Source::Property, name, syntax, fate, note)
}

pub(super) const fn bare(
    name: &'static str,
    syntax: Syntax,
    fate: Fate,
    note: &'static str,
) -> Key {
    Key::row(Source::Bare, name, syntax, fate, note)
}

pub(super) const fn either(
    name: &'static str,
    syntax: Syntax,
    fate: Fate,
    note: &'static str,
) -> Key {
    Key::row(Source::Either, name, syntax, fate, note)
}

/// Headings of the admin guide that read like keys, with the keys that ZooKeeper reads.
const HEADINGS: [(&str, &str); 18] = [
    ("connectionMaxTokens", "connection_throttle_tokens"),
    ("connectionTokenFillTime", "connection_throttle_fill_time"),
    ("connectionTokenFillCount", "connection_throttle_fill_count"),
    ("connectionFreezeTime", "connection_throttle_freeze_time"),
    ("connectionDropIncrease", "connection_throttle_drop_increase"),
    ("connectionDropDecrease", "connection_throttle_drop_decrease"),
    ("connectionDecreaseRatio", "connection_throttle_decrease_ratio"),
    ("requestThrottleLimit", "request_throttle_max_requests"),
    ("requestThrottleStallTime", "request_throttle_stall_time"),
    ("requestThrottleDropStale", "request_throttle_drop_stale"),
    ("requestStaleLatencyCheck", "request_stale_latency_check"),
    ("requestStaleConnectionCheck", "request_stale_connection_check"),
    ("throttledOpWaitTime", "throttled_op_wait_time"),
    ("advancedFlowControlEnabled", "netty.advancedFlowControl.enabled"),
    ("maxConcurrentSnapSyncs", "leader.maxConcurrentSnapSyncs"),
    ("maxConcurrentDiffSyncs", "leader.maxConcurrentDiffSyncs"),
    ("maxTimeToWaitForEpoch", "leader.maxTimeToWaitForEpoch"),
    ("outstandingHandshake.limit", "netty.server.outstandingHandshake.limit"),
];

const PREFIX: &str = "zookeeper.";

/// How the sentence of a key begins that ZooKeeper does not know.
const OWN: &str = "Ferrokeeper's own: ";

/// Every known key.
pub(super) fn all() -> impl Iterator<Item = &'static Key> {
    KEYS.iter().flat_map(|section| section.keys)
}

/// The key that a name written in zoo.cfg or after `-D` stands for.
pub(super) fn canonical(written: &str) -> &str {
    let name = written.strip_prefix(PREFIX).unwrap_or(written);
    HEADINGS.iter().find(|(heading, _)| *heading == name).map_or(name, |&(_, key)| key)
}

/// The entry of a canonical key; `None` for one that ZooKeeper does not know either.
pub(super) fn find(key: &str) -> Option<&'static Key> {
    let of_family = |entry: &&Key| entry.family().is_some_and(|prefix| key.starts_with(prefix));
    all().find(|entry| entry.name == key).or_else(|| all().find(of_family))
}

/// The key of a name as it is written in zoo.cfg, after `-D` or in the admin guide.
#[must_use]
pub fn known_key(written: &str) -> Option<&'static Key> {
    find(canonical(written))
}

/// Whether `-D` with this very name sets something in ZooKeeper; other names are the JVM's.
pub(super) fn is_server_property(written: &str) -> bool {
    let is_bare = |key: &Key| matches!(key.source, Source::Bare | Source::Either);
    written.starts_with(PREFIX) || find(written).is_some_and(is_bare)
}

/// The known name that a mistyped one most resembles, if any does.
#[must_use]
pub fn nearest(unknown: &str) -> Option<&'static str> {
    const RESEMBLES: f64 = 0.6;
    let unknown = canonical(unknown).to_lowercase();
    // As the table has the names of a family.
    let of_family = match unknown.rsplit_once('.') {
        Some((family, number)) if number.parse::<u64>().is_ok() => Some(format!("{family}.n")),
        _ => None,
    };
    let likeness = |key: &Key| {
        let written = if key.family().is_some() { of_family.as_ref() } else { Some(&unknown) };
        written.map_or(0.0, |written| {
            strsim::normalized_damerau_levenshtein(written, &key.name.to_lowercase())
        })
    };
    all()
        .map(|key| (likeness(key), key.name))
        .filter(|(likeness, _)| *likeness >= RESEMBLES)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_may_be_that_of_a_family() {
        for (written, meant) in [
            ("tickTme", Some("tickTime")),
            ("sever.1", Some("server.N")),
            ("Server.12", Some("server.N")),
            ("authProvder.1", Some("authProvider.N")),
            ("sever.x", None),
            ("sever", None),
        ] {
            assert_eq!(nearest(written), meant, "{written}");
        }
    }

    #[test]
    fn a_sentence_tells_the_default_of_its_row() {
        for key in all() {
            let is_told = key.note.contains("{default}");
            assert!(!is_told || key.default != Default::Other, "{key:?}");
            assert!(key.is_in_effect() || key.default == Default::Other, "{key:?}");
            assert!(!key.note().contains(['{', '}']), "{key:?}");
        }
        let key = known_key("connection_throttle_drop_decrease").expect("a key");
        assert!(key.note().ends_with("from 0 to 1; default 0.002."), "{}", key.note());
    }
}
