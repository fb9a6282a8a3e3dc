//! What keeps a server from taking on more than it can do: the keys of ZooKeeper's throttles.

use std::num::NonZeroU32;

use super::Note;
use super::error::ConfigError;
use super::settings::Settings;
use super::standalone::property;
use super::value::{INT_MAX, bad_value, property_bool};
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
    /// Bytes of all that are on their way (`largeRequestMaxBytes`, 100 MiB); above zero.
    pub max_bytes: u32,
}

/// A bucket of tokens that sessions cost (`connection_throttle_*`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConnectionThrottle {
    /// What the bucket holds (`connection_throttle_tokens`, times the weight of a global session).
    pub tokens: NonZeroU32,
    /// Milliseconds in which it gets `fill_count` more (`connection_throttle_fill_time`, 1).
    pub fill_ms: NonZeroU32,
    /// Tokens (`connection_throttle_fill_count`, 1, times the weight of a global session).
    pub fill_count: u32,
    /// Milliseconds between two changes of how many are turned away by lot
    /// (`connection_throttle_freeze_time`); `None`, the default, is no lot.
    pub freeze_ms: Option<u32>,
    /// What an empty bucket adds to the probability of that (`connection_throttle_drop_increase`,
    /// 0.02).
    pub drop_increase: f64,
    /// What a full one takes from it (`connection_throttle_drop_decrease`, 0.002).
    pub drop_decrease: f64,
    /// The part of its tokens that a full one may lack (`connection_throttle_decrease_ratio`, 0).
    pub decrease_ratio: f64,
    /// What a session costs (`connection_throttle_weight_enabled`); `None`, the default, is one
    /// token.
    pub weights: Option<SessionWeights>,
}

/// Tokens that a session costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionWeights {
    /// A new one of all servers (`connection_throttle_global_session_weight`, 3).
    pub global: u32,
    /// A new one of this server only (`connection_throttle_local_session_weight`, 1).
    pub local: u32,
    /// One that there is (`connection_throttle_renew_session_weight`, 2).
    pub renewed: u32,
}

impl Throttle {
    pub(super) fn from_settings(
        settings: &Settings,
        notes: &mut Vec<Note>,
    ) -> Result<Self, ConfigError> {
        let requests = "a number of requests";
        let max_requests = property("request_throttle_max_requests", 0, -INT_MAX - 1, requests);
        Ok(Self {
            max_requests: max_requests.read_limit(settings)?,
            op_wait_ms: property(
                "throttled_op_wait_time",
                0,
                -INT_MAX - 1,
                "a number of milliseconds",
            )
            .read_limit(settings)?,
            large_requests: large_requests(settings, notes)?,
            connections: ConnectionThrottle::from_settings(settings, notes)?,
        })
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
        let text = format!(
            "{place}: largeRequestThreshold is {threshold}, neither -1 nor greater than zero: the threshold is off, as in ZooKeeper"
        );
        notes.push(Note::warning(MessageId::NUMBER_OUT_OF_RANGE, text));
    }
    let (place, bytes) = read("largeRequestMaxBytes", MAX_BYTES.into())?;
    if bytes <= 0 {
        let text = format!(
            "{place}: largeRequestMaxBytes is {bytes}, not greater than zero: {MAX_BYTES} is used, as in ZooKeeper"
        );
        notes.push(Note::warning(MessageId::NUMBER_OUT_OF_RANGE, text));
    }
    let positive = |number: i64| u32::try_from(number).ok().filter(|number| *number > 0);
    let max_bytes = positive(bytes).unwrap_or(MAX_BYTES);
    Ok(positive(threshold).map(|threshold| LargeRequests { threshold, max_bytes }))
}

impl ConnectionThrottle {
    fn from_settings(
        settings: &Settings,
        notes: &mut Vec<Note>,
    ) -> Result<Option<Self>, ConfigError> {
        let weights = SessionWeights::from_settings(settings, notes)?;
        let weighs = property_bool(settings, "connection_throttle_weight_enabled", false, notes);
        let weights = weighs.then_some(weights);
        // Tokens are meant for global sessions.
        let tokens = |key, default| {
            let count = property(key, default, 0, "a number of tokens").read_u32(settings)?;
            Ok(count.saturating_mul(weights.map_or(1, |weights| weights.global)))
        };
        let ms = "a number of milliseconds";
        let fill = property("connection_throttle_fill_time", 1, 1, ms).read_u32(settings)?;
        let freeze = property("connection_throttle_freeze_time", -1, -1, ms).read(settings)?;
        let fill_count = tokens("connection_throttle_fill_count", 1)?;
        let drop_increase = fraction(settings, "connection_throttle_drop_increase", 0.02)?;
        let drop_decrease = fraction(settings, "connection_throttle_drop_decrease", 0.002)?;
        let decrease_ratio = fraction(settings, "connection_throttle_decrease_ratio", 0.0)?;
        let tokens = NonZeroU32::new(tokens("connection_throttle_tokens", 0)?);
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
    /// A weight that is none is the default, and no session costs less than a local one, as in
    /// ZooKeeper.
    fn from_settings(settings: &Settings, notes: &mut Vec<Note>) -> Result<Self, ConfigError> {
        let mut read = |key, default: u32| {
            let number =
                property(key, default.into(), -INT_MAX - 1, "a number of tokens").read(settings)?;
            Ok(u32::try_from(number).ok().filter(|weight| *weight > 0).unwrap_or_else(|| {
                let place = settings.place_of(key, key);
                let text = format!(
                    "{place}: {key} is {number}, not greater than zero: {default} is used, as in ZooKeeper"
                );
                notes.push(Note::warning(MessageId::NUMBER_OUT_OF_RANGE, text));
                default
            }))
        };
        let local = read("connection_throttle_local_session_weight", 1)?;
        let global = read("connection_throttle_global_session_weight", 3)?.max(local);
        let renewed = read("connection_throttle_renew_session_weight", 2)?.max(local);
        Ok(Self { global, local, renewed })
    }
}

/// A number from 0 to 1.
fn fraction(settings: &Settings, key: &'static str, default: f64) -> Result<f64, ConfigError> {
    let Some(setting) = settings.get(key) else { return Ok(default) };
    let number = setting.value.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| bad_value(key, setting, "a number from 0 to 1".to_owned()))
}
