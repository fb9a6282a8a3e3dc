//! When a member without a leader serves clients that read only (`readonlymode.enabled`,
//! `QuorumPeer.run`).

use crate::engine::time::Monotonic;

/// The least time without a leader, in milliseconds: most elections are over sooner.
const GRACE_MS: u64 = 2000;

/// When clients are served that read only.
#[derive(Debug)]
pub(super) struct ReadOnlyMode {
    /// For how long there has to be no leader; nothing where they never are.
    grace_ms: Option<u64>,
    /// This process has served as a member with a leader. Before, it cannot know whether it is
    /// still a member, and whether its state is one that the others have left behind long ago.
    was_current: bool,
    /// Since when there is no leader.
    since: Option<Monotonic>,
    is_on: bool,
}

impl ReadOnlyMode {
    /// From a start on.
    pub(super) fn new(is_enabled: bool, tick_ms: u64) -> Self {
        let grace_ms = is_enabled.then_some(GRACE_MS.max(tick_ms));
        Self { grace_ms, was_current: false, since: None, is_on: false }
    }

    /// Whether they are served now. `is_current` if this member serves all clients, and `may_be` if
    /// it has no leader, and its state can be shown. Whoever `stood_still` before this turn has
    /// not heard yet what the others do now: the time begins anew.
    pub(super) fn is_due(
        &mut self,
        is_current: bool,
        may_be: bool,
        stood_still: bool,
        now: Monotonic,
    ) -> bool {
        self.was_current |= is_current;
        let may_be = self.was_current && !is_current && may_be;
        let Some(grace_ms) = self.grace_ms.filter(|_| may_be) else {
            (self.since, self.is_on) = (None, false);
            return false;
        };
        self.since.take_if(|_| stood_still && !self.is_on);
        self.is_on = now.since(*self.since.get_or_insert(now)) >= grace_ms;
        self.is_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_a_while_after_the_leader_is_lost_and_ends_with_its_first_word() {
        // As `QuorumPeer`: two seconds, or a tick if that is longer.
        for (tick_ms, grace_ms) in [(200, 2000), (2000, 2000), (3000, 3000)] {
            let mut mode = ReadOnlyMode::new(true, tick_ms);
            assert!(!mode.is_due(true, false, false, Monotonic(50)));
            assert!(!mode.is_due(false, true, false, Monotonic(100)));
            assert!(!mode.is_due(false, true, false, Monotonic(100 + grace_ms - 1)));
            assert!(mode.is_due(false, true, false, Monotonic(100 + grace_ms)));
            // A leader is heard of, and lost again.
            assert!(!mode.is_due(false, false, false, Monotonic(9000)));
            assert!(!mode.is_due(false, true, false, Monotonic(9001)));
            assert!(!mode.is_due(false, true, false, Monotonic(9001 + grace_ms - 1)));
            assert!(mode.is_due(false, true, false, Monotonic(9001 + grace_ms)));
        }
    }

    #[test]
    fn who_stood_still_without_a_leader_waits_anew_and_who_is_read_already_goes_on() {
        let mut mode = ReadOnlyMode::new(true, 200);
        assert!(!mode.is_due(true, false, false, Monotonic(0)));
        assert!(!mode.is_due(false, true, false, Monotonic(100)));
        assert!(!mode.is_due(false, true, true, Monotonic(60_000)));
        assert!(!mode.is_due(false, true, false, Monotonic(61_999)));
        assert!(mode.is_due(false, true, false, Monotonic(62_000)));
        assert!(mode.is_due(false, true, true, Monotonic(90_000)));
    }

    #[test]
    fn who_was_no_member_with_a_leader_yet_or_is_not_to_shows_nothing() {
        let mut fresh = ReadOnlyMode::new(true, 200);
        let mut disabled = ReadOnlyMode::new(false, 200);
        disabled.is_due(true, false, false, Monotonic(0));
        for now in [1, 5000, 900_000] {
            assert!(!fresh.is_due(false, true, false, Monotonic(now)));
            assert!(!disabled.is_due(false, true, false, Monotonic(now)));
        }
    }
}
