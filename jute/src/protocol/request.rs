//! Requests.

use std::borrow::Cow;

use bytes::BufMut;

use super::multi::{self, MultiOp, ReadOp};
use crate::record::{IntoStatic, Parsed, Record, finish, record, reject};
use crate::{Acl, DecodeError, OpCode};

record! {
    /// create, create2, createContainer.
    pub struct CreateRequest<'a> {
        /// The path; a sequential create appends to it.
        pub path: Cow<'a, str>,
        /// The data.
        pub data: Option<Cow<'a, [u8]>>,
        /// Who may do what.
        pub acl: Option<Vec<Acl<'a>>>,
        /// A [`CreateMode`](crate::CreateMode).
        pub flags: i32,
    }
}

record! {
    /// createTTL.
    pub struct CreateTtlRequest<'a> {
        /// The path; a sequential create appends to it.
        pub path: Cow<'a, str>,
        /// The data.
        pub data: Option<Cow<'a, [u8]>>,
        /// Who may do what.
        pub acl: Option<Vec<Acl<'a>>>,
        /// A [`CreateMode`](crate::CreateMode).
        pub flags: i32,
        /// Milliseconds to live.
        pub ttl: i64,
    }
}

record! {
    /// delete.
    pub struct DeleteRequest<'a> {
        /// The znode.
        pub path: Cow<'a, str>,
        /// The version it must have, -1 for any.
        pub version: i32,
    }
}

record! {
    /// setData.
    pub struct SetDataRequest<'a> {
        /// The znode.
        pub path: Cow<'a, str>,
        /// The data.
        pub data: Option<Cow<'a, [u8]>>,
        /// The version it must have, -1 for any.
        pub version: i32,
    }
}

record! {
    /// setACL.
    pub struct SetAclRequest<'a> {
        /// The znode.
        pub path: Cow<'a, str>,
        /// Who may do what.
        pub acl: Option<Vec<Acl<'a>>>,
        /// The ACL version it must have, -1 for any.
        pub version: i32,
    }
}

record! {
    /// check, inside a multi.
    pub struct CheckVersionRequest<'a> {
        /// The znode.
        pub path: Cow<'a, str>,
        /// The version it must have, -1 for any.
        pub version: i32,
    }
}

record! {
    /// exists, getData, getChildren, getChildren2.
    pub struct WatchRequest<'a> {
        /// The znode.
        pub path: Cow<'a, str>,
        /// Whether to leave a one-shot watch.
        pub watch: bool,
    }
}

record! {
    /// getACL, getAllChildrenNumber.
    pub struct PathRequest<'a> {
        /// The znode.
        pub path: Cow<'a, str>,
    }
}

/// getEphemerals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EphemeralsRequest<'a> {
    /// The prefix of the paths asked for. Null reads as empty: both ask for all.
    pub path: Cow<'a, str>,
}

record! {
    /// sync. The path has no meaning and may be null.
    pub struct SyncRequest<'a> {
        /// Echoed.
        pub path: Option<Cow<'a, str>>,
    }
}

record! {
    /// reconfig.
    pub struct ReconfigRequest<'a> {
        /// Members to add or replace.
        pub joining_servers: Option<Cow<'a, str>>,
        /// Ids of members to remove.
        pub leaving_servers: Option<Cow<'a, str>>,
        /// The whole membership.
        pub new_members: Option<Cow<'a, str>>,
        /// The configuration version it must have, -1 for any.
        pub cur_config_id: i64,
    }
}

record! {
    /// setWatches: what a client watched before it reconnected.
    pub struct SetWatchesRequest<'a> {
        /// The last zxid that the client saw.
        pub relative_zxid: i64,
        /// Watches left by getData.
        pub data_watches: Vec<Cow<'a, str>>,
        /// Watches left by exists on a missing znode.
        pub exist_watches: Vec<Cow<'a, str>>,
        /// Watches left by getChildren.
        pub child_watches: Vec<Cow<'a, str>>,
    }
}

record! {
    /// setWatches2: as setWatches, with persistent ones.
    pub struct SetWatches2Request<'a> {
        /// The last zxid that the client saw.
        pub relative_zxid: i64,
        /// Watches left by getData.
        pub data_watches: Vec<Cow<'a, str>>,
        /// Watches left by exists on a missing znode.
        pub exist_watches: Vec<Cow<'a, str>>,
        /// Watches left by getChildren.
        pub child_watches: Vec<Cow<'a, str>>,
        /// Persistent watches.
        pub persistent_watches: Vec<Cow<'a, str>>,
        /// Persistent recursive watches.
        pub persistent_recursive_watches: Vec<Cow<'a, str>>,
    }
}

