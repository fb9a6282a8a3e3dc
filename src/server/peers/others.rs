//! Who the other servers are, as the list has it now: whom this one dials, and whom it hears.
//!
//! Owns why each is one, and no connection: a peer that goes is told so, and whoever keeps its
//! connections ends them.

use std::sync::Arc;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use parking_lot::Mutex;

use super::Peer;
use super::address::Address;
use crate::ensemble::KnownMembers;
use crate::list::Servers;

/// What makes a server a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Because {
    /// The list has it.
    Listed,
    /// It has left the list, and is a member as long as the configuration has it.
    Member,
}

/// A server that is a peer, or was one: its task goes on, so that it has one at a time however
/// often it comes and goes.
#[derive(Debug)]
struct Other {
    peer: Arc<Peer>,
    /// `None` for one that is a peer no more, which has no address then.
    because: Option<Because>,
}

#[derive(Debug, Default)]
struct State {
    servers: HashMap<u8, Other>,
    /// Where this server is reached, by its own line of the list.
    own_address: Option<Address>,
    /// Those that come from here on are spoken to at once.
    is_spoken: bool,
}

/// The other servers.
#[derive(Debug)]
pub(super) struct Others {
    /// This server, which is none of them.
    own: u8,
    state: Mutex<State>,
}

/// What a change of them has brought.
#[derive(Debug, Default)]
pub(super) struct Changed {
    /// Those that are to be spoken to from here on.
    pub(super) come: Vec<Arc<Peer>>,
    /// Those that are no peers any more.
    pub(super) gone: Vec<u8>,
}

impl Others {
    /// Those of a list, of which this server is `own`.
    pub(super) fn new(own: u8, list: &Servers) -> Self {
        let others = Self { own, state: Mutex::default() };
        others.set_list(list, &KnownMembers::default());
        others
    }

    /// The peer of this number.
    pub(super) fn get(&self, server: u8) -> Option<Arc<Peer>> {
        let state = self.state.lock();
        let other = state.servers.get(&server).filter(|other| other.because.is_some());
        other.map(|other| Arc::clone(&other.peer))
    }

    /// Where the others are to reach this server.
    pub(super) fn own_address(&self) -> Option<Address> {
        self.state.lock().own_address.clone()
    }

    /// All that are there now.
    pub(super) fn all(&self) -> Vec<Arc<Peer>> {
        let state = self.state.lock();
        let others = state.servers.values().filter(|other| other.because.is_some());
        others.map(|other| Arc::clone(&other.peer)).collect()
    }

    /// Those to speak to, once: the ones that come later are told of as they come.
    pub(super) fn begin_to_speak(&self) -> Vec<Arc<Peer>> {
        let mut state = self.state.lock();
        state.is_spoken = true;
        state.servers.values().map(|other| Arc::clone(&other.peer)).collect()
    }

    /// From here on this is the list.
    pub(super) fn set_list(&self, list: &Servers, known: &KnownMembers) -> Changed {
        let mut state = self.state.lock();
        let mut changed = Changed::default();
        for (id, server) in list {
            let address = Address::of(server);
            match *id == self.own {
                true => state.own_address = Some(address),
                false => state.take(*id, address, Because::Listed, &mut changed),
            }
        }
        let is_left = |(id, other): &(&u8, &mut Other)| {
            list.get(**id).is_none() && other.because == Some(Because::Listed)
        };
        for (_, other) in state.servers.iter_mut().filter(is_left) {
            other.because = Some(Because::Member);
        }
        state.let_go(known, &mut changed);
        changed
    }

    /// These are the members now.
    pub(super) fn know(&self, known: &KnownMembers) -> Changed {
        let mut changed = Changed::default();
        self.state.lock().let_go(known, &mut changed);
        changed
    }
}

impl State {
    /// Has a server as a peer that is reached there.
    fn take(&mut self, id: u8, address: Address, because: Because, changed: &mut Changed) {
        let other = match self.servers.entry(id) {
            Entry::Occupied(other) => other.into_mut(),
            Entry::Vacant(place) => {
                let peer = Arc::new(Peer::new(id));
                if self.is_spoken {
                    changed.come.push(Arc::clone(&peer));
                }
                place.insert(Other { peer, because: None })
            }
        };
        other.because = Some(because);
        other.peer.is_reached_at(Some(address));
    }

    /// Those that have left the list and are no members are no peers any more.
    fn let_go(&mut self, known: &KnownMembers, changed: &mut Changed) {
        for (id, other) in &mut self.servers {
            if other.because == Some(Because::Member) && known.has_server(*id) == Some(false) {
                other.because = None;
                other.peer.is_reached_at(None);
                changed.gone.push(*id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ensemble::member_id;
    use crate::ensemble::standing::OfLine;
    use crate::list::ServerList;

    fn list(ids: &[u8]) -> Servers {
        let lines = ids.iter().map(|id| format!("server.{id}=zk{id}:2888:3888\n"));
        ServerList::parse(&lines.collect::<String>()).expect("a list").servers
    }

    fn known(servers: &[u8]) -> KnownMembers {
        let ids = servers.iter().map(|server| member_id(*server, 9)).collect();
        KnownMembers::new(ids, 40, OfLine::default())
    }

    fn ids(peers: &[Arc<Peer>]) -> Vec<u8> {
        let mut ids: Vec<u8> = peers.iter().map(|peer| peer.server).collect();
        ids.sort_unstable();
        ids
    }

    /// Before the members are known, none of those that zoo.cfg names can be missed.
    #[test]
    fn those_of_zoo_cfg_are_peers_until_there_are_a_list_and_members_without_them() {
        let others = Others::new(1, &list(&[1, 2, 3, 4]));
        assert_eq!(ids(&others.all()), [2, 3, 4]);
        assert_eq!(ids(&others.begin_to_speak()), [2, 3, 4]);
        let changed = others.set_list(&list(&[1, 3, 5]), &KnownMembers::default());
        assert_eq!((ids(&changed.come), &changed.gone[..]), (vec![5], &[][..]));
        assert_eq!(ids(&others.all()), [2, 3, 4, 5]);
        let changed = others.know(&known(&[1, 2, 3]));
        assert_eq!((ids(&changed.come), &changed.gone[..]), (vec![], &[4][..]));
        assert_eq!(ids(&others.all()), [2, 3, 5]);
        assert_eq!(others.know(&known(&[1, 3])).gone, [2]);
        // It is in the list, and no member yet.
        assert_eq!(ids(&others.all()), [3, 5]);
        assert!(others.get(2).is_none() && others.get(1).is_none());
    }

    #[test]
    fn one_that_comes_back_is_the_same_peer_which_is_spoken_to_already() {
        let others = Others::new(1, &list(&[1, 2]));
        let two = others.get(2).expect("a peer");
        let alone = known(&[1]);
        assert_eq!(others.set_list(&list(&[1]), &alone).gone, [2]);
        assert_eq!(two.address(), None);
        assert_eq!(ids(&others.begin_to_speak()), [2], "it may come back");
        let changed = others.set_list(&list(&[1, 2]), &alone);
        assert!(changed.come.is_empty() && changed.gone.is_empty());
        assert!(Arc::ptr_eq(&two, &others.get(2).expect("a peer")));
        assert_eq!(two.address().expect("an address").to_string(), "zk2:2888");
    }
}
