//! How many sessions are asked for: a bucket of tokens, and in front of it a chance to be turned
//! away.
//!
//! The bucket alone is unfair to whoever always comes late in a burst. With a freeze time, the
//! emptier it is found the more of all are turned away by lot, until those that are let through
//! find tokens (`BlueThrottle`).

use parking_lot::Mutex;

use crate::config::{self, SessionWeights};
use crate::engine::time::Monotonic;
use crate::planted;

/// What a connect request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Wanted {
    /// A new session of all servers.
    Global,
    /// A new session of this server only.
    Local,
    /// A session that there is.
    Renewed,
}

/// The throttle; it lets everybody through where it is off.
#[derive(Debug)]
pub(in crate::server) struct ConnectionThrottle(Option<Mutex<Throttle>>);

impl ConnectionThrottle {
    pub(in crate::server) fn new(
        config: Option<config::ConnectionThrottle>,
        now: Monotonic,
    ) -> Self {
        let config = config.filter(|_| !planted::is("connection-throttle-off"));
        Self(config.map(|config| Mutex::new(Throttle::new(config, now))))
    }

    /// Whether a session may be asked for now. If so, the tokens that the bucket then lacks.
    pub(in crate::server) fn take(&self, wanted: Wanted, now: Monotonic) -> Option<u32> {
        let Some(throttle) = &self.0 else { return Some(0) };
        let mut throttle = throttle.lock();
        throttle.take(wanted, now, chance).then(|| throttle.deficit())
    }

    /// The part of connect requests that is turned away by lot.
    pub(in crate::server) fn drop_probability(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |throttle| throttle.lock().drop_probability)
    }
}

/// From 0 up to 1. Without randomness nobody is turned away by lot.
#[expect(clippy::cast_precision_loss, reason = "53 bits are what a double has")]
fn chance() -> f64 {
    getrandom::u64().map_or(1.0, |bits| (bits >> 11) as f64 / (1_u64 << 53) as f64)
}

#[derive(Debug)]
struct Throttle {
    config: config::ConnectionThrottle,
    tokens: u32,
    filled: Monotonic,
    drop_probability: f64,
    /// When that changed last, or could have.
    frozen: Monotonic,
}

impl Throttle {
    const fn new(config: config::ConnectionThrottle, now: Monotonic) -> Self {
        let tokens = config.tokens.get();
        Self { config, tokens, filled: now, drop_probability: 0.0, frozen: now }
    }

    const fn deficit(&self) -> u32 {
        self.config.tokens.get() - self.tokens
    }

    /// `chance` is called where the lot decides.
    fn take(&mut self, wanted: Wanted, now: Monotonic, chance: impl FnOnce() -> f64) -> bool {
        self.fill(now);
        if let Some(freeze_ms) = self.config.freeze_ms {
            self.adapt(now, freeze_ms);
            if chance() < self.drop_probability {
                return false;
            }
        }
        let need = match (self.config.weights, wanted) {
            (None, _) => 1,
            (Some(SessionWeights { global, .. }), Wanted::Global) => global,
            (Some(SessionWeights { local, .. }), Wanted::Local) => local,
            (Some(SessionWeights { renewed, .. }), Wanted::Renewed) => renewed,
        };
        match self.tokens.checked_sub(need) {
            Some(left) => self.tokens = left,
            None => return false,
        }
        true
    }

    /// What a part of the fill time would give is lost, as in ZooKeeper.
    fn fill(&mut self, now: Monotonic) {
        let config = &self.config;
        let (passed, fill_ms) = (now.since(self.filled), u64::from(config.fill_ms.get()));
        if passed > fill_ms {
            let more = passed.saturating_mul(config.fill_count.into()) / fill_ms;
            let more = u32::try_from(more).unwrap_or(u32::MAX);
            self.tokens = self.tokens.saturating_add(more).min(config.tokens.get());
            self.filled = now;
        }
    }

