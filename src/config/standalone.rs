//! The typed configuration of a server.
//!
//! Owns defaults, units and ranges of every key that has an effect, and the checks between keys.
//! Never opens the data directory and never binds: those failures belong to whoever does.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::time::Duration;

use super::access::Access;
use super::admin::Admin;
use super::ensemble::Ensemble;
use super::logs::Logs;
use super::reaper::Reaper;
use super::server_line;
use super::settings::{Origin, Settings};
use super::throttle::Throttle;
use super::value::{self, INT_MAX, Number, native_bool, property_bool};
use super::{ConfigError, Note};
use crate::message::MessageId;

/// Everything a server is told at start; values are final, nothing is looked up later.
///
/// Defaults are ZooKeeper 3.9.5's.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Where clients are listened for (`clientPort`, `clientPortAddress`).
    pub client_listen: ListenAddress,
    /// Connections that wait to be accepted (`clientPortListenBacklog`); `None` is unset, 4096.
    pub client_listen_backlog: Option<NonZeroU32>,
    /// Whether client sockets get SO_KEEPALIVE (`clientTcpKeepAlive`, false).
    pub client_tcp_keep_alive: bool,
    /// Connections from one address (`maxClientCnxns`, 60); `None` is no limit.
    pub max_client_cnxns: Option<NonZeroU32>,
    /// Connections in all (`maxCnxns`); `None`, the default, is no limit.
    pub max_cnxns: Option<NonZeroU32>,
    /// Time a connection has to get a session (`nio.sessionlessCnxnTimeout`, 10 s); above zero.
    pub sessionless_timeout: Duration,
    /// Requests in flight before reading is paused (`globalOutstandingLimit`, 1000).
    pub global_outstanding_limit: u32,
    /// Further bounds of what is taken on.
    pub throttle: Throttle,
    /// Bytes of the largest request frame (`jute.maxbuffer`, 1048575); above zero.
    pub jute_max_buffer: u32,
    /// Bytes that a record of the log may have, `jute.maxbuffer` and `jute.maxbuffer.extrasize`,
    /// which is as much again.
    pub jute_max_record: u32,
    /// Four-letter words that are answered (`4lw.commands.whitelist`, srvr).
    pub four_letter_words: FourLetterWords,
    /// Milliseconds of a tick (`tickTime`, 3000; 2000 without a file); above zero.
    pub tick_time_ms: u32,
    /// Milliseconds (`minSessionTimeout`, 2 ticks); `min <= max`.
    pub min_session_timeout_ms: u32,
    /// Milliseconds (`maxSessionTimeout`, 20 ticks).
    pub max_session_timeout_ms: u32,
    /// Whether TTL nodes exist (`extendedTypesEnabled`, false).
    pub extended_types_enabled: bool,
    /// Parent of `version-2` with the snapshots (`dataDir`).
    pub data_dir: PathBuf,
    /// Parent of `version-2` with the log (`dataLogDir`, as `dataDir`).
    pub data_log_dir: PathBuf,
    /// Whether missing directories are created (`datadir.autocreate`, true).
    pub data_dir_autocreate: bool,
    /// Whether an empty directory is a new database (`db.autocreate`, true).
    pub db_autocreate: bool,
    /// Whether a log without any snapshot is trusted (`snapshot.trust.empty`, false).
    pub snapshot_trust_empty: bool,
    /// How snapshots are packed (`snapshot.compression.method`, not at all).
    pub snapshot_compression: SnapshotCompression,
    /// Transactions between snapshots (`snapCount`, 100000); 2 at least.
    pub snap_count: u32,
    /// Bytes of log between snapshots (`snapSizeLimitInKb`, 4 GiB); `None` is no such limit.
    pub snap_size_limit_bytes: Option<NonZeroU64>,
    /// Bytes after which a log file is followed by a new one (`txnLogSizeLimitInKb`); `None`, the
    /// default, is no such limit.
    pub txn_log_size_limit_bytes: Option<NonZeroU64>,
    /// Bytes by which a log file is filled ahead of use (`preAllocSize`, 64 MiB); `None` is not.
    pub prealloc_bytes: Option<NonZeroU64>,
    /// Syncs slower than this are logged and counted (`fsync.warningthresholdms`, 1 s).
    pub fsync_warning_threshold: Duration,
    /// Whether the log is synced before a reply (`forceSync`, true); false loses data.
    pub force_sync: bool,
    /// Whether the tree's digest stands in log and snapshots (`digest.enabled`, true).
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
    /// What stands in zoo.cfg, without its secrets; `None` without one.
    pub shown_file: Option<String>,
    /// ACLs and authentication.
    pub access: Access,
    /// Whether quotas are enforced (`enforceQuota`, false); their statistics are kept anyway.
    pub enforce_quota: bool,
    /// Whether clients may ask for a change of the membership (`reconfigEnabled`, false): alone,
    /// a server refuses it in any case, by another error.
    pub reconfig_enabled: bool,
    /// Bytes that this process may take (`memoryLimitInKb`); `None`, the default, is what its
    /// control group may.
    pub memory_limit_bytes: Option<NonZeroU64>,
    /// Bytes that clients may leave unread, all together (`unreadLimitInKb`); `None`, the default,
    /// is a part of what this process may take.
    pub unread_limit_bytes: Option<NonZeroU64>,
    /// The removal of containers and znodes with a time to live.
    pub reaper: Reaper,
    /// Where log lines and audit lines go.
    pub logs: Logs,
    /// The ensemble that this server belongs to; `None` for a standalone one.
    pub ensemble: Option<Ensemble>,
}

