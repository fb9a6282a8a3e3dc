//! Who the other servers are, as the list has it now: whom this one dials, and whom it hears.
//!
//! Owns why each is one, and no connection: a peer that goes is told so, and whoever keeps its
//! connections ends them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use parking_lot::Mutex;

use super::Peer;
use super::address::Address;
use crate::ensemble::KnownMembers;
use crate::list::Servers;
use crate::server::descriptors::UNLISTED_MAX;

/// How long a server that has only called may say nothing and not be reached until it is forgotten.
const UNLISTED_KEPT: Duration = Duration::from_secs(60);

/// What makes a server a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Because {
    /// The list has it.
    Listed,
    /// It has left the list, and is a member as long as the configuration has it.
    Member,
    /// It has called, last at this time.
    Called(Instant),
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

    /// Whether the list has this server.
    pub(super) fn is_listed(&self, server: u8) -> bool {
        self.state.lock().because(server) == Some(Because::Listed)
    }

    /// Whether the ensemble has this server: what it says of this process counts.
    pub(super) fn has_a_say(&self, server: u8) -> bool {
        matches!(self.state.lock().because(server), Some(Because::Listed | Because::Member))
    }

    /// Those to ask what they are: all that have a say now.
    pub(super) fn to_ask(&self) -> Vec<Arc<Peer>> {
        let state = self.state.lock();
        let has_a_say =
            |other: &&Other| matches!(other.because, Some(Because::Listed | Because::Member));
        let others = state.servers.values().filter(has_a_say);
        others.map(|other| Arc::clone(&other.peer)).collect()
    }

    /// Where a caller is reached: as the list says, or else as it says itself.
    pub(super) fn place_of(&self, server: u8, said: Option<Address>) -> Option<Address> {
        let state = self.state.lock();
        let known = state.servers.get(&server).and_then(|other| other.peer.address());
        match state.because(server) {
            Some(Because::Listed) => known,
            _ => said.or(known),
        }
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

    /// A server that the list may not have has called, and says where it is reached, if that is to
    /// count. `None` if it cannot be a peer, because there are too many like it.
    pub(super) fn meet(
        &self,
        server: u8,
        address: Option<Address>,
        is_heard: impl Fn(u8) -> bool,
        now: Instant,
    ) -> Option<Changed> {
        let mut state = self.state.lock();
        let mut changed = Changed::default();
        let because = match state.because(server) {
            Some(Because::Listed) => return Some(changed),
            Some(Because::Member) => Because::Member,
            Some(Because::Called(_)) => Because::Called(now),
            None if address.is_none() => return Some(changed),
            None => {
                state.make_room(is_heard, &mut changed)?;
                Because::Called(now)
            }
        };
        let known = state.servers.get(&server).and_then(|other| other.peer.address());
        if let Some(address) = address.or(known) {
            state.take(server, address, because, &mut changed);
        }
        Some(changed)
    }

    /// A server was not reached, and says nothing: it is a peer no more if all that it has done is
    /// to have called, long ago.
    pub(super) fn forget_unlisted(&self, server: u8, now: Instant) -> Changed {
        let mut state = self.state.lock();
        let mut changed = Changed::default();
        if let Some(Because::Called(at)) = state.because(server)
            && now.saturating_duration_since(at) >= UNLISTED_KEPT
        {
            state.let_one_go(server, &mut changed);
        }
        changed
    }
}

impl State {
    fn because(&self, server: u8) -> Option<Because> {
        self.servers.get(&server)?.because
    }

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

    /// Those that have left the list and are no members are no peers any more. Who has called and
    /// has become a member is one as long as it is that.
    fn let_go(&mut self, known: &KnownMembers, changed: &mut Changed) {
        let mut gone = Vec::new();
        for (id, other) in &mut self.servers {
            match (other.because, known.has_server(*id)) {
                (Some(Because::Member), Some(false)) => gone.push(*id),
                (Some(Because::Called(_)), Some(true)) => other.because = Some(Because::Member),
                _ => {}
            }
        }
        gone.into_iter().for_each(|server| self.let_one_go(server, changed));
    }

    fn let_one_go(&mut self, server: u8, changed: &mut Changed) {
        if let Some(other) = self.servers.get_mut(&server) {
            other.because = None;
            other.peer.is_reached_at(None);
            changed.gone.push(server);
        }
    }

