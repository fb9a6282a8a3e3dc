//! What lists grant to a connection, kept for the next time.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::acl_list::{AclList, ListMark};

/// Lists of which it is kept. All of them take some 100 kB, however long they are.
const KEPT: usize = 3584;
/// When all places are taken, one in so many further lists gets that of the oldest. So lists that
/// are asked for in turns, more of them than there are places, are mostly found; if each got a
/// place, all would be gone when their turn comes.
const LISTS_A_PLACE: usize = 4;

/// All that some lists grant to one connection.
#[derive(Default)]
pub(super) struct Granted {
    perms: HashMap<ListMark, i32>,
    /// In the order in which they got their places.
    order: VecDeque<ListMark>,
    /// Lists that came when all places were taken.
    late: usize,
}

impl Granted {
    /// What a list grants, if it is known.
    pub(in crate::engine) fn by(&self, list: &AclList) -> Option<i32> {
        self.perms.get(&list.mark()).copied()
    }

    /// Keeps what a list grants that was not known, if it gets a place.
    pub(in crate::engine) fn keep(&mut self, list: &AclList, perms: i32) {
        if self.perms.len() >= KEPT {
            self.late += 1;
            if !self.late.is_multiple_of(LISTS_A_PLACE) {
                return;
            }
            if let Some(oldest) = self.order.pop_front() {
                self.perms.remove(&oldest);
            }
        }
        self.perms.insert(list.mark(), perms);
        self.order.push_back(list.mark());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(count: usize) -> Vec<AclList> {
        (0..count).map(|_| AclList::new(&[])).collect()
    }

    /// Asks for each in turn, and gives how many were not known.
    fn missed(granted: &mut Granted, lists: &[AclList]) -> usize {
        let mut missed = 0;
        for (perms, list) in (0..).zip(lists) {
            match granted.by(list) {
                Some(known) => assert_eq!(known, perms),
                None => {
                    granted.keep(list, perms);
                    missed += 1;
                }
            }
        }
        assert_eq!(granted.perms.len(), granted.order.len());
        assert!(granted.perms.len() <= KEPT);
        missed
    }

    #[test]
    fn of_lists_asked_for_in_turns_most_are_known() {
        for (count, missed_max) in [(KEPT, 0), (KEPT + 1, 10), (KEPT + KEPT / 2, KEPT)] {
            let (mut granted, lists) = (Granted::default(), lists(count));
            assert_eq!(missed(&mut granted, &lists), count);
            for round in 0..20 {
                let missed = missed(&mut granted, &lists);
                assert!(missed <= missed_max, "{count} lists, round {round}: {missed}");
            }
        }
    }

    #[test]
    fn lists_that_come_later_are_known_in_the_end() {
        let (mut granted, before, later) = (Granted::default(), lists(KEPT), lists(100));
        missed(&mut granted, &before);
        let rounds: Vec<usize> = (0..40).map(|_| missed(&mut granted, &later)).collect();
        assert_eq!((rounds[0], rounds[39]), (100, 0), "{rounds:?}");
        assert_eq!(rounds.iter().sum::<usize>(), 100 * LISTS_A_PLACE, "{rounds:?}");
    }
}
