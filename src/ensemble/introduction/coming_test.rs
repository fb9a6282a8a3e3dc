//! What a server does from one round of questions to the next: what it remembers of the rounds
//! before.

use std::sync::Arc;

use super::*;
use crate::engine::database::Rules;
use crate::ensemble::founding::Unfit;
use crate::ensemble::raft::{Before, Ensemble, FIRST_LIFE, member_id};
use crate::ensemble::standing::{Base, Busy, OfLine, Servers};
use crate::storage::sim::SimDisk;
use crate::storage::{
    DataDirectory, DirectoryOptions, LogOptions, Members, Over, RaftState, RecoveryOptions,
};

const LIMIT: u64 = 10;
const ENSEMBLE: u64 = 7;

/// A server of three, and what it is.
struct Here {
    coming: Coming,
    introduction: Introduction,
    begins: Begins,
}

impl Here {
    fn new(server: u8, introduction: Introduction) -> Self {
        let words = ("/data".to_owned(), "ferrokeeper data leave".to_owned());
        let limit = Duration::from_secs(LIMIT);
        let coming = Coming::new(server, vec![1, 2, 3], limit, words);
        Self { coming, introduction, begins: Begins::WithAll }
    }

    /// One that belongs to no ensemble, with an empty directory that is taken for what is said.
    fn before(server: u8, base: Base, left: Option<Left>) -> Self {
        let disk = Arc::new(SimDisk::default());
        let options = DirectoryOptions {
            data_dir: "/data".into(),
            data_log_dir: "/data".into(),
            create: true,
        };
        let directory = Arc::new(DataDirectory::open(disk, &options).expect("opens"));
        let log = LogOptions { segment_len: 4096, spares: 0, force_sync: true };
        let recovery = RecoveryOptions { trust_empty: false, log };
        let (rules, seed, zxids_a_term) = (Rules::default(), 1, u32::MAX);
        let (list, standalone_enabled) = (None, true);
        let how =
            Ensemble { server, recovery, rules, seed, zxids_a_term, list, standalone_enabled };
        let before = Box::new(Before::read(directory, &how).expect("reads"));
        let holding = Holding { base, left, ..Holding::default() };
        Self::new(server, Introduction::Before(before, holding, None))
    }

    /// What it does `now` seconds after the first round, and what it has to say.
    fn tell(&mut self, now: u64, others: &[(u8, u64, Standing)]) -> (Deed, String) {
        let standings = others.iter().map(|(server, _, its)| (*server, its.clone())).collect();
        let processes =
            others.iter().map(|(server, process, _)| (*server, ProcessId(*process))).collect();
        let heard = Heard { standings, processes, ..Heard::default() };
        let next = self.coming.next(&mut self.introduction, self.begins).expect("the disk holds");
        let now = Duration::from_secs(now);
        let (deed, text) = self.coming.heard(&mut self.introduction, None, next, &heard, now);
        (deed, text.unwrap_or_default())
    }

    /// What it has to say where somebody refuses.
    fn tell_refused(&mut self, others: &[(u8, u64, Standing)], refusal: (u8, &str)) -> String {
        let standings = others.iter().map(|(server, _, its)| (*server, its.clone())).collect();
        let processes =
            others.iter().map(|(server, process, _)| (*server, ProcessId(*process))).collect();
        let refusals = BTreeMap::from([(refusal.0, refusal.1.to_owned().into())]);
        let heard = Heard { standings, processes, refusals };
        let next = self.coming.next(&mut self.introduction, self.begins).expect("the disk holds");
        let (_, text) =
            self.coming.heard(&mut self.introduction, None, next, &heard, Duration::ZERO);
        text.expect("it waits")
    }

    /// Its directory ends with this record.
    fn ends_with(&mut self, record: LastRecord) {
        let Introduction::Before(before, holding, welcome) = std::mem::take(&mut self.introduction)
        else {
            panic!("it belongs to an ensemble")
        };
        let before = Box::new(before.ending_with(record));
        self.introduction = Introduction::Before(before, holding, welcome);
    }

    fn hear(&mut self, now: u64, others: &[(u8, u64, Standing)]) -> Deed {
        self.tell(now, others).0
    }

