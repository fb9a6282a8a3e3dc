//! Whether all members have the same tree, and what becomes of one whose tree is another.
//!
//! The log is the same everywhere; what a machine's memory, disk or program made of it may not be.
//! So whoever leads says from time to time what digest its tree has after a transaction, and each
//! member answers with its own after the same one. Nobody is believed for leading: right is what
//! more than half of the voters have. Only where two vote nobody can tell, and the leader is, whose
//! tree every request was checked against: once a snapshot has shown that what it keeps of its tree
//! is what the tree is. A member whose own snapshot shows that it is not needs nobody to tell it.
//!
//! Who is told that its tree is wrong serves nobody and loads the leader's, once in the life of a
//! process. It goes on as a member: its log is right. It takes entries up to the end of its log
//! only, until all of that is final and durable, and asks for a snapshot then that shows it all: so
//! no entry that it has acknowledged goes with the log. If none comes, the log goes on for a while,
//! because others may need it, and then it asks again. A leader hands over first.

mod judge;

use std::collections::{BTreeMap, VecDeque};

use raft::eraftpb::{Message as PeerMessage, MessageType};
use raft::{ProgressState, StateRole};

use self::judge::{Judged, TreeOf, agree_with_leader, judge, push};
use super::member::{Member, Transport};
use super::{EnsembleError, server_of};
use crate::engine::database::Database;
use crate::engine::time::Monotonic;
use crate::engine::zxid::Zxid;
use crate::ensemble::snapshots::Drift;
use crate::ensemble::words::{PeerWord, TreeDigest, TreeVersion};
use crate::message::MessageId;

/// Ticks between two words of a leader on its tree.
const SAY_TICKS: u32 = 20;
/// Words of a member whose tree differs before it is told that nobody knows whose is right: the
/// others may be late.
const WORDS_UNDECIDED: u32 = 3;
/// Ticks for which a log is held the first time, and at most; each time in vain doubles it.
const HOLD_TICKS: u32 = 400;
const HOLD_TICKS_MAX: u32 = 16 * HOLD_TICKS;
/// So many times as long the log goes on then, before it is held again.
const GO_ON: u32 = 3;
/// Between two attempts to hand over.
const BETWEEN_ATTEMPTS_MS: u64 = 1000;

/// What a leader that is believed does before it says that another's tree is wrong: it looks at its
/// own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Look {
    #[default]
    None,
    /// A snapshot is wanted that shows at least that much.
    Wanted(Zxid),
    Done,
}

/// When a member with a wrong tree takes no further entries.
#[derive(Debug)]
struct Hold {
    /// Ticks since it began.
    ticks: u32,
    /// How long it lasts.
    length: u32,
}

impl Default for Hold {
    fn default() -> Self {
        Self { ticks: 0, length: HOLD_TICKS }
    }
}

impl Hold {
    const fn lasts(&self) -> bool {
        self.ticks < self.length
    }

    fn tick(&mut self) {
        self.ticks += 1;
        if self.ticks > self.length * (1 + GO_ON) {
            (self.ticks, self.length) = (0, HOLD_TICKS_MAX.min(2 * self.length));
        }
    }
}

/// What a member knows of its own tree and those of the others.
#[derive(Debug, Default)]
pub(super) struct Trees {
    /// What was said of its own, oldest first.
    said: VecDeque<TreeDigest>,
    /// What the leader said of a transaction that is not applied here yet, or not answered.
    asked: Option<(u64, TreeDigest)>,
    /// As a leader: what the others answered.
    answers: BTreeMap<u64, TreeOf>,
    /// Whether it has looked at its own, since others differ.
    look: Look,
    /// Ticks since the last word on it.
    ticks: u32,
    /// The leader from whose tree it differs, as far as was heard last.
    differs_from: Option<u64>,
    /// After which transaction it and another member's differed, where nobody has told since which
    /// of them is right. It outlasts the leader that said so.
    doubted_at: Option<Zxid>,
    /// It is not the one that the others have, and another one is to take its place.
    is_wrong: bool,
    hold: Hold,
    /// It was wrong before.
    was_wrong: Option<Zxid>,
    /// When this member last wanted to hand over for it.
    left: Monotonic,
    /// And to whom so far: another tree may be wrong, too, and its member hands over again.
    left_to: Vec<u64>,
}