record! {
    /// auth.
    pub struct AuthPacket<'a> {
        /// Clients send 0.
        pub auth_type: i32,
        /// The scheme.
        pub scheme: Option<Cow<'a, str>>,
        /// What the scheme asks for.
        pub auth: Option<Cow<'a, [u8]>>,
    }
}

record! {
    /// sasl.
    pub struct SaslRequest<'a> {
        /// The mechanism's token.
        pub token: Option<Cow<'a, [u8]>>,
    }
}

/// A path that may be null where nothing looks at it: that is taken as the empty one, which no
/// znode has.
fn path_or_none(input: &[u8]) -> Parsed<'_, Cow<'_, str>> {
    let (input, path) = Option::<Cow<'_, str>>::decode(input)?;
    Ok((input, path.unwrap_or(Cow::Borrowed(""))))
}

impl<'a> Record<'a> for EphemeralsRequest<'a> {
    fn decode(input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, path) = path_or_none(input)?;
        Ok((input, Self { path }))
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        self.path.encode(out);
    }
}

/// The kind of a watch that addWatch leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum AddWatchMode {
    /// Stays after it fired.
    Persistent = 0,
    /// Stays, and watches everything below as well.
    PersistentRecursive = 1,
}

/// addWatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddWatchRequest<'a> {
    /// The znode, which need not exist.
    pub path: Cow<'a, str>,
    /// The kind of watch.
    pub mode: AddWatchMode,
}

impl<'a> Record<'a> for AddWatchRequest<'a> {
    fn decode(input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, path) = path_or_none(input)?;
        let (input, mode) = i32::decode(input)?;
        let mode = match mode {
            0 => AddWatchMode::Persistent,
            1 => AddWatchMode::PersistentRecursive,
            _ => return reject(DecodeError::WatchMode(mode)),
        };
        Ok((input, Self { path, mode }))
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        self.path.encode(out);
        (self.mode as i32).encode(out);
    }
}

/// The watches that checkWatches and removeWatches speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum WatcherType {
    /// One-shot watches on the children.
    Children = 1,
    /// One-shot watches on data and existence.
    Data = 2,
    /// Any watch.
    Any = 3,
    /// Persistent watches.
    Persistent = 4,
    /// Persistent recursive watches.
    PersistentRecursive = 5,
}

/// checkWatches, removeWatches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatcherTypeRequest<'a> {
    /// The watched path.
    pub path: Cow<'a, str>,
    /// Which watches.
    pub watcher_type: WatcherType,
}

impl<'a> Record<'a> for WatcherTypeRequest<'a> {
    fn decode(input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, path) = path_or_none(input)?;
        let (input, code) = i32::decode(input)?;
        let watcher_type = match code {
            1 => WatcherType::Children,
            2 => WatcherType::Data,
            3 => WatcherType::Any,
            4 => WatcherType::Persistent,
            5 => WatcherType::PersistentRecursive,
            _ => return reject(DecodeError::WatchMode(code)),
        };
        Ok((input, Self { path, watcher_type }))
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        self.path.encode(out);
        (self.watcher_type as i32).encode(out);
    }
}

