//! What goes on beside the requests: spare log segments, the purge of old files, and the warning
//! when the orderer hangs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::config::Purge;
use crate::engine::time::Monotonic;
use crate::message::MessageId;
use crate::server::clock::millis;
use crate::server::shared::Server;
use crate::storage::{self, FillStep, SpareFiller};

/// Between two slices of a spare, which goes to the disk in small ones: the log's sync queues
/// after what is under way.
const BETWEEN_SLICES: Duration = Duration::from_millis(3);
/// The same while there is another spare: a file that grows costs the file system a commit a slice.
const BETWEEN_SLICES_AT_LEISURE: Duration = Duration::from_millis(10);
/// Between a spare that failed and the next one.
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(10);
/// Between two log lines about ZooKeeper's files that are kept until the seal.
const BETWEEN_WORDS_MS: u64 = 24 * 3600 * 1000;
/// Between two looks at whether a spare is wanted.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// Fills spares until the process ends. A failure is logged once until a spare succeeds: the log
/// continues without spares.
pub(in crate::server) fn fill_spares(mut filler: SpareFiller) {
    let fill = move || {
        let mut has_failed = false;
        loop {
            match filler.step() {
                Ok(FillStep::Filled(_)) if filler.is_urgent() => thread::sleep(BETWEEN_SLICES),
                Ok(FillStep::Filled(_)) => thread::sleep(BETWEEN_SLICES_AT_LEISURE),
                Ok(FillStep::Ready | FillStep::Idle) => {
                    has_failed = false;
                    thread::sleep(BETWEEN_LOOKS);
                }
                Err(error) => {
                    if !has_failed {
                        tracing::error!(
                            id = %MessageId::SPARE_FAILED,
                            %error,
                            "cannot prepare a log segment in advance; still trying"
                        );
                    }
                    has_failed = true;
                    thread::sleep(BETWEEN_ATTEMPTS);
                }
            }
        }
    };
    if let Err(error) = thread::Builder::new().name("spares".to_owned()).spawn(fill) {
        tracing::error!(id = %MessageId::NO_SPARES, %error, "no log segments are prepared in \
            advance");
    }
}

/// Tells while the orderer hangs, most likely in a sync: its own word comes only when that has
/// ended.
pub(in crate::server) async fn watch_for_hanging(server: Arc<Server>) {
    let patience = millis(server.config.fsync_warning_threshold).max(100);
    let mut looks = tokio::time::interval(Duration::from_millis(patience));
    let mut hanging = Hanging { patience, told: 0 };
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            () = server.ending.cancelled() => return,
        }
        let began = server.group_began.load(Ordering::Relaxed);
        if let Some(ms) = hanging.look(began, server.clock.monotonic()) {
            tracing::warn!(
                id = %MessageId::GROUP_HANGS,
                ms,
                "a group of requests has not finished yet; most likely the disk of the log hangs"
            );
        }
    }
}

/// When to tell of a group that does not end: twice as late each time, so that a disk that is gone
/// fills no log.
#[derive(Debug)]
struct Hanging {
    patience: u64,
    /// How long it had taken when it was told last.
    told: u64,
}

impl Hanging {
    /// How long the group has taken that began then, in milliseconds, if that is to be told. 0 is
    /// no group.
    fn look(&mut self, began: u64, now: Monotonic) -> Option<u64> {
        let ms = now.0.saturating_sub(began);
        if began == 0 || ms < self.patience {
            self.told = 0;
            return None;
        }
        let is_due = ms >= self.told.saturating_mul(2);
        is_due.then(|| {
            self.told = ms;
            ms
        })
    }
}

/// Purges of old snapshots and logs, one at a time.
#[derive(Debug, Default)]
pub(super) struct Purges {
    under_way: Option<JoinHandle<()>>,
    /// When one is due, snapshot or not; at a start at once.
    due: Monotonic,
    /// A snapshot was completed since the last one began, which may not have seen it.
    has_snapshot: bool,
}

/// What others still take of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// From which transaction on.
    pub(super) from: Option<i64>,
    /// Whether that is all, so that a purge need not wait for a snapshot.
    pub(super) is_known: bool,
}

/// Why a purge begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Interval,
    Snapshot,
}

impl Purges {
    /// What a turn of the orderer does for them, `now`: hears whether one has ended, and begins one
    /// that is due. Whether one has ended.
    pub(super) fn turn(
        &mut self,
        server: &Server,
        now: Monotonic,
        (took_snapshot, has_short_disk): (bool, bool),
        wanted: impl FnOnce() -> Wanted,
    ) -> bool {
        let has_ended = self.take_ended();
        self.has_snapshot |= took_snapshot;
        let purge = server.config.purge;
        if let (Purge::Every(every), Some(reason)) =
            (purge, self.reason(purge, now, has_short_disk))
        {
            let Wanted { from, is_known } = wanted();
            if is_known || reason == Reason::Snapshot {
                self.has_snapshot = false;
                self.due = now.plus(millis(every));
                self.under_way = purge_once(server, now, from);
            }
        }
        has_ended
    }

    /// Why one is to begin now, if any is.
    fn reason(&self, purge: Purge, now: Monotonic, has_short_disk: bool) -> Option<Reason> {
        if purge == Purge::Never || self.under_way.is_some() {
            None
        } else if self.has_snapshot && (has_short_disk || !purge.is_seldom()) {
            Some(Reason::Snapshot)
        } else {
            (now >= self.due).then_some(Reason::Interval)
        }
    }

    /// Whether one has ended since the last call.
    fn take_ended(&mut self) -> bool {
        let ended = self.under_way.take_if(|purge| purge.is_finished());
        let Some(ended) = ended.map(JoinHandle::join) else { return false };
        if ended.is_err() {
            tracing::error!(id = %MessageId::PURGE_ENDED, "the purge ended unexpectedly");
        }
        true
    }
}