/// A port on one address or on all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress {
    /// `None` is every address, IPv4 and IPv6; never an unspecified address.
    pub address: Option<IpAddr>,
    /// TCP port; 0 is one that the operating system picks, which no zoo.cfg asks for.
    pub port: u16,
}

impl ListenAddress {
    /// Whether both cannot be listened on.
    fn meets(&self, other: &Self) -> bool {
        let is_same = match (self.address, other.address) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        is_same && self.port == other.port && self.port != 0
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        SocketAddr::new(address, self.port).fmt(f)
    }
}

/// When old snapshots and logs are purged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purge {
    /// 0 and less.
    Never,
    /// At the start, and then so often.
    Every(Duration),
}

/// How snapshots are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotCompression {
    /// Not at all.
    None,
    /// `gz`.
    Gzip,
    /// `snappy`.
    Snappy,
}

/// How passwords of sessions are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionPasswords {
    /// `keyed`: by a key, which nobody else knows.
    Keyed,
    /// `zookeeper`: by ZooKeeper's formula, out of the session's id.
    ZooKeepers,
}

impl fmt::Display for SessionPasswords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keyed => "keyed",
            Self::ZooKeepers => "zookeeper",
        })
    }
}

/// The four-letter words that are answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FourLetterWords {
    /// Every one, `*`.
    All,
    /// These, and `srvr` in any case.
    Listed(BTreeSet<String>),
}

impl FourLetterWords {
    /// Whether `word` is answered.
    pub fn allows(&self, word: &str) -> bool {
        match self {
            Self::All => true,
            Self::Listed(words) => words.contains(word),
        }
    }

    fn parse(list: &str) -> Self {
        let words = || list.split(',').map(str::trim).filter(|word| !word.is_empty());
        if words().any(|word| word == "*") {
            return Self::All;
        }
        Self::Listed(words().chain(["srvr"]).map(str::to_owned).collect())
    }
}

/// What counts where neither zoo.cfg nor `-D` says anything.
pub(super) struct Defaults {
    tick_time_ms: i64,
    data_dir: Option<&'static str>,
    client_listen: Option<ListenAddress>,
    has_file: bool,
}

impl Defaults {
    /// Of a start with a zoo.cfg: ZooKeeper's.
    pub(super) const WITH_FILE: Self =
        Self { tick_time_ms: 3000, data_dir: None, client_listen: None, has_file: true };
    /// Of a start without one: a server to try, for this machine only.
    pub(super) const WITHOUT_FILE: Self = Self {
        tick_time_ms: 2000,
        data_dir: Some("./ferrokeeper-data"),
        client_listen: Some(ListenAddress {
            address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            port: 2181,
        }),
        has_file: false,
    };
}

