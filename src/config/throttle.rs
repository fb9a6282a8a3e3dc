//! What keeps a server from taking on more than it can do: the keys of ZooKeeper's throttles.

use std::num::NonZeroU32;

use super::Note;
use super::error::ConfigError;
use super::settings::Settings;
use super::value::{default_number, fraction, limit, property_bool, signed, unsigned};
use crate::message::MessageId;

/// Bounds beside those of connections and of the queue; all are off by default.
#[derive(Debug, Clone, PartialEq)]
pub struct Throttle {
    /// Requests in flight before reading is paused, where that is less than
    /// `globalOutstandingLimit` (`request_throttle_max_requests`); `None`, the default, is no such
    /// limit.
    pub max_requests: Option<NonZeroU32>,
    /// Milliseconds after which a request that waits is refused (`throttled_op_wait_time`); `None`,
    /// the default, is never.
    pub op_wait_ms: Option<NonZeroU32>,
    /// What large requests may take; `None`, the default, is no bound of their own.
    pub large_requests: Option<LargeRequests>,
    /// How many sessions may be asked for; `None`, the default, is any number.
    pub connections: Option<ConnectionThrottle>,
}

/// Which requests are large, and what all of them may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LargeRequests {
    /// Bytes above which a request is one (`largeRequestThreshold`).
    pub threshold: u32,
    /// Bytes of all that are on their way (`largeRequestMaxBytes`); above zero.
    pub max_bytes: u32,
}

/// A bucket of tokens that sessions cost (`connection_throttle_*`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConnectionThrottle {
    /// What the bucket holds (`connection_throttle_tokens`, times the weight of a global session).
    pub tokens: NonZeroU32,
    /// Milliseconds in which it gets `fill_count` more (`connection_throttle_fill_time`).
    pub fill_ms: NonZeroU32,
    /// Tokens (`connection_throttle_fill_count`, times the weight of a global session).
    pub fill_count: u32,
    /// Milliseconds between two changes of how many are turned away by lot
    /// (`connection_throttle_freeze_time`); `None`, the default, is no lot.
    pub freeze_ms: Option<u32>,
    /// What an empty bucket adds to the probability of that (`connection_throttle_drop_increase`).
    pub drop_increase: f64,
    /// What a full one takes from it (`connection_throttle_drop_decrease`).
    pub drop_decrease: f64,
    /// The part of its tokens that a full one may lack (`connection_throttle_decrease_ratio`).
    pub decrease_ratio: f64,
    /// What a session costs (`connection_throttle_weight_enabled`); `None`, the default, is one
    /// token.
    pub weights: Option<SessionWeights>,
}

/// Tokens that a session costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionWeights {
    /// A new one of all servers (`connection_throttle_global_session_weight`).
    pub global: u32,
    /// A new one of this server only (`connection_throttle_local_session_weight`).
    pub local: u32,
    /// One that there is (`connection_throttle_renew_session_weight`).
    pub renewed: u32,
}

impl Throttle {
    pub(super) fn from_settings(
        settings: &Settings,
        notes: &mut Vec<Note>,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            max_requests: limit(settings, "request_throttle_max_requests")?,
            op_wait_ms: limit(settings, "throttled_op_wait_time")?,
            large_requests: large_requests(settings, notes)?,
            connections: ConnectionThrottle::from_settings(settings, notes)?,
        })
    }
}

fn large_requests(
    settings: &Settings,
    notes: &mut Vec<Note>,
) -> Result<Option<LargeRequests>, ConfigError> {
    let threshold = signed(settings, "largeRequestThreshold")?;
    if threshold == 0 || threshold < -1 {
        let place = settings.place_of("largeRequestThreshold", "largeRequestThreshold");
        let text = format!(
            "{place}: largeRequestThreshold is {threshold}, neither -1 nor greater than zero: the \
             threshold is off, as in ZooKeeper"
        );
        notes.push(Note::warning(MessageId::NUMBER_OUT_OF_RANGE, text));
    }
    let max_bytes = above_zero(settings, "largeRequestMaxBytes", notes)?;
    let threshold = u32::try_from(threshold).ok().filter(|threshold| *threshold > 0);
    Ok(threshold.map(|threshold| LargeRequests { threshold, max_bytes }))
}

/// A number that is not above zero is the default, as in ZooKeeper.
fn above_zero(
    settings: &Settings,
    key: &'static str,
    notes: &mut Vec<Note>,
) -> Result<u32, ConfigError> {
    let number = signed(settings, key)?;
    if number > 0 {
        return Ok(u32::try_from(number).unwrap_or(u32::MAX));
    }
    let (place, default) = (settings.place_of(key, key), default_number(key));
    let text = format!(
        "{place}: {key} is {number}, not greater than zero: {default} is used, as in ZooKeeper"
    );
    notes.push(Note::warning(MessageId::NUMBER_OUT_OF_RANGE, text));
    Ok(u32::try_from(default).unwrap_or(u32::MAX))
}

impl ConnectionThrottle {
    fn from_settings(
        settings: &Settings,
        notes: &mut Vec<Note>,
    ) -> Result<Option<Self>, ConfigError> {
        let weights = SessionWeights::from_settings(settings, notes)?;
        let weighs = property_bool(settings, "connection_throttle_weight_enabled", notes);
        let weights = weighs.then_some(weights);
        // Tokens are meant for global sessions.
        let tokens = |key| {
            let count = unsigned(settings, key)?;
            Ok(count.saturating_mul(weights.map_or(1, |weights| weights.global)))
        };
        let fill = unsigned(settings, "connection_throttle_fill_time")?;
        let freeze = signed(settings, "connection_throttle_freeze_time")?;
        let fill_count = tokens("connection_throttle_fill_count")?;
        let drop_increase = fraction(settings, "connection_throttle_drop_increase")?;
        let drop_decrease = fraction(settings, "connection_throttle_drop_decrease")?;
        let decrease_ratio = fraction(settings, "connection_throttle_decrease_ratio")?;
        let tokens = NonZeroU32::new(tokens("connection_throttle_tokens")?);
        Ok(tokens.map(|tokens| Self {
            tokens,
            fill_ms: NonZeroU32::new(fill).unwrap_or(NonZeroU32::MIN),
            fill_count,
            freeze_ms: u32::try_from(freeze).ok(),
            drop_increase,
            drop_decrease,
            decrease_ratio,
            weights,
        }))
    }
}

impl SessionWeights {
    /// No session costs less than a local one, as in ZooKeeper.
    fn from_settings(settings: &Settings, notes: &mut Vec<Note>) -> Result<Self, ConfigError> {
        let mut weight = |key| above_zero(settings, key, notes);
        let local = weight("connection_throttle_local_session_weight")?;
        let global = weight("connection_throttle_global_session_weight")?.max(local);
        let renewed = weight("connection_throttle_renew_session_weight")?.max(local);
        Ok(Self { global, local, renewed })
    }
}
