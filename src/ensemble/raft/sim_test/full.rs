//! An ensemble with as many members as it can have.

use std::sync::Arc;

use jute::txn::TxnRecord;

use super::super::super::configuration::{MEMBERS_MAX, MemberChange};
use super::connection::Seen;
use super::post::Post;
use super::*;
use crate::engine::database::{Database, Rules};
use crate::engine::time::{Monotonic, Now, WallClock};
use crate::ensemble::founding::{Applicant, LastRecord};
use crate::ensemble::raft::{FIRST_LIFE, Prospect, fixture, member_id};
use crate::ensemble::replica::Replica;
use crate::message::told::ids_told;
use crate::storage::sim::SimDisk;
use crate::storage::{Members, RaftState, RaftStateFile};

const NOW: Now = Now { monotonic: Monotonic(0), wall: WallClock(0) };
/// These have two lives each.
const TWICE: std::ops::RangeInclusive<u8> = 2..=128;

/// The only voter, which leads. All others follow, and are not there.
struct Alone {
    member: Member<Post>,
    writer: DiskWriter,
}

impl Alone {
    /// With one member fewer than there can be.
    fn all_but_full() -> Self {
        let own = member_id(1, FIRST_LIFE);
        let lives = |server| [FIRST_LIFE, FIRST_LIFE + 1].map(|life| member_id(server, life));
        let mut learners: Vec<u64> = TWICE.flat_map(lives).collect();
        learners.sort_unstable();
        assert_eq!(learners.len() + 2, MEMBERS_MAX);
        let members = Members { voters: vec![own], learners, ..Members::default() };
        let first = RaftState { id: own, members, ..RaftState::default() };
        let directory = Arc::new(fixture::directory(&SimDisk::default()));
        RaftStateFile::create(&directory, &first, None).expect("creates");
        let how = fixture::ensemble(4096, true);
        let started = how.start(directory).expect("starts");
        let replica = Arc::new(Replica::new(Database::new(1, Rules::default())));
        let (clients, post) = (Arc::new(Seen::default()), Post::new(Flaw::None));
        let (member, writer) =
            Member::new(how, started, replica, clients, post, 500).expect("a member");
        let mut alone = Self { member, writer };
        while !alone.member.takes_requests() {
            alone.member.tick();
            alone.go_on();
        }
        alone
    }

    /// Until nothing is left to do.
    fn go_on(&mut self) {
        loop {
            self.member.turn(NOW).expect("a turn");
            self.member.transport().sent.clear();
            let writes = self.member.consensus_mut().take_writes();
            if writes.is_empty() {
                return;
            }
            let written = self.writer.write(writes).expect("writes");
            self.member.persisted(written).expect("durable");
        }
    }

    fn ask(&mut self, server: u8) -> Prospect {
        self.ask_with(server, None)
    }

    fn ask_with(&mut self, server: u8, ends_with: Option<LastRecord>) -> Prospect {
        let applicant = Applicant { server, was: None, ends_with };
        let prospect = self.member.prepare_seat(applicant, NOW).expect("goes on");
        self.go_on();
        prospect
    }

    fn is_seated(&mut self, server: u8) -> bool {
        match self.ask(server) {
            Prospect::SeatAbove(above) => {
                self.member.consensus().take_seat(server, above).is_some()
            }
            _ => false,
        }
    }
}

#[test]
fn a_seat_beyond_the_most_members_is_refused_until_some_have_gone() {
    let mut alone = Alone::all_but_full();
    assert!(alone.is_seated(200), "the last place");
    assert_eq!(alone.member.consensus().members().len(), MEMBERS_MAX);
    let last = alone.member.consensus().last_index();
    for server in [201, 202, 201] {
        assert_eq!(alone.ask(server), Prospect::Full);
    }
    assert_eq!(alone.member.consensus().last_index(), last, "nothing was proposed");
    assert!(alone.member.takes_requests());
    // Whoever has one that it does not need gets another in its place, and so does not need more.
    assert_eq!(alone.ask(*TWICE.start()), Prospect::Changing);
    assert_eq!(alone.member.consensus().members().len(), MEMBERS_MAX - 1);
    assert!(alone.is_seated(201), "the place of who has gone");
    assert_eq!(alone.ask(202), Prospect::Full);
    assert!(alone.member.takes_requests());
}

/// ZooKeeper went on with what it holds, and another ensemble may have had the same zxids: what
/// ends with a record that is not here does not go aside.
#[test]
fn who_left_has_a_seat_only_where_its_last_record_is_final() {
    let mut alone = Alone::all_but_full();
    let last = alone.member.consensus().last_index();
    let entries = alone.member.consensus.node.store().log.entries(last, last + 1, u64::MAX);
    let entry = entries.expect("reads").expect("is there").remove(0);
    let there = LastRecord::of(TxnRecord::decode(&entry.payload).expect("a record").0);
    assert_eq!(there.zxid, entry.zxid);
    for other in [
        LastRecord { checksum: !there.checksum, ..there },
        LastRecord { time: there.time + 1, ..there },
        LastRecord { zxid: there.zxid + 1, ..there },
        LastRecord { zxid: there.zxid + (1 << 32), ..there },
        LastRecord { zxid: there.zxid - 1, ..there },
        LastRecord { zxid: 0, ..there },
    ] {
        assert_eq!(alone.ask_with(200, Some(other)), Prospect::Lacking, "{other:?}");
    }
    assert_eq!(alone.member.consensus().last_index(), last, "nothing was proposed");
    assert_eq!(alone.ask_with(200, Some(there)), Prospect::SeatAbove(last));
}

/// No leader proposes it. Where one did, all pass over it alike.
#[test]
fn a_committed_seat_beyond_the_most_members_is_passed_over_and_ends_nobody() {
    let mut alone = Alone::all_but_full();
    assert!(alone.is_seated(200));
    let (members, last) =
        (alone.member.consensus().members(), alone.member.consensus().last_index());
    let take_in = |alone: &mut Alone| {
        alone.member.change(MemberChange::Seat(201), NOW).expect("goes on");
        alone.go_on();
    };
    let ((), ids) = ids_told(|| take_in(&mut alone));
    assert_eq!(ids, ["FK0409"]);
    assert_eq!(
        (alone.member.consensus().members(), alone.member.consensus().last_index()),
        (members, last + 1)
    );
    assert_eq!(alone.member.consensus().applied(), last + 1);
    assert!(alone.member.takes_requests());
    // Its promises are those of a member that can start again, and take others in.
    assert_eq!(alone.writer.promises.get().members.learners.len(), MEMBERS_MAX - 1);
    let gone = member_id(*TWICE.start(), FIRST_LIFE);
    alone.member.change(MemberChange::Remove(gone), NOW).expect("goes on");
    alone.go_on();
    assert!(alone.is_seated(201));
}
