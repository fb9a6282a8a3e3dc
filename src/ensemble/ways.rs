//! With which members this one can talk. Each of two speaks over a connection of its own, and one
//! of them may end alone.

use hashbrown::HashSet;

/// One of the two connections with a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Over which the peer is heard.
    Hears,
    /// Over which the peer is told something.
    Speaks,
}

/// Peers that are heard, and those that can be told something.
#[derive(Debug, Default)]
pub(super) struct Ways {
    hears: HashSet<u64>,
    speaks: HashSet<u64>,
}

impl Ways {
    /// One of the two connections has come or gone. Whether both are there, or words may be lost.
    pub(super) fn change(&mut self, peer: u64, way: Way, is_up: bool) -> bool {
        let ways = match way {
            Way::Hears => &mut self.hears,
            Way::Speaks => &mut self.speaks,
        };
        if is_up {
            ways.insert(peer);
        } else {
            ways.remove(&peer);
        }
        self.are_both(peer)
    }

    /// Whether both are there.
    pub(super) fn are_both(&self, peer: u64) -> bool {
        self.hears.contains(&peer) && self.speaks.contains(&peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_found_while_both_connections_are_there() {
        let mut ways = Ways::default();
        for (peer, way, is_up, expected) in [
            (2, Way::Hears, true, false),
            (3, Way::Speaks, true, false),
            (2, Way::Speaks, true, true),
            (3, Way::Speaks, true, false),
            (2, Way::Hears, false, false),
            (2, Way::Hears, true, true),
            (2, Way::Speaks, false, false),
            (2, Way::Hears, false, false),
        ] {
            assert_eq!(ways.change(peer, way, is_up), expected, "{peer} {way:?} {is_up}");
        }
    }
}
