//! Worlds whose list of servers changes by requests: who votes then, and what is written down.
//!
//! A world has either this or lists of zoo.cfg that change. Disks are not emptied in it: two voters
//! can bear nothing of that.

use std::collections::BTreeSet;
use std::sync::Arc;

use jute::protocol::{ReconfigRequest, Request};
use jute::txn::SetDataTxn;

use super::super::super::configuration::MemberChange;
use super::world::{Checked, World};
use super::*;
use crate::engine::access::acl::{Identities, Identity};
use crate::engine::decide::request::{Origin, Work};
use crate::engine::session::SessionId;
use crate::engine::time::WallClock;
use crate::engine::watch::ConnectionId;
use crate::ensemble::raft::List;
use crate::ensemble::{Share, Submission};
use crate::list::{Role, ServerList, Servers};

/// What requests for another list come from: nobody's connection, and a session that the member
/// says it has.
const FIRST_CONNECTION: u64 = 1 << 40;
const SESSION: SessionId = SessionId(0x7fff_0000_0000);

/// The list of servers, as far as it is final.
#[derive(Debug, Default)]
pub(super) struct Reconfigs {
    /// Whether this world has one.
    pub(super) are_there: bool,
    list: Option<Servers>,
    asked: u64,
}

impl World {
    /// What each server's zoo.cfg says, if the list can change.
    pub(super) fn own_list(&self) -> Option<List> {
        let all = (0..self.servers.len()).map(|at| (at, self.observer != Some(at)));
        let text: Vec<String> = all.map(|(at, votes)| line(at, votes)).collect();
        let list = ServerList::parse(&text.join("\n")).expect("a list");
        let its = List { list, since: WallClock(0) };
        self.reconfigs.are_there.then_some(its)
    }

    /// Whether a server votes, by the list that is final, or else by zoo.cfg.
    pub(super) fn may_vote(&self, at: usize) -> bool {
        match &self.reconfigs.list {
            Some(servers) => servers.is_participant(at as u8 + 1),
            None => self.observer != Some(at),
        }
    }

    /// Somebody wants another list, and asks any server for it.
    pub(super) fn reconfigure(&mut self) {
        let mut lines = Vec::new();
        for at in 0..self.servers.len() {
            match self.dice.below(6) {
                0 => {}
                1 => lines.push(line(at, false)),
                _ => lines.push(line(at, true)),
            }
        }
        let at = self.dice.below(self.servers.len() as u64) as usize;
        if self.servers[at].member.is_none() {
            return;
        }
        self.reconfigs.asked += 1;
        let connection = FIRST_CONNECTION + self.reconfigs.asked;
        let connection = ConnectionId::on(at as u8 + 1, connection);
        let request = ReconfigRequest {
            joining_servers: None,
            leaving_servers: None,
            new_members: Some(lines.join(",").into()),
            cur_config_id: -1,
        };
        let received = self.servers[at].clock.read(self.timeline.now()).monotonic;
        let identity = Identity { scheme: "super".to_owned(), id: String::new() };
        let identities = Arc::new(Identities::from(vec![identity]));
        let origin = Origin { connection, session: SESSION, xid: 1, identities, received };
        let work = Work::OfLocal(Request::Reconfig(request));
        let room = Arc::clone(&self.room).try_acquire_owned().expect("room");
        let submission = Submission::new(origin, work, Some(Share::new(room, None)));
        self.servers[at].seen.open.lock().insert(connection);
        self.servers[at].submissions.push(submission);
        self.wake(at, self.timeline.now());
    }

    /// A list is final at `zxid`: its voters are those of the ensemble, but for the leader that
    /// wrote it down.
    pub(super) fn list_became_final(&mut self, zxid: i64, txn: &SetDataTxn<'_>) -> Checked {
        let text = String::from_utf8(txn.data.as_deref().unwrap_or_default().to_vec());
        let list = text.ok().and_then(|text| ServerList::parse(&text).ok());
        let Some(list) = list.filter(|list| list.version == zxid) else {
            return Err(format!("{zxid:#x} is no list: {txn:?}"));
        };
        let Some((members, leader)) = self.checks.as_of(zxid) else {
            return Err(format!("{zxid:#x} is a list of nobody"));
        };
        let is_wanted = |id: &u64| list.servers.is_participant(server_of(*id));
        let others = members.voters.iter().find(|id| !is_wanted(id) && **id != leader);
        if let Some(other) = others.filter(|_| self.reconfigs.list.is_some()) {
            return Err(format!("{zxid:#x} has not {other:x}, which votes: {members:x?}"));
        }
        let wanted = members.voters.iter().filter(|id| is_wanted(id)).count();
        if wanted <= list.servers.voters() / 2 {
            return Err(format!("{zxid:#x}: too few of its voters vote: {members:x?}"));
        }
        self.reconfigs.list = Some(list.servers);
        self.outcome.lists += 1;
        Ok(())
    }

    /// A change of the members that a leader wants, where the list can change.
    pub(super) fn proposes_by_list(&self, at: usize, change: MemberChange) -> Checked {
        let Some(member) = &self.servers[at].member else { return Ok(()) };
        let id = member.consensus().id();
        match change {
            MemberChange::Demote(other) if other == id && member.consensus().leader() == id => {
                Err(format!("leader {id:#x} wants to vote no more"))
            }
            _ => Ok(()),
        }
    }

    /// What is on its way of the list, for whoever reads a violation.
    pub(super) fn list_changes(&self) -> Vec<String> {
        let members = self.servers.iter().filter_map(|server| server.member.as_ref());
        members.map(|member| format!("{:?}", member.list_change)).collect()
    }

    /// Whether everybody votes that the list wants to.
    pub(super) fn follows_list(&self) -> bool {
        let members = || self.servers.iter().filter_map(|server| server.member.as_ref());
        let waits = members().any(|member| member.list_is_changing());
        !self.reconfigs.are_there || !waits
    }
}

fn line(at: usize, votes: bool) -> String {
    let role = if votes { Role::Participant } else { Role::Observer };
    let (id, port) = (at + 1, 1000 + 2 * at);
    format!("server.{id}=h{id}:{port}:{}:{role};{id}", port + 1)
}

/// The servers that a process reads in its zoo.cfg and that vote.
pub(super) fn voters_of(listed: &BTreeSet<u8>, observer: Option<usize>) -> Vec<u8> {
    let votes = |server: &u8| observer != Some(usize::from(*server) - 1);
    listed.iter().copied().filter(votes).collect()
}
