//! Sessions: how long they live without a word, and how their passwords are made.

use std::fmt;

use super::ConfigError;
use super::keys::INT_MAX;
use super::settings::Settings;
use super::value;

/// How passwords of sessions are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionPasswords {
    /// `keyed`: by a key, which nobody else knows.
    Keyed,
    /// `zookeeper`: by ZooKeeper's formula, out of the session's id.
    ZooKeepers,
}

impl fmt::Display for SessionPasswords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keyed => "keyed",
            Self::ZooKeepers => "zookeeper",
        })
    }
}

pub(super) fn passwords(settings: &Settings) -> Result<Option<SessionPasswords>, ConfigError> {
    const KEY: &str = "sessions.passwords";
    let Some(setting) = settings.get(KEY) else { return Ok(None) };
    let all = [SessionPasswords::Keyed, SessionPasswords::ZooKeepers];
    let found = all.into_iter().find(|one| setting.value == one.to_string());
    let bad = || value::bad_value(KEY, setting, "keyed or zookeeper".to_owned());
    found.map(Some).ok_or_else(bad)
}

/// Milliseconds of a tick, of the least and of the greatest session timeout;
/// `tick_time_ms` is another default.
pub(super) fn times(
    settings: &Settings,
    tick_time_ms: Option<i64>,
) -> Result<(u32, u32, u32), ConfigError> {
    let tick = value::set_number(settings, "tickTime")?.or(tick_time_ms);
    let tick = tick.unwrap_or_else(|| value::default_number("tickTime"));
    // -1 is the default when written, too.
    let timeout = |key, ticks: i64| match value::signed(settings, key)? {
        -1 => Ok((tick * ticks).min(INT_MAX)),
        timeout => Ok(timeout),
    };
    let min = timeout("minSessionTimeout", 2)?;
    let max = timeout("maxSessionTimeout", 20)?;
    if min > max {
        let culprit =
            settings.get("minSessionTimeout").or_else(|| settings.get("maxSessionTimeout"));
        return Err(ConfigError::Contradiction {
            place: culprit.map(|setting| setting.origin.to_string()).unwrap_or_default(),
            what: format!("minSessionTimeout {min} is larger than maxSessionTimeout {max}"),
        });
    }
    let unsigned = |time: i64| u32::try_from(time).unwrap_or(u32::MAX);
    Ok((unsigned(tick), unsigned(min), unsigned(max)))
}