/// What ZooKeeper reads back of its log (`BinaryInputArchive`).
fn max_record(settings: &Settings, max_buffer: u32) -> Result<u32, ConfigError> {
    const LEAST_EXTRA: i64 = 1024;
    let default = max_buffer.into();
    let extra = property("jute.maxbuffer.extrasize", default, -INT_MAX, "a number of bytes")
        .read(settings)?
        .max(LEAST_EXTRA);
    Ok(u32::try_from((i64::from(max_buffer) + extra).min(INT_MAX)).unwrap_or(u32::MAX))
}

impl Config {
    /// Reads every field; `place` names the file for what is missing in it.
    pub(super) fn from_settings(
        settings: &Settings,
        defaults: &Defaults,
        place: &str,
        notes: &mut Vec<Note>,
    ) -> Result<Self, ConfigError> {
        election_algorithm(settings)?;
        let data_dir = directory(settings, "dataDir", notes)?
            .or_else(|| defaults.data_dir.map(PathBuf::from))
            .ok_or_else(|| ConfigError::NotSet {
                place: place.to_owned(),
                key: "dataDir",
                remedy: "Add a line dataDir=<directory of the snapshots and the log>.",
            })?;
        let data_log_dir =
            directory(settings, "dataLogDir", notes)?.unwrap_or_else(|| data_dir.clone());
        let client_listen = client_listen(settings, defaults)?;
        let (tick_time_ms, min_session_timeout_ms, max_session_timeout_ms) =
            session_times(settings, defaults)?;
        let ensemble = Ensemble::from_settings(settings, &data_dir, tick_time_ms, place, notes)?;
        let client_listen = match &ensemble {
            Some(ensemble) => server_line::join_member_address(settings, ensemble, client_listen),
            None => server_line::join_client_address(settings, &data_dir, client_listen, notes),
        }?
        .ok_or_else(|| nothing_to_listen_on(settings, place))?;
        let extended_types_enabled = property_bool(settings, "extendedTypesEnabled", false, notes);
        // As in ZooKeeper (`EphemeralType.validateServerId`): its sessions would be taken for times
        // to live.
        if extended_types_enabled && ensemble.as_ref().is_some_and(|its| its.my_id == u8::MAX) {
            return Err(ConfigError::Contradiction {
                place: data_dir.join("myid").display().to_string(),
                what:
                    "this server's number is 255; with extendedTypesEnabled it can be at most 254"
                        .to_owned(),
            });
        }
        let metrics_listen = metrics_listen(settings)?;
        let others =
            [("clientPort", Some(client_listen)), ("metricsProvider.httpPort", metrics_listen)];
        let admin = Admin::from_settings(settings, defaults.has_file, notes)?
            .filter(|admin| !gives_way(settings, place, ensemble.is_some(), admin, others, notes));
        let ports =
            [others[0], others[1], ("admin.serverPort", admin.as_ref().map(|admin| admin.listen))];
        expect_ports_apart(settings, place, ports)?;
        let jute_max_buffer =
            property("jute.maxbuffer", 1_048_575, 1, "a number of bytes").read_u32(settings)?;
        Ok(Self {
            client_listen,
            client_listen_backlog: native("clientPortListenBacklog", -1, "a number of connections")
                .read_limit(settings)?,
            client_tcp_keep_alive: property_bool(settings, "clientTcpKeepAlive", false, notes),
            max_client_cnxns: native("maxClientCnxns", 60, "a number of connections")
                .read_limit(settings)?,
            max_cnxns: property("maxCnxns", 0, -INT_MAX, "a number of connections")
                .read_limit(settings)?,
            sessionless_timeout: milliseconds("nio.sessionlessCnxnTimeout", 10_000, 1)
                .read_millis(settings)?,
            global_outstanding_limit: property(
                "globalOutstandingLimit",
                1000,
                0,
                "a number of requests",
            )
            .read_u32(settings)?,
            throttle: Throttle::from_settings(settings, notes)?,
            jute_max_buffer,
            jute_max_record: max_record(settings, jute_max_buffer)?,
            four_letter_words: four_letter_words(settings, notes),
            tick_time_ms,
            min_session_timeout_ms,
            max_session_timeout_ms,
            extended_types_enabled,
            data_dir,
            data_log_dir,
            data_dir_autocreate: property_bool(settings, "datadir.autocreate", true, notes),
            db_autocreate: property_bool(settings, "db.autocreate", true, notes),
            snapshot_trust_empty: property_bool(settings, "snapshot.trust.empty", false, notes),
            snapshot_compression: snapshot_compression(settings, notes),
            snap_count: snap_count(settings, notes)?,
            snap_size_limit_bytes: kilobytes(settings, "snapSizeLimitInKb", 4 << 20)?,
            txn_log_size_limit_bytes: kilobytes(settings, "txnLogSizeLimitInKb", -1)?,
            prealloc_bytes: kilobytes(settings, "preAllocSize", 64 << 10)?,
            fsync_warning_threshold: milliseconds("fsync.warningthresholdms", 1000, 0)
                .read_millis(settings)?,
            force_sync: force_sync(settings, notes),
            digest_enabled: property_bool(settings, "digest.enabled", true, notes),
            snap_retain_count: snap_retain_count(settings, notes)?,
            purge: purge(settings)?,
            metrics_listen,
            admin,
            session_passwords: session_passwords(settings)?,
            shown_file: None,
            access: Access::from_settings(settings, notes)?,
            enforce_quota: property_bool(settings, "enforceQuota", false, notes),
            reconfig_enabled: native_bool(settings, "reconfigEnabled", false)?,
            memory_limit_bytes: kilobytes(settings, "memoryLimitInKb", -1)?,
            unread_limit_bytes: kilobytes(settings, "unreadLimitInKb", -1)?,
            reaper: Reaper::from_settings(settings)?,
            logs: Logs::from_settings(settings, notes)?,
            ensemble,
        })
    }
}

