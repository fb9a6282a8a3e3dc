//! The members of an ensemble, and what each change makes of them: nothing else is known here, so
//! that a start can tell from a log what the crate would make of it.

use jute::txn::{Txn, TxnRecord};
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};

use super::{life_of, member_id, server_of};
use crate::engine::decide::request::Chore;
use crate::ensemble::standing::OfLine;
use crate::storage::Members;

/// Members, with all their lives. A seat beyond it is not given, and would be nothing: what a disk
/// can hold is more.
pub(super) const MEMBERS_MAX: usize = 256;

// A change is written down as a transaction that failed: with one of these as its error, where
// ZooKeeper's are negative, and with whom it is about as its session.
const FOLLOW: i32 = 1;
const VOTE: i32 = 2;
const REMOVE: i32 = 3;
const SEAT: i32 = 4;
/// An earlier version knows no such seat, and stops at the code before it takes one.
const SEAT_OF_LIFE: i32 = 7;
/// Since version 7 of what members speak.
const DEMOTE: i32 = 9;

/// A change of the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberChange {
    /// A server gets a life that only follows. Above its number stands the life that its directory
    /// was, if that was taken out.
    Seat(u64),
    /// The same with an id that was counted up, in logs of before lives were numbered by the log;
    /// never proposed.
    Follow(u64),
    /// A member that has followed votes.
    Vote(u64),
    /// A member belongs to the ensemble no more.
    Remove(u64),
    /// A member that has voted only follows.
    Demote(u64),
}

impl MemberChange {
    /// The change that a record of this kind writes down.
    #[must_use]
    pub fn of(record: &TxnRecord<'_>) -> Option<Self> {
        let of = record.header.client_id.cast_unsigned();
        match record.txn {
            Txn::Error(FOLLOW) => Some(Self::Follow(of)),
            Txn::Error(VOTE) => Some(Self::Vote(of)),
            Txn::Error(REMOVE) => Some(Self::Remove(of)),
            Txn::Error(DEMOTE) => Some(Self::Demote(of)),
            Txn::Error(SEAT) => u8::try_from(of).ok().map(|server| Self::Seat(server.into())),
            Txn::Error(SEAT_OF_LIFE) if of > u64::from(u8::MAX) => Some(Self::Seat(of)),
            _ => None,
        }
    }

    /// The record of it, as it is asked for.
    pub(super) fn chore(self) -> Chore {
        let (of, code) = match self {
            Self::Follow(member) => (member, FOLLOW),
            Self::Vote(member) => (member, VOTE),
            Self::Remove(member) => (member, REMOVE),
            Self::Demote(member) => (member, DEMOTE),
            Self::Seat(asks) if asks <= u64::from(u8::MAX) => (asks, SEAT),
            Self::Seat(asks) => (asks, SEAT_OF_LIFE),
        };
        Chore::Remark { of: of.cast_signed(), code }
    }

    /// As the crate wants it, of the entry `index`.
    pub(super) fn to_conf_change(self, index: u64) -> ConfChangeV2 {
        let (change_type, node_id) = match self {
            Self::Seat(asks) => (ConfChangeType::AddLearnerNode, seat_of(asks, index)),
            Self::Follow(member) | Self::Demote(member) => (ConfChangeType::AddLearnerNode, member),
            Self::Vote(member) => (ConfChangeType::AddNode, member),
            Self::Remove(member) => (ConfChangeType::RemoveNode, member),
        };
        let change = ConfChangeSingle { change_type, node_id, ..ConfChangeSingle::default() };
        ConfChangeV2 { changes: vec![change].into(), ..ConfChangeV2::default() }
    }

    /// What this makes of the members, as the entry `index`; `None` if it cannot be, which is the
    /// same for all.
    pub(super) fn applied(self, members: &Members, index: u64) -> Option<Members> {
        let mut members = members.clone();
        let Members { voters, learners, .. } = &mut members;
        // An earlier version kept them as they came.
        voters.sort_unstable();
        learners.sort_unstable();
        let count = voters.len() + learners.len();
        match self {
            Self::Seat(_) | Self::Follow(_) if count >= MEMBERS_MAX => return None,
            // It would lose its vote. A seat's id was another's where that one's was counted up.
            Self::Seat(asks) if voters.contains(&seat_of(asks, index)) => return None,
            Self::Follow(member) if voters.contains(&member) => return None,
            Self::Seat(asks) => insert(learners, seat_of(asks, index)),
            Self::Follow(member) => insert(learners, member),
            Self::Vote(member) if voters.contains(&member) || take(learners, member) => {
                insert(voters, member);
            }
            Self::Vote(_) => return None,
            Self::Remove(member) | Self::Demote(member) if *voters == [member] => return None,
            Self::Remove(member) => {
                take(voters, member);
                take(learners, member);
            }
            Self::Demote(member) if take(voters, member) => insert(learners, member),
            Self::Demote(_) => return None,
        }
        Some(members)
    }
}

