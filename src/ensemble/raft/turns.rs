//! Whose turn it is to take a snapshot: one member's at a time, the leader's last.
//!
//! A snapshot takes a member's disk and some of its time, and an ensemble is as fast as a majority
//! of its disks. So members say what they need, and whoever leads tells one of them to go. It is no
//! promise: words may be late, and who cannot wait ([`Need::Overdue`]) goes all the same, so that
//! nobody waits for a member that is gone or hangs.

use std::collections::BTreeMap;

use super::following::Following;
use super::member::Transport;
use super::told::Told;
use crate::ensemble::snapshots::Need;
use crate::ensemble::words::PeerWord;

/// Ticks for which a leader only listens: a member may be at a snapshot that another leader told it
/// to take.
const LISTEN_TICKS: u32 = 20;
/// Ticks that a leader gives the others from when its own is due: it is the first to know of a
/// transaction.
const OTHERS_FIRST_TICKS: u32 = 20;
/// Ticks until somebody who was told to go must have said that it goes.
const GO_TICKS: u32 = 100;

/// Who may begin now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Nobody,
    Own,
    Of(u64),
}

/// What a member knows of the turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// What the leader was told that is needed here.
    told: Told<Need>,
    /// The leader has told this member to go.
    may_go: bool,
    /// As a leader: what the others said last that they need.
    others: BTreeMap<u64, Need>,
    /// Whom it told to go, as long as nothing is known to have come of it, and for how many ticks.
    sent: Option<(u64, u32)>,
    /// For how many ticks it has led.
    led: u32,
    /// For how many ticks its own has been due meanwhile.
    due: Option<u32>,
}

impl Turns {
    /// Takes the word of a member on what it needs.
    pub(super) fn heard(&mut self, peer: u64, need: Need) {
        self.others.insert(peer, need);
        // Without a word of the snapshot, this was said before it heard that it is to go.
        if need != Need::Due {
            self.sent.take_if(|(to, _)| *to == peer);
        }
    }

    /// Nothing is known of a member any more.
    pub(super) fn lost(&mut self, peer: u64) {
        self.others.remove(&peer);
        self.sent.take_if(|(to, _)| *to == peer);
    }

    pub(super) fn tick(&mut self, leads: bool) {
        self.led = if leads { self.led.saturating_add(1) } else { 0 };
        self.due = self.due.filter(|_| leads).map(|ticks| ticks.saturating_add(1));
        if let Some((_, ticks)) = &mut self.sent {
            *ticks += 1;
        }
        self.sent.take_if(|(_, ticks)| !leads || *ticks >= GO_TICKS);
    }

    /// Whether this member has led for so long.
    pub(super) const fn has_led(&self, ticks: u32) -> bool {
        self.led >= ticks
    }

    /// Who may begin, as a leader sees it that itself needs `own`.
    fn next(&mut self, own: Need) -> Turn {
        if own == Need::Overdue {
            return Turn::Own;
        }
        let own_due = (own == Need::Due).then(|| self.due.unwrap_or(0));
        self.due = own_due;
        let is_at_it = own == Need::Writing
            || self.sent.is_some()
            || self.others.values().any(|need| *need == Need::Writing);
        if is_at_it || self.led < LISTEN_TICKS {
            return Turn::Nobody;
        }
        let due = self.others.iter().find(|(_, need)| **need == Need::Due);
        match due.map(|(peer, _)| *peer) {
            Some(peer) => {
                self.sent = Some((peer, 0));
                Turn::Of(peer)
            }
            None if own_due >= Some(OTHERS_FIRST_TICKS) => Turn::Own,
            None => Turn::Nobody,
        }
    }

    /// Whether this member is to begin a snapshot as a leader, where this is what it needs; or
    /// another one is told that it is its turn.
    pub(super) fn as_leader(&mut self, need: Need, transport: &mut impl Transport) -> bool {
        match self.next(need) {
            Turn::Nobody => false,
            Turn::Own => true,
            Turn::Of(peer) => {
                transport.say(peer, PeerWord::TakeSnapshot);
                false
            }
        }
    }

    /// The same where it does not lead: the leader is told what it needs.
    pub(super) fn as_follower(
        &mut self,
        need: Need,
        following: Option<&Following>,
        transport: &mut impl Transport,
    ) -> bool {
        self.told.tell(need, PeerWord::Snapshot, following, transport);
        self.follow(need)
    }

    /// The leader says that it is this one's turn.
    pub(super) const fn told_to_go(&mut self) {
        self.may_go = true;
    }

