//! Who counts for nothing in a majority: members that do not vote, and what servers hold that do
//! not.

use std::collections::BTreeMap;

use super::*;
use crate::ensemble::{FIRST_LIFE, member_id};

const VOTERS: [u8; 3] = [1, 2, 3];
const ENSEMBLE: u64 = 7;

fn of(lacks_vote: bool) -> OfLine {
    let voters = VOTERS.into_iter().collect();
    OfLine { line: ENSEMBLE, generation: 1, term: 6, lacks_vote, voters, ..OfLine::default() }
}

/// A life of a server, which votes or has come back with an empty directory.
fn member(server: u8, lacks_vote: bool) -> (u8, Standing) {
    let life = if lacks_vote { FIRST_LIFE + 5 } else { FIRST_LIFE };
    let (id, asks, has_begun, configured_at) = (member_id(server, life), Vec::new(), true, 9);
    let of = of(lacks_vote);
    (server, Standing::Member { id, ensemble: ENSEMBLE, asks, has_begun, configured_at, of })
}

fn holding(zxid: i64) -> Holding {
    let base = Base { epoch: zxid >> 32, zxid, accepted: zxid >> 32 };
    Holding { base, begins: Begins::WithAll, ..Holding::default() }
}

fn before(server: u8, zxid: i64) -> (u8, Standing) {
    (server, Standing::Before(holding(zxid)))
}

#[test]
fn a_member_that_has_come_back_is_no_part_of_a_majority_before_it_votes() {
    let lost = |lacks_vote: bool, others: Vec<(u8, Standing)>| {
        let others = others.into_iter().collect();
        let left = Left { ensemble: ENSEMBLE, of: of(lacks_vote) };
        Returning { own: 3, left, asks: None, voters: &VOTERS, others: &others }.lost_majority()
    };
    // Server 1 has come back, and then the disk of server 2 is lost.
    for (own, other) in [(false, true), (true, false), (true, true)] {
        let text = lost(own, vec![member(1, other), before(2, 0)]).expect("nobody can lead");
        let named = if own { "3" } else { "1" };
        assert!(text.contains("not vote") && text.contains(named), "{text}");
        assert!(text.contains("server 2 answers with an empty directory"), "{text}");
        let leave = "stop servers 1 and 3, run `ferrokeeper data leave`";
        assert!(text.contains(leave), "{text}");
    }
    assert_eq!(lost(false, vec![member(1, false), before(2, 0)]), None);
    assert_eq!(lost(true, vec![member(1, false), member(2, false)]), None);
}

#[test]
fn nothing_is_refused_beside_members_of_which_a_majority_does_not_vote() {
    for (lacks_vote, is_out) in [(true, false), (false, true)] {
        let others = BTreeMap::from([member(1, lacks_vote), member(3, false)]);
        let data = holding(0x9_0000_0003);
        let round = Round { own: 2, holding: data, voters: &VOTERS, others: &others };
        assert_eq!(round.is_out_of_ensemble(), is_out);
        let text = round.waits_for(true, "/data");
        assert_eq!(text.contains("A majority of that ensemble answers"), is_out, "{text}");
        let empty = Round { holding: holding(0), ..round }.waits_for(true, "/data");
        assert_eq!(empty.contains("A majority of that ensemble answers"), is_out, "{empty}");
        assert_eq!(empty.contains("Server 1 does not vote"), lacks_vote, "{empty}");
    }
}

/// An observer has only what was acknowledged: where it has more than all that vote, these have
/// lost it.
#[test]
fn nobody_begins_beside_a_server_without_a_vote_that_has_more_than_all_that_vote() {
    let detached = Holding { detached: Some(ENSEMBLE), ..holding(0x5_0000_0007) };
    let left = Left { ensemble: ENSEMBLE, of: OfLine { last: 0x2_0000_0001, ..of(false) } };
    let went_on = Holding { left: Some(left), ..holding(0x5_0000_0007) };
    for observer in [holding(0x5_0000_0007), detached, went_on] {
        for (voters, may_begin) in [
            ([0, 0, 0], false),
            ([0, 0x5_0000_0006, 0x5_0000_0006], false),
            ([0, 0x4_0000_0009, 0], false),
            ([0, 0x5_0000_0007, 0x5_0000_0007], true),
            ([0x6_0000_0000, 0x6_0000_0000, 0], true),
        ] {
            let others: BTreeMap<u8, Standing> = VOTERS[1..]
                .iter()
                .map(|server| before(*server, voters[usize::from(*server) - 1]))
                .chain([(4, Standing::Before(observer))])
                .collect();
            let holding = holding(voters[0]);
            let round = Round { own: 1, holding, voters: &VOTERS, others: &others };
            let is_kept = round.have_more().next().is_some();
            assert_eq!(is_kept, !may_begin, "{voters:x?} beside {observer:?}");
            let text = round.waits_for(true, "/data");
            if is_kept {
                assert!(!round.may_begin(true), "{voters:x?} beside {observer:?}");
                assert!(text.contains("make server 4 a voter"), "{text}");
            } else if observer.left.is_none() {
                assert!(round.may_begin(true), "{voters:x?} beside {observer:?}");
            }
            assert!(!text.contains("is older than that transaction"), "{text}");
        }
    }
    // One that is busy may have some.
    let others = BTreeMap::from([before(2, 0), before(3, 0), (4, Standing::Busy(Busy::Reads))]);
    let round = Round { own: 1, holding: holding(0), voters: &VOTERS, others: &others };
    assert!(!round.may_begin(true));
    let text = round.waits_for(true, "/data");
    assert!(text.contains("server 4 still reads"), "{text}");
}
