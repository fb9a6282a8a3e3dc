//! What recovery hands to the state that it rebuilds.
//!
//! The interface only: storage reads and checks files, whoever implements [`Replay`] owns the tree.

use jute::Acl;
use jute::persist::{SnapshotDigest, SnapshotNode};
use jute::txn::TxnRecord;

/// The state that recovery rebuilds.
pub trait Replay {
    /// Starts from nothing; called again if a snapshot turns out to be broken in the middle.
    fn begin(&mut self, snapshot: &SnapshotId);

    /// A session of the snapshot.
    ///
    /// # Errors
    /// When the state cannot have it.
    fn session(&mut self, id: i64, timeout_ms: i32) -> Result<(), Refused>;

    /// An ACL of the snapshot, by the id that its znodes use.
    ///
    /// # Errors
    /// When the state cannot have it.
    fn acl(&mut self, id: i64, acl: Vec<Acl<'_>>) -> Result<(), Refused>;

    /// A znode of the snapshot; parents come before their children, the root's path is empty.
    ///
    /// # Errors
    /// When the state cannot have it.
    fn node(&mut self, path: &str, node: &SnapshotNode<'_>) -> Result<(), Refused>;

    /// The snapshot is whole and its seals match.
    ///
    /// # Errors
    /// When the state is not consistent.
    fn end(&mut self, digest: Option<SnapshotDigest>) -> Result<(), Refused>;

    /// Asked when a snapshot was refused or is broken: whether it is to be read once more from the
    /// beginning, because a refusal may have come late. What that brings counts.
    fn again(&mut self) -> bool {
        false
    }

    /// How much of a snapshot or of the logs was read: for whoever waits, nothing depends on it.
    fn progress(&mut self, reading: Reading, done: u64, total: u64);

    /// Whether the first transaction after an exact snapshot was not made after that state: the
    /// two are of different histories.
    fn is_another_history(&self) -> bool;

    /// A transaction after the snapshot, in order.
    ///
    /// # Errors
    /// When it cannot follow what is there.
    fn txn(&mut self, record: &TxnRecord<'_>) -> Result<(), Refused>;
}

/// What stands before a state and looks at each transaction on its way there. The state takes all
/// the rest as it comes.
pub trait Front {
    /// The state behind it.
    fn behind(&mut self) -> &mut dyn Replay;

    /// [`Replay::begin`], of which the state hears after it.
    fn begins(&mut self, _snapshot: &SnapshotId) {}

    /// The answer to [`Replay::is_another_history`].
    fn finds_another_history(&self) -> bool;

    /// [`Replay::txn`]: whether the state gets it is decided here.
    ///
    /// # Errors
    /// When it cannot follow what is there.
    fn sees(&mut self, record: &TxnRecord<'_>) -> Result<(), Refused>;
}

impl<T: Front> Replay for T {
    fn begin(&mut self, snapshot: &SnapshotId) {
        self.begins(snapshot);
        self.behind().begin(snapshot);
    }

    fn session(&mut self, id: i64, timeout_ms: i32) -> Result<(), Refused> {
        self.behind().session(id, timeout_ms)
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl<'_>>) -> Result<(), Refused> {
        self.behind().acl(id, acl)
    }

    fn node(&mut self, path: &str, node: &SnapshotNode<'_>) -> Result<(), Refused> {
        self.behind().node(path, node)
    }

    fn end(&mut self, digest: Option<SnapshotDigest>) -> Result<(), Refused> {
        self.behind().end(digest)
    }

    fn again(&mut self) -> bool {
        self.behind().again()
    }

    fn progress(&mut self, reading: Reading, done: u64, total: u64) {
        self.behind().progress(reading, done, total);
    }

    fn is_another_history(&self) -> bool {
        self.finds_another_history()
    }

    fn txn(&mut self, record: &TxnRecord<'_>) -> Result<(), Refused> {
        self.sees(record)
    }
}

/// A state that takes everything and keeps nothing: to find out what the files make possible.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Replay for Nothing {
    fn begin(&mut self, _snapshot: &SnapshotId) {}

    fn session(&mut self, _id: i64, _timeout_ms: i32) -> Result<(), Refused> {
        Ok(())
    }

    fn acl(&mut self, _id: i64, _acl: Vec<Acl<'_>>) -> Result<(), Refused> {
        Ok(())
    }

    fn node(&mut self, _path: &str, _node: &SnapshotNode<'_>) -> Result<(), Refused> {
        Ok(())
    }

    fn end(&mut self, _digest: Option<SnapshotDigest>) -> Result<(), Refused> {
        Ok(())
    }

    fn progress(&mut self, _reading: Reading, _done: u64, _total: u64) {}

    fn is_another_history(&self) -> bool {
        false
    }

    fn txn(&mut self, _record: &TxnRecord<'_>) -> Result<(), Refused> {
        Ok(())
    }
}

/// What a start is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// The snapshot.
    Snapshot,
    /// The logs after it.
    Logs,
}

/// Why the state does not take what a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// A snapshot that recovery builds on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotId {
    /// The zxid of its name; 0 without a snapshot.
    pub zxid: i64,
    /// Who wrote it, which says what it holds.
    pub origin: SnapshotOrigin,
}

/// Who wrote a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotOrigin {
    /// There is none: the directory is fresh, or its logs are trusted to reach back to the
    /// beginning.
    None,
    /// ZooKeeper: fuzzy, so that transactions after its zxid may be in it already.
    Java,
    /// This server: exactly the tree at its zxid.
    Exact {
        /// The log index of that zxid; 0 before the first record.
        index: u64,
    },
}
