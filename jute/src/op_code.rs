//! Operation codes (`ZooDefs.OpCode`): one number space for requests and transaction types.

/// What a request asks for, or a transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i32)]
pub enum OpCode {
    /// Watch event, server to client.
    Notification = 0,
    /// create.
    Create = 1,
    /// delete.
    Delete = 2,
    /// exists.
    Exists = 3,
    /// getData.
    GetData = 4,
    /// setData.
    SetData = 5,
    /// getAcl.
    GetAcl = 6,
    /// setAcl.
    SetAcl = 7,
    /// getChildren.
    GetChildren = 8,
    /// sync.
    Sync = 9,
    /// ping.
    Ping = 11,
    /// getChildren with the parent's stat.
    GetChildren2 = 12,
    /// Inside multi only.
    Check = 13,
    /// multi.
    Multi = 14,
    /// create that answers with the stat.
    Create2 = 15,
    /// reconfig.
    Reconfig = 16,
    /// checkWatches.
    CheckWatches = 17,
    /// removeWatches.
    RemoveWatches = 18,
    /// createContainer.
    CreateContainer = 19,
    /// Between servers only: the reaper's delete.
    DeleteContainer = 20,
    /// createTtl.
    CreateTtl = 21,
    /// multiRead.
    MultiRead = 22,
    /// auth.
    Auth = 100,
    /// setWatches.
    SetWatches = 101,
    /// sasl.
    Sasl = 102,
    /// getEphemerals.
    GetEphemerals = 103,
    /// getAllChildrenNumber.
    GetAllChildrenNumber = 104,
    /// setWatches with persistent watches.
    SetWatches2 = 105,
    /// addWatch.
    AddWatch = 106,
    /// whoAmI.
    WhoAmI = 107,
    /// Between servers only.
    CreateSession = -10,
    /// closeSession.
    CloseSession = -11,
    /// A refused transaction in a log; the end of a multi.
    Error = -1,
}

impl OpCode {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The operation of a number, if there is one.
    #[must_use]
    pub const fn from_code(code: i32) -> Option<Self> {
        Some(match code {
            0 => Self::Notification,
            1 => Self::Create,
            2 => Self::Delete,
            3 => Self::Exists,
            4 => Self::GetData,
            5 => Self::SetData,
            6 => Self::GetAcl,
            7 => Self::SetAcl,
            8 => Self::GetChildren,
            9 => Self::Sync,
            11 => Self::Ping,
            12 => Self::GetChildren2,
            13 => Self::Check,
            14 => Self::Multi,
            15 => Self::Create2,
            16 => Self::Reconfig,
            17 => Self::CheckWatches,
            18 => Self::RemoveWatches,
            19 => Self::CreateContainer,
            20 => Self::DeleteContainer,
            21 => Self::CreateTtl,
            22 => Self::MultiRead,
            100 => Self::Auth,
            101 => Self::SetWatches,
            102 => Self::Sasl,
            103 => Self::GetEphemerals,
            104 => Self::GetAllChildrenNumber,
            105 => Self::SetWatches2,
            106 => Self::AddWatch,
            107 => Self::WhoAmI,
            -10 => Self::CreateSession,
            -11 => Self::CloseSession,
            -1 => Self::Error,
            _ => return None,
        })
    }
}
