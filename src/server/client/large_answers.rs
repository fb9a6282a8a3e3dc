//! Answers that ZooKeeper's Java client does not take by default, or may soon not take: counted,
//! and told once for each path.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::SocketAddr;

use parking_lot::Mutex;

use crate::engine::time::Monotonic;
use crate::message::MessageId;
use crate::server::figures::series::{Counter, Series};

/// `jute.maxbuffer` of a Java client where nobody sets it: a longer answer ends its connection,
/// again and again.
const CLIENTS_TAKE: usize = 1_048_575;
const HALF: usize = CLIENTS_TAKE / 2;
/// Paths that are told of in a day, of either kind.
const PATHS_MAX: usize = 64;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Which ones were told.
#[derive(Debug, Default)]
pub(super) struct LargeAnswers {
    told: Mutex<[ToldPaths; 2]>,
    hashing: RandomState,
}

/// The paths of a day, by their hashes: each may have a megabyte.
#[derive(Debug, Default)]
struct ToldPaths {
    began: Monotonic,
    paths: HashSet<u64>,
}

impl LargeAnswers {
    /// Looks at the length of an answer, and at nothing else where that is usual.
    #[inline]
    pub(in crate::server) fn look_at<'p>(
        &self,
        len: usize,
        path: impl FnOnce() -> Option<&'p str>,
        client: SocketAddr,
        now: Monotonic,
        series: &Series,
    ) {
        if len > HALF {
            self.count(len, path().unwrap_or("-"), client, now, series);
        }
    }

    #[cold]
    fn count(&self, len: usize, path: &str, client: SocketAddr, now: Monotonic, series: &Series) {
        series.count(Counter::AnswersAboveHalf, 1);
        let is_above = len > CLIENTS_TAKE;
        if is_above {
            series.count(Counter::AnswersAboveAll, 1);
        }
        if !self.is_news(path, is_above, now) {
            return;
        }
        // The address is no field `client`: of those one line a second is written, whatever path it
        // tells of.
        if is_above {
            tracing::warn!(
                id = %MessageId::LARGE_ANSWER,
                path,
                bytes = len,
                address = %client,
                "a response is longer than the {CLIENTS_TAKE} bytes that ZooKeeper clients accept \
                 by default"
            );
        } else {
            tracing::info!(
                id = %MessageId::LARGE_ANSWER,
                path,
                bytes = len,
                address = %client,
                "a response is longer than half of the {CLIENTS_TAKE} bytes that ZooKeeper clients \
                 accept by default"
            );
        }
    }

    /// Whether a path is to be told of.
    fn is_news(&self, path: &str, is_above: bool, now: Monotonic) -> bool {
        let path = self.hashing.hash_one(path);
        let [half, all] = &mut *self.told.lock();
        let told = if is_above { all } else { half };
        if now.since(told.began) >= DAY_MS {
            told.paths.clear();
        }
        if told.paths.is_empty() {
            told.began = now;
        }
        told.paths.len() < PATHS_MAX && told.paths.insert(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_of_once_a_day_and_so_are_not_too_many() {
        let answers = LargeAnswers::default();
        let began = Monotonic(5);
        assert!(answers.is_news("/a", false, began));
        assert!(!answers.is_news("/a", false, began));
        assert!(answers.is_news("/a", true, began), "it has grown");
        let told = (0..10 * PATHS_MAX)
            .filter(|number| answers.is_news(&format!("/{number}"), true, began.plus(1)))
            .count();
        assert_eq!(told, PATHS_MAX - 1);
        assert!(answers.is_news("/b", false, began.plus(1)), "the others have their own room");
        assert!(!answers.is_news("/b", true, began.plus(DAY_MS - 1)));
        assert!(answers.is_news("/b", true, began.plus(DAY_MS)));
        assert!(answers.is_news("/a", true, began.plus(DAY_MS)));
        assert!(!answers.is_news("/a", true, began.plus(DAY_MS + 1)));
        assert!(answers.told.lock().iter().all(|told| told.paths.len() <= PATHS_MAX));
    }
}