fn session_passwords(settings: &Settings) -> Result<Option<SessionPasswords>, ConfigError> {
    const KEY: &str = "sessions.passwords";
    let Some(setting) = settings.get(KEY) else { return Ok(None) };
    let all = [SessionPasswords::Keyed, SessionPasswords::ZooKeepers];
    let found = all.into_iter().find(|one| setting.value == one.to_string());
    let bad = || value::bad_value(KEY, setting, "keyed or zookeeper".to_owned());
    found.map(Some).ok_or_else(bad)
}

/// A number that QuorumPeerConfig reads itself, any Java `int`.
fn native(key: &'static str, default: i64, what: &'static str) -> Number {
    Number { key, default, range: -INT_MAX - 1..=INT_MAX, what }
}

/// A number that ZooKeeper reads as a system property.
pub(super) fn property(key: &'static str, default: i64, least: i64, what: &'static str) -> Number {
    Number { key, default, range: least..=INT_MAX, what }
}

fn milliseconds(key: &'static str, default: i64, least: i64) -> Number {
    property(key, default, least, "a number of milliseconds")
}

impl Number {
    fn read_millis(&self, settings: &Settings) -> Result<Duration, ConfigError> {
        self.read_u32(settings).map(|millis| Duration::from_millis(millis.into()))
    }
}

/// Bytes of a key in KB; zero and less is `None`.
fn kilobytes(
    settings: &Settings,
    key: &'static str,
    default: i64,
) -> Result<Option<NonZeroU64>, ConfigError> {
    let range = i64::MIN..=i64::MAX >> 10;
    let number = Number { key, default, range, what: "a number of KB" };
    let kilobytes = u64::try_from(number.read(settings)?).unwrap_or_default();
    Ok(NonZeroU64::new(kilobytes << 10))
}

