//! The typed configuration of a server: every field that a key fills.
//!
//! Owns the units of the fields, and the order in which keys are read. Never opens the data
//! directory and never binds: those failures belong to whoever does.

use std::net::{IpAddr, Ipv4Addr};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::access::Access;
use super::admin::Admin;
use super::containers::Containers;
use super::error::Found;
use super::files::{self, Purge, SnapshotCompression};
use super::keys::INT_MAX;
use super::logs::Logs;
use super::members::{Beside, Ensemble};
use super::ports::{self, ListenAddress};
use super::sessions::{self, SessionPasswords};
use super::settings::Settings;
use super::shown_file::ZooCfg;
use super::throttle::Throttle;
use super::value::{
    bad_value, kilobytes, limit, millis, native_bool, property_bool, set_number, unsigned,
};
use super::whitelist::{FourLetterWords, four_letter_words};
use super::{ConfigError, Note};

/// Everything a server is told at start; values are final, nothing is looked up later.
///
/// Defaults stand in the table of keys; nearly all are ZooKeeper 3.9.5's.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where clients are listened for (`clientPort`, `clientPortAddress`).
    pub client_listen: ListenAddress,
    /// Connections that wait to be accepted (`clientPortListenBacklog`); `None` is unset, 4096.
    pub client_listen_backlog: Option<NonZeroU32>,
    /// Whether client sockets get SO_KEEPALIVE (`clientTcpKeepAlive`).
    pub client_tcp_keep_alive: bool,
    /// Connections from one address (`maxClientCnxns`); `None` is no limit.
    pub max_client_cnxns: Option<NonZeroU32>,
    /// Connections in all (`maxCnxns`); `None`, the default, is no limit.
    pub max_cnxns: Option<NonZeroU32>,
    /// Time a connection has to get a session (`nio.sessionlessCnxnTimeout`); above zero.
    pub sessionless_timeout: Duration,
    /// Requests in flight before reading is paused (`globalOutstandingLimit`).
    pub global_outstanding_limit: u32,
    /// Further bounds of what is taken on.
    pub throttle: Throttle,
    /// Bytes of the largest request frame (`jute.maxbuffer`); above zero.
    pub jute_max_buffer: u32,
    /// Bytes that a record of the log may have, `jute.maxbuffer` and `jute.maxbuffer.extrasize`,
    /// which is as much again.
    pub jute_max_record: u32,
    /// Four-letter words that are answered (`4lw.commands.whitelist`, srvr).
    pub four_letter_words: FourLetterWords,
    /// Milliseconds of a tick (`tickTime`); above zero.
    pub tick_time_ms: u32,
    /// Milliseconds (`minSessionTimeout`, 2 ticks); `min <= max`.
    pub min_session_timeout_ms: u32,
    /// Milliseconds (`maxSessionTimeout`, 20 ticks).
    pub max_session_timeout_ms: u32,
    /// Whether TTL nodes exist (`extendedTypesEnabled`).
    pub extended_types_enabled: bool,
    /// Parent of `version-2` with the snapshots (`dataDir`).
    pub data_dir: PathBuf,
    /// Parent of `version-2` with the log (`dataLogDir`, as `dataDir`).
    pub data_log_dir: PathBuf,
    /// Whether missing directories are created (`datadir.autocreate`).
    pub data_dir_autocreate: bool,
    /// Whether an empty directory is a new database (`db.autocreate`).
    pub db_autocreate: bool,
    /// Whether a log without any snapshot is trusted (`snapshot.trust.empty`).
    pub snapshot_trust_empty: bool,
    /// How snapshots are packed (`snapshot.compression.method`, not at all).
    pub snapshot_compression: SnapshotCompression,
    /// Transactions between snapshots (`snapCount`); 2 at least.
    pub snap_count: u32,
    /// Bytes of log between snapshots (`snapSizeLimitInKb`); `None` is no such limit.
    pub snap_size_limit_bytes: Option<NonZeroU64>,
    /// Bytes after which a log file is followed by a new one (`txnLogSizeLimitInKb`); `None`, the
    /// default, is no such limit.
    pub txn_log_size_limit_bytes: Option<NonZeroU64>,
    /// Bytes by which a log file is filled ahead of use (`preAllocSize`); `None` is not.
    pub prealloc_bytes: Option<NonZeroU64>,
    /// Syncs slower than this are logged and counted (`fsync.warningthresholdms`).
    pub fsync_warning_threshold: Duration,
    /// Whether the log is synced before a reply (`forceSync`, true); false loses data.
    pub force_sync: bool,
    /// Whether the tree's digest stands in log and snapshots (`digest.enabled`).
    pub digest_enabled: bool,
    /// Snapshots that a purge leaves (`autopurge.snapRetainCount`); 3 at least.
    pub snap_retain_count: u32,
    /// When old files are purged (`autopurge.purgeInterval`, in hours).
    pub purge: Purge,
    /// Where `/metrics` is served (`metricsProvider.*`); `None`, the default, is nowhere.
    pub metrics_listen: Option<ListenAddress>,
    /// The AdminServer (`admin.*`); `None` where it is switched off.
    pub admin: Option<Admin>,
    /// How passwords of sessions are made in what begins here (`sessions.passwords`); `None` is
    /// unset, by a key where every server can have it.
    pub session_passwords: Option<SessionPasswords>,
    /// The zoo.cfg that was read; `None` without one.
    pub file: Option<ZooCfg>,
    /// ACLs and authentication.
    pub access: Access,
    /// Whether quotas are enforced (`enforceQuota`); their statistics are kept anyway.
    pub enforce_quota: bool,
    /// Whether clients may ask for a change of the membership (`reconfigEnabled`): alone,
    /// a server refuses it in any case, by another error.
    pub reconfig_enabled: bool,
    /// Bytes that this process may take (`memoryLimitInKb`); `None`, the default, is what its
    /// control group may.
    pub memory_limit_bytes: Option<NonZeroU64>,
    /// Bytes that clients may leave unread, all together (`unreadLimitInKb`); `None`, the default,
    /// is a part of what this process may take.
    pub unread_limit_bytes: Option<NonZeroU64>,
    /// The removal of containers and znodes with a time to live.
    pub containers: Containers,
    /// Where log lines and audit lines go.
    pub logs: Logs,
    /// The ensemble that this server belongs to; `None` for a standalone one.
    pub ensemble: Option<Ensemble>,
}

