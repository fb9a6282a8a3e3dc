//! The server list: who belongs to the ensemble, and which of them this server is.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use super::error::Found;
use super::quorum::{self, QuorumSecurity};
use super::server_line::{self, FORM, ServerLine};
use super::settings::{Setting, Settings};
use super::value::{bad_value, native_bool, set_number};
use super::{ConfigError, ListenAddress, Note};
use crate::message::MessageId;
use crate::planted;

/// The members of an ensemble, from the lines `server.N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ensemble {
    /// Which of them this server is (`myid`).
    pub my_id: u8,
    /// All of them, this server too.
    pub servers: BTreeMap<u8, EnsembleServer>,
    /// How long a follower may take to have what the leader has (`initLimit`, in ticks).
    pub init_limit: Duration,
    /// How long a follower may be without its leader before its clients are let go (`syncLimit`, in
    /// ticks).
    pub sync_limit: Duration,
    /// How the servers know each other.
    pub security: QuorumSecurity,
    /// Bytes a second that snapshots may take on their way to others
    /// (`leader.snapSyncLimitInKbPerSecond`); `None`, the default, is no limit.
    pub snap_sync_bytes: Option<NonZeroU64>,
    /// Whether a read shows every change that was acknowledged before it (`linearizableReads`).
    pub linearizable_reads: bool,
    /// Whether this server has clients while it leads (`leaderServes`, yes).
    pub leader_serves: bool,
    /// Whether this server, while it has no leader, serves clients that read only
    /// (`readonlymode.enabled`).
    pub read_only_mode: bool,
    /// Where the sessions of this server's clients live.
    pub sessions: SessionsLive,
}

impl Ensemble {
    /// The list as ZooKeeper prints it, in `/zookeeper/config` and elsewhere
    /// (`QuorumMaj.toString`): lists of zoo.cfg have version 0. No end of the last line.
    #[must_use]
    pub fn list(&self) -> String {
        let mut text = String::new();
        for (id, server) in &self.servers {
            let role = if server.observer { "observer" } else { "participant" };
            let host = match server.host.parse::<Ipv6Addr>() {
                // As Java prints it: without abbreviation.
                Ok(address) => {
                    let parts = address.segments().map(|part| format!("{part:x}"));
                    format!("[{}]", parts.join(":"))
                }
                Err(_) => server.host.clone(),
            };
            let (port, election) = (server.port, server.election_port);
            text.push_str(&format!("server.{id}={host}:{port}:{election}:{role}"));
            if let Some(client) = server.client {
                text.push_str(&format!(";{client}"));
            }
            text.push('\n');
        }
        text.push_str("version=0");
        text
    }
}

/// Where new sessions live (`localSessionsEnabled`, `localSessionsUpgradingEnabled`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionsLive {
    /// On all servers.
    Everywhere,
    /// On the server that the client came to only. With `upgrades` one lives everywhere from its
    /// first ephemeral znode on.
    Here {
        /// Whether it can have one.
        upgrades: bool,
    },
}

impl SessionsLive {
    fn from_settings(settings: &Settings) -> Result<Self, ConfigError> {
        let upgrades = native_bool(settings, "localSessionsUpgradingEnabled")?;
        let is_here = native_bool(settings, "localSessionsEnabled")?;
        Ok(match is_here && !planted::is("local-sessions-off") {
            true => Self::Here { upgrades },
            false => Self::Everywhere,
        })
    }
}

/// What is known of this server beside the list.
pub(super) struct Beside<'a> {
    pub(super) data_dir: &'a Path,
    /// Milliseconds of a tick.
    pub(super) tick_ms: u32,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnsembleServer {
    /// Name or address, looked up each time it is needed.
    pub host: String,
    /// Where the others reach it (the first port of the line).
    pub port: u16,
    /// Where ZooKeeper's servers elect (the second port of the line): it is shown, nobody listens
    /// there.
    pub election_port: u16,
    /// Whether it only follows.
    pub observer: bool,
    /// Its own clients' port, where the line has one.
    pub client: Option<ListenAddress>,
}