fn election_algorithm(settings: &Settings) -> Result<(), ConfigError> {
    match settings.get("electionAlg") {
        Some(setting) if setting.value.parse() != Ok(3) => {
            Err(value::bad_value("electionAlg", setting, "3, the only one supported".to_owned()))
        }
        _ => Ok(()),
    }
}

fn directory(
    settings: &Settings,
    key: &'static str,
    notes: &mut Vec<Note>,
) -> Result<Option<PathBuf>, ConfigError> {
    let Some(setting) = settings.get(key) else {
        return Ok(None);
    };
    let origin = &setting.origin;
    if setting.value.is_empty() || setting.value.contains('\0') {
        return Err(value::bad_value(key, setting, "a directory".to_owned()));
    }
    let path = PathBuf::from(&setting.value);
    if path.is_relative() && !path.starts_with(".") {
        let text = format!(
            "{origin}: {key} is relative to the working directory: {}; write ./{} if that is intended",
            path.display(),
            path.display()
        );
        notes.push(Note::warning(MessageId::RELATIVE_DIRECTORY, text));
    }
    if !setting.value.is_ascii() && matches!(origin, Origin::Line(..)) {
        notes.push(Note::warning(
            MessageId::DIRECTORY_IN_LATIN_1,
            format!("{origin}: {key} was read as Latin-1, as Java reads it: {}", path.display()),
        ));
    }
    Ok(Some(path))
}

fn client_listen(
    settings: &Settings,
    defaults: &Defaults,
) -> Result<Option<ListenAddress>, ConfigError> {
    let port = native("clientPort", 0, "a TCP port");
    let port = Number { range: 0..=u16::MAX.into(), ..port }.read(settings)?;
    let address = value::address(settings, "clientPortAddress")?;
    let asked = settings.get("clientPortAddress");
    match (u16::try_from(port).unwrap_or_default(), defaults.client_listen, asked) {
        (0, None, None) => Ok(None),
        (0, None, Some(setting)) => Err(ConfigError::NotSet {
            place: setting.origin.to_string(),
            key: "clientPort",
            remedy: "Add clientPort, or remove clientPortAddress.",
        }),
        (port, default, _) => Ok(Some(ListenAddress {
            address: match asked {
                Some(_) => address,
                None => default.and_then(|default| default.address),
            },
            port: if port == 0 { default.map_or(0, |default| default.port) } else { port },
        })),
    }
}

fn nothing_to_listen_on(settings: &Settings, place: &str) -> ConfigError {
    let remedy = match settings.is_set("secureClientPort") {
        true => {
            "Add clientPort: secureClientPort has no effect, because this version has no TLS for clients."
        }
        false => "Add clientPort, such as clientPort=2181: there is nothing to listen on.",
    };
    let place = settings.place_of("secureClientPort", place);
    ConfigError::NotSet { place, key: "clientPort", remedy }
}

/// Milliseconds of a tick, of the least and of the greatest session timeout.
fn session_times(settings: &Settings, defaults: &Defaults) -> Result<(u32, u32, u32), ConfigError> {
    let time = |key, default, least: i64| {
        let number = native(key, default, "a number of milliseconds");
        Number { range: least..=INT_MAX, ..number }.read(settings)
    };
    let tick = time("tickTime", defaults.tick_time_ms, 1)?;
    // -1 is the default when written, too.
    let timeout = |key, ticks: i64| match time(key, -1, -1)? {
        -1 => Ok((tick * ticks).min(INT_MAX)),
        timeout => Ok(timeout),
    };
    let min = timeout("minSessionTimeout", 2)?;
    let max = timeout("maxSessionTimeout", 20)?;
    if min > max {
        let culprit =
            settings.get("minSessionTimeout").or_else(|| settings.get("maxSessionTimeout"));
        return Err(ConfigError::Contradiction {
            place: culprit.map(|setting| setting.origin.to_string()).unwrap_or_default(),
            what: format!("minSessionTimeout {min} is larger than maxSessionTimeout {max}"),
        });
    }
    let unsigned = |time: i64| u32::try_from(time).unwrap_or(u32::MAX);
    Ok((unsigned(tick), unsigned(min), unsigned(max)))
}