#[cfg(test)]
thread_local! {
    /// Lives are not numbered by the log: only with that planted fault.
    pub(super) static LIVES_COUNTED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The member that a server is by the entry `index`.
fn seat_of(asks: u64, index: u64) -> u64 {
    #[cfg(test)]
    let index = if LIVES_COUNTED.get() { super::FIRST_LIFE + 1 } else { index };
    member_id(server_of(asks), index)
}

fn insert(ids: &mut Vec<u64>, id: u64) {
    if let Err(place) = ids.binary_search(&id) {
        ids.insert(place, id);
    }
}

/// Whether it was there.
fn take(ids: &mut Vec<u64>, id: u64) -> bool {
    let place = ids.binary_search(&id);
    place.is_ok_and(|place| ids.remove(place) == id)
}

/// Who belongs to the ensemble, as a member knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownMembers {
    ids: Vec<u64>,
    /// The entry that made them so.
    configured_at: u64,
    /// What this member says of the ensemble with that: who votes, and how far it is itself.
    of: OfLine,
}

impl KnownMembers {
    /// All of one instant.
    pub(crate) const fn new(ids: Vec<u64>, configured_at: u64, of: OfLine) -> Self {
        Self { ids, configured_at, of }
    }

    /// The entry that made them so; 0 for the founders, or where nothing is known yet.
    #[must_use]
    pub const fn configured_at(&self) -> u64 {
        self.configured_at
    }

    /// What the member says of the ensemble to those that ask.
    #[must_use]
    pub const fn of(&self) -> OfLine {
        self.of
    }

    /// Whether a member of this id was there and is no more. Who has joined later than is known
    /// here has not.
    #[must_use]
    pub fn has_removed(&self, id: u64) -> bool {
        life_of(id) <= self.configured_at && !self.ids.contains(&id)
    }

    /// Whether a life of this server is a member; `None` where nothing is known yet.
    #[must_use]
    pub fn has_server(&self, server: u8) -> Option<bool> {
        let is_there = || self.ids.iter().any(|id| server_of(*id) == server);
        (!self.ids.is_empty()).then(is_there)
    }
}

pub(super) fn to_conf_state(members: &Members) -> ConfState {
    ConfState {
        voters: members.voters.clone(),
        learners: members.learners.clone(),
        voters_outgoing: members.voters_outgoing.clone(),
        learners_next: members.learners_next.clone(),
        auto_leave: members.auto_leave,
        ..ConfState::default()
    }
}

pub(super) fn from_conf_state(state: &ConfState) -> Members {
    Members {
        voters: state.voters.clone(),
        learners: state.learners.clone(),
        voters_outgoing: state.voters_outgoing.clone(),
        learners_next: state.learners_next.clone(),
        auto_leave: state.auto_leave,
    }
}

/// The same in ascending order: the crate has sets, whose order is another one each time.
pub(super) fn in_order(state: &ConfState) -> Members {
    let mut members = from_conf_state(state);
    members.voters.sort_unstable();
    members.learners.sort_unstable();
    members.voters_outgoing.sort_unstable();
    members.learners_next.sort_unstable();
    members
}

/// The members after the last change but one of those in a log, and where that stands. `changes`
/// are in their order, each with its index. The last one was proposed by a leader that had applied
/// all before it: so they are final.
pub(super) fn before_last(
    members: &Members,
    configured_at: u64,
    changes: &[(u64, MemberChange)],
) -> Option<(Members, u64)> {
    let (_, earlier) = changes.split_last()?;
    let (last, _) = *earlier.last()?;
    let mut behind = (members.clone(), configured_at);
    for (index, change) in earlier.iter().filter(|(index, _)| *index > configured_at) {
        if let Some(members) = change.applied(&behind.0, *index) {
            behind = (members, *index);
        }
    }
    (last > configured_at).then_some(behind)
}

#[cfg(test)]
mod tests {
    use jute::txn::TxnHeader;
    use proptest::prelude::*;
    use raft::storage::MemStorage;
    use raft::{Config, RawNode};

    use super::*;

    #[test]
    fn who_is_removed_can_be_told_from_who_is_not_known_yet() {
        let ids = vec![0x101, 0x103, 0x902];
        let known =
            |configured_at| KnownMembers::new(ids.clone(), configured_at, OfLine::default());
        for (id, configured_at, is_removed) in [
            (0x101, 40, false),
            // Its server has another life since then, or none.
            (0x102, 40, true),
            (0x104, 40, true),
            (0x902, 40, false),
            (0x2802, 40, true),
            (0x2902, 40, false),
            // As it was founded.
            (0x102, 0, false),
        ] {
            let known = known(configured_at);
            assert_eq!(known.has_removed(id), is_removed, "{id:#x} as of {configured_at}");
        }
    }

