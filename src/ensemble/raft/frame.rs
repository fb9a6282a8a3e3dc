//! What members tell each other, as bytes. Every number is big-endian, and runs of bytes and lists
//! carry their length, as in ZooKeeper's own records.
//!
//! ```text
//! frame    length of the rest u32, crc32 of the content u32, content
//! content  kind u8, then what the kind has: see `put_message` and `put_word`
//! ```
//!
//! Nothing here is parsed by protobuf, whose parser can be brought to overflow its stack.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use jute::protocol::Request;
use jute::{DecodeError, ErrorCode, IntoStatic as _, Record};
use raft::eraftpb::{Entry, EntryType, Message as PeerMessage, MessageType, Snapshot};

use super::configuration::{from_conf_state, to_conf_state};
use crate::engine::access::acl::{Identities, Identity};
use crate::engine::decide::request::{Origin, Work};
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::engine::watch::ConnectionId;
use crate::engine::zxid::Zxid;
use crate::ensemble::disk_room::Room;
use crate::ensemble::founding::{
    Answer, Applicant, Founding, HandedSecret, LastRecord, Question, Seat,
};
use crate::ensemble::snapshots::Need;
use crate::ensemble::standing::{Base, Begins, Busy, Holding, Left, OfLine, Servers, Standing};
use crate::ensemble::words::{Asked, Stream, TreeDigest, TreeVersion, Verdict, Word};
use crate::storage::Members;

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
    Word(Word),
    /// Of a server without a state, or to one.
    Question(Question),
    /// The answer to that.
    Answer(Answer),
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

const OPEN: u8 = 1;
const ATTACH: u8 = 2;
const REQUEST: u8 = 3;
const OF_LOCAL: u8 = 4;
const UPGRADE: u8 = 5;
const THROTTLED: u8 = 6;

/// Raft's messages that travel, by their number in a frame.
const MESSAGE_TYPES: [MessageType; 14] = [
    MessageType::MsgAppend,
    MessageType::MsgAppendResponse,
    MessageType::MsgRequestVote,
    MessageType::MsgRequestVoteResponse,
    MessageType::MsgSnapshot,
    MessageType::MsgHeartbeat,
    MessageType::MsgHeartbeatResponse,
    MessageType::MsgUnreachable,
    MessageType::MsgTransferLeader,
    MessageType::MsgTimeoutNow,
    MessageType::MsgReadIndex,
    MessageType::MsgReadIndexResp,
    MessageType::MsgRequestPreVote,
    MessageType::MsgRequestPreVoteResponse,
];

/// Appends a frame.
pub fn put_said(out: &mut BytesMut, said: &Said) {
    let start = out.len();
    out.put_bytes(0, FRAME_HEAD_LEN);
    match said {
        Said::Message(message) => put_message(out, message),
        Said::Word(word) => put_word(out, word),
        Said::Question(question) => put_question(out, question),
        Said::Answer(answer) => put_answer(out, answer),
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
        ASKED => Said::Word(Word::Asked {
            stream: input.stream()?,
            first: input.number()?,
            requests: input.list(|input| input.asked(now))?,
        }),
        DECIDED => Said::Word(Word::Decided {
            stream: input.stream()?,
            first: input.number()?,
            verdicts: input.list(Input::verdict)?,
        }),
        ENDED => Said::Word(Word::Ended {
            stream: input.stream()?,
            returned: input.list(|input| input.asked(now))?,
        }),
        HEARD => Said::Word(Word::Heard(input.list(|input| input.take().map(SessionId))?)),
        DISOWNED => {
            let connection = |input: &mut Input<'_>| input.number().map(ConnectionId);
            Said::Word(Word::Disowned(input.list(connection)?))
        }
        SNAPSHOT => Said::Word(Word::Snapshot(input.need()?)),
        TAKE_SNAPSHOT => Said::Word(Word::TakeSnapshot),
        ROOM => Said::Word(Word::Room(input.room()?)),
        LISTED => Said::Word(Word::Listed(input.bytes()?.to_vec())),
        TREE => Said::Word(Word::Tree(input.tree()?)),
        WRONG_TREE => Said::Word(Word::WrongTree(input.tree()?)),
        QUESTION => Said::Question(input.question()?),
        ANSWER => Said::Answer(input.answer()?),
        ALIVE => Said::Alive(input.number()?),
        kind => return Err(FrameError::Kind(kind.into())),
    };
    match input.0.len() {
        0 => Ok(said),
        behind => Err(FrameError::Behind(behind)),
    }
}

