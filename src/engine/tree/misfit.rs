//! Transactions that do not fit the tree and are applied all the same, because other servers have
//! them.

use jute::ErrorCode;

use super::Impossible;
use crate::engine::zxid::Zxid;

/// A transaction that did not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// Which.
    pub zxid: Zxid,
    /// The first of it that did not.
    pub reason: Impossible,
    /// How many there were with this one.
    pub count: u64,
}

/// What of the transaction that was applied last does not fit, and how many did not.
#[derive(Debug, Default)]
pub(in crate::engine) struct Misfits {
    reason: Option<Impossible>,
    undone: Option<ErrorCode>,
    count: u64,
    news: Option<Misfit>,
}

impl Misfits {
    /// A transaction is to be applied.
    pub(in crate::engine) fn begin(&mut self) {
        (self.reason, self.undone) = (None, None);
    }

    /// It does not fit, and is done by its own numbers.
    pub(in crate::engine) fn add(&mut self, reason: Impossible) {
        self.reason.get_or_insert(reason);
    }

    /// It does not fit, and a part of it cannot be done.
    pub(in crate::engine) fn add_undone(&mut self, reason: Impossible) {
        let code = match reason {
            Impossible::NoNode(_) => ErrorCode::NoNode,
            Impossible::NodeExists(_) => ErrorCode::NodeExists,
            _ => ErrorCode::RuntimeInconsistency,
        };
        self.undone.get_or_insert(code);
        self.add(reason);
    }

    /// The end of a session is done whatever became of its znodes (`DataTree.deleteNodes`).
    pub(in crate::engine) const fn nothing_undone(&mut self) {
        self.undone = None;
    }

    /// It was applied. Whether it did not fit. News are the first, the second, the fourth and so
    /// on: a leader whose tree is wrong makes many of them.
    pub(in crate::engine) fn end(&mut self, zxid: Zxid) -> bool {
        let Some(reason) = self.reason.take() else { return false };
        self.count += 1;
        if self.count.is_power_of_two() {
            self.news = Some(Misfit { zxid, reason, count: self.count });
        }
        true
    }

    /// How many there were in a tree that this one takes the place of.
    pub(in crate::engine) const fn go_on_from(&mut self, before: &Self) {
        self.count += before.count;
    }

    pub(in crate::engine) const fn undone(&self) -> Option<ErrorCode> {
        self.undone
    }

    pub(in crate::engine) const fn take_news(&mut self) -> Option<Misfit> {
        self.news.take()
    }
}
