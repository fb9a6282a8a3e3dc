use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::ensemble::{FIRST_LIFE, member_id};
use crate::storage::Members;

/// What a server can be here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Is {
    /// Empty: without leave to begin, with it, with the marker.
    Blank,
    Empty,
    Marked,
    /// With data of different age.
    Old,
    New,
    Member,
    /// It reads its directory, or becomes a member.
    Busy,
    /// It was one.
    Removed,
}

const ALL: [Is; 8] =
    [Is::Blank, Is::Empty, Is::Marked, Is::Old, Is::New, Is::Member, Is::Busy, Is::Removed];
const VOTERS: [u8; 3] = [1, 2, 3];

impl Is {
    fn base(self) -> Base {
        match self {
            Self::Old => Base { epoch: 2, zxid: 9, accepted: 2 },
            Self::New => Base { epoch: 3, zxid: 4, accepted: 3 },
            _ => Base::default(),
        }
    }

    fn holding(self) -> Holding {
        let begins = match self {
            Self::Blank | Self::Member | Self::Busy | Self::Removed => Begins::Never,
            Self::Empty | Self::Old | Self::New => Begins::WithAll,
            Self::Marked => Begins::Marked,
        };
        Holding { base: self.base(), begins, ..Holding::default() }
    }

    fn standing(self, names: Option<u8>) -> Standing {
        match self {
            Self::Member => member(0x105, 7, &[], true),
            Self::Busy => Standing::Busy(Busy::Reads),
            Self::Removed => Standing::Removed { ensemble: 7 },
            _ => Standing::Before(Holding { names, ..self.holding() }),
        }
    }

    fn has_data(self) -> bool {
        matches!(self, Self::Old | Self::New)
    }

    /// It does nothing of what is looked at here.
    fn is_passive(self) -> bool {
        matches!(self, Self::Member | Self::Busy | Self::Removed)
    }
}

/// A member of an ensemble of which nothing else is said.
fn member(id: u64, ensemble: u64, asks: &[u8], has_begun: bool) -> Standing {
    let of = OfLine { held: true, ..OfLine::default() };
    Standing::Member { id, ensemble, asks: asks.to_vec(), has_begun, configured_at: 0, of }
}

/// One that takes part in an ensemble of a line.
fn of_line(ensemble: u64, asks: &[u8], of: OfLine) -> Standing {
    let (id, asks) = (0x101, asks.to_vec());
    Standing::Member { id, ensemble, asks, has_begun: true, configured_at: 0, of }
}

/// Three servers, and of each which of the three it hears (itself always).
#[derive(Debug, Clone, Copy)]
struct World {
    is: [Is; 3],
    hears: [[bool; 3]; 3],
}

impl World {
    fn others(&self, own: usize, names: [Option<u8>; 3]) -> BTreeMap<u8, Standing> {
        let heard = (0..3).filter(|other| *other != own && self.hears[own][*other]);
        heard.map(|other| (VOTERS[other], self.is[other].standing(names[other]))).collect()
    }

    fn round<'a>(&self, own: usize, others: &'a BTreeMap<u8, Standing>) -> Round<'a> {
        Round { own: VOTERS[own], holding: self.is[own].holding(), voters: &VOTERS, others }
    }

    /// Whom each names, and then what each does.
    fn steps(&self, is_late: bool) -> [NextStep; 3] {
        let names = [0, 1, 2].map(|own| self.round(own, &self.others(own, [None; 3])).named());
        [0, 1, 2].map(|own| match self.is[own] {
            is if is.is_passive() => NextStep::Wait,
            _ => self.round(own, &self.others(own, names)).step(is_late),
        })
    }

    fn are_mostly_removed(&self) -> bool {
        self.is.iter().filter(|is| **is == Is::Removed).count() > 1
    }

    /// Whether it hears data of anybody, or has some.
    fn hears_data(&self, own: usize) -> bool {
        (0..3).any(|at| self.hears[own][at] && self.is[at].has_data())
    }

    fn are_all_heard(&self) -> bool {
        self.hears == [[true; 3]; 3]
    }

    /// Whether all whom it hears hear the same ones.
    fn is_among_its_own(&self, own: usize) -> bool {
        (0..3).all(|other| !self.hears[own][other] || self.hears[other] == self.hears[own])
    }
}

fn worlds() -> impl Iterator<Item = World> {
    let states = (0..512).map(|state| [ALL[state % 8], ALL[state / 8 % 8], ALL[state / 64]]);
    states.flat_map(|is| {
        (0..64_u8).map(move |ways| {
            let mut hears = [[true; 3]; 3];
            let pairs = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)];
            for (bit, (own, other)) in pairs.into_iter().enumerate() {
                hears[own][other] = ways >> bit & 1 == 1;
            }
            World { is, hears }
        })
    })
}

/// When an ensemble may begin, by what a server hears of all three: `-` is silent.
fn table(heard: &str) -> &'static str {
    match heard {
        // Whoever is there says later what it has.
        _ if heard.contains('R') => "never",
        // Nobody can have anything.
        "EEE" | "EEM" | "EMM" | "MMM" => "now",
        // An operator says so, and nobody contradicts.
        "-MM" | "BMM" => "now",
        "---" | "--B" | "--E" | "--M" | "-BB" | "-BE" | "-BM" | "-EE" | "-EM" => "never",
        "BBB" | "BBE" | "BBM" | "BEE" | "BEM" => "never",
        // Nobody is missing, and there is data.
        "DEE" | "DEM" | "DMM" | "DDE" | "DDM" | "DDD" => "now",
        // What a majority has was acknowledged. The disk of one that is blank may not be mounted:
        // it is as good as silent.
        "-DD" | "BDD" => "late",
        "--D" | "-BD" | "-DE" | "-DM" | "BBD" | "BDE" | "BDM" => "never",
        _ => panic!("{heard}"),
    }
}

fn sorted(world: &World, own: usize) -> String {
    let letter = |at: usize| match world.is[at] {
        _ if !world.hears[own][at] => '-',
        Is::Blank => 'B',
        Is::Empty => 'E',
        Is::Marked => 'M',
        Is::Old | Is::New => 'D',
        Is::Busy => 'R',
        // It has nothing that counts against data. On nothing nobody begins beside it, as beside
        // one that says nothing.
        Is::Removed if world.hears_data(own) => 'E',
        Is::Removed => 'B',
        Is::Member => unreachable!("another row"),
    };
    let mut letters = [0, 1, 2].map(letter);
    letters.sort_unstable();
    letters.iter().collect()
}

#[test]
fn every_server_does_what_the_table_says() {
    for world in worlds() {
        for is_late in [false, true] {
            let steps = world.steps(is_late);
            for (own, step) in steps.into_iter().enumerate() {
                if world.is[own].is_passive() {
                    continue;
                }
                let hears_member =
                    (0..3).any(|at| world.hears[own][at] && world.is[at] == Is::Member);
                if hears_member {
                    assert_eq!(step, NextStep::Join, "{world:?}");
                    continue;
                }
                let may = match table(&sorted(&world, own)) {
                    // Nobody belongs to it but one.
                    _ if world.are_mostly_removed() => false,
                    "now" => true,
                    "late" => is_late,
                    _ => false,
                };
                assert!(may || step == NextStep::Wait, "{own} of {world:?} founds");
                if !world.is_among_its_own(own) {
                    continue;
                }
                let among: Vec<usize> = (0..3).filter(|at| world.hears[own][*at]).collect();
                let is = |at: &usize| world.is[*at];
                let rank = |at: &&usize| (is(at).base().epoch, is(at).base().zxid, **at);
                let is_known_empty = among.len() == 3
                    && among.iter().all(|at| matches!(is(at), Is::Empty | Is::Marked));
                let greatest = match among.iter().any(|at| is(at).has_data()) || is_known_empty {
                    true => among.iter().max_by_key(rank),
                    // Who may not begin does not.
                    false => among.iter().rev().find(|at| is(at) == Is::Marked),
                };
                let founds = step == NextStep::Found;
                assert_eq!(founds, may && greatest == Some(&own), "{own} of {world:?}");
            }
        }
    }
}

#[test]
fn no_data_is_shut_out() {
    for world in worlds() {
        for (own, step) in world.steps(true).into_iter().enumerate() {
            if step != NextStep::Found {
                continue;
            }
            let marked = world.is.iter().filter(|is| **is == Is::Marked).count();
            // Of these it does not know what they hold.
            let tells_of_more = |is: Is| match is {
                Is::Blank => true,
                Is::Removed => !world.hears_data(own),
                _ => false,
            };
            let is_unknown = |at: &usize| !world.hears[own][*at] || tells_of_more(world.is[*at]);
            let silent = (0..3).filter(is_unknown).count();
            let is_busy = |at: usize| world.hears[own][at] && world.is[at] == Is::Busy;
            assert!(!(0..3).any(is_busy), "{world:?}");
            if world.is[own].has_data() {
                // Anybody's, or that of any majority.
                let greater = |at: &usize| {
                    let base = |at: usize| (world.is[at].base().epoch, world.is[at].base().zxid);
                    base(*at) > base(own)
                };
                let with_data = world.is.iter().filter(|is| is.has_data()).count();
                let unheard = (0..3).filter(greater).filter(|at| world.hears[own][*at]).count();
                assert_eq!(unheard, 0, "{world:?}");
                assert!(silent == 0 || with_data >= 2, "{world:?}");
            } else {
                assert!(silent == 0 || marked >= 2, "{world:?}");
                let heard_data =
                    (0..3).filter(|at| world.hears[own][*at] && world.is[*at].has_data()).count();
                assert_eq!(heard_data, 0, "{world:?}");
            }
        }
    }
}

/// Whoever hears whom: all answers are of the same three servers.
#[test]
fn no_two_servers_found() {
    for world in worlds() {
        for is_late in [false, true] {
            let founders =
                world.steps(is_late).iter().filter(|step| **step == NextStep::Found).count();
            assert!(founders <= 1, "{world:?}");
        }
    }
}

#[test]
fn who_hears_all_does_not_wait_for_ever() {
    for world in worlds().filter(World::are_all_heard) {
        let steps = world.steps(true);
        let count = |which: fn(Is) -> bool| world.is.iter().filter(|is| which(**is)).count();
        let with_data = count(Is::has_data);
        let is_enough = match with_data {
            0 => count(|is| is == Is::Marked) >= 2,
            _ => with_data >= 2,
        };
        let is_held = |is: &Is| *is == Is::Blank || *is == Is::Removed && with_data == 0;
        let may_not = world.is.contains(&Is::Busy) || world.is.iter().any(is_held) && !is_enough;
        let goes_on = steps.iter().any(|step| *step != NextStep::Wait);
        let are_passive = world.is.iter().all(|is| is.is_passive());
        let may_not = may_not || world.are_mostly_removed();
        assert!(goes_on || may_not || are_passive, "{world:?}");
        assert!(!(goes_on && may_not && !world.is.contains(&Is::Member)), "{world:?}");
    }
}