/// What counts where neither zoo.cfg nor `-D` says anything.
pub(super) struct Defaults {
    tick_time_ms: Option<i64>,
    data_dir: Option<&'static str>,
    client_listen: Option<ListenAddress>,
    has_file: bool,
}

impl Defaults {
    /// Of a start with a zoo.cfg: ZooKeeper's.
    pub(super) const WITH_FILE: Self =
        Self { tick_time_ms: None, data_dir: None, client_listen: None, has_file: true };
    /// Of a start without one: a server to try, for this machine only.
    pub(super) const WITHOUT_FILE: Self = Self {
        tick_time_ms: Some(2000),
        data_dir: Some("./ferrokeeper-data"),
        client_listen: Some(ListenAddress {
            address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            port: 2181,
        }),
        has_file: false,
    };
}

/// The fields that several keys settle between them.
struct Settled {
    data_dir: PathBuf,
    data_log_dir: PathBuf,
    /// Of a tick, of the least and of the greatest session timeout.
    times_ms: (u32, u32, u32),
    ensemble: Option<Ensemble>,
    extended_types_enabled: bool,
    client_listen: ListenAddress,
    metrics_listen: Option<ListenAddress>,
    admin: Option<Admin>,
}

/// Stands for what was refused, so that the rest can be judged.
const NOWHERE: ListenAddress = ListenAddress { address: None, port: 0 };

impl Settled {
    /// With what was refused in `found`, and something in its place.
    fn from_settings(
        settings: &Settings,
        defaults: &Defaults,
        place: &str,
        notes: &mut Vec<Note>,
        found: &mut Found,
    ) -> Result<Self, ConfigError> {
        let (data_dir, data_log_dir) =
            files::directories(settings, defaults.data_dir, place, notes)?;
        let clients = found.take(ports::clients(settings, defaults.client_listen));
        let times = sessions::times(settings, defaults.tick_time_ms);
        let times_ms = found.take(times).unwrap_or_default();
        let beside = Beside { data_dir: &data_dir, tick_ms: times_ms.0 };
        let ensemble = Ensemble::from_settings(settings, place, &beside, notes, found);
        let (whose, is_member) = (ensemble.as_ref(), settings.is_ensemble());
        let client_listen = match clients {
            Some(clients) if whose.is_some() || !is_member => found
                .take(ports::clients_by_list(settings, place, &data_dir, whose, clients, notes)),
            // What its own line says is not known.
            clients => clients.flatten(),
        };
        let client_listen = client_listen.unwrap_or(NOWHERE);
        let extended_types_enabled =
            found.take(extended_types_enabled(settings, &data_dir, whose, notes));
        let has_file = defaults.has_file;
        let operators =
            ports::operators(settings, place, has_file, is_member, client_listen, notes);
        let (metrics_listen, admin) = found.take(operators).unwrap_or_default();
        Ok(Self {
            data_dir,
            data_log_dir,
            times_ms,
            ensemble,
            extended_types_enabled: extended_types_enabled.unwrap_or_default(),
            client_listen,
            metrics_listen,
            admin,
        })
    }
}

