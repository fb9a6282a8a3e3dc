//! The list of servers: what `/zookeeper/config` shows, what clients ask to change, and what stands
//! in the files beside zoo.cfg.
//!
//! Everything here is a pure function of its arguments: no file, no socket, no clock, no name that
//! is looked up, no logging. Numbers, texts and the order of errors are ZooKeeper's. Owns no
//! members: a list names servers, and says nothing about their lives.
//!
//! A client's request is read ([`change::Asked::read`]) where it arrives, and decided
//! ([`change::Asked::decide`]) where the list is; [`files`] has what is written of the result.

pub mod change;
pub mod files;
pub mod host;
pub mod line;
mod text;

#[cfg(test)]
mod change_test;
#[cfg(test)]
mod files_test;
#[cfg(test)]
mod line_test;
#[cfg(test)]
mod text_test;

use std::collections::BTreeMap;
use std::collections::btree_map::Iter;
use std::fmt;

use host::Host;
use line::{Addresses, LineError, ServerLine};

pub use text::ListError;

/// Bytes of text that a list has at most, however large its version is.
pub const MOST_TEXT: usize = 16 << 10;

/// The servers of an ensemble, as of one version.
///
/// ZooKeeper takes two lists of one version for equal, whatever they say (`QuorumMaj.equals`). Here
/// they are compared whole: lists of zoo.cfg all have version 0. Whether two name the same servers,
/// [`Servers`] says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerList {
    /// Who belongs to the ensemble.
    pub servers: Servers,
    /// The zxid of the change that led here; 0 for a list that was never changed. Not negative.
    pub version: i64,
}

/// Servers by their ids. Two are equal as ZooKeeper means it (`QuorumServer.equals`): by addresses,
/// role and client address of each, where names differ by more than case.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Servers(BTreeMap<u8, Server>);

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Where the others reach it.
    pub host: Host,
    /// The first port of its line, by which they do.
    pub quorum_port: u16,
    /// The second port of its line.
    pub election_port: u16,
    /// Whether it votes.
    pub role: Role,
    /// Where its clients reach it, if the line says so. A `clientPort` of zoo.cfg is not shown.
    pub client: Option<ClientAddress>,
}

/// What a server is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It votes.
    Participant,
    /// It only follows.
    Observer,
}

/// Where clients reach a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAddress {
    /// `0.0.0.0`, which is every address, if the line has a port only.
    pub host: Host,
    /// TCP port.
    pub port: u16,
}

impl Servers {
    /// The server of an id.
    #[must_use]
    pub fn get(&self, id: u8) -> Option<&Server> {
        self.0.get(&id)
    }

    /// All, by ascending id.
    pub fn iter(&self) -> Iter<'_, u8, Server> {
        self.0.iter()
    }

    /// The ids of those that vote, or of those that only follow, ascending.
    pub fn ids(&self, role: Role) -> impl Iterator<Item = u8> {
        self.0.iter().filter(move |(_, server)| server.role == role).map(|(id, _)| *id)
    }

    /// Whether a server is one of those that vote.
    #[must_use]
    pub fn is_participant(&self, id: u8) -> bool {
        self.get(id).is_some_and(|server| server.role == Role::Participant)
    }

    /// Whether each can be reached by all: a server's own wildcard or loopback address in its own
    /// zoo.cfg is another server for each of them, unless all are on one machine.
    #[must_use]
    pub fn are_reached(&self) -> bool {
        let here = self.0.values().filter(|server| server.host.is_of_this_machine()).count();
        let is_any = |server: &Server| server.host.is_every_address();
        (here == 0 || here == self.0.len()) && (self.0.len() == 1 || !self.0.values().any(is_any))
    }

    /// How many vote.
    #[must_use]
    pub fn voters(&self) -> usize {
        self.ids(Role::Participant).count()
    }
}

impl FromIterator<(u8, Server)> for Servers {
    fn from_iter<I: IntoIterator<Item = (u8, Server)>>(servers: I) -> Self {
        Self(servers.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a Servers {
    type Item = (&'a u8, &'a Server);
    type IntoIter = Iter<'a, u8, Server>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Server {
    /// What the value of a `server.N` line says.
    pub fn parse(value: &str, addresses: Addresses) -> Result<Self, LineError> {
        let line = ServerLine::parse(value, addresses)?;
        let first = line.addresses.first().ok_or(LineError::Form)?;
        let client = match line.client {
            Some((host, port)) => {
                let host = Host::of(host.unwrap_or("0.0.0.0")).ok_or(LineError::Host)?;
                Some(ClientAddress { host, port })
            }
            None => None,
        };
        Ok(Self {
            host: Host::of(first.host).ok_or(LineError::Host)?,
            quorum_port: first.quorum_port,
            election_port: first.election_port,
            role: line.role,
            client,
        })
    }

    /// Where it is reached, in lower case, but for addresses that are another machine on each
    /// machine.
    fn places(&self) -> impl Iterator<Item = (String, u16)> {
        let own = [(&self.host, self.quorum_port), (&self.host, self.election_port)];
        let client = self.client.iter().map(|client| (&client.host, client.port));
        let places = own.into_iter().chain(client).filter(|(host, _)| !host.is_of_this_machine());
        places.map(|(host, port)| (host.as_str().to_ascii_lowercase(), port))
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, quorum_port, election_port, role, client } = self;
        write!(f, "{host}:{quorum_port}:{election_port}:{role}")?;
        match client {
            Some(client) => write!(f, ";{client}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Participant => "participant",
            Self::Observer => "observer",
        })
    }
}