    fn adapt(&mut self, now: Monotonic, freeze_ms: u32) {
        if now.since(self.frozen) <= freeze_ms.into() {
            return;
        }
        self.frozen = now;
        let config = &self.config;
        let few = (f64::from(config.tokens.get()) * config.decrease_ratio).round();
        let drop = self.drop_probability;
        if self.tokens == 0 && drop < 1.0 {
            self.drop_probability = (drop + config.drop_increase).min(1.0);
        } else if f64::from(self.deficit()) <= few && drop > 0.0 {
            self.drop_probability = (drop - config.drop_decrease).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn positive(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    fn config(tokens: u32, fill_ms: u32, fill_count: u32) -> config::ConnectionThrottle {
        config::ConnectionThrottle {
            tokens: positive(tokens),
            fill_ms: positive(fill_ms),
            fill_count,
            freeze_ms: None,
            drop_increase: 0.02,
            drop_decrease: 0.002,
            decrease_ratio: 0.0,
            weights: None,
        }
    }

    /// Who of `many` gets through at that time, if nobody is turned away by lot.
    fn pass(throttle: &mut Throttle, at: u64, many: usize) -> usize {
        let lots = (0..many).filter(|_| throttle.take(Wanted::Global, Monotonic(at), || 1.0));
        lots.count()
    }

    #[test]
    fn the_bucket_fills_by_whole_tokens_and_not_beyond_its_size() {
        let mut throttle = Throttle::new(config(4, 10, 3), Monotonic(100));
        assert_eq!(pass(&mut throttle, 100, 9), 4);
        // More than the fill time has to pass.
        assert_eq!(pass(&mut throttle, 110, 9), 0);
        // 11 ms are 3.3 tokens.
        assert_eq!(pass(&mut throttle, 111, 9), 3);
        assert_eq!(throttle.deficit(), 4);
        assert_eq!(pass(&mut throttle, 121, 9), 0);
        assert_eq!(pass(&mut throttle, 10_000, 9), 4);
        assert_eq!(pass(&mut throttle, u64::MAX, 9), 4);
    }

    #[test]
    fn a_bucket_that_does_not_fill_stays_empty() {
        let mut throttle = Throttle::new(config(2, 1, 0), Monotonic(0));
        assert_eq!(pass(&mut throttle, 5, 3), 2);
        assert_eq!(pass(&mut throttle, 1_000_000, 3), 0);
    }

    #[test]
    fn sessions_cost_what_they_weigh() {
        let weights = Some(SessionWeights { global: 3, local: 1, renewed: 2 });
        let config = config::ConnectionThrottle { weights, ..config(6, 1, 0) };
        let mut throttle = Throttle::new(config, Monotonic(0));
        let mut take = |wanted| throttle.take(wanted, Monotonic(0), || 1.0);
        assert!(take(Wanted::Global));
        assert!(take(Wanted::Renewed));
        // One token is left.
        assert!(!take(Wanted::Renewed));
        assert!(!take(Wanted::Global));
        assert!(take(Wanted::Local));
        assert!(!take(Wanted::Local));
    }

    #[test]
    fn an_empty_bucket_makes_the_lot_harder_and_a_full_one_easier() {
        let config = config::ConnectionThrottle {
            freeze_ms: Some(10),
            drop_increase: 0.5,
            drop_decrease: 0.25,
            decrease_ratio: 0.5,
            ..config(2, 1000, 2)
        };
        let mut throttle = Throttle::new(config, Monotonic(0));
        assert_eq!(pass(&mut throttle, 0, 3), 2);
        // Not before the freeze time has passed, and then once.
        assert_eq!(pass(&mut throttle, 10, 2), 0);
        assert_eq!(throttle.drop_probability, 0.0);
        assert_eq!(pass(&mut throttle, 11, 5), 0);
        assert_eq!(throttle.drop_probability, 0.5);
        pass(&mut throttle, 22, 5);
        pass(&mut throttle, 33, 5);
        assert_eq!(throttle.drop_probability, 1.0);
        // The bucket is full again: whoever loses takes no token.
        let mut lose = |at| throttle.take(Wanted::Global, Monotonic(at), || 0.6);
        assert!(!lose(1044));
        assert_eq!((throttle.drop_probability, throttle.deficit()), (0.75, 0));
        // One of two tokens lacks, which is half.
        assert!(throttle.take(Wanted::Global, Monotonic(1045), || 0.75));
        assert!(!throttle.take(Wanted::Global, Monotonic(1056), || 0.4));
        assert_eq!(throttle.drop_probability, 0.5);
        assert!(throttle.take(Wanted::Global, Monotonic(1057), || 0.5));
    }

    #[test]
    fn without_a_configuration_everybody_gets_through() {
        let throttle = ConnectionThrottle::new(None, Monotonic(0));
        assert_eq!(throttle.take(Wanted::Global, Monotonic(0)), Some(0));
        assert_eq!(throttle.drop_probability(), 0.0);
    }

    #[test]
    fn a_chance_is_below_one() {
        for _ in 0..1000 {
            assert!((0.0..1.0).contains(&chance()));
        }
    }
}