    #[test]
    fn a_server_is_a_member_by_any_of_its_lives() {
        let known = KnownMembers::new(vec![0x101, 0x902], 9, OfLine::default());
        assert_eq!(
            [1, 2, 3, 9].map(|server| known.has_server(server)),
            [true, true, false, false].map(Some)
        );
        assert_eq!(KnownMembers::default().has_server(1), None);
    }

    #[test]
    fn a_record_says_by_its_code_whether_a_life_asks_for_a_seat() {
        let record = |of: u64, code| {
            let header = TxnHeader { client_id: of.cast_signed(), cxid: 0, zxid: 1, time: 1 };
            MemberChange::of(&TxnRecord { header, txn: Txn::Error(code), digest: None })
        };
        for (change, expected) in [
            (MemberChange::Seat(2), (2, 4)),
            (MemberChange::Seat(255), (255, 4)),
            (MemberChange::Seat(0x102), (0x102, 7)),
            (MemberChange::Seat(0x602), (0x602, 7)),
            (MemberChange::Vote(0x602), (0x602, 2)),
            (MemberChange::Remove(0x602), (0x602, 3)),
            (MemberChange::Demote(0x602), (0x602, 9)),
        ] {
            let Chore::Remark { of, code } = change.chore() else { panic!("{change:?}") };
            assert_eq!((of, code), expected, "{change:?}");
            assert_eq!(record(of.cast_unsigned(), code), Some(change));
        }
        for (of, code) in [(0x602, 4), (2, 7), (2, 5), (2, 6), (2, 8)] {
            assert_eq!(record(of, code), None, "{of:#x} {code}");
        }
    }

    #[test]
    fn a_seat_takes_no_vote_from_who_has_the_id() {
        let members = Members { voters: vec![0x101, 0x702], ..Members::default() };
        assert_eq!(MemberChange::Seat(2).applied(&members, 7), None);
        // What it was makes no difference.
        assert_eq!(MemberChange::Seat(0x602).applied(&members, 7), None);
        let seated = MemberChange::Seat(0x602).applied(&members, 8).expect("another id");
        assert_eq!((seated.voters, seated.learners), (members.voters, vec![0x802]));
    }

    /// What the crate makes of the same change.
    fn of_crate(members: &Members, change: MemberChange, index: u64) -> Option<Members> {
        let config = Config { id: 0x101, ..Config::default() };
        let store = MemStorage::new_with_conf_state(to_conf_state(members));
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let mut node = RawNode::new(&config, store, &logger).expect("a node");
        let made = node.apply_conf_change(&change.to_conf_change(index)).ok()?;
        Some(in_order(&made))
    }

    fn any_change() -> impl Strategy<Value = MemberChange> {
        let id = || (1..5_u8, 1..9_u64).prop_map(|(server, life)| member_id(server, life));
        prop_oneof![
            (1..5_u8, 0..9_u64)
                .prop_map(|(server, life)| MemberChange::Seat(member_id(server, life))),
            id().prop_map(MemberChange::Follow),
            id().prop_map(MemberChange::Vote),
            id().prop_map(MemberChange::Remove),
            id().prop_map(MemberChange::Demote),
        ]
    }

    proptest! {
        /// Where it is not refused here, the crate makes the same of it, and whoever stays in
        /// neither list twice.
        #[test]
        fn the_crate_makes_the_same_of_every_change(
            changes in prop::collection::vec(any_change(), 1..40),
        ) {
            let mut members = Members { voters: vec![0x101, 0x102, 0x103], ..Members::default() };
            for (index, change) in (2..).zip(changes) {
                let Some(next) = change.applied(&members, index) else { continue };
                let crates = of_crate(&members, change, index);
                prop_assert_eq!(crates.as_ref(), Some(&next), "{:?}", change);
                prop_assert!(!next.voters.is_empty());
                members = next;
            }
        }

        /// Whoever reads a log from anywhere has the same members as who saw each change, up to the
        /// last but one.
        #[test]
        fn members_are_never_two_changes_old(
            changes in prop::collection::vec(any_change(), 1..20),
            known in 0..20_usize,
        ) {
            let first = Members { voters: vec![0x101, 0x102, 0x103], ..Members::default() };
            let changes: Vec<(u64, MemberChange)> = (5..).step_by(3).zip(changes).collect();
            let mut states = vec![(first, 0)];
            for (index, change) in &changes {
                let (members, at) = states.last().expect("one").clone();
                let next = change.applied(&members, *index);
                states.push(next.map_or((members, at), |next| (next, *index)));
            }
            let known = known.min(changes.len());
            let (members, at) = &states[known];
            let found = before_last(members, *at, &changes);
            let (found, _) = found.unwrap_or_else(|| (members.clone(), *at));
            let oldest = changes.len() - 1;
            prop_assert_eq!(&found, &states[known.max(oldest)].0);
        }
    }
}
