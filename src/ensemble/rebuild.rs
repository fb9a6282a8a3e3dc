//! From what recovery reads to a database.

use std::time::{Duration, Instant};

use jute::Acl;
use jute::persist::{SnapshotDigest, SnapshotNode, SnapshotSession};
use jute::txn::TxnRecord;

use crate::engine::apply::Mode;
use crate::engine::database::{Database, Rules};
use crate::engine::zxid::Zxid;
use crate::storage::{Reading, Refused, Replay, SnapshotId, SnapshotOrigin};

/// A database in the making.
#[derive(Debug)]
pub struct Rebuild {
    database: Database,
    seed: u64,
    rules: Rules,
    zxid: Zxid,
    mode: Mode,
    /// When somebody who waits was last told, or the start.
    told: Instant,
}

/// Between two words to somebody who waits for a start.
const BETWEEN_WORDS: Duration = Duration::from_secs(1);

impl Rebuild {
    /// Starts from a fresh database. `seed` makes hashes unpredictable.
    #[must_use]
    pub fn new(seed: u64, rules: Rules) -> Self {
        let database = Database::new(seed, rules);
        let told = Instant::now();
        Self { database, seed, rules, zxid: Zxid::ZERO, mode: Mode::Strict, told }
    }

    /// The database, whole.
    #[must_use]
    pub fn finish(mut self) -> Database {
        self.database.ensure_digest();
        self.database
    }
}

impl Replay for Rebuild {
    fn begin(&mut self, snapshot: &SnapshotId) {
        self.database = Database::empty(self.seed, self.rules);
        self.zxid = Zxid(snapshot.zxid);
        // Java's snapshots were written while transactions went on.
        self.mode = match snapshot.origin {
            SnapshotOrigin::Java => Mode::Tolerant,
            SnapshotOrigin::None | SnapshotOrigin::Exact { .. } => Mode::Strict,
        };
    }

    fn session(&mut self, id: i64, timeout_ms: i32) -> Result<(), Refused> {
        self.database.load_session(SnapshotSession { id, timeout_ms });
        Ok(())
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl<'_>>) -> Result<(), Refused> {
        self.database
            .load_acl(id, &acl)
            .map_err(|id| Refused(format!("{id} is no number of an ACL list")))
    }

    fn node(&mut self, path: &str, node: &SnapshotNode<'_>) -> Result<(), Refused> {
        self.database.load_node(path, node).map_err(|error| Refused(error.to_string()))
    }

    fn end(&mut self, digest: Option<SnapshotDigest>) -> Result<(), Refused> {
        // The digest of a snapshot that went on changing belongs to none of its instants.
        let digest = digest
            .filter(|digest| self.mode == Mode::Strict && digest.zxid == self.zxid.0)
            .map(|digest| digest.digest);
        self.database.finish_load(self.zxid, digest);
        Ok(())
    }

    fn progress(&mut self, reading: Reading, done: u64, total: u64) {
        if self.told.elapsed() < BETWEEN_WORDS {
            return;
        }
        self.told = Instant::now();
        let percent = done.saturating_mul(100) / total.max(1);
        match reading {
            Reading::Snapshot => tracing::info!(percent, "reading the snapshot"),
            Reading::Logs => tracing::info!(percent, "replaying the log"),
        }
    }

    fn txn(&mut self, record: &TxnRecord<'_>) -> Result<(), Refused> {
        let TxnRecord { header, txn, digest } = record;
        self.database
            .apply(header, txn.clone(), *digest, self.mode, &mut Vec::new())
            .map(|_| ())
            .map_err(|error| Refused(error.to_string()))
    }
}
