//! Records of the transaction log.

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use crate::record::{IntoStatic, Parsed, Record, finish, record, reject};
use crate::{Acl, DecodeError, OpCode};

/// Version of the tree digest's algorithm.
pub const DIGEST_VERSION: i32 = 2;

/// Bytes of a [`TxnDigest`]. Fewer bytes after a transaction are no digest, as ZooKeeper's reader
/// has it.
const DIGEST_LEN: usize = 12;

/// What a transaction is known by. Its type, the header's last field, is that of the [`Txn`] beside
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxnHeader {
    /// The session that asked, 0 for the server itself.
    pub client_id: i64,
    /// The request's xid.
    pub cxid: i32,
    /// The transaction's place in the order.
    pub zxid: i64,
    /// Wall clock in milliseconds.
    pub time: i64,
}

record! {
    /// The expected sum of the tree after a transaction.
    pub struct TxnDigest {
        /// [`DIGEST_VERSION`].
        pub version: i32,
        /// The wrapping sum of all znodes' digests.
        pub tree_digest: i64,
    }
}

record! {
    /// create, create2.
    pub struct CreateTxn<'a> {
        /// Full path, with its sequence suffix.
        pub path: Cow<'a, str>,
        /// The data.
        pub data: Option<Cow<'a, [u8]>>,
        /// The list as it is stored.
        pub acl: Option<Vec<Acl<'a>>>,
        /// Whether the header's session owns the znode.
        pub ephemeral: bool,
        /// The parent's counter of creates after this one; -1 where a log before ZooKeeper 3.3.3
        /// has none.
        pub parent_cversion: i32,
    }
}

record! {
    /// createContainer.
    pub struct CreateContainerTxn<'a> {
        /// Full path, with its sequence suffix.
        pub path: Cow<'a, str>,
        /// The data.
        pub data: Option<Cow<'a, [u8]>>,
        /// The list as it is stored.
        pub acl: Option<Vec<Acl<'a>>>,
        /// The parent's counter of creates after this one.
        pub parent_cversion: i32,
    }
}

record! {
    /// createTTL.
    pub struct CreateTtlTxn<'a> {
        /// Full path, with its sequence suffix.
        pub path: Cow<'a, str>,
        /// The data.
        pub data: Option<Cow<'a, [u8]>>,
        /// The list as it is stored.
        pub acl: Option<Vec<Acl<'a>>>,
        /// The parent's counter of creates after this one.
        pub parent_cversion: i32,
        /// Milliseconds to live.
        pub ttl: i64,
    }
}

record! {
    /// delete, deleteContainer.
    pub struct DeleteTxn<'a> {
        /// Full path.
        pub path: Cow<'a, str>,
    }
}

record! {
    /// setData, reconfig.
    pub struct SetDataTxn<'a> {
        /// Full path.
        pub path: Cow<'a, str>,
        /// The data.
        pub data: Option<Cow<'a, [u8]>>,
        /// The version after the change.
        pub version: i32,
    }
}

record! {
    /// setACL.
    pub struct SetAclTxn<'a> {
        /// Full path.
        pub path: Cow<'a, str>,
        /// The list as it is stored.
        pub acl: Option<Vec<Acl<'a>>>,
        /// The ACL version after the change.
        pub version: i32,
    }
}

record! {
    /// check, inside a multi.
    pub struct CheckVersionTxn<'a> {
        /// Full path.
        pub path: Cow<'a, str>,
        /// One more than the znode's version when it was checked: ZooKeeper counts up here as for a
        /// write.
        pub version: i32,
    }
}

record! {
    /// createSession.
    pub struct CreateSessionTxn {
        /// The session's timeout in milliseconds.
        pub timeout_ms: i32,
    }
}

