//! What the thread of a member keeps beside the member: ways to the others, steps of time, sessions
//! to look at, reports, and seats that somebody waits for. The simulators' threads are this one,
//! too.

use std::net::IpAddr;

use hashbrown::HashMap;
use tokio::sync::oneshot;

use super::founding::{Applicant, FoundingAnswer};
use super::from_peer::{FromPeer, PeerRefused};
use super::raft::{EnsembleError, Member, Prospect, Said, Transport};
use super::ways::{Way, Ways};
use super::words::PeerWord;
use crate::engine::time::{Monotonic, Now};
use crate::list::{Role, Servers};
use crate::storage::{MOVE_ASIDE, Over};

/// A step of the clock of elections, in milliseconds.
const TICK_MS: u64 = 50;
/// Ticks that are made up for after the thread stood still; it knows nothing of what the others did
/// meanwhile.
const TICKS_AT_ONCE: u64 = 3;
/// Standing still for so long is time that nobody's session is charged for, in milliseconds.
pub(super) const STALL_MS: u64 = 500;

/// For how long a thread stood still that has its turn so much later than it wanted to, both in
/// milliseconds: 0 if that is no more than usual.
#[must_use]
pub const fn stood_still(late_ms: u64) -> u64 {
    if late_ms >= STALL_MS { late_ms } else { 0 }
}

/// What the thread of a member keeps beside the member.
#[derive(Debug)]
pub struct Life {
    ways: Ways,
    /// What members ask that have a way here while there is none to them yet: an answer would be
    /// lost, and they would wait for it. Bounded by what they take of their clients.
    early: HashMap<u64, Vec<PeerWord>>,
    next_tick: Monotonic,
    next_report: Monotonic,
    /// Between two reports, in milliseconds.
    report_ms: u64,
    last_turn: Monotonic,
    /// How long it wanted to wait then, in milliseconds.
    patience_ms: u64,
    /// For how long it stood still before this turn, and since it looked at the sessions last, in
    /// milliseconds.
    late_ms: u64,
    stood_still_ms: u64,
    /// The others can hear that the ensemble has begun.
    has_begun: bool,
    /// The servers that may vote, by the list that counts, and all that it has.
    voters: Vec<u8>,
    listed: Vec<u8>,
    /// Seats that are prepared, and who waits for them.
    seats: Vec<(u8, u64, oneshot::Sender<FoundingAnswer>)>,
}

impl Life {
    /// From a start on; `tick_time_ms` is zoo.cfg's tickTime.
    #[must_use]
    pub fn new(now: Monotonic, tick_time_ms: u64, voters: Vec<u8>, listed: Vec<u8>) -> Self {
        Self {
            ways: Ways::default(),
            early: HashMap::new(),
            next_tick: now.plus(TICK_MS),
            next_report: now,
            report_ms: (tick_time_ms / 2).max(1),
            last_turn: now,
            patience_ms: 0,
            late_ms: 0,
            stood_still_ms: 0,
            has_begun: false,
            voters,
            listed,
            seats: Vec::new(),
        }
    }

    /// A turn of the thread begins. Gives for how long it [stood still](stood_still) before.
    pub const fn wakes(&mut self, now: Monotonic) -> u64 {
        self.late_ms = stood_still(now.since(self.last_turn).saturating_sub(self.patience_ms));
        self.last_turn = now;
        self.late_ms
    }

    /// For how long it stood still before this turn, in milliseconds.
    #[must_use]
    pub const fn late_ms(&self) -> u64 {
        self.late_ms
    }

    /// The turn is over; `has_more` says that there is something to do at once. Gives how long the
    /// next one can wait for something to do, in milliseconds.
    pub const fn sleeps(&mut self, has_more: bool, now: Monotonic) -> u64 {
        self.patience_ms = if has_more { 0 } else { self.next_tick.since(now) };
        self.patience_ms
    }

    /// Takes what came from another member. Gives the member to which the way is lost, if one is.
    ///
    /// # Errors
    /// When the member had to stop.
    pub fn take<T: Transport>(
        &mut self,
        member: &mut Member<T>,
        what: FromPeer,
        now: Now,
    ) -> Result<Option<u64>, EnsembleError> {
        match what {
            FromPeer::Said(from, said) => match said {
                Said::Message(message) => member.step(message),
                Said::Word(word) if word.wants_answer() && !self.ways.are_both(from) => {
                    self.early.entry(from).or_default().push(word);
                }
                Said::Word(word) => member.hear(from, word, now)?,
                // These have connections of their own.
                Said::Question(_) | Said::Answer(_) | Said::Alive(_) => {}
            },
            FromPeer::Hears(peer, is_up) => {
                return self.way(member, peer, (Way::Hears, is_up), now);
            }
            FromPeer::Speaks(peer, is_up) => {
                return self.way(member, peer, (Way::Speaks, is_up), now);
            }
            FromPeer::Refused(PeerRefused::Older) => member.is_over(Over::OlderCopy, now.monotonic),
            FromPeer::Refused(PeerRefused::Removed) => member.is_over(Over::Removed, now.monotonic),
            FromPeer::Refused(PeerRefused::Replaced) => return Err(EnsembleError::ProcessReplaced),
            FromPeer::Snapshot(message, received) => {
                member.receive_snapshot(message, received, now)?;
            }
            FromPeer::SnapshotSent(to, status) => {
                member.consensus_mut().report_snapshot(to, status)
            }
            FromPeer::Answered(server) => member.consensus_mut().answered(server, now.monotonic),
            FromPeer::Seat(applicant, answer) => self.seat(member, applicant, answer, now)?,
        }
        Ok(None)
    }

