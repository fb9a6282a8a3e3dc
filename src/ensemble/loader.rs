//! A thread that adds a snapshot's znodes to the tree while those after them are read and decoded.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use jute::StatPersisted;
use jute::persist::SnapshotNode;

use crate::engine::database::Database;
use crate::engine::tree::Impossible;

/// Znodes, or bytes of them, that go over together.
const BATCH_NODES: usize = 1024;
const BATCH_BYTES: usize = 256 << 10;
/// Batches that wait before the reading pauses.
const BATCHES_WAITING: usize = 4;

/// A znode of a batch: its path and its data are the next so many bytes.
#[derive(Debug)]
struct Entry {
    path_len: usize,
    data_len: Option<usize>,
    acl: i64,
    stat: StatPersisted,
}

/// Znodes, in their order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    paths: String,
    data: Vec<u8>,
    entries: Vec<Entry>,
}

impl Batch {
    pub(super) fn push(&mut self, path: &str, node: &SnapshotNode<'_>) {
        let data = node.data.as_deref();
        self.paths.push_str(path);
        self.data.extend_from_slice(data.unwrap_or_default());
        let data_len = data.map(<[u8]>::len);
        self.entries.push(Entry { path_len: path.len(), data_len, acl: node.acl, stat: node.stat });
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= BATCH_NODES || self.data.len() >= BATCH_BYTES
    }

    pub(super) fn clear(&mut self) {
        // One large znode must not stay.
        if self.data.capacity() > 4 * BATCH_BYTES {
            *self = Self::default();
        }
        self.paths.clear();
        self.data.clear();
        self.entries.clear();
    }

    /// Adds them to the tree, up to the first that does not fit.
    pub(super) fn add_to(&self, database: &mut Database) -> Result<(), Impossible> {
        let (mut paths, mut data) = (self.paths.as_str(), self.data.as_slice());
        for entry in &self.entries {
            let (path, paths_behind) = paths.split_at(entry.path_len);
            let (own, data_behind) = data.split_at(entry.data_len.unwrap_or(0));
            (paths, data) = (paths_behind, data_behind);
            let node = SnapshotNode {
                data: entry.data_len.map(|_| own.into()),
                acl: entry.acl,
                stat: entry.stat,
            };
            database.load_node(path, &node)?;
        }
        Ok(())
    }
}

/// The thread and the way there and back.
#[derive(Debug)]
pub(super) struct Loader {
    full: SyncSender<Batch>,
    empty: Receiver<Batch>,
    thread: JoinHandle<Result<Database, Impossible>>,
}

impl Loader {
    /// Starts it on `database`; `None`, with the database where it was, if there is no thread to be
    /// had.
    pub(super) fn start(database: &mut Database, in_its_place: Database) -> Option<Self> {
        let (full, incoming) = mpsc::sync_channel::<Batch>(BATCHES_WAITING);
        let (done, empty) = mpsc::channel();
        let (hand_over, handed) = mpsc::channel::<Database>();
        let add = move || {
            // Nobody else has the other end, and it is used before it goes.
            let Ok(mut database) = handed.recv() else { unreachable!("the database comes first") };
            for mut batch in incoming {
                batch.add_to(&mut database)?;
                batch.clear();
                // Whoever reads has ended.
                let _ = done.send(batch);
            }
            Ok(database)
        };
        let thread = thread::Builder::new().name("loader".into()).spawn(add).ok()?;
        let database = std::mem::replace(database, in_its_place);
        hand_over.send(database).ok()?;
        Some(Self { full, empty, thread })
    }

    /// Hands a batch over and takes an empty one; false once one did not fit.
    pub(super) fn hand_over(&self, batch: &mut Batch) -> bool {
        let empty = self.empty.try_recv().unwrap_or_default();
        self.full.send(std::mem::replace(batch, empty)).is_ok()
    }

    /// The database with all that was handed over.
    ///
    /// # Errors
    /// [`Impossible`] when a znode does not fit.
    pub(super) fn finish(self) -> Result<Database, Impossible> {
        drop(self.full);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
