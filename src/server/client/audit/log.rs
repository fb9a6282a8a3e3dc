//! The audit log itself: facts wait in a queue for the thread that makes lines of them and writes
//! them.
//!
//! Whoever has changed something adds the facts and gets the number of them; an answer leaves its
//! outbox when they are written up to its number, whatever comes after. So a connection waits for
//! the log, and neither the orderer nor an expiry does. A log that has taken nothing for a while is
//! waited for no longer; what has no place in the queue meanwhile is lost and counted.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};

use super::form::Lines;
use super::noted::NotedChange;
use super::room::{AuditRoom, Held};
use super::sink::{self, Sink};
use super::{Came, Fact, Outcome};
use crate::config::AuditTo;
use crate::engine::session::SessionId;
use crate::message::MessageId;
use crate::server::client::connection::Connection;
use crate::server::environment;
use crate::server::figures::series::Counter;
use crate::server::figures::stats::Stats;
use crate::server::shared::Server;

/// Bytes of lines that are written at once.
const WRITTEN_AT_ONCE: usize = 64 << 10;
/// How long answers wait for a log that takes nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at whether it takes something.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
/// Between two attempts to write what was refused.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);

/// A fact on its way to the log.
#[derive(Debug)]
struct Entry {
    number: u64,
    at: SystemTime,
    fact: Fact,
    /// Who waits for it.
    from: Option<Arc<Connection>>,
    /// How many lines it makes.
    line_count: u64,
    _held: Held,
}

/// What the thread has in hand.
#[derive(Debug, Default)]
struct Hand {
    lines: Lines,
    /// Whose lines they are, each with the place where the last of them ends.
    facts: VecDeque<(usize, Entry)>,
}

#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// How many were ever put.
    newest: u64,
    /// Lines for which there was no place, and which no line tells yet.
    lost: u64,
    /// Lines of what waits and of what is being written.
    unwritten: u64,
    /// When what is being written began to wait, or something of it was taken last.
    since: Option<Instant>,
    /// Why nothing was taken last.
    refusal: Option<String>,
    ends: bool,
    has_ended: bool,
}

/// The audit log of a server.
#[derive(Debug)]
pub(in crate::server) struct Audit {
    queue: Mutex<Queue>,
    /// For the thread, and for who waits for its end.
    changed: Condvar,
    /// For facts that are not written: of requests on their way, and of entries. At half of the
    /// most clients wait with further changes; beyond it lines are lost.
    room: Arc<AuditRoom>,
    /// Answers after entries up to this number may leave.
    open: AtomicU64,
    is_failing: AtomicBool,
    fails_closed: bool,
    /// Whose process this is.
    own_user: String,
    stats: Arc<Stats>,
}

impl Audit {
    /// Starts the thread. With `fails_closed` changes are refused while the log takes nothing.
    ///
    /// # Errors
    /// When there is no such place, or no thread to be had.
    pub(in crate::server) fn open(
        to: &AuditTo,
        held_max: usize,
        fails_closed: bool,
        stats: Arc<Stats>,
    ) -> io::Result<Arc<Self>> {
        Self::onto(Sink::open(to)?, held_max, fails_closed, stats)
    }

    fn onto(
        mut sink: Sink,
        held_max: usize,
        fails_closed: bool,
        stats: Arc<Stats>,
    ) -> io::Result<Arc<Self>> {
        let audit = Arc::new(Self::new(held_max, fails_closed, stats));
        let its = Arc::clone(&audit);
        let (by_line, write) = (sink.is_by_line(), move |lines: &[u8]| sink.write(lines));
        let run = move || its.write_for_ever(by_line, write);
        thread::Builder::new().name("audit".to_owned()).spawn(run)?;
        Ok(audit)
    }

    pub(super) fn new(held_max: usize, fails_closed: bool, stats: Arc<Stats>) -> Self {
        Self {
            queue: Mutex::default(),
            changed: Condvar::new(),
            room: Arc::new(AuditRoom::new(held_max)),
            open: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
            fails_closed,
            own_user: environment::user_name(),
            stats,
        }
    }

    /// The server takes clients from here on.
    pub(in crate::server) fn started(&self) {
        self.put(Fact::Server("serverStart", Outcome::Success), self.held(), None);
    }

    /// The server is asked to end.
    pub(in crate::server) fn stopping(&self) {
        self.put(Fact::Server("serverStop", Outcome::Invoked), self.held(), None);
    }

    /// A request of this connection has its answer. Gives the number that the answer has to wait
    /// for.
    pub(in crate::server) fn answered(
        &self,
        NotedChange { asked, held }: NotedChange,
        came: Came,
        connection: &Arc<Connection>,
    ) -> u64 {
        self.put(Fact::Request(asked, came), held, Some(Arc::clone(connection)))
    }

