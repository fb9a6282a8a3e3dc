//! Snapshots while serving: when one is due, and its way from the tree to the disk. Nobody waits
//! for that disk: a snapshot for which it is too slow is given up, and begun again later.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender, TryRecvError, TrySendError};
use std::thread::{self, JoinHandle};

use jute::persist::SnapshotDigest;
use jute::txn::DIGEST_VERSION;

use tokio::sync::oneshot;

use super::replica::Replica;
use crate::engine::database::Database;
use crate::engine::time::Monotonic;
use crate::engine::zxid::Zxid;
use crate::engine::{WalkStep, digest};
use crate::message::MessageId;
use crate::planted;
use crate::storage::{
    CompleteSnapshot, Compression, DataDirectory, SnapshotWriter, StorageError, TxnLog,
};

/// Znodes that the walk visits at once: some tens of microseconds under a shared hold.
const NODES_A_STEP: u32 = 256;
/// Bytes that are handed to the writer at once.
const PIECE: usize = 1 << 20;
/// Pieces that wait for the disk before the walk pauses.
const PIECES_WAITING: usize = 4;
/// A snapshot is put off until this many times the last one's duration has passed.
const REST: u64 = 4;
/// One that was given up is begun again as much later as it took, and so many milliseconds at
/// least; one that failed, too.
const REST_OF_LATE_MS: u64 = 10_000;

/// What a member needs of snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// None is due.
    None,
    /// It is time for one.
    Due,
    /// The log has grown to twice what one is due for.
    Overdue,
    /// One is on its way.
    Writing,
}

/// A tree whose znodes are not what was kept of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drift {
    /// The last transaction that it shows.
    pub zxid: Zxid,
    /// The digest that was kept.
    pub kept: i64,
    /// That of the znodes, if they have one.
    pub sum: Option<i64>,
}

/// A snapshot on its way.
#[derive(Debug)]
struct Writing {
    zxid: Zxid,
    /// Its place in the log.
    index: u64,
    began: Monotonic,
    /// What was logged after the one before.
    logged: (u64, u64),
    pieces: SyncSender<WalkStep>,
    /// A piece that the writer had no room for.
    held_back: Option<WalkStep>,
    /// Everything was handed over.
    handed_over: bool,
    done: Receiver<Result<u64, StorageError>>,
    writer: Option<JoinHandle<()>>,
    /// Those who asked for it.
    askers: Vec<oneshot::Sender<Zxid>>,
}

/// The snapshots of a server.
#[derive(Debug)]
pub struct Snapshots {
    directory: Arc<DataDirectory>,
    compression: Compression,
    /// Transactions between two snapshots.
    every_txns: u64,
    /// Bytes of log between two snapshots.
    every_bytes: Option<u64>,
    txns: u64,
    bytes: u64,
    not_before: Monotonic,
    /// None is begun before that, for whomever: the last one failed.
    fails_until: Monotonic,
    last_duration_ms: u64,
    writing: Option<Writing>,
    /// The writer of one that was given up, which the disk may still hold up.
    given_up: Option<JoinHandle<()>>,
    /// Whether it was said that the disk is too slow.
    is_told: bool,
    /// How many failed or were given up since somebody asked.
    failed: u64,
    /// The newest one that is done.
    done: Option<(u64, Zxid)>,
    /// What one found that failed for it.
    drift: Option<Drift>,
    /// Those who asked for one that has not begun.
    askers: Vec<oneshot::Sender<Zxid>>,
}

impl Snapshots {
    /// Snapshots of a directory whose log holds `txns` transactions after the newest one.
    #[must_use]
    pub fn new(
        directory: Arc<DataDirectory>,
        compression: Compression,
        every_txns: u64,
        every_bytes: Option<u64>,
        txns: u64,
    ) -> Self {
        Self {
            directory,
            compression,
            every_txns,
            every_bytes,
            txns,
            bytes: 0,
            not_before: Monotonic::default(),
            fails_until: Monotonic::default(),
            last_duration_ms: 0,
            writing: None,
            given_up: None,
            is_told: false,
            failed: 0,
            done: None,
            drift: None,
            askers: Vec::new(),
        }
    }

    /// Somebody wants a snapshot that shows at least what is applied now; one that is on its way
    /// does not.
    pub fn ask(&mut self, asker: oneshot::Sender<Zxid>) {
        self.askers.push(asker);
    }

