//! From what recovery reads to a database.

use std::time::{Duration, Instant};

use jute::Acl;
use jute::persist::{SnapshotDigest, SnapshotNode, SnapshotSession};
use jute::txn::{DIGEST_VERSION, TxnRecord};

use super::loader::{Batch, Loader};
use crate::engine::apply::Mode;
use crate::engine::database::{Database, Mismatch, Rules};
use crate::engine::tree::Impossible;
use crate::engine::tree::misfit::Misfit;
use crate::engine::zxid::Zxid;
use crate::message::MessageId;
use crate::storage::{
    DataDirectory, Reading, Refused, Replay, SnapshotId, SnapshotOrigin, StorageError, is_member,
    was_member,
};

/// A database in the making.
///
/// A large snapshot is loaded ahead: its znodes are added on another thread, and the index is built
/// at the end. A refusal then comes late; the snapshot is read again, one znode at a time, to say
/// what is wrong with which.
#[derive(Debug)]
pub struct Rebuild {
    database: Database,
    /// Whether each znode is looked at before the next one is read.
    exact: bool,
    /// Znodes that were read and are not in the database yet.
    batch: Batch,
    /// Where the database is meanwhile, once the first batch was full.
    loader: Option<Loader>,
    seed: u64,
    rules: Rules,
    zxid: Zxid,
    mode: Mode,
    /// Who has written the log.
    author: Author,
    /// The digest of a snapshot that went on changing, of an instant to come.
    awaited: Option<SnapshotDigest>,
    /// Whether the tree is that of one instant, so that the digests of transactions can be
    /// compared.
    compares: bool,
    /// Whether a digest that is not the tree's was told: one start tells one, and how many there
    /// were.
    tells_mismatch: bool,
    /// Whether no transaction after an exact snapshot was applied yet.
    is_first: bool,
    /// Whether the first one was not made after that snapshot.
    is_another_history: bool,
    /// When somebody who waits was last told, or the start.
    told: Instant,
    /// When the snapshot was read to its end.
    loaded: Option<Instant>,
}

/// Between two words to somebody who waits for a start.
const BETWEEN_WORDS: Duration = Duration::from_secs(1);

/// Who has written a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Author {
    /// A server by itself.
    Standalone,
    /// A member of an ensemble: other servers have it as well.
    Member,
    /// The same before, and a server by itself now.
    FormerMember,
}

impl Rebuild {
    /// Starts from a fresh database. `seed` makes hashes unpredictable.
    #[must_use]
    pub fn new(seed: u64, rules: Rules) -> Self {
        let database = Database::new(seed, rules);
        let told = Instant::now();
        let (exact, batch, loader) = (false, Batch::default(), None);
        let (zxid, mode) = (Zxid::ZERO, Mode::Strict);
        let (awaited, compares, loaded) = (None, true, None);
        Self {
            database,
            exact,
            batch,
            loader,
            seed,
            rules,
            zxid,
            mode,
            author: Author::Standalone,
            awaited,
            compares,
            tells_mismatch: true,
            is_first: false,
            is_another_history: false,
            told,
            loaded,
        }
    }

    /// The same for a member of an ensemble: what its log says is believed.
    #[must_use]
    pub fn of_member(self) -> Self {
        Self { author: Author::Member, ..self }
    }

