//! What was handed to the disk and is not durable by what is known here, and the messages that wait
//! for it.

use std::collections::VecDeque;

use raft::eraftpb::Message as PeerMessage;

use super::disk::{What, Write};
use crate::engine::time::Monotonic;

/// Bytes of entries on their way to the disk; beyond that a leader takes no requests and a follower
/// no entries.
const BYTES_MAX: usize = 64 << 20;

/// A write of which nothing came back yet.
#[derive(Debug)]
struct Outstanding {
    /// The number of the `Ready` that it belongs to.
    ready: u64,
    since: Monotonic,
    bytes: usize,
    first_entry: Option<u64>,
    is_promise: bool,
    is_members: bool,
    is_answered: bool,
    is_snapshot: bool,
}

/// The writes of a member that are not durable.
#[derive(Debug)]
pub(super) struct Unsynced {
    /// Not handed out yet.
    writes: Vec<Write>,
    /// All, in their order.
    outstanding: VecDeque<Outstanding>,
    bytes: usize,
    pub(super) bytes_max: usize,
    /// Messages with the number of the `Ready` that has to be durable before them.
    messages: VecDeque<(u64, Vec<PeerMessage>)>,
    /// The newest `Ready`.
    newest: u64,
}

impl Default for Unsynced {
    fn default() -> Self {
        Self {
            writes: Vec::new(),
            outstanding: VecDeque::new(),
            bytes: 0,
            bytes_max: BYTES_MAX,
            messages: VecDeque::new(),
            newest: 0,
        }
    }
}

impl Unsynced {
    /// Goes on to the `Ready` with this number.
    pub(super) const fn begin(&mut self, ready: u64) {
        self.newest = ready;
    }

    /// Takes a write of the newest `Ready`.
    pub(super) fn write(&mut self, write: Write, now: Monotonic) {
        self.take(self.newest, write, now);
    }

    /// Takes a write that no `Ready` up to now waits for.
    pub(super) fn write_aside(&mut self, write: Write, now: Monotonic) {
        self.take(self.newest + 1, write, now);
    }

    fn take(&mut self, ready: u64, write: Write, now: Monotonic) {
        let bytes = write.bytes();
        self.outstanding.push_back(Outstanding {
            ready,
            since: now,
            bytes,
            first_entry: write.first_entry(),
            is_promise: matches!(write.0, What::Promise(_)),
            is_members: matches!(write.0, What::Members(_)),
            is_answered: matches!(write.0, What::Answered(_)),
            is_snapshot: matches!(write.0, What::Install(..)),
        });
        self.bytes += bytes;
        self.writes.push(write);
    }

    /// Keeps messages until everything is durable that was taken up to now.
    pub(super) fn keep(&mut self, messages: Vec<PeerMessage>) {
        if !messages.is_empty() {
            self.messages.push_back((self.newest, messages));
        }
    }

    pub(super) fn take_writes(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.writes)
    }

    /// The oldest so many writes are durable.
    pub(super) fn written(&mut self, writes: usize) {
        for done in self.outstanding.drain(..writes.min(self.outstanding.len())) {
            self.bytes -= done.bytes;
        }
    }

    /// The newest `Ready` that is durable, and all before it.
    pub(super) fn durable(&self) -> u64 {
        self.outstanding.front().map_or(self.newest, |oldest| oldest.ready - 1)
    }

    /// Messages that nothing has to be durable for any more.
    pub(super) fn due(&mut self) -> Vec<PeerMessage> {
        let durable = self.durable();
        let mut due = Vec::new();
        while let Some((_, messages)) = self.messages.pop_front_if(|(ready, _)| *ready <= durable) {
            due.extend(messages);
        }
        due
    }

    /// Whether a term or a vote may be forgotten.
    pub(super) fn has_promise(&self) -> bool {
        self.outstanding.iter().any(|write| write.is_promise)
    }

    /// Whether a change of the members may be forgotten.
    pub(super) fn has_members(&self) -> bool {
        self.outstanding.iter().any(|write| write.is_members)
    }

    /// Whether it may be forgotten that a server has answered its founder.
    pub(super) fn has_answered(&self) -> bool {
        self.outstanding.iter().any(|write| write.is_answered)
    }

    /// Whether a snapshot is on its way.
    pub(super) fn has_snapshot(&self) -> bool {
        self.outstanding.iter().any(|write| write.is_snapshot)
    }

    /// The first entry that the disk may not have.
    pub(super) fn first_entry(&self) -> Option<u64> {
        self.outstanding.iter().filter_map(|write| write.first_entry).min()
    }

    /// Whether nothing is outstanding.
    pub(super) fn is_empty(&self) -> bool {
        self.outstanding.is_empty()
    }

    pub(super) const fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    /// Bytes of entries for which there is room; at least one.
    pub(super) fn room(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes).max(1)
    }

    /// Bytes of entries on their way.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// When the oldest write was taken.
    pub(super) fn since(&self) -> Option<Monotonic> {
        self.outstanding.front().map(|oldest| oldest.since)
    }
}
