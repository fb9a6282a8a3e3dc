//! How old what a read shows may be: after a sync, and without one. A server reads at some time
//! between the question and the answer; what the run did itself says how early that can have been.

use std::collections::HashMap;

use crate::history::{Entry, Nanos};
use crate::timeline::{Stop, Timeline};

/// Longer than TCP waits before it first sends again what was lost. It waits twice as long each
/// time after that.
const RETRY: Nanos = 1_000_000_000;

/// A read after a sync shows what was acknowledged before the sync was asked for.
pub(crate) fn reads_behind_a_sync_show_what_was_written(
    entries: &[Entry],
    found: &mut Vec<String>,
) {
    let synced = reads(entries).filter_map(|get| Some((get.synced?, get)));
    for (get, missed) in missed(entries, synced) {
        found.push(format!("{get:?} after a sync does not show {missed:?}"));
    }
}

/// A read shows what was acknowledged `age` before the server read it. `way` is the longest that an
/// answer takes to come where nothing stands in its way.
pub(crate) fn reads_are_not_older(
    entries: &[Entry],
    (age, way): (Nanos, Nanos),
    timeline: &Timeline,
    found: &mut Vec<String>,
) {
    let aged = reads(entries).map(|get| {
        let read = earliest(get, way, timeline);
        (read.saturating_sub(age), get)
    });
    for (get, missed) in missed(entries, aged) {
        found.push(format!("{get:?} is too old: it does not show {missed:?}"));
    }
}

/// How many reads a server was asked for while it stood, and answered after that.
pub(crate) fn asked_of_who_stood(entries: &[Entry], timeline: &Timeline) -> usize {
    reads(entries).filter(|get| woken(get, timeline).is_some()).count()
}

fn reads(entries: &[Entry]) -> impl Iterator<Item = &Entry> {
    entries.iter().filter(|entry| entry.op == "get" && entry.is_ok())
}

/// The reads that do not show what was acknowledged before the moment beside them, each with the
/// latest of it.
fn missed<'a>(
    entries: &'a [Entry],
    reads: impl Iterator<Item = (Nanos, &'a Entry)>,
) -> Vec<(&'a Entry, &'a Entry)> {
    let mut by_end: Vec<&Entry> =
        entries.iter().filter(|entry| entry.op == "set" && entry.is_ok()).collect();
    by_end.sort_by_key(|entry| entry.to);
    let mut reads: Vec<(Nanos, &Entry)> = reads.collect();
    reads.sort_by_key(|(before, _)| *before);
    let mut ended = by_end.into_iter().peekable();
    let mut latest: HashMap<&str, &Entry> = HashMap::new();
    let mut missed = Vec::new();
    for (before, get) in reads {
        while let Some(set) = ended.next_if(|set| set.to < before) {
            let known = latest.entry(&set.path).or_insert(set);
            if known.version < set.version {
                *known = set;
            }
        }
        if let Some(set) = latest.get(get.path.as_str()).filter(|set| set.version > get.version) {
            missed.push((get, *set));
        }
    }
    missed
}

/// It was not read before it was asked for, not by who stood, and not so long before the answer
/// came that it would have come earlier.
fn earliest(get: &Entry, way: Nanos, timeline: &Timeline) -> Nanos {
    let woken = woken(get, timeline).unwrap_or_default();
    get.from.max(woken).max(sent(get, way, timeline))
}

/// When the server went on, if it stood while it was asked.
fn woken(get: &Entry, timeline: &Timeline) -> Option<Nanos> {
    let stood = |stop: &&Stop| {
        get.at == Some(stop.server) && (stop.stood_from..stop.stood_until).contains(&get.from)
    };
    timeline.stops.iter().find(stood).map(|stop| stop.stood_until)
}

/// No earlier than this its answer was on its way. What was sent while something stood in the way
/// may come after that is over, by as long as it had been under way then: so TCP sends again. Where
/// one thing follows on another within that time, it can have been held by both.
fn sent(get: &Entry, way: Nanos, timeline: &Timeline) -> Nanos {
    let over = |(from, to): (Nanos, Nanos)| {
        to.saturating_add(to.saturating_sub(from)).saturating_add(RETRY + way)
    };
    let mut held: Option<(Nanos, Nanos)> = None;
    for (from, to) in holds(get, timeline) {
        let from = from.max(get.from);
        held = Some(match held {
            Some(held) if from <= over(held) => (held.0, held.1.max(to)),
            _ => (from, to),
        });
    }
    let held = held.filter(|held| get.to <= over(*held));
    held.map_or(get.to, |(from, _)| from).saturating_sub(way)
}