#[test]
fn a_founder_is_waited_for_by_those_whom_it_asks() {
    for (own, is, has_begun, steps) in [
        (2, Is::Empty, false, [NextStep::Wait; 2]),
        (2, Is::Old, false, [NextStep::Wait; 2]),
        (4, Is::Empty, false, [NextStep::Join; 2]),
        // Its founder may never ask it, but there is a leader.
        (2, Is::Empty, true, [NextStep::Wait, NextStep::Join]),
        (2, Is::Marked, true, [NextStep::Wait, NextStep::Join]),
        // It has something to lose, and gets no seat with it.
        (2, Is::Old, true, [NextStep::Wait; 2]),
        (4, Is::Empty, true, [NextStep::Join; 2]),
    ] {
        let founder = member(0x103, 7, &[2], has_begun);
        let others = BTreeMap::from([(1, Is::Empty.standing(None)), (3, founder)]);
        let round = Round { own, holding: is.holding(), voters: &VOTERS, others: &others };
        let case = (own, is, has_begun);
        assert_eq!([false, true].map(|is_late| round.step(is_late)), steps, "{case:?}");
        // Who asks for a seat in vain hears how that ends.
        let is_about_seat = round.waits_for(true, "/data").contains("admits this server");
        assert_eq!(is_about_seat, steps[1] == NextStep::Join, "{case:?}");
    }
}

/// Server 3 asks the others to belong to ensemble 7; server 1 is what is said here.
#[test]
fn nobody_belongs_to_an_ensemble_who_may_have_belonged_to_another() {
    let asks = member(0x103, 7, &[1, 2], false);
    let belongs = |ensemble| member(0x101, ensemble, &[], true);
    let waits = |ensemble| member(0x101, ensemble, &[], false);
    for (is, first, accepts, steps) in [
        (Is::Empty, Some(Is::Empty.standing(None)), true, [NextStep::Wait; 2]),
        (Is::Empty, Some(belongs(7)), true, [NextStep::Wait, NextStep::Join]),
        (Is::Empty, Some(belongs(8)), false, [NextStep::Join; 2]),
        (Is::Empty, Some(waits(8)), true, [NextStep::Wait; 2]),
        (Is::Old, Some(waits(8)), true, [NextStep::Wait; 2]),
        // It may be all that is left of another one.
        (Is::Empty, None, false, [NextStep::Wait, NextStep::Join]),
        (Is::Marked, None, true, [NextStep::Wait; 2]),
        (Is::Marked, Some(belongs(8)), false, [NextStep::Join; 2]),
        (Is::Old, None, true, [NextStep::Wait; 2]),
        (Is::Old, Some(Is::New.standing(None)), true, [NextStep::Wait; 2]),
        (Is::Old, Some(belongs(7)), true, [NextStep::Wait; 2]),
        (Is::Old, Some(belongs(8)), false, [NextStep::Join; 2]),
    ] {
        let mut others = BTreeMap::from([(3, asks.clone())]);
        others.extend(first.clone().map(|its| (1, its)));
        let round = Round { own: 2, holding: is.holding(), voters: &VOTERS, others: &others };
        let accepted = round.accepts().map(|its| its.ensemble);
        assert_eq!(accepted, accepts.then_some(7), "{is:?} {first:?}");
        assert_eq!([false, true].map(|is_late| round.step(is_late)), steps, "{is:?} {first:?}");
    }
    // Nobody asks it.
    let others = BTreeMap::from([(1, Is::Empty.standing(None)), (3, Is::Old.standing(None))]);
    let round = Round { own: 2, holding: Is::Old.holding(), voters: &VOTERS, others: &others };
    assert_eq!(round.accepts(), None);
}

/// How far one of the servers is that a founder asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    No,
    Refused,
    /// And its founder does not know.
    Accepted,
    /// Its founder knows, and it does not know that.
    Known,
    TakesPart,
}

/// The term of the founding, and that of the first leader.
const FOUNDED: u64 = 5;
const ELECTED: u64 = 6;
/// Of five voters, and the server that founded them.
const MAJORITY: usize = 3;
const FOUNDER: u8 = 5;

/// How a founding goes: server 5 asks 1 to 4. Each with the term that it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Course {
    asked: [(Asked, u64); 4],
    founder: u64,
}

impl Course {
    fn has(&self, which: &[Asked]) -> Vec<usize> {
        (0..4).filter(|at| which.contains(&self.asked[*at].0)).collect()
    }

    /// All that can happen next.
    fn next(&self) -> Vec<Self> {
        let mut next = Vec::new();
        let mut with = |at: usize, asked, term| {
            let mut course = *self;
            course.asked[at] = (asked, term);
            next.push(course);
        };
        let is_elected = self.founder == ELECTED || self.asked.iter().any(|its| its.1 == ELECTED);
        for at in 0..4 {
            let (asked, term) = self.asked[at];
            match asked {
                Asked::No => {
                    with(at, Asked::Refused, 0);
                    // What the founder offers may be as of before the election.
                    with(at, Asked::Accepted, FOUNDED);
                    with(at, Asked::Accepted, self.founder);
                }
                Asked::Refused => {}
                Asked::Accepted => with(at, Asked::Known, term),
                Asked::Known => with(at, Asked::TakesPart, term),
                Asked::TakesPart if is_elected => with(at, asked, ELECTED),
                Asked::TakesPart => {}
            }
        }
        if is_elected {
            next.push(Self { founder: ELECTED, ..*self });
        }
        // Any majority of those who take part elects.
        for electors in 0..32_usize {
            let take_part = self.has(&[Asked::TakesPart]);
            let elects = |at: usize| electors >> at & 1 == 1;
            let may = (0..4).all(|at| !elects(at) || take_part.contains(&at));
            if is_elected || !may || (electors.count_ones() as usize) < MAJORITY {
                continue;
            }
            let mut course = *self;
            for at in (0..4).filter(|at| elects(*at)) {
                course.asked[at].1 = ELECTED;
            }
            if elects(4) {
                course.founder = ELECTED;
            }
            next.push(course);
        }
        next
    }

    /// The disks of those that have accepted, and that of the founder.
    fn states(&self) -> Vec<(RaftState, bool)> {
        let voters = (1..=FOUNDER).map(|server| member_id(server, FIRST_LIFE)).collect();
        let members = Members { voters, ..Members::default() };
        let first = RaftState { members, founded_in: FOUNDED, ..RaftState::default() };
        let asks = self.has(&[Asked::No, Asked::Accepted]).into_iter().map(|at| at as u8 + 1);
        let mut states =
            vec![(RaftState { term: self.founder, asks: asks.collect(), ..first.clone() }, true)];
        for at in self.has(&[Asked::Accepted, Asked::Known, Asked::TakesPart]) {
            let takes_part = self.asked[at].0 == Asked::TakesPart;
            let awaits = if takes_part { 0 } else { member_id(FOUNDER, FIRST_LIFE) };
            let term = self.asked[at].1;
            states.push((RaftState { term, awaits, ..first.clone() }, takes_part));
        }
        states
    }
}

/// Wherever a founding of five stands still: nobody says that it has begun before a majority
/// belongs, and whoever can have acknowledged anything, which nobody does before there is a leader,
/// says so.
#[test]
fn nothing_has_begun_before_a_majority_belongs_and_all_who_acknowledge_say_so() {
    let first = Course { asked: [(Asked::No, 0); 4], founder: FOUNDED };
    let mut seen = BTreeSet::from([first]);
    let mut left = vec![first];
    let mut kinds = [0_u32; 2];
    while let Some(course) = left.pop() {
        let belong = 1 + course.has(&[Asked::Known, Asked::TakesPart]).len();
        for (state, takes_part) in course.states() {
            let says = has_begun(&state);
            assert!(!says || belong >= MAJORITY, "{state:?} of {course:?}");
            let may_acknowledge = takes_part && state.term == ELECTED;
            assert!(says || !may_acknowledge, "{state:?} of {course:?}");
            kinds[usize::from(says)] += 1;
        }
        left.extend(course.next().into_iter().filter(|next| seen.insert(*next)));
    }
    assert!(kinds.iter().all(|count| *count > 1000), "{kinds:?}");
}

/// What one that left an ensemble has was acknowledged there.
#[test]
fn nobody_belongs_to_an_ensemble_that_was_founded_on_less() {
    let asks = member(0x101, 7, &[3], true);
    let others = BTreeMap::from([(1, asks), (2, Is::New.standing(None))]);
    let round = Round { own: 3, holding: Is::Empty.holding(), voters: &VOTERS, others: &others };
    let accepts = round.accepts().expect("all have answered");
    assert!(!accepts.is_for(7, Is::Old.base()) && accepts.is_for(7, Is::New.base()));
    assert!(!accepts.is_for(8, Is::New.base()));
}

/// Nobody is told to give up what may be all that is left of what was acknowledged.
#[test]
fn of_two_ensembles_only_the_one_that_has_not_begun_is_given_up() {
    let told = |begun: [bool; 2]| {
        let of_own = |server: u8, has_begun| {
            let ensemble = server.into();
            member(0x100 + ensemble, ensemble, &[], has_begun)
        };
        let others = BTreeMap::from([(1, of_own(1, begun[0])), (2, of_own(2, begun[1]))]);
        let (own, holding) = (3, Is::Empty.holding());
        Round { own, holding, voters: &VOTERS, others: &others }.waits_for(true, "/data")
    };
    for (begun, stops) in [
        ([true, false], Some("stop server 2,")),
        ([false, true], Some("stop server 1,")),
        ([true, true], None),
        ([false, false], None),
    ] {
        let told = told(begun);
        assert!(told.contains("servers 1 and 2 belong to two ensembles"), "{told}");
        match stops {
            Some(stops) => assert!(told.contains(stops), "{told}"),
            None => assert!(!told.contains("stop server"), "{told}"),
        }
    }
}

