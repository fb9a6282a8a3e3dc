//! What a request does, as far as its operation says.

use jute::OpCode;
use jute::protocol::Request;

/// What a request does. What [reads](Self::is_read) is answered from the tree, all others are
/// ordered first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It is answered without a look at the tree.
    Ping,
    /// It shows who the client is.
    Identities,
    /// It shows something of the tree, or watches it.
    Shows {
        /// Whether the answer can be far larger than the request and a znode's data, or cost as
        /// much.
        can_be_large: bool,
    },
    /// It says who the client is. It is not ordered, either.
    Authenticates,
    /// It has its place in the order, and changes nothing that a client names.
    Ordered,
    /// It changes something in the tree, if it succeeds.
    Changes,
}

impl Effect {
    /// That of a request.
    #[must_use]
    pub const fn of(request: &Request<'_>) -> Self {
        match request {
            Request::Ping => Self::Ping,
            Request::WhoAmI => Self::Identities,
            Request::Exists(_)
            | Request::GetData(_)
            | Request::AddWatch(_)
            | Request::CheckWatches(_)
            | Request::RemoveWatches(_) => Self::Shows { can_be_large: false },
            Request::GetAcl(_)
            | Request::GetChildren(_)
            | Request::GetChildren2(_)
            | Request::GetEphemerals(_)
            | Request::GetAllChildrenNumber(_)
            | Request::MultiRead(_)
            | Request::SetWatches(_)
            | Request::SetWatches2(_) => Self::Shows { can_be_large: true },
            Request::Auth(_) | Request::Sasl(_) => Self::Authenticates,
            Request::Sync(_) | Request::CloseSession => Self::Ordered,
            Request::Create(_)
            | Request::Create2(_)
            | Request::CreateContainer(_)
            | Request::CreateTtl(_)
            | Request::Delete(_)
            | Request::SetData(_)
            | Request::SetAcl(_)
            | Request::Reconfig(_)
            | Request::Multi(_) => Self::Changes,
        }
    }

    /// Whether a session that reads only is refused it, whatever else it says
    /// (`ReadOnlyRequestProcessor`).
    #[must_use]
    pub fn is_refused_to_readers(op: i32) -> bool {
        matches!(
            OpCode::from_code(op),
            Some(
                OpCode::Sync
                    | OpCode::Create
                    | OpCode::Create2
                    | OpCode::CreateTtl
                    | OpCode::CreateContainer
                    | OpCode::Delete
                    | OpCode::DeleteContainer
                    | OpCode::SetData
                    | OpCode::SetAcl
                    | OpCode::Reconfig
                    | OpCode::Multi
                    | OpCode::Check
            )
        )
    }

    /// Whether the request reads only.
    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, Self::Ping | Self::Identities | Self::Shows { .. })
    }

    /// Whether the answer tells something of the tree.
    #[must_use]
    pub const fn shows_tree(self) -> bool {
        matches!(self, Self::Shows { .. })
    }

    /// Whether the answer can be far larger than the request and a znode's data, or cost as much.
    #[must_use]
    pub const fn can_be_large(self) -> bool {
        matches!(self, Self::Identities | Self::Shows { can_be_large: true })
    }
}
