use super::*;
use crate::engine::time::{Monotonic, WallClock};
use crate::server::figures::distribution::Distribution;

const BEGAN: i64 = 1_700_000_000_000;

fn at(ms: u64) -> Now {
    Now { monotonic: Monotonic(5000 + ms), wall: WallClock(BEGAN + ms.cast_signed()) }
}

fn appended(range: std::ops::RangeInclusive<u64>, ms: u64) -> Vec<Appended> {
    let one = |index| Appended { index, time: BEGAN + ms.cast_signed(), bytes: 100 };
    range.map(one).collect()
}

fn peers(matched: [u64; 3]) -> Vec<Peer> {
    let peer = |(server, matched)| Peer {
        id: 0x100 + u64::from(server),
        server,
        matched,
        log: PeerLog::Follows,
        votes: server < 3,
        is_there: true,
    };
    (1..).zip(matched).map(peer).collect()
}

fn stands(leads: bool, durable: u64, committed: u64, applied: u64) -> Progress {
    Progress { leads, durable, committed, applied }
}

/// Number, least and greatest.
fn of(distribution: &Distribution) -> (u64, u64, u64) {
    let (summary, _) = distribution.since_reset();
    (summary.count, summary.min, summary.max)
}

#[test]
fn a_leader_measures_from_the_decision_to_acknowledgements_a_quorum_and_its_own_tree() {
    let (stats, mut watch) = (Stats::default(), Watch::default());
    watch.see(&stats, &[], stands(true, 10, 10, 10), &peers([10, 10, 10]), at(0));
    watch.see(&stats, &appended(11..=14, 0), stands(true, 10, 10, 10), &peers([10; 3]), at(1));
    // The second one has all, its own disk half of it.
    watch.see(&stats, &[], stands(true, 12, 12, 10), &peers([12, 14, 12]), at(5));
    watch.see(&stats, &[], stands(true, 14, 14, 14), &peers([14, 14, 12]), at(9));
    watch.see(&stats, &[], stands(true, 14, 14, 14), &peers([14, 14, 14]), at(90));
    let latency = |measure| of(stats.series.of(measure));
    assert_eq!(latency(Measure::Acknowledgement), (4, 5, 9));
    assert_eq!(latency(Measure::QuorumAck), (4, 5, 9));
    assert_eq!(latency(Measure::Propagation), (4, 9, 9));
    assert_eq!(latency(Measure::Proposal), (0, 0, 0));
    let acks = stats.series.keys(KeyedMeasure::Ack);
    let acks: Vec<_> = acks.iter().map(|(key, its)| (key.as_str(), of(its))).collect();
    // The third one only follows.
    assert_eq!(acks, [("1", (4, 5, 9)), ("2", (4, 5, 5))]);
    assert_eq!([Counter::Proposals, Counter::Commits].map(|its| stats.series.total(its)), [4, 4]);
    assert_eq!(stats.quorum.shown().proposal_size, Some([100, 100, 100]));
}

#[test]
fn a_follower_measures_what_reaches_it_and_not_what_it_had_missed() {
    let (stats, mut watch) = (Stats::default(), Watch::default());
    watch.see_role(&stats, false, Role::None, at(0));
    watch.see_role(&stats, true, Role::None, at(300));
    watch.see_role(&stats, true, Role::Follower, at(340));
    // Two of long ago, and two of now.
    let news = [appended(1..=2, 100), appended(3..=4, 400)].concat();
    watch.see(&stats, &news, stands(false, 0, 0, 0), &[], at(402));
    watch.see(&stats, &[], stands(false, 4, 3, 3), &[], at(407));
    // The last one is replaced by another leader's.
    watch.see(&stats, &appended(4..=4, 500), stands(false, 3, 3, 3), &[], at(501));
    watch.see(&stats, &[], stands(false, 4, 4, 4), &[], at(520));
    let latency = |measure| of(stats.series.of(measure));
    assert_eq!(latency(Measure::Proposal), (3, 1, 2));
    assert_eq!(latency(Measure::Acknowledgement), (3, 7, 20));
    assert_eq!(latency(Measure::CommitPropagation), (2, 7, 20));
    assert_eq!(latency(Measure::Propagation), (2, 7, 20));
    let count = |counter| stats.series.since_reset(counter);
    assert_eq!((count(Counter::LearnerProposals), count(Counter::LearnerCommits)), (5, 4));
    assert_eq!(count(Counter::Looking), 1);
    assert_eq!(latency(Measure::Election), (1, 300, 300));
    assert_eq!(latency(Measure::Unavailable), (1, 340, 340));
    assert_eq!(latency(Measure::FollowerSync), (1, 40, 40));
    assert_eq!(latency(Measure::LeaderUnavailable), (0, 0, 0));
    stats.reset();
    assert!(Measure::ALL.iter().all(|measure| latency(*measure) == (0, 0, 0)));
    assert_eq!((count(Counter::Looking), stats.series.total(Counter::Looking)), (0, 1));
}