fn four_letter_words(settings: &Settings, notes: &mut Vec<Note>) -> FourLetterWords {
    const KNOWN: [&str; 18] = [
        "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok",
        "srst", "srvr", "stat", "stmk", "wchc", "wchp", "wchs",
    ];
    let setting = settings.get("4lw.commands.whitelist");
    let mut words = FourLetterWords::parse(setting.map_or("", |setting| &setting.value));
    // What a client asks that looks for a server to write to.
    if let FourLetterWords::Listed(words) = &mut words
        && settings.says_true("readonlymode.enabled")
    {
        words.insert("isro".to_owned());
    }
    let Some(setting) = setting else { return words };
    if let FourLetterWords::Listed(words) = &words {
        for word in words.iter().filter(|word| !KNOWN.contains(&word.as_str())) {
            notes.push(Note::warning(
                MessageId::UNKNOWN_FOUR_LETTER_WORD,
                format!(
                    "{}: 4lw.commands.whitelist has {word:?}, which is not a four-letter word command",
                    setting.origin
                ),
            ));
        }
    }
    words
}

/// Any case counts, and what is neither word leaves snapshots plain, as in ZooKeeper.
fn snapshot_compression(settings: &Settings, notes: &mut Vec<Note>) -> SnapshotCompression {
    let Some(setting) = settings.get("snapshot.compression.method") else {
        return SnapshotCompression::None;
    };
    match setting.value.to_ascii_lowercase().as_str() {
        "" => SnapshotCompression::None,
        "gz" => SnapshotCompression::Gzip,
        "snappy" => SnapshotCompression::Snappy,
        other => {
            let text = format!(
                "{}: snapshot.compression.method is {other:?}, neither gz nor snappy: snapshots \
                 are not compressed",
                setting.origin
            );
            notes.push(Note::warning(MessageId::UNKNOWN_WORD, text));
            SnapshotCompression::None
        }
    }
}

fn snap_count(settings: &Settings, notes: &mut Vec<Note>) -> Result<u32, ConfigError> {
    let number = property("snapCount", 100_000, -INT_MAX - 1, "a number of transactions");
    raised(number.read(settings)?, 2, &number, settings, notes)
}

fn snap_retain_count(settings: &Settings, notes: &mut Vec<Note>) -> Result<u32, ConfigError> {
    let number = native("autopurge.snapRetainCount", 3, "a number of snapshots");
    raised(number.read(settings)?, 3, &number, settings, notes)
}

/// A value below the least is raised to it, as ZooKeeper does, with a warning.
fn raised(
    value: i64,
    least: u32,
    number: &Number,
    settings: &Settings,
    notes: &mut Vec<Note>,
) -> Result<u32, ConfigError> {
    if value >= least.into() {
        return Ok(u32::try_from(value).unwrap_or(u32::MAX));
    }
    if let Some(setting) = settings.get(number.key) {
        notes.push(Note::warning(
            MessageId::NUMBER_OUT_OF_RANGE,
            format!(
                "{}: {} is {value}, raised to {least}, the minimum",
                setting.origin, number.key
            ),
        ));
    }
    Ok(least)
}

/// Only the word `no` switches syncing off: whoever writes anything else keeps it, as in ZooKeeper.
fn force_sync(settings: &Settings, notes: &mut Vec<Note>) -> bool {
    let Some(setting) = settings.get("forceSync") else {
        return true;
    };
    let origin = &setting.origin;
    match setting.value.as_str() {
        "yes" => true,
        "no" => {
            notes.push(Note::warning(
                MessageId::FORCE_SYNC_OFF,
                format!(
                    "{origin}: forceSync=no: ACKNOWLEDGED CHANGES CAN BE LOST when this machine \
                 crashes or loses power, because the log is not synced"
                ),
            ));
            false
        }
        other => {
            notes.push(Note::warning(
                MessageId::UNKNOWN_WORD,
                format!("{origin}: forceSync is {other:?}, neither yes nor no: the log is synced"),
            ));
            true
        }
    }
}