/// Purges once, on a thread of its own: which snapshots are whole shows only when they are read.
fn purge_once(server: &Server, now: Monotonic, wanted: Option<i64>) -> Option<JoinHandle<()>> {
    let purge = removing_old(server, now, wanted);
    let started = thread::Builder::new().name("purge".to_owned()).spawn(purge);
    let started = started.inspect_err(|error| {
        tracing::error!(id = %MessageId::PURGE_NOT_STARTED, %error, "the thread that purges cannot \
            be started: old snapshots and logs are not purged");
    });
    started.ok()
}

/// Removes what is old, and tells what waits for the seal.
fn removing_old(
    server: &Server,
    now: Monotonic,
    wanted: Option<i64>,
) -> impl FnOnce() + Send + 'static {
    let (directory, stats) = (Arc::clone(&server.directory), Arc::clone(&server.stats));
    let keep = server.config.snap_retain_count as usize;
    move || match storage::purge_behind(&directory, keep, wanted) {
        Ok(purged) => {
            if purged.snapshots > 0 || purged.logs > 0 {
                tracing::info!(
                    snapshots = purged.snapshots,
                    logs = purged.logs,
                    "purged old snapshots and logs"
                );
            }
            if stats.unsealed.set(purged.unsealed_bytes, now, BETWEEN_WORDS_MS) {
                tracing::info!(
                    bytes = purged.unsealed_bytes,
                    "old files that ZooKeeper wrote are kept, so that it is possible to go back, \
                     until `ferrokeeper data seal`"
                );
            }
        }
        Err(error) => tracing::error!(
            id = %MessageId::PURGE_FAILED,
            %error,
            "cannot purge old snapshots and logs"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::figures::stats::Unsealed;

    const HOUR: u64 = 3_600_000;

    fn every(hours: u64) -> Purge {
        Purge::Every(Duration::from_secs(3600 * hours))
    }

    #[test]
    fn a_snapshot_that_ends_during_a_purge_is_not_missed() {
        let mut purges = Purges { has_snapshot: true, due: Monotonic(HOUR), ..Purges::default() };
        let (end, ends) = std::sync::mpsc::channel::<()>();
        purges.under_way = Some(thread::spawn(move || {
            let _ = ends.recv();
        }));
        assert_eq!(purges.reason(every(1), Monotonic(9), false), None, "one is under way");
        assert_eq!(purges.reason(every(1), Monotonic(HOUR), false), None, "one is under way");
        drop(end);
        while !purges.take_ended() {
            thread::yield_now();
        }
        assert_eq!(purges.reason(every(1), Monotonic(9), false), Some(Reason::Snapshot));
    }

    #[test]
    fn a_purge_comes_at_the_start_each_interval_and_after_a_snapshot() {
        let at_start = Purges::default();
        let without = Purges { due: Monotonic(HOUR), ..Purges::default() };
        let with = Purges { has_snapshot: true, due: Monotonic(HOUR), ..Purges::default() };
        assert_eq!(at_start.reason(every(1), Monotonic(0), false), Some(Reason::Interval));
        assert_eq!(without.reason(every(1), Monotonic(HOUR - 1), false), None);
        assert_eq!(without.reason(every(1), Monotonic(HOUR - 1), true), None);
        assert_eq!(without.reason(every(1), Monotonic(HOUR), false), Some(Reason::Interval));
        assert_eq!(with.reason(every(1), Monotonic(1), false), Some(Reason::Snapshot));
        assert_eq!(with.reason(Purge::Never, Monotonic(HOUR), true), None);
    }

    /// ZooKeeper's purge comes at the start and each interval, and at no other time.
    #[test]
    fn who_wants_fewer_purges_gets_one_between_only_on_a_short_disk() {
        let purges = Purges { has_snapshot: true, due: Monotonic(24 * HOUR), ..Purges::default() };
        assert_eq!(purges.reason(every(24), Monotonic(23 * HOUR), false), None);
        assert_eq!(purges.reason(every(24), Monotonic(1), true), Some(Reason::Snapshot));
        assert_eq!(purges.reason(every(24), Monotonic(24 * HOUR), false), Some(Reason::Interval));
    }

    #[test]
    fn a_group_that_does_not_end_is_told_at_longer_and_longer_intervals() {
        let mut hanging = Hanging { patience: 1000, told: 0 };
        let mut told = |began, now: &[u64]| -> Vec<u64> {
            now.iter().filter_map(|now| hanging.look(began, Monotonic(*now))).collect()
        };
        assert_eq!(told(0, &[5, 500_000]), [0; 0]);
        let looks: Vec<u64> = (1..20).map(|look| 10_000 + 1000 * look).collect();
        assert_eq!(told(10_000, &looks), [1000, 2000, 4000, 8000, 16_000]);
        // The next one is another.
        assert_eq!(told(30_000, &[30_500, 31_500]), [1500]);
        assert_eq!(told(0, &[32_000]), [0; 0]);
        assert_eq!(told(40_000, &[41_000]), [1000]);
    }

    #[test]
    fn what_waits_for_the_seal_is_told_once_a_day() {
        let unsealed = Unsealed::default();
        let mut told = Vec::new();
        for hour in 0..60 {
            // From the fifth on something waits.
            let bytes = if hour < 5 { 0 } else { hour };
            if unsealed.set(bytes, Monotonic(hour * HOUR + 7), BETWEEN_WORDS_MS) {
                told.push(hour);
            }
            assert_eq!(unsealed.bytes.load(Ordering::Relaxed), bytes);
        }
        assert_eq!(told, [5, 29, 53]);
    }
}
