//! A server that is listed as an observer: it has what the others have and answers reads, and is
//! one of no quorum.

use raft::eraftpb::{Message as PeerMessage, MessageType};

use super::network::Content;
use super::post::Post;
use super::world::{Checked, World, place_of};
use super::*;
use crate::ensemble::raft::{FIRST_LIFE, member_id};
use crate::storage::Members;

impl World {
    /// The members that the ensemble is founded with.
    pub(super) fn founders(&self) -> Members {
        let ids = |votes: bool| {
            let its = (0..self.servers.len()).filter(|at| self.may_vote(*at) == votes);
            its.map(|at| member_id(at as u8 + 1, FIRST_LIFE)).collect()
        };
        Members { voters: ids(true), learners: ids(false), ..Members::default() }
    }

    /// No life of an observer votes, as of what a member knows, or leads.
    pub(super) fn check_observer(&self, at: usize) -> Checked {
        let Some(member) = &self.servers[at].member.as_ref().filter(|_| !self.reconfigs.are_there)
        else {
            return Ok(());
        };
        let members = &member.consensus.node.store().promises.members;
        if let Some(votes) = members.voters.iter().find(|id| !self.may_vote(place_of(**id))) {
            return Err(format!("observer {votes:#x} is a voter"));
        }
        match self.may_vote(at) || member.consensus().leader() != member.consensus().id() {
            true => Ok(()),
            false => Err(format!("observer {:#x} leads", member.consensus().id())),
        }
    }

    /// It neither stands for election nor elects.
    pub(super) fn check_said(&self, at: usize, said: &Content) -> Checked {
        let Content::Message(message) = said else { return Ok(()) };
        let elects = match message.get_msg_type() {
            MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => true,
            MessageType::MsgRequestVoteResponse | MessageType::MsgRequestPreVoteResponse => {
                !message.reject
            }
            _ => false,
        };
        match elects && !self.may_vote(at) && !self.reconfigs.are_there {
            false => Ok(()),
            true => Err(format!("observer {:#x} says {message:?}", self.servers[at].id)),
        }
    }

    /// Only with that planted fault: what an observer has on its disk counts as a voter's.
    pub(super) fn count_observer(&self, member: &mut Member<Post>, said: &PeerMessage) {
        if self.flaw != Flaw::ObserverCounted
            || said.get_msg_type() != MessageType::MsgAppendResponse
            || said.reject
            || self.may_vote(place_of(said.from))
        {
            return;
        }
        let voters = &member.consensus.node.store().promises.members.voters;
        let other = voters.iter().copied().find(|id| *id != member.consensus().id());
        if let Some(from) = other.filter(|_| member.requests().is_leading()) {
            member.step(PeerMessage { from, ..said.clone() });
        }
    }
}
