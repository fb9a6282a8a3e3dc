//! Raft's messages, with the entries that they carry.

use bytes::{BufMut as _, Bytes, BytesMut};
use raft::eraftpb::{Entry, EntryType, Message as PeerMessage, MessageType, Snapshot};

use super::FrameError;
use super::bytes::{Input, put_bytes, put_list};
use crate::ensemble::raft::configuration::{from_conf_state, to_conf_state};
use crate::storage::Members;

/// Raft's messages that travel, by their number in a frame.
pub(super) const MESSAGE_TYPES: [MessageType; 14] = [
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

pub(super) fn put_message(out: &mut BytesMut, message: &PeerMessage) {
    let kind = MESSAGE_TYPES.iter().position(|kind| *kind == message.msg_type);
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

pub(super) fn put_members(out: &mut BytesMut, members: &Members) {
    let lists =
        [&members.voters, &members.learners, &members.voters_outgoing, &members.learners_next];
    for list in lists {
        put_list(out, list, |out, id| out.put_u64(*id));
    }
    out.put_u8(members.auto_leave.into());
}

impl Input<'_> {
    pub(super) fn message(&mut self) -> Result<PeerMessage, FrameError> {
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

    pub(super) fn members(&mut self) -> Result<Members, FrameError> {
        Ok(Members {
            voters: self.list(Self::number)?,
            learners: self.list(Self::number)?,
            voters_outgoing: self.list(Self::number)?,
            learners_next: self.list(Self::number)?,
            auto_leave: self.take()?,
        })
    }
}