/// What may have stood in the way of its answer, from when to when, in the order of the beginnings.
/// A server that is stopped with an answer in its hands gives it when it goes on; one that it was
/// asked for while it stood was not in its hands.
fn holds(get: &Entry, timeline: &Timeline) -> Vec<(Nanos, Nanos)> {
    let of = |server: u8| get.at.is_none_or(|at| at == server);
    let ways = timeline.holds.iter().filter(|hold| of(hold.server) && hold.host == get.host);
    let stops = timeline.stops.iter().filter(|stop| of(stop.server) && get.from < stop.stood_from);
    let mut holds: Vec<(Nanos, Nanos)> = ways
        .map(|hold| (hold.from, hold.to))
        .chain(stops.map(|stop| (stop.ran_until, stop.ran_from)))
        .filter(|(from, _)| *from <= get.to)
        .collect();
    holds.sort_unstable();
    holds
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;
    const AGE: Nanos = 2_500;
    const WAY: Nanos = 1_000;

    /// In milliseconds: a read by a client of kazoo's, and which server answered it.
    fn get(from: Nanos, to: Nanos, at: Option<u8>) -> Entry {
        Entry { op: "get".into(), version: Some(1), host: 8, at, ..entry(from, to) }
    }

    fn entry(from: Nanos, to: Nanos) -> Entry {
        let (from, to) = (from * MS, to * MS);
        Entry { path: "/chaos/r/1".into(), end: "ok".into(), from, to, ..Entry::default() }
    }

    /// Whether a read is too old that does not show what was acknowledged at this time.
    fn is_too_old(get: &Entry, acknowledged: Nanos, timeline: &Timeline) -> bool {
        let set = entry(acknowledged - 10, acknowledged);
        let set = Entry { op: "set".into(), version: Some(2), ..set };
        let mut found = Vec::new();
        reads_are_not_older(&[set, get.clone()], (AGE * MS, WAY * MS), timeline, &mut found);
        !found.is_empty()
    }

    fn cut(server: u8, host: u8, from: Nanos, to: Nanos) -> Timeline {
        let mut timeline = Timeline::default();
        timeline.cut(server, host, from * MS);
        timeline.heal(to * MS);
        timeline
    }

    /// Server 1, within ten milliseconds each.
    fn stop(stood_from: Nanos, stood_until: Nanos) -> Timeline {
        let mut timeline = Timeline::default();
        timeline.stop(1, (stood_from - 10) * MS, stood_from * MS);
        timeline.end_stop(1, stood_until * MS, (stood_until + 10) * MS);
        timeline
    }

    #[test]
    fn it_counts_from_the_question_and_to_the_answer() {
        let nothing = Timeline::default();
        assert!(!is_too_old(&get(3_500, 3_500, Some(1)), 1_000, &nothing));
        assert!(is_too_old(&get(3_501, 3_501, Some(1)), 1_000, &nothing));
        // Under way for a second at most.
        assert!(!is_too_old(&get(1_200, 4_500, Some(1)), 1_000, &nothing));
        assert!(is_too_old(&get(1_200, 4_501, Some(1)), 1_000, &nothing));
    }

    #[test]
    fn an_answer_may_be_held_by_a_way_that_is_cut() {
        let held = get(1_200, 9_000, Some(1));
        let cut_long = cut(1, 8, 3_000, 8_000);
        assert!(!is_too_old(&held, 1_000, &cut_long));
        assert!(!is_too_old(&Entry { at: None, ..held.clone() }, 1_000, &cut_long));
        // What was in its way is sent again five seconds and a bit after those five seconds.
        assert!(!is_too_old(&get(1_200, 15_000, Some(1)), 1_000, &cut_long));
        assert!(is_too_old(&get(1_200, 15_001, Some(1)), 1_000, &cut_long));
    }

    #[test]
    fn nothing_is_held_by_a_cut_that_is_elsewhere_or_at_another_time() {
        let held = get(1_200, 9_000, Some(1));
        assert!(is_too_old(&held, 1_000, &cut(2, 8, 3_000, 8_000)));
        assert!(is_too_old(&held, 1_000, &cut(1, 9, 3_000, 8_000)));
        assert!(is_too_old(&held, 1_000, &cut(1, 2, 3_000, 8_000)));
        let in_time = get(1_200, 4_500, Some(1));
        let later = cut(1, 8, 12_000, 13_000);
        assert!(is_too_old(&held, 1_000, &later));
        assert!(!is_too_old(&in_time, 1_000, &later));
        // What was read a second before it would have come.
        assert!(!is_too_old(&held, 1_000, &cut(1, 8, 4_500, 8_000)));
        assert!(is_too_old(&held, 1_000, &cut(1, 8, 4_501, 8_000)));
        // One that was over before it was asked: the first that TCP sends again comes through.
        assert!(!is_too_old(&get(2_900, 5_000, Some(1)), 1_000, &cut(1, 8, 100, 3_000)));
        assert!(is_too_old(&get(3_100, 5_001, Some(1)), 1_000, &cut(1, 8, 100, 3_000)));
    }

    #[test]
    fn an_answer_may_be_held_by_one_cut_after_the_other() {
        let twice = |from, to| {
            let mut timeline = cut(1, 8, 3_000, 4_000);
            timeline.holds.extend(cut(1, 8, from, to).holds);
            timeline
        };
        let held = get(1_200, 9_000, Some(1));
        assert!(!is_too_old(&held, 1_000, &twice(7_000, 8_000)));
        assert!(is_too_old(&held, 1_000, &twice(7_001, 8_000)));
    }

    #[test]
    fn an_answer_may_be_held_by_a_server_whose_packets_are_late() {
        let mut timeline = Timeline::default();
        timeline.late(1, 3_000 * MS);
        timeline.heal(8_000 * MS);
        assert!(!is_too_old(&get(1_200, 9_000, Some(1)), 1_000, &timeline));
        assert!(is_too_old(&get(1_200, 9_000, Some(2)), 1_000, &timeline));
        timeline.holds.clear();
        assert!(is_too_old(&get(1_200, 9_000, Some(1)), 1_000, &timeline));
    }

    #[test]
    fn who_was_asked_while_it_stood_read_when_it_went_on() {
        let timeline = stop(2_000, 5_000);
        let stale = get(2_100, 5_020, Some(1));
        assert!(is_too_old(&stale, 2_499, &timeline));
        assert!(!is_too_old(&stale, 2_500, &timeline));
        assert_eq!(asked_of_who_stood(std::slice::from_ref(&stale), &timeline), 1);
        // Another can have read it earlier.
        for at in [Some(2), None] {
            let other = Entry { at, ..stale.clone() };
            assert!(!is_too_old(&other, 2_499, &timeline), "{at:?}");
            assert_eq!(asked_of_who_stood(&[other], &timeline), 0);
        }
        // One that was asked for when it went on counts from then.
        assert!(!is_too_old(&get(5_000, 5_020, Some(1)), 2_500, &timeline));
    }

    #[test]
    fn who_was_asked_before_it_stood_may_have_read_before_it_stood() {
        let timeline = stop(2_000, 60_000);
        assert!(!is_too_old(&get(1_999, 60_020, Some(1)), 1_000, &timeline));
        assert!(!is_too_old(&get(1_999, 60_020, None), 1_000, &timeline));
        for at in [Some(1), None] {
            assert!(is_too_old(&get(2_000, 60_020, at), 1_000, &timeline), "{at:?}");
        }
        assert!(is_too_old(&get(1_999, 60_020, Some(2)), 1_000, &timeline));
        assert!(is_too_old(&get(1_999, 60_020, Some(1)), 1_000, &Timeline::default()));
    }

    #[test]
    fn each_stop_counts_for_what_was_asked_in_it() {
        let mut timeline = stop(2_000, 5_000);
        timeline.stops.extend(stop(20_000, 30_000).stops);
        assert!(is_too_old(&get(2_100, 5_020, Some(1)), 2_499, &timeline));
        assert!(is_too_old(&get(20_100, 30_020, Some(1)), 27_499, &timeline));
    }
}