    /// A request has lost its connection: it may be done or not.
    pub(in crate::server) fn never_answered(&self, NotedChange { asked, held }: NotedChange) {
        self.put(Fact::Request(asked, Came::Invoked), held, None);
    }

    /// A session has ended, and its ephemerals with it.
    pub(in crate::server) fn ephemerals_gone(&self, session: SessionId, znodes: Vec<String>) {
        self.put(Fact::EphemeralsGone(session, znodes), self.held(), None);
    }

    /// Gives the number that the last answer of a connection has to wait for: after all that was
    /// put.
    pub(in crate::server) fn after_all(&self, connection: &Arc<Connection>) -> u64 {
        let nothing = Fact::EphemeralsGone(SessionId::NONE, Vec::new());
        self.put(nothing, self.held(), Some(Arc::clone(connection)))
    }

    /// Answers after this number may leave; it rises.
    pub(in crate::server) const fn open_up_to(&self) -> &AtomicU64 {
        &self.open
    }

    /// Bytes of what is not written.
    pub(in crate::server) fn held_bytes(&self) -> usize {
        self.room.bytes()
    }

    /// Counts something more of it; nothing yet.
    pub(super) fn held(&self) -> Held {
        self.room.nothing()
    }

    /// Whether changes are to be refused.
    pub(in crate::server) fn refuses(&self) -> bool {
        self.fails_closed && self.is_failing()
    }

