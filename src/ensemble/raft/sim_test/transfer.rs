//! Snapshots on their way from one member to another, piece by piece, and broken off.

use std::sync::Arc;

use raft::SnapshotStatus;
use raft::eraftpb::Message as PeerMessage;

use super::frames;
use super::server::Waiting;
use super::timeline::MS;
use super::world::{Event, World};
use crate::engine::database::Rules;
use crate::ensemble::from_peer::FromPeer;
use crate::ensemble::raft::snapshot_zxid;
use crate::ensemble::rebuild::Rebuild;
use crate::storage::{Compression, ReceivedSnapshot, StorageError};

/// How long one may stand still.
const STILL_MAX: u64 = 2000 * MS;

pub(super) struct Transfer {
    pub(super) from: usize,
    pub(super) to: usize,
    lives: (u64, u64),
    message: PeerMessage,
    bytes: Vec<u8>,
    sent: usize,
    received: Option<ReceivedSnapshot>,
    moved: u64,
}

impl World {
    pub(super) fn begin_transfer(
        &mut self,
        from: usize,
        to: usize,
        message: PeerMessage,
        bytes: Vec<u8>,
    ) {
        self.transfers_begun += 1;
        let number = self.transfers_begun;
        let lives = (self.servers[from].life, self.servers[to].life);
        let (sent, received, moved) = (0, None, self.timeline.now());
        let transfer = Transfer { from, to, lives, message, bytes, sent, received, moved };
        self.transfers.insert(number, transfer);
        self.timeline.after(MS, Event::Piece(number));
    }

    /// The next piece of a snapshot, or its end.
    pub(super) fn piece(&mut self, number: u64) -> Result<(), String> {
        let now = self.timeline.now();
        let Some(mut transfer) = self.transfers.remove(&number) else { return Ok(()) };
        let (from, to) = (transfer.from, transfer.to);
        let lives = (self.servers[from].life, self.servers[to].life);
        let is_up = |at: usize| self.servers[at].member.is_some();
        if !is_up(from) || !is_up(to) || lives != transfer.lives {
            return self.end_transfer(transfer, false);
        }
        let frozen = self.servers[from].frozen_until.max(self.servers[to].frozen_until);
        if !self.network.passes(from, to) || !self.network.passes(to, from) || now < frozen {
            if now > transfer.moved + STILL_MAX {
                return self.end_transfer(transfer, false);
            }
            self.transfers.insert(number, transfer);
            self.timeline.after(20 * MS, Event::Piece(number));
            return Ok(());
        }
        transfer.moved = now;
        let server = &mut self.servers[to];
        if transfer.received.is_none() {
            let zxid = snapshot_zxid(&transfer.message);
            // One at a time.
            let (Some(zxid), Some(member), None) = (zxid, &server.member, server.receiving) else {
                return self.end_transfer(transfer, false);
            };
            let directory = Arc::clone(member.consensus().directory());
            match ReceivedSnapshot::create(directory, zxid, Compression::None) {
                Ok(received) => transfer.received = Some(received),
                Err(_) => return self.end_transfer(transfer, false),
            }
            server.receiving = Some(number);
            for _ in 0..2 {
                Self::trouble(&mut self.dice, &mut self.timeline, to);
            }
        }
        if transfer.sent < transfer.bytes.len() {
            let len = (200 + self.dice.below(1500)) as usize;
            let end = transfer.bytes.len().min(transfer.sent + len);
            let piece = &transfer.bytes[transfer.sent..end];
            if transfer.received.as_mut().is_some_and(|received| received.write(piece).is_err()) {
                return self.end_transfer(transfer, false);
            }
            transfer.sent = end;
            self.transfers.insert(number, transfer);
            let delay = 5 * MS + self.dice.below(120 * MS);
            self.timeline.after(delay, Event::Piece(number));
            return Ok(());
        }
        self.end_transfer(transfer, true)
    }

    /// A snapshot came whole, or comes no more. The sender gets to know of it.
    pub(super) fn end_transfer(
        &mut self,
        mut transfer: Transfer,
        is_whole: bool,
    ) -> Result<(), String> {
        let (from, to, lives) = (transfer.from, transfer.to, transfer.lives);
        let received = transfer.received.take();
        let mut status = SnapshotStatus::Failure;
        if self.servers[to].life == lives.1 {
            match received {
                Some(mut received) if is_whole => {
                    let index = transfer.message.get_snapshot().get_metadata().index;
                    let mut rebuild = Rebuild::new(self.seed, Rules::default());
                    match received.check(index, &mut rebuild) {
                        Ok(()) => {
                            let now = self.servers[to].clock.read(self.timeline.now()).monotonic;
                            let message = frames::pass_message(&transfer.message, now)?;
                            let snapshot = Waiting::From(FromPeer::Snapshot(message, received));
                            self.servers[to].waiting.push(snapshot);
                            let soon = self.timeline.now() + self.dice.below(MS);
                            self.wake(to, soon);
                            status = SnapshotStatus::Finish;
                        }
                        Err(StorageError::Io { .. }) => self.servers[to].receiving = None,
                        Err(error) => return Err(format!("a snapshot that came whole: {error}")),
                    }
                }
                Some(_) => self.servers[to].receiving = None,
                None => {}
            }
        }
        self.outcome.broken_off += u64::from(!is_whole);
        if self.servers[from].life == lives.0 {
            let told = Waiting::From(FromPeer::SnapshotSent(self.servers[to].id, status));
            let delay = MS + self.dice.below(20 * MS);
            self.timeline.after(delay, Event::Tell(from, lives.0, told));
        }
        if self.servers[to].disk.is_powerless() && self.servers[to].member.is_some() {
            self.fail(to);
        }
        Ok(())
    }

    /// A server is gone, and what came to it with it: nothing of that is tidied up.
    pub(super) fn lose_transfers(&mut self, to: usize) {
        for transfer in self.transfers.values_mut().filter(|transfer| transfer.to == to) {
            transfer.received = None;
        }
    }
}