fn put_message(out: &mut BytesMut, message: &PeerMessage) {
    let kind = MESSAGE_TYPES.iter().position(|kind| *kind == message.msg_type);
    out.put_u8(MESSAGE);
    out.put_u8(kind.and_then(|kind| u8::try_from(kind).ok()).unwrap_or(u8::MAX));
    for number in [
        message.to,
        message.from,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.request_snapshot,
        message.reject_hint,
        message.deprecated_priority,
    ] {
        out.put_u64(number);
    }
    out.put_i64(message.priority);
    out.put_u8(message.reject.into());
    put_bytes(out, &message.context);
    put_list(out, &message.entries, |out, entry| {
        out.put_u8(match entry.entry_type {
            EntryType::EntryNormal => 0,
            EntryType::EntryConfChange => 1,
            EntryType::EntryConfChangeV2 => 2,
        });
        out.put_u64(entry.term);
        out.put_u64(entry.index);
        // What the crate makes of a change of members does not travel: the record says the same.
        put_bytes(out, if is_normal(entry) { &entry.data } else { &entry.context });
    });
    let snapshot = message.snapshot.as_ref();
    out.put_u8(snapshot.is_some().into());
    if let Some(snapshot) = snapshot {
        let metadata = snapshot.get_metadata();
        out.put_u64(metadata.index);
        out.put_u64(metadata.term);
        put_members(out, &from_conf_state(metadata.get_conf_state()));
        put_bytes(out, &snapshot.data);
    }
}

fn is_normal(entry: &Entry) -> bool {
    entry.entry_type == EntryType::EntryNormal
}

fn put_word(out: &mut BytesMut, word: &Word) {
    match word {
        Word::Asked { stream, first, requests } => {
            out.put_u8(ASKED);
            out.put_u64(stream.0);
            out.put_u64(*first);
            put_list(out, requests, put_asked);
        }
        Word::Decided { stream, first, verdicts } => {
            out.put_u8(DECIDED);
            out.put_u64(stream.0);
            out.put_u64(*first);
            put_list(out, verdicts, put_verdict);
        }
        Word::Ended { stream, returned } => {
            out.put_u8(ENDED);
            out.put_u64(stream.0);
            put_list(out, returned, put_asked);
        }
        Word::Heard(sessions) => {
            out.put_u8(HEARD);
            put_list(out, sessions, |out, session| out.put_i64(session.0));
        }
        Word::Disowned(connections) => {
            out.put_u8(DISOWNED);
            put_list(out, connections, |out, connection| out.put_u64(connection.0));
        }
        Word::Snapshot(need) => {
            out.put_u8(SNAPSHOT);
            out.put_u8(match need {
                Need::None => 0,
                Need::Due => 1,
                Need::Overdue => 2,
                Need::Writing => 3,
            });
        }
        Word::TakeSnapshot => out.put_u8(TAKE_SNAPSHOT),
        Word::Tree(tree) => {
            out.put_u8(TREE);
            put_tree(out, *tree);
        }
        Word::WrongTree(tree) => {
            out.put_u8(WRONG_TREE);
            put_tree(out, *tree);
        }
        Word::Listed(servers) => {
            out.put_u8(LISTED);
            put_bytes(out, servers);
        }
        Word::Room(room) => {
            out.put_u8(ROOM);
            out.put_u8(match room {
                Room::Enough => 0,
                Room::Scarce => 1,
                Room::Least => 2,
                Room::Full => 3,
                Room::Nothing => 4,
            });
        }
    }
}

fn put_tree(out: &mut BytesMut, TreeDigest { zxid, version, digest }: TreeDigest) {
    out.put_i64(zxid.0);
    out.put_i32(version.0);
    out.put_i64(digest);
}

fn put_question(out: &mut BytesMut, question: &Question) {
    out.put_u8(QUESTION);
    match question {
        Question::Standing => out.put_u8(1),
        Question::Founded(founding, secret) => {
            let Founding { ensemble, line, generation, term, founded_in, base, .. } = founding;
            let Founding { index, members, configured_at, .. } = founding;
            out.put_u8(2);
            for number in [ensemble, line, generation, term, founded_in] {
                out.put_u64(*number);
            }
            put_base(out, *base);
            out.put_u64(*index);
            put_members(out, members);
            out.put_u64(*configured_at);
            put_secret(out, secret.as_deref());
        }
        Question::Seat(Applicant { server, was, ends_with }) => {
            out.put_u8(3);
            out.put_u8(*server);
            out.put_u64(was.unwrap_or(0));
            out.put_u8(ends_with.is_some().into());
            if let Some(LastRecord { zxid, time, checksum }) = ends_with {
                out.put_i64(*zxid);
                out.put_i64(*time);
                out.put_i64((*checksum).into());
            }
        }
    }
}