fn of(database: &Database) -> Option<TreeDigest> {
    let digest = database.tree().digest()?;
    Some(TreeDigest { zxid: database.last_zxid(), version: TreeVersion::OWN, digest })
}

impl Trees {
    /// A transaction was applied: its digest is kept if the leader asked for it.
    pub(super) fn applied(&mut self, database: &Database) {
        if self.asked.is_some_and(|(_, asked)| asked.zxid == database.last_zxid()) {
            self.keep(database);
        }
    }

    /// The digest of now.
    fn keep(&mut self, database: &Database) -> Option<TreeDigest> {
        let own = of(database)?;
        if self.said.back() != Some(&own) {
            push(&mut self.said, own);
        }
        Some(own)
    }

    /// The own digest after a transaction of the past.
    fn own(&self, zxid: Zxid, database: &Database) -> Option<TreeDigest> {
        if let Some(own) = self.said.iter().rev().find(|own| own.zxid == zxid) {
            return Some(*own);
        }
        let (zxid, digest) = database.digests().find(|(its, _)| *its == zxid)?;
        Some(TreeDigest { zxid, version: TreeVersion::OWN, digest })
    }

    pub(super) fn lost(&mut self, peer: u64) {
        self.answers.remove(&peer);
        self.asked.take_if(|(by, _)| *by == peer);
        // Who comes back is compared again; until then it is as doubtful as it was.
        self.differs_from.take_if(|leader| *leader == peer);
    }

    pub(super) fn tick(&mut self) {
        self.ticks = self.ticks.saturating_add(1);
        if self.is_wrong {
            self.hold.tick();
        }
    }

    /// This member leads no more.
    pub(super) fn end_of_term(&mut self) {
        self.answers.clear();
        self.look = Look::None;
    }

    /// A snapshot of this tree is what was kept of it.
    pub(super) fn looked(&mut self, zxid: Zxid) {
        if matches!(self.look, Look::Wanted(wanted) if wanted <= zxid) {
            (self.look, self.doubted_at) = (Look::Done, None);
        }
    }

    /// It was compared with the leader's.
    fn compared(&mut self, zxid: Zxid, is_same: bool) {
        if is_same {
            // A difference stays: who has the same tree later on had it before.
            self.doubted_at.take_if(|since| *since <= zxid);
        } else {
            self.doubted_at = self.doubted_at.max(Some(zxid));
        }
    }

    /// As a leader: those of these members differ, and nobody knows yet which are right. If there
    /// are none, it is for the voters to say whether this one is.
    fn weigh(&mut self, undecided: &[u64], voters: &[u64]) {
        let Self { answers, doubted_at, .. } = self;
        let last = |member: &u64| answers.get(member).map(|its| its.last.zxid);
        match undecided.iter().filter_map(last).max() {
            Some(zxid) => *doubted_at = (*doubted_at).max(Some(zxid)),
            None => {
                let is_right = |since: &mut Zxid| agree_with_leader(voters, answers, *since);
                doubted_at.take_if(is_right);
            }
        }
    }

    /// Whether this member may be believed that these trees are `wrong`, with so many voters. If
    /// not, a snapshot is to show it.
    fn is_believed(&mut self, wrong: &[u64], voters: usize) -> bool {
        if voters > 2 {
            self.look = Look::None;
            return true;
        }
        let since = wrong.iter().filter_map(|member| self.answers.get(member)?.differs_from).max();
        self.look = match (since, self.look) {
            (None, _) => Look::None,
            (Some(since), Look::None) => Look::Wanted(since),
            (Some(_), look) => look,
        };
        self.look == Look::Done
    }

    /// Leadership goes to this member. When all were tried, it begins with the best again.
    fn leave_to(&mut self, to: u64) {
        if self.left_to.contains(&to) {
            self.left_to.clear();
        }
        self.left_to.push(to);
    }

    /// Whether it is wrong, or may be: it differed when it was last compared, and nobody has told
    /// which is right.
    pub(super) const fn is_doubted(&self) -> bool {
        self.is_wrong || self.doubted_at.is_some()
    }

    /// Another tree took the place of this one. Whether it was to be healed by that.
    fn replaced(&mut self) -> bool {
        self.said.clear();
        self.left_to.clear();
        (self.asked, self.differs_from, self.look) = (None, None, Look::None);
        self.doubted_at = None;
        std::mem::take(&mut self.is_wrong)
    }
}