    /// One of the two connections with a peer has come or gone.
    fn way<T: Transport>(
        &mut self,
        member: &mut Member<T>,
        peer: u64,
        (way, is_up): (Way, bool),
        now: Now,
    ) -> Result<Option<u64>, EnsembleError> {
        let early = self.early.remove(&peer).unwrap_or_default();
        if self.ways.change(peer, way, is_up) {
            member.found(peer);
            early.into_iter().try_for_each(|word| member.hear(peer, word, now))?;
            return Ok(None);
        }
        member.lost(peer);
        member.consensus_mut().report_unreachable(peer);
        Ok(Some(peer))
    }

    /// A server wants to belong to the ensemble. Where nobody hears of a seat, another member is
    /// asked.
    fn seat<T: Transport>(
        &mut self,
        member: &mut Member<T>,
        applicant: Applicant,
        answer: oneshot::Sender<FoundingAnswer>,
        now: Now,
    ) -> Result<(), EnsembleError> {
        let said = match member.prepare_seat(applicant, now)? {
            Prospect::SeatAbove(above) => {
                self.seats.push((applicant.server, above, answer));
                return Ok(());
            }
            Prospect::Later => return Ok(()),
            Prospect::Taken(id) => FoundingAnswer::Refused(taken_by_another_directory(id)),
            Prospect::Changing => {
                FoundingAnswer::NotYet("another change of the members must finish first".to_owned())
            }
            Prospect::Speaks => {
                let from = member.transport().hears_from(applicant.server);
                FoundingAnswer::NotYet(speaks_as(applicant.server, from))
            }
            Prospect::Lacking => FoundingAnswer::Lacking,
            Prospect::Full => FoundingAnswer::Refused(
                "the ensemble has as many members as it can have; remove servers from the ensemble \
                 first"
                    .to_owned(),
            ),
        };
        // Whoever asked may have stopped waiting.
        let _ = answer.send(said);
        Ok(())
    }

    /// Tells servers without a state which seats they have.
    pub fn give_seats<T: Transport>(&mut self, member: &Member<T>) {
        for (server, above, answer) in std::mem::take(&mut self.seats) {
            match member.consensus().take_seat(server, above) {
                // Whoever asked may have stopped waiting.
                Some(seat) => drop(answer.send(FoundingAnswer::Seat(seat, None))),
                None if member.requests().is_leading() => self.seats.push((server, above, answer)),
                None => {}
            }
        }
    }

    /// Time passes.
    pub fn tick<T: Transport>(&mut self, member: &mut Member<T>, now: Monotonic) {
        for _ in 0..TICKS_AT_ONCE {
            if now < self.next_tick {
                return;
            }
            member.tick();
            self.next_tick = self.next_tick.plus(TICK_MS);
        }
        self.next_tick = now.plus(TICK_MS);
    }

    /// Whether the member is to look at its sessions as their leader in this turn, and for how long
    /// it stood still since it did last, in milliseconds: time that nobody's session is charged
    /// for. What it ends must be decided at once, and what there was to do comes first.
    pub fn looks_at_sessions<T: Transport>(&mut self, member: &Member<T>) -> Option<u64> {
        if !member.requests().is_leading() {
            // Whoever leads next gives every session its time anew.
            self.stood_still_ms = 0;
        } else {
            self.stood_still_ms = self.stood_still_ms.saturating_add(self.late_ms);
        }
        if !member.takes_requests() || member.requests().has_chores() && self.stood_still_ms == 0 {
            return None;
        }
        Some(std::mem::take(&mut self.stood_still_ms))
    }

    /// Whether the member has found out in this turn that the ensemble has begun: others are to be
    /// told before it acknowledges anything, which waits for the disk until a later turn.
    pub fn finds_begun<T: Transport>(&mut self, member: &Member<T>) -> bool {
        let was = self.has_begun;
        self.has_begun |= member.consensus().has_begun();
        self.has_begun && !was
    }

    /// Tells the leader who was heard of, and who is listed here, when it is time to. Whether it
    /// was.
    ///
    /// # Errors
    /// When the member had to stop.
    pub fn report<T: Transport>(
        &mut self,
        member: &mut Member<T>,
        now: Now,
    ) -> Result<bool, EnsembleError> {
        if now.monotonic < self.next_report {
            return Ok(false);
        }
        self.next_report = now.monotonic.plus(self.report_ms);
        member.report_heard(now);
        member.follow_list(&self.voters, &self.listed, now)?;
        Ok(true)
    }

    /// The ensemble has agreed on another list.
    pub fn set_list(&mut self, servers: &Servers) {
        self.voters = servers.ids(Role::Participant).collect();
        self.listed = servers.iter().map(|(id, _)| *id).collect();
    }

    /// The servers that may vote, by the list.
    #[must_use]
    pub fn voters(&self) -> &[u8] {
        &self.voters
    }
}

/// What the operator of a server is told whose other data directory may be this member's.
fn taken_by_another_directory(member: u64) -> String {
    format!(
        "this server may already be member {member:#x}, with another data directory: start it \
         with that directory. If there is none, or it is lost: while a majority of the others is \
         running, {MOVE_ASIDE}, and start the server again"
    )
}

/// Why a process is no member: another one is the same server.
#[must_use]
pub fn speaks_as(server: u8, from: Option<IpAddr>) -> String {
    let from = from.map(|from| format!(" from {from}")).unwrap_or_default();
    format!("another process runs as server {server}{from}: each server needs a `myid` of its own")
}