    /// Which server it names to found the ensemble.
    fn names(&mut self) -> Option<u8> {
        match self.coming.next(&mut self.introduction, self.begins).expect("the disk holds") {
            Next::Comes(holding) => holding.names,
            other => panic!("{other:?}"),
        }
    }
}

fn of(generation: u64) -> OfLine {
    let voters: Servers = [1, 2, 3].into_iter().collect();
    OfLine { line: 4, generation, term: 3, voters, ..OfLine::default() }
}

const DATA: Base = Base { epoch: 5, zxid: 5 << 32 | 9, accepted: 5 };

fn left(generation: u64) -> Left {
    Left { ensemble: ENSEMBLE + generation, of: of(generation) }
}

fn before(holding: Holding, names: u8) -> Standing {
    Standing::Before(Holding { names: Some(names), ..holding })
}

fn member(server: u8, generation: u64, asks: &[u8]) -> Standing {
    Standing::Member {
        id: member_id(server, FIRST_LIFE),
        ensemble: ENSEMBLE + generation,
        asks: asks.to_vec(),
        has_begun: true,
        configured_at: 0,
        of: of(generation),
    }
}

fn founds(deed: &Deed) -> bool {
    matches!(deed, Deed::Founds(_))
}

/// It is started again, or one question was lost: what it belongs to serves clients.
#[test]
fn a_member_that_is_silent_for_a_moment_is_not_founded_beside() {
    let fellow = |its| {
        (1, 11, before(Holding { base: DATA, left: Some(left(1)), ..Holding::default() }, its))
    };
    let mut here = Here::before(2, DATA, Some(left(1)));
    for now in [0, 6, 12] {
        assert!(!founds(&here.hear(now, &[fellow(2), (3, 13, member(3, 2, &[]))])), "{now}");
        assert_eq!(here.names(), None, "{now}");
    }
    for now in [13, 21] {
        let (deed, text) = here.tell(now, &[fellow(2)]);
        assert_eq!(deed, Deed::Waits, "{now}");
        assert!(text.contains("server 3 belongs to an ensemble and no longer answers"), "{text}");
        assert_eq!(here.names(), None, "{now}");
    }
    assert!(founds(&here.hear(22, &[fellow(2)])));
    assert_eq!(here.names(), Some(2));
}

/// What is marked waits for nobody who is silent, but for who was there a moment ago.
#[test]
fn a_marked_majority_founds_nothing_beside_a_member_that_is_silent_for_a_moment() {
    let fellow = (2, 12, before(Holding { begins: Begins::Marked, ..Holding::default() }, 3));
    let mut here = Here::before(3, Base::default(), None);
    here.begins = Begins::Marked;
    here.hear(0, &[fellow.clone(), (1, 11, member(1, 1, &[]))]);
    for now in [1, 9] {
        assert_eq!(here.hear(now, std::slice::from_ref(&fellow)), Deed::Waits, "{now}");
    }
    assert!(founds(&here.hear(10, &[fellow])));
}

/// It says that it is none, or the others show that its ensemble is over: that is not waited for.
#[test]
fn who_was_a_member_keeps_nobody_from_founding() {
    let holding = Holding { base: DATA, left: Some(left(1)), ..Holding::default() };
    let fellow = (1, 11, before(holding, 2));
    let empty = Holding { begins: Begins::WithAll, ..Holding::default() };
    for (first, second) in [
        (vec![fellow.clone(), (3, 13, member(3, 2, &[]))], (3, 13, before(empty, 2))),
        // A majority is not heard yet that left the ensemble of the third.
        (vec![(3, 13, member(3, 1, &[]))], (3, 13, member(3, 1, &[]))),
    ] {
        let mut here = Here::before(2, DATA, Some(left(1)));
        assert!(!founds(&here.hear(0, &first)), "{first:?}");
        assert!(founds(&here.hear(1, &[fellow.clone(), second.clone()])), "{second:?}");
    }
}

