//! Who may end a session and who may write for it: what the leader must have heard, followed beside the words that the
//! members say.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::time::Monotonic;
use crate::engine::watch::ConnectionId;

type Checked = Result<(), String>;

/// What a leader is certain to have heard, by its own clock.
#[derive(Debug, Default)]
pub(super) struct Ears {
    /// When it began to lead, and in which term.
    since: Option<(u64, Monotonic)>,
    heard: BTreeMap<i64, Monotonic>,
}

impl Ears {
    /// Called each time the member has done something.
    pub(super) fn leads(&mut self, term: Option<u64>, now: Monotonic) {
        match (term, self.since) {
            (Some(term), Some((of, _))) if term == of => {}
            (term, _) => {
                self.since = term.map(|term| (term, now));
                self.heard.clear();
            }
        }
    }

    /// A report came to which the session belongs.
    pub(super) fn hear(&mut self, session: i64, now: Monotonic) {
        self.heard.insert(session, now);
    }

    /// It wants to end a session.
    pub(super) fn may_expire(&self, session: i64, timeout_ms: u64, now: Monotonic) -> Checked {
        let Some((_, since)) = self.since else {
            return Err(format!("session {session:#x} expires where nobody leads"));
        };
        let last = self.heard.get(&session).copied().unwrap_or(since).max(since);
        if now.since(last) >= timeout_ms {
            return Ok(());
        }
        Err(format!(
            "session {session:#x} of {timeout_ms} ms expires, and was heard of {} ms ago",
            now.since(last)
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
    /// A request of a connection is final. In one term no connection comes again behind another.
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
