//! The orderer's thread: gives it groups and time, takes snapshots, and tells when sessions expire.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jute::protocol::{Request, SyncRequest};

use super::reaper::Reaper;
use super::restoring::Restoring;
use super::upkeep::{Purges, Wanted};
use crate::engine::decide::expiry::ExpiryPlace;
use crate::engine::decide::request::{Chore, Work};
use crate::engine::decide::sequencer::Sequencer;
use crate::engine::session::SessionId;
use crate::engine::time::{Monotonic, Now};
use crate::ensemble::{
    DiskSpace, EXPIRIES_AT_ONCE, Inquiry, OrderError, Scope, Snapshots, Standalone, Submission,
    stood_still,
};
use crate::message::MessageId;
use crate::server::clock::{Clock, millis};
use crate::server::figures::series::{Counter, Measure};
use crate::server::shared::Server;

/// How long the orderer waits for requests while a snapshot waits for the disk.
const SNAPSHOT_PAUSE: Duration = Duration::from_millis(2);
/// While requests wait, a snapshot gets this share of the orderer's time, as a divisor: a step of
/// its walk is as long as a small group.
const SNAPSHOT_SHARE: u32 = 8;
/// A snapshot at the end is taken only if it is expected within this time.
const LAST_SNAPSHOT_MAX_MS: u64 = 10_000;
/// Why nobody gets a session.
const SHORT_DISK: &str =
    "the disk of the log is all but full: new sessions are refused until it has space again";

/// The snapshots of a standalone server, and the purges after them.
struct Keeping {
    /// When a snapshot on its way has its next turn, if requests wait.
    next_step: Instant,
    purges: Purges,
}

/// Runs the orderer until the queue ends.
///
/// # Errors
/// When the orderer had to stop: the process must end.
pub(in crate::server) fn run(
    server: &Arc<Server>,
    mut standalone: Standalone,
    mut snapshots: Snapshots,
) -> Result<(), OrderError> {
    let mut reaper = Reaper::new(&server.config.containers, server.clock.monotonic());
    let mut last_turn = server.clock.monotonic();
    let mut patience = Duration::ZERO;
    let mut keeping = Keeping { next_step: Instant::now(), purges: Purges::default() };
    let mut restoring = Restoring::default();
    loop {
        let mut batch = server.intake.queue.take(patience);
        restoring.drop_requests_of_before(server, &mut batch.submissions);
        let now = server.clock.now();
        let turn = now.monotonic.since(last_turn);
        let late = stood_still(turn.saturating_sub(millis(patience)));
        last_turn = now.monotonic;
        let mut chores = Vec::new();
        // Those of before come first.
        if late > 0 || !standalone.has_chores() {
            chores = standalone.orphans(now);
            chores.append(&mut due(server, standalone.sequencer(), now, late));
            chores.append(&mut reaper.chores(&server.replica, now));
        }
        see_room(server, standalone.room(now), SHORT_DISK);
        if !chores.is_empty() || !batch.submissions.is_empty() || standalone.has_more() {
            server.group_began.store(now.monotonic.0.max(1), Ordering::Relaxed);
            take(server, &mut batch.submissions, now);
            let report = standalone.run_group(chores, batch.submissions, now)?;
            server.group_began.store(0, Ordering::Relaxed);
            snapshots.count(report.txns, report.bytes);
            refused_for_room(server, report.refused_for_room);
            if let Some(took) = report.sync {
                synced(server, took);
                let series = &server.stats.series;
                series.record(Measure::GroupTxns, report.txns);
                series.count(Counter::TxnsLogged, report.txns);
                let ms = server.clock.monotonic().since(now.monotonic);
                series.record_many(Measure::Propagation, ms, report.txns);
            }
        }
        for inquiry in batch.inquiries {
            match inquiry {
                Inquiry::LogState => dump(server, &mut standalone),
                Inquiry::HandOver => tracing::warn!(
                    id = %MessageId::HAND_OVER_ALONE,
                    "cannot hand over leadership: this is a standalone server"
                ),
                // Whoever asked may have stopped waiting.
                Inquiry::Expiry(scope, from, to) => {
                    let sequencer = (scope == Scope::Global).then(|| standalone.sequencer());
                    let _ = to.try_send(
                        sequencer
                            .map(|its| expiries(|most, each| its.walk_expiry(from, most, each))),
                    );
                }
                Inquiry::Snapshot(asker) => snapshots.ask(asker),
                Inquiry::Replace(database, asker) => restoring.ask(database, asker),
            }
        }
        if batch.is_last && !standalone.has_more() {
            finish(server, &mut standalone, &mut snapshots);
            return Ok(());
        }
        if restoring.restore(server, &mut standalone, &mut snapshots)? {
            let now = server.clock.monotonic();
            reaper = Reaper::new(&server.config.containers, now);
            last_turn = now;
        }
        patience = snapshot(server, &mut standalone, &mut snapshots, now.monotonic, &mut keeping)
            .min(reaper.patience(now.monotonic));
        if standalone.has_more() {
            patience = Duration::ZERO;
        }
    }
}

