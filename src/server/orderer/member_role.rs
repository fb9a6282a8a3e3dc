//! What a member is to its clients, and what is said of it when that changes.

use crate::engine::time::Monotonic;
use crate::ensemble::{Member, Peer, server_of};
use crate::message::MessageId;
use crate::server::peers::Peers;
use crate::server::role::{NoRole, Role};
use crate::server::shared::Server;

/// Says why this member has no role, if it has none.
pub(super) fn tell_no_role(server: &Server, member: &Member<Peers>, role: Role, now: Monotonic) {
    if role != Role::None {
        return;
    }
    let consensus = member.consensus();
    *server.others.no_role.lock() = if member.has_wrong_tree() {
        NoRole::WrongTree
    } else if member.has_doubtful_tree() {
        NoRole::TreeInDoubt
    } else if consensus.leader() != 0 && !server.replica.is_fresh(now) {
        NoRole::TooOld {
            ms: now.since(server.replica.fresh_until()),
            behind: consensus.committed().saturating_sub(consensus.applied()),
        }
    } else {
        NoRole::NoLeader
    };
}

/// What this member is to its clients, apart from those that read only.
pub(super) fn role_of(member: &Member<Peers>, is_fresh: bool) -> Role {
    if member.has_wrong_tree() || !is_fresh {
        Role::None
    } else if member.requests().is_leading() {
        Role::Leader
    } else if !member.requests().is_following() || member.has_doubtful_tree() {
        // Whose tree differs may show what never was.
        Role::None
    } else if member.consensus().is_learner() {
        Role::Observer
    } else {
        Role::Follower
    }
}

/// Who leads, since now, and with whom; `too_old` is by how many milliseconds what is here is older
/// than a read may be.
pub(super) fn tell_role(member: &Member<Peers>, role: Role, too_old: Option<u64>) {
    let (term, leader) = (member.consensus().term(), server_of(member.consensus().leader()));
    match role {
        Role::Leader => {
            let is_with = |peer: &Peer| peer.is_there && peer.id != member.consensus().id();
            let peers = member.consensus().peers().into_iter().filter(is_with);
            let with: Vec<u8> = peers.map(|peer| peer.server).collect();
            tracing::info!(term, ?with, "this server is now the leader");
        }
        Role::Follower | Role::Observer => {
            tracing::info!(%role, term, leader, "this server now follows a leader");
        }
        Role::ReadOnly => tracing::warn!(
            id = %MessageId::READ_ONLY,
            applied = %member.replica().applied(),
            "this server has no leader: it serves only clients that accept a read-only server \
             (readonlymode.enabled)"
        ),
        // That has been said.
        Role::None if member.has_wrong_tree() => {}
        Role::None if member.has_doubtful_tree() => tracing::error!(
            id = %MessageId::TREES_DIFFER,
            leader,
            "the tree of this server differs from the leader's, and too few servers are present to \
             tell which is right: this server serves no clients"
        ),
        Role::None
            if leader != 0
                && let Some(ms) = too_old =>
        {
            tracing::warn!(
                id = %MessageId::STATE_TOO_OLD,
                leader,
                ms,
                "the state of this server is older than syncLimit: it serves no clients until it \
                 has caught up"
            )
        }
        Role::None | Role::Reading | Role::Standalone => {
            tracing::info!(
                "this server has no leader: it does not serve clients until there is one"
            );
        }
    }
}
