//! Taking servers out of the ensemble that the members' configurations do not list any more.
//!
//! No server's list counts alone: one may have been changed before the others, or by mistake. A
//! member goes, one at a time, when it is gone and a majority of those who stay as voters list it
//! no more, have what the leader has, and are there: so they are a quorum without it, and would be
//! with it.

use std::collections::BTreeMap;

use super::consensus::Consensus;
use super::following::Following;
use super::member::Transport;
use super::server_of;
use super::told::Told;
use crate::ensemble::words::PeerWord;

/// Ticks for which a leader only listens: who is there comes and speaks up.
pub(super) const LISTEN_TICKS: u32 = 60;

/// The servers that each member lists.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// The leader was told this member's, which is never another.
    told: Told<()>,
    /// What the others said last.
    others: BTreeMap<u64, Vec<u8>>,
}

/// A voter that stays, as a leader sees it.
#[derive(Debug, Clone, Copy)]
struct Stays {
    /// It does not list who is to go.
    agrees: bool,
    /// It is there, and has what the leader has.
    has_all: bool,
}

/// Whether somebody goes where these stay.
fn goes(stay: &[Stays]) -> bool {
    let agree = stay.iter().filter(|its| its.agrees && its.has_all).count();
    agree > stay.len() / 2
}

impl Lists {
    pub(super) fn heard(&mut self, peer: u64, servers: Vec<u8>) {
        self.others.insert(peer, servers);
    }

    pub(super) fn lost(&mut self, peer: u64) {
        self.others.remove(&peer);
    }

    /// Whether a member lists these servers, and no others.
    pub(super) fn is_same(&self, peer: u64, listed: &[u8]) -> bool {
        self.others.get(&peer).is_some_and(|servers| servers == listed)
    }

    fn omits(&self, peer: u64, server: u8) -> bool {
        self.others.get(&peer).is_some_and(|servers| !servers.contains(&server))
    }

    /// Tells the leader which servers this one's configuration lists.
    pub(super) fn tell(
        &mut self,
        listed: &[u8],
        following: Option<&Following>,
        transport: &mut impl Transport,
    ) {
        let word = |()| PeerWord::Listed(listed.to_vec());
        self.told.tell((), word, following, transport);
    }

    /// As a leader: who is listed no more and can be taken out.
    pub(super) fn listed_no_more(&self, listed: &[u8], consensus: &Consensus) -> Option<u64> {
        let raft = &consensus.node.raft;
        let voters = raft.prs().conf().voters().ids();
        let is_there = |peer: u64| {
            let is_active = raft.prs().get(peer).is_some_and(|its| its.recent_active);
            peer == raft.id || is_active && consensus.has_found(peer)
        };
        let may_go = |member: &u64| {
            let server = server_of(*member);
            let stays = |voter: u64| Stays {
                agrees: voter == raft.id || self.omits(voter, server),
                has_all: is_there(voter) && consensus.has_caught_up(voter),
            };
            let stay: Vec<Stays> =
                voters.iter().filter(|voter| voter != member).map(stays).collect();
            !listed.contains(&server)
                && *member != raft.id
                && !consensus.has_found(*member)
                && goes(&stay)
        };
        consensus.members().into_iter().find(may_go)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YES: Stays = Stays { agrees: true, has_all: true };
    const GONE: Stays = Stays { agrees: true, has_all: false };
    const NO: Stays = Stays { agrees: false, has_all: true };

    #[test]
    fn somebody_goes_where_a_majority_of_those_who_stay_wants_it_and_is_there() {
        for (stay, expected) in [
            (vec![YES, YES], true),
            (vec![YES, NO], false),
            (vec![YES, GONE], false),
            (vec![YES, YES, NO], true),
            (vec![YES, YES, GONE, NO], false),
            (vec![YES, YES, YES, GONE], true),
            (vec![YES], true),
            (vec![], false),
        ] {
            assert_eq!(goes(&stay), expected, "{stay:?}");
        }
    }

    #[test]
    fn whoever_has_said_nothing_lists_everybody() {
        let mut lists = Lists::default();
        assert!(!lists.omits(0x102, 3));
        lists.heard(0x102, vec![1, 2]);
        assert!(lists.omits(0x102, 3) && !lists.omits(0x102, 1));
        lists.lost(0x102);
        assert!(!lists.omits(0x102, 3));
    }
}