/// What has begun without what the other one has may be lost itself, before anybody else has what
/// it acknowledged.
#[test]
fn beside_what_is_left_of_an_ensemble_that_has_begun_nobody_moves_data_away() {
    const FIVE: [u8; 5] = [1, 2, 3, 4, 5];
    const BOTH: &str = "stop servers 1 and 3, run `ferrokeeper data leave` on the dataDir of both";
    const MOVES: &str = "stop server 1, move `version-2` in dataDir and dataLogDir aside";
    let begun_on = |outgoing: &[u8]| OfLine {
        voters: FIVE.into_iter().collect(),
        outgoing: outgoing.iter().copied().collect(),
        ..OfLine::default()
    };
    let founder = |server: u8| (server, member(member_id(server, FIRST_LIFE), 8, &[4, 5], false));
    let knows = |server: u8, configured_at: u64, of: OfLine| {
        let (id, asks) = (member_id(server, FIRST_LIFE), Vec::new());
        (server, Standing::Member { id, ensemble: 7, asks, has_begun: true, configured_at, of })
    };
    let fellow = |server: u8| knows(server, 0, begun_on(&[]));
    let joint = |server: u8| knows(server, 5, begun_on(&[1, 2]));
    let lacking = |server: u8| knows(server, 0, OfLine { lacks_base: true, ..begun_on(&[]) });
    // What the others know is over.
    let few = OfLine { voters: [3, 4].into_iter().collect(), ..OfLine::default() };
    let is = |server: u8, is: Is| (server, is.standing(None));
    for (others, expected, never) in [
        (vec![founder(1), fellow(3), is(4, Is::Empty), is(5, Is::Marked)], BOTH, "move"),
        (
            vec![founder(1), fellow(3), fellow(4), is(5, Is::Old)],
            "stop servers 1, 3 and 4, run `ferrokeeper data leave` on the dataDir of each",
            "move",
        ),
        // Whoever is silent or busy may be what is missing of the majority.
        (vec![founder(1), fellow(3), fellow(4)], "server 5 does not answer", "stop server"),
        (vec![founder(1), fellow(3), is(4, Is::Empty)], "server 5 does not answer", "stop server"),
        (
            vec![founder(1), fellow(3), is(4, Is::Empty), is(5, Is::Busy)],
            "server 5 still reads its data directory",
            "stop server",
        ),
        (
            vec![founder(1), fellow(3), is(4, Is::Empty), is(5, Is::Blank)],
            "check that its disk is mounted. If that data is lost for good, stop servers 1 and 3, \
             run",
            "move",
        ),
        (vec![founder(1), fellow(3), fellow(4), fellow(5)], MOVES, "data leave"),
        (vec![founder(1), fellow(3), fellow(4), joint(5)], "stop servers 1, 3, 4 and 5,", "move"),
        (vec![founder(1), fellow(3), knows(4, 9, few), is(5, Is::Empty)], MOVES, "data leave"),
        // Nothing of it has come to any of them.
        (
            vec![founder(1), lacking(3), lacking(4), lacking(5)],
            "stop servers 1, 3, 4 and 5,",
            "move",
        ),
        (vec![founder(1), lacking(3), lacking(4), fellow(5)], "have its data yet", "stop server"),
        // What both have may have been acknowledged.
        (
            vec![founder(1), fellow(3), (4, of_line(9, &[], begun_on(&[]))), is(5, Is::Empty)],
            "before it is known which ensemble served clients",
            "stop server",
        ),
    ] {
        let others: BTreeMap<u8, Standing> = others.into_iter().collect();
        let holding = Is::Empty.holding();
        let round = Round { own: 2, holding, voters: &FIVE, others: &others };
        for is_late in [false, true] {
            let told = round.waits_for(is_late, "/data");
            assert!(told.contains(expected) && !told.contains(never), "{others:?}: {told}");
        }
    }
}

/// The log of a founder says nothing of those that refused, and it takes part: it waits for nobody.
#[test]
fn who_waits_beside_an_ensemble_that_has_not_begun_is_not_sent_to_the_log_of_its_founder() {
    let belongs =
        |server: u8, asks: &[u8]| (server, member(member_id(server, FIRST_LIFE), 7, asks, false));
    let [founder, accepted, unknown] = [belongs(3, &[2]), belongs(2, &[]), belongs(3, &[])];
    for (heard, parts) in [
        (vec![founder.clone()], ["server 3 has founded", "stop server 3, run"]),
        (vec![accepted.clone(), founder], ["server 3 has founded", "stop server 3, run"]),
        (vec![accepted], ["server 2 belongs to", "and its log does not say what it waits for"]),
        (vec![unknown], ["server 3 belongs to", "and its log does not say what it waits for"]),
    ] {
        let others = heard.into_iter().collect();
        let (own, holding) = (1, Is::New.holding());
        let told = Round { own, holding, voters: &VOTERS, others: &others }.waits_for(true, "/d");
        assert!(told.contains("an ensemble that has not begun"), "{told}");
        assert!(told.contains("start all other servers"), "{told}");
        assert!(told.contains("`ferrokeeper data leave` on its dataDir"), "{told}");
        assert!(!told.contains("move") && !told.contains("empty"), "{told}");
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    }
}

/// Two founders whom nobody has answered, and who belong to each other's ensembles never: the third
/// is free for the first that asks.
#[test]
fn two_lone_founders_keep_nobody_from_belonging() {
    let founder = |server: u8, asks: &[u8]| {
        (server, member(member_id(server, FIRST_LIFE), server.into(), asks, false))
    };
    for is in [Is::Empty, Is::Marked, Is::Old, Is::New] {
        let others = BTreeMap::from([founder(1, &[2, 3]), founder(2, &[1, 3])]);
        let round = Round { own: 3, holding: is.holding(), voters: &VOTERS, others: &others };
        assert_eq!(round.accepts().map(|its| its.ensemble), Some(1), "{is:?}");
        assert_eq!([false, true].map(|is_late| round.step(is_late)), [NextStep::Wait; 2], "{is:?}");
        assert!(!round.has_begun(), "with data it does not end");
    }
}

/// A silent voter is given up after a while; one that is there is not, and no marker is offered for
/// it.
#[test]
fn who_is_busy_is_waited_for() {
    for (busy, text) in [
        (Busy::Reads, "server 3 still reads its data directory"),
        (Busy::Joins, "server 3 is joining or founding an ensemble"),
    ] {
        for is in [Is::Blank, Is::Empty, Is::Marked, Is::Old] {
            for first in [Some(is.standing(Some(2))), None] {
                let mut others = BTreeMap::from([(3, Standing::Busy(busy))]);
                let silent = first.is_none();
                others.extend(first.map(|its| (1, its)));
                let holding = is.holding();
                let round = Round { own: 2, holding, voters: &VOTERS, others: &others };
                assert!(round.is_held_up() && !round.is_complete());
                for is_late in [false, true] {
                    assert_eq!(round.step(is_late), NextStep::Wait, "{is:?}");
                    let told = round.waits_for(is_late, "/data");
                    assert!(told.contains(text) && !told.contains("touch"), "{told}");
                    assert_eq!(told.contains("server 1 does not answer"), silent, "{told}");
                }
            }
        }
    }
    // It may be the founder of the one that has not begun.
    let others =
        BTreeMap::from([(1, member(0x101, 7, &[], false)), (3, Standing::Busy(Busy::Reads))]);
    let round = Round { own: 2, holding: Is::Old.holding(), voters: &VOTERS, others: &others };
    let told = round.waits_for(true, "/data");
    assert!(told.contains("server 3 still reads") && !told.contains("stop server 1"), "{told}");
    // An observer may have data that counts against a marker, but no data has to wait for it.
    for (is, step) in [(Is::Marked, NextStep::Wait), (Is::Old, NextStep::Found)] {
        let others = BTreeMap::from([(1, is.standing(Some(2))), (4, Standing::Busy(Busy::Reads))]);
        let round = Round { own: 2, holding: is.holding(), voters: &VOTERS, others: &others };
        assert_eq!(round.step(true), step, "{is:?}");
    }
}

/// What a disk that is not mounted hides may be all that is left of another ensemble.
#[test]
fn an_emptied_server_belongs_to_nothing_beside_one_that_is_blank() {
    let asks = member(0x103, 7, &[1, 2], false);
    for (first, accepts) in [(Is::Blank, false), (Is::Empty, true), (Is::Marked, true)] {
        for own in [Is::Blank, Is::Empty] {
            let others = BTreeMap::from([(1, first.standing(None)), (3, asks.clone())]);
            let round = Round { own: 2, holding: own.holding(), voters: &VOTERS, others: &others };
            assert_eq!(round.accepts().is_some(), accepts, "{first:?} {own:?}");
            let told = round.waits_for(false, "/data");
            assert_eq!(told.contains("a disk that is not mounted"), !accepts, "{told}");
        }
    }
}

/// An observer is no part of a majority, names nobody alone, and founds nothing; but its data
/// counts against a marker.
#[test]
fn observers_found_nothing() {
    let step = |own: u8, is: Is, others: &[(u8, Is)]| {
        let names = Some(own);
        let others = others.iter().map(|(server, is)| (*server, is.standing(names))).collect();
        Round { own, holding: is.holding(), voters: &VOTERS, others: &others }.step(true)
    };
    assert_eq!(step(4, Is::New, &[(1, Is::Old), (2, Is::Old), (3, Is::Old)]), NextStep::Wait);
    assert_eq!(step(1, Is::Old, &[(4, Is::New)]), NextStep::Wait);
    assert_eq!(step(2, Is::Marked, &[(1, Is::Marked), (4, Is::New)]), NextStep::Wait);
    assert_eq!(step(2, Is::Marked, &[(1, Is::Marked), (4, Is::Empty)]), NextStep::Found);
}

/// It may not know that the first life of who is asked was taken out.
#[test]
fn an_offer_holds_only_while_nobody_knows_later_members() {
    let knows = |server: u8, ensemble: u64, asks: &[u8], configured_at: u64| {
        let (id, asks, of) = (member_id(server, FIRST_LIFE), asks.to_vec(), OfLine::default());
        (server, Standing::Member { id, ensemble, asks, has_begun: true, configured_at, of })
    };
    for (is, ensemble, known) in [(Is::Empty, 7, 40), (Is::Old, 7, 40), (Is::Old, 7, 3)] {
        let others = BTreeMap::from([knows(1, ensemble, &[], known), knows(3, 7, &[2], 9)]);
        let round = Round { own: 2, holding: is.holding(), voters: &VOTERS, others: &others };
        let accepts = round.accepts().expect("all have answered");
        assert_eq!(accepts.configured_at, known.max(9), "{is:?}");
    }
}

/// Where an operator has given a majority the marker, its data is all that they wait for.
#[test]
fn an_observer_that_is_waited_for_is_named() {
    let told = |third: Is, observer: Standing| {
        let others = BTreeMap::from([
            (1, Is::Marked.standing(Some(2))),
            (3, third.standing(Some(2))),
            (4, observer),
        ]);
        let holding = Is::Marked.holding();
        let round = Round { own: 2, holding, voters: &VOTERS, others: &others };
        (round.step(true), round.waits_for(true, "/data"))
    };
    for (observer, text) in [
        (Is::Busy.standing(None), "server 4 still reads its data directory"),
        (Is::Old.standing(None), "server 4, which does not vote, has data"),
    ] {
        // Also where all voters say that they are empty.
        for third in [Is::Blank, Is::Empty] {
            let (step, said) = told(third, observer.clone());
            assert_eq!(step, NextStep::Wait);
            assert!(said.contains(text), "{said}");
        }
    }
}

