//! Who may speak as a server: one process, and none whose disk holds less than that server's has
//! shown. Nothing here knows sockets or time.

use std::collections::VecDeque;

use super::Promised;
pub use super::introduction::ProcessId;

/// Processes that were replaced are known so far back.
const REPLACED_MAX: usize = 8;
/// So many members of a server are known by what they have shown: lives that have not spoken for
/// longest go first.
const SHOWN_MAX: usize = 8;

/// What a process says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Another one for each start.
    pub process: ProcessId,
    /// The member.
    pub id: u64,
    /// What its disk had when it began.
    pub promised: Promised,
}

/// What follows from a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// It may.
    Welcome,
    /// The process that has spoken is still connected: whether it lives decides.
    Occupied,
    /// Another process has spoken since.
    Replaced,
    /// The same member has shown this on another disk, or on this one later.
    Older(Promised),
}

/// The processes that have spoken as one server.
#[derive(Debug, Default)]
pub struct Callers {
    /// The last one.
    spoke: Option<ProcessId>,
    /// Those before it, newest last.
    replaced: VecDeque<ProcessId>,
    /// The members that have spoken, the last one last, and the most that the messages of each have
    /// shown.
    shown: VecDeque<(u64, Promised)>,
}

impl Callers {
    /// Whether a process may speak, where `heard` is connected.
    #[must_use]
    pub fn judge(&self, claim: Claim, heard: Option<ProcessId>) -> Ruling {
        if self.replaced.contains(&claim.process) {
            return Ruling::Replaced;
        }
        // What it says of itself is as of its beginning.
        let Some(other) = self.spoke.filter(|spoke| *spoke != claim.process) else {
            return Ruling::Welcome;
        };
        let shown = self.shown.iter().find(|(id, _)| *id == claim.id);
        match shown {
            Some((_, shown)) if claim.promised < *shown => Ruling::Older(*shown),
            // A process that was let in and has said nothing is in nobody's way: it may be refused
            // elsewhere.
            _ if heard == Some(other) => Ruling::Occupied,
            _ => Ruling::Welcome,
        }
    }