impl<T: Transport> Member<T> {
    /// Whether the tree of this member is known to be wrong: nobody may be served from it.
    #[must_use]
    pub const fn has_wrong_tree(&self) -> bool {
        self.trees.is_wrong
    }

    /// Whether the tree of this member is not the leader's, and nobody has told yet which of them
    /// is right.
    #[must_use]
    pub fn has_doubtful_tree(&self) -> bool {
        self.trees.differs_from.is_some_and(|leader| leader == self.consensus.leader())
    }

    /// As a leader, says what its tree is, when it is time and there is something to compare: what
    /// stands still, or what every member keeps.
    pub(super) fn compare_trees(&mut self, now: Monotonic) {
        self.leave_wrong_tree(now);
        let trees = &mut self.trees;
        if self.requests.leading.is_none() || trees.is_wrong || trees.ticks < SAY_TICKS {
            return;
        }
        let log = &self.consensus.node.raft.raft_log;
        let database = self.applier.replica.shared();
        let own = if log.applied == log.last_index() {
            trees.keep(&database)
        } else {
            let kept = database.digests().last();
            kept.map(|(zxid, digest)| TreeDigest { zxid, version: TreeVersion::OWN, digest })
        };
        drop(database);
        let Some(own) = own else { return };
        trees.ticks = 0;
        let peers = self.consensus.node.raft.prs().iter().map(|(peer, _)| *peer);
        for peer in peers.filter(|peer| self.consensus.has_found(*peer)) {
            self.transport.say(peer, PeerWord::Tree(own));
        }
    }

    /// Takes the word of another member on its tree: of the leader, which wants to hear this
    /// member's, or as a leader, of one that answers.
    pub(super) fn heard_tree(&mut self, from: u64, said: TreeDigest) -> Result<(), EnsembleError> {
        if said.version != TreeVersion::OWN || self.trees.is_wrong {
            return Ok(());
        }
        if self.requests.leading.is_some() {
            return self.tree_of(from, said);
        }
        // One that lags goes on to what it was asked first.
        let waits = self.trees.asked.is_some_and(|(by, _)| by == from);
        if self.consensus.leader() == from && !waits {
            self.trees.asked = Some((from, said));
            self.answer_tree();
        }
        Ok(())
    }

    /// Tells the leader what this member's tree is after the transaction that it spoke of, if that
    /// is applied.
    pub(super) fn answer_tree(&mut self) {
        let Some((leader, said)) = self.trees.asked else { return };
        let database = self.applier.replica.shared();
        let last = database.last_zxid();
        if said.zxid > last {
            return;
        }
        let trees = &mut self.trees;
        trees.asked = None;
        let own =
            if said.zxid == last { trees.keep(&database) } else { trees.own(said.zxid, &database) };
        drop(database);
        // It may have gone further than it knows back.
        let Some(own) = own.filter(|_| self.consensus.node.raft.leader_id == leader) else {
            return;
        };
        let is_same = own.digest == said.digest;
        trees.differs_from = (!is_same).then_some(leader);
        trees.compared(said.zxid, is_same);
        self.transport.say(leader, PeerWord::Tree(own));
    }

    /// As a leader, takes what another member's tree is.
    fn tree_of(&mut self, from: u64, said: TreeDigest) -> Result<(), EnsembleError> {
        let Some(own) = self.trees.own(said.zxid, &self.applier.replica.shared()) else {
            return Ok(());
        };
        let answer = self.trees.answers.entry(from).or_insert_with(|| TreeOf::that_agrees(said));
        if own == said {
            *answer = TreeOf::that_agrees(said);
        } else {
            answer.differs(said);
        }
        self.judge_trees()
    }

    fn judge_trees(&mut self) -> Result<(), EnsembleError> {
        let voters: Vec<u64> =
            self.consensus.node.raft.prs().conf().voters().ids().iter().collect();
        let Judged { against, wrong, open } = judge(&voters, &self.trees.answers);
        if let Some(right) = against {
            let own = self.trees.own(right.zxid, &self.applier.replica.shared());
            return own
                .map_or(Ok(()), |own| self.found_wrong(own.zxid, Some(own.digest), right.digest));
        }
        let trees = &mut self.trees;
        let is_believed = trees.is_believed(&wrong, voters.len());
        let (wrong, unsaid) = if is_believed { (wrong, Vec::new()) } else { (Vec::new(), wrong) };
        let undecided = [&*open, &*unsaid].concat();
        trees.weigh(&undecided, &voters);
        for (members, is_wrong) in [(wrong, true), (open, false)] {
            for member in members {
                self.tell_of_tree(member, is_wrong);
            }
        }
        Ok(())
    }

