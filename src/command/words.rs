//! Zxids, sessions, times and bytes as the tools take and show them.

use std::fmt;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// A zxid or a session id, which ZooKeeper shows in hexadecimal: only with `0x` is it clear what is
/// meant. Or the id of a member, of which a reader of JSON would round a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hex(pub(super) i64);

impl Hex {
    pub(super) const fn of_member(id: u64) -> Self {
        Self(id.cast_signed())
    }
}

impl std::str::FromStr for Hex {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let digits = word.strip_prefix("0x").filter(|digits| !digits.starts_with(['+', '-']));
        digits
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .map(|number| Self(number.cast_signed()))
            .ok_or_else(|| "expected hexadecimal with 0x in front, such as 0x50000000a".to_owned())
    }
}

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl serde::Serialize for Hex {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Zxids from one to another, both included: `0x5..0x9`, `0x5..`, `..0x9` or `0x5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZxidRange {
    pub(super) first: i64,
    pub(super) last: i64,
}

impl std::str::FromStr for ZxidRange {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let end = |word: &str, open: i64| -> Result<i64, String> {
            if word.is_empty() { Ok(open) } else { word.parse::<Hex>().map(|zxid| zxid.0) }
        };
        let (first, last) = word.split_once("..").unwrap_or((word, word));
        if word.is_empty() || word == ".." {
            return Err("expected 0xA..0xB, 0xA.., ..0xB or 0xA".to_owned());
        }
        Ok(Self { first: end(first, i64::MIN)?, last: end(last, i64::MAX)? })
    }
}

/// An instant, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instant(pub(super) i64);

impl std::str::FromStr for Instant {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let time = OffsetDateTime::parse(word, &Rfc3339).map_err(|_| {
            "expected a time with a time zone, such as 2026-03-01T12:00:00Z or \
             2026-03-01T13:00:00.250+01:00"
                .to_owned()
        })?;
        let ms = time.unix_timestamp_nanos().div_euclid(1_000_000);
        i64::try_from(ms).map(Self).map_err(|error| error.to_string())
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000);
        let form = format_description!(
            "[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z"
        );
        match time.ok().and_then(|time| time.format(form).ok()) {
            Some(text) => f.write_str(&text),
            None => write!(f, "{}ms", self.0),
        }
    }
}

impl serde::Serialize for Instant {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Text of a client on a terminal: control characters would move its cursor.
pub(super) struct Plain<'a>(pub(super) &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use std::fmt::Write as _;
        for character in self.0.chars() {
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

/// Data for people: text in quotes if it is some, else its base64.
pub(super) fn data_for_people(data: Option<&[u8]>) -> String {
    match data.map(|data| (data, std::str::from_utf8(data))) {
        None => "null".to_owned(),
        Some((_, Ok(text))) if !text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') => {
            format!("{text:?}")
        }
        Some((data, _)) => format!("base64:{}", STANDARD.encode(data)),
    }
}

/// Data for scripts.
pub(super) fn data_for_scripts(data: Option<&[u8]>) -> Option<String> {
    data.map(|data| STANDARD.encode(data))
}

/// `cdrwa`, as zkCli shows permissions.
pub(super) fn permissions(perms: i32) -> String {
    let bits = [(4, 'c'), (8, 'd'), (1, 'r'), (2, 'w'), (16, 'a')];
    bits.iter().filter(|(bit, _)| perms & bit != 0).map(|(_, letter)| letter).collect()
}

/// An ACL as zkCli takes it: `scheme:id:perms`, with commas between.
pub(super) fn acl_for_people(acl: &[jute::Acl<'_>]) -> String {
    let one = |acl: &jute::Acl<'_>| {
        let scheme = acl.scheme.as_deref().unwrap_or("null");
        let id = acl.id.as_deref().unwrap_or("null");
        format!("{}:{}:{}", Plain(scheme), Plain(id), permissions(acl.perms))
    };
    acl.iter().map(one).collect::<Vec<_>>().join(",")
}

/// An entry of an ACL for scripts.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct AclEntry {
    scheme: Option<String>,
    id: Option<String>,
    perms: i32,
}

pub(super) fn acl_for_scripts(acl: &[jute::Acl<'_>]) -> Vec<AclEntry> {
    let one = |acl: &jute::Acl<'_>| AclEntry {
        scheme: acl.scheme.as_deref().map(str::to_owned),
        id: acl.id.as_deref().map(str::to_owned),
        perms: acl.perms,
    };
    acl.iter().map(one).collect()
}

/// Whether `path` is `top` or below it.
pub(super) fn is_below(path: &str, top: &str) -> bool {
    let top = top.trim_end_matches('/');
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// `1 znode`, `2 znodes`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The second, for the name of a folder.
pub(super) fn stamp() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    Instant(ms).to_string().replace([':', '-'], "").replace('.', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zxids_need_their_0x() {
        assert_eq!("0x50000000a".parse(), Ok(Hex(0x5_0000_000a)));
        assert_eq!("0xff00000000000001".parse(), Ok(Hex(0xff00_0000_0000_0001_u64.cast_signed())));
        for word in ["10", "0x", "0x-1", "0x+1", "0X1", "0x1g", "0x10000000000000000"] {
            assert!(word.parse::<Hex>().is_err(), "{word}");
        }
        assert_eq!("0x5..0x9".parse(), Ok(ZxidRange { first: 5, last: 9 }));
        assert_eq!("0x5".parse(), Ok(ZxidRange { first: 5, last: 5 }));
        assert_eq!("..0x9".parse(), Ok(ZxidRange { first: i64::MIN, last: 9 }));
        assert!("..".parse::<ZxidRange>().is_err() && "".parse::<ZxidRange>().is_err());
    }

    #[test]
    fn times_need_their_zone() {
        assert_eq!("1970-01-01T00:00:01.5Z".parse(), Ok(Instant(1_500)));
        assert_eq!("1970-01-01T01:00:00+01:00".parse(), Ok(Instant(0)));
        assert!("1970-01-01T00:00:01".parse::<Instant>().is_err());
        assert_eq!(Instant(1_500).to_string(), "1970-01-01T00:00:01.500Z");
        assert_eq!(Instant(i64::MAX).to_string(), format!("{}ms", i64::MAX));
    }

    #[test]
    fn what_is_below() {
        assert!(is_below("/a", "/a") && is_below("/a/b", "/a") && is_below("/a", "/"));
        assert!(is_below("/a/b", "/a/") && !is_below("/ab", "/a") && !is_below("/", "/a"));
    }

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(Plain("/a\u{1b}[2J").to_string(), "/a\\u{1b}[2J");
        assert_eq!(data_for_people(Some(b"a\x1b")), "base64:YRs=");
        assert_eq!(data_for_people(Some(b"a\"b")), "\"a\\\"b\"");
    }
}
