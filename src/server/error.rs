//! Why a server did not start, or ended by itself.

use std::io;

use super::SecurityError;
use crate::ensemble::{EnsembleError, OrderError};
use crate::message::MessageId;
use crate::storage::StorageError;

/// Why a server did not start, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The data directory cannot be used.
    #[error("the data directory cannot be used")]
    Storage(#[from] StorageError),
    /// A port cannot be bound.
    #[error("cannot listen on {address} for {purpose}: is another server running there?")]
    Bind {
        /// Where.
        address: String,
        /// What for.
        purpose: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The audit log cannot be begun.
    #[error("cannot start the audit log on {place} ({key})")]
    Audit {
        /// Where.
        place: String,
        /// What says so.
        key: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The system refuses threads, signals or randomness.
    #[error("the operating system refuses {0}")]
    System(&'static str, #[source] io::Error),
    /// `db.autocreate=false`, and the directory holds no database.
    #[error(
        "the data directory {0} holds no database, and db.autocreate is false: check that its disk \
         is mounted and that dataDir is right. Only to begin with an empty tree, create an empty \
         file named initialize in it: what was there is then lost"
    )]
    NoDatabase(String),
    /// The orderer had to stop.
    #[error("the server had to stop")]
    Order(#[from] OrderError),
    /// The member of an ensemble could not start, or had to stop.
    #[error("this member of the ensemble had to stop")]
    Ensemble(#[from] EnsembleError),
    /// Data of before beside an ensemble.
    #[error(
        "{directory} holds data up to zxid {zxid:#x} {}. Joining that ensemble would lose this \
         data. Only if that ensemble has what is needed, and while a majority of the others is \
         running, run `{command}`, which keeps this data, and start again",
        match has_left {
            false => "that belongs to no ensemble, but the other servers belong to one",
            true => "which ZooKeeper continued from a member's data, and the other servers run an \
                ensemble that may not have all of it",
        }
    )]
    NotEmpty {
        /// Where.
        directory: String,
        /// What an operator types to move all aside.
        command: String,
        /// The last transaction in it.
        zxid: i64,
        /// ZooKeeper has made it of what a member had.
        has_left: bool,
    },
    /// This server cannot prove who it is, or know the others.
    #[error("this server cannot authenticate to the other servers of the ensemble")]
    Security(#[from] SecurityError),
    /// The orderer's thread is gone.
    #[error("the ordering thread ended unexpectedly; this is a bug, please report it")]
    OrdererLost,
}

impl ServerError {
    /// What the process ends with: ZooKeeper's exit codes.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Storage(_) | Self::NoDatabase(_) | Self::NotEmpty { .. } => 3,
            Self::Ensemble(EnsembleError::Storage(_) | EnsembleError::OlderCopy(_)) => 3,
            Self::Security(_) => 2,
            Self::Bind { .. } => 4,
            Self::System(..)
            | Self::Audit { .. }
            | Self::Order(_)
            | Self::Ensemble(_)
            | Self::OrdererLost => 1,
        }
    }

    /// The message that it is.
    #[must_use]
    pub const fn id(&self) -> MessageId {
        match self {
            Self::Storage(error) => error.id(),
            Self::Bind { .. } => MessageId::PORT_NOT_BOUND,
            Self::System(..) | Self::Audit { .. } => MessageId::SYSTEM_REFUSED,
            Self::NoDatabase(_) => MessageId::NO_DATABASE,
            Self::Order(error) => error.id(),
            Self::Ensemble(error) => error.id(),
            Self::NotEmpty { .. } => MessageId::DATA_OF_NO_ENSEMBLE,
            Self::Security(error) => error.id(),
            Self::OrdererLost => MessageId::ORDERER_LOST,
        }
    }
}