    /// Whether somebody waits for one that can begin.
    #[must_use]
    pub fn is_asked_for(&self) -> bool {
        self.may_begin() && !self.askers.is_empty()
    }

    /// One is due as soon as it can begin: the log no longer holds what it shows.
    pub fn want(&mut self) {
        self.txns = self.txns.max(self.every_txns);
        self.not_before = Monotonic::default();
    }

    /// Counts what was logged.
    pub const fn count(&mut self, txns: u64, bytes: u64) {
        self.txns += txns;
        self.bytes += bytes;
    }

    /// Transactions in the log after the newest snapshot.
    #[must_use]
    pub const fn txns_behind(&self) -> u64 {
        self.txns
    }

    /// How long the last snapshot took.
    #[must_use]
    pub const fn last_duration_ms(&self) -> u64 {
        self.last_duration_ms
    }

    /// Whether one is on its way.
    #[must_use]
    pub const fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Ends the snapshot on its way: it would show what is wrong.
    pub fn stop(&mut self, replica: &Replica) {
        if self.is_writing() {
            replica.shared().tree().abandon_walk();
            self.abandon();
        }
    }

    /// Whether another member may have one of now. It waits for it, so only a failure puts it off.
    #[must_use]
    pub fn may_begin_for_another(&self, now: Monotonic) -> bool {
        self.may_begin() && now >= self.fails_until
    }

