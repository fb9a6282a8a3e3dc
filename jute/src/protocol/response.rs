//! Responses: what follows a reply header without an error.

use std::borrow::Cow;

use bytes::BufMut;

use super::multi::{MultiResult, encode_results};
use crate::record::{Record, record};
use crate::{Acl, Stat};

record! {
    /// create.
    pub struct CreateResponse<'a> {
        /// The path with its suffix.
        pub path: Cow<'a, str>,
    }
}

record! {
    /// create2, createContainer, createTTL.
    pub struct Create2Response<'a> {
        /// The path with its suffix.
        pub path: Cow<'a, str>,
        /// The new znode.
        pub stat: Stat,
    }
}

record! {
    /// getData, reconfig.
    pub struct GetDataResponse<'a> {
        /// The data.
        pub data: Option<Cow<'a, [u8]>>,
        /// The znode.
        pub stat: Stat,
    }
}

record! {
    /// getACL.
    pub struct GetAclResponse<'a> {
        /// The list.
        pub acl: Vec<Acl<'a>>,
        /// The znode.
        pub stat: Stat,
    }
}

record! {
    /// getChildren.
    pub struct ChildrenResponse<'a> {
        /// Names, in no order.
        pub children: Vec<Cow<'a, str>>,
    }
}

record! {
    /// getChildren2.
    pub struct Children2Response<'a> {
        /// Names, in no order.
        pub children: Vec<Cow<'a, str>>,
        /// The parent.
        pub stat: Stat,
    }
}

record! {
    /// sync.
    pub struct SyncResponse<'a> {
        /// The request's.
        pub path: Option<Cow<'a, str>>,
    }
}

record! {
    /// getEphemerals.
    pub struct EphemeralsResponse<'a> {
        /// Full paths, in no order.
        pub ephemerals: Vec<Cow<'a, str>>,
    }
}

record! {
    /// sasl.
    pub struct SaslResponse<'a> {
        /// The mechanism's token.
        pub token: Option<Cow<'a, [u8]>>,
    }
}

record! {
    /// One identity of a connection.
    pub struct ClientInfo<'a> {
        /// The scheme.
        pub auth_scheme: Cow<'a, str>,
        /// What the scheme calls the user.
        pub user: Cow<'a, str>,
    }
}

record! {
    /// whoAmI.
    pub struct WhoAmIResponse<'a> {
        /// The connection's identities, in no order.
        pub client_info: Vec<ClientInfo<'a>>,
    }
}

record! {
    /// addWatch, and a failed part of a multi.
    pub struct ErrorResponse {
        /// 0 or an [`ErrorCode`](crate::ErrorCode).
        pub err: i32,
    }
}

/// What a request gives when it succeeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response<'a> {
    /// delete, ping, closeSession, setWatches, checkWatches, removeWatches, auth: no body.
    Empty,
    /// create.
    Create(CreateResponse<'a>),
    /// create2, createContainer, createTTL.
    Create2(Create2Response<'a>),
    /// exists, setData, setACL.
    Stat(Stat),
    /// getData, reconfig.
    GetData(GetDataResponse<'a>),
    /// getACL.
    GetAcl(GetAclResponse<'a>),
    /// getChildren.
    Children(ChildrenResponse<'a>),
    /// getChildren2.
    Children2(Children2Response<'a>),
    /// sync.
    Sync(SyncResponse<'a>),
    /// multi, multiRead.
    Multi(Vec<MultiResult<'a>>),
    /// getEphemerals.
    Ephemerals(EphemeralsResponse<'a>),
    /// getAllChildrenNumber.
    AllChildrenNumber(i32),
    /// addWatch.
    Error(ErrorResponse),
    /// whoAmI.
    WhoAmI(WhoAmIResponse<'a>),
    /// sasl.
    Sasl(SaslResponse<'a>),
}

impl Response<'_> {
    /// Appends the body to `out`.
    pub fn encode<B: BufMut>(&self, out: &mut B) {
        match self {
            Self::Empty => {}
            Self::Create(body) => body.encode(out),
            Self::Create2(body) => body.encode(out),
            Self::Stat(stat) => stat.encode(out),
            Self::GetData(body) => body.encode(out),
            Self::GetAcl(body) => body.encode(out),
            Self::Children(body) => body.encode(out),
            Self::Children2(body) => body.encode(out),
            Self::Sync(body) => body.encode(out),
            Self::Multi(results) => encode_results(results, out),
            Self::Ephemerals(body) => body.encode(out),
            Self::AllChildrenNumber(number) => number.encode(out),
            Self::Error(body) => body.encode(out),
            Self::WhoAmI(body) => body.encode(out),
            Self::Sasl(body) => body.encode(out),
        }
    }
}
