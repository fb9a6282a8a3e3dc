//! What the orderer is asked for that it need not order.

use std::sync::mpsc::SyncSender;

use tokio::sync::oneshot;

use crate::engine::database::Database;
use crate::engine::decide::expiry::ExpiryPlace;
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::engine::zxid::Zxid;
use crate::storage::StorageError;

/// A look at what only the orderer knows, or a word of the operator's that only it can follow.
#[derive(Debug)]
pub enum Inquiry {
    /// Its state goes to the log.
    LogState,
    /// If it leads, another one is to lead; what comes of it goes to the log.
    HandOver,
    /// Some of its sessions by the time at which they expire.
    Expiry(Scope, ExpiryPlace, SyncSender<Expiry>),
    /// A snapshot of what is applied now is to be taken; its zxid is said once it is durable, and
    /// nothing if there is none.
    Snapshot(oneshot::Sender<Zxid>),
    /// Another state is to take the place of the applied one. Only who orders alone does it, and
    /// says which zxid it has then.
    Replace(Box<Database>, oneshot::Sender<Result<Zxid, StorageError>>),
}

/// Which sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those that live on one server only, if there can be any.
    Local,
    /// Those of all servers; only whoever orders knows when they expire.
    Global,
}

/// Sessions that are told of at once: whoever asks for more asks again, and everybody else has a
/// turn between.
pub const EXPIRIES_AT_ONCE: usize = 1024;

/// Some sessions and when they expire, soonest first, and where to go on. None where that is not
/// known.
pub type Expiry = Option<(Vec<(Monotonic, SessionId)>, Option<ExpiryPlace>)>;