    /// Whether a member that does not lead begins.
    fn follow(&mut self, own: Need) -> bool {
        let may_go = std::mem::take(&mut self.may_go);
        own == Need::Overdue || own == Need::Due && may_go
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member that takes snapshots: how much longer the one on its way lasts, and whether the
    /// next one is due.
    #[derive(Default)]
    struct Taker {
        turns: Turns,
        left: u32,
        is_due: bool,
        taken: u32,
        told: Option<Need>,
    }

    impl Taker {
        fn need(&self) -> Need {
            match (self.left, self.is_due) {
                (0, true) => Need::Due,
                (0, false) => Need::None,
                _ => Need::Writing,
            }
        }

        fn begin(&mut self) {
            assert!(self.is_due && self.left == 0);
            (self.left, self.is_due) = (30, false);
        }

        fn pass(&mut self) {
            if self.left > 0 {
                self.left -= 1;
                self.taken += u32::from(self.left == 0);
            }
        }
    }

    /// Members of which the first leads and knows first; words take `late` ticks.
    struct Ensemble {
        members: Vec<Taker>,
        ticks: u32,
        late: u32,
        to_leader: Vec<(u32, usize, Need)>,
        to_go: Vec<(u32, usize)>,
        order: Vec<usize>,
    }

    impl Ensemble {
        fn new(count: usize, late: u32) -> Self {
            Self {
                members: (0..count).map(|_| Taker::default()).collect(),
                ticks: 0,
                late,
                to_leader: Vec::new(),
                to_go: Vec::new(),
                order: Vec::new(),
            }
        }

        fn tick(&mut self) {
            self.ticks += 1;
            let (now, arrives) = (self.ticks, self.ticks + self.late);
            self.members.iter_mut().for_each(Taker::pass);
            self.members[0].turns.tick(true);
            for (_, at, need) in self.to_leader.extract_if(.., |(when, ..)| *when <= now) {
                self.members[0].turns.heard(at as u64, need);
            }
            for (_, at) in self.to_go.extract_if(.., |(when, _)| *when <= now) {
                self.members[at].turns.may_go = true;
            }
            for at in 0..self.members.len() {
                let member = &mut self.members[at];
                let need = member.need();
                let begins = if at == 0 {
                    let turn = member.turns.next(need);
                    if let Turn::Of(peer) = turn {
                        self.to_go.push((arrives, peer as usize));
                    }
                    turn == Turn::Own
                } else {
                    if member.told != Some(need) {
                        member.told = Some(need);
                        self.to_leader.push((arrives, at, need));
                    }
                    member.turns.follow(need)
                };
                if begins {
                    member.begin();
                    self.order.push(at);
                }
            }
            let at_it = self.members.iter().filter(|member| member.left > 0).count();
            assert!(at_it <= 1, "{at_it} at once");
        }
    }

    #[test]
    fn one_goes_at_a_time_and_the_leader_last() {
        for late in [0, 1, 7, 18] {
            let mut ensemble = Ensemble::new(5, late);
            for round in 1..=3 {
                ensemble.members[0].is_due = true;
                ensemble.tick();
                ensemble.members[1..].iter_mut().for_each(|member| member.is_due = true);
                (0..1000).for_each(|_| ensemble.tick());
                assert!(ensemble.members.iter().all(|member| member.taken == round), "{late}");
                assert_eq!(std::mem::take(&mut ensemble.order), [1, 2, 3, 4, 0], "{late}");
            }
        }
    }

    #[test]
    fn a_new_leader_hears_first_who_is_at_it() {
        let mut ensemble = Ensemble::new(3, 10);
        (ensemble.members[2].left, ensemble.members[1].is_due) = (200, true);
        for _ in 0..300 {
            ensemble.tick();
        }
        assert_eq!(ensemble.order, [1]);
    }

    #[test]
    fn nobody_waits_for_one_that_is_gone_or_says_nothing() {
        let mut leader = Turns::default();
        assert_eq!(leader.next(Need::Due), Turn::Nobody);
        (0..LISTEN_TICKS).for_each(|_| leader.tick(true));
        leader.heard(1, Need::Due);
        leader.heard(2, Need::Due);
        assert_eq!(leader.next(Need::Due), Turn::Of(1));
        assert_eq!(leader.next(Need::Due), Turn::Nobody);
        // It says once more what it said before.
        leader.heard(1, Need::Due);
        assert_eq!(leader.next(Need::Due), Turn::Nobody);
        leader.lost(1);
        assert_eq!(leader.next(Need::Due), Turn::Of(2));
        (1..GO_TICKS).for_each(|_| leader.tick(true));
        assert_eq!(leader.next(Need::Due), Turn::Nobody);
        leader.tick(true);
        assert_eq!(leader.next(Need::Due), Turn::Of(2));
        leader.heard(2, Need::Writing);
        assert_eq!(leader.next(Need::Due), Turn::Nobody);
        leader.lost(2);
        assert_eq!(leader.next(Need::Due), Turn::Own);
    }

    #[test]
    fn who_cannot_wait_goes_unasked() {
        let mut turns = Turns::default();
        turns.heard(1, Need::Writing);
        assert_eq!(turns.next(Need::Due), Turn::Nobody);
        assert_eq!(turns.next(Need::Overdue), Turn::Own);
        assert!(!turns.follow(Need::Due));
        assert!(turns.follow(Need::Overdue));
    }

    #[test]
    fn a_word_to_go_counts_once_and_only_for_what_is_due() {
        let mut turns = Turns { may_go: true, ..Turns::default() };
        assert!(!turns.follow(Need::None));
        assert!(!turns.follow(Need::Due));
        turns.may_go = true;
        assert!(turns.follow(Need::Due));
        assert!(!turns.follow(Need::Due));
    }
}
