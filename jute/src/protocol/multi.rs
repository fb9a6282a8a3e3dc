//! multi and multiRead: several requests in one, and their results.
//!
//! Each part stands after a [`MultiHeader`]; one with `done` ends the list.

use std::borrow::Cow;

use bytes::BufMut;

use super::request::{
    CheckVersionRequest, CreateRequest, CreateTtlRequest, DeleteRequest, SetDataRequest,
    WatchRequest,
};
use super::response::{
    ChildrenResponse, Create2Response, CreateResponse, ErrorResponse, GetDataResponse,
};
use crate::record::{IntoStatic, Parsed, Record, record, reject};
use crate::{CreateMode, DecodeError, OpCode, Stat};

record! {
    /// Stands before each part of a multi and after the last one.
    pub struct MultiHeader {
        /// The part's operation, -1 for an error or the end.
        pub op: i32,
        /// Whether this ends the list.
        pub done: bool,
        /// The part's error in a result; without meaning in a request.
        pub err: i32,
    }
}

impl MultiHeader {
    const END: Self = Self { op: -1, done: true, err: -1 };

    const fn request(op_code: OpCode) -> Self {
        Self { op: op_code.code(), done: false, err: -1 }
    }

    const fn result(op: i32, err: i32) -> Self {
        Self { op, done: false, err }
    }
}