    /// A member's tree is wrong, and it has to hear so; or it differs, and nobody knows whose is
    /// wrong.
    fn tell_of_tree(&mut self, member: u64, is_wrong: bool) {
        let Self { trees, applier, transport, .. } = self;
        let Some(zxid) = trees.answers.get(&member).map(|its| its.last.zxid) else { return };
        let Some(own) = trees.own(zxid, &applier.replica.shared()) else { return };
        let Some(answer) = trees.answers.get_mut(&member) else { return };
        let peer = server_of(member);
        let (its, here) = (Hex(answer.last.digest), Hex(own.digest));
        if is_wrong {
            transport.say(member, PeerWord::WrongTree(own));
        }
        match is_wrong {
            true if !answer.is_told => tracing::error!(
                id = %MessageId::TREE_OF_PEER_WRONG,
                peer, zxid = %answer.last.zxid, %its, %here,
                "the tree of another server is wrong: that server is told to load this one's"
            ),
            false if answer.words >= WORDS_UNDECIDED && !answer.is_doubt_told => tracing::error!(
                id = %MessageId::TREES_DIFFER,
                peer, zxid = %answer.last.zxid, %its, %here,
                "the tree of another server differs from this one's, and too few servers are \
                 present to tell which is right"
            ),
            _ => {}
        }
        // Once it is known whose is wrong, it is told again.
        answer.is_told |= is_wrong;
        answer.is_doubt_told |= answer.words >= WORDS_UNDECIDED;
    }

    /// The leader says that this member's tree is wrong, and what it should be after a
    /// transaction.
    pub(super) fn told_wrong_tree(
        &mut self,
        from: u64,
        right: TreeDigest,
    ) -> Result<(), EnsembleError> {
        if self.consensus.leader() != from
            || self.trees.is_wrong
            || right.version != TreeVersion::OWN
        {
            return Ok(());
        }
        let own = self.trees.own(right.zxid, &self.applier.replica.shared());
        // What was said of the tree before this one does not count.
        match own.filter(|own| own.digest != right.digest) {
            Some(own) => self.found_wrong(own.zxid, Some(own.digest), right.digest),
            None => Ok(()),
        }
    }

    /// A snapshot of this member's tree failed because the znodes are not what was kept of them.
    /// Who votes alone has nobody to load another from.
    ///
    /// # Errors
    /// Where its tree was wrong before.
    pub fn found_drifted(&mut self, drift: Drift) -> Result<(), EnsembleError> {
        let own = self.consensus.node.raft.id;
        let is_alone =
            self.consensus.node.raft.prs().conf().voters().ids().iter().all(|voter| voter == own);
        if self.trees.is_wrong || is_alone {
            return Ok(());
        }
        self.found_wrong(drift.zxid, drift.sum, drift.kept)
    }

    /// `found` is the digest of the znodes, if they have one.
    fn found_wrong(
        &mut self,
        zxid: Zxid,
        found: Option<i64>,
        expected: i64,
    ) -> Result<(), EnsembleError> {
        if let Some(before) = self.trees.was_wrong {
            return Err(EnsembleError::WrongTreeAgain { zxid, found, expected, before });
        }
        tracing::error!(
            id = %MessageId::TREE_WRONG,
            %zxid, found = found.map(|found| display(Hex(found))), expected = %Hex(expected),
            "the tree of this server is wrong: it serves no clients until it has loaded the \
             leader's"
        );
        let trees = &mut self.trees;
        (trees.is_wrong, trees.was_wrong) = (true, Some(zxid));
        trees.hold = Hold::default();
        trees.answers.clear();
        self.requests.serve_nobody();
        Ok(())
    }

