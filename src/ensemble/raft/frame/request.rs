//! What clients of another member ask, and what the leader decided of it.

use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};
use jute::protocol::Request;
use jute::{ErrorCode, IntoStatic as _};

use super::FrameError;
use super::bytes::{Input, put_bytes, put_list};
use crate::engine::access::acl::{Identities, Identity};
use crate::engine::decide::request::{Origin, Work};
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::engine::watch::ConnectionId;
use crate::ensemble::words::{Forwarded, Verdict};

const OPEN: u8 = 1;
const ATTACH: u8 = 2;
const REQUEST: u8 = 3;
const OF_LOCAL: u8 = 4;
const UPGRADE: u8 = 5;
const THROTTLED: u8 = 6;

pub(super) fn put_asked(out: &mut BytesMut, Forwarded { origin, work, len: _ }: &Forwarded) {
    out.put_u64(origin.connection.0);
    out.put_i64(origin.session.0);
    out.put_i32(origin.xid);
    put_list(out, origin.identities.all(), |out, identity| {
        put_bytes(out, identity.scheme.as_bytes());
        put_bytes(out, identity.id.as_bytes());
    });
    match work {
        Work::Open { timeout_ms } => {
            out.put_u8(OPEN);
            out.put_i32(*timeout_ms);
        }
        Work::Attach { timeout_ms } => {
            out.put_u8(ATTACH);
            out.put_i32(*timeout_ms);
        }
        Work::Request(request) => {
            out.put_u8(REQUEST);
            put_request(out, request);
        }
        Work::Throttled => out.put_u8(THROTTLED),
        Work::OfLocal(request) => {
            out.put_u8(OF_LOCAL);
            put_request(out, request);
        }
        Work::Upgrade { timeout_ms, request } => {
            out.put_u8(UPGRADE);
            out.put_i32(*timeout_ms);
            put_request(out, request);
        }
    }
}

fn put_request(out: &mut BytesMut, request: &Request<'_>) {
    out.put_i32(request.op_code().code());
    let length_at = out.len();
    out.put_u32(0);
    request.encode(out);
    let len = u32::try_from(out.len() - length_at - 4).unwrap_or(u32::MAX);
    out[length_at..length_at + 4].copy_from_slice(&len.to_be_bytes());
}

pub(super) fn put_verdict(out: &mut BytesMut, verdict: &Verdict) {
    match verdict {
        Verdict::Txn(zxid) => {
            out.put_u8(1);
            out.put_i64(zxid.0);
        }
        Verdict::Open { zxid, session, timeout_ms } => {
            out.put_u8(2);
            out.put_i64(zxid.0);
            out.put_i64(session.0);
            out.put_i32(*timeout_ms);
        }
        Verdict::Read(after) => {
            out.put_u8(3);
            out.put_i64(after.0);
        }
        Verdict::Refused(after, error) => {
            out.put_u8(4);
            out.put_i64(after.0);
            out.put_i32(error.code());
        }
        Verdict::RefusedMulti(after, codes) => {
            out.put_u8(5);
            out.put_i64(after.0);
            put_list(out, codes, |out, code| out.put_i32(*code));
        }
        Verdict::Attached { session, timeout_ms } => {
            out.put_u8(6);
            out.put_i64(session.0);
            out.put_i32(*timeout_ms);
        }
        Verdict::NoSession => out.put_u8(7),
        Verdict::Close => out.put_u8(8),
    }
}

impl Input<'_> {
    pub(super) fn asked(&mut self, now: Monotonic) -> Result<Forwarded, FrameError> {
        let before = self.0.len();
        let connection = ConnectionId(self.number()?);
        let session = SessionId(self.take()?);
        let xid = self.take()?;
        let identity = |input: &mut Self| Ok(Identity { scheme: input.text()?, id: input.text()? });
        let identities = Arc::new(Identities::from(self.list(identity)?));
        let work = match self.take::<u8>()? {
            OPEN => Work::Open { timeout_ms: self.take()? },
            ATTACH => Work::Attach { timeout_ms: self.take()? },
            REQUEST => Work::Request(self.request()?),
            THROTTLED => Work::Throttled,
            OF_LOCAL => Work::OfLocal(self.request()?),
            UPGRADE => Work::Upgrade { timeout_ms: self.take()?, request: self.request()? },
            kind => return Err(FrameError::Kind(kind.into())),
        };
        let origin = Origin { connection, session, xid, identities, received: now };
        Ok(Forwarded { origin, work, len: before - self.0.len() })
    }

    pub(super) fn verdict(&mut self) -> Result<Verdict, FrameError> {
        Ok(match self.take::<u8>()? {
            1 => Verdict::Txn(self.zxid()?),
            2 => Verdict::Open {
                zxid: self.zxid()?,
                session: SessionId(self.take()?),
                timeout_ms: self.take()?,
            },
            3 => Verdict::Read(self.zxid()?),
            4 => {
                let after = self.zxid()?;
                let code = self.take()?;
                Verdict::Refused(after, ErrorCode::from_code(code).ok_or(FrameError::Kind(code))?)
            }
            5 => Verdict::RefusedMulti(self.zxid()?, self.list(Self::take)?),
            6 => Verdict::Attached { session: SessionId(self.take()?), timeout_ms: self.take()? },
            7 => Verdict::NoSession,
            8 => Verdict::Close,
            kind => return Err(FrameError::Kind(kind.into())),
        })
    }

    fn request(&mut self) -> Result<Request<'static>, FrameError> {
        let op = self.take()?;
        Ok(Request::decode(op, self.bytes()?)?.into_static())
    }
}
