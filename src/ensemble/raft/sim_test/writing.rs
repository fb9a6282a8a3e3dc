//! What the disk's thread does for a member: the oldest of what it is to write, as much of it as it
//! takes at once, and then the word of it. Anything may happen between these.

use super::checks::read_chain;
use super::life::is_refusal;
use super::server::Waiting;
use super::timeline::MS;
use super::world::{Checked, Event, World};
use super::*;
use crate::storage::StorageError;

impl World {
    /// There is something to write, and nobody is at it.
    pub(super) fn write_later(&mut self, at: usize) {
        let server = &mut self.servers[at];
        if server.is_writing || server.writes.is_empty() {
            return;
        }
        server.is_writing = true;
        let most = if self.dice.coin() { 300 } else { 5 * MS };
        let delay = 50 + self.dice.below(most);
        let when = (self.timeline.now() + delay).max(server.stalled_until).max(server.frozen_until);
        self.timeline.at(when, Event::Write(at, server.life));
    }

    pub(super) fn write_disk(&mut self, at: usize, life: u64) -> Checked {
        let now = self.timeline.now();
        let server = &mut self.servers[at];
        if server.life != life {
            return Ok(());
        }
        let waits_until = server.stalled_until.max(server.frozen_until);
        if now < waits_until {
            self.timeline.at(waits_until, Event::Write(at, life));
            return Ok(());
        }
        let Some(writer) = &mut server.writer else { return Ok(()) };
        if server.writes.is_empty() {
            return Ok(());
        }
        let all = server.writes.len();
        let count =
            if self.dice.below(3) == 0 { 1 + self.dice.below(all as u64) } else { all as u64 };
        let some: Vec<Write> = server.writes.drain(..count as usize).collect();
        let written = match writer.write(some) {
            Ok(written) => written,
            Err(EnsembleError::Storage(StorageError::Io { source, .. })) if is_refusal(&source) => {
                self.fail(at);
                return Ok(());
            }
            Err(error @ EnsembleError::Replaced { .. }) => {
                return self
                    .end_removed(at, &error)
                    .map_err(|violation| format!("disk {}: {violation}", at + 1));
            }
            Err(error @ EnsembleError::OlderCopy(_)) => return self.end_copy(at, &error),
            Err(error) => return Err(format!("disk {}: {error}: {error:?}", at + 1)),
        };
        let before = server.chain.clone();
        read_chain(&writer.log, &mut server.chain);
        let promises = writer.promises.get();
        server.promise = (promises.term, promises.vote);
        server.promised_at = promises.configured_at;
        let chain = &server.chain;
        let kept = before.iter().zip(chain).take_while(|(was, is)| was == is).count();
        let is_cut = kept < before.len() && kept < chain.len() && chain[kept] != 0;
        if is_cut {
            self.outcome.cuts += 1;
            Self::trouble(&mut self.dice, &mut self.timeline, at);
        }
        let delay = self.dice.below(500);
        if self.flaw != Flaw::SaidBeforeWritten {
            self.timeline.after(delay, Event::Tell(at, life, Waiting::Written(Box::new(written))));
        }
        self.timeline.after(delay, Event::Written(at, life));
        Ok(())
    }

    /// The disk is free for more.
    pub(super) fn wrote(&mut self, at: usize, life: u64) {
        let server = &mut self.servers[at];
        let Some(writer) = server.writer.as_mut().filter(|_| server.life == life) else { return };
        let before = writer.promises.get().commit;
        // It fails only where the disk does.
        if writer.write_hint().is_err() {
            self.fail(at);
            return;
        }
        self.outcome.hints += u64::from(writer.promises.get().commit > before);
        server.is_writing = false;
        self.write_later(at);
    }
}
