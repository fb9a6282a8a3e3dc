//! The value of a `server.N` line, as it is written.
//!
//! Owns the form `host:port:port[:role][;[host:]port]` and Java's way to split it
//! (`QuorumPeer.QuorumServer`, `ConfigUtils.getHostAndPort`).

use jute::ErrorCode;

use super::Role;

/// Whether a line may have several addresses, separated by `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// It is refused, as by ZooKeeper without `multiAddress.enabled`.
    One,
    /// All must be in order, and the first is used.
    First,
}

/// Why a value is none of a `server.N` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Too few parts or too many.
    #[error("expected host:port:port[:participant|observer][;[host:]port]")]
    Form,
    /// A port that is no whole number.
    #[error("a port is not a number")]
    Port,
    /// A port that is a number, and none of TCP.
    #[error("a port is not between 0 and 65535")]
    PortRange,
    /// One port for the quorum and the election.
    #[error("the first two ports are the same")]
    SamePorts,
    /// A word at the place of the role.
    #[error("a server is a participant or an observer")]
    Role,
    /// One role at one address, another at the next.
    #[error("its addresses have different roles")]
    Roles,
    /// More than one address.
    #[error("several addresses are not supported")]
    SeveralAddresses,
    /// A host that no file of lines could hold.
    #[error("a host has a character that no host has")]
    Host,
}

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ServerLine<'a> {
    /// At least one.
    pub(crate) addresses: Vec<Address<'a>>,
    pub(crate) role: Role,
    /// Host, if there is one, and port.
    pub(crate) client: Option<(Option<&'a str>, u16)>,
}

/// Where the other servers reach one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address<'a> {
    /// IPv6 without its brackets.
    pub(crate) host: &'a str,
    pub(crate) quorum_port: u16,
    pub(crate) election_port: u16,
}

impl LineError {
    /// What a client is answered that asks for such a server.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            // Java's InetSocketAddress throws what is not caught.
            Self::PortRange => ErrorCode::MarshallingError,
            Self::Form
            | Self::Port
            | Self::SamePorts
            | Self::Role
            | Self::Roles
            | Self::SeveralAddresses
            | Self::Host => ErrorCode::BadArguments,
        }
    }
}

impl<'a> ServerLine<'a> {
    pub(crate) fn parse(text: &'a str, several: Addresses) -> Result<Self, LineError> {
        let parts = split(text, ';');
        let (servers, client) = match parts[..] {
            [servers] => (servers, None),
            [servers, client] => (servers, Some(client_address(client)?)),
            _ => return Err(LineError::Form),
        };
        let servers = split(servers, '|');
        if servers.len() > 1 && several == Addresses::One {
            return Err(LineError::SeveralAddresses);
        }
        let (mut addresses, mut role) = (Vec::new(), None);
        for server in servers {
            let (address, own) = address(server)?;
            addresses.push(address);
            if role.is_some() && own.is_some() && role != own {
                return Err(LineError::Roles);
            }
            role = role.or(own);
        }
        if addresses.is_empty() {
            return Err(LineError::Form);
        }
        Ok(Self { addresses, role: role.unwrap_or(Role::Participant), client })
    }
}

fn client_address(text: &str) -> Result<(Option<&str>, u16), LineError> {
    match host_and_ports(text)?[..] {
        [only] => Ok((None, port(only)?)),
        [host, last] => Ok((Some(host), port(last)?)),
        _ => Err(LineError::Form),
    }
}

fn address(text: &str) -> Result<(Address<'_>, Option<Role>), LineError> {
    let (host, quorum, election, word) = match host_and_ports(text)?[..] {
        [host, quorum, election] => (host, quorum, election, None),
        [host, quorum, election, role] => (host, quorum, election, Some(role)),
        _ => return Err(LineError::Form),
    };
    let (quorum_port, election_port) = (port(quorum)?, port(election)?);
    if quorum_port == election_port {
        return Err(LineError::SamePorts);
    }
    let role = match word.map(|word| trim(word).to_lowercase()).as_deref() {
        None => None,
        Some("participant") => Some(Role::Participant),
        Some("observer") => Some(Role::Observer),
        Some(_) => return Err(LineError::Role),
    };
    Ok((Address { host, quorum_port, election_port }, role))
}

/// What colons separate, but for those in brackets. Java takes any character for the colon behind
/// the bracket.
fn host_and_ports(text: &str) -> Result<Vec<&str>, LineError> {
    let Some(bracketed) = text.strip_prefix('[') else { return Ok(split(text, ':')) };
    let (host, rest) = bracketed.split_once(']').ok_or(LineError::Form)?;
    let mut parts = vec![host];
    match rest.strip_prefix(':') {
        Some("") => return Err(LineError::Form),
        Some(ports) => parts.extend(split(ports, ':')),
        None if rest.is_empty() => {}
        None => return Err(LineError::Form),
    }
    Ok(parts)
}

/// Java's `Integer.parseInt`, and the range of `InetSocketAddress`.
fn port(text: &str) -> Result<u16, LineError> {
    let number: i32 = text.parse().map_err(|_| LineError::Port)?;
    u16::try_from(number).map_err(|_| LineError::PortRange)
}

/// Java's `String.split`: without empty parts at the end.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts: Vec<&str> = text.split(separator).collect();
    while parts.len() > 1 && parts.last().is_some_and(|last| last.is_empty()) {
        parts.pop();
    }
    parts
}

/// Java's `String.trim`.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}
