use std::collections::BTreeSet;

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
}

const ALL: [Is; 7] = [Is::Blank, Is::Empty, Is::Marked, Is::Old, Is::New, Is::Member, Is::Busy];
const VOTERS: [u8; 3] = [1, 2, 3];

impl Is {
    fn base(self) -> Base {
        match self {
            Self::Old => Base { epoch: 2, zxid: 9, accepted: 2 },
            Self::New => Base { epoch: 3, zxid: 4, accepted: 3 },
            Self::Blank | Self::Empty | Self::Marked | Self::Member | Self::Busy => Base::default(),
        }
    }

    fn holding(self) -> Holding {
        let begins = match self {
            Self::Blank | Self::Member | Self::Busy => Begins::Never,
            Self::Empty | Self::Old | Self::New => Begins::WithAll,
            Self::Marked => Begins::Marked,
        };
        Holding { base: self.base(), begins, names: None }
    }

    fn standing(self, names: Option<u8>) -> Standing {
        match self {
            Self::Member => {
                Standing::Member { id: 0x105, ensemble: 7, asks: Vec::new(), has_begun: true }
            }
            Self::Busy => Standing::Busy(Busy::Reads),
            _ => Standing::Before(Holding { names, ..self.holding() }),
        }
    }

    fn has_data(self) -> bool {
        matches!(self, Self::Old | Self::New)
    }
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
    fn steps(&self, is_late: bool) -> [Step; 3] {
        let names = [0, 1, 2].map(|own| self.round(own, &self.others(own, [None; 3])).named());
        [0, 1, 2].map(|own| match self.is[own] {
            Is::Member | Is::Busy => Step::Wait,
            _ => self.round(own, &self.others(own, names)).step(is_late),
        })
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
    let states = (0..343).map(|state| [ALL[state % 7], ALL[state / 7 % 7], ALL[state / 49]]);
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
        // What a majority has was acknowledged. The disk of one that is blank may not be mounted: it is as good as silent.
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
                if matches!(world.is[own], Is::Member | Is::Busy) {
                    continue;
                }
                let hears_member =
                    (0..3).any(|at| world.hears[own][at] && world.is[at] == Is::Member);
                if hears_member {
                    assert_eq!(step, Step::Join, "{world:?}");
                    continue;
                }
                let may = match table(&sorted(&world, own)) {
                    "now" => true,
                    "late" => is_late,
                    _ => false,
                };
                assert!(may || step == Step::Wait, "{own} of {world:?} founds");
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
                let founds = step == Step::Found;
                assert_eq!(founds, may && greatest == Some(&own), "{own} of {world:?}");
            }
        }
    }
}

