//! For how long servers are waited for that are silent.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{OfLine, Round, Standing};

/// For how long servers that are silent have been waited for.
///
/// A server that is busy begins that anew, as long as its first process is that was since it said
/// what it is: one that is started again and again and never comes further is waited for only while
/// it is heard.
#[derive(Debug, Default)]
pub struct Patience {
    since: Duration,
    busy: BTreeMap<u8, u64>,
}

impl Patience {
    /// After a round of questions, `now` after the first one, with the numbers of the processes
    /// that are busy and the servers that are not.
    pub fn heard(
        &mut self,
        busy: impl Iterator<Item = (u8, u64)>,
        others: impl Iterator<Item = u8>,
        now: Duration,
    ) {
        for server in others {
            self.busy.remove(&server);
        }
        for (server, process) in busy {
            if *self.busy.entry(server).or_insert(process) == process {
                self.since = now;
            }
        }
    }

    /// For how long.
    #[must_use]
    pub fn waited(&self, now: Duration) -> Duration {
        now.saturating_sub(self.since)
    }
}

/// When members of ensembles were heard last. They may be silent for a moment, and their ensembles
/// serve clients.
#[derive(Debug, Default)]
pub struct LastHeard(BTreeMap<u8, (OfLine, Duration)>);

impl LastHeard {
    /// After a round of questions, `now` after the first one. Who says that it is no member is
    /// none; who is busy may be one.
    pub fn heard(&mut self, others: &BTreeMap<u8, Standing>, now: Duration) {
        for (server, its) in others {
            match its {
                Standing::Member { of, .. } => {
                    self.0.insert(*server, (*of, now));
                }
                Standing::Before(_) | Standing::Removed { .. } => {
                    self.0.remove(server);
                }
                Standing::Busy(_) => {}
            }
        }
    }

    /// A member that was heard less than `limit` ago, of an ensemble that may go on by what `round`
    /// has heard.
    #[must_use]
    pub fn lately(&self, round: &Round<'_>, limit: Duration, now: Duration) -> Option<u8> {
        let is_late = |at: &Duration| now.saturating_sub(*at) >= limit;
        let mut members = self.0.iter().filter(|(_, (_, at))| !is_late(at));
        members.find_map(|(server, (of, _))| round.may_go_on(of).then_some(*server))
    }
}

/// For how long the founder has not been heard whose ensemble a server has accepted.
#[derive(Debug, Default)]
pub struct Absence {
    since: Option<((u64, u64), Duration)>,
}

impl Absence {
    /// After a round of questions, `now` after the first one, for the member `founder` of
    /// `ensemble`.
    pub fn heard(
        &mut self,
        (founder, ensemble): (u64, u64),
        others: &BTreeMap<u8, Standing>,
        now: Duration,
    ) -> Duration {
        let awaited = (founder, ensemble);
        let is_it = |its: &Standing| match its {
            Standing::Member { id, ensemble, .. } => (*id, *ensemble) == awaited,
            Standing::Before(_) | Standing::Removed { .. } | Standing::Busy(_) => false,
        };
        let since = self.since.filter(|(of, _)| *of == awaited && !others.values().any(is_it));
        let (_, since) = *self.since.insert(since.unwrap_or((awaited, now)));
        now.saturating_sub(since)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Busy;
    use super::*;
    use crate::ensemble::{FIRST_LIFE, member_id};

    fn member(id: u64, ensemble: u64, asks: &[u8], has_begun: bool) -> Standing {
        let (asks, of) = (asks.to_vec(), OfLine::default());
        Standing::Member { id, ensemble, asks, has_begun, configured_at: 0, of }
    }

    /// One that ends whenever it has read for a while, and is started again, does not keep the
    /// others from going on for ever.
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
                patience.heard(busy.map(|process| (3, process)).into_iter(), [].into_iter(), now);
            }
            assert_eq!(patience.waited(now), second * waited, "{rounds:?}");
        }
    }

    /// It came to the end of what it did, and has another reason to be started again.
    #[test]
    fn a_server_that_has_said_what_it_is_may_be_busy_anew() {
        let second = Duration::from_secs(1);
        for (says, waited) in [(3, 0), (1, 2)] {
            let mut patience = Patience::default();
            patience.heard([(3, 7)].into_iter(), [].into_iter(), second);
            patience.heard([].into_iter(), [says].into_iter(), 2 * second);
            patience.heard([(3, 8)].into_iter(), [].into_iter(), 3 * second);
            assert_eq!(patience.waited(3 * second), second * waited, "{says}");
        }
    }

    /// It may answer at last what is asked of it, however long the others have gone on without it.
    #[test]
    fn a_founder_that_answers_is_not_given_up() {
        let second = Duration::from_secs(1);
        let first = member_id(1, FIRST_LIFE);
        let founder = (1, member(first, 7, &[3], true));
        let others = [
            vec![],
            vec![(2, member(member_id(2, FIRST_LIFE), 7, &[], true))],
            // It is not the one that is awaited.
            vec![(1, member(first, 8, &[3], true))],
            vec![(1, member(member_id(1, 9), 7, &[3], true))],
            vec![(1, Standing::Busy(Busy::Reads))],
        ];
        for others in others {
            let (mut absence, mut absent) = (Absence::default(), Vec::new());
            for (at, is_there) in [(10, false), (15, false), (16, true), (17, false), (19, false)] {
                let mut heard: BTreeMap<u8, Standing> = others.iter().cloned().collect();
                if is_there {
                    heard.extend([founder.clone()]);
                }
                absent.push(absence.heard((first, 7), &heard, at * second).as_secs());
            }
            assert_eq!(absent, [0, 5, 0, 1, 3], "{others:?}");
            // Whoever is awaited next has been silent for no time.
            let others = BTreeMap::new();
            let next = (member_id(2, FIRST_LIFE), 9);
            let absent = [19, 20].map(|at| absence.heard(next, &others, at * second).as_secs());
            assert_eq!(absent, [0, 1]);
        }
    }
}