/// Without it, data of a majority is founded on once who is silent was waited for.
#[test]
fn who_was_busy_is_waited_for_from_then_on() {
    let fellow = (1, 11, before(Holding { base: DATA, ..Holding::default() }, 2));
    let reads = |process| (3, process, Standing::Busy(Busy::Reads));
    let blank = || (3, 13, before(Holding::default(), 2));
    for (heard, until) in [
        (vec![], LIMIT),
        (vec![(4, reads(13))], 14),
        // Its second process takes no time back, but it said what it is in between.
        (vec![(4, reads(13)), (7, reads(14))], 14),
        (vec![(4, reads(13)), (5, blank()), (7, reads(14))], 17),
    ] {
        let mut here = Here::before(2, DATA, None);
        for now in 0..=until {
            let third = heard.iter().find(|(at, _)| *at == now).map(|(_, its)| its.clone());
            let others: Vec<_> = third.into_iter().chain([fellow.clone()]).collect();
            assert_eq!(founds(&here.hear(now, &others)), now == until, "{now}: {heard:?}");
        }
    }
}

/// What a raft.state says of server 1, which has founded, or of who has accepted that.
fn state(server: u8, has_begun: bool) -> RaftState {
    let Left { ensemble, of: OfLine { line, generation, .. } } = left(1);
    let voters = (1..=3).map(|server| member_id(server, FIRST_LIFE)).collect();
    let members = Members { voters, ..Members::default() };
    let (id, term) = (member_id(server, FIRST_LIFE), 3);
    let founded_in = term - u64::from(has_begun);
    RaftState { id, ensemble, line, generation, term, founded_in, members, ..RaftState::default() }
}

/// It may answer again at any time, and know of who has accepted it.
#[test]
fn a_founder_that_was_heard_is_waited_for_from_then_on() {
    let awaits = member_id(1, FIRST_LIFE);
    let fellow = (2, 12, member(2, 1, &[]));
    let seat = |deed: &Deed| matches!(deed, Deed::AsksForSeat { .. });
    for heard in [None, Some(4), Some(9)] {
        let state = RaftState { awaits, ..state(3, true) };
        let mut here = Here::new(3, Introduction::of_member(&state, 0));
        let until = heard.unwrap_or(0) + LIMIT;
        for now in 0..=until {
            let founder = (heard == Some(now)).then(|| (1, 11, member(1, 1, &[3])));
            let others: Vec<_> = founder.into_iter().chain([fellow.clone()]).collect();
            assert_eq!(seat(&here.hear(now, &others)), now == until, "{now}: {heard:?}");
        }
        let founder = (1, 11, member(1, 1, &[]));
        assert_eq!(here.hear(until, &[founder, fellow.clone()]), Deed::TakesPart);
    }
}

/// A majority has begun without those whom it still asks: ZooKeeper may have gone on with what they
/// hold.
#[test]
fn a_founder_whose_ensemble_has_begun_hears_the_others_first() {
    let fellow = (2, 12, before(Holding { base: DATA, ..Holding::default() }, 2));
    for (has_begun, waits) in [(false, 0), (true, LIMIT)] {
        let state = RaftState { asks: vec![2, 3], ..state(1, has_begun) };
        let mut here = Here::new(1, Introduction::of_member(&state, 0));
        for now in 0..=waits {
            let goes_on = here.hear(now, std::slice::from_ref(&fellow)) == Deed::GoesOn;
            assert_eq!(goes_on, now == waits, "{now}: {has_begun}");
        }
    }
}

/// A leader tells by that whether another directory may have the seat that it knows of.
#[test]
fn who_was_taken_out_says_as_which_member_it_asks() {
    let state = RaftState { over: Some(Over::Removed), ..state(3, true) };
    let mut here = Here::new(3, Introduction::of_member(&state, 0));
    let (members, was) = (vec![(2, ENSEMBLE + 1)], Some(member_id(3, FIRST_LIFE)));
    let deed = here.hear(0, &[(2, 12, member(2, 1, &[]))]);
    assert_eq!(deed, Deed::AsksForSeat { members, was, ends_with: None });
}