#[test]
fn who_is_behind_is_behind_by_entries_and_bytes() {
    let (stats, mut watch) = (Stats::default(), Watch::default());
    watch.see(&stats, &appended(1..=20, 0), stands(true, 20, 20, 20), &peers([20; 3]), at(0));
    watch.see_lags(&stats, 0x101, 20, &peers([20, 17, 20]));
    let lag = |entries, bytes| Lag { entries, bytes };
    assert_eq!(stats.quorum.shown().lags, BTreeMap::from([(2, lag(3, 300)), (3, lag(0, 0))]));
    // Of very many, not each place is known: it is at least so much.
    watch.see(&stats, &appended(21..=9000, 0), stands(true, 20, 20, 20), &[], at(0));
    watch.see_lags(&stats, 0x101, 9000, &peers([20, 4501, 9000]));
    let Lag { entries, bytes } = stats.quorum.shown().lags[&2];
    assert!(entries == 4499 && (449_900..450_300).contains(&bytes), "{bytes}");
    watch.leads_no_more(&stats);
    assert!(stats.quorum.shown().lags.is_empty());
}

#[test]
fn a_leader_knows_who_is_with_it_once_it_has_looked() {
    let (stats, mut watch) = (Stats::default(), Watch::default());
    let there = || stats.quorum.shown().there;
    assert_eq!(there(), None);
    let mut others = peers([9, 9, 9]);
    others[2].is_there = false;
    watch.see_lags(&stats, 0x101, 9, &others);
    assert_eq!(there(), Some(BTreeSet::from([2])));
    // A later life of the same server.
    others.push(Peer { id: 0x203, is_there: true, ..peers([9, 9, 0])[2] });
    watch.see_lags(&stats, 0x101, 9, &others);
    assert_eq!(there(), Some(BTreeSet::from([2, 3])));
    watch.leads_no_more(&stats);
    assert_eq!(there(), None);
}

#[test]
fn it_counts_who_came_by_the_log_and_who_by_a_snapshot() {
    let (stats, mut watch) = (Stats::default(), Watch::default());
    let mut see = |logs: [PeerLog; 2], is_there: bool| {
        let mut peers = peers([9, 9, 9]);
        (peers[1].log, peers[2].log) = (logs[0], logs[1]);
        peers[2].is_there = is_there;
        watch.see_lags(&stats, 0x101, 9, &peers);
        (stats.series.total(Counter::Diffs), stats.series.total(Counter::Snapshots))
    };
    use PeerLog::{Follows, Snapshot, Unknown};
    assert_eq!(see([Unknown, Unknown], true), (0, 0));
    assert_eq!(see([Follows, Snapshot], true), (1, 1));
    assert_eq!(see([Unknown, Snapshot], true), (1, 1));
    assert_eq!(see([Follows, Unknown], true), (1, 1));
    assert_eq!(see([Follows, Follows], true), (1, 1));
    assert_eq!(see([Follows, Unknown], false), (1, 1));
    assert_eq!(see([Follows, Follows], true), (2, 1));
    // Nobody looked between its end and its return.
    let mut again = peers([9, 9, 9]);
    (again[1].log, again[2].log) = (Follows, Follows);
    watch.lost(again[2].id);
    watch.see_lags(&stats, 0x101, 9, &again);
    assert_eq!(stats.series.total(Counter::Diffs), 3);
}