/// Declares [`Request`] from its variants: name, operation, payload.
macro_rules! requests {
    ($($name:ident: $payload:ident,)*) => {
        /// What a client asks for. Operations that only servers send are not among them.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each variant is its operation")]
        pub enum Request<'a> {
            $($name($payload<'a>),)*
            Ping,
            WhoAmI,
            CloseSession,
            Multi(Vec<MultiOp<'a>>),
            MultiRead(Vec<ReadOp<'a>>),
        }

        impl<'a> Request<'a> {
            /// The operation.
            #[must_use]
            pub const fn op_code(&self) -> OpCode {
                match self {
                    $(Self::$name(_) => OpCode::$name,)*
                    Self::Ping => OpCode::Ping,
                    Self::WhoAmI => OpCode::WhoAmI,
                    Self::CloseSession => OpCode::CloseSession,
                    Self::Multi(_) => OpCode::Multi,
                    Self::MultiRead(_) => OpCode::MultiRead,
                }
            }

            /// `None` where a client may not send the operation by itself.
            fn parse(op_code: OpCode, input: &'a [u8]) -> Option<Parsed<'a, Self>> {
                Some(match op_code {
                    $(OpCode::$name => {
                        $payload::decode(input).map(|(rest, body)| (rest, Self::$name(body)))
                    })*
                    OpCode::Ping => Ok((input, Self::Ping)),
                    OpCode::WhoAmI => Ok((input, Self::WhoAmI)),
                    OpCode::CloseSession => Ok((input, Self::CloseSession)),
                    OpCode::Multi => {
                        multi::decode_ops(input).map(|(rest, ops)| (rest, Self::Multi(ops)))
                    }
                    OpCode::MultiRead => {
                        multi::decode_reads(input).map(|(rest, ops)| (rest, Self::MultiRead(ops)))
                    }
                    _ => return None,
                })
            }

            /// Appends the body, without its header, to `out`.
            pub fn encode<B: BufMut>(&self, out: &mut B) {
                match self {
                    $(Self::$name(body) => body.encode(out),)*
                    Self::Ping | Self::WhoAmI | Self::CloseSession => {}
                    Self::Multi(ops) => multi::encode_ops(ops, out),
                    Self::MultiRead(ops) => multi::encode_reads(ops, out),
                }
            }
        }

        impl IntoStatic for Request<'_> {
            type Static = Request<'static>;

            fn into_static(self) -> Self::Static {
                match self {
                    $(Self::$name(body) => Request::$name(body.into_static()),)*
                    Self::Ping => Request::Ping,
                    Self::WhoAmI => Request::WhoAmI,
                    Self::CloseSession => Request::CloseSession,
                    Self::Multi(ops) => Request::Multi(ops.into_static()),
                    Self::MultiRead(ops) => Request::MultiRead(ops.into_static()),
                }
            }
        }
    };
}

requests! {
    Create: CreateRequest,
    Create2: CreateRequest,
    CreateContainer: CreateRequest,
    CreateTtl: CreateTtlRequest,
    Delete: DeleteRequest,
    Exists: WatchRequest,
    GetData: WatchRequest,
    SetData: SetDataRequest,
    GetAcl: PathRequest,
    SetAcl: SetAclRequest,
    GetChildren: WatchRequest,
    GetChildren2: WatchRequest,
    Sync: SyncRequest,
    Reconfig: ReconfigRequest,
    CheckWatches: WatcherTypeRequest,
    RemoveWatches: WatcherTypeRequest,
    Auth: AuthPacket,
    SetWatches: SetWatchesRequest,
    Sasl: SaslRequest,
    GetEphemerals: EphemeralsRequest,
    GetAllChildrenNumber: PathRequest,
    SetWatches2: SetWatches2Request,
    AddWatch: AddWatchRequest,
}

impl Request<'_> {
    /// The znode that it reads or changes, of several the first.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        let path = match self {
            Self::Create(its) | Self::Create2(its) | Self::CreateContainer(its) => &its.path,
            Self::CreateTtl(its) => &its.path,
            Self::Delete(its) => &its.path,
            Self::SetData(its) => &its.path,
            Self::SetAcl(its) => &its.path,
            Self::Exists(its)
            | Self::GetData(its)
            | Self::GetChildren(its)
            | Self::GetChildren2(its) => &its.path,
            Self::GetAcl(its) | Self::GetAllChildrenNumber(its) => &its.path,
            Self::GetEphemerals(its) => &its.path,
            Self::Sync(its) => return its.path.as_deref(),
            Self::Multi(parts) => return parts.first().map(MultiOp::path),
            Self::MultiRead(parts) => return parts.first().map(ReadOp::path),
            _ => return None,
        };
        Some(path)
    }
}

impl<'a> Request<'a> {
    /// Reads the body of an operation. Bytes after it are ignored, as ZooKeeper ignores them.
    ///
    /// # Errors
    /// [`DecodeError::UnknownOperation`] for a number that is no operation of clients, else why the
    /// body is not its record.
    pub fn decode(op: i32, body: &'a [u8]) -> Result<Self, DecodeError> {
        OpCode::from_code(op)
            .and_then(|op_code| Self::parse(op_code, body))
            .map_or(Err(DecodeError::UnknownOperation(op)), |parsed| {
                finish(parsed).map(|(request, _)| request)
            })
    }
}

impl IntoStatic for EphemeralsRequest<'_> {
    type Static = EphemeralsRequest<'static>;

    fn into_static(self) -> Self::Static {
        EphemeralsRequest { path: IntoStatic::into_static(self.path) }
    }
}

impl IntoStatic for AddWatchRequest<'_> {
    type Static = AddWatchRequest<'static>;

    fn into_static(self) -> Self::Static {
        AddWatchRequest { path: IntoStatic::into_static(self.path), mode: self.mode }
    }
}

impl IntoStatic for WatcherTypeRequest<'_> {
    type Static = WatcherTypeRequest<'static>;

    fn into_static(self) -> Self::Static {
        WatcherTypeRequest {
            path: IntoStatic::into_static(self.path),
            watcher_type: self.watcher_type,
        }
    }
}