    /// The same for what is in `directory`.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn of(self, directory: &DataDirectory) -> Result<Self, StorageError> {
        let author = match (is_member(directory)?, was_member(directory)?) {
            (true, _) => Author::Member,
            (false, true) => Author::FormerMember,
            (false, false) => Author::Standalone,
        };
        Ok(Self { author, ..self })
    }

    /// As whoever has a copy reads it, or the same directory when it is no member's any more.
    #[must_use]
    pub fn of_former_member(self) -> Self {
        let author = match self.author {
            Author::Member => Author::FormerMember,
            other => other,
        };
        Self { author, ..self }
    }

    /// When the snapshot was read to its end.
    #[must_use]
    pub const fn loaded(&self) -> Option<Instant> {
        self.loaded
    }

    /// The database, whole.
    #[must_use]
    pub fn finish(self) -> Database {
        let awaited = self.database.tree().acls().still_awaited();
        if awaited > 0 {
            tracing::error!(
                id = %MessageId::ACLS_MISSING,
                znodes = awaited,
                "the snapshot refers to ACLs that neither it nor the log holds: the log does not \
                 belong to the snapshot; nobody has access to these znodes until the super user \
                 sets their ACLs"
            );
        }
        let mismatches = self.database.mismatches();
        if mismatches > 1 {
            tracing::warn!(
                id = %MessageId::DIGEST_MISMATCH,
                mismatches,
                "digests in the snapshot or in transactions do not match the tree, or transactions \
                 do not fit it; `mismatches` is how many"
            );
        }
        self.database
    }

    /// Of the first digest that is not the tree's: ZooKeeper's own is wrong after each create with
    /// the flags of a container. Whether this one is not.
    fn tell_mismatch(&mut self) -> bool {
        let Some(mismatch) = self.database.take_mismatch() else { return false };
        if std::mem::take(&mut self.tells_mismatch) {
            tell_mismatch(&mismatch);
        }
        true
    }

    /// Compares the tree with the digest of a snapshot that went on changing, once it is that of
    /// the same instant: those of transactions can be compared only from there on.
    fn compare_awaited(&mut self) {
        let Some(awaited) = self.awaited else {
            return;
        };
        let last = self.database.last_zxid().0;
        if last < awaited.zxid {
            return;
        }
        self.awaited = None;
        if last == awaited.zxid {
            self.database.compare_digest(awaited.digest);
            self.compares = true;
            let _ = self.tell_mismatch();
        }
    }

    /// Adds what was read since the last call.
    fn hand_over(&mut self) -> Result<(), Impossible> {
        if self.loader.is_none() {
            let in_its_place = Database::empty(self.seed, self.rules);
            self.loader = Loader::start(&mut self.database, in_its_place);
        }
        match &self.loader {
            Some(loader) if loader.hand_over(&mut self.batch) => Ok(()),
            Some(_) => self.take_back(),
            None => {
                let added = self.batch.add_to(&mut self.database);
                self.batch.clear();
                added
            }
        }
    }

    /// Waits for the loader and takes the database back.
    fn take_back(&mut self) -> Result<(), Impossible> {
        if let Some(loader) = self.loader.take() {
            self.database = loader.finish()?;
        }
        Ok(())
    }

    /// Ends loading ahead.
    fn settle(&mut self) -> Result<(), Impossible> {
        self.take_back()?;
        self.batch.add_to(&mut self.database)?;
        self.batch.clear();
        self.database.end_bulk_load()
    }
}

/// Of a digest that is not the tree's.
pub(super) fn tell_mismatch(mismatch: &Mismatch) {
    tracing::warn!(
        id = %MessageId::DIGEST_MISMATCH,
        zxid = %mismatch.zxid,
        said = format_args!("{:#x}", mismatch.said),
        found = format_args!("{:#x}", mismatch.found),
        "a recorded digest does not match the tree"
    );
}

/// Of a transaction that does not fit the tree and was applied.
pub(super) fn tell_misfit(misfit: &Misfit) {
    tracing::warn!(
        id = %MessageId::TXN_MISFIT,
        zxid = %misfit.zxid,
        reason = %misfit.reason,
        count = misfit.count,
        "a transaction of the ensemble does not fit the tree here: it was applied with its own \
         numbers, as far as possible"
    );
}

/// Of a snapshot of ours whose znodes do not make the digest that it says.
#[must_use]
pub fn wrong_digest(said: i64, found: i64) -> Refused {
    Refused(format!(
        "its znodes give the digest {found:#x}, but it records {said:#x}: some znodes are not as \
         they were written"
    ))
}

fn refused(error: &Impossible) -> Refused {
    Refused(error.to_string())
}

