//! Takes what a member sends, with the planted faults of it.

use std::net::IpAddr;

use raft::eraftpb::{Message as PeerMessage, MessageType};

use super::Flaw;
use super::network::Content;
use crate::ensemble::raft::Transport;
use crate::ensemble::words::PeerWord;
use crate::storage::SnapshotFile;

#[derive(Debug)]
pub(super) struct Post {
    flaw: Flaw,
    /// To whom, and what.
    pub(super) sent: Vec<(u64, Content)>,
    /// A snapshot's bytes, with the message that tells of it.
    pub(super) snapshots: Vec<(PeerMessage, Vec<u8>)>,
    /// What the leader was asked for a round with last.
    pub(super) asked: Vec<u8>,
    /// Answers that nobody gave.
    pub(super) forged: Vec<PeerMessage>,
}

impl Post {
    pub(super) const fn new(flaw: Flaw) -> Self {
        Self {
            flaw,
            sent: Vec::new(),
            snapshots: Vec::new(),
            asked: Vec::new(),
            forged: Vec::new(),
        }
    }
}

impl Transport for Post {
    fn send(&mut self, message: PeerMessage) {
        if self.flaw == Flaw::AckBeforeQuorum && message.get_msg_type() == MessageType::MsgAppend {
            let mut answer = PeerMessage::default();
            answer.set_msg_type(MessageType::MsgAppendResponse);
            (answer.from, answer.to, answer.term) = (message.to, message.from, message.term);
            answer.index = message.index + message.entries.len() as u64;
            self.forged.push(answer);
        }
        if self.flaw == Flaw::RoundNotMade
            && message.get_msg_type() == MessageType::MsgHeartbeat
            && !message.context.is_empty()
        {
            let mut answer = PeerMessage::default();
            answer.set_msg_type(MessageType::MsgHeartbeatResponse);
            (answer.from, answer.to, answer.term) = (message.to, message.from, message.term);
            answer.context = message.context.clone();
            self.forged.push(answer);
        }
        if message.get_msg_type() == MessageType::MsgReadIndex
            && let Some(entry) = message.entries.first()
        {
            self.asked = entry.data.to_vec();
        }
        self.sent.push((message.to, Content::Message(message)));
    }

    fn say(&mut self, to: u64, word: PeerWord) {
        if self.flaw == Flaw::TouchesDropped && matches!(word, PeerWord::Heard(_)) {
            return;
        }
        self.sent.push((to, Content::PeerWord(word)));
    }

    fn send_snapshot(&mut self, message: PeerMessage, file: SnapshotFile) {
        let size = file.size().expect("a size");
        let mut bytes = vec![0; usize::try_from(size).expect("a small one")];
        file.read(&mut bytes, 0).expect("reads");
        self.snapshots.push((message, bytes));
    }

    fn hears_from(&self, _: u8) -> Option<IpAddr> {
        None
    }

    fn version_with(&self, _: u8) -> Option<u32> {
        Some(7)
    }
}
