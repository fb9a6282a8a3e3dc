//! The handshake.

use std::borrow::Cow;

use bytes::BufMut;

use crate::record::{Parsed, Record};

/// A client's first frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectRequest<'a> {
    /// Clients send 0; the value has no effect.
    pub protocol_version: i32,
    /// The highest zxid that the client has seen, 0 for a new one.
    pub last_zxid_seen: i64,
    /// The session timeout that the client asks for, in milliseconds.
    pub timeout_ms: i32,
    /// The session to re-attach to, 0 for a new one.
    pub session_id: i64,
    /// The session's password.
    pub password: Option<Cow<'a, [u8]>>,
    /// Whether a read-only server would do. Clients before 3.4 do not send the byte, and must not
    /// be sent one.
    pub read_only: Option<bool>,
}

impl<'a> Record<'a> for ConnectRequest<'a> {
    fn decode(input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, protocol_version) = i32::decode(input)?;
        let (input, last_zxid_seen) = i64::decode(input)?;
        let (input, timeout_ms) = i32::decode(input)?;
        let (input, session_id) = i64::decode(input)?;
        let (input, password) = Record::decode(input)?;
        let (input, read_only) = decode_read_only(input)?;
        Ok((
            input,
            Self { protocol_version, last_zxid_seen, timeout_ms, session_id, password, read_only },
        ))
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        self.protocol_version.encode(out);
        self.last_zxid_seen.encode(out);
        self.timeout_ms.encode(out);
        self.session_id.encode(out);
        self.password.encode(out);
        if let Some(read_only) = self.read_only {
            read_only.encode(out);
        }
    }
}

/// The server's answer to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectResponse {
    /// The negotiated session timeout in milliseconds; 0 refuses the session.
    pub timeout_ms: i32,
    /// The session, 0 when refused.
    pub session_id: i64,
    /// What the client must show to re-attach; zeros when refused.
    pub password: [u8; 16],
    /// Present exactly when the request had the byte; true only from a read-only server.
    pub read_only: Option<bool>,
}

impl ConnectResponse {
    /// The answer to a session that does not exist, is closing, or came with a wrong password.
    #[must_use]
    pub const fn refused(request_had_read_only: bool) -> Self {
        Self {
            timeout_ms: 0,
            session_id: 0,
            password: [0; 16],
            read_only: if request_had_read_only { Some(false) } else { None },
        }
    }
}

impl<'a> Record<'a> for ConnectResponse {
    fn decode(input: &'a [u8]) -> Parsed<'a, Self> {
        let (input, _protocol_version) = i32::decode(input)?;
        let (input, timeout_ms) = i32::decode(input)?;
        let (input, session_id) = i64::decode(input)?;
        let (input, received) = Option::<Cow<'a, [u8]>>::decode(input)?;
        let (input, read_only) = decode_read_only(input)?;
        let mut password = [0; 16];
        for (to, from) in password.iter_mut().zip(received.iter().flat_map(|bytes| bytes.iter())) {
            *to = *from;
        }
        Ok((input, Self { timeout_ms, session_id, password, read_only }))
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        0i32.encode(out);
        self.timeout_ms.encode(out);
        self.session_id.encode(out);
        Some(Cow::Borrowed(self.password.as_slice())).encode(out);
        if let Some(read_only) = self.read_only {
            read_only.encode(out);
        }
    }
}

/// The byte is there or the frame ends before it.
fn decode_read_only(input: &[u8]) -> Parsed<'_, Option<bool>> {
    if input.is_empty() {
        return Ok((input, None));
    }
    let (rest, read_only) = bool::decode(input)?;
    Ok((rest, Some(read_only)))
}
