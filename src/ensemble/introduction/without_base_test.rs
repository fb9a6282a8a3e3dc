use super::*;
use crate::ensemble::raft::{FIRST_LIFE, KnownMembers, member_id, of_line};
use crate::ensemble::standing::{Base, OfLine};
use crate::storage::{Members, RaftState};

const VOTERS: [u8; 3] = [1, 2, 3];
const LIMIT: Duration = Duration::from_secs(1);

/// An ensemble of servers 1 to 3 that has begun.
fn left(lacks_base: bool) -> Left {
    let voters = VOTERS.into_iter().collect();
    let of = OfLine { line: 7, generation: 1, term: 6, lacks_base, voters, ..OfLine::default() };
    Left { ensemble: 7, of }
}

/// A member of it.
fn member(server: u8, lacks_base: bool) -> (u8, Standing) {
    let (id, asks, of) = (member_id(server, FIRST_LIFE), Vec::new(), left(lacks_base).of);
    (server, Standing::Member { id, ensemble: 7, asks, has_begun: true, configured_at: 0, of })
}

fn empty(server: u8) -> (u8, Standing) {
    let holding = Holding { begins: Begins::WithAll, ..Holding::default() };
    (server, Standing::Before(holding))
}

/// What it does, having heard this for longer than `initLimit`, and what it says.
fn heard(own: u8, next: Next, others: &[(u8, Standing)]) -> (Deed, String) {
    let words = ("/data".to_owned(), "ferrokeeper data leave /data".to_owned());
    let mut coming = Coming::new(own, VOTERS.into(), LIMIT, words);
    let processes = others.iter().map(|(server, _)| (*server, ProcessId(1))).collect();
    let standings = others.iter().cloned().collect();
    let heard = Heard { standings, processes, ..Heard::default() };
    let mut introduction = Introduction::Reading;
    let (deed, text) = coming.heard(&mut introduction, None, next, &heard, 2 * LIMIT);
    (deed, text.expect("it says so"))
}

/// It may have what was acknowledged, and be the only one that has.
#[test]
fn data_does_not_end_beside_members_to_whom_nothing_has_come() {
    let base = Base { epoch: 3, zxid: 3 << 32 | 9, accepted: 3 };
    let (begins, detached) = (Begins::WithAll, Some(7));
    let next = || Next::Comes(Holding { base, begins, detached, ..Holding::default() });
    let ends = Deed::Ends { zxid: base.zxid, has_left: false };
    for (others, ended) in [
        ([member(2, true), empty(3)], false),
        ([member(2, true), member(3, true)], false),
        // Who left, as each of two survivors is to, before the other one did.
        ([member(2, false), empty(3)], false),
        // It has not come to a majority yet.
        ([member(2, true), member(3, false)], false),
        ([member(2, false), member(3, false)], true),
    ] {
        let (deed, text) = heard(1, next(), &others);
        assert_eq!(deed == ends, ended, "{others:?}");
        if !ended {
            assert_eq!(deed, Deed::Waits, "{others:?}");
            let loads = others.contains(&member(3, false));
            assert_eq!(text.contains("run `ferrokeeper data leave`"), !loads, "{text}");
            assert_eq!(text.contains("too few of its servers have its data"), loads, "{text}");
        }
    }
}

/// Nobody gives it a seat: its line is the one of the others.
#[test]
fn who_awaits_a_founder_says_that_nothing_has_come_to_anybody() {
    let next = || Next::Awaits(member_id(3, FIRST_LIFE), left(true), "waits".to_owned());
    let (_, text) = heard(1, next(), &[member(2, true), empty(3)]);
    let both = "stop servers 1 and 2, run `ferrokeeper data leave` on the dataDir of both";
    assert!(text.contains(both) && !text.contains("you do not have to do anything"), "{text}");
    let (_, text) = heard(1, next(), &[member(2, false), empty(3)]);
    assert!(text.contains("you do not have to do anything"), "{text}");
}