    /// As a leader with a wrong tree, hands over: it decides nothing any more.
    fn leave_wrong_tree(&mut self, now: Monotonic) {
        let raft = &self.consensus.node.raft;
        let is_due = now.since(self.trees.left) >= BETWEEN_ATTEMPTS_MS;
        let leads = raft.state == StateRole::Leader && raft.lead_transferee.is_none();
        if !self.trees.is_wrong || !leads || !is_due {
            return;
        }
        self.trees.left = now;
        if let Some(to) = self.consensus.best_to_lead(&self.trees.left_to, &self.rooms) {
            self.trees.leave_to(to);
            self.consensus.hand_over(to);
            tracing::warn!(
                id = %MessageId::LEADER_LEAVES_TREE,
                to = server_of(to),
                "this server is the leader and its tree is wrong: it hands over leadership"
            );
        }
    }

    /// Takes out of a leader's message what would make the log longer, while that is to come to its
    /// end: the leader sends it again. Only after the first entry of the term, without which
    /// nothing becomes final.
    pub(super) fn hold_log(&self, message: &mut PeerMessage) {
        if self.trees.is_wrong
            && self.trees.hold.lasts()
            && message.get_msg_type() == MessageType::MsgAppend
            && self.is_of_term()
        {
            let last = self.consensus.node.raft.raft_log.last_index();
            message.entries.retain(|entry| entry.index <= last);
        }
    }

    /// As a leader, forgets that a member asked for a snapshot: who waits for one does not answer
    /// to a sign of life.
    pub(super) fn forget_asked(&mut self, message: &PeerMessage) {
        let raft = &mut self.consensus.node.raft;
        if raft.state == StateRole::Leader
            && message.get_msg_type() == MessageType::MsgHeartbeatResponse
            && message.term == raft.term
            && let Some(progress) = raft.mut_prs().get_mut(message.from)
            && progress.state != ProgressState::Snapshot
        {
            progress.pending_request_snapshot = 0;
        }
    }

    /// Whether the log ends with an entry of the present term.
    fn is_of_term(&self) -> bool {
        let raft = &self.consensus.node.raft;
        raft.raft_log.last_term() == raft.term
    }

    /// Asks the leader for its tree, if this member's is wrong and its log can give way. `is_free`
    /// tells that no snapshot of the wrong tree is on its way to the disk, where it might have the
    /// same name.
    pub fn reload(&mut self, is_free: bool) {
        let raft = &self.consensus.node.raft;
        if !self.trees.is_wrong || raft.state != StateRole::Follower || raft.leader_id == 0 {
            return;
        }
        let log = &raft.raft_log;
        let last = log.last_index();
        if raft.pending_request_snapshot != 0 {
            // A later leader needs its own first entry on a majority's disks before it can give
            // what was asked for. And who waits in vain goes on with its log: others may need it.
            if !self.is_of_term() || !self.trees.hold.lasts() {
                self.consensus.node.raft.pending_request_snapshot = 0;
            }
        } else if is_free
            && self.trees.hold.lasts()
            && self.is_of_term()
            && log.committed == last
            && log.persisted == last
            && self.consensus.unsynced.is_empty()
        {
            // Where it cannot be asked now, it is at the next turn.
            drop(self.consensus.node.request_snapshot());
        }
    }

    /// Whether a snapshot that came is one that was not asked for, and would take entries along
    /// that this member has.
    pub(super) fn is_too_old(&self, index: u64) -> bool {
        index < self.consensus.node.raft.pending_request_snapshot
    }

    /// Whether a member waits for a snapshot of this leader that shows more than the newest one,
    /// and it can be taken; or the leader itself, to look at its tree.
    #[must_use]
    pub fn is_asked_for_snapshot(&self) -> bool {
        let raft = &self.consensus.node.raft;
        let newest = self.consensus.node.store().snapshot_index();
        raft.state == StateRole::Leader
            && (matches!(self.trees.look, Look::Wanted(_))
                || raft.prs().iter().any(|(_, progress)| {
                    let wanted = progress.pending_request_snapshot;
                    progress.recent_active && wanted > newest && wanted <= self.consensus.applied()
                }))
    }

    /// Another tree took the place of this member's.
    pub(super) fn tree_replaced(&mut self, index: u64) {
        if self.trees.replaced() {
            let zxid = self.applier.replica.shared().last_zxid();
            tracing::info!(index, %zxid, "replaced the wrong tree with the leader's");
        }
    }
}

/// A digest as ZooKeeper shows it.
struct Hex(i64);

impl std::fmt::Display for Hex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
#[path = "trees_test.rs"]
mod trees_test;
