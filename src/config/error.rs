//! Why a configuration cannot be used.
//!
//! Owns the wording: one sentence with the place, and one that says what to do. No variant carries
//! the value of a key that may hold a secret; none of those has an effect.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use crate::list::ListError;
use crate::list::line::LineError;
use crate::message::MessageId;

/// A configuration that no server can be started with; exit code 2.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be opened or read.
    #[error("{}: cannot read the configuration: {source}", path.display())]
    Unreadable {
        /// The file, as it was given.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A directory was given for the file.
    #[error("{}: this is a directory, not a zoo.cfg", path.display())]
    Directory {
        /// The directory, as it was given.
        path: PathBuf,
    },
    /// The file is larger than any zoo.cfg, 1 MiB.
    #[error("{}: too large for a zoo.cfg", path.display())]
    TooLarge {
        /// The file, as it was given.
        path: PathBuf,
    },
    /// A `\u` without four hexadecimal digits; Java refuses the file too.
    #[error("{place}: \\u is not followed by four hexadecimal digits")]
    MalformedEscape {
        /// File and line.
        place: String,
    },
    /// A value that its key cannot take.
    #[error("{place}: {key} is {value:?}, expected {expected}")]
    BadValue {
        /// File and line, or where else it was set.
        place: String,
        /// Name of the key without the prefix `zookeeper.`.
        key: String,
        /// The value as it was written.
        value: String,
        /// What the key takes, with its unit.
        expected: String,
    },
    /// A line of the server list that is none.
    #[error("{place}: {key} is {value:?}: {error}")]
    ServerLine {
        /// File and line, or where else it was set.
        place: String,
        /// `server.N`.
        key: String,
        /// The value as it was written.
        value: String,
        /// What is wrong with it.
        error: LineError,
    },
    /// The file of the list cannot be opened or read.
    #[error("{place}: cannot read dynamicConfigFile, {}: {source}", path.display())]
    DynamicFile {
        /// File and line that name it.
        place: String,
        /// The file, as it was given.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file of the list has none.
    #[error("{}: {error}", path.display())]
    List {
        /// The file, as it was given.
        path: PathBuf,
        /// What is wrong with its text.
        error: ListError,
    },
    /// Beside zoo.cfg is what ZooKeeper has proposed for a list.
    #[error(
        "{}: this is a change of the servers that ZooKeeper has begun; whether it is in effect is \
         not known", path.display()
    )]
    ProposedList {
        /// The file.
        path: PathBuf,
    },
    /// A key that cannot be honoured, and without which the server would be less safe than was
    /// asked for.
    #[error("{place}: {key}{what} is refused: {why}")]
    Refused {
        /// File and line, or where else it was set.
        place: String,
        /// Name of the key.
        key: String,
        /// Empty, or the value that is refused, after a `=`.
        what: &'static str,
        /// What would be lost.
        why: &'static str,
    },
    /// A key without which there is nothing to run.
    #[error("{place}: {key} is not set")]
    NotSet {
        /// The file, or how else the server was started.
        place: String,
        /// Name of the key.
        key: &'static str,
        /// What to write.
        remedy: &'static str,
    },
    /// Values that exclude each other.
    #[error("{place}: {what}")]
    Contradiction {
        /// File and line, or where else the later of them was set.
        place: String,
        /// What excludes what.
        what: String,
    },
    /// Certificates in a form that is not read.
    #[error("{place}: {key} is {}, of type {kind}; this version reads only PEM", path.display())]
    NotPem {
        /// File and line, or where else it was set.
        place: String,
        /// Name of the key.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// JKS, PKCS12 or BCFKS.
        kind: String,
    },
    /// An ensemble, and nothing says which of its servers this is.
    #[error(
        "{}: this file does not exist; it should say which {} this is", path.display(),
        if *servers == 1 { "server".to_owned() } else { format!("of the {servers} servers") }
    )]
    NoMyId {
        /// Where it is looked for.
        path: PathBuf,
        /// Servers of the list.
        servers: usize,
    },
}

/// What stands against a start, as it is found.
#[derive(Debug, Default)]
pub(super) struct Found(Vec<ConfigError>);

impl Found {
    pub(super) fn add(&mut self, error: ConfigError) {
        self.0.push(error);
    }

    /// The value; none where it is refused.
    pub(super) fn take<T>(&mut self, value: Result<T, ConfigError>) -> Option<T> {
        value.map_err(|error| self.add(error)).ok()
    }
}

