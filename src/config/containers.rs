//! How containers and znodes with a time to live are removed.

use std::time::Duration;

use super::error::ConfigError;
use super::settings::Settings;
use super::value::{millis, signed, unsigned};

/// The pace of their removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Containers {
    /// Between two rounds (`znode.container.checkIntervalMs`); above zero.
    pub check_interval: Duration,
    /// Znodes removed a minute at most (`znode.container.maxPerMinute`); above zero.
    pub max_per_minute: u32,
    /// A container that never had a child is removed this long after its data changed
    /// (`znode.container.maxNeverUsedIntervalMs`); `None`, the default, is never.
    pub max_never_used: Option<Duration>,
}

impl Containers {
    pub(super) fn from_settings(settings: &Settings) -> Result<Self, ConfigError> {
        let check_interval = millis(settings, "znode.container.checkIntervalMs")?;
        let never_used = signed(settings, "znode.container.maxNeverUsedIntervalMs")?;
        Ok(Self {
            check_interval,
            max_per_minute: unsigned(settings, "znode.container.maxPerMinute")?,
            max_never_used: (never_used != 0)
                .then(|| Duration::from_millis(u64::try_from(never_used).unwrap_or(0))),
        })
    }
}