record! {
    /// closeSession.
    pub struct CloseSessionTxn<'a> {
        /// The ephemeral znodes that go with the session; empty where the log has no record: before
        /// ZooKeeper 3.6, and with `zookeeper.closeSessionTxn.enabled=false`.
        pub paths_to_delete: Vec<Cow<'a, str>>,
    }
}

/// A finished change: nothing of it is left to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each variant is its operation, each payload says what it holds")]
pub enum Txn<'a> {
    CreateSession(CreateSessionTxn),
    CloseSession(CloseSessionTxn<'a>),
    Create(CreateTxn<'a>),
    Create2(CreateTxn<'a>),
    CreateContainer(CreateContainerTxn<'a>),
    CreateTtl(CreateTtlTxn<'a>),
    Delete(DeleteTxn<'a>),
    DeleteContainer(DeleteTxn<'a>),
    SetData(SetDataTxn<'a>),
    Reconfig(SetDataTxn<'a>),
    SetAcl(SetAclTxn<'a>),
    Check(CheckVersionTxn<'a>),
    Multi(Vec<Self>),
    /// A refused request that ZooKeeper logged; it changes nothing. The number is an error code.
    Error(i32),
}

impl<'a> Txn<'a> {
    /// The type in the header.
    #[must_use]
    pub const fn op_code(&self) -> OpCode {
        match self {
            Self::CreateSession(_) => OpCode::CreateSession,
            Self::CloseSession(_) => OpCode::CloseSession,
            Self::Create(_) => OpCode::Create,
            Self::Create2(_) => OpCode::Create2,
            Self::CreateContainer(_) => OpCode::CreateContainer,
            Self::CreateTtl(_) => OpCode::CreateTtl,
            Self::Delete(_) => OpCode::Delete,
            Self::DeleteContainer(_) => OpCode::DeleteContainer,
            Self::SetData(_) => OpCode::SetData,
            Self::Reconfig(_) => OpCode::Reconfig,
            Self::SetAcl(_) => OpCode::SetAcl,
            Self::Check(_) => OpCode::Check,
            Self::Multi(_) => OpCode::Multi,
            Self::Error(_) => OpCode::Error,
        }
    }

    /// Bytes of the transaction in its record, without the header.
    #[must_use]
    pub fn body_len(&self) -> usize {
        const NUMBER: usize = 4;
        let text = |text: &str| NUMBER + text.len();
        let data = |data: &Option<Cow<'_, [u8]>>| NUMBER + data.as_deref().map_or(0, <[u8]>::len);
        let list = |list: &Option<Vec<Acl<'_>>>| {
            let entries = list.iter().flatten().map(|Acl { scheme, id, .. }| {
                NUMBER
                    + text(scheme.as_deref().unwrap_or_default())
                    + text(id.as_deref().unwrap_or_default())
            });
            NUMBER + entries.sum::<usize>()
        };
        match self {
            Self::CreateSession(_) | Self::Error(_) => NUMBER,
            Self::CloseSession(txn) => {
                NUMBER + txn.paths_to_delete.iter().map(|path| text(path)).sum::<usize>()
            }
            Self::Create(txn) | Self::Create2(txn) => {
                text(&txn.path) + data(&txn.data) + list(&txn.acl) + 1 + NUMBER
            }
            Self::CreateContainer(txn) => {
                text(&txn.path) + data(&txn.data) + list(&txn.acl) + NUMBER
            }
            Self::CreateTtl(txn) => text(&txn.path) + data(&txn.data) + list(&txn.acl) + NUMBER + 8,
            Self::Delete(txn) | Self::DeleteContainer(txn) => text(&txn.path),
            Self::SetData(txn) | Self::Reconfig(txn) => text(&txn.path) + data(&txn.data) + NUMBER,
            Self::SetAcl(txn) => text(&txn.path) + list(&txn.acl) + NUMBER,
            Self::Check(txn) => text(&txn.path) + NUMBER,
            Self::Multi(txns) => {
                NUMBER + txns.iter().map(|txn| 2 * NUMBER + txn.body_len()).sum::<usize>()
            }
        }
    }

    fn encode_body<B: BufMut>(&self, out: &mut B) {
        match self {
            Self::CreateSession(txn) => txn.encode(out),
            Self::CloseSession(txn) => txn.encode(out),
            Self::Create(txn) | Self::Create2(txn) => txn.encode(out),
            Self::CreateContainer(txn) => txn.encode(out),
            Self::CreateTtl(txn) => txn.encode(out),
            Self::Delete(txn) | Self::DeleteContainer(txn) => txn.encode(out),
            Self::SetData(txn) | Self::Reconfig(txn) => txn.encode(out),
            Self::SetAcl(txn) => txn.encode(out),
            Self::Check(txn) => txn.encode(out),
            Self::Error(code) => code.encode(out),
            Self::Multi(txns) => {
                crate::primitive::put_len(out, txns.len());
                let mut body = BytesMut::new();
                for txn in txns {
                    body.clear();
                    txn.encode_body(&mut body);
                    txn.op_code().code().encode(out);
                    crate::primitive::put_len(out, body.len());
                    out.put_slice(&body);
                }
            }
        }
    }

    fn decode_body(type_code: i32, input: &'a [u8]) -> Parsed<'a, Self> {
        let Some(op_code) = OpCode::from_code(type_code) else {
            return reject(DecodeError::TxnType(type_code));
        };
        fn wrap<'a, T: Record<'a>>(
            input: &'a [u8],
            variant: impl FnOnce(T) -> Txn<'a>,
        ) -> Parsed<'a, Txn<'a>> {
            let (rest, txn) = T::decode(input)?;
            Ok((rest, variant(txn)))
        }
        match op_code {
            OpCode::CreateSession => wrap(input, Self::CreateSession),
            OpCode::CloseSession if input.is_empty() || is_only_digest(input) => {
                Ok((input, Self::CloseSession(CloseSessionTxn { paths_to_delete: Vec::new() })))
            }
            OpCode::CloseSession => wrap(input, Self::CloseSession),
            OpCode::Create => decode_create(input, Self::Create),
            OpCode::Create2 => decode_create(input, Self::Create2),
            OpCode::CreateContainer => wrap(input, Self::CreateContainer),
            OpCode::CreateTtl => wrap(input, Self::CreateTtl),
            OpCode::Delete => wrap(input, Self::Delete),
            OpCode::DeleteContainer => wrap(input, Self::DeleteContainer),
            OpCode::SetData => wrap(input, Self::SetData),
            OpCode::Reconfig => wrap(input, Self::Reconfig),
            OpCode::SetAcl => wrap(input, Self::SetAcl),
            OpCode::Check => wrap(input, Self::Check),
            OpCode::Error => wrap(input, Self::Error),
            OpCode::Multi => decode_multi(input),
            _ => reject(DecodeError::TxnType(type_code)),
        }
    }
}

/// Whether a closeSession has a digest and no record, as ZooKeeper logs it with
/// `zookeeper.closeSessionTxn.enabled=false`. As a list of two paths the digest would leave both of
/// them empty.
fn is_only_digest(input: &[u8]) -> bool {
    input.len() == DIGEST_LEN
        && input.starts_with(&DIGEST_VERSION.to_be_bytes())
        && CloseSessionTxn::decode(input).is_err()
}

/// A create of a log before ZooKeeper 3.3.3 ends before the parent's counter.
fn decode_create<'a>(
    input: &'a [u8],
    variant: impl FnOnce(CreateTxn<'a>) -> Txn<'a>,
) -> Parsed<'a, Txn<'a>> {
    let (input, path) = Cow::decode(input)?;
    let (input, data) = Record::decode(input)?;
    let (input, acl) = Record::decode(input)?;
    let (input, ephemeral) = bool::decode(input)?;
    let (input, parent_cversion) = if input.is_empty() { (input, -1) } else { i32::decode(input)? };
    Ok((input, variant(CreateTxn { path, data, acl, ephemeral, parent_cversion })))
}

/// Sub-transactions carry their type and their length. They do not nest.
fn decode_multi(input: &[u8]) -> Parsed<'_, Txn<'_>> {
    let (mut input, count) = i32::decode(input)?;
    let mut txns = Vec::new();
    for _ in 0..count {
        let (rest, type_code) = i32::decode(input)?;
        let (rest, body) = Option::<Cow<'_, [u8]>>::decode(rest)?;
        let Some(Cow::Borrowed(body)) = body else { return reject(DecodeError::Null) };
        if type_code == OpCode::Multi.code() {
            return reject(DecodeError::TxnType(type_code));
        }
        let (_, txn) = Txn::decode_body(type_code, body)?;
        txns.push(txn);
        input = rest;
    }
    Ok((input, Txn::Multi(txns)))
}

impl IntoStatic for Txn<'_> {
    type Static = Txn<'static>;

    fn into_static(self) -> Self::Static {
        match self {
            Self::CreateSession(txn) => Txn::CreateSession(txn),
            Self::CloseSession(txn) => Txn::CloseSession(txn.into_static()),
            Self::Create(txn) => Txn::Create(txn.into_static()),
            Self::Create2(txn) => Txn::Create2(txn.into_static()),
            Self::CreateContainer(txn) => Txn::CreateContainer(txn.into_static()),
            Self::CreateTtl(txn) => Txn::CreateTtl(txn.into_static()),
            Self::Delete(txn) => Txn::Delete(txn.into_static()),
            Self::DeleteContainer(txn) => Txn::DeleteContainer(txn.into_static()),
            Self::SetData(txn) => Txn::SetData(txn.into_static()),
            Self::Reconfig(txn) => Txn::Reconfig(txn.into_static()),
            Self::SetAcl(txn) => Txn::SetAcl(txn.into_static()),
            Self::Check(txn) => Txn::Check(txn.into_static()),
            Self::Multi(txns) => Txn::Multi(txns.into_static()),
            Self::Error(code) => Txn::Error(code),
        }
    }
}

/// The payload of one log entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxnRecord<'a> {
    /// Who, when, and where in the order.
    pub header: TxnHeader,
    /// What.
    pub txn: Txn<'a>,
    /// The tree's expected sum afterwards.
    pub digest: Option<TxnDigest>,
}

impl<'a> TxnRecord<'a> {
    /// Appends the payload to `out`.
    pub fn encode<B: BufMut>(&self, out: &mut B) {
        out.put_i64(self.header.client_id);
        out.put_i32(self.header.cxid);
        out.put_i64(self.header.zxid);
        out.put_i64(self.header.time);
        out.put_i32(self.txn.op_code().code());
        self.txn.encode_body(out);
        if let Some(digest) = &self.digest {
            digest.encode(out);
        }
    }

    /// Reads a payload and returns what stands after its known parts.
    ///
    /// # Errors
    /// [`DecodeError`] when the payload is no transaction.
    pub fn decode(payload: &'a [u8]) -> Result<(Self, &'a [u8]), DecodeError> {
        finish(Self::parse(payload))
    }

    fn parse(input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, client_id) = i64::decode(input)?;
        let (input, cxid) = i32::decode(input)?;
        let (input, zxid) = i64::decode(input)?;
        let (input, time) = i64::decode(input)?;
        let (input, type_code) = i32::decode(input)?;
        let (input, txn) = Txn::decode_body(type_code, input)?;
        let (input, digest) = if input.len() < DIGEST_LEN {
            (input, None)
        } else {
            let (rest, digest) = TxnDigest::decode(input)?;
            (rest, Some(digest))
        };
        Ok((input, Self { header: TxnHeader { client_id, cxid, zxid, time }, txn, digest }))
    }
}