/// A write inside a multi.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is its operation")]
pub enum MultiOp<'a> {
    Create(CreateRequest<'a>),
    Create2(CreateRequest<'a>),
    CreateContainer(CreateRequest<'a>),
    CreateTtl(CreateTtlRequest<'a>),
    Delete(DeleteRequest<'a>),
    SetData(SetDataRequest<'a>),
    Check(CheckVersionRequest<'a>),
}

impl<'a> MultiOp<'a> {
    /// The znode.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Create(its) | Self::Create2(its) | Self::CreateContainer(its) => &its.path,
            Self::CreateTtl(its) => &its.path,
            Self::Delete(its) => &its.path,
            Self::SetData(its) => &its.path,
            Self::Check(its) => &its.path,
        }
    }

    /// Reads one part. The mode of a create decides its operation, as `Op.create` has it: a
    /// container mode makes a createContainer, a createTTL without a TTL mode is a plain create.
    /// Flags that are no mode spoil the whole multi, but only the part where it is a createTTL; a
    /// null list spoils the whole multi, but not in a createTTL.
    fn decode(op: i32, input: &'a [u8]) -> Parsed<'a, Self> {
        match OpCode::from_code(op) {
            Some(op_code @ (OpCode::Create | OpCode::Create2 | OpCode::CreateContainer)) => {
                let (rest, create) = CreateRequest::decode(input)?;
                if create.acl.is_none() {
                    return reject(DecodeError::Null);
                }
                let part = match CreateMode::from_flags(create.flags) {
                    None => return reject(DecodeError::CreateFlags(create.flags)),
                    Some(mode) if mode.is_ttl() => {
                        return reject(DecodeError::CreateFlags(create.flags));
                    }
                    Some(CreateMode::Container) => Self::CreateContainer(create),
                    Some(_) => match op_code {
                        OpCode::Create => Self::Create(create),
                        OpCode::Create2 => Self::Create2(create),
                        _ => Self::CreateContainer(create),
                    },
                };
                Ok((rest, part))
            }
            Some(OpCode::CreateTtl) => {
                let (rest, create) = CreateTtlRequest::decode(input)?;
                let part = match CreateMode::from_flags(create.flags) {
                    None => Self::CreateTtl(create),
                    Some(mode) if mode.is_ttl() => Self::CreateTtl(create),
                    Some(mode) => {
                        let CreateTtlRequest { path, data, acl, flags, ttl: _ } = create;
                        // Refused alike, but null would spoil the whole multi when it is read as a
                        // create.
                        let acl = Some(acl.unwrap_or_default());
                        let create = CreateRequest { path, data, acl, flags };
                        match mode {
                            CreateMode::Container => Self::CreateContainer(create),
                            _ => Self::Create(create),
                        }
                    }
                };
                Ok((rest, part))
            }
            Some(OpCode::Delete) => {
                DeleteRequest::decode(input).map(|(rest, part)| (rest, Self::Delete(part)))
            }
            Some(OpCode::SetData) => {
                SetDataRequest::decode(input).map(|(rest, part)| (rest, Self::SetData(part)))
            }
            Some(OpCode::Check) => {
                CheckVersionRequest::decode(input).map(|(rest, part)| (rest, Self::Check(part)))
            }
            _ => reject(DecodeError::Operation(op)),
        }
    }

    /// The operation.
    #[must_use]
    pub const fn op_code(&self) -> OpCode {
        match self {
            Self::Create(_) => OpCode::Create,
            Self::Create2(_) => OpCode::Create2,
            Self::CreateContainer(_) => OpCode::CreateContainer,
            Self::CreateTtl(_) => OpCode::CreateTtl,
            Self::Delete(_) => OpCode::Delete,
            Self::SetData(_) => OpCode::SetData,
            Self::Check(_) => OpCode::Check,
        }
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        MultiHeader::request(self.op_code()).encode(out);
        match self {
            Self::Create(part) | Self::Create2(part) | Self::CreateContainer(part) => {
                part.encode(out);
            }
            Self::CreateTtl(part) => part.encode(out),
            Self::Delete(part) => part.encode(out),
            Self::SetData(part) => part.encode(out),
            Self::Check(part) => part.encode(out),
        }
    }
}

impl IntoStatic for MultiOp<'_> {
    type Static = MultiOp<'static>;

    fn into_static(self) -> Self::Static {
        match self {
            Self::Create(part) => MultiOp::Create(part.into_static()),
            Self::Create2(part) => MultiOp::Create2(part.into_static()),
            Self::CreateContainer(part) => MultiOp::CreateContainer(part.into_static()),
            Self::CreateTtl(part) => MultiOp::CreateTtl(part.into_static()),
            Self::Delete(part) => MultiOp::Delete(part.into_static()),
            Self::SetData(part) => MultiOp::SetData(part.into_static()),
            Self::Check(part) => MultiOp::Check(part.into_static()),
        }
    }
}

/// A read inside a multiRead. Watch flags are dropped, as in Java.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is its operation, its payload the path")]
pub enum ReadOp<'a> {
    GetData(Cow<'a, str>),
    GetChildren(Cow<'a, str>),
}

impl<'a> ReadOp<'a> {
    /// The znode.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::GetData(path) | Self::GetChildren(path) => path,
        }
    }

    fn decode(op: i32, input: &'a [u8]) -> Parsed<'a, Self> {
        let variant = match OpCode::from_code(op) {
            Some(OpCode::GetData) => Self::GetData,
            Some(OpCode::GetChildren) => Self::GetChildren,
            _ => return reject(DecodeError::Operation(op)),
        };
        let (rest, part) = WatchRequest::decode(input)?;
        Ok((rest, variant(part.path)))
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        let (op_code, path) = match self {
            Self::GetData(path) => (OpCode::GetData, path),
            Self::GetChildren(path) => (OpCode::GetChildren, path),
        };
        MultiHeader::request(op_code).encode(out);
        path.encode(out);
        false.encode(out);
    }
}

impl IntoStatic for ReadOp<'_> {
    type Static = ReadOp<'static>;

    fn into_static(self) -> Self::Static {
        match self {
            Self::GetData(path) => ReadOp::GetData(IntoStatic::into_static(path)),
            Self::GetChildren(path) => ReadOp::GetChildren(IntoStatic::into_static(path)),
        }
    }
}

fn decode_parts<'a, T>(
    mut input: &'a [u8],
    decode: impl Fn(i32, &'a [u8]) -> Parsed<'a, T>,
) -> Parsed<'a, Vec<T>> {
    let mut parts = Vec::new();
    loop {
        let (rest, header) = MultiHeader::decode(input)?;
        if header.done {
            return Ok((rest, parts));
        }
        let (rest, part) = decode(header.op, rest)?;
        parts.push(part);
        input = rest;
    }
}

pub(super) fn decode_ops(input: &[u8]) -> Parsed<'_, Vec<MultiOp<'_>>> {
    decode_parts(input, MultiOp::decode)
}

pub(super) fn decode_reads(input: &[u8]) -> Parsed<'_, Vec<ReadOp<'_>>> {
    decode_parts(input, ReadOp::decode)
}

pub(super) fn encode_ops<B: BufMut>(ops: &[MultiOp<'_>], out: &mut B) {
    for op in ops {
        op.encode(out);
    }
    MultiHeader::END.encode(out);
}

pub(super) fn encode_reads<B: BufMut>(ops: &[ReadOp<'_>], out: &mut B) {
    for op in ops {
        op.encode(out);
    }
    MultiHeader::END.encode(out);
}

/// The result of one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultiResult<'a> {
    /// create: the path with its suffix.
    Create(Cow<'a, str>),
    /// create2, createContainer, createTTL: all answer as create2.
    Create2(Cow<'a, str>, Stat),
    /// delete.
    Delete,
    /// setData.
    SetData(Stat),
    /// check.
    Check,
    /// getData inside a multiRead.
    GetData(Option<Cow<'a, [u8]>>, Stat),
    /// getChildren inside a multiRead.
    GetChildren(Vec<Cow<'a, str>>),
    /// A part that failed (its code), stands before the one that failed (0), or after it (-2).
    Error(i32),
}

impl MultiResult<'_> {
    fn encode<B: BufMut>(&self, out: &mut B) {
        let header = |op_code: OpCode| MultiHeader::result(op_code.code(), 0);
        match self {
            Self::Create(path) => {
                header(OpCode::Create).encode(out);
                path.encode(out);
            }
            Self::Create2(path, stat) => {
                header(OpCode::Create2).encode(out);
                path.encode(out);
                stat.encode(out);
            }
            Self::Delete => header(OpCode::Delete).encode(out),
            Self::SetData(stat) => {
                header(OpCode::SetData).encode(out);
                stat.encode(out);
            }
            Self::Check => header(OpCode::Check).encode(out),
            Self::GetData(data, stat) => {
                header(OpCode::GetData).encode(out);
                data.encode(out);
                stat.encode(out);
            }
            Self::GetChildren(children) => {
                header(OpCode::GetChildren).encode(out);
                children.encode(out);
            }
            Self::Error(err) => {
                MultiHeader::result(OpCode::Error.code(), *err).encode(out);
                ErrorResponse { err: *err }.encode(out);
            }
        }
    }
}

impl<'a> MultiResult<'a> {
    /// Reads the results of a multi or multiRead, as a client does.
    ///
    /// # Errors
    /// Why the body is no list of results.
    pub fn decode_all(body: &'a [u8]) -> Result<Vec<Self>, DecodeError> {
        crate::record::finish(decode_parts(body, Self::decode)).map(|(results, _)| results)
    }

    fn decode(op: i32, input: &'a [u8]) -> Parsed<'a, Self> {
        Ok(match OpCode::from_code(op) {
            Some(OpCode::Create) => {
                let (rest, body) = CreateResponse::decode(input)?;
                (rest, Self::Create(body.path))
            }
            Some(OpCode::Create2) => {
                let (rest, body) = Create2Response::decode(input)?;
                (rest, Self::Create2(body.path, body.stat))
            }
            Some(OpCode::Delete) => (input, Self::Delete),
            Some(OpCode::SetData) => {
                let (rest, stat) = Stat::decode(input)?;
                (rest, Self::SetData(stat))
            }
            Some(OpCode::Check) => (input, Self::Check),
            Some(OpCode::GetData) => {
                let (rest, body) = GetDataResponse::decode(input)?;
                (rest, Self::GetData(body.data, body.stat))
            }
            Some(OpCode::GetChildren) => {
                let (rest, body) = ChildrenResponse::decode(input)?;
                (rest, Self::GetChildren(body.children))
            }
            Some(OpCode::Error) => {
                let (rest, body) = ErrorResponse::decode(input)?;
                (rest, Self::Error(body.err))
            }
            _ => return reject(DecodeError::Operation(op)),
        })
    }
}

pub(super) fn encode_results<B: BufMut>(results: &[MultiResult<'_>], out: &mut B) {
    for result in results {
        result.encode(out);
    }
    MultiHeader::END.encode(out);
}
