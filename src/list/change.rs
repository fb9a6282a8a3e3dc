//! A client's change of the list: what it asks for, and what becomes of it.
//!
//! Owns the order of the errors, which is that of `PrepRequestProcessor.pRequest2Txn`. Before all
//! of them stand those that need no list: -123 ([`ChangeError::NotEnabled`]), then what is wrong
//! with the session (-112), then that there is no ensemble (-6). They are the caller's.

use std::collections::BTreeSet;

use jute::ErrorCode;
use jute::protocol::ReconfigRequest;

use super::line::{Addresses, LineError, trim};
use super::text::{self, ListError};
use super::{MOST_TEXT, Role, Server, ServerList, Servers};

/// As `curConfigId`: whatever version the list has.
const ANY_VERSION: i64 = -1;

/// What a client asks for: read, and not judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    change: Change,
    /// The version that the list must have.
    version: i64,
}

/// What a change is decided by.
#[derive(Debug, Clone, Copy)]
pub struct Present<'a> {
    /// The list.
    pub list: &'a ServerList,
    /// What a change that is on its way leads to.
    pub next: Option<&'a Servers>,
    /// Whether a server may be alone without an ensemble (`standaloneEnabled`). If so, an ensemble
    /// has at least two voters.
    pub standalone_enabled: bool,
}

/// Why the list is not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// `reconfigEnabled` is false.
    #[error("reconfigEnabled is not true")]
    NotEnabled,
    /// One change at a time.
    #[error("another change of the list is on its way")]
    InProgress,
    /// The client has not seen the latest list.
    #[error("the list has version {present:x}, and the change is for version {asked:x}")]
    OtherVersion {
        /// That of the list.
        present: i64,
        /// That of the request.
        asked: i64,
    },
    /// What is to be the whole list is none, or a server that joins is none.
    #[error(transparent)]
    List(#[from] ListError),
    /// A server that leaves is said by its id.
    #[error("{text:?} is not the id of a server that leaves")]
    Leaving {
        /// As it was written.
        text: String,
    },
    /// A server that joins is not said as `server.N=`.
    #[error("{text:?} is not server.N=host:port:port[:role];[host:]port")]
    Joining {
        /// As it was written.
        text: String,
    },
    /// A server that joins must say where its clients reach it.
    #[error("server.{id} has no client port")]
    NoClientAddress {
        /// Of the server that joins.
        id: u8,
    },
    /// A server that joins is where another one is.
    #[error("server.{id} and server.{other} both have port {port} of {host}")]
    SameAddress {
        /// Of the server that joins.
        id: u8,
        /// Whose address it is already.
        other: u8,
        /// As a name or an address.
        host: String,
        /// Any of its ports.
        port: u16,
    },
    /// What is to be the whole list has observers beside too few voters.
    #[error("a list with observers has {least} voters at least")]
    VotersBesideObservers {
        /// How many there must be.
        least: usize,
    },
    /// What is to be the whole list has nobody, and nobody may be alone without an ensemble.
    #[error("the list has no voter")]
    Nobody,
    /// Too few voters would be left.
    #[error("a list has {least} voters at least")]
    Voters {
        /// How many there must be.
        least: usize,
    },
    /// No majority of the voters to come is connected and in step.
    #[error("no majority of the voters to come is connected and has what the leader has")]
    NoQuorum,
    /// The client may not write `/zookeeper/config`.
    #[error("the client has no right to change the list")]
    NoRights,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// The whole list.
    Whole(Result<Servers, ListError>),
    /// Who leaves, then who joins, one after the other.
    Steps(Steps),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Steps {
    leaving: Vec<u8>,
    joining: Vec<(u8, Server)>,
    /// What cannot be read behind those, which ends the change.
    wrong: Option<ChangeError>,
}

impl ChangeError {
    /// What the client is answered.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::NotEnabled => ErrorCode::ReconfigDisabled,
            Self::InProgress => ErrorCode::ReconfigInProgress,
            Self::OtherVersion { .. } => ErrorCode::BadVersion,
            Self::List(error) => error.code(),
            // Java throws what is not caught.
            Self::Leaving { .. } | Self::VotersBesideObservers { .. } | Self::Nobody => {
                ErrorCode::MarshallingError
            }
            Self::Joining { .. }
            | Self::NoClientAddress { .. }
            | Self::SameAddress { .. }
            | Self::Voters { .. } => ErrorCode::BadArguments,
            Self::NoQuorum => ErrorCode::NewConfigNoQuorum,
            Self::NoRights => ErrorCode::NoAuth,
        }
    }
}

impl Asked {
    /// Reads a request, where it arrives: what is wrong with it, [`Self::decide`] says in its turn.
    #[must_use]
    pub fn read(request: &ReconfigRequest<'_>, addresses: Addresses) -> Self {
        let joining = request.joining_servers.as_deref().unwrap_or_default();
        let leaving = request.leaving_servers.as_deref().unwrap_or_default();
        let change = match request.new_members.as_deref() {
            Some(all) if all.len() > MOST_TEXT => Change::Whole(Err(ListError::TooLong)),
            Some(all) => {
                let lines = all.replace(',', "\n");
                let list = text::parse(lines.as_bytes(), addresses);
                Change::Whole(list.map(|(servers, _)| servers))
            }
            None if joining.len() + leaving.len() > MOST_TEXT => {
                let wrong = Some(ListError::TooLong.into());
                Change::Steps(Steps { wrong, ..Steps::default() })
            }
            None => Change::Steps(Steps::read(joining, leaving, addresses)),
        };
        Self { change, version: request.cur_config_id }
    }