impl Ensemble {
    /// `None` where there is at most one server, which runs standalone, or where it is not known
    /// which of them this is. What is refused is `found`, and something stands in its place.
    pub(super) fn from_settings(
        settings: &Settings,
        place: &str,
        beside: &Beside<'_>,
        notes: &mut Vec<Note>,
        found: &mut Found,
    ) -> Option<Self> {
        found.take(refuse_what_is_not_there_yet(settings));
        let sessions = found.take(SessionsLive::from_settings(settings));
        let count = settings.servers().len();
        if count < 2 {
            return None;
        }
        let lines = settings.servers().map(|(id, setting)| parse(id, setting, notes));
        let servers: BTreeMap<_, _> = lines.filter_map(|line| found.take(line)).collect();
        let my_id = found.take(my_id(settings, beside.data_dir, place)).flatten();
        if servers.len() == count && servers.values().all(|server| server.observer) {
            found.add(ConfigError::Contradiction {
                place: place.to_owned(),
                what: "every server is an observer: none can vote".to_owned(),
            });
        }
        let mut limit = |key| found.take(ticks(settings, key, beside.tick_ms, place));
        let (init_limit, sync_limit) = (limit("initLimit"), limit("syncLimit"));
        let security = QuorumSecurity::from_settings(settings, place, notes, found);
        let snap_sync_bytes = found.take(quorum::snap_sync_bytes(settings));
        let linearizable_reads = found.take(native_bool(settings, "linearizableReads"));
        let leader_serves = quorum::leader_serves(settings, notes);
        Some(Self {
            my_id: my_id.filter(|id| servers.contains_key(id))?,
            servers,
            init_limit: init_limit.unwrap_or_default(),
            sync_limit: sync_limit.unwrap_or_default(),
            security: security.unwrap_or_default(),
            snap_sync_bytes: snap_sync_bytes.flatten(),
            linearizable_reads: linearizable_reads.unwrap_or_default(),
            leader_serves,
            read_only_mode: settings.says_true("readonlymode.enabled"),
            sessions: sessions.unwrap_or(SessionsLive::Everywhere),
        })
    }

    /// Those that vote, or those that only follow.
    pub fn ids(&self, observers: bool) -> impl Iterator<Item = u8> {
        let servers = self.servers.iter().filter(move |(_, server)| server.observer == observers);
        servers.map(|(id, _)| *id)
    }

    /// The line of this server.
    #[must_use]
    pub fn me(&self) -> Option<&EnsembleServer> {
        self.servers.get(&self.my_id)
    }
}

/// What would not work as it is meant is refused: it must never come up as several standalone
/// servers.
fn refuse_what_is_not_there_yet(settings: &Settings) -> Result<(), ConfigError> {
    let refuse = |setting: &Setting, what: &str| {
        let (place, what) = (setting.origin.to_string(), what.to_owned());
        Err(ConfigError::Ensemble { place, what })
    };
    match settings.get("standaloneEnabled") {
        Some(setting)
            if settings.servers().len() < 2 && !native_bool(settings, "standaloneEnabled")? =>
        {
            refuse(setting, "standaloneEnabled=false asks for an ensemble of one")
        }
        _ => Ok(()),
    }
}

/// Which of the servers this is; `None` where its line is none that counts, which is told there.
fn my_id(settings: &Settings, data_dir: &Path, place: &str) -> Result<Option<u8>, ConfigError> {
    let my_id = server_line::my_id(settings, data_dir)?.ok_or_else(|| ConfigError::NoMyId {
        path: data_dir.join("myid"),
        servers: settings.servers().len(),
    })?;
    match settings.servers().any(|(id, _)| id.parse() == Ok(my_id)) {
        true => Ok(u8::try_from(my_id).ok()),
        false => Err(ConfigError::Contradiction {
            place: data_dir.join("myid").display().to_string(),
            what: format!(
                "this server's number is {my_id}, but {place} has no server.{my_id} line"
            ),
        }),
    }
}

fn parse(
    id: &str,
    setting: &Setting,
    notes: &mut Vec<Note>,
) -> Result<(u8, EnsembleServer), ConfigError> {
    let key = format!("server.{id}");
    let bad = |expected: &str| bad_value(&key, setting, expected.to_owned());
    let id = id.parse().map_err(|_| bad("a number from 0 to 255 for N in server.N"))?;
    let ServerLine { addresses, observer, client } =
        ServerLine::parse(&setting.value).ok_or_else(|| bad(FORM))?;
    if addresses.len() > 1 {
        notes.push(Note::warning(
            MessageId::SEVERAL_ADDRESSES,
            format!("{}: {key} has several addresses; only the first is used", setting.origin),
        ));
    }
    let (host, port, election_port) = addresses.into_iter().next().ok_or_else(|| bad(FORM))?;
    let observer = observer && !planted::is("observer-is-participant");
    Ok((id, EnsembleServer { host, port, election_port, observer, client }))
}

/// A number of ticks that ZooKeeper does not start without.
fn ticks(
    settings: &Settings,
    key: &'static str,
    tick_ms: u32,
    place: &str,
) -> Result<Duration, ConfigError> {
    if settings.get(key).is_none() {
        let remedy = "Add initLimit=10 and syncLimit=5, the usual values.";
        let list = settings.servers().next().map(|(_, setting)| setting.origin.to_string());
        return Err(ConfigError::NotSet {
            place: list.unwrap_or_else(|| place.to_owned()),
            key,
            remedy,
        });
    }
    let count = set_number(settings, key)?.and_then(|count| u32::try_from(count).ok());
    Ok(Duration::from_millis(u64::from(tick_ms)) * count.unwrap_or_default())
}
