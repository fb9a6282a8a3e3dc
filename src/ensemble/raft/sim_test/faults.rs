//! What goes wrong, and the table that says how often it did to whom.

use std::collections::BTreeMap;
use std::fmt;

use super::server::State;
use crate::storage::sim::Dice;

/// Something that goes wrong at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FaultKind {
    /// The process ends, the machine does not.
    Killed,
    PowerLoss,
    /// The machine comes back with an empty disk.
    Wiped,
    /// An older copy of its directory takes the place of that.
    CopyPutBack,
    /// It goes from the lists of others, and comes back later.
    ListChanged,
    /// Power fails at one of the operations on the disk to come.
    PowerLossInWrite,
    Eio,
    Enospc,
    Frozen,
    /// Its disk does nothing for a while.
    DiskStalled,
    ClockJump,
    ClockSlow,
    ClockFast,
    WallClockStep,
    /// Nothing passes between it and one other.
    CutFromOne,
    /// Nothing passes in one direction between it and one other.
    CutOneWay,
    /// It sends to nobody, or hears nobody.
    CutHalf,
    Isolated,
    /// The members fall into two groups.
    Halves,
    /// They do, and it alone reaches both.
    Bridge,
    ConnectionReset,
    Loss,
    Duplication,
    Reordering,
    SlowLinks,
    /// The leader hands over to it.
    HandOver,
    TransferBroken,
}

impl FaultKind {
    pub(super) const ALL: [Self; 27] = [
        Self::Killed,
        Self::PowerLoss,
        Self::Wiped,
        Self::CopyPutBack,
        Self::ListChanged,
        Self::PowerLossInWrite,
        Self::Eio,
        Self::Enospc,
        Self::Frozen,
        Self::DiskStalled,
        Self::ClockJump,
        Self::ClockSlow,
        Self::ClockFast,
        Self::WallClockStep,
        Self::CutFromOne,
        Self::CutOneWay,
        Self::CutHalf,
        Self::Isolated,
        Self::Halves,
        Self::Bridge,
        Self::ConnectionReset,
        Self::Loss,
        Self::Duplication,
        Self::Reordering,
        Self::SlowLinks,
        Self::HandOver,
        Self::TransferBroken,
    ];

    /// Draws one. What is not always possible is drawn more often.
    pub(super) fn draw(dice: &mut Dice) -> Self {
        const RARE: [FaultKind; 13] = [
            FaultKind::Wiped,
            FaultKind::CopyPutBack,
            FaultKind::CopyPutBack,
            FaultKind::CopyPutBack,
            FaultKind::CopyPutBack,
            FaultKind::CopyPutBack,
            FaultKind::CopyPutBack,
            FaultKind::ListChanged,
            FaultKind::Bridge,
            FaultKind::ConnectionReset,
            FaultKind::HandOver,
            FaultKind::HandOver,
            FaultKind::TransferBroken,
        ];
        let drawn = dice.below((Self::ALL.len() + RARE.len()) as u64) as usize;
        Self::ALL.get(drawn).copied().unwrap_or_else(|| RARE[drawn - Self::ALL.len()])
    }

    /// Why it cannot happen to a server in this state.
    pub(super) const fn impossible(self, state: State) -> Option<&'static str> {
        match (self, state) {
            (Self::HandOver, State::Leader) => Some("a leader has nobody to take over from"),
            (Self::TransferBroken, State::Follower | State::Candidate | State::Recovering) => {
                Some("it neither sends nor receives a snapshot")
            }
            _ => None,
        }
    }
}

/// How often each fault met a server in each state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Table(BTreeMap<(FaultKind, State), u64>);

impl Table {
    pub(super) fn count(&mut self, kind: FaultKind, state: State) {
        *self.0.entry((kind, state)).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (cell, count) in &other.0 {
            *self.0.entry(*cell).or_default() += count;
        }
    }

    fn cell(&self, kind: FaultKind, state: State) -> u64 {
        self.0.get(&(kind, state)).copied().unwrap_or(0)
    }

    /// The cells that can be and that were met less often.
    pub(super) fn below(&self, least: u64) -> Vec<(FaultKind, State, u64)> {
        let cells =
            FaultKind::ALL.into_iter().flat_map(|kind| State::ALL.map(|state| (kind, state)));
        let possible = cells.filter(|(kind, state)| kind.impossible(*state).is_none());
        let counted = possible.map(|(kind, state)| (kind, state, self.cell(kind, state)));
        counted.filter(|(.., count)| *count < least).collect()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:18}", "")?;
        for state in State::ALL {
            write!(f, "{:>12}", format!("{state:?}"))?;
        }
        for kind in FaultKind::ALL {
            write!(f, "\n{:18}", format!("{kind:?}"))?;
            for state in State::ALL {
                match kind.impossible(state) {
                    Some(_) => write!(f, "{:>12}", "-")?,
                    None => write!(f, "{:>12}", self.cell(kind, state))?,
                }
            }
        }
        let mut reasons: Vec<String> = FaultKind::ALL
            .into_iter()
            .flat_map(|kind| State::ALL.map(|state| (kind, state)))
            .filter_map(|(kind, state)| Some((kind, state, kind.impossible(state)?)))
            .map(|(kind, state, reason)| format!("{kind:?} of {state:?}: {reason}"))
            .collect();
        reasons.sort_unstable();
        write!(f, "\n-: {}", reasons.join("; "))
    }
}
