//! Frames: a length and what it counts.

use bytes::{BufMut, BytesMut};

use super::{KeeperState, ReplyHeader, Response, WatcherEvent, xid};
use crate::{ErrorCode, Record};

/// Bytes of a frame's length.
pub const LENGTH_LEN: usize = 4;

/// Appends a frame whose payload `write` appends; the length is filled in afterwards.
pub fn put_frame(out: &mut BytesMut, write: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_i32(0);
    write(out);
    let len = i32::try_from(out.len() - start - LENGTH_LEN).unwrap_or(i32::MAX);
    if let Some(prefix) = out.get_mut(start..start + LENGTH_LEN) {
        prefix.copy_from_slice(&len.to_be_bytes());
    }
}

/// Appends the frame of a successful reply.
pub fn put_reply(out: &mut BytesMut, xid: i32, zxid: i64, response: &Response<'_>) {
    put_frame(out, |out| {
        ReplyHeader { xid, zxid, err: 0 }.encode(out);
        response.encode(out);
    });
}

/// Appends the frame of a refusal.
pub fn put_refusal(out: &mut BytesMut, xid: i32, zxid: i64, error: ErrorCode) {
    put_frame(out, |out| ReplyHeader { xid, zxid, err: error.code() }.encode(out));
}

/// Appends the frame of a watch event; `zxid` is that of the change, or -1 for an event made up for
/// setWatches.
pub fn put_event(out: &mut BytesMut, zxid: i64, event_type: super::EventType, path: &str) {
    put_frame(out, |out| {
        ReplyHeader { xid: xid::NOTIFICATION, zxid, err: 0 }.encode(out);
        WatcherEvent {
            event_type: event_type.code(),
            state: KeeperState::SyncConnected.code(),
            path: path.into(),
        }
        .encode(out);
    });
}
