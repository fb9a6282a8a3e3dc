//! Create modes (`CreateMode`): the `flags` field of a create.

use crate::OpCode;

/// How a znode lives and how its name is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum CreateMode {
    /// Lives until deleted.
    Persistent = 0,
    /// Lives as long as its session.
    Ephemeral = 1,
    /// Persistent, with the parent's counter appended to the name.
    PersistentSequential = 2,
    /// Ephemeral, with the parent's counter appended to the name.
    EphemeralSequential = 3,
    /// Removed by the server some time after its last child.
    Container = 4,
    /// Removed by the server when childless and unmodified for its TTL.
    PersistentWithTtl = 5,
    /// As [`Self::PersistentWithTtl`], with the parent's counter appended to the name.
    PersistentSequentialWithTtl = 6,
}

impl CreateMode {
    /// The number on the wire.
    #[must_use]
    pub const fn flags(self) -> i32 {
        self as i32
    }

    /// The mode of a `flags` field, if it is one of ZooKeeper's.
    #[must_use]
    pub const fn from_flags(flags: i32) -> Option<Self> {
        Some(match flags {
            0 => Self::Persistent,
            1 => Self::Ephemeral,
            2 => Self::PersistentSequential,
            3 => Self::EphemeralSequential,
            4 => Self::Container,
            5 => Self::PersistentWithTtl,
            6 => Self::PersistentSequentialWithTtl,
            _ => return None,
        })
    }

    /// Whether the parent's counter is appended to the name.
    #[must_use]
    pub const fn is_sequential(self) -> bool {
        matches!(
            self,
            Self::PersistentSequential
                | Self::EphemeralSequential
                | Self::PersistentSequentialWithTtl
        )
    }

    /// Whether the znode belongs to a session.
    #[must_use]
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    /// Whether the znode has a time to live.
    #[must_use]
    pub const fn is_ttl(self) -> bool {
        matches!(self, Self::PersistentWithTtl | Self::PersistentSequentialWithTtl)
    }

    /// The operation that creates such a znode without a stat in its answer.
    #[must_use]
    pub const fn op_code(self) -> OpCode {
        match self {
            Self::Container => OpCode::CreateContainer,
            Self::PersistentWithTtl | Self::PersistentSequentialWithTtl => OpCode::CreateTtl,
            _ => OpCode::Create,
        }
    }
}