/// ZooKeeper went on twice with what it has, and the others were restored from before that: they
/// have gone on to later zxids. Only their leader tells that what it has is another history, and
/// nothing goes aside before.
#[test]
fn what_zookeeper_acknowledged_in_an_earlier_epoch_of_its_own_does_not_go_aside() {
    let zxid = 5 << 32 | 5;
    let holding = Base { epoch: 5, zxid, accepted: 6 };
    let member = |server: u8| match member(server, 1, &[]) {
        Standing::Member { id, ensemble, asks, has_begun, configured_at, of } => {
            let of = OfLine { term: 7, last: 7 << 32 | 2, ..of };
            (server, 10, Standing::Member { id, ensemble, asks, has_begun, configured_at, of })
        }
        other => panic!("{other:?}"),
    };
    let others = [member(2), member(3)];
    let record = LastRecord { zxid, time: 5, checksum: 5 };
    let leaves = |here: &mut Here| {
        let (deed, text) = here.tell(1, &others);
        assert_eq!(deed, Deed::Waits);
        assert!(text.contains("is not known to have everything that ZooKeeper wrote"), "{text}");
        assert!(text.contains("up to zxid 0x500000005"), "{text}");
        let ends = Deed::Ends { zxid, has_left: true };
        assert_eq!(here.hear(LIMIT, &others), ends);
    };
    let mut here = Here::before(1, holding, Some(left(1)));
    here.ends_with(record);
    let asks = |ends_with| Deed::AsksForSeat {
        members: vec![(2, ENSEMBLE + 1), (3, ENSEMBLE + 1)],
        was: None,
        ends_with,
    };
    assert_eq!(here.hear(0, &others), asks(Some(record)));
    here.introduction.is_lacked();
    leaves(&mut here);
    // Without a record it has nothing to ask with.
    let mut here = Here::before(1, holding, Some(left(1)));
    leaves(&mut here);
    // Of a generation that a majority founded without it, all that it has goes aside.
    let mut here = Here::before(1, holding, Some(left(0)));
    here.ends_with(record);
    assert_eq!(here.hear(0, &others), asks(None));
}

/// It runs, and its list or its secret is another one: it may have what counts.
#[test]
fn beside_a_refusal_nothing_is_given_up() {
    let empty = (3, 13, before(Holding { begins: Begins::WithAll, ..Holding::default() }, 3));
    let refuses = "refuses: server 2 is not in the list of server 1";
    let awaits =
        |server: u8| RaftState { awaits: member_id(1, FIRST_LIFE), ..state(server, false) };
    let here = |which: u8| match which {
        0 => Here::before(2, Base::default(), None),
        1 => Here::before(2, DATA, None),
        2 => Here::new(2, Introduction::of_member(&state(2, true), 0)),
        _ => Here::new(2, Introduction::of_member(&awaits(2), 0)),
    };
    for which in 0..4 {
        for others in [vec![], vec![empty.clone()]] {
            let text = here(which).tell_refused(&others, (1, refuses));
            assert!(text.starts_with(&format!("server 1 {refuses}")), "{text}");
            assert!(!text.contains("initialize") && !text.contains("data leave"), "{text}");
            assert!(!text.contains("server 1 does not answer"), "{text}");
            assert_eq!(text.contains("server 3 does not answer"), others.is_empty(), "{text}");
            // One that does not vote keeps nobody waiting.
            let text = here(which).tell_refused(&others, (4, refuses));
            assert!(!text.contains("refuses"), "{text}");
        }
    }
}

/// There may be nothing to correct: one of the two ensembles is the right one.
#[test]
fn who_belongs_to_another_ensemble_says_so_and_nothing_is_to_be_moved() {
    let said = "refuses: server 2 belongs to ensemble a, and server 1 to b".to_owned();
    let refusals = BTreeMap::from([(1, Refuses { said, is_of_another: true })]);
    let text = refused(2, &[1, 2, 3], &BTreeMap::new(), &refusals).expect("it says so");
    assert!(text.starts_with("server 1 refuses: server 2 belongs to ensemble a"), "{text}");
    assert!(!text.contains("Correct that first"), "{text}");
    assert!(text.contains("Move no data away") && text.contains("server 3 does not"), "{text}");
}

/// The ensemble serves clients: what its leader says is the only reason.
#[test]
fn who_gets_no_seat_says_why() {
    let why = "does not admit this server yet: another process runs as server 2 from 10.0.0.7";
    let members = [(1, 11, member(1, 1, &[])), (3, 13, member(3, 1, &[]))];
    let text = Here::before(2, Base::default(), None).tell_refused(&members, (1, why));
    assert_eq!(text, format!("server 1 {why}"));
}

