//! Text of a setting to a typed value, by the rule with which ZooKeeper reads that key.
//!
//! Owns Java's number and boolean syntaxes and the resolving of host names. What a key may be and
//! is by default, its row in the table of keys says.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs as _};
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use super::keys::{self, Default, Key, Range, Syntax};
use super::settings::{Setting, Settings};
use super::{ConfigError, Note};
use crate::message::MessageId;

/// The row of a key that is read.
fn row(key: &str) -> &'static Key {
    keys::find(key).unwrap_or_else(|| unreachable!("{key} is read, and is not in the table"))
}

/// The number where the key is set, which must be in the range of its row.
pub(super) fn set_number(
    settings: &Settings,
    key: &'static str,
) -> Result<Option<i64>, ConfigError> {
    let Some(setting) = settings.get(key) else { return Ok(None) };
    let row = row(key);
    let Some((range, what)) = row.range else { unreachable!("{key} has no range") };
    let number = number(row, &setting.value).filter(|number| range.contains(*number));
    number.map(Some).ok_or_else(|| {
        let Range { least, most } = range;
        bad_value(key, setting, format!("{what} from {least} to {most}"))
    })
}

/// The number that counts where the key is not set.
pub(super) fn default_number(key: &'static str) -> i64 {
    let Default::Number(default) = row(key).default else { unreachable!("{key} is no number") };
    default
}

/// The number in range, or the default where the key is not set.
pub(super) fn signed(settings: &Settings, key: &'static str) -> Result<i64, ConfigError> {
    Ok(set_number(settings, key)?.unwrap_or_else(|| default_number(key)))
}

/// As [`signed`], of a range within `u32`.
pub(super) fn unsigned(settings: &Settings, key: &'static str) -> Result<u32, ConfigError> {
    Ok(u32::try_from(signed(settings, key)?).unwrap_or_default())
}

/// As [`signed`], where nothing above zero means no limit.
pub(super) fn limit(
    settings: &Settings,
    key: &'static str,
) -> Result<Option<NonZeroU32>, ConfigError> {
    Ok(u32::try_from(signed(settings, key)?).ok().and_then(NonZeroU32::new))
}

pub(super) fn port(settings: &Settings, key: &'static str) -> Result<u16, ConfigError> {
    Ok(u16::try_from(signed(settings, key)?).unwrap_or_default())
}

/// Milliseconds: less than 0 is 0, and more than 49 days is that.
pub(super) fn millis(settings: &Settings, key: &'static str) -> Result<Duration, ConfigError> {
    let millis = u32::try_from(signed(settings, key)?.max(0)).unwrap_or(u32::MAX);
    Ok(Duration::from_millis(millis.into()))
}

/// Bytes of a key in KB; zero and less is `None`.
pub(super) fn kilobytes(
    settings: &Settings,
    key: &'static str,
) -> Result<Option<NonZeroU64>, ConfigError> {
    let kilobytes = u64::try_from(signed(settings, key)?).unwrap_or_default();
    Ok(NonZeroU64::new(kilobytes << 10))
}

/// A number from 0 to 1.
pub(super) fn fraction(settings: &Settings, key: &'static str) -> Result<f64, ConfigError> {
    let Default::Fraction(default) = row(key).default else { unreachable!("{key} is none") };
    let Some(setting) = settings.get(key) else { return Ok(default) };
    let number = setting.value.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| bad_value(key, setting, "a number from 0 to 1".to_owned()))
}

/// The text of a key that has a default.
pub(super) fn text<'a>(settings: &'a Settings, key: &'static str) -> &'a str {
    let Default::Text(default) = row(key).default else { unreachable!("{key} is no text") };
    settings.get(key).map_or(default, |setting| &setting.value)
}

fn default_flag(key: &'static str) -> bool {
    let Default::Flag(default) = row(key).default else { unreachable!("{key} is no flag") };
    default
}

/// The number that ZooKeeper reads for a key of that syntax.
fn number(key: &Key, text: &str) -> Option<i64> {
    let is_int = |number: &i64| i32::try_from(*number).is_ok();
    match (key.syntax, key.is_read_from_file()) {
        (Syntax::Int, true) => text.parse().ok().filter(is_int),
        // `Integer.getInteger` and `Long.getLong`.
        (Syntax::Int, false) => decode(text).filter(is_int),
        (Syntax::Long, false) => decode(text),
        (Syntax::Long, true) | (Syntax::LongDecimal, _) => text.parse().ok(),
        (Syntax::Text | Syntax::Bool | Syntax::PeerType, _) => None,
    }
}