impl Config {
    /// Reads every field; `place` names the file for what is missing in it. It is of use only if
    /// nothing was `found` against it.
    pub(super) fn from_settings(
        settings: &Settings,
        defaults: &Defaults,
        place: &str,
        notes: &mut Vec<Note>,
        found: &mut Found,
    ) -> Result<Self, ConfigError> {
        election_algorithm(settings)?;
        let settled = Settled::from_settings(settings, defaults, place, notes, found)?;
        let (tick_time_ms, min_session_timeout_ms, max_session_timeout_ms) = settled.times_ms;
        let jute_max_buffer = unsigned(settings, "jute.maxbuffer")?;
        Ok(Self {
            client_listen: settled.client_listen,
            client_listen_backlog: limit(settings, "clientPortListenBacklog")?,
            client_tcp_keep_alive: property_bool(settings, "clientTcpKeepAlive", notes),
            max_client_cnxns: limit(settings, "maxClientCnxns")?,
            max_cnxns: limit(settings, "maxCnxns")?,
            sessionless_timeout: millis(settings, "nio.sessionlessCnxnTimeout")?,
            global_outstanding_limit: unsigned(settings, "globalOutstandingLimit")?,
            throttle: Throttle::from_settings(settings, notes)?,
            jute_max_buffer,
            jute_max_record: max_record(settings, jute_max_buffer)?,
            four_letter_words: four_letter_words(settings, notes),
            tick_time_ms,
            min_session_timeout_ms,
            max_session_timeout_ms,
            extended_types_enabled: settled.extended_types_enabled,
            data_dir: settled.data_dir,
            data_log_dir: settled.data_log_dir,
            data_dir_autocreate: property_bool(settings, "datadir.autocreate", notes),
            db_autocreate: property_bool(settings, "db.autocreate", notes),
            snapshot_trust_empty: property_bool(settings, "snapshot.trust.empty", notes),
            snapshot_compression: files::snapshot_compression(settings, notes),
            snap_count: files::snap_count(settings, notes)?,
            snap_size_limit_bytes: kilobytes(settings, "snapSizeLimitInKb")?,
            txn_log_size_limit_bytes: kilobytes(settings, "txnLogSizeLimitInKb")?,
            prealloc_bytes: kilobytes(settings, "preAllocSize")?,
            fsync_warning_threshold: millis(settings, "fsync.warningthresholdms")?,
            force_sync: files::force_sync(settings, notes),
            digest_enabled: property_bool(settings, "digest.enabled", notes),
            snap_retain_count: files::snap_retain_count(settings, notes)?,
            purge: files::purge(settings)?,
            metrics_listen: settled.metrics_listen,
            admin: settled.admin,
            session_passwords: sessions::passwords(settings)?,
            file: None,
            access: Access::from_settings(settings, notes)?,
            enforce_quota: property_bool(settings, "enforceQuota", notes),
            reconfig_enabled: native_bool(settings, "reconfigEnabled")?,
            memory_limit_bytes: kilobytes(settings, "memoryLimitInKb")?,
            unread_limit_bytes: kilobytes(settings, "unreadLimitInKb")?,
            containers: Containers::from_settings(settings)?,
            logs: Logs::from_settings(settings, notes)?,
            ensemble: settled.ensemble,
        })
    }
}

fn election_algorithm(settings: &Settings) -> Result<(), ConfigError> {
    match settings.get("electionAlg") {
        Some(setting) if setting.value.parse() != Ok(3) => {
            Err(bad_value("electionAlg", setting, "3, the only one supported".to_owned()))
        }
        _ => Ok(()),
    }
}

/// As in ZooKeeper (`EphemeralType.validateServerId`), not on server 255: its sessions would be
/// taken for times to live.
fn extended_types_enabled(
    settings: &Settings,
    data_dir: &Path,
    ensemble: Option<&Ensemble>,
    notes: &mut Vec<Note>,
) -> Result<bool, ConfigError> {
    let enabled = property_bool(settings, "extendedTypesEnabled", notes);
    if enabled && ensemble.is_some_and(|its| its.my_id == u8::MAX) {
        return Err(ConfigError::Contradiction {
            place: data_dir.join("myid").display().to_string(),
            what: "this server's number is 255; with extendedTypesEnabled it can be at most 254"
                .to_owned(),
        });
    }
    Ok(enabled)
}

/// What ZooKeeper reads back of its log (`BinaryInputArchive`).
fn max_record(settings: &Settings, max_buffer: u32) -> Result<u32, ConfigError> {
    const LEAST_EXTRA: i64 = 1024;
    let max_buffer = i64::from(max_buffer);
    let extra = set_number(settings, "jute.maxbuffer.extrasize")?.unwrap_or(max_buffer);
    let record = max_buffer + extra.max(LEAST_EXTRA);
    Ok(u32::try_from(record.min(INT_MAX)).unwrap_or(u32::MAX))
}
