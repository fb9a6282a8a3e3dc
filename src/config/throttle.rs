//! What keeps a server from taking on more than it can do: the keys of ZooKeeper's throttles.

use super::Note;
use super::error::ConfigError;
use super::settings::Settings;
use super::standalone::property;
use super::value::INT_MAX;

/// Bounds beside those of connections and of the queue; all are off by default.
#[derive(Debug, Clone, PartialEq)]
pub struct Throttle {
    /// What large requests may take; `None`, the default, is no bound of their own.
    pub large_requests: Option<LargeRequests>,
}

/// Which requests are large, and what all of them may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeRequests {
    /// Bytes above which a request is one (`largeRequestThreshold`).
    pub threshold: u32,
    /// Bytes of all that are on their way (`largeRequestMaxBytes`, 100 MiB); above zero.
    pub max_bytes: u32,
}

impl Throttle {
    pub(super) fn from_settings(
        settings: &Settings,
        notes: &mut Vec<Note>,
    ) -> Result<Self, ConfigError> {
        Ok(Self { large_requests: large_requests(settings, notes)? })
    }
}

fn large_requests(
    settings: &Settings,
    notes: &mut Vec<Note>,
) -> Result<Option<LargeRequests>, ConfigError> {
    const MAX_BYTES: u32 = 100 << 20;
    let read = |key, default| {
        let number = property(key, default, -INT_MAX - 1, "a number of bytes").read(settings)?;
        Ok((settings.place_of(key, key), number))
    };
    let (place, threshold) = read("largeRequestThreshold", -1)?;
    if threshold == 0 || threshold < -1 {
        notes.push(Note::warning(format!(
            "{place}: largeRequestThreshold is {threshold}, neither -1 nor above zero: it is off, as in ZooKeeper"
        )));
    }
    let (place, bytes) = read("largeRequestMaxBytes", MAX_BYTES.into())?;
    if bytes <= 0 {
        notes.push(Note::warning(format!(
            "{place}: largeRequestMaxBytes is {bytes}, not above zero: {MAX_BYTES} counts, as in ZooKeeper"
        )));
    }
    let positive = |number: i64| u32::try_from(number).ok().filter(|number| *number > 0);
    let max_bytes = positive(bytes).unwrap_or(MAX_BYTES);
    Ok(positive(threshold).map(|threshold| LargeRequests { threshold, max_bytes }))
}
