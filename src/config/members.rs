//! The server list: who belongs to the ensemble, and which of them this server is.

use std::num::NonZeroU64;
use std::path::Path;
use std::time::Duration;

use super::error::Found;
use super::quorum::{self, QuorumSecurity};
use super::server_line;
use super::settings::{Setting, Settings};
use super::value::{bad_value, native_bool, set_number};
use super::{ConfigError, Note};
use crate::list::files::POINTER;
use crate::list::line::{Addresses, LineError};
use crate::list::{Role, Server, ServerList, Servers};
use crate::message::MessageId;
use crate::planted;

/// The members of an ensemble, from the lines `server.N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ensemble {
    /// Which of them this server is (`myid`).
    pub my_id: u8,
    /// All of them, this server too, as the lines have it.
    pub list: ServerList,
    /// Whether a server may be alone without an ensemble (`standaloneEnabled`). If so, an ensemble
    /// keeps two voters.
    pub standalone_enabled: bool,
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

impl Ensemble {
    /// `None` where the server runs standalone, or where it is not known which of them this is.
    /// What is refused is `found`, and something stands in its place.
    pub(super) fn from_settings(
        settings: &Settings,
        place: &str,
        beside: &Beside<'_>,
        notes: &mut Vec<Note>,
        found: &mut Found,
    ) -> Option<Self> {
        let standalone_enabled = found.take(native_bool(settings, "standaloneEnabled"));
        let sessions = found.take(SessionsLive::from_settings(settings));
        let count = settings.servers().len();
        if count == 0 && standalone_enabled == Some(false) {
            found.add(ConfigError::Contradiction {
                place: settings.place_of("standaloneEnabled", place),
                what: "standaloneEnabled=false asks for an ensemble, and there is no server.N line"
                    .to_owned(),
            });
        }
        if !settings.is_ensemble() {
            return None;
        }
        let lines = settings.servers().map(|(id, setting)| parse(id, setting, notes));
        let servers: Servers = lines.filter_map(|line| found.take(line)).collect();
        let list_place = settings.get(POINTER).map_or(place, |setting| &setting.value);
        let my_id = found.take(my_id(settings, beside.data_dir, list_place)).flatten();
        if servers.iter().len() == count && servers.voters() == 0 {
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
            my_id: my_id.filter(|id| servers.get(*id).is_some())?,
            list: ServerList { servers, version: settings.list_version },
            standalone_enabled: standalone_enabled.unwrap_or(true),
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
        self.list.servers.ids(if observers { Role::Observer } else { Role::Participant })
    }

    /// The line of this server.
    #[must_use]
    pub fn me(&self) -> Option<&Server> {
        self.list.servers.get(self.my_id)
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

fn parse(id: &str, setting: &Setting, notes: &mut Vec<Note>) -> Result<(u8, Server), ConfigError> {
    let key = format!("server.{id}");
    let expected = "a number from 0 to 255 for N in server.N";
    let id = id.parse().map_err(|_| bad_value(&key, setting, expected.to_owned()))?;
    let mut server = server_line::parse(&key, setting)?;
    if Server::parse(&setting.value, Addresses::One) == Err(LineError::SeveralAddresses) {
        notes.push(Note::warning(
            MessageId::SEVERAL_ADDRESSES,
            format!("{}: {key} has several addresses; only the first is used", setting.origin),
        ));
    }
    if planted::is("observer-is-participant") {
        server.role = Role::Participant;
    }
    Ok((id, server))
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
        let first = settings.servers().next().map(|(_, setting)| setting);
        let list = settings.get(POINTER).or(first);
        return Err(ConfigError::NotSet {
            place: list.map_or_else(|| place.to_owned(), |setting| setting.origin.to_string()),
            key,
            remedy,
        });
    }
    let count = set_number(settings, key)?.and_then(|count| u32::try_from(count).ok());
    Ok(Duration::from_millis(u64::from(tick_ms)) * count.unwrap_or_default())
}