    /// A process that was let in has said something, which shows so much of its disk. The one
    /// before it is replaced.
    pub fn spoke(&mut self, process: ProcessId, id: u64, promised: Promised) {
        if self.spoke != Some(process) {
            self.replaced.extend(self.spoke.replace(process));
            if self.replaced.len() > REPLACED_MAX {
                self.replaced.pop_front();
            }
        }
        if let Some((last, shown)) = self.shown.back_mut()
            && *last == id
        {
            *shown = promised.max(*shown);
            return;
        }
        let place = self.shown.iter().position(|(its, _)| *its == id);
        let before = place.and_then(|place| self.shown.remove(place));
        let most = before.map_or(promised, |(_, shown)| shown.max(promised));
        self.shown.push_back((id, most));
        if self.shown.len() > SHOWN_MAX {
            self.shown.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: u64 = 0x102;
    const NEW: u64 = 0x702;

    fn claim(process: u64, id: u64, term: u64, last: u64) -> Claim {
        Claim { process: ProcessId(process), id, promised: Promised { term, last } }
    }

    /// All that was said, in its order, and what follows by reading it from the end.
    #[derive(Default, Clone)]
    struct History(Vec<(u64, u64, Promised)>);

    impl History {
        fn judge(&self, claim: Claim, heard: Option<u64>) -> Ruling {
            let process = claim.process.0;
            let Some((last, ..)) = self.0.last() else { return Ruling::Welcome };
            if *last == process {
                return Ruling::Welcome;
            }
            if self.0.iter().any(|(its, ..)| *its == process) {
                return Ruling::Replaced;
            }
            let of_id = self.0.iter().filter(|(_, id, _)| *id == claim.id);
            let most = of_id.map(|(.., promised)| *promised).max();
            if let Some(most) = most.filter(|most| claim.promised < *most) {
                return Ruling::Older(most);
            }
            match heard {
                Some(heard) if heard == *last => Ruling::Occupied,
                _ => Ruling::Welcome,
            }
        }
    }

    /// Every order of up to four words by three processes as two members, with less and more on
    /// their disks, against every claim and whoever may be connected. Who was replaced does not
    /// speak again.
    #[test]
    fn every_claim_after_every_history_is_judged_as_by_reading_all_of_it() {
        let disks = [(5, 0), (5, 90), (6, 70)].map(|(term, last)| Promised { term, last });
        let mut words = Vec::new();
        for process in 1..=3 {
            for id in [OLD, NEW] {
                words.extend(disks.map(|disk| (process, id, disk)));
            }
        }
        let mut histories = vec![History::default()];
        let (mut judged, mut kinds) = (0_u32, [0_u32; 4]);
        for _ in 0..=4 {
            let mut longer = Vec::new();
            for history in &histories {
                let mut callers = Callers::default();
                for (process, id, promised) in &history.0 {
                    callers.spoke(ProcessId(*process), *id, *promised);
                }
                for (process, id, promised) in &words {
                    let claim =
                        Claim { process: ProcessId(*process), id: *id, promised: *promised };
                    for heard in [None, Some(1), Some(2), Some(3)] {
                        let verdict = callers.judge(claim, heard.map(ProcessId));
                        assert_eq!(
                            verdict,
                            history.judge(claim, heard),
                            "{claim:?} {:?}",
                            history.0
                        );
                        judged += 1;
                        kinds[match verdict {
                            Ruling::Welcome => 0,
                            Ruling::Occupied => 1,
                            Ruling::Replaced => 2,
                            Ruling::Older(_) => 3,
                        }] += 1;
                    }
                    if history.judge(claim, None) != Ruling::Replaced {
                        let mut more = history.clone();
                        more.0.push((*process, *id, *promised));
                        longer.push(more);
                    }
                }
            }
            histories = longer;
        }
        assert!(judged > 1_000_000 && kinds.iter().all(|count| *count > 10_000), "{kinds:?}");
    }

    #[test]
    fn a_restart_is_welcome_and_a_copy_beside_it_is_not() {
        let mut callers = Callers::default();
        let first = claim(1, OLD, 5, 90);
        assert_eq!(callers.judge(first, None), Ruling::Welcome);
        // It has said nothing yet.
        assert_eq!(callers.judge(claim(2, OLD, 5, 90), Some(first.process)), Ruling::Welcome);
        callers.spoke(first.process, OLD, Promised { term: 5, last: 90 });
        // It connects again, and has acknowledged more than it began with.
        assert_eq!(callers.judge(claim(1, OLD, 5, 80), Some(first.process)), Ruling::Welcome);
        let same = claim(2, OLD, 5, 90);
        assert_eq!(callers.judge(same, Some(first.process)), Ruling::Occupied);
        assert_eq!(callers.judge(same, None), Ruling::Welcome);
        // A later leader may have cut its log.
        assert_eq!(callers.judge(claim(2, OLD, 6, 70), None), Ruling::Welcome);
        let shown = Promised { term: 5, last: 90 };
        assert_eq!(callers.judge(claim(2, OLD, 5, 89), None), Ruling::Older(shown));
        assert_eq!(callers.judge(claim(2, OLD, 4, 200), None), Ruling::Older(shown));
        // Another life of the server has another disk.
        assert_eq!(callers.judge(claim(2, NEW, 1, 0), None), Ruling::Welcome);
        callers.spoke(same.process, OLD, Promised::default());
        assert_eq!(callers.judge(first, Some(same.process)), Ruling::Replaced);
        assert_eq!(callers.judge(claim(3, OLD, 5, 89), None), Ruling::Older(shown));
    }

    #[test]
    fn what_one_life_has_shown_is_known_when_another_one_has_spoken() {
        let mut callers = Callers::default();
        let shown = Promised { term: 5, last: 90 };
        callers.spoke(ProcessId(1), OLD, shown);
        callers.spoke(ProcessId(2), NEW, Promised { term: 7, last: 10 });
        // Life 1 was put back from a backup.
        assert_eq!(callers.judge(claim(3, OLD, 5, 60), None), Ruling::Older(shown));
        assert_eq!(callers.judge(claim(3, OLD, 5, 90), None), Ruling::Welcome);
        // Of many lives the last ones are known, and one that speaks again is one of them.
        callers.spoke(ProcessId(2), OLD, Promised { term: 4, last: 0 });
        for life in (10..).take(SHOWN_MAX) {
            assert_eq!(callers.judge(claim(3, OLD, 5, 60), None), Ruling::Older(shown), "{life}");
            callers.spoke(ProcessId(2), (life << 8) | 2, shown);
        }
        assert_eq!(callers.judge(claim(3, OLD, 5, 60), None), Ruling::Welcome);
        assert_eq!(callers.shown.len(), SHOWN_MAX);
    }

    #[test]
    fn as_many_replaced_processes_are_known_as_are_promised() {
        let mut callers = Callers::default();
        (1..=10).for_each(|process| callers.spoke(ProcessId(process), OLD, Promised::default()));
        for process in 1..=10 {
            let expected = match process {
                2..=9 => Ruling::Replaced,
                _ => Ruling::Welcome,
            };
            assert_eq!(callers.judge(claim(process, OLD, 5, 0), None), expected, "{process}");
        }
    }
}