impl IntoIterator for Found {
    type Item = ConfigError;
    type IntoIter = std::vec::IntoIter<ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// Keys whose default, if they have one, is no way out of a bad value.
const WITHOUT_DEFAULT: [&str; 4] = ["dataDir", "clientPort", "initLimit", "syncLimit"];

impl ConfigError {
    /// The message that it is.
    #[must_use]
    pub const fn id(&self) -> MessageId {
        match self {
            Self::Unreadable { .. } | Self::DynamicFile { .. } => MessageId::CONFIG_UNREADABLE,
            Self::Directory { .. } => MessageId::CONFIG_IS_DIRECTORY,
            Self::TooLarge { .. } => MessageId::CONFIG_TOO_LARGE,
            Self::MalformedEscape { .. } => MessageId::MALFORMED_ESCAPE,
            Self::BadValue { .. } | Self::ServerLine { .. } => MessageId::BAD_VALUE,
            Self::List { .. } => MessageId::NO_LIST_IN_FILE,
            Self::ProposedList { .. } => MessageId::LIST_PROPOSED,
            Self::Refused { .. } => MessageId::KEY_REFUSED,
            Self::NotSet { .. } => MessageId::KEY_NOT_SET,
            Self::Contradiction { .. } => MessageId::CONTRADICTION,
            Self::NotPem { .. } => MessageId::STORE_NOT_PEM,
            Self::NoMyId { .. } => MessageId::NO_MYID,
        }
    }

    /// The key whose value cannot be taken, where the others can be judged without it.
    pub(super) fn key_of_bad_value(&self) -> Option<&str> {
        match self {
            Self::BadValue { key, .. } if !WITHOUT_DEFAULT.contains(&key.as_str()) => Some(key),
            _ => None,
        }
    }

    /// What the operator can do about it, one sentence.
    pub fn remedy(&self) -> String {
        match self {
            Self::Unreadable { source, .. } | Self::DynamicFile { source, .. }
                if source.kind() == io::ErrorKind::NotFound =>
            {
                "Check the path; it is relative to the working directory.".to_owned()
            }
            Self::Unreadable { .. } | Self::DynamicFile { .. } => {
                "Make the file readable for this user.".to_owned()
            }
            Self::Directory { path } => {
                format!(
                    "Give the path of the file itself, such as {}.",
                    path.join("zoo.cfg").display()
                )
            }
            Self::TooLarge { .. } => "Give the file with tickTime, dataDir and so on.".to_owned(),
            Self::MalformedEscape { .. } => {
                "Write the backslash twice, as in any Java properties file.".to_owned()
            }
            Self::BadValue { key, .. } if WITHOUT_DEFAULT.contains(&key.as_str()) => {
                format!("Correct {key}.")
            }
            Self::ServerLine { key, .. } => format!("Correct {key}."),
            Self::BadValue { key, .. } => {
                format!("Correct {key}, or remove it to get its default.")
            }
            Self::List { .. } => {
                "Correct it: it has the server.N lines, and all else stands in zoo.cfg.".to_owned()
            }
            Self::ProposedList { path } => format!(
                "Finish the change in ZooKeeper: start its ensemble, wait until there is a leader, \
                 and stop it. Only if you are sure that the change was never committed, move {} \
                 away instead.",
                path.display()
            ),
            Self::Refused { key, .. } => {
                format!("Remove {key} if you can do without it.")
            }
            Self::NotSet { remedy, .. } => (*remedy).to_owned(),
            Self::Contradiction { .. } => "Correct one of the two.".to_owned(),
            Self::NotPem { path, kind, .. } => convert(path, kind),
            Self::NoMyId { path, .. } => {
                format!(
                    "Write the N of this server's server.N line into it: echo N > {}",
                    path.display()
                )
            }
        }
    }
}

/// How a store of Java's becomes PEM.
fn convert(path: &Path, kind: &str) -> String {
    let (from, p12, pem) = (path.display(), path.with_extension("p12"), path.with_extension("pem"));
    let (p12, pem) = (p12.display(), pem.display());
    let to_pem = |p12: &dyn fmt::Display| format!("openssl pkcs12 -in {p12} -nodes -out {pem}");
    match kind {
        "PKCS12" => format!("Convert it with `{}`, and configure the new file.", to_pem(&from)),
        _ => format!(
            "Convert it with `keytool -importkeystore -srckeystore {from} -srcstoretype {kind} \
             -destkeystore {p12} -deststoretype PKCS12 && {}`, and configure the new file.",
            to_pem(&p12)
        ),
    }
}