    /// Room for one more that has called: the one without a connection goes that has not called for
    /// longest. `None` if all have one.
    fn make_room(&mut self, is_heard: impl Fn(u8) -> bool, changed: &mut Changed) -> Option<()> {
        let called = |(server, other): (&u8, &Other)| match other.because {
            Some(Because::Called(at)) => Some((at, *server)),
            _ => None,
        };
        if self.servers.iter().filter_map(called).count() < UNLISTED_MAX {
            return Some(());
        }
        let is_connected = |(server, other): &(&u8, &Other)| {
            other.peer.process.lock().is_some() || is_heard(**server)
        };
        let without = self.servers.iter().filter(|other| !is_connected(other));
        let (_, longest) = without.filter_map(called).min()?;
        self.let_one_go(longest, changed);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ensemble::callers::ProcessId;
    use crate::ensemble::member_id;
    use crate::ensemble::standing::OfLine;
    use crate::list::ServerList;
    use crate::list::host::Host;

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
        assert_eq!(ids(&others.to_ask()), [2, 3, 4]);
        assert_eq!(ids(&others.begin_to_speak()), [2, 3, 4]);
        let changed = others.set_list(&list(&[1, 3, 5]), &KnownMembers::default());
        assert_eq!((ids(&changed.come), &changed.gone[..]), (vec![5], &[][..]));
        assert_eq!(ids(&others.to_ask()), [2, 3, 4, 5]);
        let changed = others.know(&known(&[1, 2, 3]));
        assert_eq!((ids(&changed.come), &changed.gone[..]), (vec![], &[4][..]));
        assert_eq!(ids(&others.to_ask()), [2, 3, 5]);
        assert_eq!(others.know(&known(&[1, 3])).gone, [2]);
        // It is in the list, and no member yet.
        assert_eq!(ids(&others.to_ask()), [3, 5]);
        assert!(others.get(2).is_none() && others.get(1).is_none());
    }

    fn at(port: u16) -> Option<Address> {
        Some(Address { host: Host::of("joins").expect("a host"), port })
    }

    const NOBODY: fn(u8) -> bool = |_| false;

    #[test]
    fn who_calls_is_a_peer_where_it_says_and_who_is_listed_where_the_list_says() {
        let (others, now) = (Others::new(1, &list(&[1, 2])), Instant::now());
        others.begin_to_speak();
        assert_eq!(others.own_address().expect("a line").to_string(), "zk1:2888");
        let zk2 = others.get(2).expect("a peer").address();
        assert_eq!(others.place_of(2, at(9)), zk2);
        assert!(others.meet(2, at(9), NOBODY, now).expect("room").come.is_empty());
        assert_eq!(others.get(2).expect("a peer").address(), zk2);

        assert_eq!((others.place_of(4, None), others.place_of(4, at(4))), (None, at(4)));
        assert!(others.meet(4, None, NOBODY, now).expect("room").come.is_empty());
        assert_eq!(ids(&others.meet(4, at(4), NOBODY, now).expect("room").come), [4]);
        let four = others.get(4).expect("a peer");
        // It is moved; and what does not count, or is not said, changes nothing.
        for (said, is_reached) in [(at(4), at(4)), (at(5), at(5)), (None, at(5))] {
            assert!(others.meet(4, said, NOBODY, now).expect("room").come.is_empty());
            assert_eq!(four.address(), is_reached);
        }
        assert_eq!(ids(&others.to_ask()), [2]);
        assert!(!others.has_a_say(4) && others.has_a_say(2) && !others.is_listed(4));
        // Then it has a seat, and loses it.
        others.know(&known(&[1, 2, 4]));
        assert!(others.has_a_say(4) && !others.is_listed(4));
        others.meet(4, at(6), NOBODY, now).expect("room");
        assert_eq!(four.address(), at(6));
        assert_eq!(others.know(&known(&[1, 2])).gone, [4]);
        assert_eq!((others.get(4).is_none(), four.address()), (true, None));
        // Or the list gets it.
        others.meet(4, at(4), NOBODY, now).expect("room");
        others.set_list(&list(&[1, 2, 4]), &known(&[1, 2]));
        assert_eq!(four.address().expect("an address").to_string(), "zk4:2888");
    }

    #[test]
    fn of_those_that_have_only_called_there_are_so_many_and_none_for_ever() {
        let (others, now) = (Others::new(1, &list(&[1, 2])), Instant::now());
        let last = u8::try_from(UNLISTED_MAX).expect("few") + 3;
        let later = |number: u8| now + Duration::from_secs(number.into());
        for number in 3..last {
            let met = others.meet(number, at(number.into()), NOBODY, later(number));
            assert!(met.expect("room").gone.is_empty());
        }
        // 3 calls again, 4 is spoken to, and 5 is heard: 6 has not been there for longest.
        others.meet(3, None, NOBODY, later(last)).expect("it is there");
        *others.get(4).expect("a peer").process.lock() = Some(ProcessId(4));
        let met = others.meet(200, at(200), |server| server == 5, later(last)).expect("room");
        assert_eq!(met.gone, [6]);
        assert!(others.get(6).is_none() && others.get(200).is_some());
        assert!(others.meet(201, at(201), |_| true, later(last)).is_none());
        // Whoever has a say takes no room of theirs.
        others.know(&known(&[1, 2, 3]));
        assert!(others.meet(201, at(201), |_| true, later(last)).expect("room").gone.is_empty());

        assert!(others.forget_unlisted(7, later(7 + 59)).gone.is_empty());
        assert_eq!(others.forget_unlisted(7, later(7 + 60)).gone, [7]);
        for stays in [1, 2, 3, 7] {
            assert!(others.forget_unlisted(stays, later(250)).gone.is_empty(), "{stays}");
        }
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
