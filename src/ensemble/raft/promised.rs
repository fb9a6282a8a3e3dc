//! What a member's disk has that others may count on.

use raft::eraftpb::{Message as PeerMessage, MessageType};

/// A term that is durable, and the last entry of the log that is. A later term goes before any
/// entry: its leader may have cut the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Promised {
    /// The newest term.
    pub term: u64,
    /// The index of the last entry; 0 if that is not known, or there is none.
    pub last: u64,
}

impl Promised {
    /// What the disk of its sender has for good if it sent this: the term, and what it acknowledged
    /// in it. `None` where the message did not wait for the disk, or names a term that is not
    /// entered yet.
    #[must_use]
    pub fn of(message: &PeerMessage) -> Option<Self> {
        let last = match message.get_msg_type() {
            // After what it has in common with the leader of its term, nothing is cut in that
            // term.
            MessageType::MsgAppendResponse if !message.reject => message.index,
            MessageType::MsgAppendResponse
            | MessageType::MsgAppend
            | MessageType::MsgHeartbeat
            | MessageType::MsgRequestVote
            | MessageType::MsgRequestVoteResponse => 0,
            _ => return None,
        };
        Some(Self { term: message.term, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_shows_what_it_waited_for() {
        let of = |kind, reject| {
            let mut message = PeerMessage { term: 5, index: 7, reject, ..PeerMessage::default() };
            message.set_msg_type(kind);
            Promised::of(&message).map(|promised| (promised.term, promised.last))
        };
        assert_eq!(of(MessageType::MsgAppendResponse, false), Some((5, 7)));
        assert_eq!(of(MessageType::MsgAppendResponse, true), Some((5, 0)));
        for kind in [
            MessageType::MsgAppend,
            MessageType::MsgHeartbeat,
            MessageType::MsgRequestVote,
            MessageType::MsgRequestVoteResponse,
        ] {
            assert_eq!(of(kind, false), Some((5, 0)), "{kind:?}");
        }
        // These go ahead of the disk, or ask about a term that nobody is in.
        for kind in [
            MessageType::MsgHeartbeatResponse,
            MessageType::MsgReadIndex,
            MessageType::MsgRequestPreVote,
            MessageType::MsgRequestPreVoteResponse,
        ] {
            assert_eq!(of(kind, false), None, "{kind:?}");
        }
        let [earlier, later] = [(5, 100), (6, 90)].map(|(term, last)| Promised { term, last });
        assert!(earlier < later, "the log was cut by a later leader");
    }
}