#[test]
fn whoever_waits_says_for_whom_and_what_to_do() {
    let told = |own: u8, is: Is, others: &[(u8, Is)], is_late: bool| {
        let others = others.iter().map(|(server, is)| (*server, is.standing(None))).collect();
        let round = Round { own, holding: is.holding(), voters: &VOTERS, others: &others };
        round.waits_for(is_late, "/data")
    };
    for (text, parts) in [
        (
            told(1, Is::Empty, &[(2, Is::Empty)], true),
            ["server 3 does not", "`touch /data/initialize`"],
        ),
        (told(1, Is::Empty, &[], true), ["servers 2 and 3 do not", "`touch /data/initialize`"]),
        (
            told(1, Is::Old, &[(2, Is::Empty)], true),
            ["server 3 does not", "newer data than server 1"],
        ),
        (told(1, Is::Old, &[(2, Is::New)], false), ["server 3 does not", "for initLimit at most"]),
        (
            told(1, Is::Old, &[(2, Is::New)], true),
            ["server 3 does not", "server 2, which will found"],
        ),
        (
            told(1, Is::Empty, &[(2, Is::Member)], true),
            ["server 2 belongs to an", "no leader of that ensemble admits this server"],
        ),
        (
            told(1, Is::Blank, &[(2, Is::Blank), (3, Is::Empty)], true),
            ["db.autocreate=false", "`touch /data/initialize`"],
        ),
        (
            told(1, Is::Old, &[(2, Is::Blank), (3, Is::Blank)], true),
            [
                "newer data than that of server 1",
                "check that their disks are mounted. If nothing was ever there, set \
                 db.autocreate=true",
            ],
        ),
        (
            told(1, Is::Old, &[(2, Is::New), (3, Is::Blank)], false),
            ["for initLimit at most", "directory of server 3 is empty, with db.autocreate=false"],
        ),
        (
            told(1, Is::Blank, &[(2, Is::Empty)], true),
            ["server 3 does not", "directory of server 1 is empty, with db.autocreate=false"],
        ),
        (
            told(3, Is::Empty, &[(1, Is::Empty), (2, Is::Empty)], true),
            ["no majority of the servers names this server", "reach each other"],
        ),
    ] {
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

/// What a server can be where ZooKeeper may have gone on with an ensemble: 7 of line 5, generation
/// 1, of servers 1 to 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    Empty,
    /// With `db.autocreate=false`: its disk may not be mounted.
    Blank,
    /// Data of ZooKeeper's that was no member's.
    Data,
    /// A member's that ZooKeeper went on with, more or less of it.
    LeftOld,
    LeftNew,
    /// A member with nothing of ZooKeeper's.
    Member,
    /// A member of the next generation.
    Later,
    /// It says later what it is.
    Busy,
}

const ALL_AFTER: [After; 8] = [
    After::Empty,
    After::Blank,
    After::Data,
    After::LeftOld,
    After::LeftNew,
    After::Member,
    After::Later,
    After::Busy,
];

fn of(generation: u64) -> OfLine {
    let voters = VOTERS.into_iter().collect();
    OfLine { line: 5, generation, term: 3, last: (3 << 32) + 7, voters, ..OfLine::default() }
}

const fn left(of: OfLine) -> Left {
    Left { ensemble: 7, of }
}

impl After {
    fn holding(self) -> Holding {
        let of_epoch = |epoch, count| Base { epoch, zxid: (epoch << 32) + count, accepted: epoch };
        let left = Some(left(of(1)));
        let begins = Begins::WithAll;
        match self {
            Self::Data => Holding { base: of_epoch(4, 2), begins, ..Holding::default() },
            Self::LeftOld => Holding { base: of_epoch(4, 1), begins, left, ..Holding::default() },
            Self::LeftNew => Holding { base: of_epoch(4, 3), begins, left, ..Holding::default() },
            Self::Blank => Holding::default(),
            _ => Holding { begins, ..Holding::default() },
        }
    }

    fn standing(self, names: Option<u8>) -> Standing {
        match self {
            Self::Member => of_line(7, &[], of(1)),
            Self::Later => of_line(8, &[], of(2)),
            Self::Busy => Standing::Busy(Busy::Reads),
            _ => Standing::Before(Holding { names, ..self.holding() }),
        }
    }

    const fn is_left(self) -> bool {
        matches!(self, Self::LeftOld | Self::LeftNew)
    }
}

#[derive(Debug, Clone, Copy)]
struct WorldAfter {
    is: [After; 3],
    hears: [[bool; 3]; 3],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    NextStep(NextStep),
    Return(Return),
    Serves,
}

impl WorldAfter {
    fn all() -> impl Iterator<Item = Self> {
        let states =
            (0..512).map(|at| [ALL_AFTER[at % 8], ALL_AFTER[at / 8 % 8], ALL_AFTER[at / 64]]);
        states.flat_map(|is| {
            (0..64_u8).map(move |ways| {
                let mut hears = [[true; 3]; 3];
                let pairs = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)];
                for (bit, (own, other)) in pairs.into_iter().enumerate() {
                    hears[own][other] = ways >> bit & 1 == 1;
                }
                Self { is, hears }
            })
        })
    }

    fn others(&self, own: usize, names: [Option<u8>; 3]) -> BTreeMap<u8, Standing> {
        let heard = (0..3).filter(|other| *other != own && self.hears[own][*other]);
        heard.map(|other| (VOTERS[other], self.is[other].standing(names[other]))).collect()
    }

    fn do_what(&self, is_late: bool) -> [Does; 3] {
        let names = [0, 1, 2].map(|own| {
            let (holding, others) = (self.is[own].holding(), &self.others(own, [None; 3]));
            Round { own: VOTERS[own], holding, voters: &VOTERS, others }.named()
        });
        [0, 1, 2].map(|own| {
            let others = &self.others(own, names);
            let (number, voters) = (VOTERS[own], VOTERS.as_slice());
            match self.is[own] {
                After::Later | After::Busy => Does::Serves,
                After::Member => {
                    let left = left(of(1));
                    Does::Return(
                        Returning { own: number, left, asks: None, voters, others }.step(is_late),
                    )
                }
                is => {
                    let holding = is.holding();
                    Does::NextStep(Round { own: number, holding, voters, others }.step(is_late))
                }
            }
        })
    }

    fn heard(&self, own: usize, is: impl Fn(After) -> bool) -> usize {
        (0..3).filter(|at| self.hears[own][*at] && is(self.is[*at])).count()
    }
}

/// By how many of the three are heard: of a later generation, members, left, with data of other
/// origin, and how many have not said what they hold.
fn table_after(own: After, heard: [usize; 5]) -> &'static str {
    let is_left = own.is_left();
    match heard {
        [1 | 2, ..] => "join",
        // A majority shows nothing of ZooKeeper: the ensemble goes on, without what a minority has.
        [0, 2, ..] => "join",
        [0, 1, 1, 1, 0] | [0, 1, 2, 0, 0] => "now",
        [0, 1, ..] if is_left => "wait",
        [0, 1, ..] => "join",
        [0, 0, 2, 1, 0] | [0, 0, 1, 2, 0] | [0, 0, 3, 0, 0] => "now",
        [0, 0, 1, 1, 0] | [0, 0, 2, 0, 0] => "now",
        [0, 0, 1, 1, 1] | [0, 0, 2, 0, 1] => "late",
        // A server alone went on, as far as is known.
        [0, 0, 1, 0, _] => "wait",
        [0, 0, 0, ..] => "no member's",
        _ => panic!("{heard:?}"),
    }
}

#[test]
fn a_majority_tells_whether_an_ensemble_goes_on() {
    for world in WorldAfter::all() {
        for is_late in [false, true] {
            let does = world.do_what(is_late);
            for (own, does) in does.into_iter().enumerate() {
                let count = |is: fn(After) -> bool| world.heard(own, is);
                let busy = count(|is| is == After::Busy);
                let silent = world.hears[own].iter().filter(|hears| !**hears).count()
                    + count(|is| is == After::Blank)
                    + busy;
                let (later, members) =
                    (count(|is| is == After::Later), count(|is| is == After::Member));
                let heard =
                    [later, members, count(After::is_left), count(|is| is == After::Data), silent];
                let case = format!("{own} of {world:?}, late: {is_late}");
                let step = match does {
                    Does::Serves => continue,
                    Does::Return(step) => {
                        let other = world.heard(own, |is| is == After::Member) > 1;
                        let expected = match (later, other) {
                            (1.., _) => Return::Leave,
                            (0, true) => Return::TakePart,
                            (0, false) => Return::Wait,
                        };
                        assert_eq!(step, expected, "{case}");
                        continue;
                    }
                    Does::NextStep(step) => step,
                };
                let may = match table_after(world.is[own], heard) {
                    "join" => {
                        assert_eq!(step, NextStep::Join, "{case}");
                        continue;
                    }
                    "no member's" => continue,
                    "now" => true,
                    "late" => is_late && busy == 0,
                    _ => false,
                };
                assert!(may || step == NextStep::Wait, "{case} founds");
                let among: Vec<usize> = (0..3).filter(|at| world.hears[own][*at]).collect();
                // Members name nobody.
                let names = |at: &&usize| !matches!(world.is[**at], After::Member | After::Busy);
                let befores = among.iter().filter(names);
                let agree = befores.clone().all(|at| world.hears[*at] == world.hears[own]);
                if may && agree && befores.count() > 1 {
                    let base = |at: &usize| world.is[*at].holding().base;
                    let rank = |at: &&usize| (base(at).epoch, base(at).zxid, **at);
                    let founder = among.iter().max_by_key(rank) == Some(&own);
                    assert_eq!(step == NextStep::Found, founder, "{case}");
                }
            }
        }
    }
}

/// Two halves of different histories: whoever hears whom.
#[test]
fn an_ensemble_never_goes_on_beside_its_next_generation() {
    let mut founded = 0;
    for world in WorldAfter::all() {
        let members = world.is.iter().filter(|is| **is == After::Member).count();
        for is_late in [false, true] {
            let does = world.do_what(is_late);
            let founders =
                does.iter().filter(|does| **does == Does::NextStep(NextStep::Found)).count();
            assert!(founders <= 1, "{world:?}");
            let has_left = world.is.iter().any(|is| is.is_left());
            if founders == 0 || !has_left {
                continue;
            }
            founded += 1;
            // They could elect among themselves.
            assert!(members < 2, "{world:?}");
            assert!(!does.contains(&Does::Return(Return::TakePart)), "{world:?}");
            // What ZooKeeper acknowledged is in the greatest of a majority.
            let with_data = world.is.iter().filter(|is| !is.holding().base.is_empty()).count();
            assert!(with_data >= 2, "{world:?}");
            let founder = does.iter().position(|does| *does == Does::NextStep(NextStep::Found));
            let founder = founder.expect("one founds");
            for at in (0..3).filter(|at| world.hears[founder][*at]) {
                assert!(world.is[at].holding().base <= world.is[founder].holding().base);
            }
        }
    }
    assert!(founded > 100, "{founded}");
}

