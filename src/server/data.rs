//! The data directory at a start: what is in it, or the beginning of what will be.

use std::collections::HashSet;
use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::ServerError;
use super::clock::{self, Clock};
use super::timed_disk::{TimedDisk, UnfinishedWrites};
use crate::config::{self, Config, SessionPasswords, SnapshotCompression};
use crate::engine::database::{Database, Rules};
use crate::engine::zxid::Zxid;
use crate::ensemble::standing::Begins;
use crate::ensemble::{Ensemble, List, Rebuild, first_snapshot};
use crate::message::MessageId;
use crate::planted;
use crate::storage::{
    self, Compression, DataDirectory, DirectoryOptions, LogOptions, RaftStateFile, RealDisk,
    Recovered, RecoveryOptions, SessionKey, SessionSecret, SnapshotOrigin, StorageError,
};

/// Far enough from the last number that whatever is decided at once has one.
const ZXIDS_A_TERM: u32 = u32::MAX - (1 << 24);

/// What a data directory holds.
pub(super) struct Data {
    pub(super) database: Database,
    pub(super) recovered: Recovered,
    /// What session passwords are made of, if it is not ZooKeeper's formula.
    pub(super) secret: Option<SessionSecret>,
    pub(super) times: LoadTimes,
}

/// How long a start took, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadTimes {
    pub(super) snapshot: u64,
    pub(super) txns: u64,
    pub(super) all: u64,
}

impl Data {
    /// Reads it.
    pub(super) fn read(config: &Config, directory: &DataDirectory) -> Result<Self, ServerError> {
        let started = Instant::now();
        let mut rebuild = rebuild(config)?.of(directory)?;
        let recovered = storage::recover(
            directory,
            RecoveryOptions { trust_empty: config.snapshot_trust_empty, log: log_options(config) },
            &mut rebuild,
        )?;
        let loaded = rebuild.loaded().unwrap_or(started);
        let times = LoadTimes {
            snapshot: clock::millis(loaded.duration_since(started)),
            txns: clock::millis(loaded.elapsed()),
            all: clock::millis(started.elapsed()),
        };
        if recovered.fresh {
            may_begin(config)?;
        }
        let mut database = rebuild.finish();
        if recovered.fresh {
            first_snapshot(directory, &mut database, compression(config))?;
        }
        let wanted = config.session_passwords;
        let secret = session_secret(directory, &recovered, &database, wanted)?;
        tell_if_differs(wanted, secret.as_ref(), &database);
        tracing::info!(
            directory = %directory.snapshots().display(),
            zxid = %Zxid(recovered.last_zxid),
            znodes = database.tree().count(),
            sessions = database.sessions().len(),
            replayed = recovered.txns,
            bytes_cut = recovered.bytes_cut,
            ms = clock::millis(started.elapsed()),
            "recovered the data directory"
        );
        Ok(Self { database, recovered, secret, times })
    }
}

/// A directory, and what has not returned of what is written to it.
type Opened = (Arc<DataDirectory>, Arc<UnfinishedWrites>);

/// Takes the directory of a server that is alone.
pub(super) fn open_alone(config: &Config) -> Result<Opened, ServerError> {
    let (directory, unfinished) = open_directory(config)?;
    RaftStateFile::refuse_member(&directory)?;
    Ok((directory, unfinished))
}

/// How the directory of a member of an ensemble, or of who is to be one, is kept, and it.
pub(super) fn open_member(
    config: &Config,
    members: &config::Ensemble,
) -> Result<(Ensemble, Arc<DataDirectory>, Arc<UnfinishedWrites>), ServerError> {
    let (directory, unfinished) = open_directory(config)?;
    let ensemble = Ensemble {
        server: members.my_id,
        recovery: RecoveryOptions {
            trust_empty: config.snapshot_trust_empty,
            log: log_options(config),
        },
        rules: rules(config),
        seed: random()?,
        zxids_a_term: ZXIDS_A_TERM,
        list: Some(List { list: members.list.clone(), since: Clock::wall() }),
        standalone_enabled: members.standalone_enabled,
    };
    Ok((ensemble, directory, unfinished))
}

/// The state of a server before it has read any.
pub(super) fn empty(config: &Config) -> Result<Database, ServerError> {
    Ok(Database::new(random()?, rules(config)))
}

/// A state to be made of what is read.
pub(super) fn rebuild(config: &Config) -> Result<Rebuild, ServerError> {
    Ok(Rebuild::new(random()?, rules(config)))
}

fn rules(config: &Config) -> Rules {
    Rules {
        extended_types: config.extended_types_enabled,
        digest: config.digest_enabled,
        skip_acl: config.access.skip_acl && !planted::is("skip-acl-off"),
        digest_scheme: config.access.digest.is_some(),
        reconfig: config.reconfig_enabled,
        max_never_used_ms: config
            .containers
            .max_never_used
            .map(|max| clock::millis(max).cast_signed()),
        enforce_quota: config.enforce_quota,
        record_max: (config.jute_max_record as usize).min(storage::RECORD_MAX),
    }
}

