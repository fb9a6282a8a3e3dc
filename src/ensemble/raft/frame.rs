//! What members tell each other, as bytes. Every number is big-endian, and runs of bytes and lists
//! carry their length, as in ZooKeeper's own records.
//!
//! ```text
//! frame    length of the rest u32, crc32 of the content u32, content
//! content  kind u8, then what the kind has: see `message`, `word` and `introduction`
//! ```
//!
//! Nothing here is parsed by protobuf, whose parser can be brought to overflow its stack.

mod bytes;
mod introduction;
mod message;
mod request;
mod word;

use ::bytes::{BufMut as _, BytesMut};
use jute::DecodeError;
use raft::eraftpb::Message as PeerMessage;

use self::bytes::Input;
use self::introduction::{put_answer, put_question};
use self::message::put_message;
use self::word::put_word;
use crate::engine::time::Monotonic;
use crate::ensemble::founding::{FoundingAnswer, Question};
use crate::ensemble::words::PeerWord;

/// Bytes ahead of a frame's content.
pub const FRAME_HEAD_LEN: usize = 8;
/// The longest content. A frame has at most what waits for a leader, and a receiver has in memory
/// what has arrived of it.
pub const FRAME_MAX: u32 = 1 << 30;

/// Something that a member tells another.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// Raft's.
    Message(PeerMessage),
    /// About clients.
    Word(PeerWord),
    /// Of a server without a state, or to one.
    Question(Question),
    /// The answer to that.
    Answer(FoundingAnswer),
    /// That its process lives, after the probe of that number; 0 for none.
    Alive(u64),
}

/// Why bytes are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It is longer than any frame.
    #[error("a frame has {0} bytes, and may have at most {FRAME_MAX}")]
    TooLong(u32),
    /// The content is not what was sent.
    #[error("a frame's checksum is wrong")]
    Checksum,
    /// A kind of frame, request or verdict that this version does not know.
    #[error("{0} is not a kind of frame that this version knows; run the same version everywhere")]
    Kind(i32),
    /// The content is not what its kind has.
    #[error("a frame is malformed: {0}")]
    Malformed(#[from] DecodeError),
    /// There is something after it.
    #[error("{0} bytes follow a frame's content")]
    Behind(usize),
}

// One list for all kinds, so that no number is given twice.
const MESSAGE: u8 = 1;
const ASKED: u8 = 2;
const DECIDED: u8 = 3;
const ENDED: u8 = 4;
const HEARD: u8 = 5;
const DISOWNED: u8 = 6;
const QUESTION: u8 = 7;
const ANSWER: u8 = 8;
const SNAPSHOT: u8 = 9;
const TAKE_SNAPSHOT: u8 = 10;
const ROOM: u8 = 11;
const LISTED: u8 = 12;
const TREE: u8 = 13;
const WRONG_TREE: u8 = 14;
const ALIVE: u8 = 15;
const CHANGE_LIST: u8 = 16;
const LIST_DECIDED: u8 = 17;

/// Appends a frame.
pub fn put_said(out: &mut BytesMut, said: &Said) {
    let start = out.len();
    out.put_bytes(0, FRAME_HEAD_LEN);
    match said {
        Said::Message(message) => {
            out.put_u8(MESSAGE);
            put_message(out, message);
        }
        Said::Word(word) => put_word(out, word),
        Said::Question(question) => {
            out.put_u8(QUESTION);
            put_question(out, question);
        }
        Said::Answer(answer) => {
            out.put_u8(ANSWER);
            put_answer(out, answer);
        }
        Said::Alive(probe) => {
            out.put_u8(ALIVE);
            out.put_u64(*probe);
        }
    }
    let Some((head, content)) = out[start..].split_at_mut_checked(FRAME_HEAD_LEN) else { return };
    let len = u32::try_from(content.len()).unwrap_or(u32::MAX);
    head[..4].copy_from_slice(&len.to_be_bytes());
    head[4..].copy_from_slice(&crc32fast::hash(content).to_be_bytes());
}

/// The length of the content, and its checksum.
///
/// # Errors
/// [`FrameError::TooLong`].
pub fn parse_head(head: [u8; FRAME_HEAD_LEN]) -> Result<(usize, u32), FrameError> {
    let [a, b, c, d, rest @ ..] = head;
    let len = u32::from_be_bytes([a, b, c, d]);
    if len > FRAME_MAX {
        return Err(FrameError::TooLong(len));
    }
    Ok((len as usize, u32::from_be_bytes(rest)))
}

/// Reads a frame's content. Requests in it are as old as `now`.
///
/// # Errors
/// Why it is none.
pub fn parse_said(content: &[u8], checksum: u32, now: Monotonic) -> Result<Said, FrameError> {
    if crc32fast::hash(content) != checksum {
        return Err(FrameError::Checksum);
    }
    let mut input = Input(content);
    let said = match input.take::<u8>()? {
        MESSAGE => Said::Message(input.message()?),
        QUESTION => Said::Question(input.question()?),
        ANSWER => Said::Answer(input.answer()?),
        ALIVE => Said::Alive(input.number()?),
        kind => Said::Word(input.word(kind, now)?),
    };
    match input.0.len() {
        0 => Ok(said),
        behind => Err(FrameError::Behind(behind)),
    }
}

#[cfg(test)]
#[path = "frame_test.rs"]
mod frame_test;
