//! The pace at which containers and znodes with a time to live are removed.

use std::collections::VecDeque;
use std::time::Duration;

use crate::config;
use crate::engine::NodeId;
use crate::engine::decide::reaper::due;
use crate::engine::decide::request::Chore;
use crate::engine::time::{Monotonic, Now};
use crate::ensemble::Replica;
use crate::server::clock::millis;

/// Candidates that are looked at under one hold, fewer if their paths are long.
const LOOK_AT: usize = 256;

/// Rounds over all candidates, and what they found.
#[derive(Debug)]
pub(in crate::server) struct Reaper {
    check_interval_ms: u64,
    /// Milliseconds between two removals.
    pace_ms: u64,
    next_round: Monotonic,
    /// Where the round in progress goes on.
    in_round: Option<Option<NodeId>>,
    found: VecDeque<String>,
    last_removal: Monotonic,
}

impl Reaper {
    /// The first round begins one interval after `now`.
    pub(in crate::server) fn new(config: &config::Containers, now: Monotonic) -> Self {
        let check_interval_ms = millis(config.check_interval);
        Self {
            check_interval_ms,
            pace_ms: 60_000 / u64::from(config.max_per_minute.clamp(1, 60_000)),
            next_round: now.plus(check_interval_ms),
            in_round: None,
            found: VecDeque::new(),
            last_removal: now,
        }
    }

    /// What is to be removed now.
    pub(in crate::server) fn chores(&mut self, replica: &Replica, now: Now) -> Vec<Chore> {
        if self.in_round.is_none() && self.found.is_empty() && now.monotonic >= self.next_round {
            self.in_round = Some(None);
        }
        if self.found.is_empty()
            && let Some(after) = self.in_round
        {
            let (paths, next) = due(&replica.shared(), after, LOOK_AT, now.wall);
            self.found.extend(paths);
            self.in_round = next.map(Some);
            if next.is_none() {
                self.next_round = now.monotonic.plus(self.check_interval_ms);
            }
        }
        let allowed = now.monotonic.since(self.last_removal) / self.pace_ms.max(1);
        let count = self.found.len().min(usize::try_from(allowed).unwrap_or(usize::MAX));
        if count > 0 {
            self.last_removal = now.monotonic;
        }
        self.found.drain(..count).map(Chore::Reap).collect()
    }

    /// How long there is nothing to do.
    pub(in crate::server) fn patience(&self, now: Monotonic) -> Duration {
        let ms = if !self.found.is_empty() {
            self.pace_ms
        } else if self.in_round.is_some() {
            0
        } else {
            self.next_round.since(now)
        };
        Duration::from_millis(ms)
    }
}
