//! Who watches one path: mostly one connection, sometimes tens of thousands.
//!
//! To add a watcher or to take one away never costs more because of the others, and those who want
//! to hear of everything below are found without a look at those who do not.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Bound;

use super::Modes;
use crate::planted;

/// Watchers of a path that stand in one row; of more each has a place of its own.
const ROW_MAX: usize = 32;

/// One more than a connection's number in its slab, which leaves a value that tells
/// [`Watchers::Several`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) struct Number(NonZeroU32);

impl Number {
    /// That of a slot; `None` for the last one.
    pub(in crate::engine) const fn of(slot: u32) -> Option<Self> {
        match NonZeroU32::MIN.checked_add(slot) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    pub(in crate::engine) const fn slot(self) -> u32 {
        self.0.get() - 1
    }
}

/// How one connection watches one path, and its place in the connection's list. Who is next to it
/// there is named by the path: the watch is the connection's own one of that path.
#[derive(Debug, Clone, Copy)]
pub(in crate::engine) struct Watch {
    pub(super) modes: Modes,
    pub(in crate::engine) previous: u32,
    pub(in crate::engine) next: u32,
}

/// The watchers of a path, by their numbers.
#[derive(Debug)]
pub(super) enum Watchers {
    One(Number, Watch),
    Several(Box<Several>),
}

#[derive(Debug)]
pub(super) enum Several {
    Row(Vec<(Number, Watch)>),
    Many {
        watches: BTreeMap<Number, Watch>,
        /// Those with a recursive watch.
        recursive: BTreeSet<Number>,
    },
}

#[cfg(test)]
thread_local! {
    /// Watches that were looked at or moved because of another one.
    pub(super) static TOUCHED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts what was touched.
#[cfg_attr(not(test), expect(clippy::missing_const_for_fn, reason = "in tests it counts"))]
fn touch(_watches: usize) {
    #[cfg(test)]
    TOUCHED.set(TOUCHED.get() + _watches);
}

fn position(row: &[(Number, Watch)], number: Number) -> Result<usize, usize> {
    row.binary_search_by_key(&number, |(number, _)| *number)
}

impl Watchers {
    pub(in crate::engine) fn get(&self, number: Number) -> Option<&Watch> {
        match self {
            Self::One(only, watch) => (*only == number).then_some(watch),
            Self::Several(several) => match &**several {
                Several::Row(row) => Some(&row.get(position(row, number).ok()?)?.1),
                Several::Many { watches, .. } => watches.get(&number),
            },
        }
    }

    /// For its place in the connection's list: modes change by [`Self::set_modes`].
    pub(in crate::engine) fn get_mut(&mut self, number: Number) -> Option<&mut Watch> {
        match self {
            Self::One(only, watch) => (*only == number).then_some(watch),
            Self::Several(several) => match &mut **several {
                Several::Row(row) => {
                    let at = position(row, number).ok()?;
                    row.get_mut(at).map(|(_, watch)| watch)
                }
                Several::Many { watches, .. } => watches.get_mut(&number),
            },
        }
    }

    /// Adds the watch of a connection that has none yet.
    pub(in crate::engine) fn add(&mut self, number: Number, watch: Watch) {
        if let Self::One(only, one) = *self {
            *self = Self::Several(Box::new(Several::Row(vec![(only, one)])));
        }
        let Self::Several(several) = self else { return };
        match &mut **several {
            Several::Row(row) if row.len() < ROW_MAX => {
                if let Err(at) = position(row, number) {
                    touch(row.len() - at);
                    row.insert(at, (number, watch));
                }
            }
            Several::Row(row) => {
                touch(row.len());
                row.push((number, watch));
                **several = Several::many(std::mem::take(row));
            }
            Several::Many { watches, recursive } => {
                watches.insert(number, watch);
                if watch.modes.has(Modes::RECURSIVE) {
                    recursive.insert(number);
                }
            }
        }
    }

    /// Changes the modes of a watch, which keeps at least one.
    pub(super) fn set_modes(&mut self, number: Number, modes: Modes) {
        if let Some(watch) = self.get_mut(number) {
            watch.modes = modes;
        }
        if let Self::Several(several) = self
            && let Several::Many { recursive, .. } = &mut **several
        {
            if modes.has(Modes::RECURSIVE) {
                recursive.insert(number);
            } else {
                recursive.remove(&number);
            }
        }
    }

    /// Takes a watch out; whether none is left.
    pub(in crate::engine) fn remove(&mut self, number: Number) -> bool {
        match self {
            Self::One(only, _) => return *only == number,
            Self::Several(several) => match &mut **several {
                Several::Row(row) => {
                    if let Ok(at) = position(row, number) {
                        touch(row.len() - at);
                        row.remove(at);
                    }
                }
                Several::Many { watches, recursive } => {
                    watches.remove(&number);
                    recursive.remove(&number);
                }
            },
        }
        self.shrink()
    }

    /// Ends the one-shot watches and tells who watches, in the order of their numbers. Gives the
    /// watches that are no more, and whether none is left.
    pub(in crate::engine) fn fire(
        &mut self,
        mut tell: impl FnMut(Number),
    ) -> (Vec<(Number, Watch)>, bool) {
        let ends = match planted::is("persistent-once") {
            true => Modes::STANDARD.with(Modes::PERSISTENT),
            false => Modes::STANDARD,
        };
        let mut ended = Vec::new();
        let mut stays = |number: Number, watch: &mut Watch| {
            tell(number);
            watch.modes = watch.modes.without(ends);
            if watch.modes.is_empty() {
                ended.push((number, *watch));
            }
            !watch.modes.is_empty()
        };
        let is_empty = match self {
            Self::One(number, watch) => !stays(*number, watch),
            Self::Several(several) => {
                match &mut **several {
                    Several::Row(row) => row.retain_mut(|(number, watch)| stays(*number, watch)),
                    Several::Many { watches, .. } => {
                        watches.retain(|number, watch| stays(*number, watch));
                    }
                }
                self.shrink()
            }
        };
        (ended, is_empty)
    }

    /// Takes the form for as many as are left; whether that is none.
    fn shrink(&mut self) -> bool {
        let Self::Several(several) = self else { return false };
        if let Several::Many { watches, .. } = &mut **several
            && watches.len() <= ROW_MAX / 2
        {
            touch(watches.len());
            **several = Several::Row(std::mem::take(watches).into_iter().collect());
        }
        if let Several::Row(row) = &mut **several {
            match row[..] {
                [] => return true,
                [(number, watch)] => *self = Self::One(number, watch),
                _ if row.len() < row.capacity() / 4 => row.shrink_to_fit(),
                _ => {}
            }
        }
        false
    }

    /// Whether anyone has a recursive watch.
    pub(super) fn has_recursive(&self) -> bool {
        match self {
            Self::One(_, watch) => watch.modes.has(Modes::RECURSIVE),
            Self::Several(several) => match &**several {
                Several::Row(row) => row.iter().any(|(_, it)| it.modes.has(Modes::RECURSIVE)),
                Several::Many { recursive, .. } => !recursive.is_empty(),
            },
        }
    }

    /// Who has a recursive watch, in the order of their numbers.
    pub(in crate::engine) fn recursive(&self, mut each: impl FnMut(Number)) {
        match self {
            Self::Several(several) => match &**several {
                Several::Row(_) => {}
                Several::Many { recursive, .. } => return recursive.iter().copied().for_each(each),
            },
            Self::One(..) => {}
        }
        self.for_each(|number, watch| {
            touch(1);
            if watch.modes.has(Modes::RECURSIVE) {
                each(number);
            }
        });
    }

    /// All of them, in the order of their numbers.
    pub(in crate::engine) fn for_each(&self, mut each: impl FnMut(Number, &Watch)) {
        match self {
            Self::One(number, watch) => each(*number, watch),
            Self::Several(several) => match &**several {
                Several::Row(row) => row.iter().for_each(|(number, watch)| each(*number, watch)),
                Several::Many { watches, .. } => {
                    watches.iter().for_each(|(number, watch)| each(*number, watch));
                }
            },
        }
    }
}

impl Watchers {
    /// Looks at those after a number, in the order of their numbers, until `each` has had enough.
    /// Whether it had not.
    pub(super) fn each_after(
        &self,
        after: Option<Number>,
        mut each: impl FnMut(Number) -> bool,
    ) -> bool {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        match self {
            Self::One(number, _) => after.is_some_and(|after| *number <= after) || each(*number),
            Self::Several(several) => match &**several {
                Several::Row(row) => {
                    let begin = after.map_or(0, |after| row.partition_point(|it| it.0 <= after));
                    row.iter().skip(begin).all(|(number, _)| each(*number))
                }
                Several::Many { watches, .. } => {
                    watches.range((from, Bound::Unbounded)).all(|(number, _)| each(*number))
                }
            },
        }
    }
}

impl Several {
    fn many(row: Vec<(Number, Watch)>) -> Self {
        let is_recursive = |(_, watch): &&(Number, Watch)| watch.modes.has(Modes::RECURSIVE);
        let recursive = row.iter().filter(is_recursive).map(|(number, _)| *number).collect();
        Self::Many { watches: row.into_iter().collect(), recursive }
    }
}