/// Counts what the orderer takes out of the queue, and refuses what waited for too long.
pub(in crate::server) fn take(server: &Server, submissions: &mut [Submission], now: Now) {
    if submissions.is_empty() {
        return;
    }
    let series = &server.stats.series;
    series.count(Counter::RequestsQueued, submissions.len() as u64);
    series.record(Measure::QueueSize, submissions.len() as u64);
    for Submission { origin, work, .. } in submissions {
        let ms = now.monotonic.since(origin.received);
        series.record(Measure::QueueTime, ms);
        if is_throttled(server.config.throttle.op_wait_ms, ms, work) {
            *work = Work::Throttled;
            series.count(Counter::ThrottledOps, 1);
        }
    }
}

/// Whether a request is refused because it waited (`RequestThrottler.shouldThrottleOp`). Neither a
/// ping nor the end of a session is, nor a sync without a path: that is the server's own.
fn is_throttled(most_ms: Option<NonZeroU32>, waited_ms: u64, work: &Work) -> bool {
    let Work::Request(request) = work else { return false };
    most_ms.is_some_and(|most| waited_ms > most.get().into())
        && !matches!(
            request,
            Request::Ping | Request::CloseSession | Request::Sync(SyncRequest { path: None })
        )
}

/// Sees whether sessions can be opened with so much room for what is decided, and why not.
pub(super) fn see_room(server: &Server, room: DiskSpace, why: &'static str) {
    *server.short_disk.lock() = (!room.takes_sessions()).then_some(why);
}

pub(in crate::server) fn refused_for_room(server: &Server, requests: u64) {
    if requests > 0 {
        server.stats.series.count(Counter::DiskRefused, requests);
    }
}

pub(in crate::server) fn synced(server: &Server, took: Duration) {
    let series = &server.stats.series;
    for measure in [Measure::Fsync, Measure::GroupSync, Measure::GroupFlush] {
        series.record(measure, millis(took));
    }
    if took >= server.config.fsync_warning_threshold {
        series.count(Counter::FsyncsTooLong, 1);
        tracing::warn!(
            id = %MessageId::SLOW_SYNC,
            ms = millis(took),
            "syncing the transaction log took a long time; clients waited for it"
        );
    }
}

/// Sessions that have to be closed. `late` is how long the orderer stood still, in milliseconds:
/// time that nobody's session is charged for.
pub(in crate::server) fn due(
    server: &Server,
    sequencer: &mut Sequencer,
    now: Now,
    late: u64,
) -> Vec<Chore> {
    if late > 0 {
        tracing::warn!(
            id = %MessageId::STOOD_STILL,
            ms = late,
            "the server did not run for a while; session deadlines are extended by the same time"
        );
    }
    let now = now.monotonic;
    if late == 0 && sequencer.next_expiry().is_none_or(|next| next > now) {
        return Vec::new();
    }
    let expired = sequencer.expired(now, late);
    server.stats.series.count(Counter::SessionsExpired, expired.len() as u64);
    tell_expired(&expired, "expiring sessions whose clients were not heard from");
    expired.into_iter().map(Chore::Expire).collect()
}

/// Sessions that are named in one line.
const NAMED_SESSIONS: usize = 8;

/// One line for all that expire together, with the ids of the first few.
pub(super) fn tell_expired(expired: &[SessionId], what: &str) {
    if expired.is_empty() {
        return;
    }
    let named: Vec<String> =
        expired.iter().take(NAMED_SESSIONS).map(SessionId::to_string).collect();
    tracing::info!(count = expired.len(), first = named.join(" "), "{what}");
}

/// Goes on with the snapshot on its way or begins one that is due, and purges. Gives how long there
/// is nothing else to do.
fn snapshot(
    server: &Server,
    standalone: &mut Standalone,
    snapshots: &mut Snapshots,
    now: Monotonic,
    Keeping { next_step, purges }: &mut Keeping,
) -> Duration {
    let replica = Arc::clone(standalone.replica());
    if standalone.log().take_was_removed() {
        snapshots.want();
    }
    if snapshots.is_due(now) || snapshots.is_asked_for() {
        snapshots.begin(&replica, standalone.log(), now);
    }
    let goes_on = advance(server, snapshots, standalone.has_more(), next_step);
    let is_done = snapshots.take_done().is_some();
    if is_done {
        took_snapshot(server, snapshots.last_duration_ms());
    }
    let occasion = (is_done, standalone.has_short_disk());
    purges.turn(server, now, occasion, || Wanted { from: None, is_known: true });
    if goes_on {
        return Duration::ZERO;
    }
    let tick = Duration::from_millis(u64::from(server.config.tick_time_ms));
    let expiry = standalone
        .sequencer()
        .next_expiry()
        .map_or(tick, |next| Duration::from_millis(next.since(now)));
    let patience = expiry.min(tick).max(Duration::from_millis(1));
    if snapshots.is_writing() { patience.min(SNAPSHOT_PAUSE) } else { patience }
}

