//! What members tell each other, as the bytes that the servers send: whatever the codec forgets is
//! missed at the other end.

use bytes::{Bytes, BytesMut};
use raft::eraftpb::{EntryType, Message as PeerMessage};

use super::Flaw;
use super::network::Content;
use crate::engine::time::Monotonic;
use crate::ensemble::{FRAME_HEAD_LEN, Said, parse_head, parse_said, put_said};

fn frame(said: &Said) -> Bytes {
    let mut out = BytesMut::new();
    put_said(&mut out, said);
    out.freeze()
}

fn parse(frame: &[u8], now: Monotonic) -> Result<Said, String> {
    let (head, content) = frame.split_first_chunk::<FRAME_HEAD_LEN>().ok_or("a frame is cut")?;
    let (len, checksum) = parse_head(*head).map_err(|error| error.to_string())?;
    if len != content.len() {
        return Err(format!("a frame of {} bytes says that it has {len}", content.len()));
    }
    parse_said(content, checksum, now).map_err(|error| error.to_string())
}

/// The frame that a member sends; empty where what it sends is only known to this simulator.
pub(super) fn put(content: &Content, flaw: Flaw) -> Bytes {
    match content {
        Content::Message(message) => {
            let mut message = message.clone();
            if flaw == Flaw::FieldForgotten {
                message.reject_hint = 0;
            }
            frame(&Said::Message(message))
        }
        Content::PeerWord(word) | Content::Heard(Some(word), _) => frame(&Said::Word(word.clone())),
        Content::Heard(None, _) => Bytes::new(),
    }
}

/// What comes out of a frame at `now`: no more and no less than what was sent.
pub(super) fn read(frame: &[u8], sent: Content, now: Monotonic) -> Result<Content, String> {
    if matches!(sent, Content::Heard(None, _)) {
        return Ok(sent);
    }
    let said = parse(frame, now)?;
    let is_same = match (&said, &sent) {
        (Said::Message(said), Content::Message(sent)) => *said == as_it_travels(sent),
        (Said::Word(said), Content::PeerWord(sent) | Content::Heard(Some(sent), _)) => said == sent,
        _ => false,
    };
    if !is_same {
        return Err(format!("{sent:?} comes out of its frame as {said:?}"));
    }
    Ok(match (said, sent) {
        (Said::Message(message), _) => Content::Message(message),
        (Said::Word(word), Content::Heard(_, sessions)) => Content::Heard(Some(word), sessions),
        (Said::Word(word), _) => Content::PeerWord(word),
        (_, sent) => sent,
    })
}

/// What goes over a connection of its own, at its other end.
pub(super) fn pass(said: Said, now: Monotonic) -> Result<Said, String> {
    let passed = parse(&frame(&said), now)?;
    if passed != said {
        return Err(format!("{said:?} comes out of its frame as {passed:?}"));
    }
    Ok(passed)
}

/// The same of a message.
pub(super) fn pass_message(message: &PeerMessage, now: Monotonic) -> Result<PeerMessage, String> {
    match pass(Said::Message(as_it_travels(message)), now)? {
        Said::Message(message) => Ok(message),
        said => Err(format!("a message comes out of its frame as {said:?}")),
    }
}

/// What the crate makes of a change of members does not travel: the record, which does, says the
/// same.
fn as_it_travels(message: &PeerMessage) -> PeerMessage {
    let mut message = message.clone();
    for entry in message.mut_entries().iter_mut() {
        if entry.entry_type != EntryType::EntryNormal {
            entry.data = Bytes::new();
        }
    }
    message
}
