//! Who may end a session and who may write for it: what the leader must have heard, followed beside
//! the words that the members say.

use std::collections::{BTreeMap, BTreeSet};

use super::Flaw;
use super::turn::SESSION_TICK_MS;
use super::world::World;
use crate::engine::time::Monotonic;
use crate::engine::watch::ConnectionId;
use crate::ensemble::life::{Life, STALL_MS};
use crate::ensemble::words::PeerWord;

type Checked = Result<(), String>;

/// How much later than its timeout a session may be ended: the bucket that it is in, the time
/// between two reports of who was heard of, and a turn that is late by less than counts.
const LATE_MS: u64 = SESSION_TICK_MS + SESSION_TICK_MS / 2 + STALL_MS;

/// What a leader is certain to have heard, by its own clock.
#[derive(Debug, Default)]
pub(super) struct Ears {
    /// When it began to lead, and in which term.
    since: Option<(u64, Monotonic)>,
    /// When it heard of each last, and for how long it had stood still by then.
    heard: BTreeMap<i64, (Monotonic, u64)>,
    /// When it may have heard of each at the latest.
    may_have: BTreeMap<i64, Monotonic>,
    /// For how long it stood still meanwhile.
    stood_still: u64,
    /// By how much its clock jumped meanwhile.
    jumped: u64,
}

impl Ears {
    /// Called each time the member has done something.
    pub(super) fn leads(&mut self, term: Option<u64>, now: Monotonic) {
        match (term, self.since) {
            (Some(term), Some((of, _))) if term == of => {}
            (term, _) => {
                self.since = term.map(|term| (term, now));
                self.heard.clear();
                self.may_have.clear();
                (self.stood_still, self.jumped) = (0, 0);
            }
        }
    }

    /// A report came to which the session belongs.
    pub(super) fn hear(&mut self, session: i64, now: Monotonic) {
        self.heard.insert(session, (now, self.stood_still));
    }

    /// A word came that may show that sessions live.
    pub(super) fn may_hear(&mut self, word: &PeerWord, now: Monotonic) {
        match word {
            PeerWord::Heard(sessions) => {
                sessions.iter().for_each(|session| self.may_hear_of(session.0, now));
            }
            PeerWord::Forwarded { requests, .. } => {
                let sessions = requests.iter().map(|asked| asked.origin.session.0);
                sessions.for_each(|session| self.may_hear_of(session, now));
            }
            _ => {}
        }
    }

    /// Something came that may show that a session lives.
    pub(super) fn may_hear_of(&mut self, session: i64, now: Monotonic) {
        let last = self.may_have.entry(session).or_insert(now);
        *last = (*last).max(now);
    }

    /// It stood still, for which nobody is charged.
    pub(super) const fn stood_still(&mut self, ms: u64) {
        self.stood_still += ms;
    }

    /// Its clock jumped. Whether the sessions are charged for that depends on what it does first.
    pub(super) const fn jumped(&mut self, ms: u64) {
        self.jumped += ms;
    }

    /// It leads, and does not want to end a session that there is.
    pub(super) fn must_live(&mut self, session: i64, timeout_ms: u64, now: Monotonic) -> Checked {
        let last = *self.may_have.entry(session).or_insert(now);
        // A new leader gives each its whole timeout, whenever its client was heard of before.
        let last = self.since.map_or(last, |(_, since)| last.max(since));
        let most = timeout_ms + self.stood_still + self.jumped + LATE_MS;
        if now.since(last) < most {
            return Ok(());
        }
        let ms = now.since(last);
        Err(format!("session {session:#x} of {timeout_ms} ms lives {ms} ms after it was heard of"))
    }

    /// It wants to end a session.
    pub(super) fn may_expire(&self, session: i64, timeout_ms: u64, now: Monotonic) -> Checked {
        let Some((_, since)) = self.since else {
            return Err(format!("session {session:#x} expires where nobody leads"));
        };
        let (last, stood_still) = self.heard.get(&session).copied().unwrap_or((since, 0));
        let ms = now.since(last.max(since)).saturating_sub(self.stood_still - stood_still);
        if ms >= timeout_ms {
            return Ok(());
        }
        Err(format!(
            "session {session:#x} of {timeout_ms} ms expires, and was heard of {ms} ms ago, less \
             what it stood still"
        ))
    }
}

/// The connections whose requests became final for each session.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// Of each session: the term, its owner, and who owned it before in this term.
    of: BTreeMap<i64, (i64, ConnectionId, BTreeSet<ConnectionId>)>,
}

impl Owners {
    /// A request of a connection is final. In one term no connection comes again after another.
    pub(super) fn wrote(&mut self, session: i64, zxid: i64, connection: ConnectionId) -> Checked {
        let term = zxid >> 32;
        let of = self.of.entry(session).or_insert((term, connection, BTreeSet::new()));
        if of.0 != term {
            *of = (term, connection, BTreeSet::new());
        }
        if of.1 == connection {
            return Ok(());
        }
        if of.2.contains(&connection) {
            return Err(format!(
                "{zxid:#x} is of {connection:?}, which lost session {session:#x} to {:?}",
                of.1
            ));
        }
        of.2.insert(std::mem::replace(&mut of.1, connection));
        Ok(())
    }
}

/// It takes no requests while it hands over, and what it ends then would not be decided.
#[test]
fn a_standstill_is_kept_until_the_sessions_are_looked_at() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    let other = world.servers[(leader + 1) % 3].id;
    let member = world.servers[leader].member.as_mut().expect("is up");
    let mut life = Life::new(Monotonic(1000), 500, Vec::new(), Vec::new());
    life.sleeps(true, Monotonic(1000));
    member.consensus_mut().hand_over(other);
    assert_eq!(life.wakes(Monotonic(1700)), 700);
    assert_eq!(life.looks_at_sessions(member), None);
    life.sleeps(true, Monotonic(1700));
    assert_eq!(life.wakes(Monotonic(2300)), 600);
    assert_eq!(life.looks_at_sessions(member), None);
    life.sleeps(true, Monotonic(2300));
    member.consensus.node.raft.abort_leader_transfer();
    assert_eq!(life.wakes(Monotonic(2310)), 0);
    assert_eq!(life.looks_at_sessions(member), Some(1300));
    assert_eq!(life.looks_at_sessions(member), Some(0));
}
