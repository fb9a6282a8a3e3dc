//! Why bytes are not a record.

use nom::error::{ErrorKind, ParseError};

/// Why bytes are not the record that was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input ends before the record does.
    #[error("the input ends inside a record")]
    Truncated,
    /// A length is negative without being the null marker -1.
    #[error("length {0} is negative")]
    NegativeLength(i32),
    /// A null stands where a value is needed.
    #[error("a null appears where a value is required")]
    Null,
    /// A number that is no operation, or none that clients may send.
    #[error("operation {0} is not one that a client may send")]
    UnknownOperation(i32),
    /// An operation that cannot stand inside a multi.
    #[error("operation {0} is not allowed inside a multi")]
    Operation(i32),
    /// Create flags that are none of ZooKeeper's modes, or not one of this operation.
    #[error("create flags {0} are not allowed here")]
    CreateFlags(i32),
    /// A watch mode or watcher type outside its range.
    #[error("watch mode or type {0} does not exist")]
    WatchMode(i32),
    /// The record type of a transaction that does not exist.
    #[error("transaction type {0} does not exist")]
    TxnType(i32),
}

impl<I> ParseError<I> for DecodeError {
    fn from_error_kind(_input: I, _kind: ErrorKind) -> Self {
        Self::Truncated
    }

    fn append(_input: I, _kind: ErrorKind, other: Self) -> Self {
        other
    }
}
