//! Who is told to give up what it has, and beside whom: never without a majority that has what the
//! ensemble has acknowledged. What several servers hold may be all that is left of that.

use std::collections::BTreeMap;

use super::*;
use crate::ensemble::{FIRST_LIFE, member_id};
use crate::storage::MOVE_ASIDE;

const VOTERS: [u8; 5] = [1, 2, 3, 4, 5];
const ENSEMBLE: u64 = 7;

/// What another server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    Silent,
    Busy,
    Empty,
    Blank,
    Removed,
    /// A member with what the ensemble has acknowledged.
    Member,
    /// Nothing of what that was founded on has come to it.
    Lacking,
    /// It has come back with an empty directory.
    Voteless,
    /// A member of another ensemble, which has not begun.
    Stranger,
    /// Data of no ensemble: less and more than the ensemble has.
    Older,
    Newer,
    /// What ZooKeeper made of a member's.
    Left,
}

const ALL: [Is; 12] = [
    Is::Silent,
    Is::Busy,
    Is::Empty,
    Is::Blank,
    Is::Removed,
    Is::Member,
    Is::Lacking,
    Is::Voteless,
    Is::Stranger,
    Is::Older,
    Is::Newer,
    Is::Left,
];

fn of() -> OfLine {
    let voters = VOTERS.into_iter().collect();
    let (line, generation, term, last) = (ENSEMBLE, 1, 6, 6 << 32 | 4);
    OfLine { line, generation, term, last, held: true, voters, ..OfLine::default() }
}

fn holding(epoch: i64, count: i64) -> Holding {
    let base = Base { epoch, zxid: epoch << 32 | count, accepted: epoch };
    Holding { base, begins: Begins::WithAll, ..Holding::default() }
}

fn member(server: u8, ensemble: u64, has_begun: bool, of: OfLine, asks: &[u8]) -> Standing {
    let (id, asks) = (member_id(server, FIRST_LIFE), asks.to_vec());
    Standing::Member { id, ensemble, asks, has_begun, configured_at: 0, of }
}

impl Is {
    fn standing(self, server: u8, asks: &[u8]) -> Option<Standing> {
        let empty = |begins| Holding { begins, ..Holding::default() };
        let its = |of| member(server, ENSEMBLE, true, of, asks);
        Some(match self {
            Self::Silent => return None,
            Self::Busy => Standing::Busy(Busy::Reads),
            Self::Empty => Standing::Before(empty(Begins::WithAll)),
            Self::Blank => Standing::Before(empty(Begins::Never)),
            Self::Removed => Standing::Removed { ensemble: ENSEMBLE },
            Self::Member => its(of()),
            Self::Lacking => its(OfLine { lacks_base: true, last: 0, ..of() }),
            Self::Voteless => its(OfLine { lacks_vote: true, ..of() }),
            Self::Stranger => member(server, 9, false, OfLine { line: 9, ..of() }, &[]),
            Self::Older => Standing::Before(holding(3, 9)),
            Self::Newer => Standing::Before(holding(9, 4)),
            Self::Left => {
                let left = Some(Left { ensemble: ENSEMBLE, of: of() });
                Standing::Before(Holding { left, ..holding(8, 1) })
            }
        })
    }
}

/// What server 5 is told, with what it holds, beside these as servers 1 to 4. Who belongs to the
/// ensemble asks it to.
fn told(holding: Holding, is: [Is; 4], asks: &[u8]) -> String {
    let others =
        (1..).zip(is).filter_map(|(server, is)| Some((server, is.standing(server, asks)?)));
    let others: BTreeMap<u8, Standing> = others.collect();
    Round { own: 5, holding, voters: &VOTERS, others: &others }.waits_for(true, "/data")
}

#[test]
fn data_is_given_up_only_beside_a_majority_that_has_what_was_acknowledged() {
    let mut moved = 0;
    for number in 0..ALL.len().pow(4) {
        let is = [0, 1, 2, 3].map(|place| ALL[number / ALL.len().pow(place) % ALL.len()]);
        let serve = is.iter().filter(|is| **is == Is::Member).count() > VOTERS.len() / 2;
        for own in [Holding::default(), holding(3, 9), holding(9, 4)] {
            for asks in [&[5][..], &[]] {
                let text = told(own, is, asks);
                moved += u32::from(text.contains(MOVE_ASIDE));
                assert!(serve || !text.contains(MOVE_ASIDE), "{is:?}, {own:?}, {asks:?}: {text}");
            }
        }
    }
    assert!(moved > 0);
}