fn put_answer(out: &mut BytesMut, answer: &Answer) {
    out.put_u8(ANSWER);
    match answer {
        Answer::Standing(Standing::Before(Holding { base, begins, names, left, detached })) => {
            out.put_u8(1);
            put_base(out, *base);
            out.put_u8(match begins {
                Begins::Never => 0,
                Begins::WithAll => 1,
                Begins::Marked => 2,
            });
            put_bytes(out, names.as_slice());
            out.put_u8(left.is_some().into());
            if let Some(Left { ensemble, of }) = left {
                out.put_u64(*ensemble);
                put_line(out, of);
            }
            out.put_u64(detached.unwrap_or(0));
        }
        Answer::Standing(Standing::Member { id, ensemble, asks, has_begun, configured_at, of }) => {
            out.put_u8(2);
            out.put_u64(*id);
            out.put_u64(*ensemble);
            put_bytes(out, asks);
            out.put_u8((*has_begun).into());
            out.put_u64(*configured_at);
            put_line(out, of);
        }
        Answer::Standing(Standing::Removed { ensemble }) => {
            out.put_u8(10);
            out.put_u64(*ensemble);
        }
        Answer::Standing(Standing::Busy(Busy::Reads)) => out.put_u8(7),
        Answer::Standing(Standing::Busy(Busy::Joins)) => out.put_u8(8),
        Answer::Founded => out.put_u8(3),
        Answer::Seat(seat, secret) => {
            let Seat { id, ensemble, line, generation, term, members, configured_at } = seat;
            out.put_u8(4);
            for number in [id, ensemble, line, generation, term, configured_at] {
                out.put_u64(*number);
            }
            put_members(out, members);
            put_secret(out, secret.as_deref());
        }
        Answer::Elsewhere => out.put_u8(5),
        Answer::OfAnother(ensemble) => {
            out.put_u8(9);
            out.put_u64(*ensemble);
        }
        Answer::Lacking => out.put_u8(12),
        Answer::Refused(reason) => {
            out.put_u8(6);
            put_bytes(out, reason.as_bytes());
        }
        Answer::NotYet(reason) => {
            out.put_u8(11);
            put_bytes(out, reason.as_bytes());
        }
    }
}

fn put_base(out: &mut BytesMut, Base { epoch, zxid, accepted }: Base) {
    [epoch, zxid, accepted].into_iter().for_each(|number| out.put_i64(number));
}

fn put_line(out: &mut BytesMut, of: &OfLine) {
    let OfLine { line, generation, term, last, lacks_base, held, lacks_vote, voters, outgoing } =
        of;
    for number in [line, generation, term] {
        out.put_u64(*number);
    }
    out.put_i64(*last);
    out.put_u8((*lacks_base).into());
    out.put_u8((*held).into());
    out.put_u8((*lacks_vote).into());
    voters.0.into_iter().chain(outgoing.0).for_each(|word| out.put_u64(word));
}

fn put_secret(out: &mut BytesMut, secret: Option<&HandedSecret>) {
    out.put_u8(secret.is_some().into());
    if let Some(HandedSecret { nonce, veiled, before }) = secret {
        out.put_slice(nonce);
        out.put_slice(veiled);
        put_list(out, before, |out, session| out.put_i64(*session));
    }
}

fn put_members(out: &mut BytesMut, members: &Members) {
    let lists =
        [&members.voters, &members.learners, &members.voters_outgoing, &members.learners_next];
    for list in lists {
        put_list(out, list, |out, id| out.put_u64(*id));
    }
    out.put_u8(members.auto_leave.into());
}

