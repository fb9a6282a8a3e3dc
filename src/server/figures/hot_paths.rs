//! The paths that clients asked for most of late, from samples, in bounded memory.

use std::collections::HashMap;

use jute::protocol::Request;
use parking_lot::Mutex;

use crate::engine::effect::Effect;
use crate::engine::time::Monotonic;

/// How long a slot collects: what is shown is of one or two of them.
const SLOT_MS: u64 = 10_000;
/// Paths that a slot may have. Where one more comes, those go that were asked for no more than half
/// of them were.
const PATHS_MAX: usize = 1024;
/// Bytes of a path. A longer one counts for the nearest ancestor that is not.
const PATH_MAX: usize = 256;

/// Requests for a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::server) struct Requests {
    pub(in crate::server) reads: u64,
    pub(in crate::server) writes: u64,
}

impl Requests {
    const fn all(self) -> u64 {
        self.reads.saturating_add(self.writes)
    }
}

type Slot = HashMap<Box<str>, Requests>;

#[derive(Debug, Default)]
struct Slots {
    began: Monotonic,
    now: Slot,
    before: Slot,
    before_ms: u64,
}

/// What was asked for of late.
#[derive(Debug, Default)]
pub(in crate::server) struct HotPaths(Mutex<Slots>);

impl HotPaths {
    /// Counts `times` requests, of which the sample is one.
    pub(in crate::server) fn count(&self, sample: &Sample, times: u32, now: Monotonic) {
        let mut slots = self.0.lock();
        slots.turn(now);
        let requests = slots.place_of(&sample.path);
        let count = if sample.writes { &mut requests.writes } else { &mut requests.reads };
        *count = count.saturating_add(times.into());
    }

    /// The `most` that were asked for most, and of how many milliseconds that is.
    pub(in crate::server) fn hottest(
        &self,
        most: usize,
        now: Monotonic,
    ) -> (Vec<(String, Requests)>, u64) {
        let mut slots = self.0.lock();
        slots.turn(now);
        let mut all: HashMap<&str, Requests> = HashMap::new();
        for (path, requests) in slots.now.iter().chain(&slots.before) {
            let sum = all.entry(path).or_default();
            sum.reads = sum.reads.saturating_add(requests.reads);
            sum.writes = sum.writes.saturating_add(requests.writes);
        }
        let mut all: Vec<(&str, Requests)> = all.into_iter().collect();
        all.sort_unstable_by_key(|&(path, requests)| (std::cmp::Reverse(requests.all()), path));
        all.truncate(most);
        let all = all.into_iter().map(|(path, requests)| (path.to_owned(), requests)).collect();
        (all, slots.before_ms.saturating_add(now.since(slots.began)))
    }
}

impl Slots {
    /// Begins another slot where it is time.
    fn turn(&mut self, now: Monotonic) {
        let elapsed = now.since(self.began);
        if elapsed < SLOT_MS {
            return;
        }
        self.before = std::mem::take(&mut self.now);
        // Before the first request nothing was collected.
        self.before_ms = if self.before.is_empty() { 0 } else { elapsed };
        self.began = now;
    }

    fn place_of(&mut self, path: &str) -> &mut Requests {
        if self.now.len() >= PATHS_MAX && !self.now.contains_key(path) {
            let mut counts: Vec<u64> = self.now.values().map(|requests| requests.all()).collect();
            let middle = counts.len() / 2;
            let median = *counts.select_nth_unstable(middle).1;
            self.now.retain(|_, requests| requests.all() > median);
        }
        self.now.entry(path.into()).or_default()
    }
}

/// One request's path.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::server) struct Sample {
    path: String,
    writes: bool,
}

impl Sample {
    /// `None` for what is about no znode. A multi is counted for its first one.
    pub(in crate::server) fn of(request: &Request<'_>) -> Option<Self> {
        // Neither of them is about the znode at the path that it has.
        if matches!(request, Request::Sync(_) | Request::GetEphemerals(_)) {
            return None;
        }
        let (path, writes) = (request.path()?, Effect::of(request) == Effect::Changes);
        Some(Self { path: kept(path).to_owned(), writes })
    }
}

/// What is kept of a path.
fn kept(path: &str) -> &str {
    if path.len() <= PATH_MAX {
        return path;
    }
    let start = path.as_bytes().iter().take(PATH_MAX + 1);
    match start.enumerate().rfind(|(_, byte)| **byte == b'/') {
        None | Some((0, _)) => "/",
        Some((end, _)) => path.get(..end).unwrap_or_default(),
    }
}

/// Which requests of a connection are samples: of each batch that it sends at most one, at a place
/// left to chance among as many as batches had lately. It stands for that many; what a batch has
/// beyond them is not counted.
#[derive(Debug)]
pub(in crate::server) struct Sampler {
    /// Requests of this batch so far.
    taken: u32,
    at: u32,
    places: u32,
    state: u32,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { taken: 0, at: 0, places: 1, state: 0 }
    }
}