/// What a majority of a configuration has, not only of the list.
#[test]
fn each_configuration_that_is_named_has_to_be_left_by_a_majority() {
    let found = |of: OfLine, voters: &[u8], others: &[(u8, Standing)]| {
        let base = Base { epoch: 9, zxid: (9 << 32) + 9, accepted: 9 };
        let holding = Holding { base, left: Some(left(of)), ..Holding::default() };
        let own = 1;
        let mut others: BTreeMap<u8, Standing> = others.iter().cloned().collect();
        for its in others.values_mut() {
            if let Standing::Before(its) = its {
                its.names = Some(own);
            }
        }
        Round { own, holding, voters, others: &others }.step(true) == NextStep::Found
    };
    let holds = After::LeftOld.standing(None);
    let two = [(2, holds.clone())];
    assert!(found(of(1), &VOTERS, &two));
    // Servers 4 and 5 were added to the log, and not to the list.
    let five: Servers = (1..6).collect();
    assert!(!found(OfLine { voters: five, ..of(1) }, &VOTERS, &two));
    assert!(found(
        OfLine { voters: five, ..of(1) },
        &VOTERS,
        &[two[0].clone(), (4, holds.clone())]
    ));
    // In the middle of a change, both sets of voters.
    let outgoing: Servers = [1, 4, 5].into_iter().collect();
    assert!(!found(OfLine { outgoing, ..of(1) }, &VOTERS, &two));
    let three = [two[0].clone(), (4, holds.clone())];
    assert!(found(OfLine { outgoing, ..of(1) }, &VOTERS, &three));
    // The list names servers that were not there.
    assert!(!found(of(1), &[1, 2, 3, 4, 5], &two));
    // A member that was away knows another configuration.
    let member = |voters| of_line(7, &[], OfLine { voters, ..of(1) });
    assert!(found(of(1), &VOTERS, &[two[0].clone(), (3, member(of(1).voters))]));
    assert!(!found(of(1), &VOTERS, &[two[0].clone(), (3, member(five))]));
}

/// Restored from backups of different times, or the disks of two ensembles: nobody founds, and the
/// reason is told.
#[test]
fn what_does_not_go_together_waits_for_an_operator() {
    let told = |other: Standing| {
        let others = BTreeMap::from([(1, other), (2, After::LeftOld.standing(Some(3)))]);
        let holding = After::LeftNew.holding();
        let round = Round { own: 3, holding, voters: &VOTERS, others: &others };
        (round.step(true), round.waits_for(true, "/data"))
    };
    let with = |of: OfLine| {
        let left = Some(left(of));
        Standing::Before(Holding { left, names: Some(3), ..After::LeftOld.holding() })
    };
    assert_eq!(told(with(of(1))).0, NextStep::Found);
    let (step, text) = told(with(OfLine { line: 6, ..of(1) }));
    assert_eq!(step, NextStep::Wait);
    assert!(text.contains("members of two ensembles, 0000000000000006 and"), "{text}");
    // ZooKeeper's epochs are above all that it found: this server's record is of after what it went
    // on with.
    for standing in [
        with(OfLine { last: (5 << 32) + 1, ..of(1) }),
        of_line(7, &[], OfLine { last: (5 << 32) + 1, ..of(1) }),
    ] {
        let (step, text) = told(standing);
        assert_eq!(step, NextStep::Wait);
        assert!(text.contains("server 1 has a transaction of epoch 5"), "{text}");
        assert!(text.contains("from a backup"), "{text}");
    }
}

#[test]
fn who_left_an_ensemble_belongs_only_to_a_later_one_of_its_line() {
    let asks = |of: OfLine| of_line(8, &[3], of);
    for (asks_of, accepts, takes_seat) in [
        (of(2), true, true),
        (of(3), true, true),
        // Of the same generation it is another founding, and of another line another ensemble.
        (of(1), false, false),
        (OfLine { line: 6, ..of(2) }, false, false),
    ] {
        let others = BTreeMap::from([(1, asks(asks_of)), (2, asks(asks_of))]);
        for is in [After::LeftOld, After::LeftNew] {
            let holding = is.holding();
            let round = Round { own: 3, holding, voters: &VOTERS, others: &others };
            assert_eq!(round.accepts().is_some(), accepts, "{asks_of:?}");
            assert_eq!(round.may_go_aside(), takes_seat, "{asks_of:?}");
        }
    }
    // A member of before that answers does not keep it from that.
    let others = BTreeMap::from([(1, asks(of(2))), (2, After::Member.standing(None))]);
    let holding = After::LeftOld.holding();
    let round = Round { own: 3, holding, voters: &VOTERS, others: &others };
    assert!(round.accepts().is_some());
    assert_eq!((round.next_generation(), round.newest_epoch()), (Some((5, 2)), 4));
}

/// A member that hears no majority of its ensemble goes on all the same where nothing shows that it
/// was left: the others tell it what is wrong.
#[test]
fn a_member_among_strangers_is_told_by_them() {
    let member = |ensemble, of| of_line(ensemble, &[], of);
    let stranger = member(9, OfLine { line: 6, ..of(4) });
    let fellow = member(7, of(1));
    let left_it = After::LeftOld.standing(None);
    let empty = After::Empty.standing(None);
    let wide: Servers = (1..6).collect();
    for (others, voters, steps) in [
        (vec![], of(1).voters, [Return::Wait; 2]),
        (vec![stranger.clone()], of(1).voters, [Return::Wait, Return::TakePart]),
        (vec![stranger.clone(), empty.clone()], of(1).voters, [Return::TakePart; 2]),
        (vec![stranger.clone(), left_it.clone()], of(1).voters, [Return::Wait; 2]),
        // Another founding of the same generation.
        (vec![member(9, of(1)), empty.clone()], of(1).voters, [Return::TakePart; 2]),
        // One that has not found out yet that its own was left.
        (
            vec![member(9, OfLine { generation: 0, ..of(1) }), empty],
            of(1).voters,
            [Return::Wait; 2],
        ),
        (vec![fellow.clone()], of(1).voters, [Return::TakePart; 2]),
        (vec![fellow, left_it], of(1).voters, [Return::TakePart; 2]),
    ] {
        let others: BTreeMap<u8, Standing> = (1..).zip(others).collect();
        let left = left(OfLine { voters, ..of(1) });
        let returning = Returning { own: 3, left, asks: None, voters: &VOTERS, others: &others };
        assert_eq!([false, true].map(|is_late| returning.step(is_late)), steps, "{others:?}");
    }
    // It knows neither the list nor the members as they are now.
    let left = left(OfLine { voters: wide, ..of(1) });
    let fellow = (4, member(7, of(1)));
    for (others, steps, told) in [
        // ZooKeeper may have had the three that are silent.
        (vec![fellow.clone()], [Return::Wait; 2], "start servers 5, 6 and 7"),
        (
            vec![fellow, (5, After::Empty.standing(None))],
            [Return::Wait, Return::TakePart],
            "start servers 6 and 7",
        ),
    ] {
        let others = others.into_iter().collect();
        let voters = &[3, 4, 5, 6, 7];
        let returning = Returning { own: 3, left, asks: None, voters, others: &others };
        assert_eq!([false, true].map(|is_late| returning.step(is_late)), steps, "{others:?}");
        let text = returning.waits_for();
        assert!(text.contains(told), "{text}");
    }
}

/// Those whom a founder still asks wait for it, and it would wait for them.
#[test]
fn a_founder_that_still_asks_does_not_wait_for_those_whom_it_asks() {
    let step = |asks, others: &[(u8, After)]| {
        let others = others.iter().map(|(server, is)| (*server, is.standing(None))).collect();
        let left = left(of(1));
        let returning = Returning { own: 3, left, asks, voters: &VOTERS, others: &others };
        [false, true].map(|is_late| returning.step(is_late))
    };
    let (alone, begun) = (Some(Asks::Alone), Some(Asks::Begun));
    assert_eq!(step(alone, &[(1, After::Data)]), [Return::TakePart; 2]);
    assert_eq!(step(None, &[(1, After::Data)]), [Return::Wait; 2]);
    assert_eq!(step(alone, &[(1, After::Data), (2, After::Later)]), [Return::Leave; 2]);
    // ZooKeeper may have gone on with those who say later what they are.
    for others in [
        &[][..],
        &[(1, After::Data)],
        &[(1, After::Data), (2, After::Busy)],
        &[(1, After::Data), (2, After::Blank)],
    ] {
        assert_eq!(step(begun, others), [Return::Wait, Return::TakePart], "{others:?}");
    }
    for others in [&[(1, After::Data), (2, After::Empty)][..], &[(1, After::Member)]] {
        assert_eq!(step(begun, others), [Return::TakePart; 2], "{others:?}");
    }
    assert_eq!(step(begun, &[(1, After::Data), (2, After::LeftOld)]), [Return::Wait; 2]);
}