fn put_asked(out: &mut BytesMut, Asked { origin, work, len: _ }: &Asked) {
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

fn put_verdict(out: &mut BytesMut, verdict: &Verdict) {
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

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    out.put_slice(bytes);
}

fn put_list<T>(out: &mut BytesMut, list: &[T], mut put: impl FnMut(&mut BytesMut, &T)) {
    out.put_u32(u32::try_from(list.len()).unwrap_or(u32::MAX));
    list.iter().for_each(|item| put(out, item));
}

/// What is left of a frame's content.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take<T: Record<'a>>(&mut self) -> Result<T, FrameError> {
        let (value, rest) = jute::decode(self.0)?;
        self.0 = rest;
        Ok(value)
    }

    fn number(&mut self) -> Result<u64, FrameError> {
        self.take::<i64>().map(i64::cast_unsigned)
    }

    fn stream(&mut self) -> Result<Stream, FrameError> {
        self.number().map(Stream)
    }

    fn zxid(&mut self) -> Result<Zxid, FrameError> {
        self.take().map(Zxid)
    }

    fn bytes(&mut self) -> Result<&'a [u8], FrameError> {
        match self.take::<Option<Cow<'a, [u8]>>>()? {
            Some(Cow::Borrowed(bytes)) => Ok(bytes),
            _ => Err(DecodeError::Null.into()),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*array)
    }

    fn text(&mut self) -> Result<String, FrameError> {
        self.take::<Cow<'a, str>>().map(Cow::into_owned)
    }

    /// As many as are said to be there. Room is taken for what came, not for what is said.
    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, FrameError>,
    ) -> Result<Vec<T>, FrameError> {
        let count = self.take::<i32>()?;
        let count = u32::try_from(count).map_err(|_| DecodeError::NegativeLength(count))?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(item(self)?);
        }
        Ok(list)
    }

    fn message(&mut self) -> Result<PeerMessage, FrameError> {
        let kind = self.take::<u8>()?;
        let known = MESSAGE_TYPES.get(usize::from(kind)).copied();
        let msg_type = known.ok_or_else(|| FrameError::Kind(kind.into()))?;
        let mut message = PeerMessage { msg_type, ..PeerMessage::default() };
        for field in [
            &mut message.to,
            &mut message.from,
            &mut message.term,
            &mut message.log_term,
            &mut message.index,
            &mut message.commit,
            &mut message.commit_term,
            &mut message.request_snapshot,
            &mut message.reject_hint,
            &mut message.deprecated_priority,
        ] {
            *field = self.number()?;
        }
        message.priority = self.take()?;
        message.reject = self.take()?;
        message.context = Bytes::copy_from_slice(self.bytes()?);
        message.entries = self.list(Self::entry)?.into();
        if self.take()? {
            message.set_snapshot(self.snapshot()?);
        }
        Ok(message)
    }

    fn entry(&mut self) -> Result<Entry, FrameError> {
        let entry_type = match self.take::<u8>()? {
            0 => EntryType::EntryNormal,
            1 => EntryType::EntryConfChange,
            2 => EntryType::EntryConfChangeV2,
            kind => return Err(FrameError::Kind(kind.into())),
        };
        let (term, index) = (self.number()?, self.number()?);
        let entry = Entry { entry_type, term, index, ..Entry::default() };
        let payload = Bytes::copy_from_slice(self.bytes()?);
        Ok(if is_normal(&entry) {
            Entry { data: payload, ..entry }
        } else {
            Entry { context: payload, ..entry }
        })
    }

    fn snapshot(&mut self) -> Result<Snapshot, FrameError> {
        let mut snapshot = Snapshot::default();
        let metadata = snapshot.mut_metadata();
        metadata.index = self.number()?;
        metadata.term = self.number()?;
        metadata.set_conf_state(to_conf_state(&self.members()?));
        snapshot.data = Bytes::copy_from_slice(self.bytes()?);
        Ok(snapshot)
    }

    fn members(&mut self) -> Result<Members, FrameError> {
        Ok(Members {
            voters: self.list(Self::number)?,
            learners: self.list(Self::number)?,
            voters_outgoing: self.list(Self::number)?,
            learners_next: self.list(Self::number)?,
            auto_leave: self.take()?,
        })
    }

    fn base(&mut self) -> Result<Base, FrameError> {
        Ok(Base { epoch: self.take()?, zxid: self.take()?, accepted: self.take()? })
    }

    fn holding(&mut self) -> Result<Holding, FrameError> {
        let base = self.base()?;
        let begins = match self.take::<u8>()? {
            0 => Begins::Never,
            1 => Begins::WithAll,
            2 => Begins::Marked,
            kind => return Err(FrameError::Kind(kind.into())),
        };
        let names = self.bytes()?.first().copied();
        let left = match self.take::<bool>()? {
            true => Some(Left { ensemble: self.number()?, of: self.line()? }),
            false => None,
        };
        let detached = Some(self.number()?).filter(|ensemble| *ensemble > 0);
        Ok(Holding { base, begins, names, left, detached })
    }

    fn line(&mut self) -> Result<OfLine, FrameError> {
        let (line, generation, term) = (self.number()?, self.number()?, self.number()?);
        let last = self.take()?;
        let lacks_base = self.take::<u8>()? != 0;
        let held = self.take::<u8>()? != 0;
        let lacks_vote = self.take::<u8>()? != 0;
        let mut servers = || -> Result<Servers, FrameError> {
            let mut words = [0; 4];
            for word in &mut words {
                *word = self.number()?;
            }
            Ok(Servers(words))
        };
        let (voters, outgoing) = (servers()?, servers()?);
        Ok(OfLine { line, generation, term, last, lacks_base, held, lacks_vote, voters, outgoing })
    }

    fn secret(&mut self) -> Result<Option<Box<HandedSecret>>, FrameError> {
        if !self.take::<bool>()? {
            return Ok(None);
        }
        Ok(Some(Box::new(HandedSecret {
            nonce: self.array()?,
            veiled: self.array()?,
            before: self.list(Self::take)?,
        })))
    }

    fn question(&mut self) -> Result<Question, FrameError> {
        Ok(match self.take::<u8>()? {
            1 => Question::Standing,
            2 => Question::Founded(
                Founding {
                    ensemble: self.number()?,
                    line: self.number()?,
                    generation: self.number()?,
                    term: self.number()?,
                    founded_in: self.number()?,
                    base: self.base()?,
                    index: self.number()?,
                    members: self.members()?,
                    configured_at: self.number()?,
                },
                self.secret()?,
            ),
            3 => Question::Seat(Applicant {
                server: self.take()?,
                was: Some(self.number()?).filter(|id| *id > 0),
                ends_with: self.last_record()?,
            }),
            kind => return Err(FrameError::Kind(kind.into())),
        })
    }

    fn last_record(&mut self) -> Result<Option<LastRecord>, FrameError> {
        if !self.take::<bool>()? {
            return Ok(None);
        }
        let (zxid, time, checksum) = (self.take()?, self.take()?, self.take::<i64>()?);
        let checksum = u32::try_from(checksum).map_err(|_| DecodeError::Truncated)?;
        Ok(Some(LastRecord { zxid, time, checksum }))
    }

    fn answer(&mut self) -> Result<Answer, FrameError> {
        Ok(match self.take::<u8>()? {
            1 => Answer::Standing(Standing::Before(self.holding()?)),
            2 => Answer::Standing(Standing::Member {
                id: self.number()?,
                ensemble: self.number()?,
                asks: self.bytes()?.to_vec(),
                has_begun: self.take::<u8>()? != 0,
                configured_at: self.number()?,
                of: self.line()?,
            }),
            3 => Answer::Founded,
            4 => Answer::Seat(
                Seat {
                    id: self.number()?,
                    ensemble: self.number()?,
                    line: self.number()?,
                    generation: self.number()?,
                    term: self.number()?,
                    configured_at: self.number()?,
                    members: self.members()?,
                },
                self.secret()?,
            ),
            5 => Answer::Elsewhere,
            6 => Answer::Refused(self.text()?),
            7 => Answer::Standing(Standing::Busy(Busy::Reads)),
            8 => Answer::Standing(Standing::Busy(Busy::Joins)),
            9 => Answer::OfAnother(self.number()?),
            10 => Answer::Standing(Standing::Removed { ensemble: self.number()? }),
            11 => Answer::NotYet(self.text()?),
            12 => Answer::Lacking,
            kind => return Err(FrameError::Kind(kind.into())),
        })
    }

    fn need(&mut self) -> Result<Need, FrameError> {
        Ok(match self.take::<u8>()? {
            0 => Need::None,
            1 => Need::Due,
            2 => Need::Overdue,
            3 => Need::Writing,
            kind => return Err(FrameError::Kind(kind.into())),
        })
    }

    fn tree(&mut self) -> Result<TreeDigest, FrameError> {
        let (zxid, version) = (self.zxid()?, TreeVersion(self.take()?));
        Ok(TreeDigest { zxid, version, digest: self.take()? })
    }

    fn room(&mut self) -> Result<Room, FrameError> {
        Ok(match self.take::<u8>()? {
            0 => Room::Enough,
            1 => Room::Scarce,
            2 => Room::Least,
            3 => Room::Full,
            4 => Room::Nothing,
            kind => return Err(FrameError::Kind(kind.into())),
        })
    }

    fn request(&mut self) -> Result<Request<'static>, FrameError> {
        let op = self.take()?;
        Ok(Request::decode(op, self.bytes()?)?.into_static())
    }

    fn asked(&mut self, now: Monotonic) -> Result<Asked, FrameError> {
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
        Ok(Asked { origin, work, len: before - self.0.len() })
    }

    fn verdict(&mut self) -> Result<Verdict, FrameError> {
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
}

#[cfg(test)]
#[path = "frame_test.rs"]
mod frame_test;
