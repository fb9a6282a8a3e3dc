//! How containers and znodes with a time to live are removed.

use std::time::Duration;

use super::error::ConfigError;
use super::settings::Settings;
use super::value::{INT_MAX, Number};

/// The reaper's pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaper {
    /// Between two rounds (`znode.container.checkIntervalMs`, a minute); above zero.
    pub check_interval: Duration,
    /// Znodes removed a minute at most (`znode.container.maxPerMinute`, 10000); above zero.
    pub max_per_minute: u32,
    /// A container that never had a child is removed this long after its data changed
    /// (`znode.container.maxNeverUsedIntervalMs`); `None`, the default, is never.
    pub max_never_used: Option<Duration>,
}

impl Reaper {
    pub(super) fn from_settings(settings: &Settings) -> Result<Self, ConfigError> {
        let read = |key, default, least, what| {
            Number { key, default, range: least..=INT_MAX, what }.read_u32(settings)
        };
        let ms = "a number of milliseconds";
        let check = read("znode.container.checkIntervalMs", 60_000, 1, ms)?;
        let never_used = read("znode.container.maxNeverUsedIntervalMs", 0, 0, ms)?;
        Ok(Self {
            check_interval: Duration::from_millis(check.into()),
            max_per_minute: read(
                "znode.container.maxPerMinute",
                10_000,
                1,
                "a number of znodes a minute",
            )?,
            max_never_used: (never_used > 0).then(|| Duration::from_millis(never_used.into())),
        })
    }
}