fn open_directory(config: &Config) -> Result<Opened, StorageError> {
    let data_log_dir = match planted::is("log-dir-ignored") {
        true => config.data_dir.clone(),
        false => config.data_log_dir.clone(),
    };
    let options = DirectoryOptions {
        data_dir: config.data_dir.clone(),
        data_log_dir,
        create: config.data_dir_autocreate,
    };
    let unfinished = Arc::new(UnfinishedWrites::default());
    let disk = TimedDisk::new(Arc::new(RealDisk), Arc::clone(&unfinished));
    Ok((Arc::new(DataDirectory::open(Arc::new(disk), &options)?), unfinished))
}

pub(super) fn compression(config: &Config) -> Compression {
    match config.snapshot_compression {
        _ if planted::is("snapshots-plain") => Compression::None,
        SnapshotCompression::None => Compression::None,
        SnapshotCompression::Gzip => Compression::Gzip,
        SnapshotCompression::Snappy => Compression::Snappy,
    }
}

/// A log file ends where the next one is prepared, or earlier where zoo.cfg wants it.
pub(super) fn log_options(config: &Config) -> LogOptions {
    let mut options = LogOptions::new(kilobytes(config.prealloc_bytes), config.force_sync);
    if let Some(limit) = config.txn_log_size_limit_bytes {
        options.segment_len = options.segment_len.min(limit.get());
    }
    options
}

fn kilobytes(bytes: Option<NonZeroU64>) -> i64 {
    bytes.map_or(0, |bytes| i64::try_from(bytes.get() / 1024).unwrap_or(i64::MAX))
}

fn random() -> Result<u64, ServerError> {
    let mut bytes = [0; 8];
    fill_random(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Whether the empty directory of a server that is alone may become a database.
fn may_begin(config: &Config) -> Result<(), ServerError> {
    let is_marked = std::fs::remove_file(marker(config)).is_ok();
    if is_marked || config.db_autocreate {
        Ok(())
    } else {
        Err(ServerError::NoDatabase(config.data_dir.display().to_string()))
    }
}

/// How the empty directory of one of several servers may become a database: by `db.autocreate`, or
/// by the marker that `zkServer-initialize.sh` leaves in the data directory.
pub(super) fn begins(config: &Config) -> Begins {
    match (marker(config).exists(), config.db_autocreate) {
        (true, _) => Begins::Marked,
        (false, true) => Begins::WithAll,
        (false, false) => Begins::Never,
    }
}

/// The marker counts once.
pub(super) fn use_up_marker(config: &Config) {
    // There is none as a rule.
    let _ = std::fs::remove_file(marker(config));
}

fn marker(config: &Config) -> PathBuf {
    config.data_dir.join("initialize")
}

/// The key of a directory in which nothing has happened is made, that of an earlier one read:
/// after the first snapshot, so that a key without one tells of a snapshot that is gone. A
/// directory that ZooKeeper wrote last has none: its sessions have ZooKeeper's passwords, and those
/// of before ended under ZooKeeper, which does not know the key. Where ZooKeeper's are wanted, a
/// key goes with the last open session that depends on it.
fn session_secret(
    directory: &DataDirectory,
    recovered: &Recovered,
    database: &Database,
    wanted: Option<SessionPasswords>,
) -> Result<Option<SessionSecret>, ServerError> {
    let disk = directory.disk().as_ref();
    let folder = directory.snapshots();
    if recovered.snapshot.origin == SnapshotOrigin::Java {
        SessionKey::remove(disk, folder)?;
        return Ok(None);
    }
    let found = SessionSecret::read(disk, folder)?;
    if wanted == Some(SessionPasswords::ZooKeepers) {
        let Some(secret) = found else { return Ok(None) };
        if depending(&secret, database) > 0 {
            return Ok(Some(secret));
        }
        SessionSecret::install(None, disk, folder)?;
        tracing::info!(
            "session.key is removed: sessions.passwords is zookeeper, and no open session depends \
             on it"
        );
        return Ok(None);
    }
    let is_begun = recovered.fresh || (recovered.last_zxid == 0 && recovered.txns == 0);
    if found.is_some() || !is_begun {
        return Ok(found);
    }
    let mut bytes = [0; SessionKey::LEN];
    fill_random(&mut bytes)?;
    let key = SessionKey::create(disk, folder, bytes)?;
    Ok(Some(SessionSecret { key, before: Vec::new() }))
}

/// How many open sessions have passwords that depend on the key.
pub(super) fn depending(secret: &SessionSecret, database: &Database) -> usize {
    let before: HashSet<i64> = secret.before.iter().copied().collect();
    database.sessions().keys().filter(|session| !before.contains(&session.0)).count()
}

/// Says which passwords count, where others are wanted.
pub(super) fn tell_if_differs(
    wanted: Option<SessionPasswords>,
    secret: Option<&SessionSecret>,
    database: &Database,
) {
    let (counts, sessions) = match secret {
        Some(secret) => (SessionPasswords::Keyed, depending(secret, database)),
        None => (SessionPasswords::ZooKeepers, database.sessions().len()),
    };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != counts) {
        tracing::warn!(
            id = %MessageId::SESSION_PASSWORDS_DIFFER,
            %wanted,
            %counts,
            sessions,
            "sessions.passwords in zoo.cfg is not in effect here: it applies only when a directory \
             or an ensemble begins"
        );
    }
}

fn fill_random(bytes: &mut [u8]) -> Result<(), ServerError> {
    getrandom::fill(bytes)
        .map_err(|error| ServerError::System("random bytes", io::Error::other(error)))
}
