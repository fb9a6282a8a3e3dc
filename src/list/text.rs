//! The text of a list: of `/zookeeper/config`, of replies, and of a client's whole list.

use std::fmt::Write as _;

use jute::ErrorCode;

use super::line::{Addresses, LineError};
use super::{MOST_TEXT, Server, ServerList, Servers};
use crate::properties::{self, MalformedEscape};

/// Why a text is no list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// More than any list has.
    #[error("a list has at most {MOST_TEXT} bytes of text")]
    TooLong,
    /// A `\u` without four hexadecimal digits; Java refuses the text too.
    #[error("line {line}: \\u is not followed by four hexadecimal digits")]
    MalformedEscape {
        /// From 1.
        line: usize,
    },
    /// Neither `server.N` nor `version`.
    #[error("{key:?} is not server.N")]
    UnknownKey {
        /// As it stands there.
        key: String,
    },
    /// A group of servers, or the weight of one.
    #[error("{key:?} is refused: a majority of all voters decides, and all have the same weight")]
    Group {
        /// As it stands there.
        key: String,
    },
    /// No number stands for N.
    #[error("{key:?}: N of server.N is not a number")]
    IdNotNumber {
        /// As it stands there.
        key: String,
    },
    /// A number stands for N that ZooKeeper would take.
    #[error("{key:?}: N of server.N is not from 0 to 255")]
    IdRange {
        /// As it stands there.
        key: String,
    },
    /// A line of a server that is none.
    #[error("{key:?}: {error}")]
    Line {
        /// As it stands there.
        key: String,
        /// What is wrong with its value.
        error: LineError,
    },
    /// A version that is none.
    #[error("version is {value:?}, expected a hexadecimal number")]
    Version {
        /// As it stands there.
        value: String,
    },
    /// No server that votes, in a file that is to have the list.
    #[error("no server of the list votes")]
    NoVoter,
    /// A version in a file whose name says it.
    #[error("the name of the file says its version, and no line in it")]
    VersionInside,
}

impl ListError {
    /// What a client is answered that sent the text.
    #[must_use]
    pub const fn code(&self) -> ErrorCode {
        match self {
            // Java's number formats and Properties throw what is not caught.
            Self::MalformedEscape { .. } | Self::IdNotNumber { .. } | Self::Version { .. } => {
                ErrorCode::MarshallingError
            }
            Self::Line { error, .. } => error.code(),
            Self::TooLong
            | Self::UnknownKey { .. }
            | Self::Group { .. }
            | Self::IdRange { .. }
            | Self::NoVoter
            | Self::VersionInside => ErrorCode::BadArguments,
        }
    }
}

impl From<MalformedEscape> for ListError {
    fn from(malformed: MalformedEscape) -> Self {
        Self::MalformedEscape { line: malformed.line }
    }
}

impl ServerList {
    /// The text, by ascending id, where ZooKeeper has the order of a hash table. No end of the last
    /// line (`QuorumMaj.toString`).
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in self.servers.lines() {
            text.push_str(&line);
            text.push('\n');
        }
        // A String takes everything.
        let _ = write!(text, "version={:x}", self.version);
        text
    }

    /// The list of a text; without a version it has version 0.
    pub fn parse(text: &str) -> Result<Self, ListError> {
        let (servers, version) = parse(text.as_bytes(), Addresses::One)?;
        match version {
            Some(version) if version < 0 => {
                Err(ListError::Version { value: format!("{version:x}") })
            }
            version => Ok(Self { servers, version: version.unwrap_or_default() }),
        }
    }
}

impl Servers {
    /// `server.N=` and its value, by ascending id.
    pub(super) fn lines(&self) -> impl Iterator<Item = String> {
        self.iter().map(|(id, server)| format!("server.{id}={server}"))
    }

    /// Whether its text is none too long, whatever the version.
    pub(super) fn fits(&self) -> bool {
        let version = "version=".len() + 16;
        self.lines().map(|line| line.len() + 1).sum::<usize>() + version <= MOST_TEXT
    }
}

/// Servers, and the version if there is one. Of two lines with one id the later one counts, as in
/// Java's `Properties` (`QuorumPeerConfig.parseDynamicConfig`).
pub(super) fn parse(
    text: &[u8],
    addresses: Addresses,
) -> Result<(Servers, Option<i64>), ListError> {
    if text.len() > MOST_TEXT {
        return Err(ListError::TooLong);
    }
    let properties = properties::parse(text)?;
    for property in &properties {
        let key = property.key.as_str();
        if key.starts_with("group") || key.starts_with("weight") {
            return Err(ListError::Group { key: key.to_owned() });
        }
        if !key.starts_with("server.") && key != "version" {
            return Err(ListError::UnknownKey { key: key.to_owned() });
        }
    }
    let (mut servers, mut version) = (Servers::default(), None);
    for property in properties {
        let (key, value) = (property.key, property.value);
        match key.strip_prefix("server.") {
            Some(number) => {
                let id = id(number, &key)?;
                let server = Server::parse(&value, addresses);
                let server = server.map_err(|error| ListError::Line { key, error })?;
                servers.0.insert(id, server);
            }
            None => {
                let number = i64::from_str_radix(&value, 16);
                version = Some(number.map_err(|_| ListError::Version { value })?);
            }
        }
    }
    match servers.fits() {
        true => Ok((servers, version)),
        false => Err(ListError::TooLong),
    }
}

/// The id that a number is, of a key that has it.
pub(super) fn id(number: &str, key: &str) -> Result<u8, ListError> {
    let number: i64 = number.parse().map_err(|_| ListError::IdNotNumber { key: key.to_owned() })?;
    u8::try_from(number).map_err(|_| ListError::IdRange { key: key.to_owned() })
}
