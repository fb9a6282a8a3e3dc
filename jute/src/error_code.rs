//! Error codes (`KeeperException.Code`). Success is the absence of one; on the wire it is 0.

/// Why a request was refused: the `err` field of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
pub enum ErrorCode {
    /// Range marker, never sent.
    SystemError = -1,
    /// A sub-operation after the failed one of a multi.
    RuntimeInconsistency = -2,
    /// Never sent by a server.
    DataInconsistency = -3,
    /// Clients' own.
    ConnectionLoss = -4,
    /// A body that cannot be decoded.
    MarshallingError = -5,
    /// An operation that does not exist, or is switched off.
    Unimplemented = -6,
    /// The server cannot take the write now; clients try again.
    OperationTimeout = -7,
    /// An invalid path, mode or argument.
    BadArguments = -8,
    /// The session does not exist.
    UnknownSession = -12,
    /// The new members have no synced quorum.
    NewConfigNoQuorum = -13,
    /// Another reconfig is pending.
    ReconfigInProgress = -14,
    /// Range marker, never sent.
    ApiError = -100,
    /// The znode does not exist.
    NoNode = -101,
    /// The ACL denies it.
    NoAuth = -102,
    /// The expected version is not the current one.
    BadVersion = -103,
    /// The parent is ephemeral.
    NoChildrenForEphemerals = -108,
    /// The znode exists.
    NodeExists = -110,
    /// The znode has children.
    NotEmpty = -111,
    /// The session is closing or expired.
    SessionExpired = -112,
    /// Clients' own.
    InvalidCallback = -113,
    /// The ACL is empty or names what does not exist.
    InvalidAcl = -114,
    /// Authentication failed.
    AuthFailed = -115,
    /// Another connection owns the session; never sent, the connection is closed.
    SessionMoved = -118,
    /// A write on a read-only server.
    NotReadOnly = -119,
    /// An ephemeral znode on a local session.
    EphemeralOnLocalSession = -120,
    /// No such watch on this connection.
    NoWatcher = -121,
    /// Clients' own.
    RequestTimeout = -122,
    /// reconfigEnabled is false.
    ReconfigDisabled = -123,
    /// The connection has not authenticated as it must.
    SessionClosedRequireSaslAuth = -124,
    /// A hard quota.
    QuotaExceeded = -125,
    /// The request waited too long.
    ThrottledOp = -127,
}

impl ErrorCode {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The error of a number, if there is one.
    #[must_use]
    pub const fn from_code(code: i32) -> Option<Self> {
        Some(match code {
            -1 => Self::SystemError,
            -2 => Self::RuntimeInconsistency,
            -3 => Self::DataInconsistency,
            -4 => Self::ConnectionLoss,
            -5 => Self::MarshallingError,
            -6 => Self::Unimplemented,
            -7 => Self::OperationTimeout,
            -8 => Self::BadArguments,
            -12 => Self::UnknownSession,
            -13 => Self::NewConfigNoQuorum,
            -14 => Self::ReconfigInProgress,
            -100 => Self::ApiError,
            -101 => Self::NoNode,
            -102 => Self::NoAuth,
            -103 => Self::BadVersion,
            -108 => Self::NoChildrenForEphemerals,
            -110 => Self::NodeExists,
            -111 => Self::NotEmpty,
            -112 => Self::SessionExpired,
            -113 => Self::InvalidCallback,
            -114 => Self::InvalidAcl,
            -115 => Self::AuthFailed,
            -118 => Self::SessionMoved,
            -119 => Self::NotReadOnly,
            -120 => Self::EphemeralOnLocalSession,
            -121 => Self::NoWatcher,
            -122 => Self::RequestTimeout,
            -123 => Self::ReconfigDisabled,
            -124 => Self::SessionClosedRequireSaslAuth,
            -125 => Self::QuotaExceeded,
            -127 => Self::ThrottledOp,
            _ => return None,
        })
    }
}
