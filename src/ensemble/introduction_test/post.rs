//! Takes what a member sends.

use std::net::IpAddr;

use bytes::BytesMut;

use crate::ensemble::{PeerMessage, PeerWord, Said, Transport, put_said};
use crate::storage::SnapshotFile;

#[derive(Debug, Default)]
pub(super) struct Post {
    /// To whom, and what.
    pub(super) sent: Vec<(u64, Vec<u8>)>,
    /// A snapshot's bytes, with the message that tells of it.
    pub(super) snapshots: Vec<(PeerMessage, Vec<u8>)>,
}

pub(super) fn encode(said: &Said) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    put_said(&mut bytes, said);
    bytes.to_vec()
}

impl Transport for Post {
    fn send(&mut self, message: PeerMessage) {
        self.sent.push((message.to, encode(&Said::Message(message))));
    }

    fn say(&mut self, to: u64, word: PeerWord) {
        self.sent.push((to, encode(&Said::Word(word))));
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