#[test]
fn no_data_is_shut_out() {
    for world in worlds() {
        for (own, step) in world.steps(true).into_iter().enumerate() {
            if step != Step::Found {
                continue;
            }
            let marked = world.is.iter().filter(|is| **is == Is::Marked).count();
            // Of these it does not know what they hold.
            let is_unknown = |at: &usize| !world.hears[own][*at] || world.is[*at] == Is::Blank;
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
            let founders = world.steps(is_late).iter().filter(|step| **step == Step::Found).count();
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
        let may_not = world.is.contains(&Is::Busy) || world.is.contains(&Is::Blank) && !is_enough;
        let goes_on = steps.iter().any(|step| *step != Step::Wait);
        assert!(goes_on || may_not || world.is == [Is::Member; 3], "{world:?}");
        assert!(!(goes_on && may_not && !world.is.contains(&Is::Member)), "{world:?}");
    }
}

#[test]
fn a_founder_is_waited_for_by_those_whom_it_asks() {
    for (own, is, has_begun, steps) in [
        (2, Is::Empty, false, [Step::Wait; 2]),
        (2, Is::Old, false, [Step::Wait; 2]),
        (4, Is::Empty, false, [Step::Join; 2]),
        // Its founder may never ask it, but there is a leader.
        (2, Is::Empty, true, [Step::Wait, Step::Join]),
        (2, Is::Marked, true, [Step::Wait, Step::Join]),
        // It has something to lose, and gets no seat with it.
        (2, Is::Old, true, [Step::Wait; 2]),
        (4, Is::Empty, true, [Step::Join; 2]),
    ] {
        let founder = Standing::Member { id: 0x103, ensemble: 7, asks: vec![2], has_begun };
        let others = BTreeMap::from([(1, Is::Empty.standing(None)), (3, founder)]);
        let round = Round { own, holding: is.holding(), voters: &VOTERS, others: &others };
        let case = (own, is, has_begun);
        assert_eq!([false, true].map(|is_late| round.step(is_late)), steps, "{case:?}");
        // Who asks for a seat in vain hears how that ends.
        let is_about_seat = round.waits_for(true, "/data").contains("gives this server a seat");
        assert_eq!(is_about_seat, steps[1] == Step::Join, "{case:?}");
    }
}

/// Server 3 asks the others to belong to ensemble 7; server 1 is what is said here.
#[test]
fn nobody_belongs_to_an_ensemble_who_may_have_belonged_to_another() {
    let asks = Standing::Member { id: 0x103, ensemble: 7, asks: vec![1, 2], has_begun: false };
    let member =
        |ensemble| Standing::Member { id: 0x101, ensemble, asks: Vec::new(), has_begun: true };
    let waits =
        |ensemble| Standing::Member { id: 0x101, ensemble, asks: Vec::new(), has_begun: false };
    for (is, first, accepts, steps) in [
        (Is::Empty, Some(Is::Empty.standing(None)), true, [Step::Wait; 2]),
        (Is::Empty, Some(member(7)), true, [Step::Wait, Step::Join]),
        (Is::Empty, Some(member(8)), false, [Step::Join; 2]),
        (Is::Empty, Some(waits(8)), true, [Step::Wait; 2]),
        (Is::Old, Some(waits(8)), true, [Step::Wait; 2]),
        // It may be all that is left of another one.
        (Is::Empty, None, false, [Step::Wait, Step::Join]),
        (Is::Marked, None, true, [Step::Wait; 2]),
        (Is::Marked, Some(member(8)), false, [Step::Join; 2]),
        (Is::Old, None, true, [Step::Wait; 2]),
        (Is::Old, Some(Is::New.standing(None)), true, [Step::Wait; 2]),
        (Is::Old, Some(member(7)), true, [Step::Wait; 2]),
        (Is::Old, Some(member(8)), false, [Step::Join; 2]),
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

/// Wherever a founding of five stands still: nobody says that it has begun before a majority belongs, and whoever can have
/// acknowledged anything, which nobody does before there is a leader, says so.
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
    let asks = Standing::Member { id: 0x101, ensemble: 7, asks: vec![3], has_begun: true };
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
        let member = |server: u8, has_begun| {
            let ensemble = server.into();
            Standing::Member { id: 0x100 + ensemble, ensemble, asks: Vec::new(), has_begun }
        };
        let others = BTreeMap::from([(1, member(1, begun[0])), (2, member(2, begun[1]))]);
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

/// The log of a founder says nothing of those that refused, and it takes part: it waits for nobody.
#[test]
fn who_waits_beside_an_ensemble_that_has_not_begun_is_not_sent_to_the_log_of_its_founder() {
    let member = |server: u8, asks: &[u8]| {
        let (id, asks) = (member_id(server, FIRST_LIFE), asks.to_vec());
        (server, Standing::Member { id, ensemble: 7, asks, has_begun: false })
    };
    let [founder, accepted, unknown] = [member(3, &[2]), member(2, &[]), member(3, &[])];
    for (heard, parts) in [
        (vec![founder.clone()], ["server 3 has founded", "stop server 3, move"]),
        (vec![accepted.clone(), founder], ["server 3 has founded", "stop server 3, move"]),
        (vec![accepted], ["server 2 belongs to", "unless its log says what it waits for"]),
        (vec![unknown], ["server 3 belongs to", "unless its log says what it waits for"]),
    ] {
        let others = heard.into_iter().collect();
        let (own, holding) = (1, Is::New.holding());
        let told = Round { own, holding, voters: &VOTERS, others: &others }.waits_for(true, "/d");
        assert!(told.contains("an ensemble that has not begun"), "{told}");
        assert!(told.contains("start all other servers"), "{told}");
        assert!(told.contains("move its data directory away, keep it"), "{told}");
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    }
}

/// Two founders whom nobody has answered, and who belong to each other's ensembles never: the third is free for the first
/// that asks.
#[test]
fn two_lone_founders_keep_nobody_from_belonging() {
    let founder = |server: u8, asks: &[u8]| {
        let (id, ensemble) = (member_id(server, FIRST_LIFE), server.into());
        (server, Standing::Member { id, ensemble, asks: asks.to_vec(), has_begun: false })
    };
    for is in [Is::Empty, Is::Marked, Is::Old, Is::New] {
        let others = BTreeMap::from([founder(1, &[2, 3]), founder(2, &[1, 3])]);
        let round = Round { own: 3, holding: is.holding(), voters: &VOTERS, others: &others };
        assert_eq!(round.accepts().map(|its| its.ensemble), Some(1), "{is:?}");
        assert_eq!([false, true].map(|is_late| round.step(is_late)), [Step::Wait; 2], "{is:?}");
        assert!(!round.has_begun(), "with data it does not end");
    }
}

/// A silent voter is given up after a while; one that is there is not, and no marker is offered for it.
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
                    assert_eq!(round.step(is_late), Step::Wait, "{is:?}");
                    let told = round.waits_for(is_late, "/data");
                    assert!(told.contains(text) && !told.contains("touch"), "{told}");
                    assert_eq!(told.contains("server 1 does not answer"), silent, "{told}");
                }
            }
        }
    }
    // It may be the founder of the one that has not begun.
    let (id, ensemble, asks) = (0x101, 7, Vec::new());
    let member = Standing::Member { id, ensemble, asks, has_begun: false };
    let others = BTreeMap::from([(1, member), (3, Standing::Busy(Busy::Reads))]);
    let round = Round { own: 2, holding: Is::Old.holding(), voters: &VOTERS, others: &others };
    let told = round.waits_for(true, "/data");
    assert!(told.contains("server 3 still reads") && !told.contains("stop server 1"), "{told}");
    // An observer may have data that counts against a marker, but no data has to wait for it.
    for (is, step) in [(Is::Marked, Step::Wait), (Is::Old, Step::Found)] {
        let others = BTreeMap::from([(1, is.standing(Some(2))), (4, Standing::Busy(Busy::Reads))]);
        let round = Round { own: 2, holding: is.holding(), voters: &VOTERS, others: &others };
        assert_eq!(round.step(true), step, "{is:?}");
    }
}