/// Its disk is not mounted: it runs already, and nobody has what it had.
#[test]
fn a_founder_that_answers_as_empty_is_to_have_its_disk_mounted() {
    let empty = Holding { begins: Begins::WithAll, ..Holding::default() };
    let awaits = member_id(1, FIRST_LIFE);
    for held in [0, 9] {
        let state = RaftState { awaits, own: (0, held), ..state(3, false) };
        let mut here = Here::new(3, Introduction::of_member(&state, 0));
        let (_, text) = here.tell(0, &[(1, 11, before(empty, 1))]);
        assert!(text.contains("server 1 has founded the ensemble"), "{text}");
        let mounted = "answers with an empty directory: check that its disk is mounted";
        assert!(text.contains(mounted) && !text.contains("start it. "), "{text}");
        assert_eq!(text.contains("restores what it held before"), held != 0, "{text}");
    }
}

/// What server 2, which has data, says beside these after it declined what server 1 has founded.
fn declines(unfit: Unfit, others: &[(u8, u64, Standing)]) -> String {
    let mut here = Here::before(2, DATA, None);
    let standings = others.iter().map(|(server, _, its)| (*server, its.clone())).collect();
    let heard = Heard { standings, ..Heard::default() };
    let next = here.coming.next(&mut here.introduction, here.begins).expect("the disk holds");
    // As its founder knew when it asked.
    let declined = Declined { founder: 1, ensemble: ENSEMBLE + 1, has_begun: false, unfit };
    let Here { coming, introduction, .. } = &mut here;
    let (_, text) = coming.heard(introduction, Some(declined), next, &heard, Duration::ZERO);
    text.expect("it waits")
}

/// Its founder was away when the others began.
#[test]
fn nobody_is_told_to_dissolve_an_ensemble_that_another_member_knows_to_have_begun() {
    let founder = |has_begun: bool| (1, 11, asks_second(has_begun));
    let base = Base::default();
    let unfit = Unfit::HasMore { own: DATA, base };
    for (others, has_begun) in [
        (vec![founder(false)], false),
        (vec![founder(true)], true),
        (vec![founder(false), (3, 13, member(3, 1, &[]))], true),
        (vec![founder(false), (3, 13, Standing::Removed { ensemble: ENSEMBLE + 1 })], true),
    ] {
        let text = declines(unfit, &others);
        assert_eq!(text.contains("has not begun"), !has_begun, "{text}");
        assert_eq!(text.contains("data leave"), !has_begun, "{text}");
    }
}

/// Server 1, which has founded an ensemble and asks server 2 to belong to it.
fn asks_second(begun: bool) -> Standing {
    match member(1, 1, &[2]) {
        Standing::Member { id, ensemble, asks, configured_at, of, .. } => {
            Standing::Member { id, ensemble, asks, has_begun: begun, configured_at, of }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_declines_names_the_newest_data_only_where_it_is_heard() {
    let newest = Base { epoch: 5, zxid: 5 << 32 | 30, accepted: 5 };
    let has = |base| (3, 13, before(Holding { base, ..Holding::default() }, 3));
    let founder = || (1, 11, asks_second(false));
    let another = Unfit::AnotherHasMore { newest, base: Base::default() };
    let more = Unfit::HasMore { own: DATA, base: Base::default() };
    let named = |server: u8| format!("The newest data is that of server {server}.");
    for (unfit, others, names) in [
        (another, vec![founder(), has(newest)], Some(3)),
        // It was heard when it was asked, and is silent now.
        (another, vec![founder()], None),
        (more, vec![founder()], Some(2)),
        (more, vec![founder(), has(newest)], Some(3)),
        // Its founder may have more.
        (Unfit::NotListed, vec![founder()], None),
        (Unfit::HasAccepted { epoch: 7, term: 7 }, vec![founder()], None),
    ] {
        let text = declines(unfit, &others);
        assert!(text.contains("does not join it"), "{text}");
        match names {
            Some(server) => assert!(text.contains(&named(server)), "{text}"),
            None => assert!(!text.contains("The newest data is"), "{text}"),
        }
    }
}