impl Replay for Rebuild {
    fn begin(&mut self, snapshot: &SnapshotId) {
        // One that was broken in the middle: what it has is not wanted, and only one is in memory
        // at a time.
        let _ = self.take_back();
        self.batch.clear();
        self.database = Database::empty(self.seed, self.rules);
        if !self.exact {
            self.database.begin_bulk_load();
        }
        self.zxid = Zxid(snapshot.zxid);
        // Java's snapshots were written while transactions went on.
        self.mode = match snapshot.origin {
            SnapshotOrigin::Java => Mode::Tolerant,
            SnapshotOrigin::None | SnapshotOrigin::Exact { .. } => match self.author {
                Author::Standalone => Mode::Strict,
                Author::Member | Author::FormerMember => Mode::Agreed,
            },
        };
        if self.mode == Mode::Tolerant {
            self.database.expect_fuzzy();
        }
        self.awaited = None;
        self.compares = self.mode != Mode::Tolerant;
        self.is_first = matches!(snapshot.origin, SnapshotOrigin::Exact { .. });
        self.is_another_history = false;
    }

    fn session(&mut self, id: i64, timeout_ms: i32) -> Result<(), Refused> {
        self.database.load_session(SnapshotSession { id, timeout_ms });
        Ok(())
    }

    fn acl(&mut self, id: i64, acl: Vec<Acl<'_>>) -> Result<(), Refused> {
        self.database.load_acl(id, &acl);
        Ok(())
    }

    fn node(&mut self, path: &str, node: &SnapshotNode<'_>) -> Result<(), Refused> {
        if self.exact {
            return self.database.load_node(path, node).map_err(|error| refused(&error));
        }
        self.batch.push(path, node);
        if self.batch.is_full() {
            self.hand_over().map_err(|error| refused(&error))?;
        }
        Ok(())
    }

    fn again(&mut self) -> bool {
        !std::mem::replace(&mut self.exact, true)
    }

    fn end(&mut self, digest: Option<SnapshotDigest>) -> Result<(), Refused> {
        self.settle().map_err(|error| refused(&error))?;
        self.database.finish_load(self.zxid);
        self.loaded = Some(Instant::now());
        let digest = digest.filter(|digest| digest.version == DIGEST_VERSION);
        if self.mode == Mode::Tolerant {
            self.awaited = digest.filter(|digest| digest.zxid >= self.zxid.0);
            // The first one is written before anybody is served, and has none.
            self.compares = self.zxid == Zxid::ZERO && self.awaited.is_none();
            self.compare_awaited();
            return Ok(());
        }
        let said = digest.filter(|digest| digest.zxid == self.zxid.0).map(|digest| digest.digest);
        match (said, self.database.tree().digest()) {
            (Some(said), Some(found)) if said != found => Err(wrong_digest(said, found)),
            _ => Ok(()),
        }
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
        let last = self.database.last_zxid();
        let falls = Zxid(header.zxid) <= last;
        if falls && self.mode != Mode::Tolerant {
            return Err(Refused(format!(
                "it follows transaction {last}, whose zxid is not smaller: the logs overlap"
            )));
        }
        let digest = digest.filter(|_| self.compares && !falls);
        if let Err(error) =
            self.database.apply(header, txn.clone(), digest, self.mode, &mut Vec::new())
        {
            self.is_another_history |= self.is_first;
            return Err(refused(&error));
        }
        let misfit = self.database.take_misfit();
        if let Some(misfit) = &misfit {
            tell_misfit(misfit);
        }
        self.compare_awaited();
        let differs = self.tell_mismatch() || misfit.is_some();
        if std::mem::take(&mut self.is_first) {
            // A member's tree is compared with those of the others.
            self.is_another_history = differs && self.author != Author::Member;
        }
        Ok(())
    }

    fn is_another_history(&self) -> bool {
        self.is_another_history
    }
}

#[cfg(test)]
#[path = "rebuild_test.rs"]
mod rebuild_test;