#[test]
fn a_minority_that_left_says_for_whom_it_waits_and_what_ends_that() {
    let told = |others: &[(u8, After)]| {
        let others = others.iter().map(|(server, is)| (*server, is.standing(None))).collect();
        let holding = After::LeftNew.holding();
        let round = Round { own: 1, holding, voters: &VOTERS, others: &others };
        assert_eq!(round.step(true), NextStep::Wait);
        round.waits_for(true, "/data")
    };
    let empty = (2, After::Empty);
    let lost = "If the data of all others is lost for good";
    for (others, parts) in [
        (&[][..], ["servers 2 and 3 do not answer", "`ferrokeeper data leave`"]),
        (&[empty], ["server 3 does not answer", "stop server 1"]),
        (&[empty, (3, After::Empty)], ["the others are empty", "stop server 1"]),
        (
            &[(2, After::Member)],
            [
                "server 2 still belongs to the earlier ensemble",
                "data held by a majority wins. Start server 3. If",
            ],
        ),
        (&[(2, After::Member)], [lost, "stop servers 1 and 2, run `ferrokeeper data leave`"]),
        (
            &[(2, After::Member), (3, After::Empty)],
            ["stop servers 1 and 2", "`ferrokeeper data leave` on the dataDir of both"],
        ),
    ] {
        let text = told(others);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    // The same to the member.
    let others = BTreeMap::from([(2, After::LeftNew.standing(None))]);
    let left = left(of(1));
    let returning = Returning { own: 1, left, asks: None, voters: &VOTERS, others: &others };
    let text = returning.waits_for();
    let parts = [
        "Start server 3. If its data directory is lost, start that server with an empty directory, \
         unless its own log says otherwise",
        lost,
        "stop servers 1 and 2, run `ferrokeeper data leave`",
    ];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
}

/// Whoever is told to leave the ensemble that others are members of: all that belonged to it, not
/// two of them.
#[test]
fn all_that_have_data_of_an_ensemble_are_told_to_leave_it_together() {
    let voters = [1, 2, 3, 4, 5];
    let member = (2, After::Member.standing(None));
    let fellows = [member, (3, After::Member.standing(None)), (4, After::LeftOld.standing(None))];
    let others: BTreeMap<u8, Standing> = fellows.into();
    let five = OfLine { voters: voters.into_iter().collect(), ..of(1) };
    let holding = Holding { left: Some(left(five)), ..After::LeftNew.holding() };
    let round = Round { own: 1, holding, voters: &voters, others: &others };
    assert_eq!(round.step(true), NextStep::Wait);
    let text = round.waits_for(true, "/data");
    assert!(text.contains("stop servers 1, 2, 3 and 4, run"), "{text}");
    let others: BTreeMap<u8, Standing> = [
        (2, After::Member.standing(None)),
        (3, After::LeftOld.standing(None)),
        (4, After::LeftNew.standing(None)),
    ]
    .into();
    let returning =
        Returning { own: 1, left: left(five), asks: None, voters: &voters, others: &others };
    let text = returning.waits_for();
    assert!(text.contains("stop servers 1, 2, 3 and 4, run"), "{text}");
}

/// ZooKeeper ran with a list that names servers which the log does not, and those acknowledged
/// writes: servers 1 and 2 are a majority of what the log names, and not of the list.
#[test]
fn a_member_goes_on_only_with_a_majority_of_the_list_and_of_the_log() {
    let fellow = (2, After::Member);
    let step = |others: &[(u8, After)], is_late| {
        let others = others.iter().map(|(server, is)| (*server, is.standing(None))).collect();
        let (left, voters) = (left(of(1)), &[1, 2, 3, 4, 5]);
        Returning { own: 1, left, asks: None, voters, others: &others }.step(is_late)
    };
    let javas = [(3, After::LeftOld), (4, After::Data), (5, After::Data)];
    let blank = [3, 4, 5].map(|server| (server, After::Blank));
    for (others, steps) in [
        ([&[fellow][..], &javas[..]].concat(), [Return::Wait; 2]),
        // They may start later.
        (vec![fellow], [Return::Wait; 2]),
        (vec![fellow, javas[1]], [Return::Wait; 2]),
        // They are new.
        (vec![fellow, (4, After::Empty)], [Return::Wait, Return::TakePart]),
        (vec![fellow, (3, After::Member)], [Return::TakePart; 2]),
        // Their disks may not be mounted.
        ([fellow].into_iter().chain(blank).collect(), [Return::Wait; 2]),
    ] {
        assert_eq!([false, true].map(|is_late| step(&others, is_late)), steps, "{others:?}");
    }
    let others = [fellow].into_iter().chain(blank);
    let others = others.map(|(server, is)| (server, is.standing(None))).collect();
    let (left_by_none, voters) = (left(of(1)), &[1, 2, 3, 4, 5]);
    let returning = Returning { own: 1, left: left_by_none, asks: None, voters, others: &others };
    let text = returning.waits_for();
    assert!(text.contains("servers 3, 4 and 5 are empty, with db.autocreate=false"), "{text}");
    // The other way round: what the log names may have been ZooKeeper's.
    let five = OfLine { voters: (1..6).collect(), ..of(1) };
    let others = BTreeMap::from([(2, of_line(7, &[], five))]);
    let returning =
        Returning { own: 1, left: left(five), asks: None, voters: &VOTERS, others: &others };
    assert_eq!([false, true].map(|is_late| returning.step(is_late)), [Return::Wait; 2]);
}

/// One that is greater comes while the next generation is being founded: what it has more was not
/// acknowledged, and goes aside.
#[test]
fn a_greater_latecomer_of_before_keeps_nobody_from_the_next_generation() {
    let founder = of_line(8, &[1, 3], of(2));
    let base = After::LeftOld.holding().base;
    let others = BTreeMap::from([(1, After::LeftNew.standing(None)), (2, founder.clone())]);
    let holding = After::LeftOld.holding();
    let round = Round { own: 3, holding, voters: &VOTERS, others: &others };
    assert!(round.accepts().expect("it is asked").is_for(8, base));
    // What no member left counts as ever.
    let others = BTreeMap::from([(1, After::Data.standing(None)), (2, founder)]);
    let round = Round { own: 3, holding, voters: &VOTERS, others: &others };
    assert!(!round.accepts().expect("it is asked").is_for(8, base));
}

/// ZooKeeper went on with servers 2 and 3, and server 1, which founded the ensemble, still asks
/// server 3.
#[test]
fn a_founder_whose_ensemble_was_left_keeps_nobody_from_the_next_generation() {
    let founder = of_line(7, &[3], of(1));
    for is in [After::Data, After::LeftNew] {
        let left = After::LeftOld.standing(Some(3));
        let others = BTreeMap::from([(1, founder.clone()), (2, left)]);
        let round = Round { own: 3, holding: is.holding(), voters: &VOTERS, others: &others };
        assert_eq!((round.step(true), round.accepts()), (NextStep::Found, None), "{is:?}");
        let others = BTreeMap::from([(1, founder.clone()), (2, of_line(8, &[3], of(2)))]);
        let round = Round { own: 3, holding: is.holding(), voters: &VOTERS, others: &others };
        assert_eq!(round.accepts().map(|its| its.ensemble), Some(8), "{is:?}");
    }
    let step = |generation, is: After| {
        let others = BTreeMap::from([(2, is.standing(None)), (3, After::Data.standing(None))]);
        let left = left(of(generation));
        let asks = Some(Asks::Begun);
        Returning { own: 1, left, asks, voters: &VOTERS, others: &others }.step(true)
    };
    assert_eq!(step(1, After::LeftOld), Return::Wait);
    // They left the one before it, and wait for its founder.
    assert_eq!(step(2, After::LeftOld), Return::TakePart);
}

/// ZooKeeper brought a follower what the others had, and nothing of its own was written.
#[test]
fn who_left_with_nothing_more_than_the_others_takes_a_seat() {
    let members = [(2, After::Member), (3, After::Member)];
    let join_with = |accepted, zxid, others: &[(u8, After)]| {
        let others = others.iter().map(|(server, is)| (*server, is.standing(None))).collect();
        let base = Base { epoch: 4, zxid, accepted };
        let holding = Holding { base, ..After::LeftOld.holding() };
        let round = Round { own: 1, holding, voters: &VOTERS, others: &others };
        (round.step(true) == NextStep::Join).then(|| round.may_go_aside())
    };
    let join = |zxid, others: &[(u8, After)]| join_with(4, zxid, others);
    let last = of(1).last;
    // The others were restored from before ZooKeeper, and have gone on to a later term.
    let restored = OfLine { last: 6 << 32, ..of(1) };
    let others = BTreeMap::from([2, 3].map(|server| (server, of_line(7, &[], restored))));
    let base = Base { epoch: 4, zxid: (4 << 32) + 1, accepted: 4 };
    let holding = Holding { base, ..After::LeftOld.holding() };
    let round = Round { own: 1, holding, voters: &VOTERS, others: &others };
    assert!(round.step(true) == NextStep::Join && !round.may_go_aside());
    // A server alone leaves the epoch as it is: what it wrote may have the zxids of what the others
    // wrote.
    assert_eq!(join_with(3, last, &members), Some(false));
    for (zxid, goes_aside) in [
        (last - 1, true),
        (last, true),
        (last + 1, false),
        // The snapshot of an epoch's beginning may show what ZooKeeper acknowledged in the one
        // before.
        (4 << 32, false),
        ((4 << 32) + 1, false),
    ] {
        assert_eq!(join(zxid, &members), Some(goes_aside), "{zxid:x}");
    }
    assert_eq!(join(last, &members[..1]), None, "one is no majority");
}

/// One that has voted in ensemble 7, of which nothing has come to it: it has acknowledged nothing
/// there, and its directory holds what ZooKeeper acknowledged.
fn without_base(server: u8) -> (u8, Standing) {
    (server, of_line(7, &[], OfLine { last: 0, lacks_base: true, held: true, ..of(1) }))
}

/// The founder's disk was lost before anybody had anything of the ensemble. What ZooKeeper
/// acknowledged lies in the directories of the others: each of them counts again, and none may be
/// emptied.
#[test]
fn members_to_whom_nothing_has_come_are_told_to_leave_together() {
    let is_told = |text: &str, words: &str, dirs: &str| {
        let leave = format!("stop {words}, run `ferrokeeper data leave` on {dirs}");
        assert!(text.contains(&leave), "{text}");
        assert!(text.contains("held before") && text.contains("used again"), "{text}");
        let but_lost = text.replace(" is lost, start that server with an empty directory", "");
        assert!(!but_lost.contains("empty"), "{text}");
    };
    let both = ("servers 1 and 2", "the dataDir of both");
    let one = |server: &'static str| (server, "its dataDir");
    for (own, is, others, (words, dirs)) in [
        (3, After::Empty, vec![without_base(1), without_base(2)], both),
        (3, After::Data, vec![without_base(1), without_base(2)], both),
        (3, After::Empty, vec![without_base(2)], one("server 2")),
        // It has left already.
        (1, After::Data, vec![without_base(2), (3, After::Empty.standing(None))], one("server 2")),
    ] {
        let others = others.into_iter().collect();
        let round = Round { own, holding: is.holding(), voters: &VOTERS, others: &others };
        assert_eq!(round.step(true), NextStep::Join);
        is_told(&round.waits_for(true, "/data"), words, dirs);
        assert!(!round.is_out_of_ensemble(), "its data may be all that there is");
    }
    // One of them that starts again, or whose founder does not know of it.
    let five: [u8; 5] = [1, 2, 3, 4, 5];
    let of = OfLine { voters: five.into_iter().collect(), ..of(1) };
    let own = left(OfLine { last: 0, lacks_base: true, held: true, ..of });
    for (others, words, dirs) in [
        (vec![], "server 1", "its dataDir"),
        (vec![without_base(2)], "servers 1 and 2", "the dataDir of both"),
        (vec![without_base(2), without_base(4)], "servers 1, 2 and 4", "the dataDir of each"),
    ] {
        let others: BTreeMap<u8, Standing> = others.into_iter().collect();
        let returning = Returning { own: 1, left: own, asks: None, voters: &five, others: &others };
        let text = returning.waits_for();
        is_told(&text, words, dirs);
        assert!(text.contains("Start server"), "{text}");
        assert_eq!(without_any_base(1, own, &five, &others).as_deref(), Some(text.as_str()));
    }
    // Somebody has it, is about to say so, or went on with more: then it comes, or that counts.
    let after = |is: After| is.standing(None);
    for other in [after(After::Member), after(After::Busy), after(After::LeftOld)] {
        let others = BTreeMap::from([without_base(2), (3, other.clone())]);
        assert_eq!(without_any_base(1, own, &VOTERS, &others), None, "{other:?}");
    }
    let others = BTreeMap::from([without_base(2), (3, Standing::Removed { ensemble: 7 })]);
    assert_eq!(without_any_base(1, own, &VOTERS, &others), None, "it had begun");
}

/// Data that belongs to no ensemble is refused beside a majority of members (row 2), and not beside
/// fewer: it may have left, as others are to.
#[test]
fn data_is_out_of_an_ensemble_only_beside_a_majority_that_has_what_it_was_founded_on() {
    let begun = |server: u8| (server, of_line(7, &[], of(1)));
    let not_begun = |server: u8| {
        let (id, asks) = (0x101, Vec::new());
        let of = of(1);
        (server, Standing::Member { id, ensemble: 7, asks, has_begun: false, configured_at: 0, of })
    };
    let empty = |server: u8| (server, After::Empty.standing(None));
    for (others, is_out) in [
        (vec![begun(2), begun(3)], true),
        (vec![begun(2), without_base(3)], false),
        (vec![not_begun(2), begun(3)], true),
        (vec![without_base(2), without_base(3)], false),
        (vec![begun(2), empty(3)], false),
        (vec![not_begun(2), not_begun(3)], false),
        // Not all have answered.
        (vec![begun(2)], false),
    ] {
        let others = others.into_iter().collect();
        let holding = After::Data.holding();
        let round = Round { own: 1, holding, voters: &VOTERS, others: &others };
        assert_eq!(round.is_out_of_ensemble(), is_out, "{others:?}");
    }
}

/// Two of five are left. Whoever says how that ends names both: the newer of the two counts, and
/// what only the older one's operator is told would be emptied.
#[test]
fn every_line_names_all_that_are_left() {
    let voters = [1, 2, 3, 4, 5];
    let five = OfLine { voters: voters.into_iter().collect(), ..of(1) };
    let member = |server| (server, of_line(7, &[], five));
    let empty = |server| (server, After::Empty.standing(None));
    let lost = "If the data of all others is lost for good, stop servers 1 and 2, run `ferrokeeper \
        data leave` on the dataDir of both, and start them again";
    // An empty server that gets no seat.
    let others = BTreeMap::from([member(1), member(2), empty(4), empty(5)]);
    let holding = After::Empty.holding();
    let round = Round { own: 3, holding, voters: &voters, others: &others };
    let text = round.waits_for(true, "/data");
    assert!(text.contains("admits this server") && text.contains(lost), "{text}");
    let emptied = "Start all others with empty directories, and keep what was in their old ones: \
        the newest data of these is then used";
    assert!(text.contains(emptied), "{text}");
    // The same where its founder asks it.
    let asking = (1, of_line(7, &[3], five));
    let others = BTreeMap::from([asking, member(2), empty(4), empty(5)]);
    let round = Round { own: 3, holding, voters: &voters, others: &others };
    assert!(round.accepts().is_some() && round.step(true) == NextStep::Join);
    let text = round.waits_for(true, "/data");
    assert!(text.contains("admits this server") && text.contains(lost), "{text}");
    // One of the two.
    let others = BTreeMap::from([member(1), empty(3), empty(4), empty(5)]);
    let returning =
        Returning { own: 2, left: left(five), asks: None, voters: &voters, others: &others };
    let text = returning.waits_for();
    assert!(text.contains(lost), "{text}");
    // One has left already: it is there with its data, which counts as well.
    let detached = Holding { detached: Some(7), ..After::Data.holding() };
    let data = (2, Standing::Before(detached));
    let others = BTreeMap::from([data, empty(3), empty(4), empty(5)]);
    let returning =
        Returning { own: 1, left: left(five), asks: None, voters: &voters, others: &others };
    let text = returning.waits_for();
    assert!(text.contains("stop server 1, run `ferrokeeper data leave` on its dataDir"), "{text}");
    assert!(text.contains("all others but server 2"), "{text}");
    let others = BTreeMap::from([member(1), empty(3), empty(4), empty(5)]);
    let round = Round { own: 2, holding: detached, voters: &voters, others: &others };
    let text = round.waits_for(true, "/data");
    assert!(text.contains("stop server 1, run `ferrokeeper data leave` on its dataDir"), "{text}");
    assert!(text.contains("all others but server 2"), "{text}");
    // What left the generation before is none of them.
    let of_later = OfLine { generation: 2, ..five };
    let others = BTreeMap::from([(1, of_line(8, &[], of_later)), empty(4), empty(5)]);
    let holding = Holding { left: Some(left(five)), ..After::LeftNew.holding() };
    let round = Round { own: 3, holding, voters: &voters, others: &others };
    let text = round.waits_for(true, "/data");
    assert!(text.contains("stop server 1, run `ferrokeeper data leave` on its dataDir"), "{text}");
}

/// One of three is left of an ensemble, and `other` answers as well as an empty server: what both
/// are told.
fn beside(other: &Standing) -> [String; 2] {
    let (empty, member) = (After::Empty.standing(None), of_line(7, &[], of(1)));
    let five = [1, 2, 3, 4, 5];
    let own = left(OfLine { voters: five.into_iter().collect(), ..of(1) });
    let others = BTreeMap::from([(2, other.clone()), (3, empty)]);
    let returning = Returning { own: 1, left: own, asks: None, voters: &five, others: &others };
    let said = returning.ends_without_others();
    let others = BTreeMap::from([(1, member), (2, other.clone())]);
    let holding = After::Empty.holding();
    [said, Round { own: 3, holding, voters: &five, others: &others }.waits_for(true, "/data")]
}

/// A wrong volume, or what a server alone went on with: by its epoch it would be what is gone on
/// with.
#[test]
fn data_of_no_ensemble_does_not_count_by_its_age_beside_members() {
    let base = Base { epoch: 9, zxid: 9 << 32 | 4, accepted: 9 };
    let begins = Begins::WithAll;
    let none = Holding { base, begins, ..Holding::default() };
    // It left another one.
    let detached = Holding { detached: Some(8), ..none };
    let of_other = Left { ensemble: 9, of: OfLine { line: 6, ..of(1) } };
    for holding in [none, detached, Holding { left: Some(of_other), ..none }] {
        for text in beside(&Standing::Before(holding)) {
            let parts = [
                "Server 2 holds data up to zxid 0x900000004 of epoch 9",
                "server 1 holds the ensemble's data up to zxid 0x300000007 of epoch 3",
                "as far as servers have said, the newest data is that of server 2",
                "find out first which data is right",
            ];
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
            assert!(!text.contains("stop server") && !text.contains("data leave"), "{text}");
        }
    }
    // Of the server that says it.
    let others = BTreeMap::from([(1, of_line(7, &[], of(1))), (3, After::Empty.standing(None))]);
    let round = Round { own: 2, holding: none, voters: &VOTERS, others: &others };
    let text = round.waits_for(true, "/data");
    assert!(text.contains("Server 2 holds data up to zxid 0x900000004 of epoch 9"), "{text}");
    assert!(!text.contains("stop server") && !text.contains("data leave"), "{text}");
}

/// It may be newer than what that was founded on, and nothing was acknowledged after that.
#[test]
fn beside_an_ensemble_that_has_not_begun_all_data_counts() {
    let of = OfLine { last: (3 << 32) + 1, ..of(1) };
    let data = (2, After::Data.standing(None));
    let others = BTreeMap::from([data.clone(), (3, After::Empty.standing(None))]);
    let returning =
        Returning { own: 1, left: left(of), asks: None, voters: &VOTERS, others: &others };
    let (id, asks) = (0x101, Vec::new());
    let member = Standing::Member { id, ensemble: 7, asks, has_begun: false, configured_at: 0, of };
    let others = BTreeMap::from([data, (1, member)]);
    let round = Round { own: 3, holding: After::Empty.holding(), voters: &VOTERS, others: &others };
    for text in [returning.ends_without_others(), round.waits_for(true, "/data")] {
        assert!(text.contains("all others but server 2") && text.contains("newest"), "{text}");
        assert!(!text.contains("move"), "{text}");
    }
}

#[test]
fn only_who_is_silent_or_has_nothing_is_to_be_emptied() {
    let leave = "stop server 1, run `ferrokeeper data leave` on its dataDir";
    for ensemble in [7, 9] {
        for text in beside(&Standing::Removed { ensemble }) {
            assert!(text.contains(leave), "{text}");
            assert!(
                text.contains("Start all others but server 2 with empty directories"),
                "{text}"
            );
        }
    }
    let another = of_line(9, &[], OfLine { line: 6, ..of(1) });
    for text in beside(&another) {
        assert!(text.contains("Move no data away before it is known"), "{text}");
        assert!(!text.contains("data leave") && !text.contains("empty"), "{text}");
    }
    // It says later what it has.
    let [_, text] = beside(&Standing::Busy(Busy::Reads));
    assert!(text.starts_with("server 2 still reads its data directory"), "{text}");
    assert!(!text.contains("data leave"), "{text}");
}

/// The marker on a majority would have that begin on nothing as soon as no member answers: no more
/// are named than are needed, and none where that is a majority, or does not help.
#[test]
fn a_member_never_has_a_majority_marked() {
    let all = [1, 2, 3, 4, 5];
    let marks = |text: &str| {
        let (_, end) = text
            .split_once("If nothing was ever there, run `touch initialize` in the dataDir of ")?;
        Some(end.to_owned())
    };
    for (others, voters, expected) in [
        // Two of five are heard: with a third one, those that are not are no majority.
        (
            vec![Some(After::Member), Some(After::Blank), Some(After::Blank), Some(After::Blank)],
            5,
            Some("server 3"),
        ),
        (vec![Some(After::Member), Some(After::Blank), None, None], 5, Some("server 3")),
        (
            vec![Some(After::Member), None, Some(After::Blank), Some(After::Blank)],
            5,
            Some("server 4"),
        ),
        // Nobody to go on with, or somebody has data: no marker changes that.
        (vec![None, Some(After::Blank), Some(After::Blank), None], 5, None),
        (vec![Some(After::Blank), Some(After::Blank)], 3, None),
        (
            vec![Some(After::Member), Some(After::Data), Some(After::Blank), Some(After::Blank)],
            5,
            None,
        ),
    ] {
        let voters = &all[..voters];
        let said =
            (2..).zip(&others).filter_map(|(server, is)| Some((server, (*is)?.standing(None))));
        let mut answers: BTreeMap<u8, Standing> = said.collect();
        let left = left(OfLine { voters: voters.iter().copied().collect(), ..of(1) });
        let text = Returning { own: 1, left, asks: None, voters, others: &answers }.waits_for();
        let named = marks(&text);
        assert_eq!(named.is_some(), expected.is_some(), "{text}");
        let Some(expected) = expected else { continue };
        assert!(named.is_some_and(|named| named.starts_with(expected)), "{text}");
        // As it says: that is enough.
        let marked = expected.trim_start_matches("server ").parse().expect("a number");
        answers.insert(marked, Is::Marked.standing(None));
        let returning = Returning { own: 1, left, asks: None, voters, others: &answers };
        assert_eq!(returning.step(true), Return::TakePart, "{text}");
    }
    // More would be needed than may be named: the ensemble has voters that this list has not.
    let five = OfLine { voters: (1..6).collect(), ..of(1) };
    for second in [Is::Blank, Is::Marked] {
        let others = BTreeMap::from([
            (2, second.standing(None)),
            (3, Is::Blank.standing(None)),
            (9, of_line(7, &[], five)),
        ]);
        let left = left(five);
        let text = Returning { own: 1, left, asks: None, voters: &VOTERS, others: &others };
        assert_eq!(marks(&text.waits_for()), None, "{second:?}");
    }
}

/// What every server of every world says while it waits, as far as that depends on what the three
/// are.
fn all_that_is_said() -> BTreeSet<String> {
    let mut said = BTreeSet::new();
    for world in worlds() {
        for own in (0..3).filter(|own| !world.is[*own].is_passive()) {
            let others = world.others(own, [None; 3]);
            let round = world.round(own, &others);
            said.extend([false, true].map(|is_late| round.waits_for(is_late, "/data")));
        }
    }
    for world in WorldAfter::all() {
        for (own, number) in VOTERS.into_iter().enumerate() {
            let (others, voters) = (&world.others(own, [None; 3]), &VOTERS);
            let left = left(of(1));
            match world.is[own] {
                After::Later | After::Busy => {}
                After::Member => {
                    let returning = Returning { own: number, left, asks: None, voters, others };
                    said.insert(returning.waits_for());
                }
                is => {
                    let round = Round { own: number, holding: is.holding(), voters, others };
                    said.extend([false, true].map(|is_late| round.waits_for(is_late, "/data")));
                }
            }
        }
    }
    // One that is asked to belong to an ensemble, and hears not all of the others.
    for asks in [&[1, 2, 3][..], &[]] {
        for has_begun in [false, true] {
            for holding in [Is::Blank, Is::Empty, Is::Marked, Is::Old].map(Is::holding) {
                for third in
                    [None, Some(Is::Blank.standing(None)), Some(member(0x103, 8, &[], true))]
                {
                    let founder = (1, member(0x101, 7, asks, has_begun));
                    let others = [founder].into_iter().chain(third.map(|its| (3, its))).collect();
                    let round = Round { own: 2, holding, voters: &VOTERS, others: &others };
                    said.extend([false, true].map(|is_late| round.waits_for(is_late, "/data")));
                }
            }
        }
    }
    said
}

/// A disk that is not mounted looks like an empty directory. Whoever reads only up to the first
/// command has read of that.
#[test]
fn the_mount_is_checked_before_the_command_that_gives_up_what_is_on_it() {
    let said = all_that_is_said();
    let marked: Vec<&String> = said.iter().filter(|text| text.contains("initialize")).collect();
    assert!(marked.len() > 20, "{}", marked.len());
    for text in marked {
        let marker = text.find("initialize");
        let mounted = text.find("mounted");
        assert!(mounted.is_some() && mounted < marker, "{text}");
        let (_, behind) = text.rsplit_once("initialize").expect("the marker");
        let (sentence, _) = behind.split_once(". ").unwrap_or((behind, ""));
        assert!(sentence.contains(": THIS LOSES "), "{text}");
    }
    let leaves = |text: &&String| text.contains("mounted") && text.contains("data leave");
    for text in said.iter().filter(leaves) {
        assert!(text.find("mounted") < text.find("data leave"), "{text}");
    }
}

/// The one with the data may be away for a moment when the last of a majority is marked: that would
/// begin on nothing.
#[test]
fn no_marker_is_offered_beside_data() {
    let five = [1, 2, 3, 4, 5];
    for (own, is, others) in [
        (1, Is::Old, vec![(2, Is::Blank), (3, Is::Blank)]),
        (2, Is::Blank, vec![(1, Is::Old), (3, Is::Blank)]),
        (2, Is::Blank, vec![(1, Is::Old), (3, Is::Marked)]),
        (1, Is::Old, vec![(2, Is::Empty), (3, Is::Blank)]),
        (1, Is::Old, vec![(2, Is::Blank), (3, Is::Blank), (4, Is::Empty), (5, Is::Empty)]),
    ] {
        let voters = if others.len() > 2 { &five[..] } else { &VOTERS };
        let others = others.into_iter().map(|(server, is)| (server, is.standing(None))).collect();
        let round = Round { own, holding: is.holding(), voters, others: &others };
        let text = round.waits_for(true, "/data");
        assert!(!text.contains("touch") && !text.contains("marker"), "{text}");
        assert!(text.contains("db.autocreate=true"), "{text}");
    }
}

/// It serves clients, and this server may have the `myid` of one of its members.
#[test]
fn nobody_is_told_to_leave_an_ensemble_that_has_a_majority() {
    for is in [After::Empty, After::Blank, After::Data] {
        let others = [1, 2].map(|server| (server, After::Member.standing(None))).into();
        let round = Round { own: 3, holding: is.holding(), voters: &VOTERS, others: &others };
        let text = round.waits_for(true, "/data");
        assert!(text.contains("belongs to an ensemble"), "{text}");
        assert!(!text.contains("data leave"), "{text}");
    }
}

/// They may be lost for good.
#[test]
fn who_lost_the_majority_says_what_ends_that_where_the_others_are_silent() {
    let others = BTreeMap::new();
    let returning =
        Returning { own: 1, left: left(of(1)), asks: None, voters: &VOTERS, others: &others };
    let text = returning.waits_for();
    assert!(text.contains("start servers 2 and 3"), "{text}");
    let leave = "stop server 1, run `ferrokeeper data leave` on its dataDir";
    assert!(text.contains(leave), "{text}");
}

/// The founder's disk is not mounted, and it answers as one that is empty: what it founded on is
/// nowhere else.
#[test]
fn nobody_counts_on_what_those_held_that_held_nothing() {
    let lacking = OfLine { lacks_base: true, ..of(1) };
    let bare = |server: u8, has_begun: bool| {
        let (id, asks) = (member_id(server, FIRST_LIFE), Vec::new());
        let of = lacking;
        (server, Standing::Member { id, ensemble: 7, asks, has_begun, configured_at: 0, of })
    };
    let empty = || (3, After::Empty.standing(None));
    for has_begun in [true, false] {
        let others = BTreeMap::from([bare(1, has_begun), empty()]);
        let holding = After::Empty.holding();
        let round = Round { own: 2, holding, voters: &VOTERS, others: &others };
        let text = round.waits_for(true, "/data");
        let mounted = "servers 2 and 3 answer with empty directories: check that their disks";
        assert!(text.contains(mounted) && !text.contains("counts"), "{text}");
    }
    let others = BTreeMap::from([bare(1, true), (3, After::Data.standing(None))]);
    let round = Round { own: 2, holding: After::Empty.holding(), voters: &VOTERS, others: &others };
    let text = round.waits_for(true, "/data");
    assert!(text.contains("the newest data of the others is then used"), "{text}");
    let others = BTreeMap::from([bare(2, true), empty()]);
    let text = without_any_base(1, left(lacking), &VOTERS, &others).expect("it says so");
    let mounted = "server 3 answers with an empty directory: check that its disk is mounted";
    assert!(text.contains(mounted) && !text.contains("counts"), "{text}");
}

/// No start of any server ends that.
#[test]
fn who_is_on_other_lists_is_told_to_correct_them() {
    let of = OfLine { voters: [3, 4, 5].into_iter().collect(), held: true, ..of(1) };
    let (id, asks) = (member_id(3, FIRST_LIFE), vec![4, 5]);
    let (ensemble, has_begun, configured_at) = (7, false, 0);
    let founder = Standing::Member { id, ensemble, asks, has_begun, configured_at, of };
    let others = BTreeMap::from([(2, Is::Empty.standing(None)), (3, founder)]);
    let holding = Is::Empty.holding();
    let round = Round { own: 1, holding, voters: &VOTERS, others: &others };
    let text = round.waits_for(true, "/data");
    assert!(text.contains("this server is not a voter: correct the list"), "{text}");
    let named = |names: u8| {
        let others = [1, 2].map(|server| (server, Is::Empty.standing(Some(names)))).into();
        Round { own: 3, holding, voters: &VOTERS, others: &others }.waits_for(true, "/data")
    };
    let text = named(4);
    assert!(text.contains("server 1 names server 4 as the founder"), "{text}");
    assert!(text.contains("correct the list that is wrong"), "{text}");
    assert!(!named(2).contains("correct"));
}

/// It is to found the ensemble, by the lists of all others, and waits for one that only its own
/// has: the marker would give up what that holds if theirs are wrong.
#[test]
fn who_waits_for_whom_nobody_else_waits_for_is_offered_no_marker() {
    let told = |named: Option<u8>, marked: bool| {
        let own = if marked { Is::Marked } else { Is::Empty };
        let others = [1, 2].map(|server| (server, Is::Empty.standing(named))).into();
        let voters = [1, 2, 3, 4];
        let round = Round { own: 3, holding: own.holding(), voters: &voters, others: &others };
        round.waits_for(true, "/data")
    };
    let text = told(Some(3), false);
    assert!(text.contains("server 1 has heard from every voter in its own list"), "{text}");
    assert!(text.contains("lists are the same") && !text.contains("touch"), "{text}");
    // They wait for it as well, or name this one because it has the marker.
    for (named, marked) in [(None, false), (Some(3), true)] {
        let text = told(named, marked);
        assert!(text.contains("touch") && !text.contains("its own list"), "{text}");
    }
}

/// A member that took part and is alone now.
#[test]
fn only_who_hears_no_majority_has_lost_it() {
    let lost = |others: &[(u8, After)]| {
        let others = others.iter().map(|(server, is)| (*server, is.standing(None))).collect();
        let (left, voters) = (left(of(1)), &VOTERS);
        Returning { own: 1, left, asks: None, voters, others: &others }.lost_majority()
    };
    let text = lost(&[]).expect("it has");
    let leave = "stop server 1, run `ferrokeeper data leave` on its dataDir";
    assert!(text.contains("start servers 2 and 3") && text.contains(leave), "{text}");
    let text = lost(&[(2, After::Busy)]).expect("it has");
    assert!(text.contains("server 2 still reads") && !text.contains("data leave"), "{text}");
    assert!(lost(&[(2, After::Empty), (3, After::Blank)]).is_some());
    assert_eq!(lost(&[(2, After::Member)]), None);
}

/// It may be silent for a moment when all that are asked have the marker, and those would begin
/// without it.
#[test]
fn a_founder_has_no_majority_marked_beside_it() {
    let voters = [1, 2, 3, 4, 5];
    let founder = (1, member(member_id(1, FIRST_LIFE), 7, &[2, 3, 4, 5], false));
    let empty = |server: u8| (server, Is::Empty.standing(None));
    for (others, is_marked) in [(vec![3], true), (vec![3, 5], false)] {
        let others = others.into_iter().map(empty).chain([founder.clone()]).collect();
        let holding = Is::Empty.holding();
        let round = Round { own: 2, holding, voters: &voters, others: &others };
        let text = round.waits_for(true, "/data");
        assert!(text.contains("asks this empty server") && text.contains(" 4"), "{text}");
        assert_eq!(text.contains("touch"), is_marked, "{text}");
    }
    // Who is blank says that it has nothing, and no marker is needed.
    let founder = (1, member(member_id(1, FIRST_LIFE), 7, &[2, 3], false));
    let others = BTreeMap::from([founder, (3, Is::Blank.standing(None))]);
    let round = Round { own: 2, holding: Is::Empty.holding(), voters: &VOTERS, others: &others };
    let text = round.waits_for(true, "/data");
    assert!(text.contains("db.autocreate=true") && !text.contains("touch"), "{text}");
}
