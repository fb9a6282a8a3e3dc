//! A `server.N` line, and what a standalone server takes from the only one.
//!
//! Owns the rules by which ZooKeeper joins such a line with `clientPort` and `myid`; its form is
//! that of a list of servers. Never contacts the servers it names.

use std::path::Path;

use super::settings::{Setting, Settings};
use super::value::{bad_value, resolve};
use super::{ConfigError, Ensemble, ListenAddress, Note};
use crate::list::line::Addresses;
use crate::list::{Role, Server};
use crate::message::MessageId;

/// What the line of a list says, of whose addresses the first is used.
pub(super) fn parse(key: &str, setting: &Setting) -> Result<Server, ConfigError> {
    Server::parse(&setting.value, Addresses::First).map_err(|error| ConfigError::ServerLine {
        place: setting.origin.to_string(),
        key: key.to_owned(),
        value: setting.value.clone(),
        error,
    })
}

/// Where a server's own line says that its clients are listened for.
fn own_address(
    key: &str,
    setting: &Setting,
    server: &Server,
) -> Result<Option<ListenAddress>, ConfigError> {
    let Some(client) = &server.client else { return Ok(None) };
    let expected = || "a host of its clients that can be resolved".to_owned();
    match resolve(client.host.as_str()) {
        Some(address) => Ok(Some(ListenAddress { address, port: client.port })),
        None => Err(bad_value(key, setting, expected())),
    }
}

/// Where a member's clients are listened for, given what `clientPort` and `clientPortAddress` say.
pub(super) fn join_member_address(
    settings: &Settings,
    ensemble: &Ensemble,
    client: Option<ListenAddress>,
) -> Result<Option<ListenAddress>, ConfigError> {
    let id = ensemble.my_id;
    let mut lines = settings.servers().filter(|(number, _)| number.parse() == Ok(id));
    let (Some((number, setting)), Some(server)) = (lines.next(), ensemble.me()) else {
        return Ok(client);
    };
    let key = format!("server.{number}");
    let own = own_address(&key, setting, server)?;
    match (client, own) {
        (Some(client), Some(own)) if contradicts(client, own) => Err(ConfigError::Contradiction {
            place: setting.origin.to_string(),
            what: format!("clientPort says {client}, {key} says {own}"),
        }),
        (client, own) => Ok(own.or(client)),
    }
}

/// Where clients are listened for, given what `clientPort` and `clientPortAddress` say and the only
/// server's line.
///
/// As in ZooKeeper the line's own client port counts if the line is this server's by `myid`, and
/// contradicting `clientPort` is an error. Without a `myid` it fills in for a missing `clientPort`.
pub(super) fn join_client_address(
    settings: &Settings,
    data_dir: &Path,
    client: Option<ListenAddress>,
    notes: &mut Vec<Note>,
) -> Result<Option<ListenAddress>, ConfigError> {
    let mut servers = settings.servers();
    let (Some((id, setting)), None) = (servers.next(), servers.next()) else {
        return Ok(client);
    };
    let key = format!("server.{id}");
    let bad = |expected: &str| bad_value(&key, setting, expected.to_owned());
    let id: i64 = id.parse().map_err(|_| bad("a number for N in server.N"))?;
    let server = parse(&key, setting)?;
    if server.role == Role::Observer {
        return Err(bad("a participant: an observer cannot run alone"));
    }
    notes.push(Note::warning(
        MessageId::ALONE_IN_LIST,
        format!(
            "{}: {key} is the only server, so this server runs standalone, as ZooKeeper would",
            setting.origin
        ),
    ));
    let Some(own) = own_address(&key, setting, &server)? else {
        return Ok(client);
    };
    match (my_id(settings, data_dir)?, client) {
        (Some(my_id), _) if my_id != id => {
            notes.push(Note::warning(
                MessageId::LINE_OF_ANOTHER,
                format!(
                    "{}: {key} is not this server (myid is {my_id}), so its client port is not \
                     used",
                    setting.origin
                ),
            ));
            Ok(client)
        }
        (Some(_), Some(client)) if contradicts(client, own) => Err(ConfigError::Contradiction {
            place: setting.origin.to_string(),
            what: format!("clientPort says {client}, {key} says {own}"),
        }),
        (None, Some(client)) => Ok(Some(client)),
        (Some(_), _) | (None, None) => Ok(Some(own)),
    }
}

/// Whether two client addresses cannot both be meant (QuorumPeerConfig.setupClientPort).
fn contradicts(client: ListenAddress, own: ListenAddress) -> bool {
    match client.address {
        None => client.port != own.port,
        Some(_) => client != own,
    }
}

pub(super) fn my_id(settings: &Settings, data_dir: &Path) -> Result<Option<i64>, ConfigError> {
    let path = data_dir.join("myid");
    let (place, line) = if path.is_file() {
        let bytes = super::read(&path)?;
        let text = String::from_utf8_lossy(&bytes);
        let line = text.lines().next().unwrap_or_default().trim();
        (path.display().to_string(), line.chars().take(80).collect())
    } else if let Some(my_id) = &settings.my_id {
        (my_id.origin.to_string(), my_id.value.clone())
    } else {
        return Ok(None);
    };
    line.parse().map(Some).map_err(|_| ConfigError::BadValue {
        place,
        key: "myid".to_owned(),
        value: line,
        expected: "the number of this server".to_owned(),
    })
}