    /// Whether none is on its way, and no writer of one that was given up is left.
    #[must_use]
    pub fn may_begin(&self) -> bool {
        self.writing.is_none() && self.given_up.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Whether it is time for one.
    #[must_use]
    pub fn is_due(&self, now: Monotonic) -> bool {
        self.may_begin()
            && now >= self.not_before
            && (self.txns >= self.every_txns && !planted::is("no-snapshot-by-count")
                || self.every_bytes.is_some_and(|every| self.bytes >= every))
    }

    /// What is needed.
    #[must_use]
    pub fn need(&self, now: Monotonic) -> Need {
        let is_twice = self.txns / 2 >= self.every_txns
            || self.every_bytes.is_some_and(|every| self.bytes / 2 >= every);
        match (self.is_writing(), self.is_due(now)) {
            (true, _) => Need::Writing,
            (false, false) => Need::None,
            (false, true) if is_twice => Need::Overdue,
            (false, true) => Need::Due,
        }
    }

    /// Begins a snapshot of this instant; the log goes on in a new segment. A failure is told and
    /// tried again when the next one is due: the log still holds everything.
    pub fn begin(&mut self, replica: &Replica, log: &mut TxnLog, now: Monotonic) {
        log.roll();
        let index = log.next_index().saturating_sub(1);
        self.begin_at(replica, index, log.reserve(), now);
    }

    /// The same of a state whose last transaction has this index in the log; `reserve` is free
    /// space that it leaves.
    pub(super) fn begin_at(&mut self, replica: &Replica, index: u64, reserve: u64, now: Monotonic) {
        let zxid = {
            let mut hold = replica.exclusive();
            hold.database().begin_walk();
            hold.database().last_zxid()
        };
        let logged = (std::mem::take(&mut self.txns), std::mem::take(&mut self.bytes));
        let (directory, compression) = (Arc::clone(&self.directory), self.compression);
        // Even making the file can wait for the disk, and the orderer does not.
        let (pieces, done, writer) = start(move || {
            let writer = SnapshotWriter::create(&directory, zxid.0, index, compression)?;
            Ok(writer.with_reserve(reserve))
        });
        tracing::info!(%zxid, "taking a snapshot");
        self.writing = Some(Writing {
            zxid,
            index,
            began: now,
            logged,
            pieces,
            held_back: None,
            handed_over: false,
            done,
            writer,
            askers: std::mem::take(&mut self.askers),
        });
    }

    /// Gives up the snapshot on its way: its tree is not there any more.
    pub fn abandon(&mut self) {
        if let Some(writing) = self.writing.take() {
            self.given_up = writing.writer;
        }
    }

    /// Another state took the place of this one, and its snapshot stands.
    pub fn replaced(&mut self) {
        self.abandon();
        (self.txns, self.bytes, self.done, self.drift) = (0, 0, None, None);
    }

    /// That the tree is wrong, if a snapshot has found so since the last call.
    pub const fn take_drift(&mut self) -> Option<Drift> {
        self.drift.take()
    }

    /// How many failed since the last call, or were given up because the disk is too slow.
    pub const fn take_failed(&mut self) -> u64 {
        std::mem::replace(&mut self.failed, 0)
    }

    /// The snapshot that is done since the last call: the index and the zxid of what it shows.
    pub const fn take_done(&mut self) -> Option<(u64, Zxid)> {
        self.done.take()
    }

    /// Goes on with the snapshot on its way: one slice of the walk. Whether more can be done at
    /// once.
    pub fn advance(&mut self, replica: &Replica, now: Monotonic) -> bool {
        let Some(writing) = &mut self.writing else { return false };
        match writing.done.try_recv() {
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => {
                self.fail(replica, None, now);
                return false;
            }
            Ok(Err(error)) => {
                self.fail(replica, Some(&error), now);
                return false;
            }
            Ok(Ok(bytes)) => {
                self.succeed(bytes, now);
                return false;
            }
        }
        if writing.handed_over {
            return false;
        }
        let late = replica.shared().tree().end_late_walk();
        if late.is_some() {
            self.give_up(now);
            return false;
        }
        let step = match writing.held_back.take() {
            Some(step) => Some(step),
            None => replica.shared().tree().advance_walk(NODES_A_STEP, PIECE),
        };
        let Some(step) = step else { return true };
        let is_end = !matches!(step, WalkStep::Bytes(_) | WalkStep::Znodes(_));
        match writing.pieces.try_send(step) {
            Ok(()) => {
                writing.handed_over = is_end;
                !is_end
            }
            Err(TrySendError::Full(step)) => {
                writing.held_back = Some(step);
                false
            }
            // Why it ended is in `done`.
            Err(TrySendError::Disconnected(_)) => true,
        }
    }

    fn succeed(&mut self, bytes: u64, now: Monotonic) {
        let Some(writing) = self.writing.take() else { return };
        self.rest(&writing, now);
        self.done = Some((writing.index, writing.zxid));
        self.is_told = false;
        for asker in writing.askers {
            // Whoever asked may have stopped waiting.
            let _ = asker.send(writing.zxid);
        }
        tracing::info!(
            zxid = %writing.zxid,
            bytes,
            ms = self.last_duration_ms,
            "took a snapshot"
        );
    }

    fn fail(&mut self, replica: &Replica, error: Option<&StorageError>, now: Monotonic) {
        replica.shared().tree().abandon_walk();
        self.failed += 1;
        if let Some(writing) = self.writing.take() {
            self.rest(&writing, now);
            self.fails_until = now.plus(REST_OF_LATE_MS);
            self.not_before = self.not_before.max(self.fails_until);
            if let Some(&StorageError::Drifted { kept, sum }) = error {
                self.drift = Some(Drift { zxid: writing.zxid, kept, sum });
            }
        }
        let (id, error) = match error {
            Some(error @ StorageError::Drifted { .. }) => (error.id(), error.to_string()),
            Some(error) => (MessageId::SNAPSHOT_FAILED, error.to_string()),
            None => (
                MessageId::SNAPSHOT_FAILED,
                "its writer ended without reporting a result".to_owned(),
            ),
        };
        // The log reaches back to the snapshot before: nothing is lost, and the next one is due as
        // usual.
        tracing::error!(%id, error, "a snapshot could not be taken; the log keeps everything");
    }

    /// Gives up the snapshot on its way because its disk is too slow for what changes meanwhile.
    fn give_up(&mut self, now: Monotonic) {
        let Some(writing) = self.writing.take() else { return };
        self.failed += 1;
        self.last_duration_ms = now.since(writing.began);
        self.fails_until = now.plus(self.last_duration_ms.max(REST_OF_LATE_MS));
        self.not_before = self.fails_until;
        self.txns += writing.logged.0;
        self.bytes += writing.logged.1;
        if !std::mem::replace(&mut self.is_told, true) {
            tracing::error!(
                id = %MessageId::SNAPSHOT_LATE,
                zxid = %writing.zxid,
                ms = self.last_duration_ms,
                "a snapshot was abandoned: its disk is too slow for the changes made meanwhile; \
                 the log keeps everything"
            );
        }
        self.given_up = writing.writer;
    }

    fn rest(&mut self, writing: &Writing, now: Monotonic) {
        self.last_duration_ms = now.since(writing.began);
        self.not_before = now.plus(REST * self.last_duration_ms);
    }
}

type Started = (SyncSender<WalkStep>, Receiver<Result<u64, StorageError>>, Option<JoinHandle<()>>);

/// Starts the thread that makes the file and writes what the walk hands over.
fn start(
    create: impl FnOnce() -> Result<SnapshotWriter, StorageError> + Send + 'static,
) -> Started {
    let (pieces, incoming) = mpsc::sync_channel::<WalkStep>(PIECES_WAITING);
    let (report, done) = mpsc::channel();
    let write = move || write_walk(create()?, incoming);
    // A thread that cannot be started drops `report`, which `advance` sees.
    let writer = thread::Builder::new().name("snapshot".into()).spawn(move || {
        // Nobody waits for one that was given up.
        let _ = report.send(write());
    });
    (pieces, done, writer.ok())
}

/// Writes a walk to its end and gives the length of the file. Steps that end before it leave no
/// file and give 0.
///
/// # Errors
/// When the disk refuses; there is no snapshot then.
pub fn write_walk(
    writer: SnapshotWriter,
    steps: impl IntoIterator<Item = WalkStep>,
) -> Result<u64, StorageError> {
    complete_walk(writer, steps)?.map_or(Ok(0), CompleteSnapshot::publish)
}

/// The same, for a file that has not its name yet.
fn complete_walk(
    mut writer: SnapshotWriter,
    steps: impl IntoIterator<Item = WalkStep>,
) -> Result<Option<CompleteSnapshot>, StorageError> {
    let mut sum = Some(0_i64);
    for step in steps {
        match step {
            WalkStep::Bytes(bytes) => writer.write(&bytes)?,
            WalkStep::Znodes(znodes) => {
                // Here, and not where the walk goes on: nobody waits for this thread.
                let some = digest::of_nodes(&znodes);
                sum = sum.zip(some).map(|(sum, some)| sum.wrapping_add(some));
                writer.write(&znodes)?;
            }
            WalkStep::Finished { digest: Some(kept), .. } if sum != Some(kept) => {
                return Err(StorageError::Drifted { kept, sum });
            }
            WalkStep::Finished { zxid, digest } => {
                let digest = digest.map(|digest| SnapshotDigest {
                    zxid: zxid.0,
                    version: DIGEST_VERSION,
                    digest,
                });
                return writer.complete(digest).map(Some);
            }
            WalkStep::Lacking(znodes) => return Err(StorageError::Lacking { znodes }),
        }
    }
    Ok(None)
}

/// Writes `snapshot.0`. ZooKeeper refuses a log without a snapshot: there is one before the first
/// transaction.
///
/// # Errors
/// When the disk refuses.
pub fn first_snapshot(
    directory: &DataDirectory,
    database: &mut Database,
    compression: Compression,
) -> Result<(), StorageError> {
    snapshot_of(directory, database, 0, compression)
}

/// Writes a snapshot of a state that nobody changes meanwhile; its last transaction has this index
/// in the log.
///
/// # Errors
/// When the disk refuses.
pub(super) fn snapshot_of(
    directory: &DataDirectory,
    database: &mut Database,
    index: u64,
    compression: Compression,
) -> Result<(), StorageError> {
    complete_snapshot_of(directory, database, index, compression, 0)?.publish().map(|_| ())
}

/// The same, for a file that has not its name yet; `reserve` is free space that it leaves.
pub(super) fn complete_snapshot_of(
    directory: &DataDirectory,
    database: &mut Database,
    index: u64,
    compression: Compression,
    reserve: u64,
) -> Result<CompleteSnapshot, StorageError> {
    database.begin_walk();
    let zxid = database.last_zxid().0;
    let tree = database.tree();
    let writer = SnapshotWriter::create(directory, zxid, index, compression)?;
    let steps = std::iter::from_fn(|| tree.advance_walk(NODES_A_STEP, 0));
    let complete = complete_walk(writer.with_reserve(reserve), steps)?;
    Ok(complete.unwrap_or_else(|| unreachable!("a walk of a tree that nobody else has ends")))
}