/// Between two purges where zoo.cfg says nothing.
const PURGE_INTERVAL: Duration = Duration::from_secs(3600);

fn purge(settings: &Settings) -> Result<Purge, ConfigError> {
    const KEY: &str = "autopurge.purgeInterval";
    let hours = native(KEY, 0, "a number of hours").read_limit(settings)?;
    Ok(match hours {
        Some(hours) => Purge::Every(Duration::from_secs(u64::from(hours.get()) * 3600)),
        None if settings.get(KEY).is_some() => Purge::Never,
        // ZooKeeper purges nothing then, and its operators' disks fill up.
        None => Purge::Every(PURGE_INTERVAL),
    })
}

/// Whether another has the port that the AdminServer wants, and is served without it. ZooKeeper
/// does so in an ensemble, and alone does not start; here a server alone refuses only the port that
/// somebody set.
fn gives_way(
    settings: &Settings,
    place: &str,
    is_member: bool,
    admin: &Admin,
    others: [(&'static str, Option<ListenAddress>); 2],
    notes: &mut Vec<Note>,
) -> bool {
    const KEY: &str = "admin.serverPort";
    let is_set = settings.is_set(KEY);
    if is_set && !is_member {
        return false;
    }
    let meets = |other: &ListenAddress| other.meets(&admin.listen);
    let Some((key, _)) = others.into_iter().find(|(_, its)| its.as_ref().is_some_and(meets)) else {
        return false;
    };
    let port = admin.listen.port;
    let what = match is_set {
        true => {
            format!("{}: {KEY} and {key} are both port {port}", settings.place_of(KEY, place))
        }
        false => format!(
            "{}: {key} is {port}, the default port of the AdminServer",
            settings.place_of(key, place)
        ),
    };
    let text = format!(
        "{what}: there is no AdminServer. Set {KEY} to another port, or admin.enableServer=false"
    );
    notes.push(Note::warning(MessageId::NO_ADMIN_SERVER, text));
    true
}

/// Two that want one port: only the first one would have it.
fn expect_ports_apart(
    settings: &Settings,
    place: &str,
    ports: [(&'static str, Option<ListenAddress>); 3],
) -> Result<(), ConfigError> {
    let ports: Vec<_> = ports.into_iter().filter_map(|(key, its)| Some((key, its?))).collect();
    for (at, (key, one)) in ports.iter().enumerate() {
        for (other_key, other) in ports.iter().skip(at + 1) {
            if one.meets(other) {
                let own = |key: &str| if settings.is_set(key) { "" } else { " (by default)" };
                return Err(ConfigError::Contradiction {
                    place: settings
                        .place_of(if settings.is_set(other_key) { other_key } else { key }, place),
                    what: format!(
                        "{key}{} and {other_key}{} are both port {}",
                        own(key),
                        own(other_key),
                        one.port
                    ),
                });
            }
        }
    }
    Ok(())
}

fn metrics_listen(settings: &Settings) -> Result<Option<ListenAddress>, ConfigError> {
    const KEY: &str = "metricsProvider.className";
    const NONE: [&str; 2] = [
        "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
        "org.apache.zookeeper.metrics.impl.NullMetricsProvider",
    ];
    const PROMETHEUS: &str = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
    match settings.get(KEY) {
        None => return Ok(None),
        Some(setting) if NONE.contains(&&*setting.value) => return Ok(None),
        Some(setting) if setting.value == PROMETHEUS => {}
        Some(setting) => {
            return Err(value::bad_value(KEY, setting, format!("{PROMETHEUS} or {}", NONE[0])));
        }
    }
    let port = native("metricsProvider.httpPort", 7000, "a TCP port");
    let port = Number { range: 0..=u16::MAX.into(), ..port }.read(settings)?;
    let address = value::address(settings, "metricsProvider.httpHost")?;
    Ok(Some(ListenAddress { address, port: u16::try_from(port).unwrap_or_default() }))
}