/// Goes on with the snapshot on its way, unless it had its share of the time and requests wait:
/// `has_more` of those that were taken, or any in the queue. Whether there is more of it to do.
pub(in crate::server) fn advance(
    server: &Server,
    snapshots: &mut Snapshots,
    has_more: bool,
    next_step: &mut Instant,
) -> bool {
    let began = Instant::now();
    let requests_wait = has_more || !server.intake.queue.is_empty();
    if snapshots.is_writing() && began < *next_step && requests_wait {
        return true;
    }
    let goes_on = snapshots.advance(&server.replica, server.clock.monotonic());
    match snapshots.take_failed() {
        0 => {}
        failed => server.stats.series.count(Counter::SnapshotsFailed, failed),
    }
    *next_step = began + began.elapsed() * SNAPSHOT_SHARE;
    goes_on
}

pub(super) fn took_snapshot(server: &Server, ms: u64) {
    server.stats.series.record(Measure::Snapshot, ms);
}

/// The end: what is on its way is finished, and a last snapshot makes the next start quick.
fn finish(server: &Server, standalone: &mut Standalone, snapshots: &mut Snapshots) {
    let replica = Arc::clone(standalone.replica());
    let deadline = Instant::now() + Duration::from_millis(LAST_SNAPSHOT_MAX_MS);
    let wait = |snapshots: &mut Snapshots| {
        while snapshots.is_writing() && Instant::now() < deadline {
            if !snapshots.advance(&replica, server.clock.monotonic()) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    wait(snapshots);
    let is_worth_it = snapshots.txns_behind() > 0
        && !snapshots.is_writing()
        && snapshots.last_duration_ms() < LAST_SNAPSHOT_MAX_MS;
    if is_worth_it {
        snapshots.begin(&replica, standalone.log(), server.clock.monotonic());
        wait(snapshots);
    }
    if let Err(error) = standalone.log().rest_on_snapshot(&server.directory) {
        tracing::info!(%error, "ferrokeeper.logged could not be updated: the next start needs the \
            log, although the last snapshot contains everything in it");
    }
}

/// What a walk over sessions comes by at once, and where it goes on.
pub(in crate::server) fn expiries(
    walk: impl FnOnce(usize, &mut dyn FnMut(Monotonic, SessionId)) -> Option<ExpiryPlace>,
) -> (Vec<(Monotonic, SessionId)>, Option<ExpiryPlace>) {
    let mut all = Vec::new();
    let next = walk(EXPIRIES_AT_ONCE, &mut |end, session| all.push((end, session)));
    (all, next)
}

/// What SIGQUIT asks for.
fn dump(server: &Server, standalone: &mut Standalone) {
    let sessions = standalone.sequencer().sessions_count();
    let replica = Arc::clone(standalone.replica());
    let database = replica.shared();
    let tree = database.tree();
    tracing::info!(
        zxid = %database.last_zxid(),
        znodes = tree.count(),
        data_bytes = tree.data_size(),
        ephemerals = tree.ephemerals_count(),
        sessions,
        watches = database.watches().lock().count(),
        connections = server.connections.count(),
        outstanding = server.outstanding(),
        waiting = server.intake.queue.len(),
        log_zxid = %crate::engine::zxid::Zxid(standalone.log().durable_zxid()),
        wall_ms = Clock::wall().0,
        "state"
    );
    drop(database);
    server.connections.each(|connection| {
        let counters = *connection.counters();
        tracing::info!(
            peer = %connection.peer(),
            session = %connection.session_id(),
            in_flight = connection.in_flight(),
            unsent_bytes = connection.outbox().len(),
            received = counters.received,
            sent = counters.sent,
            "connection"
        );
    });
}

#[cfg(test)]
mod tests {
    use jute::protocol::WatchRequest;

    use super::*;
    use crate::message::told::lines_told;

    #[test]
    fn sessions_that_expire_together_are_one_line() {
        let lines = [0, 1, 256].map(|count| {
            let expired: Vec<SessionId> = (0..count).map(SessionId).collect();
            lines_told(|| tell_expired(&expired, "expiring sessions")).1
        });
        assert_eq!(lines, [0, 1, 1]);
    }

    #[test]
    fn only_what_waited_for_longer_is_throttled() {
        let get = Work::Request(Request::GetData(WatchRequest { path: "/".into(), watch: false }));
        let most = NonZeroU32::new(50);
        assert!(is_throttled(most, 51, &get));
        assert!(!is_throttled(most, 50, &get));
        assert!(!is_throttled(None, u64::MAX, &get));
    }

    #[test]
    fn sessions_begin_live_and_end_however_long_they_waited() {
        let sync = |path| Work::Request(Request::Sync(SyncRequest { path }));
        let most = NonZeroU32::new(1);
        for work in [
            Work::Open { timeout_ms: 1 },
            Work::Attach { timeout_ms: 1 },
            Work::Request(Request::Ping),
            Work::Request(Request::CloseSession),
            sync(None),
        ] {
            assert!(!is_throttled(most, 1000, &work), "{work:?}");
        }
        assert!(is_throttled(most, 1000, &sync(Some("/".into()))));
    }
}