    /// The servers of the list to come.
    ///
    /// While a change is on its way, only what leads back to the list is let in, and joining and
    /// leaving are steps from what is to come. Whether there is a quorum of the servers to come,
    /// and whether the client may change the list, is asked only when it matters, in this order.
    pub fn decide(
        &self,
        present: &Present<'_>,
        has_quorum: impl FnOnce(&Servers) -> bool,
        has_rights: impl FnOnce() -> bool,
    ) -> Result<Servers, ChangeError> {
        let Present { list, next, standalone_enabled } = *present;
        let to_come = self.change.applied_to(next.unwrap_or(&list.servers), standalone_enabled);
        if next.is_some() && to_come.as_ref() != Ok(&list.servers) {
            return Err(ChangeError::InProgress);
        }
        if self.version != ANY_VERSION && self.version != list.version {
            return Err(ChangeError::OtherVersion { present: list.version, asked: self.version });
        }
        let to_come = to_come?;
        if !has_quorum(&to_come) {
            return Err(ChangeError::NoQuorum);
        }
        if !has_rights() {
            return Err(ChangeError::NoRights);
        }
        Ok(to_come)
    }
}

impl Change {
    /// What it makes of the last list.
    fn applied_to(&self, last: &Servers, standalone_enabled: bool) -> Result<Servers, ChangeError> {
        let least = if standalone_enabled { 2 } else { 1 };
        let to_come = match self {
            Self::Whole(list) => {
                let servers = list.clone()?;
                let has_observers = servers.ids(Role::Observer).next().is_some();
                match servers.voters() {
                    voters if voters < least && has_observers => {
                        return Err(ChangeError::VotersBesideObservers { least });
                    }
                    0 if !standalone_enabled => return Err(ChangeError::Nobody),
                    _ => servers,
                }
            }
            Self::Steps(steps) => steps.applied_to(last)?,
        };
        if to_come.voters() < least {
            return Err(ChangeError::Voters { least });
        }
        Ok(to_come)
    }
}

impl Steps {
    fn read(joining: &str, leaving: &str, addresses: Addresses) -> Self {
        let mut steps = Self::default();
        for text in words(leaving, ',') {
            let Ok(id) = text.parse::<i64>() else {
                steps.wrong = Some(ChangeError::Leaving { text: text.to_owned() });
                return steps;
            };
            // One that no server can have is not there.
            steps.leaving.extend(u8::try_from(id));
        }
        for text in words(joining, ',') {
            match joiner(text, addresses) {
                Ok(joiner) => steps.joining.push(joiner),
                Err(wrong) => {
                    steps.wrong = Some(wrong);
                    return steps;
                }
            }
        }
        steps
    }

    fn applied_to(&self, last: &Servers) -> Result<Servers, ChangeError> {
        let mut servers = last.clone();
        for id in &self.leaving {
            servers.0.remove(id);
        }
        let mut taken: Taken =
            servers.iter().flat_map(|(id, server)| taken_by(*id, server)).collect();
        for (id, server) in &self.joining {
            for (host, port, id) in taken_by(*id, server) {
                let by_any = (host.clone(), port, u8::MIN)..=(host.clone(), port, u8::MAX);
                if let Some(&(.., other)) = taken.range(by_any).find(|(.., other)| *other != id) {
                    return Err(ChangeError::SameAddress { id, other, host, port });
                }
            }
            if let Some(before) = servers.0.insert(*id, server.clone()) {
                taken_by(*id, &before).for_each(|place| _ = taken.remove(&place));
            }
            taken.extend(taken_by(*id, server));
        }
        match &self.wrong {
            Some(wrong) => Err(wrong.clone()),
            None if !servers.fits() => Err(ListError::TooLong.into()),
            None => Ok(servers),
        }
    }
}

/// Where servers are reached, and by which id. ZooKeeper compares what names resolve to, and leaves
/// out what it cannot resolve (`QuorumServer.checkAddressDuplicate`). Here names are names.
type Taken = BTreeSet<(String, u16, u8)>;

fn taken_by(id: u8, server: &Server) -> impl Iterator<Item = (String, u16, u8)> {
    server.places().map(move |(host, port)| (host, port, id))
}

/// One that joins: `server.4=`, `4=` and `a.b.4=` alike.
fn joiner(text: &str, addresses: Addresses) -> Result<(u8, Server), ChangeError> {
    let [key, value] = words(text, '=').collect::<Vec<_>>()[..] else {
        return Err(ChangeError::Joining { text: text.to_owned() });
    };
    let line = |error: LineError| ListError::Line { key: key.to_owned(), error };
    let number = key.rsplit('.').next().unwrap_or_default();
    let id = text::id(number, key)?;
    let server = Server::parse(value, addresses).map_err(line)?;
    match server.client {
        Some(_) => Ok((id, server)),
        None => Err(ChangeError::NoClientAddress { id }),
    }
}

/// ZooKeeper's `StringUtils.split`: without blanks around, and without empty ones.
fn words(text: &str, separator: char) -> impl Iterator<Item = &str> {
    text.split(separator).map(trim).filter(|word| !word.is_empty())
}