/// What a member says of itself, by what its disk tells.
#[test]
fn a_member_says_whether_what_its_ensemble_was_founded_on_has_come() {
    let base = 5;
    let members = Members { voters: vec![member_id(1, FIRST_LIFE)], ..Members::default() };
    let state = RaftState {
        id: 0x101,
        ensemble: 7,
        term: 6,
        founded_in: 5,
        base,
        members,
        ..RaftState::default()
    };
    let lacks = |its: &Introduction| match its.standing() {
        Some(Standing::Member { of, .. }) => (of.lacks_base, its.without_base().is_some()),
        other => panic!("{other:?}"),
    };
    for (state, last, lacking) in [
        (RaftState { clears: true, ..state.clone() }, 0, true),
        (state.clone(), 0, true),
        // A founder knows what it founded on to be final, and whoever has it.
        (RaftState { commit: base, ..state.clone() }, 0, false),
        // It was killed when it had come.
        (RaftState { clears: true, ..state.clone() }, 6 << 32, false),
        (RaftState { base: 0, ..state.clone() }, 0, false),
        // Who was given a seat has no base: it lacks what was there by then.
        (
            RaftState { founded_in: 0, base: 0, clears: true, configured_at: 40, ..state.clone() },
            0,
            true,
        ),
        (RaftState { founded_in: 0, base: 0, configured_at: 40, ..state.clone() }, 0, true),
        (
            RaftState { founded_in: 0, base: 0, configured_at: 40, commit: 9, ..state.clone() },
            0,
            false,
        ),
        (RaftState { founded_in: 0, base: 0, configured_at: 40, ..state.clone() }, 6 << 32, false),
    ] {
        let mut introduction = Introduction::of_member(&state, last);
        assert_eq!(lacks(&introduction), (lacking, lacking), "{state:?}");
        introduction.has_base();
        assert_eq!(lacks(&introduction), (false, false), "{state:?}");
    }
    // As one that takes part says it.
    let introduction = Introduction::of_member(&state, 0);
    let own = introduction.without_base().expect("nothing has come");
    let others = [member(2, true)].into_iter().collect();
    let text = without_any_base(1, own, &VOTERS, &others).expect("nobody has it");
    assert!(text.contains("Start server 3") && text.contains("stop servers 1 and 2"), "{text}");
}

/// A member of an ensemble that had five voters when it was started, and has three by the entry 50.
fn shrunk(server: u8) -> (u8, Standing) {
    let ids = |count: u8| (1..=count).map(|server| member_id(server, FIRST_LIFE)).collect();
    let of = |count: u8| Members { voters: ids(count), ..Members::default() };
    let state = RaftState {
        id: member_id(server, FIRST_LIFE),
        ensemble: 7,
        line: 7,
        generation: 1,
        term: 6,
        founded_in: 5,
        members: of(5),
        ..RaftState::default()
    };
    let mut introduction = Introduction::of_member(&state, 6 << 32 | 9);
    let state = RaftState { term: 8, members: of(3), configured_at: 50, ..state };
    let now = of_line(&state, 8 << 32 | 4).of;
    introduction.knows(&KnownMembers::new(ids(3), 50, now));
    (server, introduction.standing().expect("it says so"))
}

#[test]
fn a_member_says_of_its_ensemble_what_it_knows_now() {
    let (_, standing) = shrunk(1);
    let Standing::Member { of, configured_at, .. } = standing else { panic!("{standing:?}") };
    assert_eq!((configured_at, of.voters), (50, VOTERS.into_iter().collect()));
    assert_eq!((of.term, of.last), (8, 8 << 32 | 4));
}

#[test]
fn data_ends_beside_a_majority_of_voters_that_were_more_when_these_were_started() {
    let base = Base { epoch: 3, zxid: 3 << 32 | 9, accepted: 3 };
    let next = Next::Comes(Holding { base, begins: Begins::WithAll, ..Holding::default() });
    let (deed, text) = heard(3, next, &[shrunk(1), shrunk(2)]);
    assert_eq!(deed, Deed::Ends { zxid: base.zxid, has_left: false }, "{text}");
}

/// Where all have answered and none has it, the founder's directory is lost: before the ensemble
/// has begun as well.
#[test]
fn who_gets_no_seat_of_members_without_a_base_says_that_they_are_to_leave() {
    let voters = [1, 2, 3, 4, 5];
    let member = |server: u8, lacks_base: bool| {
        let all = voters.into_iter().collect();
        let of = OfLine { held: true, lacks_base, voters: all, ..left(lacks_base).of };
        let (id, asks, ensemble) = (member_id(server, FIRST_LIFE), Vec::new(), 7);
        (server, Standing::Member { id, ensemble, asks, has_begun: false, configured_at: 0, of })
    };
    let told = |others: Vec<(u8, Standing)>| {
        let others = others.into_iter().collect();
        let holding = Holding::default();
        Round { own: 5, holding, voters: &voters, others: &others }.waits_for(true, "/data")
    };
    let all = |has_it: u8| (1..5).map(|server| member(server, server != has_it)).collect();
    let text = told(all(0));
    assert!(
        text.contains(
            "servers 1, 2, 3 and 4 never received the data that the ensemble was founded on, and no"
        ),
        "{text}"
    );
    assert!(text.contains("are lost for good, stop servers 1, 2, 3 and 4, run"), "{text}");
    // It is there, or may be with who is silent.
    for others in [all(2), (1..4).map(|server| member(server, true)).collect()] {
        let text = told(others);
        assert!(!text.contains("data leave"), "{text}");
    }
}