/// One that ends whenever it has read for a while, and is started again, does not keep the others from going on for ever.
#[test]
fn only_the_first_process_of_a_server_that_is_busy_takes_time_back() {
    let second = Duration::from_secs(1);
    for (rounds, waited) in [
        // Nobody was ever busy.
        (vec![None, None, None], 3),
        (vec![None, Some(7), None], 1),
        // It misses a question.
        (vec![Some(7), None, None, Some(7)], 0),
        (vec![Some(7), None, None, Some(7), None], 1),
        (vec![Some(7), None, Some(8), None, Some(9)], 4),
    ] {
        let (mut patience, mut now) = (Patience::default(), Duration::ZERO);
        for busy in &rounds {
            now += second;
            patience.heard(busy.map(|process| (3, process)).into_iter(), now);
        }
        assert_eq!(patience.waited(now), second * waited, "{rounds:?}");
    }
}

/// What a disk that is not mounted hides may be all that is left of another ensemble.
#[test]
fn an_emptied_server_belongs_to_nothing_beside_one_that_is_blank() {
    let asks = Standing::Member { id: 0x103, ensemble: 7, asks: vec![1, 2], has_begun: false };
    for (first, accepts) in [(Is::Blank, false), (Is::Empty, true), (Is::Marked, true)] {
        for own in [Is::Blank, Is::Empty] {
            let others = BTreeMap::from([(1, first.standing(None)), (3, asks.clone())]);
            let round = Round { own: 2, holding: own.holding(), voters: &VOTERS, others: &others };
            assert_eq!(round.accepts().is_some(), accepts, "{first:?} {own:?}");
            let told = round.waits_for(false, "/data");
            assert_eq!(told.contains("what server 1 had may not be mounted"), !accepts, "{told}");
        }
    }
}

/// An observer is no part of a majority, names nobody alone, and founds nothing; but its data counts against a marker.
#[test]
fn observers_found_nothing() {
    let step = |own: u8, is: Is, others: &[(u8, Is)]| {
        let names = Some(own);
        let others = others.iter().map(|(server, is)| (*server, is.standing(names))).collect();
        Round { own, holding: is.holding(), voters: &VOTERS, others: &others }.step(true)
    };
    assert_eq!(step(4, Is::New, &[(1, Is::Old), (2, Is::Old), (3, Is::Old)]), Step::Wait);
    assert_eq!(step(1, Is::Old, &[(4, Is::New)]), Step::Wait);
    assert_eq!(step(2, Is::Marked, &[(1, Is::Marked), (4, Is::New)]), Step::Wait);
    assert_eq!(step(2, Is::Marked, &[(1, Is::Marked), (4, Is::Empty)]), Step::Found);
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
        (told(1, Is::Old, &[(2, Is::New)], false), ["server 3 does not", "after initLimit"]),
        (
            told(1, Is::Old, &[(2, Is::New)], true),
            ["server 3 does not", "server 2, which is to found"],
        ),
        (
            told(1, Is::Empty, &[(2, Is::Member)], true),
            ["server 2 belongs to an", "`rookeeper data leave`"],
        ),
        (
            told(1, Is::Blank, &[(2, Is::Blank), (3, Is::Empty)], true),
            ["db.autocreate=false", "`touch /data/initialize`"],
        ),
        (
            told(1, Is::Old, &[(2, Is::Blank), (3, Is::Blank)], true),
            [
                "newer data than that of server 1",
                "check that their disks are mounted. If there is none on servers 2 and 3, run",
            ],
        ),
        (
            told(1, Is::Old, &[(2, Is::New), (3, Is::Blank)], false),
            ["after initLimit", "directory of server 3 is empty, with db.autocreate=false"],
        ),
        (
            told(1, Is::Blank, &[(2, Is::Empty)], true),
            ["server 3 does not", "directory of server 1 is empty, with db.autocreate=false"],
        ),
        (
            told(3, Is::Empty, &[(1, Is::Empty), (2, Is::Empty)], true),
            ["no majority of them names this server", "reach each other"],
        ),
    ] {
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}
