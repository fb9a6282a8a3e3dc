//! Sessions that live on one server only: nothing in the log opens or closes them, nobody but their
//! server ends them, and one that creates an ephemeral znode becomes a session of all servers
//! first.

use std::collections::BTreeMap;

use super::post::Post;
use super::turn::SESSION_TICK_MS;
use super::world::{Checked, Stop, World};
use crate::engine::decide::local::LocalSessions;
use crate::engine::decide::tracker::first_session_id;
use crate::engine::time::{Monotonic, WallClock};
use crate::ensemble::raft::Member;

/// From the first session of all servers to the first of one server, as that begins.
const LOCAL_IDS: i64 = 0x8000;

/// Sessions that began on one server.
#[derive(Debug, Default)]
pub(super) struct Locals {
    /// Whether new sessions live on one server.
    pub(super) are_there: bool,
    /// Where each began, and in which life of that server; and whether it has ended there.
    of: BTreeMap<i64, (usize, u64, bool)>,
}

impl Locals {
    /// Whether a session began on one server.
    pub(super) fn began(&self, session: i64) -> bool {
        self.of.contains_key(&session)
    }
}

impl World {
    /// A process that begins keeps its clients' sessions.
    pub(super) fn keep_locals(
        is_there: bool,
        server: u8,
        wall: WallClock,
        member: &mut Member<Post>,
    ) {
        if is_there {
            let first = first_session_id(server, wall.0) + LOCAL_IDS;
            member.requests_mut().keep_sessions_local(LocalSessions::new(
                SESSION_TICK_MS,
                first,
                true,
            ));
        }
    }

    /// A client is told that it has a session; `is_over` where the one that it came with had ended
    /// before.
    pub(super) fn see_session(&mut self, at: usize, session: i64, is_over: bool) -> Checked {
        if is_over {
            return Err(format!("session {session:#x} goes on that had ended before"));
        }
        let life = self.servers[at].life;
        if !self.locals.are_there || self.history.has_session(session) {
            return Ok(());
        }
        self.outcome.local += u64::from(!self.locals.began(session));
        let began = *self.locals.of.entry(session).or_insert((at, life, false));
        let violation = match began {
            (_, _, true) => "lives again",
            (place, its, false) if (place, its) != (at, life) => "outlives its process",
            _ => return Ok(()),
        };
        // It may be about to become one of all servers, for which the leader answers before that is
        // final, as ZooKeeper's does; and it may have ended here while it was.
        match self.checks.has_opening(session) {
            true => Ok(()),
            false => Err(format!("session {session:#x} of one server {violation}")),
        }
    }

    /// A server ends the sessions that live there only and whose clients it has not heard for long
    /// enough.
    pub(super) fn expire_locals(
        &mut self,
        at: usize,
        member: &mut Member<Post>,
        now: Monotonic,
        late: u64,
    ) -> Result<(), Stop> {
        for session in member.requests_mut().expire_local(now, late) {
            self.outcome.local_expired += 1;
            if let Some((_, _, is_over)) = self.locals.of.get_mut(&session.0) {
                *is_over = true;
            }
            let attached = self.servers[at].connections.values().filter_map(|its| {
                its.attached.as_ref().filter(|attached| attached.session == session)
            });
            let ms = attached.map(|its| (now.since(its.heard.last()), its.timeout_ms)).min();
            if let Some((ms, timeout)) =
                ms.filter(|(ms, timeout)| *ms < u64::from(timeout.cast_unsigned()))
            {
                return Err(Stop::Violation(format!(
                    "session {session:?} of {timeout} ms, of one server, ends {ms} ms after it was \
                     heard of"
                )));
            }
        }
        Ok(())
    }
}