    /// Whether it has taken nothing for as long as answers wait for it.
    pub(in crate::server) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::SeqCst)
    }

    /// Whether further changes may come. Where nothing is taken, nothing is waited for.
    pub(in crate::server) fn has_room(&self) -> bool {
        self.room.is_free() || self.is_failing()
    }

    /// Waits until one of so many bytes may come.
    pub(in crate::server) async fn room(&self, bytes: usize) -> Held {
        self.room.wait(bytes, || self.is_failing()).await
    }

    /// Waits a while until every line is written; none comes after this. Tells how many are not,
    /// and gives that number.
    pub(in crate::server) fn end(&self) -> u64 {
        let deadline = Instant::now() + PATIENCE;
        let mut queue = self.queue.lock();
        queue.ends = true;
        self.changed.notify_all();
        while !queue.has_ended && !self.is_failing() {
            if self.changed.wait_until(&mut queue, deadline).timed_out() {
                break;
            }
        }
        // What is lost already was counted when it came.
        let unwritten = queue.unwritten;
        let lines = unwritten + queue.lost;
        drop(queue);
        if lines > 0 {
            self.stats.series.count(Counter::AuditLinesLost, unwritten);
            tracing::error!(
                id = %MessageId::AUDIT_LINES_LOST,
                lines,
                "lines of the audit log are lost: the server ends before they could be written"
            );
        }
        lines
    }

    /// Gives the number that an answer has to wait for: 0 where the lines are lost. `held` is what
    /// is counted of it already.
    fn put(&self, fact: Fact, mut held: Held, from: Option<Arc<Connection>>) -> u64 {
        let (weight, line_count) = (fact.weight(), fact.line_count());
        // Clients that wait are no more than have place; all others may be more than that.
        let may_wait = from.is_some() && !self.is_failing();
        let mut queue = self.queue.lock();
        let others = self.held_bytes().saturating_sub(held.bytes());
        if others + weight > self.room.max() && !may_wait {
            queue.lost += line_count;
            // What is held of requests alone may leave no place: nothing else wakes the thread
            // then, nor those who wait.
            self.changed.notify_all();
            drop(queue);
            self.tell_lost(line_count, "too many are waiting to be written");
            return 0;
        }
        held.set(weight);
        queue.newest += 1;
        queue.unwritten += line_count;
        let (number, at) = (queue.newest, SystemTime::now());
        queue.entries.push_back(Entry { number, at, fact, from, line_count, _held: held });
        if queue.entries.len() == 1 {
            self.changed.notify_all();
        }
        queue.newest
    }

    fn tell_lost(&self, lines: u64, why: &str) {
        self.stats.series.count(Counter::AuditLinesLost, lines);
        tracing::error!(id = %MessageId::AUDIT_LINES_LOST, "audit lines are lost: {why}");
    }

    /// What is to be written next, with the number of the last of it, and how many lines are lost
    /// after it.
    fn take(&self) -> Option<(VecDeque<Entry>, u64, u64)> {
        let mut queue = self.queue.lock();
        while queue.entries.is_empty() && queue.lost == 0 {
            if queue.ends {
                queue.has_ended = true;
                self.changed.notify_all();
                return None;
            }
            self.changed.wait(&mut queue);
        }
        queue.since = Some(Instant::now());
        let entries = std::mem::take(&mut queue.entries);
        Some((entries, queue.newest, queue.lost))
    }

    /// Writes by `write` until the log ends: the thread.
    fn write_for_ever(&self, by_line: bool, mut write: impl FnMut(&[u8]) -> io::Result<usize>) {
        let mut hand = Hand::default();
        hand.lines.is_syslog = by_line;
        let field_max = hand.lines.field_max();
        while let Some((entries, newest, lost)) = self.take() {
            for entry in entries {
                entry.fact.lines(&self.own_user, field_max, |outcome, line| {
                    if hand.lines.bytes.len() >= WRITTEN_AT_ONCE {
                        self.write_out(&mut hand, &mut write);
                    }
                    hand.lines.put(entry.at, outcome, line);
                });
                hand.facts.push_back((hand.lines.bytes.len(), entry));
            }
            if lost > 0 {
                let text = format!("{lost} lines lost");
                hand.lines.put(SystemTime::now(), Outcome::Failure, &text);
            }
            self.write_out(&mut hand, &mut write);
            self.written(newest, lost);
        }
    }

    /// Writes all of it, however long that takes.
    fn write_out(&self, hand: &mut Hand, write: &mut impl FnMut(&[u8]) -> io::Result<usize>) {
        let Hand { lines, facts } = hand;
        let mut done = 0;
        self.took(facts, done);
        while done < lines.bytes.len() {
            let end = match lines.ends.partition_point(|end| *end <= done) {
                next if lines.is_syslog => lines.ends[next],
                _ => lines.bytes.len(),
            };
            match write(&lines.bytes[done..end]) {
                Ok(taken) if taken > 0 => done += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if lines.is_syslog && sink::is_too_long(&error, end - done) => {
                    self.queue.lock().lost += 1;
                    self.tell_lost(1, "syslog does not accept a line of that length");
                    done = end;
                }
                result => {
                    let none = io::Error::from(io::ErrorKind::WriteZero);
                    let refusal = result.err().unwrap_or(none);
                    self.queue.lock().refusal = Some(refusal.to_string());
                    thread::sleep(BETWEEN_ATTEMPTS);
                    continue;
                }
            }
            self.took(facts, done);
        }
        lines.clear();
    }

    /// Something was taken: the facts whose lines end up to there are written, and held no more.
    fn took(&self, facts: &mut VecDeque<(usize, Entry)>, done: usize) {
        let count = facts.partition_point(|(end, _)| *end <= done);
        let mut queue = self.queue.lock();
        (queue.since, queue.refusal) = (Some(Instant::now()), None);
        let mut written = facts.iter().take(count).map(|(_, entry)| entry);
        queue.unwritten -= written.clone().map(|entry| entry.line_count).sum::<u64>();
        // While it fails nobody waits, until all is written that was taken from the queue.
        if let Some(last) = written.next_back().filter(|_| !self.is_failing()) {
            self.open.store(last.number, Ordering::SeqCst);
        }
        drop(queue);
        for (_, entry) in facts.drain(..count) {
            // One that has several of them finds the later ones nothing to do.
            if let Some(connection) = &entry.from {
                connection.let_out(self.open_up_to());
            }
        }
    }

    /// What was taken from the queue up to this number is written, and that so many lines are lost.
    fn written(&self, newest: u64, lost: u64) {
        let mut queue = self.queue.lock();
        queue.since = None;
        queue.lost -= lost;
        self.open.store(newest, Ordering::SeqCst);
        let failed = self.is_failing.swap(false, Ordering::SeqCst);
        drop(queue);
        if failed {
            tracing::info!("audit lines are written again");
        }
    }

    /// Whether the log has begun to fail: it has taken nothing for as long as answers wait.
    fn begins_to_fail(&self, now: Instant) -> bool {
        let queue = self.queue.lock();
        let waited = queue.since.map(|since| now.saturating_duration_since(since));
        if self.is_failing() || waited.is_none_or(|waited| waited < PATIENCE) {
            return false;
        }
        self.is_failing.store(true, Ordering::SeqCst);
        self.open.store(u64::MAX, Ordering::SeqCst);
        let why = queue.refusal.clone().unwrap_or_else(|| "the write does not return".to_owned());
        self.changed.notify_all();
        drop(queue);
        self.room.wake();
        let what = match self.fails_closed {
            true => "changes are refused until they can be (audit.failClosed)",
            false => "changes continue without them",
        };
        tracing::error!(id = %MessageId::AUDIT_NOT_WRITTEN, why, "audit lines cannot be written: \
            {what}");
        true
    }
}

/// Lets answers go that wait for a log which takes nothing.
pub(in crate::server) async fn watch(audit: Arc<Audit>, server: Arc<Server>) {
    let mut looks = tokio::time::interval(BETWEEN_LOOKS);
    loop {
        looks.tick().await;
        if audit.begins_to_fail(Instant::now()) {
            server.connections.each(|connection| connection.let_out(audit.open_up_to()));
        }
    }
}

#[cfg(test)]
#[path = "log_test.rs"]
mod log_test;