/// Its founder asks it in vain.
#[test]
fn who_has_other_data_than_an_ensemble_without_a_majority_is_told_who_has_the_newest() {
    let silent = "No majority of that ensemble answers: start its other servers";
    let loads = "a majority answers, but too few of its servers have its data yet";
    let keeps = "Move no data away as long as no majority of that ensemble answers";
    let its = "the newest data is that of server 2";
    let other = "the newest data is that of server 5";
    let gives = "stop server 5, move `version-2`";
    use Is::{Blank, Empty, Lacking, Member, Newer, Silent, Voteless};
    for (own, is, parts, never) in [
        (holding(3, 9), [Member, Member, Member, Silent], [gives, "which is right"], "data leave"),
        (holding(9, 4), [Member, Member, Member, Silent], [gives, "which is right"], "data leave"),
        (holding(3, 9), [Member, Member, Silent, Silent], [silent, its], "version-2"),
        (holding(3, 9), [Member, Member, Empty, Blank], [keeps, its], "version-2"),
        (holding(3, 9), [Member, Member, Voteless, Silent], ["3 does not vote", keeps], "version"),
        (holding(9, 4), [Member, Member, Silent, Silent], [keeps, other], "data leave"),
        (
            holding(3, 9),
            [Member, Member, Silent, Newer],
            ["data is that of server 4", keeps],
            "leave",
        ),
        (holding(3, 9), [Member, Lacking, Lacking, Silent], [loads, "wait"], "data leave"),
        (holding(3, 9), [Member, Member, Lacking, Silent], [loads, "wait"], "version-2"),
    ] {
        let text = told(own, is, &[5]);
        let all = parts.iter().all(|part| text.contains(part));
        assert!(all && !text.contains(never), "{is:?}: {text}");
    }
}

/// An observer has only what was acknowledged.
#[test]
fn the_observer_with_the_newest_data_is_named_and_keeps_it() {
    let observer = |server: u8, epoch: i64| (server, Standing::Before(holding(epoch, 4)));
    let empty = |server: u8| (server, Is::Empty.standing(server, &[]).expect("it answers"));
    let others =
        BTreeMap::from([empty(2), empty(3), observer(4, 3), observer(5, 6), observer(6, 2)]);
    let round = Round { own: 1, holding: Holding::default(), voters: &[1, 2, 3], others: &others };
    let text = round.waits_for(true, "/data");
    assert!(text.contains("server 5, which does not vote, has data"), "{text}");
    assert!(text.contains("zxid 0x600000004 of epoch 6"), "{text}");
    assert!(text.contains("make server 5 a voter") && text.contains("Move no data away"), "{text}");
}

/// Voters that are silent may have it: they are started, and no list is changed for them.
#[test]
fn an_observer_with_the_newest_data_gets_no_vote_while_voters_are_silent() {
    let before = |server: u8, epoch: i64| (server, Standing::Before(holding(epoch, 0)));
    let told = |others: &[(u8, Standing)]| {
        let others = others.iter().cloned().collect();
        let (own, holding) = (1, holding(4, 0));
        let round = Round { own, holding, voters: &[1, 2, 3], others: &others };
        round.waits_for(true, "/data")
    };
    for (others, start) in [
        (&[before(4, 5)][..], "Start servers 2 and 3"),
        (&[before(4, 5), before(2, 4)], "Start server 3"),
    ] {
        let text = told(others);
        assert!(text.contains("server 4, which does not vote, has newer data"), "{text}");
        assert!(text.contains(start) && text.contains("Move no data away"), "{text}");
        assert!(!text.contains("make"), "{text}");
    }
    let text = told(&[before(4, 5), before(2, 4), before(3, 4)]);
    assert!(text.contains("make server 4 a voter") && !text.contains("Start"), "{text}");
}

/// What ZooKeeper went on with is older than what a member has.
#[test]
fn who_has_a_transaction_of_a_later_epoch_than_zookeeper_keeps_it() {
    let left = |server: u8, epoch: i64, last: i64| {
        let left = Some(Left { ensemble: ENSEMBLE, of: OfLine { last, ..of() } });
        (server, Standing::Before(Holding { left, ..holding(epoch, 4) }))
    };
    let others =
        BTreeMap::from([left(2, 8, 6 << 32), left(3, 8, 9 << 32 | 1), left(4, 7, 6 << 32)]);
    let round = Round { own: 1, holding: holding(3, 9), voters: &VOTERS, others: &others };
    let text = round.waits_for(true, "/data");
    assert!(text.contains("server 3 has a transaction of epoch 9"), "{text}");
    assert!(text.contains("Start server 5") && text.contains("Move no data away"), "{text}");
}
