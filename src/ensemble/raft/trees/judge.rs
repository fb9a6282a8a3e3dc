//! Whose tree is right, by what the members answered.

use std::collections::{BTreeMap, VecDeque};

use crate::engine::zxid::Zxid;
use crate::ensemble::words::TreeDigest;

/// What was said last of a member's tree is kept, for members that answer late: some four minutes.
/// What the tree itself keeps is less often, and reaches further back.
const SAID_MAX: usize = 256;

/// What a leader knows of another member's tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeOf {
    pub(super) last: TreeDigest,
    /// What differed, oldest first: another member may answer for the same transaction only later.
    differing: VecDeque<TreeDigest>,
    /// After which transaction it was first seen to differ.
    pub(super) differs_from: Option<Zxid>,
    /// How often it has differed since.
    pub(super) words: u32,
    /// Whether it was told that it is wrong, or that nobody knows.
    pub(super) is_told: bool,
    pub(super) is_doubt_told: bool,
}

impl TreeOf {
    pub(super) const fn that_agrees(last: TreeDigest) -> Self {
        let differing = VecDeque::new();
        Self { last, differing, differs_from: None, words: 0, is_told: false, is_doubt_told: false }
    }

    /// Its member says that its tree is another one.
    pub(super) fn differs(&mut self, said: TreeDigest) {
        self.last = said;
        push(&mut self.differing, said);
        self.differs_from.get_or_insert(said.zxid);
        self.words = self.words.saturating_add(1);
    }
}

/// Keeps what was said, and forgets the oldest for it.
pub(super) fn push(said: &mut VecDeque<TreeDigest>, digest: TreeDigest) {
    if said.len() == SAID_MAX {
        said.pop_front();
    }
    said.push_back(digest);
}

/// Whose tree is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judged {
    /// What so many voters have, and the leader has not.
    pub(super) against: Option<TreeDigest>,
    /// These members have another than the right one.
    pub(super) wrong: Vec<u64>,
    /// These differ, and nobody knows.
    pub(super) open: Vec<u64>,
}

/// Judges as a leader that is one of the `voters`.
pub(super) fn judge(voters: &[u64], answers: &BTreeMap<u64, TreeOf>) -> Judged {
    let votes = |member: &u64| voters.contains(member);
    let differing = |member: &u64| answers[member].differs_from;
    let has_majority = |one: &TreeDigest| {
        let is_same = |its: &TreeOf| its.differing.contains(one);
        answers.iter().filter(|(member, its)| votes(member) && is_same(its)).count()
            > voters.len() / 2
    };
    // The last to answer completes the majority.
    let against = answers.values().map(|its| its.last).find(has_majority);
    let differ: Vec<u64> =
        answers.keys().copied().filter(|member| differing(member).is_some()).collect();
    let is_wrong = |member: &u64| {
        let since = differing(member).unwrap_or_default();
        voters.len() <= 2 || agree_with_leader(voters, answers, since)
    };
    let (wrong, open) = match against {
        Some(_) => (Vec::new(), Vec::new()),
        None => differ.into_iter().partition(is_wrong),
    };
    Judged { against, wrong, open }
}

/// Whether more than half of the `voters`, of which the leader is one, have its tree after this
/// transaction. A difference stays: so who has the same tree later on had it before.
pub(super) fn agree_with_leader(
    voters: &[u64],
    answers: &BTreeMap<u64, TreeOf>,
    zxid: Zxid,
) -> bool {
    let agrees = |(member, its): &(&u64, &TreeOf)| {
        voters.contains(*member) && its.differs_from.is_none() && its.last.zxid >= zxid
    };
    1 + answers.iter().filter(agrees).count() > voters.len() / 2
}

#[cfg(test)]
#[path = "judge_test.rs"]
mod judge_test;
