//! Why a command did not do what it was asked for, in zkCli's words and with its exit codes.

use std::io;

use jute::{DecodeError, ErrorCode};

/// What the server, or the client in its place, refused a request with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: i32,
    /// The path that it is about, if it is about one.
    pub(super) path: Option<String>,
}

impl Refusal {
    pub(super) fn is(&self, code: ErrorCode) -> bool {
        self.code == code.code()
    }

    /// `KeeperException.getMessage`.
    pub(super) fn in_general(&self) -> String {
        let words = match ErrorCode::from_code(self.code) {
            Some(code) => words(code),
            None => return format!("KeeperErrorCode = Unknown error {}", self.code),
        };
        match self.path.as_deref() {
            None | Some("") => format!("KeeperErrorCode = {words}"),
            Some(path) => format!("KeeperErrorCode = {words} for {path}"),
        }
    }

    /// What zkCli prints.
    fn told(&self) -> String {
        let path = self.path.as_deref().unwrap_or("null");
        match ErrorCode::from_code(self.code) {
            Some(ErrorCode::NoNode) => format!("Node does not exist: {path}"),
            Some(ErrorCode::NoChildrenForEphemerals) => {
                format!("Ephemerals cannot have children: {path}")
            }
            Some(ErrorCode::NodeExists) => format!("Node already exists: {path}"),
            Some(ErrorCode::NotEmpty) => format!("Node not empty: {path}"),
            Some(ErrorCode::NotReadOnly) => format!("Not a read-only call: {path}"),
            Some(ErrorCode::InvalidAcl) => format!("Acl is not valid : {path}"),
            Some(ErrorCode::NoAuth) => format!("Insufficient permission : {path}"),
            Some(ErrorCode::BadArguments) => format!("Arguments are not valid : {path}"),
            Some(ErrorCode::BadVersion) => format!("version No is not valid : {path}"),
            Some(ErrorCode::ReconfigInProgress) => {
                "Another reconfiguration is in progress -- concurrent reconfigs not supported (yet)"
                    .to_owned()
            }
            Some(ErrorCode::NewConfigNoQuorum) => {
                "No quorum of new config is connected and up-to-date with the leader of last \
                 commmitted config - try invoking reconfiguration after new servers are connected \
                 and synced"
                    .to_owned()
            }
            Some(ErrorCode::QuotaExceeded) => format!("Quota has exceeded : {path}"),
            _ => self.in_general(),
        }
    }

    /// The code's name, for scripts.
    pub(super) fn name(&self) -> String {
        ErrorCode::from_code(self.code)
            .map_or_else(|| "Unknown".to_owned(), |code| format!("{code:?}"))
    }
}

/// `KeeperException.getCodeMessage`.
fn words(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::SystemError => "SystemError",
        ErrorCode::RuntimeInconsistency => "RuntimeInconsistency",
        ErrorCode::DataInconsistency => "DataInconsistency",
        ErrorCode::ConnectionLoss => "ConnectionLoss",
        ErrorCode::MarshallingError => "MarshallingError",
        ErrorCode::Unimplemented => "Unimplemented",
        ErrorCode::OperationTimeout => "OperationTimeout",
        ErrorCode::BadArguments => "BadArguments",
        ErrorCode::UnknownSession => "Unknown error UNKNOWNSESSION",
        ErrorCode::NewConfigNoQuorum => "NewConfigNoQuorum",
        ErrorCode::ReconfigInProgress => "ReconfigInProgress",
        ErrorCode::ApiError => "APIError",
        ErrorCode::NoNode => "NoNode",
        ErrorCode::NoAuth => "NoAuth",
        ErrorCode::BadVersion => "BadVersion",
        ErrorCode::NoChildrenForEphemerals => "NoChildrenForEphemerals",
        ErrorCode::NodeExists => "NodeExists",
        ErrorCode::NotEmpty => "Directory not empty",
        ErrorCode::SessionExpired => "Session expired",
        ErrorCode::InvalidCallback => "Invalid callback",
        ErrorCode::InvalidAcl => "InvalidACL",
        ErrorCode::AuthFailed => "AuthFailed",
        ErrorCode::SessionMoved => "Session moved",
        ErrorCode::NotReadOnly => "Not a read-only call",
        ErrorCode::EphemeralOnLocalSession => "Ephemeral node on local session",
        ErrorCode::NoWatcher => "No such watcher",
        ErrorCode::RequestTimeout => "Unknown error REQUESTTIMEOUT",
        ErrorCode::ReconfigDisabled => "Reconfig is disabled",
        ErrorCode::SessionClosedRequireSaslAuth => {
            "Session closed because client failed to authenticate"
        }
        ErrorCode::QuotaExceeded => "Quota has exceeded",
        ErrorCode::ThrottledOp => "Op throttled due to high load",
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CliError {
    #[error("{}", .0.told())]
    Refused(Refusal),
    #[error("the server's answer cannot be read: {0}")]
    Answer(DecodeError),
    /// Not what the usage says; the command makes [`Self::Malformed`] of it.
    #[error("wrong usage")]
    Usage,
    /// A bad path or argument.
    #[error("{0}")]
    Malformed(String),
    #[error("Command not found: Command not found {0}")]
    NotFound(String),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}

impl CliError {
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::NotFound(_) => 127,
            _ => 1,
        }
    }

    /// Whether the server refused with this.
    pub(super) fn is(&self, code: ErrorCode) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.is(code))
    }

    pub(super) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