impl Sampler {
    /// A batch begins.
    pub(in crate::server) fn begin(&mut self) {
        if self.taken == 0 {
            return;
        }
        // Batches that became small bring it down within some tens of them.
        self.places = self.taken.max(self.places - self.places.div_ceil(8)).max(1);
        // A linear congruence: places need not be unpredictable, only not in step with what clients
        // repeat.
        self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.at = (self.state >> 16) % self.places;
        self.taken = 0;
    }

    /// Whether the next request is the sample.
    pub(in crate::server) const fn is_due(&self) -> bool {
        self.taken == self.at
    }

    /// One more request was taken. Gives how many it stands for, should it be the sample.
    pub(in crate::server) const fn take(&mut self) -> u32 {
        self.taken += 1;
        self.places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(path: &str, writes: bool) -> Sample {
        Sample { path: path.to_owned(), writes }
    }

    fn reads(reads: u64) -> Requests {
        Requests { reads, writes: 0 }
    }

    #[test]
    fn the_hottest_of_the_last_two_slots_come_first() {
        let paths = HotPaths::default();
        let at = |ms| Monotonic(1_000_000 + ms);
        paths.count(&sample("/old", false), 1000, at(0));
        paths.count(&sample("/a", false), 3, at(SLOT_MS));
        paths.count(&sample("/b", true), 5, at(SLOT_MS));
        paths.count(&sample("/a", false), 4, at(2 * SLOT_MS + 500));
        let b = ("/b".to_owned(), Requests { reads: 0, writes: 5 });
        let a = ("/a".to_owned(), reads(7));
        let now = at(2 * SLOT_MS + 700);
        assert_eq!(paths.hottest(9, now), (vec![a.clone(), b], SLOT_MS + 700));
        assert_eq!(paths.hottest(1, now).0, [a]);
    }

    #[test]
    fn before_the_first_request_there_was_no_time() {
        let paths = HotPaths::default();
        let begin = 7 * SLOT_MS;
        paths.count(&sample("/a", false), 1, Monotonic(begin));
        assert_eq!(
            paths.hottest(9, Monotonic(begin + 250)),
            (vec![("/a".to_owned(), reads(1))], 250)
        );
        // The second slot is empty, and the third one knows of no other.
        let silent = Monotonic(begin + 3 * SLOT_MS);
        assert_eq!(paths.hottest(9, silent).1, 3 * SLOT_MS);
        assert_eq!(paths.hottest(9, Monotonic(begin + 5 * SLOT_MS)).0, []);
    }

    #[test]
    fn what_is_hot_stays_among_more_paths_than_there_is_room_for() {
        let paths = HotPaths::default();
        for number in 0..20 * PATHS_MAX {
            paths.count(&sample(&format!("/cold/{number}"), false), 1, Monotonic(5));
            paths.count(&sample("/hot", true), 1, Monotonic(5));
        }
        assert!(paths.0.lock().now.len() <= PATHS_MAX);
        let hot = Requests { reads: 0, writes: 20 * PATHS_MAX as u64 };
        assert_eq!(paths.hottest(1, Monotonic(5)).0, [("/hot".to_owned(), hot)]);
    }

    #[test]
    fn a_long_path_counts_for_an_ancestor() {
        let name = "n".repeat(100);
        for (path, what) in [
            (format!("/{name}"), format!("/{name}")),
            (format!("/{name}/{name}/{name}/{name}"), format!("/{name}/{name}")),
            (format!("/{}", "ö".repeat(200)), "/".to_owned()),
            (format!("/{}", "x".repeat(PATH_MAX - 1)), format!("/{}", "x".repeat(PATH_MAX - 1))),
            (format!("/{}/y", "x".repeat(PATH_MAX - 1)), format!("/{}", "x".repeat(PATH_MAX - 1))),
        ] {
            assert_eq!(kept(&path), what);
        }
    }

    /// A client that repeats four requests, in batches of every size and of many.
    #[test]
    fn samples_stand_for_all_requests_whatever_the_batches() {
        for size in 0..40_usize {
            let mut sampler = Sampler::default();
            let mut counted = [0_u64; 4];
            let mut all = 0;
            for number in 0.. {
                // The first of the sizes is for a mixture.
                let batch = if size == 0 { 1 + number * number % 17 } else { size };
                sampler.begin();
                for _ in 0..batch {
                    let is_sample = sampler.is_due();
                    let times = sampler.take();
                    if is_sample {
                        counted[all % 4] += u64::from(times);
                    }
                    all += 1;
                }
                if all > 200_000 {
                    break;
                }
            }
            let each = all as u64 / 4;
            for count in counted {
                let most = if size == 0 { each / 5 } else { each / 10 };
                assert!(count.abs_diff(each) < most, "{size}: {counted:?} of {all}");
            }
        }
    }
}