/// Why a value is none that ZooKeeper would take for its key.
pub(super) fn misread(key: &Key, setting: &Setting) -> Option<ConfigError> {
    let value = setting.value.as_str();
    let is = |words: [&str; 2]| words.iter().any(|word| value.eq_ignore_ascii_case(word));
    let (is_good, expected) = match key.syntax {
        Syntax::Text => (true, ""),
        Syntax::Int => {
            (number(key, value).is_some(), "a whole number from -2147483648 to 2147483647")
        }
        Syntax::Long | Syntax::LongDecimal => (number(key, value).is_some(), "a whole number"),
        Syntax::Bool => (is(["true", "false"]), "true or false"),
        Syntax::PeerType => (is(["participant", "observer"]), "participant or observer"),
    };
    (!is_good).then(|| bad_value(key.name, setting, expected.to_owned()))
}

/// `true` or `false`, in any case; anything else is refused.
pub(super) fn native_bool(settings: &Settings, key: &'static str) -> Result<bool, ConfigError> {
    match settings.get(key) {
        None => Ok(default_flag(key)),
        Some(setting) if setting.value.eq_ignore_ascii_case("true") => Ok(true),
        Some(setting) if setting.value.eq_ignore_ascii_case("false") => Ok(false),
        Some(setting) => Err(bad_value(key, setting, "true or false".to_owned())),
    }
}

/// Java's `Boolean.parseBoolean`: `true` in any case is true, anything else is false.
pub(super) fn property_bool(settings: &Settings, key: &'static str, notes: &mut Vec<Note>) -> bool {
    let Some(setting) = settings.get(key) else {
        return default_flag(key);
    };
    let yes = setting.value.eq_ignore_ascii_case("true");
    if !yes && !setting.value.eq_ignore_ascii_case("false") {
        let Setting { origin, value, .. } = setting;
        let text = format!(
            "{origin}: {key} is {value:?}, which means false; as in ZooKeeper, only true means true"
        );
        notes.push(Note::warning(MessageId::UNKNOWN_WORD, text));
    }
    yes
}

/// An address, or the first one of a host name, IPv4 before IPv6 as Java has it; `None` is every
/// address, and `0.0.0.0` stands for that as it does in ZooKeeper, which then takes IPv6 as well.
pub(super) fn address(
    settings: &Settings,
    key: &'static str,
) -> Result<Option<IpAddr>, ConfigError> {
    let Some(setting) = settings.get(key) else {
        return Ok(None);
    };
    // As Java's InetAddress.getByName.
    if setting.value.is_empty() {
        return Ok(Some(Ipv4Addr::LOCALHOST.into()));
    }
    resolve(&setting.value).ok_or_else(|| {
        bad_value(key, setting, "an address, or a host name that can be resolved".to_owned())
    })
}

/// `Some(None)` for every address.
pub(super) fn resolve(host: &str) -> Option<Option<IpAddr>> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let address = match without_zone(bare).parse() {
        Ok(address) => address,
        Err(_) if bare.is_empty() => return None,
        Err(_) => {
            let all: Vec<_> = (bare, 0).to_socket_addrs().ok()?.collect();
            all.iter().find(|address| address.is_ipv4()).or_else(|| all.first())?.ip()
        }
    };
    Some(Some(address).filter(|address| !address.is_unspecified()))
}

/// Java takes a zone after any IPv6 address whose interface is there; only link-local ones need
/// it.
fn without_zone(address: &str) -> &str {
    let Some((bare, zone)) = address.split_once('%') else { return address };
    let is_there = || (format!("fe80::1%{zone}"), 0).to_socket_addrs().is_ok();
    match bare.parse::<Ipv6Addr>() {
        Ok(parsed) if !parsed.is_unicast_link_local() && is_there() => bare,
        _ => address,
    }
}

/// The error for a value that `key` cannot take.
pub(super) fn bad_value(key: &str, setting: &Setting, expected: String) -> ConfigError {
    let place = setting.origin.to_string();
    ConfigError::BadValue { place, key: key.to_owned(), value: setting.value.clone(), expected }
}

/// Java's `Long.decode`.
fn decode(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let hexadecimal = ["0x", "0X", "#"].iter().find_map(|prefix| digits.strip_prefix(prefix));
    let (digits, radix) = match (hexadecimal, digits.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(octal)) if !octal.is_empty() => (octal, 8),
        _ => (digits, 10),
    };
    // from_str_radix takes a sign of its own: "--1" and "0x+1" are none.
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}
